/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Index rules: which elements of the operands an element of the result reads, as quasi-affine expressions.
 * Written once per op, read by fusion, cost, tiling and the kernel language. */
#ifndef SINTER_INDEX_H
#define SINTER_INDEX_H

#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Expressions are immutable, hash-consed per context and simplified as they are made (with the ranges of their variables), so equal expressions are equal pointers. */
typedef enum sn_ix_kind {
  SN_IX_CONST,  /* value */
  SN_IX_DIM,    /* value: dimension of the result (or a loop variable) */
  SN_IX_SYM,    /* value: a symbol: a reduced, contracted or window position */
  SN_IX_ADD,    /* a + b */
  SN_IX_MUL,    /* a * value-constant (b is CONST) or a * b */
  SN_IX_DIV,    /* floor(a / b), b a positive CONST */
  SN_IX_MOD,    /* a mod b in [0, b), b a positive CONST */
  SN_IX_MIN, SN_IX_MAX,
  SN_IX_LOAD    /* integer element of operand `value` at args[0…n_args) (gather, dynamic-slice: clamped by MIN/MAX around it) */
} sn_ix_kind;

typedef struct sn_ix {
  sn_ix_kind kind;
  uint32_t id;              /* dense in the context; stable order for printing */
  int64_t value;
  const struct sn_ix *a, *b;
  int n_args;
  const struct sn_ix *const *args;
  int64_t lo, hi;           /* inclusive range; INT64_MIN/MAX when unknown */
} sn_ix;

typedef struct sn_ix_context sn_ix_context;
SN_NODISCARD sn_status sn_ix_context_create(sn_arena *a, sn_ix_context **out); /* lives in the arena */
/* Makers give NULL when memory lacks; NULL in gives NULL out. */
const sn_ix *sn_ix_const(sn_ix_context *x, int64_t v);
const sn_ix *sn_ix_dim(sn_ix_context *x, int64_t k, int64_t size); /* range [0, size) */
const sn_ix *sn_ix_sym(sn_ix_context *x, int64_t k, int64_t size);
const sn_ix *sn_ix_add(sn_ix_context *x, const sn_ix *a, const sn_ix *b);
const sn_ix *sn_ix_sub(sn_ix_context *x, const sn_ix *a, const sn_ix *b);
const sn_ix *sn_ix_mul(sn_ix_context *x, const sn_ix *a, const sn_ix *b);
const sn_ix *sn_ix_div(sn_ix_context *x, const sn_ix *a, int64_t b);
const sn_ix *sn_ix_mod(sn_ix_context *x, const sn_ix *a, int64_t b);
const sn_ix *sn_ix_min(sn_ix_context *x, const sn_ix *a, const sn_ix *b);
const sn_ix *sn_ix_max(sn_ix_context *x, const sn_ix *a, const sn_ix *b);
const sn_ix *sn_ix_load(sn_ix_context *x, int64_t operand, int n, const sn_ix *const *at);
/* Replaces DIM k by dims[k] and SYM k by syms[k] (NULL arrays: left alone). */
const sn_ix *sn_ix_substitute(sn_ix_context *x, const sn_ix *e, int n_dims, const sn_ix *const *dims, int n_syms, const sn_ix *const *syms);
int64_t sn_ix_eval(const sn_ix *e, const int64_t *dims, const int64_t *syms); /* no LOADs */
void sn_ix_print(sn_str *to, const sn_ix *e); /* d0, s1, (d0 + s0 * 2) floordiv 3 mod 4, load1[d0] */

/* A condition lo <= e <= hi under which the operand's element is read; otherwise the value named by the access (pad's value, zero, …) is used. */
typedef struct sn_ix_guard { const sn_ix *e; int64_t lo, hi; } sn_ix_guard;

/* How one operand is read. */
typedef struct sn_access {
  uint32_t operand;
  int rank;
  const sn_ix *const *at;     /* rank expressions in dims of the result and symbols */
  int n_guards;
  const sn_ix_guard *guards;
} sn_access;

/* The whole rule for one instruction and one of its outputs. */
typedef struct sn_index_map {
  int n_dims;                 /* rank of the result */
  const int64_t *dim_sizes;
  int n_syms;
  const int64_t *sym_sizes;   /* reduction dims, contracting dims, window positions x feature, … */
  int n_accesses;             /* accesses of all operands; an operand may appear several times (concatenate: one operand each) or never (parameter, iota) */
  const sn_access *accesses;
  bool opaque;                /* any element may be read */
} sn_index_map;

/* The rule of ops.def for `i` and element `output` of a tuple result (0 otherwise), in logical (row-major) indices. */
SN_NODISCARD sn_status sn_index_map_of(sn_ix_context *x, const sn_instr *i, int output, sn_index_map *out);

#ifdef __cplusplus
}
#endif
#endif
