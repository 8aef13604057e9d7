/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* GPT2LMHeadModel of Hugging Face transformers: Radford et al. 2019; pre-norm decoder, learnt positions, output tied to the embedding.
 * With options.lora_rank its attention's joint projection gets a low-rank companion (Hu et al. 2022, the target that peft takes for GPT-2).
 * Generation runs chunks of tokens against a cache of keys and values (sn_decode_step_build). */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "model_internal.h"

typedef struct gpt_config {
  int64_t vocabulary, positions, hidden, layers, heads, inner;
  const char *act_name;
  sn_activation act;
  double residual_dropout, embedding_dropout, attention_dropout, layer_norm_eps, init_range;
  bool scale, scale_by_layer, upcast, tied;
  int64_t lora_rank;
  double lora_alpha;
} gpt_config;

static const sn_field fields[] = {
    {"vocab_size", SN_FIELD_INT, offsetof(gpt_config, vocabulary), 1, 1 << 30},
    {"n_positions", SN_FIELD_INT, offsetof(gpt_config, positions), 1, 1 << 24},
    {"n_embd", SN_FIELD_INT, offsetof(gpt_config, hidden), 1, 1 << 20},
    {"n_layer", SN_FIELD_INT, offsetof(gpt_config, layers), 0, 4096},
    {"n_head", SN_FIELD_INT, offsetof(gpt_config, heads), 1, 1 << 16},
    {"n_inner", SN_FIELD_INT, offsetof(gpt_config, inner), 1, 1 << 24},
    {"activation_function", SN_FIELD_TEXT, offsetof(gpt_config, act_name), 0, 0},
    {"resid_pdrop", SN_FIELD_NUMBER, offsetof(gpt_config, residual_dropout), 0, 0.999},
    {"embd_pdrop", SN_FIELD_NUMBER, offsetof(gpt_config, embedding_dropout), 0, 0.999},
    {"attn_pdrop", SN_FIELD_NUMBER, offsetof(gpt_config, attention_dropout), 0, 0.999},
    {"layer_norm_epsilon", SN_FIELD_NUMBER, offsetof(gpt_config, layer_norm_eps), 0, 1},
    {"initializer_range", SN_FIELD_NUMBER, offsetof(gpt_config, init_range), 0, 1},
    {"scale_attn_weights", SN_FIELD_BOOL, offsetof(gpt_config, scale), 0, 0},
    {"scale_attn_by_inverse_layer_idx", SN_FIELD_BOOL, offsetof(gpt_config, scale_by_layer), 0, 0},
    {"reorder_and_upcast_attn", SN_FIELD_BOOL, offsetof(gpt_config, upcast), 0, 0}, /* the same in exact arithmetic */
    {"tie_word_embeddings", SN_FIELD_BOOL, offsetof(gpt_config, tied), 0, 0},
    {NULL, SN_FIELD_INT, 0, 0, 0}};
/* Of heads that a language model does not have, or another name for n_positions. */
static const char *const neutral[] = {"summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "n_ctx",
                                      "gradient_checkpointing", NULL};
static const char *const head[] = {NULL};

/* ---- the maths ------------------------------------------------------------------------------------------------------------ */

/* Keys and values of a layer so far, and where this chunk stands; cache.graph NULL: none. */
typedef struct gpt_cache {
  sn_tensor keys, values; /* [layers, batch, positions, heads, head size] */
  sn_tensor position;     /* s32 scalar */
} gpt_cache;

/* transformers' Conv1D: weight[in, out]. */
static sn_tensor conv1d(sn_nn *nn, const char *name, sn_tensor x, int64_t out, double deviation) {
  int64_t in = sn_tensor_dim(x, -1), last[1] = {sn_tensor_rank(x) - 1}, first[1] = {0};
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_init_normal(deviation), SN_DIMS(in, out)), b = sn_nn_param(nn, "bias", sn_init_constant(0), SN_DIMS(out));
  sn_tensor y = sn_add(sn_dot(x, w, &(sn_dot_dims){0, 1, NULL, NULL, last, first}), b);
  sn_nn_pop(nn);
  return y;
}

