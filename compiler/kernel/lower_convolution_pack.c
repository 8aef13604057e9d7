/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Windows of a convolution's input on their way into panels. What lies in a row in memory is moved by vectors:
 *
 *   rows of terms     [tile][i][k]     for each position the terms of its window, run by run
 *   strips            [k][position]    for each term the positions that an item has, run by run
 *
 * A run is as many neighbours as follow from the order of dimensions: the input features of a pixel or, where pixels of the window are neighbours, of a row of it. */
#include "lower_convolution.h"

/* ---- runs ---- */

/* Loops over [start, start + n) of what comes in runs: which run, where in it (one a lane), how far behind start. */
typedef struct run_loops {
  sn_knode *runs, *lanes;
  const sn_ix *number, *place, *behind;
} run_loops;

static bool is_const(const sn_ix *e) { return e->kind == SN_IX_CONST; }

static const sn_ix *open_lanes(lowering *L, const product *p, const sn_ix *n, run_loops *r) {
  return lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), lower_const(L, 0), n, 1, 0, NULL, NULL, &r->lanes);
}

static bool open_runs(lowering *L, const product *p, int64_t run, int64_t total, const sn_ix *start, const sn_ix *n, run_loops *r) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *each = lower_const(L, run);
  r->runs = NULL;
  if (run >= total) { /* one */
    r->number = lower_const(L, 0);
    r->behind = open_lanes(L, p, n, r);
    r->place = sn_ix_add(x, start, r->behind);
    return r->behind != NULL;
  }
  bool whole = is_const(start) && is_const(n) && start->value % run == 0 && n->value % run == 0;
  const sn_ix *last = sn_ix_sub(x, sn_ix_add(x, start, n), lower_const(L, 1));
  r->number = lower_for(L, SN_KLOOP_SEQ, 0, sn_ix_div(x, start, run), sn_ix_add(x, sn_ix_div(x, last, run), lower_const(L, 1)), 1, 0, NULL, NULL, &r->runs);
  if (!r->number) return false;
  const sn_ix *begin = sn_ix_mul(x, r->number, each), *first = whole ? begin : sn_ix_max(x, start, begin), *end = sn_ix_min(x, sn_ix_add(x, start, n), sn_ix_add(x, begin, each));
  const sn_ix *c = open_lanes(L, p, whole ? each : sn_ix_min(x, each, sn_ix_sub(x, end, first)), r);
  r->place = sn_ix_add(x, sn_ix_sub(x, first, begin), c);
  r->behind = sn_ix_add(x, sn_ix_sub(x, first, start), c);
  return c != NULL;
}

static void close_runs(lowering *L, const run_loops *r) {
  lower_end(L, 0, NULL, r->lanes);
  if (r->runs) lower_end(L, 0, NULL, r->runs);
}

/* Indices of what lies at `place` of run `number`: the last n_run axes make up a run. */
static void run_indices(lowering *L, const run_loops *r, int n, int n_run, const int64_t *sizes, const sn_ix **at) {
  lower_delinearise(L, r->number, n - n_run, sizes, at);
  lower_delinearise(L, r->place, n_run, sizes + n - n_run, at + n - n_run);
}

/* ---- one element ---- */

/* lo <= rest + a div d <= hi says of undivided numbers: lo * d <= rest * d + a <= hi * d + d - 1. A vector then needs no division. */
static void undivide(lowering *L, sn_ix_guard *g) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *quotient = NULL;
  for (const sn_ix *e = g->e; e && !quotient; e = e->kind == SN_IX_ADD ? e->a : NULL) {
    const sn_ix *term = e->kind == SN_IX_ADD ? e->b : e;
    if (term->kind == SN_IX_DIV) quotient = term;
  }
  if (!quotient) return;
  int64_t d = quotient->b->value;
  g->e = sn_ix_add(x, sn_ix_mul(x, sn_ix_sub(x, g->e, quotient), lower_const(L, d)), quotient->a);
  g->lo *= d;
  g->hi = g->hi * d + d - 1;
}

