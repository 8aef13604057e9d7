/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reductions whose results are too few to give every worker an item: partial results over fixed blocks of the input in a workspace, combined in a second phase.
 *
 *   columns: leading dimensions reduced, trailing ones kept.   phase 0, block b of rows:   work[b, k] = op over rows r of x[r, k]   (a row of work stays in cache)
 *   whole:   few results, everything else reduced.             phase 0, chunk c:           work[e…, c] = op over the chunk
 *                                                              phase 1:                    out = init op work[0] op work[1] …
 * Blocks are cut by shape alone, so the bits depend on nothing else. */
#include "lower_reduce.h"

#include <string.h>

enum { FEW_RESULTS = 64, MOST_BLOCKS = 32, ROWS_AT_ONCE = 4, CHUNK = 8192 };

bool reduce_is_plain(const sn_instr *i, sn_opcode *op) {
  if (i->op != SN_OP_REDUCE || i->n_operands != 2 || sn_type_is_complex(i->shape->type)) return false;
  if (!sn_computation_is_binary(i->called[0], op)) return false;
  return *op == SN_OP_ADD || *op == SN_OP_MULTIPLY || *op == SN_OP_MAXIMUM || *op == SN_OP_MINIMUM || *op == SN_OP_AND || *op == SN_OP_OR || *op == SN_OP_XOR;
}

sn_type reduce_partial_type(const sn_instr *i, sn_opcode op) {
  sn_type t = i->shape->type;
  bool sum = op == SN_OP_ADD, extreme = op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM;
  /* 8-bit floats need not have an infinity to start from. */
  return sn_type_is_float(t) && ((sum && sn_type_bits(t) < 32) || (extreme && sn_type_bits(t) < 16)) ? SN_TYPE_F32 : t;
}

/* Every result is a plain reduction of the same dims of the same shape. */
static bool same_reductions(const lowering *L, sn_opcode *ops) {
  const sn_instr *first = L->outputs[0];
  if (L->n_outputs > 8) return false;
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_instr *i = L->outputs[k];
    if (!reduce_is_plain(i, &ops[k]) || !sn_shape_equal(sn_operand_shape(i, 0), sn_operand_shape(first, 0), SN_EQ_IGNORE_TYPE)) return false;
    sn_ints a = sn_instr_ints(i, SN_ATTR_DIMENSIONS), b = sn_instr_ints(first, SN_ATTR_DIMENSIONS);
    if (a.n != b.n || (a.n && memcmp(a.v, b.v, (size_t)a.n * sizeof *a.v) != 0)) return false;
  }
  return true;
}

sn_kvalue *reduce_combine(lowering *L, sn_opcode op, sn_kvalue *x, sn_kvalue *y) {
  sn_kvalue *xs[2] = {x, y};
  if (!x || !y) return NULL;
  if (y->type != x->type) xs[1] = sn_kb_elt(&L->b, SN_OP_CONVERT, x->type, 1, &y);
  return sn_kb_elt(&L->b, op, x->type, 2, xs);
}

