/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From a model's name, or a file, to a module with its first arguments. */
#include <math.h>
#include <string.h>

#include "arrays.h"
#include "bench.h"
#include "sinter/models.h"

/* ---- the table ---------------------------------------------------------------------------------------------------------------------- */

typedef struct model_row {
  const char *name;
  int64_t batch, channels, height, width, labels, length; /* 0: as the model has it */
  sn_optimizer_kind optimizer;
  double gflop_a_sample; /* nominal, where the experiment states it; 0: counted in the module */
} model_row;

/* vit-b16 is the experiment: SGD 1e-3 without momentum, cross-entropy, random images. */
static const model_row rows[] = {
    {"vit-b16", 4, 0, 0, 0, 0, 0, SN_SGD, 105.15},  {"vit-tiny", 32, 0, 0, 0, 0, 0, SN_SGD, 0},   {"convnet", 32, 3, 32, 32, 10, 0, SN_SGD, 0},
    {"bert", 4, 0, 0, 0, 0, 128, SN_ADAMW, 0},       {"gpt", 4, 0, 0, 0, 0, 128, SN_ADAMW, 0},
};

static const model_row *find_row(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}

bool bench_model_known(const char *name) { return find_row(name) || bench_small_find(name); }

const char *bench_model_names(void) { return "vit-b16, vit-tiny, convnet, bert, gpt, mlp, linear, linear-regression, matmul, scalar"; }

struct bench_step {
  sn_model *model;
  sn_params *tree;
  sn_step step;
};

/* ---- nominal work ----------------------------------------------------------------------------------------------------------------------- */

static double dot_flops(const sn_instr *i) {
  const sn_shape *lhs = sn_operand_shape(i, 0);
  sn_ints k = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS);
  double n = 2.0 * (double)sn_shape_elements(i->shape);
  for (int64_t a = 0; a < k.n; a++) n *= (double)lhs->dims[k.v[a]];
  return n;
}

/* Pairs of output and kernel positions along one dimension that meet an element of the input, not padding and not a hole of dilation. */
static double window_pairs(const sn_window_dim *w, int64_t in, int64_t out) {
  int64_t n = 0, dilated = in ? (in - 1) * w->lhs_dilate + 1 : 0;
  for (int64_t o = 0; o < out; o++) {
    for (int64_t k = 0; k < w->size; k++) {
      int64_t at = o * w->stride + k * w->rhs_dilate - w->pad_low;
      n += at >= 0 && at < dilated && at % w->lhs_dilate == 0;
    }
  }
  return (double)n;
}

static double conv_flops(const sn_instr *i) {
  const sn_conv_dims *c = sn_instr_conv(i);
  const sn_window *w = sn_instr_window(i);
  const sn_shape *in = sn_operand_shape(i, 0), *kernel = sn_operand_shape(i, 1), *out = i->shape;
  if (!c) return 0;
  double n = 2.0 * (double)out->dims[c->output_batch] * (double)out->dims[c->output_feature] * (double)kernel->dims[c->kernel_input_feature];
  for (int k = 0; w && k < c->n_spatial; k++) n *= window_pairs(&w->dims[k], in->dims[c->input_spatial[k]], out->dims[c->output_spatial[k]]);
  return n;
}

double bench_nominal_flops(const sn_computation *c) {
  double n = 0;
  SN_FOR_INSTRS(i, c) {
    if (i->op == SN_OP_DOT) n += dot_flops(i);
    else if (i->op == SN_OP_CONVOLUTION) n += conv_flops(i);
    else if (i->op == SN_OP_CALL || i->op == SN_OP_FUSION || i->op == SN_OP_WHILE || i->op == SN_OP_CONDITIONAL) {
      for (uint32_t k = 0; k < i->n_called; k++) n += bench_nominal_flops(i->called[k]);
    }
  }
  return n;
}

/* ---- models of frontends/nn ---------------------------------------------------------------------------------------------------------------- */

static void step_destroy(bench_step *b) {
  if (!b) return;
  sn_step_finish(&b->step);
  sn_params_destroy(b->tree);
  sn_model_destroy(b->model);
  sn_free(b);
}

