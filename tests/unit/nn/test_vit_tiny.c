/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The small ViT of tests/data/vit_tiny against PyTorch in f32 and f64 (tests/data/golden/README.md has the tolerances and why). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "nn_tests.h"
#include "sinter/checkpoint.h"

static sn_diag *d;
static sn_model *model;
static sn_params *tree;
static sn_bundle *weights, *expected, *truth;
static sn_array *inputs[2]; /* pixel_values, labels as s32 */
static sn_step_options options;

static void setup(void) {
  sn_model_options o;
  sn_bundle *file, *in;
  char *path;
  sn_model_options_init(&o);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  must(d, sn_model_create(d, NULL, data_path("vit_tiny/config.json"), &o, &model));
  must(d, sn_model_declare(d, sn_model_get_spec(model), &tree));
  must(d, sn_weights_read(d, data_path("vit_tiny"), &file, &path));
  must(d, sn_params_load(d, tree, path, file, NULL, &weights));
  sn_bundle_destroy(file);
  sn_free(path);
  must(d, sn_files_read(d, data_path("vit_tiny/expected.safetensors"), &expected));
  must(d, sn_files_read(d, data_path("vit_tiny/expected_f64.safetensors"), &truth));
  must(d, sn_files_read(d, data_path("vit_tiny/inputs.safetensors"), &in));
  inputs[0] = sn_array_retain(sn_bundle_get(in, "pixel_values"));
  int32_t labels[8];
  const int64_t batch = 8;
  sn_convert(SN_TYPE_S32, labels, SN_TYPE_S64, sn_array_data(sn_bundle_get(in, "labels")), 8);
  inputs[1] = s32_array(1, &batch, labels);
  sn_bundle_destroy(in);
  sn_step_options_init(&options);
  options.batch = 8;
}

static void teardown(void) {
  sn_array_release(inputs[0]);
  sn_array_release(inputs[1]);
  sn_bundle_destroy(weights);
  sn_bundle_destroy(expected);
  sn_bundle_destroy(truth);
  sn_params_destroy(tree);
  sn_model_destroy(model);
  sn_diag_destroy(d);
}

static double at(const sn_array *a, int64_t i) {
  sn_type t = sn_array_shape(a)->type;
  return sn_load_f64(t, (const char *)sn_array_data(a) + (size_t)i * sn_type_bytes(t));
}

static int64_t count(const sn_array *a) { return sn_shape_elements(sn_array_shape(a)); }

static double largest_difference(const sn_array *a, const sn_array *b) {
  double worst = 0;
  ck_assert_int_eq(count(a), count(b));
  for (int64_t i = 0; i < count(a); i++) {
    double e = fabs(at(a, i) - at(b, i));
    if (!(e <= worst)) worst = e; /* a NaN stays */
  }
  return worst;
}

static double scale_of(const sn_array *a) {
  double top = 0;
  for (int64_t i = 0; i < count(a); i++) top = fmax(top, fabs(at(a, i)));
  return top;
}

/* Error against f64 at most twice PyTorch's own, with room for the rounding of the result itself; the share of that which was used. */
static double check_truth(const char *name, const sn_array *got) {
  const sn_array *want = sn_bundle_get(truth, name), *torch = sn_bundle_get(expected, name);
  ck_assert_msg(want && torch, "no %s in the expected values", name);
  double bound = fmax(fmax(2 * largest_difference(torch, want), 3e-8 * scale_of(want)), 3e-8), error = largest_difference(got, want);
  ck_assert_msg(error <= bound, "%s: error %g, allowed %g", name, error, bound);
  return error / bound;
}

START_TEST(logits) {
  sn_step s;
  must(d, sn_predict_step_build(d, sn_model_get_spec(model), tree, &options, &s));
  sn_array *out = run_step(&s, tree, weights, NULL, 1, inputs);
  check_truth("logits", sn_array_element(out, 0));
  sn_array_release(out);
  sn_step_finish(&s);
}
END_TEST

