/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Arithmetic in floats of eight bits and fewer, which no target adds or multiplies, is done in f32 and rounded back after each instruction: that is how such
 * arithmetic is defined, so no bit changes and no rounding is lost. Movement, conversions, comparisons and choices work on the values as they are; products
 * keep their operands (matrix units take them) unless the result is that short itself. */
#include "passes_internal.h"

static bool is_short(const sn_shape *s) { return sn_shape_is_array(s) && sn_type_is_float(s->type) && sn_type_bits(s->type) <= 8; }

static bool needs_width(const sn_instr *i) {
  if (!sn_op_has(i->op, SN_T_ELTWISE) || i->n_control || i->n_operands == 0 || i->n_operands > 3 || i->n_called) return false;
  if (i->op == SN_OP_CONVERT || i->op == SN_OP_BITCAST_CONVERT || i->op == SN_OP_SELECT || i->op == SN_OP_REDUCE_PRECISION || i->op == SN_OP_COPY) return false;
  return is_short(i->shape) && sn_shape_is_static(i->shape);
}

sn_status sn_pass_float_normalize(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.is_applied[c->id]) continue; /* a reducer's type is that of its reduction */
    SN_FOR_INSTRS_SAFE(i, c) {
      if (!needs_width(i) || !sn_pass_may(pc)) continue;
      sn_builder b;
      sn_instr *xs[3];
      sn_builder_init_at(&b, pc->diag, i);
      for (uint32_t k = 0; k < i->n_operands; k++) {
        sn_instr *x = sn_instr_operand(i, k);
        xs[k] = is_short(x->shape) ? sn_build_convert(&b, x, SN_TYPE_F32) : x;
      }
      const sn_shape *s = sn_shape_with_type(m->arena, sn_shape_plain(m->arena, i->shape), SN_TYPE_F32);
      sn_instr *wide = s ? sn_build(&b, i->op, s, i->n_operands, xs, i->n_attrs, i->attrs, 0, NULL) : NULL;
      sn_instr *by = sn_build_convert(&b, wide, i->shape->type);
      SN_TRY(b.status);
      if (!by) return sn_out_of_memory(pc->diag, sizeof *s);
      SN_TRY(sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
