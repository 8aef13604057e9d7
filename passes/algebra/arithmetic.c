/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Numbers: neutral elements, signs, powers, and arithmetic on broadcasts. On floats x + 0 is not x (-0 + 0 is +0) and x * 0 is not 0 (NaN, infinities, -0);
 * x + -0, x - 0, x * 1 and x / 1 are x for every x. */
#include <math.h>

#include "rules.h"

#define ANY SN_ANY

static sn_instr *add_neutral(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_instr_is_all(sn_in(i, 1), sn_is_int(i) ? 0.0 : -0.0) ? sn_in(i, 0) : NULL;
}
static sn_instr *subtract_zero(sn_builder *b, sn_instr *i) {
  (void)b;
  return !sn_type_is_complex(i->shape->type) && sn_instr_is_all(sn_in(i, 1), 0.0) ? sn_in(i, 0) : NULL;
}
static sn_instr *subtract_self(sn_builder *b, sn_instr *i) { return sn_is_int(i) && sn_in(i, 0) == sn_in(i, 1) ? sn_build_full(b, i->shape, 0) : NULL; }
static sn_instr *times_one(sn_builder *b, sn_instr *i) {
  (void)b;
  return !sn_type_is_complex(i->shape->type) && sn_instr_is_all(sn_in(i, 1), 1.0) ? sn_in(i, 0) : NULL; /* (a+bi)(1+0i) makes NaN of infinities */
}
static sn_instr *int_times_zero(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_is_int(i) && sn_instr_is_all(sn_in(i, 1), 0.0) ? sn_in(i, 1) : NULL;
}
static sn_instr *times_minus_one(sn_builder *b, sn_instr *i) {
  bool real = sn_type_is_float(i->shape->type) || sn_type_is_signed(i->shape->type);
  return real && sn_instr_is_all(sn_in(i, 1), -1.0) ? sn_build_unary(b, SN_OP_NEGATE, sn_in(i, 0)) : NULL;
}

/* Division by a power of two whose reciprocal is a normal number is multiplication by it: both round the same real number. */
static sn_instr *divide_power_of_two(sn_builder *b, sn_instr *i) {
  double v;
  int exponent;
  sn_type t = i->shape->type;
  if ((t != SN_TYPE_F32 && t != SN_TYPE_F64) || !sn_instr_constant_f64(sn_in(i, 1), &v) || v == 0 || !isfinite(v)) return NULL;
  if (fabs(frexp(v, &exponent)) != 0.5 || exponent > 100 || exponent < -100 || v == 1) return NULL;
  return sn_build_binary(b, SN_OP_MULTIPLY, sn_in(i, 0), sn_build_full(b, i->shape, 1 / v));
}

static sn_instr *negate_negate(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_in(sn_in(i, 0), 0);
}
static sn_instr *add_negate(sn_builder *b, sn_instr *i) { return sn_build_binary(b, SN_OP_SUBTRACT, sn_in(i, 0), sn_in(sn_in(i, 1), 0)); }
static sn_instr *negate_add(sn_builder *b, sn_instr *i) { return sn_build_binary(b, SN_OP_SUBTRACT, sn_in(i, 1), sn_in(sn_in(i, 0), 0)); }
static sn_instr *subtract_negate(sn_builder *b, sn_instr *i) { return sn_build_binary(b, SN_OP_ADD, sn_in(i, 0), sn_in(sn_in(i, 1), 0)); }
static sn_instr *both_negated(sn_builder *b, sn_instr *i) { /* the smallest integer has no negative: floats alone */
  return sn_type_is_float(i->shape->type) ? sn_build_binary(b, i->op, sn_in(sn_in(i, 0), 0), sn_in(sn_in(i, 1), 0)) : NULL;
}
static sn_instr *abs_of(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(i, 0);
  if (x->op == SN_OP_ABS) return x;
  return sn_type_is_complex(x->shape->type) || sn_type_is_integer(x->shape->type) ? NULL : sn_build_unary(b, SN_OP_ABS, sn_in(x, 0));
}

static sn_instr *same_operands(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_in(i, 0) == sn_in(i, 1) ? sn_in(i, 0) : NULL;
}

static bool is_literal(const sn_instr *i) {
  while (i->op == SN_OP_BROADCAST) i = sn_in(i, 0);
  return i->op == SN_OP_CONSTANT;
}

/* A constant stands on the right of an op that commutes, so that other rules look there alone. */
static sn_instr *constant_right(sn_builder *b, sn_instr *i) {
  return is_literal(sn_in(i, 0)) && !is_literal(sn_in(i, 1)) ? sn_build_binary(b, i->op, sn_in(i, 1), sn_in(i, 0)) : NULL;
}

