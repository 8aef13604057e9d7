/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "harness.h"
#include "cases.h"

#define UNARY(name, expr) \
  FN(name) {              \
    UNUSED;               \
    sn_tensor x = in[0];  \
    out[0] = expr;        \
  }
#define BINARY(name, expr)          \
  FN(name) {                        \
    UNUSED;                         \
    sn_tensor x = in[0], y = in[1]; \
    out[0] = expr;                  \
  }

UNARY(f_abs, sn_abs(x))
UNARY(f_acos, sn_acos(x))
UNARY(f_acosh, sn_acosh(x))
UNARY(f_asin, sn_asin(x))
UNARY(f_asinh, sn_asinh(x))
UNARY(f_atan, sn_atan(x))
UNARY(f_atanh, sn_atanh(x))
UNARY(f_cbrt, sn_cbrt(x))
UNARY(f_cosh, sn_cosh(x))
UNARY(f_cos, sn_cos(x))
UNARY(f_erf, sn_erf(x))
UNARY(f_exp, sn_exp(x))
UNARY(f_expm1, sn_expm1(x))
UNARY(f_log, sn_log(x))
UNARY(f_log1p, sn_log1p(x))
UNARY(f_sigmoid, sn_sigmoid(x))
UNARY(f_neg, sn_neg(x))
UNARY(f_rsqrt, sn_rsqrt(x))
UNARY(f_sin, sn_sin(x))
UNARY(f_sinh, sn_sinh(x))
UNARY(f_sqrt, sn_sqrt(x))
UNARY(f_tan, sn_tan(x))
UNARY(f_tanh, sn_tanh(x))
UNARY(f_square, sn_square(x))
UNARY(f_flat, sn_mul(x, sn_add(sn_sign(x), sn_floor(sn_mul_c(x, 3)))))
UNARY(f_flat_more, sn_mul(x, sn_add(sn_ceil(sn_mul_c(x, 3)), sn_add(sn_round_even(sn_mul_c(x, 3)), sn_round(sn_mul_c(x, 3))))))
UNARY(f_relu, sn_relu(x))
UNARY(f_gelu, sn_gelu(x))
UNARY(f_gelu_tanh, sn_gelu_tanh(x))
UNARY(f_silu, sn_silu(x))
UNARY(f_softplus, sn_softplus(x))
UNARY(f_elu, sn_elu(x, 1.3))
UNARY(f_leaky, sn_leaky_relu(x, 0.1))
UNARY(f_erf_inv, sn_erf_inv(x))
UNARY(f_clamp_c, sn_clamp_c(-0.4, x, 0.5))
UNARY(f_pow2, sn_pow_c(x, 2))
UNARY(f_pow3, sn_pow_c(x, 3.5))
UNARY(f_copy, sn_copy(x))
UNARY(f_max_self, sn_maximum(x, x))
BINARY(f_add, sn_add(x, y))
BINARY(f_sub, sn_sub(x, y))
BINARY(f_mul, sn_mul(x, y))
BINARY(f_div, sn_div(x, y))
BINARY(f_rem, sn_rem(x, y))
BINARY(f_pow, sn_pow(x, y))
BINARY(f_atan2, sn_atan2(x, y))
BINARY(f_max, sn_maximum(x, y))
BINARY(f_min, sn_minimum(x, y))
BINARY(f_select, sn_select(sn_gt(x, sn_scalar_like(x, 0.1)), sn_mul(x, y), y))
FN(f_clamp) {
  UNUSED;
  out[0] = sn_clamp(in[1], in[0], in[2]);
}

