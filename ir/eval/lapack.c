/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* LAPACK by the names under which JAX calls it, in both forms that its programs have had:
 *
 *   lapack_sgetrf_ffi   operands: arrays; options in the dictionary of the configuration (`uplo = 76 : ui8`)
 *   lapack_sgetrf       operands: options and sizes as integers, then the arrays; workspaces among the results
 *   blas_strsm          the same for triangular solves
 *
 * Matrices are values: row-major here, whatever layout the call asks for. Factorisations that cholesky and
 * triangular-solve need too are our own (linalg.h); the rest is LAPACKE, loaded when a call needs it. Without it, the
 * real symmetric and singular value problems fall back to Jacobi rotations. */
#include "linalg.h"

#include <stdio.h>

typedef struct call {
  sn_ev_ctx *e;
  const sn_instr *i;
  char letter; /* s, d, c, z */
  bool old;    /* options are operands */
  sn_array *const *options;
  sn_array *const *in; /* the arrays */
  int n_in, n_out;
  sn_array *out[8];
  int64_t count, rows, cols; /* matrices of the first array */
  sn_library *library;
} call;

enum { ROW_MAJOR = 101 };

static bool complex_call(const call *c) { return c->letter == 'c' || c->letter == 'z'; }
static size_t real_bytes(const call *c) { return c->letter == 's' || c->letter == 'c' ? 4 : 8; }

/* ---- options ---- */

/* `key = 76 : ui8` of the dictionary. */
static int64_t entry(const call *c, const char *key, int64_t otherwise) {
  size_t n = strlen(key);
  for (const char *at = c->i->backend_config; at && (at = strstr(at, key)); at += n) {
    if (at > c->i->backend_config && (at[-1] == '_' || (at[-1] >= 'a' && at[-1] <= 'z'))) continue;
    const char *v = at + n;
    int64_t x = 0;
    while (*v == ' ') v++;
    if (*v++ != '=') continue;
    while (*v == ' ') v++;
    for (; *v >= '0' && *v <= '9'; v++) x = x * 10 + (*v - '0');
    return x;
  }
  return otherwise;
}

static int64_t operand(const call *c, int k) {
  const sn_array *a = c->options[k];
  return sn_shape_elements(sn_array_shape(a)) > 0 ? sn_load_i64(sn_array_shape(a)->type, sn_array_data(a)) : 0;
}

/* A character of LAPACK's interface; old calls have a truth value or number that picks one of `words`. */
static char option(const call *c, const char *key, int k, const char *words) {
  if (!c->old) return (char)entry(c, key, words[0]);
  int64_t v = operand(c, k);
  return v >= 0 && v < (int64_t)strlen(words) ? words[v] : words[0];
}

/* ---- arrays ---- */

static void *matrix(const call *c, sn_array *a, int64_t k) {
  int64_t each = c->count > 0 ? sn_shape_elements(sn_array_shape(a)) / c->count : 0;
  return (char *)sn_array_data(a) + (size_t)(k * each) * sn_type_bytes(sn_array_shape(a)->type);
}

static void put_info(const call *c, int out, int64_t k, int64_t v) {
  if (out >= c->n_out || !sn_type_is_integer(sn_array_shape(c->out[out])->type)) return;
  sn_store_i64(sn_array_shape(c->out[out])->type, matrix(c, c->out[out], k), v);
}

static sn_status misfit(const call *c) {
  return sn_ev_error(c->e, c->i, SN_ERR_SHAPE, "operands and results do not fit LAPACK's routine");
}

/* The result is the operand, to be overwritten. */
static bool start_from(const call *c, int out, int in) {
  const sn_array *a = c->in[in];
  if (out >= c->n_out || in >= c->n_in || sn_array_bytes(c->out[out]) != sn_array_bytes(a)) return false;
  memcpy(sn_array_data(c->out[out]), sn_array_data(a), sn_array_bytes(a));
  return true;
}

/* Has result `out` n elements a matrix, of the matrices' type or its real one? */
static bool holds(const call *c, int out, int64_t n, bool real) {
  if (out >= c->n_out) return false;
  const sn_shape *s = sn_array_shape(c->out[out]);
  size_t each = real_bytes(c) * (complex_call(c) && !real ? 2 : 1);
  return sn_shape_elements(s) == c->count * n && sn_type_bytes(s->type) == each;
}

