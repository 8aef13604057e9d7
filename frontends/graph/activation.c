/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Activations, softmax and layer norm, written so that few instructions and no overflow result. */
#include <math.h>

#include "graph_internal.h"

static sn_tensor add(sn_loc at, sn_tensor x, sn_tensor y) { return sn_binary_at(at, SN_OP_ADD, x, y); }
static sn_tensor sub(sn_loc at, sn_tensor x, sn_tensor y) { return sn_binary_at(at, SN_OP_SUBTRACT, x, y); }
static sn_tensor mul(sn_loc at, sn_tensor x, sn_tensor y) { return sn_binary_at(at, SN_OP_MULTIPLY, x, y); }
static sn_tensor mul_c(sn_loc at, sn_tensor x, double c) { return sn_binary_c_at(at, SN_OP_MULTIPLY, x, c); }
static sn_tensor add_c(sn_loc at, sn_tensor x, double c) { return sn_binary_c_at(at, SN_OP_ADD, x, c); }

sn_tensor sn_relu_at(sn_loc at, sn_tensor x) {
  sn_tensor zero = sn_scalar_like_at(at, x, 0);
  return sn_select_at(at, sn_compare_at(at, SN_DIRECTION_GT, x, zero), x, zero);
}

sn_tensor sn_gelu_at(sn_loc at, sn_tensor x) {
  sn_tensor e = sn_unary_at(at, SN_OP_ERF, mul_c(at, x, 0.70710678118654752440));
  return mul(at, mul_c(at, x, 0.5), add_c(at, e, 1));
}

sn_tensor sn_gelu_tanh_at(sn_loc at, sn_tensor x) {
  sn_tensor cube = mul(at, mul(at, x, x), x);
  sn_tensor inner = mul_c(at, add(at, x, mul_c(at, cube, 0.044715)), 0.79788456080286535588);
  return mul(at, mul_c(at, x, 0.5), add_c(at, sn_unary_at(at, SN_OP_TANH, inner), 1));
}

sn_tensor sn_silu_at(sn_loc at, sn_tensor x) { return mul(at, x, sn_unary_at(at, SN_OP_LOGISTIC, x)); }

/* max(x, 0) + log(1 + exp(-|x|)) */
sn_tensor sn_softplus_at(sn_loc at, sn_tensor x) {
  sn_tensor tail =
      sn_unary_at(at, SN_OP_LOG_PLUS_ONE,
                  sn_unary_at(at, SN_OP_EXPONENTIAL, sn_unary_at(at, SN_OP_NEGATE, sn_unary_at(at, SN_OP_ABS, x))));
  return add(at, sn_binary_c_at(at, SN_OP_MAXIMUM, x, 0), tail);
}

sn_tensor sn_leaky_relu_at(sn_loc at, sn_tensor x, double slope) {
  return sn_select_at(at, sn_compare_at(at, SN_DIRECTION_GE, x, sn_scalar_like_at(at, x, 0)), x, mul_c(at, x, slope));
}

/* expm1 of what is negative alone: the branch not taken must not overflow, or its zero cotangent would become NaN. */
sn_tensor sn_elu_at(sn_loc at, sn_tensor x, double alpha) {
  sn_tensor zero = sn_scalar_like_at(at, x, 0), positive = sn_compare_at(at, SN_DIRECTION_GT, x, zero);
  sn_tensor below = sn_select_at(at, positive, zero, x);
  return sn_select_at(at, positive, x, mul_c(at, sn_unary_at(at, SN_OP_EXPONENTIAL_MINUS_ONE, below), alpha));
}

/* ---- softmax ---- */

/* Identity for the value, opaque for derivatives: a shift by the maximum cancels exactly, so no derivative need flow
 * through it. */
static sn_tensor constant_for_grad(sn_loc at, sn_tensor x) {
  sn_tensor y = sn_unary_at(at, SN_OP_COPY, x);
  if (y.instr && sn_instr_set_frontend(y.instr, "sinter.stop_gradient", "1") != SN_OK) sn_graph_no_memory(x.graph);
  return y;
}

