/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* reduce-window and select-and-scatter. Positions in the padding and in the holes of a dilated operand do not take
 * part. */
#include <stdlib.h>

#include "eval_internal.h"

/* For each dim, output index and tap: the offset in the operand, or -1. Taps are the window's positions that meet the
 * operand at all: a window may be far larger than both, and most of a dilated operand is holes. */
typedef struct window_tables {
  int rank;
  int64_t out[SN_MAX_RANK], win[SN_MAX_RANK]; /* outputs and taps a dim */
  int64_t *table[SN_MAX_RANK];                /* out x win */
  int64_t *memory[SN_MAX_RANK];
} window_tables;

static int64_t position(const sn_window_dim *w, int64_t size, int64_t o, int64_t k) {
  int64_t p = o * w->stride + (w->reversal ? w->size - 1 - k : k) * w->rhs_dilate - w->pad_low;
  if (p < 0 || p % w->lhs_dilate) return -1;
  p /= w->lhs_dilate;
  return p < size ? p : -1;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

/* Taps of one dim, ascending: all of a window smaller than outputs x operand, else those that some pair of output and
 * element meets in. */
static sn_status find_taps(sn_ev_ctx *e, const sn_instr *i, const sn_window_dim *w, int64_t size, int64_t out,
                           int64_t **taps, int64_t *n) {
  int64_t pairs;
  void *memory;
  bool all = !sn_mul_i64(out, size, &pairs) || w->size <= pairs;
  *taps = NULL;
  *n = 0;
  SN_TRY(sn_ev_scratch(e, i, (size_t)(all ? w->size : pairs), sizeof **taps, &memory));
  int64_t *t = *taps = memory;
  for (int64_t k = 0; all && k < w->size; k++) t[(*n)++] = k;
  if (all) return SN_OK;
  for (int64_t o = 0; o < out; o++)
    for (int64_t p = 0; p < size; p++) {
      int64_t k = p * w->lhs_dilate + w->pad_low - o * w->stride;
      if (k < 0 || k % w->rhs_dilate || k / w->rhs_dilate >= w->size) continue;
      k /= w->rhs_dilate;
      t[(*n)++] = w->reversal ? w->size - 1 - k : k;
    }
  qsort(t, (size_t)*n, sizeof *t, by_value);
  int64_t kept = 0;
  for (int64_t k = 0; k < *n; k++)
    if (kept == 0 || t[kept - 1] != t[k]) t[kept++] = t[k];
  *n = kept;
  return SN_OK;
}

static void tables_close(window_tables *t) {
  for (int d = 0; d < t->rank; d++) sn_free(t->memory[d]);
  memset(t, 0, sizeof *t);
}

static sn_status dim_open(sn_ev_ctx *e, const sn_instr *i, const sn_window_dim *w, int64_t size, int64_t stride, int d,
                          window_tables *t) {
  int64_t *taps, n, cells = 0;
  void *memory = NULL;
  SN_TRY(find_taps(e, i, w, size, t->out[d], &taps, &n));
  sn_status s =
      sn_mul_i64(t->out[d], n, &cells) ? SN_OK : sn_ev_error(e, i, SN_ERR_OVERFLOW, "its window is too large");
  if (s == SN_OK) s = sn_ev_scratch(e, i, (size_t)cells, sizeof(int64_t), &memory);
  int64_t *at = t->table[d] = t->memory[d] = memory;
  t->win[d] = n;
  for (int64_t o = 0; s == SN_OK && o < t->out[d]; o++)
    for (int64_t k = 0; k < n; k++) {
      int64_t p = position(w, size, o, taps[k]);
      *at++ = p < 0 ? -1 : p * stride;
    }
  sn_free(taps);
  return s;
}

static sn_status tables_open(sn_ev_ctx *e, const sn_instr *i, const sn_window *w, const sn_shape *operand,
                             const int64_t *out_dims, window_tables *t) {
  int64_t strides[SN_MAX_RANK];
  memset(t, 0, sizeof *t);
  if (operand->rank > 0 && (!w || w->rank != operand->rank))
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "a window of rank %d for an operand of rank %d", w ? w->rank : 0,
                       operand->rank);
  t->rank = operand->rank;
  sn_ev_strides(operand->rank, operand->dims, strides);
  for (int d = 0; d < t->rank; d++) {
    t->out[d] = out_dims[d];
    sn_status s = dim_open(e, i, &w->dims[d], operand->dims[d], strides[d], d, t);
    if (s != SN_OK) {
      tables_close(t);
      return s;
    }
  }
  return SN_OK;
}

static int64_t offset_of(const window_tables *t, const int64_t *out, const int64_t *win) {
  int64_t at = 0;
  for (int d = 0; d < t->rank; d++) {
    int64_t p = t->table[d][out[d] * t->win[d] + win[d]];
    if (p < 0) return -1;
    at += p;
  }
  return at;
}

static void unflatten(int rank, const int64_t *dims, int64_t flat, int64_t *index) {
  for (int d = rank - 1; d >= 0; d--) {
    index[d] = flat % dims[d];
    flat /= dims[d];
  }
}

