/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batch normalisation over every dimension but the feature's, in f64, rounded once. */
#include <math.h>

#include "eval_internal.h"

typedef struct norm {
  sn_type t;
  size_t bytes;
  int64_t outer, features, inner; /* the operand is [outer, features, inner] */
  double epsilon, count;
} norm;

static sn_status norm_open(sn_ev_ctx *e, const sn_instr *i, const sn_shape *s, norm *n) {
  int64_t f = sn_instr_int(i, SN_ATTR_FEATURE_INDEX);
  if (f < 0 || f >= s->rank)
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "feature_index %lld of an operand of rank %d", (long long)f, s->rank);
  n->t = s->type;
  n->bytes = sn_type_bytes(s->type);
  n->outer = sn_ev_product((int)f, s->dims);
  n->features = s->dims[f];
  n->inner = sn_ev_product(s->rank - (int)f - 1, s->dims + f + 1);
  n->epsilon = (double)(float)sn_instr_f64(i, SN_ATTR_EPSILON); /* the attribute is an f32 in XLA */
  n->count = (double)(n->outer * n->inner);
  return SN_OK;
}

static double at(const norm *n, const sn_array *a, int64_t o, int64_t f, int64_t q) {
  return sn_load_f64(n->t, (const char *)sn_array_data(a) + (size_t)((o * n->features + f) * n->inner + q) * n->bytes);
}
static void put(const norm *n, sn_array *a, int64_t o, int64_t f, int64_t q, double v) {
  sn_store_f64(n->t, (char *)sn_array_data(a) + (size_t)((o * n->features + f) * n->inner + q) * n->bytes, v);
}
static double feature(const sn_array *a, int64_t f) {
  sn_type t = sn_array_shape(a)->type;
  return sn_load_f64(t, (const char *)sn_array_data(a) + (size_t)f * sn_type_bytes(t));
}
static void put_feature(sn_array *a, int64_t f, double v) {
  sn_type t = sn_array_shape(a)->type;
  sn_store_f64(t, (char *)sn_array_data(a) + (size_t)f * sn_type_bytes(t), v);
}

static sn_status three(sn_ev_ctx *e, const sn_instr *i, sn_array **outs) {
  for (int k = 0; k < 3; k++) outs[k] = NULL;
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != 3)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives three arrays");
  for (int k = 0; k < 3; k++) {
    sn_status s = sn_ev_new(e, i, i->shape->elements[k], &outs[k]);
    for (int q = 0; s != SN_OK && q < k; q++) sn_ev_release(e, outs[q]);
    SN_TRY(s);
  }
  return SN_OK;
}

static void normalise(const norm *n, const sn_array *x, sn_array *out, int64_t f, double scale, double offset,
                      double mean, double variance) {
  double by = scale / sqrt(variance + n->epsilon);
  for (int64_t o = 0; o < n->outer; o++)
    for (int64_t q = 0; q < n->inner; q++) put(n, out, o, f, q, (at(n, x, o, f, q) - mean) * by + offset);
}

/* operand, scale, offset -> output, mean, variance (of the batch, divided by its size). */
sn_status sn_eval_batch_norm_training(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  norm n;
  sn_array *outs[3];
  SN_TRY(norm_open(e, i, sn_array_shape(in[0]), &n));
  SN_TRY(three(e, i, outs));
  for (int64_t f = 0; f < n.features; f++) {
    double mean = 0, variance = 0;
    for (int64_t o = 0; o < n.outer; o++)
      for (int64_t q = 0; q < n.inner; q++) mean += at(&n, in[0], o, f, q);
    mean /= n.count;
    for (int64_t o = 0; o < n.outer; o++)
      for (int64_t q = 0; q < n.inner; q++) {
        double d = at(&n, in[0], o, f, q) - mean;
        variance += d * d;
      }
    variance /= n.count;
    normalise(&n, in[0], outs[0], f, feature(in[1], f), feature(in[2], f), mean, variance);
    put_feature(outs[1], f, mean);
    put_feature(outs[2], f, variance);
  }
  return sn_ev_new_tuple(e, i, 3, outs, out);
}

/* operand, scale, offset, mean, variance. */
sn_status sn_eval_batch_norm_inference(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  norm n;
  SN_TRY(norm_open(e, i, sn_array_shape(in[0]), &n));
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  for (int64_t f = 0; f < n.features; f++)
    normalise(&n, in[0], *out, f, feature(in[1], f), feature(in[2], f), feature(in[3], f), feature(in[4], f));
  return SN_OK;
}

/* operand, scale, mean, variance, gradient of the output -> gradients of operand, scale, offset. */
sn_status sn_eval_batch_norm_grad(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  norm n;
  sn_array *outs[3];
  SN_TRY(norm_open(e, i, sn_array_shape(in[0]), &n));
  SN_TRY(three(e, i, outs));
  for (int64_t f = 0; f < n.features; f++) {
    double mean = feature(in[2], f), inverse = 1 / sqrt(feature(in[3], f) + n.epsilon), sum = 0, moment = 0;
    for (int64_t o = 0; o < n.outer; o++)
      for (int64_t q = 0; q < n.inner; q++) {
        double g = at(&n, in[4], o, f, q);
        sum += g;
        moment += g * (at(&n, in[0], o, f, q) - mean);
      }
    for (int64_t o = 0; o < n.outer; o++)
      for (int64_t q = 0; q < n.inner; q++) {
        double x = at(&n, in[0], o, f, q) - mean, g = at(&n, in[4], o, f, q);
        put(&n, outs[0], o, f, q,
            feature(in[1], f) * inverse * (g - sum / n.count - x * inverse * inverse * moment / n.count));
      }
    put_feature(outs[1], f, moment * inverse);
    put_feature(outs[2], f, sum);
  }
  return sn_ev_new_tuple(e, i, 3, outs, out);
}
