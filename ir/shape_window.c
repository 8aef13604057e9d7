/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of ops with a window: convolution, reduce-window, select-and-scatter.
 *
 *   dilated base     (size - 1) * lhs_dilate + 1, padded by pad_low and pad_high
 *   dilated window   (window size - 1) * rhs_dilate + 1
 *   result           how often the window fits, in steps of stride */
#include "infer.h"

#include <inttypes.h>

static int64_t window_dilate(int64_t size, int64_t by, bool *ok) {
  int64_t n;
  if (size <= 0) return 0;
  if (!sn_mul_i64(size - 1, by, &n) || !sn_add_i64(n, 1, &n)) {
    *ok = false;
    return 0;
  }
  return n;
}

static sn_status window_dim(sn_diag *d, const sn_infer *in, int k, const sn_window_dim *w,
                            int64_t *size) {
  if (w->size < 1 || w->stride < 1 || w->lhs_dilate < 1 || w->rhs_dilate < 1) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "window dimension %d has size %" PRId64 ", stride %" PRId64
                         ", dilations %" PRId64 " and %" PRId64 ": each must be at least 1",
                         k, w->size, w->stride, w->lhs_dilate, w->rhs_dilate);
  }
  if (*size == SN_DIM_UNBOUNDED) return SN_OK;
  bool ok = true;
  int64_t base = window_dilate(*size, w->lhs_dilate, &ok),
          span = window_dilate(w->size, w->rhs_dilate, &ok);
  ok = ok && sn_add_i64(base, w->pad_low, &base) && sn_add_i64(base, w->pad_high, &base);
  if (!ok)
    return sn_infer_fail(d, in, SN_ERR_OVERFLOW,
                         "window dimension %d: the padded size does not fit 64 bits", k);
  *size = base < span ? 0 : (base - span) / w->stride + 1;
  return SN_OK;
}

sn_status sn_infer_window(sn_diag *d, const sn_infer *in, const sn_window *w, int n,
                          const sn_dims *base, sn_dims *out) {
  int rank = w ? w->rank : 0;
  if (rank != n) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "window= has %d dimension%s, expected %d", rank,
                         rank == 1 ? "" : "s", n);
  }
  *out = *base;
  for (int k = 0; k < n; k++) SN_TRY(window_dim(d, in, k, &w->dims[k], &out->size[k]));
  return SN_OK;
}

static const sn_window *window_of(const sn_infer *in) {
  const sn_attr *a = sn_infer_attr(in, SN_ATTR_WINDOW);
  return a ? a->u.window : NULL;
}

/* ---- convolution
 * --------------------------------------------------------------------------------------------------------------
 */

/* dim_labels must name every dimension of its array once. */
static sn_status conv_check_labels(sn_diag *d, const sn_infer *in, const char *what,
                                   const sn_shape *s, int n_spatial, int64_t a, int64_t b,
                                   const int64_t *spatial) {
  if (s && s->rank != n_spatial + 2) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE, "dim_labels= gives the %s %d dimensions, found %s", what,
                      n_spatial + 2, sn_infer_text(in, s));
    sn_hint(d,
            "labels are INPUT_KERNEL->OUTPUT, such as b01f_01io->b01f: batch, feature and spatial "
            "dimensions");
    return st;
  }
  int64_t all[SN_MAX_RANK] = {a, b};
  if (n_spatial > SN_MAX_RANK - 2)
    return sn_infer_fail(d, in, SN_ERR_UNSUPPORTED, "%d spatial dimensions are too many",
                         n_spatial);
  for (int i = 0; i < n_spatial; i++) all[2 + i] = spatial[i];
  sn_ints dims = {n_spatial + 2, all};
  char name[32];
  snprintf(name, sizeof name, "dim_labels= (%s)", what);
  return sn_infer_want_dims(d, in, name, dims, n_spatial + 2);
}

static bool conv_differ(int64_t a, int64_t b) {
  return a != b && a != SN_DIM_UNBOUNDED && b != SN_DIM_UNBOUNDED;
}

static bool conv_divides(int64_t n, int64_t by) {
  return n == SN_DIM_UNBOUNDED || n % by == 0;
}

static sn_status conv_check_groups(sn_diag *d, const sn_infer *in, const sn_conv_dims *c,
                                   int64_t features, int64_t batches) {
  const sn_shape *x = in->operands[0], *k = in->operands[1];
  int64_t in_features = x->dims[c->input_feature], k_in = k->dims[c->kernel_input_feature],
          k_out = k->dims[c->kernel_output_feature];
  if (features < 1 || batches < 1 || (features > 1 && batches > 1)) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "feature_group_count=%" PRId64 " and batch_group_count=%" PRId64
                         " must be at least 1, and only one of them more",
                         features, batches);
  }
  if (!conv_divides(in_features, features) ||
      (in_features != SN_DIM_UNBOUNDED && conv_differ(in_features / features, k_in))) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE,
                      "the kernel takes %" PRId64 " input features, the input %s has %" PRId64
                      " in %" PRId64 " group%s",
                      k_in, sn_infer_text(in, x), in_features, features, features == 1 ? "" : "s");
    sn_hint(d, "kernel input features = input features / feature_group_count");
    return st;
  }
  if (!conv_divides(k_out, features) || !conv_divides(k_out, batches)) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "%" PRId64 " output features do not split into %" PRId64 " groups", k_out,
                         features > 1 ? features : batches);
  }
  if (!conv_divides(x->dims[c->input_batch], batches)) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "a batch of %" PRId64 " does not split into %" PRId64 " groups",
                         x->dims[c->input_batch], batches);
  }
  return SN_OK;
}

