/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Several fusions as one command.
 *
 * Fusions that read the same large value (query, key and value; a layer's input and weight gradients and the sums of its bias), and fusions that only hand a value on to
 * the next, become the parts of one fusion, whose body holds them as fusions of its own:
 *
 *   a = fusion(x, w); b = fusion(x, v)     ->     ab = fusion(x, w, v) { a = fusion(x, w); b = fusion(x, v); ROOT (a, b) }
 *
 * Its kernel runs them one after the other, each by its own template: what a part makes is stored, and later parts read it there. One launch, and one barrier a phase,
 * instead of one a part.
 *
 * Runs behind the schedule, which says what waits for what: a part moves down to the last one, or up to the first, only past instructions that neither make what it
 * reads nor read what it makes, and only where the memory alive there stays below the highest there is. Bodies are shared, so that equal layers share kernels.
 * Linear: each fusion is compared with the few that read or made its operands last. */
#include "../memory/leaves.h"
#include "../memory/liveness.h"
#include "../passes_internal.h"
#include "sinter/cost.h"

#include <string.h>

enum {
  MAX_PARTS = 6,
  MAX_RESULTS = 16,
  MAX_INPUTS = 60,
  MAX_INSTRS = 600,
  WINDOW = 48,             /* most instructions between the parts */
  LEAST_SHARED = 65536,    /* bytes of a value worth sharing */
  CANDIDATES = 8,
  SPARE = 24               /* under a limit, one part in so many of the peak stays free */
};

typedef struct group {
  uint32_t at;             /* where its command stands */
  int n, n_results, n_instrs;
  uint32_t parts[MAX_PARTS]; /* positions, in order */
} group;

typedef struct merger {
  sn_pass_ctx *pc;
  sn_module *m;
  sn_computation *c;
  sn_liveness l;
  uint32_t *position;      /* by instruction id */
  uint32_t n_ids;          /* ids that have a position */
  group **group_of;        /* by position; NULL: no fusion that may be a part */
  group **reader_of;       /* by instruction id: the group that read its value last */
  uint32_t *last;          /* by value: where it is read last */
  uint32_t *first_reader, *readers; /* by value, n_values + 1 of them: the positions that read it */
  uint32_t *writer;        /* by parameter number: where the result that is written over it is made */
  int64_t *alive;          /* by position: bytes */
  int64_t *shared;         /* by position: bytes of results that are written over operands */
  int64_t peak;            /* what no merging may exceed */
} merger;

static sn_status no_memory(const merger *w) { return sn_out_of_memory(w->pc->diag, w->m->n_ids * sizeof(void *)); }

/* Where the instruction at this position runs now. */
static uint32_t place_of(const merger *w, uint32_t position) { return w->group_of[position] ? w->group_of[position]->at : position; }

static bool is_part(const group *g, uint32_t position) {
  for (int k = 0; k < g->n; k++) {
    if (g->parts[k] == position) return true;
  }
  return false;
}

/* ---- which fusions ---- */

static bool may_be_part(const sn_instr *i) {
  if (i->op != SN_OP_FUSION || i->n_control || sn_instr_is_root(i) || sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING)) return false;
  if (!i->n_operands || i->sharding) return false;
  sn_hero h = sn_hero_of(i);
  if (h != SN_HERO_PRODUCT && h != SN_HERO_ROWS && h != SN_HERO_COLUMNS && h != SN_HERO_REDUCE && h != SN_HERO_LOOP) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!sn_shape_is_array(sn_operand_shape(i, k))) return false;
  }
  SN_FOR_USES(u, i) {
    if (sn_shape_is_tuple(i->shape) && u->user->op != SN_OP_GET_TUPLE_ELEMENT) return false;
  }
  return true;
}

/* The value that operand k is, by instruction and leaf. */
static sn_leaf_value operand_value(const sn_instr *i, uint32_t k) { return sn_leaf_source(sn_instr_operand(i, k), 0); }

/* Its number; UINT32_MAX: it is the world's. */
static uint32_t number_of(const merger *w, sn_leaf_value v) {
  uint32_t at = w->position[v.instr->id], first = w->l.first_value[at];
  return first == w->l.first_value[at + 1] ? UINT32_MAX : first + (uint32_t)v.leaf;
}

