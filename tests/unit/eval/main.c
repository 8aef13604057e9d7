/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "fixture.h"

int main(void) {
  Suite *s = suite_create("eval");
  suite_add_tcase(s, elementwise_cases());
  suite_add_tcase(s, array_cases());
  suite_add_tcase(s, text_cases());
  suite_add_tcase(s, parallel_cases());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? 1 : 0;
}
