/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <string.h>

#include "../scratch.h"
#include "data_tests.h"

const char *temp_dir(void) {
  static char dirs[64][SCRATCH_BYTES];
  static int n;
  char *dir = dirs[n++ % 64];
  scratch_make(dir, "data");
  return dir;
}

const char *temp_file(const char *dir, const char *name, const void *bytes, size_t n) {
  static char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  *strrchr(path, '/') = 0;
  ck_assert_int_eq(sn_dir_make(NULL, path), SN_OK);
  snprintf(path, sizeof path, "%s/%s", dir, name);
  ck_assert_int_eq(sn_file_write(NULL, path, bytes, n), SN_OK);
  return path;
}

void temp_remove(const char *dir) { scratch_remove(dir); }

int main(void) {
  Suite *s = suite_create("data");
  suite_add_tcase(s, random_tests());
  suite_add_tcase(s, image_tests());
  suite_add_tcase(s, dataset_tests());
  suite_add_tcase(s, loader_tests());
  suite_add_tcase(s, token_tests());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
