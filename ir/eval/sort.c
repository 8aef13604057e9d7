/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sort and top-k: merge sort of positions along the dimension. Always stable; any comparator, even a contradictory one,
 * terminates. */
#include "eval_internal.h"

/* Does position a come before position b? */
typedef sn_status (*before_fn)(void *ctx, int64_t a, int64_t b, bool *out);

static sn_status merge(before_fn before, void *ctx, const int64_t *from, int64_t mid, int64_t n, int64_t *to) {
  int64_t a = 0, b = mid;
  for (int64_t k = 0; k < n; k++) {
    bool take_b = a >= mid;
    if (a < mid && b < n) SN_TRY(before(ctx, from[b], from[a], &take_b));
    to[k] = take_b ? from[b++] : from[a++];
  }
  return SN_OK;
}

/* Sorts order[0, n) with other[0, n) as scratch; the result is in order. */
static sn_status merge_sort(before_fn before, void *ctx, int64_t *order, int64_t *other, int64_t n) {
  int64_t *from = order, *to = other;
  for (int64_t width = 1; width < n; width *= 2) {
    for (int64_t at = 0; at < n; at += 2 * width) {
      int64_t len = n - at < 2 * width ? n - at : 2 * width, mid = len < width ? len : width;
      SN_TRY(merge(before, ctx, from + at, mid, len, to + at));
    }
    int64_t *t = from;
    from = to;
    to = t;
  }
  if (from != order) memcpy(order, from, (size_t)n * sizeof *order);
  return SN_OK;
}

/* ---- sort ---- */

typedef struct sort_job {
  int n;
  sn_ev_program *program;
  sn_array *const *in;
  const void **params;
  int64_t base, stride; /* of the row being sorted */
} sort_job;

static sn_status before_by_program(void *ctx, int64_t a, int64_t b, bool *out) {
  sort_job *j = ctx;
  uint8_t yes = 0;
  void *to = &yes;
  for (int k = 0; k < j->n; k++) {
    const char *data = sn_array_data(j->in[k]);
    size_t bytes = sn_type_bytes(sn_array_shape(j->in[k])->type);
    j->params[2 * k] = data + (size_t)(j->base + a * j->stride) * bytes;
    j->params[2 * k + 1] = data + (size_t)(j->base + b * j->stride) * bytes;
  }
  SN_TRY(sn_ev_program_run(j->program, 1, j->params, &to));
  *out = yes != 0;
  return SN_OK;
}

static sn_status sort_rows(sort_job *j, int64_t dim, int64_t *order, sn_array *const *outs) {
  const sn_shape *s = sn_array_shape(j->in[0]);
  int64_t n = s->dims[dim], inner = sn_ev_product(s->rank - (int)dim - 1, s->dims + dim + 1),
          outer = sn_ev_product((int)dim, s->dims);
  j->stride = inner;
  for (int64_t o = 0; o < outer; o++)
    for (int64_t q = 0; q < inner; q++) {
      j->base = o * n * inner + q;
      for (int64_t k = 0; k < n; k++) order[k] = k;
      SN_TRY(merge_sort(before_by_program, j, order, order + n, n));
      for (int v = 0; v < j->n; v++) {
        size_t bytes = sn_type_bytes(sn_array_shape(j->in[v])->type);
        const char *from = sn_array_data(j->in[v]);
        char *to = sn_array_data(outs[v]);
        for (int64_t k = 0; k < n; k++)
          memcpy(to + (size_t)(j->base + k * inner) * bytes, from + (size_t)(j->base + order[k] * inner) * bytes,
                 bytes);
      }
    }
  return SN_OK;
}

static sn_status sort_into(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array *const *outs) {
  sort_job j;
  void *params = NULL, *order = NULL;
  memset(&j, 0, sizeof j);
  j.n = (int)i->n_operands;
  j.in = in;
  const sn_shape *s = sn_array_shape(in[0]);
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t dim = dims.n ? dims.v[0] : s->rank - 1;
  const sn_computation *c = i->called[0];
  if (c->n_params != 2 * i->n_operands)
    return sn_ev_error(e, i, SN_ERR_VERIFY, "comparator %s takes %u parameters instead of %u", c->name,
                       (unsigned)c->n_params, 2 * (unsigned)i->n_operands);
  if (sn_shape_elements(s) == 0) return SN_OK;
  if (s->rank == 0) {
    for (int k = 0; k < j.n; k++) memcpy(sn_array_data(outs[k]), sn_array_data(in[k]), sn_array_bytes(in[k]));
    return SN_OK;
  }
  sn_status status = sn_ev_program_create(e, i, c, &j.program);
  if (status == SN_OK && sn_ev_program_out_type(j.program, 0) != SN_TYPE_PRED)
    status = sn_ev_error(e, i, SN_ERR_TYPE, "comparator %s gives no pred", c->name);
  if (status == SN_OK) status = sn_ev_scratch(e, i, 2 * (size_t)j.n, sizeof(void *), &params);
  if (status == SN_OK) status = sn_ev_scratch(e, i, 2 * (size_t)s->dims[dim], sizeof(int64_t), &order);
  j.params = params;
  if (status == SN_OK) status = sort_rows(&j, dim, order, outs);
  sn_free(params);
  sn_free(order);
  sn_ev_program_destroy(j.program);
  return status;
}

