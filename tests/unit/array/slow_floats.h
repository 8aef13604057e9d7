/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Conversions by definition and search, sharing nothing with the room under test but the list of types. */
#ifndef SINTER_TESTS_SLOW_FLOATS_H
#define SINTER_TESTS_SLOW_FLOATS_H

#include "sinter/array.h"

typedef enum slow_special {
  SLOW_IEEE,     /* all-ones exponent: infinity, NaN */
  SLOW_ONES_NAN, /* all ones: NaN; no infinity */
  SLOW_FNUZ,     /* the code of -0: NaN; no infinity */
  SLOW_EXPONENT, /* e8m0 */
  SLOW_FINITE    /* no NaN, no infinity */
} slow_special;

typedef struct slow_format {
  sn_type type;
  int bits, exponent_bits, mantissa_bits, bias;
  slow_special special;
  uint32_t max; /* code of the largest finite value */
} slow_format;

extern const slow_format slow_formats[];
extern const int n_slow_formats;
const slow_format *slow_find(sn_type t); /* NULL: f32, f64 or no float */

double slow_decode(const slow_format *f, uint32_t code);
/* May code be the conversion of v? Any NaN of the format does for NaN. */
bool slow_is_conversion(const slow_format *f, long double v, uint32_t code);
uint32_t slow_max(const slow_format *f);

#endif
