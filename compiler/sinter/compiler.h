/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The compiler: from any verified module to a program. Runs the pipeline on a copy, lowers each distinct fusion to a kernel, emits code, lays out the commands. */
#ifndef SINTER_COMPILER_H
#define SINTER_COMPILER_H

#include "sinter/passes.h"
#include "sinter/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_compile_options {
  size_t struct_size;
  const char *engine;       /* "fused" (default) or "op-by-op" */
  const char *target;       /* sn_target_find's names; NULL: native */
  int opt_level;            /* default 2 */
  const char *precision;    /* "program" (default, or NULL): f32 products are f32 unless the program asks otherwise; "tf32": those that ask for nothing run on a GPU's tensor cores */
  const char *library;      /* products alone on a GPU by cuBLASLt: "auto" (default, or NULL) where it is taken to be faster, "none", "cublaslt" wherever it can */
  sn_pass_options passes;   /* numeric, layout, memory limit, remarks, … (target, pool, opt_level are filled in) */
  sn_pool *pool;            /* compile on it; may be NULL */
  const char *dump_to;      /* every stage as files in a folder of its own below this one, of a compile that fails those it got to; NULL: SINTER_DUMP_TO */
  bool keep_texts;          /* fill the texts of the report */
  const char *cache_dir;    /* compiled kernels (CPU targets: not with keep_texts, nor under SINTER_JIT_DUMP); NULL: SINTER_CACHE_DIR, unset or empty: none */
  bool standalone;          /* CPU targets: also the program as code that needs no runtime; the report has it */
  bool interpret;           /* instructions without code become commands for the host's interpreter (sn_context_options.custom_call) instead of being refused */
} sn_compile_options;
void sn_compile_options_init(sn_compile_options *o);

typedef struct sn_compile_report {
  double passes_s, lower_s, emit_s, total_s;
  sn_pass_report passes;
  int64_t n_kernels, n_distinct, n_commands, arena_bytes, code_bytes;
  /* keep_texts: freed by sn_compile_report_finish, after a failure too */
  char *hlo, *optimized;    /* as it came, behind the passes */
  char *schedule, *buffers; /* the order of the run; the plan and who owns its peak */
  char *kernels, *program;
  char *llvm, *assembly;    /* CPU targets */
  char *cuda, *ptx;         /* CUDA targets */
  char *resources;          /* a line a launch: registers, spills, shared memory, blocks of threads */
  char *model;              /* CUDA targets: a line a launch, what it does and how long the machine described is taken to need; sums */
  /* standalone: one blob without relocations, int32_t (*)(void *const *arguments, void *const *results, void *work) at offset `entry`; `work`: 64-byte aligned */
  void *alone;
  int64_t alone_bytes, alone_entry, alone_work_bytes;
  char *cache;              /* also without keep_texts: the key, what the cache had, why code was compiled (CUDA targets: a line a kernel) */
} sn_compile_report;
void sn_compile_report_finish(sn_compile_report *r);
/* Stages by the names of sinter-dump, in their order: the i-th, NULL behind the last; the text that a report keeps, NULL: none. */
const char *sn_compile_stage(int i);
const char *sn_compile_report_text(const sn_compile_report *r, const char *stage);
/* The texts as files in a new folder MODULE.N below `folder`; only: NULL, or the one stage to write. */
SN_NODISCARD sn_status sn_compile_report_write(sn_diag *d, const sn_compile_report *r, const char *folder, const char *module, const char *only);

/* The module is not changed. report may be NULL. CPU targets need libsinter-llvm.so, CUDA targets NVRTC (SN_ERR_UNAVAILABLE with the reason where it cannot be loaded). */
SN_NODISCARD sn_status sn_compile(sn_diag *d, const sn_module *m, const sn_compile_options *o, sn_program **out, sn_compile_report *report);

/* Can this process compile (libsinter-llvm.so loads)? The reason not on d. */
bool sn_compiler_available(sn_diag *d);

/* Lowering, for tools and tests. An instruction of a compiled entry (a fusion, or a single op) as a kernel: arguments are the operands in order, then the result leaves,
 * then workspaces. SN_ERR_UNSUPPORTED names what has no lowering. */
struct sn_kernel;
SN_NODISCARD sn_status sn_lower_instr(sn_diag *d, sn_arena *a, const sn_instr *i, const struct sn_target *t, struct sn_kernel **out);

#ifdef __cplusplus
}
#endif
#endif
