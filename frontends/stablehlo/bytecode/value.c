/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes and types by their index: read at first use, shared from then on. What refers to itself, nests too deep, or would be too large if everything
 * shared were written out is refused here, so that whoever walks the tree later need not know that it is a graph. */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

enum { MAX_WEIGHT = 1 << 22, TEXT_DEPTH = SN_MLIR_MAX_NEST / 2, MAX_PLACES = 256 };

/* ---- entries ---- */

static sn_status dispatch(sn_bc *b, sn_bc_cursor *c, const sn_bc_entry *e, bool is_type, const void **out) {
  const sn_mlir_attr *a = NULL;
  const sn_mlir_type *t = NULL;
  sn_bc_dialect kind = b->dialect_kinds[e->dialect];
  sn_status s = SN_OK;
  if (kind == SN_BC_BUILTIN) {
    s = is_type ? sn_bc_builtin_type(b, c, &t) : sn_bc_builtin_attr(b, c, &a);
  } else if (kind == SN_BC_VHLO) {
    s = is_type ? sn_bc_vhlo_type(b, c, &t) : sn_bc_vhlo_attr(b, c, &a);
  } else if (kind == SN_BC_SDY && !is_type) {
    s = sn_bc_sdy_attr(b, c, &a);
  } else {
    s = sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected %s of builtin, vhlo or sdy, found one of the dialect %s in an encoding of its own", is_type ? "a type" : "an attribute",
                   b->dialects[e->dialect]);
    sn_hint(b->d, "only portable artifacts are read: write the program with stablehlo-translate --serialize, or as text");
  }
  *out = is_type ? (const void *)t : (const void *)a;
  if (s == SN_OK && c->at != c->end) s = sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the end of %s, found %zu more bytes", is_type ? "a type" : "an attribute", sn_bc_left(c));
  return s;
}

/* Without an encoding of its own: text, as MLIR prints it. */
static sn_status from_text(sn_bc *b, sn_bc_cursor *c, bool is_type, const void **out) {
  const char *text = (const char *)c->at;
  size_t n = sn_bc_left(c);
  const sn_mlir_attr *a = NULL;
  if (n == 0 || text[n - 1] != '\0') return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected text with a NUL behind it");
  sn_status s = sn_mlir_read_attr_text(b->m, text, n - 1, TEXT_DEPTH, &a);
  if (s == SN_ERR_MEMORY) return sn_bc_memory(b);
  if (s != SN_OK || (is_type && a->kind != SN_MA_TYPE)) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "`%.80s` is no %s that is known here", text, is_type ? "type" : "attribute");
  b->deepest = TEXT_DEPTH;
  b->weight += (uint32_t)(n < MAX_WEIGHT ? n : MAX_WEIGHT);
  *out = is_type ? (const void *)a->type : (const void *)a;
  return SN_OK;
}

static sn_status read_fresh(sn_bc *b, sn_bc_cursor *c, sn_bc_entry *e, bool is_type) {
  uint32_t weight = b->weight;
  uint8_t deepest = b->deepest;
  if (b->nest >= SN_MLIR_MAX_NEST) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "more than %d levels of nesting", SN_MLIR_MAX_NEST);
  e->state = SN_BC_READING;
  b->nest++;
  b->weight = 1;
  b->deepest = 0;
  SN_TRY(e->custom ? dispatch(b, c, e, is_type, &e->value) : from_text(b, c, is_type, &e->value));
  e->weight = b->weight;
  e->depth = (uint8_t)(b->deepest + 1);
  e->state = SN_BC_READ;
  b->nest--;
  b->weight = weight;
  b->deepest = deepest;
  return SN_OK;
}

