/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A queue of low-priority work and its threads: one starts whenever work comes and all are busy, up to a limit. */
#include "base_internal.h"

#include <pthread.h>

typedef struct background_work {
  void (*fn)(void *ctx);
  void *ctx;
  struct background_work *next;
} background_work;

struct sn_background {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  background_work *first, **last;
  int n_waiting; /* pieces in the queue */
  int n_idle;    /* threads that wait for one */
  bool stop;
  int n_threads, max_threads;
  pthread_t *threads;
};

sn_background *sn_base_background_create(int max_threads) {
  sn_background *b = sn_alloc_zero(1, sizeof *b);
  if (b == NULL) return NULL;
  b->threads = sn_alloc_zero((size_t)max_threads, sizeof *b->threads);
  b->max_threads = max_threads;
  b->last = &b->first;
  bool has_lock = b->threads != NULL && pthread_mutex_init(&b->lock, NULL) == 0;
  if (has_lock && pthread_cond_init(&b->changed, NULL) == 0) return b;
  if (has_lock) pthread_mutex_destroy(&b->lock);
  sn_free(b->threads);
  sn_free(b);
  return NULL;
}

/* Waits for work; NULL when the queue ends. Called with the lock held. */
static background_work *background_take(sn_background *b) {
  b->n_idle++;
  while (!b->stop && b->first == NULL) pthread_cond_wait(&b->changed, &b->lock);
  b->n_idle--;
  if (b->stop) return NULL;
  background_work *w = b->first;
  b->first = w->next;
  if (b->first == NULL) b->last = &b->first;
  b->n_waiting--;
  return w;
}

static void *background_main(void *arg) {
  sn_background *b = arg;
  sn_base_thread_lower_priority();
  pthread_mutex_lock(&b->lock);
  for (background_work *w; (w = background_take(b)) != NULL;) {
    pthread_mutex_unlock(&b->lock);
    w->fn(w->ctx);
    sn_free(w);
    pthread_mutex_lock(&b->lock);
  }
  pthread_mutex_unlock(&b->lock);
  return NULL;
}

/* Called with the lock held. False when there is no thread at all to do the work. */
static bool background_grow(sn_background *b) {
  if (b->n_waiting < b->n_idle || b->n_threads == b->max_threads) return true;
  if (sn_base_thread_start(&b->threads[b->n_threads], background_main, b)) b->n_threads++;
  return b->n_threads != 0;
}

sn_status sn_base_background_add(sn_background *b, void (*fn)(void *ctx), void *ctx) {
  background_work *w = sn_alloc(sizeof *w);
  if (w == NULL) return SN_ERR_MEMORY;
  *w = (background_work){fn, ctx, NULL};
  pthread_mutex_lock(&b->lock);
  bool can = !b->stop && background_grow(b);
  if (can) {
    *b->last = w;
    b->last = &w->next;
    b->n_waiting++;
    pthread_cond_signal(&b->changed);
  }
  pthread_mutex_unlock(&b->lock);
  if (can) return SN_OK;
  sn_free(w);
  return SN_ERR_UNAVAILABLE;
}

void sn_base_background_destroy(sn_background *b) {
  if (b == NULL) return;
  pthread_mutex_lock(&b->lock);
  b->stop = true;
  pthread_cond_broadcast(&b->changed);
  pthread_mutex_unlock(&b->lock);
  for (int i = 0; i < b->n_threads; i++) pthread_join(b->threads[i], NULL);
  while (b->first != NULL) {
    background_work *next = b->first->next;
    sn_free(b->first);
    b->first = next;
  }
  pthread_cond_destroy(&b->changed);
  pthread_mutex_destroy(&b->lock);
  sn_free(b->threads);
  sn_free(b);
}
