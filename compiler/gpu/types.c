/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Element types in CUDA C: variables, memory, constants, conversions.
 *
 * Floats narrower than f32 are kept as floats that hold a value of the type, and rounded after each op; their codes exist in memory alone. */
#include "emit.h"

#include <math.h>
#include <string.h>

bool gpu_is_narrow_float(sn_type t) { return sn_type_is_float(t) && t != SN_TYPE_F32 && t != SN_TYPE_F64; }

static const char *int_type(sn_type t) {
  static const char *const names[2][4] = {{"unsigned char", "unsigned short", "unsigned int", "unsigned long long"}, {"signed char", "short", "int", "long long"}};
  int bits = sn_type_bits(t);
  return names[sn_type_is_signed(t)][bits <= 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3];
}

const char *gpu_value_type(sn_type t) {
  if (t == SN_TYPE_PRED) return "bool";
  if (t == SN_TYPE_C64) return "sn_c64";
  if (t == SN_TYPE_C128) return "sn_c128";
  if (t == SN_TYPE_F64) return "double";
  return sn_type_is_float(t) ? "float" : int_type(t);
}

const char *gpu_memory_type(sn_type t) {
  if (t == SN_TYPE_PRED) return "unsigned char";
  if (gpu_is_narrow_float(t)) return sn_type_bytes(t) == 2 ? "unsigned short" : "unsigned char";
  return gpu_value_type(t);
}

/* ---- narrow floats ---- */

static int64_t code_of(sn_type t, double v) {
  uint8_t raw[16] = {0};
  sn_store_f64(t, raw, v);
  return sn_type_bytes(t) == 2 ? raw[0] | (int64_t)raw[1] << 8 : raw[0];
}

static double value_of_code(sn_type t, int64_t code) {
  uint8_t raw[2] = {(uint8_t)code, (uint8_t)(code >> 8)};
  return sn_load_f64(t, raw);
}

/* The arguments of sn_encode and sn_decode: the format's facts, asked of the conversions that define them. */
static const char *format_arguments(gpu_emit *e, sn_type t) {
  int bits = sn_type_bits(t), mantissa = sn_types[t].mantissa_bits;
  int64_t sign = t == SN_TYPE_F8E8M0FNU ? 0 : INT64_C(1) << (bits - 1), nan = code_of(t, (double)NAN), over = code_of(t, (double)INFINITY);
  bool nan_signed = sign && code_of(t, -(double)INFINITY) != over, minus_zero = sign && signbit(value_of_code(t, code_of(t, -0.0)));
  int bias = sign ? 1 - ilogb(value_of_code(t, INT64_C(1) << mantissa)) : 127;
  int64_t most = sign ? sign - 1 : 0xfe;
  while (!isfinite(value_of_code(t, most))) most--;
  return gpu_text(e, "%d, %d, %d, %lld, %lld, %lld, %lld, %d, %d, %d, %d", mantissa, bias, bits, (long long)sign, (long long)most, (long long)over, (long long)nan,
                  isinf(value_of_code(t, over)) != 0, nan_signed, minus_zero, !isnan(value_of_code(t, nan)));
}

const char *gpu_from_memory(gpu_emit *e, sn_type t, const char *x) {
  if (t == SN_TYPE_PRED) return gpu_text(e, "%s != 0", x);
  if (t == SN_TYPE_F16) return gpu_text(e, "sn_from_f16(%s)", x);
  if (t == SN_TYPE_BF16) return gpu_text(e, "sn_from_bf16(%s)", x);
  if (gpu_is_narrow_float(t)) return gpu_text(e, "sn_decode<%s>(%s)", format_arguments(e, t), x);
  return x;
}

const char *gpu_to_memory(gpu_emit *e, sn_type t, const char *x) {
  if (t == SN_TYPE_F16) return gpu_text(e, "sn_to_f16(%s)", x);
  if (t == SN_TYPE_BF16) return gpu_text(e, "sn_to_bf16(%s)", x);
  if (gpu_is_narrow_float(t)) return gpu_text(e, "sn_encode<%s>(%s)", format_arguments(e, t), x);
  return x;
}

const char *gpu_round(gpu_emit *e, sn_type t, const char *x) {
  if (!gpu_is_narrow_float(t)) return x;
  return gpu_from_memory(e, t, gpu_to_memory(e, t, x));
}

/* ---- constants ---- */

static const char *float_constant(gpu_emit *e, sn_type t, uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  if (t != SN_TYPE_F64) {
    uint8_t raw[16];
    sn_store_f64(t, raw, v);
    v = sn_load_f64(t, raw);
  }
  if (isnan(v)) return t == SN_TYPE_F64 ? "__longlong_as_double(0x7ff8000000000000LL)" : "__int_as_float(0x7fc00000)";
  if (isinf(v) && t == SN_TYPE_F64) return v > 0 ? "__longlong_as_double(0x7ff0000000000000LL)" : "-__longlong_as_double(0x7ff0000000000000LL)";
  if (isinf(v)) return v > 0 ? "__int_as_float(0x7f800000)" : "-__int_as_float(0x7f800000)";
  char text[48];
  snprintf(text, sizeof text, t == SN_TYPE_F64 ? "%.17g" : "%.9g", v);
  const char *dot = strpbrk(text, ".e") ? "" : ".0", *suffix = t == SN_TYPE_F64 ? "" : "f";
  return gpu_text(e, text[0] == '-' ? "(%s%s%s)" : "%s%s%s", text, dot, suffix);
}

