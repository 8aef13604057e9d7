/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The verifier on whatever parses; on what passes it: index rules, call graph, copies, sorting, compaction. */
#include "fuzz.h"
#include "sinter/index.h"
#include "sinter/text.h"

static void index_rules(const sn_instr *i) {
  sn_arena *a = NULL;
  sn_ix_context *x = NULL;
  sn_index_map map;
  FUZZ_CHECK(sn_arena_create(&a) == SN_OK && sn_ix_context_create(a, &x) == SN_OK, "out of memory");
  int n = sn_shape_is_tuple(i->shape) ? i->shape->n_elements : 1;
  for (int k = 0; k < n && k < 4; k++) {
    if (sn_index_map_of(x, i, k, &map) != SN_OK) continue;
    for (int j = 0; j < map.n_accesses; j++) {
      const sn_access *c = &map.accesses[j];
      FUZZ_CHECK(c->operand < i->n_operands, "%s reads operand %u of %u", i->name, c->operand, i->n_operands);
      FUZZ_CHECK(c->rank == i->operands[c->operand].def->shape->rank, "%s reads operand %u at another rank", i->name, c->operand);
      sn_str text = {0};
      for (int r = 0; r < c->rank; r++) sn_ix_print(&text, c->at[r]);
      sn_str_finish(&text);
    }
  }
  sn_arena_destroy(a);
}

static void copies(const sn_module *m) {
  sn_module *copy = NULL;
  FUZZ_CHECK(sn_module_clone(m, &copy) == SN_OK, "cannot be copied");
  FUZZ_CHECK(sn_module_equal(m, copy, 0) && sn_module_hash(m) == sn_module_hash(copy), "the copy differs");
  FUZZ_CHECK(sn_module_verify(NULL, copy, 0) == SN_OK, "the copy does not verify");
  FUZZ_CHECK(sn_module_sort(NULL, copy) == SN_OK, "cannot be sorted");
  sn_module_drop_dead_computations(copy);
  FUZZ_CHECK(sn_module_compact(copy) == SN_OK, "cannot be compacted");
  FUZZ_CHECK(sn_module_verify(NULL, copy, 0) == SN_OK, "sorted and compacted, it does not verify");
  sn_module_destroy(copy);
}

static void use(const sn_module *m) {
  sn_arena *a = NULL;
  sn_call_graph g;
  FUZZ_CHECK(sn_arena_create(&a) == SN_OK, "out of memory");
  FUZZ_CHECK(sn_call_graph_build(a, m, &g) == SN_OK, "no call graph");
  sn_arena_destroy(a);
  for (const sn_computation *c = m->first; c; c = c->next) {
    for (const sn_instr *i = c->first; i; i = i->next) index_rules(i);
  }
  copies(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  if (sn_diag_create(&d) != SN_OK) return 0;
  if (sn_hlo_parse(d, "fuzz.hlo", (const char *)data, n_bytes, &m) == SN_OK) {
    sn_diag_clear(d);
    sn_status s = sn_module_verify(d, m, 0);
    FUZZ_CHECK((s == SN_OK) == (sn_diag_count(d, SN_ERROR) == 0), "%s with %zu errors", sn_status_text(s), sn_diag_count(d, SN_ERROR));
    if (s == SN_OK) use(m);
    if (s == SN_OK && sn_module_verify(d, m, SN_VERIFY_LAYOUTS) != SN_OK) FUZZ_CHECK(sn_diag_count(d, SN_ERROR) > 0, "refused without a message");
  }
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return 0;
}
