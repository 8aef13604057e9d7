/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO's elementwise ops as C expressions over named values. Functions come from CUDA's own accurate library, compiled with the numeric contract's flags. */
#include "emit.h"

#include <string.h>

static const char *unknown(gpu_emit *e, sn_opcode op, sn_type t) {
  gpu_fail(e, SN_ERR_UNSUPPORTED, "%s of %s has no CUDA code", sn_opcode_text(op), sn_type_text(t));
  return "0";
}

static const char *call(gpu_emit *e, const char *fn, const char *a, const char *b) {
  return b ? gpu_text(e, "%s(%s, %s)", fn, a, b) : gpu_text(e, "%s(%s)", fn, a);
}

/* ---- floats ---- */

static const struct {
  sn_opcode op;
  const char *f32, *f64;
} functions[] = {
    {SN_OP_ABS, "fabsf", "fabs"},
    {SN_OP_ACOS, "acosf", "acos"},
    {SN_OP_ACOSH, "acoshf", "acosh"},
    {SN_OP_ASIN, "asinf", "asin"},
    {SN_OP_ASINH, "asinhf", "asinh"},
    {SN_OP_ATAN, "atanf", "atan"},
    {SN_OP_ATANH, "atanhf", "atanh"},
    {SN_OP_CBRT, "cbrtf", "cbrt"},
    {SN_OP_CEIL, "ceilf", "ceil"},
    {SN_OP_COSH, "coshf", "cosh"},
    {SN_OP_COSINE, "cosf", "cos"},
    {SN_OP_ERF, "erff", "erf"},
    {SN_OP_EXPONENTIAL, "expf", "exp"},
    {SN_OP_EXPONENTIAL_MINUS_ONE, "expm1f", "expm1"},
    {SN_OP_FLOOR, "floorf", "floor"},
    {SN_OP_IS_FINITE, "sn_is_finite", "sn_is_finite"},
    {SN_OP_LOG, "logf", "log"},
    {SN_OP_LOG_PLUS_ONE, "log1pf", "log1p"},
    {SN_OP_LOGISTIC, "sn_logistic", "sn_logistic"},
    {SN_OP_NEGATE, "-", "-"},
    {SN_OP_ROUND_NEAREST_AFZ, "roundf", "round"},
    {SN_OP_ROUND_NEAREST_EVEN, "rintf", "rint"},
    {SN_OP_RSQRT, "sn_rsqrt", "sn_rsqrt"},
    {SN_OP_SIGN, "sn_sign", "sn_sign"},
    {SN_OP_SINE, "sinf", "sin"},
    {SN_OP_SINH, "sinhf", "sinh"},
    {SN_OP_SQRT, "sqrtf", "sqrt"},
    {SN_OP_TAN, "tanf", "tan"},
    {SN_OP_TANH, "tanhf", "tanh"},
    {SN_OP_ATAN2, "atan2f", "atan2"},
    {SN_OP_MAXIMUM, "sn_maximum", "sn_maximum"},
    {SN_OP_MINIMUM, "sn_minimum", "sn_minimum"},
    {SN_OP_POWER, "powf", "pow"},
    {SN_OP_REMAINDER, "fmodf", "fmod"},
};

static const char *operator_of(sn_opcode op) {
  switch (op) {
    case SN_OP_ADD: return "+";
    case SN_OP_SUBTRACT: return "-";
    case SN_OP_MULTIPLY: return "*";
    case SN_OP_DIVIDE: return "/";
    case SN_OP_AND: return "&";
    case SN_OP_OR: return "|";
    case SN_OP_XOR: return "^";
    default: return NULL;
  }
}

static const char *float_op(gpu_emit *e, sn_opcode op, sn_type t, const char *a, const char *b) {
  const char *o = operator_of(op);
  if (b && o && op != SN_OP_AND && op != SN_OP_OR && op != SN_OP_XOR) return gpu_round(e, t, gpu_text(e, "%s %s %s", a, o, b));
  if (op == SN_OP_REAL) return a;
  if (op == SN_OP_IMAG) return "0";
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    if (functions[i].op != op) continue;
    const char *r = call(e, t == SN_TYPE_F64 ? functions[i].f64 : functions[i].f32, a, b);
    return op == SN_OP_IS_FINITE || op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM ? r : gpu_round(e, t, r);
  }
  return unknown(e, op, t);
}

