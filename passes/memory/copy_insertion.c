/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Copies where a value would need two homes.
 *
 * A home is memory that something outside decides: an argument, a constant, a result, the state of a loop, the result of a branch. After this pass
 *   - each leaf of the entry's root, of a branch's root, of a loop's initial state and of a body's root is a value of its own, made by an instruction that may write there;
 *   - a body's new state may be written where the old one lies: the old one is not read any more when the new one is made (or element by element, sn_in_place_ok);
 *   - an operand that a call writes over (output_to_operand_aliasing) is a value of its own that nobody reads later;
 *   - a result that shares an argument (input_output_alias) is made when the argument is not read any more.
 * Runs on a scheduled module; copies go to the place in the order where they are needed. */
#include "../passes_internal.h"
#include "leaves.h"

#include <string.h>

typedef struct copier {
  sn_pass_ctx *pc;
  sn_module *m;
  uint32_t *position; /* of instructions in their computation, by id: number() */
  uint32_t n_positions;
  uint32_t *first_leaf; /* by instruction id: one more than the first leaf of a tuple that is a value of it; 0: none. repeated() */
  uint32_t n_first;
} copier;

/* ---- rebuilding a value with copies of some leaves ---- */

/* A constant repeated over an array: made once more, it costs less than a copy, and no memory besides. */
static bool is_fill(const sn_instr *i) {
  if (i->op == SN_OP_BROADCAST) return sn_instr_operand(i, 0)->op == SN_OP_CONSTANT && sn_operand_shape(i, 0)->rank == 0;
  return i->op == SN_OP_FUSION && i->n_operands == 0 && sn_shape_is_array(i->shape);
}

static sn_instr *copy_of(sn_builder *b, sn_instr *v, const sn_shape *s) {
  sn_instr *out = NULL;
  if (b->status != SN_OK || !v || !is_fill(v)) return sn_build(b, SN_OP_COPY, s, 1, &v, 0, NULL, 0, NULL);
  b->status = sn_instr_clone(v, v->parent, NULL, NULL, &out);
  if (b->status != SN_OK) return NULL;
  if (b->before) sn_instr_move_before(out, b->before);
  return out;
}

static sn_instr *rebuild(sn_builder *b, sn_instr *v, const sn_shape *s, const bool *copy, int *leaf) {
  if (!sn_shape_is_tuple(s)) {
    bool wanted = copy[(*leaf)++];
    return wanted ? copy_of(b, v, s) : v;
  }
  sn_instr **xs = SN_NEW_N(sn_builder_arena(b), sn_instr *, s->n_elements + 1);
  if (!xs) {
    b->status = SN_ERR_MEMORY;
    return NULL;
  }
  for (int k = 0; k < s->n_elements; k++) {
    sn_instr *e = v && v->op == SN_OP_TUPLE ? sn_instr_operand(v, (uint32_t)k) : sn_build_get(b, v, k);
    xs[k] = rebuild(b, e, s->elements[k], copy, leaf);
  }
  return sn_build_tuple(b, (uint32_t)s->n_elements, xs);
}

/* What the rebuilt value was made of, where nobody reads it any more. */
static void drop_names(sn_instr *v) {
  sn_instr *xs[64];
  uint32_t n = 0;
  if (v->n_uses || sn_instr_is_root(v) || v->op != SN_OP_TUPLE) return;
  for (uint32_t k = 0; k < v->n_operands && n < 64; k++) xs[n++] = sn_instr_operand(v, k);
  sn_instr_erase(v);
  for (uint32_t k = 0; k < n; k++) {
    if (!sn_instr_is_linked(xs[k]) || xs[k]->n_uses || sn_instr_is_root(xs[k]) || !is_fill(xs[k])) continue;
    sn_instr_erase(xs[k]);
  }
}

static sn_status copied(copier *x, sn_instr *v, sn_instr *before, const bool *copy, sn_instr **out) {
  sn_builder b;
  int leaf = 0;
  sn_builder_init(&b, x->pc->diag, v->parent);
  b.before = before;
  b.loc = v->loc;
  b.metadata = v->metadata;
  *out = rebuild(&b, v, v->shape, copy, &leaf);
  int64_t n = 0;
  for (int k = 0; k < leaf; k++) n += copy[k];
  sn_number numbers[] = {{"copies", (double)n}};
  if (b.status == SN_OK) sn_pass_remark(x->pc, SN_DONE, SN_REASON_TWO_HOMES, v, NULL, 1, numbers, NULL);
  x->pc->changed = true;
  return b.status == SN_ERR_MEMORY ? sn_out_of_memory(x->pc->diag, 1) : b.status;
}

