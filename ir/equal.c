/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Structural equality and hashes: instructions are compared position by position (order is the schedule), names and metadata do not count. */
#include "ir_internal.h"

#include <string.h>

/* Equal computations that call equal computations: recursion is as deep as calls nest, so it is bounded; beyond, "not equal" is the safe answer. */
#define MAX_DEPTH 64

typedef struct comparison {
  int flags;
  const sn_instr **pair;             /* id in a -> instruction in b */
  const sn_computation **comp_pair;  /* computation id in a -> computation in b; NULL: compare recursively */
} comparison;

static bool computation_equal(comparison *x, const sn_computation *a, const sn_computation *b, int depth);

static bool called_equal(comparison *x, const sn_instr *a, const sn_instr *b, int depth) {
  if (a->n_called != b->n_called) return false;
  for (uint16_t k = 0; k < a->n_called; k++) {
    const sn_computation *ca = a->called[k], *cb = b->called[k];
    if (ca == cb) continue;
    if (x->comp_pair ? x->comp_pair[ca->id] != cb : !computation_equal(x, ca, cb, depth + 1)) return false;
  }
  return true;
}

static bool instr_equal(comparison *x, const sn_instr *a, const sn_instr *b, int depth) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs || a->n_control != b->n_control) return false;
  if (!sn_shape_equal(a->shape, b->shape, x->flags)) return false;
  for (uint32_t k = 0; k < a->n_operands; k++) {
    if (x->pair[a->operands[k].def->id] != b->operands[k].def) return false;
  }
  for (uint16_t k = 0; k < a->n_attrs; k++) {
    if (!sn_attr_equal(&a->attrs[k], &b->attrs[k])) return false;
  }
  for (uint16_t k = 0; k < a->n_control; k++) {
    if (x->pair[a->control[k]->id] != b->control[k]) return false;
  }
  const char *ca = a->backend_config ? a->backend_config : "", *cb = b->backend_config ? b->backend_config : "";
  return strcmp(ca, cb) == 0 && called_equal(x, a, b, depth);
}

static bool computation_equal(comparison *x, const sn_computation *a, const sn_computation *b, int depth) {
  if (a == b) return true;
  if (depth > MAX_DEPTH || a->n_instrs != b->n_instrs || a->n_params != b->n_params || !a->root != !b->root) return false;
  const sn_instr *i = a->first, *j = b->first;
  for (; i && j; i = i->next, j = j->next) {
    x->pair[i->id] = j;
    if (!instr_equal(x, i, j, depth)) return false;
  }
  return !i && !j && (!a->root || x->pair[a->root->id] == b->root);
}

bool sn_computation_equal(const sn_computation *a, const sn_computation *b, int flags) {
  comparison x = {flags, sn_alloc_zero(a->module->n_ids + 1u, sizeof(sn_instr *)), NULL};
  bool equal = x.pair && computation_equal(&x, a, b, 0);
  sn_free(x.pair);
  return equal;
}

static bool ints_equal(sn_ints a, sn_ints b) { return a.n == b.n && (a.n == 0 || memcmp(a.v, b.v, (size_t)a.n * sizeof(int64_t)) == 0); }

static bool alias_lists_equal(int64_t na, const sn_alias *a, int64_t nb, const sn_alias *b) {
  if (na != nb) return false;
  for (int64_t i = 0; i < na; i++) {
    if (a[i].operand != b[i].operand || a[i].must != b[i].must || !ints_equal(a[i].output_index, b[i].output_index) ||
        !ints_equal(a[i].operand_index, b[i].operand_index)) {
      return false;
    }
  }
  return true;
}

/* The header's shapes, which are the entry's own unless they were set. */
static int64_t n_entry_params(const sn_module *m) { return m->entry_result || !m->entry ? m->n_entry_params : m->entry->n_params; }
static const sn_shape *entry_param(const sn_module *m, int64_t i) { return m->entry_result || !m->entry ? m->entry_params[i] : m->entry->params[i]->shape; }
static const sn_shape *entry_result(const sn_module *m) { return m->entry_result || !m->entry || !m->entry->root ? m->entry_result : m->entry->root->shape; }

static bool headers_equal(const sn_module *a, const sn_module *b) {
  if (a->is_scheduled != b->is_scheduled || a->replica_count != b->replica_count || a->num_partitions != b->num_partitions ||
      a->n_computations != b->n_computations || n_entry_params(a) != n_entry_params(b) || !entry_result(a) != !entry_result(b) ||
      a->alias_passthrough_params != b->alias_passthrough_params) {
    return false;
  }
  for (int64_t i = 0; i < n_entry_params(a); i++) {
    if (!sn_shape_equal(entry_param(a, i), entry_param(b, i), SN_EQ_LAYOUT)) return false;
  }
  if (entry_result(a) && !sn_shape_equal(entry_result(a), entry_result(b), SN_EQ_LAYOUT)) return false;
  return alias_lists_equal(a->n_aliases, a->aliases, b->n_aliases, b->aliases) && alias_lists_equal(a->n_donors, a->donors, b->n_donors, b->donors);
}

bool sn_module_equal(const sn_module *a, const sn_module *b, int flags) {
  if (!headers_equal(a, b)) return false;
  comparison x = {flags, sn_alloc_zero(a->n_ids + 1u, sizeof(sn_instr *)), sn_alloc_zero(a->n_comp_ids + 1u, sizeof(sn_computation *))};
  bool equal = x.pair && x.comp_pair;
  const sn_computation *c = a->first, *e = b->first;
  for (; c && e && equal; c = c->next, e = e->next) {
    equal = (c == a->entry) == (e == b->entry) && computation_equal(&x, c, e, 0);
    x.comp_pair[c->id] = e;
  }
  sn_free(x.pair);
  sn_free(x.comp_pair);
  return equal;
}

/* ---- hashes ---- */

static uint64_t computation_hash(const sn_computation *c, int depth) {
  uint64_t h = sn_hash_mix(0x53696e746572u, c->n_instrs);
  const sn_instr *first = c->first;
  if (!first || depth > 4) return h; /* deeper calls do not refine the hash; equality still looks at them */
  uint32_t *position = sn_alloc_zero(c->module->n_ids + 1u, sizeof *position);
  uint32_t at = 0;
  SN_FOR_INSTRS(i, c) {
    h = sn_shape_hash(i->shape, sn_hash_mix(h, (uint64_t)i->op));
    for (uint16_t k = 0; k < i->n_attrs; k++) h = sn_attr_hash(&i->attrs[k], h);
    if (position) {
      position[i->id] = at++;
      for (uint32_t k = 0; k < i->n_operands; k++) h = sn_hash_mix(h, position[i->operands[k].def->id]);
    }
    for (uint16_t k = 0; k < i->n_called; k++) h = sn_hash_mix(h, computation_hash(i->called[k], depth + 1));
  }
  sn_free(position);
  return h;
}

uint64_t sn_computation_hash(const sn_computation *c) { return computation_hash(c, 0); }

uint64_t sn_module_hash(const sn_module *m) {
  uint64_t h = 0;
  SN_FOR_COMPUTATIONS(c, m) h = sn_hash_mix(h, computation_hash(c, 4));
  return h;
}