/* ---- the profile of memory ---- */

static void find_last(merger *w, uint32_t v) {
  uint32_t last = place_of(w, w->position[w->l.values[v].instr->id]);
  for (uint32_t r = w->first_reader[v]; r < w->first_reader[v + 1]; r++) {
    uint32_t at = place_of(w, w->readers[r]);
    if (at > last) last = at;
  }
  w->last[v] = w->l.values[v].pinned ? w->l.n : last;
}

static void find_profile(merger *w) {
  for (uint32_t v = 0; v < w->l.n_values; v++) {
    uint32_t from = w->position[w->l.values[v].instr->id];
    find_last(w, v);
    w->alive[from] += w->l.values[v].bytes;
    if (w->last[v] + 1 < w->l.n) w->alive[w->last[v] + 1] -= w->l.values[v].bytes;
  }
  for (uint32_t k = 1; k < w->l.n; k++) w->alive[k] += w->alive[k - 1];
  for (uint32_t v = 0; v < w->l.n_values; v++) {
    const sn_live_value *x = &w->l.values[v];
    uint32_t from = w->position[x->instr->id];
    for (uint32_t s = 0; s < x->n_sources; s++) {
      if (w->last[x->sources[s]] != from) continue;
      w->shared[from] += x->bytes;
      break;
    }
  }
  for (uint32_t k = 0; k < w->l.n; k++) {
    w->alive[k] -= w->shared[k];
    if (w->alive[k] > w->peak) w->peak = w->alive[k];
  }
  if (w->pc->options && w->pc->options->memory_limit > 0) w->peak -= w->peak / SPARE; /* room for packing: near the peak everything stays as it is */
}

static sn_status find_readers(merger *w) {
  uint32_t n = w->l.first_read[w->l.n];
  w->first_reader = SN_NEW_N(w->pc->scratch, uint32_t, w->l.n_values + 2);
  w->readers = SN_NEW_N(w->pc->scratch, uint32_t, n + 1);
  if (!w->first_reader || !w->readers) return no_memory(w);
  for (uint32_t r = 0; r < n; r++) w->first_reader[w->l.reads[r] + 2]++;
  for (uint32_t v = 2; v < w->l.n_values + 2; v++) w->first_reader[v] += w->first_reader[v - 1];
  for (uint32_t k = 0; k < w->l.n; k++) {
    for (uint32_t r = w->l.first_read[k]; r < w->l.first_read[k + 1]; r++) w->readers[w->first_reader[w->l.reads[r] + 1]++] = k;
  }
  return SN_OK;
}

/* ---- may they stand together? ---- */

/* Is value v handed on to position `to` alone, as it is? */
static bool only_for(const merger *w, uint32_t v, uint32_t to) {
  if (w->l.values[v].pinned || w->first_reader[v + 1] - w->first_reader[v] != 1 || w->readers[w->first_reader[v]] != to) return false;
  const sn_instr *i = w->l.instrs[to];
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    sn_leaf_value from = operand_value(i, k);
    if (from.instr != w->l.values[v].instr || from.leaf != w->l.values[v].leaf) continue;
    if (x != from.instr && !(x->op == SN_OP_GET_TUPLE_ELEMENT && sn_instr_operand(x, 0) == from.instr)) return false;
  }
  return true;
}

/* Values made again for one product, sums that go on from one product to the next, sums of what rows gave. */
static bool may_hand_on(const merger *w, uint32_t from, uint32_t to) {
  sn_hero a = sn_hero_of(w->l.instrs[from]), b = sn_hero_of(w->l.instrs[to]);
  if (a == SN_HERO_LOOP) return b == SN_HERO_PRODUCT;
  if (a == SN_HERO_PRODUCT) return b == SN_HERO_PRODUCT && sn_shape_equal(sn_shape_leaf(w->l.instrs[from]->shape, 0), sn_shape_leaf(w->l.instrs[to]->shape, 0), SN_EQ_IGNORE_TYPE);
  return a == SN_HERO_ROWS && (b == SN_HERO_COLUMNS || b == SN_HERO_REDUCE);
}

