/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From options to a trainer that can run: engine, data, model, steps, values. */
#include <string.h>

#include "train.h"

/* ---- where files lie ---------------------------------------------------------------------------------------------------- */

/* The file `name` of a folder given by option, when it is there; freed by sn_free. */
static char *beside(const trainer *t, const char *option, const char *name) {
  const char *path = sn_opt_text(t->o, option);
  if (!path) return NULL;
  sn_str s = {0};
  sn_str_printf(&s, "%s/%s", path, name);
  if (!s.failed && !sn_file_exists(s.data)) { /* a file: look into its folder */
    const char *slash = strrchr(path, '/');
    sn_str_clear(&s);
    sn_str_printf(&s, "%.*s/%s", slash ? (int)(slash - path) : 1, slash ? path : ".", name);
  }
  if (!s.failed && sn_file_exists(s.data)) return s.data;
  sn_str_finish(&s);
  return NULL;
}

/* Given, beside the weights, or in the run that is continued. */
static char *find_file(const trainer *t, const char *option, const char *name) {
  sn_str s = {0};
  bool continues = sn_opt_flag(t->o, "resume") || sn_opt_flag(t->o, "eval-only");
  if (sn_opt_given(t->o, option)) {
    sn_str_add(&s, sn_opt_text(t->o, option));
    return s.data;
  }
  char *found = beside(t, "init", name);
  return found || !continues ? found : beside(t, "checkpoint", name);
}

/* ---- data and model ------------------------------------------------------------------------------------------------------- */

static void data_options(const trainer *t, bool train, sn_dataset_options *o) {
  sn_dataset_options_init(o);
  o->train = train;
  o->seed = (uint64_t)sn_opt_int(t->o, "seed");
  o->val_fraction = sn_opt_number(t->o, "val-fraction");
  o->synthetic_samples = sn_opt_int(t->o, "samples");
  o->height = o->width = sn_opt_int(t->o, "image-size");
}

/* Size and labels of the data as they are, for models that take them from there. Sets without a size of their own say nothing. */
static sn_status peek_data(trainer *t, sn_model_options *mo, sn_dataset **set) {
  const char *spec = sn_opt_text(t->o, "data");
  sn_dataset_options o;
  data_options(t, true, &o);
  mo->height = mo->width = o.height;
  if (strncmp(spec, "synthetic", 9) == 0) {
    mo->channels = 3;
    mo->length = sn_opt_int(t->o, "length");
    return SN_OK;
  }
  if (strncmp(spec, "folder:", 7) == 0 && !o.height) o.height = o.width = 1; /* classes alone */
  SN_TRY(sn_dataset_open(t->d, spec, &o, set));
  const sn_dataset_info *i = sn_dataset_get_info(*set);
  mo->channels = i->channels;
  mo->height = i->height;
  mo->width = i->width;
  mo->length = i->length;
  mo->default_labels = i->n_classes;
  mo->label_names = i->class_names;
  mo->n_label_names = i->class_names ? i->n_classes : 0;
  if (sn_opt_flag(t->o, "new-head") && i->n_classes) mo->n_labels = i->n_classes;
  return SN_OK;
}

static sn_status make_model(trainer *t) {
  sn_model_options mo;
  sn_dataset *set = NULL;
  sn_model_options_init(&mo);
  mo.layout = strcmp(sn_opt_text(t->o, "layout"), "nhwc") == 0 ? SN_NHWC : SN_NCHW;
  mo.lora_rank = sn_opt_int(t->o, "lora");
  mo.lora_alpha = sn_opt_number(t->o, "lora-alpha");
  SN_TRY(peek_data(t, &mo, &set));
  const char *name = sn_opt_text(t->o, "model");
  bool named = sn_model_is_preset(name) && !sn_opt_given(t->o, "config"); /* a preset is meant as it is, whatever lies beside the weights */
  char *config = named ? NULL : find_file(t, "config", "config.json");
  sn_status s = sn_model_create(t->d, name, config, &mo, &t->model);
  sn_free(config);
  sn_dataset_close(set);
  if (s == SN_OK) s = sn_model_declare(t->d, sn_model_get_spec(t->model), &t->tree);
  return s;
}

static bool learns_tokens(const trainer *t) { return sn_model_get_spec(t->model)->loss == SN_LOSS_TOKENS; }

