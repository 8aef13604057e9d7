/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of loops.
 *
 * Forward mode runs one loop that carries values and tangents. Reverse mode needs the number of rounds: the loop is
 * widened so that it stacks, round by round, those carried values that the backward step reads; a second loop then
 * walks the stacks from the last round to the first, copies the body, and pulls the cotangents back. Values the body
 * never changes are read as they are, and their cotangents summed over the rounds. */
#include <stdlib.h>
#include <string.h>

#include "control_internal.h"

typedef struct loop {
  sn_diff *d;
  sn_instr *w; /* the while */
  sn_computation *body;
  int n; /* carried, before widening */
  sn_instr **init;
  bool *active, *fixed, *needed;
  sn_instr **ct; /* in the frame of w */
  int64_t trips;
  int counter;      /* an s32 element that counts 0, 1, …; -1: none */
  sn_instr **stack; /* by element; NULL: none */
} loop;

static const sn_instr *root_of(const loop *l, int k) {
  return l->body->root->op == SN_OP_TUPLE ? sn_instr_operand(l->body->root, (uint32_t)k) : NULL;
}

static bool reads_element(const sn_instr *i, const sn_computation *c, int k) {
  return i && i->op == SN_OP_GET_TUPLE_ELEMENT && sn_op0(i) == c->params[0] && sn_instr_int(i, SN_ATTR_INDEX) == k;
}

static bool constant_is(const sn_instr *i, double *v) {
  return i && i->op == SN_OP_CONSTANT && i->shape->rank == 0 && sn_instr_constant_f64(i, v);
}

/* Element k + constant step -> true. */
static bool counts(const loop *l, int k, double *step) {
  const sn_instr *r = root_of(l, k);
  if (!r || r->op != SN_OP_ADD || r->shape->rank) return false;
  if (reads_element(sn_op0(r), l->body, k)) return constant_is(sn_op1(r), step);
  return reads_element(sn_op1(r), l->body, k) && constant_is(sn_op0(r), step);
}

/* Rounds: said in backend_config, or `element < constant` with a constant start and step. */
static int64_t trip_count(const loop *l) {
  const char *said = l->w->backend_config ? strstr(l->w->backend_config, "\"known_trip_count\"") : NULL;
  const char *n = said ? strstr(said, "\"n\":\"") : NULL;
  if (n) return strtoll(n + 5, NULL, 10);
  const sn_computation *c = l->w->called[0];
  const sn_instr *r = c->root;
  if (r->op != SN_OP_COMPARE || sn_instr_int(r, SN_ATTR_DIRECTION) != SN_DIRECTION_LT) return -1;
  const sn_instr *e = sn_op0(r);
  if (e->op != SN_OP_GET_TUPLE_ELEMENT || sn_op0(e) != c->params[0]) return -1;
  int k = (int)sn_instr_int(e, SN_ATTR_INDEX);
  double start, limit, step;
  if (!constant_is(sn_op1(r), &limit) || !constant_is(l->init[k], &start) || !counts(l, k, &step) || step < 1)
    return -1;
  return limit <= start ? 0 : (int64_t)((limit - start + step - 1) / step);
}

/* ---- which elements matter ---- */

/* Elements that may become active in some round, from those active at the start. */
static void spread_activity(sn_diff *d, const sn_computation *body, int n, bool *active) {
  bool *out = SN_NEW_N(d->g->arena, bool, n + 1), changed = true;
  if (!out) sn_graph_no_memory(d->g);
  while (changed && sn_diff_ok(d)) {
    changed = false;
    sn_diff_activity(d, body, active, n, out);
    for (int k = 0; k < n; k++) {
      changed |= out[k] && !active[k];
      active[k] |= out[k];
    }
  }
}

/* Marks what list[] is computed from, in the computation of the current walk. by id - lo. */
static void reach(sn_computation *c, uint32_t lo, bool *live) {
  for (sn_instr *i = c->last; i; i = i->prev) {
    if (i->id < lo || !live[i->id - lo]) continue;
    for (uint32_t k = 0; k < i->n_operands; k++)
      if (sn_instr_operand(i, k)->id >= lo) live[sn_instr_operand(i, k)->id - lo] = true;
  }
}

