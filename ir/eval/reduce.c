/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* reduce, map and scan. The order of a reduction is fixed by the shape: rows go through eight interleaved sums, columns
 * from first to last. */
#include "eval_internal.h"

enum { COLUMNS = 512, ROW_ITEM = 16384 };

/* Kept and reduced dims of the operand, in order, with neighbours of the same kind merged. */
typedef struct axes {
  int rank;
  int64_t dims[SN_MAX_RANK], strides[SN_MAX_RANK];
  bool reduced[SN_MAX_RANK];
} axes;

static void axes_open(const sn_shape *s, sn_ints dims, axes *x) {
  int64_t strides[SN_MAX_RANK];
  sn_ev_strides(s->rank, s->dims, strides);
  x->rank = 0;
  for (int d = 0; d < s->rank; d++) {
    bool reduced = false;
    for (int64_t k = 0; k < dims.n; k++) reduced = reduced || dims.v[k] == d;
    if (s->dims[d] == 1) continue;
    int w = x->rank - 1;
    if (w >= 0 && x->reduced[w] == reduced) {
      x->dims[w] *= s->dims[d];
      x->strides[w] = strides[d];
      continue;
    }
    x->dims[x->rank] = s->dims[d];
    x->strides[x->rank] = strides[d];
    x->reduced[x->rank++] = reduced;
  }
}

/* One kind of the axes, as a nest of its own. */
static int pick(const axes *x, bool reduced, int64_t *dims, int64_t *strides) {
  int n = 0;
  for (int d = 0; d < x->rank; d++) {
    if (x->reduced[d] != reduced) continue;
    dims[n] = x->dims[d];
    strides[n++] = x->strides[d];
  }
  return n;
}

/* ---- one known op ---- */

typedef struct binary_job {
  const sn_ev_reducer *r;
  sn_type type;
  size_t bytes, acc_bytes;
  const char *src, *init;
  char *dst;
  int n_kept, n_red; /* outer ones: without the inner dim */
  int64_t kept[SN_MAX_RANK], kept_stride[SN_MAX_RANK], red[SN_MAX_RANK], red_stride[SN_MAX_RANK];
  int64_t inner, blocks; /* length of the inner dim; columns: blocks of it per outer output */
} binary_job;

static void unflatten(int rank, const int64_t *dims, int64_t flat, int64_t *index) {
  for (int d = rank - 1; d >= 0; d--) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
}

