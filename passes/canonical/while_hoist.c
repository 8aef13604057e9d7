/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loop-invariant code: what a loop's body computes from invariant elements alone is computed once, in front of the loop, and handed in as a further element.
 *
 * Only work worth an element of state moves (a product, a reduction, a transcendental, something over many elements) and only when its result is not larger than
 * what it reads, or the loop is known to run: state that has to live through the loop costs memory. Cheap things between (reshapes, broadcasts, conversions)
 * move along when something that moves needs them. A value with an effect, or that differs from device to device, stays. */
#include "passes_internal.h"

enum { SMALL = 1 << 8 };

typedef struct hoist {
  sn_pass_ctx *pc;
  sn_instr *w;
  sn_computation *body;
  const bool *effects;
  sn_marks invariant; /* 1: invariant; 2: and copied outside (at `copies`) */
  uint32_t base;
  sn_instr **copies;  /* by id - base */
  sn_list moved;      /* instructions of the body that become elements */
} hoist;

static bool movable(const hoist *h, const sn_instr *i) {
  if (i->n_control || sn_instr_effect(i, h->effects) || sn_op_has(i->op, (sn_trait)(SN_T_TOKEN | SN_T_DEVICE | SN_T_START | SN_T_DONE | SN_T_BARRIER))) return false;
  return i->op != SN_OP_PARAMETER && i->op != SN_OP_TUPLE && sn_shape_is_array(i->shape) && i->n_called <= 1 && i->op != SN_OP_CALL && i->op != SN_OP_FUSION &&
         i->op != SN_OP_CUSTOM_CALL && !sn_instr_frontend(i, "sinter.remat") && i->op != SN_OP_WHILE && i->op != SN_OP_CONDITIONAL;
}

static bool hands_on(const hoist *h, const sn_instr *get) {
  int64_t k = sn_instr_int(get, SN_ATTR_INDEX);
  const sn_instr *next = sn_instr_operand(h->body->root, (uint32_t)k);
  return next->op == SN_OP_GET_TUPLE_ELEMENT && sn_instr_operand(next, 0) == h->body->params[0] && sn_instr_int(next, SN_ATTR_INDEX) == k;
}

static void mark_invariant(hoist *h) {
  SN_FOR_INSTRS(i, h->body) {
    bool all = i->op == SN_OP_GET_TUPLE_ELEMENT ? sn_instr_operand(i, 0) == h->body->params[0] && hands_on(h, i) : movable(h, i);
    for (uint32_t k = 0; k < i->n_operands && all && i->op != SN_OP_GET_TUPLE_ELEMENT; k++) all = *sn_mark(&h->invariant, sn_instr_operand(i, k));
    *sn_mark(&h->invariant, i) = all;
  }
}

static bool worth_it(const sn_instr *i) {
  if (sn_op_has(i->op, (sn_trait)(SN_T_FREE)) || i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE || i->op == SN_OP_CONVERT) return false;
  int64_t in = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) in += sn_shape_bytes(sn_operand_shape(i, k));
  bool heavy = sn_op_has(i->op, (sn_trait)(SN_T_SPECIAL | SN_T_TRANS)) || i->op == SN_OP_DOT || i->op == SN_OP_CONVOLUTION || sn_shape_elements(i->shape) >= SMALL;
  return heavy && sn_shape_bytes(i->shape) <= (in > SMALL ? in : SMALL);
}

/* Needed inside by something that stays, and worth an element. */
static bool is_frontier(const hoist *h, const sn_instr *i) {
  if (!*sn_mark(&h->invariant, i) || !worth_it(i)) return false;
  SN_FOR_USES(u, i) {
    if (!*sn_mark(&h->invariant, u->user) || u->user == h->body->root) return true;
  }
  return false;
}

/* The value of i in front of the loop. Depth is bounded by the body's chain of invariant operands; walked in order, operands have their copies already. */
static sn_status copy_outside(hoist *h, sn_builder *b, sn_instr *i) {
  sn_instr **to = &h->copies[i->id - h->base], *xs[64];
  if (*to || i->n_operands > 64) return *to ? SN_OK : SN_ERR_UNSUPPORTED;
  if (i->op == SN_OP_GET_TUPLE_ELEMENT) {
    sn_instr *init = sn_instr_operand(h->w, 0);
    int64_t k = sn_instr_int(i, SN_ATTR_INDEX);
    *to = init->op == SN_OP_TUPLE ? sn_instr_operand(init, (uint32_t)k) : sn_build_get(b, init, k);
    return b->status;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = h->copies[sn_instr_operand(i, k)->id - h->base];
  SN_TRY(sn_instr_clone(i, h->w->parent, i->n_operands ? xs : NULL, NULL, to));
  sn_instr_move_before(*to, h->w);
  return SN_OK;
}

/* Marks what the moved instructions need, then copies in order. */
static sn_status copy_needed(hoist *h, sn_builder *b) {
  sn_list stack = {0};
  sn_status s = SN_OK;
  for (size_t k = 0; k < h->moved.n && s == SN_OK; k++) s = sn_list_push(&stack, h->moved.v[k]);
  while (stack.n && s == SN_OK) {
    sn_instr *i = sn_list_pop(&stack);
    if (*sn_mark(&h->invariant, i) == 2) continue;
    *sn_mark(&h->invariant, i) = 2;
    for (uint32_t k = 0; k < i->n_operands && i->op != SN_OP_GET_TUPLE_ELEMENT && s == SN_OK; k++) s = sn_list_push(&stack, sn_instr_operand(i, k));
  }
  sn_list_finish(&stack);
  for (sn_instr *i = h->body->first; i && s == SN_OK; i = i->next) {
    if (*sn_mark(&h->invariant, i) == 2) s = copy_outside(h, b, i);
  }
  return s;
}

/* ---- the longer state ---- */

static sn_status lengthen(sn_instr *tuple_shaped, size_t n, sn_instr *const *more) {
  sn_arena *a = tuple_shaped->parent->module->arena;
  const sn_shape *s = tuple_shaped->shape, **v = SN_NEW_N(a, const sn_shape *, (size_t)s->n_elements + n);
  if (!v) return SN_ERR_MEMORY;
  for (int k = 0; k < s->n_elements; k++) v[k] = s->elements[k];
  for (size_t k = 0; k < n; k++) v[(size_t)s->n_elements + k] = more[k]->shape;
  const sn_shape *longer = sn_shape_tuple(a, s->n_elements + (int)n, v);
  if (!longer) return SN_ERR_MEMORY;
  sn_instr_set_shape(tuple_shaped, longer);
  return SN_OK;
}

static sn_status append_operands(sn_instr *tuple, size_t n, sn_instr *const *more) {
  sn_list all = {0};
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < tuple->n_operands && s == SN_OK; k++) s = sn_list_push(&all, sn_instr_operand(tuple, k));
  for (size_t k = 0; k < n && s == SN_OK; k++) s = sn_list_push(&all, more[k]);
  if (s == SN_OK) s = sn_instr_set_operands(tuple, (uint32_t)all.n, all.v);
  sn_list_finish(&all);
  return s;
}

