/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels of two operands, compare and clamp. Integers wrap; x / 0 is all ones, x % 0 is x, the smallest integer
 * divided by -1 is itself. */
#include <complex.h>
#include <math.h>

#include "eval_internal.h"

typedef long double complex wide;

static wide make(long double re, long double im) {
  union {
    long double part[2];
    wide z;
  } u;
  u.part[0] = re;
  u.part[1] = im;
  return u.z;
}

#define LOOP(name, T, EXPR)                                                              \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    T *o = out;                                                                          \
    const T *v = in[0], *w = in[1];                                                      \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      T x = v[j], y = w[j];                                                              \
      o[j] = (T)(EXPR);                                                                  \
    }                                                                                    \
  }
#define F32_BY_F64(name, EXPR)                                                           \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    float *o = out;                                                                      \
    const float *v = in[0], *w = in[1];                                                  \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      double x = v[j], y = w[j];                                                         \
      o[j] = (float)(EXPR);                                                              \
    }                                                                                    \
  }
#define COMPLEX_LOOP(name, T, EXPR)                                                        \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {   \
    T *o = out;                                                                            \
    const T *v = in[0], *w = in[1];                                                        \
    (void)k;                                                                               \
    for (int64_t j = 0; j < n; j++) {                                                      \
      wide x = make(v[2 * j], v[2 * j + 1]), y = make(w[2 * j], w[2 * j + 1]), r = (EXPR); \
      o[2 * j] = (T)creall(r);                                                             \
      o[2 * j + 1] = (T)cimagl(r);                                                         \
    }                                                                                      \
  }

/* ---- floats ---- */

static wide wide_pow(wide x, wide y) {
  if (creall(y) == 0 && cimagl(y) == 0) return make(1, 0);
  if (creall(x) == 0 && cimagl(x) == 0) return creall(y) > 0 ? make(0, 0) : cpowl(x, y);
  return cexpl(y * clogl(x));
}
/* -i log((x + i y) / sqrt(x^2 + y^2)), which is atan2(y, x) on the real line; called as atan2(a, b) with a above b. */
static wide wide_atan2(wide a, wide b) {
  if (cimagl(a) == 0 && cimagl(b) == 0) return make(atan2l(creall(a), creall(b)), 0);
  return make(0, -1) * clogl((b + make(0, 1) * a) / csqrtl(b * b + a * a));
}

LOOP(ADD_f32, float, x + y)
LOOP(ADD_f64, double, x + y)
LOOP(SUBTRACT_f32, float, x - y)
LOOP(SUBTRACT_f64, double, x - y)
LOOP(MULTIPLY_f32, float, x * y)
LOOP(MULTIPLY_f64, double, x * y)
LOOP(DIVIDE_f32, float, x / y)
LOOP(DIVIDE_f64, double, x / y)
LOOP(MAXIMUM_f32, float, sn_ev_max_f32(x, y))
LOOP(MAXIMUM_f64, double, sn_ev_max_f64(x, y))
LOOP(MINIMUM_f32, float, sn_ev_min_f32(x, y))
LOOP(MINIMUM_f64, double, sn_ev_min_f64(x, y))
LOOP(REMAINDER_f32, float, fmodf(x, y))
LOOP(REMAINDER_f64, double, fmod(x, y))
F32_BY_F64(POWER_f32, pow(x, y))
LOOP(POWER_f64, double, pow(x, y))
F32_BY_F64(ATAN2_f32, atan2(x, y))
LOOP(ATAN2_f64, double, atan2(x, y))

#define COMPLEX_LOOPS(id, EXPR)       \
  COMPLEX_LOOP(id##_c64, float, EXPR) \
  COMPLEX_LOOP(id##_c128, double, EXPR)
COMPLEX_LOOPS(DIVIDE, x / y)
COMPLEX_LOOPS(POWER, wide_pow(x, y))
COMPLEX_LOOPS(ATAN2, wide_atan2(x, y))

/* Sums by part; products with the inner terms in the wider type. */
#define COMPLEX_PARTS(name, T, W, RE, IM)                                                \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    T *o = out;                                                                          \
    const T *v = in[0], *w = in[1];                                                      \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      W a = v[2 * j], b = v[2 * j + 1], c = w[2 * j], d = w[2 * j + 1];                  \
      o[2 * j] = (T)(RE);                                                                \
      o[2 * j + 1] = (T)(IM);                                                            \
    }                                                                                    \
  }
