/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The mapping from the tree of mlir.h to an HLO module: one row an op in stablehlo.def, one function a kind of op in map_*.c.
 *
 * Functions with static types become computations that are called. A program with `?` dimensions is specialised: every call is mapped anew with the
 * shapes at hand, and values that shapes are computed from are folded with the interpreter (sn_sm_fold). */
#ifndef SINTER_STABLEHLO_MAP_H
#define SINTER_STABLEHLO_MAP_H

#include "mlir.h"
#include "sinter/build.h"
#include "sinter/stablehlo.h"

typedef struct sn_sm sn_sm;
typedef struct sn_sm_row sn_sm_row;
struct sn_sw; /* unmap.h */

/* One op. `in`: the mapped operands; `out`: n_results places. */
typedef sn_status (*sn_sm_fn)(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out);

enum {
  SN_SM_STORAGE = 1, /* quantised values pass through as their stored integers; else: dequantise, compute, quantise */
  SN_SM_PER_AXIS = 2, /* quantised values may have a scale for each slice of an axis */
  SN_SM_ANY = -1
};

struct sn_sm_row {
  const char *name;
  int16_t n_operands, n_results; /* SN_SM_ANY: any number */
  int16_t n_regions;
  uint16_t flags;
  sn_opcode op; /* for the kinds that serve several */
  sn_sm_fn fn;
  sn_status (*write)(struct sn_sw *s, const sn_sm_row *row, const sn_instr *i); /* NULL: none */
};
const sn_sm_row *sn_sm_row_find(const char *name);
size_t sn_sm_rows(const sn_sm_row **out); /* for tests: sorted by name */

struct sn_sm {
  sn_diag *d;
  const sn_mlir *in;
  const sn_stablehlo_options *o;
  sn_module *m;
  sn_arena *scratch;
  sn_builder b;           /* the computation under way */
  sn_instr **values;      /* by value id */
  sn_map *computations;   /* func op -> computation */
  sn_map *on_stack;       /* func op: being mapped */
  sn_map *folded;         /* instruction -> array, or 1: cannot */
  sn_map *functions;      /* name -> func op */
  bool dynamic;           /* a `?` somewhere: inline every call */
  int depth;              /* of calls and regions */
  int64_t n_ops;          /* mapped so far: calls that double each other must not run for ever */
  int64_t next_channel;
};

enum { SN_SM_MAX_OPS = 1 << 20, SN_SM_MAX_FOLD = 1 << 16 };

/* ---- map.c ---- */

sn_status sn_sm_fail(sn_sm *s, const sn_mlir_op *op, sn_status st, const char *fmt, ...) SN_PRINTF(4, 5);
sn_status sn_sm_memory(sn_sm *s);
/* The builder's sticky status; call after building. */
static inline sn_status sn_sm_built(sn_sm *s) { return s->b.status; }
sn_arena *sn_sm_arena(sn_sm *s); /* the module's */

/* The HLO shape of a type (quantised: of the storage). SN_ERR_SHAPE for `?` without a bound. */
sn_status sn_sm_shape(sn_sm *s, const sn_mlir_op *op, const sn_mlir_type *t, const sn_shape **out);
bool sn_sm_is_static(const sn_mlir_type *t);

/* Attributes. Required ones: a missing one is an error that names it. */
sn_status sn_sm_ints(sn_sm *s, const sn_mlir_op *op, const char *name, bool required, int64_t *n, const int64_t **v);
sn_status sn_sm_ints_n(sn_sm *s, const sn_mlir_op *op, const char *name, int64_t n, const int64_t **v); /* exactly n of them */
sn_status sn_sm_int(sn_sm *s, const sn_mlir_op *op, const char *name, int64_t *out);
int64_t sn_sm_int_or(const sn_mlir_op *op, const char *name, int64_t dflt);
bool sn_sm_bool(const sn_mlir_op *op, const char *name); /* absent: false; a unit attribute: true */
/* An enumerated word in a domain of HLO; upper case as StableHLO writes it. dflt < 0: required. */
sn_status sn_sm_enum(sn_sm *s, const sn_mlir_op *op, const char *name, const char *const *words, int64_t n, int64_t dflt, int64_t *out);

