/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* custom_call, composite, sharding; the check dialect and interpreter.run_parallel as custom calls (check.c implements them). */
#include <inttypes.h>
#include <string.h>

#include "map.h"
#include "sinter/text.h"

/* ---- attributes as text ---- */

static void string_text(sn_str *to, const char *s, int64_t n) {
  sn_str_char(to, '"');
  for (int64_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '"' || c == '\\') sn_str_printf(to, "\\%c", c);
    else if (c < 32 || c >= 127) sn_str_printf(to, "\\%02X", c);
    else sn_str_char(to, (char)c);
  }
  sn_str_char(to, '"');
}

static void typed_text(sn_str *to, const sn_mlir_attr *a) {
  if (a->type == NULL) return;
  sn_str_add(to, " : ");
  sn_mlir_type_print(to, a->type);
}

static void members_text(sn_str *to, const sn_mlir_attr *a) {
  sn_str_char(to, '{');
  for (int64_t i = 0; i < a->n; i++) {
    if (i != 0) sn_str_add(to, ", ");
    sn_str_add(to, a->members[i].name);
    if (a->members[i].attr->kind == SN_MA_UNIT) continue;
    sn_str_add(to, " = ");
    sn_sm_attr_text(to, a->members[i].attr);
  }
  sn_str_char(to, '}');
}

void sn_sm_attr_text(sn_str *to, const sn_mlir_attr *a) {
  switch (a->kind) {
    case SN_MA_UNIT: sn_str_add(to, "unit"); break;
    case SN_MA_BOOL: sn_str_add(to, a->i ? "true" : "false"); break;
    case SN_MA_INT:
      sn_str_i64(to, a->i);
      typed_text(to, a);
      break;
    case SN_MA_FLOAT:
      sn_str_printf(to, "%.17g", a->f);
      typed_text(to, a);
      break;
    case SN_MA_STRING: string_text(to, a->s, a->n); break;
    case SN_MA_SYMBOL: sn_str_printf(to, "@%s", a->s); break;
    case SN_MA_TYPE: sn_mlir_type_print(to, a->type); break;
    case SN_MA_DICT:
    case SN_MA_STRUCT: members_text(to, a); break;
    case SN_MA_ARRAY:
      sn_str_char(to, '[');
      for (int64_t i = 0; i < a->n; i++) {
        if (i != 0) sn_str_add(to, ", ");
        sn_sm_attr_text(to, a->items[i]);
      }
      sn_str_char(to, ']');
      break;
    case SN_MA_INTS:
      sn_str_add(to, "array<i64");
      for (int64_t i = 0; i < a->n; i++) sn_str_printf(to, "%s%" PRId64, i == 0 ? ": " : ", ", a->ints[i]);
      sn_str_char(to, '>');
      break;
    case SN_MA_DENSE:
      sn_str_add(to, "dense<");
      sn_hlo_print_literal(to, a->dense);
      sn_str_char(to, '>');
      typed_text(to, a);
      break;
    case SN_MA_ENUM:
    case SN_MA_OPAQUE: sn_str_add(to, a->s != NULL ? a->s : ""); break;
  }
}

/* ---- sharding ---- */

static sn_status sharding_text(sn_sm *s, const char *text, sn_instr *i) {
  const sn_sharding *sharding = NULL;
  if (text[0] == '\0' || sn_hlo_parse_sharding(NULL, s->scratch, text, &sharding) != SN_OK) return SN_OK;
  sn_instr_set_sharding(i, sharding);
  return SN_OK;
}

static sn_status frontend_dict(sn_sm *s, const sn_mlir_attr *dict, sn_instr *i) {
  for (int64_t k = 0; dict->kind == SN_MA_DICT && k < dict->n; k++)
    if (dict->members[k].attr->s != NULL && sn_instr_set_frontend(i, dict->members[k].name, dict->members[k].attr->s) != SN_OK) return sn_sm_memory(s);
  return SN_OK;
}

