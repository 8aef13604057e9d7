/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of gather and scatter, both with batching dimensions (StableHLO spec: gather, scatter).
 *
 * Index vectors lie along index_vector_dim of the indices; all other dimensions of the indices are
 * batch dimensions of the result (gather) or of the updates (scatter). Their remaining dimensions
 * are a window into the operand, without those that are collapsed/inserted or batching. */
#include "infer.h"

#include <inttypes.h>

/* The attributes of either op under one set of names. */
typedef struct slicing {
  sn_ints window;  /* offset_dims, update_window_dims */
  sn_ints removed; /* collapsed_slice_dims, inserted_window_dims */
  sn_ints map;     /* start_index_map, scatter_dims_to_operand_dims */
  sn_ints batching, indices_batching;
  int64_t vector_dim;
  const char *window_name, *removed_name, *map_name, *batching_name, *indices_batching_name;
  const sn_shape *operand, *indices;
} slicing;

static sn_status slicing_disjoint(sn_diag *d, const sn_infer *in, const char *an, sn_ints a,
                                  const char *bn, sn_ints b) {
  for (int64_t i = 0; i < a.n; i++) {
    if (sn_infer_has(b, a.v[i]))
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                           "dimension %" PRId64 " stands in both %s and %s", a.v[i], an, bn);
  }
  return SN_OK;
}

static sn_status slicing_check_indices(sn_diag *d, const sn_infer *in, const slicing *s) {
  if (s->vector_dim < 0 || s->vector_dim > s->indices->rank) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                                 "index_vector_dim=%" PRId64 " is no dimension of the indices %s",
                                 s->vector_dim, sn_infer_text(in, s->indices));
    sn_hint(d, "0 to %d; %d means that each element is an index vector of its own",
            s->indices->rank, s->indices->rank);
    return st;
  }
  int64_t length = s->vector_dim == s->indices->rank ? 1 : s->indices->dims[s->vector_dim];
  if (length != SN_DIM_UNBOUNDED && s->map.n != length) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "%s%s must name a dimension for each of the %" PRId64
                         " elements of an index vector",
                         s->map_name, sn_infer_ints_text(in, s->map), length);
  }
  return sn_infer_want_dims(d, in, s->map_name, s->map, s->operand->rank);
}

static sn_status slicing_check_batching(sn_diag *d, const sn_infer *in, const slicing *s) {
  SN_TRY(sn_infer_want_dims(d, in, s->batching_name, s->batching, s->operand->rank));
  SN_TRY(sn_infer_want_sorted(d, in, s->batching_name, s->batching));
  SN_TRY(
      sn_infer_want_dims(d, in, s->indices_batching_name, s->indices_batching, s->indices->rank));
  SN_TRY(slicing_disjoint(d, in, s->removed_name, s->removed, s->batching_name, s->batching));
  SN_TRY(slicing_disjoint(d, in, s->map_name, s->map, s->batching_name, s->batching));
  if (s->batching.n != s->indices_batching.n) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "%s%s and %s%s must be equally long",
                         s->batching_name, sn_infer_ints_text(in, s->batching),
                         s->indices_batching_name, sn_infer_ints_text(in, s->indices_batching));
  }
  if (sn_infer_has(s->indices_batching, s->vector_dim)) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "%s holds index_vector_dim=%" PRId64,
                         s->indices_batching_name, s->vector_dim);
  }
  for (int64_t i = 0; i < s->batching.n; i++) {
    int64_t a = s->operand->dims[s->batching.v[i]], b = s->indices->dims[s->indices_batching.v[i]];
    if (a == b || a == SN_DIM_UNBOUNDED || b == SN_DIM_UNBOUNDED) continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "batching dimension %" PRId64 " has %" PRId64
                         " elements in the operand and %" PRId64 " in the indices",
                         i, a, b);
  }
  return SN_OK;
}

