/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Copies of instructions, computations and modules. */
#include "ir_internal.h"

#include <string.h>

/* Where copies go: old instruction id -> copy, old computation id -> copy (NULL: stays as it is). */
typedef struct cloner {
  sn_module *to;
  bool same_module;
  bool keep_ids;
  sn_instr **instrs;
  sn_computation **computations;
} cloner;

static sn_status clone_notes(cloner *x, const sn_instr *i, sn_instr *copy) {
  sn_arena *a = x->to->arena;
  bool same = x->same_module;
  if (i->metadata && !(copy->metadata = same ? i->metadata : sn_metadata_copy(a, i->metadata))) return SN_ERR_MEMORY;
  if (i->sharding && !(copy->sharding = same ? i->sharding : sn_sharding_copy(a, i->sharding))) return SN_ERR_MEMORY;
  if (i->n_frontend && !(copy->frontend = same ? i->frontend : sn_pairs_copy(a, i->n_frontend, i->frontend))) return SN_ERR_MEMORY;
  copy->n_frontend = i->n_frontend;
  if (i->extras && !(copy->extras = same ? i->extras : sn_extras_copy(a, i->extras))) return SN_ERR_MEMORY;
  copy->backend_config_quoted = i->backend_config_quoted;
  if (i->backend_config && !(copy->backend_config = same ? i->backend_config : sn_arena_string(a, i->backend_config))) return SN_ERR_MEMORY;
  copy->loc = i->loc;
  if (!same && i->loc.file && !(copy->loc.file = sn_arena_string(a, i->loc.file))) return SN_ERR_MEMORY;
  return SN_OK;
}

/* Operands come from x->instrs. */
static sn_status clone_into(cloner *x, const sn_instr *i, sn_computation *c, const char *name, sn_instr *const *operands, const sn_shape *shape, sn_instr **out) {
  *out = NULL;
  sn_computation *called_small[4], **called = called_small;
  if (i->n_called > 4 && !(called = SN_NEW_N(x->to->arena, sn_computation *, i->n_called))) return SN_ERR_MEMORY;
  for (uint16_t k = 0; k < i->n_called; k++) {
    sn_computation *copy = x->computations ? x->computations[i->called[k]->id] : NULL;
    called[k] = copy ? copy : i->called[k];
  }
  sn_instr_spec spec = {0};
  spec.op = i->op;
  spec.name = name;
  spec.shape = shape;
  spec.n_operands = i->n_operands;
  spec.operands = operands;
  spec.n_attrs = i->n_attrs;
  spec.attrs = i->attrs;
  spec.n_called = i->n_called;
  spec.called = called;
  spec.unchecked = true;
  spec.in_arena = x->same_module;
  SN_TRY(sn_instr_create(NULL, c, &spec, out));
  if (x->keep_ids) (*out)->id = i->id;
  return clone_notes(x, i, *out);
}

sn_status sn_instr_clone(const sn_instr *i, sn_computation *c, sn_instr *const *operands, const sn_shape *shape, sn_instr **out) {
  *out = NULL;
  sn_arena *a = c->module->arena;
  sn_instr **own = NULL;
  if (!operands && i->n_operands) {
    if (!(own = SN_NEW_N(a, sn_instr *, i->n_operands))) return SN_ERR_MEMORY;
    for (uint32_t k = 0; k < i->n_operands; k++) own[k] = i->operands[k].def;
  }
  cloner x = {c->module, i->parent->module == c->module, false, NULL, NULL};
  return clone_into(&x, i, c, NULL, operands ? operands : own, shape ? shape : i->shape, out);
}

