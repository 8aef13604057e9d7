/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of the compile driver share. */
#ifndef SINTER_COMPILE_INTERNAL_H
#define SINTER_COMPILE_INTERNAL_H

#include "sinter/compiler.h"
#include "sinter/cpu.h"
#include "sinter/kernel.h"
#include "sinter/plan.h"
#include "sinter/target.h"
#include "sinter/text.h"

/* A kernel and the first instruction that needed it. */
typedef struct distinct_kernel {
  const sn_instr *instr;
  sn_kernel *kernel;
  uint64_t hash;
  struct distinct_kernel *next; /* in its hash slot */
} distinct_kernel;

enum { KERNEL_SLOTS = 512 };

/* A compile under way; everything lives in `arena`. */
typedef struct compile {
  sn_diag *d;
  const sn_compile_options *o;
  sn_arena *arena;
  sn_module *m; /* the copy that passes rewrote */
  sn_target target;
  sn_plan plan;
  int64_t work_bytes; /* workspace behind the plan's arena, shared by all commands */
  distinct_kernel *slots[KERNEL_SLOTS];
  uint32_t n_kernels, cap_kernels;
  sn_kernel **kernels;
  uint64_t *kernel_hashes; /* of those */
  uint32_t n_commands, cap_commands;
  sn_command *commands;
  sn_program_leaf *arguments, *results;
  uint32_t n_arguments, n_results;
} compile;

/* The kernel for an instruction: made, or found among those made for equal ones. *number: its place in c->kernels. */
sn_status sn_compile_kernel(compile *c, const sn_instr *i, uint32_t *number);
/* All commands of the entry. */
sn_status sn_compile_commands(compile *c);
sn_status sn_compile_leaves(compile *c);
/* The instruction as a module of its own (interpret.c). */
sn_status sn_compile_as_text(compile *c, const sn_instr *i, const char **out);
/* Machine code through libsinter-llvm.so; out of the cache where there is one (code_cache.c), and what that had as a line of the report. */
sn_status sn_compile_code(compile *c, const sn_cpu_lines *lines, sn_cpu_code *out);
sn_status sn_compile_cached_code(compile *c, const sn_cpu_lines *lines, sn_cpu_code *out, sn_compile_report *r);
sn_status sn_compile_register(sn_diag *d, const sn_cpu_object *o, const void *code); /* sn_cpu_register */
/* standalone.c: the option of that name. */
sn_status sn_compile_standalone(compile *c, const sn_cpu_code *code, const sn_program_kernel *kernels, sn_compile_report *r);
sn_status sn_compile_emitter(sn_diag *d, const char *function, void **out); /* of libsinter-llvm.so */
/* For perf and gdb (debug_lines.c), where SINTER_JIT_DUMP asks for it; else *out is NULL, which the others take. */
typedef struct sn_compile_debug sn_compile_debug;
sn_status sn_compile_debug_begin(compile *c, sn_compile_debug **out);
const sn_cpu_lines *sn_compile_debug_lines(const sn_compile_debug *g);
sn_status sn_compile_debug_write(compile *c, const sn_compile_debug *g, const sn_cpu_debug *d, const sn_program *p);
void sn_compile_debug_end(sn_compile_debug *g);
/* The path under which libsinter-llvm.so will be loaded; NULL: the system looks for it. */
const char *sn_compile_emitter_file(void);
/* The program around code: device NULL for the host, isa NULL for a device. */
sn_status sn_compile_program(compile *c, const sn_program_kernel *kernels, const char *device, const char *const *isa, const void *code, int64_t code_bytes, sn_program **out);
/* CUDA targets: kernels through NVRTC, and the program. */
sn_status sn_compile_gpu(compile *c, sn_program **out, sn_compile_report *r);
/* Behind the passes: products that are to run in tf32 are marked so, by their `algorithm`. */
sn_status sn_compile_precision(compile *c);
/* CUDA targets: a kernel's command becomes a library's where that is taken to be faster, or an option says so (library_gpu.c); bytes that its call may use. */
sn_status sn_compile_library(compile *c, const sn_instr *i, sn_command *m);
int64_t sn_compile_library_workspace(const compile *c, uint32_t kernel);
/* The modelled step as a table, for sn_free. */
struct sn_gpu_kernel;
sn_status sn_compile_model_gpu(compile *c, struct sn_gpu_kernel *const *all, char **out);
/* Texts of the report (stages.c). */
char *sn_compile_take_text(sn_str *s);
/* A new folder MODULE.N below `folder`. */
sn_status sn_compile_folder(sn_diag *d, const char *folder, const char *module, char *to, size_t bytes);
void sn_compile_keep_hlo(const compile *c, char **to);
void sn_compile_keep_plan(const compile *c, sn_compile_report *r);
void sn_compile_keep_kernels(const compile *c, sn_compile_report *r);

#endif
