/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_files.h"

typedef struct npy_file {
  char bytes[512];
  size_t n;
} npy_file;

/* A file of version 1.0 (or `version`) with this dict and data. */
static npy_file npy(int version, const char *dict, const void *data, size_t n) {
  npy_file f = {.n = 0};
  size_t length = strlen(dict);
  memcpy(f.bytes, "\x93NUMPY", 6);
  f.bytes[6] = (char)version;
  f.bytes[8] = (char)(length & 0xff);
  f.bytes[9] = (char)(length >> 8);
  f.n = version == 1 ? 10 : 12;
  memcpy(f.bytes + f.n, dict, length);
  f.n += length;
  if (n > 0) memcpy(f.bytes + f.n, data, n);
  f.n += n;
  return f;
}

static const int16_t six[] = {1, 2, 3, 4, 5, 6};
#define DICT(descr, fortran, shape) "{'descr': '" descr "', 'fortran_order': " fortran ", 'shape': " shape ", }\n"

static void check_reads(const npy_file *f, sn_type type, const int64_t dims[2], const void *want) {
  sn_bundle *b;
  ck_assert_int_eq(sn_files_read_memory(NULL, "test", f->bytes, f->n, &b), SN_OK);
  sn_array *expected = test_array(type, 2, dims, want);
  ck_assert(sn_array_equal(sn_bundle_get(b, "arr_0"), expected));
  sn_array_release(expected);
  sn_bundle_destroy(b);
}

START_TEST(orders) {
  const int64_t dims[] = {2, 3};
  const int16_t columns[] = {1, 3, 5, 2, 4, 6};
  const uint8_t big[] = {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6};
  npy_file f = npy(1, DICT("<i2", "False", "(2, 3)"), six, 12);
  check_reads(&f, SN_TYPE_S16, dims, six);
  f = npy(2, DICT("<i2", "False", "(2, 3)"), six, 12);
  check_reads(&f, SN_TYPE_S16, dims, six);
  f = npy(3, "{\"shape\":(2L,3L),\"fortran_order\":True,\"descr\":\"=i2\"}", six, 12);
  check_reads(&f, SN_TYPE_S16, dims, columns);
  f = npy(1, DICT(">i2", "False", "(2, 3)"), big, 12);
  check_reads(&f, SN_TYPE_S16, dims, six);
  f = npy(1, DICT(">i2", "True", "(2, 3)"), big, 12);
  check_reads(&f, SN_TYPE_S16, dims, columns);
  const uint8_t bools[] = {0, 1, 2, 255, 0, 1}, want[] = {0, 1, 1, 1, 0, 1};
  f = npy(1, DICT("|b1", "False", "(2, 3)"), bools, 6);
  check_reads(&f, SN_TYPE_PRED, dims, want);
}
END_TEST

/* Each half of a complex number is swapped by itself. */
START_TEST(big_endian_complex) {
  const uint8_t big[] = {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0};
  const float want[] = {1, 2};
  const int64_t dims[] = {1, 1};
  npy_file f = npy(1, DICT(">c8", "False", "(1, 1)"), big, 8);
  check_reads(&f, SN_TYPE_C64, dims, want);
}
END_TEST

