/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of elementwise ops. */
#include "diff_internal.h"

#define X sn_op0(i)
#define Y sn_op1(i)
#define MUL(a, b) sn_d_mul(d, a, b)
#define NEG(a) sn_d_neg(d, a)
#define UN(op, a) sn_d_un(d, SN_OP_##op, a)

const sn_diff_rule sn_diff_zero = {.name = "zero", .is_zero = true};
const sn_diff_rule sn_diff_flat = {.name = "flat", .is_zero = true}; /* steps: the derivative is 0 wherever it exists */
const sn_diff_rule sn_diff_leaf = {.name = "leaf"};
const sn_diff_rule sn_diff_none = {.name = "none"};

/* ---- one operand: y = f(x), dy = factor dx or dx / divisor ---- */

#define FACTOR(rule, expr)                                                 \
  static sn_instr *rule##_factor(sn_diff *d, sn_instr *i) { return expr; } \
  const sn_diff_rule sn_diff_##rule = {.name = #rule, .factor = rule##_factor};
#define DIVISOR(rule, expr)                                                 \
  static sn_instr *rule##_divisor(sn_diff *d, sn_instr *i) { return expr; } \
  const sn_diff_rule sn_diff_##rule = {.name = #rule, .divisor = rule##_divisor};

static sn_instr *one_minus_square(sn_diff *d, sn_instr *x) {
  return MUL(sn_d_rsub_c(d, 1, x), sn_d_add_c(d, x, 1));
} /* exact near |x| = 1 */
static sn_instr *one_plus_square(sn_diff *d, sn_instr *x) { return sn_d_add_c(d, MUL(x, x), 1); }
/* (x - 1)(x + 1), positive for acosh; products of differences keep digits near 1 */
static sn_instr *square_minus_one(sn_diff *d, sn_instr *x) { return MUL(sn_d_add_c(d, x, -1), sn_d_add_c(d, x, 1)); }

FACTOR(acos, NEG(UN(RSQRT, one_minus_square(d, X))))
FACTOR(acosh, UN(RSQRT, square_minus_one(d, X)))
FACTOR(asin, UN(RSQRT, one_minus_square(d, X)))
FACTOR(asinh, UN(RSQRT, one_plus_square(d, X)))
DIVISOR(atan, one_plus_square(d, X))
DIVISOR(atanh, one_minus_square(d, X))
FACTOR(cbrt, sn_d_div(d, i, sn_d_mul_c(d, X, 3)))
FACTOR(cosh, UN(SINH, X))
FACTOR(cosine, NEG(UN(SINE, X)))
FACTOR(erf, sn_d_mul_c(d, UN(EXPONENTIAL, NEG(MUL(X, X))), 1.12837916709551257390)) /* 2 / sqrt(pi) */
FACTOR(exponential, ((void)d, i))
FACTOR(exponential_minus_one, sn_d_add_c(d, i, 1))
DIVISOR(log, ((void)d, X))
DIVISOR(log_plus_one, sn_d_add_c(d, X, 1))
FACTOR(logistic, MUL(i, sn_d_rsub_c(d, 1, i)))
FACTOR(rsqrt, sn_d_mul_c(d, sn_d_div(d, i, X), -0.5))
FACTOR(sine, UN(COSINE, X))
FACTOR(sinh, UN(COSH, X))
DIVISOR(sqrt, sn_d_mul_c(d, i, 2))
FACTOR(tan, one_plus_square(d, i))
FACTOR(tanh, one_minus_square(d, i))

/* |x|: the sign; for complex x the direction of x, of which the real part counts. */
static void abs_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *s = UN(SIGN, X);
  if (!sn_type_is_complex(X->shape->type))
    sn_diff_give(d, i, 0, MUL(ct[0], s));
  else
    sn_diff_give(d, i, 0, sn_d_bin(d, SN_OP_MULTIPLY, sn_d_convert(d, ct[0], X->shape->type), sn_d_conj(d, s)));
}

