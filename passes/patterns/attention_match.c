/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Finds attention around an exponential: forwards to the products that read the probabilities and their derivative, backwards to the scores. Everything that reads an array
 * of the scores' shape must be part of it. */
#include "attention.h"

enum { MAX_STEPS = 12, MAX_READERS = 128 };

/* ---- towards the scores ---- */

static bool leads(const sn_instr *i, const sn_instr *from, int steps) {
  if (i == from) return true;
  if (steps == MAX_STEPS || !sn_op_has(i->op, SN_T_ELTWISE)) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    if (sn_shape_equal(x->shape, from->shape, SN_EQ_IGNORE_TYPE) && leads(x, from, steps + 1)) return true;
  }
  return false;
}

bool sn_attention_leads(const sn_instr *i, const sn_instr *from) { return leads(i, from, 0); }

/* The product that x is an elementwise function of; NULL: none, or more than one. */
static sn_instr *find_product(const sn_instr *x, int steps) {
  sn_instr *found = NULL;
  if (x->op == SN_OP_DOT) return (sn_instr *)x;
  if (steps == MAX_STEPS || !sn_op_has(x->op, SN_T_ELTWISE)) return NULL;
  for (uint32_t k = 0; k < x->n_operands; k++) {
    const sn_instr *y = sn_instr_operand(x, k);
    sn_instr *dot = sn_shape_equal(y->shape, x->shape, SN_EQ_IGNORE_TYPE) ? find_product(y, steps + 1) : NULL;
    if (dot && found && dot != found) return NULL;
    if (dot) found = dot;
  }
  return found;
}

/* Batch dimensions in front, one contracted, one free on either side. */
static bool plain_dot(const sn_instr *dot, int n_batch) {
  sn_ints lb = sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS), rb = sn_instr_ints(dot, SN_ATTR_RHS_BATCH_DIMS);
  if (dot->op != SN_OP_DOT || dot->shape->rank != n_batch + 2 || lb.n != n_batch || rb.n != n_batch || !sn_shape_is_static(dot->shape)) return false;
  if (sn_instr_ints(dot, SN_ATTR_LHS_CONTRACTING_DIMS).n != 1 || sn_instr_ints(dot, SN_ATTR_RHS_CONTRACTING_DIMS).n != 1) return false;
  for (int k = 0; k < n_batch; k++) {
    if (lb.v[k] != k || rb.v[k] != k) return false;
  }
  return sn_type_is_float(dot->shape->type) && !dot->n_control && sn_operand_shape(dot, 0)->type == dot->shape->type && sn_operand_shape(dot, 1)->type == dot->shape->type;
}

static const sn_instr *unconverted(const sn_instr *i) {
  while (i->op == SN_OP_CONVERT && sn_type_is_float(sn_operand_shape(i, 0)->type)) i = sn_instr_operand(i, 0);
  return i;
}

static bool reduces_last(const sn_instr *i, sn_opcode op, const sn_instr *of) {
  sn_opcode found;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  return i->op == SN_OP_REDUCE && i->n_operands == 2 && dims.n == 1 && dims.v[0] == of->shape->rank - 1 && sn_computation_is_binary(i->called[0], &found) && found == op &&
         unconverted(sn_instr_operand(i, 0)) == unconverted(of);
}

/* exp(x - max), and the sum of its row. */
static bool match_softmax(attention *m) {
  const sn_instr *d = sn_instr_operand(m->exp, 0);
  while (d->op == SN_OP_CONVERT) d = sn_instr_operand(d, 0);
  if (d->op != SN_OP_SUBTRACT) return false;
  m->max = sn_attention_row_value(sn_instr_operand(d, 1));
  if (!m->max || !reduces_last(m->max, SN_OP_MAXIMUM, sn_instr_operand(d, 0))) return false;
  m->x = (sn_instr *)unconverted(sn_instr_operand(d, 0));
  m->scores = find_product(m->x, 0);
  if (!m->scores || !sn_shape_equal(m->scores->shape, m->exp->shape, SN_EQ_IGNORE_TYPE)) return false;
  m->n_batch = m->scores->shape->rank - 2;
  if (m->n_batch < 0 || !plain_dot(m->scores, m->n_batch)) return false;
  SN_FOR_USES(u, m->exp) {
    sn_instr *user = u->user;
    if (user->op == SN_OP_CONVERT && user->n_uses == 1) user = user->first_use->user;
    if (!reduces_last(user, SN_OP_ADD, m->exp)) continue;
    if (m->sum && m->sum != user) return false;
    m->sum = user;
  }
  return m->sum != NULL;
}

/* ---- towards the products ---- */

static bool is_zero(const sn_instr *i) {
  double v;
  return sn_instr_constant_f64(i, &v) && v == 0;
}

