/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What derivatives are exactly where it matters, what the IR looks like, and misuse. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "harness.h"

static sn_graph *open_graph(void) {
  sn_graph *g;
  ck_assert_int_eq(sn_graph_create("test", &g), SN_OK);
  return g;
}

/* d loss / dx of a scalar function at x. */
static double slope(sn_tensor (*fn)(sn_tensor x), double at) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F64, SN_NO_DIMS, "x"), d;
  sn_tensor y = fn(x);
  sn_grad(y, 1, &x, &d);
  sn_output(g, d, "d");
  sn_module *m = finish(g, "slope");
  double *out, v, *args[1] = {&at};
  run_f64(m, 1, args, 1, &out);
  v = out[0];
  free(out);
  sn_module_destroy(m);
  return v;
}

static sn_tensor zero_max(sn_tensor x) { return sn_maximum_c(x, 0); }
static sn_tensor zero_min(sn_tensor x) { return sn_minimum(sn_scalar_like(x, 0), x); }
static sn_tensor relu(sn_tensor x) { return sn_relu(x); }
static sn_tensor three_equal(sn_tensor x) { return sn_max(sn_broadcast_to(x, SN_DIMS(3)), SN_ALL, false); }
static sn_tensor first_of_four(sn_tensor x) {
  return sn_max(sn_stack(SN_TENSORS(x, sn_full_like(x, 2), sn_full_like(x, 2), sn_full_like(x, 2)), 0), SN_ALL, false);
}
static sn_tensor softplus0(sn_tensor x) { return sn_softplus(x); }
static sn_tensor absolute(sn_tensor x) { return sn_abs(x); }
static sn_tensor stopped(sn_tensor x) { return sn_mul(x, sn_stop_gradient(x)); }
static sn_tensor power_zero(sn_tensor x) { return sn_pow(x, sn_scalar_like(x, 0)); }
static sn_tensor lonely(sn_tensor x) { return sn_mul_c(sn_stop_gradient(x), 3); }
static sn_tensor softmax_far(sn_tensor x) {
  return sn_index(sn_softmax(sn_stack(SN_TENSORS(x, sn_neg(x)), 0), 0), 0, 0);
}

START_TEST(ties_and_edges) {
  ck_assert_double_eq(slope(zero_max, 0), 0.5); /* ties share equally */
  ck_assert_double_eq(slope(zero_min, 0), 0.5);
  ck_assert_double_eq(slope(relu, 0), 0);
  ck_assert_double_eq(slope(three_equal, 2), 1); /* thirds of three paths */
  ck_assert_double_eq(slope(first_of_four, 2), 0.25);
  ck_assert_double_eq(slope(absolute, 0), 0);
  ck_assert_double_eq(slope(stopped, 3), 3);
  ck_assert_double_eq(slope(lonely, 3), 0);
  ck_assert_double_eq(slope(power_zero, 0), 0);
  ck_assert_double_eq(slope(softplus0, 800), 1); /* no overflow */
  ck_assert_double_eq(slope(softmax_far, 500), 0);
}
END_TEST

START_TEST(complex_gradient) { /* |z|^2 = x^2 + y^2: dL/dx - i dL/dy = 2 conj(z) */
  sn_graph *g = open_graph();
  sn_tensor re = sn_parameter(g, SN_TYPE_F64, SN_NO_DIMS, "re"), im = sn_parameter(g, SN_TYPE_F64, SN_NO_DIMS, "im");
  sn_tensor z = sn_complex(re, im), d;
  sn_grad(sn_real(sn_mul(z, sn_conj(z))), 1, &z, &d);
  sn_output(g, sn_real(d), NULL);
  sn_output(g, sn_imag(d), NULL);
  sn_module *m = finish(g, "complex");
  double a = 1.5, b = -0.5, *args[2] = {&a, &b}, *out[2];
  run_f64(m, 2, args, 2, out);
  ck_assert_double_eq_tol(out[0][0], 3, 1e-15);
  ck_assert_double_eq_tol(out[1][0], 1, 1e-15);
  free(out[0]), free(out[1]);
  sn_module_destroy(m);
}
END_TEST

