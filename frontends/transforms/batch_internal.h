/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batching: a computation on one example copied so that it works on many. A batched value has the examples along axis
 * 0; a value that is the same for all stays as it is, until an op needs it spread. */
#ifndef SINTER_BATCH_INTERNAL_H
#define SINTER_BATCH_INTERNAL_H

#include "control_internal.h"

typedef struct sn_batch {
  sn_graph *g;
  sn_builder *b;
  int64_t size; /* examples */
} sn_batch;

/* A value of the copy: one entry an element of the original's result (one for an array). */
typedef struct sn_lane {
  sn_instr **v;
  bool *batched;
} sn_lane;

/* in[k]: the operand's lane; out: room for the result's elements, to be filled. At least one operand is batched. */
typedef void (*sn_batch_fn)(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out);
typedef struct sn_batch_rule {
  const char *name;
  sn_batch_fn fn; /* NULL: none */
} sn_batch_rule;

#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  extern const sn_batch_rule sn_batch_##batch;
#include "sinter/ops.def"
#undef SN_OP

static inline bool sn_batch_ok(const sn_batch *x) { return x->b->status == SN_OK; }
/* c copied onto lanes of its inputs (as sn_comp_inputs counts them); the lane of its root, v NULL after an error. */
sn_lane sn_batch_inline(sn_batch *x, const sn_computation *c, const sn_lane *in);
sn_lane sn_lane_make(sn_batch *x, int n);
/* The value with its examples along axis 0, spread when it is the same for all. */
sn_instr *sn_lane_spread(sn_batch *x, const sn_lane *l, int k);
/* [size] + dims, type t, in the module's arena. */
const sn_shape *sn_batch_shape(sn_batch *x, const sn_shape *s);
/* i's op with the same attributes but those given, on other operands, with the batched shape of the result. */
sn_instr *sn_batch_again(sn_batch *x, const sn_instr *i, const sn_shape *shape, uint32_t n, sn_instr *const *operands,
                         uint32_t n_changed, const sn_attr *changed);

#endif
