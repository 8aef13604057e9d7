/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* exp and its kin. x = n ln 2 + r with |r| <= ln 2 / 2 (ln 2 in two parts, the first short enough that n times it is exact), e^x = 2^n e^r. */
#include "functions.h"

/* (e^r - 1 - r) / r^2 on |r| <= ln 2 / 2. */
static const double exp32[] = {0.5, 0.16666576266288757, 0.04166637361049652, 0.008363241329789162, 0.0013941393699496984}; /* -27 */
static const double exp64[] = {0.5, 0x1.5555555555557p-3, 0x1.5555555555558p-5, 0x1.11111111100bbp-7, 0x1.6c16c16c15142p-10, 0x1.a01a01abf992dp-13, 0x1.a01a01ad45bffp-16,
                               0x1.71de01fa02ad0p-19, 0x1.27e4cc0a9af64p-22, 0x1.af4e5cd514591p-26, 0x1.1f8caddc17a37p-29}; /* -62 */

val polynomial(emit *e, val x, int n, const double *c) {
  val r = number(e, x, c[n - 1]);
  for (int i = n - 2; i >= 0; i--) r = fma_op(e, r, x, number(e, x, c[i]));
  return r;
}

/* Adding 1.5 * 2^mantissa leaves the rounded number in the low bits: no conversion that infinities or NaN could spoil. */
val nearest_int(emit *e, val x, val factor, val *n) {
  val magic = number(e, x, is_single(x) ? 0x1.8p23 : 0x1.8p52);
  val t = fma_op(e, x, factor, magic);
  *n = sub(e, float_bits(e, t), float_bits(e, magic));
  return sub_f(e, t, magic);
}

static val power_of_two(emit *e, val n, bool single) {
  return bits_float(e, shl(e, add(e, n, const_int(e, n, single ? 127 : 1023)), const_int(e, n, single ? 23 : 52)));
}

/* AVX-512 has it as an instruction. */
static val scale_at_once(emit *e, val x, val n) {
  bool single = is_single(x);
  val args[5] = {x, n, LLVMConstNull(LLVMTypeOf(x)), LLVMConstAllOnes(LLVMIntTypeInContext(e->cx, single ? 16 : 8)), LLVMConstInt(e->i32, 4, 0)}; /* 4: rounding as MXCSR says */
  return intrinsic(e, single ? "llvm.x86.avx512.mask.scalef.ps.512" : "llvm.x86.avx512.mask.scalef.pd.512", 5, args, 0, NULL);
}

/* In two steps, so that subnormal results round once and large ones overflow. */
val scale(emit *e, val x, exponent power) {
  bool single = is_single(x);
  if (e->avx512 && lanes_of(x) * bits_of(x) == 512) return scale_at_once(e, x, power.f);
  val n = power.n, half = ashr(e, n, const_int(e, n, 1)), rest = sub(e, n, half);
  return mul_f(e, mul_f(e, x, power_of_two(e, half, single)), power_of_two(e, rest, single));
}

val exp_reduced(emit *e, val x, exponent *power, val *r) {
  bool single = is_single(x);
  power->f = nearest_int(e, x, number(e, x, 0x1.71547652b82fep+0), &power->n);
  val minus = neg(e, power->f);
  *r = fma_op(e, minus, number(e, x, single ? 0x1.62e4p-1 : 0x1.62e42feep-1), x);
  *r = fma_op(e, minus, number(e, x, single ? 0x1.7f7d1cp-20 : 0x1.a39ef35793c76p-33), *r);
  return single ? POLYNOMIAL(e, *r, exp32) : POLYNOMIAL(e, *r, exp64);
}

/* e^r from exp_reduced's answer. */
static val near_one(emit *e, val r, val q) { return add_f(e, fma_op(e, mul_f(e, r, r), q, r), number(e, r, 1)); }

/* Bounds beyond which the result is 0 or infinite anyway keep n in range; NaN passes. */
static val within(emit *e, val x, double lo, double hi) {
  val low = number(e, x, lo), high = number(e, x, hi);
  x = choose(e, less(e, x, low), low, x);
  return choose(e, less(e, high, x), high, x);
}

val exp_times(emit *e, val x, int power) {
  exponent n;
  val r;
  x = is_single(x) ? within(e, x, -106, 90) : within(e, x, -747, 712);
  val q = exp_reduced(e, x, &n, &r);
  if (power) n = (exponent){add(e, n.n, const_int(e, n.n, power)), add_f(e, n.f, number(e, n.f, power))};
  return scale(e, near_one(e, r, q), n);
}

val math_exp(emit *e, val a) { return exp_times(e, a, 0); }

