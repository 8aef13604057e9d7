/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* dot, ragged-dot and scaled-dot: operands are brought to [batch, free, contracted], then multiplied as matrices.
 * A dot algorithm splits f32 operands into terms of fewer bits; each product of terms is exact in f64, so the result is
 * what the algorithm defines, rounded once. */
#include <math.h>

#include "eval_internal.h"

typedef struct side {
  sn_type type;
  const char *data; /* [batch, free, k] row-major */
  char *owned;
  int64_t batch, free, k;
} side;

typedef struct dot_job {
  side a, b;
  sn_ev_carrier carrier;
  sn_type out_type;
  char *out;
  int64_t m, n;
  int term_a, term_b; /* which part of a split operand; -1: the whole value */
  int mantissa;       /* bits of a part */
  bool add;           /* accumulate into `sums` instead of storing */
  double *sums;
} dot_job;

/* Dims of an operand that are neither batch nor contracted, in order. */
static int free_dims(const sn_shape *s, sn_ints batch, sn_ints contracting, int64_t *out) {
  int n = 0;
  for (int64_t d = 0; d < s->rank; d++) {
    bool used = false;
    for (int64_t k = 0; k < batch.n; k++) used = used || batch.v[k] == d;
    for (int64_t k = 0; k < contracting.n; k++) used = used || contracting.v[k] == d;
    if (!used) out[n++] = d;
  }
  return n;
}

/* The operand as [batch, free, contracted]: as it lies, or in memory of its own. */
static sn_status side_open(sn_ev_ctx *e, const sn_instr *i, const sn_array *a, sn_ints batch, sn_ints contracting,
                           side *out) {
  const sn_shape *s = sn_array_shape(a);
  int64_t order[SN_MAX_RANK], strides[SN_MAX_RANK];
  int n = 0;
  memset(out, 0, sizeof *out);
  if (batch.n + contracting.n > s->rank)
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "more dimension numbers than dimensions");
  for (int64_t k = 0; k < batch.n; k++) order[n++] = batch.v[k];
  n += free_dims(s, batch, contracting, order + n);
  for (int64_t k = 0; k < contracting.n; k++) order[n++] = contracting.v[k];
  if (n != s->rank) return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "a dimension number stands twice");
  sn_ev_copy c;
  bool in_place = true;
  sn_ev_strides(s->rank, s->dims, strides);
  c.rank = n;
  c.bytes = sn_type_bytes(s->type);
  out->batch = out->free = out->k = 1;
  for (int d = 0; d < n; d++) {
    int64_t size = s->dims[order[d]];
    c.dims[d] = size;
    c.src_stride[d] = strides[order[d]];
    in_place = in_place && order[d] == d;
    *(d < batch.n ? &out->batch : d < n - contracting.n ? &out->free : &out->k) *= size;
  }
  out->type = s->type;
  out->data = sn_array_data(a);
  if (in_place || sn_array_bytes(a) == 0) return SN_OK;
  out->owned = sn_alloc_aligned(64, sn_array_bytes(a));
  if (!out->owned)
    return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory to reorder an operand of %zu bytes", sn_array_bytes(a));
  sn_ev_strides(n, c.dims, c.dst_stride);
  c.dst = out->owned;
  c.src = out->data;
  sn_ev_copy_run(e, &c);
  out->data = out->owned;
  return SN_OK;
}

/* ---- the algorithms ---- */

/* f32 operands as sums of up to three parts of `mantissa` bits; the products of parts (i, j) that count. */
typedef struct algorithm_row {
  int algorithm, mantissa, n_products;
  struct {
    int8_t a, b;
  } products[9];
} algorithm_row;
static const algorithm_row algorithms[] = {
    {SN_DOT_ALGORITHM_BF16_BF16_BF16, 7, 1, {{0, 0}}},
    {SN_DOT_ALGORITHM_BF16_BF16_F32, 7, 1, {{0, 0}}},
    {SN_DOT_ALGORITHM_BF16_BF16_F32_X3, 7, 3, {{0, 1}, {1, 0}, {0, 0}}},
    {SN_DOT_ALGORITHM_BF16_BF16_F32_X6, 7, 6, {{1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}}},
    {SN_DOT_ALGORITHM_BF16_BF16_F32_X9, 7, 9, {{2, 2}, {1, 2}, {2, 1}, {1, 1}, {0, 2}, {2, 0}, {0, 1}, {1, 0}, {0, 0}}},
    {SN_DOT_ALGORITHM_TF32_TF32_F32, 10, 1, {{0, 0}}},
    {SN_DOT_ALGORITHM_TF32_TF32_F32_X3, 10, 3, {{0, 1}, {1, 0}, {0, 0}}},
};