static bool any(const bool *copy, int64_t n) {
  for (int64_t k = 0; k < n; k++) {
    if (copy[k]) return true;
  }
  return false;
}

static bool *flags(copier *x, const sn_shape *s, int64_t *n) {
  *n = sn_shape_leaves(s);
  return SN_NEW_N(x->pc->scratch, bool, *n + 1);
}

static bool is_token(const sn_shape *s) { return !sn_shape_is_array(s); }

/* Sets copy[k] for each leaf that is the value of an earlier one too, where neither is copied already. */
static sn_status repeated(copier *x, const sn_instr *tuple, int64_t n, bool *copy) {
  uint32_t *next = SN_NEW_N(x->pc->scratch, uint32_t, n + 1); /* leaf + 1 of the same instruction */
  if (x->n_first < x->m->n_ids) {
    x->n_first = x->m->n_ids + x->m->n_ids / 2 + 64;
    x->first_leaf = SN_NEW_N(x->pc->scratch, uint32_t, x->n_first);
  }
  if (!next || !x->first_leaf) return sn_out_of_memory(x->pc->diag, (size_t)n * sizeof *next);
  for (int k = 0; k < n; k++) {
    sn_leaf_value v = sn_leaf_source(tuple, k);
    if (is_token(sn_shape_leaf(tuple->shape, k))) continue;
    for (uint32_t e = x->first_leaf[v.instr->id]; e && !copy[k]; e = next[e - 1]) copy[k] = !copy[e - 1] && sn_leaf_source(tuple, (int)e - 1).leaf == v.leaf;
    next[k] = x->first_leaf[v.instr->id];
    x->first_leaf[v.instr->id] = (uint32_t)k + 1;
  }
  for (int k = 0; k < n; k++) x->first_leaf[sn_leaf_source(tuple, k).instr->id] = 0;
  return SN_OK;
}

/* ---- what a value is ---- */

/* May not be written to: its memory is somebody else's. */
static bool is_foreign(const sn_instr *i) { return i->op == SN_OP_PARAMETER || i->op == SN_OP_CONSTANT; }

/* Anew for each question: copies made since have ids of their own. */
static sn_status number(copier *x, const sn_computation *c) {
  uint32_t at = 0;
  if (x->n_positions < x->m->n_ids) {
    x->n_positions = x->m->n_ids + x->m->n_ids / 2 + 64;
    x->position = SN_NEW_N(x->pc->scratch, uint32_t, x->n_positions);
    if (!x->position) return sn_out_of_memory(x->pc->diag, x->n_positions * sizeof *x->position);
  }
  SN_FOR_INSTRS(i, c) x->position[i->id] = at++;
  return SN_OK;
}

/* Last position at which anything reads leaf `leaf` of i, looking through renames; UINT32_MAX: it reaches the root. Stack of (instr, leaf) pairs. */
static uint32_t last_read(copier *x, const sn_instr *i, int leaf, const sn_instr *except) {
  uint32_t last = 0, n = 0, cap = 64;
  sn_leaf_value *stack = sn_alloc_zero(cap, sizeof *stack);
  if (!stack) return UINT32_MAX; /* as if it were read for ever: a copy too many, never one too few */
  stack[n++] = (sn_leaf_value){i, leaf};
  while (n > 0) {
    sn_leaf_value v = stack[--n];
    if (v.instr->parent->root == v.instr && v.instr != except) last = UINT32_MAX;
    SN_FOR_USES(u, v.instr) {
      sn_leaf_value next = {u->user, v.leaf};
      if (u->user == except) continue;
      switch (u->user->op) {
        case SN_OP_TUPLE:
          for (uint32_t k = 0; k < u->index; k++) next.leaf += (int)sn_shape_leaves(sn_operand_shape(u->user, k));
          break;
        case SN_OP_GET_TUPLE_ELEMENT: {
          int first = sn_leaf_offset(v.instr->shape, sn_instr_int(u->user, SN_ATTR_INDEX));
          next.leaf -= first;
          if (next.leaf < 0 || next.leaf >= sn_shape_leaves(u->user->shape)) continue;
          break;
        }
        default:
          if (sn_is_rename(u->user)) {
            if (u->index == 0) break;
            continue;
          }
          if (x->position[u->user->id] > last) last = x->position[u->user->id];
          continue;
      }
      if (n == cap) {
        sn_leaf_value *wider = sn_realloc(stack, 2 * (size_t)cap * sizeof *stack);
        if (!wider) {
          sn_free(stack);
          return UINT32_MAX;
        }
        stack = wider;
        cap *= 2;
      }
      stack[n++] = next;
    }
  }
  sn_free(stack);
  return last;
}

