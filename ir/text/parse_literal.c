/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Literals follow their shape: `2`, `{1, 2}`, `{ { 1, 2 }, { 3, 4 } }`, `(re, im)`, `( 1, {1, 2} )`; `{...}` is a constant whose value was left out. */
#include "text_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- elements -------------------------------------------------------------------------------------------------------- */

/* Types whose NaN is an exponent of ones with a payload in the mantissa, of which the top bit says "quiet". */
bool sn_tx_has_payload(sn_type t) {
  switch (t) {
    case SN_TYPE_F64:
    case SN_TYPE_F32:
    case SN_TYPE_F16:
    case SN_TYPE_BF16:
    case SN_TYPE_F8E5M2:
    case SN_TYPE_F8E4M3:
    case SN_TYPE_F8E3M4: return true;
    default: return false;
  }
}

static void literal_store_bits(sn_type t, void *to, uint64_t bits) {
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(bits >> (8 * i));
  memcpy(to, bytes, sn_type_bytes(t));
}

/* Behind `nan`. */
static sn_status literal_nan(sn_tx *p, sn_type t, bool negative, void *to) {
  const char *at = p->at;
  int m = sn_types[t].mantissa_bits, e = sn_types[t].exponent_bits;
  uint64_t payload = 0;
  bool given = strncmp(p->at, "(0x", 3) == 0;
  if (given) {
    p->at += 3;
    int digits = 0;
    for (; digits < 16; digits++, p->at++) {
      char c = *p->at;
      int v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
      if (v < 0) break;
      payload = payload << 4 | (uint64_t)v;
    }
    SN_TRY(sn_tx_need(p, ')', "after the payload of a NaN"));
  }
  if (!sn_tx_has_payload(t)) {
    if (given) return sn_tx_fail(p, at, SN_ERR_TYPE, "expected `nan` without a payload, as %s has none", sn_type_text(t));
    sn_store_f64(t, to, negative ? -(double)NAN : (double)NAN);
    return SN_OK;
  }
  if (given && (payload == 0 || payload >> m != 0)) {
    return sn_tx_fail(p, at, SN_ERR_OVERFLOW, "expected a payload of 1…%d bits that is not 0, found 0x%" PRIx64, m, payload);
  }
  if (!given) payload = (uint64_t)1 << (m - 1);
  uint64_t bits = (((uint64_t)1 << e) - 1) << m | payload | (uint64_t)(negative ? 1 : 0) << (e + m);
  literal_store_bits(t, to, bits);
  return SN_OK;
}

static sn_status literal_float(sn_tx *p, sn_type t, void *to) {
  sn_tx_skip(p);
  const char *at = p->at;
  bool negative = *at == '-';
  if (strncmp(at + negative, "nan", 3) == 0) {
    p->at += 3 + negative;
    return literal_nan(p, t, negative, to);
  }
  double v = 0;
  SN_TRY(sn_tx_float(p, "a number", &v));
  if (t == SN_TYPE_F32) {
    float f = (float)v;
    memcpy(to, &f, sizeof f);
    if (!isinf(f) || isinf(v)) return SN_OK;
  } else {
    sn_store_f64(t, to, v);
    if (isinf(v) || isfinite(sn_load_f64(t, to))) return SN_OK;
  }
  return sn_tx_fail(p, at, SN_ERR_OVERFLOW, "expected a number in the range of %s, found `%s`", sn_type_text(t),
                    sn_tx_cstring(p, (sn_span){at, (size_t)(p->at - at)}));
}

static sn_status literal_complex(sn_tx *p, sn_type t, char *to) {
  sn_type part = sn_type_real_part(t);
  memset(to, 0, sn_type_bytes(t));
  if (!sn_tx_accept(p, '(')) return literal_float(p, part, to);
  SN_TRY(literal_float(p, part, to));
  SN_TRY(sn_tx_need(p, ',', "between the parts of a complex number"));
  SN_TRY(literal_float(p, part, to + sn_type_bytes(part)));
  return sn_tx_need(p, ')', "after a complex number");
}

