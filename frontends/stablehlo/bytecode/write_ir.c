/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ops, their properties by vhlo.def, blocks and regions. Values are numbered as the reader numbers them: a region's stand on top of those around it; module and
 * functions, which see nothing around them, begin anew in sections of their own. */
#include "write.h"

#include <inttypes.h>
#include <string.h>

enum { HAS_ATTRS = 1, HAS_RESULTS = 2, HAS_OPERANDS = 4, HAS_REGIONS = 16, HAS_PROPERTIES = 64 };

/* ---- properties ---- */

/* What is written where the tree says nothing. */
typedef enum filler { FALSE, EMPTY, NONE, NO_TEXT, ZERO, NO_INTS, ONES, TRUTHS, PADS, DEFAULTS, NOTYPE, ACCURACY, ORIGINAL } filler;
static const struct { const char *name; filler with; } fillers[] = {
    {"use_global_device_ids", FALSE}, {"has_dynamic_root", FALSE}, {"indices_are_sorted", FALSE}, {"unique_indices", FALSE}, {"has_side_effect", FALSE}, {"is_stable", FALSE},
    {"lower", FALSE}, {"is_host_transfer", FALSE}, {"result_tilings", EMPTY}, {"arg_attrs", EMPTY}, {"res_attrs", EMPTY}, {"operand_layouts", EMPTY}, {"result_layouts", EMPTY},
    {"called_computations", EMPTY}, {"output_operand_aliases", EMPTY}, {"layout", EMPTY}, {"lhs_precision_type", NONE}, {"rhs_precision_type", NONE}, {"accumulation_type", NONE},
    {"lhs_component_count", NONE}, {"rhs_component_count", NONE}, {"num_primitive_operations", NONE}, {"allow_imprecise_accumulation", NONE}, {"backend_config", NO_TEXT},
    {"sym_visibility", NO_TEXT}, {"infeed_config", NO_TEXT}, {"outfeed_config", NO_TEXT}, {"channel_id", ZERO}, {"index_vector_dim", ZERO}, {"known_expanding_dimensions", NO_INTS},
    {"known_nonexpanding_dimensions", NO_INTS}, {"source_target_pairs", NO_INTS}, {"replica_groups", NO_INTS}, {"window_strides", ONES}, {"base_dilations", ONES}, {"window_dilations", ONES},
    {"lhs_dilation", ONES}, {"rhs_dilation", ONES}, {"window_reversal", TRUTHS}, {"padding", PADS}, {"precision_config", DEFAULTS}, {"compare_type", NOTYPE},
    {"result_accuracy", ACCURACY}, {"api_version", ORIGINAL}};

/* Dimensions of the op's window: spatial ones of a convolution, else the operand's. */
static int window_rank(const sn_mlir_op *op) {
  const sn_mlir_attr *spatial = sn_mlir_find(op, "input_spatial_dimensions");
  if (spatial != NULL && spatial->kind == SN_MA_INTS && spatial->n <= SN_MAX_RANK) return (int)spatial->n;
  const sn_mlir_attr *sizes = sn_mlir_find(op, "window_dimensions");
  return sizes != NULL && sizes->kind == SN_MA_INTS && sizes->n <= SN_MAX_RANK ? (int)sizes->n : op->n_operands != 0 ? op->operands[0]->type->rank : 0;
}

/* rank x 2 zeros. */
static uint64_t no_padding(sn_bw *w, int rank) {
  int64_t dims[2] = {rank, 2}, zero = 0;
  sn_array *a = NULL;
  const sn_shape *shape = sn_shape_array(w->arena, SN_TYPE_S64, 0, dims);
  if (shape == NULL || sn_array_create_from(shape, &zero, &a) != SN_OK) return 0;
  const sn_mlir_type s64 = {.kind = SN_MT_SCALAR, .scalar = SN_TYPE_S64}, t = {.kind = SN_MT_TENSOR, .scalar = SN_TYPE_INVALID, .rank = 2, .dims = dims, .element = &s64};
  const sn_mlir_attr zeros = {.kind = SN_MA_DENSE, .type = &t, .dense = a, .splat = rank != 0};
  uint64_t k = rank != 0 ? sn_bw_attr(w, "padding", &zeros) : 0;
  sn_array_release(a);
  return k;
}

