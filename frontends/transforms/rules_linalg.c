/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of Fourier transforms, Cholesky factors, triangular solves and batch norms. Matrices stand in the last
 * two axes; tensors of the builder serve as notation. */
#include <math.h>
#include <string.h>

#include "diff_internal.h"

#define X sn_op0(i)

static sn_tensor T(sn_diff *d, sn_instr *i) { return sn_graph_tensor(d->g, i); }

/* ---- Fourier ---- */

static sn_instr *fft(sn_diff *d, sn_instr *i, sn_instr *x, int64_t kind) {
  sn_ints n = sn_instr_ints(i, SN_ATTR_FFT_LENGTH);
  return sn_fft_at(i->loc, T(d, x), kind, (int)n.n, n.v).instr;
}

/* Real to complex: the missing half has no cotangent; the transform is its own transpose. */
static sn_instr *rfft_back(sn_diff *d, sn_instr *i, sn_instr *ct) {
  int rank = ct->shape->rank;
  int64_t low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
  high[rank - 1] = X->shape->dims[rank - 1] - ct->shape->dims[rank - 1];
  sn_instr *full = sn_build_pad(d->b, ct, sn_d_scalar(d, ct->shape->type, 0), low, high, NULL);
  return sn_d_un(d, SN_OP_REAL, fft(d, i, full, SN_FFT_TYPE_FFT));
}

/* Complex to real: every frequency but the first and (for even lengths) the last stands for two. */
static sn_instr *irfft_back(sn_diff *d, sn_instr *i, sn_instr *ct) {
  sn_instr *f = fft(d, i, ct, SN_FFT_TYPE_RFFT);
  if (!f) return NULL;
  sn_ints len = sn_instr_ints(i, SN_ATTR_FFT_LENGTH);
  double scale = 1;
  for (int64_t k = 0; k < len.n; k++) scale /= (double)len.v[k];
  int rank = f->shape->rank;
  int64_t n = f->shape->dims[rank - 1];
  bool even = len.v[len.n - 1] % 2 == 0;
  sn_loc at = i->loc;
  sn_type real = ct->shape->type;
  sn_tensor k = sn_iota_at(at, d->g, SN_TYPE_S32, rank, f->shape->dims, rank - 1);
  sn_tensor single = sn_compare_at(at, SN_DIRECTION_EQ, k, sn_scalar_at(at, d->g, SN_TYPE_S32, 0));
  if (even)
    single = sn_binary_at(at, SN_OP_OR, single,
                          sn_compare_at(at, SN_DIRECTION_EQ, k, sn_scalar_at(at, d->g, SN_TYPE_S32, (double)(n - 1))));
  sn_tensor weight =
      sn_select_at(at, single, sn_scalar_at(at, d->g, real, scale), sn_scalar_at(at, d->g, real, 2 * scale));
  return sn_d_conj(d, sn_d_mul(d, f, sn_d_convert(d, weight.instr, f->shape->type)));
}

static void fft_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  int64_t kind = sn_instr_int(i, SN_ATTR_FFT_TYPE);
  sn_instr *r = kind == SN_FFT_TYPE_RFFT    ? rfft_back(d, i, ct[0])
                : kind == SN_FFT_TYPE_IRFFT ? irfft_back(d, i, ct[0])
                                            : fft(d, i, ct[0], kind);
  sn_diff_give(d, i, 0, r);
}
static void fft_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0);
  if (t) *out = sn_d_again(d, i, 1, &t);
}
const sn_diff_rule sn_diff_fft = {.name = "fft", .vjp = fft_vjp, .jvp = fft_jvp};

/* ---- matrices ---- */

static sn_tensor transposed(sn_loc at, sn_tensor x) { return sn_swap_axes_at(at, x, -1, -2); }
static sn_tensor neg(sn_loc at, sn_tensor x) { return sn_unary_at(at, SN_OP_NEGATE, x); }
static sn_tensor add(sn_loc at, sn_tensor x, sn_tensor y) { return sn_binary_at(at, SN_OP_ADD, x, y); }

/* 1 on the diagonal, in the shape of x's last two axes. */
static sn_tensor identity(sn_loc at, sn_tensor x) {
  int64_t n = sn_tensor_dim(x, -1);
  return sn_eye_at(at, x.graph, sn_tensor_type(x), n, n);
}

/* Lower triangle with half the diagonal. */
static sn_tensor half_lower(sn_loc at, sn_tensor x) {
  sn_tensor low = sn_tril_at(at, x, 0), half = sn_binary_c_at(at, SN_OP_MULTIPLY, identity(at, x), 0.5);
  return sn_binary_at(at, SN_OP_SUBTRACT, low, sn_binary_at(at, SN_OP_MULTIPLY, low, half));
}

