/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives through the parts of an op. */
#include "diff_internal.h"

/* Operands to differentiate by. Where two are active one may depend on the other, so each gets a copy that the inner sweep stops at. */
static sn_instr **operands(sn_diff *d, sn_instr *i) {
  sn_instr **in = SN_NEW_N(d->g->arena, sn_instr *, i->n_operands + 1);
  int n = 0;
  if (!in) sn_graph_no_memory(d->g);
  for (uint32_t k = 0; k < i->n_operands; k++) n += sn_diff_wants(d, i, k);
  for (uint32_t k = 0; in && k < i->n_operands; k++) {
    in[k] = sn_instr_operand(i, k);
    if (n > 1 && sn_diff_wants(d, i, k)) in[k] = sn_build_unary(d->b, SN_OP_COPY, in[k]);
  }
  return sn_diff_ok(d) ? in : NULL;
}

static sn_instr **room(sn_diff *d, uint32_t n) {
  sn_instr **list = SN_NEW_N(d->g->arena, sn_instr *, n + 1);
  if (!list) sn_graph_no_memory(d->g);
  return list;
}

void sn_parts_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct, sn_parts_fn fn) {
  sn_instr **in = operands(d, i), **out = room(d, (uint32_t)sn_diff_elements(i)), **wrt = room(d, i->n_operands), **got = room(d, i->n_operands);
  if (!in || !out || !wrt || !got || !fn(d, i, in, out)) return;
  int m = 0;
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (sn_diff_wants(d, i, k)) wrt[m++] = in[k];
  sn_sweep_reverse(d->g, sn_diff_elements(i), out, ct, m, wrt, got);
  m = 0;
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (sn_diff_wants(d, i, k)) sn_diff_give(d, i, k, got[m++]);
}

void sn_parts_jvp(sn_diff *d, sn_instr *i, sn_instr **res, sn_parts_fn fn) {
  sn_instr **in = operands(d, i), **out = room(d, (uint32_t)sn_diff_elements(i)), **t = room(d, i->n_operands);
  for (uint32_t k = 0; t && k < i->n_operands; k++) t[k] = sn_diff_tangent(d, i, k);
  if (in && out && t && fn(d, i, in, out)) sn_sweep_forward(d->g, sn_diff_elements(i), out, (int)i->n_operands, in, t, res);
}
