/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batching of calls, branches and loops. A choice that differs by example becomes a select of both sides; a loop whose
 * condition differs runs until all examples are done, and holds those that are. */
#include <string.h>

#include "batch_internal.h"

/* Lanes of a called computation's inputs: a tuple's elements one by one. */
static sn_lane *parts(sn_batch *x, const sn_lane *tuple, int n) {
  sn_lane *l = SN_NEW_N(x->g->arena, sn_lane, n + 1);
  if (!l) sn_graph_no_memory(x->g);
  for (int k = 0; l && k < n; k++) l[k] = (sn_lane){tuple->v + k, tuple->batched + k};
  return l;
}

static void call(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_lane r = sn_batch_inline(x, i->called[0], in);
  if (r.v) *out = r;
}
const sn_batch_rule sn_batch_call = {.name = "call", .fn = call};

/* Lanes whose values stand in an outer frame, captured into the current one. */
static sn_lane *captured(sn_batch *x, int n, const sn_lane *outer) {
  sn_lane *l = SN_NEW_N(x->g->arena, sn_lane, n + 1);
  if (!l) sn_graph_no_memory(x->g);
  for (int k = 0; l && k < n; k++) {
    l[k] = sn_lane_make(x, 1);
    if (!l[k].v || !(l[k].v[0] = sn_frame_capture(x->g, x->g->frame, outer[k].v[0]))) return NULL;
    l[k].batched[0] = outer[k].batched[0];
  }
  return l;
}

/* ---- conditional ---- */

typedef struct branch {
  sn_batch *x;
  const sn_computation *c;
  int n;
  sn_lane *in;
} branch;

static void branch_body(void *ctx, sn_graph *g, int n, const sn_tensor *unused, int n_out, sn_tensor *out) {
  (void)n, (void)unused;
  branch *p = ctx;
  sn_lane *in = captured(p->x, p->n, p->in);
  sn_lane r = in ? sn_batch_inline(p->x, p->c, in) : (sn_lane){NULL, NULL};
  for (int k = 0; r.v && k < n_out; k++) out[k] = sn_graph_tensor(g, sn_lane_spread(p->x, &r, k));
}

static branch *branches_of(sn_batch *x, sn_instr *i, const sn_lane *in) {
  branch *b = SN_NEW_N(x->g->arena, branch, i->n_called);
  if (!b) sn_graph_no_memory(x->g);
  for (int k = 0; b && k < i->n_called; k++) {
    int n = sn_comp_inputs(i->called[k]);
    b[k] = (branch){x, i->called[k], n, parts(x, &in[k + 1], n)};
    if (!b[k].in) return NULL;
  }
  return b;
}

static void one_choice(sn_batch *x, sn_instr *i, const sn_lane *in, branch *b, sn_lane *out) {
  int n_out = sn_diff_elements(i);
  sn_fn *fns = SN_NEW_N(x->g->arena, sn_fn, i->n_called);
  void **ctxs = SN_NEW_N(x->g->arena, void *, i->n_called);
  sn_tensor *res = SN_NEW_N(x->g->arena, sn_tensor, n_out + 1);
  if (!fns || !ctxs || !res) {
    sn_graph_no_memory(x->g);
    return;
  }
  for (int k = 0; k < i->n_called; k++) fns[k] = branch_body, ctxs[k] = &b[k];
  sn_graph_branches(i->loc, sn_graph_tensor(x->g, in[0].v[0]), i->n_called, fns, ctxs, 0, NULL, n_out, res);
  for (int k = 0; k < n_out; k++) out->v[k] = res[k].instr, out->batched[k] = true;
}

/* pred[size]: does example choose branch k? The last branch takes every index out of range. */
static sn_instr *chooses(sn_batch *x, sn_instr *selector, int k) {
  if (selector->shape->type == SN_TYPE_PRED) return selector; /* branch 0 is true */
  sn_instr *c = sn_graph_full(x->g, selector->shape->type, selector->shape->rank, selector->shape->dims, k);
  return c ? sn_build_compare(x->b, SN_DIRECTION_EQ, selector, c) : NULL;
}

