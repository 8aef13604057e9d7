/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shapes, slices, pads, concatenations. */
#include <string.h>

#include "graph_internal.h"

sn_tensor sn_reshape_at(sn_loc at, sn_tensor x, int rank, const int64_t *dims) {
  sn_graph *g = x.graph;
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  if (!i) return sn_graph_empty(g);
  int64_t want[SN_MAX_RANK], known = 1, total = sn_shape_elements(i->shape);
  int open = -1;
  bool fine = rank >= 0 && rank <= SN_MAX_RANK;
  for (int k = 0; fine && k < rank; k++) {
    want[k] = dims[k];
    if (dims[k] >= 0)
      fine = sn_mul_i64(known, dims[k], &known);
    else if (dims[k] == -1 && open < 0)
      open = k;
    else
      fine = false;
  }
  if (fine && open >= 0) {
    fine = known > 0 && total % known == 0;
    if (fine) want[open] = total / known;
  } else {
    fine = fine && known == total;
  }
  if (!fine) {
    sn_str s = {0};
    for (int k = 0; k < rank && k < SN_MAX_RANK; k++) sn_str_printf(&s, k ? ",%lld" : "%lld", (long long)dims[k]);
    sn_graph_fail(g, at, SN_ERR_SHAPE, "reshape: %s has %lld elements, [%s] does not", sn_graph_shape_text(g, i->shape),
                  (long long)total, s.data ? s.data : "");
    sn_str_finish(&s);
    return sn_graph_empty(g);
  }
  return sn_graph_tensor(g, sn_build_reshape(b, i, rank, want));
}

sn_tensor sn_transpose_at(sn_loc at, sn_tensor x, int rank, const int64_t *permutation) {
  sn_graph *g = x.graph;
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  if (!i) return sn_graph_empty(g);
  int64_t p[SN_MAX_RANK];
  bool seen[SN_MAX_RANK] = {false};
  if (rank != i->shape->rank) {
    sn_graph_fail(g, at, SN_ERR_SHAPE, "transpose: a permutation of %d axes for %s", rank,
                  sn_graph_shape_text(g, i->shape));
    return sn_graph_empty(g);
  }
  for (int k = 0; k < rank; k++) {
    int a = sn_graph_axis(g, at, "transpose", permutation[k], rank);
    if (a < 0) return sn_graph_empty(g);
    if (seen[a]) {
      sn_graph_fail(g, at, SN_ERR_SHAPE, "transpose: axis %d stands twice in the permutation", a);
      return sn_graph_empty(g);
    }
    seen[a] = true;
    p[k] = a;
  }
  return sn_graph_tensor(g, sn_build_transpose(b, i, p));
}

sn_tensor sn_swap_axes_at(sn_loc at, sn_tensor x, int a, int b) {
  int rank = sn_tensor_rank(x);
  if (!x.instr) return x;
  int i = sn_graph_axis(x.graph, at, "swap_axes", a, rank), j = sn_graph_axis(x.graph, at, "swap_axes", b, rank);
  if (i < 0 || j < 0) return sn_graph_empty(x.graph);
  int64_t p[SN_MAX_RANK];
  for (int k = 0; k < rank; k++) p[k] = k == i ? j : k == j ? i : k;
  return sn_transpose_at(at, x, rank, p);
}

sn_tensor sn_move_axis_at(sn_loc at, sn_tensor x, int from, int to) {
  int rank = sn_tensor_rank(x);
  if (!x.instr) return x;
  int i = sn_graph_axis(x.graph, at, "move_axis", from, rank), j = sn_graph_axis(x.graph, at, "move_axis", to, rank);
  if (i < 0 || j < 0) return sn_graph_empty(x.graph);
  int64_t p[SN_MAX_RANK];
  for (int k = 0, next = 0; k < rank; k++) {
    if (k == j) {
      p[k] = i;
      continue;
    }
    if (next == i) next++;
    p[k] = next++;
  }
  return sn_transpose_at(at, x, rank, p);
}

sn_tensor sn_expand_dims_at(sn_loc at, sn_tensor x, int axis) {
  int rank = sn_tensor_rank(x);
  if (!x.instr) return x;
  int a = sn_graph_axis(x.graph, at, "expand_dims", axis, rank + 1);
  if (a < 0 || rank == SN_MAX_RANK) return sn_graph_empty(x.graph);
  int64_t dims[SN_MAX_RANK];
  for (int k = 0; k <= rank; k++) dims[k] = k < a ? x.instr->shape->dims[k] : k == a ? 1 : x.instr->shape->dims[k - 1];
  return sn_reshape_at(at, x, rank + 1, dims);
}

