/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Index rules of elementwise ops and of ops that move data to places fixed beforehand. */
#include "index_internal.h"

void sn_index_rule_none(sn_index_build *b) {
  (void)b;
}

void sn_index_rule_opaque(sn_index_build *b) {
  sn_index_opaque(b);
}

/* A scalar beside arrays (predicate, bound, size) is read whole; tokens are not read. */
void sn_index_rule_identity(sn_index_build *b) {
  for (uint32_t k = 0; k < b->i->n_operands; k++) {
    const sn_shape *s = sn_operand_shape(b->i, k);
    if (s->type == SN_TYPE_TOKEN) continue;
    if (s->rank == 0)
      sn_index_scalar(b, k);
    else if (s->rank == b->result->rank)
      sn_index_identity(b, k);
    else
      sn_index_opaque(b);
  }
}

void sn_index_rule_iota(sn_index_build *b) {
  (void)b;
}

void sn_index_rule_broadcast(sn_index_build *b) {
  sn_ints at = sn_instr_ints(b->i, SN_ATTR_DIMENSIONS);
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < a->rank; k++) sn_access_set(b, a, k, b->dims[at.v[k]]);
}

void sn_index_rule_transpose(sn_index_build *b) {
  sn_ints p = sn_instr_ints(b->i, SN_ATTR_DIMENSIONS);
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < a->rank; k++) sn_access_set(b, a, (int)p.v[k], b->dims[k]);
}

void sn_index_rule_reverse(sn_index_build *b) {
  sn_ints at = sn_instr_ints(b->i, SN_ATTR_DIMENSIONS);
  sn_index_identity(b, 0);
  if (b->failed) return;
  sn_access *a = &b->accesses[b->n_accesses - 1];
  for (int64_t k = 0; k < at.n; k++) {
    const sn_ix *last = sn_ix_const(b->x, b->result->dims[at.v[k]] - 1);
    sn_access_set(b, a, (int)at.v[k], sn_ix_sub(b->x, last, b->dims[at.v[k]]));
  }
}

/* ---- linear places
 * ----------------------------------------------------------------------------------------------------------
 */

/* sum of at[k] * strides[k] */
static const sn_ix *linearise(sn_index_build *b, int rank, const sn_ix *const *at,
                              const int64_t *strides) {
  const sn_ix *e = sn_ix_const(b->x, 0);
  for (int k = 0; k < rank; k++)
    e = sn_ix_add(b->x, e, sn_ix_mul(b->x, at[k], sn_ix_const(b->x, strides[k])));
  return e;
}

/* Takes a linear place apart into the operand's dimensions. The outermost needs no remainder: its
 * range says so. */
static void delinearise(sn_index_build *b, const sn_ix *linear, const sn_shape *s,
                        const int64_t *strides) {
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < s->rank; k++) {
    int64_t size = s->dims[k] > 0 ? s->dims[k] : 1;
    sn_access_set(b, a, k, sn_ix_mod(b->x, sn_ix_div(b->x, linear, strides[k]), size));
  }
}

void sn_index_rule_reshape(sn_index_build *b) {
  const sn_shape *s = sn_operand_shape(b->i, 0);
  int64_t to[SN_MAX_RANK], from[SN_MAX_RANK];
  sn_shape_strides(b->result, to);
  sn_shape_strides(s, from);
  delinearise(b, linearise(b, b->result->rank, b->dims, to), s, from);
}

/* The same place in memory: the layouts decide. */
void sn_index_rule_bitcast(sn_index_build *b) {
  const sn_shape *s = sn_operand_shape(b->i, 0);
  if (sn_type_bits(s->type) != sn_type_bits(b->result->type) ||
      sn_shape_elements(s) != sn_shape_elements(b->result)) {
    sn_index_opaque(b);
    return;
  }
  int64_t to[SN_MAX_RANK], from[SN_MAX_RANK];
  sn_shape_physical_strides(b->result, to);
  sn_shape_physical_strides(s, from);
  delinearise(b, linearise(b, b->result->rank, b->dims, to), s, from);
}

/* One element becomes several along a new last dimension, or several (a symbol) become one. */
void sn_index_rule_bitcast_convert(sn_index_build *b) {
  const sn_shape *s = sn_operand_shape(b->i, 0);
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < a->rank; k++)
    sn_access_set(b, a, k, k < b->result->rank ? b->dims[k] : sn_index_sym(b, s->dims[k]));
}

