/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What goes to disk and comes back: states of a run, model folders, --init, --dump-step. */
#include <string.h>

#include "sinter/text.h"
#include "train.h"

sn_status train_set_values(trainer *t, const sn_bundle *params, const sn_bundle *state) {
  for (int i = 0; i < t->n_values; i++) {
    bool is_param = i < t->train.n_params;
    const sn_param *p = is_param ? sn_params_at(t->tree, (size_t)i) : sn_params_at(t->train.state, (size_t)(i - t->train.n_params));
    sn_array *a = sn_bundle_get(is_param ? params : state, p->name);
    sn_assert(a);
    sn_array *old = t->values[i];
    t->values[i] = sn_array_retain(a);
    sn_array_release(old);
  }
  return SN_OK;
}

/* ---- --init --------------------------------------------------------------------------------------------------------- */

static bool begins_with_one_of(const char *name, const char *const *list) {
  for (; *list; list++)
    if (strncmp(name, *list, strlen(*list)) == 0) return true;
  return false;
}

/* Is the parameter drawn anew, whatever the file holds? The classifier of --new-head; what --lora adds, unless the file has it. */
static bool is_fresh(const trainer *t, const sn_bundle *file, const char *name) {
  if (sn_opt_flag(t->o, "new-head") && begins_with_one_of(name, sn_model_get_info(t->model)->head)) return true;
  return sn_opt_int(t->o, "lora") && strstr(name, ".lora_") && !sn_bundle_get(file, name);
}

/* The weights of the file but for the fresh ones, and those of `drawn`. */
static sn_status with_fresh(trainer *t, const sn_bundle *file, const sn_bundle *drawn, sn_bundle **out) {
  SN_TRY(sn_bundle_create(out));
  for (size_t i = 0; i < sn_bundle_count(file); i++)
    if (!is_fresh(t, file, sn_bundle_name(file, i))) SN_TRY(sn_bundle_set(*out, sn_bundle_name(file, i), sn_bundle_at(file, i)));
  for (size_t i = 0; i < sn_bundle_count(drawn); i++)
    if (is_fresh(t, file, sn_bundle_name(drawn, i))) SN_TRY(sn_bundle_set(*out, sn_bundle_name(drawn, i), sn_bundle_at(drawn, i)));
  if (sn_opt_flag(t->o, "new-head")) printf("new classifier: %lld labels\n", (long long)sn_model_get_info(t->model)->n_labels);
  return SN_OK;
}

/* A file saved from the bare encoder (transformers' ViTModel) lacks the "vit." that the classifier's model has before each name. */
static sn_status with_prefix(const sn_bundle *file, const char *prefix, sn_bundle **out) {
  SN_TRY(sn_bundle_create(out));
  for (size_t i = 0; i < sn_bundle_count(file); i++) {
    sn_str name = {0};
    sn_str_printf(&name, "%s%s", prefix, sn_bundle_name(file, i));
    sn_status s = name.failed ? SN_ERR_MEMORY : sn_bundle_set(*out, name.data, sn_bundle_at(file, i));
    sn_str_finish(&name);
    SN_TRY(s);
  }
  return SN_OK;
}

static bool lacks_prefix(const sn_bundle *file, const char *prefix) {
  for (size_t i = 0; i < sn_bundle_count(file); i++)
    if (strncmp(sn_bundle_name(file, i), prefix, strlen(prefix)) == 0) return false;
  return true;
}

static sn_status take_weights(trainer *t, const char *path, const sn_bundle *file, sn_bundle **params) {
  static const char *const ignore[] = {"vit.pooler.", "pooler.", NULL}; /* a part that a classifier does not use */
  sn_bundle *prefixed = NULL, *mixed = NULL, *loaded = NULL;
  bool vit = strcmp(sn_model_get_info(t->model)->type, "vit") == 0;
  sn_status s = vit && lacks_prefix(file, "vit.") ? with_prefix(file, "vit.", &prefixed) : SN_OK;
  if (s == SN_OK && prefixed) file = prefixed;
  bool new_head = sn_opt_flag(t->o, "new-head");
  if (s == SN_OK && (new_head || sn_opt_int(t->o, "lora"))) s = with_fresh(t, file, *params, &mixed);
  if (s != SN_OK) s = sn_out_of_memory(t->d, 0);
  if (s == SN_OK) s = sn_params_load(t->d, t->tree, path, mixed ? mixed : file, vit ? ignore : NULL, &loaded);
  if (s == SN_ERR_MISMATCH && !new_head && *sn_model_get_info(t->model)->head) sn_hint(t->d, "when only the classifier differs, --new-head replaces it");
  sn_bundle_destroy(prefixed);
  sn_bundle_destroy(mixed);
  if (s != SN_OK) return s;
  sn_bundle_destroy(*params);
  *params = loaded;
  return SN_OK;
}

