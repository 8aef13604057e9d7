/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Arrays without elements: nothing is computed for them. A result without elements becomes a broadcast of a scalar; a result that has elements although an operand
 * has none is what the op says of nothing: the start value of a reduction, the padding of a pad, zero of a product, the base of an update. */
#include "passes_internal.h"

static bool empty(const sn_shape *s) { return sn_shape_is_array(s) && sn_shape_elements(s) == 0 && sn_shape_is_static(s); }

static bool is_empty_source(const sn_instr *i) { /* what an empty array is made of, and what must stay itself */
  return i->op == SN_OP_PARAMETER || i->op == SN_OP_GET_TUPLE_ELEMENT || (i->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_operand_shape(i, 0))) ||
         (i->op == SN_OP_CONSTANT);
}

/* The operands of a concatenation that have elements. */
static sn_instr *concatenate_rest(sn_builder *b, const sn_instr *i) {
  sn_list kept = {0};
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!empty(sn_operand_shape(i, k)) && sn_list_push(&kept, sn_instr_operand(i, k)) != SN_OK) b->status = SN_ERR_MEMORY;
  }
  sn_instr *made = NULL;
  if (b->status == SN_OK && kept.n == 1) made = kept.v[0];
  else if (b->status == SN_OK && kept.n < i->n_operands) made = sn_build_concatenate(b, (uint32_t)kept.n, kept.v, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]);
  sn_list_finish(&kept);
  return made;
}

static sn_instr *of_nothing(sn_builder *b, const sn_instr *i) {
  if (i->n_operands == 0 || !sn_shape_is_array(i->shape)) return NULL;
  switch (i->op) {
    case SN_OP_CONCATENATE: return concatenate_rest(b, i);
    case SN_OP_DYNAMIC_UPDATE_SLICE: return empty(sn_operand_shape(i, 1)) ? sn_instr_operand(i, 0) : NULL;
    case SN_OP_SCATTER: return i->n_operands == 3 && empty(sn_operand_shape(i, 2)) ? sn_instr_operand(i, 0) : NULL;
    default: break;
  }
  if (!empty(sn_operand_shape(i, 0)) && !(i->n_operands > 1 && empty(sn_operand_shape(i, 1)))) return NULL;
  switch (i->op) {
    case SN_OP_REDUCE:
    case SN_OP_REDUCE_WINDOW: return i->n_operands == 2 ? sn_build_broadcast_scalar(b, sn_instr_operand(i, 1), i->shape) : NULL;
    case SN_OP_PAD: return sn_build_broadcast_scalar(b, sn_instr_operand(i, 1), i->shape);
    case SN_OP_DOT:
    case SN_OP_CONVOLUTION: return sn_build_full(b, i->shape, 0);
    default: return NULL;
  }
}

sn_status sn_pass_zero_size(sn_pass_ctx *pc, sn_module *m) {
  bool *effects = sn_effects(pc->scratch, m);
  if (!effects) return sn_out_of_memory(pc->diag, m->n_comp_ids);
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->n_control || sn_instr_effect(i, effects) || sn_op_has(i->op, (sn_trait)(SN_T_START | SN_T_DONE | SN_T_TOKEN)) || !sn_shape_is_static(i->shape)) continue;
      if (pc->applications_left <= 0) return SN_OK;
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, i);
      sn_instr *by = NULL;
      if (empty(i->shape)) by = is_empty_source(i) ? NULL : sn_build_full(&b, i->shape, 0);
      else by = of_nothing(&b, i);
      SN_TRY(b.status);
      if (!by || !sn_pass_may(pc)) continue;
      SN_TRY(by->n_uses ? sn_pass_forward(pc, i, by) : sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
