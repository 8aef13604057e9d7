/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The in-memory form of an MLIR module between its two readers (text/, bytecode/) and its one mapping to HLO (map_*.c): a plain tree in an arena.
 * Internal to frontends/stablehlo.
 *
 *   sn_mlir ── top block ── ops: func.func, sdy.mesh, … ── regions ── blocks ── ops ── operands: values (results and block arguments)
 *
 * Both readers fill it in StableHLO's terms (not VHLO's), so that the mapping has one vocabulary:
 *  - op names are full and without version: "stablehlo.add", "func.func", "func.call", "func.return", "stablehlo.return", "check.expect_eq".
 *    VHLO's return_v1 is "stablehlo.return" within a StableHLO op's region and "func.return" in a function.
 *  - the top block holds what stands in the (outermost) module; builtin.module itself is no op: its name and attributes are sn_mlir.name, .attrs.
 *  - inherent and discardable attributes are in one list, `attrs`; where both have a name the inherent one stands first.
 *  - func.func has sym_name (STRING), function_type (TYPE), optionally sym_visibility (STRING), arg_attrs and res_attrs (ARRAYs of DICT, one
 *    an argument or result, or absent); one region, without blocks in a declaration. func.call has callee (SYMBOL).
 *  - attributes that StableHLO groups (#stablehlo.gather<…>, #stablehlo.dot<…>, #stablehlo.scatter<…>, #stablehlo.conv<…>, dot_algorithm, channel_handle,
 *    output_operand_alias) are STRUCT in text and flat in VHLO: sn_mlir_find looks into STRUCT members too, so either is right. Member names are VHLO's:
 *    offset_dims, lhs_contracting_dimensions, input_batch_dimension, lhs_precision_type, channel_id, channel_type, …
 *  - lists of integers may be ARRAY of INT, INTS, or DENSE: sn_mlir_ints reads all three. n x 2 lists (padding) and groups are DENSE.
 *  - enumerated words are ENUM with the word in `s` ("LT", "THREE_FRY"), whether read as a word or a number.
 *  - an attribute at its "none" value (VHLO's Type(None), an absent optional) is left out.
 *  - a dialect attribute that nobody needs (location metadata, unknown dialects of discardable attributes) may be OPAQUE.
 *
 * Everything lives in sn_mlir.arena; arrays of DENSE attributes are released by sn_mlir_destroy. Allocation failure: NULL, or SN_ERR_MEMORY. */
#ifndef SINTER_STABLEHLO_MLIR_H
#define SINTER_STABLEHLO_MLIR_H

#include "sinter/array.h"

/* Readers refuse deeper nesting than this (types, attributes, regions), so that everything behind them may recurse. */
enum { SN_MLIR_MAX_NEST = 64 };

/* ---- types ---------------------------------------------------------------------------------------------------------- */

typedef enum sn_mlir_type_kind {
  SN_MT_NONE,
  SN_MT_SCALAR,   /* scalar: i1 is PRED, i8 (si8) S8, ui8 U8, f32, complex<f32> C64, …; `index` is S64 with is_index */
  SN_MT_QUANT,    /* quant */
  SN_MT_TENSOR,   /* element (SCALAR or QUANT), rank, dims, bounds */
  SN_MT_UNRANKED, /* element */
  SN_MT_BUFFER,   /* memref: as TENSOR */
  SN_MT_TOKEN,
  SN_MT_TUPLE,    /* ins */
  SN_MT_FUTURE,   /* ins */
  SN_MT_FUNCTION, /* ins, outs */
  SN_MT_OTHER     /* text: a type without meaning here (vector, witness, tf32, foreign dialects) */
} sn_mlir_type_kind;

typedef struct sn_mlir_type sn_mlir_type;

/* !quant.uniform: real = (stored - zero_point) * scale. */
typedef struct sn_mlir_quant {
  sn_type storage, expressed; /* integer; float */
  int64_t min, max;           /* of the storage; the type's own range unless narrowed */
  int32_t axis;               /* -1: one scale for all */
  int32_t n_blocked;          /* sub-channel types: axes with a block size each; 0 otherwise */
  const int64_t *blocked_axes, *block_sizes;
  int64_t n;                  /* scales and zero points: 1, or one a slice of the axis */
  const double *scales;
  const int64_t *zero_points;
} sn_mlir_quant;

struct sn_mlir_type {
  sn_mlir_type_kind kind;
  sn_type scalar;
  bool is_index;
  int rank;
  const int64_t *dims;   /* SN_DIM_UNBOUNDED where `?` */
  const int64_t *bounds; /* NULL, or one a dimension: the bound of a `?`, SN_DIM_UNBOUNDED for none */
  const sn_mlir_type *element;
  const sn_mlir_quant *quant;
  uint32_t n_ins, n_outs;
  const sn_mlir_type *const *ins, *const *outs;
  const char *text;
};

/* ---- attributes ------------------------------------------------------------------------------------------------------- */

typedef enum sn_mlir_attr_kind {
  SN_MA_UNIT,
  SN_MA_BOOL,   /* i */
  SN_MA_INT,    /* i, type (NULL: i64) */
  SN_MA_FLOAT,  /* f, type (NULL: f64) */
  SN_MA_STRING, /* s, n: any bytes, a NUL behind them */
  SN_MA_SYMBOL, /* s: without @; of a nested one (@a::@b) the last */
  SN_MA_ENUM,   /* s: the word; name: its domain ("stablehlo.comparison_direction"), or NULL */
  SN_MA_TYPE,   /* type */
  SN_MA_ARRAY,  /* items[n] */
  SN_MA_DICT,   /* members[n] */
  SN_MA_STRUCT, /* members[n]; name: "stablehlo.gather", … */
  SN_MA_INTS,   /* ints[n]: array<i64: …>, array<i32: …>, array<i1: …> */
  SN_MA_DENSE,  /* dense, type; splat */
  SN_MA_OPAQUE  /* name, and s where it is text: carried, not understood */
} sn_mlir_attr_kind;

typedef struct sn_mlir_attr sn_mlir_attr;
typedef struct sn_mlir_named { const char *name; const sn_mlir_attr *attr; } sn_mlir_named;

struct sn_mlir_attr {
  sn_mlir_attr_kind kind;
  const sn_mlir_type *type;
  const char *name;
  int64_t i;
  double f;
  const char *s;
  int64_t n; /* bytes of s, or the length of the list */
  const sn_mlir_attr *const *items;
  const sn_mlir_named *members;
  const int64_t *ints;
  sn_array *dense; /* elements in row-major order; of a splat the one element, as a scalar; quantised types: their stored integers */
  bool splat;
};

/* ---- ops ---------------------------------------------------------------------------------------------------------------- */

typedef struct sn_mlir_op sn_mlir_op;
typedef struct sn_mlir_block sn_mlir_block;
typedef struct sn_mlir_region sn_mlir_region;

typedef struct sn_mlir_value {
  const sn_mlir_type *type;
  sn_mlir_op *def;      /* NULL: an argument of `block` */
  sn_mlir_block *block; /* where it is defined */
  uint32_t index;       /* number of the result or argument */
  uint32_t id;          /* dense in the module: sn_mlir.n_values of them */
  const char *name;     /* as written, without %, or NULL */
} sn_mlir_value;

struct sn_mlir_block {
  uint32_t n_args;
  sn_mlir_value *args;
  sn_mlir_op *first, *last;
  sn_mlir_region *region; /* NULL: the top block */
  sn_mlir_block *next;
};

struct sn_mlir_region {
  uint32_t n_blocks;
  sn_mlir_block *first, *last;
  sn_mlir_op *op;
};

/* What a location attribute says of the program that was exported, for metadata. */
typedef struct sn_mlir_debug {
  const char *name; /* NameLoc, or NULL */
  const char *file; /* or NULL */
  uint32_t line, col, end_line, end_col;
} sn_mlir_debug;

struct sn_mlir_op {
  const char *name;
  uint32_t n_operands, n_results, n_attrs, n_regions;
  sn_mlir_value **operands;
  sn_mlir_value *results; /* n_results of them */
  const sn_mlir_named *attrs;
  sn_mlir_region *regions;
  sn_mlir_block *block; /* it stands in */
  sn_mlir_op *next;
  sn_loc loc;                 /* for diagnostics: in the text that was read; bytecode: file and 0, or what its location says */
  const sn_mlir_debug *debug; /* or NULL */
};

typedef struct sn_mlir {
  sn_arena *arena;
  const char *name; /* of the module, or NULL */
  uint32_t n_attrs;
  const sn_mlir_named *attrs;
  sn_mlir_block top;
  uint32_t n_values;
  uint32_t n_dense, cap_dense; /* arrays to release */
  sn_array **dense;
} sn_mlir;

/* ---- making (mlir.c) ------------------------------------------------------------------------------------------------------- */

SN_NODISCARD sn_status sn_mlir_create(sn_mlir **out);
void sn_mlir_destroy(sn_mlir *m); /* NULL is fine */

const sn_mlir_type *sn_mlir_type_scalar(sn_mlir *m, sn_type t);
const sn_mlir_type *sn_mlir_type_tensor(sn_mlir *m, int rank, const int64_t *dims, const sn_mlir_type *element);
const sn_mlir_type *sn_mlir_type_of(sn_mlir *m, sn_mlir_type_kind kind); /* NONE, TOKEN */

sn_mlir_attr *sn_mlir_attr_new(sn_mlir *m, sn_mlir_attr_kind kind); /* zeroed */
sn_mlir_attr *sn_mlir_attr_int(sn_mlir *m, int64_t v);
sn_mlir_attr *sn_mlir_attr_string(sn_mlir *m, sn_mlir_attr_kind kind, const char *s, size_t n); /* STRING, SYMBOL, ENUM, OPAQUE; copied */
sn_mlir_attr *sn_mlir_attr_type(sn_mlir *m, const sn_mlir_type *t);
/* Takes over the reference to `values` also when it fails. */
sn_mlir_attr *sn_mlir_attr_dense(sn_mlir *m, const sn_mlir_type *t, sn_array *values, bool splat);

/* Linked at the end of `to`; results have types[k] and fresh ids. attrs, operands: the caller's arena arrays, not copied. regions: zeroed, n_regions of them. */
sn_mlir_op *sn_mlir_op_new(sn_mlir *m, sn_mlir_block *to, const char *name, uint32_t n_results, const sn_mlir_type *const *types, uint32_t n_regions);
sn_mlir_block *sn_mlir_block_new(sn_mlir *m, sn_mlir_region *to, uint32_t n_args, const sn_mlir_type *const *types);

/* ---- reading --------------------------------------------------------------------------------------------------------------- */

/* The attribute of that name: of the op itself, else a member of one of its STRUCT attributes; NULL: absent. */
const sn_mlir_attr *sn_mlir_find(const sn_mlir_op *op, const char *name);
const sn_mlir_attr *sn_mlir_member(const sn_mlir_attr *dict, const char *name); /* of a DICT or STRUCT */
/* All integers of an ARRAY of INT or BOOL, INTS, or an integer DENSE (splats expanded). False: it is something else, or memory lacks. */
bool sn_mlir_ints(sn_arena *a, const sn_mlir_attr *attr, int64_t *n, const int64_t **v);
/* `tensor<2x?xf32>`: for messages; in the arena. */
const char *sn_mlir_type_text(sn_arena *a, const sn_mlir_type *t);
void sn_mlir_type_print(sn_str *to, const sn_mlir_type *t);
bool sn_mlir_type_equal(const sn_mlir_type *a, const sn_mlir_type *b);
/* The element type of a tensor: its storage where quantised; of a scalar itself; SN_TYPE_INVALID: it has none. */
sn_type sn_mlir_storage(const sn_mlir_type *t);
/* The func.func of that name; linear. */
sn_mlir_op *sn_mlir_function(const sn_mlir *m, const char *name);
const char *sn_mlir_string(const sn_mlir_op *op, const char *name); /* STRING, SYMBOL or ENUM; NULL: absent or another kind */

/* ---- the two readers -------------------------------------------------------------------------------------------------------- */

/* Registers `text` on d as the source of `file` (copied). Reports at file:line:col; SN_ERR_SYNTAX or the fault's status. Any bytes are safe. */
SN_NODISCARD sn_status sn_mlir_read_text(sn_diag *d, const char *file, const char *text, size_t n_bytes, sn_mlir **out);
/* MLIR bytecode. Any bytes are safe. */
SN_NODISCARD sn_status sn_mlir_read_bytecode(sn_diag *d, const char *file, const void *data, size_t n_bytes, sn_mlir **out);
/* One attribute, or a type as a TYPE attribute, written in text, into the tree m: for entries of bytecode that are text. Says nothing when it fails;
 * SN_ERR_SYNTAX or another status. At most `max_depth` levels deep. */
SN_NODISCARD sn_status sn_mlir_read_attr_text(sn_mlir *m, const char *text, size_t n_bytes, int max_depth, const sn_mlir_attr **out);

/* ---- the two writers -------------------------------------------------------------------------------------------------------- */

/* As text that MLIR reads: functions and constants in their own forms, other ops in the generic one. */
void sn_mlir_print(sn_str *to, const sn_mlir *m);
/* A portable artifact of StableHLO `version` (1.x as 1000 + x). SN_ERR_UNSUPPORTED names what that version lacks. */
SN_NODISCARD sn_status sn_mlir_write_bytecode(sn_diag *d, const sn_mlir *m, int version, sn_str *to);

#endif
