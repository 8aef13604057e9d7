/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Pages straight from the system: large zeroed buffers and code. They obey the allocation hook. */
#include "base_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_HUGE ((size_t)2 << 20)

/* Whole pages; 0 when the size has no such multiple. */
static size_t memory_whole_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (bytes == 0) bytes = 1;
  return bytes > (size_t)PTRDIFF_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

static void *memory_map(size_t bytes) {
  if (bytes == 0 || !sn_base_alloc_permit()) return NULL;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p != MAP_FAILED) return p;
  sn_base_alloc_forget();
  return NULL;
}

static void memory_unmap(void *p, size_t bytes) {
  if (p == NULL) return;
  munmap(p, memory_whole_pages(bytes));
  sn_base_alloc_forget();
}

/* Maps more than wanted and gives back what lies before and behind the aligned part. */
static void *memory_map_huge(size_t bytes) {
  if (bytes > (size_t)PTRDIFF_MAX - MEMORY_HUGE) return NULL;
  char *p = memory_map(bytes + MEMORY_HUGE);
  if (p == NULL) return NULL;
  size_t head = (MEMORY_HUGE - (size_t)((uintptr_t)p % MEMORY_HUGE)) % MEMORY_HUGE;
  if (head != 0) munmap(p, head);
  munmap(p + head + bytes, MEMORY_HUGE - head);
#ifdef MADV_HUGEPAGE
  madvise(p + head, bytes, MADV_HUGEPAGE); /* a wish: refused where the system is built or set without */
#endif
  return p + head;
}

void *sn_pages_alloc(size_t bytes) {
  size_t whole = memory_whole_pages(bytes);
  return whole >= MEMORY_HUGE ? memory_map_huge(whole) : memory_map(whole);
}

void sn_pages_free(void *p, size_t bytes) {
  memory_unmap(p, bytes);
}

void *sn_code_alloc(size_t bytes) {
  return memory_map(memory_whole_pages(bytes));
}

sn_status sn_code_seal(void *p, size_t bytes) {
  size_t whole = memory_whole_pages(bytes);
  if (p == NULL || whole == 0) return SN_ERR_USAGE;
  if (mprotect(p, whole, PROT_READ | PROT_EXEC) != 0) return SN_ERR_UNAVAILABLE;
  sn_base_flush_code(p, whole);
  return SN_OK;
}

void sn_code_free(void *p, size_t bytes) {
  memory_unmap(p, bytes);
}

/* ---- what the process holds ---- */

int64_t sn_memory_peak(void) {
  char line[128];
  int64_t kib = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && kib == 0 && fgets(line, sizeof line, f)) {
    if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoll(line + 6, NULL, 10);
  }
  if (f) fclose(f);
  return kib << 10;
}

bool sn_memory_peak_reset(void) {
  FILE *f = fopen("/proc/self/clear_refs", "we");
  if (!f) return false;
  bool ok = fputs("5", f) >= 0; /* proc(5): resets the peak resident set size */
  return fclose(f) == 0 && ok;
}
