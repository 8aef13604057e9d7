/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <math.h>

#include "graph_internal.h"

/* For comparing by total order: -0 becomes 0 and every NaN the one positive NaN, so that equal means equal and NaN
 * comes last. */
static sn_instr *canonical(sn_graph *g, sn_instr *x) {
  sn_builder *b = &g->b;
  sn_type t = x->shape->type;
  if (!sn_type_is_float(t)) return x;
  sn_instr *zero = sn_build_scalar(b, t, 0), *nan = sn_build_scalar(b, t, NAN);
  x = sn_build_select(b, sn_build_compare(b, SN_DIRECTION_EQ, x, zero), zero, x);
  return sn_build_select(b, sn_build_compare(b, SN_DIRECTION_NE, x, x), nan, x);
}

/* Parameters are pairs, left and right of each operand; the first pair decides. */
static sn_computation *comparator(sn_graph *g, int n, sn_instr *const *xs, bool descending) {
  if (!sn_frame_push(g, SN_FRAME_SCALAR, "compare")) return NULL;
  sn_instr *first[2] = {NULL, NULL};
  for (int k = 0; k < n; k++) {
    const sn_shape *s = sn_shape_scalar(g->module->arena, xs[k]->shape->type);
    for (int side = 0; side < 2 && s; side++) {
      sn_instr *p = sn_frame_input(g, s);
      if (!k) first[side] = p;
    }
  }
  sn_type t = xs[0]->shape->type;
  sn_instr *l = first[0] ? canonical(g, first[0]) : NULL, *r = first[1] ? canonical(g, first[1]) : NULL;
  sn_instr *ordered[2] = {descending ? r : l, descending ? l : r};
  sn_attr attrs[2] = {sn_attr_int(SN_ATTR_DIRECTION, SN_DIRECTION_LT),
                      sn_attr_int(SN_ATTR_COMPARE_TYPE, SN_COMPARE_TYPE_TOTALORDER)};
  sn_instr *root =
      l && r ? sn_build(&g->b, SN_OP_COMPARE, NULL, 2, ordered, sn_type_is_float(t) ? 2 : 1, attrs, 0, NULL) : NULL;
  sn_computation *c = g->frame->comp;
  if (root) sn_computation_set_root(c, root);
  sn_frame_pop(g);
  return root ? c : NULL;
}

void sn_sort_by_at(sn_loc at, int n, const sn_tensor *xs, int axis, bool descending, sn_tensor *out) {
  sn_graph *g = n > 0 ? xs[0].graph : NULL;
  xs = sn_graph_list(g, n, xs);
  for (int k = 0; k < n; k++) out[k] = sn_graph_empty(g);
  sn_builder *b = sn_graph_open(g, at);
  sn_instr **list = b ? SN_NEW_N(g->arena, sn_instr *, n) : NULL;
  if (!list) {
    if (b) sn_graph_no_memory(g);
    return;
  }
  for (int k = 0; k < n; k++)
    if (!(list[k] = sn_graph_use(g, at, xs[k]))) return;
  int a = sn_graph_axis(g, at, "sort", axis, list[0]->shape->rank);
  if (a < 0) return;
  if (sn_type_is_complex(list[0]->shape->type)) {
    sn_graph_fail(g, at, SN_ERR_TYPE, "sort: %s has no order", sn_graph_shape_text(g, list[0]->shape));
    return;
  }
  sn_computation *c = comparator(g, n, list, descending);
  if (!c) return;
  sn_attr attrs[2] = {sn_attr_ints(SN_ATTR_DIMENSIONS, 1, (int64_t[]){a}), sn_attr_int(SN_ATTR_IS_STABLE, 1)};
  sn_graph_elements(g, sn_build(b, SN_OP_SORT, NULL, (uint32_t)n, list, 2, attrs, 1, &c), n, out);
}

sn_tensor sn_sort_at(sn_loc at, sn_tensor x, int axis, bool descending) {
  sn_tensor out;
  sn_sort_by_at(at, 1, &x, axis, descending, &out);
  return out;
}

sn_tensor sn_argsort_at(sn_loc at, sn_tensor x, int axis, bool descending) {
  if (!x.instr) return x;
  int a = sn_graph_axis(x.graph, at, "argsort", axis, sn_tensor_rank(x));
  if (a < 0) return sn_graph_empty(x.graph);
  sn_tensor in[2] = {x, sn_iota_at(at, x.graph, SN_TYPE_S32, sn_tensor_rank(x), sn_tensor_dims(x), a)}, out[2];
  sn_sort_by_at(at, 2, in, a, descending, out);
  return out[1];
}

void sn_topk_at(sn_loc at, sn_tensor x, int64_t k, sn_tensor *values, sn_tensor *indices) {
  sn_attr attrs[2] = {sn_attr_int(SN_ATTR_K, k), sn_attr_int(SN_ATTR_LARGEST, 1)};
  sn_tensor out[2];
  sn_op_tuple_at(at, x.graph, SN_OP_TOPK, NULL, 1, &x, 2, attrs, 0, NULL, 2, out);
  *values = out[0];
  *indices = out[1];
}
