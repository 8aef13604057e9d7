/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Elements of a loop's state: which are alive, and taking the others out.
 *
 * An element is alive when it is read outside, by the condition, by an effect in the body, or by the next value of an element that is alive. The rest
 * (counters of a loop whose result nobody wants, saved values nobody reads back) feed only themselves. */
#include "passes_internal.h"

static bool only_taken_apart(const sn_instr *tuple) {
  SN_FOR_USES(u, tuple) {
    if (u->user->op != SN_OP_GET_TUPLE_ELEMENT) return false;
  }
  return !sn_instr_is_root(tuple);
}

bool sn_while_is_plain(const sn_instr *w, const sn_call_graph *g) {
  const sn_computation *cond = w->called[0], *body = w->called[1];
  if (w->op != SN_OP_WHILE || !sn_shape_is_tuple(w->shape) || cond == body) return false;
  if (g->n_callers[cond->id] != 1 || g->n_callers[body->id] != 1) return false;
  if (body->root->op != SN_OP_TUPLE || body->root->n_uses || w->sharding || body->root->sharding) return false;
  return only_taken_apart(w) && only_taken_apart(cond->params[0]) && only_taken_apart(body->params[0]);
}

/* ---- which are alive ---- */

typedef struct liveness {
  const sn_computation *body;
  bool *live;    /* by element */
  sn_marks seen; /* instructions of the body whose operands were looked at */
  sn_list todo;
} liveness;

static void live_readers(liveness *l, const sn_instr *tuple) {
  SN_FOR_USES(u, tuple) l->live[sn_instr_int(u->user, SN_ATTR_INDEX)] = true;
}

static sn_status reach(liveness *l, sn_instr *i) {
  uint8_t *mark = sn_mark(&l->seen, i);
  if (*mark) return SN_OK;
  *mark = 1;
  return sn_list_push(&l->todo, i);
}

static sn_status reach_element(liveness *l, int64_t k) {
  l->live[k] = true;
  return reach(l, sn_instr_operand(l->body->root, (uint32_t)k));
}

static sn_status spread(liveness *l) {
  while (l->todo.n) {
    sn_instr *i = sn_list_pop(&l->todo);
    for (uint32_t k = 0; k < i->n_operands; k++) {
      sn_instr *def = sn_instr_operand(i, k);
      if (def == l->body->params[0]) SN_TRY(reach_element(l, sn_instr_int(i, SN_ATTR_INDEX)));
      else SN_TRY(reach(l, def));
    }
    for (uint16_t k = 0; k < i->n_control; k++) SN_TRY(reach(l, i->control[k]));
  }
  return SN_OK;
}

static sn_status find_live(liveness *l, const sn_instr *w, const bool *effects) {
  live_readers(l, w);
  live_readers(l, w->called[0]->params[0]);
  SN_FOR_INSTRS(i, l->body) {
    if (sn_instr_effect(i, effects)) SN_TRY(reach(l, i));
  }
  for (int k = 0; k < w->shape->n_elements; k++) {
    if (l->live[k]) SN_TRY(reach_element(l, k));
  }
  return spread(l);
}

/* ---- taking the others out ---- */

static const sn_shape *kept_shape(sn_arena *a, const sn_shape *s, const bool *keep) {
  const sn_shape **v = SN_NEW_N(a, const sn_shape *, s->n_elements + 1);
  int n = 0;
  if (!v) return NULL;
  for (int k = 0; k < s->n_elements; k++) {
    if (keep[k]) v[n++] = s->elements[k];
  }
  return sn_shape_tuple(a, n, v);
}

static sn_status shrink(sn_instr *tuple, const bool *keep) {
  const sn_shape *s = kept_shape(tuple->parent->module->arena, tuple->shape, keep);
  if (!s) return SN_ERR_MEMORY;
  sn_instr_set_shape(tuple, s);
  return SN_OK;
}

/* Readers of elements behind those that went count differently now. */
static sn_status renumber(const sn_instr *tuple, const int64_t *new_index) {
  SN_FOR_USES(u, tuple) {
    SN_TRY(sn_instr_set_attr(u->user, sn_attr_int(SN_ATTR_INDEX, new_index[sn_instr_int(u->user, SN_ATTR_INDEX)])));
  }
  return SN_OK;
}

