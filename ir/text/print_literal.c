/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Values as XLA prints them: the fewest of two numbers of digits that read back the same, `{ {1, 2}, {3, 4} }` on one line. */
#include "text_internal.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers ------------------------------------------------------------------------------------------------------------- */

/* printf writes the decimal point of the process's locale. */
static int number_format(char *buffer, size_t cap, int digits, double v) {
  int n = snprintf(buffer, cap, "%.*g", digits, v);
  const char *point = localeconv()->decimal_point;
  if (point[0] == '.' && point[1] == '\0') return n;
  char *at = strstr(buffer, point);
  if (at == NULL) return n;
  size_t bytes = strlen(point);
  *at = '.';
  memmove(at + 1, at + bytes, strlen(at + bytes) + 1);
  return n - (int)(bytes - 1);
}

static double number_read(const char *text) {
  const char *point = localeconv()->decimal_point;
  if (point[0] == '.' && point[1] == '\0') return strtod(text, NULL);
  char copy[64];
  const char *dot = strchr(text, '.');
  if (dot == NULL) return strtod(text, NULL);
  snprintf(copy, sizeof copy, "%.*s%s%s", (int)(dot - text), text, point, dot + 1);
  return strtod(copy, NULL);
}

/* Digits: `few` if they read back as v, else `many`; few 0: always `many`. */
static void print_digits(sn_str *to, double v, int few, int many, bool is_f32) {
  char buffer[48];
  static const double exact[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  int least = few != 0 ? few : many;
  if (fabs(v) < exact[least < 15 ? least : 15] && v == (double)(int64_t)v) { /* an integer of so few digits prints as one */
    if (signbit(v)) sn_str_char(to, '-');
    sn_str_u64(to, (uint64_t)fabs(v));
    return;
  }
  if (few != 0) {
    int n = number_format(buffer, sizeof buffer, few, v);
    double back = number_read(buffer);
    if (back == v || (is_f32 && (float)back == (float)v)) {
      sn_str_add_n(to, buffer, (size_t)n);
      return;
    }
  }
  int n = number_format(buffer, sizeof buffer, many, v);
  sn_str_add_n(to, buffer, (size_t)n);
}

static uint64_t float_bits(sn_type t, const void *p) {
  uint8_t bytes[8] = {0};
  uint64_t v = 0;
  memcpy(bytes, p, sn_type_bytes(t));
  for (int i = 7; i >= 0; i--) v = v << 8 | bytes[i];
  return v;
}

/* The one NaN of a type without a sign in its NaN stands where -0 would: XLA calls it -nan. */
static void print_nan(sn_str *to, sn_type t, const void *p) {
  int m = sn_types[t].mantissa_bits;
  uint64_t bits = float_bits(t, p);
  sn_str_add(to, (bits >> (sn_type_bits(t) - 1) & 1) != 0 && t != SN_TYPE_F8E8M0FNU ? "-nan" : "nan");
  uint64_t payload = bits & (((uint64_t)1 << m) - 1);
  if (sn_tx_has_payload(t) && payload != (uint64_t)1 << (m - 1)) sn_str_printf(to, "(0x%" PRIx64 ")", payload);
}

void sn_tx_print_float(sn_str *to, sn_type t, const void *value) {
  double v = sn_load_f64(t, value);
  if (isnan(v)) {
    print_nan(to, t, value);
  } else if (isinf(v)) {
    sn_str_add(to, v < 0 ? "-inf" : "inf");
  } else if (t == SN_TYPE_F32) {
    print_digits(to, v, 6, 9, true);
  } else if (t == SN_TYPE_F64) {
    print_digits(to, v, 15, 17, false);
  } else {
    /* ceil(1 + (mantissa bits + 1) log10 2): so many digits tell all values of the type apart */
    print_digits(to, v, 0, (int)ceil(1 + (sn_types[t].mantissa_bits + 1) * 0.30102999566398120), false);
  }
}

void sn_tx_print_f64(sn_str *to, double v) {
  if (isnan(v)) {
    sn_str_add(to, signbit(v) ? "-nan" : "nan");
    return;
  }
  if (isinf(v)) {
    sn_str_add(to, v < 0 ? "-inf" : "inf");
    return;
  }
  char buffer[48];
  static const int digits[] = {6, 9, 15, 17};
  int n = 0;
  for (int i = 0; i < 4; i++) {
    n = number_format(buffer, sizeof buffer, digits[i], v);
    if (number_read(buffer) == v) break;
  }
  sn_str_add_n(to, buffer, (size_t)n);
}

/* ---- elements ----------------------------------------------------------------------------------------------------------------- */

static void print_element(sn_str *to, sn_type t, const char *p, bool scalar) {
  switch (sn_types[t].cls) {
    case SN_CLASS_PRED:
      if (scalar) sn_str_add(to, *p != 0 ? "true" : "false");
      else sn_str_char(to, *p != 0 ? '1' : '0');
      break;
    case SN_CLASS_SIGNED: sn_str_i64(to, sn_load_i64(t, p)); break;
    case SN_CLASS_UNSIGNED: sn_str_u64(to, (uint64_t)sn_load_i64(t, p)); break;
    case SN_CLASS_FLOAT: sn_tx_print_float(to, t, p); break;
    case SN_CLASS_COMPLEX: {
      sn_type part = sn_type_real_part(t);
      sn_str_char(to, '(');
      sn_tx_print_float(to, part, p);
      sn_str_add_n(to, ", ", 2);
      sn_tx_print_float(to, part, p + sn_type_bytes(part));
      sn_str_char(to, ')');
      break;
    }
    case SN_CLASS_OTHER: break;
  }
}

/* XLA's braces: `{1, 2}` of rank 1; of higher rank the innermost are `{ 1, 2 }`, but `{1}` and `{}`; above rank 3 all but the outermost and innermost
 * carry the index they stand at. */
static const char *print_array(sn_str *to, const sn_shape *s, const char *p, int level, int64_t at) {
  bool inner = level == s->rank - 1;
  const char *pad = s->rank == 1 || (inner && s->dims[level] <= 1) ? "" : " ";
  sn_str_char(to, '{');
  if (s->rank > 3 && level > 0 && !inner) sn_str_printf(to, " /*i%d=%" PRId64 "*/", level - 1, at);
  sn_str_add(to, pad);
  for (int64_t i = 0; i < s->dims[level]; i++) {
    if (i != 0) sn_str_add_n(to, ", ", 2);
    if (inner) {
      print_element(to, s->type, p, false);
      p += sn_type_bytes(s->type);
    } else {
      p = print_array(to, s, p, level + 1, i);
    }
  }
  sn_str_add(to, pad);
  sn_str_char(to, '}');
  return p;
}

void sn_tx_print_literal(sn_str *to, const sn_array *a) {
  const sn_shape *s = sn_array_shape(a);
  if (sn_shape_is_tuple(s)) {
    sn_str_add(to, "(");
    for (int i = 0; i < s->n_elements; i++) {
      sn_str_add(to, i == 0 ? " " : ", ");
      sn_tx_print_literal(to, sn_array_element(a, i));
    }
    sn_str_add(to, " )");
    return;
  }
  const char *data = sn_array_data(a);
  if (s->rank == 0) print_element(to, s->type, data, true);
  else print_array(to, s, data, 0, 0);
}

void sn_hlo_print_literal(sn_str *to, const sn_array *a) { sn_tx_print_literal(to, a); }
