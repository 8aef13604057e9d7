/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of reduce, map, scan, sort and topk. */
#include "infer.h"

#include <inttypes.h>

/* n inputs of equal dimensions, then n scalars to start from. */
sn_status sn_infer_reduce_operands(sn_diag *d, const sn_infer *in, sn_type **accumulated) {
  uint32_t n = in->n_operands / 2;
  if (in->n_operands % 2) {
    sn_status st = sn_infer_fail(
        d, in, SN_ERR_SHAPE, "expected an even number of operands, found %" PRIu32, in->n_operands);
    sn_hint(d, "n arrays, then n scalars to start from");
    return st;
  }
  sn_type *types = SN_NEW_N(in->arena, sn_type, 3 * n);
  if (!types) return sn_out_of_memory(d, 3 * n * sizeof *types);
  for (uint32_t k = 0; k < n; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    SN_TRY(sn_infer_want_scalar(d, in, n + k, SN_TAKES_ANY));
    if (!sn_dims_compatible(in->operands[0], in->operands[k])) {
      return sn_infer_fail(d, in, SN_ERR_SHAPE,
                           "arrays must have equal dimensions, found %s and %s",
                           sn_infer_text(in, in->operands[0]), sn_infer_text(in, in->operands[k]));
    }
    types[k] = in->operands[k]->type;
    types[n + k] = in->operands[n + k]->type;
  }
  SN_TRY(sn_infer_want_reducer(d, in, 0, n, types, types + n, types + 2 * n));
  *accumulated = types + 2 * n;
  return SN_OK;
}

sn_status sn_shape_rule_reduce(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  uint32_t n = in->n_operands / 2;
  sn_type *types = NULL;
  SN_TRY(sn_infer_reduce_operands(d, in, &types));
  const sn_shape *x = in->operands[0];
  sn_ints over = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  SN_TRY(sn_infer_want_dims(d, in, "dimensions=", over, x->rank));
  sn_dims dims = {.rank = 0};
  for (int k = 0; k < x->rank; k++) {
    if (!sn_infer_has(over, k)) sn_dims_push(&dims, x, k);
  }
  const sn_shape **results = SN_NEW_N(in->arena, const sn_shape *, n);
  if (!results) return sn_out_of_memory(d, n * sizeof *results);
  for (uint32_t k = 0; k < n; k++) SN_TRY(sn_infer_make(d, in, types[k], &dims, &results[k]));
  return sn_infer_one_or_tuple(d, in, n, results, out);
}

sn_status sn_shape_rule_map(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  const sn_shape *x = in->operands[0], *root = NULL;
  sn_ints over = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  bool all = over.n == x->rank;
  for (int64_t i = 0; all && i < over.n; i++) all = over.v[i] == i;
  if (!all) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "dimensions=%s must list all %d dimensions in order",
                         sn_infer_ints_text(in, over), x->rank);
  }
  SN_TRY(sn_infer_want_called(d, in, 0, in->n_operands, &root));
  for (uint32_t k = 0; k < in->n_operands; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    if (!sn_dims_compatible(x, in->operands[k])) {
      return sn_infer_fail(d, in, SN_ERR_SHAPE,
                           "operands must have equal dimensions, found %s and %s",
                           sn_infer_text(in, x), sn_infer_text(in, in->operands[k]));
    }
    const sn_shape *scalar = sn_shape_scalar(in->arena, in->operands[k]->type);
    if (!scalar) return sn_out_of_memory(d, sizeof *scalar);
    SN_TRY(sn_infer_want_param(d, in, 0, k, scalar));
  }
  if (!sn_shape_is_scalar(root)) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY, "computation %%%s must give a scalar, found %s",
                         in->called[0]->name, sn_infer_text(in, root));
  }
  sn_dims dims;
  sn_dims_of(x, &dims);
  return sn_infer_make(d, in, root->type, &dims, out);
}

/* ---- scan
 * ------------------------------------------------------------------------------------------------------------------
 */

/* Operands: m inputs, then k = num_carries initial carries. The computation takes one slice of each
 * input (without the scanned dimension) and the carries, and gives outputs and then the new
 * carries. Result: the outputs stacked along the scanned dimension, then the last carries. */
static sn_status scan_check_inputs(sn_diag *d, const sn_infer *in, uint32_t m, int64_t along) {
  for (uint32_t k = 0; k < m; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    const sn_shape *x = in->operands[k];
    SN_TRY(sn_infer_want_dim(d, in, "dimensions=", along, x->rank));
    if (x->dims[along] != in->operands[0]->dims[along]) {
      return sn_infer_fail(d, in, SN_ERR_SHAPE,
                           "inputs must have equally many slices along dimension %" PRId64
                           ", found %s and %s",
                           along, sn_infer_text(in, in->operands[0]), sn_infer_text(in, x));
    }
    sn_dims dims = {.rank = 0};
    const sn_shape *slice = NULL;
    for (int i = 0; i < x->rank; i++) {
      if (i != along) sn_dims_push(&dims, x, i);
    }
    SN_TRY(sn_infer_make(d, in, x->type, &dims, &slice));
    SN_TRY(sn_infer_want_param(d, in, 0, k, slice));
  }
  return SN_OK;
}

