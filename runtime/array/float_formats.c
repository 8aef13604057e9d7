/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Facts about the formats: IEEE 754-2019 for the names without suffix; "FP8 Formats for Deep Learning" (arXiv 2209.05433) for e4m3fn;
 * "8-bit Numerical Formats for Deep Neural Networks" (arXiv 2206.02915) for fnuz; OCP Microscaling Formats 1.0 for f4, f6, e8m0. */
#include "float_formats.h"

/* One row per narrow float, keyed as in types.def:
 *                       e  m  bias  sign  max   over  nan   inf    nan±   -0     no NaN */
static const sn_float_format formats[SN_TYPE_COUNT] = {
    [SN_TYPE_F8E5M2]        = {5, 2, 15,  0x80, 0x7b, 0x7c, 0x7e, true,  true,  true,  false},
    [SN_TYPE_F8E4M3]        = {4, 3, 7,   0x80, 0x77, 0x78, 0x7c, true,  true,  true,  false},
    [SN_TYPE_F8E4M3FN]      = {4, 3, 7,   0x80, 0x7e, 0x7f, 0x7f, false, true,  true,  false},
    [SN_TYPE_F8E4M3B11FNUZ] = {4, 3, 11,  0x80, 0x7f, 0x80, 0x80, false, false, false, false},
    [SN_TYPE_F8E5M2FNUZ]    = {5, 2, 16,  0x80, 0x7f, 0x80, 0x80, false, false, false, false},
    [SN_TYPE_F8E4M3FNUZ]    = {4, 3, 8,   0x80, 0x7f, 0x80, 0x80, false, false, false, false},
    [SN_TYPE_F8E3M4]        = {3, 4, 3,   0x80, 0x6f, 0x70, 0x78, true,  true,  true,  false},
    [SN_TYPE_F8E8M0FNU]     = {8, 0, 127, 0x00, 0xfe, 0xff, 0xff, false, false, false, false},
    [SN_TYPE_F6E2M3FN]      = {2, 3, 1,   0x20, 0x1f, 0x1f, 0x20, false, true,  true,  true},
    [SN_TYPE_F6E3M2FN]      = {3, 2, 3,   0x20, 0x1f, 0x1f, 0x20, false, true,  true,  true},
    [SN_TYPE_F4E2M1FN]      = {2, 1, 1,   0x08, 0x07, 0x07, 0x08, false, true,  true,  true},
};

const sn_float_format *sn_float_format_of(sn_type t) {
  return (unsigned)t < SN_TYPE_COUNT && formats[t].exponent_bits ? &formats[t] : NULL;
}

/* value / 2^drop to the nearest integer, ties to even; drop in [1, 31]. */
static uint32_t round_shift(uint32_t value, int drop) {
  uint32_t half = (uint32_t)1 << (drop - 1);
  uint32_t odd = value >> drop & 1;
  return (value + half - 1 + odd) >> drop;
}

/* Powers of two alone: no sign, no zero. The significand's only bit is the leading one, which is odd, so a tie goes up. */
static uint8_t encode_exponent(const sn_float_format *f, uint32_t u) {
  if (u == 0 || u > 0x7f800000u) return f->nan; /* zero, NaN and all negative numbers, -0 among them */
  if (u < 0x00800000u) return u >= 0x00600000u; /* f32's subnormals: 2^-127 is 0x00400000; what is below it goes up to it */
  uint32_t rounded = (u + 0x00400000u) >> 23;
  return rounded > f->max_finite ? f->overflow : (uint8_t)rounded;
}

uint8_t sn_float_encode(const sn_float_format *f, float v) {
  uint32_t u = f32_bits(v);
  if (f->sign == 0) return encode_exponent(f, u);
  uint32_t a = u & 0x7fffffffu;
  uint8_t sign = u >> 31 ? f->sign : 0;
  if (a > 0x7f800000u) return f->nan_none ? f->nan : (uint8_t)(f->nan | (f->nan_signed ? sign : 0));
  int exponent = (int)(a >> 23) - 127 + f->bias;
  int drop = 23 - f->mantissa_bits;
  uint32_t code;
  if (exponent >= 1) {
    /* Exponent and fraction rounded as one number: a carry out of the fraction is the next exponent. */
    code = exponent >= 0x80 ? 0xff : round_shift((uint32_t)exponent << 23 | (a & 0x7fffffu), drop);
  } else {
    drop += 1 - exponent;
    code = drop > 25 ? 0 : round_shift((a & 0x7fffffu) | 0x800000u, drop);
  }
  if (code > f->max_finite) return (uint8_t)(f->overflow | (f->nan_signed ? sign : 0));
  if (code == 0 && !f->minus_zero) return 0;
  return (uint8_t)(code | sign);
}

float sn_float_decode(const sn_float_format *f, uint8_t code) {
  if (f->sign == 0) {
    if (code == f->nan) return NAN;
    return f32_from_bits(code ? (uint32_t)code << 23 : 0x00400000u); /* 2^-127 is subnormal in f32 */
  }
  uint32_t magnitude = code & (f->sign - 1u);
  uint32_t sign = code & f->sign ? 0x80000000u : 0;
  if (!f->minus_zero && (code & (f->sign * 2u - 1)) == f->nan) return NAN;
  if (magnitude > f->max_finite) {
    return f32_from_bits(sign | (f->infinity && magnitude == f->overflow ? 0x7f800000u : 0x7fc00000u));
  }
  int exponent = (int)(magnitude >> f->mantissa_bits);
  uint32_t mantissa = magnitude & ((1u << f->mantissa_bits) - 1);
  if (exponent == 0) {
    float unit = f32_from_bits((uint32_t)(128 - f->bias - f->mantissa_bits) << 23);
    return f32_from_bits(sign | f32_bits((float)mantissa * unit));
  }
  return f32_from_bits(sign | (uint32_t)(exponent - f->bias + 127) << 23 | mantissa << (23 - f->mantissa_bits));
}

uint16_t sn_f32_to_bf16(float f) { return encode_bf16(f); }
float sn_f16_to_f32(uint16_t h) { return decode_f16(h); }
uint16_t sn_f32_to_f16(float f) { return encode_f16(f); }