static bool *live_map(sn_graph *g, const sn_computation *c, uint32_t *lo) {
  uint32_t hi = 0;
  *lo = UINT32_MAX;
  SN_FOR_INSTRS(i, c) {
    if (i->id < *lo) *lo = i->id;
    if (i->id >= hi) hi = i->id + 1;
  }
  bool *live = SN_NEW_N(g->arena, bool, hi > *lo ? hi - *lo : 1);
  if (!live) sn_graph_no_memory(g);
  return live;
}

/* Elements a cotangent can reach, going back round after round. */
static void spread_useful(loop *l, bool *useful) {
  sn_graph *g = l->d->g;
  bool changed = true;
  while (changed && g->b.status == SN_OK) {
    uint32_t lo;
    bool *live = live_map(g, l->body, &lo);
    if (!live) return;
    for (int k = 0; k < l->n; k++) {
      const sn_instr *r = root_of(l, k);
      if (useful[k] && r) live[r->id - lo] = true;
      if (!r) useful[k] = true; /* no tuple to look into: anything may matter */
    }
    reach(l->body, lo, live);
    changed = false;
    SN_FOR_INSTRS(i, l->body) {
      if (!live[i->id - lo] || i->op != SN_OP_GET_TUPLE_ELEMENT || sn_op0(i) != l->body->params[0]) continue;
      int k = (int)sn_instr_int(i, SN_ATTR_INDEX);
      changed |= !useful[k];
      useful[k] = true;
    }
  }
}

/* ---- one round backwards ---- */

/* Copies the body onto args and pulls ct (by element, NULL: zero) back to the active elements: grads by element. */
static void step_back(loop *l, sn_graph *g, sn_instr **args, sn_instr **ct, sn_instr **grads) {
  int n = l->n, m = 0, n_roots;
  sn_instr **wrt = SN_NEW_N(g->arena, sn_instr *, n + 1), **got = SN_NEW_N(g->arena, sn_instr *, n + 1),
           **seed = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!wrt || !got || !seed) sn_graph_no_memory(g);
  sn_instr **roots = g->b.status == SN_OK ? sn_diff_inline(g, l->body, n, args, &n_roots) : NULL;
  if (!roots) return;
  for (int k = 0; k < n; k++) {
    if (l->active[k]) wrt[m++] = args[k];
    seed[k] = l->fixed[k] ? NULL : ct[k]; /* what is never changed hands its cotangent on outside */
  }
  sn_sweep_reverse(g, NULL, n, roots, seed, m, wrt, got);
  for (int k = 0, j = 0; k < n; k++) grads[k] = l->active[k] ? got[j++] : NULL;
}

/* A trial in a computation thrown away tells which carried values the step reads: only those are stacked. */
static void find_needed(loop *l) {
  sn_graph *g = l->d->g;
  int n = l->n;
  sn_frame *f = sn_frame_push(g, SN_FRAME_FLAT, "trial");
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, n + 1), **ct = SN_NEW_N(g->arena, sn_instr *, n + 1),
           **grads = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!args || !ct || !grads) sn_graph_no_memory(g);
  if (!f || g->b.status != SN_OK) return;
  sn_computation *c = f->comp;
  for (int k = 0; k < n && g->b.status == SN_OK; k++) args[k] = sn_frame_input(g, l->init[k]->shape);
  for (int k = 0; k < n && g->b.status == SN_OK; k++)
    ct[k] = l->active[k] && !l->fixed[k] ? sn_frame_input(g, l->init[k]->shape) : NULL;
  if (g->b.status == SN_OK) step_back(l, g, args, ct, grads);
  uint32_t lo;
  bool *live = g->b.status == SN_OK ? live_map(g, c, &lo) : NULL;
  if (live) {
    for (int k = 0; k < n; k++)
      if (grads[k]) live[grads[k]->id - lo] = true;
    reach(c, lo, live);
    for (int k = 0; k < n; k++) l->needed[k] = live[args[k]->id - lo];
  }
  while (g->frame != f) sn_frame_pop(g);
  sn_frame_pop(g);
  sn_graph_drop_regions(g, c);
  if (g->b.status == SN_OK) sn_computation_erase(c);
}

