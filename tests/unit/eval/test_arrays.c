/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ops over whole arrays against index formulas written out here. */
#include "fixture.h"

START_TEST(test_transpose_broadcast) {
  static const int64_t perms[4][3] = {{2, 1, 0}, {0, 2, 1}, {1, 0, 2}, {2, 0, 1}};
  static const int64_t dims[3] = {5, 37, 66};
  fixture f;
  fixture_open(&f);
  sn_array *arg = array_random(SN_TYPE_F32, 3, dims, 1, 1);
  sn_instr *x = fixture_param(&f, SN_TYPE_F32, 3, dims);
  sn_array *out = fixture_run(&f, sn_build_transpose(&f.b, x, perms[_i]), 1, &arg, NULL);
  int64_t at = 0, i[3], n[3];
  for (int d = 0; d < 3; d++) n[d] = dims[perms[_i][d]];
  for (i[0] = 0; i[0] < n[0]; i[0]++)
    for (i[1] = 0; i[1] < n[1]; i[1]++)
      for (i[2] = 0; i[2] < n[2]; i[2]++) {
        int64_t s[3];
        for (int d = 0; d < 3; d++) s[perms[_i][d]] = i[d];
        ck_assert(array_at(out, at++) == array_at(arg, (s[0] * dims[1] + s[1]) * dims[2] + s[2]));
      }
  sn_array_release(out);
  sn_array_release(arg);
  fixture_close(&f);
}
END_TEST

START_TEST(test_moves) {
  fixture f;
  fixture_open(&f);
  static const double v[6] = {0, 1, 2, 3, 4, 5};
  sn_array *arg = array_of(SN_TYPE_S32, 2, DIMS(2, 3), v);
  sn_instr *x = fixture_param(&f, SN_TYPE_S32, 2, DIMS(2, 3)), *nine = sn_build_scalar(&f.b, SN_TYPE_S32, 9);
  sn_instr *one = sn_build_scalar(&f.b, SN_TYPE_S32, 1), *far = sn_build_scalar(&f.b, SN_TYPE_S32, 100);
  sn_instr *parts[7] = {
      sn_build_pad(&f.b, x, nine, DIMS(1, -1), DIMS(0, 1), DIMS(1, 0)),
      sn_build_slice(&f.b, x, DIMS(0, 0), DIMS(2, 3), DIMS(1, 2)),
      sn_build_reverse(&f.b, x, 2, DIMS(0, 1)),
      sn_build_broadcast(&f.b, x, 3, DIMS(2, 2, 3), 2, DIMS(1, 2)),
      sn_build_dynamic_slice(&f.b, x, (sn_instr *const[]){one, far}, DIMS(1, 2)),
      sn_build_dynamic_update_slice(&f.b, x, sn_build_full(&f.b, fixture_shape(&f, SN_TYPE_S32, 2, DIMS(1, 2)), 7),
                                    (sn_instr *const[]){one, one}),
      sn_build_concatenate(&f.b, 2, (sn_instr *const[]){x, x}, 1),
  };
  static const struct {
    int n;
    double v[24];
  } want[7] = {
      {12, {9, 9, 9, 1, 2, 9, 9, 9, 9, 4, 5, 9}}, {4, {0, 2, 3, 5}}, {6, {5, 4, 3, 2, 1, 0}},
      {12, {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}}, {2, {4, 5}},       {6, {0, 1, 2, 3, 7, 7}},
      {12, {0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5}},
  };
  sn_array *out = fixture_run(&f, sn_build_tuple(&f.b, 7, parts), 1, &arg, NULL);
  for (int q = 0; q < 7; q++) {
    ck_assert_int_eq(sn_shape_elements(sn_array_shape(sn_array_element(out, q))), want[q].n);
    for (int k = 0; k < want[q].n; k++)
      ck_assert_msg(array_at(sn_array_element(out, q), k) == want[q].v[k], "part %d, element %d", q, k);
  }
  ck_assert(array_at(arg, 4) == 4); /* the argument was only read */
  sn_array_release(out);
  sn_array_release(arg);
  fixture_close(&f);
}
END_TEST

