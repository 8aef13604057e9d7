/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of calls and branches: the body is copied and differentiated inside a call or branch of its own, which
 * takes in what it needs. */
#include <string.h>

#include "control_internal.h"

/* ---- operands of a called computation ---- */

sn_instr **sn_args_of(sn_diff *d, sn_instr *tuple) {
  int n = sn_diff_elements(tuple);
  sn_instr **list = SN_NEW_N(d->g->arena, sn_instr *, n + 1);
  if (!list) sn_graph_no_memory(d->g);
  for (int k = 0; list && k < n; k++) {
    if (tuple->op == SN_OP_TUPLE)
      list[k] = sn_instr_operand(tuple, (uint32_t)k);
    else
      list[k] = sn_shape_is_tuple(tuple->shape) ? sn_build_get(d->b, tuple, k) : tuple;
  }
  return list;
}

void sn_args_capture(sn_graph *g, int n, sn_instr *const *outer, sn_instr **in) {
  for (int k = 0; k < n; k++) {
    in[k] = g->b.status == SN_OK ? sn_frame_capture(g, g->frame, outer[k]) : NULL;
    for (int j = 0; j < k && in[k]; j++) {
      if (in[j] != in[k]) continue;
      in[k] = sn_build_unary(&g->b, SN_OP_COPY, in[k]);
      break;
    }
  }
}

/* ---- bodies under a sweep ---- */

typedef struct body {
  const sn_computation *c;
  int n;           /* inputs */
  sn_instr **args; /* in the frame outside */
  bool *active;    /* inputs with a derivative */
  int n_out;
  sn_instr **seeds; /* outside: cotangents of results (reverse), tangents of inputs (forward); NULL: zero */
  int first, total; /* this body's place among the results of all branches */
} body;

/* Copies the body in and pulls the cotangents back: grads[n], NULL where none. */
static void body_reverse(sn_graph *g, const body *c, sn_instr **grads) {
  sn_instr **in = SN_NEW_N(g->arena, sn_instr *, c->n + 1), **ct = SN_NEW_N(g->arena, sn_instr *, c->n_out + 1),
           **wrt = SN_NEW_N(g->arena, sn_instr *, c->n + 1);
  sn_instr **got = SN_NEW_N(g->arena, sn_instr *, c->n + 1);
  if (!in || !ct || !wrt || !got) sn_graph_no_memory(g);
  if (g->b.status != SN_OK) return;
  sn_args_capture(g, c->n, c->args, in);
  for (int k = 0; k < c->n_out; k++)
    ct[k] = c->seeds[k] && g->b.status == SN_OK ? sn_frame_capture(g, g->frame, c->seeds[k]) : NULL;
  int n_roots, m = 0;
  sn_instr **roots = sn_diff_inline(g, c->c, c->n, in, &n_roots);
  for (int k = 0; k < c->n; k++)
    if (c->active[k]) wrt[m++] = in[k];
  if (!roots) return;
  sn_sweep_reverse(g, NULL, c->n_out, roots, ct, m, wrt, got);
  for (int k = 0, j = 0; k < c->n; k++) grads[k] = c->active[k] ? got[j++] : NULL;
}

static int count(const bool *list, int n) {
  int c = 0;
  for (int k = 0; k < n; k++) c += list[k];
  return c;
}

static body *bodies_of(sn_diff *d, sn_instr *i, int n, bool operands_first) {
  body *list = SN_NEW_N(d->g->arena, body, n);
  if (!list) {
    sn_graph_no_memory(d->g);
    return NULL;
  }
  int total = 0;
  for (int k = 0; k < n; k++) {
    body *c = &list[k];
    c->c = i->called[k];
    c->n_out = sn_diff_elements(i);
    sn_instr *operand = operands_first ? sn_instr_operand(i, (uint32_t)k + 1) : NULL;
    c->n = operand ? sn_diff_elements(operand) : (int)i->n_operands;
    c->active = SN_NEW_N(d->g->arena, bool, c->n + 1);
    c->args = operand ? sn_args_of(d, operand) : SN_NEW_N(d->g->arena, sn_instr *, c->n + 1);
    if (!c->active || !c->args) {
      sn_graph_no_memory(d->g);
      return NULL;
    }
    for (int j = 0; j < c->n; j++) {
      if (!operand) c->args[j] = sn_instr_operand(i, (uint32_t)j);
      c->active[j] = operand ? sn_diff_active_element(d, operand, j) : sn_diff_active(d, c->args[j]);
    }
    c->first = total;
    total += count(c->active, c->n);
  }
  for (int k = 0; k < n; k++) list[k].total = total;
  return sn_diff_ok(d) ? list : NULL;
}

