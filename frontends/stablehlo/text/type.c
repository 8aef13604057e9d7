/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Types: tensor<2x?xf32>, !quant.uniform<…>, tuple<…>, !stablehlo.token, functions; what no program needs is kept as text. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef struct word_type { const char *text; sn_type type; } word_type;
static const word_type floats[] = {
    {"f16", SN_TYPE_F16}, {"bf16", SN_TYPE_BF16}, {"f32", SN_TYPE_F32}, {"f64", SN_TYPE_F64}, {"f8E5M2", SN_TYPE_F8E5M2}, {"f8E4M3", SN_TYPE_F8E4M3},
    {"f8E4M3FN", SN_TYPE_F8E4M3FN}, {"f8E4M3B11FNUZ", SN_TYPE_F8E4M3B11FNUZ}, {"f8E5M2FNUZ", SN_TYPE_F8E5M2FNUZ}, {"f8E4M3FNUZ", SN_TYPE_F8E4M3FNUZ},
    {"f8E3M4", SN_TYPE_F8E3M4}, {"f8E8M0FNU", SN_TYPE_F8E8M0FNU}, {"f6E2M3FN", SN_TYPE_F6E2M3FN}, {"f6E3M2FN", SN_TYPE_F6E3M2FN}, {"f4E2M1FN", SN_TYPE_F4E2M1FN}};
static const word_type integers[] = {
    {"i1", SN_TYPE_PRED}, {"i2", SN_TYPE_S2}, {"i4", SN_TYPE_S4}, {"i8", SN_TYPE_S8}, {"i16", SN_TYPE_S16}, {"i32", SN_TYPE_S32}, {"i64", SN_TYPE_S64},
    {"ui1", SN_TYPE_U1}, {"ui2", SN_TYPE_U2}, {"ui4", SN_TYPE_U4}, {"ui8", SN_TYPE_U8}, {"ui16", SN_TYPE_U16}, {"ui32", SN_TYPE_U32}, {"ui64", SN_TYPE_U64},
    {"si1", SN_TYPE_S1}, {"si2", SN_TYPE_S2}, {"si4", SN_TYPE_S4}, {"si8", SN_TYPE_S8}, {"si16", SN_TYPE_S16}, {"si32", SN_TYPE_S32}, {"si64", SN_TYPE_S64},
    {"u2", SN_TYPE_U2}, {"u4", SN_TYPE_U4}, {"u8", SN_TYPE_U8}, {"u16", SN_TYPE_U16}, {"u32", SN_TYPE_U32}}; /* the last row: storage of !quant.uniform */
static const char *const structured[] = {"tensor", "tuple", "complex", "memref", "vector", "index", "none", "tf32", "f80", "f128"};

static bool word_find(const word_type *v, size_t n, sn_mx_span w, sn_type *out) {
  for (size_t i = 0; i < n; i++)
    if (sn_mx_is(w, v[i].text)) {
      *out = v[i].type;
      return true;
    }
  return false;
}
#define FIND(table, w, out) word_find(table, sizeof table / sizeof table[0], w, out)

static sn_mx_span word_at(sn_mx *p) {
  sn_mx_skip(p);
  const char *c = p->at;
  while (sn_mx_is_word(*c)) c++;
  return (sn_mx_span){p->at, sn_mx_is_letter(*p->at) ? (size_t)(c - p->at) : 0};
}

bool sn_mx_at_type(sn_mx *p) {
  char c = sn_mx_peek(p);
  if (c == '!' || c == '(') return true;
  sn_mx_span w = word_at(p);
  sn_type t;
  if (w.n == 0) return false;
  if (FIND(floats, w, &t) || FIND(integers, w, &t)) return true;
  for (size_t i = 0; i < sizeof structured / sizeof structured[0]; i++)
    if (sn_mx_is(w, structured[i])) return true;
  return false;
}

