/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Branches: one whose index is known becomes the body it takes; one whose bodies are all cheap and free of effects becomes selects over all of them. An index out of
 * range takes the last branch, and so does the rewrite. */
#include "passes_internal.h"

static bool is_pred(const sn_instr *c) { return sn_operand_shape(c, 0)->type == SN_TYPE_PRED; }

/* Which branch is taken for sure; -1: it depends. */
static int known_branch(const sn_instr *c) {
  int64_t index;
  int n = c->n_called;
  if (n == 1) return 0;
  if (!sn_instr_constant_i64(sn_instr_operand(c, 0), &index)) return -1;
  if (is_pred(c)) return index ? 0 : 1;
  return index < 0 || index >= n ? n - 1 : (int)index;
}

static sn_status inline_branch(sn_pass_ctx *pc, sn_instr *c, int branch, sn_instr **out) {
  sn_instr *arg = sn_instr_operand(c, (uint32_t)branch + 1);
  return sn_inline_before(pc, c, c->called[branch], &arg, out);
}

/* ---- selects ---- */

static bool selectable(const sn_shape *s) {
  if (!sn_shape_is_tuple(s)) return sn_shape_is_array(s) && sn_shape_is_static(s);
  for (int k = 0; k < s->n_elements; k++) {
    if (sn_shape_is_tuple(s->elements[k]) || !selectable(s->elements[k])) return false;
  }
  return true;
}

/* Both bodies run afterwards: only what costs less than a branch may. */
enum { MOST_ELEMENTS = 1 << 12, MOST_INSTRS = 24 };
static bool cheap_branches(const sn_instr *c) {
  for (uint16_t k = 0; k < c->n_called; k++) {
    if (c->called[k]->n_instrs > MOST_INSTRS || !sn_computation_is_cheap(c->called[k])) return false;
    SN_FOR_INSTRS(i, c->called[k]) {
      if (sn_shape_is_array(i->shape) && i->op != SN_OP_PARAMETER && sn_shape_elements(i->shape) > MOST_ELEMENTS) return false;
    }
  }
  return selectable(c->shape);
}

/* `taken ? x : y` for one array. */
static sn_instr *choose(sn_builder *b, sn_instr *taken, sn_instr *x, sn_instr *y) {
  return x ? sn_build_select(b, sn_build_broadcast_scalar(b, taken, x->shape), x, y) : NULL;
}
static sn_instr *choose_all(sn_builder *b, sn_instr *taken, sn_instr *x, sn_instr *y) {
  if (!sn_shape_is_tuple(x->shape)) return choose(b, taken, x, y);
  sn_list parts = {0};
  for (int k = 0; k < x->shape->n_elements && b->status == SN_OK; k++) {
    sn_status s = sn_list_push(&parts, choose(b, taken, sn_build_get(b, x, k), sn_build_get(b, y, k)));
    if (b->status == SN_OK) b->status = s;
  }
  sn_instr *t = b->status == SN_OK ? sn_build_tuple(b, (uint32_t)parts.n, parts.v) : NULL;
  sn_list_finish(&parts);
  return t;
}

static sn_status to_selects(sn_pass_ctx *pc, sn_instr *c, sn_instr **out) {
  int n = c->n_called;
  sn_instr *index = sn_instr_operand(c, 0), *result, *other;
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, c);
  if (is_pred(c)) {
    SN_TRY(inline_branch(pc, c, 0, &result));
    SN_TRY(inline_branch(pc, c, 1, &other));
    *out = choose_all(&b, index, result, other);
    return b.status;
  }
  SN_TRY(inline_branch(pc, c, n - 1, &result)); /* the last one also stands for indices out of range */
  for (int k = n - 1; k-- > 0;) {
    SN_TRY(inline_branch(pc, c, k, &other));
    sn_instr *taken = sn_build_compare(&b, SN_DIRECTION_EQ, index, sn_build_scalar_i64(&b, index->shape->type, k));
    result = choose_all(&b, taken, other, result);
    SN_TRY(b.status);
  }
  *out = result;
  return SN_OK;
}

/* ---- the pass ---- */

static bool all_equal(const sn_instr *c) { /* operands apart, every branch is the same */
  for (uint16_t k = 1; k < c->n_called; k++) {
    if (sn_instr_operand(c, k + 1u) != sn_instr_operand(c, 1) || !sn_computation_equal(c->called[0], c->called[k], 0)) return false;
  }
  return true;
}

static sn_status simplify(sn_pass_ctx *pc, sn_instr *c, const bool *effects) {
  int known = known_branch(c);
  sn_instr *by = NULL;
  if (known < 0 && all_equal(c)) known = 0;
  bool selects = known < 0 && !sn_instr_effect(c, effects) && cheap_branches(c);
  if ((known < 0 && !selects) || c->n_control || !sn_pass_may(pc)) return SN_OK;
  if (selects) SN_TRY(to_selects(pc, c, &by));
  else SN_TRY(inline_branch(pc, c, known, &by));
  sn_pass_remark(pc, SN_DONE, selects ? SN_REASON_CHEAP : SN_REASON_CONSTANT, c, NULL, 0, NULL, selects ? "all branches, then a select" : "one branch is always taken");
  SN_TRY(sn_pass_forward(pc, c, by));
  sn_instr_erase(c);
  return SN_OK;
}

sn_status sn_pass_conditional_simplify(sn_pass_ctx *pc, sn_module *m) {
  bool *effects = sn_effects(pc->scratch, m);
  if (!effects) return sn_out_of_memory(pc->diag, m->n_comp_ids);
  SN_FOR_COMPUTATIONS(c, m) { /* callees first: inner branches are gone when the outer one is looked at */
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op == SN_OP_CONDITIONAL) SN_TRY(simplify(pc, i, effects));
    }
  }
  return SN_OK;
}
