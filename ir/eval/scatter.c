/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* scatter: each position of the indices combines one window of the updates into the operand, in order. A window that
 * does not lie inside as a whole is skipped. By a known op the operand is carried wide and rounded once, as in reduce.
 */
#include "eval_internal.h"

typedef struct scatter_plan {
  int n; /* operands */
  const sn_shape *operand, *indices, *update;
  sn_ints window_dims, inserted, to_operand, operand_batching, index_batching;
  int64_t vector_dim, vector_stride;
  int n_batch, n_window;
  int64_t batch_dims[SN_MAX_RANK], index_strides[SN_MAX_RANK],
      batch_update[SN_MAX_RANK]; /* positions: sizes, strides in indices and updates */
  int64_t window[SN_MAX_RANK], window_operand[SN_MAX_RANK],
      window_update[SN_MAX_RANK]; /* window: sizes, strides in operand and updates */
  int64_t size[SN_MAX_RANK];      /* of the window, by operand dim */
  int64_t operand_strides[SN_MAX_RANK];
} scatter_plan;

static bool in_list(sn_ints l, int64_t d) {
  for (int64_t k = 0; k < l.n; k++)
    if (l.v[k] == d) return true;
  return false;
}

static void plan_positions(scatter_plan *p) {
  int64_t is[SN_MAX_RANK], us[SN_MAX_RANK];
  sn_ev_strides(p->indices->rank, p->indices->dims, is);
  sn_ev_strides(p->update->rank, p->update->dims, us);
  p->vector_stride = p->vector_dim < p->indices->rank ? is[p->vector_dim] : 1;
  for (int d = 0; d < p->indices->rank; d++) {
    if (d == p->vector_dim) continue;
    p->batch_dims[p->n_batch] = p->indices->dims[d];
    p->index_strides[p->n_batch++] = is[d];
  }
  for (int d = 0, at = 0; d < p->update->rank && at < p->n_batch; d++)
    if (!in_list(p->window_dims, d)) p->batch_update[at++] = us[d];
}

static sn_status plan_window(sn_ev_ctx *e, const sn_instr *i, scatter_plan *p) {
  int64_t us[SN_MAX_RANK];
  sn_ev_strides(p->update->rank, p->update->dims, us);
  for (int d = 0; d < p->operand->rank; d++) {
    p->size[d] = 1;
    if (in_list(p->inserted, d) || in_list(p->operand_batching, d)) continue;
    if (p->n_window >= p->window_dims.n) return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "too few update_window_dims");
    int64_t u = p->window_dims.v[p->n_window];
    p->size[d] = p->window[p->n_window] = p->update->dims[u];
    p->window_operand[p->n_window] = p->operand_strides[d];
    p->window_update[p->n_window++] = us[u];
  }
  return SN_OK;
}

