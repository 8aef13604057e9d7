/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Neural networks on the graph builder: named parameter trees, layers, losses, optimisers, and training steps as one module.
 *
 * A model is a C function on tensors. It asks for its parameters by name where it uses them (sn_linear(nn, "dense", x, 64, …) asks for dense.weight and
 * dense.bias). Run once over an empty tree, it declares them, in order; run again, it gets them as the module's parameters. One text, no second list.
 *
 *   static sn_tensor model(void *ctx, sn_nn *nn, sn_tensor x) { return sn_linear(nn, "fc", sn_relu(sn_linear(nn, "hidden", x, 64, true)), 10, true); }
 *
 * Layers record their caller's line, as sn_* ops do, and stick their errors in the graph. */
#ifndef SINTER_NN_H
#define SINTER_NN_H

#include "sinter/files.h"
#include "sinter/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- parameter trees ---------------------------------------------------------------------------------------------- */

typedef enum sn_init_kind {
  SN_INIT_CONSTANT,  /* a */
  SN_INIT_NORMAL,    /* mean a, deviation b */
  SN_INIT_TRUNCATED, /* the same, drawn again until within [low, high] */
  SN_INIT_UNIFORM,   /* [low, high) */
  SN_INIT_COPY       /* equal to the parameter whose name follows the first '/' of this one's */
} sn_init_kind;

typedef struct sn_init {
  sn_init_kind kind;
  double a, b, low, high;
} sn_init;

static inline sn_init sn_init_constant(double v) { sn_init i = {SN_INIT_CONSTANT, v, 0, 0, 0}; return i; }
static inline sn_init sn_init_normal(double deviation) { sn_init i = {SN_INIT_NORMAL, 0, deviation, 0, 0}; return i; }
/* Bounds are absolute values, as torch.nn.init.trunc_normal_ has them (-2 and 2 by default: Hugging Face's ViT). */
static inline sn_init sn_init_truncated(double deviation, double low, double high) { sn_init i = {SN_INIT_TRUNCATED, 0, deviation, low, high}; return i; }
static inline sn_init sn_init_uniform(double bound) { sn_init i = {SN_INIT_UNIFORM, 0, 0, -bound, bound}; return i; }
sn_init sn_init_torch_linear(int64_t fan_in);                        /* uniform within 1/sqrt(fan_in): torch.nn.Linear's and Conv2d's own */
sn_init sn_init_xavier_uniform(int64_t fan_in, int64_t fan_out);     /* Glorot and Bengio 2010 */
sn_init sn_init_he_normal(int64_t fan_in);                           /* He et al. 2015 */

typedef struct sn_param {
  const char *name; /* "vit.encoder.layer.0.attention.attention.query.weight" */
  sn_type type;
  int rank;
  const int64_t *dims;
  sn_init init;
  bool trainable;   /* the optimiser moves it */
  bool buffer;      /* state of a layer (running statistics), not a weight: never trained */
} sn_param;

/* Ordered, names unique. */
typedef struct sn_params sn_params;
SN_NODISCARD sn_status sn_params_create(sn_params **out);
void sn_params_destroy(sn_params *t);
size_t sn_params_count(const sn_params *t);
const sn_param *sn_params_at(const sn_params *t, size_t i);
bool sn_params_find(const sn_params *t, const char *name, size_t *index);
/* Name and dims are copied. SN_ERR_NAME: the name is there already. */
SN_NODISCARD sn_status sn_params_add(sn_params *t, const sn_param *p);
int64_t sn_params_elements(const sn_params *t, bool trainable_only);
/* Leaves only those trainable whose names match the POSIX extended regular expression (anywhere in the name). SN_ERR_USAGE, with a hint, when the
 * expression is bad or nothing matches. *n: how many do. */
SN_NODISCARD sn_status sn_params_set_trainable(sn_diag *d, sn_params *t, const char *regex, size_t *n);
/* Values for all, in order: each drawn from the stream of its own name (sinter/random.h), so adding a layer does not change the others. */
SN_NODISCARD sn_status sn_params_init(sn_diag *d, const sn_params *t, uint64_t seed, sn_bundle **out);
/* Takes values for all of t from `from`, converted to the parameter's type; *out in the order of t. What is missing, extra, or has another shape is
 * listed, up to ten of each, as one error at `file` (buffers may be missing: they are initialised; names that match one of `ignore`, a NULL-ended list of
 * prefixes, or NULL, may be extra). */
SN_NODISCARD sn_status sn_params_load(sn_diag *d, const sn_params *t, const char *file, const sn_bundle *from, const char *const *ignore, sn_bundle **out);

