/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls that only say how a value is to be spread over devices are the value. They stand behind partitioning: whoever partitions reads them before. */
#include <string.h>

#include "passes_internal.h"

static bool only_says(const sn_instr *i) {
  static const char *const targets[] = {"Sharding", "xla.sdy.FuncResultSharding", "annotate_device_placement"};
  const char *target = i->op == SN_OP_CUSTOM_CALL ? sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET) : NULL;
  if (!target || i->n_operands != 1 || i->n_control || !sn_shape_equal(i->shape, sn_operand_shape(i, 0), 0)) return false;
  for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
    if (strcmp(target, targets[k]) == 0) return true;
  }
  return false;
}

sn_status sn_pass_sharding_remove(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (!only_says(i) || !sn_pass_may(pc)) continue;
      SN_TRY(sn_pass_forward(pc, i, sn_instr_operand(i, 0)));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
