/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A reduction of dimensions that are neither the last ones nor the first ones (the bias gradient of a transposed product: dims {0,2} of [batch, features, rows]) walks
 * memory in strides, one result at a time. Two reductions do not: first the last dimensions, row by row, then the rest, which is small by then.
 *
 *   reduce(x, init, {0,2}, op)  =  reduce(reduce(x, identity, {2}, op), init, {0}, op)
 *
 * Sums are regrouped. */
#include "../passes_internal.h"

enum { LEAST_ELEMENTS = 4096 };

/* How many of the last dimensions are reduced. */
static int trailing_dims(const sn_instr *i, uint64_t set) {
  int rank = sn_operand_shape(i, 0)->rank, n = 0;
  while (n < rank && set >> (rank - 1 - n) & 1) n++;
  return n;
}

static uint64_t dims_of(const sn_instr *i) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  uint64_t set = 0;
  for (int64_t k = 0; k < dims.n; k++) set |= UINT64_C(1) << dims.v[k];
  return set;
}

/* Does starting twice from the same value change nothing? Sums start from zero the first time. */
static bool splittable_op(const sn_instr *i, sn_opcode *op) {
  if (i->n_operands != 2 || !sn_shape_is_array(i->shape) || !sn_computation_is_binary(i->called[0], op)) return false;
  sn_type t = i->shape->type;
  if (*op == SN_OP_ADD && sn_type_is_float(t) && sn_type_bits(t) < 32) return false; /* partial sums would be rounded to few bits */
  return *op == SN_OP_ADD || *op == SN_OP_MAXIMUM || *op == SN_OP_MINIMUM || *op == SN_OP_AND || *op == SN_OP_OR;
}

static bool applies(const sn_instr *i, sn_opcode *op, int *n_last) {
  if (i->op != SN_OP_REDUCE || !splittable_op(i, op) || i->n_control) return false;
  const sn_shape *x = sn_operand_shape(i, 0);
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  *n_last = trailing_dims(i, dims_of(i));
  return *n_last > 0 && *n_last < dims.n && sn_shape_elements(x) >= LEAST_ELEMENTS;
}

static sn_status split(sn_pass_ctx *pc, sn_instr *i, sn_opcode op, int n_last) {
  sn_builder b;
  sn_instr *x = sn_instr_operand(i, 0), *init = sn_instr_operand(i, 1);
  int64_t last[SN_MAX_RANK], rest[SN_MAX_RANK];
  int rank = x->shape->rank, n_rest = 0;
  uint64_t set = dims_of(i);
  sn_builder_init_at(&b, pc->diag, i);
  for (int k = 0; k < n_last; k++) last[k] = rank - n_last + k;
  for (int k = 0; k < rank - n_last; k++) {
    if (set >> k & 1) rest[n_rest++] = k;
  }
  sn_attr first = sn_attr_ints(SN_ATTR_DIMENSIONS, n_last, last), second = sn_attr_ints(SN_ATTR_DIMENSIONS, n_rest, rest);
  sn_instr *from = op == SN_OP_ADD ? sn_build_scalar(&b, i->shape->type, 0) : init;
  sn_instr *xs[2] = {x, from};
  sn_instr *rows = sn_build(&b, SN_OP_REDUCE, NULL, 2, xs, 1, &first, 1, i->called);
  sn_instr *ys[2] = {rows, init};
  sn_instr *all = rows ? sn_build(&b, SN_OP_REDUCE, i->shape, 2, ys, 1, &second, 1, i->called) : NULL;
  if (!all) return b.status == SN_ERR_MEMORY ? sn_out_of_memory(pc->diag, sizeof *all) : b.status;
  sn_number numbers[] = {{"elements", (double)sn_shape_elements(x->shape)}, {"rows", (double)sn_shape_elements(rows->shape)}};
  sn_pass_remark(pc, SN_DONE, SN_REASON_STRIDES, i, NULL, 2, numbers, NULL);
  return sn_pass_replace(pc, i, all);
}

sn_status sn_pass_reduce_split(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id] || g.is_applied[c->id]) continue;
    SN_FOR_INSTRS_SAFE(i, c) {
      sn_opcode op;
      int n_last;
      if (!applies(i, &op, &n_last) || !sn_pass_may(pc)) continue;
      SN_TRY(split(pc, i, op, n_last));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