static sn_status open_data(trainer *t) {
  const sn_model_info *i = sn_model_get_info(t->model);
  const char *spec = sn_opt_text(t->o, "data");
  sn_image_transform_init(&t->transform, i->height, i->width);
  char *file = i->channels ? find_file(t, "preprocessor", "preprocessor_config.json") : NULL;
  sn_status s = file ? sn_image_transform_read(t->d, file, &t->transform) : SN_OK;
  sn_free(file);
  for (int train = 1; s == SN_OK && train >= 0; train--) {
    sn_dataset_options o;
    data_options(t, train, &o);
    o.height = i->height;
    o.width = i->width;
    o.channels = i->channels;
    o.n_classes = i->n_labels;
    if (i->vocabulary) {
      o.length = sn_model_get_spec(t->model)->input_dims[0];
      o.vocabulary = i->vocabulary;
      o.token_labels = learns_tokens(t);
    }
    o.transform = &t->transform;
    s = sn_dataset_open(t->d, spec, &o, train ? &t->train_set : &t->test_set);
  }
  return s;
}

static sn_status open_loaders(trainer *t) {
  sn_loader_options o;
  sn_loader_options_init(&o);
  o.batch = sn_opt_int(t->o, "batch");
  o.seed = (uint64_t)sn_opt_int(t->o, "seed");
  o.layout = sn_model_get_info(t->model)->layout == SN_NHWC ? SN_IMAGE_NHWC : SN_IMAGE_NCHW;
  o.pool = t->pool;
  SN_TRY(sn_loader_create(t->d, t->test_set, &o, &t->test_loader));
  if (sn_opt_flag(t->o, "eval-only")) return SN_OK;
  o.shuffle = o.drop_last = true;
  o.flip = sn_opt_flag(t->o, "flip");
  return sn_loader_create(t->d, t->train_set, &o, &t->train_loader);
}

/* ---- steps ----------------------------------------------------------------------------------------------------------------- */

static void count_steps(trainer *t) {
  int64_t n = sn_loader_batches(t->train_loader), steps = sn_opt_int(t->o, "steps");
  t->n_epochs = steps && !sn_opt_given(t->o, "epochs") ? (steps + n - 1) / n : sn_opt_int(t->o, "epochs");
  t->total_steps = t->n_epochs * n;
  if (steps && steps < t->total_steps) t->total_steps = steps;
}

static void optimizer_options(const trainer *t, sn_optimizer *p) {
  const sn_options *o = t->o;
  sn_optimizer_kind kind = SN_SGD;
  bool known = sn_optimizer_from_text(sn_opt_text(o, "optimizer"), &kind);
  sn_assert(known);
  (void)known;
  sn_optimizer_init(p, kind);
  p->rate = sn_opt_number(o, "lr");
  p->momentum = sn_opt_number(o, "momentum");
  p->nesterov = sn_opt_flag(o, "nesterov");
  p->beta1 = sn_opt_number(o, "beta1");
  p->beta2 = sn_opt_number(o, "beta2");
  p->weight_decay = sn_opt_number(o, "weight-decay");
  p->decay_matrices_only = sn_opt_choice(o, "decay") == 1;
  p->clip_norm = sn_opt_number(o, "clip-norm");
  p->schedule = (sn_schedule){.kind = (sn_schedule_kind)sn_opt_choice(o, "schedule"), .warmup_steps = sn_opt_int(o, "warmup-steps"), .total_steps = t->total_steps,
                              .every = sn_opt_int(o, "step-size"), .gamma = sn_opt_number(o, "gamma")};
}

static sn_status make_steps(trainer *t) {
  static const sn_type types[] = {SN_TYPE_F32, SN_TYPE_BF16, SN_TYPE_F16};
  sn_step_options *so = &t->step_options;
  const sn_model_spec *spec = sn_model_get_spec(t->model);
  sn_engine_setup setup = {.pool = t->pool};
  sn_engine_setup_from_options(t->o, &setup);
  setup.passes = &t->passes.options;
  sn_step_options_init(so);
  so->batch = sn_opt_int(t->o, "batch");
  so->accumulate = sn_opt_int(t->o, "accumulate");
  so->compute = types[sn_opt_choice(t->o, "compute")];
  so->label_smoothing = sn_opt_number(t->o, "label-smoothing");
  so->ema = sn_opt_number(t->o, "ema");
  so->seed = (uint64_t)sn_opt_int(t->o, "seed");
  if (t->train_loader) count_steps(t);
  optimizer_options(t, &so->optimizer);
  SN_TRY(sn_pass_setup_init(t->d, t->o, &t->passes));
  SN_TRY(sn_eval_step_build(t->d, spec, t->tree, so, &t->eval));
  SN_TRY(sn_runnable_init(t->d, t->engine, &setup, t->eval.module, &t->eval_run));
  SN_TRY(sn_train_step_build(t->d, spec, t->tree, so, &t->train));
  SN_TRY(sn_runnable_init(t->d, t->engine, &setup, t->train.module, &t->train_run));
  sn_pass_report none = {0};
  return sn_pass_setup_report(t->d, t->o, &t->passes, &none);
}

