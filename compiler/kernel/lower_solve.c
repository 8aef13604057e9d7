/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cholesky factors and triangular systems (Golub and Van Loan, Matrix Computations, 4.2 and 3.1), a matrix in scratch, in f64: the sums lose no more than the
 * oracle's do, and the work is small beside the products around it.
 *
 *   cholesky          an item a matrix: row i, column j <= i:  s = a[i,j] - sum over k < j of l[i,k] conj(l[j,k])
 *   triangular-solve  an item a matrix and a block of right-hand sides, which run in lanes:  x[i,q] = (b[i,q] - sum over j solved of a[i,j] x[j,q]) / a[i,i] */
#include "elemental.h"

#include <math.h>

enum { BLOCK = 64 }; /* right-hand sides an item */

static sn_type wide_type(sn_type t) { return sn_type_is_complex(t) ? SN_TYPE_C128 : SN_TYPE_F64; }

static sn_kvalue *conjugate(lowering *L, sn_kvalue *x) {
  if (!x || !sn_type_is_complex(x->type)) return x;
  sn_kvalue *xs[2] = {lower_unary(L, SN_OP_REAL, SN_TYPE_F64, x), lower_unary(L, SN_OP_NEGATE, SN_TYPE_F64, lower_unary(L, SN_OP_IMAG, SN_TYPE_F64, x))};
  return xs[0] && xs[1] ? sn_kb_elt(&L->b, SN_OP_COMPLEX, x->type, 2, xs) : NULL;
}

static sn_kvalue *real_part(lowering *L, sn_kvalue *x) { return x && sn_type_is_complex(x->type) ? lower_unary(L, SN_OP_REAL, SN_TYPE_F64, x) : x; }

/* s - x y */
static sn_kvalue *minus_product(lowering *L, sn_kvalue *s, sn_kvalue *x, sn_kvalue *y) {
  return lower_binary(L, SN_OP_SUBTRACT, s, lower_binary(L, SN_OP_MULTIPLY, x, y));
}

/* Element (i, j) of the matrix of operand `operand` that belongs to this item, in the wide type. */
static sn_kvalue *element(lowering *L, const sn_instr *instr, uint32_t operand, const sn_ix *const *batch, const sn_ix *i, const sn_ix *j) {
  const sn_instr *x = sn_instr_operand(instr, operand);
  const sn_ix *at[SN_MAX_RANK];
  int rank = x->shape->rank;
  for (int k = 0; k < rank - 2; k++) at[k] = batch[k];
  at[rank - 2] = i;
  at[rank - 1] = j;
  return lower_convert(L, lower_value(L, x, 0, at), wide_type(x->shape->type));
}

static sn_kvalue *load2(lowering *L, int buffer, const sn_ix *i, const sn_ix *j) {
  const sn_ix *at[2] = {i, j};
  return sn_kb_load(&L->b, buffer, at, 0, NULL, NULL);
}

static void store2(lowering *L, int buffer, const sn_ix *i, const sn_ix *j, sn_kvalue *v) {
  const sn_ix *at[2] = {i, j};
  sn_kb_store(&L->b, buffer, at, 0, NULL, v);
}

