/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

char *print_diag(const sn_diag *d, bool colour) {
  char *text = NULL;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  ck_assert_ptr_nonnull(f);
  sn_diag_print(d, f, colour);
  fclose(f);
  char *copy = strdup(text); /* gcc 12 takes what open_memstream stored for a pointer into this frame */
  ck_assert_ptr_nonnull(copy);
  free(text);
  return copy;
}

static void check_printed(const sn_diag *d, const char *expected) {
  char *text = print_diag(d, false);
  ck_assert_str_eq(text, expected);
  free(text);
}

static sn_diag *make_diag(void) {
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  return d;
}

START_TEST(diag_prints_line_and_caret) {
  static const char source[] = "first\n  x = f32[2] ad(y)\r\nlast";
  sn_diag *d = make_diag();
  char file[] = "a.hlo";
  sn_diag_set_source(d, "a.hlo", source, strlen(source));
  ck_assert_int_eq(sn_error(d, (sn_loc){file, 2, 14}, SN_ERR_NAME, "unknown op '%s'\n", "ad"), SN_ERR_NAME);
  sn_hint(d, "did you mean '%s'?", "add");
  sn_note(d, (sn_loc){file, 3, 5}, "at the end");
  sn_warn(d, (sn_loc){"b.hlo", 4, 0}, "no source");
  file[0] = 'z'; /* strings were copied */
  check_printed(d,
                "a.hlo:2:14: error: unknown op 'ad'\n"
                "  x = f32[2] ad(y)\n"
                "             ^\n"
                "hint: did you mean 'add'?\n"
                "a.hlo:3:5: note: at the end\n"
                "last\n"
                "    ^\n"
                "b.hlo:4: warning: no source\n");
  const sn_diagnostic *g = sn_diag_get(d, 0);
  ck_assert_int_eq(g->status, SN_ERR_NAME);
  ck_assert_str_eq(g->context, "  x = f32[2] ad(y)");
  ck_assert_str_eq(g->message, "unknown op 'ad'");
  ck_assert_uint_eq(sn_diag_count(d, SN_NOTE), 3);
  ck_assert_uint_eq(sn_diag_count(d, SN_WARNING), 2);
  ck_assert_uint_eq(sn_diag_count(d, SN_ERROR), 1);
  ck_assert_ptr_null(sn_diag_get(d, 3));
  sn_diag_clear(d);
  ck_assert_uint_eq(sn_diag_stored(d), 0);
  check_printed(d, "");
  sn_diag_destroy(d);
}
END_TEST

START_TEST(diag_locations_may_lack) {
  sn_diag *d = make_diag();
  sn_error(d, SN_NOWHERE, SN_ERR_IO, "nowhere");
  sn_error(d, (sn_loc){"f", 0, 0}, SN_ERR_IO, "a file");
  sn_error(d, (sn_loc){NULL, 3, 4}, SN_ERR_IO, "no file");
  sn_diag_set_source(d, "g", "one line", 8);
  sn_error(d, (sn_loc){"g", 9, 1}, SN_ERR_IO, "past the end");
  sn_error(d, (sn_loc){"g", 1, 400}, SN_ERR_IO, "past the line");
  sn_error(d, (sn_loc){"g", UINT32_MAX, UINT32_MAX}, SN_ERR_IO, "far");
  check_printed(d,
                "error: nowhere\nf: error: a file\nerror: no file\ng:9:1: error: past the end\n"
                "g:1:400: error: past the line\none line\n        ^\n"
                "g:4294967295:4294967295: error: far\n");
  sn_diag_destroy(d);
}
END_TEST

START_TEST(diag_shows_hostile_text) {
  static const char source[] = "\tx\t\033[31m\xc3\xa9\xff\xe2\x80\xae!\0z";
  sn_diag *d = make_diag();
  sn_diag_set_source(d, "t", source, sizeof source - 1);
  sn_error(d, (sn_loc){"t", 1, 2}, SN_ERR_SYNTAX, "a\nb\033c");
  sn_error(d, (sn_loc){"t", 1, 11}, SN_ERR_SYNTAX, "at the bad byte");
  check_printed(d,
                "t:1:2: error: a b\\x1bc\n"
                "        x       \\x1b[31m\xc3\xa9\\xff\\u202e!\\x00z\n"
                "        ^\n"
                "t:1:11: error: at the bad byte\n"
                "        x       \\x1b[31m\xc3\xa9\\xff\\u202e!\\x00z\n"
                "                         ^\n");
  sn_diag_destroy(d);
}
END_TEST

/* The caret stands under the character of the column also in the middle of a line of a megabyte. */
START_TEST(diag_cuts_long_lines) {
  size_t n = 1000000;
  char *line = malloc(n);
  ck_assert_ptr_nonnull(line);
  static const uint32_t columns[] = {1,    2,      59,     60,     61,      62,      100,
                                     3000, 500000, 999950, 999999, 1000000, 1000001, 2000000};
  for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
    memset(line, 'x', n);
    size_t at = columns[i] - 1;
    if (at < n) line[at] = 'O';
    sn_diag *d = make_diag();
    sn_diag_set_source(d, "l", line, n);
    sn_error(d, (sn_loc){"l", 1, columns[i]}, SN_ERR_SYNTAX, "m");
    char *text = print_diag(d, false);
    char *shown = strchr(text, '\n') + 1, *caret = strchr(shown, '\n') + 1;
    ck_assert_uint_le((size_t)(caret - shown), 107);
    size_t caret_at = (size_t)(strchr(caret, '^') - caret);
    if (at < n) ck_assert_msg(shown[caret_at] == 'O', "column %u:\n%s", (unsigned)columns[i], text);
    if (at >= n) ck_assert_uint_eq(caret_at, (size_t)(caret - shown) - 1);
    ck_assert_uint_le(strlen(sn_diag_get(d, 0)->context), 4096);
    free(text);
    sn_diag_destroy(d);
  }
  free(line);
}
END_TEST

