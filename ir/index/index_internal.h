/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of ir/index share. */
#ifndef SINTER_INDEX_INTERNAL_H
#define SINTER_INDEX_INTERNAL_H

#include "sinter/index.h"

struct sn_ix_context {
  sn_arena *arena;
  const sn_ix **table; /* open addressing; a power of two */
  uint32_t n_table, n; /* cells, expressions */
  bool overflow;       /* a coefficient did not fit: the maker gave NULL for that, not for memory */
  /* Memory of one substitution: what expression `id` became, valid where mark[id] is the present
   * one. */
  const sn_ix **memo;
  uint32_t *mark, n_memo, present;
};

/* The expression with these fields, made once. NULL: out of memory. */
const sn_ix *sn_ix_intern(sn_ix_context *x, const sn_ix *fields);

/* ---- sums: constant + sum of coefficient * atom, atoms in one order ---- */

typedef struct sn_ix_term {
  const sn_ix *atom;
  int64_t k;
} sn_ix_term;

enum { SN_IX_MAX_TERMS = 128 }; /* more is an overflow: four times what the largest rank needs */

typedef struct sn_ix_sum {
  int n;
  int64_t c;
  bool failed; /* overflow, or too many terms */
  sn_ix_term terms[SN_IX_MAX_TERMS];
} sn_ix_sum;

/* to += e * k */
void sn_ix_sum_add(sn_ix_sum *to, const sn_ix *e, int64_t k);
/* Range of a sum; INT64_MIN/MAX where unknown. */
void sn_ix_sum_range(const sn_ix_sum *s, int64_t *lo, int64_t *hi);
/* The expression of a sum, quotients and remainders of one value put together again. */
const sn_ix *sn_ix_sum_make(sn_ix_context *x, sn_ix_sum *s);

int64_t sn_ix_floor_div(int64_t a, int64_t b); /* b > 0 */
int64_t sn_ix_floor_mod(int64_t a, int64_t b);
static inline bool sn_ix_known(int64_t lo, int64_t hi) {
  return lo != INT64_MIN && hi != INT64_MAX;
}

/* ---- rules ---- */

/* A map under construction. A failed allocation sticks. */
typedef struct sn_index_build {
  sn_ix_context *x;
  const sn_instr *i;
  int output;
  const sn_shape *result; /* the array of this output */
  sn_index_map *map;
  const sn_ix **dims; /* DIM 0… of the result */
  int n_syms, n_accesses;
  int64_t syms[2 * SN_MAX_RANK + 2];
  sn_access *accesses; /* room for cap_accesses */
  int cap_accesses;
  bool failed;
} sn_index_build;

const sn_ix *sn_index_sym(sn_index_build *b, int64_t size); /* a new symbol */
/* A new access of operand k with `rank` expressions to be filled in. NULL: failed. */
sn_access *sn_index_access(sn_index_build *b, uint32_t k);
void sn_access_set(sn_index_build *b, sn_access *a, int dim, const sn_ix *e);
/* lo <= e <= hi; left out where the range of e says so already. */
void sn_index_guard(sn_index_build *b, sn_access *a, const sn_ix *e, int64_t lo, int64_t hi);
/* The operand read element for element, and operand k with a scalar. */
void sn_index_identity(sn_index_build *b, uint32_t k);
void sn_index_scalar(sn_index_build *b, uint32_t k);
void sn_index_opaque(sn_index_build *b);

#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  void sn_index_rule_##index(sn_index_build *b);
#include "sinter/ops.def"
#undef SN_OP

#endif
