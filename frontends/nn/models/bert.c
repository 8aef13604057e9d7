/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* BertForSequenceClassification of Hugging Face transformers: Devlin et al. 2019; post-norm encoder, pooled first token, linear classifier.
 * All token types are 0. Positions hold a token each: transformers' default, which masks nothing unless a mask is given; with options.mask_padding the
 * tokens equal to pad_token_id are not attended to. */
#include <cjson/cJSON.h>
#include <string.h>

#include "model_internal.h"

typedef struct bert_config {
  int64_t vocabulary, hidden, layers, heads, intermediate, positions, token_types, pad_token;
  const char *act_name, *position_type, *problem;
  sn_activation act;
  double dropout, attention_dropout, classifier_dropout, layer_norm_eps, init_range;
  bool mask_padding;
} bert_config;

static const sn_field fields[] = {
    {"vocab_size", SN_FIELD_INT, offsetof(bert_config, vocabulary), 1, 1 << 30},
    {"hidden_size", SN_FIELD_INT, offsetof(bert_config, hidden), 1, 1 << 20},
    {"num_hidden_layers", SN_FIELD_INT, offsetof(bert_config, layers), 0, 4096},
    {"num_attention_heads", SN_FIELD_INT, offsetof(bert_config, heads), 1, 1 << 16},
    {"intermediate_size", SN_FIELD_INT, offsetof(bert_config, intermediate), 1, 1 << 24},
    {"max_position_embeddings", SN_FIELD_INT, offsetof(bert_config, positions), 1, 1 << 24},
    {"type_vocab_size", SN_FIELD_INT, offsetof(bert_config, token_types), 1, 1 << 20},
    {"pad_token_id", SN_FIELD_INT, offsetof(bert_config, pad_token), -1, 1 << 30},
    {"hidden_act", SN_FIELD_TEXT, offsetof(bert_config, act_name), 0, 0},
    {"hidden_dropout_prob", SN_FIELD_NUMBER, offsetof(bert_config, dropout), 0, 0.999},
    {"attention_probs_dropout_prob", SN_FIELD_NUMBER, offsetof(bert_config, attention_dropout), 0, 0.999},
    {"classifier_dropout", SN_FIELD_NUMBER, offsetof(bert_config, classifier_dropout), -1, 0.999},
    {"initializer_range", SN_FIELD_NUMBER, offsetof(bert_config, init_range), 0, 1},
    {"layer_norm_eps", SN_FIELD_NUMBER, offsetof(bert_config, layer_norm_eps), 0, 1},
    {"position_embedding_type", SN_FIELD_TEXT, offsetof(bert_config, position_type), 0, 0},
    {"problem_type", SN_FIELD_TEXT, offsetof(bert_config, problem), 0, 0},
    {NULL, SN_FIELD_INT, 0, 0, 0}};
static const char *const neutral[] = {"gradient_checkpointing", "tie_word_embeddings", NULL}; /* neither is of a classifier's forward pass */
static const char *const head[] = {"classifier.", NULL};

/* ---- the maths ------------------------------------------------------------------------------------------------------------ */

static sn_tensor embeddings(sn_nn *nn, const bert_config *c, sn_tensor ids) {
  int64_t length = sn_tensor_dim(ids, 1);
  sn_nn_push(nn, "embeddings");
  sn_tensor x = sn_embedding(nn, "word_embeddings", ids, c->vocabulary, c->hidden);
  sn_tensor types = sn_nn_param(nn, "token_type_embeddings.weight", sn_init_normal(c->init_range), SN_DIMS(c->token_types, c->hidden));
  sn_tensor positions = sn_nn_param(nn, "position_embeddings.weight", sn_init_normal(c->init_range), SN_DIMS(c->positions, c->hidden));
  x = sn_add(sn_add(x, sn_index(types, 0, 0)), sn_slice_axis(positions, 0, 0, length));
  x = sn_nn_dropout(nn, sn_nn_layer_norm(nn, "LayerNorm", x, c->layer_norm_eps), c->dropout);
  sn_nn_pop(nn);
  return x;
}

/* Every block ends alike: linear map, dropout, the way around it, norm. */
static sn_tensor output(sn_nn *nn, const bert_config *c, const char *name, sn_tensor y, sn_tensor around) {
  sn_nn_push(nn, "%s", name);
  y = sn_nn_dropout(nn, sn_linear(nn, "dense", y, c->hidden, true), c->dropout);
  y = sn_nn_layer_norm(nn, "LayerNorm", sn_add(y, around), c->layer_norm_eps);
  sn_nn_pop(nn);
  return y;
}

