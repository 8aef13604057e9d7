/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Each op on the way from HLO to the tree: its operands, its attributes under StableHLO's names, its regions. */
#include <inttypes.h>
#include <string.h>

#include "unmap.h"

/* ---- attributes ---- */

static sn_mlir_attr *ints(sn_sw *s, int64_t n, const int64_t *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_INTS);
  if (a == NULL) return NULL;
  a->ints = sn_arena_copy(s->out->arena, n != 0 ? v : (const int64_t *)&a->i, (size_t)(n != 0 ? n : 1) * sizeof *v);
  a->n = n;
  return a->ints != NULL ? a : NULL;
}

static sn_mlir_attr *list(sn_sw *s, const sn_instr *i, sn_attr_id id) {
  sn_ints v = sn_instr_ints(i, id);
  return ints(s, v.n, v.v);
}

static sn_mlir_attr *number(sn_sw *s, int64_t v) { return sn_mlir_attr_int(s->out, v); }
static sn_mlir_attr *number32(sn_sw *s, int64_t v) {
  sn_mlir_attr *a = number(s, v);
  if (a != NULL) a->type = sn_mlir_type_scalar(s->out, SN_TYPE_S32);
  return a;
}
static sn_mlir_attr *truth(sn_sw *s, bool v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_BOOL);
  if (a != NULL) a->i = v;
  return a;
}
static sn_mlir_attr *unit(sn_sw *s) { return sn_mlir_attr_new(s->out, SN_MA_UNIT); }
static sn_mlir_attr *text(sn_sw *s, const char *v) { return sn_mlir_attr_string(s->out, SN_MA_STRING, v != NULL ? v : "", v != NULL ? strlen(v) : 0); }

/* The domain is StableHLO's, without its name in front. */
static sn_mlir_attr *word(sn_sw *s, const char *domain, const char *v) {
  sn_mlir_attr *a = sn_mlir_attr_string(s->out, SN_MA_ENUM, v, strlen(v));
  if (a != NULL) a->name = domain;
  return a;
}

/* n x width integers. */
static const sn_mlir_attr *table(sn_sw *s, int64_t n, int64_t width, const int64_t *v, sn_type t, bool index) {
  int64_t dims[2] = {n, width};
  int rank = width < 0 ? 1 : 2;
  sn_array *a = NULL;
  sn_mlir_type *element = sn_arena_copy(s->out->arena, sn_mlir_type_scalar(s->out, t), sizeof *element);
  const sn_shape *shape = sn_shape_array(s->out->arena, t, rank, dims);
  if (element == NULL || shape == NULL || sn_array_create(shape, &a) != SN_OK) return NULL;
  element->is_index = index;
  for (int64_t k = 0; k < sn_shape_elements(shape); k++) sn_store_i64(t, (char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t), v[k]);
  const sn_mlir_type *type = sn_mlir_type_tensor(s->out, rank, dims, element);
  if (type == NULL) {
    sn_array_release(a);
    return NULL;
  }
  return sn_mlir_attr_dense(s->out, type, a, false);
}

static sn_mlir_attr *items(sn_sw *s, int64_t n, const sn_mlir_attr *const *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_ARRAY);
  if (a == NULL) return NULL;
  a->items = n != 0 ? sn_arena_copy(s->out->arena, v, (size_t)n * sizeof *v) : (const sn_mlir_attr *const *)(const void *)a;
  a->n = n;
  return a->items != NULL ? a : NULL;
}

static sn_mlir_attr *members(sn_sw *s, const char *name, int64_t n, const sn_mlir_named *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, name != NULL ? SN_MA_STRUCT : SN_MA_DICT);
  if (a == NULL) return NULL;
  for (int64_t k = 0; k < n; k++)
    if (v[k].attr == NULL) return NULL;
  a->name = name;
  a->members = n != 0 ? sn_arena_copy(s->out->arena, v, (size_t)n * sizeof *v) : NULL;
  a->n = n;
  return a;
}

/* What the writers know of the instruction is what it has. */
static sn_status only(sn_sw *s, const sn_instr *i, const sn_attr_id *known, size_t n) {
  for (uint16_t k = 0; k < i->n_attrs; k++) {
    bool found = false;
    for (size_t w = 0; w < n; w++) found |= i->attrs[k].id == known[w];
    if (!found) return sn_sw_fail(s, i, "the attribute %s of %s", sn_attrs[i->attrs[k].id].text, sn_opcode_text(i->op));
  }
  return SN_OK;
}

#define ONLY(...) SN_TRY(only(s, i, (const sn_attr_id[]){__VA_ARGS__}, sizeof((const sn_attr_id[]){__VA_ARGS__}) / sizeof(sn_attr_id)))
#define OP(name, regions) sn_mlir_op *op = sn_sw_instr(s, name, i, regions); if (op == NULL) return sn_sw_memory(s)

/* ---- elementwise and plain ---- */

sn_status sn_sw_plain(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_TRY(only(s, i, NULL, 0));
  OP(row->name, 0);
  (void)op;
  return SN_OK;
}

static sn_mlir_attr *real(sn_sw *s, double v) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_FLOAT);
  if (a != NULL) a->f = v;
  return a;
}

/* `{mode=highest}` or `{tolerance={atol=…,rtol=…,ulps=…}}` */
static sn_status accuracy(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const char *config = sn_instr_str(i, SN_ATTR_RESULT_ACCURACY);
  double atol = 0, rtol = 0;
  long long ulps = 0;
  if (config == NULL) return SN_OK;
  bool highest = strstr(config, "highest") != NULL;
  if (!highest && sscanf(config, "{tolerance={atol=%lf,rtol=%lf,ulps=%lld}}", &atol, &rtol, &ulps) != 3) return sn_sw_fail(s, i, "the result_accuracy %s", config);
  sn_mlir_named v[] = {{"atol", real(s, atol)}, {"rtol", real(s, rtol)}, {"ulps", number(s, ulps)}, {"mode", word(s, "stablehlo.result_accuracy_mode", highest ? "HIGHEST" : "TOLERANCE")}};
  sn_sw_attr(op, "result_accuracy", members(s, "stablehlo.result_accuracy", 4, v));
  return SN_OK;
}