static int count_op(const sn_module *m, sn_opcode op) {
  int n = 0;
  SN_FOR_COMPUTATIONS(c, m) SN_FOR_INSTRS(i, c) n += i->op == op;
  return n;
}

START_TEST(lean) { /* a linear layer's gradients are two products and a sum: no transposes, no products with ones */
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(8, 3), "x"), w = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3, 5), "w"),
            b = sn_parameter(g, SN_TYPE_F32, SN_DIMS(5), "b");
  sn_tensor wrt[3] = {x, w, b}, d[3];
  sn_grad(sn_sum(sn_tanh(sn_add(sn_matmul(x, w), b)), SN_ALL, false), 3, wrt, d);
  for (int k = 0; k < 3; k++) sn_output(g, d[k], NULL);
  sn_module *m = finish(g, "lean");
  ck_assert_int_eq(count_op(m, SN_OP_DOT), 3);
  ck_assert_int_eq(count_op(m, SN_OP_TRANSPOSE), 0);
  ck_assert_int_eq(count_op(m, SN_OP_REDUCE), 1); /* the loss itself is not needed */
  ck_assert_int_le((int)m->entry->n_instrs, 18);
  sn_module_destroy(m);
}
END_TEST

FN(block) {
  UNUSED;
  out[0] = sn_tanh(sn_matmul(sn_tanh(sn_matmul(in[0], in[1])), in[1]));
}

START_TEST(checkpoint_marks) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3, 3), "x"), w = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3, 3), "w"),
            a[2] = {x, w}, y, d;
  sn_checkpoint(g, block, NULL, 2, a, 1, &y);
  sn_grad(sn_sum(y, SN_ALL, false), 1, &w, &d);
  sn_output(g, y, NULL);
  sn_output(g, d, NULL);
  sn_module *m = finish(g, "checkpoint");
  int marked = 0;
  SN_FOR_INSTRS(i, m->entry) {
    const char *mark = sn_instr_frontend(i, "sinter.remat");
    if (mark) ck_assert_str_eq(mark, "1");
    marked += mark && i->op == SN_OP_TANH;
  }
  ck_assert_int_eq(marked, 2);
  ck_assert_int_eq(count_op(m, SN_OP_TANH), 4);
  ck_assert_int_eq(count_op(m, SN_OP_OPT_BARRIER), 1);
  sn_module_destroy(m);
}
END_TEST

START_TEST(no_rule) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x"), d;
  sn_tensor y = sn_custom_call(g, "mystery", SN_TYPE_F32, SN_DIMS(3), 1, &x, false);
  uint32_t line = __LINE__ - 1;
  sn_grad(sn_sum(y, SN_ALL, false), 1, &x, &d);
  check_error(g, SN_ERR_UNSUPPORTED, "custom-call");
  ck_assert_uint_eq(sn_diag_get(sn_graph_diag(g), 0)->loc.line, line);
  ck_assert_ptr_nonnull(sn_diag_get(sn_graph_diag(g), 0)->hint);
  sn_graph_destroy(g);
}
END_TEST

FN(grows) {
  UNUSED;
  out[0] = sn_lt(sn_sum(in[0], SN_ALL, false), sn_scalar(g, SN_TYPE_F32, 10));
}
FN(doubles) {
  UNUSED;
  out[0] = sn_add(in[0], in[0]);
}

START_TEST(unknown_length) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x"), y, d;
  sn_while(g, grows, doubles, NULL, 1, &x, &y);
  sn_grad(sn_sum(y, SN_ALL, false), 1, &x, &d);
  check_error(g, SN_ERR_UNSUPPORTED, "number of rounds");
  sn_graph_destroy(g);
}
END_TEST

