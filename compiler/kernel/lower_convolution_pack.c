/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Windows of a convolution's input on their way into panels. What lies in a row in memory is moved by vectors:
 *
 *   rows of terms     [tile][i][k]     for each position the terms of its window, run by run
 *   strips            [k][position]    for each term the positions that an item has, run by run
 *
 * A run is as many neighbours as follow from the order of dimensions: the input features of a pixel or, where pixels of the window are neighbours, of a row of it. */
#include "lower_convolution.h"

/* ---- runs ---- */

/* Part of a run: places [place, place + n) of run `number`, `behind` those that are packed first. */
typedef struct part {
  sn_knode *runs; /* the loop over runs; NULL: there is one */
  const sn_ix *number, *place, *behind, *n;
} part;

static bool is_const(const sn_ix *e) { return e->kind == SN_IX_CONST; }

/* A symbol that stands for e, cut to [0, most]: what is long, and used often. */
static const sn_ix *named(lowering *L, const sn_ix *e, int64_t most) { return is_const(e) ? e : lower_bind(L, sn_kb_index(&L->b, SN_TYPE_S64, e), 0, most); }

/* Loops over the runs that [start, start + n) lies in. */
static bool open_runs(lowering *L, int64_t run, int64_t total, const sn_ix *start, const sn_ix *n, part *r) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *each = lower_const(L, run), *zero = lower_const(L, 0);
  if (run >= total) {
    *r = (part){NULL, zero, start, zero, n};
    return L->b.status == SN_OK;
  }
  bool whole = is_const(start) && is_const(n) && start->value % run == 0 && n->value % run == 0;
  const sn_ix *last = sn_ix_sub(x, sn_ix_add(x, start, n), lower_const(L, 1));
  r->number = lower_for(L, SN_KLOOP_SEQ, 0, sn_ix_div(x, start, run), sn_ix_add(x, sn_ix_div(x, last, run), lower_const(L, 1)), 1, 0, NULL, NULL, &r->runs);
  if (!r->number) return false;
  const sn_ix *begin = sn_ix_mul(x, r->number, each), *first = whole ? begin : sn_ix_max(x, start, begin), *end = sn_ix_min(x, sn_ix_add(x, start, n), sn_ix_add(x, begin, each));
  r->place = whole ? zero : named(L, sn_ix_sub(x, first, begin), run - 1);
  r->n = whole ? each : named(L, sn_ix_sub(x, end, first), run);
  r->behind = sn_ix_sub(x, sn_ix_add(x, begin, r->place), start);
  return L->b.status == SN_OK;
}

static void close_runs(lowering *L, const part *r) {
  if (r->runs) lower_end(L, 0, NULL, r->runs);
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
    v = lower_select(L, lower_guard_value(L, L->n_guards - before, &L->guards[before]), v, sn_kb_const_f64(&L->b, input->shape->type, 0));
  }
  L->n_guards = before;
  return lower_convert(L, v, p->type);
}

/* ---- one run ---- */

/* Where a run is read and where it goes. Indices of what it does not run along are set. */
typedef struct way {
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK];
  int buffer;
  const sn_ix *to[3]; /* of what is packed first; the run goes along the last one */
} way;

/* Sets the indices of place `at` of the run. */
static void set_place(lowering *L, const convolution *c, const part *r, const sn_ix *at, way *w) {
  int n = c->along_terms ? c->n_terms : c->n_positions;
  const int64_t *sizes = c->along_terms ? c->term_sizes : c->position_sizes;
  const sn_ix *digits[SN_MAX_RANK];
  lower_delinearise(L, r->number, n - c->n_run, sizes, digits);
  lower_delinearise(L, at, c->n_run, sizes + n - c->n_run, digits + n - c->n_run);
  for (int k = 0; k < n; k++) {
    if (c->along_terms) w->syms[c->terms[k]] = convolution_number(L, &c->syms[c->terms[k]], digits[k]);
    else w->idx[c->positions[k]] = convolution_number(L, &c->dims[c->positions[k]], digits[k]);
  }
}

static void store_at(lowering *L, const way *w, const part *r, const sn_ix *j, sn_kvalue *v) {
  const sn_ix *to[3] = {w->to[0], w->to[1], sn_ix_add(L->k->ix, sn_ix_add(L->k->ix, w->to[2], r->behind), j)};
  sn_kb_store(&L->b, w->buffer, to, 0, NULL, v);
}