sn_status sn_sw_unary(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  ONLY(SN_ATTR_RESULT_ACCURACY);
  OP(row->name, 0);
  return accuracy(s, i, op);
}

sn_status sn_sw_constant(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_array *v = sn_instr_literal(i);
  if (v == NULL) return sn_sw_fail(s, i, "an elided constant");
  if (!sn_shape_is_array(i->shape)) return sn_sw_fail(s, i, "a constant that is a tuple");
  OP(row->name, 0);
  sn_sw_attr(op, "value", sn_mlir_attr_dense(s->out, op->results[0].type, sn_array_retain(v), false));
  return SN_OK;
}

sn_status sn_sw_iota(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "iota_dimension", number(s, sn_instr_int(i, SN_ATTR_IOTA_DIMENSION)));
  return SN_OK;
}

static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};

sn_status sn_sw_compare(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_attr *stated = sn_instr_attr(i, SN_ATTR_COMPARE_TYPE);
  sn_type t = sn_operand_shape(i, 0)->type;
  bool total = stated != NULL && stated->u.i == SN_COMPARE_TYPE_TOTALORDER;
  OP(row->name, 0);
  sn_sw_attr(op, "comparison_direction", word(s, "stablehlo.comparison_direction", directions[sn_instr_int(i, SN_ATTR_DIRECTION)]));
  sn_sw_attr(op, "compare_type",
             word(s, "stablehlo.comparison_type",
                  total                                                    ? "TOTALORDER"
                  : sn_type_is_float(t) || sn_type_is_complex(t)           ? "FLOAT"
                  : t == SN_TYPE_PRED || sn_types[t].cls == SN_CLASS_UNSIGNED ? "UNSIGNED"
                                                                           : "SIGNED"));
  return SN_OK;
}

sn_status sn_sw_reduce_precision(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "exponent_bits", number32(s, sn_instr_int(i, SN_ATTR_EXPONENT_BITS)));
  sn_sw_attr(op, "mantissa_bits", number32(s, sn_instr_int(i, SN_ATTR_MANTISSA_BITS)));
  return SN_OK;
}

/* ---- movement ---- */

sn_status sn_sw_broadcast(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "broadcast_dimensions", list(s, i, SN_ATTR_DIMENSIONS));
  return SN_OK;
}

sn_status sn_sw_transpose(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "permutation", list(s, i, SN_ATTR_DIMENSIONS));
  return SN_OK;
}

sn_status sn_sw_dimensions(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "dimensions", list(s, i, SN_ATTR_DIMENSIONS));
  return SN_OK;
}

/* One dimension. */
sn_status sn_sw_dimension(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "dimension", number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  return SN_OK;
}

sn_status sn_sw_slice(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t v[3][SN_MAX_RANK];
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_SLICE);
  int rank = i->shape->rank;
  for (int k = 0; k < rank; k++)
    for (int w = 0; w < 3; w++) v[w][k] = a->u.ints.v[3 * k + w];
  OP(row->name, 0);
  sn_sw_attr(op, "start_indices", ints(s, rank, v[0]));
  sn_sw_attr(op, "limit_indices", ints(s, rank, v[1]));
  sn_sw_attr(op, "strides", ints(s, rank, v[2]));
  return SN_OK;
}

sn_status sn_sw_dynamic_slice(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  if (i->n_operands != 1 + (uint32_t)i->shape->rank) return sn_sw_fail(s, i, "a dynamic slice with its starts in one array");
  OP(row->name, 0);
  sn_sw_attr(op, "slice_sizes", list(s, i, SN_ATTR_DYNAMIC_SLICE_SIZES));
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
  OP(row->name, 0);
  sn_sw_attr(op, "edge_padding_low", ints(s, rank, v[0]));
  sn_sw_attr(op, "edge_padding_high", ints(s, rank, v[1]));
  sn_sw_attr(op, "interior_padding", ints(s, rank, v[2]));
  return SN_OK;
}

sn_status sn_sw_gather(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_mlir_named v[] = {{"offset_dims", list(s, i, SN_ATTR_OFFSET_DIMS)}, {"collapsed_slice_dims", list(s, i, SN_ATTR_COLLAPSED_SLICE_DIMS)},
                       {"operand_batching_dims", list(s, i, SN_ATTR_OPERAND_BATCHING_DIMS)}, {"start_indices_batching_dims", list(s, i, SN_ATTR_START_INDICES_BATCHING_DIMS)},
                       {"start_index_map", list(s, i, SN_ATTR_START_INDEX_MAP)}, {"index_vector_dim", number(s, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM))}};
  sn_sw_attr(op, "dimension_numbers", members(s, "stablehlo.gather", 6, v));
  sn_sw_attr(op, "indices_are_sorted", truth(s, sn_instr_bool(i, SN_ATTR_INDICES_ARE_SORTED)));
  sn_sw_attr(op, "slice_sizes", list(s, i, SN_ATTR_SLICE_SIZES));
  return SN_OK;
}