static sn_tensor finite_max(sn_loc at, sn_tensor x, int n, const int64_t *axes) {
  return constant_for_grad(at, sn_max_at(at, x, n, axes, true));
}

sn_tensor sn_softmax_at(sn_loc at, sn_tensor x, int axis) {
  if (!x.instr) return x;
  int64_t a = axis;
  sn_tensor e = sn_unary_at(at, SN_OP_EXPONENTIAL, sub(at, x, finite_max(at, x, 1, &a)));
  return sn_binary_at(at, SN_OP_DIVIDE, e, sn_sum_at(at, e, 1, &a, true));
}

sn_tensor sn_log_softmax_at(sn_loc at, sn_tensor x, int axis) {
  if (!x.instr) return x;
  int64_t a = axis;
  sn_tensor shifted = sub(at, x, finite_max(at, x, 1, &a));
  sn_tensor sum = sn_sum_at(at, sn_unary_at(at, SN_OP_EXPONENTIAL, shifted), 1, &a, true);
  return sub(at, shifted, sn_unary_at(at, SN_OP_LOG, sum));
}

/* An infinite maximum shifts nothing: -inf - -inf would be NaN. */
sn_tensor sn_logsumexp_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep) {
  if (!x.instr) return x;
  sn_tensor m = finite_max(at, x, n, axes);
  m = sn_select_at(at, sn_unary_at(at, SN_OP_IS_FINITE, m), m, sn_scalar_like_at(at, m, 0));
  sn_tensor r = add(
      at, sn_unary_at(at, SN_OP_LOG, sn_sum_at(at, sn_unary_at(at, SN_OP_EXPONENTIAL, sub(at, x, m)), n, axes, true)),
      m);
  if (keep || !r.instr) return r;
  int64_t list[SN_MAX_RANK], dims[SN_MAX_RANK];
  int count = sn_graph_axes(x.graph, at, "logsumexp", n, axes, sn_tensor_rank(x), list), rank = 0;
  for (int k = 0, j = 0; k < sn_tensor_rank(x); k++) {
    if (j < count && list[j] == k)
      j++;
    else
      dims[rank++] = sn_tensor_dim(x, k);
  }
  return sn_reshape_at(at, r, rank, dims);
}

/* ---- layer norm ---- */

static sn_tensor standardise(sn_loc at, sn_tensor x, double eps) {
  int64_t last = -1;
  sn_tensor centred = sub(at, x, sn_mean_at(at, x, 1, &last, true));
  sn_tensor var = sn_mean_at(at, sn_square_at(at, centred), 1, &last, true);
  return mul(at, centred, sn_unary_at(at, SN_OP_RSQRT, add_c(at, var, eps)));
}

sn_tensor sn_layer_norm_at(sn_loc at, sn_tensor x, sn_tensor scale, sn_tensor bias, double eps) {
  sn_type t = sn_tensor_type(x);
  if (!x.instr) return x;
  bool narrow = sn_type_is_float(t) && sn_type_bits(t) < 32;
  sn_tensor y = standardise(at, narrow ? sn_cast_at(at, x, SN_TYPE_F32) : x, eps);
  if (narrow) y = sn_cast_at(at, y, t);
  if (scale.instr) y = mul(at, y, scale);
  return bias.instr ? add(at, y, bias) : y;
}

/* ---- inverse error function ---- */

static const double f32_near[] = {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                                  -0.00125372503, -0.00417768164, 0.246640727,    1.50140941};
static const double f32_far[] = {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
                                 -0.0076224613,   0.00943887047,  1.00167406,    2.83297682};
