/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Training steps of a small model of one's own: state, EMA, frozen parameters, mixed precision, layer state. */
#include <math.h>
#include <string.h>

#include "nn_tests.h"

enum { BATCH = 8, SIZE = 6, CLASSES = 3 };

static sn_tensor forward(void *ctx, sn_nn *nn, sn_tensor x) {
  double rate = *(const double *)ctx;
  x = sn_relu(sn_batch_norm(nn, "norm", sn_linear(nn, "hidden", x, 16, true), 1, 0.1, 1e-5));
  return sn_linear(nn, "out", sn_nn_dropout(nn, x, rate), CLASSES, true);
}

static double dropout;
static const int64_t input_dims[] = {SIZE};
static const sn_model_spec spec = {forward, &dropout, "small", SN_TYPE_F32, 1, input_dims, "x", SN_LOSS_CROSS_ENTROPY};

static sn_diag *d;
static sn_params *tree;
static sn_bundle *params, *state;
static sn_array *inputs[2];
static sn_step_options options;
static sn_step step;

static void setup(void) {
  float x[BATCH * SIZE];
  int32_t labels[BATCH];
  const int64_t dims[2] = {BATCH, SIZE};
  for (int i = 0; i < BATCH * SIZE; i++) x[i] = (float)sin(2.3 * i);
  for (int i = 0; i < BATCH; i++) labels[i] = i % CLASSES;
  dropout = 0;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  must(d, sn_model_declare(d, &spec, &tree));
  must(d, sn_params_init(d, tree, 1, &params));
  inputs[0] = f32_array(2, dims, x);
  inputs[1] = s32_array(1, dims, labels);
  sn_step_options_init(&options);
  options.batch = BATCH;
  options.optimizer.rate = 0.1;
  step = (sn_step){0};
  state = NULL;
}

static void teardown(void) {
  sn_step_finish(&step);
  sn_bundle_destroy(state);
  sn_bundle_destroy(params);
  sn_params_destroy(tree);
  sn_array_release(inputs[0]);
  sn_array_release(inputs[1]);
  sn_diag_destroy(d);
}

static void build(void) {
  must(d, sn_train_step_build(d, &spec, tree, &options, &step));
  must(d, sn_step_init_state(d, &step, params, &state));
}

/* n steps; the last loss. */
static double run(int n) {
  double loss = 0;
  for (int k = 0; k < n; k++) {
    sn_array *out = run_step(&step, tree, params, state, 2, inputs);
    loss = *(const float *)sn_array_data(sn_array_element(out, step.n_params + step.n_state + SN_METRIC_LOSS));
    take_step(&step, tree, out, params, state);
    sn_array_release(out);
  }
  return loss;
}

static const float *param(const char *name) { return sn_array_data(sn_bundle_get(params, name)); }
static const float *of_state(const char *name) { return sn_array_data(sn_bundle_get(state, name)); }

START_TEST(loss_falls) {
  sn_optimizer_init(&options.optimizer, (sn_optimizer_kind)_i);
  options.optimizer.rate = _i == SN_SGD ? 0.5 : _i == SN_LAMB ? 0.1 : 0.02; /* LAMB moves by a share of the weights' own norm */
  build();
  double first = run(1), last = run(30);
  ck_assert_msg(last < 0.5 * first, "from %g to %g", first, last);
  ck_assert_int_eq(*(const int32_t *)sn_array_data(sn_bundle_get(state, "step")), 31);
}
END_TEST

START_TEST(running_statistics_move) {
  build();
  run(1);
  float old = param("norm.running_mean")[0];
  ck_assert(old != 0 && param("norm.running_var")[0] != 1);
  run(1);
  ck_assert(param("norm.running_mean")[0] != old);
}
END_TEST

START_TEST(running_statistics_move_in_parts) {
  options.accumulate = 2;
  build();
  run(1);
  ck_assert(param("norm.running_mean")[0] != 0);
}
END_TEST

START_TEST(frozen_parameters_stay) {
  size_t n;
  sn_optimizer_init(&options.optimizer, SN_ADAMW);
  must(d, sn_params_set_trainable(d, tree, "^out\\.", &n));
  ck_assert_uint_eq(n, 2);
  build();
  ck_assert_int_eq(step.n_state, 1 + 2 * 2);
  float w = param("hidden.weight")[0], o = param("out.weight")[0];
  run(2);
  ck_assert(param("hidden.weight")[0] == w && param("out.weight")[0] != o);
}
END_TEST

START_TEST(ema_is_the_running_mean) {
  options.ema = 0.75;
  build();
  double before = param("out.weight")[1];
  ck_assert(of_state("ema/out.weight")[1] == (float)before);
  run(1);
  ck_assert(fabs(of_state("ema/out.weight")[1] - (0.75 * before + 0.25 * param("out.weight")[1])) < 1e-7);
}
END_TEST