static const sn_ix *open_lanes(lowering *L, const product *p, const sn_ix *from, const sn_ix *to, sn_knode **lanes) {
  return lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), from, to, 1, 0, NULL, NULL, lanes);
}

/* Element by element: whatever the input is and however it lies. */
static void store_elements(lowering *L, const product *p, const part *r, way *w) {
  sn_knode *lanes;
  const sn_ix *j = open_lanes(L, p, lower_const(L, 0), r->n, &lanes);
  if (!j) return;
  set_place(L, p->conv, r, sn_ix_add(L->k->ix, r->place, j), w);
  store_at(L, w, r, j, window_element(L, p, w->idx, w->syms));
  lower_end(L, 0, NULL, lanes);
}

static void store_zeros(lowering *L, const product *p, const part *r, const way *w, const sn_ix *from, const sn_ix *to) {
  sn_knode *lanes;
  const sn_ix *j = open_lanes(L, p, lower_const(L, 0), sn_ix_sub(L->k->ix, to, from), &lanes);
  if (!j) return;
  store_at(L, w, r, sn_ix_add(L->k->ix, from, j), sn_kb_const_f64(&L->b, p->type, 0));
  lower_end(L, 0, NULL, lanes);
}

/* The part [from, to) of the run that lies in the image. False: it is not one part, or that is not plain. */
static bool find_inside(lowering *L, const product *p, const part *r, way *w, const sn_ix **from, const sn_ix **to) {
  sn_ix_context *x = L->k->ix;
  const sn_access *a = lower_access(L, p->dot, &p->map, 0);
  const sn_ix *zero = lower_const(L, 0), *one = lower_const(L, 1), *any = sn_ix_dim(x, 1000000, r->n->hi);
  sn_ix_guard first[2 * SN_MAX_RANK];
  int before = L->n_guards;
  *from = zero;
  *to = r->n;
  set_place(L, p->conv, r, r->place, w);
  lower_push_guards(L, p->dot, &p->map, a, w->idx, w->syms);
  int n = L->n_guards - before;
  for (int g = 0; g < n; g++) {
    first[g] = L->guards[before + g];
    undivide(L, &first[g]);
  }
  L->n_guards = before;
  set_place(L, p->conv, r, sn_ix_add(x, r->place, any), w);
  lower_push_guards(L, p->dot, &p->map, a, w->idx, w->syms);
  bool plain = L->n_guards - before == n;
  for (int g = 0; g < n && plain; g++) {
    sn_ix_guard moved = L->guards[before + g];
    undivide(L, &moved);
    const sn_ix *e = first[g].e, *step = sn_ix_sub(x, moved.e, e), *lo = lower_const(L, first[g].lo), *hi = lower_const(L, first[g].hi);
    plain = moved.lo == first[g].lo && (step == any || step == zero);
    if (step == any) { /* lo <= e + j <= hi */
      *from = sn_ix_max(x, *from, sn_ix_sub(x, lo, e));
      *to = sn_ix_min(x, *to, sn_ix_sub(x, sn_ix_add(x, hi, one), e));
    } else { /* all of it or nothing */
      const sn_ix *room = sn_ix_min(x, sn_ix_sub(x, e, lo), sn_ix_sub(x, hi, e));
      *to = sn_ix_mul(x, *to, sn_ix_max(x, zero, sn_ix_min(x, one, sn_ix_add(x, room, one))));
    }
  }
  L->n_guards = before;
  *from = named(L, sn_ix_min(x, *from, r->n), r->n->hi);
  *to = named(L, sn_ix_max(x, *from, sn_ix_min(x, *to, r->n)), r->n->hi);
  return plain && L->b.status == SN_OK;
}

