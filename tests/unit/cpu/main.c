/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "cpu_tests.h"

#include <stdlib.h>
#include <string.h>

void built_begin(built *t, const char *name) {
  memset(t, 0, sizeof *t);
  ck_assert_int_eq(sn_arena_create(&t->arena), SN_OK);
  ck_assert_int_eq(sn_kernel_create(t->arena, name, &t->k), SN_OK);
  t->b.k = t->k;
}

int built_buffer(built *t, sn_kmemory memory, sn_type type, int64_t n) { return sn_kernel_add_buffer(t->k, memory, type, 1, &n, NULL, NULL); }

int built_buffer2(built *t, sn_kmemory memory, sn_type type, int64_t n, int64_t m) {
  int64_t dims[2] = {n, m};
  return sn_kernel_add_buffer(t->k, memory, type, 2, dims, NULL, NULL);
}

void built_phase(built *t, int n_grid, const int64_t *grid) {
  int64_t none = 1;
  sn_kphase *p = sn_kernel_add_phase(t->k, n_grid, n_grid ? grid : &none);
  ck_assert_ptr_nonnull(p);
  t->b.region = p->body;
  t->b.before = NULL;
}

const sn_ix *built_const(built *t, int64_t v) { return sn_ix_const(t->k->ix, v); }
const sn_ix *built_grid(built *t, int d) { return sn_ix_dim(t->k->ix, d, t->k->phases[t->k->n_phases - 1].grid[d]); }

bool can_run(const char *target) {
#if defined(__x86_64__)
  if (strcmp(target, "x86-64-v4") == 0) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (strcmp(target, "x86-64-v3") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return __builtin_cpu_supports("sse4.2") != 0;
#else
  return strcmp(target, "native") == 0;
#endif
}

/* The table that programs get from the runtime. */
const void *const *sn_imports(void);

static void run_phases(const built *t, const sn_cpu_code *code, const uint8_t *at, void *const *args) {
  int64_t scratch_bytes = sn_kernel_scratch_bytes(t->k);
  void *scratch = sn_alloc_aligned(64, (size_t)scratch_bytes + 64);
  sn_kernel_env env = {args, scratch, sn_imports()};
  for (int p = 0; p < t->k->n_phases; p++) {
    int64_t items = 1;
    for (int d = 0; d < t->k->phases[p].n_grid; d++) items *= t->k->phases[p].grid[d];
    union { const uint8_t *data; sn_kernel_fn fn; } u = {at + code->kernels[0].phase_offsets[p]};
    u.fn(&env, 0, items / 2); /* in two pieces, as a pool would */
    u.fn(&env, items / 2, items);
  }
  sn_free_aligned(scratch);
}

void built_run_on(built *t, const char *target, void *const *args) {
  sn_diag *d;
  sn_target machine;
  sn_cpu_code code;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  ck_assert_msg(t->b.status == SN_OK, "building: %s", sn_status_text(t->b.status));
  ck_assert_int_eq(sn_target_find(d, t->arena, target, &machine), SN_OK);
  sn_cpu_options o = {.struct_size = sizeof o, .target = &machine, .opt_level = 2, .want_asm = getenv("SINTER_TEST_ASM") != NULL};
  const sn_kernel *k = t->k;
  sn_status s = sn_cpu_compile(d, t->arena, &o, 1, &k, &code);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  ck_assert_int_eq(s, SN_OK);
  if (o.want_asm) puts(code.kernels[0].assembly);
  uint8_t *at = sn_code_alloc((size_t)code.bytes);
  ck_assert_ptr_nonnull(at);
  memcpy(at, code.code, (size_t)code.bytes);
  ck_assert_int_eq(sn_code_seal(at, (size_t)code.bytes), SN_OK);
  run_phases(t, &code, at, args);
  sn_code_free(at, (size_t)code.bytes);
  sn_free_aligned(code.code);
  sn_diag_destroy(d);
}

void built_run(built *t, void *const *args, void (*check)(void *ctx, const char *target), void *ctx) {
  static const char *const targets[] = {"native", "x86-64-v4", "x86-64-v3", "x86-64-v2"};
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    if (!can_run(targets[i])) continue;
    built_run_on(t, targets[i], args);
    check(ctx, targets[i]);
  }
}

void built_end(built *t) { sn_arena_destroy(t->arena); }

int main(void) {
  Suite *s = suite_create("cpu");
  suite_add_tcase(s, case_loops());
  suite_add_tcase(s, case_contract());
  suite_add_tcase(s, case_copy());
  suite_add_tcase(s, case_control());
  suite_add_tcase(s, case_math());
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