/* ---- the context of a model's function -------------------------------------------------------------------------------- */

typedef struct sn_nn sn_nn;

typedef struct sn_nn_options {
  size_t struct_size;
  bool train;      /* dropout drops, batch norm uses the batch's statistics */
  sn_type compute; /* parameters are cast to it where they are used; SN_TYPE_INVALID: as they are */
  sn_tensor key;   /* of dropout; needed when train and a rate is not 0 */
} sn_nn_options;
void sn_nn_options_init(sn_nn_options *o);

/* values NULL: declare into `t` (each parameter becomes a parameter of the graph, of no further use). Else one tensor per entry of t, in order. */
SN_NODISCARD sn_status sn_nn_create(sn_graph *g, sn_params *t, const sn_tensor *values, const sn_nn_options *o, sn_nn **out);
void sn_nn_destroy(sn_nn *nn);
sn_graph *sn_nn_graph(const sn_nn *nn);
bool sn_nn_is_training(const sn_nn *nn);
/* Names asked for between push and pop are "outer.inner.name". printf-like. */
void sn_nn_push(sn_nn *nn, const char *fmt, ...) SN_PRINTF(2, 3);
void sn_nn_pop(sn_nn *nn);
/* The parameter of that name, in the type of the computation. Asked for twice, it is the same one. */
#define sn_nn_param(...) sn_nn_param_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_nn_param_at(sn_loc at, sn_nn *nn, const char *name, sn_init init, int rank, const int64_t *dims);
/* State of a layer, f32; never cast. sn_nn_update gives its value after this step; what the last value is, sn_nn_updated tells the step builder
 * (empty: unchanged). */
#define sn_nn_buffer(...) sn_nn_buffer_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_nn_buffer_at(sn_loc at, sn_nn *nn, const char *name, sn_init init, int rank, const int64_t *dims);
void sn_nn_update(sn_nn *nn, const char *name, sn_tensor value);
sn_tensor sn_nn_updated(const sn_nn *nn, size_t index);
/* A fresh key for dropout, another at each call. Empty when not training. */
sn_tensor sn_nn_key(sn_nn *nn);

/* ---- layers ------------------------------------------------------------------------------------------------------------ */

/* The init of weights that follow within this context (biases are zeros, scales ones); default: torch's own for each layer. */
void sn_nn_set_weight_init(sn_nn *nn, sn_init init);

/* x[…, in] · weight[out, in]ᵀ + bias[out]; parameters name.weight and name.bias. */
#define sn_linear(...) sn_linear_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_linear_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, int64_t out, bool bias);
/* name.weight and name.bias over the last axis. */
#define sn_nn_layer_norm(...) sn_nn_layer_norm_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_nn_layer_norm_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, double eps);
/* name.weight[n, size]; ids: integers. */
#define sn_embedding(...) sn_embedding_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_embedding_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor ids, int64_t n, int64_t size);

typedef struct sn_conv2d_spec {
  int64_t out, kernel[2], stride[2], pad[2]; /* stride 0: 1; the same padding at both ends */
  int64_t groups;                            /* 0: 1 */
  bool bias;
  sn_conv_layout layout;
} sn_conv2d_spec;
/* name.weight[out, in / groups, kh, kw] whatever the layout of the images, name.bias[out]. */
#define sn_conv2d(...) sn_conv2d_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_conv2d_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, const sn_conv2d_spec *s);
/* Non-overlapping patches of images through a linear map, as a convolution of that stride gives them: [batch, rows * columns, out];
 * name.weight[out, channels, p, p], name.bias. */
#define sn_patches(...) sn_patches_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_patches_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor images, int64_t out, int64_t patch_height, int64_t patch_width, sn_conv_layout layout);
/* Over all axes but `axis`: name.weight, .bias, .running_mean, .running_var, with momentum as torch has it (new = (1 - m) old + m batch). */
#define sn_batch_norm(...) sn_batch_norm_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_batch_norm_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, int axis, double momentum, double eps);
/* Channels along `axis` in `groups` groups. */
#define sn_group_norm(...) sn_group_norm_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_group_norm_at(sn_loc at, sn_nn *nn, const char *name, sn_tensor x, int axis, int64_t groups, double eps);
#define sn_nn_dropout(...) sn_nn_dropout_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_nn_dropout_at(sn_loc at, sn_nn *nn, sn_tensor x, double rate);

