/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The buffer plan: where each value of a scheduled module lives. */
#ifndef SINTER_PLAN_H
#define SINTER_PLAN_H

#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows shorter than this a GPU's threads reduce one by one: each item then reads rows that others write, and none may be written in place. */
enum { SN_SHORT_ROW = 32 };

/* May `i` write result leaf `leaf` over operand k, which it reads at the same element only, and last of all? (Elementwise; fusions of elementwise ops; copies.) */
bool sn_in_place_ok(const sn_instr *i, uint32_t k, int leaf);

typedef enum sn_place { SN_PLACE_NONE /* tuples, tokens */, SN_PLACE_ARGUMENT, SN_PLACE_RESULT, SN_PLACE_CONSTANT, SN_PLACE_ARENA } sn_place;

/* Slice of one array leaf of one instruction. index: the argument leaf, result leaf, or the number of the constant in `constants`. */
typedef struct sn_plan_slice {
  sn_place place;
  uint32_t index;
  int64_t offset, bytes;
} sn_plan_slice;

typedef struct sn_plan_owner { const sn_instr *instr; int leaf; int64_t bytes; } sn_plan_owner;

typedef struct sn_plan {
  const sn_module *module;
  uint32_t n_ids;
  const sn_plan_slice *const *slices; /* [instruction id][leaf]; NULL for instructions that own no memory of the run (bodies of fusions, reducers) */
  int64_t arena_bytes;                /* temporaries */
  int64_t live_bytes;                 /* most of them alive at once: what no packing can be below */
  int64_t argument_bytes, result_bytes, constant_bytes;
  uint32_t n_constants;
  const sn_instr *const *constants;
  int n_peak;                         /* who lives at the peak of the arena, largest first */
  const sn_plan_owner *peak;
  int64_t peak_instr_id;
} sn_plan;

/* Lifetimes over the schedule (instruction order) of the entry and, inlined at their call sites, of the bodies of while, conditional and call; sharing by disjoint
 * lifetimes; bitcast, get-tuple-element, tuple, opt-barrier and the like alias their operands; input_output_alias, donation, in-place updates (fusion
 * output_to_operand_aliasing, while state, dynamic-update-slice at its operand's last use) share. Offsets are 64-byte aligned. Linear up to sorting.
 * Deterministic. The module must be scheduled (operands first) and copy-inserted: a value that needs two homes is SN_ERR_VERIFY. Lives in `a`. */
SN_NODISCARD sn_status sn_plan_make(sn_diag *d, sn_arena *a, const sn_module *m, sn_plan *out);
void sn_plan_print(sn_str *to, const sn_plan *p); /* sizes, peak and its owners with source lines */

#ifdef __cplusplus
}
#endif
#endif