static sn_instr *choose(sn_batch *x, sn_instr *p, sn_instr *yes, sn_instr *no) {
  sn_instr *wide = p && yes ? sn_build_broadcast(x->b, p, yes->shape->rank, yes->shape->dims, 1, (int64_t[]){0}) : NULL;
  return wide && no ? sn_build_select(x->b, wide, yes, no) : NULL;
}

static void conditional(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  branch *b = branches_of(x, i, in);
  if (!b) return;
  if (!in[0].batched[0]) {
    one_choice(x, i, in, b, out);
    return;
  }
  int n_out = sn_diff_elements(i);
  for (int k = i->n_called - 1; k >= 0; k--) {
    sn_lane r = sn_batch_inline(x, b[k].c, b[k].in);
    if (!r.v) return;
    sn_instr *p = k < i->n_called - 1 ? chooses(x, in[0].v[0], k) : NULL;
    for (int j = 0; j < n_out && sn_batch_ok(x); j++) {
      sn_instr *v = sn_lane_spread(x, &r, j);
      out->v[j] = p ? choose(x, p, v, out->v[j]) : v;
      out->batched[j] = true;
    }
  }
}
const sn_batch_rule sn_batch_conditional = {.name = "conditional", .fn = conditional};

/* ---- while ---- */

typedef struct loop {
  sn_batch *x;
  sn_instr *w;
  int n;
  bool *batched;
  bool stops_apart; /* the condition differs by example */
} loop;

static sn_lane *lanes_of(loop *l, const sn_tensor *in) {
  sn_lane *r = SN_NEW_N(l->x->g->arena, sn_lane, l->n + 1);
  if (!r) sn_graph_no_memory(l->x->g);
  for (int k = 0; r && k < l->n; k++) {
    r[k] = sn_lane_make(l->x, 1);
    if (!r[k].v) return NULL;
    r[k].v[0] = in[k].instr;
    r[k].batched[0] = l->batched[k];
  }
  return r;
}

static void loop_condition(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n, (void)n_out;
  loop *l = ctx;
  sn_lane *lanes = lanes_of(l, in);
  sn_lane r = lanes ? sn_batch_inline(l->x, l->w->called[0], lanes) : (sn_lane){NULL, NULL};
  if (!r.v) return;
  out[0] = sn_graph_tensor(g, r.v[0]);
  if (r.batched[0]) out[0] = sn_any_at(l->w->loc, out[0], 1, (int64_t[]){0}, false);
}

static void loop_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n;
  loop *l = ctx;
  sn_lane *lanes = lanes_of(l, in);
  sn_lane going = lanes && l->stops_apart ? sn_batch_inline(l->x, l->w->called[0], lanes) : (sn_lane){NULL, NULL};
  sn_lane r = lanes ? sn_batch_inline(l->x, l->w->called[1], lanes) : (sn_lane){NULL, NULL};
  for (int k = 0; r.v && k < n_out && sn_batch_ok(l->x); k++) {
    sn_instr *v = l->batched[k] ? sn_lane_spread(l->x, &r, k) : r.v[k];
    if (l->stops_apart && l->batched[k]) v = choose(l->x, going.v ? going.v[0] : NULL, v, in[k].instr);
    out[k] = sn_graph_tensor(g, v);
  }
}

/* One copy of condition and body in a computation thrown away: which results are batched? true: something new was. */
static bool try_round(loop *l) {
  sn_batch *x = l->x;
  sn_graph *g = x->g;
  sn_frame *f = sn_frame_push(g, SN_FRAME_FLAT, "trial");
  sn_tensor *in = SN_NEW_N(g->arena, sn_tensor, l->n + 1);
  if (!f || !in) {
    sn_graph_no_memory(g);
    return false;
  }
  sn_computation *c = f->comp;
  for (int k = 0; k < l->n && sn_batch_ok(x); k++) {
    const sn_shape *s = sn_op0(l->w)->shape->elements[k];
    if (l->batched[k]) s = sn_batch_shape(x, s);
    in[k] = sn_graph_tensor(g, s ? sn_frame_input(g, s) : NULL);
  }
  sn_lane *lanes = sn_batch_ok(x) ? lanes_of(l, in) : NULL;
  sn_lane p = lanes ? sn_batch_inline(x, l->w->called[0], lanes) : (sn_lane){NULL, NULL};
  sn_lane r = p.v ? sn_batch_inline(x, l->w->called[1], lanes) : (sn_lane){NULL, NULL};
  bool changed = false;
  if (r.v) l->stops_apart |= p.batched[0];
  for (int k = 0; r.v && k < l->n; k++) {
    bool now = r.batched[k] || l->stops_apart;
    changed |= now && !l->batched[k];
    l->batched[k] |= now;
  }
  while (g->frame != f) sn_frame_pop(g);
  sn_frame_pop(g);
  sn_graph_drop_regions(g, c);
  if (sn_batch_ok(x)) sn_computation_erase(c);
  return changed && sn_batch_ok(x);
}