START_TEST(loss_and_every_gradient) {
  sn_step s;
  char name[256];
  must(d, sn_grad_step_build(d, sn_model_get_spec(model), tree, &options, &s));
  ck_assert_int_eq(s.n_metrics, 57);
  sn_array *out = run_step(&s, tree, weights, NULL, 2, inputs);
  double worst = check_truth("loss", sn_array_element(out, 0));
  for (int i = 0; i < 56; i++) {
    snprintf(name, sizeof name, "grad/%s", sn_params_at(tree, (size_t)i)->name);
    worst = fmax(worst, check_truth(name, sn_array_element(out, 1 + i)));
  }
  printf("vit_tiny: the worst of 56 gradients has %.2f of the error allowed\n", worst);
  sn_array_release(out);
  sn_step_finish(&s);
}
END_TEST

START_TEST(evaluation_counts_real_samples_only) {
  sn_step s;
  must(d, sn_eval_step_build(d, sn_model_get_spec(model), tree, &options, &s));
  sn_array *out = run_step(&s, tree, weights, NULL, 2, inputs);
  double mean = at(sn_bundle_get(truth, "loss"), 0);
  ck_assert(fabs(at(sn_array_element(out, 0), 0) / 8 - mean) < 1e-6);
  ck_assert(at(sn_array_element(out, 2), 0) == 8);
  double right = at(sn_array_element(out, 1), 0);
  sn_array_release(out);
  int32_t labels[8];
  const int64_t batch = 8;
  memcpy(labels, sn_array_data(inputs[1]), sizeof labels);
  for (int i = 0; i < 8; i++) labels[i] = i < 3 ? labels[i] : -1;
  sn_array *some[2] = {inputs[0], s32_array(1, &batch, labels)};
  out = run_step(&s, tree, weights, NULL, 2, some);
  ck_assert(at(sn_array_element(out, 2), 0) == 3);
  ck_assert(at(sn_array_element(out, 1), 0) <= fmin(right, 3));
  ck_assert(at(sn_array_element(out, 0), 0) < 8 * mean);
  sn_array_release(out);
  sn_array_release(some[1]);
  sn_step_finish(&s);
}
END_TEST

/* ---- optimiser steps -------------------------------------------------------------------------------------------------------- */

static const struct { const char *name; sn_optimizer_kind kind; double rate, momentum, decay; int steps; double tolerance, key_tolerance; } recipes[] = {
    {"sgd1", SN_SGD, 1e-2, 0, 0, 1, 3e-7, 3e-7},
    {"sgdm3", SN_SGD, 1e-2, 0.9, 0, 3, 1e-6, 1e-6},
    {"adam3", SN_ADAM, 1e-3, 0, 0, 3, 5e-5, 5e-4},     /* the keys' bias has a gradient of exactly zero: Adam divides noise by noise */
    {"adamw3", SN_ADAMW, 1e-3, 0, 0.01, 3, 5e-5, 5e-4},
};

static void check_losses(const char *recipe, const double *losses, int n) {
  char name[64];
  snprintf(name, sizeof name, "losses/%s", recipe);
  const sn_array *want = sn_bundle_get(truth, name);
  ck_assert_int_eq(count(want), n);
  for (int i = 0; i < n; i++) ck_assert_msg(fabs(losses[i] - at(want, i)) <= (i ? 1e-5 : 1e-6), "%s: loss %d is %.9g, should be %.9g", recipe, i, losses[i], at(want, i));
}

