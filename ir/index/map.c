/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Building the map of one instruction: the rule that its row names fills in accesses. */
#include "index_internal.h"

#include <string.h>

typedef void (*index_rule)(sn_index_build *b);

static const index_rule index_rules[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  [SN_OP_##id] = sn_index_rule_##index,
#include "sinter/ops.def"
#undef SN_OP
};

const sn_ix *sn_index_sym(sn_index_build *b, int64_t size) {
  if (b->n_syms == (int)(sizeof b->syms / sizeof b->syms[0])) {
    b->failed = true;
    return NULL;
  }
  b->syms[b->n_syms] = size;
  return sn_ix_sym(b->x, b->n_syms++, size);
}

sn_access *sn_index_access(sn_index_build *b, uint32_t k) {
  const sn_shape *s = sn_operand_shape(b->i, k);
  if (b->failed || b->n_accesses == b->cap_accesses) {
    b->failed = true;
    return NULL;
  }
  sn_access *a = &b->accesses[b->n_accesses++];
  a->operand = k;
  a->rank = s->rank;
  a->at = SN_NEW_N(b->x->arena, const sn_ix *, s->rank + 1);
  if (!a->at) b->failed = true;
  return b->failed ? NULL : a;
}

void sn_access_set(sn_index_build *b, sn_access *a, int dim, const sn_ix *e) {
  if (!e) b->failed = true;
  if (a) ((const sn_ix **)a->at)[dim] = e; /* ours while it is built */
}

/* The next guard's place: room for 4 at first, doubled when full. */
static sn_ix_guard *guard_room(sn_index_build *b, sn_access *a) {
  int n = a->n_guards;
  sn_ix_guard *g = (sn_ix_guard *)a->guards; /* ours while it is built */
  if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
    g = SN_NEW_N(b->x->arena, sn_ix_guard, n ? 2 * n : 4);
    if (!g) {
      b->failed = true;
      return NULL;
    }
    if (n) memcpy(g, a->guards, (size_t)n * sizeof *g);
    a->guards = g;
  }
  a->n_guards++;
  return &g[n];
}

void sn_index_guard(sn_index_build *b, sn_access *a, const sn_ix *e, int64_t lo, int64_t hi) {
  if (!e || !a) {
    b->failed = true;
    return;
  }
  if (e->lo != INT64_MIN && e->hi != INT64_MAX && e->lo >= lo && e->hi <= hi) return;
  sn_ix_guard *g = guard_room(b, a);
  if (g) *g = (sn_ix_guard){e, lo, hi};
}

void sn_index_identity(sn_index_build *b, uint32_t k) {
  sn_access *a = sn_index_access(b, k);
  for (int j = 0; a && j < a->rank; j++) sn_access_set(b, a, j, b->dims[j]);
}

void sn_index_scalar(sn_index_build *b, uint32_t k) {
  (void)sn_index_access(b, k);
}

void sn_index_opaque(sn_index_build *b) {
  b->map->opaque = true;
}

/* The array that element `output` of the result is; NULL: no array. */
static const sn_shape *map_result(const sn_instr *i, int output) {
  const sn_shape *s = i->shape;
  if (sn_shape_is_tuple(s)) s = output >= 0 && output < s->n_elements ? s->elements[output] : NULL;
  return sn_shape_is_array(s) ? s : NULL;
}

static bool map_unbounded(const sn_shape *s) {
  for (int k = 0; k < s->rank; k++) {
    if (s->dims[k] == SN_DIM_UNBOUNDED) return true;
  }
  return false;
}

/* Rules are about arrays of known size: all else may be read anywhere. */
static bool map_readable(const sn_instr *i, const sn_shape *result) {
  if (!result || map_unbounded(result)) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_shape *s = sn_operand_shape(i, k);
    if (s->type != SN_TYPE_TOKEN && (!sn_shape_is_array(s) || map_unbounded(s))) return false;
  }
  return true;
}

static bool map_begin(sn_index_build *b) {
  int rank = b->result ? b->result->rank : 0;
  sn_arena *arena = b->x->arena;
  /* dynamic slices with a vector of starts read one operand `rank` times */
  b->cap_accesses = (int)b->i->n_operands + SN_MAX_RANK;
  b->accesses = SN_NEW_N(arena, sn_access, b->cap_accesses);
  b->dims = SN_NEW_N(arena, const sn_ix *, rank + 1);
  int64_t *sizes = SN_NEW_N(arena, int64_t, rank + 1);
  if (!b->accesses || !b->dims || !sizes) return false;
  for (int k = 0; k < rank; k++) {
    sizes[k] = b->result->dims[k];
    b->dims[k] = sn_ix_dim(b->x, k, sizes[k]);
    if (!b->dims[k]) return false;
  }
  b->map->n_dims = rank;
  b->map->dim_sizes = sizes;
  return true;
}

static bool map_end(sn_index_build *b) {
  sn_index_map *m = b->map;
  if (b->failed) return false;
  m->sym_sizes = sn_arena_copy(b->x->arena, b->syms, (size_t)(b->n_syms + 1) * sizeof b->syms[0]);
  m->n_syms = b->n_syms;
  m->accesses = b->accesses;
  m->n_accesses = m->opaque ? 0 : b->n_accesses;
  return m->sym_sizes != NULL;
}

sn_status sn_index_map_of(sn_ix_context *x, const sn_instr *i, int output, sn_index_map *out) {
  memset(out, 0, sizeof *out);
  sn_index_build b = {
      .x = x, .i = i, .output = output, .map = out, .result = map_result(i, output)};
  x->overflow = false;
  bool ok = map_begin(&b);
  if (ok) {
    if (index_rules[i->op] == sn_index_rule_none)
      sn_index_rule_none(&b);
    else if (!map_readable(i, b.result))
      sn_index_opaque(&b);
    else
      index_rules[i->op](&b);
    ok = map_end(&b);
  }
  if (ok) return SN_OK;
  memset(out, 0, sizeof *out);
  return x->overflow ? SN_ERR_OVERFLOW : SN_ERR_MEMORY;
}