static const char *int_constant(gpu_emit *e, sn_type t, uint64_t bits) {
  uint8_t raw[16];
  sn_store_i64(t, raw, (int64_t)bits); /* wraps */
  int64_t v = sn_load_i64(t, raw);
  if (t == SN_TYPE_PRED) return bits ? "true" : "false";
  if (t == SN_TYPE_U64) return gpu_text(e, "%lluULL", (unsigned long long)v);
  if (t == SN_TYPE_U32) return gpu_text(e, "%lluu", (unsigned long long)(uint32_t)v);
  if (t == SN_TYPE_S64 && v == INT64_MIN) return "(-9223372036854775807LL - 1)";
  if (t == SN_TYPE_S32 && v == INT32_MIN) return "(-2147483647 - 1)";
  if (sn_type_bits(t) < 32) return gpu_text(e, "(%s)%lld", int_type(t), (long long)v); /* the type decides which template is meant */
  return gpu_text(e, v < 0 ? "(%lld%s)" : "%lld%s", (long long)v, t == SN_TYPE_S64 ? "LL" : "");
}

const char *gpu_constant(gpu_emit *e, sn_type t, const uint64_t bits[2]) {
  if (sn_type_is_complex(t)) {
    sn_type part = sn_type_real_part(t);
    return gpu_text(e, "%s{%s, %s}", gpu_value_type(t), float_constant(e, part, bits[0]), float_constant(e, part, bits[1]));
  }
  return sn_type_is_float(t) ? float_constant(e, t, bits[0]) : int_constant(e, t, bits[0]);
}

/* What changes nothing: 0, 1, all ones, the lowest, the highest. */
const char *gpu_identity(gpu_emit *e, sn_opcode op, sn_type t) {
  uint64_t bits[2] = {0, 0};
  bool highest = op == SN_OP_MINIMUM, extreme = highest || op == SN_OP_MAXIMUM;
  int width = sn_type_bits(t);
  double v = op == SN_OP_MULTIPLY ? 1 : extreme ? (highest ? (double)INFINITY : -(double)INFINITY) : 0;
  if (sn_type_is_float(t) || sn_type_is_complex(t)) memcpy(&bits[0], &v, sizeof v);
  else if (op == SN_OP_MULTIPLY) bits[0] = 1;
  else if (op == SN_OP_AND) bits[0] = UINT64_MAX;
  else if (extreme && t == SN_TYPE_PRED) bits[0] = highest;
  else if (extreme && sn_type_is_signed(t)) bits[0] = (uint64_t)(highest ? INT64_MAX >> (64 - width) : INT64_MIN >> (64 - width));
  else if (extreme) bits[0] = highest ? UINT64_MAX >> (64 - width) : 0;
  return gpu_constant(e, t, bits);
}

/* ---- convert ---- */

static const char *to_int(gpu_emit *e, sn_type to, sn_type from, const char *x) {
  bool is_signed = sn_type_is_signed(to);
  int bits = sn_type_bits(to);
  uint64_t most = is_signed ? (uint64_t)INT64_MAX >> (64 - bits) : UINT64_MAX >> (64 - bits), least = is_signed ? (uint64_t)(INT64_MIN >> (64 - bits)) : 0;
  double lo = is_signed ? -ldexp(1.0, bits - 1) : 0, hi = ldexp(1.0, is_signed ? bits - 1 : bits);
  const char *f = from == SN_TYPE_F64 ? "" : "f";
  return gpu_text(e, "sn_to_int<%s>(%s, %.1f%s, %.1f%s, %s, %s)", int_type(to), x, lo, f, hi, f, int_constant(e, to, least), int_constant(e, to, most));
}

static const char *wrap(gpu_emit *e, sn_type t, const char *x) {
  int bits = sn_type_bits(t);
  if (bits >= 8) return gpu_text(e, "(%s)%s", int_type(t), x);
  if (!sn_type_is_signed(t)) return gpu_text(e, "(unsigned char)(%s & %d)", x, (1 << bits) - 1);
  return gpu_text(e, "sn_sign_extend<%d>(%s)", bits, x);
}

static const char *to_float(gpu_emit *e, sn_type to, sn_type from, const char *x) {
  const char *c = gpu_value_type(to);
  if (!gpu_is_narrow_float(to) || from == SN_TYPE_PRED || from == SN_TYPE_F32 || gpu_is_narrow_float(from)) {
    return gpu_round(e, to, strcmp(c, gpu_value_type(from)) == 0 ? x : gpu_text(e, "(%s)%s", c, x));
  }
  /* Wider than f32: through an f32 rounded to odd, after which one rounding to nearest is right. */
  if (sn_type_is_integer(from) && sn_type_bits(from) <= 16) return gpu_round(e, to, gpu_text(e, "(float)%s", x));
  return gpu_round(e, to, gpu_text(e, "sn_odd(%s)", x));
}

static const char *convert_real(gpu_emit *e, sn_type to, sn_type from, const char *x) {
  if (to == from) return x;
  if (to == SN_TYPE_PRED) return gpu_text(e, "(%s != 0)", x);
  if (sn_type_is_float(to)) return to_float(e, to, from, x);
  return sn_type_is_float(from) ? to_int(e, to, from, x) : wrap(e, to, x);
}

const char *gpu_convert(gpu_emit *e, sn_type to, sn_type from, const char *x) {
  if (to == from) return x;
  bool to_complex = sn_type_is_complex(to), from_complex = sn_type_is_complex(from);
  sn_type part = sn_type_real_part(to), from_part = sn_type_real_part(from);
  if (from_complex && to == SN_TYPE_PRED) return gpu_text(e, "(%s.re != 0 || %s.im != 0)", x, x);
  const char *re = convert_real(e, part, from_part, from_complex ? gpu_text(e, "%s.re", x) : x);
  if (!to_complex) return re;
  const char *im = from_complex ? convert_real(e, part, from_part, gpu_text(e, "%s.im", x)) : "0";
  return gpu_text(e, "%s{%s, %s}", gpu_value_type(to), re, im);
}