sn_status sn_sw_scatter(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 1);
  sn_mlir_named v[] = {{"update_window_dims", list(s, i, SN_ATTR_UPDATE_WINDOW_DIMS)}, {"inserted_window_dims", list(s, i, SN_ATTR_INSERTED_WINDOW_DIMS)},
                       {"input_batching_dims", list(s, i, SN_ATTR_INPUT_BATCHING_DIMS)}, {"scatter_indices_batching_dims", list(s, i, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS)},
                       {"scatter_dims_to_operand_dims", list(s, i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS)}, {"index_vector_dim", number(s, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM))}};
  sn_sw_attr(op, "scatter_dimension_numbers", members(s, "stablehlo.scatter", 6, v));
  sn_sw_attr(op, "indices_are_sorted", truth(s, sn_instr_bool(i, SN_ATTR_INDICES_ARE_SORTED)));
  sn_sw_attr(op, "unique_indices", truth(s, sn_instr_bool(i, SN_ATTR_UNIQUE_INDICES)));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

/* ---- products ---- */

static const char *const precisions[] = {"DEFAULT", "HIGH", "HIGHEST"};

static sn_status precision(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  sn_ints p = sn_instr_ints(i, SN_ATTR_OPERAND_PRECISION);
  const sn_mlir_attr *v[2];
  for (int64_t k = 0; k < 2; k++) {
    int64_t one = k < p.n ? p.v[k] : SN_PRECISION_DEFAULT;
    if (one > SN_PRECISION_HIGHEST) return sn_sw_fail(s, i, "the precision packed_nibble");
    v[k] = word(s, "stablehlo.precision", precisions[one]);
    if (v[k] == NULL) return sn_sw_memory(s);
  }
  sn_sw_attr(op, "precision_config", items(s, 2, v));
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
                       {"lhs_component_count", number(s, 1)}, {"rhs_component_count", number(s, 1)}, {"num_primitive_operations", number(s, row->products)},
                       {"allow_imprecise_accumulation", truth(s, row->fast)}};
  sn_sw_attr(op, "algorithm", members(s, "stablehlo.dot_algorithm", 7, v));
  return SN_OK;
}

sn_status sn_sw_dot(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  ONLY(SN_ATTR_LHS_BATCH_DIMS, SN_ATTR_RHS_BATCH_DIMS, SN_ATTR_LHS_CONTRACTING_DIMS, SN_ATTR_RHS_CONTRACTING_DIMS, SN_ATTR_OPERAND_PRECISION, SN_ATTR_DOT_ALGORITHM);
  OP(row->name, 0);
  sn_mlir_named v[] = {{"lhs_batching_dimensions", list(s, i, SN_ATTR_LHS_BATCH_DIMS)}, {"rhs_batching_dimensions", list(s, i, SN_ATTR_RHS_BATCH_DIMS)},
                       {"lhs_contracting_dimensions", list(s, i, SN_ATTR_LHS_CONTRACTING_DIMS)}, {"rhs_contracting_dimensions", list(s, i, SN_ATTR_RHS_CONTRACTING_DIMS)}};
  sn_sw_attr(op, "dot_dimension_numbers", members(s, "stablehlo.dot", 4, v));
  SN_TRY(precision(s, i, op));
  return algorithm(s, i, op);
}

typedef struct window_lists {
  int64_t size[SN_MAX_RANK], stride[SN_MAX_RANK], padding[2 * SN_MAX_RANK], base[SN_MAX_RANK], dilation[SN_MAX_RANK], reversal[SN_MAX_RANK];
  bool reversed;
} window_lists;

/* Without a window every size is 1. */
static window_lists window_of(const sn_instr *i, int rank) {
  const sn_window *w = sn_instr_window(i);
  window_lists l = {.reversed = false};
  for (int k = 0; k < rank; k++) {
    const sn_window_dim d = w != NULL && k < w->rank ? w->dims[k] : (sn_window_dim){1, 1, 0, 0, 1, 1, false};
    l.size[k] = d.size;
    l.stride[k] = d.stride;
    l.padding[2 * k] = d.pad_low;
    l.padding[2 * k + 1] = d.pad_high;
    l.base[k] = d.lhs_dilate;
    l.dilation[k] = d.rhs_dilate;
    l.reversal[k] = d.reversal;
    l.reversed |= d.reversal;
  }
  return l;
}

static sn_mlir_attr *truths(sn_sw *s, int64_t n, const int64_t *v) {
  sn_mlir_attr *a = ints(s, n, v);
  if (a != NULL) a->type = sn_mlir_type_scalar(s->out, SN_TYPE_PRED);
  return a;
}

static sn_mlir_attr *conv_dims(sn_sw *s, const sn_conv_dims *c) {
  sn_mlir_named v[] = {{"input_batch_dimension", number(s, c->input_batch)}, {"input_feature_dimension", number(s, c->input_feature)},
                       {"input_spatial_dimensions", ints(s, c->n_spatial, c->input_spatial)}, {"kernel_input_feature_dimension", number(s, c->kernel_input_feature)},
                       {"kernel_output_feature_dimension", number(s, c->kernel_output_feature)}, {"kernel_spatial_dimensions", ints(s, c->n_spatial, c->kernel_spatial)},
                       {"output_batch_dimension", number(s, c->output_batch)}, {"output_feature_dimension", number(s, c->output_feature)},
                       {"output_spatial_dimensions", ints(s, c->n_spatial, c->output_spatial)}};
  return members(s, "stablehlo.conv", 9, v);
}

