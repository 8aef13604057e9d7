/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The interpreter on whatever verifies, within small limits: a value of the stated shape or a message, and the same bits twice. */
#include <string.h>

#include "fuzz.h"
#include "oracle.h"
#include "sinter/text.h"

enum { MOST_BYTES = 1 << 16, MOST_STEPS = 2000, MOST_PROCESSES = 8 };

/* What would be made for the arguments before any limit of the interpreter's counts. */
static bool small_shape(const sn_shape *s, int64_t *left) {
  if (sn_shape_is_tuple(s)) {
    for (int k = 0; k < s->n_elements; k++) {
      if (!small_shape(s->elements[k], left)) return false;
    }
    return true;
  }
  if (!sn_shape_is_array(s)) return true;
  int64_t bytes = sn_shape_elements(s) < MOST_BYTES ? sn_shape_elements(s) * (int64_t)sn_type_bytes(s->type) : MOST_BYTES + 1;
  return (*left -= bytes) >= 0;
}

static bool small_arguments(const sn_module *m) {
  int64_t left = MOST_BYTES;
  for (uint32_t k = 0; k < m->entry->n_params; k++) {
    if (!small_shape(m->entry->params[k]->shape, &left)) return false;
  }
  return true;
}

static sn_status run(sn_diag *d, const sn_module *m, int processes, sn_array *const *one, sn_array **out) {
  uint32_t n = m->entry->n_params;
  sn_array *args[MOST_PROCESSES * 64];
  sn_eval_options e;
  sn_eval_options_init(&e);
  e.max_bytes = MOST_BYTES;
  e.max_steps = MOST_STEPS;
  for (int p = 0; p < processes; p++) {
    out[p] = NULL;
    if (n > 0) memcpy(args + (uint32_t)p * n, one, n * sizeof *args);
  }
  return sn_eval_replicated(d, m, &e, (int)n, args, out);
}

static bool same(const sn_array *x, const sn_array *y) {
  const sn_shape *s = sn_array_shape(x);
  if (!sn_shape_equal(s, sn_array_shape(y), 0)) return false;
  for (int k = 0; sn_shape_is_tuple(s) && k < s->n_elements; k++) {
    if (!same(sn_array_element(x, k), sn_array_element(y, k))) return false;
  }
  if (!sn_shape_is_array(s)) return true;
  size_t bytes = (size_t)sn_shape_elements(s) * sn_type_bytes(s->type);
  return bytes == 0 || memcmp(sn_array_data(x), sn_array_data(y), bytes) == 0;
}

static void evaluate(sn_diag *d, const sn_module *m, int processes, sn_array *const *args) {
  sn_array *first[MOST_PROCESSES] = {0}, *second[MOST_PROCESSES] = {0};
  sn_diag_clear(d);
  sn_status s = run(d, m, processes, args, first);
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  if (s == SN_OK) {
    sn_status t = run(d, m, processes, args, second);
    FUZZ_CHECK(t == SN_OK, "once it runs, once it does not: %s", sn_status_text(t));
  }
  for (int p = 0; p < processes && s == SN_OK; p++) {
    FUZZ_CHECK(first[p] && second[p] && same(first[p], second[p]), "run twice, two results");
    FUZZ_CHECK(sn_shape_equal(sn_array_shape(first[p]), m->entry->root->shape, 0), "a result of another shape than the root's");
  }
  for (int p = 0; p < processes; p++) {
    sn_array_release(first[p]);
    sn_array_release(second[p]);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  if (sn_diag_create(&d) != SN_OK) return 0;
  if (sn_hlo_parse(d, "fuzz.hlo", (const char *)data, n_bytes, &m) == SN_OK && sn_module_verify(d, m, 0) == SN_OK && m->entry->n_params <= 64 && small_arguments(m)) {
    int64_t processes = m->replica_count <= MOST_PROCESSES && m->num_partitions <= MOST_PROCESSES ? m->replica_count * m->num_partitions : 0;
    sn_array **args = processes >= 1 && processes <= MOST_PROCESSES ? oracle_args(m, 1) : NULL;
    if (args) evaluate(d, m, (int)processes, args);
    oracle_args_release(m, args);
  }
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return 0;
}
