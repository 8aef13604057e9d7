/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The buffer plan.
 *
 * 1. Every instruction that runs gets a position: the entry's in order, inner computations of loops and branches in front of the position of the instruction that
 *    runs them.
 * 2. Leaves that must share memory are united (union-find): renames, loop state, branch results.
 * 3. Each class gets its home: argument, result, constant, or the arena.
 *    Results that may be written over a dying operand join its class.
 * 4. Classes of the arena are laid out one after the other, each at the lowest offset that is free for the whole of its life: largest first, and in a few other orders,
 *    of which the best stays. (Pisarchyk and Lee, "Efficient memory management for deep neural net inference", 2020: greedy by size.) */
#include "sinter/plan.h"

#include "leaves.h"

#include <stdlib.h>
#include <string.h>

typedef struct value_class {
  uint32_t parent;
  uint32_t first, last; /* positions */
  int64_t bytes;
  sn_place place;
  uint32_t index;
  int64_t offset;
  const sn_instr *owner;
  int owner_leaf;
} value_class;

typedef struct planner {
  sn_diag *d;
  sn_arena *a;
  const sn_module *m;
  sn_plan *plan;
  uint32_t *first_leaf; /* class of leaf 0, by instruction id; UINT32_MAX: not run */
  uint32_t *position;
  uint32_t n_classes, cap_classes, n_positions;
  value_class *classes;
  const sn_instr **at; /* by position */
  sn_call_graph graph;
} planner;

static int64_t align(int64_t v) { return (v + 63) / 64 * 64; }

/* ---- union-find ---- */

static uint32_t find(planner *p, uint32_t c) {
  while (p->classes[c].parent != c) {
    p->classes[c].parent = p->classes[p->classes[c].parent].parent;
    c = p->classes[c].parent;
  }
  return c;
}

static void unite(planner *p, uint32_t a, uint32_t b) {
  a = find(p, a);
  b = find(p, b);
  if (a == b) return;
  if (b < a) {
    uint32_t t = a;
    a = b;
    b = t;
  }
  value_class *x = &p->classes[a], *y = &p->classes[b];
  y->parent = a;
  if (y->first < x->first) x->first = y->first;
  if (y->last > x->last) x->last = y->last;
  if (y->bytes > x->bytes) x->bytes = y->bytes;
  if (x->place == SN_PLACE_NONE || x->place == SN_PLACE_ARENA) {
    x->place = y->place == SN_PLACE_NONE ? x->place : y->place;
    x->index = y->index;
  }
}

static void unite_leaves(planner *p, const sn_instr *a, int leaf_a, const sn_instr *b, int leaf_b, int64_t n) {
  for (int64_t k = 0; k < n; k++) unite(p, p->first_leaf[a->id] + (uint32_t)(leaf_a + k), p->first_leaf[b->id] + (uint32_t)(leaf_b + k));
}

/* ---- 1. positions and leaves ---- */

static sn_status add_instr(planner *p, const sn_instr *i) {
  int64_t n = sn_shape_leaves(i->shape);
  if (p->n_classes + n > p->cap_classes) {
    uint32_t cap = 2 * p->cap_classes + (uint32_t)n + 64;
    value_class *wider = sn_realloc(p->classes, cap * sizeof *wider);
    if (!wider) return sn_out_of_memory(p->d, cap * sizeof *wider);
    p->classes = wider;
    p->cap_classes = cap;
  }
  p->first_leaf[i->id] = p->n_classes;
  for (int k = 0; k < n; k++) {
    const sn_shape *s = sn_shape_leaf(i->shape, k);
    value_class *c = &p->classes[p->n_classes];
    memset(c, 0, sizeof *c);
    c->parent = p->n_classes++;
    c->bytes = sn_shape_is_array(s) ? sn_shape_bytes(s) : 0;
    c->place = sn_shape_is_array(s) ? SN_PLACE_ARENA : SN_PLACE_NONE;
    c->owner = i;
    c->owner_leaf = k;
  }
  return SN_OK;
}

static bool is_name(const sn_instr *i) { return i->op == SN_OP_TUPLE || i->op == SN_OP_GET_TUPLE_ELEMENT || sn_is_rename(i); }

