/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Steps of rewriting that many passes share. */
#include "passes_internal.h"

bool *sn_effects(sn_arena *a, const sn_module *m) {
  bool *effect = SN_NEW_N(a, bool, m->n_comp_ids + 1u);
  if (!effect) return NULL;
  SN_FOR_COMPUTATIONS(c, m) { /* callees first */
    SN_FOR_INSTRS(i, c) {
      if (effect[c->id]) break;
      effect[c->id] = sn_instr_effect(i, effect);
    }
  }
  return effect;
}

bool sn_instr_effect(const sn_instr *i, const bool *effects) {
  if (sn_op_has(i->op, (sn_trait)(SN_T_EFFECT | SN_T_COLLECTIVE))) return true;
  if (i->op == SN_OP_CUSTOM_CALL) return sn_instr_bool(i, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT);
  if (!sn_op_has(i->op, SN_T_CALLS)) return false;
  for (uint16_t k = 0; k < i->n_called; k++) {
    if (effects[i->called[k]->id]) return true;
  }
  return false;
}

bool sn_pass_droppable(const sn_instr *i, const bool *effects) {
  return !i->n_uses && !sn_instr_is_root(i) && i->op != SN_OP_PARAMETER && !sn_instr_effect(i, effects);
}

/* Operands that lose their last use go too. One that stands several times on the stack is met unlinked the second time. */
sn_status sn_pass_drop(sn_pass_ctx *pc, sn_instr *i, const bool *effects, int64_t *n_dropped) {
  sn_list stack = {0};
  sn_status s = sn_list_push(&stack, i);
  while (s == SN_OK && stack.n) {
    sn_instr *dead = sn_list_pop(&stack);
    if (!sn_instr_is_linked(dead) || !sn_pass_droppable(dead, effects)) continue;
    sn_instr_erase(dead);
    pc->changed = true;
    if (n_dropped) ++*n_dropped;
    for (uint32_t k = dead->n_operands; k-- > 0 && s == SN_OK;) {
      sn_instr *def = dead->operands[k].def; /* the slot still says who it was */
      if (sn_pass_droppable(def, effects)) s = sn_list_push(&stack, def);
    }
  }
  sn_list_finish(&stack);
  return s == SN_OK ? SN_OK : sn_out_of_memory(pc->diag, sizeof(sn_instr *));
}

sn_status sn_list_push(sn_list *l, sn_instr *i) {
  if (l->n == l->cap) {
    size_t cap = l->cap ? 2 * l->cap : 64;
    sn_instr **v = sn_realloc(l->v, cap * sizeof *v);
    if (!v) return SN_ERR_MEMORY;
    l->v = v;
    l->cap = cap;
  }
  l->v[l->n++] = i;
  return SN_OK;
}

void sn_list_finish(sn_list *l) {
  sn_free(l->v);
  l->v = NULL;
  l->n = l->cap = 0;
}

sn_status sn_pass_forward(sn_pass_ctx *pc, sn_instr *i, sn_instr *by) {
  sn_assert(sn_shape_equal(i->shape, by->shape, 0));
  sn_instr_replace_uses(i, by);
  pc->changed = true;
  return SN_OK;
}

sn_status sn_pass_replace(sn_pass_ctx *pc, sn_instr *i, sn_instr *by) {
  SN_TRY(sn_instr_copy_notes(by, i));
  if (i->shape->layout && !by->shape->layout) sn_instr_set_shape(by, i->shape);
  return sn_pass_forward(pc, i, by);
}

sn_status sn_marks_init(sn_arena *a, const sn_computation *c, sn_marks *out) {
  uint32_t lo = UINT32_MAX, hi = 0;
  SN_FOR_INSTRS(i, c) {
    lo = i->id < lo ? i->id : lo;
    hi = i->id > hi ? i->id : hi;
  }
  out->base = lo <= hi ? lo : 0;
  out->v = sn_arena_zero(a, lo <= hi ? (size_t)(hi - lo) + 1 : 1, 1);
  return out->v ? SN_OK : SN_ERR_MEMORY;
}
