/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loops, branches, calls, checkpoints, custom rules. */
#include <string.h>

#include "cases.h"
#include "harness.h"

/* in[0]: counter, in[1]: a carried vector; uses a matrix from outside. */
typedef struct outer {
  sn_tensor w;
} outer;

FN(power_step) {
  UNUSED;
  const outer *o = ctx;
  out[0] = sn_tanh(sn_matmul(o->w, in[1]));
}
FN(f_fori) {
  UNUSED;
  outer o = {in[0]};
  sn_fori(g, 0, 5, power_step, &o, 1, &in[1], out);
}

FN(rnn_step) { /* (h, x) -> (h', y) */
  UNUSED;
  const outer *o = ctx;
  sn_tensor h = sn_tanh(sn_add(sn_matmul(o->w, in[0]), in[1]));
  out[0] = h;
  out[1] = sn_mul(h, sn_sum(in[1], SN_ALL, false));
}
static void rnn(sn_graph *g, const sn_tensor *in, sn_tensor *out, bool reverse) {
  outer o = {in[0]};
  sn_tensor carry, ys;
  sn_scan_spec s = {.n_carry = 1, .n_xs = 1, .n_ys = 1, .init = &in[1], .xs = &in[2], .reverse = reverse};
  sn_scan(g, &s, rnn_step, &o, &carry, &ys);
  out[0] = sn_concat(SN_TENSORS(sn_reshape(ys, SN_DIMS(-1)), carry), 0);
}
FN(f_scan) {
  UNUSED;
  rnn(g, in, out, false);
}
FN(f_scan_reverse) {
  UNUSED;
  rnn(g, in, out, true);
}

FN(inner_step) {
  UNUSED;
  const outer *o = ctx;
  out[0] = sn_sin(sn_mul(in[1], sn_add(o->w, sn_cast(in[0], SN_TYPE_F64))));
}
FN(outer_step) {
  UNUSED;
  sn_tensor r;
  sn_fori(g, 0, 3, inner_step, ctx, 1, &in[1], &r);
  out[0] = sn_add(r, in[1]);
}
FN(f_nested) {
  UNUSED;
  outer o = {in[1]};
  sn_fori(g, 2, 4, outer_step, &o, 1, in, out);
}

FN(halve_until) {
  UNUSED;
  out[0] = sn_gt(sn_sum(sn_square(in[0]), SN_ALL, false), sn_scalar(g, SN_TYPE_F64, 0.01));
}
FN(halve) {
  UNUSED;
  out[0] = sn_mul(sn_sin(in[0]), sn_scalar(g, SN_TYPE_F64, 0.5));
}
FN(f_while) {
  UNUSED;
  sn_while(g, halve_until, halve, NULL, 1, in, out);
}

FN(when_true) {
  UNUSED;
  out[0] = sn_mul(in[0], ((const outer *)ctx)->w);
}
FN(when_false) {
  UNUSED;
  out[0] = sn_sin(in[0]);
}
FN(f_cond_true) {
  UNUSED;
  outer o = {in[1]};
  sn_cond(sn_lt(sn_sum(sn_square(in[0]), SN_ALL, false), sn_scalar(g, SN_TYPE_F64, 1e3)), when_true, when_false, &o, 1,
          in, 1, out);
}
FN(f_cond_false) {
  UNUSED;
  outer o = {in[1]};
  sn_cond(sn_gt(sn_sum(sn_square(in[0]), SN_ALL, false), sn_scalar(g, SN_TYPE_F64, 1e3)), when_true, when_false, &o, 1,
          in, 1, out);
}
FN(f_cond_by_value) { /* the branch depends on the example: a select once batched */
  UNUSED;
  outer o = {in[1]};
  sn_cond(sn_gt(sn_sum(in[0], SN_ALL, false), sn_scalar(g, SN_TYPE_F64, 0)), when_true, when_false, &o, 1, in, 1, out);
}
FN(third) {
  UNUSED;
  out[0] = sn_exp(in[0]);
}
FN(f_switch) {
  UNUSED;
  outer o = {in[1]};
  sn_switch(sn_scalar(g, SN_TYPE_S32, 2), 3, (sn_fn[]){when_true, when_false, third}, (void *[]){&o, NULL, NULL}, 1, in,
            1, out);
}
FN(called) {
  UNUSED;
  out[0] = sn_mul(sn_sin(in[0]), in[1]);
  out[1] = sn_add(in[0], in[1]);
}
FN(f_call) {
  UNUSED;
  sn_tensor r[2];
  sn_call(g, "called", called, NULL, 2, in, 2, r);
  out[0] = sn_mul(r[0], r[1]);
}
FN(called_once) {
  UNUSED;
  out[0] = sn_mul(sn_sin(in[0]), in[0]);
}
FN(f_call_one) {
  UNUSED;
  sn_call(g, "square", called_once, NULL, 1, in, 1, out);
}

FN(block) {
  UNUSED;
  out[0] = sn_tanh(sn_matmul(sn_tanh(sn_matmul(in[0], in[1])), in[1]));
}
FN(f_checkpoint) {
  UNUSED;
  sn_tensor r;
  sn_checkpoint(g, block, NULL, 2, in, 1, &r);
  out[0] = sn_mul(r, in[0]);
}
FN(scan_block) {
  UNUSED;
  sn_tensor a[2] = {in[0], ((const outer *)ctx)->w};
  sn_checkpoint(g, block, NULL, 2, a, 1, out);
}
FN(f_scan_checkpoint) {
  UNUSED;
  outer o = {in[1]};
  sn_scan_spec s = {.n_carry = 1, .init = in, .length = 3};
  sn_scan(g, &s, scan_block, &o, out, NULL);
}
FN(f_barrier) {
  UNUSED;
  sn_tensor r[2];
  sn_barrier(g, 2, in, r);
  out[0] = sn_mul(sn_sin(r[0]), r[1]);
}
FN(f_stop) {
  UNUSED;
  out[0] = sn_mul(sn_sin(in[0]), sn_add_c(sn_mul_c(sn_stop_gradient(sn_scalar(g, SN_TYPE_F64, 3)), 2), 1));
}

