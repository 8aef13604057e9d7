/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of reductions and windows. Sums are linear; maxima share equally among ties; anything else is done again
 * as a loop whose derivative is known. */
#include <math.h>

#include "diff_internal.h"

#define X sn_op0(i)
#define DIMS sn_instr_ints(i, SN_ATTR_DIMENSIONS)

/* The op of a one-operand reduction, SN_OP_COUNT for anything else. */
static sn_opcode reducer_of(const sn_instr *i) {
  sn_opcode op;
  return !sn_shape_is_tuple(i->shape) && sn_computation_is_binary(i->called[0], &op) ? op : SN_OP_COUNT;
}

/* r over the kept axes, spread over the operand's shape. */
static sn_instr *spread(sn_diff *d, sn_instr *i, sn_instr *r, const sn_shape *to) {
  int64_t kept[SN_MAX_RANK];
  int n = 0;
  sn_ints dims = DIMS;
  for (int k = 0; k < to->rank; k++) {
    bool reduced = false;
    for (int64_t j = 0; j < dims.n; j++) reduced |= dims.v[j] == k;
    if (!reduced) kept[n++] = k;
  }
  if (!r) return NULL;
  return n ? sn_build_broadcast(d->b, r, to->rank, to->dims, n, kept) : sn_graph_fill(d->g, r, to->rank, to->dims);
}

static void init_vjp(sn_diff *d, sn_instr *i, sn_instr *ct) {
  if (!sn_diff_wants(d, i, 1)) return;
  int64_t all[SN_MAX_RANK];
  for (int k = 0; k < i->shape->rank; k++) all[k] = k;
  sn_diff_give(d, i, 1, sn_d_sum(d, ct, i->shape->rank, all));
}

/* 1 where the operand equals the result, and how often along the reduced axes. */
static sn_instr *hits(sn_diff *d, sn_instr *i) {
  return sn_d_convert(d, sn_d_cmp(d, SN_DIRECTION_EQ, X, spread(d, i, i, X->shape)), X->shape->type);
}

static void reduce_extreme_vjp(sn_diff *d, sn_instr *i, sn_instr *ct) {
  sn_instr *hit = hits(d, i), *share = sn_d_div(d, ct, sn_d_sum(d, hit, (int)DIMS.n, DIMS.v));
  sn_diff_give(d, i, 0, sn_d_mul(d, spread(d, i, share, X->shape), hit));
}

static void reduce_extreme_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0), *hit = t ? hits(d, i) : NULL;
  if (t)
    *out = sn_d_div(d, sn_d_sum(d, sn_d_mul(d, t, hit), (int)DIMS.n, DIMS.v), sn_d_sum(d, hit, (int)DIMS.n, DIMS.v));
}

/* ---- any reducer: a loop over the reduced elements ---- */

/* The operands as [reduced, kept…] matrices, one per operand. */
typedef struct folded {
  sn_instr *i;
  int64_t length;
} folded;

static sn_instr *fold_in(sn_diff *d, sn_instr *i, sn_instr *x, int64_t *length) {
  sn_ints dims = DIMS;
  int64_t p[SN_MAX_RANK], shape[SN_MAX_RANK];
  int n = 0, rank = 1;
  *length = 1;
  for (int64_t k = 0; k < dims.n; k++) {
    p[n++] = dims.v[k];
    *length *= x->shape->dims[dims.v[k]];
  }
  for (int k = 0; k < x->shape->rank; k++) {
    bool reduced = false;
    for (int64_t j = 0; j < dims.n; j++) reduced |= dims.v[j] == k;
    if (reduced) continue;
    p[n++] = k;
    shape[rank++] = x->shape->dims[k];
  }
  shape[0] = *length;
  return sn_build_reshape(d->b, sn_build_transpose(d->b, x, p), rank, shape);
}

/* (carried…, row…) -> reducer(carried…, row…) elementwise */
static void fold_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  folded *f = ctx;
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!args) {
    sn_graph_no_memory(g);
    return;
  }
  for (int k = 0; k < n; k++) args[k] = in[k].instr;
  int m;
  sn_instr **r = sn_diff_inline_scalar(g, f->i->called[0], n, args, &m);
  for (int k = 0; r && k < n_out; k++) out[k] = sn_graph_tensor(g, r[k]);
}