static sn_status new_initial(hoist *h, sn_builder *b, size_t n, sn_instr *const *more) {
  sn_instr *init = sn_instr_operand(h->w, 0);
  sn_list all = {0};
  sn_status s = SN_OK;
  for (int k = 0; k < init->shape->n_elements && s == SN_OK; k++) s = sn_list_push(&all, init->op == SN_OP_TUPLE ? sn_instr_operand(init, (uint32_t)k) : sn_build_get(b, init, k));
  for (size_t k = 0; k < n && s == SN_OK; k++) s = sn_list_push(&all, more[k]);
  sn_instr *tuple = s == SN_OK ? sn_build_tuple(b, (uint32_t)all.n, all.v) : NULL;
  sn_list_finish(&all);
  if (!tuple) return s != SN_OK ? s : b->status;
  sn_instr_set_operand(h->w, 0, tuple);
  return SN_OK;
}

static sn_status add_elements(hoist *h, sn_builder *outside) {
  size_t n = h->moved.n;
  int64_t first = h->w->shape->n_elements;
  sn_list values = {0}, inside = {0};
  sn_status s = SN_OK;
  for (size_t k = 0; k < n && s == SN_OK; k++) s = sn_list_push(&values, h->copies[h->moved.v[k]->id - h->base]);
  if (s == SN_OK) s = new_initial(h, outside, n, values.v);
  if (s == SN_OK) s = lengthen(h->w, n, values.v);
  if (s == SN_OK) s = lengthen(h->body->params[0], n, values.v);
  if (s == SN_OK) s = lengthen(h->w->called[0]->params[0], n, values.v);
  for (size_t k = 0; k < n && s == SN_OK; k++) {
    sn_builder b;
    sn_builder_init_at(&b, h->pc->diag, h->moved.v[k]);
    sn_instr *get = sn_build_get(&b, h->body->params[0], first + (int64_t)k);
    s = get ? sn_list_push(&inside, get) : b.status;
    if (s == SN_OK) s = sn_pass_forward(h->pc, h->moved.v[k], get);
  }
  if (s == SN_OK) s = append_operands(h->body->root, n, inside.v);
  if (s == SN_OK) s = lengthen(h->body->root, n, inside.v);
  sn_list_finish(&values);
  sn_list_finish(&inside);
  return s;
}

static sn_status run(hoist *h) {
  SN_TRY(sn_marks_init(h->pc->scratch, h->body, &h->invariant));
  uint32_t hi = 0;
  h->base = h->invariant.base;
  SN_FOR_INSTRS(i, h->body) hi = i->id > hi ? i->id : hi;
  if (!(h->copies = SN_NEW_N(h->pc->scratch, sn_instr *, hi - h->base + 1u))) return SN_ERR_MEMORY;
  mark_invariant(h);
  for (sn_instr *i = h->body->first; i; i = i->next) {
    if (is_frontier(h, i) && sn_pass_may(h->pc)) SN_TRY(sn_list_push(&h->moved, i));
  }
  if (!h->moved.n) return SN_OK;
  sn_builder b;
  sn_builder_init_at(&b, h->pc->diag, h->w);
  SN_TRY(copy_needed(h, &b));
  for (size_t k = 0; k < h->moved.n; k++) sn_pass_remark(h->pc, SN_DONE, SN_REASON_INVARIANT, h->moved.v[k], h->w, 0, NULL, "computed once, in front of the loop");
  h->pc->changed = true;
  return add_elements(h, &b);
}

sn_status sn_pass_while_hoist(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  bool *effects = sn_effects(pc->scratch, m);
  if (!effects) return sn_out_of_memory(pc->diag, m->n_comp_ids);
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op != SN_OP_WHILE || !sn_while_is_plain(i, &g)) continue;
      hoist h = {pc, i, i->called[1], effects, {0}, 0, NULL, {0}};
      sn_status s = run(&h);
      sn_list_finish(&h.moved);
      SN_TRY(s);
    }
  }
  return SN_OK;
}
