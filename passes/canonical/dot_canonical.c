/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Products in one form: batch dimensions lead, in order; then one free and one contracted dimension, in either order.
 *
 *     f32[8,197,768] . f32[768,12,64]  over {2} and {0}      becomes
 *     f32[1576,768]  . f32[768,768]    over {1} and {0}, reshaped to f32[8,197,12,64]
 *
 * An operand is transposed only when neither (free, contracted) nor (contracted, free) is the order it stands in already. Terms are added in the same order
 * as before: several contracted dimensions are merged in the order in which they were listed. */
#include "passes_internal.h"

typedef struct side {
  sn_instr *x;
  sn_ints batch, contracting;
  int n_free;
  int64_t free[SN_MAX_RANK];
  int64_t free_size, contracted_size; /* products */
  bool contracted_first;
} side;

static bool in_list(sn_ints v, int64_t d) {
  for (int64_t k = 0; k < v.n; k++) {
    if (v.v[k] == d) return true;
  }
  return false;
}

static void side_init(side *s, sn_instr *x, sn_ints batch, sn_ints contracting) {
  s->x = x;
  s->batch = batch;
  s->contracting = contracting;
  s->n_free = 0;
  s->free_size = s->contracted_size = 1;
  for (int d = 0; d < x->shape->rank; d++) {
    if (in_list(batch, d)) continue;
    if (in_list(contracting, d)) {
      s->contracted_size *= x->shape->dims[d];
    } else {
      s->free[s->n_free++] = d;
      s->free_size *= x->shape->dims[d];
    }
  }
}

/* The order of dimensions with the free or the contracted ones in front; is it the order they stand in? */
static bool order_of(const side *s, bool contracted_first, int64_t *order) {
  int n = 0;
  bool identity = true;
  for (int64_t k = 0; k < s->batch.n; k++) order[n++] = s->batch.v[k];
  for (int half = 0; half < 2; half++) {
    if ((half == 0) == contracted_first) {
      for (int64_t k = 0; k < s->contracting.n; k++) order[n++] = s->contracting.v[k];
    } else {
      for (int k = 0; k < s->n_free; k++) order[n++] = s->free[k];
    }
  }
  for (int k = 0; k < n; k++) identity &= order[k] == k;
  return identity;
}

/* The operand in canonical form. */
static sn_instr *arrange(sn_builder *b, side *s, bool prefer_contracted_first) {
  int64_t order[SN_MAX_RANK], dims[SN_MAX_RANK];
  s->contracted_first = prefer_contracted_first;
  if (!order_of(s, prefer_contracted_first, order)) {
    s->contracted_first = order_of(s, !prefer_contracted_first, order) ? !prefer_contracted_first : prefer_contracted_first;
  }
  order_of(s, s->contracted_first, order);
  int n = 0;
  for (int64_t k = 0; k < s->batch.n; k++) dims[n++] = s->x->shape->dims[s->batch.v[k]];
  if (s->contracted_first) dims[n++] = s->contracted_size;
  if (s->n_free) dims[n++] = s->free_size;
  if (!s->contracted_first) dims[n++] = s->contracted_size;
  return sn_build_reshape(b, sn_build_transpose(b, s->x, order), n, dims);
}

static int64_t contracted_dim(const side *s) { return s->batch.n + (!s->contracted_first && s->n_free); }

static sn_instr *canonical_dot(sn_builder *b, sn_instr *dot) {
  side l, r;
  side_init(&l, sn_instr_operand(dot, 0), sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS), sn_instr_ints(dot, SN_ATTR_LHS_CONTRACTING_DIMS));
  side_init(&r, sn_instr_operand(dot, 1), sn_instr_ints(dot, SN_ATTR_RHS_BATCH_DIMS), sn_instr_ints(dot, SN_ATTR_RHS_CONTRACTING_DIMS));
  sn_instr *xs[2] = {arrange(b, &l, false), NULL};
  xs[1] = arrange(b, &r, true);
  int64_t batch[SN_MAX_RANK], dims[SN_MAX_RANK], lc = contracted_dim(&l), rc = contracted_dim(&r);
  int n = 0;
  for (int64_t k = 0; k < l.batch.n; k++) {
    batch[k] = k;
    dims[n++] = l.x->shape->dims[l.batch.v[k]];
  }
  if (l.n_free) dims[n++] = l.free_size;
  if (r.n_free) dims[n++] = r.free_size;
  sn_attr attrs[6] = {sn_attr_ints(SN_ATTR_LHS_BATCH_DIMS, l.batch.n, batch), sn_attr_ints(SN_ATTR_RHS_BATCH_DIMS, l.batch.n, batch),
                      sn_attr_ints(SN_ATTR_LHS_CONTRACTING_DIMS, 1, &lc), sn_attr_ints(SN_ATTR_RHS_CONTRACTING_DIMS, 1, &rc)};
  uint32_t n_attrs = 4;
  const sn_attr *precision = sn_instr_attr(dot, SN_ATTR_OPERAND_PRECISION), *algorithm = sn_instr_attr(dot, SN_ATTR_DOT_ALGORITHM);
  if (precision) attrs[n_attrs++] = *precision;
  if (algorithm) attrs[n_attrs++] = *algorithm;
  sn_instr *made = sn_build(b, SN_OP_DOT, sn_shape_array(sn_builder_arena(b), dot->shape->type, n, dims), 2, xs, n_attrs, attrs, 0, NULL);
  return sn_build_reshape(b, made, dot->shape->rank, dot->shape->dims);
}

sn_status sn_pass_dot_canonical(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id]) continue;
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op != SN_OP_DOT || sn_dot_is_canonical(i) || i->n_control || i->shape->rank + 1 > SN_MAX_RANK) continue;
      if (!sn_shape_is_static(sn_operand_shape(i, 0)) || !sn_shape_is_static(sn_operand_shape(i, 1)) || !sn_pass_may(pc)) continue;
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, i);
      sn_instr *by = canonical_dot(&b, i);
      SN_TRY(b.status);
      SN_TRY(sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
