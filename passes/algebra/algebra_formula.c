/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The rules that use another formula, equal in exact arithmetic. */
#include "rules.h"

sn_status sn_pass_algebra_formula(sn_pass_ctx *pc, sn_module *m) { return sn_rules_run(pc, m, SN_FORMULA); }
