/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Gelu, exact and by tanh, and their derivatives. The anchor is an error function, a hyperbolic tangent, or the exponential within somebody's polynomials for them. */
#include "pattern.h"

#include <math.h>

enum { MAX_CANDIDATES = 12, MAX_STEPS = 6 };

static const double root_half = 0.70710678118654752, root_2_pi = 0.79788456080286536 /* sqrt(2 / pi) */, cubic = 0.044715;

static double inner_tanh(double x) { return root_2_pi * (x + cubic * x * x * x); }

static double argument(sn_opcode op, double x) { return op == SN_OP_ERF ? x * root_half : op == SN_OP_TANH ? inner_tanh(x) : -x * x / 2; }

static bool is_argument(probe *p, const sn_instr *anchor) {
  const probe_node *v = sn_probe_of(p, sn_instr_operand(anchor, 0));
  double want[PROBE_LANES], sign;
  if (!v || v->leaves != p->core) return false;
  for (int k = 0; k < PROBE_LANES; k++) want[k] = argument(anchor->op, sn_probe_x(p)[k]);
  return sn_probe_scaled(p, v->v, want, &sign) && fabs(fabs(sign) - 1) < 1e-2 && (sign > 0 || anchor->op == SN_OP_ERF);
}

/* x: what the argument is computed from, a few steps below. */
static bool find_x(probe *p, const sn_instr *anchor, const sn_instr *i, int steps, int *left) {
  if (--*left < 0) return false;
  sn_probe_begin(p, anchor->shape, 0, i);
  if (is_argument(p, anchor) && !(anchor->op == SN_OP_EXPONENTIAL && i->op == SN_OP_NEGATE)) return true; /* a square says nothing of the sign */
  for (uint32_t k = 0; k < i->n_operands && steps < MAX_STEPS && sn_op_has(i->op, SN_T_ELTWISE); k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    if (x->op != SN_OP_BROADCAST && x->op != SN_OP_CONSTANT && (k == 0 || x != sn_instr_operand(i, 0)) && find_x(p, anchor, x, steps + 1, left)) return true;
  }
  return false;
}

bool sn_family_begin_gelu(probe *p, const sn_instr *anchor) {
  int left = MAX_CANDIDATES;
  return anchor->shape->rank > 0 && find_x(p, anchor, sn_instr_operand(anchor, 0), 0, &left);
}

static double gelu(double x) { return 0.5 * x * (1 + erf(x * root_half)); }
static double gelu_slope(double x) { return 0.5 * (1 + erf(x * root_half)) + x * exp(-x * x / 2) * root_2_pi / 2; }
static double by_tanh(double x) { return 0.5 * x * (1 + tanh(inner_tanh(x))); }
static double by_tanh_slope(double x) {
  double t = tanh(inner_tanh(x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root_2_pi * (1 + 3 * cubic * x * x);
}

static bool is_function(const probe *p, const probe_node *v, double (*f)(double)) {
  double want[PROBE_LANES];
  if (v->extent != PROBE_FULL || v->leaves != p->core) return false;
  for (int k = 0; k < PROBE_LANES; k++) want[k] = f(sn_probe_x(p)[k]);
  return sn_probe_close(p, v->v, want);
}
static bool is_product(const probe *p, const probe_node *v, double (*f)(double)) {
  double want[PROBE_LANES];
  const double *g = sn_probe_other(p, v, NULL);
  if (v->extent != PROBE_FULL || !g) return is_function(p, v, f); /* times 1 */
  for (int k = 0; k < PROBE_LANES; k++) want[k] = g[k] * f(sn_probe_x(p)[k]);
  return sn_probe_close(p, v->v, want);
}

bool sn_pattern_is_gelu(const probe *p, const probe_node *v) { return is_function(p, v, gelu); }
bool sn_pattern_is_gelu_grad(const probe *p, const probe_node *v) { return is_product(p, v, gelu_slope); }
bool sn_pattern_is_gelu_tanh(const probe *p, const probe_node *v) { return is_function(p, v, by_tanh); }
bool sn_pattern_is_gelu_tanh_grad(const probe *p, const probe_node *v) { return is_product(p, v, by_tanh_slope); }