/* 2^n (1 + r + q) - 1 = (2^n - 1) + 2^n r + 2^n q: the first two summed with their error. */
val math_expm1(emit *e, val a) {
  bool single = is_single(a);
  exponent power;
  val r, one = number(e, a, 1), x = single ? within(e, a, -20, 90) : within(e, a, -40, 712);
  val q = exp_reduced(e, x, &power, &r), n = power.n;
  val large = scale(e, near_one(e, r, q), power);
  val few = const_int(e, n, single ? 30 : 60), is_large = icmp(e, LLVMIntSGT, n, few);
  val s = power_of_two(e, choose(e, is_large, few, n), single);
  val p = sub_f(e, s, one), t = mul_f(e, s, r), hi = add_f(e, p, t), back = sub_f(e, hi, p);
  val lo = add_f(e, sub_f(e, p, sub_f(e, hi, back)), sub_f(e, t, back));
  val small = add_f(e, hi, fma_op(e, mul_f(e, t, r), q, lo));
  val y = choose(e, is_large, large, small);
  return choose(e, fcmp(e, LLVMRealOEQ, a, number(e, a, 0)), a, y); /* keeps -0 */
}

/* By a = e^-|x|, which cannot overflow: 1 / d or a / d with d = 1 + a, less what rounding d lost, relative to d. */
val math_logistic(emit *e, val x) {
  val one = number(e, x, 1), a = math_exp(e, neg(e, absolute(e, x))), d = add_f(e, one, a), lost = add_f(e, sub_f(e, one, d), a);
  val negative = less(e, x, number(e, x, 0)), y = div_f(e, choose(e, negative, a, one), d);
  val inverse = choose(e, negative, sub_f(e, one, y), y);
  return fma_op(e, mul_f(e, y, neg(e, lost)), inverse, y);
}

/* ---- hyperbolic ---- */

/* (tanh x / x - 1) / x^2 on |x| <= 0.625. */
static const double tanh32[] = {-0.3333333432674408, 0.13333305716514587, -0.05395955219864845, 0.021771002560853958, -0.008350015617907047, 0.0022989376448094845}; /* -30 */
/* (cosh x - 1) / x^2 by x^2: its series, which ends soon for |x| < 0.55. */
static const double cosh64[] = {0.5, 0x1.5555555555555p-5, 0x1.6c16c16c16c17p-10, 0x1.a01a01a01a01ap-16, 0x1.27e4fb7789f5cp-22, 0x1.1eed8eff8d898p-29, 0x1.93974a8c07c9dp-37, 0x1.ae7f3e733b81fp-45};
/* (sinh x / x - 1) / x^2 on |x| <= 1. */
static const double sinh64[] = {0x1.5555555555555p-3, 0x1.1111111111111p-7, 0x1.a01a01a01a002p-13, 0x1.71de3a556f810p-19,
                                0x1.ae64567944ed0p-26, 0x1.612467bb6cfa4p-33, 0x1.ae7787b3a0965p-41, 0x1.99ed71cf1a9d1p-49}; /* -71 */

/* x + x^3 p(x^2). */
static val odd_function(emit *e, val x, int n, const double *c) {
  val z = mul_f(e, x, x);
  return fma_op(e, mul_f(e, x, z), polynomial(e, z, n, c), x);
}

/* 1 - 2 / (e^2|x| + 1); near 0 a polynomial (f32) or sinh / cosh (f64). */
val math_tanh(emit *e, val x) {
  bool single = is_single(x);
  val a = absolute(e, x), one = number(e, x, 1), two = number(e, x, 2), twice = add_f(e, a, a), small;
  if (single) {
    small = odd_function(e, a, (int)(sizeof tanh32 / sizeof tanh32[0]), tanh32);
  } else {
    val z = mul_f(e, a, a);
    small = div_f(e, odd_function(e, a, (int)(sizeof sinh64 / sizeof sinh64[0]), sinh64), fma_op(e, z, POLYNOMIAL(e, z, cosh64), one));
  }
  val large = sub_f(e, one, div_f(e, two, add_f(e, math_exp(e, twice), one)));
  return with_sign(e, choose(e, less(e, a, number(e, x, single ? 0.625 : 0.55)), small, large), x);
}

val math_sinh(emit *e, val x) {
  if (is_single(x)) return to_f32(e, math_sinh(e, to_f64(e, x)));
  val a = absolute(e, x), half = exp_times(e, a, -1);
  val large = sub_f(e, half, div_f(e, number(e, x, 0.25), half));
  val small = odd_function(e, a, (int)(sizeof sinh64 / sizeof sinh64[0]), sinh64);
  return with_sign(e, choose(e, less(e, a, number(e, x, 1)), small, large), x);
}

