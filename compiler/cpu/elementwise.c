/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO's elementwise ops by type class, constants, and the ops that carried values combine by. */
#include "emit.h"

#include <math.h>
#include <string.h>

static bool is_wide_float(sn_type t) { return t == SN_TYPE_F32 || t == SN_TYPE_F64; }
static bool is_narrow_float(sn_type t) { return sn_type_is_float(t) && !is_wide_float(t); }

static elem one(val v) {
  elem r = {{v, NULL}};
  return r;
}

static elem unknown(emit *e, sn_opcode op, sn_type t) {
  emit_fail(e, SN_ERR_UNSUPPORTED, "%s of %s has no code", sn_opcode_text(op), sn_type_text(t));
  val v = LLVMGetPoison(register_type(e, t));
  elem r = {{v, sn_type_is_complex(t) ? v : NULL}};
  return r;
}

/* ---- constants ---- */

static val float_constant(emit *e, sn_type t, uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  if (is_narrow_float(t)) {
    uint8_t raw[16];
    sn_store_f64(t, raw, v);
    v = sn_load_f64(t, raw);
  }
  if (isnan(v)) return const_bits(e, LLVMGetPoison(register_type(e, t)), t == SN_TYPE_F64 ? UINT64_C(0x7ff8000000000000) : UINT64_C(0x7fc00000));
  return LLVMConstReal(register_type(e, t), v);
}

elem emit_const(emit *e, sn_type t, const uint64_t bits[2]) {
  elem r = {{NULL, NULL}};
  if (sn_type_is_complex(t)) {
    for (int p = 0; p < 2; p++) r.v[p] = float_constant(e, sn_type_real_part(t), bits[p]);
  } else if (sn_type_is_float(t)) {
    r.v[0] = float_constant(e, t, bits[0]);
  } else if (t == SN_TYPE_PRED) {
    r.v[0] = LLVMConstInt(e->i1, bits[0] != 0, 0);
  } else {
    int64_t v;
    uint8_t raw[16];
    sn_store_i64(t, raw, (int64_t)bits[0]); /* wraps */
    v = sn_load_i64(t, raw);
    r.v[0] = LLVMConstInt(register_type(e, t), (unsigned long long)v, 1);
  }
  return r;
}

/* ---- integers ---- */

val wrap_int(emit *e, sn_type t, val v) {
  int bits = sn_type_bits(t);
  if (!sn_type_is_integer(t) || bits >= 8) return v;
  val n = const_int(e, v, 8 - bits);
  if (!sn_type_is_signed(t)) return and_(e, v, const_int(e, v, (1 << bits) - 1));
  return ashr(e, shl(e, v, n), n);
}

static LLVMIntPredicate int_predicate(int direction, bool is_signed) {
  switch (direction) {
    case SN_DIRECTION_EQ: return LLVMIntEQ;
    case SN_DIRECTION_NE: return LLVMIntNE;
    case SN_DIRECTION_GE: return is_signed ? LLVMIntSGE : LLVMIntUGE;
    case SN_DIRECTION_GT: return is_signed ? LLVMIntSGT : LLVMIntUGT;
    case SN_DIRECTION_LE: return is_signed ? LLVMIntSLE : LLVMIntULE;
    default: return is_signed ? LLVMIntSLT : LLVMIntULT;
  }
}

/* pred: addition and maximum are or, multiplication and minimum are and. */
static elem pred_binary(emit *e, sn_opcode op, val a, val b) {
  switch (op) {
    case SN_OP_ADD:
    case SN_OP_MAXIMUM:
    case SN_OP_OR: return one(or_(e, a, b));
    case SN_OP_MULTIPLY:
    case SN_OP_MINIMUM:
    case SN_OP_AND: return one(and_(e, a, b));
    case SN_OP_XOR:
    case SN_OP_SUBTRACT: return one(xor_(e, a, b));
    default: return unknown(e, op, SN_TYPE_PRED);
  }
}

/* ---- by class ---- */

/* Results that are values of the narrow type already. */
static bool keeps_values(sn_opcode op, sn_type t) {
  return op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM || ((op == SN_OP_ABS || op == SN_OP_NEGATE) && (t == SN_TYPE_BF16 || t == SN_TYPE_F16));
}

static elem unary(emit *e, sn_opcode op, sn_type t, elem a) {
  if (sn_type_is_complex(t)) return emit_complex_unary(e, op, t, a);
  if (op == SN_OP_REAL) return a;
  if (op == SN_OP_IMAG) return one(const_float(e, a.v[0], 0));
  if (t == SN_TYPE_PRED) return op == SN_OP_NOT ? one(xor_(e, a.v[0], const_int(e, a.v[0], 1))) : unknown(e, op, t);
  if (!sn_type_is_float(t)) {
    val v = emit_int_unary(e, op, t, a.v[0]);
    return v ? one(wrap_int(e, t, v)) : unknown(e, op, t);
  }
  val v = emit_float_unary(e, op, a.v[0]);
  if (!v) return unknown(e, op, t);
  return one(is_narrow_float(t) && op != SN_OP_IS_FINITE && !keeps_values(op, t) ? round_narrow(e, t, v) : v);
}

