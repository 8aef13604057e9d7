/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The seam between the tools and what runs a module: prepare once, call many times. */
#ifndef TOOLS_ENGINE_H
#define TOOLS_ENGINE_H

#include "options.h"
#include "sinter/passes.h"
#include "sinter/program.h"

typedef struct sn_engine_setup {
  sn_pool *pool;    /* borrowed; NULL: one thread. Results do not depend on it. */
  bool stop_at_nan; /* SN_ERR_MISMATCH naming the first instruction that makes a NaN out of none */
  bool probe;       /* sn_probe shows its values */
  uint64_t seed;    /* of the module's own random state (`rng`) */
  const char *device; /* "cpu" (or NULL), "cuda" */
  const char *library;   /* "auto" (or NULL), "none", "cublaslt" */
  const char *precision; /* "program" (or NULL), "tf32" */
  const char *target; /* NULL: this machine's, or its device's */
  const sn_pass_options *passes; /* for engines that compile; NULL: the defaults. Only read by prepare. */
  bool stepwise;      /* what is interpreted, or folded, sums as sn_eval_options.stepwise says: for programs that check themselves against recorded values */
  bool donate;      /* arrays that the module takes over (input_output_alias) and nobody else holds are updated in place; false: arguments are only read */
} sn_engine_setup;

/* One row per engine in engine.c. */
typedef struct sn_engine {
  const char *name;
  /* The module stays the caller's and must outlive the program. */
  sn_status (*prepare)(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out);
  /* One array per parameter of the entry; *out: the root's value, a tuple array when it is one. */
  sn_status (*call)(sn_diag *d, void *program, int n, sn_array *const *args, sn_array **out);
  void (*release)(void *program);
} sn_engine;

/* NULL: no engine of that name. */
const sn_engine *sn_engine_find(const char *name);

/* A module that is ready to run on some engine. */
typedef struct sn_runnable {
  const sn_engine *engine;
  void *program;
} sn_runnable;
SN_NODISCARD sn_status sn_runnable_init(sn_diag *d, const sn_engine *e, const sn_engine_setup *setup, const sn_module *m, sn_runnable *out);
/* A program that was compiled before: of the setup, pool, seed and donate count. */
SN_NODISCARD sn_status sn_runnable_from_program(sn_diag *d, const sn_engine_setup *setup, sn_program *p, sn_runnable *out);
SN_NODISCARD sn_status sn_runnable_call(sn_diag *d, const sn_runnable *r, int n, sn_array *const *args, sn_array **out);
void sn_runnable_finish(sn_runnable *r);

/* Device and target from the rows of sn_options_engine. */
void sn_engine_setup_from_options(const sn_options *o, sn_engine_setup *setup);
/* A pool of --threads, owned by the caller. */
SN_NODISCARD sn_status sn_pool_from_options(sn_diag *d, const sn_options *o, sn_pool **pool);
/* From the rows of sn_options_engine: the engine and a pool of --threads (owned by the caller). Without --engine: SINTER_ENGINE, else `preferred`, or the interpreter
 * with a note where this machine cannot compile. */
SN_NODISCARD sn_status sn_engine_from_options(sn_diag *d, const sn_options *o, const char *preferred, const sn_engine **engine, sn_pool **pool);

/* The compiling engines (engine_compiled.c). */
sn_status sn_engine_fused_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out);
sn_status sn_engine_op_by_op_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out);
sn_status sn_engine_compiled_call(sn_diag *d, void *program, int n, sn_array *const *args, sn_array **out);
void sn_engine_compiled_release(void *program);

#endif
