/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "linalg.h"

#include <math.h>

typedef sn_ev_c c;

void sn_ev_matrix_load(const sn_array *a, int64_t k, int64_t elements, c *to) {
  sn_type t = sn_array_shape(a)->type;
  sn_ev_load_carrier(SN_EV_C128, to, t, (const char *)sn_array_data(a) + (size_t)(k * elements) * sn_type_bytes(t), 1,
                     elements);
}

void sn_ev_matrix_store(sn_array *a, int64_t k, int64_t elements, const c *from) {
  sn_type t = sn_array_shape(a)->type;
  sn_ev_store_carrier(SN_EV_C128, t, (char *)sn_array_data(a) + (size_t)(k * elements) * sn_type_bytes(t), from,
                      elements);
}

static c conjugate(c x) { return (c){x.re, -x.im}; }
static c minus_product(c s, c x, c y) {
  return (c){s.re - (x.re * y.re - x.im * y.im), s.im - (x.re * y.im + x.im * y.re)};
}
static c quotient(c x, c y) {
  if (y.im == 0) return (c){x.re / y.re, x.im / y.re};
  double scale = fmax(fabs(y.re), fabs(y.im)), a = y.re / scale, b = y.im / scale, d = (a * a + b * b) * scale;
  return (c){(x.re * a + x.im * b) / d, (x.im * a - x.re * b) / d};
}
static double size(c x) { return hypot(x.re, x.im); }

/* ---- Cholesky: row by row; U is L^H, so that one loop serves both ---- */

static c get(const c *a, int64_t n, int64_t i, int64_t j, bool lower) {
  return lower ? a[i * n + j] : conjugate(a[j * n + i]);
}
static void set(c *a, int64_t n, int64_t i, int64_t j, bool lower, c v) {
  if (lower)
    a[i * n + j] = v;
  else
    a[j * n + i] = conjugate(v);
}

int64_t sn_ev_cholesky(c *a, int64_t n, bool lower) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j <= i; j++) {
      c s = get(a, n, i, j, lower);
      for (int64_t k = 0; k < j; k++) s = minus_product(s, get(a, n, i, k, lower), conjugate(get(a, n, j, k, lower)));
      if (i == j) {
        if (!(s.re > 0)) return i + 1;
        set(a, n, i, i, lower, (c){sqrt(s.re), 0});
      } else {
        set(a, n, i, j, lower, quotient(s, get(a, n, j, j, lower)));
      }
    }
  return 0;
}

/* ---- triangular solve ---- */

/* Element (i, j) of op(A). */
static c op_element(const sn_ev_solve *h, const c *a, int64_t n, int64_t i, int64_t j) {
  if (i == j && h->unit) return (c){1, 0};
  if (h->transpose == SN_TRANSPOSE_NO_TRANSPOSE) return a[i * n + j];
  return h->transpose == SN_TRANSPOSE_ADJOINT ? conjugate(a[j * n + i]) : a[j * n + i];
}

void sn_ev_triangular_solve(const sn_ev_solve *h, const c *a, c *b, int64_t rows, int64_t cols) {
  bool lower = h->lower == (h->transpose == SN_TRANSPOSE_NO_TRANSPOSE); /* of op(A) */
  int64_t n = h->left ? rows : cols, lines = h->left ? cols : rows;
  bool forward = h->left ? lower : !lower;
  for (int64_t q = 0; q < lines; q++)
    for (int64_t k = 0; k < n; k++) {
      int64_t i = forward ? k : n - 1 - k;
      c *x = h->left ? b + q : b + q * cols;
      int64_t stride = h->left ? cols : 1;
      c s = x[i * stride];
      for (int64_t p = 0; p < k; p++) {
        int64_t j = forward ? p : n - 1 - p;
        s = minus_product(s, h->left ? op_element(h, a, n, i, j) : op_element(h, a, n, j, i), x[j * stride]);
      }
      x[i * stride] = h->unit ? s : quotient(s, op_element(h, a, n, i, i));
    }
}

/* ---- LU ---- */

