/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels as machine code: for the target whose vectors are as wide as those the kernel was lowered for, where this CPU runs it; else by the evaluator. */
#include <string.h>

#include "run_kernel.h"
#include "sinter/cpu.h"
#include "sinter/program.h"

const void *const *sn_imports(void); /* runtime/program's table */

static const char *target_name(const sn_target *t) {
#if defined(__x86_64__)
  if (t->vector_bytes == 16) return "x86-64-v2";
  if (t->vector_bytes == 32) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "x86-64-v3" : NULL;
  return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "x86-64-v4" : NULL;
#else
  return t->vector_bytes == 16 ? "native" : NULL;
#endif
}

static sn_status run_code(const sn_kernel *k, const sn_cpu_code *code, void *const *args) {
  uint8_t *at = sn_code_alloc((size_t)code->bytes);
  void *scratch = sn_alloc_aligned(64, (size_t)sn_kernel_scratch_bytes(k) + 64);
  sn_kernel_env env = {args, scratch, sn_imports()};
  sn_status s = at && scratch ? SN_OK : SN_ERR_MEMORY;
  if (s == SN_OK) {
    memcpy(at, code->code, (size_t)code->bytes);
    s = sn_code_seal(at, (size_t)code->bytes);
  }
  for (int p = 0; s == SN_OK && p < k->n_phases; p++) {
    int64_t items = 1;
    for (int g = 0; g < k->phases[p].n_grid; g++) items *= k->phases[p].grid[g];
    union { const uint8_t *data; sn_kernel_fn fn; } u = {at + code->kernels[0].phase_offsets[p]};
    u.fn(&env, 0, items);
  }
  sn_free_aligned(scratch);
  if (at) sn_code_free(at, (size_t)code->bytes);
  return s;
}

sn_status run_kernel(sn_diag *d, sn_arena *a, const sn_kernel *k, const sn_target *t, void *const *args) {
  const char *name = target_name(t);
  sn_target machine;
  sn_cpu_code code;
  if (!name) return sn_kernel_eval(d, k, args);
  SN_TRY(sn_target_find(d, a, name, &machine));
  sn_cpu_options o = {.struct_size = sizeof o, .target = &machine, .opt_level = 1};
  SN_TRY(sn_cpu_compile(d, a, &o, 1, &k, &code));
  sn_status s = run_code(k, &code, args);
  sn_free_aligned(code.code);
  return s;
}
