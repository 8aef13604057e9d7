/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver table: who runs a program that is not the host's. A context (sinter/program.h) of such a program hands creation, running and destruction to the driver's row;
 * callers see host memory in and out, as with the host's programs. */
#ifndef SINTER_DEVICE_H
#define SINTER_DEVICE_H

#include "sinter/program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_driver {
  const char *name; /* what programs name: "cuda" */
  const char *what; /* one line for people */
  /* Can programs run here? A reason on d where not (SN_ERR_UNAVAILABLE). */
  sn_status (*check)(sn_diag *d);
  /* The compiler's target for device `ordinal`: "sm_90a". */
  sn_status (*target)(sn_diag *d, int ordinal, char *to, size_t bytes);
  /* Loads code and constants, makes all memory of a run. */
  sn_status (*create)(sn_diag *d, const sn_program *p, const sn_context_options *o, void **out);
  /* One run: arguments and results are host memory of the leaves' bytes. */
  sn_status (*run)(sn_diag *d, void *state, void *const *arguments, void *const *results);
  void (*cancel)(void *state);
  void (*destroy)(void *state); /* also after the device was lost */
} sn_driver;

/* NULL: none of the name. */
const sn_driver *sn_driver_find(const char *name);
const sn_driver *sn_driver_at(size_t i); /* NULL behind the last */

extern const sn_driver sn_driver_cuda; /* cuda/: the CUDA driver API through dlopen */
extern const sn_driver sn_driver_null; /* null/: accepts every program, computes nothing; results are zero. A start for a new driver, and for measuring what is not kernels */

#ifdef __cplusplus
}
#endif
#endif