/* Complex numbers as pairs of reals. */
#define CX sn_complex(in[0], in[1])
static sn_tensor both(sn_tensor z) { return sn_concat(SN_TENSORS(sn_real(z), sn_imag(z)), 0); }
FN(f_complex_mul) {
  UNUSED;
  sn_tensor z = CX;
  out[0] = both(sn_mul(z, sn_mul(z, z)));
}
FN(f_complex_div) {
  UNUSED;
  sn_tensor z = CX, u = sn_complex(in[1], in[0]);
  out[0] = both(sn_div(z, u));
}
FN(f_complex_exp) {
  UNUSED;
  out[0] = both(sn_exp(CX));
}
FN(f_complex_log) {
  UNUSED;
  out[0] = both(sn_log(CX));
}
FN(f_complex_tanh) {
  UNUSED;
  out[0] = both(sn_tanh(CX));
}
FN(f_complex_sqrt) {
  UNUSED;
  out[0] = both(sn_sqrt(CX));
}
FN(f_complex_abs) {
  UNUSED;
  out[0] = sn_abs(CX);
}
FN(f_complex_sign) {
  UNUSED;
  sn_tensor z = CX;
  out[0] = both(sn_mul(sn_sign(z), z));
}
FN(f_complex_conj) {
  UNUSED;
  sn_tensor z = CX;
  out[0] = both(sn_mul(sn_conj(z), z));
}

FN(map_body) {
  UNUSED;
  out[0] = sn_mul(sn_sin(in[0]), sn_add(in[1], sn_scalar_like(in[1], 2)));
}
FN(f_map) {
  UNUSED;
  out[0] = sn_map_fn(map_body, NULL, 2, in);
}
FN(f_reduce_precision) { /* to all of f64's bits: differences see no steps */
  UNUSED;
  sn_attr a[2] = {sn_attr_int(SN_ATTR_EXPONENT_BITS, 11), sn_attr_int(SN_ATTR_MANTISSA_BITS, 52)};
  out[0] = sn_sin(sn_op(g, SN_OP_REDUCE_PRECISION, NULL, 1, in, 2, a));
}
FN(f_domain) {
  UNUSED;
  out[0] = sn_sin(sn_op(g, SN_OP_DOMAIN, NULL, 1, in, 0, NULL));
}
FN(f_convert) {
  UNUSED;
  out[0] = sn_mul(in[0], sn_real(sn_cast(in[0], SN_TYPE_C128)));
}

#define V \
  { 1, {7}, 0, 0 }
#define M \
  { 2, {3, 4}, 0, 0 }
#define R(lo, hi) \
  { 1, {7}, lo, hi }