/* A region as a computation with parameters of the given shapes. Values from outside: `captured` (n of them) become parameters behind the others;
 * any further ones must fold to constants. The root: a tuple when `tuple` or when there are several values. */
typedef struct sn_sm_region_spec {
  const sn_mlir_region *region;
  const char *name;
  uint32_t n_args;
  const sn_shape *const *args; /* one an argument of the block */
  bool packed;                 /* one parameter: the tuple of all */
  uint32_t n_captured;
  sn_mlir_value *const *captured;
  bool tuple;
  bool pass_captured;          /* the result ends with the captured values (bodies of loops) */
} sn_sm_region_spec;
sn_status sn_sm_region(sn_sm *s, const sn_mlir_op *op, const sn_sm_region_spec *spec, sn_computation **out);
/* Values defined outside of the op's regions and used within; those that fold are left out. */
sn_status sn_sm_captured(sn_sm *s, const sn_mlir_op *op, uint32_t *n, sn_mlir_value ***out);
/* A reducer, comparator, …: parameters are scalars of the block's arguments' types. */
sn_status sn_sm_scalar_region(sn_sm *s, const sn_mlir_op *op, uint32_t k, const char *name, sn_computation **out);

/* The computation gives n values of the operands' types, or of wider ones of the same kind. */
sn_status sn_sm_check_promotion(sn_sm *s, const sn_mlir_op *op, const sn_computation *c, uint32_t n, sn_instr *const *in);

sn_status sn_sm_op(sn_sm *s, const sn_mlir_op *op);
/* Elements of a tuple, or the value itself when there is one. */
sn_status sn_sm_unpack(sn_sm *s, const sn_mlir_op *op, sn_instr *i, sn_instr **out);
sn_status sn_sm_call(sn_sm *s, const sn_mlir_op *op, const char *callee, uint32_t n, sn_instr **in, sn_instr **out);

/* The value as a constant, when it is one (computed with the interpreter from constants). Borrowed; NULL: it is not. */
const sn_array *sn_sm_fold(sn_sm *s, sn_instr *i);
/* The integers of a shape operand. */
sn_status sn_sm_fold_ints(sn_sm *s, const sn_mlir_op *op, sn_instr *i, const char *what, int64_t *n, const int64_t **v);

/* ---- shared between map_*.c ---- */

sn_instr *sn_sm_spread(sn_sm *s, sn_instr *x, int rank, const int64_t *dims, int64_t n, const int64_t *map);
sn_instr *sn_sm_literal(sn_sm *s, const sn_mlir_attr *a); /* of a DENSE attribute */
/* The text of an attribute, as MLIR prints it. */
void sn_sm_attr_text(sn_str *to, const sn_mlir_attr *a);
sn_instr *sn_sm_dequantize(sn_sm *s, sn_instr *x, const sn_mlir_quant *q);
sn_instr *sn_sm_quantize(sn_sm *s, sn_instr *x, const sn_mlir_quant *q);
sn_status sn_sm_sharding_notes(sn_sm *s, const sn_mlir_named *attrs, uint32_t n, sn_instr *i);
sn_status sn_sm_shape_of_dims(sn_sm *s, const sn_mlir_op *op, sn_type t, int64_t n, const int64_t *dims, const sn_shape **out);
/* The HLO op of a composite or chlo op of that name over one or two operands; SN_OP_COUNT: none. */
sn_opcode sn_sm_named_op(const char *name);
/* Ops that programs carry as custom calls of MHLO's name: StableHLO has none. */
bool sn_sm_is_mhlo(sn_opcode op);

/* Which of HLO's dot algorithms: by the types and the number of products. */
typedef struct sn_sm_algorithm {
  const char *lhs, *rhs, *acc;
  int64_t products;
  bool fast;
  int64_t id;
} sn_sm_algorithm;
const sn_sm_algorithm *sn_sm_algorithm_find(int64_t id); /* NULL: StableHLO has no such one */

/* The functions that rows name. */
#define SN_SM_ROW(name, operands, results, regions, flags, opcode, fn, write) sn_status sn_sm_##fn(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out);
#include "stablehlo.def"
#undef SN_SM_ROW

#endif
