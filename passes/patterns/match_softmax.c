/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Softmax and what hangs on it: its derivative, its logarithm, cross-entropy. The anchor is the exponential. */
#include "pattern.h"

#include <math.h>

/* The sum over rows that reads the exponential: it says what a row is. */
static const sn_instr *sum_of(const sn_instr *exp) {
  sn_opcode op;
  SN_FOR_USES(u, exp) {
    const sn_instr *r = u->user;
    if (r->op == SN_OP_CONVERT && r->n_uses == 1) r = r->first_use->user;
    if (r->op == SN_OP_REDUCE && r->n_operands == 2 && sn_computation_is_binary(r->called[0], &op) && op == SN_OP_ADD) return r;
  }
  return NULL;
}

typedef struct softmax { double p[PROBE_LANES], log_p[PROBE_LANES], log_sum[PROBE_LANES]; } softmax;

static void softmax_of(const probe *p, softmax *out) {
  const double *x = sn_probe_x(p);
  for (int row = 0; row < PROBE_ROWS; row++) {
    double sum = 0;
    for (int k = row * PROBE_EACH; k < (row + 1) * PROBE_EACH; k++) sum += exp(x[k]) * p->row_length / PROBE_EACH;
    for (int k = row * PROBE_EACH; k < (row + 1) * PROBE_EACH; k++) {
      out->p[k] = exp(x[k]) / sum;
      out->log_sum[k] = log(sum);
      out->log_p[k] = x[k] - log(sum);
    }
  }
}

bool sn_family_begin_softmax(probe *p, const sn_instr *anchor) {
  const sn_instr *sum = sum_of(anchor), *d = sn_instr_operand(anchor, 0);
  if (!sum || !sn_shape_equal(sn_operand_shape(sum, 0), anchor->shape, SN_EQ_IGNORE_TYPE)) return false;
  sn_ints dims = sn_instr_ints(sum, SN_ATTR_DIMENSIONS);
  uint32_t row = 0;
  for (int64_t k = 0; k < dims.n; k++) row |= UINT32_C(1) << dims.v[k];
  while (d->op == SN_OP_CONVERT) d = sn_instr_operand(d, 0);
  /* what is subtracted: the maximum */
  if (d->op == SN_OP_SUBTRACT && sn_shape_equal(sn_operand_shape(d, 0), anchor->shape, SN_EQ_IGNORE_TYPE)) {
    sn_probe_begin(p, anchor->shape, row, sn_instr_operand(d, 0));
    const probe_node *v = sn_probe_of(p, d);
    double most[PROBE_LANES];
    for (int k = 0; k < PROBE_LANES; k++) {
      const double *x = sn_probe_x(p) + k / PROBE_EACH * PROBE_EACH;
      most[k] = sn_probe_x(p)[k] - fmax(fmax(x[0], x[1]), fmax(x[2], x[3]));
    }
    if (v && v->leaves == p->core && sn_probe_close(p, v->v, most)) return true;
  }
  sn_probe_begin(p, anchor->shape, row, sn_instr_operand(anchor, 0));
  return true;
}

bool sn_pattern_is_softmax(const probe *p, const probe_node *v) {
  softmax s;
  if (v->leaves != p->core || v->extent != PROBE_FULL) return false;
  softmax_of(p, &s);
  return sn_probe_close(p, v->v, s.p);
}

bool sn_pattern_is_log_softmax(const probe *p, const probe_node *v) {
  softmax s;
  if (v->leaves != p->core || v->extent != PROBE_FULL) return false;
  softmax_of(p, &s);
  return sn_probe_close(p, v->v, s.log_p);
}

/* The sum over the row of g, or of g times `inside`, times `outside`. */
static void centred(const probe *p, const double *g, const double *inside, const double *outside, double *out) {
  double product[PROBE_LANES];
  for (int k = 0; k < PROBE_LANES; k++) product[k] = inside ? inside[k] * g[k] : g[k];
  for (int k = 0; k < PROBE_LANES; k++) out[k] = sn_probe_row_sum(product, k / PROBE_EACH) * p->row_length / PROBE_EACH * outside[k];
}

