/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Instructions: making, linking, editing. */
#include "ir_internal.h"

#include <string.h>

/* ---- uses ---- */

void sn_use_link(sn_use *u, sn_instr *def) {
  u->def = def;
  u->next = NULL;
  u->prev = def->last_use;
  if (u->prev) u->prev->next = u;
  else def->first_use = u;
  def->last_use = u;
  def->n_uses++;
}

void sn_use_unlink(sn_use *u) {
  sn_instr *def = u->def;
  if (u->prev) u->prev->next = u->next;
  else def->first_use = u->next;
  if (u->next) u->next->prev = u->prev;
  else def->last_use = u->prev;
  def->n_uses--;
  u->prev = u->next = NULL;
}

/* ---- order ---- */

void sn_instr_link(sn_instr *i, sn_computation *c, sn_instr *before) {
  i->parent = c;
  i->next = before;
  i->prev = before ? before->prev : c->last;
  if (i->prev) i->prev->next = i;
  else c->first = i;
  if (before) before->prev = i;
  else c->last = i;
  c->n_instrs++;
}

static void instr_unlink(sn_instr *i) {
  sn_computation *c = i->parent;
  if (i->prev) i->prev->next = i->next;
  else c->first = i->next;
  if (i->next) i->next->prev = i->prev;
  else c->last = i->prev;
  i->prev = i->next = NULL;
  c->n_instrs--;
}

void sn_instr_move_before(sn_instr *i, sn_instr *before) {
  if (i == before) return;
  sn_computation *c = i->parent;
  instr_unlink(i);
  sn_instr_link(i, c, before);
}

/* ---- making ---- */

/* The attributes in the order of the op's row, copied, without those that say the default. */
static sn_status take_attrs(sn_module *m, sn_instr *i, const sn_instr_spec *spec) {
  if (spec->n_attrs == 0) return SN_OK;
  sn_attr *to = SN_NEW_N(m->arena, sn_attr, spec->n_attrs);
  if (!to) return SN_ERR_MEMORY;
  uint16_t n = 0;
  for (const uint16_t *row = sn_ops[spec->op].attrs; *row != SN_ATTR_END; row++) {
    for (uint32_t k = 0; k < spec->n_attrs; k++) {
      const sn_attr *a = &spec->attrs[k];
      if (a->id != (sn_attr_id)(*row & ~SN_ATTR_MUST) || sn_attr_is_default(a)) continue;
      if (spec->in_arena && sn_attrs[a->id].kind != SN_KIND_LITERAL) to[n++] = *a;
      else if (!sn_attr_copy(m, a, &to[n++])) return SN_ERR_MEMORY;
      break;
    }
  }
  i->attrs = to;
  i->n_attrs = n;
  return SN_OK;
}

static sn_status take_name(sn_computation *c, sn_instr *i, const sn_instr_spec *spec) {
  sn_module *m = c->module;
  if (!spec->name) i->name = sn_module_fresh_name(m, sn_ops[spec->op].text);
  else if (!spec->unchecked && sn_computation_find(c, spec->name)) i->name = sn_module_fresh_name(m, spec->name);
  else i->name = spec->in_arena ? spec->name : sn_arena_string(m->arena, spec->name);
  if (!i->name) return SN_ERR_MEMORY;
  if (spec->name) sn_module_note_name(m, i->name);
  return SN_OK;
}

static sn_status infer(sn_diag *d, sn_computation *c, const sn_instr_spec *spec, const sn_shape **out) {
  const sn_shape *small[8];
  const sn_shape **shapes = small;
  if (spec->n_operands > 8 && !(shapes = SN_NEW_N(c->module->arena, const sn_shape *, spec->n_operands))) return SN_ERR_MEMORY;
  for (uint32_t k = 0; k < spec->n_operands; k++) shapes[k] = spec->operands[k]->shape;
  sn_infer in = {spec->op, spec->loc, spec->name, spec->n_operands, shapes, spec->n_attrs, spec->attrs, spec->n_called, spec->called,
                 spec->shape, c->module->arena, c->module->replica_count, c->module->num_partitions};
  return sn_infer_shape(d, &in, out);
}

static sn_status take_shape(sn_diag *d, sn_computation *c, sn_instr *i, const sn_instr_spec *spec) {
  sn_arena *a = c->module->arena;
  const sn_shape *inferred = NULL;
  if (!spec->unchecked) {
    SN_TRY(sn_row_check(d, spec->loc, spec->name, spec->op, spec->n_operands, spec->n_attrs, spec->attrs, spec->n_called));
    SN_TRY(infer(d, c, spec, &inferred));
    if (spec->shape && !sn_shape_equal(inferred, spec->shape, 0)) {
      return sn_error(d, spec->loc, SN_ERR_SHAPE, "%s: stated shape %s, but its operands give %s", sn_opcode_text(spec->op), sn_shape_text(a, spec->shape),
                      sn_shape_text(a, inferred));
    }
  }
  if (!spec->shape) i->shape = inferred;
  else i->shape = spec->in_arena ? spec->shape : sn_shape_clone(a, spec->shape);
  return i->shape ? SN_OK : SN_ERR_MEMORY;
}

