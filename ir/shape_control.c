/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of constants, stated shapes, tuples and control flow. */
#include "infer.h"

#include <inttypes.h>

/* ---- stated shapes
 * ---------------------------------------------------------------------------------------------------------
 */

static sn_status want_token(sn_diag *d, const sn_infer *in, uint32_t k) {
  if (in->operands[k]->type == SN_TYPE_TOKEN) return SN_OK;
  sn_status st = sn_infer_fail(d, in, SN_ERR_TYPE, "operand %" PRIu32 " must be token[], found %s",
                               k, sn_infer_text(in, in->operands[k]));
  sn_hint(d, "after-all() makes a token");
  return st;
}

static sn_status given_iota(sn_diag *d, const sn_infer *in) {
  SN_TRY(sn_infer_want_given(d, in));
  if (in->given->type == SN_TYPE_PRED)
    return sn_infer_fail(d, in, SN_ERR_TYPE, "counts in numbers, found %s",
                         sn_infer_text(in, in->given));
  return sn_infer_want_dim(d, in, "iota_dimension=", sn_infer_int(in, SN_ATTR_IOTA_DIMENSION),
                           in->given->rank);
}

static sn_status given_parameter(sn_diag *d, const sn_infer *in) {
  int64_t number = sn_infer_int(in, SN_ATTR_PARAMETER_NUMBER);
  if (number >= 0 && number <= INT32_MAX) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "the number must be 0 or more, found %" PRId64,
                       number);
}

static sn_status given_rng_state(sn_diag *d, const sn_infer *in) {
  SN_TRY(sn_infer_want_given(d, in));
  if (in->given->type == SN_TYPE_U64 && in->given->rank == 1 && in->given->dims[0] == 2)
    return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE, "the state must be u64[2], found %s",
                       sn_infer_text(in, in->given));
}

static sn_status given_rng(sn_diag *d, const sn_infer *in) {
  SN_TRY(sn_infer_want_given(d, in));
  for (uint32_t k = 0; k < 2; k++) {
    SN_TRY(sn_infer_want_scalar(d, in, k, SN_TAKES_ANY & ~SN_TAKES_COMPLEX));
    if (in->operands[k]->type == in->given->type) continue;
    return sn_infer_fail(d, in, SN_ERR_TYPE,
                         "operand %" PRIu32 " must be %s[], the type of the result, found %s", k,
                         sn_type_text(in->given->type), sn_infer_text(in, in->operands[k]));
  }
  if (sn_infer_int(in, SN_ATTR_DISTRIBUTION) == SN_DISTRIBUTION_NORMAL &&
      !sn_type_is_float(in->given->type)) {
    return sn_infer_fail(d, in, SN_ERR_TYPE, "rng_normal gives floats, found %s",
                         sn_infer_text(in, in->given));
  }
  return SN_OK;
}

static sn_status given_custom_call(sn_diag *d, const sn_infer *in) {
  const sn_attr *a = sn_infer_attr(in, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  if (!a) return SN_OK;
  if (a->u.shapes.n != in->n_operands) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "operand_layout_constraints= names %" PRId64 " shapes for %" PRIu32
                         " operands",
                         a->u.shapes.n, in->n_operands);
  }
  for (uint32_t k = 0; k < in->n_operands; k++) {
    if (sn_infer_same(a->u.shapes.v[k], in->operands[k])) continue;
    return sn_infer_fail(
        d, in, SN_ERR_ATTRIBUTE,
        "operand_layout_constraints= names %s for operand %" PRIu32 ", which is %s",
        sn_infer_text(in, a->u.shapes.v[k]), k, sn_infer_text(in, in->operands[k]));
  }
  return SN_OK;
}

/* recv: (value, u32[], token[]); infeed: (value, token[]) */
static sn_status given_with_token(sn_diag *d, const sn_infer *in) {
  SN_TRY(want_token(d, in, 0));
  const sn_shape *g = in->given;
  int n = in->op == SN_OP_RECV ? 3 : 2;
  bool ok = sn_shape_is_tuple(g) && g->n_elements == n && g->elements[n - 1]->type == SN_TYPE_TOKEN;
  if (ok && n == 3)
    ok = sn_shape_is_scalar(g->elements[1]) && sn_type_is_integer(g->elements[1]->type);
  if (ok) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE, "the result must be %s, found %s",
                       n == 3 ? "(value, u32[], token[])" : "(value, token[])",
                       sn_infer_text(in, g));
}

