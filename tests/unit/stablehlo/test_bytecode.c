/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bytecode made to hurt: every prefix, every byte changed, every allocation failing once. Whether good files are read right is asked in tests/conformance. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "mlir.h"

static const char *const files[] = {"matmul_odd", "conv_spatial_sharded", "collectives_mesh2x4"};
enum { N_FILES = sizeof files / sizeof files[0], MAX_ALLOCATIONS = 20000 };

typedef struct sample {
  char *data;
  size_t n;
} sample;

static sample open_sample(int k) {
  char path[1024];
  sample s = {NULL, 0};
  const char *dir = getenv("SINTER_TEST_DATA");
  snprintf(path, sizeof path, "%s/golden/stablehlo/%s.bc", dir != NULL ? dir : "tests/data", files[k]);
  ck_assert_msg(sn_file_read(NULL, path, &s.data, &s.n) == SN_OK, "%s", path);
  return s;
}

/* Reads a copy of exactly n bytes, so that a step beyond them is seen by the sanitizer. A fault says where. */
static sn_status read_copy(const char *data, size_t n) {
  sn_diag *d = NULL;
  sn_mlir *m = NULL;
  char *copy = malloc(n + (n == 0));
  ck_assert(copy != NULL);
  memcpy(copy, data, n);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status st = sn_mlir_read_bytecode(d, "s.bc", copy, n, &m);
  free(copy);
  ck_assert((st == SN_OK) == (m != NULL));
  if (st != SN_OK) {
    ck_assert_uint_gt(sn_diag_stored(d), 0);
    const char *message = sn_diag_get(d, 0)->message;
    ck_assert_msg(strstr(message, "byte ") != NULL || strstr(message, "shape") != NULL, "%s", message);
  }
  sn_mlir_destroy(m);
  sn_diag_destroy(d);
  return st;
}

START_TEST(prefixes_are_refused) {
  sample s = open_sample(_i);
  ck_assert_int_eq(read_copy(s.data, s.n), SN_OK);
  for (size_t n = 0; n < s.n; n++) ck_assert_int_ne(read_copy(s.data, n), SN_OK);
  sn_free(s.data);
}
END_TEST

START_TEST(changed_bytes_do_no_harm) {
  static const unsigned char changes[] = {1, 2, 4, 8, 16, 32, 64, 128, 255};
  sample s = open_sample(_i);
  int refused = 0;
  for (size_t k = 0; k < s.n; k++) {
    for (size_t c = 0; c < sizeof changes; c++) {
      s.data[k] = (char)(s.data[k] ^ changes[c]);
      refused += read_copy(s.data, s.n) != SN_OK;
      s.data[k] = (char)(s.data[k] ^ changes[c]);
    }
  }
  ck_assert_int_gt(refused, 0);
  sn_free(s.data);
}
END_TEST

START_TEST(memory_ends_anywhere) {
  sample s = open_sample(_i);
  sn_status st = SN_ERR_MEMORY;
  int n = 0;
  for (; n < MAX_ALLOCATIONS && st != SN_OK; n++) {
    sn_mlir *m = NULL;
    sn_alloc_fail_after(n);
    st = sn_mlir_read_bytecode(NULL, "s.bc", s.data, s.n, &m);
    sn_alloc_fail_after(-1);
    ck_assert((st == SN_OK) == (m != NULL));
    if (st != SN_OK) ck_assert_int_eq(st, SN_ERR_MEMORY);
    sn_mlir_destroy(m);
  }
  ck_assert_int_eq(st, SN_OK);
  sn_free(s.data);
}
END_TEST

/* A newer container, and bytes that are something else: by name. */
START_TEST(others_are_named) {
  static const struct { const char *bytes; size_t n; sn_status status; const char *says; } cases[] = {
      {"ML\xefR\x0fNEW\0", 9, SN_ERR_UNSUPPORTED, "found version 7, written by NEW"},
      {"ML\xefR\x0d", 5, SN_ERR_SYNTAX, "the producer's name"},
      {"module {}", 9, SN_ERR_SYNTAX, "the magic"},
      {"ML\xefR\x0dX\0", 7, SN_ERR_SYNTAX, "expected a section String"},
      {"ML\xefR\x0dX\0\x13\x01", 9, SN_ERR_SYNTAX, "expected a section numbered"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    sn_diag *d = NULL;
    sn_mlir *m = NULL;
    ck_assert_int_eq(sn_diag_create(&d), SN_OK);
    sn_status st = sn_mlir_read_bytecode(d, "s.bc", cases[i].bytes, cases[i].n, &m);
    ck_assert_ptr_null(m);
    ck_assert_int_eq(st, cases[i].status);
    ck_assert_msg(strstr(sn_diag_get(d, 0)->message, cases[i].says) != NULL, "%s", sn_diag_get(d, 0)->message);
    sn_diag_destroy(d);
  }
}
END_TEST

int main(void) {
  Suite *s = suite_create("stablehlo");
  TCase *c = tcase_create("bytecode");
  tcase_add_loop_test(c, prefixes_are_refused, 0, N_FILES);
  tcase_add_loop_test(c, changed_bytes_do_no_harm, 0, N_FILES);
  tcase_add_loop_test(c, memory_ends_anywhere, 0, N_FILES);
  tcase_add_test(c, others_are_named);
  tcase_set_timeout(c, 120);
  suite_add_tcase(s, c);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
