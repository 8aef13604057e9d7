/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Prompts of token ids: labels of a bert, the likeliest tokens behind a gpt's. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "predict.h"
#include "sinter/json.h"

typedef struct tokens {
  int32_t *ids;
  int64_t n, room;
} tokens;

/* ---- reading a prompt --------------------------------------------------------------------------------------------------- */

static sn_status no_id(predictor *p, const char *text, const char *at) {
  sn_status s = sn_error(p->d, (sn_loc){"--prompt", 1, (uint32_t)(at - text) + 1}, SN_ERR_USAGE, "`%.20s` does not begin with a token id", at);
  sn_hint(p->d, "write the ids, comma separated: --prompt=15,8,23; a text must go through the model's tokenizer first");
  return s;
}

static sn_status check_id(predictor *p, const char *text, const char *at, long long id) {
  int64_t n = sn_model_get_info(p->model)->vocabulary;
  if (errno != ERANGE && id >= 0 && id < n) return SN_OK;
  return sn_error(p->d, (sn_loc){"--prompt", 1, (uint32_t)(at - text) + 1}, SN_ERR_MISMATCH, "token %.*s; the model's vocabulary has ids 0 to %lld",
                  (int)strspn(at, "+-0123456789"), at, (long long)n - 1);
}

/* No more than one id for two characters, so the text bounds the room. */
static sn_status parse_ids(predictor *p, const char *text, tokens *out) {
  *out = (tokens){.room = (int64_t)strlen(text) / 2 + 1};
  out->ids = sn_alloc((size_t)out->room * sizeof *out->ids);
  if (!out->ids) return sn_out_of_memory(p->d, (size_t)out->room * sizeof *out->ids);
  sn_diag_set_source(p->d, "--prompt", text, strlen(text)); /* so that messages show it with a caret */
  for (const char *at = text;; at++) {
    char *end;
    at += strspn(at, " \t\n");
    errno = 0;
    long long id = strtoll(at, &end, 10);
    if (end == at) return no_id(p, text, at);
    SN_TRY(check_id(p, text, at, id));
    out->ids[out->n++] = (int32_t)id;
    at = end + strspn(end, " \t\n");
    if (!*at) return SN_OK;
    if (*at != ',') return no_id(p, text, at);
  }
}

static sn_status check_length(predictor *p, int64_t n) {
  int64_t positions = sn_model_get_spec(p->model)->input_dims[0];
  if (n <= positions) return SN_OK;
  return sn_error(p->d, (sn_loc){p->config, 0, 0}, SN_ERR_MISMATCH, "a prompt of %lld tokens; the model has %lld positions", (long long)n, (long long)positions);
}

static bool add_ids(cJSON *entry, const char *key, const tokens *t) {
  cJSON *list = cJSON_CreateIntArray(t->ids, (int)t->n);
  if (list && cJSON_AddItemToObject(entry, key, list)) return true;
  cJSON_Delete(list);
  return false;
}

/* ---- labels ------------------------------------------------------------------------------------------------------------- */

static sn_status classify(predictor *p, const char *text, const tokens *prompt) {
  sn_model *model = NULL; /* of this prompt's length, so that nothing is padded */
  classifier c = {0};
  sn_array *ids = NULL, *logits = NULL;
  int64_t best;
  cJSON *entry = predict_entry(p);
  SN_TRY(predict_entry_done(p, entry, entry && add_ids(entry, "prompt", prompt)));
  sn_status s = predict_model_create(p, prompt->n, &model);
  if (s == SN_OK) s = classifier_init(p, model, 1, &c);
  if (s == SN_OK && sn_array_create_from(c.step.module->entry->params[c.step.n_params]->shape, prompt->ids, &ids) != SN_OK) s = sn_out_of_memory(p->d, (size_t)prompt->n);
  if (s == SN_OK) s = classifier_call(p, &c, ids, &logits);
  if (s == SN_OK) s = predict_top(p, entry, text, "--prompt", sn_array_data(logits), &best);
  sn_array_release(ids);
  sn_array_release(logits);
  classifier_finish(&c);
  sn_model_destroy(model);
  return s;
}

/* ---- generation ----------------------------------------------------------------------------------------------------------- */

/* What follows the weights among a step's arguments, and leads its results. */
enum { KEYS, VALUES, POSITION, N_STATE, NEXT = N_STATE };

typedef struct decoder { /* one module per length of chunk: the prompt's, and 1 */
  sn_module *module[2];
  sn_runnable run[2];
  sn_array **args;
  int n_weights;
} decoder;

static sn_status prepare_step(predictor *p, decoder *g, int which, int64_t chunk, int64_t positions) {
  sn_engine_setup setup = {.pool = p->pool, .donate = true}; /* the caches grow in place */
  sn_engine_setup_from_options(p->o, &setup);
  SN_TRY(sn_decode_step_build(p->d, p->model, p->tree, 1, chunk, positions, &g->module[which]));
  return sn_runnable_init(p->d, p->engine, &setup, g->module[which], &g->run[which]);
}

static sn_status decoder_init(predictor *p, int64_t chunk, int64_t positions, bool more, decoder *g) {
  *g = (decoder){.n_weights = (int)sn_bundle_count(p->weights)};
  size_t n = (size_t)g->n_weights + N_STATE + 1;
  SN_TRY(prepare_step(p, g, 0, chunk, positions));
  if (more) SN_TRY(prepare_step(p, g, 1, 1, positions));
  g->args = sn_alloc_zero(n, sizeof *g->args);
  if (!g->args) return sn_out_of_memory(p->d, n * sizeof *g->args);
  for (int i = 0; i < g->n_weights; i++) g->args[i] = sn_array_retain(sn_bundle_at(p->weights, (size_t)i));
  for (int i = 0; i < N_STATE; i++) {
    const sn_shape *shape = g->module[0]->entry->params[g->n_weights + i]->shape;
    if (sn_array_create_zero(shape, &g->args[g->n_weights + i]) != SN_OK) return sn_out_of_memory(p->d, (size_t)sn_shape_bytes(shape));
  }
  return SN_OK;
}

