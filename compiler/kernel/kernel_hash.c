/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Equality of kernels, by a canonical stream of words: names and comments are left out, values are numbered in the order in which they are defined, an index expression
 * that was written before is a reference to it. Equal kernels have equal streams, whichever arena, context or order of numbering they were built with.
 * The stream of one phase numbers its buffers and variables in the same way, so that it says nothing of the kernel around it. */
#include "sinter/kernel.h"

#include <string.h>

typedef struct stream {
  sn_str bytes;
  sn_map *values;      /* kernel value id -> number + 1 */
  sn_map *expressions; /* address -> number + 1 */
  sn_map *variables;   /* of one phase: DIM and SYM -> number + 1; NULL: they keep their numbers */
  int *order;          /* of one phase: its buffers as they come; NULL: they keep their numbers */
  int n_order;
  bool failed;
} stream;

static void put(stream *s, int64_t v) { sn_str_add_n(&s->bytes, (const char *)&v, sizeof v); }

/* The number of a key, given to it at its first use. *fresh: it is new. */
static int64_t number(stream *s, sn_map *m, uint64_t key, bool *fresh) {
  uintptr_t known = (uintptr_t)sn_map_get_u64(m, key);
  *fresh = known == 0;
  if (known) return (int64_t)known - 1;
  uintptr_t next = sn_map_count(m) + 1;
  if (sn_map_set_u64(m, key, (void *)next) != SN_OK) s->failed = true;
  return (int64_t)next - 1;
}

static void put_value(stream *s, const sn_kvalue *v) {
  bool fresh;
  put(s, number(s, s->values, v->id, &fresh));
}

static void put_buffer(stream *s, const sn_kbuffer *b);

static void put_variable(stream *s, sn_ix_kind kind, int64_t v) {
  bool fresh;
  put(s, s->variables ? number(s, s->variables, (uint64_t)v * 2 + (kind == SN_IX_SYM) + 1, &fresh) : v);
}

/* A phase says what a buffer is where it comes first. */
static void put_buffer_number(stream *s, const sn_kernel *k, int buffer) {
  int n = 0;
  if (!s->order) {
    put(s, buffer);
    return;
  }
  while (n < s->n_order && s->order[n] != buffer) n++;
  put(s, n);
  if (n < s->n_order) return;
  s->order[s->n_order++] = buffer;
  put_buffer(s, &k->buffers[buffer]);
}

static void put_index(stream *s, const sn_ix *e) {
  bool fresh;
  int64_t n = e ? number(s, s->expressions, (uint64_t)(uintptr_t)e, &fresh) : -1;
  put(s, n);
  if (!e || !fresh) return;
  put(s, e->kind);
  if (e->kind == SN_IX_DIM || e->kind == SN_IX_SYM) put_variable(s, e->kind, e->value);
  else put(s, e->value);
  put(s, e->n_args);
  if (e->kind == SN_IX_CONST || e->kind == SN_IX_DIM || e->kind == SN_IX_SYM) return;
  for (int k = 0; k < e->n_args; k++) put_index(s, e->args[k]);
  if (e->kind == SN_IX_LOAD) return;
  put_index(s, e->a);
  put_index(s, e->b);
}

static void put_indices(stream *s, int n, const sn_ix *const *at) {
  put(s, n);
  for (int i = 0; i < n; i++) put_index(s, at[i]);
}

static void put_guards(stream *s, int n, const sn_ix_guard *guards) {
  put(s, n);
  for (int i = 0; i < n; i++) {
    put_index(s, guards[i].e);
    put(s, guards[i].lo);
    put(s, guards[i].hi);
  }
}

static void put_tile(stream *s, const sn_kernel *k, const sn_ktile *t) {
  put_buffer_number(s, k, t->buffer);
  put_indices(s, k->buffers[t->buffer].rank, t->at);
  put(s, t->stride[0]);
  put(s, t->stride[1]);
}

static void put_contract(stream *s, const sn_kernel *k, const sn_kcontract *c) {
  put_tile(s, k, &c->acc);
  put_tile(s, k, &c->a);
  put_tile(s, k, &c->b);
  put_index(s, c->m);
  put_index(s, c->n);
  put_index(s, c->k);
  put(s, c->mr);
  put(s, c->nr);
  put(s, c->accumulate);
  put(s, c->algorithm);
  put(s, c->exact);
}

static void put_copy(stream *s, const sn_kernel *k, const sn_kcopy *c) {
  put_tile(s, k, &c->to);
  put_tile(s, k, &c->from);
  put_index(s, c->m);
  put_index(s, c->n);
  put(s, c->async);
}

static void put_region(stream *s, const sn_kernel *k, const sn_kregion *r);

static bool has_buffer(const sn_knode *n) { return n->op == SN_K_LOAD || n->op == SN_K_STORE || n->op == SN_K_ATOMIC || n->op == SN_K_PREFETCH; }

