/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Run state. A file is whole or absent by rename; what a disk or a copy tears afterwards is found by the checksum over names and contents. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/checkpoint.h"

#define FORMAT "1" /* of the metadata below */
#define PREFIX "step-"
#define SUFFIX ".safetensors"

void sn_run_state_finish(sn_run_state *s) {
  sn_bundle_destroy(s->arrays);
  sn_free(s->path);
  *s = (sn_run_state){0};
}

/* "DIR/run" or "DIR/run/NAME". */
static char *run_path(const char *dir, const char *name) {
  sn_str s = {0};
  sn_str_printf(&s, name ? "%s/run/%s" : "%s/run", dir, name);
  if (!s.failed) return s.data;
  sn_str_finish(&s);
  return NULL;
}

static uint64_t checksum(const sn_bundle *b, const sn_run_state *s) {
  const int64_t numbers[4] = {s->step, s->epoch, s->batch, (int64_t)s->seed};
  uint64_t h = sn_hash(numbers, sizeof numbers, 0);
  for (size_t i = 0; i < sn_bundle_count(b); i++) {
    const char *name = sn_bundle_name(b, i);
    h ^= sn_array_hash(sn_bundle_at(b, i), sn_hash(name, strlen(name), 1)); /* any order: writers sort as they like */
  }
  return h;
}

/* ---- writing --------------------------------------------------------------------------------------------------------- */

static sn_status set_number(sn_bundle *b, const char *key, const char *format, uint64_t v) {
  char text[32];
  snprintf(text, sizeof text, format, v);
  return sn_bundle_set_metadata(b, key, text);
}

static sn_status describe(sn_bundle *b, const sn_run_state *s) {
  SN_TRY(sn_bundle_set_metadata(b, "sinter.run", FORMAT));
  SN_TRY(set_number(b, "sinter.step", "%" PRIu64, (uint64_t)s->step));
  SN_TRY(set_number(b, "sinter.epoch", "%" PRIu64, (uint64_t)s->epoch));
  SN_TRY(set_number(b, "sinter.batch", "%" PRIu64, (uint64_t)s->batch));
  SN_TRY(set_number(b, "sinter.seed", "%" PRIu64, s->seed));
  return set_number(b, "sinter.checksum", "%016" PRIx64, checksum(s->arrays, s));
}

static bool is_state_name(const char *name) {
  size_t n = strlen(name), p = strlen(PREFIX), q = strlen(SUFFIX);
  return n > p + q && strncmp(name, PREFIX, p) == 0 && strcmp(name + n - q, SUFFIX) == 0;
}

/* Names of the states, oldest first: the numbers have leading zeros, so the sorted order is theirs. */
static sn_status list_states(sn_diag *d, sn_arena *a, const char *dir, const char *const **names, size_t *n) {
  char *run = run_path(dir, NULL);
  const char *const *all = NULL;
  size_t n_all = 0;
  *n = 0;
  sn_status s = run ? SN_OK : sn_out_of_memory(d, strlen(dir));
  if (s == SN_OK && sn_file_exists(run)) s = sn_dir_list(d, a, run, &all, &n_all);
  sn_free(run);
  const char **kept = s == SN_OK ? SN_NEW_N(a, const char *, n_all + 1) : NULL;
  for (size_t i = 0; kept && i < n_all; i++)
    if (is_state_name(all[i])) kept[(*n)++] = all[i];
  *names = kept;
  return s == SN_OK && !kept ? sn_out_of_memory(d, n_all) : s;
}

static sn_status drop_named(sn_diag *d, const char *dir, const char *name) {
  char *path = run_path(dir, name);
  sn_status s = path ? sn_file_remove(d, path) : sn_out_of_memory(d, strlen(dir));
  sn_free(path);
  return s;
}

/* All but the last `keep`, or, with keep 0, all but `only`. */
static sn_status drop_others(sn_diag *d, const char *dir, int keep, const char *only) {
  sn_arena *a;
  const char *const *names;
  size_t n;
  SN_TRY(sn_arena_create(&a));
  sn_status s = list_states(d, a, dir, &names, &n);
  for (size_t i = 0; s == SN_OK && i < n; i++)
    if (keep ? i + (size_t)keep < n : strcmp(names[i], only) != 0) s = drop_named(d, dir, names[i]);
  sn_arena_destroy(a);
  return s;
}

static sn_status write_state(sn_diag *d, const char *dir, const sn_run_state *s, const char *name) {
  char *run = run_path(dir, NULL), *path = run_path(dir, name);
  sn_status status = run && path ? describe(s->arrays, s) : SN_ERR_MEMORY;
  if (status != SN_OK) status = sn_out_of_memory(d, strlen(dir));
  if (status == SN_OK) status = sn_dir_make(d, run);
  if (status == SN_OK) status = sn_files_write(d, path, s->arrays);
  sn_free(run);
  sn_free(path);
  return status;
}

enum { NAME_SIZE = 64 };

static void state_name(const sn_run_state *s, char name[NAME_SIZE]) { snprintf(name, NAME_SIZE, PREFIX "%012" PRId64 SUFFIX, s->step); }

