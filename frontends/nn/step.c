/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Steps as modules: what all of them share, and those without an update (evaluation, prediction, gradients). */
#include "step_internal.h"

#include <string.h>

#include "sinter/transforms.h"

void sn_step_options_init(sn_step_options *o) {
  *o = (sn_step_options){.struct_size = sizeof *o, .batch = 32, .accumulate = 1, .compute = SN_TYPE_F32, .loss_scale = 65536, .scale_every = 2000};
  sn_optimizer_init(&o->optimizer, SN_SGD);
}

/* ---- beginning and end ---------------------------------------------------------------------------------------------- */

static sn_status check_options(sn_diag *d, const sn_step_options *o) {
  if (o->batch < 1 || o->accumulate < 1) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "batch and accumulate must be at least 1");
  if (o->batch % o->accumulate)
    return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "a batch of %lld does not divide into %lld parts", (long long)o->batch, (long long)o->accumulate);
  if (o->compute != SN_TYPE_F32 && o->compute != SN_TYPE_BF16 && o->compute != SN_TYPE_F16 && o->compute != SN_TYPE_F64)
    return sn_error(d, SN_NOWHERE, SN_ERR_TYPE, "cannot train in %s", sn_type_text(o->compute));
  return SN_OK;
}

static sn_tensor make_parameter(sn_step_builder *b, const sn_param *p) { return sn_parameter(b->g, p->type, p->rank, p->dims, p->name); }

static sn_status make_parameters(sn_step_builder *b) {
  b->n_params = sn_params_count(b->tree);
  b->n_state = b->state ? sn_params_count(b->state) : 0;
  b->params = SN_NEW_N(b->arena, sn_tensor, b->n_params + 1);
  b->states = SN_NEW_N(b->arena, sn_tensor, b->n_state + 1);
  b->train = SN_NEW_N(b->arena, size_t, b->n_params + 1);
  if (!b->params || !b->states || !b->train) return sn_out_of_memory(b->d, (b->n_params + b->n_state) * sizeof(sn_tensor));
  for (size_t i = 0; i < b->n_params; i++) {
    const sn_param *p = sn_params_at(b->tree, i);
    b->params[i] = make_parameter(b, p);
    if (p->trainable && !p->buffer) b->train[b->n_train++] = i;
  }
  for (size_t i = 0; i < b->n_state; i++) b->states[i] = make_parameter(b, sn_params_at(b->state, i));
  return SN_OK;
}

static void make_inputs(sn_step_builder *b, bool labels) {
  const sn_model_spec *m = b->m;
  int64_t dims[SN_MAX_RANK] = {b->o->batch};
  int rank = m->input_rank + 1;
  memcpy(dims + 1, m->input_dims, (size_t)m->input_rank * sizeof *dims);
  b->input = sn_parameter(b->g, m->input_type, rank, dims, m->input_name);
  if (labels) b->labels = sn_parameter(b->g, SN_TYPE_S32, m->loss == SN_LOSS_TOKENS ? rank : 1, dims, "labels");
}

sn_status sn_step_begin(sn_step_builder *b, const char *suffix, bool labels) {
  char name[128];
  SN_TRY(check_options(b->d, b->o));
  if (b->m->input_rank + 1 > SN_MAX_RANK) return sn_error(b->d, SN_NOWHERE, SN_ERR_SHAPE, "inputs of rank %d", b->m->input_rank);
  snprintf(name, sizeof name, "%s_%s", b->m->name, suffix);
  if (sn_arena_create(&b->arena) != SN_OK || sn_graph_create(name, &b->g) != SN_OK) return sn_out_of_memory(b->d, sizeof name);
  SN_TRY(make_parameters(b));
  make_inputs(b, labels);
  return SN_OK;
}

sn_status sn_step_end(sn_step_builder *b, sn_status s, int n_inputs, int n_metrics, sn_step *out) {
  *out = (sn_step){.n_params = (int)b->n_params, .n_state = (int)b->n_state, .n_inputs = n_inputs, .n_metrics = n_metrics};
  if (s == SN_OK) s = sn_graph_finish(b->g, b->d, &out->module);
  sn_graph_destroy(b->g);
  sn_arena_destroy(b->arena);
  if (s == SN_OK) out->state = b->state;
  else sn_params_destroy(b->state);
  return s;
}

