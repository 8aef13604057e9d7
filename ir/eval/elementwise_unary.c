/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels of one operand. f32 functions are computed in f64 and rounded; f64 ones by libm, in long double where libm's
 * double is loose; complex ones in long double, which hides the cancellation that the plain formulas have near branch
 * points. */
#include <complex.h>
#include <math.h>

#include "eval_internal.h"

typedef long double complex wide;

/* ---- formulas that are no libm call ---- */

static wide make(long double re, long double im) {
  union {
    long double part[2];
    wide z;
  } u;
  u.part[0] = re;
  u.part[1] = im;
  return u.z;
}

/* For a result in f32: (1 - t) / (1 + t) with t = exp(-2 |x|) is off by 1e-16 absolutely; near 0 the series takes over
 * (next term 17/315 x^7). */
static double tanh_for_f32(double x) {
  double t = exp(-2 * fabs(x)), r = (1 - t) / (1 + t), x2 = x * x;
  return fabs(x) < 0.01 ? x * (1 - x2 * (1.0 / 3 - x2 * (2.0 / 15))) : copysign(r, x);
}
static double logistic(double x) { return 1.0 / (1.0 + exp(-x)); }
static double sign_f64(double x) { return isnan(x) ? x : x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
static double round_even(double x) { return rint(x); } /* threads run in the default rounding mode */

/* Angles that are no number give no number, whatever the size: C's cexp says 0 for -inf + i inf. */
static wide wide_exp(wide z) {
  long double b = cimagl(z);
  return isinf(b) || isnan(b) ? make(NAN, NAN) : cexpl(z);
}

/* e^a cos b - 1 without cancelling near 0: (e^a - 1) cos b - 2 sin^2(b / 2). */
static wide wide_expm1(wide z) {
  long double a = creall(z), b = cimagl(z), half = sinl(b / 2);
  if (b == 0) return make(expm1l(a), b);
  if (isinf(a) || isnan(a)) return cexpl(z) - 1;
  return make(expm1l(a) * cosl(b) - 2 * half * half, expl(a) * sinl(b));
}

/* Real part log|1 + z| from |1 + z|^2 - 1 = a (2 + a) + b^2; the sums are done with their rounding errors (two-sum,
 * two-product by fma), because they cancel wherever |1 + z| is near 1. */
static long double sum_exact(long double x, long double y, long double *error) {
  long double s = x + y, t = s - x;
  *error = (x - (s - t)) + (y - t);
  return s;
}
static wide wide_log1p(wide z) {
  long double a = creall(z), b = cimagl(z), big = fmaxl(fabsl(a), fabsl(b));
  long double im = atan2l(b, 1 + a), e1, e2;
  if (!(big < 1e9L)) return make(logl(hypotl(1 + a, b)), im);
  long double p = b * b, q = a * a, t = sum_exact(2 * a, p, &e1);
  t = sum_exact(t, q, &e2);
  t += e1 + e2 + fmal(b, b, -p) + fmal(a, a, -q);
  if (big > 8) return make(logl(hypotl(1 + a, b)), im);
  return make(0.5L * log1pl(t), im);
}
static wide wide_logistic(wide z) { return 1 / (1 + cexpl(-z)); }
static wide wide_rsqrt(wide z) {
  long double a = creall(z), b = cimagl(z);
  if (isinf(a) || isinf(b))
    return make(isnan(a) || isnan(b) ? (long double)NAN : 0.0L,
                isnan(a) || isnan(b) ? (long double)NAN : copysignl(0.0L, -b));
  if (a == 0 && b == 0)
    return make(INFINITY, copysignl(0.0L, -b)); /* 1 / sqrt(0 + 0i) has a direction only by its sign of zero */
  return 1 / csqrtl(z);
}
static wide wide_cbrt(wide z) {
  long double r = cbrtl(hypotl(creall(z), cimagl(z))), t = cargl(z) / 3;
  return make(r * cosl(t), r * sinl(t));
}
static wide wide_sign(wide z) {
  long double r = hypotl(creall(z), cimagl(z));
  if (isnan(creall(z)) || isnan(cimagl(z))) return make(NAN, NAN);
  if (r == 0) return make(0, 0);
  return make(creall(z) / r, cimagl(z) / r);
}
/* erf has no complex form in XLA. tanh overflows in cexp; ctanhl does not. */

/* ---- loops ---- */

#define LOOP(name, TO, FROM, EXPR)                                                       \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    TO *o = out;                                                                         \
    const FROM *v = in[0];                                                               \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      FROM x = v[j];                                                                     \
      o[j] = (TO)(EXPR);                                                                 \
    }                                                                                    \
  }