/* A result that is written over argument x: everything else that reads the argument comes before. */
static bool writes_stay_behind(const merger *w, uint32_t part, uint32_t from, uint32_t to, const group *g) {
  const sn_instr *i = w->l.instrs[part];
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = operand_value(i, k).instr;
    if (x->op != SN_OP_PARAMETER || x->parent != w->m->entry || w->m->n_aliases == 0) continue;
    uint32_t writer = w->writer[sn_instr_int(x, SN_ATTR_PARAMETER_NUMBER)];
    if (writer == UINT32_MAX) continue;
    if (to > from && writer != part && place_of(w, writer) <= to && writer < to && !is_part(g, writer)) return false; /* it would read what was written */
    if (to > from || writer != part) continue;
    return false; /* it would write earlier */
  }
  return true;
}

/* The group moves down to position `to`, whose instruction joins it. */
static bool may_sink(const merger *w, const group *g, uint32_t to) {
  int64_t more = w->shared[to];
  for (int k = 0; k < g->n; k++) {
    uint32_t part = g->parts[k];
    if (!writes_stay_behind(w, part, g->at, to, g)) return false;
    for (uint32_t v = w->l.first_value[part]; v < w->l.first_value[part + 1]; v++) {
      bool handed_on = only_for(w, v, to) && may_hand_on(w, part, to);
      for (uint32_t r = w->first_reader[v]; r < w->first_reader[v + 1] && !handed_on; r++) {
        if (!is_part(g, w->readers[r]) && place_of(w, w->readers[r]) <= to) return false;
      }
    }
    for (uint32_t r = w->l.first_read[part]; r < w->l.first_read[part + 1]; r++) {
      uint32_t v = w->l.reads[r];
      if (w->last[v] < to && !is_part(g, w->position[w->l.values[v].instr->id])) more += w->l.values[v].bytes;
    }
    if (part == g->at) more += w->shared[part];
  }
  for (uint32_t q = g->at + 1; q <= to; q++) {
    if (w->alive[q] + more > w->peak) return false;
  }
  return true;
}

/* The instruction at position `from` moves up to the group. */
static bool may_rise(const merger *w, const group *g, uint32_t from) {
  const sn_instr *i = w->l.instrs[from];
  int64_t more = w->shared[from] + w->shared[g->at];
  if (!writes_stay_behind(w, from, from, g->at, g)) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_leaf_value x = operand_value(i, k);
    uint32_t at = w->position[x.instr->id];
    if (is_part(g, at)) {
      uint32_t v = number_of(w, x);
      if (v == UINT32_MAX || !only_for(w, v, from) || !may_hand_on(w, at, from)) return false;
    } else if (place_of(w, at) >= g->at && x.instr->op != SN_OP_PARAMETER && x.instr->op != SN_OP_CONSTANT) {
      return false;
    }
  }
  for (uint32_t v = w->l.first_value[from]; v < w->l.first_value[from + 1]; v++) more += w->l.values[v].bytes;
  for (uint32_t q = g->at; q < from; q++) {
    if (w->alive[q] + more > w->peak) return false;
  }
  return true;
}

/* ---- joining ---- */

static int n_inputs(const merger *w, const group *g, const sn_instr *more) {
  int n = (int)more->n_operands;
  for (int k = 0; k < g->n; k++) n += (int)w->l.instrs[g->parts[k]]->n_operands;
  return n;
}

static bool fits(const merger *w, const group *g, uint32_t p) {
  const sn_instr *i = w->l.instrs[p];
  return g->n < MAX_PARTS && g->n_results + sn_shape_leaves(i->shape) <= MAX_RESULTS && g->n_instrs + (int)i->called[0]->n_instrs <= MAX_INSTRS && n_inputs(w, g, i) <= MAX_INPUTS;
}

