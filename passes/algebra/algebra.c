/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The algebraic simplifier: every rule that changes no bit. The rules stand in the tables of this folder, by family; their laws in rules.h. */
#include "rules.h"

sn_status sn_pass_algebra(sn_pass_ctx *pc, sn_module *m) { return sn_rules_run(pc, m, SN_EXACT); }
