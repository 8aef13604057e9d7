/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives of sort, topk, scan, and the collectives. */
#include <string.h>

#include "diff_internal.h"

#define X sn_op0(i)

/* ---- sort: a permutation found from the values; derivatives follow it ---- */

/* i's comparator with pairs of parameters for further operands, which it does not look at. */
static sn_computation *comparator(sn_diff *d, sn_instr *i, int n_more, sn_instr *const *more) {
  sn_graph *g = d->g;
  sn_frame *f = sn_frame_push(g, SN_FRAME_SCALAR, "compare");
  if (!f) return NULL;
  sn_computation *c = f->comp;
  int n = 2 * (int)i->n_operands, m;
  sn_instr **in = SN_NEW_N(g->arena, sn_instr *, n + 2 * n_more + 1);
  if (!in) sn_graph_no_memory(g);
  for (int k = 0; in && k < n + 2 * n_more && sn_diff_ok(d); k++) {
    const sn_shape *of = k < n ? sn_operand_shape(i, (uint32_t)k / 2) : more[(k - n) / 2]->shape,
                   *s = sn_shape_scalar(g->module->arena, of->type);
    in[k] = s ? sn_frame_input(g, s) : NULL;
  }
  sn_instr **r = in && sn_diff_ok(d) ? sn_diff_inline(g, i->called[0], n, in, &m) : NULL;
  if (r) sn_computation_set_root(c, r[0]);
  sn_frame_pop(g);
  return r ? c : NULL;
}

/* Sorts i's operands again, carrying more along: elements n… of the result are those. */
static sn_instr *sort_with(sn_diff *d, sn_instr *i, int n_more, sn_instr *const *more) {
  int n = (int)i->n_operands;
  sn_instr **all = SN_NEW_N(d->g->arena, sn_instr *, n + n_more);
  sn_computation *c = all ? comparator(d, i, n_more, more) : NULL;
  if (!c) {
    if (!all) sn_graph_no_memory(d->g);
    return NULL;
  }
  for (int k = 0; k < n + n_more; k++) all[k] = k < n ? sn_instr_operand(i, (uint32_t)k) : more[k - n];
  return sn_build(d->b, SN_OP_SORT, NULL, (uint32_t)(n + n_more), all, i->n_attrs, i->attrs, 1, &c);
}

static void sort_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  int64_t axis = sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0];
  const sn_shape *s = X->shape;
  sn_instr *where = sn_build_iota(d->b, SN_TYPE_S32, s->rank, s->dims, axis),
           *sorted = where ? sort_with(d, i, 1, &where) : NULL;
  sn_instr *from = sorted ? sn_build_get(d->b, sorted, i->n_operands) : NULL;
  for (uint32_t k = 0; k < i->n_operands && sn_diff_ok(d);
       k++) { /* sorting by where each came from puts the cotangents back there */
    if (!ct[k] || !sn_diff_wants(d, i, k)) continue;
    sn_tensor in[2] = {sn_graph_tensor(d->g, from), sn_graph_tensor(d->g, ct[k])}, out[2];
    sn_sort_by_at(i->loc, 2, in, (int)axis, false, out);
    sn_diff_give(d, i, k, out[1].instr);
  }
}

static void sort_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  int n = (int)i->n_operands, m = 0;
  sn_instr **t = SN_NEW_N(d->g->arena, sn_instr *, n + 1);
  if (!t) sn_graph_no_memory(d->g);
  for (int k = 0; t && k < n; k++)
    if (sn_diff_tangent(d, i, (uint32_t)k)) t[m++] = sn_diff_tangent(d, i, (uint32_t)k);
  sn_instr *sorted = t && m ? sort_with(d, i, m, t) : NULL;
  for (int k = 0, j = n; sorted && k < n; k++)
    if (sn_diff_tangent(d, i, (uint32_t)k)) out[k] = sn_build_get(d->b, sorted, j++);
}
static void sort_active(sn_diff *d, sn_instr *i, bool *out) {
  for (uint32_t k = 0; k < i->n_operands; k++) out[k] = sn_diff_wants(d, i, k);
}
const sn_diff_rule sn_diff_sort = {.name = "sort", .vjp = sort_vjp, .jvp = sort_jvp, .active = sort_active};

/* ---- topk: a gather of its own indices ---- */

static sn_instr *topk_gather(sn_diff *d, sn_instr *i, sn_instr *x) {
  sn_instr *indices = sn_build_get(d->b, i, 1);
  return indices ? sn_take_along_at(i->loc, sn_graph_tensor(d->g, x), sn_graph_tensor(d->g, indices), -1).instr : NULL;
}
static void topk_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *gather = ct[0] ? topk_gather(d, i, X) : NULL;
  if (gather) sn_diff_give(d, i, 0, sn_d_gather_back(d, gather, ct[0]));
}
static void topk_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0);
  if (t) out[0] = topk_gather(d, i, t);
}
const sn_diff_rule sn_diff_topk = {.name = "topk", .vjp = topk_vjp, .jvp = topk_jvp};

/* ---- scan: slices, then carries; the loop it stands for ---- */

