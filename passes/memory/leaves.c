/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Values behind tuples, and which op may write over what it reads. */
#include "leaves.h"

#include <string.h>

int sn_leaf_offset(const sn_shape *tuple, int64_t index) {
  int at = 0;
  for (int64_t k = 0; k < index; k++) at += (int)sn_shape_leaves(tuple->elements[k]);
  return at;
}

int sn_leaf_at(const sn_shape *s, sn_ints index) {
  int at = 0;
  for (int64_t k = 0; k < index.n; k++) {
    at += sn_leaf_offset(s, index.v[k]);
    s = s->elements[index.v[k]];
  }
  return at;
}

bool sn_is_rename(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_BITCAST:
    case SN_OP_OPT_BARRIER:
    case SN_OP_DOMAIN:
    case SN_OP_ADD_DEPENDENCY: return true;
    case SN_OP_RESHAPE: return sn_layout_is_default(i->shape->layout) && sn_layout_is_default(sn_operand_shape(i, 0)->layout);
    default: return false;
  }
}

sn_leaf_value sn_leaf_source(const sn_instr *i, int leaf) {
  for (;;) {
    switch (i->op) {
      case SN_OP_TUPLE: {
        uint32_t k = 0;
        while (leaf >= sn_shape_leaves(sn_operand_shape(i, k))) leaf -= (int)sn_shape_leaves(sn_operand_shape(i, k++));
        i = sn_instr_operand(i, k);
        break;
      }
      case SN_OP_GET_TUPLE_ELEMENT:
        leaf += sn_leaf_offset(sn_operand_shape(i, 0), sn_instr_int(i, SN_ATTR_INDEX));
        i = sn_instr_operand(i, 0);
        break;
      default:
        if (!sn_is_rename(i)) return (sn_leaf_value){i, leaf};
        i = sn_instr_operand(i, 0);
    }
  }
}

/* From a parameter of a fusion to its root by elementwise steps alone. An explicit stack: bodies are as deep as they are. */
static bool elementwise_to_root(const sn_computation *c, const sn_instr *param) {
  uint32_t n = 0, cap = c->n_instrs + 1;
  const sn_instr **stack = sn_alloc_zero(cap, sizeof *stack);
  uint8_t *seen = sn_alloc_zero(c->module->n_ids + 1u, 1);
  bool ok = stack && seen;
  if (ok) stack[n++] = param;
  while (ok && n > 0) {
    const sn_instr *i = stack[--n];
    SN_FOR_USES(u, i) {
      const sn_instr *user = u->user;
      if (user->op == SN_OP_TUPLE && user == c->root) continue;
      ok &= sn_op_has(user->op, SN_T_ELTWISE) && user->shape->rank == param->shape->rank &&
            (param->shape->rank == 0 || memcmp(user->shape->dims, param->shape->dims, (size_t)param->shape->rank * sizeof *param->shape->dims) == 0);
      if (ok && !seen[user->id]) {
        seen[user->id] = 1;
        stack[n++] = user;
      }
    }
  }
  sn_free(stack);
  sn_free(seen);
  return ok;
}

bool sn_in_place_ok(const sn_instr *i, uint32_t k, int leaf) {
  const sn_shape *x = sn_operand_shape(i, k), *r = sn_shape_leaf(i->shape, leaf);
  if (!sn_shape_is_array(x) || sn_type_bytes(x->type) != sn_type_bytes(r->type) || !sn_shape_equal(x, r, SN_EQ_LAYOUT | SN_EQ_IGNORE_TYPE)) return false;
  if (i->op == SN_OP_COPY || sn_op_has(i->op, SN_T_ELTWISE)) return true;
  if (i->op != SN_OP_FUSION) return false;
  /* Results of other shapes come from other loops, which may read the operand after it was written. */
  for (int64_t l = 0; l < sn_shape_leaves(i->shape); l++) {
    if (!sn_shape_equal(sn_shape_leaf(i->shape, l), r, SN_EQ_IGNORE_TYPE)) return false;
  }
  for (uint32_t o = 0; o < i->n_operands; o++) {
    if (sn_instr_operand(i, o) == sn_instr_operand(i, k) && !elementwise_to_root(i->called[0], i->called[0]->params[o])) return false;
  }
  return true;
}
