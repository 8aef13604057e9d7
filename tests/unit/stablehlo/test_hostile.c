/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Any bytes: a program cut at every byte, with every byte changed, nested without end, and with every allocation failing once. */
#include <stdlib.h>
#include <string.h>

#include "test_stablehlo.h"

static const char sample[] =
    "#loc = loc(unknown)\nmodule @m attributes {mhlo.num_partitions = 1 : i32} {\n  func.func public @main(%arg0: tensor<2x3xf32> {jax.buffer_donor = true}) -> (tensor<2xf32>) {\n"
    "    %c = stablehlo.constant dense<[[1.0, -2.5e0, 0x7F800000], [0.0, 1.0, 2.0]]> : tensor<2x3xf32>\n    %0 = stablehlo.add %arg0, %c : tensor<2x3xf32>\n"
    "    %i = stablehlo.constant dense<\"0x00000000\"> : tensor<f32>\n    %1 = stablehlo.reduce(%0 init: %i) applies stablehlo.maximum across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>\n"
    "    %2 = call @g(%1) : (tensor<2xf32>) -> tensor<2xf32>\n    return %2 : tensor<2xf32> loc(#loc)\n  }\n"
    "  func.func private @g(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n    %q = stablehlo.uniform_quantize %arg0 : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:-3>>\n"
    "    %d = stablehlo.uniform_dequantize %q : (tensor<2x!quant.uniform<i8:f32, 0.5:-3>>) -> tensor<2xf32>\n    return %d : tensor<2xf32>\n  }\n}\n";

static void read_bytes(const char *text, size_t n) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert(sn_diag_create(&d) == SN_OK);
  char *exact = malloc(n ? n : 1); /* so that a sanitizer sees a byte too far */
  ck_assert_ptr_nonnull(exact);
  memcpy(exact, text, n);
  sn_status s = sn_stablehlo_parse(d, "t.mlir", exact, n, NULL, &m);
  ck_assert(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0);
  ck_assert_int_ne(s, SN_ERR_INTERNAL);
  sn_module_destroy(m);
  sn_diag_destroy(d);
  free(exact);
}

START_TEST(test_cut) {
  for (size_t n = 0; n < sizeof sample; n++) read_bytes(sample, n < sizeof sample - 1 ? n : sizeof sample - 1);
}
END_TEST

START_TEST(test_changed) {
  char text[sizeof sample];
  static const char with[] = "\0\"%<({[]})>#!-9\xff";
  for (size_t at = 0; at + 1 < sizeof sample; at++) {
    memcpy(text, sample, sizeof sample);
    text[at] = with[at % (sizeof with - 1)];
    read_bytes(text, sizeof sample - 1);
  }
}
END_TEST

START_TEST(test_nested) {
  static const char *const openings[] = {"func.func @f(%a: tuple<", "func.func @f() attributes {a = [", "func.func @f() attributes {a = {b = ", "func.func @f(%a: (", "#a = loc(fused[", "func.func @f(%a: tensor<2x!quant.uniform<i8:f32:{0:1}, {"};
  static const char *const repeats[] = {"tuple<", "[", "{b = ", "(", "fused[", "{"};
  for (size_t k = 0; k < sizeof openings / sizeof openings[0]; k++) {
    sn_str text = {0};
    sn_str_add(&text, openings[k]);
    for (int i = 0; i < 100000; i++) sn_str_add(&text, repeats[k]);
    ck_assert(!text.failed);
    read_bytes(text.data, text.n);
    sn_str_finish(&text);
  }
}
END_TEST

/* Each call doubles the work of the one before: refused or done, not run for ever. */
START_TEST(test_doubling) {
  sn_str text = {0};
  sn_str_add(&text, "func.func @main(%x: tensor<?xf32>) {\n  call @f0(%x) : (tensor<?xf32>) -> ()\n  return\n}\n");
  for (int i = 0; i < 40; i++)
    sn_str_printf(&text, "func.func @f%d(%%x: tensor<?xf32>) {\n  call @f%d(%%x) : (tensor<?xf32>) -> ()\n  call @f%d(%%x) : (tensor<?xf32>) -> ()\n  return\n}\n", i, i + 1, i + 1);
  sn_str_add(&text, "func.func @f40(%x: tensor<?xf32>) {\n  return\n}\n");
  ck_assert(!text.failed);
  sn_stablehlo_options o;
  sn_module *m = NULL;
  sn_stablehlo_options_init(&o);
  o.every_dimension = 2;
  ck_assert_int_eq(sn_stablehlo_parse(NULL, "t.mlir", text.data, text.n, &o, &m), SN_ERR_OVERFLOW);
  sn_str_finish(&text);
}
END_TEST

START_TEST(test_no_memory) {
  int64_t live = sn_alloc_live();
  for (int64_t n = 0;; n++) {
    sn_module *m = NULL;
    sn_alloc_fail_after(n);
    sn_status s = sn_stablehlo_parse(NULL, "t.mlir", sample, sizeof sample - 1, NULL, &m);
    sn_alloc_fail_after(-1);
    sn_module_destroy(m);
    ck_assert_int_eq(sn_alloc_live(), live);
    if (s == SN_OK) break;
    ck_assert_int_eq(s, SN_ERR_MEMORY);
    ck_assert_int_lt(n, 100000);
  }
}
END_TEST

TCase *hostile_cases(void) {
  TCase *t = tcase_create("hostile");
  tcase_set_timeout(t, 60);
  tcase_add_test(t, test_cut);
  tcase_add_test(t, test_changed);
  tcase_add_test(t, test_nested);
  tcase_add_test(t, test_doubling);
  tcase_add_test(t, test_no_memory);
  return t;
}