static bool real_only(sn_diff *d, sn_instr *i, const char *mode) {
  if (!sn_type_is_complex(X->shape->type)) return true;
  sn_graph_fail(d->g, i->loc, SN_ERR_UNSUPPORTED, "%s (%s) of complex matrices has no %s-mode derivative",
                sn_opcode_text(i->op), i->name, mode);
  return false;
}

/* The lower factor, whatever stands in the other triangle of the result. */
static sn_tensor factor_of(sn_diff *d, sn_instr *i, sn_instr *x) {
  sn_tensor l = T(d, x);
  return sn_tril_at(i->loc, sn_instr_bool(i, SN_ATTR_LOWER) ? l : transposed(i->loc, l), 0);
}

/* I. Murray, "Differentiation of the Cholesky decomposition", 2016, eq. 9 and 10. The op reads one triangle alone, and
 * only that gets a cotangent. */
static void cholesky_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (!real_only(d, i, "reverse")) return;
  sn_loc at = i->loc;
  sn_tensor l = factor_of(d, i, i), lt = factor_of(d, i, ct[0]);
  sn_tensor p = half_lower(at, sn_matmul_at(at, transposed(at, l), lt));
  sn_tensor g = sn_triangular_solve_at(at, l, p, true, true, false, SN_TRANSPOSE_TRANSPOSE); /* L^-T P */
  g = sn_triangular_solve_at(at, l, g, false, true, false, SN_TRANSPOSE_NO_TRANSPOSE);       /* … L^-1 */
  sn_tensor both = half_lower(at, add(at, g, transposed(at, g)));
  sn_diff_give(d, i, 0, (sn_instr_bool(i, SN_ATTR_LOWER) ? both : transposed(at, both)).instr);
}

/* dL = L half_lower(L^-1 dA L^-T) */
static void cholesky_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0);
  if (!t || !real_only(d, i, "forward")) return;
  sn_loc at = i->loc;
  sn_tensor l = factor_of(d, i, i), low = factor_of(d, i, t);
  sn_tensor sym = add(at, low, transposed(at, sn_tril_at(at, low, -1)));
  sn_tensor m = sn_triangular_solve_at(at, l, sym, true, true, false, SN_TRANSPOSE_NO_TRANSPOSE);
  m = sn_triangular_solve_at(at, l, m, false, true, false, SN_TRANSPOSE_TRANSPOSE);
  sn_tensor r = sn_matmul_at(at, l, half_lower(at, m));
  *out = (sn_instr_bool(i, SN_ATTR_LOWER) ? r : transposed(at, r)).instr;
}
const sn_diff_rule sn_diff_cholesky = {.name = "cholesky", .vjp = cholesky_vjp, .jvp = cholesky_jvp};

/* ---- triangular solve ---- */

typedef struct solve {
  bool left, lower, unit;
  int64_t op;
  sn_loc at;
} solve;

static solve read_solve(const sn_instr *i) {
  return (solve){sn_instr_bool(i, SN_ATTR_LEFT_SIDE), sn_instr_bool(i, SN_ATTR_LOWER),
                 sn_instr_bool(i, SN_ATTR_UNIT_DIAGONAL), sn_instr_int(i, SN_ATTR_TRANSPOSE_A), i->loc};
}

/* The part of a matrix that the op reads. */
static sn_tensor read_part(const solve *s, sn_tensor a) {
  return s->lower ? sn_tril_at(s->at, a, s->unit ? -1 : 0) : sn_triu_at(s->at, a, s->unit ? 1 : 0);
}

static sn_tensor apply(const solve *s, sn_tensor a) {
  if (s->op == SN_TRANSPOSE_ADJOINT) a = sn_conj_at(s->at, a);
  return s->op == SN_TRANSPOSE_NO_TRANSPOSE ? a : transposed(s->at, a);
}

/* op(A)^-T c or c op(A)^-T; for the adjoint conj(A)^-1 c = conj(A^-1 conj(c)). */
static sn_tensor solve_back(const solve *s, sn_tensor a, sn_tensor c) {
  if (s->op == SN_TRANSPOSE_ADJOINT) c = sn_conj_at(s->at, c);
  int64_t op = s->op == SN_TRANSPOSE_NO_TRANSPOSE ? SN_TRANSPOSE_TRANSPOSE : SN_TRANSPOSE_NO_TRANSPOSE;
  c = sn_triangular_solve_at(s->at, a, c, s->left, s->lower, s->unit, op);
  return s->op == SN_TRANSPOSE_ADJOINT ? sn_conj_at(s->at, c) : c;
}

