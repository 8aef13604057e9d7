/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The text reader: faults by place and words; forms that mean the same. */
#include <string.h>

#include "test_stablehlo.h"

typedef struct fault { const char *text; uint32_t line, col; const char *words; } fault;

static const fault faults[] = {
    {"func.func @main() {\n  %0 = stablehlo.constant dense<1> : tensor<i32>\n  %1 = stablehlo.add %0, %2 : tensor<i32>\n  return\n}", 3, 26, "%2 is not defined"},
    {"func.func @main() {\n  %0 = stablehlo.constant dense<[1, 2, 3]> : tensor<2xi32>\n  return\n}", 2, 38, "expected 2 elements in dimension 0"},
    {"func.func @main() {\n  %0 = stablehlo.constant dense<300> : tensor<i8>\n  return\n}", 2, 33, "expected an integer of 8 bits"},
    {"func.func @main() {\n  %0 = stablehlo.constant dense<\"0x0102\"> : tensor<3xi8>\n  return\n}", 2, 34, "expected 3 bytes"},
    {"func.func @main(%a: tensor<2xf33>) {\n  return\n}", 1, 30, "expected a type, found `f33`"},
    {"func.func @main(%a: tensor<2xf32>) {\n  %0 = \"stablehlo.abs\"(%a) : (tensor<3xf32>) -> tensor<3xf32>\n  return\n}", 2, 30, "expected tensor<2xf32> for operand 0"},
    {"func.func @main(%a: tensor<2xf32>) {\n  %0:2 = stablehlo.abs %a : tensor<2xf32>\n  return\n}", 2, 10, "has 1 result, found names for 2"},
    {"func.func @main(%a: tensor<2xf32>) {\n  %0 = stablehlo.iota dims = 0 : tensor<2xi32>\n  return\n}", 2, 23, "has no `dims`"},
    {"func.func @main(%a: tensor<2xf32>) {\n  %a = stablehlo.abs %a : tensor<2xf32>\n  return\n}", 2, 3, "%a is defined twice"},
    {"module {\n  func.func @main() {\n    return\n  }\n", 5, 1, "after the body of the module"},
    {"func.func @main() {\n  \"stablehlo.return\"() [^bb1] : () -> ()\n}", 2, 24, "successors"},
    {"func.func @main(%a: tensor<?xf32, #stablehlo.bounds<3, 4>>) {\n  return\n}", 1, 34, "expected 1 bounds"},
    {"func.func @main(%a: tensor<2x!quant.uniform<f32:f32, 0.1>>) {\n  return\n}", 1, 45, "as storage type"},
};

START_TEST(test_faults) {
  const fault *f = &faults[_i];
  sn_diag *d = NULL;
  sn_mlir *m = NULL;
  ck_assert(sn_diag_create(&d) == SN_OK);
  ck_assert(sn_mlir_read_text(d, "t.mlir", f->text, strlen(f->text), &m) != SN_OK);
  ck_assert_uint_ge(sn_diag_stored(d), 1);
  const sn_diagnostic *g = sn_diag_get(d, 0);
  ck_assert_msg(strstr(g->message, f->words) != NULL, "%s", g->message);
  ck_assert_msg(g->loc.line == f->line && g->loc.col == f->col, "%u:%u: %s", g->loc.line, g->loc.col, g->message);
  ck_assert_str_eq(g->loc.file, "t.mlir");
  sn_diag_destroy(d);
}
END_TEST

