/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "test_base.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sanitizers need address space, and threads, of their own. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_SANITIZED
#endif
#endif

enum { MAX_ITEMS = 1000 };

typedef struct run_record {
  sn_pool *pool;
  int n_threads;
  _Atomic int bad; /* worker numbers out of range, or two items at once under one number */
  _Atomic int busy[64];
  int times[MAX_ITEMS]; /* plain: an item is run by one thread, and the join orders it before the reader */
} run_record;

static sn_pool *make_pool(int n_threads) {
  sn_pool *p;
  ck_assert_int_eq(sn_pool_create(n_threads, &p), SN_OK);
  return p;
}

static void run_item(void *ctx, int64_t item, int worker) {
  run_record *r = ctx;
  if (worker < 0 || worker >= r->n_threads) {
    r->bad++;
    return;
  }
  if (atomic_fetch_add(&r->busy[worker], 1) != 0) r->bad++;
  r->times[item]++;
  atomic_fetch_sub(&r->busy[worker], 1);
}

START_TEST(pool_runs_each_item_once) {
  for (int n_threads = 1; n_threads <= 5; n_threads++) {
    sn_pool *p = make_pool(n_threads);
    ck_assert_int_eq(sn_pool_threads(p), n_threads);
    run_record r = {.n_threads = n_threads};
    for (int64_t n = 0; n <= MAX_ITEMS; n = n * 3 / 2 + 1) {
      memset(r.times, 0, sizeof r.times);
      sn_pool_run(p, n, run_item, &r);
      for (int64_t i = 0; i < MAX_ITEMS; i++) ck_assert_int_eq(r.times[i], i < n);
    }
    ck_assert_int_eq(r.bad, 0);
    sn_pool_destroy(p);
  }
}
END_TEST

START_TEST(pool_null_runs_inline) {
  run_record r = {.n_threads = 1};
  sn_pool_run(NULL, 3, run_item, &r);
  ck_assert_int_eq(r.times[0] + r.times[1] + r.times[2], 3);
  ck_assert_int_eq(r.bad, 0);
  ck_assert_int_eq(sn_pool_threads(NULL), 1);
  ck_assert_int_eq(sn_pool_background(NULL, free, NULL), SN_ERR_UNAVAILABLE);
  sn_pool_destroy(NULL);
}
END_TEST

/* Many short jobs, with pauses that send the workers to sleep now and then. */
START_TEST(pool_survives_many_jobs) {
  sn_pool *p = make_pool(4);
  run_record r = {.n_threads = 4};
  for (int i = 0; i < 20000; i++) {
    sn_pool_run(p, 2 + i % 5, run_item, &r);
    if (i % 1000 == 0) usleep(300);
  }
  ck_assert_int_eq(r.times[0], 20000);
  ck_assert_int_eq(r.times[1], 20000);
  ck_assert_int_eq(r.times[5], 4000);
  ck_assert_int_eq(r.bad, 0);
  sn_pool_destroy(p);
}
END_TEST

static void slow_item(void *ctx, int64_t item, int worker) {
  (void)worker;
  usleep(item == 0 ? 1000 : 3000); /* long enough for the caller to sleep on the gate */
  atomic_fetch_add((_Atomic int *)ctx, 1);
}

START_TEST(pool_waits_for_slow_items) {
  sn_pool *p = make_pool(3);
  for (int i = 0; i < 30; i++) {
    _Atomic int done = 0;
    sn_pool_run(p, 3, slow_item, &done);
    ck_assert_int_eq(done, 3);
  }
  sn_pool_destroy(p);
}
END_TEST

static void uses_both(void *ctx, int64_t item, int worker) {
  _Atomic int *seen = ctx;
  (void)item;
  atomic_fetch_or(seen, 1 << worker);
  double until = sn_time() + 1.0; /* each waits for the other: works only when they run at the same time */
  while (atomic_load(seen) != 3 && sn_time() < until) sn_base_relax();
}

START_TEST(pool_uses_its_threads) {
  sn_pool *p = make_pool(2);
  for (int i = 0; i < 3; i++) {
    _Atomic int seen = 0;
    sn_pool_run(p, 2, uses_both, &seen);
    ck_assert_int_eq(seen, 3);
    usleep(1000);
  }
  sn_pool_destroy(p);
}
END_TEST

