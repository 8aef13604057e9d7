/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* dense<…> : type. The type stands behind the values, so the values are stepped over first and read when it is known.
 *
 * Forms: one element (a splat), nested lists, "0x…" (the elements' little-endian bytes, row-major; one element's bytes: a splat), nothing (no elements). */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

typedef struct dense {
  const sn_mlir_type *type; /* TENSOR */
  sn_type element;
  int64_t n;
} dense;

/* ---- elements ---- */

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static sn_status hex_bits(sn_mx *p, sn_type t, void *to) {
  const char *begin = p->at;
  uint64_t bits = 0;
  int digits = 0;
  for (p->at += 2; hex_digit(*p->at) >= 0; p->at++) {
    bits = bits << 4 | (uint64_t)hex_digit(*p->at);
    if (bits != 0) digits++;
  }
  if (digits > 16 || (sn_type_bits(t) < 64 && bits >> sn_type_bits(t) != 0))
    return sn_mx_fail(p, begin, SN_ERR_OVERFLOW, "expected at most %d bits for %s, found more", sn_type_bits(t), sn_type_text(t));
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(bits >> (8 * i));
  memcpy(to, bytes, sn_type_bytes(t));
  return SN_OK;
}

static sn_status real(sn_mx *p, sn_type t, void *to) {
  sn_mx_skip(p);
  const char *begin = p->at;
  if (begin[0] == '0' && begin[1] == 'x') return hex_bits(p, t, to);
  bool negative = *begin == '-';
  double v = 0;
  if (strncmp(begin + negative, "inf", 3) == 0 || strncmp(begin + negative, "nan", 3) == 0) {
    v = begin[negative] == 'i' ? (double)INFINITY : (double)NAN;
    if (negative) v = -v;
    p->at += 3 + negative;
  } else if (sn_mx_is_digit(begin[negative])) {
    char *end = NULL;
    v = strtod(begin, &end);
    p->at = end;
  } else {
    return sn_mx_expected(p, "a number");
  }
  if (t == SN_TYPE_F32) {
    /* One rounding: through the text again, not through double. */
    float f = strtof(begin, NULL);
    if (isnan(v) || isinf(v)) f = (float)v;
    memcpy(to, &f, sizeof f);
  } else {
    sn_store_f64(t, to, v);
  }
  return SN_OK;
}

static sn_status integer(sn_mx *p, sn_type t, void *to) {
  sn_mx_skip(p);
  const char *begin = p->at;
  if (sn_mx_accept_word(p, "true") || sn_mx_accept_word(p, "false")) {
    sn_store_i64(t, to, *begin == 't');
    return SN_OK;
  }
  bool negative = *begin == '-';
  int64_t v = 0;
  SN_TRY(sn_mx_int(p, sn_type_text(t)[0] == 'p' ? "true or false" : "an integer", &v));
  if (*p->at == '.' || *p->at == 'e') return sn_mx_fail(p, begin, SN_ERR_TYPE, "expected an integer for %s, found a number with a fraction or exponent", sn_type_text(t));
  /* Signless integers may be written either way: 255 and -1 are one i8. */
  int bits = sn_type_bits(t);
  uint64_t magnitude = negative ? 0 - (uint64_t)v : (uint64_t)v;
  uint64_t limit = negative ? (uint64_t)1 << (bits - 1) : UINT64_MAX >> (64 - bits);
  if (magnitude > limit || (negative && magnitude != 0 && sn_types[t].cls == SN_CLASS_UNSIGNED))
    return sn_mx_fail(p, begin, SN_ERR_OVERFLOW, "expected an integer of %d bits for %s, found `%.*s`", bits, sn_type_text(t), (int)(p->at - begin), begin);
  sn_store_i64(t, to, v);
  return SN_OK;
}

static sn_status element(sn_mx *p, sn_type t, char *to) {
  if (sn_type_is_float(t)) return real(p, t, to);
  if (!sn_type_is_complex(t)) return integer(p, t, to);
  sn_type part = sn_type_real_part(t);
  if (!sn_mx_accept(p, '(')) return sn_mx_expected(p, "a complex number: (real, imaginary)");
  SN_TRY(real(p, part, to));
  SN_TRY(sn_mx_need(p, ',', "between the parts of a complex number"));
  SN_TRY(real(p, part, to + sn_type_bytes(part)));
  return sn_mx_need(p, ')', "after a complex number");
}

