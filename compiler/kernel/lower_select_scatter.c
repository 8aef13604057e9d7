/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* select-and-scatter: each window of the operand names one of its elements, and the window's source value is combined into the result there.
 *
 * Dimensions in which windows are single elements (batch, features) never meet: they become the grid, and lanes for the last one. Along the others windows may overlap,
 * so their positions run in order: the result does not depend on threads. Narrow sums are kept in f32 in a workspace and rounded once. */
#include "elemental.h"

#include <string.h>

typedef struct pool {
  const sn_instr *i;
  const sn_window *w;
  const sn_shape *x, *source;
  sn_type sum;                  /* of the accumulator */
  int to;                       /* its buffer */
  bool alone[SN_MAX_RANK];      /* windows of single elements that do not meet */
  int lane;                     /* the dimension in lanes, or -1 */
} pool;

static bool is_alone(const sn_window_dim *w) { return w->size == 1 && w->stride == 1 && w->pad_low == 0 && w->pad_high == 0 && w->lhs_dilate <= 1; }

static void pool_init(lowering *L, pool *p, const sn_instr *i) {
  sn_opcode op;
  memset(p, 0, sizeof *p);
  p->i = i;
  p->w = sn_instr_window(i);
  p->x = sn_operand_shape(i, 0);
  p->source = sn_operand_shape(i, 1);
  p->sum = i->shape->type;
  if (sn_type_is_float(p->sum) && sn_type_bits(p->sum) < 32 && sn_computation_is_binary(i->called[1], &op) && op == SN_OP_ADD) p->sum = SN_TYPE_F32;
  p->lane = -1;
  for (int k = 0; k < p->x->rank; k++) p->alone[k] = is_alone(&p->w->dims[k]) && p->x->dims[k] == p->source->dims[k];
  int last = p->x->rank - 1;
  if (last >= 0 && p->alone[last] && p->x->dims[last] >= 4 && !sn_type_is_complex(p->x->type)) p->lane = last;
  p->to = p->sum == i->shape->type ? L->output_buffer[0] : sn_kernel_add_buffer(L->k, SN_KMEM_WORK, p->sum, p->x->rank, p->x->dims, NULL, "sums");
  if (p->to < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
}

/* A phase over the elements of the operand's shape; calls `each` with the index. */
static void over_elements(lowering *L, const pool *p, void (*each)(lowering *L, const pool *p, const sn_ix *const *idx)) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *nodes[SN_MAX_RANK];
  int rank = p->x->rank, g = rank > 1 ? 1 : 0;
  if (!lower_phase(L, g, p->x->dims)) return;
  for (int k = 0; k < rank; k++) {
    bool vector = k == rank - 1 && k >= g && p->x->dims[k] > 1 && !sn_type_is_complex(p->x->type);
    idx[k] = k < g ? lower_grid(L, k)
                   : lower_for(L, vector ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, vector ? lower_lanes(L, p->sum) : 0, lower_const(L, 0), lower_const(L, p->x->dims[k]), 1, 0, NULL, NULL,
                               &nodes[k]);
    if (!idx[k]) return;
  }
  each(L, p, idx);
  for (int k = rank - 1; k >= g; k--) lower_end(L, 0, NULL, nodes[k]);
}

static void store_start(lowering *L, const pool *p, const sn_ix *const *idx) {
  sn_kb_store(&L->b, p->to, idx, 0, NULL, lower_convert(L, lower_value(L, sn_instr_operand(p->i, 2), 0, NULL), p->sum));
}

static void store_rounded(lowering *L, const pool *p, const sn_ix *const *idx) {
  sn_kb_store(&L->b, L->output_buffer[0], idx, 0, NULL, lower_convert(L, sn_kb_load(&L->b, p->to, idx, 0, NULL, NULL), p->i->shape->type));
}

/* ---- which element a window names ---- */

typedef struct choice {
  int n;                          /* dimensions along which windows have several elements */
  int dims[SN_MAX_RANK];
  sn_knode *loops[SN_MAX_RANK];
  sn_kvalue *carries[SN_MAX_RANK + 1]; /* the value, then its position in each of dims; -1: none yet */
} choice;

static sn_kvalue *s64(lowering *L, int64_t v) { return sn_kb_const_i64(&L->b, SN_TYPE_S64, v); }

/* Loops over the window's elements. idx: of the operand for the element visited. */
static bool open_window(lowering *L, const pool *p, choice *c, const sn_ix *const *at, const sn_ix **idx) {
  sn_ix_context *x = L->k->ix;
  c->carries[0] = sn_kb_const_f64(&L->b, p->x->type, 0);
  c->n = 0;
  for (int k = 0; k < p->x->rank; k++) {
    idx[k] = at[k];
    if (!p->alone[k]) c->dims[c->n++] = k;
  }
  for (int m = 0; m < c->n; m++) c->carries[m + 1] = s64(L, -1);
  for (int m = 0; m < c->n; m++) {
    const sn_window_dim *w = &p->w->dims[c->dims[m]];
    const sn_ix *e = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, w->size), 1, c->n + 1, c->carries, NULL, &c->loops[m]);
    if (!e) return false;
    for (int q = 0; q <= c->n; q++) c->carries[q] = &c->loops[m]->regions[0]->params[q];
    const sn_ix *start = sn_ix_sub(x, sn_ix_mul(x, at[c->dims[m]], lower_const(L, w->stride)), lower_const(L, w->pad_low));
    idx[c->dims[m]] = sn_ix_add(x, start, sn_ix_mul(x, e, lower_const(L, w->rhs_dilate > 1 ? w->rhs_dilate : 1)));
  }
  return L->b.status == SN_OK;
}

