/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Custom calls say in which layouts they take and give arrays (LAPACK's are column by column); everything around them has default layouts. Copies stand between the
 * two. Last of all, when no pass looks at values any more: to them such a copy changes nothing. */
#include "../passes_internal.h"

static sn_instr *copied(sn_builder *b, sn_instr *x, const sn_layout *l) {
  const sn_shape *s = sn_shape_with_layout(sn_builder_arena(b), x->shape, l);
  if (!s) b->status = SN_ERR_MEMORY;
  return s ? sn_build(b, SN_OP_COPY, s, 1, &x, 0, NULL, 0, NULL) : NULL;
}

static bool same_order(const sn_shape *x, const sn_shape *y) { return sn_shape_equal(x, y, SN_EQ_LAYOUT | SN_EQ_MINOR_TO_MAJOR_ONLY | SN_EQ_IGNORE_DYNAMIC); }

static sn_status fix_operands(sn_pass_ctx *pc, sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, i);
  for (uint32_t k = 0; a && k < i->n_operands && (int64_t)k < a->u.shapes.n; k++) {
    sn_instr *x = sn_instr_operand(i, k);
    const sn_shape *wanted = a->u.shapes.v[k];
    if (!sn_shape_is_array(x->shape) || !sn_shape_is_array(wanted) || same_order(x->shape, wanted)) continue;
    sn_instr *c = copied(&b, x, wanted->layout);
    if (!c) return b.status;
    sn_instr_set_operand(i, k, c);
    pc->changed = true;
  }
  return SN_OK;
}

/* Behind x, which lies in memory as it came: the same value in default layout, for all who read it. */
static sn_status fix_result(sn_pass_ctx *pc, sn_instr *x) {
  sn_builder b;
  if (sn_layout_is_default(x->shape->layout) || x->parent->root == x) return SN_OK;
  sn_builder_init_at(&b, pc->diag, x);
  b.before = x->next;
  sn_instr *c = copied(&b, x, NULL);
  if (!c) return b.status;
  sn_instr_replace_uses(x, c);
  pc->changed = true;
  return SN_OK;
}

static sn_status fix_results(sn_pass_ctx *pc, sn_instr *i) {
  sn_list gets = {0};
  sn_status s = SN_OK;
  if (sn_shape_is_array(i->shape)) return fix_result(pc, i);
  SN_FOR_USES(u, i) {
    if (u->user->op == SN_OP_GET_TUPLE_ELEMENT && s == SN_OK) s = sn_list_push(&gets, u->user);
  }
  while (gets.n > 0 && s == SN_OK) {
    sn_instr *g = sn_list_pop(&gets);
    const sn_shape *leaf = i->shape->elements[sn_instr_int(g, SN_ATTR_INDEX)];
    if (!sn_shape_is_array(leaf)) continue;
    sn_instr_set_shape(g, leaf);
    s = fix_result(pc, g);
  }
  sn_list_finish(&gets);
  return s;
}

sn_status sn_pass_custom_call_layout(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op != SN_OP_CUSTOM_CALL || !sn_instr_attr(i, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS)) continue;
      SN_TRY(fix_operands(pc, i));
      SN_TRY(fix_results(pc, i));
    }
  }
  return SN_OK;
}