static void abs_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0), *s = UN(SIGN, X);
  *out = MUL(t, s);
  if (sn_type_is_complex(X->shape->type)) *out = UN(REAL, sn_d_bin(d, SN_OP_MULTIPLY, t, sn_d_conj(d, s)));
}
const sn_diff_rule sn_diff_abs = {.name = "abs", .vjp = abs_vjp, .jvp = abs_jvp};

/* The sign of a real number is a step. Of a complex one it is the direction s = z / |z|: ds = (dz - s Re(conj(s) dz)) / |z|, so what comes back of a cotangent c is
 * (c - Re(c s) conj(s)) / |z|. Zero at zero. */
static sn_instr *across(sn_diff *d, sn_instr *z, sn_instr *t, sn_instr *s, sn_instr *s_conj) {
  sn_instr *size = UN(ABS, z), *zero = size ? sn_d_like(d, size, 0) : NULL;
  if (!zero) return NULL;
  sn_instr *along = sn_d_convert(d, UN(REAL, MUL(s_conj, t)), z->shape->type), *is_zero = sn_d_cmp(d, SN_DIRECTION_EQ, size, zero);
  sn_instr *safe = sn_d_select(d, is_zero, sn_d_like(d, size, 1), size);
  return sn_d_select(d, is_zero, NULL, sn_d_div(d, sn_d_sub(d, t, MUL(s, along)), sn_d_convert(d, safe, z->shape->type)));
}
static void sign_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) { sn_diff_give(d, i, 0, across(d, X, ct[0], sn_d_conj(d, i), i)); }
static void sign_jvp(sn_diff *d, sn_instr *i, sn_instr **out) { *out = across(d, X, sn_diff_tangent(d, i, 0), i, sn_d_conj(d, i)); }
static void sign_active(sn_diff *d, sn_instr *i, bool *out) { *out = sn_type_is_complex(X->shape->type) && sn_diff_active_element(d, X, 0); }
const sn_diff_rule sn_diff_sign = {.name = "sign", .vjp = sign_vjp, .jvp = sign_jvp, .active = sign_active};

/* ---- linear ---- */

static void negate_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) { sn_diff_give(d, i, 0, NEG(ct[0])); }
static void negate_jvp(sn_diff *d, sn_instr *i, sn_instr **out) { *out = NEG(sn_diff_tangent(d, i, 0)); }
const sn_diff_rule sn_diff_negate = {.name = "negate", .vjp = negate_vjp, .jvp = negate_jvp};

static void real_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_type t = X->shape->type;
  sn_diff_give(d, i, 0, sn_type_is_complex(t) ? sn_build_complex(d->b, ct[0], sn_d_like(d, ct[0], 0)) : ct[0]);
}
static void real_jvp(sn_diff *d, sn_instr *i, sn_instr **out) { *out = UN(REAL, sn_diff_tangent(d, i, 0)); }
const sn_diff_rule sn_diff_real = {.name = "real", .vjp = real_vjp, .jvp = real_jvp};

static void imag_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_type_is_complex(X->shape->type))
    sn_diff_give(d, i, 0, sn_build_complex(d->b, sn_d_like(d, ct[0], 0), NEG(ct[0])));
}
static void imag_jvp(sn_diff *d, sn_instr *i, sn_instr **out) { *out = UN(IMAG, sn_diff_tangent(d, i, 0)); }
const sn_diff_rule sn_diff_imag = {.name = "imag", .vjp = imag_vjp, .jvp = imag_jvp};

static void complex_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, UN(REAL, ct[0]));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, NEG(UN(IMAG, ct[0])));
}
static void complex_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *re = sn_diff_tangent(d, i, 0), *im = sn_diff_tangent(d, i, 1);
  if (re || im) *out = sn_build_complex(d->b, re ? re : sn_d_like(d, X, 0), im ? im : sn_d_like(d, Y, 0));
}
const sn_diff_rule sn_diff_complex = {.name = "complex", .vjp = complex_vjp, .jvp = complex_jvp};

static void convert_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, sn_d_convert(d, ct[0], X->shape->type));
}
static void convert_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_d_convert(d, sn_diff_tangent(d, i, 0), i->shape->type);
}
const sn_diff_rule sn_diff_convert = {.name = "convert", .vjp = convert_vjp, .jvp = convert_jvp};

