/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels, their buffers and phases, and the cursor that builds their trees. */
#include "sinter/kernel.h"

#include <string.h>

sn_status sn_kernel_create(sn_arena *a, const char *name, sn_kernel **out) {
  *out = NULL;
  sn_kernel *k = SN_NEW(a, sn_kernel);
  if (!k) return SN_ERR_MEMORY;
  k->arena = a;
  k->name = sn_arena_string(a, name ? name : "kernel");
  if (!k->name) return SN_ERR_MEMORY;
  SN_TRY(sn_ix_context_create(a, &k->ix));
  *out = k;
  return SN_OK;
}

int64_t sn_kbuffer_bytes(const sn_kbuffer *b) {
  int64_t last = 0; /* offset of the last element */
  for (int i = 0; i < b->rank; i++) {
    if (b->dims[i] == 0) return 0;
  }
  int64_t row = 1;
  for (int i = b->rank - 1; i >= 0; i--) {
    int64_t stride = b->strides ? b->strides[i] : row;
    last += (b->dims[i] - 1) * stride;
    row *= b->dims[i];
  }
  return (last + 1) * (int64_t)sn_type_bytes(b->type);
}

int64_t sn_kernel_scratch_bytes(const sn_kernel *k) {
  int64_t sum = 0;
  for (int i = 0; i < k->n_buffers; i++) {
    if (k->buffers[i].memory == SN_KMEM_SCRATCH) sum += (sn_kbuffer_bytes(&k->buffers[i]) + 63) / 64 * 64;
  }
  return sum;
}

/* Doubles an arena-held table; false: out of memory. */
static bool grow(sn_arena *a, void **table, int n, int *cap, size_t each) {
  if (n < *cap) return true;
  int wider = *cap ? 2 * *cap : 8;
  void *to = sn_arena_zero(a, (size_t)wider, each);
  if (!to) return false;
  if (n) memcpy(to, *table, (size_t)n * each);
  *table = to;
  *cap = wider;
  return true;
}

int sn_kernel_add_buffer(sn_kernel *k, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const int64_t *strides, const char *name) {
  void *table = k->buffers;
  if (!grow(k->arena, &table, k->n_buffers, &k->cap_buffers, sizeof *k->buffers)) return -1;
  k->buffers = table;
  sn_kbuffer *b = &k->buffers[k->n_buffers];
  memset(b, 0, sizeof *b);
  b->memory = memory;
  b->type = t;
  b->rank = rank;
  b->align = 64;
  b->dims = sn_arena_copy(k->arena, dims, (size_t)rank * sizeof *dims);
  b->strides = strides ? sn_arena_copy(k->arena, strides, (size_t)rank * sizeof *strides) : NULL;
  b->name = name ? sn_arena_string(k->arena, name) : NULL;
  if (!b->dims || (strides && !b->strides) || (name && !b->name)) return -1;
  return k->n_buffers++;
}

static sn_kregion *region_make(sn_arena *a, sn_knode *parent, int n_params) {
  sn_kregion *r = SN_NEW(a, sn_kregion);
  if (!r) return NULL;
  r->parent = parent;
  r->n_params = n_params;
  r->params = SN_NEW_N(a, sn_kvalue, n_params + 1);
  return r->params ? r : NULL;
}

static void renumber_region(const sn_kregion *r, const int *to) {
  for (sn_knode *n = r->first; n; n = n->next) {
    if (n->op == SN_K_LOAD || n->op == SN_K_STORE || n->op == SN_K_ATOMIC || n->op == SN_K_PREFETCH) n->buffer = to[n->buffer];
    sn_kcontract *c = (sn_kcontract *)(uintptr_t)n->contract; /* the kernel's own */
    sn_kcopy *x = (sn_kcopy *)(uintptr_t)n->copy;
    if (c) {
      c->acc.buffer = to[c->acc.buffer];
      c->a.buffer = to[c->a.buffer];
      c->b.buffer = to[c->b.buffer];
    }
    if (x) {
      x->to.buffer = to[x->to.buffer];
      x->from.buffer = to[x->from.buffer];
    }
    for (int k = 0; k < n->n_regions; k++) renumber_region(n->regions[k], to);
  }
}