/* mhlo.sharding, sdy.sharding and mhlo.frontend_attributes of an op, argument or result. */
sn_status sn_sm_sharding_notes(sn_sm *s, const sn_mlir_named *attrs, uint32_t n, sn_instr *i) {
  if (i == NULL) return SN_OK;
  for (uint32_t k = 0; k < n; k++) {
    const sn_mlir_attr *a = attrs[k].attr;
    if (strcmp(attrs[k].name, "mhlo.sharding") == 0 && a->kind == SN_MA_STRING) {
      SN_TRY(sharding_text(s, a->s, i));
    } else if (strcmp(attrs[k].name, "sdy.sharding") == 0 && a->s != NULL) {
      if (sn_instr_set_frontend(i, "xla.sdy.sharding", a->s) != SN_OK) return sn_sm_memory(s);
    } else if (strcmp(attrs[k].name, "mhlo.frontend_attributes") == 0) {
      SN_TRY(frontend_dict(s, a, i));
    }
  }
  return SN_OK;
}

sn_status sn_sm_sharding_constraint(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_attr *sharding = sn_mlir_find(op, "sharding");
  (void)row;
  sn_attr a = sn_attr_string(SN_ATTR_CUSTOM_CALL_TARGET, "Sharding");
  out[0] = sn_build(&s->b, SN_OP_CUSTOM_CALL, in[0]->shape, 1, in, 1, &a, 0, NULL);
  SN_TRY(sn_sm_built(s));
  if (sharding == NULL || sharding->s == NULL) return SN_OK;
  const char *text = sharding->s[0] == '#' ? sharding->s : sn_arena_printf(s->scratch, "#sdy.sharding<%s>", sharding->s);
  if (text == NULL || sn_instr_set_frontend(out[0], "xla.sdy.sharding", text) != SN_OK) return sn_sm_memory(s);
  return SN_OK;
}

/* ---- sdy.manual_computation: to the shard's shapes, a call, and back ---- */

static sn_status shape_change(sn_sm *s, const char *target, uint32_t n, sn_instr **in, const sn_shape *const *to, sn_instr **out) {
  sn_attr a = sn_attr_string(SN_ATTR_CUSTOM_CALL_TARGET, target);
  const sn_shape *shape = n == 1 ? to[0] : sn_shape_tuple(sn_sm_arena(s), (int)n, to);
  if (shape == NULL) return sn_sm_memory(s);
  sn_instr *i = sn_build(&s->b, SN_OP_CUSTOM_CALL, shape, n, in, 1, &a, 0, NULL);
  for (uint32_t k = 0; k < n; k++) out[k] = n == 1 ? i : sn_build_get(&s->b, i, k);
  return sn_sm_built(s);
}

static sn_status note_text(sn_sm *s, const sn_mlir_op *op, const char *name, const char *key, const char *open, const char *close, sn_instr *i) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  if (a == NULL || a->s == NULL) return SN_OK;
  const char *text = a->s[0] == '#' ? a->s : sn_arena_printf(s->scratch, "%s%s%s", open, a->s, close);
  return text != NULL && sn_instr_set_frontend(i, key, text) == SN_OK ? SN_OK : sn_sm_memory(s);
}

sn_status sn_sm_manual_computation(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  uint32_t n = op->n_operands;
  const sn_mlir_block *b = op->regions[0].first;
  sn_computation *body = NULL;
  (void)row;
  if (b == NULL || b->n_args != n) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a region with %" PRIu32 " arguments", n);
  const sn_shape **local = SN_NEW_N(s->scratch, const sn_shape *, n + 1), **whole = SN_NEW_N(s->scratch, const sn_shape *, op->n_results + 1);
  sn_instr **args = SN_NEW_N(s->scratch, sn_instr *, n + 1), **parts = SN_NEW_N(s->scratch, sn_instr *, op->n_results + 1);
  if (local == NULL || whole == NULL || args == NULL || parts == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < n; i++) SN_TRY(sn_sm_shape(s, op, b->args[i].type, &local[i]));
  for (uint32_t i = 0; i < op->n_results; i++) SN_TRY(sn_sm_shape(s, op, op->results[i].type, &whole[i]));
  sn_sm_region_spec spec = {.region = &op->regions[0], .name = "xla.sdy.manual_computation_body", .n_args = n, .args = local, .tuple = op->n_results != 1};
  SN_TRY(sn_sm_region(s, op, &spec, &body));
  if (n != 0) SN_TRY(shape_change(s, "xla.sdy.GlobalToLocalShape", n, in, local, args));
  sn_instr *call = sn_build_call(&s->b, body, n, args);
  SN_TRY(sn_sm_built(s));
  SN_TRY(note_text(s, op, "in_shardings", "xla.sdy.in_shardings", "#sdy.sharding_per_value<[", "]>", call));
  SN_TRY(note_text(s, op, "out_shardings", "xla.sdy.out_shardings", "#sdy.sharding_per_value<[", "]>", call));
  SN_TRY(note_text(s, op, "manual_axes", "xla.sdy.manual_axes", "#sdy<manual_axes{", "}>", call));
  SN_TRY(sn_sm_unpack(s, op, call, parts));
  return op->n_results != 0 ? shape_change(s, "xla.sdy.LocalToGlobalShape", op->n_results, parts, whole, out) : SN_OK;
}

