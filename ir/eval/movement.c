/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Ops that move data: each is one strided copy between row-major arrays, with a start and strides of its own. */
#include "eval_internal.h"

/* A copy over `dims` between two places, strides to be filled in. */
static void start_copy(sn_ev_copy *c, const sn_shape *over, sn_array *to, const sn_array *from) {
  c->bytes = sn_type_bytes(over->type);
  c->rank = over->rank;
  c->dst = sn_array_data(to);
  c->src = sn_array_data(from);
  if (over->rank > 0) memcpy(c->dims, over->dims, (size_t)over->rank * sizeof c->dims[0]); /* a scalar has no dims */
}

static void copy_dynamic_sizes(sn_array *out, const sn_array *in) {
  const sn_shape *s = sn_array_shape(out);
  const int64_t *sizes = sn_array_dynamic_sizes(in);
  for (int d = 0; sizes && s->dynamic && d < s->rank; d++)
    if (s->dynamic[d] && sizes[d] <= s->dims[d]) sn_array_set_dynamic_size(out, d, sizes[d]);
}

sn_status sn_eval_broadcast(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *from = sn_array_shape(in[0]);
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t strides[SN_MAX_RANK];
  sn_ev_copy c;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (dims.n != from->rank)
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "%lld dimensions for an operand of rank %d", (long long)dims.n,
                       from->rank);
  start_copy(&c, i->shape, *out, in[0]);
  sn_ev_strides(c.rank, c.dims, c.dst_stride);
  sn_ev_strides(from->rank, from->dims, strides);
  memset(c.src_stride, 0, sizeof c.src_stride);
  for (int d = 0; d < from->rank; d++)
    if (from->dims[d] != 1 || c.dims[dims.v[d]] == 1) c.src_stride[dims.v[d]] = strides[d];
  sn_ev_copy_run(e, &c);
  return SN_OK;
}

sn_status sn_eval_reshape(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  if (sn_shape_equal(sn_array_shape(in[0]), i->shape, 0)) {
    *out = sn_array_retain(in[0]);
    return SN_OK;
  }
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (sn_array_bytes(*out) != sn_array_bytes(in[0]))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "%zu bytes do not fill %zu", sn_array_bytes(in[0]), sn_array_bytes(*out));
  if (sn_array_bytes(*out)) memcpy(sn_array_data(*out), sn_array_data(in[0]), sn_array_bytes(*out));
  if (i->shape->rank == sn_array_shape(in[0])->rank) copy_dynamic_sizes(*out, in[0]);
  return SN_OK;
}

/* The elements that count, in order, then laid out in the new sizes: both may be smaller than the bounds. */
sn_status sn_eval_dynamic_reshape(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *from = sn_array_shape(in[0]), *to = i->shape;
  int64_t sizes[SN_MAX_RANK], want[SN_MAX_RANK], fs[SN_MAX_RANK], ts[SN_MAX_RANK], a[SN_MAX_RANK] = {0},
                                                                                   b[SN_MAX_RANK] = {0};
  size_t bytes = sn_type_bytes(to->type);
  SN_TRY(sn_ev_new_zero(e, i, to, out));
  sn_ev_sizes(in[0], sizes);
  for (int d = 0; d < to->rank; d++) {
    want[d] = d + 1 < (int)i->n_operands ? sn_load_i64(sn_array_shape(in[d + 1])->type, sn_array_data(in[d + 1]))
                                         : to->dims[d];
    if (want[d] < 0 || want[d] > to->dims[d])
      return sn_ev_error(e, i, SN_ERR_SHAPE, "size %lld of dimension %d is outside its bound %lld", (long long)want[d],
                         d, (long long)to->dims[d]);
    if (to->dynamic && to->dynamic[d]) sn_array_set_dynamic_size(*out, d, want[d]);
  }
  if (sn_ev_product(from->rank, sizes) != sn_ev_product(to->rank, want))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "%lld elements do not fill %lld",
                       (long long)sn_ev_product(from->rank, sizes), (long long)sn_ev_product(to->rank, want));
  if (sn_ev_product(to->rank, want) == 0) return SN_OK;
  sn_ev_strides(from->rank, from->dims, fs);
  sn_ev_strides(to->rank, to->dims, ts);
  do {
    memcpy((char *)sn_array_data(*out) + (size_t)sn_ev_dot_strides(to->rank, b, ts) * bytes,
           (char *)sn_array_data(in[0]) + (size_t)sn_ev_dot_strides(from->rank, a, fs) * bytes, bytes);
    (void)sn_ev_next(to->rank, want, b);
  } while (sn_ev_next(from->rank, sizes, a));
  return SN_OK;
}