static sn_status read_entry(sn_bc *b, const sn_bc_cursor *from, sn_bc_entry *e, bool is_type) {
  sn_bc_cursor c = {e->at, e->end, "AttrType"};
  if (e->state == SN_BC_READING) return sn_bc_fail(b, from, SN_ERR_SYNTAX, "%s refers to itself", is_type ? "a type" : "an attribute");
  if (e->state == SN_BC_UNREAD) SN_TRY(read_fresh(b, &c, e, is_type));
  if (e->depth > SN_MLIR_MAX_NEST) return sn_bc_fail(b, from, SN_ERR_UNSUPPORTED, "more than %d levels of nesting", SN_MLIR_MAX_NEST);
  if (b->nest == 0) return SN_OK; /* referred to by an op */
  b->weight += e->weight;
  if (e->depth > b->deepest) b->deepest = e->depth;
  return b->weight <= MAX_WEIGHT ? SN_OK : sn_bc_fail(b, from, SN_ERR_UNSUPPORTED, "an attribute or type of more than %d parts", (int)MAX_WEIGHT);
}

/* ---- references ---- */

static sn_status attr_at(sn_bc *b, sn_bc_cursor *c, uint64_t k, const sn_mlir_attr **out) {
  SN_TRY(read_entry(b, c, &b->attrs[k], false));
  *out = b->attrs[k].value;
  return SN_OK;
}

sn_status sn_bc_attr(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_attr **out) {
  uint64_t k = 0;
  *out = NULL;
  SN_TRY(sn_bc_index(b, c, what, b->n_attrs, &k));
  return attr_at(b, c, k, out);
}

/* 0: absent; the index stands above a bit that is set. */
sn_status sn_bc_attr_optional(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_attr **out) {
  uint64_t v = 0;
  *out = NULL;
  SN_TRY(sn_bc_uint(b, c, what, &v));
  if (v == 0) return SN_OK;
  if ((v & 1) == 0 || v >> 1 >= b->n_attrs) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %s below %" PRIu64 ", or 0, found %" PRIu64, what, b->n_attrs, v);
  return attr_at(b, c, v >> 1, out);
}

sn_status sn_bc_type_at(sn_bc *b, const sn_bc_cursor *c, uint64_t k, const sn_mlir_type **out) {
  *out = NULL;
  if (k >= b->n_types) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a type below %" PRIu64 ", found %" PRIu64, b->n_types, k);
  SN_TRY(read_entry(b, c, &b->types[k], true));
  *out = b->types[k].value;
  return SN_OK;
}

sn_status sn_bc_type(sn_bc *b, sn_bc_cursor *c, const char *what, const sn_mlir_type **out) {
  uint64_t k = 0;
  *out = NULL;
  SN_TRY(sn_bc_index(b, c, what, b->n_types, &k));
  return sn_bc_type_at(b, c, k, out);
}

sn_status sn_bc_types(sn_bc *b, sn_bc_cursor *c, const char *what, uint32_t *n, const sn_mlir_type *const **out) {
  uint64_t count = 0;
  SN_TRY(sn_bc_count(b, c, what, &count));
  const sn_mlir_type **v = SN_NEW_N(b->m->arena, const sn_mlir_type *, count + 1);
  if (v == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < count; i++) SN_TRY(sn_bc_type(b, c, what, &v[i]));
  *n = (uint32_t)count;
  *out = v;
  return SN_OK;
}

sn_status sn_bc_attrs(sn_bc *b, sn_bc_cursor *c, const char *what, int64_t *n, const sn_mlir_attr *const **out) {
  uint64_t count = 0;
  SN_TRY(sn_bc_count(b, c, what, &count));
  const sn_mlir_attr **v = SN_NEW_N(b->m->arena, const sn_mlir_attr *, count + 1);
  if (v == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < count; i++) SN_TRY(sn_bc_attr(b, c, what, &v[i]));
  *n = (int64_t)count;
  *out = v;
  return SN_OK;
}

/* ---- numbers ---- */

sn_status sn_bc_apint(sn_bc *b, sn_bc_cursor *c, int bits, uint64_t *out) {
  *out = 0;
  if (bits > 64) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "numbers of %d bits are not supported", bits);
  if (bits <= 8) {
    uint8_t v = 0;
    SN_TRY(sn_bc_byte(b, c, "a number", &v));
    *out = v;
    return SN_OK;
  }
  int64_t v = 0;
  SN_TRY(sn_bc_int(b, c, "a number", &v));
  *out = (uint64_t)v;
  return SN_OK;
}

