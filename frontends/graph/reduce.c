/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reductions, running reductions and windows. */
#include <math.h>
#include <string.h>

#include "graph_internal.h"

/* Puts reduced axes back with size 1. */
static sn_instr *keep_axes(sn_graph *g, sn_instr *r, const sn_shape *of, int n, const int64_t *axes) {
  int64_t dims[SN_MAX_RANK];
  for (int k = 0; k < of->rank; k++) dims[k] = of->dims[k];
  for (int k = 0; k < n; k++) dims[axes[k]] = 1;
  return sn_build_reshape(&g->b, r, of->rank, dims);
}

sn_tensor sn_reduce_at(sn_loc at, sn_opcode op, sn_tensor x, double init, int n, const int64_t *axes, bool keep) {
  sn_graph *g = x.graph;
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  int64_t list[SN_MAX_RANK];
  int count = i ? sn_graph_axes(g, at, "reduce", n, axes, i->shape->rank, list) : -1;
  if (count < 0) return sn_graph_empty(g);
  if (!count) return x;
  sn_instr *r = sn_build_reduce_op(b, op, i, sn_graph_scalar(g, i->shape->type, init), count, list);
  return sn_graph_tensor(g, r && keep ? keep_axes(g, r, i->shape, count, list) : r);
}

/* 16-bit floats are summed in f32 and rounded once. */
static bool is_narrow(sn_type t) { return sn_type_is_float(t) && sn_type_bits(t) < 32; }

static sn_tensor reduce_wide(sn_loc at, sn_opcode op, sn_tensor x, double init, int n, const int64_t *axes, bool keep) {
  sn_type t = sn_tensor_type(x);
  if (!x.instr || !is_narrow(t)) return sn_reduce_at(at, op, x, init, n, axes, keep);
  return sn_cast_at(at, sn_reduce_at(at, op, sn_cast_at(at, x, SN_TYPE_F32), init, n, axes, keep), t);
}

sn_tensor sn_sum_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return reduce_wide(at, SN_OP_ADD, x, 0, n, axes, keep);
}
sn_tensor sn_prod_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return reduce_wide(at, SN_OP_MULTIPLY, x, 1, n, axes, keep);
}
sn_tensor sn_any_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return sn_reduce_at(at, SN_OP_OR, x, 0, n, axes, keep);
}
sn_tensor sn_all_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return sn_reduce_at(at, SN_OP_AND, x, 1, n, axes, keep);
}

/* Start values below (above) everything: infinities, or the ends of an integer's range, as integers because u64 and s64
 * are wider than a double. */
static sn_instr *extreme(sn_graph *g, sn_type t, bool lowest) {
  if (t == SN_TYPE_PRED) return sn_graph_scalar(g, t, !lowest);
  if (!sn_type_is_integer(t)) return sn_graph_scalar(g, t, lowest ? -INFINITY : INFINITY);
  int bits = sn_type_bits(t);
  if (sn_type_is_unsigned(t)) return sn_graph_scalar_i64(g, t, lowest ? 0 : bits == 64 ? -1 : ((int64_t)1 << bits) - 1);
  int64_t high = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
  return sn_graph_scalar_i64(g, t, lowest ? -high - 1 : high);
}

static sn_tensor reduce_extreme(sn_loc at, sn_opcode op, sn_tensor x, int n, const int64_t *axes, bool keep) {
  sn_graph *g = x.graph;
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  int64_t list[SN_MAX_RANK];
  int count = i ? sn_graph_axes(g, at, "reduce", n, axes, i->shape->rank, list) : -1;
  if (count < 0) return sn_graph_empty(g);
  if (!count) return x;
  sn_instr *r = sn_build_reduce_op(b, op, i, extreme(g, i->shape->type, op == SN_OP_MAXIMUM), count, list);
  return sn_graph_tensor(g, r && keep ? keep_axes(g, r, i->shape, count, list) : r);
}

sn_tensor sn_max_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return reduce_extreme(at, SN_OP_MAXIMUM, x, n, axes, keep);
}
sn_tensor sn_min_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return reduce_extreme(at, SN_OP_MINIMUM, x, n, axes, keep);
}

static double count_of(sn_tensor x, int n, const int64_t *axes) {
  double c = 1;
  int rank = sn_tensor_rank(x);
  for (int k = 0; k < (n < 0 ? rank : n); k++) c *= (double)sn_tensor_dim(x, n < 0 ? k : (int)axes[k]);
  return c;
}

