/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From one instruction of a compiled entry (a fusion or a single op) to a kernel: its buffers, and the choice of the template. */
#include "lower.h"
#include "sinter/cost.h"

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
  if (L->body && sn_hero_of(L->root) == SN_HERO_ATTENTION && lower_attention(L)) return;
  const sn_instr *dot = find_op(L, SN_OP_DOT);
  if (dot && lower_product(L, dot)) return;
  const sn_instr *conv = find_op(L, SN_OP_CONVOLUTION);
  if (conv && lower_convolution(L, conv)) return;
  if (lower_split_reduce(L)) return;
  lower_loops(L);
}

/* ---- parts ---- */

/* A fusion whose body holds fusions: they run one after the other, each by its own template. What one stores later ones read. */
static bool has_parts(const lowering *L) {
  for (const sn_instr *i = L->body ? L->body->first : NULL; i; i = i->next) {
    if (i->op == SN_OP_FUSION) return true;
  }
  return false;
}

/* The buffer of a parameter, or of a part's result. */
static int buffer_of(const lowering *L, const sn_instr *x, int leaf) {
  if (x->op == SN_OP_GET_TUPLE_ELEMENT) return buffer_of(L, sn_instr_operand(x, 0), (int)sn_instr_int(x, SN_ATTR_INDEX));
  if (x->op == SN_OP_PARAMETER) return L->operand_buffer[sn_instr_int(x, SN_ATTR_PARAMETER_NUMBER)];
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_instr *r = L->outputs[k];
    bool element = r->op == SN_OP_GET_TUPLE_ELEMENT;
    if ((element ? sn_instr_operand(r, 0) : r) == x && (element ? sn_instr_int(r, SN_ATTR_INDEX) : 0) == leaf) return L->output_buffer[k];
  }
  return -1;
}

static void lower_part(lowering *whole, const sn_instr *i) {
  lowering *L = SN_NEW(whole->arena, lowering);
  int n = (int)sn_shape_leaves(i->shape);
  if (L) L->operand_buffer = SN_NEW_N(whole->arena, int, i->n_operands + 1);
  if (L) L->outputs = SN_NEW_N(whole->arena, const sn_instr *, n + 1);
  if (L) L->output_index = SN_NEW_N(whole->arena, int, n + 1);
  if (L) L->output_buffer = SN_NEW_N(whole->arena, int, n + 1);
  if (!L || !L->operand_buffer || !L->outputs || !L->output_index || !L->output_buffer) {
    whole->b.status = SN_ERR_MEMORY;
    return;
  }
  L->d = whole->d;
  L->arena = whole->arena;
  L->target = whole->target;
  L->root = i;
  L->body = i->called[0];
  L->k = L->b.k = whole->k;
  L->is_part = true;
  L->n_operands = (int)i->n_operands;
  L->n_outputs = n;
  for (int k = 0; k < L->n_operands; k++) L->operand_buffer[k] = buffer_of(whole, sn_instr_operand(i, (uint32_t)k), 0);
  for (int k = 0; k < n; k++) {
    L->outputs[k] = sn_shape_is_tuple(i->shape) ? sn_instr_operand(L->body->root, (uint32_t)k) : L->body->root;
    L->output_buffer[k] = buffer_of(whole, i, k);
  }
  for (int k = 0; k < L->n_operands + n; k++) {
    if ((k < n ? L->output_buffer[k] : L->operand_buffer[k - n]) < 0) lower_fail(L, i, "a part whose operands or results have no memory");
  }
  choose(L);
  whole->b.status = L->b.status;
}

static bool alike(const sn_kbuffer *a, const sn_kbuffer *b) {
  return a->memory == b->memory && a->type == b->type && a->rank == b->rank && !a->strides && !b->strides && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* The buffer of a former part whose place b may take: workspaces and tiles are a part's own while it runs. */
static int reused(const sn_kernel *k, const int *part, const int *home, const bool *taken, int b) {
  for (int a = 0; a < b; a++) {
    if (home[a] == a && part[a] >= 0 && part[a] < part[b] && !taken[a] && alike(&k->buffers[a], &k->buffers[b])) return a;
  }
  return b;
}

/* Arguments first, then tiles; each part's workspaces and tiles lie where those of the parts before it lay. part[b]: the part that buffer b is of; -1: an argument. */
static void order_buffers(lowering *L, int *part) {
  sn_kernel *k = L->k;
  int n = k->n_buffers, next = 0, *home = SN_NEW_N(L->arena, int, n + 1), *to = SN_NEW_N(L->arena, int, n + 1);
  bool *taken = SN_NEW_N(L->arena, bool, n + 1); /* another buffer of the part at hand lies there */
  if (!home || !to || !taken) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  for (int b = 0; b < n; b++) {
    if (b && part[b] != part[b - 1]) memset(taken, 0, (size_t)n * sizeof *taken);
    home[b] = part[b] < 0 ? b : reused(k, part, home, taken, b);
    taken[home[b]] = true;
  }
  for (int local = 0; local < 2; local++) {
    for (int b = 0; b < n; b++) {
      if (home[b] == b && (k->buffers[b].memory > SN_KMEM_WORK) == local) to[b] = next++;
    }
  }
  for (int b = 0; b < n; b++) to[b] = to[home[b]];
  if (!sn_kernel_renumber(k, to, next)) L->b.status = SN_ERR_MEMORY;
}

static void lower_parts(lowering *L) {
  enum { MOST_BUFFERS = 1024 };
  int *part = SN_NEW_N(L->arena, int, MOST_BUFFERS), at = L->k->n_buffers, n = 0;
  if (!part) L->b.status = SN_ERR_MEMORY;
  for (int b = 0; part && b < at && b < MOST_BUFFERS; b++) part[b] = -1;
  for (const sn_instr *i = L->body->first; i && L->b.status == SN_OK; i = i->next) {
    if (i->op != SN_OP_FUSION) continue;
    lower_part(L, i);
    if (L->k->n_buffers > MOST_BUFFERS) lower_fail(L, i, "too many buffers");
    for (; L->b.status == SN_OK && at < L->k->n_buffers; at++) part[at] = n;
    n++;
  }
  if (L->b.status == SN_OK) order_buffers(L, part);
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
  if (L->b.status == SN_OK && has_parts(L)) lower_parts(L);
  else choose(L);
  if (L->b.status == SN_ERR_MEMORY) return sn_out_of_memory(d, sizeof *L);
  if (L->b.status != SN_OK) return L->b.status;
  sn_kernel_find_costs(L->k);
  *out = L->k;
  return SN_OK;
}