static sn_status build_step(sn_diag *d, const model_row *r, const bench_request *q, int64_t batch, bench_step *b) {
  sn_model_options mo;
  sn_step_options so;
  sn_model_options_init(&mo);
  sn_step_options_init(&so);
  mo.channels = r->channels;
  mo.height = r->height;
  mo.width = r->width;
  mo.n_labels = r->labels;
  mo.length = r->length;
  mo.layout = strcmp(q->layout, "nhwc") == 0 ? SN_NHWC : SN_NCHW;
  SN_TRY(sn_model_create(d, r->name, NULL, &mo, &b->model));
  SN_TRY(sn_model_declare(d, sn_model_get_spec(b->model), &b->tree));
  so.batch = batch;
  sn_optimizer_init(&so.optimizer, r->optimizer);
  so.optimizer.rate = 1e-3;
  return sn_train_step_build(d, sn_model_get_spec(b->model), b->tree, &so, &b->step);
}

static sn_status open_model(sn_diag *d, const model_row *r, const bench_request *q, bench_subject *s) {
  s->name = r->name;
  s->batch = q->batch ? q->batch : r->batch;
  if (!(s->step = sn_alloc_zero(1, sizeof *s->step))) return sn_out_of_memory(d, sizeof *s->step);
  SN_TRY(build_step(d, r, q, s->batch, s->step));
  const sn_model_info *i = sn_model_get_info(s->step->model);
  s->module = s->step->step.module;
  s->layout = !i->channels ? "none" : i->layout == SN_NHWC ? "nhwc" : "nchw";
  s->flops = r->gflop_a_sample > 0 ? r->gflop_a_sample * 1e9 * (double)s->batch : bench_nominal_flops(s->module->entry);
  return SN_OK;
}

static sn_status open_small(sn_diag *d, const bench_small *r, const bench_request *q, bench_subject *s) {
  s->name = r->name;
  s->batch = q->batch ? q->batch : r->batch;
  SN_TRY(r->build(d, s->batch, &s->module, &s->fills));
  s->flops = bench_nominal_flops(s->module->entry);
  return SN_OK;
}

static sn_status open_file(sn_diag *d, const bench_request *q, bench_subject *s) {
  s->name = q->model;
  s->batch = q->batch ? q->batch : 1;
  if (!sn_file_exists(q->model)) {
    const char *names[] = {"vit-b16", "vit-tiny", "convnet", "bert", "gpt", "mlp", "linear", "linear-regression", "matmul", "scalar"};
    const char *near = sn_nearest(q->model, names, sizeof names / sizeof *names);
    sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--model=%s: neither a model nor a file", q->model);
    if (near) sn_hint(d, "did you mean %s? The models are %s", near, bench_model_names());
    else sn_hint(d, "the models are %s", bench_model_names());
    return SN_ERR_USAGE;
  }
  SN_TRY(sn_source_read_one(d, q->model, q->split, &s->source, &s->module));
  s->flops = bench_nominal_flops(s->module->entry);
  return SN_OK;
}

sn_status bench_subject_open(sn_diag *d, const bench_request *q, bench_subject *out) {
  memset(out, 0, sizeof *out);
  out->layout = "none";
  out->seed = "random:0";
  const model_row *r = find_row(q->model);
  const bench_small *small = bench_small_find(q->model);
  if (r) return open_model(d, r, q, out);
  return small ? open_small(d, small, q, out) : open_file(d, q, out);
}

void bench_subject_close(bench_subject *s) {
  if (s->step) step_destroy(s->step); /* with the module */
  else sn_module_destroy(s->module);
  sn_free(s->fills);
  sn_source_finish(&s->source);
  memset(s, 0, sizeof *s);
}

/* ---- arguments --------------------------------------------------------------------------------------------------------------------------------- */

/* splitmix64 (Vigna), uniform in [0, 1). */
static double uniform(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (double)((z ^ (z >> 31)) >> 11) / 9007199254740992.0;
}

static void fill_array(sn_array *a, const bench_fill *f, uint64_t *state) {
  sn_type t = sn_array_shape(a)->type;
  uint8_t *p = sn_array_data(a);
  int64_t n = sn_shape_elements(sn_array_shape(a));
  for (int64_t i = 0; f->kind != BENCH_ZERO && i < n; i++, p += sn_type_bytes(t)) {
    double u = uniform(state);
    sn_store_f64(t, p, f->kind == BENCH_BELOW ? floor(u * f->scale) : (2 * u - 1) * f->scale);
  }
}