static sn_mlir_type *type_new(sn_mx *p, sn_mlir_type_kind kind) {
  sn_mlir_type *t = SN_NEW(p->m->arena, sn_mlir_type);
  if (t == NULL) return NULL;
  t->kind = kind;
  t->scalar = SN_TYPE_INVALID;
  return t;
}

static sn_status other(sn_mx *p, sn_mx_span text, const sn_mlir_type **out) {
  sn_mlir_type *t = type_new(p, SN_MT_OTHER);
  if (t == NULL || (t->text = sn_mx_copy(p, text)) == NULL) return sn_mx_memory(p);
  *out = t;
  return SN_OK;
}

/* ---- lists ---- */

typedef struct type_list {
  const sn_mlir_type **v;
  uint32_t n, cap;
} type_list;

static sn_status list_add(sn_mx *p, type_list *l, const sn_mlir_type *t) {
  if (l->n == l->cap) {
    uint32_t cap = l->cap ? l->cap * 2 : 4;
    const sn_mlir_type **v = SN_NEW_N(p->m->arena, const sn_mlir_type *, cap);
    if (v == NULL) return sn_mx_memory(p);
    for (uint32_t i = 0; i < l->n; i++) v[i] = l->v[i];
    l->v = v;
    l->cap = cap;
  }
  l->v[l->n++] = t;
  return SN_OK;
}

/* Up to `close`, which is taken. Attributes and locations behind a type (as in a signature) are not part of this. */
static sn_status list_until(sn_mx *p, char close, type_list *l) {
  if (sn_mx_accept(p, close)) return SN_OK;
  do {
    const sn_mlir_type *t = NULL;
    SN_TRY(sn_mx_type(p, &t));
    SN_TRY(list_add(p, l, t));
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, close, "after a list of types");
}

sn_status sn_mx_function_type(sn_mx *p, const sn_mlir_type **out) {
  type_list ins = {0}, outs = {0};
  sn_mlir_type *t = type_new(p, SN_MT_FUNCTION);
  if (t == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_need(p, '(', "before the types of the operands"));
  SN_TRY(list_until(p, ')', &ins));
  if (!sn_mx_accept_text(p, "->")) return sn_mx_expected(p, "`->` before the types of the results");
  if (sn_mx_accept(p, '(')) {
    SN_TRY(list_until(p, ')', &outs));
  } else {
    const sn_mlir_type *one = NULL;
    SN_TRY(sn_mx_type(p, &one));
    SN_TRY(list_add(p, &outs, one));
  }
  t->n_ins = ins.n;
  t->ins = ins.v;
  t->n_outs = outs.n;
  t->outs = outs.v;
  *out = t;
  return SN_OK;
}

/* ---- !quant.uniform ---- */

static sn_status quant_number(sn_mx *p, double *out) {
  sn_mx_skip(p);
  char *end = NULL;
  const char *c = p->at;
  if (*c != '-' && !sn_mx_is_digit(*c)) return sn_mx_expected(p, "a scale");
  *out = strtod(c, &end);
  p->at = end;
  return SN_OK;
}

typedef struct quant_list {
  double *scales;
  int64_t *zero_points;
  int64_t n, cap;
} quant_list;

static sn_status quant_value(sn_mx *p, quant_list *l) {
  double scale = 0;
  int64_t zero = 0;
  SN_TRY(quant_number(p, &scale));
  if (sn_mx_accept(p, ':')) SN_TRY(sn_mx_int(p, "a zero point", &zero));
  if (l->n == l->cap) {
    int64_t cap = l->cap ? l->cap * 2 : 4;
    double *scales = SN_NEW_N(p->m->arena, double, cap);
    int64_t *zeros = SN_NEW_N(p->m->arena, int64_t, cap);
    if (scales == NULL || zeros == NULL) return sn_mx_memory(p);
    if (l->n != 0) {
      memcpy(scales, l->scales, (size_t)l->n * sizeof *scales);
      memcpy(zeros, l->zero_points, (size_t)l->n * sizeof *zeros);
    }
    *l = (quant_list){scales, zeros, l->n, cap};
  }
  l->scales[l->n] = scale;
  l->zero_points[l->n++] = zero;
  return SN_OK;
}

