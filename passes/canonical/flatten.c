/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The call graph becomes a tree where control flows: every loop, branch and call has computations of its own, so that a pass may change one for its only caller
 * and a buffer plan has one place for each value. Reducers and comparators stay shared: they are functions.
 *
 * Callers are visited first; the first caller of a computation keeps it, each further one gets a copy placed in front of itself, whose own callees are then
 * claimed or copied when the walk reaches it. Copies can multiply as calls do; the same budget of instructions bounds them. */
#include "passes_internal.h"

enum { GROWTH = 32, SLACK = 200000 };

static bool flows(const sn_instr *i) { return i->op == SN_OP_WHILE || i->op == SN_OP_CONDITIONAL || i->op == SN_OP_CALL || i->op == SN_OP_ASYNC_START; }

typedef struct flatten {
  sn_map *claimed; /* computations that have their caller */
  int64_t total, budget;
} flatten;

static sn_status claim(sn_pass_ctx *pc, flatten *f, sn_instr *i, uint16_t k) {
  sn_computation *c = i->called[k], *copy;
  if (!sn_map_get_u64(f->claimed, c->id)) return sn_map_set_u64(f->claimed, c->id, c);
  if (f->total + c->n_instrs > f->budget) {
    sn_pass_remark(pc, SN_REFUSED, SN_REASON_BUDGET, i, NULL, 0, NULL, "copies of called computations would multiply the module");
    return SN_OK;
  }
  if (!sn_pass_may(pc)) return SN_OK;
  SN_TRY(sn_computation_clone(c, i->parent->module, c->name, &copy));
  sn_computation_move_before(copy, i->parent);
  sn_instr_set_called(i, k, copy);
  f->total += copy->n_instrs;
  pc->changed = true;
  return sn_map_set_u64(f->claimed, copy->id, copy);
}

sn_status sn_pass_flatten(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  flatten f = {NULL, 0, 0};
  SN_TRY(sn_map_create(&f.claimed));
  sn_status s = SN_OK;
  SN_FOR_COMPUTATIONS(c, m) {
    f.total += c->n_instrs;
    if (s == SN_OK && (g.is_applied[c->id] || g.in_fusion[c->id])) s = sn_map_set_u64(f.claimed, c->id, c);
  }
  f.budget = GROWTH * f.total + SLACK;
  for (sn_computation *c = m->last; c && s == SN_OK; c = c->prev) {
    for (sn_instr *i = c->first; i && s == SN_OK; i = i->next) {
      if (!flows(i)) continue;
      for (uint16_t k = 0; k < i->n_called && s == SN_OK; k++) s = claim(pc, &f, i, k);
    }
  }
  sn_map_destroy(f.claimed);
  return s;
}
