/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Expressions computed on a few numbers: see pattern.h. Elementwise ops mean what the interpreter says they mean. */
#include "pattern.h"
#include "sinter/eval.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 48 };

sn_status sn_probe_init(sn_pass_ctx *pc, const sn_module *m, probe *out) {
  memset(out, 0, sizeof *out);
  out->scratch = pc->scratch;
  out->n_ids = m->n_ids;
  out->stamp = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1);
  out->slot = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1);
  return out->stamp && out->slot ? SN_OK : sn_out_of_memory(pc->diag, m->n_ids * sizeof(uint32_t));
}

/* ---- leaves ---- */

/* Both signs, on either side of where functions bend; parameters of updates are squares among others: positive. */
static double leaf_number(const probe *p, int leaf, int lane) {
  static const double x[PROBE_LANES] = {-1.3, 0.45, 2.1, -0.2, 0.9, -2.7, 0.15, 1.6}, others[PROBE_LANES] = {0.8, 1.45, -0.6, 0.3, -1.1, 0.55, 1.9, -0.35},
                      positive[PROBE_LANES] = {0.9, 0.4, 1.3, 0.7, 1.1, 0.3, 1.6, 0.55};
  int at = (lane * (2 * leaf + 1) + leaf) % PROBE_LANES; /* odd steps: all of them, in another order for each leaf */
  if (p->parameters) return positive[at] + 0.017 * leaf * lane;
  return leaf == 0 ? x[lane] : others[at] + 0.013 * leaf * lane;
}

static probe_node *add_node(probe *p, const sn_instr *i, probe_extent extent) {
  if (p->n == PROBE_NODES || i->id >= p->n_ids) return NULL;
  probe_node *v = &p->node[p->n];
  v->i = i;
  v->extent = extent;
  v->leaves = 0;
  p->stamp[i->id] = p->run;
  p->slot[i->id] = (uint32_t)p->n++;
  return v;
}

static void make_leaf(probe *p, probe_node *v, probe_extent extent) {
  int leaf = p->n_leaves++;
  bool pred = v->i->shape->type == SN_TYPE_PRED;
  bool one = extent == PROBE_SCALAR || (v->i->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_operand_shape(v->i, 0)));
  p->each |= extent == PROBE_FULL && !one ? UINT32_C(1) << leaf : 0;
  p->leaf[leaf] = v->i;
  v->extent = extent;
  v->leaves = UINT32_C(1) << leaf;
  for (int k = 0; k < PROBE_LANES; k++) {
    int lane = one ? 0 : extent == PROBE_FULL ? k : k / PROBE_EACH;
    v->v[k] = pred ? lane % 3 == 0 : leaf_number(p, leaf, lane);
  }
}

void sn_probe_begin(probe *p, const sn_shape *full, uint32_t row_dims, const sn_instr *x) {
  p->run++;
  p->n = p->n_leaves = 0;
  p->full = full;
  p->row_dims = row_dims;
  p->row_length = 1;
  for (int d = 0; d < full->rank; d++) p->row_length *= row_dims >> d & 1 ? (double)full->dims[d] : 1;
  p->parameters = x == NULL;
  p->core = x ? 1 : 0;
  p->each = 0;
  probe_node *v = x ? add_node(p, x, PROBE_FULL) : NULL;
  if (v) make_leaf(p, v, PROBE_FULL);
}

const double *sn_probe_x(const probe *p) { return p->node[0].v; }

const double *sn_probe_other(const probe *p, const probe_node *v, const sn_instr **leaf) {
  uint32_t others = v->leaves & ~p->core;
  if (!others || (others & (others - 1))) return NULL;
  int k = 0;
  while (!(others >> k & 1)) k++;
  if (leaf) *leaf = p->leaf[k];
  return p->node[p->slot[p->leaf[k]->id]].v;
}

/* ---- shapes ---- */

/* Without the dimensions of a row, or with 1 in their place. */
static bool is_row_shape(const probe *p, const sn_shape *s) {
  int at = 0;
  for (int d = 0; d < p->full->rank; d++) {
    if (p->row_dims >> d & 1) {
      if (at < s->rank && s->dims[at] == 1 && s->rank == p->full->rank) at++;
    } else if (at == s->rank || s->dims[at++] != p->full->dims[d]) {
      return false;
    }
  }
  return p->row_dims && at == s->rank;
}

static probe_extent extent_of(const probe *p, const sn_shape *s) {
  if (!sn_shape_is_array(s) || !(sn_type_is_float(s->type) || s->type == SN_TYPE_PRED)) return PROBE_FOREIGN;
  if (s->rank == 0) return PROBE_SCALAR;
  if (sn_shape_equal(s, p->full, SN_EQ_IGNORE_TYPE)) return PROBE_FULL;
  return is_row_shape(p, s) ? PROBE_ROW : PROBE_FOREIGN;
}