/* Flat, or nested braces of sub-channel types, in row-major order. */
static sn_status quant_values(sn_mx *p, quant_list *l) {
  if (!sn_mx_accept(p, '{')) return quant_value(p, l);
  SN_TRY(sn_mx_enter(p));
  if (sn_mx_peek(p) != '}') {
    do {
      SN_TRY(quant_values(p, l));
    } while (sn_mx_accept(p, ','));
  }
  sn_mx_leave(p);
  return sn_mx_need(p, '}', "after scales");
}

static sn_status quant_blocks(sn_mx *p, sn_mlir_quant *q) {
  int64_t axes[SN_MAX_RANK], sizes[SN_MAX_RANK];
  int n = 0;
  do {
    if (n == SN_MAX_RANK) return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d block sizes", SN_MAX_RANK);
    SN_TRY(sn_mx_int(p, "an axis", &axes[n]));
    SN_TRY(sn_mx_need(p, ':', "between an axis and its block size"));
    SN_TRY(sn_mx_int(p, "a block size", &sizes[n++]));
  } while (sn_mx_accept(p, ','));
  SN_TRY(sn_mx_need(p, '}', "after block sizes"));
  q->n_blocked = n;
  q->blocked_axes = sn_arena_copy(p->m->arena, axes, (size_t)n * sizeof *axes);
  q->block_sizes = sn_arena_copy(p->m->arena, sizes, (size_t)n * sizeof *sizes);
  return q->blocked_axes != NULL && q->block_sizes != NULL ? SN_OK : sn_mx_memory(p);
}

static sn_status quant_storage(sn_mx *p, sn_mlir_quant *q) {
  sn_mx_span w;
  const char *at = p->at;
  SN_TRY(sn_mx_word(p, "a storage type", &w));
  if (!FIND(integers, w, &q->storage) || w.s[0] == 's' || q->storage == SN_TYPE_PRED || sn_type_bits(q->storage) > 32)
    return sn_mx_fail(p, at, SN_ERR_TYPE, "expected an integer of 2 to 32 bits as storage type, found `%.*s`", (int)w.n, w.s);
  int bits = sn_type_bits(q->storage);
  bool is_signed = sn_type_is_signed(q->storage);
  q->min = is_signed ? -((int64_t)1 << (bits - 1)) : 0;
  q->max = is_signed ? ((int64_t)1 << (bits - 1)) - 1 : ((int64_t)1 << bits) - 1;
  if (!sn_mx_accept(p, '<')) return SN_OK;
  SN_TRY(sn_mx_int(p, "the least stored value", &q->min));
  SN_TRY(sn_mx_need(p, ':', "between the least and the greatest stored value"));
  SN_TRY(sn_mx_int(p, "the greatest stored value", &q->max));
  return sn_mx_need(p, '>', "after the range of stored values");
}