/* ---- nested lists: no recursion, as the lists open are at most the rank ---- */

static sn_status wrong_count(sn_mx *p, const dense *v, int level, int64_t found) {
  return sn_mx_fail(p, p->at, SN_ERR_SHAPE, "expected %" PRId64 " element%s in dimension %d of %s, found %" PRId64 "%s", v->type->dims[level],
                    v->type->dims[level] == 1 ? "" : "s", level, sn_mlir_type_text(p->m->arena, v->type), found, *p->at == ',' ? " and more" : "");
}

static sn_status lists(sn_mx *p, const dense *v, char *to) {
  int64_t count[SN_MAX_RANK + 1];
  int level = 0, rank = v->type->rank;
  size_t bytes = sn_type_bytes(v->element);
  do {
    if (level < rank) {
      if (!sn_mx_accept(p, '[')) {
        char what[80];
        snprintf(what, sizeof what, "`[` to open dimension %d of the values", level);
        return sn_mx_expected(p, what);
      }
      count[level++] = 0;
      if (v->type->dims[level - 1] != 0) continue;
    } else {
      SN_TRY(element(p, v->element, to));
      to += bytes;
      count[level - 1]++;
    }
    while (level > 0 && count[level - 1] == v->type->dims[level - 1]) {
      if (!sn_mx_accept(p, ']')) return *p->at == ',' ? wrong_count(p, v, level - 1, count[level - 1]) : sn_mx_expected(p, "`]` in values");
      if (--level > 0) count[level - 1]++;
    }
    if (level > 0 && !sn_mx_accept(p, ','))
      return *p->at == ']' ? wrong_count(p, v, level - 1, count[level - 1]) : sn_mx_expected(p, "`,` between values");
  } while (level > 0);
  return SN_OK;
}

/* ---- hexadecimal ---- */

static sn_status hex_byte(sn_mx *p, const char *at, uint8_t *out) {
  int hi = hex_digit(at[0]), lo = hi >= 0 ? hex_digit(at[1]) : -1;
  if (lo < 0) return sn_mx_fail(p, at, SN_ERR_SYNTAX, "expected two hexadecimal digits a byte, found `%c%c`", at[0], hi >= 0 ? at[1] : ' ');
  *out = (uint8_t)(hi * 16 + lo);
  return SN_OK;
}

static sn_status hex_bytes(sn_mx *p, const char *at, uint8_t *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) SN_TRY(hex_byte(p, at + 2 * i, &to[i]));
  return SN_OK;
}

/* Sub-byte values keep to their low bits, signed ones extended; truth values become 0 or 1. */
static void normalise(sn_type t, uint8_t *to, int64_t n) {
  if (sn_type_bits(t) >= 8 || sn_type_is_float(t)) return;
  for (int64_t i = 0; i < n; i++) sn_store_i64(t, &to[i], t == SN_TYPE_PRED ? to[i] != 0 : (int8_t)to[i]);
}

static sn_status packed_bits(sn_mx *p, const char *at, uint8_t *to, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    uint8_t b = 0;
    SN_TRY(hex_byte(p, at + 2 * (i / 8), &b));
    to[i] = b >> (i % 8) & 1;
  }
  return SN_OK;
}

/* At the quote. *splat: one element's bytes for all. */
static sn_status hex_length(sn_mx *p, const dense *v, const char **digits, int64_t *bytes, bool *splat) {
  const char *begin = p->at + 1, *c = begin + 2;
  if (begin[0] != '0' || begin[1] != 'x') return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected \"0x…\", found another string");
  while (hex_digit(*c) >= 0) c++;
  *digits = begin + 2;
  *bytes = (c - *digits) / 2;
  if (*c != '"' || (c - *digits) % 2 != 0) return sn_mx_fail(p, c, SN_ERR_SYNTAX, "expected an even number of hexadecimal digits and a quote, found `%.1s`", c);
  p->at = c + 1;
  int64_t each = (int64_t)sn_type_bytes(v->element), packed = (v->n + 7) / 8;
  *splat = *bytes == each && v->n != 1;
  bool bits = v->element == SN_TYPE_PRED && *bytes == packed;
  if (*splat || (*bytes % each == 0 && *bytes / each == v->n) || bits) return SN_OK;
  return sn_mx_fail(p, begin, SN_ERR_SHAPE, "expected %" PRId64 " bytes for %s, found %" PRId64, v->n * each, sn_mlir_type_text(p->m->arena, v->type), *bytes);
}

