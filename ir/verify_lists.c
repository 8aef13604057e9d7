/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Lists, ids, names, parameters, roots: what all other stages walk over. */
#include "verify.h"

#include <inttypes.h>
#include <string.h>

static bool list_take_id(sn_verifier *v, const sn_instr *i, uint32_t position) {
  if (i->id >= v->m->n_ids || v->position[i->id]) {
    sn_verify_fault(v, i->loc, SN_V_ID, "%%%s has the id %" PRIu32 "%s", i->name, i->id,
                    i->id >= v->m->n_ids ? ", which is out of range" : " of another instruction");
    return false;
  }
  v->position[i->id] = position;
  return true;
}

static void list_walk(sn_verifier *v, const sn_computation *c) {
  uint32_t n = 0;
  const sn_instr *prev = NULL;
  SN_FOR_INSTRS(i, c) {
    n++;
    if (i->parent != c || i->prev != prev) {
      sn_verify_fault(v, i->loc, SN_V_LIST, "%%%s stands in %%%s but its links say otherwise",
                      i->name, c->name);
      return;
    }
    if (!list_take_id(v, i, n)) return; /* the list may be a ring */
    prev = i;
  }
  if (c->last != prev || c->n_instrs != n) {
    sn_verify_fault(v, c->loc, SN_V_LIST,
                    "%%%s counts %" PRIu32 " instructions, its list holds %" PRIu32, c->name,
                    c->n_instrs, n);
  }
}

/* One open-addressed table for all computations: a map of copied keys would cost more than all
 * other checks together. */
typedef struct list_name {
  const sn_instr *i;
  uint64_t hash;
} list_name;

static void list_name_add(sn_verifier *v, list_name *table, size_t mask, const sn_instr *i) {
  uint64_t hash = sn_hash(i->name, strlen(i->name), i->parent->id);
  size_t at = (size_t)hash & mask;
  for (; table[at].i; at = (at + 1) & mask) {
    const sn_instr *other = table[at].i;
    if (table[at].hash != hash || other->parent != i->parent || strcmp(other->name, i->name) != 0)
      continue;
    sn_verify_fault(v, i->loc, SN_V_INSTR_NAME, "%%%s is the name of two instructions of %%%s",
                    i->name, i->parent->name);
    return;
  }
  table[at] = (list_name){i, hash};
}

static void list_names(sn_verifier *v) {
  size_t size = 16;
  while (size < 2 * (size_t)v->m->n_ids)
    size *= 2; /* ids are unique by now: none more than these */
  list_name *table = SN_NEW_N(v->arena, list_name, size);
  if (!table) {
    sn_verify_no_memory(v);
    return;
  }
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) list_name_add(v, table, size - 1, i);
  }
}

static void list_params(sn_verifier *v, const sn_computation *c) {
  uint32_t n = 0;
  SN_FOR_INSTRS(i, c) {
    if (i->op != SN_OP_PARAMETER) continue;
    int64_t k = sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER);
    n++;
    if (k < 0 || k >= c->n_params || c->params[k] != i) {
      sn_verify_fault(v, i->loc, SN_V_PARAMETERS,
                      "parameter(%" PRId64 ") %%%s: the number is taken or out of range in %%%s", k,
                      i->name, c->name);
    }
  }
  for (uint32_t k = 0; k < c->n_params; k++) {
    if (!c->params[k]) {
      sn_verify_fault(v, c->loc, SN_V_PARAMETERS,
                      "%%%s has %" PRIu32 " parameters but no parameter(%" PRIu32 ")", c->name, n,
                      k);
      sn_hint(v->d, "parameters are numbered from 0 without gaps");
    } else if (!sn_verify_seen(v, c->params[k]) || c->params[k]->parent != c) {
      sn_verify_fault(v, c->loc, SN_V_PARAMETERS,
                      "parameter(%" PRIu32 ") of %%%s is not in its list", k, c->name);
    }
  }
}

static void list_root(sn_verifier *v, const sn_computation *c) {
  if (!c->root)
    sn_verify_fault(v, c->loc, SN_V_ROOT, "%%%s has no root", c->name);
  else if (c->root->parent != c || !sn_verify_seen(v, c->root))
    sn_verify_fault(v, c->loc, SN_V_ROOT, "the root of %%%s stands in another computation",
                    c->name);
}

static void list_computations(sn_verifier *v, sn_map *names) {
  const sn_computation *prev = NULL;
  uint32_t n = 0;
  SN_FOR_COMPUTATIONS(c, v->m) {
    n++;
    if (c->id >= v->m->n_comp_ids || v->computations[c->id]) {
      sn_verify_fault(v, c->loc, SN_V_ID,
                      "%%%s has the id %" PRIu32 ", out of range or of another computation",
                      c->name, c->id);
      return;
    }
    v->computations[c->id] = c;
    if (c->prev != prev || c->module != v->m)
      sn_verify_fault(v, c->loc, SN_V_LIST, "%%%s: links of the module's list are inconsistent",
                      c->name);
    if (sn_map_get_str(names, c->name))
      sn_verify_fault(v, c->loc, SN_V_COMPUTATION_NAME, "%%%s is the name of two computations",
                      c->name);
    else if (sn_map_set_str(names, c->name, c) != SN_OK)
      sn_verify_no_memory(v);
    prev = c;
  }
  if (v->m->last != prev || v->m->n_computations != n) {
    sn_verify_fault(v, SN_NOWHERE, SN_V_LIST,
                    "the module counts %" PRIu32 " computations, its list holds %" PRIu32,
                    v->m->n_computations, n);
  }
}

void sn_verify_lists(sn_verifier *v) {
  sn_map *names;
  if (sn_map_create(&names) != SN_OK) {
    sn_verify_no_memory(v);
    return;
  }
  uint64_t before = v->n_faults;
  list_computations(v, names);
  if (v->n_faults == before) {
    SN_FOR_COMPUTATIONS(c, v->m) list_walk(v, c);
  }
  if (v->n_faults == before) {
    list_names(v);
    SN_FOR_COMPUTATIONS(c, v->m) {
      list_params(v, c);
      list_root(v, c);
    }
    if (!sn_verify_owns(v, v->m->entry))
      sn_verify_fault(v, SN_NOWHERE, SN_V_ENTRY, "module %s has no entry computation", v->m->name);
  }
  sn_map_destroy(names);
}
