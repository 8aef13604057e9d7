/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of dot and convolution: bilinear, so each operand's cotangent is a product of the result's with the other
 * operand. */
#include <string.h>

#include "diff_internal.h"

#define X sn_op0(i)
#define Y sn_op1(i)

/* ---- dot ---- */

/* Axes of one operand by their part in the product. */
typedef struct side {
  int rank, n_batch, n_contract, n_free;
  int64_t batch[SN_MAX_RANK], contract[SN_MAX_RANK], open[SN_MAX_RANK];
} side;

static void read_side(sn_instr *i, bool lhs, side *s) {
  const sn_shape *shape = sn_operand_shape(i, lhs ? 0 : 1);
  sn_ints b = sn_instr_ints(i, lhs ? SN_ATTR_LHS_BATCH_DIMS : SN_ATTR_RHS_BATCH_DIMS);
  sn_ints c = sn_instr_ints(i, lhs ? SN_ATTR_LHS_CONTRACTING_DIMS : SN_ATTR_RHS_CONTRACTING_DIMS);
  memset(s, 0, sizeof *s);
  s->rank = shape->rank;
  bool taken[SN_MAX_RANK] = {false};
  for (int64_t k = 0; k < b.n; k++) taken[s->batch[s->n_batch++] = b.v[k]] = true;
  for (int64_t k = 0; k < c.n; k++) taken[s->contract[s->n_contract++] = c.v[k]] = true;
  for (int k = 0; k < s->rank; k++)
    if (!taken[k]) s->open[s->n_free++] = k;
}

static sn_instr *dot_like(sn_diff *d, sn_instr *i, sn_instr *a, sn_instr *b, const sn_dot_dims *n, sn_type t) {
  sn_attr attrs[6] = {
      sn_attr_ints(SN_ATTR_LHS_BATCH_DIMS, n->n_batch, n->lhs_batch),
      sn_attr_ints(SN_ATTR_LHS_CONTRACTING_DIMS, n->n_contracting, n->lhs_contracting),
      sn_attr_ints(SN_ATTR_RHS_BATCH_DIMS, n->n_batch, n->rhs_batch),
      sn_attr_ints(SN_ATTR_RHS_CONTRACTING_DIMS, n->n_contracting, n->rhs_contracting),
  };
  uint32_t count = 4;
  const sn_attr *algorithm = sn_instr_attr(i, SN_ATTR_DOT_ALGORITHM),
                *precision = sn_instr_attr(i, SN_ATTR_OPERAND_PRECISION);
  if (algorithm) attrs[count++] = *algorithm;
  if (precision) attrs[count++] = *precision;
  const sn_shape *s = NULL;
  if (a->shape->type != b->shape->type || a->shape->type != t) { /* wider results are stated */
    int64_t dims[SN_MAX_RANK];
    int rank = 0;
    for (int k = 0; k < n->n_batch; k++) dims[rank++] = a->shape->dims[n->lhs_batch[k]];
    for (int which = 0; which < 2; which++) {
      const sn_shape *o = which ? b->shape : a->shape;
      for (int k = 0; k < o->rank; k++) {
        bool used = false;
        for (int j = 0; j < n->n_batch; j++) used |= (which ? n->rhs_batch : n->lhs_batch)[j] == k;
        for (int j = 0; j < n->n_contracting; j++) used |= (which ? n->rhs_contracting : n->lhs_contracting)[j] == k;
        if (!used) dims[rank++] = o->dims[k];
      }
    }
    s = sn_shape_array(sn_builder_arena(d->b), t, rank, dims);
  }
  sn_instr *operands[2] = {a, b};
  return sn_build(d->b, SN_OP_DOT, s, 2, operands, count, attrs, 0, NULL);
}

static bool is_identity(const int64_t *p, int n) {
  for (int k = 0; k < n; k++)
    if (p[k] != k) return false;
  return true;
}

/* Cotangent of one operand. Two orders of the product are possible; the one that gives the operand's axes in order
 * needs no transpose. */