COMPLEX_PARTS(ADD_c64, float, float, a + c, b + d)
COMPLEX_PARTS(ADD_c128, double, double, a + c, b + d)
COMPLEX_PARTS(SUBTRACT_c64, float, float, a - c, b - d)
COMPLEX_PARTS(SUBTRACT_c128, double, double, a - c, b - d)
COMPLEX_PARTS(MULTIPLY_c64, float, double, a * c - b * d, a * d + b * c)
COMPLEX_PARTS(MULTIPLY_c128, double, long double, a * c - b * d, a * d + b * c)

/* ---- integers ---- */

static uint64_t low_bits(uint64_t x, int bits) { return bits >= 64 ? x : x & (((uint64_t)1 << bits) - 1); }

/* XLA's integer power: by squaring, wrapping; negative exponents leave only powers of 1 and -1. */
static uint64_t pow_u64(uint64_t x, uint64_t y) {
  uint64_t r = 1;
  for (; y; y >>= 1, x *= x)
    if (y & 1) r *= x;
  return r;
}
static int64_t pow_s64(int64_t x, int64_t y) {
  if (y >= 0) return (int64_t)pow_u64((uint64_t)x, (uint64_t)y);
  if (x == 1) return 1;
  if (x == -1) return y % 2 ? -1 : 1;
  return 0;
}

static uint64_t mul_high_u64(uint64_t x, uint64_t y) {
  uint64_t xl = x & UINT32_MAX, xh = x >> 32, yl = y & UINT32_MAX, yh = y >> 32;
  uint64_t mid = xh * yl + ((xl * yl) >> 32), mid2 = xl * yh + (mid & UINT32_MAX);
  return xh * yh + (mid >> 32) + (mid2 >> 32);
}
static int64_t mul_high_s64(int64_t x, int64_t y) {
  uint64_t r = mul_high_u64((uint64_t)x, (uint64_t)y);
  if (x < 0) r -= (uint64_t)y;
  if (y < 0) r -= (uint64_t)x;
  return (int64_t)r;
}
static int64_t mulhi_s(int64_t x, int64_t y, int bits) { return bits == 64 ? mul_high_s64(x, y) : (x * y) >> bits; }
static uint64_t mulhi_u(uint64_t x, uint64_t y, int bits) { return bits == 64 ? mul_high_u64(x, y) : (x * y) >> bits; }

/* Amounts count as unsigned: what is negative or beyond the width shifts everything out. */
static uint64_t shift_left(uint64_t x, uint64_t by, int bits) { return by >= (uint64_t)bits ? 0 : x << by; }
static uint64_t shift_right(uint64_t x, uint64_t by, int bits) {
  return by >= (uint64_t)bits ? 0 : low_bits(x, bits) >> by;
}
static int64_t shift_sign(int64_t x, uint64_t by, int bits) {
  if (by >= (uint64_t)bits) return x < 0 ? -1 : 0;
  return x < 0 ? ~(int64_t)(~(uint64_t)x >> by) : (int64_t)((uint64_t)x >> by);
}
static int64_t sign_extend(uint64_t x, int bits) {
  uint64_t top = (uint64_t)1 << (bits - 1);
  return (int64_t)((low_bits(x, bits) ^ top) - top);
}

#define SIGNED(X)           \
  X(s8, int8_t, uint8_t)    \
  X(s16, int16_t, uint16_t) \
  X(s32, int32_t, uint32_t) \
  X(s64, int64_t, uint64_t)
#define UNSIGNED(X) \
  X(u8, uint8_t)    \
  X(u16, uint16_t)  \
  X(u32, uint32_t)  \
  X(u64, uint64_t)