sn_tensor sn_mean_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  sn_type t = sn_tensor_type(x);
  if (x.instr && is_narrow(t)) return sn_cast_at(at, sn_mean_at(at, sn_cast_at(at, x, SN_TYPE_F32), n, axes, keep), t);
  return sn_binary_c_at(at, SN_OP_DIVIDE, sn_sum_at(at, x, n, axes, keep), count_of(x, n, axes));
}

sn_tensor sn_var_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  sn_type t = sn_tensor_type(x);
  if (x.instr && is_narrow(t)) return sn_cast_at(at, sn_var_at(at, sn_cast_at(at, x, SN_TYPE_F32), n, axes, keep), t);
  sn_tensor c = sn_binary_at(at, SN_OP_SUBTRACT, x, sn_mean_at(at, x, n, axes, true));
  return sn_mean_at(at, sn_square_at(at, c), n, axes, keep);
}

sn_tensor sn_norm2_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  return sn_unary_at(at, SN_OP_SQRT, sn_sum_at(at, sn_square_at(at, x), n, axes, keep));
}

/* ---- with a function ---- */

void sn_reduce_fn_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *xs, const sn_tensor *inits,
                     int n_axes, const int64_t *axes, sn_tensor *out) {
  xs = sn_graph_list(g, n, xs);
  inits = sn_graph_list(g, n, inits);
  for (int k = 0; k < n; k++) out[k] = sn_graph_empty(g);
  if (n <= 0 || !sn_graph_open(g, at)) return;
  int64_t list[SN_MAX_RANK];
  int count = sn_graph_axes(g, at, "reduce_fn", n_axes, axes, sn_tensor_rank(xs[0]), list);
  const sn_shape **like = (const sn_shape **)SN_NEW_N(g->arena, const sn_shape *, 2 * n);
  sn_instr **operands = SN_NEW_N(g->arena, sn_instr *, 2 * n);
  sn_tensor *r = SN_NEW_N(g->arena, sn_tensor, n);
  if (!like || !operands || !r) sn_graph_no_memory(g);
  for (int k = 0; k < n && count >= 0 && g->b.status == SN_OK; k++) {
    operands[k] = sn_graph_use(g, at, xs[k]);
    operands[n + k] = sn_graph_use(g, at, inits[k]);
    like[k] = like[n + k] = sn_shape_scalar(g->module->arena, sn_tensor_type(xs[k]));
    if (!like[k]) sn_graph_no_memory(g);
  }
  if (g->b.status != SN_OK) return;
  sn_frame *f = sn_frame_run(g, at, SN_FRAME_SCALAR, "reducer", fn, ctx, 2 * n, like, 0, NULL, n, r);
  if (!f) return;
  sn_computation *c = f->comp;
  sn_instr **roots = SN_NEW_N(g->arena, sn_instr *, n);
  if (!roots) sn_graph_no_memory(g);
  for (int k = 0; roots && k < n; k++) roots[k] = r[k].instr;
  if (roots) sn_computation_set_root(c, n == 1 ? roots[0] : sn_build_tuple(&g->b, (uint32_t)n, roots));
  sn_frame_pop(g);
  if (!sn_graph_open(g, at)) return;
  sn_attr dims = sn_attr_ints(SN_ATTR_DIMENSIONS, count, list);
  sn_graph_elements(g, sn_build(&g->b, SN_OP_REDUCE, NULL, (uint32_t)(2 * n), operands, 1, &dims, 1, &c), n, out);
}

/* (best, at, x, i): x wins when it is better, or NaN, or equal and earlier. */
static void pick(sn_graph *g, int64_t better, const sn_tensor *in, sn_tensor *out) {
  (void)g;
  sn_tensor wins = sn_or(sn_compare_at(SN_HERE, better, in[2], in[0]), sn_ne(in[2], in[2]));
  sn_tensor not_nan = sn_eq(in[0], in[0]);
  wins = sn_and(wins, not_nan);
  sn_tensor earlier = sn_and(sn_eq(in[2], in[0]), sn_lt(in[3], in[1]));
  sn_tensor take = sn_or(wins, earlier);
  out[0] = sn_select(take, in[2], in[0]);
  out[1] = sn_select(take, in[3], in[1]);
}

static void pick_max(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)ctx, (void)n, (void)n_out;
  pick(g, SN_DIRECTION_GT, in, out);
}

static void pick_min(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)ctx, (void)n, (void)n_out;
  pick(g, SN_DIRECTION_LT, in, out);
}