int reduce_add_buffer(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims) {
  int b = sn_kernel_add_buffer(L->k, memory, t, rank, dims, NULL, "partial");
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

sn_kvalue *reduce_finish(lowering *L, const sn_instr *i, sn_opcode op, sn_kvalue *sum) {
  sn_kvalue *init = lower_value(L, sn_instr_operand(i, 1), 0, NULL);
  if (!init || !sum) return NULL;
  if (init->type != sum->type) init = sn_kb_elt(&L->b, SN_OP_CONVERT, sum->type, 1, &init);
  sn_kvalue *v = reduce_combine(L, op, init, sum);
  return v && v->type != i->shape->type ? sn_kb_elt(&L->b, SN_OP_CONVERT, i->shape->type, 1, &v) : v;
}

/* ---- columns ---- */

typedef struct columns {
  int n_reduced;
  int64_t rows, kept, block, n_blocks;
  const sn_shape *x;
  int work[8];
  sn_opcode ops[8];
  int lanes;
} columns;

static bool columns_fit(const lowering *L, columns *c) {
  const sn_instr *i = L->outputs[0];
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  c->x = sn_operand_shape(i, 0);
  c->n_reduced = (int)dims.n;
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return false;
  }
  if (dims.n == 0 || dims.n == c->x->rank) return false;
  c->rows = c->kept = 1;
  for (int k = 0; k < c->x->rank; k++) *(k < c->n_reduced ? &c->rows : &c->kept) *= c->x->dims[k];
  if (c->rows < 64 || c->rows * c->kept < REDUCE_LEAST_ELEMENTS || c->kept < 4 || c->kept > 65536) return false;
  c->n_blocks = c->rows / 16 < MOST_BLOCKS ? c->rows / 16 : MOST_BLOCKS;
  c->block = (c->rows + c->n_blocks - 1) / c->n_blocks;
  c->block = (c->block + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE * ROWS_AT_ONCE;
  c->n_blocks = (c->rows + c->block - 1) / c->block;
  c->lanes = lower_lanes(L, c->x->type);
  return true;
}

static void column_index(lowering *L, const columns *c, const sn_ix *row, const sn_ix *col, const sn_ix **idx) {
  lower_delinearise(L, row, c->n_reduced, c->x->dims, idx);
  lower_delinearise(L, col, c->x->rank - c->n_reduced, c->x->dims + c->n_reduced, idx + c->n_reduced);
}

/* work[b, col] op= x[row…row+n-1, col] for every column; start: without reading work. */
static void columns_step(lowering *L, const columns *c, const sn_ix *block, const sn_ix *row, int n, bool start) {
  sn_knode *node;
  const sn_ix *col = lower_for(L, SN_KLOOP_VECTOR, c->lanes, lower_const(L, 0), lower_const(L, c->kept), 1, 0, NULL, NULL, &node);
  if (!col) return;
  const sn_ix *at[2] = {block, col}, *idx[SN_MAX_RANK];
  for (int k = 0; k < L->n_outputs; k++) {
    sn_type t = reduce_partial_type(L->outputs[k], c->ops[k]);
    sn_kvalue *acc = start ? NULL : sn_kb_load(&L->b, c->work[k], at, 0, NULL, NULL);
    for (int r = 0; r < n; r++) {
      column_index(L, c, sn_ix_add(L->k->ix, row, lower_const(L, r)), col, idx);
      sn_kvalue *v = lower_value(L, sn_instr_operand(L->outputs[k], 0), 0, idx);
      if (v && !acc && v->type != t) v = sn_kb_elt(&L->b, SN_OP_CONVERT, t, 1, &v);
      acc = acc ? reduce_combine(L, c->ops[k], acc, v) : v;
    }
    sn_kb_store(&L->b, c->work[k], at, 0, NULL, acc);
  }
  lower_end(L, 0, NULL, node);
}

static void columns_blocks(lowering *L, const columns *c) {
  sn_ix_context *x = L->k->ix;
  sn_knode *node;
  if (!lower_phase(L, 1, &c->n_blocks)) return;
  const sn_ix *b = lower_grid(L, 0), *start = sn_ix_mul(x, b, lower_const(L, c->block));
  columns_step(L, c, b, start, 1, true);
  const sn_ix *n = sn_ix_min(x, lower_const(L, c->block), sn_ix_sub(x, lower_const(L, c->rows), start));
  /* Rows 1 … by fours, then the few that are left. */
  const sn_ix *quads = sn_ix_div(x, sn_ix_sub(x, n, lower_const(L, 1)), ROWS_AT_ONCE);
  const sn_ix *q = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), quads, 1, 0, NULL, NULL, &node);
  if (!q) return;
  columns_step(L, c, b, sn_ix_add(x, sn_ix_add(x, start, lower_const(L, 1)), sn_ix_mul(x, q, lower_const(L, ROWS_AT_ONCE))), ROWS_AT_ONCE, false);
  lower_end(L, 0, NULL, node);
  const sn_ix *first = sn_ix_add(x, lower_const(L, 1), sn_ix_mul(x, quads, lower_const(L, ROWS_AT_ONCE)));
  const sn_ix *r = lower_for(L, SN_KLOOP_SEQ, 0, first, n, 1, 0, NULL, NULL, &node);
  if (!r) return;
  columns_step(L, c, b, sn_ix_add(x, start, r), 1, false);
  lower_end(L, 0, NULL, node);
}

static void columns_finish(lowering *L, const columns *c) {
  sn_knode *node, *inner;
  if (!lower_phase(L, 0, NULL)) return;
  const sn_ix *col = lower_for(L, SN_KLOOP_VECTOR, c->lanes, lower_const(L, 0), lower_const(L, c->kept), 1, 0, NULL, NULL, &node);
  const sn_ix *idx[SN_MAX_RANK];
  if (!col) return;
  lower_delinearise(L, col, c->x->rank - c->n_reduced, c->x->dims + c->n_reduced, idx);
  for (int k = 0; k < L->n_outputs && L->b.status == SN_OK; k++) {
    const sn_ix *at[2] = {lower_const(L, 0), col};
    sn_kvalue *sum = sn_kb_load(&L->b, c->work[k], at, 0, NULL, NULL);
    at[0] = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 1), lower_const(L, c->n_blocks), 1, 1, &sum, NULL, &inner);
    if (!at[0]) return;
    sn_kvalue *next = reduce_combine(L, c->ops[k], &inner->regions[0]->params[0], sn_kb_load(&L->b, c->work[k], at, 0, NULL, NULL));
    lower_end(L, 1, &next, inner);
    sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, reduce_finish(L, L->outputs[k], c->ops[k], sn_knode_result(inner, 0)));
  }
  lower_end(L, 0, NULL, node);
}

