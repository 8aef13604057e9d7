/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shapes, literals and shardings alone. Expected literal texts are those XLA (jaxlib 0.10.2) prints. */
#include "test_text.h"

static const char *const shapes[] = {
    "f32[]", "pred[3]{0}", "s4[16]{0:E(4)}", "f32[2,3]{0,1}", "f32[2,3]", "f32[2,<=3]{1,0:T(8,128)(2,1)S(3)}", "f32[3,2]{1,0:L(4)E(4)S(1)}",
    "f32[]{:S(5)}", "f32[2,?]{1,0}", "(f32[], (s32[2]{0}, token[]))", "()", "b(f32[3]{0})", "f32[3]{0:M(100)}", "f32[4]{0:T(*,8)}",
    "f32[2,2]{1,0:#(u32)*(u32)}", "f32[2,2]{1,0:SC(0:1,2)}", "u32[2]{0:P(s32[2]{0:S(1)})}", "opaque[]", "f8e4m3b11fnuz[1]{0}", "c128[0]{0}",
};

START_TEST(shapes_round_trip) {
  sn_arena *a = NULL;
  const sn_shape *s = NULL;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_hlo_parse_shape(NULL, a, shapes[_i], &s), SN_OK);
  /* Through an instruction, which is what prints shapes. */
  sn_str text = {0};
  sn_str_printf(&text, "ENTRY e {\n  ROOT p = %s custom-call(), custom_call_target=\"x\"\n}\n", shapes[_i]);
  sn_module *m = must_parse(text.data, text.n);
  ck_assert(sn_shape_equal(s, m->entry->root->shape, SN_EQ_LAYOUT));
  sn_str printed = print_text(m, true);
  ck_assert_msg(strstr(printed.data, shapes[_i]) != NULL, "%s", printed.data);
  sn_str_finish(&text);
  sn_str_finish(&printed);
  sn_module_destroy(m);
  sn_arena_destroy(a);
}
END_TEST

typedef struct literal_case {
  const char *text, *printed;
} literal_case;
static const literal_case literals[] = {
    {"f32[4] {nan, -nan, nan(0x400001), nan(0x1)}", "{nan, -nan, nan(0x400001), nan(0x1)}"},
    {"f64[3] {nan, -nan, nan(0x8000000000001)}", "{nan, -nan, nan(0x8000000000001)}"},
    {"f16[3] {nan, nan(0x201), 0.1}", "{nan, nan(0x201), 0.099976}"},
    {"bf16[3] {nan, nan(0x41), 0.1}", "{nan, nan(0x41), 0.1001}"},
    {"f8e5m2[3] {nan, 0.1, inf}", "{nan, 0.094, inf}"},
    {"f8e4m3fn[3] {nan, 0.1, 448}", "{nan, 0.102, 448}"},
    {"f8e4m3[3] {nan, 0.1, 240}", "{nan, 0.102, 240}"},
    {"f8e3m4[3] {nan, 0.1, 15.5}", "{nan, 0.0938, 15.5}"},
    {"f8e8m0fnu[3] {nan, 0.125, 2}", "{nan, 0.12, 2}"},
    {"f4e2m1fn[3] {0.5, 1.5, 6}", "{0.5, 1.5, 6}"},
    {"f6e2m3fn[3] {0.125, 1.5, 7.5}", "{0.125, 1.5, 7.5}"},
    {"f6e3m2fn[3] {0.0625, 1.5, 28}", "{0.062, 1.5, 28}"},
    {"f8e4m3fnuz[2] {nan, 0.1}", "{-nan, 0.102}"},
    {"f32[2,0] { {}, {} }", "{ {}, {} }"},
    {"f32[0,2] {}", "{  }"},
    {"f32[0] {}", "{}"},
    {"c64[2,1] { {(1,2)}, {(nan,-inf)} }", "{ {(1, 2)}, {(nan, -inf)} }"},
    {"(f32[], s32[2], (pred[], pred[2])) (1, {1,2}, (true, {1,0}))", "( 1, {1, 2}, ( true, {1, 0} ) )"},
    {"pred[2,2] { {true,false}, {1,0} }", "{ { 1, 0 }, { 1, 0 } }"},
    {"s4[3] {-8, 7, 0}", "{-8, 7, 0}"},
    {"u64[1] {18446744073709551615}", "{18446744073709551615}"},
    {"s64[2] {-9223372036854775808, 9223372036854775807}", "{-9223372036854775808, 9223372036854775807}"},
    {"f64[2] {0.1, 0.333333333333333333}", "{0.1, 0.33333333333333331}"},
    {"f32[1,1,1] { { { 2 } } }", "{ { {2} } }"},
    {"f32[2,1,2,2] {{{{1,2},{3,4}}},{{{5,6},{7,8}}}}",
     "{ { /*i0=0*/ { /*i1=0*/ { 1, 2 }, { 3, 4 } } }, { /*i0=1*/ { /*i1=0*/ { 5, 6 }, { 7, 8 } } } }"},
    {"f32[] -0", "-0"},
    {"f32[] 1.4013e-45", "1.4013e-45"},
    {"f32[] 3.40282347e+38", "3.40282347e+38"},
    {"f32[] 0.142857149", "0.142857149"},
    {"f32[] 16777216", "16777216"},
    {"f32[] 1234567", "1234567"},
    {"f32[] 1e-08", "1e-08"},
    {"f64[] 123456789012345678", "1.2345678901234568e+17"},
    {"f64[] 179769313486231570814527423731704356798070567525844996598917476803157260780028538760589558632766878171540458953514382464234321326889464182768467546703537516986049910576551282076245490090389328944075868508455133942304583236903222948165808559332123347747979726207231447787204",
     "1.7976931348623158e+272"},
    {"bf16[] 3.004e+38", "3.004e+38"},
    {"f16[] 65504", "65504"},
    {"pred[] true", "true"},
};

