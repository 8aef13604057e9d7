/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes and types of VHLO, by the codes of StableHLO's VhloBytecode.cpp, in StableHLO's terms. */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

static sn_status done(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  return a != NULL ? SN_OK : sn_bc_memory(b);
}

/* ---- words ---- */

/* Numbers are StableHLO's own; NULL: none has this one. An api version stays a number, as StableHLO writes it. */
typedef struct domain {
  const char *name;
  uint64_t n;
  const char *const *words;
} domain;

static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
static const char *const compare_types[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};
static const char *const fft_types[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
static const char *const precisions[] = {"DEFAULT", "HIGH", "HIGHEST"};
static const char *const rng_algorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
static const char *const rng_distributions[] = {NULL, "UNIFORM", "NORMAL"};
static const char *const transposes[] = {"TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};
static const char *const accuracy_modes[] = {"DEFAULT", "HIGHEST", "TOLERANCE"};
enum { API_VERSIONS = 5 };

static sn_status word(sn_bc *b, sn_bc_cursor *c, const domain *d, const sn_mlir_attr **out) {
  uint64_t v = 0;
  SN_TRY(sn_bc_uint(b, c, "an enumerated value", &v));
  if (v >= d->n || d->words[v] == NULL) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected a value of %s below %" PRIu64 ", found %" PRIu64 ", written by %s", d->name, d->n, v, b->producer);
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_ENUM);
  if (a == NULL) return sn_bc_memory(b);
  a->s = d->words[v];
  a->n = (int64_t)strlen(a->s);
  a->name = d->name;
  return done(b, a, out);
}

static sn_status api_version(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  uint64_t v = 0;
  SN_TRY(sn_bc_uint(b, c, "an API version", &v));
  if (v >= API_VERSIONS) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected an API version below %d, found %" PRIu64, API_VERSIONS, v);
  return done(b, sn_mlir_attr_int(b->m, (int64_t)v), out);
}

/* ---- plain values ---- */

static sn_status boolean(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  uint64_t v = 0;
  SN_TRY(sn_bc_uint(b, c, "a truth value", &v));
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_BOOL);
  if (a != NULL) a->i = v != 0;
  return done(b, a, out);
}

static sn_status string(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  sn_bc_string s;
  SN_TRY(sn_bc_string_ref(b, c, "a string", &s));
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_STRING);
  if (a == NULL) return sn_bc_memory(b);
  a->s = s.s;
  a->n = (int64_t)s.n;
  return done(b, a, out);
}

static sn_status string_of(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_attr **out) {
  SN_TRY(sn_bc_attr(b, c, what, out));
  if ((*out)->kind != SN_MA_STRING) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string as %s, found another attribute", what);
  return SN_OK;
}

static sn_status number(sn_bc *b, sn_bc_cursor *c, sn_mlir_attr_kind kind, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "a number's type", &t));
  return sn_bc_number(b, c, t, kind, out);
}

static sn_status tensor(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "the type of values", &t));
  return sn_bc_dense(b, c, t, out);
}

static sn_status type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "a type", &t));
  return done(b, sn_mlir_attr_type(b->m, t), out);
}

/* ---- groups of members ---- */

static sn_mlir_attr *ints_of(sn_bc *b, int64_t n, const int64_t *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_INTS);
  if (a == NULL) return NULL;
  a->ints = v;
  a->n = n;
  return a;
}

static sn_status ints(sn_bc *b, sn_bc_cursor *c, const char *what, sn_mlir_attr **out) {
  uint64_t n = 0;
  SN_TRY(sn_bc_count(b, c, what, &n));
  int64_t *v = SN_NEW_N(b->m->arena, int64_t, n + 1);
  if (v == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < n; i++) SN_TRY(sn_bc_int(b, c, what, &v[i]));
  *out = ints_of(b, (int64_t)n, v);
  return *out != NULL ? SN_OK : sn_bc_memory(b);
}

