/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_array.h"

#include <string.h>

#define SHAPE(t, r, ...) ((const sn_shape[]){{.type = t, .rank = r, .dims = (const int64_t[]){__VA_ARGS__}}})

static sn_array *make(const sn_shape *s, const void *data) {
  sn_array *a;
  ck_assert_int_eq(sn_array_create_from(s, data, &a), SN_OK);
  return a;
}

START_TEST(owned) {
  int64_t live = sn_alloc_live();
  const float data[] = {1, 2, 3, 4, 5, 6};
  sn_array *a = make(SHAPE(SN_TYPE_F32, 2, 2, 3), data), *z;
  ck_assert_uint_eq((uintptr_t)sn_array_data(a) % 64, 0);
  ck_assert_uint_eq(sn_array_bytes(a), 24);
  ck_assert_mem_eq(sn_array_data(a), data, 24);
  ck_assert(sn_array_unique(a) && !sn_array_dynamic_sizes(a));
  ck_assert_ptr_eq(sn_array_retain(a), a);
  ck_assert(!sn_array_unique(a));
  sn_array_release(a);
  ck_assert(sn_array_unique(a));
  ck_assert_int_eq(sn_array_create_zero(SHAPE(SN_TYPE_S64, 1, 3), &z), SN_OK);
  ck_assert(((int64_t *)sn_array_data(z))[2] == 0);
  sn_array_release(z);
  sn_array_release(a);
  sn_array_release(NULL);
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

static void count_release(void *ctx) { ++*(int *)ctx; }

START_TEST(borrowed) {
  int released = 0;
  float data[] = {1, 2};
  sn_array *a;
  ck_assert_int_eq(sn_array_create_borrowed(SHAPE(SN_TYPE_F32, 1, 2), data, count_release, &released, &a), SN_OK);
  ck_assert_ptr_eq(sn_array_data(a), data);
  ck_assert(!sn_array_unique(a));
  sn_array_release(sn_array_retain(a));
  ck_assert_int_eq(released, 0);
  sn_array_release(a);
  ck_assert_int_eq(released, 1);
}
END_TEST

START_TEST(tuples) {
  int64_t live = sn_alloc_live();
  const int32_t one = 1;
  sn_array *e = make(&(sn_shape){.type = SN_TYPE_S32}, &one), *inner, *outer, *empty, *made;
  ck_assert_int_eq(sn_array_create_tuple(1, &e, &inner), SN_OK);
  ck_assert_int_eq(sn_array_create_tuple(2, (sn_array *[]){inner, e}, &outer), SN_OK);
  ck_assert_int_eq(sn_array_create_tuple(0, NULL, &empty), SN_OK);
  sn_array_release(inner);
  sn_array_release(e);
  ck_assert_int_eq(sn_array_n_elements(outer), 2);
  ck_assert_ptr_null(sn_array_data(outer));
  ck_assert_int_eq(sn_shape_leaves(sn_array_shape(outer)), 2);
  ck_assert_int_eq(sn_array_create_zero(sn_array_shape(outer), &made), SN_OK);
  ck_assert(sn_shape_equal(sn_array_shape(made), sn_array_shape(outer), 0));
  ck_assert(!sn_array_equal(made, outer));
  *(int32_t *)sn_array_data(sn_array_element(made, 1)) = 1;
  *(int32_t *)sn_array_data(sn_array_element(sn_array_element(made, 0), 0)) = 1;
  ck_assert(sn_array_equal(made, outer));
  ck_assert_uint_eq(sn_array_hash(made, 3), sn_array_hash(outer, 3));
  sn_array_release(made);
  sn_array_release(outer);
  sn_array_release(empty);
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

/* Only what lives counts: two rows of two out of [3,4]. */
START_TEST(dynamic) {
  const bool marks[] = {true, true};
  const sn_shape s = {.type = SN_TYPE_S32, .rank = 2, .dims = (const int64_t[]){3, 4}, .dynamic = marks};
  sn_array *a, *b;
  sn_array_difference diff;
  ck_assert_int_eq(sn_array_create_zero(&s, &a), SN_OK);
  ck_assert_int_eq(sn_array_create_zero(&s, &b), SN_OK);
  ck_assert_int_eq(sn_array_dynamic_sizes(a)[1], 4);
  for (int d = 0; d < 2; d++) sn_array_set_dynamic_size(a, d, 2);
  ck_assert(!sn_array_equal(a, b));
  for (int d = 0; d < 2; d++) sn_array_set_dynamic_size(b, d, 2);
  ((int32_t *)sn_array_data(b))[2] = 9;
  ((int32_t *)sn_array_data(b))[8] = 9;
  ck_assert(sn_array_equal(a, b));
  ck_assert_uint_eq(sn_array_hash(a, 0), sn_array_hash(b, 0));
  ck_assert_int_eq(sn_array_compare(a, b, 0, 0, &diff), SN_OK);
  ck_assert_int_eq(diff.n_bad, 0);
  ((int32_t *)sn_array_data(b))[5] = 9;
  ck_assert(!sn_array_equal(a, b));
  ck_assert_int_eq(sn_array_compare(a, b, 0, 0, &diff), SN_OK);
  ck_assert(diff.n_bad == 1 && diff.worst == 5 && diff.error == 9);
  sn_array_release(a);
  sn_array_release(b);
}
END_TEST

START_TEST(refused) {
  sn_array *a;
  ck_assert_int_eq(sn_array_create(SHAPE(SN_TYPE_F32, 1, -1), &a), SN_ERR_SHAPE);
  ck_assert_ptr_null(a);
  ck_assert_int_eq(sn_array_create(SHAPE(SN_TYPE_F32, 1, SN_DIM_UNBOUNDED), &a), SN_ERR_SHAPE);
  ck_assert_int_eq(sn_array_create(SHAPE(SN_TYPE_F32, 2, INT64_MAX, 2), &a), SN_ERR_OVERFLOW);
  ck_assert_int_eq(sn_array_create(SHAPE(SN_TYPE_U8, 1, INT64_MAX), &a), SN_ERR_MEMORY);
  ck_assert_ptr_null(a);
}
END_TEST

START_TEST(out_of_memory) {
  const sn_shape leaf = {.type = SN_TYPE_F32, .rank = 1, .dims = (const int64_t[]){4}};
  const sn_shape *const elements[] = {&leaf, &leaf};
  const sn_shape tuple = {.type = SN_TYPE_TUPLE, .n_elements = 2, .elements = elements};
  int64_t live = sn_alloc_live();
  for (int n = 0;; n++) {
    sn_array *a;
    sn_alloc_fail_after(n);
    sn_status status = sn_array_create_zero(&tuple, &a);
    sn_alloc_fail_after(-1);
    if (status == SN_OK) {
      sn_array_release(a);
      ck_assert_int_eq(n, 3);
      break;
    }
    ck_assert_int_eq(status, SN_ERR_MEMORY);
    ck_assert_ptr_null(a);
  }
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

static sn_array_difference compare(sn_type t, int64_t n, const void *got, const void *want, double rtol, double atol) {
  sn_array *a = make(SHAPE(t, 1, n), got), *b = make(SHAPE(t, 1, n), want);
  sn_array_difference d;
  ck_assert_int_eq(sn_array_compare(a, b, rtol, atol, &d), SN_OK);
  sn_array_release(a);
  sn_array_release(b);
  return d;
}

START_TEST(comparing_floats) {
  const float got[] = {1, -0.0f, NAN, INFINITY, 102}, want[] = {1, 0, NAN, INFINITY, 100};
  sn_array_difference d = compare(SN_TYPE_F32, 5, got, want, 0.01, 0);
  ck_assert(d.n_bad == 1 && d.worst == 4 && d.got == 102 && d.want == 100 && d.error == 2 && d.ratio == 2);
  d = compare(SN_TYPE_F32, 5, got, want, 0.01, 1);
  ck_assert(d.n_bad == 0 && d.ratio == 1);
  const float nan_got[] = {1, NAN}, nan_want[] = {1, 1}, inf_got[] = {INFINITY, 1}, inf_want[] = {-INFINITY, 1};
  ck_assert_int_eq(compare(SN_TYPE_F32, 2, nan_got, nan_want, 1, 1).n_bad, 1);
  ck_assert_int_eq(compare(SN_TYPE_F32, 2, nan_want, nan_got, 1, 1).worst, 1);
  ck_assert_int_eq(compare(SN_TYPE_F32, 2, inf_got, inf_want, 1, 1).n_bad, 1);
  ck_assert_int_eq(compare(SN_TYPE_F32, 2, inf_want, nan_want, 1, 1e30).n_bad, 1);
  ck_assert_int_eq(compare(SN_TYPE_F32, 0, got, want, 0, 0).worst, -1);
  const float c_got[] = {1, 2, 3, 4}, c_want[] = {1, 2, 3, 5};
  d = compare(SN_TYPE_C64, 2, c_got, c_want, 0, 0);
  ck_assert(d.n_bad == 1 && d.worst == 1 && d.got == 3 && d.got_im == 4 && d.want_im == 5 && d.error == 1);
}
END_TEST

/* 2^53 and 2^53 + 1 are one double. */
START_TEST(comparing_integers) {
  const int64_t got[] = {1ll << 53, -5}, want[] = {(1ll << 53) + 1, -5};
  sn_array_difference d = compare(SN_TYPE_S64, 2, got, want, 0, 0);
  ck_assert(d.n_bad == 1 && d.worst == 0 && d.error == 1);
  ck_assert_int_eq(compare(SN_TYPE_S64, 2, got, want, 0, 1).n_bad, 0);
  const uint64_t u_got[] = {UINT64_MAX}, u_want[] = {0};
  d = compare(SN_TYPE_U64, 1, u_got, u_want, 0, 0);
  ck_assert(d.n_bad == 1 && d.error == 18446744073709551616.0);
  const int64_t ends_got[] = {INT64_MIN}, ends_want[] = {INT64_MAX};
  ck_assert(compare(SN_TYPE_S64, 1, ends_got, ends_want, 0, 0).error == 18446744073709551616.0);
  sn_array *a = make(SHAPE(SN_TYPE_S32, 1, 1), got), *b = make(SHAPE(SN_TYPE_U32, 1, 1), got);
  ck_assert_int_eq(sn_array_compare(a, b, 0, 0, &d), SN_ERR_SHAPE);
  sn_array_release(a);
  sn_array_release(b);
}
END_TEST

TCase *array_cases(void) {
  TCase *t = tcase_create("host arrays");
  tcase_add_test(t, owned);
  tcase_add_test(t, borrowed);
  tcase_add_test(t, tuples);
  tcase_add_test(t, dynamic);
  tcase_add_test(t, refused);
  tcase_add_test(t, out_of_memory);
  tcase_add_test(t, comparing_floats);
  tcase_add_test(t, comparing_integers);
  return t;
}