/* Identities, on tuples element by element; reduce-precision rounds derivatives as it rounds values. */
static sn_instr *rounded(sn_diff *d, sn_instr *i, sn_instr *t) {
  return t && i->op == SN_OP_REDUCE_PRECISION ? sn_d_again(d, i, 1, &t) : t;
}
static void same_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  for (int k = 0; k < sn_diff_elements(i); k++) sn_diff_add_to(d, X, k, rounded(d, i, ct[k]));
}
static void same_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  for (int k = 0; k < sn_diff_elements(i); k++) out[k] = rounded(d, i, sn_diff_get(d, X, k));
}
static void same_active(sn_diff *d, sn_instr *i, bool *out) {
  for (int k = 0; k < sn_diff_elements(i); k++) out[k] = sn_diff_active_element(d, X, k);
}
const sn_diff_rule sn_diff_linear_same = {
    .name = "linear_same", .vjp = same_vjp, .jvp = same_jvp, .active = same_active};

/* ---- two operands ---- */

static void add_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, ct[0]);
  sn_diff_give(d, i, 1, ct[0]);
}
static void add_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_d_add(d, sn_diff_tangent(d, i, 0), sn_diff_tangent(d, i, 1));
}
const sn_diff_rule sn_diff_add = {.name = "add", .vjp = add_vjp, .jvp = add_jvp};

static void subtract_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, ct[0]);
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, NEG(ct[0]));
}
static void subtract_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_d_sub(d, sn_diff_tangent(d, i, 0), sn_diff_tangent(d, i, 1));
}
const sn_diff_rule sn_diff_subtract = {.name = "subtract", .vjp = subtract_vjp, .jvp = subtract_jvp};

static void multiply_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (X == Y) { /* a square: one product, doubled */
    sn_diff_give(d, i, 0, MUL(ct[0], sn_d_add(d, X, X)));
    return;
  }
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, MUL(ct[0], Y));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, MUL(ct[0], X));
}
static void multiply_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_d_add(d, MUL(sn_diff_tangent(d, i, 0), Y), MUL(X, sn_diff_tangent(d, i, 1)));
}
const sn_diff_rule sn_diff_multiply = {.name = "multiply", .vjp = multiply_vjp, .jvp = multiply_jvp};

/* d(x / y) = (dx - (x / y) dy) / y */
static void divide_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *q = sn_d_div(d, ct[0], Y);
  sn_diff_give(d, i, 0, q);
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, NEG(MUL(q, i)));
}
static void divide_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_d_div(d, sn_d_sub(d, sn_diff_tangent(d, i, 0), MUL(i, sn_diff_tangent(d, i, 1))), Y);
}
const sn_diff_rule sn_diff_divide = {.name = "divide", .vjp = divide_vjp, .jvp = divide_jvp};

/* Where the operand alone decides the result all of t passes, at a tie half of it. */
static sn_instr *winner(sn_diff *d, sn_instr *i, uint32_t operand, sn_instr *t) {
  sn_instr *mine = sn_instr_operand(i, operand), *other = sn_instr_operand(i, 1 - operand);
  if (!t) return NULL;
  sn_instr *wins = sn_d_cmp(d, i->op == SN_OP_MAXIMUM ? SN_DIRECTION_GT : SN_DIRECTION_LT, mine, other);
  sn_instr *tie = sn_d_select(d, sn_d_cmp(d, SN_DIRECTION_EQ, mine, other), sn_d_mul_c(d, t, 0.5), NULL);
  return sn_d_select(d, wins, t, tie);
}
static void extreme_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (X == Y) {
    sn_diff_give(d, i, 0, ct[0]);
    return;
  }
  for (uint32_t k = 0; k < 2; k++)
    if (sn_diff_wants(d, i, k)) sn_diff_give(d, i, k, winner(d, i, k, ct[0]));
}
static void extreme_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  if (X == Y)
    *out = sn_diff_tangent(d, i, 0);
  else
    *out = sn_d_add(d, winner(d, i, 0, sn_diff_tangent(d, i, 0)), winner(d, i, 1, sn_diff_tangent(d, i, 1)));
}
const sn_diff_rule sn_diff_maximum = {.name = "maximum", .vjp = extreme_vjp, .jvp = extreme_jvp};
const sn_diff_rule sn_diff_minimum = {.name = "minimum", .vjp = extreme_vjp, .jvp = extreme_jvp};