static uint64_t fill(sn_bw *w, const sn_mlir_op *op, const char *name, filler with) {
  static const sn_mlir_type truth = {.kind = SN_MT_SCALAR, .scalar = SN_TYPE_PRED};
  int64_t v[SN_MAX_RANK];
  const sn_mlir_attr mode = {.kind = SN_MA_ENUM, .name = "stablehlo.result_accuracy_mode", .s = "DEFAULT"}, precision = {.kind = SN_MA_ENUM, .name = "stablehlo.precision", .s = "DEFAULT"};
  const sn_mlir_named accuracy = {"mode", &mode};
  const sn_mlir_attr *const both[2] = {&precision, &precision};
  for (int k = 0; k < SN_MAX_RANK; k++) v[k] = with == ONES;
  sn_mlir_attr a = {.kind = SN_MA_BOOL};
  switch (with) {
    case FALSE: break;
    case EMPTY: a.kind = SN_MA_ARRAY; break;
    case NONE: return sn_bw_none(w);
    case NO_TEXT: a = (sn_mlir_attr){.kind = SN_MA_STRING, .s = ""}; break;
    case ZERO: a.kind = SN_MA_INT; break;
    case NO_INTS: a = (sn_mlir_attr){.kind = SN_MA_INTS, .ints = v}; break;
    case ONES: a = (sn_mlir_attr){.kind = SN_MA_INTS, .ints = v, .n = window_rank(op)}; break;
    case TRUTHS: a = (sn_mlir_attr){.kind = SN_MA_INTS, .ints = v, .n = window_rank(op), .type = &truth}; break;
    case PADS: return no_padding(w, window_rank(op));
    case DEFAULTS: a = (sn_mlir_attr){.kind = SN_MA_ARRAY, .items = both, .n = 2}; break;
    case NOTYPE: a = (sn_mlir_attr){.kind = SN_MA_ENUM, .name = "stablehlo.comparison_type", .s = "NOTYPE"}; break;
    case ACCURACY: a = (sn_mlir_attr){.kind = SN_MA_STRUCT, .name = "stablehlo.result_accuracy", .members = &accuracy, .n = 1}; break;
    case ORIGINAL: a = (sn_mlir_attr){.kind = SN_MA_INT, .i = 1}; break;
  }
  return sn_bw_attr(w, name, &a);
}

static uint64_t default_of(sn_bw *w, const sn_mlir_op *op, const char *name) {
  /* A gather's or scatter's lists, whichever are empty. */
  bool lists = strstr(op->name, "gather") != NULL || strstr(op->name, "scatter") != NULL || strstr(op->name, "dot_general") != NULL || strstr(op->name, "convolution") != NULL;
  for (size_t k = 0; k < sizeof fillers / sizeof fillers[0]; k++)
    if (strcmp(name, fillers[k].name) == 0) return fill(w, op, name, fillers[k].with);
  size_t n = strlen(name);
  if (lists && n > 5 && (strstr(name, "dims") != NULL || strstr(name, "dimensions") != NULL || strcmp(name, "start_index_map") == 0)) return fill(w, op, name, NO_INTS);
  if (strcmp(name, "feature_group_count") == 0 || strcmp(name, "batch_group_count") == 0) return fill(w, op, "api", ORIGINAL);
  sn_bw_fail(w, op->loc, "%s: the attribute %s is missing", op->name, name);
  return 0;
}

static bool in_row(const sn_bc_row *row, const char *name) {
  size_t n = strlen(name);
  for (const char *at = row->attrs; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
    size_t len = strcspn(at, " ?@");
    if (len == n && strncmp(at, name, n) == 0) return true;
  }
  return false;
}

/* Says nothing that an older version could lose. */
static bool is_empty(const sn_mlir_attr *a) {
  if (a->kind == SN_MA_INTS || a->kind == SN_MA_ARRAY) return a->n == 0;
  if (a->kind != SN_MA_DENSE) return false;
  for (int k = 0; k < a->type->rank; k++)
    if (a->type->dims[k] == 0) return true;
  return false;
}