typedef struct nested_ctx {
  sn_pool *pool;
  int worker;
  _Atomic int *wrong, *n;
} nested_ctx;

static void nested_inner(void *ctx, int64_t item, int worker) {
  nested_ctx *c = ctx;
  (void)item;
  if (worker != c->worker) ++*c->wrong;
  ++*c->n;
}

static void nested_outer(void *ctx, int64_t item, int worker) {
  nested_ctx mine = *(nested_ctx *)ctx;
  (void)item;
  mine.worker = worker;
  sn_pool_run(mine.pool, 5, nested_inner, &mine);
  sn_pool_run(mine.pool, 1, nested_inner, &mine);
}

START_TEST(pool_nested_runs_inline) {
  _Atomic int wrong = 0, n = 0;
  nested_ctx c = {make_pool(3), 0, &wrong, &n};
  for (int i = 0; i < 200; i++) sn_pool_run(c.pool, 10, nested_outer, &c);
  ck_assert_int_eq(wrong, 0);
  ck_assert_int_eq(n, 200 * 10 * 6);
  sn_pool_destroy(c.pool);
}
END_TEST

static void *foreign_caller(void *arg) {
  run_record *r = arg;
  for (int i = 0; i < 1000; i++) sn_pool_run(r->pool, 8, run_item, r);
  return NULL;
}

START_TEST(pool_callers_wait_their_turn) {
  sn_pool *p = make_pool(2);
  run_record r[3] = {{0}, {0}, {0}};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    r[i].pool = p;
    r[i].n_threads = 2;
    ck_assert_int_eq(pthread_create(&threads[i], NULL, foreign_caller, &r[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    pthread_join(threads[i], NULL);
    for (int k = 0; k < 8; k++) ck_assert_int_eq(r[i].times[k], 1000);
    ck_assert_int_eq(r[i].bad, 0);
  }
  sn_pool_destroy(p);
}
END_TEST

static void nothing(void *ctx, int64_t item, int worker) {
  (void)ctx;
  (void)item;
  (void)worker;
}

/* Fork and join must cost a step of a thousand kernels little: under a microsecond where nothing else runs. The best of
 * many batches is what the pool itself costs; the bound leaves a factor of ten for sanitizers and busy machines. */
START_TEST(pool_fork_join_is_cheap) {
  sn_pool *p = make_pool(2);
  double best = 1;
  for (int batch = 0; batch < 50; batch++) {
    double start = sn_time();
    for (int i = 0; i < 1000; i++) sn_pool_run(p, 2, nothing, NULL);
    double each = (sn_time() - start) / 1000;
    if (each < best) best = each;
  }
  if (getenv("SINTER_TEST_VERBOSE") != NULL) printf("fork-join on two threads: %.0f ns\n", best * 1e9);
  ck_assert_double_lt(best, 10e-6);
  sn_pool_destroy(p);
}
END_TEST

START_TEST(pool_size_comes_from_environment) {
  setenv("SINTER_THREADS", "3", 1);
  sn_pool *p = make_pool(0);
  ck_assert_int_eq(sn_pool_threads(p), 3);
  sn_pool_destroy(p);
  setenv("SINTER_THREADS", "", 1); /* as if it were unset */
  p = make_pool(0);
  ck_assert_int_eq(sn_pool_threads(p), sn_cpu_count());
  sn_pool_destroy(p);
  static const char *const nonsense[] = {"0", "-2", "4x", "abc", "1025", "99999999999999999999"};
  for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
    setenv("SINTER_THREADS", nonsense[i], 1);
    ck_assert_int_eq(sn_pool_create(0, &p), SN_ERR_USAGE);
    ck_assert_ptr_null(p);
    p = make_pool(2); /* nobody asks it */
    sn_pool_destroy(p);
  }
  unsetenv("SINTER_THREADS");
  ck_assert_int_eq(sn_pool_create(-1, &p), SN_ERR_USAGE);
  ck_assert_ptr_null(p);
}
END_TEST

static sn_status pool_attempt(void) {
  sn_pool *p;
  SN_TRY(sn_pool_create(3, &p));
  sn_pool_destroy(p);
  return SN_OK;
}

START_TEST(pool_allocation_failures) {
  ck_assert_int_ge(check_allocation_failures(pool_attempt), 3);
}
END_TEST

#ifndef TEST_SANITIZED
/* In a process of its own whose address space is nearly used up, so that stacks for some threads fit and then no more. */
static int pool_without_room(void) {
  char line[256];
  long pages = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f == NULL || fgets(line, sizeof line, f) == NULL || sscanf(line, "%ld", &pages) != 1) return 2;
  fclose(f);
  rlim_t limit = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)30 << 20);
  struct rlimit r = {limit, limit};
  if (setrlimit(RLIMIT_AS, &r) != 0) return 2;
  int64_t live = sn_alloc_live();
  sn_pool *p = (sn_pool *)&r;
  sn_status s = sn_pool_create(512, &p);
  if (s != SN_ERR_UNAVAILABLE || p != NULL || sn_alloc_live() != live) return 3;
  int n_threads = -1;
  f = fopen("/proc/self/status", "r");
  while (f != NULL && fgets(line, sizeof line, f) != NULL) sscanf(line, "Threads: %d", &n_threads);
  return n_threads == 1 ? 0 : 4;
}