/* Eight partial sums in f64, added in pairs: the order depends on n alone. */
static double sum_f32(const float *x, int64_t n) {
  double s[8] = {0};
  int64_t j = 0;
  for (; j + 8 <= n; j += 8)
    for (int q = 0; q < 8; q++) s[q] += (double)x[j + q];
  for (int q = 0; j < n; j++, q++) s[q] += (double)x[j];
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* Maximum and minimum of a row by integer keys in the order of the floats (-0 below +0), which compilers reduce in
 * vectors; NaN is watched beside. */
static int32_t order_key(uint32_t bits) { return (int32_t)(bits ^ (((uint32_t)0 - (bits >> 31)) & 0x7fffffffu)); }

static float extreme_f32(float start, const float *x, int64_t n, bool largest) {
  uint32_t bits, nan = 0;
  memcpy(&bits, &start, sizeof bits);
  nan |= (bits & 0x7fffffffu) > 0x7f800000u;
  int32_t best = order_key(bits), flip = largest ? 0 : -1; /* the minimum is the maximum of the complements */
  best ^= flip;
  for (int64_t j = 0; j < n; j++) {
    uint32_t u;
    memcpy(&u, x + j, sizeof u);
    int32_t key = order_key(u) ^ flip;
    nan |= (u & 0x7fffffffu) > 0x7f800000u;
    best = key > best ? key : best;
  }
  bits = (uint32_t)order_key((uint32_t)(best ^ flip)); /* its own inverse */
  if (nan) bits = 0x7fc00000u;
  memcpy(&start, &bits, sizeof bits);
  return start;
}

/* Any op and type: blocks of 64 lanes, halved at the end. Rows shorter than the block are halved with what is left
 * over. */
static void row_any(const binary_job *j, const char *row, void *acc) {
  enum { LANES = 64 };
  double lanes[2 * LANES], next[2 * LANES];
  const sn_ev_kernel *k = &j->r->kernel;
  int64_t n = j->inner < LANES ? j->inner : LANES, done = n;
  sn_convert(j->r->acc, lanes, j->type, row, n);
  for (; done < j->inner; done += LANES) {
    int64_t m = j->inner - done < LANES ? j->inner - done : LANES;
    sn_convert(j->r->acc, next, j->type, row + (size_t)done * j->bytes, m);
    k->fn(k, m, lanes, (const void *const[]){lanes, next});
  }
  while (n > 1) {
    int64_t half = n / 2;
    k->fn(k, half, lanes, (const void *const[]){lanes, (char *)lanes + (size_t)(n - half) * j->acc_bytes});
    n -= half;
  }
  k->fn(k, 1, acc, (const void *const[]){acc, lanes});
}

static void row_reduce(const binary_job *j, const char *row, double *acc) {
  const float *x = (const float *)(const void *)row;
  if (j->type == SN_TYPE_F32 && j->r->acc == SN_TYPE_F64 && j->r->op == SN_OP_ADD) {
    acc[0] += sum_f32(x, j->inner);
  } else if (j->type == SN_TYPE_F32 && (j->r->op == SN_OP_MAXIMUM || j->r->op == SN_OP_MINIMUM)) {
    float m;
    memcpy(&m, acc, sizeof m); /* the accumulator is an f32 here */
    m = extreme_f32(m, x, j->inner, j->r->op == SN_OP_MAXIMUM);
    memcpy(acc, &m, sizeof m);
  } else {
    row_any(j, row, acc);
  }
}

static void rows_range(void *ctx, int64_t begin, int64_t end) {
  const binary_job *j = ctx;
  int64_t kept[SN_MAX_RANK];
  for (int64_t o = begin; o < end; o++) {
    int64_t red[SN_MAX_RANK] = {0};
    double acc[2];
    unflatten(j->n_kept, j->kept, o, kept);
    const char *base = j->src + sn_ev_dot_strides(j->n_kept, kept, j->kept_stride) * (int64_t)j->bytes;
    memcpy(acc, j->init, j->acc_bytes);
    do {
      const char *row = base + sn_ev_dot_strides(j->n_red, red, j->red_stride) * (int64_t)j->bytes;
      row_reduce(j, row, acc);
    } while (sn_ev_next(j->n_red, j->red, red));
    sn_convert(j->type, j->dst + (size_t)o * j->bytes, j->r->acc, acc, 1);
  }
}

static void add_columns_f32(double *acc, const float *x, int64_t n) {
  for (int64_t q = 0; q < n; q++) acc[q] += (double)x[q];
}

static void columns_range(void *ctx, int64_t begin, int64_t end) {
  const binary_job *j = ctx;
  double memory[2][2 * COLUMNS], next[2 * COLUMNS], *acc = memory[0], *other = memory[1];
  for (int64_t item = begin; item < end; item++) {
    int64_t kept[SN_MAX_RANK], red[SN_MAX_RANK] = {0}, o = item / j->blocks, col = item % j->blocks * COLUMNS;
    int64_t n = j->inner - col < COLUMNS ? j->inner - col : COLUMNS;
    unflatten(j->n_kept, j->kept, o, kept);
    const char *base = j->src + (sn_ev_dot_strides(j->n_kept, kept, j->kept_stride) + col) * (int64_t)j->bytes;
    sn_ev_fill(acc, j->init, j->acc_bytes, n);
    do {
      const char *x = base + sn_ev_dot_strides(j->n_red, red, j->red_stride) * (int64_t)j->bytes;
      const void *from = x;
      if (j->r->op == SN_OP_ADD && j->type == SN_TYPE_F32 && j->r->acc == SN_TYPE_F64) {
        add_columns_f32(acc, (const float *)from, n);
        continue;
      }
      if (j->type != j->r->acc) sn_convert(j->r->acc, next, j->type, x, n);
      j->r->kernel.fn(&j->r->kernel, n, other, (const void *const[]){acc, j->type != j->r->acc ? next : from});
      double *t = acc; /* to and fro: a result elsewhere lets the kernel be vector code */
      acc = other;
      other = t;
    } while (sn_ev_next(j->n_red, j->red, red));
    sn_convert(j->type, j->dst + (size_t)(o * j->inner + col) * j->bytes, j->r->acc, acc, n);
  }
}

static void reduce_binary(sn_ev_ctx *e, const sn_ev_reducer *r, const axes *x, const sn_array *in, const void *init,
                          sn_array *out) {
  binary_job j;
  double start[2];
  memset(&j, 0, sizeof j);
  j.r = r;
  j.type = r->types[0];
  j.bytes = sn_type_bytes(j.type);
  j.acc_bytes = sn_type_bytes(r->acc);
  j.src = sn_array_data(in);
  j.dst = sn_array_data(out);
  sn_convert(r->acc, start, j.type, init, 1);
  j.init = (const char *)start;
  j.n_kept = pick(x, false, j.kept, j.kept_stride);
  j.n_red = pick(x, true, j.red, j.red_stride);
  int64_t reduced = sn_ev_product(j.n_red, j.red);
  if (x->rank > 0 && x->reduced[x->rank - 1]) {
    j.inner = j.red[--j.n_red];
    sn_ev_parallel(e, sn_ev_product(j.n_kept, j.kept), ROW_ITEM / (reduced < ROW_ITEM ? reduced : ROW_ITEM), rows_range,
                   &j);
    return;
  }
  j.inner = j.n_kept ? j.kept[--j.n_kept] : 1;
  j.blocks = (j.inner + COLUMNS - 1) / COLUMNS;
  int64_t per_item = reduced * (j.inner < COLUMNS ? j.inner : COLUMNS);
  sn_ev_parallel(e, sn_ev_product(j.n_kept, j.kept) * j.blocks, ROW_ITEM / (per_item < ROW_ITEM ? per_item : ROW_ITEM),
                 columns_range, &j);
}

/* ---- any computation ---- */

static void gather_lanes(char *to, const char *src, size_t bytes, const int64_t *offset, int64_t add, int64_t n) {
  for (int64_t q = 0; q < n; q++) memcpy(to + (size_t)q * bytes, src + (offset[q] + add) * (int64_t)bytes, bytes);
}

/* Lanes are outputs; each step of the reduction takes one element for every lane. */
static sn_status reduce_lanes(sn_ev_reducer *r, const axes *x, sn_array *const *in, sn_array *const *inits,
                              sn_array *const *outs, char *const *buffers) {
  int64_t kept[SN_MAX_RANK], ks[SN_MAX_RANK], red[SN_MAX_RANK], rs[SN_MAX_RANK], offset[SN_EV_LANES];
  int nk = pick(x, false, kept, ks), nr = pick(x, true, red, rs);
  int64_t outputs = sn_ev_product(nk, kept);
  for (int64_t at = 0; at < outputs; at += SN_EV_LANES) {
    int64_t n = outputs - at < SN_EV_LANES ? outputs - at : SN_EV_LANES, index[SN_MAX_RANK], step[SN_MAX_RANK] = {0};
    for (int64_t q = 0; q < n; q++) {
      unflatten(nk, kept, at + q, index);
      offset[q] = sn_ev_dot_strides(nk, index, ks);
    }
    void **acc = r->acc_lanes;
    const void **next = r->next_lanes;
    for (int k = 0; k < r->n; k++) {
      size_t bytes = sn_type_bytes(r->types[k]);
      acc[k] = (char *)sn_array_data(outs[k]) + (size_t)at * bytes;
      next[k] = buffers[k];
      sn_ev_fill(acc[k], sn_array_data(inits[k]), bytes, n);
    }
    do {
      int64_t add = sn_ev_dot_strides(nr, step, rs);
      for (int k = 0; k < r->n; k++)
        gather_lanes(buffers[k], sn_array_data(in[k]), sn_type_bytes(r->types[k]), offset, add, n);
      SN_TRY(sn_ev_combine(r, n, acc, next));
    } while (sn_ev_next(nr, red, step));
  }
  return SN_OK;
}

static sn_status reduce_any(sn_ev_ctx *e, const sn_instr *i, sn_ev_reducer *r, const axes *x, sn_array *const *in,
                            sn_array *const *outs) {
  void *memory;
  SN_TRY(sn_ev_scratch(e, i, (size_t)r->n, sizeof(char *), &memory));
  char **buffers = memory;
  sn_status s = SN_OK;
  for (int k = 0; k < r->n && s == SN_OK; k++) {
    void *b = NULL;
    s = sn_ev_scratch(e, i, SN_EV_LANES, sn_type_bytes(r->types[k]), &b);
    buffers[k] = b;
  }
  if (s == SN_OK) s = reduce_lanes(r, x, in, in + r->n, outs, buffers);
  for (int k = 0; k < r->n; k++) sn_free(buffers[k]);
  sn_free(memory);
  return s;
}

/* ---- reduce ---- */

static sn_status reduce_into(sn_ev_ctx *e, const sn_instr *i, int n, sn_array *const *in, sn_array *const *outs) {
  sn_type types[SN_MAX_RANK];
  sn_ev_reducer r;
  axes x;
  const sn_shape *shape = sn_array_shape(in[0]);
  if (n > SN_MAX_RANK) return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "more than %d operands", SN_MAX_RANK);
  for (int k = 0; k < n; k++) types[k] = sn_array_shape(in[k])->type;
  axes_open(shape, sn_instr_ints(i, SN_ATTR_DIMENSIONS), &x);
  if (sn_shape_elements(sn_array_shape(outs[0])) == 0) return SN_OK;
  if (sn_shape_elements(shape) == 0) { /* nothing to reduce: the initial value */
    for (int k = 0; k < n; k++)
      sn_ev_fill(sn_array_data(outs[k]), sn_array_data(in[n + k]), sn_type_bytes(types[k]),
                 sn_shape_elements(sn_array_shape(outs[k])));
    return SN_OK;
  }
  SN_TRY(sn_ev_reducer_init(e, i, i->called[0], n, types, &r));
  sn_status s = SN_OK;
  if (r.binary)
    reduce_binary(e, &r, &x, in[0], sn_array_data(in[1]), outs[0]);
  else
    s = reduce_any(e, i, &r, &x, in, outs);
  sn_ev_reducer_finish(&r);
  return s;
}

