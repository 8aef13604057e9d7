/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sort: a merge sort from the bottom up for each line along the sorted dimension, in scratch, any comparator, several arrays carried along.
 *
 *   level w = 1, 2, 4, …: runs of w become runs of 2 w, from one scratch tile to the other. Where the right run's head is not less than the left's, the left goes first: stable.
 *
 * On a GPU a block takes a line, and in each level every element finds its place by itself: its own position in its run and, by binary search, how many elements of the
 * other run go before it (those that are less; for elements of the right run also those that are equal).
 */
#include "elemental.h"

#include <string.h>

enum { MAX_ARRAYS = 16 };

typedef struct sorter {
  const sn_instr *i;
  int n;            /* arrays */
  int64_t dim, length;
  int tiles[2][MAX_ARRAYS];
} sorter;

static sn_kvalue *s64(lowering *L, int64_t v) { return sn_kb_const_i64(&L->b, SN_TYPE_S64, v); }

static sn_kvalue *elt2(lowering *L, sn_opcode op, sn_kvalue *x, sn_kvalue *y) {
  sn_kvalue *xs[2] = {x, y};
  return x && y ? sn_kb_elt(&L->b, op, x->type, 2, xs) : NULL;
}

static sn_kvalue *select3(lowering *L, sn_kvalue *p, sn_kvalue *t, sn_kvalue *f) {
  sn_kvalue *xs[3] = {p, t, f};
  return p && t && f ? sn_kb_elt(&L->b, SN_OP_SELECT, t->type, 3, xs) : NULL;
}

static void line_index(const sorter *s, const sn_ix *const *line, const sn_ix *at, const sn_ix **idx, int rank) {
  for (int k = 0, n = 0; k < rank; k++) idx[k] = k == s->dim ? at : line[n++];
}

/* Lines this short are a thread's each. */
enum { GPU_SHORT_LINE = 32 };

static bool in_lanes(const lowering *L, const sorter *s) { return lower_on_gpu(L) && s->length > GPU_SHORT_LINE; }

static const sn_ix *element_loop(lowering *L, const sorter *s, sn_knode **node) {
  bool lanes = in_lanes(L, s);
  return lower_for(L, lanes ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, lanes ? lower_gpu_lanes(s->length) : 0, lower_const(L, 0), lower_const(L, s->length), 1, 0, NULL, NULL, node);
}

static void load_line(lowering *L, const sorter *s, const sn_ix *const *line) {
  sn_knode *node;
  const sn_ix *idx[SN_MAX_RANK], *e = element_loop(L, s, &node);
  if (!e) return;
  line_index(s, line, e, idx, sn_operand_shape(s->i, 0)->rank);
  for (int a = 0; a < s->n; a++) sn_kb_store(&L->b, s->tiles[0][a], &e, 0, NULL, lower_value(L, sn_instr_operand(s->i, (uint32_t)a), 0, idx));
  lower_end(L, 0, NULL, node);
}

/* One element of the merge: carries are the heads of the two runs. */
static void merge_step(lowering *L, const sorter *s, int from, const sn_ix *out, sn_kvalue *left, sn_kvalue *right, sn_kvalue *left_end, sn_kvalue *right_end, sn_kvalue **next) {
  sn_kvalue *args[2 * MAX_ARRAYS], *less;
  const sn_ix *l = lower_bind(L, left, 0, s->length - 1), *r = lower_bind(L, right, 0, s->length - 1);
  if (!l || !r) return;
  for (int a = 0; a < s->n; a++) { /* is the right head less than the left one? */
    args[2 * a] = sn_kb_load(&L->b, s->tiles[from][a], &r, 0, NULL, NULL);
    args[2 * a + 1] = sn_kb_load(&L->b, s->tiles[from][a], &l, 0, NULL, NULL);
  }
  if (L->b.status != SN_OK || !lower_apply(L, s->i->called[0], args, 1, &less)) return;
  sn_kvalue *left_empty = sn_kb_compare(&L->b, SN_DIRECTION_GE, left, left_end, false), *right_there = sn_kb_compare(&L->b, SN_DIRECTION_LT, right, right_end, false);
  sn_kvalue *take_right = elt2(L, SN_OP_AND, right_there, elt2(L, SN_OP_OR, left_empty, less));
  for (int a = 0; a < s->n; a++) sn_kb_store(&L->b, s->tiles[!from][a], &out, 0, NULL, select3(L, take_right, args[2 * a], args[2 * a + 1]));
  next[0] = select3(L, take_right, left, elt2(L, SN_OP_ADD, left, s64(L, 1)));
  next[1] = select3(L, take_right, elt2(L, SN_OP_ADD, right, s64(L, 1)), right);
}

