/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Passes over rows that add up columns on the way, on a GPU: the derivative of layer norm, whose scale and offset want sums over all rows of what the pass computes.
 *
 *   phase 0, block of rows (group g, b):   for each of its rows: what lower_loops.c does with a row; sums[j] += element j
 *                                          work[g, b, j] = sums[j]
 *   phase 1, group g:                      whole[g, j] = work[g, 0, j] + work[g, 1, j] + …     by the last of its blocks
 *   phase 2:                               result[j] = init + whole[0, j] + whole[1, j] + …    by the last of all
 *
 * In two steps, so that no block has much to add alone. Blocks and groups are cut by shape alone, so the bits depend on nothing else. */
#include "lower_reduce.h"

#include <string.h>

enum { MOST = 4, BLOCKS = 512, LEAST_ROWS = 256, LEAST_COLUMNS = 32, MOST_COLUMNS = 4096 };

typedef struct sums {
  const sn_shape *s;        /* of the elements */
  int prefix, n;
  int64_t columns, rows, chunk, groups, blocks; /* rows of a block; groups, blocks of one */
  int output[MOST], tile[MOST], work[MOST], whole[MOST];
} sums;

/* ---- what the fusion looks like ---- */

static bool is_column_sum(const sn_instr *i) {
  sn_opcode op;
  if (!reduce_is_plain(i, &op) || op != SN_OP_ADD || i->shape->type != SN_TYPE_F32) return false;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return false;
  }
  return dims.n < sn_operand_shape(i, 0)->rank;
}

static bool is_sum_output(const lowering *L, const sums *m, const sn_instr *i) {
  for (int k = 0; k < m->n; k++) {
    if (L->outputs[m->output[k]] == i) return true;
  }
  return false;
}

/* Results are elements of one shape, values of its rows, and sums of its columns; other reductions are of rows. */
static bool find_outputs(const lowering *L, sums *m) {
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_shape *s = lower_output_shape(L, k);
    if (!m->s || sn_shape_elements(s) > sn_shape_elements(m->s)) m->s = s;
  }
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_instr *i = L->outputs[k];
    if (!is_column_sum(i) || sn_shape_elements(sn_operand_shape(i, 0)) != sn_shape_elements(m->s)) continue;
    if (m->n == MOST || (m->n && sn_shape_elements(i->shape) != m->columns)) return false;
    m->columns = sn_shape_elements(i->shape);
    m->output[m->n++] = k;
  }
  return m->n > 0 && m->columns >= LEAST_COLUMNS && m->columns <= MOST_COLUMNS;
}

static bool fits(const lowering *L, sums *m) {
  int64_t row = 1;
  if (!find_outputs(L, m)) return false;
  for (m->prefix = m->s->rank; m->prefix > 1 && row < m->columns;) row *= m->s->dims[--m->prefix];
  int own = lower_row_rank(L, m->s);
  m->rows = sn_shape_elements(m->s) / m->columns;
  if (row != m->columns || (own >= 0 && own != m->prefix) || m->rows < LEAST_ROWS) return false;
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_shape *s = lower_output_shape(L, k);
    bool of_rows = s->rank == m->prefix && memcmp(s->dims, m->s->dims, (size_t)m->prefix * sizeof *s->dims) == 0;
    if (!is_sum_output(L, m, L->outputs[k]) && !of_rows && !sn_shape_equal(s, m->s, SN_EQ_IGNORE_TYPE)) return false;
  }
  SN_FOR_INSTRS(i, L->body) {
    if (i->op == SN_OP_DOT || i->op == SN_OP_CONVOLUTION || i->op == SN_OP_REDUCE_WINDOW) return false;
    if (i->op == SN_OP_REDUCE && !is_sum_output(L, m, i) && !(sn_shape_is_array(i->shape) && i->shape->rank == m->prefix && sn_shape_elements(i->shape) == m->rows)) return false;
  }
  return true;
}

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static void cut(sums *m) {
  m->chunk = ceil_div(m->rows, BLOCKS);
  if (m->chunk < 2) m->chunk = 2; /* a loop: of a single row its values would move out in front of what keeps it */
  int64_t all = ceil_div(m->rows, m->chunk);
  for (m->blocks = 1; m->blocks * m->blocks < all;) m->blocks++;
  m->groups = ceil_div(all, m->blocks);
}

