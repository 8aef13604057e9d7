/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of products: dot, ragged-dot, scaled-dot. Convolution is in shape_window.c. */
#include "infer.h"

#include <inttypes.h>

typedef struct products {
  const sn_shape *lhs, *rhs;
  sn_ints lhs_batch, lhs_contract, rhs_batch, rhs_contract;
} products;

static products product_of(const sn_infer *in) {
  products p = {in->operands[0],
                in->operands[1],
                sn_infer_ints(in, SN_ATTR_LHS_BATCH_DIMS),
                sn_infer_ints(in, SN_ATTR_LHS_CONTRACTING_DIMS),
                sn_infer_ints(in, SN_ATTR_RHS_BATCH_DIMS),
                sn_infer_ints(in, SN_ATTR_RHS_CONTRACTING_DIMS)};
  return p;
}

static sn_status product_check_side(sn_diag *d, const sn_infer *in, const char *side, sn_ints batch,
                                    sn_ints contract, int rank) {
  char name[32];
  snprintf(name, sizeof name, "%s_batch_dims=", side);
  SN_TRY(sn_infer_want_dims(d, in, name, batch, rank));
  snprintf(name, sizeof name, "%s_contracting_dims=", side);
  SN_TRY(sn_infer_want_dims(d, in, name, contract, rank));
  for (int64_t i = 0; i < batch.n; i++) {
    if (sn_infer_has(contract, batch.v[i])) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                           "dimension %" PRId64 " of the %s is both batch and contracting",
                           batch.v[i], side);
    }
  }
  return SN_OK;
}

static sn_status product_check_pairs(sn_diag *d, const sn_infer *in, const products *p,
                                     const char *what, sn_ints l, sn_ints r) {
  if (l.n != r.n) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "lhs has %" PRId64 " %s dimension%s, rhs has %" PRId64, l.n, what,
                         l.n == 1 ? "" : "s", r.n);
  }
  for (int64_t i = 0; i < l.n; i++) {
    int64_t m = p->lhs->dims[l.v[i]], n = p->rhs->dims[r.v[i]];
    if (m == n || m == SN_DIM_UNBOUNDED || n == SN_DIM_UNBOUNDED) continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "%s dimensions must be equal: lhs dimension %" PRId64 " of %s is %" PRId64
                         ", rhs dimension %" PRId64 " of %s is %" PRId64,
                         what, l.v[i], sn_infer_text(in, p->lhs), m, r.v[i],
                         sn_infer_text(in, p->rhs), n);
  }
  return SN_OK;
}

static sn_status product_check(sn_diag *d, const sn_infer *in, const products *p) {
  SN_TRY(product_check_side(d, in, "lhs", p->lhs_batch, p->lhs_contract, p->lhs->rank));
  SN_TRY(product_check_side(d, in, "rhs", p->rhs_batch, p->rhs_contract, p->rhs->rank));
  SN_TRY(product_check_pairs(d, in, p, "batch", p->lhs_batch, p->rhs_batch));
  return product_check_pairs(d, in, p, "contracting", p->lhs_contract, p->rhs_contract);
}

/* Pred counts as an integer here: products of preds accumulate in pred or in any integer. */
static int product_class(sn_type t) {
  sn_type_class c = sn_types[t].cls;
  return c == SN_CLASS_UNSIGNED || c == SN_CLASS_PRED ? SN_CLASS_SIGNED : (int)c;
}

/* The operands' type (the wider, when they differ), or any stated type of the same class:
 * accumulating wider or rounding at the end is the op's own. */
sn_status sn_infer_product_type(sn_diag *d, const sn_infer *in, sn_type a, sn_type b,
                                sn_type *out) {
  if (product_class(a) != product_class(b)) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_TYPE, "cannot multiply %s with %s", sn_type_text(a),
                                 sn_type_text(b));
    sn_hint(d, "convert one operand");
    return st;
  }
  *out = sn_type_bits(b) > sn_type_bits(a) ? b : a;
  if (!sn_shape_is_array(in->given)) return SN_OK;
  sn_type g = in->given->type;
  bool int_to_float = product_class(a) == SN_CLASS_SIGNED && product_class(g) == SN_CLASS_FLOAT;
  if (product_class(g) != product_class(a) && !int_to_float) {
    return sn_infer_fail(d, in, SN_ERR_TYPE, "products of %s do not accumulate in %s",
                         sn_type_text(a), sn_type_text(g));
  }
  *out = g;
  return SN_OK;
}

static void product_push_free(const sn_shape *s, sn_ints a, sn_ints b, sn_ints c, sn_dims *dims) {
  for (int k = 0; k < s->rank; k++) {
    if (!sn_infer_has(a, k) && !sn_infer_has(b, k) && !sn_infer_has(c, k)) sn_dims_push(dims, s, k);
  }
}

static void product_push_batch(const products *p, sn_dims *dims) {
  for (int64_t i = 0; i < p->lhs_batch.n; i++) {
    int64_t r = p->rhs_batch.v[i];
    sn_dims_push(dims, p->lhs, p->lhs_batch.v[i]);
    if (dims->rank > SN_MAX_RANK) continue;
    (void)sn_dims_merge(&dims->size[dims->rank - 1], &dims->dynamic[dims->rank - 1],
                        p->rhs->dims[r], sn_dims_is_dynamic(p->rhs, (int)r));
  }
}