static bool as_loop(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  int n = (int)i->n_operands / 2;
  folded f = {.i = i};
  sn_tensor *t = SN_NEW_N(d->g->arena, sn_tensor, 3 * n + 1);
  if (!t) {
    sn_graph_no_memory(d->g);
    return false;
  }
  const sn_shape *r = sn_shape_is_tuple(i->shape) ? i->shape->elements[0] : i->shape;
  for (int k = 0; k < n; k++) {
    t[k] = sn_graph_tensor(d->g, sn_graph_fill(d->g, in[n + k], r->rank, r->dims));
    t[n + k] = sn_graph_tensor(d->g, fold_in(d, i, in[k], &f.length));
  }
  sn_scan_spec s = {.n_carry = n, .n_xs = n, .init = t, .xs = t + n, .length = f.length};
  sn_scan_at(d->b->loc, d->g, &s, fold_body, &f, t + 2 * n, NULL);
  for (int k = 0; k < n; k++) out[k] = t[2 * n + k].instr;
  return sn_diff_ok(d);
}

static void reduce_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_opcode op = reducer_of(i);
  bool extreme = (op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM) && !sn_diff_wants(d, i, 1);
  if (op == SN_OP_ADD) {
    if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, spread(d, i, ct[0], X->shape));
    init_vjp(d, i, ct[0]);
  } else if (extreme) {
    reduce_extreme_vjp(d, i, ct[0]);
  } else {
    sn_parts_vjp(d, i, ct, as_loop);
  }
}

static void reduce_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_opcode op = reducer_of(i);
  sn_instr *t = sn_diff_tangent(d, i, 0), *ti = sn_diff_tangent(d, i, (uint32_t)(i->n_operands / 2));
  if (op == SN_OP_ADD) {
    sn_instr *sum = sn_d_sum(d, t, (int)DIMS.n, DIMS.v);
    *out = sn_d_add(d, sum, ti ? sn_graph_fill(d->g, ti, i->shape->rank, i->shape->dims) : NULL);
  } else if ((op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM) && !ti) {
    reduce_extreme_jvp(d, i, out);
  } else {
    sn_parts_jvp(d, i, out, as_loop);
  }
}
const sn_diff_rule sn_diff_reduce = {.name = "reduce", .vjp = reduce_vjp, .jvp = reduce_jvp};

/* ---- windows ---- */

static int64_t dilated(int64_t n, int64_t by) { return n > 0 ? (n - 1) * by + 1 : 0; }

static sn_instr *window_op(sn_diff *d, sn_opcode op, sn_instr *x, double init, const sn_window *w) {
  sn_computation *apply = sn_build_reducer(d->b, op, x->shape->type);
  sn_instr *operands[2] = {x, sn_d_scalar(d, x->shape->type, init)};
  sn_attr a = sn_attr_window(w);
  return apply ? sn_build(d->b, SN_OP_REDUCE_WINDOW, NULL, 2, operands, 1, &a, 1, &apply) : NULL;
}

/* Transpose of a window sum: the cotangent spread by the stride and summed through the mirrored window. */
static sn_instr *window_sum_back(sn_diff *d, sn_instr *i, const sn_shape *to, sn_instr *ct) {
  const sn_window *w = sn_instr_window(i);
  sn_window_dim dims[SN_MAX_RANK];
  for (int k = 0; k < w->rank; k++) {
    sn_window_dim f = w->dims[k];
    int64_t window = dilated(f.size, f.rhs_dilate), in = dilated(to->dims[k], f.lhs_dilate),
            out = dilated(ct->shape->dims[k], f.stride);
    int64_t low = window - 1 - f.pad_low;
    dims[k] = (sn_window_dim){.size = f.size,
                              .stride = f.lhs_dilate,
                              .pad_low = low,
                              .pad_high = in + window - 1 - out - low,
                              .lhs_dilate = f.stride,
                              .rhs_dilate = f.rhs_dilate};
  }
  return window_op(d, SN_OP_ADD, ct, 0, &(sn_window){w->rank, dims});
}

/* One slice an offset of the window: elements j*stride + offset of the padded operand, in the result's shape. */

