/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The sticky builder: one function an op. */
#include "sinter/build.h"

#include "ir_internal.h"

#include <string.h>

/* Any op without attributes. */
static sn_instr *plain(sn_builder *b, sn_opcode op, uint32_t n, sn_instr *const *xs) { return sn_build(b, op, NULL, n, xs, 0, NULL, 0, NULL); }

static sn_instr *with_ints(sn_builder *b, sn_opcode op, uint32_t n, sn_instr *const *xs, sn_attr_id id, int64_t n_ints, const int64_t *v) {
  sn_attr a = sn_attr_ints(id, n_ints, v);
  return sn_build(b, op, NULL, n, xs, 1, &a, 0, NULL);
}

static sn_instr *shaped(sn_builder *b, sn_opcode op, const sn_shape *s, uint32_t n, sn_instr *const *xs) {
  if (!s && b->status == SN_OK) b->status = SN_ERR_MEMORY;
  return sn_build(b, op, s, n, xs, 0, NULL, 0, NULL);
}

sn_instr *sn_build_unary(sn_builder *b, sn_opcode op, sn_instr *x) { return plain(b, op, 1, &x); }

sn_instr *sn_build_binary(sn_builder *b, sn_opcode op, sn_instr *x, sn_instr *y) {
  sn_instr *xs[2] = {x, y};
  return plain(b, op, 2, xs);
}

sn_instr *sn_build_compare(sn_builder *b, int64_t direction, sn_instr *x, sn_instr *y) {
  sn_instr *xs[2] = {x, y};
  sn_attr a = sn_attr_int(SN_ATTR_DIRECTION, direction);
  return sn_build(b, SN_OP_COMPARE, NULL, 2, xs, 1, &a, 0, NULL);
}

sn_instr *sn_build_select(sn_builder *b, sn_instr *p, sn_instr *t, sn_instr *f) {
  sn_instr *xs[3] = {p, t, f};
  return plain(b, SN_OP_SELECT, 3, xs);
}

sn_instr *sn_build_clamp(sn_builder *b, sn_instr *lo, sn_instr *x, sn_instr *hi) {
  sn_instr *xs[3] = {lo, x, hi};
  return plain(b, SN_OP_CLAMP, 3, xs);
}

sn_instr *sn_build_convert(sn_builder *b, sn_instr *x, sn_type t) {
  if (x && x->shape->type == t) return x;
  return shaped(b, SN_OP_CONVERT, x ? sn_shape_with_type(sn_builder_arena(b), x->shape, t) : NULL, 1, &x);
}

sn_instr *sn_build_bitcast_convert(sn_builder *b, sn_instr *x, sn_type t) {
  if (x && x->shape->type == t) return x;
  if (!x) return plain(b, SN_OP_BITCAST_CONVERT, 1, &x);
  int64_t dims[SN_MAX_RANK];
  int rank = x->shape->rank, from = sn_type_bits(x->shape->type), to = sn_type_bits(t);
  if (rank) memcpy(dims, x->shape->dims, (size_t)rank * sizeof *dims);
  if (from > to && rank < SN_MAX_RANK) dims[rank++] = from / to;
  else if (from < to && rank > 0) rank--;
  return shaped(b, SN_OP_BITCAST_CONVERT, sn_shape_array(sn_builder_arena(b), t, rank, dims), 1, &x);
}

sn_instr *sn_build_complex(sn_builder *b, sn_instr *re, sn_instr *im) { return sn_build_binary(b, SN_OP_COMPLEX, re, im); }

sn_instr *sn_build_broadcast(sn_builder *b, sn_instr *x, int rank, const int64_t *result_dims, int n, const int64_t *dims) {
  const sn_shape *s = x ? sn_shape_array(sn_builder_arena(b), x->shape->type, rank, result_dims) : NULL;
  if (x && !s && b->status == SN_OK) b->status = SN_ERR_MEMORY;
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, n, dims);
  return sn_build(b, SN_OP_BROADCAST, s, 1, &x, 1, &a, 0, NULL);
}

sn_instr *sn_build_broadcast_scalar(sn_builder *b, sn_instr *x, const sn_shape *to) {
  if (x && to->rank == 0) return x;
  return sn_build_broadcast(b, x, to->rank, to->dims, 0, NULL);
}

