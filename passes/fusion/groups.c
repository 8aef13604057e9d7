/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which instruction goes into which fusion.
 *
 * Instructions are looked at from the last to the first, so the groups that read a value are known when its turn comes. It then
 *   - joins the one group that reads it,
 *   - is computed in several groups (cheap to compute from what they read anyway), or
 *   - is stored: by the earliest group that reads it, as one more result, where that group can; else it begins a group of its own.
 * The decision weighs the time of moving the value through memory against computing it again.
 *
 * No cycles: a group stands at its last member (the anchor). A member read by others is stored only where all of them stand behind that anchor, and operands come before
 * users; so every edge between groups leads from an earlier anchor to a later one. After Snider's and XLA's priority fusion in spirit: time unfused less time fused, over
 * all users. */
#include "fusion.h"

#include <string.h>

static const double SCALAR_US = 0.02; /* each item of a kernel computes it again */

enum {
  MAX_WORK = 256,       /* instructions of a body that do something */
  MAX_FREE = 512,
  MAX_INPUTS = FU_MOST_INPUTS,
  MAX_DEPTH = 300,      /* the lowering recurses from a result to its operands */
  MAX_SIDE = 4,         /* operations repeated for each row */
  SMALL_ELEMENTS = 16384, /* repeating work is cheaper than one more command below this */
  RECENT_COLUMNS = 8
};

/* ---- what groups know of values they may be computed from ---- */

static void leaf_count(fu_group *g, const fu_fact *x, int by) {
  if (x->n_leaves == FU_MANY_LEAVES) return;
  for (int l = 0; l < x->n_leaves; l++) {
    uint32_t k = 0;
    while (k < g->n_leaves && g->leaves[k].at != x->leaves[l]) k++;
    if (k == g->n_leaves) {
      if (by < 0 || k == FU_GROUP_LEAVES) continue;
      g->leaves[g->n_leaves++] = (fu_leaf){x->leaves[l], 0};
    }
    if (by > 0) g->leaves[k].n++;
    else if (g->leaves[k].n > 0) g->leaves[k].n--;
  }
}

/* Bytes that group g would have to read only to compute x itself. */
static double fresh_bytes(const fu_state *f, const fu_group *g, const fu_fact *x) {
  double bytes = 0;
  if (x->n_leaves == FU_MANY_LEAVES) return 1e30;
  for (int l = 0; l < x->n_leaves; l++) {
    uint32_t k = 0;
    while (k < g->n_leaves && g->leaves[k].at != x->leaves[l]) k++;
    if (k == g->n_leaves || g->leaves[k].n <= 1) bytes += (double)f->facts[x->leaves[l]].bytes;
  }
  return bytes;
}

/* ---- levels ---- */

/* How the group reads operand k of its member x, which it reads at level `l`. */
static fu_level operand_level(const fu_state *f, const fu_group *g, const fu_fact *x, fu_level l, uint32_t k) {
  const fu_fact *o = fu_operand(f, x->i, k);
  if (o->elements == 1) return x->elements == 1 && x->cls != FU_ROW ? l : FU_SCALAR;
  switch (x->i->op) {
    case SN_OP_BROADCAST:
      if (o->elements == x->elements) return sn_fusion_leading_dims(x->i) ? l : FU_MOVED;
      return l <= FU_FULL && sn_fusion_leading_dims(x->i) ? (l == FU_SCALAR ? l : FU_ROWS) : FU_SIDE;
    case SN_OP_RESHAPE: return l;
    case SN_OP_GATHER:
    case SN_OP_DYNAMIC_SLICE: return FU_SIDE;
    case SN_OP_CONCATENATE: return x->i->n_operands > 3 || l != FU_FULL ? FU_SIDE : FU_MOVED;
    case SN_OP_REDUCE: return x->cls == FU_ROW || x->cls == FU_COLUMNS ? FU_FULL : FU_MOVED;
    case SN_OP_DOT:
    case SN_OP_CONVOLUTION: return g->product ? FU_FULL : FU_SIDE;
    case SN_OP_REDUCE_WINDOW: return FU_SIDE;
    default: break;
  }
  if (x->cls == FU_MOVE) return l == FU_FULL || l == FU_MOVED ? FU_MOVED : FU_SIDE;
  return l;
}