/* Erases what stands in the body for the elements that go: all of it is dead once the root lets go. */
static void erase_dead_readers(sn_computation *body, const bool *effects) {
  for (sn_instr *i = body->last, *prev; i; i = prev) {
    prev = i->prev;
    if (effects ? sn_pass_droppable(i, effects) : (!i->n_uses && i->op == SN_OP_GET_TUPLE_ELEMENT && !sn_instr_is_root(i))) sn_instr_erase(i);
  }
}

static sn_status shrink_initial(sn_pass_ctx *pc, sn_instr *w, const bool *keep) {
  sn_instr *init = sn_instr_operand(w, 0);
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, w);
  sn_list kept = {0};
  sn_status s = SN_OK;
  for (int k = 0; k < init->shape->n_elements && s == SN_OK; k++) {
    if (keep[k]) s = sn_list_push(&kept, init->op == SN_OP_TUPLE ? sn_instr_operand(init, (uint32_t)k) : sn_build_get(&b, init, k));
  }
  sn_instr *tuple = s == SN_OK ? sn_build_tuple(&b, (uint32_t)kept.n, kept.v) : NULL;
  sn_list_finish(&kept);
  if (!tuple) return s != SN_OK ? s : b.status;
  sn_instr_set_operand(w, 0, tuple);
  return SN_OK;
}

static sn_status shrink_root(sn_instr *root, const bool *keep) {
  sn_list kept = {0};
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < root->n_operands && s == SN_OK; k++) {
    if (keep[k]) s = sn_list_push(&kept, sn_instr_operand(root, k));
  }
  if (s == SN_OK) s = sn_instr_set_operands(root, (uint32_t)kept.n, kept.v);
  sn_list_finish(&kept);
  return s;
}

static sn_status keep_elements(sn_pass_ctx *pc, sn_instr *w, const bool *keep, const bool *effects) {
  sn_computation *cond = w->called[0], *body = w->called[1];
  int64_t *new_index = SN_NEW_N(pc->scratch, int64_t, w->shape->n_elements + 1), n = 0;
  if (!new_index) return sn_out_of_memory(pc->diag, sizeof *new_index);
  for (int k = 0; k < w->shape->n_elements; k++) new_index[k] = keep[k] ? n++ : -1;
  SN_TRY(shrink_initial(pc, w, keep));
  SN_TRY(shrink_root(body->root, keep));
  erase_dead_readers(body, effects);
  erase_dead_readers(cond, NULL);
  sn_instr *tuples[] = {w, cond->params[0], body->params[0]};
  for (size_t k = 0; k < 3; k++) {
    SN_TRY(renumber(tuples[k], new_index));
    SN_TRY(shrink(tuples[k], keep));
  }
  pc->changed = true;
  return shrink(body->root, keep);
}

sn_status sn_while_keep_elements(sn_pass_ctx *pc, sn_instr *w, const bool *keep) { return keep_elements(pc, w, keep, NULL); }

sn_status sn_while_drop_dead_elements(sn_pass_ctx *pc, sn_instr *w, const sn_call_graph *g, const bool *effects, int64_t *n) {
  if (!sn_while_is_plain(w, g)) return SN_OK;
  liveness l = {w->called[1], SN_NEW_N(pc->scratch, bool, w->shape->n_elements + 1), {0}, {0}};
  if (!l.live) return sn_out_of_memory(pc->diag, (size_t)w->shape->n_elements);
  sn_status s = sn_marks_init(pc->scratch, l.body, &l.seen);
  if (s == SN_OK) s = find_live(&l, w, effects);
  sn_list_finish(&l.todo);
  int n_live = 0;
  for (int k = 0; k < w->shape->n_elements; k++) n_live += l.live[k];
  if (s != SN_OK || n_live == w->shape->n_elements || !sn_pass_may(pc)) return s;
  *n += w->shape->n_elements - n_live;
  return keep_elements(pc, w, l.live, effects);
}