/* Members without a value are left out. */
static sn_status structure(sn_bc *b, const char *name, int n, const sn_mlir_named *members, const sn_mlir_attr **out) {
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_STRUCT);
  sn_mlir_named *v = SN_NEW_N(b->m->arena, sn_mlir_named, n);
  if (a == NULL || v == NULL) return sn_bc_memory(b);
  for (int i = 0; i < n; i++)
    if (members[i].attr != NULL) v[a->n++] = members[i];
  a->name = name;
  a->members = v;
  return done(b, a, out);
}

static sn_status output_operand_alias(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  sn_mlir_attr *output = NULL, *operand = NULL;
  int64_t k = 0;
  SN_TRY(ints(b, c, "an index of an output", &output));
  SN_TRY(sn_bc_int(b, c, "an operand's number", &k));
  SN_TRY(ints(b, c, "an index of an operand", &operand));
  sn_mlir_named members[] = {{"output_tuple_indices", output}, {"operand_index", sn_mlir_attr_int(b->m, k)}, {"operand_tuple_indices", operand}};
  if (members[1].attr == NULL) return sn_bc_memory(b);
  return structure(b, "stablehlo.output_operand_alias", 3, members, out);
}

static sn_status type_extensions(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  sn_mlir_attr *a = NULL;
  SN_TRY(ints(b, c, "a bound", &a));
  a->name = "stablehlo.type_extensions";
  return done(b, a, out);
}

static sn_status double_of(sn_bc *b, sn_bc_cursor *c, double *out) {
  uint64_t bits = 0;
  SN_TRY(sn_bc_apint(b, c, 64, &bits));
  memcpy(out, &bits, sizeof *out);
  return SN_OK;
}

static sn_status result_accuracy(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  sn_mlir_attr *atol = sn_mlir_attr_new(b->m, SN_MA_FLOAT), *rtol = sn_mlir_attr_new(b->m, SN_MA_FLOAT), *ulps = sn_mlir_attr_int(b->m, 0);
  const sn_mlir_attr *mode = NULL;
  if (atol == NULL || rtol == NULL || ulps == NULL) return sn_bc_memory(b);
  SN_TRY(double_of(b, c, &atol->f));
  SN_TRY(double_of(b, c, &rtol->f));
  SN_TRY(sn_bc_int(b, c, "ulps", &ulps->i));
  SN_TRY(sn_bc_attr(b, c, "a mode", &mode));
  sn_mlir_named members[] = {{"atol", atol}, {"rtol", rtol}, {"ulps", ulps}, {"mode", mode}};
  return structure(b, "stablehlo.result_accuracy", 4, members, out);
}

/* `(1)2`: size before, size */
static sn_status sub_axis_info(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  int64_t v[2] = {0, 0};
  SN_TRY(sn_bc_int(b, c, "a size", &v[0]));
  SN_TRY(sn_bc_int(b, c, "a size", &v[1]));
  const int64_t *copy = sn_arena_copy(b->m->arena, v, sizeof v);
  return copy != NULL ? done(b, ints_of(b, 2, copy), out) : sn_bc_memory(b);
}

static sn_status axis_ref(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_attr *name = NULL, *piece = NULL;
  uint64_t has = 0;
  SN_TRY(string_of(b, c, "an axis's name", &name));
  SN_TRY(sn_bc_uint(b, c, "whether it is a piece of an axis", &has));
  if (has != 0) SN_TRY(sn_bc_attr(b, c, "a piece of an axis", &piece));
  sn_mlir_named members[] = {{"name", name}, {"sub_axis_info", piece}};
  return structure(b, "stablehlo.axis_ref", 2, members, out);
}

/* The mesh is a symbol, written as a string, or stands in place. */
static sn_status replica_group_mesh_axes(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_attr *mesh = NULL, *axes = NULL;
  SN_TRY(sn_bc_attr(b, c, "a mesh", &mesh));
  SN_TRY(sn_bc_attr(b, c, "axes", &axes));
  if (mesh->kind == SN_MA_STRING && (mesh = sn_mlir_attr_string(b->m, SN_MA_SYMBOL, mesh->s, (size_t)mesh->n)) == NULL) return sn_bc_memory(b);
  sn_mlir_named members[] = {{"mesh", mesh}, {"axes", axes}};
  return structure(b, "stablehlo.replica_group_mesh_axes", 2, members, out);
}

