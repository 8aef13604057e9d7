/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Making layouts, and deep copies of shapes with them. */
#include "sinter/array.h"

const sn_layout *sn_layout_make(sn_arena *a, int rank, const int64_t *minor_to_major) {
  sn_assert(rank >= 0);
  sn_layout *l = SN_NEW(a, sn_layout);
  if (!l) return NULL;
  l->rank = rank;
  int64_t *order = SN_NEW_N(a, int64_t, rank);
  if (!order) return NULL;
  for (int i = 0; i < rank; i++) order[i] = minor_to_major ? minor_to_major[i] : rank - 1 - i;
  l->minor_to_major = order;
  return l;
}

static bool clone_tiles(sn_arena *a, sn_layout_extra *extra) {
  if (extra->n_tiles == 0) return true;
  sn_tile *tiles = sn_arena_copy(a, extra->tiles, (size_t)extra->n_tiles * sizeof *tiles);
  if (!tiles) return false;
  for (int i = 0; i < extra->n_tiles; i++) {
    if (tiles[i].n == 0) continue;
    tiles[i].dims = sn_arena_copy(a, tiles[i].dims, (size_t)tiles[i].n * sizeof *tiles[i].dims);
    if (!tiles[i].dims) return false;
  }
  extra->tiles = tiles;
  return true;
}

static const sn_layout_extra *clone_extra(sn_arena *a, const sn_layout_extra *from) {
  sn_layout_extra *extra = sn_arena_copy(a, from, sizeof *from);
  if (!extra || !clone_tiles(a, extra)) return NULL;
  extra->dim_levels = sn_arena_string(a, from->dim_levels);
  if (from->dim_levels && !extra->dim_levels) return NULL;
  extra->split_configs = sn_arena_string(a, from->split_configs);
  if (from->split_configs && !extra->split_configs) return NULL;
  if (from->physical) {
    extra->physical = sn_shape_clone(a, from->physical);
    if (!extra->physical) return NULL;
  }
  return extra;
}

static const sn_layout *clone_layout(sn_arena *a, const sn_layout *from) {
  sn_layout *l = (sn_layout *)sn_layout_make(a, from->rank, from->minor_to_major); /* ours until returned */
  if (!l || !from->extra) return l;
  l->extra = clone_extra(a, from->extra);
  return l->extra ? l : NULL;
}

static bool clone_elements(sn_arena *a, sn_shape *s) {
  if (s->n_elements == 0) return true;
  const sn_shape **elements = SN_NEW_N(a, const sn_shape *, s->n_elements);
  if (!elements) return false;
  for (int i = 0; i < s->n_elements; i++) {
    elements[i] = sn_shape_clone(a, s->elements[i]);
    if (!elements[i]) return false;
  }
  s->elements = elements;
  return true;
}

const sn_shape *sn_shape_clone(sn_arena *a, const sn_shape *from) {
  sn_shape *s = sn_arena_copy(a, from, sizeof *from);
  if (!s || !clone_elements(a, s)) return NULL;
  if (s->rank > 0) {
    s->dims = sn_arena_copy(a, from->dims, (size_t)s->rank * sizeof *s->dims);
    if (!s->dims) return NULL;
    if (from->dynamic) {
      s->dynamic = sn_arena_copy(a, from->dynamic, (size_t)s->rank * sizeof *s->dynamic);
      if (!s->dynamic) return NULL;
    }
  }
  if (from->layout) {
    s->layout = clone_layout(a, from->layout);
    if (!s->layout) return NULL;
  }
  return s;
}