/* ---- joining ---- */

/* g's want of `at`; NULL: none yet. All groups may want one constant, and one group many values: both lists are walked, and the shorter one says. */
static fu_want *find_want(const fu_state *f, const fu_group *g, uint32_t at) {
  fu_want *w = f->wants[at], *own = g->wants;
  for (; w && own; w = w->next, own = own->next_own) {
    if (w->group == g) return w;
    if (own->at == at) return own;
  }
  return NULL;
}

static sn_status want(fu_state *f, fu_group *g, uint32_t at, fu_level level, uint16_t depth, bool prologue) {
  fu_want *w = find_want(f, g, at);
  if (w) {
    if (level > w->level) w->level = level;
    if (depth > w->depth) w->depth = depth;
    w->prologue |= prologue;
    return SN_OK;
  }
  if (!(w = SN_NEW(f->pc->scratch, fu_want))) return sn_out_of_memory(f->pc->diag, sizeof *w);
  *w = (fu_want){g, level, depth, prologue, false, at, f->wants[at], g->wants};
  f->wants[at] = g->wants = w;
  g->n_inputs++;
  leaf_count(g, &f->facts[at], 1);
  return SN_OK;
}

static sn_status add_member(fu_state *f, fu_group *g, uint32_t at, bool result) {
  if (g->n == g->cap) {
    uint32_t cap = g->cap ? 2 * g->cap : 8;
    fu_member *wider = SN_NEW_N(f->pc->scratch, fu_member, cap);
    if (!wider) return sn_out_of_memory(f->pc->diag, cap * sizeof *wider);
    if (g->n) memcpy(wider, g->members, g->n * sizeof *wider);
    g->members = wider;
    g->cap = cap;
  }
  g->members[g->n++] = (fu_member){at, result};
  if (result) {
    f->home[at] = g;
    g->n_results++;
  }
  return SN_OK;
}

static void remark(const fu_state *f, sn_verdict v, sn_reason r, uint32_t at, const fu_group *g, int n, const sn_number *numbers) {
  if (f->pc->remarks) sn_pass_remark(f->pc, v, r, f->facts[at].i, g ? f->facts[g->anchor].i : NULL, n, numbers, NULL);
}

/* How it will be lowered. */
static void remark_convolution(const fu_state *f, uint32_t at) {
  double shares[2];
  bool packed = sn_conv_is_packed(f->pc->target, f->facts[at].i, shares);
  sn_number numbers[] = {{"packed_share", shares[0]}, {"loops_share", shares[1]}};
  remark(f, SN_INFO, packed ? SN_REASON_PACKED : SN_REASON_LOOPS, at, NULL, 2, numbers);
}

/* `at` becomes a member, read as w says (NULL: it is the anchor). */
static sn_status join(fu_state *f, fu_group *g, uint32_t at, const fu_want *w, bool result) {
  const fu_fact *x = &f->facts[at];
  fu_level level = w ? w->level : FU_FULL;
  uint16_t depth = w ? w->depth : 0;
  bool prologue = (w && w->prologue) || (x->cls == FU_HERO && x->i->op != SN_OP_REDUCE);
  SN_TRY(add_member(f, g, at, result));
  if (x->cls == FU_FREE) g->n_free++;
  else g->n_work++;
  if (w) {
    g->n_inputs--;
    leaf_count(g, x, -1);
    g->n_prologue += w->prologue && x->cls == FU_CHEAP;
    g->n_side += level == FU_SIDE && x->cls != FU_FREE;
  }
  if (at == g->hero) g->hero_in = true;
  if (at == g->hero && x->i->op == SN_OP_CONVOLUTION) remark_convolution(f, at);
  int64_t whole = x->i->op == SN_OP_REDUCE ? fu_operand(f, x->i, 0)->elements : x->elements;
  if (whole > g->work_elements) g->work_elements = whole;
  if (x->cls == FU_ROW) {
    g->has_rows = true;
    g->rows = x->elements;
    g->row_length = whole / (x->elements ? x->elements : 1);
  }
  for (uint32_t k = 0; k < x->i->n_operands; k++) {
    SN_TRY(want(f, g, fu_position(f, sn_instr_operand(x->i, k)), operand_level(f, g, x, level, k), (uint16_t)(depth + 1), prologue));
  }
  if (w) f->pc->changed = true;
  return SN_OK;
}

