/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Complex ops: sums, products and parts in place; division and functions through the runtime, one lane after the other (they are rare, and their formulas long). */
#include "emit.h"
#include "sinter/imports.h"

/* The runtime's numbers; -1: not there. */
static int number_of(sn_opcode op) {
  static const struct {
    sn_opcode op;
    sn_complex_function number;
  } rows[] = {
      {SN_OP_ACOS, SN_COMPLEX_ACOS},       {SN_OP_ACOSH, SN_COMPLEX_ACOSH},     {SN_OP_ASIN, SN_COMPLEX_ASIN},
      {SN_OP_ASINH, SN_COMPLEX_ASINH},     {SN_OP_ATAN, SN_COMPLEX_ATAN},       {SN_OP_ATANH, SN_COMPLEX_ATANH},
      {SN_OP_CBRT, SN_COMPLEX_CBRT},       {SN_OP_COSH, SN_COMPLEX_COSH},       {SN_OP_COSINE, SN_COMPLEX_COS},
      {SN_OP_EXPONENTIAL, SN_COMPLEX_EXP}, {SN_OP_LOG, SN_COMPLEX_LOG},         {SN_OP_EXPONENTIAL_MINUS_ONE, SN_COMPLEX_EXPM1},
      {SN_OP_RSQRT, SN_COMPLEX_RSQRT},     {SN_OP_LOGISTIC, SN_COMPLEX_LOGISTIC}, {SN_OP_LOG_PLUS_ONE, SN_COMPLEX_LOG1P},
      {SN_OP_SINE, SN_COMPLEX_SIN},        {SN_OP_SINH, SN_COMPLEX_SINH},       {SN_OP_TAN, SN_COMPLEX_TAN},
      {SN_OP_TANH, SN_COMPLEX_TANH},       {SN_OP_SQRT, SN_COMPLEX_SQRT},       {SN_OP_SIGN, SN_COMPLEX_SIGN},
      {SN_OP_DIVIDE, SN_COMPLEX_DIVIDE},   {SN_OP_POWER, SN_COMPLEX_POWER},     {SN_OP_ATAN2, SN_COMPLEX_ATAN2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].op == op) return (int)rows[i].number;
  }
  return -1;
}

static elem pair(val re, val im) {
  elem r = {{re, im}};
  return r;
}

/* a * c - b * d in f64, with the rounding errors of the products where the target has fma (Kahan's difference of products). */
static val difference(emit *e, val a, val c, val b, val d) {
  val w = mul_f(e, b, d);
  if (!e->fma) return sub_f(e, mul_f(e, a, c), w);
  val err = fma_op(e, LLVMBuildFNeg(e->b, b, ""), d, w), f = fma_op(e, a, c, LLVMBuildFNeg(e->b, w, ""));
  return add_f(e, f, err);
}

static elem product(emit *e, sn_type t, elem x, elem y) {
  for (int p = 0; p < 2; p++) match(e, &x.v[p], &y.v[p]);
  if (t == SN_TYPE_C64) { /* exact products in f64 */
    val v[4] = {x.v[0], x.v[1], y.v[0], y.v[1]};
    for (int i = 0; i < 4; i++) v[i] = cast(e, LLVMFPExt, v[i], e->f64);
    val re = sub_f(e, mul_f(e, v[0], v[2]), mul_f(e, v[1], v[3])), im = add_f(e, mul_f(e, v[0], v[3]), mul_f(e, v[1], v[2]));
    return pair(cast(e, LLVMFPTrunc, re, e->f32), cast(e, LLVMFPTrunc, im, e->f32));
  }
  val re = difference(e, x.v[0], y.v[0], x.v[1], y.v[1]);
  val im = difference(e, x.v[0], y.v[1], LLVMBuildFNeg(e->b, x.v[1], ""), y.v[0]);
  /* The corrections of infinite products are NaN: there the plain formulas stand. */
  val plain_re = sub_f(e, mul_f(e, x.v[0], y.v[0]), mul_f(e, x.v[1], y.v[1])), plain_im = add_f(e, mul_f(e, x.v[0], y.v[1]), mul_f(e, x.v[1], y.v[0]));
  return pair(choose(e, fcmp(e, LLVMRealUNO, re, re), plain_re, re), choose(e, fcmp(e, LLVMRealUNO, im, im), plain_im, im));
}