/* ---- the whole ---- */

static sn_status make_array(sn_mx *p, const char *at, const dense *v, bool splat, sn_array **out) {
  const sn_shape *s = sn_shape_array(p->scratch, v->element, splat ? 0 : v->type->rank, v->type->dims);
  if (s == NULL) return sn_mx_memory(p);
  SN_TRY(sn_shape_check(p->d, sn_mx_loc(p, at), s));
  return sn_array_create(s, out) == SN_OK ? SN_OK : sn_mx_memory(p);
}

static sn_status values(sn_mx *p, const dense *v, bool *splat, sn_array **out) {
  const char *at = p->at, *digits = NULL;
  int64_t bytes = 0;
  bool hex = sn_mx_peek(p) == '"';
  if (hex) SN_TRY(hex_length(p, v, &digits, &bytes, splat));
  else *splat = *p->at != '[' && *p->at != '>';
  if (!hex && !*splat && *p->at == '>' && v->n != 0) return sn_mx_expected(p, "values");
  /* An absurd shape must not take memory that its text cannot fill. */
  if (!*splat && v->n > p->end - p->text) return sn_mx_fail(p, at, SN_ERR_SHAPE, "expected %" PRId64 " elements, found fewer", v->n);
  SN_TRY(make_array(p, at, v, *splat, out));
  char *data = sn_array_data(*out);
  if (*splat && !hex) return element(p, v->element, data);
  if (!hex) return *p->at == '>' ? SN_OK : lists(p, v, data);
  int64_t n = *splat ? 1 : v->n;
  if (v->element == SN_TYPE_PRED && bytes != n) return packed_bits(p, digits, (uint8_t *)data, n);
  SN_TRY(hex_bytes(p, digits, (uint8_t *)data, bytes));
  normalise(v->element, (uint8_t *)data, n);
  return SN_OK;
}

static sn_status check_type(sn_mx *p, const char *at, dense *v) {
  if (v->type->kind != SN_MT_TENSOR) return sn_mx_fail(p, at, SN_ERR_TYPE, "expected the type of a tensor behind dense<…>, found %s", sn_mlir_type_text(p->m->arena, v->type));
  v->element = sn_mlir_storage(v->type);
  if (v->element == SN_TYPE_INVALID || !sn_type_is_array(v->element))
    return sn_mx_fail(p, at, SN_ERR_TYPE, "expected elements with values, found %s", sn_mlir_type_text(p->m->arena, v->type));
  v->n = 1;
  for (int i = 0; i < v->type->rank; i++) {
    if (v->type->dims[i] == SN_DIM_UNBOUNDED)
      return sn_mx_fail(p, at, SN_ERR_SHAPE, "expected a static shape for values, found %s", sn_mlir_type_text(p->m->arena, v->type));
    if (!sn_mul_i64(v->n, v->type->dims[i], &v->n)) return sn_mx_fail(p, at, SN_ERR_OVERFLOW, "the shape has more elements than 63 bits count");
  }
  return SN_OK;
}

sn_status sn_mx_dense(sn_mx *p, const sn_mlir_attr **out) {
  SN_TRY(sn_mx_need(p, '<', "after dense"));
  const char *begin = p->at;
  sn_mx_span body;
  SN_TRY(sn_mx_balanced(p, &body));
  SN_TRY(sn_mx_need(p, ':', "before the type of dense<…>"));
  dense v = {0};
  sn_mx_skip(p);
  const char *type_at = p->at;
  SN_TRY(sn_mx_type(p, &v.type));
  SN_TRY(check_type(p, type_at, &v));
  const char *end = p->at;
  bool splat = false;
  sn_array *a = NULL;
  p->at = begin;
  sn_status s = values(p, &v, &splat, &a);
  if (s == SN_OK) s = sn_mx_need(p, '>', "after the values");
  if (s != SN_OK) {
    sn_array_release(a);
    return s;
  }
  p->at = end;
  *out = sn_mlir_attr_dense(p->m, v.type, a, splat && v.type->rank != 0);
  return *out != NULL ? SN_OK : sn_mx_memory(p);
}
