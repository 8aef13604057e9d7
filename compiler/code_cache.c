/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Machine code of a program's kernels in the cache: what was emitted for these kernels, this target and this emitter once is not emitted again, and LLVM is not even loaded.
 *
 * Key: the emitter's own file, the target as far as code depends on it, the level, and the text of every kernel.
 * Entry: u32 kernels | u32 bytes of isa | u32 phases of each kernel | i64 offset of each phase | isa, each with its NUL | code */
#include "compile_internal.h"

#include "sinter/cache.h"

#include <string.h>

/* ---- the key ---- */

/* The emitter is part of the key by its content: one that was built anew may emit other code. False: its file is not known, so nothing can be kept. */
static bool add_emitter(sn_cache_key *k) {
  sn_file_map map;
  const char *path = sn_compile_emitter_file();
  if (!path || sn_file_map_open(NULL, path, &map) != SN_OK) return false;
  sn_cache_key_add(k, map.data, map.n_bytes);
  sn_file_map_close(&map);
  return true;
}

static void add_text(sn_cache_key *k, const char *text) {
  if (!text) text = "";
  sn_cache_key_add(k, text, strlen(text) + 1);
}

static bool find_key(const compile *c, sn_cache_key *k) {
  const sn_target *t = &c->target;
  int64_t numbers[] = {t->vector_bytes, t->n_vector_registers, t->fma, t->avx512, t->amx, c->o->opt_level, c->n_kernels};
  sn_str text = {0};
  sn_cache_key_init(k, "cpu");
  if (!add_emitter(k)) return false;
  add_text(k, t->triple);
  add_text(k, t->cpu);
  add_text(k, t->features);
  sn_cache_key_add(k, numbers, sizeof numbers);
  for (uint32_t i = 0; i < c->n_kernels; i++) sn_kernel_print(&text, c->kernels[i]);
  bool ok = !text.failed;
  if (ok) add_text(k, text.data);
  sn_str_finish(&text);
  return ok;
}

/* ---- entries ---- */

typedef struct cursor {
  const uint8_t *at;
  size_t left;
} cursor;

static bool take(cursor *x, void *to, size_t bytes) {
  if (bytes > x->left) return false;
  memcpy(to, x->at, bytes);
  x->at += bytes;
  x->left -= bytes;
  return true;
}

static bool take_phases(const compile *c, cursor *x, sn_cpu_code *out) {
  uint32_t n;
  out->n_kernels = (int)c->n_kernels;
  out->kernels = SN_NEW_N(c->arena, sn_cpu_kernel, c->n_kernels + 1);
  if (!out->kernels) return false;
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    if (!take(x, &n, sizeof n) || n != (uint32_t)c->kernels[i]->n_phases) return false;
  }
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    int64_t *offsets = SN_NEW_N(c->arena, int64_t, c->kernels[i]->n_phases + 1);
    if (!offsets || !take(x, offsets, (size_t)c->kernels[i]->n_phases * sizeof *offsets)) return false;
    out->kernels[i].phase_offsets = offsets;
  }
  return true;
}

static bool take_isa(const compile *c, cursor *x, uint32_t bytes, sn_cpu_code *out) {
  char *text = SN_NEW_N(c->arena, char, bytes + 1);
  const char **isa = SN_NEW_N(c->arena, const char *, bytes + 1); /* a name takes two bytes at least */
  uint32_t n = 0;
  if (!text || !isa || !take(x, text, bytes)) return false;
  for (uint32_t at = 0; at < bytes; at += (uint32_t)strlen(text + at) + 1) isa[n++] = text + at;
  out->isa = isa;
  return true;
}

/* The entry's hash is right; an entry of other kernels under this key would take two equal hashes of 128 bits. */
static bool unpack(const compile *c, const void *data, size_t bytes, sn_cpu_code *out) {
  cursor x = {data, bytes};
  uint32_t head[2];
  if (!take(&x, head, sizeof head) || head[0] != c->n_kernels || !take_phases(c, &x, out) || !take_isa(c, &x, head[1], out)) return false;
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    for (int f = 0; f < c->kernels[i]->n_phases; f++) {
      if (out->kernels[i].phase_offsets[f] < 0 || out->kernels[i].phase_offsets[f] >= (int64_t)x.left) return false;
    }
  }
  out->bytes = (int64_t)x.left;
  out->code = sn_alloc_aligned(4096, x.left ? x.left : 1);
  return out->code && take(&x, out->code, x.left);
}

