/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Circular functions and their inverses, in f64 (f32 by way of it). */
#include "functions.h"

/* ---- sine and cosine ---- */

/* (sin r / r - 1) / r^2 and (cos r - 1 + r^2 / 2) / r^4 by r^2, |r| <= pi / 4. */
static const double sin64[] = {-0x1.5555555555555p-3, 0x1.1111111110ba6p-7, -0x1.a01a019e80a1dp-13, 0x1.71de3792922bdp-19, -0x1.ae6006d9a7fd0p-26, 0x1.5e09988972b3ep-33}; /* -56 */
static const double cos64[] = {0x1.5555555555555p-5, -0x1.6c16c16c16960p-10, 0x1.a01a019f4d280p-16, -0x1.27e4fa15da111p-22, 0x1.1eeb66d0ea81cp-29, -0x1.907c1f79fb1b5p-37}; /* -60 */

/* x = n pi/2 + hi + lo. pi/2 in parts of 33 bits: n times each of the first two is exact for |x| < 2^19; together they hold 119 bits, more than any f64 below that
 * comes near a multiple. */
static void reduce(emit *e, val x, val *n, val *hi, val *lo) {
  val f = nearest_int(e, x, number(e, x, 0x1.45f306dc9c883p-1), n);
  val t = sub_f(e, x, mul_f(e, f, number(e, x, 0x1.921fb544p+0)));
  val w = mul_f(e, f, number(e, x, 0x1.0b4611a6p-34)), r = sub_f(e, t, w), back = sub_f(e, r, t);
  val lost = sub_f(e, sub_f(e, t, sub_f(e, r, back)), add_f(e, w, back));
  val rest = sub_f(e, lost, mul_f(e, f, number(e, x, 0x1.3198a2e037073p-69)));
  *hi = add_f(e, r, rest);
  *lo = add_f(e, sub_f(e, r, *hi), rest);
}

static val sine_near(emit *e, val r, val lo) {
  val z = mul_f(e, r, r), s = mul_f(e, mul_f(e, z, r), POLYNOMIAL(e, z, sin64));
  return add_f(e, r, add_f(e, s, fma_op(e, mul_f(e, number(e, r, -0.5), z), lo, lo)));
}

static val cosine_near(emit *e, val r, val lo) {
  val z = mul_f(e, r, r), half = mul_f(e, number(e, r, 0.5), z), one = number(e, r, 1), w = sub_f(e, one, half);
  val tail = sub_f(e, mul_f(e, mul_f(e, z, z), POLYNOMIAL(e, z, cos64)), mul_f(e, r, lo));
  return add_f(e, w, add_f(e, sub_f(e, sub_f(e, one, w), half), tail));
}

/* Arguments too large for the reduction are rare: where a lane has one, those lanes go to the runtime. */
static val large_arguments(emit *e, val x, val y, int import) {
  val large = fcmp(e, LLVMRealOGT, absolute(e, x), number(e, x, 0x1p19));
  LLVMBasicBlockRef before = here(e), rare = new_block(e, "large"), done = new_block(e, "near");
  branch(e, any_lane(e, large), rare, done);
  at_end(e, rare);
  val there = choose(e, large, call_import(e, import, e->f64, 1, &x), y);
  LLVMBasicBlockRef last = here(e);
  jump(e, done);
  at_end(e, done);
  val r = phi(e, LLVMTypeOf(y));
  phi_add(r, y, before);
  phi_add(r, there, last);
  return r;
}

static val odd_quadrant(emit *e, val n) { return icmp(e, LLVMIntNE, and_(e, n, const_int(e, n, 1)), const_int(e, n, 0)); }
static val flip(emit *e, val y, val n) { /* the second bit of n is the sign */
  val bits = float_bits(e, y);
  return bits_float(e, xor_(e, bits, shl(e, and_(e, n, const_int(e, n, 2)), const_int(e, n, 62))));
}

static val circular(emit *e, val x, int quadrant, int import) {
  val n, hi, lo;
  reduce(e, x, &n, &hi, &lo);
  n = add(e, n, const_int(e, n, quadrant));
  val y = choose(e, odd_quadrant(e, n), cosine_near(e, hi, lo), sine_near(e, hi, lo));
  return large_arguments(e, x, flip(e, y, n), import);
}

val math_sin(emit *e, val a) {
  val x = to_f64(e, a), y = circular(e, x, 0, SN_IMPORT_SIN);
  y = choose(e, fcmp(e, LLVMRealOEQ, x, number(e, x, 0)), x, y); /* keeps -0 */
  return is_single(a) ? to_f32(e, y) : y;
}