int64_t sn_ev_lu(c *a, int64_t m, int64_t n, int32_t *pivots) {
  int64_t bad = 0;
  for (int64_t k = 0; k < m && k < n; k++) {
    int64_t best = k;
    for (int64_t i = k + 1; i < m; i++)
      if (fabs(a[i * n + k].re) + fabs(a[i * n + k].im) > fabs(a[best * n + k].re) + fabs(a[best * n + k].im)) best = i;
    pivots[k] = (int32_t)best + 1;
    if (size(a[best * n + k]) == 0) {
      bad = bad ? bad : k + 1;
      continue;
    }
    for (int64_t j = 0; j < n && best != k; j++) {
      c t = a[k * n + j];
      a[k * n + j] = a[best * n + j];
      a[best * n + j] = t;
    }
    for (int64_t i = k + 1; i < m; i++) {
      c f = quotient(a[i * n + k], a[k * n + k]);
      a[i * n + k] = f;
      for (int64_t j = k + 1; j < n; j++) a[i * n + j] = minus_product(a[i * n + j], f, a[k * n + j]);
    }
  }
  return bad;
}

/* ---- Jacobi (Golub and Van Loan, Matrix Computations, 8.5 and 8.6.3) ---- */

enum { SWEEPS = 60 };

/* Rotates columns p and q of a matrix with `rows` rows and n columns. */
static void rotate(double *a, int64_t rows, int64_t n, int64_t p, int64_t q, double cs, double sn) {
  for (int64_t k = 0; k < rows; k++) {
    double x = a[k * n + p], y = a[k * n + q];
    a[k * n + p] = cs * x - sn * y;
    a[k * n + q] = sn * x + cs * y;
  }
}

static void angle(double difference, double off, double *cs, double *sn) {
  double tau = difference / (2 * off), t = (tau >= 0 ? 1 : -1) / (fabs(tau) + sqrt(1 + tau * tau));
  *cs = 1 / sqrt(1 + t * t);
  *sn = t * *cs;
}

static void swap_columns(double *a, int64_t rows, int64_t n, int64_t p, int64_t q) {
  for (int64_t k = 0; k < rows; k++) {
    double t = a[k * n + p];
    a[k * n + p] = a[k * n + q];
    a[k * n + q] = t;
  }
}

void sn_ev_eigen(double *a, double *v, double *w, int64_t n) {
  for (int64_t k = 0; k < n * n; k++) v[k] = k / n == k % n;
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    double off = 0, on = 0;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = 0; q < n; q++) *(p == q ? &on : &off) += a[p * n + q] * a[p * n + q];
    if (!(off > 1e-34 * on)) break;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        double cs, sn;
        if (a[p * n + q] == 0) continue;
        angle(a[q * n + q] - a[p * n + p], a[p * n + q], &cs, &sn);
        rotate(a, n, n, p, q, cs, sn);
        for (int64_t k = 0; k < n; k++) { /* the rows alike: J^T A J */
          double x = a[p * n + k], y = a[q * n + k];
          a[p * n + k] = cs * x - sn * y;
          a[q * n + k] = sn * x + cs * y;
        }
        rotate(v, n, n, p, q, cs, sn);
      }
  }
  for (int64_t k = 0; k < n; k++) w[k] = a[k * n + k];
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t q = k + 1; q < n; q++)
      if (w[q] < w[best]) best = q;
    double t = w[k];
    w[k] = w[best];
    w[best] = t;
    if (best != k) swap_columns(v, n, n, k, best);
  }
}