/* Can the new value lie where the old one (leaf `old_leaf` of a parameter) lies? */
static bool may_overwrite(copier *x, sn_leaf_value fresh, const sn_instr *old, int old_leaf, const sn_instr *root) {
  uint32_t made = x->position[fresh.instr->id];
  uint32_t read = last_read(x, old, old_leaf, root);
  if (read < made) return true;
  if (read > made) return false;
  /* The instruction that makes it is the last that reads it. */
  for (uint32_t k = 0; k < fresh.instr->n_operands; k++) {
    const sn_instr *o = sn_instr_operand(fresh.instr, k);
    if (!sn_shape_is_array(o->shape)) return false;
    sn_leaf_value v = sn_leaf_source(o, 0);
    if (v.instr == old && v.leaf == old_leaf && !sn_in_place_ok(fresh.instr, k, fresh.leaf)) return false;
  }
  return true;
}

/* ---- loops ---- */

static sn_status before_loop(copier *x, sn_instr *w) {
  int64_t n;
  sn_instr *init = sn_instr_operand(w, 0), *fixed;
  bool *copy = flags(x, w->shape, &n);
  if (!copy) return sn_out_of_memory(x->pc->diag, (size_t)n);
  SN_TRY(number(x, w->parent));
  for (int k = 0; k < n; k++) {
    sn_leaf_value v = sn_leaf_source(init, k);
    if (is_token(sn_shape_leaf(w->shape, k))) continue;
    copy[k] = is_foreign(v.instr) || last_read(x, v.instr, v.leaf, NULL) > x->position[w->id];
  }
  SN_TRY(repeated(x, init, n, copy));
  if (!any(copy, n)) return SN_OK;
  SN_TRY(copied(x, init, w, copy, &fixed));
  sn_instr_set_operand(w, 0, fixed);
  drop_names(init);
  return SN_OK;
}

static sn_status inside_loop(copier *x, sn_computation *body) {
  int64_t n;
  sn_instr *root = body->root, *param = body->params[0], *fixed;
  bool *copy = flags(x, root->shape, &n);
  if (!copy) return sn_out_of_memory(x->pc->diag, (size_t)n);
  SN_TRY(number(x, body));
  for (int k = 0; k < n; k++) {
    sn_leaf_value v = sn_leaf_source(root, k);
    if (is_token(sn_shape_leaf(root->shape, k)) || (v.instr == param && v.leaf == k)) continue;
    copy[k] = is_foreign(v.instr) || !may_overwrite(x, v, param, k, root);
  }
  SN_TRY(repeated(x, root, n, copy));
  if (!any(copy, n)) return SN_OK;
  /* A copy from one state element to another must not be overtaken by the write of a third: exchanged elements are copied twice, first aside. */
  bool *aside = flags(x, root->shape, &n);
  if (!aside) return sn_out_of_memory(x->pc->diag, (size_t)n);
  for (int k = 0; k < n; k++) aside[k] = copy[k] && sn_leaf_source(root, k).instr == param;
  if (any(aside, n)) SN_TRY(copied(x, root, NULL, aside, &root));
  SN_TRY(copied(x, root, NULL, copy, &fixed));
  sn_computation_set_root(body, fixed);
  return SN_OK;
}

/* ---- calls that write over operands ---- */

