/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every golden program compiled for a CUDA target: its kernels become CUDA C that NVRTC takes, and none of them spills registers.
 * Usage: gpu-compile ENGINE TARGET [PROGRAM | some]; `some`: a few programs that together hold most kinds of kernels. Exit 77 where NVRTC is missing. */
#include <cJSON.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sinter/compiler.h"
#include "sinter/gpu.h"
#include "sinter/text.h"

enum { LEAST_PROGRAMS = 40, NOT_RUN = 77 };

typedef struct totals {
  int programs, failed, unsupported;
  int64_t kernels, spilling;
  double seconds;
} totals;

static char *read_text(const char *path, size_t *n) {
  gzFile f = gzopen(path, "rb"); /* reads plain files as they are */
  size_t cap = 1 << 24;
  char *text = f ? malloc(cap) : NULL;
  int got = text ? gzread(f, text, (unsigned)cap - 1) : 0;
  *n = got > 0 ? (size_t)got : 0;
  if (text) text[*n] = 0;
  if (f) gzclose(f);
  return text;
}

/* Lines that spill. */
static int64_t count_spills(const char *program, const char *resources) {
  int64_t n = 0;
  for (const char *at = resources; at && *at;) {
    size_t length = strcspn(at, "\n");
    const char *spilled = strstr(at, " bytes spilled");
    const char *number = spilled;
    while (number && number > at && number[-1] != ' ') number--;
    if (spilled && spilled < at + length && atoi(number) > 0) {
      printf("%s: %.*s\n", program, (int)length, at);
      n++;
    }
    at += length + (at[length] == '\n');
  }
  return n;
}

static void compile_program(const char *name, const sn_module *m, const sn_compile_options *o, sn_diag *d, bool show, totals *sum) {
  sn_compile_report r;
  sn_program *p = NULL;
  sn_status s = sn_compile(d, m, o, &p, &r);
  if (s != SN_OK && s != SN_ERR_INTERNAL && s != SN_ERR_MEMORY) { /* refused before there was a kernel */
    sum->unsupported++;
    printf("%s: not compiled: %s\n", name, sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "");
  } else if (s != SN_OK) {
    sum->failed++;
    printf("%s: failed\n", name);
    sn_diag_print(d, stdout, false);
    if (show && r.cuda) fputs(r.cuda, stdout);
  } else {
    sum->programs++;
    sum->kernels += r.n_distinct;
    sum->seconds += r.emit_s;
    sum->spilling += count_spills(name, r.resources);
    if (show) printf("%s\n%s", r.cuda, r.resources);
  }
  sn_compile_report_finish(&r);
  sn_program_release(p);
}

static void check_program(const char *root, const cJSON *entry, const sn_compile_options *o, bool show, totals *sum) {
  const cJSON *before = cJSON_GetObjectItem(cJSON_GetObjectItem(entry, "files"), "before"), *devices = cJSON_GetObjectItem(entry, "devices");
  char path[2048];
  size_t n;
  sn_diag *d;
  sn_module *m = NULL;
  if (!cJSON_IsString(before) || (devices && devices->valueint > 1) || sn_diag_create(&d) != SN_OK) return;
  snprintf(path, sizeof path, "%s/%s", root, before->valuestring);
  char *text = read_text(path, &n);
  if (text && sn_hlo_parse(d, entry->string, text, n, &m) == SN_OK) compile_program(entry->string, m, o, d, show, sum);
  else sum->failed++;
  sn_module_destroy(m);
  sn_diag_destroy(d);
  free(text);
}

static bool is_one_of_some(const char *name) {
  static const char *const some[] = {"layernorm_fwd_bwd", "softmax_xent_fwd_bwd", "matmul_odd", "complex_mix", "f16_mix", "sort_multi", "scatter_variants"};
  for (size_t i = 0; i < sizeof some / sizeof some[0]; i++) {
    if (strcmp(some[i], name) == 0) return true;
  }
  return false;
}

static bool have_nvrtc(void) {
  sn_nvrtc *n;
  sn_diag *d;
  if (sn_diag_create(&d) != SN_OK) return false;
  bool ok = sn_nvrtc_open(d, &n) == SN_OK;
  if (!ok) printf("not run: gpu-compile: %s\n", sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "NVRTC was not found");
  if (ok) sn_nvrtc_close(n);
  sn_diag_destroy(d);
  return ok;
}

int main(int argc, char **argv) {
  const char *data = getenv("SINTER_TEST_DATA"), *only = argc > 3 ? argv[3] : NULL;
  char root[1024], path[1100];
  size_t n;
  totals sum = {0};
  sn_compile_options o;
  snprintf(root, sizeof root, "%s/golden", data ? data : "tests/data");
  snprintf(path, sizeof path, "%s/index.json", root);
  char *text = read_text(path, &n);
  cJSON *index = text ? cJSON_ParseWithLength(text, n) : NULL;
  const cJSON *entry;
  if (!index || argc < 3) {
    printf("usage: gpu-compile ENGINE TARGET [PROGRAM]; golden data at %s\n", root);
    return 2;
  }
  if (!have_nvrtc()) return NOT_RUN;
  sn_compile_options_init(&o);
  o.engine = argv[1];
  o.target = argv[2];
  o.keep_texts = true;
  if (sn_pool_create(0, &o.pool) != SN_OK) return 2;
  bool few = only && strcmp(only, "some") == 0;
  cJSON_ArrayForEach(entry, cJSON_GetObjectItem(index, "programs")) {
    if (!only || (few ? is_one_of_some(entry->string) : strcmp(only, entry->string) == 0)) check_program(root, entry, &o, only && !few, &sum);
  }
  sn_pool_destroy(o.pool);
  cJSON_Delete(index);
  free(text);
  printf("%s for %s: %d programs, %lld kernels in %.1f s; %lld spill; %d programs have something that is not compiled, %d failed\n", o.engine, o.target, sum.programs,
         (long long)sum.kernels, sum.seconds, (long long)sum.spilling, sum.unsupported, sum.failed);
  return sum.failed != 0 || sum.spilling != 0 || (!only && sum.programs < LEAST_PROGRAMS);
}