/* ---- custom_call ---- */

static sn_status result_shape(sn_sm *s, const sn_mlir_op *op, const sn_shape **out) {
  const sn_shape **v = SN_NEW_N(s->scratch, const sn_shape *, op->n_results + 1);
  const sn_mlir_attr *layouts = sn_mlir_find(op, "result_layouts");
  if (v == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < op->n_results; i++) {
    int64_t n = 0;
    const int64_t *order = NULL;
    SN_TRY(sn_sm_shape(s, op, op->results[i].type, &v[i]));
    if (layouts == NULL || layouts->kind != SN_MA_ARRAY || i >= layouts->n || !sn_mlir_ints(s->scratch, layouts->items[i], &n, &order) || n != v[i]->rank) continue;
    const sn_layout *l = sn_layout_make(sn_sm_arena(s), v[i]->rank, order);
    if (l == NULL || (v[i] = sn_shape_with_layout(sn_sm_arena(s), v[i], l)) == NULL) return sn_sm_memory(s);
  }
  *out = op->n_results == 1 ? v[0] : sn_shape_tuple(sn_sm_arena(s), (int)op->n_results, v);
  return *out != NULL ? SN_OK : sn_sm_memory(s);
}

static sn_status operand_layouts(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_attr *a, uint32_t *n_attrs) {
  const sn_mlir_attr *layouts = sn_mlir_find(op, "operand_layouts");
  if (layouts == NULL || layouts->kind != SN_MA_ARRAY || layouts->n != op->n_operands) return SN_OK;
  const sn_shape **v = SN_NEW_N(s->scratch, const sn_shape *, op->n_operands + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < op->n_operands; i++) {
    int64_t n = 0;
    const int64_t *order = NULL;
    v[i] = in[i]->shape;
    if (!sn_mlir_ints(s->scratch, layouts->items[i], &n, &order) || n != v[i]->rank) continue;
    const sn_layout *l = sn_layout_make(sn_sm_arena(s), v[i]->rank, order);
    if (l == NULL || (v[i] = sn_shape_with_layout(sn_sm_arena(s), v[i], l)) == NULL) return sn_sm_memory(s);
  }
  a[*n_attrs].id = SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS;
  a[*n_attrs].u.shapes.n = op->n_operands;
  a[(*n_attrs)++].u.shapes.v = v;
  return SN_OK;
}

static sn_status aliases(sn_sm *s, const sn_mlir_op *op, sn_attr *a, uint32_t *n_attrs) {
  const sn_mlir_attr *list = sn_mlir_find(op, "output_operand_aliases");
  if (list == NULL || list->kind != SN_MA_ARRAY || list->n == 0) return SN_OK;
  sn_alias *v = SN_NEW_N(s->scratch, sn_alias, list->n);
  if (v == NULL) return sn_sm_memory(s);
  for (int64_t i = 0; i < list->n; i++) {
    const sn_mlir_attr *e = list->items[i], *operand = sn_mlir_member(e, "operand_index"), *out = sn_mlir_member(e, "output_tuple_indices"), *in = sn_mlir_member(e, "operand_tuple_indices");
    if (operand == NULL || operand->kind != SN_MA_INT) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected operand_index in an alias");
    v[i].operand = operand->i;
    if ((out != NULL && !sn_mlir_ints(s->scratch, out, &v[i].output_index.n, &v[i].output_index.v)) ||
        (in != NULL && !sn_mlir_ints(s->scratch, in, &v[i].operand_index.n, &v[i].operand_index.v)))
      return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected integers as indices of an alias");
  }
  a[*n_attrs].id = SN_ATTR_OUTPUT_TO_OPERAND_ALIASING;
  a[*n_attrs].u.aliases.n = list->n;
  a[(*n_attrs)++].u.aliases.v = v;
  return SN_OK;
}

