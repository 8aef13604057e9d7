/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <math.h>
#include <string.h>

#include "nn_tests.h"

static sn_diag *d;
static sn_graph *g;
static sn_params *tree;
static sn_nn *nn;

static void begin(bool train) {
  sn_nn_options o;
  sn_nn_options_init(&o);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_graph_create("t", &g), SN_OK);
  ck_assert_int_eq(sn_params_create(&tree), SN_OK);
  o.train = train;
  if (train) o.key = sn_key(g, 1);
  ck_assert_int_eq(sn_nn_create(g, tree, NULL, &o, &nn), SN_OK);
}

/* Runs what was built on freshly drawn parameters (given back in *params unless NULL). */
static sn_array *end(sn_bundle **params) {
  sn_module *m;
  sn_bundle *b;
  sn_array *args[64], *out;
  sn_eval_options o;
  must(d, sn_graph_finish(g, d, &m));
  must(d, sn_params_init(d, tree, 3, &b));
  ck_assert_uint_le(sn_params_count(tree), 64);
  for (size_t i = 0; i < sn_params_count(tree); i++) args[i] = sn_bundle_at(b, i);
  sn_eval_options_init(&o);
  must(d, sn_eval(d, m, &o, (int)sn_params_count(tree), args, &out));
  sn_module_destroy(m);
  if (params) *params = b;
  else sn_bundle_destroy(b);
  sn_nn_destroy(nn);
  sn_graph_destroy(g);
  sn_params_destroy(tree);
  sn_diag_destroy(d);
  return out;
}

static const float *floats(const sn_array *out, int i) { return sn_array_data(sn_array_element(out, i)); }

/* Smooth numbers without any pattern that an error could hide behind. */
static void fill(float *x, int n) {
  for (int i = 0; i < n; i++) x[i] = (float)sin(1.7 * i + 0.3);
}

static void near(double got, double want, double tolerance) { ck_assert_msg(fabs(got - want) <= tolerance, "%.9g, should be %.9g", got, want); }

START_TEST(linear) {
  float x[6];
  sn_bundle *p;
  fill(x, 6);
  begin(false);
  sn_output(g, sn_linear(nn, "fc", sn_constant_data(g, SN_TYPE_F32, SN_DIMS(2, 3), x), 4, true), "y");
  sn_array *out = end(&p);
  const float *w = sn_array_data(sn_bundle_get(p, "fc.weight"));
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 4; c++) {
      double want = 0;
      for (int k = 0; k < 3; k++) want += (double)x[3 * r + k] * w[3 * c + k];
      near(floats(out, 0)[4 * r + c], want, 1e-6);
    }
  sn_array_release(out);
  sn_bundle_destroy(p);
}
END_TEST

START_TEST(convolution_in_both_layouts) {
  float x[2 * 3 * 5 * 6];
  fill(x, 180);
  begin(false);
  sn_tensor nchw = sn_constant_data(g, SN_TYPE_F32, SN_DIMS(2, 3, 5, 6), x), nhwc = sn_transpose(nchw, SN_DIMS(0, 2, 3, 1));
  sn_conv2d_spec s = {.out = 4, .kernel = {3, 3}, .stride = {2, 1}, .pad = {1, 0}, .bias = true, .layout = SN_NCHW};
  sn_tensor a = sn_conv2d(nn, "conv", nchw, &s);
  s.layout = SN_NHWC;
  sn_tensor b = sn_transpose(sn_conv2d(nn, "conv", nhwc, &s), SN_DIMS(0, 3, 1, 2));
  ck_assert_int_eq(sn_tensor_dim(a, 2), 3);
  ck_assert_int_eq(sn_tensor_dim(a, 3), 4);
  sn_output(g, sn_max(sn_abs(sn_sub(a, b)), SN_ALL, false), "difference");
  sn_output(g, sn_max(sn_abs(a), SN_ALL, false), "scale");
  sn_array *out = end(NULL);
  near(floats(out, 0)[0], 0, 1e-6);
  ck_assert(floats(out, 1)[0] > 0.1f);
  sn_array_release(out);
}
END_TEST

/* Patches are the convolution whose stride is its kernel. */
START_TEST(patches_are_a_convolution) {
  float x[2 * 3 * 4 * 6];
  fill(x, 144);
  begin(false);
  sn_tensor images = sn_constant_data(g, SN_TYPE_F32, SN_DIMS(2, 3, 4, 6), x);
  sn_tensor a = sn_patches(nn, "p", images, 5, 2, 3, SN_NCHW);
  sn_conv2d_spec s = {.out = 5, .kernel = {2, 3}, .stride = {2, 3}, .bias = true, .layout = SN_NCHW};
  sn_tensor b = sn_transpose(sn_reshape(sn_conv2d(nn, "p", images, &s), SN_DIMS(2, 5, 4)), SN_DIMS(0, 2, 1));
  sn_output(g, sn_max(sn_abs(sn_sub(a, b)), SN_ALL, false), "difference");
  sn_array *out = end(NULL);
  near(floats(out, 0)[0], 0, 1e-6);
  sn_array_release(out);
}
END_TEST

