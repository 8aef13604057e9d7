/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The graph itself: parameters, outputs, locations, scopes, control flow, and misuse. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

#define FN(name) static void name(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out)
#define UNUSED (void)ctx, (void)g, (void)n, (void)in, (void)n_out, (void)out

START_TEST(module_made) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2, 3), "layer 1/weight"),
            y = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), NULL);
  sn_scope_push(g, "block");
  sn_scope_push(g, "inner");
  sn_tensor z = sn_add(x, y);
  int32_t line = __LINE__ - 1;
  sn_scope_pop(g);
  sn_tensor w = sn_exp(z);
  sn_scope_pop(g);
  sn_tensor unused = sn_sin(w);
  ck_assert(sn_tensor_ok(unused));
  ck_assert_str_eq(sn_graph_parameter_name(g, 0), "layer 1/weight");
  ck_assert_int_eq(sn_output(g, w, "w"), 0);
  ck_assert_int_eq(sn_output_aliased(g, z, "z", x), 1);
  ck_assert_str_eq(sn_graph_output_name(g, 1), "z");
  sn_module *m = finish(g);
  sn_instr *p = m->entry->params[0],
           *add = sn_op_has(m->entry->root->op, SN_T_FREE) ? sn_instr_operand(m->entry->root, 1) : NULL;
  ck_assert_str_eq(p->name, "layer_1_weight");
  ck_assert_str_eq(p->metadata->op_name, "layer 1/weight");
  ck_assert_int_eq(add->op, SN_OP_ADD);
  ck_assert_str_eq(add->metadata->op_name, "block/inner");
  ck_assert_str_eq(add->metadata->source_file, "test_graph.c");
  ck_assert_int_eq(add->metadata->source_line, line);
  ck_assert_str_eq(sn_instr_operand(m->entry->root, 0)->metadata->op_name, "block");
  ck_assert_int_eq(m->n_aliases, 1);
  ck_assert_int_eq(m->aliases[0].output_index.v[0], 1);
  SN_FOR_INSTRS(i, m->entry) ck_assert_int_ne(i->op, SN_OP_SINE); /* nobody needs it */
  sn_module_destroy(m);
}
END_TEST

START_TEST(constants_once) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(4), "x");
  sn_output(g, sn_add_c(sn_mul_c(sn_add_c(x, 2), 2), 2), NULL);
  sn_module *m = finish(g);
  ck_assert_int_eq(m->entry->n_instrs, 7); /* parameter, constant, broadcast, three ops, tuple */
  sn_module_destroy(m);
}
END_TEST

START_TEST(pinned_location) {
  sn_graph *g = open_graph();
  sn_graph_pin(g, (sn_loc){"user.c", 42, 0});
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2), "x"), y = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "y");
  (void)sn_add(x, y);
  sn_graph_unpin(g);
  expect_error(g, SN_ERR_SHAPE, "f32[2] and f32[3]", 42);
}
END_TEST

FN(count_down) {
  UNUSED;
  out[0] = sn_gt(in[0], sn_scalar(g, SN_TYPE_S32, 0));
}
FN(add_outer) { /* reads a tensor from outside */
  UNUSED;
  out[0] = sn_sub_c(in[0], 1);
  out[1] = sn_add(in[1], *(sn_tensor *)ctx);
}
FN(fibonacci) {
  UNUSED;
  out[0] = in[2];
  out[1] = sn_add(in[1], in[2]);
}
FN(running) {
  UNUSED;
  out[0] = sn_add(in[0], in[1]);
  out[1] = sn_mul(out[0], *(sn_tensor *)ctx);
}
FN(twice) {
  UNUSED;
  out[0] = sn_mul_c(in[0], 2);
}
FN(outer_value) {
  UNUSED;
  out[0] = *(sn_tensor *)ctx;
}