static sn_status take_operands(sn_module *m, sn_instr *i, uint32_t n, sn_instr *const *operands) {
  if (n == 0) return SN_OK;
  sn_use *uses = SN_NEW_N(m->arena, sn_use, n);
  if (!uses) return SN_ERR_MEMORY;
  for (uint32_t k = 0; k < n; k++) {
    uses[k].user = i;
    uses[k].index = k;
    sn_use_link(&uses[k], operands[k]);
  }
  i->operands = uses;
  i->n_operands = n;
  return SN_OK;
}

static sn_status take_param_slot(sn_computation *c, sn_instr *i) {
  int64_t number = sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER);
  if (number < 0 || number > UINT32_MAX - 1) return SN_ERR_ATTRIBUTE;
  uint32_t k = (uint32_t)number;
  if (k >= c->cap_params) {
    /* A number far beyond the others is a fault that the verifier or parser names; the slot table grows by what is asked, within reason. */
    if (k > c->n_instrs + 100000) return SN_ERR_ATTRIBUTE;
    uint32_t cap = c->cap_params ? 2 * c->cap_params : 4;
    if (cap <= k) cap = k + 1;
    sn_instr **grown = SN_NEW_N(c->module->arena, sn_instr *, cap);
    if (!grown) return SN_ERR_MEMORY;
    if (c->n_params) memcpy(grown, c->params, c->n_params * sizeof *grown);
    c->params = grown;
    c->cap_params = cap;
  }
  if (k >= c->n_params) c->n_params = k + 1;
  else if (c->params[k]) return SN_ERR_NAME;
  c->params[k] = i;
  return SN_OK;
}

static sn_status take_called(sn_module *m, sn_instr *i, uint32_t n, sn_computation *const *called) {
  if (n == 0) return SN_OK;
  if (n > UINT16_MAX) return SN_ERR_OVERFLOW;
  i->called = sn_arena_copy(m->arena, called, n * sizeof *called);
  i->n_called = (uint16_t)n;
  return i->called ? SN_OK : SN_ERR_MEMORY;
}

sn_status sn_instr_create(sn_diag *d, sn_computation *c, const sn_instr_spec *spec, sn_instr **out) {
  *out = NULL;
  sn_module *m = c->module;
  sn_instr *i = SN_NEW(m->arena, sn_instr);
  if (!i) return sn_out_of_memory(d, sizeof *i);
  i->op = spec->op;
  i->loc = spec->loc;
  sn_status s = take_shape(d, c, i, spec);
  if (s == SN_OK) s = take_attrs(m, i, spec);
  if (s == SN_OK) s = take_name(c, i, spec);
  if (s == SN_OK) s = take_called(m, i, spec->n_called, spec->called);
  if (s == SN_OK && spec->op == SN_OP_PARAMETER) {
    s = take_param_slot(c, i);
    if (s == SN_ERR_NAME || s == SN_ERR_ATTRIBUTE) {
      sn_error(d, spec->loc, s, "%s: parameter number %lld is %s", i->name, (long long)sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER),
               s == SN_ERR_NAME ? "taken already" : "out of range");
    }
  }
  if (s == SN_OK && c->names) s = sn_map_set_str(c->names, i->name, i);
  if (s == SN_OK) s = take_operands(m, i, spec->n_operands, spec->operands);
  if (s == SN_ERR_MEMORY) return sn_out_of_memory(d, sizeof *i);
  if (s != SN_OK) return s;
  if (spec->metadata) {
    i->metadata = spec->in_arena ? spec->metadata : sn_metadata_copy(m->arena, spec->metadata);
    if (!i->metadata) return sn_out_of_memory(d, sizeof *i->metadata);
  }
  i->id = m->n_ids++;
  sn_instr_link(i, c, NULL);
  *out = i;
  return SN_OK;
}

/* ---- editing ---- */

static void drop_control_on(sn_instr *gone) {
  SN_FOR_INSTRS(i, gone->parent) {
    uint16_t n = 0;
    for (uint16_t k = 0; k < i->n_control; k++) {
      if (i->control[k] != gone) i->control[n++] = i->control[k];
    }
    gone->parent->module->priv->n_control -= (uint32_t)(i->n_control - n);
    i->n_control = n;
  }
}

