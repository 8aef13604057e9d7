/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fusion: every instruction that does work goes into a fusion with a hero (loop, row or column reduction, product, convolution), so that values between them never
 * see memory. Bodies stay plain HLO; the hero and its kind stand in backend_config. Linear in the size of the module. */
#include "fusion.h"

static sn_status fuse_computation(sn_pass_ctx *pc, sn_computation *c, uint32_t *position) {
  fu_state f = {0};
  f.pc = pc;
  f.c = c;
  f.position = position;
  sn_fusion_hoist_sums(&f);
  SN_FOR_INSTRS(i, c) position[i->id] = f.n++;
  sn_cost_rates(pc->target, &f.rates);
  SN_TRY(sn_fusion_facts(&f));
  SN_TRY(sn_fusion_read_marks(&f));
  SN_TRY(sn_fusion_groups(&f));
  SN_TRY(sn_fusion_horizontal(&f));
  SN_TRY(sn_fusion_build(&f));
  sn_fusion_report_patterns(&f);
  return SN_OK;
}

sn_status sn_pass_fusion(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  uint32_t *position = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1), n = 0;
  sn_computation **todo = SN_NEW_N(pc->scratch, sn_computation *, m->n_computations + 1);
  if (!position || !todo) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *position);
  /* Those there are now: bodies made on the way are done already. */
  SN_FOR_COMPUTATIONS(c, m) {
    if (!g.in_fusion[c->id] && !g.is_applied[c->id]) todo[n++] = c;
  }
  for (uint32_t k = 0; k < n; k++) {
    SN_TRY(sn_computation_sort(pc->diag, todo[k]));
    SN_TRY(fuse_computation(pc, todo[k], position));
  }
  return SN_OK;
}