/* What was read or made elsewhere is so at the group's place now. */
static void move_profile(merger *w, const group *g, uint32_t part, uint32_t from) {
  for (uint32_t v = w->l.first_value[part]; v < w->l.first_value[part + 1]; v++) {
    int64_t bytes = w->l.values[v].bytes;
    for (uint32_t q = from; q < g->at; q++) w->alive[q] -= bytes;
    for (uint32_t q = g->at; q < from; q++) w->alive[q] += bytes;
    find_last(w, v);
  }
  for (uint32_t r = w->l.first_read[part]; r < w->l.first_read[part + 1]; r++) {
    uint32_t v = w->l.reads[r], was = w->last[v];
    find_last(w, v);
    for (uint32_t q = was + 1; q <= w->last[v] && q < w->l.n; q++) w->alive[q] += w->l.values[v].bytes;
    if (was < w->last[v] && was < w->l.n) { /* what was written over it there has a home of its own now */
      w->alive[was] += w->shared[was];
      w->shared[was] = 0;
    }
    for (uint32_t q = w->last[v] + 1; q <= was && q < w->l.n; q++) w->alive[q] -= w->l.values[v].bytes;
  }
  w->alive[g->at] += w->shared[part];
  w->shared[part] = 0;
}

static void join(merger *w, group *g, uint32_t p, uint32_t at) {
  uint32_t was = g->at;
  const sn_instr *i = w->l.instrs[p];
  sn_number numbers[] = {{"parts", g->n + 1}};
  sn_pass_remark(w->pc, SN_DONE, SN_REASON_TOGETHER, i, w->l.instrs[g->parts[0]], 1, numbers, NULL);
  g->parts[g->n++] = p;
  g->n_results += (int)sn_shape_leaves(i->shape);
  g->n_instrs += (int)i->called[0]->n_instrs;
  w->group_of[p] = g;
  g->at = at;
  for (int k = 0; k < g->n - 1 && at != was; k++) move_profile(w, g, g->parts[k], was);
  move_profile(w, g, p, p);
}

typedef struct offer { group *g; int64_t bytes; } offer;

static void add_offer(offer *offers, int *n, group *g, int64_t bytes) {
  int k = 0;
  if (!g || g->n == 0 || bytes < LEAST_SHARED) return;
  while (k < *n && offers[k].g != g) k++;
  if (k == CANDIDATES) return;
  if (k == *n) offers[(*n)++] = (offer){g, 0};
  offers[k].bytes += bytes;
}

/* The groups that share most with it, that one first. */
static int find_offers(merger *w, uint32_t p, offer *offers) {
  const sn_instr *i = w->l.instrs[p];
  int n = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_leaf_value x = operand_value(i, k);
    int64_t bytes = sn_shape_bytes(sn_operand_shape(i, k));
    add_offer(offers, &n, w->reader_of[x.instr->id], bytes);
    uint32_t at = w->position[x.instr->id], v = number_of(w, x);
    if (v != UINT32_MAX && w->group_of[at] && only_for(w, v, p) && may_hand_on(w, at, p)) add_offer(offers, &n, w->group_of[at], bytes);
  }
  for (int a = 1; a < n; a++) {
    for (int b = a; b > 0 && offers[b].bytes > offers[b - 1].bytes; b--) {
      offer x = offers[b];
      offers[b] = offers[b - 1];
      offers[b - 1] = x;
    }
  }
  return n;
}

/* What another group makes for the part at p alone moves into p's group too. */
static void absorb(merger *w, group *g, group *other, uint32_t p) {
  uint32_t was = other->at;
  if (g == other || other->n == 0 || g->at != p || p - was > WINDOW || g->n + other->n > MAX_PARTS || g->n_results + other->n_results > MAX_RESULTS) return;
  int inputs = n_inputs(w, g, w->l.instrs[other->parts[0]]);
  for (int k = 1; k < other->n; k++) inputs += (int)w->l.instrs[other->parts[k]]->n_operands;
  if (inputs > MAX_INPUTS || g->n_instrs + other->n_instrs > MAX_INSTRS || was >= p || !may_sink(w, other, p) || !sn_pass_may(w->pc)) return;
  sn_number numbers[] = {{"parts", g->n + other->n}};
  sn_pass_remark(w->pc, SN_DONE, SN_REASON_TOGETHER, w->l.instrs[other->parts[0]], w->l.instrs[g->parts[0]], 1, numbers, NULL);
  for (int k = 0; k < other->n; k++) {
    int at = g->n++;
    for (; at > 0 && g->parts[at - 1] > other->parts[k]; at--) g->parts[at] = g->parts[at - 1];
    g->parts[at] = other->parts[k];
    w->group_of[other->parts[k]] = g;
  }
  g->n_results += other->n_results;
  g->n_instrs += other->n_instrs;
  for (int k = 0; k < other->n; k++) move_profile(w, g, other->parts[k], was);
  other->n = 0;
}

