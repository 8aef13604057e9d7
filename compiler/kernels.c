/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Distinct kernels: equal instructions (twelve equal layers) share one. Equality is asked of the HLO, before lowering, so that equal ones are not even lowered. */
#include "compile_internal.h"

#include <string.h>

static uint64_t instr_hash(const sn_instr *i) {
  uint64_t h = sn_hash_mix(sn_shape_hash(i->shape, 7), (uint64_t)i->op);
  for (uint32_t k = 0; k < i->n_operands; k++) h = sn_shape_hash(sn_operand_shape(i, k), h);
  for (uint16_t k = 0; k < i->n_attrs; k++) h = sn_attr_hash(&i->attrs[k], h);
  for (uint16_t k = 0; k < i->n_called; k++) h = sn_hash_mix(h, sn_computation_hash(i->called[k]));
  return i->backend_config ? sn_hash(i->backend_config, strlen(i->backend_config), h) : h;
}

/* Single ops whose operands repeat (x * x) read one buffer for both slots: only equal patterns of repeats are equal. */
static uint32_t first_slot(const sn_instr *i, uint32_t k) {
  uint32_t f = 0;
  while (sn_instr_operand(i, f) != sn_instr_operand(i, k)) f++;
  return f;
}

static bool instr_same(const sn_instr *a, const sn_instr *b) {
  if (a->op != b->op || a->n_operands != b->n_operands || a->n_attrs != b->n_attrs || a->n_called != b->n_called) return false;
  if (!sn_shape_equal(a->shape, b->shape, SN_EQ_LAYOUT)) return false;
  const char *ca = a->backend_config ? a->backend_config : "", *cb = b->backend_config ? b->backend_config : "";
  if (strcmp(ca, cb) != 0) return false;
  for (uint32_t k = 0; k < a->n_operands; k++) {
    if (!sn_shape_equal(sn_operand_shape(a, k), sn_operand_shape(b, k), SN_EQ_LAYOUT) || first_slot(a, k) != first_slot(b, k)) return false;
  }
  for (uint16_t k = 0; k < a->n_attrs; k++) {
    if (!sn_attr_equal(&a->attrs[k], &b->attrs[k])) return false;
  }
  for (uint16_t k = 0; k < a->n_called; k++) {
    if (a->called[k] != b->called[k] && !sn_computation_equal(a->called[k], b->called[k], SN_EQ_LAYOUT)) return false;
  }
  return true;
}

static sn_status add_kernel(compile *c, sn_kernel *k, uint64_t hash) {
  if (c->n_kernels == c->cap_kernels) {
    uint32_t cap = c->cap_kernels ? 2 * c->cap_kernels : 64;
    sn_kernel **wider = SN_NEW_N(c->arena, sn_kernel *, cap);
    uint64_t *hashes = SN_NEW_N(c->arena, uint64_t, cap);
    if (!wider || !hashes) return sn_out_of_memory(c->d, cap * sizeof *wider);
    if (c->n_kernels) memcpy(wider, c->kernels, c->n_kernels * sizeof *wider);
    if (c->n_kernels) memcpy(hashes, c->kernel_hashes, c->n_kernels * sizeof *hashes);
    c->kernels = wider;
    c->kernel_hashes = hashes;
    c->cap_kernels = cap;
  }
  c->kernel_hashes[c->n_kernels] = hash;
  c->kernels[c->n_kernels++] = k;
  return SN_OK;
}

sn_status sn_compile_kernel(compile *c, const sn_instr *i, uint32_t *number) {
  uint64_t hash = instr_hash(i);
  distinct_kernel **slot = &c->slots[hash % KERNEL_SLOTS];
  for (distinct_kernel *k = *slot; k; k = k->next) {
    if (k->hash != hash || !instr_same(k->instr, i)) continue;
    uint32_t n = 0;
    while (c->kernels[n] != k->kernel) n++;
    *number = n;
    return SN_OK;
  }
  distinct_kernel *fresh = SN_NEW(c->arena, distinct_kernel);
  if (!fresh) return sn_out_of_memory(c->d, sizeof *fresh);
  fresh->instr = i;
  fresh->hash = hash;
  SN_TRY(sn_lower_instr(c->d, c->arena, i, &c->target, &fresh->kernel));
  fresh->next = *slot;
  *slot = fresh;
  /* Different instructions may come to the same loops. */
  uint64_t kernel_hash = sn_kernel_hash(fresh->kernel);
  for (*number = 0; *number < c->n_kernels; ++*number) {
    if (c->kernel_hashes[*number] != kernel_hash || !sn_kernel_equal(c->kernels[*number], fresh->kernel)) continue;
    fresh->kernel = c->kernels[*number];
    return SN_OK;
  }
  return add_kernel(c, fresh->kernel, kernel_hash);
}