START_TEST(dropout_differs_by_step_and_repeats_by_seed) {
  dropout = 0.5;
  options.optimizer.rate = 0; /* parameters stay: the losses differ by dropout alone (and running statistics, which training does not read) */
  build();
  double a = run(1), b = run(1);
  ck_assert(a != b);
  sn_bundle_destroy(state);
  must(d, sn_step_init_state(d, &step, params, &state));
  ck_assert(run(1) == a);
}
END_TEST

START_TEST(bf16_trains_with_f32_parameters) {
  options.compute = SN_TYPE_BF16;
  options.optimizer.rate = 0.5;
  build();
  double first = run(1), last = run(30);
  ck_assert_msg(last < 0.6 * first, "from %g to %g", first, last);
  ck_assert_int_eq(sn_array_shape(sn_bundle_get(params, "out.weight"))->type, SN_TYPE_F32);
}
END_TEST

START_TEST(f16_overflow_halves_the_scale_and_changes_nothing) {
  options.compute = SN_TYPE_F16;
  options.loss_scale = 0x1p40; /* beyond any f16 */
  options.scale_every = 2;
  build();
  float w = param("out.weight")[0];
  run(1);
  ck_assert(param("out.weight")[0] == w);
  ck_assert(of_state("loss_scale")[0] == 0x1p39f);
  ck_assert_int_eq(*(const int32_t *)sn_array_data(sn_bundle_get(state, "step")), 0);
  int tries = 0;
  while (param("out.weight")[0] == w && tries++ < 60) run(1);
  ck_assert_int_lt(tries, 60);
  float scale = of_state("loss_scale")[0];
  run(1); /* the second good step in a row doubles it */
  ck_assert(of_state("loss_scale")[0] == 2 * scale || of_state("loss_scale")[0] == 0.5f * scale);
}
END_TEST

START_TEST(clipping_reports_the_norm) {
  options.optimizer.clip_norm = 1e-3;
  build();
  ck_assert_int_eq(step.n_metrics, 4);
  sn_array *out = run_step(&step, tree, params, state, 2, inputs);
  float norm = *(const float *)sn_array_data(sn_array_element(out, step.n_params + step.n_state + SN_METRIC_GRAD_NORM));
  ck_assert(norm > 1e-2f);
  double moved = 0;
  for (int i = 0; i < step.n_params; i++) {
    const sn_param *p = sn_params_at(tree, (size_t)i);
    const float *a = param(p->name), *b = sn_array_data(sn_array_element(out, i));
    for (int64_t k = 0; !p->buffer && k < sn_shape_elements(sn_array_shape(sn_array_element(out, i))); k++) moved += ((double)a[k] - b[k]) * ((double)a[k] - b[k]);
  }
  ck_assert(fabs(sqrt(moved) - 0.1 * 1e-3) < 1e-6);
  sn_array_release(out);
}
END_TEST

START_TEST(wrong_options) {
  options.accumulate = 3;
  ck_assert_int_eq(sn_train_step_build(NULL, &spec, tree, &options, &step), SN_ERR_USAGE);
  options.accumulate = 1;
  options.batch = 0;
  ck_assert_int_eq(sn_train_step_build(NULL, &spec, tree, &options, &step), SN_ERR_USAGE);
  options.batch = 8;
  options.compute = SN_TYPE_S32;
  ck_assert_int_eq(sn_train_step_build(NULL, &spec, tree, &options, &step), SN_ERR_TYPE);
  ck_assert_ptr_null(step.module);
}
END_TEST

START_TEST(memory_runs_out) {
  int64_t live = sn_alloc_live();
  for (int64_t n = 0;; n += 1 + n / 8) {
    sn_step s;
    sn_alloc_fail_after(n);
    sn_status status = sn_train_step_build(NULL, &spec, tree, &options, &s);
    sn_alloc_fail_after(-1);
    sn_step_finish(&s);
    ck_assert_int_eq(sn_alloc_live(), live);
    if (status == SN_OK) break;
    ck_assert_int_lt(n, 1000000);
  }
}
END_TEST

TCase *steps_tests(void) {
  TCase *t = tcase_create("steps");
  tcase_add_checked_fixture(t, setup, teardown);
  tcase_add_loop_test(t, loss_falls, 0, SN_OPTIMIZER_COUNT);
  tcase_add_test(t, running_statistics_move);
  tcase_add_test(t, running_statistics_move_in_parts);
  tcase_add_test(t, frozen_parameters_stay);
  tcase_add_test(t, ema_is_the_running_mean);
  tcase_add_test(t, dropout_differs_by_step_and_repeats_by_seed);
  tcase_add_test(t, bf16_trains_with_f32_parameters);
  tcase_add_test(t, f16_overflow_halves_the_scale_and_changes_nothing);
  tcase_add_test(t, clipping_reports_the_norm);
  tcase_add_test(t, wrong_options);
  tcase_add_test(t, memory_runs_out);
  return t;
}