/* ---- reduce-window ---- */

typedef struct lanes {
  sn_ev_reducer *r;
  sn_array *const *in;
  char **acc, **x, **part; /* per operand: accumulators of the block, elements, accumulators that take part */
  int64_t out[SN_EV_LANES][SN_MAX_RANK];
} lanes;

/* One window position for all lanes of a block: those where it is inside combine, side by side. */
static sn_status window_step(lanes *l, const window_tables *t, const int64_t *win, int64_t n) {
  int64_t taking[SN_EV_LANES], from[SN_EV_LANES], m = 0;
  sn_ev_reducer *r = l->r;
  for (int64_t q = 0; q < n; q++) {
    int64_t at = offset_of(t, l->out[q], win);
    if (at < 0) continue;
    taking[m] = q;
    from[m++] = at;
  }
  if (m == 0) return SN_OK;
  for (int k = 0; k < r->n; k++) {
    sn_type type = r->types[k], a = sn_ev_acc_type(r, k);
    size_t bytes = sn_type_bytes(type), wide = sn_type_bytes(a);
    const char *src = sn_array_data(l->in[k]);
    for (int64_t q = 0; q < m; q++) memcpy(l->x[k] + (size_t)q * bytes, src + (size_t)from[q] * bytes, bytes);
    r->next_lanes[k] = l->x[k];
    if (a != type) { /* known ops have one operand: the second half of its buffer is free */
      char *converted = l->x[k] + (size_t)SN_EV_LANES * 16;
      sn_convert(a, converted, type, l->x[k], m);
      r->next_lanes[k] = converted;
    }
    r->acc_lanes[k] = m == n ? l->acc[k] : l->part[k];
    for (int64_t q = 0; m < n && q < m; q++)
      memcpy(l->part[k] + (size_t)q * wide, l->acc[k] + (size_t)taking[q] * wide, wide);
  }
  SN_TRY(sn_ev_combine(r, m, r->acc_lanes, r->next_lanes));
  for (int k = 0; k < r->n && m < n; k++) {
    size_t wide = sn_type_bytes(sn_ev_acc_type(r, k));
    for (int64_t q = 0; q < m; q++) memcpy(l->acc[k] + (size_t)taking[q] * wide, l->part[k] + (size_t)q * wide, wide);
  }
  return SN_OK;
}

static sn_status window_blocks(lanes *l, const window_tables *t, sn_array *const *inits, sn_array *const *outs) {
  sn_ev_reducer *r = l->r;
  int64_t total = sn_ev_product(t->rank, t->out), win[SN_MAX_RANK];
  bool empty = sn_ev_product(t->rank, t->win) == 0;
  for (int64_t at = 0; at < total; at += SN_EV_LANES) {
    int64_t n = total - at < SN_EV_LANES ? total - at : SN_EV_LANES;
    for (int64_t q = 0; q < n; q++) unflatten(t->rank, t->out, at + q, l->out[q]);
    for (int k = 0; k < r->n; k++) {
      char init[16];
      sn_convert(sn_ev_acc_type(r, k), init, r->types[k], sn_array_data(inits[k]), 1);
      sn_ev_fill(l->acc[k], init, sn_type_bytes(sn_ev_acc_type(r, k)), n);
    }
    memset(win, 0, sizeof win);
    do {
      if (!empty) SN_TRY(window_step(l, t, win, n));
    } while (sn_ev_next(t->rank, t->win, win) && !empty);
    for (int k = 0; k < r->n; k++)
      sn_convert(r->types[k], (char *)sn_array_data(outs[k]) + (size_t)at * sn_type_bytes(r->types[k]),
                 sn_ev_acc_type(r, k), l->acc[k], n);
  }
  return SN_OK;
}

static sn_status with_buffers(sn_ev_ctx *e, const sn_instr *i, sn_ev_reducer *r, const window_tables *t,
                              sn_array *const *in, sn_array *const *outs) {
  enum { EACH = SN_EV_LANES * 16 };
  void *memory, *pointers, *l_memory;
  int n = r->n;
  SN_TRY(sn_ev_scratch(e, i, 4 * (size_t)n, EACH, &memory));
  sn_status s = sn_ev_scratch(e, i, 3 * (size_t)n, sizeof(char *), &pointers);
  if (s == SN_OK) {
    s = sn_ev_scratch(e, i, 1, sizeof(lanes), &l_memory);
    if (s == SN_OK) {
      lanes *l = l_memory;
      l->r = r;
      l->in = in;
      l->acc = pointers;
      l->x = l->acc + n;
      l->part = l->x + n;
      for (int k = 0; k < n; k++) {
        l->acc[k] = (char *)memory + (size_t)k * 4 * EACH;
        l->part[k] = l->acc[k] + EACH;
        l->x[k] = l->part[k] + EACH;
      }
      s = window_blocks(l, t, in + n, outs);
      sn_free(l);
    }
    sn_free(pointers);
  }
  sn_free(memory);
  return s;
}