static void little_endian(uint64_t v, uint8_t bytes[8]) {
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(v >> (8 * i));
}

sn_status sn_bc_number(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type *t, sn_mlir_attr_kind kind, const sn_mlir_attr **out) {
  uint64_t v = 0;
  uint8_t bytes[8];
  bool is_float = t->kind == SN_MT_SCALAR && sn_type_is_float(t->scalar);
  if (t->kind != SN_MT_SCALAR || sn_type_is_complex(t->scalar) || is_float != (kind == SN_MA_FLOAT))
    return sn_bc_fail(b, c, SN_ERR_TYPE, "expected %s as a number's type, found %s", kind == SN_MA_FLOAT ? "a float" : "an integer", sn_mlir_type_text(b->m->arena, t));
  SN_TRY(sn_bc_apint(b, c, sn_type_bits(t->scalar), &v));
  sn_mlir_attr *a = sn_mlir_attr_new(b->m, kind);
  if (a == NULL) return sn_bc_memory(b);
  little_endian(v, bytes);
  if (is_float) {
    a->f = sn_load_f64(t->scalar, bytes);
  } else if (t->scalar == SN_TYPE_PRED) {
    a->kind = SN_MA_BOOL;
    a->i = (v & 1) != 0;
  } else {
    sn_store_i64(t->scalar, bytes, (int64_t)v); /* to the width, sign extended */
    a->i = sn_load_i64(t->scalar, bytes);
  }
  a->type = t;
  *out = a;
  return SN_OK;
}

sn_status sn_bc_shape(sn_bc *b, sn_bc_cursor *c, int64_t *dims, int *rank) {
  uint64_t n = 0;
  SN_TRY(sn_bc_count(b, c, "a rank", &n));
  if (n > SN_MAX_RANK) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "more than %d dimensions", SN_MAX_RANK);
  for (uint64_t i = 0; i < n; i++) {
    SN_TRY(sn_bc_int(b, c, "a dimension", &dims[i]));
    if (dims[i] < 0 && dims[i] != SN_DIM_UNBOUNDED) return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected a size of 0 or more, found %" PRId64, dims[i]);
  }
  *rank = (int)n;
  return SN_OK;
}

/* ---- elements ---- */

typedef struct elements {
  sn_type type;
  int64_t n;
  bool packed; /* truth values, eight a byte */
  bool splat;
} elements;

static sn_status element_count(sn_bc *b, const sn_bc_cursor *c, const sn_mlir_type *t, elements *e) {
  e->type = t->kind == SN_MT_TENSOR ? sn_mlir_storage(t) : SN_TYPE_INVALID;
  if (e->type == SN_TYPE_INVALID || !sn_type_is_array(e->type))
    return sn_bc_fail(b, c, SN_ERR_TYPE, "expected a tensor whose elements have values, found %s", sn_mlir_type_text(b->m->arena, t));
  e->n = 1;
  for (int i = 0; i < t->rank; i++) {
    if (t->dims[i] == SN_DIM_UNBOUNDED) return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected a static shape for values, found %s", sn_mlir_type_text(b->m->arena, t));
    if (!sn_mul_i64(e->n, t->dims[i], &e->n)) return sn_bc_fail(b, c, SN_ERR_OVERFLOW, "the shape has more elements than 63 bits count");
  }
  return SN_OK;
}