typedef struct sn_mha_spec {
  int64_t heads;
  bool qkv_bias;
  double dropout; /* of the probabilities */
  bool causal;
  sn_tensor mask; /* as sn_attention's, or empty */
  const char *query, *key, *value, *out; /* names of the four linear maps; out NULL: none */
} sn_mha_spec;
/* Self-attention over x[batch, length, size]. */
#define sn_multi_head_attention(...) sn_multi_head_attention_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_multi_head_attention_at(sn_loc at, sn_nn *nn, sn_tensor x, const sn_mha_spec *s);

/* One of Hugging Face's ACT2FN names; NULL when it is not known here. The list of known names, for messages. */
typedef sn_tensor (*sn_activation)(sn_loc at, sn_tensor x);
sn_activation sn_activation_find(const char *name);
const char *sn_activation_names(void);

/* ---- losses: scalars, means over the batch --------------------------------------------------------------------------------- */

/* logits[n, classes], labels[n] integers. smoothing s: (1 - s) of the label's and s of the mean over all classes, as torch has it. */
#define sn_cross_entropy(...) sn_cross_entropy_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_cross_entropy_at(sn_loc at, sn_tensor logits, sn_tensor labels, double smoothing);
/* targets[n, classes]: probabilities. */
#define sn_soft_cross_entropy(...) sn_soft_cross_entropy_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_soft_cross_entropy_at(sn_loc at, sn_tensor logits, sn_tensor targets);
/* One loss per row; 0 where the label is negative: for sums over part of a batch. */
#define sn_cross_entropy_rows(...) sn_cross_entropy_rows_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_cross_entropy_rows_at(sn_loc at, sn_tensor logits, sn_tensor labels, double smoothing);
#define sn_mse(...) sn_mse_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_mse_at(sn_loc at, sn_tensor x, sn_tensor y); /* mean over all elements */
/* Of logits: max(x, 0) - x y + log(1 + exp(-|x|)), mean over all elements. */
#define sn_bce(...) sn_bce_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_bce_at(sn_loc at, sn_tensor logits, sn_tensor targets);

/* ---- optimisers ---------------------------------------------------------------------------------------------------------------- */

typedef enum sn_schedule_kind { SN_SCHEDULE_CONSTANT, SN_SCHEDULE_COSINE, SN_SCHEDULE_LINEAR, SN_SCHEDULE_STEP } sn_schedule_kind;
/* The rate at step t = 0, 1, …, computed inside the module from its step counter.
 * Before warmup_steps: rate * t / warmup_steps. Then, with p = (t - warmup) / (total - warmup) clamped to [0, 1]: cosine: last + (1 - last) (1 + cos(pi p)) / 2;
 * linear: 1 + (last - 1) p; step: gamma ^ floor((t - warmup) / every); each times the rate. */
typedef struct sn_schedule {
  sn_schedule_kind kind;
  int64_t warmup_steps, total_steps, every;
  double last, gamma;
} sn_schedule;

typedef enum sn_optimizer_kind { SN_SGD, SN_ADAM, SN_ADAMW, SN_LAMB, SN_OPTIMIZER_COUNT } sn_optimizer_kind;
typedef struct sn_optimizer {
  size_t struct_size;
  sn_optimizer_kind kind;
  double rate;                  /* 1e-3 */
  double momentum;              /* sgd; 0: no state */
  bool nesterov;
  double beta1, beta2, epsilon; /* 0.9, 0.999, 1e-8 (lamb: 1e-6) */
  double weight_decay;          /* sgd, adam: added to the gradient; adamw, lamb: decoupled */
  bool decay_matrices_only;     /* spare parameters of rank 0 and 1 (biases, scales of norms); default false, as torch.optim has it */
  double clip_norm;             /* of all gradients together; 0: off */
  sn_schedule schedule;
} sn_optimizer;
void sn_optimizer_init(sn_optimizer *o, sn_optimizer_kind kind);
const char *sn_optimizer_text(sn_optimizer_kind k);
bool sn_optimizer_from_text(const char *text, sn_optimizer_kind *out);
/* Names of the state tensors a parameter has, each of its shape, starting at zero: "momentum"; "m", "v"; none. */
int sn_optimizer_slots(const sn_optimizer *o, const char *names[2]);
/* The rate at step t (f32 scalar of the whole number of steps done before). */
sn_tensor sn_optimizer_rate(const sn_optimizer *o, sn_tensor t);
/* Scales n gradients so that their common norm is at most `limit`: min(1, limit / (norm + 1e-6)), in place. Returns the norm before. */
sn_tensor sn_clip_global_norm(sn_graph *g, int n, sn_tensor *grads, double limit);
/* What the updates of all parameters share at step t, computed once: f32 scalars; all but the rate are empty for sgd. Kingma and Ba, "Adam", 2015 (the bias
 * corrections of section 3); Loshchilov and Hutter, "Decoupled weight decay", 2019 (shrink). */
