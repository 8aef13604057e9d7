/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What composites compute, against values worked out by hand or by the C library. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "sinter/files.h"

#define EXPECT(g, x, tol, ...)                                                                                      \
  do {                                                                                                              \
    const double want_[] = {__VA_ARGS__};                                                                           \
    double got_[64];                                                                                                \
    int n_ = (int)(sizeof want_ / sizeof *want_);                                                                   \
    value_of(g, x, n_, got_);                                                                                       \
    for (int k_ = 0; k_ < n_; k_++)                                                                                 \
      ck_assert_msg(fabs(got_[k_] - want_[k_]) <= (tol) || got_[k_] == want_[k_], "%s: element %d: %.9g, not %.9g", \
                    #x, k_, got_[k_], want_[k_]);                                                                   \
  } while (0)
/* f32 results of functions of one element: a few units in the last place of values near 1 */
#define F32 4e-7

START_TEST(broadcasting) {
  sn_graph *g = open_graph();
  sn_tensor a = sn_reshape(VEC(g, 1, 2, 3), SN_DIMS(3, 1)), b = VEC(g, 10, 20);
  EXPECT(g, sn_add(a, b), 0, 11, 21, 12, 22, 13, 23);
  g = open_graph();
  EXPECT(g, sn_rsub_c(1, VEC(g, 1, 2)), 0, 0, -1);
  g = open_graph();
  EXPECT(g, sn_rdiv_c(6, VEC(g, 2, 3)), 0, 3, 2);
  g = open_graph();
  EXPECT(g, sn_select(sn_gt(VEC(g, 1, -1), sn_scalar(g, SN_TYPE_F32, 0)), sn_scalar(g, SN_TYPE_F32, 7), VEC(g, 8, 9)),
         0, 7, 9);
}
END_TEST

START_TEST(activations) {
  sn_graph *g = open_graph();
  EXPECT(g, sn_gelu(VEC(g, -1, 0.5, 2)), F32, -0.5 * (1 + erf(-sqrt(0.5))), 0.25 * (1 + erf(0.5 * sqrt(0.5))),
         1 + erf(sqrt(2)));
  g = open_graph();
  EXPECT(g, sn_gelu_tanh(VEC(g, 1)), F32, 0.5 * (1 + tanh(sqrt(2 / 3.14159265358979323846) * 1.044715)));
  g = open_graph();
  EXPECT(g, sn_softmax(VEC(g, 1000, 1001), 0), F32, 1 / (1 + exp(1)), 1 / (1 + exp(-1)));
  g = open_graph();
  EXPECT(g, sn_log_softmax(VEC(g, 0, 0), -1), F32, -log(2), -log(2));
  g = open_graph();
  EXPECT(g, sn_logsumexp(VEC(g, -INFINITY, -INFINITY), SN_ALL, false), 0, -INFINITY);
  g = open_graph();
  EXPECT(g, sn_layer_norm(VEC(g, 1, 2, 3), VEC(g, 1, 1, 2), VEC(g, 0, 0, 1), 0), 1e-6, -sqrt(1.5), 0,
         2 * sqrt(1.5) + 1);
  g = open_graph();
  EXPECT(g, sn_erf(sn_erf_inv(VEC(g, -0.9, 0.1, 0.99))), F32, -0.9, 0.1, 0.99);
  g = open_graph();
  EXPECT(g,
         sn_erf(sn_erf_inv(sn_cast(VEC(g, -0.5, 0.0, 0.75, 0.999755859375, 0.99999988079071044921875), SN_TYPE_F64))),
         1e-15, -0.5, 0, 0.75, 0.999755859375, 0.99999988079071044921875);
  g = open_graph();
  EXPECT(g, sn_erf_inv(VEC(g, 1, -1)), 0, INFINITY, -INFINITY);
}
END_TEST

START_TEST(indexing) {
  sn_graph *g = open_graph();
  sn_tensor m = sn_reshape(VEC(g, 0, 1, 2, 3, 4, 5), SN_DIMS(2, 3));
  EXPECT(g, sn_index(m, 0, -1), 0, 3, 4, 5);
  g = open_graph();
  m = sn_reshape(VEC(g, 0, 1, 2, 3, 4, 5), SN_DIMS(2, 3));
  int32_t i[2] = {2, 0};
  EXPECT(g, sn_take(m, sn_constant_data(g, SN_TYPE_S32, SN_DIMS(2), i), 1), 0, 2, 0, 5, 3);
  g = open_graph();
  EXPECT(g, sn_one_hot(sn_constant_data(g, SN_TYPE_S32, SN_DIMS(2), i), 3, SN_TYPE_F32), 0, 0, 0, 1, 1, 0, 0);
  g = open_graph();
  EXPECT(g, sn_tril(sn_full(g, SN_TYPE_F32, SN_DIMS(2, 3), 1), 0), 0, 1, 0, 0, 1, 1, 0);
  g = open_graph();
  EXPECT(g, sn_move_axis(sn_reshape(VEC(g, 0, 1, 2, 3), SN_DIMS(1, 2, 2)), 2, 0), 0, 0, 2, 1, 3);
  g = open_graph();
  EXPECT(g, sn_scatter_rows(VEC(g, 1, 1, 1), sn_constant_data(g, SN_TYPE_S32, SN_DIMS(2), i), VEC(g, 5, 7), SN_OP_ADD),
         0, 8, 1, 6);
}
END_TEST

START_TEST(reductions) {
  sn_graph *g = open_graph();
  EXPECT(g, sn_var(VEC(g, 1, 2, 3, 6), SN_ALL, false), F32, 3.5);
  g = open_graph();
  EXPECT(g, sn_argmax(VEC(g, 1, 5, 5, NAN, 7, NAN), 0), 0, 3);
  g = open_graph();
  EXPECT(g, sn_argmin(VEC(g, 4, 2, 2, 3), 0), 0, 1);
  g = open_graph();
  EXPECT(g, sn_cumsum(VEC(g, 1, 2, 3), 0, true), 0, 6, 5, 3);
}
END_TEST

START_TEST(sorting) {
  sn_graph *g = open_graph();
  EXPECT(g, sn_sort(VEC(g, 2, -1, 3), 0, true), 0, 3, 2, -1);
  g = open_graph();
  EXPECT(g, sn_argsort(VEC(g, 2, -1, 3, -1), 0, false), 0, 1, 3, 0, 2);
  g = open_graph();
  sn_tensor v, i;
  sn_topk(VEC(g, 2, 9, 3), 2, &v, &i);
  EXPECT(g, sn_add(v, sn_cast(i, SN_TYPE_F32)), 0, 10, 5);
}
END_TEST

START_TEST(pooling) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_reshape(VEC(g, 1, 2, 3, 4, 5, 6, 7, 8, 9), SN_DIMS(1, 3, 3, 1));
  sn_pool_options o = {.window = (int64_t[]){2, 2}, .stride = (int64_t[]){2, 2}, .padding = SN_PAD_SAME};
  EXPECT(g, sn_avg_pool(x, &o), F32, 3, 4.5, 7.5, 9);
  g = open_graph();
  x = sn_reshape(VEC(g, 1, 2, 3, 4, 5, 6, 7, 8, 9), SN_DIMS(1, 1, 3, 3));
  o.layout = SN_NCHW;
  EXPECT(g, sn_max_pool(x, &o), 0, 5, 6, 8, 9);
  g = open_graph();
  x = sn_reshape(VEC(g, 1, 2, 3, 4), SN_DIMS(1, 4, 1));
  EXPECT(g, sn_conv(x, sn_reshape(VEC(g, 1, 10), SN_DIMS(2, 1, 1)), NULL), 0, 21, 32, 43);
}
END_TEST

