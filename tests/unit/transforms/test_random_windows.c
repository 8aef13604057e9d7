/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The same for reductions, windows and convolutions. */
#include <string.h>

#include "cases.h"
#include "random_case.h"

RANDOM(reduce_fn) {
  CASE;
  sn_tensor x = in[0];
  switch (r->op) {
    case SN_OP_ADD: x = sn_sum(x, r->n_axes, r->axes, r->flag); break;
    case SN_OP_MULTIPLY: x = sn_prod(x, r->n_axes, r->axes, r->flag); break;
    case SN_OP_MAXIMUM: x = sn_max(x, r->n_axes, r->axes, r->flag); break;
    default: x = sn_min(x, r->n_axes, r->axes, r->flag); break;
  }
  out[0] = sn_sin(x);
}
static const sn_opcode reducers[] = {SN_OP_ADD, SN_OP_MULTIPLY, SN_OP_MAXIMUM, SN_OP_MINIMUM};
static void draw_reducer(random_case *r, int n) {
  r->op = reducers[draw_int(r, 0, n - 1)];
  r->c.skip = r->op == SN_OP_MAXIMUM || r->op == SN_OP_MINIMUM ? SKIP_SECOND : 0;
}
static void make_reduce(random_case *r) {
  r->c.fn = reduce_fn;
  r->c.n = 1;
  draw_reducer(r, 4);
  draw_dims(r, &r->c.in[0], 1, 4);
  r->n_axes = draw_subset(r, r->c.in[0].rank, 1, r->axes);
  r->flag = draw_int(r, 0, 1);
}

RANDOM(cumulative_fn) {
  CASE;
  int axis = (int)r->axes[0];
  out[0] = sn_sin(r->op == SN_OP_ADD ? sn_cumsum(in[0], axis, r->flag) : r->op == SN_OP_MULTIPLY ? sn_cumprod(in[0], axis, r->flag) : sn_cummax(in[0], axis, r->flag));
}
static void make_cumulative(random_case *r) {
  r->c.fn = cumulative_fn;
  r->c.n = 1;
  draw_reducer(r, 3);
  draw_dims(r, &r->c.in[0], 1, 3);
  r->axes[0] = draw_int(r, 0, r->c.in[0].rank - 1);
  r->flag = draw_int(r, 0, 1);
}

/* Window k along axis k of x: low, high are paddings, step the stride, spread the dilations (of the base times 8, of the window). */
static void window_of(const random_case *r, int rank, sn_window_dim *w) {
  for (int k = 0; k < rank; k++) w[k] = (sn_window_dim){r->more[k], r->step[k], r->low[k], r->high[k], r->spread[k] / 8, r->spread[k] % 8, r->flag && k == 0};
}
static void draw_window(random_case *r, int k, int64_t size, bool dilate) {
  int64_t base = dilate ? draw_int(r, 1, 2) : 1, inner = dilate ? draw_int(r, 1, 2) : 1;
  r->low[k] = draw_int(r, 0, 1);
  r->high[k] = draw_int(r, 0, 1);
  r->step[k] = draw_int(r, 1, 2);
  r->spread[k] = 8 * base + inner;
  int64_t room = (size - 1) * base + 1 + r->low[k] + r->high[k]; /* the window must fit once */
  r->more[k] = draw_int(r, 1, (room - 1) / inner + 1 < 3 ? (room - 1) / inner + 1 : 3);
}

RANDOM(window_fn) {
  CASE;
  sn_window_dim w[4];
  int rank = sn_tensor_rank(in[0]);
  window_of(r, rank, w);
  /* A maximum starts below every value, so that a window of padding alone has a value. */
  out[0] = sn_sin(sn_reduce_window(r->op, in[0], r->op == SN_OP_ADD ? 0 : r->op == SN_OP_MULTIPLY ? 1 : r->op == SN_OP_MAXIMUM ? -5 : 5, &(sn_window){rank, w}));
}
static void make_window(random_case *r) {
  r->c.fn = window_fn;
  r->c.n = 1;
  draw_reducer(r, 4);
  draw_dims(r, &r->c.in[0], 1, 3);
  for (int k = 0; k < r->c.in[0].rank; k++) draw_window(r, k, r->c.in[0].dims[k], r->op == SN_OP_ADD);
}