sn_tensor sn_squeeze_at(sn_loc at, sn_tensor x, int axis) {
  int rank = sn_tensor_rank(x);
  if (!x.instr) return x;
  int a = sn_graph_axis(x.graph, at, "squeeze", axis, rank);
  if (a < 0) return sn_graph_empty(x.graph);
  if (x.instr->shape->dims[a] != 1) {
    sn_graph_fail(x.graph, at, SN_ERR_SHAPE, "squeeze: axis %d of %s is not 1", a, sn_tensor_text(x));
    return sn_graph_empty(x.graph);
  }
  int64_t dims[SN_MAX_RANK];
  for (int k = 0; k < rank - 1; k++) dims[k] = x.instr->shape->dims[k < a ? k : k + 1];
  return sn_reshape_at(at, x, rank - 1, dims);
}

sn_tensor sn_broadcast_to_at(sn_loc at, sn_tensor x, int rank, const int64_t *dims) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_graph_broadcast(x.graph, at, i, rank, dims) : NULL);
}

sn_tensor sn_broadcast_in_dim_at(sn_loc at, sn_tensor x, int rank, const int64_t *dims, int n_axes,
                                 const int64_t *axes) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_build_broadcast(b, i, rank, dims, n_axes, axes) : NULL);
}

sn_tensor sn_reverse_at(sn_loc at, sn_tensor x, int n, const int64_t *axes) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  int64_t list[SN_MAX_RANK];
  int count = i ? sn_graph_axes(x.graph, at, "reverse", n, axes, i->shape->rank, list) : -1;
  return sn_graph_tensor(x.graph, count >= 0 ? sn_build_reverse(b, i, count, list) : NULL);
}

sn_tensor sn_slice_at(sn_loc at, sn_tensor x, const int64_t *start, const int64_t *limit, const int64_t *stride) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_build_slice(b, i, start, limit, stride) : NULL);
}

sn_tensor sn_slice_axis_at(sn_loc at, sn_tensor x, int axis, int64_t start, int64_t limit) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  int a = i ? sn_graph_axis(x.graph, at, "slice_axis", axis, i->shape->rank) : -1;
  if (a < 0) return sn_graph_empty(x.graph);
  int64_t size = i->shape->dims[a];
  if (start < 0) start += size;
  if (limit < 0) limit += size;
  if (start < 0 || limit < start || limit > size) {
    sn_graph_fail(x.graph, at, SN_ERR_SHAPE, "slice_axis: [%lld, %lld) of axis %d of %s", (long long)start,
                  (long long)limit, a, sn_tensor_text(x));
    sn_graph_hint(x.graph, "the axis has %lld elements", (long long)size);
    return sn_graph_empty(x.graph);
  }
  return sn_graph_tensor(x.graph, sn_build_slice_dim(b, i, a, start, limit));
}

sn_tensor sn_index_at(sn_loc at, sn_tensor x, int axis, int64_t index) {
  int64_t size = sn_tensor_dim(x, axis);
  if (index < 0) index += size;
  return sn_squeeze_at(at, sn_slice_axis_at(at, x, axis, index, index + 1), axis);
}

static bool use_starts(sn_loc at, sn_tensor x, sn_instr *i, const sn_tensor *starts, sn_instr **out) {
  for (int k = 0; k < i->shape->rank; k++)
    if (!(out[k] = sn_graph_use(x.graph, at, starts[k]))) return false;
  return true;
}

sn_tensor sn_dynamic_slice_at(sn_loc at, sn_tensor x, const sn_tensor *starts, const int64_t *sizes) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b), *list[SN_MAX_RANK];
  if (!i || !use_starts(at, x, i, starts, list)) return sn_graph_empty(x.graph);
  return sn_graph_tensor(x.graph, sn_build_dynamic_slice(b, i, list, sizes));
}

/* Starts that are zero but for one axis. */
static bool axis_starts(sn_loc at, sn_tensor x, int axis, sn_tensor start, sn_tensor *out, int *a) {
  int rank = sn_tensor_rank(x);
  *a = x.instr ? sn_graph_axis(x.graph, at, "dynamic slice", axis, rank) : -1;
  if (*a < 0) return false;
  sn_tensor zero = sn_scalar_like_at(at, start, 0);
  for (int k = 0; k < rank; k++) out[k] = k == *a ? start : zero;
  return true;
}

sn_tensor sn_dynamic_slice_axis_at(sn_loc at, sn_tensor x, int axis, sn_tensor start, int64_t size) {
  sn_tensor starts[SN_MAX_RANK];
  int a;
  if (!axis_starts(at, x, axis, start, starts, &a)) return sn_graph_empty(x.graph);
  int64_t sizes[SN_MAX_RANK];
  memcpy(sizes, x.instr->shape->dims, (size_t)sn_tensor_rank(x) * sizeof *sizes);
  sizes[a] = size;
  return sn_dynamic_slice_at(at, x, starts, sizes);
}

