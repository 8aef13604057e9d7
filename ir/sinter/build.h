/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A builder with a sticky status, for passes, transforms and frontends: one call an op, NULL in gives NULL out, one check at the end. */
#ifndef SINTER_BUILD_H
#define SINTER_BUILD_H

#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_builder {
  sn_computation *c;            /* where instructions go */
  sn_instr *before;             /* NULL: at the end; else in front of this one */
  sn_diag *d;
  sn_loc loc;                   /* given to what is made */
  const sn_metadata *metadata;  /* given to what is made; or NULL */
  sn_status status;             /* the first failure sticks; later calls give NULL */
} sn_builder;

void sn_builder_init(sn_builder *b, sn_diag *d, sn_computation *c);
/* Continues from an instruction: its computation, in front of it, with its location and metadata. */
void sn_builder_init_at(sn_builder *b, sn_diag *d, sn_instr *i);
static inline sn_arena *sn_builder_arena(const sn_builder *b) { return b->c->module->arena; }
/* Any op. shape NULL: inferred. */
sn_instr *sn_build(sn_builder *b, sn_opcode op, const sn_shape *shape, uint32_t n_operands, sn_instr *const *operands, uint32_t n_attrs, const sn_attr *attrs,
                   uint32_t n_called, sn_computation *const *called);
sn_instr *sn_build_parameter(sn_builder *b, int64_t number, const sn_shape *s, const char *name);
sn_instr *sn_build_constant(sn_builder *b, sn_array *literal);                 /* retained */
sn_instr *sn_build_scalar(sn_builder *b, sn_type t, double v);                 /* scalar constant; rounded to t */
sn_instr *sn_build_scalar_i64(sn_builder *b, sn_type t, int64_t v);
sn_instr *sn_build_full(sn_builder *b, const sn_shape *s, double v);           /* broadcast of a scalar constant */
sn_instr *sn_build_full_like(sn_builder *b, const sn_instr *like, double v);
sn_instr *sn_build_unary(sn_builder *b, sn_opcode op, sn_instr *x);
sn_instr *sn_build_binary(sn_builder *b, sn_opcode op, sn_instr *x, sn_instr *y); /* equal shapes */
sn_instr *sn_build_compare(sn_builder *b, int64_t direction, sn_instr *x, sn_instr *y);
sn_instr *sn_build_select(sn_builder *b, sn_instr *p, sn_instr *t, sn_instr *f);
sn_instr *sn_build_clamp(sn_builder *b, sn_instr *lo, sn_instr *x, sn_instr *hi);
sn_instr *sn_build_convert(sn_builder *b, sn_instr *x, sn_type t);             /* x itself when it has that type */
sn_instr *sn_build_bitcast_convert(sn_builder *b, sn_instr *x, sn_type t);
sn_instr *sn_build_complex(sn_builder *b, sn_instr *re, sn_instr *im);
/* dims: HLO's broadcast dimensions: operand dimension i becomes result dimension dims[i]. */
sn_instr *sn_build_broadcast(sn_builder *b, sn_instr *x, int rank, const int64_t *result_dims, int n, const int64_t *dims);
sn_instr *sn_build_broadcast_scalar(sn_builder *b, sn_instr *x, const sn_shape *to); /* keeps x's type */
sn_instr *sn_build_reshape(sn_builder *b, sn_instr *x, int rank, const int64_t *dims);    /* x itself when equal */
sn_instr *sn_build_transpose(sn_builder *b, sn_instr *x, const int64_t *permutation);     /* x itself when identity */
sn_instr *sn_build_reverse(sn_builder *b, sn_instr *x, int n, const int64_t *dims);
sn_instr *sn_build_slice(sn_builder *b, sn_instr *x, const int64_t *start, const int64_t *limit, const int64_t *stride /* NULL: ones */);
sn_instr *sn_build_slice_dim(sn_builder *b, sn_instr *x, int64_t dim, int64_t start, int64_t limit);
sn_instr *sn_build_dynamic_slice(sn_builder *b, sn_instr *x, sn_instr *const *starts, const int64_t *sizes);
sn_instr *sn_build_dynamic_update_slice(sn_builder *b, sn_instr *x, sn_instr *update, sn_instr *const *starts);
sn_instr *sn_build_pad(sn_builder *b, sn_instr *x, sn_instr *value, const int64_t *low, const int64_t *high, const int64_t *interior /* NULL: zeros */);
sn_instr *sn_build_concatenate(sn_builder *b, uint32_t n, sn_instr *const *xs, int64_t dim);
sn_instr *sn_build_iota(sn_builder *b, sn_type t, int rank, const int64_t *dims, int64_t iota_dim);
typedef struct sn_dot_dims { int n_batch, n_contracting; const int64_t *lhs_batch, *rhs_batch, *lhs_contracting, *rhs_contracting; } sn_dot_dims;
/* type SN_TYPE_INVALID: the operands' type. */
sn_instr *sn_build_dot(sn_builder *b, sn_instr *x, sn_instr *y, const sn_dot_dims *dims, sn_type result);
sn_instr *sn_build_convolution(sn_builder *b, sn_instr *x, sn_instr *kernel, const sn_window *w, const sn_conv_dims *dims, int64_t feature_groups, int64_t batch_groups);
/* `op` (add, maximum, …) over dims with the given start value (a scalar instruction). */
sn_instr *sn_build_reduce_op(sn_builder *b, sn_opcode op, sn_instr *x, sn_instr *init, int n, const int64_t *dims);
sn_instr *sn_build_reduce_sum(sn_builder *b, sn_instr *x, int n, const int64_t *dims); /* start 0 */
sn_instr *sn_build_reduce_max(sn_builder *b, sn_instr *x, int n, const int64_t *dims); /* start -inf or the smallest integer */
/* The module's `op(x, y)` computation over scalars of type t (made once, then shared). */
sn_computation *sn_build_reducer(sn_builder *b, sn_opcode op, sn_type t);
sn_instr *sn_build_tuple(sn_builder *b, uint32_t n, sn_instr *const *xs);
sn_instr *sn_build_get(sn_builder *b, sn_instr *tuple, int64_t index);
sn_instr *sn_build_call(sn_builder *b, sn_computation *c, uint32_t n, sn_instr *const *args);

#ifdef __cplusplus
}
#endif
#endif