RANDOM(select_and_scatter_fn) {
  CASE;
  sn_window_dim w[4];
  int rank = sn_tensor_rank(in[0]);
  window_of(r, rank, w);
  out[0] = sn_sin(sn_select_and_scatter(SN_DIRECTION_GE, SN_OP_ADD, in[0], in[1], 0, &(sn_window){rank, w}));
}
static void make_select_and_scatter(random_case *r) {
  in_spec *x = &r->c.in[0], *s = &r->c.in[1];
  r->c.fn = select_and_scatter_fn;
  r->c.n = 2;
  r->c.skip = SKIP_SECOND;
  draw_dims(r, x, 1, 3);
  s->rank = x->rank;
  for (int k = 0; k < x->rank; k++) {
    draw_window(r, k, x->dims[k], false);
    if (r->low[k] || r->high[k]) r->more[k] = x->dims[k] > 1 ? 2 : 1; /* no window of padding alone: nothing would be selected */
    if (r->more[k] == 1) r->low[k] = r->high[k] = 0;
    s->dims[k] = (x->dims[k] + r->low[k] + r->high[k] - r->more[k]) / r->step[k] + 1;
  }
}

RANDOM(conv_fn) {
  CASE;
  sn_conv_options o = {.layout = r->other ? SN_NCHW : SN_NHWC, .padding = SN_PAD_EXPLICIT, .stride = r->step, .low = r->low, .high = r->high, .input_dilation = r->axes,
                       .kernel_dilation = r->axes + 4, .groups = r->n_batch};
  out[0] = sn_conv(in[0], in[1], &o);
}
static void make_conv(random_case *r) {
  in_spec *x = &r->c.in[0], *w = &r->c.in[1];
  int spatial = (int)draw_int(r, 1, 2), groups = (int)draw_int(r, 1, 2);
  int64_t channels = groups * draw_int(r, 1, 2), outputs = groups * draw_int(r, 1, 2);
  r->c.fn = conv_fn;
  r->c.n = 2;
  r->n_batch = groups;
  r->other = draw_int(r, 0, 1);
  x->rank = w->rank = spatial + 2;
  int at = r->other ? 2 : 1, kernel_at = r->other ? 2 : 0;
  x->dims[0] = draw_int(r, 1, 3);
  x->dims[r->other ? 1 : spatial + 1] = channels;
  w->dims[r->other ? 0 : spatial + 1] = outputs;
  w->dims[r->other ? 1 : spatial] = channels / groups;
  for (int k = 0; k < spatial; k++) {
    x->dims[at + k] = draw_int(r, 1, 4);
    draw_window(r, k, x->dims[at + k], true);
    w->dims[kernel_at + k] = r->more[k];
    r->axes[k] = r->spread[k] / 8;
    r->axes[4 + k] = r->spread[k] % 8;
  }
}

static const random_family families[] = {{"reduce", make_reduce}, {"cumulative", make_cumulative}, {"window", make_window}, {"select-and-scatter", make_select_and_scatter},
                                         {"conv", make_conv}};
enum { N_FAMILIES = (int)(sizeof families / sizeof *families), SEEDS = 100 };

START_TEST(random_windows) {
  for (int s = 0; s < SEEDS; s++) run_family(&families[_i], s);
}
END_TEST

void add_random_windows(Suite *s) {
  TCase *t = tcase_create("random windows");
  tcase_add_loop_test(t, random_windows, 0, N_FAMILIES);
  suite_add_tcase(s, t);
}
