/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Logits of a batch, and the likeliest labels of a row of them. */
#include <cjson/cJSON.h>
#include <math.h>

#include "predict.h"

sn_status classifier_init(predictor *p, const sn_model *m, int64_t batch, classifier *out) {
  static const sn_type types[] = {SN_TYPE_F32, SN_TYPE_BF16, SN_TYPE_F16};
  sn_engine_setup setup = {.pool = p->pool};
  sn_step_options so;
  *out = (classifier){0};
  sn_engine_setup_from_options(p->o, &setup);
  sn_step_options_init(&so);
  so.batch = batch;
  so.compute = types[sn_opt_choice(p->o, "compute")];
  SN_TRY(sn_predict_step_build(p->d, sn_model_get_spec(m), p->tree, &so, &out->step));
  SN_TRY(sn_runnable_init(p->d, p->engine, &setup, out->step.module, &out->run));
  size_t n = (size_t)out->step.n_params;
  out->args = sn_alloc((n + 1) * sizeof *out->args);
  if (!out->args) return sn_out_of_memory(p->d, (n + 1) * sizeof *out->args);
  for (size_t i = 0; i < n; i++) out->args[i] = sn_bundle_at(p->weights, i);
  return SN_OK;
}

sn_status classifier_call(predictor *p, const classifier *c, sn_array *input, sn_array **out) {
  sn_array *result = NULL;
  *out = NULL;
  c->args[c->step.n_params] = input;
  SN_TRY(sn_runnable_call(p->d, &c->run, c->step.n_params + 1, c->args, &result));
  *out = sn_array_retain(sn_array_element(result, 0));
  sn_array_release(result);
  return SN_OK;
}

void classifier_finish(classifier *c) {
  sn_runnable_finish(&c->run);
  sn_step_finish(&c->step);
  sn_free(c->args);
  c->args = NULL;
}

/* ---- the likeliest labels ---------------------------------------------------------------------------------------------- */

/* Ids of the k greatest, greatest first; of equals the lower id, as argmax has it. */
static void find_top(const float *v, int64_t n, int64_t *top, int64_t k) {
  int64_t have = 0;
  for (int64_t i = 0; i < n; i++) {
    if (have == k && !(v[i] > v[top[k - 1]])) continue;
    int64_t at = have < k ? have++ : k - 1;
    for (; at > 0 && v[i] > v[top[at - 1]]; at--) top[at] = top[at - 1];
    top[at] = i;
  }
}

/* Softmax's numerator is exp(v - greatest); this is its denominator. NaN when not all are numbers. */
static double sum_of_exps(const float *v, int64_t n, double greatest) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += isfinite(v[i]) ? exp(v[i] - greatest) : (double)NAN;
  return sum;
}

struct cJSON *predict_entry(predictor *p) {
  if (!p->json) return NULL;
  cJSON *entry = cJSON_CreateObject();
  if (entry && cJSON_AddItemToArray(p->entries, entry)) return entry;
  cJSON_Delete(entry);
  return NULL;
}

sn_status predict_entry_done(predictor *p, const struct cJSON *entry, bool ok) { return !p->json || (entry && ok) ? SN_OK : sn_out_of_memory(p->d, sizeof(cJSON)); }

static bool add_label(cJSON *top, int64_t id, const char *label, const char *key, double value) {
  cJSON *e = cJSON_CreateObject();
  if (!e || !cJSON_AddItemToArray(top, e)) {
    cJSON_Delete(e);
    return false;
  }
  return cJSON_AddNumberToObject(e, "id", (double)id) && cJSON_AddStringToObject(e, "label", label) && cJSON_AddNumberToObject(e, key, value);
}

/* A model trained on squared errors gives scores, not the logarithms of probabilities. */
static sn_status tell_top(predictor *p, cJSON *entry, const char *name, const float *logits, const int64_t *top, int64_t k, double sum) {
  const sn_model_info *m = sn_model_get_info(p->model);
  bool scores = sn_model_get_spec(p->model)->loss == SN_LOSS_MSE, ok = true;
  cJSON *list = entry ? cJSON_AddArrayToObject(entry, "top") : NULL;
  if (!entry && name) sn_str_printf(&p->text, "%s:", name);
  for (int64_t i = 0; i < k; i++) {
    const char *label = m->label_names[top[i]];
    double value = scores ? (double)logits[top[i]] : exp((double)logits[top[i]] - logits[top[0]]) / sum;
    if (entry) ok = ok && list && add_label(list, top[i], label, scores ? "score" : "probability", value);
    else if (name) sn_str_printf(&p->text, "%s %s (%.4f)", i ? "," : "", label, value);
  }
  if (!entry && name) sn_str_char(&p->text, '\n');
  return predict_entry_done(p, entry, ok);
}

sn_status predict_top(predictor *p, struct cJSON *entry, const char *name, const char *what, const float *logits, int64_t *best) {
  int64_t n = sn_model_get_info(p->model)->n_labels, k = sn_opt_int(p->o, "top-k");
  if (k > n) k = n;
  int64_t *top = sn_alloc((size_t)k * sizeof *top);
  if (!top) return sn_out_of_memory(p->d, (size_t)k * sizeof *top);
  find_top(logits, n, top, k);
  double sum = sum_of_exps(logits, n, logits[top[0]]);
  sn_status s = SN_OK;
  if (isnan(sum)) {
    s = sn_error(p->d, (sn_loc){what, 0, 0}, SN_ERR_MISMATCH, "the model's logits are not all numbers");
    sn_hint(p->d, "are the weights whole? --compute=f32 has the widest range");
  }
  if (s == SN_OK) s = tell_top(p, entry, name, logits, top, k, sum);
  *best = top[0];
  sn_free(top);
  return s;
}
