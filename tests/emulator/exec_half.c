/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* f16 and bf16, alone and in pairs: computed as floats and rounded; 24 bits are enough that rounding twice is rounding once (sums and products of at most 11 bits). */
#include "exec.h"

double emu_round(double x, int bits, int least, int most, uint64_t mode, bool finite) {
  int e;
  if (x != x || isinf(x) || x == 0) return x;
  (void)frexp(x, &e);
  e -= 1; /* 2^e <= |x| */
  int unit = (e < least ? least : e) - (bits - 1);
  double scaled = ldexp(x, -unit), r; /* exact: at most 53 bits, no deeper than f64 reaches */
  if (mode & EMU_F(RZ)) r = trunc(scaled);
  else if (mode & EMU_F(RM)) r = floor(scaled);
  else if (mode & EMU_F(RP)) r = ceil(scaled);
  else if (mode & EMU_F(RNA)) r = round(scaled);
  else r = nearbyint(scaled);
  r = ldexp(r, unit);
  double top = ldexp(2 - ldexp(1, 1 - bits), most);
  if (fabs(r) <= top) return r;
  bool stays = finite || (mode & EMU_F(RZ)) || ((mode & EMU_F(RM)) && r > 0) || ((mode & EMU_F(RP)) && r < 0);
  return copysign(stays ? top : HUGE_VAL, r);
}

float emu_half_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023, u;
  float x;
  if (e == 0) {
    x = ldexpf((float)m, -24);
    return sign ? -x : x;
  }
  u = sign | (e == 31 ? 0x7f800000u : (e + 112) << 23) | m << 13;
  memcpy(&x, &u, 4);
  return x;
}

uint16_t emu_f32_to_half(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  uint16_t sign = (uint16_t)(u >> 16) & 0x8000;
  uint32_t a = u & 0x7fffffffu;
  if (a > 0x7f800000u) return 0x7fff;
  if (a >= 0x477ff000u) return sign | 0x7c00;
  if (a < 0x38800000u) { /* below the normal numbers: units of 2^-24 */
    float r = nearbyintf(ldexpf(fabsf(x), 24));
    return sign | (uint16_t)r;
  }
  a += 0xfff + ((a >> 13) & 1);
  return sign | (uint16_t)((a - (112u << 23)) >> 13);
}

float emu_bfloat_to_f32(uint16_t h) {
  uint32_t u = (uint32_t)h << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}

