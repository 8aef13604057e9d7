/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Layers ask for their parameters by Hugging Face's and torch's names (weight, bias, …), so that checkpoints load as they are. */
#include "nn_internal.h"

#include <string.h>

sn_tensor sn_linear_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, int64_t out, bool bias) {
  int64_t in = sn_tensor_dim(x, -1), contract_x[1] = {sn_tensor_rank(x) - 1}, contract_w[1] = {1}, dims[2] = {out, in};
  sn_graph_pin(nn->g, at);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_nn_weight_init(nn, sn_init_torch_linear(in)), 2, dims);
  sn_tensor y = sn_dot(x, w, &(sn_dot_dims){0, 1, NULL, NULL, contract_x, contract_w});
  if (bias) y = sn_add(y, sn_nn_param(nn, "bias", sn_init_constant(0), 1, &out));
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

sn_tensor sn_nn_layer_norm_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, double eps) {
  int64_t size = sn_tensor_dim(x, -1);
  sn_graph_pin(nn->g, at);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_init_constant(1), 1, &size), b = sn_nn_param(nn, "bias", sn_init_constant(0), 1, &size);
  sn_tensor y = sn_layer_norm(x, w, b, eps);
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

sn_tensor sn_embedding_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor ids, int64_t n, int64_t size) {
  sn_graph_pin(nn->g, at);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_nn_weight_init(nn, sn_init_normal(1)), SN_DIMS(n, size));
  sn_tensor y = sn_take(w, ids, 0);
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

/* ---- images -------------------------------------------------------------------------------------------------------------- */

static int channel_axis(sn_conv_layout layout) { return layout == SN_NCHW ? 1 : 3; }

/* b[c] over x's channels. */
static sn_tensor add_channels(sn_tensor x, sn_tensor b, int axis) {
  int64_t to[1] = {axis};
  return sn_add(x, sn_broadcast_in_dim(b, sn_tensor_rank(x), sn_tensor_dims(x), 1, to));
}

sn_tensor sn_conv2d_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, const sn_conv2d_spec *s) {
  int64_t groups = s->groups ? s->groups : 1, in = sn_tensor_dim(x, channel_axis(s->layout)), fan_in = in / groups * s->kernel[0] * s->kernel[1];
  int64_t stride[2] = {s->stride[0] ? s->stride[0] : 1, s->stride[1] ? s->stride[1] : 1};
  sn_conv_options o = {.layout = s->layout, .padding = SN_PAD_EXPLICIT, .stride = stride, .low = s->pad, .high = s->pad, .groups = groups};
  sn_graph_pin(nn->g, at);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_nn_weight_init(nn, sn_init_torch_linear(fan_in)), SN_DIMS(s->out, in / groups, s->kernel[0], s->kernel[1]));
  if (s->layout == SN_NHWC) w = sn_transpose(w, SN_DIMS(2, 3, 1, 0));
  sn_tensor y = sn_conv(x, w, &o);
  if (s->bias) y = add_channels(y, sn_nn_param(nn, "bias", sn_init_constant(0), 1, &s->out), channel_axis(s->layout));
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

/* Patches do not overlap, so the convolution is a product: each patch becomes a row. That also spares the backward pass two convolutions. */
sn_tensor sn_patches_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor images, int64_t out, int64_t ph, int64_t pw, sn_conv_layout layout) {
  bool nchw = layout == SN_NCHW;
  int64_t n = sn_tensor_dim(images, 0), c = sn_tensor_dim(images, nchw ? 1 : 3), rows = sn_tensor_dim(images, nchw ? 2 : 1) / ph,
          columns = sn_tensor_dim(images, nchw ? 3 : 2) / pw, row = c * ph * pw;
  sn_graph_pin(nn->g, at);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_nn_weight_init(nn, sn_init_torch_linear(row)), SN_DIMS(out, c, ph, pw));
  sn_tensor x;
  if (nchw) {
    x = sn_transpose(sn_reshape(images, SN_DIMS(n, c, rows, ph, columns, pw)), SN_DIMS(0, 2, 4, 1, 3, 5));
  } else {
    x = sn_transpose(sn_reshape(images, SN_DIMS(n, rows, ph, columns, pw, c)), SN_DIMS(0, 1, 3, 2, 4, 5));
    w = sn_transpose(w, SN_DIMS(0, 2, 3, 1));
  }
  x = sn_reshape(x, SN_DIMS(n, rows * columns, row));
  w = sn_reshape(w, SN_DIMS(out, row));
  const int64_t contract_x[1] = {2}, contract_w[1] = {1};
  sn_tensor y = sn_dot(x, w, &(sn_dot_dims){0, 1, NULL, NULL, contract_x, contract_w});
  y = sn_add(y, sn_nn_param(nn, "bias", sn_init_constant(0), 1, &out));
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

