/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Accuracy of the functions: every one in f32 and f64 against libm's long double, over its whole range and at special values. The bound is 2 ulp:
 * polynomials give half of one, their sums and quotients the rest. SINTER_TEST_VERBOSE prints the table. */
#include "cpu_tests.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 20000 };

typedef long double (*unary_fn)(long double x);
typedef long double (*binary_fn)(long double x, long double y);

static long double logistic(long double x) { return 1 / (1 + expl(-x)); }
static long double rsqrt(long double x) { return 1 / sqrtl(x); }

typedef struct range { double lo, hi; } range;
typedef struct row {
  sn_opcode op;
  unary_fn fn;
  range common, wide; /* uniform samples in the first; of all magnitudes in the second */
} row;

static const row rows[] = {
    {SN_OP_EXPONENTIAL, expl, {-10, 10}, {-800, 800}},
    {SN_OP_EXPONENTIAL_MINUS_ONE, expm1l, {-1, 1}, {-800, 800}},
    {SN_OP_LOG, logl, {0.5, 2}, {0, 1e300}},
    {SN_OP_LOG_PLUS_ONE, log1pl, {-0.9, 2}, {-1, 1e300}},
    {SN_OP_TANH, tanhl, {-2, 2}, {-400, 400}},
    {SN_OP_LOGISTIC, logistic, {-20, 20}, {-800, 800}},
    {SN_OP_ERF, erfl, {-3, 3}, {-30, 30}},
    {SN_OP_SINE, sinl, {-10, 10}, {-1e300, 1e300}},
    {SN_OP_COSINE, cosl, {-10, 10}, {-1e300, 1e300}},
    {SN_OP_TAN, tanl, {-10, 10}, {-1e300, 1e300}},
    {SN_OP_ASIN, asinl, {-1, 1}, {-1, 1}},
    {SN_OP_ACOS, acosl, {-1, 1}, {-1, 1}},
    {SN_OP_ATAN, atanl, {-3, 3}, {-1e300, 1e300}},
    {SN_OP_SINH, sinhl, {-3, 3}, {-720, 720}},
    {SN_OP_COSH, coshl, {-3, 3}, {-720, 720}},
    {SN_OP_ASINH, asinhl, {-3, 3}, {-1e300, 1e300}},
    {SN_OP_ACOSH, acoshl, {1, 5}, {1, 1e300}},
    {SN_OP_ATANH, atanhl, {-1, 1}, {-1, 1}},
    {SN_OP_CBRT, cbrtl, {-10, 10}, {-1e300, 1e300}},
    {SN_OP_RSQRT, rsqrt, {0, 10}, {0, 1e300}},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static const double specials[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, (double)INFINITY, -(double)INFINITY, (double)NAN, 1e-45, -1e-45, 1e-310, -1e-310, 0x1p-126, 0x1p-1022, 3, 1e38, -1e38,
                                  3.4028234e38, 88.72, 88.73, -87.4, -103.9, -104.1, 709.78, 709.79, -745.1, -745.2, 0.99999994, 1.0000001};
enum { N_SPECIALS = sizeof specials / sizeof specials[0] };

static uint64_t seed;
static double next_unit(void) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(seed >> 11) * 0x1p-53;
}

/* A number of any magnitude of the type, with either sign where the range has it. */
static double any_magnitude(const range *r, int least) {
  double top = log2(fmax(fabs(r->lo), fabs(r->hi))), v = exp2(least + next_unit() * (top - least));
  if (r->lo < 0 && (r->hi <= 0 || next_unit() < 0.5)) v = -v;
  return r->lo > 0 ? r->lo + v : v;
}

/* Distance in units of the last place of the exact result (those of the least exponent below it). */
static double ulps(double got, long double want, int mantissa, int least) {
  double top = mantissa == 24 ? 0x1.fffffefp127 : 0;
  if (isnan(want)) return isnan(got) ? 0 : 1e9;
  if (isnan(got)) return 1e9;
  if (isinf(want) || (top != 0 && fabsl(want) > (long double)top) || (top == 0 && isinf((double)want))) {
    if (isinf(got) && (got > 0) == (want > 0)) return 0;
    return isinf(want) ? 1e9 : fabs(got) > 1e38 ? 1 : 1e9;
  }
  if (isinf(got)) return fabsl(want) > (mantissa == 24 ? 0x1.fffffep127L * (1 - 0x1p-23L) : 0x1.fffffffffffffp1023L * (1 - 0x1p-52L)) ? 1 : 1e9;
  if (want == 0) return got == 0 && !signbit(got) == !signbit(want) ? 0 : got == 0 ? 1e9 : fabs(got) / ldexp(1, least);
  int e;
  frexpl(want, &e);
  e -= mantissa;
  return (double)(fabsl((long double)got - want) / ldexpl(1, e < least ? least : e));
}

static union { float f[N]; double d[N]; } in[2], out;

static void fill(const row *r, bool single) {
  for (int i = 0; i < N; i++) {
    double v = i < N_SPECIALS ? specials[i] : i < N / 2 ? r->common.lo + next_unit() * (r->common.hi - r->common.lo) : any_magnitude(&r->wide, single ? -149 : -1074);
    if (single) in[0].f[i] = (float)v;
    else in[0].d[i] = v;
  }
}