sn_status train_load_init(trainer *t, sn_bundle **params) {
  sn_bundle *file = NULL;
  char *path = NULL;
  SN_TRY(sn_weights_read(t->d, sn_opt_text(t->o, "init"), &file, &path));
  sn_status s = take_weights(t, path, file, params);
  sn_bundle_destroy(file);
  sn_free(path);
  return s;
}

/* ---- saving ---------------------------------------------------------------------------------------------------------- */

static sn_status add_named(sn_bundle *b, const char *prefix, const char *name, sn_array *a) {
  sn_str full = {0};
  sn_str_printf(&full, "%s%s", prefix, name);
  sn_status s = full.failed ? SN_ERR_MEMORY : sn_bundle_set(b, full.data, a);
  sn_str_finish(&full);
  return s;
}

static sn_status add_numbers(sn_bundle *b, const char *name, int rank, const int64_t *dims, const void *data) {
  sn_arena *arena;
  sn_array *a = NULL;
  SN_TRY(sn_arena_create(&arena));
  const sn_shape *shape = sn_shape_array(arena, SN_TYPE_F64, rank, dims);
  sn_status s = shape ? sn_array_create_from(shape, data, &a) : SN_ERR_MEMORY;
  sn_arena_destroy(arena);
  if (s == SN_OK) s = sn_bundle_set(b, name, a);
  sn_array_release(a);
  return s;
}

static sn_status gather_state(const trainer *t, sn_bundle *b) {
  const int64_t history[2] = {(int64_t)t->n_history, TRAIN_COLUMNS}, sums[1] = {4};
  const double now[4] = {t->sums.loss, t->sums.correct, t->sums.samples, t->epoch_seconds};
  for (int i = 0; i < t->train.n_params; i++) SN_TRY(add_named(b, "param/", sn_params_at(t->tree, (size_t)i)->name, t->values[i]));
  for (int i = 0; i < t->train.n_state; i++)
    SN_TRY(add_named(b, "state/", sn_params_at(t->train.state, (size_t)i)->name, t->values[t->train.n_params + i]));
  if (t->n_history) SN_TRY(add_numbers(b, "history", 2, history, t->history));
  return add_numbers(b, "sums", 1, sums, now);
}

static sn_status save_run(trainer *t, const char *dir) {
  sn_run_state s = {.step = t->step, .epoch = t->epoch, .batch = t->batch, .seed = (uint64_t)sn_opt_int(t->o, "seed")};
  bool fresh = !t->saved_once && !sn_opt_flag(t->o, "resume");
  if (sn_bundle_create(&s.arrays) != SN_OK || gather_state(t, s.arrays) != SN_OK) {
    sn_run_state_finish(&s);
    return sn_out_of_memory(t->d, 0);
  }
  sn_status status = fresh ? sn_run_replace(t->d, dir, &s) : sn_run_save(t->d, dir, &s, (int)sn_opt_int(t->o, "keep"));
  sn_run_state_finish(&s);
  return status;
}

/* The running mean of a parameter where one is kept, else the parameter. */
static sn_array *exported(const trainer *t, int i) {
  sn_str name = {0};
  size_t at;
  sn_str_printf(&name, "ema/%s", sn_params_at(t->tree, (size_t)i)->name);
  bool has = !name.failed && sn_params_find(t->train.state, name.data, &at);
  sn_str_finish(&name);
  return has ? t->values[(size_t)t->train.n_params + at] : t->values[i];
}

