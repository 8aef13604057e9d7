/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Fork and join without waiting for sleepers.
 *
 * A job is open while it has items to claim. A worker enters an open job, claims items until none is left
 * and leaves; the caller does the same as worker 0, closes the job and waits for those who are inside. A
 * worker that did not wake up in time finds the job closed and was never waited for, so a short job costs
 * what its items cost.
 *
 *   gate   [ OPEN | WAITING | number of workers inside ]   the one word that orders all access to the job
 *   epoch  counts jobs: what idle workers spin on, then sleep on
 */
#include "base_internal.h"

#include <fenv.h>
#include <pthread.h>
#include <stdalign.h>

#define POOL_OPEN (1u << 31)
#define POOL_WAITING (1u << 30) /* the caller sleeps on the gate */
#define POOL_INSIDE (POOL_WAITING - 1)
#define POOL_MAX_THREADS 1024
#define POOL_SPIN_SECONDS 40e-6 /* the gap between two kernels of a step is shorter, waking a thread about as long */
#define POOL_SPINS_PER_LOOK 32  /* pauses between two looks at the clock: about a microsecond */
#define POOL_LINE 64            /* words written by different threads lie on different cache lines */

typedef struct pool_worker {
  sn_pool *pool;
  int index;
  pthread_t thread;
} pool_worker;

struct sn_pool {
  alignas(POOL_LINE) _Atomic uint32_t gate;
  alignas(POOL_LINE) _Atomic uint32_t epoch;
  _Atomic uint32_t n_asleep;
  _Atomic bool stop;
  alignas(POOL_LINE) _Atomic int64_t next; /* item to claim */
  /* The job: written while nobody is inside, read by those inside. */
  alignas(POOL_LINE) sn_pool_fn fn;
  void *ctx;
  int64_t n_items;
  _Atomic int64_t n_wakes; /* written by callers alone */
  /* Fixed after creation. */
  alignas(POOL_LINE) int n_threads;
  double spin_seconds;
  pool_worker *workers; /* n_threads - 1 */
  pthread_mutex_t callers;
  sn_background *background;
};

/* What the calling thread is running, innermost first: tells a nested call from a foreign one. */
typedef struct pool_frame {
  const sn_pool *pool;
  int worker;
  const struct pool_frame *outer;
} pool_frame;

static _Thread_local const pool_frame *pool_running;

static const pool_frame *pool_find_frame(const sn_pool *p) {
  const pool_frame *f = pool_running;
  while (f != NULL && f->pool != p) f = f->outer;
  return f;
}

/* Claims and runs items until none is left. */
static void pool_work(sn_pool *p, int worker) {
  pool_frame frame = {p, worker, pool_running};
  sn_pool_fn fn = p->fn;
  void *ctx = p->ctx;
  int64_t n = p->n_items;
  pool_running = &frame;
  for (;;) {
    int64_t item = atomic_fetch_add_explicit(&p->next, 1, memory_order_relaxed);
    if (item >= n) break;
    fn(ctx, item, worker);
  }
  pool_running = frame.outer;
}