static void scan_body(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  sn_instr *i = ctx;
  int carries = (int)sn_instr_int(i, SN_ATTR_NUM_CARRIES), m = n - carries, n_roots, ys = n_out - carries;
  sn_instr **args = SN_NEW_N(g->arena, sn_instr *, n + 1);
  if (!args) {
    sn_graph_no_memory(g);
    return;
  }
  for (int k = 0; k < n; k++)
    args[k < carries ? m + k : k - carries] = in[k].instr; /* here carries come first, there last */
  sn_instr **r = sn_diff_inline(g, i->called[0], n, args, &n_roots);
  for (int k = 0; r && k < n_out; k++) out[k] = sn_graph_tensor(g, r[k < carries ? ys + k : k - carries]);
}

bool sn_parts_scan(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out) {
  int carries = (int)sn_instr_int(i, SN_ATTR_NUM_CARRIES), m = (int)i->n_operands - carries, n = sn_diff_elements(i),
      ys = n - carries;
  int axis = (int)sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0];
  sn_tensor *t = SN_NEW_N(d->g->arena, sn_tensor, (int)i->n_operands + n + 1), *res = t ? t + i->n_operands : NULL;
  if (!t) {
    sn_graph_no_memory(d->g);
    return false;
  }
  for (int k = 0; k < carries; k++) t[k] = sn_graph_tensor(d->g, in[m + k]);
  for (int k = 0; k < m; k++) t[carries + k] = sn_move_axis_at(i->loc, sn_graph_tensor(d->g, in[k]), axis, 0);
  sn_scan_spec s = {.n_carry = carries,
                    .n_xs = m,
                    .n_ys = ys,
                    .init = t,
                    .xs = t + carries,
                    .reverse = sn_instr_bool(i, SN_ATTR_IS_REVERSE)};
  if (m == 0) {
    sn_diff_no_rule(d, i, "any");
    return false;
  }
  sn_scan_at(i->loc, d->g, &s, scan_body, i, res, res + carries);
  for (int k = 0; k < n && sn_diff_ok(d); k++)
    out[k] = k < ys ? sn_move_axis_at(i->loc, res[carries + k], 0, axis).instr : res[k - ys].instr;
  return sn_diff_ok(d);
}
static void scan_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) { sn_parts_vjp(d, i, ct, sn_parts_scan); }
static void scan_jvp(sn_diff *d, sn_instr *i, sn_instr **out) { sn_parts_jvp(d, i, out, sn_parts_scan); }
const sn_diff_rule sn_diff_scan = {.name = "scan", .vjp = scan_vjp, .jvp = scan_jvp};

/* ---- collectives: linear in one operand ---- */

static void linear_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0);
  if (i->n_operands != 1)
    sn_diff_no_rule(d, i, "forward");
  else if (t)
    *out = sn_d_again(d, i, 1, &t);
}

static bool sums(const sn_instr *i) {
  sn_opcode op;
  return i->n_operands == 1 && sn_computation_is_binary(i->called[0], &op) && op == SN_OP_ADD;
}
/* Each device's value reaches every device of its group: so do the cotangents, summed. */
static void all_reduce_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (!sums(i))
    sn_diff_no_rule(d, i, "reverse");
  else
    sn_diff_give(d, i, 0, sn_d_again(d, i, 1, ct));
}
static void all_reduce_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  if (!sums(i))
    sn_diff_no_rule(d, i, "forward");
  else
    linear_jvp(d, i, out);
}
const sn_diff_rule sn_diff_all_reduce = {.name = "all_reduce", .vjp = all_reduce_vjp, .jvp = all_reduce_jvp};

static void all_gather_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  if (i->n_operands != 1) {
    sn_diff_no_rule(d, i, "reverse");
    return;
  }
  sn_computation *add = sn_build_reducer(d->b, SN_OP_ADD, ct[0]->shape->type);
  if (add) sn_diff_give(d, i, 0, sn_build(d->b, SN_OP_REDUCE_SCATTER, X->shape, 1, ct, i->n_attrs, i->attrs, 1, &add));
}
const sn_diff_rule sn_diff_all_gather = {.name = "all_gather", .vjp = all_gather_vjp, .jvp = linear_jvp};

static void collective_permute_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_ints pairs = sn_instr_ints(i, SN_ATTR_SOURCE_TARGET_PAIRS);
  int64_t *back = SN_NEW_N(d->g->arena, int64_t, pairs.n + 1);
  sn_attr *attrs = SN_NEW_N(d->g->arena, sn_attr, i->n_attrs + 1);
  if (!back || !attrs || i->n_operands != 1) {
    if (i->n_operands != 1)
      sn_diff_no_rule(d, i, "reverse");
    else
      sn_graph_no_memory(d->g);
    return;
  }
  for (int64_t k = 0; k + 1 < pairs.n; k += 2) back[k] = pairs.v[k + 1], back[k + 1] = pairs.v[k];
  for (int k = 0; k < i->n_attrs; k++)
    attrs[k] = i->attrs[k].id == SN_ATTR_SOURCE_TARGET_PAIRS ? sn_attr_ints(SN_ATTR_SOURCE_TARGET_PAIRS, pairs.n, back)
                                                             : i->attrs[k];
  sn_diff_give(d, i, 0, sn_build(d->b, i->op, NULL, 1, ct, i->n_attrs, attrs, 0, NULL));
}
const sn_diff_rule sn_diff_collective_permute = {
    .name = "collective_permute", .vjp = collective_permute_vjp, .jvp = linear_jvp};