uint16_t emu_f32_to_bfloat(float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* ---- arithmetic ---- */

typedef float (*half_op)(float x, float y, float z);

static float op_add(float x, float y, float z) { return (void)z, x + y; }
static float op_sub(float x, float y, float z) { return (void)z, x - y; }
static float op_mul(float x, float y, float z) { return (void)z, x * y; }
static float op_min(float x, float y, float z) { return (void)z, x != x ? y : y != y ? x : x < y || (x == y && signbit(x)) ? x : y; }
static float op_max(float x, float y, float z) { return (void)z, x != x ? y : y != y ? x : x > y || (x == y && !signbit(x)) ? x : y; }
static float op_min_nan(float x, float y, float z) { return x != x || y != y ? NAN : op_min(x, y, z); }
static float op_max_nan(float x, float y, float z) { return x != x || y != y ? NAN : op_max(x, y, z); }
static float op_neg(float x, float y, float z) { return (void)y, (void)z, -x; }
static float op_abs(float x, float y, float z) { return (void)y, (void)z, fabsf(x); }
static float op_exp2(float x, float y, float z) { return (void)y, (void)z, exp2f(x); }
static float op_tanh(float x, float y, float z) { return (void)y, (void)z, tanhf(x); }
/* The exact sum of a product of at most 22 bits, to odd: then rounding it again is rounding once. */
static float op_fma(float x, float y, float z) {
  double p = (double)x * y, s = p + z, error;
  double t = s - p;
  error = (p - (s - t)) + (z - t);
  uint64_t u;
  memcpy(&u, &s, 8);
  if (isfinite(s) && error != 0 && !(u & 1)) {
    u += (error > 0) == (s > 0) ? 1 : (uint64_t)-1;
    memcpy(&s, &u, 8);
  }
  /* f64 to f32 to odd as well */
  float r = (float)s;
  uint32_t v;
  memcpy(&v, &r, 4);
  if (isfinite(r) && (double)r != s && !(v & 1)) {
    v += (fabs((double)r) < fabs(s)) ? 1 : (uint32_t)-1;
    memcpy(&r, &v, 4);
  }
  return r;
}

static float one(const emu_ins *i, bool bfloat, uint16_t x) {
  float f = bfloat ? emu_bfloat_to_f32(x) : emu_half_to_f32(x);
  return (i->flags & EMU_F(FTZ)) && !bfloat && fabsf(f) < 0x1p-14f ? copysignf(0, f) : f;
}

static uint16_t rounded(const emu_ins *i, bool bfloat, float r) {
  if (i->flags & EMU_F(SAT)) r = r > 0 ? (r < 1 ? r : 1) : 0;
  if ((i->flags & EMU_F(RELU)) && !(r > 0) && r == r) r = 0;
  if ((i->flags & EMU_F(FTZ)) && !bfloat && fabsf(r) < 0x1p-14f) r = copysignf(0, r);
  return bfloat ? emu_f32_to_bfloat(r) : emu_f32_to_half(r);
}

/* Halves of all lanes: one a lane, or two. */
static void half_lanes(emu_warp *w, const emu_ins *i, uint32_t mask, half_op op, int n) {
  bool bfloat = i->type == EMU_BF16 || i->type == EMU_BF16X2;
  uint32_t each = i->type == EMU_F16X2 || i->type == EMU_BF16X2 ? 2 : 1;
  const uint16_t *a = emu_at(w, i->s[0]), *b = n > 1 ? emu_at(w, i->s[1]) : a, *c = n > 2 ? emu_at(w, i->s[2]) : a;
  uint16_t *d = emu_at(w, i->d);
  EMU_FOR_LANES(l, mask) {
    for (uint32_t k = l * each; k < (l + 1) * each; k++) d[k] = rounded(i, bfloat, op(one(i, bfloat, a[k]), one(i, bfloat, b[k]), one(i, bfloat, c[k])));
  }
}

#define HALF(op, n) static void half_##op(emu_warp *w, const emu_ins *i, uint32_t mask) { half_lanes(w, i, mask, op_##op, n); }
HALF(add, 2)
HALF(sub, 2)
HALF(mul, 2)
HALF(fma, 3)
HALF(min, 2)
HALF(max, 2)
HALF(min_nan, 2)
HALF(max_nan, 2)
HALF(neg, 1)
HALF(abs, 1)
HALF(exp2, 1)
HALF(tanh, 1)

#define FOUR(op) {[EMU_F16] = half_##op, [EMU_F16X2] = half_##op, [EMU_BF16] = half_##op, [EMU_BF16X2] = half_##op}
#define USUAL (EMU_F(RN) | EMU_F(FTZ) | EMU_F(SAT))

const emu_row emu_rows_half[] = {
    {"add", "ttt", 0, USUAL, FOUR(add), {0}, 0},
    {"sub", "ttt", 0, USUAL, FOUR(sub), {0}, 0},
    {"mul", "ttt", 0, USUAL, FOUR(mul), {0}, 0},
    {"fma", "tttt", 0, USUAL | EMU_F(RELU), FOUR(fma), {0}, 0},
    {"min", "ttt", EMU_F(NAN), EMU_F(FTZ), FOUR(min_nan), {0}, 0},
    {"max", "ttt", EMU_F(NAN), EMU_F(FTZ), FOUR(max_nan), {0}, 0},
    {"min", "ttt", 0, EMU_F(FTZ), FOUR(min), {0}, 0},
    {"max", "ttt", 0, EMU_F(FTZ), FOUR(max), {0}, 0},
    {"neg", "tt", 0, EMU_F(FTZ), FOUR(neg), {0}, 0},
    {"abs", "tt", 0, EMU_F(FTZ), FOUR(abs), {0}, 0},
    {"ex2", "tt", EMU_F(APPROX), EMU_F(FTZ), FOUR(exp2), {0}, 0},
    {"tanh", "tt", EMU_F(APPROX), 0, FOUR(tanh), {0}, 0},
    {NULL, NULL, 0, 0, {0}, {0}, 0},
};