START_TEST(batch_norm_of_a_batch) {
  float x[4 * 3];
  fill(x, 12);
  begin(true);
  sn_output(g, sn_batch_norm(nn, "bn", sn_constant_data(g, SN_TYPE_F32, SN_DIMS(4, 3), x), 1, 0.1, 1e-5), "y");
  sn_array *out = end(NULL);
  for (int c = 0; c < 3; c++) {
    double mean = 0, var = 0;
    for (int r = 0; r < 4; r++) mean += x[3 * r + c] / 4.0;
    for (int r = 0; r < 4; r++) var += (x[3 * r + c] - mean) * (x[3 * r + c] - mean) / 4.0;
    for (int r = 0; r < 4; r++) near(floats(out, 0)[3 * r + c], (x[3 * r + c] - mean) / sqrt(var + 1e-5), 2e-6);
  }
  sn_array_release(out);
}
END_TEST

START_TEST(batch_norm_of_running_statistics) {
  float x[12];
  fill(x, 12);
  begin(false);
  sn_output(g, sn_batch_norm(nn, "bn", sn_constant_data(g, SN_TYPE_F32, SN_DIMS(4, 3), x), 1, 0.1, 1e-5), "y");
  sn_array *out = end(NULL);
  for (int i = 0; i < 12; i++) near(floats(out, 0)[i], x[i] / sqrt(1 + 1e-5), 1e-6); /* mean 0, variance 1 at first */
  sn_array_release(out);
}
END_TEST

START_TEST(group_norm) {
  float x[2 * 4 * 3];
  fill(x, 24);
  begin(true);
  sn_output(g, sn_group_norm(nn, "gn", sn_constant_data(g, SN_TYPE_F32, SN_DIMS(2, 4, 3), x), 1, 2, 1e-5), "y");
  sn_array *out = end(NULL);
  for (int k = 0; k < 4; k++) { /* sample and group: six numbers in a row */
    double mean = 0, var = 0;
    for (int i = 0; i < 6; i++) mean += x[6 * k + i] / 6.0;
    for (int i = 0; i < 6; i++) var += (x[6 * k + i] - mean) * (x[6 * k + i] - mean) / 6.0;
    for (int i = 0; i < 6; i++) near(floats(out, 0)[6 * k + i], (x[6 * k + i] - mean) / sqrt(var + 1e-5), 2e-6);
  }
  sn_array_release(out);
}
END_TEST

START_TEST(embedding_takes_rows) {
  static const int32_t ids[3] = {4, 0, 4};
  sn_bundle *p;
  begin(false);
  sn_output(g, sn_embedding(nn, "e", sn_constant_data(g, SN_TYPE_S32, SN_DIMS(3), ids), 5, 2), "y");
  sn_array *out = end(&p);
  const float *w = sn_array_data(sn_bundle_get(p, "e.weight"));
  for (int i = 0; i < 3; i++)
    for (int c = 0; c < 2; c++) ck_assert(floats(out, 0)[2 * i + c] == w[2 * ids[i] + c]);
  sn_array_release(out);
  sn_bundle_destroy(p);
}
END_TEST

START_TEST(dropout_drops_while_training) {
  for (int train = 0; train < 2; train++) {
    begin(train);
    sn_tensor x = sn_full(g, SN_TYPE_F32, SN_DIMS(1000), 1);
    sn_output(g, sn_nn_dropout(nn, x, 0.25), "a");
    sn_output(g, sn_nn_dropout(nn, x, 0.25), "b");
    sn_array *out = end(NULL);
    int zeros = 0, different = 0;
    for (int i = 0; i < 1000; i++) {
      zeros += floats(out, 0)[i] == 0;
      different += floats(out, 0)[i] != floats(out, 1)[i];
      if (floats(out, 0)[i] != 0) near(floats(out, 0)[i], train ? 1 / 0.75 : 1, 1e-6);
    }
    if (train) ck_assert(zeros > 180 && zeros < 320 && different > 100); /* 250 expected, deviation 14 */
    else ck_assert_int_eq(zeros, 0);
    sn_array_release(out);
  }
}
END_TEST

/* ---- losses --------------------------------------------------------------------------------------------------------------- */

