/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From kernels to CUDA C, and through NVRTC to PTX and cubin. NVRTC is opened at the first compile; without it the text forms still work. */
#ifndef SINTER_GPU_H
#define SINTER_GPU_H

#include "sinter/cache.h"
#include "sinter/kernel.h"
#include "sinter/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One launch: phases beside each other, each with those that finish it. */
typedef struct sn_gpu_phase {
  int first, n;             /* the kernel's phases that it runs */
  int64_t items;            /* of all that finish nothing */
  int64_t n_tickets;        /* counters of 32 bits by which blocks know that they are the last ones; zero before and after; the function's last argument */
  const char *entry;        /* the __global__ function's name */
  int threads;              /* of a block */
  int64_t blocks;           /* of the grid: the items, or as many as keep the device busy where blocks take several */
  int64_t shared_bytes;     /* dynamic shared memory of a block */
  int64_t scratch_bytes;    /* of all blocks, in global memory, where tiles do not fit shared memory; an argument behind the buffers */
  /* from the cubin; -1: unknown */
  int registers, spill_bytes, static_shared_bytes, local_bytes;
  int resident;             /* blocks that a multiprocessor holds at once, by registers, threads and shared memory; 0: unknown */
} sn_gpu_phase;

typedef struct sn_gpu_kernel {
  const char *source;       /* CUDA C, one translation unit */
  int schedule;             /* the variant it was emitted in */
  int n_phases;             /* launches: at most as many as the kernel has phases */
  sn_gpu_phase *phases;
  const char *ptx;          /* NUL-terminated; NULL until compiled */
  size_t ptx_bytes;         /* with the NUL */
  const void *cubin;
  size_t cubin_bytes;
  sn_cache_key key;         /* under which a cache keeps it, and what was found there */
  sn_cache_answer found;
} sn_gpu_kernel;

/* Variants of a kernel's text that differ in nothing but what the assembler makes of them. One that spills registers is dropped for the next. */
typedef enum sn_gpu_schedule {
  SN_GPU_AS_IS,       /* the assembler weighs registers against resident blocks */
  SN_GPU_ONE_BLOCK,   /* it may take all registers of a block's share */
  SN_GPU_NOT_UNROLLED, /* likewise, and serial loops stay loops */
  SN_GPU_SCHEDULES
} sn_gpu_schedule;

/* CUDA C for one kernel; lives in `a`. The device's shared memory decides where tiles live, so the target belongs to the text. */
SN_NODISCARD sn_status sn_gpu_emit(sn_diag *d, sn_arena *a, const sn_kernel *k, const sn_target *t, sn_gpu_schedule schedule, sn_gpu_kernel *out);

/* The compiler library; SN_ERR_UNAVAILABLE with one clear line where there is none. Tried in order: SINTER_LIBNVRTC, libnvrtc.so.13, libnvrtc.so.12, libnvrtc.so,
 * /usr/local/cuda, the wheels' place below SINTER_PYTHON_SITE. It stays loaded. */
typedef struct sn_nvrtc sn_nvrtc;
SN_NODISCARD sn_status sn_nvrtc_open(sn_diag *d, sn_nvrtc **out);
void sn_nvrtc_close(sn_nvrtc *n);
void sn_nvrtc_version(const sn_nvrtc *n, int *major, int *minor);

/* Fills PTX, cubin and resources of all kernels, in parallel on the pool (NULL: one after the other), from the cache where it has them (NULL: none). A failure shows the
 * CUDA C line. */
SN_NODISCARD sn_status sn_gpu_compile(sn_diag *d, sn_arena *a, sn_nvrtc *n, sn_pool *pool, const sn_cache *cache, const sn_target *t, int n_kernels, sn_gpu_kernel *const *kernels);

/* Blocks of the phase that a multiprocessor holds at once; 0 where the cubin has not said its registers. */
int sn_gpu_resident(const sn_target *t, const sn_gpu_phase *p);

/* ---- the model: what a launch does and how long a machine is taken to need (not measured) ---- */

typedef struct sn_gpu_work {
  int64_t items, product_items; /* product_items: those with a contraction, which counts as equally long in all of them */
  double products, ops;  /* operations: of contractions, padding included, and all others */
  double spent;          /* of products: what they would be at the full rate, each by its tile's share of it */
  double bytes, moved;   /* of arguments: each element once; every access */
  double alone;          /* of those accesses: what one block makes when all others are done */
  int rows, columns;     /* the contraction's tile */
  bool tensor;
  int operand_bytes;     /* of an element as it is multiplied */
  bool ahead;            /* copies asynchronously, tiles ahead of their use */
} sn_gpu_work;

/* Of all items of a launch, from its loops. SN_ERR_MEMORY alone. */
SN_NODISCARD sn_status sn_gpu_phase_work(sn_arena *a, const sn_target *t, const sn_kernel *k, const sn_gpu_phase *p, sn_gpu_work *out);
/* Microseconds with its launch. share: of the tensor cores' peak that mma.sync reaches; 0: what gpu_rates.def says of the target. *bound: what decided. */
double sn_gpu_phase_us(const sn_target *t, const sn_gpu_work *w, const sn_gpu_phase *p, double share, const char **bound);

/* Resources of `entry` in a cubin (ELF). false: not found or malformed; never reads outside. */
bool sn_cubin_resources(const void *cubin, size_t bytes, const char *entry, int *registers, int *static_shared, int *local);

#ifdef __cplusplus
}
#endif
#endif