static void merge_level(lowering *L, const sorter *s, int from, int64_t w) {
  sn_ix_context *x = L->k->ix;
  sn_knode *pairs, *steps;
  int64_t n_pairs = (s->length + 2 * w - 1) / (2 * w);
  const sn_ix *p = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, n_pairs), 1, 0, NULL, NULL, &pairs);
  if (!p) return;
  const sn_ix *begin = sn_ix_mul(x, p, lower_const(L, 2 * w)), *all = lower_const(L, s->length);
  const sn_ix *middle = sn_ix_min(x, sn_ix_add(x, begin, lower_const(L, w)), all), *end = sn_ix_min(x, sn_ix_add(x, begin, lower_const(L, 2 * w)), all);
  sn_kvalue *heads[2] = {sn_kb_index(&L->b, SN_TYPE_S64, begin), sn_kb_index(&L->b, SN_TYPE_S64, middle)};
  sn_kvalue *left_end = heads[1], *right_end = sn_kb_index(&L->b, SN_TYPE_S64, end), *next[2] = {NULL, NULL};
  const sn_ix *t = heads[0] && heads[1] ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), sn_ix_sub(x, end, begin), 1, 2, heads, NULL, &steps) : NULL;
  if (!t) return;
  merge_step(L, s, from, sn_ix_add(x, begin, t), &steps->regions[0]->params[0], &steps->regions[0]->params[1], left_end, right_end, next);
  if (!next[0] || !next[1]) return;
  lower_end(L, 2, next, steps);
  lower_end(L, 0, NULL, pairs);
}

/* ---- a level on a GPU ---- */

typedef struct search {
  sn_kvalue *is_right, *x[MAX_ARRAYS]; /* the element, and whether it stands in the right run */
} search;

/* Does the element `at` of the other run go before ours? */
static sn_kvalue *goes_before(lowering *L, const sorter *s, int from, const search *q, const sn_ix *at) {
  sn_kvalue *args[2 * MAX_ARRAYS], *less;
  for (int a = 0; a < s->n; a++) { /* left: is the other one less? right: is ours not less? */
    sn_kvalue *y = sn_kb_load(&L->b, s->tiles[from][a], &at, 0, NULL, NULL);
    args[2 * a] = select3(L, q->is_right, q->x[a], y);
    args[2 * a + 1] = select3(L, q->is_right, y, q->x[a]);
  }
  if (L->b.status != SN_OK || !lower_apply(L, s->i->called[0], args, 1, &less)) return NULL;
  return elt2(L, SN_OP_XOR, less, q->is_right);
}

/* Halves [lo, hi) once. */
static void search_step(lowering *L, const sorter *s, int from, const search *q, sn_kvalue *lo, sn_kvalue *hi, sn_kvalue **next) {
  sn_kvalue *mid = elt2(L, SN_OP_SHIFT_RIGHT_LOGICAL, elt2(L, SN_OP_ADD, lo, hi), s64(L, 1));
  const sn_ix *at = mid ? lower_bind(L, mid, 0, s->length - 1) : NULL;
  sn_kvalue *before = at ? goes_before(L, s, from, q, at) : NULL, *open = sn_kb_compare(&L->b, SN_DIRECTION_LT, lo, hi, false);
  sn_kvalue *not_before = before ? sn_kb_elt(&L->b, SN_OP_NOT, SN_TYPE_PRED, 1, &before) : NULL;
  next[0] = select3(L, elt2(L, SN_OP_AND, open, before), elt2(L, SN_OP_ADD, mid, s64(L, 1)), lo);
  next[1] = select3(L, elt2(L, SN_OP_AND, open, not_before), mid, hi);
}

