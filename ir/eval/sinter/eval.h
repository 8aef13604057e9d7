/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The reference interpreter: plain loops straight from each op's definition. Slow and obviously right: the oracle of every pass and backend. */
#ifndef SINTER_EVAL_H
#define SINTER_EVAL_H

#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One row of the trace: an instruction and a summary of its result. */
typedef struct sn_eval_event {
  const sn_instr *instr;
  const sn_array *value;
  int process;             /* replica * num_partitions + partition */
  double min, max, mean;   /* over finite elements (real parts); 0 when there are none */
  int64_t n_nan, n_inf;
  double seconds;
} sn_eval_event;

/* A custom call's implementation: operands in, *out made by it (the instruction's shape is the contract). */
typedef sn_status (*sn_eval_custom_fn)(void *ctx, sn_diag *d, const sn_instr *i, int n, sn_array *const *operands, sn_array **out);
typedef struct sn_eval_custom { const char *target; sn_eval_custom_fn fn; void *ctx; } sn_eval_custom;

/* Where the module's own random numbers stand: how many `rng` has drawn; the state of rng-get-and-update-state. */
typedef struct sn_eval_draws { uint64_t counter, state[2]; } sn_eval_draws;

/* A value that sn_print or sn_probe of the graph builder shows. */
typedef struct sn_eval_look {
  int process;
  bool is_probe;
  const sn_instr *instr;
  const char *label, *file; /* file NULL: where it was written is not known */
  int32_t line;
  const sn_array *value;
} sn_eval_look;
/* `model.c:12: label: f32[2] {1, 2}`; of more than 32 elements the least, the largest and the mean. */
void sn_eval_look_text(sn_str *to, const sn_eval_look *l);

typedef struct sn_eval_options {
  size_t struct_size;
  sn_pool *pool;               /* NULL: one thread. The bits do not depend on it. */
  int replicas, partitions;    /* 0: as the module's header says, at least 1 */
  void (*trace)(void *ctx, const sn_eval_event *e); /* or NULL */
  void *trace_ctx;
  const char *const *trace_only; /* names to trace; NULL: all */
  bool stop_at_nan;            /* SN_ERR_MISMATCH naming the first instruction whose result holds a NaN its operands do not */
  const sn_eval_custom *customs; /* ends with target NULL; looked up before the built-in ones */
  int64_t max_bytes;           /* live values may take this much; 0: no limit. Beyond: SN_ERR_MEMORY */
  int64_t max_steps;           /* instructions to run, for fuzzing; 0: no limit. Beyond: SN_ERR_CANCELLED */
  bool stepwise;               /* sums over dimensions are rounded to the element type at every step (products of matrices: to f32), as StableHLO's own interpreter
                                * does: for values recorded that way. Else they are kept wide and rounded once. */
  const sn_computation *const *entries; /* of the same module, one a process, with the same parameters: what each runs; NULL: the module's entry */
  uint64_t seed;               /* of `rng` and rng-get-and-update-state */
  sn_array *const *infeed;     /* values for infeed in order; n_infeed of them (each process has its own cursor) */
  int n_infeed;
  void (*outfeed)(void *ctx, int process, const sn_array *value);
  void *outfeed_ctx;
  sn_eval_draws *draws;        /* one process only: where a run in pieces goes on, and where this piece ended; NULL: at the beginning. Begin with sn_eval_draws_init */
  void (*look)(void *ctx, const sn_eval_look *l); /* what sn_print shows; NULL: a line on standard error */
  void *look_ctx;
  bool probe;                  /* sn_probe shows its values too */
} sn_eval_options;
void sn_eval_draws_init(sn_eval_draws *w, uint64_t seed);
void sn_eval_options_init(sn_eval_options *o);

/* Runs the entry with n arguments (one per parameter; shapes must match), for a module of one process. *out: the root's value (a tuple array when it is one).
 * The arguments are only read. Errors name the instruction and its source line. */
SN_NODISCARD sn_status sn_eval(sn_diag *d, const sn_module *m, const sn_eval_options *o, int n, sn_array *const *args, sn_array **out);
/* The same for replicas x partitions processes in lock-step: args[process * n + k]; out[process]. */
SN_NODISCARD sn_status sn_eval_replicated(sn_diag *d, const sn_module *m, const sn_eval_options *o, int n, sn_array *const *args, sn_array **out);
/* One computation on given arguments, for folding and tests. */
SN_NODISCARD sn_status sn_eval_computation(sn_diag *d, const sn_computation *c, const sn_eval_options *o, int n, sn_array *const *args, sn_array **out);
/* One instruction on given operand values (no control flow state needed), for constant folding. */
SN_NODISCARD sn_status sn_eval_instr(sn_diag *d, const sn_instr *i, const sn_eval_options *o, sn_array *const *operands, sn_array **out);

/* One elementwise op on n elements laid out as in arrays, with HLO's meaning for every type: what other evaluators (of kernels) stand on.
 * a, b: compare's direction and total order (0/1); reduce-precision's exponent and mantissa bits. False: not defined for these types. */
bool sn_eval_elements(sn_opcode op, int n_in, const sn_type *in, sn_type out, int64_t a, int64_t b, int64_t n, void *result, const void *const *operands);

#ifdef __cplusplus
}
#endif
#endif