/* ---- own routines ---- */

/* a -> (factor with the rest of a, info) */
static sn_status potrf(call *c) {
  int64_t n = c->cols;
  void *memory = NULL;
  if (!start_from(c, 0, 0) || c->rows != n) return misfit(c);
  bool lower = option(c, "uplo", 0, "UL") == 'L';
  SN_TRY(sn_ev_scratch(c->e, c->i, (size_t)(n * n), sizeof(sn_ev_c), &memory));
  for (int64_t k = 0; k < c->count; k++) {
    sn_ev_matrix_load(c->in[0], k, n * n, memory);
    put_info(c, 1, k, sn_ev_cholesky(memory, n, lower));
    sn_ev_matrix_store(c->out[0], k, n * n, memory);
  }
  sn_free(memory);
  return SN_OK;
}

/* a, b -> x */
static sn_status trsm(call *c) {
  const sn_shape *sb = c->n_in > 1 ? sn_array_shape(c->in[1]) : NULL;
  if (!sb || sb->rank < 2 || !start_from(c, 0, 1)) return misfit(c);
  int64_t rows = sb->dims[sb->rank - 2], cols = sb->dims[sb->rank - 1];
  char trans = option(c, "trans_x", 2, "NTC");
  sn_ev_solve how = {option(c, "side", 0, "RL") == 'L', option(c, "uplo", 1, "UL") == 'L',
                     option(c, "diag", 3, "NU") == 'U',
                     trans == 'N'   ? SN_TRANSPOSE_NO_TRANSPOSE
                     : trans == 'C' ? SN_TRANSPOSE_ADJOINT
                                    : SN_TRANSPOSE_TRANSPOSE};
  void *memory = NULL;
  if (c->rows != c->cols || c->rows != (how.left ? rows : cols)) return misfit(c);
  SN_TRY(sn_ev_scratch(c->e, c->i, (size_t)(c->rows * c->cols + rows * cols), sizeof(sn_ev_c), &memory));
  sn_ev_c *a = memory, *b = a + c->rows * c->cols;
  for (int64_t k = 0; k < c->count; k++) {
    sn_ev_matrix_load(c->in[0], k, c->rows * c->cols, a);
    sn_ev_matrix_load(c->in[1], k, rows * cols, b);
    sn_ev_triangular_solve(&how, a, b, rows, cols);
    sn_ev_matrix_store(c->out[0], k, rows * cols, b);
  }
  sn_free(memory);
  return SN_OK;
}

/* a -> (LU, pivots from 1, info) */
static sn_status getrf(call *c) {
  int64_t least = c->rows < c->cols ? c->rows : c->cols, each = c->rows * c->cols;
  void *memory = NULL;
  if (!start_from(c, 0, 0) || c->n_out < 2 || sn_array_bytes(c->out[1]) != (size_t)(c->count * least) * 4) return misfit(c);
  SN_TRY(sn_ev_scratch(c->e, c->i, (size_t)each, sizeof(sn_ev_c), &memory));
  for (int64_t k = 0; k < c->count; k++) {
    sn_ev_matrix_load(c->in[0], k, each, memory);
    put_info(c, 2, k, sn_ev_lu(memory, c->rows, c->cols, matrix(c, c->out[1], k)));
    sn_ev_matrix_store(c->out[0], k, each, memory);
  }
  sn_free(memory);
  return SN_OK;
}

static void store_reals(sn_array *a, int64_t first, int64_t n, const double *from) {
  sn_type t = sn_array_shape(a)->type;
  sn_ev_store_carrier(SN_EV_F64, t, (char *)sn_array_data(a) + (size_t)first * sn_type_bytes(t), from, n);
}

/* Real symmetric, where there is no LAPACKE. */
static sn_status own_eigen(call *c, bool lower) {
  int64_t n = c->cols;
  void *memory = NULL;
  SN_TRY(sn_ev_scratch(c->e, c->i, (size_t)(2 * n * n + n), sizeof(sn_ev_c), &memory));
  sn_ev_c *a = memory;
  double *full = (double *)(void *)(a + n * n), *v = full + n * n, *w = (double *)(void *)a;
  for (int64_t k = 0; k < c->count; k++) {
    sn_ev_matrix_load(c->in[0], k, n * n, a);
    for (int64_t p = 0; p < n; p++)
      for (int64_t q = 0; q < n; q++) full[p * n + q] = (q > p) == lower && p != q ? a[q * n + p].re : a[p * n + q].re;
    sn_ev_eigen(full, v, w, n);
    store_reals(c->out[1], k * n, n, w);
    store_reals(c->out[0], k * n * n, n * n, v);
  }
  sn_free(memory);
  return SN_OK;
}