static bool runs_inner(const sn_instr *i) { return i->op == SN_OP_WHILE || i->op == SN_OP_CONDITIONAL || i->op == SN_OP_CALL; }

enum { MAX_NESTING = 64 };

static sn_status number(planner *p, const sn_computation *c, int depth) {
  if (depth > MAX_NESTING) return sn_error(p->d, c->loc, SN_ERR_UNSUPPORTED, "%s: loops and branches nest more than %d deep", c->name, MAX_NESTING);
  SN_FOR_INSTRS(i, c) {
    SN_TRY(add_instr(p, i));
    uint32_t begin = p->n_positions;
    for (uint16_t k = 0; runs_inner(i) && k < i->n_called; k++) {
      if (p->graph.n_callers[i->called[k]->id] != 1) {
        return sn_error(p->d, i->loc, SN_ERR_VERIFY, "%s: %s is run from several places; the pass `flatten` gives each its own", i->name, i->called[k]->name);
      }
      SN_TRY(number(p, i->called[k], depth + 1));
    }
    p->position[i->id] = p->n_positions;
    p->at[p->n_positions] = i;
    for (int64_t k = 0; k < sn_shape_leaves(i->shape); k++) {
      value_class *v = &p->classes[p->first_leaf[i->id] + k];
      v->first = is_name(i) ? UINT32_MAX : runs_inner(i) ? begin : p->n_positions; /* a name does not keep what it names */
      v->last = is_name(i) ? 0 : p->n_positions;
    }
    p->n_positions++;
  }
  return SN_OK;
}

/* ---- 2. sharing ---- */

static void share_rename(planner *p, const sn_instr *i) {
  int64_t n = sn_shape_leaves(i->shape);
  for (int k = 0; k < n; k++) {
    sn_leaf_value v = sn_leaf_source(i, k);
    if (v.instr != i) unite_leaves(p, i, k, v.instr, v.leaf, 1);
  }
}

static void share_inner(planner *p, const sn_instr *i) {
  int64_t n = sn_shape_leaves(i->shape);
  for (uint16_t k = 0; k < i->n_called; k++) {
    const sn_computation *c = i->called[k];
    if (i->op == SN_OP_WHILE) {
      unite_leaves(p, sn_instr_operand(i, 0), 0, c->params[0], 0, n);
      if (k == 1) unite_leaves(p, i, 0, c->root, 0, n);
    } else {
      uint32_t first = i->op == SN_OP_CONDITIONAL ? k + 1u : 0;
      for (uint32_t q = 0; q < c->n_params; q++) {
        const sn_instr *o = sn_instr_operand(i, first + q);
        unite_leaves(p, o, 0, c->params[q], 0, sn_shape_leaves(o->shape));
      }
      unite_leaves(p, i, 0, c->root, 0, n);
    }
  }
  if (i->op == SN_OP_WHILE) unite_leaves(p, i, 0, sn_instr_operand(i, 0), 0, n);
}

static void share_outputs(planner *p, const sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  for (int64_t k = 0; a && k < a->u.aliases.n; k++) {
    const sn_alias *s = &a->u.aliases.v[k];
    const sn_instr *o = sn_instr_operand(i, (uint32_t)s->operand);
    unite_leaves(p, i, sn_leaf_at(i->shape, s->output_index), o, sn_leaf_at(o->shape, s->operand_index), 1);
  }
}

/* What only names leaves reads none: their readers count, through the classes they share. */
static void note_reads(planner *p, const sn_instr *i) {
  if (is_name(i)) return;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *o = sn_instr_operand(i, k);
    for (int64_t l = 0; l < sn_shape_leaves(o->shape); l++) {
      value_class *c = &p->classes[p->first_leaf[o->id] + l];
      if (p->position[i->id] > c->last) c->last = p->position[i->id];
    }
  }
}

