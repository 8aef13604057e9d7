/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_array.h"

#include <stdlib.h>

int main(void) {
  Suite *s = suite_create("array");
  suite_add_tcase(s, convert_cases());
  suite_add_tcase(s, shape_cases());
  suite_add_tcase(s, array_cases());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