static const grad_case cases[] = {
    {"abs", f_abs, 1, {V}, SKIP_SECOND},
    {"acos", f_acos, 1, {R(-0.9, 0.9)}, 0},
    {"acosh", f_acosh, 1, {R(1.2, 3)}, 0},
    {"asin", f_asin, 1, {R(-0.9, 0.9)}, 0},
    {"asinh", f_asinh, 1, {V}, 0},
    {"atan", f_atan, 1, {V}, 0},
    {"atanh", f_atanh, 1, {R(-0.9, 0.9)}, 0},
    {"cbrt", f_cbrt, 1, {R(0.2, 2)}, 0},
    {"cosh", f_cosh, 1, {V}, 0},
    {"cos", f_cos, 1, {V}, 0},
    {"erf", f_erf, 1, {V}, 0},
    {"exp", f_exp, 1, {V}, 0},
    {"expm1", f_expm1, 1, {V}, 0},
    {"log", f_log, 1, {R(0.2, 3)}, 0},
    {"log1p", f_log1p, 1, {R(-0.7, 3)}, 0},
    {"sigmoid", f_sigmoid, 1, {V}, 0},
    {"neg", f_neg, 1, {V}, 0},
    {"rsqrt", f_rsqrt, 1, {R(0.3, 3)}, 0},
    {"sin", f_sin, 1, {V}, 0},
    {"sinh", f_sinh, 1, {V}, 0},
    {"sqrt", f_sqrt, 1, {R(0.3, 3)}, 0},
    {"tan", f_tan, 1, {V}, 0},
    {"tanh", f_tanh, 1, {R(-2, 2)}, 0},
    {"square", f_square, 1, {M}, 0},
    {"flat", f_flat, 1, {R(0.05, 0.3)}, 0},
    {"flat, more", f_flat_more, 1, {R(0.18, 0.3)}, 0},
    {"reduce-precision", f_reduce_precision, 1, {V}, 0},
    {"domain", f_domain, 1, {V}, SKIP_BATCH},
    {"relu", f_relu, 1, {V}, SKIP_SECOND},
    {"gelu", f_gelu, 1, {R(-2, 2)}, 0},
    {"gelu_tanh", f_gelu_tanh, 1, {R(-2, 2)}, 0},
    {"silu", f_silu, 1, {V}, 0},
    {"softplus", f_softplus, 1, {R(0.1, 2)}, 0},
    {"elu", f_elu, 1, {V}, SKIP_SECOND},
    {"leaky_relu", f_leaky, 1, {V}, SKIP_SECOND},
    {"erf_inv", f_erf_inv, 1, {R(-0.8, 0.8)}, 0},
    {"clamp_c", f_clamp_c, 1, {V}, SKIP_SECOND},
    {"pow2", f_pow2, 1, {V}, 0},
    {"pow3.5", f_pow3, 1, {R(0.2, 2)}, 0},
    {"copy", f_copy, 1, {V}, 0},
    {"max(x,x)", f_max_self, 1, {V}, 0},
    {"add", f_add, 2, {M, {1, {4}, 0, 0}}, 0},
    {"sub", f_sub, 2, {M, {2, {3, 1}, 0, 0}}, 0},
    {"mul", f_mul, 2, {M, {0, {0}, 0, 0}}, 0},
    {"div", f_div, 2, {M, {2, {1, 4}, 0.5, 2}}, 0},
    {"rem", f_rem, 2, {R(3.1, 3.4), R(1.1, 1.4)}, 0},
    {"pow", f_pow, 2, {R(0.3, 2), R(-2, 2)}, 0},
    {"atan2", f_atan2, 2, {V, R(0.5, 1)}, 0},
    {"max", f_max, 2, {V, V}, SKIP_SECOND},
    {"min", f_min, 2, {V, V}, SKIP_SECOND},
    {"select", f_select, 2, {V, V}, SKIP_SECOND},
    {"clamp", f_clamp, 3, {V, {0, {0}, -0.5, -0.3}, {0, {0}, 0.3, 0.5}}, SKIP_SECOND},
    {"complex mul", f_complex_mul, 2, {V, V}, 0},
    {"complex div", f_complex_div, 2, {R(0.5, 1), R(0.6, 1.2)}, 0},
    {"complex exp", f_complex_exp, 2, {V, V}, 0},
    {"complex log", f_complex_log, 2, {R(0.5, 1), R(0.5, 1)}, 0},
    {"complex tanh", f_complex_tanh, 2, {V, V}, 0},
    {"complex sqrt", f_complex_sqrt, 2, {R(0.5, 1), V}, 0},
    {"complex abs", f_complex_abs, 2, {R(0.5, 1), R(0.5, 1)}, 0},
    {"complex sign", f_complex_sign, 2, {R(0.5, 1), R(-1, -0.5)}, 0},
    {"complex conj", f_complex_conj, 2, {V, V}, 0},
    {"map", f_map, 2, {M, M}, 0},
    {"convert", f_convert, 1, {V}, 0},
};

START_TEST(gradients) { check_gradients(&cases[_i]); }
END_TEST
START_TEST(batching) { check_batching(&cases[_i]); }
END_TEST

void add_eltwise(Suite *s) {
  TCase *t = tcase_create("elementwise");
  tcase_add_loop_test(t, gradients, 0, sizeof cases / sizeof *cases);
  tcase_add_loop_test(t, batching, 0, sizeof cases / sizeof *cases);
  suite_add_tcase(s, t);
}
