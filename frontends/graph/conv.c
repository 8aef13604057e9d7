/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolution and pooling in the two common layouts. */
#include <math.h>

#include "graph_internal.h"

sn_tensor sn_convolution_at(sn_loc at, sn_tensor x, sn_tensor kernel, const sn_window *w, const sn_conv_dims *dims,
                            int64_t feature_groups, int64_t batch_groups) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b), *k = i ? sn_graph_use(x.graph, at, kernel) : NULL;
  return sn_graph_tensor(x.graph, k ? sn_build_convolution(b, i, k, w, dims, feature_groups, batch_groups) : NULL);
}

static int64_t nth(const int64_t *list, int k, int64_t otherwise) { return list ? list[k] : otherwise; }

/* Padding of one axis so that the output has ceil(in / stride) elements; the odd one goes behind (as TensorFlow and
 * Flax have it). */
static void same_padding(int64_t in, int64_t window, int64_t stride, int64_t *low, int64_t *high) {
  int64_t out = (in + stride - 1) / stride, total = (out - 1) * stride + window - in;
  if (total < 0) total = 0;
  *low = total / 2;
  *high = total - total / 2;
}

static bool positive(sn_graph *g, sn_loc at, const char *what, const char *field, const int64_t *list, int n) {
  for (int k = 0; list && k < n; k++) {
    if (list[k] > 0) continue;
    sn_graph_fail(g, at, SN_ERR_ATTRIBUTE, "%s: %s %lld at spatial axis %d must be positive", what, field,
                  (long long)list[k], k);
    return false;
  }
  return true;
}

sn_tensor sn_conv_at(sn_loc at, sn_tensor x, sn_tensor kernel, const sn_conv_options *o) {
  static const sn_conv_options defaults = {0};
  sn_graph *g = x.graph;
  if (!o) o = &defaults;
  if (!x.instr || !kernel.instr) return sn_graph_empty(g);
  int rank = sn_tensor_rank(x), n = rank - 2;
  if (n < 0 || sn_tensor_rank(kernel) != rank) {
    sn_graph_fail(g, at, SN_ERR_SHAPE, "conv: input %s with kernel %s", sn_tensor_text(x), sn_tensor_text(kernel));
    sn_graph_hint(g, o->layout == SN_NHWC ? "input N,spatial…,C; kernel spatial…,I,O"
                                          : "input N,C,spatial…; kernel O,I,spatial…");
    return sn_graph_empty(g);
  }
  if (!positive(g, at, "conv", "stride", o->stride, n) ||
      !positive(g, at, "conv", "input dilation", o->input_dilation, n) ||
      !positive(g, at, "conv", "kernel dilation", o->kernel_dilation, n))
    return sn_graph_empty(g);
  bool last = o->layout == SN_NHWC;
  sn_window_dim w[SN_MAX_RANK];
  int64_t xs[SN_MAX_RANK], ks[SN_MAX_RANK];
  for (int k = 0; k < n; k++) {
    xs[k] = last ? 1 + k : 2 + k;
    ks[k] = last ? k : 2 + k;
    w[k] = (sn_window_dim){.size = sn_tensor_dim(kernel, (int)ks[k]),
                           .stride = nth(o->stride, k, 1),
                           .lhs_dilate = nth(o->input_dilation, k, 1),
                           .rhs_dilate = nth(o->kernel_dilation, k, 1)};
    if (o->padding == SN_PAD_EXPLICIT) {
      w[k].pad_low = nth(o->low, k, 0);
      w[k].pad_high = nth(o->high, k, 0);
    } else if (o->padding == SN_PAD_SAME) {
      int64_t in = sn_tensor_dim(x, (int)xs[k]);
      in = in ? (in - 1) * w[k].lhs_dilate + 1 : 0;
      same_padding(in, w[k].size ? (w[k].size - 1) * w[k].rhs_dilate + 1 : 0, w[k].stride, &w[k].pad_low,
                   &w[k].pad_high);
    }
  }
  sn_conv_dims d = {.n_spatial = n,
                    .input_feature = last ? rank - 1 : 1,
                    .kernel_input_feature = last ? rank - 2 : 1,
                    .kernel_output_feature = last ? rank - 1 : 0,
                    .output_feature = last ? rank - 1 : 1,
                    .input_spatial = xs,
                    .kernel_spatial = ks,
                    .output_spatial = xs,
                    .input_rank = rank,
                    .kernel_rank = rank,
                    .output_rank = rank};
  return sn_convolution_at(at, x, kernel, &(sn_window){n, w}, &d, o->groups ? o->groups : 1, 1);
}

/* ---- pooling ---- */

static bool pool_window(sn_loc at, sn_tensor x, const char *what, const sn_pool_options *o, sn_window_dim *w) {
  int rank = sn_tensor_rank(x), n = rank - 2;
  if (n < 1 || !o || !o->window) {
    sn_graph_fail(x.graph, at, SN_ERR_SHAPE, "%s of %s: batch, feature and spatial axes and a window are needed", what,
                  sn_tensor_text(x));
    return false;
  }
  if (!positive(x.graph, at, what, "window", o->window, n) || !positive(x.graph, at, what, "stride", o->stride, n))
    return false;
  for (int k = 0; k < rank; k++) w[k] = (sn_window_dim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  for (int k = 0; k < n; k++) {
    int axis = o->layout == SN_NHWC ? 1 + k : 2 + k;
    w[axis].size = o->window[k];
    w[axis].stride = nth(o->stride, k, o->window[k]);
    if (o->padding == SN_PAD_EXPLICIT) {
      w[axis].pad_low = nth(o->low, k, 0);
      w[axis].pad_high = nth(o->high, k, 0);
    } else if (o->padding == SN_PAD_SAME) {
      same_padding(sn_tensor_dim(x, axis), w[axis].size, w[axis].stride, &w[axis].pad_low, &w[axis].pad_high);
    }
  }
  return true;
}

sn_tensor sn_max_pool_at(sn_loc at, sn_tensor x, const sn_pool_options *o) {
  sn_window_dim w[SN_MAX_RANK];
  if (!x.instr || !pool_window(at, x, "max_pool", o, w)) return sn_graph_empty(x.graph);
  return sn_reduce_window_at(at, SN_OP_MAXIMUM, x, -INFINITY, &(sn_window){sn_tensor_rank(x), w});
}

sn_tensor sn_avg_pool_at(sn_loc at, sn_tensor x, const sn_pool_options *o) {
  sn_window_dim w[SN_MAX_RANK];
  if (!x.instr || !pool_window(at, x, "avg_pool", o, w)) return sn_graph_empty(x.graph);
  sn_window win = {sn_tensor_rank(x), w};
  sn_tensor sum = sn_reduce_window_at(at, SN_OP_ADD, x, 0, &win);
  double count = 1;
  bool padded = false;
  for (int k = 0; k < win.rank; k++) {
    count *= (double)w[k].size;
    padded |= w[k].pad_low || w[k].pad_high;
  }
  if (o->count_pad || !padded) return sn_binary_c_at(at, SN_OP_DIVIDE, sum, count);
  return sn_binary_at(at, SN_OP_DIVIDE, sum, sn_reduce_window_at(at, SN_OP_ADD, sn_full_like_at(at, x, 1), 0, &win));
}
