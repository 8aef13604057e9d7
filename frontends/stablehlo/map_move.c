/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Data movement; the dynamic_* ops, whose shape operands are folded, are the static ones with what was found. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

static sn_instr *with_shape(sn_sm *s, sn_opcode op, const sn_shape *shape, sn_instr *x) { return sn_build(&s->b, op, shape, 1, &x, 0, NULL, 0, NULL); }

/* ---- reshape, broadcast ---- */

/* One `?` follows from the number of elements. */
static sn_status reshape_dims(sn_sm *s, const sn_mlir_op *op, const sn_shape *from, const sn_mlir_type *t, int64_t *dims) {
  int64_t known = 1, unknown = -1;
  for (int i = 0; i < t->rank; i++) {
    dims[i] = t->dims[i];
    if (dims[i] != SN_DIM_UNBOUNDED) known *= dims[i];
    else if (unknown >= 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected at most one `?` in the result of a reshape");
    else unknown = i;
  }
  if (unknown < 0) return SN_OK;
  int64_t n = sn_shape_elements(from);
  if (known == 0 || n % known != 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "%s cannot become %s", sn_shape_text(s->scratch, from), sn_mlir_type_text(s->scratch, t));
  dims[unknown] = n / known;
  return SN_OK;
}

sn_status sn_sm_reshape(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_type *t = op->results[0].type;
  int64_t dims[SN_MAX_RANK];
  const sn_shape *shape = NULL;
  (void)row;
  if (t->kind != SN_MT_TENSOR) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a tensor as result");
  if (t->bounds != NULL) {
    int bounded = 0;
    for (int i = 0; i < t->rank; i++) bounded += t->dims[i] == SN_DIM_UNBOUNDED;
    if (bounded > 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected at most one bounded dimension in the result of a reshape, found %d", bounded);
    SN_TRY(sn_sm_shape(s, op, t, &shape));
    out[0] = with_shape(s, SN_OP_RESHAPE, shape, in[0]);
    return sn_sm_built(s);
  }
  SN_TRY(reshape_dims(s, op, in[0]->shape, t, dims));
  SN_TRY(sn_sm_shape_of_dims(s, op, in[0]->shape->type, t->rank, dims, &shape));
  out[0] = sn_build_reshape(&s->b, in[0], t->rank, dims);
  return sn_sm_built(s);
}

sn_status sn_sm_dynamic_reshape(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *dims = NULL;
  const sn_shape *shape = NULL;
  (void)row;
  SN_TRY(sn_sm_fold_ints(s, op, in[1], "a shape", &n, &dims));
  SN_TRY(sn_sm_shape_of_dims(s, op, in[0]->shape->type, n, dims, &shape));
  out[0] = sn_build_reshape(&s->b, in[0], (int)n, dims);
  return sn_sm_built(s);
}

/* HLO broadcasts do not stretch: dimensions of size 1 that grow are dropped first. */
sn_instr *sn_sm_spread(sn_sm *s, sn_instr *x, int rank, const int64_t *dims, int64_t n, const int64_t *map) {
  int64_t kept[SN_MAX_RANK], to[SN_MAX_RANK];
  int m = 0;
  for (int64_t i = 0; i < n; i++) {
    if (x->shape->dims[i] == 1 && dims[map[i]] != 1) continue;
    kept[m] = x->shape->dims[i];
    to[m++] = map[i];
  }
  bool identity = m == rank && m == n;
  for (int i = 0; identity && i < m; i++) identity = to[i] == i && kept[i] == dims[i];
  if (identity) return x;
  return sn_build_broadcast(&s->b, sn_build_reshape(&s->b, x, m, kept), rank, dims, m, to);
}

static sn_status spread(sn_sm *s, const sn_mlir_op *op, sn_instr *x, int64_t rank, const int64_t *dims, sn_instr **out) {
  int64_t n = 0;
  const int64_t *map = NULL;
  SN_TRY(sn_sm_ints(s, op, "broadcast_dimensions", false, &n, &map));
  if (n != x->shape->rank) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d broadcast dimensions, one an operand's dimension, found %" PRId64, x->shape->rank, n);
  for (int64_t i = 0; i < n; i++) {
    if (map[i] < 0 || map[i] >= rank) return sn_sm_fail(s, op, SN_ERR_SHAPE, "broadcast dimension %" PRId64 " is outside of the result's rank %" PRId64, map[i], rank);
    for (int64_t k = 0; k < i; k++)
      if (map[k] == map[i]) return sn_sm_fail(s, op, SN_ERR_SHAPE, "broadcast dimension %" PRId64 " occurs twice", map[i]);
    if (x->shape->dims[i] != 1 && x->shape->dims[i] != dims[map[i]])
      return sn_sm_fail(s, op, SN_ERR_SHAPE, "dimension %" PRId64 " of the operand has size %" PRId64 ", which is neither 1 nor the %" PRId64 " of dimension %" PRId64 " of the result", i,
                        x->shape->dims[i], dims[map[i]], map[i]);
  }
  /* Broadcast dimensions may be in any order; HLO wants them rising. */
  int64_t order[SN_MAX_RANK], sorted[SN_MAX_RANK];
  for (int64_t i = 0; i < n; i++) order[i] = i;
  for (int64_t i = 1; i < n; i++)
    for (int64_t k = i; k > 0 && map[order[k]] < map[order[k - 1]]; k--) {
      int64_t t = order[k];
      order[k] = order[k - 1];
      order[k - 1] = t;
    }
  for (int64_t i = 0; i < n; i++) sorted[i] = map[order[i]];
  if (n > 1) x = sn_build_transpose(&s->b, x, order);
  SN_TRY(sn_sm_built(s));
  *out = sn_sm_spread(s, x, (int)rank, dims, n, sorted);
  return sn_sm_built(s);
}

sn_status sn_sm_broadcast_in_dim(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_shape *shape = NULL;
  (void)row;
  SN_TRY(sn_sm_shape(s, op, op->results[0].type, &shape));
  return spread(s, op, in[0], shape->rank, shape->dims, &out[0]);
}

sn_status sn_sm_dynamic_broadcast_in_dim(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *dims = NULL;
  const sn_shape *shape = NULL;
  (void)row;
  SN_TRY(sn_sm_fold_ints(s, op, in[1], "a shape", &n, &dims));
  SN_TRY(sn_sm_shape_of_dims(s, op, in[0]->shape->type, n, dims, &shape));
  return spread(s, op, in[0], n, dims, &out[0]);
}

/* New dimensions in front. */
sn_status sn_sm_broadcast(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0, dims[SN_MAX_RANK], map[SN_MAX_RANK];
  const int64_t *sizes = NULL;
  const sn_shape *shape = NULL;
  (void)row;
  SN_TRY(sn_sm_ints(s, op, "broadcast_sizes", true, &n, &sizes));
  if (n + in[0]->shape->rank > SN_MAX_RANK) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "more than %d dimensions", SN_MAX_RANK);
  for (int64_t i = 0; i < n; i++) dims[i] = sizes[i];
  for (int i = 0; i < in[0]->shape->rank; i++) {
    map[i] = n + i;
    dims[n + i] = in[0]->shape->dims[i];
  }
  SN_TRY(sn_sm_shape_of_dims(s, op, in[0]->shape->type, n + in[0]->shape->rank, dims, &shape));
  out[0] = sn_build_broadcast(&s->b, in[0], shape->rank, dims, in[0]->shape->rank, map);
  return sn_sm_built(s);
}

sn_status sn_sm_dynamic_iota(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0, d = 0;
  const int64_t *dims = NULL;
  const sn_shape *shape = NULL;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "iota_dimension", &d));
  SN_TRY(sn_sm_fold_ints(s, op, in[0], "a shape", &n, &dims));
  SN_TRY(sn_sm_shape_of_dims(s, op, sn_mlir_storage(op->results[0].type), n, dims, &shape));
  sn_attr a = sn_attr_int(SN_ATTR_IOTA_DIMENSION, d);
  out[0] = sn_build(&s->b, SN_OP_IOTA, shape, 0, NULL, 1, &a, 0, NULL);
  return sn_sm_built(s);
}