/* A dictionary is written as MLIR writes it, a string as it is. */
static sn_status backend_config(sn_sm *s, const sn_mlir_op *op, sn_instr *i) {
  const sn_mlir_attr *a = sn_mlir_find(op, "mhlo.backend_config");
  if (a == NULL || a->kind != SN_MA_DICT) a = sn_mlir_find(op, "backend_config");
  if (a == NULL || (a->kind == SN_MA_STRING && a->n == 0)) return SN_OK;
  sn_str text = {0};
  if (a->kind == SN_MA_STRING) sn_str_add_n(&text, a->s, strlen(a->s));
  else sn_sm_attr_text(&text, a);
  sn_status st = text.failed || text.data == NULL ? SN_OK : sn_instr_set_backend_config(i, text.data, a->kind == SN_MA_STRING);
  if (text.failed) st = sn_sm_memory(s);
  sn_str_finish(&text);
  return st;
}

static sn_status called(sn_sm *s, const sn_mlir_op *op, uint32_t *n, sn_computation ***out);
static const char *const api_versions[] = {"API_VERSION_UNSPECIFIED", "API_VERSION_ORIGINAL", "API_VERSION_STATUS_RETURNING", "API_VERSION_STATUS_RETURNING_UNIFIED", "API_VERSION_TYPED_FFI"};

/* Written as a number (i32) or a word. */
static int64_t api_version(const sn_mlir_op *op) {
  const sn_mlir_attr *a = sn_mlir_find(op, "api_version");
  for (int64_t i = 0; a != NULL && a->kind == SN_MA_ENUM && i < 5; i++)
    if (strcmp(a->s, api_versions[i]) == 0) return i;
  return a != NULL && a->kind == SN_MA_INT && a->i >= 0 && a->i < 5 ? a->i : SN_API_VERSION_ORIGINAL;
}

/* shape_assertion(condition, values…): holds already when the shapes are known. */
static sn_status shape_assertion(sn_sm *s, const sn_mlir_op *op, sn_instr **in) {
  if (op->n_operands < 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a condition, found no operand");
  const sn_array *a = sn_sm_fold(s, in[0]);
  if (a == NULL) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "expected a condition that can be computed before the program runs");
  if (sn_shape_elements(sn_array_shape(a)) == 1 && sn_load_i64(sn_array_shape(a)->type, sn_array_data(a)) != 0) return SN_OK;
  const sn_mlir_attr *message = sn_mlir_find(op, "error_message");
  return sn_sm_fail(s, op, SN_ERR_SHAPE, "the shapes of the arguments do not meet the program's condition: %s", message != NULL && message->s != NULL ? message->s : "no message");
}

/* ---- ops of StableHLO that travel as custom calls, their attributes as extra operands ---- */

/* stablehlo.dynamic_reduce_window(inputs…, start values…, window sizes, strides, base dilations, window dilations, padding) */
static sn_status dynamic_reduce_window(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  static const char *const names[5] = {"window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"};
  const sn_mlir_attr *callees = sn_mlir_find(op, "called_computations");
  if (op->n_operands < 7 || (op->n_operands - 5) % 2 != 0 || callees == NULL || callees->kind != SN_MA_ARRAY || callees->n != 1)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected inputs, start values and five lists of the window");
  uint32_t n = op->n_operands - 5, n_called = 0;
  int rank = in[0]->shape->rank;
  sn_window_dim dims[SN_MAX_RANK];
  const int64_t *v[5];
  sn_computation **body = NULL;
  for (int k = 0; k < 5; k++) {
    int64_t count = 0, want = k == 4 ? 2 * rank : rank;
    SN_TRY(sn_sm_fold_ints(s, op, in[n + (uint32_t)k], names[k], &count, &v[k]));
    if (count != want) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRId64 " numbers for %s, found %" PRId64, want, names[k], count);
  }
  for (int i = 0; i < rank; i++) dims[i] = (sn_window_dim){v[0][i], v[1][i], v[4][2 * i], v[4][2 * i + 1], v[2][i], v[3][i], false};
  SN_TRY(called(s, op, &n_called, &body));
  sn_window w = {rank, dims};
  sn_attr a = sn_attr_window(&w);
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_REDUCE_WINDOW, NULL, n, in, 1, &a, 1, body), out);
}

