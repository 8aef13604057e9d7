/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fixes the order of instructions as the schedule: of several orders the one with the lowest simulated peak.
 *
 *   - the order there is, as far as the rules below allow;
 *   - greedy forwards: of the ready instructions the one that frees most bytes for what it makes;
 *   - greedy backwards: of those whose readers are all placed the one whose result ends the life of most bytes for what it keeps alive.
 *
 * What is written over an argument (input_output_alias) comes behind every reader of that argument where that makes no cycle: otherwise copy insertion would have to copy.
 * (List scheduling by memory: Briggs et al.; XLA's list scheduler ranks in the first way.) */
#include "../passes_internal.h"

#include <string.h>

#include "leaves.h"
#include "liveness.h"

typedef struct edges { uint32_t *first, *to; } edges; /* by position: to[first[k] … first[k + 1]) */

typedef struct scheduler {
  sn_pass_ctx *pc;
  sn_computation *c;
  sn_liveness l;
  uint32_t n_edges, cap_edges;
  uint32_t *from, *to;       /* all edges, unsorted */
  edges succ, pred;
  edges readers;             /* by value: positions */
  uint32_t *left;            /* by value: reads to come */
  uint32_t *waits;           /* by position: edges to come */
  bool *done;
} scheduler;

static sn_status no_memory(const scheduler *s) { return sn_out_of_memory(s->pc->diag, s->l.n * sizeof(uint32_t)); }

/* ---- edges ---- */

static sn_status add_edge(scheduler *s, uint32_t from, uint32_t to) {
  if (s->n_edges == s->cap_edges) {
    uint32_t cap = s->cap_edges ? 2 * s->cap_edges : 1024;
    uint32_t *f = SN_NEW_N(s->pc->scratch, uint32_t, cap), *t = SN_NEW_N(s->pc->scratch, uint32_t, cap);
    if (!f || !t) return no_memory(s);
    if (s->n_edges) {
      memcpy(f, s->from, s->n_edges * sizeof *f);
      memcpy(t, s->to, s->n_edges * sizeof *t);
    }
    s->from = f;
    s->to = t;
    s->cap_edges = cap;
  }
  s->from[s->n_edges] = from;
  s->to[s->n_edges++] = to;
  return SN_OK;
}

static sn_status operand_edges(scheduler *s) {
  for (uint32_t k = 0; k < s->l.n; k++) {
    const sn_instr *i = s->l.instrs[k];
    for (uint32_t o = 0; o < i->n_operands; o++) SN_TRY(add_edge(s, s->l.position[sn_instr_operand(i, o)->id], k));
    for (uint16_t e = 0; e < i->n_control; e++) SN_TRY(add_edge(s, s->l.position[i->control[e]->id], k));
  }
  return SN_OK;
}

/* Every instruction that reads leaf `leaf` of parameter p, through names, comes before `writer`. */
static sn_status readers_before(scheduler *s, const sn_instr *p, int leaf, const sn_instr *writer) {
  sn_list names = {0};
  sn_status st = sn_list_push(&names, (sn_instr *)p);
  while (st == SN_OK && names.n) {
    sn_instr *x = sn_list_pop(&names);
    for (sn_use *u = x->first_use; u && st == SN_OK; u = u->next) {
      sn_instr *r = u->user;
      if (r == writer || r->op == SN_OP_TUPLE) continue;
      if (r->op == SN_OP_GET_TUPLE_ELEMENT || sn_is_rename(r)) {
        sn_leaf_value v = sn_leaf_source(r, 0);
        bool same = v.instr == p && sn_shape_is_array(r->shape) && v.leaf == leaf;
        if (same || !sn_shape_is_array(r->shape)) st = sn_list_push(&names, r) == SN_OK ? SN_OK : no_memory(s);
        continue;
      }
      st = add_edge(s, s->l.position[r->id], s->l.position[writer->id]);
    }
  }
  sn_list_finish(&names);
  return st;
}

static sn_status alias_edges(scheduler *s) {
  const sn_module *m = s->c->module;
  if (s->c != m->entry) return SN_OK;
  for (int64_t a = 0; a < m->n_aliases; a++) {
    const sn_instr *p = m->entry->params[m->aliases[a].operand];
    sn_leaf_value v = sn_leaf_source(s->c->root, sn_leaf_at(s->c->root->shape, m->aliases[a].output_index));
    if (v.instr->op == SN_OP_PARAMETER || v.instr->op == SN_OP_CONSTANT) continue;
    SN_TRY(readers_before(s, p, sn_leaf_at(p->shape, m->aliases[a].operand_index), v.instr));
  }
  return SN_OK;
}

/* Edges by `key`, counted and laid behind each other. */
static sn_status sort_edges(scheduler *s, uint32_t n_keys, uint32_t n, const uint32_t *key, const uint32_t *value, edges *out) {
  out->first = SN_NEW_N(s->pc->scratch, uint32_t, n_keys + 2);
  out->to = SN_NEW_N(s->pc->scratch, uint32_t, n + 1);
  if (!out->first || !out->to) return no_memory(s);
  for (uint32_t e = 0; e < n; e++) out->first[key[e] + 2]++;
  for (uint32_t k = 2; k < n_keys + 2; k++) out->first[k] += out->first[k - 1];
  for (uint32_t e = 0; e < n; e++) out->to[out->first[key[e] + 1]++] = value[e];
  return SN_OK;
}

static sn_status find_readers(scheduler *s) {
  uint32_t n = s->l.first_read[s->l.n];
  uint32_t *reader = SN_NEW_N(s->pc->scratch, uint32_t, n + 1);
  if (!reader) return no_memory(s);
  for (uint32_t k = 0; k < s->l.n; k++) {
    for (uint32_t r = s->l.first_read[k]; r < s->l.first_read[k + 1]; r++) reader[r] = k;
  }
  return sort_edges(s, s->l.n_values, n, s->l.reads, reader, &s->readers);
}

/* ---- a heap of what may come next ---- */

typedef struct ready { int64_t gain; uint32_t at; } ready;
typedef struct heap { ready *v; uint32_t n, cap; bool late; /* ties: the last first */ } heap;

static bool before(const heap *h, const ready *a, const ready *b) {
  if (a->gain != b->gain) return a->gain > b->gain;
  return h->late ? a->at > b->at : a->at < b->at;
}

static sn_status heap_push(heap *h, ready x) {
  if (h->n == h->cap) {
    uint32_t cap = h->cap ? 2 * h->cap : 256;
    ready *wider = sn_realloc(h->v, cap * sizeof *wider);
    if (!wider) return SN_ERR_MEMORY;
    h->v = wider;
    h->cap = cap;
  }
  uint32_t k = h->n++;
  while (k > 0 && before(h, &x, &h->v[(k - 1) / 2])) {
    h->v[k] = h->v[(k - 1) / 2];
    k = (k - 1) / 2;
  }
  h->v[k] = x;
  return SN_OK;
}

static ready heap_pop(heap *h) {
  ready top = h->v[0], x = h->v[--h->n];
  uint32_t k = 0;
  for (;;) {
    uint32_t c = 2 * k + 1;
    if (c >= h->n) break;
    if (c + 1 < h->n && before(h, &h->v[c + 1], &h->v[c])) c++;
    if (!before(h, &h->v[c], &x)) break;
    h->v[k] = h->v[c];
    k = c;
  }
  if (h->n) h->v[k] = x;
  return top;
}

/* ---- gains ---- */

/* Names cost nothing and let others go on: at once. */
static const int64_t FIRST = INT64_MAX;

static bool is_name(const scheduler *s, uint32_t k) { return s->l.first_value[k] == s->l.first_value[k + 1]; }

static int64_t made_bytes(const scheduler *s, uint32_t k) {
  int64_t bytes = 0;
  for (uint32_t v = s->l.first_value[k]; v < s->l.first_value[k + 1]; v++) bytes += s->l.values[v].bytes;
  return bytes;
}

/* Forwards: bytes freed less bytes made. */
static int64_t forward_gain(const scheduler *s, uint32_t k) {
  if (is_name(s, k)) return FIRST;
  int64_t g = -made_bytes(s, k);
  for (uint32_t r = s->l.first_read[k]; r < s->l.first_read[k + 1]; r++) {
    if (s->left[s->l.reads[r]] == 1) g += s->l.values[s->l.reads[r]].bytes;
  }
  return g;
}

/* Backwards: bytes that need not live earlier less bytes that must. left: readers placed. */
static int64_t backward_gain(const scheduler *s, uint32_t k) {
  if (is_name(s, k)) return FIRST;
  int64_t g = made_bytes(s, k);
  for (uint32_t r = s->l.first_read[k]; r < s->l.first_read[k + 1]; r++) {
    const sn_live_value *v = &s->l.values[s->l.reads[r]];
    if (s->left[s->l.reads[r]] == 0 && !v->pinned) g -= v->bytes;
  }
  return g;
}

/* What reads values whose count of readers to come changed is ranked anew. */
static sn_status rank_readers(const scheduler *s, heap *h, uint32_t value, int64_t (*gain)(const scheduler *, uint32_t)) {
  for (uint32_t r = s->readers.first[value]; r < s->readers.first[value + 1]; r++) {
    uint32_t k = s->readers.to[r];
    if (!s->done[k] && s->waits[k] == 0) SN_TRY(heap_push(h, (ready){gain(s, k), k}));
  }
  return SN_OK;
}

/* ---- orders ---- */

typedef enum direction { PRESENT, FORWARDS, BACKWARDS } direction;

static void start_counts(scheduler *s, const edges *in, direction d) {
  for (uint32_t k = 0; k < s->l.n; k++) {
    s->waits[k] = in->first[k + 1] - in->first[k];
    s->done[k] = false;
  }
  for (uint32_t v = 0; v < s->l.n_values; v++) s->left[v] = d == BACKWARDS ? 0 : s->l.values[v].n_readers + s->l.values[v].pinned;
}

static int64_t no_gain(const scheduler *s, uint32_t k) {
  (void)s;
  (void)k;
  return 0;
}

static sn_status count_reads(scheduler *s, heap *h, uint32_t k, direction d, int64_t (*gain)(const scheduler *, uint32_t)) {
  for (uint32_t r = s->l.first_read[k]; r < s->l.first_read[k + 1]; r++) {
    uint32_t v = s->l.reads[r];
    if (d == BACKWARDS ? s->left[v]++ == 0 : --s->left[v] == 1) SN_TRY(rank_readers(s, h, v, gain));
  }
  return SN_OK;
}

/* The order in which positions run. *complete: false where edges make a cycle. */
static sn_status list_order(scheduler *s, heap *h, direction d, uint32_t *order, bool *complete) {
  static int64_t (*const gains[])(const scheduler *, uint32_t) = {no_gain, forward_gain, backward_gain};
  int64_t (*gain)(const scheduler *, uint32_t) = gains[d];
  const edges *in = d == BACKWARDS ? &s->succ : &s->pred, *out = d == BACKWARDS ? &s->pred : &s->succ;
  uint32_t n = 0;
  start_counts(s, in, d);
  h->n = 0;
  h->late = d == BACKWARDS;
  for (uint32_t k = 0; k < s->l.n; k++) {
    if (s->waits[k] == 0) SN_TRY(heap_push(h, (ready){gain(s, k), k}));
  }
  while (h->n) {
    ready r = heap_pop(h);
    if (s->done[r.at] || (d != PRESENT && r.gain != gain(s, r.at))) continue; /* ranked anew since */
    s->done[r.at] = true;
    order[d == BACKWARDS ? s->l.n - 1 - n : n] = r.at;
    n++;
    if (d != PRESENT) SN_TRY(count_reads(s, h, r.at, d, gain));
    for (uint32_t e = out->first[r.at]; e < out->first[r.at + 1]; e++) {
      if (--s->waits[out->to[e]] == 0) SN_TRY(heap_push(h, (ready){gain(s, out->to[e]), out->to[e]}));
    }
  }
  *complete = n == s->l.n;
  return SN_OK;
}

static sn_status build_edges(scheduler *s, bool aliases) {
  s->n_edges = 0;
  SN_TRY(operand_edges(s));
  if (aliases) SN_TRY(alias_edges(s));
  SN_TRY(sort_edges(s, s->l.n, s->n_edges, s->from, s->to, &s->succ));
  return sort_edges(s, s->l.n, s->n_edges, s->to, s->from, &s->pred);
}

static void remark(const scheduler *s, const int64_t *peaks, int chosen) {
  static const char *const names[] = {"order as it was", "greedy forwards", "greedy backwards"};
  sn_number numbers[] = {{"peak", (double)peaks[chosen]}, {"as_it_was", (double)peaks[PRESENT]}, {"forwards", (double)peaks[FORWARDS]}, {"backwards", (double)peaks[BACKWARDS]}};
  if (s->l.n_values > 1) sn_pass_remark(s->pc, SN_DONE, SN_REASON_PEAK, s->c->root, NULL, 4, numbers, names[chosen]);
}

static sn_status try_orders(scheduler *s, heap *h, uint32_t *order, uint32_t *best, int64_t *peak) {
  int64_t peaks[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  int chosen = -1;
  for (int d = PRESENT; d <= BACKWARDS; d++) {
    bool complete;
    if (list_order(s, h, (direction)d, order, &complete) != SN_OK) return no_memory(s);
    if (!complete) {
      SN_TRY(build_edges(s, false)); /* a reader of the argument needs what is written over it */
      if (list_order(s, h, (direction)d, order, &complete) != SN_OK) return no_memory(s);
    }
    sn_assert(complete);
    peaks[d] = sn_liveness_peak(&s->l, order, s->left, NULL);
    if (chosen >= 0 && peaks[d] >= peaks[chosen]) continue;
    chosen = d;
    memcpy(best, order, s->l.n * sizeof *best);
  }
  *peak = peaks[chosen];
  remark(s, peaks, chosen);
  return SN_OK;
}

static sn_status schedule_computation(sn_pass_ctx *pc, sn_computation *c, uint32_t *position, int64_t *inner) {
  scheduler s;
  heap h = {0};
  memset(&s, 0, sizeof s);
  s.pc = pc;
  s.c = c;
  SN_TRY(sn_computation_sort(pc->diag, c));
  if (sn_liveness_find(pc->scratch, c, position, inner, &s.l) != SN_OK) return no_memory(&s);
  s.left = SN_NEW_N(pc->scratch, uint32_t, s.l.n_values + 1);
  s.waits = SN_NEW_N(pc->scratch, uint32_t, s.l.n + 1);
  s.done = SN_NEW_N(pc->scratch, bool, s.l.n + 1);
  uint32_t *order = SN_NEW_N(pc->scratch, uint32_t, s.l.n + 1), *best = SN_NEW_N(pc->scratch, uint32_t, s.l.n + 1);
  if (!s.left || !s.waits || !s.done || !order || !best) return no_memory(&s);
  SN_TRY(build_edges(&s, true));
  SN_TRY(find_readers(&s));
  sn_status st = try_orders(&s, &h, order, best, &inner[c->id]);
  sn_free(h.v);
  if (st != SN_OK) return st;
  for (uint32_t q = 0; q < s.l.n; q++) {
    pc->changed |= best[q] != q;
    sn_instr_move_before(s.l.instrs[best[q]], NULL);
  }
  return SN_OK;
}

sn_status sn_pass_schedule(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  uint32_t *position = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1);
  int64_t *inner = SN_NEW_N(pc->scratch, int64_t, m->n_comp_ids + 1);
  if (!position || !inner) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *position);
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) { /* callees first: their peaks count where they are run */
    if (!g.in_fusion[c->id] && !g.is_applied[c->id]) SN_TRY(schedule_computation(pc, c, position, inner));
  }
  pc->changed |= !m->is_scheduled;
  m->is_scheduled = true;
  return SN_OK;
}