/* ---- integers ---- */

static const struct {
  sn_opcode op;
  const char *fn; /* a template over the type, given the bits of a value */
} int_functions[] = {
    {SN_OP_ABS, "sn_int_abs"},
    {SN_OP_SIGN, "sn_int_sign"},
    {SN_OP_POPCNT, "sn_popcnt"},
    {SN_OP_COUNT_LEADING_ZEROS, "sn_clz"},
    {SN_OP_DIVIDE, "sn_int_div"},
    {SN_OP_REMAINDER, "sn_int_rem"},
    {SN_OP_POWER, "sn_int_pow"},
    {SN_OP_MULHI, "sn_mulhi"},
    {SN_OP_SHIFT_LEFT, "sn_shl"},
    {SN_OP_SHIFT_RIGHT_ARITHMETIC, "sn_sar"},
    {SN_OP_SHIFT_RIGHT_LOGICAL, "sn_shr"},
};

/* A value of more bits than the type has, as one of the type. */
static const char *wrapped(gpu_emit *e, sn_type t, const char *x) {
  int bits = sn_type_bits(t);
  if (bits >= 8) return gpu_text(e, "(%s)(%s)", gpu_value_type(t), x);
  return sn_type_is_signed(t) ? gpu_text(e, "sn_sign_extend<%d>(%s)", bits, x) : gpu_text(e, "(unsigned char)((%s) & %d)", x, (1 << bits) - 1);
}

static const char *int_op(gpu_emit *e, sn_opcode op, sn_type t, const char *a, const char *b) {
  const char *u = sn_type_bits(t) == 64 ? "unsigned long long" : "unsigned int", *o = operator_of(op);
  if (op == SN_OP_MAXIMUM) return gpu_text(e, "%s > %s ? %s : %s", a, b, a, b);
  if (op == SN_OP_MINIMUM) return gpu_text(e, "%s < %s ? %s : %s", a, b, a, b);
  if (op == SN_OP_NEGATE) return wrapped(e, t, gpu_text(e, "0 - (%s)%s", u, a));
  if (op == SN_OP_NOT) return wrapped(e, t, gpu_text(e, "~%s", a));
  if (b && o && op != SN_OP_DIVIDE) return wrapped(e, t, gpu_text(e, "(%s)%s %s (%s)%s", u, a, o, u, b));
  for (size_t i = 0; i < sizeof int_functions / sizeof int_functions[0]; i++) {
    if (int_functions[i].op == op) return wrapped(e, t, call(e, gpu_text(e, "%s<%d>", int_functions[i].fn, sn_type_bits(t)), a, b));
  }
  return unknown(e, op, t);
}

/* pred: addition and maximum are or, multiplication and minimum are and. */
static const char *pred_op(gpu_emit *e, sn_opcode op, const char *a, const char *b) {
  switch (op) {
    case SN_OP_NOT: return gpu_text(e, "!%s", a);
    case SN_OP_ADD:
    case SN_OP_MAXIMUM:
    case SN_OP_OR: return gpu_text(e, "%s || %s", a, b);
    case SN_OP_MULTIPLY:
    case SN_OP_MINIMUM:
    case SN_OP_AND: return gpu_text(e, "%s && %s", a, b);
    case SN_OP_XOR:
    case SN_OP_SUBTRACT: return gpu_text(e, "%s != %s", a, b);
    default: return unknown(e, op, SN_TYPE_PRED);
  }
}

/* ---- complex numbers: all functions in f64 parts, rounded at the end ---- */

