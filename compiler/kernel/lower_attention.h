/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the attention template share. */
#ifndef SINTER_LOWER_ATTENTION_H
#define SINTER_LOWER_ATTENTION_H

#include "lower_product.h"

enum { ATTENTION_MAX_REDUCTIONS = 4 };

typedef struct attention {
  const sn_instr *scores, *dp, *exp;   /* dp: backward */
  const sn_instr *out, *dq, *dk, *dv;  /* products of what became of the scores; any may be absent */
  const sn_instr *p_out, *p_dv, *ds;   /* their operands with the scores' shape */
  int n_batch;
  const int64_t *batch_dims;
  int64_t batch, n_q, n_k;
  sn_type type;                        /* of tiles and sums */
  int64_t lanes, mr, pitch;            /* pitch: of a row of scores */
  int64_t rows, n_blocks, n_chunks;    /* rows a block; blocks; runs of blocks that are items of their own */
  int s_tile, dp_tile, p_tile;         /* [row][key]; p_tile: where p_dv is not exp itself */
  int dk_parts, dv_parts;              /* backward, several chunks: each one's sums [batch and chunk][key][column]; -1: none */
  int stage;                           /* rows of an operand on their way into transposed panels */
  int n_reductions;                    /* forward: values a row that results may want */
  const sn_instr *reductions[ATTENTION_MAX_REDUCTIONS];
  int reduction_tiles[ATTENTION_MAX_REDUCTIONS];
  int n_sums;                          /* reductions that are summed up while the exponentials are computed */
  const sn_instr *sums[ATTENTION_MAX_REDUCTIONS];
  const sn_ix *b[SN_MAX_RANK], *block, *r0, *n_rows, *n_tiles; /* the open item and block */
  const sn_ix *next[SN_MAX_RANK];      /* the batch of the item that this thread will probably run next; the first NULL: not known */
} attention;

static inline int64_t attention_last_dim(const sn_instr *i) { return i->shape->dims[i->shape->rank - 1]; }

/* Index of (row, column) of an array with the item's batch in front; column NULL: of a value a row. */
void attention_index(const attention *p, const sn_ix *row, const sn_ix *column, const sn_ix **idx);
const sn_ix *attention_loop(lowering *L, const sn_ix *hi, sn_knode **node);
const sn_ix *attention_lanes(lowering *L, const attention *p, const sn_ix *hi, sn_knode **node);

/* lower_attention_tile.c: sizes, operands on their way into tiles, products of tiles.
 *
 * A tile of rows is [row][pitch]; panels are [panel][term][columns of a panel], of a transposed operand. What lies behind an operand's last row or column is never looked at. */
void attention_measure(const lowering *L, attention *p);
int attention_add_tile(lowering *L, sn_type t, int64_t rows, int64_t columns, const char *name);
int attention_add_rows(lowering *L, const attention *p, int64_t rows, int64_t columns, const char *name); /* -1: out of memory */
int attention_add_panels(lowering *L, const attention *p, const sn_instr *i, const char *name);
void attention_pack_rows(lowering *L, const attention *p, int to, const sn_instr *i, const sn_ix *first, const sn_ix *n);
void attention_pack_panels(lowering *L, const attention *p, int to, const sn_instr *i, int rows); /* rows: where the operand's rows lie packed; -1: nowhere */
void attention_ask_for_next(lowering *L, const attention *p, const sn_ix *row); /* that row of each operand of the next item will be read */
void attention_clear(lowering *L, const attention *p, int tile);
/* to[row][column] = a[row][term] * b[term][column] over the block's rows; b: rows or panels. */
void attention_product(lowering *L, const attention *p, const sn_instr *dot, int to, int a, int b);
/* to[key][column] += tile[row][key] * rows[row][column] over the block's rows. */
void attention_product_over_rows(lowering *L, const attention *p, const sn_instr *dot, int to, int tile, int rows);

/* lower_attention_rows.c: scores in place, row by row; results */
void attention_rows(lowering *L, const attention *p);
bool attention_gives(const lowering *L, const sn_instr *dot, int output); /* does the result come from dot through ops that keep or rename its elements? */
void attention_ask_for_results(lowering *L, const attention *p, const sn_instr *dot, const sn_ix *row); /* a row of what comes from dot will be written */
/* The results that come from element (row, column) of dot, whose value is remembered, under the open guards. */
void attention_store_results(lowering *L, const attention *p, const sn_instr *dot, const sn_ix *row, const sn_ix *column);
bool attention_is_row_value(const attention *p, const sn_shape *s);
/* Rows first_row (NULL: 0) … of dot, which `tile` holds. */
void attention_epilogue(lowering *L, const attention *p, const sn_instr *dot, int tile, const sn_ix *first_row, const sn_ix *n_rows);
/* Sums of chunks: the open item's sums to parts[part], and rows first_row … of dot from parts `part` … part + n_chunks - 1, added in this order. */
void attention_store_part(lowering *L, const attention *p, int parts, const sn_ix *part, int tile);
void attention_add_parts(lowering *L, const attention *p, const sn_instr *dot, int parts, const sn_ix *part, const sn_ix *first_row, const sn_ix *n_rows);

/* lower_gpu_attention.c: the template for CUDA targets; p's roles are known, nothing is measured. False, with nothing emitted: it does not apply. */
bool lower_gpu_attention(lowering *L, attention *p);

#endif
