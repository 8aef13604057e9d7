/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reshapes and transposes sink through elementwise work, so that they meet others they cancel with and chains keep the shape in which a product made them:
 *
 *   f(reshape(x), reshape(y), broadcast(c))  =  reshape(f(x, y, broadcast'(c)))
 *
 * A reshape sinks when every other operand is a reshape from the same shape, a stretched scalar, or a broadcast that can be written in the old shape (dimensions
 * regrouped whole). A transpose sinks only where at least two equal ones become one. One walk in order: what sank reaches its users later in the walk. */
#include "../passes_internal.h"

#include <string.h>

#include "rules.h"

static bool same_dims(const sn_shape *a, const sn_shape *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static bool sinks_through(const sn_instr *i) {
  if (!sn_op_has(i->op, SN_T_ELTWISE) || !sn_op_has(i->op, SN_T_PURE) || i->n_operands == 0 || i->n_operands > 4 || i->n_control || i->n_called) return false;
  if (i->sharding || sn_instr_frontend(i, "sinter.remat") || !sn_shape_is_static(i->shape)) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!same_dims(sn_operand_shape(i, k), i->shape) && !sn_shape_is_scalar(sn_operand_shape(i, k))) return false;
  }
  return true;
}

static bool moves_with(const sn_instr *x, const sn_instr *leader) {
  if (x->op != leader->op || !same_dims(sn_operand_shape(x, 0), sn_operand_shape(leader, 0))) return false;
  return x->op == SN_OP_RESHAPE || sn_attr_equal(sn_instr_attr(x, SN_ATTR_DIMENSIONS), sn_instr_attr(leader, SN_ATTR_DIMENSIONS));
}

/* The broadcast w in shape `to`, whose dimensions are w's regrouped. Only looks when b is NULL (any non-NULL result: it can be done). */
static sn_instr *broadcast_in(sn_builder *b, sn_instr *w, const sn_shape *to) {
  sn_instr *x = sn_in(w, 0);
  sn_ints d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  int fw[2 * SN_MAX_RANK + 2], ft[2 * SN_MAX_RANK + 2], n = 0, next = 0;
  int64_t dims[SN_MAX_RANK], at[SN_MAX_RANK];
  if (sn_shape_elements(w->shape) == 0) return NULL;
  int groups = sn_factor_reshape(w->shape, to, fw, ft);
  for (int g = 0; g < groups; g++) {
    int named = 0;
    for (int k = fw[g]; k < fw[g + 1]; k++) {
      if (!sn_has_dim(d, k)) continue;
      if (next >= d.n || d.v[next] != k) return NULL; /* x's dimensions must stand in the order of w's */
      next++;
      named++;
    }
    if (named && named != fw[g + 1] - fw[g]) return NULL;
    for (int k = ft[g]; named && k < ft[g + 1]; k++) {
      at[n] = k;
      dims[n++] = to->dims[k];
    }
  }
  if (groups < 0 || next != d.n) return NULL;
  if (!b) return w;
  return sn_build_broadcast(b, sn_build_reshape(b, x, n, dims), to->rank, to->dims, n, at);
}

static sn_instr *broadcast_before(sn_builder *b, sn_instr *w, const sn_instr *leader) {
  if (leader->op == SN_OP_RESHAPE) return broadcast_in(b, w, sn_operand_shape(leader, 0));
  if (!b) return w; /* any broadcast can be written in another order of dimensions */
  sn_ints p = sn_instr_ints(leader, SN_ATTR_DIMENSIONS), d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  int64_t dims[SN_MAX_RANK];
  for (int64_t k = 0; k < d.n; k++) dims[k] = p.v[d.v[k]];
  const sn_shape *to = sn_operand_shape(leader, 0);
  return sn_build_broadcast(b, sn_in(w, 0), to->rank, to->dims, (int)d.n, dims);
}

/* The operand in the shape before the leader's move; b NULL: only whether it has one. */
static sn_instr *operand_before(sn_builder *b, sn_instr *x, const sn_instr *leader) {
  if (sn_shape_is_scalar(x->shape)) return x;
  if (moves_with(x, leader)) return sn_in(x, 0);
  if (x->op != SN_OP_BROADCAST) return NULL;
  if (sn_is_splat(x)) return b ? sn_build_broadcast_scalar(b, sn_in(x, 0), sn_operand_shape(leader, 0)) : x;
  return broadcast_before(b, x, leader);
}

static const sn_instr *leader_of(const sn_instr *i) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_in(i, k);
    if ((x->op == SN_OP_RESHAPE && !sn_shape_is_scalar(x->shape) && sn_operand_shape(x, 0)->rank) || x->op == SN_OP_TRANSPOSE) return x;
  }
  return NULL;
}

static bool worthwhile(const sn_instr *i, const sn_instr *leader) {
  int n_moves = 0, n_last_use = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *x = sn_in(i, k);
    if (!operand_before(NULL, x, leader)) return false;
    if (!moves_with(x, leader)) continue;
    n_moves++;
    n_last_use += sn_one_use(x) || !sn_instr_has_users(x, 2);
  }
  if (leader->op == SN_OP_TRANSPOSE) return n_moves >= 2 && n_last_use >= 2;
  return n_last_use == n_moves;
}

static sn_status sink(sn_pass_ctx *pc, sn_instr *i, const sn_instr *leader) {
  sn_instr *xs[4];
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, i);
  for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = operand_before(&b, sn_in(i, k), leader);
  const sn_shape *s = sn_shape_plain(sn_builder_arena(&b), sn_operand_shape(leader, 0));
  s = s ? sn_shape_with_type(sn_builder_arena(&b), s, i->shape->type) : NULL;
  sn_instr *y = s ? sn_build(&b, i->op, s, i->n_operands, xs, i->n_attrs, i->attrs, 0, NULL) : NULL;
  sn_instr *by = NULL;
  if (y && leader->op == SN_OP_RESHAPE) by = sn_build_reshape(&b, y, i->shape->rank, i->shape->dims);
  else if (y) by = sn_build_transpose(&b, y, sn_instr_ints(leader, SN_ATTR_DIMENSIONS).v);
  SN_TRY(b.status);
  if (!by) return sn_out_of_memory(pc->diag, sizeof *s);
  SN_TRY(sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

sn_status sn_pass_reshape_mover(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id]) continue;
    SN_FOR_INSTRS_SAFE(i, c) {
      const sn_instr *leader = sinks_through(i) ? leader_of(i) : NULL;
      if (!leader || !worthwhile(i, leader) || !sn_pass_may(pc)) continue;
      SN_TRY(sink(pc, i, leader));
    }
  }
  return SN_OK;
}