bool sn_kernel_renumber(sn_kernel *k, const int *to, int n) {
  sn_kbuffer *old = SN_NEW_N(k->arena, sn_kbuffer, k->n_buffers + 1);
  if (!old) return false;
  memcpy(old, k->buffers, (size_t)k->n_buffers * sizeof *old);
  for (int b = k->n_buffers; b-- > 0;) k->buffers[to[b]] = old[b];
  k->n_buffers = n;
  for (int p = 0; p < k->n_phases; p++) renumber_region(k->phases[p].body, to);
  return true;
}

sn_kphase *sn_kernel_add_phase(sn_kernel *k, int n_grid, const int64_t *grid) {
  void *table = k->phases;
  if (!grow(k->arena, &table, k->n_phases, &k->cap_phases, sizeof *k->phases)) return NULL;
  k->phases = table;
  sn_kphase *p = &k->phases[k->n_phases];
  memset(p, 0, sizeof *p);
  p->n_grid = n_grid;
  p->grid = sn_arena_copy(k->arena, grid, (size_t)n_grid * sizeof *grid);
  p->body = region_make(k->arena, NULL, 0);
  if (!p->grid || !p->body) return NULL;
  if (n_grid > k->n_vars) k->n_vars = n_grid;
  k->n_phases++;
  return p;
}

/* ---- the cursor ---- */

static void fail(sn_kbuilder *b, sn_status s) {
  if (b->status == SN_OK) b->status = s;
}

static void value_init(sn_kbuilder *b, sn_kvalue *v, sn_knode *node, sn_kregion *region, int index, sn_type t) {
  v->node = node;
  v->region = region;
  v->index = index;
  v->type = t;
  v->id = b->k->n_values++;
}

/* A node at the end of the region. types: of the results. */
static sn_knode *node_add(sn_kbuilder *b, sn_kop op, int n_operands, sn_kvalue *const *operands, int n_results, const sn_type *types) {
  if (b->status != SN_OK) return NULL;
  sn_arena *a = b->k->arena;
  sn_knode *n = SN_NEW(a, sn_knode);
  if (n) n->operands = SN_NEW_N(a, sn_kvalue *, n_operands + 1);
  if (n) n->results = SN_NEW_N(a, sn_kvalue, n_results + 1);
  if (!n || !n->operands || !n->results) {
    fail(b, SN_ERR_MEMORY);
    return NULL;
  }
  n->op = op;
  n->n_operands = n_operands;
  n->n_results = n_results;
  n->region = b->region;
  n->comment = b->comment;
  n->buffer = -1;
  for (int i = 0; i < n_operands; i++) {
    if (!operands[i]) {
      fail(b, SN_ERR_INTERNAL);
      return NULL;
    }
    n->operands[i] = operands[i];
  }
  for (int i = 0; i < n_results; i++) value_init(b, &n->results[i], n, NULL, i, types[i]);
  sn_assert(!b->before || b->before->region == b->region);
  n->next = b->before;
  n->prev = b->before ? b->before->prev : b->region->last;
  if (n->prev) n->prev->next = n;
  else b->region->first = n;
  if (n->next) n->next->prev = n;
  else b->region->last = n;
  return n;
}

static sn_kvalue *result0(sn_knode *n) { return n ? &n->results[0] : NULL; }

sn_kvalue *sn_kb_const_f64(sn_kbuilder *b, sn_type t, double v) {
  if (sn_type_is_integer(t) || t == SN_TYPE_PRED) return sn_kb_const_i64(b, t, (int64_t)v);
  if (sn_type_is_complex(t)) return sn_kb_const_c128(b, t, v, 0);
  sn_knode *n = node_add(b, SN_K_CONST, 0, NULL, 1, &t);
  if (n) memcpy(&n->bits[0], &v, sizeof v);
  return result0(n);
}

