/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Orders that put what is needed first, and the call graph. Both sorts keep the present order wherever it is allowed, and use explicit stacks: depth is the user's. */
#include "ir_internal.h"

#include <string.h>

enum { UNSEEN, OPEN, PLACED };

typedef struct frame {
  sn_instr *i;
  uint32_t next; /* the next operand or control predecessor to look at */
} frame;

static sn_instr *needed(const sn_instr *i, uint32_t k) {
  return k < i->n_operands ? i->operands[k].def : k - i->n_operands < i->n_control ? i->control[k - i->n_operands] : NULL;
}

static sn_status place(sn_diag *d, sn_computation *c, sn_instr *root, uint8_t *state, frame *stack, sn_instr **order, uint32_t *n) {
  uint32_t depth = 0;
  stack[depth++] = (frame){root, 0};
  state[root->id] = OPEN;
  while (depth) {
    frame *f = &stack[depth - 1];
    sn_instr *need = needed(f->i, f->next++);
    if (!need) {
      state[f->i->id] = PLACED;
      order[(*n)++] = f->i;
      depth--;
    } else if (need->parent != c || state[need->id] == PLACED) {
      continue;
    } else if (state[need->id] == OPEN) {
      return sn_error(d, f->i->loc, SN_ERR_VERIFY, "%s: needs %s, which needs it in turn", f->i->name, need->name);
    } else {
      state[need->id] = OPEN;
      stack[depth++] = (frame){need, 0};
    }
  }
  return SN_OK;
}

sn_status sn_computation_sort(sn_diag *d, sn_computation *c) {
  uint32_t n = 0, total = c->n_instrs;
  uint8_t *state = sn_alloc_zero(c->module->n_ids + 1u, 1);
  frame *stack = sn_alloc_zero(total + 1u, sizeof *stack);
  sn_instr **order = sn_alloc_zero(total + 1u, sizeof *order);
  sn_status s = state && stack && order ? SN_OK : sn_out_of_memory(d, total * sizeof *stack);
  for (sn_instr *i = c->first; i && s == SN_OK; i = i->next) {
    if (state[i->id] == UNSEEN) s = place(d, c, i, state, stack, order, &n);
  }
  if (s == SN_OK) {
    c->first = c->last = NULL;
    c->n_instrs = 0;
    for (uint32_t k = 0; k < n; k++) sn_instr_link(order[k], c, NULL);
  }
  sn_free(state);
  sn_free(stack);
  sn_free(order);
  return s;
}

/* ---- computations ---- */

typedef struct comp_frame {
  sn_computation *c;
  sn_instr *at;
  uint16_t next;
} comp_frame;

static sn_computation *next_callee(comp_frame *f) {
  while (f->at && f->next >= f->at->n_called) {
    f->at = f->at->next;
    f->next = 0;
  }
  return f->at ? f->at->called[f->next++] : NULL;
}

static sn_status place_computation(sn_diag *d, sn_computation *root, uint8_t *state, comp_frame *stack, sn_computation **order, uint32_t *n) {
  uint32_t depth = 0;
  stack[depth++] = (comp_frame){root, root->first, 0};
  state[root->id] = OPEN;
  while (depth) {
    comp_frame *f = &stack[depth - 1];
    sn_computation *callee = next_callee(f);
    if (!callee) {
      state[f->c->id] = PLACED;
      order[(*n)++] = f->c;
      depth--;
    } else if (state[callee->id] == OPEN) {
      return sn_error(d, f->at->loc, SN_ERR_VERIFY, "%s: calls %s, which calls it in turn", f->at->name, callee->name);
    } else if (state[callee->id] == UNSEEN) {
      state[callee->id] = OPEN;
      stack[depth++] = (comp_frame){callee, callee->first, 0};
    }
  }
  return SN_OK;
}