START_TEST(diag_limit_counts_on) {
  sn_diag *d = make_diag();
  sn_diag_set_limit(d, 2);
  for (int i = 0; i < 5; i++) {
    sn_warn(d, SN_NOWHERE, "w%d", i);
    sn_note(d, SN_NOWHERE, "n%d", i);
  }
  sn_error(d, SN_NOWHERE, SN_ERR_TYPE, "e");
  ck_assert_uint_eq(sn_diag_count(d, SN_NOTE), 11);
  ck_assert_uint_eq(sn_diag_stored(d), 5);
  sn_warn(d, SN_NOWHERE, "dropped");
  sn_hint(d, "must not stick to the error");
  check_printed(d, "warning: w0\nnote: n0\nwarning: w1\nnote: n1\nerror: e\nnote: 7 more not shown\n");
  sn_diag_destroy(d);
}
END_TEST

START_TEST(diag_hints_and_colour) {
  sn_diag *d = make_diag();
  sn_hint(d, "for nobody");
  sn_error(d, SN_NOWHERE, SN_ERR_TYPE, "e");
  sn_hint(d, "one");
  sn_hint(d, "two");
  check_printed(d, "error: e\nhint: one; two\n");
  char *text = print_diag(d, true);
  ck_assert_ptr_nonnull(strstr(text, "\033[1;31merror:\033[0m"));
  free(text);
  sn_diag_destroy(d);
}
END_TEST

START_TEST(diag_may_be_null) {
  ck_assert_int_eq(sn_error(NULL, SN_NOWHERE, SN_ERR_TYPE, "x"), SN_ERR_TYPE);
  ck_assert_int_eq(sn_out_of_memory(NULL, 3), SN_ERR_MEMORY);
  sn_warn(NULL, SN_NOWHERE, "x");
  sn_note(NULL, SN_NOWHERE, "x");
  sn_hint(NULL, "x");
  sn_diag_set_source(NULL, "a", "b", 1);
  sn_diag_clear(NULL);
  sn_diag_destroy(NULL);
  ck_assert_uint_eq(sn_diag_count(NULL, SN_NOTE), 0);
  ck_assert_uint_eq(sn_diag_stored(NULL), 0);
  ck_assert_ptr_null(sn_diag_get(NULL, 0));
}
END_TEST

START_TEST(diag_out_of_memory_gets_through) {
  sn_diag *d = make_diag();
  sn_alloc_fail_after(0);
  ck_assert_int_eq(sn_error(d, SN_NOWHERE, SN_ERR_TYPE, "lost"), SN_ERR_TYPE);
  ck_assert_int_eq(sn_out_of_memory(d, 123), SN_ERR_MEMORY);
  sn_alloc_fail_after(-1);
  ck_assert_uint_eq(sn_diag_count(d, SN_ERROR), 2);
  check_printed(d, "error: out of memory\nnote: 1 more not shown\n");
  sn_diag_clear(d);
  sn_out_of_memory(d, 123);
  check_printed(d, "error: out of memory: 123 bytes wanted\n");
  sn_diag_destroy(d);
}
END_TEST

static sn_status diag_attempt(void) {
  static const char source[] = "one\ntwo\n";
  char long_name[600];
  memset(long_name, 'n', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  sn_diag *d;
  SN_TRY(sn_diag_create(&d));
  sn_diag_set_source(d, "s", source, strlen(source));
  for (uint32_t i = 0; i < 40; i++) {
    sn_error(d, (sn_loc){i % 2 != 0 ? "s" : long_name, 2, i}, SN_ERR_TYPE, "%s", long_name);
    sn_hint(d, "%s", long_name);
  }
  ck_assert_uint_eq(sn_diag_count(d, SN_ERROR), 40);
  free(print_diag(d, false));
  bool whole = sn_diag_stored(d) == 40 && sn_diag_get(d, 39)->hint != NULL && sn_diag_get(d, 39)->context != NULL;
  sn_diag_destroy(d);
  return whole ? SN_OK : SN_ERR_MEMORY;
}

START_TEST(diag_allocation_failures) {
  ck_assert_int_ge(check_allocation_failures(diag_attempt), 8);
}
END_TEST

TCase *case_diag(void) {
  TCase *c = tcase_create("diag");
  tcase_add_test(c, diag_prints_line_and_caret);
  tcase_add_test(c, diag_locations_may_lack);
  tcase_add_test(c, diag_shows_hostile_text);
  tcase_add_test(c, diag_cuts_long_lines);
  tcase_add_test(c, diag_limit_counts_on);
  tcase_add_test(c, diag_hints_and_colour);
  tcase_add_test(c, diag_may_be_null);
  tcase_add_test(c, diag_out_of_memory_gets_through);
  tcase_add_test(c, diag_allocation_failures);
  return c;
}
