/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The table of patterns, and the probe with which formulas are told from one another: by what they compute.
 *
 * There are many ways to write one formula, and rules of differentiation find more. So expressions are not compared: they are computed, on a few numbers, and the results
 * compared with what the formula gives. A probe stands for two rows of four numbers; in a sum over a row of n elements each of its numbers counts n / 4 times, which is
 * what the program would compute on a row that consists of them. What an expression reads that cannot be computed from x is a leaf with numbers of its own. */
#ifndef SINTER_PATTERN_H
#define SINTER_PATTERN_H

#include "../passes_internal.h"

typedef enum sn_pattern {
#define SN_PATTERN(id, text, family, of_several, what) SN_PATTERN_##id,
#include "patterns.def"
#undef SN_PATTERN
  SN_PATTERN_COUNT
} sn_pattern;

typedef enum sn_family { SN_FAMILY_softmax, SN_FAMILY_norm, SN_FAMILY_gelu, SN_FAMILY_update, SN_FAMILY_COUNT } sn_family;

enum { SN_PATTERN_FIRST, SN_PATTERN_LAST };

typedef struct sn_pattern_info { const char *text; sn_family family; int of_several; const char *what; } sn_pattern_info;
extern const sn_pattern_info sn_patterns[SN_PATTERN_COUNT];

/* The members of one pattern found carry frontend_attributes={sinter.pattern="TEXT#NUMBER"} until the fusion pass has looked at them. */
#define SN_PATTERN_KEY "sinter.pattern"

/* ---- probe.c ---- */

enum { PROBE_ROWS = 2, PROBE_EACH = 4, PROBE_LANES = PROBE_ROWS * PROBE_EACH, PROBE_NODES = 160, PROBE_LEAVES = 24 };

typedef enum probe_extent { PROBE_FOREIGN /* not computed from x */, PROBE_SCALAR, PROBE_ROW /* one number a row */, PROBE_FULL } probe_extent;

typedef struct probe_node {
  const sn_instr *i;
  probe_extent extent;
  uint32_t leaves;       /* bits: leaves it is computed from; none of a constant */
  double v[PROBE_LANES]; /* predicates: 0 and 1; what is one number a row is repeated */
} probe_node;

typedef struct probe {
  sn_arena *scratch;
  const sn_shape *full;  /* the shape of what has all lanes */
  uint32_t row_dims;     /* bits: the dimensions of a row; none: elementwise */
  double row_length;
  bool parameters;       /* parameters of the full shape are leaves that it is about; else x alone */
  uint32_t core;         /* bits: the leaves it is about */
  uint32_t each;         /* bits: the leaves with numbers of their own for each element of the full shape */
  double own[PROBE_LANES]; /* what a family keeps from its begin to its tests */
  int n_leaves;
  const sn_instr *leaf[PROBE_LEAVES];
  int n;
  probe_node node[PROBE_NODES];
  uint32_t *stamp, *slot; /* by instruction id: node[slot] if stamp is this run's */
  uint32_t run, n_ids;
  const sn_instr *const *member; /* by instruction id: the root of the pattern that it belongs to, or NULL; what belongs to one is not looked into. NULL: all is */
} probe;

SN_NODISCARD sn_status sn_probe_init(sn_pass_ctx *pc, const sn_module *m, probe *out);
/* Forgets what was computed. x: the leaf it is about; NULL: parameters are. */
void sn_probe_begin(probe *p, const sn_shape *full, uint32_t row_dims, const sn_instr *x);
/* NULL: it is not computed from what the probe is about, or cannot be. Constants have a node without leaves. */
const probe_node *sn_probe_of(probe *p, const sn_instr *i);
/* The numbers of x, in the order of lanes. */
const double *sn_probe_x(const probe *p);
/* Of the one leaf that v is computed from besides x; NULL: there is none, or more. *extent may be NULL. */
const double *sn_probe_other(const probe *p, const probe_node *v, const sn_instr **leaf);
/* Equal, as far as constants rounded to the program's type allow. */
bool sn_probe_close(const probe *p, const double *a, const double *b);
/* a = s b, s not 0. */
bool sn_probe_scaled(const probe *p, const double *a, const double *b, double *s);
/* a = sum of c[k] b[k], n at most 4. False: it is not, or b are not independent. */
bool sn_probe_fit(const probe *p, const double *a, int n, const double *const *b, double *c);
double sn_probe_row_sum(const double *v, int row);

/* ---- match_*.c: what the families look for ---- */

/* Sets the probe up around an anchor. False: nothing here. */
bool sn_family_begin_softmax(probe *p, const sn_instr *anchor);
bool sn_family_begin_norm(probe *p, const sn_instr *anchor);
bool sn_family_begin_gelu(probe *p, const sn_instr *anchor);
bool sn_family_begin_update(probe *p, const sn_instr *anchor);

#define SN_PATTERN(id, text, family, of_several, what) bool sn_pattern_is_##id(const probe *p, const probe_node *v);
#include "patterns.def"
#undef SN_PATTERN

#endif