static void pack(const compile *c, const sn_cpu_code *code, sn_str *s) {
  uint32_t head[2] = {c->n_kernels, 0};
  for (const char *const *f = code->isa; f && *f; f++) head[1] += (uint32_t)strlen(*f) + 1;
  sn_str_add_n(s, (const char *)head, sizeof head);
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    uint32_t n = (uint32_t)c->kernels[i]->n_phases;
    sn_str_add_n(s, (const char *)&n, sizeof n);
  }
  for (uint32_t i = 0; i < c->n_kernels; i++) sn_str_add_n(s, (const char *)code->kernels[i].phase_offsets, (size_t)c->kernels[i]->n_phases * sizeof(int64_t));
  for (const char *const *f = code->isa; f && *f; f++) sn_str_add_n(s, *f, strlen(*f) + 1);
  sn_str_add_n(s, code->code, (size_t)code->bytes);
}

/* ---- the way through it ---- */

static void say(sn_compile_report *r, const compile *c, const sn_cache *cache, const sn_cache_key *k, const char *answer, bool found) {
  sn_str s = {0};
  sn_str_printf(&s, "%u kernels, %016llx%016llx  %s%s\n%s: code %s for %s\n", c->n_kernels, (unsigned long long)k->bits[0], (unsigned long long)k->bits[1], found ? "" : "compiled: ", answer,
                sn_cache_dir(cache), found ? "found" : "emitted", c->target.name);
  r->cache = sn_compile_take_text(&s);
}

static void say_none(sn_compile_report *r, const char *why) {
  sn_str s = {0};
  sn_str_printf(&s, "no cache: %s\n", why);
  r->cache = sn_compile_take_text(&s);
}

static sn_status through(compile *c, const sn_cache *cache, sn_cpu_code *out, sn_compile_report *r) {
  sn_cache_key key;
  void *data = NULL;
  size_t bytes = 0;
  if (!find_key(c, &key)) {
    say_none(r, "the file of libsinter-llvm.so is not known");
    return sn_compile_code(c, NULL, out);
  }
  sn_cache_answer answer = sn_cache_get(cache, &key, &data, &bytes);
  bool found = answer == SN_CACHE_HIT && unpack(c, data, bytes, out);
  sn_free(data);
  if (answer == SN_CACHE_HIT && !found) {
    sn_free_aligned(out->code);
    answer = SN_CACHE_TORN;
  }
  say(r, c, cache, &key, sn_cache_answers[answer], found);
  if (found) return SN_OK;
  SN_TRY(sn_compile_code(c, NULL, out));
  sn_str s = {0};
  pack(c, out, &s);
  if (!s.failed) sn_cache_put(cache, &key, s.data, s.n); /* a full disk is no error of the compile */
  sn_str_finish(&s);
  return SN_OK;
}

sn_status sn_compile_cached_code(compile *c, const sn_cpu_lines *lines, sn_cpu_code *out, sn_compile_report *r) {
  sn_cache *cache = NULL;
  memset(out, 0, sizeof *out);
  if (c->n_kernels == 0) return SN_OK;
  SN_TRY(sn_cache_open(c->d, c->o->cache_dir, &cache));
  if (!cache) say_none(r, "SINTER_CACHE_DIR is not set");
  else if (c->o->keep_texts) say_none(r, "texts of the code were asked for");
  else if (lines) say_none(r, "line tables were asked for");
  else if (c->o->standalone) say_none(r, "code that stands alone was asked for");
  sn_status s = cache && !c->o->keep_texts && !lines && !c->o->standalone ? through(c, cache, out, r) : sn_compile_code(c, lines, out);
  sn_cache_close(cache);
  return s;
}
