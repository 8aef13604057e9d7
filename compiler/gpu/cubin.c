/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a cubin says of its functions. A cubin is an ELF file (64 bits, little-endian): the code of `f` is section .text.f, its static shared memory .nv.shared.f; section
 * .nv.info is a list of attributes, among them the register count of each function by its symbol. */
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

/* ---- attributes: a format byte, an attribute byte, 16 bits that are a value or the bytes that follow ---- */

enum { FORMAT_SIZED = 4, ATTRIBUTE_FRAME = 0x11, ATTRIBUTE_REGISTERS = 0x2f, SYMBOL_BYTES = 24, SYMTAB = 2 };

/* Is symbol `number` of the file's table named `entry`? */
static bool is_symbol(const elf *f, uint32_t number, const char *entry) {
  for (uint32_t i = 0; i < f->n; i++) {
    section table, names;
    uint32_t name;
    if (!section_at(f, i, &table) || table.type != SYMTAB) continue;
    if (number >= table.size / SYMBOL_BYTES || !get(f, table.offset + (uint64_t)number * SYMBOL_BYTES, &name, 4) || !section_at(f, table.link, &names)) return false;
    size_t n = strlen(entry) + 1;
    if (names.offset > f->bytes || names.size > f->bytes - names.offset || name > names.size || n > names.size - name) return false;
    return memcmp(f->data + names.offset + name, entry, n) == 0;
  }
  return false;
}

static void read_attributes(const elf *f, const section *s, const char *entry, int *registers, int *local) {
  for (uint64_t at = 0; at + 4 <= s->size;) {
    uint8_t head[2];
    uint16_t size;
    uint32_t pair[2];
    if (!get(f, s->offset + at, head, 2) || !get(f, s->offset + at + 2, &size, 2)) return;
    bool counts = head[0] == FORMAT_SIZED && size == 8 && (head[1] == ATTRIBUTE_REGISTERS || head[1] == ATTRIBUTE_FRAME);
    if (counts && get(f, s->offset + at + 4, pair, 8) && is_symbol(f, pair[0], entry)) *(head[1] == ATTRIBUTE_REGISTERS ? registers : local) = (int)pair[1];
    at += 4 + (head[0] == FORMAT_SIZED ? size : 0);
  }
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
      found = true;
    } else if (has_name(&f, &s, ".nv.info", "")) {
      read_attributes(&f, &s, entry, registers, local);
    } else if (has_name(&f, &s, ".nv.shared.", entry)) {
      *static_shared = (int)s.size;
    }
  }
  return found;
}

/* ---- how many blocks fit: NVIDIA's "CUDA C++ Programming Guide", compute capabilities ---- */

enum { SM_REGISTERS = 65536, REGISTER_UNIT = 256 /* of a warp */, PARTITIONS = 4, BLOCK_RESERVE = 1024 /* bytes of shared memory the system takes of each block */ };

int sn_gpu_resident(const sn_target *t, const sn_gpu_phase *p) {
  if (p->registers <= 0 || p->threads <= 0) return 0;
  int warps = (p->threads + 31) / 32, of_warp = (p->registers * 32 + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
  int most = SM_REGISTERS / PARTITIONS / of_warp * PARTITIONS / warps, threads = (t->sm_threads ? t->sm_threads : 1536) / (32 * warps);
  int64_t shared = (t->l1_bytes + BLOCK_RESERVE) / (p->shared_bytes + (p->static_shared_bytes > 0 ? p->static_shared_bytes : 0) + BLOCK_RESERVE);
  if (threads < most) most = threads;
  if (t->sm_blocks && t->sm_blocks < most) most = t->sm_blocks;
  return shared < most ? (int)shared : most;
}
