/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* convolution: for each group a product of [output positions, kernel elements] and [kernel elements, output features];
 * the left matrix is read from the input as it is needed. Covers padding (also negative), strides, both dilations,
 * reversal, feature and batch groups. */
#include "eval_internal.h"

typedef struct conv_job {
  const sn_conv_dims *c;
  const sn_window *w;
  sn_ev_carrier carrier;
  const sn_shape *in, *kernel, *out;
  const char *in_data, *kernel_data;
  char *out_data;
  int64_t is[SN_MAX_RANK], ks[SN_MAX_RANK], os[SN_MAX_RANK];
  int64_t feature_groups, batch_groups, in_features; /* features a group reads */
  int64_t out_batch, out_features;                   /* features a group makes */
  int64_t out_space[SN_MAX_RANK], window[SN_MAX_RANK], positions, taps;
} conv_job;

/* Offset in the input of output position `o` under kernel tap `k` in the spatial dims, or -1 in padding and holes. */
static int64_t input_offset(const conv_job *j, const int64_t *o, const int64_t *k) {
  int64_t at = 0;
  for (int d = 0; d < j->c->n_spatial; d++) {
    const sn_window_dim *w = &j->w->dims[d];
    int64_t p = o[d] * w->stride + k[d] * w->rhs_dilate - w->pad_low, dim = j->c->input_spatial[d];
    if (p < 0 || p % w->lhs_dilate) return -1;
    p /= w->lhs_dilate;
    if (p >= j->in->dims[dim]) return -1;
    at += p * j->is[dim];
  }
  return at;
}

static void unflatten(int rank, const int64_t *dims, int64_t flat, int64_t *index) {
  for (int d = rank - 1; d >= 0; d--) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
}

static void read_a(void *ctx, int64_t group, int64_t row, int64_t rows, void *to) {
  const conv_job *j = ctx;
  size_t each = sn_ev_carrier_bytes(j->carrier), run = (size_t)j->in_features * each,
         bytes = sn_type_bytes(j->in->type);
  char *at = to;
  for (int64_t r = row; r < row + rows; r++) {
    int64_t o[SN_MAX_RANK], k[SN_MAX_RANK] = {0}, batch = r / j->positions;
    unflatten(j->c->n_spatial, j->out_space, r % j->positions, o);
    if (j->batch_groups > 1) batch += group * j->out_batch;
    int64_t base = batch * j->is[j->c->input_batch] +
                   (j->feature_groups > 1 ? group * j->in_features * j->is[j->c->input_feature] : 0);
    for (int64_t t = 0; t < j->taps; t++, at += run) {
      int64_t p = input_offset(j, o, k);
      if (p < 0)
        memset(at, 0, run);
      else
        sn_ev_load_carrier(j->carrier, at, j->in->type, j->in_data + (size_t)(base + p) * bytes,
                           j->is[j->c->input_feature], j->in_features);
      (void)sn_ev_next(j->c->n_spatial, j->window, k);
    }
  }
}

static void read_b(void *ctx, int64_t group, int64_t col, int64_t cols, void *to) {
  const conv_job *j = ctx;
  size_t run = (size_t)j->in_features * sn_ev_carrier_bytes(j->carrier), bytes = sn_type_bytes(j->kernel->type);
  char *at = to;
  for (int64_t f = group * j->out_features + col; f < group * j->out_features + col + cols; f++) {
    int64_t k[SN_MAX_RANK] = {0};
    for (int64_t t = 0; t < j->taps; t++, at += run) {
      int64_t p = f * j->ks[j->c->kernel_output_feature];
      for (int d = 0; d < j->c->n_spatial; d++)
        p += (j->w->dims[d].reversal ? j->window[d] - 1 - k[d] : k[d]) * j->ks[j->c->kernel_spatial[d]];
      sn_ev_load_carrier(j->carrier, at, j->kernel->type, j->kernel_data + (size_t)p * bytes,
                         j->ks[j->c->kernel_input_feature], j->in_features);
      (void)sn_ev_next(j->c->n_spatial, j->window, k);
    }
  }
}

static void store(void *ctx, int64_t group, int64_t row, int64_t col, int64_t cols, const void *from) {
  const conv_job *j = ctx;
  int64_t o[SN_MAX_RANK], fs = j->os[j->c->output_feature];
  size_t bytes = sn_type_bytes(j->out->type), each = sn_ev_carrier_bytes(j->carrier);
  unflatten(j->c->n_spatial, j->out_space, row % j->positions, o);
  int64_t at = row / j->positions * j->os[j->c->output_batch] + (group * j->out_features + col) * fs;
  for (int d = 0; d < j->c->n_spatial; d++) at += o[d] * j->os[j->c->output_spatial[d]];
  if (fs == 1) {
    sn_ev_store_carrier(j->carrier, j->out->type, j->out_data + (size_t)at * bytes, from, cols);
    return;
  }
  for (int64_t q = 0; q < cols; q++)
    sn_ev_store_carrier(j->carrier, j->out->type, j->out_data + (size_t)(at + q * fs) * bytes,
                        (const char *)from + (size_t)q * each, 1);
}

static sn_status job_open(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, conv_job *j) {
  memset(j, 0, sizeof *j);
  j->c = sn_instr_conv(i);
  j->w = sn_instr_window(i);
  if (!j->c || (j->c->n_spatial > 0 && (!j->w || j->w->rank != j->c->n_spatial)))
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "its window and dim_labels do not fit");
  j->in = sn_array_shape(in[0]);
  j->kernel = sn_array_shape(in[1]);
  j->out = i->shape;
  if (j->in->rank != j->c->n_spatial + 2 || j->kernel->rank != j->in->rank || j->out->rank != j->in->rank)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "its dim_labels do not fit its shapes");
  j->carrier = sn_ev_carrier_of(j->in->type, j->kernel->type, j->out->type);
  j->in_data = sn_array_data(in[0]);
  j->kernel_data = sn_array_data(in[1]);
  sn_ev_strides(j->in->rank, j->in->dims, j->is);
  sn_ev_strides(j->kernel->rank, j->kernel->dims, j->ks);
  sn_ev_strides(j->out->rank, j->out->dims, j->os);
  j->feature_groups = sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT);
  j->batch_groups = sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT);
  j->in_features = j->kernel->dims[j->c->kernel_input_feature];
  j->out_batch = j->out->dims[j->c->output_batch];
  j->positions = j->taps = 1;
  for (int d = 0; d < j->c->n_spatial; d++) {
    j->positions *= j->out_space[d] = j->out->dims[j->c->output_spatial[d]];
    j->taps *= j->window[d] = j->kernel->dims[j->c->kernel_spatial[d]];
  }
  return SN_OK;
}

sn_status sn_eval_convolution(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  conv_job j;
  SN_TRY(job_open(e, i, in, &j));
  int64_t groups = j.feature_groups * j.batch_groups, features = j.out->dims[j.c->output_feature];
  if (groups < 1 || (j.feature_groups > 1 && j.batch_groups > 1))
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "feature groups and batch groups cannot be combined");
  if (features % groups || j.in->dims[j.c->input_feature] != j.in_features * j.feature_groups ||
      j.in->dims[j.c->input_batch] != j.out_batch * j.batch_groups)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "features and batch do not divide into %lld groups", (long long)groups);
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  j.out_data = sn_array_data(*out);
  j.out_features = features / groups;
  sn_ev_gemm g = {j.carrier, groups, j.out_batch * j.positions, j.out_features, j.taps * j.in_features, &j, read_a,
                  read_b,    store};
  return sn_ev_gemm_run(e, i, &g);
}