static double reference_cross_entropy(const float *logits, const int32_t *labels, int n, int classes, double smoothing) {
  double sum = 0;
  for (int r = 0; r < n; r++) {
    double z = 0, all = 0;
    for (int c = 0; c < classes; c++) z += exp(logits[r * classes + c]);
    for (int c = 0; c < classes; c++) all += log(z) - logits[r * classes + c];
    sum += (1 - smoothing) * (log(z) - logits[r * classes + labels[r]]) + smoothing * all / classes;
  }
  return sum / n;
}

START_TEST(losses) {
  static const int32_t labels[3] = {2, 0, 3};
  float x[12], y[12];
  fill(x, 12);
  for (int i = 0; i < 12; i++) y[i] = (float)(i % 3) / 2;
  begin(true);
  sn_tensor logits = sn_constant_data(g, SN_TYPE_F32, SN_DIMS(3, 4), x), targets = sn_constant_data(g, SN_TYPE_F32, SN_DIMS(3, 4), y);
  sn_tensor ids = sn_constant_data(g, SN_TYPE_S32, SN_DIMS(3), labels);
  sn_output(g, sn_cross_entropy(logits, ids, 0), "ce");
  sn_output(g, sn_cross_entropy(logits, ids, 0.1), "smoothed");
  sn_output(g, sn_soft_cross_entropy(logits, sn_one_hot(ids, 4, SN_TYPE_F32)), "soft");
  sn_output(g, sn_mse(logits, targets), "mse");
  sn_output(g, sn_bce(logits, targets), "bce");
  sn_array *out = end(NULL);
  double mse = 0, bce = 0;
  for (int i = 0; i < 12; i++) {
    double p = 1 / (1 + exp(-x[i]));
    mse += (x[i] - y[i]) * (x[i] - y[i]) / 12.0;
    bce -= (y[i] * log(p) + (1 - y[i]) * log(1 - p)) / 12;
  }
  near(floats(out, 0)[0], reference_cross_entropy(x, labels, 3, 4, 0), 1e-6);
  near(floats(out, 1)[0], reference_cross_entropy(x, labels, 3, 4, 0.1), 1e-6);
  near(floats(out, 2)[0], reference_cross_entropy(x, labels, 3, 4, 0), 1e-6);
  near(floats(out, 3)[0], mse, 1e-6);
  near(floats(out, 4)[0], bce, 1e-6);
  sn_array_release(out);
}
END_TEST

/* ---- schedules and clipping ----------------------------------------------------------------------------------------------------- */

static double reference_rate(const sn_schedule *s, double t) {
  if (t < (double)s->warmup_steps) return t / (double)s->warmup_steps;
  double p = fmin((t - (double)s->warmup_steps) / (double)(s->total_steps - s->warmup_steps), 1);
  switch (s->kind) {
    case SN_SCHEDULE_COSINE: return s->last + (1 - s->last) * (1 + cos(3.14159265358979 * p)) / 2;
    case SN_SCHEDULE_LINEAR: return 1 + (s->last - 1) * p;
    case SN_SCHEDULE_STEP: return pow(s->gamma, floor((t - (double)s->warmup_steps) / (double)s->every));
    default: return 1;
  }
}

START_TEST(schedules) {
  static const double steps[] = {0, 1, 4, 5, 17, 49, 50, 80};
  sn_optimizer o;
  sn_optimizer_init(&o, SN_SGD);
  o.rate = 0.5;
  o.schedule = (sn_schedule){.kind = (sn_schedule_kind)_i, .warmup_steps = 5, .total_steps = 50, .every = 20, .last = 0.1, .gamma = 0.3};
  begin(true);
  for (int i = 0; i < 8; i++) sn_output(g, sn_optimizer_rate(&o, sn_scalar(g, SN_TYPE_F32, steps[i])), "rate");
  sn_array *out = end(NULL);
  for (int i = 0; i < 8; i++) near(floats(out, i)[0], 0.5 * reference_rate(&o.schedule, steps[i]), 1e-6);
  sn_array_release(out);
}
END_TEST

START_TEST(clipping) {
  float x[12];
  double norm = 0;
  fill(x, 12);
  for (int i = 0; i < 12; i++) norm += (double)x[i] * x[i];
  norm = sqrt(norm);
  for (int k = 0; k < 2; k++) {
    double limit = k ? 100 : 1;
    begin(true);
    sn_tensor grads[2] = {sn_constant_data(g, SN_TYPE_F32, SN_DIMS(8), x), sn_constant_data(g, SN_TYPE_F32, SN_DIMS(2, 2), x + 8)};
    sn_output(g, sn_clip_global_norm(g, 2, grads, limit), "norm");
    sn_output(g, grads[0], "a");
    sn_output(g, grads[1], "b");
    sn_array *out = end(NULL);
    near(floats(out, 0)[0], norm, 1e-6);
    for (int i = 0; i < 12; i++) near(i < 8 ? floats(out, 1)[i] : floats(out, 2)[i - 8], x[i] * fmin(1, limit / (norm + 1e-6)), 1e-6);
    sn_array_release(out);
  }
}
END_TEST

