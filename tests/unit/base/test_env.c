/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

#include <stdlib.h>
#include <string.h>

static void clear(void) {
  for (const sn_env_row *r = sn_env_rows; r->name; r++) unsetenv(r->name);
}

START_TEST(env_rows_are_sound) {
  for (const sn_env_row *r = sn_env_rows; r->name; r++) {
    ck_assert_msg(strncmp(r->name, "SINTER_", 7) == 0, "%s", r->name);
    ck_assert_msg(r->meaning && *r->meaning, "%s", r->name);
    ck_assert_msg((r->kind == SN_ENV_CHOICE) == (r->choices != NULL), "%s", r->name);
    ck_assert_msg(r->kind != SN_ENV_INT || r->least < r->most, "%s", r->name);
    for (const sn_env_row *q = sn_env_rows; q != r; q++) ck_assert_msg(strcmp(q->name, r->name) != 0, "%s twice", r->name);
  }
}
END_TEST

/* Every row: what is malformed is refused and named, in one look at all of them; what is right is not. */
START_TEST(env_faults_are_told) {
  static const struct {
    const char *name, *text, *message; /* NULL: right */
  } rows[] = {
      {"SINTER_THREADS", "abc", "'abc' is not a whole number"},
      {"SINTER_THREADS", "4x", "'4x' is not a whole number"},
      {"SINTER_THREADS", " ", "' ' is not a whole number"},
      {"SINTER_THREADS", "0", "0 is out of range: from 1 to 1024"},
      {"SINTER_THREADS", "99999999999999999999", "99999999999999999999 is out of range: from 1 to 1024"},
      {"SINTER_THREADS", "1024", NULL},
      {"SINTER_THREADS", "", NULL},
      {"SINTER_DEVICES", "8,", "'8,' is not a whole number"},
      {"SINTER_DEVICES", "-8", "-8 is out of range: from 1 to 4096"},
      {"SINTER_DEVICES", "8", NULL},
      {"SINTER_LOG", "verbose", "'verbose' is unknown; choose from error|warn|info|debug"},
      {"SINTER_LOG", "warn|info", "'warn|info' is unknown; choose from error|warn|info|debug"},
      {"SINTER_LOG", "inf", "'inf' is unknown; choose from error|warn|info|debug"},
      {"SINTER_LOG", "debug", NULL},
      {"SINTER_ENGINE", "fast", "'fast' is unknown; choose from interpreter|op-by-op|fused"},
      {"SINTER_ENGINE", "op-by-op", NULL},
      {"SINTER_CUDA_SYNC", "yes", "'yes' is not a whole number"},
      {"SINTER_CUDA_SYNC", "1", NULL},
      {"SINTER_DUMP_TO", "anywhere", NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    sn_diag *d;
    clear();
    setenv(rows[i].name, rows[i].text, 1);
    ck_assert_int_eq(sn_diag_create(&d), SN_OK);
    ck_assert_msg(sn_env_check(d) == (rows[i].message ? SN_ERR_USAGE : SN_OK), "row %zu", i);
    ck_assert_int_eq(sn_diag_stored(d), rows[i].message != NULL);
    if (rows[i].message) {
      ck_assert_str_eq(sn_diag_get(d, 0)->loc.file, rows[i].name);
      ck_assert_str_eq(sn_diag_get(d, 0)->message, rows[i].message);
      ck_assert_ptr_nonnull(sn_diag_get(d, 0)->hint);
    }
    sn_diag_destroy(d);
  }
  clear();
}
END_TEST

START_TEST(env_lists_every_fault) {
  sn_diag *d;
  clear();
  setenv("SINTER_THREADS", "many", 1);
  setenv("SINTER_LOG", "loud", 1);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_env_check(d), SN_ERR_USAGE);
  ck_assert_int_eq(sn_diag_count(d, SN_ERROR), 2);
  sn_diag_destroy(d);
  clear();
}
END_TEST

START_TEST(env_values) {
  int64_t v = 7;
  clear();
  ck_assert_int_eq(sn_env_int(NULL, "SINTER_DEVICES", &v), SN_OK);
  ck_assert_int_eq(v, 7); /* unset: what it was */
  setenv("SINTER_DEVICES", "12", 1);
  ck_assert_int_eq(sn_env_int(NULL, "SINTER_DEVICES", &v), SN_OK);
  ck_assert_int_eq(v, 12);
  setenv("SINTER_DEVICES", "x", 1);
  ck_assert_int_eq(sn_env_int(NULL, "SINTER_DEVICES", &v), SN_ERR_USAGE);
  ck_assert_int_eq(v, 12);
  setenv("SINTER_ENGINE", "fused", 1);
  ck_assert_int_eq(sn_env_int(NULL, "SINTER_ENGINE", &v), SN_OK);
  ck_assert_int_eq(v, 2);
  clear();
}
END_TEST

/* SINTER_LOG: how many lines of an error, a warning and a note are shown. */
START_TEST(env_log_levels) {
  static const struct {
    const char *text;
    sn_log_level level;
    int lines;
  } rows[] = {{"", SN_LOG_INFO, 3}, {"error", SN_LOG_ERROR, 1}, {"warn", SN_LOG_WARN, 2}, {"info", SN_LOG_INFO, 3}, {"debug", SN_LOG_DEBUG, 3}, {"nonsense", SN_LOG_INFO, 3}};
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_error(d, SN_NOWHERE, SN_ERR_IO, "an error");
  sn_warn(d, SN_NOWHERE, "a warning");
  sn_note(d, SN_NOWHERE, "a note");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    char line[256];
    int lines = 0;
    setenv("SINTER_LOG", rows[i].text, 1);
    ck_assert_int_eq(sn_log(), rows[i].level);
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    sn_diag_print(d, f, false);
    rewind(f);
    while (fgets(line, sizeof line, f)) lines++;
    fclose(f);
    ck_assert_msg(lines == rows[i].lines, "SINTER_LOG=%s: %d lines", rows[i].text, lines);
  }
  unsetenv("SINTER_LOG");
  sn_diag_destroy(d);
}
END_TEST

TCase *case_env(void) {
  TCase *c = tcase_create("env");
  tcase_add_test(c, env_rows_are_sound);
  tcase_add_test(c, env_faults_are_told);
  tcase_add_test(c, env_lists_every_fault);
  tcase_add_test(c, env_values);
  tcase_add_test(c, env_log_levels);
  return c;
}