static bool pool_enter(sn_pool *p) {
  uint32_t gate = atomic_load_explicit(&p->gate, memory_order_relaxed);
  while ((gate & POOL_OPEN) != 0) {
    if (atomic_compare_exchange_weak_explicit(&p->gate, &gate, gate + 1, memory_order_acquire,
                                              memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

static void pool_leave(sn_pool *p) {
  uint32_t before = atomic_fetch_sub_explicit(&p->gate, 1, memory_order_release);
  if (before == (POOL_WAITING | 1)) sn_base_wake(&p->gate, 1);
}

/* Spins while *word == old, for a bounded time; returns its value. */
static uint32_t pool_spin(const sn_pool *p, _Atomic uint32_t *word, uint32_t old) {
  if (p->spin_seconds <= 0) return atomic_load_explicit(word, memory_order_acquire);
  double until = 0;
  for (;;) {
    for (int i = 0; i < POOL_SPINS_PER_LOOK; i++) {
      uint32_t now = atomic_load_explicit(word, memory_order_acquire);
      if (now != old) return now;
      sn_base_relax();
    }
    double time = sn_time();
    if (until == 0) until = time + p->spin_seconds;
    if (time >= until) return old;
  }
}

/* Waits for an epoch other than `seen`. The announcement of the sleeper and the look at the epoch are
 * sequentially consistent on both sides: either the caller sees the sleeper or the sleeper the job. */
static uint32_t pool_next_epoch(sn_pool *p, uint32_t seen) {
  uint32_t now = pool_spin(p, &p->epoch, seen);
  while (now == seen) {
    atomic_fetch_add(&p->n_asleep, 1);
    now = atomic_load(&p->epoch);
    if (now == seen) sn_base_wait(&p->epoch, seen);
    atomic_fetch_sub(&p->n_asleep, 1);
    now = atomic_load(&p->epoch);
  }
  return now;
}

static void *pool_worker_main(void *arg) {
  pool_worker *w = arg;
  sn_pool *p = w->pool;
  uint32_t seen = 0;
  fesetenv(FE_DFL_ENV); /* results never depend on the rounding mode of the thread that made the pool */
  for (;;) {
    seen = pool_next_epoch(p, seen);
    if (atomic_load(&p->stop)) return NULL;
    if (!pool_enter(p)) continue;
    pool_work(p, w->index);
    pool_leave(p);
  }
}

static void pool_announce(sn_pool *p, int64_t n_wanted) {
  atomic_fetch_add(&p->epoch, 1);
  uint32_t n_asleep = atomic_load(&p->n_asleep);
  if (n_asleep == 0 || n_wanted <= 0) return;
  atomic_fetch_add_explicit(&p->n_wakes, 1, memory_order_relaxed);
  sn_base_wake(&p->epoch, n_wanted < (int64_t)n_asleep ? (int)n_wanted : (int)n_asleep);
}

/* Lets nobody in any more and waits until everybody is out. */
static void pool_close(sn_pool *p) {
  uint32_t gate = atomic_fetch_and_explicit(&p->gate, ~POOL_OPEN, memory_order_acquire) & ~POOL_OPEN;
  double until = 0;
  while ((gate & POOL_INSIDE) != 0) {
    double now = sn_time();
    if (until == 0) until = now + p->spin_seconds;
    if (now < until) {
      gate = pool_spin(p, &p->gate, gate);
      continue;
    }
    gate = atomic_fetch_or_explicit(&p->gate, POOL_WAITING, memory_order_acquire) | POOL_WAITING;
    if ((gate & POOL_INSIDE) == 0) break;
    sn_base_wait(&p->gate, gate);
    gate = atomic_load_explicit(&p->gate, memory_order_acquire);
  }
}

static void pool_run_inline(int64_t n, sn_pool_fn fn, void *ctx, int worker) {
  for (int64_t i = 0; i < n; i++) fn(ctx, i, worker);
}

void sn_pool_run(sn_pool *p, int64_t n, sn_pool_fn fn, void *ctx) {
  const pool_frame *nested = p != NULL ? pool_find_frame(p) : NULL;
  if (nested != NULL || p == NULL || p->n_threads == 1 || n < 2) {
    /* A nested call keeps its worker's number: per-worker scratch stays with one thread. */
    pool_run_inline(n, fn, ctx, nested != NULL ? nested->worker : 0);
    return;
  }
  pthread_mutex_lock(&p->callers);
  p->fn = fn;
  p->ctx = ctx;
  p->n_items = n;
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  atomic_store_explicit(&p->gate, POOL_OPEN, memory_order_release);
  pool_announce(p, n - 1);
  pool_work(p, 0);
  pool_close(p);
  pthread_mutex_unlock(&p->callers);
}

/* ---- life ---- */

static sn_status pool_default_threads(int *n) {
  int64_t asked = 0;
  SN_TRY(sn_env_int(NULL, "SINTER_THREADS", &asked));
  *n = asked != 0 ? (int)asked : sn_cpu_count();
  if (*n > POOL_MAX_THREADS) *n = POOL_MAX_THREADS;
  return SN_OK;
}

/* Ends and joins the first n workers. */
static void pool_stop_workers(sn_pool *p, int n) {
  atomic_store(&p->stop, true);
  atomic_fetch_add(&p->epoch, 1);
  sn_base_wake(&p->epoch, POOL_MAX_THREADS);
  for (int i = 0; i < n; i++) pthread_join(p->workers[i].thread, NULL);
}

static sn_status pool_start_workers(sn_pool *p) {
  for (int i = 0; i < p->n_threads - 1; i++) {
    pool_worker *w = &p->workers[i];
    *w = (pool_worker){.pool = p, .index = i + 1};
    if (!sn_base_thread_start(&w->thread, pool_worker_main, w)) {
      pool_stop_workers(p, i);
      return SN_ERR_UNAVAILABLE;
    }
  }
  return SN_OK;
}

static void pool_free(sn_pool *p) {
  sn_base_background_destroy(p->background);
  sn_free(p->workers);
  sn_free_aligned(p);
}

sn_status sn_pool_create(int n_threads, sn_pool **out) {
  *out = NULL;
  if (n_threads < 0 || n_threads > POOL_MAX_THREADS) return SN_ERR_USAGE;
  if (n_threads == 0) SN_TRY(pool_default_threads(&n_threads));
  sn_pool *p = sn_alloc_aligned(POOL_LINE, sizeof *p);
  if (p == NULL) return SN_ERR_MEMORY;
  *p = (sn_pool){.n_threads = n_threads};
  /* With more threads than CPUs a spinning thread takes the CPU of the one it waits for. */
  p->spin_seconds = p->n_threads <= sn_cpu_count() ? POOL_SPIN_SECONDS : 0;
  p->workers = sn_alloc_zero((size_t)p->n_threads, sizeof *p->workers);
  p->background = sn_base_background_create(p->n_threads);
  sn_status s = SN_ERR_MEMORY;
  if (p->workers != NULL && p->background != NULL) {
    s = pthread_mutex_init(&p->callers, NULL) == 0 ? SN_OK : SN_ERR_UNAVAILABLE;
    if (s == SN_OK) {
      s = pool_start_workers(p);
      if (s != SN_OK) pthread_mutex_destroy(&p->callers);
    }
  }
  if (s != SN_OK) {
    pool_free(p);
    return s;
  }
  *out = p;
  return SN_OK;
}

void sn_pool_destroy(sn_pool *p) {
  if (p == NULL) return;
  sn_assert(pool_find_frame(p) == NULL);
  pool_stop_workers(p, p->n_threads - 1);
  pthread_mutex_destroy(&p->callers);
  pool_free(p);
}

int sn_pool_threads(const sn_pool *p) {
  return p != NULL ? p->n_threads : 1;
}

int64_t sn_pool_wakes(const sn_pool *p) {
  return p != NULL ? atomic_load_explicit(&p->n_wakes, memory_order_relaxed) : 0;
}

bool sn_pool_is_awake(const sn_pool *p) {
  return p != NULL && p->n_threads > 1 && p->spin_seconds > 0 && atomic_load_explicit(&p->n_asleep, memory_order_relaxed) == 0;
}

sn_status sn_pool_background(sn_pool *p, void (*fn)(void *ctx), void *ctx) {
  if (p == NULL) return SN_ERR_UNAVAILABLE;
  return sn_base_background_add(p->background, fn, ctx);
}
