/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "liveness.h"

#include <string.h>

#include "leaves.h"

/* What makes values of its own, rather than naming others' or the world's. */
static bool makes_values(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_PARAMETER:
    case SN_OP_CONSTANT:
    case SN_OP_TUPLE:
    case SN_OP_GET_TUPLE_ELEMENT:
    case SN_OP_OPT_BARRIER:
    case SN_OP_DOMAIN:
    case SN_OP_AFTER_ALL:
    case SN_OP_ADD_DEPENDENCY: return false;
    default: return !sn_is_rename(i);
  }
}

/* What only names other values reads nothing. */
static bool reads_values(const sn_instr *i) { return makes_values(i); }

static int64_t leaf_bytes(const sn_shape *s) { return sn_shape_is_array(s) ? (sn_shape_bytes(s) + 63) / 64 * 64 : 0; }

static sn_status number_values(sn_arena *a, sn_liveness *l) {
  uint32_t n = 0, cap = 0;
  for (uint32_t k = 0; k < l->n; k++) {
    if (makes_values(l->instrs[k])) cap += (uint32_t)sn_shape_leaves(l->instrs[k]->shape);
  }
  l->values = SN_NEW_N(a, sn_live_value, cap + 1);
  l->first_value = SN_NEW_N(a, uint32_t, l->n + 1);
  if (!l->values || !l->first_value) return SN_ERR_MEMORY;
  for (uint32_t k = 0; k < l->n; k++) {
    sn_instr *i = l->instrs[k];
    l->first_value[k] = n;
    for (int leaf = 0; makes_values(i) && leaf < sn_shape_leaves(i->shape); leaf++) {
      l->values[n++] = (sn_live_value){i, leaf, leaf_bytes(sn_shape_leaf(i->shape, leaf)), false, 0, 0, {0}};
    }
  }
  l->first_value[l->n] = l->n_values = n;
  return SN_OK;
}

/* The value that leaf `leaf` of i is; UINT32_MAX: the world's. */
static uint32_t value_of(const sn_liveness *l, const sn_instr *i, int leaf) {
  sn_leaf_value v = sn_leaf_source(i, leaf);
  if (!makes_values(v.instr)) return UINT32_MAX;
  return l->first_value[l->position[v.instr->id]] + (uint32_t)v.leaf;
}

static void add_read(sn_liveness *l, uint32_t k, uint32_t *n, uint32_t value) {
  for (uint32_t r = l->first_read[k]; r < *n; r++) {
    if (l->reads[r] == value) return;
  }
  l->reads[(*n)++] = value;
  l->values[value].n_readers++;
}

static sn_status find_reads(sn_arena *a, sn_liveness *l) {
  size_t cap = 0;
  for (uint32_t k = 0; k < l->n; k++) {
    for (uint32_t o = 0; reads_values(l->instrs[k]) && o < l->instrs[k]->n_operands; o++) cap += (size_t)sn_shape_leaves(sn_operand_shape(l->instrs[k], o));
  }
  l->first_read = SN_NEW_N(a, uint32_t, l->n + 1);
  l->reads = SN_NEW_N(a, uint32_t, cap + 1);
  if (!l->first_read || !l->reads) return SN_ERR_MEMORY;
  uint32_t n = 0;
  for (uint32_t k = 0; k < l->n; k++) {
    const sn_instr *i = l->instrs[k];
    l->first_read[k] = n;
    for (uint32_t o = 0; reads_values(i) && o < i->n_operands; o++) {
      for (int leaf = 0; leaf < sn_shape_leaves(sn_operand_shape(i, o)); leaf++) {
        uint32_t v = value_of(l, sn_instr_operand(i, o), leaf);
        if (v != UINT32_MAX) add_read(l, k, &n, v);
      }
    }
  }
  l->first_read[l->n] = n;
  return SN_OK;
}

static void pin_results(sn_liveness *l) {
  const sn_instr *root = l->c->root;
  bool entry = l->c == l->c->module->entry;
  for (int leaf = 0; leaf < sn_shape_leaves(root->shape); leaf++) {
    uint32_t v = value_of(l, root, leaf);
    if (v == UINT32_MAX) continue;
    l->values[v].pinned = true;
    if (entry) l->values[v].bytes = 0; /* lives in the result's memory */
  }
}

