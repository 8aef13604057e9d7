/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How kernels.c runs a kernel; each test links one of the files that define it. */
#ifndef RUN_KERNEL_H
#define RUN_KERNEL_H

#include "sinter/kernel.h"
#include "sinter/target.h"

/* `t`: what the kernel was lowered for. */
sn_status run_kernel(sn_diag *d, sn_arena *a, const sn_kernel *k, const sn_target *t, void *const *args);

#endif
