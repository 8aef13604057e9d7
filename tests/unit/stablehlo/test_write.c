/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* HLO out as StableHLO: what comes back, what is refused and how, what is left when memory lacks. */
#include <stdlib.h>
#include <string.h>

#include "sinter/text.h"
#include "test_stablehlo.h"

static sn_module *module_of(const char *text) {
  sn_module *m = NULL;
  sn_diag *d = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_hlo_parse(d, "t.hlo", text, strlen(text), &m);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_diag_destroy(d);
  return m;
}

static const char *const programs[] = {
    /* tuples of all kinds */
    "HloModule t\nENTRY main { p = (f32[2], s32[]) parameter(0)\n x = f32[2] get-tuple-element(p), index=0\n t = (f32[2], f32[2]) tuple(x, x)\n"
    " y = f32[2] get-tuple-element(t), index=1\n ROOT r = ((f32[2], f32[2]), f32[2]) tuple(t, y) }",
    "HloModule t\nf { p = f32[2] parameter(0)\n ROOT r = (f32[2], f32[2]) tuple(p, p) }\nENTRY main { p = f32[2] parameter(0)\n c = (f32[2], f32[2]) call(p), to_apply=f\n"
    " a = f32[2] get-tuple-element(c), index=0\n b = f32[2] get-tuple-element(c), index=1\n ROOT s = f32[2] add(a, b) }",
    /* a loop within a loop's body, with a reduction in it */
    "HloModule t\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y) }\n"
    "c { s = (s32[], f32[3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n n = s32[] constant(5)\n ROOT r = pred[] compare(i, n), direction=LT }\n"
    "b { s = (s32[], f32[3]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n x = f32[3] get-tuple-element(s), index=1\n o = s32[] constant(1)\n z = f32[] constant(0)\n"
    " t = f32[] reduce(x, z), dimensions={0}, to_apply=add\n u = f32[3] broadcast(t), dimensions={}\n j = s32[] add(i, o)\n ROOT r = (s32[], f32[3]) tuple(j, u) }\n"
    "ENTRY main { z = s32[] constant(0)\n x = f32[3] parameter(0)\n s = (s32[], f32[3]) tuple(z, x)\n w = (s32[], f32[3]) while(s), condition=c, body=b\n"
    " ROOT r = f32[3] get-tuple-element(w), index=1 }",
    /* what StableHLO has not and MHLO names */
    "HloModule t\nENTRY main { x = f32[2,8] parameter(0)\n e = f32[2,8] erf(x)\n t = (f32[2,3], s32[2,3]) topk(e), k=3, largest=true\n ROOT v = f32[2,3] get-tuple-element(t), index=0 }",
    /* elements that need their bits, all-equal constants, no elements, small and bounded types */
    "HloModule t\nENTRY main { a = f32[3] constant({nan, -inf, 0.1})\n b = f32[2] constant({7, 7})\n c = f32[0] constant({})\n d = bf16[2] constant({1.5, -0})\n e = pred[9] constant({1,0,1,1,0,0,1,0,1})\n"
    " f = s4[2] constant({-8, 7})\n g = u64[] constant(18446744073709551615)\n h = c64[1] constant({(1, -2)})\n k = f8e4m3fn[2] constant({1, 2})\n"
    " ROOT r = (f32[3], f32[2], f32[0], bf16[2], pred[9], s4[2], u64[], c64[1], f8e4m3fn[2]) tuple(a, b, c, d, e, f, g, h, k) }",
    "HloModule t\nENTRY main { x = f32[<=8,3] parameter(0)\n ROOT n = f32[<=8,3] negate(x) }",
    /* notes, aliases, several processes */
    "HloModule t, input_output_alias={ {}: (0, {}, may-alias) }, num_partitions=4\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT r = f32[] add(x, y) }\nENTRY main { x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
    " ROOT r = f32[8] all-reduce(x), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add, frontend_attributes={k=\"v \\\"w\\\"\"} }",
    /* transfers */
    "HloModule t\nENTRY main { t = token[] after-all()\n i = ((f32[2], s32[]), token[]) infeed(t), infeed_config=\"c\"\n d = (f32[2], s32[]) get-tuple-element(i), index=0\n"
    " x = f32[2] get-tuple-element(d), index=0\n n = s32[] get-tuple-element(d), index=1\n u = token[] get-tuple-element(i), index=1\n"
    " o = token[] outfeed(x, u), outfeed_shape=f32[2]\n ROOT r = (f32[2], s32[]) tuple(x, n) }",
};

static sn_module *back(sn_diag *d, const sn_str *text) {
  sn_module *m = NULL;
  sn_status s = sn_stablehlo_parse(d, "back", text->data, text->n, NULL, &m);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  return m;
}