/* Behind `!quant.uniform<`. */
static sn_status quant(sn_mx *p, const sn_mlir_type **out) {
  sn_mlir_type *t = type_new(p, SN_MT_QUANT);
  sn_mlir_quant *q = SN_NEW(p->m->arena, sn_mlir_quant);
  if (t == NULL || q == NULL) return sn_mx_memory(p);
  q->axis = -1;
  SN_TRY(quant_storage(p, q));
  SN_TRY(sn_mx_need(p, ':', "between the storage and the expressed type"));
  sn_mx_skip(p);
  const char *at = p->at;
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "an expressed type", &w));
  if (!FIND(floats, w, &q->expressed)) return sn_mx_fail(p, at, SN_ERR_TYPE, "expected a float as expressed type, found `%.*s`", (int)w.n, w.s);
  if (sn_mx_accept(p, ':')) {
    int64_t axis = 0;
    if (sn_mx_accept(p, '{')) SN_TRY(quant_blocks(p, q));
    else SN_TRY(sn_mx_int(p, "the quantised axis", &axis));
    if (axis < 0 || axis >= SN_MAX_RANK) return sn_mx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected an axis in 0…%d, found %" PRId64, SN_MAX_RANK - 1, axis);
    q->axis = (int32_t)axis;
  }
  SN_TRY(sn_mx_need(p, ',', "before the scale"));
  quant_list l = {0};
  SN_TRY(quant_values(p, &l));
  if (l.n == 0) return sn_mx_expected(p, "a scale");
  q->n = l.n;
  q->scales = l.scales;
  q->zero_points = l.zero_points;
  t->quant = q;
  *out = t;
  return sn_mx_need(p, '>', "after !quant.uniform");
}

/* ---- tensors ---- */

/* `2x?x`, digits glued to what follows by x. */
static sn_status dims(sn_mx *p, int64_t *to, int *rank) {
  *rank = 0;
  for (;;) {
    sn_mx_skip(p);
    if (*p->at != '?' && !sn_mx_is_digit(*p->at)) return SN_OK;
    if (*rank == SN_MAX_RANK) return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d dimensions", SN_MAX_RANK);
    int64_t v = SN_DIM_UNBOUNDED;
    if (*p->at == '?') {
      p->at++;
    } else {
      const char *at = p->at;
      /* `0x` here is a size and a separator, not hexadecimal. */
      for (v = 0; sn_mx_is_digit(*p->at); p->at++) {
        if (v > (INT64_MAX - 9) / 10) return sn_mx_fail(p, at, SN_ERR_OVERFLOW, "expected a size of 63 bits, found a longer one");
        v = v * 10 + (*p->at - '0');
      }
    }
    to[(*rank)++] = v;
    if (*p->at != 'x') return sn_mx_expected(p, "`x` after a dimension");
    p->at++;
  }
}

/* `#stablehlo.bounds<?, 8>` or `#stablehlo.type_extensions<bounds = [?, 8]>`; an encoding of another dialect says nothing about the value. */
static sn_status encoding(sn_mx *p, sn_mlir_type *t) {
  const char *at = p->at;
  bool brackets = false;
  if (sn_mx_accept_text(p, "#stablehlo.type_extensions<") || sn_mx_accept_text(p, "#mhlo.type_extensions<")) {
    if (!sn_mx_accept_word(p, "bounds") || !sn_mx_accept(p, '=') || !sn_mx_accept(p, '[')) return sn_mx_expected(p, "`bounds = [`");
    brackets = true;
  } else if (!sn_mx_accept_text(p, "#stablehlo.bounds<")) {
    const sn_mlir_attr *unused = NULL;
    return sn_mx_attr(p, &unused);
  }
  int64_t *b = SN_NEW_N(p->m->arena, int64_t, t->rank + 1);
  int n = 0;
  if (b == NULL) return sn_mx_memory(p);
  if (sn_mx_peek(p) != ']' && sn_mx_peek(p) != '>') {
    do {
      int64_t v = SN_DIM_UNBOUNDED;
      if (!sn_mx_accept(p, '?')) SN_TRY(sn_mx_int(p, "a bound or `?`", &v));
      if (n < t->rank) b[n] = v;
      n++;
    } while (sn_mx_accept(p, ','));
  }
  if (brackets) SN_TRY(sn_mx_need(p, ']', "after bounds"));
  SN_TRY(sn_mx_need(p, '>', "after bounds"));
  if (n != t->rank) return sn_mx_fail(p, at, SN_ERR_SHAPE, "expected %d bounds, one a dimension, found %d", t->rank, n);
  for (int i = 0; i < n; i++)
    if (b[i] != SN_DIM_UNBOUNDED && t->dims[i] != SN_DIM_UNBOUNDED)
      return sn_mx_fail(p, at, SN_ERR_SHAPE, "expected `?` as bound of the static dimension %d, found %" PRId64, i, b[i]);
  t->bounds = b;
  return SN_OK;
}

