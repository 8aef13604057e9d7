/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fixes the order of instructions as the schedule.
 *
 * Each computation is put into an order in which operands come first. Among ready instructions the one is taken that frees most memory; ties go to the
 * present order. (A greedy list schedule: Briggs et al.; XLA's list scheduler ranks the same way.) The result is kept only where its simulated peak is lower. */
#include "../passes_internal.h"
#include "leaves.h"

#include <stdlib.h>
#include <string.h>

typedef struct order {
  uint32_t n;
  sn_instr **v;
  int64_t peak;
} order;

static bool owns_memory(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_PARAMETER:
    case SN_OP_CONSTANT:
    case SN_OP_TUPLE:
    case SN_OP_GET_TUPLE_ELEMENT: return false;
    default: return !sn_is_rename(i);
  }
}

static int64_t bytes_of(const sn_instr *i) { return owns_memory(i) ? sn_shape_bytes(i->shape) : 0; }

/* Peak of live bytes when the computation runs in this order; a value dies with its last user. Values looked through (tuples …) keep their operands alive simply by
 * being users. */
static int64_t simulate(const order *o, uint32_t *left) {
  int64_t live = 0, peak = 0;
  for (uint32_t k = 0; k < o->n; k++) left[o->v[k]->id] = o->v[k]->n_uses + (o->v[k]->parent->root == o->v[k]);
  for (uint32_t k = 0; k < o->n; k++) {
    live += bytes_of(o->v[k]);
    if (live > peak) peak = live;
    for (uint32_t u = 0; u < o->v[k]->n_operands; u++) {
      const sn_instr *x = sn_instr_operand(o->v[k], u);
      if (--left[x->id] == 0) live -= bytes_of(x);
    }
    if (left[o->v[k]->id] == 0) live -= bytes_of(o->v[k]);
  }
  return peak;
}

/* ---- greedy ---- */

typedef struct ready {
  int64_t gain; /* bytes freed less bytes made */
  uint32_t position;
  sn_instr *i;
} ready;

static int64_t gain_of(const sn_instr *i, const uint32_t *left) {
  int64_t g = -bytes_of(i);
  for (uint32_t u = 0; u < i->n_operands; u++) {
    const sn_instr *x = sn_instr_operand(i, u);
    if (left[x->id] == 1) g += bytes_of(x);
  }
  return g;
}

static bool before(const ready *a, const ready *b) { return a->gain != b->gain ? a->gain > b->gain : a->position < b->position; }

static void heap_push(ready *h, uint32_t *n, ready x) {
  uint32_t k = (*n)++;
  while (k > 0 && before(&x, &h[(k - 1) / 2])) {
    h[k] = h[(k - 1) / 2];
    k = (k - 1) / 2;
  }
  h[k] = x;
}

static ready heap_pop(ready *h, uint32_t *n) {
  ready top = h[0], x = h[--*n];
  uint32_t k = 0;
  for (;;) {
    uint32_t c = 2 * k + 1;
    if (c >= *n) break;
    if (c + 1 < *n && before(&h[c + 1], &h[c])) c++;
    if (!before(&h[c], &x)) break;
    h[k] = h[c];
    k = c;
  }
  if (*n) h[k] = x;
  return top;
}

typedef struct tables {
  uint32_t *left, *waits, *position;
  ready *heap;
} tables;

/* Gains grow only when another user of an operand ran; a stale entry is re-ranked when it is popped. */
static sn_status greedy(const sn_computation *c, tables *t, order *out) {
  uint32_t n_heap = 0;
  out->n = 0;
  SN_FOR_INSTRS(i, c) {
    t->left[i->id] = i->n_uses + (c->root == i);
    t->waits[i->id] = i->n_operands;
    if (i->n_control) return SN_ERR_UNSUPPORTED; /* control edges: keep the order there is */
  }
  SN_FOR_INSTRS(i, c) {
    if (t->waits[i->id] == 0) heap_push(t->heap, &n_heap, (ready){gain_of(i, t->left), t->position[i->id], i});
  }
  while (n_heap) {
    ready r = heap_pop(t->heap, &n_heap);
    int64_t now = gain_of(r.i, t->left);
    if (now != r.gain && n_heap && !before(&(ready){now, r.position, r.i}, &t->heap[0])) {
      r.gain = now;
      heap_push(t->heap, &n_heap, r);
      continue;
    }
    out->v[out->n++] = r.i;
    for (uint32_t u = 0; u < r.i->n_operands; u++) t->left[sn_instr_operand(r.i, u)->id]--;
    SN_FOR_USES(u, r.i) {
      if (--t->waits[u->user->id] == 0) heap_push(t->heap, &n_heap, (ready){gain_of(u->user, t->left), t->position[u->user->id], u->user});
    }
  }
  return SN_OK;
}

static sn_status schedule_computation(sn_pass_ctx *pc, sn_computation *c, tables *t) {
  SN_TRY(sn_computation_sort(pc->diag, c));
  order now = {0, SN_NEW_N(pc->scratch, sn_instr *, c->n_instrs + 1), 0}, other = {0, SN_NEW_N(pc->scratch, sn_instr *, c->n_instrs + 1), 0};
  if (!now.v || !other.v) return sn_out_of_memory(pc->diag, c->n_instrs * sizeof *now.v);
  SN_FOR_INSTRS(i, c) {
    t->position[i->id] = now.n;
    now.v[now.n++] = i;
  }
  if (greedy(c, t, &other) != SN_OK) return SN_OK;
  sn_assert(other.n == now.n);
  now.peak = simulate(&now, t->left);
  other.peak = simulate(&other, t->left);
  if (other.peak >= now.peak) return SN_OK;
  for (uint32_t k = 0; k < other.n; k++) sn_instr_move_before(other.v[k], NULL);
  pc->changed = true;
  return SN_OK;
}

sn_status sn_pass_schedule(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  tables t = {SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1), SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1), SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1),
              SN_NEW_N(pc->scratch, ready, m->n_ids + 1)};
  if (!t.left || !t.waits || !t.position || !t.heap) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *t.heap);
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id] || g.is_applied[c->id]) continue;
    SN_TRY(schedule_computation(pc, c, &t));
  }
  pc->changed |= !m->is_scheduled;
  m->is_scheduled = true;
  return SN_OK;
}