/* Results of a branch: gradients of its own inputs, zeros in the places of the other branches. */
typedef struct branch_ctx {
  body *all;
  int n_bodies, which;
} branch_ctx;

static const sn_shape *place_shape(const branch_ctx *b, int place) {
  for (int k = 0; k < b->n_bodies; k++) {
    const body *c = &b->all[k];
    int at = c->first;
    for (int j = 0; j < c->n; j++)
      if (c->active[j] && at++ == place) return c->args[j]->shape;
  }
  return NULL;
}

static void reverse_branch(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n, (void)in;
  branch_ctx *b = ctx;
  body *c = &b->all[b->which];
  sn_instr **grads = SN_NEW_N(g->arena, sn_instr *, c->n + 1);
  if (!grads) {
    sn_graph_no_memory(g);
    return;
  }
  body_reverse(g, c, grads);
  for (int k = 0; k < n_out && g->b.status == SN_OK; k++) {
    const sn_shape *s = place_shape(b, k);
    out[k] = sn_graph_tensor(g, sn_graph_full(g, s->type, s->rank, s->dims, 0));
  }
  for (int k = 0, at = c->first; k < c->n && g->b.status == SN_OK; k++) {
    if (!c->active[k]) continue;
    if (grads[k]) out[at] = sn_graph_tensor(g, grads[k]);
    at++;
  }
}

static void give_back(sn_diff *d, sn_instr *i, const body *list, int n, const sn_tensor *out) {
  for (int k = 0; k < n; k++) {
    const body *c = &list[k];
    int at = c->first;
    for (int j = 0; j < c->n; j++) {
      if (!c->active[j]) continue;
      if (i->op == SN_OP_CALL)
        sn_diff_give(d, i, (uint32_t)j, out[at].instr);
      else
        sn_diff_add_to(d, sn_instr_operand(i, (uint32_t)k + 1), j, out[at].instr);
      at++;
    }
  }
}

static void run_branches(sn_diff *d, sn_instr *i, body *list, int n, sn_fn fn, int n_out, sn_tensor *out) {
  sn_fn *fns = SN_NEW_N(d->g->arena, sn_fn, n);
  void **ctxs = SN_NEW_N(d->g->arena, void *, n);
  branch_ctx *c = SN_NEW_N(d->g->arena, branch_ctx, n);
  if (!fns || !ctxs || !c) {
    sn_graph_no_memory(d->g);
    return;
  }
  for (int k = 0; k < n; k++) {
    c[k] = (branch_ctx){list, n, k};
    fns[k] = fn;
    ctxs[k] = &c[k];
  }
  sn_loc at = i->loc;
  if (i->op == SN_OP_CALL)
    sn_call_at(at, d->g, i->called[0]->name, fn, c, 0, NULL, n_out, out);
  else
    sn_graph_branches(at, sn_graph_tensor(d->g, sn_op0(i)), n, fns, ctxs, 0, NULL, n_out, out);
}

static void called_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  int n = i->op == SN_OP_CALL ? 1 : (int)i->n_called;
  body *list = bodies_of(d, i, n, i->op != SN_OP_CALL);
  if (!list || !list->total) return;
  for (int k = 0; k < n; k++) list[k].seeds = (sn_instr **)ct;
  sn_tensor *out = SN_NEW_N(d->g->arena, sn_tensor, list->total);
  if (!out) {
    sn_graph_no_memory(d->g);
    return;
  }
  run_branches(d, i, list, n, reverse_branch, list->total, out);
  if (sn_diff_ok(d)) give_back(d, i, list, n, out);
}