sn_status sn_module_sort(sn_diag *d, sn_module *m) {
  uint32_t n = 0;
  uint8_t *state = sn_alloc_zero(m->n_comp_ids + 1u, 1);
  comp_frame *stack = sn_alloc_zero(m->n_computations + 1u, sizeof *stack);
  sn_computation **order = sn_alloc_zero(m->n_computations + 1u, sizeof *order);
  sn_status s = state && stack && order ? SN_OK : sn_out_of_memory(d, m->n_computations * sizeof *stack);
  for (sn_computation *c = m->first; c && s == SN_OK; c = c->next) {
    if (state[c->id] == UNSEEN) s = place_computation(d, c, state, stack, order, &n);
  }
  if (s == SN_OK) {
    m->first = m->last = NULL;
    for (uint32_t k = 0; k < n; k++) sn_computation_link(order[k], NULL);
  }
  sn_free(state);
  sn_free(stack);
  sn_free(order);
  return s;
}

/* ---- call graph ---- */

/* Instructions that call, callees' before callers': the one walk over the module, whose instructions lie far apart in memory. */
typedef struct call_list { sn_instr **v; size_t n, cap; } call_list;

static void find_ops_that_call(bool *out) {
  for (int op = 0; op < SN_OP_COUNT; op++) {
    out[op] = false;
    for (const uint16_t *a = sn_ops[op].attrs; *a != SN_ATTR_END; a++) {
      sn_attr_kind kind = sn_attrs[*a & ~SN_ATTR_MUST].kind;
      out[op] |= kind == SN_KIND_COMP || kind == SN_KIND_COMPS;
    }
  }
}

/* Every pass asks: of instructions that cannot call, only the beginning is read, which is one cache line. */
static sn_status find_calls(sn_arena *a, const sn_module *m, call_list *l) {
  bool calls[SN_OP_COUNT];
  find_ops_that_call(calls);
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      if (!calls[i->op] || !i->n_called) continue;
      if (l->n == l->cap) {
        size_t cap = l->cap ? 2 * l->cap : 64;
        sn_instr **wider = SN_NEW_N(a, sn_instr *, cap);
        if (!wider) return SN_ERR_MEMORY;
        if (l->n) memcpy(wider, l->v, l->n * sizeof *wider);
        l->v = wider;
        l->cap = cap;
      }
      l->v[l->n++] = i;
    }
  }
  return SN_OK;
}

static void spread_fusion(const call_list *l, sn_call_graph *g) {
  for (size_t at = l->n; at-- > 0;) { /* callers first */
    const sn_instr *i = l->v[at];
    for (uint16_t k = 0; k < i->n_called; k++) {
      uint32_t id = i->called[k]->id;
      g->in_fusion[id] |= i->op == SN_OP_FUSION || g->in_fusion[i->parent->id];
      g->is_applied[id] |= !sn_op_has(i->op, SN_T_CALLS);
    }
  }
}

sn_status sn_call_graph_build(sn_arena *a, const sn_module *m, sn_call_graph *out) {
  memset(out, 0, sizeof *out);
  uint32_t n = m->n_comp_ids;
  call_list l = {0};
  out->n = n;
  out->n_callers = SN_NEW_N(a, uint32_t, n + 1);
  out->callers = SN_NEW_N(a, sn_instr **, n + 1);
  out->in_fusion = SN_NEW_N(a, bool, n + 1);
  out->is_applied = SN_NEW_N(a, bool, n + 1);
  if (!out->n_callers || !out->callers || !out->in_fusion || !out->is_applied) return SN_ERR_MEMORY;
  SN_TRY(find_calls(a, m, &l));
  for (size_t at = 0; at < l.n; at++) {
    for (uint16_t k = 0; k < l.v[at]->n_called; k++) out->n_callers[l.v[at]->called[k]->id]++;
  }
  SN_FOR_COMPUTATIONS(c, m) {
    if (!(out->callers[c->id] = SN_NEW_N(a, sn_instr *, out->n_callers[c->id] + 1))) return SN_ERR_MEMORY;
    out->n_callers[c->id] = 0;
  }
  for (size_t at = 0; at < l.n; at++) {
    for (uint16_t k = 0; k < l.v[at]->n_called; k++) {
      uint32_t id = l.v[at]->called[k]->id;
      out->callers[id][out->n_callers[id]++] = l.v[at];
    }
  }
  spread_fusion(&l, out);
  return SN_OK;
}
