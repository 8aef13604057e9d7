/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The public calls of reverse and forward mode, checkpoints and custom rules. */
#include <string.h>

#include "diff_internal.h"

/* Tensors as instructions of the current frame; NULL after an error. An empty one stays NULL where `may_be_empty`. */
static sn_instr **instrs(sn_graph *g, sn_loc at, int n, const sn_tensor *xs, bool may_be_empty) {
  sn_instr **list = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!list) sn_graph_no_memory(g);
  for (int k = 0; list && k < n; k++) {
    if (may_be_empty && !xs[k].instr) continue;
    if (!(list[k] = sn_graph_use(g, at, xs[k]))) return NULL;
  }
  return list;
}

static void clear(sn_graph *g, int n, sn_tensor *out) {
  for (int k = 0; k < n; k++) out[k] = sn_graph_empty(g);
}

static void wrap(sn_graph *g, int n, sn_instr *const *list, sn_instr *const *like, sn_tensor *out) {
  for (int k = 0; k < n; k++) {
    const sn_shape *s = like[k]->shape;
    out[k] = sn_graph_tensor(g, g->b.status != SN_OK ? NULL
                                : list[k]            ? list[k]
                                                     : sn_graph_full(g, s->type, s->rank, s->dims, 0));
  }
}

static bool same_shapes(sn_graph *g, sn_loc at, const char *what, int n, sn_instr *const *x, sn_instr *const *y) {
  for (int k = 0; k < n; k++) {
    if (!y[k] || sn_shape_equal(x[k]->shape, y[k]->shape, 0)) continue;
    sn_graph_fail(g, at, SN_ERR_SHAPE, "%s %d is %s for a tensor of %s", what, k, sn_graph_shape_text(g, y[k]->shape),
                  sn_graph_shape_text(g, x[k]->shape));
    return false;
  }
  return true;
}

void sn_vjp_at(sn_loc at, int n_outs, const sn_tensor *outs, const sn_tensor *cts, int n, const sn_tensor *wrt,
               sn_tensor *out) {
  sn_graph *g = n_outs > 0 ? outs[0].graph : NULL;
  outs = sn_graph_list(g, n_outs, outs);
  cts = sn_graph_list(g, n_outs, cts);
  wrt = sn_graph_list(g, n, wrt);
  clear(g, n, out);
  if (!sn_graph_open(g, at)) return;
  sn_instr **o = instrs(g, at, n_outs, outs, false), **c = o ? instrs(g, at, n_outs, cts, true) : NULL,
           **w = c ? instrs(g, at, n, wrt, false) : NULL;
  sn_instr **r = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!w || !r) {
    if (!r) sn_graph_no_memory(g);
    return;
  }
  if (!same_shapes(g, at, "vjp: cotangent", n_outs, o, c)) return;
  sn_sweep_reverse(g, NULL, n_outs, o, c, n, w, r);
  wrap(g, n, r, w, out);
}

void sn_grad_at(sn_loc at, sn_tensor loss, int n, const sn_tensor *wrt, sn_tensor *out) {
  sn_graph *g = loss.graph;
  wrt = sn_graph_list(g, n, wrt);
  clear(g, n, out);
  if (!sn_graph_open(g, at)) return;
  if (loss.instr && (sn_tensor_rank(loss) || !sn_type_is_float(sn_tensor_type(loss)))) {
    sn_graph_fail(g, at, SN_ERR_SHAPE, "grad: the loss is %s", sn_tensor_text(loss));
    sn_graph_hint(g, "it must be a real scalar: take a sum or mean, or use sn_vjp");
    return;
  }
  sn_tensor one = sn_scalar_like_at(at, loss, 1);
  sn_vjp_at(at, 1, &loss, &one, n, wrt, out);
}

void sn_jvp_at(sn_loc at, int n_outs, const sn_tensor *outs, int n, const sn_tensor *wrt, const sn_tensor *tangents,
               sn_tensor *out) {
  sn_graph *g = n_outs > 0 ? outs[0].graph : NULL;
  outs = sn_graph_list(g, n_outs, outs);
  wrt = sn_graph_list(g, n, wrt);
  tangents = sn_graph_list(g, n, tangents);
  clear(g, n_outs, out);
  if (!sn_graph_open(g, at)) return;
  sn_instr **o = instrs(g, at, n_outs, outs, false), **w = o ? instrs(g, at, n, wrt, false) : NULL,
           **t = w ? instrs(g, at, n, tangents, true) : NULL;
  sn_instr **r = SN_NEW_N(g->arena, sn_instr *, n_outs + 1);
  if (!t || !r) {
    if (!r) sn_graph_no_memory(g);
    return;
  }
  if (!same_shapes(g, at, "jvp: tangent", n, w, t)) return;
  sn_sweep_forward(g, NULL, n_outs, o, n, w, t, r);
  wrap(g, n_outs, r, o, out);
}