/* The input at these indices of the result and symbols: zero beyond the image. */
static sn_kvalue *window_element(lowering *L, const product *p, const sn_ix *const *idx, const sn_ix *const *syms) {
  const sn_ix *at[SN_MAX_RANK];
  const sn_instr *input = sn_instr_operand(p->dot, 0);
  const sn_access *a = lower_access(L, p->dot, &p->map, 0);
  int operand, before = a ? lower_push_guards(L, p->dot, &p->map, a, idx, syms) : 0;
  if (!a || !lower_at(L, p->dot, &p->map, a, idx, syms, at)) return NULL;
  for (int g = before; g < L->n_guards; g++) undivide(L, &L->guards[g]);
  sn_kvalue *v = lower_value(L, input, 0, at);
  if (v && L->n_guards > before && !lower_is_param(L, input, &operand)) { /* a parameter's load gives zero there already */
    v = lower_select(L, lower_guard_value(L, L->n_guards - before, &L->guards[before]), v, sn_kb_const_f64(&L->b, p->type, 0));
  }
  L->n_guards = before;
  return v;
}

static void set_batch(lowering *L, const product *p, const product_item *it, const sn_ix **idx) {
  const sn_ix *zero = lower_const(L, 0);
  convolution_result_index(L, p, it->b, zero, zero, idx);
}

static void set_positions(const convolution *c, const sn_ix *const *at, const sn_ix **idx) {
  for (int k = 0; k < c->n_positions; k++) idx[c->positions[k]] = at[k];
}

static void set_terms(const convolution *c, const sn_ix *const *at, const sn_ix **syms) {
  for (int k = 0; k < c->n_terms; k++) syms[c->terms[k]] = at[k];
}

/* ---- rows of terms ---- */

static void pack_rows(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  const convolution *c = p->conv;
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK], *at[SN_MAX_RANK];
  sn_knode *tiles, *rows;
  run_loops r;
  const sn_ix *ip = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), it->n_tiles, 1, 0, NULL, NULL, &tiles);
  const sn_ix *i = ip ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, p->mr), 1, 0, NULL, NULL, &rows) : NULL;
  if (!i) return;
  const sn_ix *row = sn_ix_add(L->k->ix, product_tile_row(L, p, it, ip), i);
  if (p->m < p->mr) row = sn_ix_min(L->k->ix, row, lower_const(L, p->m - 1)); /* rows that nobody looks at */
  set_batch(L, p, it, idx);
  lower_delinearise(L, row, c->n_positions, c->position_sizes, at);
  set_positions(c, at, idx);
  if (!open_runs(L, p, c->run, p->k, k0, n_k, &r)) return;
  run_indices(L, &r, c->n_terms, c->n_run, c->term_sizes, at);
  set_terms(c, at, syms);
  const sn_ix *to[3] = {ip, i, r.behind};
  sn_kb_store(&L->b, p->lhs_scratch, to, 0, NULL, window_element(L, p, idx, syms));
  close_runs(L, &r);
  lower_end(L, 0, NULL, rows);
  lower_end(L, 0, NULL, tiles);
}

/* ---- strips of positions ---- */

static void pack_strip(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  const convolution *c = p->conv;
  sn_ix_context *x = L->k->ix;
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK], *at[SN_MAX_RANK], *zero = lower_const(L, 0);
  sn_knode *terms;
  run_loops r;
  bool columns = c->side == 1;
  int64_t each = columns ? p->nr : p->mr, all = columns ? p->n : p->m;
  const sn_ix *start = columns ? sn_ix_mul(x, it->panel0, lower_const(L, each)) : product_tile_row(L, p, it, zero);
  const sn_ix *end = sn_ix_mul(x, columns ? sn_ix_add(x, it->panel0, it->n_panels) : sn_ix_add(x, it->tile0, it->n_tiles), lower_const(L, each));
  if (all % each) end = sn_ix_min(x, end, lower_const(L, all));
  const sn_ix *k = lower_for(L, SN_KLOOP_SEQ, 0, zero, n_k, 1, 0, NULL, NULL, &terms);
  if (!k) return;
  set_batch(L, p, it, idx);
  convolution_terms(L, c, sn_ix_add(x, k0, k), syms);
  if (!open_runs(L, p, c->run, all, start, sn_ix_sub(x, end, start), &r)) return;
  run_indices(L, &r, c->n_positions, c->n_run, c->position_sizes, at);
  set_positions(c, at, idx);
  const sn_ix *to[3] = {zero, k, r.behind};
  sn_kb_store(&L->b, columns ? p->rhs_scratch : p->lhs_scratch, to, 0, NULL, window_element(L, p, idx, syms));
  close_runs(L, &r);
  lower_end(L, 0, NULL, terms);
}

void convolution_pack(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  if (p->conv->along_terms) pack_rows(L, p, it, k0, n_k);
  else pack_strip(L, p, it, k0, n_k);
}
