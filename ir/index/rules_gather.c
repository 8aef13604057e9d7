/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Index rules of gather and scatter. The names are those of ir/shape_gather.c. */
#include "index_internal.h"

typedef struct slicing {
  sn_ints window, removed, map, batching, indices_batching;
  int64_t vector_dim;
  const sn_shape *operand, *indices;
  uint32_t indices_operand;
} slicing;

static bool has(sn_ints v, int64_t x) {
  for (int64_t k = 0; k < v.n; k++) {
    if (v.v[k] == x) return true;
  }
  return false;
}

static slicing slicing_of(const sn_instr *i, bool gather, uint32_t indices_operand) {
  slicing s = {
      sn_instr_ints(i, gather ? SN_ATTR_OFFSET_DIMS : SN_ATTR_UPDATE_WINDOW_DIMS),
      sn_instr_ints(i, gather ? SN_ATTR_COLLAPSED_SLICE_DIMS : SN_ATTR_INSERTED_WINDOW_DIMS),
      sn_instr_ints(i, gather ? SN_ATTR_START_INDEX_MAP : SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS),
      sn_instr_ints(i, gather ? SN_ATTR_OPERAND_BATCHING_DIMS : SN_ATTR_INPUT_BATCHING_DIMS),
      sn_instr_ints(
          i, gather ? SN_ATTR_START_INDICES_BATCHING_DIMS : SN_ATTR_SCATTER_INDICES_BATCHING_DIMS),
      sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM),
      sn_operand_shape(i, 0),
      sn_operand_shape(i, indices_operand),
      indices_operand,
  };
  return s;
}

/* Where in the indices the element stands that belongs to `place` (of the result or the updates);
 * component: place in the index vector. */
static int slicing_indices_at(const slicing *s, int place_rank, const sn_ix *const *place,
                              const sn_ix *component, const sn_ix **at) {
  int next = 0;
  for (int n = 0; n < s->indices->rank; n++) {
    if (n == s->vector_dim) {
      at[n] = component;
      continue;
    }
    while (next < place_rank && has(s->window, next)) next++;
    at[n] = next < place_rank ? place[next++] : NULL; /* the shapes were verified: there is one */
  }
  return s->indices->rank;
}

/* Coordinate of operand dimension k that the index vector or a batching dimension gives; the
 * constant 0 where neither does. */
static const sn_ix *slicing_start(sn_index_build *b, const slicing *s, int k, int place_rank,
                                  const sn_ix *const *place) {
  const sn_ix *at[SN_MAX_RANK + 1];
  for (int64_t j = 0; j < s->batching.n; j++) {
    if (s->batching.v[j] != k) continue;
    (void)slicing_indices_at(s, place_rank, place, sn_ix_const(b->x, 0), at);
    return at[s->indices_batching.v[j]];
  }
  for (int64_t j = 0; j < s->map.n; j++) {
    if (s->map.v[j] != k) continue;
    int n = slicing_indices_at(s, place_rank, place, sn_ix_const(b->x, j), at);
    return sn_ix_load(b->x, s->indices_operand, n, at);
  }
  return sn_ix_const(b->x, 0);
}

/* Coordinate inside the window: the next window dimension of `place`, or 0 where the dimension was
 * removed or is batching. */
static const sn_ix *slicing_offset(sn_index_build *b, const slicing *s, int k,
                                   const sn_ix *const *place, int64_t *next) {
  if (has(s->removed, k) || has(s->batching, k)) return sn_ix_const(b->x, 0);
  return place[s->window.v[(*next)++]];
}

void sn_index_rule_gather(sn_index_build *b) {
  slicing s = slicing_of(b->i, true, 1);
  sn_ints sizes = sn_instr_ints(b->i, SN_ATTR_SLICE_SIZES);
  int rank = b->result->rank;
  int64_t next = 0;
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < s.operand->rank; k++) {
    const sn_ix *start = slicing_start(b, &s, k, rank, b->dims);
    if (has(s.map, k)) { /* out of range: moved inside */
      start = sn_ix_max(b->x,
                        sn_ix_min(b->x, start, sn_ix_const(b->x, s.operand->dims[k] - sizes.v[k])),
                        sn_ix_const(b->x, 0));
    }
    sn_access_set(b, a, k, sn_ix_add(b->x, start, slicing_offset(b, &s, k, b->dims, &next)));
  }
  const sn_ix *at[SN_MAX_RANK + 1];
  const sn_ix *component =
      s.vector_dim < s.indices->rank ? sn_index_sym(b, s.indices->dims[s.vector_dim]) : NULL;
  int n = slicing_indices_at(&s, rank, b->dims, component, at);
  a = sn_index_access(b, 1);
  for (int k = 0; a && k < n; k++) sn_access_set(b, a, k, at[k]);
}

/* Every update that lands on the element (symbols: the dimensions of the updates; guards: it lands
 * here) is combined with the operand's element. An update that lands outside of the array meets no
 * guard of any element: it is dropped. */
void sn_index_rule_scatter(sn_index_build *b) {
  uint32_t n = b->i->n_operands / 2;
  slicing s = slicing_of(b->i, false, n);
  const sn_shape *u = sn_operand_shape(b->i, n + 1);
  const sn_ix *place[SN_MAX_RANK], *at[SN_MAX_RANK + 1];
  for (int k = 0; k < u->rank; k++) place[k] = sn_index_sym(b, u->dims[k]);
  const sn_ix *component =
      s.vector_dim < s.indices->rank ? sn_index_sym(b, s.indices->dims[s.vector_dim]) : NULL;
  for (uint32_t j = 0; j < n; j++) sn_index_identity(b, j);
  for (uint32_t j = 0; j < n; j++) {
    int64_t next = 0;
    sn_access *a = sn_index_access(b, n + 1 + j);
    for (int k = 0; a && k < u->rank; k++) sn_access_set(b, a, k, place[k]);
    for (int k = 0; a && k < s.operand->rank; k++) {
      const sn_ix *start = slicing_start(b, &s, k, u->rank, place);
      const sn_ix *lands = sn_ix_add(b->x, start, slicing_offset(b, &s, k, place, &next));
      sn_index_guard(b, a, sn_ix_sub(b->x, lands, b->dims[k]), 0, 0);
    }
  }
  int rank = slicing_indices_at(&s, u->rank, place, component, at);
  sn_access *a = sn_index_access(b, n);
  for (int k = 0; a && k < rank; k++) sn_access_set(b, a, k, at[k]);
}
