/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Modules and computations: life, names, order in lists. */
#include "ir_internal.h"

#include <stdlib.h>
#include <string.h>

sn_status sn_module_create(const char *name, sn_module **out) {
  *out = NULL;
  sn_arena *a;
  SN_TRY(sn_arena_create(&a));
  sn_module *m = sn_alloc_zero(1, sizeof *m);
  if (m) m->priv = sn_alloc_zero(1, sizeof *m->priv);
  if (m) m->name = sn_arena_string(a, name ? name : "module");
  if (!m || !m->priv || !m->name) {
    if (m) sn_free(m->priv);
    sn_free(m);
    sn_arena_destroy(a);
    return SN_ERR_MEMORY;
  }
  m->arena = a;
  m->replica_count = m->num_partitions = 1;
  *out = m;
  return SN_OK;
}

static void private_finish(sn_module *m) {
  if (!m->priv) return;
  for (uint32_t i = 0; i < m->priv->n_kept; i++) sn_array_release(m->priv->kept[i]);
  sn_free(m->priv->kept);
  sn_map_destroy(m->priv->computations);
  sn_free(m->priv);
  SN_FOR_COMPUTATIONS(c, m) sn_map_destroy(c->names);
}

void sn_module_destroy(sn_module *m) {
  if (!m) return;
  private_finish(m);
  sn_arena_destroy(m->arena);
  sn_free(m);
}

sn_status sn_module_compact(sn_module *m) {
  sn_module *fresh;
  SN_TRY(sn_module_clone(m, &fresh));
  sn_module old = *m;
  *m = *fresh;
  *fresh = old;
  SN_FOR_COMPUTATIONS(c, m) c->module = m;
  SN_FOR_COMPUTATIONS(c, fresh) c->module = fresh;
  sn_module_destroy(fresh);
  m->n_ids = 0;
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) i->id = m->n_ids++;
  }
  return SN_OK;
}

sn_status sn_module_keep(sn_module *m, sn_array *a) {
  struct sn_module_private *p = m->priv;
  if (p->n_kept == p->cap_kept) {
    uint32_t cap = p->cap_kept ? 2 * p->cap_kept : 16;
    sn_array **grown = sn_realloc(p->kept, cap * sizeof *grown);
    if (!grown) return SN_ERR_MEMORY;
    p->kept = grown;
    p->cap_kept = cap;
  }
  p->kept[p->n_kept++] = sn_array_retain(a);
  return SN_OK;
}

/* ---- names ---- */

void sn_module_note_name(sn_module *m, const char *name) {
  const char *dot = strrchr(name, '.');
  if (!dot || dot[1] < '0' || dot[1] > '9') return;
  char *end;
  unsigned long long n = strtoull(dot + 1, &end, 10);
  if (*end == '\0' && n >= m->priv->next_number && n < UINT64_MAX / 2) m->priv->next_number = n + 1;
}

const char *sn_module_fresh_name(sn_module *m, const char *prefix) {
  return sn_arena_printf(m->arena, "%s.%llu", prefix, (unsigned long long)m->priv->next_number++);
}

sn_computation *sn_module_find(const sn_module *m, const char *name) {
  struct sn_module_private *p = m->priv;
  if (!p->computations) {
    if (sn_map_create(&p->computations) != SN_OK) return NULL;
    SN_FOR_COMPUTATIONS(c, m) {
      if (sn_map_set_str(p->computations, c->name, c) == SN_OK) continue;
      sn_map_destroy(p->computations);
      p->computations = NULL;
      return NULL;
    }
  }
  return sn_map_get_str(p->computations, name);
}

sn_instr *sn_computation_find(const sn_computation *c, const char *name) {
  sn_computation *w = (sn_computation *)c; /* the map is a cache: building it changes nothing one can see */
  if (!w->names) {
    if (sn_map_create(&w->names) != SN_OK) return NULL;
    SN_FOR_INSTRS(i, c) {
      if (sn_map_set_str(w->names, i->name, i) == SN_OK) continue;
      sn_map_destroy(w->names);
      w->names = NULL;
      return NULL;
    }
  }
  return sn_map_get_str(w->names, name);
}

/* ---- computations ---- */

void sn_computation_link(sn_computation *c, sn_computation *before) {
  sn_module *m = c->module;
  c->next = before;
  c->prev = before ? before->prev : m->last;
  if (c->prev) c->prev->next = c;
  else m->first = c;
  if (before) before->prev = c;
  else m->last = c;
}

static void computation_unlink(sn_computation *c) {
  sn_module *m = c->module;
  if (c->prev) c->prev->next = c->next;
  else m->first = c->next;
  if (c->next) c->next->prev = c->prev;
  else m->last = c->prev;
  c->prev = c->next = NULL;
}

sn_status sn_computation_create(sn_module *m, const char *name, sn_computation **out) {
  *out = NULL;
  sn_computation *c = SN_NEW(m->arena, sn_computation);
  if (!c) return SN_ERR_MEMORY;
  if (!name) c->name = sn_module_fresh_name(m, "computation");
  else if (sn_module_find(m, name)) c->name = sn_module_fresh_name(m, name);
  else c->name = sn_arena_string(m->arena, name);
  if (!c->name) return SN_ERR_MEMORY;
  sn_module_note_name(m, c->name);
  if (m->priv->computations) SN_TRY(sn_map_set_str(m->priv->computations, c->name, c));
  c->module = m;
  c->id = m->n_comp_ids++;
  m->n_computations++;
  sn_computation_link(c, NULL);
  *out = c;
  return SN_OK;
}

void sn_computation_erase(sn_computation *c) {
  sn_module *m = c->module;
  sn_assert(m->entry != c);
  if (m->priv->computations) sn_map_erase(m->priv->computations, c->name, strlen(c->name));
  sn_map_destroy(c->names);
  c->names = NULL;
  computation_unlink(c);
  m->n_computations--;
}

void sn_computation_move_before(sn_computation *c, sn_computation *before) {
  if (c == before) return;
  computation_unlink(c);
  sn_computation_link(c, before);
}

void sn_computation_set_root(sn_computation *c, sn_instr *root) {
  sn_assert(!root || root->parent == c);
  c->root = root;
}

void sn_module_set_entry(sn_module *m, sn_computation *c) { m->entry = c; }

sn_status sn_computation_remove_param(sn_computation *c, uint32_t number) {
  sn_assert(number < c->n_params && c->params[number]->n_uses == 0);
  sn_instr *p = c->params[number];
  for (uint32_t k = number + 1; k < c->n_params; k++) {
    sn_instr *q = c->params[k];
    SN_TRY(sn_instr_set_attr(q, sn_attr_int(SN_ATTR_PARAMETER_NUMBER, k - 1)));
    c->params[k - 1] = q;
  }
  c->n_params--;
  sn_instr_erase(p);
  return SN_OK;
}

void sn_module_drop_dead_computations(sn_module *m) {
  /* Callers stand behind their callees, so one walk from the back sees every caller first. */
  uint8_t *alive = sn_alloc_zero(m->n_comp_ids, 1);
  if (!alive) return;
  if (m->entry) alive[m->entry->id] = 1;
  for (sn_computation *c = m->last, *prev; c; c = prev) {
    prev = c->prev;
    if (!alive[c->id]) {
      sn_computation_erase(c);
      continue;
    }
    SN_FOR_INSTRS(i, c) {
      for (uint16_t k = 0; k < i->n_called; k++) alive[i->called[k]->id] = 1;
    }
  }
  sn_free(alive);
}