FN(cube) {
  UNUSED;
  out[0] = sn_mul(in[0], sn_mul(in[0], in[0]));
}
static void cube_back(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, int n_out, const sn_tensor *out,
                      const sn_tensor *ct, sn_tensor *in_ct) {
  (void)ctx, (void)g, (void)n_in, (void)n_out, (void)out;
  in_ct[0] = sn_mul(ct[0], sn_mul_c(sn_square(in[0]), 3));
}
static void cube_forward(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, const sn_tensor *t, int n_out,
                         const sn_tensor *out, sn_tensor *res) {
  (void)ctx, (void)g, (void)n_in, (void)n_out, (void)out;
  res[0] = sn_mul(t[0], sn_mul_c(sn_square(in[0]), 3));
}
FN(f_custom_vjp) {
  UNUSED;
  sn_tensor r;
  sn_custom_vjp(g, cube, cube_back, NULL, 1, in, 1, &r);
  out[0] = sn_sin(r);
}
FN(f_custom_jvp) {
  UNUSED;
  sn_tensor r;
  sn_custom_jvp(g, cube, cube_forward, NULL, 1, in, 1, &r);
  out[0] = sn_sin(r);
}
FN(custom_in_block) {
  UNUSED;
  sn_tensor r;
  sn_custom_vjp(g, cube, cube_back, NULL, 1, in, 1, &r);
  out[0] = sn_tanh(r);
}
FN(f_custom_in_checkpoint) {
  UNUSED;
  sn_checkpoint(g, custom_in_block, NULL, 1, in, 1, out);
}
FN(custom_step) {
  UNUSED;
  sn_custom_vjp(g, cube, cube_back, NULL, 1, &in[1], 1, out);
  out[0] = sn_tanh(out[0]);
}
FN(f_custom_in_loop) {
  UNUSED;
  sn_fori(g, 0, 3, custom_step, NULL, 1, in, out);
}

/* The derivative of a loop inside the callback: forward over reverse over a scan when differentiated again. */
FN(loss_of_scan) {
  UNUSED;
  sn_tensor r;
  f_scan(ctx, g, n, in, 1, &r);
  out[0] = sn_sum(sn_square(r), SN_ALL, false);
}
FN(f_grad_scan) {
  UNUSED;
  sn_tensor value, grads[3];
  sn_value_and_grad(g, loss_of_scan, NULL, 3, in, 3, 1, &value, grads);
  out[0] = sn_add(sn_matmul(grads[0], grads[1]), value);
}

#define S(...) \
  { (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, 0, 0 }
#define Q(...)                                                                          \
  {                                                                                     \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, -0.2, 0.2 \
  } /* small, so that differences of third derivatives are exact enough */
static const grad_case cases[] = {
    {"fori", f_fori, 2, {S(3, 3), S(3)}, 0},
    {"scan", f_scan, 3, {S(3, 3), S(3), S(4, 3)}, 0},
    {"scan reverse", f_scan_reverse, 3, {S(3, 3), S(3), S(4, 3)}, 0},
    {"nested loops", f_nested, 2, {S(3), S(3)}, 0},
    {"while", f_while, 1, {S(3)}, SKIP_REVERSE},
    {"cond true", f_cond_true, 2, {S(3), S(3)}, 0},
    {"cond false", f_cond_false, 2, {S(3), S(3)}, 0},
    {"cond by value", f_cond_by_value, 2, {S(3), S(3)}, 0},
    {"switch", f_switch, 2, {S(3), S(3)}, 0},
    {"call", f_call, 2, {S(3), S(3)}, 0},
    {"call of one result", f_call_one, 1, {S(3)}, 0},
    {"checkpoint", f_checkpoint, 2, {S(3, 3), S(3, 3)}, 0},
    {"checkpoint in scan", f_scan_checkpoint, 2, {S(3, 3), S(3, 3)}, 0},
    {"barrier", f_barrier, 2, {S(3), S(3)}, 0},
    {"stop constant", f_stop, 1, {S(3)}, 0},
    {"custom_vjp", f_custom_vjp, 1, {S(3)}, 0},
    {"custom_jvp", f_custom_jvp, 1, {S(3)}, 0},
    {"custom in checkpoint", f_custom_in_checkpoint, 1, {S(3)}, 0},
    {"custom in loop", f_custom_in_loop, 1, {S(3)}, 0},
    {"grad of scan", f_grad_scan, 3, {Q(3, 3), Q(3), Q(4, 3)}, 0},
};

START_TEST(gradients) { check_gradients(&cases[_i]); }
END_TEST
START_TEST(batching) { check_batching(&cases[_i]); }
END_TEST

void add_control(Suite *s) {
  TCase *t = tcase_create("control");
  tcase_add_loop_test(t, gradients, 0, sizeof cases / sizeof *cases);
  tcase_add_loop_test(t, batching, 0, sizeof cases / sizeof *cases);
  suite_add_tcase(s, t);
}
