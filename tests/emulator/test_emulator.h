/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Small kernels in PTX, run by the interpreter without a driver around it. */
#ifndef SINTER_TEST_EMULATOR_H
#define SINTER_TEST_EMULATOR_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"

/* A module of one kernel `k` with parameters `in` and `out` (u64), some registers of each kind, and %tid.x in %r0. The body stands inside. */
char *test_module(const char *declarations, const char *body); /* freed by free() */

typedef struct test_run {
  uint32_t blocks, threads, shared;
  const void *in;
  size_t in_bytes;
  void *out;
  size_t out_bytes;
  emu_counters counters;
  emu_fault fault;
} test_run;
/* Reads the module, runs k, copies out back. false: a fault; one of reading fails the test. */
bool test_execute(const char *text, test_run *r);
/* Checks of SINTER_EMU_CHECK for what follows. */
void test_checks(const char *checks);

Suite *ptx_suite(void), *instruction_suite(void), *warp_suite(void), *check_suite(void), *product_suite(void), *driver_suite(void), *runtime_suite(void);

#endif