static void lower_columns(lowering *L, columns *c) {
  int64_t dims[2] = {c->n_blocks, c->kept};
  for (int k = 0; k < L->n_outputs; k++) c->work[k] = reduce_add_buffer(L, SN_KMEM_WORK, reduce_partial_type(L->outputs[k], c->ops[k]), 2, dims);
  columns_blocks(L, c);
  columns_finish(L, c);
}

/* ---- whole ---- */

static void whole_partials(lowering *L, const sn_instr *i, sn_opcode op, const sn_index_map *map, int64_t total, int64_t n_chunks, int work) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 1];
  int rank = i->shape->rank;
  const sn_ix *at[SN_MAX_RANK + 1], *in[SN_MAX_RANK], *syms[SN_MAX_RANK];
  sn_knode *node;
  for (int k = 0; k < rank; k++) grid[k] = i->shape->dims[k];
  grid[rank] = n_chunks;
  if (!lower_phase(L, rank + 1, grid)) return;
  for (int k = 0; k <= rank; k++) at[k] = lower_grid(L, k);
  const sn_ix *start = sn_ix_mul(x, at[rank], lower_const(L, CHUNK));
  const sn_ix *n = sn_ix_min(x, lower_const(L, CHUNK), sn_ix_sub(x, lower_const(L, total), start));
  sn_type t = reduce_partial_type(i, op);
  sn_kvalue *identity = lower_identity(L, op, t);
  const sn_ix *j = identity ? lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, t), lower_const(L, 0), n, 1, 1, &identity, &op, &node) : NULL;
  if (!j) return;
  lower_delinearise(L, sn_ix_add(x, start, j), map->n_syms, map->sym_sizes, syms);
  const sn_access *a = lower_access(L, i, map, 0);
  if (!a || !lower_at(L, i, map, a, at, syms, in)) return;
  sn_kvalue *next = reduce_combine(L, op, &node->regions[0]->params[0], lower_value(L, sn_instr_operand(i, 0), 0, in));
  lower_end(L, 1, &next, node);
  sn_kb_store(&L->b, work, at, 0, NULL, sn_knode_result(node, 0));
}

static void whole_finish(lowering *L, const sn_instr *i, sn_opcode op, int64_t n_chunks, int work) {
  const sn_ix *at[SN_MAX_RANK + 1];
  int rank = i->shape->rank;
  sn_knode *node;
  if (!lower_phase(L, rank, i->shape->dims)) return;
  for (int k = 0; k < rank; k++) at[k] = lower_grid(L, k);
  at[rank] = lower_const(L, 0);
  sn_kvalue *sum = sn_kb_load(&L->b, work, at, 0, NULL, NULL);
  at[rank] = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 1), lower_const(L, n_chunks), 1, 1, &sum, NULL, &node);
  if (!at[rank]) return;
  sn_kvalue *next = reduce_combine(L, op, &node->regions[0]->params[0], sn_kb_load(&L->b, work, at, 0, NULL, NULL));
  lower_end(L, 1, &next, node);
  sn_kb_store(&L->b, L->output_buffer[0], at, 0, NULL, reduce_finish(L, i, op, sn_knode_result(node, 0)));
}

static bool lower_whole(lowering *L, sn_opcode op) {
  const sn_instr *i = L->outputs[0];
  int64_t kept = sn_shape_elements(i->shape), total = kept ? sn_shape_elements(sn_operand_shape(i, 0)) / kept : 0;
  sn_index_map map;
  if (L->n_outputs != 1 || kept == 0 || kept > FEW_RESULTS || total < REDUCE_LEAST_ELEMENTS || i->shape->rank == SN_MAX_RANK) return false;
  if (!lower_index_map(L, i, 0, &map)) return true;
  int64_t dims[SN_MAX_RANK + 1], n_chunks = (total + CHUNK - 1) / CHUNK;
  for (int k = 0; k < i->shape->rank; k++) dims[k] = i->shape->dims[k];
  dims[i->shape->rank] = n_chunks;
  int work = reduce_add_buffer(L, SN_KMEM_WORK, reduce_partial_type(i, op), i->shape->rank + 1, dims);
  whole_partials(L, i, op, &map, total, n_chunks, work);
  whole_finish(L, i, op, n_chunks, work);
  return true;
}

bool lower_split_reduce(lowering *L) {
  columns c;
  memset(&c, 0, sizeof c);
  if (lower_on_gpu(L) && lower_gpu_columns(L)) return true;
  if (!same_reductions(L, c.ops)) return false;
  if (!lower_on_gpu(L) && columns_fit(L, &c)) {
    lower_columns(L, &c);
    return true;
  }
  return lower_whole(L, c.ops[0]);
}
