/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Long reductions to few results on a GPU, wherever in a fusion they stand. The last dimension is kept, so that neighbouring threads read neighbours.
 *
 *   phase 0, 32 columns, block b of rows:  tile[p, k] = x[p, k] op x[p + 8, k] op …  over its rows    a thread a column k and a part p
 *                                          work[b, k] = tile[0, k] op tile[1, k] …
 *   phase 1, the same columns:             tile[p, k] = work[p, k] op work[p + 8, k] op …             whichever block is the last to be done with them
 *                                          result     = what the fusion makes of init op tile[0, k] op tile[1, k] …
 *
 * Where the fusion does more behind the reduction than change elements one by one, phase 1 is the loop template, in a launch of its own, whose elements take all of work[…, k].
 * Blocks are cut by shape alone, so the bits depend on nothing else. */
#include "lower_reduce.h"

#include <string.h>

enum { LEAST_ROWS = 64, BLOCK_ROWS = 32, BLOCKS = 512 /* with all columns */, WIDTH = 32, PARTS = 8, MOST = 8 };

typedef struct lower_partial {
  const sn_instr *instr;
  sn_opcode op;
  sn_type type;
  int work, rows, tile; /* rows: tile of phase 0; tile -1: results are taken from work */
  int64_t n;      /* rows of either */
} lower_partial;

typedef struct columns {
  const sn_shape *x;
  int n_reduced, n_kept, reduced[SN_MAX_RANK], kept_dims[SN_MAX_RANK];
  int64_t rows, kept, block, n_blocks, reduced_sizes[SN_MAX_RANK], kept_sizes[SN_MAX_RANK];
  int parts, n;
  lower_partial all[MOST];
} columns;

/* ---- what is reduced ---- */

/* Every block has rows for all of its parts. */
static void cut(columns *c) {
  int64_t across = (c->kept + WIDTH - 1) / WIDTH, most = (BLOCKS + across - 1) / across;
  c->n_blocks = c->rows / BLOCK_ROWS < most ? c->rows / BLOCK_ROWS : most;
  for (bool short_one = true; short_one; c->n_blocks -= short_one) {
    c->block = (c->rows + c->n_blocks - 1) / c->n_blocks;
    short_one = c->n_blocks > 1 && c->rows - (c->n_blocks - 1) * c->block < PARTS;
  }
  for (c->parts = 1; 2 * c->parts <= PARTS && 2 * c->parts <= c->n_blocks;) c->parts *= 2;
}

static bool fits(const sn_instr *i, columns *c) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  uint64_t set = 0;
  c->x = sn_operand_shape(i, 0);
  c->rows = c->kept = 1;
  c->n_reduced = c->n_kept = 0;
  for (int64_t k = 0; k < dims.n; k++) set |= UINT64_C(1) << dims.v[k];
  for (int k = 0; k < c->x->rank; k++) {
    bool out = set >> k & 1;
    *(out ? &c->rows : &c->kept) *= c->x->dims[k];
    (out ? c->reduced : c->kept_dims)[out ? c->n_reduced : c->n_kept] = k;
    (out ? c->reduced_sizes : c->kept_sizes)[out ? c->n_reduced++ : c->n_kept++] = c->x->dims[k];
  }
  if (c->n_reduced == 0 || c->n_kept == 0 || c->reduced[c->n_reduced - 1] == c->x->rank - 1 || c->n_kept == SN_MAX_RANK) return false;
  if (c->rows < LEAST_ROWS || c->rows * c->kept < REDUCE_LEAST_ELEMENTS || c->kept < 4 || c->kept > 65536) return false;
  cut(c);
  return c->n_blocks > 1;
}

static bool alike(const sn_instr *a, const sn_instr *b) {
  sn_ints x = sn_instr_ints(a, SN_ATTR_DIMENSIONS), y = sn_instr_ints(b, SN_ATTR_DIMENSIONS);
  if (!sn_shape_equal(sn_operand_shape(a, 0), sn_operand_shape(b, 0), SN_EQ_IGNORE_TYPE)) return false;
  return x.n == y.n && memcmp(x.v, y.v, (size_t)x.n * sizeof *x.v) == 0;
}