static sn_status reduce_window_into(sn_ev_ctx *e, const sn_instr *i, int n, sn_array *const *in,
                                    sn_array *const *outs) {
  sn_type types[SN_MAX_RANK];
  sn_ev_reducer r;
  window_tables t;
  if (n > SN_MAX_RANK) return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "more than %d operands", SN_MAX_RANK);
  for (int k = 0; k < n; k++) types[k] = sn_array_shape(in[k])->type;
  SN_TRY(tables_open(e, i, sn_instr_window(i), sn_array_shape(in[0]), sn_array_shape(outs[0])->dims, &t));
  sn_status s = sn_ev_reducer_init(e, i, i->called[0], n, types, &r);
  if (s == SN_OK) {
    s = with_buffers(e, i, &r, &t, in, outs);
    sn_ev_reducer_finish(&r);
  }
  tables_close(&t);
  return s;
}

sn_status sn_eval_reduce_window(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  int n = (int)i->n_operands / 2;
  void *memory;
  SN_TRY(sn_ev_scratch(e, i, (size_t)n, sizeof(sn_array *), &memory));
  sn_array **outs = memory;
  sn_status s = SN_OK;
  for (int k = 0; k < n && s == SN_OK; k++)
    s = sn_ev_new(e, i, sn_shape_is_tuple(i->shape) ? i->shape->elements[k] : i->shape, &outs[k]);
  if (s == SN_OK) s = reduce_window_into(e, i, n, in, outs);
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

/* ---- select-and-scatter ---- */

/* The element of the window that select(kept, other) keeps throughout; -1: the window is all padding. */
static sn_status selected(sn_ev_program *p, const window_tables *t, const sn_array *operand, const int64_t *out,
                          int64_t *where) {
  size_t bytes = sn_type_bytes(sn_array_shape(operand)->type);
  const char *data = sn_array_data(operand);
  int64_t win[SN_MAX_RANK] = {0};
  *where = -1;
  if (sn_ev_product(t->rank, t->win) == 0) return SN_OK;
  do {
    int64_t at = offset_of(t, out, win);
    uint8_t keep = 0;
    void *to = &keep;
    if (at < 0) continue;
    if (*where >= 0)
      SN_TRY(sn_ev_program_run(p, 1, (const void *const[]){data + (size_t)*where * bytes, data + (size_t)at * bytes},
                               &to));
    if (!keep) *where = at;
  } while (sn_ev_next(t->rank, t->win, win));
  return SN_OK;
}

static sn_status scatter_source(sn_ev_ctx *e, const sn_instr *i, sn_ev_program *select, sn_ev_reducer *r,
                                const window_tables *t, sn_array *const *in, char *acc) {
  int64_t index[SN_MAX_RANK] = {0}, k = 0, where;
  const sn_shape *source = sn_array_shape(in[1]);
  sn_type a = sn_ev_acc_type(r, 0);
  (void)e;
  (void)i;
  if (sn_shape_elements(source) == 0) return SN_OK;
  do {
    char wide[16];
    SN_TRY(selected(select, t, in[0], index, &where));
    if (where >= 0) {
      void *to = acc + (size_t)where * sn_type_bytes(a);
      const void *from = wide;
      sn_convert(a, wide, r->types[0], (const char *)sn_array_data(in[1]) + (size_t)k * sn_type_bytes(r->types[0]), 1);
      SN_TRY(sn_ev_combine(r, 1, &to, &from));
    }
    k++;
  } while (sn_ev_next(source->rank, source->dims, index));
  return SN_OK;
}

sn_status sn_eval_select_and_scatter(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *operand = sn_array_shape(in[0]);
  int64_t n = sn_shape_elements(operand);
  sn_ev_program *select = NULL;
  sn_ev_reducer r;
  window_tables t;
  void *acc = NULL;
  char init[16];
  memset(&r, 0, sizeof r);
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  SN_TRY(tables_open(e, i, sn_instr_window(i), operand, sn_array_shape(in[1])->dims, &t));
  sn_status s = sn_ev_program_create(e, i, i->called[0], &select);
  if (s == SN_OK && (i->called[0]->n_params != 2 || sn_ev_program_out_type(select, 0) != SN_TYPE_PRED))
    s = sn_ev_error(e, i, SN_ERR_TYPE, "select must take two values and give a pred");
  if (s == SN_OK) s = sn_ev_reducer_init(e, i, i->called[1], 1, &operand->type, &r);
  if (s == SN_OK) s = sn_ev_scratch(e, i, (size_t)n, sn_type_bytes(sn_ev_acc_type(&r, 0)), &acc);
  if (s == SN_OK) {
    sn_convert(sn_ev_acc_type(&r, 0), init, operand->type, sn_array_data(in[2]), 1);
    sn_ev_fill(acc, init, sn_type_bytes(sn_ev_acc_type(&r, 0)), n);
    s = scatter_source(e, i, select, &r, &t, in, acc);
  }
  if (s == SN_OK) sn_convert(operand->type, sn_array_data(*out), sn_ev_acc_type(&r, 0), acc, n);
  sn_free(acc);
  sn_ev_reducer_finish(&r);
  sn_ev_program_destroy(select);
  tables_close(&t);
  return s;
}
