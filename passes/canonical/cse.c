/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Common subexpressions: of several equal pure instructions of a computation the first stays.
 *
 * One walk in order with a hash table, so operands are already the survivors when their user is looked at, and equality of operands is equality of pointers.
 * Never merged: what has an effect or control edges, what carries a remat mark (recomputing was the point: merging would undo it), and instructions that
 * differ in sharding, layout or frontend attributes. Called computations count as equal when they are one: `dedup` makes them so. */
#include "passes_internal.h"

#include <string.h>

static bool mergeable(const sn_instr *i, const bool *effects) {
  if (i->n_control || i->op == SN_OP_PARAMETER || sn_instr_effect(i, effects)) return false;
  if (!sn_op_has(i->op, (sn_trait)(SN_T_PURE | SN_T_CALLS)) && i->op != SN_OP_CUSTOM_CALL) return false;
  if (sn_op_has(i->op, (sn_trait)(SN_T_START | SN_T_DONE | SN_T_BARRIER | SN_T_TOKEN))) return false;
  return !sn_instr_frontend(i, "sinter.remat");
}

static bool swapped(const sn_instr *i) {
  return sn_op_has(i->op, SN_T_COMMUTES) && i->n_operands == 2 && sn_instr_operand(i, 0)->id > sn_instr_operand(i, 1)->id;
}

static const sn_instr *operand_at(const sn_instr *i, uint32_t k) { return sn_instr_operand(i, swapped(i) ? 1 - k : k); }

static uint64_t hash_instr(const sn_instr *i) {
  uint64_t h = sn_shape_hash(i->shape, sn_hash_mix((uint64_t)i->op, i->n_operands));
  for (uint32_t k = 0; k < i->n_operands; k++) h = sn_hash_mix(h, operand_at(i, k)->id);
  for (uint16_t k = 0; k < i->n_attrs; k++) h = sn_attr_hash(&i->attrs[k], h);
  for (uint16_t k = 0; k < i->n_called; k++) h = sn_hash_mix(h, i->called[k]->id);
  return h;
}

static bool same_text(const char *a, const char *b) { return a == b || (a && b && strcmp(a, b) == 0); }

static bool same_notes(const sn_instr *a, const sn_instr *b) {
  if (a->sharding != b->sharding || a->n_frontend != b->n_frontend || !same_text(a->backend_config, b->backend_config)) return false;
  for (uint16_t k = 0; k < a->n_frontend; k++) {
    if (!same_text(a->frontend[k].key, b->frontend[k].key) || !same_text(a->frontend[k].value, b->frontend[k].value)) return false;
  }
  return true;
}

static bool same_instr(const sn_instr *a, const sn_instr *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs || a->n_called != b->n_called) return false;
  if (!sn_shape_equal(a->shape, b->shape, SN_EQ_LAYOUT) || !same_notes(a, b)) return false;
  for (uint32_t k = 0; k < a->n_operands; k++) {
    if (operand_at(a, k) != operand_at(b, k)) return false;
  }
  for (uint16_t k = 0; k < a->n_called; k++) {
    if (a->called[k] != b->called[k]) return false;
  }
  for (uint16_t k = 0; k < a->n_attrs; k++) {
    if (!sn_attr_equal(&a->attrs[k], &b->attrs[k])) return false;
  }
  return true;
}

typedef struct slot { uint64_t hash; sn_instr *i; } slot;

static sn_status cse_computation(sn_pass_ctx *pc, sn_computation *c, const bool *effects) {
  size_t n = 16;
  while (n < 2 * (size_t)c->n_instrs) n *= 2;
  slot *table = SN_NEW_N(pc->scratch, slot, n);
  if (!table) return sn_out_of_memory(pc->diag, n * sizeof *table);
  SN_FOR_INSTRS_SAFE(i, c) {
    if (!mergeable(i, effects)) continue;
    uint64_t h = hash_instr(i);
    size_t at = (size_t)h & (n - 1);
    while (table[at].i && !(table[at].hash == h && same_instr(table[at].i, i))) at = (at + 1) & (n - 1);
    if (!table[at].i) {
      table[at] = (slot){h, i};
      continue;
    }
    if (!sn_pass_may(pc)) continue;
    sn_pass_remark(pc, SN_DONE, SN_REASON_EQUAL, i, table[at].i, 0, NULL, NULL);
    SN_TRY(sn_pass_forward(pc, i, table[at].i));
    sn_instr_erase(i);
  }
  return SN_OK;
}

sn_status sn_pass_cse(sn_pass_ctx *pc, sn_module *m) {
  bool *effects = sn_effects(pc->scratch, m);
  if (!effects) return sn_out_of_memory(pc->diag, m->n_comp_ids);
  SN_FOR_COMPUTATIONS(c, m) SN_TRY(cse_computation(pc, c, effects));
  return SN_OK;
}