sn_status sn_sw_convolution(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_conv_dims *c = sn_instr_conv(i);
  ONLY(SN_ATTR_WINDOW, SN_ATTR_DIM_LABELS, SN_ATTR_FEATURE_GROUP_COUNT, SN_ATTR_BATCH_GROUP_COUNT, SN_ATTR_OPERAND_PRECISION);
  if (c == NULL || c->input_rank != c->n_spatial + 2 || c->kernel_rank != c->n_spatial + 2) return sn_sw_fail(s, i, "a convolution with dimensions of no role");
  int64_t n = c->n_spatial;
  window_lists l = window_of(i, (int)n);
  OP(row->name, 0);
  sn_sw_attr(op, "window_strides", ints(s, n, l.stride));
  sn_sw_attr(op, "padding", table(s, n, 2, l.padding, SN_TYPE_S64, false));
  sn_sw_attr(op, "lhs_dilation", ints(s, n, l.base));
  sn_sw_attr(op, "rhs_dilation", ints(s, n, l.dilation));
  sn_sw_attr(op, "window_reversal", truths(s, n, l.reversal));
  sn_sw_attr(op, "dimension_numbers", conv_dims(s, c));
  sn_sw_attr(op, "feature_group_count", number(s, sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT)));
  sn_sw_attr(op, "batch_group_count", number(s, sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT)));
  return precision(s, i, op);
}

/* ---- reductions ---- */

sn_status sn_sw_reduce(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 1);
  sn_sw_attr(op, "dimensions", list(s, i, SN_ATTR_DIMENSIONS));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_reduce_window(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int rank = sn_operand_shape(i, 0)->rank;
  window_lists l = window_of(i, rank);
  if (l.reversed) return sn_sw_fail(s, i, "a reversed window");
  OP(row->name, 1);
  sn_sw_attr(op, "window_dimensions", ints(s, rank, l.size));
  sn_sw_attr(op, "window_strides", ints(s, rank, l.stride));
  sn_sw_attr(op, "base_dilations", ints(s, rank, l.base));
  sn_sw_attr(op, "window_dilations", ints(s, rank, l.dilation));
  sn_sw_attr(op, "padding", table(s, rank, 2, l.padding, SN_TYPE_S64, false));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_select_and_scatter(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int rank = i->shape->rank;
  window_lists l = window_of(i, rank);
  bool dilated = l.reversed;
  for (int k = 0; k < rank; k++) dilated |= l.base[k] != 1 || l.dilation[k] != 1;
  if (dilated) return sn_sw_fail(s, i, "a dilated or reversed window");
  OP(row->name, 2);
  sn_sw_attr(op, "window_dimensions", ints(s, rank, l.size));
  sn_sw_attr(op, "window_strides", ints(s, rank, l.stride));
  sn_sw_attr(op, "padding", table(s, rank, 2, l.padding, SN_TYPE_S64, false));
  SN_TRY(sn_sw_region(s, i, op, 0, i->called[0]));
  return sn_sw_region(s, i, op, 1, i->called[1]);
}

sn_status sn_sw_sort(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 1);
  sn_sw_attr(op, "dimension", number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  sn_sw_attr(op, "is_stable", truth(s, sn_instr_bool(i, SN_ATTR_IS_STABLE)));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_map(sn_sw *s, const sn_sm_row *row, const sn_instr *i) { return sn_sw_reduce(s, row, i); }

/* ---- linear algebra, normalisation, random numbers ---- */

static const char *const fft_types[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};

sn_status sn_sw_fft(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "fft_type", word(s, "stablehlo.fft_type", fft_types[sn_instr_int(i, SN_ATTR_FFT_TYPE)]));
  sn_sw_attr(op, "fft_length", list(s, i, SN_ATTR_FFT_LENGTH));
  return SN_OK;
}

sn_status sn_sw_cholesky(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "lower", truth(s, sn_instr_bool(i, SN_ATTR_LOWER)));
  return SN_OK;
}

sn_status sn_sw_triangular_solve(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(row->name, 0);
  sn_sw_attr(op, "left_side", truth(s, sn_instr_bool(i, SN_ATTR_LEFT_SIDE)));
  sn_sw_attr(op, "lower", truth(s, sn_instr_bool(i, SN_ATTR_LOWER)));
  sn_sw_attr(op, "unit_diagonal", truth(s, sn_instr_bool(i, SN_ATTR_UNIT_DIAGONAL)));
  sn_sw_attr(op, "transpose_a", word(s, "stablehlo.transpose", transposes[sn_instr_int(i, SN_ATTR_TRANSPOSE_A)]));
  return SN_OK;
}

sn_status sn_sw_batch_norm(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_attr *e = sn_instr_attr(i, SN_ATTR_EPSILON);
  OP(row->name, 0);
  sn_mlir_attr *epsilon = real(s, e != NULL ? e->u.f : 0);
  if (epsilon != NULL) epsilon->type = sn_mlir_type_scalar(s->out, SN_TYPE_F32);
  sn_sw_attr(op, "epsilon", epsilon);
  sn_sw_attr(op, "feature_index", number(s, sn_instr_int(i, SN_ATTR_FEATURE_INDEX)));
  return SN_OK;
}

/* The shape is an operand there. */
sn_status sn_sw_rng(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t n = i->shape->rank;
  const sn_mlir_type *type = sn_mlir_type_tensor(s->out, 1, &n, sn_mlir_type_scalar(s->out, SN_TYPE_S64)), *result = sn_sw_type(s, i->shape);
  sn_mlir_op *shape = type != NULL && result != NULL ? sn_sw_op(s, "stablehlo.constant", 0, NULL, 1, &type, 0) : NULL;
  if (shape == NULL) return sn_sw_memory(s);
  sn_sw_attr(shape, "value", table(s, n, -1, i->shape->dims, SN_TYPE_S64, false));
  sn_mlir_value *in[3] = {sn_sw_value(s, sn_instr_operand(i, 0)), sn_sw_value(s, sn_instr_operand(i, 1)), shape->results};
  sn_mlir_op *op = in[0] != NULL && in[1] != NULL ? sn_sw_op(s, row->name, 3, in, 1, &result, 0) : NULL;
  if (op == NULL) return sn_sw_memory(s);
  sn_sw_attr(op, "rng_distribution", word(s, "stablehlo.rng_distribution", sn_instr_int(i, SN_ATTR_DISTRIBUTION) == SN_DISTRIBUTION_NORMAL ? "NORMAL" : "UNIFORM"));
  SN_TRY(sn_sw_notes(s, i, op));
  return sn_sw_bind(s, i, op);
}

