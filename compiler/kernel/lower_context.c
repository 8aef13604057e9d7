/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The lowering's state: open regions, where variables exist, what was computed already. */
#include "lower.h"

#include <string.h>

sn_status lower_fail(lowering *L, const sn_instr *i, const char *what) {
  if (L->b.status == SN_OK) {
    sn_error(L->d, i->loc, SN_ERR_UNSUPPORTED, "%s: %s has no lowering to a kernel: %s", i->name, sn_opcode_text(i->op), what);
    L->b.status = SN_ERR_UNSUPPORTED;
  }
  return L->b.status;
}

const sn_ix *lower_const(lowering *L, int64_t v) {
  const sn_ix *e = sn_ix_const(L->k->ix, v);
  if (!e && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return e;
}

void lower_delinearise(lowering *L, const sn_ix *flat, int n, const int64_t *dims, const sn_ix **idx) {
  int64_t inner = 1;
  for (int k = n - 1; k >= 0; k--) {
    const sn_ix *e = sn_ix_div(L->k->ix, flat, inner);
    idx[k] = k == 0 ? e : sn_ix_mod(L->k->ix, e, dims[k]);
    inner *= dims[k];
  }
}

/* ---- where variables exist ---- */

static void note_depth(lowering *L, int table, int number, int depth) {
  if (L->b.status != SN_OK) return;
  if (number >= L->cap_depths[table]) {
    int cap = L->cap_depths[table] ? 2 * L->cap_depths[table] : 64;
    if (cap <= number) cap = number + 1;
    int *wider = SN_NEW_N(L->arena, int, cap);
    if (!wider) {
      L->b.status = SN_ERR_MEMORY;
      return;
    }
    if (L->n_depths[table]) memcpy(wider, L->depths[table], (size_t)L->n_depths[table] * sizeof *wider);
    L->depths[table] = wider;
    L->cap_depths[table] = cap;
  }
  if (number >= L->n_depths[table]) L->n_depths[table] = number + 1;
  L->depths[table][number] = depth;
}

int lower_depth_of(const lowering *L, const sn_ix *e) {
  int deepest = 0;
  switch (e->kind) {
    case SN_IX_CONST: return 0;
    case SN_IX_DIM: return e->value < L->n_depths[0] ? L->depths[0][e->value] : 0;
    case SN_IX_SYM: return e->value < L->n_depths[1] ? L->depths[1][e->value] : 0;
    case SN_IX_LOAD:
      for (int k = 0; k < e->n_args; k++) {
        int d = lower_depth_of(L, e->args[k]);
        if (d > deepest) deepest = d;
      }
      return deepest;
    default: {
      int a = lower_depth_of(L, e->a), b = e->b ? lower_depth_of(L, e->b) : 0;
      return a > b ? a : b;
    }
  }
}

int lower_guards_depth(const lowering *L) {
  int deepest = 0;
  for (int g = 0; g < L->n_guards; g++) {
    int d = lower_depth_of(L, L->guards[g].e);
    if (d > deepest) deepest = d;
  }
  return deepest;
}

void lower_ids(const lowering *L, uint32_t *first, uint32_t *n) {
  uint32_t last = L->body ? 0 : L->root->id;
  *first = L->body ? UINT32_MAX : last;
  for (const sn_instr *i = L->body ? L->body->first : NULL; i; i = i->next) {
    if (i->id < *first) *first = i->id;
    if (i->id > last) last = i->id;
  }
  *n = last - *first + 1;
}

bool *lower_marks(const lowering *L, uint32_t *first) {
  uint32_t n;
  lower_ids(L, first, &n);
  return SN_NEW_N(L->arena, bool, n);
}

/* ---- regions ---- */

bool lower_in_vector(const lowering *L) { return L->stack[L->depth - 1].vector; }

void lower_push(lowering *L, sn_knode *node, sn_kregion *region, bool vector) {
  if (L->b.status != SN_OK) return;
  if (L->depth == LOWER_MAX_DEPTH) {
    lower_fail(L, L->root, "loops nest too deeply");
    return;
  }
  if (L->depth > 0) L->stack[L->depth - 1].child = node;
  bool inside = L->depth > 0 && L->stack[L->depth - 1].vector;
  L->stack[L->depth++] = (lower_region){region, NULL, vector || inside};
}

void lower_pop(lowering *L) {
  if (L->b.status != SN_OK) return;
  L->depth--;
  L->stack[L->depth - 1].child = NULL;
}

const sn_ix *lower_for(lowering *L, sn_kloop loop, int width, const sn_ix *lo, const sn_ix *hi, int64_t step, int n_carries, sn_kvalue *const *inits, const sn_opcode *combine,
                       sn_knode **node) {
  const sn_ix *var = NULL;
  *node = sn_kb_for(&L->b, loop, width, lo, hi, step, n_carries, inits, combine, &var);
  if (!*node) return NULL;
  lower_push(L, *node, (*node)->regions[0], loop == SN_KLOOP_VECTOR || loop == SN_KLOOP_THREADS);
  note_depth(L, 0, (*node)->var, L->depth - 1);
  return var;
}

void lower_end(lowering *L, int n, sn_kvalue *const *yields, sn_knode *node) {
  (void)node;
  if (n) sn_kb_yield(&L->b, n, yields);
  sn_kb_end(&L->b);
  lower_pop(L);
}

sn_kphase *lower_phase(lowering *L, int n_grid, const int64_t *grid) {
  if (L->b.status != SN_OK) return NULL;
  sn_kphase *p = sn_kernel_add_phase(L->k, n_grid, grid);
  if (!p) {
    L->b.status = SN_ERR_MEMORY;
    return NULL;
  }
  L->depth = 0;
  L->b.region = p->body;
  L->b.before = NULL;
  memset(L->memo, 0, sizeof L->memo);
  lower_push(L, NULL, p->body, false);
  for (int k = 0; k < n_grid; k++) note_depth(L, 0, k, 0);
  return p;
}

const sn_ix *lower_grid(lowering *L, int k) {
  if (L->b.status != SN_OK) return NULL;
  const sn_ix *e = sn_ix_dim(L->k->ix, k, L->k->phases[L->k->n_phases - 1].grid[k]);
  if (!e) L->b.status = SN_ERR_MEMORY;
  return e;
}

/* The insertion point moves out to stack[depth]; what was open inside is put aside. */
void lower_hoist(lowering *L, int depth, lower_mark *mark) {
  mark->depth = L->depth;
  mark->region = L->b.region;
  mark->before = L->b.before;
  memcpy(mark->stack, L->stack, sizeof mark->stack);
  if (depth >= L->depth - 1) return;
  L->b.region = L->stack[depth].region;
  L->b.before = L->stack[depth].child;
  L->depth = depth + 1;
}

void lower_unhoist(lowering *L, const lower_mark *mark) {
  L->depth = mark->depth;
  L->b.region = mark->region;
  L->b.before = mark->before;
  memcpy(L->stack, mark->stack, sizeof mark->stack);
}

const sn_ix *lower_bind(lowering *L, sn_kvalue *v, int64_t lo, int64_t hi) {
  int number = L->k->n_syms;
  const sn_ix *e = sn_kb_bind(&L->b, v, lo, hi);
  if (e) note_depth(L, 1, number, L->depth - 1);
  return e;
}

/* ---- what was computed ---- */

static size_t memo_slot(const sn_instr *i, int output, int n, const sn_ix *const *idx) {
  uint64_t h = sn_hash_mix(i->id, (uint64_t)output);
  for (int k = 0; k < n; k++) h = sn_hash_mix(h, idx[k]->id);
  return (size_t)(h % LOWER_MEMO);
}

static bool region_open(const lowering *L, const sn_kregion *r) {
  for (int k = 0; k < L->depth; k++) {
    if (L->stack[k].region == r) return true;
  }
  return false;
}

static bool memo_fits(const lowering *L, const lower_memo *m, const sn_instr *i, int output, int n, const sn_ix *const *idx) {
  if (m->instr != i || m->output != output || m->n != n || m->n_guards > L->n_guards) return false;
  for (int k = 0; k < n; k++) {
    if (m->idx[k] != idx[k]) return false;
  }
  for (int g = 0; g < m->n_guards; g++) {
    if (m->guards[g].e != L->guards[g].e || m->guards[g].lo != L->guards[g].lo || m->guards[g].hi != L->guards[g].hi) return false;
  }
  return region_open(L, m->region);
}

sn_kvalue *lower_recall(const lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  if (i == L->pinned) return L->pinned_value;
  int n = i->shape->type == SN_TYPE_TUPLE ? i->shape->elements[output]->rank : i->shape->rank;
  for (const lower_memo *m = L->memo[memo_slot(i, output, n, idx)]; m; m = m->next) {
    if (memo_fits(L, m, i, output, n, idx)) return m->value;
  }
  return NULL;
}

void lower_remember(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx, sn_kvalue *v) {
  if (L->b.status != SN_OK) return;
  int n = i->shape->type == SN_TYPE_TUPLE ? i->shape->elements[output]->rank : i->shape->rank;
  lower_memo *m = SN_NEW(L->arena, lower_memo);
  if (m && L->n_guards) m->guards = sn_arena_copy(L->arena, L->guards, (size_t)L->n_guards * sizeof *m->guards);
  if (!m || (L->n_guards && !m->guards)) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  m->instr = i;
  m->output = output;
  m->n = n;
  for (int k = 0; k < n; k++) m->idx[k] = idx[k];
  m->n_guards = L->n_guards;
  m->value = v;
  m->region = L->b.region;
  size_t slot = memo_slot(i, output, n, idx);
  m->next = L->memo[slot];
  L->memo[slot] = m;
}

void lower_override(lowering *L, const sn_instr *i, int output, int buffer, int n, const int *dims, const sn_ix *const *base) {
  lower_tile *t = SN_NEW(L->arena, lower_tile);
  if (t) t->dims = sn_arena_copy(L->arena, dims, (size_t)n * sizeof *dims);
  if (t && base) t->base = sn_arena_copy(L->arena, base, (size_t)n * sizeof *base);
  if (!t || !t->dims || (base && !t->base)) {
    if (L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
    return;
  }
  t->instr = i;
  t->output = output;
  t->buffer = buffer;
  t->n = n;
  t->next = L->tiles;
  L->tiles = t;
}

bool lower_on_gpu(const lowering *L) { return L->target && L->target->kind == SN_TARGET_CUDA; }

int lower_gpu_lanes(int64_t n) {
  int lanes = 32;
  while (lanes < LOWER_GPU_LANES && lanes < n) lanes *= 2;
  return lanes;
}

int lower_lanes(const lowering *L, sn_type t) {
  if (lower_on_gpu(L)) return LOWER_GPU_LANES;
  int bytes = L->target && L->target->vector_bytes ? L->target->vector_bytes : 16;
  int each = (int)sn_type_bytes(t);
  if (each < 4) each = 4; /* narrow types are computed in 32 bits */
  int lanes = bytes / each;
  return lanes < 2 ? 2 : lanes;
}
