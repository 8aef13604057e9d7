/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Random numbers on the host: initialisers, shuffles, augmentation, synthetic data.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a block of four 32-bit words is a function of a
 * key and a counter alone. The key is the user's seed; the counter's upper half names a stream (what the numbers are for), its lower half counts blocks.
 * So there is no state to save beyond a position, and the numbers of one tensor, epoch or image do not depend on what was drawn before. */
#ifndef SINTER_RANDOM_H
#define SINTER_RANDOM_H

#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_random {
  uint32_t key[2];
  uint32_t counter[4]; /* of the next block: position (64 bits), stream (64 bits) */
  uint32_t block[4];
  int used; /* words of the block handed out */
} sn_random;

/* The philox block function itself. */
void sn_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

void sn_random_init(sn_random *r, uint64_t seed, uint64_t stream);
/* A stream named by a text: its sn_hash. */
uint64_t sn_random_stream(const char *name, uint64_t index);
uint32_t sn_random_u32(sn_random *r);
uint64_t sn_random_u64(sn_random *r);
/* Whole numbers in [0, n), n > 0; exactly even (rejection). */
uint64_t sn_random_below(sn_random *r, uint64_t n);
/* [0, 1), 53 bits. */
double sn_random_uniform(sn_random *r);
/* Mean 0, deviation 1 (Box and Muller 1958; the second of a pair is dropped, so that a position is two draws). */
double sn_random_normal(sn_random *r);
/* Normal, drawn again until it lies in [low, high]; needs mean within reach of them. */
double sn_random_truncated(sn_random *r, double mean, double deviation, double low, double high);
/* A permutation of 0 … n-1 (Fisher and Yates, from the end). */
void sn_random_shuffle(sn_random *r, uint32_t *order, size_t n);

#ifdef __cplusplus
}
#endif
#endif
