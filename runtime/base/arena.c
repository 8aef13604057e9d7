/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bump allocation out of blocks that double in size, so that an arena of n bytes makes O(log n) requests. */
#include "sinter/base.h"

#include <assert.h>
#include <stdalign.h>
#include <string.h>

#define ARENA_ALIGNMENT 16u
#define ARENA_FIRST_BLOCK ((size_t)4 << 10)
#define ARENA_LAST_BLOCK ((size_t)1 << 20) /* growth stops here: at most 1 MiB lies idle */

typedef struct arena_block {
  alignas(ARENA_ALIGNMENT) struct arena_block *below;
  size_t bytes; /* behind this header */
  size_t used;
} arena_block;

struct sn_arena {
  arena_block *top; /* the block allocations come from */
  size_t next_bytes;
  size_t reserved;
};

static_assert(sizeof(arena_block) % ARENA_ALIGNMENT == 0, "the data behind a block's header is aligned");

sn_status sn_arena_create(sn_arena **out) {
  *out = NULL;
  sn_arena *a = sn_alloc_zero(1, sizeof *a);
  if (a == NULL) return SN_ERR_MEMORY;
  a->next_bytes = ARENA_FIRST_BLOCK;
  *out = a;
  return SN_OK;
}

static void arena_free_blocks(sn_arena *a, const arena_block *keep) {
  arena_block *b = a->top;
  while (b != NULL) {
    arena_block *below = b->below;
    if (b != keep) {
      a->reserved -= sizeof *b + b->bytes;
      sn_free(b);
    }
    b = below;
  }
}

void sn_arena_destroy(sn_arena *a) {
  if (a == NULL) return;
  arena_free_blocks(a, NULL);
  sn_free(a);
}

void sn_arena_reset(sn_arena *a) {
  arena_block *largest = a->top;
  for (arena_block *b = a->top; b != NULL; b = b->below) {
    if (b->bytes > largest->bytes) largest = b;
  }
  arena_free_blocks(a, largest);
  a->top = largest;
  if (largest != NULL) {
    largest->below = NULL;
    largest->used = 0;
  }
}

static arena_block *arena_block_create(sn_arena *a, size_t bytes) {
  if (bytes > SIZE_MAX - sizeof(arena_block)) return NULL;
  arena_block *b = sn_alloc(sizeof *b + bytes);
  if (b == NULL) return NULL;
  *b = (arena_block){.bytes = bytes};
  a->reserved += sizeof *b + bytes;
  return b;
}

/* A request that would fill a block gets one of its own, below the top: what is left of the top stays in use. */
static void *arena_alloc_large(sn_arena *a, size_t bytes) {
  arena_block *b = arena_block_create(a, bytes);
  if (b == NULL) return NULL;
  b->used = bytes;
  if (a->top != NULL) {
    b->below = a->top->below;
    a->top->below = b;
  } else {
    a->top = b;
  }
  return b + 1;
}

static void *arena_alloc_slow(sn_arena *a, size_t bytes) {
  if (bytes > a->next_bytes / 2) return arena_alloc_large(a, bytes);
  arena_block *b = arena_block_create(a, a->next_bytes - sizeof *b);
  if (b == NULL) return NULL;
  b->below = a->top;
  a->top = b;
  if (a->next_bytes < ARENA_LAST_BLOCK) a->next_bytes *= 2;
  b->used = bytes;
  return b + 1;
}

void *sn_arena_alloc(sn_arena *a, size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX) return NULL;
  size_t rounded = (bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1);
  if (rounded == 0) rounded = ARENA_ALIGNMENT;
  arena_block *b = a->top;
  if (SN_UNLIKELY(b == NULL || rounded > b->bytes - b->used)) return arena_alloc_slow(a, rounded);
  char *p = (char *)(b + 1) + b->used;
  b->used += rounded;
  return p;
}

void *sn_arena_zero(sn_arena *a, size_t n, size_t bytes_each) {
  if (bytes_each != 0 && n > SIZE_MAX / bytes_each) return NULL;
  void *p = sn_arena_alloc(a, n * bytes_each);
  if (p != NULL) memset(p, 0, n * bytes_each);
  return p;
}

void *sn_arena_copy(sn_arena *a, const void *from, size_t bytes) {
  void *p = sn_arena_alloc(a, bytes);
  if (p != NULL && bytes != 0) memcpy(p, from, bytes);
  return p;
}

char *sn_arena_string(sn_arena *a, const char *s) {
  return s != NULL ? sn_arena_string_n(a, s, strlen(s)) : NULL;
}

char *sn_arena_string_n(sn_arena *a, const char *s, size_t n) {
  if (n == SIZE_MAX) return NULL;
  char *p = sn_arena_alloc(a, n + 1);
  if (p == NULL) return NULL;
  if (n != 0) memcpy(p, s, n);
  p[n] = '\0';
  return p;
}

char *sn_arena_printf(sn_arena *a, const char *fmt, ...) {
  char small[256];
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(small, sizeof small, fmt, ap);
  va_end(ap);
  if (n < 0) return NULL;
  if ((size_t)n < sizeof small) return sn_arena_string_n(a, small, (size_t)n);
  char *p = sn_arena_alloc(a, (size_t)n + 1);
  if (p == NULL) return NULL;
  va_start(ap, fmt);
  vsnprintf(p, (size_t)n + 1, fmt, ap);
  va_end(ap);
  return p;
}

size_t sn_arena_bytes(const sn_arena *a) {
  return a->reserved;
}