static sn_instr *padded(sn_diff *d, sn_instr *x, const sn_window *w, sn_instr *value) {
  int64_t low[SN_MAX_RANK], high[SN_MAX_RANK], interior[SN_MAX_RANK];
  for (int k = 0; k < w->rank; k++)
    low[k] = w->dims[k].pad_low, high[k] = w->dims[k].pad_high, interior[k] = w->dims[k].lhs_dilate - 1;
  return sn_build_pad(d->b, x, value, low, high, interior);
}

static sn_instr *at_offset(sn_diff *d, const sn_instr *i, sn_instr *pad, const int64_t *offset) {
  const sn_window *w = sn_instr_window(i);
  const sn_shape *r = sn_shape_is_tuple(i->shape) ? i->shape->elements[0] : i->shape;
  int64_t start[SN_MAX_RANK], limit[SN_MAX_RANK], stride[SN_MAX_RANK];
  for (int k = 0; k < w->rank; k++) {
    start[k] = offset[k] * w->dims[k].rhs_dilate;
    stride[k] = w->dims[k].stride;
    limit[k] = r->dims[k] ? start[k] + (r->dims[k] - 1) * stride[k] + 1 : start[k];
  }
  return sn_build_slice(d->b, pad, start, limit, stride);
}

static bool next_offset(const sn_window *w, int64_t *offset) {
  for (int k = w->rank - 1; k >= 0; k--) {
    if (++offset[k] < w->dims[k].size) return true;
    offset[k] = 0;
  }
  return false;
}

static int64_t window_size(const sn_window *w) {
  int64_t n = 1;
  for (int k = 0; k < w->rank; k++) n *= w->dims[k].size;
  return n;
}

/* Any window reduction spelled out as one application of the reducer an offset. */
static bool window_unrolled(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  int n = (int)i->n_operands / 2, m;
  const sn_window *w = sn_instr_window(i);
  const sn_shape *r = sn_shape_is_tuple(i->shape) ? i->shape->elements[0] : i->shape;
  sn_instr **pads = SN_NEW_N(d->g->arena, sn_instr *, n), **args = SN_NEW_N(d->g->arena, sn_instr *, 2 * n);
  if (!pads || !args) sn_graph_no_memory(d->g);
  for (int k = 0; k < n && sn_diff_ok(d); k++) {
    pads[k] = padded(d, in[k], w, in[n + k]);
    args[k] = sn_graph_fill(d->g, in[n + k], r->rank, r->dims);
  }
  int64_t offset[SN_MAX_RANK] = {0};
  do {
    for (int k = 0; k < n && sn_diff_ok(d); k++) args[n + k] = at_offset(d, i, pads[k], offset);
    sn_instr **s = sn_diff_ok(d) ? sn_diff_inline_scalar(d->g, i->called[0], 2 * n, args, &m) : NULL;
    for (int k = 0; s && k < n; k++) args[k] = s[k];
  } while (sn_diff_ok(d) && next_offset(w, offset));
  for (int k = 0; k < n && args; k++) out[k] = args[k];
  return sn_diff_ok(d);
}

/* A running maximum or product spelled out would take a slice a row: beyond this many offsets the loop over rows below
 * is used. */
#define SN_UNROLL_LIMIT 128

/* A window that covers one whole axis up to (or from) each element: the running form that sn_cumulative builds. */
static int cumulative_axis(const sn_instr *i, bool *reverse) {
  const sn_window *w = sn_instr_window(i);
  int axis = -1;
  for (int k = 0; k < w->rank; k++) {
    sn_window_dim f = w->dims[k];
    if (f.size == 1 && f.stride == 1 && !f.pad_low && !f.pad_high) continue;
    int64_t n = X->shape->dims[k];
    if (axis >= 0 || f.size != n || f.stride != 1 || f.rhs_dilate != 1 || f.lhs_dilate != 1) return -1;
    if (f.pad_low == n - 1 && !f.pad_high)
      *reverse = false;
    else if (f.pad_high == n - 1 && !f.pad_low)
      *reverse = true;
    else
      return -1;
    axis = k;
  }
  return axis;
}

static void running_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n, (void)n_out;
  int m;
  sn_instr *args[2] = {in[0].instr, in[1].instr},
           **r = sn_diff_inline_scalar(g, ((sn_instr *)ctx)->called[0], 2, args, &m);
  if (r) out[0] = out[1] = sn_graph_tensor(g, r[0]);
}

