/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of ops that move data: broadcast, reshape, slices, pad, concatenate, sizes of dynamic
 * dimensions. */
#include "infer.h"

#include <inttypes.h>

sn_status sn_shape_rule_broadcast(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_given(d, in));
  const sn_shape *x = in->operands[0];
  sn_ints at = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  if (at.n != x->rank) {
    sn_status st = sn_infer_fail(
        d, in, SN_ERR_ATTRIBUTE,
        "dimensions=%s must name a result dimension for each of the operand's, found %s",
        sn_infer_ints_text(in, at), sn_infer_text(in, x));
    sn_hint(d, "dimensions={d0,d1,…}: operand dimension i becomes result dimension di");
    return st;
  }
  SN_TRY(sn_infer_want_dims(d, in, "dimensions=", at, in->given->rank));
  sn_dims dims;
  sn_dims_of(in->given, &dims);
  for (int i = 0; i < x->rank; i++) {
    int64_t k = at.v[i];
    if (sn_dims_merge(&dims.size[k], &dims.dynamic[k], x->dims[i], sn_dims_is_dynamic(x, i)))
      continue;
    sn_status st = sn_infer_fail(d, in, SN_ERR_SHAPE,
                                 "operand dimension %d and result dimension %" PRId64
                                 " must be equal, found %s to %s",
                                 i, k, sn_infer_text(in, x), sn_infer_text(in, in->given));
    if (x->dims[i] == 1) sn_hint(d, "HLO does not stretch a dimension of 1: reshape it away first");
    return st;
  }
  return sn_infer_make(d, in, x->type, &dims, out);
}

static sn_status reshape_result(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_given(d, in));
  SN_TRY(sn_shape_check(d, in->loc, in->operands[0]));
  SN_TRY(sn_shape_check(d, in->loc, in->given));
  int64_t from = sn_shape_elements(in->operands[0]), to = sn_shape_elements(in->given);
  bool open = false;
  for (int i = 0; i < in->operands[0]->rank; i++)
    open = open || in->operands[0]->dims[i] == SN_DIM_UNBOUNDED;
  for (int i = 0; i < in->given->rank; i++) open = open || in->given->dims[i] == SN_DIM_UNBOUNDED;
  if (!open && from != to) {
    return sn_infer_fail(
        d, in, SN_ERR_SHAPE,
        "must keep the number of elements, found %" PRId64 " in %s and %" PRId64 " in %s", from,
        sn_infer_text(in, in->operands[0]), to, sn_infer_text(in, in->given));
  }
  sn_dims dims;
  sn_dims_of(in->given, &dims);
  return sn_infer_make(d, in, in->operands[0]->type, &dims, out);
}

sn_status sn_shape_rule_reshape(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_given(d, in));
  int64_t inferred = sn_infer_int(in, SN_ATTR_INFERRED_DIMENSION);
  if (inferred != -1)
    SN_TRY(sn_infer_want_dim(d, in, "inferred_dimension=", inferred, in->given->rank));
  return reshape_result(d, in, out);
}

sn_status sn_shape_rule_dynamic_reshape(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_given(d, in));
  if (in->n_operands != (uint32_t)in->given->rank + 1) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "needs a size operand for each dimension of %s, found %" PRIu32,
                         sn_infer_text(in, in->given), in->n_operands - 1);
  }
  for (uint32_t k = 1; k < in->n_operands; k++) {
    SN_TRY(sn_infer_want_scalar(d, in, k, SN_TAKES_INT));
    SN_TRY(sn_infer_want_same_type(d, in, 1, k));
  }
  return reshape_result(d, in, out);
}

sn_status sn_shape_rule_transpose(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  const sn_shape *x = in->operands[0];
  sn_ints p = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  if (p.n != x->rank) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "dimensions=%s must be a permutation of the %d dimensions of %s",
                         sn_infer_ints_text(in, p), x->rank, sn_infer_text(in, x));
  }
  SN_TRY(sn_infer_want_dims(d, in, "dimensions=", p, x->rank));
  sn_dims dims = {.rank = 0};
  for (int i = 0; i < x->rank; i++) sn_dims_push(&dims, x, p.v[i]);
  return sn_infer_make(d, in, x->type, &dims, out);
}

sn_status sn_shape_rule_reverse(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_dims(d, in, "dimensions=", sn_infer_ints(in, SN_ATTR_DIMENSIONS),
                            in->operands[0]->rank));
  return sn_infer_strip(d, in, in->operands[0], out);
}

/* ---- slices
 * ----------------------------------------------------------------------------------------------------------
 */

