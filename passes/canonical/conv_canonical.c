/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolutions in fewer forms, each step exact:
 *   - groups of the batch become groups of features: the group number moves from the batch dimension of the input to its feature dimension, which is a reshape and a
 *     transpose; each output still sums the same products in the same order;
 *   - a reversed window becomes a reversed kernel;
 *   - no spatial dimension at all and no groups: a product. */
#include "passes_internal.h"

#include <string.h>

typedef struct conv {
  sn_instr *i;
  const sn_conv_dims *d;
  const sn_window *w;
  int64_t feature_groups, batch_groups;
} conv;

/* [.., G*n, .., F, ..] -> [.., n, .., G*F, ..] with the group in front of the features. */
static sn_instr *group_features(sn_builder *b, const conv *c, sn_instr *x) {
  const sn_shape *s = x->shape;
  int64_t dims[SN_MAX_RANK], order[SN_MAX_RANK], merged[SN_MAX_RANK];
  int n = 0, group = 0, n_order = 0;
  for (int k = 0; k < s->rank; k++) {
    if (k == c->d->input_batch) {
      group = n;
      dims[n++] = c->batch_groups;
      dims[n++] = s->dims[k] / c->batch_groups;
    } else {
      dims[n++] = s->dims[k];
    }
  }
  for (int k = 0, at = 0; k < s->rank; k++, at++) {
    if (k == c->d->input_batch) at++; /* over the group */
    if (k == c->d->input_feature) order[n_order++] = group;
    order[n_order++] = at;
    merged[k] = k == c->d->input_feature ? s->dims[k] * c->batch_groups : k == c->d->input_batch ? s->dims[k] / c->batch_groups : s->dims[k];
  }
  return sn_build_reshape(b, sn_build_transpose(b, sn_build_reshape(b, x, n, dims), order), s->rank, merged);
}

static sn_instr *reverse_kernel(sn_builder *b, const conv *c, sn_instr *kernel, sn_window_dim *dims) {
  int64_t reversed[SN_MAX_RANK];
  int n = 0;
  for (int k = 0; k < c->w->rank; k++) {
    if (dims[k].reversal && dims[k].size > 1) reversed[n++] = c->d->kernel_spatial[k];
    dims[k].reversal = false;
  }
  return n ? sn_build_reverse(b, kernel, n, reversed) : kernel;
}

static sn_instr *as_dot(sn_builder *b, const conv *c) {
  int64_t lc = c->d->input_feature, rc = c->d->kernel_input_feature;
  sn_dot_dims dims = {0, 1, NULL, NULL, &lc, &rc};
  sn_instr *y = sn_build_dot(b, sn_instr_operand(c->i, 0), sn_instr_operand(c->i, 1), &dims, c->i->shape->type);
  const sn_attr *precision = sn_instr_attr(c->i, SN_ATTR_OPERAND_PRECISION);
  if (y && precision) b->status = sn_instr_set_attr(y, *precision);
  int64_t swap[2] = {1, 0};
  return c->d->output_batch == 0 ? y : sn_build_transpose(b, y, swap);
}

static bool any_reversal(const conv *c) {
  for (int k = 0; c->w && k < c->w->rank; k++) {
    if (c->w->dims[k].reversal) return true;
  }
  return false;
}

static sn_instr *canonical(sn_builder *b, conv *c) {
  sn_instr *x = sn_instr_operand(c->i, 0), *kernel = sn_instr_operand(c->i, 1);
  if (c->d->n_spatial == 0 && c->feature_groups == 1 && c->batch_groups == 1) return as_dot(b, c);
  sn_window_dim dims[SN_MAX_RANK];
  sn_window w = {c->w ? c->w->rank : 0, dims};
  if (c->w) memcpy(dims, c->w->dims, (size_t)c->w->rank * sizeof *dims);
  if (any_reversal(c)) kernel = reverse_kernel(b, c, kernel, dims);
  int64_t groups = c->feature_groups;
  if (c->batch_groups > 1) {
    x = group_features(b, c, x);
    groups = c->batch_groups;
  }
  sn_attr attrs[4] = {sn_attr_conv(c->d), sn_attr_int(SN_ATTR_FEATURE_GROUP_COUNT, groups)};
  uint32_t n = 2;
  const sn_attr *precision = sn_instr_attr(c->i, SN_ATTR_OPERAND_PRECISION);
  if (c->w) attrs[n++] = sn_attr_window(&w);
  if (precision) attrs[n++] = *precision;
  sn_instr *xs[2] = {x, kernel};
  return sn_build(b, SN_OP_CONVOLUTION, c->i->shape, 2, xs, n, attrs, 0, NULL);
}

sn_status sn_pass_conv_canonical(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(comp, m) {
    SN_FOR_INSTRS_SAFE(i, comp) {
      if (i->op != SN_OP_CONVOLUTION || i->n_control || !sn_shape_is_static(i->shape)) continue;
      if (!sn_shape_is_static(sn_operand_shape(i, 0)) || !sn_shape_is_static(sn_operand_shape(i, 1)) || i->shape->rank >= SN_MAX_RANK) continue;
      conv c = {i, sn_instr_conv(i), sn_instr_window(i), sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT), sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT)};
      bool no_space = c.d->n_spatial == 0 && c.feature_groups == 1 && c.batch_groups == 1;
      if (!no_space && !any_reversal(&c) && (c.batch_groups == 1 || c.feature_groups > 1)) continue;
      if (c.feature_groups > 1 && c.batch_groups > 1) continue; /* the verifier refuses both at once */
      if (!sn_pass_may(pc)) return SN_OK;
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, i);
      sn_instr *by = canonical(&b, &c);
      SN_TRY(b.status);
      SN_TRY(sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
