/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* TARGET FILE|FOLDER…: the target on each file. What libFuzzer's main would do with -runs=0, with any compiler. */
#include <string.h>

#include "fuzz.h"
#include "sinter/base.h"

static int replay_file(const char *path) {
  char *data = NULL;
  size_t n = 0;
  if (sn_file_read(NULL, path, &data, &n) != SN_OK) {
    fprintf(stderr, "%s: cannot be read\n", path);
    return -1;
  }
  /* The exact size, so that a read behind the end is one for the address sanitizer too (sn_file_read adds a NUL). */
  uint8_t *exact = malloc(n ? n : 1);
  if (exact) {
    memcpy(exact, data, n);
    fprintf(stderr, "%s: %zu bytes\n", path, n); /* the last line before a crash names the file */
    LLVMFuzzerTestOneInput(exact, n);
  }
  free(exact);
  sn_free(data);
  return exact ? 1 : -1;
}

static int replay(sn_arena *a, const char *path) {
  const char *const *names;
  size_t n = 0;
  if (sn_dir_list(NULL, a, path, &names, &n) != SN_OK) return replay_file(path);
  int n_run = 0;
  for (size_t k = 0; k < n; k++) {
    const char *file = sn_arena_printf(a, "%s/%s", path, names[k]);
    int one = file ? replay_file(file) : -1;
    if (one < 0) return -1;
    n_run += one;
  }
  return n_run;
}

int main(int argc, char **argv) {
  sn_arena *a = NULL;
  int n_run = 0;
  if (sn_arena_create(&a) != SN_OK) return 1;
  for (int k = 1; k < argc; k++) {
    int n = replay(a, argv[k]);
    if (n < 0) {
      sn_arena_destroy(a);
      return 1;
    }
    n_run += n;
  }
  sn_arena_destroy(a);
  printf("%d files\n", n_run);
  return n_run > 0 ? 0 : 1;
}