/* (x op c) op d = x op (c op d) where regrouping is exact. */
static sn_instr *regroup_constants(sn_builder *b, sn_instr *i) {
  sn_instr *inner = sn_in(i, 0);
  bool exact = sn_is_int(i) || i->op == SN_OP_MAXIMUM || i->op == SN_OP_MINIMUM;
  if (!exact || !is_literal(sn_in(i, 1)) || !is_literal(sn_in(inner, 1)) || !sn_one_use(inner)) return NULL;
  return sn_build_binary(b, i->op, sn_in(inner, 0), sn_build_binary(b, i->op, sn_in(inner, 1), sn_in(i, 1)));
}
static sn_instr *regroup_floats(sn_builder *b, sn_instr *i) {
  sn_instr *inner = sn_in(i, 0);
  if (sn_is_int(i) || !is_literal(sn_in(i, 1)) || !is_literal(sn_in(inner, 1)) || !sn_one_use(inner)) return NULL;
  double c, d; /* products of constants must neither overflow nor vanish where the two steps would not */
  if (!sn_instr_constant_f64(sn_in(i, 1), &d) || !sn_instr_constant_f64(sn_in(inner, 1), &c)) return NULL;
  if (!(fabs(c) > 1e-4 && fabs(c) < 1e4 && fabs(d) > 1e-4 && fabs(d) < 1e4) || i->shape->type != SN_TYPE_F32) return NULL;
  return sn_build_binary(b, i->op, sn_in(inner, 0), sn_build_binary(b, i->op, sn_in(inner, 1), sn_in(i, 1)));
}

/* ---- powers and roots ---- */

static sn_instr *power_one(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_type_is_float(i->shape->type) && sn_instr_is_all(sn_in(i, 1), 1.0) ? sn_in(i, 0) : NULL;
}
/* The square of a number of at most 26 bits is exact in the carrier in which the power is computed, so both round the same real number. */
static sn_instr *power_two(sn_builder *b, sn_instr *i) {
  sn_type t = i->shape->type;
  if (t != SN_TYPE_F32 && t != SN_TYPE_BF16 && t != SN_TYPE_F16) return NULL;
  return sn_instr_is_all(sn_in(i, 1), 2.0) ? sn_build_binary(b, SN_OP_MULTIPLY, sn_in(i, 0), sn_in(i, 0)) : NULL;
}
static sn_instr *power_three(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(i, 0);
  if (!sn_type_is_float(i->shape->type) || !sn_instr_is_all(sn_in(i, 1), 3.0)) return NULL;
  return sn_build_binary(b, SN_OP_MULTIPLY, sn_build_binary(b, SN_OP_MULTIPLY, x, x), x);
}
static sn_instr *power_minus_one(sn_builder *b, sn_instr *i) {
  if (!sn_type_is_float(i->shape->type) || !sn_instr_is_all(sn_in(i, 1), -1.0)) return NULL;
  return sn_build_binary(b, SN_OP_DIVIDE, sn_build_full(b, i->shape, 1), sn_in(i, 0));
}
static sn_instr *one_over_sqrt(sn_builder *b, sn_instr *i) {
  return sn_instr_is_all(sn_in(i, 0), 1.0) && sn_one_use(sn_in(i, 1)) ? sn_build_unary(b, SN_OP_RSQRT, sn_in(sn_in(i, 1), 0)) : NULL;
}
static sn_instr *over_sqrt(sn_builder *b, sn_instr *i) {
  sn_instr *root = sn_in(i, 1);
  if (!sn_one_use(root) || sn_is_splat(root)) return NULL;
  return sn_build_binary(b, SN_OP_MULTIPLY, sn_in(i, 0), sn_build_unary(b, SN_OP_RSQRT, sn_in(root, 0)));
}
/* ---- complex numbers ---- */

static sn_instr *real_of_complex(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_in(sn_in(i, 0), 0);
}
static sn_instr *imag_of_complex(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_in(sn_in(i, 0), 1);
}
static sn_instr *complex_of_parts(sn_builder *b, sn_instr *i) {
  (void)b;
  sn_instr *z = sn_in(sn_in(i, 0), 0);
  return z == sn_in(sn_in(i, 1), 0) && sn_same_shape(z, i) ? z : NULL;
}

