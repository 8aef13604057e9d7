/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Integer ops. They wrap; x / 0 is all ones, x % 0 is x, the smallest integer divided by -1 is itself; shifts by the width or more leave nothing (or the sign). */
#include "emit.h"

/* The value's low bits as an unsigned number of its type's width: sub-byte signed values are sign-extended in their byte. */
static val low_bits(emit *e, sn_type t, val v) {
  int bits = sn_type_bits(t);
  return bits < 8 ? and_(e, v, const_int(e, v, (1 << bits) - 1)) : v;
}

static val sign_extended(emit *e, sn_type t, val v) {
  int bits = sn_type_bits(t);
  if (bits >= 8) return v;
  val n = const_int(e, v, 8 - bits);
  return ashr(e, shl(e, v, n), n);
}

static val count_leading_zeros(emit *e, sn_type t, val v) {
  LLVMTypeRef type = LLVMTypeOf(v);
  val args[2] = {low_bits(e, t, v), LLVMConstInt(e->i1, 0, 0)};
  val n = intrinsic(e, "llvm.ctlz", 2, args, 1, &type);
  return sn_type_bits(t) < 8 ? sub(e, n, const_int(e, n, 8 - sn_type_bits(t))) : n;
}

static val sign_of(emit *e, sn_type t, val v) {
  val zero = const_int(e, v, 0), one = const_int(e, v, 1);
  val r = choose(e, icmp(e, LLVMIntNE, v, zero), one, zero);
  return sn_type_is_signed(t) ? choose(e, icmp(e, LLVMIntSLT, v, zero), const_int(e, v, -1), r) : r;
}

val emit_int_unary(emit *e, sn_opcode op, sn_type t, val a) {
  val zero = const_int(e, a, 0);
  switch (op) {
    case SN_OP_NEGATE: return sub(e, zero, a);
    case SN_OP_NOT: return xor_(e, a, const_int(e, a, -1));
    case SN_OP_ABS: return sn_type_is_signed(t) ? choose(e, icmp(e, LLVMIntSLT, a, zero), sub(e, zero, a), a) : a;
    case SN_OP_SIGN: return sign_of(e, t, a);
    case SN_OP_POPCNT: return call1(e, "llvm.ctpop", low_bits(e, t, a));
    case SN_OP_COUNT_LEADING_ZEROS: return count_leading_zeros(e, t, a);
    default: return NULL;
  }
}

/* ---- division ---- */

/* A divisor that cannot trap: 0 (and -1 for signed numbers) become 1. */
static val safe_divisor(emit *e, val b, bool is_signed, val *is_zero, val *is_minus) {
  *is_zero = icmp(e, LLVMIntEQ, b, const_int(e, b, 0));
  *is_minus = is_signed ? icmp(e, LLVMIntEQ, b, const_int(e, b, -1)) : NULL;
  val bad = *is_minus ? or_(e, *is_zero, *is_minus) : *is_zero;
  return choose(e, bad, const_int(e, b, 1), b);
}

static val divide(emit *e, sn_type t, val a, val b) {
  bool is_signed = sn_type_is_signed(t);
  val zero, minus, q = bin(e, is_signed ? LLVMSDiv : LLVMUDiv, a, safe_divisor(e, b, is_signed, &zero, &minus));
  if (minus) q = choose(e, minus, sub(e, const_int(e, a, 0), a), q);
  return choose(e, zero, const_int(e, a, -1), q);
}

static val remainder_of(emit *e, sn_type t, val a, val b) {
  bool is_signed = sn_type_is_signed(t);
  val zero, minus, r = bin(e, is_signed ? LLVMSRem : LLVMURem, a, safe_divisor(e, b, is_signed, &zero, &minus));
  if (minus) r = choose(e, minus, const_int(e, a, 0), r); /* by 1 it is 0 as well: for clarity of the machine code only */
  return choose(e, zero, a, r);
}

/* ---- power: by squaring; negative exponents leave powers of 1 and -1 only ---- */