val math_cosh(emit *e, val x) {
  if (is_single(x)) return to_f32(e, math_cosh(e, to_f64(e, x)));
  val half = exp_times(e, absolute(e, x), -1);
  return add_f(e, half, div_f(e, number(e, x, 0.25), half));
}

/* ---- erf ---- */

/* erf x / x - 1 by x^2 on |x| <= 0.93. */
static const double erf32[] = {0.12837916612625122, -0.37612634897232056, 0.11283694207668304, -0.02685927040874958, 0.005200634710490704,
                               -0.000813744030892849, 8.345225069206208e-05}; /* -31 */
static const double erf64[] = {0x1.06eba8214db69p-3, -0x1.812746b0379e7p-2, 0x1.ce2f21a042bbcp-4, -0x1.b82ce31287c5dp-6, 0x1.565bcd0e38aeep-8,
                               -0x1.c02db3f3fbeabp-11, 0x1.f9a3250716cd9p-14, -0x1.f4d22720ac1e4p-17, 0x1.b9e2e85e5f048p-20, -0x1.5f4229d16c84cp-23,
                               0x1.f958fbfe3aa86p-27, -0x1.3e371b9022f38p-30, 0x1.16b7fde2ab86dp-34}; /* -65 */
/* erf on [0.9, 2.5] in t = (x - 1.7) / 0.8. */
static const double erf_middle64[] = {0x1.f7b3620b8747bp-1, 0x1.9afbaacd9fb41p-5, -0x1.1777ef06b4475p-4, 0x1.a317d816e765cp-5, -0x1.4b7ca50188ec3p-6,
                                      0x1.365a893aff71bp-10, 0x1.7e3e474d7166fp-9, -0x1.5859807f96ff9p-10, 0x1.87851e9f8562ep-15,
                                      0x1.393cd77a12475p-13, -0x1.81594ebe7e99cp-15, -0x1.1f74668abdc4dp-18, 0x1.6c18059c9e241p-18,
                                      -0x1.91e1869ed01ffp-21, -0x1.4f7e160b3f655p-22, 0x1.f21c6dcf7af49p-24, 0x1.f1b98179fd7b0p-29,
                                      -0x1.2d5001de546cbp-27, 0x1.27883272e7b3fp-30, 0x1.beed205b6ab22p-32, -0x1.fc3ad489bba47p-34,
                                      -0x1.504f10d90261ep-37, 0x1.95ebb71a4326cp-38}; /* -61 */
/* log erfc on [0.92, 4], and on [2.45, 6.05] in t = (x - 4.25) / 1.8. */
static const double erfc32[] = {0.0001758748694555834, -1.1295207738876343, -0.6333346366882324, -0.10829400271177292, 0.025128677487373352,
                                -0.004174669738858938, 0.00043522572377696633, -2.1162619304959662e-05}; /* -34 */
static const double erfc64[] = {-0x1.41b96ceea4e37p+4, -0x1.f67d4ea40e685p+3, -0x1.94cd4278aec5ap+1, -0x1.37db0a112c869p-6, 0x1.4a96f74e66237p-8,
                                -0x1.668686535ff44p-10, 0x1.84008cc3a0b88p-12, -0x1.9c949d569e639p-14, 0x1.a99acd0a22c8cp-16, -0x1.a408bc3239ea6p-18,
                                0x1.82a5556c0b3f7p-20, -0x1.4bfd200a72039p-22, 0x1.bb0b968f7d491p-25, 0x1.1eb553774fa6ap-27, 0x1.44583b54d308ep-26,
                                0x1.286709aa401a0p-26, 0x1.ce07f0d39d4e7p-28, 0x1.db3dfa9b21e0ap-30}; /* -79 */

/* 1 - e^p: erfc = e^p is so small there that its absolute error alone counts. */
static val erf_large(emit *e, val a, val p) {
  exponent n;
  val r, zero = number(e, a, 0);
  p = choose(e, less(e, zero, p), zero, p); /* where the polynomial is not used n must still stay in range */
  val q = exp_reduced(e, p, &n, &r);
  return sub_f(e, number(e, a, 1), mul_f(e, near_one(e, r, q), power_of_two(e, n.n, is_single(a))));
}

/* f32 by tables of sixteen: erf on [n / 4 - 1/8, n / 4 + 1/8] in t = |x| - centre, where centres are such numbers near n / 4 that erf of them is nearly an f32. For n = 0
 * erf x = t + t (c1 + …), elsewhere c0 + t (c1 + …); the last one reaches 1. Errors beside rounding: 0.37 of 2^-24 for n = 1, 0.24 for n = 2, else less than 0.1. */