sn_status sn_sw_rng_bit_generator(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  static const char *const names[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
  OP(row->name, 0);
  if (op->n_results != 2) return sn_sw_fail(s, i, "random bits without the new state");
  sn_sw_attr(op, "rng_algorithm", word(s, "stablehlo.rng_algorithm", names[sn_instr_int(i, SN_ATTR_RNG_ALGORITHM)]));
  return SN_OK;
}

/* ---- tuples, calls, control flow ---- */

sn_status sn_sw_tuple(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_mlir_value **v = SN_NEW_N(s->out->arena, sn_mlir_value *, i->n_operands + 1);
  (void)row;
  if (v == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < i->n_operands; k++)
    if ((v[k] = sn_sw_value(s, sn_instr_operand(i, k))) == NULL) return sn_sw_memory(s);
  s->nodes[i->id] = (sn_sw_node){.parts = v, .block = s->to};
  return SN_OK;
}

/* Of what is a list of values here, the value; a tuple that HLO writes out and takes apart stays one. */
sn_status sn_sw_get_tuple_element(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *x = sn_instr_operand(i, 0);
  int64_t k = sn_instr_int(i, SN_ATTR_INDEX);
  sn_sw_node *from = &s->nodes[x->id];
  if ((x->op == SN_OP_INFEED || x->op == SN_OP_RECV_DONE) && k == 0 && sn_sw_count(i->shape) != 1) return SN_OK; /* received() has bound it */
  if (from->parts != NULL && x->op != SN_OP_TUPLE) {
    s->nodes[i->id] = (sn_sw_node){.whole = from->parts[k]};
    return SN_OK;
  }
  OP(row->name, 0);
  sn_sw_attr(op, "index", number32(s, k));
  return SN_OK;
}

/* A composite is its decomposition's call, marked. */
static sn_status composite(sn_sw *s, const sn_instr *i, const char *callee) {
  const char *name = sn_instr_frontend(i, "composite.name"), *attributes = sn_instr_frontend(i, "composite.attributes"), *version = sn_instr_frontend(i, "composite.version");
  const sn_mlir_attr *dict = NULL;
  long long v = 0;
  OP("stablehlo.composite", 0);
  if (attributes == NULL) attributes = "{}";
  if (sn_mlir_read_attr_text(s->out, attributes, strlen(attributes), 32, &dict) != SN_OK || dict->kind != SN_MA_DICT) return sn_sw_fail(s, i, "a composite with attributes %s", attributes);
  if (version != NULL) (void)sscanf(version, "%lld", &v);
  sn_sw_attr(op, "composite_attributes", dict);
  sn_sw_attr(op, "decomposition", sn_mlir_attr_string(s->out, SN_MA_SYMBOL, callee, strlen(callee)));
  sn_sw_attr(op, "name", text(s, name));
  sn_sw_attr(op, "version", number32(s, v));
  return SN_OK;
}

sn_status sn_sw_call(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const char *name = sn_sw_function(s, i->called[0]);
  if (name == NULL) return sn_sw_memory(s);
  if (sn_instr_bool(i, SN_ATTR_IS_COMPOSITE)) return composite(s, i, name);
  OP(row->name, 0);
  sn_sw_attr(op, "callee", sn_mlir_attr_string(s->out, SN_MA_SYMBOL, name, strlen(name)));
  return SN_OK;
}

sn_status sn_sw_while(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *start = sn_instr_operand(i, 0);
  bool tuple = sn_shape_is_tuple(i->shape);
  uint32_t n = tuple ? (uint32_t)i->shape->n_elements : 1;
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  sn_mlir_value *only_one = tuple ? NULL : sn_sw_value(s, start), **in = tuple ? sn_sw_elements(s, start) : &only_one;
  if (types == NULL || in == NULL || (!tuple && only_one == NULL)) return sn_sw_memory(s);
  for (uint32_t k = 0; k < n; k++)
    if ((types[k] = sn_sw_type(s, tuple ? i->shape->elements[k] : i->shape)) == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_op(s, row->name, n, in, n, types, 2);
  sn_mlir_value **parts = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 1);
  if (op == NULL || parts == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < n; k++) parts[k] = &op->results[k];
  SN_TRY(sn_sw_notes(s, i, op));
  SN_TRY(sn_sw_loop_region(s, i, op, 0, i->called[0]));
  SN_TRY(sn_sw_loop_region(s, i, op, 1, i->called[1]));
  s->nodes[i->id] = tuple ? (sn_sw_node){.parts = parts} : (sn_sw_node){.whole = parts[0]};
  return SN_OK;
}

sn_status sn_sw_conditional(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *which = sn_instr_operand(i, 0);
  sn_mlir_value *index = sn_sw_value(s, which);
  sn_instr bare = *i; /* its other operands are reached from inside of the regions */
  bare.n_operands = 1;
  (void)row;
  if (index == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_instr(s, which->shape->type == SN_TYPE_PRED ? "stablehlo.if" : "stablehlo.case", &bare, i->n_called);
  if (op == NULL) return sn_sw_memory(s);
  for (uint16_t k = 0; k < i->n_called; k++) SN_TRY(sn_sw_branch_region(s, i, op, k, i->called[k], sn_instr_operand(i, k + 1u)));
  return SN_OK;
}

/* An operand that is a tuple of several is several operands. */
static sn_mlir_op *spread(sn_sw *s, const char *name, const sn_instr *i, const sn_instr *token, uint32_t n_results, const sn_mlir_type *const *types) {
  uint32_t n = 0;
  sn_mlir_value **v = sn_sw_values(s, sn_instr_operand(i, 0), &n), **in = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 2);
  if (v == NULL || in == NULL) return NULL;
  for (uint32_t k = 0; k < n; k++) in[k] = v[k];
  if (token != NULL && (in[n++] = sn_sw_value(s, token)) == NULL) return NULL;
  sn_mlir_op *op = sn_sw_op(s, name, n, in, n_results, types, 0);
  return op != NULL && sn_sw_notes(s, i, op) == SN_OK ? op : NULL;
}

sn_status sn_sw_optimization_barrier(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  uint32_t n = sn_sw_count(i->shape);
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  if (types == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < n; k++)
    if ((types[k] = sn_sw_type(s, sn_shape_is_tuple(i->shape) && i->shape->n_elements != 1 ? i->shape->elements[k] : i->shape)) == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = spread(s, row->name, i, NULL, n, types);
  return op != NULL ? sn_sw_bind(s, i, op) : sn_sw_memory(s);
}

sn_status sn_sw_after_all(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  OP(i->n_operands == 0 ? "stablehlo.create_token" : row->name, 0);
  (void)op;
  return SN_OK;
}

/* ---- transfers ---- */

static sn_status channel(sn_sw *s, const sn_instr *i, sn_mlir_op *op, int64_t type) {
  sn_mlir_named v[] = {{"channel_id", number(s, sn_instr_int(i, SN_ATTR_CHANNEL_ID))}, {"channel_type", number(s, type)}};
  sn_sw_attr(op, "channel_handle", members(s, "stablehlo.channel_handle", 2, v));
  return SN_OK;
}

static const sn_instr *partner(const sn_instr *i, sn_opcode done) {
  SN_FOR_USES(u, i)
  if (u->user->op == done) return u->user;
  return NULL;
}

/* `{{0,1},{1,2}}` of the frontend attribute. */
static const sn_mlir_attr *pairs(sn_sw *s, const sn_instr *i) {
  const char *note = sn_instr_frontend(i, "_xla_send_recv_source_target_pairs");
  int64_t v[256], n = 0;
  while (note != NULL && n < 254 && (note = strchr(note + 1, '{')) != NULL) {
    long long a = 0, b = 0;
    if (sscanf(note, "{%lld,%lld}", &a, &b) != 2) return NULL;
    v[n++] = a;
    v[n++] = b;
  }
  return table(s, n / 2, 2, v, SN_TYPE_S64, false);
}

sn_status sn_sw_send(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *done = partner(i, SN_OP_SEND_DONE);
  const sn_mlir_type *token = sn_mlir_type_of(s->out, SN_MT_TOKEN);
  bool host = sn_instr_bool(i, SN_ATTR_IS_HOST_TRANSFER);
  if (done == NULL) return sn_sw_fail(s, i, "a send without its end");
  sn_instr bare = *i;
  bare.n_frontend = 0;
  sn_mlir_op *op = token != NULL ? spread(s, row->name, &bare, sn_instr_operand(i, 1), 1, &token) : NULL;
  if (op == NULL) return sn_sw_memory(s);
  SN_TRY(channel(s, i, op, host ? 2 : 1));
  sn_sw_attr(op, "is_host_transfer", truth(s, host));
  sn_sw_attr(op, "source_target_pairs", pairs(s, i));
  s->nodes[done->id] = (sn_sw_node){.whole = op->results};
  return SN_OK;
}

/* (data, token): the data's values, then the token. */
static sn_status received(sn_sw *s, const sn_instr *i, const sn_shape *pair, const char *name, const sn_instr *token, sn_mlir_op **out) {
  const sn_shape *data = pair->elements[0];
  uint32_t n = sn_sw_count(data);
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  sn_mlir_value *in = sn_sw_value(s, token), **parts = SN_NEW_N(s->out->arena, sn_mlir_value *, 2);
  if (types == NULL || in == NULL || parts == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k <= n; k++)
    if ((types[k] = sn_sw_type(s, k == n ? pair->elements[1] : n == 1 ? data : data->elements[k])) == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_op(s, name, 1, &in, n + 1, types, 0);
  *out = op;
  if (op == NULL) return sn_sw_memory(s);
  parts[1] = &op->results[n];
  parts[0] = op->results;
  s->nodes[i->id] = (sn_sw_node){.parts = parts};
  if (n == 1) return SN_OK;
  /* Elements of the data, wherever it is taken apart. */
  SN_FOR_USES(u, i) {
    if (u->user->op != SN_OP_GET_TUPLE_ELEMENT) return sn_sw_fail(s, i, "a pair that is not taken apart");
    if (sn_instr_int(u->user, SN_ATTR_INDEX) != 0) continue;
    sn_mlir_value **all = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 1);
    if (all == NULL) return sn_sw_memory(s);
    for (uint32_t k = 0; k < n; k++) all[k] = &op->results[k];
    s->nodes[u->user->id] = (sn_sw_node){.parts = all};
  }
  return SN_OK;
}

sn_status sn_sw_recv(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *done = partner(i, SN_OP_RECV_DONE);
  bool host = sn_instr_bool(i, SN_ATTR_IS_HOST_TRANSFER);
  sn_mlir_op *op = NULL;
  if (done == NULL) return sn_sw_fail(s, i, "a receive without its end");
  SN_TRY(received(s, done, done->shape, row->name, sn_instr_operand(i, 0), &op));
  SN_TRY(channel(s, i, op, host ? 3 : 1));
  sn_sw_attr(op, "is_host_transfer", truth(s, host));
  sn_sw_attr(op, "source_target_pairs", pairs(s, i));
  return SN_OK;
}

sn_status sn_sw_infeed(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_mlir_op *op = NULL;
  SN_TRY(received(s, i, i->shape, row->name, sn_instr_operand(i, 0), &op));
  sn_sw_attr(op, "infeed_config", text(s, sn_instr_str(i, SN_ATTR_INFEED_CONFIG)));
  sn_sw_attr(op, "layout", items(s, 0, NULL));
  return SN_OK;
}

sn_status sn_sw_outfeed(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_mlir_type *token = sn_mlir_type_of(s->out, SN_MT_TOKEN);
  sn_mlir_op *op = token != NULL ? spread(s, row->name, i, sn_instr_operand(i, 1), 1, &token) : NULL;
  if (op == NULL) return sn_sw_memory(s);
  sn_sw_attr(op, "outfeed_config", text(s, sn_instr_str(i, SN_ATTR_OUTFEED_CONFIG)));
  return sn_sw_bind(s, i, op);
}

/* ---- collectives ---- */

static sn_status groups(sn_sw *s, const sn_instr *i, sn_mlir_op *op, int64_t *size) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_REPLICA_GROUPS);
  const sn_groups *g = a != NULL ? a->u.groups : NULL;
  int64_t n = g != NULL ? g->n_groups : 0, most = 0;
  for (int64_t k = 0; k < n; k++)
    if (g->groups[k].n > most) most = g->groups[k].n;
  int64_t *v = SN_NEW_N(s->scratch, int64_t, n * most + 1);
  if (v == NULL) return sn_sw_memory(s);
  for (int64_t k = 0; k < n; k++)
    for (int64_t e = 0; e < most; e++) v[k * most + e] = e < g->groups[k].n ? g->groups[k].v[e] : -1;
  sn_sw_attr(op, "replica_groups", table(s, n, most, v, SN_TYPE_S64, false));
  *size = most;
  return channel(s, i, op, 0); /* the type says nothing of collectives */
}