/* Does a broadcast of what is one number a row keep the rows where they are? */
static bool keeps_rows(const probe *p, const sn_instr *i) {
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t at = 0;
  if (d.n == p->full->rank) return true; /* with 1 in the place of a row */
  for (int k = 0; k < p->full->rank; k++) {
    if (!(p->row_dims >> k & 1) && (at == d.n || d.v[at++] != k)) return false;
  }
  return at == d.n;
}

static bool reduces_rows(const probe *p, const sn_instr *i, sn_opcode *op) {
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  uint32_t dims = 0;
  for (int64_t k = 0; k < d.n; k++) dims |= UINT32_C(1) << d.v[k];
  return p->row_dims && i->n_operands == 2 && dims == p->row_dims && sn_computation_is_binary(i->called[0], op) && (*op == SN_OP_ADD || *op == SN_OP_MAXIMUM);
}

/* ---- one instruction ---- */

static bool compute(const sn_instr *i, const probe_node *const *x, double *out) {
  double in[3][PROBE_LANES];
  uint8_t bits[3][PROBE_LANES], made[PROBE_LANES];
  const void *from[3];
  sn_type types[3];
  bool pred = i->shape->type == SN_TYPE_PRED;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    types[k] = sn_operand_shape(i, k)->type == SN_TYPE_PRED ? SN_TYPE_PRED : SN_TYPE_F64;
    from[k] = types[k] == SN_TYPE_PRED ? (const void *)bits[k] : (const void *)in[k];
    for (int lane = 0; lane < PROBE_LANES; lane++) {
      bits[k][lane] = x[k]->v[lane] != 0;
      in[k][lane] = x[k]->v[lane];
    }
  }
  int64_t a = i->op == SN_OP_COMPARE ? sn_instr_int(i, SN_ATTR_DIRECTION) : 0;
  if (!sn_eval_elements(i->op, (int)i->n_operands, types, pred ? SN_TYPE_PRED : SN_TYPE_F64, a, 0, PROBE_LANES, pred ? (void *)made : (void *)out, from)) return false;
  for (int lane = 0; pred && lane < PROBE_LANES; lane++) out[lane] = made[lane];
  return true;
}

double sn_probe_row_sum(const double *v, int row) {
  double sum = 0;
  for (int k = 0; k < PROBE_EACH; k++) sum += v[row * PROBE_EACH + k];
  return sum;
}

static void reduce(const probe *p, sn_opcode op, const probe_node *x, const probe_node *start, double *out) {
  for (int row = 0; row < PROBE_ROWS; row++) {
    const double *v = x->v + row * PROBE_EACH;
    double r = start->v[0];
    if (op == SN_OP_ADD) r += sn_probe_row_sum(x->v, row) * p->row_length / PROBE_EACH;
    for (int k = 0; op == SN_OP_MAXIMUM && k < PROBE_EACH; k++) r = v[k] > r ? v[k] : r;
    for (int k = 0; k < PROBE_EACH; k++) out[row * PROBE_EACH + k] = r;
  }
}

static probe_node *work_out(probe *p, const sn_instr *i, int depth);

/* What an op other than an elementwise one makes of its first operand's numbers: the same, where rows stay rows. */
static bool moves_nothing(const probe *p, const sn_instr *i, const probe_node *x, probe_extent to) {
  if (i->op == SN_OP_RESHAPE) return x->extent == to;
  return i->op == SN_OP_BROADCAST && x->extent <= to && (x->extent == PROBE_SCALAR || (x->extent == to ? to == PROBE_ROW : keeps_rows(p, i)));
}

static bool is_known_op(const probe *p, const sn_instr *i, sn_opcode *reducer) {
  if (sn_op_has(i->op, SN_T_ELTWISE)) return i->n_operands >= 1 && i->n_operands <= 3;
  return i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE || (i->op == SN_OP_REDUCE && reduces_rows(p, i, reducer));
}

/* Parameters and what a loop hands from one round to the next. */
static bool is_parameter(const sn_instr *i) { return i->op == SN_OP_PARAMETER || (i->op == SN_OP_GET_TUPLE_ELEMENT && sn_instr_operand(i, 0)->op == SN_OP_PARAMETER); }

/* Operands; those that are not computed from x while others are become leaves. False: nothing to compute it from. */
static bool gather_operands(probe *p, const sn_instr *i, int depth, const probe_node **x, uint32_t *leaves) {
  uint32_t at[3];
  bool foreign = false;
  *leaves = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    probe_node *v = work_out(p, sn_instr_operand(i, k), depth + 1);
    if (!v) return false;
    at[k] = p->slot[v->i->id];
    foreign |= v->extent == PROBE_FOREIGN;
    *leaves |= v->leaves;
  }
  if (foreign && !*leaves) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    probe_node *v = &p->node[at[k]];
    if (v->extent == PROBE_FOREIGN) {
      probe_extent extent = extent_of(p, v->i->shape);
      if (extent == PROBE_FOREIGN || p->n_leaves == PROBE_LEAVES) return false;
      make_leaf(p, v, extent);
      *leaves |= v->leaves;
    }
    x[k] = v;
  }
  return true;
}