START_TEST(refused) {
  const struct { const char *dict; size_t n; sn_status status; const char *part; } cases[] = {
      {DICT("<i2", "False", "(2, 3)"), 11, SN_ERR_CORRUPT, "cut short"},
      {DICT("<i2", "False", "(2, 2)"), 12, SN_ERR_CORRUPT, "4 bytes too many"},
      {DICT("<i2", "False", "(2, -3)"), 12, SN_ERR_CORRUPT, "a size in the shape"},
      {DICT("<i2", "False", "(4611686018427387904, 8)"), 12, SN_ERR_CORRUPT, "overflow"},
      {DICT("<i2", "False", "(99999999999999999999,)"), 12, SN_ERR_CORRUPT, "a size"},
      {DICT("<i2", "Maybe", "(2, 3)"), 12, SN_ERR_CORRUPT, "True or False"},
      {DICT("<V2", "False", "(6,)"), 12, SN_ERR_UNSUPPORTED, "'<V2'"},
      {DICT("|O", "False", "(6,)"), 12, SN_ERR_UNSUPPORTED, "'|O'"},
      {DICT("<f16", "False", "(1,)"), 12, SN_ERR_UNSUPPORTED, "'<f16'"},
      {DICT("", "False", "(1,)"), 12, SN_ERR_UNSUPPORTED, "''"},
      {"{'descr': [('a', '<i2')], 'fortran_order': False, 'shape': (6,)}", 12, SN_ERR_UNSUPPORTED, "structured"},
      {"{'descr': '<i2', 'shape': (6,)}", 12, SN_ERR_CORRUPT, "all three"},
      {"{'descr': '<i2', 'descr': '<i2', 'shape': (6,)}", 12, SN_ERR_CORRUPT, "each key once"},
      {"{'descr': '<i2', 'more': 1}", 12, SN_ERR_CORRUPT, "alone"},
      {DICT("<i2", "False", "(6,)") "x", 12, SN_ERR_CORRUPT, "nothing behind"},
      {"", 12, SN_ERR_CORRUPT, "'{'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    npy_file f = npy(1, cases[i].dict, six, cases[i].n);
    check_refused(f.bytes, f.n, cases[i].status, cases[i].part);
  }
  npy_file f = npy(4, DICT("<i2", "False", "(6,)"), six, 12);
  check_refused(f.bytes, f.n, SN_ERR_UNSUPPORTED, "version 4.0");
}
END_TEST

START_TEST(many_dimensions) {
  char dict[256] = "{'descr': '<i2', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < 33; i++) strcat(dict, "1, ");
  strcat(dict, ")}");
  npy_file f = npy(1, dict, six, 2);
  check_refused(f.bytes, f.n, SN_ERR_UNSUPPORTED, "more than 32 dimensions");
}
END_TEST

START_TEST(damage) {
  npy_file f = npy(1, DICT(">i2", "True", "(2, 3)"), six, 12);
  check_mutations(f.bytes, f.n);
  check_allocations(f.bytes, f.n);
}
END_TEST

static void check_written(sn_type t, int rank, const int64_t *dims, const void *data, sn_type read_as) {
  sn_bundle *b, *back;
  sn_array *a = test_array(t, rank, dims, data), *want = test_array(read_as, rank, dims, data);
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "arr_0", a), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, test_path("a.npy"), b), SN_OK);
  ck_assert_int_eq(sn_files_read(NULL, test_path("a.npy"), &back), SN_OK);
  ck_assert(sn_array_equal(sn_bundle_get(back, "arr_0"), want));
  sn_array_release(a);
  sn_array_release(want);
  sn_bundle_destroy(b);
  sn_bundle_destroy(back);
  test_remove("a.npy");
}

START_TEST(written) {
  const int64_t dims[] = {2, 3}, six_dims[] = {6}, none[] = {0, 3};
  check_written(SN_TYPE_S16, 2, dims, six, SN_TYPE_S16);
  check_written(SN_TYPE_S16, 1, six_dims, six, SN_TYPE_S16);
  check_written(SN_TYPE_S16, 0, NULL, six, SN_TYPE_S16);
  check_written(SN_TYPE_S16, 2, none, six, SN_TYPE_S16);
  check_written(SN_TYPE_BF16, 2, dims, six, SN_TYPE_U16);
}
END_TEST

/* Byte for byte what numpy.save writes. */
START_TEST(as_numpy) {
  char *data, want[128 + 1];
  size_t n;
  const int64_t dims[] = {2, 3};
  sn_bundle *b;
  sn_array *a = test_array(SN_TYPE_S16, 2, dims, six);
  memset(want, ' ', 128);
  memcpy(want, "\x93NUMPY\x01\x00\x76\x00{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3), }", 10 + 59);
  want[127] = '\n';
  ck_assert_int_eq(sn_bundle_create(&b), SN_OK);
  ck_assert_int_eq(sn_bundle_set(b, "x", a), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, test_path("b.npy"), b), SN_OK);
  read_file("b.npy", &data, &n);
  ck_assert_uint_eq(n, 128 + 12);
  ck_assert_mem_eq(data, want, 128);
  ck_assert_mem_eq(data + 128, six, 12);
  ck_assert_int_eq(sn_bundle_set(b, "y", a), SN_OK);
  ck_assert_int_eq(sn_files_write(NULL, test_path("b.npy"), b), SN_ERR_USAGE);
  sn_free(data);
  sn_array_release(a);
  sn_bundle_destroy(b);
  test_remove("b.npy");
}
END_TEST

TCase *npy_cases(void) {
  TCase *t = tcase_create("npy");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, orders);
  tcase_add_test(t, big_endian_complex);
  tcase_add_test(t, refused);
  tcase_add_test(t, many_dimensions);
  tcase_add_test(t, damage);
  tcase_add_test(t, written);
  tcase_add_test(t, as_numpy);
  return t;
}