/* stablehlo.dynamic_rng_bit_generator(state, shape) */
static const char *const rng_algorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
static sn_status dynamic_rng(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t algorithm = 0, n = 0;
  const int64_t *dims = NULL;
  const sn_shape *v[2] = {NULL, NULL};
  if (op->n_operands != 2 || op->n_results != 2) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a state and a shape");
  SN_TRY(sn_sm_enum(s, op, "rng_algorithm", rng_algorithms, 3, -1, &algorithm));
  SN_TRY(sn_sm_fold_ints(s, op, in[1], "a shape", &n, &dims));
  v[0] = in[0]->shape;
  SN_TRY(sn_sm_shape_of_dims(s, op, sn_mlir_storage(op->results[1].type), n, dims, &v[1]));
  const sn_shape *shape = sn_shape_tuple(sn_sm_arena(s), 2, v);
  if (shape == NULL) return sn_sm_memory(s);
  sn_attr a = sn_attr_int(SN_ATTR_RNG_ALGORITHM, algorithm);
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_RNG_BIT_GENERATOR, shape, 1, in, 1, &a, 0, NULL), out);
}

/* stablehlo.dynamic_top_k(values, k) */
static sn_status dynamic_top_k(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *k = NULL;
  if (op->n_operands != 2) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected values and k");
  SN_TRY(sn_sm_fold_ints(s, op, in[1], "k", &n, &k));
  if (n != 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected one k, found %" PRId64, n);
  sn_attr a[2] = {sn_attr_int(SN_ATTR_K, k[0]), sn_attr_int(SN_ATTR_LARGEST, 1)};
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_TOPK, NULL, 1, in, 2, a, 0, NULL), out);
}

/* stablehlo.dynamic_approx_top_k(values, indices, start value, start index, k): exact is approximate enough. */
static sn_status dynamic_approx_top_k(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *k = NULL;
  if (op->n_operands < 3 || op->n_results != 2) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected values, indices, start values and k");
  SN_TRY(sn_sm_fold_ints(s, op, in[op->n_operands - 1], "k", &n, &k));
  if (n != 1 || in[0]->shape->rank == 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected one k, found %" PRId64, n);
  sn_attr a[2] = {sn_attr_int(SN_ATTR_K, k[0]), sn_attr_int(SN_ATTR_LARGEST, 1)};
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_TOPK, NULL, 1, in, 2, a, 0, NULL), out);
}

typedef struct lowered { const char *target; sn_status (*fn)(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_instr **out); } lowered;
static const lowered lowerings[] = {{"stablehlo.dynamic_reduce_window", dynamic_reduce_window}, {"stablehlo.dynamic_rng_bit_generator", dynamic_rng},
                                    {"stablehlo.dynamic_top_k", dynamic_top_k}, {"stablehlo.dynamic_approx_top_k", dynamic_approx_top_k}};

/* Functions named as symbols. */
static sn_status called(sn_sm *s, const sn_mlir_op *op, uint32_t *n, sn_computation ***out) {
  const sn_mlir_attr *list = sn_mlir_find(op, "called_computations");
  *n = 0;
  if (list == NULL || list->kind != SN_MA_ARRAY || list->n == 0) return SN_OK;
  sn_computation **v = SN_NEW_N(s->scratch, sn_computation *, list->n);
  if (v == NULL) return sn_sm_memory(s);
  for (int64_t i = 0; i < list->n; i++) {
    const sn_mlir_op *f = list->items[i]->kind == SN_MA_SYMBOL ? sn_map_get_str(s->functions, list->items[i]->s) : NULL;
    if (f == NULL || f->n_regions != 1 || f->regions[0].n_blocks != 1) return sn_sm_fail(s, op, SN_ERR_NAME, "a called computation is no function of the module");
    sn_mlir_op fake = *f;
    SN_TRY(sn_sm_scalar_region(s, &fake, 0, list->items[i]->s, &v[i]));
  }
  *n = (uint32_t)list->n;
  *out = v;
  return SN_OK;
}

