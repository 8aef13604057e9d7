/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Two loops that say what a processor can do, compiled once per level of instructions: BENCH_SUFFIX names the level. */
#include "bench_fma.h"

#include <math.h>

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 vec;
#define LANES 16
#define SET _mm512_set1_ps
#define FMA _mm512_fmadd_ps
#define STORE _mm512_storeu_ps
#elif defined(__FMA__)
#include <immintrin.h>
typedef __m256 vec;
#define LANES 8
#define SET _mm256_set1_ps
#define FMA _mm256_fmadd_ps
#define STORE _mm256_storeu_ps
#elif defined(__SSE2__)
#include <immintrin.h>
typedef __m128 vec; /* no fma: a product and a sum are its two operations */
#define LANES 4
#define SET _mm_set1_ps
#define FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define STORE _mm_storeu_ps
#elif defined(__ARM_NEON)
#include <arm_neon.h>
typedef float32x4_t vec;
#define LANES 4
#define SET vdupq_n_f32
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define STORE vst1q_f32
#else
typedef float vec;
#define LANES 1
#define SET(x) (x)
#define FMA(a, b, c) fmaf(a, b, c)
#define STORE(p, v) (*(p) = (v))
#endif

/* Chains that do not wait for each other: enough to cover the latency of two units, few enough for sixteen registers. */
enum { CHAINS = 12 };

#define NAME2(name, suffix) name##suffix
#define NAME(name, suffix) NAME2(name, suffix)

float NAME(bench_fma_, BENCH_SUFFIX)(int64_t n, double *flops) {
  vec a[CHAINS], b = SET(0.999999f), c = SET(1e-7f);
  float lanes[LANES], sum = 0;
  for (int i = 0; i < CHAINS; i++) a[i] = SET(1.0f + (float)i);
  for (int64_t k = 0; k < n; k++)
    for (int i = 0; i < CHAINS; i++) a[i] = FMA(a[i], b, c);
  for (int i = 0; i < CHAINS; i++) {
    STORE(lanes, a[i]);
    sum += lanes[0];
  }
  *flops = (double)n * CHAINS * LANES * 2;
  return sum;
}

void NAME(bench_scale_, BENCH_SUFFIX)(float *to, const float *from, int64_t n) {
  for (int64_t i = 0; i < n; i++) to[i] = from[i] * 1.5f;
}
