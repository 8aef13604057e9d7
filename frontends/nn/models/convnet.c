/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A plain convolutional classifier: 3 x 3 convolutions with a norm and an activation, halving the image after each stage, mean over what is left, linear
 * map. In NCHW and NHWC the parameters are the same. */
#include <cjson/cJSON.h>
#include <string.h>

#include "model_internal.h"

enum { MAX_STAGES = 16 };

typedef struct convnet_config {
  int n_stages;
  int64_t stages[MAX_STAGES];
  const char *act_name, *norm;
  sn_activation act;
  int64_t groups, channels, height, width;
} convnet_config;

static const sn_field fields[] = {
    {"hidden_act", SN_FIELD_TEXT, offsetof(convnet_config, act_name), 0, 0},
    {"norm", SN_FIELD_TEXT, offsetof(convnet_config, norm), 0, 0},
    {"norm_groups", SN_FIELD_INT, offsetof(convnet_config, groups), 1, 65536},
    {"num_channels", SN_FIELD_INT, offsetof(convnet_config, channels), 1, 1024},
    {"image_height", SN_FIELD_INT, offsetof(convnet_config, height), 1, 65536},
    {"image_width", SN_FIELD_INT, offsetof(convnet_config, width), 1, 65536},
    {NULL, SN_FIELD_INT, 0, 0, 0}};
static const char *const neutral[] = {"hidden_sizes", NULL};
static const char *const head[] = {"classifier.", NULL};

static sn_tensor normalise(sn_nn *nn, const convnet_config *c, sn_tensor x, int axis) {
  if (strcmp(c->norm, "batch") == 0) return sn_batch_norm(nn, "norm", x, axis, 0.1, 1e-5);
  if (strcmp(c->norm, "group") == 0) return sn_group_norm(nn, "norm", x, axis, c->groups, 1e-5);
  return x;
}

static sn_tensor halve(sn_tensor x, sn_conv_layout layout) {
  const int64_t two[2] = {2, 2};
  int row = layout == SN_NCHW ? 2 : 1;
  if (sn_tensor_dim(x, row) < 2 || sn_tensor_dim(x, row + 1) < 2) return x;
  return sn_max_pool(x, &(sn_pool_options){.layout = layout, .padding = SN_PAD_VALID, .window = two});
}

static sn_tensor forward(void *ctx, sn_nn *nn, sn_tensor x) {
  const sn_model *m = ctx;
  const convnet_config *c = m->config;
  sn_conv_layout layout = m->info.layout;
  int axis = layout == SN_NCHW ? 1 : 3, row = layout == SN_NCHW ? 2 : 1;
  for (int i = 0; i < c->n_stages; i++) {
    sn_conv2d_spec s = {.out = c->stages[i], .kernel = {3, 3}, .pad = {1, 1}, .layout = layout, .bias = strcmp(c->norm, "none") == 0};
    sn_nn_push(nn, "stages.%d", i);
    x = c->act(SN_HERE, normalise(nn, c, sn_conv2d(nn, "conv", x, &s), axis));
    x = halve(x, layout);
    sn_nn_pop(nn);
  }
  return sn_linear(nn, "classifier", sn_mean(x, SN_DIMS(row, row + 1), false), m->info.n_labels, true);
}

static sn_status read_stages(const sn_model *m, convnet_config *c) {
  const cJSON *e = sn_json_entry(&m->json, "hidden_sizes");
  if (!e) return SN_OK;
  int n = cJSON_GetArraySize(e);
  bool ok = cJSON_IsArray(e) && n <= MAX_STAGES;
  for (int i = 0; ok && i < n; i++) {
    const cJSON *v = cJSON_GetArrayItem(e, i);
    ok = cJSON_IsNumber(v) && v->valueint > 0;
    c->stages[i] = v->valueint;
  }
  c->n_stages = n;
  return ok ? SN_OK : sn_error(m->json.d, sn_json_loc(&m->json, "hidden_sizes"), SN_ERR_ATTRIBUTE, "`hidden_sizes` must be a list of at most %d positive numbers", MAX_STAGES);
}

static sn_status read_convnet(sn_diag *d, sn_model *m, const sn_model_options *o) {
  convnet_config *c = m->config = SN_NEW(m->arena, convnet_config);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  *c = (convnet_config){.n_stages = 2, .stages = {32, 64}, .act_name = "relu", .norm = "batch", .groups = 8, .channels = o->channels, .height = o->height,
                        .width = o->width};
  SN_TRY(sn_model_read_fields(m, fields, neutral, c));
  SN_TRY(sn_model_activation(m, "hidden_act", c->act_name, &c->act));
  SN_TRY(read_stages(m, c));
  SN_TRY(sn_model_read_labels(m, o));
  if (strcmp(c->norm, "batch") != 0 && strcmp(c->norm, "group") != 0 && strcmp(c->norm, "none") != 0)
    return sn_error(d, sn_json_loc(&m->json, "norm"), SN_ERR_ATTRIBUTE, "`norm` `%s`; batch, group and none are known", c->norm);
  if (!c->channels || !c->height || !c->width)
    return sn_error(d, (sn_loc){m->json.path, 0, 0}, SN_ERR_ATTRIBUTE, "the size of the images is neither in the configuration nor given by the data");
  m->info.channels = c->channels;
  m->info.height = c->height;
  m->info.width = c->width;
  m->info.head = head;
  m->spec.forward = forward;
  sn_model_image_input(m);
  return SN_OK;
}

const sn_model_kind sn_model_convnet = {"convnet", read_convnet};
