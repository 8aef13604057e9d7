/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Products in canonical form (dot_canonical.c): transposes of their operands and results disappear into which dimension is contracted; products with a vector and
 * outer products become elementwise work that fuses with its neighbours; convolutions that look at one pixel are products. */
#include "rules.h"

#define ANY SN_ANY

static sn_instr *dot_again(sn_builder *b, const sn_instr *i, sn_instr *x, sn_instr *y, int64_t lc, int64_t rc) {
  sn_ints batch = sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS);
  sn_attr attrs[6] = {sn_attr_ints(SN_ATTR_LHS_BATCH_DIMS, batch.n, batch.v), sn_attr_ints(SN_ATTR_RHS_BATCH_DIMS, batch.n, batch.v),
                      sn_attr_ints(SN_ATTR_LHS_CONTRACTING_DIMS, 1, &lc), sn_attr_ints(SN_ATTR_RHS_CONTRACTING_DIMS, 1, &rc)};
  uint32_t n = 4;
  const sn_attr *precision = sn_instr_attr(i, SN_ATTR_OPERAND_PRECISION), *algorithm = sn_instr_attr(i, SN_ATTR_DOT_ALGORITHM);
  if (precision) attrs[n++] = *precision;
  if (algorithm) attrs[n++] = *algorithm;
  sn_instr *xs[2] = {x, y};
  int64_t dims[SN_MAX_RANK];
  int rank = 0;
  for (int d = 0; d < x->shape->rank; d++) {
    if (d != lc) dims[rank++] = x->shape->dims[d];
  }
  for (int d = (int)batch.n; d < y->shape->rank; d++) {
    if (d != rc) dims[rank++] = y->shape->dims[d];
  }
  return sn_build(b, SN_OP_DOT, sn_shape_array(sn_builder_arena(b), i->shape->type, rank, dims), 2, xs, n, attrs, 0, NULL);
}
static int64_t lhs_contracted(const sn_instr *i) { return sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS).v[0]; }
static int64_t rhs_contracted(const sn_instr *i) { return sn_instr_ints(i, SN_ATTR_RHS_CONTRACTING_DIMS).v[0]; }

/* A transpose that only swaps the two dimensions behind the n_batch first. */
static bool swaps_last(const sn_instr *t, int64_t n_batch) {
  sn_ints p = sn_instr_ints(t, SN_ATTR_DIMENSIONS);
  if (t->op != SN_OP_TRANSPOSE || p.n != n_batch + 2) return false;
  for (int64_t k = 0; k < n_batch; k++) {
    if (p.v[k] != k) return false;
  }
  return p.v[n_batch] == n_batch + 1;
}
static sn_instr *fold_transposes(sn_builder *b, sn_instr *i) {
  if (!sn_dot_is_canonical(i)) return NULL;
  int64_t n_batch = sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n, lc = lhs_contracted(i), rc = rhs_contracted(i);
  sn_instr *x = sn_in(i, 0), *y = sn_in(i, 1);
  bool left = swaps_last(x, n_batch), right = swaps_last(y, n_batch);
  if (!left && !right) return NULL;
  if (left) lc = 2 * n_batch + 1 - lc;
  if (right) rc = 2 * n_batch + 1 - rc;
  return dot_again(b, i, left ? sn_in(x, 0) : x, right ? sn_in(y, 0) : y, lc, rc);
}
/* (x y)^T = y^T x^T: the same products in the same order. */
static sn_instr *transpose_of_dot(sn_builder *b, sn_instr *i) {
  sn_instr *d = sn_in(i, 0);
  const sn_attr *precision = sn_instr_attr(d, SN_ATTR_OPERAND_PRECISION); /* one word an operand: they would have to be swapped too */
  if (!sn_one_use(d) || !sn_dot_is_canonical(d) || (precision && precision->u.ints.v[0] != precision->u.ints.v[1])) return NULL;
  int64_t n_batch = sn_instr_ints(d, SN_ATTR_LHS_BATCH_DIMS).n;
  if (!swaps_last(i, n_batch)) return NULL;
  return dot_again(b, d, sn_in(d, 1), sn_in(d, 0), rhs_contracted(d), lhs_contracted(d));
}

/* ---- strength reduction ---- */

static bool free_dims(const sn_instr *i, int side) { return sn_operand_shape(i, (uint32_t)side)->rank > sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n + 1; }

/* The type in which sums are kept: what the result is, but at least f32 for short floats. */
static sn_type sum_type(sn_type t) { return t == SN_TYPE_BF16 || t == SN_TYPE_F16 || (sn_type_is_float(t) && sn_type_bits(t) < 16) ? SN_TYPE_F32 : t; }

