/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

START_TEST(alloc_counts_and_fails) {
  int64_t live = sn_alloc_live();
  sn_alloc_fail_after(2);
  void *a = sn_alloc(0), *b = sn_alloc_zero(3, 5), *c = sn_alloc(1);
  ck_assert_ptr_nonnull(a);
  ck_assert_ptr_nonnull(b);
  ck_assert_ptr_null(c);
  ck_assert_int_eq(sn_alloc_live(), live + 2);
  ck_assert_ptr_null(sn_realloc(b, 100)); /* the old block stays */
  ck_assert_int_eq(((char *)b)[14], 0);
  ck_assert_int_eq(sn_alloc_fail_after(-1), 2);
  b = sn_realloc(b, 100);
  ck_assert_ptr_nonnull(b);
  ck_assert_int_eq(sn_alloc_fail_after(-1), 1);
  sn_free(a);
  sn_free(b);
  sn_free(NULL);
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

START_TEST(alloc_refuses_overflow) {
  volatile size_t huge = SIZE_MAX; /* volatile: compilers warn about the constant */
  ck_assert_ptr_null(sn_alloc(huge));
  ck_assert_ptr_null(sn_alloc_zero(huge / 2 + 1, 2));
  ck_assert_ptr_null(sn_alloc_zero(huge, huge));
  ck_assert_ptr_null(sn_alloc_aligned(64, huge - 8));
  ck_assert_ptr_null(sn_pages_alloc(huge));
  void *p = sn_alloc(8);
  ck_assert_ptr_null(sn_realloc(p, huge));
  sn_free(p);
}
END_TEST

START_TEST(alloc_aligns) {
  for (size_t alignment = 1; alignment <= (size_t)2 << 20; alignment *= 2) {
    char *p = sn_alloc_aligned(alignment, 3);
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq((uintptr_t)p % alignment, 0);
    memset(p, 1, 3);
    sn_free_aligned(p);
  }
}
END_TEST

START_TEST(arena_allocates) {
  sn_arena *a;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  char *before = NULL;
  for (size_t i = 0; i < 3000; i++) {
    size_t n = i * 7 % 977;
    char *p = sn_arena_alloc(a, n);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_ne(p, before);
    ck_assert_int_eq((uintptr_t)p % 16, 0);
    memset(p, (int)i, n);
    before = p;
  }
  ck_assert_uint_ge(sn_arena_bytes(a), 3000 * 488);
  ck_assert_uint_le(sn_arena_bytes(a), 3000 * 488 * 3);
  sn_arena_destroy(a);
  sn_arena_destroy(NULL);
}
END_TEST

START_TEST(arena_keeps_small_room_beside_large) {
  sn_arena *a;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  char *first = sn_arena_alloc(a, 16);
  char *large = sn_arena_alloc(a, (size_t)8 << 20);
  char *second = sn_arena_alloc(a, 16);
  ck_assert_ptr_nonnull(large);
  ck_assert_ptr_eq(second, first + 16);
  memset(large, 1, (size_t)8 << 20);
  sn_arena_reset(a);
  ck_assert_uint_ge(sn_arena_bytes(a), (size_t)8 << 20); /* the largest block stays */
  ck_assert_ptr_eq(sn_arena_alloc(a, 16), large);
  sn_arena_destroy(a);
}
END_TEST

START_TEST(arena_strings) {
  sn_arena *a;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_str_eq(sn_arena_string(a, "abc"), "abc");
  ck_assert_ptr_null(sn_arena_string(a, NULL));
  ck_assert_str_eq(sn_arena_string_n(a, "abcdef", 2), "ab");
  ck_assert_str_eq(sn_arena_string_n(a, NULL, 0), "");
  ck_assert_str_eq(sn_arena_printf(a, "%d-%s", 7, "x"), "7-x");
  char *wide = sn_arena_printf(a, "%0900d", 1);
  ck_assert_uint_eq(strlen(wide), 900);
  ck_assert_int_eq(wide[899], '1');
  int *zeros = SN_NEW_N(a, int, 100);
  for (int i = 0; i < 100; i++) ck_assert_int_eq(zeros[i], 0);
  volatile size_t huge = SIZE_MAX;
  ck_assert_ptr_null(sn_arena_alloc(a, huge));
  ck_assert_ptr_null(sn_arena_zero(a, huge / 2 + 1, 2));
  ck_assert_ptr_null(sn_arena_string_n(a, "", huge));
  ck_assert_mem_eq(sn_arena_copy(a, "\0x", 2), "\0x", 2);
  ck_assert_ptr_nonnull(sn_arena_copy(a, NULL, 0));
  sn_arena_destroy(a);
}
END_TEST

static sn_status arena_attempt(void) {
  sn_arena *a;
  SN_TRY(sn_arena_create(&a));
  bool ok = true;
  for (int i = 0; i < 60 && ok; i++) ok = sn_arena_printf(a, "%0*d", 10 * i, i) != NULL;
  ok = ok && sn_arena_zero(a, 1000, 1000) != NULL;
  sn_arena_destroy(a);
  return ok ? SN_OK : SN_ERR_MEMORY;
}

START_TEST(arena_allocation_failures) {
  ck_assert_int_ge(check_allocation_failures(arena_attempt), 4);
}
END_TEST

START_TEST(checked_arithmetic) {
  static const struct {
    int64_t a, b;
    bool add, mul;
  } rows[] = {
      {0, 0, true, true},
      {INT64_MAX, 1, false, true},
      {INT64_MAX, 0, true, true},
      {INT64_MIN, -1, false, false},
      {INT64_MIN, 1, true, true},
      {INT64_MIN, 2, true, false},
      {INT64_MAX, -1, true, true},
      {INT64_MAX, INT64_MAX, false, false},
      {INT64_MIN, INT64_MIN, false, false},
      {INT64_MAX, INT64_MIN, true, false},
      {INT64_C(1) << 31, INT64_C(1) << 31, true, true},
      {INT64_C(1) << 32, INT64_C(1) << 31, true, false},
      {-(INT64_C(1) << 32), INT64_C(1) << 31, true, true},
      {-(INT64_C(1) << 32), -(INT64_C(1) << 31), true, false},
      {-2, INT64_C(1) << 62, true, true},
      {-3, INT64_C(1) << 62, true, false},
      {-7, -9, true, true},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int64_t a = rows[i].a, b = rows[i].b, x = 42, y = 42;
    ck_assert_msg(sn_add_i64(a, b, &x) == rows[i].add && sn_add_i64(b, a, &y) == rows[i].add, "add row %zu", i);
    ck_assert_int_eq(x, rows[i].add ? (int64_t)((uint64_t)a + (uint64_t)b) : 42);
    ck_assert_int_eq(x, y);
    x = y = 42;
    ck_assert_msg(sn_mul_i64(a, b, &x) == rows[i].mul && sn_mul_i64(b, a, &y) == rows[i].mul, "mul row %zu", i);
    ck_assert_int_eq(x, rows[i].mul ? (int64_t)((uint64_t)a * (uint64_t)b) : 42);
    ck_assert_int_eq(x, y);
  }
}
END_TEST

TCase *case_memory(void) {
  TCase *c = tcase_create("memory");
  tcase_add_test(c, alloc_counts_and_fails);
  tcase_add_test(c, alloc_refuses_overflow);
  tcase_add_test(c, alloc_aligns);
  tcase_add_test(c, arena_allocates);
  tcase_add_test(c, arena_keeps_small_room_beside_large);
  tcase_add_test(c, arena_strings);
  tcase_add_test(c, arena_allocation_failures);
  tcase_add_test(c, checked_arithmetic);
  return c;
}
