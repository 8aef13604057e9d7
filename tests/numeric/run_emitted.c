/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels as machine code: for the target whose vectors are as wide as those the kernel was lowered for, where this CPU runs it; else by the evaluator. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run_kernel.h"
#include "sinter/cpu.h"
#include "sinter/program.h"

const void *const *sn_imports(void); /* runtime/program's table */

static const char *target_name(const sn_target *t) {
#if defined(__x86_64__)
  if (t->vector_bytes == 16) return "x86-64-v2";
  if (t->vector_bytes == 32) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? "x86-64-v3" : NULL;
  return __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") ? "x86-64-v4" : NULL;
#else
  return t->vector_bytes == 16 ? "native" : NULL;
#endif
}

/* ---- guarded memory ---- */

/* Each buffer ends at a page that nobody may touch, as near as its alignment of 64 bytes allows, and begins behind another: whoever runs over dies there; what
 * is written into the rest before the page is found afterwards. */
enum { MOST_BUFFERS = 1024, UNTOUCHED = 0x5a };

typedef struct guarded {
  uint8_t *pages, *data;
  size_t mapped, bytes;
} guarded;

static bool guarded_init(guarded *g, const void *from, size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), held = (bytes + 63) / 64 * 64, inside = (held + page - 1) / page * page;
  g->mapped = inside + 2 * page;
  g->bytes = bytes;
  g->pages = mmap(NULL, g->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g->pages == MAP_FAILED) return false;
  memset(g->pages, UNTOUCHED, g->mapped);
  g->data = g->pages + page + inside - held;
  memcpy(g->data, from, bytes);
  return mprotect(g->pages, page, PROT_NONE) == 0 && mprotect(g->pages + page + inside, page, PROT_NONE) == 0;
}

/* to: where the bytes go, or NULL. False: something was written beside the buffer. */
static bool guarded_finish(guarded *g, void *to) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *first = g->pages + page, *end = g->pages + g->mapped - page;
  bool fine = true;
  for (uint8_t *p = first; p < end; p++) fine &= (p >= g->data && p < g->data + g->bytes) || *p == UNTOUCHED;
  if (to) memcpy(to, g->data, g->bytes);
  munmap(g->pages, g->mapped);
  return fine;
}

static sn_status run_code(const sn_kernel *k, const sn_cpu_code *code, void *const *args) {
  uint8_t *at = sn_code_alloc((size_t)code->bytes);
  void *scratch = sn_alloc_aligned(64, (size_t)sn_kernel_scratch_bytes(k) + 64);
  sn_kernel_env env = {args, scratch, sn_imports()};
  sn_status s = at && scratch ? SN_OK : SN_ERR_MEMORY;
  if (s == SN_OK) {
    memcpy(at, code->code, (size_t)code->bytes);
    s = sn_code_seal(at, (size_t)code->bytes);
  }
  for (int p = 0; s == SN_OK && p < k->n_phases; p++) {
    int64_t items = 1;
    for (int g = 0; g < k->phases[p].n_grid; g++) items *= k->phases[p].grid[g];
    union { const uint8_t *data; sn_kernel_fn fn; } u = {at + code->kernels[0].phase_offsets[p]};
    u.fn(&env, 0, items);
  }
  sn_free_aligned(scratch);
  if (at) sn_code_free(at, (size_t)code->bytes);
  return s;
}

/* The kernel on guarded copies of its arguments; arguments at one place stay at one place. */
static sn_status run_guarded(const sn_kernel *k, void *const *args, const sn_cpu_code *code) {
  guarded held[MOST_BUFFERS];
  void *moved[MOST_BUFFERS] = {NULL};
  int owner[MOST_BUFFERS], n_held = 0, n = 0;
  bool written[MOST_BUFFERS];
  while (n < k->n_buffers && k->buffers[n].memory <= SN_KMEM_WORK) n++;
  if (n > MOST_BUFFERS) return run_code(k, code, args);
  sn_status s = SN_OK;
  for (int b = 0; b < n && s == SN_OK; b++) {
    int at = 0;
    while (at < n_held && args[owner[at]] != args[b]) at++;
    if (at == n_held) {
      owner[n_held++] = b;
      written[at] = false;
      if (!guarded_init(&held[at], args[b], (size_t)sn_kbuffer_bytes(&k->buffers[b]))) s = SN_ERR_MEMORY;
    }
    moved[b] = held[at].data;
    written[at] |= k->buffers[b].memory != SN_KMEM_IN;
  }
  if (s == SN_OK) s = run_code(k, code, moved);
  for (int at = 0; at < n_held; at++) {
    if (guarded_finish(&held[at], written[at] ? args[owner[at]] : NULL)) continue;
    printf("kernel %s writes beside its buffer %d\n", k->name ? k->name : "", owner[at]);
    s = SN_ERR_INTERNAL;
  }
  return s;
}

sn_status run_kernel(sn_diag *d, sn_arena *a, const sn_kernel *k, const sn_target *t, void *const *args) {
  const char *name = target_name(t);
  sn_target machine;
  sn_cpu_code code;
  if (!name) return sn_kernel_eval(d, k, args);
  SN_TRY(sn_target_find(d, a, name, &machine));
  sn_cpu_options o = {.struct_size = sizeof o, .target = &machine, .opt_level = 1};
  SN_TRY(sn_cpu_compile(d, a, &o, 1, &k, &code));
  sn_status s = run_guarded(k, args, &code);
  sn_free_aligned(code.code);
  return s;
}