/* Real and thin, where there is no LAPACKE: one-sided rotations of the tall one of a and its transpose. */
static sn_status own_svd(call *c, char mode) {
  int64_t m = c->rows, n = c->cols, least = m < n ? m : n, most = m < n ? n : m;
  void *memory = NULL;
  SN_TRY(sn_ev_scratch(c->e, c->i, (size_t)(m * n + most * least + least * least + least), sizeof(sn_ev_c), &memory));
  sn_ev_c *whole = memory;
  double *a = (double *)(void *)(whole + m * n), *v = a + most * least, *w = v + least * least, *t = (double *)(void *)whole;
  for (int64_t k = 0; k < c->count; k++) {
    sn_ev_matrix_load(c->in[0], k, m * n, whole);
    for (int64_t p = 0; p < m; p++)
      for (int64_t q = 0; q < n; q++) a[m >= n ? p * n + q : q * m + p] = whole[p * n + q].re;
    sn_ev_svd(a, w, v, most, least);
    store_reals(c->out[1], k * least, least, w);
    if (mode == 'N') continue;
    const double *u = m >= n ? a : v, *right = m >= n ? v : a; /* both with `least` columns */
    store_reals(c->out[2], k * m * least, m * least, u);
    for (int64_t p = 0; p < least; p++)
      for (int64_t q = 0; q < n; q++) t[p * n + q] = right[q * least + p];
    store_reals(c->out[3], k * least * n, least * n, t);
  }
  sn_free(memory);
  return SN_OK;
}

/* ---- LAPACKE ---- */

/* The routine of the call's type; *out NULL: this machine has no LAPACKE. */
static void *routine(call *c, const char *stem) {
  static const char *const names[] = {"liblapacke.so.3", "liblapacke.so"};
  char symbol[32];
  if (!c->library && sn_library_open(NULL, names, 2, &c->library) != SN_OK) return NULL;
  snprintf(symbol, sizeof symbol, "LAPACKE_%c%s", c->letter, stem);
  return sn_library_symbol(c->library, symbol);
}

static sn_status no_lapacke(const call *c) {
  (void)sn_ev_error(c->e, c->i, SN_ERR_UNAVAILABLE, "needs LAPACKE, which this machine has not");
  sn_hint(c->e->d, "it comes with the package liblapacke");
  return SN_ERR_UNAVAILABLE;
}

/* a -> (reflectors and R, tau[, info]) */
typedef int (*geqrf_fn)(int layout, int m, int n, void *a, int lda, void *tau);
static sn_status geqrf(call *c) {
  geqrf_fn fn = (geqrf_fn)(uintptr_t)routine(c, "geqrf");
  int64_t least = c->rows < c->cols ? c->rows : c->cols;
  if (!fn) return no_lapacke(c);
  if (!start_from(c, 0, 0) || !holds(c, 1, least, false)) return misfit(c);
  for (int64_t k = 0; k < c->count; k++)
    put_info(c, 2, k, fn(ROW_MAJOR, (int)c->rows, (int)c->cols, matrix(c, c->out[0], k), (int)c->cols, matrix(c, c->out[1], k)));
  return SN_OK;
}

/* a, pivots -> (reflectors and R, pivots, tau, info) */
typedef int (*geqp3_fn)(int layout, int m, int n, void *a, int lda, int *pivots, void *tau);
static sn_status geqp3(call *c) {
  geqp3_fn fn = (geqp3_fn)(uintptr_t)routine(c, "geqp3");
  int64_t least = c->rows < c->cols ? c->rows : c->cols;
  if (!fn) return no_lapacke(c);
  if (!start_from(c, 0, 0) || !start_from(c, 1, 1) || sn_array_bytes(c->out[1]) != (size_t)(c->count * c->cols) * 4 || !holds(c, 2, least, false)) return misfit(c);
  for (int64_t k = 0; k < c->count; k++)
    put_info(c, 3, k, fn(ROW_MAJOR, (int)c->rows, (int)c->cols, matrix(c, c->out[0], k), (int)c->cols, matrix(c, c->out[1], k), matrix(c, c->out[2], k)));
  return SN_OK;
}

