/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* f32 and f64. What rounds to nearest and flushes nothing runs in vector loops; other roundings, flushing and saturation take the careful road. The approximate functions
 * are exact ones rounded: better than a device's, within what its manual allows. */
#include <fenv.h>
#include <float.h>

#include "exec_lanes.h"

typedef float f32;
typedef double f64;

static inline f32 nan_f32(void) {
  const uint32_t bits = 0x7fffffffu;
  f32 x;
  memcpy(&x, &bits, 4);
  return x;
}
static inline f64 nan_f64(void) {
  const uint64_t bits = 0xfff8000000000000ull;
  f64 x;
  memcpy(&x, &bits, 8);
  return x;
}

/* ---- round to nearest ---- */

#define BOTH(T, f)                                                                                         \
  EMU_2(add_##T, T, T, T, x + y)                                                                           \
  EMU_2(sub_##T, T, T, T, x - y)                                                                           \
  EMU_2(mul_##T, T, T, T, x * y)                                                                           \
  EMU_2(div_##T, T, T, T, x / y)                                                                           \
  EMU_3(fma_##T, T, T, T, T, fma##f(x, y, z))                                                              \
  EMU_1(rcp_##T, T, T, (T)1 / x)                                                                           \
  EMU_1(sqrt_##T, T, T, sqrt##f(x))                                                                        \
  EMU_1(neg_##T, T, T, -x)                                                                                 \
  EMU_1(abs_##T, T, T, fabs##f(x))                                                                         \
  EMU_2(copysign_##T, T, T, T, copysign##f(y, x))                                                          \
  EMU_2(min_##T, T, T, T, least_##T(x, y))                                                                 \
  EMU_2(max_##T, T, T, T, most_##T(x, y))                                                                  \
  EMU_2(min_nan_##T, T, T, T, x != x || y != y ? nan_##T() : least_##T(x, y))                              \
  EMU_2(max_nan_##T, T, T, T, x != x || y != y ? nan_##T() : most_##T(x, y))
/* The number beside a NaN; -0 below +0. */
#define ENDS(T)                                                                                                                  \
  static inline T least_##T(T x, T y) { return x != x ? (y != y ? nan_##T() : y) : y != y ? x : x < y || (x == y && signbit(x)) ? x : y; } \
  static inline T most_##T(T x, T y) { return x != x ? (y != y ? nan_##T() : y) : y != y ? x : x > y || (x == y && !signbit(x)) ? x : y; }
ENDS(f32)
ENDS(f64)
BOTH(f32, f)
BOTH(f64, )

/* ---- approximations ---- */

EMU_1(exp2_f32, f32, f32, exp2f(x))
EMU_1(log2_f32, f32, f32, (f32)log2((double)x))
EMU_1(sin_f32, f32, f32, (f32)sin((double)x))
EMU_1(cos_f32, f32, f32, (f32)cos((double)x))
EMU_1(tanh_f32, f32, f32, (f32)tanh((double)x))
EMU_1(rsqrt_f32, f32, f32, (f32)(1 / sqrt((double)x)))
EMU_1(rsqrt_f64, f64, f64, 1 / sqrt(x))

/* Of f64 a device looks at the upper word alone, and gives no more. */
static inline f64 upper(f64 x) {
  uint64_t u;
  memcpy(&u, &x, 8);
  u &= 0xffffffff00000000ull;
  memcpy(&x, &u, 8);
  return fabs(x) < DBL_MIN ? copysign(0, x) : x;
}
EMU_1(rcp_upper, f64, f64, upper(1 / upper(x)))
EMU_1(rsqrt_upper, f64, f64, upper(1 / sqrt(upper(x))))

/* testp.T p, a: a class a bit of `sub`. */
#define TESTP(T)                                                                                                                     \
  static void testp_##T(emu_warp *w, const emu_ins *i, uint32_t mask) {                                                              \
    static const uint8_t of[] = {FP_NAN, FP_INFINITE, FP_ZERO, FP_SUBNORMAL, FP_NORMAL};                                              \
    const T *a = EMU_AT(const T, i->s[0]);                                                                                            \
    uint32_t r = 0;                                                                                                                   \
    EMU_FOR_LANES(l, mask) {                                                                                                          \
      for (int k = 0; k < 5; k++) r |= (uint32_t)(fpclassify(a[l]) == of[k] && ((i->sub >> k) & 1)) << l;                              \
    }                                                                                                                                 \
    emu_mask_set(w, i->d, r, mask);                                                                                                   \
  }
TESTP(f32)
TESTP(f64)

/* ---- the careful road ---- */

typedef void (*lanes_f32)(f32 *r, const f32 *x, const f32 *y, const f32 *z);
typedef void (*lanes_f64)(f64 *r, const f64 *x, const f64 *y, const f64 *z);
#define LANES(name, T, expr)                                              \
  static void name(T *r, const T *x, const T *y, const T *z) {            \
    (void)y;                                                              \
    (void)z;                                                              \
    for (int l = 0; l < EMU_LANES; l++) r[l] = (expr);                    \
  }

static int host_mode(uint64_t flags) { return flags & EMU_F(RZ) ? FE_TOWARDZERO : flags & EMU_F(RM) ? FE_DOWNWARD : flags & EMU_F(RP) ? FE_UPWARD : FE_TONEAREST; }

static void flush_f32(f32 *x) {
  for (int l = 0; l < EMU_LANES; l++) x[l] = fabsf(x[l]) < FLT_MIN ? copysignf(0, x[l]) : x[l];
}
static void flush_f64(f64 *x) { (void)x; } /* nothing flushes f64 but the approximations, which do it themselves */

#define CAREFUL(T)                                                                                        \
  static void careful_##T(emu_warp *w, const emu_ins *i, uint32_t mask, lanes_##T op, int n) {            \
    lanes_##T volatile run = op; /* what is computed stays between the two changes of the mode */         \
    T in[3][EMU_LANES], r[EMU_LANES], *d = EMU_AT(T, i->d);                                               \
    int was = fegetround();                                                                               \
    memset(in, 0, sizeof in);                                                                             \
    for (int k = 0; k < n; k++) {                                                                         \
      memcpy(in[k], emu_at(w, i->s[k]), sizeof in[k]);                                                    \
      if (i->flags & EMU_F(FTZ)) flush_##T(in[k]);                                                        \
    }                                                                                                     \
    fesetround(host_mode(i->flags));                                                                      \
    run(r, in[0], in[1], in[2]);                                                                          \
    fesetround(was);                                                                                      \
    if (i->flags & EMU_F(FTZ)) flush_##T(r);                                                              \
    if (i->flags & EMU_F(SAT)) {                                                                          \
      for (int l = 0; l < EMU_LANES; l++) r[l] = r[l] > 0 ? (r[l] < 1 ? r[l] : 1) : 0;                    \
    }                                                                                                     \
    EMU_FOR_LANES(l, mask) d[l] = r[l];                                                                   \
  }
CAREFUL(f32)
CAREFUL(f64)

#define CAREFULLY(op, T, n, expr)                                                                                     \
  LANES(lanes_##op##_##T, T, expr)                                                                                    \
  static void careful_##op##_##T(emu_warp *w, const emu_ins *i, uint32_t mask) { careful_##T(w, i, mask, lanes_##op##_##T, n); }
CAREFULLY(add, f32, 2, x[l] + y[l])
CAREFULLY(sub, f32, 2, x[l] - y[l])
CAREFULLY(mul, f32, 2, x[l] * y[l])
CAREFULLY(div, f32, 2, x[l] / y[l])
CAREFULLY(fma, f32, 3, fmaf(x[l], y[l], z[l]))
CAREFULLY(rcp, f32, 1, 1 / x[l])
CAREFULLY(sqrt, f32, 1, sqrtf(x[l]))
CAREFULLY(neg, f32, 1, -x[l])
CAREFULLY(abs, f32, 1, fabsf(x[l]))
CAREFULLY(min, f32, 2, least_f32(x[l], y[l]))
CAREFULLY(max, f32, 2, most_f32(x[l], y[l]))
CAREFULLY(min_nan, f32, 2, x[l] != x[l] || y[l] != y[l] ? nan_f32() : least_f32(x[l], y[l]))
CAREFULLY(max_nan, f32, 2, x[l] != x[l] || y[l] != y[l] ? nan_f32() : most_f32(x[l], y[l]))
CAREFULLY(exp2, f32, 1, exp2f(x[l]))
CAREFULLY(log2, f32, 1, (f32)log2((double)x[l]))
CAREFULLY(sin, f32, 1, (f32)sin((double)x[l]))
CAREFULLY(cos, f32, 1, (f32)cos((double)x[l]))
CAREFULLY(rsqrt, f32, 1, (f32)(1 / sqrt((double)x[l])))
CAREFULLY(add, f64, 2, x[l] + y[l])
CAREFULLY(sub, f64, 2, x[l] - y[l])
CAREFULLY(mul, f64, 2, x[l] * y[l])
CAREFULLY(div, f64, 2, x[l] / y[l])
CAREFULLY(fma, f64, 3, fma(x[l], y[l], z[l]))
CAREFULLY(rcp, f64, 1, 1 / x[l])
CAREFULLY(sqrt, f64, 1, sqrt(x[l]))

/* ---- the table ---- */

#define NEAREST EMU_F(RN)
#define OTHERS (EMU_F(RZ) | EMU_F(RM) | EMU_F(RP) | EMU_F(FTZ) | EMU_F(SAT))
#define PAIR(op) {[EMU_F32] = op##_f32, [EMU_F64] = op##_f64}
#define CAREFUL_PAIR(op) {[EMU_F32] = careful_##op##_f32, [EMU_F64] = careful_##op##_f64}
#define SINGLE(op) {[EMU_F32] = op##_f32}
#define CAREFUL_SINGLE(op) {[EMU_F32] = careful_##op##_f32}

const emu_row emu_rows_float[] = {
    {"add", "ttt", 0, NEAREST | OTHERS, PAIR(add), CAREFUL_PAIR(add), OTHERS},
    {"sub", "ttt", 0, NEAREST | OTHERS, PAIR(sub), CAREFUL_PAIR(sub), OTHERS},
    {"mul", "ttt", 0, NEAREST | OTHERS, PAIR(mul), CAREFUL_PAIR(mul), OTHERS},
    {"fma", "tttt", 0, NEAREST | OTHERS, PAIR(fma), CAREFUL_PAIR(fma), OTHERS},
    {"mad", "tttt", 0, NEAREST | OTHERS, PAIR(fma), CAREFUL_PAIR(fma), OTHERS},
    {"div", "ttt", 0, NEAREST | OTHERS, PAIR(div), CAREFUL_PAIR(div), OTHERS},
    {"div", "ttt", EMU_F(APPROX), EMU_F(FTZ), SINGLE(div), CAREFUL_SINGLE(div), EMU_F(FTZ)},
    {"div", "ttt", EMU_F(FULL_RANGE), EMU_F(FTZ), SINGLE(div), CAREFUL_SINGLE(div), EMU_F(FTZ)},
    {"rcp", "tt", EMU_F(APPROX) | EMU_F(FTZ), 0, {[EMU_F32] = careful_rcp_f32, [EMU_F64] = rcp_upper}, {0}, 0},
    {"rcp", "tt", EMU_F(APPROX), 0, SINGLE(rcp), {0}, 0},
    {"rcp", "tt", 0, NEAREST | OTHERS, PAIR(rcp), CAREFUL_PAIR(rcp), OTHERS},
    {"sqrt", "tt", EMU_F(APPROX), EMU_F(FTZ), SINGLE(sqrt), CAREFUL_SINGLE(sqrt), EMU_F(FTZ)},
    {"sqrt", "tt", 0, NEAREST | OTHERS, PAIR(sqrt), CAREFUL_PAIR(sqrt), OTHERS},
    {"rsqrt", "tt", EMU_F(APPROX) | EMU_F(FTZ), 0, {[EMU_F32] = careful_rsqrt_f32, [EMU_F64] = rsqrt_upper}, {0}, 0},
    {"rsqrt", "tt", EMU_F(APPROX), 0, PAIR(rsqrt), {0}, 0},
    {"ex2", "tt", EMU_F(APPROX), EMU_F(FTZ), SINGLE(exp2), CAREFUL_SINGLE(exp2), EMU_F(FTZ)},
    {"lg2", "tt", EMU_F(APPROX), EMU_F(FTZ), SINGLE(log2), CAREFUL_SINGLE(log2), EMU_F(FTZ)},
    {"sin", "tt", EMU_F(APPROX), EMU_F(FTZ), SINGLE(sin), CAREFUL_SINGLE(sin), EMU_F(FTZ)},
    {"cos", "tt", EMU_F(APPROX), EMU_F(FTZ), SINGLE(cos), CAREFUL_SINGLE(cos), EMU_F(FTZ)},
    {"tanh", "tt", EMU_F(APPROX), 0, SINGLE(tanh), {0}, 0},
    {"neg", "tt", 0, EMU_F(FTZ), PAIR(neg), CAREFUL_SINGLE(neg), EMU_F(FTZ)},
    {"abs", "tt", 0, EMU_F(FTZ), PAIR(abs), CAREFUL_SINGLE(abs), EMU_F(FTZ)},
    {"min", "ttt", EMU_F(NAN), EMU_F(FTZ), PAIR(min_nan), CAREFUL_SINGLE(min_nan), EMU_F(FTZ)},
    {"max", "ttt", EMU_F(NAN), EMU_F(FTZ), PAIR(max_nan), CAREFUL_SINGLE(max_nan), EMU_F(FTZ)},
    {"min", "ttt", 0, EMU_F(FTZ), PAIR(min), CAREFUL_SINGLE(min), EMU_F(FTZ)},
    {"max", "ttt", 0, EMU_F(FTZ), PAIR(max), CAREFUL_SINGLE(max), EMU_F(FTZ)},
    {"copysign", "ttt", 0, 0, PAIR(copysign), {0}, 0},
    {"testp", "pt", 0, 0, {[EMU_F32] = testp_f32, [EMU_F64] = testp_f64}, {0}, 0},
    {NULL, NULL, 0, 0, {0}, {0}, 0},
};