static void share(planner *p) {
  for (uint32_t k = 0; k < p->n_positions; k++) note_reads(p, p->at[k]);
  for (uint32_t k = 0; k < p->n_positions; k++) {
    const sn_instr *i = p->at[k];
    if (runs_inner(i)) share_inner(p, i);
    else if (i->op == SN_OP_FUSION || i->op == SN_OP_CUSTOM_CALL) share_outputs(p, i);
    else share_rename(p, i);
  }
}

/* ---- writing over what dies ---- */

static uint32_t class_of(planner *p, const sn_instr *i, int leaf) { return find(p, p->first_leaf[i->id] + (uint32_t)leaf); }

/* May leaf `leaf` of i lie where operand k lies? Nothing reads that memory later, and every operand that lies there may be written over. */
static bool may_take_over(planner *p, const sn_instr *i, uint32_t k, int leaf) {
  uint32_t from = class_of(p, sn_instr_operand(i, k), 0), to = class_of(p, i, leaf);
  const value_class *x = &p->classes[from], *y = &p->classes[to];
  if (from == to || x->place != SN_PLACE_ARENA || y->place != SN_PLACE_ARENA || x->last != p->position[i->id] || y->first != p->position[i->id]) return false;
  if (align(x->bytes) != align(y->bytes)) return false;
  for (uint32_t o = 0; o < i->n_operands; o++) {
    const sn_instr *other = sn_instr_operand(i, o);
    if (sn_shape_is_array(other->shape) && class_of(p, other, 0) == from && !sn_in_place_ok(i, o, leaf)) return false;
  }
  return true;
}

/* After homes are known: memory of arguments, results and constants is not the arena's to give. */
static void share_in_place(planner *p) {
  for (uint32_t q = 0; q < p->n_positions; q++) {
    const sn_instr *i = p->at[q];
    if (i->op != SN_OP_FUSION && i->op != SN_OP_COPY && i->op != SN_OP_DYNAMIC_UPDATE_SLICE && !sn_op_has(i->op, SN_T_ELTWISE)) continue;
    for (int leaf = 0; leaf < sn_shape_leaves(i->shape); leaf++) {
      for (uint32_t k = 0; k < i->n_operands; k++) {
        if (!sn_shape_is_array(sn_operand_shape(i, k)) || !may_take_over(p, i, k, leaf)) continue;
        unite(p, class_of(p, sn_instr_operand(i, k), 0), class_of(p, i, leaf));
        break;
      }
    }
  }
}

/* ---- 3. homes ---- */

static sn_status set_home(planner *p, const sn_instr *i, int leaf, sn_place place, uint32_t index) {
  value_class *c = &p->classes[find(p, p->first_leaf[i->id] + (uint32_t)leaf)];
  if (c->place == SN_PLACE_NONE) return SN_OK;
  if (c->place != SN_PLACE_ARENA && (c->place != place || c->index != index)) {
    return sn_error(p->d, i->loc, SN_ERR_VERIFY, "%s: the value needs two homes; the pass `copy-insertion` gives each its own", i->name);
  }
  c->place = place;
  c->index = index;
  return SN_OK;
}

static sn_status home_constants(planner *p) {
  const sn_instr **v = SN_NEW_N(p->a, const sn_instr *, p->n_positions + 1);
  if (!v) return sn_out_of_memory(p->d, p->n_positions * sizeof *v);
  for (uint32_t k = 0; k < p->n_positions; k++) {
    const sn_instr *i = p->at[k];
    if (i->op != SN_OP_CONSTANT || !sn_shape_is_array(i->shape)) continue;
    SN_TRY(set_home(p, i, 0, SN_PLACE_CONSTANT, p->plan->n_constants));
    p->plan->constant_bytes += sn_shape_bytes(i->shape);
    v[p->plan->n_constants++] = i;
  }
  p->plan->constants = v;
  return SN_OK;
}

static sn_status home_arguments(planner *p, uint32_t *first) {
  const sn_computation *e = p->m->entry;
  uint32_t at = 0;
  for (uint32_t k = 0; k < e->n_params; k++) {
    first[k] = at;
    for (int64_t l = 0; l < sn_shape_leaves(e->params[k]->shape); l++) SN_TRY(set_home(p, e->params[k], (int)l, SN_PLACE_ARGUMENT, at++));
    p->plan->argument_bytes += sn_shape_bytes(e->params[k]->shape);
  }
  return SN_OK;
}

