/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls become the instructions of what they call; so do maps over whole arrays whose function is elementwise.
 *
 * Computations are visited callees first, so a body is flat before it is copied and each call is looked at once. Calls that multiply (f calls g twice, g calls
 * h twice, …) could grow the module without bound: a budget of instructions stops that with a remark. Calls inside fusions stay: a fusion is a decision. */
#include "passes_internal.h"

enum { GROWTH = 32, SLACK = 200000 }; /* most instructions: GROWTH x those at the start + SLACK */

static bool may_inline(const sn_instr *i) {
  return i->op == SN_OP_CALL && !i->called[0]->execution_thread;
}

static sn_status inline_call(sn_pass_ctx *pc, sn_instr *call) {
  sn_list args = {0};
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < call->n_operands && s == SN_OK; k++) s = sn_list_push(&args, sn_instr_operand(call, k));
  sn_instr *root, *before = call->prev;
  if (s == SN_OK) s = sn_inline_before(pc, call, call->called[0], args.v, &root);
  sn_list_finish(&args);
  SN_TRY(s);
  for (uint16_t k = 0; k < call->n_control; k++) { /* what the call waited for, its first instructions wait for */
    for (sn_instr *i = before ? before->next : call->parent->first; i != call; i = i->next) {
      if (sn_instr_has_effect(i)) SN_TRY(sn_instr_add_control(i, call->control[k]));
    }
  }
  SN_TRY(sn_pass_forward(pc, call, root));
  sn_instr_erase(call);
  return SN_OK;
}

/* ---- maps ---- */

static bool map_is_plain(const sn_instr *i) {
  const sn_computation *f = i->called[0];
  if (i->op != SN_OP_MAP || !sn_shape_is_static(i->shape)) return false;
  SN_FOR_INSTRS(j, f) {
    if (j->op == SN_OP_PARAMETER || j->op == SN_OP_CONSTANT) continue;
    if (!sn_op_has(j->op, SN_T_ELTWISE) || j->n_called || !sn_shape_is_scalar(j->shape)) return false;
  }
  return true;
}

/* The scalar instructions of the function, each over the whole array. */
static sn_status inline_map(sn_pass_ctx *pc, sn_instr *map) {
  const sn_computation *f = map->called[0];
  sn_arena *a = map->parent->module->arena;
  sn_map *made;
  SN_TRY(sn_map_create(&made));
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, map);
  sn_status s = SN_OK;
  sn_instr *at = NULL;
  for (const sn_instr *i = f->first; i && s == SN_OK; i = i->next) {
    sn_instr *xs[8];
    for (uint32_t k = 0; k < i->n_operands && k < 8; k++) xs[k] = sn_map_get_u64(made, sn_instr_operand(i, k)->id);
    const sn_shape *shape = sn_shape_with_type(a, sn_shape_plain(a, map->shape), i->shape->type);
    if (!shape) s = SN_ERR_MEMORY;
    else if (i->op == SN_OP_PARAMETER) at = sn_instr_operand(map, (uint32_t)sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER));
    else if (i->op == SN_OP_CONSTANT) at = sn_build_broadcast_scalar(&b, sn_build_constant(&b, sn_instr_literal(i)), shape);
    else at = sn_build(&b, i->op, shape, i->n_operands, xs, i->n_attrs, i->attrs, 0, NULL);
    if (s == SN_OK) s = at ? sn_map_set_u64(made, i->id, at) : b.status;
  }
  sn_instr *root = s == SN_OK ? sn_map_get_u64(made, f->root->id) : NULL;
  sn_map_destroy(made);
  SN_TRY(s);
  SN_TRY(root->op == SN_OP_PARAMETER || root->parent != map->parent || root->n_uses ? sn_pass_forward(pc, map, root) : sn_pass_replace(pc, map, root));
  sn_instr_erase(map);
  return SN_OK;
}

sn_status sn_pass_inline(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  int64_t total = 0;
  SN_FOR_COMPUTATIONS(c, m) total += c->n_instrs;
  int64_t budget = GROWTH * total + SLACK;
  SN_FOR_COMPUTATIONS(c, m) { /* callees first */
    if (c->id < g.n && g.in_fusion[c->id]) continue;
    SN_FOR_INSTRS_SAFE(i, c) {
      bool call = may_inline(i);
      if (!call && !(i->op == SN_OP_MAP && map_is_plain(i))) continue;
      if (total + i->called[0]->n_instrs > budget) {
        sn_pass_remark(pc, SN_REFUSED, SN_REASON_BUDGET, i, NULL, 0, NULL, "inlining would multiply the module");
        continue;
      }
      if (!sn_pass_may(pc)) return SN_OK;
      total += i->called[0]->n_instrs;
      SN_TRY(call ? inline_call(pc, i) : inline_map(pc, i));
    }
  }
  return SN_OK;
}