/* Products against the sum written out in f64. */
static const struct {
  sn_type t;
  int64_t batch, m, n, k;
  int lhs_order, rhs_order;
  double eps;
} dots[] = {
    {SN_TYPE_F32, 1, 3, 5, 7, 0, 0, 6e-8},    {SN_TYPE_F32, 3, 70, 65, 33, 1, 1, 6e-8},
    {SN_TYPE_F32, 2, 130, 9, 64, 0, 1, 6e-8}, {SN_TYPE_F64, 2, 17, 17, 40, 1, 0, 1e-14},
    {SN_TYPE_BF16, 1, 8, 8, 100, 0, 0, 4e-3}, {SN_TYPE_F16, 1, 8, 8, 10, 1, 0, 5e-4},
    {SN_TYPE_S32, 2, 9, 6, 11, 0, 1, 0},      {SN_TYPE_C64, 1, 5, 6, 7, 0, 0, 1e-7},
};

/* [batch, free, k] or [batch, k, free]. */
static double element(const sn_array *a, int order, int64_t b, int64_t r, int64_t k, int64_t n_free, int64_t n_k,
                      double *im) {
  int64_t at = order ? (b * n_k + k) * n_free + r : (b * n_free + r) * n_k + k;
  double re;
  sn_load_c128(sn_array_shape(a)->type,
               (const char *)sn_array_data(a) + (size_t)at * sn_type_bytes(sn_array_shape(a)->type), &re, im);
  return re;
}

START_TEST(test_dot) {
  fixture f;
  fixture_open(&f);
  sn_type t = dots[_i].t;
  int64_t nb = dots[_i].batch, m = dots[_i].m, n = dots[_i].n, nk = dots[_i].k;
  int lo = dots[_i].lhs_order, ro = dots[_i].rhs_order;
  int64_t ld[3] = {nb, lo ? nk : m, lo ? m : nk}, rd[3] = {nb, ro ? nk : n, ro ? n : nk};
  sn_array *args[2] = {array_random(t, 3, ld, 1, 3), array_random(t, 3, rd, 2, 3)};
  sn_dot_dims dims = {1, 1, DIMS(0), DIMS(0), DIMS(lo ? 1 : 2), DIMS(ro ? 1 : 2)};
  sn_instr *a = fixture_param(&f, t, 3, ld), *b = fixture_param(&f, t, 3, rd);
  sn_array *out = fixture_run(&f, sn_build_dot(&f.b, a, b, &dims, SN_TYPE_INVALID), 2, args, NULL);
  for (int64_t p = 0; p < nb; p++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < nk; k++) {
          double xi, yi, x = element(args[0], lo, p, i, k, m, nk, &xi), y = element(args[1], ro, p, j, k, n, nk, &yi);
          sum += x * y - xi * yi;
          size += fabs(x * y) + fabs(xi * yi);
        }
        ck_assert_msg(fabs(array_at(out, (p * m + i) * n + j) - sum) <= dots[_i].eps * size, "row %d: %g against %g",
                      _i, array_at(out, (p * m + i) * n + j), sum);
      }
  sn_array_release(out);
  sn_array_release(args[0]);
  sn_array_release(args[1]);
  fixture_close(&f);
}
END_TEST

