/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* log and its kin, pow, roots. x = 2^k m with m in [sqrt(1/2), sqrt 2); log x = k ln 2 + log m. */
#include "functions.h"

/* (log(1 + f) - f + f^2 / 2) / f^3. */
static const double log32[] = {0.33333325386047363, -0.2500028610229492, 0.20001892745494843, -0.16643214225769043, 0.141898512840271, -0.12946294248104095, 0.1280229538679123, -0.08300372958183289}; /* -25 */
/* (log((1 + s) / (1 - s)) / s - 2) / s^2 by s^2, |s| <= 0.1716. */
static const double log64[] = {0x1.5555555555558p-1, 0x1.999999999522fp-2, 0x1.2492492e02a9cp-2, 0x1.c71c62d1ccb69p-3, 0x1.7462b9b6f6c64p-3, 0x1.39fdc7ebbd547p-3, 0x1.2b5f0a346457dp-3}; /* -57 */

#define LN2_HI32 0x1.62e4p-1
#define LN2_LO32 0x1.7f7d1cp-20
#define LN2_HI64 0x1.62e42feep-1
#define LN2_LO64 0x1.a39ef35793c76p-33

/* x > 0 as 2^k m; subnormal numbers are brought up first. */
static void split(emit *e, val x, val *k, val *m) {
  bool single = is_single(x);
  int mantissa = single ? 23 : 52;
  int64_t sqrt_half = single ? INT64_C(0x3f3504f3) : INT64_C(0x3fe6a09e667f3bcd);
  val small = less(e, x, number(e, x, single ? 0x1p-126 : 0x1p-1022));
  x = choose(e, small, mul_f(e, x, number(e, x, single ? 0x1p25 : 0x1p54)), x);
  val i = float_bits(e, x), n = ashr(e, sub(e, i, const_int(e, i, sqrt_half)), const_int(e, i, mantissa));
  *m = bits_float(e, sub(e, i, shl(e, n, const_int(e, i, mantissa))));
  *k = cast(e, LLVMSIToFP, n, single ? e->f32 : e->f64);
  *k = sub_f(e, *k, choose(e, small, number(e, x, single ? 25 : 54), number(e, x, 0)));
}

static val log_positive(emit *e, val x) {
  val k, m;
  split(e, x, &k, &m);
  val f = sub_f(e, m, number(e, x, 1));
  if (is_single(x)) {
    val z = mul_f(e, f, f), y = mul_f(e, mul_f(e, f, z), POLYNOMIAL(e, f, log32));
    y = fma_op(e, k, number(e, x, LN2_LO32), y);
    y = fma_op(e, number(e, x, -0.5), z, y);
    return fma_op(e, k, number(e, x, LN2_HI32), add_f(e, f, y));
  }
  val half = mul_f(e, number(e, x, 0.5), mul_f(e, f, f)), s = div_f(e, f, add_f(e, f, number(e, x, 2))), z = mul_f(e, s, s);
  val tail = mul_f(e, s, add_f(e, half, mul_f(e, z, POLYNOMIAL(e, z, log64))));
  val low = sub_f(e, half, fma_op(e, k, number(e, x, LN2_LO64), tail));
  return sub_f(e, mul_f(e, k, number(e, x, LN2_HI64)), sub_f(e, low, f));
}

/* 0, negative numbers, infinity, NaN. */
static val log_special(emit *e, val x, val y) {
  val zero = number(e, x, 0), inf = infinity_of(e, x);
  y = choose(e, less(e, x, inf), y, x);
  y = choose(e, fcmp(e, LLVMRealOEQ, x, zero), neg(e, inf), y);
  return choose(e, less(e, x, zero), nan_of(e, x), y);
}

val math_log(emit *e, val x) { return log_special(e, x, log_positive(e, x)); }

val log_sum(emit *e, val hi, val lo) { return add_f(e, log_positive(e, hi), div_f(e, lo, hi)); }

/* log(u) of the rounded u = 1 + x, and what the rounding lost. */
val math_log1p(emit *e, val x) {
  val one = number(e, x, 1), u = add_f(e, one, x), big = less(e, one, x);
  val lost = choose(e, big, sub_f(e, one, sub_f(e, u, x)), sub_f(e, x, sub_f(e, u, one)));
  val y = log_special(e, u, log_sum(e, u, lost));
  return choose(e, fcmp(e, LLVMRealOEQ, x, number(e, x, 0)), x, y);
}