/* How the blob holds the elements: each, packed, or one for all. */
static sn_status element_form(sn_bc *b, const sn_bc_cursor *c, const sn_mlir_type *t, uint64_t bytes, elements *e) {
  uint64_t each = sn_type_bytes(e->type), n = (uint64_t)e->n;
  if (bytes / each == n && bytes % each == 0) return SN_OK;
  e->packed = e->type == SN_TYPE_PRED && bytes == n / 8 + (n % 8 != 0);
  e->splat = bytes == each && n != 0;
  if (e->splat && e->packed) { /* one byte for up to eight truth values: 00 and ff are splats */
    e->splat = c->at[0] == 0 || c->at[0] == 0xff;
    e->packed = !e->splat;
  }
  if (e->splat || e->packed) return SN_OK;
  return sn_bc_fail(b, c, SN_ERR_SHAPE, "expected %" PRId64 " elements of %zu bytes for %s, found %" PRIu64 " bytes", e->n, (size_t)each, sn_mlir_type_text(b->m->arena, t), bytes);
}

static void copy_elements(const elements *e, const uint8_t *from, uint8_t *to) {
  int64_t n = e->splat ? 1 : e->n;
  if (e->packed) {
    for (int64_t i = 0; i < n; i++) to[i] = from[i / 8] >> (i % 8) & 1;
    return;
  }
  memcpy(to, from, (size_t)n * sn_type_bytes(e->type));
  if (sn_type_bits(e->type) >= 8 || sn_type_is_float(e->type)) return;
  /* Sub-byte values keep to their low bits, signed ones extended; truth values become 0 or 1. */
  for (int64_t i = 0; i < n; i++) sn_store_i64(e->type, &to[i], e->type == SN_TYPE_PRED ? to[i] != 0 : (int8_t)to[i]);
}

sn_status sn_bc_dense(sn_bc *b, sn_bc_cursor *c, const sn_mlir_type *t, const sn_mlir_attr **out) {
  elements e = {SN_TYPE_INVALID, 0, false, false};
  uint64_t bytes = 0;
  const uint8_t *data = NULL;
  sn_array *a = NULL;
  SN_TRY(element_count(b, c, t, &e));
  SN_TRY(sn_bc_uint(b, c, "the size of values", &bytes));
  sn_bc_cursor at = *c;
  SN_TRY(sn_bc_bytes(b, c, "values", bytes, &data));
  SN_TRY(element_form(b, &at, t, bytes, &e));
  const sn_shape *s = sn_shape_array(b->m->arena, e.type, e.splat ? 0 : t->rank, t->dims);
  if (s == NULL) return sn_bc_memory(b);
  SN_TRY(sn_shape_check(b->d, (sn_loc){b->file, 0, 0}, s));
  if (sn_array_create(s, &a) != SN_OK) return sn_bc_memory(b);
  copy_elements(&e, data, sn_array_data(a));
  *out = sn_mlir_attr_dense(b->m, t, a, e.splat && t->rank != 0);
  return *out != NULL ? SN_OK : sn_bc_memory(b);
}

/* ---- locations ---- */

enum { CALL_SITE = 10, FILE_LINE_COL = 11, FUSED = 12, FUSED_WITH = 13, NAME = 14, UNKNOWN = 15, FILE_RANGE = 22 };

/* The outermost name and the innermost callee say most: what is known already is kept. The walk stops when all is known, or after MAX_PLACES places. */
typedef struct walk {
  sn_mlir_debug *to;
  uint64_t todo[MAX_PLACES]; /* a stack of locations */
  int n_todo, n_seen;
} walk;

static bool push(walk *w, uint64_t location) {
  if (w->n_todo == MAX_PLACES) return false;
  w->todo[w->n_todo++] = location;
  return true;
}

static sn_status string_attr(sn_bc *b, sn_bc_cursor *c, const char *what, const char **out) {
  const sn_mlir_attr *a = NULL;
  SN_TRY(sn_bc_attr(b, c, what, &a));
  if (a == NULL || a->kind != SN_MA_STRING) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string as %s, found another attribute", what);
  *out = a->s;
  return SN_OK;
}

