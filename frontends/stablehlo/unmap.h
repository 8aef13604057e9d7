/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back: an HLO module as the tree of mlir.h, which text/print.c prints and bytecode/write.c writes. The rows are those of stablehlo.def.
 *
 * A value of HLO that is a tuple is a list of values here; it becomes a tuple of StableHLO only where one is asked for (an operand of a call, an element of
 * another tuple, get-tuple-element of a tuple that is written out). Computations of loops, branches and reductions are regions, those of calls functions. */
#ifndef SINTER_STABLEHLO_UNMAP_H
#define SINTER_STABLEHLO_UNMAP_H

#include "map.h"

/* What stands for an instruction: a value, or the elements of a tuple, or both. */
typedef struct sn_sw_node {
  sn_mlir_value *whole;
  sn_mlir_value **parts; /* one an element of the tuple */
  const sn_mlir_block *block; /* of a tuple: where it stands, so that what is made of it there is kept */
} sn_sw_node;

typedef struct sn_sw {
  sn_diag *d;
  const sn_module *m;
  sn_mlir *out;
  sn_arena *scratch;
  sn_mlir_block *to; /* under way */
  sn_sw_node *nodes; /* by instruction id */
  const char **names; /* by computation id: of the function, once it is asked for */
  const sn_computation **queue; /* functions to write */
  uint32_t n_queue, cap_queue;
  int depth;
  bool in_function; /* the block is a function's, not a region's */
} sn_sw;

typedef sn_status (*sn_sw_fn)(sn_sw *s, const sn_sm_row *row, const sn_instr *i);

/* SN_ERR_UNSUPPORTED with the instruction where StableHLO has no form. */
sn_status sn_sw_module(sn_diag *d, const sn_module *m, sn_mlir **out);

sn_status sn_sw_fail(sn_sw *s, const sn_instr *i, const char *fmt, ...) SN_PRINTF(3, 4);
sn_status sn_sw_memory(sn_sw *s);
const sn_mlir_type *sn_sw_type(sn_sw *s, const sn_shape *shape);
sn_mlir_value *sn_sw_value(sn_sw *s, const sn_instr *i); /* as one value; NULL: no memory */
/* The values that stand for a result of this shape: the elements of a tuple, else itself. NULL: no memory. */
sn_mlir_value **sn_sw_values(sn_sw *s, const sn_instr *i, uint32_t *n);
sn_mlir_value **sn_sw_elements(sn_sw *s, const sn_instr *i); /* of a tuple, whatever their number */
uint32_t sn_sw_count(const sn_shape *shape); /* how many values a result of this shape is */

/* An op at the end of the block, with room for attributes. */
enum { SN_SW_ATTRS = 32 };
sn_mlir_op *sn_sw_op(sn_sw *s, const char *name, uint32_t n_operands, sn_mlir_value *const *operands, uint32_t n_results, const sn_mlir_type *const *types, uint32_t n_regions);
/* The same for an instruction: its operands as they are, its results by its shape, bound to it; its notes. */
sn_mlir_op *sn_sw_instr(sn_sw *s, const char *name, const sn_instr *i, uint32_t n_regions);
sn_status sn_sw_bind(sn_sw *s, const sn_instr *i, sn_mlir_op *op); /* results to the instruction */
sn_status sn_sw_notes(sn_sw *s, const sn_instr *i, sn_mlir_op *op); /* sharding, frontend attributes */
void sn_sw_attr(sn_mlir_op *op, const char *name, const sn_mlir_attr *a); /* a NULL: memory lacks, noticed at the end */

/* Attributes of the tree. NULL: no memory, which sn_sw_attr leaves to the end. */
sn_mlir_attr *sn_sw_ints(sn_sw *s, int64_t n, const int64_t *v);
sn_mlir_attr *sn_sw_list(sn_sw *s, const sn_instr *i, sn_attr_id id); /* the instruction's list of integers */
sn_mlir_attr *sn_sw_number(sn_sw *s, int64_t v);
sn_mlir_attr *sn_sw_number32(sn_sw *s, int64_t v);
sn_mlir_attr *sn_sw_real(sn_sw *s, double v);
sn_mlir_attr *sn_sw_truth(sn_sw *s, bool v);
sn_mlir_attr *sn_sw_unit(sn_sw *s);
sn_mlir_attr *sn_sw_text(sn_sw *s, const char *v);
sn_mlir_attr *sn_sw_word(sn_sw *s, const char *domain, const char *v); /* the domain is StableHLO's, without its name in front */
const sn_mlir_attr *sn_sw_table(sn_sw *s, int64_t n, int64_t width, const int64_t *v, sn_type t, bool index); /* n x width; a width < 0: n alone */
sn_mlir_attr *sn_sw_items(sn_sw *s, int64_t n, const sn_mlir_attr *const *v);
sn_mlir_attr *sn_sw_members(sn_sw *s, const char *name, int64_t n, const sn_mlir_named *v); /* without a name a dictionary */
/* A window of HLO as StableHLO's lists, one entry a dimension (padding: two). Without a window every size is 1. */
typedef struct sn_sw_window_lists {
  int64_t size[SN_MAX_RANK], stride[SN_MAX_RANK], padding[2 * SN_MAX_RANK], base[SN_MAX_RANK], dilation[SN_MAX_RANK], reversal[SN_MAX_RANK];
  bool reversed;
} sn_sw_window_lists;
sn_sw_window_lists sn_sw_window(const sn_instr *i, int rank);
/* Refuses an instruction that has an attribute besides the known. */
sn_status sn_sw_only(sn_sw *s, const sn_instr *i, const sn_attr_id *known, size_t n);
#define SN_SW_ONLY(...) SN_TRY(sn_sw_only(s, i, (const sn_attr_id[]){__VA_ARGS__}, sizeof((const sn_attr_id[]){__VA_ARGS__}) / sizeof(sn_attr_id)))
#define SN_SW_OP(name, regions) sn_mlir_op *op = sn_sw_instr(s, name, i, regions); if (op == NULL) return sn_sw_memory(s)

/* A computation as the region k of op: its parameters are the block's arguments. */
sn_status sn_sw_region(sn_sw *s, const sn_instr *i, sn_mlir_op *op, uint32_t k, const sn_computation *c);
/* The one parameter is a tuple whose elements are the arguments. */
sn_status sn_sw_loop_region(sn_sw *s, const sn_instr *i, sn_mlir_op *op, uint32_t k, const sn_computation *c);
/* The parameter is `passed`, from outside. */
sn_status sn_sw_branch_region(sn_sw *s, const sn_instr *i, sn_mlir_op *op, uint32_t k, const sn_computation *c, const sn_instr *passed);
/* An op of the instruction whose operand that is a tuple of several is several operands; behind them the token, unless NULL. */
sn_mlir_op *sn_sw_spread(sn_sw *s, const char *name, const sn_instr *i, const sn_instr *token, uint32_t n_results, const sn_mlir_type *const *types);
/* The name of the function that the computation becomes. NULL: no memory. */
const char *sn_sw_function(sn_sw *s, const sn_computation *c);

#define sn_sw_none sn_sw_nothing /* rows without a way back */
#define SN_SM_ROW(name, operands, results, regions, flags, opcode, fn, write) sn_status sn_sw_##write(sn_sw *s, const sn_sm_row *row, const sn_instr *i);
#include "stablehlo.def"
#undef SN_SM_ROW
#undef sn_sw_none
/* By a custom call of MHLO's name for the op, where StableHLO has none. */
sn_status sn_sw_mhlo(sn_sw *s, const sn_instr *i);

#endif