static sn_status slicing_check(sn_diag *d, const sn_infer *in, const slicing *s) {
  SN_TRY(slicing_check_indices(d, in, s));
  SN_TRY(sn_infer_want_dims(d, in, s->removed_name, s->removed, s->operand->rank));
  SN_TRY(sn_infer_want_sorted(d, in, s->removed_name, s->removed));
  SN_TRY(slicing_check_batching(d, in, s));
  if (s->window.n + s->removed.n + s->batching.n != s->operand->rank) {
    sn_status st = sn_infer_fail(
        d, in, SN_ERR_ATTRIBUTE, "%s%s, %s%s and %s%s must together cover the %d dimensions of %s",
        s->window_name, sn_infer_ints_text(in, s->window), s->removed_name,
        sn_infer_ints_text(in, s->removed), s->batching_name, sn_infer_ints_text(in, s->batching),
        s->operand->rank, sn_infer_text(in, s->operand));
    sn_hint(d, "each operand dimension is a window dimension, or %s, or batching",
            s->removed_name[0] == 'c' ? "collapsed" : "inserted");
    return st;
  }
  int batch_rank = s->indices->rank - (s->vector_dim < s->indices->rank);
  SN_TRY(sn_infer_want_dims(d, in, s->window_name, s->window, s->window.n + batch_rank));
  return sn_infer_want_sorted(d, in, s->window_name, s->window);
}

/* Batch dimension number k: the k-th dimension of the indices that is not the index vector. */
static int64_t slicing_indices_dim(const slicing *s, int64_t k) {
  return k < s->vector_dim ? k : k + 1;
}

static bool slicing_in_window(const slicing *s, int64_t operand_dim) {
  return !sn_infer_has(s->removed, operand_dim) && !sn_infer_has(s->batching, operand_dim);
}

static sn_status gather_check_sizes(sn_diag *d, const sn_infer *in, const slicing *s,
                                    sn_ints sizes) {
  if (sizes.n != s->operand->rank) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "slice_sizes=%s needs one size for each dimension of %s",
                         sn_infer_ints_text(in, sizes), sn_infer_text(in, s->operand));
  }
  for (int k = 0; k < s->operand->rank; k++) {
    int64_t size = s->operand->dims[k];
    if (sizes.v[k] < 0 || (size != SN_DIM_UNBOUNDED && sizes.v[k] > size)) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                           "a slice of %" PRId64 " does not fit dimension %d of %s", sizes.v[k], k,
                           sn_infer_text(in, s->operand));
    }
    if (!slicing_in_window(s, k) && sizes.v[k] > 1) {
      return sn_infer_fail(
          d, in, SN_ERR_ATTRIBUTE,
          "dimension %d is collapsed or batching, so its slice size must be 1, found %" PRId64, k,
          sizes.v[k]);
    }
  }
  return SN_OK;
}

static void gather_dims(const slicing *s, sn_ints sizes, sn_dims *dims) {
  int batch_rank = s->indices->rank - (s->vector_dim < s->indices->rank), batch = 0;
  int64_t w = 0;
  for (int64_t i = 0; i < s->window.n + batch_rank; i++) {
    if (!sn_infer_has(s->window, i)) {
      sn_dims_push(dims, s->indices, slicing_indices_dim(s, batch++));
      continue;
    }
    while (!slicing_in_window(s, w)) w++;
    sn_dims_push_static(dims, sizes.v[w]);
    /* The whole of a dynamic dimension stays dynamic; a part of it is all there. */
    if (i < SN_MAX_RANK)
      dims->dynamic[i] = sn_dims_is_dynamic(s->operand, w) && sizes.v[w] == s->operand->dims[w];
    w++;
  }
}

sn_status sn_shape_rule_gather(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_INT));
  slicing s = {
      .window = sn_infer_ints(in, SN_ATTR_OFFSET_DIMS),
      .removed = sn_infer_ints(in, SN_ATTR_COLLAPSED_SLICE_DIMS),
      .map = sn_infer_ints(in, SN_ATTR_START_INDEX_MAP),
      .batching = sn_infer_ints(in, SN_ATTR_OPERAND_BATCHING_DIMS),
      .indices_batching = sn_infer_ints(in, SN_ATTR_START_INDICES_BATCHING_DIMS),
      .vector_dim = sn_infer_int(in, SN_ATTR_INDEX_VECTOR_DIM),
      .window_name = "offset_dims=",
      .removed_name = "collapsed_slice_dims=",
      .map_name = "start_index_map=",
      .batching_name = "operand_batching_dims=",
      .indices_batching_name = "start_indices_batching_dims=",
      .operand = in->operands[0],
      .indices = in->operands[1],
  };
  sn_ints sizes = sn_infer_ints(in, SN_ATTR_SLICE_SIZES);
  SN_TRY(slicing_check(d, in, &s));
  SN_TRY(gather_check_sizes(d, in, &s, sizes));
  sn_dims dims = {.rank = 0};
  gather_dims(&s, sizes, &dims);
  return sn_infer_make(d, in, s.operand->type, &dims, out);
}