void sn_instr_erase(sn_instr *i) {
  sn_computation *c = i->parent;
  sn_assert(i->n_uses == 0 && c->root != i);
  for (uint32_t k = 0; k < i->n_operands; k++) sn_use_unlink(&i->operands[k]);
  if (c->module->priv->n_control) {
    sn_instr_drop_control(i);
    drop_control_on(i);
  }
  if (c->names) sn_map_erase(c->names, i->name, strlen(i->name));
  instr_unlink(i);
}

void sn_instr_set_operand(sn_instr *i, uint32_t k, sn_instr *def) {
  sn_assert(k < i->n_operands);
  sn_use_unlink(&i->operands[k]);
  sn_use_link(&i->operands[k], def);
}

sn_status sn_instr_set_operands(sn_instr *i, uint32_t n, sn_instr *const *operands) {
  sn_use *old = i->operands;
  uint32_t n_old = i->n_operands;
  if (n > n_old) {
    sn_use *grown = SN_NEW_N(i->parent->module->arena, sn_use, n);
    if (!grown) return SN_ERR_MEMORY;
    i->operands = grown;
  }
  for (uint32_t k = 0; k < n_old; k++) sn_use_unlink(&old[k]);
  for (uint32_t k = 0; k < n; k++) {
    i->operands[k].user = i;
    i->operands[k].index = k;
    sn_use_link(&i->operands[k], operands[k]);
  }
  i->n_operands = n;
  return SN_OK;
}

void sn_instr_replace_uses(sn_instr *from, sn_instr *to) {
  sn_assert(from != to && from->parent == to->parent);
  for (sn_use *u = from->first_use, *next; u; u = next) {
    next = u->next;
    if (u->user == to) continue;
    sn_use_unlink(u);
    sn_use_link(u, to);
  }
  if (from->parent->root == from) from->parent->root = to;
}

sn_status sn_instr_set_attr(sn_instr *i, sn_attr a) {
  sn_assert(sn_op_takes(i->op, a.id, NULL));
  if (sn_attr_is_default(&a)) {
    sn_instr_drop_attr(i, a.id);
    return SN_OK;
  }
  sn_module *m = i->parent->module;
  sn_attr *to = SN_NEW_N(m->arena, sn_attr, i->n_attrs + 1u);
  if (!to) return SN_ERR_MEMORY;
  uint16_t n = 0;
  for (const uint16_t *row = sn_ops[i->op].attrs; *row != SN_ATTR_END; row++) {
    sn_attr_id id = (sn_attr_id)(*row & ~SN_ATTR_MUST);
    if (id == a.id) {
      if (!sn_attr_copy(m, &a, &to[n++])) return SN_ERR_MEMORY;
      continue;
    }
    const sn_attr *old = sn_instr_attr(i, id);
    if (old) to[n++] = *old;
  }
  i->attrs = to;
  i->n_attrs = n;
  return SN_OK;
}

void sn_instr_drop_attr(sn_instr *i, sn_attr_id id) {
  sn_attr *v = (sn_attr *)i->attrs; /* the array is the instruction's own, in the module's arena */
  uint16_t n = 0;
  for (uint16_t k = 0; k < i->n_attrs; k++) {
    if (v[k].id != id) v[n++] = v[k];
  }
  i->n_attrs = n;
}

void sn_instr_set_called(sn_instr *i, uint32_t k, sn_computation *c) {
  sn_assert(k < i->n_called);
  i->called[k] = c;
}

void sn_instr_set_shape(sn_instr *i, const sn_shape *s) { i->shape = s; }

sn_status sn_instr_set_name(sn_instr *i, const char *name) {
  sn_computation *c = i->parent;
  sn_instr *there = sn_computation_find(c, name);
  if (there == i) return SN_OK;
  const char *copy = there ? sn_module_fresh_name(c->module, name) : sn_arena_string(c->module->arena, name);
  if (!copy) return SN_ERR_MEMORY;
  if (c->names) {
    SN_TRY(sn_map_set_str(c->names, copy, i));
    sn_map_erase(c->names, i->name, strlen(i->name));
  }
  i->name = copy;
  sn_module_note_name(c->module, copy);
  return SN_OK;
}

sn_status sn_instr_add_control(sn_instr *i, sn_instr *predecessor) {
  for (uint16_t k = 0; k < i->n_control; k++) {
    if (i->control[k] == predecessor) return SN_OK;
  }
  if (i->n_control == UINT16_MAX) return SN_ERR_OVERFLOW;
  sn_instr **grown = SN_NEW_N(i->parent->module->arena, sn_instr *, i->n_control + 1u);
  if (!grown) return SN_ERR_MEMORY;
  if (i->n_control) memcpy(grown, i->control, i->n_control * sizeof *grown);
  grown[i->n_control++] = predecessor;
  i->control = grown;
  i->parent->module->priv->n_control++;
  return SN_OK;
}

void sn_instr_drop_control(sn_instr *i) {
  i->parent->module->priv->n_control -= i->n_control;
  i->n_control = 0;
}