static void triangular_solve_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  solve s = read_solve(i);
  sn_tensor a = T(d, X), x = T(d, i), b = solve_back(&s, a, T(d, ct[0]));
  sn_diff_give(d, i, 1, b.instr);
  if (!sn_diff_wants(d, i, 0)) return;
  sn_tensor g =
      s.left ? sn_matmul_at(s.at, b, transposed(s.at, x)) : sn_matmul_at(s.at, transposed(s.at, x), b); /* of op(A) */
  sn_diff_give(d, i, 0, read_part(&s, neg(s.at, apply(&s, g))).instr);
}

/* op(A) dX = dB - op(dA) X */
static void triangular_solve_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  solve s = read_solve(i);
  sn_instr *ta = sn_diff_tangent(d, i, 0), *tb = sn_diff_tangent(d, i, 1);
  sn_tensor rhs = T(d, tb), x = T(d, i);
  if (!ta && !tb) return;
  if (ta) {
    sn_tensor da = apply(&s, read_part(&s, T(d, ta))),
              m = neg(s.at, s.left ? sn_matmul_at(s.at, da, x) : sn_matmul_at(s.at, x, da));
    rhs = tb ? add(s.at, rhs, m) : m;
  }
  *out = sn_triangular_solve_at(s.at, T(d, X), rhs, s.left, s.lower, s.unit, s.op).instr;
}
const sn_diff_rule sn_diff_triangular_solve = {
    .name = "triangular_solve", .vjp = triangular_solve_vjp, .jvp = triangular_solve_jvp};

/* ---- batch norm ---- */

/* Along every axis but the feature axis. */
static int other_axes(sn_instr *i, int64_t *axes) {
  int64_t feature = sn_instr_int(i, SN_ATTR_FEATURE_INDEX);
  int n = 0;
  for (int k = 0; k < X->shape->rank; k++)
    if (k != feature) axes[n++] = k;
  return n;
}

static sn_tensor by_feature(sn_diff *d, sn_instr *i, sn_tensor v) {
  (void)d;
  int64_t feature = sn_instr_int(i, SN_ATTR_FEATURE_INDEX);
  return sn_broadcast_in_dim_at(i->loc, v, X->shape->rank, X->shape->dims, 1, &feature);
}

/* HLO keeps epsilon as an f32. */
static sn_tensor normalised(sn_diff *d, sn_instr *i, sn_tensor x, sn_tensor scale, sn_tensor offset, sn_tensor mean,
                            sn_tensor var) {
  sn_loc at = i->loc;
  sn_tensor inv =
      sn_unary_at(at, SN_OP_RSQRT, sn_binary_c_at(at, SN_OP_ADD, var, (double)(float)sn_instr_f64(i, SN_ATTR_EPSILON)));
  sn_tensor c = sn_binary_at(at, SN_OP_SUBTRACT, x, by_feature(d, i, mean));
  c = sn_binary_at(at, SN_OP_MULTIPLY, c, by_feature(d, i, sn_binary_at(at, SN_OP_MULTIPLY, inv, scale)));
  return add(at, c, by_feature(d, i, offset));
}

bool sn_parts_batch_norm_training(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  int64_t axes[SN_MAX_RANK];
  int n = other_axes(i, axes);
  sn_loc at = i->loc;
  sn_tensor x = T(d, in[0]), mean = sn_mean_at(at, x, n, axes, false);
  sn_tensor c = sn_binary_at(at, SN_OP_SUBTRACT, x, by_feature(d, i, mean));
  sn_tensor var = sn_mean_at(at, sn_square_at(at, c), n, axes, false);
  out[0] = normalised(d, i, x, T(d, in[1]), T(d, in[2]), mean, var).instr;
  out[1] = mean.instr;
  out[2] = var.instr;
  return sn_diff_ok(d);
}
static void batch_norm_training_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_parts_vjp(d, i, ct, sn_parts_batch_norm_training);
}
static void batch_norm_training_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_parts_jvp(d, i, out, sn_parts_batch_norm_training);
}
const sn_diff_rule sn_diff_batch_norm_training = {
    .name = "batch_norm_training", .vjp = batch_norm_training_vjp, .jvp = batch_norm_training_jvp};

bool sn_parts_batch_norm_inference(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  out[0] = normalised(d, i, T(d, in[0]), T(d, in[1]), T(d, in[2]), T(d, in[3]), T(d, in[4])).instr;
  return sn_diff_ok(d);
}
static void batch_norm_inference_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_parts_vjp(d, i, ct, sn_parts_batch_norm_inference);
}
static void batch_norm_inference_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_parts_jvp(d, i, out, sn_parts_batch_norm_inference);
}
const sn_diff_rule sn_diff_batch_norm_inference = {
    .name = "batch_norm_inference", .vjp = batch_norm_inference_vjp, .jvp = batch_norm_inference_jvp};
