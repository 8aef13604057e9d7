/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Where the lanes of a divergent branch meet again: its immediate post-dominator, by the iteration of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm"
 * (2001), over the reversed graph of basic blocks. Every way ends at the instruction behind the last. */
#include <string.h>

#include "emu.h"

typedef struct flow {
  const emu_function *f;
  uint32_t n;            /* blocks; the last one is the end */
  uint32_t *first;       /* of a block: its first instruction */
  uint32_t *block_of;    /* of an instruction that begins one; else EMU_NOWHERE */
  uint32_t *edges, *edge_at; /* predecessors: of block b, edges[edge_at[b] .. edge_at[b + 1]) */
  uint32_t *order, n_order;  /* blocks from the end back, in reverse post-order of the reversed graph */
  uint32_t *number;      /* a block's place in it */
  uint32_t *dominator;
} flow;

static uint32_t last_of(const flow *w, uint32_t b) { return w->first[b + 1] - 1; }

/* The k-th successor of a block; EMU_NOWHERE behind the last. */
static uint32_t successor(const flow *w, uint32_t b, uint32_t k) {
  if (b + 1 == w->n) return EMU_NOWHERE;
  const emu_ins *i = &w->f->code[last_of(w, b)];
  bool falls = i->kind == EMU_PLAIN || i->kind == EMU_CALL || i->kind == EMU_BARRIER || ((i->kind == EMU_BRANCH || i->kind == EMU_EXIT || i->kind == EMU_TRAP) && i->predicate != EMU_NOWHERE);
  uint32_t n = 0;
  if (falls && n++ == k) return b + 1;
  if (i->kind == EMU_BRANCH && n++ == k) return w->block_of[i->target];
  if ((i->kind == EMU_EXIT || i->kind == EMU_TRAP) && n++ == k) return w->n - 1;
  if (i->kind == EMU_INDEXED && k - n < (uint64_t)i->offset) return w->block_of[i->targets[k - n]];
  return EMU_NOWHERE;
}

static void mark(flow *w, uint32_t at) {
  if (w->block_of[at] == EMU_NOWHERE) w->block_of[at] = 0;
}

static bool find_blocks(sn_arena *a, flow *w) {
  uint32_t n = w->f->n;
  w->block_of = sn_arena_alloc(a, (n + 2) * sizeof *w->block_of);
  w->first = sn_arena_zero(a, n + 3, sizeof *w->first);
  if (!w->block_of || !w->first) return false;
  memset(w->block_of, 0xff, (n + 2) * sizeof *w->block_of);
  mark(w, 0);
  mark(w, n);
  for (uint32_t k = 0; k < n; k++) {
    const emu_ins *i = &w->f->code[k];
    if (i->kind == EMU_PLAIN || i->kind == EMU_CALL || i->kind == EMU_BARRIER) continue;
    mark(w, k + 1);
    if (i->kind == EMU_BRANCH) mark(w, i->target);
    for (int64_t t = 0; i->kind == EMU_INDEXED && t < i->offset; t++) mark(w, i->targets[t]);
  }
  for (uint32_t k = 0; k <= n; k++) {
    if (w->block_of[k] == EMU_NOWHERE) continue;
    w->first[w->n] = k;
    w->block_of[k] = w->n++;
  }
  w->first[w->n] = n + 1;
  return true;
}

static bool find_edges(sn_arena *a, flow *w) {
  uint32_t total = 0;
  w->edge_at = sn_arena_zero(a, w->n + 2, sizeof *w->edge_at);
  if (!w->edge_at) return false;
  for (uint32_t b = 0; b < w->n; b++) {
    for (uint32_t k = 0, s; (s = successor(w, b, k)) != EMU_NOWHERE; k++, total++) w->edge_at[s + 2]++;
  }
  w->edges = sn_arena_zero(a, total + 1u, sizeof *w->edges);
  if (!w->edges) return false;
  for (uint32_t b = 2; b < w->n + 2; b++) w->edge_at[b] += w->edge_at[b - 1];
  for (uint32_t b = 0; b < w->n; b++) {
    for (uint32_t k = 0, s; (s = successor(w, b, k)) != EMU_NOWHERE; k++) w->edges[w->edge_at[s + 1]++] = b;
  }
  return true;
}

/* Depth first from the end along predecessors. */
static bool find_order(sn_arena *a, flow *w) {
  uint32_t *stack = sn_arena_zero(a, w->n + 1u, sizeof *stack), *next = sn_arena_zero(a, w->n + 1u, sizeof *next), depth = 0;
  w->order = sn_arena_zero(a, w->n + 1u, sizeof *w->order);
  w->number = sn_arena_alloc(a, (w->n + 1u) * sizeof *w->number);
  if (!stack || !next || !w->order || !w->number) return false;
  memset(w->number, 0xff, (w->n + 1u) * sizeof *w->number);
  for (uint32_t b = 0; b < w->n; b++) next[b] = w->edge_at[b];
  stack[depth++] = w->n - 1;
  w->number[w->n - 1] = 0;
  while (depth) {
    uint32_t b = stack[depth - 1];
    if (next[b] == w->edge_at[b + 1]) {
      w->order[w->n_order++] = b;
      depth--;
      continue;
    }
    uint32_t p = w->edges[next[b]++];
    if (w->number[p] != EMU_NOWHERE) continue;
    w->number[p] = 0;
    stack[depth++] = p;
  }
  for (uint32_t k = 0; k < w->n_order; k++) w->number[w->order[k]] = k; /* the end has the highest */
  return true;
}

static uint32_t meet(const flow *w, uint32_t a, uint32_t b) {
  while (a != b) {
    while (w->number[a] < w->number[b]) a = w->dominator[a];
    while (w->number[b] < w->number[a]) b = w->dominator[b];
  }
  return a;
}

static bool find_dominators(sn_arena *a, flow *w) {
  uint32_t end = w->n - 1;
  w->dominator = sn_arena_alloc(a, (w->n + 1u) * sizeof *w->dominator);
  if (!w->dominator) return false;
  memset(w->dominator, 0xff, (w->n + 1u) * sizeof *w->dominator);
  w->dominator[end] = end;
  for (bool changed = true; changed;) {
    changed = false;
    for (uint32_t k = w->n_order - 1; k-- > 0;) {
      uint32_t b = w->order[k], best = EMU_NOWHERE;
      for (uint32_t j = 0, s; (s = successor(w, b, j)) != EMU_NOWHERE; j++) {
        if (w->number[s] == EMU_NOWHERE || w->dominator[s] == EMU_NOWHERE) continue;
        best = best == EMU_NOWHERE ? s : meet(w, best, s);
      }
      if (best == w->dominator[b]) continue;
      w->dominator[b] = best;
      changed = true;
    }
  }
  return true;
}

bool emu_flow(sn_arena *a, emu_function *f) {
  flow w = {.f = f};
  if (!find_blocks(a, &w) || !find_edges(a, &w) || !find_order(a, &w) || !find_dominators(a, &w)) return false;
  for (uint32_t b = 0; b + 1 < w.n; b++) {
    emu_ins *i = &f->code[last_of(&w, b)];
    if (i->kind != EMU_BRANCH && i->kind != EMU_INDEXED) continue;
    uint32_t d = w.dominator[b]; /* a loop without an end meets nowhere: at the end */
    i->meet = d == EMU_NOWHERE || w.number[b] == EMU_NOWHERE ? f->n : w.first[d];
  }
  return true;
}
