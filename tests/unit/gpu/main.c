/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <stdlib.h>
#include <string.h>

#include "gpu_tests.h"

void fixture_init(fixture *f, const char *target) {
  memset(f, 0, sizeof *f);
  ck_assert_int_eq(sn_arena_create(&f->arena), SN_OK);
  ck_assert_int_eq(sn_diag_create(&f->d), SN_OK);
  ck_assert_int_eq(sn_target_find(f->d, f->arena, target, &f->target), SN_OK);
}

void fixture_finish(fixture *f) {
  sn_module_destroy(f->m);
  sn_diag_destroy(f->d);
  sn_arena_destroy(f->arena);
}

sn_status emit_hlo(fixture *f, const char *text, sn_kernel **k, sn_gpu_kernel *g) {
  sn_module_destroy(f->m);
  f->m = NULL;
  SN_TRY(sn_hlo_parse(f->d, "test.hlo", text, strlen(text), &f->m));
  SN_TRY(sn_lower_instr(f->d, f->arena, f->m->entry->root, &f->target, k));
  return sn_gpu_emit(f->d, f->arena, *k, &f->target, SN_GPU_AS_IS, g);
}

sn_nvrtc *open_nvrtc(fixture *f) {
  sn_nvrtc *n;
  if (sn_nvrtc_open(f->d, &n) == SN_OK) return n;
  printf("not run: %s\n", first_message(f));
  return NULL;
}

const char *first_message(const fixture *f) { return sn_diag_stored(f->d) ? sn_diag_get(f->d, 0)->message : ""; }

int main(void) {
  SRunner *r = srunner_create(emit_suite());
  srunner_add_suite(r, nvrtc_suite());
  srunner_add_suite(r, cache_suite());
  srunner_add_suite(r, device_suite());
  srunner_add_suite(r, library_suite());
  srunner_run_all(r, CK_NORMAL);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