/* |z| by the larger part; infinite where either part is. */
static val absolute(emit *e, sn_type t, elem z) {
  LLVMTypeRef part = elem_of(z.v[0]);
  val a = call1(e, "llvm.fabs", z.v[0]), b = call1(e, "llvm.fabs", z.v[1]);
  val inf = const_bits(e, z.v[0], t == SN_TYPE_C64 ? UINT64_C(0x7f800000) : UINT64_C(0x7ff0000000000000));
  val infinite = or_(e, fcmp(e, LLVMRealOEQ, a, inf), fcmp(e, LLVMRealOEQ, b, inf)), r;
  if (t == SN_TYPE_C64) {
    val x = cast(e, LLVMFPExt, a, e->f64), y = cast(e, LLVMFPExt, b, e->f64);
    r = cast(e, LLVMFPTrunc, call1(e, "llvm.sqrt", add_f(e, mul_f(e, x, x), mul_f(e, y, y))), part);
  } else {
    val args[2] = {a, b};
    r = call_import(e, SN_IMPORT_HYPOT, part, 2, args);
  }
  return choose(e, infinite, inf, r);
}

/* Through the runtime: z[0…3] are the parts of both operands, z[0…1] becomes the result. */
static elem by_import(emit *e, sn_opcode op, elem x, elem y) {
  int n = lanes_of(x.v[0]);
  int number = number_of(op);
  if (number < 0) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "%s of complex numbers has no code", sn_opcode_text(op));
    return x;
  }
  val in[4] = {x.v[0], x.v[1], y.v[0], y.v[1]}, out[2][EMIT_MAX_LANES];
  LLVMTypeRef part = elem_of(x.v[0]), args[2] = {e->ptr, e->i32};
  for (int i = 0; i < 4; i++) {
    if (in[i] && lanes_of(in[i]) > n) n = lanes_of(in[i]);
  }
  LLVMTypeRef type = LLVMFunctionType(e->none, args, 2, 0);
  val slot = stack_slot(e, e->f64, 4, 16), index = LLVMConstInt(e->i64, SN_IMPORT_COMPLEX, 0);
  val fn = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, e->imports, &index, 1, ""), "");
  for (int l = 0; l < n; l++) {
    for (int i = 0; i < 4; i++) {
      val at = LLVMConstInt(e->i64, (unsigned long long)i, 0);
      if (in[i]) LLVMBuildStore(e->b, cast(e, LLVMFPExt, lane(e, in[i], l), e->f64), LLVMBuildGEP2(e->b, e->f64, slot, &at, 1, ""));
    }
    val call[2] = {slot, LLVMConstInt(e->i32, (unsigned long long)number, 0)};
    LLVMBuildCall2(e->b, type, fn, call, 2, "");
    for (int i = 0; i < 2; i++) {
      val at = LLVMConstInt(e->i64, (unsigned long long)i, 0);
      out[i][l] = cast(e, LLVMFPTrunc, LLVMBuildLoad2(e->b, e->f64, LLVMBuildGEP2(e->b, e->f64, slot, &at, 1, ""), ""), part);
    }
  }
  return pair(from_lanes(e, n, out[0]), from_lanes(e, n, out[1]));
}

elem emit_complex_unary(emit *e, sn_opcode op, sn_type t, elem a) {
  elem none = {{NULL, NULL}};
  switch (op) {
    case SN_OP_REAL: return pair(a.v[0], NULL);
    case SN_OP_IMAG: return pair(a.v[1], NULL);
    case SN_OP_NEGATE: return pair(LLVMBuildFNeg(e->b, a.v[0], ""), LLVMBuildFNeg(e->b, a.v[1], ""));
    case SN_OP_ABS: return pair(absolute(e, t, a), NULL);
    default: return by_import(e, op, a, none);
  }
}

elem emit_complex_binary(emit *e, sn_opcode op, sn_type t, elem a, elem b) {
  switch (op) {
    case SN_OP_ADD: return pair(add_f(e, a.v[0], b.v[0]), add_f(e, a.v[1], b.v[1]));
    case SN_OP_SUBTRACT: return pair(sub_f(e, a.v[0], b.v[0]), sub_f(e, a.v[1], b.v[1]));
    case SN_OP_MULTIPLY: return product(e, t, a, b);
    default: return by_import(e, op, a, b);
  }
}