static sn_status begin(fu_state *f, uint32_t at) {
  const fu_fact *x = &f->facts[at];
  fu_group *g = SN_NEW(f->pc->scratch, fu_group);
  if (!g) return sn_out_of_memory(f->pc->diag, sizeof *g);
  g->anchor = at;
  g->hero = x->hero;
  g->product = x->hero != FU_NONE && sn_fusion_is_product(f->pc->target, f->facts[x->hero].i);
  g->columns = x->cls == FU_COLUMNS;
  g->elements = x->elements;
  g->next = f->groups;
  f->groups = g;
  f->pc->changed = true;
  return join(f, g, at, NULL, true);
}

/* ---- may it join? ---- */

static bool takes_rows(const fu_state *f, const fu_group *g, const fu_fact *x, const fu_want *w) {
  int64_t whole = fu_operand(f, x->i, 0)->elements;
  if (g->hero != FU_NONE || g->columns || w->prologue) return false;
  if (g->has_rows) return x->elements == g->rows && whole == g->rows * g->row_length && (w->level == FU_ROWS || x->elements == 1 || (w->level == FU_FULL && g->elements == g->rows));
  if (w->level == FU_ROWS || (w->level == FU_SCALAR && whole == g->elements)) return whole == g->elements;
  return (w->level == FU_FULL || w->level == FU_SCALAR) && x->elements == g->elements && x->elements > 0;
}

/* Windows overlap: what an element of the input takes would be done again for each of them, and keep rows of it from being copied. Renamed dimensions cost nothing. */
static sn_reason refuse_in_window(const fu_fact *hero, const fu_fact *x) {
  if (x->cls == FU_MOVE) return x->i->op == SN_OP_TRANSPOSE || x->i->op == SN_OP_REVERSE ? SN_REASON_COUNT : SN_REASON_PROLOGUE;
  const sn_window *w = sn_instr_window(hero->i);
  for (int k = 0; w && k < w->rank; k++) {
    if (w->dims[k].size > 1) return SN_REASON_REPEATED;
  }
  return SN_REASON_COUNT;
}

static sn_reason refuse_prologue(const fu_state *f, const fu_group *g, const fu_fact *x, const fu_want *w) {
  if (x->cls == FU_FREE) return SN_REASON_COUNT;
  if (!g->product) return SN_REASON_REPEATED;
  sn_reason window = f->facts[g->hero].i->op == SN_OP_CONVOLUTION ? refuse_in_window(&f->facts[g->hero], x) : SN_REASON_COUNT;
  if (window != SN_REASON_COUNT) return window;
  if (x->cls == FU_MOVE) return x->i->op == SN_OP_GATHER || x->i->op == SN_OP_CONCATENATE ? SN_REASON_PROLOGUE : SN_REASON_COUNT;
  if (x->cls != FU_CHEAP || g->n_prologue >= sn_heroes[SN_HERO_PRODUCT].prologue || w->level == FU_SIDE) return SN_REASON_PROLOGUE;
  return SN_REASON_COUNT;
}

static sn_reason refuse_level(const fu_group *g, const fu_fact *x, const fu_want *w) {
  if (w->level != FU_SIDE || g->work_elements <= SMALL_ELEMENTS) return SN_REASON_COUNT;
  if (x->cls == FU_COSTLY || g->n_side >= MAX_SIDE) return SN_REASON_REPEATED;
  return SN_REASON_COUNT;
}