/* mhlo.erf, mhlo.topk, …: the HLO op of that name, its attributes in a dictionary. */
bool sn_sm_is_mhlo(sn_opcode op) {
  static const sn_opcode ops[] = {SN_OP_ACOS, SN_OP_ACOSH, SN_OP_ASIN, SN_OP_ASINH, SN_OP_ATAN, SN_OP_ATANH, SN_OP_COSH, SN_OP_SINH, SN_OP_ERF, SN_OP_MULHI, SN_OP_TOPK};
  for (size_t k = 0; k < sizeof ops / sizeof ops[0]; k++)
    if (ops[k] == op) return true;
  return false;
}

static sn_opcode mhlo_op(const char *target) {
  sn_opcode op = SN_OP_COUNT;
  if (strncmp(target, "mhlo.", 5) != 0 || !sn_opcode_from_text(target + 5, strlen(target + 5), &op) || !sn_sm_is_mhlo(op)) return SN_OP_COUNT;
  return op;
}

static sn_status mhlo_call(sn_sm *s, const sn_mlir_op *op, sn_opcode to, sn_instr **in, sn_instr **out) {
  const sn_mlir_attr *dict = sn_mlir_find(op, "mhlo.attributes"), *k = sn_mlir_member(dict, "k"), *largest = sn_mlir_member(dict, "largest");
  sn_attr a[2];
  uint32_t n = 0, arity = to == SN_OP_MULHI ? 2 : 1;
  if (op->n_operands != arity) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRIu32 " operands of mhlo.%s, found %" PRIu32, arity, sn_opcode_text(to), op->n_operands);
  if (to == SN_OP_TOPK) {
    if (k == NULL || k->kind != SN_MA_INT) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected k in mhlo.attributes of mhlo.topk, found none");
    a[n++] = sn_attr_int(SN_ATTR_K, k->i);
    a[n++] = sn_attr_int(SN_ATTR_LARGEST, largest == NULL || largest->i != 0);
  }
  return sn_sm_unpack(s, op, sn_build(&s->b, to, NULL, op->n_operands, in, n, a, 0, NULL), out);
}

static bool is_check(const char *target) { return strncmp(target, "check.", 6) == 0; }

sn_status sn_sm_custom_call(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const char *target = sn_mlir_string(op, "call_target_name");
  sn_attr a[8];
  uint32_t n = 0, n_called = 0;
  sn_computation **computations = NULL;
  const sn_shape *shape = NULL;
  (void)row;
  if (target == NULL) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected the attribute call_target_name, found none");
  if (strcmp(target, "shape_assertion") == 0) return shape_assertion(s, op, in);
  for (size_t i = 0; i < sizeof lowerings / sizeof lowerings[0]; i++)
    if (strcmp(lowerings[i].target, target) == 0) return lowerings[i].fn(s, op, in, out);
  if (mhlo_op(target) != SN_OP_COUNT) return mhlo_call(s, op, mhlo_op(target), in, out);
  if (op->n_results == 1 && op->n_operands >= 1 && !sn_sm_is_static(op->results[0].type)) shape = in[0]->shape;
  else SN_TRY(result_shape(s, op, &shape));
  SN_TRY(called(s, op, &n_called, &computations));
  a[n++] = sn_attr_string(SN_ATTR_CUSTOM_CALL_TARGET, target);
  SN_TRY(operand_layouts(s, op, in, a, &n));
  a[n++] = sn_attr_int(SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, sn_sm_bool(op, "has_side_effect") || is_check(target));
  SN_TRY(aliases(s, op, a, &n));
  a[n++] = sn_attr_int(SN_ATTR_API_VERSION, api_version(op));
  sn_instr *i = sn_build(&s->b, SN_OP_CUSTOM_CALL, shape, op->n_operands, in, n, a, n_called, computations);
  SN_TRY(sn_sm_built(s));
  SN_TRY(backend_config(s, op, i));
  SN_TRY(sn_sm_sharding_notes(s, op->attrs, op->n_attrs, i));
  if (op->n_results == 1) {
    out[0] = i;
    return SN_OK;
  }
  return sn_sm_unpack(s, op, i, out);
}