static void build(built *t, sn_opcode op, sn_type type, int n_operands, int lanes) {
  const sn_ix *i;
  built_begin(t, "function");
  int buffers[3];
  for (int k = 0; k < n_operands; k++) buffers[k] = built_buffer(t, SN_KMEM_IN, type, N);
  buffers[n_operands] = built_buffer(t, SN_KMEM_OUT, type, N);
  built_phase(t, 0, NULL);
  sn_kb_for(&t->b, SN_KLOOP_VECTOR, lanes, built_const(t, 0), built_const(t, N), 1, 0, NULL, NULL, &i);
  sn_kvalue *xs[2];
  for (int k = 0; k < n_operands; k++) xs[k] = sn_kb_load(&t->b, buffers[k], &i, 0, NULL, NULL);
  sn_kb_store(&t->b, buffers[n_operands], &i, 0, NULL, sn_kb_elt(&t->b, op, type, n_operands, xs));
  sn_kb_end(&t->b);
}

typedef struct judged { const row *r; bool single; double bound; } judged;

static void check_unary(void *ctx, const char *target) {
  const judged *j = ctx;
  double worst = 0, at = 0, got_worst = 0;
  for (int i = 0; i < N; i++) {
    double x = j->single ? (double)in[0].f[i] : in[0].d[i], got = j->single ? (double)out.f[i] : out.d[i];
    double u = ulps(got, j->r->fn((long double)x), j->single ? 24 : 53, j->single ? -149 : -1074);
    if (u > worst) worst = u, at = x, got_worst = got;
  }
  if (getenv("SINTER_TEST_VERBOSE")) printf("%-22s %s %-10s %8.3g ulp at %.17g (%a): %.17g\n", sn_opcode_text(j->r->op), j->single ? "f32" : "f64", target, worst, at, at, got_worst);
  else ck_assert_msg(worst <= j->bound, "%s of %s on %s: %g ulp at %.17g: %.17g", sn_opcode_text(j->r->op), j->single ? "f32" : "f64", target, worst, at, got_worst);
  memset(&out, 0, sizeof out);
}

START_TEST(one_operand) {
  built t;
  judged j = {&rows[_i % N_ROWS], _i < N_ROWS, 2};
  seed = (uint64_t)_i + 1;
  fill(j.r, j.single);
  build(&t, j.r->op, j.single ? SN_TYPE_F32 : SN_TYPE_F64, 1, j.single ? 16 : 8);
  void *args[2] = {&in[0], &out};
  built_run(&t, args, check_unary, &j);
  built_end(&t);
}
END_TEST

static const struct { sn_opcode op; binary_fn fn; } pairs[] = {{SN_OP_POWER, powl}, {SN_OP_ATAN2, atan2l}, {SN_OP_REMAINDER, fmodl}};
enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

typedef struct judged_pair { int which; bool single; } judged_pair;

static void check_binary(void *ctx, const char *target) {
  const judged_pair *j = ctx;
  double worst = 0, at[3] = {0, 0, 0};
  for (int i = 0; i < N; i++) {
    double x = j->single ? (double)in[0].f[i] : in[0].d[i], y = j->single ? (double)in[1].f[i] : in[1].d[i], got = j->single ? (double)out.f[i] : out.d[i];
    double u = ulps(got, pairs[j->which].fn((long double)x, (long double)y), j->single ? 24 : 53, j->single ? -149 : -1074);
    if (u > worst) worst = u, at[0] = x, at[1] = y, at[2] = got;
  }
  const char *op = sn_opcode_text(pairs[j->which].op), *type = j->single ? "f32" : "f64";
  if (getenv("SINTER_TEST_VERBOSE")) printf("%-22s %s %-10s %8.3g ulp at (%.17g, %.17g): %.17g\n", op, type, target, worst, at[0], at[1], at[2]);
  else ck_assert_msg(worst <= 2, "%s of %s on %s: %g ulp at (%.17g, %.17g): %.17g", op, type, target, worst, at[0], at[1], at[2]);
  memset(&out, 0, sizeof out);
}

/* All pairs of special values; then bases and exponents whose power stays in range, and quotients of all sizes. */
START_TEST(two_operands) {
  built t;
  judged_pair j = {_i % N_PAIRS, _i < N_PAIRS};
  seed = (uint64_t)_i + 100;
  for (int i = 0; i < N; i++) {
    double x = next_unit() * 4 - 1, y = (next_unit() - 0.5) * 40;
    if (i >= N / 2) x = exp2((next_unit() - 0.5) * 60), y = (next_unit() - 0.5) * 8;
    if (i >= N - 1000) y = floor(y), x = -x;
    if (i < N_SPECIALS * N_SPECIALS) x = specials[i / N_SPECIALS], y = specials[i % N_SPECIALS];
    if (j.single) in[0].f[i] = (float)x, in[1].f[i] = (float)y;
    else in[0].d[i] = x, in[1].d[i] = y;
  }
  build(&t, pairs[j.which].op, j.single ? SN_TYPE_F32 : SN_TYPE_F64, 2, j.single ? 16 : 8);
  void *args[3] = {&in[0], &in[1], &out};
  built_run(&t, args, check_binary, &j);
  built_end(&t);
}
END_TEST

TCase *case_math(void) {
  TCase *c = tcase_create("math");
  tcase_set_timeout(c, 100);
  tcase_add_loop_test(c, one_operand, 0, 2 * N_ROWS);
  tcase_add_loop_test(c, two_operands, 0, 2 * N_PAIRS);
  return c;
}
