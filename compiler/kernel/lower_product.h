/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the product templates share. */
#ifndef SINTER_LOWER_PRODUCT_H
#define SINTER_LOWER_PRODUCT_H

#include "elemental.h"

/* Where the micro-kernel reads lhs: where it lies (rows or terms neighbours); packed as [tile][i][k]; as [tile][k][i]; as [k][row of the item]. */
typedef enum product_lhs { PRODUCT_IN_PLACE, PRODUCT_ROWS, PRODUCT_COLUMNS, PRODUCT_STRIP } product_lhs;

struct convolution;

typedef struct product {
  const sn_instr *dot;              /* or a convolution */
  uint32_t operand[2];              /* which of its operands are lhs and rhs */
  const struct convolution *conv;   /* NULL: a dot. Else one operand is packed window by window: lower_convolution.h */
  sn_index_map map;
  int n_batch, n_m, n_n;            /* dimensions of the result: batch, then lhs', then rhs' */
  int64_t batch, m, n, k;
  const int64_t *batch_dims, *m_dims, *n_dims;
  int64_t mr, nr, kc;               /* tile, block of terms */
  int64_t n_tiles, n_panels;        /* of mr rows, of nr columns: all of them */
  int64_t m_blocks, n_blocks, k_blocks;
  int64_t tiles, panels;            /* the most of a block of rows, of columns */
  bool shared_rhs;                  /* packed once, in a phase of its own */
  bool far;                         /* operands that come from memory, not from caches: asked for in time */
  bool rhs_along_k;                 /* its terms are neighbours in memory, not its columns */
  bool rhs_plain;                   /* a parameter at base + n * rhs_column + k, and whole panels: panels are transposed copies */
  bool rhs_in_place;                /* columns are neighbours, and there are few or they lie near: the micro-kernel reads it in rhs_buffer, row by row of terms */
  int rhs_buffer;
  int64_t rhs_column, rhs_term;     /* steps in rhs_buffer */
  product_lhs lhs;
  int64_t lhs_row, lhs_term;        /* IN_PLACE: steps in lhs_buffer, one of them 1 */
  int64_t lhs_pitch;                /* else: terms of a packed row, or rows of a packed column or strip, as they lie */
  int64_t rhs_pitch;                /* of a strip of rhs, [k][column of the item]; 0: rhs is packed as [panel][k][j] */
  int lhs_buffer;
  sn_type type;                     /* of the sums */
  bool empty;                       /* there are no terms: sums are zero */
  bool pairs;                       /* two terms of bf16 a multiply-add: panels of rhs and columns of lhs hold words of two, rows of lhs bf16 */
  int rhs_work, rhs_scratch, lhs_scratch, acc;
  uint32_t first_id, n_ids, *steps; /* of the body's instructions, by id: find_steps */
} product;

/* What an item multiplies: tiles [tile0, tile0 + n_tiles) by panels [panel0, panel0 + n_panels) of a batch element. */
typedef struct product_item {
  const sn_ix *b[SN_MAX_RANK], *flat_b;
  const sn_ix *tile0, *n_tiles, *panel0, *n_panels;
} product_item;

/* Is p's the only product, and every result of the fusion made of its elements one by one? Sets what product_emit must know of the body. */
bool product_applies(lowering *L, product *p);
/* The template for what p has measured: chooses sizes, opens phases, stores all outputs. */
void product_emit(lowering *L, product *p);
const sn_instr *product_side(const product *p, uint32_t operand); /* lhs (0) or rhs (1) */
/* Result index of (b, m, n). */
void product_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx);
/* Where an operand's element of (b, m, n, k) lies. */
bool product_operand_index(lowering *L, const product *p, uint32_t operand, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix *k, const sn_ix **at);
/* Where element idx of the dot comes to lie in `to`. */
bool product_forward_index(lowering *L, const product *p, const sn_instr *to, const sn_ix *const *idx, const sn_ix **out);
/* Ops that keep elements in number and value, and one step of that walk: at[] is where the operand's element lies, then where i's does. False: i moves elements otherwise. */
bool product_renames(const sn_instr *i);
bool product_forward_step(lowering *L, const sn_instr *i, const sn_ix **at);

/* Of the elements that are multiplied. */
static inline sn_type product_packed(const product *p) { return p->pairs ? SN_TYPE_BF16 : p->type; }
/* A count or place of terms as one of what a panel holds of a column: the same, or words of two. */
const sn_ix *product_steps(lowering *L, const product *p, const sn_ix *terms);
const sn_ix *product_term(lowering *L, const product *p, const sn_ix *k0, const sn_ix *step); /* the first term of a step of the block from k0 on */

/* lower_product_tile.c: all sizes, from mr to lhs_pitch. */
void product_choose_tile(lowering *L, product *p);

/* lower_product_pack.c */
bool product_find_operand(lowering *L, const product *p, uint32_t operand, int *buffer, int64_t *step, int64_t *term); /* does it lie in a parameter as a matrix? Steps of m or n, and of k; 0: none known */
bool product_param(lowering *L, const sn_instr *i, const sn_ix **at, int *buffer); /* the parameter that i renames, and at[] in it instead of in i; false: i is more than that */
bool product_address(lowering *L, const sn_instr *i, const sn_ix **at, const sn_ix **sum); /* of element at[] of i in the parameter that it comes from, through elementwise ops as well; at[] is overwritten */
const sn_ix *product_tile_row(lowering *L, const product *p, const product_item *it, const sn_ix *ip);
bool product_lhs_tile(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *k0, const sn_ix **at, sn_ktile *out);
void product_pack_lhs(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k);
void product_pack_rhs(lowering *L, const product *p, int to, const product_item *it, const sn_ix *k0, const sn_ix *n_k);
void product_pack_panel(lowering *L, const product *p, const product_item *it, const sn_ix *jp, const sn_ix *k0, const sn_ix *n_k);
void product_rhs_phase(lowering *L, const product *p);
/* Follows element at[] of i to a parameter through ops that only rename elements (`through`: through elementwise ops as well), where it then lies. */
bool product_trace(lowering *L, const sn_instr *i, bool through, const sn_ix **at, int *buffer);
bool product_operand_at(lowering *L, const product *p, uint32_t operand, const sn_ix *const *b, const sn_ix *outer, const sn_ix *k, int *buffer, const sn_ix **at);
void product_batch(lowering *L, const product *p, product_item *it); /* it->b and flat_b from the grid's first variables */

/* lower_product_prefetch.c: hints in front of `contract`, which multiplies terms from k0 on */
void product_prefetch_epilogue(lowering *L, const product *p, sn_knode *contract);
void product_prefetch_ahead(lowering *L, const product *p, uint32_t operand, const product_item *it, const sn_ix *outer, const sn_ix *k, int64_t n);
void product_prefetch_operands(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *jp, const sn_ix *k0, bool last, sn_knode *contract);
void product_prefetch_sums(lowering *L, const product *p, const sn_ix *ip, const sn_ix *jp, sn_knode *contract);

/* lower_product.c: what the item of these grid variables multiplies (NULL: the open phase's) */
void product_item_at(lowering *L, const product *p, const sn_ix *const *grid, product_item *it);

/* The template for CUDA targets; p is measured and its steps are known. False, with nothing emitted: it does not apply. */
bool lower_gpu_product(lowering *L, const product *p);

#endif
