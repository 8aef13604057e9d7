/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loops: how often they run, and what does not change while they do.
 *   - A loop that counts one element of its state from a constant by a constant to a constant has a known trip count: written into backend_config as XLA
 *     does. None: the loop is its initial state. One: it is its body.
 *   - An element that the body hands on as it came is invariant: readers outside read the initial value, and where that is a small constant the body and the
 *     condition get the constant itself, so that folding and rules see it. The element is then dead, and dce takes it out. */
#include "passes_internal.h"

#include <string.h>

/* ---- trip counts ---- */

static bool is_element(const sn_instr *i, const sn_instr *tuple, int64_t k) {
  return i->op == SN_OP_GET_TUPLE_ELEMENT && sn_instr_operand(i, 0) == tuple && (k < 0 || sn_instr_int(i, SN_ATTR_INDEX) == k);
}

/* What element k of a state is before the loop; NULL: unknown. */
static sn_instr *initial(const sn_instr *w, int64_t k) {
  sn_instr *init = sn_instr_operand(w, 0);
  return init->op == SN_OP_TUPLE ? sn_instr_operand(init, (uint32_t)k) : NULL;
}

typedef struct counter { int64_t element, start, step, limit, direction; } counter;

static bool find_step(const sn_computation *body, int64_t k, int64_t *step) {
  const sn_instr *next = sn_instr_operand(body->root, (uint32_t)k), *p = body->params[0];
  if (next->op != SN_OP_ADD && next->op != SN_OP_SUBTRACT) return false;
  const sn_instr *x = sn_instr_operand(next, 0), *y = sn_instr_operand(next, 1);
  if (is_element(x, p, k) && sn_instr_constant_i64(y, step)) {
    if (next->op == SN_OP_SUBTRACT) *step = -*step;
    return true;
  }
  return next->op == SN_OP_ADD && is_element(y, p, k) && sn_instr_constant_i64(x, step);
}

/* A bound that is a constant, or an invariant element with a constant initial value. */
static bool constant_bound(const sn_instr *w, const sn_instr *i, int64_t *out) {
  if (sn_instr_constant_i64(i, out)) return true;
  if (!is_element(i, w->called[0]->params[0], -1)) return false;
  int64_t k = sn_instr_int(i, SN_ATTR_INDEX);
  const sn_instr *init = initial(w, k);
  return init && is_element(sn_instr_operand(w->called[1]->root, (uint32_t)k), w->called[1]->params[0], k) && sn_instr_constant_i64(init, out);
}

static bool find_counter(const sn_instr *w, counter *c) {
  static const int64_t swapped[] = {SN_DIRECTION_EQ, SN_DIRECTION_NE, SN_DIRECTION_LE, SN_DIRECTION_LT, SN_DIRECTION_GE, SN_DIRECTION_GT};
  const sn_computation *cond = w->called[0], *body = w->called[1];
  const sn_instr *test = cond->root, *p = cond->params[0];
  if (test->op != SN_OP_COMPARE || body->root->op != SN_OP_TUPLE) return false;
  const sn_instr *x = sn_instr_operand(test, 0), *y = sn_instr_operand(test, 1);
  c->direction = sn_instr_int(test, SN_ATTR_DIRECTION);
  for (int side = 0; side < 2; side++) {
    if (is_element(x, p, -1) && sn_type_is_integer(x->shape->type) && constant_bound(w, y, &c->limit)) {
      c->element = sn_instr_int(x, SN_ATTR_INDEX);
      const sn_instr *init = initial(w, c->element);
      if (init && sn_instr_constant_i64(init, &c->start) && find_step(body, c->element, &c->step)) return true;
    }
    const sn_instr *swap = x;
    x = y;
    y = swap;
    c->direction = swapped[c->direction];
  }
  return false;
}

/* Numbers are kept small enough that nothing wraps: else unknown (-1). */
static int64_t trip_count(const sn_instr *w) {
  counter c;
  const int64_t most = INT64_C(1) << 30;
  if (!find_counter(w, &c) || c.start < -most || c.start > most || c.limit < -most || c.limit > most || c.step < -most || c.step > most) return -1;
  bool wraps = sn_type_bits(sn_instr_operand(w->called[1]->root, (uint32_t)c.element)->shape->type) < 32;
  int64_t distance;
  switch (c.direction) {
    case SN_DIRECTION_LT: distance = c.limit - c.start; break;
    case SN_DIRECTION_LE: distance = c.limit - c.start + 1; break;
    case SN_DIRECTION_GT: distance = c.start - c.limit, c.step = -c.step; break;
    case SN_DIRECTION_GE: distance = c.start - c.limit + 1, c.step = -c.step; break;
    case SN_DIRECTION_NE: distance = (c.limit - c.start) * (c.step < 0 ? -1 : 1), c.step = c.step < 0 ? -c.step : c.step; break;
    default: return -1;
  }
  if (distance <= 0 && c.direction != SN_DIRECTION_NE) return 0;
  if (c.step <= 0 || distance < 0 || wraps) return -1;
  if (c.direction == SN_DIRECTION_NE && distance % c.step) return -1;
  return (distance + c.step - 1) / c.step;
}