sn_kvalue *sn_kb_const_i64(sn_kbuilder *b, sn_type t, int64_t v) {
  if (sn_type_is_float(t) || sn_type_is_complex(t)) return sn_kb_const_f64(b, t, (double)v);
  sn_knode *n = node_add(b, SN_K_CONST, 0, NULL, 1, &t);
  if (n) n->bits[0] = (uint64_t)v;
  return result0(n);
}

sn_kvalue *sn_kb_const_c128(sn_kbuilder *b, sn_type t, double re, double im) {
  sn_knode *n = node_add(b, SN_K_CONST, 0, NULL, 1, &t);
  if (n) {
    memcpy(&n->bits[0], &re, sizeof re);
    memcpy(&n->bits[1], &im, sizeof im);
  }
  return result0(n);
}

static bool take_at(sn_kbuilder *b, sn_knode *n, int n_at, const sn_ix *const *at) {
  if (!n) return false;
  for (int i = 0; i < n_at; i++) {
    if (at[i]) continue;
    fail(b, SN_ERR_MEMORY);
    return false;
  }
  n->n_at = n_at;
  n->at = sn_arena_copy(b->k->arena, at, (size_t)n_at * sizeof *at);
  if (!n->at) fail(b, SN_ERR_MEMORY);
  return n->at != NULL;
}

static bool take_guards(sn_kbuilder *b, sn_knode *n, int n_guards, const sn_ix_guard *guards) {
  if (!n) return false;
  n->n_guards = n_guards;
  if (n_guards == 0) return true;
  n->guards = sn_arena_copy(b->k->arena, guards, (size_t)n_guards * sizeof *guards);
  if (!n->guards) fail(b, SN_ERR_MEMORY);
  return n->guards != NULL;
}

sn_kvalue *sn_kb_index(sn_kbuilder *b, sn_type t, const sn_ix *e) {
  sn_knode *n = node_add(b, SN_K_INDEX, 0, NULL, 1, &t);
  return take_at(b, n, 1, &e) ? result0(n) : NULL;
}

sn_kvalue *sn_kb_elt(sn_kbuilder *b, sn_opcode op, sn_type result, int n_operands, sn_kvalue *const *operands) {
  sn_knode *n = node_add(b, SN_K_ELT, n_operands, operands, 1, &result);
  if (n) n->hlo = op;
  return result0(n);
}

sn_kvalue *sn_kb_fma(sn_kbuilder *b, sn_kvalue *x, sn_kvalue *y, sn_kvalue *z) {
  sn_kvalue *xs[3] = {x, y, z};
  return x ? result0(node_add(b, SN_K_FMA, 3, xs, 1, &x->type)) : NULL;
}

sn_kvalue *sn_kb_compare(sn_kbuilder *b, int direction, sn_kvalue *x, sn_kvalue *y, bool total_order) {
  sn_kvalue *xs[2] = {x, y};
  sn_type pred = SN_TYPE_PRED;
  sn_knode *n = node_add(b, SN_K_ELT, 2, xs, 1, &pred);
  if (!n) return NULL;
  n->hlo = SN_OP_COMPARE;
  n->direction = direction;
  n->bits[0] = total_order;
  return result0(n);
}

sn_kvalue *sn_kb_load(sn_kbuilder *b, int buffer, const sn_ix *const *at, int n_guards, const sn_ix_guard *guards, sn_kvalue *otherwise) {
  if (buffer < 0) {
    fail(b, SN_ERR_MEMORY);
    return NULL;
  }
  sn_type t = b->k->buffers[buffer].type;
  sn_knode *n = node_add(b, SN_K_LOAD, otherwise ? 1 : 0, &otherwise, 1, &t);
  if (!take_at(b, n, b->k->buffers[buffer].rank, at) || !take_guards(b, n, n_guards, guards)) return NULL;
  n->buffer = buffer;
  return result0(n);
}

