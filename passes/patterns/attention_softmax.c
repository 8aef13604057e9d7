/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Softmax and its derivative, whoever wrote them. Rules of differentiation, and those who simplify behind them, leave many forms of one formula:
 *
 *   (dp / s + sum(-(dp / s) p)) e          (dp / s - sum(dp / s^2 e)) e          p (dp - sum(p dp))          p dp - p sum(p dp)
 *
 * So expressions are not compared but worked out, as sums of terms  c e^a s^b dp^d [sum over the row of e^a' dp^d'].  In exact arithmetic sum(e) = s, and conversions change
 * nothing. */
#include "attention.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_TERMS = 6, MAX_DEPTH = 24, MAX_POWER = 4, MAX_KNOWN = 48 };

typedef struct term {
  double c;
  int8_t e, s, g;   /* powers of the exponential, of the sum of its row, of the derivative that comes in */
  int8_t re, rg;    /* times the sum over the row of e^re g^rg; both 0: none */
} term;

typedef struct sum_of_terms { bool known; int n; term t[MAX_TERMS]; } sum_of_terms;

typedef struct known { const sn_instr *i; sum_of_terms v; } known;
typedef struct algebra { attention *m; int n; known v[MAX_KNOWN]; } algebra;

static const sum_of_terms unknown = {false, 0, {{0, 0, 0, 0, 0, 0}}};

static sum_of_terms one_term(double c, int e, int s, int g) {
  sum_of_terms r = {true, c != 0, {{c, (int8_t)e, (int8_t)s, (int8_t)g, 0, 0}}};
  return r;
}

static bool same_powers(const term *a, const term *b) { return a->e == b->e && a->s == b->s && a->g == b->g && a->re == b->re && a->rg == b->rg; }

static bool small_powers(const term *t) {
  return abs(t->e) <= MAX_POWER && abs(t->s) <= MAX_POWER && abs(t->g) <= MAX_POWER && t->re >= 0 && t->re <= MAX_POWER && t->rg >= 0 && t->rg <= MAX_POWER;
}

static void add_term(sum_of_terms *r, const term *t) {
  if (!r->known) return;
  if (!isfinite(t->c) || !small_powers(t)) {
    *r = unknown;
    return;
  }
  for (int k = 0; k < r->n; k++) {
    if (!same_powers(&r->t[k], t)) continue;
    r->t[k].c += t->c;
    if (fabs(r->t[k].c) <= 1e-9 * fabs(t->c)) r->t[k] = r->t[--r->n];
    return;
  }
  if (r->n == MAX_TERMS) *r = unknown;
  else if (t->c != 0) r->t[r->n++] = *t;
}

static sum_of_terms plus(const sum_of_terms *a, const sum_of_terms *b, double times) {
  sum_of_terms r = *a;
  r.known &= b->known;
  for (int k = 0; k < b->n; k++) {
    term t = b->t[k];
    t.c *= times;
    add_term(&r, &t);
  }
  return r;
}

static bool has_sum(const term *t) { return t->re || t->rg; }

static sum_of_terms times(const sum_of_terms *a, const sum_of_terms *b) {
  sum_of_terms r = {a->known && b->known, 0, {{0, 0, 0, 0, 0, 0}}};
  for (int i = 0; i < a->n; i++) {
    for (int j = 0; j < b->n; j++) {
      const term *x = &a->t[i], *y = &b->t[j];
      if (has_sum(x) && has_sum(y)) return unknown;
      term t = {x->c * y->c, (int8_t)(x->e + y->e), (int8_t)(x->s + y->s), (int8_t)(x->g + y->g), (int8_t)(x->re + y->re), (int8_t)(x->rg + y->rg)};
      add_term(&r, &t);
    }
  }
  return r;
}

static sum_of_terms inverse(const sum_of_terms *a) {
  if (!a->known || a->n != 1 || has_sum(&a->t[0])) return unknown;
  return one_term(1 / a->t[0].c, -a->t[0].e, -a->t[0].s, -a->t[0].g);
}

