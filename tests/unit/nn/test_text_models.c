/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* bert and gpt against Hugging Face transformers (tests/data/gpt_tiny/make.py): logits, loss, gradients in f64; greedy tokens; LoRA. */
#include <math.h>
#include <string.h>

#include "nn_tests.h"
#include "sinter/checkpoint.h"

typedef struct fixture {
  sn_diag *d;
  sn_model *model;
  sn_params *tree;
  sn_bundle *weights, *expected, *in;
  sn_array *inputs[2];
  sn_step_options options;
} fixture;

static sn_array *to_s32(const sn_array *a) {
  const sn_shape *s = sn_array_shape(a);
  int32_t values[256];
  ck_assert_int_le(sn_shape_elements(s), 256);
  sn_convert(SN_TYPE_S32, values, s->type, sn_array_data(a), sn_shape_elements(s));
  return s32_array(s->rank, s->dims, values);
}

/* LoRA's parameters are drawn, the others come from the file. */
static void load_weights(fixture *f, const char *folder) {
  sn_bundle *file, *drawn;
  char *path;
  must(f->d, sn_weights_read(f->d, data_path(folder), &file, &path));
  must(f->d, sn_params_init(f->d, f->tree, 1, &drawn));
  for (size_t i = 0; i < sn_bundle_count(drawn); i++)
    if (strstr(sn_bundle_name(drawn, i), "lora_")) must(f->d, sn_bundle_set(file, sn_bundle_name(drawn, i), sn_bundle_at(drawn, i)));
  must(f->d, sn_params_load(f->d, f->tree, path, file, NULL, &f->weights));
  sn_bundle_destroy(file);
  sn_bundle_destroy(drawn);
  sn_free(path);
}

static void begin(fixture *f, const char *folder, int64_t lora) {
  char name[128];
  sn_model_options o;
  sn_model_options_init(&o);
  o.length = 11;
  o.lora_rank = lora;
  o.lora_alpha = 8;
  *f = (fixture){0};
  ck_assert_int_eq(sn_diag_create(&f->d), SN_OK);
  snprintf(name, sizeof name, "%s/config.json", folder);
  must(f->d, sn_model_create(f->d, NULL, data_path(name), &o, &f->model));
  must(f->d, sn_model_declare(f->d, sn_model_get_spec(f->model), &f->tree));
  load_weights(f, folder);
  snprintf(name, sizeof name, "%s/expected.safetensors", folder);
  must(f->d, sn_files_read(f->d, data_path(name), &f->expected));
  snprintf(name, sizeof name, "%s/inputs.safetensors", folder);
  must(f->d, sn_files_read(f->d, data_path(name), &f->in));
  f->inputs[0] = to_s32(sn_bundle_get(f->in, "input_ids"));
  f->inputs[1] = to_s32(sn_bundle_get(f->in, "labels"));
  sn_step_options_init(&f->options);
  f->options.batch = sn_array_shape(f->inputs[0])->dims[0];
}

static void end(fixture *f) {
  sn_array_release(f->inputs[0]);
  sn_array_release(f->inputs[1]);
  sn_bundle_destroy(f->in);
  sn_bundle_destroy(f->expected);
  sn_bundle_destroy(f->weights);
  sn_params_destroy(f->tree);
  sn_model_destroy(f->model);
  sn_diag_destroy(f->d);
}

/* 1e-5 as asked of logits and loss; gradients are sums of up to 44 of their terms, so relative to their largest element too. */
static void check(const char *name, const sn_array *got, const sn_array *want) {
  ck_assert_msg(want, "nothing expected for %s", name);
  int64_t n = sn_shape_elements(sn_array_shape(want));
  const float *a = sn_array_data(got), *b = sn_array_data(want);
  ck_assert_int_eq(sn_shape_elements(sn_array_shape(got)), n);
  double error = 0, scale = 1;
  for (int64_t i = 0; i < n; i++) {
    if (!(fabs((double)a[i] - b[i]) <= error)) error = fabs((double)a[i] - b[i]);
    scale = fmax(scale, fabs(b[i]));
  }
  ck_assert_msg(error <= 1e-5 * scale, "%s: error %g, scale %g", name, error, scale);
}

static const char *const folders[] = {"bert_tiny", "gpt_tiny"};

