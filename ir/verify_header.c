/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The module's header against its entry: layouts of parameters and result, aliases, donors, counts.
 */
#include "infer.h"
#include "verify.h"

#include <inttypes.h>

static const char *header_text(sn_verifier *v, const sn_shape *s) {
  const char *t = s ? sn_shape_text(v->rule, s) : "nothing";
  return t ? t : "?";
}

static void header_entry(sn_verifier *v, const sn_computation *e) {
  const sn_module *m = v->m;
  bool layouts = (v->flags & SN_VERIFY_LAYOUTS) != 0;
  int eq = layouts ? SN_EQ_LAYOUT | SN_EQ_MINOR_TO_MAJOR_ONLY : 0;
  if (m->entry_params && m->n_entry_params != e->n_params) {
    sn_verify_fault(v, e->loc, SN_V_ENTRY_PARAMS,
                    "entry_computation_layout has %" PRId64
                    " parameters, the entry %%%s has %" PRIu32,
                    m->n_entry_params, e->name, e->n_params);
  }
  for (int64_t k = 0; m->entry_params && k < m->n_entry_params && k < e->n_params; k++) {
    const sn_shape *have = e->params[k]->shape, *want = m->entry_params[k];
    if (have && want && sn_shape_equal(have, want, eq)) continue;
    sn_verify_fault(v, e->params[k]->loc, SN_V_ENTRY_PARAMS,
                    "parameter %" PRId64 " is %s, entry_computation_layout says %s%s", k,
                    header_text(v, have), header_text(v, want), layouts ? " (layouts count)" : "");
  }
  const sn_shape *have = e->root->shape, *want = m->entry_result;
  if (!want || (have && sn_shape_equal(have, want, eq))) return;
  sn_verify_fault(v, e->root->loc, SN_V_ENTRY_RESULT,
                  "the result is %s, entry_computation_layout says %s%s", header_text(v, have),
                  header_text(v, want), layouts ? " (layouts count)" : "");
}

/* A key for (number, index path) in a map; false: out of memory. */
static bool header_once(sn_verifier *v, sn_map *seen, int64_t number, sn_ints index, bool *first) {
  int64_t *key = SN_NEW_N(v->rule, int64_t, index.n + 1);
  if (!key) return false;
  key[0] = number;
  for (int64_t i = 0; i < index.n; i++) key[i + 1] = index.v[i];
  size_t bytes = (size_t)(index.n + 1) * sizeof *key;
  uint64_t found;
  *first = !sn_map_get(seen, key, bytes, &found);
  return sn_map_set(seen, key, bytes, 1) == SN_OK;
}

static const sn_shape *header_param(const sn_verifier *v, const sn_alias *a) {
  const sn_computation *e = v->m->entry;
  return a->operand >= 0 && a->operand < e->n_params
             ? sn_verify_shape_at(e->params[a->operand]->shape, a->operand_index)
             : NULL;
}

static void header_alias(sn_verifier *v, const sn_alias *a, sn_map *params, sn_map *outputs) {
  const sn_computation *e = v->m->entry;
  const sn_shape *to = sn_verify_shape_at(e->root->shape, a->output_index),
                 *from = header_param(v, a);
  bool first = true, first_output = true;
  if (!to || !from || !sn_shape_equal(to, from, 0)) {
    sn_verify_fault(v, e->loc, SN_V_ALIAS,
                    "input_output_alias pairs %s of the result with %s of parameter %" PRId64,
                    to ? header_text(v, to) : "a missing element",
                    from ? header_text(v, from) : "a missing element", a->operand);
    return;
  }
  if (!header_once(v, params, a->operand, a->operand_index, &first) ||
      !header_once(v, outputs, 0, a->output_index, &first_output))
    sn_verify_no_memory(v);
  if (!first || !first_output) {
    sn_verify_fault(v, e->loc, SN_V_ALIAS,
                    "input_output_alias names %s twice (parameter %" PRId64 ")",
                    first ? "an element of the result" : "an element of a parameter", a->operand);
  }
}

static void header_donor(sn_verifier *v, const sn_alias *a, sn_map *params) {
  bool first = true;
  if (!header_param(v, a)) {
    sn_verify_fault(v, v->m->entry->loc, SN_V_DONOR,
                    "buffer_donor names a missing element of parameter %" PRId64, a->operand);
    return;
  }
  if (!header_once(v, params, a->operand, a->operand_index, &first)) sn_verify_no_memory(v);
  if (!first)
    sn_verify_fault(v, v->m->entry->loc, SN_V_DONOR,
                    "parameter %" PRId64 " is donated twice, or aliased and donated", a->operand);
}

static void header_aliases(sn_verifier *v) {
  sn_map *params = NULL, *outputs = NULL;
  if (sn_map_create(&params) == SN_OK && sn_map_create(&outputs) == SN_OK) {
    for (int64_t k = 0; k < v->m->n_aliases; k++)
      header_alias(v, &v->m->aliases[k], params, outputs);
    for (int64_t k = 0; k < v->m->n_donors; k++) header_donor(v, &v->m->donors[k], params);
  } else {
    sn_verify_no_memory(v);
  }
  sn_map_destroy(outputs);
  sn_map_destroy(params);
}

void sn_verify_header(sn_verifier *v) {
  if (v->m->replica_count < 1 || v->m->num_partitions < 1) {
    sn_verify_fault(v, SN_NOWHERE, SN_V_COUNTS,
                    "replica_count=%" PRId64 ", num_partitions=%" PRId64
                    ": each must be at least 1",
                    v->m->replica_count, v->m->num_partitions);
  }
  header_entry(v, v->m->entry);
  header_aliases(v);
  sn_arena_reset(v->rule);
}