static sn_bundle *golden(const char *name) {
  char path[1024];
  const char *dir = getenv("SINTER_TEST_DATA");
  snprintf(path, sizeof path, "%s/golden/io/%s.safetensors", dir ? dir : "tests/data", name);
  sn_bundle *b;
  ck_assert_int_eq(sn_files_read(NULL, path, &b), SN_OK);
  return b;
}

static void compare(const sn_array *got, sn_bundle *b, const char *name, double rtol, double atol) {
  sn_array *want = sn_bundle_get(b, name);
  ck_assert_ptr_nonnull(want);
  sn_array_difference diff;
  ck_assert_int_eq(sn_array_compare(got, want, rtol, atol, &diff), SN_OK);
  ck_assert_msg(diff.n_bad == 0, "%s: element %lld is %.9g, not %.9g", name, (long long)diff.worst, diff.got,
                diff.want);
}

/* jax.random on the same key: bits, split and fold_in exactly, what is made of them within the program's tolerance in
 * the index. */
START_TEST(random_bits) {
  sn_bundle *b = golden("threefry_bits");
  sn_graph *g = open_graph();
  sn_tensor key = sn_parameter(g, SN_TYPE_U32, SN_DIMS(2), "key"), parts[3];
  sn_output(g, sn_random_bits(key, SN_DIMS(7, 3)), NULL);
  sn_key_split(key, 3, parts);
  sn_output(g, sn_stack(3, parts, 0), NULL);
  sn_output(g, sn_key_fold_in(key, sn_scalar(g, SN_TYPE_S32, 5)), NULL);
  sn_output(g, sn_bernoulli(key, 0.3, SN_DIMS(12)), NULL);
  sn_module *m = finish(g);
  sn_array *arg = sn_bundle_get(b, "arg0"), *r = run(m, 1, &arg);
  const char *names[4] = {"out0", "out2", "out3", "out6"};
  for (int k = 0; k < 4; k++) compare(sn_array_element(r, k), b, names[k], 0, 0);
  sn_array_release(r);
  sn_module_destroy(m);
  sn_bundle_destroy(b);
}
END_TEST

