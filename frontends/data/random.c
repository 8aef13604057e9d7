/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "sinter/random.h"

#include <math.h>
#include <string.h>

/* Constants of the paper: multipliers, and the Weyl sequence of the key (golden ratio, sqrt(3) - 1). */
#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

void sn_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c0 = n0;
    c1 = (uint32_t)p1;
    c2 = n2;
    c3 = (uint32_t)p0;
    k0 += PHILOX_W0;
    k1 += PHILOX_W1;
  }
  out[0] = c0;
  out[1] = c1;
  out[2] = c2;
  out[3] = c3;
}

void sn_random_init(sn_random *r, uint64_t seed, uint64_t stream) {
  *r = (sn_random){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)}, .counter = {0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)}, .used = 4};
}

uint64_t sn_random_stream(const char *name, uint64_t index) { return sn_hash(name, strlen(name), index); }

uint32_t sn_random_u32(sn_random *r) {
  if (r->used == 4) {
    sn_philox(r->counter, r->key, r->block);
    if (++r->counter[0] == 0) r->counter[1]++;
    r->used = 0;
  }
  return r->block[r->used++];
}

uint64_t sn_random_u64(sn_random *r) {
  uint64_t low = sn_random_u32(r);
  return low | (uint64_t)sn_random_u32(r) << 32;
}

uint64_t sn_random_below(sn_random *r, uint64_t n) {
  sn_assert(n > 0);
  uint64_t uneven = (UINT64_MAX % n + 1) % n; /* 2^64 mod n: as many of the lowest values are refused */
  uint64_t v;
  do v = sn_random_u64(r);
  while (v < uneven);
  return v % n;
}

double sn_random_uniform(sn_random *r) { return (double)(sn_random_u64(r) >> 11) * 0x1p-53; }

double sn_random_normal(sn_random *r) {
  double u = 1.0 - sn_random_uniform(r); /* (0, 1]: the logarithm is finite */
  double v = sn_random_uniform(r);
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * v);
}

double sn_random_truncated(sn_random *r, double mean, double deviation, double low, double high) {
  sn_assert(low <= mean && mean <= high); /* so that at least a third of the draws is taken */
  double v;
  do v = mean + deviation * sn_random_normal(r);
  while (!(v >= low && v <= high));
  return v;
}

void sn_random_shuffle(sn_random *r, uint32_t *order, size_t n) {
  for (size_t i = 0; i < n; i++) order[i] = (uint32_t)i;
  for (size_t i = n; i > 1; i--) {
    size_t j = (size_t)sn_random_below(r, i);
    uint32_t swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
  }
}
