/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Float ops on f32 and f64. The functions are in math_*.c. */
#include "emit.h"

static val is_nan(emit *e, val a) { return fcmp(e, LLVMRealUNO, a, a); }

static val sign_of(emit *e, val a) {
  val zero = const_float(e, a, 0);
  val r = choose(e, fcmp(e, LLVMRealOGT, a, zero), const_float(e, a, 1), a); /* zeros and NaN are themselves */
  return choose(e, fcmp(e, LLVMRealOLT, a, zero), const_float(e, a, -1), r);
}

static val is_finite(emit *e, val a) {
  val inf = const_bits(e, a, bits_of(a) == 32 ? UINT64_C(0x7f800000) : UINT64_C(0x7ff0000000000000));
  return fcmp(e, LLVMRealOLT, call1(e, "llvm.fabs", a), inf);
}

static const struct {
  sn_opcode op;
  val (*fn)(emit *e, val a);
} functions[] = {
    {SN_OP_ACOS, math_acos},
    {SN_OP_ACOSH, math_acosh},
    {SN_OP_ASIN, math_asin},
    {SN_OP_ASINH, math_asinh},
    {SN_OP_ATAN, math_atan},
    {SN_OP_ATANH, math_atanh},
    {SN_OP_CBRT, math_cbrt},
    {SN_OP_COSH, math_cosh},
    {SN_OP_COSINE, math_cos},
    {SN_OP_ERF, math_erf},
    {SN_OP_EXPONENTIAL, math_exp},
    {SN_OP_EXPONENTIAL_MINUS_ONE, math_expm1},
    {SN_OP_LOG, math_log},
    {SN_OP_LOG_PLUS_ONE, math_log1p},
    {SN_OP_LOGISTIC, math_logistic},
    {SN_OP_RSQRT, math_rsqrt},
    {SN_OP_SINE, math_sin},
    {SN_OP_SINH, math_sinh},
    {SN_OP_TAN, math_tan},
    {SN_OP_TANH, math_tanh},
    {SN_OP_SIGN, sign_of},
    {SN_OP_IS_FINITE, is_finite},
};

static const struct {
  sn_opcode op;
  const char *intrinsic;
} instructions[] = {
    {SN_OP_ABS, "llvm.fabs"},
    {SN_OP_SQRT, "llvm.sqrt"},
    {SN_OP_CEIL, "llvm.ceil"},
    {SN_OP_FLOOR, "llvm.floor"},
    {SN_OP_ROUND_NEAREST_AFZ, "llvm.round"},
    {SN_OP_ROUND_NEAREST_EVEN, "llvm.roundeven"},
};

val emit_float_unary(emit *e, sn_opcode op, val a) {
  if (op == SN_OP_NEGATE) return LLVMBuildFNeg(e->b, a, "");
  for (size_t i = 0; i < sizeof instructions / sizeof instructions[0]; i++) {
    if (instructions[i].op == op) return call1(e, instructions[i].intrinsic, a);
  }
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    if (functions[i].op == op) return functions[i].fn(e, a);
  }
  return NULL;
}

/* NaN wins; -0 is smaller than +0. By hand: equal numbers differ in the sign of a zero at most, so `and` of their bits is the larger, `or` the smaller. */
static val extreme(emit *e, bool largest, val a, val b) {
  LLVMTypeRef ints = like(e, bits_of(a) == 32 ? e->i32 : e->i64, a), type = LLVMTypeOf(a);
  val x = LLVMBuildBitCast(e->b, a, ints, ""), y = LLVMBuildBitCast(e->b, b, ints, "");
  val equal = LLVMBuildBitCast(e->b, largest ? and_(e, x, y) : or_(e, x, y), type, "");
  val r = choose(e, fcmp(e, largest ? LLVMRealOGT : LLVMRealOLT, a, b), a, b);
  r = choose(e, fcmp(e, LLVMRealOEQ, a, b), equal, r);
  return choose(e, is_nan(e, a), a, r);
}

static val remainder_of(emit *e, val a, val b) {
  val args[2] = {a, b};
  bool single = bits_of(a) == 32;
  return call_import(e, single ? SN_IMPORT_FMODF : SN_IMPORT_FMOD, single ? e->f32 : e->f64, 2, args);
}

