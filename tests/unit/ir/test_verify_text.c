/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The verifier on HLO text: what called computations must be, a case a row; and real programs,
 * which must be clean. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/text.h"

/* Computations that cases share; unused ones do no harm. */
static const char prelude[] =
    "HloModule m, replica_count=2\n"
    "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }\n"
    "add_s32 { a = s32[] parameter(0) b = s32[] parameter(1) ROOT r = s32[] add(a, b) }\n"
    "less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), "
    "direction=LT }\n"
    "less4 { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] "
    "parameter(3) ROOT r = pred[] compare(a, b), direction=LT }\n"
    "argmax { a = f32[] parameter(0) i = s32[] parameter(1) b = f32[] parameter(2) j = s32[] "
    "parameter(3)\n"
    "  g = pred[] compare(a, b), direction=GT v = f32[] select(g, a, b) k = s32[] select(g, i, j) "
    "ROOT r = (f32[], s32[]) tuple(v, k) }\n"
    "neg { a = f32[] parameter(0) ROOT r = f32[] negate(a) }\n"
    "vneg { a = f32[4] parameter(0) ROOT r = f32[4] negate(a) }\n"
    "vexp { a = f32[4] parameter(0) ROOT r = f32[4] exponential(a) }\n"
    "vint { a = f32[4] parameter(0) ROOT r = s32[4] convert(a) }\n"
    "cond { a = f32[4] parameter(0) ROOT r = pred[] constant(false) }\n"
    "step { x = f32[5] parameter(0) c = f32[5] parameter(1) s = f32[5] add(x, c) ROOT r = (f32[5], "
    "f32[5]) tuple(s, s) }\n"
    "token { a = f32[] parameter(0) t = token[] after-all() ROOT r = f32[] add-dependency(a, t) }\n"
    "ENTRY e {\n"
    "  x = f32[4] parameter(0) y = f32[3,4] parameter(1) z = f32[] parameter(2) n = s32[3,4] "
    "parameter(3) m = s32[] parameter(4) p = pred[] parameter(5)\n"
    "  img = f32[1,8,8,3] parameter(6) src = f32[1,4,4,3] parameter(7) i2 = s32[2,1] parameter(8) "
    "u2 = f32[2,4] parameter(9)\n"
    "  ROOT out = ";

typedef struct text_case {
  const char *body; /* the root's shape, op and what follows */
  const char *says; /* NULL: clean; else the number of the constraint */
} text_case;

