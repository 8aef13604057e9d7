/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the shape rules share. Inside ir/ only.
 *
 * A rule sees an sn_infer whose form was checked already: the number of operands, the presence and
 * kind of attributes, the number of called computations, and that no operand has more than
 * SN_MAX_RANK dimensions. It returns the result without layouts. */
#ifndef SINTER_IR_INFER_H
#define SINTER_IR_INFER_H

#include "sinter/ir.h"

typedef sn_status (*sn_shape_rule)(sn_diag *d, const sn_infer *in, const sn_shape **out);

/* Sets of element types that a rule takes. */
enum {
  SN_TAKES_PRED = 1 << SN_CLASS_PRED,
  SN_TAKES_INT = 1 << SN_CLASS_SIGNED | 1 << SN_CLASS_UNSIGNED,
  SN_TAKES_SIGNED = 1 << SN_CLASS_SIGNED,
  SN_TAKES_UNSIGNED = 1 << SN_CLASS_UNSIGNED,
  SN_TAKES_FLOAT = 1 << SN_CLASS_FLOAT,
  SN_TAKES_COMPLEX = 1 << SN_CLASS_COMPLEX,
  SN_TAKES_NUMBER = SN_TAKES_INT | SN_TAKES_FLOAT | SN_TAKES_COMPLEX,
  SN_TAKES_ANY = SN_TAKES_NUMBER | SN_TAKES_PRED
};

/* Dimensions under construction. size: the bound where dynamic, SN_DIM_UNBOUNDED for `?`. */
typedef struct sn_dims {
  int rank;
  int64_t size[SN_MAX_RANK];
  bool dynamic[SN_MAX_RANK];
} sn_dims;

/* `OP %NAME: message` at in->loc; returns `status`. */
sn_status sn_infer_fail(sn_diag *d, const sn_infer *in, sn_status status, const char *fmt, ...)
    SN_PRINTF(4, 5);
/* Text of a shape for a message, in in->arena; never NULL. */
const char *sn_infer_text(const sn_infer *in, const sn_shape *s);
/* `{1,2}` for a message; never NULL. */
const char *sn_infer_ints_text(const sn_infer *in, sn_ints v);

/* The rule alone, for an instruction whose form was checked (sn_row_check). */
sn_status sn_infer_rule(sn_diag *d, const sn_infer *in, const sn_shape **out);

const sn_attr *sn_infer_attr(const sn_infer *in, sn_attr_id id); /* NULL when absent */
int64_t sn_infer_int(const sn_infer *in,
                     sn_attr_id id); /* absent: the table's default, 0 when it has none */
sn_ints sn_infer_ints(const sn_infer *in, sn_attr_id id); /* absent: n = 0 */

/* Operand k is an array of one of the types in `takes`. */
sn_status sn_infer_want_array(sn_diag *d, const sn_infer *in, uint32_t k, unsigned takes);
sn_status sn_infer_want_scalar(sn_diag *d, const sn_infer *in, uint32_t k, unsigned takes);
sn_status sn_infer_want_rank(sn_diag *d, const sn_infer *in, uint32_t k, int rank);
/* Operands j and k have the same element type. */
sn_status sn_infer_want_same_type(sn_diag *d, const sn_infer *in, uint32_t j, uint32_t k);
/* The stated shape is there, and an array. */
sn_status sn_infer_want_given(sn_diag *d, const sn_infer *in);
/* A dimension number in [0, rank). `what` names it in the message. */
sn_status sn_infer_want_dim(sn_diag *d, const sn_infer *in, const char *what, int64_t dim,
                            int64_t rank);
/* Distinct dimension numbers in [0, rank). */
sn_status sn_infer_want_dims(sn_diag *d, const sn_infer *in, const char *what, sn_ints dims,
                             int64_t rank);
sn_status sn_infer_want_sorted(sn_diag *d, const sn_infer *in, const char *what, sn_ints dims);
bool sn_infer_has(sn_ints dims, int64_t dim);

void sn_dims_of(const sn_shape *s, sn_dims *out);
void sn_dims_push(sn_dims *to, const sn_shape *from, int64_t dim);
void sn_dims_push_static(sn_dims *to, int64_t size);
/* Two sizes that must be one: equal, or one of them `?`. The more specific of the two in *size and
 * *dynamic; false: they differ.
 *   X X -> X   X ? -> X   X <=X -> <=X   ? ? -> ?   ? <=B -> <=B   <=B <=B -> <=B */
bool sn_dims_merge(int64_t *size, bool *dynamic, int64_t other, bool other_dynamic);
static inline bool sn_dims_is_dynamic(const sn_shape *s, int64_t k) {
  return s->dynamic && s->dynamic[k];
}
/* Same rank, sizes that may be one, whatever the element types. */
bool sn_dims_compatible(const sn_shape *a, const sn_shape *b);
/* Array of these dims; a status for memory. */
sn_status sn_infer_make(sn_diag *d, const sn_infer *in, sn_type t, const sn_dims *dims,
                        const sn_shape **out);
sn_status sn_infer_make_tuple(sn_diag *d, const sn_infer *in, int64_t n,
                              const sn_shape *const *elements, const sn_shape **out);
/* The shape without layouts at any depth; itself when it has none. */
sn_status sn_infer_strip(sn_diag *d, const sn_infer *in, const sn_shape *s, const sn_shape **out);
/* One element: itself; more: their tuple. */
sn_status sn_infer_one_or_tuple(sn_diag *d, const sn_infer *in, int64_t n,
                                const sn_shape *const *elements, const sn_shape **out);
bool sn_infer_same(const sn_shape *a, const sn_shape *b); /* but for layouts */

/* Called computation k: there, with a root and this many parameters; *root: its result. */
sn_status sn_infer_want_called(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n_params,
                               const sn_shape **root);
/* Its parameter p has this shape (layouts aside). */
sn_status sn_infer_want_param(sn_diag *d, const sn_infer *in, uint32_t k, uint32_t p,
                              const sn_shape *want);
/* Called computation 0 takes the operands as they are. */
sn_status sn_infer_want_arguments(sn_diag *d, const sn_infer *in, const sn_shape **root);
/* Called computation k takes two scalars for each of n values, the accumulated ones first, and
 * gives n scalars of the accumulated types. types[i]: element type of input i (the second half of
 * the parameters and the initial value may be wider or narrower floats or integers of the same
 * class). accumulated[n]: types of the result. */
sn_status sn_infer_want_reducer(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n,
                                const sn_type *inputs, const sn_type *inits, sn_type *accumulated);
/* Called computation k takes pairs of scalars of these types and gives pred[]. */
sn_status sn_infer_want_comparator(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n,
                                   const sn_type *types);

/* Operands of reduce and reduce-window: n arrays, n scalars, and a reducer that fits them. Element
 * types of the n results, in in->arena. */
sn_status sn_infer_reduce_operands(sn_diag *d, const sn_infer *in, sn_type **accumulated);
/* Element type of a product of a and b, in the light of the stated shape. */
sn_status sn_infer_product_type(sn_diag *d, const sn_infer *in, sn_type a, sn_type b, sn_type *out);

/* Result dims of a window of n dimensions over `base`; a NULL window has none. */
sn_status sn_infer_window(sn_diag *d, const sn_infer *in, const sn_window *w, int n,
                          const sn_dims *base, sn_dims *out);

/* The rules: one per name in ops.def. A row with a name that has no rule does not link. */
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  sn_status sn_shape_rule_##shape(sn_diag *d, const sn_infer *in, const sn_shape **out);
#include "sinter/ops.def"
#undef SN_OP

#endif
