/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Entries are files of their own, DIR/kk/kkkk….sncache: a head with its own key, sizes and a hash of the rest. Whatever does not fit together is as good as absent. */
#include "sinter/cache.h"

#include <stdio.h>
#include <string.h>

#include "sinter/program.h"

static const char MAGIC[8] = "SNCACHE";

enum { FORMAT = 1, NAME_BYTES = 64 };

typedef struct entry_head {
  char magic[8];
  uint32_t format, abi;
  sn_cache_key key;
  uint64_t bytes, hash;
} entry_head;

struct sn_cache {
  char *dir;
};

const char *const sn_cache_answers[SN_CACHE_ANSWERS] = {"found", "no entry", "the entry is of another version of Sinter", "the entry is torn"};

/* ---- keys ---- */

void sn_cache_key_add(sn_cache_key *k, const void *data, size_t bytes) {
  for (int i = 0; i < 2; i++) k->bits[i] = sn_hash_mix(k->bits[i], sn_hash(data, bytes, k->bits[i] + (uint64_t)i));
}

void sn_cache_key_init(sn_cache_key *k, const char *kind) {
  uint32_t abi = SN_PROGRAM_ABI;
  *k = (sn_cache_key){{0x73696e746572, 0x6361636865}};
  sn_cache_key_add(k, kind, strlen(kind));
  sn_cache_key_add(k, &abi, sizeof abi);
}

static void entry_path(const sn_cache *c, const sn_cache_key *k, char *to, size_t bytes, bool folder) {
  unsigned first = (unsigned)(k->bits[0] >> 56);
  if (folder) snprintf(to, bytes, "%s/%02x", c->dir, first);
  else snprintf(to, bytes, "%s/%02x/%016llx%016llx.sncache", c->dir, first, (unsigned long long)k->bits[0], (unsigned long long)k->bits[1]);
}

/* ---- the folder ---- */

sn_status sn_cache_open(sn_diag *d, const char *dir, sn_cache **out) {
  *out = NULL;
  if (!dir) dir = sn_env("SINTER_CACHE_DIR");
  if (!dir || !*dir) return SN_OK;
  SN_TRY(sn_dir_make_private(d, dir));
  sn_cache *c = sn_alloc_zero(1, sizeof *c);
  if (c) c->dir = sn_alloc(strlen(dir) + 1);
  if (!c || !c->dir) {
    sn_free(c);
    return sn_out_of_memory(d, sizeof *c);
  }
  memcpy(c->dir, dir, strlen(dir) + 1);
  *out = c;
  return SN_OK;
}

void sn_cache_close(sn_cache *c) {
  if (!c) return;
  sn_free(c->dir);
  sn_free(c);
}

const char *sn_cache_dir(const sn_cache *c) { return c->dir; }

/* ---- entries ---- */

static sn_cache_answer check(const entry_head *h, const sn_cache_key *k, size_t bytes) {
  if (bytes < sizeof *h || memcmp(h->magic, MAGIC, sizeof MAGIC) != 0) return SN_CACHE_TORN;
  if (h->format != FORMAT || h->abi != SN_PROGRAM_ABI) return SN_CACHE_VERSION;
  if (memcmp(&h->key, k, sizeof *k) != 0 || h->bytes != bytes - sizeof *h) return SN_CACHE_TORN;
  return sn_hash(h + 1, bytes - sizeof *h, h->key.bits[1]) == h->hash ? SN_CACHE_HIT : SN_CACHE_TORN;
}

sn_cache_answer sn_cache_get(const sn_cache *c, const sn_cache_key *k, void **data, size_t *bytes) {
  size_t room = strlen(c->dir) + NAME_BYTES, n = 0;
  char *path = sn_alloc(room), *text = NULL;
  *data = NULL;
  *bytes = 0;
  if (!path) return SN_CACHE_NONE;
  entry_path(c, k, path, room, false);
  sn_cache_answer answer = sn_file_exists(path) && sn_file_read(NULL, path, &text, &n) == SN_OK ? SN_CACHE_HIT : SN_CACHE_NONE;
  sn_free(path);
  entry_head h;
  if (answer == SN_CACHE_HIT) {
    memset(&h, 0, sizeof h);
    memcpy(&h, text, n < sizeof h ? n : sizeof h);
    answer = n < sizeof h ? SN_CACHE_TORN : check((const entry_head *)(const void *)text, k, n);
  }
  if (answer != SN_CACHE_HIT) {
    sn_free(text);
    return answer;
  }
  memmove(text, text + sizeof h, n - sizeof h);
  *data = text;
  *bytes = n - sizeof h;
  return SN_CACHE_HIT;
}

bool sn_cache_put(const sn_cache *c, const sn_cache_key *k, const void *data, size_t bytes) {
  size_t room = strlen(c->dir) + NAME_BYTES;
  char *path = sn_alloc(room);
  entry_head *h = sn_alloc(sizeof *h + bytes);
  bool ok = path && h;
  if (ok) {
    memset(h, 0, sizeof *h);
    memcpy(h->magic, MAGIC, sizeof MAGIC);
    h->format = FORMAT;
    h->abi = SN_PROGRAM_ABI;
    h->key = *k;
    h->bytes = bytes;
    memcpy(h + 1, data, bytes);
    h->hash = sn_hash(h + 1, bytes, k->bits[1]);
    entry_path(c, k, path, room, true);
    ok = sn_dir_make(NULL, path) == SN_OK;
  }
  if (ok) {
    entry_path(c, k, path, room, false);
    ok = sn_file_write(NULL, path, h, sizeof *h + bytes) == SN_OK;
  }
  sn_free(path);
  sn_free(h);
  return ok;
}