static double round_to(double x, int mantissa) {
  int e;
  if (x == 0 || isnan(x) || isinf(x)) return x;
  (void)frexp(x, &e);
  double unit = ldexp(1.0, e - 1 - mantissa);
  return rint(x / unit) * unit;
}

static void take_part(double *v, int64_t n, int term, int mantissa) {
  for (int64_t j = 0; j < n; j++) {
    double rest = v[j], part = round_to(rest, mantissa);
    for (int t = 0; t < term; t++) {
      rest = isinf(part) || isnan(part) ? 0 : rest - part;
      part = round_to(rest, mantissa);
    }
    v[j] = part;
  }
}

static void read_side(const dot_job *j, const side *s, int term, int64_t batch, int64_t row, int64_t rows, void *to) {
  const char *from = s->data + (size_t)((batch * s->free + row) * s->k) * sn_type_bytes(s->type);
  sn_ev_load_carrier(j->carrier, to, s->type, from, 1, rows * s->k);
  if (term >= 0 && j->carrier == SN_EV_F64) take_part(to, rows * s->k, term, j->mantissa);
}

static void read_a(void *ctx, int64_t batch, int64_t row, int64_t rows, void *to) {
  const dot_job *j = ctx;
  read_side(j, &j->a, j->term_a, batch, row, rows, to);
}
static void read_b(void *ctx, int64_t batch, int64_t col, int64_t cols, void *to) {
  const dot_job *j = ctx;
  read_side(j, &j->b, j->term_b, batch, col, cols, to);
}
static void store(void *ctx, int64_t batch, int64_t row, int64_t col, int64_t cols, const void *from) {
  const dot_job *j = ctx;
  int64_t at = (batch * j->m + row) * j->n + col;
  if (j->sums)
    for (int64_t q = 0; q < cols; q++) j->sums[at + q] += ((const double *)from)[q];
  else
    sn_ev_store_carrier(j->carrier, j->out_type, j->out + (size_t)at * sn_type_bytes(j->out_type), from, cols);
}

static const algorithm_row *algorithm_of(const sn_instr *i, const dot_job *j) {
  int64_t a = sn_instr_int(i, SN_ATTR_DOT_ALGORITHM);
  if (j->carrier != SN_EV_F64 || j->a.type != SN_TYPE_F32 || j->b.type != SN_TYPE_F32)
    return NULL; /* narrower operands are their own single part */
  for (size_t r = 0; r < sizeof algorithms / sizeof algorithms[0]; r++)
    if (algorithms[r].algorithm == a) return &algorithms[r];
  return NULL;
}

static sn_status multiply(sn_ev_ctx *e, const sn_instr *i, dot_job *j) {
  sn_ev_gemm g = {j->carrier, j->a.batch, j->m, j->n, j->a.k, j, read_a, read_b, store};
  const algorithm_row *r = algorithm_of(i, j);
  j->term_a = j->term_b = -1;
  if (!r) return sn_ev_gemm_run(e, i, &g);
  int64_t elements = j->a.batch * j->m * j->n;
  void *sums;
  SN_TRY(sn_ev_scratch(e, i, (size_t)elements, sizeof(double), &sums));
  j->sums = sums;
  j->mantissa = r->mantissa;
  sn_status s = SN_OK;
  for (int p = 0; p < r->n_products && s == SN_OK; p++) {
    j->term_a = r->products[p].a;
    j->term_b = r->products[p].b;
    s = sn_ev_gemm_run(e, i, &g);
  }
  if (s == SN_OK) sn_ev_store_carrier(SN_EV_F64, j->out_type, j->out, sums, elements);
  sn_free(sums);
  return s;
}

/* Shared by dot and the parts of the others: out has b.batch x a.free x b.free elements. */
static sn_status dot_arrays(sn_ev_ctx *e, const sn_instr *i, const sn_array *a, const sn_array *b, sn_ints lb,
                            sn_ints lc, sn_ints rb, sn_ints rc, sn_type out_type, void *out) {
  dot_job j;
  memset(&j, 0, sizeof j);
  sn_status s = side_open(e, i, a, lb, lc, &j.a);
  if (s == SN_OK) s = side_open(e, i, b, rb, rc, &j.b);
  if (s == SN_OK && (j.a.k != j.b.k || j.a.batch != j.b.batch))
    s = sn_ev_error(e, i, SN_ERR_SHAPE, "operands contract %lld and %lld elements in %lld and %lld products",
                    (long long)j.a.k, (long long)j.b.k, (long long)j.a.batch, (long long)j.b.batch);
  if (s == SN_OK) {
    j.carrier = sn_ev_carrier_of(j.a.type, j.b.type, out_type);
    j.m = j.a.free;
    j.n = j.b.free;
    j.out_type = out_type;
    j.out = out;
    s = multiply(e, i, &j);
  }
  sn_free_aligned(j.a.owned);
  sn_free_aligned(j.b.owned);
  return s;
}

