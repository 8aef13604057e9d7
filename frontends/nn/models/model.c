/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "model_internal.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static const sn_model_kind *const kinds[] = {&sn_model_vit, &sn_model_mlp, &sn_model_linear, &sn_model_convnet, &sn_model_bert, &sn_model_gpt};

/* Configurations that have a name. */
static const struct { const char *name, *config; } presets[] = {
    {"vit-b16", "{\"model_type\": \"vit\", \"num_labels\": 1000}"},
    {"vit-tiny", "{\"model_type\": \"vit\", \"num_labels\": 10, \"image_size\": 32, \"patch_size\": 8, \"hidden_size\": 64, \"num_hidden_layers\": 3,"
                 "\"num_attention_heads\": 4, \"intermediate_size\": 128}"},
    {"vit-digits", "{\"model_type\": \"vit\", \"num_labels\": 10, \"image_size\": 8, \"num_channels\": 1, \"patch_size\": 2, \"hidden_size\": 64,"
                   "\"num_hidden_layers\": 4, \"num_attention_heads\": 4, \"intermediate_size\": 128}"},
    {"mlp", "{\"model_type\": \"mlp\", \"hidden_sizes\": [256]}"},
    {"linear", "{\"model_type\": \"linear\"}"},
    {"linear-regression", "{\"model_type\": \"linear\", \"loss\": \"mse\"}"},
    {"convnet", "{\"model_type\": \"convnet\"}"},
    {"bert", "{\"model_type\": \"bert\"}"},
    {"gpt", "{\"model_type\": \"gpt2\"}"},
};
enum { N_KINDS = (int)(sizeof kinds / sizeof *kinds), N_PRESETS = (int)(sizeof presets / sizeof *presets) };

const char *sn_model_presets(void) { return "vit-b16, vit-tiny, vit-digits, mlp, linear, linear-regression, convnet, bert, gpt"; }

void sn_model_options_init(sn_model_options *o) { *o = (sn_model_options){.struct_size = sizeof *o, .layout = SN_NCHW}; }

/* ---- fields ---------------------------------------------------------------------------------------------------------- */

/* Attributes of transformers' PretrainedConfig that steer saving, generation and what is returned, never the maths of a forward pass. */
static const char *const never[] = {
    "_attn_implementation", "_attn_implementation_autoset", "_name_or_path", "architectures", "attn_implementation", "bad_words_ids", "begin_suppress_tokens",
    "bos_token_id", "decoder_start_token_id", "diversity_penalty", "do_sample", "dtype", "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id",
    "exponential_decay_length_penalty", "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label", "initializer_range", "is_encoder_decoder",
    "label2id", "length_penalty", "max_length", "min_length", "model_type", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_labels",
    "num_return_sequences", "output_attentions", "output_hidden_states", "output_scores", "pad_token_id", "prefix", "remove_invalid_values", "repetition_penalty",
    "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens", "task_specific_params", "temperature", "tf_legacy_loss", "tokenizer_class",
    "top_k", "top_p", "torch_dtype", "torchscript", "transformers_version", "typical_p", "use_bfloat16", "use_cache", "chunk_size_feed_forward"};

static bool in_list(const char *key, const char *const *list, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strcmp(list[i], key) == 0) return true;
  return false;
}

static bool known_key(const char *key, const sn_field *table, const char *const *neutral) {
  for (; table->key; table++)
    if (strcmp(table->key, key) == 0) return true;
  for (; neutral && *neutral; neutral++)
    if (strcmp(*neutral, key) == 0) return true;
  return in_list(key, never, sizeof never / sizeof *never);
}

/* An entry that says nothing (null, false, an empty list) cannot change anything, whatever its name. */
static bool is_empty(const cJSON *e) { return cJSON_IsNull(e) || cJSON_IsFalse(e) || ((cJSON_IsObject(e) || cJSON_IsArray(e)) && !e->child); }

