/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* logits MODEL-DIR IN.safetensors OUT.safetensors: what the interpreter makes of `pixel_values` or `input_ids` of IN with the model and weights of
 * MODEL-DIR: `logits`, and `loss` and `grad/NAME` where IN has `labels`. */
#include "sinter/checkpoint.h"
#include "sinter/eval.h"
#include "sinter/models.h"

enum { MOST_ARGS = 1024 };

typedef struct state {
  sn_diag *d;
  sn_model *model;
  sn_params *tree;
  sn_bundle *file, *weights, *in, *result;
  sn_arena *arena;
  sn_array *inputs[2]; /* pixels or ids; labels or NULL */
  char *path;
} state;

/* torch's integers are s64, ours s32. */
static sn_status take_input(state *s, const char *name, sn_array **out) {
  const sn_array *a = sn_bundle_get(s->in, name);
  if (!a) return SN_OK;
  const sn_shape *shape = sn_array_shape(a);
  sn_type type = sn_type_is_integer(shape->type) ? SN_TYPE_S32 : SN_TYPE_F32;
  SN_TRY(sn_array_create(sn_shape_array(s->arena, type, shape->rank, shape->dims), out));
  sn_convert(type, sn_array_data(*out), shape->type, sn_array_data(a), sn_shape_elements(shape));
  return SN_OK;
}

static sn_status take_inputs(state *s, const char *in, sn_model_options *o, sn_step_options *so) {
  SN_TRY(sn_files_read(s->d, in, &s->in));
  SN_TRY(take_input(s, "pixel_values", &s->inputs[0]));
  if (!s->inputs[0]) SN_TRY(take_input(s, "input_ids", &s->inputs[0]));
  SN_TRY(take_input(s, "labels", &s->inputs[1]));
  if (!s->inputs[0]) return sn_error(s->d, SN_NOWHERE, SN_ERR_USAGE, "%s holds no pixel_values and no input_ids", in);
  const sn_shape *shape = sn_array_shape(s->inputs[0]);
  so->batch = shape->dims[0];
  if (shape->rank == 2) o->length = shape->dims[1];
  return SN_OK;
}

static sn_status evaluate(state *s, const sn_step *step, int n_inputs, sn_array **out) {
  sn_array *args[MOST_ARGS];
  int n = 0;
  if (step->n_params + n_inputs > MOST_ARGS) return sn_error(s->d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "more than %d parameters", MOST_ARGS - n_inputs);
  for (int i = 0; i < step->n_params; i++) args[n++] = sn_bundle_get(s->weights, sn_params_at(s->tree, (size_t)i)->name);
  for (int i = 0; i < n_inputs; i++) args[n++] = s->inputs[i];
  return sn_eval(s->d, step->module, NULL, n, args, out);
}

static sn_status keep_gradients(state *s, const sn_array *out) {
  SN_TRY(sn_bundle_set(s->result, "loss", sn_array_element(out, 0)));
  for (size_t i = 0, at = 1; i < sn_params_count(s->tree); i++) {
    char name[512];
    const sn_param *p = sn_params_at(s->tree, i);
    snprintf(name, sizeof name, "grad/%s", p->name);
    if (!p->buffer) SN_TRY(sn_bundle_set(s->result, name, sn_array_element(out, (int)at++)));
  }
  return SN_OK;
}

static sn_status run_steps(state *s, const sn_step_options *so) {
  sn_step step = {0};
  sn_array *out = NULL;
  SN_TRY(sn_predict_step_build(s->d, sn_model_get_spec(s->model), s->tree, so, &step));
  sn_status status = evaluate(s, &step, 1, &out);
  if (status == SN_OK) status = sn_bundle_set(s->result, "logits", sn_array_element(out, 0));
  sn_array_release(out);
  sn_step_finish(&step);
  if (status != SN_OK || !s->inputs[1]) return status;
  out = NULL;
  SN_TRY(sn_grad_step_build(s->d, sn_model_get_spec(s->model), s->tree, so, &step));
  status = evaluate(s, &step, 2, &out);
  if (status == SN_OK) status = keep_gradients(s, out);
  sn_array_release(out);
  sn_step_finish(&step);
  return status;
}

static sn_status run(state *s, const char *dir, const char *in, const char *out) {
  sn_model_options o;
  sn_step_options so;
  char config[4096];
  sn_model_options_init(&o);
  sn_step_options_init(&so);
  SN_TRY(sn_arena_create(&s->arena));
  SN_TRY(take_inputs(s, in, &o, &so));
  snprintf(config, sizeof config, "%s/config.json", dir);
  SN_TRY(sn_model_create(s->d, NULL, config, &o, &s->model));
  SN_TRY(sn_model_declare(s->d, sn_model_get_spec(s->model), &s->tree));
  SN_TRY(sn_weights_read(s->d, dir, &s->file, &s->path));
  SN_TRY(sn_params_load(s->d, s->tree, s->path, s->file, NULL, &s->weights));
  SN_TRY(sn_bundle_create(&s->result));
  SN_TRY(run_steps(s, &so));
  return sn_files_write(s->d, out, s->result);
}

int main(int argc, char **argv) {
  state s = {0};
  if (argc != 4) {
    fprintf(stderr, "usage: logits MODEL-DIR IN.safetensors OUT.safetensors\n");
    return 2;
  }
  if (sn_diag_create(&s.d) != SN_OK) return 1;
  sn_status status = run(&s, argv[1], argv[2], argv[3]);
  sn_diag_print(s.d, stderr, false);
  for (int i = 0; i < 2; i++) sn_array_release(s.inputs[i]);
  sn_bundle_destroy(s.result);
  sn_bundle_destroy(s.in);
  sn_bundle_destroy(s.weights);
  sn_bundle_destroy(s.file);
  sn_free(s.path);
  sn_params_destroy(s.tree);
  sn_model_destroy(s.model);
  sn_arena_destroy(s.arena);
  sn_diag_destroy(s.d);
  return status == SN_OK ? 0 : 1;
}
