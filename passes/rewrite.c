/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Steps of rewriting that many passes share. */
#include "passes_internal.h"

#include <math.h>
#include <string.h>

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

/* ---- copying a body ---- */

typedef struct copies { uint32_t base; sn_instr **v; } copies;

static sn_status copies_init(sn_pass_ctx *pc, const sn_computation *c, copies *out) {
  uint32_t lo = UINT32_MAX, hi = 0;
  SN_FOR_INSTRS(i, c) {
    lo = i->id < lo ? i->id : lo;
    hi = i->id > hi ? i->id : hi;
  }
  out->base = lo <= hi ? lo : 0;
  out->v = sn_alloc_zero(lo <= hi ? (size_t)(hi - lo) + 1 : 1, sizeof *out->v);
  return out->v ? SN_OK : sn_out_of_memory(pc->diag, sizeof *out->v);
}

static sn_status copy_one(const copies *x, const sn_instr *i, sn_instr *before, sn_list *operands) {
  operands->n = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) SN_TRY(sn_list_push(operands, x->v[sn_instr_operand(i, k)->id - x->base]));
  sn_instr *copy;
  SN_TRY(sn_instr_clone(i, before->parent, i->n_operands ? operands->v : NULL, NULL, &copy));
  sn_instr_move_before(copy, before);
  if (!copy->metadata && before->metadata) sn_instr_set_metadata(copy, before->metadata);
  for (uint16_t k = 0; k < i->n_control; k++) {
    sn_instr *from = x->v[i->control[k]->id - x->base];
    if (from->parent == copy->parent) SN_TRY(sn_instr_add_control(copy, from));
  }
  x->v[i->id - x->base] = copy;
  return SN_OK;
}

sn_status sn_inline_before(sn_pass_ctx *pc, sn_instr *before, const sn_computation *c, sn_instr *const *args, sn_instr **out) {
  *out = NULL;
  copies x;
  SN_TRY(copies_init(pc, c, &x));
  sn_list operands = {0};
  sn_status s = SN_OK;
  for (const sn_instr *i = c->first; i && s == SN_OK; i = i->next) {
    if (i->op == SN_OP_PARAMETER) x.v[i->id - x.base] = args[sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER)];
    else s = copy_one(&x, i, before, &operands);
  }
  if (s == SN_OK) *out = x.v[c->root->id - x.base];
  pc->changed = true;
  sn_list_finish(&operands);
  sn_free(x.v);
  return s;
}

/* ---- looking ---- */

bool sn_computation_is_cheap(const sn_computation *c) {
  SN_FOR_INSTRS(i, c) {
    if (sn_op_has(i->op, SN_T_ELTWISE) || sn_op_has(i->op, SN_T_FREE) || i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE) {
      if (!sn_op_has(i->op, (sn_trait)(SN_T_TOKEN | SN_T_BARRIER | SN_T_EFFECT))) continue;
    }
    return false;
  }
  return true;
}

bool sn_instr_constant_i64(const sn_instr *i, int64_t *out) {
  while (i->op == SN_OP_BROADCAST || (i->op == SN_OP_RESHAPE && sn_shape_elements(i->shape) == 1)) i = sn_instr_operand(i, 0);
  if (i->op != SN_OP_CONSTANT || !sn_shape_is_array(i->shape) || sn_shape_elements(i->shape) != 1) return false;
  if (!sn_type_is_integer(i->shape->type) && i->shape->type != SN_TYPE_PRED) return false;
  sn_array *l = sn_instr_literal(i);
  if (!l) return false;
  *out = sn_load_i64(i->shape->type, sn_array_data(l));
  return true;
}

/* A literal of which every element has the bytes of the first. */
static bool literal_is_uniform(const sn_array *l) {
  size_t each = sn_type_bytes(sn_array_shape(l)->type), n = sn_array_bytes(l);
  const char *p = sn_array_data(l);
  return each && n >= each && n <= 4096 && memcmp(p, p + each, n - each) == 0; /* small ones: big ones are asked too often */
}

bool sn_instr_is_all(const sn_instr *i, double v) {
  while (i->op == SN_OP_BROADCAST) i = sn_instr_operand(i, 0);
  if (i->op != SN_OP_CONSTANT || !sn_shape_is_array(i->shape)) return false;
  sn_array *l = sn_instr_literal(i);
  if (!l || sn_array_bytes(l) == 0 || !literal_is_uniform(l)) return false;
  sn_type t = i->shape->type;
  if (sn_type_is_complex(t)) {
    double re, im;
    sn_load_c128(t, sn_array_data(l), &re, &im);
    return re == v && im == 0 && signbit(re) == signbit(v) && !signbit(im);
  }
  double x = sn_load_f64(t, sn_array_data(l));
  return x == v && (!sn_type_is_float(t) || signbit(x) == signbit(v));
}

const sn_shape *sn_shape_plain(sn_arena *a, const sn_shape *s) {
  if (!sn_shape_is_tuple(s)) return s->layout ? sn_shape_with_layout(a, s, NULL) : s;
  bool same = true;
  const sn_shape **v = SN_NEW_N(a, const sn_shape *, s->n_elements + 1);
  for (int k = 0; v && k < s->n_elements; k++) {
    v[k] = sn_shape_plain(a, s->elements[k]);
    if (!v[k]) return NULL;
    same &= v[k] == s->elements[k];
  }
  return !v || same ? (v ? s : NULL) : sn_shape_tuple(a, s->n_elements, v);
}
