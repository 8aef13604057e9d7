/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One row per op and type: two operands (the second unused for unary ops) and what must come out, to the bit after
 * rounding to the type. */
#include "fixture.h"

typedef struct row {
  sn_opcode op;
  sn_type t;
  double x, y, want;
} row;

static const row rows[] = {
    {SN_OP_ADD, SN_TYPE_F32, 1.5, 2.25, 3.75},
    {SN_OP_ADD, SN_TYPE_S8, 127, 1, -128},
    {SN_OP_ADD, SN_TYPE_U8, 255, 2, 1},
    {SN_OP_ADD, SN_TYPE_S4, 7, 1, -8},
    {SN_OP_ADD, SN_TYPE_U4, 15, 3, 2},
    {SN_OP_ADD, SN_TYPE_S2, 1, 1, -2},
    {SN_OP_ADD, SN_TYPE_F16, 2048, 1, 2048}, /* rounds to even */
    {SN_OP_ADD, SN_TYPE_BF16, 256, 1, 256},
    {SN_OP_ADD, SN_TYPE_F8E4M3FN, 16, 1, 16},
    {SN_OP_SUBTRACT, SN_TYPE_U16, 0, 1, 65535},
    {SN_OP_SUBTRACT, SN_TYPE_F64, 1, 0.25, 0.75},
    {SN_OP_MULTIPLY, SN_TYPE_S32, 65536, 65536, 0},
    {SN_OP_MULTIPLY, SN_TYPE_S16, -300, 300, -24464},
    {SN_OP_MULTIPLY, SN_TYPE_PRED, 1, 0, 0},
    {SN_OP_ADD, SN_TYPE_PRED, 1, 1, 1},
    {SN_OP_DIVIDE, SN_TYPE_S32, 7, 0, -1},
    {SN_OP_DIVIDE, SN_TYPE_U32, 7, 0, 4294967295.0},
    {SN_OP_DIVIDE, SN_TYPE_S32, -2147483648.0, -1, -2147483648.0},
    {SN_OP_DIVIDE, SN_TYPE_S8, -128, -1, -128},
    {SN_OP_DIVIDE, SN_TYPE_S4, -8, -1, -8},
    {SN_OP_DIVIDE, SN_TYPE_U4, 9, 0, 15},
    {SN_OP_DIVIDE, SN_TYPE_S32, -7, 2, -3},
    {SN_OP_DIVIDE, SN_TYPE_F32, 1, 0, INFINITY},
    {SN_OP_REMAINDER, SN_TYPE_S32, 7, 0, 7},
    {SN_OP_REMAINDER, SN_TYPE_S64, -7, 2, -1},
    {SN_OP_REMAINDER, SN_TYPE_S32, -2147483648.0, -1, 0},
    {SN_OP_REMAINDER, SN_TYPE_F32, -5.5, 2, -1.5},
    {SN_OP_POWER, SN_TYPE_S32, 3, 5, 243},
    {SN_OP_POWER, SN_TYPE_S32, -1, -3, -1},
    {SN_OP_POWER, SN_TYPE_S32, 2, -1, 0},
    {SN_OP_POWER, SN_TYPE_U8, 2, 9, 0},
    {SN_OP_POWER, SN_TYPE_F32, 2, 0.5, 1.4142135623730951},
    {SN_OP_MAXIMUM, SN_TYPE_F32, 1, NAN, NAN},
    {SN_OP_MAXIMUM, SN_TYPE_F32, NAN, 1, NAN},
    {SN_OP_MINIMUM, SN_TYPE_F64, NAN, 1, NAN},
    {SN_OP_MINIMUM, SN_TYPE_S8, -3, 4, -3},
    {SN_OP_MAXIMUM, SN_TYPE_BF16, -3, 4, 4},
    {SN_OP_AND, SN_TYPE_U8, 12, 10, 8},
    {SN_OP_OR, SN_TYPE_S32, 12, 10, 14},
    {SN_OP_XOR, SN_TYPE_PRED, 1, 1, 0},
    {SN_OP_SHIFT_LEFT, SN_TYPE_S32, 1, 31, -2147483648.0},
    {SN_OP_SHIFT_LEFT, SN_TYPE_U32, 1, 32, 0},
    {SN_OP_SHIFT_LEFT, SN_TYPE_S4, 1, 3, -8},
    {SN_OP_SHIFT_RIGHT_LOGICAL, SN_TYPE_S8, -1, 4, 15},
    {SN_OP_SHIFT_RIGHT_LOGICAL, SN_TYPE_S4, -1, 2, 3},
    {SN_OP_SHIFT_RIGHT_ARITHMETIC, SN_TYPE_S32, -8, 1, -4},
    {SN_OP_SHIFT_RIGHT_ARITHMETIC, SN_TYPE_S32, -8, 40, -1},
    {SN_OP_SHIFT_RIGHT_ARITHMETIC, SN_TYPE_U8, 128, 1, 192},
    {SN_OP_MULHI, SN_TYPE_S32, 65536, 65536, 1},
    {SN_OP_MULHI, SN_TYPE_U8, 200, 200, 156},
    {SN_OP_MULHI, SN_TYPE_S64, 4294967296.0, 4294967296.0, 1},
    {SN_OP_MULHI, SN_TYPE_S64, -4294967296.0, 4294967296.0, -1},
    {SN_OP_ATAN2, SN_TYPE_F32, 1, -1, 2.356194490192345},
    {SN_OP_ABS, SN_TYPE_S32, -2147483648.0, 0, -2147483648.0},
    {SN_OP_ABS, SN_TYPE_F16, -1.5, 0, 1.5},
    {SN_OP_NEGATE, SN_TYPE_U32, 1, 0, 4294967295.0},
    {SN_OP_NOT, SN_TYPE_S8, 5, 0, -6},
    {SN_OP_NOT, SN_TYPE_U4, 5, 0, 10},
    {SN_OP_NOT, SN_TYPE_PRED, 1, 0, 0},
    {SN_OP_POPCNT, SN_TYPE_S8, -1, 0, 8},
    {SN_OP_POPCNT, SN_TYPE_S4, -1, 0, 4},
    {SN_OP_COUNT_LEADING_ZEROS, SN_TYPE_U16, 1, 0, 15},
    {SN_OP_COUNT_LEADING_ZEROS, SN_TYPE_U4, 1, 0, 3},
    {SN_OP_COUNT_LEADING_ZEROS, SN_TYPE_S64, 0, 0, 64},
    {SN_OP_SIGN, SN_TYPE_F32, -2, 0, -1},
    {SN_OP_SIGN, SN_TYPE_F32, NAN, 0, NAN},
    {SN_OP_SIGN, SN_TYPE_S16, 12, 0, 1},
    {SN_OP_CEIL, SN_TYPE_F32, -1.5, 0, -1},
    {SN_OP_FLOOR, SN_TYPE_F64, -1.5, 0, -2},
    {SN_OP_ROUND_NEAREST_AFZ, SN_TYPE_F32, 2.5, 0, 3},
    {SN_OP_ROUND_NEAREST_EVEN, SN_TYPE_F32, 2.5, 0, 2},
    {SN_OP_EXPONENTIAL, SN_TYPE_F32, 1, 0, 2.718281828459045},
    {SN_OP_EXPONENTIAL, SN_TYPE_BF16, 1, 0, 2.718281828459045},
    {SN_OP_EXPONENTIAL, SN_TYPE_F64, 1, 0, 2.718281828459045},
    {SN_OP_EXPONENTIAL_MINUS_ONE, SN_TYPE_F32, 1e-6, 0, 1.0000005000001667e-06},
    {SN_OP_LOG, SN_TYPE_F32, 10, 0, 2.302585092994046},
    {SN_OP_LOG_PLUS_ONE, SN_TYPE_F64, 1e-10, 0, 9.9999999995e-11},
    {SN_OP_LOGISTIC, SN_TYPE_F32, 1, 0, 0.7310585786300049},
    {SN_OP_TANH, SN_TYPE_F32, 0.5, 0, 0.46211715726000973},
    {SN_OP_ERF, SN_TYPE_F32, 0.5, 0, 0.5204998778130465},
    {SN_OP_SQRT, SN_TYPE_F32, 2, 0, 1.4142135623730951},
    {SN_OP_RSQRT, SN_TYPE_F32, 2, 0, 0.7071067811865475},
    {SN_OP_CBRT, SN_TYPE_F32, 27, 0, 3},
    {SN_OP_SINE, SN_TYPE_F32, 1, 0, 0.8414709848078965},
    {SN_OP_COSINE, SN_TYPE_F32, 1, 0, 0.5403023058681398},
    {SN_OP_TAN, SN_TYPE_F32, 1, 0, 1.5574077246549023},
    {SN_OP_SINH, SN_TYPE_F32, 1, 0, 1.1752011936438014},
    {SN_OP_COSH, SN_TYPE_F32, 1, 0, 1.543080634815244},
    {SN_OP_ASIN, SN_TYPE_F32, 0.5, 0, 0.5235987755982989},
    {SN_OP_ACOS, SN_TYPE_F32, 0.5, 0, 1.0471975511965979},
    {SN_OP_ATAN, SN_TYPE_F32, 0.5, 0, 0.4636476090008061},
    {SN_OP_ASINH, SN_TYPE_F32, 0.5, 0, 0.48121182505960347},
    {SN_OP_ACOSH, SN_TYPE_F32, 1.5, 0, 0.9624236501192069},
    {SN_OP_ATANH, SN_TYPE_F32, 0.5, 0, 0.5493061443340549},
};

