/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Machine descriptions: what the cost model and the choice of schedules know of a machine. Files, picked by target name or CPUID; only `sinter-bench --machine` measures. */
#ifndef SINTER_TARGET_H
#define SINTER_TARGET_H

#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sn_target_kind { SN_TARGET_CPU, SN_TARGET_CUDA } sn_target_kind;

typedef struct sn_target {
  sn_target_kind kind;
  const char *name;        /* "native", "x86-64-v3", "aarch64", "sm_90a" */
  const char *triple, *cpu; /* LLVM's names (CPU targets) */
  const char *features;    /* LLVM's feature string, "+avx2,+fma" */
  int vector_bytes;        /* 16, 32, 64 */
  int n_vector_registers;
  bool fma, avx512, amx;
  bool bf16_dot;           /* a lane of f32 sums takes two products of bf16 at once (AVX512_BF16) */
  int cores;               /* CPU: cores used; CUDA: SMs */
  double fma_gflops;       /* f32, all cores */
  double memory_gbs;       /* all cores */
  int64_t l1_bytes, l2_bytes, l3_bytes; /* a core's; L3 shared. CUDA: shared memory a block, L2 */
  double launch_us;        /* cost of one more command */
  double tensor_tflops;    /* CUDA: TF32 */
  double l2_gbs;           /* CUDA: reads from L2 */
  int sm_threads, sm_blocks; /* CUDA: most that a multiprocessor holds at once */
} sn_target;

/* `name`: "native" (by CPUID), "x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4", "aarch64", "sm_80", "sm_89", "sm_90a", or a description file's path.
 * SINTER_MACHINE=FILE overrides figures for native. Strings live in `a`. */
SN_NODISCARD sn_status sn_target_find(sn_diag *d, sn_arena *a, const char *name, sn_target *out);

#ifdef __cplusplus
}
#endif
#endif