sn_status sn_shape_rule_given(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  static const struct {
    sn_opcode op;
    sn_status (*check)(sn_diag *, const sn_infer *);
  } rows[] = {
      {SN_OP_IOTA, given_iota},
      {SN_OP_PARAMETER, given_parameter},
      {SN_OP_RNG_GET_AND_UPDATE_STATE, given_rng_state},
      {SN_OP_RNG, given_rng},
      {SN_OP_CUSTOM_CALL, given_custom_call},
      {SN_OP_RECV, given_with_token},
      {SN_OP_INFEED, given_with_token},
  };
  if (!in->given) return sn_infer_want_given(d, in);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].op == in->op) SN_TRY(rows[i].check(d, in));
  }
  *out = in->given;
  return SN_OK;
}

sn_status sn_shape_rule_literal(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_array *l = sn_infer_attr(in, SN_ATTR_LITERAL)->u.literal;
  if (!l) { /* elided */
    if (!in->given) return sn_infer_want_given(d, in);
    return sn_infer_strip(d, in, in->given, out);
  }
  const sn_shape *s = sn_shape_clone(in->arena, sn_array_shape(l));
  if (!s) return sn_out_of_memory(d, sizeof *s);
  return sn_infer_strip(d, in, s, out);
}

sn_status sn_shape_rule_u32_scalar(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  sn_dims dims = {.rank = 0};
  return sn_infer_make(d, in, SN_TYPE_U32, &dims, out);
}

/* ---- tokens
 * --------------------------------------------------------------------------------------------------------------------
 */

static sn_status token_operands(sn_diag *d, const sn_infer *in) {
  if (in->op == SN_OP_AFTER_ALL) {
    for (uint32_t k = 0; k < in->n_operands; k++) SN_TRY(want_token(d, in, k));
    return SN_OK;
  }
  if (in->op == SN_OP_OUTFEED) {
    const sn_attr *a = sn_infer_attr(in, SN_ATTR_OUTFEED_SHAPE);
    if (a && !sn_infer_same(a->u.shape, in->operands[0])) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "outfeed_shape=%s does not match operand 0, %s",
                           sn_infer_text(in, a->u.shape), sn_infer_text(in, in->operands[0]));
    }
    return want_token(d, in, 1);
  }
  const sn_shape *s = in->operands[0]; /* send-done */
  if (sn_shape_is_tuple(s) && s->n_elements == 3 && s->elements[2]->type == SN_TYPE_TOKEN)
    return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_TYPE,
                       "operand 0 must be the result of send, (value, u32[], token[]), found %s",
                       sn_infer_text(in, s));
}

sn_status sn_shape_rule_token(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(token_operands(d, in));
  *out = sn_shape_token(in->arena);
  return *out ? SN_OK : sn_out_of_memory(d, sizeof **out);
}

sn_status sn_shape_rule_send(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(want_token(d, in, 1));
  const sn_shape *e[3] = {NULL, sn_shape_scalar(in->arena, SN_TYPE_U32), sn_shape_token(in->arena)};
  if (!e[1] || !e[2]) return sn_out_of_memory(d, sizeof *e[1]);
  SN_TRY(sn_infer_strip(d, in, in->operands[0], &e[0]));
  return sn_infer_make_tuple(d, in, 3, e, out);
}

sn_status sn_shape_rule_recv_done(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = in->operands[0], *e[2] = {NULL, sn_shape_token(in->arena)};
  if (!sn_shape_is_tuple(s) || s->n_elements != 3 || s->elements[2]->type != SN_TYPE_TOKEN) {
    return sn_infer_fail(d, in, SN_ERR_TYPE,
                         "operand 0 must be the result of recv, (value, u32[], token[]), found %s",
                         sn_infer_text(in, s));
  }
  if (!e[1]) return sn_out_of_memory(d, sizeof *e[1]);
  SN_TRY(sn_infer_strip(d, in, s->elements[0], &e[0]));
  return sn_infer_make_tuple(d, in, 2, e, out);
}

/* ---- tuples
 * --------------------------------------------------------------------------------------------------------------------
 */

sn_status sn_shape_rule_tuple(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape **e = SN_NEW_N(in->arena, const sn_shape *, in->n_operands + 1);
  if (!e) return sn_out_of_memory(d, in->n_operands * sizeof *e);
  for (uint32_t k = 0; k < in->n_operands; k++)
    SN_TRY(sn_infer_strip(d, in, in->operands[k], &e[k]));
  return sn_infer_make_tuple(d, in, in->n_operands, e, out);
}

