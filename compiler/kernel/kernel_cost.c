/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* About how long an item of a phase takes: its nodes, each as often as the loops around it say. Good to a factor of two or three, which is enough to tell work for one
 * thread from work for all. */
#include "sinter/kernel.h"

/* Nanoseconds of a node of up to 64 bytes of lanes, on one core of about 3 GHz. */
#define NS_PLAIN 0.25
#define NS_MEMORY 0.5
#define NS_DIVIDE 3.0
#define NS_FUNCTION 8.0
#define NS_TERM 2e-2  /* a multiply and an add of a product */
#define UNKNOWN_TRIPS 16.0

static double node_ns(const sn_knode *n) {
  if (n->op == SN_K_LOAD || n->op == SN_K_STORE || n->op == SN_K_ATOMIC) return NS_MEMORY;
  if (n->op != SN_K_ELT) return n->op == SN_K_CONST || n->op == SN_K_YIELD ? 0 : NS_PLAIN;
  switch (n->hlo) { /* transcendentals to ops.def, but one instruction here */
    case SN_OP_DIVIDE:
    case SN_OP_REMAINDER:
    case SN_OP_SQRT:
    case SN_OP_RSQRT: return NS_DIVIDE;
    default: return sn_op_has(n->hlo, SN_T_TRANS) ? NS_FUNCTION : NS_PLAIN;
  }
}

static double most(const sn_ix *e) { return e && e->hi != INT64_MAX ? (double)e->hi : UNKNOWN_TRIPS; }

static double loop_trips(const sn_knode *n) {
  double lo = n->lo && n->lo->lo != INT64_MIN ? (double)n->lo->lo : 0, trips = (most(n->hi) - lo) / (double)n->step;
  if (n->loop == SN_KLOOP_VECTOR) trips /= n->width; /* wide ones: a node is several instructions, which run side by side */
  return trips > 1 ? trips : 1;
}

static double region_ns(const sn_kregion *r) {
  double sum = 0;
  for (const sn_knode *n = r->first; n; n = n->next) {
    double inner = 0;
    for (int i = 0; i < n->n_regions; i++) inner += region_ns(n->regions[i]);
    if (n->op == SN_K_FOR) inner *= loop_trips(n);
    else if (n->op == SN_K_WHILE) inner *= UNKNOWN_TRIPS;
    if (n->contract) inner += NS_TERM * most(n->contract->m) * most(n->contract->n) * most(n->contract->k);
    if (n->copy) inner += NS_PLAIN * most(n->copy->m) * most(n->copy->n);
    sum += inner + node_ns(n);
  }
  return sum;
}

void sn_kernel_find_costs(sn_kernel *k) {
  for (int p = 0; p < k->n_phases; p++) {
    double ns = region_ns(k->phases[p].body);
    if (k->phases[p].cost <= 0) k->phases[p].cost = ns < 1 ? 1 : ns < 1e15 ? (int64_t)ns : (int64_t)1e15;
  }
}