static elem binary(emit *e, sn_opcode op, sn_type t, elem a, elem b) {
  if (sn_type_is_complex(t)) return emit_complex_binary(e, op, t, a, b);
  if (op == SN_OP_COMPLEX) {
    elem r = {{a.v[0], b.v[0]}};
    match(e, &r.v[0], &r.v[1]);
    return r;
  }
  if (t == SN_TYPE_PRED) return pred_binary(e, op, a.v[0], b.v[0]);
  match(e, &a.v[0], &b.v[0]);
  if (!sn_type_is_float(t)) {
    val v = emit_int_binary(e, op, t, a.v[0], b.v[0]);
    return v ? one(wrap_int(e, t, v)) : unknown(e, op, t);
  }
  val v = emit_float_binary(e, op, a.v[0], b.v[0]);
  if (!v) return unknown(e, op, t);
  return one(is_narrow_float(t) && !keeps_values(op, t) ? round_narrow(e, t, v) : v);
}

static elem compare(emit *e, const sn_knode *n, elem a, elem b) {
  sn_type t = n->operands[0]->type;
  if (sn_type_is_complex(t)) {
    val same = and_(e, fcmp(e, LLVMRealOEQ, a.v[0], b.v[0]), fcmp(e, LLVMRealOEQ, a.v[1], b.v[1]));
    return one(n->direction == SN_DIRECTION_EQ ? same : xor_(e, same, const_int(e, same, 1)));
  }
  if (sn_type_is_float(t)) return one(emit_float_compare(e, n->direction, n->bits[0] != 0, a.v[0], b.v[0]));
  return one(icmp(e, int_predicate(n->direction, sn_type_is_signed(t)), a.v[0], b.v[0]));
}

static elem select_elem(emit *e, val p, elem t, elem f) {
  elem r = {{NULL, NULL}};
  for (int i = 0; i < 2; i++) {
    if (t.v[i]) r.v[i] = choose(e, p, t.v[i], f.v[i]);
  }
  return r;
}

/* A NaN anywhere gives NaN; where lo > hi, hi wins. */
static elem clamp(emit *e, sn_type t, val lo, val x, val hi) {
  if (sn_type_is_float(t)) {
    val low = choose(e, fcmp(e, LLVMRealOLT, x, lo), lo, x);
    val r = choose(e, fcmp(e, LLVMRealOGT, low, hi), hi, low);
    r = choose(e, fcmp(e, LLVMRealUNO, x, x), x, r);
    r = choose(e, fcmp(e, LLVMRealUNO, hi, hi), hi, r);
    return one(choose(e, fcmp(e, LLVMRealUNO, lo, lo), lo, r));
  }
  bool is_signed = sn_type_is_signed(t);
  val low = choose(e, icmp(e, is_signed ? LLVMIntSLT : LLVMIntULT, x, lo), lo, x);
  return one(choose(e, icmp(e, is_signed ? LLVMIntSGT : LLVMIntUGT, low, hi), hi, low));
}

/* ---- bits ---- */

static elem bitcast_convert(emit *e, sn_type to, sn_type from, elem a) {
  if (sn_type_is_complex(to) && sn_type_is_complex(from)) return a;
  if (sn_type_bits(to) != sn_type_bits(from) || sn_type_is_complex(to) || sn_type_is_complex(from)) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "bitcast-convert from %s to %s of one element", sn_type_text(from), sn_type_text(to));
    return one(LLVMGetPoison(register_type(e, to)));
  }
  val raw = to_memory(e, from, a.v[0]);
  raw = cast(e, LLVMBitCast, raw, memory_type(e, to));
  return one(sn_type_is_integer(to) ? wrap_int(e, to, raw) : from_memory(e, to, raw));
}

static elem reduce_precision(emit *e, const sn_knode *n, elem a) {
  sn_type t = n->results[0].type;
  elem r = {{NULL, NULL}};
  for (int p = 0; p < 2; p++) {
    if (!a.v[p]) continue;
    r.v[p] = emit_reduce_precision(e, a.v[p], n->exponent_bits, n->mantissa_bits);
    if (is_narrow_float(t)) r.v[p] = round_narrow(e, t, r.v[p]);
  }
  return r;
}

/* ---- dispatch ---- */

