/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls that a program records for a foreign library: as text, and when they are chosen. */
#include <string.h>

#include "gpu_tests.h"
#include "sinter/gpu_cost.h"
#include "sinter/library.h"
#include "sinter/program.h"

START_TEST(a_product_is_read_as_it_was_printed) {
  static const sn_library_product products[] = {
      {1, 20, 36, 48, true, false, SN_TYPE_F32, SN_TYPE_F32, true, 33554432},
      {12, 2147483647, 1, 5, false, true, SN_TYPE_BF16, SN_TYPE_BF16, false, 0},
      {3, 4, 5, 6, true, true, SN_TYPE_F16, SN_TYPE_F32, false, 1},
  };
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    sn_library_product again;
    sn_str text = {0}, other = {0};
    sn_library_product_print(&text, &products[i]);
    ck_assert(sn_library_product_parse(text.data, &again));
    sn_library_product_print(&other, &again);
    ck_assert_str_eq(text.data, other.data);
    ck_assert_int_eq(again.m, products[i].m);
    ck_assert_int_eq(again.lhs_along_k, products[i].lhs_along_k);
    sn_str_finish(&text);
    sn_str_finish(&other);
  }
}
END_TEST

START_TEST(malformed_products_are_refused) {
  static const char *const texts[] = {
      "",
      "batch=1 m=20 n=36 k=48 lhs=mk rhs=kn operand=f32 result=f32 tf32",
      "batch=0 m=20 n=36 k=48 lhs=mk rhs=kn operand=f32 result=f32 workspace=0",
      "batch=1 m=-2 n=36 k=48 lhs=mk rhs=kn operand=f32 result=f32 workspace=0",
      "batch=1 m=99999999999999999999 n=36 k=48 lhs=mk rhs=kn operand=f32 result=f32 workspace=0",
      "batch=1 m=2147483648 n=36 k=48 lhs=mk rhs=kn operand=f32 result=f32 workspace=0",
      "batch=1 m=20 n=36 k=48 lhs=kk rhs=kn operand=f32 result=f32 workspace=0",
      "batch=1 m=20 n=36 k=48 lhs=mk rhs=kn operand=s8 result=f32 workspace=0",
      "batch=1 m=20 n=36 k=48 lhs=mk rhs=kn operand=f16 result=bf16 workspace=0",
      "batch=1 m=20 n=36 k=48 lhs=mk rhs=kn operand=bf16 result=f32 tf32 workspace=0",
      "batch=1 m=20 n=36 k=48 lhs=mk rhs=kn operand=f32 result=f32 workspace=0 ",
  };
  sn_library_product p;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) ck_assert_msg(!sn_library_product_parse(texts[i], &p), "%s", texts[i]);
  ck_assert(!sn_library_product_parse(NULL, &p));
  ck_assert_int_eq(sn_library_find("cublaslt.product"), SN_LIBRARY_PRODUCT);
  ck_assert_int_eq(sn_library_find("cublaslt"), SN_LIBRARY_COUNT);
  ck_assert_int_eq(sn_library_find(NULL), SN_LIBRARY_COUNT);
}
END_TEST

/* The same bound of 75 % for both where mma.sync reaches it. */
START_TEST(the_library_is_faster_where_it_has_wgmma) {
  static const struct {
    const char *target;
    bool tensor, better;
  } rows[] = {{"sm_80", true, false}, {"sm_89", true, false}, {"sm_90a", true, true}, {"sm_90a", false, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    sn_gpu_product_schedule own;
    fixture_init(&f, rows[i].target);
    sn_gpu_problem p = {1, 6304, 3072, 768, rows[i].tensor, false, 16, 4};
    sn_gpu_choose_product(&f.target, &p, &own);
    ck_assert_msg((sn_gpu_library_us(&f.target, &p) < own.us) == rows[i].better, "%s: %g, own %g", rows[i].target, sn_gpu_library_us(&f.target, &p), own.us);
    fixture_finish(&f);
  }
}
END_TEST

static const char tf32[] = "a = f32[1024,512] parameter(0)\n  b = f32[512,768] parameter(1)\n  d = f32[1024,768] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}, algorithm=dot_tf32_tf32_f32\n";

/* true: compiled; *called: the program calls the library. The first remark that names it, in `said`. */
static bool compile_product(fixture *f, const char *target, const char *library, const char *body, const char *root, bool *called, sn_str *said) {
  sn_compile_options o;
  sn_program *p = NULL;
  sn_str text = {0};
  char module[1024];
  sn_remarks *remarks;
  snprintf(module, sizeof module, "HloModule m\nENTRY e {\n  %s  %s\n}\n", body, root);
  sn_compile_options_init(&o);
  o.target = target;
  o.library = library;
  ck_assert_int_eq(sn_remarks_create(&remarks), SN_OK);
  o.passes.remarks = remarks;
  ck_assert_int_eq(sn_hlo_parse(f->d, "m.hlo", module, strlen(module), &f->m), SN_OK);
  sn_status s = sn_compile(f->d, f->m, &o, &p, NULL);
  if (s == SN_ERR_UNAVAILABLE) printf("not run: %s\n", first_message(f));
  else ck_assert_msg(s == SN_OK, "%s", first_message(f));
  sn_program_print(&text, p);
  *called = strstr(text.data, "cublaslt.product {") != NULL;
  for (size_t i = 0; i < sn_remarks_count(remarks); i++) {
    const sn_remark *r = sn_remarks_get(remarks, i);
    if (r->text && strcmp(r->text, "cuBLASLt") == 0 && !said->n) sn_remark_print(said, r);
  }
  sn_str_finish(&text);
  sn_remarks_destroy(remarks);
  sn_program_release(p);
  return s == SN_OK;
}

START_TEST(products_alone_are_the_librarys_by_cost_or_by_option) {
  static const struct {
    const char *target, *library, *root;
    bool called;
    const char *remark;
  } rows[] = {
      {"sm_90a", NULL, "ROOT r = f32[1024,768] reshape(d)", true, "code: done: "},
      {"sm_90a", "none", "ROOT r = f32[1024,768] reshape(d)", false, NULL},
      {"sm_90a", "cublaslt", "ROOT r = f32[1024,768] tanh(d)", false, NULL}, /* what is fused with it is worth more */
      {"sm_80", "auto", "ROOT r = f32[1024,768] reshape(d)", false, "code: refused: "},
      {"sm_80", "cublaslt", "ROOT r = f32[1024,768] reshape(d)", true, "(cuBLASLt) own_us="},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    fixture f;
    sn_str said = {0};
    bool called;
    fixture_init(&f, rows[i].target);
    if (compile_product(&f, rows[i].target, rows[i].library, tf32, rows[i].root, &called, &said)) {
      ck_assert_msg(called == rows[i].called, "row %zu", i);
      ck_assert_msg(rows[i].remark ? said.data && strstr(said.data, rows[i].remark) : !said.n, "row %zu: %s", i, said.data ? said.data : "no remark");
    }
    sn_str_finish(&said);
    fixture_finish(&f);
  }
}
END_TEST

Suite *library_suite(void) {
  Suite *s = suite_create("library");
  TCase *t = tcase_create("library");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, a_product_is_read_as_it_was_printed);
  tcase_add_test(t, malformed_products_are_refused);
  tcase_add_test(t, the_library_is_faster_where_it_has_wgmma);
  tcase_add_test(t, products_alone_are_the_librarys_by_cost_or_by_option);
  suite_add_tcase(s, t);
  return s;
}