/* ---- widening the loop ---- */

typedef struct wide {
  int n; /* elements after widening */
  const sn_shape **shapes;
  sn_instr **init;
  int counter; /* element that counts the rounds */
  int *of;     /* element n_old + j stacks element of[j]; -1: the counter */
} wide;

static bool plan(loop *l, wide *x) {
  sn_graph *g = l->d->g;
  x->shapes = (const sn_shape **)SN_NEW_N(g->arena, const sn_shape *, 2 * l->n + 1);
  x->init = SN_NEW_N(g->arena, sn_instr *, 2 * l->n + 1);
  x->of = SN_NEW_N(g->arena, int, 2 * l->n + 1);
  if (!x->shapes || !x->init || !x->of) {
    sn_graph_no_memory(g);
    return false;
  }
  sn_builder b = g->b;
  b.before = l->w;
  b.loc = l->w->loc;
  b.metadata = l->w->metadata;
  for (int k = 0; k < l->n; k++) x->shapes[k] = l->init[k]->shape, x->init[k] = l->init[k];
  x->n = l->n;
  x->counter = l->counter;
  bool any = false;
  for (int k = 0; k < l->n; k++) any |= l->stack[k] != NULL || (l->needed[k] && !l->fixed[k] && k != l->counter);
  if (any && x->counter < 0) {
    x->counter = x->n;
    x->of[x->n] = -1;
    x->init[x->n++] = sn_build_scalar(&b, SN_TYPE_S32, 0);
  }
  for (int k = 0; k < l->n; k++) {
    if (!l->needed[k] || l->fixed[k] || k == l->counter) continue;
    const sn_shape *s = l->init[k]->shape;
    int64_t dims[SN_MAX_RANK] = {l->trips};
    if (s->rank + 1 > SN_MAX_RANK) return false;
    for (int j = 0; j < s->rank; j++) dims[j + 1] = s->dims[j];
    const sn_shape *many = sn_shape_array(g->module->arena, s->type, s->rank + 1, dims);
    x->of[x->n] = k;
    x->init[x->n++] = many ? sn_build_full(&b, many, 0) : NULL;
  }
  if (b.status != SN_OK) g->b.status = b.status;
  for (int k = l->n; k < x->n && g->b.status == SN_OK; k++) x->shapes[k] = x->init[k]->shape;
  return g->b.status == SN_OK;
}

static sn_instr **wide_inputs(sn_graph *g, const wide *x) {
  sn_instr **in = SN_NEW_N(g->arena, sn_instr *, x->n + 1);
  if (!in) sn_graph_no_memory(g);
  for (int k = 0; in && k < x->n && g->b.status == SN_OK; k++) in[k] = sn_frame_input(g, x->shapes[k]);
  return in;
}

static sn_computation *wide_condition(loop *l, const wide *x) {
  sn_graph *g = l->d->g;
  sn_frame *f = sn_frame_push(g, SN_FRAME_TUPLE, "condition");
  if (!f) return NULL;
  sn_computation *c = f->comp;
  int n;
  sn_instr **in = wide_inputs(g, x), **r = in ? sn_diff_inline(g, l->w->called[0], l->n, in, &n) : NULL;
  if (r) sn_computation_set_root(c, r[0]);
  sn_frame_pop(g);
  return r ? c : NULL;
}

static sn_instr *put_row(sn_graph *g, sn_instr *stack, sn_instr *row, sn_instr *at) {
  int64_t dims[SN_MAX_RANK] = {1};
  sn_instr *starts[SN_MAX_RANK] = {at};
  for (int k = 0; k < row->shape->rank; k++) {
    dims[k + 1] = row->shape->dims[k];
    starts[k + 1] = sn_graph_scalar(g, SN_TYPE_S32, 0);
  }
  return sn_build_dynamic_update_slice(&g->b, stack, sn_build_reshape(&g->b, row, row->shape->rank + 1, dims), starts);
}