static sn_status global(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  if (sn_instr_bool(i, SN_ATTR_USE_GLOBAL_DEVICE_IDS)) sn_sw_attr(op, "use_global_device_ids", unit(s));
  return SN_OK;
}

sn_status sn_sw_all_gather(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0;
  ONLY(SN_ATTR_CHANNEL_ID, SN_ATTR_REPLICA_GROUPS, SN_ATTR_DIMENSIONS, SN_ATTR_USE_GLOBAL_DEVICE_IDS);
  OP(row->name, 0);
  SN_TRY(groups(s, i, op, &size));
  sn_sw_attr(op, "all_gather_dim", number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  return global(s, i, op);
}

sn_status sn_sw_all_reduce(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0;
  ONLY(SN_ATTR_CHANNEL_ID, SN_ATTR_REPLICA_GROUPS, SN_ATTR_DIMENSIONS, SN_ATTR_USE_GLOBAL_DEVICE_IDS);
  OP(row->name, 1);
  SN_TRY(groups(s, i, op, &size));
  if (i->op == SN_OP_REDUCE_SCATTER) sn_sw_attr(op, "scatter_dimension", number(s, sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]));
  SN_TRY(global(s, i, op));
  return sn_sw_region(s, i, op, 0, i->called[0]);
}

sn_status sn_sw_all_to_all(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0, dim = sn_instr_ints(i, SN_ATTR_DIMENSIONS).n == 1 ? sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0] : -1;
  if (dim < 0) return sn_sw_fail(s, i, "an exchange of whole arrays");
  OP(row->name, 0);
  SN_TRY(groups(s, i, op, &size));
  if (size == 0) size = sn_instr_int(i, SN_ATTR_CHANNEL_ID) > 0 ? s->m->num_partitions : s->m->replica_count;
  sn_sw_attr(op, "split_dimension", number(s, dim));
  sn_sw_attr(op, "concat_dimension", number(s, dim));
  sn_sw_attr(op, "split_count", number(s, size));
  return SN_OK;
}