/* y + (x Aᵀ) Bᵀ alpha / rank; B begins at zero, so the model begins as it was. */
static sn_tensor add_lora(sn_nn *nn, const gpt_config *c, const char *name, sn_tensor x, sn_tensor y) {
  if (!c->lora_rank) return y;
  int64_t in = sn_tensor_dim(x, -1), out = sn_tensor_dim(y, -1), last[1] = {sn_tensor_rank(x) - 1}, second[1] = {1};
  sn_dot_dims dims = {0, 1, NULL, NULL, last, second};
  sn_nn_push(nn, "%s", name);
  sn_tensor a = sn_nn_param(nn, "lora_A.weight", sn_init_torch_linear(in), SN_DIMS(c->lora_rank, in));
  sn_tensor b = sn_nn_param(nn, "lora_B.weight", sn_init_constant(0), SN_DIMS(out, c->lora_rank));
  sn_tensor z = sn_dot(sn_dot(x, a, &dims), b, &dims);
  sn_nn_pop(nn);
  return sn_add(y, sn_mul_c(z, c->lora_alpha / (double)c->lora_rank));
}

/* Writes this chunk's keys (or values) into layer i of the cache and gives the whole layer back, [batch, positions, heads, head size]. */
static sn_tensor through_cache(sn_tensor *cache, sn_tensor chunk, int64_t i, sn_tensor position) {
  sn_graph *g = chunk.graph;
  sn_tensor zero = sn_scalar_i64(g, SN_TYPE_S32, 0), at[5] = {sn_scalar_i64(g, SN_TYPE_S32, i), zero, position, zero, zero};
  *cache = sn_dynamic_update_slice(*cache, sn_expand_dims(chunk, 0), at);
  return sn_index(*cache, 0, i);
}

/* Query t of the chunk sees positions up to position + t: [1, 1, length, positions]. */
static sn_tensor cache_mask(sn_graph *g, int64_t length, int64_t positions, sn_tensor position) {
  sn_tensor query = sn_add(sn_iota(g, SN_TYPE_S32, SN_DIMS(1, 1, length, positions), 2), position);
  return sn_le(sn_iota(g, SN_TYPE_S32, SN_DIMS(1, 1, length, positions), 3), query);
}

static sn_tensor attention(sn_nn *nn, const gpt_config *c, sn_tensor x, int64_t i, gpt_cache *cache) {
  int64_t batch = sn_tensor_dim(x, 0), length = sn_tensor_dim(x, 1), size = c->hidden / c->heads;
  sn_tensor qkv[3], joint = add_lora(nn, c, "c_attn", x, conv1d(nn, "c_attn", x, 3 * c->hidden, c->init_range));
  sn_split(joint, 2, 3, qkv);
  for (int k = 0; k < 3; k++) qkv[k] = sn_reshape(qkv[k], SN_DIMS(batch, length, c->heads, size));
  double scale = c->scale ? 1 / sqrt((double)size) : 1;
  sn_attention_options o = {.scale = c->scale_by_layer ? scale / (double)(i + 1) : scale, .causal = true};
  if (cache) {
    qkv[1] = through_cache(&cache->keys, qkv[1], i, cache->position);
    qkv[2] = through_cache(&cache->values, qkv[2], i, cache->position);
    o.causal = false;
    o.mask = cache_mask(sn_nn_graph(nn), length, sn_tensor_dim(cache->keys, 2), cache->position);
  }
  if (sn_nn_is_training(nn) && c->attention_dropout > 0) {
    o.dropout = c->attention_dropout;
    o.dropout_key = sn_nn_key(nn);
  }
  sn_tensor y = sn_reshape(sn_attention(qkv[0], qkv[1], qkv[2], &o), SN_DIMS(batch, length, c->hidden));
  /* The maps that end a block begin smaller with depth (Radford et al. 2019, section 2.3). */
  y = conv1d(nn, "c_proj", y, c->hidden, c->init_range / sqrt(2.0 * (double)c->layers));
  return sn_nn_dropout(nn, y, c->residual_dropout);
}

static sn_tensor block(sn_nn *nn, const gpt_config *c, sn_tensor x, int64_t i, gpt_cache *cache) {
  sn_tensor y = sn_nn_layer_norm(nn, "ln_1", x, c->layer_norm_eps);
  sn_nn_push(nn, "attn");
  x = sn_add(attention(nn, c, y, i, cache), x);
  sn_nn_pop(nn);
  y = sn_nn_layer_norm(nn, "ln_2", x, c->layer_norm_eps);
  sn_nn_push(nn, "mlp");
  y = c->act(SN_HERE, conv1d(nn, "c_fc", y, c->inner, c->init_range));
  y = conv1d(nn, "c_proj", y, c->hidden, c->init_range / sqrt(2.0 * (double)c->layers));
  y = sn_nn_dropout(nn, y, c->residual_dropout);
  sn_nn_pop(nn);
  return sn_add(x, y);
}

