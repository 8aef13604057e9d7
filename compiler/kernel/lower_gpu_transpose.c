/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Transposes among elements one by one on a GPU: read along the operand's last dimension, written along the result's, with a tile in shared memory between.
 *
 *   result[…, p, …, q]  of  operand[…, q, …, p]      grid: the other dimensions, blocks of 32 p, blocks of 32 q
 *   tile[j, i] = operand at q = 32 Q + j, p = 32 P + i       neighbouring threads: neighbouring i
 *   result at p = 32 P + i, q = 32 Q + j from tile[j, i]     neighbouring threads: neighbouring j; a tile's rows are 33 long, so that these lie in banks of their own */
#include "elemental.h"

#include <string.h>

enum { SIDE = 32, LEAST_SIDE = 16, LEAST_ELEMENTS = 4096, MOST = 4 };

typedef struct transposes {
  int rank, p, q, n;
  const int64_t *dims;                    /* of the result */
  int64_t perm[SN_MAX_RANK];
  const sn_instr *all[MOST];
  int tile[MOST];
} transposes;

static void add(transposes *t, const sn_instr *i) {
  sn_ints perm = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int last = i->shape->rank - 1, p = -1;
  for (int k = 0; k <= last; k++) {
    if (perm.v[k] == last) p = k;
  }
  if (p < 0 || p == last || t->n == MOST || sn_type_is_complex(i->shape->type)) return;
  if (i->shape->dims[p] < LEAST_SIDE || i->shape->dims[last] < LEAST_SIDE || sn_shape_elements(i->shape) < LEAST_ELEMENTS) return;
  if (t->n && memcmp(t->perm, perm.v, (size_t)perm.n * sizeof *perm.v) != 0) return;
  memcpy(t->perm, perm.v, (size_t)perm.n * sizeof *perm.v);
  t->rank = last + 1;
  t->p = p;
  t->q = last;
  t->dims = i->shape->dims;
  t->all[t->n++] = i;
}

/* Transposes of one permutation whose elements the results take at their own places. */
static bool collect(const lowering *L, const sn_shape *s, const bool *mine, transposes *t) {
  uint32_t first;
  bool *taken = lower_marks(L, &first);
  if (!taken) return false;
  for (int k = 0; k < L->n_outputs; k++) taken[L->outputs[k]->id - first] |= mine[k];
  for (const sn_instr *i = L->body ? L->body->last : L->root; i; i = L->body ? i->prev : NULL) {
    if (!taken[i->id - first] || !sn_shape_is_array(i->shape) || !sn_shape_equal(i->shape, s, SN_EQ_IGNORE_TYPE)) continue;
    if (i->op == SN_OP_TRANSPOSE) add(t, i);
    for (uint32_t k = 0; sn_op_has(i->op, SN_T_ELTWISE) && L->body && k < i->n_operands; k++) taken[sn_instr_operand(i, k)->id - first] = true;
  }
  return t->n > 0;
}

/* The places of dimensions p and q; clamped to the last one. */
static void places(lowering *L, const transposes *t, const sn_ix *i, const sn_ix *j, const sn_ix **idx, sn_ix_guard *guards) {
  sn_ix_context *x = L->k->ix;
  for (int k = 0, g = 2; k < t->rank; k++) {
    if (k != t->p && k != t->q) idx[k] = lower_grid(L, g++);
  }
  const sn_ix *at[2] = {sn_ix_add(x, sn_ix_mul(x, lower_grid(L, 0), lower_const(L, SIDE)), i), sn_ix_add(x, sn_ix_mul(x, lower_grid(L, 1), lower_const(L, SIDE)), j)};
  for (int k = 0; k < 2; k++) {
    int d = k ? t->q : t->p;
    guards[k] = (sn_ix_guard){at[k], 0, t->dims[d] - 1};
    idx[d] = sn_ix_min(x, at[k], lower_const(L, t->dims[d] - 1));
  }
}

static const sn_ix *open_tile(lowering *L, sn_knode **node, const sn_ix **slow, const sn_ix **fast) {
  const sn_ix *v = lower_for(L, SN_KLOOP_VECTOR, LOWER_GPU_LANES, lower_const(L, 0), lower_const(L, SIDE * SIDE), 1, 0, NULL, NULL, node);
  *slow = v ? sn_ix_div(L->k->ix, v, SIDE) : NULL;
  *fast = v ? sn_ix_mod(L->k->ix, v, SIDE) : NULL;
  return v;
}

static void read_tiles(lowering *L, const transposes *t) {
  const sn_ix *i, *j, *idx[SN_MAX_RANK], *from[SN_MAX_RANK];
  sn_ix_guard guards[2];
  sn_knode *node;
  if (!open_tile(L, &node, &j, &i)) return;
  places(L, t, i, j, idx, guards);
  for (int k = 0; k < t->rank; k++) from[t->perm[k]] = idx[k];
  const sn_ix *to[2] = {j, i};
  for (int k = 0; k < t->n; k++) sn_kb_store(&L->b, t->tile[k], to, 0, NULL, lower_value(L, sn_instr_operand(t->all[k], 0), 0, from));
  lower_end(L, 0, NULL, node);
}

static void write_results(lowering *L, const transposes *t, const bool *mine) {
  const sn_ix *i, *j, *idx[SN_MAX_RANK];
  sn_ix_guard guards[2];
  sn_knode *node;
  if (!open_tile(L, &node, &i, &j)) return;
  places(L, t, i, j, idx, guards);
  const sn_ix *at[2] = {j, i};
  for (int k = 0; k < t->n; k++) lower_remember(L, t->all[k], 0, idx, sn_kb_load(&L->b, t->tile[k], at, 0, NULL, NULL));
  /* Past the end the last element is computed again and not stored. */
  for (int k = 0; k < L->n_outputs; k++) {
    if (mine[k]) sn_kb_store(&L->b, L->output_buffer[k], idx, 2, guards, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
  lower_end(L, 0, NULL, node);
}

bool lower_gpu_transpose(lowering *L, const sn_shape *s, const bool *mine) {
  transposes t;
  memset(&t, 0, sizeof t);
  if (!collect(L, s, mine, &t)) return false;
  int64_t grid[SN_MAX_RANK], dims[2] = {SIDE, SIDE + 1};
  int n = 0;
  grid[n++] = (t.dims[t.p] + SIDE - 1) / SIDE;
  grid[n++] = (t.dims[t.q] + SIDE - 1) / SIDE;
  for (int k = 0; k < t.rank; k++) {
    if (k != t.p && k != t.q) grid[n++] = t.dims[k];
  }
  for (int k = 0; k < t.n; k++) {
    t.tile[k] = sn_kernel_add_buffer(L->k, SN_KMEM_SCRATCH, t.all[k]->shape->type, 2, dims, NULL, "turned");
    if (t.tile[k] < 0) L->b.status = SN_ERR_MEMORY;
  }
  if (!lower_phase(L, n, grid)) return true;
  read_tiles(L, &t);
  write_results(L, &t, mine);
  return true;
}