/* output_to_operand_aliasing: the operand must be memory that may be written to, and nobody may read the old value later. */
static sn_status before_writer(copier *x, sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  for (int64_t k = 0; a && k < a->u.aliases.n; k++) {
    const sn_alias *s = &a->u.aliases.v[k];
    SN_TRY(number(x, i->parent));
    int64_t n;
    sn_instr *o = sn_instr_operand(i, (uint32_t)s->operand), *fixed;
    int leaf = sn_leaf_at(o->shape, s->operand_index);
    sn_leaf_value v = sn_leaf_source(o, leaf);
    if (!is_foreign(v.instr) && last_read(x, v.instr, v.leaf, NULL) <= x->position[i->id]) continue;
    bool *copy = flags(x, o->shape, &n);
    if (!copy) return sn_out_of_memory(x->pc->diag, (size_t)n);
    copy[leaf] = true;
    SN_TRY(copied(x, o, i, copy, &fixed));
    sn_instr_set_operand(i, (uint32_t)s->operand, fixed);
  }
  return SN_OK;
}

/* ---- branches and the entry ---- */

static sn_status at_root(copier *x, sn_computation *c, const bool *also) {
  int64_t n;
  sn_instr *root = c->root, *fixed;
  bool *copy = flags(x, root->shape, &n);
  if (!copy) return sn_out_of_memory(x->pc->diag, (size_t)n);
  for (int k = 0; k < n; k++) {
    sn_leaf_value v = sn_leaf_source(root, k);
    if (is_token(sn_shape_leaf(root->shape, k))) continue;
    copy[k] = also ? also[k] : is_foreign(v.instr);
  }
  SN_TRY(repeated(x, root, n, copy));
  if (!any(copy, n)) return SN_OK;
  SN_TRY(copied(x, root, NULL, copy, &fixed));
  sn_computation_set_root(c, fixed);
  return SN_OK;
}

/* Argument leaf that each of the n result leaves shares; instr NULL: none. The first alias of a leaf counts. */
static sn_leaf_value *shared_arguments(copier *x, int64_t n) {
  const sn_module *m = x->m;
  sn_leaf_value *v = SN_NEW_N(x->pc->scratch, sn_leaf_value, n + 1);
  for (int64_t a = m->n_aliases; v && a-- > 0;) {
    const sn_instr *p = m->entry->params[m->aliases[a].operand];
    v[sn_leaf_at(m->entry->root->shape, m->aliases[a].output_index)] = (sn_leaf_value){p, sn_leaf_at(p->shape, m->aliases[a].operand_index)};
  }
  return v;
}

static sn_status at_entry(copier *x) {
  int64_t n;
  sn_computation *c = x->m->entry;
  bool *copy = flags(x, c->root->shape, &n);
  if (!copy) return sn_out_of_memory(x->pc->diag, (size_t)n);
  sn_leaf_value *shared = shared_arguments(x, n);
  if (!shared) return sn_out_of_memory(x->pc->diag, (size_t)n * sizeof *shared);
  SN_TRY(number(x, c));
  for (int k = 0; k < n; k++) {
    sn_leaf_value v = sn_leaf_source(c->root, k);
    const sn_instr *p = shared[k].instr;
    int leaf = shared[k].leaf;
    if (p && v.instr == p && v.leaf == leaf) continue; /* passed through in place */
    copy[k] = is_foreign(v.instr) || (p && !may_overwrite(x, v, p, leaf, c->root));
    /* What a loop or branch gives was written long before it ended: not in a place that may still be read then. */
    copy[k] |= p && (v.instr->op == SN_OP_WHILE || v.instr->op == SN_OP_CONDITIONAL);
  }
  return at_root(x, c, copy);
}

sn_status sn_pass_copy_insertion(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  copier x = {pc, m, NULL, 0, NULL, 0};
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id] || g.is_applied[c->id]) continue;
    for (sn_instr *i = c->first; i; i = i->next) {
      bool writes = sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING) != NULL;
      if (i->op != SN_OP_WHILE && i->op != SN_OP_CONDITIONAL && !writes) continue;
      if (writes) SN_TRY(before_writer(&x, i));
      if (i->op == SN_OP_WHILE) {
        SN_TRY(before_loop(&x, i));
        SN_TRY(inside_loop(&x, i->called[1]));
      }
      for (uint16_t k = 0; i->op == SN_OP_CONDITIONAL && k < i->n_called; k++) SN_TRY(at_root(&x, i->called[k], NULL));
    }
  }
  return at_entry(&x);
}
