/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* ViTForImageClassification of Hugging Face transformers: Dosovitskiy et al. 2021, pre-norm encoder, class token, learnt positions.
 * Parameter names are transformers', so that checkpoints load and save as they are. */
#include <cjson/cJSON.h>
#include <string.h>

#include "model_internal.h"

typedef struct vit_config {
  int64_t hidden, layers, heads, intermediate, channels, patch_height, patch_width;
  const char *act_name, *problem;
  sn_activation act;
  double dropout, attention_dropout, layer_norm_eps, init_range;
  bool qkv_bias;
} vit_config;

static const sn_field fields[] = {
    {"hidden_size", SN_FIELD_INT, offsetof(vit_config, hidden), 1, 1 << 20},
    {"num_hidden_layers", SN_FIELD_INT, offsetof(vit_config, layers), 0, 4096},
    {"num_attention_heads", SN_FIELD_INT, offsetof(vit_config, heads), 1, 1 << 16},
    {"intermediate_size", SN_FIELD_INT, offsetof(vit_config, intermediate), 1, 1 << 24},
    {"hidden_act", SN_FIELD_TEXT, offsetof(vit_config, act_name), 0, 0},
    {"hidden_dropout_prob", SN_FIELD_NUMBER, offsetof(vit_config, dropout), 0, 0.999},
    {"attention_probs_dropout_prob", SN_FIELD_NUMBER, offsetof(vit_config, attention_dropout), 0, 0.999},
    {"initializer_range", SN_FIELD_NUMBER, offsetof(vit_config, init_range), 0, 1},
    {"layer_norm_eps", SN_FIELD_NUMBER, offsetof(vit_config, layer_norm_eps), 0, 1},
    {"num_channels", SN_FIELD_INT, offsetof(vit_config, channels), 1, 1024},
    {"qkv_bias", SN_FIELD_BOOL, offsetof(vit_config, qkv_bias), 0, 0},
    {"problem_type", SN_FIELD_TEXT, offsetof(vit_config, problem), 0, 0},
    {NULL, SN_FIELD_INT, 0, 0, 0}};

/* Read below (sizes), or of parts that a classifier does not have: the pooler, and the decoder of masked image modelling. */
static const char *const neutral[] = {"image_size", "patch_size", "encoder_stride", "pooler_act", "pooler_output_size", NULL};

static const char *const head[] = {"classifier.", NULL};

/* ---- the maths ------------------------------------------------------------------------------------------------------------ */

static sn_tensor embeddings(sn_nn *nn, const vit_config *c, sn_conv_layout layout, sn_tensor images) {
  int64_t batch = sn_tensor_dim(images, 0);
  sn_init init = sn_init_truncated(c->init_range, -2, 2);
  sn_nn_push(nn, "embeddings");
  sn_tensor cls = sn_nn_param(nn, "cls_token", init, SN_DIMS(1, 1, c->hidden));
  sn_tensor patches = sn_patches(nn, "patch_embeddings.projection", images, c->hidden, c->patch_height, c->patch_width, layout);
  sn_tensor x = sn_concat(SN_TENSORS(sn_broadcast_to(cls, SN_DIMS(batch, 1, c->hidden)), patches), 1);
  x = sn_add(x, sn_nn_param(nn, "position_embeddings", init, SN_DIMS(1, sn_tensor_dim(x, 1), c->hidden)));
  x = sn_nn_dropout(nn, x, c->dropout);
  sn_nn_pop(nn);
  return x;
}

static sn_tensor attention(sn_nn *nn, const vit_config *c, sn_tensor x) {
  sn_mha_spec s = {.heads = c->heads, .qkv_bias = c->qkv_bias, .dropout = c->attention_dropout, .query = "attention.query", .key = "attention.key",
                   .value = "attention.value", .out = "output.dense"};
  sn_nn_push(nn, "attention");
  sn_tensor y = sn_nn_dropout(nn, sn_multi_head_attention(nn, x, &s), c->dropout);
  sn_nn_pop(nn);
  return y;
}

static sn_tensor layer(sn_nn *nn, const vit_config *c, sn_tensor x) {
  x = sn_add(attention(nn, c, sn_nn_layer_norm(nn, "layernorm_before", x, c->layer_norm_eps)), x);
  sn_tensor y = sn_nn_layer_norm(nn, "layernorm_after", x, c->layer_norm_eps);
  y = c->act(SN_HERE, sn_linear(nn, "intermediate.dense", y, c->intermediate, true));
  y = sn_nn_dropout(nn, sn_linear(nn, "output.dense", y, c->hidden, true), c->dropout);
  return sn_add(y, x);
}