static val power(emit *e, sn_type t, val x, val y) {
  val one = const_int(e, x, 1), zero = const_int(e, x, 0);
  LLVMBasicBlockRef before = here(e), loop = new_block(e, "power"), done = new_block(e, "powered");
  jump(e, loop);
  at_end(e, loop);
  LLVMTypeRef type = LLVMTypeOf(x);
  val r = phi(e, type), base = phi(e, type), left = phi(e, type);
  phi_add(r, one, before);
  phi_add(base, x, before);
  phi_add(left, y, before);
  val odd = icmp(e, LLVMIntNE, and_(e, left, one), zero);
  val r_next = choose(e, odd, mul(e, r, base), r), base_next = mul(e, base, base), left_next = lshr(e, left, one);
  phi_add(r, r_next, here(e));
  phi_add(base, base_next, here(e));
  phi_add(left, left_next, here(e));
  branch(e, any_lane(e, icmp(e, LLVMIntNE, left_next, zero)), loop, done);
  at_end(e, done);
  if (!sn_type_is_signed(t)) return r_next;
  val minus = const_int(e, x, -1);
  val parity = choose(e, icmp(e, LLVMIntNE, and_(e, y, one), zero), minus, one);
  val inverse = choose(e, icmp(e, LLVMIntEQ, x, one), one, choose(e, icmp(e, LLVMIntEQ, x, minus), parity, zero));
  return choose(e, icmp(e, LLVMIntSLT, y, zero), inverse, r_next);
}

/* ---- shifts, high half of a product ---- */

static val shift(emit *e, sn_opcode op, sn_type t, val a, val b) {
  int bits = sn_type_bits(t);
  val by = low_bits(e, t, b), beyond = icmp(e, LLVMIntUGE, by, const_int(e, by, bits));
  if (op == SN_OP_SHIFT_RIGHT_ARITHMETIC) {
    by = choose(e, beyond, const_int(e, by, bits - 1), by);
    return ashr(e, sign_extended(e, t, a), by);
  }
  by = choose(e, beyond, const_int(e, by, 0), by);
  val r = op == SN_OP_SHIFT_LEFT ? shl(e, a, by) : lshr(e, low_bits(e, t, a), by);
  return choose(e, beyond, const_int(e, a, 0), r);
}

static val high_product(emit *e, sn_type t, val a, val b) {
  int bits = sn_type_bits(t), held = bits_of(a);
  LLVMTypeRef twice = LLVMIntTypeInContext(e->cx, (unsigned)(2 * held)), type = elem_of(a);
  LLVMOpcode extend = sn_type_is_signed(t) ? LLVMSExt : LLVMZExt;
  val p = mul(e, cast(e, extend, a, twice), cast(e, extend, b, twice));
  p = bin(e, sn_type_is_signed(t) ? LLVMAShr : LLVMLShr, p, const_int(e, p, bits));
  return cast(e, LLVMTrunc, p, type);
}

val emit_int_binary(emit *e, sn_opcode op, sn_type t, val a, val b) {
  bool is_signed = sn_type_is_signed(t);
  switch (op) {
    case SN_OP_ADD: return add(e, a, b);
    case SN_OP_SUBTRACT: return sub(e, a, b);
    case SN_OP_MULTIPLY: return mul(e, a, b);
    case SN_OP_DIVIDE: return divide(e, t, a, b);
    case SN_OP_REMAINDER: return remainder_of(e, t, a, b);
    case SN_OP_POWER: return power(e, t, a, b);
    case SN_OP_MAXIMUM: return choose(e, icmp(e, is_signed ? LLVMIntSGT : LLVMIntUGT, a, b), a, b);
    case SN_OP_MINIMUM: return choose(e, icmp(e, is_signed ? LLVMIntSLT : LLVMIntULT, a, b), a, b);
    case SN_OP_AND: return and_(e, a, b);
    case SN_OP_OR: return or_(e, a, b);
    case SN_OP_XOR: return xor_(e, a, b);
    case SN_OP_SHIFT_LEFT:
    case SN_OP_SHIFT_RIGHT_ARITHMETIC:
    case SN_OP_SHIFT_RIGHT_LOGICAL: return shift(e, op, t, a, b);
    case SN_OP_MULHI: return high_product(e, t, a, b);
    default: return NULL;
  }
}
