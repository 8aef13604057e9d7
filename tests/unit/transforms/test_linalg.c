/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Factorisations, solves, Fourier transforms, batch norms, and ops that only HLO texts hold (scan). */
#include "cases.h"
#include "harness.h"

/* Symmetric and positive definite: x x' + 2 I */
static sn_tensor definite(sn_tensor x) {
  int64_t n = sn_tensor_dim(x, -1);
  sn_tensor eye = sn_mul_c(sn_eye(x.graph, SN_TYPE_F64, n, n), 2);
  return sn_add(sn_matmul(x, sn_swap_axes(x, -1, -2)), eye);
}
FN(f_cholesky) {
  UNUSED;
  out[0] = sn_cholesky(definite(in[0]));
}
FN(f_cholesky_upper) {
  UNUSED;
  sn_tensor a = definite(in[0]);
  out[0] = sn_triu(sn_op(g, SN_OP_CHOLESKY, NULL, 1, &a, 0, NULL), 0);
}
FN(f_cholesky_lower_only) { /* the upper triangle is not read */
  UNUSED;
  sn_tensor a = sn_add(definite(in[0]), sn_triu(in[1], 1));
  out[0] = sn_cholesky(a);
}
static sn_tensor regular(sn_tensor x) { /* far from singular */
  int64_t n = sn_tensor_dim(x, -1);
  return sn_add(x, sn_mul_c(sn_eye(x.graph, SN_TYPE_F64, n, n), 3));
}
#define SOLVE(name, left, lower, unit, op)                                      \
  FN(name) {                                                                    \
    UNUSED;                                                                     \
    out[0] = sn_triangular_solve(regular(in[0]), in[1], left, lower, unit, op); \
  }
SOLVE(f_solve, true, true, false, SN_TRANSPOSE_NO_TRANSPOSE)
SOLVE(f_solve_upper_t, true, false, false, SN_TRANSPOSE_TRANSPOSE)
SOLVE(f_solve_right, false, true, false, SN_TRANSPOSE_NO_TRANSPOSE)
SOLVE(f_solve_right_t, false, false, true, SN_TRANSPOSE_TRANSPOSE)
SOLVE(f_solve_adjoint, true, true, true, SN_TRANSPOSE_ADJOINT)
FN(f_solve_complex) {
  UNUSED;
  sn_tensor a = sn_complex(regular(in[0]), in[1]), b = sn_complex(in[1], in[0]);
  sn_tensor x = sn_triangular_solve(a, b, true, true, false, SN_TRANSPOSE_ADJOINT);
  out[0] = sn_concat(SN_TENSORS(sn_real(x), sn_imag(x)), 0);
}

static sn_tensor both(sn_tensor z) { return sn_concat(SN_TENSORS(sn_real(z), sn_imag(z)), 0); }
FN(f_fft) {
  UNUSED;
  out[0] = both(sn_fft(sn_complex(in[0], in[1]), SN_FFT_TYPE_FFT, SN_DIMS(6)));
}
FN(f_ifft) {
  UNUSED;
  out[0] = both(sn_fft(sn_complex(in[0], in[1]), SN_FFT_TYPE_IFFT, SN_DIMS(6)));
}
FN(f_rfft) {
  UNUSED;
  out[0] = both(sn_fft(in[0], SN_FFT_TYPE_RFFT, SN_DIMS(6)));
}
FN(f_rfft_odd) {
  UNUSED;
  out[0] = both(sn_fft(in[0], SN_FFT_TYPE_RFFT, SN_DIMS(3, 5)));
}
FN(f_irfft) {
  UNUSED;
  out[0] = sn_fft(sn_complex(in[0], in[1]), SN_FFT_TYPE_IRFFT, SN_DIMS(6));
}
FN(f_irfft_odd) {
  UNUSED;
  out[0] = sn_fft(sn_complex(in[0], in[1]), SN_FFT_TYPE_IRFFT, SN_DIMS(7));
}

FN(f_batch_norm) {
  UNUSED;
  sn_attr attrs[2] = {sn_attr_f64(SN_ATTR_EPSILON, 1e-3), sn_attr_int(SN_ATTR_FEATURE_INDEX, 1)};
  sn_tensor r[3];
  sn_op_tuple(g, SN_OP_BATCH_NORM_TRAINING, NULL, 3, in, 2, attrs, 0, NULL, 3, r);
  out[0] = sn_add(r[0], sn_reshape(sn_mul(r[1], r[2]), SN_DIMS(3, 1)));
}
FN(f_batch_norm_inference) {
  UNUSED;
  sn_attr attrs[2] = {sn_attr_f64(SN_ATTR_EPSILON, 1e-3), sn_attr_int(SN_ATTR_FEATURE_INDEX, 1)};
  sn_tensor a[5] = {in[0], in[1], in[2], in[2], sn_add_c(sn_square(in[1]), 0.5)};
  out[0] = sn_op(g, SN_OP_BATCH_NORM_INFERENCE, NULL, 5, a, 2, attrs);
}

