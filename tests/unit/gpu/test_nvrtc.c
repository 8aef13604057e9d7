/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* NVRTC: found or not, refusing a text, and what is read from its cubins. Tests that need it say so and pass where it is missing. */
#include <stdlib.h>
#include <string.h>

#include "gpu_tests.h"

START_TEST(a_missing_library_is_one_line) {
  fixture f;
  sn_nvrtc *n;
  fixture_init(&f, "sm_90a");
  setenv("SINTER_LIBNVRTC", "/nowhere/libnvrtc.so", 1);
  ck_assert_int_eq(sn_nvrtc_open(f.d, &n), SN_ERR_UNAVAILABLE);
  unsetenv("SINTER_LIBNVRTC");
  ck_assert_ptr_null(n);
  ck_assert_int_eq(sn_diag_stored(f.d), 1);
  ck_assert_ptr_nonnull(strstr(first_message(&f), "/nowhere/libnvrtc.so"));
  fixture_finish(&f);
}
END_TEST

START_TEST(an_error_shows_our_line) {
  fixture f;
  fixture_init(&f, "sm_80");
  sn_nvrtc *n = open_nvrtc(&f);
  if (n) {
    sn_gpu_phase phase = {.entry = "k"};
    sn_gpu_kernel bad = {.source = "/* one */\nextern \"C\" __global__ void k(float *a) {\n  a[0] = undeclared;\n}\n", .n_phases = 1, .phases = &phase}, *all[] = {&bad};
    ck_assert_int_eq(sn_gpu_compile(f.d, f.arena, n, NULL, NULL, &f.target, 1, all), SN_ERR_INTERNAL);
    const sn_diagnostic *e = sn_diag_get(f.d, 0);
    ck_assert_int_eq(e->loc.line, 3);
    ck_assert_ptr_nonnull(strstr(e->message, "undeclared"));
    ck_assert_ptr_nonnull(strstr(e->hint, "a[0] = undeclared;"));
    sn_nvrtc_close(n);
  }
  fixture_finish(&f);
}
END_TEST

/* The tf32 product for each target: tensor cores, no spills; and resources that the cubin itself confirms. */
START_TEST(products_compile_for_every_target) {
  static const char *const targets[] = {"sm_80", "sm_89", "sm_90a"};
  static const char text[] =
      "HloModule m\nENTRY e {\n  a = f32[2048,768] parameter(0)\n  b = f32[3072,768] parameter(1)\n  ROOT r = f32[2048,3072] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={1}, "
      "algorithm=dot_tf32_tf32_f32\n}\n";
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g, *all[] = {&g};
  fixture_init(&f, targets[_i]);
  sn_nvrtc *n = open_nvrtc(&f);
  if (n) {
    int registers, statics, local;
    ck_assert_int_eq(emit_hlo(&f, text, &k, &g), SN_OK);
    ck_assert_int_eq(sn_gpu_compile(f.d, f.arena, n, NULL, NULL, &f.target, 1, all), SN_OK);
    ck_assert_ptr_nonnull(strstr(g.ptx, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32"));
    ck_assert_ptr_nonnull(strstr(g.ptx, targets[_i]));
    ck_assert_ptr_null(strstr(g.ptx, "div.full")); /* no fast division: the contract's flags were taken */
    ck_assert_int_eq(g.phases[0].spill_bytes, 0);
    ck_assert(sn_cubin_resources(g.cubin, g.cubin_bytes, g.phases[0].entry, &registers, &statics, &local));
    ck_assert_int_eq(registers, g.phases[0].registers);
    ck_assert_int_le(registers, 255);
    sn_nvrtc_close(n);
  }
  fixture_finish(&f);
}
END_TEST

START_TEST(torn_cubins_are_refused) {
  fixture f;
  sn_kernel *k;
  sn_gpu_kernel g, *all[] = {&g};
  int registers, statics, local;
  fixture_init(&f, "sm_80");
  sn_nvrtc *n = open_nvrtc(&f);
  if (n) {
    ck_assert_int_eq(emit_hlo(&f, "HloModule m\nENTRY e {\n  a = f32[64] parameter(0)\n  ROOT r = f32[64] negate(a)\n}\n", &k, &g), SN_OK);
    ck_assert_int_eq(sn_gpu_compile(f.d, f.arena, n, NULL, NULL, &f.target, 1, all), SN_OK);
    for (size_t bytes = 0; bytes < g.cubin_bytes; bytes += bytes < 128 ? 1 : 37) {
      uint8_t *torn = malloc(bytes + 1); /* exactly as long as it says: a read beyond it is seen by the sanitizer */
      memcpy(torn, g.cubin, bytes);
      sn_cubin_resources(torn, bytes, g.phases[0].entry, &registers, &statics, &local);
      free(torn);
    }
    ck_assert(!sn_cubin_resources(g.cubin, g.cubin_bytes, "another", &registers, &statics, &local));
    sn_nvrtc_close(n);
  }
  fixture_finish(&f);
}
END_TEST

Suite *nvrtc_suite(void) {
  Suite *s = suite_create("nvrtc");
  TCase *t = tcase_create("nvrtc");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, a_missing_library_is_one_line);
  tcase_add_test(t, an_error_shows_our_line);
  tcase_add_loop_test(t, products_compile_for_every_target, 0, 3);
  tcase_add_test(t, torn_cubins_are_refused);
  suite_add_tcase(s, t);
  return s;
}