static void fill(probe *p, probe_node *v, int depth) {
  const sn_instr *i = v->i;
  const probe_node *x[3];
  sn_opcode reducer = SN_OP_COUNT;
  uint32_t leaves;
  probe_extent to = extent_of(p, i->shape);
  double c;
  if (to == PROBE_FOREIGN) return;
  if (sn_instr_constant_f64(i, &c)) {
    for (int k = 0; k < PROBE_LANES; k++) v->v[k] = c;
    v->extent = to;
    return;
  }
  if (p->parameters && to == PROBE_FULL && is_parameter(i) && p->n_leaves < PROBE_LEAVES) {
    p->core |= UINT32_C(1) << p->n_leaves;
    make_leaf(p, v, to);
    return;
  }
  if (depth > MAX_DEPTH || (p->member && p->member[i->id]) || !is_known_op(p, i, &reducer) || !gather_operands(p, i, depth, x, &leaves)) return;
  if (i->op == SN_OP_REDUCE) {
    if (x[0]->extent != PROBE_FULL || x[1]->leaves) return;
    reduce(p, reducer, x[0], x[1], v->v);
  } else if (!sn_op_has(i->op, SN_T_ELTWISE)) {
    if (!moves_nothing(p, i, x[0], to)) return;
    memcpy(v->v, x[0]->v, sizeof v->v);
  } else if (i->op == SN_OP_CONVERT && sn_type_is_float(i->shape->type) && sn_type_is_float(x[0]->i->shape->type)) {
    memcpy(v->v, x[0]->v, sizeof v->v);
  } else if (!compute(i, x, v->v)) {
    return;
  }
  v->extent = to;
  v->leaves = leaves;
}

static probe_node *work_out(probe *p, const sn_instr *i, int depth) {
  if (i->id < p->n_ids && p->stamp[i->id] == p->run) return &p->node[p->slot[i->id]];
  probe_node *v = add_node(p, i, PROBE_FOREIGN);
  if (v) fill(p, v, depth);
  return v;
}

const probe_node *sn_probe_of(probe *p, const sn_instr *i) {
  const probe_node *v = work_out(p, i, 0);
  return v && v->extent != PROBE_FOREIGN && (!v->leaves || (v->leaves & p->core)) ? v : NULL;
}

/* ---- comparing ---- */

/* Constants are rounded to 24 bits, or to 8 where x or the anchor is of a narrow type. */
static double tolerance(const probe *p) {
  const sn_shape *x = p->parameters || !p->n ? p->full : p->node[0].i->shape;
  return sn_type_bits(p->full->type) >= 32 && sn_type_bits(x->type) >= 32 ? 1e-5 : 1e-2;
}

static double largest(const double *v) {
  double most = 0;
  for (int k = 0; k < PROBE_LANES; k++) most = fabs(v[k]) > most || isnan(v[k]) ? fabs(v[k]) : most;
  return most;
}

bool sn_probe_close(const probe *p, const double *a, const double *b) {
  double most = largest(b);
  if (!(most > DBL_MIN) || !isfinite(most)) return false;
  for (int k = 0; k < PROBE_LANES; k++) {
    if (!(fabs(a[k] - b[k]) <= tolerance(p) * most)) return false;
  }
  return true;
}

bool sn_probe_scaled(const probe *p, const double *a, const double *b, double *s) { return sn_probe_fit(p, a, 1, &b, s) && *s != 0; }

/* Least squares by the normal equations: few unknowns, numbers of one scale. */
bool sn_probe_fit(const probe *p, const double *a, int n, const double *const *b, double *c) {
  double m[4][5] = {{0}}, r[PROBE_LANES];
  for (int i = 0; i < n; i++) {
    for (int k = 0; k < PROBE_LANES; k++) {
      for (int j = 0; j < n; j++) m[i][j] += b[i][k] * b[j][k];
      m[i][n] += b[i][k] * a[k];
    }
  }
  for (int i = 0; i < n; i++) {
    if (!(m[i][i] > 1e-9) || !isfinite(m[i][i])) return false;
    for (int j = 0; j < n; j++) {
      double f = j == i ? 0 : m[j][i] / m[i][i];
      for (int k = i; k <= n && j != i; k++) m[j][k] -= f * m[i][k];
    }
  }
  for (int i = 0; i < n; i++) c[i] = m[i][n] / m[i][i];
  for (int k = 0; k < PROBE_LANES; k++) {
    r[k] = 0;
    for (int i = 0; i < n; i++) r[k] += c[i] * b[i][k];
  }
  return sn_probe_close(p, r, a);
}
