/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The mapping: the table, programs that check themselves, faults, specialisation. */
#include <string.h>

#include "map.h"
#include "test_stablehlo.h"

START_TEST(test_table_is_sorted) {
  const sn_sm_row *rows = NULL;
  size_t n = sn_sm_rows(&rows);
  for (size_t i = 1; i < n; i++) ck_assert_msg(strcmp(rows[i - 1].name, rows[i].name) < 0, "%s", rows[i].name);
  for (size_t i = 0; i < n; i++) ck_assert_ptr_eq(sn_sm_row_find(rows[i].name), &rows[i]);
}
END_TEST

#define MAIN(body) "func.func @main() {\n" body "\n  return\n}\n"
/* Programs whose checks hold. */
static const char *const good[] = {
    /* captured values of branches and loops */
    MAIN("%x = stablehlo.constant dense<[1, 2]> : tensor<2xi32>\n%y = stablehlo.add %x, %x : tensor<2xi32>\n%p = stablehlo.constant dense<false> : tensor<i1>\n"
         "%0 = \"stablehlo.if\"(%p) ({\nstablehlo.return %x : tensor<2xi32>\n}, {\nstablehlo.return %y : tensor<2xi32>\n}) : (tensor<i1>) -> tensor<2xi32>\n"
         "check.expect_eq_const %0, dense<[2, 4]> : tensor<2xi32>"),
    MAIN("%n = stablehlo.constant dense<0> : tensor<i32>\n%k = stablehlo.iota dim = 0 : tensor<2xi32>\n%s = stablehlo.constant dense<0> : tensor<2xi32>\n"
         "%r:2 = stablehlo.while(%i = %n, %a = %s) : tensor<i32>, tensor<2xi32>\ncond {\n%l = stablehlo.constant dense<3> : tensor<i32>\n"
         "%c = stablehlo.compare LT, %i, %l, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n} do {\n"
         "%one = stablehlo.constant dense<1> : tensor<i32>\n%j = stablehlo.add %i, %one : tensor<i32>\n%b = stablehlo.add %a, %k : tensor<2xi32>\n"
         "stablehlo.return %j, %b : tensor<i32>, tensor<2xi32>\n}\ncheck.expect_eq_const %r#1, dense<[0, 3]> : tensor<2xi32>"),
    /* a call twice; a composite by its decomposition and by its name */
    "func.func private @double(%x: tensor<f32>) -> tensor<f32> {\n%0 = stablehlo.add %x, %x : tensor<f32>\nreturn %0 : tensor<f32>\n}\n" MAIN(
        "%x = stablehlo.constant dense<1.5> : tensor<f32>\n%0 = call @double(%x) : (tensor<f32>) -> tensor<f32>\n%1 = call @double(%0) : (tensor<f32>) -> tensor<f32>\n"
        "%2 = stablehlo.composite \"my.op\" %1 {decomposition = @double, version = 1 : i32} : (tensor<f32>) -> tensor<f32>\n"
        "%3 = stablehlo.composite \"chlo.sinh\" %x {decomposition = @double} : (tensor<f32>) -> tensor<f32>\n"
        "check.expect_eq_const %2, dense<12.0> : tensor<f32>\ncheck.expect_close %3, %3, max_ulp_difference = 0 : tensor<f32>, tensor<f32>\n"
        "check.expect_almost_eq_const %3, dense<2.1292794> : tensor<f32>"),
    /* quantised: dequantise, add, quantise */
    MAIN("%x = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>\n%q = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> tensor<2x!quant.uniform<i8:f32, 0.5:1>>\n"
         "%s = stablehlo.add %q, %q : tensor<2x!quant.uniform<i8:f32, 0.5:1>>\n%y = stablehlo.uniform_dequantize %s : (tensor<2x!quant.uniform<i8:f32, 0.5:1>>) -> tensor<2xf32>\n"
         "check.expect_eq_const %y, dense<[2.0, 4.0]> : tensor<2xf32>"),
    /* stretching, and dimensions out of order */
    MAIN("%x = stablehlo.constant dense<[[1], [2]]> : tensor<2x1xi32>\n%0 = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<2x1xi32>) -> tensor<3x2xi32>\n"
         "check.expect_eq_const %0, dense<[[1, 2], [1, 2], [1, 2]]> : tensor<3x2xi32>"),
    MAIN("%x = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>\n%y = \"stablehlo.einsum\"(%x, %x) {einsum_config = \"ab,cb->ca\"} : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>\n"
         "check.expect_eq_const %y, dense<[[5, 11], [11, 25]]> : tensor<2x2xi32>"),
    /* shapes that are computed */
    MAIN("%x = stablehlo.constant dense<7> : tensor<i32>\n%s = stablehlo.constant dense<[2, 3]> : tensor<2xi32>\n"
         "%0 = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [] : (tensor<i32>, tensor<2xi32>) -> tensor<?x?xi32>\n"
         "%1 = stablehlo.get_dimension_size %0, dim = 1 : (tensor<?x?xi32>) -> tensor<i32>\ncheck.expect_eq_const %1, dense<3> : tensor<i32>"),
};