static sn_tensor arg_extreme(sn_loc at, sn_tensor x, int axis, bool largest) {
  sn_graph *g = x.graph;
  if (!x.instr || !sn_graph_open(g, at)) return sn_graph_empty(g);
  int a = sn_graph_axis(g, at, largest ? "argmax" : "argmin", axis, sn_tensor_rank(x));
  if (a < 0) return sn_graph_empty(g);
  sn_tensor where = sn_iota_at(at, g, SN_TYPE_S32, sn_tensor_rank(x), sn_tensor_dims(x), a), out[2];
  if (!sn_graph_open(g, at)) return sn_graph_empty(g);
  sn_tensor inits[2] = {sn_graph_tensor(g, extreme(g, sn_tensor_type(x), largest)),
                        sn_scalar_at(at, g, SN_TYPE_S32, 0)};
  sn_reduce_fn_at(at, g, largest ? pick_max : pick_min, NULL, 2, (sn_tensor[]){x, where}, inits, 1, (int64_t[]){a},
                  out);
  return out[1];
}

sn_tensor sn_argmax_at(sn_loc at, sn_tensor x, int axis) { return arg_extreme(at, x, axis, true); }
sn_tensor sn_argmin_at(sn_loc at, sn_tensor x, int axis) { return arg_extreme(at, x, axis, false); }

/* ---- windows ---- */

static sn_instr *start_value(sn_graph *g, sn_opcode op, sn_type t, double init) {
  if (isinf(init) && (op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM)) return extreme(g, t, init < 0);
  return sn_graph_scalar(g, t, init);
}

sn_tensor sn_reduce_window_at(sn_loc at, sn_opcode op, sn_tensor x, double init, const sn_window *w) {
  sn_graph *g = x.graph;
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  sn_computation *apply = i ? sn_build_reducer(b, op, i->shape->type) : NULL;
  if (!apply) return sn_graph_empty(g);
  sn_instr *operands[2] = {i, start_value(g, op, i->shape->type, init)};
  sn_attr a = sn_attr_window(w);
  return sn_graph_tensor(g, sn_build(b, SN_OP_REDUCE_WINDOW, NULL, 2, operands, 1, &a, 1, &apply));
}

/* A window that reaches back to the start of the axis. */
sn_tensor sn_cumulative_at(sn_loc at, sn_opcode op, sn_tensor x, int axis, bool reverse) {
  sn_graph *g = x.graph;
  if (!x.instr || !sn_graph_open(g, at)) return sn_graph_empty(g);
  int rank = sn_tensor_rank(x), a = sn_graph_axis(g, at, "cumulative", axis, rank);
  if (a < 0) return sn_graph_empty(g);
  sn_window_dim w[SN_MAX_RANK];
  for (int k = 0; k < rank; k++) w[k] = (sn_window_dim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  int64_t n = sn_tensor_dim(x, a);
  if (n <= 1) return x;
  w[a].size = n;
  if (reverse)
    w[a].pad_high = n - 1;
  else
    w[a].pad_low = n - 1;
  double init = op == SN_OP_ADD ? 0 : op == SN_OP_MULTIPLY ? 1 : op == SN_OP_MAXIMUM ? -INFINITY : INFINITY;
  return sn_reduce_window_at(at, op, x, init, &(sn_window){rank, w});
}

sn_tensor sn_select_and_scatter_at(sn_loc at, int64_t select_direction, sn_opcode scatter_op, sn_tensor x,
                                   sn_tensor source, double init, const sn_window *w) {
  sn_graph *g = x.graph;
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b), *s = i ? sn_graph_use(g, at, source) : NULL;
  sn_computation *called[2] = {NULL, s ? sn_build_reducer(b, scatter_op, i->shape->type) : NULL};
  if (!called[1] || !sn_frame_push(g, SN_FRAME_SCALAR, "select")) return sn_graph_empty(g);
  const sn_shape *scalar = sn_shape_scalar(g->module->arena, i->shape->type);
  sn_instr *p = sn_frame_input(g, scalar), *q = sn_frame_input(g, scalar);
  sn_instr *r = sn_build_compare(b, select_direction, p, q);
  called[0] = g->frame->comp;
  if (r) sn_computation_set_root(called[0], r);
  sn_frame_pop(g);
  if (!r) return sn_graph_empty(g);
  sn_instr *operands[3] = {i, s, sn_graph_scalar(g, i->shape->type, init)};
  sn_attr a = sn_attr_window(w);
  return sn_graph_tensor(g, sn_build(b, SN_OP_SELECT_AND_SCATTER, NULL, 3, operands, 1, &a, 2, called));
}