sn_status sn_eval_transpose(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints perm = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t strides[SN_MAX_RANK];
  sn_ev_copy c;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  start_copy(&c, i->shape, *out, in[0]);
  sn_ev_strides(c.rank, c.dims, c.dst_stride);
  sn_ev_strides(c.rank, sn_array_shape(in[0])->dims, strides);
  for (int d = 0; d < c.rank; d++) c.src_stride[d] = strides[perm.v[d]];
  sn_ev_copy_run(e, &c);
  const int64_t *sizes = sn_array_dynamic_sizes(in[0]);
  for (int d = 0; sizes && i->shape->dynamic && d < c.rank && d < i->shape->rank; d++)
    if (i->shape->dynamic[d]) sn_array_set_dynamic_size(*out, d, sizes[perm.v[d]]);
  return SN_OK;
}

sn_status sn_eval_reverse(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  sn_ev_copy c;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (sn_shape_elements(i->shape) == 0) return SN_OK;
  start_copy(&c, i->shape, *out, in[0]);
  sn_ev_strides(c.rank, c.dims, c.dst_stride);
  sn_ev_strides(c.rank, c.dims, c.src_stride);
  for (int64_t k = 0; k < dims.n; k++) {
    int64_t d = dims.v[k];
    c.src += (c.dims[d] - 1) * c.src_stride[d] * (int64_t)c.bytes;
    c.src_stride[d] = -c.src_stride[d];
  }
  sn_ev_copy_run(e, &c);
  return SN_OK;
}

sn_status sn_eval_slice(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints s = sn_instr_ints(i, SN_ATTR_SLICE);
  int64_t strides[SN_MAX_RANK];
  sn_ev_copy c;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  start_copy(&c, i->shape, *out, in[0]);
  sn_ev_strides(c.rank, c.dims, c.dst_stride);
  sn_ev_strides(c.rank, sn_array_shape(in[0])->dims, strides);
  for (int d = 0; d < c.rank; d++) {
    c.src += s.v[3 * d] * strides[d] * (int64_t)c.bytes;
    c.src_stride[d] = s.v[3 * d + 2] * strides[d];
  }
  sn_ev_copy_run(e, &c);
  return SN_OK;
}

/* Start indices are clamped so that the window stays inside. */
int64_t sn_ev_clamped_start(const sn_array *in, int64_t limit) {
  sn_type t = sn_array_shape(in)->type;
  int64_t v = sn_load_i64(t, sn_array_data(in));
  if (t == SN_TYPE_U64 && v < 0) v = INT64_MAX; /* beyond the range of a signed number */
  return v < 0 ? 0 : v > limit ? limit : v;
}

/* Start indices are scalars, or one vector in old programs. */
static int64_t start_index(const sn_instr *i, sn_array *const *in, int first, int d, int64_t limit) {
  const sn_array *a = in[first];
  const sn_shape *s = sn_array_shape(a);
  (void)i;
  if (s->rank == 0) return sn_ev_clamped_start(in[first + d], limit);
  int64_t v = sn_load_i64(s->type, (const char *)sn_array_data(a) + (size_t)d * sn_type_bytes(s->type));
  return v < 0 ? 0 : v > limit ? limit : v;
}

sn_status sn_eval_dynamic_slice(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *from = sn_array_shape(in[0]);
  sn_ev_copy c;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  start_copy(&c, i->shape, *out, in[0]);
  sn_ev_strides(c.rank, c.dims, c.dst_stride);
  sn_ev_strides(c.rank, from->dims, c.src_stride);
  for (int d = 0; d < c.rank; d++)
    c.src += start_index(i, in, 1, d, from->dims[d] - c.dims[d]) * c.src_stride[d] * (int64_t)c.bytes;
  sn_ev_copy_run(e, &c);
  return SN_OK;
}

sn_status sn_eval_dynamic_update_slice(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *update = sn_array_shape(in[1]);
  sn_ev_copy c;
  SN_TRY(sn_ev_writable(e, i, in[0], out));
  start_copy(&c, update, *out, in[1]);
  sn_ev_strides(c.rank, i->shape->dims, c.dst_stride);
  sn_ev_strides(c.rank, update->dims, c.src_stride);
  for (int d = 0; d < c.rank; d++)
    c.dst += start_index(i, in, 2, d, i->shape->dims[d] - update->dims[d]) * c.dst_stride[d] * (int64_t)c.bytes;
  sn_ev_copy_run(e, &c);
  return SN_OK;
}

/* First and one past the last operand index that lands inside the result, for low padding (maybe negative) and step =
 * interior + 1. */
static void pad_range(int64_t n, int64_t low, int64_t step, int64_t result, int64_t *first, int64_t *last) {
  *first = low >= 0 ? 0 : (-low + step - 1) / step;
  *last = result - low <= 0 ? 0 : (result - low - 1) / step + 1;
  if (*last > n) *last = n;
  if (*first > *last) *first = *last;
}

