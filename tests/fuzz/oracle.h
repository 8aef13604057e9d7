/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#ifndef SINTER_FUZZ_ORACLE_H
#define SINTER_FUZZ_ORACLE_H

#include "sinter/eval.h"
#include "sinter/passes.h"

typedef struct oracle {
  const char *pipeline;
  sn_numeric numeric;  /* SN_EXACT: strict, compared by bits (NaN is NaN, whatever its payload); else by `tolerance` of the output's largest finite value */
  double tolerance;
  uint64_t seed;       /* of the arguments */
  /* What went wrong: */
  sn_pass_id pass;
  int run;             /* -1: nothing did; 0: the pipeline itself failed */
  char what[512];
} oracle;

/* Random arguments for the entry's parameters: n_params of them, each to be released. NULL: out of memory. */
sn_array **oracle_args(const sn_module *m, uint64_t seed);
sn_array **oracle_args_plain(const sn_module *m, uint64_t seed); /* without infinities, NaN and the like */
void oracle_args_release(const sn_module *m, sn_array **args);
/* Runs the pipeline on a copy; behind every pass that changed it the module is printed, parsed, verified and interpreted.
 * False: it differs (o says where), or could not be run. *skipped: the interpreter refuses the program, or it takes too long. */
bool oracle_check(const sn_module *m, oracle *o, bool *skipped);

/* A program from a seed. NULL: a bug of the generator, printed. */
sn_module *random_hlo(uint64_t seed);
/* A smaller module that still fails; m itself is left alone. */
sn_module *shrink(const sn_module *m, const oracle *o);

#endif