static const text_case cases[] = {
    {"f32[3] reduce(y, z), dimensions={1}, to_apply=add", NULL},
    {"f32[] reduce(y, z), dimensions={1,0}, to_apply=add", NULL},
    {"f32[3] reduce(y, z), dimensions={2}, to_apply=add", "V402"},
    {"f32[4] reduce(y, z), dimensions={1}, to_apply=add", "V405"},
    {"f32[3] reduce(y, z), dimensions={1}, to_apply=less", "V404"},
    {"f32[3] reduce(y, z), dimensions={1}, to_apply=neg", "V404"},
    {"f32[3] reduce(y, z), dimensions={1}, to_apply=add_s32", "V404"},
    {"f32[3] reduce(y, x), dimensions={1}, to_apply=add", "V403"},
    {"(f32[3], s32[3]) reduce(y, n, z, m), dimensions={1}, to_apply=argmax", NULL},
    {"(f32[3], s32[3]) reduce(n, y, m, z), dimensions={1}, to_apply=argmax", "V404"},
    {"f32[3] reduce(y, z), dimensions={1}, to_apply=token", "V404"},
    {"f32[3,4] map(y), dimensions={0,1}, to_apply=neg", NULL},
    {"f32[3,4] map(y), dimensions={1,0}, to_apply=neg", "V402"},
    {"f32[3,4] map(y, y), dimensions={0,1}, to_apply=neg", "V404"},
    {"f32[3,4] map(y), dimensions={0,1}, to_apply=token", "V207"},
    {"f32[1,4,4,3] reduce-window(img, z), window={size=1x2x2x1 stride=1x2x2x1}, to_apply=add",
     NULL},
    {"f32[1,3,3,3] reduce-window(img, z), window={size=1x3x3x1 stride=1x2x2x1}, to_apply=add",
     NULL},
    {"f32[1,4,4,3] reduce-window(img, z), window={size=1x2x2 stride=1x2x2}, to_apply=add", "V402"},
    {"f32[1,8,8,3] select-and-scatter(img, src, z), window={size=1x2x2x1 stride=1x2x2x1}, "
     "select=less, scatter=add",
     NULL},
    {"f32[1,8,8,3] select-and-scatter(img, src, z), window={size=1x2x2x1 stride=1x1x2x1}, "
     "select=less, scatter=add",
     "V403"},
    {"f32[1,8,8,3] select-and-scatter(img, src, z), window={size=1x2x2x1 stride=1x2x2x1}, "
     "select=add, scatter=add",
     "V404"},
    {"f32[3,4] sort(y), dimensions={1}, to_apply=less", NULL},
    {"(f32[3,4], s32[3,4]) sort(y, n), dimensions={0}, to_apply=less4", NULL},
    {"(f32[3,4], s32[3,4]) sort(n, y), dimensions={0}, to_apply=less4", "V404"},
    {"f32[3,4] sort(y), dimensions={1}, to_apply=add", "V404"},
    {"f32[3,4] scatter(y, i2, u2), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     NULL},
    {"f32[3,4] scatter(y, i2, u2), update_window_dims={0}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
     "V403"},
    {"f32[3,4] scatter(y, i2, u2), update_window_dims={1}, inserted_window_dims={0}, "
     "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=less",
     "V404"},
    {"(f32[3,5], f32[5]) scan(y2, c), dimensions={0}, to_apply=step, num_carries=1", NULL},
    {"(f32[5,3], f32[5]) scan(y2, c), dimensions={1}, to_apply=step, num_carries=1", "V404"},
    {"f32[4] call(x), to_apply=vneg", NULL},
    {"f32[4] call(y), to_apply=vneg", "V404"},
    {"f32[4] call(x, x), to_apply=vneg", "V404"},
    {"f32[4] fusion(x), kind=kLoop, calls=vexp", NULL},
    {"f32[4] fusion(x), kind=kLoop, calls=vexp, output_to_operand_aliasing={{}: (0, {})}", NULL},
    {"f32[4] fusion(x), kind=kLoop, calls=vexp, output_to_operand_aliasing={{}: (1, {})}", "V409"},
    {"f32[] fusion(z), kind=kLoop, calls=token", "V206"},
    {"s32[4] fusion(x), kind=kLoop, calls=vexp", "V405"},
    {"f32[4] while(x), condition=cond, body=vneg", NULL},
    {"f32[4] while(x), condition=vneg, body=vneg", "V404"},
    {"f32[4] while(x), condition=cond, body=vint", "V404"},
    {"f32[4] conditional(p, x, x), true_computation=vneg, false_computation=vexp", NULL},
    {"f32[4] conditional(m, x, x), branch_computations={vneg, vexp}", NULL},
    {"f32[4] conditional(m, x), branch_computations={vneg, vexp}", "V403"},
    {"f32[4] conditional(m, x, x), branch_computations={vneg, vint}", "V404"},
    {"f32[4] conditional(z, x, x), branch_computations={vneg, vexp}", "V401"},
    {"f32[4] all-reduce(x), to_apply=add", NULL},
    {"f32[4] all-reduce(x), to_apply=add_s32", "V404"},
    {"f32[8] all-gather(x), dimensions={0}", NULL},
    {"f32[4] all-gather(x), dimensions={0}", "V405"},
    {"f32[2] reduce-scatter(x), dimensions={0}, to_apply=add", NULL},
    {"f32[2,3] reduce-scatter(y), dimensions={0}, to_apply=add", "V403"},
    {"f32[4] constant({1, 2, 3, 4})", NULL},
    {"f32[4] custom-call(x), custom_call_target=\"f\"", NULL},
    {"f32[4] custom-call(x), custom_call_target=\"f\", operand_layout_constraints={f32[5]{0}}",
     "V402"},
};

static sn_status run(sn_diag *d, const char *text, sn_module **m) {
  SN_TRY(sn_hlo_parse(d, "case", text, strlen(text), m));
  return sn_module_verify(d, *m, 0);
}

static const char *first_message(const sn_diag *d) {
  return sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "nothing";
}

static bool any_says(const sn_diag *d, const char *what) {
  for (size_t k = 0; k < sn_diag_stored(d); k++) {
    if (strstr(sn_diag_get(d, k)->message, what)) return true;
  }
  return false;
}

START_TEST(test_cases) {
  const text_case *c = &cases[_i];
  char text[8192];
  const char *head = prelude, *scan = "";
  /* The parameters of the one case that wants others. */
  if (strstr(c->body, "scan(")) scan = "y2 = f32[3,5] parameter(10) c = f32[5] parameter(11)\n  ";
  size_t split = strlen(prelude) - strlen("ROOT out = ");
  snprintf(text, sizeof text, "%.*s%sROOT out = %s\n}\n", (int)split, head, scan, c->body);
  sn_diag *d;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = run(d, text, &m);
  if (c->says) {
    ck_assert_msg(s == SN_ERR_VERIFY && any_says(d, c->says), "%s: wanted %s, first is: %s",
                  c->body, c->says, first_message(d));
    ck_assert_uint_eq(sn_diag_get(d, 0)->loc.line > 0, 1);
  } else {
    ck_assert_msg(s == SN_OK, "%s: %s", c->body, first_message(d));
  }
  sn_module_destroy(m);
  sn_diag_destroy(d);
}
END_TEST

/* Whole modules. (The parser itself refuses wrong counts of operands and entry layouts:
 * test_verify.c has those.) */
static const text_case modules[] = {
    {"HloModule m, input_output_alias={ {0}: (0, {}, may-alias) }\nENTRY e { x = f32[2] "
     "parameter(0) y = s32[] constant(1) ROOT t = (f32[2], s32[]) tuple(x, y) }\n",
     NULL},
    {"HloModule m, input_output_alias={ {1}: (0, {}, may-alias) }\nENTRY e { x = f32[2] "
     "parameter(0) y = s32[] constant(1) ROOT t = (f32[2], s32[]) tuple(x, y) }\n",
     "V104"},
    {"HloModule m, input_output_alias={ {2}: (0, {}, may-alias) }\nENTRY e { x = f32[2] "
     "parameter(0) y = s32[] constant(1) ROOT t = (f32[2], s32[]) tuple(x, y) }\n",
     "V104"},
    {"HloModule m, buffer_donor={ (3, {}) }\nENTRY e { ROOT x = f32[2] parameter(0) }\n", "V105"},
    {"HloModule m\nENTRY e { x = f32[2] parameter(0) s = (f32[2], f32[2], u32[]) copy-start(x) "
     "ROOT d = f32[2] copy-done(s) }\n",
     NULL},
    {"HloModule m\nENTRY e { x = f32[2] parameter(0) s = (f32[2], f32[2], u32[]) copy-start(x) d = "
     "f32[2] copy-done(s) ROOT e = f32[2] copy-done(s) }\n",
     "V408"},
    {"HloModule m\nENTRY e { x = (f32[2], f32[2], u32[]) parameter(0) ROOT d = f32[2] copy-done(x) "
     "}\n",
     "V408"},
    {"HloModule m, replica_count=2\nENTRY e { x = f32[2] parameter(0) s = (f32[2], f32[4]) "
     "all-gather-start(x), "
     "dimensions={0} ROOT d = f32[4] all-gather-done(s) }\n",
     NULL},
    {"HloModule m, replica_count=2\nENTRY e { x = f32[2] parameter(0) s = (f32[2], f32[2], u32[], "
     "u32[]) "
     "collective-permute-start(x), source_target_pairs={{0,1},{1,0}} ROOT d = f32[2] "
     "collective-permute-done(s) }\n",
     NULL},
    {"HloModule m\nneg { a = f32[2] parameter(0) ROOT r = f32[2] negate(a) }\nENTRY e { x = f32[2] "
     "parameter(0) "
     "s = ((f32[2]), f32[2], s32[]) async-start(x), calls=neg u = ((f32[2]), f32[2], s32[]) "
     "async-update(s) "
     "ROOT d = f32[2] async-done(u) }\n",
     NULL},
    {"HloModule m\nneg { a = f32[2] parameter(0) ROOT r = f32[2] negate(a) }\nENTRY e { x = f32[2] "
     "parameter(0) "
     "s = ((f32[2]), f32[3], s32[]) async-start(x), calls=neg ROOT d = f32[3] async-done(s) }\n",
     "V405"},
    {"HloModule m\nENTRY e { x = f32[2] parameter(0) s = ((f32[2]), f32[2], s32[]) negate-start(x) "
     "ROOT d = f32[2] negate-done(s) }\n",
     NULL},
    {"HloModule m\nENTRY e { x = f32[2] parameter(0) t = token[] after-all() s = (f32[2], u32[], "
     "token[]) "
     "send(x, t), channel_id=1 d = token[] send-done(s), channel_id=1 r = (f32[2], u32[], token[]) "
     "recv(d), "
     "channel_id=2 w = (f32[2], token[]) recv-done(r), channel_id=2 ROOT g = f32[2] "
     "get-tuple-element(w), index=0 }\n",
     NULL},
    {"HloModule m\nENTRY e { t = token[] after-all() i = ((f32[2], s32[]), token[]) infeed(t) v = "
     "(f32[2], s32[]) "
     "get-tuple-element(i), index=0 u = token[] get-tuple-element(i), index=1 o = token[] "
     "outfeed(v, u) "
     "ROOT r = () tuple() }\n",
     NULL},
    {"HloModule m\nENTRY e { x = f32[<=8,4] parameter(0) n = s32[] get-dimension-size(x), "
     "dimensions={0} "
     "y = f32[<=8,4] add(x, x) z = f32[<=8,4] set-dimension-size(y, n), dimensions={0} ROOT r = "
     "f32[32] reshape(z) }\n",
     NULL},
    {"HloModule m\nENTRY e { x = f32[<=8,4] parameter(0) ROOT y = f32[8,4] add(x, x) }\n", "V405"},
    {"HloModule m\nENTRY e { a = s32[3] parameter(0) b = f32[4] parameter(1) x = f32[4,4] add(a, "
     "b) y = f32[5] negate(b) "
     "ROOT z = (f32[4,4], f32[5]) tuple(x, y) }\n",
     "V401"},
};

START_TEST(test_modules) {
  const text_case *c = &modules[_i];
  sn_diag *d;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = run(d, c->body, &m);
  ck_assert_msg(c->says ? s == SN_ERR_VERIFY && any_says(d, c->says) : s == SN_OK,
                "%s: wanted %s, first is: %s", c->body, c->says ? c->says : "ok", first_message(d));
  sn_module_destroy(m);
  sn_diag_destroy(d);
}
END_TEST

/* Layouts: an add whose operands are laid out otherwise is a fault only after layout assignment. */
START_TEST(test_layouts) {
  static const char text[] =
      "HloModule m\nENTRY e { x = f32[2,3]{1,0} parameter(0) y = f32[2,3]{0,1} parameter(1) ROOT s "
      "= f32[2,3]{1,0} add(x, y) }\n";
  sn_diag *d;
  sn_module *m = NULL;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(run(d, text, &m), SN_OK);
  ck_assert_int_eq(sn_module_verify(d, m, SN_VERIFY_LAYOUTS), SN_ERR_VERIFY);
  ck_assert_msg(any_says(d, "V501"), "%s", first_message(d));
  sn_module_destroy(m);
  sn_diag_destroy(d);
}
END_TEST

/* Every golden program, as XLA wrote it before and after optimisation (compressed ones are read by
 * tests/numeric). */
START_TEST(test_golden) {
  const char *data = sn_env("SINTER_TEST_DATA");
  const char *const *names = NULL;
  size_t n = 0, seen = 0;
  sn_arena *a;
  sn_diag *d;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  const char *dir = sn_arena_printf(a, "%s/golden/hlo", data ? data : "tests/data");
  ck_assert_int_eq(sn_dir_list(d, a, dir, &names, &n), SN_OK);
  for (size_t k = 0; k < n; k++) {
    size_t length = strlen(names[k]), bytes;
    if (length < 4 || strcmp(names[k] + length - 4, ".hlo") != 0) continue;
    char *text;
    sn_module *m = NULL;
    ck_assert_int_eq(sn_file_read(d, sn_arena_printf(a, "%s/%s", dir, names[k]), &text, &bytes),
                     SN_OK);
    ck_assert_msg(sn_hlo_parse(d, names[k], text, bytes, &m) == SN_OK, "%s: %s", names[k],
                  first_message(d));
    /* XLA assigns layouts while it optimises: before that they need not agree. */
    int flags = strstr(names[k], ".after.") ? SN_VERIFY_LAYOUTS : 0;
    ck_assert_msg(sn_module_verify(d, m, flags) == SN_OK, "%s: %s", names[k], first_message(d));
    sn_module_destroy(m);
    sn_free(text);
    seen++;
  }
  ck_assert_uint_gt(seen, 100);
  sn_diag_destroy(d);
  sn_arena_destroy(a);
}
END_TEST

int main(void) {
  Suite *s = suite_create("verify-text");
  TCase *t = tcase_create("verify-text");
  tcase_set_timeout(t, 60);
  tcase_add_loop_test(t, test_cases, 0, (int)(sizeof cases / sizeof cases[0]));
  tcase_add_loop_test(t, test_modules, 0, (int)(sizeof modules / sizeof modules[0]));
  tcase_add_test(t, test_layouts);
  tcase_add_test(t, test_golden);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
