/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes and types of the builtin dialect, by the codes of MLIR's BuiltinDialectBytecode.td. */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

static sn_status done(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  return a != NULL ? SN_OK : sn_bc_memory(b);
}

/* ---- attributes ---- */

sn_status sn_bc_array(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_ARRAY);
  if (a == NULL) return sn_bc_memory(b);
  SN_TRY(sn_bc_attrs(b, c, "an attribute", &a->n, &a->items));
  return done(b, a, out);
}

sn_status sn_bc_dictionary(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  uint64_t n = 0;
  SN_TRY(sn_bc_count(b, c, "a number of attributes", &n));
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_DICT);
  sn_mlir_named *v = SN_NEW_N(b->m->arena, sn_mlir_named, n + 1);
  if (a == NULL || v == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < n; i++) {
    const sn_mlir_attr *name = NULL;
    SN_TRY(sn_bc_attr(b, c, "an attribute's name", &name));
    if (name->kind != SN_MA_STRING) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string as an attribute's name, found another attribute");
    v[i].name = name->s;
    SN_TRY(sn_bc_attr(b, c, "an attribute", &v[i].attr));
    SN_TRY(sn_bc_sdy_whole(b, v[i].attr, &v[i].attr));
  }
  a->members = v;
  a->n = (int64_t)n;
  return done(b, a, out);
}

static sn_status string(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  sn_bc_string s;
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_STRING);
  if (a == NULL) return sn_bc_memory(b);
  SN_TRY(sn_bc_string_ref(b, c, "a string", &s));
  a->s = s.s;
  a->n = (int64_t)s.n;
  return done(b, a, out);
}

static sn_status string_with_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *unused = NULL;
  SN_TRY(string(b, c, out));
  return sn_bc_type(b, c, "a string's type", &unused);
}

static sn_status symbol(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_attr *s = NULL;
  SN_TRY(sn_bc_attr(b, c, "a symbol's name", &s));
  if (s->kind != SN_MA_STRING && s->kind != SN_MA_SYMBOL) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string as a symbol's name, found another attribute");
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, SN_MA_SYMBOL);
  if (a == NULL) return sn_bc_memory(b);
  a->s = s->s;
  a->n = s->n;
  return done(b, a, out);
}

/* @root::@leaf: the last counts. */
static sn_status nested_symbol(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_attr *const *v = NULL;
  int64_t n = 0;
  SN_TRY(symbol(b, c, out));
  SN_TRY(sn_bc_attrs(b, c, "a symbol", &n, &v));
  if (n == 0) return SN_OK;
  if (v[n - 1]->kind != SN_MA_SYMBOL) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a symbol, found another attribute");
  return done(b, v[n - 1], out);
}

static sn_status type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "a type", &t));
  return done(b, sn_mlir_attr_type(b->m, t), out);
}

static sn_status unit(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  (void)c;
  return done(b, sn_mlir_attr_new(b->m, SN_MA_UNIT), out);
}

static sn_status integer(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "a number's type", &t));
  return sn_bc_number(b, c, t, SN_MA_INT, out);
}

static sn_status real(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "a number's type", &t));
  return sn_bc_number(b, c, t, SN_MA_FLOAT, out);
}

static sn_status dense(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_bc_type(b, c, "the type of values", &t));
  return sn_bc_dense(b, c, t, out);
}

/* array<i64: …>: type of an element, count, raw elements; a truth value takes a byte. */
static sn_status dense_array(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  uint64_t n = 0, bytes = 0;
  const uint8_t *data = NULL;
  SN_TRY(sn_bc_type(b, c, "the type of an element", &t));
  if (t->kind != SN_MT_SCALAR) return sn_bc_fail(b, c, SN_ERR_TYPE, "expected an integer or float type, found %s", sn_mlir_type_text(b->m->arena, t));
  SN_TRY(sn_bc_uint(b, c, "a number of elements", &n));
  SN_TRY(sn_bc_uint(b, c, "the size of values", &bytes));
  SN_TRY(sn_bc_bytes(b, c, "values", bytes, &data));
  uint64_t each = sn_type_bytes(t->scalar);
  if (bytes / each != n || bytes % each != 0) return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected %" PRIu64 " elements, found %" PRIu64 " bytes", n, bytes);
  bool ints = !sn_type_is_float(t->scalar) && !sn_type_is_complex(t->scalar);
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, ints ? SN_MA_INTS : SN_MA_OPAQUE);
  int64_t *v = ints ? SN_NEW_N(b->m->arena, int64_t, n + 1) : NULL;
  if (a == NULL || (ints && v == NULL)) return sn_bc_memory(b);
  for (uint64_t i = 0; ints && i < n; i++) v[i] = sn_load_i64(t->scalar, data + i * each);
  a->ints = v;
  a->n = ints ? (int64_t)n : 0;
  return done(b, a, out);
}