/* ---- scatter
 * --------------------------------------------------------------------------------------------------------------
 */

static sn_status scatter_check_update(sn_diag *d, const sn_infer *in, const slicing *s,
                                      const sn_shape *input, const sn_shape *update) {
  int batch_rank = s->indices->rank - (s->vector_dim < s->indices->rank), batch = 0;
  if (update->rank != s->window.n + batch_rank) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "updates must have rank %" PRId64 " (%" PRId64
                         " window and %d scatter dimensions), found %s",
                         s->window.n + batch_rank, s->window.n, batch_rank,
                         sn_infer_text(in, update));
  }
  int64_t w = 0;
  for (int i = 0; i < update->rank; i++) {
    bool window = sn_infer_has(s->window, i);
    while (window && !slicing_in_window(s, w)) w++;
    int64_t k = window ? w++ : slicing_indices_dim(s, batch++);
    int64_t want = window ? input->dims[k] : s->indices->dims[k], found = update->dims[i];
    if (want == SN_DIM_UNBOUNDED || found == SN_DIM_UNBOUNDED ||
        (window ? found <= want : found == want))
      continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "dimension %d of the updates %s must be %s %" PRId64 ", dimension %" PRId64
                         " of the %s",
                         i, sn_infer_text(in, update), window ? "at most" : "equal to", want, k,
                         window ? "operand" : "indices");
  }
  return SN_OK;
}

static sn_status scatter_result(sn_diag *d, const sn_infer *in, uint32_t n, const sn_shape **out) {
  sn_type *types = SN_NEW_N(in->arena, sn_type, 2 * n);
  const sn_shape **results = SN_NEW_N(in->arena, const sn_shape *, n);
  if (!types || !results) return sn_out_of_memory(d, n * sizeof *types);
  for (uint32_t k = 0; k < n; k++) types[k] = in->operands[k]->type;
  SN_TRY(sn_infer_want_reducer(d, in, 0, n, types, types, types + n));
  for (uint32_t k = 0; k < n; k++) {
    sn_dims dims;
    sn_dims_of(in->operands[k], &dims);
    SN_TRY(sn_infer_make(d, in, types[n + k], &dims, &results[k]));
  }
  return sn_infer_one_or_tuple(d, in, n, results, out);
}

sn_status sn_shape_rule_scatter(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  if (in->n_operands % 2 == 0) {
    sn_status st = sn_infer_fail(
        d, in, SN_ERR_SHAPE, "expected an odd number of operands, found %" PRIu32, in->n_operands);
    sn_hint(d, "n operands, the indices, n updates");
    return st;
  }
  uint32_t n = in->n_operands / 2;
  for (uint32_t k = 0; k < in->n_operands; k++)
    SN_TRY(sn_infer_want_array(d, in, k, k == n ? SN_TAKES_INT : SN_TAKES_ANY));
  slicing s = {
      .window = sn_infer_ints(in, SN_ATTR_UPDATE_WINDOW_DIMS),
      .removed = sn_infer_ints(in, SN_ATTR_INSERTED_WINDOW_DIMS),
      .map = sn_infer_ints(in, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
      .batching = sn_infer_ints(in, SN_ATTR_INPUT_BATCHING_DIMS),
      .indices_batching = sn_infer_ints(in, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS),
      .vector_dim = sn_infer_int(in, SN_ATTR_INDEX_VECTOR_DIM),
      .window_name = "update_window_dims=",
      .removed_name = "inserted_window_dims=",
      .map_name = "scatter_dims_to_operand_dims=",
      .batching_name = "input_batching_dims=",
      .indices_batching_name = "scatter_indices_batching_dims=",
      .operand = in->operands[0],
      .indices = in->operands[n],
  };
  SN_TRY(slicing_check(d, in, &s));
  for (uint32_t k = 0; k < n; k++) {
    if (!sn_dims_compatible(in->operands[0], in->operands[k])) {
      return sn_infer_fail(d, in, SN_ERR_SHAPE,
                           "operands must have equal dimensions, found %s and %s",
                           sn_infer_text(in, in->operands[0]), sn_infer_text(in, in->operands[k]));
    }
    SN_TRY(sn_infer_want_same_type(d, in, k, n + 1 + k));
    SN_TRY(scatter_check_update(d, in, &s, in->operands[k], in->operands[n + 1 + k]));
  }
  return scatter_result(d, in, n, out);
}
