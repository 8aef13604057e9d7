/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Layouts leave the inside of the module: until layout assignment values are just arrays, and whoever wrote the module (XLA's dumps give each shape its layout)
 * has no say in what is a copy. The entry's own layouts are a promise to the caller: they are kept in the module's header.
 *
 * A bitcast means something only with layouts, so it becomes what it does to values: transpose to physical order, reshape, transpose back. Copies go.
 * Shapes that a foreign callee was promised (custom calls with layout constraints, infeed, receives) keep their layouts. */
#include "passes_internal.h"

static bool keeps_layout(const sn_instr *i) {
  return (i->op == SN_OP_CUSTOM_CALL && sn_instr_attr(i, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS)) || i->op == SN_OP_INFEED || i->op == SN_OP_RECV ||
         i->op == SN_OP_RECV_DONE || sn_instr_bool(i, SN_ATTR_CONSTRAIN_LAYOUT);
}

/* ---- the entry's promise ---- */

static sn_status fix_entry(sn_module *m) {
  const sn_computation *c = m->entry;
  sn_arena *a = m->arena;
  if (m->entry_params || !c) return SN_OK;
  const sn_shape **v = SN_NEW_N(a, const sn_shape *, c->n_params + 1);
  if (!v) return SN_ERR_MEMORY;
  for (uint32_t k = 0; k < c->n_params; k++) v[k] = c->params[k]->shape;
  m->entry_params = v;
  m->n_entry_params = c->n_params;
  m->entry_result = c->root->shape;
  return SN_OK;
}

/* ---- bitcasts ---- */

/* Logical dimensions from major to minor. */
static void physical_order(const sn_shape *s, int64_t *order) {
  for (int k = 0; k < s->rank; k++) order[k] = s->layout ? s->layout->minor_to_major[s->rank - 1 - k] : k;
}

static sn_instr *bitcast_value(sn_builder *b, const sn_instr *i) {
  sn_instr *x = sn_instr_operand(i, 0);
  int64_t from[SN_MAX_RANK], to[SN_MAX_RANK], dims[SN_MAX_RANK], back[SN_MAX_RANK];
  if (!sn_shape_is_array(i->shape) || !sn_shape_is_array(x->shape) || sn_type_bits(i->shape->type) != sn_type_bits(x->shape->type)) return NULL;
  physical_order(x->shape, from);
  physical_order(i->shape, to);
  for (int k = 0; k < i->shape->rank; k++) {
    dims[k] = i->shape->dims[to[k]];
    back[to[k]] = k;
  }
  sn_instr *y = sn_build_transpose(b, x, from);
  y = sn_build_reshape(b, y, i->shape->rank, dims);
  y = sn_build_transpose(b, y, back);
  return y && y->shape->type != i->shape->type ? sn_build_bitcast_convert(b, y, i->shape->type) : y;
}

static sn_status replace_bitcast(sn_pass_ctx *pc, sn_instr *i) {
  sn_builder b;
  if (i->op != SN_OP_BITCAST || i->n_control || !sn_shape_is_static(i->shape)) return SN_OK;
  sn_builder_init_at(&b, pc->diag, i);
  sn_instr *by = bitcast_value(&b, i);
  if (!by) return b.status;
  SN_TRY(by == sn_instr_operand(i, 0) ? sn_pass_forward(pc, i, by) : sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

static sn_status drop_copy(sn_pass_ctx *pc, sn_instr *i) {
  if (i->op != SN_OP_COPY || i->n_control) return SN_OK;
  SN_TRY(sn_pass_forward(pc, i, sn_instr_operand(i, 0)));
  sn_instr_erase(i);
  return SN_OK;
}

sn_status sn_pass_strip_layouts(sn_pass_ctx *pc, sn_module *m) {
  if (!sn_pass_may(pc)) return SN_OK;
  SN_TRY(fix_entry(m));
  SN_FOR_COMPUTATIONS(c, m) { /* while the layouts that bitcasts compare still stand, and the copies that changed them */
    SN_FOR_INSTRS_SAFE(i, c) SN_TRY(replace_bitcast(pc, i));
  }
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) SN_TRY(drop_copy(pc, i));
  }
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      if (keeps_layout(i)) continue;
      const sn_shape *s = sn_shape_plain(m->arena, i->shape);
      if (!s) return sn_out_of_memory(pc->diag, sizeof *s);
      if (s == i->shape) continue;
      sn_instr_set_shape(i, s);
      pc->changed = true;
    }
  }
  return SN_OK;
}
