/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Index rules of ops that combine many elements into one: the symbols run over what is combined. */
#include "index_internal.h"

static bool has(sn_ints v, int64_t x) {
  for (int64_t k = 0; k < v.n; k++) {
    if (v.v[k] == x) return true;
  }
  return false;
}

/* Symbols: the reduced dimensions, in the operand's order. */
void sn_index_rule_reduce(sn_index_build *b) {
  sn_ints over = sn_instr_ints(b->i, SN_ATTR_DIMENSIONS);
  uint32_t n = b->i->n_operands / 2;
  const sn_shape *s = sn_operand_shape(b->i, 0);
  const sn_ix *at[SN_MAX_RANK];
  int next = 0;
  for (int k = 0; k < s->rank; k++)
    at[k] = has(over, k) ? sn_index_sym(b, s->dims[k]) : b->dims[next++];
  for (uint32_t j = 0; j < n; j++) {
    sn_access *a = sn_index_access(b, j);
    for (int k = 0; a && k < s->rank; k++) sn_access_set(b, a, k, at[k]);
  }
  for (uint32_t j = n; j < 2 * n; j++) sn_index_scalar(b, j);
}

/* ---- products
 * -----------------------------------------------------------------------------------------------------------------
 */

/* Symbols: the contracting dimensions, in the order of the attribute. */
static void dot_side(sn_index_build *b, uint32_t k, sn_ints batch, sn_ints contract,
                     const sn_ix *const *syms, int *next_free) {
  sn_access *a = sn_index_access(b, k);
  for (int64_t j = 0; a && j < batch.n; j++) sn_access_set(b, a, (int)batch.v[j], b->dims[j]);
  for (int64_t j = 0; a && j < contract.n; j++) sn_access_set(b, a, (int)contract.v[j], syms[j]);
  for (int j = 0; a && j < a->rank; j++) {
    if (!has(batch, j) && !has(contract, j)) sn_access_set(b, a, j, b->dims[(*next_free)++]);
  }
}

void sn_index_rule_dot(sn_index_build *b) {
  sn_ints lb = sn_instr_ints(b->i, SN_ATTR_LHS_BATCH_DIMS),
          lc = sn_instr_ints(b->i, SN_ATTR_LHS_CONTRACTING_DIMS);
  sn_ints rb = sn_instr_ints(b->i, SN_ATTR_RHS_BATCH_DIMS),
          rc = sn_instr_ints(b->i, SN_ATTR_RHS_CONTRACTING_DIMS);
  const sn_ix *syms[SN_MAX_RANK];
  int next_free = (int)lb.n;
  for (int64_t j = 0; j < lc.n; j++)
    syms[j] = sn_index_sym(b, sn_operand_shape(b->i, 0)->dims[lc.v[j]]);
  dot_side(b, 0, lb, lc, syms, &next_free);
  dot_side(b, 1, rb, rc, syms, &next_free);
}

/* ---- windows
 * --------------------------------------------------------------------------------------------------------------------
 */

/* Dimension `dim` of access a under window dimension w: result position p, window position s. The
 * place in the padded, dilated base is p * stride + s * rhs_dilate - pad_low; an element stands
 * there when it is in range and a multiple of lhs_dilate. */
static void window_at(sn_index_build *b, sn_access *a, int dim, int64_t size,
                      const sn_window_dim *w, const sn_ix *p, const sn_ix *s) {
  sn_ix_context *x = b->x;
  const sn_ix *e = sn_ix_add(x, sn_ix_mul(x, p, sn_ix_const(x, w->stride)),
                             sn_ix_mul(x, s, sn_ix_const(x, w->rhs_dilate)));
  e = sn_ix_sub(x, e, sn_ix_const(x, w->pad_low));
  sn_access_set(b, a, dim, sn_ix_div(x, e, w->lhs_dilate));
  sn_index_guard(b, a, e, 0, size > 0 ? (size - 1) * w->lhs_dilate : -1);
  if (w->lhs_dilate > 1) sn_index_guard(b, a, sn_ix_mod(x, e, w->lhs_dilate), 0, 0);
}