START_TEST(optimiser_steps) {
  sn_step s;
  sn_bundle *state;
  double losses[4];
  char name[256];
  int n_values;
  sn_optimizer_init(&options.optimizer, recipes[_i].kind);
  options.optimizer.rate = recipes[_i].rate;
  options.optimizer.momentum = recipes[_i].momentum;
  options.optimizer.weight_decay = recipes[_i].decay;
  must(d, sn_train_step_build(d, sn_model_get_spec(model), tree, &options, &s));
  n_values = s.n_params + s.n_state;
  ck_assert_int_eq(s.module->n_aliases, n_values);
  must(d, sn_step_init_state(d, &s, weights, &state));
  for (int k = 0; k <= recipes[_i].steps; k++) {
    sn_array *out = run_step(&s, tree, weights, state, 2, inputs);
    losses[k] = at(sn_array_element(out, n_values + SN_METRIC_LOSS), 0);
    if (k < recipes[_i].steps) take_step(&s, tree, out, weights, state);
    sn_array_release(out);
  }
  check_losses(recipes[_i].name, losses, recipes[_i].steps + 1);
  for (size_t i = 0; i < sn_params_count(tree); i++) {
    const char *p = sn_params_at(tree, i)->name;
    snprintf(name, sizeof name, "%s/%s", recipes[_i].name, p);
    double error = largest_difference(sn_bundle_get(weights, p), sn_bundle_get(expected, name));
    double allowed = strstr(p, "key.bias") ? recipes[_i].key_tolerance : recipes[_i].tolerance;
    ck_assert_msg(error <= allowed, "%s: error %g, allowed %g", name, error, allowed);
  }
  ck_assert(at(sn_bundle_get(state, "step"), 0) == recipes[_i].steps);
  sn_bundle_destroy(state);
  sn_step_finish(&s);
}
END_TEST

/* In four parts the gradient is the same mean, summed in another order. */
START_TEST(accumulation_changes_rounding_only) {
  sn_step s[2];
  sn_array *out[2];
  sn_bundle *state;
  for (int k = 0; k < 2; k++) {
    options.accumulate = k ? 4 : 1;
    must(d, sn_train_step_build(d, sn_model_get_spec(model), tree, &options, &s[k]));
    must(d, sn_step_init_state(d, &s[k], weights, &state));
    out[k] = run_step(&s[k], tree, weights, state, 2, inputs);
    sn_bundle_destroy(state);
  }
  for (int i = 0; i < s[0].n_params; i++) {
    double error = largest_difference(sn_array_element(out[0], i), sn_array_element(out[1], i));
    ck_assert_msg(error <= 1e-7, "%s: %g", sn_params_at(tree, (size_t)i)->name, error); /* rate 1e-3 times gradients of 1 with errors of 1e-6 */
  }
  for (int k = 0; k < 2; k++) {
    sn_array_release(out[k]);
    sn_step_finish(&s[k]);
  }
}
END_TEST

/* Images in the other layout, same parameters: the same sums in another order. */
START_TEST(nhwc_gives_the_same) {
  sn_model_options o;
  sn_model *other;
  sn_step s;
  float pixels[8 * 32 * 32 * 3];
  const float *from = sn_array_data(inputs[0]);
  const int64_t dims[4] = {8, 32, 32, 3};
  for (int n = 0; n < 8; n++)
    for (int c = 0; c < 3; c++)
      for (int p = 0; p < 1024; p++) pixels[(n * 1024 + p) * 3 + c] = from[(n * 3 + c) * 1024 + p];
  sn_model_options_init(&o);
  o.layout = SN_NHWC;
  must(d, sn_model_create(d, NULL, data_path("vit_tiny/config.json"), &o, &other));
  must(d, sn_predict_step_build(d, sn_model_get_spec(other), tree, &options, &s));
  sn_array *x = f32_array(4, dims, pixels), *out = run_step(&s, tree, weights, NULL, 1, &x);
  check_truth("logits", sn_array_element(out, 0));
  sn_array_release(out);
  sn_array_release(x);
  sn_step_finish(&s);
  sn_model_destroy(other);
}
END_TEST

TCase *vit_tiny_tests(void) {
  TCase *t = tcase_create("vit_tiny");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_test(t, logits);
  tcase_add_test(t, loss_and_every_gradient);
  tcase_add_test(t, evaluation_counts_real_samples_only);
  tcase_add_loop_test(t, optimiser_steps, 0, (int)(sizeof recipes / sizeof *recipes));
  tcase_add_test(t, accumulation_changes_rounding_only);
  tcase_add_test(t, nhwc_gives_the_same);
  return t;
}
