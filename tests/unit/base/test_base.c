/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

#define MAX_ALLOCATIONS 10000

int64_t check_allocation_failures(sn_status (*attempt)(void)) {
  int64_t before = sn_alloc_live();
  for (int64_t n = 0; n < MAX_ALLOCATIONS; n++) {
    sn_alloc_fail_after(n);
    sn_status s = attempt();
    sn_alloc_fail_after(-1);
    ck_assert_msg(sn_alloc_live() == before, "%lld allocations allowed: a leak", (long long)n);
    if (s == SN_OK) return n;
    ck_assert_msg(s == SN_ERR_MEMORY, "%lld allocations allowed: %s", (long long)n, sn_status_text(s));
  }
  ck_abort_msg("never succeeds");
  return -1;
}

START_TEST(status_texts) {
  ck_assert_str_eq(sn_status_text(SN_OK), "ok");
  ck_assert_str_eq(sn_status_text(SN_ERR_SHAPE), "shape error");
  for (int s = 0; s < SN_STATUS_COUNT; s++) ck_assert_int_gt(strlen(sn_status_text((sn_status)s)), 0);
  ck_assert_str_eq(sn_status_text(SN_STATUS_COUNT), "unknown status");
  ck_assert_str_eq(sn_status_text((sn_status)-1), "unknown status");
}
END_TEST

TCase *case_status(void) {
  TCase *c = tcase_create("status");
  tcase_add_test(c, status_texts);
  return c;
}

int main(void) {
  Suite *s = suite_create("base");
  suite_add_tcase(s, case_status());
  suite_add_tcase(s, case_memory());
  suite_add_tcase(s, case_text());
  suite_add_tcase(s, case_diag());
  suite_add_tcase(s, case_map());
  suite_add_tcase(s, case_pool());
  suite_add_tcase(s, case_os());
  suite_add_tcase(s, case_env());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
