/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shrinking: an earlier instruction as the root, or ones for an instruction, as long as the same check still fails. */
#include "oracle.h"
#include "sinter/build.h"

static bool still_fails(const sn_module *m, const oracle *from) {
  oracle o = *from;
  bool skipped;
  return sn_module_verify(NULL, m, 0) == SN_OK && !oracle_check(m, &o, &skipped) && !skipped;
}

static sn_instr *nth(const sn_module *m, uint32_t n) {
  sn_instr *i = m->entry->first;
  while (n-- && i) i = i->next;
  return i;
}

/* Candidate k: instruction k becomes the root, or is replaced by ones. */
static bool edit(sn_module *m, uint32_t k, bool as_root) {
  sn_instr *i = nth(m, k);
  if (!i || i->op == SN_OP_PARAMETER || !sn_shape_is_array(i->shape)) return false;
  if (as_root) {
    if (sn_instr_is_root(i)) return false;
    sn_computation_set_root(m->entry, i);
    m->entry_result = NULL;
    m->entry_params = NULL;
    m->n_entry_params = 0;
  } else {
    if (i->op == SN_OP_CONSTANT || i->op == SN_OP_BROADCAST || sn_instr_is_root(i)) return false;
    sn_builder b;
    sn_builder_init_at(&b, NULL, i);
    sn_instr *ones = sn_build_full(&b, i->shape, 1);
    if (!ones) return false;
    sn_instr_replace_uses(i, ones);
  }
  return sn_passes_run(NULL, m, "dce", NULL, NULL) == SN_OK;
}

static sn_module *try_edit(const sn_module *m, const oracle *o, uint32_t k, bool as_root) {
  sn_module *copy = NULL;
  if (sn_module_clone(m, &copy) != SN_OK) return NULL;
  if (edit(copy, k, as_root) && still_fails(copy, o)) return copy;
  sn_module_destroy(copy);
  return NULL;
}

sn_module *shrink(const sn_module *m, const oracle *o) {
  sn_module *best = NULL;
  if (sn_module_clone(m, &best) != SN_OK) return NULL;
  for (int kind = 0; kind < 2; kind++) {
    for (uint32_t k = 0; k < best->entry->n_instrs;) {
      sn_module *smaller = try_edit(best, o, k, kind == 0);
      if (!smaller) {
        k++;
        continue;
      }
      bool progress = kind == 0 || smaller->entry->n_instrs < best->entry->n_instrs;
      sn_module_destroy(best);
      best = smaller;
      k = progress ? 0 : k + 1;
    }
  }
  return best;
}
