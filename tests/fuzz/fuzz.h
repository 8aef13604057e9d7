/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a fuzz target is: one function that takes any bytes and comes back. libFuzzer calls it with -Dfuzzing=true; else replay.c with the corpus. */
#ifndef SINTER_FUZZ_H
#define SINTER_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* libFuzzer's name and its contract: 0, always. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

/* A promise of ours that did not hold, in every build: what libFuzzer and replay alike take for a finding. */
#define FUZZ_CHECK(x, ...)                                             \
  do {                                                                 \
    if (!(x)) {                                                        \
      fprintf(stderr, "%s:%d: not so: %s: ", __FILE__, __LINE__, #x);  \
      fprintf(stderr, __VA_ARGS__);                                    \
      fputc('\n', stderr);                                             \
      abort();                                                         \
    }                                                                  \
  } while (0)

#endif