static sn_tensor run(const sn_model *m, sn_nn *nn, sn_tensor ids, gpt_cache *cache) {
  const gpt_config *c = m->config;
  int64_t length = sn_tensor_dim(ids, 1), last[1] = {2}, second[1] = {1};
  sn_nn_push(nn, "transformer");
  sn_tensor wte = sn_nn_param(nn, "wte.weight", sn_init_normal(c->init_range), SN_DIMS(c->vocabulary, c->hidden));
  sn_tensor wpe = sn_nn_param(nn, "wpe.weight", sn_init_normal(c->init_range), SN_DIMS(c->positions, c->hidden));
  sn_tensor places = cache ? sn_dynamic_slice_axis(wpe, 0, cache->position, length) : sn_slice_axis(wpe, 0, 0, length);
  sn_tensor x = sn_nn_dropout(nn, sn_add(sn_take(wte, ids, 0), places), c->embedding_dropout);
  for (int64_t i = 0; i < c->layers; i++) {
    sn_nn_push(nn, "h.%lld", (long long)i);
    x = block(nn, c, x, i, cache);
    sn_nn_pop(nn);
  }
  x = sn_nn_layer_norm(nn, "ln_f", x, c->layer_norm_eps);
  sn_nn_pop(nn);
  sn_tensor out = c->tied ? wte : sn_nn_param(nn, "lm_head.weight", sn_init_normal(c->init_range), SN_DIMS(c->vocabulary, c->hidden));
  return sn_dot(x, out, &(sn_dot_dims){0, 1, NULL, NULL, last, second});
}

static sn_tensor forward(void *ctx, sn_nn *nn, sn_tensor ids) { return run(ctx, nn, ids, NULL); }

/* ---- generation -------------------------------------------------------------------------------------------------------------- */

static sn_status make_values(sn_graph *g, const sn_params *t, sn_tensor **out) {
  size_t n = sn_params_count(t);
  *out = sn_alloc_zero(n + 1, sizeof **out);
  if (!*out) return SN_ERR_MEMORY;
  for (size_t i = 0; i < n; i++) {
    const sn_param *p = sn_params_at(t, i);
    (*out)[i] = sn_parameter(g, p->type, p->rank, p->dims, p->name);
  }
  return SN_OK;
}

static void decode(const sn_model *m, sn_graph *g, sn_nn *nn, int64_t batch, int64_t chunk, int64_t positions) {
  const gpt_config *c = m->config;
  int64_t dims[5] = {c->layers, batch, positions, c->heads, c->hidden / c->heads};
  sn_tensor keys = sn_parameter(g, SN_TYPE_F32, 5, dims, "keys"), values = sn_parameter(g, SN_TYPE_F32, 5, dims, "values");
  sn_tensor position = sn_parameter(g, SN_TYPE_S32, SN_NO_DIMS, "position"), ids = sn_parameter(g, SN_TYPE_S32, SN_DIMS(batch, chunk), "input_ids");
  gpt_cache cache = {keys, values, position};
  sn_tensor logits = sn_index(run(m, nn, ids, &cache), 1, chunk - 1);
  sn_output_aliased(g, cache.keys, "keys", keys);
  sn_output_aliased(g, cache.values, "values", values);
  sn_output_aliased(g, sn_add_c(position, (double)chunk), "position", position);
  sn_output(g, sn_argmax(logits, -1), "next");
  sn_output(g, logits, "logits");
}

sn_status sn_decode_step_build(sn_diag *d, const sn_model *m, sn_params *t, int64_t batch, int64_t chunk, int64_t positions, sn_module **out) {
  sn_graph *g = NULL;
  sn_nn *nn = NULL;
  sn_tensor *values = NULL;
  sn_nn_options o;
  *out = NULL;
  if (m->kind != &sn_model_gpt) return sn_error(d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "a %s does not generate tokens", m->kind->type);
  const gpt_config *c = m->config;
  if (batch < 1 || chunk < 1 || positions < chunk || positions > c->positions)
    return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "chunks of %lld in a cache of %lld; the model has %lld positions", (long long)chunk, (long long)positions, (long long)c->positions);
  sn_nn_options_init(&o);
  sn_status s = sn_graph_create("gpt_decode_step", &g);
  if (s == SN_OK) s = make_values(g, t, &values);
  if (s == SN_OK) s = sn_nn_create(g, t, values, &o, &nn);
  if (s != SN_OK) s = sn_out_of_memory(d, sizeof(void *));
  if (s == SN_OK) {
    decode(m, g, nn, batch, chunk, positions);
    s = sn_graph_finish(g, d, out);
  }
  sn_nn_destroy(nn);
  sn_free(values);
  sn_graph_destroy(g);
  return s;
}

/* ---- LoRA's weights -------------------------------------------------------------------------------------------------------------- */

