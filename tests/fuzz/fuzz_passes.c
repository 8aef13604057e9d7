/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* fuzz-passes --seeds=FIRST:N | FILE.hlo…: every prefix of every pipeline computes what the module computed. */
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "sinter/text.h"

/* Regrouped sums of some hundred f32 terms of size one, through a few functions that amplify them. */
#define TOLERANCE 2e-4

typedef struct tally { int n_run, n_skipped, n_failed; } tally;

static void report(const char *name, const sn_module *m, const oracle *o) {
  printf("FAILED: %s: pipeline %s, %s, behind pass %s run %d: %s\n", name, o->pipeline, o->numeric == SN_EXACT ? "strict" : "default",
         o->run > 0 ? sn_passes[o->pass].text : "(none)", o->run, o->what);
  sn_module *small = shrink(m, o);
  sn_str text = {0};
  sn_print_options p;
  sn_print_options_init_short(&p);
  sn_hlo_print(&text, small ? small : m, &p);
  if (!text.failed) printf("shrunk (arguments of seed %llu):\n%s\n", (unsigned long long)o->seed, text.data);
  sn_str_finish(&text);
  sn_module_destroy(small);
  printf("again: fuzz-passes %s\n", name);
}

static void check_module(const char *name, const sn_module *m, uint64_t seed, tally *t) {
  static const char *const pipelines[] = {"cpu", "cuda", "op-by-op"};
  for (size_t k = 0; k < sizeof pipelines / sizeof *pipelines; k++) {
    for (int strict = 0; strict < 2; strict++) {
      oracle o;
      bool skipped;
      memset(&o, 0, sizeof o);
      o.pipeline = pipelines[k];
      o.numeric = strict ? SN_EXACT : SN_FORMULA;
      o.tolerance = TOLERANCE;
      o.seed = seed;
      bool ok = oracle_check(m, &o, &skipped);
      t->n_skipped += skipped;
      t->n_run += !skipped;
      if (ok) continue;
      t->n_failed++;
      report(name, m, &o);
      return;
    }
  }
}

static void check_file(const char *path, tally *t) {
  char *text = NULL;
  size_t n;
  sn_diag *d = NULL;
  sn_module *m = NULL;
  if (sn_diag_create(&d) != SN_OK) return;
  if (sn_file_read(d, path, &text, &n) == SN_OK && sn_hlo_parse(d, path, text, n, &m) == SN_OK && sn_module_verify(d, m, 0) == SN_OK) check_module(path, m, 1, t);
  else t->n_failed++;
  sn_diag_print(d, stdout, false);
  sn_module_destroy(m);
  sn_diag_destroy(d);
  sn_free(text);
}

static void check_folder(const char *path, tally *t) {
  sn_arena *a = NULL;
  const char *const *names;
  size_t n = 0;
  if (sn_arena_create(&a) != SN_OK || sn_dir_list(NULL, a, path, &names, &n) != SN_OK) {
    t->n_failed++;
  } else {
    for (size_t k = 0; k < n; k++) {
      size_t length = strlen(names[k]);
      if (length > 4 && strcmp(names[k] + length - 4, ".hlo") == 0) check_file(sn_arena_printf(a, "%s/%s", path, names[k]), t);
    }
  }
  sn_arena_destroy(a);
}

static void check_seeds(const char *range, tally *t) {
  char *end;
  uint64_t first = strtoull(range, &end, 10), n = *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + n; seed++) {
    char name[64];
    snprintf(name, sizeof name, "--seeds=%llu:1", (unsigned long long)seed);
    sn_module *m = random_hlo(seed);
    if (m) check_module(name, m, seed, t);
    else t->n_failed++, printf("FAILED: %s: the generator made no valid module\n", name);
    sn_module_destroy(m);
  }
}

int main(int argc, char **argv) {
  tally t = {0, 0, 0};
  for (int k = 1; k < argc; k++) {
    if (strncmp(argv[k], "--seeds=", 8) == 0) check_seeds(argv[k] + 8, &t);
    else if (strncmp(argv[k], "--folder=", 9) == 0) check_folder(argv[k] + 9, &t);
    else check_file(argv[k], &t);
  }
  printf("%d checks, %d skipped, %d failed\n", t.n_run, t.n_skipped, t.n_failed);
  return t.n_failed || !t.n_run ? 1 : 0;
}
