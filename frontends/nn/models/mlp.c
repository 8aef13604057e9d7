/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Linear maps with an activation between them, on flattened images: `mlp`, and with none between, `linear` (also with squared errors: a regression). */
#include <cjson/cJSON.h>
#include <string.h>

#include "model_internal.h"

enum { MAX_LAYERS = 64 };

typedef struct mlp_config {
  int n_hidden;
  int64_t hidden[MAX_LAYERS];
  const char *act_name, *loss;
  sn_activation act;
  int64_t channels, height, width;
} mlp_config;

static const sn_field fields[] = {
    {"hidden_act", SN_FIELD_TEXT, offsetof(mlp_config, act_name), 0, 0},
    {"loss", SN_FIELD_TEXT, offsetof(mlp_config, loss), 0, 0},
    {"num_channels", SN_FIELD_INT, offsetof(mlp_config, channels), 1, 1024},
    {"image_height", SN_FIELD_INT, offsetof(mlp_config, height), 1, 65536},
    {"image_width", SN_FIELD_INT, offsetof(mlp_config, width), 1, 65536},
    {NULL, SN_FIELD_INT, 0, 0, 0}};
static const char *const neutral[] = {"hidden_sizes", NULL};
static const char *const head[] = {"classifier.", NULL};

static sn_tensor forward(void *ctx, sn_nn *nn, sn_tensor images) {
  const sn_model *m = ctx;
  const mlp_config *c = m->config;
  char name[32];
  sn_tensor x = sn_reshape(images, SN_DIMS(sn_tensor_dim(images, 0), -1));
  for (int i = 0; i < c->n_hidden; i++) {
    snprintf(name, sizeof name, "layers.%d", i);
    x = c->act(SN_HERE, sn_linear(nn, name, x, c->hidden[i], true));
  }
  return sn_linear(nn, "classifier", x, m->info.n_labels, true);
}

static sn_status read_hidden(const sn_model *m, mlp_config *c) {
  const cJSON *e = sn_json_entry(&m->json, "hidden_sizes");
  int n = e ? cJSON_GetArraySize(e) : 0;
  bool ok = !e || (cJSON_IsArray(e) && n <= MAX_LAYERS);
  for (int i = 0; ok && i < n; i++) {
    const cJSON *v = cJSON_GetArrayItem(e, i);
    ok = cJSON_IsNumber(v) && v->valueint > 0;
    c->hidden[i] = v->valueint;
  }
  c->n_hidden = n;
  return ok ? SN_OK : sn_error(m->json.d, sn_json_loc(&m->json, "hidden_sizes"), SN_ERR_ATTRIBUTE, "`hidden_sizes` must be a list of at most %d positive numbers", MAX_LAYERS);
}

static sn_status settle_images(sn_diag *d, sn_model *m, const mlp_config *c, const sn_model_options *o) {
  m->info.channels = c->channels ? c->channels : o->channels;
  m->info.height = c->height ? c->height : o->height;
  m->info.width = c->width ? c->width : o->width;
  if (m->info.channels && m->info.height && m->info.width) return SN_OK;
  return sn_error(d, (sn_loc){m->json.path, 0, 0}, SN_ERR_ATTRIBUTE, "the size of the images is neither in the configuration nor given by the data");
}

static sn_status read_mlp(sn_diag *d, sn_model *m, const sn_model_options *o) {
  mlp_config *c = m->config = SN_NEW(m->arena, mlp_config);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  *c = (mlp_config){.act_name = "relu", .loss = "cross_entropy"};
  SN_TRY(sn_model_read_fields(m, fields, neutral, c));
  SN_TRY(sn_model_activation(m, "hidden_act", c->act_name, &c->act));
  SN_TRY(read_hidden(m, c));
  SN_TRY(settle_images(d, m, c, o));
  SN_TRY(sn_model_read_labels(m, o));
  if (strcmp(c->loss, "cross_entropy") != 0 && strcmp(c->loss, "mse") != 0)
    return sn_error(d, sn_json_loc(&m->json, "loss"), SN_ERR_ATTRIBUTE, "`loss` `%s`; cross_entropy and mse are known", c->loss);
  m->spec.loss = c->loss[0] == 'm' ? SN_LOSS_MSE : SN_LOSS_CROSS_ENTROPY;
  m->spec.forward = forward;
  m->info.head = head;
  sn_model_image_input(m);
  return SN_OK;
}

const sn_model_kind sn_model_mlp = {"mlp", read_mlp};
const sn_model_kind sn_model_linear = {"linear", read_mlp};