static sn_instr *dot_back(sn_diff *d, sn_instr *i, bool lhs, sn_instr *ct) {
  side me, other;
  read_side(i, lhs, &me);
  read_side(i, !lhs, &other);
  sn_instr *partner = lhs ? Y : X;
  int64_t ct_batch[SN_MAX_RANK], ct_other[SN_MAX_RANK];
  int base = me.n_batch + (lhs ? me.n_free : 0);
  for (int k = 0; k < me.n_batch; k++) ct_batch[k] = k;
  for (int k = 0; k < other.n_free; k++) ct_other[k] = base + k;
  /* What is left of the partner are its contracting axes in axis order; each belongs to one of mine. */
  int64_t mine[SN_MAX_RANK];
  int n = 0;
  for (int axis = 0; axis < other.rank; axis++)
    for (int k = 0; k < other.n_contract; k++)
      if (other.contract[k] == axis) mine[n++] = me.contract[k];
  int64_t first[SN_MAX_RANK], second[SN_MAX_RANK]; /* result axes in terms of mine: (ct, partner) and (partner, ct) */
  int at = 0;
  for (int k = 0; k < me.n_batch; k++) first[at] = second[at] = me.batch[k], at++;
  for (int k = 0; k < me.n_free; k++) first[at + k] = me.open[k], second[at + n + k] = me.open[k];
  for (int k = 0; k < n; k++) first[at + me.n_free + k] = mine[k], second[at + k] = mine[k];
  bool swap = !is_identity(first, me.rank) && is_identity(second, me.rank);
  sn_dot_dims dims = {.n_batch = me.n_batch,
                      .n_contracting = other.n_free,
                      .lhs_batch = swap ? other.batch : ct_batch,
                      .rhs_batch = swap ? ct_batch : other.batch,
                      .lhs_contracting = swap ? other.open : ct_other,
                      .rhs_contracting = swap ? ct_other : other.open};
  sn_type t = (lhs ? X : Y)->shape->type;
  partner = sn_d_convert(d, partner, ct->shape->type);
  sn_instr *r = partner ? dot_like(d, i, swap ? partner : ct, swap ? ct : partner, &dims, ct->shape->type) : NULL;
  int64_t p[SN_MAX_RANK], *order = swap ? second : first;
  for (int k = 0; k < me.rank; k++) p[order[k]] = k;
  return r ? sn_d_convert(d, sn_build_transpose(d->b, r, p), t) : NULL;
}

static void dot_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, dot_back(d, i, true, ct[0]));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, dot_back(d, i, false, ct[0]));
}

/* The same op with one operand replaced by its tangent, for each. */
static void bilinear_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *sum = NULL;
  for (uint32_t k = 0; k < 2; k++) {
    sn_instr *operands[2] = {X, Y}, *t = sn_diff_tangent(d, i, k);
    if (!t) continue;
    operands[k] = t;
    sum = sn_d_add(d, sum, sn_build(d->b, i->op, i->shape, 2, operands, i->n_attrs, i->attrs, 0, NULL));
  }
  *out = sum;
}
const sn_diff_rule sn_diff_dot = {.name = "dot", .vjp = dot_vjp, .jvp = bilinear_jvp};
const sn_diff_rule sn_diff_ragged_dot = {.name = "ragged_dot"};

/* ---- convolution ---- */

static int64_t dilated(int64_t n, int64_t by) { return n > 0 ? (n - 1) * by + 1 : 0; }

/* Splits `axis` into (groups, size / groups) and merges the groups into the front of axis `into`. */
static sn_instr *move_groups(sn_diff *d, sn_instr *x, int64_t axis, int64_t into, int64_t groups) {
  int rank = x->shape->rank;
  int64_t split[SN_MAX_RANK], p[SN_MAX_RANK], dims[SN_MAX_RANK];
  if (rank + 1 > SN_MAX_RANK) return NULL;
  for (int k = 0, at = 0; k < rank; k++) {
    if (k == axis) split[at++] = groups;
    split[at++] = k == axis ? x->shape->dims[k] / groups : x->shape->dims[k];
  }
  for (int k = 0, at = 0; k < rank; k++) { /* the groups axis goes in front of `into` */
    if (k == into) p[at++] = axis;
    p[at++] = k < axis ? k : k + 1;
    dims[k] = k == axis ? x->shape->dims[k] / groups : k == into ? x->shape->dims[k] * groups : x->shape->dims[k];
  }
  sn_instr *r = sn_build_transpose(d->b, sn_build_reshape(d->b, x, rank + 1, split), p);
  return r ? sn_build_reshape(d->b, r, rank, dims) : NULL;
}

static sn_instr *conv_like(sn_diff *d, sn_instr *i, sn_instr *x, sn_instr *k, const sn_window *w,
                           const sn_conv_dims *dims, int64_t groups, int64_t batch_groups) {
  sn_attr attrs[5] = {sn_attr_window(w), sn_attr_conv(dims), sn_attr_int(SN_ATTR_FEATURE_GROUP_COUNT, groups),
                      sn_attr_int(SN_ATTR_BATCH_GROUP_COUNT, batch_groups)};
  const sn_attr *precision = sn_instr_attr(i, SN_ATTR_OPERAND_PRECISION);
  if (precision) attrs[4] = *precision;
  sn_instr *operands[2] = {x, k};
  return sn_build(d->b, SN_OP_CONVOLUTION, NULL, 2, operands, precision ? 5 : 4, attrs, 0, NULL);
}

