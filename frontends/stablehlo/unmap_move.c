/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of ops that move elements. */
#include "unmap.h"

sn_status sn_sw_broadcast(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "broadcast_dimensions", sn_sw_list(s, i, SN_ATTR_DIMENSIONS));
  return SN_OK;
}

sn_status sn_sw_transpose(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "permutation", sn_sw_list(s, i, SN_ATTR_DIMENSIONS));
  return SN_OK;
}

sn_status sn_sw_dimensions(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "dimensions", sn_sw_list(s, i, SN_ATTR_DIMENSIONS));
  return SN_OK;
}

/* One dimension. */
sn_status sn_sw_dimension(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "dimension", sn_sw_number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  return SN_OK;
}

sn_status sn_sw_slice(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t v[3][SN_MAX_RANK];
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_SLICE);
  int rank = i->shape->rank;
  for (int k = 0; k < rank; k++)
    for (int w = 0; w < 3; w++) v[w][k] = a->u.ints.v[3 * k + w];
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "start_indices", sn_sw_ints(s, rank, v[0]));
  sn_sw_attr(op, "limit_indices", sn_sw_ints(s, rank, v[1]));
  sn_sw_attr(op, "strides", sn_sw_ints(s, rank, v[2]));
  return SN_OK;
}

sn_status sn_sw_dynamic_slice(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  if (i->n_operands != 1 + (uint32_t)i->shape->rank) return sn_sw_fail(s, i, "a dynamic slice with its starts in one array");
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "slice_sizes", sn_sw_list(s, i, SN_ATTR_DYNAMIC_SLICE_SIZES));
  return SN_OK;
}

sn_status sn_sw_dynamic_update_slice(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  if (i->n_operands != 2 + (uint32_t)i->shape->rank) return sn_sw_fail(s, i, "a dynamic update with its starts in one array");
  return sn_sw_plain(s, row, i);
}

sn_status sn_sw_pad(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t v[3][SN_MAX_RANK];
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_PADDING);
  int rank = i->shape->rank;
  for (int k = 0; k < rank; k++)
    for (int w = 0; w < 3; w++) v[w][k] = a->u.ints.v[3 * k + w];
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "edge_padding_low", sn_sw_ints(s, rank, v[0]));
  sn_sw_attr(op, "edge_padding_high", sn_sw_ints(s, rank, v[1]));
  sn_sw_attr(op, "interior_padding", sn_sw_ints(s, rank, v[2]));
  return SN_OK;
}

sn_status sn_sw_gather(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_mlir_named v[] = {{"offset_dims", sn_sw_list(s, i, SN_ATTR_OFFSET_DIMS)}, {"collapsed_slice_dims", sn_sw_list(s, i, SN_ATTR_COLLAPSED_SLICE_DIMS)},
                       {"operand_batching_dims", sn_sw_list(s, i, SN_ATTR_OPERAND_BATCHING_DIMS)}, {"start_indices_batching_dims", sn_sw_list(s, i, SN_ATTR_START_INDICES_BATCHING_DIMS)},
                       {"start_index_map", sn_sw_list(s, i, SN_ATTR_START_INDEX_MAP)}, {"index_vector_dim", sn_sw_number(s, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM))}};
  sn_sw_attr(op, "dimension_numbers", sn_sw_members(s, "stablehlo.gather", 6, v));
  sn_sw_attr(op, "indices_are_sorted", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_INDICES_ARE_SORTED)));
  sn_sw_attr(op, "slice_sizes", sn_sw_list(s, i, SN_ATTR_SLICE_SIZES));
  return SN_OK;
}

sn_status sn_sw_scatter(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 1);
  sn_mlir_named v[] = {{"update_window_dims", sn_sw_list(s, i, SN_ATTR_UPDATE_WINDOW_DIMS)}, {"inserted_window_dims", sn_sw_list(s, i, SN_ATTR_INSERTED_WINDOW_DIMS)},
                       {"input_batching_dims", sn_sw_list(s, i, SN_ATTR_INPUT_BATCHING_DIMS)}, {"scatter_indices_batching_dims", sn_sw_list(s, i, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS)},
                       {"scatter_dims_to_operand_dims", sn_sw_list(s, i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS)}, {"index_vector_dim", sn_sw_number(s, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM))}};
  sn_sw_attr(op, "scatter_dimension_numbers", sn_sw_members(s, "stablehlo.scatter", 6, v));
  sn_sw_attr(op, "indices_are_sorted", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_INDICES_ARE_SORTED)));
  sn_sw_attr(op, "unique_indices", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_UNIQUE_INDICES)));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}
