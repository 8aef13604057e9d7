/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver that does nothing: results are zero. */
#include "sinter/device.h"

#include <string.h>

#include "program_internal.h"

static sn_status null_check(sn_diag *d) {
  (void)d;
  return SN_OK;
}

static sn_status null_target(sn_diag *d, int ordinal, char *to, size_t bytes) {
  (void)d;
  (void)ordinal;
  snprintf(to, bytes, "native");
  return SN_OK;
}

static sn_status null_create(sn_diag *d, const sn_program *p, const sn_context_options *o, void **out) {
  (void)o;
  const sn_program **state = sn_alloc(sizeof *state);
  *out = state;
  if (!state) return sn_out_of_memory(d, sizeof *state);
  *state = p;
  return SN_OK;
}

static sn_status null_run(sn_diag *d, void *state, void *const *arguments, void *const *results) {
  const sn_program *p = *(const sn_program **)state;
  (void)d;
  (void)arguments;
  for (uint32_t i = 0; i < p->n_results; i++) {
    int64_t bytes = sn_shape_bytes(p->results[i].shape);
    if (bytes > 0) memset(results[i], 0, (size_t)bytes);
  }
  return SN_OK;
}

static void null_cancel(void *state) { (void)state; }

const sn_driver sn_driver_null = {"null", "computes nothing: results are zero", null_check, null_target, null_create, null_run, null_cancel, sn_free};