/* Wide complex loops for both widths: EXPR from z. */
#define COMPLEX_LOOP(name, T, EXPR)                                                      \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    T *o = out;                                                                          \
    const T *v = in[0];                                                                  \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      wide z = make(v[2 * j], v[2 * j + 1]), r = (EXPR);                                 \
      o[2 * j] = (T)creall(r);                                                           \
      o[2 * j + 1] = (T)cimagl(r);                                                       \
    }                                                                                    \
  }

#define F32_BY_F64(name, EXPR)                                                           \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    float *o = out;                                                                      \
    const float *v = in[0];                                                              \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      double x = v[j];                                                                   \
      o[j] = (float)(EXPR);                                                              \
    }                                                                                    \
  }

/* Functions: id, f32 from a double x, f64 from a double x, complex from a wide z. */
#define FUNCTIONS(X)                                                                          \
  X(ACOS, acos(x), (double)acosl((long double)x), cacosl(z))                                  \
  X(ACOSH, acosh(x), (double)acoshl((long double)x), cacoshl(z))                              \
  X(ASIN, asin(x), (double)asinl((long double)x), casinl(z))                                  \
  X(ASINH, asinh(x), (double)asinhl((long double)x), casinhl(z))                              \
  X(ATAN, atan(x), atan(x), catanl(z))                                                        \
  X(ATANH, atanh(x), (double)atanhl((long double)x), catanhl(z))                              \
  X(CBRT, cbrt(x), (double)cbrtl((long double)x), wide_cbrt(z))                               \
  X(COSH, cosh(x), (double)coshl((long double)x), ccoshl(z))                                  \
  X(COSINE, cos(x), cos(x), ccosl(z))                                                         \
  X(EXPONENTIAL, exp(x), exp(x), wide_exp(z))                                                 \
  X(EXPONENTIAL_MINUS_ONE, expm1(x), (double)expm1l((long double)x), wide_expm1(z))           \
  X(LOG, log(x), log(x), clogl(z))                                                            \
  X(LOG_PLUS_ONE, log1p(x), (double)log1pl((long double)x), wide_log1p(z))                    \
  X(LOGISTIC, logistic(x), (double)(1.0L / (1.0L + expl(-(long double)x))), wide_logistic(z)) \
  X(RSQRT, 1.0 / sqrt(x), (double)(1.0L / sqrtl((long double)x)), wide_rsqrt(z))              \
  X(SINE, sin(x), sin(x), csinl(z))                                                           \
  X(SINH, sinh(x), (double)sinhl((long double)x), csinhl(z))                                  \
  X(TAN, tan(x), tan(x), ctanl(z))                                                            \
  X(TANH, tanh_for_f32(x), (double)tanhl((long double)x), ctanhl(z))

