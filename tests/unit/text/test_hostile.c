/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Texts made to hurt: depth, truncation at every byte, NUL bytes, absurd sizes, and memory that ends at any allocation. */
#include "test_text.h"

#define DEEP 100000
#define MAX_ALLOCATIONS 20000

typedef struct bomb {
  const char *before, *open, *middle, *close, *after;
  const char *message;
} bomb;
static const bomb bombs[] = {
    {"ENTRY e {\n a = f32[2] constant(", "{", "1", "}", ")\n}", "expected a number, found `{`"},
    {"ENTRY e {\n a = ", "(", "f32[]", ")", " parameter(0)\n}", "nesting"},
    {"ENTRY e {\n p = f32[] parameter(0)\n a = ", "negate(", "p", ")", "\n}", "nesting"},
    {"ENTRY e {\n a = f32[2]", "{0:P(f32[2]", "", ")}", " parameter(0)\n}", "nesting"},
    {"ENTRY e {\n p = f32[] parameter(0)\n a = f32[] call(p), to_apply=", "{ p = f32[] parameter(0) a = f32[] call(p), to_apply=", "x", "}", "\n}", "nesting"},
    {"ENTRY e {\n p = f32[] parameter(0), sharding=", "{", "replicated", "}", "\n}", "expected a sharding"},
    {"ENTRY e {\n p = f32[] parameter(0), replica_groups=", "{", "0", "}", "\n}", "expected an attribute of parameter"},
    {"ENTRY e {\n p = f32[] parameter(0)\n q = f32[] all-to-all(p), replica_groups=", "{", "0", "}", "\n}", "expected an integer, found `{`"},
    {"ENTRY e {\n p = f32[] parameter(0), frontend_attributes={a=", "{", "", "", "\n}", "expected the bracket that closes"},
    {"ENTRY e {\n", "x", "", "", "\n}", "expected `=`"},
    {"HloModule m, frontend_attributes={a=", "{", "", "", "\n", "expected the bracket that closes"},
};

static void add_times(sn_str *s, const char *text) {
  for (int i = 0; i < DEEP; i++) sn_str_add(s, text);
}

START_TEST(deep_nests) {
  const bomb *b = &bombs[_i];
  sn_str s = {0};
  sn_diag *d = NULL;
  sn_module *m = NULL;
  sn_str_add(&s, b->before);
  add_times(&s, b->open);
  sn_str_add(&s, b->middle);
  add_times(&s, b->close);
  sn_str_add(&s, b->after);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_ne(sn_hlo_parse(d, "b.hlo", s.data, s.n, &m), SN_OK);
  ck_assert_msg(strstr(sn_diag_get(d, 0)->message, b->message) != NULL, "%s", sn_diag_get(d, 0)->message);
  sn_diag_destroy(d);
  sn_str_finish(&s);
}
END_TEST

/* Raw values may nest as deep as they like: they are counted, not parsed. */
START_TEST(deep_raw_value) {
  sn_str s = {0};
  sn_str_add(&s, "ENTRY e {\n p = f32[] parameter(0), backend_config=");
  add_times(&s, "{");
  add_times(&s, "}");
  sn_str_add(&s, "\n}");
  sn_module *m = must_parse(s.data, s.n);
  ck_assert_uint_eq(strlen(m->entry->root->backend_config), 2 * DEEP);
  sn_module_destroy(m);
  sn_str_finish(&s);
}
END_TEST

/* Everything in one small module. */
static const char medium[] =
    "HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, entry_computation_layout={(f32[2]{0}, f32[2,2]{0,1})->(f32[2]{0}, "
    "f32[])}, num_partitions=8, frontend_attributes={a={mesh = #sdy.mesh<[\"x\"=2]>}}\n\n"
    "FileNames\n1 \"a.py\"\n\nFunctionNames\n1 \"f\"\n\nFileLocations\n1 {file_name_id=1 function_name_id=1 line=3 end_line=3 column=1 end_column=2}\n\n"
    "StackFrames\n1 {file_location_id=1 parent_frame_id=1}\n\n\n"
    "%add (x: f32[], y: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  %y = f32[] parameter(1)\n  ROOT %a = f32[] add(%x, %y)\n}\n\n"
    "ENTRY %e (p: f32[2], g: f32[2,2]) -> (f32[2], f32[]) {\n"
    "  %p = f32[2]{0:T(8)S(1)} parameter(0), parameter_replication={true}, sharding={devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}\n"
    "  %g = f32[2,2]{0,1} parameter(1), metadata={op_name=\"a\\\"b\" stack_frame_id=1}\n"
    "  %c = f32[2,2]{1,0} constant({ { 1, 0.142857149 }, { nan, -inf } })\n"
    "  %z = f32[] constant(0)\n"
    "  %ar = f32[2]{0} all-reduce(%p), channel_id=1, replica_groups=mesh['x'=2,'y'=4] {'y'}, use_global_device_ids=true, to_apply=%add\n"
    "  %s = ((f32[2]{0}), f32[1]{0}, s32[]) slice-start(%ar), slice={[0:1]}\n"
    "  %d = f32[1]{0} slice-done(%s)\n"
    "  %w = f32[2]{0} reduce-window(%p, %z), window={size=3 pad=1_1}, to_apply=%add\n"
    "  %v = f32[2,2]{1,0} convolution(%g, %c), dim_labels=bf_io->bf\n"
    "  %u = f32[2]{0} custom-call(%w), custom_call_target=\"t\", operand_layout_constraints={f32[2]{0}}, output_to_operand_aliasing={{}: (0, {})}, "
    "backend_config={\"a\":[1,2]}\n"
    "  ROOT %t = (f32[2]{0}, f32[]) tuple(%u, %z), sharding={{replicated}, {maximal device=1}}, control-predecessors={%d, %v}\n"
    "}\n\n";