static sn_status plan_open(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, scatter_plan *p) {
  memset(p, 0, sizeof *p);
  p->n = ((int)i->n_operands - 1) / 2;
  p->operand = sn_array_shape(in[0]);
  p->indices = sn_array_shape(in[p->n]);
  p->update = sn_array_shape(in[p->n + 1]);
  p->window_dims = sn_instr_ints(i, SN_ATTR_UPDATE_WINDOW_DIMS);
  p->inserted = sn_instr_ints(i, SN_ATTR_INSERTED_WINDOW_DIMS);
  p->to_operand = sn_instr_ints(i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  p->operand_batching = sn_instr_ints(i, SN_ATTR_INPUT_BATCHING_DIMS);
  p->index_batching = sn_instr_ints(i, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  p->vector_dim = sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM);
  sn_ev_strides(p->operand->rank, p->operand->dims, p->operand_strides);
  plan_positions(p);
  return plan_window(e, i, p);
}

/* Start of the window in the operand; false: it would reach outside. */
static bool window_start(const scatter_plan *p, const sn_array *indices, const int64_t *position, int64_t *out) {
  const char *data = sn_array_data(indices);
  size_t bytes = sn_type_bytes(p->indices->type);
  int64_t start[SN_MAX_RANK] = {0}, at = sn_ev_dot_strides(p->n_batch, position, p->index_strides);
  for (int64_t k = 0; k < p->to_operand.n; k++) {
    int64_t v = sn_load_i64(p->indices->type, data + (size_t)(at + k * p->vector_stride) * bytes);
    if (p->indices->type == SN_TYPE_U64 && v < 0) return false;
    start[p->to_operand.v[k]] = v;
  }
  for (int64_t k = 0; k < p->operand_batching.n; k++) {
    int64_t d = p->index_batching.v[k];
    start[p->operand_batching.v[k]] = position[d - (d > p->vector_dim)];
  }
  for (int d = 0; d < p->operand->rank; d++)
    if (start[d] < 0 || start[d] > p->operand->dims[d] - p->size[d]) return false;
  *out = sn_ev_dot_strides(p->operand->rank, start, p->operand_strides);
  return true;
}

typedef struct scatter_job {
  const scatter_plan *p;
  sn_ev_reducer *r;
  char **acc; /* operands in accumulator types */
  sn_array *const *updates;
} scatter_job;

/* `n` elements that lie together in the operand at `to`, and in the updates at `from`. */
static sn_status combine_run(const scatter_job *j, int64_t to, int64_t from, int64_t n) {
  double wide[2 * SN_EV_LANES];
  void **acc = j->r->acc_lanes;
  const void **x = j->r->next_lanes;
  for (int k = 0; k < j->p->n; k++) {
    sn_type t = j->r->types[k], a = sn_ev_acc_type(j->r, k);
    acc[k] = j->acc[k] + (size_t)to * sn_type_bytes(a);
    x[k] = (const char *)sn_array_data(j->updates[k]) + (size_t)from * sn_type_bytes(t);
    if (a != t) {
      sn_convert(a, wide, t, x[k], n);
      x[k] = wide; /* known ops have one operand */
    }
  }
  return sn_ev_combine(j->r, n, acc, x);
}

static sn_status scatter_window(const scatter_job *j, int64_t to, int64_t from) {
  const scatter_plan *p = j->p;
  int64_t index[SN_MAX_RANK] = {0};
  int outer = p->n_window > 0 && p->window_operand[p->n_window - 1] == 1 && p->window_update[p->n_window - 1] == 1
                  ? p->n_window - 1
                  : p->n_window;
  int64_t run = outer < p->n_window ? p->window[outer] : 1;
  do {
    int64_t o = to + sn_ev_dot_strides(outer, index, p->window_operand),
            u = from + sn_ev_dot_strides(outer, index, p->window_update);
    for (int64_t at = 0; at < run; at += SN_EV_LANES)
      SN_TRY(combine_run(j, o + at, u + at, run - at < SN_EV_LANES ? run - at : SN_EV_LANES));
  } while (sn_ev_next(outer, p->window, index));
  return SN_OK;
}

static sn_status scatter_all(const scatter_job *j, const sn_array *indices) {
  const scatter_plan *p = j->p;
  int64_t position[SN_MAX_RANK] = {0}, to;
  if (sn_shape_elements(p->update) == 0) return SN_OK;
  do {
    if (window_start(p, indices, position, &to))
      SN_TRY(scatter_window(j, to, sn_ev_dot_strides(p->n_batch, position, p->batch_update)));
  } while (sn_ev_next(p->n_batch, p->batch_dims, position));
  return SN_OK;
}

/* Result k, and the memory that accumulates: the result itself, or a wider copy. */
static sn_status open_result(sn_ev_ctx *e, const sn_instr *i, const sn_ev_reducer *r, int k, sn_array *operand,
                             sn_array **result, char **acc, char **owned) {
  int64_t n = sn_shape_elements(sn_array_shape(operand));
  sn_type a = sn_ev_acc_type(r, k);
  SN_TRY(sn_ev_writable(e, i, operand, result));
  if (a == r->types[k]) {
    *acc = sn_array_data(*result);
    return SN_OK;
  }
  void *memory;
  SN_TRY(sn_ev_scratch(e, i, (size_t)n, sn_type_bytes(a), &memory));
  *acc = *owned = memory;
  sn_convert(a, memory, r->types[k], sn_array_data(operand), n);
  return SN_OK;
}

static sn_status run(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, const scatter_plan *p, sn_ev_reducer *r,
                     sn_array **results, char **acc, char **owned) {
  for (int k = 0; k < p->n; k++) SN_TRY(open_result(e, i, r, k, in[k], &results[k], &acc[k], &owned[k]));
  scatter_job j = {p, r, acc, in + p->n + 1};
  SN_TRY(scatter_all(&j, in[p->n]));
  for (int k = 0; k < p->n; k++)
    if (owned[k])
      sn_convert(r->types[k], sn_array_data(results[k]), sn_ev_acc_type(r, k), owned[k], sn_shape_elements(p->operand));
  return SN_OK;
}

sn_status sn_eval_scatter(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  scatter_plan p;
  sn_ev_reducer r;
  sn_type types[SN_MAX_RANK];
  void *memory;
  SN_TRY(plan_open(e, i, in, &p));
  if (p.n > SN_MAX_RANK) return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "more than %d operands", SN_MAX_RANK);
  for (int k = 0; k < p.n; k++) types[k] = sn_array_shape(in[k])->type;
  SN_TRY(sn_ev_scratch(e, i, 3 * (size_t)p.n, sizeof(void *), &memory));
  sn_array **results = memory;
  char **acc = (char **)(void *)(results + p.n), **owned = acc + p.n;
  sn_status s = sn_ev_reducer_init(e, i, i->called[0], p.n, types, &r);
  if (s == SN_OK) {
    s = run(e, i, in, &p, &r, results, acc, owned);
    sn_ev_reducer_finish(&r);
  }
  for (int k = 0; k < p.n; k++) sn_free(owned[k]);
  if (s == SN_OK && sn_shape_is_tuple(i->shape)) {
    s = sn_ev_new_tuple(e, i, p.n, results, out);
  } else if (s == SN_OK) {
    *out = results[0];
    results[0] = NULL;
  }
  for (int k = 0; k < p.n; k++) sn_ev_release(e, results[k]);
  sn_free(memory);
  return s;
}