/* Positions outside the operand lie in the padding: they are never named. */
static int push_guards(lowering *L, const pool *p, const choice *c, const sn_ix *const *idx) {
  int before = L->n_guards;
  for (int m = 0; m < c->n; m++) {
    int64_t size = p->x->dims[c->dims[m]];
    const sn_ix *e = idx[c->dims[m]];
    if (!e || (e->lo >= 0 && e->hi < size)) continue;
    if (L->n_guards == LOWER_MAX_GUARDS) {
      lower_fail(L, p->i, "too many dimensions");
      return before;
    }
    L->guards[L->n_guards++] = (sn_ix_guard){e, 0, size - 1};
  }
  return before;
}

/* Takes the element visited unless `select` keeps the one named before. */
static bool visit(lowering *L, const pool *p, choice *c, const sn_ix *const *idx) {
  int before = push_guards(L, p, c, idx);
  sn_kvalue *inside = lower_guard_value(L, L->n_guards - before, &L->guards[before]);
  sn_kvalue *v = lower_value(L, sn_instr_operand(p->i, 0), 0, idx), *keep, *args[2] = {c->carries[0], v};
  L->n_guards = before;
  if (!v || !lower_apply(L, p->i->called[0], args, 1, &keep)) return false;
  sn_kvalue *none = c->n ? sn_kb_compare(&L->b, SN_DIRECTION_LT, c->carries[1], s64(L, 0), false) : sn_kb_const_i64(&L->b, SN_TYPE_PRED, 1);
  sn_kvalue *take = lower_binary(L, SN_OP_AND, inside, lower_binary(L, SN_OP_OR, none, lower_unary(L, SN_OP_NOT, SN_TYPE_PRED, keep)));
  sn_kvalue *next[SN_MAX_RANK + 1];
  next[0] = lower_select(L, take, v, c->carries[0]);
  for (int m = 0; m < c->n; m++) next[m + 1] = lower_select(L, take, sn_kb_index(&L->b, SN_TYPE_S64, idx[c->dims[m]]), c->carries[m + 1]);
  for (int m = c->n - 1; m >= 0 && L->b.status == SN_OK; m--) {
    lower_end(L, c->n + 1, next, c->loops[m]);
    for (int q = 0; q <= c->n; q++) next[q] = sn_knode_result(c->loops[m], q);
  }
  for (int q = 0; q <= c->n; q++) c->carries[q] = next[q];
  return L->b.status == SN_OK;
}

static void apply_source(lowering *L, const pool *p, const sn_ix *const *at) {
  choice c;
  const sn_ix *idx[SN_MAX_RANK];
  sn_ix_guard guards[SN_MAX_RANK];
  int n_guards = 0;
  if (!open_window(L, p, &c, at, idx) || !visit(L, p, &c, idx)) return;
  for (int m = 0; m < c.n; m++) {
    int64_t size = p->x->dims[c.dims[m]];
    idx[c.dims[m]] = lower_bind(L, c.carries[m + 1], -1, size - 1);
    if (!idx[c.dims[m]]) return;
    guards[n_guards++] = (sn_ix_guard){idx[c.dims[m]], 0, size - 1};
  }
  sn_kvalue *args[2], *sum;
  args[0] = sn_kb_load(&L->b, p->to, idx, n_guards, guards, n_guards ? sn_kb_const_f64(&L->b, p->sum, 0) : NULL);
  args[1] = lower_convert(L, lower_value(L, sn_instr_operand(p->i, 1), 0, at), p->sum);
  if (p->sum != p->i->shape->type) sum = lower_binary(L, SN_OP_ADD, args[0], args[1]);
  else if (L->b.status != SN_OK || !lower_apply(L, p->i->called[1], args, 1, &sum)) return;
  sn_kb_store(&L->b, p->to, idx, n_guards, guards, sum);
}

static void apply_sources(lowering *L, const pool *p) {
  const sn_ix *at[SN_MAX_RANK];
  sn_knode *nodes[SN_MAX_RANK];
  int64_t grid[SN_MAX_RANK];
  int n = 0, n_grid = 0;
  for (int k = 0; k < p->x->rank; k++) {
    if (p->alone[k] && k != p->lane) grid[n_grid++] = p->x->dims[k];
  }
  if (!lower_phase(L, n_grid, grid)) return;
  n_grid = 0;
  for (int pass = 0; pass < 3; pass++) { /* the grid, positions in order, the lanes */
    for (int k = 0; k < p->x->rank; k++) {
      int mine = k == p->lane ? 2 : p->alone[k] ? 0 : 1;
      if (mine != pass) continue;
      if (pass == 0) {
        at[k] = lower_grid(L, n_grid++);
        continue;
      }
      at[k] = lower_for(L, pass == 2 ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, pass == 2 ? lower_lanes(L, p->sum) : 0, lower_const(L, 0), lower_const(L, p->source->dims[k]), 1, 0, NULL,
                        NULL, &nodes[n]);
      if (!at[k]) return;
      n++;
    }
  }
  apply_source(L, p, at);
  while (n > 0) lower_end(L, 0, NULL, nodes[--n]);
}

void lower_select_and_scatter(lowering *L, const sn_instr *i) {
  pool p;
  if (i != L->outputs[0]) {
    lower_fail(L, i, "not the whole of its fusion");
    return;
  }
  pool_init(L, &p, i);
  for (int k = 0; k < p.x->rank; k++) {
    if (p.w->dims[k].lhs_dilate > 1 || p.w->dims[k].reversal) lower_fail(L, i, "a window that is dilated or reversed");
  }
  if (L->b.status != SN_OK) return;
  over_elements(L, &p, store_start);
  if (sn_shape_elements(p.source) > 0) apply_sources(L, &p);
  if (p.sum != i->shape->type) over_elements(L, &p, store_rounded);
}