static sn_status save_model(trainer *t, const char *dir) {
  sn_bundle *b = NULL, *merged = NULL;
  sn_str config = {0}, images = {0};
  sn_status s = sn_bundle_create(&b);
  for (int i = 0; s == SN_OK && i < t->train.n_params; i++) s = sn_bundle_set(b, sn_params_at(t->tree, (size_t)i)->name, exported(t, i));
  sn_str_printf(&config, "%s/config.json", dir);
  sn_str_printf(&images, "%s/preprocessor_config.json", dir);
  if (s != SN_OK || config.failed || images.failed) s = sn_out_of_memory(t->d, 0);
  if (s == SN_OK && sn_opt_int(t->o, "lora")) {
    s = sn_model_merge_lora(t->d, t->model, b, &merged);
    sn_bundle_destroy(b);
    b = merged;
  }
  if (s == SN_OK) s = sn_weights_write(t->d, dir, b);
  if (s == SN_OK) s = sn_model_write_config(t->d, t->model, config.data);
  if (s == SN_OK && sn_model_get_info(t->model)->channels) s = sn_image_transform_write(t->d, images.data, &t->transform, (int)sn_model_get_info(t->model)->channels);
  sn_bundle_destroy(b);
  sn_str_finish(&config);
  sn_str_finish(&images);
  return s;
}

sn_status train_save(trainer *t) {
  const char *dir = sn_opt_text(t->o, "checkpoint");
  if (!dir) return SN_OK;
  sn_status s = save_run(t, dir);
  if (s == SN_OK) {
    t->saved_once = true;
    s = save_model(t, dir);
  }
  if (s == SN_ERR_IO && sn_run_exists(dir)) sn_hint(t->d, "the states written before are whole: make room in %s, then go on with --resume", dir);
  else if (s == SN_ERR_IO) sn_hint(t->d, "make room in %s, or choose another --checkpoint", dir);
  return s;
}

/* ---- resuming ---------------------------------------------------------------------------------------------------------- */

/* Entries "PREFIX/NAME" without the prefix. */
static sn_status part_of(const sn_bundle *from, const char *prefix, sn_bundle **out) {
  size_t n = strlen(prefix);
  SN_TRY(sn_bundle_create(out));
  for (size_t i = 0; i < sn_bundle_count(from); i++)
    if (strncmp(sn_bundle_name(from, i), prefix, n) == 0) SN_TRY(sn_bundle_set(*out, sn_bundle_name(from, i) + n, sn_bundle_at(from, i)));
  return SN_OK;
}

/* Eval only wants the parameters; a run to be continued its whole state. */
static sn_status load_parts(trainer *t, sn_diag *d, const sn_run_state *s, sn_bundle **params, sn_bundle **state) {
  sn_bundle *p = NULL, *q = NULL;
  sn_status status = part_of(s->arrays, "param/", &p);
  if (status == SN_OK) status = part_of(s->arrays, "state/", &q);
  if (status != SN_OK) status = sn_out_of_memory(d, 0);
  if (status == SN_OK) status = sn_params_load(d, t->tree, s->path, p, NULL, params);
  if (status == SN_OK && !sn_opt_flag(t->o, "eval-only")) {
    status = sn_params_load(d, t->train.state, s->path, q, NULL, state);
    if (status != SN_OK) sn_hint(d, "resume with the options of the run: the optimiser, --momentum and --ema decide what its state holds");
  }
  sn_bundle_destroy(p);
  sn_bundle_destroy(q);
  return status;
}

static sn_status accept(void *ctx, sn_diag *d, const sn_run_state *s) {
  trainer *t = ctx;
  sn_bundle *params = NULL, *state = NULL;
  sn_status status = load_parts(t, d, s, &params, &state);
  if (status == SN_OK && !sn_opt_flag(t->o, "eval-only") && s->seed != (uint64_t)sn_opt_int(t->o, "seed")) {
    status = sn_error(d, (sn_loc){s->path, 0, 0}, SN_ERR_MISMATCH, "the run has seed %llu, not %lld", (unsigned long long)s->seed, (long long)sn_opt_int(t->o, "seed"));
    sn_hint(d, "resume with --seed=%llu", (unsigned long long)s->seed);
  }
  sn_bundle_destroy(params);
  sn_bundle_destroy(state);
  return status;
}

