/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Functions of the runtime that generated code calls through the table of imports.def, with the numbers it passes them. */
#ifndef SINTER_IMPORTS_H
#define SINTER_IMPORTS_H

#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are part of the ABI: append only. */
typedef enum sn_complex_function {
  SN_COMPLEX_ACOS, SN_COMPLEX_ACOSH, SN_COMPLEX_ASIN, SN_COMPLEX_ASINH, SN_COMPLEX_ATAN, SN_COMPLEX_ATANH, SN_COMPLEX_CBRT, SN_COMPLEX_COSH, SN_COMPLEX_COS,
  SN_COMPLEX_EXP, SN_COMPLEX_EXPM1, SN_COMPLEX_LOG, SN_COMPLEX_LOG1P, SN_COMPLEX_LOGISTIC, SN_COMPLEX_RSQRT, SN_COMPLEX_SIN, SN_COMPLEX_SINH, SN_COMPLEX_TAN,
  SN_COMPLEX_TANH, SN_COMPLEX_SQRT, SN_COMPLEX_SIGN, SN_COMPLEX_DIVIDE, SN_COMPLEX_POWER, SN_COMPLEX_ATAN2, SN_COMPLEX_COUNT
} sn_complex_function;

/* z[0] + i z[1] becomes f(z[0] + i z[1], z[2] + i z[3]); computed in long double. */
void sn_import_complex(double *z, int32_t function);
/* x to type `to` (an sn_type), away from zero with the probability of the part cut off: where random / 2^bits lies below it. The result is a value of `to`. */
double sn_import_stochastic(double x, uint64_t random, int32_t to, int32_t bits);

#ifdef __cplusplus
}
#endif
#endif
