/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Epochs, steps, evaluation; Ctrl-C; a loss that is no number. */
#include <math.h>
#include <signal.h>
#include <string.h>

#include "train.h"

/* ---- Ctrl-C --------------------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t stop_asked; /* a signal handler can reach nothing else */

static void ask_stop(int sig) {
  stop_asked = 1;
  signal(sig, SIG_DFL); /* a second one ends the process at once */
}

/* ---- a step --------------------------------------------------------------------------------------------------------------- */

static double scalar(const sn_array *a) { return sn_load_f64(sn_array_shape(a)->type, sn_array_data(a)); }

static bool holds_nan(const sn_array *a) {
  const sn_shape *s = sn_array_shape(a);
  const char *at = sn_shape_is_tuple(s) ? NULL : sn_array_data(a);
  for (int k = 0; sn_shape_is_tuple(s) && k < s->n_elements; k++) {
    if (holds_nan(sn_array_element(a, k))) return true;
  }
  if (!at || !sn_type_is_float(s->type)) return false;
  for (int64_t k = 0; k < sn_shape_elements(s); k++, at += sn_type_bytes(s->type)) {
    if (isnan(sn_load_f64(s->type, at))) return true;
  }
  return false;
}

/* Runs the step again on the interpreter, which stops where the first NaN comes from, whatever engine met it. */
static sn_status explain_nan(trainer *t, int n, sn_array *const *args, double loss) {
  sn_engine_setup setup = {.pool = t->pool, .stop_at_nan = true};
  sn_runnable r;
  sn_array *result = NULL;
  sn_status s = sn_runnable_init(t->d, sn_engine_find("interpreter"), &setup, t->train.module, &r);
  if (s == SN_OK) s = sn_runnable_call(t->d, &r, n, args, &result);
  sn_array_release(result);
  sn_runnable_finish(&r);
  sn_status told = sn_error(t->d, SN_NOWHERE, SN_ERR_MISMATCH, "the loss of step %lld is %g", (long long)t->step + 1, loss);
  int k = 0;
  while (k < n && !holds_nan(args[k])) k++;
  if (k < n) sn_note(t->d, SN_NOWHERE, "%s holds a NaN already: the gradient of an earlier step overflowed", t->train.module->entry->params[k]->name);
  else if (s == SN_OK) sn_note(t->d, SN_NOWHERE, "no instruction made a NaN out of numbers: infinities overflowed");
  sn_hint(t->d, "a smaller --lr, --clip-norm or --warmup-steps keep it finite; the state before this step is what --checkpoint holds");
  return told;
}

/* What the loss is a mean over: samples, or tokens that are predicted and count. */
static int64_t counted(const trainer *t, const sn_batch *b) {
  const sn_shape *s = sn_array_shape(b->labels);
  const int32_t *labels = sn_array_data(b->labels);
  int64_t n = 0;
  if (sn_model_get_spec(t->model)->loss != SN_LOSS_TOKENS) return b->n;
  for (int64_t i = 0; i < sn_shape_elements(s); i++) n += i % s->dims[1] != 0 && labels[i] >= 0; /* nothing predicts the first */
  return n;
}

static void take_result(trainer *t, sn_array *result, int64_t n_samples) {
  for (int i = 0; i < t->n_values; i++) {
    sn_array_release(t->values[i]);
    t->values[i] = sn_array_retain(sn_array_element(result, i));
  }
  double loss = scalar(sn_array_element(result, t->n_values + SN_METRIC_LOSS));
  t->sums.loss += loss * (double)n_samples;
  t->sums.correct += scalar(sn_array_element(result, t->n_values + SN_METRIC_CORRECT));
  t->sums.samples += (double)n_samples;
  t->last_rate = scalar(sn_array_element(result, t->n_values + SN_METRIC_RATE));
}

static sn_status check_loss(trainer *t, int n, sn_array *const *args, sn_array *result) {
  double loss = scalar(sn_array_element(result, t->n_values + SN_METRIC_LOSS));
  bool scaled = t->step_options.compute == SN_TYPE_F16; /* an overflow there is expected: the step undid itself and halved the scale */
  return isfinite(loss) || scaled ? SN_OK : explain_nan(t, n, args, loss);
}

static sn_status one_step(trainer *t, const sn_batch *b) {
  int n = t->n_values + t->train.n_inputs;
  sn_array *result = NULL, **args = sn_alloc((size_t)n * sizeof *args);
  if (!args) return sn_out_of_memory(t->d, (size_t)n * sizeof *args);
  memcpy(args, t->values, (size_t)t->n_values * sizeof *args);
  args[t->n_values] = b->inputs;
  args[t->n_values + 1] = b->labels;
  sn_status s = sn_runnable_call(t->d, &t->train_run, n, args, &result);
  if (s == SN_OK) s = check_loss(t, n, args, result);
  if (s == SN_OK && !t->dumped && sn_opt_given(t->o, "dump-step")) {
    s = train_dump_step(t, args, result);
    t->dumped = true;
  }
  if (s == SN_OK) take_result(t, result, counted(t, b));
  if (s == SN_OK && t->board) s = tensorboard_scalar(t->d, t->board, "train/step_loss", t->step + 1, scalar(sn_array_element(result, t->n_values + SN_METRIC_LOSS)));
  sn_array_release(result);
  sn_free(args);
  return s;
}

/* ---- evaluation ------------------------------------------------------------------------------------------------------------ */

