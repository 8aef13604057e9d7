/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives through the parts of an op. */
#include "diff_internal.h"

static sn_instr **room(sn_diff *d, uint32_t n) {
  sn_instr **list = SN_NEW_N(d->g->arena, sn_instr *, n + 1);
  if (!list) sn_graph_no_memory(d->g);
  return list;
}

/* The operands, and which of them stand for themselves: not repeated, and wanted. */
static sn_instr **operands(sn_diff *d, sn_instr *i, sn_instr **wrt, int *n_wrt) {
  sn_instr **in = room(d, i->n_operands);
  *n_wrt = 0;
  for (uint32_t k = 0; in && k < i->n_operands; k++) {
    in[k] = sn_instr_operand(i, k);
    bool repeated = false;
    for (uint32_t j = 0; j < k; j++) repeated |= in[j] == in[k];
    if (!repeated && sn_diff_wants(d, i, k)) wrt[(*n_wrt)++] = in[k];
  }
  return in;
}

void sn_parts_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct, sn_parts_fn fn) {
  int n, n_out = sn_diff_elements(i);
  sn_instr **wrt = room(d, i->n_operands), **in = wrt ? operands(d, i, wrt, &n) : NULL,
           **out = room(d, (uint32_t)n_out), **got = room(d, i->n_operands);
  sn_instr *after = d->b->c->last; /* the sweep looks at what fn makes alone */
  if (!in || !out || !got || !fn(d, i, in, out)) return;
  sn_sweep_reverse(d->g, after, n_out, out, ct, n, wrt, got);
  for (int k = 0; k < n && sn_diff_ok(d); k++) sn_diff_add_to(d, wrt[k], 0, got[k]);
}

void sn_parts_jvp(sn_diff *d, sn_instr *i, sn_instr **res, sn_parts_fn fn) {
  int n, n_out = sn_diff_elements(i);
  sn_instr **wrt = room(d, i->n_operands), **in = wrt ? operands(d, i, wrt, &n) : NULL,
           **out = room(d, (uint32_t)n_out), **t = room(d, i->n_operands);
  if (!in || !out || !t) return;
  for (int k = 0; k < n; k++) t[k] = sn_diff_get(d, wrt[k], 0);
  sn_instr *after = d->b->c->last;
  if (fn(d, i, in, out)) sn_sweep_forward(d->g, after, n_out, out, n, wrt, t, res);
}
