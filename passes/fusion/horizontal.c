/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Small loops side by side: updates of many small parameters become one kernel.
 *
 * Loops over equal dimensions that nobody reads before the last of them run there together, each with its own operands and results. Equal dimensions, so that every
 * result may still be written over its own operand. Groups are visited by anchor; a bundle stays open until a reader of one of its results comes. */
#include "fusion.h"

#include <string.h>

enum { MAX_OPEN = 32, MAX_BUNDLE_INPUTS = 60, MAX_BUNDLE_WORK = 256, SMALL_LOOP = 65536, TINY_LOOP = 4096 };

typedef struct bundle {
  fu_group *g;
  uint32_t latest; /* the first reader of any result */
} bundle;

/* Waiting for others keeps operands alive: of loops that something waits for, or that reduce large operands to little, only tiny ones. */
static bool may_wait(const fu_state *f, const fu_group *g, uint32_t latest) {
  return g->work_elements <= TINY_LOOP || (!g->has_rows && !g->hero_in && latest >= fu_position(f, f->c->root));
}

static bool is_small_loop(const fu_state *f, const fu_group *g) {
  if (g->product || g->columns || g->n_sums || g->n_results == 0 || g->work_elements > SMALL_LOOP || g->elements == 0) return false;
  return !g->hero_in || f->facts[g->hero].i->op == SN_OP_REDUCE;
}

static uint32_t first_reader(const fu_state *f, const fu_group *g) {
  uint32_t first = FU_NONE;
  for (uint32_t k = 0; k < g->n; k++) {
    if (!g->members[k].result) continue;
    uint32_t at = g->members[k].at;
    if (f->needed[at] < first) first = f->needed[at];
    for (const fu_want *w = f->wants[at]; w; w = w->next) {
      if (w->group != g && w->group->anchor < first) first = w->group->anchor;
    }
  }
  return first;
}

/* One nest for both: equal results, and equal rows under them where rows are reduced. */
static bool same_domain(const fu_state *f, const fu_group *a, const fu_group *b) {
  if (a->has_rows != b->has_rows || (a->has_rows && (a->rows != b->rows || a->row_length != b->row_length))) return false;
  return sn_shape_equal(f->facts[a->anchor].i->shape, f->facts[b->anchor].i->shape, SN_EQ_IGNORE_TYPE);
}

static bool fits(const fu_group *a, const fu_group *b) {
  return a->n_inputs + b->n_inputs <= MAX_BUNDLE_INPUTS && a->n_work + b->n_work <= MAX_BUNDLE_WORK && a->n_results + b->n_results <= sn_heroes[SN_HERO_LOOP].results;
}

/* Both lists run from the last to the first; what both compute (constants) stands once. */
static sn_status merge_members(const fu_state *f, fu_group *into, const fu_group *from) {
  uint32_t n = 0, a = 0, b = 0;
  fu_member *v = SN_NEW_N(f->pc->scratch, fu_member, into->n + from->n);
  if (!v) return sn_out_of_memory(f->pc->diag, (into->n + from->n) * sizeof *v);
  while (a < into->n || b < from->n) {
    bool both = a < into->n && b < from->n && into->members[a].at == from->members[b].at;
    bool first = b == from->n || (a < into->n && into->members[a].at >= from->members[b].at);
    v[n] = first ? into->members[a] : from->members[b];
    if (both) v[n].result |= from->members[b].result;
    n++;
    a += first;
    b += !first || both;
  }
  into->members = v;
  into->n = into->cap = n;
  return SN_OK;
}

static sn_status absorb(fu_state *f, fu_group *into, fu_group *from) {
  SN_TRY(merge_members(f, into, from));
  for (uint32_t k = 0; k < from->n; k++) {
    if (from->members[k].result) f->home[from->members[k].at] = into;
  }
  into->n_work += from->n_work;
  into->n_free += from->n_free;
  into->n_inputs += from->n_inputs;
  into->n_results += from->n_results;
  from->n = 0;
  if (f->pc->remarks) sn_pass_remark(f->pc, SN_DONE, SN_REASON_SIDE_BY_SIDE, f->facts[from->anchor].i, f->facts[into->anchor].i, 0, NULL, NULL);
  return SN_OK;
}

/* Joins g with an open bundle, or opens one. */
static sn_status bundle_up(fu_state *f, bundle *open, int *n, fu_group *g) {
  uint32_t latest = first_reader(f, g);
  if (!may_wait(f, g, latest)) return SN_OK;
  int slot = *n < MAX_OPEN ? *n : MAX_OPEN - 1;
  for (int k = 0; k < *n; k++) {
    bundle *b = &open[k];
    if (!same_domain(f, b->g, g)) continue;
    slot = k;
    if (b->latest <= g->anchor || !fits(b->g, g) || !sn_pass_may(f->pc)) break;
    SN_TRY(absorb(f, g, b->g));
    if (b->latest < latest) latest = b->latest;
    break;
  }
  open[slot] = (bundle){g, latest};
  if (slot == *n) ++*n;
  return SN_OK;
}

sn_status sn_fusion_horizontal(fu_state *f) {
  bundle open[MAX_OPEN];
  int n = 0;
  for (fu_group *g = f->groups; g; g = g->next) { /* by anchor: the last begun is the first to stand */
    if (is_small_loop(f, g)) SN_TRY(bundle_up(f, open, &n, g));
  }
  return SN_OK;
}
