/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The k largest (or smallest) of each row are the first k of the sorted row: a stable sort of values together with their positions, then slices. The order is
 * total, as top-k's is: NaN above infinity, -0 below +0; equal ones by position. */
#include "passes_internal.h"

/* comparator(a, b, i, j) = a > b, or a < b */
static sn_status comparator(sn_pass_ctx *pc, sn_computation *before, sn_type t, bool largest, sn_computation **out) {
  sn_module *m = before->module;
  SN_TRY(sn_computation_create(m, largest ? "greater" : "less", out));
  sn_computation_move_before(*out, before);
  sn_builder b;
  sn_builder_init(&b, pc->diag, *out);
  sn_instr *xs[2];
  for (int k = 0; k < 4; k++) {
    sn_instr *p = sn_build_parameter(&b, k, sn_shape_scalar(m->arena, k < 2 ? t : SN_TYPE_S32), NULL);
    if (k < 2) xs[k] = p;
  }
  sn_attr attrs[2] = {sn_attr_int(SN_ATTR_DIRECTION, largest ? SN_DIRECTION_GT : SN_DIRECTION_LT), sn_attr_int(SN_ATTR_COMPARE_TYPE, SN_COMPARE_TYPE_TOTALORDER)};
  sn_instr *root = sn_build(&b, SN_OP_COMPARE, NULL, 2, xs, sn_type_is_float(t) ? 2 : 1, attrs, 0, NULL);
  SN_TRY(b.status);
  sn_computation_set_root(*out, root);
  return SN_OK;
}

static sn_status expand(sn_pass_ctx *pc, sn_instr *i) {
  sn_instr *x = sn_instr_operand(i, 0), *xs[2] = {x, NULL}, *parts[2];
  int64_t k = sn_instr_int(i, SN_ATTR_K), last = x->shape->rank - 1;
  sn_computation *order;
  SN_TRY(comparator(pc, i->parent, x->shape->type, sn_instr_bool(i, SN_ATTR_LARGEST), &order));
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, i);
  xs[1] = sn_build_iota(&b, SN_TYPE_S32, x->shape->rank, x->shape->dims, last);
  sn_attr attrs[2] = {sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &last), sn_attr_int(SN_ATTR_IS_STABLE, 1)};
  sn_instr *sorted = sn_build(&b, SN_OP_SORT, NULL, 2, xs, 2, attrs, 1, &order);
  for (int p = 0; p < 2; p++) parts[p] = sn_build_slice_dim(&b, sn_build_get(&b, sorted, p), last, 0, k);
  sn_instr *by = sn_build_tuple(&b, 2, parts);
  SN_TRY(b.status);
  SN_TRY(sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

sn_status sn_pass_expand_topk(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op != SN_OP_TOPK || i->n_control || !sn_shape_is_static(i->shape) || !sn_shape_is_static(sn_operand_shape(i, 0))) continue;
      if (i->shape->elements[1]->type != SN_TYPE_S32 || !sn_pass_may(pc)) continue;
      SN_TRY(expand(pc, i));
    }
  }
  return SN_OK;
}