static void gpu_merge_level(lowering *L, const sorter *s, int from, int64_t w) {
  sn_ix_context *x = L->k->ix;
  sn_knode *elements, *steps;
  search q;
  int64_t n_steps = 1;
  while ((INT64_C(1) << (n_steps - 1)) < w) n_steps++;
  const sn_ix *e = element_loop(L, s, &elements);
  if (!e) return;
  const sn_ix *all = lower_const(L, s->length), *begin = sn_ix_mul(x, sn_ix_div(x, e, 2 * w), lower_const(L, 2 * w));
  const sn_ix *middle = sn_ix_min(x, sn_ix_add(x, begin, lower_const(L, w)), all), *end = sn_ix_min(x, sn_ix_add(x, begin, lower_const(L, 2 * w)), all);
  sn_kvalue *own = sn_kb_index(&L->b, SN_TYPE_S64, e), *first = sn_kb_index(&L->b, SN_TYPE_S64, begin), *split = sn_kb_index(&L->b, SN_TYPE_S64, middle);
  q.is_right = own && split ? sn_kb_compare(&L->b, SN_DIRECTION_GE, own, split, false) : NULL;
  for (int a = 0; a < s->n; a++) q.x[a] = sn_kb_load(&L->b, s->tiles[from][a], &e, 0, NULL, NULL);
  sn_kvalue *range[2] = {select3(L, q.is_right, first, split), select3(L, q.is_right, split, sn_kb_index(&L->b, SN_TYPE_S64, end))}, *next[2] = {NULL, NULL};
  const sn_ix *t = range[0] && range[1] ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, n_steps), 1, 2, range, NULL, &steps) : NULL;
  if (!t) return;
  search_step(L, s, from, &q, &steps->regions[0]->params[0], &steps->regions[0]->params[1], next);
  if (!next[0] || !next[1]) return;
  lower_end(L, 2, next, steps);
  /* Elements before it: own - begin of its run and found - begin of the other: together own + found - middle behind the pair's begin. */
  sn_kvalue *place = elt2(L, SN_OP_SUBTRACT, elt2(L, SN_OP_ADD, own, sn_knode_result(steps, 0)), split);
  const sn_ix *to = place ? lower_bind(L, place, 0, s->length - 1) : NULL;
  for (int a = 0; to && a < s->n; a++) sn_kb_store(&L->b, s->tiles[!from][a], &to, 0, NULL, q.x[a]);
  lower_end(L, 0, NULL, elements);
}

static void store_line(lowering *L, const sorter *s, int from, const sn_ix *const *line) {
  sn_knode *node;
  const sn_ix *idx[SN_MAX_RANK], *e = element_loop(L, s, &node);
  if (!e) return;
  line_index(s, line, e, idx, sn_operand_shape(s->i, 0)->rank);
  for (int a = 0; a < s->n; a++) sn_kb_store(&L->b, L->output_buffer[a], idx, 0, NULL, sn_kb_load(&L->b, s->tiles[from][a], &e, 0, NULL, NULL));
  lower_end(L, 0, NULL, node);
}

void lower_sort(lowering *L, const sn_instr *i) {
  sorter s;
  const sn_shape *x = sn_operand_shape(i, 0);
  const sn_ix *line[SN_MAX_RANK];
  int64_t grid[SN_MAX_RANK];
  int n_grid = 0, from = 0;
  memset(&s, 0, sizeof s);
  s.i = i;
  s.n = (int)i->n_operands;
  s.dim = sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0];
  s.length = x->dims[s.dim];
  if (i != L->outputs[0] || s.n > MAX_ARRAYS || s.n != L->n_outputs) {
    lower_fail(L, i, "a sort that is not the whole of its fusion, or of more than 16 arrays");
    return;
  }
  for (int a = 0; a < s.n; a++) {
    for (int t = 0; t < 2; t++) s.tiles[t][a] = sn_kernel_add_buffer(L->k, SN_KMEM_SCRATCH, sn_operand_shape(i, (uint32_t)a)->type, 1, &s.length, NULL, "line");
  }
  for (int k = 0; k < x->rank; k++) {
    if (k != s.dim) grid[n_grid++] = x->dims[k];
  }
  if (!lower_phase(L, n_grid, grid)) return;
  for (int k = 0; k < n_grid; k++) line[k] = lower_grid(L, k);
  load_line(L, &s, line);
  for (int64_t w = 1; w < s.length; w *= 2) {
    if (in_lanes(L, &s)) gpu_merge_level(L, &s, from, w);
    else merge_level(L, &s, from, w);
    from = !from;
  }
  store_line(L, &s, from, line);
}