/* What the type makes of a value. */
static double rounded(sn_type t, double v) {
  char at[16];
  sn_store_f64(t, at, v);
  return sn_load_f64(t, at);
}

START_TEST(test_row) {
  const row *r = &rows[_i];
  fixture f;
  fixture_open(&f);
  int n = sn_ops[r->op].arity_max;
  const int64_t dims[1] = {300}; /* more than one block of lanes */
  double x[300], y[300];
  for (int k = 0; k < 300; k++) {
    x[k] = r->x;
    y[k] = r->y;
  }
  sn_array *args[2] = {array_of(r->t, 1, dims, x), array_of(r->t, 1, dims, y)};
  sn_instr *a = fixture_param(&f, r->t, 1, dims), *b = n == 2 ? fixture_param(&f, r->t, 1, dims) : NULL;
  sn_array *out =
      fixture_run(&f, n == 2 ? sn_build_binary(&f.b, r->op, a, b) : sn_build_unary(&f.b, r->op, a), n, args, NULL);
  double want = rounded(r->t, r->want);
  for (int k = 0; k < 300; k++) {
    double got = array_at(out, k);
    if (isnan(want))
      ck_assert_msg(isnan(got), "%s %s: got %.17g, want NaN", sn_opcode_text(r->op), sn_type_text(r->t), got);
    else /* libm's last bit is not ours: f64 functions get one unit */
      ck_assert_msg(got == want || (r->t == SN_TYPE_F64 && fabs(got - want) <= 2.3e-16 * fabs(want)),
                    "%s %s: got %.17g, want %.17g", sn_opcode_text(r->op), sn_type_text(r->t), got, want);
  }
  sn_array_release(out);
  sn_array_release(args[0]);
  sn_array_release(args[1]);
  fixture_close(&f);
}
END_TEST