START_TEST(test_good) {
  sn_diag *d = NULL;
  ck_assert(sn_diag_create(&d) == SN_OK);
  sn_status s = run_text(d, good[_i]);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_diag_destroy(d);
}
END_TEST

typedef struct bad_program { const char *text; sn_status status; const char *words; } bad_program;
static const bad_program bad[] = {
    {MAIN("%x = stablehlo.constant dense<1.0> : tensor<f32>\ncheck.expect_eq_const %x, dense<2.0> : tensor<f32>"), SN_ERR_MISMATCH, "element [] is 1, expected 2"},
    {MAIN("%x = stablehlo.constant dense<[1.0, 0x7FC00000]> : tensor<2xf32>\ncheck.expect_eq %x, %x : tensor<2xf32>"), SN_ERR_MISMATCH, "1 of 2 elements"},
    {MAIN("%x = stablehlo.constant dense<1.0> : tensor<f32>\n%y = stablehlo.constant dense<1.0000004> : tensor<f32>\ncheck.expect_close %x, %y, max_ulp_difference = 2 : tensor<f32>, tensor<f32>"),
     SN_ERR_MISMATCH, "check.expect_close failed"},
    {MAIN("%x = stablehlo.constant dense<1.0> : tensor<f32>\n%y = stablehlo.sinus %x : tensor<f32>"), SN_ERR_UNSUPPORTED, "no such op"},
    {MAIN("%x = stablehlo.constant dense<1.0> : tensor<2xf32>\n%y = stablehlo.reshape %x : (tensor<2xf32>) -> tensor<3xf32>"), SN_ERR_SHAPE, "reshape"},
    {MAIN("%x = stablehlo.constant dense<1.0> : tensor<2xf32>\n%y = stablehlo.concatenate %x, %x, dim = 0 : (tensor<2xf32>, tensor<2xf32>) -> tensor<5xf32>"), SN_ERR_SHAPE,
     "the type of result 0 is stated as tensor<5xf32>"},
    {"func.func @main() {\n  call @mian() : () -> ()\n  return\n}", SN_ERR_NAME, "no function @mian"},
    {"func.func @main() {\n  call @f() : () -> ()\n  return\n}\nfunc.func @f() {\n  call @f() : () -> ()\n  return\n}", SN_ERR_UNSUPPORTED, "calls itself"},
    {"func.func @main(%x: tensor<?xf32>) {\n  return\n}", SN_ERR_SHAPE, "the size of dimension 0"},
    {MAIN("%x = stablehlo.constant dense<1> : tensor<i32>\n%y = \"stablehlo.add\"(%x) : (tensor<i32>) -> tensor<i32>"), SN_ERR_SHAPE, "expected 2 operands, found 1"},
};

START_TEST(test_bad) {
  sn_diag *d = NULL;
  ck_assert(sn_diag_create(&d) == SN_OK);
  ck_assert_int_eq(run_text(d, bad[_i].text), bad[_i].status);
  ck_assert_uint_ge(sn_diag_stored(d), 1);
  const sn_diagnostic *g = sn_diag_get(d, 0);
  ck_assert_msg(strstr(g->message, bad[_i].words) != NULL, "%s", g->message);
  ck_assert_uint_ge(g->loc.line, 1);
  sn_diag_destroy(d);
}
END_TEST

/* The same text for two sizes of its argument. */
START_TEST(test_specialised) {
  static const char text[] =
      "func.func @main(%x: tensor<?x2xf32>) -> tensor<?xf32> {\n  %n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?x2xf32>) -> tensor<i32>\n"
      "  %two = stablehlo.constant dense<2> : tensor<i32>\n  %k = stablehlo.multiply %n, %two : tensor<i32>\n  %s = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>\n"
      "  %r = stablehlo.dynamic_reshape %x, %s : (tensor<?x2xf32>, tensor<1xi32>) -> tensor<?xf32>\n  return %r : tensor<?xf32>\n}\n";
  for (int64_t n = 3; n <= 5; n += 2) {
    sn_stablehlo_options o;
    sn_module *m = NULL;
    sn_stablehlo_options_init(&o);
    o.every_dimension = n;
    ck_assert_int_eq(sn_stablehlo_parse(NULL, "t.mlir", text, strlen(text), &o, &m), SN_OK);
    ck_assert_int_eq(m->entry->root->shape->dims[0], 2 * n);
    sn_module_destroy(m);
  }
}
END_TEST

TCase *map_cases(void) {
  TCase *t = tcase_create("map");
  tcase_add_test(t, test_table_is_sorted);
  tcase_add_loop_test(t, test_good, 0, (int)(sizeof good / sizeof good[0]));
  tcase_add_loop_test(t, test_bad, 0, (int)(sizeof bad / sizeof bad[0]));
  tcase_add_test(t, test_specialised);
  return t;
}