/* Over the row: what is one value a row stands in front. */
static sum_of_terms over_row(const sum_of_terms *a) {
  sum_of_terms r = {a->known, 0, {{0, 0, 0, 0, 0, 0}}};
  for (int k = 0; k < a->n; k++) {
    const term *x = &a->t[k];
    if (has_sum(x) || (!x->e && !x->g)) return unknown;
    term t = x->e == 1 && !x->g ? (term){x->c, 0, (int8_t)(x->s + 1), 0, 0, 0} : (term){x->c, 0, x->s, 0, x->e, x->g};
    add_term(&r, &t);
  }
  return r;
}

static bool is_row_value(const sum_of_terms *a) {
  for (int k = 0; k < a->n; k++) {
    if (a->t[k].e || a->t[k].g) return false;
  }
  return a->known;
}

/* ---- from instructions ---- */

static bool has_scores_shape(const attention *m, const sn_instr *i) { return sn_shape_equal(i->shape, m->scores->shape, SN_EQ_IGNORE_TYPE); }

static bool is_row_shape(const attention *m, const sn_shape *s) {
  int rows = m->scores->shape->rank - 1;
  if (s->rank != rows && !(s->rank == rows + 1 && s->dims[rows] == 1)) return false;
  for (int k = 0; k < rows; k++) {
    if (s->dims[k] != m->scores->shape->dims[k]) return false;
  }
  return true;
}

static bool reduces_rows(const attention *m, const sn_instr *i, sn_opcode op) {
  sn_opcode found;
  if (i->op != SN_OP_REDUCE || i->n_operands != 2 || !has_scores_shape(m, sn_instr_operand(i, 0))) return false;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  return dims.n == 1 && dims.v[0] == m->scores->shape->rank - 1 && sn_computation_is_binary(i->called[0], &found) && found == op;
}

/* Leading dimensions kept: one value for all of a row. */
static bool repeats_rows(const sn_instr *i) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return false;
  }
  return true;
}

static sum_of_terms work_out(algebra *a, const sn_instr *i, int depth);

static sum_of_terms of_operand(algebra *a, const sn_instr *i, uint32_t k, int depth) { return work_out(a, sn_instr_operand(i, k), depth + 1); }

/* A product of the scores' shape is the derivative that comes in: there is one. */
static sum_of_terms of_product(algebra *a, const sn_instr *i) {
  attention *m = a->m;
  if (i == m->scores || !has_scores_shape(m, i) || (m->dp && m->dp != i)) return unknown;
  m->dp = (sn_instr *)i;
  return one_term(1, 0, 0, 1);
}

static sum_of_terms of_broadcast(algebra *a, const sn_instr *i, int depth) {
  const sn_instr *x = sn_instr_operand(i, 0);
  if (!repeats_rows(i) || !is_row_shape(a->m, x->shape)) return unknown;
  sum_of_terms r = work_out(a, x, depth + 1);
  return is_row_value(&r) ? r : unknown;
}

