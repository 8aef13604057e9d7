/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the attention template does row by row: the scores of a block in place, and results through their epilogues.
 *
 * Elementwise work is whatever the body says, lowered element by element with products found in their tiles. Sums along a row whose terms come from its exponentials are taken in
 * the same loop that computes these. */
#include "lower_attention.h"

#include <string.h>

enum { MAX_PATH = 24 };

/* What was kept in `buffer` [row of the block][column]. */
static void keep(lowering *L, const attention *p, const sn_instr *i, int buffer) {
  const int dims[2] = {p->n_batch, p->n_batch + 1};
  const sn_ix *base[2] = {p->r0, NULL};
  lower_override(L, i, 0, buffer, 2, dims, base);
}

/* ---- results ---- */

/* The ops from `dot` to `i` that keep or rename its elements, i first; -1: it does not lead there. */
static int find_path(const sn_instr *i, const sn_instr *dot, const sn_instr **path, int n) {
  if (i == dot) return n;
  if (n == MAX_PATH || (!sn_op_has(i->op, SN_T_ELTWISE) && !product_renames(i))) return -1;
  path[n] = i;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    int found = product_renames(i) || x->shape->rank == i->shape->rank ? find_path(x, dot, path, n + 1) : -1;
    if (found >= 0) return found;
  }
  return -1;
}

bool attention_gives(const lowering *L, const sn_instr *dot, int output) {
  const sn_instr *path[MAX_PATH];
  return dot && find_path(L->outputs[output], dot, path, 0) >= 0;
}

/* Where in result k element (row, column) of `dot` lies; false: nowhere, or lowering has failed. */
static bool find_place(lowering *L, const attention *p, const sn_instr *dot, int k, const sn_ix *row, const sn_ix *column, const sn_ix **at) {
  const sn_instr *path[MAX_PATH];
  int n = find_path(L->outputs[k], dot, path, 0);
  attention_index(p, row, column, at);
  while (n > 0) {
    if (product_forward_step(L, path[--n], at)) continue;
    lower_fail(L, path[n], "a result of attention that moves its elements so");
    return false;
  }
  return n == 0;
}

void attention_store_results(lowering *L, const attention *p, const sn_instr *dot, const sn_ix *row, const sn_ix *column) {
  const sn_ix *at[SN_MAX_RANK];
  for (int k = 0; k < L->n_outputs; k++) {
    if (!find_place(L, p, dot, k, row, column, at)) continue;
    sn_kb_store(&L->b, L->output_buffer[k], at, L->n_guards, L->guards, lower_value(L, L->outputs[k], L->output_index[k], at));
  }
}

void attention_ask_for_results(lowering *L, const attention *p, const sn_instr *dot, const sn_ix *row) {
  const sn_ix *at[SN_MAX_RANK];
  for (int k = 0; k < L->n_outputs; k++) {
    int64_t line = 64 / (int64_t)sn_type_bytes(lower_output_shape(L, k)->type);
    for (int64_t c = 0; c < attention_last_dim(dot) && c < 8 * line; c += line) {
      if (find_place(L, p, dot, k, row, lower_const(L, c), at)) sn_kb_prefetch(&L->b, L->output_buffer[k], at, SN_KPREFETCH_WRITE);
    }
  }
}

static void recall_row_values(lowering *L, const attention *p, const sn_ix *i, const sn_ix *row) {
  const sn_ix *idx[SN_MAX_RANK], *at[2] = {lower_const(L, 0), i};
  attention_index(p, row, NULL, idx);
  for (int k = 0; k < p->n_reductions; k++) {
    lower_remember(L, p->reductions[k], 0, idx, lower_convert(L, sn_kb_load(&L->b, p->reduction_tiles[k], at, 0, NULL, NULL), p->reductions[k]->shape->type));
  }
}

