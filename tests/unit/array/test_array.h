/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_TESTS_ARRAY_H
#define SINTER_TESTS_ARRAY_H

#include "sinter/array.h"

#include <check.h>
#include <math.h>

TCase *convert_cases(void);
TCase *shape_cases(void);
TCase *array_cases(void);

/* Equal, signs of zeros included; any NaN equals any other. */
static inline bool same_f64(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
  return a == b && signbit(a) == signbit(b);
}

static inline uint64_t random_u64(uint64_t *state) { /* splitmix64 */
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

#endif
