/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>

#include "cases.h"

int main(void) {
  Suite *s = suite_create("transforms");
  add_eltwise(s);
  add_structure(s);
  add_control(s);
  add_linalg(s);
  add_api(s);
  add_random(s);
  add_collective(s);
  add_coverage(s);
  SRunner *r = srunner_create(s);
  srunner_set_fork_status(r, CK_NOFORK);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