void attention_epilogue(lowering *L, const attention *p, const sn_instr *dot, int tile, const sn_ix *first_row, const sn_ix *n_rows) {
  sn_knode *rows, *lane;
  const sn_ix *i = attention_loop(L, n_rows, &rows), *row = i && first_row ? sn_ix_add(L->k->ix, first_row, i) : i;
  if (!row) return;
  if (dot == p->out) recall_row_values(L, p, i, row);
  const sn_ix *c = attention_lanes(L, p, lower_const(L, attention_last_dim(dot)), &lane), *at[2] = {i, c}, *idx[SN_MAX_RANK];
  if (!c) return;
  attention_index(p, row, c, idx);
  lower_remember(L, dot, 0, idx, lower_convert(L, sn_kb_load(&L->b, tile, at, 0, NULL, NULL), dot->shape->type));
  attention_store_results(L, p, dot, row, c);
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

void attention_store_part(lowering *L, const attention *p, int parts, const sn_ix *part, int tile) {
  sn_knode *rows, *lane;
  const sn_ix *key = attention_loop(L, lower_const(L, p->n_k), &rows), *c = key ? attention_lanes(L, p, lower_const(L, L->k->buffers[parts].dims[2]), &lane) : NULL;
  if (!c) return;
  const sn_ix *from[2] = {key, c}, *to[3] = {part, key, c};
  sn_kb_store(&L->b, parts, to, 0, NULL, sn_kb_load(&L->b, tile, from, 0, NULL, NULL));
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

void attention_add_parts(lowering *L, const attention *p, const sn_instr *dot, int parts, const sn_ix *part, const sn_ix *first_row, const sn_ix *n_rows) {
  sn_knode *rows, *lane;
  sn_kvalue *sum = NULL;
  const sn_ix *i = attention_loop(L, n_rows, &rows), *row = i ? sn_ix_add(L->k->ix, first_row, i) : NULL;
  const sn_ix *c = row ? attention_lanes(L, p, lower_const(L, attention_last_dim(dot)), &lane) : NULL, *idx[SN_MAX_RANK];
  if (!c) return;
  for (int64_t k = 0; k < p->n_chunks; k++) {
    const sn_ix *at[3] = {sn_ix_add(L->k->ix, part, lower_const(L, k)), row, c};
    sn_kvalue *v = sn_kb_load(&L->b, parts, at, 0, NULL, NULL);
    sum = sum ? lower_binary(L, SN_OP_ADD, sum, v) : v;
  }
  attention_index(p, row, c, idx);
  lower_remember(L, dot, 0, idx, lower_convert(L, sum, dot->shape->type));
  attention_store_results(L, p, dot, row, c);
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

/* ---- a row of scores ---- */

static void row_in_place(lowering *L, const attention *p, const sn_instr *value, int tile, const sn_ix *i, const sn_ix *row) {
  sn_knode *lane;
  const sn_ix *j = attention_lanes(L, p, lower_const(L, p->n_k), &lane), *idx[SN_MAX_RANK], *at[2] = {i, j};
  if (!j) return;
  attention_index(p, row, j, idx);
  sn_kb_store(&L->b, tile, at, 0, NULL, lower_convert(L, lower_value(L, value, 0, idx), p->type));
  lower_end(L, 0, NULL, lane);
  keep(L, p, value, tile);
}

/* The exponentials, and the sums of what comes from them. */
static void exponentials(lowering *L, const attention *p, const sn_ix *i, const sn_ix *row) {
  static const sn_opcode combine[ATTENTION_MAX_REDUCTIONS] = {SN_OP_ADD, SN_OP_ADD, SN_OP_ADD, SN_OP_ADD};
  sn_kvalue *sums[ATTENTION_MAX_REDUCTIONS], *x[2];
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *lane;
  for (int k = 0; k < p->n_sums; k++) sums[k] = lower_value(L, sn_instr_operand(p->sums[k], 1), 0, NULL);
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, (int)p->lanes, lower_const(L, 0), lower_const(L, p->n_k), 1, p->n_sums, sums, combine, &lane), *at[2] = {i, j};
  if (!j) return;
  attention_index(p, row, j, idx);
  sn_kvalue *e = lower_value(L, p->exp, 0, idx);
  for (int k = 0; k < p->n_sums; k++) {
    x[0] = &lane->regions[0]->params[k];
    x[1] = lower_value(L, sn_instr_operand(p->sums[k], 0), 0, idx);
    sums[k] = x[1] ? sn_kb_elt(&L->b, SN_OP_ADD, x[1]->type, 2, x) : NULL;
  }
  sn_kb_store(&L->b, p->s_tile, at, 0, NULL, lower_convert(L, e, p->type));
  lower_end(L, p->n_sums, sums, lane);
  for (int k = 0; k < p->n_sums && L->b.status == SN_OK; k++) lower_remember(L, p->sums[k], 0, idx, &lane->results[k]);
  keep(L, p, p->exp, p->s_tile);
}

bool attention_is_row_value(const attention *p, const sn_shape *s) {
  return s->rank == p->n_batch + 1 && memcmp(s->dims, p->scores->shape->dims, (size_t)s->rank * sizeof *s->dims) == 0;
}

/* Maxima and sums of the row, for results and epilogue. */
static void keep_row_values(lowering *L, const attention *p, const sn_ix *i, const sn_ix *row) {
  const sn_ix *idx[SN_MAX_RANK], *at[2] = {lower_const(L, 0), i};
  attention_index(p, row, NULL, idx);
  for (int k = 0; k < p->n_reductions; k++) {
    sn_kb_store(&L->b, p->reduction_tiles[k], at, 0, NULL, lower_convert(L, lower_value(L, p->reductions[k], 0, idx), p->type));
  }
}

/* Results that are a value a row, the rows of the block side by side. */
static void store_row_values(lowering *L, const attention *p) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *lane;
  bool any = false;
  for (int k = 0; k < L->n_outputs; k++) any |= attention_is_row_value(p, L->outputs[k]->shape);
  const sn_ix *i = any ? attention_lanes(L, p, p->n_rows, &lane) : NULL, *row = i ? sn_ix_add(L->k->ix, p->r0, i) : NULL;
  if (!row) return;
  recall_row_values(L, p, i, row);
  attention_index(p, row, NULL, idx);
  for (int k = 0; k < L->n_outputs; k++) {
    if (attention_is_row_value(p, L->outputs[k]->shape)) sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
  lower_end(L, 0, NULL, lane);
}

void attention_rows(lowering *L, const attention *p) {
  sn_knode *rows;
  lower_tile *outside = L->tiles;
  keep(L, p, p->scores, p->s_tile);
  if (p->dp) keep(L, p, p->dp, p->dp_tile);
  const sn_ix *i = attention_loop(L, p->n_rows, &rows), *row = i ? sn_ix_add(L->k->ix, p->r0, i) : NULL;
  if (!row) return;
  attention_ask_for_next(L, p, row);
  attention_ask_for_results(L, p, p->out ? p->out : p->dq, row);
  if (p->dk && p->n_chunks == 1) attention_ask_for_results(L, p, p->dk, row);
  if (p->dv && p->n_chunks == 1) attention_ask_for_results(L, p, p->dv, row);
  exponentials(L, p, i, row);
  keep_row_values(L, p, i, row);
  if (p->p_out && p->p_out != p->exp) row_in_place(L, p, p->p_out, p->s_tile, i, row);
  if (p->p_tile >= 0) row_in_place(L, p, p->p_dv, p->p_tile, i, row);
  if (p->ds) row_in_place(L, p, p->ds, p->dp_tile, i, row);
  lower_end(L, 0, NULL, rows);
  L->tiles = outside;
  store_row_values(L, p);
}
