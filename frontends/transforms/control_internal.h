/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_CONTROL_INTERNAL_H
#define SINTER_CONTROL_INTERNAL_H

#include "diff_internal.h"

/* Elements of an operand: a tuple's operands where it is one, else read out of it. In the graph's arena. */
sn_instr **sn_args_of(sn_diff *d, sn_instr *tuple);
/* The same values inside the current frame, no two of them one instruction: each can be differentiated by itself. */
void sn_args_capture(sn_graph *g, int n, sn_instr *const *outer, sn_instr **in);

#endif