static sn_status mesh_axis(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_attr *name = NULL;
  int64_t size = 0;
  SN_TRY(string_of(b, c, "an axis's name", &name));
  SN_TRY(sn_bc_int(b, c, "an axis's size", &size));
  sn_mlir_named members[] = {{"name", name}, {"size", sn_mlir_attr_int(b->m, size)}};
  if (members[1].attr == NULL) return sn_bc_memory(b);
  return structure(b, "stablehlo.mesh_axis", 2, members, out);
}

static sn_status mesh(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_attr *axes = NULL, *devices = NULL;
  SN_TRY(sn_bc_attr(b, c, "axes", &axes));
  SN_TRY(sn_bc_attr_optional(b, c, "device ids", &devices));
  sn_mlir_named members[] = {{"axes", axes}, {"device_ids", devices}};
  return structure(b, "stablehlo.mesh", 2, members, out);
}

/* ---- attributes: by code ---- */

typedef sn_status (*attr_reader)(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);
typedef struct attr_row {
  attr_reader read; /* NULL: an enumeration */
  domain words;
} attr_row;

#define WORDS(name, v) {NULL, {"stablehlo." name, sizeof v / sizeof v[0], v}}
#define READ(fn) {fn, {NULL, 0, NULL}}

static sn_status integer(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) { return number(b, c, SN_MA_INT, out); }
static sn_status real(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) { return number(b, c, SN_MA_FLOAT, out); }

static const attr_row attr_rows[] = {
    READ(NULL),
    READ(sn_bc_array),
    READ(boolean),
    WORDS("comparison_direction", directions),
    WORDS("comparison_type", compare_types),
    READ(api_version),
    READ(sn_bc_dictionary),
    WORDS("fft_type", fft_types),
    READ(real),
    READ(integer),
    READ(output_operand_alias),
    WORDS("precision", precisions),
    WORDS("rng_algorithm", rng_algorithms),
    WORDS("rng_distribution", rng_distributions),
    READ(string),
    READ(tensor),
    WORDS("transpose", transposes),
    READ(type),
    READ(type_extensions),
    WORDS("result_accuracy_mode", accuracy_modes),
    READ(result_accuracy),
    READ(sub_axis_info),
    READ(axis_ref),
    READ(replica_group_mesh_axes),
    READ(mesh_axis),
    READ(mesh),
};

sn_status sn_bc_vhlo_attr(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  uint64_t code = 0;
  SN_TRY(sn_bc_uint(b, c, "an attribute's code", &code));
  if (code == 0 || code >= sizeof attr_rows / sizeof attr_rows[0])
    return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected an attribute of VHLO 0.9 to 1.20, found code %" PRIu64 ", written by %s", code, b->producer);
  const attr_row *r = &attr_rows[code];
  return r->read != NULL ? r->read(b, c, out) : word(b, c, &r->words, out);
}

bool sn_bc_vhlo_word(const char *domain_name, const char *text, uint64_t *code, uint64_t *value) {
  for (uint64_t c = 0; c < sizeof attr_rows / sizeof attr_rows[0]; c++) {
    const domain *d = &attr_rows[c].words;
    if (attr_rows[c].read != NULL || d->name == NULL || strcmp(d->name, domain_name) != 0) continue;
    for (uint64_t v = 0; v < d->n; v++) {
      if (d->words[v] == NULL || strcmp(d->words[v], text) != 0) continue;
      *code = c;
      *value = v;
      return true;
    }
  }
  return false;
}

/* ---- quantised types ---- */

enum { QUANT_SIGNED = 1 };

