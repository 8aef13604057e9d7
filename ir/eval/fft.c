/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Discrete Fourier transforms of any length in f64: decimation in time by the smallest prime factor, each prime by its
 * definition. */
#include <math.h>

#include "eval_internal.h"

typedef struct cplx {
  double re, im;
} cplx;

static cplx mul(cplx a, cplx b) { return (cplx){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static int64_t smallest_factor(int64_t n) {
  for (int64_t p = 2; p * p <= n; p++)
    if (n % p == 0) return p;
  return n;
}

/* out[k] = sum_j in[j * stride] w^(j k): w is a table of the roots of unity of order `order`, a multiple of n.
 * `scratch` has n elements. */
static void transform(int64_t n, const cplx *in, int64_t stride, cplx *out, cplx *scratch, const cplx *w,
                      int64_t order) {
  if (n == 1) {
    out[0] = in[0];
    return;
  }
  int64_t p = smallest_factor(n), m = n / p, step = order / n;
  for (int64_t r = 0; r < p; r++) transform(m, in + r * stride, stride * p, scratch + r * m, out + r * m, w, order);
  for (int64_t k = 0; k < n; k++) {
    cplx sum = scratch[k % m];
    for (int64_t r = 1; r < p; r++) {
      cplx t = mul(scratch[r * m + k % m], w[r * k % n * step]);
      sum.re += t.re;
      sum.im += t.im;
    }
    out[k] = sum;
  }
}

static void roots(int64_t n, bool inverse, cplx *w) {
  for (int64_t k = 0; k < n; k++) {
    long double angle = 2 * 3.14159265358979323846264338327950288L * (long double)k / (long double)n;
    w[k].re = (double)cosl(angle);
    w[k].im = (double)(inverse ? sinl(angle) : -sinl(angle));
  }
}

/* Along one dim of a dense array: lines of n elements `inner` apart. Inverse transforms divide by n. */
static sn_status along(sn_ev_ctx *e, const sn_instr *i, cplx *data, int64_t outer, int64_t n, int64_t inner,
                       bool inverse) {
  void *memory;
  if (n <= 1) return SN_OK;
  SN_TRY(sn_ev_scratch(e, i, 3 * (size_t)n, sizeof(cplx), &memory));
  cplx *w = memory, *line = w + n, *scratch = line + n;
  roots(n, inverse, w);
  for (int64_t o = 0; o < outer; o++)
    for (int64_t q = 0; q < inner; q++) {
      cplx *at = data + o * n * inner + q;
      transform(n, at, inner, line, scratch, w, n);
      double scale = inverse ? 1.0 / (double)n : 1.0;
      for (int64_t k = 0; k < n; k++) {
        at[k * inner].re = line[k].re * scale;
        at[k * inner].im = line[k].im * scale;
      }
    }
  sn_free(memory);
  return SN_OK;
}

/* A row of n / 2 + 1 elements grows to n by x[n - k] = conj x[k]; what must be real is. */
static void hermitian(const cplx *half, cplx *row, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    int64_t from = k <= n / 2 ? k : n - k;
    row[k].re = half[from].re;
    row[k].im = k <= n / 2 ? half[from].im : -half[from].im;
  }
  if (n > 0) row[0].im = 0;
  if (n > 0 && n % 2 == 0) row[n / 2].im = 0;
}

typedef struct fft_job {
  int64_t type;
  sn_ints length;
  int rank, n;               /* of the arrays; transformed dims: the last n */
  int64_t dims[SN_MAX_RANK]; /* of the full complex array */
  int64_t half;              /* last dim of the array of half spectra, or the full one */
  int64_t rows;
  cplx *data;
} fft_job;

static sn_status all_dims(sn_ev_ctx *e, const sn_instr *i, const fft_job *j, int first_dim, int last_dim,
                          int64_t last_size, bool inverse) {
  for (int d = last_dim; d >= first_dim; d--) {
    int64_t inner = 1, outer = sn_ev_product(d, j->dims);
    for (int q = d + 1; q < j->rank; q++) inner *= q == j->rank - 1 ? last_size : j->dims[q];
    SN_TRY(along(e, i, j->data, outer, j->dims[d], inner, inverse));
  }
  return SN_OK;
}

static sn_status run_irfft(sn_ev_ctx *e, const sn_instr *i, const fft_job *j, cplx *full) {
  int64_t n = j->dims[j->rank - 1];
  SN_TRY(all_dims(e, i, j, j->rank - j->n, j->rank - 2, j->half, true));
  for (int64_t r = 0; r < j->rows; r++) hermitian(j->data + r * j->half, full + r * n, n);
  return along(e, i, full, j->rows, n, 1, true);
}

static void load(const sn_array *a, int64_t row, int64_t n, cplx *to) {
  sn_type t = sn_array_shape(a)->type;
  sn_ev_load_carrier(SN_EV_C128, to, t, (const char *)sn_array_data(a) + (size_t)(row * n) * sn_type_bytes(t), 1, n);
}

static void store_row(sn_array *a, int64_t row, int64_t n, const cplx *from) {
  sn_type t = sn_array_shape(a)->type;
  char *to = (char *)sn_array_data(a) + (size_t)(row * n) * sn_type_bytes(t);
  if (sn_type_is_complex(t))
    sn_ev_store_carrier(SN_EV_C128, t, to, from, n);
  else
    for (int64_t k = 0; k < n; k++) sn_store_f64(t, to + (size_t)k * sn_type_bytes(t), from[k].re);
}

static sn_status job_open(sn_ev_ctx *e, const sn_instr *i, const sn_shape *in, fft_job *j) {
  memset(j, 0, sizeof *j);
  j->type = sn_instr_int(i, SN_ATTR_FFT_TYPE);
  j->length = sn_instr_ints(i, SN_ATTR_FFT_LENGTH);
  j->rank = in->rank;
  j->n = (int)j->length.n;
  if (j->n < 1 || j->n > j->rank)
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "fft_length of %d dimensions for an operand of rank %d", j->n, j->rank);
  memcpy(j->dims, in->dims, (size_t)in->rank * sizeof *in->dims);
  for (int d = 0; d < j->n; d++) j->dims[j->rank - j->n + d] = j->length.v[d];
  int64_t last = j->dims[j->rank - 1];
  j->half = j->type == SN_FFT_TYPE_RFFT || j->type == SN_FFT_TYPE_IRFFT ? last / 2 + 1 : last;
  j->rows = sn_ev_product(j->rank - 1, j->dims);
  return SN_OK;
}

