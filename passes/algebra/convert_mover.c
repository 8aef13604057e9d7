/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Conversions stand where the data they cross is narrow: a widening one sinks below movement, a narrowing one rises above it. The same elements are converted (or
 * fewer), so every bit stays; half the bytes are moved. Kept apart from `reshape-mover`, which moves what these conversions move through. */
#include "../passes_internal.h"

#include "rules.h"

static bool moves_elements(const sn_instr *i) {
  return i->op == SN_OP_RESHAPE || i->op == SN_OP_TRANSPOSE || i->op == SN_OP_SLICE || i->op == SN_OP_REVERSE || i->op == SN_OP_DYNAMIC_SLICE || i->op == SN_OP_GATHER;
}
static bool plain(const sn_instr *i) { return !i->n_control && !i->sharding && sn_shape_is_static(i->shape) && !sn_instr_frontend(i, "sinter.remat"); }

static sn_instr *move_again(sn_builder *b, const sn_instr *move, sn_instr *x) {
  sn_instr *xs[SN_MAX_RANK + 2] = {x};
  if (move->n_operands > SN_MAX_RANK + 2) return NULL;
  for (uint32_t k = 1; k < move->n_operands; k++) xs[k] = sn_in(move, k);
  const sn_shape *s = sn_shape_with_type(sn_builder_arena(b), sn_shape_plain(sn_builder_arena(b), move->shape), x ? x->shape->type : SN_TYPE_F32);
  return sn_build(b, move->op, s, move->n_operands, xs, move->n_attrs, move->attrs, 0, NULL);
}

/* move(widen(x)) -> widen(move(x)) */
static sn_instr *sink_widening(sn_builder *b, sn_instr *i) {
  sn_instr *c = sn_in(i, 0), *x = c->n_operands ? sn_in(c, 0) : NULL;
  if (!moves_elements(i) || c->op != SN_OP_CONVERT || !plain(c) || sn_instr_has_users(c, 2)) return NULL;
  if (sn_type_bits(c->shape->type) <= sn_type_bits(x->shape->type)) return NULL;
  return sn_build_convert(b, move_again(b, i, x), i->shape->type);
}

/* narrow(move(x)) -> move(narrow(x)), where the move keeps all elements. */
static sn_instr *raise_narrowing(sn_builder *b, sn_instr *i) {
  sn_instr *move = i->n_operands ? sn_in(i, 0) : NULL;
  if (i->op != SN_OP_CONVERT || !moves_elements(move) || !plain(move) || sn_instr_has_users(move, 2)) return NULL;
  sn_instr *x = sn_in(move, 0);
  if (sn_type_bits(i->shape->type) >= sn_type_bits(x->shape->type) || sn_shape_elements(x->shape) > sn_shape_elements(i->shape)) return NULL;
  return move_again(b, move, sn_build_convert(b, x, i->shape->type));
}

sn_status sn_pass_convert_mover(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id]) continue;
    SN_FOR_INSTRS_SAFE(i, c) {
      if (!plain(i) || !i->n_operands) continue;
      if (pc->applications_left <= 0) return SN_OK;
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, i);
      sn_instr *by = i->op == SN_OP_CONVERT ? raise_narrowing(&b, i) : sink_widening(&b, i);
      SN_TRY(b.status);
      if (!by || !sn_pass_may(pc)) continue;
      SN_TRY(sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