void sn_ev_svd(double *a, double *s, double *v, int64_t m, int64_t n) {
  for (int64_t k = 0; k < n * n; k++) v[k] = k / n == k % n;
  bool moved = true;
  for (int sweep = 0; sweep < SWEEPS && moved; sweep++) {
    moved = false;
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        double pp = 0, qq = 0, pq = 0, cs, sn;
        for (int64_t k = 0; k < m; k++) {
          pp += a[k * n + p] * a[k * n + p];
          qq += a[k * n + q] * a[k * n + q];
          pq += a[k * n + p] * a[k * n + q];
        }
        if (!(fabs(pq) > 1e-16 * sqrt(pp * qq))) continue;
        moved = true;
        angle(qq - pp, pq, &cs, &sn);
        rotate(a, m, n, p, q, cs, sn);
        rotate(v, n, n, p, q, cs, sn);
      }
  }
  for (int64_t k = 0; k < n; k++) {
    s[k] = 0;
    for (int64_t r = 0; r < m; r++) s[k] = hypot(s[k], a[r * n + k]);
  }
  for (int64_t k = 0; k < n; k++) {
    int64_t best = k;
    for (int64_t q = k + 1; q < n; q++)
      if (s[q] > s[best]) best = q;
    double t = s[k];
    s[k] = s[best];
    s[best] = t;
    if (best != k) {
      swap_columns(a, m, n, k, best);
      swap_columns(v, n, n, k, best);
    }
    for (int64_t r = 0; r < m && s[k] > 0; r++) a[r * n + k] /= s[k];
  }
}

/* ---- the ops ---- */

/* The triangle asked for, zeros in the other; a matrix that is not positive definite gives NaN, as on XLA. */
sn_status sn_eval_cholesky(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *s = i->shape;
  bool lower = sn_instr_bool(i, SN_ATTR_LOWER);
  void *memory;
  SN_TRY(sn_ev_new(e, i, s, out));
  if (s->rank < 2 || s->dims[s->rank - 1] != s->dims[s->rank - 2])
    return sn_ev_error(e, i, SN_ERR_SHAPE, "needs square matrices");
  if (sn_shape_elements(s) == 0) return SN_OK;
  int64_t n = s->dims[s->rank - 1], elements = n * n, count = sn_ev_product(s->rank - 2, s->dims);
  SN_TRY(sn_ev_scratch(e, i, (size_t)elements, sizeof(c), &memory));
  c *a = memory;
  for (int64_t k = 0; k < count; k++) {
    sn_ev_matrix_load(in[0], k, elements, a);
    bool bad = sn_ev_cholesky(a, n, lower) != 0;
    for (int64_t q = 0; q < elements; q++)
      if (bad || (lower ? q % n > q / n : q % n < q / n))
        a[q] = (c){bad ? (double)NAN : 0, bad && sn_type_is_complex(s->type) ? (double)NAN : 0};
    sn_ev_matrix_store(*out, k, elements, a);
  }
  sn_free(memory);
  return SN_OK;
}

sn_status sn_eval_triangular_solve(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *sa = sn_array_shape(in[0]), *sb = i->shape;
  sn_ev_solve how = {sn_instr_bool(i, SN_ATTR_LEFT_SIDE), sn_instr_bool(i, SN_ATTR_LOWER),
                     sn_instr_bool(i, SN_ATTR_UNIT_DIAGONAL), sn_instr_int(i, SN_ATTR_TRANSPOSE_A)};
  void *memory;
  SN_TRY(sn_ev_new(e, i, sb, out));
  if (sb->rank < 2 || sa->rank != sb->rank) return sn_ev_error(e, i, SN_ERR_SHAPE, "needs matrices of one rank");
  if (sn_shape_elements(sb) == 0) return SN_OK;
  int64_t rows = sb->dims[sb->rank - 2], cols = sb->dims[sb->rank - 1], n = how.left ? rows : cols,
          count = sn_ev_product(sb->rank - 2, sb->dims);
  if (sa->dims[sa->rank - 1] != n || sa->dims[sa->rank - 2] != n)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "a is not %lld x %lld", (long long)n, (long long)n);
  SN_TRY(sn_ev_scratch(e, i, (size_t)(n * n + rows * cols), sizeof(c), &memory));
  c *a = memory, *b = a + n * n;
  for (int64_t k = 0; k < count; k++) {
    sn_ev_matrix_load(in[0], k, n * n, a);
    sn_ev_matrix_load(in[1], k, rows * cols, b);
    sn_ev_triangular_solve(&how, a, b, rows, cols);
    sn_ev_matrix_store(*out, k, rows * cols, b);
  }
  sn_free(memory);
  return SN_OK;
}