sn_status sn_sw_collective_broadcast(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t size = 0;
  OP(row->name, 0);
  return groups(s, i, op, &size);
}

sn_status sn_sw_collective_permute(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_ints v = sn_instr_ints(i, SN_ATTR_SOURCE_TARGET_PAIRS);
  ONLY(SN_ATTR_CHANNEL_ID, SN_ATTR_SOURCE_TARGET_PAIRS);
  OP(row->name, 0);
  sn_sw_attr(op, "source_target_pairs", table(s, v.n / 2, 2, v.v, SN_TYPE_S64, false));
  return channel(s, i, op, 0); /* the type says nothing of collectives */
}

/* ---- custom calls ---- */

/* Orders of dimensions, one an array. */
static const sn_mlir_attr *layout_list(sn_sw *s, int64_t n, const sn_shape *const *shapes) {
  const sn_mlir_attr **v = SN_NEW_N(s->scratch, const sn_mlir_attr *, n + 1);
  for (int64_t k = 0; v != NULL && k < n; k++) {
    int64_t order[SN_MAX_RANK];
    for (int d = 0; d < shapes[k]->rank; d++) order[d] = shapes[k]->layout != NULL ? shapes[k]->layout->minor_to_major[d] : shapes[k]->rank - 1 - d;
    if ((v[k] = table(s, shapes[k]->rank, -1, order, SN_TYPE_S64, true)) == NULL) return NULL;
  }
  return v != NULL ? items(s, n, v) : NULL;
}

