/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* cvt: from any type to any. The common ones have loops of their own; the others go through a number that holds every value of the source exactly. */
#include <float.h>

#include "exec_lanes.h"

typedef int8_t s8;
typedef uint8_t u8;
typedef int16_t s16;
typedef uint16_t u16;
typedef int32_t s32;
typedef uint32_t u32;
typedef int64_t s64;
typedef uint64_t u64;
typedef float f32;
typedef double f64;

/* ---- common ones ---- */

EMU_1(s64_s32, s64, s32, x)
EMU_1(u64_u32, u64, u32, x)
EMU_1(u32_u64, u32, u64, x)
EMU_1(u16_u32, u16, u32, x)
EMU_1(u32_u16, u32, u16, x)
EMU_1(s32_s16, s32, s16, x)
EMU_1(f64_f32, f64, f32, x)
EMU_1(f32_f64, f32, f64, x)
EMU_1(f32_s32, f32, s32, x)
EMU_1(f32_u32, f32, u32, x)
EMU_1(f64_s32, f64, s32, x)
EMU_1(f32_f16, f32, u16, emu_half_to_f32(x))
EMU_1(f16_f32, u16, f32, emu_f32_to_half(x))
EMU_1(f32_bf16, f32, u16, emu_bfloat_to_f32(x))
EMU_1(bf16_f32, u16, f32, emu_f32_to_bfloat(x))
EMU_1(sat_f32, f32, f32, x > 0 ? (x < 1 ? x : 1) : 0)
EMU_1(rni_f32, f32, f32, rintf(x))
EMU_1(rzi_f32, f32, f32, truncf(x))
EMU_1(rmi_f32, f32, f32, floorf(x))
EMU_1(rpi_f32, f32, f32, ceilf(x))

/* ---- any ---- */

typedef struct number { bool is_float, is_signed; double f; u64 u; } number; /* integers in u, sign-extended where signed */

static bool is_signed(emu_type t) { return t >= EMU_S8 && t <= EMU_S64; }
static bool is_float(emu_type t) { return t == EMU_F16 || t == EMU_BF16 || t == EMU_F32 || t == EMU_F64 || t == EMU_TF32; }

/* The low bytes of a register that may be wider than the type. */
static u64 low_bytes(const uint8_t *lanes, int l, int register_bytes, int bytes) {
  u64 v = 0;
  memcpy(&v, lanes + l * register_bytes, (size_t)(bytes < register_bytes ? bytes : register_bytes));
  return v;
}

static number load_number(emu_type t, u64 bits) {
  number n = {is_float(t), is_signed(t), 0, bits};
  float f;
  switch (t) {
    case EMU_F16: n.f = emu_half_to_f32((u16)bits); break;
    case EMU_BF16: n.f = emu_bfloat_to_f32((u16)bits); break;
    case EMU_F32: {
      u32 low = (u32)bits;
      memcpy(&f, &low, 4);
      n.f = f;
      break;
    }
    case EMU_F64: memcpy(&n.f, &bits, 8); break;
    case EMU_S8: n.u = (u64)(s64)(s8)bits; break;
    case EMU_S16: n.u = (u64)(s64)(s16)bits; break;
    case EMU_S32: n.u = (u64)(s64)(s32)bits; break;
    default: break;
  }
  return n;
}

static double integral(double x, u64 flags) {
  if (flags & EMU_F(RNI)) return nearbyint(x);
  if (flags & EMU_F(RMI)) return floor(x);
  if (flags & EMU_F(RPI)) return ceil(x);
  return trunc(x);
}

/* Out of range: the nearest number there is; NaN: 0, of 64 bits the lowest. */
static u64 float_to_integer(emu_type to, double x, u64 flags) {
  int bits = 8 * emu_types[to].bytes;
  bool sign = is_signed(to);
  if (x != x) return bits == 64 ? 1ull << 63 : 0;
  x = integral(x, flags);
  double least = sign ? -ldexp(1, bits - 1) : 0, beyond = ldexp(1, sign ? bits - 1 : bits);
  if (x < least) x = least;
  if (x >= beyond) return sign ? (1ull << (bits - 1)) - 1 : bits == 64 ? ~0ull : (1ull << bits) - 1;
  return sign ? (u64)(s64)x : (u64)x;
}

