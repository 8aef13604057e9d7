/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What goes into a run and what comes out: arguments from files, literals and seeds; results against files, with tolerances; shards of global arrays. */
#ifndef TOOLS_ARRAYS_H
#define TOOLS_ARRAYS_H

#include "options.h"
#include "sinter/files.h"
#include "sinter/ir.h"

/* What the golden index says of one argument or result. */
typedef struct sn_expectation {
  double rtol, atol;
  int rank;                  /* of the sharding; 0: replicated */
  int64_t parts[SN_MAX_RANK]; /* shards of each dimension */
  int64_t *part_of;          /* device * rank + dimension: which shard of it the device holds; NULL: replicated */
} sn_expectation;

/* --tolerances=index.json:NAME */
typedef struct sn_golden {
  int n_devices;
  int n_args, n_outs;
  sn_expectation *args, *outs;
  sn_arena *arena;
} sn_golden;
SN_NODISCARD sn_status sn_golden_read(sn_diag *d, const char *spec, sn_golden *out);
void sn_golden_finish(sn_golden *g);

/* One array a parameter of m's entry, in global shape, from the --input texts. *out: n_params arrays, each retained; freed by sn_arrays_release. */
SN_NODISCARD sn_status sn_inputs_read(sn_diag *d, const sn_module *m, size_t n, const char *const *inputs, const sn_golden *g, sn_array ***out);
void sn_arrays_release(size_t n, sn_array **v);

/* The shard of a global array that a device holds, as shape `local`; and a global array put together from n devices' shards. */
SN_NODISCARD sn_status sn_shard_take(sn_diag *d, const sn_array *global, const sn_expectation *e, int device, sn_array **out);
SN_NODISCARD sn_status sn_shards_join(sn_diag *d, int n, sn_array *const *shards, const sn_expectation *e, sn_array **out);

/* Prints the worst element of each result to stdout; SN_ERR_MISMATCH when one is outside its tolerance. `want` by name `outN`. */
SN_NODISCARD sn_status sn_results_compare(sn_diag *d, int n, sn_array *const *got, const sn_bundle *want, const sn_golden *g, double rtol, double atol);

#endif
