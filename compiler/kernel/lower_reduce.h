/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What reductions in two phases share: partial results and how they become the result. */
#ifndef SINTER_LOWER_REDUCE_H
#define SINTER_LOWER_REDUCE_H

#include "elemental.h"

enum { REDUCE_LEAST_ELEMENTS = 32768 };

/* One array reduced by one op that may be regrouped. */
bool reduce_is_plain(const sn_instr *i, sn_opcode *op);
sn_type reduce_partial_type(const sn_instr *i, sn_opcode op);
sn_kvalue *reduce_combine(lowering *L, sn_opcode op, sn_kvalue *x, sn_kvalue *y); /* in x's type */
int reduce_add_buffer(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims);
/* The final value: init op sum; one more conversion where sums were kept wider. */
sn_kvalue *reduce_finish(lowering *L, const sn_instr *i, sn_opcode op, sn_kvalue *sum);

#endif
