/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

START_TEST(str_builds) {
  sn_str s = {0};
  sn_str_add(&s, "");
  ck_assert_str_eq(s.data, "");
  sn_str_add(&s, "ab");
  sn_str_char(&s, 'c');
  sn_str_add_n(&s, "defg", 2);
  sn_str_printf(&s, "[%d]", 42);
  sn_str_i64(&s, INT64_MIN);
  sn_str_char(&s, ' ');
  sn_str_u64(&s, UINT64_MAX);
  sn_str_i64(&s, 0);
  ck_assert_str_eq(s.data, "abcde[42]-9223372036854775808 184467440737095516150");
  ck_assert_uint_eq(s.n, strlen(s.data));
  sn_str_clear(&s);
  ck_assert_str_eq(s.data, "");
  for (int i = 0; i < 1000; i++) sn_str_printf(&s, "%0200d", i);
  ck_assert_uint_eq(s.n, 200000);
  ck_assert_str_eq(s.data + 200000 - 4, "0999");
  ck_assert(!s.failed);
  sn_str_finish(&s);
  ck_assert_ptr_null(s.data);
}
END_TEST

START_TEST(str_grows_at_every_length) { /* the NUL always has its place */
  for (size_t n = 0; n < 300; n++) {
    sn_str s = {0}, t = {0};
    for (size_t i = 0; i < n; i++) sn_str_char(&s, 'x');
    sn_str_printf(&t, "%*s", (int)n, "");
    sn_str_printf(&t, "%s", n != 0 ? s.data : "");
    ck_assert_uint_eq(t.n, 2 * n);
    ck_assert_uint_eq(strlen(t.data), 2 * n);
    sn_str_finish(&s);
    sn_str_finish(&t);
  }
}
END_TEST

static sn_status str_attempt(void) {
  sn_str s = {0};
  for (int i = 0; i < 40; i++) {
    sn_str_printf(&s, "%0100d", i);
    sn_str_escaped(&s, "a\nb", 3, true);
    sn_str_i64(&s, i);
  }
  sn_status status = s.failed ? SN_ERR_MEMORY : SN_OK;
  if (!s.failed) ck_assert_uint_eq(s.n, 40 * 104 + 10 + 60);
  sn_str_finish(&s);
  return status;
}

START_TEST(str_allocation_failures) {
  ck_assert_int_ge(check_allocation_failures(str_attempt), 5);
}
END_TEST

static void check_escaped(const char *text, size_t n, bool utf8_ok, const char *expected) {
  sn_str s = {0};
  sn_str_escaped(&s, text, n, utf8_ok);
  ck_assert_str_eq(s.data != NULL ? s.data : "", expected);
  sn_str_finish(&s);
}

START_TEST(str_escapes) {
  check_escaped("", 0, true, "");
  check_escaped("params[0]['w']", 14, true, "params[0][\\'w\\']"); /* an op_name as XLA writes it */
  check_escaped("a\"\\\n\r\tb", 7, true, "a\\\"\\\\\\n\\r\\tb");
  check_escaped("\0\1\x7f" "9", 4, true, "\\000\\001\\1779");
  check_escaped("\xc3\xa9", 2, true, "\xc3\xa9");
  check_escaped("\xc3\xa9", 2, false, "\\303\\251");
  check_escaped("\a\b\f\v", 4, true, "\\007\\010\\014\\013");
}
END_TEST

START_TEST(utf8) {
  static const struct {
    const char *text;
    size_t bad_at; /* SIZE_MAX: valid */
  } rows[] = {
      {"", SIZE_MAX},
      {"plain", SIZE_MAX},
      {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", SIZE_MAX},
      {"\xf4\x8f\xbf\xbf", SIZE_MAX},
      {"\xed\x9f\xbf\xee\x80\x80", SIZE_MAX},
      {"ab\xff", 2},
      {"a\x80", 1},
      {"\xc0\xaf", 0},             /* overlong */
      {"\xe0\x80\xaf", 0},         /* overlong */
      {"\xf0\x80\x80\xaf", 0},     /* overlong */
      {"x\xed\xa0\x80", 1},        /* surrogate */
      {"\xf4\x90\x80\x80", 0},     /* above U+10FFFF */
      {"\xe2\x82", 0},             /* torn */
      {"ok \xe2\x28\xa1", 3},
      {"\xf8\x88\x80\x80\x80", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    size_t bad = SIZE_MAX;
    bool valid = sn_utf8_valid(rows[i].text, strlen(rows[i].text), &bad);
    ck_assert_msg(valid == (rows[i].bad_at == SIZE_MAX) && bad == rows[i].bad_at, "row %zu: bad at %zu", i, bad);
    ck_assert_int_eq(sn_utf8_valid(rows[i].text, strlen(rows[i].text), NULL), valid);
  }
}
END_TEST

START_TEST(nearest) {
  static const char *const ops[] = {"add",       "and",           "dot",                 "divide",
                                    "broadcast", "dynamic-slice", "dynamic-update-slice"};
  static const struct {
    const char *word, *expected;
  } rows[] = {
      {"dott", "dot"},       {"brodcast", "broadcast"}, {"boradcast", "broadcast"}, {"devide", "divide"},
      {"dynamic_slice", "dynamic-slice"}, {"Add", "add"}, {"ad", "add"}, {"convolution", NULL}, {"", NULL}, {"x", NULL},
      {"xyz", NULL}, {"dynamicupdateslice", "dynamic-update-slice"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const char *got = sn_nearest(rows[i].word, ops, sizeof ops / sizeof ops[0]);
    if (rows[i].expected == NULL) {
      ck_assert_msg(got == NULL, "%s gave %s", rows[i].word, got != NULL ? got : "");
    } else {
      ck_assert_msg(got != NULL, "%s gave none", rows[i].word);
      ck_assert_str_eq(got, rows[i].expected);
    }
  }
  char huge[5000];
  memset(huge, 'a', sizeof huge - 1);
  huge[sizeof huge - 1] = '\0';
  ck_assert_ptr_null(sn_nearest(huge, ops, 7));
  ck_assert_ptr_null(sn_nearest("add", NULL, 0));
}
END_TEST

START_TEST(hashes) {
  /* xxHash's published test vector for an empty input, and stability under alignment. */
  ck_assert_uint_eq(sn_hash("", 0, 0), 0xef46db3751d8e999u);
  ck_assert_uint_eq(sn_hash(NULL, 0, 0), 0xef46db3751d8e999u);
  ck_assert_uint_eq(sn_hash("abc", 3, 0), 0x44bc2cf5ad770999u);
  char text[64] = " 0123456789012345678901234567890123456789";
  uint64_t h = sn_hash(text + 1, 40, 7);
  memmove(text + 3, text + 1, 40);
  ck_assert_uint_eq(sn_hash(text + 3, 40, 7), h);
  ck_assert_uint_ne(sn_hash(text + 3, 40, 8), h);
  ck_assert_uint_ne(sn_hash_mix(sn_hash_mix(0, 1), 2), sn_hash_mix(sn_hash_mix(0, 2), 1));
  ck_assert_uint_ne(sn_hash_mix(0, 0), 0 + sn_hash_mix(1, 0));
}
END_TEST

TCase *case_text(void) {
  TCase *c = tcase_create("text");
  tcase_add_test(c, str_builds);
  tcase_add_test(c, str_grows_at_every_length);
  tcase_add_test(c, str_allocation_failures);
  tcase_add_test(c, str_escapes);
  tcase_add_test(c, utf8);
  tcase_add_test(c, nearest);
  tcase_add_test(c, hashes);
  return c;
}
