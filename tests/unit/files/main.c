/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_files.h"

#include <stdlib.h>
#include <unistd.h>

sn_array *test_array(sn_type t, int rank, const int64_t *dims, const void *data) {
  sn_array *a;
  const sn_shape shape = {.type = t, .rank = rank, .dims = dims};
  ck_assert_int_eq(sn_array_create_from(&shape, data, &a), SN_OK);
  return a;
}

const char *test_path(const char *name) {
  static char path[256];
  const char *folder = sn_env("TMPDIR");
  snprintf(path, sizeof path, "%s/sinter-files-%ld-%s", folder ? folder : "/tmp", (long)getpid(), name);
  return path;
}

void test_remove(const char *name) { ck_assert_int_eq(sn_file_remove(NULL, test_path(name)), SN_OK); }

void read_file(const char *name, char **data, size_t *n) {
  ck_assert_int_eq(sn_file_read(NULL, test_path(name), data, n), SN_OK);
}

void check_refused(const void *data, size_t n, sn_status want, const char *part) {
  sn_diag *d;
  sn_bundle *b;
  int64_t live = sn_alloc_live();
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status got = sn_files_read_memory(d, "test", data, n, &b);
  const char *message = sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "(no message)";
  ck_assert_msg(got == want, "%s: %s", sn_status_text(got), message);
  ck_assert_ptr_null(b);
  ck_assert_msg(strstr(message, part), "'%s' lacks '%s'", message, part);
  sn_diag_destroy(d);
  ck_assert_int_eq(sn_alloc_live(), live);
}

static void read_any(const void *data, size_t n) {
  sn_bundle *b;
  int64_t live = sn_alloc_live();
  sn_status status = sn_files_read_memory(NULL, "test", data, n, &b);
  ck_assert((status == SN_OK) == (b != NULL));
  sn_bundle_destroy(b);
  ck_assert_int_eq(sn_alloc_live(), live);
}

void check_mutations(const void *data, size_t n) {
  static const uint8_t changes[] = {0x01, 0x80, 0xff, 0x20};
  for (size_t i = 0; i < n; i++) {
    char *copy = sn_alloc(i); /* exactly as long as it says, for the address sanitizer */
    memcpy(copy, data, i);
    read_any(copy, i);
    sn_free(copy);
  }
  char *copy = sn_alloc(n);
  memcpy(copy, data, n);
  for (size_t i = 0; i < n; i++) {
    for (size_t j = 0; j < sizeof changes; j++) {
      copy[i] = (char)(copy[i] ^ changes[j]);
      read_any(copy, n);
      copy[i] = (char)(copy[i] ^ changes[j]);
    }
  }
  sn_free(copy);
}

void check_allocations(const void *data, size_t n) {
  int64_t live = sn_alloc_live();
  for (int i = 0;; i++) {
    sn_bundle *b;
    sn_alloc_fail_after(i);
    sn_status status = sn_files_read_memory(NULL, "test", data, n, &b);
    sn_alloc_fail_after(-1);
    sn_bundle_destroy(b);
    ck_assert_int_eq(sn_alloc_live(), live);
    if (status == SN_OK) break;
    ck_assert_int_eq(status, SN_ERR_MEMORY);
    ck_assert_int_lt(i, 10000);
  }
}

sn_bundle *test_every_type(void) {
  static const double values[] = {0, 1, -1, 3.5};
  const int64_t dims[] = {2, 2};
  sn_bundle *b;
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  for (sn_type t = (sn_type)0; sn_type_is_array(t); t++) {
    uint8_t data[4 * 16];
    for (size_t i = 0; i < 4; i++) {
      void *p = data + i * sn_type_bytes(t);
      if (sn_type_is_complex(t)) sn_store_c128(t, p, values[i], -values[i]);
      else sn_store_f64(t, p, values[i]);
    }
    sn_array *a = test_array(t, 2, dims, data);
    ck_assert_int_eq(sn_bundle_set(b, sn_type_text(t), a), SN_OK);
    sn_array_release(a);
  }
  return b;
}

void check_equal(const sn_bundle *a, const sn_bundle *b) {
  ck_assert_uint_eq(sn_bundle_count(a), sn_bundle_count(b));
  for (size_t i = 0; i < sn_bundle_count(a); i++) {
    ck_assert_str_eq(sn_bundle_name(a, i), sn_bundle_name(b, i));
    ck_assert_msg(sn_array_equal(sn_bundle_at(a, i), sn_bundle_at(b, i)), "%s", sn_bundle_name(a, i));
  }
}

START_TEST(bundle) {
  const float one = 1, two = 2;
  int64_t live = sn_alloc_live();
  sn_array *a = test_array(SN_TYPE_F32, 0, NULL, &one), *c = test_array(SN_TYPE_F32, 0, NULL, &two), *tuple;
  sn_bundle *b;
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "x", a), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "y", a), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "x", c), SN_OK);
  ck_assert_uint_eq(sn_bundle_count(b), 2);
  ck_assert_ptr_eq(sn_bundle_get(b, "x"), c);
  ck_assert_ptr_eq(sn_bundle_at(b, 1), a);
  ck_assert_str_eq(sn_bundle_name(b, 0), "x");
  ck_assert_ptr_null(sn_bundle_get(b, "z"));
  ck_assert_ptr_null(sn_bundle_at(b, 2));
  ck_assert_int_eq(sn_array_create_tuple(0, NULL, &tuple), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "t", tuple), SN_ERR_USAGE);
  ck_assert_int_eq(sn_bundle_set_metadata(b, "k", "v"), SN_OK);
  ck_assert_int_eq(sn_bundle_set_metadata(b, "k", "w"), SN_OK);
  ck_assert_str_eq(sn_bundle_metadata(b, "k"), "w");
  ck_assert_ptr_null(sn_bundle_metadata(b, "l"));
  sn_bundle_destroy(b);
  sn_bundle_destroy(NULL);
  sn_array_release(tuple);
  sn_array_release(a);
  sn_array_release(c);
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

START_TEST(not_arrays) {
  check_refused("", 0, SN_ERR_CORRUPT, "empty");
  check_refused("abc", 3, SN_ERR_CORRUPT, "too few");
  check_refused("HloModule m, entry", 18, SN_ERR_CORRUPT, "neither");
  sn_bundle *b;
  ck_assert_int_eq(sn_files_read(NULL, "/nowhere/at/all.npz", &b), SN_ERR_IO);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, "/tmp/x.hdf5", b), SN_ERR_USAGE);
  sn_bundle_destroy(b);
}
END_TEST

int main(void) {
  Suite *s = suite_create("files");
  TCase *t = tcase_create("bundle");
  tcase_add_test(t, bundle);
  tcase_add_test(t, not_arrays);
  suite_add_tcase(s, t);
  suite_add_tcase(s, npy_cases());
  suite_add_tcase(s, npz_cases());
  suite_add_tcase(s, safetensors_cases());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
