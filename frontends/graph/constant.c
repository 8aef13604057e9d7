/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <string.h>

#include "graph_internal.h"

/* Key of a scalar constant (source 0) or of a fill of one (source: the scalar's id plus 1). Zeroed before use: padding
 * is part of the key. */
typedef struct constant_key {
  uint32_t source, type;
  int64_t rank;
  uint64_t value;
  int64_t dims[SN_MAX_RANK];
} constant_key;

static size_t key_bytes(const constant_key *k) {
  return offsetof(constant_key, dims) + (size_t)k->rank * sizeof(int64_t);
}

static sn_instr *find(sn_graph *g, const constant_key *k) {
  uint64_t v = 0;
  return sn_map_get(g->frame->constants, k, key_bytes(k), &v) ? (sn_instr *)(uintptr_t)v : NULL;
}

static sn_instr *keep(sn_graph *g, const constant_key *k, sn_instr *i) {
  if (i && sn_map_set(g->frame->constants, k, key_bytes(k), (uint64_t)(uintptr_t)i) != SN_OK) sn_graph_no_memory(g);
  return i;
}

sn_instr *sn_graph_scalar(sn_graph *g, sn_type t, double v) {
  if (g->b.status != SN_OK) return NULL;
  constant_key k = {.type = (uint32_t)t};
  memcpy(&k.value, &v, sizeof v);
  sn_instr *i = find(g, &k);
  return i ? i : keep(g, &k, sn_build_scalar(&g->b, t, v));
}

sn_instr *sn_graph_scalar_i64(sn_graph *g, sn_type t, int64_t v) {
  if (v > -((int64_t)1 << 53) && v < ((int64_t)1 << 53)) return sn_graph_scalar(g, t, (double)v);
  return sn_build_scalar_i64(&g->b, t, v);
}

sn_instr *sn_graph_fill(sn_graph *g, sn_instr *scalar, int rank, const int64_t *dims) {
  if (g->b.status != SN_OK || !scalar) return NULL;
  if (!rank) return scalar;
  constant_key k = {.source = scalar->id + 1, .type = (uint32_t)scalar->shape->type, .rank = rank};
  memcpy(k.dims, dims, (size_t)rank * sizeof *dims);
  sn_instr *i = find(g, &k);
  return i ? i : keep(g, &k, sn_build_broadcast(&g->b, scalar, rank, dims, 0, NULL));
}

sn_instr *sn_graph_full(sn_graph *g, sn_type t, int rank, const int64_t *dims, double v) {
  return sn_graph_fill(g, sn_graph_scalar(g, t, v), rank, dims);
}

sn_tensor sn_scalar_at(sn_loc at, sn_graph *g, sn_type t, double v) {
  return sn_graph_tensor(g, sn_graph_open(g, at) ? sn_graph_scalar(g, t, v) : NULL);
}

sn_tensor sn_scalar_i64_at(sn_loc at, sn_graph *g, sn_type t, int64_t v) {
  return sn_graph_tensor(g, sn_graph_open(g, at) ? sn_graph_scalar_i64(g, t, v) : NULL);
}

sn_tensor sn_scalar_like_at(sn_loc at, sn_tensor x, double v) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_graph_scalar(x.graph, i->shape->type, v) : NULL);
}

static bool check_new(sn_graph *g, sn_loc at, sn_type t, int rank, const int64_t *dims, const sn_shape **out) {
  *out = sn_shape_array(g->module->arena, t, rank, dims);
  if (!*out) {
    sn_graph_no_memory(g);
    return false;
  }
  g->b.status = sn_shape_check(g->diag, g->n_pins ? g->pinned : at, *out);
  return g->b.status == SN_OK;
}

sn_tensor sn_full_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, double v) {
  const sn_shape *s;
  if (!sn_graph_open(g, at) || !check_new(g, at, t, rank, dims, &s)) return sn_graph_empty(g);
  return sn_graph_tensor(g, sn_graph_full(g, t, rank, dims, v));
}

sn_tensor sn_full_like_at(sn_loc at, sn_tensor x, double v) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_graph_full(x.graph, i->shape->type, i->shape->rank, i->shape->dims, v) : NULL);
}

sn_tensor sn_constant_at(sn_loc at, sn_graph *g, sn_array *value) {
  sn_builder *b = sn_graph_open(g, at);
  return sn_graph_tensor(g, b ? sn_build_constant(b, value) : NULL);
}

sn_tensor sn_constant_data_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, const void *data) {
  sn_builder *b = sn_graph_open(g, at);
  const sn_shape *s;
  if (!b || !check_new(g, at, t, rank, dims, &s)) return sn_graph_empty(g);
  sn_array *value;
  if (sn_array_create_from(s, data, &value) != SN_OK) {
    sn_graph_no_memory(g);
    return sn_graph_empty(g);
  }
  sn_instr *i = sn_build_constant(b, value);
  sn_array_release(value);
  return sn_graph_tensor(g, i);
}

sn_tensor sn_iota_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, int axis) {
  sn_builder *b = sn_graph_open(g, at);
  const sn_shape *s;
  int k = b && check_new(g, at, t, rank, dims, &s) ? sn_graph_axis(g, at, "iota", axis, rank) : -1;
  return sn_graph_tensor(g, k >= 0 ? sn_build_iota(b, t, rank, dims, k) : NULL);
}

sn_tensor sn_arange_at(sn_loc at, sn_graph *g, sn_type t, int64_t n) { return sn_iota_at(at, g, t, 1, &n, 0); }

sn_tensor sn_eye_at(sn_loc at, sn_graph *g, sn_type t, int64_t n, int64_t m) {
  int64_t dims[2] = {n, m};
  sn_tensor row = sn_iota_at(at, g, SN_TYPE_S32, 2, dims, 0), col = sn_iota_at(at, g, SN_TYPE_S32, 2, dims, 1);
  return sn_cast_at(at, sn_compare_at(at, SN_DIRECTION_EQ, row, col), t);
}