/* w[in, out] + scale (b[out, rank] a[rank, in])', summed in double. */
static sn_status merged_weight(const sn_array *w, const sn_array *a, const sn_array *b, double scale, sn_array **out) {
  const int64_t in = sn_array_shape(w)->dims[0], n = sn_array_shape(w)->dims[1], rank = sn_array_shape(a)->dims[0];
  const float *pw = sn_array_data(w), *pa = sn_array_data(a), *pb = sn_array_data(b);
  SN_TRY(sn_array_create(sn_array_shape(w), out));
  float *to = sn_array_data(*out);
  for (int64_t i = 0; i < in; i++) {
    for (int64_t o = 0; o < n; o++) {
      double sum = 0;
      for (int64_t r = 0; r < rank; r++) sum += (double)pb[o * rank + r] * pa[r * in + i];
      to[i * n + o] = (float)(pw[i * n + o] + scale * sum);
    }
  }
  return SN_OK;
}

/* NAME.lora_X.weight beside NAME.weight. */
static sn_array *companion(const sn_bundle *weights, const char *name, const char *which) {
  sn_str s = {0};
  size_t n = strlen(name), tail = strlen("weight");
  if (n < tail || strcmp(name + n - tail, "weight") != 0) return NULL;
  sn_str_printf(&s, "%.*slora_%s.weight", (int)(n - tail), name, which);
  sn_array *found = s.failed ? NULL : sn_bundle_get(weights, s.data);
  sn_str_finish(&s);
  return found;
}

sn_status sn_model_merge_lora(sn_diag *d, const sn_model *m, const sn_bundle *weights, sn_bundle **out) {
  const gpt_config *c = m->kind == &sn_model_gpt ? m->config : NULL;
  double scale = c && c->lora_rank ? c->lora_alpha / (double)c->lora_rank : 0;
  sn_status s = sn_bundle_create(out);
  for (size_t i = 0; s == SN_OK && i < sn_bundle_count(weights); i++) {
    const char *name = sn_bundle_name(weights, i);
    sn_array *a = companion(weights, name, "A"), *b = companion(weights, name, "B"), *w = sn_array_retain(sn_bundle_at(weights, i));
    if (a && b) {
      sn_array_release(w);
      s = merged_weight(sn_bundle_at(weights, i), a, b, scale, &w);
    }
    if (s == SN_OK && !strstr(name, ".lora_")) s = sn_bundle_set(*out, name, w);
    sn_array_release(w);
  }
  return s == SN_OK ? SN_OK : sn_out_of_memory(d, 1);
}

/* ---- the configuration ------------------------------------------------------------------------------------------------------ */

static sn_status check(const sn_model *m, const gpt_config *c) {
  const sn_json *j = &m->json;
  const cJSON *a = sn_json_entry(j, "architectures"), *first = a ? cJSON_GetArrayItem(a, 0) : NULL;
  if (c->hidden % c->heads)
    return sn_error(j->d, sn_json_loc(j, "n_head"), SN_ERR_ATTRIBUTE, "n_embd %lld does not divide into %lld heads", (long long)c->hidden, (long long)c->heads);
  if (!first || (cJSON_IsString(first) && (strcmp(first->valuestring, "GPT2LMHeadModel") == 0 || strcmp(first->valuestring, "GPT2Model") == 0))) return SN_OK;
  return sn_error(j->d, sn_json_loc(j, "architectures"), SN_ERR_UNSUPPORTED, "architecture `%s`; GPT2LMHeadModel is known", cJSON_IsString(first) ? first->valuestring : "?");
}

static sn_status read_gpt(sn_diag *d, sn_model *m, const sn_model_options *o) {
  gpt_config *c = m->config = SN_NEW(m->arena, gpt_config);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  *c = (gpt_config){.vocabulary = 50257, .positions = 1024, .hidden = 768, .layers = 12, .heads = 12, .act_name = "gelu_new", .residual_dropout = 0.1,
                    .embedding_dropout = 0.1, .attention_dropout = 0.1, .layer_norm_eps = 1e-5, .init_range = 0.02, .scale = true, .tied = true,
                    .lora_rank = o->lora_rank, .lora_alpha = o->lora_alpha};
  SN_TRY(sn_model_read_fields(m, fields, neutral, c));
  SN_TRY(sn_model_activation(m, "activation_function", c->act_name, &c->act));
  SN_TRY(check(m, c));
  if (!c->inner) c->inner = 4 * c->hidden;
  m->info.n_labels = 0;
  m->info.vocabulary = c->vocabulary;
  m->info.head = head;
  m->spec.forward = forward;
  m->spec.loss = SN_LOSS_TOKENS;
  return sn_model_token_input(m, o->length, c->positions);
}

const sn_model_kind sn_model_gpt = {"gpt2", read_gpt};