static bool add_buffers(lowering *L, sums *m) {
  int64_t work[3] = {m->groups, m->blocks, m->columns}, whole[2] = {m->groups, m->columns};
  for (int k = 0; k < m->n; k++) {
    m->work[k] = reduce_add_buffer(L, SN_KMEM_WORK, SN_TYPE_F32, 3, work);
    m->whole[k] = reduce_add_buffer(L, SN_KMEM_WORK, SN_TYPE_F32, 2, whole);
  }
  for (int k = 0; k < m->n; k++) m->tile[k] = reduce_add_buffer(L, SN_KMEM_SCRATCH, SN_TYPE_F32, 1, &m->columns);
  return L->b.status == SN_OK;
}

/* ---- phases ---- */

static const sn_ix *columns(lowering *L, const sums *m, sn_knode **node) {
  return lower_for(L, SN_KLOOP_VECTOR, lower_gpu_lanes(m->columns / 2 + 1), lower_const(L, 0), lower_const(L, m->columns), 1, 0, NULL, NULL, node);
}

/* The element of the sum's operand in this row and column, by its own dimensions. */
static sn_kvalue *element(lowering *L, const sums *m, const sn_instr *sum, const sn_ix *row, const sn_ix *const *idx, const sn_ix *j) {
  const sn_instr *x = sn_instr_operand(sum, 0);
  const sn_ix *own[SN_MAX_RANK];
  int n = (int)sn_instr_ints(sum, SN_ATTR_DIMENSIONS).n;
  if (sn_shape_equal(x->shape, m->s, SN_EQ_IGNORE_TYPE)) return lower_value(L, x, 0, idx);
  lower_delinearise(L, row, n, x->shape->dims, own);
  lower_delinearise(L, j, x->shape->rank - n, x->shape->dims + n, own + n);
  return lower_value(L, x, 0, own);
}

static void one_row(lowering *L, const sums *m, const sn_ix *row) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *node;
  lower_tile *tiles = L->tiles;
  lower_delinearise(L, row, m->prefix, m->s->dims, idx);
  lower_gpu_keep_rows(L, m->s, m->prefix, idx);
  for (int k = 0; k < L->n_outputs; k++) {
    if (lower_output_shape(L, k)->rank != m->prefix || is_sum_output(L, m, L->outputs[k]) || m->prefix == m->s->rank) continue;
    sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
  const sn_ix *j = columns(L, m, &node);
  if (!j) return;
  lower_delinearise(L, j, m->s->rank - m->prefix, m->s->dims + m->prefix, idx + m->prefix);
  sn_kvalue *more[MOST];
  for (int k = 0; k < m->n; k++) more[k] = element(L, m, L->outputs[m->output[k]], row, idx, j);
  for (int k = 0; k < L->n_outputs; k++) {
    if (is_sum_output(L, m, L->outputs[k]) || lower_output_shape(L, k)->rank != m->s->rank) continue;
    sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
  for (int k = 0; k < m->n; k++) sn_kb_store(&L->b, m->tile[k], &j, 0, NULL, reduce_combine(L, SN_OP_ADD, sn_kb_load(&L->b, m->tile[k], &j, 0, NULL, NULL), more[k]));
  lower_end(L, 0, NULL, node);
  L->tiles = tiles;
}

static void rows_phase(lowering *L, const sums *m) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[3] = {1, m->groups, m->blocks};
  sn_knode *node;
  if (!lower_phase(L, 3, grid)) return;
  const sn_ix *block = sn_ix_add(x, sn_ix_mul(x, lower_grid(L, 1), lower_const(L, m->blocks)), lower_grid(L, 2)), *start = sn_ix_mul(x, block, lower_const(L, m->chunk));
  const sn_ix *j = columns(L, m, &node);
  for (int k = 0; k < m->n && j; k++) sn_kb_store(&L->b, m->tile[k], &j, 0, NULL, sn_kb_const_f64(&L->b, SN_TYPE_F32, 0));
  if (!j) return;
  lower_end(L, 0, NULL, node);
  const sn_ix *n = sn_ix_min(x, lower_const(L, m->chunk), sn_ix_sub(x, lower_const(L, m->rows), start)); /* of the last blocks perhaps none */
  const sn_ix *r = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), n, 1, 0, NULL, NULL, &node);
  if (!r) return;
  one_row(L, m, sn_ix_add(x, start, r));
  lower_end(L, 0, NULL, node);
  j = columns(L, m, &node);
  const sn_ix *to[3] = {lower_grid(L, 1), lower_grid(L, 2), j};
  for (int k = 0; k < m->n && j; k++) sn_kb_store(&L->b, m->work[k], to, 0, NULL, sn_kb_load(&L->b, m->tile[k], &j, 0, NULL, NULL));
  if (j) lower_end(L, 0, NULL, node);
}