val math_cos(emit *e, val a) {
  val x = to_f64(e, a), y = circular(e, x, 1, SN_IMPORT_COS);
  return is_single(a) ? to_f32(e, y) : y;
}

val math_tan(emit *e, val a) {
  val x = to_f64(e, a), n, hi, lo;
  reduce(e, x, &n, &hi, &lo);
  val s = sine_near(e, hi, lo), c = cosine_near(e, hi, lo), odd = odd_quadrant(e, n);
  val y = div_f(e, choose(e, odd, neg(e, c), s), choose(e, odd, s, c));
  y = large_arguments(e, x, y, SN_IMPORT_TAN);
  y = choose(e, fcmp(e, LLVMRealOEQ, x, number(e, x, 0)), x, y);
  return is_single(a) ? to_f32(e, y) : y;
}

/* ---- arc tangent ---- */

/* (atan t / t - 1) / t^2 by t^2, |t| <= 7/16. */
static const double atan64[] = {-0x1.5555555555554p-2, 0x1.999999999897cp-3, -0x1.24924923bc602p-3, 0x1.c71c713c893d3p-4, -0x1.745d0033acde4p-4, 0x1.3b117170117a7p-4,
                                -0x1.10edda70fefc9p-4, 0x1.df164d95b4994p-5, -0x1.9c9080edca583p-5, 0x1.3650b3326550dp-5, -0x1.206f4027b202ap-6}; /* -55 */