#define FUNCTION_LOOPS(id, e32, e64, ez) \
  F32_BY_F64(id##_f32, e32)              \
  LOOP(id##_f64, double, double, e64)    \
  COMPLEX_LOOP(id##_c64, float, ez)      \
  COMPLEX_LOOP(id##_c128, double, ez)
FUNCTIONS(FUNCTION_LOOPS)

F32_BY_F64(ERF_f32, erf(x))
LOOP(ERF_f64, double, double, erf(x))
LOOP(SQRT_f32, float, float, sqrtf(x)) /* IEEE's square root is exact already */
LOOP(SQRT_f64, double, double, sqrt(x))
COMPLEX_LOOP(SQRT_c64, float, csqrtl(z))
COMPLEX_LOOP(SQRT_c128, double, csqrtl(z))
LOOP(ABS_f32, float, float, fabsf(x))
LOOP(ABS_f64, double, double, fabs(x))
LOOP(NEGATE_f32, float, float, -x)
LOOP(NEGATE_f64, double, double, -x)
COMPLEX_LOOP(NEGATE_c64, float, -z)
COMPLEX_LOOP(NEGATE_c128, double, -z)
LOOP(SIGN_f32, float, float, sign_f64((double)x))
LOOP(SIGN_f64, double, double, sign_f64(x))
COMPLEX_LOOP(SIGN_c64, float, wide_sign(z))
COMPLEX_LOOP(SIGN_c128, double, wide_sign(z))
LOOP(CEIL_f32, float, float, ceilf(x))
LOOP(CEIL_f64, double, double, ceil(x))
LOOP(FLOOR_f32, float, float, floorf(x))
LOOP(FLOOR_f64, double, double, floor(x))
LOOP(ROUND_AFZ_f32, float, float, roundf(x))
LOOP(ROUND_AFZ_f64, double, double, round(x))
LOOP(ROUND_EVEN_f32, float, float, rintf(x))
LOOP(ROUND_EVEN_f64, double, double, round_even(x))
LOOP(IS_FINITE_f32, uint8_t, float, isfinite(x) ? 1 : 0)
LOOP(IS_FINITE_f64, uint8_t, double, isfinite(x) ? 1 : 0)
LOOP(REAL_f32, float, float, x)
LOOP(REAL_f64, double, double, x)
LOOP(IMAG_f32, float, float, 0.0f * (x == x ? 0.0f : 0.0f))
LOOP(IMAG_f64, double, double, 0.0 * (x == x ? 0.0 : 0.0))

/* Complex in, real out. */
#define PART_LOOP(name, T, EXPR)                                                         \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    T *o = out;                                                                          \
    const T *v = in[0];                                                                  \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) o[j] = (T)(EXPR);                                    \
  }
PART_LOOP(REAL_c64, float, v[2 * j])
PART_LOOP(REAL_c128, double, v[2 * j])
PART_LOOP(IMAG_c64, float, v[2 * j + 1])
PART_LOOP(IMAG_c128, double, v[2 * j + 1])
PART_LOOP(ABS_c64, float, hypot((double)v[2 * j], (double)v[2 * j + 1]))
PART_LOOP(ABS_c128, double, hypotl((long double)v[2 * j], (long double)v[2 * j + 1]))

/* ---- integers ---- */

static uint64_t low_bits(uint64_t x, int bits) { return bits >= 64 ? x : x & (((uint64_t)1 << bits) - 1); }
static int count_ones(uint64_t x) {
  int n = 0;
  for (; x; x &= x - 1) n++;
  return n;
}
static int leading_zeros(uint64_t x, int bits) {
  int n = bits;
  for (; x; x >>= 1) n--;
  return n;
}

#define SIGNED(X)           \
  X(s8, int8_t, uint8_t)    \
  X(s16, int16_t, uint16_t) \
  X(s32, int32_t, uint32_t) \
  X(s64, int64_t, uint64_t)
#define UNSIGNED(X)          \
  X(u8, uint8_t, uint8_t)    \
  X(u16, uint16_t, uint16_t) \
  X(u32, uint32_t, uint32_t) \
  X(u64, uint64_t, uint64_t)

#define INT_LOOPS(t, T, U)                                              \
  LOOP(NEGATE_##t, T, T, (U)(0u - (U)x))                                \
  LOOP(NOT_##t, T, T, (U)(~(U)x))                                       \
  LOOP(POPCNT_##t, T, T, count_ones(low_bits((uint64_t)(U)x, k->bits))) \
  LOOP(CLZ_##t, T, T, leading_zeros(low_bits((uint64_t)(U)x, k->bits), k->bits))
SIGNED(INT_LOOPS)
UNSIGNED(INT_LOOPS)
#define SIGNED_LOOPS(t, T, U)                        \
  LOOP(ABS_##t, T, T, x < 0 ? (T)(U)(0u - (U)x) : x) \
  LOOP(SIGN_##t, T, T, (x > 0) - (x < 0))
SIGNED(SIGNED_LOOPS)
#define UNSIGNED_LOOPS(t, T, U) \
  LOOP(ABS_##t, T, T, x)        \
  LOOP(SIGN_##t, T, T, x ? 1 : 0)
UNSIGNED(UNSIGNED_LOOPS)
LOOP(NOT_pred, uint8_t, uint8_t, x ? 0 : 1)

/* ---- the table ---- */

/* The native types, in the order of the columns below. */
enum {
  COL_S8,
  COL_S16,
  COL_S32,
  COL_S64,
  COL_U8,
  COL_U16,
  COL_U32,
  COL_U64,
  COL_F32,
  COL_F64,
  COL_C64,
  COL_C128,
  COL_PRED,
  COLS
};
static int column(sn_type t) {
  switch (t) {
    case SN_TYPE_S8:
      return COL_S8;
    case SN_TYPE_S16:
      return COL_S16;
    case SN_TYPE_S32:
      return COL_S32;
    case SN_TYPE_S64:
      return COL_S64;
    case SN_TYPE_U8:
      return COL_U8;
    case SN_TYPE_U16:
      return COL_U16;
    case SN_TYPE_U32:
      return COL_U32;
    case SN_TYPE_U64:
      return COL_U64;
    case SN_TYPE_F32:
      return COL_F32;
    case SN_TYPE_F64:
      return COL_F64;
    case SN_TYPE_C64:
      return COL_C64;
    case SN_TYPE_C128:
      return COL_C128;
    case SN_TYPE_PRED:
      return COL_PRED;
    default:
      return -1;
  }
}

#define INT_COLS(id)                   id##_s8, id##_s16, id##_s32, id##_s64, id##_u8, id##_u16, id##_u32, id##_u64
#define NO_INTS                        NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
#define FUNCTION_ROW(id, e32, e64, ez) {SN_OP_##id, {NO_INTS, id##_f32, id##_f64, id##_c64, id##_c128, NULL}},

static const struct {
  sn_opcode op;
  sn_ev_fn fn[COLS];
} rows[] = {
    FUNCTIONS(FUNCTION_ROW){SN_OP_ERF, {NO_INTS, ERF_f32, ERF_f64, NULL, NULL, NULL}},
    {SN_OP_SQRT, {NO_INTS, SQRT_f32, SQRT_f64, SQRT_c64, SQRT_c128, NULL}},
    {SN_OP_ABS, {INT_COLS(ABS), ABS_f32, ABS_f64, ABS_c64, ABS_c128, NULL}},
    {SN_OP_NEGATE, {INT_COLS(NEGATE), NEGATE_f32, NEGATE_f64, NEGATE_c64, NEGATE_c128, NULL}},
    {SN_OP_SIGN, {INT_COLS(SIGN), SIGN_f32, SIGN_f64, SIGN_c64, SIGN_c128, NULL}},
    {SN_OP_CEIL, {NO_INTS, CEIL_f32, CEIL_f64, NULL, NULL, NULL}},
    {SN_OP_FLOOR, {NO_INTS, FLOOR_f32, FLOOR_f64, NULL, NULL, NULL}},
    {SN_OP_ROUND_NEAREST_AFZ, {NO_INTS, ROUND_AFZ_f32, ROUND_AFZ_f64, NULL, NULL, NULL}},
    {SN_OP_ROUND_NEAREST_EVEN, {NO_INTS, ROUND_EVEN_f32, ROUND_EVEN_f64, NULL, NULL, NULL}},
    {SN_OP_IS_FINITE, {NO_INTS, IS_FINITE_f32, IS_FINITE_f64, NULL, NULL, NULL}},
    {SN_OP_REAL, {NO_INTS, REAL_f32, REAL_f64, REAL_c64, REAL_c128, NULL}},
    {SN_OP_IMAG, {NO_INTS, IMAG_f32, IMAG_f64, IMAG_c64, IMAG_c128, NULL}},
    {SN_OP_NOT, {INT_COLS(NOT), NULL, NULL, NULL, NULL, NOT_pred}},
    {SN_OP_POPCNT, {INT_COLS(POPCNT), NULL, NULL, NULL, NULL, NULL}},
    {SN_OP_COUNT_LEADING_ZEROS, {INT_COLS(CLZ), NULL, NULL, NULL, NULL, NULL}},
};

sn_ev_fn sn_ev_unary_fn(sn_opcode op, sn_type t) {
  int c = column(t);
  if (c < 0) return NULL;
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
    if (rows[r].op == op) return rows[r].fn[c];
  return NULL;
}

sn_status sn_eval_unary(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
