/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Dead code elimination: drops what nobody reads, from the entry inwards.
 *
 * Computations are visited callers first, each backwards, so that a user is judged before what it uses: one sweep finds all dead instructions. On the way,
 * elements of a loop's state that feed only themselves are cut out of the loop (while_elements.c), and parameters that a called computation does not read
 * are taken off it and its callers; operands that die with them are found from a stack. Computations that nobody calls go last. */
#include "passes_internal.h"

static sn_status sweep(sn_pass_ctx *pc, sn_computation *c, const sn_call_graph *g, const bool *effects, int64_t *n) {
  for (sn_instr *i = c->last, *prev; i; i = prev) {
    if (i->op == SN_OP_WHILE && i->n_uses) SN_TRY(sn_while_drop_dead_elements(pc, i, g, effects, n));
    prev = i->prev; /* read late: cutting a loop puts a new initial tuple in front of it */
    if (!sn_pass_droppable(i, effects) || !sn_pass_may(pc)) continue;
    sn_instr_erase(i);
    pc->changed = true;
    ++*n;
  }
  return SN_OK;
}

/* ---- parameters that nobody reads ---- */

/* Only fusions and calls pass one operand a parameter; reducers and branches have fixed signatures. */
static bool callers_allow(const sn_call_graph *g, const sn_computation *c) {
  for (uint32_t k = 0; k < g->n_callers[c->id]; k++) {
    const sn_instr *i = g->callers[c->id][k];
    if (!sn_instr_is_linked(i)) continue;
    if (i->op != SN_OP_FUSION && i->op != SN_OP_CALL) return false;
    if (i->op == SN_OP_FUSION && sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING)) return false;
    if (i->n_operands != c->n_params) return false;
  }
  return g->n_callers[c->id] > 0;
}

static sn_status drop_operand(sn_pass_ctx *pc, sn_instr *caller, uint32_t number, const bool *effects, int64_t *n) {
  sn_instr *gone = sn_instr_operand(caller, number);
  sn_list kept = {0};
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < caller->n_operands && s == SN_OK; k++) {
    if (k != number) s = sn_list_push(&kept, sn_instr_operand(caller, k));
  }
  if (s == SN_OK) s = sn_instr_set_operands(caller, caller->n_operands - 1, kept.v);
  sn_list_finish(&kept);
  return s == SN_OK ? sn_pass_drop(pc, gone, effects, n) : sn_out_of_memory(pc->diag, sizeof(sn_instr *));
}

static sn_status drop_params(sn_pass_ctx *pc, sn_computation *c, const sn_call_graph *g, const bool *effects, int64_t *n) {
  if (c == c->module->entry || !callers_allow(g, c)) return SN_OK;
  for (uint32_t p = c->n_params; p-- > 0;) {
    if (c->params[p]->n_uses || c->root == c->params[p] || !sn_pass_may(pc)) continue;
    for (uint32_t k = 0; k < g->n_callers[c->id]; k++) {
      sn_instr *caller = g->callers[c->id][k];
      if (sn_instr_is_linked(caller)) SN_TRY(drop_operand(pc, caller, p, effects, n));
    }
    SN_TRY(sn_computation_remove_param(c, p));
    pc->changed = true;
    ++*n;
  }
  return SN_OK;
}

/* ---- the pass ---- */

sn_status sn_pass_dce(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  bool *effects = sn_effects(pc->scratch, m);
  if (!effects) return sn_out_of_memory(pc->diag, m->n_comp_ids);
  int64_t n = 0;
  for (sn_computation *c = m->last; c; c = c->prev) { /* callers first */
    SN_TRY(sweep(pc, c, &g, effects, &n));
    SN_TRY(drop_params(pc, c, &g, effects, &n));
  }
  uint32_t before = m->n_computations;
  sn_module_drop_dead_computations(m);
  if (m->n_computations != before) pc->changed = true;
  if (n || m->n_computations != before) {
    sn_number numbers[] = {{"instructions", (double)n}, {"computations", (double)(before - m->n_computations)}};
    sn_pass_remark(pc, SN_DONE, SN_REASON_DEAD, NULL, NULL, 2, numbers, NULL);
  }
  return SN_OK;
}