/* reflectors, tau -> (Q[, info]) */
typedef int (*orgqr_fn)(int layout, int m, int n, int k, void *a, int lda, const void *tau);
static sn_status orgqr(call *c) {
  orgqr_fn fn = (orgqr_fn)(uintptr_t)routine(c, complex_call(c) ? "ungqr" : "orgqr");
  if (!fn) return no_lapacke(c);
  if (!start_from(c, 0, 0) || c->n_in < 2 || c->count == 0) return c->count == 0 ? SN_OK : misfit(c);
  int64_t reflectors = sn_shape_elements(sn_array_shape(c->in[1])) / c->count;
  for (int64_t k = 0; k < c->count; k++)
    put_info(c, 1, k, fn(ROW_MAJOR, (int)c->rows, (int)c->cols, (int)reflectors, matrix(c, c->out[0], k), (int)c->cols, matrix(c, c->in[1], k)));
  return SN_OK;
}

/* a -> (eigenvectors, eigenvalues, info); symmetric or Hermitian */
typedef int (*syevd_fn)(int layout, char job, char uplo, int n, void *a, int lda, void *w);
static sn_status syevd(call *c) {
  syevd_fn fn = (syevd_fn)(uintptr_t)routine(c, complex_call(c) ? "heevd" : "syevd");
  char uplo = option(c, "uplo", 0, "UL"), job = c->old ? 'V' : (char)entry(c, "mode", 'V');
  if (!start_from(c, 0, 0) || c->rows != c->cols || !holds(c, 1, c->cols, true)) return misfit(c);
  if (!fn) return complex_call(c) ? no_lapacke(c) : own_eigen(c, uplo == 'L');
  for (int64_t k = 0; k < c->count; k++)
    put_info(c, 2, k, fn(ROW_MAJOR, job, uplo, (int)c->cols, matrix(c, c->out[0], k), (int)c->cols, matrix(c, c->out[1], k)));
  return SN_OK;
}

/* a -> (a, s, u, v^H, info) */
typedef int (*gesdd_fn)(int layout, char job, int m, int n, void *a, int lda, void *s, void *u, int ldu, void *vt, int ldvt);
static sn_status gesdd(call *c) {
  gesdd_fn fn = (gesdd_fn)(uintptr_t)routine(c, "gesdd");
  int64_t m = c->rows, n = c->cols, least = m < n ? m : n;
  char job = c->old ? (operand(c, 1) == 0 ? 'N' : operand(c, 0) != 0 ? 'A' : 'S') : (char)entry(c, "mode", 'N');
  int64_t wide = job == 'A' ? m : least, high = job == 'A' ? n : least;
  if (!start_from(c, 0, 0) || !holds(c, 1, least, true)) return misfit(c);
  if (job != 'N' && (!holds(c, 2, m * wide, false) || !holds(c, 3, high * n, false))) return misfit(c);
  if (!fn) return complex_call(c) || (job == 'A' && m != n) ? no_lapacke(c) : own_svd(c, job);
  for (int64_t k = 0; k < c->count; k++) {
    void *u = job == 'N' ? NULL : matrix(c, c->out[2], k), *vt = job == 'N' ? NULL : matrix(c, c->out[3], k);
    int ldu = job == 'N' || wide < 1 ? 1 : (int)wide, ldvt = n < 1 ? 1 : (int)n;
    put_info(c, 4, k, fn(ROW_MAJOR, job, (int)m, (int)n, matrix(c, c->out[0], k), (int)n, matrix(c, c->out[1], k), u, ldu, vt, ldvt));
  }
  return SN_OK;
}

/* Real eigenvectors come as columns; those of a conjugate pair as real and imaginary part in two of them. */
static void pair_columns(const call *c, const void *v, const void *wi, int64_t n, void *to) {
  sn_type t = real_bytes(c) == 4 ? SN_TYPE_F32 : SN_TYPE_F64, ct = real_bytes(c) == 4 ? SN_TYPE_C64 : SN_TYPE_C128;
  size_t each = real_bytes(c);
  for (int64_t q = 0; q < n; q++) {
    bool pair = q + 1 < n && sn_load_f64(t, (const char *)wi + (size_t)q * each) != 0;
    for (int64_t p = 0; p < n; p++) {
      const char *from = (const char *)v + (size_t)(p * n + q) * each;
      char *at = (char *)to + (size_t)(p * n + q) * 2 * each;
      double re = sn_load_f64(t, from), im = pair ? sn_load_f64(t, from + each) : 0;
      sn_store_c128(ct, at, re, im);
      if (pair) sn_store_c128(ct, at + 2 * each, re, -im);
    }
    q += pair;
  }
}