/* The operand over [batch, rows, contracted, columns] of which it has some. */
static sn_instr *spread(sn_builder *b, const sn_instr *i, int side, sn_type t, int rank, const int64_t *dims) {
  int64_t n_batch = sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n, to[SN_MAX_RANK], c = side ? rhs_contracted(i) : lhs_contracted(i);
  sn_instr *x = sn_build_convert(b, sn_in(i, (uint32_t)side), t);
  bool rows = free_dims(i, 0);
  for (int d = 0; x && d < x->shape->rank; d++) {
    if (d < n_batch) to[d] = d;
    else if (d == c) to[d] = n_batch + rows;
    else to[d] = side ? n_batch + rows + 1 : n_batch;
  }
  return x ? sn_build_broadcast(b, x, rank, dims, x->shape->rank, to) : NULL;
}
static sn_instr *multiply_and_sum(sn_builder *b, sn_instr *i) {
  int64_t n_batch = sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n, dims[SN_MAX_RANK], c;
  sn_type t = sum_type(i->shape->type);
  const sn_shape *l = sn_in(i, 0)->shape, *r = sn_in(i, 1)->shape;
  int rank = 0;
  for (int64_t k = 0; k < n_batch; k++) dims[rank++] = l->dims[k];
  if (free_dims(i, 0)) dims[rank++] = l->dims[n_batch + (lhs_contracted(i) == n_batch)];
  c = rank;
  dims[rank++] = l->dims[lhs_contracted(i)];
  if (free_dims(i, 1)) dims[rank++] = r->dims[n_batch + (rhs_contracted(i) == n_batch)];
  sn_instr *p = sn_build_binary(b, SN_OP_MULTIPLY, spread(b, i, 0, t, rank, dims), spread(b, i, 1, t, rank, dims));
  p = p && dims[c] == 1 ? sn_build_reshape(b, p, i->shape->rank, i->shape->dims) : sn_build_reduce_sum(b, p, 1, &c);
  return sn_build_convert(b, p, i->shape->type);
}
static bool plain_precision(const sn_instr *i) { return !sn_instr_attr(i, SN_ATTR_DOT_ALGORITHM) && !sn_type_is_complex(i->shape->type); }

/* Both sides vectors, or one row of terms: no reuse that a product kernel could exploit. */
static sn_instr *dot_is_vector(sn_builder *b, sn_instr *i) {
  if (!sn_dot_is_canonical(i) || !plain_precision(i)) return NULL;
  bool outer = sn_in(i, 0)->shape->dims[lhs_contracted(i)] == 1;
  return outer || (!free_dims(i, 0) && !free_dims(i, 1)) ? multiply_and_sum(b, i) : NULL;
}
/* A small matrix times a vector: below this many terms a call costs more than the sum. */
enum { SMALL_PRODUCT = 1 << 14 };
static sn_instr *dot_is_small(sn_builder *b, sn_instr *i) {
  if (!sn_dot_is_canonical(i) || !plain_precision(i) || (free_dims(i, 0) && free_dims(i, 1))) return NULL;
  int64_t terms = sn_shape_elements(i->shape) * sn_in(i, 0)->shape->dims[lhs_contracted(i)];
  return terms <= SMALL_PRODUCT ? multiply_and_sum(b, i) : NULL;
}

/* ---- convolutions of one pixel ---- */

static bool one_pixel(const sn_instr *i) {
  const sn_window *w = sn_instr_window(i);
  if (sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT) != 1 || sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT) != 1) return false;
  for (int k = 0; w && k < w->rank; k++) {
    const sn_window_dim *d = &w->dims[k];
    if (d->size != 1 || d->stride != 1 || d->pad_low || d->pad_high || d->lhs_dilate != 1) return false;
  }
  return true;
}
static sn_instr *conv_is_dot(sn_builder *b, sn_instr *i) {
  const sn_conv_dims *c = sn_instr_conv(i);
  if (!one_pixel(i)) return NULL;
  sn_instr *x = sn_in(i, 0), *k = sn_in(i, 1);
  int64_t kernel[2] = {k->shape->dims[c->kernel_input_feature], k->shape->dims[c->kernel_output_feature]}, swapped[2] = {kernel[1], kernel[0]};
  bool in_first = c->kernel_input_feature < c->kernel_output_feature;
  k = sn_build_reshape(b, k, 2, in_first ? kernel : swapped);
  int64_t lc = c->input_feature, rc = in_first ? 0 : 1;
  sn_dot_dims dims = {0, 1, NULL, NULL, &lc, &rc};
  sn_instr *y = sn_build_dot(b, x, k, &dims, i->shape->type);
  const sn_attr *precision = sn_instr_attr(i, SN_ATTR_OPERAND_PRECISION);
  if (y && precision) b->status = sn_instr_set_attr(y, *precision);
  int64_t at[SN_MAX_RANK], p[SN_MAX_RANK]; /* where each dimension of the input landed in y; features are last */
  for (int d = 0, n = 0; d < x->shape->rank; d++) at[d] = d == c->input_feature ? -1 : n++;
  p[c->output_batch] = at[c->input_batch];
  p[c->output_feature] = x->shape->rank - 1;
  for (int k_s = 0; k_s < c->n_spatial; k_s++) p[c->output_spatial[k_s]] = at[c->input_spatial[k_s]];
  return y ? sn_build_transpose(b, y, p) : NULL;
}

const sn_rule sn_rules_dot[] = {
    {SN_OP_DOT, ANY, ANY, SN_EXACT, fold_transposes, "dot(transpose(x), y) = dot(x, y) over the other dimension"},
    {SN_OP_TRANSPOSE, SN_OP_DOT, ANY, SN_EXACT, transpose_of_dot, "transpose(dot(x, y)) = dot(y, x)"},
    {SN_OP_DOT, ANY, ANY, SN_REASSOC, dot_is_vector, "dot of vectors, outer product = multiply and sum"},
    {SN_OP_DOT, ANY, ANY, SN_REASSOC, dot_is_small, "small matrix times vector = multiply and sum"},
    {SN_OP_CONVOLUTION, ANY, ANY, SN_REASSOC, conv_is_dot, "convolution of one pixel = dot"},
    {0}};