sn_tensor sn_dynamic_update_slice_at(sn_loc at, sn_tensor x, sn_tensor update, const sn_tensor *starts) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b), *u = i ? sn_graph_use(x.graph, at, update) : NULL, *list[SN_MAX_RANK];
  if (!u || !use_starts(at, x, i, starts, list)) return sn_graph_empty(x.graph);
  return sn_graph_tensor(x.graph, sn_build_dynamic_update_slice(b, i, u, list));
}

sn_tensor sn_dynamic_update_slice_axis_at(sn_loc at, sn_tensor x, sn_tensor update, int axis, sn_tensor start) {
  sn_tensor starts[SN_MAX_RANK];
  int a;
  if (!axis_starts(at, x, axis, start, starts, &a)) return sn_graph_empty(x.graph);
  return sn_dynamic_update_slice_at(at, x, update, starts);
}

sn_tensor sn_pad_at(sn_loc at, sn_tensor x, const int64_t *low, const int64_t *high, const int64_t *interior,
                    double value) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(
      x.graph, i ? sn_build_pad(b, i, sn_graph_scalar(x.graph, i->shape->type, value), low, high, interior) : NULL);
}

sn_tensor sn_concat_at(sn_loc at, int n, const sn_tensor *xs, int axis) {
  if (n <= 0) return (sn_tensor){0};
  sn_graph *g = xs[0].graph;
  sn_builder *b;
  sn_instr *first = sn_graph_enter(at, xs[0], &b), **list = first ? SN_NEW_N(g->arena, sn_instr *, n) : NULL;
  if (!list) {
    if (first) sn_graph_no_memory(g);
    return sn_graph_empty(g);
  }
  int a = sn_graph_axis(g, at, "concat", axis, first->shape->rank);
  for (int k = 0; k < n && a >= 0; k++)
    if (!(list[k] = sn_graph_use(g, at, xs[k]))) return sn_graph_empty(g);
  if (a < 0) return sn_graph_empty(g);
  return sn_graph_tensor(g, n == 1 ? first : sn_build_concatenate(b, (uint32_t)n, list, a));
}

sn_tensor sn_stack_at(sn_loc at, int n, const sn_tensor *xs, int axis) {
  if (n <= 0) return (sn_tensor){0};
  sn_graph *g = xs[0].graph;
  sn_tensor *list = sn_graph_open(g, at) ? SN_NEW_N(g->arena, sn_tensor, n) : NULL;
  if (!list) return sn_graph_empty(g);
  for (int k = 0; k < n; k++) list[k] = sn_expand_dims_at(at, xs[k], axis);
  return sn_concat_at(at, n, list, axis);
}

void sn_split_at(sn_loc at, sn_tensor x, int axis, int n, sn_tensor *out) {
  int64_t size = sn_tensor_dim(x, axis);
  if (x.instr && (n <= 0 || size % n))
    sn_graph_fail(x.graph, at, SN_ERR_SHAPE, "split: axis %d of %s into %d equal parts", axis, sn_tensor_text(x), n);
  for (int k = 0; k < n; k++) out[k] = sn_slice_axis_at(at, x, axis, size / n * k, size / n * (k + 1));
}

/* The last two axes where row + k >= column (lower) or row + k <= column. */
static sn_tensor triangle(sn_loc at, sn_tensor x, int64_t k, int64_t direction) {
  int rank = sn_tensor_rank(x);
  if (!x.instr) return x;
  if (rank < 2) {
    sn_graph_fail(x.graph, at, SN_ERR_SHAPE, "tril/triu of %s: two axes are needed", sn_tensor_text(x));
    return sn_graph_empty(x.graph);
  }
  const int64_t *dims = x.instr->shape->dims + rank - 2;
  sn_tensor row = sn_iota_at(at, x.graph, SN_TYPE_S32, 2, dims, 0),
            col = sn_iota_at(at, x.graph, SN_TYPE_S32, 2, dims, 1);
  if (k) row = sn_binary_c_at(at, SN_OP_ADD, row, (double)k);
  sn_tensor keep = sn_broadcast_to_at(at, sn_compare_at(at, direction, row, col), rank, x.instr->shape->dims);
  return sn_select_at(at, keep, x, sn_scalar_like_at(at, x, 0));
}

sn_tensor sn_tril_at(sn_loc at, sn_tensor x, int64_t k) { return triangle(at, x, k, SN_DIRECTION_GE); }
sn_tensor sn_triu_at(sn_loc at, sn_tensor x, int64_t k) { return triangle(at, x, k, SN_DIRECTION_LE); }