static const sn_shape *result_shape(const sn_instr *i, int k) {
  return sn_shape_is_tuple(i->shape) ? i->shape->elements[k] : i->shape;
}

/* Dimensions that stay keep their actual sizes. */
static void keep_sizes(const sn_array *in, sn_array *out, sn_ints reduced) {
  const sn_shape *from = sn_array_shape(in), *to = sn_array_shape(out);
  const int64_t *sizes = sn_array_dynamic_sizes(in);
  int at = 0;
  for (int d = 0; sizes && to->dynamic && d < from->rank; d++) {
    bool gone = false;
    for (int64_t k = 0; k < reduced.n; k++) gone = gone || reduced.v[k] == d;
    if (gone) continue;
    if (at < to->rank && to->dynamic[at]) sn_array_set_dynamic_size(out, at, sizes[d]);
    at++;
  }
}

sn_status sn_eval_reduce(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  int n = (int)i->n_operands / 2;
  void *memory;
  SN_TRY(sn_ev_scratch(e, i, 3 * (size_t)n, sizeof(sn_array *), &memory));
  sn_array **outs = memory, **inputs = outs + n;
  sn_status s = SN_OK;
  for (int k = 0; k < n && s == SN_OK; k++) {
    inputs[n + k] = sn_array_retain(in[n + k]);
    s = sn_ev_masked(e, i, in[k], sn_array_data(in[n + k]), &inputs[k]);
    if (s == SN_OK) s = sn_ev_new(e, i, result_shape(i, k), &outs[k]);
  }
  if (s == SN_OK) s = reduce_into(e, i, n, inputs, outs);
  for (int k = 0; k < n && s == SN_OK; k++) keep_sizes(in[k], outs[k], sn_instr_ints(i, SN_ATTR_DIMENSIONS));
  if (s == SN_OK && sn_shape_is_tuple(i->shape)) {
    s = sn_ev_new_tuple(e, i, n, outs, out);
  } else if (s == SN_OK) {
    *out = outs[0];
    outs[0] = NULL;
  }
  for (int k = 0; k < 3 * n; k++) sn_ev_release(e, outs[k]);
  sn_free(memory);
  return s;
}

