/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Products of matrices in the carrier types: packed panels, a 4 x 4 block of sums in registers, all of k in one go.
 * Each element of the result is the sum over k in order, in f64 for every float: no split depends on threads, and the
 * result is rounded once. */

#include "eval_internal.h"

enum { MR = SN_EV_MR, NR = SN_EV_NR, ROWS = SN_EV_ROWS, COLS = 64 };

size_t sn_ev_carrier_bytes(sn_ev_carrier c) { return c == SN_EV_C128 ? 16 : 8; }

sn_ev_carrier sn_ev_carrier_of(sn_type a, sn_type b, sn_type out) {
  if (sn_type_is_complex(a) || sn_type_is_complex(b) || sn_type_is_complex(out)) return SN_EV_C128;
  if (sn_type_is_float(a) || sn_type_is_float(b) || sn_type_is_float(out)) return SN_EV_F64;
  return SN_EV_I64;
}

/* ---- loading and storing ---- */

#define LOAD_LOOP(T, V)                                        \
  do {                                                         \
    const T *v = from;                                         \
    if (stride == 1)                                           \
      for (int64_t j = 0; j < n; j++) o[j] = (V)v[j];          \
    else                                                       \
      for (int64_t j = 0; j < n; j++) o[j] = (V)v[j * stride]; \
  } while (0)

static void load_f64(double *o, sn_type t, const void *from, int64_t stride, int64_t n) {
  size_t bytes = sn_type_bytes(t);
  if (t == SN_TYPE_F32)
    LOAD_LOOP(float, double);
  else if (t == SN_TYPE_F64)
    LOAD_LOOP(double, double);
  else if (stride == 1)
    sn_convert(SN_TYPE_F64, o, t, from, n);
  else
    for (int64_t j = 0; j < n; j++) o[j] = sn_load_f64(t, (const char *)from + j * stride * (int64_t)bytes);
}

static void load_i64(int64_t *o, sn_type t, const void *from, int64_t stride, int64_t n) {
  if (t == SN_TYPE_S8)
    LOAD_LOOP(int8_t, int64_t);
  else if (t == SN_TYPE_S32)
    LOAD_LOOP(int32_t, int64_t);
  else
    for (int64_t j = 0; j < n; j++) o[j] = sn_load_i64(t, (const char *)from + j * stride * (int64_t)sn_type_bytes(t));
}

void sn_ev_load_carrier(sn_ev_carrier c, void *to, sn_type t, const void *from, int64_t stride, int64_t n) {
  if (c == SN_EV_F64) {
    load_f64(to, t, from, stride, n);
  } else if (c == SN_EV_I64) {
    load_i64(to, t, from, stride, n);
  } else {
    double *o = to;
    for (int64_t j = 0; j < n; j++)
      sn_load_c128(t, (const char *)from + j * stride * (int64_t)sn_type_bytes(t), &o[2 * j], &o[2 * j + 1]);
  }
}

void sn_ev_store_carrier(sn_ev_carrier c, sn_type t, void *to, const void *from, int64_t n) {
  size_t bytes = sn_type_bytes(t);
  if (c == SN_EV_F64) {
    sn_convert(t, to, SN_TYPE_F64, from, n);
  } else if (c == SN_EV_I64) {
    for (int64_t j = 0; j < n; j++) {
      int64_t v = ((const int64_t *)from)[j];
      sn_store_i64(t, (char *)to + (size_t)j * bytes, t == SN_TYPE_PRED ? v != 0 : v);
    }
  } else {
    for (int64_t j = 0; j < n; j++)
      sn_store_c128(t, (char *)to + (size_t)j * bytes, ((const double *)from)[2 * j],
                    ((const double *)from)[2 * j + 1]);
  }
}

/* ---- the block in registers ---- */

/* a: k x MR, b: k x NR, c: MR rows at ldc. The inner loops are unrolled and become vectors under -O3. */
static void block_f64(int64_t k, const double *a, const double *b, double *c, int64_t ldc) {
  double acc[MR][NR] = {{0}};
  for (int64_t p = 0; p < k; p++, a += MR, b += NR)
    for (int i = 0; i < MR; i++)
      for (int j = 0; j < NR; j++) acc[i][j] += a[i] * b[j];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) c[i * ldc + j] = acc[i][j];
}

static void block_i64(int64_t k, const uint64_t *a, const uint64_t *b, uint64_t *c, int64_t ldc) {
  uint64_t acc[MR][NR] = {{0}};
  for (int64_t p = 0; p < k; p++, a += MR, b += NR)
    for (int i = 0; i < MR; i++)
      for (int j = 0; j < NR; j++) acc[i][j] += a[i] * b[j];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) c[i * ldc + j] = acc[i][j];
}