static sn_status scan_output(sn_diag *d, const sn_infer *in, const sn_shape *slice, int64_t along,
                             const sn_shape **out) {
  if (!sn_shape_is_array(slice) || slice->rank < along) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "computation %%%s gives %s, which has no place for dimension %" PRId64,
                         in->called[0]->name, sn_infer_text(in, slice), along);
  }
  sn_dims dims = {.rank = 0};
  for (int i = 0; i <= slice->rank; i++) {
    if (i == along) sn_dims_push(&dims, in->operands[0], along);
    if (i < slice->rank) sn_dims_push(&dims, slice, i);
  }
  return sn_infer_make(d, in, slice->type, &dims, out);
}

static sn_status scan_check_carries(sn_diag *d, const sn_infer *in, uint32_t m, uint32_t carries,
                                    const sn_shape *const *gives) {
  for (uint32_t k = 0; k < carries; k++) {
    const sn_shape *init = in->operands[m + k];
    SN_TRY(sn_infer_want_array(d, in, m + k, SN_TAKES_ANY));
    SN_TRY(sn_infer_want_param(d, in, 0, m + k, init));
    if (sn_infer_same(gives[k], init)) continue;
    return sn_infer_fail(
        d, in, SN_ERR_VERIFY, "computation %%%s must give carry %" PRIu32 " as %s, found %s",
        in->called[0]->name, k, sn_infer_text(in, init), sn_infer_text(in, gives[k]));
  }
  return SN_OK;
}

sn_status sn_shape_rule_scan(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  sn_ints at = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  int64_t carries = sn_infer_int(in, SN_ATTR_NUM_CARRIES);
  const sn_shape *root = NULL;
  if (at.n != 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "dimensions= must name one dimension, found %s",
                         sn_infer_ints_text(in, at));
  if (carries < 0 || carries >= in->n_operands) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "num_carries=%" PRId64 " leaves no input among %" PRIu32 " operands",
                         carries, in->n_operands);
  }
  uint32_t m = in->n_operands - (uint32_t)carries;
  SN_TRY(sn_infer_want_called(d, in, 0, in->n_operands, &root));
  SN_TRY(scan_check_inputs(d, in, m, at.v[0]));
  int n = sn_shape_is_tuple(root) ? root->n_elements : 1;
  const sn_shape *const *gives = sn_shape_is_tuple(root) ? root->elements : &root;
  if (n < carries) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "computation %%%s must give at least its %" PRId64 " carries, found %s",
                         in->called[0]->name, carries, sn_infer_text(in, root));
  }
  SN_TRY(scan_check_carries(d, in, m, (uint32_t)carries, gives + (n - carries)));
  const sn_shape **results = SN_NEW_N(in->arena, const sn_shape *, n);
  if (!results) return sn_out_of_memory(d, (size_t)n * sizeof *results);
  for (int k = 0; k < n; k++) {
    if (k < n - carries)
      SN_TRY(scan_output(d, in, gives[k], at.v[0], &results[k]));
    else
      SN_TRY(sn_infer_strip(d, in, gives[k], &results[k]));
  }
  if (sn_shape_is_tuple(root)) return sn_infer_make_tuple(d, in, n, results, out);
  return sn_infer_one_or_tuple(d, in, n, results, out);
}

/* ---- sort, topk
 * ---------------------------------------------------------------------------------------------------------------
 */

sn_status sn_shape_rule_sort(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  uint32_t n = in->n_operands;
  sn_ints at = sn_infer_ints(in, SN_ATTR_DIMENSIONS);
  sn_type *types = SN_NEW_N(in->arena, sn_type, n);
  const sn_shape **results = SN_NEW_N(in->arena, const sn_shape *, n);
  if (!types || !results) return sn_out_of_memory(d, n * sizeof *types);
  for (uint32_t k = 0; k < n; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY));
    types[k] = in->operands[k]->type;
    if (!sn_dims_compatible(in->operands[0], in->operands[k])) {
      return sn_infer_fail(d, in, SN_ERR_SHAPE,
                           "operands must have equal dimensions, found %s and %s",
                           sn_infer_text(in, in->operands[0]), sn_infer_text(in, in->operands[k]));
    }
    SN_TRY(sn_infer_strip(d, in, in->operands[k], &results[k]));
  }
  if (at.n != 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "dimensions= must name one dimension, found %s",
                         sn_infer_ints_text(in, at));
  SN_TRY(sn_infer_want_dim(d, in, "dimensions=", at.v[0], in->operands[0]->rank));
  SN_TRY(sn_infer_want_comparator(d, in, 0, n, types));
  return sn_infer_one_or_tuple(d, in, n, results, out);
}

sn_status sn_shape_rule_topk(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY & ~SN_TAKES_COMPLEX));
  const sn_shape *x = in->operands[0], *results[2];
  int64_t k = sn_infer_int(in, SN_ATTR_K);
  if (x->rank < 1)
    return sn_infer_fail(d, in, SN_ERR_SHAPE, "a scalar has no largest elements: %s",
                         sn_infer_text(in, x));
  int64_t n = x->dims[x->rank - 1];
  if (k < 0 || (n != SN_DIM_UNBOUNDED && k > n)) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "k=%" PRId64 " must be between 0 and the last dimension of %s", k,
                         sn_infer_text(in, x));
  }
  sn_dims dims;
  sn_dims_of(x, &dims);
  dims.size[x->rank - 1] = k;
  dims.dynamic[x->rank - 1] = false;
  SN_TRY(sn_infer_make(d, in, x->type, &dims, &results[0]));
  SN_TRY(sn_infer_make(d, in, SN_TYPE_S32, &dims, &results[1]));
  return sn_infer_make_tuple(d, in, 2, results, out);
}