void sn_value_and_grad_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *in, int n_wrt, int n_out,
                          sn_tensor *values, sn_tensor *grads) {
  in = sn_graph_list(g, n, in);
  clear(g, n_out, values);
  clear(g, n_wrt, grads);
  if (!sn_graph_open(g, at)) return;
  if (n_out < 1 || n_wrt > n) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "value_and_grad: %d results, gradients for %d of %d inputs", n_out, n_wrt, n);
    return;
  }
  fn(ctx, g, n, in, n_out, values);
  sn_grad_at(at, values[0], n_wrt, in, grads);
}

/* ---- regions ---- */

/* fn's instructions as one stretch of the current computation. Results that fn only passed through get a copy, so that
 * they belong to the stretch. */
static sn_region *build_region(sn_loc at, sn_graph *g, sn_region_kind kind, sn_fn fn, void *ctx, int n,
                               const sn_tensor *in, int n_out, sn_tensor *out) {
  in = sn_graph_list(g, n, in);
  clear(g, n_out, out);
  if (!sn_graph_open(g, at)) return NULL;
  sn_instr **list = instrs(g, at, n, in, false);
  sn_tensor *inner = SN_NEW_N(g->arena, sn_tensor, n + 1);
  sn_instr **results = SN_NEW_N(g->arena, sn_instr *, n_out + 1);
  if (!inner || !results) sn_graph_no_memory(g);
  if (!list || g->b.status != SN_OK) return NULL;
  for (int k = 0; k < n; k++) inner[k] = sn_graph_tensor(g, list[k]);
  sn_instr *before = g->b.c->last;
  uint32_t first_id = g->module->n_ids;
  fn(ctx, g, n, inner, n_out, out);
  for (int k = 0; k < n_out && sn_graph_open(g, at); k++) {
    if (!(results[k] = sn_graph_use(g, at, out[k]))) break;
    bool passed = results[k]->id < first_id;
    for (int j = 0; j < k; j++) passed |= results[j] == results[k];
    if (passed) results[k] = sn_build_unary(&g->b, SN_OP_COPY, results[k]);
    out[k] = sn_graph_tensor(g, results[k]);
  }
  if (g->b.status != SN_OK) {
    clear(g, n_out, out);
    return NULL;
  }
  return sn_graph_region(g, kind, before, n, list, n_out, results);
}

void sn_checkpoint_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *in, int n_out,
                      sn_tensor *out) {
  (void)build_region(at, g, SN_REGION_REMAT, fn, ctx, n, in, n_out, out);
}

void sn_custom_vjp_at(sn_loc at, sn_graph *g, sn_fn fn, sn_vjp_fn bwd, void *ctx, int n, const sn_tensor *in, int n_out,
                      sn_tensor *out) {
  sn_region *r = build_region(at, g, SN_REGION_VJP, fn, ctx, n, in, n_out, out);
  if (!r) return;
  r->fn = (void (*)(void))bwd;
  r->ctx = ctx;
}

void sn_custom_jvp_at(sn_loc at, sn_graph *g, sn_fn fn, sn_jvp_fn jvp, void *ctx, int n, const sn_tensor *in, int n_out,
                      sn_tensor *out) {
  sn_region *r = build_region(at, g, SN_REGION_JVP, fn, ctx, n, in, n_out, out);
  if (!r) return;
  r->fn = (void (*)(void))jvp;
  r->ctx = ctx;
}

sn_tensor sn_stop_gradient_at(sn_loc at, sn_tensor x) {
  sn_tensor y = sn_unary_at(at, SN_OP_COPY, x);
  if (y.instr && sn_instr_set_frontend(y.instr, "sinter.stop_gradient", "1") != SN_OK) sn_graph_no_memory(x.graph);
  return y;
}