static sn_status refuse_unknown(sn_model *m, const sn_field *table, const char *const *neutral) {
  sn_status s = SN_OK;
  for (const cJSON *e = m->json.root->child; e; e = e->next) {
    if (!e->string || known_key(e->string, table, neutral) || is_empty(e)) continue;
    s = sn_error(m->json.d, sn_json_loc(&m->json, e->string), SN_ERR_UNSUPPORTED, "`%s` is not known for a %s: it might change what the model computes", e->string,
                 m->kind->type);
    sn_hint(m->json.d, "remove the entry if it does not");
  }
  return s;
}

static sn_status read_field(const sn_model *m, const sn_field *f, void *config) {
  char *to = (char *)config + f->offset;
  const sn_json *j = &m->json;
  switch (f->kind) {
    case SN_FIELD_INT: return sn_json_int(j, j->root, f->key, (int64_t)f->least, (int64_t)f->most, (int64_t *)(void *)to);
    case SN_FIELD_BOOL: return sn_json_bool(j, j->root, f->key, (bool *)to);
    case SN_FIELD_TEXT: return sn_json_text(j, j->root, f->key, (const char **)(void *)to);
    default: break;
  }
  double *v = (double *)(void *)to;
  SN_TRY(sn_json_number(j, j->root, f->key, v));
  if (*v >= f->least && *v <= f->most) return SN_OK;
  return sn_error(j->d, sn_json_loc(j, f->key), SN_ERR_ATTRIBUTE, "`%s` is %g; it must lie between %g and %g", f->key, *v, f->least, f->most);
}

sn_status sn_model_read_fields(sn_model *m, const sn_field *table, const char *const *neutral, void *config) {
  for (const sn_field *f = table; f->key; f++) SN_TRY(read_field(m, f, config));
  return refuse_unknown(m, table, neutral);
}

sn_status sn_model_activation(const sn_model *m, const char *key, const char *name, sn_activation *out) {
  *out = sn_activation_find(name);
  if (*out) return SN_OK;
  sn_status s = sn_error(m->json.d, sn_json_loc(&m->json, key), SN_ERR_UNSUPPORTED, "`%s`: the activation `%s` is not known here", key, name);
  sn_hint(m->json.d, "known are %s", sn_activation_names());
  return s;
}

/* ---- labels ---------------------------------------------------------------------------------------------------------- */

static sn_status name_labels(sn_model *m, const char *const *given, const cJSON *id2label) {
  const char **names = SN_NEW_N(m->arena, const char *, m->info.n_labels);
  char key[32];
  if (!names) return sn_out_of_memory(m->json.d, (size_t)m->info.n_labels * sizeof *names);
  for (int64_t i = 0; i < m->info.n_labels; i++) {
    snprintf(key, sizeof key, "%lld", (long long)i);
    const cJSON *e = id2label ? cJSON_GetObjectItemCaseSensitive(id2label, key) : NULL;
    if (given) names[i] = sn_arena_string(m->arena, given[i]);
    else if (e && cJSON_IsString(e)) names[i] = e->valuestring;
    else names[i] = sn_arena_printf(m->arena, "LABEL_%lld", (long long)i);
    if (!names[i]) return sn_out_of_memory(m->json.d, 32);
  }
  m->info.label_names = names;
  return SN_OK;
}

sn_status sn_model_read_labels(sn_model *m, const sn_model_options *o) {
  const cJSON *id2label = sn_json_entry(&m->json, "id2label");
  if (id2label && !cJSON_IsObject(id2label)) return sn_error(m->json.d, sn_json_loc(&m->json, "id2label"), SN_ERR_ATTRIBUTE, "`id2label` must be an object");
  int64_t n = id2label ? cJSON_GetArraySize(id2label) : o->default_labels ? o->default_labels : 2;
  SN_TRY(sn_json_int(&m->json, m->json.root, "num_labels", 1, 1 << 24, &n));
  m->info.n_labels = o->n_labels ? o->n_labels : n;
  if (m->info.n_labels < 1) return sn_error(m->json.d, sn_json_loc(&m->json, "id2label"), SN_ERR_ATTRIBUTE, "the model has no labels");
  bool named = o->label_names && o->n_label_names == m->info.n_labels && (o->n_labels || !id2label);
  return name_labels(m, named ? o->label_names : NULL, o->n_labels ? NULL : id2label);
}