sn_status sn_eval_pad(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints p = sn_instr_ints(i, SN_ATTR_PADDING);
  const sn_shape *from = sn_array_shape(in[0]);
  sn_ev_copy c;
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  sn_ev_fill(sn_array_data(*out), sn_array_data(in[1]), sn_type_bytes(i->shape->type), sn_shape_elements(i->shape));
  start_copy(&c, from, *out, in[0]);
  sn_ev_strides(c.rank, i->shape->dims, c.dst_stride);
  sn_ev_strides(c.rank, from->dims, c.src_stride);
  for (int d = 0; d < c.rank; d++) {
    int64_t low = p.v[3 * d], step = p.v[3 * d + 2] + 1, first, last;
    pad_range(from->dims[d], low, step, i->shape->dims[d], &first, &last);
    c.dims[d] = last - first;
    c.src += first * c.src_stride[d] * (int64_t)c.bytes;
    c.dst += (low + first * step) * c.dst_stride[d] * (int64_t)c.bytes;
    c.dst_stride[d] *= step;
  }
  sn_ev_copy_run(e, &c);
  return SN_OK;
}

sn_status sn_eval_concatenate(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t at = 0, strides[SN_MAX_RANK];
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  sn_ev_strides(i->shape->rank, i->shape->dims, strides);
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_shape *from = sn_array_shape(in[k]);
    sn_ev_copy c;
    start_copy(&c, from, *out, in[k]);
    memcpy(c.dst_stride, strides, sizeof strides);
    sn_ev_strides(from->rank, from->dims, c.src_stride);
    c.dst += at * strides[dims.v[0]] * (int64_t)c.bytes;
    at += from->dims[dims.v[0]];
    sn_ev_copy_run(e, &c);
  }
  return SN_OK;
}

/* ---- sources ---- */

sn_status sn_eval_constant(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_array *a = sn_instr_literal(i);
  (void)in;
  if (!a) {
    (void)sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "its value was left out of the text ({...})");
    sn_hint(e->d, "print the module with large constants (--print=large-constants, XLA: --xla_dump_large_constants)");
    return SN_ERR_UNSUPPORTED;
  }
  *out = sn_array_retain(a);
  return SN_OK;
}

sn_status sn_eval_iota(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *s = i->shape;
  int64_t d = sn_instr_int(i, SN_ATTR_IOTA_DIMENSION);
  size_t bytes = sn_type_bytes(s->type);
  (void)in;
  SN_TRY(sn_ev_new(e, i, s, out));
  if (sn_shape_elements(s) == 0) return SN_OK;
  if (d < 0 || d >= s->rank)
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "iota_dimension %lld of a result of rank %d", (long long)d, s->rank);
  int64_t inner = sn_ev_product(s->rank - (int)d - 1, s->dims + d + 1), outer = sn_ev_product((int)d, s->dims);
  char *data = sn_array_data(*out);
  for (int64_t k = 0; k < s->dims[d]; k++) {
    char element[16] = {0};
    if (sn_type_is_complex(s->type))
      sn_store_c128(s->type, element, (double)k, 0);
    else if (sn_type_is_float(s->type))
      sn_store_f64(s->type, element, (double)k);
    else
      sn_store_i64(s->type, element, k);
    sn_ev_fill(data + (size_t)(k * inner) * bytes, element, bytes, inner);
  }
  size_t block = (size_t)(s->dims[d] * inner) * bytes;
  for (int64_t k = 1; k < outer; k++) memcpy(data + (size_t)k * block, data, block);
  return SN_OK;
}

/* ---- dynamic sizes ---- */

sn_status sn_eval_get_dimension_size(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t sizes[SN_MAX_RANK];
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  sn_ev_sizes(in[0], sizes);
  sn_store_i64(i->shape->type, sn_array_data(*out), sizes[dims.v[0]]);
  return SN_OK;
}

sn_status sn_eval_set_dimension_size(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t d = dims.v[0], size = sn_load_i64(sn_array_shape(in[1])->type, sn_array_data(in[1]));
  if (size < 0 || size > i->shape->dims[d])
    return sn_ev_error(e, i, SN_ERR_SHAPE, "size %lld of dimension %lld is outside its bound %lld", (long long)size,
                       (long long)d, (long long)i->shape->dims[d]);
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (sn_array_bytes(*out)) memcpy(sn_array_data(*out), sn_array_data(in[0]), sn_array_bytes(*out));
  copy_dynamic_sizes(*out, in[0]);
  if (i->shape->dynamic && i->shape->dynamic[d]) sn_array_set_dynamic_size(*out, (int)d, size);
  return SN_OK;
}
