/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Device memory: one reservation of the host's, handed out in pieces with gaps between, so that an access past an end finds nothing. */
#include <string.h>

#include "emu.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

enum { GAP = 4096, ALIGNMENT = 512 };

typedef struct piece { uint64_t at, bytes; } piece; /* offsets into the reservation */

static struct {
  uint8_t *base, *shadow;
  uint64_t capacity, reserved, used;
  piece *pieces; /* by offset */
  uint32_t n, cap;
} memory;

static uint8_t *reserve(uint64_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

bool emu_memory_open(uint64_t bytes, bool shadow) {
  if (memory.base) return true;
  memory.capacity = bytes;
  memory.reserved = 4 * bytes + (64 << 20); /* addresses are plenty: gaps and holes cost none of the capacity */
  memory.base = reserve(memory.reserved);
  if (memory.base && shadow && !(memory.shadow = reserve(memory.reserved))) emu_memory_close();
  return memory.base != NULL;
}

void emu_memory_close(void) {
  if (memory.base) munmap(memory.base, memory.reserved);
  if (memory.shadow) munmap(memory.shadow, memory.reserved);
  sn_free(memory.pieces);
  memset(&memory, 0, sizeof memory);
}

static bool room_for_one(void) {
  if (memory.n < memory.cap) return true;
  uint32_t cap = memory.cap ? 2 * memory.cap : 64;
  piece *more = sn_realloc(memory.pieces, cap * sizeof *more);
  if (!more) return false;
  memory.pieces = more;
  memory.cap = cap;
  return true;
}

uint64_t emu_memory_alloc(uint64_t bytes) {
  uint64_t need = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT, at = GAP;
  uint32_t k = 0;
  if (!memory.base && !emu_memory_open(emu_settings_get()->memory_bytes, emu_settings_get()->check_uninitialised)) return 0;
  if (bytes == 0 || need < bytes || need > memory.capacity - memory.used || !room_for_one()) return 0;
  for (; k < memory.n; k++) {
    if (at + need + GAP <= memory.pieces[k].at) break;
    at = (memory.pieces[k].at + memory.pieces[k].bytes + GAP + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  if (at > memory.reserved || need + GAP > memory.reserved - at) return 0;
  memmove(memory.pieces + k + 1, memory.pieces + k, (memory.n - k) * sizeof *memory.pieces);
  memory.pieces[k] = (piece){at, bytes};
  memory.n++;
  memory.used += need;
  /* what a device's memory holds at first is nobody's business: here NaNs */
  memset(memory.base + at, 0xff, bytes);
  if (memory.shadow) memset(memory.shadow + at, 0, bytes);
  return EMU_GLOBAL_BASE + at;
}

/* The piece that begins at or below an offset; NULL: none. */
static piece *below(uint64_t offset) {
  uint32_t low = 0, high = memory.n;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (memory.pieces[middle].at <= offset) low = middle + 1;
    else high = middle;
  }
  return low ? &memory.pieces[low - 1] : NULL;
}

bool emu_memory_free(uint64_t at) {
  piece *p = at >= EMU_GLOBAL_BASE ? below(at - EMU_GLOBAL_BASE) : NULL;
  if (!p || p->at != at - EMU_GLOBAL_BASE) return false;
  memory.used -= (p->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
#if defined(__linux__)
  uint64_t from = (p->at + GAP - 1) / GAP * GAP, to = (p->at + p->bytes) / GAP * GAP;
  if (to > from) madvise(memory.base + from, to - from, MADV_DONTNEED);
#endif
  memmove(p, p + 1, (size_t)(memory.pieces + memory.n - (p + 1)) * sizeof *p);
  memory.n--;
  return true;
}

void emu_memory_info(uint64_t *free_bytes, uint64_t *total) {
  *total = memory.capacity ? memory.capacity : emu_settings_get()->memory_bytes;
  *free_bytes = *total - memory.used;
}

uint8_t *emu_memory_at(uint64_t at, uint64_t bytes) {
  const piece *p = at >= EMU_GLOBAL_BASE ? below(at - EMU_GLOBAL_BASE) : NULL;
  uint64_t offset = p ? at - EMU_GLOBAL_BASE - p->at : 0;
  if (!p || offset > p->bytes || bytes > p->bytes - offset) return NULL;
  return memory.base + (at - EMU_GLOBAL_BASE);
}

uint8_t *emu_memory_shadow(const uint8_t *host) { return memory.shadow ? memory.shadow + (host - memory.base) : NULL; }

void emu_memory_explain(uint64_t at, char *to, size_t bytes) {
  const piece *p = at >= EMU_GLOBAL_BASE && at - EMU_GLOBAL_BASE < memory.reserved ? below(at - EMU_GLOBAL_BASE) : NULL;
  uint64_t offset = at - EMU_GLOBAL_BASE;
  if (p && p + 1 < memory.pieces + memory.n && p[1].at - offset < offset - p->at - p->bytes && offset > p->at + p->bytes) {
    snprintf(to, bytes, "%llu bytes before an allocation of %llu bytes", (unsigned long long)(p[1].at - offset), (unsigned long long)p[1].bytes);
  } else if (p) {
    snprintf(to, bytes, offset >= p->at + p->bytes ? "%llu bytes past the end of an allocation of %llu bytes" : "byte %llu of an allocation of %llu bytes",
             (unsigned long long)(offset >= p->at + p->bytes ? offset - p->at - p->bytes : offset - p->at), (unsigned long long)p->bytes);
  } else {
    snprintf(to, bytes, "no device memory lies there");
  }
}