/* SN_REASON_COUNT: it may. */
static sn_reason refuse(const fu_state *f, const fu_group *g, uint32_t at, const fu_want *w) {
  const fu_fact *x = &f->facts[at];
  int more = (int)x->i->n_operands - 1;
  if (x->cls == FU_ALONE) return SN_REASON_ALONE;
  if ((x->cls == FU_FREE ? g->n_free >= MAX_FREE : g->n_work >= MAX_WORK) || (more > 0 && g->n_inputs + more > MAX_INPUTS) || w->depth >= MAX_DEPTH) return SN_REASON_BUDGET;
  switch (x->cls) {
    case FU_COLUMNS: return SN_REASON_HERO;
    case FU_HERO: return g->hero == at && (w->level == FU_FULL || (g->product && w->level == FU_MOVED)) && !w->prologue ? SN_REASON_COUNT : SN_REASON_HERO;
    case FU_ROW: return takes_rows(f, g, x, w) ? SN_REASON_COUNT : SN_REASON_HERO;
    default: break;
  }
  if (w->prologue) return refuse_prologue(f, g, x, w);
  return refuse_level(g, x, w);
}

static sn_hero hero_of(const fu_group *g) { return g->product ? SN_HERO_PRODUCT : g->columns ? SN_HERO_COLUMNS : g->has_rows ? SN_HERO_ROWS : SN_HERO_LOOP; }

/* May g store x as one more result? Results of one nest have the dimensions of the anchor, or are a value a row. */
static bool may_store(const fu_state *f, const fu_group *g, const fu_fact *x, const fu_want *w) {
  const sn_shape *a = f->facts[g->anchor].i->shape, *s = x->i->shape;
  if (g->columns || w->prologue || g->n_results >= sn_heroes[hero_of(g)].results) return false;
  if (g->product) return x->hero == g->hero;
  if (w->level == FU_FULL && sn_shape_equal(a, s, SN_EQ_IGNORE_TYPE)) return true;
  if (w->level != FU_ROWS || g->hero != FU_NONE || s->rank >= a->rank || (g->has_rows && x->elements != g->rows)) return false;
  return s->rank == 0 || memcmp(s->dims, a->dims, (size_t)s->rank * sizeof *s->dims) == 0;
}

/* ---- deciding ---- */

typedef struct choice {
  int n_takers, n_refused;
  fu_want *home;       /* the earliest of the takers, if it can store the value for all others; NULL: none */
  double again_us, stored_us;
} choice;

/* The group that stands before every other reader, if it may store the value. */
static fu_want *find_home(const fu_state *f, uint32_t at) {
  const fu_fact *x = &f->facts[at];
  fu_want *first = NULL;
  for (fu_want *w = f->wants[at]; w; w = w->next) {
    if (!first || w->group->anchor < first->group->anchor) first = w;
  }
  if (!first || first->refused || first->group->anchor >= f->needed[at]) return NULL;
  return may_store(f, first->group, x, first) ? first : NULL;
}

static bool is_movable_prologue(const fu_fact *x, const fu_want *w) { return w->prologue && x->cls == FU_MOVE; }

static void weigh(const fu_state *f, uint32_t at, choice *c) {
  const fu_fact *x = &f->facts[at];
  double bytes = (double)x->bytes, others = 0;
  c->home = find_home(f, at);
  for (fu_want *w = f->wants[at]; w; w = w->next) {
    if (w->refused || w == c->home) continue;
    others++;
    c->again_us += x->elements == 1 ? SCALAR_US * (double)x->ops : (double)x->ops * (double)x->elements / f->rates.ops;
    if (!is_movable_prologue(x, w)) c->again_us += fresh_bytes(f, w->group, x) / f->rates.bytes;
  }
  c->stored_us = (1 + others) * bytes / f->rates.bytes + (c->home ? 0 : f->rates.launch);
}

/* Is the way down to a hero better ended here? The value then is the hero's epilogue, and what reads it reads one array as before. */
static bool ends_hero(const fu_fact *x, const fu_want *w) { return x->hero != FU_NONE && x->cls != FU_HERO && x->solo && w->group->hero != x->hero; }

static sn_status join_all(fu_state *f, uint32_t at, sn_reason why, const choice *c) {
  sn_number numbers[] = {{"again_us", c->again_us}, {"stored_us", c->stored_us}};
  for (fu_want *w = f->wants[at]; w; w = w->next) {
    if (w->refused) continue;
    remark(f, SN_DONE, why, at, w->group, why == SN_REASON_RECOMPUTED ? 2 : 0, numbers);
    SN_TRY(join(f, w->group, at, w, false));
  }
  return SN_OK;
}

