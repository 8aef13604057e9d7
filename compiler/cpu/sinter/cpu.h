/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From kernels to machine code through LLVM's C API. Lives in libsinter-llvm.so, which compiler/ loads at the first compile; nothing else links LLVM. */
#ifndef SINTER_CPU_H
#define SINTER_CPU_H

#include "sinter/kernel.h"
#include "sinter/program.h"
#include "sinter/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Line tables (DWARF 4): where the instructions of a kernel stand in a text of HLO. */
typedef struct sn_cpu_lines {
  const char *folder, *file; /* of the text */
  /* The line of the instruction of this name in kernel number `kernel`, or of the kernel's own instruction (name NULL, or unknown); from 1. Asked from several threads. */
  uint32_t (*line)(const void *ctx, int kernel, const char *name);
  const void *ctx;
} sn_cpu_lines;

typedef struct sn_cpu_options {
  size_t struct_size;
  const sn_target *target;  /* names, features, vector width */
  int opt_level;            /* 0…3 */
  sn_pool *pool;            /* kernels compile in parallel, one LLVM context a worker; NULL: one thread */
  bool want_llvm, want_asm; /* also keep the text of each kernel's IR and assembly */
  const sn_cpu_lines *lines; /* line tables, and the tables of debug; NULL: none */
} sn_cpu_options;

typedef struct sn_cpu_kernel {
  const int64_t *phase_offsets; /* of each phase's sn_kernel_fn in the blob */
  const char *llvm, *assembly;  /* or NULL */
} sn_cpu_kernel;

/* What debuggers and profilers want to know of the blob; empty without sn_cpu_options.lines. */
typedef struct sn_cpu_symbol { const char *name; int64_t offset, bytes; } sn_cpu_symbol; /* functions, by offset */
typedef struct sn_cpu_line { int64_t offset; uint32_t line; } sn_cpu_line;               /* from here on, by offset; line 0: none */
typedef struct sn_cpu_object { const char *label; const void *data; size_t bytes; } sn_cpu_object; /* ELF, not linked; sections' addresses are offsets in the blob */
typedef struct sn_cpu_debug {
  int n_symbols, n_lines, n_objects;
  sn_cpu_symbol *symbols;
  sn_cpu_line *lines;
  sn_cpu_object *objects;
} sn_cpu_debug;

/* One position-independent blob; relocations resolved, calls only through the imports table. */
typedef struct sn_cpu_code {
  void *code;               /* owned: sn_free_aligned */
  int64_t bytes;
  int n_kernels;
  sn_cpu_kernel *kernels;   /* in the arena given */
  const char *const *isa;   /* features the code needs; ends with NULL */
  uint64_t imports;         /* rows of imports.def that the code calls, a bit each */
  sn_cpu_debug debug;       /* in the arena given */
} sn_cpu_code;

/* What a program does, as code of its own (walk.c). */
typedef struct sn_cpu_walk {
  uint32_t n_commands, n_constants;
  const sn_command *commands;
  const sn_program_kernel *kernels; /* phases: code_offset, n_items */
  const void *code;                 /* of the kernels, which call no import */
  int64_t code_bytes;
  const void *const *constants;
  const int64_t *constant_bytes;
  int64_t scratch_offset;           /* of the kernels' scratch in `work`, behind the arena */
} sn_cpu_walk;
/* One blob without relocations, with int32_t (*)(void *const *arguments, void *const *results, void *work) at *entry, which gives 0. out: code and bytes alone.
 * SN_ERR_UNSUPPORTED names a command that needs a host. Found by name (`sn_cpu_walk_compile`). */
typedef sn_status (*sn_cpu_walk_compile_fn)(sn_diag *d, sn_arena *a, const sn_target *t, const sn_cpu_walk *w, sn_cpu_code *out, int64_t *entry);
SN_API sn_status sn_cpu_walk_compile(sn_diag *d, sn_arena *a, const sn_target *t, const sn_cpu_walk *w, sn_cpu_code *out, int64_t *entry);

/* Makes an object known to a debugger by GDB's JIT interface, for as long as the process lives: its sections lie at `code` + their addresses. Copies it.
 * Found by name (`sn_cpu_register`), as sn_cpu_compile is. */
typedef sn_status (*sn_cpu_register_fn)(const sn_cpu_object *o, const void *code);
SN_API sn_status sn_cpu_register(const sn_cpu_object *o, const void *code);

/* The entry point of libsinter-llvm.so, found by name (`sn_cpu_compile`). Kernels that are equal should be handed in once. Texts and tables live in `a`.
 * An LLVM verifier failure is SN_ERR_INTERNAL with the kernel's name and text; a symbol outside imports.def likewise. */
typedef sn_status (*sn_cpu_compile_fn)(sn_diag *d, sn_arena *a, const sn_cpu_options *o, int n, const sn_kernel *const *kernels, sn_cpu_code *out);
SN_API sn_status sn_cpu_compile(sn_diag *d, sn_arena *a, const sn_cpu_options *o, int n, const sn_kernel *const *kernels, sn_cpu_code *out);

#ifdef __cplusplus
}
#endif
#endif
