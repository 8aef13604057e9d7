/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "slow_floats.h"

#include <math.h>

const slow_format slow_formats[] = {
    {SN_TYPE_BF16, 16, 8, 7, 127, SLOW_IEEE, 0x7f7f},         {SN_TYPE_F16, 16, 5, 10, 15, SLOW_IEEE, 0x7bff},
    {SN_TYPE_F8E5M2, 8, 5, 2, 15, SLOW_IEEE, 0x7b},         {SN_TYPE_F8E4M3, 8, 4, 3, 7, SLOW_IEEE, 0x77},
    {SN_TYPE_F8E4M3FN, 8, 4, 3, 7, SLOW_ONES_NAN, 0x7e},    {SN_TYPE_F8E4M3B11FNUZ, 8, 4, 3, 11, SLOW_FNUZ, 0x7f},
    {SN_TYPE_F8E5M2FNUZ, 8, 5, 2, 16, SLOW_FNUZ, 0x7f},     {SN_TYPE_F8E4M3FNUZ, 8, 4, 3, 8, SLOW_FNUZ, 0x7f},
    {SN_TYPE_F8E3M4, 8, 3, 4, 3, SLOW_IEEE, 0x6f},          {SN_TYPE_F8E8M0FNU, 8, 8, 0, 127, SLOW_EXPONENT, 0xfe},
    {SN_TYPE_F6E2M3FN, 6, 2, 3, 1, SLOW_FINITE, 0x1f},      {SN_TYPE_F6E3M2FN, 6, 3, 2, 3, SLOW_FINITE, 0x1f},
    {SN_TYPE_F4E2M1FN, 4, 2, 1, 1, SLOW_FINITE, 0x07},
};
const int n_slow_formats = sizeof slow_formats / sizeof slow_formats[0];

const slow_format *slow_find(sn_type t) {
  for (int i = 0; i < n_slow_formats; i++) {
    if (slow_formats[i].type == t) return &slow_formats[i];
  }
  return NULL;
}

double slow_decode(const slow_format *f, uint32_t code) {
  if (f->special == SLOW_EXPONENT) return code == 255 ? NAN : ldexp(1, (int)code - 127);
  uint32_t sign = code >> (f->bits - 1), magnitude = code & ((1u << (f->bits - 1)) - 1);
  uint32_t exponent = magnitude >> f->mantissa_bits, mantissa = magnitude & ((1u << f->mantissa_bits) - 1);
  uint32_t ones = (1u << f->exponent_bits) - 1;
  if (f->special == SLOW_FNUZ && sign && magnitude == 0) return NAN;
  if (f->special == SLOW_ONES_NAN && magnitude == (1u << (f->bits - 1)) - 1) return NAN;
  double v;
  if (f->special == SLOW_IEEE && exponent == ones) v = mantissa ? NAN : INFINITY;
  else if (exponent == 0) v = ldexp(mantissa, 1 - f->bias - f->mantissa_bits);
  else v = ldexp((1u << f->mantissa_bits) + mantissa, (int)exponent - f->bias - f->mantissa_bits);
  return sign ? -v : v;
}

uint32_t slow_max(const slow_format *f) { return f->max; }

/* Nearest code of v >= 0, ties to even; slow_max + 1 on overflow. */
static uint32_t nearest(const slow_format *f, long double v) {
  uint32_t max = slow_max(f), low = 0, high = max;
  while (low < high) { /* the last code whose value is not above v */
    uint32_t middle = (low + high + 1) / 2;
    if ((long double)slow_decode(f, middle) <= v) low = middle;
    else high = middle - 1;
  }
  long double below = slow_decode(f, low), above;
  if (low < max) above = slow_decode(f, low + 1);
  else above = 2 * below - (f->special == SLOW_EXPONENT ? 0 : slow_decode(f, max - 1));
  if (v <= below) return low;
  if (isinf(v) || v - below > above - v) return low + 1;
  if (v - below < above - v) return low;
  return f->special == SLOW_EXPONENT || low % 2 ? low + 1 : low;
}

static bool exponent_is_conversion(const slow_format *f, long double v, uint32_t code) {
  if (isnan(v) || signbit(v) || v == 0) return code == 255;
  uint32_t want = nearest(f, v);
  return code == want; /* 255 is overflow and NaN at once */
}

bool slow_is_conversion(const slow_format *f, long double v, uint32_t code) {
  if (code >> f->bits) return false;
  if (f->special == SLOW_EXPONENT) return exponent_is_conversion(f, v, code);
  uint32_t sign = 1u << (f->bits - 1);
  if (isnan(v)) return f->special == SLOW_FINITE ? code == sign : isnan(slow_decode(f, code));
  uint32_t want = nearest(f, v < 0 ? -v : v), max = slow_max(f);
  if (want > max) {
    if (f->special == SLOW_FINITE) want = max;
    else if (f->special == SLOW_FNUZ) return code == sign;
    /* else max + 1 is infinity (IEEE) or NaN (…fn) */
  }
  if (f->special == SLOW_FNUZ && want == 0) return code == 0;
  return code == (signbit(v) ? want | sign : want);
}