/* Result leaf k lives in its own memory, or in the argument's that it shares. */
static sn_status home_results(planner *p, const uint32_t *first) {
  const sn_instr *root = p->m->entry->root;
  int64_t n = sn_shape_leaves(root->shape);
  p->plan->result_bytes = sn_shape_bytes(root->shape);
  for (int k = 0; k < n; k++) {
    sn_place place = SN_PLACE_RESULT;
    uint32_t index = (uint32_t)k;
    for (int64_t a = 0; a < p->m->n_aliases; a++) {
      const sn_alias *s = &p->m->aliases[a];
      if (sn_leaf_at(root->shape, s->output_index) != k) continue;
      place = SN_PLACE_ARGUMENT;
      index = first[s->operand] + (uint32_t)sn_leaf_at(p->m->entry->params[s->operand]->shape, s->operand_index);
    }
    SN_TRY(set_home(p, root, k, place, index));
  }
  return SN_OK;
}

/* ---- 4. the arena ---- */

static int by_birth(const value_class *x, const value_class *y) {
  return x->first != y->first ? (x->first < y->first ? -1 : 1) : (x->owner->id > y->owner->id) - (x->owner->id < y->owner->id);
}

static int by_size(const void *a, const void *b) {
  const value_class *x = *(value_class *const *)a, *y = *(value_class *const *)b;
  if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return by_birth(x, y);
}

static int by_life(const void *a, const void *b) {
  const value_class *x = *(value_class *const *)a, *y = *(value_class *const *)b;
  uint32_t m = x->last - x->first, n = y->last - y->first;
  if (m != n) return m > n ? -1 : 1;
  return by_size(a, b);
}

/* Bytes times time. */
static int by_area(const void *a, const void *b) {
  const value_class *x = *(value_class *const *)a, *y = *(value_class *const *)b;
  double m = (double)x->bytes * (x->last - x->first + 1), n = (double)y->bytes * (y->last - y->first + 1);
  if (m != n) return m > n ? -1 : 1;
  return by_birth(x, y);
}