static void find_sources(sn_liveness *l, uint32_t k) {
  sn_instr *i = l->instrs[k];
  for (uint32_t v = l->first_value[k]; v < l->first_value[k + 1]; v++) {
    sn_live_value *x = &l->values[v];
    if (x->bytes == 0) continue;
    for (uint32_t o = 0; o < i->n_operands && x->n_sources < SN_LIVE_SOURCES; o++) {
      if (!sn_shape_is_array(sn_operand_shape(i, o))) continue;
      uint32_t from = value_of(l, sn_instr_operand(i, o), 0);
      if (from == UINT32_MAX || l->values[from].bytes != x->bytes || l->values[from].pinned || !sn_in_place_ok(i, o, x->leaf)) continue;
      x->sources[x->n_sources++] = from;
    }
  }
}

static bool runs_inner(const sn_instr *i) { return i->op == SN_OP_WHILE || i->op == SN_OP_CONDITIONAL || i->op == SN_OP_CALL; }

/* A loop's state lies where the initial state lay. */
static void share_state(sn_liveness *l, uint32_t k) {
  const sn_instr *i = l->instrs[k];
  for (uint32_t v = l->first_value[k]; v < l->first_value[k + 1]; v++) {
    uint32_t from = value_of(l, sn_instr_operand(i, 0), l->values[v].leaf);
    if (from == UINT32_MAX || l->values[from].bytes != l->values[v].bytes) continue;
    l->values[v].sources[0] = from;
    l->values[v].n_sources = 1;
  }
}

sn_status sn_liveness_find(sn_arena *a, const sn_computation *c, uint32_t *position, const int64_t *inner, sn_liveness *out) {
  memset(out, 0, sizeof *out);
  out->c = c;
  out->position = position;
  out->instrs = SN_NEW_N(a, sn_instr *, c->n_instrs + 1);
  out->inner = SN_NEW_N(a, int64_t, c->n_instrs + 1);
  if (!out->instrs || !out->inner) return SN_ERR_MEMORY;
  SN_FOR_INSTRS(i, c) {
    position[i->id] = out->n;
    out->instrs[out->n++] = i;
  }
  SN_TRY(number_values(a, out));
  SN_TRY(find_reads(a, out));
  pin_results(out);
  for (uint32_t k = 0; k < out->n; k++) {
    const sn_instr *i = out->instrs[k];
    if (i->op == SN_OP_WHILE) share_state(out, k);
    else find_sources(out, k);
    for (uint16_t q = 0; inner && runs_inner(i) && q < i->n_called; q++) {
      int64_t peak = inner[i->called[q]->id];
      if (peak > out->inner[k]) out->inner[k] = peak;
    }
  }
  return SN_OK;
}

/* A value that position k reads for the last time may be written over. */
static bool takes_over(const sn_live_value *x, const uint32_t *left) {
  for (uint32_t s = 0; s < x->n_sources; s++) {
    if (left[x->sources[s]] == 1) return true;
  }
  return false;
}

int64_t sn_liveness_peak(const sn_liveness *l, const uint32_t *order, uint32_t *left, uint32_t *at) {
  int64_t live = 0, peak = 0;
  for (uint32_t v = 0; v < l->n_values; v++) left[v] = l->values[v].n_readers + l->values[v].pinned;
  if (at) *at = 0;
  for (uint32_t q = 0; q < l->n; q++) {
    uint32_t k = order[q];
    int64_t fresh = 0, over = 0;
    for (uint32_t v = l->first_value[k]; v < l->first_value[k + 1]; v++) {
      fresh += l->values[v].bytes;
      if (takes_over(&l->values[v], left)) over += l->values[v].bytes;
    }
    int64_t now = live + fresh - over + l->inner[k];
    if (now > peak) {
      peak = now;
      if (at) *at = q;
    }
    live += fresh;
    for (uint32_t r = l->first_read[k]; r < l->first_read[k + 1]; r++) {
      if (--left[l->reads[r]] == 0) live -= l->values[l->reads[r]].bytes;
    }
    for (uint32_t v = l->first_value[k]; v < l->first_value[k + 1]; v++) {
      if (left[v] == 0) live -= l->values[v].bytes;
    }
  }
  return peak;
}