static void put_node(stream *s, const sn_kernel *k, const sn_knode *n) {
  put(s, n->op);
  put(s, n->n_operands);
  for (int i = 0; i < n->n_operands; i++) put_value(s, n->operands[i]);
  put(s, n->hlo);
  put(s, n->direction);
  put(s, (int64_t)n->exponent_bits << 32 | n->mantissa_bits);
  put(s, (int64_t)n->bits[0]);
  put(s, (int64_t)n->bits[1]);
  if (n->buffer >= 0 && has_buffer(n)) put_buffer_number(s, k, n->buffer);
  put_indices(s, n->n_at, n->at);
  put_guards(s, n->n_guards, n->guards);
  if (n->op == SN_K_FOR || n->op == SN_K_BIND) put_variable(s, n->op == SN_K_FOR ? SN_IX_DIM : SN_IX_SYM, n->var);
  put(s, n->sym_lo);
  put(s, n->sym_hi);
  put_index(s, n->lo);
  put_index(s, n->hi);
  put(s, n->step);
  put(s, (int64_t)n->loop << 32 | n->width);
  for (int i = 0; n->combine && i < n->n_results; i++) put(s, n->combine[i]);
  if (n->contract) put_contract(s, k, n->contract);
  if (n->copy) put_copy(s, k, n->copy);
  put(s, n->n_regions);
  for (int i = 0; i < n->n_regions; i++) put_region(s, k, n->regions[i]);
  put(s, n->n_results);
  for (int i = 0; i < n->n_results; i++) {
    put_value(s, &n->results[i]);
    put(s, n->results[i].type);
  }
}

static void put_region(stream *s, const sn_kernel *k, const sn_kregion *r) {
  put(s, r->n_params);
  for (int i = 0; i < r->n_params; i++) {
    put_value(s, &r->params[i]);
    put(s, r->params[i].type);
  }
  for (const sn_knode *n = r->first; n; n = n->next) put_node(s, k, n);
  put(s, -1);
}

static void put_buffer(stream *s, const sn_kbuffer *b) {
  put(s, s->order && b->memory <= SN_KMEM_WORK ? SN_KMEM_WORK : b->memory); /* what an argument is to the rest of the kernel is nothing to one phase */
  put(s, b->type);
  put(s, b->rank);
  put(s, b->align);
  int64_t row = 1;
  for (int i = b->rank - 1; i >= 0; i--) { /* strides that are row-major are the same as none */
    put(s, b->dims[i]);
    put(s, b->strides ? b->strides[i] : row);
    row *= b->dims[i];
  }
}

static void put_phase(stream *s, const sn_kernel *k, const sn_kphase *p) {
  put(s, p->n_grid);
  for (int g = 0; g < p->n_grid; g++) put(s, p->grid[g]);
  for (int g = 0; g < p->n_grid && s->variables; g++) put_variable(s, SN_IX_DIM, g);
  put_region(s, k, p->body);
}

static void stream_of(stream *s, const sn_kernel *k) {
  memset(s, 0, sizeof *s);
  s->failed = sn_map_create(&s->values) != SN_OK || sn_map_create(&s->expressions) != SN_OK;
  if (s->failed) return;
  put(s, k->n_buffers);
  for (int i = 0; i < k->n_buffers; i++) put_buffer(s, &k->buffers[i]);
  put(s, k->n_phases);
  for (int p = 0; p < k->n_phases; p++) {
    put(s, k->phases[p].finishes);
    put(s, k->phases[p].beside);
    put_phase(s, k, &k->phases[p]);
  }
  s->failed |= s->bytes.failed;
}

static void stream_finish(stream *s) {
  sn_str_finish(&s->bytes);
  sn_map_destroy(s->values);
  sn_map_destroy(s->expressions);
  sn_map_destroy(s->variables);
}

uint64_t sn_kernel_hash(const sn_kernel *k) {
  stream s;
  stream_of(&s, k);
  uint64_t h = s.failed ? 0 : sn_hash(s.bytes.data, s.bytes.n, 0); /* out of memory: equal to nothing, below */
  stream_finish(&s);
  return h;
}

bool sn_kernel_equal(const sn_kernel *a, const sn_kernel *b) {
  stream s, t;
  if (a == b) return true;
  stream_of(&s, a);
  stream_of(&t, b);
  bool same = !s.failed && !t.failed && s.bytes.n == t.bytes.n && memcmp(s.bytes.data, t.bytes.data, s.bytes.n) == 0;
  stream_finish(&s);
  stream_finish(&t);
  return same;
}

sn_status sn_kphase_key_of(sn_arena *a, const sn_kernel *k, int phase, sn_kphase_key *out) {
  stream s;
  memset(&s, 0, sizeof s);
  memset(out, 0, sizeof *out);
  s.order = SN_NEW_N(a, int, k->n_buffers + 1);
  s.failed = !s.order || sn_map_create(&s.values) != SN_OK || sn_map_create(&s.expressions) != SN_OK || sn_map_create(&s.variables) != SN_OK;
  if (!s.failed) put_phase(&s, k, &k->phases[phase]);
  s.failed |= s.bytes.failed;
  if (!s.failed) *out = (sn_kphase_key){sn_arena_copy(a, s.bytes.data, s.bytes.n), s.bytes.n, s.order, s.n_order};
  stream_finish(&s);
  return out->bytes ? SN_OK : SN_ERR_MEMORY;
}