void sn_step_finish(sn_step *s) {
  sn_module_destroy(s->module);
  sn_params_destroy(s->state);
  *s = (sn_step){0};
}

/* ---- the model within a step ------------------------------------------------------------------------------------------ */

sn_status sn_step_logits(sn_step_builder *b, const sn_tensor *values, sn_tensor x, bool train, sn_tensor key, sn_tensor *logits, sn_tensor *updated) {
  sn_nn_options o;
  sn_nn *nn;
  sn_nn_options_init(&o);
  o.train = train;
  o.key = key;
  if (b->o->compute != SN_TYPE_F32) o.compute = b->o->compute;
  if (sn_nn_create(b->g, b->tree, values, &o, &nn) != SN_OK) return sn_out_of_memory(b->d, sizeof(void *));
  bool cast = o.compute != SN_TYPE_INVALID && sn_tensor_ok(x) && sn_type_is_float(sn_tensor_type(x));
  sn_tensor y = b->m->forward(b->m->ctx, nn, cast ? sn_cast(x, o.compute) : x);
  *logits = sn_tensor_ok(y) && o.compute != SN_TYPE_F64 ? sn_cast(y, SN_TYPE_F32) : y;
  for (size_t i = 0; updated && i < b->n_params; i++) {
    sn_tensor u = sn_nn_updated(nn, i);
    updated[i] = sn_tensor_ok(u) ? sn_stop_gradient(u) : values[i];
  }
  sn_nn_destroy(nn);
  return SN_OK;
}

static sn_tensor count_right(sn_tensor logits, sn_tensor labels) {
  sn_tensor right = sn_eq(sn_argmax(logits, -1), labels);
  return sn_sum(sn_cast(right, SN_TYPE_S32), SN_ALL, false);
}

/* Position i predicts token i + 1. */
static void shift_tokens(sn_tensor *logits, sn_tensor *labels) {
  int64_t n = sn_tensor_dim(*labels, 1);
  *logits = sn_slice_axis(*logits, 1, 0, n - 1);
  *labels = sn_slice_axis(*labels, 1, 1, n);
}

static sn_tensor one_hot_error_rows(sn_tensor logits, sn_tensor labels) {
  sn_tensor hot = sn_one_hot(labels, sn_tensor_dim(logits, -1), sn_tensor_type(logits));
  sn_tensor rows = sn_mean(sn_square(sn_sub(logits, hot)), SN_DIMS(-1), false);
  return sn_select(sn_ge(labels, sn_zeros_like(labels)), rows, sn_zeros_like(rows));
}

static sn_tensor loss_rows(const sn_step_builder *b, sn_tensor logits, sn_tensor labels) {
  if (b->m->loss == SN_LOSS_MSE) return one_hot_error_rows(logits, labels);
  return sn_cross_entropy_rows(logits, labels, b->o->label_smoothing);
}

void sn_step_loss(const sn_step_builder *b, sn_tensor logits, sn_tensor labels, sn_tensor *loss, sn_tensor *correct) {
  if (b->m->loss == SN_LOSS_TOKENS) { /* tokens may be masked by a negative label, so the mean is over those that count */
    shift_tokens(&logits, &labels);
    sn_tensor n = sn_sum(sn_cast(sn_ge(labels, sn_zeros_like(labels)), SN_TYPE_F32), SN_ALL, false);
    *loss = sn_div(sn_sum(loss_rows(b, logits, labels), SN_ALL, false), sn_maximum_c(n, 1));
  } else if (b->m->loss == SN_LOSS_MSE) {
    *loss = sn_mse(logits, sn_one_hot(labels, sn_tensor_dim(logits, -1), sn_tensor_type(logits)));
  } else {
    *loss = sn_cross_entropy(logits, labels, b->o->label_smoothing);
  }
  *correct = count_right(logits, labels);
}

/* ---- declaration ---------------------------------------------------------------------------------------------------------- */

