/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* malloc behind one counting hook, so that a test can make the n-th allocation fail. */
#include "base_internal.h"

#include <stdlib.h>
#include <string.h>

/* The one piece of process-wide state in the house. */
static _Atomic int64_t alloc_budget = -1; /* allocations still allowed; negative: any number */
static _Atomic int64_t alloc_made;
static _Atomic int64_t alloc_live;

#define ALLOC_MAX_ALIGNMENT ((size_t)2 << 20)

bool sn_base_alloc_permit(void) {
  int64_t left = atomic_load_explicit(&alloc_budget, memory_order_relaxed);
  while (SN_UNLIKELY(left >= 0)) {
    if (left == 0) return false;
    if (atomic_compare_exchange_weak_explicit(&alloc_budget, &left, left - 1, memory_order_relaxed,
                                              memory_order_relaxed)) {
      break;
    }
  }
  atomic_fetch_add_explicit(&alloc_made, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&alloc_live, 1, memory_order_relaxed);
  return true;
}

void sn_base_alloc_forget(void) {
  atomic_fetch_sub_explicit(&alloc_live, 1, memory_order_relaxed);
}

/* Keeps count of what the system answered to a permitted request. */
static void *alloc_answer(void *p) {
  if (SN_UNLIKELY(p == NULL)) sn_base_alloc_forget();
  return p;
}

/* No object is larger than PTRDIFF_MAX; refusing here keeps sanitizers from aborting on the request. */
static bool alloc_too_large(size_t bytes) {
  return bytes > (size_t)PTRDIFF_MAX;
}

void *sn_alloc(size_t bytes) {
  if (alloc_too_large(bytes) || !sn_base_alloc_permit()) return NULL;
  return alloc_answer(malloc(bytes != 0 ? bytes : 1));
}

void *sn_alloc_zero(size_t n, size_t bytes_each) {
  if (n == 0 || bytes_each == 0) n = bytes_each = 1;
  if (n > SIZE_MAX / bytes_each || alloc_too_large(n * bytes_each)) return NULL;
  if (!sn_base_alloc_permit()) return NULL;
  return alloc_answer(calloc(n, bytes_each));
}

void *sn_realloc(void *p, size_t bytes) {
  if (p == NULL) return sn_alloc(bytes);
  if (alloc_too_large(bytes) || !sn_base_alloc_permit()) return NULL;
  void *moved = realloc(p, bytes != 0 ? bytes : 1);
  sn_base_alloc_forget(); /* the block was live before, or still is */
  return moved;
}

void sn_free(void *p) {
  if (p == NULL) return;
  sn_base_alloc_forget();
  free(p);
}

void *sn_alloc_aligned(size_t alignment, size_t bytes) {
  sn_assert(alignment != 0 && (alignment & (alignment - 1)) == 0);
  sn_assert(alignment <= ALLOC_MAX_ALIGNMENT);
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  if (bytes == 0) bytes = 1;
  if (alloc_too_large(bytes) || alloc_too_large(bytes + (alignment - 1))) return NULL;
  if (!sn_base_alloc_permit()) return NULL;
  /* C11 asks for a size that is a multiple of the alignment. */
  return alloc_answer(aligned_alloc(alignment, (bytes + (alignment - 1)) & ~(alignment - 1)));
}

void sn_free_aligned(void *p) {
  sn_free(p);
}

int64_t sn_alloc_fail_after(int64_t n) {
  atomic_store(&alloc_budget, n < 0 ? -1 : n);
  return atomic_exchange(&alloc_made, 0);
}

int64_t sn_alloc_live(void) {
  return atomic_load(&alloc_live);
}

bool sn_mul_i64(int64_t a, int64_t b, int64_t *out) {
  if (a > 0 ? (b > INT64_MAX / a || b < INT64_MIN / a)
            : (a < -1 && (b > INT64_MIN / a || b < INT64_MAX / a))) {
    return false;
  }
  if (a == -1 && b == INT64_MIN) return false;
  *out = a * b;
  return true;
}

bool sn_add_i64(int64_t a, int64_t b, int64_t *out) {
  if (b > 0 ? a > INT64_MAX - b : a < INT64_MIN - b) return false;
  *out = a + b;
  return true;
}