START_TEST(pool_thread_failure_leaves_nothing) {
  fflush(NULL);
  pid_t child = fork();
  ck_assert_int_ge(child, 0);
  if (child == 0) _exit(pool_without_room());
  int status;
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert(WIFEXITED(status));
  ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST
#endif

static void count_one(void *ctx) {
  atomic_fetch_add((_Atomic int *)ctx, 1);
}

START_TEST(background_runs) {
  sn_pool *p = make_pool(2);
  _Atomic int n = 0;
  for (int i = 0; i < 500; i++) ck_assert_int_eq(sn_pool_background(p, count_one, &n), SN_OK);
  double until = sn_time() + 30;
  while (n < 500 && sn_time() < until) usleep(100);
  ck_assert_int_eq(n, 500);
  sn_pool_destroy(p);
}
END_TEST

typedef struct background_record {
  _Atomic int started, finished, niceness;
} background_record;

static void block_a_while(void *ctx) {
  background_record *r = ctx;
  atomic_store(&r->niceness, getpriority(PRIO_PROCESS, (id_t)gettid()));
  atomic_fetch_add(&r->started, 1);
  usleep(20000);
  atomic_fetch_add(&r->finished, 1);
}

START_TEST(background_drops_what_waits) {
  int64_t live = sn_alloc_live();
  sn_pool *p = make_pool(1);
  background_record r = {0, 0, 0};
  for (int i = 0; i < 50; i++) ck_assert_int_eq(sn_pool_background(p, block_a_while, &r), SN_OK);
  double until = sn_time() + 30;
  while (r.started == 0 && sn_time() < until) usleep(100);
  sn_pool_destroy(p);
  ck_assert_int_eq(r.started, r.finished);
  ck_assert_int_ge(r.finished, 1);
  ck_assert_int_lt(r.finished, 50);
  ck_assert(r.niceness > getpriority(PRIO_PROCESS, 0) || r.niceness == 19);
  ck_assert_int_eq(sn_alloc_live(), live);
}
END_TEST

TCase *case_pool(void) {
  TCase *c = tcase_create("pool");
  tcase_set_timeout(c, 100);
  tcase_add_test(c, pool_runs_each_item_once);
  tcase_add_test(c, pool_null_runs_inline);
  tcase_add_test(c, pool_survives_many_jobs);
  tcase_add_test(c, pool_waits_for_slow_items);
  tcase_add_test(c, pool_uses_its_threads);
  tcase_add_test(c, pool_nested_runs_inline);
  tcase_add_test(c, pool_callers_wait_their_turn);
  tcase_add_test(c, pool_fork_join_is_cheap);
  tcase_add_test(c, pool_size_comes_from_environment);
  tcase_add_test(c, pool_allocation_failures);
#ifndef TEST_SANITIZED
  tcase_add_test(c, pool_thread_failure_leaves_nothing);
#endif
  tcase_add_test(c, background_runs);
  tcase_add_test(c, background_drops_what_waits);
  return c;
}