static void check_known(sn_bw *w, const sn_mlir_op *op, const sn_bc_row *row, const char *name, const sn_mlir_attr *a) {
  if (in_row(row, name) || is_empty(a)) return;
  if (a->kind == SN_MA_STRUCT && strcmp(name, "result_accuracy") != 0) { /* flat here */
    for (int64_t k = 0; k < a->n; k++)
      if (strcmp(a->members[k].name, "channel_type") != 0) check_known(w, op, row, a->members[k].name, a->members[k].attr);
    return;
  }
  sn_bw_fail(w, op->loc, "%s: StableHLO 1.%d has not the attribute %s", op->name, w->version - 1000, name);
}

static uint64_t properties(sn_bw *w, const sn_mlir_op *op, const sn_bc_row *row) {
  sn_str b = {0};
  char name[64];
  for (const char *at = row->attrs; *at != '\0'; at += strcspn(at, " "), at += *at == ' ') {
    size_t n = strcspn(at, " ?@");
    if (n >= sizeof name) continue;
    memcpy(name, at, n);
    name[n] = '\0';
    const sn_mlir_attr *a = sn_mlir_find(op, name);
    sn_bw_uint(&b, a != NULL ? sn_bw_attr(w, name, a) : default_of(w, op, name));
  }
  return sn_bw_entry(w, &w->props, 0, &b);
}

/* Discardable ones: in a dictionary of builtin. */
static bool dictionary(sn_bw *w, const sn_mlir_op *op, uint64_t *out) {
  sn_str b = {0};
  uint64_t n = 0;
  for (uint32_t k = 0; k < op->n_attrs; k++) n += strchr(op->attrs[k].name, '.') != NULL;
  if (n == 0) return false;
  sn_bw_uint(&b, 1);
  sn_bw_uint(&b, n);
  for (uint32_t k = 0; k < op->n_attrs; k++) {
    if (strchr(op->attrs[k].name, '.') == NULL) continue;
    sn_bw_uint(&b, sn_bw_builtin_string(w, op->attrs[k].name));
    sn_bw_uint(&b, sn_bw_attr(w, op->attrs[k].name, op->attrs[k].attr));
  }
  *out = sn_bw_entry(w, &w->attrs, SN_BW_BUILTIN, &b);
  return true;
}

/* ---- ops ---- */

static uint64_t op_number(sn_bw *w, const char *full, int dialect) {
  sn_str b = {0};
  sn_str_add(&b, full);
  return sn_bw_entry(w, &w->ops, dialect, &b);
}

static void region(sn_bw *w, sn_str *to, const sn_mlir_region *r, uint64_t first);

static void one(sn_bw *w, sn_str *to, const sn_mlir_op *op, uint64_t top) {
  const sn_bc_row *row = sn_bc_row_for(op->name, w->version);
  bool function = strcmp(op->name, "func.func") == 0;
  if (row == NULL) {
    sn_bw_fail(w, op->loc, "%s has no form in StableHLO 1.%d", op->name, w->version - 1000);
    return;
  }
  for (uint32_t k = 0; k < op->n_attrs; k++)
    if (strchr(op->attrs[k].name, '.') == NULL) check_known(w, op, row, op->attrs[k].name, op->attrs[k].attr);
  uint64_t dict = 0;
  bool has_dict = dictionary(w, op, &dict), has_props = row->attrs[0] != '\0';
  sn_bw_uint(to, op_number(w, row->name, SN_BW_VHLO));
  sn_str_char(to, (char)((has_dict ? HAS_ATTRS : 0) | (has_props ? HAS_PROPERTIES : 0) | (op->n_results != 0 ? HAS_RESULTS : 0) | (op->n_operands != 0 ? HAS_OPERANDS : 0) |
                         (op->n_regions != 0 ? HAS_REGIONS : 0)));
  sn_bw_uint(to, sn_bw_unknown_loc(w));
  if (has_dict) sn_bw_uint(to, dict);
  if (has_props) sn_bw_uint(to, properties(w, op, row));
  if (op->n_results != 0) sn_bw_uint(to, op->n_results);
  for (uint32_t k = 0; k < op->n_results; k++) sn_bw_uint(to, sn_bw_type(w, op->results[k].type));
  if (op->n_operands != 0) sn_bw_uint(to, op->n_operands);
  for (uint32_t k = 0; k < op->n_operands; k++) sn_bw_uint(to, w->ids[op->operands[k]->id]);
  if (op->n_regions == 0) return;
  sn_bw_uint(to, (uint64_t)op->n_regions << 1 | function);
  if (function) {
    sn_str inner = {0};
    for (uint32_t k = 0; k < op->n_regions; k++) region(w, &inner, &op->regions[k], 0);
    sn_bw_section(to, 4, &inner);
    sn_str_finish(&inner);
  } else {
    for (uint32_t k = 0; k < op->n_regions; k++) region(w, to, &op->regions[k], top);
  }
}

