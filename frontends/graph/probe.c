/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Custom calls: any, and those that let one look inside a running program. */
#include "graph_internal.h"

static sn_tensor custom_call(sn_loc at, sn_graph *g, const char *target, const sn_shape *s, int n, const sn_tensor *in,
                             bool has_effect) {
  sn_attr attrs[2] = {sn_attr_string(SN_ATTR_CUSTOM_CALL_TARGET, target),
                      sn_attr_int(SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, has_effect)};
  return sn_op_at(at, g, SN_OP_CUSTOM_CALL, s, n, in, 2, attrs);
}

sn_tensor sn_custom_call_at(sn_loc at, sn_graph *g, const char *target, sn_type t, int rank, const int64_t *dims, int n,
                            const sn_tensor *in, bool has_effect) {
  if (!sn_graph_open(g, at)) return sn_graph_empty(g);
  const sn_shape *s = sn_shape_array(g->module->arena, t, rank, dims);
  if (!s) {
    sn_graph_no_memory(g);
    return sn_graph_empty(g);
  }
  return custom_call(at, g, target, s, n, in, has_effect);
}

/* The call gives a token-like empty array nobody reads: the value itself goes on unhindered, so derivatives and fusions
 * do not see the call. */
static sn_tensor look(sn_loc at, sn_tensor x, const char *target, const char *label) {
  sn_graph *g = x.graph;
  if (!x.instr || !sn_graph_open(g, at)) return x;
  const sn_shape *s = sn_shape_array(g->module->arena, SN_TYPE_PRED, 1, (int64_t[]){0});
  if (!s) {
    sn_graph_no_memory(g);
    return sn_graph_empty(g);
  }
  sn_tensor call = custom_call(at, g, target, s, 1, &x, true);
  if (call.instr && sn_instr_set_backend_config(call.instr, label ? label : "", true) != SN_OK) sn_graph_no_memory(g);
  return x;
}

sn_tensor sn_print_at(sn_loc at, sn_tensor x, const char *label) { return look(at, x, "sinter.print", label); }
sn_tensor sn_probe_at(sn_loc at, sn_tensor x, const char *label) { return look(at, x, "sinter.probe", label); }
