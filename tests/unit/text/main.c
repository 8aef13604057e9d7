/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_text.h"

sn_module *must_parse(const char *text, size_t n) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_hlo_parse(d, "test.hlo", text, n, &m);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_msg(s == SN_OK, "%s", sn_status_text(s));
  sn_diag_destroy(d);
  return m;
}

sn_str print_text(const sn_module *m, bool brief) {
  sn_str s = {0};
  sn_print_options o;
  if (brief) sn_print_options_init_short(&o);
  else sn_print_options_init(&o);
  sn_hlo_print(&s, m, &o);
  ck_assert(!s.failed);
  return s;
}

int main(void) {
  Suite *s = suite_create("text");
  suite_add_tcase(s, case_pieces());
  suite_add_tcase(s, case_forms());
  suite_add_tcase(s, case_faults());
  suite_add_tcase(s, case_hostile());
  suite_add_tcase(s, case_golden());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