static bool same_dims(const sn_shape *s, int rank, const int64_t *dims) {
  return s->rank == rank && (rank == 0 || memcmp(s->dims, dims, (size_t)rank * sizeof *dims) == 0);
}

sn_instr *sn_build_reshape(sn_builder *b, sn_instr *x, int rank, const int64_t *dims) {
  if (x && same_dims(x->shape, rank, dims)) return x;
  return shaped(b, SN_OP_RESHAPE, x ? sn_shape_array(sn_builder_arena(b), x->shape->type, rank, dims) : NULL, 1, &x);
}

sn_instr *sn_build_transpose(sn_builder *b, sn_instr *x, const int64_t *permutation) {
  int rank = x ? x->shape->rank : 0;
  bool identity = x != NULL;
  for (int i = 0; i < rank; i++) identity &= permutation[i] == i;
  return identity ? x : with_ints(b, SN_OP_TRANSPOSE, 1, &x, SN_ATTR_DIMENSIONS, rank, permutation);
}

sn_instr *sn_build_reverse(sn_builder *b, sn_instr *x, int n, const int64_t *dims) { return with_ints(b, SN_OP_REVERSE, 1, &x, SN_ATTR_DIMENSIONS, n, dims); }

sn_instr *sn_build_slice(sn_builder *b, sn_instr *x, const int64_t *start, const int64_t *limit, const int64_t *stride) {
  int64_t v[3 * SN_MAX_RANK];
  int rank = x ? x->shape->rank : 0;
  for (int i = 0; i < rank; i++) {
    v[3 * i] = start[i];
    v[3 * i + 1] = limit[i];
    v[3 * i + 2] = stride ? stride[i] : 1;
  }
  return with_ints(b, SN_OP_SLICE, 1, &x, SN_ATTR_SLICE, 3 * rank, v);
}

sn_instr *sn_build_slice_dim(sn_builder *b, sn_instr *x, int64_t dim, int64_t start, int64_t limit) {
  int64_t starts[SN_MAX_RANK] = {0}, limits[SN_MAX_RANK];
  int rank = x ? x->shape->rank : 0;
  for (int i = 0; i < rank; i++) limits[i] = x->shape->dims[i];
  if (dim < rank) {
    starts[dim] = start;
    limits[dim] = limit;
  }
  return sn_build_slice(b, x, starts, limits, NULL);
}

/* x (and an update) followed by one start index a dimension. */
static uint32_t with_starts(sn_instr **to, uint32_t n, const sn_instr *x, sn_instr *const *starts) {
  for (int i = 0; x && i < x->shape->rank; i++) to[n++] = starts[i];
  return n;
}

sn_instr *sn_build_dynamic_slice(sn_builder *b, sn_instr *x, sn_instr *const *starts, const int64_t *sizes) {
  sn_instr *xs[SN_MAX_RANK + 1] = {x};
  uint32_t n = with_starts(xs, 1, x, starts);
  return with_ints(b, SN_OP_DYNAMIC_SLICE, n, xs, SN_ATTR_DYNAMIC_SLICE_SIZES, (int64_t)n - 1, sizes);
}

sn_instr *sn_build_dynamic_update_slice(sn_builder *b, sn_instr *x, sn_instr *update, sn_instr *const *starts) {
  sn_instr *xs[SN_MAX_RANK + 2] = {x, update};
  return plain(b, SN_OP_DYNAMIC_UPDATE_SLICE, with_starts(xs, 2, x, starts), xs);
}

sn_instr *sn_build_pad(sn_builder *b, sn_instr *x, sn_instr *value, const int64_t *low, const int64_t *high, const int64_t *interior) {
  int64_t v[3 * SN_MAX_RANK];
  int rank = x ? x->shape->rank : 0;
  for (int i = 0; i < rank; i++) {
    v[3 * i] = low[i];
    v[3 * i + 1] = high[i];
    v[3 * i + 2] = interior ? interior[i] : 0;
  }
  sn_instr *xs[2] = {x, value};
  return with_ints(b, SN_OP_PAD, 2, xs, SN_ATTR_PADDING, 3 * rank, v);
}