/* y x^(y-1), and 0 where y is 0 whatever x is. */
static sn_instr *power_by_base(sn_diff *d, sn_instr *i) {
  double c;
  if (sn_instr_constant_f64(Y, &c)) {
    if (c == 2) return sn_d_add(d, X, X);
    if (c == 0) return sn_d_like(d, X, 0);
    return sn_d_mul_c(d, c == 1 ? sn_d_like(d, X, 1) : sn_d_bin(d, SN_OP_POWER, X, sn_d_like(d, X, c - 1)), c);
  }
  sn_instr *none = sn_d_cmp(d, SN_DIRECTION_EQ, Y, sn_d_like(d, Y, 0));
  sn_instr *less =
      sn_d_select(d, none, sn_d_like(d, Y, 1), sn_d_add_c(d, Y, -1)); /* no infinity to multiply the 0 with */
  return MUL(Y, sn_d_bin(d, SN_OP_POWER, X, less));
}
/* x^y log x, and 0 where x is 0 */
static sn_instr *power_by_exponent(sn_diff *d, sn_instr *i) {
  sn_instr *zero = sn_d_cmp(d, SN_DIRECTION_EQ, X, sn_d_like(d, X, 0));
  return MUL(i, UN(LOG, sn_d_select(d, zero, sn_d_like(d, X, 1), X)));
}
static void power_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, MUL(ct[0], power_by_base(d, i)));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, MUL(ct[0], power_by_exponent(d, i)));
}
static void power_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *tx = sn_diff_tangent(d, i, 0), *ty = sn_diff_tangent(d, i, 1);
  *out = sn_d_add(d, tx ? MUL(tx, power_by_base(d, i)) : NULL, ty ? MUL(ty, power_by_exponent(d, i)) : NULL);
}
const sn_diff_rule sn_diff_power = {.name = "power", .vjp = power_vjp, .jvp = power_jvp};

/* x - y trunc(x / y) */
static sn_instr *remainder_by_divisor(sn_diff *d, sn_instr *i) {
  sn_instr *q = sn_d_div(d, X, Y);
  return NEG(MUL(UN(SIGN, q), UN(FLOOR, UN(ABS, q))));
}
static void remainder_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, ct[0]);
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, MUL(ct[0], remainder_by_divisor(d, i)));
}
static void remainder_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *ty = sn_diff_tangent(d, i, 1);
  *out = sn_d_add(d, sn_diff_tangent(d, i, 0), ty ? MUL(ty, remainder_by_divisor(d, i)) : NULL);
}
const sn_diff_rule sn_diff_remainder = {.name = "remainder", .vjp = remainder_vjp, .jvp = remainder_jvp};

/* atan2(x, y): (y dx - x dy) / (x^2 + y^2) */
static sn_instr *radius(sn_diff *d, sn_instr *i) { return sn_d_add(d, MUL(X, X), MUL(Y, Y)); }
static void atan2_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *q = sn_d_div(d, ct[0], radius(d, i));
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, MUL(q, Y));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, NEG(MUL(q, X)));
}
static void atan2_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *n = sn_d_sub(d, MUL(sn_diff_tangent(d, i, 0), Y), MUL(X, sn_diff_tangent(d, i, 1)));
  *out = sn_d_div(d, n, radius(d, i));
}
const sn_diff_rule sn_diff_atan2 = {.name = "atan2", .vjp = atan2_vjp, .jvp = atan2_jvp};

/* ---- choices ---- */

static void select_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, sn_d_select(d, X, ct[0], NULL));
  if (sn_diff_wants(d, i, 2)) sn_diff_give(d, i, 2, sn_d_select(d, X, NULL, ct[0]));
}
static void select_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_d_select(d, X, sn_diff_tangent(d, i, 1), sn_diff_tangent(d, i, 2));
}
const sn_diff_rule sn_diff_select = {.name = "select", .vjp = select_vjp, .jvp = select_jvp};

