/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From kernels to machine code through LLVM's C API. Lives in libsinter-llvm.so, which compiler/ loads at the first compile; nothing else links LLVM. */
#ifndef SINTER_CPU_H
#define SINTER_CPU_H

#include "sinter/kernel.h"
#include "sinter/target.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_cpu_options {
  size_t struct_size;
  const sn_target *target;  /* names, features, vector width */
  int opt_level;            /* 0…3 */
  sn_pool *pool;            /* kernels compile in parallel, one LLVM context a worker; NULL: one thread */
  bool want_llvm, want_asm; /* also keep the text of each kernel's IR and assembly */
  bool debug_lines;         /* line tables that point at HLO text */
} sn_cpu_options;

typedef struct sn_cpu_kernel {
  const int64_t *phase_offsets; /* of each phase's sn_kernel_fn in the blob */
  const char *llvm, *assembly;  /* or NULL */
} sn_cpu_kernel;

/* One position-independent blob; relocations resolved, calls only through the imports table. */
typedef struct sn_cpu_code {
  void *code;               /* owned: sn_free_aligned */
  int64_t bytes;
  int n_kernels;
  sn_cpu_kernel *kernels;   /* in the arena given */
  const char *const *isa;   /* features the code needs; ends with NULL */
} sn_cpu_code;

/* The entry point of libsinter-llvm.so, found by name (`sn_cpu_compile`). Kernels that are equal should be handed in once. Texts and tables live in `a`.
 * An LLVM verifier failure is SN_ERR_INTERNAL with the kernel's name and text; a symbol outside imports.def likewise. */
typedef sn_status (*sn_cpu_compile_fn)(sn_diag *d, sn_arena *a, const sn_cpu_options *o, int n, const sn_kernel *const *kernels, sn_cpu_code *out);
SN_API sn_status sn_cpu_compile(sn_diag *d, sn_arena *a, const sn_cpu_options *o, int n, const sn_kernel *const *kernels, sn_cpu_code *out);

#ifdef __cplusplus
}
#endif
#endif