static int scratch2(lowering *L, sn_type t, int64_t rows, int64_t cols) {
  int64_t dims[2] = {rows, cols};
  int b = sn_kernel_add_buffer(L->k, SN_KMEM_SCRATCH, t, 2, dims, NULL, "matrix");
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static const sn_ix *loop(lowering *L, const sn_ix *lo, const sn_ix *hi, int n_carries, sn_kvalue *const *inits, sn_knode **node) {
  return lower_for(L, SN_KLOOP_SEQ, 0, lo, hi, 1, n_carries, inits, NULL, node);
}

/* ---- cholesky ---- */

typedef struct factor {
  const sn_instr *i;
  bool lower;
  int64_t n;
  int tile;          /* L, or the conjugate transpose of U: one loop serves both */
  const sn_ix *batch[SN_MAX_RANK];
} factor;

/* s - sum over k < j of l[i,k] conj(l[j,k]) */
static sn_kvalue *factor_sum(lowering *L, const factor *f, const sn_ix *i, const sn_ix *j, sn_kvalue *s) {
  sn_knode *node;
  if (f->n == 1) return s;
  const sn_ix *k = s ? loop(L, lower_const(L, 0), j, 1, &s, &node) : NULL;
  if (!k) return NULL;
  sn_kvalue *next = minus_product(L, &node->regions[0]->params[0], load2(L, f->tile, i, k), conjugate(L, load2(L, f->tile, j, k)));
  lower_end(L, 1, &next, node);
  return sn_knode_result(node, 0);
}

static sn_kvalue *factor_input(lowering *L, const factor *f, const sn_ix *i, const sn_ix *j) {
  return f->lower ? element(L, f->i, 0, f->batch, i, j) : conjugate(L, element(L, f->i, 0, f->batch, j, i));
}

/* Row i; gives `poison` on, or NaN where the matrix turns out not to be positive definite. */
static sn_kvalue *factor_row(lowering *L, const factor *f, const sn_ix *i, sn_kvalue *poison) {
  sn_knode *node;
  if (f->n > 1) {
    const sn_ix *j = loop(L, lower_const(L, 0), i, 0, NULL, &node);
    if (!j) return NULL;
    sn_kvalue *s = factor_sum(L, f, i, j, factor_input(L, f, i, j));
    store2(L, f->tile, i, j, lower_binary(L, SN_OP_DIVIDE, s, load2(L, f->tile, j, j)));
    lower_end(L, 0, NULL, node);
  }
  sn_kvalue *s = real_part(L, factor_sum(L, f, i, i, factor_input(L, f, i, i)));
  sn_kvalue *positive = s ? sn_kb_compare(&L->b, SN_DIRECTION_GT, s, sn_kb_const_f64(&L->b, SN_TYPE_F64, 0), false) : NULL;
  store2(L, f->tile, i, i, lower_convert(L, lower_unary(L, SN_OP_SQRT, SN_TYPE_F64, s), wide_type(f->i->shape->type)));
  return lower_select(L, positive, poison, sn_kb_const_f64(&L->b, SN_TYPE_F64, (double)NAN));
}

/* The triangle asked for, zeros in the other; all NaN with poison. */
static void factor_store(lowering *L, const factor *f, sn_kvalue *poison) {
  sn_knode *rows, *cols;
  const sn_shape *s = f->i->shape;
  const sn_ix *at[SN_MAX_RANK];
  sn_type wide = wide_type(s->type);
  for (int k = 0; k < s->rank - 2; k++) at[k] = f->batch[k];
  const sn_ix *i = loop(L, lower_const(L, 0), lower_const(L, f->n), 0, NULL, &rows);
  const sn_ix *j = i ? loop(L, lower_const(L, 0), lower_const(L, f->n), 0, NULL, &cols) : NULL;
  if (!j) return;
  at[s->rank - 2] = i;
  at[s->rank - 1] = j;
  sn_ix_guard inside = {sn_ix_sub(L->k->ix, f->lower ? i : j, f->lower ? j : i), 0, f->n - 1};
  sn_kvalue *v = f->lower ? load2(L, f->tile, i, j) : conjugate(L, load2(L, f->tile, j, i));
  v = lower_select(L, lower_guard_value(L, 1, &inside), v, sn_kb_const_f64(&L->b, wide, 0));
  v = lower_binary(L, SN_OP_ADD, v, lower_convert(L, poison, wide));
  sn_kb_store(&L->b, L->output_buffer[0], at, 0, NULL, lower_convert(L, v, s->type));
  lower_end(L, 0, NULL, cols);
  lower_end(L, 0, NULL, rows);
}

void lower_cholesky(lowering *L, const sn_instr *i) {
  const sn_shape *s = i->shape;
  factor f = {.i = i, .lower = sn_instr_bool(i, SN_ATTR_LOWER), .n = s->dims[s->rank - 1]};
  sn_knode *node;
  if (i != L->outputs[0]) {
    lower_fail(L, i, "not the whole of its fusion");
    return;
  }
  f.tile = scratch2(L, wide_type(s->type), f.n, f.n);
  if (!lower_phase(L, s->rank - 2, s->dims)) return;
  for (int k = 0; k < s->rank - 2; k++) f.batch[k] = lower_grid(L, k);
  sn_kvalue *poison = sn_kb_const_f64(&L->b, SN_TYPE_F64, 0);
  const sn_ix *row = poison ? loop(L, lower_const(L, 0), lower_const(L, f.n), 1, &poison, &node) : NULL;
  if (!row) return;
  sn_kvalue *next = factor_row(L, &f, row, &node->regions[0]->params[0]);
  if (!next) return;
  lower_end(L, 1, &next, node);
  factor_store(L, &f, sn_knode_result(node, 0));
}

/* ---- triangular-solve ---- */

typedef struct solver {
  const sn_instr *i;
  bool left, unit, forward;
  int64_t transpose, n, lines;
  int tile;               /* x[i, q - first] */
  const sn_ix *batch[SN_MAX_RANK], *first, *here; /* first line of the block, lines in it */
  int lanes;
} solver;

/* Coefficient of unknown j in equation i. */
static sn_kvalue *coefficient(lowering *L, const solver *s, const sn_ix *i, const sn_ix *j) {
  bool swap = !s->left != (s->transpose != SN_TRANSPOSE_NO_TRANSPOSE);
  sn_kvalue *v = element(L, s->i, 0, s->batch, swap ? j : i, swap ? i : j);
  return s->transpose == SN_TRANSPOSE_ADJOINT ? conjugate(L, v) : v;
}

/* The unknown solved at step k. */
static const sn_ix *unknown(lowering *L, const solver *s, const sn_ix *k) { return s->forward ? k : sn_ix_sub(L->k->ix, lower_const(L, s->n - 1), k); }

static void result_index(lowering *L, const solver *s, const sn_ix *i, const sn_ix *q, const sn_ix **at) {
  int rank = s->i->shape->rank;
  const sn_ix *line = sn_ix_add(L->k->ix, s->first, q);
  for (int k = 0; k < rank - 2; k++) at[k] = s->batch[k];
  at[rank - 2] = s->left ? i : line;
  at[rank - 1] = s->left ? line : i;
}

static void solve_step(lowering *L, const solver *s, const sn_ix *k) {
  sn_knode *lines, *sum;
  const sn_ix *i = unknown(L, s, k), *at[SN_MAX_RANK];
  bool vector = s->lanes > 1;
  const sn_ix *q = lower_for(L, vector ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, vector ? s->lanes : 0, lower_const(L, 0), s->here, 1, 0, NULL, NULL, &lines);
  if (!q) return;
  result_index(L, s, i, q, at);
  sn_kvalue *v = lower_convert(L, lower_value(L, sn_instr_operand(s->i, 1), 0, at), wide_type(s->i->shape->type));
  if (s->n > 1 && v) {
    const sn_ix *p = loop(L, lower_const(L, 0), k, 1, &v, &sum);
    if (!p) return;
    const sn_ix *j = unknown(L, s, p);
    sn_kvalue *next = minus_product(L, &sum->regions[0]->params[0], coefficient(L, s, i, j), load2(L, s->tile, j, q));
    lower_end(L, 1, &next, sum);
    v = sn_knode_result(sum, 0);
  }
  if (!s->unit) v = lower_binary(L, SN_OP_DIVIDE, v, coefficient(L, s, i, i));
  store2(L, s->tile, i, q, v);
  sn_kb_store(&L->b, L->output_buffer[0], at, 0, NULL, lower_convert(L, v, s->i->shape->type));
  lower_end(L, 0, NULL, lines);
}

static void solver_init(lowering *L, solver *s) {
  const sn_shape *b = s->i->shape;
  s->left = sn_instr_bool(s->i, SN_ATTR_LEFT_SIDE);
  s->unit = sn_instr_bool(s->i, SN_ATTR_UNIT_DIAGONAL);
  s->transpose = sn_instr_int(s->i, SN_ATTR_TRANSPOSE_A);
  bool lower = sn_instr_bool(s->i, SN_ATTR_LOWER) == (s->transpose == SN_TRANSPOSE_NO_TRANSPOSE); /* of op(a) */
  s->forward = s->left == lower;
  s->n = b->dims[s->left ? b->rank - 2 : b->rank - 1];
  s->lines = b->dims[s->left ? b->rank - 1 : b->rank - 2];
  s->lanes = sn_type_is_complex(b->type) || s->lines < 2 ? 1 : lower_lanes(L, SN_TYPE_F64);
}

void lower_triangular_solve(lowering *L, const sn_instr *i) {
  solver s = {.i = i};
  const sn_shape *b = i->shape;
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK];
  sn_knode *node;
  if (i != L->outputs[0]) {
    lower_fail(L, i, "not the whole of its fusion");
    return;
  }
  solver_init(L, &s);
  int64_t block = s.lines < BLOCK ? s.lines : BLOCK;
  s.tile = scratch2(L, wide_type(b->type), s.n, block);
  for (int k = 0; k < b->rank - 2; k++) grid[k] = b->dims[k];
  grid[b->rank - 2] = (s.lines + block - 1) / block;
  if (!lower_phase(L, b->rank - 1, grid)) return;
  for (int k = 0; k < b->rank - 2; k++) s.batch[k] = lower_grid(L, k);
  s.first = sn_ix_mul(x, lower_grid(L, b->rank - 2), lower_const(L, block));
  s.here = lower_const(L, block);
  if (s.lines % block) s.here = sn_ix_min(x, s.here, sn_ix_sub(x, lower_const(L, s.lines), s.first));
  const sn_ix *k = loop(L, lower_const(L, 0), lower_const(L, s.n), 0, NULL, &node);
  if (!k) return;
  solve_step(L, &s, k);
  lower_end(L, 0, NULL, node);
}