sn_status sn_eval_fft(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  fft_job j;
  void *memory;
  SN_TRY(job_open(e, i, sn_array_shape(in[0]), &j));
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  int64_t last = j.dims[j.rank - 1], in_last = sn_array_shape(in[0])->dims[j.rank - 1],
          out_last = i->shape->dims[j.rank - 1];
  if (sn_shape_elements(i->shape) == 0 || last == 0) return SN_OK;
  if (j.type == SN_FFT_TYPE_IRFFT ? in_last != j.half : in_last != last)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "fft_length does not fit the operand");
  bool irfft = j.type == SN_FFT_TYPE_IRFFT, inverse = irfft || j.type == SN_FFT_TYPE_IFFT;
  SN_TRY(sn_ev_scratch(e, i, (size_t)j.rows * (size_t)(irfft ? j.half + last : last), sizeof(cplx), &memory));
  j.data = memory;
  for (int64_t r = 0; r < j.rows; r++) load(in[0], r, in_last, j.data + r * in_last);
  cplx *result = irfft ? j.data + j.rows * j.half : j.data;
  sn_status s = irfft ? run_irfft(e, i, &j, result) : all_dims(e, i, &j, j.rank - j.n, j.rank - 1, last, inverse);
  for (int64_t r = 0; r < j.rows && s == SN_OK; r++) store_row(*out, r, out_last, result + r * last);
  sn_free(memory);
  return s;
}