/* Symbols: the window's dimensions. Where a guard fails, the initial value. */
void sn_index_rule_reduce_window(sn_index_build *b) {
  const sn_window *w = sn_instr_window(b->i);
  uint32_t n = b->i->n_operands / 2;
  const sn_shape *s = sn_operand_shape(b->i, 0);
  const sn_ix *syms[SN_MAX_RANK];
  for (int k = 0; k < s->rank; k++) syms[k] = sn_index_sym(b, w->dims[k].size);
  for (uint32_t j = 0; j < n; j++) {
    sn_access *a = sn_index_access(b, j);
    for (int k = 0; a && k < s->rank; k++)
      window_at(b, a, k, s->dims[k], &w->dims[k], b->dims[k], syms[k]);
  }
  for (uint32_t j = n; j < 2 * n; j++) sn_index_scalar(b, j);
}

/* Symbols: the window's dimensions, then the kernel's input features. Where a guard fails, zero.
 * Group of an output feature: feature_group_count cuts input features, batch_group_count cuts the
 * batch, into as many runs as output features. */
void sn_index_rule_convolution(sn_index_build *b) {
  sn_ix_context *x = b->x;
  const sn_conv_dims *c = sn_instr_conv(b->i);
  const sn_window *w = sn_instr_window(b->i);
  const sn_shape *in = sn_operand_shape(b->i, 0), *kernel = sn_operand_shape(b->i, 1);
  int64_t features = sn_instr_int(b->i, SN_ATTR_FEATURE_GROUP_COUNT),
          batches = sn_instr_int(b->i, SN_ATTR_BATCH_GROUP_COUNT);
  int64_t k_in = kernel->dims[c->kernel_input_feature],
          k_out = kernel->dims[c->kernel_output_feature];
  const sn_ix *syms[SN_MAX_RANK], *out_feature = b->dims[c->output_feature];
  for (int k = 0; k < c->n_spatial; k++) syms[k] = sn_index_sym(b, w->dims[k].size);
  const sn_ix *feature = sn_index_sym(b, k_in), *group = NULL;
  int64_t groups = features > 1 ? features : batches;
  group =
      groups > 1 && k_out >= groups ? sn_ix_div(x, out_feature, k_out / groups) : sn_ix_const(x, 0);

  sn_access *a = sn_index_access(b, 0);
  for (int k = 0; a && k < c->n_spatial; k++) {
    int dim = (int)c->input_spatial[k];
    window_at(b, a, dim, in->dims[dim], &w->dims[k], b->dims[c->output_spatial[k]], syms[k]);
  }
  int64_t batch = b->result->dims[c->output_batch];
  const sn_ix *in_batch =
      batches > 1 ? sn_ix_mul(x, group, sn_ix_const(x, batch)) : sn_ix_const(x, 0);
  const sn_ix *in_feature =
      features > 1 ? sn_ix_mul(x, group, sn_ix_const(x, k_in)) : sn_ix_const(x, 0);
  sn_access_set(b, a, (int)c->input_batch, sn_ix_add(x, in_batch, b->dims[c->output_batch]));
  sn_access_set(b, a, (int)c->input_feature, sn_ix_add(x, in_feature, feature));

  a = sn_index_access(b, 1);
  for (int k = 0; a && k < c->n_spatial; k++) {
    const sn_ix *at =
        w->dims[k].reversal ? sn_ix_sub(x, sn_ix_const(x, w->dims[k].size - 1), syms[k]) : syms[k];
    sn_access_set(b, a, (int)c->kernel_spatial[k], at);
  }
  sn_access_set(b, a, (int)c->kernel_input_feature, feature);
  sn_access_set(b, a, (int)c->kernel_output_feature, out_feature);
}