static sn_status take_figures(trainer *t, const sn_run_state *s) {
  const sn_array *history = sn_bundle_get(s->arrays, "history"), *sums = sn_bundle_get(s->arrays, "sums");
  if (sums && sn_array_bytes(sums) == 4 * sizeof(double)) {
    const double *v = sn_array_data(sums);
    t->sums = (train_sums){v[0], v[1], v[2]};
    t->epoch_seconds = v[3];
  }
  if (!history || sn_array_bytes(history) % sizeof(train_row)) return SN_OK;
  t->n_history = sn_array_bytes(history) / sizeof(train_row);
  t->history = sn_alloc(sn_array_bytes(history));
  if (!t->history) return sn_out_of_memory(t->d, sn_array_bytes(history));
  memcpy(t->history, sn_array_data(history), sn_array_bytes(history));
  if (t->n_history) t->last_accuracy = t->history[t->n_history - 1].test_accuracy;
  return SN_OK;
}

sn_status train_resume(trainer *t) {
  sn_run_state s;
  sn_bundle *params = NULL, *state = NULL;
  const char *dir = sn_opt_text(t->o, "checkpoint");
  if (!sn_run_exists(dir) && !sn_opt_flag(t->o, "eval-only")) { /* stopped before the first state: a loop that restarts the tool needs no special case */
    printf("%s holds no state of a run yet; beginning anew\n", dir);
    return SN_OK;
  }
  SN_TRY(sn_run_load(t->d, dir, accept, t, &s));
  sn_status status = load_parts(t, t->d, &s, &params, &state);
  if (status == SN_OK && !state) status = sn_step_init_state(t->d, &t->train, params, &state);
  if (status == SN_OK) status = train_set_values(t, params, state);
  if (status == SN_OK && !sn_opt_flag(t->o, "eval-only")) {
    t->step = s.step;
    t->epoch = s.epoch;
    t->batch = s.batch;
    status = take_figures(t, &s);
    printf("continuing %s after step %lld\n", s.path, (long long)s.step);
  }
  sn_bundle_destroy(params);
  sn_bundle_destroy(state);
  sn_run_state_finish(&s);
  return status;
}

/* ---- --dump-step --------------------------------------------------------------------------------------------------------- */

static sn_status add_numbered(sn_bundle *b, const char *kind, int i, sn_array *a) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", kind, i);
  return sn_bundle_set(b, name, a);
}

/* FILE.hlo -> FILE.safetensors */
static void arrays_path(const char *text_path, sn_str *to) {
  const char *dot = strrchr(text_path, '.'), *slash = strrchr(text_path, '/');
  size_t n = dot && (!slash || dot > slash) ? (size_t)(dot - text_path) : strlen(text_path);
  sn_str_add_n(to, text_path, n);
  sn_str_add(to, ".safetensors");
}

static sn_status dump_arrays(sn_diag *d, const char *path, int n, sn_array *const *args, sn_array *result) {
  sn_bundle *b = NULL;
  sn_status s = sn_bundle_create(&b);
  for (int i = 0; s == SN_OK && i < n; i++) s = add_numbered(b, "arg", i, args[i]);
  for (int i = 0; s == SN_OK && i < sn_array_n_elements(result); i++) s = add_numbered(b, "out", i, sn_array_element(result, i));
  if (s != SN_OK) s = sn_out_of_memory(d, 0);
  if (s == SN_OK) s = sn_files_write(d, path, b);
  sn_bundle_destroy(b);
  return s;
}

sn_status train_dump_step(trainer *t, sn_array *const *args, sn_array *result) {
  const char *path = sn_opt_text(t->o, "dump-step");
  sn_str text = {0}, arrays = {0};
  sn_hlo_print(&text, t->train.module, NULL);
  arrays_path(path, &arrays);
  sn_status s = text.failed || arrays.failed ? sn_out_of_memory(t->d, text.n) : sn_file_write(t->d, path, text.data, text.n);
  if (s == SN_OK) s = dump_arrays(t->d, arrays.data, t->n_values + t->train.n_inputs, args, result);
  if (s == SN_OK) printf("first step: %s, %s\n", path, arrays.data);
  sn_str_finish(&text);
  sn_str_finish(&arrays);
  return s;
}