/* ---- transpose, reverse, concatenate ---- */

sn_status sn_sm_transpose(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const int64_t *v = NULL;
  (void)row;
  SN_TRY(sn_sm_ints_n(s, op, "permutation", in[0]->shape->rank, &v));
  out[0] = sn_build_transpose(&s->b, in[0], v);
  return sn_sm_built(s);
}

sn_status sn_sm_reverse(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *v = NULL;
  (void)row;
  SN_TRY(sn_sm_ints(s, op, "dimensions", false, &n, &v));
  out[0] = n == 0 ? in[0] : sn_build_reverse(&s->b, in[0], (int)n, v);
  return sn_sm_built(s);
}

sn_status sn_sm_concatenate(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t d = 0;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "dimension", &d));
  if (op->n_operands == 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected at least one operand, found none");
  out[0] = sn_build_concatenate(&s->b, op->n_operands, in, d);
  return sn_sm_built(s);
}

/* ---- slices ---- */

sn_status sn_sm_slice(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const int64_t *start = NULL, *limit = NULL, *stride = NULL;
  int rank = in[0]->shape->rank;
  (void)row;
  SN_TRY(sn_sm_ints_n(s, op, "start_indices", rank, &start));
  SN_TRY(sn_sm_ints_n(s, op, "limit_indices", rank, &limit));
  SN_TRY(sn_sm_ints_n(s, op, "strides", rank, &stride));
  out[0] = sn_build_slice(&s->b, in[0], start, limit, stride);
  return sn_sm_built(s);
}