static sn_tensor forward(void *ctx, sn_nn *nn, sn_tensor images) {
  const sn_model *m = ctx;
  const vit_config *c = m->config;
  sn_nn_set_weight_init(nn, sn_init_truncated(c->init_range, -2, 2));
  sn_nn_push(nn, "vit");
  sn_tensor x = embeddings(nn, c, m->info.layout, images);
  for (int64_t i = 0; i < c->layers; i++) {
    sn_nn_push(nn, "encoder.layer.%lld", (long long)i);
    x = layer(nn, c, x);
    sn_nn_pop(nn);
  }
  x = sn_nn_layer_norm(nn, "layernorm", x, c->layer_norm_eps);
  sn_nn_pop(nn);
  return sn_linear(nn, "classifier", sn_index(x, 1, 0), m->info.n_labels, true);
}

/* ---- the configuration ------------------------------------------------------------------------------------------------------ */

/* A number, or [height, width]. */
static sn_status read_side(const sn_model *m, const char *key, int64_t *height, int64_t *width) {
  const cJSON *e = sn_json_entry(&m->json, key), *h = e, *w = e;
  if (e && cJSON_IsArray(e) && cJSON_GetArraySize(e) == 2) {
    h = cJSON_GetArrayItem(e, 0);
    w = cJSON_GetArrayItem(e, 1);
  }
  if (!e) return SN_OK;
  if (!cJSON_IsNumber(h) || !cJSON_IsNumber(w) || h->valueint < 1 || w->valueint < 1 || h->valueint > 65536 || w->valueint > 65536)
    return sn_error(m->json.d, sn_json_loc(&m->json, key), SN_ERR_ATTRIBUTE, "`%s` must be a positive number, or a list of two: height and width", key);
  *height = h->valueint;
  *width = w->valueint;
  return SN_OK;
}

static sn_status check_sizes(const sn_model *m, const vit_config *c) {
  const sn_json *j = &m->json;
  if (c->hidden % c->heads)
    return sn_error(j->d, sn_json_loc(j, "num_attention_heads"), SN_ERR_ATTRIBUTE, "hidden_size %lld does not divide into %lld heads", (long long)c->hidden,
                    (long long)c->heads);
  if (m->info.height % c->patch_height == 0 && m->info.width % c->patch_width == 0) return SN_OK;
  return sn_error(j->d, sn_json_loc(j, "image_size"), SN_ERR_ATTRIBUTE, "images of %lld x %lld do not divide into patches of %lld x %lld", (long long)m->info.height,
                  (long long)m->info.width, (long long)c->patch_height, (long long)c->patch_width);
}

static sn_status check_task(const sn_model *m, const vit_config *c) {
  const sn_json *j = &m->json;
  const cJSON *a = sn_json_entry(j, "architectures"), *first = a ? cJSON_GetArrayItem(a, 0) : NULL;
  if (c->problem && strcmp(c->problem, "single_label_classification") != 0)
    return sn_error(j->d, sn_json_loc(j, "problem_type"), SN_ERR_UNSUPPORTED, "problem_type `%s`; single_label_classification is known", c->problem);
  if (!first || (cJSON_IsString(first) && (strcmp(first->valuestring, "ViTForImageClassification") == 0 || strcmp(first->valuestring, "ViTModel") == 0)))
    return SN_OK;
  return sn_error(j->d, sn_json_loc(j, "architectures"), SN_ERR_UNSUPPORTED, "architecture `%s`; ViTForImageClassification is known",
                  cJSON_IsString(first) ? first->valuestring : "?");
}

static sn_status read_vit(sn_diag *d, sn_model *m, const sn_model_options *o) {
  vit_config *c = m->config = SN_NEW(m->arena, vit_config);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  *c = (vit_config){.hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072, .channels = 3, .patch_height = 16, .patch_width = 16, .act_name = "gelu",
                    .layer_norm_eps = 1e-12, .init_range = 0.02, .qkv_bias = true};
  m->info.height = m->info.width = 224;
  m->info.head = head;
  SN_TRY(sn_model_read_fields(m, fields, neutral, c));
  SN_TRY(sn_model_activation(m, "hidden_act", c->act_name, &c->act));
  SN_TRY(read_side(m, "image_size", &m->info.height, &m->info.width));
  SN_TRY(read_side(m, "patch_size", &c->patch_height, &c->patch_width));
  SN_TRY(check_task(m, c));
  SN_TRY(check_sizes(m, c));
  SN_TRY(sn_model_read_labels(m, o));
  m->info.channels = c->channels;
  m->spec.forward = forward;
  sn_model_image_input(m);
  return SN_OK;
}

const sn_model_kind sn_model_vit = {"vit", read_vit};