static int by_first(const void *a, const void *b) {
  const value_class *x = *(value_class *const *)a, *y = *(value_class *const *)b;
  if (x->first == y->first && x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
  return by_birth(x, y);
}

/* The lowest gap between the placed classes alive at the same time; `placed` is kept sorted by offset. */
static void place_class(value_class *c, value_class **placed, size_t *n, int64_t *total) {
  int64_t at = 0;
  size_t slot = *n;
  for (size_t k = 0; k < *n; k++) {
    const value_class *o = placed[k];
    if (o->first > c->last || o->last < c->first) continue;
    if (o->offset >= at + align(c->bytes)) break;
    if (o->offset + align(o->bytes) > at) at = o->offset + align(o->bytes);
  }
  c->offset = at;
  while (slot > 0 && placed[slot - 1]->offset > at) {
    placed[slot] = placed[slot - 1];
    slot--;
  }
  placed[slot] = c;
  (*n)++;
  if (at + align(c->bytes) > *total) *total = at + align(c->bytes);
}

/* Most bytes alive at once: no packing can be better. */
static int64_t lower_bound(value_class *const *v, size_t n, uint32_t n_positions, int64_t *delta) {
  int64_t live = 0, best = 0;
  for (size_t k = 0; k < n; k++) {
    delta[v[k]->first] += align(v[k]->bytes);
    delta[v[k]->last + 1] -= align(v[k]->bytes);
  }
  for (uint32_t k = 0; k < n_positions; k++) {
    live += delta[k];
    if (live > best) best = live;
  }
  return best;
}

typedef struct packing { value_class **v, **placed; int64_t *best, *delta; } packing;

enum { MANY_CLASSES = 3000 }; /* a placement looks at all placed before it */

/* Several orders, the best stays; none is tried after one that reaches the bound. */
static void pack(planner *p, packing *k, size_t n) {
  static int (*const orders[])(const void *, const void *) = {by_size, by_area, by_life, by_first};
  int64_t bound = lower_bound(k->v, n, p->n_positions + 1, k->delta), least = INT64_MAX;
  size_t n_orders = n > MANY_CLASSES ? 1 : sizeof orders / sizeof *orders;
  for (size_t o = 0; o < n_orders && least > bound; o++) {
    int64_t total = 0;
    size_t n_placed = 0;
    qsort(k->v, n, sizeof *k->v, orders[o]);
    for (size_t c = 0; c < n; c++) place_class(k->v[c], k->placed, &n_placed, &total);
    if (total >= least) continue;
    least = total;
    for (size_t c = 0; c < n; c++) k->best[k->v[c] - p->classes] = k->v[c]->offset;
  }
  for (size_t c = 0; c < n; c++) k->v[c]->offset = k->best[k->v[c] - p->classes];
  if (n) p->plan->arena_bytes = least;
  p->plan->live_bytes = bound;
}

/* Do all of them come with a slice (sinter.slice)? Then the plan is as written. A module of which some lack one is planned anew. */
static bool slices_given(value_class *const *v, size_t n) {
  int64_t offset, bytes;
  for (size_t k = 0; k < n; k++) {
    if (!sn_slice_read(v[k]->owner, v[k]->owner_leaf, &offset, &bytes)) return false;
  }
  return n > 0;
}

static sn_status bad_slice(planner *p, const value_class *c, const char *what, const char *other) {
  sn_error(p->d, c->owner->loc, SN_ERR_VERIFY, "%s: sinter.slice: %s%s", c->owner->name, what, other);
  sn_hint(p->d, "without any sinter.slice the module is planned anew");
  return SN_ERR_VERIFY;
}

static sn_status take_slices(planner *p, value_class *const *v, size_t n) {
  for (size_t k = 0; k < n; k++) {
    int64_t bytes;
    value_class *c = v[k];
    sn_slice_read(c->owner, c->owner_leaf, &c->offset, &bytes);
    if (bytes < c->bytes) return bad_slice(p, c, "smaller than the value", "");
    if (c->offset % 64 || c->offset > INT64_MAX / 4 || bytes > INT64_MAX / 4) return bad_slice(p, c, "offsets are multiples of 64 within the address space", "");
    for (size_t o = 0; o < k; o++) {
      const value_class *x = v[o];
      if (x->first > c->last || x->last < c->first || x->offset >= c->offset + c->bytes || c->offset >= x->offset + x->bytes) continue;
      return bad_slice(p, c, "it overlaps the one of a value that lives at the same time, ", x->owner->name);
    }
    if (c->offset + align(c->bytes) > p->plan->arena_bytes) p->plan->arena_bytes = c->offset + align(c->bytes);
  }
  return SN_OK;
}

static sn_status lay_out(planner *p) {
  sn_status taken = SN_OK;
  size_t n = 0;
  packing k = {sn_alloc_zero(p->n_classes + 1u, sizeof *k.v), sn_alloc_zero(p->n_classes + 1u, sizeof *k.placed), sn_alloc_zero(p->n_classes + 1u, sizeof *k.best),
               sn_alloc_zero(p->n_positions + 3u, sizeof *k.delta)};
  bool ok = k.v && k.placed && k.best && k.delta;
  for (uint32_t c = 0; ok && c < p->n_classes; c++) {
    if (find(p, c) == c && p->classes[c].place == SN_PLACE_ARENA && p->classes[c].bytes) k.v[n++] = &p->classes[c];
  }
  if (ok && slices_given(k.v, n)) {
    taken = take_slices(p, k.v, n);
    p->plan->live_bytes = lower_bound(k.v, n, p->n_positions + 1, k.delta);
  } else if (ok) {
    pack(p, &k, n);
  }
  sn_free(k.v);
  sn_free(k.placed);
  sn_free(k.best);
  sn_free(k.delta);
  return ok ? taken : sn_out_of_memory(p->d, p->n_classes * sizeof *k.v);
}

/* Who is alive where most is. */
static sn_status find_peak(planner *p) {
  int64_t *delta = sn_alloc_zero(p->n_positions + 2u, sizeof *delta), live = 0, best = -1;
  uint32_t at = 0, n = 0;
  if (!delta) return sn_out_of_memory(p->d, p->n_positions * sizeof *delta);
  for (uint32_t k = 0; k < p->n_classes; k++) {
    const value_class *c = &p->classes[k];
    if (find(p, k) != k || c->place != SN_PLACE_ARENA) continue;
    delta[c->first] += c->bytes;
    delta[c->last + 1] -= c->bytes;
  }
  for (uint32_t k = 0; k < p->n_positions; k++) {
    live += delta[k];
    if (live > best) {
      best = live;
      at = k;
    }
  }
  sn_free(delta);
  sn_plan_owner *owners = SN_NEW_N(p->a, sn_plan_owner, p->n_classes + 1);
  if (!owners) return sn_out_of_memory(p->d, p->n_classes * sizeof *owners);
  for (uint32_t k = 0; k < p->n_classes; k++) {
    const value_class *c = &p->classes[k];
    if (find(p, k) != k || c->place != SN_PLACE_ARENA || c->bytes == 0 || c->first > at || c->last < at) continue;
    uint32_t slot = n++;
    while (slot > 0 && owners[slot - 1].bytes < c->bytes) {
      owners[slot] = owners[slot - 1];
      slot--;
    }
    owners[slot] = (sn_plan_owner){c->owner, c->owner_leaf, c->bytes};
  }
  p->plan->peak = owners;
  p->plan->n_peak = (int)n;
  p->plan->peak_instr_id = p->n_positions ? (int64_t)p->at[at]->id : -1;
  return SN_OK;
}

static sn_status write_slices(planner *p) {
  const sn_plan_slice **table = SN_NEW_N(p->a, const sn_plan_slice *, p->m->n_ids + 1);
  if (!table) return sn_out_of_memory(p->d, p->m->n_ids * sizeof *table);
  for (uint32_t k = 0; k < p->n_positions; k++) {
    const sn_instr *i = p->at[k];
    int64_t n = sn_shape_leaves(i->shape);
    sn_plan_slice *v = SN_NEW_N(p->a, sn_plan_slice, n + 1);
    if (!v) return sn_out_of_memory(p->d, (size_t)n * sizeof *v);
    for (int64_t l = 0; l < n; l++) {
      const value_class *c = &p->classes[find(p, p->first_leaf[i->id] + (uint32_t)l)];
      const sn_shape *s = sn_shape_leaf(i->shape, l);
      v[l] = (sn_plan_slice){c->place, c->index, c->offset, sn_shape_is_array(s) ? sn_shape_bytes(s) : 0};
    }
    table[i->id] = v;
  }
  p->plan->slices = table;
  return SN_OK;
}

static sn_status make(planner *p) {
  const sn_module *m = p->m;
  SN_TRY(sn_call_graph_build(p->a, m, &p->graph));
  p->first_leaf = SN_NEW_N(p->a, uint32_t, m->n_ids + 1);
  p->position = SN_NEW_N(p->a, uint32_t, m->n_ids + 1);
  p->at = SN_NEW_N(p->a, const sn_instr *, m->n_ids + 1);
  uint32_t *first = SN_NEW_N(p->a, uint32_t, m->entry->n_params + 1);
  if (!p->first_leaf || !p->position || !p->at || !first) return sn_out_of_memory(p->d, m->n_ids * sizeof *p->at);
  SN_TRY(number(p, m->entry, 0));
  /* Arguments are there before anything runs, results until after everything. */
  for (uint32_t k = 0; k < m->entry->n_params; k++) {
    for (int64_t l = 0; l < sn_shape_leaves(m->entry->params[k]->shape); l++) p->classes[p->first_leaf[m->entry->params[k]->id] + l].first = 0;
  }
  for (int64_t l = 0; l < sn_shape_leaves(m->entry->root->shape); l++) p->classes[p->first_leaf[m->entry->root->id] + l].last = p->n_positions;
  share(p);
  SN_TRY(home_constants(p));
  SN_TRY(home_arguments(p, first));
  SN_TRY(home_results(p, first));
  share_in_place(p);
  SN_TRY(lay_out(p));
  SN_TRY(find_peak(p));
  return write_slices(p);
}

sn_status sn_plan_make(sn_diag *d, sn_arena *a, const sn_module *m, sn_plan *out) {
  memset(out, 0, sizeof *out);
  planner p;
  memset(&p, 0, sizeof p);
  p.d = d;
  p.a = a;
  p.m = m;
  p.plan = out;
  out->module = m;
  out->n_ids = m->n_ids;
  sn_status s = make(&p);
  sn_free(p.classes);
  return s;
}

/* ---- the report ---- */

static void print_owner(sn_str *to, const sn_plan_owner *o) {
  sn_str_printf(to, "  %12lld  %s", (long long)o->bytes, o->instr->name);
  if (o->leaf) sn_str_printf(to, " (leaf %d)", o->leaf);
  sn_str_printf(to, "  %s", sn_opcode_text(o->instr->op));
  const sn_metadata *md = o->instr->metadata;
  if (md && md->source_file) sn_str_printf(to, "  %s:%d", md->source_file, (int)md->source_line);
  else if (md && md->op_name) sn_str_printf(to, "  %s", md->op_name);
  sn_str_char(to, '\n');
}

static bool is_donated(const sn_module *m, uint32_t param, int leaf) {
  for (int64_t a = 0; a < m->n_aliases; a++) {
    if (m->aliases[a].operand == param && sn_leaf_at(m->entry->params[param]->shape, m->aliases[a].operand_index) == leaf) return true;
  }
  return false;
}

static bool is_shared(const sn_module *m, int leaf) {
  for (int64_t a = 0; a < m->n_aliases; a++) {
    if (sn_leaf_at(m->entry->root->shape, m->aliases[a].output_index) == leaf) return true;
  }
  return false;
}

/* A result leaf of this shape with memory of its own, not taken yet; -1: none. */
static int matching_result(const sn_module *m, const sn_shape *s, const bool *taken) {
  const sn_shape *r = m->entry->root->shape;
  for (int leaf = 0; leaf < sn_shape_leaves(r); leaf++) {
    if (!taken[leaf] && !is_shared(m, leaf) && sn_shape_equal(sn_shape_leaf(r, leaf), s, SN_EQ_LAYOUT)) return leaf;
  }
  return -1;
}

/* Results that could lie over arguments of their shape, if the caller gave those away. */
static void print_donation(sn_str *to, const sn_module *m) {
  bool *taken = sn_alloc_zero((size_t)sn_shape_leaves(m->entry->root->shape) + 1, sizeof *taken);
  int64_t bytes = 0, n = 0;
  for (uint32_t k = 0; taken && k < m->entry->n_params; k++) {
    const sn_shape *shape = m->entry->params[k]->shape;
    for (int leaf = 0; leaf < sn_shape_leaves(shape); leaf++) {
      const sn_shape *s = sn_shape_leaf(shape, leaf);
      int result = sn_shape_is_array(s) && s->rank > 0 && !is_donated(m, k, leaf) ? matching_result(m, s, taken) : -1;
      if (result < 0) continue;
      taken[result] = true;
      bytes += sn_shape_bytes(s);
      n++;
    }
  }
  sn_free(taken);
  if (n) sn_str_printf(to, "donating arguments would save up to %lld bytes: %lld have the shape of a result that has memory of its own\n", (long long)bytes, (long long)n);
}

void sn_plan_print(sn_str *to, const sn_plan *p) {
  sn_str_printf(to, "arguments  %lld bytes\nresults    %lld bytes\nconstants  %lld bytes\narena      %lld bytes\n", (long long)p->argument_bytes,
                (long long)p->result_bytes, (long long)p->constant_bytes, (long long)p->arena_bytes);
  print_donation(to, p->module);
  if (p->n_peak == 0) return;
  sn_str_printf(to, "at the peak of the arena:\n");
  for (int k = 0; k < p->n_peak && k < 20; k++) print_owner(to, &p->peak[k]);
  if (p->n_peak > 20) sn_str_printf(to, "  and %d smaller ones\n", p->n_peak - 20);
}