elem emit_elementwise(emit *e, const sn_knode *n) {
  elem x[3];
  sn_type to = n->results[0].type;
  if (n->n_operands < 1 || n->n_operands > 3) return unknown(e, n->hlo, to);
  for (int i = 0; i < n->n_operands; i++) x[i] = value_of(e, n->operands[i]);
  if (e->status != SN_OK) return unknown(e, n->hlo, to);
  sn_type t = n->operands[0]->type;
  switch (n->hlo) {
    case SN_OP_COPY:
    case SN_OP_OPT_BARRIER:
    case SN_OP_DOMAIN:
    case SN_OP_BITCAST: return x[0];
    case SN_OP_CONVERT: return convert_elem(e, to, t, x[0]);
    case SN_OP_BITCAST_CONVERT: return bitcast_convert(e, to, t, x[0]);
    case SN_OP_REDUCE_PRECISION: return reduce_precision(e, n, x[0]);
    case SN_OP_STOCHASTIC_CONVERT: return emit_stochastic_convert(e, to, t, x[0], n->operands[1]->type, x[1]);
    case SN_OP_COMPARE: return compare(e, n, x[0], x[1]);
    case SN_OP_SELECT: return select_elem(e, x[0].v[0], x[1], x[2]);
    case SN_OP_CLAMP: return clamp(e, n->operands[1]->type, x[0].v[0], x[1].v[0], x[2].v[0]);
    default: return n->n_operands == 1 ? unary(e, n->hlo, t, x[0]) : n->n_operands == 2 ? binary(e, n->hlo, t, x[0], x[1]) : unknown(e, n->hlo, to);
  }
}

elem emit_combine(emit *e, sn_opcode op, sn_type t, elem a, elem b) { return binary(e, op, t, a, b); }

elem emit_identity(emit *e, sn_opcode op, sn_type t) {
  uint64_t bits[2] = {0, 0};
  bool highest = op == SN_OP_MINIMUM, extreme = op == SN_OP_MINIMUM || op == SN_OP_MAXIMUM;
  int width = sn_type_bits(t);
  double v = op == SN_OP_MULTIPLY ? 1 : extreme ? (highest ? (double)INFINITY : (double)-INFINITY) : 0;
  if (sn_type_is_float(t) || sn_type_is_complex(t)) memcpy(&bits[0], &v, sizeof v);
  else if (op == SN_OP_MULTIPLY) bits[0] = 1;
  else if (op == SN_OP_AND) bits[0] = UINT64_MAX;
  else if (extreme && t == SN_TYPE_PRED) bits[0] = highest;
  else if (extreme && sn_type_is_signed(t)) bits[0] = (uint64_t)(highest ? INT64_MAX >> (64 - width) : INT64_MIN >> (64 - width));
  else if (extreme) bits[0] = highest ? UINT64_MAX >> (64 - width) : 0;
  return emit_const(e, t, bits);
}

/* ---- fused multiply-add ---- */

/* Without the instruction: the product of two f32 is exact in f64; the sum rounded to odd there, then once more, is rounded once. */
static val fma_f32_by_f64(emit *e, val a, val b, val c) {
  val p = mul_f(e, cast(e, LLVMFPExt, a, e->f64), cast(e, LLVMFPExt, b, e->f64)), x = cast(e, LLVMFPExt, c, e->f64);
  val s = add_f(e, p, x), t = sub_f(e, s, p);
  val err = add_f(e, sub_f(e, p, sub_f(e, s, t)), sub_f(e, x, t));
  val bits = LLVMBuildBitCast(e->b, s, like(e, e->i64, s), "");
  val away = icmp(e, LLVMIntSLT, xor_(e, bits, LLVMBuildBitCast(e->b, err, LLVMTypeOf(bits), "")), const_int(e, bits, 0)); /* the error points to zero: s lies outside */
  val odd = or_(e, choose(e, away, sub(e, bits, const_int(e, bits, 1)), bits), const_int(e, bits, 1));
  val is_even = icmp(e, LLVMIntEQ, and_(e, bits, const_int(e, bits, 1)), const_int(e, bits, 0));
  val inexact = and_(e, fcmp(e, LLVMRealONE, err, const_float(e, err, 0)), is_even);
  val r = choose(e, inexact, odd, bits);
  return cast(e, LLVMFPTrunc, LLVMBuildBitCast(e->b, r, LLVMTypeOf(s), ""), e->f32);
}

val emit_fma(emit *e, sn_type t, val a, val b, val c) {
  match(e, &a, &b);
  match(e, &a, &c);
  match(e, &a, &b);
  if (!sn_type_is_float(t)) {
    emit_fail(e, SN_ERR_INTERNAL, "fma of %s", sn_type_text(t));
    return a;
  }
  if (e->fma) {
    LLVMTypeRef type = LLVMTypeOf(a);
    val args[3] = {a, b, c}, r = intrinsic(e, "llvm.fma", 3, args, 1, &type);
    return is_narrow_float(t) ? round_narrow(e, t, r) : r;
  }
  if (t != SN_TYPE_F64) {
    val r = fma_f32_by_f64(e, a, b, c);
    return is_narrow_float(t) ? round_narrow(e, t, r) : r;
  }
  val args[3] = {a, b, c};
  return call_import(e, SN_IMPORT_FMA, e->f64, 3, args);
}
