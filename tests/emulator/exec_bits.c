/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bits, shifts, choices, moves; predicates. */
#include "exec_lanes.h"

typedef int32_t s32;
typedef int64_t s64;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define WIDTHS(u, s, n)                                                       \
  EMU_1(mov_##n, u, u, x)                                                     \
  EMU_1(not_##n, u, u, ~x)                                                    \
  EMU_2(and_##n, u, u, u, x & y)                                              \
  EMU_2(or_##n, u, u, u, x | y)                                               \
  EMU_2(xor_##n, u, u, u, x ^ y)                                              \
  EMU_1(cnot_##n, u, u, x == 0)                                               \
  EMU_2(shl_##n, u, u, u32, y >= n ? 0 : (u)(x << (y & (n - 1))))             \
  EMU_2(shr_u##n, u, u, u32, y >= n ? 0 : (u)(x >> (y & (n - 1))))            \
  EMU_2(shr_s##n, s, s, u32, x >> (y >= n ? n - 1 : y))
WIDTHS(u16, int16_t, 16)
WIDTHS(u32, s32, 32)
WIDTHS(u64, s64, 64)

/* selp d, a, b, p */
#define SELECT(name, T)                                              \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {   \
    const T *a = EMU_AT(const T, i->s[0]), *b = EMU_AT(const T, i->s[1]); \
    const uint32_t p = emu_mask_at(w, i->s[2]);                      \
    EMU_LOOP(T, const T x = a[l]; const T y = b[l], (p >> l) & 1 ? x : y) \
  }
SELECT(selp_16, u16)
SELECT(selp_32, u32)
SELECT(selp_64, u64)

/* Counts. */
EMU_1(popc_32, u32, u32, __builtin_popcount(x))
EMU_1(popc_64, u32, u64, __builtin_popcountll(x))
EMU_1(clz_32, u32, u32, x ? (u32)__builtin_clz(x) : 32)
EMU_1(clz_64, u32, u64, x ? (u32)__builtin_clzll(x) : 64)
static inline u32 find_u64(u64 x) { return x ? 63 - (u32)__builtin_clzll(x) : EMU_FULL; }
EMU_1(bfind_u32, u32, u32, find_u64(x))
EMU_1(bfind_s32, u32, s32, find_u64((u32)(x < 0 ? ~x : x)))
EMU_1(bfind_u64, u32, u64, find_u64(x))
EMU_1(bfind_s64, u32, s64, find_u64((u64)(x < 0 ? ~x : x)))
static inline u64 reverse(u64 x, int n) {
  u64 r = 0;
  for (int k = 0; k < n; k++) r |= ((x >> k) & 1) << (n - 1 - k);
  return r;
}
EMU_1(brev_32, u32, u32, reverse(x, 32))
EMU_1(brev_64, u64, u64, reverse(x, 64))

/* Fields: position y, length z, both of their low eight bits. */
static inline u64 field(u64 x, u32 y, u32 z, u32 width, bool is_signed) {
  u32 at = y & 255, n = z & 255, top = at + n - 1 < width - 1 ? at + n - 1 : width - 1;
  u64 sign = is_signed && n ? (x >> top) & 1 : 0, r = 0;
  for (u32 k = 0; k < width; k++) r |= (k < n && at + k < width ? (x >> (at + k)) & 1 : sign) << k;
  return r;
}
static inline u64 low_bits(u32 n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }
static inline u64 insert(u64 x, u64 into, u32 y, u32 z, u32 width) {
  u32 at = y & 255;
  u64 m = at >= width ? 0 : low_bits(z & 255) << (at & 63);
  return (into & ~m) | ((x << (at & 63)) & m); /* beyond the width: cut off by the result's type */
}
EMU_3(bfe_u32, u32, u32, u32, u32, field(x, y, z, 32, false))
EMU_3(bfe_s32, u32, u32, u32, u32, field(x, y, z, 32, true))
EMU_3(bfe_u64, u64, u64, u32, u32, field(x, y, z, 64, false))
EMU_3(bfe_s64, u64, u64, u32, u32, field(x, y, z, 64, true))
EMU_4(bfi_32, u32, u32, u32, u32, u32, insert(x, y, z, v, 32))
EMU_4(bfi_64, u64, u64, u64, u32, u32, insert(x, y, z, v, 64))
EMU_2(bmsk_clamp, u32, u32, u32, x >= 32 ? 0 : (u32)(((y >= 32 ? 1ull << 32 : 1ull << y) - 1) << x))
EMU_2(bmsk_wrap, u32, u32, u32, (u32)(((1ull << (y & 31)) - 1) << (x & 31)))

/* Any function of three bits: the table's bit 4x+2y+z. */
static inline u32 look_up(u32 x, u32 y, u32 z, u32 table) {
  u32 r = 0;
  for (int k = 0; k < 8; k++) {
    if ((table >> k) & 1) r |= (k & 4 ? x : ~x) & (k & 2 ? y : ~y) & (k & 1 ? z : ~z);
  }
  return r;
}
EMU_3(lop3_32, u32, u32, u32, u32, look_up(x, y, z, (u32)i->offset))

/* A word out of two, shifted. */
EMU_3(shf_l_wrap, u32, u32, u32, u32, (u32)(((((u64)y << 32) | x) << (z & 31)) >> 32))
EMU_3(shf_r_wrap, u32, u32, u32, u32, (u32)((((u64)y << 32) | x) >> (z & 31)))
EMU_3(shf_l_clamp, u32, u32, u32, u32, z >= 32 ? x : (u32)(((((u64)y << 32) | x) << z) >> 32))
EMU_3(shf_r_clamp, u32, u32, u32, u32, z >= 32 ? y : (u32)((((u64)y << 32) | x) >> z))

/* Four bytes picked out of eight; bit 3 of a selector spreads the byte's sign. */
static inline u32 permute(u32 x, u32 y, u32 z) {
  u64 both = ((u64)y << 32) | x;
  u32 r = 0;
  for (int k = 0; k < 4; k++) {
    u32 s = (z >> (4 * k)) & 15, byte = (u32)(both >> (8 * (s & 7))) & 255;
    if (s & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * k);
  }
  return r;
}
EMU_3(prmt_32, u32, u32, u32, u32, permute(x, y, z))

/* ---- predicates ---- */

#define PREDICATE(name, expr)                                              \
  static void name(emu_warp *w, const emu_ins *i, uint32_t mask) {         \
    const uint32_t x = emu_mask_at(w, i->s[0]), y = i->s[1] == EMU_NOWHERE ? 0 : emu_mask_at(w, i->s[1]); \
    (void)y;                                                               \
    emu_mask_set(w, i->d, expr, mask);                                     \
  }
PREDICATE(mov_p, x)
PREDICATE(not_p, ~x)
PREDICATE(and_p, x & y)
PREDICATE(or_p, x | y)
PREDICATE(xor_p, x ^ y)

#define BITS(f) [EMU_B16] = f##_16, [EMU_B32] = f##_32, [EMU_B64] = f##_64
#define ALL16(f) [EMU_B16] = f##_16, [EMU_U16] = f##_16, [EMU_S16] = f##_16, [EMU_F16] = f##_16, [EMU_BF16] = f##_16
#define ALL32(f) [EMU_B32] = f##_32, [EMU_U32] = f##_32, [EMU_S32] = f##_32, [EMU_F32] = f##_32, [EMU_F16X2] = f##_32, [EMU_BF16X2] = f##_32
#define ALL64(f) [EMU_B64] = f##_64, [EMU_U64] = f##_64, [EMU_S64] = f##_64, [EMU_F64] = f##_64
#define ALL(f) ALL16(f), ALL32(f), ALL64(f)

const emu_row emu_rows_bits[] = {
    {"mov", "tt", 0, 0, {ALL(mov), [EMU_PRED] = mov_p}, {0}, 0},
    {"not", "tt", 0, 0, {BITS(not), [EMU_PRED] = not_p}, {0}, 0},
    {"and", "ttt", 0, 0, {BITS(and), [EMU_PRED] = and_p}, {0}, 0},
    {"or", "ttt", 0, 0, {BITS(or), [EMU_PRED] = or_p}, {0}, 0},
    {"xor", "ttt", 0, 0, {BITS(xor), [EMU_PRED] = xor_p}, {0}, 0},
    {"cnot", "tt", 0, 0, {BITS(cnot)}, {0}, 0},
    {"shl", "ttu", 0, 0, {BITS(shl)}, {0}, 0},
    {"shr", "ttu", 0, 0, {[EMU_B16] = shr_u16, [EMU_B32] = shr_u32, [EMU_B64] = shr_u64, [EMU_U16] = shr_u16, [EMU_U32] = shr_u32, [EMU_U64] = shr_u64,
                          [EMU_S16] = shr_s16, [EMU_S32] = shr_s32, [EMU_S64] = shr_s64}, {0}, 0},
    {"selp", "tttp", 0, 0, {ALL(selp)}, {0}, 0},
    {"popc", "ut", 0, 0, {[EMU_B32] = popc_32, [EMU_B64] = popc_64}, {0}, 0},
    {"clz", "ut", 0, 0, {[EMU_B32] = clz_32, [EMU_B64] = clz_64}, {0}, 0},
    {"bfind", "ut", 0, 0, {[EMU_U32] = bfind_u32, [EMU_S32] = bfind_s32, [EMU_U64] = bfind_u64, [EMU_S64] = bfind_s64}, {0}, 0},
    {"brev", "tt", 0, 0, {[EMU_B32] = brev_32, [EMU_B64] = brev_64}, {0}, 0},
    {"bfe", "ttuu", 0, 0, {[EMU_U32] = bfe_u32, [EMU_S32] = bfe_s32, [EMU_U64] = bfe_u64, [EMU_S64] = bfe_s64}, {0}, 0},
    {"bfi", "tttuu", 0, 0, {[EMU_B32] = bfi_32, [EMU_B64] = bfi_64}, {0}, 0},
    {"bmsk", "ttt", EMU_F(CLAMP), 0, {[EMU_B32] = bmsk_clamp}, {0}, 0},
    {"bmsk", "ttt", EMU_F(WRAP), 0, {[EMU_B32] = bmsk_wrap}, {0}, 0},
    {"lop3", "tttti", 0, 0, {[EMU_B32] = lop3_32}, {0}, 0},
    {"shf", "tttu", EMU_F(L) | EMU_F(WRAP), 0, {[EMU_B32] = shf_l_wrap}, {0}, 0},
    {"shf", "tttu", EMU_F(R) | EMU_F(WRAP), 0, {[EMU_B32] = shf_r_wrap}, {0}, 0},
    {"shf", "tttu", EMU_F(L) | EMU_F(CLAMP), 0, {[EMU_B32] = shf_l_clamp}, {0}, 0},
    {"shf", "tttu", EMU_F(R) | EMU_F(CLAMP), 0, {[EMU_B32] = shf_r_clamp}, {0}, 0},
    {"prmt", "tttt", 0, 0, {[EMU_B32] = prmt_32}, {0}, 0},
    {NULL, NULL, 0, 0, {0}, {0}, 0},
};