sn_status sn_sm_dynamic_slice(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const int64_t *sizes = NULL;
  (void)row;
  if (op->n_operands != 1 + (uint32_t)in[0]->shape->rank) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a start for each of %d dimensions, found %" PRIu32, in[0]->shape->rank, op->n_operands - 1);
  SN_TRY(sn_sm_ints_n(s, op, "slice_sizes", in[0]->shape->rank, &sizes));
  out[0] = sn_build_dynamic_slice(&s->b, in[0], in + 1, sizes);
  return sn_sm_built(s);
}

sn_status sn_sm_dynamic_update_slice(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)row;
  if (op->n_operands < 2 || op->n_operands != 2 + (uint32_t)in[0]->shape->rank)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected an update and a start for each of the operand's dimensions, found %" PRIu32 " operands", op->n_operands);
  out[0] = sn_build_dynamic_update_slice(&s->b, in[0], in[1], in + 2);
  return sn_sm_built(s);
}

enum { ALIKE_DEPTH = 16 };

/* Do two instructions compute the same, as far as can be seen? */
static bool alike(const sn_instr *a, const sn_instr *b, int depth) {
  if (a == b) return true;
  if (depth == 0 || a->op != b->op || a->n_operands != b->n_operands || a->n_called != 0 || a->n_attrs != b->n_attrs || !sn_op_has(a->op, SN_T_PURE) ||
      !sn_shape_equal(a->shape, b->shape, 0))
    return false;
  for (uint16_t k = 0; k < a->n_attrs; k++)
    if (!sn_attr_equal(&a->attrs[k], &b->attrs[k])) return false;
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (!alike(sn_instr_operand(a, k), sn_instr_operand(b, k), depth - 1)) return false;
  return true;
}

/* The sizes of a slice whose starts are values of the run: from the type, or where limits are starts plus something known. */
static sn_status run_sizes(sn_sm *s, const sn_mlir_op *op, sn_instr **in, const int64_t **sizes) {
  int64_t n = 0;
  const sn_mlir_type *t = op->results[0].type;
  *sizes = t->dims;
  if (t->kind == SN_MT_TENSOR && sn_sm_is_static(t)) return SN_OK;
  for (uint32_t k = 0; in[2]->op == SN_OP_ADD && k < 2; k++)
    if (alike(sn_instr_operand(in[2], k), in[1], ALIKE_DEPTH)) {
      SN_TRY(sn_sm_fold_ints(s, op, sn_instr_operand(in[2], 1 - k), "sizes", &n, sizes));
      return n == in[0]->shape->rank ? SN_OK : sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d sizes, found %" PRId64, in[0]->shape->rank, n);
    }
  return sn_sm_fold_ints(s, op, in[1], "starts", &n, sizes); /* says what is wrong */
}