static const struct {
  sn_opcode op;
  const char *fn;
} complex_functions[] = {
    {SN_OP_ADD, "sn_cadd"},       {SN_OP_SUBTRACT, "sn_csub"},     {SN_OP_MULTIPLY, "sn_cmul"},    {SN_OP_DIVIDE, "sn_cdiv"},    {SN_OP_NEGATE, "sn_cneg"},
    {SN_OP_ABS, "sn_cabs"},       {SN_OP_EXPONENTIAL, "sn_cexp"},  {SN_OP_LOG, "sn_clog"},         {SN_OP_SQRT, "sn_csqrt"},     {SN_OP_RSQRT, "sn_crsqrt"},
    {SN_OP_SINE, "sn_csin"},      {SN_OP_COSINE, "sn_ccos"},       {SN_OP_TAN, "sn_ctan"},         {SN_OP_SINH, "sn_csinh"},     {SN_OP_COSH, "sn_ccosh"},
    {SN_OP_TANH, "sn_ctanh"},     {SN_OP_SIGN, "sn_csign"},        {SN_OP_LOGISTIC, "sn_clogistic"}, {SN_OP_POWER, "sn_cpow"},   {SN_OP_CBRT, "sn_ccbrt"},
    {SN_OP_ATAN2, "sn_catan2"},   {SN_OP_EXPONENTIAL_MINUS_ONE, "sn_cexpm1"}, {SN_OP_LOG_PLUS_ONE, "sn_clog1p"}, {SN_OP_ASIN, "sn_casin"}, {SN_OP_ACOS, "sn_cacos"},
    {SN_OP_ATAN, "sn_catan"},     {SN_OP_ASINH, "sn_casinh"},      {SN_OP_ACOSH, "sn_cacosh"},     {SN_OP_ATANH, "sn_catanh"},
};

static const char *complex_op(gpu_emit *e, sn_opcode op, sn_type t, const char *a, const char *b) {
  if (op == SN_OP_REAL) return gpu_text(e, "%s.re", a);
  if (op == SN_OP_IMAG) return gpu_text(e, "%s.im", a);
  if (t == SN_TYPE_C64 && (op == SN_OP_ADD || op == SN_OP_SUBTRACT)) {
    const char *o = operator_of(op);
    return gpu_text(e, "sn_c64{%s.re %s %s.re, %s.im %s %s.im}", a, o, b, a, o, b);
  }
  for (size_t i = 0; i < sizeof complex_functions / sizeof complex_functions[0]; i++) {
    if (complex_functions[i].op != op) continue;
    if (t == SN_TYPE_C128) return call(e, complex_functions[i].fn, a, b);
    const char *r = call(e, complex_functions[i].fn, gpu_text(e, "sn_wide(%s)", a), b ? gpu_text(e, "sn_wide(%s)", b) : NULL);
    return op == SN_OP_ABS ? gpu_text(e, "(float)%s", r) : gpu_text(e, "sn_narrow(%s)", r);
  }
  return unknown(e, op, t);
}

static const char *of_class(gpu_emit *e, sn_opcode op, sn_type t, const char *a, const char *b) {
  if (b && op == SN_OP_COMPLEX) return gpu_text(e, "%s{%s, %s}", t == SN_TYPE_F64 ? "sn_c128" : "sn_c64", a, b);
  if (sn_type_is_complex(t)) return complex_op(e, op, t, a, b);
  if (sn_type_is_float(t)) return float_op(e, op, t, a, b);
  return t == SN_TYPE_PRED ? pred_op(e, op, a, b) : int_op(e, op, t, a, b);
}

const char *gpu_binary(gpu_emit *e, sn_opcode op, sn_type t, const char *a, const char *b) { return of_class(e, op, t, a, b); }

/* ---- compare, select, clamp, bits ---- */

static const char *compare(gpu_emit *e, const sn_knode *n, const char *a, const char *b) {
  static const char *const operators[] = {[SN_DIRECTION_EQ] = "==", [SN_DIRECTION_NE] = "!=", [SN_DIRECTION_GE] = ">=",
                                          [SN_DIRECTION_GT] = ">",  [SN_DIRECTION_LE] = "<=", [SN_DIRECTION_LT] = "<"};
  sn_type t = n->operands[0]->type;
  const char *o = n->direction >= 0 && n->direction <= SN_DIRECTION_LT && operators[n->direction] ? operators[n->direction] : "==";
  if (sn_type_is_complex(t)) {
    bool equal = n->direction == SN_DIRECTION_EQ;
    return gpu_text(e, "%s.re %s %s.re %s %s.im %s %s.im", a, equal ? "==" : "!=", b, equal ? "&&" : "||", a, equal ? "==" : "!=", b);
  }
  if (sn_type_is_float(t) && n->bits[0]) return gpu_text(e, "sn_order(%s) %s sn_order(%s)", a, o, b);
  return gpu_text(e, "%s %s %s", a, o, b);
}