/* The storage type is written without its sign, which is a flag. */
static sn_status quant_types(sn_bc *b, sn_bc_cursor *c, sn_mlir_quant *q) {
  static const sn_type pairs[][2] = {{SN_TYPE_U2, SN_TYPE_S2}, {SN_TYPE_U4, SN_TYPE_S4}, {SN_TYPE_U8, SN_TYPE_S8}, {SN_TYPE_U16, SN_TYPE_S16}, {SN_TYPE_U32, SN_TYPE_S32}};
  uint64_t flags = 0;
  const sn_mlir_type *storage = NULL, *expressed = NULL;
  SN_TRY(sn_bc_uint(b, c, "flags", &flags));
  SN_TRY(sn_bc_type(b, c, "a storage type", &storage));
  SN_TRY(sn_bc_type(b, c, "an expressed type", &expressed));
  q->storage = SN_TYPE_INVALID;
  for (size_t i = 0; storage->kind == SN_MT_SCALAR && i < sizeof pairs / sizeof pairs[0]; i++)
    if (storage->scalar == pairs[i][0] || storage->scalar == pairs[i][1]) q->storage = pairs[i][(flags & QUANT_SIGNED) != 0];
  if (q->storage == SN_TYPE_INVALID) return sn_bc_fail(b, c, SN_ERR_TYPE, "expected an integer of 2 to 32 bits as storage type, found %s", sn_mlir_type_text(b->m->arena, storage));
  if (expressed->kind != SN_MT_SCALAR || !sn_type_is_float(expressed->scalar))
    return sn_bc_fail(b, c, SN_ERR_TYPE, "expected a float as expressed type, found %s", sn_mlir_type_text(b->m->arena, expressed));
  q->expressed = expressed->scalar;
  return SN_OK;
}

static sn_status quant_range(sn_bc *b, sn_bc_cursor *c, sn_mlir_quant *q) {
  SN_TRY(sn_bc_int(b, c, "the least stored value", &q->min));
  return sn_bc_int(b, c, "the greatest stored value", &q->max);
}

static sn_status quant_lists(sn_bc *b, sn_bc_cursor *c, sn_mlir_quant *q) {
  uint64_t n = 0, n_zeros = 0;
  SN_TRY(sn_bc_count(b, c, "a number of scales", &n));
  double *scales = SN_NEW_N(b->m->arena, double, n + 1);
  int64_t *zeros = SN_NEW_N(b->m->arena, int64_t, n + 1);
  if (scales == NULL || zeros == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < n; i++) SN_TRY(double_of(b, c, &scales[i]));
  SN_TRY(sn_bc_count(b, c, "a number of zero points", &n_zeros));
  if (n == 0 || n_zeros != n) return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected a zero point for each scale, found %" PRIu64 " and %" PRIu64, n_zeros, n);
  for (uint64_t i = 0; i < n; i++) SN_TRY(sn_bc_int(b, c, "a zero point", &zeros[i]));
  q->n = (int64_t)n;
  q->scales = scales;
  q->zero_points = zeros;
  return SN_OK;
}

static sn_status quant_one(sn_bc *b, sn_bc_cursor *c, sn_mlir_quant *q) {
  double *scale = SN_NEW_N(b->m->arena, double, 1);
  int64_t *zero = SN_NEW_N(b->m->arena, int64_t, 1);
  if (scale == NULL || zero == NULL) return sn_bc_memory(b);
  SN_TRY(double_of(b, c, scale));
  SN_TRY(sn_bc_int(b, c, "a zero point", zero));
  q->n = 1;
  q->axis = -1;
  q->scales = scale;
  q->zero_points = zero;
  return quant_range(b, c, q);
}

static sn_status quant_per_axis(sn_bc *b, sn_bc_cursor *c, sn_mlir_quant *q) {
  uint64_t axis = 0;
  SN_TRY(sn_bc_index(b, c, "an axis", SN_MAX_RANK, &axis));
  q->axis = (int32_t)axis;
  SN_TRY(quant_range(b, c, q));
  return quant_lists(b, c, q);
}

static sn_status quant(sn_bc *b, sn_bc_cursor *c, bool per_axis, const sn_mlir_type **out) {
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  sn_mlir_quant *q = SN_NEW(b->m->arena, sn_mlir_quant);
  if (t == NULL || q == NULL) return sn_bc_memory(b);
  SN_TRY(quant_types(b, c, q));
  SN_TRY(per_axis ? quant_per_axis(b, c, q) : quant_one(b, c, q));
  *t = (sn_mlir_type){.kind = SN_MT_QUANT, .scalar = SN_TYPE_INVALID, .quant = q};
  *out = t;
  return SN_OK;
}

/* ---- types: by code ---- */

