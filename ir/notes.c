/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What an instruction carries beside its meaning: metadata, sharding, frontend attributes, backend config. */
#include "ir_internal.h"

#include <string.h>

const sn_metadata *sn_metadata_copy(sn_arena *a, const sn_metadata *md) {
  bool ok = true;
  sn_metadata *to = sn_arena_copy(a, md, sizeof *md);
  if (!to) return NULL;
  to->op_type = sn_arena_string(a, md->op_type);
  to->op_name = sn_arena_string(a, md->op_name);
  to->source_file = sn_arena_string(a, md->source_file);
  to->deduplicated_name = sn_arena_string(a, md->deduplicated_name);
  to->scheduling_name = sn_arena_string(a, md->scheduling_name);
  to->profile_type = sn_ints_copy(a, md->profile_type, &ok);
  return ok ? to : NULL;
}

const sn_sharding *sn_sharding_copy(sn_arena *a, const sn_sharding *s) {
  bool ok = true;
  sn_sharding *to = sn_arena_copy(a, s, sizeof *s);
  if (!to) return NULL;
  to->tile_dims = sn_ints_copy(a, s->tile_dims, &ok);
  to->devices = sn_ints_copy(a, s->devices, &ok);
  to->reshape_dims = sn_ints_copy(a, s->reshape_dims, &ok);
  to->transpose = sn_ints_copy(a, s->transpose, &ok);
  to->last_tile_kinds = sn_ints_copy(a, s->last_tile_kinds, &ok);
  to->named = sn_arena_string(a, s->named);
  to->metadata = sn_arena_string(a, s->metadata);
  if (s->n_elements) {
    const sn_sharding **v = SN_NEW_N(a, const sn_sharding *, s->n_elements);
    if (!v) return NULL;
    for (int64_t i = 0; i < s->n_elements; i++) {
      if (!(v[i] = sn_sharding_copy(a, s->elements[i]))) return NULL;
    }
    to->elements = v;
  }
  return ok ? to : NULL;
}

const sn_pair *sn_pairs_copy(sn_arena *a, int64_t n, const sn_pair *from) {
  sn_pair *to = SN_NEW_N(a, sn_pair, n + 1);
  if (!to) return NULL;
  for (int64_t i = 0; i < n; i++) {
    to[i].key = sn_arena_string(a, from[i].key);
    to[i].value = sn_arena_string(a, from[i].value);
    to[i].raw = from[i].raw;
    if (!to[i].key || !to[i].value) return NULL;
  }
  return to;
}

const sn_pair *sn_extras_copy(sn_arena *a, const sn_pair *from) {
  int64_t n = 0;
  while (from && from[n].key) n++;
  return from ? sn_pairs_copy(a, n, from) : NULL;
}

void sn_instr_set_metadata(sn_instr *i, const sn_metadata *md) { i->metadata = md ? sn_metadata_copy(i->parent->module->arena, md) : NULL; }

void sn_instr_set_sharding(sn_instr *i, const sn_sharding *s) { i->sharding = s ? sn_sharding_copy(i->parent->module->arena, s) : NULL; }

sn_status sn_instr_set_backend_config(sn_instr *i, const char *text, bool quoted) {
  const char *copy = sn_arena_string(i->parent->module->arena, text);
  if (text && !copy) return SN_ERR_MEMORY;
  i->backend_config = copy;
  i->backend_config_quoted = quoted;
  return SN_OK;
}

sn_status sn_instr_set_frontend(sn_instr *i, const char *key, const char *value) {
  sn_arena *a = i->parent->module->arena;
  sn_pair *to = SN_NEW_N(a, sn_pair, i->n_frontend + 1u);
  if (!to) return SN_ERR_MEMORY;
  uint16_t n = 0;
  bool placed = false;
  sn_pair fresh = {sn_arena_string(a, key), sn_arena_string(a, value), false};
  if (!fresh.key || (value && !fresh.value)) return SN_ERR_MEMORY;
  for (uint16_t k = 0; k < i->n_frontend; k++) {
    bool same = strcmp(i->frontend[k].key, key) == 0;
    if (!same) to[n++] = i->frontend[k];
    else if (value) to[n++] = fresh;
    placed |= same;
  }
  if (!placed && value) to[n++] = fresh;
  i->frontend = to;
  i->n_frontend = n;
  return SN_OK;
}

const char *sn_instr_frontend(const sn_instr *i, const char *key) {
  for (uint16_t k = 0; k < i->n_frontend; k++) {
    if (strcmp(i->frontend[k].key, key) == 0) return i->frontend[k].value;
  }
  return NULL;
}

sn_status sn_instr_copy_notes(sn_instr *to, const sn_instr *from) {
  sn_arena *a = to->parent->module->arena;
  bool same = from->parent->module == to->parent->module;
  if (!to->metadata && from->metadata) to->metadata = same ? from->metadata : sn_metadata_copy(a, from->metadata);
  if (!to->sharding && from->sharding) to->sharding = same ? from->sharding : sn_sharding_copy(a, from->sharding);
  if (!to->n_frontend && from->n_frontend) {
    to->frontend = same ? from->frontend : sn_pairs_copy(a, from->n_frontend, from->frontend);
    to->n_frontend = from->n_frontend;
  }
  if (!to->loc.file && from->loc.file) {
    to->loc = from->loc;
    if (!same) to->loc.file = sn_arena_string(a, from->loc.file);
  }
  if ((from->metadata && !to->metadata) || (from->sharding && !to->sharding) || (to->n_frontend && !to->frontend)) return SN_ERR_MEMORY;
  if (!same) return SN_OK;
  for (uint16_t k = 0; k < from->n_control; k++) {
    if (from->control[k] != to) SN_TRY(sn_instr_add_control(to, from->control[k]));
  }
  return SN_OK;
}