static bool add(columns *c, const sn_instr *i) {
  sn_opcode op;
  if (c->n == MOST || !reduce_is_plain(i, &op) || (c->n ? !alike(i, c->all[0].instr) : !fits(i, c))) return false;
  c->all[c->n++] = (lower_partial){i, op, reduce_partial_type(i, op), -1, -1, -1, c->n_blocks};
  return true;
}

static bool one_by_one(const sn_instr *i, int64_t elements) {
  if (i->op == SN_OP_TUPLE) return true;
  return (sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_RESHAPE || i->op == SN_OP_BITCAST || i->op == SN_OP_COPY) && sn_shape_elements(i->shape) == elements;
}

/* Reductions of the same dimensions, none of another's result; others that stand before them stay as they are. *pointwise: behind them elements keep their places. */
static bool collect(const lowering *L, columns *c, bool *pointwise) {
  uint32_t first;
  bool *behind = lower_marks(L, &first);
  *pointwise = true;
  if (!behind) return false;
  SN_FOR_INSTRS(i, L->body) {
    bool any = false;
    for (uint32_t k = 0; k < i->n_operands; k++) any |= behind[sn_instr_operand(i, k)->id - first];
    if (any && i->op == SN_OP_REDUCE) return false;
    if (any) *pointwise &= one_by_one(i, c->kept);
    behind[i->id - first] = any || add(c, i);
  }
  for (int k = 0; k < L->n_outputs; k++) *pointwise &= behind[L->outputs[k]->id - first];
  return c->n > 0;
}

static bool collect_root(const lowering *L, columns *c, bool *pointwise) {
  *pointwise = true;
  return L->body ? collect(L, c, pointwise) : add(c, L->root);
}

/* ---- phase 0 ---- */

static void element_index(lowering *L, const columns *c, const sn_ix *row, const sn_ix *const *kept, const sn_ix **idx) {
  const sn_ix *out[SN_MAX_RANK];
  lower_delinearise(L, row, c->n_reduced, c->reduced_sizes, out);
  for (int k = 0; k < c->n_reduced; k++) idx[c->reduced[k]] = out[k];
  for (int k = 0; k < c->n_kept; k++) idx[c->kept_dims[k]] = kept[k];
}

/* op over every PARTS-th of n rows, beginning with the one of this part. */
static sn_kvalue *part_sum(lowering *L, const columns *c, const lower_partial *p, const sn_ix *start, const sn_ix *n, const sn_ix *part, const sn_ix *const *kept) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *idx[SN_MAX_RANK];
  const sn_instr *of = sn_instr_operand(p->instr, 0);
  sn_knode *node;
  element_index(L, c, sn_ix_add(x, start, part), kept, idx);
  sn_kvalue *first = lower_convert(L, lower_value(L, of, 0, idx), p->type);
  const sn_ix *r = first ? lower_for(L, SN_KLOOP_SEQ, 0, sn_ix_add(x, part, lower_const(L, PARTS)), n, PARTS, 1, &first, NULL, &node) : NULL;
  if (!r) return NULL;
  element_index(L, c, sn_ix_add(x, start, r), kept, idx);
  sn_kvalue *next = reduce_combine(L, p->op, &node->regions[0]->params[0], lower_value(L, of, 0, idx));
  lower_end(L, 1, &next, node);
  return sn_knode_result(node, 0);
}

/* The open phase's columns of grid variable g, `lanes` at a time. */
static const sn_ix *column_loop(lowering *L, const columns *c, int g, int lanes, sn_knode **node) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *start = sn_ix_mul(x, lower_grid(L, g), lower_const(L, lanes)), *hi = lower_const(L, lanes);
  if (c->kept % lanes) hi = sn_ix_min(x, hi, sn_ix_sub(x, lower_const(L, c->kept), start));
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, lanes, lower_const(L, 0), hi, 1, 0, NULL, NULL, node);
  return j ? sn_ix_add(x, start, j) : NULL;
}

