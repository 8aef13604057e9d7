/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO's convert, and the narrow float formats: all of them are rounded and encoded from an f32. Wider sources come to f32 by rounding to odd, after which one more
 * rounding to nearest gives what rounding the exact value would (see runtime/array/convert.c). */
#include "emit.h"

#include <math.h>

/* ---- narrow floats ---- */

typedef struct format {
  int mantissa, bias, bits;
  int64_t sign;        /* the sign bit, 0: no sign */
  int64_t max_finite, overflow, nan;
  bool infinity, nan_signed, minus_zero, no_nan;
} format;

static int64_t code_of(sn_type t, double v) {
  uint8_t raw[16] = {0};
  sn_store_f64(t, raw, v);
  return sn_type_bytes(t) == 2 ? raw[0] | (int64_t)raw[1] << 8 : raw[0];
}

static double value_of_code(sn_type t, int64_t code) {
  uint8_t raw[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
  return sn_load_f64(t, raw);
}

/* The formats' facts, asked of the conversions that define them. */
static format format_of(sn_type t) {
  format f;
  f.mantissa = sn_types[t].mantissa_bits;
  f.bits = sn_type_bits(t);
  f.sign = t == SN_TYPE_F8E8M0FNU ? 0 : INT64_C(1) << (f.bits - 1);
  f.nan = code_of(t, (double)NAN);
  f.overflow = code_of(t, (double)INFINITY);
  f.no_nan = !isnan(value_of_code(t, f.nan));
  f.infinity = isinf(value_of_code(t, f.overflow));
  f.nan_signed = f.sign && code_of(t, -(double)INFINITY) != f.overflow;
  f.minus_zero = f.sign && signbit(value_of_code(t, code_of(t, -0.0)));
  f.bias = f.sign ? 1 - ilogb(value_of_code(t, INT64_C(1) << f.mantissa)) : 127;
  f.max_finite = f.sign ? f.sign - 1 : 0xfe;
  while (!isfinite(value_of_code(t, f.max_finite))) f.max_finite--;
  return f;
}

static val f32_bits(emit *e, val v) { return LLVMBuildBitCast(e->b, v, like(e, e->i32, v), ""); }
static val f32_of(emit *e, val bits) { return LLVMBuildBitCast(e->b, bits, like(e, e->f32, bits), ""); }

/* bits / 2^drop to the nearest integer, ties to even. */
static val round_shift(emit *e, val a, int drop) {
  val odd = and_(e, lshr(e, a, const_int(e, a, drop)), const_int(e, a, 1));
  return lshr(e, add(e, a, add(e, odd, const_int(e, a, (INT64_C(1) << (drop - 1)) - 1))), const_int(e, a, drop));
}

/* Powers of two alone: no sign, no zero; a tie goes up. */
static val encode_exponent(emit *e, const format *f, val u) {
  val rounded = lshr(e, add(e, u, const_int(e, u, 0x400000)), const_int(e, u, 23));
  val code = choose(e, icmp(e, LLVMIntUGT, rounded, const_int(e, u, f->max_finite)), const_int(e, u, f->overflow), rounded);
  val small = cast(e, LLVMZExt, icmp(e, LLVMIntUGE, u, const_int(e, u, 0x600000)), e->i32);
  code = choose(e, icmp(e, LLVMIntULT, u, const_int(e, u, 0x800000)), small, code);
  val bad = or_(e, icmp(e, LLVMIntEQ, u, const_int(e, u, 0)), icmp(e, LLVMIntUGT, u, const_int(e, u, 0x7f800000)));
  return choose(e, bad, const_int(e, u, f->nan), code);
}

/* An f32 to the format's code, as i32. */
static val encode(emit *e, const format *f, val v) {
  val u = f32_bits(e, v);
  if (!f->sign) return encode_exponent(e, f, u);
  int drop = 23 - f->mantissa;
  val a = and_(e, u, const_int(e, u, 0x7fffffff)), sign = and_(e, u, const_int(e, u, INT32_MIN));
  sign = lshr(e, sign, const_int(e, u, 32 - f->bits));
  val normal = round_shift(e, sub(e, a, const_int(e, a, (int64_t)(127 - f->bias) << 23)), drop);
  /* Below the least normal number: adding 2^23 of the format's units lets the addition round. */
  val magic = const_float(e, v, ldexp(1.0, 24 - f->bias - f->mantissa));
  val small = sub(e, f32_bits(e, add_f(e, f32_of(e, a), magic)), f32_bits(e, magic));
  val code = choose(e, icmp(e, LLVMIntULT, a, const_int(e, a, (int64_t)(128 - f->bias) << 23)), small, normal);
  val over = icmp(e, LLVMIntUGT, code, const_int(e, code, f->max_finite));
  val nan = icmp(e, LLVMIntUGT, a, const_int(e, a, 0x7f800000)), none = const_int(e, u, 0);
  code = choose(e, over, const_int(e, code, f->overflow), code);
  if (!f->nan_signed) sign = choose(e, over, none, sign);
  if (!f->nan_signed || f->no_nan) sign = choose(e, nan, none, sign);
  if (!f->minus_zero) sign = choose(e, icmp(e, LLVMIntEQ, code, none), none, sign);
  code = choose(e, nan, const_int(e, code, f->nan), code);
  return or_(e, code, sign);
}

/* A code, as i32, to f32. */
static val decode(emit *e, const format *f, val code) {
  val nan = const_int(e, code, 0x7fc00000);
  if (!f->sign) {
    val r = choose(e, icmp(e, LLVMIntEQ, code, const_int(e, code, 0)), const_int(e, code, 0x400000), shl(e, code, const_int(e, code, 23)));
    return f32_of(e, choose(e, icmp(e, LLVMIntEQ, code, const_int(e, code, f->nan)), nan, r));
  }
  val magnitude = and_(e, code, const_int(e, code, f->sign - 1));
  val sign = shl(e, and_(e, code, const_int(e, code, f->sign)), const_int(e, code, 32 - f->bits));
  val normal = add(e, shl(e, magnitude, const_int(e, code, 23 - f->mantissa)), const_int(e, code, (int64_t)(127 - f->bias) << 23));
  val units = cast(e, LLVMSIToFP, magnitude, e->f32);
  val small = f32_bits(e, mul_f(e, units, const_float(e, units, ldexp(1.0, 1 - f->bias - f->mantissa))));
  val r = choose(e, icmp(e, LLVMIntULT, magnitude, const_int(e, code, INT64_C(1) << f->mantissa)), small, normal);
  if (f->max_finite < f->sign - 1) {
    val special = nan;
    if (f->infinity) special = choose(e, icmp(e, LLVMIntEQ, magnitude, const_int(e, code, f->overflow)), const_int(e, code, 0x7f800000), nan);
    r = choose(e, icmp(e, LLVMIntUGT, magnitude, const_int(e, code, f->max_finite)), special, r);
  }
  r = or_(e, r, sign);
  if (!f->minus_zero) {
    val low = and_(e, code, const_int(e, code, 2 * f->sign - 1));
    r = choose(e, icmp(e, LLVMIntEQ, low, const_int(e, code, f->nan)), nan, r);
  }
  return f32_of(e, r);
}

/* bf16 is the upper half of an f32. */
static val round_bf16(emit *e, val v) {
  val u = f32_bits(e, v), odd = and_(e, lshr(e, u, const_int(e, u, 16)), const_int(e, u, 1));
  val r = and_(e, add(e, u, add(e, odd, const_int(e, u, 0x7fff))), const_int(e, u, -65536));
  val nan = icmp(e, LLVMIntUGT, and_(e, u, const_int(e, u, 0x7fffffff)), const_int(e, u, 0x7f800000));
  return f32_of(e, choose(e, nan, or_(e, and_(e, u, const_int(e, u, INT32_MIN)), const_int(e, u, 0x7fc00000)), r));
}

/* By intrinsics where it is one number: as casts LLVM would move comparisons and selects of it over to f16, and calls fmaxf for what it takes them to be. */
static val bits_of_f16(emit *e, val v) {
  LLVMTypeRef f32 = e->f32;
  if (LLVMGetTypeKind(LLVMTypeOf(v)) != LLVMVectorTypeKind) return intrinsic(e, "llvm.convert.to.fp16", 1, &v, 1, &f32);
  return LLVMBuildBitCast(e->b, cast(e, LLVMFPTrunc, v, e->f16), like(e, e->i16, v), "");
}

static val f16_of_bits(emit *e, val raw) {
  LLVMTypeRef f32 = e->f32;
  if (LLVMGetTypeKind(LLVMTypeOf(raw)) != LLVMVectorTypeKind) return intrinsic(e, "llvm.convert.from.fp16", 1, &raw, 1, &f32);
  return cast(e, LLVMFPExt, LLVMBuildBitCast(e->b, raw, like(e, e->f16, raw), ""), e->f32);
}

val round_narrow(emit *e, sn_type t, val v) {
  if (t == SN_TYPE_F32 || t == SN_TYPE_F64) return v;
  if (t == SN_TYPE_BF16) return round_bf16(e, v);
  if (t == SN_TYPE_F16 && e->f16c) return f16_of_bits(e, bits_of_f16(e, v));
  format f = format_of(t);
  return decode(e, &f, encode(e, &f, v));
}

val encode_narrow(emit *e, sn_type t, val v) {
  if (t == SN_TYPE_BF16) return cast(e, LLVMTrunc, lshr(e, f32_bits(e, v), const_int(e, f32_bits(e, v), 16)), e->i16);
  if (t == SN_TYPE_F16 && e->f16c) return bits_of_f16(e, v);
  format f = format_of(t);
  return cast(e, LLVMTrunc, encode(e, &f, v), memory_type(e, t));
}

val decode_narrow(emit *e, sn_type t, val raw) {
  if (t == SN_TYPE_F16 && e->f16c) return f16_of_bits(e, raw);
  val code = cast(e, LLVMZExt, raw, e->i32);
  if (t == SN_TYPE_BF16) return f32_of(e, shl(e, code, const_int(e, code, 16)));
  format f = format_of(t);
  return decode(e, &f, code);
}

/* ---- to floats ---- */

/* f64 to f32: exact, or else the neighbour whose last bit is 1. */
val round_odd(emit *e, val v) {
  val f = cast(e, LLVMFPTrunc, v, e->f32), back = cast(e, LLVMFPExt, f, e->f64), u = f32_bits(e, f), one = const_int(e, u, 1);
  val outside = fcmp(e, LLVMRealOGT, call1(e, "llvm.fabs", back), call1(e, "llvm.fabs", v));
  val odd = or_(e, choose(e, outside, sub(e, u, one), u), one);
  val exact = fcmp(e, LLVMRealUEQ, back, v); /* NaN too */
  return f32_of(e, choose(e, exact, u, odd));
}

/* More than 53 bits do not fit an f64: the low ones are gathered into one sticky bit first. */
static val odd_from_u64(emit *e, val v) {
  val low = and_(e, v, const_int(e, v, 0x7ff)), high = and_(e, v, const_int(e, v, ~INT64_C(0x7ff)));
  val sticky = choose(e, icmp(e, LLVMIntNE, low, const_int(e, v, 0)), or_(e, high, const_int(e, v, 0x800)), high);
  val safe = choose(e, icmp(e, LLVMIntUGE, v, const_int(e, v, INT64_C(1) << 53)), sticky, v);
  return round_odd(e, cast(e, LLVMUIToFP, safe, e->f64));
}

static val odd_from_int(emit *e, sn_type from, val v) {
  bool is_signed = sn_type_is_signed(from);
  if (sn_type_bits(from) <= 16) return cast(e, is_signed ? LLVMSIToFP : LLVMUIToFP, v, e->f32);
  if (sn_type_bits(from) == 32) return round_odd(e, cast(e, is_signed ? LLVMSIToFP : LLVMUIToFP, v, e->f64));
  if (!is_signed) return odd_from_u64(e, v);
  val zero = const_int(e, v, 0), negative = icmp(e, LLVMIntSLT, v, zero);
  val r = odd_from_u64(e, choose(e, negative, sub(e, zero, v), v));
  return choose(e, negative, LLVMBuildFNeg(e->b, r, ""), r);
}

static val int_to_float(emit *e, sn_type to, sn_type from, val v) {
  LLVMOpcode op = sn_type_is_signed(from) ? LLVMSIToFP : LLVMUIToFP;
  if (from == SN_TYPE_PRED) return cast(e, LLVMUIToFP, v, register_type(e, to));
  if (to == SN_TYPE_F32 || to == SN_TYPE_F64) return cast(e, op, v, register_type(e, to));
  return round_narrow(e, to, odd_from_int(e, from, v));
}

static val float_to_float(emit *e, sn_type to, sn_type from, val v) {
  if (to == from) return v;
  if (to == SN_TYPE_F64) return cast(e, LLVMFPExt, v, e->f64);
  if (to == SN_TYPE_F32) return from == SN_TYPE_F64 ? cast(e, LLVMFPTrunc, v, e->f32) : v;
  return round_narrow(e, to, from == SN_TYPE_F64 ? round_odd(e, v) : v);
}

/* ---- to integers ---- */

/* Truncation, then the nearest end of the range; NaN becomes 0. */
static val float_to_int(emit *e, sn_type to, val v) {
  LLVMTypeRef types[2] = {like(e, register_type(e, to), v), LLVMTypeOf(v)};
  bool is_signed = sn_type_is_signed(to);
  int bits = sn_type_bits(to);
  val r = intrinsic(e, is_signed ? "llvm.fptosi.sat" : "llvm.fptoui.sat", 1, &v, 2, types);
  if (bits >= 8) return r;
  int64_t max = is_signed ? (1 << (bits - 1)) - 1 : (1 << bits) - 1, min = is_signed ? -max - 1 : 0;
  r = choose(e, icmp(e, is_signed ? LLVMIntSGT : LLVMIntUGT, r, const_int(e, r, max)), const_int(e, r, max), r);
  return is_signed ? choose(e, icmp(e, LLVMIntSLT, r, const_int(e, r, min)), const_int(e, r, min), r) : r;
}

static val int_to_int(emit *e, sn_type to, sn_type from, val v) {
  LLVMTypeRef t = register_type(e, to);
  int have = bits_of(v), want = (int)LLVMGetIntTypeWidth(t);
  if (want < have) v = cast(e, LLVMTrunc, v, t);
  if (want > have) v = cast(e, sn_type_is_signed(from) ? LLVMSExt : LLVMZExt, v, t);
  return wrap_int(e, to, v);
}

/* ---- all ---- */

static val convert_real(emit *e, sn_type to, sn_type from, val v) {
  bool from_float = sn_type_is_float(from);
  if (to == from) return v;
  if (to == SN_TYPE_PRED) return from_float ? fcmp(e, LLVMRealUNE, v, const_float(e, v, 0)) : icmp(e, LLVMIntNE, v, const_int(e, v, 0));
  if (sn_type_is_float(to)) return from_float ? float_to_float(e, to, from, v) : int_to_float(e, to, from, v);
  return from_float ? float_to_int(e, to, v) : int_to_int(e, to, from, v);
}

elem convert_elem(emit *e, sn_type to, sn_type from, elem v) {
  elem r = {{NULL, NULL}};
  sn_type to_part = sn_type_real_part(to), from_part = sn_type_real_part(from);
  bool to_complex = sn_type_is_complex(to), from_complex = sn_type_is_complex(from);
  r.v[0] = convert_real(e, to_part, from_part, v.v[0]);
  if (from_complex && to == SN_TYPE_PRED) r.v[0] = or_(e, r.v[0], convert_real(e, to, from_part, v.v[1]));
  if (to_complex) r.v[1] = from_complex ? convert_real(e, to_part, from_part, v.v[1]) : const_float(e, r.v[0], 0);
  return r;
}

elem emit_stochastic_convert(emit *e, sn_type to, sn_type from, elem v, sn_type noise, elem random) {
  elem wide_v = convert_elem(e, SN_TYPE_F64, from, v), bits = {{cast(e, LLVMZExt, random.v[0], e->i64), NULL}};
  val args[4] = {wide_v.v[0], bits.v[0], LLVMConstInt(e->i32, (unsigned long long)to, 0), LLVMConstInt(e->i32, (unsigned long long)sn_type_bits(noise), 0)};
  elem r = {{call_import(e, SN_IMPORT_STOCHASTIC, e->f64, 4, args), NULL}};
  return convert_elem(e, to, SN_TYPE_F64, r);
}