START_TEST(literals_print_as_xla) {
  sn_array *a = NULL;
  sn_str s = {0};
  ck_assert_msg(sn_hlo_parse_literal(NULL, literals[_i].text, &a) == SN_OK, "%s", literals[_i].text);
  sn_hlo_print_literal(&s, a);
  ck_assert_str_eq(s.data, literals[_i].printed);
  sn_str_finish(&s);
  sn_array_release(a);
}
END_TEST

/* What is printed reads back to the same bits, for every 16-bit pattern. */
static void check_all_patterns(const char *type, sn_type t) {
  char head[16];
  snprintf(head, sizeof head, "%s[] ", type);
  for (uint32_t v = 0; v < 65536; v += 7) {
    uint16_t bits = (uint16_t)v, back = 0;
    sn_arena *arena = NULL;
    sn_array *a = NULL, *b = NULL;
    sn_str s = {0};
    ck_assert_int_eq(sn_arena_create(&arena), SN_OK);
    ck_assert_int_eq(sn_array_create_from(sn_shape_scalar(arena, t), &bits, &a), SN_OK);
    sn_str_add(&s, head);
    sn_hlo_print_literal(&s, a);
    ck_assert_msg(sn_hlo_parse_literal(NULL, s.data, &b) == SN_OK, "%s", s.data);
    memcpy(&back, sn_array_data(b), 2);
    ck_assert_msg(back == bits, "%s: %04x became %04x", s.data, (unsigned)bits, (unsigned)back);
    sn_array_release(a);
    sn_array_release(b);
    sn_str_finish(&s);
    sn_arena_destroy(arena);
  }
}
START_TEST(half_patterns) {
  check_all_patterns("f16", SN_TYPE_F16);
  check_all_patterns("bf16", SN_TYPE_BF16);
}
END_TEST

typedef struct sharding_case {
  const char *text;
  int n;
  int64_t devices[8];
} sharding_case;
static const sharding_case shardings[] = {
    {"{replicated}", 0, {0}},
    {"{manual}", 0, {0}},
    {"{unknown}", 0, {0}},
    {"{unreduced}", 0, {0}},
    {"{maximal device=3}", 0, {0}},
    {"{devices=[8,1]<=[8]}", 8, {0, 1, 2, 3, 4, 5, 6, 7}},
    {"{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", 8, {0, 4, 1, 5, 2, 6, 3, 7}},
    {"{devices=[2,2]0,2,1,3}", 4, {0, 2, 1, 3}},
    {"{devices=[2,2]<=[2,2]T(1,0) last_tile_dims={manual, replicated}}", 4, {0, 2, 1, 3}},
    {"{devices=[2,1]<=[2] shard_as 1}", 2, {0, 1}},
    {"{devices=[2,1]<=[2] shard_like 4 metadata={op_name=\"x\"}}", 2, {0, 1}},
    {"{{replicated}, {devices=[2]<=[2]}}", 0, {0}},
    {"{}", 0, {0}},
    {"{mesh['x'=2,'y'=4], [{'x'}]}", 0, {0}},
};

START_TEST(shardings_round_trip) {
  sn_arena *a = NULL;
  const sn_sharding *s = NULL;
  sn_str text = {0};
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_msg(sn_hlo_parse_sharding(NULL, a, shardings[_i].text, &s) == SN_OK, "%s", shardings[_i].text);
  sn_hlo_print_sharding(&text, s);
  ck_assert_str_eq(text.data, shardings[_i].text);
  ck_assert_int_eq(s->devices.n, shardings[_i].n);
  for (int k = 0; k < shardings[_i].n; k++) ck_assert_int_eq(s->devices.v[k], shardings[_i].devices[k]);
  sn_str_finish(&text);
  sn_arena_destroy(a);
}
END_TEST

TCase *case_pieces(void) {
  TCase *c = tcase_create("pieces");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, shapes_round_trip, 0, (int)(sizeof shapes / sizeof shapes[0]));
  tcase_add_loop_test(c, literals_print_as_xla, 0, (int)(sizeof literals / sizeof literals[0]));
  tcase_add_loop_test(c, shardings_round_trip, 0, (int)(sizeof shardings / sizeof shardings[0]));
  tcase_add_test(c, half_patterns);
  return c;
}