/* Starts known: a slice. Else a dynamic slice, when its sizes are known. */
sn_status sn_sm_real_dynamic_slice(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n[3] = {0, 0, 0};
  const int64_t *v[3] = {NULL, NULL, NULL};
  static const char *const what[3] = {"starts", "limits", "strides"};
  int rank = in[0]->shape->rank;
  (void)row;
  if (sn_sm_fold(s, in[1]) == NULL && rank != 0) {
    sn_instr *starts[SN_MAX_RANK];
    const int64_t *sizes = NULL;
    SN_TRY(run_sizes(s, op, in, &sizes));
    for (int i = 0; i < rank; i++) starts[i] = sn_build_reshape(&s->b, sn_build_slice_dim(&s->b, in[1], 0, i, i + 1), 0, NULL);
    out[0] = sn_build_dynamic_slice(&s->b, in[0], starts, sizes);
    return sn_sm_built(s);
  }
  for (int k = 0; k < 3; k++) {
    SN_TRY(sn_sm_fold_ints(s, op, in[k + 1], what[k], &n[k], &v[k]));
    if (n[k] != rank) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d %s, one a dimension, found %" PRId64, rank, what[k], n[k]);
  }
  out[0] = sn_build_slice(&s->b, in[0], v[0], v[1], v[2]);
  return sn_sm_built(s);
}

/* ---- pad ---- */

sn_status sn_sm_pad(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const int64_t *low = NULL, *high = NULL, *interior = NULL;
  int rank = in[0]->shape->rank;
  (void)row;
  SN_TRY(sn_sm_ints_n(s, op, "edge_padding_low", rank, &low));
  SN_TRY(sn_sm_ints_n(s, op, "edge_padding_high", rank, &high));
  SN_TRY(sn_sm_ints_n(s, op, "interior_padding", rank, &interior));
  out[0] = sn_build_pad(&s->b, in[0], in[1], low, high, interior);
  return sn_sm_built(s);
}

sn_status sn_sm_dynamic_pad(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n[3] = {0, 0, 0};
  const int64_t *v[3] = {NULL, NULL, NULL};
  (void)row;
  for (int k = 0; k < 3; k++) {
    SN_TRY(sn_sm_fold_ints(s, op, in[k + 2], "padding", &n[k], &v[k]));
    if (n[k] != in[0]->shape->rank) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected padding for %d dimensions, found %" PRId64, in[0]->shape->rank, n[k]);
  }
  out[0] = sn_build_pad(&s->b, in[0], in[1], v[0], v[1], v[2]);
  return sn_sm_built(s);
}

/* ---- gather, scatter ---- */

static sn_status add_ints(sn_sm *s, const sn_mlir_op *op, const char *name, sn_attr_id id, sn_attr *a, uint32_t *n) {
  int64_t count = 0;
  const int64_t *v = NULL;
  SN_TRY(sn_sm_ints(s, op, name, false, &count, &v));
  a[(*n)++] = sn_attr_ints(id, count, v);
  return SN_OK;
}

sn_status sn_sm_gather(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[8];
  uint32_t n = 0;
  (void)row;
  SN_TRY(add_ints(s, op, "offset_dims", SN_ATTR_OFFSET_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "collapsed_slice_dims", SN_ATTR_COLLAPSED_SLICE_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "start_index_map", SN_ATTR_START_INDEX_MAP, a, &n));
  SN_TRY(add_ints(s, op, "operand_batching_dims", SN_ATTR_OPERAND_BATCHING_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "start_indices_batching_dims", SN_ATTR_START_INDICES_BATCHING_DIMS, a, &n));
  a[n++] = sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, sn_sm_int_or(op, "index_vector_dim", 0));
  int64_t count = 0;
  const int64_t *sizes = NULL;
  if (op->n_operands == 3) SN_TRY(sn_sm_fold_ints(s, op, in[2], "slice sizes", &count, &sizes));
  else SN_TRY(sn_sm_ints(s, op, "slice_sizes", true, &count, &sizes));
  a[n++] = sn_attr_ints(SN_ATTR_SLICE_SIZES, count, sizes);
  a[n++] = sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, sn_sm_bool(op, "indices_are_sorted"));
  out[0] = sn_build(&s->b, SN_OP_GATHER, NULL, 2, in, n, a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_scatter(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[8];
  uint32_t n = 0;
  sn_computation *update = NULL;
  (void)row;
  SN_TRY(add_ints(s, op, "update_window_dims", SN_ATTR_UPDATE_WINDOW_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "inserted_window_dims", SN_ATTR_INSERTED_WINDOW_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "scatter_dims_to_operand_dims", SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "input_batching_dims", SN_ATTR_INPUT_BATCHING_DIMS, a, &n));
  SN_TRY(add_ints(s, op, "scatter_indices_batching_dims", SN_ATTR_SCATTER_INDICES_BATCHING_DIMS, a, &n));
  a[n++] = sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, sn_sm_int_or(op, "index_vector_dim", 0));
  a[n++] = sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, sn_sm_bool(op, "indices_are_sorted"));
  a[n++] = sn_attr_int(SN_ATTR_UNIQUE_INDICES, sn_sm_bool(op, "unique_indices"));
  SN_TRY(sn_sm_scalar_region(s, op, 0, "update", &update));
  SN_TRY(sn_sm_check_promotion(s, op, update, op->n_operands / 2, in));
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_SCATTER, NULL, op->n_operands, in, n, a, 1, &update), out);
}