static const double f64_near[] = {
    -3.6444120640178196996e-21, -1.685059138182016589e-19,  1.2858480715256400167e-18,  1.115787767802518096e-17,
    -1.333171662854620906e-16,  2.0972767875968561637e-17,  6.6376381343583238325e-15,  -4.0545662729752068639e-14,
    -8.1519341976054721522e-14, 2.6335093153082322977e-12,  -1.2975133253453532498e-11, -5.4154120542946279317e-11,
    1.051212273321532285e-09,   -4.1126339803469836976e-09, -2.9070369957882005086e-08, 4.2347877827932403518e-07,
    -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352,   -0.00074070253416626697512,
    -0.0060336708714301490533,  0.24015818242558961693,     1.6536545626831027356};
static const double f64_far[] = {
    2.2137376921775787049e-09,  9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08,
    1.5027403968909827627e-06,  -4.013867526981545969e-06, 2.9234449089955446044e-06,  1.2475304481671778723e-05,
    -4.7318229009055733981e-05, 6.8284851459573175448e-05, 2.4031110387097893999e-05,  -0.0003550375203628474796,
    0.00095328937973738049703,  -0.0016882755560235047313, 0.0024914420961078508066,   -0.0037512085075692412107,
    0.005370914553590063617,    1.0052589676941592334,     3.0838856104922207635};
static const double f64_end[] = {-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
                                 -3.7894654401267369937e-09, 7.6157012080783393804e-09,  -1.4960026627149240478e-08,
                                 2.9147953450901080826e-08,  -6.7711997758452339498e-08, 2.2900482228026654717e-07,
                                 -9.9298272942317002539e-07, 4.5260625972231537039e-06,  -1.9681778105531670567e-05,
                                 7.5995277030017761139e-05,  -0.00021503011930044477347, -0.00013871931833623122026,
                                 1.0103004648645343977,      4.8499064014085844221};

static sn_tensor horner(sn_loc at, const double *c, int n, sn_tensor w) {
  sn_tensor p = sn_full_like_at(at, w, c[0]);
  for (int k = 1; k < n; k++) p = add_c(at, mul(at, p, w), c[k]);
  return p;
}
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static sn_tensor below(sn_loc at, sn_tensor w, double c) {
  return sn_compare_at(at, SN_DIRECTION_LT, w, sn_scalar_like_at(at, w, c));
}

sn_tensor sn_erf_inv_at(sn_loc at, sn_tensor x) {
  sn_type t = sn_tensor_type(x);
  if (!x.instr) return x;
  if (t != SN_TYPE_F32 && t != SN_TYPE_F64) return sn_cast_at(at, sn_erf_inv_at(at, sn_cast_at(at, x, SN_TYPE_F32)), t);
  sn_tensor w =
      sn_unary_at(at, SN_OP_NEGATE, sn_unary_at(at, SN_OP_LOG_PLUS_ONE, sn_unary_at(at, SN_OP_NEGATE, mul(at, x, x))));
  sn_tensor root = sn_unary_at(at, SN_OP_SQRT, w), p;
  if (t == SN_TYPE_F32) {
    p = sn_select_at(at, below(at, w, 5), horner(at, f32_near, COUNT(f32_near), add_c(at, w, -2.5)),
                     horner(at, f32_far, COUNT(f32_far), add_c(at, root, -3)));
  } else {
    p = sn_select_at(at, below(at, w, 16), horner(at, f64_far, COUNT(f64_far), add_c(at, root, -3.25)),
                     horner(at, f64_end, COUNT(f64_end), add_c(at, root, -5)));
    p = sn_select_at(at, below(at, w, 6.25), horner(at, f64_near, COUNT(f64_near), add_c(at, w, -3.125)), p);
  }
  sn_tensor end = sn_compare_at(at, SN_DIRECTION_EQ, sn_unary_at(at, SN_OP_ABS, x), sn_scalar_like_at(at, x, 1));
  sn_tensor up = sn_compare_at(at, SN_DIRECTION_GT, x, sn_scalar_like_at(at, x, 0));
  sn_tensor infinite = sn_select_at(at, up, sn_scalar_like_at(at, x, INFINITY),
                                    sn_scalar_like_at(at, x, -INFINITY)); /* no derivative: 0 times it is NaN */
  return sn_select_at(at, end, infinite, mul(at, p, x));
}
