/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Barriers. Threads of a block meet before a node that touches what another thread may have touched since they last met.
 *
 * Only buffers that the phase both writes and reads, or writes in two places, can be in conflict ("hot"). Inside a lane no barrier can stand: one lane's own order is
 * enough there, because items of a vector loop do not depend on each other. Nor inside a loop over warps: a warp reads there what its own lane wrote, and no other. */
#include "emit.h"

/* first: the first index expression of the access. */
typedef void (*touch_fn)(void *ctx, int buffer, const sn_ix *first, bool writes);

static bool is_zero(const sn_ix *e) { return e->kind == SN_IX_CONST && e->value == 0; }

/* The first index of a tile of rows x columns that lies within it: a buffer of three dimensions may be a row of tiles. */
static const sn_ix *stage_of(const gpu_emit *e, const sn_ktile *t, int64_t rows, int64_t columns) {
  const sn_kbuffer *b = &e->k->buffers[t->buffer];
  if (b->rank != 3 || b->strides || !is_zero(t->at[1]) || !is_zero(t->at[2])) return NULL;
  return (rows - 1) * t->stride[0] + (columns - 1) * t->stride[1] < b->dims[1] * b->dims[2] ? t->at[0] : NULL;
}

/* Likewise of a copy of one row, to neighbours. */
static const sn_ix *stage_of_row(const gpu_emit *e, const sn_kcopy *c) {
  const sn_kbuffer *b = &e->k->buffers[c->to.buffer];
  bool within = b->rank == 3 && !b->strides && c->m->hi <= 1 && c->to.stride[1] == 1 && c->to.at[2]->lo >= 0 && c->to.at[2]->hi + c->n->hi <= b->dims[2];
  return within ? c->to.at[0] : NULL;
}

static void touch_node(const gpu_emit *e, const sn_knode *n, touch_fn fn, void *ctx) {
  switch (n->op) {
    case SN_K_LOAD: fn(ctx, n->buffer, n->n_at ? n->at[0] : NULL, false); break;
    case SN_K_STORE:
    case SN_K_ATOMIC: fn(ctx, n->buffer, n->n_at ? n->at[0] : NULL, true); break;
    case SN_K_COPY:
      fn(ctx, n->copy->from.buffer, NULL, false);
      fn(ctx, n->copy->to.buffer, stage_of_row(e, n->copy), true);
      break;
    case SN_K_CONTRACT: {
      const sn_kcontract *c = n->contract;
      if (!is_zero(c->k)) {
        fn(ctx, c->a.buffer, stage_of(e, &c->a, c->mr, c->k->hi), false);
        fn(ctx, c->b.buffer, stage_of(e, &c->b, c->k->hi, c->nr), false);
      }
      fn(ctx, c->acc.buffer, NULL, true);
      break;
    }
    default: break;
  }
  for (int r = 0; r < n->n_regions; r++) {
    for (const sn_knode *x = n->regions[r]->first; x; x = x->next) touch_node(e, x, fn, ctx);
  }
}

static bool shared_by_threads(const gpu_buffer *b) { return b->home != HOME_PRIVATE && b->home != HOME_SPREAD && b->home != HOME_THREAD; }

/* ---- which buffers matter ---- */

static void count(void *ctx, int buffer, const sn_ix *first, bool writes) {
  (void)first;
  int *counts = (int *)ctx + 2 * buffer;
  counts[writes]++;
}

void gpu_find_hot(gpu_emit *e, const sn_kregion *body) {
  int *counts = SN_NEW_N(e->arena, int, 2 * e->k->n_buffers + 2);
  if (!counts) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return;
  }
  for (const sn_knode *n = body->first; n; n = n->next) touch_node(e, n, count, counts);
  for (int b = 0; b < e->k->n_buffers; b++) {
    gpu_buffer *g = &e->buffers[b];
    g->hot = shared_by_threads(g) && counts[2 * b + 1] > 0 && (counts[2 * b] > 0 || counts[2 * b + 1] > 1) && !e->item_per_thread;
    g->read = g->written = false;
  }
}

void gpu_barrier(gpu_emit *e) {
  gpu_line(e, "__syncthreads();");
  for (int b = 0; b < e->k->n_buffers; b++) e->buffers[b].read = e->buffers[b].written = false;
}

/* ---- one node ---- */

typedef struct conflict {
  gpu_emit *e;
  bool found, any_hot_write;
} conflict;

/* The one variable of an expression: -1 none, -2 several, or loaded ones. */
static int only_variable(const sn_ix *e) {
  if (e->kind == SN_IX_CONST) return -1;
  if (e->kind == SN_IX_DIM) return (int)e->value;
  if (e->kind == SN_IX_SYM || e->kind == SN_IX_LOAD) return -2;
  int a = only_variable(e->a), b = e->b ? only_variable(e->b) : -1;
  return a == -1 ? b : b == -1 || a == b ? a : -2;
}

static const sn_ix *variable_in(const sn_ix *e) {
  if (e->kind == SN_IX_DIM) return e;
  if (e->kind == SN_IX_CONST) return NULL;
  const sn_ix *a = variable_in(e->a);
  return a ? a : e->b ? variable_in(e->b) : NULL;
}