static sn_status slice_dim(sn_diag *d, const sn_infer *in, int k, const int64_t *v, sn_dims *dims) {
  const sn_shape *x = in->operands[0];
  int64_t start = v[0], limit = v[1], stride = v[2], size = x->dims[k];
  if (stride < 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "the stride of dimension %d must be at least 1, found %" PRId64, k,
                         stride);
  if (start < 0 || start > limit || (size != SN_DIM_UNBOUNDED && limit > size)) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                                 "[%" PRId64 ":%" PRId64 "] does not lie in dimension %d of %s",
                                 start, limit, k, sn_infer_text(in, x));
    sn_hint(d, "0 <= start <= limit <= size; the limit is the first element left out");
    return st;
  }
  int64_t n = limit == start ? 0 : (limit - start - 1) / stride + 1;
  sn_dims_push_static(dims, n);
  /* One element of a dynamic dimension is always there; more may not be. */
  dims->dynamic[k] = sn_dims_is_dynamic(x, k) && n != 1;
  return SN_OK;
}

sn_status sn_shape_rule_slice(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  const sn_shape *x = in->operands[0];
  sn_ints v = sn_infer_ints(in, SN_ATTR_SLICE);
  if (v.n != 3 * (int64_t)x->rank) {
    return sn_infer_fail(
        d, in, SN_ERR_ATTRIBUTE,
        "slice= needs [start:limit:stride] for each of the %d dimensions of %s, found %" PRId64,
        x->rank, sn_infer_text(in, x), v.n / 3);
  }
  sn_dims dims = {.rank = 0};
  for (int k = 0; k < x->rank; k++) SN_TRY(slice_dim(d, in, k, v.v + 3 * k, &dims));
  return sn_infer_make(d, in, x->type, &dims, out);
}

/* Operands `first`… are the start indices: one scalar a dimension, or (an older form) one vector.
 */
static sn_status slice_starts(sn_diag *d, const sn_infer *in, uint32_t first, int rank) {
  uint32_t n = in->n_operands - first;
  if (n == 1 && in->operands[first]->rank == 1) {
    SN_TRY(sn_infer_want_array(d, in, first, SN_TAKES_INT));
    if (in->operands[first]->dims[0] == rank) return SN_OK;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "the vector of start indices must have %d elements, found %s", rank,
                         sn_infer_text(in, in->operands[first]));
  }
  if (n != (uint32_t)rank) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_SHAPE,
                                 "needs one start index for each dimension of %s, found %" PRIu32,
                                 sn_infer_text(in, in->operands[0]), n);
    sn_hint(d, "the operands are the array%s, then %d scalar indices",
            first == 2 ? ", the update" : "", rank);
    return st;
  }
  for (uint32_t k = first; k < in->n_operands; k++) {
    SN_TRY(sn_infer_want_scalar(d, in, k, SN_TAKES_INT));
    SN_TRY(sn_infer_want_same_type(d, in, first, k));
  }
  return SN_OK;
}

sn_status sn_shape_rule_dynamic_slice(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  const sn_shape *x = in->operands[0];
  SN_TRY(slice_starts(d, in, 1, x->rank));
  sn_ints sizes = sn_infer_ints(in, SN_ATTR_DYNAMIC_SLICE_SIZES);
  if (sizes.n != x->rank) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "dynamic_slice_sizes=%s needs one size for each dimension of %s",
                         sn_infer_ints_text(in, sizes), sn_infer_text(in, x));
  }
  sn_dims dims = {.rank = 0};
  for (int k = 0; k < x->rank; k++) {
    if (sizes.v[k] < 0 || (x->dims[k] != SN_DIM_UNBOUNDED && sizes.v[k] > x->dims[k])) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                           "a slice of %" PRId64 " does not fit dimension %d of %s", sizes.v[k], k,
                           sn_infer_text(in, x));
    }
    sn_dims_push_static(&dims, sizes.v[k]);
    dims.dynamic[k] = sn_dims_is_dynamic(x, k) && sizes.v[k] == x->dims[k] && sizes.v[k] > 1;
  }
  return sn_infer_make(d, in, x->type, &dims, out);
}

sn_status sn_shape_rule_dynamic_update_slice(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_same_type(d, in, 0, 1));
  const sn_shape *x = in->operands[0], *u = in->operands[1];
  SN_TRY(sn_infer_want_rank(d, in, 1, x->rank));
  for (int k = 0; k < x->rank; k++) {
    if (u->dims[k] == SN_DIM_UNBOUNDED || x->dims[k] == SN_DIM_UNBOUNDED ||
        u->dims[k] <= x->dims[k])
      continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE, "the update must fit into the array, found %s for %s",
                         sn_infer_text(in, u), sn_infer_text(in, x));
  }
  /* A rank-0 array has no start indices at all. */
  if (in->n_operands > 2 || x->rank) SN_TRY(slice_starts(d, in, 2, x->rank));
  return sn_infer_strip(d, in, x, out);
}

/* ---- pad, concatenate
 * --------------------------------------------------------------------------------------------------
 */