static sn_status made(sn_bc *b, const sn_mlir_type *t, const sn_mlir_type **out) {
  *out = t;
  return t != NULL ? SN_OK : sn_bc_memory(b);
}

static sn_status special(sn_bc *b, sn_mlir_type_kind kind, bool is_index, const char *text, const sn_mlir_type **out) {
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  if (t == NULL) return sn_bc_memory(b);
  t->kind = kind;
  t->scalar = is_index ? SN_TYPE_S64 : SN_TYPE_INVALID;
  t->is_index = is_index;
  t->text = text;
  return made(b, t, out);
}

/* Element types; INVALID: another kind of type. Integers with a sign are what StableHLO writes without one. */
static const sn_type scalars[] = {
    SN_TYPE_PRED,    SN_TYPE_INVALID, SN_TYPE_BF16,       SN_TYPE_F16,        SN_TYPE_F32,           SN_TYPE_F64,      SN_TYPE_F8E4M3FN, SN_TYPE_F8E5M2,
    SN_TYPE_INVALID, SN_TYPE_INVALID, SN_TYPE_S4,         SN_TYPE_S8,         SN_TYPE_S16,           SN_TYPE_S32,      SN_TYPE_S64,      SN_TYPE_U4,
    SN_TYPE_U8,      SN_TYPE_U16,     SN_TYPE_U32,        SN_TYPE_U64,        SN_TYPE_INVALID,       SN_TYPE_INVALID,  SN_TYPE_INVALID,  SN_TYPE_INVALID,
    SN_TYPE_INVALID, SN_TYPE_INVALID, SN_TYPE_INVALID,    SN_TYPE_F8E4M3FNUZ, SN_TYPE_F8E5M2FNUZ,    SN_TYPE_F8E4M3B11FNUZ, SN_TYPE_INVALID, SN_TYPE_S2,
    SN_TYPE_U2,      SN_TYPE_INVALID, SN_TYPE_INVALID,    SN_TYPE_F8E4M3,     SN_TYPE_F8E3M4,        SN_TYPE_F4E2M1FN, SN_TYPE_F6E2M3FN, SN_TYPE_F6E3M2FN,
    SN_TYPE_F8E8M0FNU,
};

uint64_t sn_bc_vhlo_scalar_code(sn_type t) {
  for (uint64_t c = 0; c < sizeof scalars / sizeof scalars[0]; c++)
    if (scalars[c] == t && t != SN_TYPE_INVALID) return c;
  return UINT64_MAX;
}

sn_status sn_bc_vhlo_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out) {
  uint64_t code = 0;
  SN_TRY(sn_bc_uint(b, c, "a type's code", &code));
  if (code < sizeof scalars / sizeof scalars[0] && scalars[code] != SN_TYPE_INVALID) return made(b, sn_mlir_type_scalar(b->m, scalars[code]), out);
  switch (code) {
    case 1: return sn_bc_complex_type(b, c, out);
    case 8: return sn_bc_function_type(b, c, out);
    case 9: return special(b, SN_MT_SCALAR, true, NULL, out);
    case 20: return sn_bc_tensor_type(b, c, SN_MT_TENSOR, false, out);
    case 21: return sn_bc_tensor_type(b, c, SN_MT_TENSOR, true, out);
    case 22: return special(b, SN_MT_TOKEN, false, NULL, out);
    case 23: return sn_bc_list_type(b, c, SN_MT_TUPLE, out);
    case 24: return quant(b, c, false, out);
    case 25: return sn_bc_tensor_type(b, c, SN_MT_UNRANKED, false, out);
    case 26: return special(b, SN_MT_OTHER, false, "!shape.witness", out);
    case 30: return quant(b, c, true, out);
    case 33: return special(b, SN_MT_NONE, false, NULL, out);
    case 34: return special(b, SN_MT_OTHER, false, "tf32", out);
    case 41: return sn_bc_tensor_type(b, c, SN_MT_BUFFER, false, out);
    case 42: return sn_bc_list_type(b, c, SN_MT_FUTURE, out);
    default: return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected a type of VHLO 0.9 to 1.20, found code %" PRIu64 ", written by %s", code, b->producer);
  }
}
