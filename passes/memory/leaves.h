/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which value a leaf of an instruction really is. */
#ifndef SINTER_LEAVES_H
#define SINTER_LEAVES_H

#include "sinter/ir.h"
#include "sinter/plan.h"

typedef struct sn_leaf_value {
  const sn_instr *instr;
  int leaf;
} sn_leaf_value;

/* Does `i` only give its first operand another name: same bytes, no work? (Bitcasts, barriers, reshapes between default layouts.) Tuples and their elements aside. */
bool sn_is_rename(const sn_instr *i);
/* Looks through tuples, get-tuple-element, bitcasts, barriers and the like to the instruction that gives the value. */
sn_leaf_value sn_leaf_source(const sn_instr *i, int leaf);
/* First leaf of element `index` of a tuple shape. */
int sn_leaf_offset(const sn_shape *tuple, int64_t index);
/* The leaf at a shape index ({1, 0}). */
int sn_leaf_at(const sn_shape *s, sn_ints index);
/* The slice that the instruction's sinter.slice gives leaf `leaf`; false: none (slices.c). */
bool sn_slice_read(const sn_instr *i, int leaf, int64_t *offset, int64_t *bytes);

#endif
