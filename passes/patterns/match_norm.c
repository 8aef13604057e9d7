/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Layer norm and its derivative. The anchor is the reciprocal of the root (or the root, where somebody divides by it) of the variance. */
#include "pattern.h"

#include <math.h>

enum { MAX_STEPS = 12, MAX_CANDIDATES = 10 };

/* The sum below the anchor: it says what a row is. */
static const sn_instr *sum_below(const sn_instr *i, int steps) {
  sn_opcode op;
  if (i->op == SN_OP_REDUCE) return i->n_operands == 2 && sn_computation_is_binary(i->called[0], &op) && op == SN_OP_ADD ? i : NULL;
  if (steps == MAX_STEPS || !(sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_RESHAPE || i->op == SN_OP_BROADCAST)) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *r = sum_below(sn_instr_operand(i, k), steps + 1);
    if (r) return r;
  }
  return NULL;
}

typedef struct candidates { int n; const sn_instr *v[MAX_CANDIDATES]; } candidates;

static void add_candidates(candidates *c, const sn_instr *i, int steps) {
  for (int k = 0; k < c->n; k++) {
    if (c->v[k] == i) return;
  }
  if (c->n == MAX_CANDIDATES || steps == 5) return;
  c->v[c->n++] = i;
  for (uint32_t k = 0; k < i->n_operands && sn_op_has(i->op, SN_T_ELTWISE); k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    if (sn_shape_equal(x->shape, i->shape, SN_EQ_IGNORE_TYPE) && x->op != SN_OP_BROADCAST) add_candidates(c, x, steps + 1);
  }
}

static void moments(const double *x, int row, double *mean, double *variance) {
  *mean = sn_probe_row_sum(x, row) / PROBE_EACH;
  *variance = 0;
  for (int k = 0; k < PROBE_EACH; k++) *variance += (x[row * PROBE_EACH + k] - *mean) * (x[row * PROBE_EACH + k] - *mean) / PROBE_EACH;
}

/* An epsilon that both rows agree on. r: one over the root of variance and epsilon, or the root. Keeps the former. */
static bool is_deviation(probe *p, const probe_node *r, bool root) {
  double epsilon[PROBE_ROWS], of = p->full->type == SN_TYPE_F64 || p->full->type == SN_TYPE_F32 ? 1e-5 : 1e-2;
  for (int row = 0; row < PROBE_ROWS; row++) {
    double mean, variance, v = r->v[row * PROBE_EACH];
    moments(sn_probe_x(p), row, &mean, &variance);
    epsilon[row] = (root ? v * v : 1 / (v * v)) - variance;
    if (!(epsilon[row] > -of && epsilon[row] < 0.02)) return false;
    for (int k = 0; k < PROBE_EACH; k++) p->own[row * PROBE_EACH + k] = root ? 1 / v : v;
  }
  return fabs(epsilon[0] - epsilon[1]) < 4 * of;
}

bool sn_family_begin_norm(probe *p, const sn_instr *anchor) {
  const sn_instr *sum = sum_below(sn_instr_operand(anchor, 0), 0);
  if (!sum) return false;
  const sn_shape *full = sn_operand_shape(sum, 0);
  sn_ints dims = sn_instr_ints(sum, SN_ATTR_DIMENSIONS);
  uint32_t row = 0;
  for (int64_t k = 0; k < dims.n; k++) row |= UINT32_C(1) << dims.v[k];
  for (int64_t k = 1; k <= dims.n; k++) {
    if (!(row >> (full->rank - k) & 1)) return false; /* the last dimensions: others are batch norms */
  }
  candidates c = {0};
  add_candidates(&c, sn_instr_operand(sum, 0), 0);
  for (int k = 0; k < c.n; k++) {
    sn_probe_begin(p, full, row, c.v[k]);
    const probe_node *r = sn_probe_of(p, anchor);
    if (r && r->leaves == p->core && is_deviation(p, r, anchor->op == SN_OP_SQRT)) return true;
  }
  return false;
}

/* (x - mean) times what the anchor says. */
static void norm_of(const probe *p, double *y) {
  const double *x = sn_probe_x(p);
  for (int row = 0; row < PROBE_ROWS; row++) {
    double mean, variance;
    moments(x, row, &mean, &variance);
    for (int k = row * PROBE_EACH; k < (row + 1) * PROBE_EACH; k++) y[k] = (x[k] - mean) * p->own[k];
  }
}

enum { MAX_OTHERS = 3 };
typedef struct others { int n; const double *v[MAX_OTHERS]; const sn_instr *i[MAX_OTHERS]; } others;

/* The leaves besides x, all with numbers for each element. False: others too, or too many. */
static bool find_others(const probe *p, const probe_node *v, others *out) {
  out->n = 0;
  for (int k = 0; k < p->n_leaves && v->extent == PROBE_FULL; k++) {
    if (!(v->leaves >> k & 1) || (p->core >> k & 1)) continue;
    if (out->n == MAX_OTHERS || !(p->each >> k & 1)) return false;
    out->i[out->n] = p->leaf[k];
    out->v[out->n++] = p->node[p->slot[p->leaf[k]->id]].v;
  }
  return v->extent == PROBE_FULL;
}

/* Gamma and beta are repeated for each row; what is not is a derivative that comes in. */
bool sn_pattern_is_layer_norm(const probe *p, const probe_node *v) {
  others l = {0};
  double y[PROBE_LANES], want[PROBE_LANES];
  if (!find_others(p, v, &l) || l.n > 2) return false;
  for (int k = 0; k < l.n; k++) {
    if (l.i[k]->op != SN_OP_BROADCAST) return false;
  }
  norm_of(p, y);
  if (l.n == 0) return sn_probe_close(p, v->v, y);
  for (int beta = 0; beta < 2; beta++) { /* gamma alone, or either of the two */
    for (int k = 0; k < PROBE_LANES; k++) want[k] = l.n == 1 ? y[k] * l.v[0][k] : y[k] * l.v[1 - beta][k] + l.v[beta][k];
    if (sn_probe_close(p, v->v, want)) return true;
  }
  return false;
}

/* g is one leaf, or the product of two (with gamma); `added`: a leaf that is added, -1: none. */
static bool is_grad(const probe *p, const probe_node *v, const others *l, int added) {
  double y[PROBE_LANES], g[PROBE_LANES], gy[PROBE_LANES], want[PROBE_LANES];
  norm_of(p, y);
  for (int k = 0; k < PROBE_LANES; k++) {
    g[k] = 1;
    for (int q = 0; q < l->n; q++) g[k] *= q == added ? 1 : l->v[q][k];
    gy[k] = g[k] * y[k];
  }
  for (int k = 0; k < PROBE_LANES; k++) {
    double mean = sn_probe_row_sum(g, k / PROBE_EACH) / PROBE_EACH, mean_y = sn_probe_row_sum(gy, k / PROBE_EACH) / PROBE_EACH;
    want[k] = p->own[k] * (g[k] - mean - y[k] * mean_y) + (added < 0 ? 0 : l->v[added][k]);
  }
  return sn_probe_close(p, v->v, want);
}

/* Its terms are often added one by one to the derivative that goes around the norm. */
bool sn_pattern_is_layer_norm_grad(const probe *p, const probe_node *v) {
  others l = {0};
  if (!find_others(p, v, &l) || l.n == 0) return false;
  for (int added = l.n < MAX_OTHERS ? -1 : 0; added < (l.n > 1 ? l.n : 0); added++) {
    if (is_grad(p, v, &l, added)) return true;
  }
  return false;
}