const sn_rule sn_rules_arithmetic[] = {
    {SN_OP_ADD, ANY, ANY, SN_EXACT, constant_right, "c + x = x + c"},
    {SN_OP_MULTIPLY, ANY, ANY, SN_EXACT, constant_right, "c * x = x * c"},
    {SN_OP_MAXIMUM, ANY, ANY, SN_EXACT, constant_right, "max(c, x) = max(x, c)"},
    {SN_OP_MINIMUM, ANY, ANY, SN_EXACT, constant_right, "min(c, x) = min(x, c)"},
    {SN_OP_ADD, ANY, ANY, SN_EXACT, add_neutral, "x + -0 = x"},
    {SN_OP_SUBTRACT, ANY, ANY, SN_EXACT, subtract_zero, "x - 0 = x"},
    {SN_OP_SUBTRACT, ANY, ANY, SN_EXACT, subtract_self, "n - n = 0"},
    {SN_OP_MULTIPLY, ANY, ANY, SN_EXACT, times_one, "x * 1 = x"},
    {SN_OP_MULTIPLY, ANY, ANY, SN_EXACT, int_times_zero, "n * 0 = 0"},
    {SN_OP_MULTIPLY, ANY, ANY, SN_EXACT, times_minus_one, "x * -1 = -x"},
    {SN_OP_DIVIDE, ANY, ANY, SN_EXACT, times_one, "x / 1 = x"},
    {SN_OP_DIVIDE, ANY, ANY, SN_EXACT, divide_power_of_two, "x / 2^n = x * 2^-n"},
    {SN_OP_NEGATE, SN_OP_NEGATE, ANY, SN_EXACT, negate_negate, "-(-x) = x"},
    {SN_OP_ADD, ANY, SN_OP_NEGATE, SN_EXACT, add_negate, "x + (-y) = x - y"},
    {SN_OP_ADD, SN_OP_NEGATE, ANY, SN_EXACT, negate_add, "(-x) + y = y - x"},
    {SN_OP_SUBTRACT, ANY, SN_OP_NEGATE, SN_EXACT, subtract_negate, "x - (-y) = x + y"},
    {SN_OP_MULTIPLY, SN_OP_NEGATE, SN_OP_NEGATE, SN_EXACT, both_negated, "(-x) * (-y) = x * y"},
    {SN_OP_DIVIDE, SN_OP_NEGATE, SN_OP_NEGATE, SN_EXACT, both_negated, "(-x) / (-y) = x / y"},
    {SN_OP_ABS, SN_OP_ABS, ANY, SN_EXACT, abs_of, "||x|| = |x|"},
    {SN_OP_ABS, SN_OP_NEGATE, ANY, SN_EXACT, abs_of, "|-x| = |x|"},
    {SN_OP_MAXIMUM, ANY, ANY, SN_EXACT, same_operands, "max(x, x) = x"},
    {SN_OP_MINIMUM, ANY, ANY, SN_EXACT, same_operands, "min(x, x) = x"},
    {SN_OP_ADD, SN_OP_ADD, ANY, SN_EXACT, regroup_constants, "(n + c) + d = n + (c + d)"},
    {SN_OP_MULTIPLY, SN_OP_MULTIPLY, ANY, SN_EXACT, regroup_constants, "(n * c) * d = n * (c * d)"},
    {SN_OP_MAXIMUM, SN_OP_MAXIMUM, ANY, SN_EXACT, regroup_constants, "max(max(x, c), d) = max(x, max(c, d))"},
    {SN_OP_MINIMUM, SN_OP_MINIMUM, ANY, SN_EXACT, regroup_constants, "min(min(x, c), d) = min(x, min(c, d))"},
    {SN_OP_MULTIPLY, SN_OP_MULTIPLY, ANY, SN_REASSOC, regroup_floats, "(x * c) * d = x * (c * d)"},
    {SN_OP_POWER, ANY, ANY, SN_EXACT, power_one, "x^1 = x"},
    {SN_OP_POWER, ANY, ANY, SN_EXACT, power_two, "x^2 = x * x"},
    {SN_OP_POWER, ANY, ANY, SN_FORMULA, power_three, "x^3 = x * x * x"},
    {SN_OP_POWER, ANY, ANY, SN_FORMULA, power_minus_one, "x^-1 = 1 / x"},
    {SN_OP_DIVIDE, ANY, SN_OP_SQRT, SN_FORMULA, one_over_sqrt, "1 / sqrt(x) = rsqrt(x)"},
    {SN_OP_DIVIDE, ANY, SN_OP_SQRT, SN_FORMULA, over_sqrt, "x / sqrt(y) = x * rsqrt(y)"},
    {SN_OP_REAL, SN_OP_COMPLEX, ANY, SN_EXACT, real_of_complex, "real(complex(a, b)) = a"},
    {SN_OP_IMAG, SN_OP_COMPLEX, ANY, SN_EXACT, imag_of_complex, "imag(complex(a, b)) = b"},
    {SN_OP_COMPLEX, SN_OP_REAL, SN_OP_IMAG, SN_EXACT, complex_of_parts, "complex(real(z), imag(z)) = z"},
    {0}};