val math_rsqrt(emit *e, val a) { return div_f(e, number(e, a, 1), root(e, a)); }

/* ---- inverse hyperbolic functions ---- */

/* hi + lo = log's argument minus 1: log1p of a sum. */
static val log1p_sum(emit *e, val hi, val lo) {
  val one = number(e, hi, 1), u = add_f(e, one, hi), big = less(e, one, hi);
  val lost = choose(e, big, sub_f(e, one, sub_f(e, u, hi)), sub_f(e, hi, sub_f(e, u, one)));
  return log_sum(e, u, add_f(e, lost, lo));
}

/* a / b with its remainder's share: *lo. */
static val quotient(emit *e, val a, val b, val *lo) {
  val q = div_f(e, a, b);
  *lo = e->fma ? div_f(e, fma_op(e, neg(e, q), b, a), b) : number(e, a, 0);
  return q;
}

static val root_pair(emit *e, val a, val *lo) {
  val s = root(e, a), zero = number(e, a, 0);
  *lo = e->fma ? div_f(e, fma_op(e, neg(e, s), s, a), add_f(e, s, s)) : zero;
  *lo = choose(e, fcmp(e, LLVMRealOEQ, s, zero), zero, *lo);
  return s;
}

/* |x| + x^2 / (1 + sqrt(1 + x^2)) is the argument minus 1; for large x log 2|x|. */
val math_asinh(emit *e, val x) {
  if (is_single(x)) return to_f32(e, math_asinh(e, to_f64(e, x)));
  val a = absolute(e, x), one = number(e, x, 1), limit = number(e, x, 0x1p28), b = choose(e, less(e, a, limit), a, limit), lo;
  val z = mul_f(e, b, b), t = quotient(e, z, add_f(e, one, root(e, add_f(e, one, z))), &lo);
  val hi = add_f(e, b, t), rest = add_f(e, sub_f(e, b, sub_f(e, hi, sub_f(e, hi, b))), sub_f(e, t, sub_f(e, hi, b)));
  val small = log1p_sum(e, hi, add_f(e, rest, lo)), large = add_f(e, math_log(e, a), number(e, x, 0x1.62e42fefa39efp-1));
  val y = choose(e, less(e, a, limit), small, large);
  y = choose(e, less(e, a, number(e, x, 0x1p-28)), a, y);
  return with_sign(e, y, x);
}

/* With t = x - 1: log1p(t + sqrt(2 t + t^2)). */
val math_acosh(emit *e, val x) {
  if (is_single(x)) return to_f32(e, math_acosh(e, to_f64(e, x)));
  val one = number(e, x, 1), limit = number(e, x, 0x1p28), b = choose(e, less(e, x, limit), x, limit), lo;
  val t = sub_f(e, b, one), s = root_pair(e, fma_op(e, t, t, add_f(e, t, t)), &lo);
  val hi = add_f(e, t, s), back = sub_f(e, hi, s), rest = add_f(e, sub_f(e, t, back), sub_f(e, s, sub_f(e, hi, back)));
  val small = log1p_sum(e, hi, add_f(e, rest, lo)), large = add_f(e, math_log(e, x), number(e, x, 0x1.62e42fefa39efp-1));
  val y = choose(e, less(e, x, limit), small, large);
  y = choose(e, fcmp(e, LLVMRealOEQ, x, one), number(e, x, 0), y);
  return choose(e, fcmp(e, LLVMRealULT, x, one), nan_of(e, x), y);
}

/* log1p(2 a / (1 - a)) / 2. */
val math_atanh(emit *e, val x) {
  if (is_single(x)) return to_f32(e, math_atanh(e, to_f64(e, x)));
  val a = absolute(e, x), one = number(e, x, 1), d = sub_f(e, one, a), lo;
  val lost = sub_f(e, sub_f(e, one, d), a); /* 1 - a = d + lost */
  val q = quotient(e, add_f(e, a, a), d, &lo);
  lo = sub_f(e, lo, mul_f(e, q, div_f(e, lost, d)));
  val y = mul_f(e, number(e, x, 0.5), log1p_sum(e, q, lo));
  y = choose(e, less(e, a, number(e, x, 0x1p-28)), a, y);
  y = choose(e, fcmp(e, LLVMRealOEQ, a, one), infinity_of(e, x), y);
  y = choose(e, fcmp(e, LLVMRealUGT, a, one), nan_of(e, x), y);
  return with_sign(e, y, x);
}

/* ---- cube root ---- */