static u64 integer_to_integer(emu_type to, number n, u64 flags) {
  int bits = 8 * emu_types[to].bytes;
  if (!(flags & EMU_F(SAT))) return n.u;
  bool negative = n.is_signed && (s64)n.u < 0;
  if (!is_signed(to)) {
    u64 most = bits == 64 ? ~0ull : (1ull << bits) - 1;
    return negative ? 0 : n.u > most ? most : n.u;
  }
  u64 most = (1ull << (bits - 1)) - 1;
  if (negative) return (s64)n.u < -(s64)most - 1 ? (u64)(-(s64)most - 1) : n.u;
  return n.u > most ? most : n.u;
}

/* An integer of 64 bits to odd within f64's 53: rounding it again is rounding once. */
static double odd_from_integer(number n) {
  bool negative = n.is_signed && (s64)n.u < 0;
  u64 a = negative ? 0 - n.u : n.u, kept = a;
  int drop = a >> 53 ? 11 - __builtin_clzll(a) : 0;
  if (drop > 0) {
    kept = a >> drop << drop;
    if (kept != a) kept |= 1ull << drop;
  }
  return negative ? -(double)kept : (double)kept;
}

static u64 float_bits(emu_type to, double x, u64 flags) {
  float f;
  u64 u = 0;
  u64 mode = flags & (EMU_F(RZ) | EMU_F(RM) | EMU_F(RP) | EMU_F(RNA));
  bool finite = flags & EMU_F(SATFINITE);
  if (flags & EMU_F(RELU)) x = x > 0 ? x : x != x ? x : 0;
  if (flags & EMU_F(SAT)) x = x > 0 ? (x < 1 ? x : 1) : 0;
  switch (to) {
    case EMU_F64: memcpy(&u, &x, 8); return u;
    case EMU_F16: return emu_f32_to_half((float)emu_round(x, 11, -14, 15, mode, finite));
    case EMU_BF16: return emu_f32_to_bfloat((float)emu_round(x, 8, -126, 127, mode, finite));
    case EMU_TF32: f = (float)emu_round(x, 11, -126, 127, mode, finite); break;
    default:
      f = (float)emu_round(x, 24, -126, 127, mode, finite);
      if ((flags & EMU_F(FTZ)) && fabsf(f) < FLT_MIN) f = copysignf(0, f);
      break;
  }
  memcpy(&u, &f, 4);
  return u;
}

static u64 convert(const emu_ins *i, u64 bits) {
  emu_type to = i->type, from = i->from;
  number n = load_number(from, bits);
  bool to_integral = i->flags & (EMU_F(RNI) | EMU_F(RZI) | EMU_F(RMI) | EMU_F(RPI));
  if ((i->flags & EMU_F(FTZ)) && from == EMU_F32 && fabs(n.f) < FLT_MIN) n.f = copysign(0, n.f);
  if (!is_float(to)) return n.is_float ? float_to_integer(to, n.f, i->flags) : integer_to_integer(to, n, i->flags);
  double x = n.is_float ? n.f : odd_from_integer(n);
  if (n.is_float && to_integral) x = integral(x, i->flags);
  /* f64 holds what f32 and narrower are to be rounded from; integers beyond 53 bits are to odd already, and f64 wants them once */
  if (!n.is_float && to == EMU_F64) x = n.is_signed ? (double)(s64)n.u : (double)n.u;
  return float_bits(to, x, i->flags);
}

static void store_bits(uint8_t *lanes, uint32_t l, int bytes, u64 v) { memcpy(lanes + l * (uint32_t)bytes, &v, (size_t)bytes); }

