/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* logits MODEL-DIR IN.safetensors OUT.safetensors: what the interpreter makes of `pixel_values` of IN with the model and weights of MODEL-DIR. */
#include "sinter/checkpoint.h"
#include "sinter/eval.h"
#include "sinter/models.h"

enum { MOST_ARGS = 1024 };

typedef struct state {
  sn_diag *d;
  sn_model *model;
  sn_params *tree;
  sn_bundle *file, *weights, *in, *result;
  char *path;
  sn_step step;
  sn_array *out;
} state;

static sn_status run(state *s, const char *dir, const char *in, const char *out) {
  sn_model_options o;
  sn_step_options so;
  sn_array *args[MOST_ARGS];
  char config[4096];
  int n = 0;
  sn_model_options_init(&o);
  sn_step_options_init(&so);
  snprintf(config, sizeof config, "%s/config.json", dir);
  SN_TRY(sn_model_create(s->d, NULL, config, &o, &s->model));
  SN_TRY(sn_model_declare(s->d, sn_model_get_spec(s->model), &s->tree));
  SN_TRY(sn_weights_read(s->d, dir, &s->file, &s->path));
  SN_TRY(sn_params_load(s->d, s->tree, s->path, s->file, NULL, &s->weights));
  SN_TRY(sn_files_read(s->d, in, &s->in));
  sn_array *pixels = sn_bundle_get(s->in, "pixel_values");
  if (!pixels) return sn_error(s->d, SN_NOWHERE, SN_ERR_USAGE, "%s holds no pixel_values", in);
  so.batch = sn_array_shape(pixels)->dims[0];
  SN_TRY(sn_predict_step_build(s->d, sn_model_get_spec(s->model), s->tree, &so, &s->step));
  if (s->step.n_params >= MOST_ARGS) return sn_error(s->d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "more than %d parameters", MOST_ARGS - 1);
  for (int i = 0; i < s->step.n_params; i++) args[n++] = sn_bundle_get(s->weights, sn_params_at(s->tree, (size_t)i)->name);
  args[n++] = pixels;
  SN_TRY(sn_eval(s->d, s->step.module, NULL, n, args, &s->out));
  SN_TRY(sn_bundle_create(&s->result));
  SN_TRY(sn_bundle_set(s->result, "logits", sn_array_element(s->out, 0)));
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
  sn_array_release(s.out);
  sn_step_finish(&s.step);
  sn_bundle_destroy(s.result);
  sn_bundle_destroy(s.in);
  sn_bundle_destroy(s.weights);
  sn_bundle_destroy(s.file);
  sn_free(s.path);
  sn_params_destroy(s.tree);
  sn_model_destroy(s.model);
  sn_diag_destroy(s.d);
  return status == SN_OK ? 0 : 1;
}
