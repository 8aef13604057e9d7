/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Passes: the runner, the table of passes, pipelines as data, remarks. */
#ifndef SINTER_PASSES_H
#define SINTER_PASSES_H

#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numeric class of a pass: what it may change of results. */
typedef enum sn_numeric { SN_EXACT /* bit-equal in the interpreter */, SN_REASSOC /* sums regrouped */, SN_FORMULA /* another formula, equal in exact arithmetic */ } sn_numeric;

/* Properties that a pass needs, keeps or establishes. */
typedef enum sn_property {
  SN_P_NONE = 0,
  SN_P_CANONICAL = 1 << 0, /* no calls, no tuples inside, canonical dots */
  SN_P_LAYOUT = 1 << 1,    /* every array shape has a layout */
  SN_P_FUSED = 1 << 2,     /* every non-trivial instruction sits in a fusion */
  SN_P_SCHEDULE = 1 << 3,  /* order is the schedule */
  SN_P_BUFFERS = 1 << 4    /* slices are assigned */
} sn_property;

typedef enum sn_pass_id {
#define SN_PASS(id, text, numeric, needs, breaks, makes, what) SN_PASS_##id,
#include "sinter/passes.def"
#undef SN_PASS
  SN_PASS_COUNT
} sn_pass_id;

typedef struct sn_pass_info { const char *text; sn_numeric numeric; uint32_t needs, breaks, makes; const char *what; } sn_pass_info;
extern const sn_pass_info sn_passes[SN_PASS_COUNT];
bool sn_pass_from_text(const char *text, size_t n, sn_pass_id *out);

/* Reasons that remarks give: one row each in reasons.def: SN_REASON(ID, "text", "meaning"). */
typedef enum sn_reason {
#define SN_REASON(id, text, meaning) SN_REASON_##id,
#include "sinter/reasons.def"
#undef SN_REASON
  SN_REASON_COUNT
} sn_reason;
const char *sn_reason_text(sn_reason r);
const char *sn_reason_meaning(sn_reason r);

typedef enum sn_verdict { SN_DONE, SN_REFUSED, SN_INFO } sn_verdict;
/* Numbers that decided, by name: {"saves_us", 3.1}. */
typedef struct sn_number { const char *name; double value; } sn_number;
typedef struct sn_remark {
  sn_pass_id pass;              /* SN_PASS_COUNT: the compiler, behind the passes */
  sn_verdict verdict;
  sn_reason reason;
  const char *subject, *object; /* instruction names; object may be NULL */
  sn_loc loc;                   /* of the subject */
  const char *source;           /* "file:line" of the model's source, or NULL */
  int n_numbers;
  const sn_number *numbers;
  const char *text;             /* free words, or NULL */
} sn_remark;

/* A log of remarks, in order. Owned by the caller of the runner; NULL: none wanted. */
typedef struct sn_remarks sn_remarks;
SN_NODISCARD sn_status sn_remarks_create(sn_remarks **out);
void sn_remarks_destroy(sn_remarks *r);
void sn_remarks_clear(sn_remarks *r);                       /* empties the log; what sn_remarks_get gave is gone. r may be NULL */
size_t sn_remarks_count(const sn_remarks *r);
const sn_remark *sn_remarks_get(const sn_remarks *r, size_t i);
void sn_remark_print(sn_str *to, const sn_remark *r);      /* `fusion: done: add.3 into dot.1: saves_us=3.1 …` */
void sn_remark_print_json(sn_str *to, const sn_remark *r);

/* What every pass gets. Passes are `sn_status sn_pass_<id>(sn_pass_ctx *, sn_module *)`. */
typedef struct sn_pass_ctx {
  sn_diag *diag;
  sn_arena *scratch;          /* reset between passes: analyses indexed by instruction id live here */
  sn_pool *pool;              /* may be NULL */
  bool changed;               /* the pass sets it when it edited the module */
  sn_numeric numeric;         /* the loosest class allowed: SN_EXACT under --numeric=strict */
  const struct sn_target *target;   /* machine description (passes/cost); NULL: the generic one */
  const struct sn_pass_options *options;
  sn_pass_id pass;            /* the running one, for remarks */
  sn_remarks *remarks;
  int64_t applications_left;  /* --limit=PASS:N for this pass; passes ask sn_pass_may() before each rewrite */
  void *pass_state;
} sn_pass_ctx;
/* May the pass apply one more rewrite? Counts it. */
bool sn_pass_may(sn_pass_ctx *pc);
void sn_pass_remark(sn_pass_ctx *pc, sn_verdict v, sn_reason r, const sn_instr *subject, const sn_instr *object, int n, const sn_number *numbers, const char *text);

#define SN_PASS(id, text, numeric, needs, breaks, makes, what) sn_status sn_pass_##id(sn_pass_ctx *pc, sn_module *m);
#include "sinter/passes.def"
#undef SN_PASS

typedef struct sn_pass_options {
  size_t struct_size;
  int opt_level;                  /* 0…3 */
  sn_numeric numeric;             /* loosest class allowed; default SN_FORMULA */
  const struct sn_target *target; /* NULL: generic for the pipeline */
  const char *layout;             /* "auto", "nhwc", "nchw" */
  const char *attention;          /* "auto": by cost; "fused" wherever it can be, "eager" */
  bool tf32;                      /* f32 products that ask for nothing will run on tensor cores: for costs alone */
  int64_t memory_limit;           /* bytes; 0: none */
  uint64_t seed;                  /* of the numbers that `rng` draws */
  bool verify_each;
  const char *const *disable;     /* pass names; ends with NULL; or NULL */
  const char *limit;              /* "PASS:N" or NULL */
  const char *stop_after;         /* pass name or NULL; "PASS" or "PASS#k" for its k-th run */
  void (*after)(void *ctx, sn_pass_id p, int run, const sn_module *m, bool changed); /* print-after, oracle tests; or NULL */
  void *after_ctx;
  sn_remarks *remarks;
  sn_pool *pool;
  bool stepwise;                  /* folded sums are rounded as sn_eval_options.stepwise says */
} sn_pass_options;
void sn_pass_options_init(sn_pass_options *o);
/* SN_ERR_USAGE for a limit, a stop or a disabled pass that names none; running passes says the same. */
SN_NODISCARD sn_status sn_pass_options_check(sn_diag *d, const sn_pass_options *o);

typedef struct sn_pass_time { sn_pass_id pass; int runs, changes; double seconds; int64_t instrs_before, instrs_after; } sn_pass_time;
typedef struct sn_pass_report { int n; sn_pass_time times[SN_PASS_COUNT + 1]; double seconds; } sn_pass_report;

/* Runs the named passes in order ("dce,cse"), or a pipeline ("cpu", "cuda", "op-by-op"). The runner alone times, prints, verifies, checks needs, limits, disables.
 * report may be NULL. */
SN_NODISCARD sn_status sn_passes_run(sn_diag *d, sn_module *m, const char *names, const sn_pass_options *o, sn_pass_report *report);
SN_NODISCARD sn_status sn_pipeline_run(sn_diag *d, sn_module *m, const char *pipeline, const sn_pass_options *o, sn_pass_report *report);

#ifdef __cplusplus
}
#endif
#endif