/* Neighbours in memory on both sides are copied; around them, zeros. */
static bool copy_run(lowering *L, const product *p, const part *r, way *w) {
  sn_ix_context *x = L->k->ix;
  const sn_access *a = lower_access(L, p->dot, &p->map, 0);
  const sn_ix *from, *to, *at[SN_MAX_RANK], *one = lower_const(L, 1);
  int buffer;
  set_place(L, p->conv, r, r->place, w);
  bool param = lower_at(L, p->dot, &p->map, a, w->idx, w->syms, at) && product_param(L, sn_instr_operand(p->dot, 0), at, &buffer);
  if (!param || L->k->buffers[buffer].type != p->type || !p->conv->copied || !find_inside(L, p, r, w, &from, &to)) return false;
  set_place(L, p->conv, r, sn_ix_add(x, r->place, from), w);
  if (!lower_at(L, p->dot, &p->map, a, w->idx, w->syms, at) || !product_param(L, sn_instr_operand(p->dot, 0), at, &buffer)) return false;
  store_zeros(L, p, r, w, lower_const(L, 0), from);
  const sn_ix *where[3] = {w->to[0], w->to[1], sn_ix_add(x, sn_ix_add(x, w->to[2], r->behind), from)};
  sn_kcopy c = {{w->buffer, where, {0, 1}}, {buffer, at, {0, 1}}, one, sn_ix_sub(x, to, from), false};
  sn_kb_copy(&L->b, &c);
  store_zeros(L, p, r, w, to, r->n);
  return true;
}

static void store_run(lowering *L, const product *p, const part *r, way *w) {
  if (!copy_run(L, p, r, w)) store_elements(L, p, r, w);
}

/* ---- rows of terms ---- */

static void pack_rows(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  const convolution *c = p->conv;
  const sn_ix *zero = lower_const(L, 0);
  sn_knode *tiles, *rows;
  part r;
  const sn_ix *ip = lower_for(L, SN_KLOOP_SEQ, 0, zero, it->n_tiles, 1, 0, NULL, NULL, &tiles);
  const sn_ix *i = ip ? lower_for(L, SN_KLOOP_SEQ, 0, zero, lower_const(L, p->mr), 1, 0, NULL, NULL, &rows) : NULL;
  if (!i) return;
  const sn_ix *row = sn_ix_add(L->k->ix, product_tile_row(L, p, it, ip), i);
  if (p->m < p->mr) row = sn_ix_min(L->k->ix, row, lower_const(L, p->m - 1)); /* rows that nobody looks at */
  way w = {.buffer = p->lhs_scratch, .to = {ip, i, zero}};
  convolution_result_index(L, p, it->b, row, zero, w.idx);
  if (!open_runs(L, c->run, p->k, k0, n_k, &r)) return;
  store_run(L, p, &r, &w);
  close_runs(L, &r);
  lower_end(L, 0, NULL, rows);
  lower_end(L, 0, NULL, tiles);
}

/* ---- strips of positions ---- */

static void pack_strip(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  const convolution *c = p->conv;
  sn_ix_context *x = L->k->ix;
  const sn_ix *zero = lower_const(L, 0);
  sn_knode *terms;
  part r;
  bool columns = c->side == 1;
  int64_t each = columns ? p->nr : p->mr, all = columns ? p->n : p->m;
  const sn_ix *start = columns ? sn_ix_mul(x, it->panel0, lower_const(L, each)) : product_tile_row(L, p, it, zero);
  const sn_ix *end = sn_ix_mul(x, columns ? sn_ix_add(x, it->panel0, it->n_panels) : sn_ix_add(x, it->tile0, it->n_tiles), lower_const(L, each));
  if (all % each) end = sn_ix_min(x, end, lower_const(L, all));
  const sn_ix *k = lower_for(L, SN_KLOOP_SEQ, 0, zero, n_k, 1, 0, NULL, NULL, &terms);
  if (!k) return;
  way w = {.buffer = columns ? p->rhs_scratch : p->lhs_scratch, .to = {zero, k, zero}};
  convolution_result_index(L, p, it->b, zero, zero, w.idx);
  convolution_terms(L, c, sn_ix_add(x, k0, k), w.syms);
  if (!open_runs(L, c->run, all, start, sn_ix_sub(x, end, start), &r)) return;
  store_run(L, p, &r, &w);
  close_runs(L, &r);
  lower_end(L, 0, NULL, terms);
}

void convolution_pack(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  if (p->conv->along_terms) pack_rows(L, p, it, k0, n_k);
  else pack_strip(L, p, it, k0, n_k);
}
