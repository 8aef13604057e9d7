/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every dump of XLA, before and after optimisation: printed byte for byte, and equal after a trip through the short form. */
#include "test_text.h"

#include <zlib.h>

#define GOLDEN_MAX_BYTES ((size_t)64 << 20)

/* gzread reads plain files as they are. */
static char *golden_read(const char *path, size_t *n) {
  gzFile f = gzopen(path, "rb");
  ck_assert_msg(f != NULL, "%s", path);
  size_t cap = (size_t)1 << 16;
  char *text = NULL;
  *n = 0;
  for (;;) {
    text = realloc(text, cap);
    ck_assert_ptr_nonnull(text);
    int got = gzread(f, text + *n, (unsigned)(cap - *n));
    ck_assert_int_ge(got, 0);
    *n += (size_t)got;
    if (*n < cap) break;
    cap *= 2;
    ck_assert_uint_lt(cap, GOLDEN_MAX_BYTES);
  }
  gzclose(f);
  return text;
}

static void golden_first_difference(const char *name, const char *want, size_t n_want, const sn_str *got) {
  size_t i = 0;
  while (i < n_want && i < got->n && want[i] == got->data[i]) i++;
  size_t from = i > 60 ? i - 60 : 0;
  ck_abort_msg("%s: byte %zu\n  XLA: %.120s\n  we:  %.120s", name, i, want + from, got->data + from);
}

static void golden_check(const char *dir, const char *name) {
  sn_str path = {0};
  size_t n = 0;
  sn_str_printf(&path, "%s/%s", dir, name);
  char *text = golden_read(path.data, &n);
  sn_str_finish(&path);
  sn_module *m = must_parse(text, n);
  sn_str xla = print_text(m, false), brief = print_text(m, true);
  if (xla.n != n || memcmp(xla.data, text, n) != 0) golden_first_difference(name, text, n, &xla);
  sn_module *again = must_parse(brief.data, brief.n);
  ck_assert_msg(sn_module_equal(m, again, SN_EQ_LAYOUT), "%s: the short form is another module", name);
  sn_str_finish(&xla);
  sn_str_finish(&brief);
  sn_module_destroy(again);
  sn_module_destroy(m);
  free(text);
}

START_TEST(golden_round_trip) {
  const char *data = sn_env("SINTER_TEST_DATA");
  sn_arena *a = NULL;
  const char *const *names = NULL;
  sn_str dir = {0};
  size_t n = 0, checked = 0;
  sn_str_printf(&dir, "%s/golden/hlo", data != NULL ? data : "tests/data");
  if (!sn_file_exists(dir.data)) {
    printf("not run: golden_round_trip: no %s\n", dir.data);
    sn_str_finish(&dir);
    return;
  }
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_dir_list(NULL, a, dir.data, &names, &n), SN_OK);
  for (size_t i = 0; i < n; i++) {
    if (strstr(names[i], ".hlo") == NULL) continue;
    golden_check(dir.data, names[i]);
    checked++;
  }
  ck_assert_uint_ge(checked, 100); /* the folder was there, so it must be whole */
  sn_arena_destroy(a);
  sn_str_finish(&dir);
}
END_TEST

TCase *case_golden(void) {
  TCase *c = tcase_create("golden");
  tcase_set_timeout(c, 100);
  tcase_add_test(c, golden_round_trip);
  return c;
}