/* Input: the cotangent, spread by the stride, convolved with the flipped kernel whose features change places. */
static sn_instr *conv_input_back(sn_diff *d, sn_instr *i, sn_instr *ct) {
  const sn_window *w = sn_instr_window(i);
  const sn_conv_dims *c = sn_instr_conv(i);
  int64_t groups = sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT),
          batch_groups = sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT);
  int64_t g = groups > 1 ? groups : batch_groups;
  sn_instr *k = sn_d_convert(d, Y, ct->shape->type);
  if (g > 1 && k) k = move_groups(d, k, c->kernel_output_feature, c->kernel_input_feature, g);
  sn_window_dim dims[SN_MAX_RANK];
  for (int s = 0; s < c->n_spatial; s++) {
    sn_window_dim f = w->dims[s];
    int64_t kernel = dilated(f.size, f.rhs_dilate), in = dilated(X->shape->dims[c->input_spatial[s]], f.lhs_dilate);
    int64_t out = dilated(i->shape->dims[c->output_spatial[s]], f.stride), low = kernel - 1 - f.pad_low;
    dims[s] = (sn_window_dim){.size = f.size,
                              .stride = f.lhs_dilate,
                              .pad_low = low,
                              .pad_high = in + kernel - 1 - out - low,
                              .lhs_dilate = f.stride,
                              .rhs_dilate = f.rhs_dilate,
                              .reversal = !f.reversal};
  }
  sn_conv_dims t = *c;
  t.input_batch = c->output_batch, t.input_feature = c->output_feature, t.input_spatial = c->output_spatial;
  t.kernel_input_feature = c->kernel_output_feature, t.kernel_output_feature = c->kernel_input_feature;
  t.output_batch = c->input_batch, t.output_feature = c->input_feature, t.output_spatial = c->input_spatial;
  t.input_rank = c->output_rank, t.output_rank = c->input_rank;
  sn_instr *r = k ? conv_like(d, i, ct, k, &(sn_window){c->n_spatial, dims}, &t, g, 1) : NULL;
  if (r && batch_groups > 1) r = move_groups(d, r, c->input_feature, c->input_batch, batch_groups);
  return sn_d_convert(d, r, X->shape->type);
}

/* Kernel: the input convolved with the cotangent, batch and feature axes changing places. */
static sn_instr *conv_kernel_back(sn_diff *d, sn_instr *i, sn_instr *ct) {
  const sn_window *w = sn_instr_window(i);
  const sn_conv_dims *c = sn_instr_conv(i);
  int64_t groups = sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT),
          batch_groups = sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT);
  sn_window_dim dims[SN_MAX_RANK];
  int64_t flipped[SN_MAX_RANK];
  int n_flipped = 0;
  for (int s = 0; s < c->n_spatial; s++) {
    sn_window_dim f = w->dims[s];
    int64_t in = dilated(X->shape->dims[c->input_spatial[s]], f.lhs_dilate), kernel = dilated(f.size, f.rhs_dilate);
    int64_t out = dilated(i->shape->dims[c->output_spatial[s]], f.stride);
    dims[s] = (sn_window_dim){.size = i->shape->dims[c->output_spatial[s]],
                              .stride = f.rhs_dilate,
                              .pad_low = f.pad_low,
                              .pad_high = out - in + kernel - f.pad_low - 1,
                              .lhs_dilate = f.lhs_dilate,
                              .rhs_dilate = f.stride};
    if (f.reversal) flipped[n_flipped++] = c->kernel_spatial[s];
  }
  sn_conv_dims t = *c;
  t.input_batch = c->input_feature, t.input_feature = c->input_batch;
  t.kernel_output_feature = c->output_feature, t.kernel_input_feature = c->output_batch,
  t.kernel_spatial = c->output_spatial;
  t.output_batch = c->kernel_input_feature, t.output_feature = c->kernel_output_feature,
  t.output_spatial = c->kernel_spatial;
  t.kernel_rank = c->output_rank, t.output_rank = c->kernel_rank;
  sn_instr *x = sn_d_convert(d, X, ct->shape->type);
  sn_instr *r = x ? conv_like(d, i, x, ct, &(sn_window){c->n_spatial, dims}, &t, batch_groups, groups) : NULL;
  if (r && n_flipped) r = sn_build_reverse(d->b, r, n_flipped, flipped);
  return sn_d_convert(d, r, Y->shape->type);
}

static void convolution_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_shape_elements(i->shape) == 0) return; /* nothing read, nothing to send back */
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, conv_input_back(d, i, ct[0]));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, conv_kernel_back(d, i, ct[0]));
}
const sn_diff_rule sn_diff_convolution = {.name = "convolution", .vjp = convolution_vjp, .jvp = bilinear_jvp};