/* A third of the exponent, three of Newton's steps for y = x^(-2/3), and one on the result with the remainder. */
val math_cbrt(emit *e, val x) {
  if (is_single(x)) return to_f32(e, math_cbrt(e, to_f64(e, x)));
  val a = absolute(e, x), small = less(e, a, number(e, x, 0x1p-1000));
  val b = choose(e, small, mul_f(e, a, number(e, x, 0x1p54)), a), high = lshr(e, float_bits(e, b), const_int(e, float_bits(e, b), 32));
  val third = bin(e, LLVMUDiv, cast(e, LLVMTrunc, high, e->i32), const_int(e, cast(e, LLVMTrunc, high, e->i32), 3));
  val guess = shl(e, cast(e, LLVMZExt, add(e, third, const_int(e, third, 715094163)), e->i64), const_int(e, high, 32));
  val t = bits_float(e, guess);
  for (int i = 0; i < 3; i++) { /* Halley: t (t^3 + 2 b) / (2 t^3 + b), errors cubed */
    val c = mul_f(e, mul_f(e, t, t), t);
    t = mul_f(e, t, div_f(e, add_f(e, c, add_f(e, b, b)), add_f(e, add_f(e, c, c), b)));
  }
  val square = mul_f(e, t, t), r = sub_f(e, div_f(e, b, square), t);
  t = add_f(e, t, div_f(e, r, number(e, x, 3)));
  t = choose(e, small, mul_f(e, t, number(e, x, 0x1p-18)), t);
  val zero = number(e, x, 0), plain = or_(e, fcmp(e, LLVMRealOEQ, a, zero), fcmp(e, LLVMRealUEQ, a, infinity_of(e, x)));
  return with_sign(e, choose(e, plain, a, t), x);
}

/* ---- power ---- */

/* (log((1 + s) / (1 - s)) / s - 2 - 2/3 s^2) / s^4 by s^2. */
static const double log64_5[] = {0x1.999999999999fp-2, 0x1.249249248e499p-2, 0x1.c71c71d80546dp-3, 0x1.745d09dffae52p-3, 0x1.3b18bd1aced49p-3, 0x1.1018314ff11a9p-3, 0x1.087e05c1af61ep-3}; /* -62 */

typedef struct pair { val hi, lo; } pair;

static pair sum_of(emit *e, val a, val b) {
  val s = add_f(e, a, b), t = sub_f(e, s, a);
  pair r = {s, add_f(e, sub_f(e, a, sub_f(e, s, t)), sub_f(e, b, t))};
  return r;
}

/* Products with their errors: by fma, or by halves of 26 bits (Dekker). */
static pair product_of(emit *e, val a, val b) {
  pair r = {mul_f(e, a, b), NULL};
  if (e->fma) {
    r.lo = fma_op(e, a, b, neg(e, r.hi));
    return r;
  }
  val mask[2], part[2] = {a, b}, low[2];
  for (int i = 0; i < 2; i++) {
    val bits = float_bits(e, part[i]);
    mask[i] = bits_float(e, and_(e, bits, const_int(e, bits, ~INT64_C(0x7ffffff))));
    low[i] = sub_f(e, part[i], mask[i]);
  }
  val x = sub_f(e, mul_f(e, mask[0], mask[1]), r.hi);
  x = add_f(e, x, mul_f(e, mask[0], low[1]));
  x = add_f(e, x, mul_f(e, low[0], mask[1]));
  r.lo = add_f(e, x, mul_f(e, low[0], low[1]));
  return r;
}

