/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every op that has a derivative has a case, and asking one that has none is an error with the op's line. */
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "harness.h"

static const char *const rules[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) #diff,
#include "sinter/ops.def"
#undef SN_OP
};

/* Their rows say what they cannot do, with its place: no_rule_tells_the_place. */
static bool refuses(sn_opcode op) { return strcmp(rules[op], "none") == 0 || op == SN_OP_RAGGED_DOT || op == SN_OP_BITCAST; }

/* Of several processes: test_collective.c. */
static bool meets_others(sn_opcode op) { return sn_op_has(op, SN_T_COLLECTIVE); }

START_TEST(every_op_has_a_case) {
  if (getenv("SINTER_CASE")) return; /* one case alone was asked for */
  for (int op = 0; op < SN_OP_COUNT; op++) {
    if (refuses((sn_opcode)op) || strcmp(rules[op], "zero") == 0 || meets_others((sn_opcode)op)) continue;
    ck_assert_msg(op_was_seen((sn_opcode)op), "%s has the derivative rule `%s` and no case", sn_opcode_text((sn_opcode)op), rules[op]);
  }
}
END_TEST

static sn_tensor stochastic(sn_graph *g, sn_tensor x) {
  const sn_shape *s = sn_shape_array(sn_graph_module(g)->arena, SN_TYPE_BF16, 1, (int64_t[]){4});
  sn_tensor in[2] = {x, sn_full(g, SN_TYPE_U32, SN_DIMS(4), 1)};
  return sn_cast(sn_op(g, SN_OP_STOCHASTIC_CONVERT, s, 2, in, 0, NULL), SN_TYPE_F32);
}
static sn_tensor ragged(sn_graph *g, sn_tensor x) {
  static const int64_t zero = 0, one = 1;
  sn_tensor in[3] = {sn_reshape(x, SN_DIMS(2, 2)), sn_full(g, SN_TYPE_F32, SN_DIMS(1, 2, 3), 1), sn_full(g, SN_TYPE_S32, SN_DIMS(1), 2)};
  sn_attr a[4] = {sn_attr_ints(SN_ATTR_LHS_CONTRACTING_DIMS, 1, &one), sn_attr_ints(SN_ATTR_RHS_CONTRACTING_DIMS, 1, &one), sn_attr_ints(SN_ATTR_LHS_RAGGED_DIMS, 1, &zero),
                  sn_attr_ints(SN_ATTR_RHS_GROUP_DIMS, 1, &zero)};
  return sn_op(g, SN_OP_RAGGED_DOT, NULL, 3, in, 4, a);
}
static sn_tensor bitcast(sn_graph *g, sn_tensor x) {
  const sn_shape *s = sn_shape_array(sn_graph_module(g)->arena, SN_TYPE_F32, 2, (int64_t[]){2, 2});
  return sn_op(g, SN_OP_BITCAST, s, 1, &x, 0, NULL);
}
static sn_tensor custom(sn_graph *g, sn_tensor x) { return sn_custom_call(g, "mystery", SN_TYPE_F32, SN_DIMS(4), 1, &x, false); }
static const struct { const char *op; sn_tensor (*build)(sn_graph *g, sn_tensor x); } without[] = {
    {"stochastic-convert", stochastic}, {"ragged-dot", ragged}, {"bitcast", bitcast}, {"custom-call", custom}};

START_TEST(no_rule_tells_the_place) {
  for (int forward = 0; forward < 2; forward++) {
    sn_graph *g;
    ck_assert_int_eq(sn_graph_create("none", &g), SN_OK);
    sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(4), "x"), d;
    sn_tensor y = without[_i].build(g, x);
    ck_assert_int_eq(sn_graph_status(g), SN_OK);
    if (forward) sn_jvp(1, &y, 1, &x, &x, &d);
    else sn_grad(sn_sum(y, SN_ALL, false), 1, &x, &d);
    check_error(g, SN_ERR_UNSUPPORTED, without[_i].op);
    const sn_diagnostic *e = sn_diag_get(sn_graph_diag(g), 0);
    ck_assert_msg(strstr(e->loc.file, "test_coverage.c") != NULL && e->loc.line > 0, "at %s:%u", e->loc.file, e->loc.line);
    sn_graph_destroy(g);
  }
}
END_TEST

void add_coverage(Suite *s) {
  TCase *t = tcase_create("coverage");
  tcase_add_test(t, every_op_has_a_case);
  tcase_add_loop_test(t, no_rule_tells_the_place, 0, (int)(sizeof without / sizeof *without));
  suite_add_tcase(s, t);
}
