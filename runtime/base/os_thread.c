/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "base_internal.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define THREAD_BACKGROUND_NICE 10

/* Faults and profiling stay with the thread that causes them; everything else goes to the application's threads. */
static void thread_block_signals(sigset_t *before) {
  static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
  sigset_t all;
  sigfillset(&all);
  for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) sigdelset(&all, kept[i]);
  pthread_sigmask(SIG_BLOCK, &all, before);
}

bool sn_base_thread_start(void *thread, void *(*fn)(void *arg), void *arg) {
  sigset_t before; /* a thread inherits the mask of its maker */
  thread_block_signals(&before);
  bool ok = pthread_create(thread, NULL, fn, arg) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return ok;
}

#ifdef __linux__

void sn_base_thread_lower_priority(void) {
  /* Linux keeps a nice value a thread. A refusal costs speed alone. */
  pid_t self = (pid_t)syscall(SYS_gettid);
  struct sched_param none = {0};
  sched_setscheduler(self, SCHED_BATCH, &none);
  setpriority(PRIO_PROCESS, (id_t)self, getpriority(PRIO_PROCESS, (id_t)self) + THREAD_BACKGROUND_NICE); /* the kernel ends the scale at 19 */
}

void sn_base_wait(_Atomic uint32_t *word, uint32_t expected) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

void sn_base_wake(_Atomic uint32_t *word, int n) {
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

#else

void sn_base_thread_lower_priority(void) {}

/* Without a futex an idle worker gives its time slice away and looks again. */
void sn_base_wait(_Atomic uint32_t *word, uint32_t expected) {
  if (atomic_load(word) == expected) sched_yield();
}

void sn_base_wake(_Atomic uint32_t *word, int n) {
  (void)word;
  (void)n;
}

#endif
