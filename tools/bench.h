/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the parts of sinter-bench share. */
#ifndef TOOLS_BENCH_H
#define TOOLS_BENCH_H

#include "options.h"
#include "sinter/compiler.h"
#include "sinter/data.h"
#include "source.h"

/* ---- what is measured ---------------------------------------------------------------------------------------------------------- */

typedef enum bench_fill_kind { BENCH_UNIFORM /* [-scale, scale) */, BENCH_ZERO, BENCH_BELOW /* integers in [0, scale) */ } bench_fill_kind;
typedef struct bench_fill {
  bench_fill_kind kind;
  double scale;
} bench_fill;

typedef struct bench_step bench_step; /* a training step built from a model; bench_models.c */

/* A module, its first arguments and what a step of it is worth. */
typedef struct bench_subject {
  const char *name;
  sn_module *module;
  int64_t batch;        /* samples a step; 1 where there are none */
  double flops;         /* nominal, a step: what the definition asks for, recomputation not counted */
  const char *layout;   /* of images; "none" */
  bench_fill *fills;    /* one a parameter; NULL: `step` or random ones */
  bench_step *step;     /* NULL: no model of frontends/nn */
  sn_source source;     /* of a FILE */
  const char *seed;     /* of a FILE's arguments: "random:N" */
} bench_subject;

typedef struct bench_request {
  const char *model;    /* a row of bench_models.c, or a file */
  int64_t batch;        /* 0: the model's own */
  const char *layout;   /* "nhwc", "nchw", "auto" */
  bool split;
} bench_request;

bool bench_model_known(const char *name);
const char *bench_model_names(void);
SN_NODISCARD sn_status bench_subject_open(sn_diag *d, const bench_request *r, bench_subject *out);
void bench_subject_close(bench_subject *s);
/* The arguments of a first step, the same at each call: one a parameter, freed by sn_arrays_release. */
SN_NODISCARD sn_status bench_arguments(sn_diag *d, const bench_subject *s, sn_array ***out);
/* Batches for the step's last two arguments. SN_ERR_USAGE where the subject does not read images. */
SN_NODISCARD sn_status bench_loader_open(sn_diag *d, const bench_subject *s, sn_pool *pool, sn_dataset **set, sn_loader **out);
/* 2 M N K of every dot and convolution; bodies of loops count once. */
double bench_nominal_flops(const sn_computation *c);

/* bench_small.c: steps written out as the small experiments have them, nothing but values and updates; a module and one fill a parameter, freed by sn_free. */
typedef struct bench_small {
  const char *name;
  int64_t batch;
  sn_status (*build)(sn_diag *d, int64_t batch, sn_module **out, bench_fill **fills);
} bench_small;
const bench_small *bench_small_find(const char *name);

/* ---- the machine ----------------------------------------------------------------------------------------------------------------- */

typedef struct bench_machine {
  char cpu[128], isa[64];
  int threads;
  double fma_peak_gflops; /* all threads together */
  double memory_gbs;      /* bytes read and written */
} bench_machine;
void bench_machine_describe(sn_pool *pool, bench_machine *m);
/* The larger of what was known and what is measured now: others may have been at work the first time. */
void bench_machine_measure_fma(sn_pool *pool, bench_machine *m);
void bench_machine_measure_memory(sn_pool *pool, bench_machine *m);
/* A description for SINTER_MACHINE. */
SN_NODISCARD sn_status bench_machine_write(sn_diag *d, sn_pool *pool, bench_machine *m, const char *path);

/* ---- running ---------------------------------------------------------------------------------------------------------------------- */

typedef struct bench_times {
  double mean, best, p50, p95; /* seconds a step */
  int64_t n, calls;            /* steps that count; calls that make one of them, timed together */
} bench_times;

typedef struct bench_result {
  char engine[32];
  char why_not[160];     /* "": it ran */
  bool compiled;
  double compile_s, passes_s, lower_s, emit_s;
  bench_times times;
  int64_t n_commands, n_distinct, plan_bytes, rss_peak_bytes;
  double max_error;      /* of the first step against the interpreter, relative to the largest element of each result; negative: not compared */
} bench_result;

typedef struct bench_options {
  int64_t steps, warmup; /* warmup < 0: 10, or a third of the steps when they are few */
  bool loader, check, force_check;
  sn_pool *pool;
  sn_compile_options compile; /* all but the engine */
} bench_options;

/* Runs the subject on an engine ("fused", "op-by-op", "interpreter"). `check`: what to compare with the interpreter on, which may be s itself or smaller.
 * What an engine cannot do is told in why_not; other failures are statuses. */
SN_NODISCARD sn_status bench_run(sn_diag *d, const bench_subject *s, const bench_subject *check, const char *engine, const bench_options *o, bench_result *out);
/* Seconds a call takes, in samples of equal numbers of calls. fn is called once beforehand. */
typedef sn_status (*bench_call)(void *ctx, sn_diag *d);
SN_NODISCARD sn_status bench_time(sn_diag *d, bench_call fn, void *ctx, int64_t steps, int64_t warmup, bench_times *out);

/* A program with its memory bound once; results live in their arguments where the program aliases them. */
typedef struct bench_bound {
  sn_program *program;
  sn_context *context;
  void **arguments, **results;
  int64_t bytes; /* of arguments and of results that have memory of their own */
} bench_bound;
SN_NODISCARD sn_status bench_bind(sn_diag *d, sn_program *p, sn_pool *pool, bench_bound *out);
SN_NODISCARD sn_status bench_bound_set(sn_diag *d, bench_bound *b, uint32_t n, sn_array *const *args); /* copies; tuples leaf by leaf */
void bench_unbind(bench_bound *b);

/* ---- peers and what is shown -------------------------------------------------------------------------------------------------------- */

enum { BENCH_MAX_PEERS = 8, BENCH_MAX_ENGINES = 8 };

typedef struct bench_peer {
  char name[48];     /* "jax 0.10.2" */
  char why_not[200]; /* "": it ran */
  double compile_s;
  bench_times times;
  int64_t rss_peak_bytes;
} bench_peer;
/* Each of the comma separated peers in a process of its own, on the subject's shapes. */
void bench_peers_run(const char *list, const char *dir, const bench_subject *s, const bench_options *o, bench_peer *out, int *n);

typedef struct bench_report {
  const bench_subject *subject;
  const bench_machine *machine;
  const char *precision;
  int n_results, n_peers;
  bench_result results[BENCH_MAX_ENGINES];
  bench_peer peers[BENCH_MAX_PEERS];
} bench_report;
void bench_print_table(const bench_report *r, bool colour);
void bench_print_json(const bench_report *r); /* one line */

#endif