sn_instr *sn_build_concatenate(sn_builder *b, uint32_t n, sn_instr *const *xs, int64_t dim) {
  return with_ints(b, SN_OP_CONCATENATE, n, xs, SN_ATTR_DIMENSIONS, 1, &dim);
}

sn_instr *sn_build_iota(sn_builder *b, sn_type t, int rank, const int64_t *dims, int64_t iota_dim) {
  const sn_shape *s = sn_shape_array(sn_builder_arena(b), t, rank, dims);
  if (!s && b->status == SN_OK) b->status = SN_ERR_MEMORY;
  sn_attr a = sn_attr_int(SN_ATTR_IOTA_DIMENSION, iota_dim);
  return sn_build(b, SN_OP_IOTA, s, 0, NULL, 1, &a, 0, NULL);
}

/* The result's dimensions: batch, what is left of x, what is left of y. */
static int dot_result(const sn_shape *s, int n, const int64_t *batch, const int64_t *contracting, int n_contracting, int64_t *dims, int at) {
  for (int i = 0; i < s->rank; i++) {
    bool taken = false;
    for (int k = 0; k < n; k++) taken |= batch[k] == i;
    for (int k = 0; k < n_contracting; k++) taken |= contracting[k] == i;
    if (!taken && at < SN_MAX_RANK) dims[at++] = s->dims[i];
  }
  return at;
}

sn_instr *sn_build_dot(sn_builder *b, sn_instr *x, sn_instr *y, const sn_dot_dims *d, sn_type result) {
  sn_instr *xs[2] = {x, y};
  const sn_shape *s = NULL;
  if (x && y && result != SN_TYPE_INVALID) {
    int64_t dims[SN_MAX_RANK];
    int n = 0;
    for (int k = 0; k < d->n_batch; k++) dims[n++] = x->shape->dims[d->lhs_batch[k]];
    n = dot_result(x->shape, d->n_batch, d->lhs_batch, d->lhs_contracting, d->n_contracting, dims, n);
    n = dot_result(y->shape, d->n_batch, d->rhs_batch, d->rhs_contracting, d->n_contracting, dims, n);
    if (!(s = sn_shape_array(sn_builder_arena(b), result, n, dims)) && b->status == SN_OK) b->status = SN_ERR_MEMORY;
  }
  sn_attr a[4] = {sn_attr_ints(SN_ATTR_LHS_BATCH_DIMS, d->n_batch, d->lhs_batch), sn_attr_ints(SN_ATTR_LHS_CONTRACTING_DIMS, d->n_contracting, d->lhs_contracting),
                  sn_attr_ints(SN_ATTR_RHS_BATCH_DIMS, d->n_batch, d->rhs_batch), sn_attr_ints(SN_ATTR_RHS_CONTRACTING_DIMS, d->n_contracting, d->rhs_contracting)};
  return sn_build(b, SN_OP_DOT, s, 2, xs, 4, a, 0, NULL);
}

sn_instr *sn_build_convolution(sn_builder *b, sn_instr *x, sn_instr *kernel, const sn_window *w, const sn_conv_dims *dims, int64_t feature_groups, int64_t batch_groups) {
  sn_instr *xs[2] = {x, kernel};
  sn_attr a[4] = {sn_attr_window(w), sn_attr_conv(dims), sn_attr_int(SN_ATTR_FEATURE_GROUP_COUNT, feature_groups), sn_attr_int(SN_ATTR_BATCH_GROUP_COUNT, batch_groups)};
  return sn_build(b, SN_OP_CONVOLUTION, NULL, 2, xs, 4, a, 0, NULL);
}

sn_instr *sn_build_tuple(sn_builder *b, uint32_t n, sn_instr *const *xs) { return plain(b, SN_OP_TUPLE, n, xs); }

sn_instr *sn_build_get(sn_builder *b, sn_instr *tuple, int64_t index) {
  sn_attr a = sn_attr_int(SN_ATTR_INDEX, index);
  return sn_build(b, SN_OP_GET_TUPLE_ELEMENT, NULL, 1, &tuple, 1, &a, 0, NULL);
}

sn_instr *sn_build_call(sn_builder *b, sn_computation *c, uint32_t n, sn_instr *const *args) { return sn_build(b, SN_OP_CALL, NULL, n, args, 0, NULL, 1, &c); }