/* ---- complex: against identities ---- */

typedef struct complex_row {
  sn_opcode op;
  double x, y, re, im;
} complex_row;
static const complex_row complex_rows[] = {
    {SN_OP_EXPONENTIAL, 0, 3.141592653589793, -1, 1.2246467991473532e-16},
    {SN_OP_LOG, -1, 0, 0, 3.141592653589793},
    {SN_OP_SQRT, -4, 0, 0, 2},
    {SN_OP_SQRT, 3, 4, 2, 1},
    {SN_OP_RSQRT, 3, 4, 0.4, -0.2},
    {SN_OP_CBRT, 8, 0, 2, 0},
    {SN_OP_TANH, 0, 1, 0, 1.5574077246549023},
    {SN_OP_LOG_PLUS_ONE, 1e-20, 1e-20, 1e-20, 1e-20},
    {SN_OP_EXPONENTIAL_MINUS_ONE, 1e-20, 1e-20, 1e-20, 1e-20},
    {SN_OP_SIGN, 3, 4, 0.6, 0.8},
    {SN_OP_NEGATE, 3, 4, -3, -4},
    {SN_OP_ASINH, 0, 0.5, 0, 0.5235987755982989},
};

START_TEST(test_complex_row) {
  const complex_row *r = &complex_rows[_i];
  static const sn_type types[2] = {SN_TYPE_C64, SN_TYPE_C128};
  for (int t = 0; t < 2; t++) {
    fixture f;
    fixture_open(&f);
    sn_array *arg = array_of(types[t], 0, NULL, (const double[]){r->x, r->y});
    sn_array *out = fixture_run(&f, sn_build_unary(&f.b, r->op, fixture_param(&f, types[t], 0, NULL)), 1, &arg, NULL);
    double re, im, scale = fmax(hypot(r->re, r->im), 1e-300), eps = t ? 4e-16 : 1.2e-7;
    sn_load_c128(types[t], sn_array_data(out), &re, &im);
    ck_assert_msg(fabs(re - r->re) <= eps * scale && fabs(im - r->im) <= eps * scale,
                  "%s: got %.17g, %.17g, want %.17g, %.17g", sn_opcode_text(r->op), re, im, r->re, r->im);
    sn_array_release(out);
    sn_array_release(arg);
    fixture_close(&f);
  }
}
END_TEST