static sn_status literal_range(sn_tx *p, const char *at, sn_type t) {
  while (*p->at == '-' || sn_tx_is(*p->at, SN_TX_DIGIT)) p->at++;
  return sn_tx_fail(p, at, SN_ERR_OVERFLOW, "expected an integer in the range of %s, found `%s`", sn_type_text(t),
                    sn_tx_cstring(p, (sn_span){at, (size_t)(p->at - at)}));
}

static sn_status literal_int(sn_tx *p, sn_type t, void *to) {
  sn_tx_skip(p);
  const char *begin = p->at, *at = begin;
  bool negative = *at == '-';
  if (negative) at++;
  if (strncmp(begin, "true", 4) == 0 || strncmp(begin, "false", 5) == 0) {
    bool b = false;
    SN_TRY(sn_tx_bool(p, &b));
    sn_store_i64(t, to, b);
    return SN_OK;
  }
  if (!sn_tx_is(*at, SN_TX_DIGIT)) return sn_tx_expected(p, "an integer");
  int bits = sn_type_bits(t);
  uint64_t v = 0, limit = UINT64_MAX >> (64 - bits);
  if (sn_type_is_signed(t)) limit = (limit >> 1) + (negative ? 1 : 0);
  for (; sn_tx_is(*at, SN_TX_DIGIT); at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    if (digit > limit || v > (limit - digit) / 10) return literal_range(p, begin, t);
    v = v * 10 + digit;
  }
  if (*at == '.' || *at == 'e') return sn_tx_fail(p, begin, SN_ERR_TYPE, "expected an integer for %s, found a number with a fraction or exponent", sn_type_text(t));
  if (negative && v != 0 && !sn_type_is_signed(t)) return literal_range(p, begin, t);
  sn_store_i64(t, to, (int64_t)(negative ? 0 - v : v));
  p->at = at;
  return SN_OK;
}

static sn_status literal_pred(sn_tx *p, char *to) {
  bool b = false;
  SN_TRY(sn_tx_bool(p, &b));
  *to = b ? 1 : 0;
  return SN_OK;
}

static sn_status literal_element(sn_tx *p, sn_type t, char *to) {
  switch (sn_types[t].cls) {
    case SN_CLASS_FLOAT: return literal_float(p, t, to);
    case SN_CLASS_COMPLEX: return literal_complex(p, t, to);
    case SN_CLASS_PRED: return literal_pred(p, to);
    default: return literal_int(p, t, to);
  }
}

/* ---- arrays --------------------------------------------------------------------------------------------------------------- */

static sn_status literal_count(sn_tx *p, const sn_shape *s, int level, int64_t found) {
  const char *more = *p->at == ',' ? " and more" : "";
  return sn_tx_fail(p, p->at, SN_ERR_SHAPE, "expected %" PRId64 " element%s in dimension %d of %s, found %" PRId64 "%s", s->dims[level],
                    s->dims[level] == 1 ? "" : "s", level, sn_shape_text(p->scratch, s), found, more);
}

/* No recursion: the braces open are counted, and no more than the rank can be. */
static sn_status literal_braces(sn_tx *p, const sn_shape *s, char *to) {
  int64_t count[SN_MAX_RANK];
  int level = 0;
  size_t bytes = sn_type_bytes(s->type);
  do {
    if (level < s->rank) {
      if (!sn_tx_accept(p, '{')) {
        char what[64];
        snprintf(what, sizeof what, "`{` to open dimension %d of the literal", level);
        return sn_tx_expected(p, what);
      }
      count[level++] = 0;
      if (s->dims[level - 1] != 0) continue;
    } else {
      SN_TRY(literal_element(p, s->type, to));
      to += bytes;
      count[level - 1]++;
    }
    while (level > 0 && count[level - 1] == s->dims[level - 1]) {
      if (!sn_tx_accept(p, '}')) return *p->at == ',' ? literal_count(p, s, level - 1, count[level - 1]) : sn_tx_expected(p, "`}` in a literal");
      if (--level > 0) count[level - 1]++;
    }
    if (level > 0 && !sn_tx_accept(p, ',')) {
      return *p->at == '}' ? literal_count(p, s, level - 1, count[level - 1]) : sn_tx_expected(p, "`,` between the elements of a literal");
    }
  } while (level > 0);
  return SN_OK;
}

