/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Arithmetic in floats of eight bits and fewer, which no target adds or multiplies, is done in f32 and rounded back after each instruction: that is how such
 * arithmetic is defined, so no bit changes and no rounding is lost. Movement, conversions, comparisons and choices work on the values as they are; products
 * keep their operands (matrix units take them) unless the result is that short itself.
 *
 * Products of f32 whose algorithm allows terms of bf16 stay as they are; what they run in, those where the machine takes less time for them or else f32, which is never less
 * exact, is said here, while they are single (passes/cost/precision.c: the lowering asks the same question). */
#include "passes_internal.h"
#include "sinter/cost.h"

static bool is_short(const sn_shape *s) { return sn_shape_is_array(s) && sn_type_is_float(s->type) && sn_type_bits(s->type) <= 8; }

static bool needs_width(const sn_instr *i) {
  if (!sn_op_has(i->op, SN_T_ELTWISE) || i->n_control || i->n_operands == 0 || i->n_operands > 3 || i->n_called) return false;
  if (i->op == SN_OP_CONVERT || i->op == SN_OP_BITCAST_CONVERT || i->op == SN_OP_SELECT || i->op == SN_OP_REDUCE_PRECISION || i->op == SN_OP_COPY) return false;
  return is_short(i->shape) && sn_shape_is_static(i->shape);
}

static void say_precision(sn_pass_ctx *pc, const sn_instr *i) {
  double time = sn_operand_shape(i, 0)->type == SN_TYPE_F32 || sn_operand_shape(i, 1)->type == SN_TYPE_F32 ? sn_dot_bf16_time(pc->target, i) : 0;
  if (time <= 0) return;
  bool narrow = sn_dot_runs_in_bf16(pc->target, i);
  sn_number numbers[2] = {{"products", sn_dot_bf16_products(i)}, {"time_of_f32", time}};
  sn_pass_remark(pc, narrow ? SN_DONE : SN_REFUSED, narrow ? SN_REASON_NARROW : SN_REASON_COST, i, NULL, 2, numbers, narrow ? "operands are rounded to bf16" : "runs in f32");
}

sn_status sn_pass_float_normalize(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.is_applied[c->id]) continue; /* a reducer's type is that of its reduction */
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op == SN_OP_DOT && pc->remarks) say_precision(pc, i);
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
