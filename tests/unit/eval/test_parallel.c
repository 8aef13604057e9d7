/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The bits do not depend on the number of threads; memory that lacks is a status and leaves nothing behind. */
#include "fixture.h"

/* A little of everything that is split over threads. */
static sn_instr *mixture(fixture *f) {
  sn_builder *b = &f->b;
  sn_instr *x = fixture_param(f, SN_TYPE_F32, 2, DIMS(200, 300)), *y = fixture_param(f, SN_TYPE_F32, 2, DIMS(300, 200));
  sn_dot_dims dims = {0, 1, NULL, NULL, DIMS(1), DIMS(0)};
  sn_instr *p = sn_build_dot(b, x, y, &dims, SN_TYPE_INVALID);
  sn_instr *t = sn_build_unary(b, SN_OP_TANH, sn_build_transpose(b, p, DIMS(1, 0)));
  sn_instr *s = sn_build_reduce_sum(b, t, 1, DIMS(0)), *m = sn_build_reduce_sum(b, t, 1, DIMS(1));
  sn_instr *w = sn_build_binary(b, SN_OP_ADD, sn_build_broadcast(b, s, 2, DIMS(200, 200), 1, DIMS(1)),
                                sn_build_broadcast(b, m, 2, DIMS(200, 200), 1, DIMS(0)));
  sn_instr *all = sn_build_reduce_sum(b, w, 2, DIMS(0, 1));
  return sn_build_tuple(b, 3, (sn_instr *const[]){p, w, all});
}

START_TEST(test_threads) {
  fixture f;
  fixture_open(&f);
  sn_array *args[2] = {array_random(SN_TYPE_F32, 2, DIMS(200, 300), 1, 1),
                       array_random(SN_TYPE_F32, 2, DIMS(300, 200), 2, 1)};
  sn_instr *root = mixture(&f);
  sn_array *one = fixture_run(&f, root, 2, args, NULL);
  for (int n = 2; n <= 3; n++) {
    sn_pool *pool;
    ck_assert_int_eq(sn_pool_create(n, &pool), SN_OK);
    sn_array *many = fixture_run(&f, root, 2, args, pool);
    ck_assert(sn_array_equal(one, many));
    sn_array_release(many);
    sn_pool_destroy(pool);
  }
  sn_array_release(one);
  sn_array_release(args[0]);
  sn_array_release(args[1]);
  fixture_close(&f);
}
END_TEST

START_TEST(test_allocation_failures) {
  fixture f;
  fixture_open(&f);
  sn_array *args[2] = {array_random(SN_TYPE_F32, 2, DIMS(200, 300), 1, 1),
                       array_random(SN_TYPE_F32, 2, DIMS(300, 200), 2, 1)};
  sn_instr *root = mixture(&f);
  ck_assert_int_eq(f.b.status, SN_OK);
  sn_computation_set_root(f.entry, root);
  sn_status s = SN_ERR_MEMORY;
  for (int64_t n = 0; s != SN_OK; n++) {
    sn_array *out = NULL;
    int64_t live = sn_alloc_live();
    ck_assert_int_lt(n, 2000);
    (void)sn_alloc_fail_after(n);
    s = sn_eval(NULL, f.m, NULL, 2, args, &out);
    (void)sn_alloc_fail_after(-1);
    if (s == SN_OK) {
      sn_array_release(out);
    } else {
      ck_assert_int_eq(s, SN_ERR_MEMORY);
      ck_assert_ptr_null(out);
    }
    ck_assert_int_eq(sn_alloc_live(), live);
  }
  sn_array_release(args[0]);
  sn_array_release(args[1]);
  fixture_close(&f);
}
END_TEST

START_TEST(test_limits) {
  fixture f;
  sn_eval_options o;
  sn_array *out = NULL;
  fixture_open(&f);
  sn_array *args[2] = {array_random(SN_TYPE_F32, 2, DIMS(200, 300), 1, 1),
                       array_random(SN_TYPE_F32, 2, DIMS(300, 200), 2, 1)};
  sn_computation_set_root(f.entry, mixture(&f));
  sn_eval_options_init(&o);
  o.max_bytes = 1000;
  ck_assert_int_eq(sn_eval(f.d, f.m, &o, 2, args, &out), SN_ERR_MEMORY);
  o.max_bytes = 4 << 20; /* what lives at once, not what was ever made */
  ck_assert_int_eq(sn_eval(f.d, f.m, &o, 2, args, &out), SN_OK);
  sn_array_release(out);
  o.max_bytes = 0;
  o.max_steps = 5;
  ck_assert_int_eq(sn_eval(f.d, f.m, &o, 2, args, &out), SN_ERR_CANCELLED);
  ck_assert_int_eq(sn_eval(f.d, f.m, NULL, 1, args, &out), SN_ERR_USAGE);
  sn_array *swapped[2] = {args[1], args[0]};
  ck_assert_int_eq(sn_eval(f.d, f.m, NULL, 2, swapped, &out), SN_ERR_SHAPE);
  sn_array_release(args[0]);
  sn_array_release(args[1]);
  fixture_close(&f);
}
END_TEST

typedef struct seen {
  int n;
  int64_t n_nan;
  double min, max;
} seen;
static void on_event(void *ctx, const sn_eval_event *e) {
  seen *s = ctx;
  s->n++;
  s->n_nan += e->n_nan;
  s->min = e->min;
  s->max = e->max;
}

START_TEST(test_trace_and_nan) {
  fixture f;
  sn_eval_options o;
  sn_array *out = NULL;
  seen s = {0};
  fixture_open(&f);
  static const double v[3] = {1, -1, 4};
  sn_array *arg = array_of(SN_TYPE_F32, 1, DIMS(3), v);
  sn_instr *x = fixture_param(&f, SN_TYPE_F32, 1, DIMS(3)), *r = sn_build_unary(&f.b, SN_OP_SQRT, x),
           *y = sn_build_binary(&f.b, SN_OP_ADD, r, r);
  sn_computation_set_root(f.entry, y);
  sn_eval_options_init(&o);
  o.trace = on_event;
  o.trace_ctx = &s;
  ck_assert_int_eq(sn_eval(f.d, f.m, &o, 1, &arg, &out), SN_OK);
  ck_assert_int_eq(s.n, 3);
  ck_assert_int_eq(s.n_nan, 2);
  ck_assert(s.min == 2 && s.max == 4);
  sn_array_release(out);
  o.trace_only = (const char *const[]){r->name, NULL};
  s.n = 0;
  ck_assert_int_eq(sn_eval(f.d, f.m, &o, 1, &arg, &out), SN_OK);
  ck_assert_int_eq(s.n, 1);
  sn_array_release(out);
  o.stop_at_nan = true;
  ck_assert_int_eq(sn_eval(f.d, f.m, &o, 1, &arg, &out), SN_ERR_MISMATCH);
  ck_assert_ptr_null(out);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(f.d, sn_diag_stored(f.d) - 1)->message, r->name));
  sn_array_release(arg);
  fixture_close(&f);
}
END_TEST

TCase *parallel_cases(void) {
  TCase *c = tcase_create("parallel");
  tcase_add_test(c, test_threads);
  tcase_add_test(c, test_allocation_failures);
  tcase_add_test(c, test_limits);
  tcase_add_test(c, test_trace_and_nan);
  return c;
}