sn_status sn_eval_sort(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  int n = (int)i->n_operands;
  void *memory;
  SN_TRY(sn_ev_scratch(e, i, (size_t)n, sizeof(sn_array *), &memory));
  sn_array **outs = memory;
  sn_status s = SN_OK;
  for (int k = 0; k < n && s == SN_OK; k++)
    s = sn_ev_new(e, i, sn_shape_is_tuple(i->shape) ? i->shape->elements[k] : i->shape, &outs[k]);
  if (s == SN_OK) s = sort_into(e, i, in, outs);
  if (s == SN_OK && sn_shape_is_tuple(i->shape)) {
    s = sn_ev_new_tuple(e, i, n, outs, out);
  } else if (s == SN_OK) {
    *out = outs[0];
    outs[0] = NULL;
  }
  for (int k = 0; k < n; k++) sn_ev_release(e, outs[k]);
  sn_free(memory);
  return s;
}

/* ---- top-k ---- */

typedef struct topk_job {
  sn_ev_kernel greater;
  const char *row;
  size_t bytes;
} topk_job;

static sn_status before_by_order(void *ctx, int64_t a, int64_t b, bool *out) {
  const topk_job *j = ctx;
  uint8_t yes = 0;
  j->greater.fn(&j->greater, 1, &yes,
                (const void *const[]){j->row + (size_t)a * j->bytes, j->row + (size_t)b * j->bytes});
  *out = yes != 0;
  return SN_OK;
}

/* Values and positions of the k largest (or smallest) of each row of the last dimension; floats in total order, equal
 * ones by position. */
sn_status sn_ev_topk(sn_ev_ctx *e, const sn_instr *i, const sn_array *in, int64_t k, bool largest, sn_array **out) {
  const sn_shape *s = sn_array_shape(in);
  sn_array *outs[2] = {NULL, NULL};
  topk_job j;
  void *order = NULL;
  int64_t n = s->rank ? s->dims[s->rank - 1] : 1, rows = n ? sn_shape_elements(s) / n : 0;
  sn_type types[2] = {s->type, s->type};
  memset(&j, 0, sizeof j);
  j.greater.a = largest ? SN_DIRECTION_GT : SN_DIRECTION_LT;
  j.greater.b = sn_type_is_float(s->type);
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != 2)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "top-k gives values and positions");
  if (!sn_ev_kernel_find(SN_OP_COMPARE, 2, types, SN_TYPE_PRED, &j.greater))
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "not defined for %s", sn_type_text(s->type));
  if (k < 0 || k > n)
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "k = %lld of %lld elements", (long long)k, (long long)n);
  const sn_shape *positions = i->shape->elements[1];
  sn_status status = sn_ev_new(e, i, i->shape->elements[0], &outs[0]);
  if (status == SN_OK) status = sn_ev_new(e, i, positions, &outs[1]);
  if (status == SN_OK) status = sn_ev_scratch(e, i, 2 * (size_t)n, sizeof(int64_t), &order);
  j.bytes = sn_type_bytes(s->type);
  for (int64_t r = 0; r < rows && status == SN_OK; r++) {
    int64_t *o = order;
    j.row = (const char *)sn_array_data(in) + (size_t)(r * n) * j.bytes;
    for (int64_t q = 0; q < n; q++) o[q] = q;
    status = merge_sort(before_by_order, &j, o, o + n, n);
    for (int64_t q = 0; q < k && status == SN_OK; q++) {
      memcpy((char *)sn_array_data(outs[0]) + (size_t)(r * k + q) * j.bytes, j.row + (size_t)o[q] * j.bytes, j.bytes);
      sn_store_i64(positions->type,
                   (char *)sn_array_data(outs[1]) + (size_t)(r * k + q) * sn_type_bytes(positions->type), o[q]);
    }
  }
  sn_free(order);
  if (status == SN_OK) return sn_ev_new_tuple(e, i, 2, outs, out);
  sn_ev_release(e, outs[0]);
  sn_ev_release(e, outs[1]);
  return status;
}

sn_status sn_eval_topk(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_topk(e, i, in[0], sn_instr_int(i, SN_ATTR_K), sn_instr_bool(i, SN_ATTR_LARGEST), out);
}