static sn_status store(fu_state *f, uint32_t at, const choice *c) {
  sn_number numbers[] = {{"again_us", c->again_us}, {"stored_us", c->stored_us}};
  if (!c->home) return begin(f, at);
  remark(f, SN_DONE, SN_REASON_SHARED, at, c->home->group, 2, numbers);
  return join(f, c->home->group, at, c->home, true);
}

static void ask_groups(fu_state *f, uint32_t at, choice *c) {
  for (fu_want *w = f->wants[at]; w; w = w->next) {
    sn_reason r = refuse(f, w->group, at, w);
    if (r == SN_REASON_COUNT && f->facts[at].cls != FU_FREE && !sn_pass_may(f->pc)) r = SN_REASON_BUDGET;
    w->refused = r != SN_REASON_COUNT;
    if (w->refused) c->n_refused++;
    else c->n_takers++;
    if (w->refused && r != SN_REASON_ALONE) remark(f, SN_REFUSED, r, at, w->group, 0, NULL);
  }
}

static bool default_layouts(const sn_instr *i) { return sn_layout_is_default(i->shape->layout) && sn_layout_is_default(sn_operand_shape(i, 0)->layout); }

static void need(fu_state *f, uint32_t at, uint32_t by) {
  if (by < f->needed[at]) f->needed[at] = by;
}

/* Free instructions go into every group that reads them. What else reads them finds them outside: a reshape as another name of its operand. */
static sn_status place_free(fu_state *f, uint32_t at, const choice *c) {
  const fu_fact *x = &f->facts[at];
  bool outside = c->n_refused || f->needed[at] != FU_NONE;
  if (c->n_takers) SN_TRY(join_all(f, at, SN_REASON_FUSED, c));
  if (!outside || x->i->op == SN_OP_CONSTANT) return SN_OK;
  if (x->i->op == SN_OP_RESHAPE && default_layouts(x->i)) {
    f->renamed[at] = true;
    need(f, fu_position(f, sn_instr_operand(x->i, 0)), at);
    return SN_OK;
  }
  return begin(f, at);
}

static fu_want *first_taker(const fu_state *f, uint32_t at) {
  fu_want *w = f->wants[at];
  while (w && w->refused) w = w->next;
  return w;
}

/* A prologue is computed while a product packs: worth it only where the value is not stored anyway. */
static void drop_prologues(fu_state *f, uint32_t at, choice *c) {
  bool many = c->n_takers + c->n_refused > 1 || f->needed[at] != FU_NONE;
  for (fu_want *w = f->wants[at]; w && many; w = w->next) {
    if (w->refused || !w->prologue || f->facts[at].cls == FU_MOVE) continue;
    w->refused = true;
    c->n_takers--;
    c->n_refused++;
    remark(f, SN_REFUSED, SN_REASON_PROLOGUE, at, w->group, 0, NULL);
  }
}

/* Is it one value a row to all that read it? Next to the rows themselves that is nothing. */
static bool a_row_each(const fu_state *f, uint32_t at) {
  for (const fu_want *w = f->wants[at]; w; w = w->next) {
    if (w->level != FU_ROWS || 8 * f->facts[at].elements > w->group->work_elements) return false;
  }
  return true;
}

static sn_status place_work(fu_state *f, uint32_t at, choice *c) {
  const fu_fact *x = &f->facts[at];
  drop_prologues(f, at, c);
  bool outside = c->n_refused || f->needed[at] != FU_NONE;
  if (c->n_takers == 0) return begin(f, at);
  if (c->n_takers == 1 && !outside) return ends_hero(x, first_taker(f, at)) ? begin(f, at) : join_all(f, at, SN_REASON_FUSED, c);
  weigh(f, at, c);
  bool repeatable = !x->meeting && (x->cls == FU_CHEAP || x->cls == FU_COSTLY || x->cls == FU_MOVE);
  if (repeatable && !outside && (c->again_us <= c->stored_us || (!c->home && a_row_each(f, at)))) return join_all(f, at, SN_REASON_RECOMPUTED, c);
  if (c->home && c->home->group->hero != x->hero && x->solo) c->home = NULL; /* better the epilogue of its own hero */
  return store(f, at, c);
}

