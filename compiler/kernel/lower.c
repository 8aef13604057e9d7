/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From one instruction of a compiled entry (a fusion or a single op) to a kernel: its buffers, and the choice of the template. */
#include "lower.h"

#include <string.h>

/* ---- buffers ---- */

static int add_array_buffer(lowering *L, sn_kmemory memory, const sn_shape *s, const char *name) {
  int64_t strides[SN_MAX_RANK];
  sn_shape_physical_strides(s, strides);
  int b = sn_kernel_add_buffer(L->k, memory, s->type, s->rank, s->dims, sn_layout_is_default(s->layout) ? NULL : strides, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static const sn_instr *body_root(const lowering *L) { return L->body ? L->body->root : L->root; }

/* Does another operand slot before k hold the same instruction? Then a single op reads one buffer (by instruction), whichever slot asks. */
static void add_operands(lowering *L) {
  L->n_operands = (int)L->root->n_operands;
  L->operand_buffer = SN_NEW_N(L->arena, int, L->n_operands + 1);
  if (!L->operand_buffer) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  for (int k = 0; k < L->n_operands; k++) {
    const sn_shape *s = sn_operand_shape(L->root, (uint32_t)k);
    L->operand_buffer[k] = sn_shape_is_array(s) ? add_array_buffer(L, SN_KMEM_IN, s, sn_instr_operand(L->root, (uint32_t)k)->name) : -1;
  }
}

static void add_outputs(lowering *L) {
  const sn_instr *r = body_root(L);
  const sn_shape *s = L->root->shape;
  bool tuple = sn_shape_is_tuple(s);
  L->n_outputs = tuple ? s->n_elements : 1;
  L->outputs = SN_NEW_N(L->arena, const sn_instr *, L->n_outputs + 1);
  L->output_index = SN_NEW_N(L->arena, int, L->n_outputs + 1);
  L->output_buffer = SN_NEW_N(L->arena, int, L->n_outputs + 1);
  if (!L->outputs || !L->output_index || !L->output_buffer) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_shape *leaf = tuple ? s->elements[k] : s;
    if (!sn_shape_is_array(leaf)) {
      lower_fail(L, L->root, "a result that is no array");
      return;
    }
    L->outputs[k] = tuple && r->op == SN_OP_TUPLE ? sn_instr_operand(r, (uint32_t)k) : r;
    L->output_index[k] = tuple && r->op != SN_OP_TUPLE ? k : 0;
    L->output_buffer[k] = add_array_buffer(L, SN_KMEM_OUT, leaf, L->root->name);
  }
}

/* ---- choosing ---- */

static const sn_shape *leaf_shape(const lowering *L, int k) {
  return sn_shape_is_tuple(L->root->shape) ? L->root->shape->elements[k] : L->root->shape;
}

const sn_shape *lower_output_shape(const lowering *L, int k) { return leaf_shape(L, k); }

static const sn_instr *find_op(const lowering *L, sn_opcode op) {
  if (!L->body) return L->root->op == op ? L->root : NULL;
  SN_FOR_INSTRS(i, L->body) {
    if (i->op == op) return i;
  }
  return NULL;
}

static const struct {
  sn_opcode op;
  void (*lower)(lowering *L, const sn_instr *i);
} whole_ops[] = {
    {SN_OP_SCATTER, lower_scatter},
    {SN_OP_SORT, lower_sort},
    {SN_OP_CHOLESKY, lower_cholesky},
    {SN_OP_TRIANGULAR_SOLVE, lower_triangular_solve},
    {SN_OP_SELECT_AND_SCATTER, lower_select_and_scatter},
    {SN_OP_FFT, lower_fft},
};

/* Results that have no element have nothing to compute. */
static bool all_empty(const lowering *L) {
  for (int k = 0; k < L->n_outputs; k++) {
    if (sn_shape_elements(leaf_shape(L, k)) != 0) return false;
  }
  return true;
}

static void choose(lowering *L) {
  if (L->b.status != SN_OK || all_empty(L)) return;
  for (size_t k = 0; k < sizeof whole_ops / sizeof whole_ops[0]; k++) {
    const sn_instr *i = find_op(L, whole_ops[k].op);
    if (!i) continue;
    whole_ops[k].lower(L, i);
    return;
  }
  const sn_instr *dot = find_op(L, SN_OP_DOT);
  if (dot && lower_product(L, dot)) return;
  if (lower_split_reduce(L)) return;
  lower_loops(L);
}

sn_status sn_lower_instr(sn_diag *d, sn_arena *a, const sn_instr *i, const struct sn_target *t, struct sn_kernel **out) {
  *out = NULL;
  lowering *L = SN_NEW(a, lowering);
  if (!L) return sn_out_of_memory(d, sizeof *L);
  L->d = d;
  L->arena = a;
  L->target = t;
  L->root = i;
  L->body = i->op == SN_OP_FUSION ? i->called[0] : NULL;
  SN_TRY(sn_kernel_create(a, i->name, &L->k));
  L->b.k = L->k;
  add_operands(L);
  if (L->b.status == SN_OK) add_outputs(L);
  choose(L);
  if (L->b.status == SN_ERR_MEMORY) return sn_out_of_memory(d, sizeof *L);
  if (L->b.status != SN_OK) return L->b.status;
  *out = L->k;
  return SN_OK;
}