/* ---- norms over channels --------------------------------------------------------------------------------------------------- */

static sn_tensor along(sn_tensor v, sn_tensor like, int axis) {
  int64_t to[1] = {axis};
  return sn_broadcast_in_dim(v, sn_tensor_rank(like), sn_tensor_dims(like), 1, to);
}

/* Running statistics keep the unbiased variance, the batch is normalised by the biased one: torch's convention. */
static void update_statistics(sn_nn *nn, sn_tensor mean, sn_tensor var, double momentum, int64_t count, sn_tensor old_mean, sn_tensor old_var) {
  double unbiased = count > 1 ? (double)count / (double)(count - 1) : 1;
  mean = sn_cast(mean, SN_TYPE_F32);
  var = sn_mul_c(sn_cast(var, SN_TYPE_F32), unbiased);
  sn_nn_update(nn, "running_mean", sn_add(sn_mul_c(old_mean, 1 - momentum), sn_mul_c(mean, momentum)));
  sn_nn_update(nn, "running_var", sn_add(sn_mul_c(old_var, 1 - momentum), sn_mul_c(var, momentum)));
}

sn_tensor sn_batch_norm_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, int axis, double momentum, double eps) {
  int64_t c = sn_tensor_dim(x, axis), axes[SN_MAX_RANK], count = c ? sn_tensor_elements(x) / c : 0;
  int n = 0;
  for (int i = 0; i < sn_tensor_rank(x) && i < SN_MAX_RANK; i++)
    if (i != axis) axes[n++] = i;
  sn_graph_pin(nn->g, at);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_init_constant(1), 1, &c), b = sn_nn_param(nn, "bias", sn_init_constant(0), 1, &c);
  sn_tensor old_mean = sn_nn_buffer(nn, "running_mean", sn_init_constant(0), 1, &c), old_var = sn_nn_buffer(nn, "running_var", sn_init_constant(1), 1, &c);
  sn_tensor mean = sn_cast(old_mean, sn_tensor_type(x)), var = sn_cast(old_var, sn_tensor_type(x));
  if (nn->o.train) {
    mean = sn_mean(x, n, axes, false);
    var = sn_var(x, n, axes, false);
    update_statistics(nn, mean, var, momentum, count, old_mean, old_var);
  }
  sn_tensor scale = sn_mul(w, sn_rsqrt(sn_add_c(var, eps)));
  sn_tensor y = sn_add(sn_mul(sn_sub(x, along(mean, x, axis)), along(scale, x, axis)), along(b, x, axis));
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

sn_tensor sn_group_norm_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, int axis, int64_t groups, double eps) {
  int rank = sn_tensor_rank(x), n = 0;
  int64_t c = sn_tensor_dim(x, axis), dims[SN_MAX_RANK], axes[SN_MAX_RANK];
  sn_graph_pin(nn->g, at);
  if (groups < 1 || c % groups || rank >= SN_MAX_RANK) sn_graph_fail(nn->g, at, SN_ERR_SHAPE, "%lld channels do not divide into %lld groups", (long long)c, (long long)groups);
  sn_nn_push(nn, "%s", name);
  sn_tensor w = sn_nn_param(nn, "weight", sn_init_constant(1), 1, &c), b = sn_nn_param(nn, "bias", sn_init_constant(0), 1, &c);
  /* [.., c, ..] as [.., groups, c / groups, ..]: statistics over all but batch and group. */
  for (int i = 0, k = 0; sn_graph_status(nn->g) == SN_OK && i < rank; i++) {
    if (i == axis) dims[k++] = groups;
    else if (i > 0) axes[n++] = k;
    if (i == axis) axes[n++] = k;
    dims[k++] = i == axis ? c / groups : sn_tensor_dim(x, i);
  }
  sn_tensor split = sn_reshape(x, rank + 1, dims);
  sn_tensor mean = sn_mean(split, n, axes, true), var = sn_var(split, n, axes, true);
  sn_tensor y = sn_reshape(sn_mul(sn_sub(split, mean), sn_rsqrt(sn_add_c(var, eps))), rank, sn_tensor_dims(x));
  y = sn_add(sn_mul(y, along(w, y, axis)), along(b, y, axis));
  sn_nn_pop(nn);
  sn_graph_unpin(nn->g);
  return y;
}