val emit_float_binary(emit *e, sn_opcode op, val a, val b) {
  switch (op) {
    case SN_OP_ADD: return add_f(e, a, b);
    case SN_OP_SUBTRACT: return sub_f(e, a, b);
    case SN_OP_MULTIPLY: return mul_f(e, a, b);
    case SN_OP_DIVIDE: return div_f(e, a, b);
    case SN_OP_MAXIMUM: return extreme(e, true, a, b);
    case SN_OP_MINIMUM: return extreme(e, false, a, b);
    case SN_OP_REMAINDER: return remainder_of(e, a, b);
    case SN_OP_POWER: return math_pow(e, a, b);
    case SN_OP_ATAN2: return math_atan2(e, a, b);
    default: return NULL;
  }
}

/* ---- comparison ---- */

/* Integer keys in the order -NaN < -inf < … < -0 < +0 < … < inf < NaN, compared as unsigned numbers. */
static val total_key(emit *e, val a) {
  bool single = bits_of(a) == 32;
  val x = LLVMBuildBitCast(e->b, a, like(e, single ? e->i32 : e->i64, a), "");
  val sign = ashr(e, x, const_int(e, x, single ? 31 : 63)); /* all ones for negative numbers */
  return xor_(e, x, or_(e, sign, const_int(e, x, single ? INT32_MIN : INT64_MIN)));
}

val emit_float_compare(emit *e, int direction, bool total, val a, val b) {
  static const LLVMRealPredicate floats[] = {LLVMRealOEQ, LLVMRealUNE, LLVMRealOGE, LLVMRealOGT, LLVMRealOLE, LLVMRealOLT};
  static const LLVMIntPredicate keys[] = {LLVMIntEQ, LLVMIntNE, LLVMIntUGE, LLVMIntUGT, LLVMIntULE, LLVMIntULT};
  if (direction < 0 || direction > SN_DIRECTION_LT) direction = SN_DIRECTION_EQ;
  if (total) return icmp(e, keys[direction], total_key(e, a), total_key(e, b));
  return fcmp(e, floats[direction], a, b);
}

/* ---- reduce-precision ---- */

/* To nearest even on the mantissa, then overflow to infinity and underflow to zero; NaN and infinities stay (without a mantissa there is no NaN). */
val emit_reduce_precision(emit *e, val v, int exponent_bits, int mantissa_bits) {
  bool single = bits_of(v) == 32;
  int full_e = single ? 8 : 11, full_m = single ? 23 : 52;
  int eb = exponent_bits > full_e ? full_e : exponent_bits, m = mantissa_bits > full_m ? full_m : mantissa_bits;
  if (eb == full_e && m == full_m) return v;
  LLVMTypeRef ints = like(e, single ? e->i32 : e->i64, v);
  val x = LLVMBuildBitCast(e->b, v, ints, ""), zero = const_int(e, x, 0);
  val sign = and_(e, x, const_int(e, x, single ? INT32_MIN : INT64_MIN)), a = xor_(e, x, sign), r = a;
  int drop = full_m - m;
  int64_t inf = single ? INT64_C(0x7f800000) : INT64_C(0x7ff0000000000000), least = INT64_C(1) << full_m;
  if (drop) {
    val odd = and_(e, lshr(e, a, const_int(e, a, drop)), const_int(e, a, 1));
    r = add(e, a, add(e, odd, const_int(e, a, (INT64_C(1) << (drop - 1)) - 1)));
    r = and_(e, r, const_int(e, a, ~((INT64_C(1) << drop) - 1)));
  }
  if (eb == full_e) {
    /* Subnormals round relative to themselves: what survives rounds up to the least normal number. */
    val up = icmp(e, LLVMIntUGE, a, const_int(e, a, drop >= 2 ? least - (INT64_C(1) << (drop - 2)) : least));
    r = choose(e, icmp(e, LLVMIntULT, a, const_int(e, a, least)), choose(e, up, const_int(e, a, least), zero), r);
  } else {
    int bias = (1 << (eb - 1)) - 1, full_bias = (1 << (full_e - 1)) - 1;
    r = choose(e, icmp(e, LLVMIntUGE, r, const_int(e, a, (int64_t)(full_bias + bias + 1) << full_m)), const_int(e, a, inf), r);
    r = choose(e, icmp(e, LLVMIntULT, r, const_int(e, a, (int64_t)(full_bias + 1 - bias) << full_m)), zero, r);
  }
  r = choose(e, icmp(e, LLVMIntUGE, a, const_int(e, a, inf)), m == 0 ? const_int(e, a, inf) : a, r);
  return LLVMBuildBitCast(e->b, or_(e, r, sign), LLVMTypeOf(v), "");
}