static sn_status literal_array(sn_tx *p, const sn_shape *s, sn_array **out) {
  int64_t n = sn_shape_elements(s), room = (int64_t)(p->end - p->at);
  /* An absurd shape must not take memory that its text cannot fill. */
  if (n > room) return sn_tx_fail(p, p->at, SN_ERR_SHAPE, "expected %" PRId64 " elements for %s, found at most %" PRId64 " bytes of text", n, sn_shape_text(p->scratch, s), room);
  if (!sn_shape_is_static(s)) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a literal of a dynamic shape is not supported");
  sn_status st = sn_array_create(s, out);
  if (st == SN_ERR_MEMORY) return sn_tx_memory(p);
  if (st != SN_OK) return sn_tx_fail(p, p->at, st, "no literal of shape %s can be made", sn_shape_text(p->scratch, s));
  char *data = sn_array_data(*out);
  return s->rank == 0 ? literal_element(p, s->type, data) : literal_braces(p, s, data);
}

/* ---- tuples ---------------------------------------------------------------------------------------------------------------- */

static sn_status literal_any(sn_tx *p, const sn_shape *s, sn_array **out);

static sn_status literal_elements(sn_tx *p, const sn_shape *s, sn_array **elements) {
  SN_TRY(sn_tx_need(p, '(', "before the literals of a tuple"));
  for (int i = 0; i < s->n_elements; i++) {
    if (i != 0) SN_TRY(sn_tx_need(p, ',', "between the literals of a tuple"));
    SN_TRY(literal_any(p, s->elements[i], &elements[i]));
  }
  return sn_tx_need(p, ')', "after the literals of a tuple");
}

/* Recursion is bounded: a shape nests at most SN_TX_MAX_NEST deep. */
static sn_status literal_tuple(sn_tx *p, const sn_shape *s, sn_array **out) {
  sn_array **elements = sn_alloc_zero((size_t)s->n_elements + 1, sizeof *elements);
  if (elements == NULL) return sn_tx_memory(p);
  sn_status st = literal_elements(p, s, elements);
  if (st == SN_OK && sn_array_create_tuple(s->n_elements, elements, out) != SN_OK) st = sn_tx_memory(p);
  for (int i = 0; i < s->n_elements; i++) sn_array_release(elements[i]);
  sn_free(elements);
  return st;
}

static sn_status literal_any(sn_tx *p, const sn_shape *s, sn_array **out) {
  if (sn_shape_is_tuple(s)) return literal_tuple(p, s, out);
  if (sn_shape_is_array(s)) return literal_array(p, s, out);
  return sn_tx_fail(p, p->at, SN_ERR_TYPE, "expected a literal of an array or tuple, found one of %s", sn_type_text(s->type));
}

static bool literal_is_elided(sn_tx *p) {
  const char *at = p->at;
  if (sn_tx_accept(p, '{') && sn_tx_accept_text(p, "...") && sn_tx_accept(p, '}')) return true;
  p->at = at;
  return false;
}

sn_status sn_tx_literal(sn_tx *p, const sn_shape *shape, sn_array **out) {
  *out = NULL;
  if (literal_is_elided(p)) return SN_OK;
  sn_status s = literal_any(p, shape, out);
  if (s != SN_OK) {
    sn_array_release(*out);
    *out = NULL;
  }
  return s;
}
