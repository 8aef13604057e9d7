/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels built by hand, compiled for a target and run here. */
#ifndef CPU_TESTS_H
#define CPU_TESTS_H

#include "sinter/cpu.h"
#include "sinter/program.h"

#include <check.h>

typedef struct built {
  sn_arena *arena;
  sn_kernel *k;
  sn_kbuilder b;
} built;

void built_begin(built *t, const char *name);
int built_buffer(built *t, sn_kmemory memory, sn_type type, int64_t n);          /* rank 1 */
int built_buffer2(built *t, sn_kmemory memory, sn_type type, int64_t n, int64_t m);
void built_phase(built *t, int n_grid, const int64_t *grid);                      /* opens the phase's body */
const sn_ix *built_const(built *t, int64_t v);
const sn_ix *built_grid(built *t, int d);
/* Compiles for every target this CPU can run ("native", v4, v3, v2), runs all items, and calls `check(ctx)` after each. */
void built_run(built *t, void *const *args, void (*check)(void *ctx, const char *target), void *ctx);
void built_end(built *t);
bool can_run(const char *target);
/* One compile and run for one target. */
void built_run_on(built *t, const char *target, void *const *args);

TCase *case_loops(void);
TCase *case_control(void);
TCase *case_contract(void);
TCase *case_copy(void);
TCase *case_math(void);

#endif