static sn_status filled(sn_diag *d, const sn_shape *shape, const bench_fill *f, uint64_t *state, sn_array **out) {
  if (sn_array_create_zero(shape, out) != SN_OK) return sn_out_of_memory(d, (size_t)sn_shape_bytes(shape));
  fill_array(*out, f, state);
  return SN_OK;
}

static sn_status step_values(sn_diag *d, const bench_step *b, sn_array **args) {
  sn_bundle *params = NULL, *state = NULL;
  sn_status s = sn_params_init(d, b->tree, 0, &params);
  if (s == SN_OK) s = sn_step_init_state(d, &b->step, params, &state);
  for (int i = 0; s == SN_OK && i < b->step.n_params + b->step.n_state; i++) {
    bool is_param = i < b->step.n_params;
    const sn_param *p = is_param ? sn_params_at(b->tree, (size_t)i) : sn_params_at(b->step.state, (size_t)(i - b->step.n_params));
    args[i] = sn_array_retain(sn_bundle_get(is_param ? params : state, p->name));
  }
  sn_bundle_destroy(params);
  sn_bundle_destroy(state);
  return s;
}

/* Images from [-1, 1), labels index mod labels, tokens below the vocabulary's usual least size. */
static sn_status step_inputs(sn_diag *d, const bench_step *b, const sn_computation *e, sn_array **args) {
  const sn_model_info *info = sn_model_get_info(b->model);
  uint64_t state = 1;
  for (uint32_t k = (uint32_t)(b->step.n_params + b->step.n_state); k < e->n_params; k++) {
    const sn_shape *shape = e->params[k]->shape;
    bench_fill f = {shape->type == SN_TYPE_F32 ? BENCH_UNIFORM : BENCH_BELOW, shape->type == SN_TYPE_F32 ? 1 : info->n_labels ? (double)info->n_labels : 1000};
    SN_TRY(filled(d, shape, &f, &state, &args[k]));
    if (shape->type != SN_TYPE_S32 || shape->rank != 1) continue;
    for (int64_t i = 0; i < shape->dims[0]; i++) ((int32_t *)sn_array_data(args[k]))[i] = (int32_t)(i % (info->n_labels ? info->n_labels : 2));
  }
  return SN_OK;
}

sn_status bench_arguments(sn_diag *d, const bench_subject *s, sn_array ***out) {
  const sn_computation *e = s->module->entry;
  uint64_t state = 0;
  if (!s->step && !s->fills) return sn_inputs_read(d, s->module, 1, &s->seed, NULL, out);
  *out = sn_alloc_zero(e->n_params + 1u, sizeof **out);
  if (!*out) return sn_out_of_memory(d, sizeof **out);
  sn_status status = SN_OK;
  if (s->step) status = step_values(d, s->step, *out);
  if (s->step && status == SN_OK) status = step_inputs(d, s->step, e, *out);
  for (uint32_t k = 0; s->fills && status == SN_OK && k < e->n_params; k++) status = filled(d, e->params[k]->shape, &s->fills[k], &state, &(*out)[k]);
  if (status == SN_OK) return SN_OK;
  sn_arrays_release(e->n_params, *out);
  *out = NULL;
  return status;
}

/* ---- batches from the loader ------------------------------------------------------------------------------------------------------------------------ */

sn_status bench_loader_open(sn_diag *d, const bench_subject *s, sn_pool *pool, sn_dataset **set, sn_loader **out) {
  const sn_model_info *i = s->step ? sn_model_get_info(s->step->model) : NULL;
  sn_dataset_options so;
  sn_loader_options lo;
  *set = NULL;
  *out = NULL;
  if (!i || !i->channels) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--data=loader: %s does not read images", s->name);
  sn_dataset_options_init(&so);
  sn_loader_options_init(&lo);
  so.train = true;
  so.channels = i->channels;
  so.height = i->height;
  so.width = i->width;
  so.n_classes = i->n_labels;
  so.synthetic_samples = 16 * s->batch;
  lo.batch = s->batch;
  lo.shuffle = lo.drop_last = true;
  lo.layout = i->layout == SN_NHWC ? SN_IMAGE_NHWC : SN_IMAGE_NCHW;
  lo.pool = pool;
  SN_TRY(sn_dataset_open(d, "synthetic", &so, set));
  return sn_loader_create(d, *set, &lo, out);
}