bool sn_pattern_is_softmax_grad(const probe *p, const probe_node *v) {
  softmax s;
  double want[PROBE_LANES], scale;
  const double *g = sn_probe_other(p, v, NULL);
  if (!g || v->extent != PROBE_FULL) return false;
  softmax_of(p, &s);
  centred(p, g, s.p, s.p, want);
  for (int k = 0; k < PROBE_LANES; k++) want[k] = s.p[k] * g[k] - want[k];
  return sn_probe_scaled(p, v->v, want, &scale);
}

/* Does a leaf say which class a label is: a comparison with an iota, numbers scattered into zeros or gathered by labels? */
static bool is_about_labels(const sn_instr *i, int steps) {
  if (i->op == SN_OP_SCATTER || i->op == SN_OP_GATHER || i->op == SN_OP_IOTA) return true;
  if (steps == 8 || !(sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE)) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (is_about_labels(sn_instr_operand(i, k), steps + 1)) return true;
  }
  return false;
}

/* The logarithm of the sum minus what was picked of x; or the sum of labels times minus the logarithm of p. */
bool sn_pattern_is_cross_entropy(const probe *p, const probe_node *v) {
  softmax s;
  const sn_instr *leaf;
  double want[PROBE_LANES], scale;
  const double *g = sn_probe_other(p, v, &leaf);
  if (!g || v->extent != PROBE_ROW) return false;
  softmax_of(p, &s);
  for (int k = 0; k < PROBE_LANES; k++) want[k] = s.log_sum[k] - g[k];
  if (p->node[p->slot[leaf->id]].extent == PROBE_ROW) return is_about_labels(leaf, 0) && sn_probe_close(p, v->v, want);
  for (int k = 0; k < PROBE_LANES; k++) want[k] = s.log_p[k] * g[k];
  for (int row = 0; row < PROBE_ROWS; row++) {
    double sum = sn_probe_row_sum(want, row);
    for (int k = 0; k < PROBE_EACH; k++) want[row * PROBE_EACH + k] = sum;
  }
  return sn_probe_scaled(p, v->v, want, &scale);
}

/* p w - labels w, where the sum w of a row's labels was worked out without x. */
static bool is_weighted_grad(const probe *p, const probe_node *v, const softmax *s) {
  const probe_node *row = NULL, *each = NULL;
  double pw[PROBE_LANES], c[2];
  for (int k = 0; k < p->n_leaves; k++) {
    const probe_node *leaf = &p->node[p->slot[p->leaf[k]->id]];
    const probe_node **to = leaf->extent == PROBE_ROW ? &row : &each;
    if (!(v->leaves >> k & 1) || (p->core >> k & 1)) continue;
    if (*to || leaf->extent == PROBE_SCALAR) return false;
    *to = leaf;
  }
  if (!row || !each || !is_about_labels(each->i, 0)) return false;
  for (int k = 0; k < PROBE_LANES; k++) pw[k] = s->p[k] * row->v[k];
  const double *basis[] = {pw, each->v};
  return sn_probe_fit(p, v->v, 2, basis, c) && c[0] != 0 && c[1] != 0;
}

bool sn_pattern_is_cross_entropy_grad(const probe *p, const probe_node *v) {
  softmax s;
  const sn_instr *leaf;
  double of_sum[PROBE_LANES], c[2];
  if (v->extent != PROBE_FULL) return false;
  softmax_of(p, &s);
  const double *g = sn_probe_other(p, v, &leaf);
  if (!g) return is_weighted_grad(p, v, &s);
  if (p->node[p->slot[leaf->id]].extent != PROBE_FULL) return false;
  centred(p, g, NULL, s.p, of_sum);
  const double *labels[] = {s.p, g}, *weighted[] = {of_sum, g};
  /* p - labels of sum 1, in any scale; labels that were scaled themselves must look like labels */
  if (sn_probe_fit(p, v->v, 2, labels, c) && c[0] != 0 && c[1] != 0 && (fabs(c[0] + c[1]) < 1e-3 * fabs(c[0]) || is_about_labels(leaf, 0))) return true;
  return sn_probe_fit(p, v->v, 2, weighted, c) && c[0] != 0 && fabs(c[0] + c[1]) < 1e-3 * fabs(c[0]);
}