void sn_model_image_input(sn_model *m) {
  const sn_model_info *i = &m->info;
  bool nchw = i->layout == SN_NCHW;
  m->input_dims[0] = nchw ? i->channels : i->height;
  m->input_dims[1] = nchw ? i->height : i->width;
  m->input_dims[2] = nchw ? i->width : i->channels;
  m->spec.input_type = SN_TYPE_F32;
  m->spec.input_rank = 3;
  m->spec.input_dims = m->input_dims;
  m->spec.input_name = "pixel_values";
}

sn_status sn_model_token_input(sn_model *m, int64_t length, int64_t positions) {
  if (length < 0 || length > positions)
    return sn_error(m->json.d, (sn_loc){m->json.path, 0, 0}, SN_ERR_USAGE, "a length of %lld tokens; the model has %lld positions", (long long)length, (long long)positions);
  m->input_dims[0] = length ? length : positions;
  m->spec.input_type = SN_TYPE_S32;
  m->spec.input_rank = 1;
  m->spec.input_dims = m->input_dims;
  m->spec.input_name = "input_ids";
  return SN_OK;
}

/* ---- creation -------------------------------------------------------------------------------------------------------- */

static const sn_model_kind *find_kind(const char *type) {
  for (int i = 0; type && i < N_KINDS; i++)
    if (strcmp(kinds[i]->type, type) == 0) return kinds[i];
  return NULL;
}

static const char *find_preset(const char *name) {
  for (int i = 0; name && i < N_PRESETS; i++)
    if (strcmp(presets[i].name, name) == 0) return presets[i].config;
  return NULL;
}

bool sn_model_is_preset(const char *name) { return find_preset(name) != NULL; }

static sn_status read_json(sn_diag *d, const char *name, const char *config, sn_model *m) {
  if (config) {
    const char *path = sn_arena_string(m->arena, config);
    return path ? sn_json_read(d, path, &m->json) : sn_out_of_memory(d, strlen(config));
  }
  const char *text = find_preset(name), *path = text ? sn_arena_printf(m->arena, "(%s)", name) : NULL;
  if (text && path) return sn_json_parse(d, path, text, strlen(text), &m->json);
  if (text) return sn_out_of_memory(d, strlen(name));
  sn_status s;
  if (find_kind(name)) s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "model `%s` needs a config.json", name);
  else s = sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "model `%s` is not known", name ? name : "");
  sn_hint(d, "known without one are %s", sn_model_presets());
  return s;
}

static sn_status settle_kind(sn_diag *d, const char *name, sn_model *m) {
  const char *type = NULL;
  SN_TRY(sn_json_text(&m->json, m->json.root, "model_type", &type));
  m->kind = find_kind(type);
  if (!m->kind) {
    sn_status s = sn_error(d, sn_json_loc(&m->json, "model_type"), SN_ERR_UNSUPPORTED, "model_type `%s` is not known", type ? type : "(missing)");
    sn_hint(d, "known are vit, bert, gpt2, mlp, linear, convnet");
    return s;
  }
  if (!name || strncmp(name, type, strlen(type)) == 0 || strncmp(name, type, strlen(name)) == 0) return SN_OK; /* "vit-b16" is a vit, "gpt" a gpt2 */
  return sn_error(d, sn_json_loc(&m->json, "model_type"), SN_ERR_MISMATCH, "the configuration is of a `%s`, asked for was `%s`", type, name);
}