/* Integers narrower than the destination's register are extended into it. */
static u64 extended(emu_type to, u64 v) {
  switch (to) {
    case EMU_S8: return (u64)(s64)(s8)v;
    case EMU_U8: case EMU_B8: return (u8)v;
    case EMU_S16: return (u64)(s64)(s16)v;
    case EMU_U16: return (u16)v;
    case EMU_S32: return (u64)(s64)(s32)v;
    case EMU_U32: return (u32)v;
    default: return v;
  }
}

/* i->n: bytes of the source's register. */
static void convert_any(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const uint8_t *a = emu_at(w, i->s[0]);
  uint8_t *d = emu_at(w, i->d);
  EMU_FOR_LANES(l, mask) store_bits(d, l, i->width, extended(i->type, convert(i, low_bytes(a, (int)l, i->n, emu_types[i->from].bytes))));
}

/* Two floats into a pair: the first source is the upper half. */
static void convert_pair(emu_warp *w, const emu_ins *i, uint32_t mask) {
  const uint8_t *a = emu_at(w, i->s[0]), *b = emu_at(w, i->s[1]);
  uint8_t *d = emu_at(w, i->d);
  emu_ins each = *i;
  each.type = i->type == EMU_F16X2 ? EMU_F16 : EMU_BF16;
  EMU_FOR_LANES(l, mask) store_bits(d, l, 4, convert(&each, low_bytes(a, (int)l, 4, 4)) << 16 | convert(&each, low_bytes(b, (int)l, 4, 4)));
}

emu_run emu_convert_run(emu_type to, emu_type from, int width, int from_width, uint64_t flags) {
  static const struct { emu_type to, from; int width; u64 flags; emu_run run; } rows[] = {
      {EMU_S64, EMU_S32, 8, 0, s64_s32}, {EMU_U64, EMU_S32, 8, 0, s64_s32}, {EMU_U64, EMU_U32, 8, 0, u64_u32}, {EMU_S64, EMU_U32, 8, 0, u64_u32},
      {EMU_U32, EMU_U64, 4, 0, u32_u64}, {EMU_S32, EMU_S64, 4, 0, u32_u64}, {EMU_U32, EMU_S64, 4, 0, u32_u64}, {EMU_S32, EMU_U64, 4, 0, u32_u64},
      {EMU_U16, EMU_U32, 2, 0, u16_u32}, {EMU_U16, EMU_S32, 2, 0, u16_u32}, {EMU_S16, EMU_S32, 2, 0, u16_u32}, {EMU_U32, EMU_U16, 4, 0, u32_u16}, {EMU_S32, EMU_S16, 4, 0, s32_s16},
      {EMU_F64, EMU_F32, 8, 0, f64_f32}, {EMU_F32, EMU_F64, 4, EMU_F(RN), f32_f64}, {EMU_F32, EMU_S32, 4, EMU_F(RN), f32_s32}, {EMU_F32, EMU_U32, 4, EMU_F(RN), f32_u32},
      {EMU_F64, EMU_S32, 8, EMU_F(RN), f64_s32}, {EMU_F32, EMU_F16, 4, 0, f32_f16}, {EMU_F16, EMU_F32, 2, EMU_F(RN), f16_f32}, {EMU_F32, EMU_BF16, 4, 0, f32_bf16},
      {EMU_BF16, EMU_F32, 2, EMU_F(RN), bf16_f32}, {EMU_F32, EMU_F32, 4, EMU_F(SAT), sat_f32}, {EMU_F32, EMU_F32, 4, EMU_F(RNI), rni_f32}, {EMU_F32, EMU_F32, 4, EMU_F(RZI), rzi_f32},
      {EMU_F32, EMU_F32, 4, EMU_F(RMI), rmi_f32}, {EMU_F32, EMU_F32, 4, EMU_F(RPI), rpi_f32},
  };
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k].to == to && rows[k].from == from && rows[k].width == width && from_width == emu_types[from].bytes && rows[k].flags == flags) return rows[k].run;
  }
  if (to == EMU_F16X2 || to == EMU_BF16X2) return from == EMU_F32 ? convert_pair : NULL;
  return emu_types[to].bytes <= 8 && emu_types[from].bytes <= 8 && to != EMU_PRED && from != EMU_PRED ? convert_any : NULL;
}
