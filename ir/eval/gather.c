/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* gather: one slice of the operand for every position of the start indices; starts are clamped so that the slice lies
 * inside. */
#include "eval_internal.h"

typedef struct gather_plan {
  const sn_shape *operand, *indices, *result;
  sn_ints offset_dims, collapsed, start_map, operand_batching, index_batching, sizes;
  int64_t vector_dim;
  int n_batch;
  int64_t batch_dims[SN_MAX_RANK]; /* sizes of the positions: indices without the vector dim … */
  int64_t batch_out[SN_MAX_RANK];  /* … and where they stand in the result */
  int64_t index_strides[SN_MAX_RANK], vector_stride;
  int64_t operand_strides[SN_MAX_RANK], result_strides[SN_MAX_RANK];
  sn_ev_copy slice; /* dims and strides of one slice */
} gather_plan;

static bool in_list(sn_ints l, int64_t d) {
  for (int64_t k = 0; k < l.n; k++)
    if (l.v[k] == d) return true;
  return false;
}

static sn_status plan_open(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, gather_plan *p) {
  memset(p, 0, sizeof *p);
  p->operand = sn_array_shape(in[0]);
  p->indices = sn_array_shape(in[1]);
  p->result = i->shape;
  p->offset_dims = sn_instr_ints(i, SN_ATTR_OFFSET_DIMS);
  p->collapsed = sn_instr_ints(i, SN_ATTR_COLLAPSED_SLICE_DIMS);
  p->start_map = sn_instr_ints(i, SN_ATTR_START_INDEX_MAP);
  p->operand_batching = sn_instr_ints(i, SN_ATTR_OPERAND_BATCHING_DIMS);
  p->index_batching = sn_instr_ints(i, SN_ATTR_START_INDICES_BATCHING_DIMS);
  p->sizes = sn_instr_ints(i, SN_ATTR_SLICE_SIZES);
  p->vector_dim = sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM);
  int64_t strides[SN_MAX_RANK];
  sn_ev_strides(p->indices->rank, p->indices->dims, strides);
  sn_ev_strides(p->operand->rank, p->operand->dims, p->operand_strides);
  sn_ev_strides(p->result->rank, p->result->dims, p->result_strides);
  p->vector_stride = p->vector_dim < p->indices->rank ? strides[p->vector_dim] : 1;
  for (int d = 0; d < p->indices->rank; d++) {
    if (d == p->vector_dim) continue;
    p->batch_dims[p->n_batch] = p->indices->dims[d];
    p->index_strides[p->n_batch++] = strides[d];
  }
  int n = 0;
  for (int d = 0; d < p->result->rank && n < p->n_batch; d++)
    if (!in_list(p->offset_dims, d)) p->batch_out[n++] = d;
  if (n != p->n_batch || p->sizes.n != p->operand->rank)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "its dimension numbers do not fit its operands");
  sn_ev_copy *c = &p->slice;
  c->bytes = sn_type_bytes(p->operand->type);
  for (int d = 0, at = 0; d < p->operand->rank; d++) {
    if (in_list(p->collapsed, d) || in_list(p->operand_batching, d)) continue;
    if (at >= p->offset_dims.n) return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "too few offset_dims");
    c->dims[c->rank] = p->sizes.v[d];
    c->src_stride[c->rank] = p->operand_strides[d];
    c->dst_stride[c->rank++] = p->result_strides[p->offset_dims.v[at++]];
  }
  return SN_OK;
}

/* Where the slice of one position starts in the operand. */
static int64_t slice_start(const gather_plan *p, const sn_array *indices, const int64_t *position) {
  const char *data = sn_array_data(indices);
  size_t bytes = sn_type_bytes(p->indices->type);
  int64_t at = sn_ev_dot_strides(p->n_batch, position, p->index_strides), start = 0;
  for (int64_t k = 0; k < p->start_map.n; k++) {
    int64_t d = p->start_map.v[k], limit = p->operand->dims[d] - p->sizes.v[d];
    int64_t v = sn_load_i64(p->indices->type, data + (size_t)(at + k * p->vector_stride) * bytes);
    if (p->indices->type == SN_TYPE_U64 && v < 0) v = INT64_MAX;
    start += (v < 0 ? 0 : v > limit ? limit : v) * p->operand_strides[d];
  }
  for (int64_t k = 0; k < p->operand_batching.n; k++) {
    int64_t d = p->index_batching.v[k];
    start += position[d - (d > p->vector_dim)] * p->operand_strides[p->operand_batching.v[k]];
  }
  return start;
}

/* One slice, element by element but for runs that lie together on both sides. */
static void copy_slice(const sn_ev_copy *c, char *dst, const char *src) {
  int64_t index[SN_MAX_RANK] = {0}, bytes = (int64_t)c->bytes;
  int outer = c->rank > 0 && c->dst_stride[c->rank - 1] == 1 && c->src_stride[c->rank - 1] == 1 ? c->rank - 1 : c->rank;
  int64_t run = (outer < c->rank ? c->dims[outer] : 1) * bytes;
  do {
    memcpy(dst + sn_ev_dot_strides(outer, index, c->dst_stride) * bytes,
           src + sn_ev_dot_strides(outer, index, c->src_stride) * bytes, (size_t)run);
  } while (sn_ev_next(outer, c->dims, index));
}

sn_status sn_eval_gather(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  gather_plan p;
  int64_t position[SN_MAX_RANK] = {0};
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (sn_shape_elements(i->shape) == 0) return SN_OK;
  SN_TRY(plan_open(e, i, in, &p));
  const char *src = sn_array_data(in[0]);
  char *dst = sn_array_data(*out);
  do {
    int64_t to = 0;
    for (int d = 0; d < p.n_batch; d++) to += position[d] * p.result_strides[p.batch_out[d]];
    copy_slice(&p.slice, dst + to * (int64_t)p.slice.bytes,
               src + slice_start(&p, in[1], position) * (int64_t)p.slice.bytes);
  } while (sn_ev_next(p.n_batch, p.batch_dims, position));
  return SN_OK;
}