/* ---- map ---- */

sn_status sn_eval_map(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ev_program *p;
  void *memory = NULL;
  int n = (int)i->n_operands;
  if (i->called[0]->n_params != i->n_operands)
    return sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s takes %u parameters, map has %d operands",
                       i->called[0]->name, (unsigned)i->called[0]->n_params, n);
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  SN_TRY(sn_ev_program_create(e, i, i->called[0], &p));
  sn_status s = sn_ev_scratch(e, i, (size_t)n, sizeof(void *), &memory);
  if (s == SN_OK && (sn_ev_program_outputs(p) != 1 || sn_ev_program_out_type(p, 0) != i->shape->type))
    s = sn_ev_error(e, i, SN_ERR_TYPE, "computation %s does not give %s", i->called[0]->name,
                    sn_type_text(i->shape->type));
  int64_t total = sn_shape_elements(i->shape);
  const void **params = memory;
  for (int64_t at = 0; at < total && s == SN_OK; at += SN_EV_LANES) {
    int64_t m = total - at < SN_EV_LANES ? total - at : SN_EV_LANES;
    for (int k = 0; k < n; k++)
      params[k] = (const char *)sn_array_data(in[k]) + (size_t)at * sn_type_bytes(sn_array_shape(in[k])->type);
    void *to = (char *)sn_array_data(*out) + (size_t)at * sn_type_bytes(i->shape->type);
    s = sn_ev_program_run(p, m, params, &to);
  }
  sn_free(memory);
  sn_ev_program_destroy(p);
  return s;
}