/* a -> (eigenvalues: real and imaginary parts, or complex; left vectors, right vectors, info) */
typedef int (*geev_real_fn)(int layout, char left, char right, int n, void *a, int lda, void *wr, void *wi, void *vl, int ldvl, void *vr, int ldvr);
typedef int (*geev_complex_fn)(int layout, char left, char right, int n, void *a, int lda, void *w, void *vl, int ldvl, void *vr, int ldvr);
static sn_status geev(call *c) {
  void *fn = routine(c, "geev"), *memory = NULL;
  int n = (int)c->cols, first = c->old ? complex_call(c) ? 2 : 3 : 0, vectors = first + (complex_call(c) ? 1 : 2);
  bool real = !complex_call(c);
  char left = c->old ? (char)operand(c, 2) : (char)entry(c, "compute_left", 'N'), right = c->old ? (char)operand(c, 3) : (char)entry(c, "compute_right", 'N');
  if (!fn) return no_lapacke(c);
  if (c->rows != c->cols || c->n_out < vectors + 2 || !holds(c, first, n, false) || (real && !holds(c, first + 1, n, false))) return misfit(c);
  for (int v = vectors; v < vectors + 2; v++)
    if (sn_array_bytes(c->out[v]) != (size_t)(c->count * n * n) * 2 * real_bytes(c)) return misfit(c);
  size_t bytes = sn_array_bytes(c->in[0]) / (size_t)(c->count > 0 ? c->count : 1);
  SN_TRY(sn_ev_scratch(c->e, c->i, 3 * bytes, 1, &memory)); /* it is overwritten; real vectors */
  char *a = memory, *vl = a + bytes, *vr = vl + bytes;
  for (int64_t k = 0; k < c->count; k++) {
    void *w = matrix(c, c->out[first], k), *l = matrix(c, c->out[vectors], k), *r = matrix(c, c->out[vectors + 1], k);
    memcpy(a, matrix(c, c->in[0], k), bytes);
    int ld = n < 1 ? 1 : n, info;
    if (real) {
      void *wi = matrix(c, c->out[first + 1], k);
      info = ((geev_real_fn)(uintptr_t)fn)(ROW_MAJOR, left, right, n, a, ld, w, wi, vl, ld, vr, ld);
      if (left == 'V') pair_columns(c, vl, wi, n, l);
      if (right == 'V') pair_columns(c, vr, wi, n, r);
    } else {
      info = ((geev_complex_fn)(uintptr_t)fn)(ROW_MAJOR, left, right, n, a, ld, w, l, ld, r, ld);
    }
    put_info(c, vectors + 2, k, info);
  }
  sn_free(memory);
  return SN_OK;
}

/* a -> (T, vectors, eigenvalues, n selected, info); old calls have the eigenvalues in front of the vectors */
typedef int (*gees_real_fn)(int layout, char job, char sort, void *select, int n, void *a, int lda, int *selected, void *wr, void *wi, void *vs, int ldvs);
typedef int (*gees_complex_fn)(int layout, char job, char sort, void *select, int n, void *a, int lda, int *selected, void *w, void *vs, int ldvs);
static sn_status gees(call *c) {
  void *fn = routine(c, "gees");
  bool real = !complex_call(c);
  int n = (int)c->cols, ld = n < 1 ? 1 : n, w = c->old ? real ? 1 : 2 : 2, vs = c->old ? 3 : 1, selected_at = real || c->old ? 4 : 3;
  char job = c->old ? (char)operand(c, 2) : (char)entry(c, "mode", 'V'), sort = c->old ? (char)operand(c, 3) : (char)entry(c, "sort", 'N');
  if (!fn) return no_lapacke(c);
  if (sort != 'N') return sn_ev_error(c->e, c->i, SN_ERR_UNSUPPORTED, "eigenvalues cannot be sorted by a function of the caller's");
  if (c->rows != c->cols || !start_from(c, 0, 0) || !holds(c, vs, (int64_t)n * n, false) || !holds(c, w, n, false) || (real && !holds(c, w + 1, n, false))) return misfit(c);
  for (int64_t k = 0; k < c->count; k++) {
    int selected = 0;
    void *a = matrix(c, c->out[0], k), *values = matrix(c, c->out[w], k), *v = matrix(c, c->out[vs], k);
    int info = real ? ((gees_real_fn)(uintptr_t)fn)(ROW_MAJOR, job, 'N', NULL, n, a, ld, &selected, values, matrix(c, c->out[w + 1], k), v, ld)
                    : ((gees_complex_fn)(uintptr_t)fn)(ROW_MAJOR, job, 'N', NULL, n, a, ld, &selected, values, v, ld);
    put_info(c, selected_at, k, selected);
    put_info(c, selected_at + 1, k, info);
  }
  return SN_OK;
}

