/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A store of compiled kernels in a folder, by content: what was compiled from a text once is not compiled again. */
#ifndef SINTER_CACHE_H
#define SINTER_CACHE_H

#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_cache sn_cache;

/* 128 bits of the text and of all else that decides what comes of it. */
typedef struct sn_cache_key { uint64_t bits[2]; } sn_cache_key;
void sn_cache_key_init(sn_cache_key *k, const char *kind); /* kind: what the entries are, "cubin" */
void sn_cache_key_add(sn_cache_key *k, const void *data, size_t bytes);

/* What a look-up found. */
typedef enum sn_cache_answer {
  SN_CACHE_HIT,
  SN_CACHE_NONE,    /* no entry */
  SN_CACHE_VERSION, /* written by another version of Sinter */
  SN_CACHE_TORN,    /* cut short, or changed since it was written: it is not used */
  SN_CACHE_ANSWERS
} sn_cache_answer;
extern const char *const sn_cache_answers[SN_CACHE_ANSWERS]; /* in words */

/* dir NULL: SINTER_CACHE_DIR, and *out stays NULL where that is unset or empty: no cache. The folder is made, for its owner alone; one that others own or may write is refused
 * (SN_ERR_IO), for entries are native code. Safe to use from several threads and processes. */
SN_NODISCARD sn_status sn_cache_open(sn_diag *d, const char *dir, sn_cache **out);
void sn_cache_close(sn_cache *c);
const char *sn_cache_dir(const sn_cache *c);

/* On a hit *data is the caller's, for sn_free; 64-byte aligned it is not. */
sn_cache_answer sn_cache_get(const sn_cache *c, const sn_cache_key *k, void **data, size_t *bytes);
/* Whole or not at all. A full disk is no error of the compile: false. */
bool sn_cache_put(const sn_cache *c, const sn_cache_key *k, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