/* Do two first indices differ whatever the value of their one variable? Tried for all values: a pipeline's step s works on tile s mod 2 while it fills (s + 1) mod 2. */
static bool always_differ(const gpu_emit *e, const sn_ix *a, const sn_ix *b) {
  if (!a || !b) return false;
  int va = only_variable(a), vb = only_variable(b), var = va == -1 ? vb : va;
  if (va == -2 || vb == -2 || (va >= 0 && vb >= 0 && va != vb)) return false;
  const sn_ix *x = var >= 0 ? variable_in(va >= 0 ? a : b) : NULL;
  int64_t hi = x ? x->hi : 0, *dims = SN_NEW_N(e->arena, int64_t, e->k->n_vars + 1);
  if (!dims || hi > 1 << 16) return false;
  for (int64_t v = 0; v <= hi; v++) {
    if (var >= 0) dims[var] = v;
    if (sn_ix_eval(a, dims, NULL) == sn_ix_eval(b, dims, NULL)) return false;
  }
  return true;
}

/* Another tile whose place in shared memory this one takes, in use since threads last met. */
static bool takes_a_place(const gpu_emit *e, const gpu_buffer *b) {
  for (int o = 0; b->home == HOME_SHARED && o < e->k->n_buffers; o++) {
    const gpu_buffer *other = &e->buffers[o];
    if (other == b || other->home != HOME_SHARED || !(other->read || other->written)) continue;
    if (b->offset < other->offset + other->bytes && other->offset < b->offset + b->bytes) return true;
  }
  return false;
}

static void check(void *ctx, int buffer, const sn_ix *first, bool writes) {
  conflict *c = ctx;
  const gpu_buffer *b = &c->e->buffers[buffer];
  c->found |= writes && takes_a_place(c->e, b);
  if (!b->hot) return;
  c->any_hot_write |= writes;
  c->found |= b->written && !always_differ(c->e, b->written_at, first);
  c->found |= writes && b->read && !always_differ(c->e, b->read_at, first);
}

static void join_access(bool *flag, const sn_ix **at, bool other, const sn_ix *other_at) {
  if (!other) return;
  *at = !*flag || *at == other_at ? other_at : NULL;
  *flag = true;
}

static void note(void *ctx, int buffer, const sn_ix *first, bool writes) {
  gpu_buffer *b = &((gpu_emit *)ctx)->buffers[buffer];
  join_access(writes ? &b->written : &b->read, writes ? &b->written_at : &b->read_at, true, first);
}

/* Loops and branches of the whole block look after their own nodes; all else is taken as one piece. */
static bool looks_after_itself(const sn_knode *n) {
  bool serial_loop = n->op == SN_K_FOR && (n->loop == SN_KLOOP_SEQ || n->loop == SN_KLOOP_UNROLL);
  return serial_loop || n->op == SN_K_IF || n->op == SN_K_WHILE;
}

void gpu_before(gpu_emit *e, const sn_knode *n) {
  if (e->lane || e->warp || looks_after_itself(n)) return;
  conflict c = {e, false, false};
  touch_node(e, n, check, &c);
  if (c.found) gpu_barrier(e);
  touch_node(e, n, note, e);
}

static bool begins_by_meeting(const sn_knode *loop) {
  const sn_knode *first = loop->op == SN_K_FOR ? loop->regions[0]->first : NULL;
  return first && (first->op == SN_K_WAIT || first->op == SN_K_BARRIER);
}

/* Does an iteration write what another one touches? Then each begins with a barrier, whose place also settles what came before the loop. Otherwise one in front of
 * the loop is enough. *before: the state at the loop's entry, for gpu_after_loop. */
bool gpu_enter_loop(gpu_emit *e, const sn_knode *loop, gpu_buffer **before) {
  conflict c = {e, false, false};
  *before = NULL;
  if (e->lane || e->warp) return false;
  for (int r = 0; r < loop->n_regions; r++) {
    for (const sn_knode *n = loop->regions[r]->first; n; n = n->next) touch_node(e, n, check, &c);
  }
  if (c.found && !c.any_hot_write) gpu_barrier(e);
  *before = sn_arena_copy(e->arena, e->buffers, (size_t)e->k->n_buffers * sizeof **before);
  if (e->k->n_buffers && !*before) gpu_fail(e, SN_ERR_MEMORY, NULL);
  return c.any_hot_write && !begins_by_meeting(loop);
}

void gpu_join(gpu_buffer *to, const gpu_buffer *other) {
  join_access(&to->read, &to->read_at, other->read, other->read_at);
  join_access(&to->written, &to->written_at, other->written, other->written_at);
}

/* The loop may have run not at all: what was open before it still is. A while loop is left in its middle: then all that it touches is open. */
void gpu_after_loop(gpu_emit *e, const sn_knode *loop, const gpu_buffer *before) {
  if (e->lane || e->warp || !before) return;
  for (int b = 0; b < e->k->n_buffers; b++) {
    gpu_join(&e->buffers[b], &before[b]);
  }
  if (loop->op == SN_K_WHILE) touch_node(e, loop, note, e);
}