/* a -> (Hessenberg form and reflectors, tau, info) */
typedef int (*gehrd_fn)(int layout, int n, int low, int high, void *a, int lda, void *tau);
static sn_status gehrd(call *c) {
  gehrd_fn fn = (gehrd_fn)(uintptr_t)routine(c, "gehrd");
  int n = (int)c->cols, low = (int)(c->old ? operand(c, 1) : entry(c, "low", 1)), high = (int)(c->old ? operand(c, 2) : entry(c, "high", n));
  if (!fn) return no_lapacke(c);
  if (c->rows != c->cols || !start_from(c, 0, 0) || !holds(c, 1, n > 0 ? n - 1 : 0, false)) return misfit(c);
  for (int64_t k = 0; k < c->count; k++) put_info(c, 2, k, fn(ROW_MAJOR, n, low, high, matrix(c, c->out[0], k), n, matrix(c, c->out[1], k)));
  return SN_OK;
}

/* a -> (tridiagonal form and reflectors, diagonal, the one beside it, tau, info) */
typedef int (*sytrd_fn)(int layout, char uplo, int n, void *a, int lda, void *d, void *e, void *tau);
static sn_status sytrd(call *c) {
  sytrd_fn fn = (sytrd_fn)(uintptr_t)routine(c, complex_call(c) ? "hetrd" : "sytrd");
  int n = (int)c->cols, rest = n > 0 ? n - 1 : 0;
  char uplo = option(c, "uplo", 1, "UL");
  if (!fn) return no_lapacke(c);
  if (c->rows != c->cols || !start_from(c, 0, 0) || !holds(c, 1, n, true) || !holds(c, 2, rest, true) || !holds(c, 3, rest, false)) return misfit(c);
  for (int64_t k = 0; k < c->count; k++)
    put_info(c, 4, k, fn(ROW_MAJOR, uplo, n, matrix(c, c->out[0], k), n, matrix(c, c->out[1], k), matrix(c, c->out[2], k), matrix(c, c->out[3], k)));
  return SN_OK;
}

/* lower diagonal (its first element unused), diagonal, upper diagonal (its last unused), b -> (factors, x, info) */
typedef int (*gtsv_fn)(int layout, int n, int n_rhs, void *dl, void *d, void *du, void *b, int ldb);
static sn_status gtsv(call *c) {
  gtsv_fn fn = (gtsv_fn)(uintptr_t)routine(c, "gtsv");
  const sn_shape *sb = c->n_in > 3 ? sn_array_shape(c->in[3]) : NULL;
  if (!fn) return no_lapacke(c);
  if (!sb || sb->rank < 2) return misfit(c);
  int64_t n = sb->dims[sb->rank - 2], rhs = sb->dims[sb->rank - 1];
  size_t each = sn_type_bytes(sb->type);
  c->count = n * rhs > 0 ? sn_ev_product(sb->rank - 2, sb->dims) : 0;
  for (int k = 0; k < 4; k++)
    if (!start_from(c, k, k) || !holds(c, k, k < 3 ? n : n * rhs, false)) return misfit(c);
  for (int64_t k = 0; k < c->count; k++)
    put_info(c, 4, k, fn(ROW_MAJOR, (int)n, (int)rhs, (char *)matrix(c, c->out[0], k) + each, matrix(c, c->out[1], k), matrix(c, c->out[2], k), matrix(c, c->out[3], k), (int)rhs));
  return SN_OK;
}

/* ---- the table ---- */

