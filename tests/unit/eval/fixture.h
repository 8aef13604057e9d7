/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Small modules built by hand, one entry computation each, and values for them. */
#ifndef SINTER_TEST_EVAL_FIXTURE_H
#define SINTER_TEST_EVAL_FIXTURE_H

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/build.h"
#include "sinter/eval.h"

typedef struct fixture {
  sn_diag *d;
  sn_module *m;
  sn_computation *entry;
  sn_builder b;
  int n_params;
} fixture;

void fixture_open(fixture *f);
void fixture_close(fixture *f);
const sn_shape *fixture_shape(fixture *f, sn_type t, int rank, const int64_t *dims);
sn_instr *fixture_param(fixture *f, sn_type t, int rank, const int64_t *dims);
/* A reducer or any other helper computation: a builder of its own in the module. */
void fixture_helper(fixture *f, const char *name, sn_builder *b);
/* Runs the entry with `root` as its root; fails the test with the diagnostics when it does not work. */
sn_array *fixture_run(fixture *f, sn_instr *root, int n, sn_array *const *args, sn_pool *pool);
void fixture_print(const fixture *f);

/* Values: made from doubles (complex: pairs), read back as doubles. */
sn_array *array_of(sn_type t, int rank, const int64_t *dims, const double *values);
sn_array *array_random(sn_type t, int rank, const int64_t *dims, uint32_t seed, double scale);
double array_at(const sn_array *a, int64_t k);
#define DIMS(...) \
  (const int64_t[]) { __VA_ARGS__ }

TCase *elementwise_cases(void);
TCase *array_cases(void);
TCase *text_cases(void);
TCase *parallel_cases(void);

#endif
