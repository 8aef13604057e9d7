/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The store of compiled kernels: hits, torn entries, folders that others may write, and NVRTC left alone where the cache has the kernel. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../scratch.h"
#include "gpu_tests.h"
#include "sinter/cache.h"

typedef struct cached {
  fixture f;
  char scratch[SCRATCH_BYTES], dir[SCRATCH_BYTES + 8];
  sn_cache *cache;
} cached;

static void cached_init(cached *c) {
  fixture_init(&c->f, "sm_80");
  scratch_make(c->scratch, "cache");
  snprintf(c->dir, sizeof c->dir, "%s/c", c->scratch);
  ck_assert_int_eq(sn_cache_open(c->f.d, c->dir, &c->cache), SN_OK);
}

/* The entry's file: two folders deep. */
static void entry_of(const cached *c, const sn_cache_key *k, char *path, size_t bytes) {
  snprintf(path, bytes, "%s/%02x/%016llx%016llx.sncache", c->dir, (unsigned)(k->bits[0] >> 56), (unsigned long long)k->bits[0], (unsigned long long)k->bits[1]);
}

static void cached_finish(cached *c) {
  scratch_remove(c->scratch);
  sn_cache_close(c->cache);
  fixture_finish(&c->f);
}

START_TEST(what_is_put_is_found) {
  cached c;
  sn_cache_key k, other;
  void *data;
  size_t n;
  struct stat st;
  cached_init(&c);
  ck_assert_int_eq(stat(c.dir, &st), 0);
  ck_assert_int_eq(st.st_mode & 0777, 0700);
  sn_cache_key_init(&k, "test");
  other = k;
  sn_cache_key_add(&k, "one", 3);
  sn_cache_key_add(&other, "two", 3);
  ck_assert_int_eq(sn_cache_get(c.cache, &k, &data, &n), SN_CACHE_NONE);
  ck_assert(sn_cache_put(c.cache, &k, "kernel", 6));
  ck_assert_int_eq(sn_cache_get(c.cache, &other, &data, &n), SN_CACHE_NONE);
  ck_assert_int_eq(sn_cache_get(c.cache, &k, &data, &n), SN_CACHE_HIT);
  ck_assert_int_eq(n, 6);
  ck_assert_mem_eq(data, "kernel", 6);
  sn_free(data);
  cached_finish(&c);
}
END_TEST

/* Every length that is not the whole, and every byte changed. */
START_TEST(torn_entries_are_not_used) {
  cached c;
  sn_cache_key k;
  void *data;
  size_t n;
  char path[SCRATCH_BYTES + 64], *text;
  cached_init(&c);
  sn_cache_key_init(&k, "test");
  ck_assert(sn_cache_put(c.cache, &k, "a compiled kernel", 17));
  entry_of(&c, &k, path, sizeof path);
  ck_assert_int_eq(sn_file_read(NULL, path, &text, &n), SN_OK);
  for (size_t cut = 0; cut < n; cut++) {
    ck_assert_int_eq(sn_file_write(NULL, path, text, cut), SN_OK);
    size_t got;
    ck_assert_int_eq(sn_cache_get(c.cache, &k, &data, &got), SN_CACHE_TORN);
    ck_assert_ptr_null(data);
  }
  for (size_t at = 0; at < n; at++) {
    size_t got;
    text[at] ^= 0x20;
    ck_assert_int_eq(sn_file_write(NULL, path, text, n), SN_OK);
    ck_assert_int_ne(sn_cache_get(c.cache, &k, &data, &got), SN_CACHE_HIT);
    text[at] ^= 0x20;
  }
  sn_free(text);
  cached_finish(&c);
}
END_TEST

START_TEST(a_folder_that_others_may_write_is_refused) {
  cached c;
  sn_cache_key k;
  sn_cache *again;
  cached_init(&c);
  sn_cache_key_init(&k, "test");
  ck_assert_int_eq(chmod(c.dir, 0777), 0);
  ck_assert_int_eq(sn_cache_open(c.f.d, c.dir, &again), SN_ERR_IO);
  ck_assert_ptr_null(again);
  ck_assert_ptr_nonnull(strstr(first_message(&c.f), "others may write"));
  cached_finish(&c);
}
END_TEST

START_TEST(no_folder_is_no_cache) {
  fixture f;
  sn_cache *c;
  fixture_init(&f, "sm_80");
  unsetenv("SINTER_CACHE_DIR");
  ck_assert_int_eq(sn_cache_open(f.d, NULL, &c), SN_OK);
  ck_assert_ptr_null(c);
  fixture_finish(&f);
}
END_TEST

/* A kernel that NVRTC compiled comes back with the same code and resources; a torn entry is compiled and written again. */
START_TEST(kernels_come_back_whole) {
  cached c;
  sn_kernel *k;
  sn_gpu_kernel g, h, *one[] = {&g}, *two[] = {&h};
  char path[SCRATCH_BYTES + 64];
  cached_init(&c);
  sn_nvrtc *n = open_nvrtc(&c.f);
  memset(&g, 0, sizeof g);
  if (n) {
    ck_assert_int_eq(emit_hlo(&c.f, "HloModule m\nENTRY e {\n  a = f32[64] parameter(0)\n  ROOT r = f32[64] tanh(a)\n}\n", &k, &g), SN_OK);
    h = g;
    h.phases = sn_arena_copy(c.f.arena, g.phases, sizeof *g.phases);
    ck_assert_int_eq(sn_gpu_compile(c.f.d, c.f.arena, n, NULL, c.cache, &c.f.target, 1, one), SN_OK);
    ck_assert_int_eq(g.found, SN_CACHE_NONE);
    ck_assert_int_eq(sn_gpu_compile(c.f.d, c.f.arena, n, NULL, c.cache, &c.f.target, 1, two), SN_OK);
    ck_assert_int_eq(h.found, SN_CACHE_HIT);
    ck_assert_str_eq(g.ptx, h.ptx);
    ck_assert_uint_eq(g.cubin_bytes, h.cubin_bytes);
    ck_assert_mem_eq(g.cubin, h.cubin, g.cubin_bytes);
    ck_assert_int_eq(h.phases[0].registers, g.phases[0].registers);
    ck_assert_int_gt(h.phases[0].registers, 0);
    ck_assert_int_eq(h.phases[0].spill_bytes, 0);
    entry_of(&c, &g.key, path, sizeof path);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_int_eq(sn_gpu_compile(c.f.d, c.f.arena, n, NULL, c.cache, &c.f.target, 1, two), SN_OK);
    ck_assert_int_eq(h.found, SN_CACHE_TORN);
    ck_assert_int_eq(sn_gpu_compile(c.f.d, c.f.arena, n, NULL, c.cache, &c.f.target, 1, two), SN_OK);
    ck_assert_int_eq(h.found, SN_CACHE_HIT);
    sn_nvrtc_close(n);
  }
  cached_finish(&c);
}
END_TEST

Suite *cache_suite(void) {
  Suite *s = suite_create("cache");
  TCase *t = tcase_create("cache");
  tcase_add_test(t, what_is_put_is_found);
  tcase_add_test(t, torn_entries_are_not_used);
  tcase_add_test(t, a_folder_that_others_may_write_is_refused);
  tcase_add_test(t, no_folder_is_no_cache);
  tcase_add_test(t, kernels_come_back_whole);
  suite_add_tcase(s, t);
  return s;
}
