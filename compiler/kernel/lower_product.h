/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the product templates share. */
#ifndef SINTER_LOWER_PRODUCT_H
#define SINTER_LOWER_PRODUCT_H

#include "elemental.h"

typedef struct product {
  const sn_instr *dot;
  sn_index_map map;
  int n_batch, n_m, n_n;            /* dimensions of the result: batch, then lhs', then rhs' */
  int64_t batch, m, n, k;
  const int64_t *batch_dims, *m_dims, *n_dims;
  int64_t mr, nr, mc, nc, kc;       /* tile, block of rows, block of columns, block of terms */
  int64_t m_blocks, n_blocks, k_blocks, n_panels; /* n_panels: of all columns */
  bool shared_rhs;                  /* packed once, in a phase of its own */
  bool direct_lhs;                  /* read in place */
  int lhs_buffer;
  int64_t lhs_stride[2];
  sn_type type;                     /* of the sums */
  int rhs_work, rhs_scratch, lhs_scratch, acc;
  uint32_t first_id, n_ids, *steps; /* of the body's instructions, by id: find_steps */
} product;

/* Result index of (b, m, n). */
void product_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx);
/* Where an operand's element of (b, m, n, k) lies. */
bool product_operand_index(lowering *L, const product *p, uint32_t operand, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix *k, const sn_ix **at);
/* Where element idx of the dot comes to lie in `to`. */
bool product_forward_index(lowering *L, const product *p, const sn_instr *to, const sn_ix *const *idx, const sn_ix **out);

/* The template for CUDA targets; p is measured and its steps are known. False, with nothing emitted: it does not apply. */
bool lower_gpu_product(lowering *L, const product *p);

#endif