/* batch, free of lhs, free of rhs */
sn_status sn_shape_rule_dot(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_ANY));
  products p = product_of(in);
  SN_TRY(product_check(d, in, &p));
  sn_type t;
  SN_TRY(sn_infer_product_type(d, in, p.lhs->type, p.rhs->type, &t));
  sn_dims dims = {.rank = 0};
  sn_ints none = {0, NULL};
  product_push_batch(&p, &dims);
  product_push_free(p.lhs, p.lhs_batch, p.lhs_contract, none, &dims);
  product_push_free(p.rhs, p.rhs_batch, p.rhs_contract, none, &dims);
  return sn_infer_make(d, in, t, &dims, out);
}

/* ---- ragged-dot
 * ------------------------------------------------------------------------------------------------------------
 */

static sn_status ragged_check(sn_diag *d, const sn_infer *in, const products *p, sn_ints ragged,
                              sn_ints group) {
  if (ragged.n != 1) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "lhs_ragged_dims= must name one dimension, found %s",
                         sn_infer_ints_text(in, ragged));
  }
  SN_TRY(sn_infer_want_dim(d, in, "lhs_ragged_dims=", ragged.v[0], p->lhs->rank));
  SN_TRY(sn_infer_want_dims(d, in, "rhs_group_dims=", group, p->rhs->rank));
  bool apart =
      sn_infer_has(p->lhs_batch, ragged.v[0]) || sn_infer_has(p->lhs_contract, ragged.v[0]);
  if (group.n != (apart ? 0 : 1)) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "rhs_group_dims= must name %s, found %s",
                      apart ? "no dimension" : "one dimension", sn_infer_ints_text(in, group));
    sn_hint(d,
            "rhs has a group dimension exactly when the ragged dimension of lhs is neither batch "
            "nor contracting");
    return st;
  }
  if (group.n &&
      (sn_infer_has(p->rhs_batch, group.v[0]) || sn_infer_has(p->rhs_contract, group.v[0]))) {
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "rhs_group_dims= names a batch or contracting dimension: %" PRId64,
                         group.v[0]);
  }
  const sn_shape *sizes = in->operands[2];
  SN_TRY(sn_infer_want_array(d, in, 2, SN_TAKES_INT));
  if (sizes->rank < 1)
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "the group sizes need a dimension of groups, found %s",
                         sn_infer_text(in, sizes));
  int64_t n = sizes->dims[sizes->rank - 1];
  if (group.n && n != p->rhs->dims[group.v[0]] && n != SN_DIM_UNBOUNDED &&
      p->rhs->dims[group.v[0]] != SN_DIM_UNBOUNDED) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "there are %" PRId64 " group sizes for %" PRId64 " groups of rhs", n,
                         p->rhs->dims[group.v[0]]);
  }
  return SN_OK;
}

/* A ragged contracting dimension gives one product a group: a leading dimension of groups. */
sn_status sn_shape_rule_ragged_dot(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_ANY));
  products p = product_of(in);
  sn_ints ragged = sn_infer_ints(in, SN_ATTR_LHS_RAGGED_DIMS),
          group = sn_infer_ints(in, SN_ATTR_RHS_GROUP_DIMS), none = {0, NULL};
  SN_TRY(product_check(d, in, &p));
  SN_TRY(ragged_check(d, in, &p, ragged, group));
  sn_type t;
  SN_TRY(sn_infer_product_type(d, in, p.lhs->type, p.rhs->type, &t));
  sn_dims dims = {.rank = 0};
  if (sn_infer_has(p.lhs_contract, ragged.v[0]))
    sn_dims_push(&dims, in->operands[2], in->operands[2]->rank - 1);
  product_push_batch(&p, &dims);
  product_push_free(p.lhs, p.lhs_batch, p.lhs_contract, none, &dims);
  product_push_free(p.rhs, p.rhs_batch, p.rhs_contract, group, &dims);
  return sn_infer_make(d, in, t, &dims, out);
}

/* ---- scaled-dot
 * --------------------------------------------------------------------------------------------------------------
 */

/* A scale covers a block of each dimension: equal rank, sizes that divide; a scalar is no scale at
 * all. */
static sn_status scaled_check(sn_diag *d, const sn_infer *in, uint32_t k) {
  const sn_shape *x = in->operands[k], *scale = in->operands[k + 2];
  SN_TRY(sn_infer_want_array(d, in, k + 2, SN_TAKES_FLOAT));
  if (scale->rank == 0) return SN_OK;
  bool fits = scale->rank == x->rank;
  for (int i = 0; fits && i < x->rank; i++) {
    int64_t a = x->dims[i], b = scale->dims[i];
    fits = a == SN_DIM_UNBOUNDED || b == SN_DIM_UNBOUNDED || a == b || (b > 0 && a % b == 0);
  }
  if (fits) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE,
                       "the scale must be a scalar or have dimensions that divide those of its "
                       "operand, found %s for %s",
                       sn_infer_text(in, scale), sn_infer_text(in, x));
}

sn_status sn_shape_rule_scaled_dot(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = NULL;
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_FLOAT));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_FLOAT));
  SN_TRY(sn_shape_rule_dot(d, in, &s));
  SN_TRY(scaled_check(d, in, 0));
  SN_TRY(scaled_check(d, in, 1));
  *out = s;
  return SN_OK;
}