/* Parameters, or their running means where those are kept. */
static sn_status eval_arguments(const trainer *t, sn_array ***out) {
  int n = t->eval.n_params;
  sn_array **args = sn_alloc((size_t)(n + t->eval.n_inputs) * sizeof *args);
  *out = args;
  if (!args) return sn_out_of_memory(t->d, (size_t)n * sizeof *args);
  memcpy(args, t->values, (size_t)n * sizeof *args);
  for (int i = 0; i < t->train.n_state; i++) {
    const char *name = sn_params_at(t->train.state, (size_t)i)->name;
    size_t at;
    if (strncmp(name, "ema/", 4) == 0 && sn_params_find(t->tree, name + 4, &at)) args[at] = t->values[t->train.n_params + i];
  }
  return SN_OK;
}

sn_status train_evaluate(trainer *t, double *loss, double *accuracy) {
  double sums[3] = {0, 0, 0};
  sn_array **args = NULL;
  SN_TRY(eval_arguments(t, &args));
  sn_status s = sn_loader_seek(t->test_loader, 0, 0);
  while (s == SN_OK) {
    sn_batch b;
    sn_array *result = NULL;
    s = sn_loader_next(t->d, t->test_loader, &b);
    if (s != SN_OK || !b.inputs) break;
    args[t->eval.n_params] = b.inputs;
    args[t->eval.n_params + 1] = b.labels;
    s = sn_runnable_call(t->d, &t->eval_run, t->eval.n_params + t->eval.n_inputs, args, &result);
    for (int k = 0; s == SN_OK && k < 3; k++) sums[k] += scalar(sn_array_element(result, k));
    sn_array_release(result);
    sn_array_release(b.inputs);
    sn_array_release(b.labels);
  }
  sn_free(args);
  if (s == SN_OK && sums[2] == 0) return sn_error(t->d, SN_NOWHERE, SN_ERR_CORRUPT, "not one test sample could be read");
  *loss = sums[0] / (sums[2] > 0 ? sums[2] : 1);
  *accuracy = sums[1] / (sums[2] > 0 ? sums[2] : 1);
  return s;
}

/* ---- epochs ----------------------------------------------------------------------------------------------------------------- */

static bool ended(const trainer *t) { return stop_asked || t->step >= t->total_steps; }

static sn_status save_between(trainer *t) {
  int64_t every = sn_opt_int(t->o, "save-steps");
  return every > 0 && t->step % every == 0 ? train_save(t) : SN_OK;
}

/* From t->batch to the end of the epoch, the last step, or Ctrl-C. *whole: the epoch's batches are all done. */
static sn_status run_batches(trainer *t, bool *whole) {
  int64_t n = sn_loader_batches(t->train_loader);
  double before = t->epoch_seconds, start = sn_time();
  sn_status s = sn_loader_seek(t->train_loader, t->epoch, t->batch);
  while (s == SN_OK && t->batch < n && !ended(t)) {
    sn_batch b;
    s = sn_loader_next(t->d, t->train_loader, &b);
    if (s == SN_OK) s = one_step(t, &b);
    sn_array_release(b.inputs);
    sn_array_release(b.labels);
    if (s != SN_OK) break;
    t->step++;
    t->batch++;
    t->epoch_seconds = before + sn_time() - start;
    report_progress(t, t->batch, n, t->epoch_seconds);
    report_diagnostics(t);
    if (t->batch < n) s = save_between(t);
  }
  *whole = t->batch == n;
  return s;
}

static sn_status add_history(trainer *t, const train_row *row) {
  train_row *grown = sn_realloc(t->history, (t->n_history + 1) * sizeof *grown);
  if (!grown) return sn_out_of_memory(t->d, (t->n_history + 1) * sizeof *grown);
  t->history = grown;
  grown[t->n_history++] = *row;
  return SN_OK;
}

static sn_status end_epoch(trainer *t) {
  double n = t->sums.samples > 0 ? t->sums.samples : 1, test_loss, test_accuracy;
  SN_TRY(train_evaluate(t, &test_loss, &test_accuracy));
  train_row row = {.epoch = (double)t->epoch + 1, .step = (double)t->step, .train_loss = t->sums.loss / n, .train_accuracy = t->sums.correct / n, .test_loss = test_loss,
                   .test_accuracy = test_accuracy, .rate = t->last_rate, .samples_per_s = t->epoch_seconds > 0 ? n / t->epoch_seconds : 0, .seconds = t->epoch_seconds};
  t->last_accuracy = test_accuracy;
  SN_TRY(add_history(t, &row));
  t->sums = (train_sums){0, 0, 0};
  t->epoch_seconds = 0;
  t->epoch++;
  t->batch = 0;
  SN_TRY(report_epoch(t, &row));
  return train_save(t);
}

sn_status train_run(trainer *t, bool *interrupted) {
  stop_asked = 0;
  signal(SIGINT, ask_stop);
  signal(SIGTERM, ask_stop);
  sn_status s = SN_OK;
  bool whole = true;
  while (s == SN_OK && !ended(t)) {
    s = run_batches(t, &whole);
    if (s == SN_OK && (whole || t->step >= t->total_steps)) s = end_epoch(t);
  }
  report_clear();
  *interrupted = stop_asked && t->step < t->total_steps;
  if (s == SN_OK && *interrupted && t->batch > 0) s = train_save(t);
  if (s == SN_OK && t->n_history == 0 && !*interrupted) { /* a run that was over already */
    double loss;
    s = train_evaluate(t, &loss, &t->last_accuracy);
  }
  int64_t skipped = sn_loader_skipped(t->train_loader) + sn_loader_skipped(t->test_loader);
  if (skipped) printf("%lld damaged images were skipped\n", (long long)skipped);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  return s;
}