/* One computation's instructions; called computations must have their copies already. */
static sn_status clone_body(cloner *x, const sn_computation *c, sn_computation *copy) {
  uint32_t most = 0;
  SN_FOR_INSTRS(i, c) {
    if (i->n_operands > most) most = i->n_operands;
  }
  sn_instr **operands = sn_alloc_zero(most + 1u, sizeof *operands);
  sn_status s = operands ? SN_OK : SN_ERR_MEMORY;
  for (const sn_instr *i = c->first; i && s == SN_OK; i = i->next) {
    for (uint32_t k = 0; k < i->n_operands; k++) operands[k] = x->instrs[i->operands[k].def->id];
    sn_instr *j;
    /* Names are unique in the old computation, so they are in the new, empty one. */
    s = clone_into(x, i, copy, i->name, operands, i->shape, &j);
    if (s == SN_OK) x->instrs[i->id] = j;
  }
  for (const sn_instr *i = c->first; i && s == SN_OK; i = i->next) {
    for (uint16_t k = 0; k < i->n_control && s == SN_OK; k++) s = sn_instr_add_control(x->instrs[i->id], x->instrs[i->control[k]->id]);
  }
  sn_free(operands);
  if (s == SN_OK && c->root) sn_computation_set_root(copy, x->instrs[c->root->id]);
  if (s == SN_OK && c->execution_thread && !(copy->execution_thread = sn_arena_string(x->to->arena, c->execution_thread))) s = SN_ERR_MEMORY;
  copy->loc = c->loc;
  if (s == SN_OK && !x->same_module && c->loc.file && !(copy->loc.file = sn_arena_string(x->to->arena, c->loc.file))) s = SN_ERR_MEMORY;
  return s;
}

static sn_status cloner_init(cloner *x, const sn_module *from, sn_module *to) {
  memset(x, 0, sizeof *x);
  x->to = to;
  x->same_module = from == to;
  x->instrs = sn_alloc_zero(from->n_ids + 1u, sizeof *x->instrs);
  x->computations = sn_alloc_zero(from->n_comp_ids + 1u, sizeof *x->computations);
  return x->instrs && x->computations ? SN_OK : SN_ERR_MEMORY;
}

static void cloner_finish(cloner *x) {
  sn_free(x->instrs);
  sn_free(x->computations);
}

/* Marks what c calls, directly or not: the list order (callees first) makes one backward walk enough. */
static void mark_called(const sn_computation *c, uint8_t *wanted) {
  wanted[c->id] = 1;
  for (const sn_computation *k = c; k; k = k->prev) {
    if (!wanted[k->id]) continue;
    SN_FOR_INSTRS(i, k) {
      for (uint16_t n = 0; n < i->n_called; n++) wanted[i->called[n]->id] = 1;
    }
  }
}

static sn_status clone_called(cloner *x, const sn_computation *c) {
  const sn_module *from = c->module;
  uint8_t *wanted = sn_alloc_zero(from->n_comp_ids + 1u, 1);
  if (!wanted) return SN_ERR_MEMORY;
  mark_called(c, wanted);
  sn_status s = SN_OK;
  for (const sn_computation *k = from->first; k && s == SN_OK; k = k->next) {
    if (k == c) break;
    if (!wanted[k->id]) continue;
    sn_computation *copy;
    s = sn_computation_create(x->to, k->name, &copy);
    if (s == SN_OK) s = clone_body(x, k, copy);
    if (s == SN_OK) x->computations[k->id] = copy;
  }
  sn_free(wanted);
  return s;
}

sn_status sn_computation_clone(const sn_computation *c, sn_module *to, const char *name, sn_computation **out) {
  *out = NULL;
  cloner x;
  sn_computation *copy = NULL;
  sn_status s = cloner_init(&x, c->module, to);
  if (s == SN_OK && !x.same_module) s = clone_called(&x, c);
  if (s == SN_OK) s = sn_computation_create(to, name ? name : c->name, &copy);
  if (s == SN_OK && x.same_module) sn_computation_move_before(copy, c->next);
  if (s == SN_OK) s = clone_body(&x, c, copy);
  cloner_finish(&x);
  if (s == SN_OK) *out = copy;
  return s;
}

/* ---- whole modules ---- */

