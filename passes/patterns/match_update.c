/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Updates of optimisers: a result of the step that is linear in a parameter of its own shape. The anchor is that result; what the probe is about are the parameters. */
#include "pattern.h"

#include <math.h>

bool sn_family_begin_update(probe *p, const sn_instr *anchor) {
  sn_probe_begin(p, anchor->shape, 0, NULL);
  return true;
}

typedef struct leaves { int n_parameters, n; const double *v[4]; const sn_instr *i[4]; } leaves;

/* Leaves with numbers for each element: parameters first, then others. False: more than there is room for. */
static bool split_leaves(const probe *p, uint32_t of, leaves *out) {
  out->n = 0;
  for (int others = 0; others < 2; others++) {
    if (others) out->n_parameters = out->n;
    for (int k = 0; k < p->n_leaves; k++) {
      if (!(of >> k & 1) || !(p->each >> k & 1) || (p->core >> k & 1) == (uint32_t)others) continue;
      if (out->n == 4) return false;
      out->i[out->n] = p->leaf[k];
      out->v[out->n++] = p->node[p->slot[p->leaf[k]->id]].v;
    }
  }
  return true;
}

static bool is_splat(const sn_instr *i) { return i->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_operand_shape(i, 0)); }

/* A step against the gradient, of a length that somebody chose: c times what was read, which may hold the length itself. */
static bool is_step(double c, const sn_instr *read) {
  double rate;
  for (uint32_t k = 0; k < 2 && read->op == SN_OP_MULTIPLY; k++) {
    const sn_instr *x = sn_instr_operand(read, k);
    if (sn_instr_constant_f64(x, &rate)) return c * rate < 0;
    if (is_splat(x)) return c < 0;
  }
  return c < 0 && fabs(c + 1) > 1e-6;
}

bool sn_pattern_is_sgd(const probe *p, const probe_node *v) {
  leaves l = {0};
  double c[4];
  if (v->extent != PROBE_FULL || !split_leaves(p, v->leaves, &l) || l.n_parameters != 1 || l.n != 2) return false;
  return sn_probe_fit(p, v->v, l.n, l.v, c) && c[0] > 0 && c[0] < 1 + 1e-6 && is_step(c[1], l.i[1]);
}

bool sn_pattern_is_momentum(const probe *p, const probe_node *v) {
  leaves l = {0};
  double c[4];
  if (v->extent != PROBE_FULL || !split_leaves(p, v->leaves, &l) || l.n_parameters != 2 || l.n != 3 || !sn_probe_fit(p, v->v, l.n, l.v, c)) return false;
  for (int w = 0; w < 2; w++) { /* either may be the weight: the other's factor is that of the gradient, times mu */
    double mu = c[1 - w] / c[2];
    if (c[w] > 0 && c[w] < 1 + 1e-6 && is_step(c[2], l.i[2]) && mu > 0 && mu < 1) return true;
  }
  return false;
}

/* Without factors that are one number. */
static const sn_instr *unscaled(const sn_instr *i) {
  for (int steps = 0; steps < 8 && (i->op == SN_OP_MULTIPLY || i->op == SN_OP_DIVIDE); steps++) {
    if (is_splat(sn_instr_operand(i, 1))) i = sn_instr_operand(i, 0);
    else if (i->op == SN_OP_MULTIPLY && is_splat(sn_instr_operand(i, 0))) i = sn_instr_operand(i, 1);
    else break;
  }
  return i;
}

/* What it is the square of, up to factors; NULL: of nothing. */
static const sn_instr *root_of(const sn_instr *i) {
  i = unscaled(i);
  return i->op == SN_OP_MULTIPLY && sn_instr_operand(i, 0) == sn_instr_operand(i, 1) ? unscaled(sn_instr_operand(i, 0)) : NULL;
}

/* The root of a v + b g^2, possibly scaled; g^2 may be a leaf. */
static bool is_second_moment(const probe *p, const probe_node *root) {
  leaves l = {0};
  double c[2], squared[PROBE_LANES], g2[PROBE_LANES];
  if (!split_leaves(p, root->leaves, &l) || l.n_parameters != 1 || l.n != 2) return false;
  for (int k = 0; k < PROBE_LANES; k++) {
    squared[k] = root->v[k] * root->v[k];
    g2[k] = l.v[1][k] * l.v[1][k];
  }
  const double *basis[] = {l.v[0], root_of(l.i[1]) ? l.v[1] : g2};
  return sn_probe_fit(p, squared, 2, basis, c) && c[0] > 0 && c[1] > 0;
}

/* Of m, v, g, and perhaps g^2. */
static bool is_quotient(const probe *p, const probe_node *d) {
  leaves l = {0};
  if (d->i->op != SN_OP_DIVIDE || d->extent != PROBE_FULL || !split_leaves(p, d->leaves, &l) || l.n_parameters != 2) return false;
  return l.n == 3 || (l.n == 4 && (root_of(l.i[2]) == unscaled(l.i[3]) || root_of(l.i[3]) == unscaled(l.i[2])));
}

/* Among what was computed on the way: the root of the second moment, and a quotient of the first by it that the result is linear in. */
bool sn_pattern_is_adam(const probe *p, const probe_node *v) {
  bool has_root = false;
  if (v->extent != PROBE_FULL) return false;
  for (int k = 0; k < p->n && !has_root; k++) {
    const probe_node *x = &p->node[k];
    has_root = x->i->op == SN_OP_SQRT && x->extent == PROBE_FULL && (v->leaves & x->leaves) == x->leaves && is_second_moment(p, x);
  }
  for (int k = 0; k < p->n && has_root; k++) {
    const probe_node *d = &p->node[k];
    const double *basis[2];
    double c[2];
    if (!is_quotient(p, d)) continue;
    for (int w = 0; w < p->n_leaves; w++) { /* the weight: the parameter that the quotient does not read */
      if (!(p->core >> w & 1) || (d->leaves >> w & 1) || !(v->leaves >> w & 1)) continue;
      basis[0] = p->node[p->slot[p->leaf[w]->id]].v;
      basis[1] = d->v;
      if (sn_probe_fit(p, v->v, 2, basis, c) && c[0] > 0 && c[0] < 2 && c[1] != 0) return true; /* a schedule gives the rate: its sign is not known */
    }
  }
  return false;
}