typedef struct stem_row {
  const char *stem;
  int options; /* integers in front of the arrays of an old call */
  sn_status (*fn)(call *c);
} stem_row;
static const stem_row stems[] = {{"geev", 4, geev},   {"geqp3", 4, geqp3}, {"geqrf", 4, geqrf}, {"gees", 4, gees},   {"gehrd", 6, gehrd}, {"gesdd", 6, gesdd}, {"getrf", 3, getrf}, {"gtsv", 0, gtsv},
                                 {"heevd", 3, syevd}, {"hetrd", 5, sytrd}, {"orgqr", 5, orgqr}, {"potrf", 3, potrf}, {"syevd", 3, syevd}, {"sytrd", 5, sytrd}, {"trsm", 8, trsm},   {"ungqr", 5, orgqr}};

/* `lapack_` or `blas_`, a letter for the type, the routine, `_ffi` or nothing. */
static const stem_row *find_stem(const char *name, char *letter, bool *old) {
  const char *at = strncmp(name, "lapack_", 7) == 0 ? name + 7 : strncmp(name, "blas_", 5) == 0 ? name + 5 : NULL;
  if (!at || !*at || !strchr("sdcz", *at)) return NULL;
  *letter = *at++;
  for (size_t r = 0; r < sizeof stems / sizeof stems[0]; r++) {
    size_t n = strlen(stems[r].stem);
    if (strncmp(at, stems[r].stem, n) != 0 || (at[n] != '\0' && strcmp(at + n, "_ffi") != 0)) continue;
    *old = at[n] == '\0';
    return &stems[r];
  }
  return NULL;
}

bool sn_ev_is_lapack(const char *target) {
  char letter;
  bool old;
  return find_stem(target, &letter, &old) != NULL;
}

static sn_status open_call(call *c, const sn_instr *i) {
  const sn_shape *s = sn_array_shape(c->in[0]);
  bool tuple = sn_shape_is_tuple(i->shape);
  int n = tuple ? i->shape->n_elements : 1;
  if (s->rank < 1 || n < 1 || n > 8 || !sn_shape_is_array(tuple ? i->shape->elements[0] : i->shape)) return misfit(c);
  c->rows = s->rank >= 2 ? s->dims[s->rank - 2] : 1;
  c->cols = s->dims[s->rank - 1];
  c->count = s->rank >= 2 && c->rows * c->cols > 0 ? sn_ev_product(s->rank - 2, s->dims) : 0;
  for (; c->n_out < n; c->n_out++) SN_TRY(sn_ev_new_zero(c->e, i, tuple ? i->shape->elements[c->n_out] : i->shape, &c->out[c->n_out]));
  return SN_OK;
}

static bool element_types_fit(const call *c) {
  static const struct { char letter; sn_type t; } types[] = {{'s', SN_TYPE_F32}, {'d', SN_TYPE_F64}, {'c', SN_TYPE_C64}, {'z', SN_TYPE_C128}};
  for (size_t k = 0; k < 4; k++)
    if (types[k].letter == c->letter) return sn_array_shape(c->in[0])->type == types[k].t;
  return false;
}

sn_status sn_ev_lapack(sn_ev_ctx *e, const sn_instr *i, const char *target, sn_array *const *in, sn_array **out) {
  call c = {.e = e, .i = i, .options = in};
  const stem_row *row = find_stem(target, &c.letter, &c.old);
  int options = c.old ? row->options : 0;
  if ((int)i->n_operands <= options) return sn_ev_error(e, i, SN_ERR_VERIFY, "\"%s\" takes more than %d operands", target, options);
  c.in = in + options;
  c.n_in = (int)i->n_operands - options;
  if (!element_types_fit(&c)) return sn_ev_error(e, i, SN_ERR_TYPE, "\"%s\" takes matrices of another element type than %s", target, sn_type_text(sn_array_shape(c.in[0])->type));
  sn_status s = open_call(&c, i);
  if (s == SN_OK) s = row->fn(&c);
  sn_library_close(c.library);
  if (s != SN_OK) {
    for (int k = 0; k < c.n_out; k++) sn_ev_release(e, c.out[k]);
    return s;
  }
  if (sn_shape_is_tuple(i->shape)) return sn_ev_new_tuple(e, i, c.n_out, c.out, out);
  *out = c.out[0];
  return SN_OK;
}