/* Lanes as parts and columns of 32; columns past the end repeat the last one. */
static const sn_ix *open_parts(lowering *L, const columns *c, int parts, const sn_ix **to, const sn_ix **kept, sn_knode **node) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *lane = lower_for(L, SN_KLOOP_VECTOR, WIDTH * parts, lower_const(L, 0), lower_const(L, (int64_t)WIDTH * parts), 1, 0, NULL, NULL, node);
  if (!lane) return NULL;
  to[0] = sn_ix_div(x, lane, WIDTH);
  to[1] = sn_ix_mod(x, lane, WIDTH);
  const sn_ix *column = sn_ix_add(x, sn_ix_mul(x, lower_grid(L, 0), lower_const(L, WIDTH)), to[1]);
  lower_delinearise(L, sn_ix_min(x, column, lower_const(L, c->kept - 1)), c->n_kept, c->kept_sizes, kept);
  return lane;
}

static sn_kvalue *sum_of_parts(lowering *L, const lower_partial *p, const sn_ix *j) {
  const sn_ix *at[2] = {lower_const(L, 0), j};
  sn_kvalue *sum = sn_kb_load(&L->b, p->rows, at, 0, NULL, NULL);
  for (int part = 1; part < PARTS; part++) {
    at[0] = lower_const(L, part);
    sum = reduce_combine(L, p->op, sum, sn_kb_load(&L->b, p->rows, at, 0, NULL, NULL));
  }
  return sum;
}

static void blocks(lowering *L, columns *c) {
  sn_ix_context *x = L->k->ix;
  sn_knode *node;
  int64_t grid[2] = {(c->kept + WIDTH - 1) / WIDTH, c->n_blocks}, dims[2] = {PARTS, WIDTH};
  for (int k = 0; k < c->n; k++) c->all[k].rows = reduce_add_buffer(L, SN_KMEM_SCRATCH, c->all[k].type, 2, dims);
  if (L->b.status != SN_OK || !lower_phase(L, 2, grid)) return;
  const sn_ix *b = lower_grid(L, 1), *start = sn_ix_mul(x, b, lower_const(L, c->block)), *to[2], *at[SN_MAX_RANK] = {b};
  const sn_ix *n = sn_ix_min(x, lower_const(L, c->block), sn_ix_sub(x, lower_const(L, c->rows), start));
  if (!open_parts(L, c, PARTS, to, at + 1, &node)) return;
  for (int k = 0; k < c->n; k++) sn_kb_store(&L->b, c->all[k].rows, to, 0, NULL, part_sum(L, c, &c->all[k], start, n, to[0], at + 1));
  lower_end(L, 0, NULL, node);
  const sn_ix *column = column_loop(L, c, 0, WIDTH, &node);
  if (!column) return;
  lower_delinearise(L, column, c->n_kept, c->kept_sizes, at + 1);
  const sn_ix *j = sn_ix_sub(x, column, sn_ix_mul(x, lower_grid(L, 0), lower_const(L, WIDTH)));
  for (int k = 0; k < c->n; k++) sn_kb_store(&L->b, c->all[k].work, at, 0, NULL, sum_of_parts(L, &c->all[k], j));
  lower_end(L, 0, NULL, node);
}

/* ---- phase 1 ---- */

/* tile[p, j] = every parts-th row of work, beginning with the p-th. */
static void fill_tiles(lowering *L, const columns *c) {
  sn_ix_context *x = L->k->ix;
  sn_knode *node, *inner;
  const sn_ix *to[2], *at[SN_MAX_RANK];
  if (!open_parts(L, c, c->parts, to, at + 1, &node)) return;
  const sn_ix *part = to[0];
  for (int k = 0; k < c->n && L->b.status == SN_OK; k++) {
    const lower_partial *p = &c->all[k];
    at[0] = part;
    sn_kvalue *sum = sn_kb_load(&L->b, p->work, at, 0, NULL, NULL);
    at[0] = lower_for(L, SN_KLOOP_SEQ, 0, sn_ix_add(x, part, lower_const(L, c->parts)), lower_const(L, c->n_blocks), c->parts, 1, &sum, NULL, &inner);
    if (!at[0]) return;
    sn_kvalue *next = reduce_combine(L, p->op, &inner->regions[0]->params[0], sn_kb_load(&L->b, p->work, at, 0, NULL, NULL));
    lower_end(L, 1, &next, inner);
    sn_kb_store(&L->b, p->tile, to, 0, NULL, sn_knode_result(inner, 0));
  }
  lower_end(L, 0, NULL, node);
}