/* ---- slices, pad, concatenate
 * --------------------------------------------------------------------------------------------------
 */

void sn_index_rule_slice(sn_index_build *b) {
  sn_ints v = sn_instr_ints(b->i, SN_ATTR_SLICE);
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < a->rank; k++) {
    const sn_ix *steps = sn_ix_mul(b->x, b->dims[k], sn_ix_const(b->x, v.v[3 * k + 2]));
    sn_access_set(b, a, k, sn_ix_add(b->x, steps, sn_ix_const(b->x, v.v[3 * k])));
  }
}

/* Start of dimension k as operands `first`… give it, moved so that `size` elements from it lie
 * inside `of`. */
static const sn_ix *slice_start(sn_index_build *b, uint32_t first, int k, int64_t of,
                                int64_t size) {
  bool vector = sn_operand_shape(b->i, first)->rank == 1;
  const sn_ix *at = sn_ix_const(b->x, k);
  const sn_ix *e = sn_ix_load(b->x, vector ? first : first + (uint32_t)k, vector ? 1 : 0, &at);
  return sn_ix_max(b->x, sn_ix_min(b->x, e, sn_ix_const(b->x, of - size)), sn_ix_const(b->x, 0));
}

/* The start indices themselves are read as well. */
static void slice_read_starts(sn_index_build *b, uint32_t first, int rank) {
  for (uint32_t k = first; k < b->i->n_operands; k++) {
    if (sn_operand_shape(b->i, k)->rank == 0) {
      sn_index_scalar(b, k);
      continue;
    }
    for (int j = 0; j < rank; j++) {
      sn_access *a = sn_index_access(b, k);
      sn_access_set(b, a, 0, sn_ix_const(b->x, j));
    }
  }
}

void sn_index_rule_dynamic_slice(sn_index_build *b) {
  const sn_shape *s = sn_operand_shape(b->i, 0);
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < s->rank; k++) {
    sn_access_set(b, a, k,
                sn_ix_add(b->x, slice_start(b, 1, k, s->dims[k], b->result->dims[k]), b->dims[k]));
  }
  slice_read_starts(b, 1, s->rank);
}

/* The update where its guards hold, else the array. */
void sn_index_rule_dynamic_update_slice(sn_index_build *b) {
  const sn_shape *s = sn_operand_shape(b->i, 0), *u = sn_operand_shape(b->i, 1);
  sn_index_identity(b, 0);
  sn_access *a = sn_index_access(b, 1);
  for (int k = 0; a && k < s->rank; k++) {
    const sn_ix *e = sn_ix_sub(b->x, b->dims[k], slice_start(b, 2, k, s->dims[k], u->dims[k]));
    sn_access_set(b, a, k, e);
    if (u->dims[k] != s->dims[k]) sn_index_guard(b, a, e, 0, u->dims[k] - 1);
  }
  slice_read_starts(b, 2, s->rank);
}

/* Where a guard fails, operand 1. */
void sn_index_rule_pad(sn_index_build *b) {
  const sn_shape *s = sn_operand_shape(b->i, 0);
  sn_ints v = sn_instr_ints(b->i, SN_ATTR_PADDING);
  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < s->rank; k++) {
    int64_t low = v.v[3 * k], step = v.v[3 * k + 2] + 1;
    const sn_ix *from = sn_ix_sub(b->x, b->dims[k], sn_ix_const(b->x, low));
    sn_access_set(b, a, k, sn_ix_div(b->x, from, step));
    sn_index_guard(b, a, from, 0, s->dims[k] > 0 ? (s->dims[k] - 1) * step : -1);
    if (step > 1) sn_index_guard(b, a, sn_ix_mod(b->x, from, step), 0, 0);
  }
  sn_index_scalar(b, 1);
}

void sn_index_rule_concatenate(sn_index_build *b) {
  int along = (int)sn_instr_ints(b->i, SN_ATTR_DIMENSIONS).v[0];
  int64_t offset = 0;
  for (uint32_t k = 0; k < b->i->n_operands && !b->failed; k++) {
    int64_t size = sn_operand_shape(b->i, k)->dims[along];
    sn_index_identity(b, k);
    if (b->failed) return;
    sn_access *a = &b->accesses[b->n_accesses - 1];
    const sn_ix *e = sn_ix_sub(b->x, b->dims[along], sn_ix_const(b->x, offset));
    sn_access_set(b, a, along, e);
    sn_index_guard(b, a, e, 0, size - 1);
    offset += size;
  }
}
