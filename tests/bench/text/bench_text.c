/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How fast the optimised training step of ViT-B/16 is parsed and printed. Best of several runs: the machine may be busy with something else. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sinter/text.h"

#define N_RUNS 20
#define PARSE_TARGET 60.0  /* MB/s */
#define PRINT_TARGET 100.0
#define MAX_BYTES ((size_t)64 << 20)

static char *read_all(const char *path, size_t *n) {
  gzFile f = gzopen(path, "rb");
  char *text = f != NULL ? malloc(MAX_BYTES) : NULL;
  int got = text != NULL ? gzread(f, text, (unsigned)MAX_BYTES) : -1;
  if (f != NULL) gzclose(f);
  if (got <= 0) {
    free(text);
    return NULL;
  }
  *n = (size_t)got;
  return text;
}

/* One parse and one print; false when they fail. Keeps the best times. */
static bool run_once(const char *text, size_t n, double *parse_s, double *print_s) {
  sn_module *m = NULL;
  sn_str out = {0};
  double t0 = sn_time();
  if (sn_hlo_parse(NULL, "bench.hlo", text, n, &m) != SN_OK) return false;
  double t1 = sn_time();
  sn_hlo_print(&out, m, NULL);
  double t2 = sn_time();
  bool right = !out.failed && out.n == n && memcmp(out.data, text, n) == 0;
  sn_str_finish(&out);
  sn_module_destroy(m);
  if (t1 - t0 < *parse_s) *parse_s = t1 - t0;
  if (t2 - t1 < *print_s) *print_s = t2 - t1;
  return right;
}

int main(int argc, char **argv) {
  size_t n = 0;
  char *text = argc == 2 ? read_all(argv[1], &n) : NULL;
  double parse_s = 1e9, print_s = 1e9;
  if (text == NULL) {
    fprintf(stderr, "usage: bench-text FILE.hlo[.gz]\n");
    return 2;
  }
  for (int i = 0; i < N_RUNS; i++) {
    if (run_once(text, n, &parse_s, &print_s)) continue;
    fprintf(stderr, "%s does not print as it was read\n", argv[1]);
    return 1;
  }
  double parse = (double)n / parse_s / 1e6, print = (double)n / print_s / 1e6;
  printf("%.1f MB: parse %.0f MB/s (target %.0f), print %.0f MB/s (target %.0f)\n", (double)n / 1e6, parse, PARSE_TARGET, print, PRINT_TARGET);
  free(text);
  return parse >= PARSE_TARGET && print >= PRINT_TARGET ? 0 : 1;
}