static void finish_tiles(lowering *L, columns *c) {
  int64_t grid = (c->kept + WIDTH - 1) / WIDTH, dims[2] = {c->parts, WIDTH};
  sn_knode *node;
  for (int k = 0; k < c->n; k++) c->all[k].tile = reduce_add_buffer(L, SN_KMEM_SCRATCH, c->all[k].type, 2, dims);
  sn_kphase *phase = L->b.status == SN_OK ? lower_phase(L, 1, &grid) : NULL;
  if (!phase) return;
  phase->finishes = true;
  fill_tiles(L, c);
  for (int k = 0; k < c->n; k++) c->all[k].n = c->parts;
  const sn_ix *column = column_loop(L, c, 0, WIDTH, &node), *idx[SN_MAX_RANK];
  if (!column) return;
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_shape *s = lower_output_shape(L, k);
    lower_delinearise(L, column, s->rank, s->dims, idx);
    sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
  lower_end(L, 0, NULL, node);
}

/* ---- results ---- */

const lower_partial *lower_find_partial(const lowering *L, const sn_instr *i) {
  for (int k = 0; k < L->n_partials; k++) {
    if (L->partials[k].instr == i) return &L->partials[k];
  }
  return NULL;
}

/* Columns of a tile are those of work modulo its width. */
static const sn_ix *tile_column(lowering *L, const lower_partial *p, const sn_ix *const *idx) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *all = lower_const(L, 0);
  int64_t row = 1;
  for (int k = p->instr->shape->rank - 1; k >= 0; k--) {
    all = sn_ix_add(x, all, sn_ix_mul(x, idx[k], lower_const(L, row)));
    row *= p->instr->shape->dims[k];
  }
  return sn_ix_mod(x, all, WIDTH);
}

sn_kvalue *lower_emit_partials(lowering *L, const lower_partial *p, const sn_ix *const *idx) {
  const sn_ix *at[SN_MAX_RANK] = {lower_const(L, 0)};
  sn_knode *node;
  int buffer = p->tile < 0 ? p->work : p->tile;
  if (p->tile >= 0) at[1] = tile_column(L, p, idx);
  for (int k = 0; p->tile < 0 && k < p->instr->shape->rank; k++) at[1 + k] = idx[k];
  sn_kvalue *sum = sn_kb_load(&L->b, buffer, at, 0, NULL, NULL);
  if (p->n > 1) {
    at[0] = sum ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 1), lower_const(L, p->n), 1, 1, &sum, NULL, &node) : NULL;
    if (!at[0]) return NULL;
    sn_kvalue *next = reduce_combine(L, p->op, &node->regions[0]->params[0], sn_kb_load(&L->b, buffer, at, 0, NULL, NULL));
    lower_end(L, 1, &next, node);
    sum = sn_knode_result(node, 0);
  }
  sn_kvalue *v = reduce_finish(L, p->instr, p->op, sum);
  lower_remember(L, p->instr, 0, idx, v);
  return v;
}

bool lower_gpu_columns(lowering *L) {
  columns *c = SN_NEW(L->arena, columns);
  bool pointwise;
  int64_t dims[SN_MAX_RANK];
  if (!c || !collect_root(L, c, &pointwise)) return false;
  dims[0] = c->n_blocks;
  memcpy(dims + 1, c->kept_sizes, (size_t)c->n_kept * sizeof *dims);
  for (int k = 0; k < c->n; k++) c->all[k].work = reduce_add_buffer(L, SN_KMEM_WORK, c->all[k].type, c->n_kept + 1, dims);
  if (L->b.status != SN_OK) return true;
  blocks(L, c);
  L->partials = c->all;
  L->n_partials = c->n;
  if (pointwise) finish_tiles(L, c);
  else lower_loops(L);
  return true;
}
