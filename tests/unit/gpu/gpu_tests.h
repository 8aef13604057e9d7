/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef GPU_TESTS_H
#define GPU_TESTS_H

#include <check.h>

#include "sinter/compiler.h"
#include "sinter/gpu.h"
#include "sinter/target.h"
#include "sinter/text.h"

typedef struct fixture {
  sn_arena *arena;
  sn_diag *d;
  sn_target target;
  sn_module *m;
} fixture;

void fixture_init(fixture *f, const char *target);
void fixture_finish(fixture *f);
/* The root of an HLO entry (parameters p0, p1, … are in `text`), lowered and emitted. */
sn_status emit_hlo(fixture *f, const char *text, sn_kernel **k, sn_gpu_kernel *g);
/* NULL: not on this machine. */
sn_nvrtc *open_nvrtc(fixture *f);
const char *first_message(const fixture *f);

Suite *emit_suite(void);
Suite *nvrtc_suite(void);
Suite *cache_suite(void);
Suite *device_suite(void);
Suite *library_suite(void);

#endif