static const char *bitcast(gpu_emit *e, sn_type to, sn_type from, const char *x) {
  if (to == from) return x;
  if (sn_type_is_complex(to) || sn_type_is_complex(from) || sn_type_bits(to) != sn_type_bits(from)) {
    gpu_fail(e, SN_ERR_UNSUPPORTED, "bitcast-convert from %s to %s has no CUDA code", sn_type_text(from), sn_type_text(to));
    return x;
  }
  const char *raw = gpu_to_memory(e, from, x);
  if (from == SN_TYPE_F32) raw = gpu_text(e, "__float_as_int(%s)", raw);
  if (from == SN_TYPE_F64) raw = gpu_text(e, "__double_as_longlong(%s)", raw);
  if (to == SN_TYPE_F32) return gpu_text(e, "__int_as_float((int)%s)", raw);
  if (to == SN_TYPE_F64) return gpu_text(e, "__longlong_as_double((long long)%s)", raw);
  if (sn_type_is_integer(to)) return wrapped(e, to, raw);
  return gpu_from_memory(e, to, gpu_text(e, "(%s)%s", gpu_memory_type(to), raw));
}

static const char *reduce_precision(gpu_emit *e, const sn_knode *n, const char *x) {
  sn_type t = n->results[0].type;
  const char *fn = gpu_text(e, "sn_reduce_precision<%d, %d>", (int)n->exponent_bits, (int)n->mantissa_bits);
  if (sn_type_is_complex(t)) return gpu_text(e, "%s{%s(%s.re), %s(%s.im)}", gpu_value_type(t), fn, x, fn, x);
  return gpu_round(e, t, call(e, fn, x, NULL));
}

static const char *clamp(gpu_emit *e, sn_type t, const char *lo, const char *x, const char *hi) {
  if (sn_type_is_float(t)) return gpu_text(e, "sn_clamp(%s, %s, %s)", lo, x, hi);
  return gpu_text(e, "%s < %s ? (%s > %s ? %s : %s) : (%s > %s ? %s : %s)", x, lo, lo, hi, hi, lo, x, hi, hi, x);
}

const char *gpu_elementwise(gpu_emit *e, const sn_knode *n) {
  const char *x[3] = {NULL};
  sn_type to = n->results[0].type;
  if (n->n_operands < 1 || n->n_operands > 3) return unknown(e, n->hlo, to);
  for (int i = 0; i < n->n_operands; i++) x[i] = gpu_name(e, n->operands[i]);
  sn_type t = n->operands[0]->type;
  switch (n->hlo) {
    case SN_OP_COPY:
    case SN_OP_OPT_BARRIER:
    case SN_OP_DOMAIN:
    case SN_OP_BITCAST: return x[0];
    case SN_OP_CONVERT: return gpu_convert(e, to, t, x[0]);
    case SN_OP_BITCAST_CONVERT: return bitcast(e, to, t, x[0]);
    case SN_OP_REDUCE_PRECISION: return reduce_precision(e, n, x[0]);
    case SN_OP_STOCHASTIC_CONVERT: return unknown(e, n->hlo, to);
    case SN_OP_COMPARE: return compare(e, n, x[0], x[1]);
    case SN_OP_SELECT: return gpu_text(e, "%s ? %s : %s", x[0], x[1], x[2]);
    case SN_OP_CLAMP: return clamp(e, n->operands[1]->type, x[0], x[1], x[2]);
    default: return n->n_operands <= 2 ? of_class(e, n->hlo, t, x[0], x[1]) : unknown(e, n->hlo, to);
  }
}