/* Slices of `dim` by index; batch_dims leading dimensions go together: a gather with batching dimensions. */
sn_status sn_sm_torch_index_select(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t dim = 0, batch = 0, offset[SN_MAX_RANK], batching[SN_MAX_RANK], sizes[SN_MAX_RANK];
  int rank = in[0]->shape->rank, index_rank = in[1]->shape->rank, n_offset = 0;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "dim", &dim));
  SN_TRY(sn_sm_int(s, op, "batch_dims", &batch));
  if (batch < 0 || dim < batch || dim >= rank || batch > index_rank) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected batch_dims <= dim < %d, found %" PRId64 " and %" PRId64, rank, batch, dim);
  for (int i = 0; i < rank; i++) sizes[i] = i == dim || i < batch ? 1 : in[0]->shape->dims[i];
  for (int64_t i = 0; i < batch; i++) batching[i] = i;
  for (int64_t i = batch; i < dim; i++) offset[n_offset++] = i;
  for (int64_t i = dim + 1; i < rank; i++) offset[n_offset++] = i + index_rank - batch - 1;
  sn_attr a[8] = {sn_attr_ints(SN_ATTR_OFFSET_DIMS, n_offset, offset), sn_attr_ints(SN_ATTR_COLLAPSED_SLICE_DIMS, 1, &dim), sn_attr_ints(SN_ATTR_START_INDEX_MAP, 1, &dim),
                  sn_attr_ints(SN_ATTR_OPERAND_BATCHING_DIMS, batch, batching), sn_attr_ints(SN_ATTR_START_INDICES_BATCHING_DIMS, batch, batching),
                  sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, index_rank), sn_attr_ints(SN_ATTR_SLICE_SIZES, rank, sizes)};
  out[0] = sn_build(&s->b, SN_OP_GATHER, NULL, 2, in, 7, a, 0, NULL);
  return sn_sm_built(s);
}

/* ---- dimension sizes ---- */

static sn_status dimension(sn_sm *s, const sn_mlir_op *op, const sn_shape *of, int64_t *out) {
  SN_TRY(sn_sm_int(s, op, "dimension", out));
  if (*out >= 0 && *out < of->rank) return SN_OK;
  return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a dimension of %s, found %" PRId64, sn_shape_text(s->scratch, of), *out);
}

sn_status sn_sm_get_dimension_size(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t d = 0;
  (void)row;
  SN_TRY(dimension(s, op, in[0]->shape, &d));
  if (in[0]->shape->dynamic != NULL && in[0]->shape->dynamic[d]) {
    sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &d);
    out[0] = sn_build(&s->b, SN_OP_GET_DIMENSION_SIZE, NULL, 1, in, 1, &a, 0, NULL);
  } else {
    out[0] = sn_build_scalar_i64(&s->b, SN_TYPE_S32, in[0]->shape->dims[d]);
  }
  return sn_sm_built(s);
}

sn_status sn_sm_set_dimension_size(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t d = 0;
  (void)row;
  SN_TRY(dimension(s, op, in[0]->shape, &d));
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &d);
  out[0] = sn_build(&s->b, SN_OP_SET_DIMENSION_SIZE, NULL, 2, in, 1, &a, 0, NULL);
  return sn_sm_built(s);
}
