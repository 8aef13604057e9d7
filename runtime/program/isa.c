/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which instruction sets this CPU has, by LLVM's feature names. */
#include "program_internal.h"

#include <string.h>

#if defined(__x86_64__)
#define SN_ISA_ROWS(row)                                                                                                    \
  row("sse2") row("sse3") row("ssse3") row("sse4.1") row("sse4.2") row("popcnt") row("avx") row("avx2") row("fma") row("bmi") \
      row("bmi2") row("avx512f") row("avx512dq") row("avx512bw") row("avx512vl") row("avx512cd") row("avx512vnni")          \
          row("avx512vbmi") row("avx512vbmi2") row("avx512bitalg") row("avx512vpopcntdq") row("avx512bf16") row("gfni")

/* Features that the compiler's test does not know by name: every processor with the second has the first. */
static const struct {
  const char *feature, *implied_by;
} implied[] = {{"f16c", "avx2"}, {"lzcnt", "avx2"}, {"movbe", "avx2"}, {"fxsr", "sse2"}, {"cx16", "sse3"}, {"sahf", "sse3"}, {"crc32", "sse4.2"}};

bool sn_isa_supported(const char *feature) {
  for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++) {
    if (strcmp(feature, implied[i].feature) == 0) feature = implied[i].implied_by;
  }
#define SN_ISA_ROW(name) \
  if (strcmp(feature, name) == 0) return __builtin_cpu_supports(name) != 0;
  SN_ISA_ROWS(SN_ISA_ROW)
#undef SN_ISA_ROW
  return false;
}
#else
bool sn_isa_supported(const char *feature) { return strcmp(feature, "neon") == 0; }
#endif