static sn_tensor layer(sn_nn *nn, const bert_config *c, sn_tensor x, sn_tensor mask) {
  sn_mha_spec s = {.heads = c->heads, .qkv_bias = true, .dropout = c->attention_dropout, .mask = mask, .query = "query", .key = "key", .value = "value"};
  sn_nn_push(nn, "attention.self");
  sn_tensor y = sn_multi_head_attention(nn, x, &s);
  sn_nn_pop(nn);
  x = output(nn, c, "attention.output", y, x);
  y = c->act(SN_HERE, sn_linear(nn, "intermediate.dense", x, c->intermediate, true));
  return output(nn, c, "output", y, x);
}

/* [batch, 1, 1, length]: true where there is a token. */
static sn_tensor padding_mask(const bert_config *c, sn_tensor ids) {
  sn_tensor none = {0};
  if (!c->mask_padding) return none;
  sn_tensor real = sn_ne(ids, sn_full_like(ids, (double)c->pad_token));
  return sn_reshape(real, SN_DIMS(sn_tensor_dim(ids, 0), 1, 1, sn_tensor_dim(ids, 1)));
}

static sn_tensor forward(void *ctx, sn_nn *nn, sn_tensor ids) {
  const sn_model *m = ctx;
  const bert_config *c = m->config;
  sn_tensor mask = padding_mask(c, ids);
  sn_nn_set_weight_init(nn, sn_init_normal(c->init_range));
  sn_nn_push(nn, "bert");
  sn_tensor x = embeddings(nn, c, ids);
  for (int64_t i = 0; i < c->layers; i++) {
    sn_nn_push(nn, "encoder.layer.%lld", (long long)i);
    x = layer(nn, c, x, mask);
    sn_nn_pop(nn);
  }
  x = sn_tanh(sn_linear(nn, "pooler.dense", sn_index(x, 1, 0), c->hidden, true));
  sn_nn_pop(nn);
  return sn_linear(nn, "classifier", sn_nn_dropout(nn, x, c->classifier_dropout), m->info.n_labels, true);
}

/* ---- the configuration ------------------------------------------------------------------------------------------------------ */

static sn_status check(const sn_model *m, const bert_config *c) {
  const sn_json *j = &m->json;
  const cJSON *a = sn_json_entry(j, "architectures"), *first = a ? cJSON_GetArrayItem(a, 0) : NULL;
  if (strcmp(c->position_type, "absolute") != 0)
    return sn_error(j->d, sn_json_loc(j, "position_embedding_type"), SN_ERR_UNSUPPORTED, "position_embedding_type `%s`; absolute is known", c->position_type);
  if (c->problem && strcmp(c->problem, "single_label_classification") != 0)
    return sn_error(j->d, sn_json_loc(j, "problem_type"), SN_ERR_UNSUPPORTED, "problem_type `%s`; single_label_classification is known", c->problem);
  if (c->hidden % c->heads)
    return sn_error(j->d, sn_json_loc(j, "num_attention_heads"), SN_ERR_ATTRIBUTE, "hidden_size %lld does not divide into %lld heads", (long long)c->hidden, (long long)c->heads);
  if (!first || (cJSON_IsString(first) && (strcmp(first->valuestring, "BertForSequenceClassification") == 0 || strcmp(first->valuestring, "BertModel") == 0)))
    return SN_OK;
  return sn_error(j->d, sn_json_loc(j, "architectures"), SN_ERR_UNSUPPORTED, "architecture `%s`; BertForSequenceClassification is known",
                  cJSON_IsString(first) ? first->valuestring : "?");
}

static sn_status read_bert(sn_diag *d, sn_model *m, const sn_model_options *o) {
  bert_config *c = m->config = SN_NEW(m->arena, bert_config);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  *c = (bert_config){.vocabulary = 30522, .hidden = 768, .layers = 12, .heads = 12, .intermediate = 3072, .positions = 512, .token_types = 2, .act_name = "gelu",
                     .position_type = "absolute", .dropout = 0.1, .attention_dropout = 0.1, .classifier_dropout = -1, .layer_norm_eps = 1e-12, .init_range = 0.02,
                     .mask_padding = o->mask_padding};
  SN_TRY(sn_model_read_fields(m, fields, neutral, c));
  SN_TRY(sn_model_activation(m, "hidden_act", c->act_name, &c->act));
  SN_TRY(check(m, c));
  SN_TRY(sn_model_read_labels(m, o));
  m->info.vocabulary = c->vocabulary;
  if (c->classifier_dropout < 0) c->classifier_dropout = c->dropout;
  m->info.head = head;
  m->spec.forward = forward;
  return sn_model_token_input(m, o->length, c->positions);
}

const sn_model_kind sn_model_bert = {"bert", read_bert};