sn_status sn_eval_dot(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  static const char zero[16];
  sn_array *a = NULL, *b = NULL; /* dynamic operands: what lies behind their sizes must not count */
  sn_status s = sn_ev_new(e, i, i->shape, out);
  if (s == SN_OK) s = sn_ev_masked(e, i, in[0], zero, &a);
  if (s == SN_OK) s = sn_ev_masked(e, i, in[1], zero, &b);
  if (s == SN_OK)
    s = dot_arrays(e, i, a, b, sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS), sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS),
                   sn_instr_ints(i, SN_ATTR_RHS_BATCH_DIMS), sn_instr_ints(i, SN_ATTR_RHS_CONTRACTING_DIMS),
                   i->shape->type, sn_array_data(*out));
  sn_ev_release(e, a);
  sn_ev_release(e, b);
  return s;
}

/* ---- ragged-dot ---- */

/* Multi-index loops in f64: ragged products are rare, and the three modes read best from the definition. */
typedef struct ragged {
  const sn_instr *i;
  const sn_array *a, *b, *sizes;
  sn_ints lb, lc, rb, rc, group;
  int64_t ragged;
  const sn_shape *as, *bs;
  int64_t ast[SN_MAX_RANK], bst[SN_MAX_RANK];
  int64_t afree[SN_MAX_RANK], bfree[SN_MAX_RANK];
  int n_afree, n_bfree;
  int mode; /* the ragged dim is: 0 free (non-contracting), 1 contracted, 2 batch */
} ragged;

static bool in_list(sn_ints l, int64_t d) {
  for (int64_t k = 0; k < l.n; k++)
    if (l.v[k] == d) return true;
  return false;
}

static void ragged_open(const sn_instr *i, sn_array *const *in, ragged *r) {
  memset(r, 0, sizeof *r);
  r->i = i;
  r->a = in[0];
  r->b = in[1];
  r->sizes = in[2];
  r->lb = sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS);
  r->lc = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS);
  r->rb = sn_instr_ints(i, SN_ATTR_RHS_BATCH_DIMS);
  r->rc = sn_instr_ints(i, SN_ATTR_RHS_CONTRACTING_DIMS);
  r->group = sn_instr_ints(i, SN_ATTR_RHS_GROUP_DIMS);
  sn_ints rd = sn_instr_ints(i, SN_ATTR_LHS_RAGGED_DIMS);
  r->ragged = rd.n ? rd.v[0] : 0;
  r->as = sn_array_shape(r->a);
  r->bs = sn_array_shape(r->b);
  sn_ev_strides(r->as->rank, r->as->dims, r->ast);
  sn_ev_strides(r->bs->rank, r->bs->dims, r->bst);
  r->n_afree = free_dims(r->as, r->lb, r->lc, r->afree);
  int64_t all[SN_MAX_RANK];
  int n = free_dims(r->bs, r->rb, r->rc, all);
  for (int k = 0; k < n; k++)
    if (!in_list(r->group, all[k])) r->bfree[r->n_bfree++] = all[k];
  r->mode = in_list(r->lc, r->ragged) ? 1 : in_list(r->lb, r->ragged) ? 2 : 0;
}

/* Groups are consecutive runs along the ragged dim; -1 behind the last one. The sizes may have batch dims in front,
 * which are then those of lhs. */
static int64_t group_of(const ragged *r, int64_t position, const int64_t *a_index) {
  const sn_shape *s = sn_array_shape(r->sizes);
  int64_t groups = s->rank ? s->dims[s->rank - 1] : 1, at = 0, row = 0;
  for (int d = 0; d + 1 < s->rank; d++)
    row = row * s->dims[d] + (d < r->lb.n ? a_index[r->lb.v[d]] : a_index[r->afree[d - r->lb.n]]);
  for (int64_t g = 0; g < groups; g++) {
    at += sn_load_i64(s->type,
                      (const char *)sn_array_data(r->sizes) + (size_t)(row * groups + g) * sn_type_bytes(s->type));
    if (position < at) return g;
  }
  return -1;
}

