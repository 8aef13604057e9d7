/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Gather, scatter, and the indexing operations made of them. */
#include <string.h>

#include "graph_internal.h"

static bool want_integer(sn_graph *g, sn_loc at, const char *what, sn_tensor indices) {
  if (!indices.instr || sn_type_is_integer(sn_tensor_type(indices))) return indices.instr != NULL;
  sn_graph_fail(g, at, SN_ERR_TYPE, "%s: indices are %s, not integers", what, sn_tensor_text(indices));
  return false;
}

sn_tensor sn_gather_at(sn_loc at, sn_tensor x, sn_tensor indices, const sn_gather_dims *d) {
  if (x.instr && !want_integer(x.graph, at, "gather", indices)) return sn_graph_empty(x.graph);
  sn_attr attrs[] = {
      sn_attr_ints(SN_ATTR_OFFSET_DIMS, d->n_offset, d->offset_dims),
      sn_attr_ints(SN_ATTR_COLLAPSED_SLICE_DIMS, d->n_collapsed, d->collapsed_slice_dims),
      sn_attr_ints(SN_ATTR_START_INDEX_MAP, d->n_start_map, d->start_index_map),
      sn_attr_ints(SN_ATTR_OPERAND_BATCHING_DIMS, d->n_operand_batch, d->operand_batching_dims),
      sn_attr_ints(SN_ATTR_START_INDICES_BATCHING_DIMS, d->n_indices_batch, d->start_indices_batching_dims),
      sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, d->index_vector_dim),
      sn_attr_ints(SN_ATTR_SLICE_SIZES, sn_tensor_rank(x), d->slice_sizes),
      sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, d->indices_are_sorted),
  };
  return sn_op_at(at, x.graph, SN_OP_GATHER, NULL, 2, (sn_tensor[]){x, indices}, (int)(sizeof attrs / sizeof *attrs),
                  attrs);
}

/* The computation (old, new) -> new. */
static void take_new(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)ctx, (void)g, (void)n, (void)n_out;
  out[0] = in[1];
}

static sn_computation *combiner(sn_graph *g, sn_loc at, sn_opcode op, sn_type t) {
  if (op != SN_OP_PARAMETER) return sn_build_reducer(&g->b, op, t);
  const sn_shape *s = sn_shape_scalar(g->module->arena, t), *like[2] = {s, s};
  sn_tensor out;
  sn_frame *f = s ? sn_frame_run(g, at, SN_FRAME_SCALAR, "assign", take_new, NULL, 2, like, 0, NULL, 1, &out) : NULL;
  if (!f) return NULL;
  sn_computation *c = f->comp;
  sn_computation_set_root(c, out.instr);
  sn_frame_pop(g);
  return c;
}

sn_tensor sn_scatter_at(sn_loc at, sn_tensor x, sn_tensor indices, sn_tensor updates, sn_opcode op,
                        const sn_scatter_dims *d) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  if (!i || !want_integer(x.graph, at, "scatter", indices)) return sn_graph_empty(x.graph);
  sn_computation *apply = combiner(x.graph, at, op, i->shape->type);
  if (!apply) return sn_graph_empty(x.graph);
  sn_attr attrs[] = {
      sn_attr_ints(SN_ATTR_UPDATE_WINDOW_DIMS, d->n_window, d->update_window_dims),
      sn_attr_ints(SN_ATTR_INSERTED_WINDOW_DIMS, d->n_inserted, d->inserted_window_dims),
      sn_attr_ints(SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, d->n_scatter_map, d->scatter_dims_to_operand_dims),
      sn_attr_ints(SN_ATTR_INPUT_BATCHING_DIMS, d->n_input_batch, d->input_batching_dims),
      sn_attr_ints(SN_ATTR_SCATTER_INDICES_BATCHING_DIMS, d->n_indices_batch, d->scatter_indices_batching_dims),
      sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, d->index_vector_dim),
      sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, d->indices_are_sorted),
      sn_attr_int(SN_ATTR_UNIQUE_INDICES, d->unique_indices),
  };
  sn_tensor out;
  sn_op_tuple_at(at, x.graph, SN_OP_SCATTER, NULL, 3, (sn_tensor[]){x, indices, updates},
                 (int)(sizeof attrs / sizeof *attrs), attrs, 1, &apply, 1, &out);
  return out;
}

