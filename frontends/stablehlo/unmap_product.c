/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of dot and convolution. */
#include <string.h>

#include "unmap.h"

static const char *const precisions[] = {"DEFAULT", "HIGH", "HIGHEST"};

static sn_status precision(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  sn_ints p = sn_instr_ints(i, SN_ATTR_OPERAND_PRECISION);
  const sn_mlir_attr *v[2];
  for (int64_t k = 0; k < 2; k++) {
    int64_t one = k < p.n ? p.v[k] : SN_PRECISION_DEFAULT;
    if (one > SN_PRECISION_HIGHEST) return sn_sw_fail(s, i, "the precision packed_nibble");
    v[k] = sn_sw_word(s, "stablehlo.precision", precisions[one]);
    if (v[k] == NULL) return sn_sw_memory(s);
  }
  sn_sw_attr(op, "precision_config", sn_sw_items(s, 2, v));
  return SN_OK;
}

static sn_mlir_attr *type_named(sn_sw *s, const char *name, const sn_instr *i, uint32_t operand) {
  sn_mlir_type *t = SN_NEW(s->out->arena, sn_mlir_type);
  static const struct { const char *name; sn_type t; } types[] = {{"f16", SN_TYPE_F16}, {"bf16", SN_TYPE_BF16}, {"f32", SN_TYPE_F32}, {"f64", SN_TYPE_F64}};
  if (t == NULL) return NULL;
  if (strcmp(name, "f8") == 0) return sn_mlir_attr_type(s->out, sn_mlir_type_scalar(s->out, sn_operand_shape(i, operand)->type));
  for (size_t k = 0; k < sizeof types / sizeof types[0]; k++)
    if (strcmp(types[k].name, name) == 0) return sn_mlir_attr_type(s->out, sn_mlir_type_scalar(s->out, types[k].t));
  *t = (sn_mlir_type){.kind = SN_MT_OTHER, .scalar = SN_TYPE_INVALID, .text = name};
  return sn_mlir_attr_type(s->out, t);
}

static sn_status algorithm(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  int64_t id = sn_instr_int(i, SN_ATTR_DOT_ALGORITHM);
  if (id == SN_DOT_ALGORITHM_UNSET) return SN_OK;
  const sn_sm_algorithm *row = sn_sm_algorithm_find(id);
  if (row == NULL) return sn_sw_fail(s, i, "the algorithm %s", sn_enum_text(SN_DOMAIN_DOT_ALGORITHM, id));
  sn_mlir_named v[] = {{"lhs_precision_type", type_named(s, row->lhs, i, 0)}, {"rhs_precision_type", type_named(s, row->rhs, i, 1)}, {"accumulation_type", type_named(s, row->acc, i, 0)},
                       {"lhs_component_count", sn_sw_number(s, 1)}, {"rhs_component_count", sn_sw_number(s, 1)}, {"num_primitive_operations", sn_sw_number(s, row->products)},
                       {"allow_imprecise_accumulation", sn_sw_truth(s, row->fast)}};
  sn_sw_attr(op, "algorithm", sn_sw_members(s, "stablehlo.dot_algorithm", 7, v));
  return SN_OK;
}

sn_status sn_sw_dot(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_ONLY(SN_ATTR_LHS_BATCH_DIMS, SN_ATTR_RHS_BATCH_DIMS, SN_ATTR_LHS_CONTRACTING_DIMS, SN_ATTR_RHS_CONTRACTING_DIMS, SN_ATTR_OPERAND_PRECISION, SN_ATTR_DOT_ALGORITHM);
  SN_SW_OP(row->name, 0);
  sn_mlir_named v[] = {{"lhs_batching_dimensions", sn_sw_list(s, i, SN_ATTR_LHS_BATCH_DIMS)}, {"rhs_batching_dimensions", sn_sw_list(s, i, SN_ATTR_RHS_BATCH_DIMS)},
                       {"lhs_contracting_dimensions", sn_sw_list(s, i, SN_ATTR_LHS_CONTRACTING_DIMS)}, {"rhs_contracting_dimensions", sn_sw_list(s, i, SN_ATTR_RHS_CONTRACTING_DIMS)}};
  sn_sw_attr(op, "dot_dimension_numbers", sn_sw_members(s, "stablehlo.dot", 4, v));
  SN_TRY(precision(s, i, op));
  return algorithm(s, i, op);
}

static sn_mlir_attr *truths(sn_sw *s, int64_t n, const int64_t *v) {
  sn_mlir_attr *a = sn_sw_ints(s, n, v);
  if (a != NULL) a->type = sn_mlir_type_scalar(s->out, SN_TYPE_PRED);
  return a;
}

static sn_mlir_attr *conv_dims(sn_sw *s, const sn_conv_dims *c) {
  sn_mlir_named v[] = {{"input_batch_dimension", sn_sw_number(s, c->input_batch)}, {"input_feature_dimension", sn_sw_number(s, c->input_feature)},
                       {"input_spatial_dimensions", sn_sw_ints(s, c->n_spatial, c->input_spatial)}, {"kernel_input_feature_dimension", sn_sw_number(s, c->kernel_input_feature)},
                       {"kernel_output_feature_dimension", sn_sw_number(s, c->kernel_output_feature)}, {"kernel_spatial_dimensions", sn_sw_ints(s, c->n_spatial, c->kernel_spatial)},
                       {"output_batch_dimension", sn_sw_number(s, c->output_batch)}, {"output_feature_dimension", sn_sw_number(s, c->output_feature)},
                       {"output_spatial_dimensions", sn_sw_ints(s, c->n_spatial, c->output_spatial)}};
  return sn_sw_members(s, "stablehlo.conv", 9, v);
}

sn_status sn_sw_convolution(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_conv_dims *c = sn_instr_conv(i);
  SN_SW_ONLY(SN_ATTR_WINDOW, SN_ATTR_DIM_LABELS, SN_ATTR_FEATURE_GROUP_COUNT, SN_ATTR_BATCH_GROUP_COUNT, SN_ATTR_OPERAND_PRECISION);
  if (c == NULL || c->input_rank != c->n_spatial + 2 || c->kernel_rank != c->n_spatial + 2) return sn_sw_fail(s, i, "a convolution with dimensions of no role");
  int64_t n = c->n_spatial;
  sn_sw_window_lists l = sn_sw_window(i, (int)n);
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "window_strides", sn_sw_ints(s, n, l.stride));
  sn_sw_attr(op, "padding", sn_sw_table(s, n, 2, l.padding, SN_TYPE_S64, false));
  sn_sw_attr(op, "lhs_dilation", sn_sw_ints(s, n, l.base));
  sn_sw_attr(op, "rhs_dilation", sn_sw_ints(s, n, l.dilation));
  sn_sw_attr(op, "window_reversal", truths(s, n, l.reversal));
  sn_sw_attr(op, "dimension_numbers", conv_dims(s, c));
  sn_sw_attr(op, "feature_group_count", sn_sw_number(s, sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT)));
  sn_sw_attr(op, "batch_group_count", sn_sw_number(s, sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT)));
  return precision(s, i, op);
}