sn_status sn_model_declare(sn_diag *d, const sn_model_spec *m, sn_params **out) {
  int64_t dims[SN_MAX_RANK] = {1};
  sn_params *t = NULL;
  sn_graph *g = NULL;
  sn_nn *nn = NULL;
  sn_nn_options o;
  *out = NULL;
  sn_nn_options_init(&o);
  if (m->input_rank + 1 > SN_MAX_RANK) return sn_error(d, SN_NOWHERE, SN_ERR_SHAPE, "inputs of rank %d", m->input_rank);
  memcpy(dims + 1, m->input_dims, (size_t)m->input_rank * sizeof *dims);
  sn_status s = sn_params_create(&t);
  if (s == SN_OK) s = sn_graph_create(m->name, &g);
  if (s == SN_OK) s = sn_nn_create(g, t, NULL, &o, &nn);
  if (s == SN_OK) {
    sn_module *unused = NULL;
    sn_tensor y = m->forward(m->ctx, nn, sn_parameter(g, m->input_type, m->input_rank + 1, dims, m->input_name));
    sn_output(g, y, "logits");
    s = sn_graph_finish(g, d, &unused);
    sn_module_destroy(unused);
  } else {
    s = sn_out_of_memory(d, sizeof(void *));
  }
  sn_nn_destroy(nn);
  sn_graph_destroy(g);
  if (s == SN_OK) *out = t;
  else sn_params_destroy(t);
  return s;
}

/* ---- steps without an update ------------------------------------------------------------------------------------------------ */

static sn_tensor no_key(void) {
  sn_tensor none = {0};
  return none;
}

sn_status sn_eval_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out) {
  sn_step_builder b = {.d = d, .m = m, .tree = t, .o = o};
  sn_tensor logits = {0}, labels;
  sn_status s = sn_step_begin(&b, "eval_step", true);
  if (s == SN_OK) s = sn_step_logits(&b, b.params, b.input, false, no_key(), &logits, NULL);
  if (s == SN_OK) {
    labels = b.labels;
    if (m->loss == SN_LOSS_TOKENS) shift_tokens(&logits, &labels);
    sn_output(b.g, sn_sum(loss_rows(&b, logits, labels), SN_ALL, false), "loss_sum");
    sn_output(b.g, count_right(logits, labels), "correct"); /* an argmax is never negative */
    sn_output(b.g, sn_sum(sn_cast(sn_ge(labels, sn_zeros_like(labels)), SN_TYPE_S32), SN_ALL, false), "samples");
  }
  return sn_step_end(&b, s, 2, 3, out);
}

sn_status sn_predict_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out) {
  sn_step_builder b = {.d = d, .m = m, .tree = t, .o = o};
  sn_tensor logits = {0};
  sn_status s = sn_step_begin(&b, "predict_step", false);
  if (s == SN_OK) s = sn_step_logits(&b, b.params, b.input, false, no_key(), &logits, NULL);
  if (s == SN_OK) sn_output(b.g, logits, "logits");
  return sn_step_end(&b, s, 1, 1, out);
}

sn_status sn_grad_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out) {
  sn_step_builder b = {.d = d, .m = m, .tree = t, .o = o};
  sn_tensor logits = {0}, loss, correct;
  sn_status s = sn_step_begin(&b, "grad_step", true);
  if (s == SN_OK) s = sn_step_logits(&b, b.params, b.input, true, sn_key(b.g, o->seed), &logits, NULL);
  if (s == SN_OK) {
    sn_step_loss(&b, logits, b.labels, &loss, &correct);
    sn_tensor *wrt = SN_NEW_N(b.arena, sn_tensor, b.n_train + 1), *grads = SN_NEW_N(b.arena, sn_tensor, b.n_train + 1);
    if (!wrt || !grads) s = sn_out_of_memory(d, b.n_train * sizeof *wrt);
    for (size_t i = 0; s == SN_OK && i < b.n_train; i++) wrt[i] = b.params[b.train[i]];
    if (s == SN_OK) sn_grad(loss, (int)b.n_train, wrt, grads);
    sn_output(b.g, loss, "loss");
    for (size_t i = 0; s == SN_OK && i < b.n_train; i++) sn_output(b.g, grads[i], sn_params_at(t, b.train[i])->name);
  }
  return sn_step_end(&b, s, 2, (int)b.n_train + 1, out);
}