/* atan(y / x) = atan c + atan((y - c x) / (x + c y)) for the c of {0, 1/2, 1, 3/2, infinity} that is near y / x; y, x >= 0. */
static val atan_ratio(emit *e, val y, val x) {
  static const struct { double below, c, hi, lo; } rows[] = {
      {0.6875, 0.5, 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
      {1.1875, 1.0, 0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
      {2.4375, 1.5, 0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56}};
  val top = neg(e, x), bottom = y, hi = number(e, y, 0x1.921fb54442d18p+0), lo = number(e, y, 0x1.1a62633145c07p-54);
  for (int i = 2; i >= 0; i--) {
    val c = number(e, y, rows[i].c), here_ = less(e, y, mul_f(e, x, number(e, x, rows[i].below)));
    top = choose(e, here_, fma_op(e, neg(e, c), x, y), top);
    bottom = choose(e, here_, fma_op(e, c, y, x), bottom);
    hi = choose(e, here_, number(e, y, rows[i].hi), hi);
    lo = choose(e, here_, number(e, y, rows[i].lo), lo);
  }
  val zero = number(e, y, 0), near = less(e, y, mul_f(e, x, number(e, x, 0.4375)));
  top = choose(e, near, y, top);
  bottom = choose(e, near, x, bottom);
  hi = choose(e, near, zero, hi);
  lo = choose(e, near, zero, lo);
  val t = div_f(e, top, bottom), z = mul_f(e, t, t), tail = mul_f(e, mul_f(e, t, z), POLYNOMIAL(e, z, atan64));
  return add_f(e, hi, add_f(e, t, add_f(e, tail, lo)));
}

val math_atan(emit *e, val a) {
  val x = to_f64(e, a), y = absolute(e, x), inf = infinity_of(e, x);
  val r = atan_ratio(e, y, number(e, x, 1));
  r = choose(e, fcmp(e, LLVMRealOEQ, y, inf), number(e, x, 0x1.921fb54442d18p+0), r);
  r = with_sign(e, r, x);
  return is_single(a) ? to_f32(e, r) : r;
}

/* Both brought to the middle of the range: quotients of them are what counts. */
static void rescale(emit *e, val *y, val *x) {
  val m = choose(e, less(e, *y, *x), *x, *y);
  val f = choose(e, less(e, number(e, m, 0x1p900), m), number(e, m, 0x1p-200), choose(e, less(e, m, number(e, m, 0x1p-800)), number(e, m, 0x1p200), number(e, m, 1)));
  *y = mul_f(e, *y, f);
  *x = mul_f(e, *x, f);
}

val math_atan2(emit *e, val y0, val x0) {
  match(e, &y0, &x0);
  val y = to_f64(e, y0), x = to_f64(e, x0), a = absolute(e, y), b = absolute(e, x), inf = infinity_of(e, x), zero = number(e, x, 0), one = number(e, x, 1);
  val both = and_(e, fcmp(e, LLVMRealOEQ, a, inf), fcmp(e, LLVMRealOEQ, b, inf)), none = fcmp(e, LLVMRealOEQ, a, zero);
  /* infinities: quotients of 1, 0; zero over zero is zero */
  val u = choose(e, both, one, choose(e, fcmp(e, LLVMRealOEQ, b, inf), choose(e, less(e, a, inf), zero, a), choose(e, fcmp(e, LLVMRealOEQ, a, inf), one, a)));
  val v = choose(e, both, one, choose(e, fcmp(e, LLVMRealOEQ, b, inf), one, choose(e, fcmp(e, LLVMRealOEQ, a, inf), zero, b)));
  v = choose(e, none, choose(e, fcmp(e, LLVMRealUNO, b, b), b, one), v);
  u = choose(e, fcmp(e, LLVMRealUNO, a, a), a, u);
  rescale(e, &u, &v);
  val r = atan_ratio(e, u, v);
  val bits = float_bits(e, x), left = icmp(e, LLVMIntSLT, bits, const_int(e, bits, 0)), pi = number(e, x, 0x1.921fb54442d18p+1), pi_lo = number(e, x, 0x1.1a62633145c07p-53);
  r = choose(e, left, sub_f(e, pi, sub_f(e, r, pi_lo)), r);
  r = choose(e, fcmp(e, LLVMRealUNO, x, y), nan_of(e, x), r);
  r = with_sign(e, r, y);
  return is_single(y0) ? to_f32(e, r) : r;
}

/* ---- arc sine and cosine ---- */

/* (asin s / s - 1) / s^2 by s^2 <= 1/4. */
static const double asin64[] = {0x1.5555555555556p-3, 0x1.3333333332e43p-4, 0x1.6db6db6e3e988p-5, 0x1.f1c71c16411cep-6, 0x1.6e8bb2e8b5909p-6, 0x1.1c4d1c0414dcap-6, 0x1.c9d1f33c40154p-7,
                                0x1.780a761067151p-7, 0x1.52f32e54ea14dp-7, 0x1.5fda80e040fc7p-8, 0x1.20f616d61b477p-6, -0x1.f27b495e70eafp-7, 0x1.db1e20b735599p-6}; /* -58 */

#define HALF_PI 0x1.921fb54442d18p+0
#define HALF_PI_LO 0x1.1a62633145c07p-54

/* Beyond 1/2: asin a = pi/2 - 2 asin s, s^2 = (1 - a) / 2. Gives s and what asin s is more. */
static val half_angle(emit *e, val a, val *more) {
  val z = mul_f(e, sub_f(e, number(e, a, 1), a), number(e, a, 0.5)), s = root(e, z), zero = number(e, a, 0);
  val lost = e->fma ? div_f(e, fma_op(e, neg(e, s), s, z), add_f(e, s, s)) : zero;
  lost = choose(e, fcmp(e, LLVMRealOEQ, s, zero), zero, lost);
  *more = fma_op(e, mul_f(e, s, z), POLYNOMIAL(e, z, asin64), lost);
  return s;
}

val math_asin(emit *e, val v) {
  val x = to_f64(e, v), a = absolute(e, x), z = mul_f(e, a, a), more, half = number(e, x, 0.5);
  val small = fma_op(e, mul_f(e, a, z), POLYNOMIAL(e, z, asin64), a);
  val s = half_angle(e, a, &more), twice = add_f(e, s, s), t = sub_f(e, number(e, x, HALF_PI_LO), add_f(e, more, more));
  val pi = number(e, x, HALF_PI), hi = sub_f(e, pi, twice), lost = sub_f(e, sub_f(e, pi, hi), twice);
  val r = with_sign(e, choose(e, less(e, a, half), small, add_f(e, hi, add_f(e, lost, t))), x);
  return is_single(v) ? to_f32(e, r) : r;
}

val math_acos(emit *e, val v) {
  val x = to_f64(e, v), a = absolute(e, x), z = mul_f(e, x, x), more, half = number(e, x, 0.5), pi = number(e, x, HALF_PI), pi_lo = number(e, x, HALF_PI_LO);
  val tail = mul_f(e, mul_f(e, x, z), POLYNOMIAL(e, z, asin64));
  val middle = sub_f(e, pi, sub_f(e, x, sub_f(e, pi_lo, tail)));
  val s = half_angle(e, a, &more), right = add_f(e, s, more), left = sub_f(e, pi, add_f(e, s, sub_f(e, more, pi_lo)));
  val y = choose(e, less(e, x, number(e, x, 0)), left, right);
  val r = choose(e, less(e, a, half), middle, add_f(e, y, y));
  return is_single(v) ? to_f32(e, r) : r;
}