/* A bound in x's shape. */
static sn_instr *wide(sn_diff *d, sn_instr *bound, const sn_instr *x) {
  return bound->shape->rank ? bound : sn_graph_fill(d->g, bound, x->shape->rank, x->shape->dims);
}
static sn_instr *inside(sn_diff *d, sn_instr *i) {
  sn_instr *x = Y;
  return sn_d_bin(d, SN_OP_AND, sn_d_cmp(d, SN_DIRECTION_GT, x, wide(d, X, x)),
                  sn_d_cmp(d, SN_DIRECTION_LT, x, wide(d, sn_instr_operand(i, 2), x)));
}
/* Where a bound decides. */
static sn_instr *at_bound(sn_diff *d, sn_instr *i, uint32_t operand) {
  sn_instr *b = wide(d, sn_instr_operand(i, operand), Y);
  return sn_d_cmp(d, operand == 0 ? SN_DIRECTION_GT : SN_DIRECTION_LT, b, Y);
}
static void clamp_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, sn_d_select(d, inside(d, i), ct[0], NULL));
  for (uint32_t k = 0; k < 3; k += 2) {
    if (!sn_diff_wants(d, i, k)) continue;
    sn_instr *c = sn_d_select(d, at_bound(d, i, k), ct[0], NULL);
    int64_t all[SN_MAX_RANK];
    for (int j = 0; j < i->shape->rank; j++) all[j] = j;
    sn_diff_give(d, i, k, sn_instr_operand(i, k)->shape->rank ? c : sn_d_sum(d, c, i->shape->rank, all));
  }
}
static void clamp_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 1), *r = t ? sn_d_select(d, inside(d, i), t, NULL) : NULL;
  for (uint32_t k = 0; k < 3; k += 2) {
    sn_instr *tb = sn_diff_tangent(d, i, k);
    if (tb) r = sn_d_add(d, r, sn_d_select(d, at_bound(d, i, k), wide(d, tb, Y), NULL));
  }
  *out = r;
}
const sn_diff_rule sn_diff_clamp = {.name = "clamp", .vjp = clamp_vjp, .jvp = clamp_jvp};

/* A map is its function spread over the arrays; that is differentiated in its place. */
static bool map_parts(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  int n;
  sn_instr **r = sn_diff_inline_scalar(d->g, i->called[0], (int)i->n_operands, in, &n);
  if (r) out[0] = r[0];
  return r != NULL;
}
static void map_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) { sn_parts_vjp(d, i, ct, map_parts); }
static void map_jvp(sn_diff *d, sn_instr *i, sn_instr **out) { sn_parts_jvp(d, i, out, map_parts); }
const sn_diff_rule sn_diff_map = {.name = "map", .vjp = map_vjp, .jvp = map_jvp};

/* ---- tuples ---- */

static void tuple_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  for (uint32_t k = 0; k < i->n_operands; k++) sn_diff_give(d, i, k, ct[k]);
}
static void tuple_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  for (uint32_t k = 0; k < i->n_operands; k++) out[k] = sn_diff_tangent(d, i, k);
}
static void tuple_active(sn_diff *d, sn_instr *i, bool *out) {
  for (uint32_t k = 0; k < i->n_operands; k++) out[k] = sn_diff_active(d, sn_instr_operand(i, k));
}
const sn_diff_rule sn_diff_tuple = {.name = "tuple", .vjp = tuple_vjp, .jvp = tuple_jvp, .active = tuple_active};

static void gte_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_add_to(d, X, (int)sn_instr_int(i, SN_ATTR_INDEX), ct[0]);
}
static void gte_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  *out = sn_diff_get(d, X, (int)sn_instr_int(i, SN_ATTR_INDEX));
}
static void gte_active(sn_diff *d, sn_instr *i, bool *out) {
  *out = sn_diff_active_element(d, X, (int)sn_instr_int(i, SN_ATTR_INDEX));
}
const sn_diff_rule sn_diff_get_tuple_element = {
    .name = "get_tuple_element", .vjp = gte_vjp, .jvp = gte_jvp, .active = gte_active};
