/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From one instruction of a compiled entry (a fusion or a single op) to a kernel: its buffers, and the choice of the template. */
#include "lower.h"
#include "sinter/cost.h"
#include "sinter/plan.h"

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
  if (lower_gpu_sums(L) || lower_split_reduce(L)) return;
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

/* Parts of a kernel: those of one level do not wait for each other, and on a GPU run in one launch. */
typedef struct part {
  const sn_instr *i;
  int level;
  bool one_launch;
} part;

static const sn_instr *source_of(const sn_instr *x) { return x->op == SN_OP_GET_TUPLE_ELEMENT ? sn_instr_operand(x, 0) : x; }

static bool reads(const sn_instr *i, const sn_instr *x) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (source_of(sn_instr_operand(i, k)) == x) return true;
  }
  return false;
}

/* Must `later` wait for `former`? It reads what that makes, or one of its results may come to lie over what that reads. */
static bool waits_for(const lowering *L, const sn_instr *later, const sn_instr *former) {
  if (reads(later, former)) return true;
  for (uint32_t k = 0; k < L->root->n_operands; k++) {
    if (!reads(former, L->body->params[k])) continue;
    for (int leaf = 0; leaf < L->n_outputs; leaf++) {
      if (source_of(L->outputs[leaf]) == later && sn_in_place_ok(L->root, k, leaf)) return true;
    }
  }
  return false;
}

static int find_parts(const lowering *L, part *parts) {
  int n = 0;
  for (const sn_instr *i = L->body->first; i; i = i->next) {
    if (i->op != SN_OP_FUSION) continue;
    parts[n] = (part){i, 0, false};
    for (int k = 0; k < n; k++) {
      bool wait = !lower_on_gpu(L) || waits_for(L, i, parts[k].i);
      if (wait && parts[n].level <= parts[k].level) parts[n].level = parts[k].level + 1;
    }
    n++;
  }
  return n;
}

/* By level, else in their order. */
static void order_parts(part *parts, int n) {
  for (int a = 1; a < n; a++) {
    for (int b = a; b > 0 && parts[b].level < parts[b - 1].level; b--) {
      part x = parts[b];
      parts[b] = parts[b - 1];
      parts[b - 1] = x;
    }
  }
}

static bool is_one_launch(const sn_kernel *k, int first) {
  for (int p = first + 1; p < k->n_phases; p++) {
    if (!k->phases[p].finishes) return false;
  }
  return k->n_phases > first;
}

static bool alike(const sn_kbuffer *a, const sn_kbuffer *b) {
  return a->memory == b->memory && a->type == b->type && a->rank == b->rank && !a->strides && !b->strides && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* The buffer of a former part whose place b may take: workspaces and tiles are a part's own while it runs. */
static int reused(const sn_kernel *k, const part *parts, const int *of, const int *home, const bool *taken, int b) {
  for (int a = 0; a < b; a++) {
    if (home[a] != a || of[a] < 0 || of[a] >= of[b] || taken[a] || !alike(&k->buffers[a], &k->buffers[b])) continue;
    if (k->buffers[a].memory > SN_KMEM_WORK || parts[of[a]].level < parts[of[b]].level) return a;
  }
  return b;
}

/* Arguments first, then tiles; each part's workspaces and tiles lie where those of the parts before it lay. of[b]: the part that buffer b is of; -1: an argument. */
static void order_buffers(lowering *L, const part *parts, const int *of) {
  sn_kernel *k = L->k;
  int n = k->n_buffers, next = 0, *home = SN_NEW_N(L->arena, int, n + 1), *to = SN_NEW_N(L->arena, int, n + 1);
  bool *taken = SN_NEW_N(L->arena, bool, n + 1); /* another buffer of the part at hand, or of one beside it, lies there */
  if (!home || !to || !taken) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  for (int b = 0; b < n; b++) {
    if (b && of[b] != of[b - 1]) {
      for (int a = 0; a < n; a++) taken[a] &= k->buffers[a].memory == SN_KMEM_WORK && of[b - 1] >= 0 && parts[of[b]].level == parts[of[b - 1]].level;
    }
    home[b] = of[b] < 0 ? b : reused(k, parts, of, home, taken, b);
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

void lower_order_buffers(lowering *L, int n_parts, const int *of) {
  part *parts = SN_NEW_N(L->arena, part, n_parts + 1);
  if (!parts) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  for (int k = 0; k < n_parts; k++) parts[k].level = k;
  order_buffers(L, parts, of);
}

static void lower_parts(lowering *L) {
  enum { MOST_BUFFERS = 1024 };
  int *of = SN_NEW_N(L->arena, int, MOST_BUFFERS), at = L->k->n_buffers;
  part *parts = SN_NEW_N(L->arena, part, L->body->n_instrs + 1);
  if (!of || !parts) L->b.status = SN_ERR_MEMORY;
  for (int b = 0; of && b < at && b < MOST_BUFFERS; b++) of[b] = -1;
  int n = L->b.status == SN_OK ? find_parts(L, parts) : 0;
  order_parts(parts, n);
  for (int p = 0; p < n && L->b.status == SN_OK; p++) {
    int first = L->k->n_phases;
    lower_part(L, parts[p].i);
    if (L->k->n_buffers > MOST_BUFFERS) lower_fail(L, parts[p].i, "too many buffers");
    if (L->b.status != SN_OK) return;
    for (; at < L->k->n_buffers; at++) of[at] = p;
    parts[p].one_launch = is_one_launch(L->k, first);
    if (p && parts[p].one_launch && parts[p - 1].one_launch && parts[p].level == parts[p - 1].level) L->k->phases[first].beside = true;
  }
  if (L->b.status == SN_OK) order_buffers(L, parts, of);
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