/* Reductions over every subset of three dims. */
START_TEST(test_reduce) {
  static const int64_t dims[3] = {3, 130, 67};
  static const struct {
    sn_opcode op;
    sn_type t;
    double init;
  } ops[] = {{SN_OP_ADD, SN_TYPE_F32, 2},
             {SN_OP_MAXIMUM, SN_TYPE_F32, -INFINITY},
             {SN_OP_MINIMUM, SN_TYPE_S32, 1000},
             {SN_OP_ADD, SN_TYPE_BF16, 0},
             {SN_OP_ADD, SN_TYPE_S16, 1}};
  int subset = _i % 8;
  sn_opcode op = ops[_i / 8].op;
  sn_type t = ops[_i / 8].t;
  fixture f;
  fixture_open(&f);
  int64_t over[3], kept[3] = {1, 1, 1};
  int n = 0;
  for (int d = 0; d < 3; d++) {
    if (subset >> d & 1)
      over[n++] = d;
    else
      kept[d] = dims[d];
  }
  sn_array *arg = array_random(t, 3, dims, 7, 40);
  sn_array *out = fixture_run(
      &f,
      sn_build_reduce_op(&f.b, op, fixture_param(&f, t, 3, dims), sn_build_scalar(&f.b, t, ops[_i / 8].init), n, over),
      1, &arg, NULL);
  int64_t at = 0;
  for (int64_t a = 0; a < kept[0]; a++)
    for (int64_t b = 0; b < kept[1]; b++)
      for (int64_t c = 0; c < kept[2]; c++) {
        double want = ops[_i / 8].init;
        for (int64_t p = a; p < (subset & 1 ? dims[0] : a + 1); p++)
          for (int64_t q = b; q < (subset & 2 ? dims[1] : b + 1); q++)
            for (int64_t r = c; r < (subset & 4 ? dims[2] : c + 1); r++) {
              double x = array_at(arg, (p * dims[1] + q) * dims[2] + r);
              want = op == SN_OP_ADD ? want + x : op == SN_OP_MAXIMUM ? fmax(want, x) : fmin(want, x);
            }
        if (t == SN_TYPE_S16) want = (double)(int16_t)(int64_t)want;
        char rounded[16];
        sn_store_f64(
            t, rounded,
            want); /* sums in f64 differ by far less than half a unit of the type, but a tie may fall either way */
        double got = array_at(out, at++), ulp = t == SN_TYPE_F32 ? 1.2e-7 : t == SN_TYPE_BF16 ? 8e-3 : 0;
        ck_assert_msg(
            fabs(got - sn_load_f64(t, rounded)) <= ulp * fabs(want) && fabs(got - want) <= ulp * (fabs(want) + 1e-9),
            "subset %d: got %.9g, want %.9g", subset, got, want);
      }
  sn_array_release(out);
  sn_array_release(arg);
  fixture_close(&f);
}
END_TEST

/* argmax: a reducer of two operands that is no single op. */
START_TEST(test_reduce_pair) {
  fixture f;
  sn_builder b;
  fixture_open(&f);
  sn_instr *x = fixture_param(&f, SN_TYPE_F32, 2, DIMS(300, 50));
  fixture_helper(&f, "argmax", &b);
  const sn_shape *fs = fixture_shape(&f, SN_TYPE_F32, 0, NULL), *is = fixture_shape(&f, SN_TYPE_S32, 0, NULL);
  sn_instr *p[4] = {sn_build_parameter(&b, 0, fs, NULL), sn_build_parameter(&b, 1, is, NULL),
                    sn_build_parameter(&b, 2, fs, NULL), sn_build_parameter(&b, 3, is, NULL)};
  sn_instr *ge = sn_build_compare(&b, SN_DIRECTION_GE, p[0], p[2]);
  sn_instr *root = sn_build_tuple(
      &b, 2, (sn_instr *const[]){sn_build_select(&b, ge, p[0], p[2]), sn_build_select(&b, ge, p[1], p[3])});
  sn_computation_set_root(b.c, root);
  sn_instr *ops[4] = {x, sn_build_iota(&f.b, SN_TYPE_S32, 2, DIMS(300, 50), 1),
                      sn_build_scalar(&f.b, SN_TYPE_F32, -INFINITY), sn_build_scalar(&f.b, SN_TYPE_S32, 0)};
  sn_attr dims = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, DIMS(1));
  sn_instr *r = sn_build(&f.b, SN_OP_REDUCE, NULL, 4, ops, 1, &dims, 1, &b.c);
  sn_array *arg = array_random(SN_TYPE_F32, 2, DIMS(300, 50), 3, 1), *out = fixture_run(&f, r, 1, &arg, NULL);
  for (int k = 0; k < 300; k++) {
    int best = 0;
    for (int q = 1; q < 50; q++)
      if (array_at(arg, k * 50 + q) > array_at(arg, k * 50 + best)) best = q;
    ck_assert(array_at(sn_array_element(out, 1), k) == best);
    ck_assert(array_at(sn_array_element(out, 0), k) == array_at(arg, k * 50 + best));
  }
  sn_array_release(out);
  sn_array_release(arg);
  fixture_close(&f);
}
END_TEST

TCase *array_cases(void) {
  TCase *c = tcase_create("arrays");
  tcase_add_loop_test(c, test_transpose_broadcast, 0, 4);
  tcase_add_test(c, test_moves);
  tcase_add_loop_test(c, test_dot, 0, (int)(sizeof dots / sizeof dots[0]));
  tcase_add_loop_test(c, test_reduce, 0, 5 * 8);
  tcase_add_test(c, test_reduce_pair);
  return c;
}