static sn_status note_trip_count(sn_pass_ctx *pc, sn_instr *w, int64_t n) {
  char text[64];
  if (w->backend_config) return SN_OK; /* somebody said it already */
  snprintf(text, sizeof text, "{\"known_trip_count\":{\"n\":\"%lld\"}}", (long long)n);
  SN_TRY(sn_instr_set_backend_config(w, text, false));
  pc->changed = true;
  return SN_OK;
}

/* ---- invariant elements ---- */

static bool is_small_constant(const sn_instr *i) {
  if (i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE) i = sn_instr_operand(i, 0);
  return (i->op == SN_OP_CONSTANT && sn_instr_literal(i) && sn_shape_bytes(i->shape) <= 1024) || i->op == SN_OP_IOTA;
}

/* A copy of the constant (and of the broadcast around it) at the front of c. */
static sn_status copy_constant(sn_computation *c, const sn_instr *i, sn_instr **out) {
  sn_instr *inner = NULL;
  if (i->n_operands) SN_TRY(copy_constant(c, sn_instr_operand(i, 0), &inner));
  SN_TRY(sn_instr_clone(i, c, i->n_operands ? &inner : NULL, NULL, out));
  sn_instr_drop_control(*out);
  sn_instr_move_before(*out, inner ? inner->next : c->first);
  return SN_OK;
}

/* The use by which the body hands element k on as it came: it is what keeps the element invariant. */
static bool hands_on(const sn_use *u, const sn_computation *c, int64_t k) { return u->user == c->root && c->root->op == SN_OP_TUPLE && u->index == (uint32_t)k; }

static bool has_readers(const sn_instr *get, const sn_computation *c, int64_t k) {
  SN_FOR_USES(u, get) {
    if (!hands_on(u, c, k)) return true;
  }
  return false;
}

static sn_status replace_readers(sn_pass_ctx *pc, sn_instr *tuple, int64_t k, sn_computation *c, const sn_instr *constant) {
  for (sn_use *u = tuple->first_use, *next; u; u = next) {
    sn_instr *get = u->user, *copy;
    next = u->next;
    if (!is_element(get, tuple, k) || !has_readers(get, c, k)) continue;
    SN_TRY(copy_constant(c, constant, &copy));
    for (sn_use *v = get->first_use, *after; v; v = after) {
      after = v->next;
      if (!hands_on(v, c, k)) sn_instr_set_operand(v->user, v->index, copy);
    }
    pc->changed = true;
  }
  return SN_OK;
}

static sn_status invariant_elements(sn_pass_ctx *pc, sn_instr *w) {
  sn_computation *cond = w->called[0], *body = w->called[1];
  for (int64_t k = 0; k < w->shape->n_elements; k++) {
    const sn_instr *next = sn_instr_operand(body->root, (uint32_t)k);
    sn_instr *init = initial(w, k);
    if (!init || !is_element(next, body->params[0], k)) continue;
    for (sn_use *u = w->first_use, *after; u; u = after) { /* outside: it is what it was */
      after = u->next;
      if (!is_element(u->user, w, k) || !sn_shape_equal(u->user->shape, init->shape, 0)) continue;
      if ((!u->user->n_uses && !sn_instr_is_root(u->user)) || !sn_pass_may(pc)) continue;
      SN_TRY(sn_pass_forward(pc, u->user, init));
    }
    if (!is_small_constant(init) || pc->applications_left <= 0) continue;
    SN_TRY(replace_readers(pc, body->params[0], k, body, init));
    SN_TRY(replace_readers(pc, cond->params[0], k, cond, init));
  }
  return SN_OK;
}

/* ---- the pass ---- */

static sn_status simplify(sn_pass_ctx *pc, sn_instr *w, const sn_call_graph *g) {
  if (!sn_shape_is_tuple(w->shape) || w->called[1]->root->op != SN_OP_TUPLE) return SN_OK;
  int64_t n = trip_count(w);
  bool pure_test = sn_computation_is_cheap(w->called[0]);
  sn_instr *init = sn_instr_operand(w, 0), *by = init;
  if ((n == 0 || n == 1) && pure_test && !w->n_control && sn_pass_may(pc)) {
    if (n == 1) SN_TRY(sn_inline_before(pc, w, w->called[1], &init, &by));
    sn_pass_remark(pc, SN_DONE, SN_REASON_CONSTANT, w, NULL, 0, NULL, n ? "the loop runs once" : "the loop never runs");
    SN_TRY(sn_pass_forward(pc, w, by));
    sn_instr_erase(w);
    return SN_OK;
  }
  if (n > 1) SN_TRY(note_trip_count(pc, w, n));
  return sn_while_is_plain(w, g) ? invariant_elements(pc, w) : SN_OK;
}

sn_status sn_pass_while_simplify(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op == SN_OP_WHILE) SN_TRY(simplify(pc, i, &g));
    }
  }
  return SN_OK;
}