static void decoder_finish(decoder *g) {
  for (int i = 0; g->args && i < g->n_weights + N_STATE; i++) sn_array_release(g->args[i]);
  sn_free(g->args);
  for (int k = 0; k < 2; k++) {
    sn_runnable_finish(&g->run[k]);
    sn_module_destroy(g->module[k]);
  }
}

/* Runs a chunk of ids; *next: the likeliest token behind it. */
static sn_status decode(predictor *p, decoder *g, int which, const int32_t *ids, int32_t *next) {
  sn_array *input = NULL, *result = NULL;
  int n = g->n_weights + N_STATE;
  if (sn_array_create_from(g->module[which]->entry->params[n]->shape, ids, &input) != SN_OK) return sn_out_of_memory(p->d, sizeof *ids);
  g->args[n] = input;
  sn_status s = sn_runnable_call(p->d, &g->run[which], n + 1, g->args, &result);
  sn_array_release(input);
  if (s != SN_OK) return s;
  for (int i = 0; i < N_STATE; i++) {
    sn_array_release(g->args[g->n_weights + i]);
    g->args[g->n_weights + i] = sn_array_retain(sn_array_element(result, i));
  }
  memcpy(next, sn_array_data(sn_array_element(result, NEXT)), sizeof *next);
  sn_array_release(result);
  return SN_OK;
}

/* Does generation end behind this token? --stop-token, else eos_token_id of the configuration: a number or a list of them. */
static bool ends(const predictor *p, const sn_json *config, int32_t token) {
  if (sn_opt_given(p->o, "stop-token")) return token == sn_opt_int(p->o, "stop-token");
  const cJSON *eos = sn_json_entry(config, "eos_token_id"), *e;
  if (!cJSON_IsArray(eos)) return cJSON_IsNumber(eos) && eos->valuedouble == token;
  cJSON_ArrayForEach(e, eos) if (cJSON_IsNumber(e) && e->valuedouble == token) return true;
  return false;
}

/* The last token needs no position of its own: nothing is asked behind it. */
static int64_t tokens_to_come(predictor *p, int64_t n) {
  int64_t wanted = sn_opt_int(p->o, "max-tokens"), room = sn_model_get_spec(p->model)->input_dims[0] - n + 1;
  if (wanted <= room) return wanted;
  if (sn_opt_given(p->o, "max-tokens"))
    sn_note(p->d, (sn_loc){p->config, 0, 0}, "behind a prompt of %lld tokens the model has positions for %lld more", (long long)n, (long long)room);
  return room;
}

static sn_status generate_into(predictor *p, const sn_json *config, const tokens *prompt, tokens *made, bool *ended) {
  decoder g;
  made->ids = sn_alloc((size_t)made->room * sizeof *made->ids);
  if (!made->ids) return sn_out_of_memory(p->d, (size_t)made->room * sizeof *made->ids);
  sn_status s = decoder_init(p, prompt->n, prompt->n + made->room - 1, made->room > 1, &g);
  while (s == SN_OK && made->n < made->room && !*ended) {
    bool first = made->n == 0;
    s = decode(p, &g, first ? 0 : 1, first ? prompt->ids : &made->ids[made->n - 1], &made->ids[made->n]);
    if (s == SN_OK) *ended = ends(p, config, made->ids[made->n++]);
  }
  decoder_finish(&g);
  return s;
}

static sn_status tell_tokens(predictor *p, const tokens *prompt, const tokens *made, bool ended) {
  if (p->json) {
    cJSON *entry = predict_entry(p);
    bool ok = entry && add_ids(entry, "prompt", prompt) && add_ids(entry, "tokens", made) && cJSON_AddBoolToObject(entry, "ended", ended);
    return predict_entry_done(p, entry, ok);
  }
  for (int64_t i = 0; i < made->n; i++) sn_str_printf(&p->text, "%s%d", i ? "," : "", (int)made->ids[i]);
  sn_str_char(&p->text, '\n');
  return SN_OK;
}

static sn_status generate(predictor *p, const tokens *prompt) {
  tokens made = {.room = tokens_to_come(p, prompt->n)};
  bool ended = false;
  sn_json config;
  SN_TRY(sn_json_read(p->d, p->config, &config));
  sn_status s = generate_into(p, &config, prompt, &made, &ended);
  if (s == SN_OK) s = tell_tokens(p, prompt, &made, ended);
  sn_free(made.ids);
  sn_json_finish(&config);
  return s;
}

/* ---- all prompts ------------------------------------------------------------------------------------------------------------ */

static sn_status one_prompt(predictor *p, const char *text) {
  tokens prompt;
  sn_status s = parse_ids(p, text, &prompt);
  if (s == SN_OK) s = check_length(p, prompt.n);
  if (s == SN_OK) s = sn_model_get_info(p->model)->n_labels ? classify(p, text, &prompt) : generate(p, &prompt);
  sn_free(prompt.ids);
  return s;
}

sn_status predict_prompts(predictor *p) {
  for (size_t i = 0; i < sn_opt_count(p->o, "prompt"); i++) SN_TRY(one_prompt(p, sn_opt_at(p->o, "prompt", i)));
  return SN_OK;
}
