/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of attention-fusion share. */
#ifndef SINTER_ATTENTION_H
#define SINTER_ATTENTION_H

#include "../passes_internal.h"

/* Attention as it was found. Dimensions of `scores` and of all with its shape: batch …, row (query), key.
 *
 *   scores = q k^T     x = elementwise(scores)     exp = exp(x - max of its row)     sum of its row     p = exp / sum     out = p v
 *   dp = do v^T        dx = scale * p (dp - sum of the row of p dp)                  ds = elementwise(dx)                 dq = ds k,  dk = ds^T q,  dv = p^T do */
typedef struct attention {
  sn_instr *scores, *x, *exp, *max, *sum;
  sn_instr *out, *dv, *dq, *dk;     /* products; dv, dq, dk NULL: no derivative, or not of that operand */
  uint32_t out_p, dv_p, dq_ds, dk_ds; /* which operand of theirs has the scores' shape */
  sn_instr *dp, *dx, *ds;
  double dx_scale;
  int n_batch;
} attention;

typedef enum attention_verdict {
  ATTENTION_NONE,    /* no attention */
  ATTENTION_FOUND,
  ATTENTION_SHARED   /* it is, but *other reads what would have to be stored */
} attention_verdict;

/* ---- attention_match.c ---- */

SN_NODISCARD sn_status sn_attention_match(sn_pass_ctx *pc, sn_instr *exp, attention *m, attention_verdict *verdict, sn_instr **other);
/* Does i come from `from` through elementwise ops of one shape? */
bool sn_attention_leads(const sn_instr *i, const sn_instr *from);

/* ---- attention_softmax.c ---- */

/* Is i exp / sum? */
bool sn_attention_is_probability(attention *m, const sn_instr *i);
/* Is i scale * p (dp - rowsum(p dp)), however written? Sets m->dp, found on the way, if it was not set. */
bool sn_attention_is_derivative(attention *m, const sn_instr *i, double *scale);
/* The reduction along the last dimension that i repeats along it, through conversions and names; NULL: i is no such broadcast. */
sn_instr *sn_attention_row_value(const sn_instr *i);

/* ---- attention_build.c ---- */

/* first: of dv, dq, dk the one that stands first (NULL: none is wanted). */
SN_NODISCARD sn_status sn_attention_build(sn_pass_ctx *pc, const attention *m, sn_instr *first, const bool *effects);

#endif