START_TEST(loops) {
  double v[4];
  sn_graph *g = open_graph();
  sn_tensor ten = VEC(g, 10, 20), s[2] = {sn_scalar(g, SN_TYPE_S32, 3), VEC(g, 1, 2)};
  sn_while(g, count_down, add_outer, &ten, 2, s, s); /* results over inputs */
  value_of(g, s[1], 2, v);
  ck_assert(v[0] == 31 && v[1] == 62);

  g = open_graph();
  sn_tensor f[2] = {sn_scalar(g, SN_TYPE_S64, 0), sn_scalar(g, SN_TYPE_S64, 1)};
  sn_fori(g, 5, 95, fibonacci, NULL, 2, f, f);
  sn_output(g, f[0], NULL);
  sn_module *m = finish(g);
  sn_array *r = run(m, 0, NULL);
  ck_assert_int_eq(*(int64_t *)sn_array_data(sn_array_element(r, 0)), INT64_C(2880067194370816120)); /* the 90th */
  sn_array_release(r);
  sn_module_destroy(m);

  for (int reverse = 0; reverse < 2; reverse++) {
    g = open_graph();
    sn_tensor scale = sn_scalar(g, SN_TYPE_F32, 10), init = sn_scalar(g, SN_TYPE_F32, 0), xs = VEC(g, 1, 2, 3), last,
              ys;
    sn_scan_spec spec = {.n_carry = 1, .n_xs = 1, .n_ys = 1, .init = &init, .xs = &xs, .reverse = reverse};
    sn_scan(g, &spec, running, &scale, &last, &ys);
    value_of(g, sn_concat(SN_TENSORS(ys, sn_reshape(last, SN_DIMS(1))), 0), 4, v);
    ck_assert(v[3] == 6 && v[1] == (reverse ? 50 : 30) && v[0] == (reverse ? 60 : 10));
  }
}
END_TEST

FN(counted) {
  UNUSED;
  ++*(int *)ctx;
  out[0] = out[1] = sn_add(in[0], in[0]);
}

START_TEST(body_built_once) { /* so that loops in loops stay linear, and callbacks may keep state */
  sn_graph *g = open_graph();
  int calls = 0;
  sn_tensor init = sn_scalar(g, SN_TYPE_F32, 1), last, ys;
  sn_scan_spec spec = {.n_carry = 1, .n_ys = 1, .init = &init, .length = 3};
  sn_scan(g, &spec, counted, &calls, &last, &ys);
  ck_assert_int_eq(calls, 1);
  double v[3];
  value_of(g, ys, 3, v);
  ck_assert(v[0] == 2 && v[1] == 4 && v[2] == 8);
}
END_TEST

START_TEST(branches) {
  for (int which = 0; which < 2; which++) {
    double v[1];
    sn_graph *g = open_graph();
    sn_tensor x = VEC(g, 3), other = VEC(g, 7), y;
    sn_cond(sn_scalar(g, SN_TYPE_PRED, which), twice, outer_value, &other, 1, &x, 1, &y);
    value_of(g, y, 1, v);
    ck_assert_double_eq(v[0], which ? 6 : 7);
    g = open_graph();
    x = VEC(g, 3);
    other = VEC(g, 9);
    sn_switch(sn_scalar(g, SN_TYPE_S32, which ? 0 : 17), 2, (sn_fn[]){twice, outer_value}, (void *[]){NULL, &other}, 1,
              &x, 1, &y);
    value_of(g, y, 1, v);
    ck_assert_double_eq(v[0], which ? 6 : 9);
  }
}
END_TEST

static sn_tensor kept; /* leaks out of a body below, on purpose */
FN(leak) {
  UNUSED;
  kept = sn_sin(in[0]);
  out[0] = in[0];
}
FN(unset) { UNUSED; }
FN(grows) {
  UNUSED;
  out[0] = sn_concat(SN_TENSORS(in[1], in[1]), 0);
}