enum { ERF_CENTRE, ERF_PARTS = 16 };
static const double erf_tables[7][ERF_PARTS] = {
    {0, 0.250856847, 0.501969457, 0.751623929, 0.9982481, 1.25234807, 1.49853742, 1.74818432,
     1.99813914, 2.25288367, 2.49756646, 2.75216365, 3.00155544, 3.25244665, 3.50299978, 3.74700022},
    {0, 0.277234465, 0.522228897, 0.712198436, 0.841972291, 0.923453867, 0.96593082, 0.986575544,
     0.995283663, 0.998557746, 0.999587715, 0.999900639, 0.999978125, 0.999995768, 0.999999285, 0.999999881},
    {0.128379166, 1.05955935, 0.877050221, 0.64136523, 0.416563213, 0.235135466, 0.11945302, 0.0531112663,
     0.0208213199, 0.00705017708, 0.00220493786, 0.000579339918, 0.000137959229, 2.87280982e-05, 5.28725286e-06, 1.09346547e-06},
    {1.97261272e-07, -0.265793562, -0.440247238, -0.482062638, -0.415833771, -0.294473082, -0.179006279, -0.0928489715,
     -0.041603934, -0.015883008, -0.0055067651, -0.00159431109, -0.000414035778, -9.34167838e-05, -1.85103836e-05, -3.37516735e-06},
    {-0.376138479, -0.308759391, -0.145044535, 0.0277537741, 0.137880564, 0.16747804, 0.13901116, 0.090506427,
     0.0484800711, 0.0215048864, 0.00843460206, 0.00273193698, 0.000782534771, 0.000193043845, 4.14603965e-05, 8.14060786e-06},
    {0.000244532188, 0.126452386, 0.182074353, 0.149676576, 0.0698766932, -0.00629762607, -0.0441125743, -0.0479858145,
     -0.0345566534, -0.0189864524, -0.0087516848, -0.003260531, -0.00105089939, -0.000287914183, -6.83018807e-05, -1.45788499e-05},
    {0.111140989, 0.080931969, 0.00820040796, -0.0524834618, -0.0688943937, -0.0470623113, -0.0149791939, 0.00648645964,
     0.0130190849, 0.0106358789, 0.00614184234, 0.0027711757, 0.00102278916, 0.000312846387, 8.34864913e-05, 1.87549485e-05}};

static val part_of_table(emit *e, const double *table, val which) {
  val v[ERF_PARTS];
  for (int i = 0; i < ERF_PARTS; i++) v[i] = LLVMConstReal(e->f32, table[i]);
  val args[2] = {LLVMConstVector(v, ERF_PARTS), which};
  return intrinsic(e, "llvm.x86.avx512.permvar.sf.512", 2, args, 0, NULL);
}

/* Half the work of the way by exp: a lane looks up its polynomial. */
static val erf_by_tables(emit *e, val x) {
  val a = absolute(e, x), end = number(e, x, 0x1.effffep+1), c = choose(e, less(e, end, a), end, a);
  val which = float_bits(e, add_f(e, c, number(e, x, 0x1.8p+21))); /* c to the nearest quarter: in the low bits */
  val t = sub_f(e, c, part_of_table(e, erf_tables[ERF_CENTRE], which)), p = part_of_table(e, erf_tables[6], which);
  for (int i = 5; i > 1; i--) p = fma_op(e, p, t, part_of_table(e, erf_tables[i], which));
  val first = choose(e, fcmp(e, LLVMRealOLE, a, number(e, x, 0.125)), t, part_of_table(e, erf_tables[1], which));
  return with_sign(e, fma_op(e, p, t, first), x);
}

static val linear(emit *e, val x, double middle, double half) { return mul_f(e, sub_f(e, x, number(e, x, middle)), number(e, x, 1 / half)); }

val math_erf(emit *e, val x) {
  bool single = is_single(x);
  if (single && e->avx512 && lanes_of(x) == ERF_PARTS) return erf_by_tables(e, x);
  val a = absolute(e, x), z = mul_f(e, x, x), end = number(e, x, single ? 4 : 6), large;
  val small = fma_op(e, x, single ? POLYNOMIAL(e, z, erf32) : POLYNOMIAL(e, z, erf64), x);
  val c = choose(e, less(e, end, a), end, a);
  if (single) {
    large = erf_large(e, c, POLYNOMIAL(e, c, erfc32));
  } else {
    val t = linear(e, c, 1.7, 0.8), u = linear(e, c, 4.25, 1.8), middle = POLYNOMIAL(e, t, erf_middle64);
    large = choose(e, less(e, c, number(e, x, 2.5)), middle, erf_large(e, c, POLYNOMIAL(e, u, erfc64)));
  }
  return choose(e, less(e, a, number(e, x, 0.92)), small, with_sign(e, large, x));
}
