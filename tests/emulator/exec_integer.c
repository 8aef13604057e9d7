/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Integer arithmetic and comparisons of every type. */
#include "exec_lanes.h"

typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

/* ---- once for each width; sums and low products are the same for both signs ---- */

#define WIDTHS(u, s, n)                                                                              \
  EMU_2(add_##n, u, u, u, x + y)                                                                     \
  EMU_2(sub_##n, u, u, u, x - y)                                                                     \
  EMU_2(mul_lo_##n, u, u, u, (u64)x * (u64)y)                                                        \
  EMU_3(mad_lo_##n, u, u, u, u, (u64)x * (u64)y + (u64)z)                                            \
  EMU_1(neg_##n, u, u, 0u - x)                                                                       \
  EMU_1(abs_##n, u, s, x < 0 ? (u)0 - (u)x : (u)x)                                                   \
  EMU_2(div_u##n, u, u, u, y == 0 ? (u)-1 : x / (y ? y : 1))                                         \
  EMU_2(rem_u##n, u, u, u, y == 0 ? x : x % (y ? y : 1))                                             \
  EMU_2(div_s##n, u, s, s, y == 0 ? (u)-1 : y == -1 ? (u)0 - (u)x : (u)(x / (y ? y : 1)))            \
  EMU_2(rem_s##n, u, s, s, y == 0 ? (u)x : y == -1 ? (u)0 : (u)(x % (y ? y : 1)))                    \
  EMU_2(min_u##n, u, u, u, x < y ? x : y)                                                            \
  EMU_2(max_u##n, u, u, u, x > y ? x : y)                                                            \
  EMU_2(min_s##n, s, s, s, x < y ? x : y)                                                            \
  EMU_2(max_s##n, s, s, s, x > y ? x : y)
WIDTHS(u16, s16, 16)
WIDTHS(u32, s32, 32)
WIDTHS(u64, s64, 64)

EMU_2(mul_wide_u16, u32, u16, u16, (u32)x * y)
EMU_2(mul_wide_s16, s32, s16, s16, (s32)x * y)
EMU_2(mul_wide_u32, u64, u32, u32, (u64)x * y)
EMU_2(mul_wide_s32, s64, s32, s32, (s64)x * y)
EMU_3(mad_wide_u16, u32, u16, u16, u32, (u32)x * y + z)
EMU_3(mad_wide_s16, u32, s16, s16, u32, (u32)((s32)x * y) + z)
EMU_3(mad_wide_u32, u64, u32, u32, u64, (u64)x * y + z)
EMU_3(mad_wide_s32, u64, s32, s32, u64, (u64)((s64)x * y) + z)
EMU_2(mul_hi_u16, u16, u16, u16, ((u32)x * y) >> 16)
EMU_2(mul_hi_s16, s16, s16, s16, ((s32)x * y) >> 16)
EMU_2(mul_hi_u32, u32, u32, u32, ((u64)x * y) >> 32)
EMU_2(mul_hi_s32, s32, s32, s32, ((s64)x * y) >> 32)

/* The high half of a product of 64 bits, from four of 32. */
static inline u64 high_u64(u64 x, u64 y) {
  u64 xl = (u32)x, xh = x >> 32, yl = (u32)y, yh = y >> 32, low = xl * yl, a = xh * yl + (low >> 32), b = xl * yh + (u32)a;
  return xh * yh + (a >> 32) + (b >> 32);
}
static inline u64 high_s64(u64 x, u64 y) { return high_u64(x, y) - (x >> 63 ? y : 0) - (y >> 63 ? x : 0); }
EMU_2(mul_hi_u64, u64, u64, u64, high_u64(x, y))
EMU_2(mul_hi_s64, u64, u64, u64, high_s64(x, y))
EMU_3(mad_hi_u32, u32, u32, u32, u32, (((u64)x * y) >> 32) + z)
EMU_3(mad_hi_s32, u32, s32, s32, u32, (u32)(((s64)x * y) >> 32) + z)
EMU_3(mad_hi_u64, u64, u64, u64, u64, high_u64(x, y) + z)
EMU_3(mad_hi_s64, u64, u64, u64, u64, high_s64(x, y) + z)
EMU_2(mul24_u32, u32, u32, u32, (u64)(x & 0xffffff) * (y & 0xffffff))

static inline s32 clamp_s32(s64 x) { return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (s32)x; }
EMU_2(add_sat, s32, s32, s32, clamp_s32((s64)x + y))
EMU_2(sub_sat, s32, s32, s32, clamp_s32((s64)x - y))
EMU_3(sad_u32, u32, u32, u32, u32, (x > y ? x - y : y - x) + z)
EMU_3(sad_s32, u32, s32, s32, u32, (u32)(x > y ? (s64)x - y : (s64)y - x) + z)

/* Four products of bytes. */
#define BYTE_OF(T, x, k) ((T)((x) >> (8 * (k))))
#define DOT4(A, B) BYTE_OF(A, x, 0) * BYTE_OF(B, y, 0) + BYTE_OF(A, x, 1) * BYTE_OF(B, y, 1) + BYTE_OF(A, x, 2) * BYTE_OF(B, y, 2) + BYTE_OF(A, x, 3) * BYTE_OF(B, y, 3)
EMU_3(dot4_ss, u32, u32, u32, u32, z + (u32)(DOT4(int8_t, int8_t)))
EMU_3(dot4_uu, u32, u32, u32, u32, z + (u32)(DOT4(uint8_t, uint8_t)))
EMU_3(dot4_su, u32, u32, u32, u32, z + (u32)(DOT4(int8_t, uint8_t)))
EMU_3(dot4_us, u32, u32, u32, u32, z + (u32)(DOT4(uint8_t, int8_t)))

/* ---- sums of many words: a carry a lane ---- */

enum { TAKES = 1, KEEPS = 2 };

#define CARRY(name, T, how, first)                                                        \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {                        \
    const T *a = EMU_AT(const T, i->s[0]), *b = EMU_AT(const T, i->s[1]);                 \
    const T *c = i->s[2] == EMU_NOWHERE ? b : EMU_AT(const T, i->s[2]);                   \
    T *d = EMU_AT(T, i->d);                                                               \
    uint32_t carry = 0;                                                                   \
    EMU_FOR_LANES(l, mask) {                                                              \
      const T in = (how) & TAKES ? (w->carry >> l) & 1 : 0;                               \
      T sum, x = a[l], y = b[l], z = c[l];                                                \
      (void)z;                                                                            \
      first;                                                                              \
      d[l] = sum;                                                                         \
    }                                                                                     \
    if (((how) & KEEPS) && (i->flags & EMU_F(CC))) w->carry = (w->carry & ~mask) | carry; \
  }
#define PLUS(p, q) T0 p0 = (p), q0 = (q); sum = p0 + q0; carry |= (uint32_t)(sum < p0) << l; T0 s0 = sum; sum += in; carry |= (uint32_t)(sum < s0) << l
#define LESS(p, q) T0 p0 = (p), q0 = (q); sum = p0 - q0 - in; carry |= (uint32_t)(p0 < q0 || (in && p0 == q0)) << l
#define T0 u32
CARRY(add_cc_32, u32, KEEPS, PLUS(x, y))
CARRY(addc_32, u32, TAKES | KEEPS, PLUS(x, y))
CARRY(sub_cc_32, u32, KEEPS, LESS(x, y))
CARRY(subc_32, u32, TAKES | KEEPS, LESS(x, y))
CARRY(mad_lo_cc_32, u32, KEEPS, PLUS(x * y, z))
CARRY(madc_lo_32, u32, TAKES | KEEPS, PLUS(x * y, z))
CARRY(mad_hi_cc_32, u32, KEEPS, PLUS((u32)(((u64)x * y) >> 32), z))
CARRY(madc_hi_32, u32, TAKES | KEEPS, PLUS((u32)(((u64)x * y) >> 32), z))
#undef T0
#define T0 u64
CARRY(add_cc_64, u64, KEEPS, PLUS(x, y))
CARRY(addc_64, u64, TAKES | KEEPS, PLUS(x, y))
CARRY(sub_cc_64, u64, KEEPS, LESS(x, y))
CARRY(subc_64, u64, TAKES | KEEPS, LESS(x, y))
CARRY(mad_lo_cc_64, u64, KEEPS, PLUS(x * y, z))
CARRY(madc_lo_64, u64, TAKES | KEEPS, PLUS(x * y, z))
CARRY(mad_hi_cc_64, u64, KEEPS, PLUS(high_u64(x, y), z))
CARRY(madc_hi_64, u64, TAKES | KEEPS, PLUS(high_u64(x, y), z))
#undef T0

/* ---- the table ---- */

#define SIGNLESS(f) [EMU_U16] = f##_16, [EMU_S16] = f##_16, [EMU_U32] = f##_32, [EMU_S32] = f##_32, [EMU_U64] = f##_64, [EMU_S64] = f##_64
#define SIGNED(f) [EMU_U16] = f##_u16, [EMU_S16] = f##_s16, [EMU_U32] = f##_u32, [EMU_S32] = f##_s32, [EMU_U64] = f##_u64, [EMU_S64] = f##_s64
#define WORDS(f) [EMU_U32] = f##_32, [EMU_S32] = f##_32, [EMU_U64] = f##_64, [EMU_S64] = f##_64

const emu_row emu_rows_integer[] = {
    {"add", "ttt", 0, 0, {SIGNLESS(add)}, {0}, 0},
    {"add", "ttt", EMU_F(SAT), 0, {[EMU_S32] = add_sat}, {0}, 0},
    {"add", "ttt", EMU_F(CC), 0, {WORDS(add_cc)}, {0}, 0},
    {"addc", "ttt", 0, EMU_F(CC), {WORDS(addc)}, {0}, 0},
    {"sub", "ttt", 0, 0, {SIGNLESS(sub)}, {0}, 0},
    {"sub", "ttt", EMU_F(SAT), 0, {[EMU_S32] = sub_sat}, {0}, 0},
    {"sub", "ttt", EMU_F(CC), 0, {WORDS(sub_cc)}, {0}, 0},
    {"subc", "ttt", 0, EMU_F(CC), {WORDS(subc)}, {0}, 0},
    {"mul", "ttt", EMU_F(LO), 0, {SIGNLESS(mul_lo)}, {0}, 0},
    {"mul", "ttt", EMU_F(HI), 0, {SIGNED(mul_hi)}, {0}, 0},
    {"mul", "wtt", EMU_F(WIDE), 0, {[EMU_U16] = mul_wide_u16, [EMU_S16] = mul_wide_s16, [EMU_U32] = mul_wide_u32, [EMU_S32] = mul_wide_s32}, {0}, 0},
    {"mul24", "ttt", EMU_F(LO), 0, {[EMU_U32] = mul24_u32}, {0}, 0},
    {"mad", "tttt", EMU_F(LO), 0, {SIGNLESS(mad_lo)}, {0}, 0},
    {"mad", "tttt", EMU_F(HI), 0, {[EMU_U32] = mad_hi_u32, [EMU_S32] = mad_hi_s32, [EMU_U64] = mad_hi_u64, [EMU_S64] = mad_hi_s64}, {0}, 0},
    {"mad", "wttw", EMU_F(WIDE), 0, {[EMU_U16] = mad_wide_u16, [EMU_S16] = mad_wide_s16, [EMU_U32] = mad_wide_u32, [EMU_S32] = mad_wide_s32}, {0}, 0},
    {"mad", "tttt", EMU_F(LO) | EMU_F(CC), 0, {WORDS(mad_lo_cc)}, {0}, 0},
    {"mad", "tttt", EMU_F(HI) | EMU_F(CC), 0, {[EMU_U32] = mad_hi_cc_32, [EMU_U64] = mad_hi_cc_64}, {0}, 0},
    {"madc", "tttt", EMU_F(LO), EMU_F(CC), {WORDS(madc_lo)}, {0}, 0},
    {"madc", "tttt", EMU_F(HI), EMU_F(CC), {[EMU_U32] = madc_hi_32, [EMU_U64] = madc_hi_64}, {0}, 0},
    {"div", "ttt", 0, 0, {SIGNED(div)}, {0}, 0},
    {"rem", "ttt", 0, 0, {SIGNED(rem)}, {0}, 0},
    {"min", "ttt", 0, 0, {SIGNED(min)}, {0}, 0},
    {"max", "ttt", 0, 0, {SIGNED(max)}, {0}, 0},
    {"neg", "tt", 0, 0, {[EMU_S16] = neg_16, [EMU_S32] = neg_32, [EMU_S64] = neg_64}, {0}, 0},
    {"abs", "tt", 0, 0, {[EMU_S16] = abs_16, [EMU_S32] = abs_32, [EMU_S64] = abs_64}, {0}, 0},
    {"sad", "tttt", 0, 0, {[EMU_U32] = sad_u32, [EMU_S32] = sad_s32}, {0}, 0},
    /* by the type of the second factor; the decoder takes the first from the name */
    {"dp4a.u32", "tttt", 0, 0, {[EMU_U32] = dot4_uu, [EMU_S32] = dot4_us}, {0}, 0},
    {"dp4a.s32", "tttt", 0, 0, {[EMU_U32] = dot4_su, [EMU_S32] = dot4_ss}, {0}, 0},
    {NULL, NULL, 0, 0, {0}, {0}, 0},
};

/* ---- comparisons ---- */

/* setp.CMP[.BOOL].T p[|q], a, b[, c]: s[2] is c where there is one, `from` set where it is !c; list[0] q. */
static void finish_compare(emu_warp *w, const emu_ins *i, uint32_t result, uint32_t mask) {
  uint32_t first = result, second = ~result;
  if (i->n != EMU_BOOL_NONE) {
    uint32_t c = emu_mask_at(w, i->s[2]) ^ (i->from ? EMU_FULL : 0);
    first = i->n == EMU_BOOL_AND ? first & c : i->n == EMU_BOOL_OR ? first | c : first ^ c;
    second = i->n == EMU_BOOL_AND ? second & c : i->n == EMU_BOOL_OR ? second | c : second ^ c;
  }
  emu_mask_set(w, i->d, first, mask);
  if (i->list) emu_mask_set(w, i->list[0], second, mask);
}

#define COMPARE(name, T, expr)                                              \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {          \
    const T *a = EMU_AT(const T, i->s[0]), *b = EMU_AT(const T, i->s[1]);   \
    uint8_t r[EMU_LANES];                                                   \
    for (int l = 0; l < EMU_LANES; l++) {                                   \
      const T x = a[l], y = b[l];                                           \
      r[l] = (expr);                                                        \
    }                                                                       \
    finish_compare(w, i, emu_gather_bits(r), mask);                         \
  }
#define ORDERED(T)               \
  COMPARE(eq_##T, T, x == y)     \
  COMPARE(ne_##T, T, x != y)     \
  COMPARE(lt_##T, T, x < y)      \
  COMPARE(le_##T, T, x <= y)     \
  COMPARE(gt_##T, T, x > y)      \
  COMPARE(ge_##T, T, x >= y)
ORDERED(u16)
ORDERED(s16)
ORDERED(u32)
ORDERED(s32)
ORDERED(u64)
ORDERED(s64)
#define FLOATS(T)                                       \
  COMPARE(fne_##T, T, x < y || x > y)                   \
  ORDERED(T)                                            \
  COMPARE(equ_##T, T, !(x < y || x > y))                \
  COMPARE(ltu_##T, T, !(x >= y))                        \
  COMPARE(leu_##T, T, !(x > y))                         \
  COMPARE(gtu_##T, T, !(x <= y))                        \
  COMPARE(geu_##T, T, !(x < y))                         \
  COMPARE(num_##T, T, x == x && y == y)                 \
  COMPARE(nan_##T, T, x != x || y != y)
FLOATS(float)
FLOATS(double)

/* Halves are compared as floats, flushed f32 are rare: one loop for both. */
static bool compare_as(int how, double x, double y) {
  switch (how) {
    case EMU_EQ: return x == y;
    case EMU_NE: return x < y || x > y;
    case EMU_LT: return x < y;
    case EMU_LE: return x <= y;
    case EMU_GT: return x > y;
    case EMU_GE: return x >= y;
    case EMU_EQU: return !(x < y || x > y);
    case EMU_NEU: return x != y;
    case EMU_LTU: return !(x >= y);
    case EMU_LEU: return !(x > y);
    case EMU_GTU: return !(x <= y);
    case EMU_GEU: return !(x < y);
    case EMU_NUM: return x == x && y == y;
    default: return x != x || y != y;
  }
}

static void compare_half(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const u16 *a = EMU_AT(const u16, i->s[0]), *b = EMU_AT(const u16, i->s[1]);
  uint8_t r[EMU_LANES];
  for (int l = 0; l < EMU_LANES; l++) {
    r[l] = i->type == EMU_F16 ? compare_as(i->sub, emu_half_to_f32(a[l]), emu_half_to_f32(b[l])) : compare_as(i->sub, emu_bfloat_to_f32(a[l]), emu_bfloat_to_f32(b[l]));
  }
  finish_compare(w, i, emu_gather_bits(r), mask);
}

#define INTEGER_ROW(T) {eq_##T, ne_##T, lt_##T, le_##T, gt_##T, ge_##T}
#define FLOAT_ROW(T) {eq_##T, fne_##T, lt_##T, le_##T, gt_##T, ge_##T, equ_##T, ne_##T, ltu_##T, leu_##T, gtu_##T, geu_##T, num_##T, nan_##T}

emu_run emu_setp_run(emu_type t, int comparison) {
  static const emu_run rows[EMU_TYPE_COUNT][EMU_COMPARISON_COUNT] = {
      [EMU_B16] = INTEGER_ROW(u16), [EMU_B32] = INTEGER_ROW(u32), [EMU_B64] = INTEGER_ROW(u64), [EMU_U16] = INTEGER_ROW(u16), [EMU_U32] = INTEGER_ROW(u32),
      [EMU_U64] = INTEGER_ROW(u64), [EMU_S16] = INTEGER_ROW(s16), [EMU_S32] = INTEGER_ROW(s32), [EMU_S64] = INTEGER_ROW(s64), [EMU_F32] = FLOAT_ROW(float),
      [EMU_F64] = FLOAT_ROW(double),
  };
  if (t == EMU_F16 || t == EMU_BF16) return compare_half;
  return rows[t][comparison];
}