/* buffer[…, 0, j] + buffer[…, 1, j] + …: at has rank entries, of which the last but one runs. */
static sn_kvalue *sum_of(lowering *L, int buffer, const sn_ix **at, int rank, int64_t n) {
  sn_knode *node;
  at[rank - 2] = lower_const(L, 0);
  sn_kvalue *sum = sn_kb_load(&L->b, buffer, at, 0, NULL, NULL);
  if (n == 1) return sum;
  at[rank - 2] = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 1), lower_const(L, n), 1, 1, &sum, NULL, &node);
  if (!at[rank - 2]) return NULL;
  sn_kvalue *next = reduce_combine(L, SN_OP_ADD, &node->regions[0]->params[0], sn_kb_load(&L->b, buffer, at, 0, NULL, NULL));
  lower_end(L, 1, &next, node);
  return sn_knode_result(node, 0);
}

static void finish_phase(lowering *L, const sums *m, bool last) {
  int64_t grid[2] = {1, m->groups};
  sn_knode *node;
  sn_kphase *p = L->b.status == SN_OK ? lower_phase(L, last ? 1 : 2, grid) : NULL;
  const sn_ix *j = p ? columns(L, m, &node) : NULL;
  if (!j) return;
  p->finishes = true;
  for (int k = 0; k < m->n && L->b.status == SN_OK; k++) {
    const sn_instr *i = L->outputs[m->output[k]];
    const sn_ix *at[3] = {NULL, NULL, j}, *to[SN_MAX_RANK] = {NULL, j};
    if (!last) {
      at[0] = to[0] = lower_grid(L, 1);
      sn_kb_store(&L->b, m->whole[k], to, 0, NULL, sum_of(L, m->work[k], at, 3, m->blocks));
      continue;
    }
    sn_kvalue *sum = reduce_finish(L, i, SN_OP_ADD, sum_of(L, m->whole[k], at + 1, 2, m->groups));
    lower_delinearise(L, j, i->shape->rank, i->shape->dims, to);
    sn_kb_store(&L->b, L->output_buffer[m->output[k]], to, 0, NULL, sum);
  }
  lower_end(L, 0, NULL, node);
}

bool lower_gpu_sums(lowering *L) {
  sums m;
  memset(&m, 0, sizeof m);
  if (!lower_on_gpu(L) || !L->body || L->b.status != SN_OK || !fits(L, &m)) return false;
  cut(&m);
  if (!add_buffers(L, &m)) return true;
  rows_phase(L, &m);
  finish_phase(L, &m, false);
  finish_phase(L, &m, true);
  return true;
}