START_TEST(random_numbers) {
  sn_bundle *b = golden("threefry_normal");
  sn_graph *g = open_graph();
  sn_tensor key = sn_parameter(g, SN_TYPE_U32, SN_DIMS(2), "key"), k[5];
  sn_key_split(key, 5, k);
  sn_output(g, sn_normal(k[0], SN_TYPE_F32, SN_DIMS(5, 7)), NULL);
  sn_output(g, sn_uniform(k[1], SN_TYPE_F32, SN_DIMS(13), -2, 3), NULL);
  sn_output(g, sn_truncated_normal(k[2], SN_TYPE_F32, SN_DIMS(9), -2, 2), NULL);
  sn_module *m = finish(g);
  sn_array *arg = sn_bundle_get(b, "arg0"), *r = run(m, 1, &arg);
  const char *names[3] = {"out0", "out1", "out2"};
  for (int j = 0; j < 3; j++) compare(sn_array_element(r, j), b, names[j], 1e-4, 2e-5);
  sn_array_release(r);
  sn_module_destroy(m);
  sn_bundle_destroy(b);
}
END_TEST

START_TEST(random_types) { /* within [0, 1) whatever the type; half of the coins */
  static const sn_type types[] = {SN_TYPE_F64, SN_TYPE_F32, SN_TYPE_BF16, SN_TYPE_F16};
  for (int t = 0; t < 4; t++) {
    sn_graph *g = open_graph();
    sn_tensor u = sn_uniform(sn_key(g, 7), types[t], SN_DIMS(4096), 0, 1);
    double v[2];
    value_of(g, sn_stack(SN_TENSORS(sn_max(u, SN_ALL, false), sn_min(u, SN_ALL, false)), 0), 2, v);
    ck_assert(v[0] < 1 && v[0] > 0.99 && v[1] >= 0 && v[1] < 0.01);
  }
  sn_graph *g = open_graph();
  double kept[1];
  value_of(g, sn_mean(sn_dropout(sn_full(g, SN_TYPE_F32, SN_DIMS(4096), 1), sn_key(g, 3), 0.25), SN_ALL, false), 1,
           kept);
  ck_assert_double_eq_tol(kept[0], 1, 0.05); /* deviation sqrt(1/3 / 4096) = 0.009 */
}
END_TEST

void add_values(Suite *s) {
  TCase *t = tcase_create("values");
  tcase_add_test(t, broadcasting);
  tcase_add_test(t, activations);
  tcase_add_test(t, indexing);
  tcase_add_test(t, reductions);
  tcase_add_test(t, sorting);
  tcase_add_test(t, pooling);
  tcase_add_test(t, random_bits);
  tcase_add_test(t, random_numbers);
  tcase_add_test(t, random_types);
  suite_add_tcase(s, t);
}