sn_status sn_shape_rule_get_tuple_element(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = in->operands[0];
  int64_t k = sn_infer_int(in, SN_ATTR_INDEX);
  if (!sn_shape_is_tuple(s))
    return sn_infer_fail(d, in, SN_ERR_TYPE, "operand 0 must be a tuple, found %s",
                         sn_infer_text(in, s));
  if (k < 0 || k >= s->n_elements) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "index=%" PRId64 " of a tuple of %d element%s: %s", k, s->n_elements,
                         s->n_elements == 1 ? "" : "s", sn_infer_text(in, s));
  }
  return sn_infer_strip(d, in, s->elements[k], out);
}

/* ---- calls
 * ----------------------------------------------------------------------------------------------------------------------
 */

sn_status sn_infer_want_arguments(sn_diag *d, const sn_infer *in, const sn_shape **root) {
  SN_TRY(sn_infer_want_called(d, in, 0, in->n_operands, root));
  for (uint32_t k = 0; k < in->n_operands; k++)
    SN_TRY(sn_infer_want_param(d, in, 0, k, in->operands[k]));
  return SN_OK;
}

sn_status sn_shape_rule_call(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *root = NULL;
  SN_TRY(sn_infer_want_arguments(d, in, &root));
  return sn_infer_strip(d, in, root, out);
}

sn_status sn_shape_rule_fusion(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return sn_shape_rule_call(d, in, out);
}

sn_status sn_shape_rule_while(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *state = in->operands[0], *test = NULL, *next = NULL;
  SN_TRY(sn_infer_want_called(d, in, 0, 1, &test));
  SN_TRY(sn_infer_want_called(d, in, 1, 1, &next));
  SN_TRY(sn_infer_want_param(d, in, 0, 0, state));
  SN_TRY(sn_infer_want_param(d, in, 1, 0, state));
  if (!sn_shape_is_scalar(test) || test->type != SN_TYPE_PRED) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY, "condition %%%s must give pred[], found %s",
                         in->called[0]->name, sn_infer_text(in, test));
  }
  if (!sn_infer_same(next, state)) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_VERIFY, "body %%%s must give the state %s, found %s",
                      in->called[1]->name, sn_infer_text(in, state), sn_infer_text(in, next));
    sn_hint(d, "the state keeps its shape from step to step");
    return st;
  }
  return sn_infer_strip(d, in, state, out);
}

static sn_status conditional_selector(sn_diag *d, const sn_infer *in) {
  const sn_shape *s = in->operands[0];
  bool pred = s->type == SN_TYPE_PRED;
  if (!sn_shape_is_scalar(s) || (!pred && s->type != SN_TYPE_S32)) {
    return sn_infer_fail(d, in, SN_ERR_TYPE, "the selector must be pred[] or s32[], found %s",
                         sn_infer_text(in, s));
  }
  if (pred && in->n_called != 2) {
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "a pred[] selector chooses between 2 branches, found %" PRIu32,
                         in->n_called);
  }
  if (in->n_operands - 1 == in->n_called) return SN_OK;
  sn_status st = sn_infer_fail(
      d, in, SN_ERR_SHAPE, "needs one argument for each of %" PRIu32 " branches, found %" PRIu32,
      in->n_called, in->n_operands - 1);
  sn_hint(
      d, "operands are the selector, then one argument a branch; pack several values into a tuple");
  return st;
}

sn_status sn_shape_rule_conditional(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *first = NULL;
  SN_TRY(conditional_selector(d, in));
  for (uint32_t k = 0; k < in->n_called; k++) {
    const sn_shape *root = NULL;
    SN_TRY(sn_infer_want_called(d, in, k, 1, &root));
    SN_TRY(sn_infer_want_param(d, in, k, 0, in->operands[k + 1]));
    if (!first) first = root;
    if (sn_infer_same(first, root)) continue;
    return sn_infer_fail(d, in, SN_ERR_VERIFY,
                         "branches must give one shape, found %s from %%%s and %s from %%%s",
                         sn_infer_text(in, first), in->called[0]->name, sn_infer_text(in, root),
                         in->called[k]->name);
  }
  return sn_infer_strip(d, in, first, out);
}
