/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Collectives, over three processes: forward mode is the op itself on the tangents (all are linear), and the sum over the processes of <Jv, w> is that of <v, J'w>. */
#include <stdlib.h>

#include "cases.h"
#include "harness.h"

enum { PROCESSES = 3, SIZE = 4 };

static sn_tensor all_reduce(sn_graph *g, sn_tensor x) {
  sn_computation *c;
  sn_builder b;
  sn_tensor out;
  ck_assert_int_eq(sn_computation_create(sn_graph_module(g), "sum", &c), SN_OK);
  sn_computation_move_before(c, sn_graph_module(g)->first);
  sn_builder_init(&b, NULL, c);
  const sn_shape *s = sn_shape_array(sn_builder_arena(&b), SN_TYPE_F64, 0, NULL);
  sn_instr *p = sn_build_parameter(&b, 0, s, "a"), *q = sn_build_parameter(&b, 1, s, "b");
  sn_computation_set_root(c, sn_build_binary(&b, SN_OP_ADD, p, q));
  ck_assert_int_eq(b.status, SN_OK);
  sn_op_tuple(g, SN_OP_ALL_REDUCE, NULL, 1, &x, 0, NULL, 1, &c, 1, &out);
  return out;
}
static sn_tensor all_gather(sn_graph *g, sn_tensor x) {
  static const int64_t axis = 0;
  const sn_shape *s = sn_shape_array(sn_graph_module(g)->arena, SN_TYPE_F64, 1, (int64_t[]){PROCESSES * SIZE});
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &axis);
  return sn_op(g, SN_OP_ALL_GATHER, s, 1, &x, 1, &a);
}
static sn_tensor permute(sn_graph *g, sn_tensor x) { /* process 2 gets nothing: zeros */
  static const int64_t pairs[4] = {0, 1, 1, 0};
  sn_attr a = sn_attr_ints(SN_ATTR_SOURCE_TARGET_PAIRS, 4, pairs);
  return sn_op(g, SN_OP_COLLECTIVE_PERMUTE, NULL, 1, &x, 1, &a);
}
static sn_tensor (*const builds[])(sn_graph *g, sn_tensor x) = {all_reduce, all_gather, permute};

static sn_array *drawn(const sn_shape *s, uint64_t *seed) {
  sn_array *a;
  ck_assert_int_eq(sn_array_create(s, &a), SN_OK);
  for (int64_t k = 0; k < sn_shape_elements(s); k++) ((double *)sn_array_data(a))[k] = 2 * uniform(seed) - 1;
  return a;
}

static double product(const sn_array *a, const sn_array *b) {
  double s = 0;
  ck_assert_int_eq(sn_array_bytes(a), sn_array_bytes(b));
  for (int64_t k = 0; k < sn_shape_elements(sn_array_shape(a)); k++) s += ((const double *)sn_array_data(a))[k] * ((const double *)sn_array_data(b))[k];
  return s;
}

START_TEST(modes_agree_over_processes) {
  uint64_t seed = 5;
  sn_graph *g;
  ck_assert_int_eq(sn_graph_create("collective", &g), SN_OK);
  sn_graph_module(g)->replica_count = PROCESSES;
  sn_tensor x = sn_parameter(g, SN_TYPE_F64, SN_DIMS(SIZE), "x"), v = sn_parameter(g, SN_TYPE_F64, SN_DIMS(SIZE), "v"), jv, back;
  sn_tensor y = builds[_i](g, x), w = sn_parameter(g, SN_TYPE_F64, sn_tensor_rank(y), sn_tensor_dims(y), "w");
  sn_jvp(1, &y, 1, &x, &v, &jv);
  sn_vjp(1, &y, &w, 1, &x, &back);
  sn_output(g, jv, "jv");
  sn_output(g, back, "back");
  sn_output(g, builds[_i](g, v), "of the tangents");
  sn_module *m = finish(g, "collective");
  sn_array *args[3 * PROCESSES], *out[PROCESSES];
  for (int k = 0; k < 3 * PROCESSES; k++) args[k] = drawn(m->entry->params[k % 3]->shape, &seed);
  sn_eval_options o;
  sn_eval_options_init(&o);
  o.replicas = PROCESSES;
  ck_assert_int_eq(sn_eval_replicated(NULL, m, &o, 3, args, out), SN_OK);
  double forward = 0, reverse = 0;
  for (int p = 0; p < PROCESSES; p++) {
    ck_assert(sn_array_equal(sn_array_element(out[p], 0), sn_array_element(out[p], 2)));
    forward += product(sn_array_element(out[p], 0), args[3 * p + 2]);
    reverse += product(args[3 * p + 1], sn_array_element(out[p], 1));
  }
  ck_assert_double_eq_tol(forward, reverse, 1e-12); /* sums of 36 terms of size 1 */
  for (int k = 0; k < 3 * PROCESSES; k++) sn_array_release(args[k]);
  for (int p = 0; p < PROCESSES; p++) sn_array_release(out[p]);
  sn_module_destroy(m);
}
END_TEST

void add_collective(Suite *s) {
  TCase *t = tcase_create("collectives");
  tcase_add_loop_test(t, modes_agree_over_processes, 0, (int)(sizeof builds / sizeof *builds));
  suite_add_tcase(s, t);
}