static sn_status pad_dim(sn_diag *d, const sn_infer *in, int k, const int64_t *v, sn_dims *dims) {
  int64_t low = v[0], high = v[1], interior = v[2], size = dims->size[k];
  if (interior < 0)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "interior padding must not be negative, found %" PRId64, interior);
  if (size == SN_DIM_UNBOUNDED) return SN_OK;
  int64_t inner = 0, n = size;
  bool ok = sn_mul_i64(size > 0 ? size - 1 : 0, interior, &inner) && sn_add_i64(n, inner, &n) &&
            sn_add_i64(n, low, &n) && sn_add_i64(n, high, &n);
  if (!ok)
    return sn_infer_fail(d, in, SN_ERR_OVERFLOW,
                         "dimension %d of the padded result does not fit 64 bits", k);
  if (n < 0) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "padding %" PRId64 "_%" PRId64 "_%" PRId64
                         " takes more from dimension %d than its %" PRId64 " elements",
                         low, high, interior, k, size);
  }
  dims->size[k] = n;
  return SN_OK;
}

sn_status sn_shape_rule_pad(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_scalar(d, in, 1, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_same_type(d, in, 0, 1));
  const sn_shape *x = in->operands[0];
  sn_ints v = sn_infer_ints(in, SN_ATTR_PADDING);
  if (v.n != 3 * (int64_t)x->rank) {
    return sn_infer_fail(
        d, in, SN_ERR_ATTRIBUTE,
        "padding= needs low_high for each of the %d dimensions of %s, found %" PRId64, x->rank,
        sn_infer_text(in, x), v.n / 3);
  }
  sn_dims dims;
  sn_dims_of(x, &dims);
  for (int k = 0; k < x->rank; k++) SN_TRY(pad_dim(d, in, k, v.v + 3 * k, &dims));
  return sn_infer_make(d, in, x->type, &dims, out);
}

static sn_status concatenate_one(sn_diag *d, const sn_infer *in, uint32_t k, int64_t along,
                                 sn_dims *dims) {
  const sn_shape *x = in->operands[k];
  bool same = true;
  for (int i = 0; i < x->rank; i++) {
    if (i != along) {
      same = same &&
             sn_dims_merge(&dims->size[i], &dims->dynamic[i], x->dims[i], sn_dims_is_dynamic(x, i));
      continue;
    }
    dims->dynamic[i] = dims->dynamic[i] || sn_dims_is_dynamic(x, i);
    if (x->dims[i] == SN_DIM_UNBOUNDED) dims->size[i] = SN_DIM_UNBOUNDED;
    if (dims->size[i] != SN_DIM_UNBOUNDED &&
        !sn_add_i64(dims->size[i], x->dims[i], &dims->size[i])) {
      return sn_infer_fail(d, in, SN_ERR_OVERFLOW,
                           "dimension %d of the result does not fit 64 bits", i);
    }
  }
  if (same) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE,
                       "operands must agree in all dimensions but %" PRId64 ", found %s and %s",
                       along, sn_infer_text(in, in->operands[0]), sn_infer_text(in, x));
}

sn_status sn_shape_rule_concatenate(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  sn_ints at = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  const sn_shape *x = in->operands[0];
  if (at.n != 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "dimensions= must name one dimension, found %s",
                         sn_infer_ints_text(in, at));
  SN_TRY(sn_infer_want_dim(d, in, "dimensions=", at.v[0], x->rank));
  sn_dims dims;
  sn_dims_of(x, &dims);
  for (uint32_t k = 1; k < in->n_operands; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    SN_TRY(sn_infer_want_same_type(d, in, 0, k));
    SN_TRY(sn_infer_want_rank(d, in, k, x->rank));
    SN_TRY(concatenate_one(d, in, k, at.v[0], &dims));
  }
  return sn_infer_make(d, in, x->type, &dims, out);
}

/* ---- sizes of dynamic dimensions
 * ------------------------------------------------------------------------------------------- */

static sn_status size_dim(sn_diag *d, const sn_infer *in, int64_t *out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  sn_ints at = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  if (at.n != 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "dimensions= must name one dimension, found %s",
                         sn_infer_ints_text(in, at));
  *out = at.v[0];
  return sn_infer_want_dim(d, in, "dimensions=", at.v[0], in->operands[0]->rank);
}

sn_status sn_shape_rule_get_dimension_size(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  int64_t k;
  SN_TRY(size_dim(d, in, &k));
  sn_dims dims = {.rank = 0};
  return sn_infer_make(d, in, SN_TYPE_S32, &dims, out);
}

sn_status sn_shape_rule_set_dimension_size(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  int64_t k = 0;
  SN_TRY(size_dim(d, in, &k));
  SN_TRY(sn_infer_want_scalar(d, in, 1, SN_TAKES_INT));
  if (in->operands[1]->type != SN_TYPE_S32) {
    return sn_infer_fail(d, in, SN_ERR_TYPE, "the size must be s32[], found %s",
                         sn_infer_text(in, in->operands[1]));
  }
  sn_dims dims;
  sn_dims_of(in->operands[0], &dims);
  /* Dynamic from here on, unless the text says that the size is the full one. */
  bool stated_static = sn_shape_is_array(in->given) && in->given->rank == dims.rank &&
                       !sn_dims_is_dynamic(in->given, (int)k);
  dims.dynamic[k] = !stated_static;
  return sn_infer_make(d, in, in->operands[0]->type, &dims, out);
}
