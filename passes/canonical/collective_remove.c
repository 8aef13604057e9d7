/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Collectives of a program that runs as one process: whoever asks all processes hears its own voice.
 *
 *   all-reduce, all-gather, reduce-scatter, all-to-all, collective-broadcast   the operands
 *   collective-permute                                                         the operand where 0 sends to 0, else zeros
 *   replica-id, partition-id                                                   0
 *
 * The -start forms give what their -done forms expect: a pair of operand and result, or the results themselves. */
#include "passes_internal.h"

static bool sends_to_itself(const sn_instr *i) {
  sn_ints pairs = sn_instr_ints(i, SN_ATTR_SOURCE_TARGET_PAIRS);
  for (int64_t k = 0; k + 1 < pairs.n; k += 2) {
    if (pairs.v[k] == 0 && pairs.v[k + 1] == 0) return true;
  }
  return false;
}

/* One operand as it is; several as a tuple. NULL: the shapes say that more processes were meant. */
static sn_instr *own_values(sn_builder *b, const sn_instr *i, const sn_shape *s) {
  sn_instr **xs = SN_NEW_N(sn_builder_arena(b), sn_instr *, i->n_operands + 1);
  if (!xs) {
    b->status = SN_ERR_MEMORY;
    return NULL;
  }
  bool tuple = sn_shape_is_tuple(s) && !(i->n_operands == 1 && sn_shape_is_tuple(sn_operand_shape(i, 0)));
  if (tuple ? (uint32_t)s->n_elements != i->n_operands : i->n_operands != 1) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    xs[k] = sn_instr_operand(i, k);
    if (!sn_shape_equal(xs[k]->shape, tuple ? s->elements[k] : s, 0)) return NULL;
  }
  return tuple ? sn_build_tuple(b, i->n_operands, xs) : xs[0];
}

static sn_instr *permuted(sn_builder *b, const sn_instr *i, const sn_shape *s) {
  sn_instr *x = own_values(b, i, s);
  return !x || sends_to_itself(i) ? x : sn_shape_is_array(s) ? sn_build_full_like(b, x, 0) : NULL;
}

/* (operand, result, …) for a -start whose -done takes element 1. */
static sn_instr *started(sn_builder *b, const sn_instr *i) {
  const sn_shape *s = i->shape;
  if (!sn_shape_is_tuple(s) || s->n_elements != 2 || i->n_operands != 1) return NULL;
  sn_instr *pair[2] = {sn_instr_operand(i, 0), i->op == SN_OP_COLLECTIVE_PERMUTE_START ? permuted(b, i, s->elements[1]) : own_values(b, i, s->elements[1])};
  return pair[1] ? sn_build_tuple(b, 2, pair) : NULL;
}

/* What stands for i; NULL: nothing. */
static sn_instr *alone(sn_builder *b, const sn_instr *i) {
  switch (i->op) {
    case SN_OP_REPLICA_ID:
    case SN_OP_PARTITION_ID: return sn_build_scalar_i64(b, SN_TYPE_U32, 0);
    case SN_OP_ALL_REDUCE:
    case SN_OP_ALL_REDUCE_START:
    case SN_OP_ALL_GATHER:
    case SN_OP_REDUCE_SCATTER:
    case SN_OP_ALL_TO_ALL:
    case SN_OP_COLLECTIVE_BROADCAST: return own_values(b, i, i->shape);
    case SN_OP_COLLECTIVE_PERMUTE: return permuted(b, i, i->shape);
    case SN_OP_ALL_GATHER_START:
    case SN_OP_COLLECTIVE_PERMUTE_START: return started(b, i);
    case SN_OP_ALL_REDUCE_DONE: return sn_instr_operand(i, 0);
    case SN_OP_ALL_GATHER_DONE:
    case SN_OP_COLLECTIVE_PERMUTE_DONE:
      return sn_shape_is_tuple(sn_operand_shape(i, 0)) && sn_instr_operand(i, 0)->op == SN_OP_TUPLE ? sn_build_get(b, sn_instr_operand(i, 0), 1) : NULL;
    default: return NULL;
  }
}

sn_status sn_pass_collective_remove(sn_pass_ctx *pc, sn_module *m) {
  if (m->replica_count > 1 || m->num_partitions > 1) return SN_OK;
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (!sn_op_has(i->op, (sn_trait)(SN_T_COLLECTIVE | SN_T_DEVICE | SN_T_START | SN_T_DONE)) || i->n_control) continue;
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, i);
      if (!sn_pass_may(pc)) return SN_OK;
      sn_instr *by = alone(&b, i);
      SN_TRY(b.status);
      if (!by) continue;
      SN_TRY(by->op == SN_OP_TUPLE || by->op == SN_OP_BROADCAST || by->op == SN_OP_CONSTANT || by->op == SN_OP_GET_TUPLE_ELEMENT ? sn_pass_replace(pc, i, by)
                                                                                                                                : sn_pass_forward(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