static void block_c128(int64_t k, const double *a, const double *b, double *c, int64_t ldc) {
  double acc[MR][NR][2] = {{{0}}};
  for (int64_t p = 0; p < k; p++, a += 2 * MR, b += 2 * NR)
    for (int i = 0; i < MR; i++)
      for (int j = 0; j < NR; j++) {
        acc[i][j][0] += a[2 * i] * b[2 * j] - a[2 * i + 1] * b[2 * j + 1];
        acc[i][j][1] += a[2 * i] * b[2 * j + 1] + a[2 * i + 1] * b[2 * j];
      }
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) {
      c[2 * (i * ldc + j)] = acc[i][j][0];
      c[2 * (i * ldc + j) + 1] = acc[i][j][1];
    }
}

/* The same with every product and sum rounded to float (sn_eval_options.stepwise). */
static void block_f32(int64_t k, const double *a, const double *b, double *c, int64_t ldc) {
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) {
      float acc = 0;
      for (int64_t p = 0; p < k; p++) acc += (float)a[p * MR + i] * (float)b[p * NR + j];
      c[i * ldc + j] = (double)acc;
    }
}

static void block_c64(int64_t k, const double *a, const double *b, double *c, int64_t ldc) {
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) {
      float re = 0, im = 0;
      for (int64_t p = 0; p < k; p++) {
        float ar = (float)a[2 * (p * MR + i)], ai = (float)a[2 * (p * MR + i) + 1], br = (float)b[2 * (p * NR + j)], bi = (float)b[2 * (p * NR + j) + 1];
        re += ar * br - ai * bi;
        im += ar * bi + ai * br;
      }
      c[2 * (i * ldc + j)] = (double)re;
      c[2 * (i * ldc + j) + 1] = (double)im;
    }
}

static void block_narrow(sn_ev_carrier carrier, int64_t k, const char *a, const char *b, char *c, int64_t ldc) {
  if (carrier == SN_EV_F64) block_f32(k, (const void *)a, (const void *)b, (void *)c, ldc);
  else block_c64(k, (const void *)a, (const void *)b, (void *)c, ldc);
}

static void block(sn_ev_carrier carrier, int64_t k, const char *a, const char *b, char *c, int64_t ldc) {
  if (carrier == SN_EV_F64)
    block_f64(k, (const void *)a, (const void *)b, (void *)c, ldc);
  else if (carrier == SN_EV_I64)
    block_i64(k, (const void *)a, (const void *)b, (void *)c, ldc);
  else
    block_c128(k, (const void *)a, (const void *)b, (void *)c, ldc);
}

/* ---- panels ---- */

/* Four rows of k elements become k groups of four; rows beyond `rows` are zeros. */
static void interleave(size_t bytes, int64_t k, int64_t rows, const char *from, char *to) {
  if (rows < 4) memset(to, 0, (size_t)k * 4 * bytes);
  if (bytes == 8 && rows == 4) {
    const uint64_t *v = (const void *)from;
    uint64_t *o = (void *)to;
    for (int64_t p = 0; p < k; p++) {
      o[4 * p] = v[p];
      o[4 * p + 1] = v[k + p];
      o[4 * p + 2] = v[2 * k + p];
      o[4 * p + 3] = v[3 * k + p];
    }
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t p = 0; p < k; p++) memcpy(to + (size_t)(4 * p + r) * bytes, from + (size_t)(r * k + p) * bytes, bytes);
}

typedef struct gemm_run {
  const sn_ev_gemm *g;
  size_t bytes;
  int64_t row_items; /* per product */
  bool narrow;       /* round every step */
  int64_t batch;     /* B shared by the items of this product; -1: each item packs its own */
  char *b_shared;
  char *scratch; /* per worker */
  size_t worker_bytes, a_bytes, b_bytes, c_bytes;
} gemm_run;

static void pack_b(const gemm_run *r, int64_t batch, int64_t panel, char *to, char *rows) {
  const sn_ev_gemm *g = r->g;
  int64_t col = panel * NR, cols = g->n - col < NR ? g->n - col : NR;
  g->read_b(g->ctx, batch, col, cols, rows);
  interleave(r->bytes, g->k, cols, rows, to + (size_t)(col * g->k) * r->bytes);
}

static void pack_b_item(void *ctx, int64_t item, int worker) {
  const gemm_run *r = ctx;
  pack_b(r, r->batch, item, r->b_shared, r->scratch + (size_t)worker * r->worker_bytes);
}