static sum_of_terms of_op(algebra *a, const sn_instr *i, int depth) {
  double c;
  if (i == a->m->exp) return one_term(1, 1, 0, 0);
  if (i == a->m->sum) return one_term(1, 0, 1, 0);
  if (depth > MAX_DEPTH || !sn_shape_is_array(i->shape) || !sn_type_is_float(i->shape->type)) return unknown;
  if (sn_instr_constant_f64(i, &c)) return isfinite(c) ? one_term(c, 0, 0, 0) : unknown;
  if (!has_scores_shape(a->m, i) && !is_row_shape(a->m, i->shape)) return unknown;
  switch (i->op) {
    case SN_OP_DOT: return of_product(a, i);
    case SN_OP_BROADCAST: return of_broadcast(a, i, depth);
    case SN_OP_RESHAPE: return is_row_shape(a->m, i->shape) && is_row_shape(a->m, sn_operand_shape(i, 0)) ? of_operand(a, i, 0, depth) : unknown;
    case SN_OP_CONVERT: return sn_type_is_float(sn_operand_shape(i, 0)->type) ? of_operand(a, i, 0, depth) : unknown;
    case SN_OP_NEGATE: {
      sum_of_terms none = {true, 0, {{0, 0, 0, 0, 0, 0}}}, x = of_operand(a, i, 0, depth);
      return plus(&none, &x, -1);
    }
    case SN_OP_REDUCE: {
      sum_of_terms start = of_operand(a, i, 1, depth), x = of_operand(a, i, 0, depth);
      return reduces_rows(a->m, i, SN_OP_ADD) && start.known && !start.n ? over_row(&x) : unknown;
    }
    case SN_OP_ADD:
    case SN_OP_SUBTRACT:
    case SN_OP_MULTIPLY:
    case SN_OP_DIVIDE: break;
    default: return unknown;
  }
  sum_of_terms x = of_operand(a, i, 0, depth), y = of_operand(a, i, 1, depth);
  if (i->op == SN_OP_DIVIDE) y = inverse(&y);
  return i->op == SN_OP_ADD || i->op == SN_OP_SUBTRACT ? plus(&x, &y, i->op == SN_OP_ADD ? 1 : -1) : times(&x, &y);
}

static sum_of_terms work_out(algebra *a, const sn_instr *i, int depth) {
  for (int k = 0; k < a->n; k++) {
    if (a->v[k].i == i) return a->v[k].v;
  }
  sum_of_terms r = of_op(a, i, depth);
  if (a->n < MAX_KNOWN) a->v[a->n++] = (known){i, r};
  return r;
}

bool sn_attention_is_probability(attention *m, const sn_instr *i) {
  algebra a = {m, 0, {{NULL, {false, 0, {{0, 0, 0, 0, 0, 0}}}}}};
  sn_instr *dp = m->dp;
  sum_of_terms r = work_out(&a, i, 0);
  m->dp = dp;
  return r.known && r.n == 1 && fabs(r.t[0].c - 1) < 1e-6 && same_powers(&r.t[0], &(term){1, 1, -1, 0, 0, 0});
}

bool sn_attention_is_derivative(attention *m, const sn_instr *i, double *scale) {
  algebra a = {m, 0, {{NULL, {false, 0, {{0, 0, 0, 0, 0, 0}}}}}};
  static const term own = {1, 1, -1, 1, 0, 0}, mean = {1, 1, -2, 0, 1, 1};
  sn_instr *dp = m->dp;
  sum_of_terms r = work_out(&a, i, 0);
  if (r.known && r.n == 2) {
    const term *x = same_powers(&r.t[0], &own) ? &r.t[0] : &r.t[1], *y = x == &r.t[0] ? &r.t[1] : &r.t[0];
    *scale = x->c;
    if (same_powers(x, &own) && same_powers(y, &mean) && fabs(x->c + y->c) <= 1e-6 * fabs(x->c)) return true;
  }
  m->dp = dp;
  return false;
}

sn_instr *sn_attention_row_value(const sn_instr *i) {
  if (i->op != SN_OP_BROADCAST || !repeats_rows(i)) return NULL;
  const sn_instr *r = sn_instr_operand(i, 0);
  for (int steps = 0; steps < 8; steps++) {
    if (r->op == SN_OP_RESHAPE || r->op == SN_OP_CONVERT) r = sn_instr_operand(r, 0);
    else if (r->op == SN_OP_MAXIMUM && sn_instr_is_all(sn_instr_operand(r, 1), (double)-INFINITY)) r = sn_instr_operand(r, 0);
    else if (r->op == SN_OP_MAXIMUM && sn_instr_is_all(sn_instr_operand(r, 0), (double)-INFINITY)) r = sn_instr_operand(r, 1);
    else break;
  }
  return r->op == SN_OP_REDUCE ? (sn_instr *)r : NULL;
}
