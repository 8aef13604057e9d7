/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device programs: through a file and back; drivers that are not there; the null driver. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../scratch.h"
#include "gpu_tests.h"
#include "sinter/device.h"
#include "sinter/program.h"

static const char step[] = "HloModule step\nENTRY e {\n  a = f32[8,64] parameter(0)\n  b = f32[8,64] parameter(1)\n  s = f32[8,64] add(a, b)\n  ROOT r = f32[8,64] tanh(s)\n}\n";

static sn_program *compile_step(fixture *f) {
  sn_compile_options o;
  sn_program *p = NULL;
  sn_compile_options_init(&o);
  o.target = "sm_80";
  ck_assert_int_eq(sn_hlo_parse(f->d, "step.hlo", step, strlen(step), &f->m), SN_OK);
  sn_status s = sn_compile(f->d, f->m, &o, &p, NULL);
  if (s == SN_ERR_UNAVAILABLE) printf("not run: %s\n", first_message(f));
  else ck_assert_int_eq(s, SN_OK);
  return p;
}

START_TEST(a_program_survives_its_file) {
  fixture f;
  char dir[SCRATCH_BYTES], path[SCRATCH_BYTES + 8];
  scratch_make(dir, "gpu");
  snprintf(path, sizeof path, "%s/p.sntr", dir);
  fixture_init(&f, "sm_80");
  sn_program *p = compile_step(&f), *again;
  if (p) {
    sn_str a = {0}, b = {0};
    ck_assert_str_eq(sn_program_device(p), "cuda");
    ck_assert_int_eq(sn_program_write(f.d, p, path), SN_OK);
    ck_assert_int_eq(sn_program_read(f.d, path, &again), SN_OK);
    sn_program_print(&a, p);
    sn_program_print(&b, again);
    ck_assert_str_eq(a.data, b.data);
    ck_assert_ptr_nonnull(strstr(a.data, "device cuda"));
    sn_str_finish(&a);
    sn_str_finish(&b);
    sn_program_release(again);
    sn_program_release(p);
  }
  scratch_remove(dir);
  fixture_finish(&f);
}
END_TEST

START_TEST(no_driver_is_one_line) {
  fixture f;
  sn_context *c;
  fixture_init(&f, "sm_80");
  sn_program *p = compile_step(&f);
  setenv("SINTER_LIBCUDA", "/nowhere/libcuda.so", 1);
  ck_assert_int_eq(sn_driver_find("cuda")->check(f.d), SN_ERR_UNAVAILABLE);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(f.d, sn_diag_stored(f.d) - 1)->message, "/nowhere/libcuda.so"));
  if (p) ck_assert_int_eq(sn_context_create(f.d, p, NULL, &c), SN_ERR_UNAVAILABLE);
  /* A library that is no driver: the first function that is missing is named. */
  setenv("SINTER_LIBCUDA", "libm.so.6", 1);
  ck_assert_int_eq(sn_driver_find("cuda")->check(f.d), SN_ERR_VERSION);
  ck_assert_ptr_nonnull(strstr(sn_diag_get(f.d, sn_diag_stored(f.d) - 1)->message, "cuInit"));
  unsetenv("SINTER_LIBCUDA");
  sn_program_release(p);
  fixture_finish(&f);
}
END_TEST

START_TEST(the_table_holds_every_driver_once) {
  ck_assert_ptr_null(sn_driver_find("another"));
  for (size_t i = 0; sn_driver_at(i); i++) ck_assert_ptr_eq(sn_driver_find(sn_driver_at(i)->name), sn_driver_at(i));
}
END_TEST

/* A program for the null driver needs no code at all. */
START_TEST(null_gives_zeros) {
  fixture f;
  sn_program_spec s;
  sn_program *p;
  sn_context *c;
  fixture_init(&f, "sm_80");
  const sn_shape *shape = sn_shape_default_layout(f.arena, sn_shape_array(f.arena, SN_TYPE_F32, 1, (const int64_t[]){16}));
  sn_program_leaf result = {"out0", shape, -1, -1};
  memset(&s, 0, sizeof s);
  s.struct_size = sizeof s;
  s.name = "nothing";
  s.device = "null";
  s.n_results = 1;
  s.results = &result;
  ck_assert_int_eq(sn_program_build(f.d, &s, &p), SN_OK);
  ck_assert_int_eq(sn_context_create(f.d, p, NULL, &c), SN_OK);
  float *out = sn_alloc_aligned(64, 64), zeros[16] = {0};
  memset(out, 1, 64);
  void *results[] = {out};
  ck_assert_int_eq(sn_context_run(f.d, c, NULL, results), SN_OK);
  ck_assert_mem_eq(out, zeros, sizeof zeros);
  sn_free_aligned(out);
  sn_context_destroy(c);
  sn_program_release(p);
  fixture_finish(&f);
}
END_TEST

Suite *device_suite(void) {
  Suite *s = suite_create("device");
  TCase *t = tcase_create("device");
  tcase_set_timeout(t, 120);
  tcase_add_test(t, a_program_survives_its_file);
  tcase_add_test(t, no_driver_is_one_line);
  tcase_add_test(t, the_table_holds_every_driver_once);
  tcase_add_test(t, null_gives_zeros);
  suite_add_tcase(s, t);
  return s;
}
