/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "sinter/base.h"

#define XXH_INLINE_ALL /* header-only: libsinter-runtime links libc and libm alone */
#include <xxhash.h>

uint64_t sn_hash(const void *data, size_t bytes, uint64_t seed) {
  return XXH64(bytes != 0 ? data : "", bytes, seed);
}

/* Order matters: mix(mix(h, a), b) differs from mix(mix(h, b), a). Constants: SplitMix64 (Steele, Lea,
 * Flood, OOPSLA 2014). */
uint64_t sn_hash_mix(uint64_t h, uint64_t v) {
  uint64_t z = (h ^ (h >> 31)) * 0x9e3779b97f4a7c15u + v;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