/* ---- column reductions side by side ---- */

static bool same_reduction(const sn_instr *a, const sn_instr *b) {
  sn_ints x = sn_instr_ints(a, SN_ATTR_DIMENSIONS), y = sn_instr_ints(b, SN_ATTR_DIMENSIONS);
  return x.n == y.n && memcmp(x.v, y.v, (size_t)x.n * sizeof *x.v) == 0 && sn_shape_equal(sn_operand_shape(a, 0), sn_operand_shape(b, 0), SN_EQ_IGNORE_TYPE);
}

bool sn_fusion_read_behind(const fu_state *f, const fu_group *g, uint32_t at) {
  if (f->needed[at] != FU_NONE && f->needed[at] <= g->anchor) return false;
  for (const fu_want *w = f->wants[at]; w; w = w->next) {
    if (w->group->anchor <= g->anchor) return false;
  }
  return true;
}

/* Do the two reductions read some value in common? */
static bool shares_leaf(const fu_fact *a, const fu_fact *b) {
  for (int k = 0; k < a->n_leaves && a->n_leaves != FU_MANY_LEAVES; k++) {
    for (int l = 0; l < b->n_leaves && b->n_leaves != FU_MANY_LEAVES; l++) {
      if (a->leaves[k] == b->leaves[l]) return true;
    }
  }
  return false;
}

static sn_status place_columns(fu_state *f, uint32_t at) {
  const fu_fact *x = &f->facts[at];
  int seen = 0;
  fu_group *host = sn_fusion_host_of_sum(f, at);
  if (host && sn_pass_may(f->pc)) {
    remark(f, SN_DONE, SN_REASON_SHARED, at, host, 0, NULL);
    host->n_sums++;
    return join(f, host, at, NULL, true);
  }
  for (fu_group *g = f->groups; g && seen < RECENT_COLUMNS && x->elements > SMALL_ELEMENTS / 1024; g = g->next) {
    const fu_fact *y = &f->facts[g->anchor];
    if (!g->columns) continue;
    seen++;
    if (!same_reduction(x->i, y->i) || g->n_results >= sn_heroes[SN_HERO_COLUMNS].results || g->n_inputs + 4 > MAX_INPUTS || !sn_fusion_read_behind(f, g, at)) continue;
    if (!shares_leaf(fu_operand(f, x->i, 0), fu_operand(f, y->i, 0)) || !sn_pass_may(f->pc)) continue;
    remark(f, SN_DONE, SN_REASON_SHARED, at, g, 0, NULL);
    return join(f, g, at, NULL, true);
  }
  return begin(f, at);
}

/* ---- the walk ---- */

static sn_status place(fu_state *f, uint32_t at) {
  const fu_fact *x = &f->facts[at];
  choice c = {0};
  if (x->cls == FU_ALONE) {
    for (fu_want *w = f->wants[at]; w; w = w->next) w->refused = true;
    for (uint32_t k = 0; k < x->i->n_operands; k++) need(f, fu_position(f, sn_instr_operand(x->i, k)), at);
    return SN_OK;
  }
  ask_groups(f, at, &c);
  if (x->cls == FU_FREE) return place_free(f, at, &c);
  if (x->cls == FU_COLUMNS) return place_columns(f, at);
  return place_work(f, at, &c);
}

sn_status sn_fusion_groups(fu_state *f) {
  sn_arena *a = f->pc->scratch;
  f->wants = SN_NEW_N(a, fu_want *, f->n + 1);
  f->needed = SN_NEW_N(a, uint32_t, f->n + 1);
  f->home = SN_NEW_N(a, fu_group *, f->n + 1);
  f->renamed = SN_NEW_N(a, bool, f->n + 1);
  if (!f->wants || !f->needed || !f->home || !f->renamed) return sn_out_of_memory(f->pc->diag, f->n * sizeof *f->wants);
  for (uint32_t k = 0; k < f->n; k++) f->needed[k] = FU_NONE;
  f->groups = NULL;
  f->needed[fu_position(f, f->c->root)] = f->n;
  for (uint32_t k = f->n; k-- > 0;) SN_TRY(place(f, k));
  return SN_OK;
}