static bool running_loop(sn_diff *d, sn_instr *i, int axis, bool reverse, sn_instr **in, sn_instr **out) {
  sn_tensor x = sn_move_axis_at(d->b->loc, sn_graph_tensor(d->g, in[0]), axis, 0), carry, ys;
  if (!x.instr) return false;
  sn_tensor init = sn_graph_tensor(d->g, sn_graph_fill(d->g, in[1], sn_tensor_rank(x) - 1, sn_tensor_dims(x) + 1));
  sn_scan_spec s = {.n_carry = 1, .n_xs = 1, .n_ys = 1, .init = &init, .xs = &x, .reverse = reverse};
  sn_scan_at(d->b->loc, d->g, &s, running_body, i, &carry, &ys);
  out[0] = sn_move_axis_at(d->b->loc, ys, 0, axis).instr;
  return sn_diff_ok(d);
}

static bool window_spelled(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  bool reverse = false;
  int axis = i->n_operands == 2 ? cumulative_axis(i, &reverse) : -1;
  if (axis >= 0 && X->shape->dims[axis] > 4) return running_loop(d, i, axis, reverse, in, out);
  if (window_size(sn_instr_window(i)) <= SN_UNROLL_LIMIT) return window_unrolled(d, i, in, out);
  sn_graph_fail(d->g, i->loc, SN_ERR_UNSUPPORTED,
                "reduce-window (%s): derivative of a window of %lld elements with this reducer", i->name,
                (long long)window_size(sn_instr_window(i)));
  return false;
}

/* ---- maximum over windows: the first largest element takes all, as select-and-scatter does ---- */

static sn_computation *chooser(sn_diff *d, sn_type t, int64_t direction) {
  sn_graph *g = d->g;
  const sn_shape *s = sn_shape_scalar(g->module->arena, t);
  sn_frame *f = s ? sn_frame_push(g, SN_FRAME_SCALAR, "select") : NULL;
  if (!f) return NULL;
  sn_computation *c = f->comp;
  sn_instr *x = sn_frame_input(g, s), *y = sn_frame_input(g, s),
           *r = y ? sn_build_compare(d->b, direction, x, y) : NULL;
  if (r) sn_computation_set_root(c, r);
  sn_frame_pop(g);
  return r ? c : NULL;
}

static bool plain_window(const sn_window *w) {
  for (int k = 0; k < w->rank; k++)
    if (w->dims[k].lhs_dilate != 1 || w->dims[k].rhs_dilate != 1) return false;
  return true;
}

static void window_extreme_vjp(sn_diff *d, sn_instr *i, sn_instr *ct, sn_opcode op) {
  sn_type t = X->shape->type;
  sn_computation *called[2] = {chooser(d, t, op == SN_OP_MAXIMUM ? SN_DIRECTION_GE : SN_DIRECTION_LE),
                               sn_build_reducer(d->b, SN_OP_ADD, t)};
  if (!called[0] || !called[1]) return;
  sn_instr *operands[3] = {X, ct, sn_d_scalar(d, t, 0)};
  sn_attr a = sn_attr_window(sn_instr_window(i));
  sn_diff_give(d, i, 0, sn_build(d->b, SN_OP_SELECT_AND_SCATTER, NULL, 3, operands, 1, &a, 2, called));
}

/* Tangent of each window's winner: offset by offset, the first best one is kept. */
static sn_instr *winning_tangent(sn_diff *d, sn_instr *i, sn_instr *x, sn_instr *t, int64_t direction) {
  const sn_window *w = sn_instr_window(i);
  double worst = direction == SN_DIRECTION_GE ? -(double)INFINITY : (double)INFINITY;
  sn_instr *px = padded(d, x, w, sn_d_scalar(d, x->shape->type, worst)),
           *pt = padded(d, t, w, sn_d_scalar(d, t->shape->type, 0)), *best = NULL, *r = NULL;
  int64_t offset[SN_MAX_RANK] = {0};
  do {
    sn_instr *sx = px ? at_offset(d, i, px, offset) : NULL, *st = pt ? at_offset(d, i, pt, offset) : NULL;
    if (!sx || !st) return NULL;
    sn_instr *keep = best ? sn_d_cmp(d, direction, best, sx) : NULL;
    best = keep ? sn_d_select(d, keep, best, sx) : sx;
    r = keep ? sn_d_select(d, keep, r, st) : st;
  } while (sn_diff_ok(d) && next_offset(w, offset));
  return r;
}

