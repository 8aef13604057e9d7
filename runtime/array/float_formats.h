/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Encodings of the floats of at most 8 bits; private to this room.
 *
 * All of them are encoded from an f32. Wider sources are first brought to f32 by rounding to odd: the f32 grid has at least two
 * more bits than any narrow format everywhere in that format's range (subnormals included), so that rounding to nearest
 * afterwards gives what one rounding of the exact value would. (S. Boldo, G. Melquiond, "Emulation of FMA and correctly rounded
 * sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008.) */
#ifndef SINTER_ARRAY_FLOAT_FORMATS_H
#define SINTER_ARRAY_FLOAT_FORMATS_H

#include "sinter/array.h"

#include <math.h>

typedef struct sn_float_format {
  uint8_t exponent_bits, mantissa_bits;
  int8_t bias;
  uint8_t sign;       /* the sign bit, 0: unsigned */
  uint8_t max_finite; /* code of the largest finite value */
  uint8_t overflow;   /* what a larger value becomes: infinity, NaN, or max_finite */
  uint8_t nan;        /* what NaN becomes */
  bool infinity;      /* `overflow` is a true infinity */
  bool nan_signed;    /* sign is kept on NaN and on `overflow` */
  bool minus_zero;    /* -0 exists */
  bool nan_none;      /* no code is NaN */
} sn_float_format;

/* NULL for floats above 8 bits and for what is no float. */
const sn_float_format *sn_float_format_of(sn_type t);

uint8_t sn_float_encode(const sn_float_format *f, float v);
float sn_float_decode(const sn_float_format *f, uint8_t code); /* bits above the format's width are ignored */

static inline uint32_t f32_bits(float f) {
  union { float f; uint32_t u; } x;
  x.f = f;
  return x.u;
}

static inline float f32_from_bits(uint32_t u) {
  union { uint32_t u; float f; } x;
  x.u = u;
  return x.f;
}

/* f64 to f32, rounded to odd: exact, or else the neighbour whose last bit is 1. Never overflows to infinity. */
static inline float narrow_f64(double v) {
  float f = (float)v;
  if ((double)f == v || v != v) return f;
  uint32_t u = f32_bits(f);
  if (fabs((double)f) > fabs(v)) u--; /* back toward zero; from infinity to the largest finite */
  return f32_from_bits(u | 1);
}

/* The 16-bit floats, here for convert.c's loops to inline. */
static inline uint16_t encode_bf16(float f) {
  uint32_t u = f32_bits(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16 & 0x8000u) | 0x7fc0u);
  return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

/* c ? a : b as arithmetic. A conditional would let the compiler move a float operation under a branch, which it then may not undo. */
static inline uint32_t select_u32(bool c, uint32_t a, uint32_t b) {
  uint32_t mask = 0 - (uint32_t)c;
  return (a & mask) | (b & ~mask);
}

/* All cases computed, one picked: no branches, so that loops over these become vector code. */
static inline float decode_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t o = (uint32_t)(h & 0x7fffu) << 13;
  uint32_t normal = o + ((127u - 15) << 23);
  uint32_t special = normal + ((128u - 16) << 23); /* infinity, NaN */
  /* Subnormal: give it a leading one and take it away again, which normalises. */
  uint32_t subnormal = f32_bits(f32_from_bits(normal + (1u << 23)) - f32_from_bits(113u << 23));
  uint32_t finite = select_u32(o < 0x00800000u, subnormal, normal);
  return f32_from_bits(select_u32(o >= 0x0f800000u, special, finite) | sign);
}

static inline uint16_t encode_f16(float f) {
  uint32_t u = f32_bits(f);
  uint32_t a = u & 0x7fffffffu;
  uint32_t normal = (a - ((127u - 15) << 23) + 0xfffu + (a >> 13 & 1)) >> 13;
  /* Below 2^-14: adding 0.5 leaves units of 2^-24, the subnormals' step, in the last place; the addition rounds. */
  uint32_t subnormal = f32_bits(f32_from_bits(a) + 0.5f) - 0x3f000000u;
  uint32_t special = 0x7c00u | (uint32_t)(a > 0x7f800000u) << 9; /* infinity, or with the next bit NaN */
  uint32_t finite = select_u32(a < 0x38800000u, subnormal, normal);
  return (uint16_t)(select_u32(a >= 0x47800000u, special, finite) | (u >> 16 & 0x8000u)); /* from 65536 on */
}

#endif