START_TEST(logits_loss_and_gradients) {
  fixture f;
  sn_step s;
  char name[256];
  begin(&f, folders[_i], 0);
  must(f.d, sn_predict_step_build(f.d, sn_model_get_spec(f.model), f.tree, &f.options, &s));
  sn_array *out = run_step(&s, f.tree, f.weights, NULL, 1, f.inputs);
  check("logits", sn_array_element(out, 0), sn_bundle_get(f.expected, "logits"));
  sn_array_release(out);
  sn_step_finish(&s);
  must(f.d, sn_grad_step_build(f.d, sn_model_get_spec(f.model), f.tree, &f.options, &s));
  out = run_step(&s, f.tree, f.weights, NULL, 2, f.inputs);
  check("loss", sn_array_element(out, 0), sn_bundle_get(f.expected, "loss"));
  for (size_t i = 0; i < sn_params_count(f.tree); i++) {
    snprintf(name, sizeof name, "grad/%s", sn_params_at(f.tree, i)->name);
    check(name, sn_array_element(out, 1 + (int)i), sn_bundle_get(f.expected, name));
  }
  sn_array_release(out);
  sn_step_finish(&s);
  end(&f);
}
END_TEST

/* ---- generation ---------------------------------------------------------------------------------------------------------------- */

enum { PROMPTS = 3, PROMPT = 5, TOTAL = 17, CACHE = 20 };

typedef struct decoder {
  fixture *f;
  sn_array *keys, *values, *position;
} decoder;

/* Runs one chunk; next[PROMPTS] are the likeliest tokens behind it. */
static void decode(decoder *x, const sn_module *m, int64_t chunk, const int32_t *tokens, int32_t *next) {
  sn_array *args[64], *out;
  int n = 0;
  sn_eval_options o;
  const int64_t dims[2] = {PROMPTS, chunk};
  for (size_t i = 0; i < sn_params_count(x->f->tree); i++) args[n++] = sn_bundle_get(x->f->weights, sn_params_at(x->f->tree, i)->name);
  args[n++] = x->keys;
  args[n++] = x->values;
  args[n++] = x->position;
  args[n++] = s32_array(2, dims, tokens);
  sn_eval_options_init(&o);
  must(x->f->d, sn_eval(x->f->d, m, &o, n, args, &out));
  for (int i = n - 4; i < n; i++) sn_array_release(args[i]);
  x->keys = sn_array_retain(sn_array_element(out, 0));
  x->values = sn_array_retain(sn_array_element(out, 1));
  x->position = sn_array_retain(sn_array_element(out, 2));
  memcpy(next, sn_array_data(sn_array_element(out, 3)), PROMPTS * sizeof *next);
  sn_array_release(out);
}

START_TEST(greedy_tokens) {
  fixture f;
  sn_module *prompt, *one;
  begin(&f, "gpt_tiny", 0);
  must(f.d, sn_decode_step_build(f.d, f.model, f.tree, PROMPTS, PROMPT, CACHE, &prompt));
  must(f.d, sn_decode_step_build(f.d, f.model, f.tree, PROMPTS, 1, CACHE, &one));
  ck_assert_int_eq(one->n_aliases, 3);
  static const float noise[2 * PROMPTS * CACHE * 32] = {1e30f}; /* what the cache holds at first must not matter */
  const int64_t cache[5] = {2, PROMPTS, CACHE, 4, 8};
  const int32_t zero = 0;
  decoder x = {&f, f32_array(5, cache, noise), f32_array(5, cache, noise), s32_array(0, NULL, &zero)};
  sn_array *want_array = to_s32(sn_bundle_get(f.in, "generated"));
  const int32_t *want = sn_array_data(want_array);
  int32_t tokens[PROMPTS * PROMPT], next[PROMPTS];
  for (int p = 0; p < PROMPTS; p++) memcpy(tokens + PROMPT * p, want + TOTAL * p, PROMPT * sizeof *tokens);
  decode(&x, prompt, PROMPT, tokens, next);
  for (int t = PROMPT; t < TOTAL; t++) {
    for (int p = 0; p < PROMPTS; p++) ck_assert_msg(next[p] == want[TOTAL * p + t], "prompt %d, token %d: %d, should be %d", p, t, next[p], want[TOTAL * p + t]);
    int32_t last[PROMPTS];
    memcpy(last, next, sizeof last);
    if (t + 1 < TOTAL) decode(&x, one, 1, last, next);
  }
  ck_assert_int_eq(*(const int32_t *)sn_array_data(x.position), TOTAL - 1);
  sn_array_release(x.keys);
  sn_array_release(x.values);
  sn_array_release(x.position);
  sn_array_release(want_array);
  sn_module_destroy(prompt);
  sn_module_destroy(one);
  end(&f);
}
END_TEST