static sn_computation *wide_body(loop *l, const wide *x) {
  sn_graph *g = l->d->g;
  sn_frame *f = sn_frame_push(g, SN_FRAME_TUPLE, "body");
  if (!f) return NULL;
  sn_computation *c = f->comp;
  int n;
  sn_instr **in = wide_inputs(g, x), **r = in ? sn_diff_inline(g, l->body, l->n, in, &n) : NULL;
  sn_instr **roots = r ? SN_NEW_N(g->arena, sn_instr *, x->n + 1) : NULL;
  for (int k = 0; roots && k < x->n && g->b.status == SN_OK; k++) {
    if (k < l->n)
      roots[k] = r[k];
    else if (x->of[k] < 0)
      roots[k] = sn_build_binary(&g->b, SN_OP_ADD, in[k], sn_graph_scalar(g, SN_TYPE_S32, 1));
    else
      roots[k] = put_row(g, in[k], in[x->of[k]], in[x->counter]);
  }
  sn_instr *root = roots ? sn_build_tuple(&g->b, (uint32_t)x->n, roots) : NULL;
  if (root) sn_computation_set_root(c, root);
  sn_frame_pop(g);
  return root ? c : NULL;
}

/* Users that take the loop's result whole get a tuple of what it was before. */
static void keep_whole_users(loop *l) {
  sn_builder b = l->d->g->b;
  sn_instr *whole = NULL, *w = l->w;
  bool found = w->parent->root == w;
  SN_FOR_USES(u, w) found |= u->user->op != SN_OP_GET_TUPLE_ELEMENT;
  if (!found) return;
  b.before = w->next;
  sn_instr **e = SN_NEW_N(l->d->g->arena, sn_instr *, l->n + 1);
  for (int k = 0; e && k < l->n; k++) e[k] = sn_build_get(&b, w, k);
  whole = e ? sn_build_tuple(&b, (uint32_t)l->n, e) : NULL;
  if (!whole) {
    sn_graph_no_memory(l->d->g);
    return;
  }
  for (sn_use *u = w->first_use, *next; u; u = next) {
    next = u->next;
    if (u->user->op != SN_OP_GET_TUPLE_ELEMENT) sn_instr_set_operand(u->user, u->index, whole);
  }
  if (w->parent->root == w) sn_computation_set_root(w->parent, whole);
}

static void widen(loop *l) {
  sn_graph *g = l->d->g;
  wide x;
  if (!plan(l, &x) || x.n == l->n) return;
  sn_computation *cond = wide_condition(l, &x), *body = cond ? wide_body(l, &x) : NULL;
  const sn_shape *s = body ? sn_shape_tuple(g->module->arena, x.n, x.shapes) : NULL;
  sn_builder b = g->b;
  b.before = l->w;
  sn_instr *init = s ? sn_build_tuple(&b, (uint32_t)x.n, x.init) : NULL;
  if (!init) {
    if (g->b.status == SN_OK) g->b.status = b.status != SN_OK ? b.status : SN_ERR_MEMORY;
    return;
  }
  keep_whole_users(l);
  sn_instr_set_operand(l->w, 0, init);
  sn_instr_set_called(l->w, 0, cond);
  sn_instr_set_called(l->w, 1, body);
  sn_instr_set_shape(l->w, s);
  for (int k = l->n; k < x.n; k++)
    if (x.of[k] >= 0) l->stack[x.of[k]] = sn_build_get(&g->b, l->w, k);
}

/* ---- the loop backwards ---- */