/* ---- forward ---- */

static void forward_branch(void *ctx, sn_graph *g, int n, const sn_tensor *unused, int n_out, sn_tensor *out) {
  (void)n, (void)unused;
  branch_ctx *b = ctx;
  body *c = &b->all[b->which];
  sn_instr **in = SN_NEW_N(g->arena, sn_instr *, c->n + 1), **t = SN_NEW_N(g->arena, sn_instr *, c->n + 1),
           **res = SN_NEW_N(g->arena, sn_instr *, n_out + 1);
  if (!in || !t || !res) sn_graph_no_memory(g);
  if (g->b.status != SN_OK) return;
  sn_args_capture(g, c->n, c->args, in);
  for (int k = 0; k < c->n; k++)
    t[k] = c->seeds[k] && g->b.status == SN_OK ? sn_frame_capture(g, g->frame, c->seeds[k]) : NULL;
  int n_roots;
  sn_instr **roots = sn_diff_inline(g, c->c, c->n, in, &n_roots);
  if (!roots) return;
  sn_sweep_forward(g, NULL, n_out, roots, c->n, in, t, res);
  for (int k = 0; k < n_out && g->b.status == SN_OK; k++) {
    const sn_shape *s = roots[k]->shape;
    out[k] = sn_graph_tensor(g, res[k] ? res[k] : sn_graph_full(g, s->type, s->rank, s->dims, 0));
  }
}

static void called_jvp(sn_diff *d, sn_instr *i, sn_instr **res) {
  int n = i->op == SN_OP_CALL ? 1 : (int)i->n_called, n_out = sn_diff_elements(i);
  body *list = bodies_of(d, i, n, i->op != SN_OP_CALL);
  for (int k = 0; list && k < n; k++) {
    body *c = &list[k];
    if (!(c->seeds = SN_NEW_N(d->g->arena, sn_instr *, c->n + 1))) sn_graph_no_memory(d->g);
    for (int j = 0; sn_diff_ok(d) && j < c->n; j++)
      c->seeds[j] = i->op == SN_OP_CALL ? sn_diff_tangent(d, i, (uint32_t)j)
                                        : sn_diff_get(d, sn_instr_operand(i, (uint32_t)k + 1), j);
  }
  sn_tensor *out = SN_NEW_N(d->g->arena, sn_tensor, n_out + 1);
  if (!out) sn_graph_no_memory(d->g);
  if (!list || !sn_diff_ok(d)) return;
  run_branches(d, i, list, n, forward_branch, n_out, out);
  for (int k = 0; k < n_out; k++) res[k] = sn_diff_active_element(d, i, k) ? out[k].instr : NULL;
}

/* ---- activity ---- */

static void called_active(sn_diff *d, sn_instr *i, bool *out) {
  int n = i->op == SN_OP_CALL ? 1 : (int)i->n_called, n_out = sn_diff_elements(i);
  bool *mine = SN_NEW_N(d->g->arena, bool, n_out + 1);
  memset(out, 0, (size_t)n_out);
  for (int k = 0; mine && k < n; k++) {
    sn_instr *operand = i->op == SN_OP_CALL ? NULL : sn_instr_operand(i, (uint32_t)k + 1);
    int n_in = operand ? sn_diff_elements(operand) : (int)i->n_operands;
    bool *in = SN_NEW_N(d->g->arena, bool, n_in + 1);
    if (!in) break;
    for (int j = 0; j < n_in; j++)
      in[j] = operand ? sn_diff_active_element(d, operand, j) : sn_diff_active(d, sn_instr_operand(i, (uint32_t)j));
    sn_diff_activity(d, i->called[k], in, n_in, mine);
    for (int j = 0; j < n_out; j++) out[j] |= mine[j];
  }
}

const sn_diff_rule sn_diff_call = {.name = "call", .vjp = called_vjp, .jvp = called_jvp, .active = called_active};
const sn_diff_rule sn_diff_conditional = {
    .name = "conditional", .vjp = called_vjp, .jvp = called_jvp, .active = called_active};
