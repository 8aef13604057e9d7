/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The runner without a tool around it: reports, limits, statuses, and every allocation failing once. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/passes.h"
#include "sinter/text.h"

static const char program[] =
    "HloModule m\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "cond { p = (s32[], f32[4,3]) parameter(0) i = s32[] get-tuple-element(p), index=0 n = s32[] constant(5) ROOT t = pred[] compare(i, n), direction=LT }\n"
    "body { p = (s32[], f32[4,3]) parameter(0) i = s32[] get-tuple-element(p), index=0 one = s32[] constant(1) j = s32[] add(i, one)\n"
    "  x = f32[4,3] get-tuple-element(p), index=1 y = f32[4,3] exponential(x) ROOT r = (s32[], f32[4,3]) tuple(j, y) }\n"
    "ENTRY e { x = f32[4,3] parameter(0) w = f32[3,2,5] parameter(1) z = s32[] constant(0) s = (s32[], f32[4,3]) tuple(z, x)\n"
    "  l = (s32[], f32[4,3]) while(s), condition=cond, body=body g = f32[4,3] get-tuple-element(l), index=1\n"
    "  d = f32[4,2,5] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={0} k = f32[] constant(2) kb = f32[4,2,5] broadcast(k), dimensions={}\n"
    "  q = f32[4,2,5] power(d, kb) t = f32[5,4,2] transpose(q), dimensions={2,0,1} u = f32[4,2,5] transpose(t), dimensions={1,2,0}\n"
    "  o = f32[] constant(0) dead = f32[4] reduce(u, o), dimensions={1,2}, to_apply=add ROOT r = f32[2,5] reduce(u, o), dimensions={0}, to_apply=add }\n";

static sn_module *parse(void) {
  sn_module *m = NULL;
  ck_assert_int_eq(sn_hlo_parse(NULL, "test", program, strlen(program), &m), SN_OK);
  return m;
}

START_TEST(report_counts) {
  sn_module *m = parse();
  sn_pass_report r;
  ck_assert_int_eq(sn_passes_run(NULL, m, "dce,cse,dce,dce", NULL, &r), SN_OK);
  ck_assert_int_eq(r.n, 2);
  ck_assert_int_eq(r.times[0].pass, SN_PASS_dce);
  ck_assert_int_eq(r.times[0].runs, 2); /* the third time nothing had changed since it last looked: it is not asked */
  ck_assert_int_eq(r.times[0].instrs_after, r.times[0].instrs_before - 1);
  sn_module_destroy(m);
}
END_TEST

START_TEST(every_pipeline_at_every_level) {
  static const char *const names[] = {"cpu", "cuda", "op-by-op"};
  for (size_t k = 0; k < 3; k++) {
    for (int level = 0; level < 4; level++) {
      sn_module *m = parse();
      sn_diag *d;
      sn_pass_options o;
      sn_pass_options_init(&o);
      o.opt_level = level;
      o.verify_each = true;
      ck_assert_int_eq(sn_diag_create(&d), SN_OK);
      ck_assert_int_eq(sn_pipeline_run(d, m, names[k], &o, NULL), SN_OK);
      ck_assert_uint_eq(sn_diag_count(d, SN_WARNING), 0);
      sn_diag_destroy(d);
      sn_module_destroy(m);
    }
  }
  ck_assert_int_eq(sn_pipeline_run(NULL, NULL, "nothing", NULL, NULL), SN_ERR_USAGE);
}
END_TEST

START_TEST(remarks_survive_the_module) {
  sn_module *m = parse();
  sn_remarks *r;
  sn_pass_options o;
  sn_pass_options_init(&o);
  ck_assert_int_eq(sn_remarks_create(&r), SN_OK);
  o.remarks = r;
  ck_assert_int_eq(sn_passes_run(NULL, m, "algebra", &o, NULL), SN_OK);
  sn_module_destroy(m);
  ck_assert_uint_gt(sn_remarks_count(r), 0);
  sn_str s = {0};
  for (size_t i = 0; i < sn_remarks_count(r); i++) sn_remark_print(&s, sn_remarks_get(r, i));
  ck_assert_ptr_nonnull(strstr(s.data, "algebra: done:"));
  ck_assert_ptr_null(sn_remarks_get(r, sn_remarks_count(r)));
  sn_str_finish(&s);
  sn_remarks_destroy(r);
}
END_TEST

/* Whatever allocation fails, the answer is a status, and destroying the module afterwards leaves nothing behind. */
START_TEST(memory_runs_out) {
  int64_t n_failed = 0;
  int64_t live = sn_alloc_live();
  for (int64_t n = 0; n < 100000; n++) {
    sn_module *m = parse();
    sn_alloc_fail_after(n);
    sn_status s = sn_pipeline_run(NULL, m, "cpu", NULL, NULL);
    int64_t n_made = sn_alloc_fail_after(-1);
    sn_module_destroy(m);
    ck_assert_int_eq(sn_alloc_live(), live);
    ck_assert_msg(s == SN_ERR_MEMORY || s == SN_OK, "allocation %lld: %s", (long long)n, sn_status_text(s)); /* SN_OK: only a fold, or words, were given up */
    if (n_made < n) break; /* nothing failed any more */
    n_failed++;
  }
  ck_assert_int_gt(n_failed, 10);
}
END_TEST

int main(void) {
  Suite *s = suite_create("passes");
  TCase *t = tcase_create("runner");
  tcase_add_test(t, report_counts);
  tcase_add_test(t, every_pipeline_at_every_level);
  tcase_add_test(t, remarks_survive_the_module);
  tcase_add_test(t, memory_runs_out);
  tcase_set_timeout(t, 60);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