/* From ds back to dx through masks, conversions and scales. */
static const sn_instr *find_derivative(attention *m, const sn_instr *ds) {
  double c;
  for (int steps = 0; steps < MAX_STEPS; steps++) {
    if (sn_attention_is_derivative(m, ds, &m->dx_scale)) return ds;
    switch (ds->op) {
      case SN_OP_CONVERT: ds = sn_instr_operand(ds, 0); break;
      case SN_OP_SELECT:
        if (is_zero(sn_instr_operand(ds, 2))) ds = sn_instr_operand(ds, 1);
        else if (is_zero(sn_instr_operand(ds, 1))) ds = sn_instr_operand(ds, 2);
        else return NULL;
        break;
      case SN_OP_MULTIPLY:
      case SN_OP_DIVIDE:
        if (sn_instr_constant_f64(sn_instr_operand(ds, 1), &c)) ds = sn_instr_operand(ds, 0);
        else if (ds->op == SN_OP_MULTIPLY && sn_instr_constant_f64(sn_instr_operand(ds, 0), &c)) ds = sn_instr_operand(ds, 1);
        else return NULL;
        break;
      default: return NULL;
    }
  }
  return NULL;
}

static bool take(sn_instr **slot, uint32_t *side, sn_instr *dot, uint32_t k) {
  if (*slot) return false;
  *slot = dot;
  *side = k;
  return true;
}

/* A product that reads i, which has the scores' shape, as operand k. */
static bool match_product(attention *m, sn_instr *i, sn_instr *dot, uint32_t k) {
  if (!plain_dot(dot, m->n_batch) || sn_instr_operand(dot, 0) == sn_instr_operand(dot, 1)) return false;
  bool keys = sn_instr_ints(dot, k == 0 ? SN_ATTR_LHS_CONTRACTING_DIMS : SN_ATTR_RHS_CONTRACTING_DIMS).v[0] == m->n_batch + 1;
  if (sn_attention_is_probability(m, i)) return keys ? take(&m->out, &m->out_p, dot, k) : take(&m->dv, &m->dv_p, dot, k);
  const sn_instr *dx = find_derivative(m, i);
  if (!dx || (m->ds && m->ds != i)) return false;
  m->ds = i;
  m->dx = (sn_instr *)dx;
  return keys ? take(&m->dq, &m->dq_ds, dot, k) : take(&m->dk, &m->dk_ds, dot, k);
}

typedef struct readers { sn_instr *v[MAX_READERS]; int n; } readers;

static bool add_reader(readers *r, sn_instr *i) {
  for (int k = 0; k < r->n; k++) {
    if (r->v[k] == i) return true;
  }
  if (r->n == MAX_READERS) return false;
  r->v[r->n++] = i;
  return true;
}

static bool follows(const sn_instr *i) {
  return !i->n_control && sn_shape_is_array(i->shape) &&
         (sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE || i->op == SN_OP_REDUCE);
}

/* All that reads the exponential or its sum ends in products of ours. */
static bool match_readers(attention *m, sn_instr **other) {
  readers r = {{m->exp, m->sum}, 2};
  *other = NULL;
  for (int k = 0; k < r.n; k++) {
    if (!*other && sn_instr_is_root(r.v[k])) *other = r.v[k];
    SN_FOR_USES(u, r.v[k]) {
      bool fine = u->user->op == SN_OP_DOT ? match_product(m, r.v[k], u->user, u->index) : follows(u->user) && add_reader(&r, u->user);
      if (!fine && !*other) *other = u->user;
    }
  }
  return !*other;
}

static bool is_ours(const attention *m, const sn_instr *i) { return i == m->out || i == m->dv || i == m->dq || i == m->dk; }

/* Nothing is left of i once the products are replaced. */
static bool dies(const attention *m, sn_instr *i, readers *seen, sn_instr **other) {
  seen->n = 0;
  (void)add_reader(seen, i);
  for (int k = 0; k < seen->n; k++) {
    *other = seen->v[k];
    if (sn_instr_is_root(seen->v[k])) return false;
    SN_FOR_USES(u, seen->v[k]) {
      *other = u->user;
      if (!is_ours(m, u->user) && (!follows(u->user) || !add_reader(seen, u->user))) return false;
    }
  }
  return true;
}

sn_status sn_attention_match(sn_pass_ctx *pc, sn_instr *exp, attention *m, attention_verdict *verdict, sn_instr **other) {
  readers *seen = SN_NEW(pc->scratch, readers);
  if (!seen) return sn_out_of_memory(pc->diag, sizeof *seen);
  *m = (attention){.exp = exp};
  *verdict = ATTENTION_NONE;
  *other = NULL;
  if (!sn_type_is_float(exp->shape->type) || !match_softmax(m)) return SN_OK;
  bool fine = match_readers(m, other);
  if (!m->out) return SN_OK;
  fine = fine && !(m->ds && !m->dp) && dies(m, m->scores, seen, other) && (!m->dp || dies(m, m->dp, seen, other));
  if (fine && m->dp) fine = plain_dot(m->dp, m->n_batch);
  *verdict = fine ? ATTENTION_FOUND : ATTENTION_SHARED;
  return SN_OK;
}
