/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reading instructions: attributes with their defaults, effects, constants, reducers. */
#include "ir_internal.h"

const sn_attr *sn_instr_attr(const sn_instr *i, sn_attr_id id) {
  for (uint16_t k = 0; k < i->n_attrs; k++) {
    if (i->attrs[k].id == id) return &i->attrs[k];
  }
  return NULL;
}

int64_t sn_instr_int(const sn_instr *i, sn_attr_id id) {
  const sn_attr *a = sn_instr_attr(i, id);
  if (a) return a->u.i;
  int64_t dflt = sn_attrs[id].dflt;
  return dflt == SN_REQUIRED || dflt == SN_OPTIONAL ? 0 : dflt;
}

double sn_instr_f64(const sn_instr *i, sn_attr_id id) {
  const sn_attr *a = sn_instr_attr(i, id);
  return a ? a->u.f : 0;
}

sn_ints sn_instr_ints(const sn_instr *i, sn_attr_id id) {
  const sn_attr *a = sn_instr_attr(i, id);
  return a ? a->u.ints : (sn_ints){0, NULL};
}

const char *sn_instr_str(const sn_instr *i, sn_attr_id id) {
  const sn_attr *a = sn_instr_attr(i, id);
  return a ? a->u.str.s : NULL;
}

sn_array *sn_instr_literal(const sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_LITERAL);
  return a ? a->u.literal : NULL;
}

const sn_window *sn_instr_window(const sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_WINDOW);
  return a ? a->u.window : NULL;
}

const sn_conv_dims *sn_instr_conv(const sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_DIM_LABELS);
  return a ? a->u.conv : NULL;
}

static uint32_t count_users(const sn_instr *i, uint32_t most) {
  uint32_t n = 0;
  for (const sn_use *u = i->first_use; u && n < most; u = u->next) {
    bool first = true; /* of this user: no earlier slot of it holds i */
    for (uint32_t k = 0; k < u->index && first; k++) first = u->user->operands[k].def != i;
    n += first;
  }
  return n;
}

uint32_t sn_instr_n_users(const sn_instr *i) { return count_users(i, UINT32_MAX); }
bool sn_instr_has_users(const sn_instr *i, uint32_t n) { return count_users(i, n) >= n; }

/* Calls nest as deep as the module says; beyond this an effect is assumed, which is always safe. */
#define MAX_CALL_DEPTH 64

static bool effect_at(const sn_instr *i, int depth) {
  if (sn_op_has(i->op, (sn_trait)(SN_T_EFFECT | SN_T_COLLECTIVE))) return true;
  if (i->op == SN_OP_CUSTOM_CALL) return sn_instr_bool(i, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT);
  if (!sn_op_has(i->op, SN_T_CALLS)) return false;
  if (depth == MAX_CALL_DEPTH) return true;
  for (uint16_t k = 0; k < i->n_called; k++) {
    SN_FOR_INSTRS(j, i->called[k]) {
      if (effect_at(j, depth + 1)) return true;
    }
  }
  return false;
}

bool sn_instr_has_effect(const sn_instr *i) { return effect_at(i, 0); }

bool sn_instr_constant_f64(const sn_instr *i, double *out) {
  while (i->op == SN_OP_BROADCAST) i = sn_instr_operand(i, 0);
  if (i->op != SN_OP_CONSTANT || !sn_shape_is_scalar(i->shape) || sn_type_is_complex(i->shape->type)) return false;
  sn_array *l = sn_instr_literal(i);
  if (!l) return false;
  *out = sn_load_f64(i->shape->type, sn_array_data(l));
  return true;
}

bool sn_computation_is_binary(const sn_computation *c, sn_opcode *op) {
  const sn_instr *r = c->root;
  if (c->n_params != 2 || c->n_instrs != 3 || !r || r->n_operands != 2 || !sn_op_has(r->op, SN_T_ELTWISE)) return false;
  const sn_instr *x = sn_instr_operand(r, 0), *y = sn_instr_operand(r, 1);
  bool straight = x == c->params[0] && y == c->params[1];
  bool swapped = x == c->params[1] && y == c->params[0] && sn_op_has(r->op, SN_T_COMMUTES);
  if (!straight && !swapped) return false;
  *op = r->op;
  return true;
}