/* log a to some 64 bits. */
static pair log_pair(emit *e, val a) {
  val k, m, one = number(e, a, 1);
  split(e, a, &k, &m);
  val f = sub_f(e, m, one), d = add_f(e, m, one), d_lo = sub_f(e, m, sub_f(e, d, one));
  val s = div_f(e, f, d);
  pair sd = product_of(e, s, d);
  val rest = sub_f(e, sub_f(e, f, sd.hi), sd.lo), s_lo = div_f(e, sub_f(e, rest, mul_f(e, s, d_lo)), d);
  pair z = product_of(e, s, s);
  z.lo = add_f(e, z.lo, mul_f(e, add_f(e, s, s), s_lo));
  /* s z 2/3 as a pair, what follows plainly */
  pair c = product_of(e, z.hi, s);
  c.lo = add_f(e, c.lo, add_f(e, mul_f(e, z.lo, s), mul_f(e, z.hi, s_lo)));
  pair cubic = product_of(e, c.hi, number(e, a, 0x1.5555555555555p-1));
  cubic.lo = add_f(e, cubic.lo, add_f(e, mul_f(e, c.lo, number(e, a, 0x1.5555555555555p-1)), mul_f(e, c.hi, number(e, a, 0x1.5555555555555p-55))));
  val tail = mul_f(e, mul_f(e, c.hi, z.hi), POLYNOMIAL(e, z.hi, log64_5));
  pair t = sum_of(e, add_f(e, s, s), cubic.hi);
  t.lo = add_f(e, t.lo, add_f(e, add_f(e, add_f(e, s_lo, s_lo), cubic.lo), tail));
  pair l = sum_of(e, mul_f(e, k, number(e, a, LN2_HI64)), t.hi);
  l.lo = add_f(e, l.lo, fma_op(e, k, number(e, a, LN2_LO64), t.lo));
  return sum_of(e, l.hi, l.lo);
}

/* |x|^y for finite, nonzero x and finite y. */
static val power_finite(emit *e, val a, val y) {
  exponent n;
  val r;
  pair l = log_pair(e, a), p = product_of(e, y, l.hi);
  p.lo = add_f(e, p.lo, mul_f(e, y, l.lo));
  /* Far outside the range of exp the pair's low part is worthless, perhaps NaN. */
  val lo = number(e, a, -800), hi = number(e, a, 800), zero = number(e, a, 0);
  val out = or_(e, less(e, p.hi, lo), less(e, hi, p.hi));
  val x = choose(e, less(e, p.hi, lo), lo, choose(e, less(e, hi, p.hi), hi, p.hi));
  p.lo = choose(e, out, zero, p.lo);
  val q = exp_reduced(e, x, &n, &r);
  pair small = sum_of(e, r, mul_f(e, mul_f(e, r, r), q)), power = sum_of(e, number(e, a, 1), small.hi);
  return scale(e, add_f(e, power.hi, fma_op(e, power.hi, p.lo, add_f(e, power.lo, small.lo))), n);
}

static val truncated_equal(emit *e, val y) { return fcmp(e, LLVMRealOEQ, call1(e, "llvm.trunc", y), y); }

/* The rules of IEEE 754's pow. */
static val power_special(emit *e, val x, val y, val r) {
  val a = absolute(e, x), b = absolute(e, y), zero = number(e, x, 0), one = number(e, x, 1), inf = infinity_of(e, x);
  val whole = truncated_equal(e, y), half = mul_f(e, y, number(e, x, 0.5));
  val odd = and_(e, and_(e, whole, less(e, b, number(e, x, 0x1p53))), xor_(e, truncated_equal(e, half), const_int(e, truncated_equal(e, half), 1)));
  /* 0, infinite x or infinite y: by which side of 1, and the exponent's sign */
  val extreme = or_(e, fcmp(e, LLVMRealOEQ, b, inf), or_(e, fcmp(e, LLVMRealOEQ, a, zero), fcmp(e, LLVMRealOEQ, a, inf)));
  val grows = xor_(e, less(e, one, a), less(e, y, zero));
  r = choose(e, extreme, choose(e, grows, inf, zero), r);
  r = choose(e, fcmp(e, LLVMRealOEQ, a, one), one, r);
  val bits = float_bits(e, x), minus = icmp(e, LLVMIntSLT, bits, const_int(e, bits, 0));
  val root_of_negative = and_(e, and_(e, less(e, x, zero), less(e, neg(e, inf), x)), and_(e, xor_(e, whole, const_int(e, whole, 1)), less(e, b, inf)));
  r = choose(e, root_of_negative, nan_of(e, x), r);
  r = choose(e, and_(e, minus, odd), neg(e, r), r);
  r = choose(e, fcmp(e, LLVMRealUNO, x, y), nan_of(e, x), r);
  return choose(e, or_(e, fcmp(e, LLVMRealOEQ, y, zero), fcmp(e, LLVMRealOEQ, x, one)), one, r);
}

val math_pow(emit *e, val x, val y) {
  match(e, &x, &y);
  if (!is_single(x)) return power_special(e, x, y, power_finite(e, absolute(e, x), y));
  /* The spare bits of f64 take the place of the pair. */
  val a = to_f64(e, x), b = to_f64(e, y), r = math_exp(e, mul_f(e, b, log_positive(e, absolute(e, a))));
  return to_f32(e, power_special(e, a, b, r));
}