START_TEST(wrong_chunks) {
  fixture f;
  sn_module *m;
  begin(&f, "gpt_tiny", 0);
  ck_assert_int_eq(sn_decode_step_build(f.d, f.model, f.tree, 1, 8, 7, &m), SN_ERR_USAGE);
  ck_assert_int_eq(sn_decode_step_build(f.d, f.model, f.tree, 1, 1, 25, &m), SN_ERR_USAGE);
  end(&f);
  begin(&f, "bert_tiny", 0);
  ck_assert_int_eq(sn_decode_step_build(f.d, f.model, f.tree, 1, 1, 7, &m), SN_ERR_UNSUPPORTED);
  end(&f);
}
END_TEST

/* ---- LoRA ----------------------------------------------------------------------------------------------------------------------- */

START_TEST(lora_begins_as_the_base_and_trains_only_itself) {
  fixture f;
  sn_step s;
  sn_bundle *state;
  size_t n;
  begin(&f, "gpt_tiny", 4);
  must(f.d, sn_params_set_trainable(f.d, f.tree, "lora_", &n));
  ck_assert_uint_eq(n, 4);
  must(f.d, sn_predict_step_build(f.d, sn_model_get_spec(f.model), f.tree, &f.options, &s));
  sn_array *out = run_step(&s, f.tree, f.weights, NULL, 1, f.inputs);
  check("logits", sn_array_element(out, 0), sn_bundle_get(f.expected, "logits"));
  sn_array_release(out);
  sn_step_finish(&s);
  sn_optimizer_init(&f.options.optimizer, SN_ADAM);
  f.options.optimizer.rate = 1e-2;
  must(f.d, sn_train_step_build(f.d, sn_model_get_spec(f.model), f.tree, &f.options, &s));
  ck_assert_int_eq(s.n_state, 1 + 2 * 4);
  must(f.d, sn_step_init_state(f.d, &s, f.weights, &state));
  double losses[4];
  for (int k = 0; k < 4; k++) {
    out = run_step(&s, f.tree, f.weights, state, 2, f.inputs);
    losses[k] = *(const float *)sn_array_data(sn_array_element(out, s.n_params + s.n_state));
    for (int i = 0; i < s.n_params; i++) {
      const char *name = sn_params_at(f.tree, (size_t)i)->name;
      bool same = sn_array_equal(sn_array_element(out, i), sn_bundle_get(f.weights, name));
      if (!strstr(name, "lora_")) ck_assert_msg(same, "%s moved", name);
      if (strstr(name, "lora_B")) ck_assert_msg(!same, "%s did not move", name);
    }
    take_step(&s, f.tree, out, f.weights, state);
    sn_array_release(out);
  }
  ck_assert_msg(losses[3] < losses[0], "from %g to %g", losses[0], losses[3]);
  sn_bundle_destroy(state);
  sn_step_finish(&s);
  end(&f);
}
END_TEST

/* Padding that is masked changes nothing: the same tokens with and without a tail of padding. */
START_TEST(bert_masks_padding) {
  fixture f;
  sn_model_options o;
  sn_model *masked;
  sn_step s;
  begin(&f, "bert_tiny", 0);
  sn_model_options_init(&o);
  o.length = 14;
  o.mask_padding = true;
  must(f.d, sn_model_create(f.d, NULL, data_path("bert_tiny/config.json"), &o, &masked));
  must(f.d, sn_predict_step_build(f.d, sn_model_get_spec(masked), f.tree, &f.options, &s));
  int32_t ids[4 * 14] = {0};
  const int64_t dims[2] = {4, 14};
  for (int r = 0; r < 4; r++) memcpy(ids + 14 * r, (const int32_t *)sn_array_data(f.inputs[0]) + 11 * r, 11 * sizeof *ids);
  sn_array *x = s32_array(2, dims, ids), *out = run_step(&s, f.tree, f.weights, NULL, 1, &x);
  check("logits", sn_array_element(out, 0), sn_bundle_get(f.expected, "logits"));
  sn_array_release(out);
  sn_array_release(x);
  sn_step_finish(&s);
  sn_model_destroy(masked);
  end(&f);
}
END_TEST

TCase *text_models_tests(void) {
  TCase *t = tcase_create("text models");
  tcase_add_loop_test(t, logits_loss_and_gradients, 0, 2);
  tcase_add_test(t, greedy_tokens);
  tcase_add_test(t, wrong_chunks);
  tcase_add_test(t, lora_begins_as_the_base_and_trains_only_itself);
  tcase_add_test(t, bert_masks_padding);
  return t;
}
