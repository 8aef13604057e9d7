/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the files of runtime/base share among themselves; no other room includes it (its tests do). */
#ifndef SINTER_BASE_INTERNAL_H
#define SINTER_BASE_INTERNAL_H

#include "sinter/base.h"

#include <stdatomic.h>

/* ---- allocation hook: memory that does not come from malloc (mapped pages) obeys it too ---- */

/* May one more allocation be made? Counts it as live when it may. */
bool sn_base_alloc_permit(void);
/* Takes back one live allocation: it was freed, or the system refused it after the permit. */
void sn_base_alloc_forget(void);

/* ---- text shown to people ---- */

/* One step through a text that may hold anything: copies what is safe to show of the character at
 * text[*i] into `shown` (NUL-terminated), moves *i behind it and returns the columns it takes.
 * `column` is where it starts; tabs reach to the next multiple of 8. */
#define SN_BASE_SHOWN_BYTES 16
int sn_base_show_char(const char *text, size_t n, size_t *i, int column, char *shown);
/* Bytes of the valid UTF-8 sequence at text (n of them there), 0 when there is none. */
size_t sn_base_utf8_step(const char *text, size_t n, uint32_t *code_point);

/* ---- threads ---- */

typedef struct sn_background sn_background;
/* Never fails to make the (empty) queue but for memory; threads start with the first piece of work. */
sn_background *sn_base_background_create(int max_threads);
void sn_base_background_destroy(sn_background *b);
sn_status sn_base_background_add(sn_background *b, void (*fn)(void *ctx), void *ctx);

/* A joinable thread that leaves the process's signals to the threads the application made.
 * Not a sn_thread type: two users. `thread` is a pthread_t *. */
bool sn_base_thread_start(void *thread, void *(*fn)(void *arg), void *arg);
/* Lowers the calling thread below everything that computes. */
void sn_base_thread_lower_priority(void);

/* Sleeps while *word == expected (may return early); wakes up to n sleepers. */
void sn_base_wait(_Atomic uint32_t *word, uint32_t expected);
void sn_base_wake(_Atomic uint32_t *word, int n);

/* Tells the core that this is a spin loop. (Compiler extensions of this room alone stand in this header,
 * those that others may use in sinter/base.h.) */
static inline void sn_base_relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); /* `yield` retires at once on most cores; isb waits about as long as pause */
#endif
}

/* ---- machine ---- */

/* Makes written instructions visible to the fetch unit: nothing on x86, caches elsewhere. */
static inline void sn_base_flush_code(void *p, size_t bytes) {
#if defined(__GNUC__) || defined(__clang__)
  __builtin___clear_cache((char *)p, (char *)p + bytes);
#else
  (void)p;
  (void)bytes;
#endif
}

/* CPUs that the control groups named in `membership` (the text of /proc/self/cgroup) allow, looking
 * below `root` (/sys/fs/cgroup); INT32_MAX when they set no limit. */
int sn_base_quota_cpus(const char *root, const char *membership);

#endif