void sn_kb_store(sn_kbuilder *b, int buffer, const sn_ix *const *at, int n_guards, const sn_ix_guard *guards, sn_kvalue *v) {
  if (buffer < 0) {
    fail(b, SN_ERR_MEMORY);
    return;
  }
  sn_knode *n = node_add(b, SN_K_STORE, 1, &v, 0, NULL);
  if (!take_at(b, n, b->k->buffers[buffer].rank, at) || !take_guards(b, n, n_guards, guards)) return;
  n->buffer = buffer;
}

const sn_ix *sn_kb_bind(sn_kbuilder *b, sn_kvalue *v, int64_t lo, int64_t hi) {
  sn_knode *n = node_add(b, SN_K_BIND, 1, &v, 0, NULL);
  if (!n) return NULL;
  n->var = b->k->n_syms++;
  n->sym_lo = lo;
  n->sym_hi = hi;
  const sn_ix *zero_based = sn_ix_sym(b->k->ix, n->var, hi - lo + 1);
  if (!zero_based) fail(b, SN_ERR_MEMORY);
  return lo == 0 ? zero_based : sn_ix_add(b->k->ix, zero_based, sn_ix_const(b->k->ix, lo));
}

static bool take_regions(sn_kbuilder *b, sn_knode *n, int n_regions, int n_params, const sn_type *types) {
  if (!n) return false;
  n->n_regions = n_regions;
  n->regions = SN_NEW_N(b->k->arena, sn_kregion *, n_regions);
  for (int r = 0; n->regions && r < n_regions; r++) {
    n->regions[r] = region_make(b->k->arena, n, n_params);
    if (!n->regions[r]) break;
    for (int i = 0; i < n_params; i++) value_init(b, &n->regions[r]->params[i], NULL, n->regions[r], i, types[i]);
  }
  if (n->regions && n->regions[n_regions - 1]) return true;
  fail(b, SN_ERR_MEMORY);
  return false;
}

#define MAX_CARRIES 64

/* The types of the carried values; false when one is missing or there are too many. */
static bool carry_types(sn_kbuilder *b, int n, sn_kvalue *const *inits, sn_type *types) {
  if (n > MAX_CARRIES) {
    fail(b, SN_ERR_UNSUPPORTED);
    return false;
  }
  for (int i = 0; i < n; i++) {
    if (!inits[i]) {
      fail(b, SN_ERR_INTERNAL);
      return false;
    }
    types[i] = inits[i]->type;
  }
  return true;
}

sn_knode *sn_kb_for(sn_kbuilder *b, sn_kloop loop, int width, const sn_ix *lo, const sn_ix *hi, int64_t step, int n_carries, sn_kvalue *const *inits,
                    const sn_opcode *combine, const sn_ix **var) {
  sn_type types[MAX_CARRIES];
  if (var) *var = NULL;
  if (!carry_types(b, n_carries, inits, types)) return NULL;
  sn_knode *n = node_add(b, SN_K_FOR, n_carries, inits, n_carries, types);
  if (!take_regions(b, n, 1, n_carries, types)) return NULL;
  if (!lo || !hi) {
    fail(b, SN_ERR_MEMORY);
    return NULL;
  }
  n->loop = loop;
  n->width = width;
  n->lo = lo;
  n->hi = hi;
  n->step = step;
  n->var = b->k->n_vars++;
  if (combine && n_carries && !(n->combine = sn_arena_copy(b->k->arena, combine, (size_t)n_carries * sizeof *combine))) fail(b, SN_ERR_MEMORY);
  /* The expression's range is [0, hi): loops that start elsewhere are rare and lose nothing but a tighter range. */
  const sn_ix *v = sn_ix_dim(b->k->ix, n->var, hi->hi == INT64_MAX ? INT64_MAX : hi->hi);
  if (!v) fail(b, SN_ERR_MEMORY);
  if (var) *var = v;
  b->region = n->regions[0];
  b->before = NULL;
  return n;
}