static sn_status conv_check_window(sn_diag *d, const sn_infer *in, const sn_conv_dims *c,
                                   const sn_window *w) {
  if ((w ? w->rank : 0) != c->n_spatial) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "window= has %d dimensions, dim_labels= %d spatial ones", w ? w->rank : 0,
                         c->n_spatial);
  }
  for (int i = 0; i < c->n_spatial; i++) {
    int64_t k = in->operands[1]->dims[c->kernel_spatial[i]];
    if (!conv_differ(k, w->dims[i].size)) continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "window size %" PRId64
                         " of spatial dimension %d must be the kernel's, found %" PRId64 " in %s",
                         w->dims[i].size, i, k, sn_infer_text(in, in->operands[1]));
  }
  return SN_OK;
}

static sn_status conv_dims(sn_diag *d, const sn_infer *in, const sn_conv_dims *c, int64_t batches,
                           sn_dims *dims) {
  const sn_shape *x = in->operands[0], *k = in->operands[1];
  sn_dims base = {.rank = 0}, spatial;
  for (int i = 0; i < c->n_spatial; i++) sn_dims_push(&base, x, c->input_spatial[i]);
  SN_TRY(sn_infer_window(d, in, window_of(in), c->n_spatial, &base, &spatial));
  dims->rank = c->n_spatial + 2;
  int64_t batch = x->dims[c->input_batch];
  dims->size[c->output_batch] = batch == SN_DIM_UNBOUNDED ? batch : batch / batches;
  dims->dynamic[c->output_batch] = sn_dims_is_dynamic(x, c->input_batch);
  dims->size[c->output_feature] = k->dims[c->kernel_output_feature];
  dims->dynamic[c->output_feature] = sn_dims_is_dynamic(k, c->kernel_output_feature);
  for (int i = 0; i < c->n_spatial; i++) {
    dims->size[c->output_spatial[i]] = spatial.size[i];
    dims->dynamic[c->output_spatial[i]] = spatial.dynamic[i];
  }
  return SN_OK;
}

sn_status sn_shape_rule_convolution(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_ANY));
  const sn_conv_dims *c = sn_infer_attr(in, SN_ATTR_DIM_LABELS)->u.conv;
  SN_TRY(conv_check_labels(d, in, "input", in->operands[0], c->n_spatial, c->input_batch,
                           c->input_feature, c->input_spatial));
  SN_TRY(conv_check_labels(d, in, "kernel", in->operands[1], c->n_spatial, c->kernel_input_feature,
                           c->kernel_output_feature, c->kernel_spatial));
  SN_TRY(conv_check_labels(d, in, "output", NULL, c->n_spatial, c->output_batch, c->output_feature,
                           c->output_spatial));
  int64_t batches = sn_infer_int(in, SN_ATTR_BATCH_GROUP_COUNT);
  SN_TRY(conv_check_groups(d, in, c, sn_infer_int(in, SN_ATTR_FEATURE_GROUP_COUNT), batches));
  SN_TRY(conv_check_window(d, in, c, window_of(in)));
  sn_type t;
  SN_TRY(sn_infer_product_type(d, in, in->operands[0]->type, in->operands[1]->type, &t));
  sn_dims dims = {.rank = 0};
  SN_TRY(conv_dims(d, in, c, batches, &dims));
  return sn_infer_make(d, in, t, &dims, out);
}

/* ---- reduce-window, select-and-scatter
 * ------------------------------------------------------------------------------------------ */

sn_status sn_shape_rule_reduce_window(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  uint32_t n = in->n_operands / 2;
  sn_type *types = NULL;
  SN_TRY(sn_infer_reduce_operands(d, in, &types));
  sn_dims base, dims;
  sn_dims_of(in->operands[0], &base);
  SN_TRY(sn_infer_window(d, in, window_of(in), base.rank, &base, &dims));
  const sn_shape **results = SN_NEW_N(in->arena, const sn_shape *, n);
  if (!results) return sn_out_of_memory(d, n * sizeof *results);
  for (uint32_t k = 0; k < n; k++) SN_TRY(sn_infer_make(d, in, types[k], &dims, &results[k]));
  return sn_infer_one_or_tuple(d, in, n, results, out);
}

sn_status sn_shape_rule_select_and_scatter(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  for (uint32_t k = 0; k < 3; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    SN_TRY(sn_infer_want_same_type(d, in, 0, k));
  }
  SN_TRY(sn_infer_want_scalar(d, in, 2, SN_TAKES_ANY));
  const sn_shape *x = in->operands[0], *source = in->operands[1], *want = NULL;
  sn_dims base, dims;
  sn_dims_of(x, &base);
  SN_TRY(sn_infer_window(d, in, window_of(in), base.rank, &base, &dims));
  SN_TRY(sn_infer_make(d, in, x->type, &dims, &want));
  if (!sn_dims_compatible(want, source)) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE,
                      "the source must have one element for each window: expected %s, found %s",
                      sn_infer_text(in, want), sn_infer_text(in, source));
    sn_hint(d,
            "operands are the array, the source (shaped like a reduce-window of the array), the "
            "initial value");
    return st;
  }
  sn_type accumulated;
  SN_TRY(sn_infer_want_comparator(d, in, 0, 1, &x->type));
  SN_TRY(sn_infer_want_reducer(d, in, 1, 1, &x->type, &x->type, &accumulated));
  sn_dims_of(x, &dims);
  return sn_infer_make(d, in, accumulated, &dims, out);
}
