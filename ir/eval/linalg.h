/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Small dense linear algebra in f64 / c128: what cholesky, triangular-solve and the LAPACK custom calls share. Matrices
 * are row-major pairs. */
#ifndef SINTER_EVAL_LINALG_H
#define SINTER_EVAL_LINALG_H

#include "eval_internal.h"

typedef struct sn_ev_c {
  double re, im;
} sn_ev_c;

/* The k-th matrix (of `elements` elements) of an array of matrices, and back. */
void sn_ev_matrix_load(const sn_array *a, int64_t k, int64_t elements, sn_ev_c *to);
void sn_ev_matrix_store(sn_array *a, int64_t k, int64_t elements, const sn_ev_c *from);
/* In place: the triangle of A becomes L (lower) or U with A = L L^H = U^H U; the other triangle stays. Returns 0, or
 * the number of the first bad pivot from 1. */
int64_t sn_ev_cholesky(sn_ev_c *a, int64_t n, bool lower);
/* In place: B (rows x cols) becomes X with op(A) X = B, or X op(A) = B. A's other triangle is not read. */
typedef struct sn_ev_solve {
  bool left, lower, unit;
  int64_t transpose;
} sn_ev_solve;
void sn_ev_triangular_solve(const sn_ev_solve *how, const sn_ev_c *a, sn_ev_c *b, int64_t rows, int64_t cols);
/* In place: A (m x n) = P L U with partial pivoting; pivots from 1, as LAPACK. Returns 0 or the number of the first
 * zero pivot. */
int64_t sn_ev_lu(sn_ev_c *a, int64_t m, int64_t n, int32_t *pivots);
/* Real symmetric A (n x n, full): eigenvalues ascending, eigenvectors in the columns of v. Jacobi rotations. */
void sn_ev_eigen(double *a, double *v, double *w, int64_t n);
/* Real A (m x n, m >= n): one-sided Jacobi. A becomes U (its columns), s descending, v (n x n) with A = U diag(s) V^T.
 */
void sn_ev_svd(double *a, double *s, double *v, int64_t m, int64_t n);

/* Custom calls by LAPACK's names (lapack.c). */
bool sn_ev_is_lapack(const char *target);
sn_status sn_ev_lapack(sn_ev_ctx *e, const sn_instr *i, const char *target, sn_array *const *in, sn_array **out);

#endif
