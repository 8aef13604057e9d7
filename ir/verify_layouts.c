/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Layouts, after layout assignment. An absent layout is the default one: descending.
 *
 * Ops that walk their operands and their result in step cannot reorder, so a rank they share has
 * one order. Others (products, transposes, copies, reshapes, …) read by index, so any order goes.
 */
#include "infer.h"
#include "verify.h"

#include <inttypes.h>

/* Beside elementwise ops. */
static const sn_opcode keeps_layout[] = {
    SN_OP_CLAMP, SN_OP_CONCATENATE,   SN_OP_DYNAMIC_SLICE, SN_OP_DYNAMIC_UPDATE_SLICE, SN_OP_MAP,
    SN_OP_PAD,   SN_OP_REDUCE_WINDOW, SN_OP_REVERSE,       SN_OP_SELECT_AND_SCATTER,   SN_OP_SLICE,
    SN_OP_SORT,  SN_OP_CHOLESKY,      SN_OP_ALL_REDUCE,    SN_OP_OPT_BARRIER,
};

static bool layouts_keeps(sn_opcode op) {
  if (sn_op_has(op, SN_T_ELTWISE)) return true;
  for (size_t k = 0; k < sizeof keeps_layout / sizeof keeps_layout[0]; k++) {
    if (keeps_layout[k] == op) return true;
  }
  return false;
}

static const char *layouts_text(sn_verifier *v, const sn_shape *s) {
  sn_str t = {NULL, 0, 0, false};
  sn_shape_print(&t, s, SN_SHAPE_LAYOUT);
  const char *copy = t.failed ? NULL : sn_arena_string_n(v->rule, t.data, t.n);
  sn_str_finish(&t);
  return copy ? copy : "?";
}

/* Orders of two arrays; E(n), memory spaces and tiles do not count. Dimensions may differ. */
static bool layouts_same_order(const sn_shape *a, const sn_shape *b) {
  for (int k = 0; k < a->rank; k++) {
    int64_t x = a->layout ? a->layout->minor_to_major[k] : a->rank - 1 - k,
            y = b->layout ? b->layout->minor_to_major[k] : b->rank - 1 - k;
    if (x != y) return false;
  }
  return true;
}

/* The result array that goes with operand k: of a tuple the k-th, where there is one for each. */
static const sn_shape *layouts_result(const sn_instr *i, uint32_t k) {
  if (!sn_shape_is_tuple(i->shape)) return i->shape;
  return k < (uint32_t)i->shape->n_elements ? i->shape->elements[k] : NULL;
}

static void layouts_operands(sn_verifier *v, const sn_instr *i) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_shape *from = sn_operand_shape(i, k), *to = layouts_result(i, k);
    if (!sn_shape_is_array(from) || !sn_shape_is_array(to) || from->rank != to->rank ||
        layouts_same_order(from, to))
      continue;
    sn_verify_fault(v, i->loc, SN_V_KEEPS_LAYOUT,
                    "%s %%%s cannot reorder: operand %" PRIu32 " is %s, the result %s",
                    sn_opcode_text(i->op), i->name, k, layouts_text(v, from), layouts_text(v, to));
    sn_hint(v->d, "insert a copy that changes the layout");
  }
}

static void layouts_pass(sn_verifier *v, const sn_instr *i, const char *what, const sn_shape *from,
                         const sn_shape *to) {
  if (sn_shape_equal(from, to, SN_EQ_LAYOUT | SN_EQ_MINOR_TO_MAJOR_ONLY)) return;
  if (!sn_shape_equal(from, to, 0)) return; /* told by the shapes already */
  sn_verify_fault(v, i->loc, SN_V_PASSES_LAYOUT, "%s %%%s hands on %s: %s becomes %s",
                  sn_opcode_text(i->op), i->name, what, layouts_text(v, from), layouts_text(v, to));
}

static void layouts_call(sn_verifier *v, const sn_instr *i) {
  const sn_computation *c = i->called[0];
  for (uint32_t k = 0; k < i->n_operands && k < c->n_params; k++)
    layouts_pass(v, i, "an argument", sn_operand_shape(i, k), c->params[k]->shape);
  layouts_pass(v, i, "the result", c->root->shape, i->shape);
}

static void layouts_loop(sn_verifier *v, const sn_instr *i) {
  const sn_shape *state = sn_operand_shape(i, 0);
  for (uint16_t k = 0; k < 2; k++) {
    if (i->called[k]->n_params == 1)
      layouts_pass(v, i, "the state", state, i->called[k]->params[0]->shape);
  }
  layouts_pass(v, i, "the state", i->called[1]->root->shape, i->shape);
  layouts_pass(v, i, "the state", state, i->shape);
}

static void layouts_branches(sn_verifier *v, const sn_instr *i) {
  for (uint16_t k = 0; k < i->n_called && k + 1u < i->n_operands; k++) {
    if (i->called[k]->n_params == 1)
      layouts_pass(v, i, "an argument", sn_operand_shape(i, k + 1u),
                   i->called[k]->params[0]->shape);
    layouts_pass(v, i, "a branch's result", i->called[k]->root->shape, i->shape);
  }
}

static void layouts_tuple(sn_verifier *v, const sn_instr *i) {
  for (uint32_t k = 0;
       k < i->n_operands && sn_shape_is_tuple(i->shape) && k < (uint32_t)i->shape->n_elements;
       k++) {
    layouts_pass(v, i, "an element", sn_operand_shape(i, k), i->shape->elements[k]);
  }
}

static void layouts_element(sn_verifier *v, const sn_instr *i) {
  int64_t k = sn_instr_int(i, SN_ATTR_INDEX);
  const sn_shape *s = sn_operand_shape(i, 0);
  if (sn_shape_is_tuple(s) && k >= 0 && k < s->n_elements)
    layouts_pass(v, i, "an element", s->elements[k], i->shape);
}

static void layouts_instr(sn_verifier *v, const sn_instr *i) {
  static const struct {
    sn_opcode op;
    void (*check)(sn_verifier *, const sn_instr *);
  } rows[] = {
      {SN_OP_CALL, layouts_call},   {SN_OP_FUSION, layouts_call},
      {SN_OP_WHILE, layouts_loop},  {SN_OP_CONDITIONAL, layouts_branches},
      {SN_OP_TUPLE, layouts_tuple}, {SN_OP_GET_TUPLE_ELEMENT, layouts_element},
  };
  if (layouts_keeps(i->op)) layouts_operands(v, i);
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k].op == i->op) rows[k].check(v, i);
  }
}

static bool layouts_ready(const sn_verifier *v, const sn_instr *i) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!v->shape_ok[sn_instr_operand(i, k)->id]) return false;
  }
  for (uint16_t k = 0; k < i->n_called; k++) {
    const sn_computation *c = i->called[k];
    if (!v->shape_ok[c->root->id]) return false;
    for (uint32_t p = 0; p < c->n_params; p++) {
      if (!v->shape_ok[c->params[p]->id]) return false;
    }
  }
  return true;
}

void sn_verify_layouts(sn_verifier *v) {
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) {
      if (!v->form_ok[i->id] || !layouts_ready(v, i)) continue;
      layouts_instr(v, i);
      sn_arena_reset(v->rule);
    }
  }
}