/* ---- blocks and regions ---- */

static void block(sn_bw *w, sn_str *to, const sn_mlir_block *b, uint64_t top) {
  uint64_t n = 0;
  for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) n++;
  sn_bw_uint(to, n << 1 | (b->n_args != 0));
  if (b->n_args != 0) {
    sn_bw_uint(to, b->n_args);
    for (uint32_t k = 0; k < b->n_args; k++) {
      sn_bw_uint(to, sn_bw_type(w, b->args[k].type) << 1 | 1);
      sn_bw_uint(to, sn_bw_unknown_loc(w));
    }
    sn_str_char(to, 0); /* no orders of uses */
  }
  for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) one(w, to, op, top);
}

/* Of all blocks: arguments, then results in order. */
static uint64_t number_values(sn_bw *w, const sn_mlir_region *r, uint64_t next) {
  for (const sn_mlir_block *b = r->first; b != NULL; b = b->next) {
    for (uint32_t k = 0; k < b->n_args; k++) w->ids[b->args[k].id] = next++;
    for (const sn_mlir_op *op = b->first; op != NULL; op = op->next)
      for (uint32_t k = 0; k < op->n_results; k++) w->ids[op->results[k].id] = next++;
  }
  return next;
}

static void region(sn_bw *w, sn_str *to, const sn_mlir_region *r, uint64_t first) {
  uint64_t top = number_values(w, r, first);
  sn_bw_uint(to, r->n_blocks);
  if (r->n_blocks == 0) return;
  sn_bw_uint(to, top - first);
  for (const sn_mlir_block *b = r->first; b != NULL; b = b->next) block(w, to, b, top);
}

/* builtin.module: its name among the properties, its attributes in the dictionary. */
void sn_bw_ir(sn_bw *w, sn_str *to) {
  const sn_mlir_attr dict = {.kind = SN_MA_DICT, .members = w->m->attrs, .n = w->m->n_attrs};
  sn_mlir_region body = {.n_blocks = 1, .first = (sn_mlir_block *)(uintptr_t)&w->m->top};
  sn_str props = {0}, inner = {0};
  sn_bw_uint(&props, w->m->name != NULL ? sn_bw_builtin_string(w, w->m->name) << 1 | 1 : 0);
  sn_bw_uint(&props, 0);
  uint64_t number = op_number(w, "builtin.module", SN_BW_BUILTIN), attrs = sn_bw_builtin_attr(w, &dict), named = sn_bw_entry(w, &w->props, 0, &props);
  region(w, &inner, &body, 0);
  sn_bw_uint(to, 1 << 1);
  sn_bw_uint(to, number);
  sn_str_char(to, HAS_ATTRS | HAS_PROPERTIES | HAS_REGIONS);
  sn_bw_uint(to, sn_bw_unknown_loc(w));
  sn_bw_uint(to, attrs);
  sn_bw_uint(to, named);
  sn_bw_uint(to, 1 << 1 | 1);
  sn_bw_section(to, 4, &inner);
  sn_str_finish(&inner);
}