START_TEST(misuse) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2, 3), "x"), y = sn_parameter(g, SN_TYPE_S32, SN_DIMS(2, 3), "y"),
            r;
  (void)sn_add(x, y);
  (void)sn_exp(y); /* silent: the first error stays */
  expect_error(g, SN_ERR_TYPE, "f32[2,3] and s32[2,3]", __LINE__ - 2);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2, 3), "x");
  (void)sn_matmul(x, x);
  expect_error(g, SN_ERR_SHAPE, "matmul: f32[2,3] by f32[2,3]", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2, 3), "x");
  (void)sn_reshape(x, SN_DIMS(4, -1));
  expect_error(g, SN_ERR_SHAPE, "6 elements", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2, 3), "x");
  (void)sn_sum(x, SN_DIMS(2), false);
  expect_error(g, SN_ERR_SHAPE, "axis 2", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(2, 3), "x");
  (void)sn_einsum("ij,jk", 1, &x);
  expect_error(g, SN_ERR_SYNTAX, "einsum", __LINE__ - 1);

  g = open_graph();
  (void)sn_sin((sn_tensor){g, NULL});
  expect_error(g, SN_ERR_USAGE, "empty tensor", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x");
  sn_call(g, "leak", leak, NULL, 1, &x, 1, &r);
  (void)sn_exp(kept);
  expect_error(g, SN_ERR_USAGE, "finished", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x");
  sn_call(g, "nothing", unset, NULL, 1, &x, 1, &r);
  expect_error(g, SN_ERR_USAGE, "left result 0 of 1 unset", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x");
  sn_fori(g, 0, 3, grows, NULL, 1, &x, &r);
  expect_error(g, SN_ERR_SHAPE, "the body gives f32[6]", __LINE__ - 1);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x");
  sn_output_aliased(g, x, "y", sn_exp(x));
  expect_error(g, SN_ERR_USAGE, "no parameter", __LINE__ - 1);
}
END_TEST

START_TEST(finishing) {
  sn_graph *g = open_graph();
  sn_module *m;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_int_eq(sn_graph_finish(g, d, &m), SN_ERR_USAGE);
  ck_assert_ptr_null(m);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(d, 0)->message, "no output"));
  sn_graph_destroy(g);
  sn_diag_destroy(d);
}
END_TEST

static void keep_look(void *ctx, const sn_eval_look *l) { sn_eval_look_text(ctx, l); }

/* Values are shown with the caller's line, a probe's only when they are asked for. */
START_TEST(looks) {
  for (int probe = 0; probe < 2; probe++) {
    sn_graph *g = open_graph();
    sn_tensor x = sn_scalar(g, SN_TYPE_F32, 2);
    sn_output(g, sn_probe(sn_square(sn_print(x, "x")), NULL), NULL);
    int line = __LINE__ - 1;
    sn_module *m = finish(g);
    sn_eval_options o;
    sn_array *out;
    sn_str seen = {0};
    char want[128];
    sn_eval_options_init(&o);
    o.look = keep_look;
    o.look_ctx = &seen;
    o.probe = probe;
    ck_assert_int_eq(sn_eval(NULL, m, &o, 0, NULL, &out), SN_OK);
    int n = snprintf(want, sizeof want, "test_graph.c:%d: x: f32[] 2", line);
    if (probe) snprintf(want + n, sizeof want - (size_t)n, "test_graph.c:%d: f32[] 4", line);
    ck_assert_str_eq(seen.data, want);
    sn_str_finish(&seen);
    sn_array_release(out);
    sn_module_destroy(m);
  }
}
END_TEST

START_TEST(probes) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x");
  sn_output(g, sn_exp(sn_print(x, "before exp")), NULL);
  sn_module *m = finish(g);
  int found = 0;
  SN_FOR_INSTRS(i, m->entry) {
    if (i->op != SN_OP_CUSTOM_CALL) continue;
    found++;
    ck_assert_str_eq(sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET), "sinter.print");
    ck_assert_str_eq(i->backend_config, "before exp");
  }
  ck_assert_int_eq(found, 1);
  sn_module_destroy(m);
}
END_TEST

int main(void) {
  Suite *s = suite_create("graph");
  TCase *t = tcase_create("graph");
  tcase_add_test(t, module_made);
  tcase_add_test(t, constants_once);
  tcase_add_test(t, pinned_location);
  tcase_add_test(t, loops);
  tcase_add_test(t, body_built_once);
  tcase_add_test(t, branches);
  tcase_add_test(t, misuse);
  tcase_add_test(t, finishing);
  tcase_add_test(t, probes);
  tcase_add_test(t, looks);
  suite_add_tcase(s, t);
  add_values(s);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