static sn_status clone_tables(const sn_debug_tables *from, sn_debug_tables *to, sn_arena *a) {
  *to = *from;
  to->files = SN_NEW_N(a, const char *, from->n_files + 1);
  to->functions = SN_NEW_N(a, const char *, from->n_functions + 1);
  to->locations = SN_NEW_N(a, sn_file_location, from->n_locations + 1);
  to->frames = SN_NEW_N(a, sn_stack_frame, from->n_frames + 1);
  if (!to->files || !to->functions || !to->locations || !to->frames) return SN_ERR_MEMORY;
  for (int64_t i = 0; i < from->n_files; i++) to->files[i] = sn_arena_string(a, from->files[i]);
  for (int64_t i = 0; i < from->n_functions; i++) to->functions[i] = sn_arena_string(a, from->functions[i]);
  if (from->n_locations) memcpy(to->locations, from->locations, (size_t)from->n_locations * sizeof *to->locations);
  if (from->n_frames) memcpy(to->frames, from->frames, (size_t)from->n_frames * sizeof *to->frames);
  return SN_OK;
}

static sn_status clone_entry_layout(const sn_module *m, sn_module *to) {
  if (!m->entry_params && !m->entry_result) return SN_OK;
  const sn_shape **v = SN_NEW_N(to->arena, const sn_shape *, m->n_entry_params + 1);
  if (!v) return SN_ERR_MEMORY;
  for (int64_t i = 0; i < m->n_entry_params; i++) {
    if (!(v[i] = sn_shape_clone(to->arena, m->entry_params[i]))) return SN_ERR_MEMORY;
  }
  to->entry_params = v;
  to->n_entry_params = m->n_entry_params;
  if (m->entry_result && !(to->entry_result = sn_shape_clone(to->arena, m->entry_result))) return SN_ERR_MEMORY;
  return SN_OK;
}

static sn_status clone_header(const sn_module *m, sn_module *to) {
  sn_arena *a = to->arena;
  bool ok = true;
  to->is_scheduled = m->is_scheduled;
  to->replica_count = m->replica_count;
  to->num_partitions = m->num_partitions;
  to->alias_passthrough_params = m->alias_passthrough_params;
  SN_TRY(clone_entry_layout(m, to));
  to->n_aliases = m->n_aliases;
  to->aliases = sn_aliases_copy(a, m->n_aliases, m->aliases, &ok);
  to->n_donors = m->n_donors;
  to->donors = sn_aliases_copy(a, m->n_donors, m->donors, &ok);
  to->spmd_to_parameters = sn_ints_copy(a, m->spmd_to_parameters, &ok);
  to->spmd_to_output = sn_ints_copy(a, m->spmd_to_output, &ok);
  to->n_frontend = m->n_frontend;
  if (m->n_frontend && !(to->frontend = sn_pairs_copy(a, m->n_frontend, m->frontend))) return SN_ERR_MEMORY;
  if (m->extras && !(to->extras = sn_extras_copy(a, m->extras))) return SN_ERR_MEMORY;
  SN_TRY(clone_tables(&m->debug, &to->debug, a));
  to->priv->next_number = m->priv->next_number;
  return ok ? SN_OK : SN_ERR_MEMORY;
}

sn_status sn_module_clone(const sn_module *m, sn_module **out) {
  *out = NULL;
  sn_module *to;
  SN_TRY(sn_module_create(m->name, &to));
  cloner x;
  sn_status s = cloner_init(&x, m, to);
  x.keep_ids = true;
  if (s == SN_OK) s = clone_header(m, to);
  for (const sn_computation *c = m->first; c && s == SN_OK; c = c->next) {
    sn_computation *copy;
    s = sn_computation_create(to, c->name, &copy);
    if (s == SN_OK) s = clone_body(&x, c, copy);
    if (s == SN_OK) x.computations[c->id] = copy;
    if (s == SN_OK && c == m->entry) to->entry = copy;
    if (s == SN_OK) copy->id = c->id;
  }
  cloner_finish(&x);
  to->n_ids = m->n_ids;
  to->n_comp_ids = m->n_comp_ids;
  if (s != SN_OK) sn_module_destroy(to);
  else *out = to;
  return s;
}
