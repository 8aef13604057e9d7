/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <math.h>
#include <string.h>

#include "nn_tests.h"

static sn_params *two_params(void) {
  static const int64_t dims[2] = {40, 50};
  sn_params *t;
  ck_assert_int_eq(sn_params_create(&t), SN_OK);
  sn_param w = {.name = "a.weight", .type = SN_TYPE_F32, .rank = 2, .dims = dims, .init = sn_init_truncated(0.02, -0.03, 0.03), .trainable = true};
  sn_param b = {.name = "a.bias", .type = SN_TYPE_F32, .rank = 1, .dims = dims, .init = sn_init_constant(0), .trainable = true};
  sn_param m = {.name = "a.running_mean", .type = SN_TYPE_F32, .rank = 1, .dims = dims, .init = sn_init_constant(0.5), .buffer = true};
  ck_assert_int_eq(sn_params_add(t, &w), SN_OK);
  ck_assert_int_eq(sn_params_add(t, &b), SN_OK);
  ck_assert_int_eq(sn_params_add(t, &m), SN_OK);
  ck_assert_int_eq(sn_params_add(t, &b), SN_ERR_NAME);
  return t;
}

START_TEST(tree) {
  sn_params *t = two_params();
  size_t i;
  ck_assert_uint_eq(sn_params_count(t), 3);
  ck_assert(sn_params_find(t, "a.bias", &i) && i == 1);
  ck_assert(!sn_params_find(t, "a", &i));
  ck_assert_int_eq(sn_params_elements(t, false), 2080);
  ck_assert_int_eq(sn_params_elements(t, true), 2040);
  sn_params_destroy(t);
}
END_TEST

START_TEST(trainable_by_name) {
  sn_params *t = two_params();
  sn_diag *d;
  size_t n;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_params_set_trainable(d, t, "weight$", &n), SN_OK);
  ck_assert_uint_eq(n, 1);
  ck_assert(sn_params_at(t, 0)->trainable && !sn_params_at(t, 1)->trainable);
  ck_assert_int_eq(sn_params_set_trainable(d, t, "zzz", &n), SN_ERR_USAGE);
  ck_assert(sn_params_at(t, 0)->trainable);
  ck_assert_int_eq(sn_params_set_trainable(d, t, "(", &n), SN_ERR_USAGE);
  ck_assert_int_eq(sn_params_set_trainable(d, t, ".*", &n), SN_OK);
  ck_assert_uint_eq(n, 2); /* never the buffer */
  sn_diag_destroy(d);
  sn_params_destroy(t);
}
END_TEST

START_TEST(initialised_by_seed_and_name) {
  sn_params *t = two_params();
  sn_bundle *a, *b, *c;
  ck_assert_int_eq(sn_params_init(NULL, t, 1, &a), SN_OK);
  ck_assert_int_eq(sn_params_init(NULL, t, 1, &b), SN_OK);
  ck_assert_int_eq(sn_params_init(NULL, t, 2, &c), SN_OK);
  ck_assert(sn_array_equal(sn_bundle_get(a, "a.weight"), sn_bundle_get(b, "a.weight")));
  ck_assert(!sn_array_equal(sn_bundle_get(a, "a.weight"), sn_bundle_get(c, "a.weight")));
  const float *w = sn_array_data(sn_bundle_get(a, "a.weight"));
  double squares = 0;
  for (int i = 0; i < 2000; i++) {
    ck_assert(fabsf(w[i]) <= 0.03f);
    squares += (double)w[i] * w[i];
  }
  double deviation = sqrt(squares / 2000); /* of a normal cut at 1.5 deviations: 0.743 of the whole one's */
  ck_assert(deviation > 0.0135 && deviation < 0.0162);
  ck_assert(((const float *)sn_array_data(sn_bundle_get(a, "a.running_mean")))[39] == 0.5f);
  sn_bundle_destroy(a);
  sn_bundle_destroy(b);
  sn_bundle_destroy(c);
  sn_params_destroy(t);
}
END_TEST

START_TEST(every_mismatch_is_listed) {
  sn_params *t = two_params();
  sn_bundle *file, *out;
  sn_diag *d;
  static const int64_t dims[2] = {50, 40};
  static const float values[2000];
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_bundle_create(&file), SN_OK);
  sn_array *x = f32_array(2, dims, values);
  ck_assert_int_eq(sn_bundle_set(file, "a.weight", x), SN_OK);
  ck_assert_int_eq(sn_bundle_set(file, "pooler.dense", x), SN_OK);
  ck_assert_int_eq(sn_bundle_set(file, "other", x), SN_OK);
  static const char *const ignore[] = {"pooler.", NULL};
  ck_assert_int_eq(sn_params_load(d, t, "m.safetensors", file, ignore, &out), SN_ERR_MISMATCH);
  ck_assert_ptr_null(out);
  ck_assert_uint_eq(sn_diag_stored(d), 4);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 1)->message, "a.bias"));
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 2)->message, "other"));
  ck_assert_ptr_null(strstr(sn_diag_get(d, 2)->message, "pooler"));
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 3)->message, "f32[50,40]"));
  sn_array_release(x);
  sn_bundle_destroy(file);
  sn_diag_destroy(d);
  sn_params_destroy(t);
}
END_TEST

START_TEST(memory_runs_out) {
  sn_params *t = two_params();
  int64_t live = sn_alloc_live();
  for (int64_t n = 0;; n++) {
    sn_bundle *b;
    sn_alloc_fail_after(n);
    sn_status s = sn_params_init(NULL, t, 1, &b);
    sn_alloc_fail_after(-1);
    sn_bundle_destroy(b);
    ck_assert_int_eq(sn_alloc_live(), live);
    if (s == SN_OK) break;
    ck_assert_int_lt(n, 200);
  }
  sn_params_destroy(t);
}
END_TEST

TCase *params_tests(void) {
  TCase *t = tcase_create("params");
  tcase_add_test(t, tree);
  tcase_add_test(t, trainable_by_name);
  tcase_add_test(t, initialised_by_seed_and_name);
  tcase_add_test(t, every_mismatch_is_listed);
  tcase_add_test(t, memory_runs_out);
  return t;
}
