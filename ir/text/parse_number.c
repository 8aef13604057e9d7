/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Decimal to double, correctly rounded. Most numbers take the short way: a mantissa below 2^53 times or over a power of ten that double holds
 * exactly is one rounding (Clinger, "How to Read Floating Point Numbers Accurately", 1990). The rest goes to strtod. */
#include "text_internal.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double number_powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                       1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
#define N_POWERS ((int64_t)(sizeof number_powers / sizeof number_powers[0]))

typedef struct number {
  const char *end;
  uint64_t mantissa; /* of the first 18 significant digits */
  int64_t exponent;  /* of ten */
  bool any, exact;   /* any digit at all; all of them are in the mantissa */
} number;

static void number_digit(number *x, char c, bool fraction) {
  x->any = true;
  if (x->mantissa < 100000000000000000u) {
    x->mantissa = x->mantissa * 10 + (uint64_t)(c - '0');
    x->exponent -= fraction;
  } else {
    x->exact = x->exact && c == '0';
    x->exponent += !fraction;
  }
}

/* Digits [. digits] [e digits] from `at`. */
static number number_scan(const char *at) {
  number x = {.exact = true};
  for (; sn_tx_is(*at, SN_TX_DIGIT); at++) number_digit(&x, *at, false);
  if (*at == '.') {
    for (at++; sn_tx_is(*at, SN_TX_DIGIT); at++) number_digit(&x, *at, true);
  }
  const char *e = at;
  if (x.any && (*e == 'e' || *e == 'E')) {
    e++;
    bool negative = *e == '-';
    if (*e == '-' || *e == '+') e++;
    int64_t v = 0;
    const char *digits = e;
    for (; sn_tx_is(*e, SN_TX_DIGIT); e++) v = v < 100000 ? v * 10 + (*e - '0') : v;
    if (e > digits) {
      x.exponent += negative ? -v : v;
      at = e;
    }
  }
  x.end = at;
  return x;
}

/* strtod reads the decimal point of the process's locale. */
static sn_status number_slow(sn_tx *p, const char *begin, const char *end, double *out) {
  size_t n = (size_t)(end - begin);
  const char *point = localeconv()->decimal_point;
  size_t point_bytes = strlen(point);
  char small[64], *copy = small;
  if (n + point_bytes >= sizeof small) copy = sn_arena_alloc(p->scratch, n + point_bytes + 1);
  if (copy == NULL) return sn_tx_memory(p);
  const char *dot = memchr(begin, '.', n);
  size_t head = dot != NULL ? (size_t)(dot - begin) : n;
  memcpy(copy, begin, head);
  if (dot != NULL) {
    memcpy(copy + head, point, point_bytes);
    memcpy(copy + head + point_bytes, dot + 1, n - head - 1);
    n += point_bytes - 1;
  }
  copy[n] = '\0';
  *out = strtod(copy, NULL);
  return SN_OK;
}

/* Finite numbers without sign. */
static sn_status number_value(sn_tx *p, const char *begin, const number *x, double *out) {
  if (x->exact && x->mantissa <= (uint64_t)1 << 53 && x->exponent > -N_POWERS && x->exponent < N_POWERS) {
    double m = (double)x->mantissa;
    *out = x->exponent < 0 ? m / number_powers[-x->exponent] : m * number_powers[x->exponent];
    return SN_OK;
  }
  return number_slow(p, begin, x->end, out);
}

static bool number_word(const char *at, const char *word) {
  size_t n = strlen(word);
  return strncmp(at, word, n) == 0 && !sn_tx_is(at[n], SN_TX_IDENT);
}

sn_status sn_tx_float(sn_tx *p, const char *what, double *out) {
  sn_tx_skip(p);
  const char *begin = p->at, *at = begin;
  bool negative = *at == '-';
  at += negative;
  double v = 0;
  if (number_word(at, "inf")) {
    v = (double)INFINITY;
    p->at = at + 3;
  } else if (number_word(at, "nan")) {
    v = (double)NAN;
    p->at = at + 3;
  } else {
    number x = number_scan(at);
    if (!x.any) return sn_tx_expected(p, what);
    SN_TRY(number_value(p, at, &x, &v));
    if (isinf(v)) return sn_tx_fail(p, begin, SN_ERR_OVERFLOW, "expected a number in the range of f64, found a greater one");
    p->at = x.end;
  }
  *out = negative ? -v : v;
  return SN_OK;
}