sn_tensor sn_scatter_rows_at(sn_loc at, sn_tensor x, sn_tensor indices, sn_tensor updates, sn_opcode op) {
  int rank = sn_tensor_rank(x), n = sn_tensor_rank(indices);
  int64_t window[SN_MAX_RANK];
  for (int k = 0; k + 1 < rank; k++) window[k] = n + k;
  sn_scatter_dims d = {.n_window = rank > 0 ? rank - 1 : 0,
                       .update_window_dims = window,
                       .n_inserted = 1,
                       .inserted_window_dims = (int64_t[]){0},
                       .n_scatter_map = 1,
                       .scatter_dims_to_operand_dims = (int64_t[]){0},
                       .index_vector_dim = n};
  return sn_scatter_at(at, x, indices, updates, op, &d);
}

sn_tensor sn_take_at(sn_loc at, sn_tensor x, sn_tensor indices, int axis) {
  int rank = sn_tensor_rank(x), n = sn_tensor_rank(indices);
  if (!x.instr || !want_integer(x.graph, at, "take", indices)) return sn_graph_empty(x.graph);
  int a = sn_graph_axis(x.graph, at, "take", axis, rank);
  if (a < 0) return sn_graph_empty(x.graph);
  int64_t offset[SN_MAX_RANK], sizes[SN_MAX_RANK];
  memcpy(sizes, x.instr->shape->dims, (size_t)rank * sizeof *sizes);
  sizes[a] = sizes[a] ? 1 : 0;
  for (int k = 0; k + 1 < rank; k++) offset[k] = k < a ? k : k + n;
  int64_t a64 = a;
  sn_gather_dims d = {.n_offset = rank - 1,
                      .offset_dims = offset,
                      .n_collapsed = 1,
                      .collapsed_slice_dims = &a64,
                      .n_start_map = 1,
                      .start_index_map = &a64,
                      .index_vector_dim = n,
                      .slice_sizes = sizes};
  return sn_gather_at(at, x, indices, &d);
}

/* Every axis but `axis` is a batching axis of the gather. */
sn_tensor sn_take_along_at(sn_loc at, sn_tensor x, sn_tensor indices, int axis) {
  int rank = sn_tensor_rank(x);
  if (!x.instr || !want_integer(x.graph, at, "take_along", indices)) return sn_graph_empty(x.graph);
  int a = sn_graph_axis(x.graph, at, "take_along", axis, rank);
  if (a < 0) return sn_graph_empty(x.graph);
  bool fits = sn_tensor_rank(indices) == rank;
  int64_t batch[SN_MAX_RANK], sizes[SN_MAX_RANK], a64 = a;
  int n = 0;
  for (int k = 0; fits && k < rank; k++) {
    sizes[k] = 1;
    if (k == a) continue;
    fits = x.instr->shape->dims[k] == indices.instr->shape->dims[k];
    batch[n++] = k;
  }
  if (!fits) {
    sn_graph_fail(x.graph, at, SN_ERR_SHAPE, "take_along: %s indexed by %s along axis %d", sn_tensor_text(x),
                  sn_tensor_text(indices), a);
    sn_graph_hint(x.graph, "ranks and all other axes must be equal");
    return sn_graph_empty(x.graph);
  }
  sn_gather_dims d = {.n_collapsed = 1,
                      .collapsed_slice_dims = &a64,
                      .n_start_map = 1,
                      .start_index_map = &a64,
                      .n_operand_batch = n,
                      .operand_batching_dims = batch,
                      .n_indices_batch = n,
                      .start_indices_batching_dims = batch,
                      .index_vector_dim = rank,
                      .slice_sizes = sizes};
  return sn_gather_at(at, x, indices, &d);
}

sn_tensor sn_one_hot_at(sn_loc at, sn_tensor indices, int64_t n, sn_type t) {
  int rank = sn_tensor_rank(indices);
  if (!indices.instr || !want_integer(indices.graph, at, "one_hot", indices)) return sn_graph_empty(indices.graph);
  if (rank == SN_MAX_RANK) return sn_graph_empty(indices.graph);
  int64_t dims[SN_MAX_RANK], axes[SN_MAX_RANK];
  for (int k = 0; k < rank; k++) dims[k] = indices.instr->shape->dims[k], axes[k] = k;
  dims[rank] = n;
  sn_tensor wide = sn_broadcast_in_dim_at(at, indices, rank + 1, dims, rank, axes);
  sn_tensor count = sn_iota_at(at, indices.graph, sn_tensor_type(indices), rank + 1, dims, rank);
  return sn_cast_at(at, sn_compare_at(at, SN_DIRECTION_EQ, wide, count), t);
}
