/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A softmax keeps one array for its derivative, not two. Derivatives by rule read the exponentials e as well as the probabilities p = e / s; both are as large as the
 * scores. Since p is stored for the product behind it,
 *
 *   e  ->  p * broadcast(s)      in what reads e but the sum s and the quotient p
 *
 * needs s alone, a value a row. Only where e = exp(x - a value a row): s is then at least one, or what is not finite stays so. One more rounding: class formula. */
#include "../passes_internal.h"

static const sn_instr *through_reshapes(const sn_instr *i) {
  while (i->op == SN_OP_RESHAPE) i = sn_instr_operand(i, 0);
  return i;
}

/* The reduction that `i` repeats along the last dimensions; NULL: it is none. */
static const sn_instr *row_value(const sn_instr *i, sn_opcode op) {
  if (i->op != SN_OP_BROADCAST) return NULL;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return NULL;
  }
  const sn_instr *r = through_reshapes(sn_instr_operand(i, 0));
  sn_opcode found;
  if (r->op == SN_OP_MAXIMUM && op == SN_OP_MAXIMUM) r = through_reshapes(sn_instr_operand(r, 0)); /* max(reduce-max, -inf) */
  if (r->op != SN_OP_REDUCE || r->n_operands != 2 || !sn_computation_is_binary(r->called[0], &found) || found != op) return NULL;
  return r;
}

/* Does a product read it, at once or under another name? Then it is stored in any case. */
static bool feeds_product(const sn_instr *i) {
  SN_FOR_USES(u, i) {
    const sn_instr *x = u->user;
    while ((x->op == SN_OP_RESHAPE || x->op == SN_OP_TRANSPOSE) && x->n_uses == 1) x = x->first_use->user;
    if (x->op == SN_OP_DOT) return true;
  }
  return false;
}

static bool is_softmax(const sn_instr *p) {
  if (p->op != SN_OP_DIVIDE || !sn_type_is_float(p->shape->type) || sn_type_bits(p->shape->type) < 32) return false;
  const sn_instr *e = sn_instr_operand(p, 0), *s = row_value(sn_instr_operand(p, 1), SN_OP_ADD);
  if (!s || e->op != SN_OP_EXPONENTIAL || sn_instr_operand(s, 0) != e) return false;
  const sn_instr *x = sn_instr_operand(e, 0);
  return x->op == SN_OP_SUBTRACT && row_value(sn_instr_operand(x, 1), SN_OP_MAXIMUM) && feeds_product(p);
}

static sn_status reuse(sn_pass_ctx *pc, sn_instr *p) {
  sn_instr *e = sn_instr_operand(p, 0), *sum = sn_instr_operand(p, 1), *again = NULL;
  sn_instr *s = (sn_instr *)row_value(sum, SN_OP_ADD);
  for (sn_use *u = e->first_use, *next; u; u = next) {
    next = u->next;
    sn_instr *user = u->user;
    if (user == p || user == s || user == again) continue;
    if (!again) {
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, p);
      b.before = p->next;
      again = sn_build_binary(&b, SN_OP_MULTIPLY, p, sum);
      if (!again) return b.status == SN_ERR_MEMORY ? sn_out_of_memory(pc->diag, sizeof *again) : b.status;
      sn_number numbers[] = {{"bytes", (double)sn_shape_bytes(e->shape)}};
      sn_pass_remark(pc, SN_DONE, SN_REASON_RECOMPUTED, e, p, 1, numbers, NULL);
    }
    sn_instr_set_operand(user, u->index, again);
    pc->changed = true;
  }
  return SN_OK;
}

/* Only readers behind p can read it. What was made on the way has no position, and is no softmax. */
static bool other_readers_stand_behind(const sn_instr *p, const uint32_t *position) {
  const sn_instr *e = sn_instr_operand(p, 0), *s = row_value(sn_instr_operand(p, 1), SN_OP_ADD);
  SN_FOR_USES(u, e) {
    if (u->user != p && u->user != s && position[u->user->id] < position[p->id]) return false;
  }
  return true;
}

sn_status sn_pass_softmax_reuse(sn_pass_ctx *pc, sn_module *m) {
  uint32_t *position = SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1);
  if (!position) return sn_out_of_memory(pc->diag, m->n_ids * sizeof *position);
  SN_FOR_COMPUTATIONS(c, m) {
    uint32_t at = 0;
    SN_FOR_INSTRS(i, c) position[i->id] = at++;
    SN_FOR_INSTRS_SAFE(i, c) {
      if (!is_softmax(i) || !sn_instr_has_users(sn_instr_operand(i, 0), 3)) continue;
      if (!other_readers_stand_behind(i, position) || !sn_pass_may(pc)) continue;
      SN_TRY(reuse(pc, i));
    }
  }
  return SN_OK;
}