/* HLO's scan: (slice, carry) -> (output, carry). */
FN(f_scan_op) {
  UNUSED;
  sn_computation *c;
  ck_assert_int_eq(sn_computation_create(sn_graph_module(g), "step", &c), SN_OK);
  sn_computation_move_before(c, sn_graph_module(g)->first);
  sn_builder b;
  sn_builder_init(&b, NULL, c);
  const sn_shape *s = sn_shape_array(sn_builder_arena(&b), SN_TYPE_F64, 1, (int64_t[]){3});
  sn_instr *x = sn_build_parameter(&b, 0, s, "x"), *h = sn_build_parameter(&b, 1, s, "h");
  sn_instr *next = sn_build_unary(&b, SN_OP_SINE, sn_build_binary(&b, SN_OP_MULTIPLY, h, x));
  sn_instr *y = sn_build_binary(&b, SN_OP_ADD, next, x);
  sn_computation_set_root(c, sn_build_tuple(&b, 2, (sn_instr *[]){y, next}));
  ck_assert_int_eq(b.status, SN_OK);
  sn_attr attrs[2] = {sn_attr_ints(SN_ATTR_DIMENSIONS, 1, (int64_t[]){1}), sn_attr_int(SN_ATTR_NUM_CARRIES, 1)};
  sn_tensor r[2];
  sn_op_tuple(g, SN_OP_SCAN, NULL, 2, in, 2, attrs, 1, &c, 2, r);
  out[0] = sn_concat(SN_TENSORS(r[0], sn_reshape(r[1], SN_DIMS(3, 1))), 1);
}

#define S(...) \
  { (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, 0, 0 }
#define P(...) \
  { (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, 0.5, 1.5 }
static const grad_case cases[] = {
    {"cholesky", f_cholesky, 1, {S(3, 3)}, 0},
    {"cholesky batch", f_cholesky, 1, {S(2, 3, 3)}, 0},
    {"cholesky upper", f_cholesky_upper, 1, {S(3, 3)}, 0},
    {"cholesky lower only", f_cholesky_lower_only, 2, {S(3, 3), S(3, 3)}, 0},
    {"solve", f_solve, 2, {S(3, 3), S(3, 2)}, 0},
    {"solve upper transposed", f_solve_upper_t, 2, {S(2, 3, 3), S(2, 3, 2)}, 0},
    {"solve right", f_solve_right, 2, {S(3, 3), S(2, 3)}, 0},
    {"solve right transposed", f_solve_right_t, 2, {S(3, 3), S(2, 3)}, 0},
    {"solve adjoint", f_solve_adjoint, 2, {S(3, 3), S(3, 2)}, 0},
    {"solve complex", f_solve_complex, 2, {S(3, 3), S(3, 3)}, 0},
    {"fft", f_fft, 2, {S(2, 6), S(2, 6)}, 0},
    {"ifft", f_ifft, 2, {S(6), S(6)}, 0},
    {"rfft", f_rfft, 1, {S(2, 6)}, 0},
    {"rfft odd", f_rfft_odd, 1, {S(3, 5)}, 0},
    {"irfft", f_irfft, 2, {S(2, 4), S(2, 4)}, 0},
    {"irfft odd", f_irfft_odd, 2, {S(4), S(4)}, 0},
    {"batch norm", f_batch_norm, 3, {S(4, 3, 2), S(3), S(3)}, 0},
    {"batch norm inference", f_batch_norm_inference, 3, {S(4, 3), S(3), S(3)}, 0},
    {"scan op", f_scan_op, 2, {P(3, 4), S(3)}, 0},
};

START_TEST(gradients) { check_gradients(&cases[_i]); }
END_TEST
START_TEST(batching) { check_batching(&cases[_i]); }
END_TEST

void add_linalg(Suite *s) {
  TCase *t = tcase_create("linear algebra");
  tcase_add_loop_test(t, gradients, 0, sizeof cases / sizeof *cases);
  tcase_add_loop_test(t, batching, 0, sizeof cases / sizeof *cases);
  suite_add_tcase(s, t);
}
