/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a cubin says of its functions. A cubin is an ELF file (64 bits, little-endian): the code of `f` is section .text.f, whose header's info field holds the register
 * count in its top byte; its static shared memory is .nv.shared.f; .nv.info.f is a list of attributes. */
#include "sinter/gpu.h"

#include <string.h>

typedef struct section {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
} section;

typedef struct elf {
  const uint8_t *data;
  size_t bytes;
  uint64_t table;
  uint32_t n, entry_bytes;
  uint64_t names, names_bytes;
} elf;

static bool get(const elf *f, uint64_t at, void *to, size_t bytes) {
  if (at > f->bytes || bytes > f->bytes - at) return false;
  memcpy(to, f->data + at, bytes);
  return true;
}

static bool section_at(const elf *f, uint32_t i, section *out) { return get(f, f->table + (uint64_t)i * f->entry_bytes, out, 48); }

static bool open_elf(elf *f, const void *data, size_t bytes) {
  uint16_t entry, n, names;
  section s;
  memset(f, 0, sizeof *f);
  f->data = data;
  f->bytes = bytes;
  if (bytes < 64 || memcmp(data, "\177ELF\2\1", 6) != 0) return false;
  if (!get(f, 40, &f->table, 8) || !get(f, 58, &entry, 2) || !get(f, 60, &n, 2) || !get(f, 62, &names, 2)) return false;
  if (entry < 64 || f->table > bytes) return false;
  f->n = n;
  f->entry_bytes = entry;
  if (!section_at(f, names, &s) || s.offset > bytes || s.size > bytes - s.offset) return false;
  f->names = s.offset;
  f->names_bytes = s.size;
  return true;
}

static bool has_name(const elf *f, const section *s, const char *prefix, const char *entry) {
  size_t a = strlen(prefix), b = strlen(entry);
  if (s->name >= f->names_bytes || a + b + 1 > f->names_bytes - s->name) return false;
  const char *name = (const char *)f->data + f->names + s->name;
  return memcmp(name, prefix, a) == 0 && memcmp(name + a, entry, b + 1) == 0;
}

bool sn_cubin_resources(const void *cubin, size_t bytes, const char *entry, int *registers, int *static_shared, int *local) {
  elf f;
  bool found = false;
  *registers = -1;
  *static_shared = 0;
  *local = -1;
  if (!cubin || !open_elf(&f, cubin, bytes)) return false;
  for (uint32_t i = 0; i < f.n; i++) {
    section s;
    if (!section_at(&f, i, &s)) return false;
    if (has_name(&f, &s, ".text.", entry)) {
      *registers = (int)(s.info >> 24);
      found = true;
    } else if (has_name(&f, &s, ".nv.shared.", entry)) {
      *static_shared = (int)s.size;
    }
  }
  return found;
}