START_TEST(misuse) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x"), d;
  sn_grad(x, 1, &x, &d);
  check_error(g, SN_ERR_SHAPE, "loss is f32[3]");
  ck_assert(!sn_tensor_ok(d));
  sn_graph_destroy(g);

  g = open_graph();
  x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "x");
  sn_tensor y = sn_sin(x), wrong = sn_full(g, SN_TYPE_F32, SN_DIMS(2), 1);
  sn_vjp(1, &y, &wrong, 1, &x, &d);
  check_error(g, SN_ERR_SHAPE, "f32[2]");
  sn_graph_destroy(g);

  g = open_graph();
  sn_tensor two[2] = {sn_parameter(g, SN_TYPE_F32, SN_DIMS(3, 2), "a"),
                      sn_parameter(g, SN_TYPE_F32, SN_DIMS(4, 2), "b")};
  sn_vmap(g, doubles, NULL, 2, two, NULL, 1, NULL, &d);
  check_error(g, SN_ERR_SHAPE, "4 examples");
  sn_graph_destroy(g);
}
END_TEST

/* Integers and predicates have no derivative: zeros of their shape. */
START_TEST(integers) {
  sn_graph *g = open_graph();
  sn_tensor x = sn_parameter(g, SN_TYPE_F64, SN_DIMS(3), "x"), n = sn_parameter(g, SN_TYPE_S32, SN_DIMS(3), "n");
  sn_tensor wrt[2] = {x, n}, d[2];
  sn_grad(sn_sum(sn_mul(x, sn_cast(n, SN_TYPE_F64)), SN_ALL, false), 2, wrt, d);
  ck_assert_int_eq(sn_tensor_type(d[1]), SN_TYPE_S32);
  ck_assert_int_eq(sn_tensor_dim(d[1], 0), 3);
  ck_assert_int_eq(sn_graph_status(g), SN_OK);
  sn_graph_destroy(g);
}
END_TEST

FN(scanned) {
  UNUSED;
  out[0] = sn_tanh(sn_mul(in[0], in[0]));
}

static sn_status build_everything(sn_diag *d_out) {
  sn_graph *g;
  sn_status s = sn_graph_create("memory", &g);
  if (s != SN_OK) return s;
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3, 3), "x"), w = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3, 3), "w"),
            a[2] = {x, w}, y, d[2], v;
  sn_checkpoint(g, block, NULL, 2, a, 1, &y);
  sn_scan_spec spec = {.n_carry = 1, .init = &y, .length = 3};
  sn_scan(g, &spec, scanned, NULL, &y, NULL);
  sn_grad(sn_sum(y, SN_ALL, false), 2, a, d);
  sn_vmap(g, block, NULL, 2, a, (int64_t[]){0, SN_UNBATCHED}, 1, NULL, &v);
  sn_output(g, d[0], NULL);
  sn_output(g, v, NULL);
  sn_module *m = NULL;
  s = sn_graph_finish(g, d_out, &m);
  sn_graph_destroy(g);
  sn_module_destroy(m);
  return s;
}

/* Whichever allocation fails, the status says so and nothing is left behind. */
START_TEST(out_of_memory) {
  int64_t live = sn_alloc_live();
  sn_alloc_fail_after(-1);
  ck_assert_int_eq(build_everything(NULL), SN_OK);
  int64_t n = sn_alloc_fail_after(-1);
  ck_assert_int_gt(n, 50);
  for (int64_t k = 0; k < n; k += 1 + n / 400) {
    sn_alloc_fail_after(k);
    sn_status s = build_everything(NULL);
    sn_alloc_fail_after(-1);
    ck_assert_msg(s == SN_ERR_MEMORY, "allocation %lld: %s", (long long)k, sn_status_text(s));
    ck_assert_int_eq(sn_alloc_live(), live);
  }
}
END_TEST

void add_api(Suite *s) {
  TCase *t = tcase_create("api");
  tcase_add_test(t, ties_and_edges);
  tcase_add_test(t, complex_gradient);
  tcase_add_test(t, lean);
  tcase_add_test(t, checkpoint_marks);
  tcase_add_test(t, no_rule);
  tcase_add_test(t, unknown_length);
  tcase_add_test(t, misuse);
  tcase_add_test(t, integers);
  tcase_add_test(t, out_of_memory);
  suite_add_tcase(s, t);
}