/* A location where an attribute is expected: carried, not understood (sn_bc_debug reads those of ops). */
static sn_status location(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  c->at = c->end;
  return done(b, sn_mlir_attr_string(b->m, SN_MA_OPAQUE, "loc", 3), out);
}

static sn_status resource(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  (void)out;
  sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "values in resources (dense_resource) are not supported");
  sn_hint(b->d, "write them as dense<…> in the program");
  return SN_ERR_UNSUPPORTED;
}

static sn_status distinct(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) { return sn_bc_attr(b, c, "an attribute", out); }

typedef sn_status (*attr_reader)(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out);

/* By code; NULL: dense strings and sparse values, which no program here holds. */
static const attr_reader attr_readers[] = {sn_bc_array, sn_bc_dictionary, string,   string_with_type, symbol,   nested_symbol, type,     unit,
                                           integer,     real,             location, location,         location, location,      location, location,
                                           resource,    dense_array,      dense,    NULL,             NULL,     distinct,      location};

sn_status sn_bc_builtin_attr(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  uint64_t code = 0;
  SN_TRY(sn_bc_uint(b, c, "an attribute's code", &code));
  if (code >= sizeof attr_readers / sizeof attr_readers[0] || attr_readers[code] == NULL)
    return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected an attribute of builtin that is known here, found code %" PRIu64 ", written by %s", code, b->producer);
  return attr_readers[code](b, c, out);
}

/* ---- types ---- */

static sn_status made(sn_bc *b, const sn_mlir_type *t, const sn_mlir_type **out) {
  *out = t;
  return t != NULL ? SN_OK : sn_bc_memory(b);
}

static sn_status other(sn_bc *b, const char *text, const sn_mlir_type **out) {
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  if (t == NULL || text == NULL) return sn_bc_memory(b);
  t->kind = SN_MT_OTHER;
  t->scalar = SN_TYPE_INVALID;
  t->text = text;
  return made(b, t, out);
}

/* width << 2 | 0: without sign, which counts as signed here; 1: signed; 2: unsigned */
static sn_status integer_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out) {
  static const struct { uint64_t bits; sn_type with_sign, without; } widths[] = {{2, SN_TYPE_S2, SN_TYPE_U2},    {4, SN_TYPE_S4, SN_TYPE_U4},
                                                                                 {8, SN_TYPE_S8, SN_TYPE_U8},    {16, SN_TYPE_S16, SN_TYPE_U16},
                                                                                 {32, SN_TYPE_S32, SN_TYPE_U32}, {64, SN_TYPE_S64, SN_TYPE_U64}};
  uint64_t v = 0;
  SN_TRY(sn_bc_uint(b, c, "an integer's width", &v));
  if ((v & 3) == 3 || v >> 2 > 1 << 24) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the width and sign of an integer type, found %" PRIu64, v);
  if (v >> 2 == 1) return made(b, sn_mlir_type_scalar(b->m, SN_TYPE_PRED), out);
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
    if (widths[i].bits == v >> 2) return made(b, sn_mlir_type_scalar(b->m, (v & 3) == 2 ? widths[i].without : widths[i].with_sign), out);
  return other(b, sn_arena_printf(b->m->arena, "%si%" PRIu64, (v & 3) == 2 ? "u" : (v & 3) == 1 ? "s" : "", v >> 2), out);
}

sn_status sn_bc_complex_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out) {
  const sn_mlir_type *part = NULL;
  SN_TRY(sn_bc_type(b, c, "the type of the parts", &part));
  sn_type whole = part->kind == SN_MT_SCALAR ? sn_type_complex_of(part->scalar) : SN_TYPE_INVALID;
  if (whole == SN_TYPE_INVALID) return sn_bc_fail(b, c, SN_ERR_TYPE, "expected complex<f32> or complex<f64>, found complex<%s>", sn_mlir_type_text(b->m->arena, part));
  return made(b, sn_mlir_type_scalar(b->m, whole), out);
}

sn_status sn_bc_function_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out) {
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  if (t == NULL) return sn_bc_memory(b);
  t->kind = SN_MT_FUNCTION;
  t->scalar = SN_TYPE_INVALID;
  SN_TRY(sn_bc_types(b, c, "the type of an argument", &t->n_ins, &t->ins));
  SN_TRY(sn_bc_types(b, c, "the type of a result", &t->n_outs, &t->outs));
  return made(b, t, out);
}

sn_status sn_bc_list_type(sn_bc *b, sn_bc_cursor *c, sn_mlir_type_kind kind, const sn_mlir_type **out) {
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  if (t == NULL) return sn_bc_memory(b);
  t->kind = kind;
  t->scalar = SN_TYPE_INVALID;
  SN_TRY(sn_bc_types(b, c, "an element's type", &t->n_ins, &t->ins));
  return made(b, t, out);
}