static void while_loop(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  loop l = {.x = x, .w = i, .n = sn_diff_elements(i)};
  l.batched = SN_NEW_N(x->g->arena, bool, l.n + 1);
  sn_tensor *init = SN_NEW_N(x->g->arena, sn_tensor, l.n + 1), *res = SN_NEW_N(x->g->arena, sn_tensor, l.n + 1);
  if (!l.batched || !init || !res) {
    sn_graph_no_memory(x->g);
    return;
  }
  memcpy(l.batched, in[0].batched, (size_t)l.n * sizeof *l.batched);
  while (try_round(&l)) {
  }
  for (int k = 0; k < l.n && sn_batch_ok(x); k++)
    init[k] = sn_graph_tensor(x->g, l.batched[k] ? sn_lane_spread(x, &in[0], k) : in[0].v[k]);
  if (!sn_batch_ok(x)) return;
  sn_while_at(i->loc, x->g, loop_condition, loop_body, &l, l.n, init, res);
  for (int k = 0; k < l.n; k++) out->v[k] = res[k].instr, out->batched[k] = l.batched[k];
  sn_instr *w = l.n && res[0].instr ? sn_op0(res[0].instr) : NULL;
  if (w && i->backend_config && !l.stops_apart &&
      sn_instr_set_backend_config(w, i->backend_config, i->backend_config_quoted) != SN_OK)
    sn_graph_no_memory(x->g);
}
const sn_batch_rule sn_batch_while = {.name = "while", .fn = while_loop};

/* ---- ops batched through their parts ---- */

/* fn spells the op out on one example in a computation thrown away; that is copied batched. */
static void by_parts(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out, sn_parts_fn fn) {
  sn_graph *g = x->g;
  int n = (int)i->n_operands, n_out = sn_diff_elements(i);
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, n + 1), **res = SN_NEW_N(g->arena, sn_instr *, n_out + 1);
  sn_frame *f = args && res ? sn_frame_push(g, SN_FRAME_FLAT, "parts") : NULL;
  if (!f) {
    sn_graph_no_memory(g);
    return;
  }
  sn_computation *c = f->comp;
  for (int k = 0; k < n && sn_batch_ok(x); k++) args[k] = sn_frame_input(g, sn_operand_shape(i, (uint32_t)k));
  sn_diff d = {.g = g, .b = x->b};
  bool fine = sn_batch_ok(x) && fn(&d, i, args, res);
  sn_instr *root = fine ? sn_build_tuple(x->b, (uint32_t)n_out, res) : NULL;
  if (root) sn_computation_set_root(c, root);
  while (g->frame != f) sn_frame_pop(g);
  sn_frame_pop(g);
  sn_lane r = root ? sn_batch_inline(x, c, in) : (sn_lane){NULL, NULL};
  if (r.v) *out = r;
  sn_graph_drop_regions(g, c);
  if (sn_batch_ok(x)) sn_computation_erase(c);
}

static void scan(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) { by_parts(x, i, in, out, sn_parts_scan); }
const sn_batch_rule sn_batch_scan = {.name = "scan", .fn = scan};

static void batch_norm_training(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  by_parts(x, i, in, out, sn_parts_batch_norm_training);
}
const sn_batch_rule sn_batch_batch_norm_training = {.name = "batch_norm_training", .fn = batch_norm_training};

static void batch_norm_inference(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  by_parts(x, i, in, out, sn_parts_batch_norm_inference);
}
const sn_batch_rule sn_batch_batch_norm_inference = {.name = "batch_norm_inference", .fn = batch_norm_inference};
