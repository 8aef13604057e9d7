/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tuples that are made only to be taken apart: get-tuple-element(tuple(…)) is the element; tuple(get-tuple-element(x, 0…n)) is x.
 * One walk in order: operands are simple already when their reader is met. Roots of loops and branches stay tuples made for them: loop passes look for that. */
#include "passes_internal.h"

static sn_instr *whole_of(const sn_instr *tuple) {
  sn_instr *x = NULL;
  if (tuple->op != SN_OP_TUPLE || tuple->n_operands == 0 || sn_instr_is_root(tuple) || tuple->sharding) return NULL;
  for (uint32_t k = 0; k < tuple->n_operands; k++) {
    const sn_instr *get = sn_instr_operand(tuple, k);
    if (get->op != SN_OP_GET_TUPLE_ELEMENT || sn_instr_int(get, SN_ATTR_INDEX) != k) return NULL;
    if (k && sn_instr_operand(get, 0) != x) return NULL;
    x = sn_instr_operand(get, 0);
  }
  return sn_shape_equal(x->shape, tuple->shape, SN_EQ_LAYOUT) ? x : NULL;
}

static sn_instr *simpler(const sn_instr *i) {
  if (i->op == SN_OP_TUPLE) return whole_of(i);
  if (i->op != SN_OP_GET_TUPLE_ELEMENT || sn_instr_operand(i, 0)->op != SN_OP_TUPLE) return NULL;
  return sn_instr_operand(sn_instr_operand(i, 0), (uint32_t)sn_instr_int(i, SN_ATTR_INDEX));
}

sn_status sn_pass_tuple_simplify(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      sn_instr *by = simpler(i);
      if (!by || !sn_shape_equal(i->shape, by->shape, 0) || i->n_control || !sn_pass_may(pc)) continue;
      SN_TRY(sn_pass_forward(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