sn_status sn_model_create(sn_diag *d, const char *name, const char *config, const sn_model_options *o, sn_model **out) {
  *out = NULL;
  sn_model *m = sn_alloc_zero(1, sizeof *m);
  if (!m) return sn_out_of_memory(d, sizeof *m);
  sn_status s = sn_arena_create(&m->arena);
  if (s != SN_OK) s = sn_out_of_memory(d, sizeof *m);
  if (s == SN_OK) s = read_json(d, name, config, m);
  if (s == SN_OK) s = settle_kind(d, name, m);
  if (s == SN_OK) {
    m->info.type = m->kind->type;
    m->info.layout = o->layout;
    m->spec.ctx = m;
    m->spec.name = m->kind->type;
    s = m->kind->read(d, m, o);
    if (s == SN_OK && o->lora_rank && m->kind != &sn_model_gpt) s = sn_error(d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "a %s takes no LoRA; a gpt2 does", m->info.type);
  }
  if (s != SN_OK) {
    sn_model_destroy(m);
    return s;
  }
  sn_diag_set_source(d, m->json.path, NULL, 0);
  *out = m;
  return SN_OK;
}

void sn_model_destroy(sn_model *m) {
  if (!m) return;
  m->json.d = NULL; /* the messages' owner may be gone by now */
  sn_json_finish(&m->json);
  sn_arena_destroy(m->arena);
  sn_free(m);
}

const sn_model_info *sn_model_get_info(const sn_model *m) { return &m->info; }

const sn_model_spec *sn_model_get_spec(const sn_model *m) { return &m->spec; }

/* ---- writing ----------------------------------------------------------------------------------------------------------- */

static bool set_labels(cJSON *root, const sn_model_info *info) {
  cJSON *id2label = cJSON_CreateObject(), *label2id = cJSON_CreateObject();
  char key[32];
  for (int64_t i = 0; i < info->n_labels; i++) {
    snprintf(key, sizeof key, "%lld", (long long)i);
    cJSON_AddStringToObject(id2label, key, info->label_names[i]);
    cJSON_AddNumberToObject(label2id, info->label_names[i], (double)i);
  }
  cJSON_DeleteItemFromObjectCaseSensitive(root, "id2label");
  cJSON_DeleteItemFromObjectCaseSensitive(root, "label2id");
  cJSON_DeleteItemFromObjectCaseSensitive(root, "num_labels"); /* transformers derives it, and refuses a contradiction */
  bool ok = cJSON_AddItemToObject(root, "id2label", id2label);
  return cJSON_AddItemToObject(root, "label2id", label2id) && ok;
}

/* Models of ours take the images' size from the data; written down, they need no data to be read again. */
static bool set_size(cJSON *root, const sn_model_info *info) {
  static const char *const keys[] = {"num_channels", "image_height", "image_width"};
  const int64_t sizes[] = {info->channels, info->height, info->width};
  for (int i = 0; i < 3; i++) {
    cJSON_DeleteItemFromObjectCaseSensitive(root, keys[i]);
    if (!cJSON_AddNumberToObject(root, keys[i], (double)sizes[i])) return false;
  }
  return true;
}

sn_status sn_model_write_config(sn_diag *d, const sn_model *m, const char *path) {
  cJSON *root = cJSON_Duplicate(m->json.root, true);
  bool ok = root && (m->info.n_labels == 0 || set_labels(root, &m->info));
  if (ok && m->info.channels && m->kind != &sn_model_vit) ok = set_size(root, &m->info);
  char *text = ok ? cJSON_Print(root) : NULL;
  sn_str s = {0};
  if (text) sn_str_printf(&s, "%s\n", text);
  sn_status status = text && !s.failed ? sn_file_write(d, path, s.data, s.n) : sn_out_of_memory(d, s.n);
  sn_str_finish(&s);
  cJSON_free(text);
  cJSON_Delete(root);
  return status;
}
