/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loops that say what a processor can do: base is what every machine of the kind has, v3 wants AVX2 and FMA, v4 AVX-512. */
#ifndef TOOLS_BENCH_FMA_H
#define TOOLS_BENCH_FMA_H

#include <stdint.h>

/* n rounds of independent chains of multiply-add; *flops: operations done. The result depends on all of them. */
float bench_fma_base(int64_t n, double *flops);
float bench_fma_v3(int64_t n, double *flops);
float bench_fma_v4(int64_t n, double *flops);
/* to[i] := 1.5 from[i] */
void bench_scale_base(float *to, const float *from, int64_t n);
void bench_scale_v3(float *to, const float *from, int64_t n);
void bench_scale_v4(float *to, const float *from, int64_t n);

#endif