sn_status sn_bc_element_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out) {
  SN_TRY(sn_bc_type(b, c, "an element's type", out));
  sn_mlir_type_kind k = (*out)->kind;
  if (k == SN_MT_SCALAR || k == SN_MT_QUANT || k == SN_MT_OTHER) return SN_OK;
  return sn_bc_fail(b, c, SN_ERR_TYPE, "expected an element type, found %s", sn_mlir_type_text(b->m->arena, *out));
}

/* INTS named "stablehlo.type_extensions" are bounds; an encoding of another dialect says nothing about the value. */
static sn_status bounds(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr *encoding, sn_mlir_type *t) {
  if (encoding == NULL || encoding->kind != SN_MA_INTS || encoding->name == NULL) return SN_OK;
  if (encoding->n != t->rank) return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected %d bounds, one a dimension, found %" PRId64, t->rank, encoding->n);
  for (int i = 0; i < t->rank; i++)
    if (encoding->ints[i] != SN_DIM_UNBOUNDED && (t->dims[i] != SN_DIM_UNBOUNDED || encoding->ints[i] < 0))
      return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected no bound for dimension %d, found %" PRId64, i, encoding->ints[i]);
  t->bounds = encoding->ints;
  return SN_OK;
}

sn_status sn_bc_tensor_type(sn_bc *b, sn_bc_cursor *c, sn_mlir_type_kind kind, bool encoded, const sn_mlir_type **out) {
  int64_t dims[SN_MAX_RANK];
  int rank = 0;
  const sn_mlir_attr *encoding = NULL;
  const sn_mlir_type *element = NULL;
  if (encoded) SN_TRY(sn_bc_attr(b, c, "an encoding", &encoding));
  if (kind != SN_MT_UNRANKED) SN_TRY(sn_bc_shape(b, c, dims, &rank));
  SN_TRY(sn_bc_element_type(b, c, &element));
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  int64_t *copy = SN_NEW_N(b->m->arena, int64_t, rank + 1);
  if (t == NULL || copy == NULL) return sn_bc_memory(b);
  for (int i = 0; i < rank; i++) copy[i] = dims[i];
  *t = (sn_mlir_type){.kind = kind, .scalar = SN_TYPE_INVALID, .rank = rank, .dims = copy, .element = element};
  SN_TRY(bounds(b, c, encoding, t));
  return made(b, t, out);
}

/* memref: the layout, and before the shape perhaps the memory space, do not matter here. */
static sn_status buffer_type(sn_bc *b, sn_bc_cursor *c, bool with_space, const sn_mlir_type **out) {
  const sn_mlir_attr *unused = NULL;
  if (with_space) SN_TRY(sn_bc_attr(b, c, "a memory space", &unused));
  SN_TRY(sn_bc_tensor_type(b, c, SN_MT_BUFFER, false, out));
  return sn_bc_attr(b, c, "a layout", &unused);
}

static sn_status index_type(sn_bc *b, const sn_mlir_type **out) {
  sn_mlir_type *t = SN_NEW(b->m->arena, sn_mlir_type);
  if (t == NULL) return sn_bc_memory(b);
  t->kind = SN_MT_SCALAR;
  t->scalar = SN_TYPE_S64;
  t->is_index = true;
  return made(b, t, out);
}

sn_status sn_bc_builtin_type(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type **out) {
  static const sn_type floats[] = {SN_TYPE_BF16, SN_TYPE_F16, SN_TYPE_F32, SN_TYPE_F64};
  uint64_t code = 0;
  SN_TRY(sn_bc_uint(b, c, "a type's code", &code));
  switch (code) {
    case 0: return integer_type(b, c, out);
    case 1: return index_type(b, out);
    case 2: return sn_bc_function_type(b, c, out);
    case 3: case 4: case 5: case 6: return made(b, sn_mlir_type_scalar(b->m, floats[code - 3]), out);
    case 7: return other(b, "f80", out);
    case 8: return other(b, "f128", out);
    case 9: return sn_bc_complex_type(b, c, out);
    case 10: return buffer_type(b, c, false, out);
    case 11: return buffer_type(b, c, true, out);
    case 12: return made(b, sn_mlir_type_of(b->m, SN_MT_NONE), out);
    case 13: return sn_bc_tensor_type(b, c, SN_MT_TENSOR, false, out);
    case 14: return sn_bc_tensor_type(b, c, SN_MT_TENSOR, true, out);
    case 15: return sn_bc_list_type(b, c, SN_MT_TUPLE, out);
    case 18: return sn_bc_tensor_type(b, c, SN_MT_UNRANKED, false, out);
    default: return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected a type of builtin that is known here, found code %" PRIu64 ", written by %s", code, b->producer);
  }
}
