/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Equal functions (reducers, comparators, fusion bodies) become one, so that their callers can be recognised as equal too. Bodies of loops and branches are left
 * alone: `flatten` gave each its own on purpose. Computations are visited callees first, so equal ones call identical ones. */
#include "passes_internal.h"

typedef struct group { uint64_t hash; sn_computation *c; } group;

static bool is_function(const sn_computation *c, const sn_call_graph *g) {
  if (c == c->module->entry || !g->n_callers[c->id] || c->execution_thread) return false;
  for (uint32_t k = 0; k < g->n_callers[c->id]; k++) {
    sn_opcode op = g->callers[c->id][k]->op;
    if (op != SN_OP_FUSION && sn_op_has(op, SN_T_CALLS)) return false;
  }
  return true;
}

static void redirect(const sn_call_graph *g, const sn_computation *from, sn_computation *to) {
  for (uint32_t k = 0; k < g->n_callers[from->id]; k++) {
    sn_instr *i = g->callers[from->id][k];
    for (uint16_t q = 0; q < i->n_called; q++) {
      if (i->called[q] == from) sn_instr_set_called(i, q, to);
    }
  }
}

sn_status sn_pass_dedup(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  size_t n = 16;
  while (n < 2 * (size_t)m->n_computations) n *= 2;
  group *table = SN_NEW_N(pc->scratch, group, n);
  if (!table) return sn_out_of_memory(pc->diag, n * sizeof *table);
  bool merged = false;
  SN_FOR_COMPUTATIONS(c, m) {
    if (!is_function(c, &g)) continue;
    uint64_t h = sn_computation_hash(c);
    size_t at = (size_t)h & (n - 1);
    while (table[at].c && !(table[at].hash == h && sn_computation_equal(table[at].c, c, SN_EQ_LAYOUT))) at = (at + 1) & (n - 1);
    if (!table[at].c) {
      table[at] = (group){h, c};
    } else if (sn_pass_may(pc)) {
      redirect(&g, c, table[at].c);
      merged = pc->changed = true;
    }
  }
  if (merged) sn_module_drop_dead_computations(m);
  return SN_OK;
}