static sn_status freeze(trainer *t) {
  size_t n = 0;
  const char *regex = sn_opt_text(t->o, "trainable");
  if (sn_opt_int(t->o, "lora") && !regex) regex = "\\.lora_[AB]\\.";
  if (!regex) return SN_OK;
  SN_TRY(sn_params_set_trainable(t->d, t->tree, regex, &n));
  printf("training %zu of %zu parameters\n", n, sn_params_count(t->tree));
  return SN_OK;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static sn_status first_values(trainer *t) {
  sn_bundle *params = NULL, *state = NULL;
  sn_status s = sn_params_init(t->d, t->tree, (uint64_t)sn_opt_int(t->o, "seed"), &params);
  if (s == SN_OK && sn_opt_given(t->o, "init")) s = train_load_init(t, &params);
  if (s == SN_OK) s = sn_step_init_state(t->d, &t->train, params, &state);
  if (s == SN_OK) s = train_set_values(t, params, state);
  sn_bundle_destroy(params);
  sn_bundle_destroy(state);
  return s;
}

static sn_status make_values(trainer *t) {
  bool from_run = sn_opt_flag(t->o, "resume") || (sn_opt_flag(t->o, "eval-only") && !sn_opt_given(t->o, "init"));
  t->n_values = t->train.n_params + t->train.n_state;
  t->values = sn_alloc_zero((size_t)t->n_values, sizeof *t->values);
  if (!t->values) return sn_out_of_memory(t->d, (size_t)t->n_values * sizeof *t->values);
  SN_TRY(first_values(t));
  const char *dir = sn_opt_text(t->o, "checkpoint");
  if (from_run) return train_resume(t);
  if (dir && sn_run_exists(dir) && !sn_opt_flag(t->o, "eval-only"))
    printf("%s holds the state of an earlier run; this one will replace it (--resume would continue it)\n", dir);
  return SN_OK;
}

sn_status train_setup(trainer *t) {
  SN_TRY(sn_engine_from_options(t->d, t->o, "fused", &t->engine, &t->pool));
  SN_TRY(make_model(t));
  SN_TRY(freeze(t));
  SN_TRY(open_data(t));
  SN_TRY(open_loaders(t));
  SN_TRY(make_steps(t));
  SN_TRY(make_values(t));
  const char *board = sn_opt_text(t->o, "tensorboard");
  if (board && !sn_opt_flag(t->o, "eval-only")) SN_TRY(tensorboard_open(t->d, board, &t->board));
  t->unit = learns_tokens(t) ? "tokens" : sn_model_get_info(t->model)->vocabulary ? "sequences" : "images";
  printf("%s: %lld parameters, %lld trainable; %lld training and %lld test %s\n", sn_model_get_info(t->model)->type,
         (long long)sn_params_elements(t->tree, false), (long long)sn_params_elements(t->tree, true), (long long)sn_dataset_get_info(t->train_set)->n,
         (long long)sn_dataset_get_info(t->test_set)->n, sn_model_get_info(t->model)->vocabulary ? "sequences" : "images");
  fflush(stdout);
  report_diagnostics(t);
  return SN_OK;
}

void train_finish(trainer *t) {
  sn_loader_destroy(t->train_loader);
  sn_loader_destroy(t->test_loader);
  sn_dataset_close(t->train_set);
  sn_dataset_close(t->test_set);
  sn_runnable_finish(&t->train_run);
  sn_runnable_finish(&t->eval_run);
  sn_pass_setup_finish(&t->passes);
  sn_step_finish(&t->train);
  sn_step_finish(&t->eval);
  for (int i = 0; t->values && i < t->n_values; i++) sn_array_release(t->values[i]);
  sn_free(t->values);
  sn_free(t->history);
  sn_params_destroy(t->tree);
  sn_model_destroy(t->model);
  if (t->board && tensorboard_close(NULL, t->board) != SN_OK) fprintf(stderr, "%s: the event file could not be closed\n", t->tool->name);
  sn_pool_destroy(t->pool);
}
