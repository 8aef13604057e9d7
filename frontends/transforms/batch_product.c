/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batching of dot and convolution. */
#include <string.h>

#include "batch_internal.h"

static void done(sn_lane *out, sn_instr *v) {
  out->v[0] = v;
  out->batched[0] = true;
}

static sn_attr shifted(sn_batch *x, const sn_instr *i, sn_attr_id id, bool shift, bool front) {
  sn_ints old = sn_instr_ints(i, id);
  int64_t *v = SN_NEW_N(x->g->arena, int64_t, old.n + 2), n = 0;
  if (!v) {
    sn_graph_no_memory(x->g);
    return sn_attr_ints(id, 0, NULL);
  }
  if (front) v[n++] = 0;
  for (int64_t k = 0; k < old.n; k++) v[n++] = old.v[k] + shift;
  return sn_attr_ints(id, n, v);
}

/* Moves axis `from` of v to the place `to`. */
static sn_instr *moved(sn_batch *x, sn_instr *v, int from, int to) {
  return v ? sn_move_axis_at(x->b->loc, sn_graph_tensor(x->g, v), from, to).instr : NULL;
}

static void dot(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  bool l = in[0].batched[0], r = in[1].batched[0], both = l && r;
  sn_attr a[4] = {shifted(x, i, SN_ATTR_LHS_BATCH_DIMS, l, both), shifted(x, i, SN_ATTR_RHS_BATCH_DIMS, r, both),
                  shifted(x, i, SN_ATTR_LHS_CONTRACTING_DIMS, l, false),
                  shifted(x, i, SN_ATTR_RHS_CONTRACTING_DIMS, r, false)};
  sn_instr *v[2] = {in[0].v[0], in[1].v[0]};
  int64_t n_batch = sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n,
          n_contract = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS).n;
  int place = both ? 0
                   : (int)(l ? n_batch
                             : sn_operand_shape(i, 0)->rank - n_contract); /* of the examples among the result's axes */
  int64_t dims[SN_MAX_RANK];
  if (i->shape->rank + 1 > SN_MAX_RANK) return;
  for (int k = 0; k <= i->shape->rank; k++)
    dims[k] = k < place ? i->shape->dims[k] : k == place ? x->size : i->shape->dims[k - 1];
  const sn_shape *s = sn_shape_array(sn_builder_arena(x->b), i->shape->type, i->shape->rank + 1, dims);
  if (s) done(out, moved(x, sn_batch_again(x, i, s, 2, v, 4, a), place, 0));
}
const sn_batch_rule sn_batch_dot = {.name = "dot", .fn = dot};

/* ---- convolution ---- */

/* Merges the examples (axis 0) into `axis` (counted without them), in front of it or behind it. */
static sn_instr *merged(sn_batch *x, sn_instr *v, int axis, bool in_front) {
  v = moved(x, v, 0, in_front ? axis : axis + 1);
  if (!v) return NULL;
  int64_t dims[SN_MAX_RANK];
  int rank = v->shape->rank - 1;
  for (int k = 0; k < rank; k++)
    dims[k] = k < axis    ? v->shape->dims[k]
              : k == axis ? v->shape->dims[k] * v->shape->dims[k + 1]
                          : v->shape->dims[k + 1];
  return sn_build_reshape(x->b, v, rank, dims);
}

/* The reverse, on the result. */
static sn_instr *parted(sn_batch *x, sn_instr *v, int axis, bool in_front) {
  if (!v) return NULL;
  int64_t dims[SN_MAX_RANK];
  int rank = v->shape->rank + 1;
  if (rank > SN_MAX_RANK) return NULL;
  for (int k = 0; k < rank; k++) dims[k] = k <= axis ? v->shape->dims[k] : v->shape->dims[k - 1];
  int64_t rest = v->shape->dims[axis] / (x->size ? x->size : 1);
  dims[axis] = in_front ? x->size : rest;
  dims[axis + 1] = in_front ? rest : x->size;
  return moved(x, sn_build_reshape(x->b, v, rank, dims), in_front ? axis : axis + 1, 0);
}

/* Input alone: the examples join its batch, as the faster part, so that batch groups stay whole. Kernel alone: they
 * join the output features likewise. Both: every example is a group of its own. */
static void convolution(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  const sn_conv_dims *c = sn_instr_conv(i);
  bool data = in[0].batched[0], kernel = in[1].batched[0];
  int64_t groups = sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT),
          batch_groups = sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT);
  sn_instr *v[2] = {in[0].v[0], in[1].v[0]};
  if (data && !kernel) {
    v[0] = merged(x, v[0], (int)c->input_batch, false);
    if (v[0]) done(out, parted(x, sn_batch_again(x, i, NULL, 2, v, 0, NULL), (int)c->output_batch, false));
    return;
  }
  if (kernel && !data) {
    v[1] = merged(x, v[1], (int)c->kernel_output_feature, false);
    if (v[1]) done(out, parted(x, sn_batch_again(x, i, NULL, 2, v, 0, NULL), (int)c->output_feature, false));
    return;
  }
  v[0] = merged(x, v[0], (int)(batch_groups > 1 ? c->input_batch : c->input_feature), true);
  v[1] = merged(x, v[1], (int)c->kernel_output_feature, true);
  sn_attr a = batch_groups > 1 ? sn_attr_int(SN_ATTR_BATCH_GROUP_COUNT, batch_groups * x->size)
                               : sn_attr_int(SN_ATTR_FEATURE_GROUP_COUNT, groups * x->size);
  if (v[0] && v[1]) done(out, parted(x, sn_batch_again(x, i, NULL, 2, v, 1, &a), (int)c->output_feature, true));
}
const sn_batch_rule sn_batch_convolution = {.name = "convolution", .fn = convolution};