/* ---- composite ---- */

/* Known by name: one op of HLO. Else a call of the decomposition, marked so that the name is not lost. */
sn_status sn_sm_composite(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const char *name = sn_mlir_string(op, "name"), *decomposition = sn_mlir_string(op, "decomposition");
  const sn_mlir_attr *attributes = sn_mlir_find(op, "composite_attributes");
  (void)row;
  if (name == NULL || decomposition == NULL) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected the attributes name and decomposition");
  sn_opcode known = sn_sm_named_op(name);
  if (known != SN_OP_COUNT && op->n_operands == 1 && op->n_results == 1) {
    out[0] = sn_build_unary(&s->b, known, in[0]);
    return sn_sm_built(s);
  }
  const sn_mlir_attr *k = sn_mlir_member(attributes, "k");
  if (strcmp(name, "chlo.top_k") == 0 && op->n_operands == 1 && op->n_results == 2 && k != NULL && k->kind == SN_MA_INT) {
    sn_attr a[2] = {sn_attr_int(SN_ATTR_K, k->i), sn_attr_int(SN_ATTR_LARGEST, 1)};
    return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_TOPK, NULL, 1, in, 2, a, 0, NULL), out);
  }
  SN_TRY(sn_sm_call(s, op, decomposition, op->n_operands, in, out));
  sn_instr *call = op->n_results == 0 ? NULL : out[0]->op == SN_OP_GET_TUPLE_ELEMENT ? sn_instr_operand(out[0], 0) : out[0];
  if (call == NULL || call->op != SN_OP_CALL) return SN_OK;
  sn_str text = {0};
  sn_str_add(&text, "");
  if (attributes != NULL) sn_sm_attr_text(&text, attributes);
  else sn_str_add(&text, "{}");
  char version[24];
  snprintf(version, sizeof version, "%" PRId64, sn_sm_int_or(op, "version", 0));
  sn_status st = text.failed ? SN_ERR_MEMORY : sn_instr_set_attr(call, sn_attr_int(SN_ATTR_IS_COMPOSITE, 1));
  if (st == SN_OK) st = sn_instr_set_frontend(call, "composite.attributes", text.data);
  if (st == SN_OK) st = sn_instr_set_frontend(call, "composite.name", name);
  if (st == SN_OK) st = sn_instr_set_frontend(call, "composite.version", version);
  sn_str_finish(&text);
  return st == SN_OK ? SN_OK : sn_sm_memory(s);
}

/* ---- check ---- */

static void option_int(sn_str *to, const sn_mlir_op *op, const char *name) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  if (a != NULL && a->kind == SN_MA_INT) sn_str_printf(to, "%s%s=%" PRId64, to->n != 0 ? "," : "", name, a->i);
}

static sn_status check_call(sn_sm *s, const sn_mlir_op *op, const char *target, sn_instr **v) {
  sn_attr a[3] = {sn_attr_string(SN_ATTR_CUSTOM_CALL_TARGET, target), sn_attr_int(SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 1)};
  const sn_shape *none = sn_shape_tuple(sn_sm_arena(s), 0, NULL);
  if (none == NULL) return sn_sm_memory(s);
  sn_instr *i = sn_build(&s->b, SN_OP_CUSTOM_CALL, none, 2, v, 2, a, 0, NULL);
  SN_TRY(sn_sm_built(s));
  sn_str text = {0};
  const sn_mlir_attr *tolerance = sn_mlir_find(op, "tolerance");
  sn_str_add(&text, "op");
  if (tolerance != NULL && tolerance->kind == SN_MA_FLOAT) sn_str_printf(&text, ",tolerance=%.17g", tolerance->f);
  option_int(&text, op, "max_ulp_difference");
  option_int(&text, op, "min_ulp_difference");
  sn_status st = text.failed ? sn_sm_memory(s) : sn_instr_set_backend_config(i, text.data, true);
  sn_str_finish(&text);
  return st;
}

sn_status sn_sm_check(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)out;
  return check_call(s, op, row->name, in);
}