/* Behind `tensor<` or `memref<`. */
static sn_status tensor(sn_mx *p, sn_mlir_type_kind kind, const sn_mlir_type **out) {
  int64_t sizes[SN_MAX_RANK];
  sn_mlir_type *t = type_new(p, kind);
  if (t == NULL) return sn_mx_memory(p);
  if (kind == SN_MT_TENSOR && sn_mx_accept_text(p, "*x")) t->kind = SN_MT_UNRANKED;
  else SN_TRY(dims(p, sizes, &t->rank));
  int64_t *copy = SN_NEW_N(p->m->arena, int64_t, t->rank + 1);
  if (copy == NULL) return sn_mx_memory(p);
  for (int i = 0; i < t->rank; i++) copy[i] = sizes[i];
  t->dims = copy;
  sn_mx_skip(p);
  const char *at = p->at;
  SN_TRY(sn_mx_type(p, &t->element));
  if (t->element->kind != SN_MT_SCALAR && t->element->kind != SN_MT_QUANT && t->element->kind != SN_MT_OTHER)
    return sn_mx_fail(p, at, SN_ERR_TYPE, "expected an element type, found %s", sn_mlir_type_text(p->m->arena, t->element));
  while (sn_mx_accept(p, ',')) SN_TRY(encoding(p, t));
  *out = t;
  return sn_mx_need(p, '>', "after the element type");
}

static sn_status complex_type(sn_mx *p, const sn_mlir_type **out) {
  sn_mx_skip(p);
  const char *at = p->at;
  const sn_mlir_type *part = NULL;
  SN_TRY(sn_mx_need(p, '<', "after complex"));
  SN_TRY(sn_mx_type(p, &part));
  sn_type whole = part->kind == SN_MT_SCALAR ? sn_type_complex_of(part->scalar) : SN_TYPE_INVALID;
  if (whole == SN_TYPE_INVALID) return sn_mx_fail(p, at, SN_ERR_TYPE, "expected complex<f32> or complex<f64>, found complex<%s>", sn_mlir_type_text(p->m->arena, part));
  SN_TRY(sn_mx_need(p, '>', "after the type of the parts"));
  *out = sn_mlir_type_scalar(p->m, whole);
  return *out != NULL ? SN_OK : sn_mx_memory(p);
}

/* ---- dialects ---- */

static sn_status types_in_angles(sn_mx *p, sn_mlir_type_kind kind, const sn_mlir_type **out) {
  type_list l = {0};
  sn_mlir_type *t = type_new(p, kind);
  if (t == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_need(p, '<', "before a list of types"));
  SN_TRY(list_until(p, '>', &l));
  t->n_ins = l.n;
  t->ins = l.v;
  *out = t;
  return SN_OK;
}

static sn_status alias(sn_mx *p, const char *at, sn_mx_span w, const sn_mlir_type **out) {
  uint64_t v = 0;
  if (!sn_map_get(p->type_aliases, w.s, w.n, &v)) {
    sn_status s = sn_mx_fail(p, at, SN_ERR_NAME, "the type alias !%.*s is not defined", (int)w.n, w.s);
    sn_hint(p->d, "an alias is a line `!%.*s = TYPE` above its use", (int)w.n, w.s);
    return s;
  }
  *out = (const sn_mlir_type *)(uintptr_t)v;
  return SN_OK;
}