static void multiply_rows(const gemm_run *r, int64_t batch, int64_t row, int64_t rows, const char *a, const char *b,
                          char *c) {
  const sn_ev_gemm *g = r->g;
  for (int64_t col = 0; col < g->n; col += COLS) {
    int64_t cols = g->n - col < COLS ? g->n - col : COLS;
    for (int64_t j = 0; j < cols; j += NR)
      for (int64_t i = 0; i < rows; i += MR)
        (r->narrow ? block_narrow : block)(g->carrier, g->k, a + (size_t)(i * g->k) * r->bytes, b + (size_t)((col + j) * g->k) * r->bytes,
              c + (size_t)(i * COLS + j) * r->bytes, COLS);
    for (int64_t i = 0; i < rows; i++) g->store(g->ctx, batch, row + i, col, cols, c + (size_t)(i * COLS) * r->bytes);
  }
}

static void gemm_item(void *ctx, int64_t item, int worker) {
  const gemm_run *r = ctx;
  const sn_ev_gemm *g = r->g;
  char *rows_buffer = r->scratch + (size_t)worker * r->worker_bytes, *a = rows_buffer + 4 * (size_t)g->k * r->bytes,
       *c = a + r->a_bytes, *own_b = c + r->c_bytes;
  int64_t batch = r->batch >= 0 ? r->batch : item / r->row_items,
          row = (r->batch >= 0 ? item : item % r->row_items) * ROWS;
  int64_t rows = g->m - row < ROWS ? g->m - row : ROWS;
  if (r->batch < 0)
    for (int64_t p = 0; p * NR < g->n; p++) pack_b(r, batch, p, own_b, rows_buffer);
  for (int64_t i = 0; i < rows; i += MR) {
    int64_t some = rows - i < MR ? rows - i : MR;
    g->read_a(g->ctx, batch, row + i, some, rows_buffer);
    interleave(r->bytes, g->k, some, rows_buffer, a + (size_t)(i * g->k) * r->bytes);
  }
  multiply_rows(r, batch, row, rows, a, r->batch >= 0 ? r->b_shared : own_b, c);
}

sn_status sn_ev_gemm_run(sn_ev_ctx *e, const sn_instr *i, const sn_ev_gemm *g) {
  gemm_run r;
  if (g->n_batch <= 0 || g->m <= 0 || g->n <= 0) return SN_OK;
  memset(&r, 0, sizeof r);
  r.g = g;
  r.bytes = sn_ev_carrier_bytes(g->carrier);
  r.narrow = e->o->stepwise && g->carrier != SN_EV_I64 && i->shape->type != SN_TYPE_F64 && i->shape->type != SN_TYPE_C128;
  r.row_items = (g->m + ROWS - 1) / ROWS;
  int64_t panels = (g->n + NR - 1) / NR, kk = g->k > 0 ? g->k : 1,
          block_rows = g->m < ROWS ? (g->m + MR - 1) / MR * MR : ROWS;
  bool own_b = r.row_items == 1 && g->n_batch > 1;
  r.a_bytes = (size_t)(block_rows * kk) * r.bytes;
  r.b_bytes = (size_t)(panels * NR * kk) * r.bytes;
  r.c_bytes = (size_t)(ROWS * COLS) * r.bytes;
  r.worker_bytes = 4 * (size_t)kk * r.bytes + r.a_bytes + r.c_bytes + (own_b ? r.b_bytes : 0) + 64;
  r.worker_bytes = (r.worker_bytes + 63) / 64 * 64;
  r.scratch = sn_alloc_aligned(64, r.worker_bytes * (size_t)sn_pool_threads(e->pool));
  r.b_shared = own_b ? NULL : sn_alloc_aligned(64, r.b_bytes);
  sn_status s = SN_OK;
  if (!r.scratch || (!own_b && !r.b_shared)) {
    s = sn_ev_error(e, i, SN_ERR_MEMORY, "no memory to pack %lld x %lld x %lld", (long long)g->m, (long long)g->n,
                    (long long)g->k);
  } else if (own_b) {
    r.batch = -1;
    sn_pool_run(e->pool, g->n_batch, gemm_item, &r);
  } else {
    for (r.batch = 0; r.batch < g->n_batch; r.batch++) {
      sn_pool_run(e->pool, panels, pack_b_item, &r);
      sn_pool_run(e->pool, r.row_items, gemm_item, &r);
    }
  }
  sn_free_aligned(r.scratch);
  sn_free_aligned(r.b_shared);
  return s;
}