/* Carried: the cotangent of each active element, or of a fixed one the sum so far. */
static void backward_body(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n_in, (void)n_out;
  loop *l = ctx;
  sn_loc at = l->w->loc;
  int n = l->n;
  sn_tensor round = sn_rsub_c_at(at, (double)(l->trips - 1), in[0]);
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, n + 1), **ct = SN_NEW_N(g->arena, sn_instr *, n + 1),
           **grads = SN_NEW_N(g->arena, sn_instr *, n + 1);
  sn_instr **outer = SN_NEW_N(g->arena, sn_instr *, n + 1), **fixed = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!args || !ct || !grads || !outer || !fixed) sn_graph_no_memory(g);
  if (g->b.status != SN_OK) return;
  int m = 0;
  for (int k = 0; k < n; k++)
    if (l->fixed[k]) outer[m++] = l->init[k];
  sn_args_capture(g, m, outer, fixed);
  for (int k = 0, j = 0; k < n && g->b.status == SN_OK; k++) {
    if (l->fixed[k])
      args[k] = fixed[j++];
    else if (k == l->counter)
      args[k] = round.instr;
    else if (l->stack[k])
      args[k] = sn_squeeze_at(at, sn_dynamic_slice_axis_at(at, sn_graph_tensor(g, l->stack[k]), 0, round, 1), 0).instr;
    else
      args[k] = sn_build_full(&g->b, l->init[k]->shape, 0); /* not read */
  }
  for (int k = 0, j = 1; k < n; k++)
    if (l->active[k]) ct[k] = in[j++].instr;
  if (g->b.status == SN_OK) step_back(l, g, args, ct, grads);
  for (int k = 0, j = 0; k < n && g->b.status == SN_OK; k++) {
    if (!l->active[k]) continue;
    sn_instr *r = grads[k];
    if (l->fixed[k]) r = sn_d_add(&(sn_diff){.g = g, .b = &g->b}, ct[k], r);
    const sn_shape *s = l->init[k]->shape;
    out[j++] = sn_graph_tensor(g, r ? r : sn_graph_full(g, s->type, s->rank, s->dims, 0));
  }
}

static bool open_loop(sn_diff *d, sn_instr *i, loop *l) {
  sn_graph *g = d->g;
  *l = (loop){.d = d, .w = i, .body = i->called[1], .n = sn_diff_elements(i), .counter = -1};
  int n = l->n;
  l->active = SN_NEW_N(g->arena, bool, n + 1);
  l->fixed = SN_NEW_N(g->arena, bool, n + 1);
  l->needed = SN_NEW_N(g->arena, bool, n + 1);
  l->stack = SN_NEW_N(g->arena, sn_instr *, n + 1);
  l->init = sn_args_of(d, sn_op0(i));
  if (!l->active || !l->fixed || !l->needed || !l->stack || !l->init) sn_graph_no_memory(g);
  if (!sn_diff_ok(d)) return false;
  for (int k = 0; k < n; k++) {
    double start, step;
    l->fixed[k] = reads_element(root_of(l, k), l->body, k);
    l->active[k] = sn_diff_active_element(d, sn_op0(i), k);
    bool is_counter = l->init[k]->shape->type == SN_TYPE_S32 && constant_is(l->init[k], &start) && start == 0 &&
                      counts(l, k, &step) && step == 1;
    if (is_counter && l->counter < 0) l->counter = k;
  }
  spread_activity(d, l->body, n, l->active);
  return sn_diff_ok(d);
}

static void no_length(sn_diff *d, sn_instr *i) {
  sn_graph_fail(d->g, i->loc, SN_ERR_UNSUPPORTED, "while (%s): reverse mode needs to know the number of rounds",
                i->name);
  sn_graph_hint(d->g, "use sn_fori or sn_scan, or forward mode (sn_jvp)");
}

static void run_backward(loop *l, sn_instr *const *ct, sn_instr *old_init) {
  sn_diff *d = l->d;
  int m = 0;
  for (int k = 0; k < l->n; k++) m += l->active[k];
  sn_tensor *in = SN_NEW_N(d->g->arena, sn_tensor, m + 1), *out = SN_NEW_N(d->g->arena, sn_tensor, m + 1);
  if (!in || !out) {
    sn_graph_no_memory(d->g);
    return;
  }
  for (int k = 0, j = 0; k < l->n; k++)
    if (l->active[k]) in[j++] = sn_graph_tensor(d->g, ct[k] ? ct[k] : sn_d_zeros(d, l->init[k]->shape));
  sn_fori_at(l->w->loc, d->g, 0, l->trips, backward_body, l, m, in, out);
  for (int k = 0, j = 0; k < l->n && sn_diff_ok(d); k++)
    if (l->active[k]) sn_diff_add_to(d, old_init, k, out[j++].instr);
}