sn_status sn_sm_check_const(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_attr *value = sn_mlir_find(op, "value");
  (void)out;
  if (value == NULL || value->kind != SN_MA_DENSE) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected dense<…> values to compare with");
  sn_instr *v[2] = {in[0], sn_sm_literal(s, value)};
  SN_TRY(sn_sm_built(s));
  return check_call(s, op, strcmp(row->name, "check.expect_eq_const") == 0 ? "check.expect_eq" : "check.expect_almost_eq", v);
}

sn_status sn_sm_check_nothing(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)s;
  (void)row;
  (void)op;
  (void)in;
  (void)out;
  return SN_OK;
}

/* ---- interpreter.run_parallel: a custom call of all programs, with its grid as configuration ---- */

static sn_status program_of(sn_sm *s, const sn_mlir_op *op, const sn_mlir_attr *name, sn_computation **out) {
  const sn_mlir_op *f = name->kind == SN_MA_SYMBOL || name->kind == SN_MA_STRING ? sn_map_get_str(s->functions, name->s) : NULL;
  if (f == NULL || f->n_regions != 1 || f->regions[0].n_blocks != 1) return sn_sm_fail(s, op, SN_ERR_NAME, "a program is no function of the module");
  *out = sn_map_get_u64(s->computations, (uint64_t)(uintptr_t)f);
  if (*out != NULL) return SN_OK;
  SN_TRY(sn_sm_scalar_region(s, f, 0, name->s, out));
  return sn_map_set_u64(s->computations, (uint64_t)(uintptr_t)f, *out) == SN_OK ? SN_OK : sn_sm_memory(s);
}

enum { MAX_PROCESSES = 256 };

static sn_status add_programs(sn_sm *s, const sn_mlir_op *op, const sn_mlir_attr *list, sn_computation **v, uint32_t *n) {
  for (int64_t i = 0; i < list->n; i++) {
    if (*n == MAX_PROCESSES) return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "more than %d programs", (int)MAX_PROCESSES);
    SN_TRY(program_of(s, op, list->items[i], &v[(*n)++]));
  }
  return SN_OK;
}

sn_status sn_sm_run_parallel(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_attr *programs = sn_mlir_find(op, "programs"), *infeed = sn_mlir_find(op, "infeed");
  sn_computation *v[MAX_PROCESSES];
  uint32_t n = 0, n_programs = 0;
  int64_t partitions = 0, replicas = s->m->replica_count, before = s->m->num_partitions;
  const sn_shape *shape = NULL;
  (void)row;
  if (programs == NULL || programs->kind != SN_MA_ARRAY || programs->n == 0) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected lists of functions as programs");
  for (int64_t r = 0; r < programs->n; r++) {
    if (programs->items[r]->kind != SN_MA_ARRAY || (r != 0 && programs->items[r]->n != partitions)) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected lists of equal length as programs");
    partitions = programs->items[r]->n;
  }
  s->m->replica_count = programs->n;
  s->m->num_partitions = partitions;
  for (int64_t r = 0; r < programs->n; r++) SN_TRY(add_programs(s, op, programs->items[r], v, &n));
  n_programs = n;
  if (infeed != NULL && infeed->kind == SN_MA_ARRAY) SN_TRY(add_programs(s, op, infeed, v, &n));
  /* The programs are verified against the largest grid of the module. */
  if (s->m->replica_count < replicas) s->m->replica_count = replicas;
  if (s->m->num_partitions < before) s->m->num_partitions = before;
  SN_TRY(result_shape(s, op, &shape));
  sn_attr a[2] = {sn_attr_string(SN_ATTR_CUSTOM_CALL_TARGET, row->name), sn_attr_int(SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, 1)};
  sn_instr *i = sn_build(&s->b, SN_OP_CUSTOM_CALL, shape, op->n_operands, in, 2, a, n, v);
  SN_TRY(sn_sm_built(s));
  char grid[96];
  snprintf(grid, sizeof grid, "replicas=%" PRId64 ",partitions=%" PRId64 ",infeed=%" PRIu32, programs->n, partitions, n - n_programs);
  SN_TRY(sn_instr_set_backend_config(i, grid, true));
  if (op->n_results == 1) {
    out[0] = i;
    return SN_OK;
  }
  return sn_sm_unpack(s, op, i, out);
}