sn_status sn_run_save(sn_diag *d, const char *dir, const sn_run_state *s, int keep) {
  char name[NAME_SIZE];
  state_name(s, name);
  SN_TRY(write_state(d, dir, s, name));
  return keep > 0 ? drop_others(d, dir, keep, name) : SN_OK;
}

sn_status sn_run_replace(sn_diag *d, const char *dir, const sn_run_state *s) {
  char name[NAME_SIZE];
  state_name(s, name);
  SN_TRY(write_state(d, dir, s, name));
  return drop_others(d, dir, 0, name);
}

/* ---- reading --------------------------------------------------------------------------------------------------------- */

static bool get_number(const sn_bundle *b, const char *key, int base, uint64_t *out) {
  const char *text = sn_bundle_metadata(b, key);
  char *end = NULL;
  if (!text || !*text) return false;
  *out = strtoull(text, &end, base);
  return *end == 0;
}

static sn_status check_state(sn_diag *d, sn_run_state *s) {
  const sn_bundle *b = s->arrays;
  const char *format = sn_bundle_metadata(b, "sinter.run");
  uint64_t step, epoch, batch, sum;
  sn_loc at = {s->path, 0, 0};
  if (!format) return sn_error(d, at, SN_ERR_MISMATCH, "not the state of a run: it has no `sinter.run` in its metadata");
  if (strcmp(format, FORMAT) != 0) return sn_error(d, at, SN_ERR_VERSION, "state of format %s; this program reads format " FORMAT, format);
  if (!get_number(b, "sinter.step", 10, &step) || !get_number(b, "sinter.epoch", 10, &epoch) || !get_number(b, "sinter.batch", 10, &batch) ||
      !get_number(b, "sinter.seed", 10, &s->seed) || !get_number(b, "sinter.checksum", 16, &sum) || step > INT64_MAX || epoch > INT64_MAX || batch > INT64_MAX)
    return sn_error(d, at, SN_ERR_CORRUPT, "its metadata lack a number");
  s->step = (int64_t)step;
  s->epoch = (int64_t)epoch;
  s->batch = (int64_t)batch;
  if (checksum(b, s) != sum) return sn_error(d, at, SN_ERR_CORRUPT, "its checksum does not fit: the file was damaged after it was written");
  return SN_OK;
}

/* What is said about a refused state becomes a warning: the run goes on with an older one. */
static void refuse(sn_diag *d, const sn_diag *why, const char *path) {
  for (size_t i = 0; i < sn_diag_stored(why); i++) {
    const sn_diagnostic *x = sn_diag_get(why, i);
    if (x->severity == SN_NOTE) sn_note(d, x->loc, "%s", x->message);
    else sn_warn(d, x->loc.file ? x->loc : (sn_loc){path, 0, 0}, "%s; refused, trying an older state", x->message);
  }
}

static sn_status try_state(sn_diag *d, const char *path, sn_run_accept accept, void *ctx, sn_run_state *out) {
  sn_str copy = {0};
  sn_str_add(&copy, path);
  *out = (sn_run_state){.path = copy.data};
  sn_status s = copy.failed ? SN_ERR_MEMORY : sn_files_read(d, path, &out->arrays);
  if (s == SN_OK) s = check_state(d, out);
  if (s == SN_OK && accept) s = accept(ctx, d, out);
  if (s != SN_OK) sn_run_state_finish(out);
  return s;
}

static sn_status load_newest(sn_diag *d, const char *dir, const char *const *names, size_t n, sn_run_accept accept, void *ctx, sn_run_state *out) {
  sn_diag *why;
  SN_TRY(sn_diag_create(&why));
  sn_status s = SN_ERR_CORRUPT;
  for (size_t i = n; s != SN_OK && i > 0; i--) {
    char *path = run_path(dir, names[i - 1]);
    if (!path) break;
    sn_diag_clear(why);
    s = try_state(why, path, accept, ctx, out);
    if (s != SN_OK) refuse(d, why, path);
    sn_free(path);
  }
  sn_diag_destroy(why);
  if (s == SN_OK) return s;
  s = sn_error(d, (sn_loc){dir, 0, 0}, SN_ERR_CORRUPT, "none of the %zu states of a run here can be used", n);
  sn_hint(d, "start again without --resume, or with another --checkpoint");
  return s;
}

sn_status sn_run_load(sn_diag *d, const char *dir, sn_run_accept accept, void *ctx, sn_run_state *out) {
  sn_arena *a;
  const char *const *names;
  size_t n;
  *out = (sn_run_state){0};
  SN_TRY(sn_arena_create(&a));
  sn_status s = list_states(d, a, dir, &names, &n);
  if (s == SN_OK && n == 0) s = sn_error(d, (sn_loc){dir, 0, 0}, SN_ERR_IO, "no state of a run here");
  if (s == SN_OK) s = load_newest(d, dir, names, n, accept, ctx, out);
  sn_arena_destroy(a);
  return s;
}

bool sn_run_exists(const char *dir) {
  sn_arena *a;
  const char *const *names;
  size_t n = 0;
  if (sn_arena_create(&a) != SN_OK) return false;
  if (list_states(NULL, a, dir, &names, &n) != SN_OK) n = 0;
  sn_arena_destroy(a);
  return n > 0;
}
