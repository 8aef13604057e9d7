/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the convolution template share. */
#ifndef SINTER_LOWER_CONVOLUTION_H
#define SINTER_LOWER_CONVOLUTION_H

#include "lower_product.h"

/* A convolution as products of a group (and, channels first, of an image): positions of the window by terms of it, terms by output features. The input is gathered while it is
 * packed, once for each item that reads it; the kernel is an operand like any other. */
/* The numbers first, first + step, …: size of them. */
typedef struct stride_of { int64_t first, step, size; } stride_of;

typedef struct convolution {
  stride_of dims[SN_MAX_RANK]; /* of each dimension of the result what this part of it computes */
  stride_of syms[SN_MAX_RANK]; /* of each symbol what it sums: the others meet zeros between dilated elements */
  int side;                  /* of the product that the input is: 0 lhs (lanes run along features), 1 rhs (along positions) */
  bool along_terms;          /* the input is packed term by term for each position; else position by position for each term */
  int n_run;                 /* the last so many of terms[] or of positions[] … */
  int64_t run;               /* … lie in a row: so many elements */
  bool copied;               /* a row is neighbours in a parameter's memory */
  int n_batch;               /* of the product: groups (dimension -1) and dimensions of the result */
  int batch[SN_MAX_RANK];
  int64_t batch_sizes[SN_MAX_RANK];
  int n_positions;           /* dimensions of the result, outermost first */
  int positions[SN_MAX_RANK];
  int64_t position_sizes[SN_MAX_RANK];
  int n_terms;               /* symbols of the index rule: window dimensions and input features, outermost first */
  int terms[SN_MAX_RANK];
  int64_t term_sizes[SN_MAX_RANK];
  int feature;               /* the result's dimension, and how many there are in a group */
  int64_t features;
} convolution;

/* lower_convolution.c */
const sn_ix *convolution_number(lowering *L, const stride_of *s, const sn_ix *i); /* the i-th */
void convolution_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx);
void convolution_terms(lowering *L, const convolution *c, const sn_ix *k, const sn_ix **syms); /* symbols of term k */

/* lower_convolution_pack.c: the item's windows for terms [k0, k0 + n_k) to lhs_scratch or rhs_scratch */
void convolution_pack(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k);

#endif