static bool join_best(merger *w, uint32_t p) {
  offer offers[CANDIDATES];
  int n = find_offers(w, p, offers);
  for (int k = 0; k < n; k++) {
    group *g = offers[k].g;
    if (g->n == 0 || p - g->at > WINDOW || !fits(w, g, p)) continue;
    bool sinks = g->at < p && may_sink(w, g, p), rises = !sinks && g->at < p && may_rise(w, g, p);
    if (!sinks && !rises) continue;
    if (!sn_pass_may(w->pc)) return false;
    join(w, g, p, sinks ? p : g->at);
    for (int o = 0; o < n; o++) {
      const group *other = offers[o].g;
      for (uint32_t v = other->n ? w->l.first_value[other->parts[0]] : 0; other->n && v < w->l.first_value[other->parts[0] + 1]; v++) {
        if (only_for(w, v, p) && may_hand_on(w, other->parts[0], p)) absorb(w, g, offers[o].g, p);
      }
    }
    return true;
  }
  return false;
}

static sn_status find_groups(merger *w) {
  for (uint32_t p = 0; p < w->l.n; p++) {
    const sn_instr *i = w->l.instrs[p];
    if (!may_be_part(i)) continue;
    if (!join_best(w, p)) {
      group *g = SN_NEW(w->pc->scratch, group);
      if (!g) return no_memory(w);
      *g = (group){p, 1, (int)sn_shape_leaves(i->shape), (int)i->called[0]->n_instrs, {p}};
      w->group_of[p] = g;
    }
    for (uint32_t k = 0; k < i->n_operands; k++) w->reader_of[operand_value(i, k).instr->id] = w->group_of[p];
  }
  return SN_OK;
}

/* ---- building ---- */

typedef struct build {
  merger *w;
  const group *g;
  sn_computation *body;
  sn_instr *copies[MAX_PARTS];
  sn_list inputs;          /* operands of the whole; parameter n stands for the n-th */
  sn_list results;
  sn_list args;
} build;

static int part_number(const build *b, const sn_instr *i) {
  for (int k = 0; k < b->g->n; k++) {
    if (b->w->l.instrs[b->g->parts[k]] == i) return k;
  }
  return -1;
}

static sn_status no_build(const build *b, const sn_builder *x) { return x->status == SN_ERR_MEMORY || x->status == SN_OK ? no_memory(b->w) : x->status; }

/* What stands in the body for an operand of a part: a former part's result, or a parameter. */
static sn_status operand_in_body(build *b, sn_instr *x, sn_instr **out) {
  sn_builder y;
  sn_builder_init(&y, b->w->pc->diag, b->body);
  bool element = x->op == SN_OP_GET_TUPLE_ELEMENT;
  int part = part_number(b, element ? sn_instr_operand(x, 0) : x);
  if (part >= 0) {
    *out = element ? sn_build_get(&y, b->copies[part], sn_instr_int(x, SN_ATTR_INDEX)) : b->copies[part];
    return *out ? SN_OK : no_build(b, &y);
  }
  uint32_t k = 0;
  while (k < b->inputs.n && b->inputs.v[k] != x) k++;
  if (k == b->inputs.n) {
    if (sn_list_push(&b->inputs, x) != SN_OK || !sn_build_parameter(&y, k, x->shape, NULL)) return no_build(b, &y);
  }
  *out = b->body->params[k];
  return SN_OK;
}