/* One element of the result. `only`: the group that counts when groups are kept apart (mode 1), else -1. */
static void ragged_element(const ragged *r, int64_t *ai, int64_t *bi, int64_t only, double *re, double *im) {
  int64_t k_dims[SN_MAX_RANK], k[SN_MAX_RANK] = {0};
  for (int64_t d = 0; d < r->lc.n; d++) k_dims[d] = r->as->dims[r->lc.v[d]];
  *re = *im = 0;
  if (sn_ev_product((int)r->lc.n, k_dims) == 0) return;
  do {
    for (int64_t d = 0; d < r->lc.n; d++) {
      ai[r->lc.v[d]] = k[d];
      bi[r->rc.v[d]] = k[d];
    }
    int64_t g = group_of(r, ai[r->ragged], ai);
    if (g < 0 || (only >= 0 && g != only)) continue;
    if (r->group.n) bi[r->group.v[0]] = g;
    double x, xi, y, yi;
    sn_load_c128(r->as->type,
                 (const char *)sn_array_data(r->a) +
                     (size_t)sn_ev_dot_strides(r->as->rank, ai, r->ast) * sn_type_bytes(r->as->type),
                 &x, &xi);
    sn_load_c128(r->bs->type,
                 (const char *)sn_array_data(r->b) +
                     (size_t)sn_ev_dot_strides(r->bs->rank, bi, r->bst) * sn_type_bytes(r->bs->type),
                 &y, &yi);
    *re += x * y - xi * yi;
    *im += x * yi + xi * y;
  } while (sn_ev_next((int)r->lc.n, k_dims, k));
}

sn_status sn_eval_ragged_dot(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  ragged r;
  int64_t index[SN_MAX_RANK] = {0}, ai[SN_MAX_RANK] = {0}, bi[SN_MAX_RANK] = {0}, at = 0;
  ragged_open(i, in, &r);
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (sn_shape_elements(i->shape) == 0) return SN_OK;
  int lead = r.mode == 1 ? 1 : 0;
  if (i->shape->rank != lead + r.lb.n + r.n_afree + r.n_bfree)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "the result's rank does not fit the dimension numbers");
  do {
    int d = lead;
    for (int64_t k = 0; k < r.lb.n; k++, d++) ai[r.lb.v[k]] = bi[r.rb.v[k]] = index[d];
    for (int k = 0; k < r.n_afree; k++, d++) ai[r.afree[k]] = index[d];
    for (int k = 0; k < r.n_bfree; k++, d++) bi[r.bfree[k]] = index[d];
    double re, im;
    ragged_element(&r, ai, bi, lead ? index[0] : -1, &re, &im);
    sn_store_c128(i->shape->type, (char *)sn_array_data(*out) + (size_t)at++ * sn_type_bytes(i->shape->type), re, im);
  } while (sn_ev_next(i->shape->rank, i->shape->dims, index));
  return SN_OK;
}

/* ---- scaled-dot ---- */

/* Operand x scale, in f64: the scale has the operand's rank, each of its elements covers a block. A scalar scale covers
 * all. */
static sn_status scaled(sn_ev_ctx *e, const sn_instr *i, const sn_array *a, const sn_array *scale, sn_array **out) {
  const sn_shape *s = sn_array_shape(a), *cs = sn_array_shape(scale);
  int64_t index[SN_MAX_RANK] = {0}, strides[SN_MAX_RANK], block[SN_MAX_RANK], at = 0;
  SN_TRY(sn_ev_new_dims(e, i, SN_TYPE_F64, s->rank, s->dims, out));
  if (cs->rank != 0 && cs->rank != s->rank)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "a scale of rank %d for an operand of rank %d", cs->rank, s->rank);
  sn_ev_strides(cs->rank, cs->dims, strides);
  for (int d = 0; d < cs->rank; d++) {
    if (cs->dims[d] == 0 || s->dims[d] % cs->dims[d])
      return sn_ev_error(e, i, SN_ERR_SHAPE, "a scale of %lld elements for %lld", (long long)cs->dims[d],
                         (long long)s->dims[d]);
    block[d] = s->dims[d] / cs->dims[d];
  }
  if (sn_shape_elements(s) == 0) return SN_OK;
  double *o = sn_array_data(*out);
  do {
    int64_t where = 0;
    for (int d = 0; d < cs->rank; d++) where += index[d] / block[d] * strides[d];
    o[at] = sn_load_f64(s->type, (const char *)sn_array_data(a) + (size_t)at * sn_type_bytes(s->type)) *
            sn_load_f64(cs->type, (const char *)sn_array_data(scale) + (size_t)where * sn_type_bytes(cs->type));
    at++;
  } while (sn_ev_next(s->rank, s->dims, index));
  return SN_OK;
}

sn_status sn_eval_scaled_dot(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_array *a = NULL, *b = NULL;
  sn_status s = sn_ev_new(e, i, i->shape, out);
  if (s == SN_OK) s = scaled(e, i, in[0], in[2], &a);
  if (s == SN_OK) s = scaled(e, i, in[1], in[3], &b);
  if (s == SN_OK)
    s = dot_arrays(e, i, a, b, sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS), sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS),
                   sn_instr_ints(i, SN_ATTR_RHS_BATCH_DIMS), sn_instr_ints(i, SN_ATTR_RHS_CONTRACTING_DIMS),
                   i->shape->type, sn_array_data(*out));
  sn_ev_release(e, a);
  sn_ev_release(e, b);
  return s;
}