/* Every beginning of a module is a fault or a module, and says which. */
START_TEST(truncation) {
  for (size_t n = 0; n < sizeof medium - 1; n++) {
    sn_diag *d = NULL;
    sn_module *m = NULL;
    ck_assert_int_eq(sn_diag_create(&d), SN_OK);
    sn_status s = sn_hlo_parse(d, "t.hlo", medium, n, &m);
    ck_assert_msg((s == SN_OK) == (m != NULL) && (s == SN_OK) == (sn_diag_count(d, SN_ERROR) == 0), "%zu bytes: %s", n, sn_status_text(s));
    sn_module_destroy(m);
    sn_diag_destroy(d);
  }
}
END_TEST

START_TEST(nul_bytes) {
  char text[sizeof medium];
  memcpy(text, medium, sizeof text);
  text[700] = '\0';
  sn_diag *d = NULL;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_hlo_parse(d, "n.hlo", text, sizeof text - 1, &m), SN_ERR_SYNTAX);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "found a NUL byte"));
  sn_diag_destroy(d);
}
END_TEST

static sn_status parse_and_print(const char *text, size_t n, bool *printed) {
  sn_module *m = NULL;
  sn_status s = sn_hlo_parse(NULL, "m.hlo", text, n, &m);
  *printed = false;
  if (s != SN_OK) return s;
  sn_str out = {0};
  sn_hlo_print(&out, m, NULL);
  *printed = !out.failed && out.n == n && memcmp(out.data, text, n) == 0;
  s = out.failed ? SN_ERR_MEMORY : SN_OK;
  sn_str_finish(&out);
  sn_module_destroy(m);
  return s;
}

START_TEST(memory_ends_anywhere) {
  int64_t live = sn_alloc_live();
  for (int64_t n = 0; n < MAX_ALLOCATIONS; n++) {
    bool printed = false;
    sn_alloc_fail_after(n);
    sn_status s = parse_and_print(medium, sizeof medium - 1, &printed);
    sn_alloc_fail_after(-1);
    ck_assert_msg(sn_alloc_live() == live, "%lld allocations allowed: a leak", (long long)n);
    if (s == SN_OK) {
      ck_assert(printed);
      ck_assert_int_gt(n, 10);
      return;
    }
    ck_assert_msg(s == SN_ERR_MEMORY, "%lld allocations allowed: %s", (long long)n, sn_status_text(s));
  }
  ck_abort_msg("never succeeds");
}
END_TEST

/* The cost of faults is linear: hints stop, then the parse does. */
START_TEST(many_faults_are_cheap) {
  sn_str s = {0};
  sn_diag *d = NULL;
  sn_module *m = NULL;
  sn_str_add(&s, "ENTRY e {\n p = f32[] parameter(0)\n");
  for (int i = 0; i < DEEP; i++) sn_str_printf(&s, " a%d = f32[] negate(q%d)\n", i, i);
  sn_str_add(&s, "}\n");
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  double start = sn_time();
  ck_assert_int_eq(sn_hlo_parse(d, "f.hlo", s.data, s.n, &m), SN_ERR_NAME);
  ck_assert_msg(sn_time() - start < 5, "%.1f s", sn_time() - start); /* a quadratic one takes minutes */
  ck_assert_uint_ge(sn_diag_count(d, SN_ERROR), 100);
  sn_diag_destroy(d);
  sn_str_finish(&s);
}
END_TEST

/* Short lines that ask for much memory each: refused before they have it together. */
START_TEST(amplification) {
  sn_str s = {0};
  sn_diag *d = NULL;
  sn_module *m = NULL;
  sn_str_add(&s, "ENTRY e {\n p = f32[] parameter(0)\n");
  for (int i = 0; i < 1000; i++) sn_str_printf(&s, " a%d = f32[] all-to-all(p), replica_groups=[1,65536]<=[65536]\n", i);
  sn_str_add(&s, "}\n");
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_hlo_parse(d, "a.hlo", s.data, s.n, &m), SN_ERR_UNSUPPORTED);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "device ids"));
  sn_diag_destroy(d);
  sn_str_finish(&s);
}
END_TEST

TCase *case_hostile(void) {
  TCase *c = tcase_create("hostile");
  tcase_set_timeout(c, 60);
  tcase_add_loop_test(c, deep_nests, 0, (int)(sizeof bombs / sizeof bombs[0]));
  tcase_add_test(c, deep_raw_value);
  tcase_add_test(c, truncation);
  tcase_add_test(c, nul_bytes);
  tcase_add_test(c, memory_ends_anywhere);
  tcase_add_test(c, many_faults_are_cheap);
  tcase_add_test(c, amplification);
  return c;
}