static void reduce_window_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_opcode op = reducer_of(i);
  bool reverse, extreme = (op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM) && plain_window(sn_instr_window(i)) &&
                          !sn_diff_wants(d, i, 1);
  if (op == SN_OP_ADD && !sn_diff_wants(d, i, 1))
    sn_diff_give(d, i, 0, window_sum_back(d, i, X->shape, ct[0]));
  else if (extreme && cumulative_axis(i, &reverse) < 0)
    window_extreme_vjp(d, i, ct[0], op);
  else
    sn_parts_vjp(d, i, ct, window_spelled);
}

static void reduce_window_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_opcode op = reducer_of(i);
  bool reverse, start = sn_diff_tangent(d, i, i->n_operands / 2) != NULL,
                extreme = (op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM) && !start;
  if (op == SN_OP_ADD && !start)
    *out = window_op(d, SN_OP_ADD, sn_diff_tangent(d, i, 0), 0, sn_instr_window(i));
  else if (extreme && cumulative_axis(i, &reverse) < 0)
    *out = winning_tangent(d, i, X, sn_diff_tangent(d, i, 0), op == SN_OP_MAXIMUM ? SN_DIRECTION_GE : SN_DIRECTION_LE);
  else
    sn_parts_jvp(d, i, out, window_spelled);
}
const sn_diff_rule sn_diff_reduce_window = {
    .name = "reduce_window", .vjp = reduce_window_vjp, .jvp = reduce_window_jvp};

/* ---- select-and-scatter: linear in the source ---- */

static bool simple_select(sn_diff *d, sn_instr *i, const char *mode, int64_t *direction) {
  sn_opcode add;
  const sn_instr *r = i->called[0]->root;
  bool fine = sn_computation_is_binary(i->called[1], &add) && add == SN_OP_ADD && r->op == SN_OP_COMPARE &&
              sn_op0(r) == i->called[0]->params[0] && sn_op1(r) == i->called[0]->params[1];
  *direction = fine ? sn_instr_int(r, SN_ATTR_DIRECTION) : 0;
  fine = fine && (*direction == SN_DIRECTION_GE || *direction == SN_DIRECTION_LE);
  if (!fine) sn_diff_no_rule(d, i, mode);
  return fine;
}

static void select_and_scatter_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  int64_t direction;
  if (!simple_select(d, i, "reverse", &direction)) return;
  sn_instr *source = sn_op1(i);
  int64_t all[SN_MAX_RANK];
  for (int k = 0; k < i->shape->rank; k++) all[k] = k;
  if (sn_diff_wants(d, i, 2)) sn_diff_give(d, i, 2, sn_d_sum(d, ct[0], i->shape->rank, all));
  if (!sn_diff_wants(d, i, 1)) return;
  sn_instr windows = *i; /* at_offset looks at the window and the result's shape: those of the source here */
  windows.shape = source->shape;
  sn_diff_give(d, i, 1, winning_tangent(d, &windows, X, ct[0], direction));
}

static void select_and_scatter_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *ts = sn_diff_tangent(d, i, 1), *ti = sn_diff_tangent(d, i, 2);
  int64_t direction;
  if ((!ts && !ti) || !simple_select(d, i, "forward", &direction)) return;
  sn_instr *operands[3] = {X, ts ? ts : sn_d_like(d, sn_op1(i), 0), ti ? ti : sn_d_like(d, sn_instr_operand(i, 2), 0)};
  *out = sn_d_again(d, i, 3, operands);
}
/* The choice of the element is a step function of the operand: no derivative there. */
static void select_and_scatter_active(sn_diff *d, sn_instr *i, bool *out) {
  *out = sn_diff_wants(d, i, 1) || sn_diff_wants(d, i, 2);
}
const sn_diff_rule sn_diff_select_and_scatter = {.name = "select_and_scatter",
                                                 .vjp = select_and_scatter_vjp,
                                                 .jvp = select_and_scatter_jvp,
                                                 .active = select_and_scatter_active};
