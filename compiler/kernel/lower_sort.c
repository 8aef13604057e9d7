/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sort: a merge sort from the bottom up for each line along the sorted dimension, in scratch, any comparator, several arrays carried along.
 *
 *   level w = 1, 2, 4, …: runs of w become runs of 2 w, from one scratch tile to the other. Where the right run's head is not less than the left's, the left goes first: stable.
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

static void load_line(lowering *L, const sorter *s, const sn_ix *const *line) {
  sn_knode *node;
  const sn_ix *idx[SN_MAX_RANK], *e = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, s->length), 1, 0, NULL, NULL, &node);
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

static void store_line(lowering *L, const sorter *s, int from, const sn_ix *const *line) {
  sn_knode *node;
  const sn_ix *idx[SN_MAX_RANK], *e = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, s->length), 1, 0, NULL, NULL, &node);
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
    merge_level(L, &s, from, w);
    from = !from;
  }
  store_line(L, &s, from, line);
}
