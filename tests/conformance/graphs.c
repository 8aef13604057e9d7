/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two graphs from their roots down: an instruction of `want` has one like it in `got`, with operands alike. */
#include <string.h>

#include "sinter/text.h"

#include "trees.h"

typedef struct graphs {
  const sn_instr **like; /* id in want -> instruction in got */
  sn_str *to;
} graphs;

static bool alike(graphs *g, const sn_instr *a, const sn_instr *b);

static bool called_alike(graphs *g, const sn_instr *a, const sn_instr *b) {
  for (uint16_t k = 0; k < a->n_called; k++)
    if (!alike(g, a->called[k]->root, b->called[k]->root)) return false;
  return true;
}

static bool same_sharding(const sn_sharding *a, const sn_sharding *b) {
  sn_str x = {0}, y = {0};
  if (a == NULL || b == NULL) return a == b;
  sn_hlo_print_sharding(&x, a);
  sn_hlo_print_sharding(&y, b);
  bool same = !x.failed && !y.failed && x.n == y.n && memcmp(x.data, y.data, x.n) == 0;
  sn_str_finish(&x);
  sn_str_finish(&y);
  return same;
}

static bool same_kind(const sn_instr *a, const sn_instr *b) {
  if (!same_sharding(a->sharding, b->sharding) || a->n_control != b->n_control) return false;
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs || a->n_called != b->n_called || !sn_shape_equal(a->shape, b->shape, 0)) return false;
  for (uint16_t k = 0; k < a->n_attrs; k++)
    if (!sn_attr_equal(&a->attrs[k], &b->attrs[k])) return false;
  if (a->n_frontend != b->n_frontend) return false;
  for (uint16_t k = 0; k < a->n_frontend; k++)
    if (strcmp(a->frontend[k].key, b->frontend[k].key) != 0 || strcmp(a->frontend[k].value, b->frontend[k].value) != 0) return false;
  return strcmp(a->backend_config != NULL ? a->backend_config : "", b->backend_config != NULL ? b->backend_config : "") == 0;
}

/* The element that all elements of a constant, or of a constant spread out, are; NULL: they differ, or it is something else. */
static const char *only_element(const sn_instr *i) {
  if (i->op == SN_OP_BROADCAST) return only_element(sn_instr_operand(i, 0));
  const sn_array *v = i->op == SN_OP_CONSTANT ? sn_instr_literal(i) : NULL;
  if (v == NULL || sn_shape_elements(i->shape) == 0) return NULL;
  const char *data = sn_array_data(v);
  size_t each = sn_type_bytes(i->shape->type);
  for (int64_t k = 1; k < sn_shape_elements(i->shape); k++)
    if (memcmp(data, data + (size_t)k * each, each) != 0) return NULL;
  return data;
}

/* Serialising writes a constant that is spread out as one constant. */
static bool same_splat(const sn_instr *a, const sn_instr *b) {
  if (!sn_shape_equal(a->shape, b->shape, 0) || !sn_shape_is_array(a->shape)) return false;
  const char *x = only_element(a), *y = x != NULL ? only_element(b) : NULL;
  return y != NULL && memcmp(x, y, sn_type_bytes(a->shape->type)) == 0;
}

/* A broadcast that changes nothing is no instruction: reading StableHLO leaves it out. */
static const sn_instr *behind(const sn_instr *i) {
  while (i->op == SN_OP_BROADCAST && sn_shape_equal(i->shape, sn_operand_shape(i, 0), 0)) i = sn_instr_operand(i, 0);
  return i;
}

static bool alike(graphs *g, const sn_instr *a, const sn_instr *b) {
  a = behind(a);
  b = behind(b);
  if (g->like[a->id] == b) return true;
  if (a->op == SN_OP_BROADCAST && b->op == SN_OP_CONSTANT && same_splat(a, b)) return true;
  if (!same_kind(a, b)) {
    if (g->to->n == 0) sn_str_printf(g->to, "%s is another instruction: %s", a->name, b->name);
    return false;
  }
  for (uint32_t k = 0; k < a->n_operands; k++)
    if (!alike(g, sn_instr_operand(a, k), sn_instr_operand(b, k))) return false;
  for (uint16_t k = 0; k < a->n_control; k++)
    if (!alike(g, a->control[k], b->control[k])) return false;
  if (!called_alike(g, a, b)) return false;
  g->like[a->id] = b;
  return true;
}

bool graphs_agree(const sn_module *want, const sn_module *got, sn_str *difference) {
  graphs g = {sn_alloc_zero(want->n_ids + 1u, sizeof(sn_instr *)), difference};
  bool same = g.like != NULL && want->entry->n_params == got->entry->n_params && want->num_partitions == got->num_partitions && want->n_aliases == got->n_aliases &&
              want->n_donors == got->n_donors;
  for (uint32_t k = 0; same && k < want->entry->n_params; k++) same = alike(&g, want->entry->params[k], got->entry->params[k]);
  same = same && alike(&g, want->entry->root, got->entry->root);
  sn_free(g.like);
  return same;
}