static void while_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  loop l;
  if (!open_loop(d, i, &l)) return;
  sn_instr *old_init = sn_op0(i);
  l.trips = trip_count(&l);
  if (l.trips < 0 || l.trips > INT32_MAX) {
    no_length(d, i);
    return;
  }
  bool *useful = SN_NEW_N(d->g->arena, bool, l.n + 1), any = false;
  if (!useful) {
    sn_graph_no_memory(d->g);
    return;
  }
  for (int k = 0; k < l.n; k++) useful[k] = ct[k] != NULL;
  spread_useful(&l, useful);
  for (int k = 0; k < l.n; k++) any |= l.active[k] = l.active[k] && useful[k];
  if (!any || !sn_diff_ok(d)) return;
  if (!l.trips) {
    for (int k = 0; k < l.n; k++) sn_diff_add_to(d, old_init, k, ct[k]);
    return;
  }
  find_needed(&l);
  if (sn_diff_ok(d)) widen(&l);
  if (sn_diff_ok(d)) run_backward(&l, ct, old_init);
}

/* ---- forward ---- */

static void forward_condition(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n, (void)n_out;
  loop *l = ctx;
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, l->n + 1);
  if (!args) {
    sn_graph_no_memory(g);
    return;
  }
  for (int k = 0; k < l->n; k++) args[k] = in[k].instr;
  int m;
  sn_instr **r = sn_diff_inline(g, l->w->called[0], l->n, args, &m);
  if (r) out[0] = sn_graph_tensor(g, r[0]);
}

static void forward_body(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n_in, (void)n_out;
  loop *l = ctx;
  int n = l->n, m;
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, n + 1), **t = SN_NEW_N(g->arena, sn_instr *, n + 1),
           **res = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!args || !t || !res) sn_graph_no_memory(g);
  if (g->b.status != SN_OK) return;
  for (int k = 0, j = n; k < n; k++) {
    args[k] = in[k].instr;
    if (l->active[k]) t[k] = in[j++].instr;
  }
  sn_instr **r = sn_diff_inline(g, l->body, n, args, &m);
  if (!r) return;
  sn_sweep_forward(g, NULL, n, r, n, args, t, res);
  for (int k = 0, j = n; k < n && g->b.status == SN_OK; k++) {
    out[k] = sn_graph_tensor(g, r[k]);
    if (!l->active[k]) continue;
    const sn_shape *s = r[k]->shape;
    out[j++] = sn_graph_tensor(g, res[k] ? res[k] : sn_graph_full(g, s->type, s->rank, s->dims, 0));
  }
}

static void while_jvp(sn_diff *d, sn_instr *i, sn_instr **res) {
  loop l;
  if (!open_loop(d, i, &l)) return;
  int total = l.n;
  for (int k = 0; k < l.n; k++) total += l.active[k];
  sn_tensor *in = SN_NEW_N(d->g->arena, sn_tensor, total + 1), *out = SN_NEW_N(d->g->arena, sn_tensor, total + 1);
  if (!in || !out) {
    sn_graph_no_memory(d->g);
    return;
  }
  for (int k = 0, j = l.n; k < l.n; k++) {
    in[k] = sn_graph_tensor(d->g, l.init[k]);
    sn_instr *t = sn_diff_get(d, sn_op0(i), k);
    if (l.active[k]) in[j++] = sn_graph_tensor(d->g, t ? t : sn_d_zeros(d, l.init[k]->shape));
  }
  sn_while_at(i->loc, d->g, forward_condition, forward_body, &l, total, in, out);
  if (!sn_diff_ok(d)) return;
  sn_instr *w = out[0].instr ? sn_op0(out[0].instr) : NULL;
  if (w && i->backend_config && sn_instr_set_backend_config(w, i->backend_config, i->backend_config_quoted) != SN_OK)
    sn_graph_no_memory(d->g);
  for (int k = 0, j = l.n; k < l.n; k++)
    if (l.active[k]) res[k] = out[j++].instr;
}

static void while_active(sn_diff *d, sn_instr *i, bool *out) {
  int n = sn_diff_elements(i);
  for (int k = 0; k < n; k++) out[k] = sn_diff_active_element(d, sn_op0(i), k);
  spread_activity(d, i->called[1], n, out);
}
const sn_diff_rule sn_diff_while = {.name = "while", .vjp = while_vjp, .jvp = while_jvp, .active = while_active};