static sn_status add_part(build *b, int part) {
  const sn_instr *i = b->w->l.instrs[b->g->parts[part]];
  sn_builder y;
  char name[32];
  b->args.n = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *x;
    SN_TRY(operand_in_body(b, sn_instr_operand(i, k), &x));
    if (sn_list_push(&b->args, x) != SN_OK) return no_memory(b->w);
  }
  SN_TRY(sn_instr_clone(i, b->body, b->args.v, NULL, &b->copies[part]));
  snprintf(name, sizeof name, "part_%d", part);
  SN_TRY(sn_instr_set_name(b->copies[part], name));
  sn_builder_init(&y, b->w->pc->diag, b->body);
  for (int64_t leaf = 0; leaf < sn_shape_leaves(i->shape); leaf++) {
    sn_instr *x = sn_shape_is_tuple(i->shape) ? sn_build_get(&y, b->copies[part], leaf) : b->copies[part];
    if (!x || sn_list_push(&b->results, x) != SN_OK) return no_build(b, &y);
  }
  return SN_OK;
}

static sn_status make_whole(build *b, sn_instr **out) {
  sn_builder y;
  const sn_instr *last = b->w->l.instrs[b->g->parts[b->g->n - 1]];
  sn_builder_init(&y, b->w->pc->diag, b->body);
  sn_instr *root = sn_build_tuple(&y, (uint32_t)b->results.n, b->results.v);
  if (!root) return no_build(b, &y);
  sn_computation_set_root(b->body, root);
  sn_attr kind = sn_attr_int(SN_ATTR_KIND, SN_FUSION_KIND_CUSTOM);
  sn_instr_spec spec = {0};
  spec.op = SN_OP_FUSION;
  spec.shape = root->shape;
  spec.n_operands = (uint32_t)b->inputs.n;
  spec.operands = b->inputs.v;
  spec.n_attrs = 1;
  spec.attrs = &kind;
  spec.n_called = 1;
  spec.called = &b->body;
  spec.metadata = last->metadata;
  spec.loc = last->loc;
  SN_TRY(sn_instr_create(b->w->pc->diag, b->w->c, &spec, out));
  sn_instr_move_before(*out, b->w->l.instrs[b->g->at]);
  return sn_instr_set_backend_config(*out, "{\"sinter\":{\"version\":1,\"kind\":\"several\"}}", false);
}

/* Names of operands that stand behind `whole` move in front of it. */
static void raise_names(const merger *w, sn_instr *x, sn_instr *whole, uint32_t at) {
  if (x->id >= w->n_ids || w->position[x->id] < at || (x->op != SN_OP_GET_TUPLE_ELEMENT && !sn_is_rename(x))) return;
  raise_names(w, sn_instr_operand(x, 0), whole, at);
  sn_instr_move_before(x, whole);
  w->position[x->id] = at;
}

/* Names of results that stand in front of them move behind. */
static void lower_names(const merger *w, const sn_instr *x, sn_instr *behind, uint32_t at) {
  SN_FOR_USES(u, x) {
    sn_instr *y = u->user;
    if (y->id >= w->n_ids || w->position[y->id] > at || !sn_is_rename(y)) continue;
    sn_instr_move_before(y, behind);
    w->position[y->id] = at;
    lower_names(w, y, behind, at);
  }
}

/* Readers of the parts read the whole. */
static sn_status hand_over(build *b, sn_instr *whole) {
  sn_builder y;
  int64_t leaf = 0;
  sn_instr *behind = whole->next; /* the part that stands here: it goes */
  sn_instr *made[MAX_RESULTS];
  for (int k = 0; k < b->g->n; k++) {
    sn_instr *i = b->w->l.instrs[b->g->parts[k]];
    for (int64_t own = 0; own < sn_shape_leaves(i->shape); own++, leaf++) {
      sn_builder_init_at(&y, b->w->pc->diag, behind);
      y.loc = i->loc;
      y.metadata = i->metadata;
      sn_instr *x = sn_build_get(&y, whole, leaf);
      if (!x) return no_build(b, &y);
      made[leaf] = x;
      if (!sn_shape_is_tuple(i->shape)) sn_instr_replace_uses(i, x);
      for (sn_use *u = i->first_use, *next; u; u = next) {
        next = u->next;
        if (sn_instr_int(u->user, SN_ATTR_INDEX) != own) continue;
        sn_instr_replace_uses(u->user, x);
        if (!sn_instr_is_root(u->user)) sn_instr_erase(u->user);
      }
      lower_names(b->w, x, behind, b->g->at);
    }
  }
  for (int k = 0; k < b->g->n; k++) sn_instr_erase(b->w->l.instrs[b->g->parts[k]]);
  while (leaf-- > 0) {
    if (!made[leaf]->n_uses && !sn_instr_is_root(made[leaf])) sn_instr_erase(made[leaf]); /* handed on within */
  }
  return SN_OK;
}

