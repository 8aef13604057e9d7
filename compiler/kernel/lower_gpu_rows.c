/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Rows on a GPU: what several passes over a row read, a mean, a variance, then the elements, is read from memory once and kept in shared memory meanwhile. */
#include "lower.h"

enum { MOST_BYTES = 16384 /* of a block, so that many stay resident */, ELEMENTS = 1, ELSEWHERE = 2, FIRST_REDUCTION = 4 };

static bool reduces_rows(const sn_instr *i, int rank, int prefix) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  uint64_t set = 0, all = ((UINT64_C(1) << rank) - 1) & ~((UINT64_C(1) << prefix) - 1);
  for (int64_t k = 0; k < dims.n; k++) set |= UINT64_C(1) << dims.v[k];
  return i->op == SN_OP_REDUCE && i->n_operands == 2 && set == all;
}

/* Over all rows: taken along with the elements (lower_gpu_sums.c). */
static bool adds_columns(const sn_instr *i, const sn_shape *s, int prefix) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  uint64_t set = 0;
  for (int64_t k = 0; k < dims.n; k++) set |= UINT64_C(1) << dims.v[k];
  return i->n_operands == 2 && set == (UINT64_C(1) << prefix) - 1 && sn_shape_equal(sn_operand_shape(i, 0), s, SN_EQ_IGNORE_TYPE);
}

/* Passes that read the row's elements of i, each at its own place: a bit each. passes: of i's users; of a reduction of rows its own bit. */
static uint32_t passes_of(const sn_instr *i, const sn_shape *s, const uint32_t *passes, uint32_t first) {
  uint32_t all = passes[i->id - first];
  SN_FOR_USES(use, i) {
    const sn_instr *u = use->user;
    bool own_place = u->op == SN_OP_REDUCE ? sn_instr_operand(u, 0) == i : sn_op_has(u->op, SN_T_ELTWISE) && sn_shape_equal(u->shape, s, SN_EQ_IGNORE_TYPE);
    if (u->op != SN_OP_TUPLE) all |= own_place ? passes[u->id - first] : (uint32_t)ELSEWHERE;
  }
  return all;
}

/* By instruction of the body; linear in its size. NULL: out of memory. */
static uint32_t *find_passes(const lowering *L, const sn_shape *s, int prefix, uint32_t *first) {
  uint32_t n, next = FIRST_REDUCTION;
  lower_ids(L, first, &n);
  uint32_t *passes = SN_NEW_N(L->arena, uint32_t, n);
  if (!passes) return NULL;
  for (int k = 0; k < L->n_outputs; k++) passes[L->outputs[k]->id - *first] |= ELEMENTS;
  for (const sn_instr *i = L->body->last; i; i = i->prev) {
    if (i->op != SN_OP_REDUCE) {
      passes[i->id - *first] = passes_of(i, s, passes, *first);
      continue;
    }
    if (adds_columns(i, s, prefix)) {
      passes[i->id - *first] = ELEMENTS;
      continue;
    }
    passes[i->id - *first] = reduces_rows(i, s->rank, prefix) ? next : (uint32_t)ELSEWHERE;
    if (next <= UINT32_MAX / 2) next *= 2;
  }
  return passes;
}

/* An argument, or one seen in other dimensions or along all rows. */
static bool is_source(const sn_instr *i, const sn_shape *s) {
  if (!sn_shape_is_array(i->shape) || !sn_shape_equal(i->shape, s, SN_EQ_IGNORE_TYPE) || sn_type_is_complex(i->shape->type)) return false;
  if (i->op == SN_OP_PARAMETER) return true;
  if ((i->op != SN_OP_RESHAPE && i->op != SN_OP_BROADCAST) || sn_instr_operand(i, 0)->op != SN_OP_PARAMETER) return false;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  return i->op == SN_OP_RESHAPE || (dims.n && dims.v[dims.n - 1] == s->rank - 1);
}

static void keep_row(lowering *L, const sn_instr *i, const sn_shape *s, int prefix, const sn_ix *const *row_at) {
  const sn_ix *idx[SN_MAX_RANK];
  int64_t row = 1;
  int dims[SN_MAX_RANK], n = s->rank - prefix;
  sn_knode *node;
  for (int k = 0; k < n; k++) {
    dims[k] = prefix + k;
    row *= s->dims[prefix + k];
  }
  int tile = sn_kernel_add_buffer(L->k, SN_KMEM_SCRATCH, i->shape->type, n, s->dims + prefix, NULL, "kept");
  if (tile < 0) L->b.status = SN_ERR_MEMORY;
  if (L->b.status != SN_OK) return;
  for (int k = 0; k < prefix; k++) idx[k] = row_at[k];
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, lower_gpu_lanes(row / 2 + 1), lower_const(L, 0), lower_const(L, row), 1, 0, NULL, NULL, &node);
  if (!j) return;
  lower_delinearise(L, j, n, s->dims + prefix, idx + prefix);
  sn_kb_store(&L->b, tile, idx + prefix, 0, NULL, lower_value(L, i, 0, idx));
  lower_end(L, 0, NULL, node);
  lower_override(L, i, 0, tile, n, dims, NULL);
}

void lower_gpu_keep_rows(lowering *L, const sn_shape *s, int prefix, const sn_ix *const *row_at) {
  uint32_t first;
  int64_t row = 1, bytes = 0;
  if (!L->body || prefix >= s->rank) return;
  for (int k = prefix; k < s->rank; k++) row *= s->dims[k];
  const uint32_t *passes = find_passes(L, s, prefix, &first);
  if (!passes) L->b.status = SN_ERR_MEMORY;
  for (const sn_instr *i = passes ? L->body->first : NULL; i; i = i->next) {
    uint32_t p = passes[i->id - first];
    if (!is_source(i, s) || (p & ELSEWHERE) || !(p & (p - 1)) || bytes + row * (int64_t)sn_type_bytes(i->shape->type) > MOST_BYTES) continue;
    bytes += row * (int64_t)sn_type_bytes(i->shape->type);
    keep_row(L, i, s, prefix, row_at);
  }
}
