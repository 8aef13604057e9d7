/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shapes: what each op's rule gives, against what is stated. */
#include "infer.h"
#include "verify.h"

#include <inttypes.h>

static sn_constraint shapes_constraint(sn_status s) {
  switch (s) {
    case SN_ERR_TYPE:
      return SN_V_TYPE;
    case SN_ERR_ATTRIBUTE:
      return SN_V_ATTRIBUTE_VALUE;
    case SN_ERR_VERIFY:
      return SN_V_SIGNATURE;
    case SN_ERR_OVERFLOW:
    case SN_ERR_UNSUPPORTED:
      return SN_V_LIMIT;
    default:
      return SN_V_OPERAND_SHAPE;
  }
}

/* The rule again, to hear what it says: only faults pay for messages. */
static void shapes_forward(sn_verifier *v, const sn_infer *in) {
  const sn_shape *s;
  sn_diag_clear(v->rule_diag);
  bool told =
      v->n_faults <
      SN_VERIFY_TOLD; /* texts of large tuples in messages of many faults would be quadratic */
  sn_status st = sn_infer_rule(told ? v->rule_diag : NULL, in, &s);
  const sn_diagnostic *g = sn_diag_stored(v->rule_diag) ? sn_diag_get(v->rule_diag, 0) : NULL;
  if (st == SN_ERR_MEMORY) {
    sn_verify_no_memory(v);
    return;
  }
  sn_verify_fault(v, in->loc, shapes_constraint(st), "%s", g ? g->message : sn_status_text(st));
  if (g && g->hint) sn_hint(v->d, "%s", g->hint);
}

static void shapes_compare(sn_verifier *v, const sn_instr *i, const sn_infer *in,
                           const sn_shape *got) {
  if (sn_shape_equal(got, i->shape, 0)) return;
  bool constant = i->op == SN_OP_CONSTANT;
  sn_verify_fault(v, i->loc, constant ? SN_V_LITERAL : SN_V_STATED_SHAPE,
                  "%s %%%s is stated as %s, but %s gives %s", sn_opcode_text(i->op), i->name,
                  sn_infer_text(in, i->shape),
                  constant        ? "its literal"
                  : i->n_operands ? "its operands' shape"
                                  : "the op",
                  sn_infer_text(in, got));
  if (sn_shape_equal(got, i->shape, SN_EQ_IGNORE_TYPE))
    sn_hint(v->d, "the dimensions agree, the element type does not");
}

static void shapes_aliases(sn_verifier *v, const sn_instr *i, const sn_infer *in) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  for (int64_t k = 0; a && k < a->u.aliases.n; k++) {
    const sn_alias *al = &a->u.aliases.v[k];
    const sn_shape *to = sn_verify_shape_at(i->shape, al->output_index);
    bool operand = al->operand >= 0 && al->operand < i->n_operands;
    const sn_shape *from =
        operand ? sn_verify_shape_at(sn_operand_shape(i, (uint32_t)al->operand), al->operand_index)
                : NULL;
    if (to && from && sn_shape_equal(to, from, 0)) continue;
    sn_verify_fault(
        v, i->loc, SN_V_OPERAND_ALIAS,
        "%%%s: output_to_operand_aliasing pairs %s of the result with %s of operand %" PRId64,
        i->name, to ? sn_infer_text(in, to) : "a missing element",
        from ? sn_infer_text(in, from) : "a missing element", al->operand);
  }
}

static void shapes_instr(sn_verifier *v, const sn_instr *i) {
  const sn_shape **operands = SN_NEW_N(v->rule, const sn_shape *, (size_t)i->n_operands + 1),
                 *got = NULL;
  if (!operands) {
    sn_verify_no_memory(v);
    return;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) operands[k] = sn_operand_shape(i, k);
  sn_infer in = {.op = i->op,
                 .loc = i->loc,
                 .name = i->name,
                 .n_operands = i->n_operands,
                 .operands = operands,
                 .n_attrs = i->n_attrs,
                 .attrs = i->attrs,
                 .n_called = i->n_called,
                 .called = i->called,
                 .given = i->shape,
                 .arena = v->rule,
                 .replica_count = v->m->replica_count,
                 .num_partitions = v->m->num_partitions};
  sn_status s = sn_infer_rule(NULL, &in, &got);
  if (s == SN_ERR_MEMORY)
    sn_verify_no_memory(v);
  else if (s != SN_OK)
    shapes_forward(v, &in);
  else
    shapes_compare(v, i, &in, got);
  shapes_aliases(v, i, &in);
}

/* An instruction whose operand has no sound shape is not looked at: the operand's fault is told
 * already. */
static bool shapes_ready(const sn_verifier *v, const sn_instr *i) {
  if (!v->form_ok[i->id]) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!v->shape_ok[sn_instr_operand(i, k)->id]) return false;
  }
  return true;
}

void sn_verify_shapes(sn_verifier *v) {
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) {
      if (!shapes_ready(v, i)) continue;
      shapes_instr(v, i);
      sn_arena_reset(v->rule);
    }
  }
}
