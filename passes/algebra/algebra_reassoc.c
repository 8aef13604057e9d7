/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The rules that regroup sums, or lose the sign of a zero with them. */
#include "rules.h"

sn_status sn_pass_algebra_reassoc(sn_pass_ctx *pc, sn_module *m) { return sn_rules_run(pc, m, SN_REASSOC); }
