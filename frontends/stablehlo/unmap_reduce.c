/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of reductions and sorts. */
#include "unmap.h"

sn_status sn_sw_reduce(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 1);
  sn_sw_attr(op, "dimensions", sn_sw_list(s, i, SN_ATTR_DIMENSIONS));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_reduce_window(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int rank = sn_operand_shape(i, 0)->rank;
  sn_sw_window_lists l = sn_sw_window(i, rank);
  if (l.reversed) return sn_sw_fail(s, i, "a reversed window");
  SN_SW_OP(row->name, 1);
  sn_sw_attr(op, "window_dimensions", sn_sw_ints(s, rank, l.size));
  sn_sw_attr(op, "window_strides", sn_sw_ints(s, rank, l.stride));
  sn_sw_attr(op, "base_dilations", sn_sw_ints(s, rank, l.base));
  sn_sw_attr(op, "window_dilations", sn_sw_ints(s, rank, l.dilation));
  sn_sw_attr(op, "padding", sn_sw_table(s, rank, 2, l.padding, SN_TYPE_S64, false));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_select_and_scatter(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int rank = i->shape->rank;
  sn_sw_window_lists l = sn_sw_window(i, rank);
  bool dilated = l.reversed;
  for (int k = 0; k < rank; k++) dilated |= l.base[k] != 1 || l.dilation[k] != 1;
  if (dilated) return sn_sw_fail(s, i, "a dilated or reversed window");
  SN_SW_OP(row->name, 2);
  sn_sw_attr(op, "window_dimensions", sn_sw_ints(s, rank, l.size));
  sn_sw_attr(op, "window_strides", sn_sw_ints(s, rank, l.stride));
  sn_sw_attr(op, "padding", sn_sw_table(s, rank, 2, l.padding, SN_TYPE_S64, false));
  SN_TRY(sn_sw_region(s, i, op, 0, i->called[0]));
  return sn_sw_region(s, i, op, 1, i->called[1]);
}

sn_status sn_sw_sort(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 1);
  sn_sw_attr(op, "dimension", sn_sw_number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  sn_sw_attr(op, "is_stable", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_IS_STABLE)));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_map(sn_sw *s, const sn_sm_row *row, const sn_instr *i) { return sn_sw_reduce(s, row, i); }