/* Arithmetic goes through uint32_t or wider: smaller unsigned types would promote to int and overflow. */
#define WRAP(U, x, op, y) ((U)((uint64_t)(x)op(uint64_t)(y)))
#define SIGNED_LOOPS(t, T, U)                                                                    \
  LOOP(ADD_##t, T, (U)((U)x + (U)y))                                                             \
  LOOP(SUBTRACT_##t, T, (U)((U)x - (U)y))                                                        \
  LOOP(MULTIPLY_##t, T, WRAP(U, (U)x, *, (U)y))                                                  \
  LOOP(DIVIDE_##t, T, y == 0 ? (T)-1 : y == -1 ? (T)(U)(0u - (U)x) : (T)(x / y))                 \
  LOOP(REMAINDER_##t, T, y == 0 ? x : y == -1 ? (T)0 : (T)(x % y))                               \
  LOOP(POWER_##t, T, pow_s64(x, y))                                                              \
  LOOP(SHR_A_##t, T, shift_sign(x, low_bits((uint64_t)(U)y, k->bits), k->bits))                  \
  LOOP(SHR_L_##t, T, (U)shift_right((uint64_t)(U)x, low_bits((uint64_t)(U)y, k->bits), k->bits)) \
  LOOP(SHL_##t, T, (U)shift_left((uint64_t)(U)x, low_bits((uint64_t)(U)y, k->bits), k->bits))    \
  LOOP(MULHI_##t, T, mulhi_s(x, y, k->bits))
#define UNSIGNED_LOOPS(t, T)                                                  \
  LOOP(ADD_##t, T, x + y)                                                     \
  LOOP(SUBTRACT_##t, T, x - y)                                                \
  LOOP(MULTIPLY_##t, T, WRAP(T, x, *, y))                                     \
  LOOP(DIVIDE_##t, T, y == 0 ? (T)low_bits(UINT64_MAX, k->bits) : (T)(x / y)) \
  LOOP(REMAINDER_##t, T, y == 0 ? x : (T)(x % y))                             \
  LOOP(POWER_##t, T, pow_u64(x, y))                                           \
  LOOP(SHR_A_##t, T, (T)shift_sign(sign_extend(x, k->bits), y, k->bits))      \
  LOOP(SHR_L_##t, T, shift_right(x, y, k->bits))                              \
  LOOP(SHL_##t, T, shift_left(x, y, k->bits))                                 \
  LOOP(MULHI_##t, T, mulhi_u(x, y, k->bits))
#define BOTH_LOOPS(t, T)              \
  LOOP(MAXIMUM_##t, T, x > y ? x : y) \
  LOOP(MINIMUM_##t, T, x < y ? x : y) \
  LOOP(AND_##t, T, x & y)              \
  LOOP(OR_##t, T, x | y)              \
  LOOP(XOR_##t, T, x ^ y)
SIGNED(SIGNED_LOOPS)
UNSIGNED(UNSIGNED_LOOPS)
#define BOTH_SIGNED(t, T, U) BOTH_LOOPS(t, T)
SIGNED(BOTH_SIGNED)
UNSIGNED(BOTH_LOOPS)

/* pred: addition is or, multiplication is and. */
LOOP(OR_pred, uint8_t, (x || y) ? 1 : 0)
LOOP(AND_pred, uint8_t, (x && y) ? 1 : 0)
LOOP(XOR_pred, uint8_t, (!x != !y) ? 1 : 0)

/* complex(re, im): float pairs to complex. */
#define COMPLEX_OF(name, T)                                                              \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    T *o = out;                                                                          \
    const T *v = in[0], *w = in[1];                                                      \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      o[2 * j] = v[j];                                                                   \
      o[2 * j + 1] = w[j];                                                               \
    }                                                                                    \
  }
COMPLEX_OF(COMPLEX_f32, float)
COMPLEX_OF(COMPLEX_f64, double)

/* ---- the table ---- */

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

#define INT_COLS(id)     id##_s8, id##_s16, id##_s32, id##_s64, id##_u8, id##_u16, id##_u32, id##_u64
#define FLOAT_COLS(id)   id##_f32, id##_f64
#define COMPLEX_COLS(id) id##_c64, id##_c128
#define NO_INTS          NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
#define NO_PAIR          NULL, NULL
static const struct {
  sn_opcode op;
  sn_ev_fn fn[COLS];
} rows[] = {
    {SN_OP_ADD, {INT_COLS(ADD), FLOAT_COLS(ADD), COMPLEX_COLS(ADD), OR_pred}},
    {SN_OP_SUBTRACT, {INT_COLS(SUBTRACT), FLOAT_COLS(SUBTRACT), COMPLEX_COLS(SUBTRACT), NULL}},
    {SN_OP_MULTIPLY, {INT_COLS(MULTIPLY), FLOAT_COLS(MULTIPLY), COMPLEX_COLS(MULTIPLY), AND_pred}},
    {SN_OP_DIVIDE, {INT_COLS(DIVIDE), FLOAT_COLS(DIVIDE), COMPLEX_COLS(DIVIDE), NULL}},
    {SN_OP_REMAINDER, {INT_COLS(REMAINDER), FLOAT_COLS(REMAINDER), NO_PAIR, NULL}},
    {SN_OP_POWER, {INT_COLS(POWER), FLOAT_COLS(POWER), COMPLEX_COLS(POWER), NULL}},
    {SN_OP_MAXIMUM, {INT_COLS(MAXIMUM), FLOAT_COLS(MAXIMUM), NO_PAIR, OR_pred}},
    {SN_OP_MINIMUM, {INT_COLS(MINIMUM), FLOAT_COLS(MINIMUM), NO_PAIR, AND_pred}},
    {SN_OP_AND, {INT_COLS(AND), NO_PAIR, NO_PAIR, AND_pred}},
    {SN_OP_OR, {INT_COLS(OR), NO_PAIR, NO_PAIR, OR_pred}},
    {SN_OP_XOR, {INT_COLS(XOR), NO_PAIR, NO_PAIR, XOR_pred}},
    {SN_OP_SHIFT_LEFT, {INT_COLS(SHL), NO_PAIR, NO_PAIR, NULL}},
    {SN_OP_SHIFT_RIGHT_ARITHMETIC, {INT_COLS(SHR_A), NO_PAIR, NO_PAIR, NULL}},
    {SN_OP_SHIFT_RIGHT_LOGICAL, {INT_COLS(SHR_L), NO_PAIR, NO_PAIR, NULL}},
    {SN_OP_MULHI, {INT_COLS(MULHI), NO_PAIR, NO_PAIR, NULL}},
    {SN_OP_ATAN2, {NO_INTS, FLOAT_COLS(ATAN2), COMPLEX_COLS(ATAN2), NULL}},
    {SN_OP_COMPLEX, {NO_INTS, FLOAT_COLS(COMPLEX), NO_PAIR, NULL}},
};

sn_ev_fn sn_ev_binary_fn(sn_opcode op, sn_type t) {
  int c = column(t);
  if (c < 0) return NULL;
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
    if (rows[r].op == op) return rows[r].fn[c];
  return NULL;
}

/* ---- compare ---- */

#define COMPARE_LOOP(name, T, EXPR)                                                      \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    uint8_t *o = out;                                                                    \
    const T *v = in[0], *w = in[1];                                                      \
    (void)k;                                                                             \
    for (int64_t j = 0; j < n; j++) {                                                    \
      T x = v[j], y = w[j];                                                              \
      o[j] = (EXPR) ? 1 : 0;                                                             \
    }                                                                                    \
  }
#define COMPARE_LOOPS(t, T)       \
  COMPARE_LOOP(EQ_##t, T, x == y) \
  COMPARE_LOOP(NE_##t, T, x != y) \
  COMPARE_LOOP(GE_##t, T, x >= y) \
  COMPARE_LOOP(GT_##t, T, x > y)  \
  COMPARE_LOOP(LE_##t, T, x <= y) \
  COMPARE_LOOP(LT_##t, T, x < y)
#define COMPARE_SIGNED(t, T, U) COMPARE_LOOPS(t, T)
SIGNED(COMPARE_SIGNED)
UNSIGNED(COMPARE_LOOPS)
COMPARE_LOOPS(f32, float)
COMPARE_LOOPS(f64, double)

/* Total order: -NaN < -inf < … < -0 < +0 < … < inf < NaN, which is the order of the bits read as sign and magnitude. */
COMPARE_LOOPS(t32, uint32_t)
COMPARE_LOOPS(t64, uint64_t)

#define DIRECTIONS(t) \
  { EQ_##t, NE_##t, GE_##t, GT_##t, LE_##t, LT_##t }
static const sn_ev_fn compares[COLS][6] = {
    [COL_S8] = DIRECTIONS(s8),   [COL_S16] = DIRECTIONS(s16), [COL_S32] = DIRECTIONS(s32), [COL_S64] = DIRECTIONS(s64),
    [COL_U8] = DIRECTIONS(u8),   [COL_U16] = DIRECTIONS(u16), [COL_U32] = DIRECTIONS(u32), [COL_U64] = DIRECTIONS(u64),
    [COL_F32] = DIRECTIONS(f32), [COL_F64] = DIRECTIONS(f64), [COL_PRED] = DIRECTIONS(u8),
};
static const sn_ev_fn totals32[6] = DIRECTIONS(t32), totals64[6] = DIRECTIONS(t64);

static uint32_t order32(uint32_t x) { return x & 0x80000000u ? ~x : x | 0x80000000u; }
static uint64_t order64(uint64_t x) { return x >> 63 ? ~x : x | (uint64_t)1 << 63; }

/* Blocks of order-preserving keys, then the unsigned comparison. */
enum { BLOCK = 256 };
static void total_f32(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {
  uint32_t x[BLOCK], y[BLOCK];
  const uint32_t *v = in[0], *w = in[1];
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = n - at < BLOCK ? n - at : BLOCK;
    for (int64_t j = 0; j < m; j++) {
      x[j] = order32(v[at + j]);
      y[j] = order32(w[at + j]);
    }
    totals32[k->a](k, m, (uint8_t *)out + at, (const void *const[]){x, y});
  }
}
static void total_f64(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {
  uint64_t x[BLOCK], y[BLOCK];
  const uint64_t *v = in[0], *w = in[1];
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = n - at < BLOCK ? n - at : BLOCK;
    for (int64_t j = 0; j < m; j++) {
      x[j] = order64(v[at + j]);
      y[j] = order64(w[at + j]);
    }
    totals64[k->a](k, m, (uint8_t *)out + at, (const void *const[]){x, y});
  }
}

#define COMPLEX_COMPARE(name, T)                                                         \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    uint8_t *o = out;                                                                    \
    const T *v = in[0], *w = in[1];                                                      \
    for (int64_t j = 0; j < n; j++) {                                                    \
      bool same = v[2 * j] == w[2 * j] && v[2 * j + 1] == w[2 * j + 1];                  \
      o[j] = same == (k->a == SN_DIRECTION_EQ);                                          \
    }                                                                                    \
  }
COMPLEX_COMPARE(compare_c64, float)
COMPLEX_COMPARE(compare_c128, double)

sn_ev_fn sn_ev_compare_fn(sn_type t, int64_t direction, bool total) {
  int c = column(t);
  if (c < 0 || direction < 0 || direction > SN_DIRECTION_LT) return NULL;
  if (sn_type_is_complex(t)) return direction > SN_DIRECTION_NE ? NULL : t == SN_TYPE_C64 ? compare_c64 : compare_c128;
  if (total && t == SN_TYPE_F32) return total_f32;
  if (total && t == SN_TYPE_F64) return total_f64;
  return compares[c][direction];
}

/* ---- clamp ---- */

/* Bounds are lanes of their own or one element for all. A NaN anywhere gives NaN; where lo > hi, hi wins. */
#define CLAMP_LOOP(name, T, EXPR)                                                        \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) { \
    T *o = out;                                                                          \
    const T *v = in[0], *w = in[1], *u = in[2];                                          \
    int64_t ls = k->scalar & 1 ? 0 : 1, hs = k->scalar & 4 ? 0 : 1;                      \
    for (int64_t j = 0; j < n; j++) {                                                    \
      T lo = v[j * ls], x = w[j], hi = u[j * hs];                                        \
      o[j] = (EXPR);                                                                     \
    }                                                                                    \
  }
#define CLAMP_INT(t, T)       CLAMP_LOOP(CLAMP_##t, T, (x < lo ? lo : x) > hi ? hi : x < lo ? lo : x)
#define CLAMP_SIGNED(t, T, U) CLAMP_INT(t, T)
#define CLAMP_FLOAT(T)        lo != lo ? lo : hi != hi ? hi : x != x ? x : (x < lo ? lo : x) > hi ? hi : x < lo ? lo : x
SIGNED(CLAMP_SIGNED)
UNSIGNED(CLAMP_INT)
CLAMP_LOOP(CLAMP_f32, float, CLAMP_FLOAT(float))
CLAMP_LOOP(CLAMP_f64, double, CLAMP_FLOAT(double))
static const sn_ev_fn clamps[COLS] = {INT_COLS(CLAMP), CLAMP_f32, CLAMP_f64, NULL, NULL, CLAMP_u8};

sn_ev_fn sn_ev_clamp_fn(sn_type t) {
  int c = column(t);
  return c < 0 ? NULL : clamps[c];
}

sn_status sn_eval_binary(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
sn_status sn_eval_complex(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
sn_status sn_eval_compare(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
sn_status sn_eval_select(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
sn_status sn_eval_clamp(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_elementwise(e, i, in, out);
}
