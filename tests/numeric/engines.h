/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef NUMERIC_ENGINES_H
#define NUMERIC_ENGINES_H

#include "sinter/base.h"
#include "sinter/ir.h"

typedef struct tally { int n_run, n_skipped, n_failed; } tally;

/* The module through both engines beside the interpreter. False: they disagree, which is printed and counted. special: infinities, NaN, denormals among the arguments. */
bool engines_check(const char *name, const sn_module *m, sn_pool *pool, uint64_t seed, bool special, double units, tally *t);
/* Ops x types x shapes. type NULL: all. */
void engines_table(const char *type, sn_pool *pool, tally *t);
/* Orders of dimensions x windows x groups; type NULL: f32, f64, bf16, f16. */
void engines_convolutions(const char *type, sn_pool *pool, tally *t);

#endif