typedef struct sn_optimizer_scalars {
  sn_tensor rate;   /* sn_optimizer_rate */
  sn_tensor first;  /* 1 / (1 - beta1^(t + 1)), times the rate but for lamb */
  sn_tensor second; /* 1 / sqrt(1 - beta2^(t + 1)) */
  sn_tensor shrink; /* 1 - rate * weight_decay: of adamw */
} sn_optimizer_scalars;
sn_optimizer_scalars sn_optimizer_prepare(const sn_optimizer *o, sn_tensor t);
/* One parameter's new value, of param's shape and type. grad: the same shape; slots[0..sn_optimizer_slots): the same shape, read, and replaced by their new
 * values. lamb: You et al., 2020: the step is scaled by |param| / |update|, of the whole tensor. Errors stick to the graph (sn_graph_status). */
sn_tensor sn_optimizer_update(const sn_optimizer *o, const sn_optimizer_scalars *c, sn_tensor param, sn_tensor grad, sn_tensor slots[2]);

/* ---- steps as modules ------------------------------------------------------------------------------------------------------------ */

typedef sn_tensor (*sn_model_fn)(void *ctx, sn_nn *nn, sn_tensor x);

typedef enum sn_loss_kind { SN_LOSS_CROSS_ENTROPY, SN_LOSS_MSE /* against one-hot labels */, SN_LOSS_TOKENS /* next token: labels are the inputs, shifted */ } sn_loss_kind;

/* What a step needs to know of a model. */
typedef struct sn_model_spec {
  sn_model_fn forward; /* x -> logits[…, classes] */
  void *ctx;           /* must live while steps are built */
  const char *name;    /* of the modules */
  sn_type input_type;
  int input_rank;
  const int64_t *input_dims; /* without the batch */
  const char *input_name;    /* "pixel_values", "input_ids" */
  sn_loss_kind loss;
} sn_model_spec;

/* Runs the model once on a batch of one and gives its parameters. Errors of the model are on d. */
SN_NODISCARD sn_status sn_model_declare(sn_diag *d, const sn_model_spec *m, sn_params **out);

typedef struct sn_step_options {
  size_t struct_size;
  int64_t batch;
  sn_optimizer optimizer;
  double label_smoothing;
  double ema;            /* decay of a running mean of the parameters, kept as state "ema/NAME"; 0: off */
  int64_t accumulate;    /* the batch in so many parts, one after the other (a loop in the module); 1: whole */
  sn_type compute;       /* SN_TYPE_F32, BF16, F16: of activations and products; parameters and state stay f32 */
  double loss_scale;     /* F16: the first scale, halved when a gradient overflows (that step changes nothing), doubled after scale_every good steps */
  int64_t scale_every;   /* 2000 */
  uint64_t seed;         /* of dropout */
} sn_step_options;
void sn_step_options_init(sn_step_options *o);

/* One module: (parameters, state, inputs, labels) -> (parameters, state, metrics); parameters and state are aliased.
 * `state` names and shapes what lies between the parameters and the batch: "step" (s32, steps done), the optimiser's "m/NAME" …, "ema/NAME", "loss_scale",
 * "good_steps". Metrics, in order: loss (f32), correct (s32), rate (f32), and grad_norm (f32) where clipping is on. */
typedef struct sn_step {
  sn_module *module;
  sn_params *state;
  int n_params, n_state, n_inputs, n_metrics;
} sn_step;
enum { SN_METRIC_LOSS, SN_METRIC_CORRECT, SN_METRIC_RATE, SN_METRIC_GRAD_NORM };
SN_NODISCARD sn_status sn_train_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out);
/* (parameters, inputs, labels) -> (sum of losses f32, correct s32, samples s32), over the samples whose label is not negative. */
SN_NODISCARD sn_status sn_eval_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out);
/* (parameters, inputs) -> logits f32 */
SN_NODISCARD sn_status sn_predict_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out);
/* (parameters, inputs, labels) -> (loss, gradient of each trainable parameter): what tests compare. */
SN_NODISCARD sn_status sn_grad_step_build(sn_diag *d, const sn_model_spec *m, sn_params *t, const sn_step_options *o, sn_step *out);
void sn_step_finish(sn_step *s);
/* The first values of state: zeros and constants, EMA copied from the parameters. */
SN_NODISCARD sn_status sn_step_init_state(sn_diag *d, const sn_step *s, const sn_bundle *params, sn_bundle **out);

#ifdef __cplusplus
}
#endif
#endif