static sn_status layouts(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  bool tuple = sn_shape_is_tuple(i->shape) && i->shape->n_elements != 1;
  if (a == NULL) {
    sn_sw_attr(op, "operand_layouts", items(s, 0, NULL));
    sn_sw_attr(op, "result_layouts", items(s, 0, NULL));
    return SN_OK;
  }
  for (int64_t k = 0; k < a->u.shapes.n; k++)
    if (!sn_shape_is_array(a->u.shapes.v[k])) return sn_sw_fail(s, i, "a layout of a tuple");
  sn_sw_attr(op, "operand_layouts", layout_list(s, a->u.shapes.n, a->u.shapes.v));
  sn_sw_attr(op, "result_layouts", layout_list(s, tuple ? i->shape->n_elements : 1, tuple ? i->shape->elements : &i->shape));
  return SN_OK;
}

static sn_status call_aliases(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  int64_t n = a != NULL ? a->u.aliases.n : 0;
  const sn_mlir_attr **v = SN_NEW_N(s->scratch, const sn_mlir_attr *, n + 1);
  if (v == NULL) return sn_sw_memory(s);
  for (int64_t k = 0; k < n; k++) {
    const sn_alias *e = &a->u.aliases.v[k];
    sn_mlir_named m[] = {{"output_tuple_indices", ints(s, e->output_index.n, e->output_index.v)}, {"operand_index", number(s, e->operand)},
                         {"operand_tuple_indices", ints(s, e->operand_index.n, e->operand_index.v)}};
    if ((v[k] = members(s, "stablehlo.output_operand_alias", 3, m)) == NULL) return sn_sw_memory(s);
  }
  sn_sw_attr(op, "output_operand_aliases", items(s, n, v));
  return SN_OK;
}

static sn_status call_config(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_mlir_attr *a = NULL;
  const char *config = i->backend_config;
  if (config != NULL && !i->backend_config_quoted && config[0] == '{' && sn_mlir_read_attr_text(s->out, config, strlen(config), 32, &a) == SN_OK && a->kind == SN_MA_DICT) {
    bool typed = sn_instr_int(i, SN_ATTR_API_VERSION) == SN_API_VERSION_TYPED_FFI; /* others take strings alone */
    sn_sw_attr(op, typed ? "backend_config" : "mhlo.backend_config", a);
    if (!typed) sn_sw_attr(op, "backend_config", text(s, ""));
    return SN_OK;
  }
  sn_sw_attr(op, "backend_config", text(s, config));
  return SN_OK;
}

static sn_status call_functions(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_mlir_attr **v = SN_NEW_N(s->scratch, const sn_mlir_attr *, i->n_called + 1);
  if (v == NULL) return sn_sw_memory(s);
  for (uint16_t k = 0; k < i->n_called; k++) {
    const char *name = sn_sw_function(s, i->called[k]);
    if (name == NULL || (v[k] = sn_mlir_attr_string(s->out, SN_MA_SYMBOL, name, strlen(name))) == NULL) return sn_sw_memory(s);
  }
  sn_sw_attr(op, "called_computations", items(s, i->n_called, v));
  return SN_OK;
}

sn_status sn_sw_custom_call(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  ONLY(SN_ATTR_CUSTOM_CALL_TARGET, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING, SN_ATTR_API_VERSION,
       SN_ATTR_CALLED_COMPUTATIONS);
  OP(row->name, 0);
  sn_sw_attr(op, "call_target_name", text(s, sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET)));
  sn_sw_attr(op, "has_side_effect", truth(s, sn_instr_bool(i, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT)));
  SN_TRY(call_config(s, i, op));
  sn_sw_attr(op, "api_version", number32(s, sn_instr_int(i, SN_ATTR_API_VERSION)));
  SN_TRY(call_functions(s, i, op));
  SN_TRY(layouts(s, i, op));
  return call_aliases(s, i, op);
}

/* `stablehlo.custom_call @mhlo.erf`: how programs carry what HLO has and StableHLO has not; the attributes are in a dictionary. */
sn_status sn_sw_mhlo(sn_sw *s, const sn_instr *i) {
  sn_mlir_named v[2];
  int64_t n = 0;
  if (!sn_sm_is_mhlo(i->op) || sn_instr_str(i, SN_ATTR_RESULT_ACCURACY) != NULL) return sn_sw_fail(s, i, "%s", sn_opcode_text(i->op));
  OP("stablehlo.custom_call", 0);
  if (i->op == SN_OP_TOPK) {
    v[n++] = (sn_mlir_named){"k", number(s, sn_instr_int(i, SN_ATTR_K))};
    v[n++] = (sn_mlir_named){"largest", truth(s, sn_instr_bool(i, SN_ATTR_LARGEST))};
  }
  const char *name = sn_arena_printf(s->out->arena, "mhlo.%s", sn_opcode_text(i->op));
  if (name == NULL) return sn_sw_memory(s);
  sn_sw_attr(op, "call_target_name", text(s, name));
  sn_sw_attr(op, "has_side_effect", truth(s, false));
  sn_sw_attr(op, "backend_config", text(s, ""));
  sn_sw_attr(op, "api_version", number32(s, 1));
  sn_sw_attr(op, "called_computations", items(s, 0, NULL));
  sn_sw_attr(op, "operand_layouts", items(s, 0, NULL));
  sn_sw_attr(op, "result_layouts", items(s, 0, NULL));
  sn_sw_attr(op, "output_operand_aliases", items(s, 0, NULL));
  sn_sw_attr(op, "mhlo.attributes", members(s, NULL, n, v));
  sn_sw_attr(op, "mhlo.version", number(s, 1));
  return SN_OK;
}