/* The same function in two spellings gives equal modules. */
typedef struct pair { const char *a, *b; } pair;
#define F(args, body) "func.func @main(" args ") {\n" body "\n  return\n}\n"
static const pair pairs[] = {
    {F("%x: tensor<4x3xf32>", "%0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x3xf32>) -> tensor<3x4xf32>"),
     F("%x: tensor<4x3xf32>", "%0 = \"stablehlo.transpose\"(%x) <{permutation = array<i64: 1, 0>}> : (tensor<4x3xf32>) -> tensor<3x4xf32>")},
    {F("%x: tensor<4xf32>", "%0 = stablehlo.slice %x [0:4:2] : (tensor<4xf32>) -> tensor<2xf32>"),
     F("%x: tensor<4xf32>", "%0 = \"stablehlo.slice\"(%x) {limit_indices = dense<4> : tensor<1xi64>, start_indices = dense<0> : tensor<1xi64>, strides = dense<2> : tensor<1xi64>} : (tensor<4xf32>) -> tensor<2xf32>")},
    {F("%x: tensor<4xf32>", "%0 = stablehlo.compare LT, %x, %x, FLOAT : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>"),
     F("%x: tensor<4xf32>", "%0 = \"stablehlo.compare\"(%x, %x) {comparison_direction = #stablehlo<comparison_direction LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>")},
    {F("%x: tensor<4x5xf32>, %i: tensor<f32>", "%0 = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [1] : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>"),
     F("%x: tensor<4x5xf32>, %i: tensor<f32>",
       "%0 = \"stablehlo.reduce\"(%x, %i) ({\n^bb0(%a: tensor<f32>, %b: tensor<f32>):\n%1 = stablehlo.add %a, %b : tensor<f32>\nstablehlo.return %1 : tensor<f32>\n}) {dimensions = array<i64: 1>} : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32>")},
    {F("%x: tensor<2x3xf32>, %y: tensor<3x4xf32>", "%0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>"),
     F("%x: tensor<2x3xf32>, %y: tensor<3x4xf32>",
       "%0 = \"stablehlo.dot_general\"(%x, %y) {dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>")},
    {F("", "%0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>"), F("", "%0 = stablehlo.constant dense<\"0x0000803F00000040\"> : tensor<2xf32>")},
    {F("%x: tensor<f32> {jax.buffer_donor = true}", "%0 = stablehlo.abs %x : tensor<f32> loc(#loc1)") "#loc1 = loc(\"f\"(\"a.py\":3:7 to :9))\n",
     "!t = tensor<f32>\nmodule @m attributes {mhlo.num_partitions = 1 : i32} {\n" F("%x: !t {jax.buffer_donor = true}", "%0 = stablehlo.abs %x : !t") "}"},
};

static sn_module *read_module(const char *text) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert(sn_diag_create(&d) == SN_OK);
  sn_status s = sn_stablehlo_parse(d, "t.mlir", text, strlen(text), NULL, &m);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_diag_destroy(d);
  return m;
}

START_TEST(test_pairs) {
  sn_module *a = read_module(pairs[_i].a), *b = read_module(pairs[_i].b);
  ck_assert(sn_module_equal(a, b, SN_EQ_LAYOUT));
  sn_module_destroy(a);
  sn_module_destroy(b);
}
END_TEST

START_TEST(test_recognised) {
  static const char *const mlir[] = {"module {", "module @x attributes {}", "  // note\nfunc.func @f()", "#loc = loc(unknown)\nmodule", "\"builtin.module\"() ({"};
  static const char *const hlo[] = {"HloModule m", "ENTRY e {", "%add (a: f32[]) -> f32[] {", "", "modul"};
  for (size_t i = 0; i < sizeof mlir / sizeof mlir[0]; i++) ck_assert_msg(sn_stablehlo_is_text(mlir[i], strlen(mlir[i])), "%s", mlir[i]);
  for (size_t i = 0; i < sizeof hlo / sizeof hlo[0]; i++) ck_assert_msg(!sn_stablehlo_is_text(hlo[i], strlen(hlo[i])), "%s", hlo[i]);
  ck_assert(sn_stablehlo_is_bytecode("ML\xefR\x0d", 5));
  ck_assert(!sn_stablehlo_is_bytecode("ML", 2));
}
END_TEST

/* Metadata comes from locations. */
START_TEST(test_locations) {
  sn_module *m = read_module("func.func @main(%x: tensor<f32>) -> tensor<f32> {\n  %0 = stablehlo.abs %x : tensor<f32> loc(#loc2)\n  return %0 : tensor<f32>\n}\n"
                             "#loc1 = loc(\"a.py\":3:7)\n#loc2 = loc(\"jit(f)/abs\"(#loc1))\n");
  const sn_instr *i = m->entry->root;
  ck_assert_int_eq(i->op, SN_OP_ABS);
  ck_assert_ptr_nonnull(i->metadata);
  ck_assert_str_eq(i->metadata->op_name, "jit(f)/abs");
  ck_assert_str_eq(i->metadata->source_file, "a.py");
  ck_assert_int_eq(i->metadata->source_line, 3);
  ck_assert_uint_eq(i->loc.line, 2);
  sn_module_destroy(m);
}
END_TEST

TCase *text_cases(void) {
  TCase *t = tcase_create("text");
  tcase_add_loop_test(t, test_faults, 0, (int)(sizeof faults / sizeof faults[0]));
  tcase_add_loop_test(t, test_pairs, 0, (int)(sizeof pairs / sizeof pairs[0]));
  tcase_add_test(t, test_recognised);
  tcase_add_test(t, test_locations);
  return t;
}