/* ---- attention, dropout -------------------------------------------------------------------------------------------------------- */

sn_tensor sn_nn_dropout_at(sn_loc at, sn_nn *nn, sn_tensor x, double rate) {
  if (!nn->o.train || rate == 0) return x;
  sn_graph_pin(nn->g, at);
  if (!sn_tensor_ok(nn->o.key)) sn_graph_fail(nn->g, at, SN_ERR_USAGE, "dropout while training needs sn_nn_options.key");
  sn_tensor y = sn_dropout(x, sn_nn_key(nn), rate);
  sn_graph_unpin(nn->g);
  return y;
}

static sn_tensor split_heads(sn_tensor x, int64_t heads) {
  return sn_reshape(x, SN_DIMS(sn_tensor_dim(x, 0), sn_tensor_dim(x, 1), heads, sn_tensor_dim(x, 2) / heads));
}

sn_tensor sn_multi_head_attention_at(sn_loc at, sn_nn *nn, sn_tensor x, const sn_mha_spec *s) {
  int64_t size = sn_tensor_dim(x, 2);
  sn_tensor none = {0};
  if (sn_tensor_ok(x) && (s->heads < 1 || size % s->heads)) {
    sn_graph_fail(nn->g, at, SN_ERR_SHAPE, "%lld channels do not divide into %lld heads", (long long)size, (long long)s->heads);
    return none;
  }
  sn_graph_pin(nn->g, at);
  sn_tensor q = split_heads(sn_linear(nn, s->query, x, size, s->qkv_bias), s->heads);
  sn_tensor k = split_heads(sn_linear(nn, s->key, x, size, s->qkv_bias), s->heads);
  sn_tensor v = split_heads(sn_linear(nn, s->value, x, size, s->qkv_bias), s->heads);
  sn_attention_options o = {.causal = s->causal, .mask = s->mask};
  if (nn->o.train && s->dropout > 0) {
    o.dropout = s->dropout;
    o.dropout_key = sn_nn_key(nn);
  }
  sn_tensor y = sn_reshape(sn_attention(q, k, v, &o), SN_DIMS(sn_tensor_dim(x, 0), sn_tensor_dim(x, 1), size));
  if (s->out) y = sn_linear(nn, s->out, y, size, true);
  sn_graph_unpin(nn->g);
  return y;
}

/* ---- activations ---------------------------------------------------------------------------------------------------------------- */

static sn_tensor act_tanh(sn_loc at, sn_tensor x) { return sn_unary_at(at, SN_OP_TANH, x); }
static sn_tensor act_sigmoid(sn_loc at, sn_tensor x) { return sn_unary_at(at, SN_OP_LOGISTIC, x); }
static sn_tensor act_linear(sn_loc at, sn_tensor x) { return (void)at, x; }
static sn_tensor act_quick_gelu(sn_loc at, sn_tensor x) {
  return sn_binary_at(at, SN_OP_MULTIPLY, x, sn_unary_at(at, SN_OP_LOGISTIC, sn_binary_c_at(at, SN_OP_MULTIPLY, x, 1.702)));
}

/* Rows of transformers.activations.ACT2FN. gelu_new, gelu_fast and gelu_pytorch_tanh are one formula written three ways. */
static const struct { const char *name; sn_activation fn; } activations[] = {
    {"gelu", sn_gelu_at},       {"gelu_python", sn_gelu_at}, {"gelu_new", sn_gelu_tanh_at}, {"gelu_fast", sn_gelu_tanh_at}, {"gelu_pytorch_tanh", sn_gelu_tanh_at},
    {"quick_gelu", act_quick_gelu}, {"relu", sn_relu_at},    {"silu", sn_silu_at},          {"swish", sn_silu_at},          {"sigmoid", act_sigmoid},
    {"tanh", act_tanh},         {"linear", act_linear},
};

sn_activation sn_activation_find(const char *name) {
  for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
    if (strcmp(activations[i].name, name) == 0) return activations[i].fn;
  return NULL;
}

const char *sn_activation_names(void) { return "gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, quick_gelu, relu, silu, swish, sigmoid, tanh, linear"; }
