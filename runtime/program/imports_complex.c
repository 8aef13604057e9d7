/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Complex functions in long double, whose spare bits hide the cancellation that plain formulas have near branch points; and stochastic rounding. */
#include "sinter/array.h"
#include "sinter/imports.h"

#include <complex.h>
#include <math.h>
#include <string.h>

typedef long double complex number;

static number make(long double re, long double im) {
  union { long double part[2]; number z; } u;
  u.part[0] = re;
  u.part[1] = im;
  return u.z;
}

/* e^a cos b - 1 without cancelling near 0: (e^a - 1) cos b - 2 sin^2(b / 2). */
static number expm1_of(number z) {
  long double a = creall(z), b = cimagl(z), half = sinl(b / 2);
  if (b == 0) return make(expm1l(a), b);
  if (isinf(a) || isnan(a)) return cexpl(z) - 1;
  return make(expm1l(a) * cosl(b) - 2 * half * half, expl(a) * sinl(b));
}

static long double sum_exact(long double x, long double y, long double *error) {
  long double s = x + y, t = s - x;
  *error = (x - (s - t)) + (y - t);
  return s;
}

/* The real part from |1 + z|^2 - 1 = a (2 + a) + b^2, with the sums' and products' rounding errors: they cancel wherever |1 + z| is near 1. */
static number log1p_of(number z) {
  long double a = creall(z), b = cimagl(z), big = fmaxl(fabsl(a), fabsl(b)), im = atan2l(b, 1 + a), e1, e2;
  if (!(big <= 8)) return make(logl(hypotl(1 + a, b)), im);
  long double p = b * b, q = a * a, t = sum_exact(2 * a, p, &e1);
  t = sum_exact(t, q, &e2);
  t += e1 + e2 + fmal(b, b, -p) + fmal(a, a, -q);
  return make(0.5L * log1pl(t), im);
}

static number rsqrt_of(number z) {
  long double a = creall(z), b = cimagl(z);
  bool nan = isnan(a) || isnan(b);
  if (isinf(a) || isinf(b)) return nan ? make((long double)NAN, (long double)NAN) : make(0, copysignl(0, -b));
  if (a == 0 && b == 0) return make((long double)INFINITY, copysignl(0, -b));
  return 1 / csqrtl(z);
}

static number cbrt_of(number z) {
  long double r = cbrtl(hypotl(creall(z), cimagl(z))), t = cargl(z) / 3;
  return make(r * cosl(t), r * sinl(t));
}

static number sign_of(number z) {
  long double r = hypotl(creall(z), cimagl(z));
  if (isnan(creall(z)) || isnan(cimagl(z))) return make((long double)NAN, (long double)NAN);
  return r == 0 ? make(0, 0) : make(creall(z) / r, cimagl(z) / r);
}

/* An angle that is no number gives no number, whatever the size: C's cexp says 0 for -inf + i inf. */
static number exp_of(number x) { return isfinite(cimagl(x)) ? cexpl(x) : make((long double)NAN, (long double)NAN); }

static number power_of(number x, number y) {
  if (creall(y) == 0 && cimagl(y) == 0) return make(1, 0);
  if (creall(x) == 0 && cimagl(x) == 0) return creall(y) > 0 ? make(0, 0) : cpowl(x, y);
  return cexpl(y * clogl(x));
}

/* -i log((x + i y) / sqrt(x^2 + y^2)): atan2(y, x) on the real line. */
static number atan2_of(number y, number x) {
  if (cimagl(y) == 0 && cimagl(x) == 0) return make(atan2l(creall(y), creall(x)), 0);
  return make(0, -1) * clogl((x + make(0, 1) * y) / csqrtl(x * x + y * y));
}

static number apply(sn_complex_function f, number x, number y) {
  switch (f) {
    case SN_COMPLEX_ACOS: return cacosl(x);
    case SN_COMPLEX_ACOSH: return cacoshl(x);
    case SN_COMPLEX_ASIN: return casinl(x);
    case SN_COMPLEX_ASINH: return casinhl(x);
    case SN_COMPLEX_ATAN: return catanl(x);
    case SN_COMPLEX_ATANH: return catanhl(x);
    case SN_COMPLEX_CBRT: return cbrt_of(x);
    case SN_COMPLEX_COSH: return ccoshl(x);
    case SN_COMPLEX_COS: return ccosl(x);
    case SN_COMPLEX_EXP: return exp_of(x);
    case SN_COMPLEX_EXPM1: return expm1_of(x);
    case SN_COMPLEX_LOG: return clogl(x);
    case SN_COMPLEX_LOG1P: return log1p_of(x);
    case SN_COMPLEX_LOGISTIC: return 1 / (1 + cexpl(-x));
    case SN_COMPLEX_RSQRT: return rsqrt_of(x);
    case SN_COMPLEX_SIN: return csinl(x);
    case SN_COMPLEX_SINH: return csinhl(x);
    case SN_COMPLEX_TAN: return ctanl(x);
    case SN_COMPLEX_TANH: return ctanhl(x);
    case SN_COMPLEX_SQRT: return csqrtl(x);
    case SN_COMPLEX_SIGN: return sign_of(x);
    case SN_COMPLEX_DIVIDE: return x / y;
    case SN_COMPLEX_POWER: return power_of(x, y);
    case SN_COMPLEX_ATAN2: return atan2_of(x, y);
    default: return make((long double)NAN, (long double)NAN);
  }
}

void sn_import_complex(double *z, int32_t function) {
  number r = apply((sn_complex_function)function, make(z[0], z[1]), function >= SN_COMPLEX_DIVIDE ? make(z[2], z[3]) : make(0, 0));
  z[0] = (double)creall(r);
  z[1] = (double)cimagl(r);
}

/* ---- stochastic rounding ---- */

static double stored(sn_type t, double v) {
  char raw[16];
  sn_store_f64(t, raw, v);
  return sn_load_f64(t, raw);
}

/* The value of the type next to |x| toward zero (x itself where it is one). */
static double toward_zero(sn_type t, double x) {
  double near = stored(t, x);
  if (!sn_type_is_float(t) || fabs(near) <= fabs(x)) return near;
  double ulp = fabs(near) * ldexp(1.0, -sn_types[t].mantissa_bits - 1), low = near;
  for (int q = 1; q <= 4 && fabs(low) > fabs(x); q++) low = stored(t, copysign(fabs(near) - ulp * q, x));
  return low;
}

/* The step from `below` to the next value away from zero. */
static double step_above(sn_type t, double below, double sign) {
  if (!sn_type_is_float(t)) return 1;
  double probe = fabs(below) > 0 ? fabs(below) : ldexp(1.0, -1000);
  for (int p = 60; p >= 0; p--) {
    double up = stored(t, copysign(probe * (1 + ldexp(1.0, -p)), sign));
    if (fabs(up) > fabs(below)) return fabs(up) - fabs(below);
  }
  return 0;
}

double sn_import_stochastic(double x, uint64_t random, int32_t to, int32_t bits) {
  sn_type t = (sn_type)to;
  if (isnan(x) || isinf(x) || stored(t, x) == x) return stored(t, x);
  double below = toward_zero(t, x), step = step_above(t, below, x), fraction = (double)random * ldexp(1.0, -bits);
  return step > 0 && fraction < fabs(x - below) / step ? copysign(fabs(below) + step, x) : below;
}