sn_knode *sn_kb_if(sn_kbuilder *b, int n_guards, const sn_ix_guard *guards, sn_kvalue *pred, int n_results, const sn_type *types) {
  sn_knode *n = node_add(b, SN_K_IF, pred ? 1 : 0, &pred, n_results, types);
  if (!take_guards(b, n, n_guards, guards) || !take_regions(b, n, 2, 0, NULL)) return NULL;
  b->region = n->regions[0];
  b->before = NULL;
  return n;
}

void sn_kb_else(sn_kbuilder *b) {
  if (b->status == SN_OK) b->region = b->region->parent->regions[1];
  b->before = NULL;
}

sn_knode *sn_kb_while(sn_kbuilder *b, int n_carries, sn_kvalue *const *inits) {
  sn_type types[MAX_CARRIES];
  if (!carry_types(b, n_carries, inits, types)) return NULL;
  sn_knode *n = node_add(b, SN_K_WHILE, n_carries, inits, n_carries, types);
  if (!take_regions(b, n, 2, n_carries, types)) return NULL;
  b->region = n->regions[0];
  b->before = NULL;
  return n;
}

void sn_kb_do(sn_kbuilder *b) { sn_kb_else(b); }

void sn_kb_yield(sn_kbuilder *b, int n, sn_kvalue *const *values) { node_add(b, SN_K_YIELD, n, values, 0, NULL); }

void sn_kb_end(sn_kbuilder *b) {
  if (b->status != SN_OK) return;
  b->before = b->region->parent->next;
  b->region = b->region->parent->region;
}

void sn_kb_prefetch(sn_kbuilder *b, int buffer, const sn_ix *const *at, sn_kprefetch use) {
  sn_knode *n = node_add(b, SN_K_PREFETCH, 0, NULL, 0, NULL);
  if (!take_at(b, n, b->k->buffers[buffer].rank, at)) return;
  n->buffer = buffer;
  n->bits[0] = (uint64_t)use;
}

/* The tile with an origin of the kernel's own. */
static void take_tile(sn_kbuilder *b, sn_ktile *t) {
  t->at = sn_arena_copy(b->k->arena, t->at, (size_t)b->k->buffers[t->buffer].rank * sizeof(sn_ix *));
  if (!t->at) fail(b, SN_ERR_MEMORY);
}

void sn_kb_contract(sn_kbuilder *b, const sn_kcontract *c) {
  sn_knode *n = node_add(b, SN_K_CONTRACT, 0, NULL, 0, NULL);
  if (!n) return;
  sn_kcontract *own = sn_arena_copy(b->k->arena, c, sizeof *c);
  if (!own) {
    fail(b, SN_ERR_MEMORY);
    return;
  }
  take_tile(b, &own->acc);
  take_tile(b, &own->a);
  take_tile(b, &own->b);
  n->contract = own;
}

void sn_kb_copy(sn_kbuilder *b, const sn_kcopy *c) { sn_kb_copy_guarded(b, c, 0, NULL); }

void sn_kb_commit(sn_kbuilder *b) { node_add(b, SN_K_COMMIT, 0, NULL, 0, NULL); }

void sn_kb_wait(sn_kbuilder *b, int n_open) {
  sn_knode *n = node_add(b, SN_K_WAIT, 0, NULL, 0, NULL);
  if (n) n->bits[0] = (uint64_t)n_open;
}

void sn_kb_copy_guarded(sn_kbuilder *b, const sn_kcopy *c, int n_guards, const sn_ix_guard *guards) {
  sn_knode *n = node_add(b, SN_K_COPY, 0, NULL, 0, NULL);
  if (!n || !take_guards(b, n, n_guards, guards)) return;
  sn_kcopy *own = sn_arena_copy(b->k->arena, c, sizeof *c);
  if (!own) {
    fail(b, SN_ERR_MEMORY);
    return;
  }
  take_tile(b, &own->to);
  take_tile(b, &own->from);
  n->copy = own;
}