static sn_status build_parts(build *b) {
  sn_instr *whole;
  for (int k = 0; k < b->g->n; k++) SN_TRY(add_part(b, k));
  SN_TRY(make_whole(b, &whole));
  for (size_t k = 0; k < b->inputs.n; k++) raise_names(b->w, b->inputs.v[k], whole, b->g->at);
  b->w->pc->changed = true;
  return hand_over(b, whole);
}

static sn_status build_group(merger *w, const group *g) {
  build b;
  memset(&b, 0, sizeof b);
  b.w = w;
  b.g = g;
  SN_TRY(sn_computation_create(w->m, "fused_computation", &b.body));
  sn_computation_move_before(b.body, w->c);
  sn_status s = build_parts(&b);
  sn_list_finish(&b.inputs);
  sn_list_finish(&b.results);
  sn_list_finish(&b.args);
  return s;
}

/* ---- the walk ---- */

static sn_status find_writers(merger *w) {
  w->writer = SN_NEW_N(w->pc->scratch, uint32_t, w->m->entry->n_params + 1);
  if (!w->writer) return no_memory(w);
  for (uint32_t k = 0; k < w->m->entry->n_params; k++) w->writer[k] = UINT32_MAX;
  for (int64_t k = 0; k < w->m->n_aliases && w->c == w->m->entry; k++) {
    const sn_alias *a = &w->m->aliases[k];
    const sn_instr *root = w->c->root;
    sn_leaf_value v = sn_leaf_source(root, sn_leaf_at(root->shape, a->output_index));
    w->writer[a->operand] = w->position[v.instr->id];
  }
  return SN_OK;
}

static sn_status merge_computation(merger *w) {
  sn_arena *a = w->pc->scratch;
  if (sn_liveness_find(a, w->c, w->position, NULL, &w->l) != SN_OK) return no_memory(w);
  w->group_of = SN_NEW_N(a, group *, w->l.n + 1);
  w->reader_of = SN_NEW_N(a, group *, w->n_ids + 1);
  w->last = SN_NEW_N(a, uint32_t, w->l.n_values + 1);
  w->alive = SN_NEW_N(a, int64_t, w->l.n + 1);
  w->shared = SN_NEW_N(a, int64_t, w->l.n + 1);
  if (!w->group_of || !w->reader_of || !w->last || !w->alive || !w->shared) return no_memory(w);
  SN_TRY(find_readers(w));
  SN_TRY(find_writers(w));
  find_profile(w);
  SN_TRY(find_groups(w));
  for (uint32_t p = 0; p < w->l.n; p++) {
    const group *g = w->group_of[p];
    if (g && g->n > 1 && g->parts[0] == p) SN_TRY(build_group(w, g));
  }
  return SN_OK;
}

sn_status sn_pass_command_merge(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  sn_computation **todo = SN_NEW_N(pc->scratch, sn_computation *, m->n_computations + 1);
  uint32_t *position = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1), n = 0, n_ids = m->n_ids;
  if (!todo || !position) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *position);
  SN_FOR_COMPUTATIONS(c, m) {
    if (!g.in_fusion[c->id] && !g.is_applied[c->id]) todo[n++] = c;
  }
  for (uint32_t k = 0; k < n; k++) {
    merger w;
    memset(&w, 0, sizeof w);
    w.pc = pc;
    w.m = m;
    w.c = todo[k];
    w.position = position;
    w.n_ids = n_ids;
    SN_TRY(merge_computation(&w));
  }
  return SN_OK;
}