/* Line; line and column; then the last column, or the last line and column. */
static sn_status place(sn_bc *b, sn_bc_cursor *c, bool range, walk *w) {
  const char *file = NULL;
  uint64_t n = 2, v[4] = {0, 0, 0, 0};
  SN_TRY(string_attr(b, c, "a file's name", &file));
  if (range) SN_TRY(sn_bc_count(b, c, "a number of lines and columns", &n));
  if (n > 4) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected at most 4 lines and columns, found %" PRIu64, n);
  for (uint64_t i = 0; i < n; i++) SN_TRY(sn_bc_uint(b, c, "a line or column", &v[i]));
  if (w->to->file != NULL) return SN_OK;
  w->to->file = file;
  w->to->line = (uint32_t)v[0];
  w->to->col = (uint32_t)v[1];
  w->to->end_line = (uint32_t)(n == 4 ? v[2] : v[0]);
  w->to->end_col = (uint32_t)(n == 4 ? v[3] : v[2]);
  return SN_OK;
}

static sn_status call_site(sn_bc *b, sn_bc_cursor *c, walk *w) {
  uint64_t callee = 0, caller = 0;
  SN_TRY(sn_bc_index(b, c, "a location", b->n_attrs, &callee));
  SN_TRY(sn_bc_index(b, c, "a location", b->n_attrs, &caller));
  (void)(push(w, caller) && push(w, callee)); /* the callee first */
  return SN_OK;
}

static sn_status fused(sn_bc *b, sn_bc_cursor *c, walk *w) {
  uint64_t n = 0, parts[MAX_PLACES];
  SN_TRY(sn_bc_count(b, c, "a number of locations", &n));
  if (n > MAX_PLACES) n = MAX_PLACES;
  for (uint64_t i = 0; i < n; i++) SN_TRY(sn_bc_index(b, c, "a location", b->n_attrs, &parts[i]));
  for (uint64_t i = n; i-- > 0;)
    if (!push(w, parts[i])) break;
  return SN_OK;
}

static sn_status name(sn_bc *b, sn_bc_cursor *c, walk *w) {
  const char *s = NULL;
  uint64_t child = 0;
  SN_TRY(string_attr(b, c, "a name", &s));
  SN_TRY(sn_bc_index(b, c, "a location", b->n_attrs, &child));
  if (w->to->name == NULL) w->to->name = s;
  (void)push(w, child);
  return SN_OK;
}

static sn_status one_location(sn_bc *b, uint64_t k, walk *w) {
  const sn_bc_entry *e = &b->attrs[k];
  sn_bc_cursor c = {e->at, e->end, "AttrType"};
  uint64_t code = 0;
  if (!e->custom || b->dialect_kinds[e->dialect] != SN_BC_BUILTIN) return SN_OK; /* a location of another dialect says nothing here */
  SN_TRY(sn_bc_uint(b, &c, "an attribute's code", &code));
  switch (code) {
    case CALL_SITE: return call_site(b, &c, w);
    case FILE_LINE_COL: return place(b, &c, false, w);
    case FUSED:
    case FUSED_WITH: return fused(b, &c, w);
    case NAME: return name(b, &c, w);
    case UNKNOWN: return SN_OK;
    case FILE_RANGE: return place(b, &c, true, w);
    default: return sn_bc_fail(b, &c, SN_ERR_SYNTAX, "expected a location, found another attribute (code %" PRIu64 ")", code);
  }
}

sn_status sn_bc_debug(sn_bc *b, uint64_t location, const sn_mlir_debug **out) {
  static const sn_mlir_debug nothing = {0};
  sn_bc_entry *e = &b->attrs[location];
  if (e->debug == NULL) {
    sn_mlir_debug *d = SN_NEW(b->m->arena, sn_mlir_debug);
    walk w = {.to = d};
    if (d == NULL) return sn_bc_memory(b);
    (void)push(&w, location);
    while (w.n_todo > 0 && w.n_seen++ < MAX_PLACES && (d->name == NULL || d->file == NULL)) SN_TRY(one_location(b, w.todo[--w.n_todo], &w));
    e->debug = d->name != NULL || d->file != NULL ? d : &nothing;
  }
  *out = e->debug != &nothing ? e->debug : NULL;
  return SN_OK;
}