/* ---- three operands, comparisons ---- */

START_TEST(test_compare) {
  static const double x[5] = {1, 2, NAN, -0.0, -INFINITY}, y[5] = {2, 2, 1, 0, 3};
  static const int want[6][5] = {{0, 1, 0, 1, 0}, {1, 0, 1, 0, 1}, {0, 1, 0, 1, 0},
                                 {0, 0, 0, 0, 0}, {1, 1, 0, 1, 1}, {1, 0, 0, 0, 1}};
  static const sn_type types[4] = {SN_TYPE_F32, SN_TYPE_F64, SN_TYPE_F16, SN_TYPE_BF16};
  for (int t = 0; t < 4; t++) {
    fixture f;
    fixture_open(&f);
    sn_array *args[2] = {array_of(types[t], 1, DIMS(5), x), array_of(types[t], 1, DIMS(5), y)};
    sn_instr *a = fixture_param(&f, types[t], 1, DIMS(5)), *b = fixture_param(&f, types[t], 1, DIMS(5));
    sn_array *out = fixture_run(&f, sn_build_compare(&f.b, _i, a, b), 2, args, NULL);
    for (int k = 0; k < 5; k++)
      ck_assert_msg((int)array_at(out, k) == want[_i][k], "%s, element %d", sn_type_text(types[t]), k);
    sn_array_release(out);
    sn_array_release(args[0]);
    sn_array_release(args[1]);
    fixture_close(&f);
  }
}
END_TEST

START_TEST(test_select_and_clamp) {
  fixture f;
  fixture_open(&f);
  static const double p[4] = {1, 0, 1, 0}, x[4] = {-2, 0.5, 7, NAN}, y[4] = {1, 2, 3, 4};
  sn_array *args[3] = {array_of(SN_TYPE_PRED, 1, DIMS(4), p), array_of(SN_TYPE_F32, 1, DIMS(4), x),
                       array_of(SN_TYPE_F32, 1, DIMS(4), y)};
  sn_instr *pp = fixture_param(&f, SN_TYPE_PRED, 1, DIMS(4)), *px = fixture_param(&f, SN_TYPE_F32, 1, DIMS(4)),
           *py = fixture_param(&f, SN_TYPE_F32, 1, DIMS(4));
  sn_instr *lo = sn_build_scalar(&f.b, SN_TYPE_F32, 0), *hi = sn_build_scalar(&f.b, SN_TYPE_F32, 1);
  sn_instr *both[2] = {sn_build_select(&f.b, pp, px, py), sn_build_clamp(&f.b, lo, px, hi)};
  sn_array *out = fixture_run(&f, sn_build_tuple(&f.b, 2, both), 3, args, NULL);
  static const double want[2][4] = {{-2, 2, 7, 4}, {0, 0.5, 1, NAN}};
  for (int q = 0; q < 2; q++)
    for (int k = 0; k < 4; k++) {
      double got = array_at(sn_array_element(out, q), k);
      ck_assert(got == want[q][k] || (isnan(got) && isnan(want[q][k])));
    }
  sn_array_release(out);
  for (int k = 0; k < 3; k++) sn_array_release(args[k]);
  fixture_close(&f);
}
END_TEST

TCase *elementwise_cases(void) {
  TCase *c = tcase_create("elementwise");
  tcase_add_loop_test(c, test_row, 0, (int)(sizeof rows / sizeof rows[0]));
  tcase_add_loop_test(c, test_complex_row, 0, (int)(sizeof complex_rows / sizeof complex_rows[0]));
  tcase_add_loop_test(c, test_compare, 0, 6);
  tcase_add_test(c, test_select_and_clamp);
  return c;
}
