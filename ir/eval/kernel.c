/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From an elementwise op and its types to a kernel, and from a kernel to whole arrays.
 * Native types have loops of their own; narrow floats are computed in f32 and rounded after the op; sub-byte integers
 * are computed in a byte and wrapped. */
#include "eval_internal.h"

enum { BLOCK = 256, CHUNK = 16384 };

static bool is_narrow_float(sn_type t) { return sn_type_is_float(t) && t != SN_TYPE_F32 && t != SN_TYPE_F64; }
static bool is_sub_byte(sn_type t) { return sn_type_is_integer(t) && sn_type_bits(t) < 8; }
static sn_type byte_type(sn_type t) { return sn_type_is_signed(t) ? SN_TYPE_S8 : SN_TYPE_U8; }

void sn_ev_wrap(sn_type t, int64_t n, void *data) {
  int bits = sn_type_bits(t);
  uint8_t *v = data, mask = (uint8_t)((1u << bits) - 1), top = (uint8_t)(1u << (bits - 1));
  for (int64_t j = 0; j < n; j++) {
    uint8_t x = v[j] & mask;
    v[j] = sn_type_is_signed(t) ? (uint8_t)((x ^ top) - top) : x;
  }
}

/* ---- wrapped kernels ---- */

static void run_narrow(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {
  float x[3][BLOCK], r[BLOCK];
  for (int64_t at = 0; at < n; at += BLOCK) {
    int64_t m = n - at < BLOCK ? n - at : BLOCK;
    const void *from[3] = {x[0], x[1], x[2]};
    for (int j = 0; j < k->n_in; j++) {
      bool one = k->scalar >> j & 1;
      sn_convert(SN_TYPE_F32, x[j], k->in[j], (const char *)in[j] + (one ? 0 : (size_t)at * sn_type_bytes(k->in[j])),
                 one ? 1 : m);
    }
    if (is_narrow_float(k->out)) {
      k->inner(k, m, r, from);
      sn_convert(k->out, (char *)out + (size_t)at * sn_type_bytes(k->out), SN_TYPE_F32, r, m);
    } else {
      k->inner(k, m, (char *)out + (size_t)at * sn_type_bytes(k->out), from);
    }
  }
}

static void run_sub_byte(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {
  k->inner(k, n, out, in);
  if (is_sub_byte(k->out)) sn_ev_wrap(k->out, n, out);
}

/* ---- kernels of this file: they look at bytes, not numbers ---- */

#define SELECT_LOOP(name, T)                                                                    \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {        \
    T *o = out;                                                                                 \
    const uint8_t *p = in[0];                                                                   \
    const T *v = in[1], *w = in[2];                                                             \
    if (k->scalar & 1) {                                                                        \
      if (out != (*p ? in[1] : in[2])) memmove(out, *p ? in[1] : in[2], (size_t)n * sizeof(T)); \
      return;                                                                                   \
    }                                                                                           \
    for (int64_t j = 0; j < n; j++) {                                                           \
      T x = v[j], y = w[j];                                                                     \
      o[j] = p[j] ? x : y;                                                                      \
    }                                                                                           \
  }
typedef struct pair64 {
  uint64_t a, b;
} pair64;
SELECT_LOOP(select_1, uint8_t)
SELECT_LOOP(select_2, uint16_t)
SELECT_LOOP(select_4, uint32_t)
SELECT_LOOP(select_8, uint64_t)
SELECT_LOOP(select_16, pair64)

static sn_ev_fn select_fn(size_t bytes) {
  return bytes == 1    ? select_1
         : bytes == 2  ? select_2
         : bytes == 4  ? select_4
         : bytes == 8  ? select_8
         : bytes == 16 ? select_16
                       : NULL;
}

static void run_convert(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {
  sn_convert(k->out, out, k->in[0], in[0], n);
}

static void run_copy(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {
  if (out != in[0]) memmove(out, in[0], (size_t)n * sn_type_bytes(k->out));
}

/* Rounds to fewer mantissa bits (to nearest even), then to fewer exponent bits: beyond the largest is infinity, below
 * the smallest normal zero. On the bits, so that denormals of the type itself are rounded like all others; a carry out
 * of the mantissa moves the exponent as it should. Without mantissa bits there is no NaN: infinity, as XLA says. */
#define REDUCE_PRECISION(name, T, U, E, M)                                                        \
  static void name(const sn_ev_kernel *k, int64_t n, void *out, const void *const *in) {          \
    const U one = 1, sign = one << (E + M), infinity = ((one << E) - 1) << M;                     \
    int e = k->a < 1 ? 1 : k->a > E ? E : (int)k->a, m = k->b < 0 ? 0 : k->b > M ? M : (int)k->b; \
    U last = one << (M - m), bias = (one << (E - 1)) - 1, reduced = (one << (e - 1)) - 1;         \
    U largest = (bias + reduced) << M, smallest = (bias - reduced) << M;                          \
    for (int64_t j = 0; j < n; j++) {                                                             \
      U x;                                                                                        \
      memcpy(&x, (const T *)in[0] + j, sizeof x);                                                 \
      if ((x & ~sign) <= infinity) {                                                              \
        if (m < M) x = (x + (last >> 1) - 1 + ((x & last) != 0)) & ~(last - 1);                   \
        if (e < E && (x & infinity) > largest) x = (x & sign) | infinity;                         \
        if (e < E && (x & infinity) <= smallest) x &= sign;                                       \
      }                                                                                           \
      if (m == 0 && (x & ~sign) > infinity) x = infinity;                                         \
      memcpy((T *)out + j, &x, sizeof x);                                                         \
    }                                                                                             \
  }
REDUCE_PRECISION(reduce_precision_f32, float, uint32_t, 8, 23)
REDUCE_PRECISION(reduce_precision_f64, double, uint64_t, 11, 52)

/* ---- choosing ---- */

static sn_ev_fn native_fn(sn_opcode op, int n_in, sn_type t, int64_t a, int64_t b) {
  switch (op) {
    case SN_OP_COMPARE:
      return sn_ev_compare_fn(t, a, b != 0);
    case SN_OP_CLAMP:
      return sn_ev_clamp_fn(t);
    case SN_OP_REDUCE_PRECISION:
      return t == SN_TYPE_F32 ? reduce_precision_f32 : t == SN_TYPE_F64 ? reduce_precision_f64 : NULL;
    default:
      return n_in == 1 ? sn_ev_unary_fn(op, t) : sn_ev_binary_fn(op, t);
  }
}

bool sn_ev_kernel_find(sn_opcode op, int n_in, const sn_type *in, sn_type out, sn_ev_kernel *k) {
  int64_t a = k->a, b = k->b;
  uint32_t scalar = k->scalar;
  memset(k, 0, sizeof *k);
  k->op = op;
  k->a = a;
  k->b = b;
  k->scalar = scalar;
  k->n_in = n_in;
  k->out = out;
  for (int j = 0; j < n_in && j < 3; j++) k->in[j] = in[j];
  sn_type t = in[n_in == 3 ? 1 : 0];
  k->bits = sn_type_bits(t);
  if (op == SN_OP_SELECT) return (k->fn = select_fn(sn_type_bytes(t))) != NULL;
  if (op == SN_OP_CONVERT) k->fn = in[0] == out ? run_copy : run_convert;
  if (op == SN_OP_COPY || op == SN_OP_OPT_BARRIER || op == SN_OP_DOMAIN) k->fn = run_copy;
  if (op == SN_OP_BITCAST_CONVERT && sn_type_bytes(in[0]) == sn_type_bytes(out) &&
      sn_type_bits(in[0]) == sn_type_bits(out))
    k->fn = run_copy;
  if (k->fn) return true;
  if (is_narrow_float(t)) {
    k->inner = native_fn(op, n_in, SN_TYPE_F32, a, b);
    k->fn = k->inner ? run_narrow : NULL;
  } else if (is_sub_byte(t)) {
    k->inner = native_fn(op, n_in, byte_type(t), a, b);
    k->fn = k->inner ? run_sub_byte : NULL;
  } else {
    k->fn = native_fn(op, n_in, t, a, b);
  }
  return k->fn != NULL;
}

bool sn_eval_elements(sn_opcode op, int n_in, const sn_type *in, sn_type out, int64_t a, int64_t b, int64_t n,
                      void *result, const void *const *operands) {
  sn_ev_kernel k;
  memset(&k, 0, sizeof k);
  k.a = a;
  k.b = b;
  if (!sn_ev_kernel_find(op, n_in, in, out, &k)) return false;
  k.fn(&k, n, result, operands);
  return true;
}

sn_status sn_ev_kernel_of(sn_ev_ctx *e, const sn_instr *i, sn_ev_kernel *k) {
  sn_type in[3] = {SN_TYPE_INVALID, SN_TYPE_INVALID, SN_TYPE_INVALID};
  int n = (int)i->n_operands;
  memset(k, 0, sizeof *k);
  if (n < 1 || n > 3 || !sn_shape_is_array(i->shape))
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "no elementwise kernel takes %d operands", n);
  for (int j = 0; j < n; j++) {
    const sn_shape *s = sn_operand_shape(i, (uint32_t)j);
    if (!sn_shape_is_array(s)) return sn_ev_error(e, i, SN_ERR_TYPE, "operand %d is no array", j);
    in[j] = s->type;
    if (s->rank == 0 && i->shape->rank > 0) k->scalar |= 1u << j;
  }
  if (i->op == SN_OP_COMPARE) {
    k->a = sn_instr_int(i, SN_ATTR_DIRECTION);
    const sn_attr *type = sn_instr_attr(i, SN_ATTR_COMPARE_TYPE);
    k->b = type && type->u.i == SN_COMPARE_TYPE_TOTALORDER;
  } else if (i->op == SN_OP_REDUCE_PRECISION) {
    k->a = sn_instr_int(i, SN_ATTR_EXPONENT_BITS);
    k->b = sn_instr_int(i, SN_ATTR_MANTISSA_BITS);
  }
  if (sn_ev_kernel_find(i->op, n, in, i->shape->type, k)) return SN_OK;
  return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "not defined for %s", sn_type_text(in[n == 3 ? 1 : 0]));
}

/* ---- running ---- */

typedef struct ranges {
  sn_ev_range_fn fn;
  void *ctx;
  int64_t n, chunk;
} ranges;

static void range_item(void *ctx, int64_t item, int worker) {
  const ranges *r = ctx;
  int64_t begin = item * r->chunk, end = begin + r->chunk;
  (void)worker;
  r->fn(r->ctx, begin, end < r->n ? end : r->n);
}

void sn_ev_parallel(sn_ev_ctx *e, int64_t n, int64_t chunk, sn_ev_range_fn fn, void *ctx) {
  ranges r = {fn, ctx, n, chunk < 1 ? 1 : chunk};
  if (n <= 0) return;
  sn_pool_run(e->pool, (n + r.chunk - 1) / r.chunk, range_item, &r);
}

typedef struct job {
  const sn_ev_kernel *k;
  char *out;
  const char *in[3];
  size_t out_bytes, in_bytes[3];
} job;

static void job_run(const job *j, int64_t begin, int64_t n, void *out) {
  const void *in[3] = {NULL, NULL, NULL};
  for (int q = 0; q < j->k->n_in; q++) in[q] = j->in[q] + (size_t)begin * j->in_bytes[q];
  j->k->fn(j->k, n, out, in);
}

/* In place goes by way of a block: compilers make vector code only for loops whose result lies elsewhere. */
static void job_range(void *ctx, int64_t begin, int64_t end) {
  const job *j = ctx;
  double block[1024];
  int64_t each = (int64_t)(sizeof block / j->out_bytes);
  bool in_place = false;
  for (int q = 0; q < j->k->n_in; q++) in_place = in_place || j->in[q] == j->out;
  if (!in_place) {
    job_run(j, begin, end - begin, j->out + (size_t)begin * j->out_bytes);
    return;
  }
  for (; begin < end; begin += each) {
    int64_t n = end - begin < each ? end - begin : each;
    job_run(j, begin, n, block);
    memcpy(j->out + (size_t)begin * j->out_bytes, block, (size_t)n * j->out_bytes);
  }
}

/* An operand nobody else needs becomes the result when it has the same type. */
static sn_status result_array(sn_ev_ctx *e, const sn_instr *i, const sn_ev_kernel *k, sn_array *const *in,
                              sn_array **out) {
  for (int j = 0; j < k->n_in; j++) {
    if (k->scalar >> j & 1 || k->in[j] != k->out || !sn_ev_may_reuse(e, in[j])) continue;
    if (!sn_shape_equal(sn_array_shape(in[j]), i->shape, 0)) continue;
    *out = sn_array_retain(in[j]);
    return SN_OK;
  }
  return sn_ev_new(e, i, i->shape, out);
}

static void keep_dynamic_sizes(const sn_instr *i, sn_array *const *in, int n_in, sn_array *out) {
  const sn_shape *s = sn_array_shape(out);
  if (!s->dynamic) return;
  for (int j = 0; j < n_in; j++) {
    const int64_t *sizes = sn_array_dynamic_sizes(in[j]);
    if (!sizes || sn_array_shape(in[j])->rank != s->rank) continue;
    for (int d = 0; d < s->rank; d++)
      if (s->dynamic[d]) sn_array_set_dynamic_size(out, d, sizes[d]);
  }
  (void)i;
}

sn_status sn_ev_elementwise(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ev_kernel k;
  job j;
  SN_TRY(sn_ev_kernel_of(e, i, &k));
  int64_t n = sn_shape_elements(i->shape);
  for (int q = 0; q < k.n_in; q++)
    if (!(k.scalar >> q & 1) && sn_shape_elements(sn_array_shape(in[q])) != n)
      return sn_ev_error(e, i, SN_ERR_SHAPE, "operand %d has %lld elements, the result %lld", q,
                         (long long)sn_shape_elements(sn_array_shape(in[q])), (long long)n);
  SN_TRY(result_array(e, i, &k, in, out));
  j.k = &k;
  j.out = sn_array_data(*out);
  j.out_bytes = sn_type_bytes(k.out);
  for (int q = 0; q < k.n_in; q++) {
    j.in[q] = sn_array_data(in[q]);
    j.in_bytes[q] = k.scalar >> q & 1 ? 0 : sn_type_bytes(k.in[q]);
  }
  sn_ev_parallel(e, n, CHUNK, job_range, &j);
  keep_dynamic_sizes(i, in, k.n_in, *out);
  return SN_OK;
}