/* The first round may put instructions into another order; behind it text and bytecode give the same module. */
START_TEST(test_back) {
  sn_module *m = module_of(programs[_i]);
  sn_diag *d = NULL;
  sn_str text = {0}, again = {0}, bytes = {0};
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_stablehlo_print(d, m, &text);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  sn_module *first = back(d, &text);
  ck_assert_uint_eq(first->entry->n_instrs, m->entry->n_instrs);
  ck_assert(sn_shape_equal(first->entry->root->shape, m->entry->root->shape, 0));
  ck_assert_int_eq(sn_stablehlo_print(d, first, &again), SN_OK);
  sn_module *second = back(d, &again);
  ck_assert_int_eq(sn_stablehlo_write(d, first, NULL, &bytes), SN_OK);
  sn_module *third = back(d, &bytes);
  ck_assert_msg(sn_module_equal(first, second, 0) && sn_module_equal(first, third, 0), "%s", again.data);
  sn_module_destroy(first);
  sn_module_destroy(second);
  sn_module_destroy(third);
  sn_str_finish(&text);
  sn_str_finish(&again);
  sn_str_finish(&bytes);
  sn_diag_destroy(d);
  sn_module_destroy(m);
}
END_TEST

START_TEST(test_without_memory) {
  sn_module *m = module_of(programs[_i]);
  for (int form = 0; form < 2; form++) {
    sn_status s = SN_ERR_MEMORY;
    for (int64_t n = 0; s != SN_OK; n++) {
      sn_str to = {0};
      int64_t live = sn_alloc_live();
      (void)sn_alloc_fail_after(n);
      s = form == 0 ? sn_stablehlo_print(NULL, m, &to) : sn_stablehlo_write(NULL, m, NULL, &to);
      (void)sn_alloc_fail_after(-1);
      sn_str_finish(&to);
      ck_assert_msg(s == SN_OK || s == SN_ERR_MEMORY, "allocation %lld: %s", (long long)n, sn_status_text(s));
      ck_assert_msg(sn_alloc_live() == live, "allocation %lld: %lld left behind", (long long)n, (long long)(sn_alloc_live() - live));
      ck_assert_int_lt(n, 5000);
    }
  }
  sn_module_destroy(m);
}
END_TEST

static const struct {
  const char *text, *version;
  sn_status status;
  const char *says;
} refused[] = {
    {"HloModule t\nf { p = f32[2] parameter(0)\n ROOT r = f32[2] negate(p) }\nENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] fusion(x), kind=kLoop, calls=f }", NULL, SN_ERR_UNSUPPORTED,
     "y: fusion has no form in StableHLO"},
    {"HloModule t\nENTRY main { x = f32[2] parameter(0)\n a = f32[2] negate(x)\n ROOT y = f32[2] exponential(x), control-predecessors={a} }", NULL, SN_ERR_UNSUPPORTED, "a control edge"},
    {"HloModule t\nENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] tan(x) }", "1.3.0", SN_ERR_UNSUPPORTED, "stablehlo.tan has no form in StableHLO 1.3"},
    {"HloModule t\nENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] tan(x) }", "2.0.0", SN_ERR_UNSUPPORTED, "StableHLO 2.0.0 cannot be written"},
    {"HloModule t\nENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] tan(x) }", "newest", SN_ERR_USAGE, "expected a version of StableHLO"},
    {"HloModule t\nENTRY main { x = f32[2] parameter(0)\n ROOT y = f32[2] exponential(x), result_accuracy={mode=highest} }", "1.8.0", SN_ERR_UNSUPPORTED,
     "StableHLO 1.8 has not the attribute result_accuracy"},
};

START_TEST(test_refused) {
  sn_module *m = module_of(refused[_i].text);
  sn_diag *d = NULL;
  sn_str to = {0};
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_stablehlo_write(d, m, refused[_i].version, &to), refused[_i].status);
  ck_assert_uint_ge(sn_diag_stored(d), 1);
  ck_assert_msg(strstr(sn_diag_get(d, 0)->message, refused[_i].says) != NULL, "%s", sn_diag_get(d, 0)->message);
  sn_str_finish(&to);
  sn_diag_destroy(d);
  sn_module_destroy(m);
}
END_TEST

TCase *write_cases(void) {
  TCase *t = tcase_create("write");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, test_back, 0, (int)(sizeof programs / sizeof programs[0]));
  tcase_add_loop_test(t, test_without_memory, 0, (int)(sizeof programs / sizeof programs[0]));
  tcase_add_loop_test(t, test_refused, 0, (int)(sizeof refused / sizeof refused[0]));
  return t;
}