/* One LAMB step by hand: with both moments new, the direction is g / (|g| + eps). */
START_TEST(lamb_step) {
  float p[4] = {1, -2, 3, 0.5f}, grad[4] = {0.1f, -0.2f, 0.3f, 0};
  sn_optimizer o;
  sn_optimizer_init(&o, SN_LAMB);
  o.rate = 0.1;
  o.weight_decay = 0.01;
  begin(true);
  sn_tensor slots[2] = {sn_full(g, SN_TYPE_F32, SN_DIMS(4), 0), sn_full(g, SN_TYPE_F32, SN_DIMS(4), 0)};
  sn_optimizer_scalars c = sn_optimizer_prepare(&o, sn_scalar(g, SN_TYPE_F32, 0));
  sn_output(g, sn_optimizer_update(&o, &c, sn_constant_data(g, SN_TYPE_F32, SN_DIMS(4), p), sn_constant_data(g, SN_TYPE_F32, SN_DIMS(4), grad), slots), "p");
  sn_array *out = end(NULL);
  double u[4], np = 0, nu = 0;
  for (int i = 0; i < 4; i++) {
    u[i] = grad[i] / (fabs(grad[i]) + 1e-6) + 0.01 * p[i];
    np += p[i] * p[i];
    nu += u[i] * u[i];
  }
  for (int i = 0; i < 4; i++) near(floats(out, 0)[i], p[i] - 0.1 * sqrt(np / nu) * u[i], 2e-6);
  sn_array_release(out);
}
END_TEST

/* ---- misuse ------------------------------------------------------------------------------------------------------------------------ */

START_TEST(misuse_is_told_at_the_callers_line) {
  begin(true);
  sn_tensor x = sn_full(g, SN_TYPE_F32, SN_DIMS(2, 3, 7), 1);
  sn_mha_spec s = {.heads = 4, .query = "q", .key = "k", .value = "v"};
  uint32_t line = __LINE__ + 1;
  sn_tensor y = sn_multi_head_attention(nn, x, &s);
  ck_assert(!sn_tensor_ok(y));
  ck_assert_int_eq(sn_graph_status(g), SN_ERR_SHAPE);
  const sn_diagnostic *m = sn_diag_get(sn_graph_diag(g), 0);
  ck_assert_ptr_nonnull(strstr(m->loc.file, "test_layers.c"));
  ck_assert_uint_eq(m->loc.line, line);
  sn_nn_destroy(nn);
  sn_graph_destroy(g);
  sn_params_destroy(tree);
  sn_diag_destroy(d);
}
END_TEST

START_TEST(one_name_two_shapes) {
  begin(true);
  sn_linear(nn, "fc", sn_full(g, SN_TYPE_F32, SN_DIMS(2, 3), 1), 4, true);
  sn_linear(nn, "fc", sn_full(g, SN_TYPE_F32, SN_DIMS(2, 3), 1), 4, true); /* shared: fine */
  ck_assert_int_eq(sn_graph_status(g), SN_OK);
  ck_assert_uint_eq(sn_params_count(tree), 2);
  sn_linear(nn, "fc", sn_full(g, SN_TYPE_F32, SN_DIMS(2, 3), 1), 5, true);
  ck_assert_int_eq(sn_graph_status(g), SN_ERR_NAME);
  sn_nn_destroy(nn);
  sn_graph_destroy(g);
  sn_params_destroy(tree);
  sn_diag_destroy(d);
}
END_TEST

TCase *layers_tests(void) {
  TCase *t = tcase_create("layers");
  tcase_add_test(t, linear);
  tcase_add_test(t, convolution_in_both_layouts);
  tcase_add_test(t, patches_are_a_convolution);
  tcase_add_test(t, batch_norm_of_a_batch);
  tcase_add_test(t, batch_norm_of_running_statistics);
  tcase_add_test(t, group_norm);
  tcase_add_test(t, embedding_takes_rows);
  tcase_add_test(t, dropout_drops_while_training);
  tcase_add_test(t, losses);
  tcase_add_loop_test(t, schedules, 0, 4);
  tcase_add_test(t, clipping);
  tcase_add_test(t, lamb_step);
  tcase_add_test(t, misuse_is_told_at_the_callers_line);
  tcase_add_test(t, one_name_two_shapes);
  return t;
}
