/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Barriers. Threads of a block meet before a node that touches what another thread may have touched since they last met.
 *
 * Only buffers that the phase both writes and reads, or writes in two places, can be in conflict ("hot"). Inside a lane no barrier can stand: one lane's own order is
 * enough there, because items of a vector loop do not depend on each other. */
#include "emit.h"

typedef void (*touch_fn)(void *ctx, int buffer, bool writes);

static void touch_node(const sn_knode *n, touch_fn fn, void *ctx) {
  switch (n->op) {
    case SN_K_LOAD: fn(ctx, n->buffer, false); break;
    case SN_K_STORE: fn(ctx, n->buffer, true); break;
    case SN_K_ATOMIC: fn(ctx, n->buffer, true); break;
    case SN_K_COPY:
      fn(ctx, n->copy->from.buffer, false);
      fn(ctx, n->copy->to.buffer, true);
      break;
    case SN_K_CONTRACT:
      fn(ctx, n->contract->a.buffer, false);
      fn(ctx, n->contract->b.buffer, false);
      fn(ctx, n->contract->acc.buffer, true);
      break;
    default: break;
  }
  for (int r = 0; r < n->n_regions; r++) {
    for (const sn_knode *x = n->regions[r]->first; x; x = x->next) touch_node(x, fn, ctx);
  }
}

static bool shared_by_threads(const gpu_buffer *b) { return b->home != HOME_PRIVATE && b->home != HOME_SPREAD; }

/* ---- which buffers matter ---- */

static void count(void *ctx, int buffer, bool writes) {
  int *counts = (int *)ctx + 2 * buffer;
  counts[writes]++;
}

void gpu_find_hot(gpu_emit *e, const sn_kregion *body) {
  int *counts = SN_NEW_N(e->arena, int, 2 * e->k->n_buffers + 2);
  if (!counts) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return;
  }
  for (const sn_knode *n = body->first; n; n = n->next) touch_node(n, count, counts);
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

static void check(void *ctx, int buffer, bool writes) {
  conflict *c = ctx;
  const gpu_buffer *b = &c->e->buffers[buffer];
  if (!b->hot) return;
  c->any_hot_write |= writes;
  c->found |= b->written || (writes && b->read);
}

static void note(void *ctx, int buffer, bool writes) {
  gpu_buffer *b = &((gpu_emit *)ctx)->buffers[buffer];
  if (writes) b->written = true;
  else b->read = true;
}

/* Loops and branches of the whole block look after their own nodes; all else is taken as one piece. */
static bool looks_after_itself(const sn_knode *n) {
  bool serial_loop = n->op == SN_K_FOR && (n->loop == SN_KLOOP_SEQ || n->loop == SN_KLOOP_UNROLL);
  return serial_loop || n->op == SN_K_IF || n->op == SN_K_WHILE;
}

void gpu_before(gpu_emit *e, const sn_knode *n) {
  if (e->lane || looks_after_itself(n)) return;
  conflict c = {e, false, false};
  touch_node(n, check, &c);
  if (c.found) gpu_barrier(e);
  touch_node(n, note, e);
}

/* Does an iteration write what another one touches? Then each begins with a barrier, whose place also settles what came before the loop. Otherwise one in front of
 * the loop is enough. *before: the state at the loop's entry, for gpu_after_loop. */
bool gpu_enter_loop(gpu_emit *e, const sn_knode *loop, gpu_buffer **before) {
  conflict c = {e, false, false};
  *before = NULL;
  if (e->lane) return false;
  for (int r = 0; r < loop->n_regions; r++) {
    for (const sn_knode *n = loop->regions[r]->first; n; n = n->next) touch_node(n, check, &c);
  }
  if (c.found && !c.any_hot_write) gpu_barrier(e);
  *before = sn_arena_copy(e->arena, e->buffers, (size_t)e->k->n_buffers * sizeof **before);
  if (e->k->n_buffers && !*before) gpu_fail(e, SN_ERR_MEMORY, NULL);
  return c.any_hot_write;
}

/* The loop may have run not at all: what was open before it still is. A while loop is left in its middle: then all that it touches is open. */
void gpu_after_loop(gpu_emit *e, const sn_knode *loop, const gpu_buffer *before) {
  if (e->lane || !before) return;
  for (int b = 0; b < e->k->n_buffers; b++) {
    e->buffers[b].read |= before[b].read;
    e->buffers[b].written |= before[b].written;
  }
  if (loop->op == SN_K_WHILE) touch_node(loop, note, e);
}
