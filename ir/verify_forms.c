/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The form of each instruction: operands, order, uses, control edges, attributes and called
 * computations. */
#include "ir_internal.h"
#include "verify.h"

#include <inttypes.h>

/* Faults that sn_row_check reported, numbered: wrong counts of operands have a status of their own.
 */
static bool form_row(sn_verifier *v, const sn_instr *i) {
  if (sn_row_check(NULL, i->loc, i->name, i->op, i->n_operands, i->n_attrs, i->attrs,
                   i->n_called) == SN_OK)
    return true;
  sn_diag_clear(v->rule_diag);
  (void)sn_row_check(v->rule_diag, i->loc, i->name, i->op, i->n_operands, i->n_attrs, i->attrs,
                     i->n_called);
  for (size_t k = 0; k < sn_diag_stored(v->rule_diag); k++) {
    const sn_diagnostic *g = sn_diag_get(v->rule_diag, k);
    sn_verify_fault(v, i->loc, g->status == SN_ERR_SHAPE ? SN_V_ARITY : SN_V_ATTRIBUTES, "%%%s",
                    g->message);
    if (g->hint) sn_hint(v->d, "%s", g->hint);
  }
  if (sn_diag_stored(v->rule_diag) == 0)
    sn_verify_fault(v, i->loc, SN_V_ATTRIBUTES, "%%%s: operands or attributes of %s", i->name,
                    sn_opcode_text(i->op));
  return false;
}

static bool form_canonical(sn_verifier *v, const sn_instr *i) {
  const uint16_t *row = sn_ops[i->op].attrs;
  for (uint16_t k = 0; k < i->n_attrs; k++) {
    const sn_attr *a = &i->attrs[k];
    while (*row != SN_ATTR_END && (sn_attr_id)(*row & ~SN_ATTR_MUST) != a->id) row++;
    if (*row == SN_ATTR_END || sn_attr_is_default(a)) {
      sn_verify_fault(v, i->loc, SN_V_CANONICAL,
                      "%%%s: %s= stands twice, out of order, or says its default", i->name,
                      sn_attrs[a->id].text);
      return false;
    }
    row++;
  }
  return true;
}

static bool form_called(sn_verifier *v, const sn_instr *i) {
  bool ok = true;
  for (uint16_t k = 0; k < i->n_called; k++) {
    if (sn_verify_owns(v, i->called[k])) continue;
    sn_verify_fault(v, i->loc, SN_V_CALLED, "%%%s: called computation %d %s", i->name, k,
                    i->called[k] ? "is not of this module" : "is missing");
    ok = false;
  }
  return ok;
}

static bool form_operand(sn_verifier *v, const sn_instr *i, uint32_t k) {
  const sn_use *u = &i->operands[k];
  if (!u->def || !sn_verify_seen(v, u->def) || u->def->parent != i->parent) {
    sn_verify_fault(v, i->loc, SN_V_OPERAND, "operand %" PRIu32 " of %%%s %s%s", k, i->name,
                    u->def ? "is not in its computation: %" : "is missing",
                    u->def ? u->def->name : "");
    return false;
  }
  if (u->user != i || u->index != k)
    sn_verify_fault(v, i->loc, SN_V_USES, "operand slot %" PRIu32 " of %%%s names another user", k,
                    i->name);
  if (v->position[u->def->id] < v->position[i->id]) return true;
  sn_verify_fault(v, i->loc, SN_V_ORDER, "%%%s uses %%%s, which stands %s", i->name, u->def->name,
                  u->def == i ? "for itself" : "behind it");
  sn_hint(v->d, "operands come first");
  return true;
}

static void form_control(sn_verifier *v, const sn_instr *i) {
  for (uint16_t k = 0; k < i->n_control; k++) {
    const sn_instr *p = i->control[k];
    if (!p || p == i || !sn_verify_seen(v, p) || p->parent != i->parent) {
      sn_verify_fault(
          v, i->loc, SN_V_CONTROL,
          "%%%s: a control predecessor must be another instruction of its computation, found %s%s",
          i->name, p ? "%" : "nothing", p ? p->name : "");
    } else if (v->position[p->id] > v->position[i->id]) {
      sn_verify_fault(v, i->loc, SN_V_ORDER,
                      "%%%s must run after its control predecessor %%%s, which stands behind it",
                      i->name, p->name);
    }
  }
}

static bool form_shape(sn_verifier *v, const sn_instr *i) {
  if (!i->shape) {
    sn_verify_fault(v, i->loc, SN_V_SHAPE, "%%%s has no shape", i->name);
    return false;
  }
  if (sn_shape_check(NULL, i->loc, i->shape) == SN_OK) return true;
  sn_diag_clear(v->rule_diag);
  (void)sn_shape_check(v->rule_diag, i->loc, i->shape);
  const char *why =
      sn_diag_stored(v->rule_diag) ? sn_diag_get(v->rule_diag, 0)->message : "shape out of range";
  sn_verify_fault(v, i->loc, SN_V_SHAPE, "%%%s: %s", i->name, why);
  return false;
}

static void form_instr(sn_verifier *v, const sn_instr *i) {
  if ((unsigned)i->op >= SN_OP_COUNT) {
    sn_verify_fault(v, i->loc, SN_V_OPCODE, "%%%s has the opcode %d, which does not exist", i->name,
                    (int)i->op);
    return;
  }
  bool ok = form_row(v, i);
  ok = ok && form_canonical(v, i);
  ok = form_called(v, i) && ok;
  for (uint32_t k = 0; k < i->n_operands; k++) ok = form_operand(v, i, k) && ok;
  form_control(v, i);
  v->shape_ok[i->id] = form_shape(v, i);
  v->form_ok[i->id] = ok && v->shape_ok[i->id];
}

/* Every use in the list is a slot that names the instruction. Together with the total (each slot
 * names one instruction, and no list holds a slot twice since prev links are right) the lists are
 * exactly the slots. */
static uint64_t form_uses(sn_verifier *v, const sn_instr *i) {
  uint32_t n = 0;
  const sn_use *prev = NULL;
  SN_FOR_USES(u, i) {
    bool slot = u->user && sn_verify_seen(v, u->user) && u->index < u->user->n_operands &&
                &u->user->operands[u->index] == u;
    if (u->def != i || u->prev != prev || !slot || n == i->n_uses) {
      sn_verify_fault(v, i->loc, SN_V_USES,
                      "the list of uses of %%%s is broken after %" PRIu32 " uses", i->name, n);
      return n;
    }
    prev = u;
    n++;
  }
  if (n != i->n_uses || i->last_use != prev) {
    sn_verify_fault(v, i->loc, SN_V_USES, "%%%s counts %" PRIu32 " uses, its list holds %" PRIu32,
                    i->name, i->n_uses, n);
  }
  return n;
}

void sn_verify_forms(sn_verifier *v) {
  uint64_t slots = 0, uses = 0, before;
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) {
      form_instr(v, i);
      slots += i->n_operands;
    }
  }
  before = v->n_faults;
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) uses += form_uses(v, i);
  }
  if (uses != slots && v->n_faults == before) {
    sn_verify_fault(v, SN_NOWHERE, SN_V_USES, "there are %" PRIu64 " operands but %" PRIu64 " uses",
                    slots, uses);
  }
}
