/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where the result goes", 0, 0},
    {"steps", 's', SN_OPT_INT, "N", "100", "how many steps", 1, 1000},
    {"rate", 0, SN_OPT_NUMBER, "X", "0.5", "how fast", 0, 1},
    {"engine", 0, SN_OPT_CHOICE, "interpreter|fused", "interpreter", "what runs it", 0, 0},
    {"stages", 0, SN_OPT_CHOICES, "hlo|asm|all", NULL, "what to show", 0, 0},
    {"input", 'i', SN_OPT_LIST, "FILE", NULL, "arguments", 0, 0},
    {"verify", 'v', SN_OPT_FLAG, NULL, NULL, "check it", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "several modules a file", 0, 0},
    {"limit", 0, SN_OPT_SIZE, "SIZE", NULL, "memory", 0, 0},
    {"remarks", 0, SN_OPT_MAYBE, "REGEX", NULL, "say why", 0, 0},
    {"level", 'O', SN_OPT_CHOICE, "0|1|2|3", "2", "effort", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};
static const sn_option_group groups[] = {{"Options", own}, {NULL, NULL}};
static const sn_tool tool = {"sinter-test", "tests", "FILE…", 0, 2, groups, NULL};

static int parse(int n, const char *const *args, sn_options **out) {
  static char *argv[32];
  argv[0] = (char *)(uintptr_t) "sinter-test";
  for (int i = 0; i < n; i++) argv[i + 1] = (char *)(uintptr_t)args[i];
  return sn_options_parse(&tool, n + 1, argv, out);
}
#define PARSE(out, ...) parse((int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *const[]){__VA_ARGS__}, out)

START_TEST(defaults) {
  sn_options *o = NULL;
  ck_assert_int_eq(parse(0, NULL, &o), SN_EXIT_OK);
  ck_assert_ptr_nonnull(o);
  ck_assert_str_eq(sn_opt_text(o, "output"), "-");
  ck_assert_int_eq(sn_opt_int(o, "steps"), 100);
  ck_assert(sn_opt_number(o, "rate") == 0.5);
  ck_assert_int_eq(sn_opt_choice(o, "engine"), 0);
  ck_assert_int_eq(sn_opt_choice(o, "stages"), -1);
  ck_assert(!sn_opt_flag(o, "verify"));
  ck_assert(sn_opt_flag(o, "split"));
  ck_assert(!sn_opt_given(o, "remarks"));
  ck_assert_ptr_null(sn_opt_text(o, "remarks"));
  ck_assert_uint_eq(sn_opt_operands(o), 0);
  sn_options_destroy(o);
}
END_TEST

START_TEST(every_form) {
  sn_options *o = NULL;
  ck_assert_int_eq(PARSE(&o, "a.hlo", "-ox", "--steps", "7", "--rate=0.25", "--engine=fused", "--stages=hlo,asm", "-i", "p", "--input=q", "-v", "--no-split",
                         "--limit=1.5K", "--remarks", "-O3", "--", "--b"),
                   SN_EXIT_OK);
  ck_assert_ptr_nonnull(o);
  ck_assert_str_eq(sn_opt_text(o, "output"), "x");
  ck_assert_int_eq(sn_opt_int(o, "steps"), 7);
  ck_assert(sn_opt_number(o, "rate") == 0.25);
  ck_assert_int_eq(sn_opt_choice(o, "engine"), 1);
  ck_assert_uint_eq(sn_opt_count(o, "input"), 2);
  ck_assert_str_eq(sn_opt_at(o, "input", 1), "q");
  ck_assert(sn_opt_flag(o, "verify"));
  ck_assert(!sn_opt_flag(o, "split"));
  ck_assert_int_eq(sn_opt_int(o, "limit"), 1536);
  ck_assert_str_eq(sn_opt_text(o, "remarks"), "");
  ck_assert_int_eq(sn_opt_choice(o, "level"), 3);
  ck_assert_uint_eq(sn_opt_operands(o), 2);
  ck_assert_str_eq(sn_opt_operand(o, 1), "--b");
  sn_options_destroy(o);
}
END_TEST

static const char *const refused[] = {"--nothing", "--steps=x", "--steps=0", "--steps=1001", "--rate=nan", "--engine=none", "--stages=hlo,c",
                                      "--limit=1Q", "--verify=1", "--no-steps", "-z", "--steps", "--level=4", "-O9"};

START_TEST(refusals) {
  sn_options *o = NULL;
  ck_assert_int_eq(parse(1, &refused[_i], &o), SN_EXIT_USAGE);
  ck_assert_ptr_null(o);
}
END_TEST

START_TEST(operands_counted) {
  sn_options *o = NULL;
  ck_assert_int_eq(PARSE(&o, "a", "b", "c"), SN_EXIT_USAGE);
  ck_assert_ptr_null(o);
}
END_TEST

static char *printed(void (*print)(const sn_tool *, FILE *)) {
  char *text = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&text, &n);
  ck_assert_ptr_nonnull(f);
  print(&tool, f);
  fclose(f);
  return text;
}

START_TEST(help_names_every_row) {
  char *help = printed(sn_options_print_help), *man = printed(sn_options_print_man);
  for (const sn_option *o = own; o->name; o++) {
    ck_assert_msg(strstr(help, o->name), "--%s is not in the help", o->name);
    ck_assert_msg(strstr(man, o->name), "--%s is not in the manual page", o->name);
  }
  ck_assert_ptr_nonnull(strstr(help, "[default: interpreter]"));
  free(help);
  free(man);
}
END_TEST

START_TEST(memory_runs_out) {
  for (int64_t n = 0; n < 6; n++) {
    sn_options *o = NULL;
    sn_alloc_fail_after(n);
    int code = PARSE(&o, "--input=a");
    sn_alloc_fail_after(-1);
    ck_assert(o ? code == SN_EXIT_OK : code == SN_EXIT_USAGE);
    sn_options_destroy(o);
  }
  ck_assert_int_eq(sn_alloc_live(), 0);
}
END_TEST

int main(void) {
  Suite *s = suite_create("options");
  TCase *t = tcase_create("parse");
  tcase_add_test(t, defaults);
  tcase_add_test(t, every_form);
  tcase_add_loop_test(t, refusals, 0, (int)(sizeof refused / sizeof *refused));
  tcase_add_test(t, operands_counted);
  tcase_add_test(t, help_names_every_row);
  tcase_add_test(t, memory_runs_out);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