/* At `!`. */
static sn_status dialect_type(sn_mx *p, const sn_mlir_type **out) {
  const char *begin = p->at++;
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "a type's name behind `!`", &w));
  if (memchr(w.s, '.', w.n) == NULL && *p->at != '<') return alias(p, begin, w, out);
  if (sn_mx_is(w, "stablehlo.token") || sn_mx_is(w, "mhlo.token")) {
    *out = sn_mlir_type_of(p->m, SN_MT_TOKEN);
    return *out != NULL ? SN_OK : sn_mx_memory(p);
  }
  if (sn_mx_is(w, "stablehlo.future")) return types_in_angles(p, SN_MT_FUTURE, out);
  if (sn_mx_is(w, "quant.uniform")) {
    SN_TRY(sn_mx_need(p, '<', "after !quant.uniform"));
    return quant(p, out);
  }
  sn_mx_span body;
  if (*p->at == '<') {
    p->at++;
    SN_TRY(sn_mx_balanced(p, &body));
  }
  return other(p, (sn_mx_span){begin, (size_t)(p->at - begin)}, out);
}

/* ---- the door ---- */

static sn_status word_like(sn_mx *p, const char *begin, sn_mx_span w, const sn_mlir_type **out) {
  sn_type scalar;
  if (FIND(floats, w, &scalar) || (FIND(integers, w, &scalar) && w.s[0] != 'u') || (w.n > 2 && w.s[1] == 'i' && FIND(integers, w, &scalar))) {
    *out = sn_mlir_type_scalar(p->m, scalar);
    return *out != NULL ? SN_OK : sn_mx_memory(p);
  }
  if (sn_mx_is(w, "index")) {
    sn_mlir_type *t = type_new(p, SN_MT_SCALAR);
    if (t == NULL) return sn_mx_memory(p);
    t->scalar = SN_TYPE_S64;
    t->is_index = true;
    *out = t;
    return SN_OK;
  }
  if (sn_mx_is(w, "none")) {
    *out = sn_mlir_type_of(p->m, SN_MT_NONE);
    return *out != NULL ? SN_OK : sn_mx_memory(p);
  }
  if (sn_mx_is(w, "complex")) return complex_type(p, out);
  if (sn_mx_is(w, "tuple")) return types_in_angles(p, SN_MT_TUPLE, out);
  bool is_tensor = sn_mx_is(w, "tensor");
  if (is_tensor || sn_mx_is(w, "memref")) {
    SN_TRY(sn_mx_need(p, '<', is_tensor ? "after tensor" : "after memref"));
    return tensor(p, is_tensor ? SN_MT_TENSOR : SN_MT_BUFFER, out);
  }
  if (sn_mx_is(w, "vector")) {
    sn_mx_span body;
    SN_TRY(sn_mx_need(p, '<', "after vector"));
    SN_TRY(sn_mx_balanced(p, &body));
    return other(p, (sn_mx_span){begin, (size_t)(p->at - begin)}, out);
  }
  if (sn_mx_is(w, "tf32") || sn_mx_is(w, "f80") || sn_mx_is(w, "f128")) return other(p, w, out);
  sn_status s = sn_mx_fail(p, begin, SN_ERR_TYPE, "expected a type, found `%.*s`", (int)w.n, w.s);
  sn_hint(p->d, "types are tensor<2x?xf32>, tuple<…>, !stablehlo.token; elements i1 i8 … ui64, f16 bf16 f32 f64, complex<f32>");
  return s;
}

sn_status sn_mx_type(sn_mx *p, const sn_mlir_type **out) {
  *out = NULL;
  SN_TRY(sn_mx_enter(p));
  char c = sn_mx_peek(p);
  sn_status s = SN_OK;
  if (c == '!') {
    s = dialect_type(p, out);
  } else if (c == '(') {
    s = sn_mx_function_type(p, out);
  } else {
    const char *begin = p->at;
    sn_mx_span w;
    s = sn_mx_word(p, "a type", &w);
    if (s == SN_OK) s = word_like(p, begin, w, out);
  }
  sn_mx_leave(p);
  return s;
}
