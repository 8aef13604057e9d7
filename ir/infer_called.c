/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What shape rules ask of called computations. Faults have the status SN_ERR_VERIFY, which tells
 * them from faults of the operands. */
#include "infer.h"

#include <inttypes.h>

sn_status sn_infer_want_called(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n_params,
                               const sn_shape **root) {
  const sn_computation *c = k < in->n_called ? in->called[k] : NULL;
  if (!c || !c->root)
    return sn_infer_fail(d, in, SN_ERR_VERIFY, "called computation %" PRIu32 " %s", k,
                         c ? "has no root" : "is missing");
  if (c->n_params != n_params) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "computation %%%s must have %" PRId64 " parameter%s, found %" PRIu32,
                         c->name, n_params, n_params == 1 ? "" : "s", c->n_params);
  }
  for (uint32_t p = 0; p < c->n_params; p++) {
    if (!c->params[p])
      return sn_infer_fail(d, in, SN_ERR_VERIFY, "computation %%%s lacks parameter(%" PRIu32 ")",
                           c->name, p);
  }
  *root = c->root->shape;
  if (!*root)
    return sn_infer_fail(d, in, SN_ERR_VERIFY, "the root of computation %%%s has no shape",
                         c->name);
  return SN_OK;
}

sn_status sn_infer_want_param(sn_diag *d, const sn_infer *in, uint32_t k, uint32_t p,
                              const sn_shape *want) {
  const sn_computation *c = in->called[k];
  const sn_shape *found = c->params[p]->shape;
  if (sn_infer_same(found, want)) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_VERIFY,
                       "parameter %" PRIu32 " of computation %%%s must be %s, found %s", p, c->name,
                       sn_infer_text(in, want), sn_infer_text(in, found));
}

/* Wider or narrower types of one class: a reduction may accumulate in another precision than its
 * inputs have. */
static bool infer_same_class(sn_type a, sn_type b) {
  return a == b || (sn_types[a].cls == sn_types[b].cls && sn_type_is_array(a));
}

static sn_status infer_reducer_value(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n,
                                     int64_t i, const sn_shape *acc, sn_type input, sn_type init) {
  const sn_computation *c = in->called[k];
  const sn_shape *left = c->params[i]->shape, *right = c->params[n + i]->shape;
  if (!sn_shape_is_scalar(acc)) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "result %" PRId64 " of computation %%%s must be a scalar, found %s", i,
                         c->name, sn_infer_text(in, acc));
  }
  if (!sn_infer_same(left, acc)) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "computation %%%s accumulates %s but parameter %" PRId64 " is %s", c->name,
                         sn_infer_text(in, acc), i, sn_infer_text(in, left));
  }
  if (!sn_shape_is_scalar(right) || !infer_same_class(right->type, acc->type)) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "parameter %" PRId64 " of computation %%%s must be %s[], found %s", n + i,
                         c->name, sn_type_text(acc->type), sn_infer_text(in, right));
  }
  if (!infer_same_class(input, acc->type) || !infer_same_class(init, acc->type)) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "computation %%%s combines %s but the values are %s with initial value %s",
                         c->name, sn_infer_text(in, acc), sn_type_text(input), sn_type_text(init));
  }
  return SN_OK;
}

sn_status sn_infer_want_reducer(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n,
                                const sn_type *inputs, const sn_type *inits, sn_type *accumulated) {
  const sn_shape *root = NULL;
  SN_TRY(sn_infer_want_called(d, in, k, 2 * n, &root));
  bool tuple = sn_shape_is_tuple(root);
  if (tuple ? root->n_elements != n : n != 1) {
    sn_status st = sn_infer_fail(
        d, in, SN_ERR_VERIFY, "computation %%%s must give %" PRId64 " value%s, found %s",
        in->called[k]->name, n, n == 1 ? "" : "s", sn_infer_text(in, root));
    if (n > 1) sn_hint(d, "its root should be a tuple of %" PRId64 " scalars", n);
    return st;
  }
  for (int64_t i = 0; i < n; i++) {
    const sn_shape *acc = tuple ? root->elements[i] : root;
    SN_TRY(infer_reducer_value(d, in, k, n, i, acc, inputs[i], inits[i]));
    accumulated[i] = acc->type;
  }
  return SN_OK;
}

sn_status sn_infer_want_comparator(sn_diag *d, const sn_infer *in, uint32_t k, int64_t n,
                                   const sn_type *types) {
  const sn_shape *root = NULL;
  SN_TRY(sn_infer_want_called(d, in, k, 2 * n, &root));
  const sn_computation *c = in->called[k];
  if (!sn_shape_is_scalar(root) || root->type != SN_TYPE_PRED) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY, "computation %%%s must give pred[], found %s",
                         c->name, sn_infer_text(in, root));
  }
  for (int64_t p = 0; p < 2 * n; p++) {
    const sn_shape *s = c->params[p]->shape;
    if (sn_shape_is_scalar(s) && s->type == types[p / 2]) continue;
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "parameter %" PRId64 " of computation %%%s must be %s[], found %s", p,
                         c->name, sn_type_text(types[p / 2]), sn_infer_text(in, s));
  }
  return SN_OK;
}
