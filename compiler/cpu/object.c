/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* ELF: System V ABI, chapters 4 and 5; relocations: psABI x86-64 (table 4.9) and ELF for the Arm 64-bit Architecture (aaelf64). */
#include "object.h"

#include <elf.h>
#include <string.h>

/* ---- reading ---- */

typedef struct reader {
  const uint8_t *data;
  size_t bytes;
  const Elf64_Ehdr *head;
  const Elf64_Shdr *sections;
} reader;

static bool fail(sn_arena *a, const char **error, const char *label, const char *what) {
  *error = sn_arena_printf(a, "%s: %s", label, what);
  return false;
}

static bool inside(const reader *r, uint64_t offset, uint64_t bytes) { return offset <= r->bytes && bytes <= r->bytes - offset; }

static bool read_head(reader *r) {
  if (r->bytes < sizeof *r->head) return false;
  r->head = (const Elf64_Ehdr *)(const void *)r->data;
  const Elf64_Ehdr *h = r->head;
  if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_REL) return false;
  if (h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff % 8 || !inside(r, h->e_shoff, (uint64_t)h->e_shnum * sizeof(Elf64_Shdr))) return false;
  r->sections = (const Elf64_Shdr *)(const void *)(r->data + h->e_shoff);
  for (int i = 0; i < h->e_shnum; i++) {
    if (r->sections[i].sh_type != SHT_NOBITS && !inside(r, r->sections[i].sh_offset, r->sections[i].sh_size)) return false;
  }
  return h->e_shstrndx < h->e_shnum;
}

static const char *section_name(const reader *r, int i) {
  const Elf64_Shdr *names = &r->sections[r->head->e_shstrndx];
  return r->sections[i].sh_name < names->sh_size ? (const char *)r->data + names->sh_offset + r->sections[i].sh_name : "";
}

static bool is_loaded(const reader *r, int i) {
  const Elf64_Shdr *s = &r->sections[i];
  return (s->sh_flags & SHF_ALLOC) && s->sh_size && s->sh_type == SHT_PROGBITS && strncmp(section_name(r, i), ".eh_frame", 9) != 0;
}

static void read_sections(const reader *r, object *o) {
  for (int i = 0; i < o->n_sections; i++) {
    const Elf64_Shdr *s = &r->sections[i];
    object_section *to = &o->sections[i];
    to->placed = is_loaded(r, i);
    to->data = r->data + s->sh_offset;
    to->bytes = s->sh_size;
    to->align = s->sh_addralign ? s->sh_addralign : 1;
    to->code = (s->sh_flags & SHF_EXECINSTR) != 0;
  }
}

static bool read_symbols(sn_arena *a, const reader *r, int table, object *o) {
  const Elf64_Shdr *s = &r->sections[table];
  if (s->sh_link >= r->head->e_shnum || s->sh_offset % 8) return false;
  const Elf64_Shdr *names = &r->sections[s->sh_link];
  const Elf64_Sym *from = (const Elf64_Sym *)(const void *)(r->data + s->sh_offset);
  o->n_symbols = (int)(s->sh_size / sizeof *from);
  o->symbols = SN_NEW_N(a, object_symbol, o->n_symbols + 1);
  if (!o->symbols) return false;
  for (int i = 0; i < o->n_symbols; i++) {
    object_symbol *to = &o->symbols[i];
    to->name = from[i].st_name < names->sh_size ? (const char *)r->data + names->sh_offset + from[i].st_name : "";
    to->section = from[i].st_shndx != SHN_UNDEF && from[i].st_shndx < r->head->e_shnum ? from[i].st_shndx : -1;
    to->value = from[i].st_value;
    to->bytes = from[i].st_size;
    to->local = ELF64_ST_BIND(from[i].st_info) == STB_LOCAL;
    to->function = ELF64_ST_TYPE(from[i].st_info) == STT_FUNC;
  }
  return true;
}

static bool read_fixups(sn_arena *a, const reader *r, object *o) {
  int n = 0;
  for (int i = 0; i < r->head->e_shnum; i++) {
    if (r->sections[i].sh_type == SHT_RELA) n += (int)(r->sections[i].sh_size / sizeof(Elf64_Rela));
  }
  o->fixups = SN_NEW_N(a, object_fixup, n + 1);
  if (!o->fixups) return false;
  for (int i = 0; i < r->head->e_shnum; i++) {
    const Elf64_Shdr *s = &r->sections[i];
    if (s->sh_type != SHT_RELA || s->sh_info >= r->head->e_shnum || !o->sections[s->sh_info].placed || s->sh_offset % 8) continue;
    const Elf64_Rela *from = (const Elf64_Rela *)(const void *)(r->data + s->sh_offset);
    for (size_t k = 0; k < s->sh_size / sizeof *from; k++) {
      object_fixup f = {(int)s->sh_info, (int)ELF64_R_SYM(from[k].r_info), (uint32_t)ELF64_R_TYPE(from[k].r_info), from[k].r_offset, from[k].r_addend};
      if (f.symbol >= o->n_symbols || f.offset + 4 > o->sections[f.section].bytes) return false;
      o->fixups[o->n_fixups++] = f;
    }
  }
  return true;
}

bool object_read(sn_arena *a, const char *label, const void *data, size_t bytes, object *out, const char **error) {
  reader r = {data, bytes, NULL, NULL};
  memset(out, 0, sizeof *out);
  out->label = label;
  if (!read_head(&r)) return fail(a, error, label, "not an ELF object");
  out->machine = r.head->e_machine;
  out->n_sections = r.head->e_shnum;
  out->sections = SN_NEW_N(a, object_section, out->n_sections + 1);
  if (!out->sections) return fail(a, error, label, "out of memory");
  read_sections(&r, out);
  for (int i = 0; i < r.head->e_shnum; i++) {
    if (r.sections[i].sh_type == SHT_SYMTAB && !read_symbols(a, &r, i, out)) return fail(a, error, label, "bad symbol table");
  }
  return read_fixups(a, &r, out) || fail(a, error, label, "bad relocations");
}

/* ---- layout ---- */

static uint64_t place(int n, object *objects, bool code, uint64_t at) {
  for (int i = 0; i < n; i++) {
    for (int s = 0; s < objects[i].n_sections; s++) {
      object_section *x = &objects[i].sections[s];
      if (!x->placed || x->code != code) continue;
      at = (at + x->align - 1) / x->align * x->align;
      x->offset = at;
      at += x->bytes;
    }
  }
  return at;
}

int64_t object_find(int n, const object *objects, const char *name) {
  for (int i = 0; i < n; i++) {
    for (int s = 0; s < objects[i].n_symbols; s++) {
      const object_symbol *x = &objects[i].symbols[s];
      if (x->section >= 0 && !x->local && strcmp(x->name, name) == 0) return (int64_t)(objects[i].sections[x->section].offset + x->value);
    }
  }
  return -1;
}

/* Global definitions by name; values are offsets + 1. */
static sn_status index_symbols(int n, const object *objects, sn_map **out) {
  SN_TRY(sn_map_create(out));
  for (int i = 0; i < n; i++) {
    for (int s = 0; s < objects[i].n_symbols; s++) {
      const object_symbol *x = &objects[i].symbols[s];
      if (x->section < 0 || x->local || !x->name[0]) continue;
      uint64_t at = objects[i].sections[x->section].offset + x->value;
      sn_status st = sn_map_set(*out, x->name, strlen(x->name), at + 1);
      if (st != SN_OK) return st;
    }
  }
  return SN_OK;
}

const char *object_missing(int n, const object *objects, const char **label) {
  for (int i = 0; i < n; i++) {
    for (int f = 0; f < objects[i].n_fixups; f++) {
      const object_symbol *x = &objects[i].symbols[objects[i].fixups[f].symbol];
      if (x->section >= 0 || object_find(n, objects, x->name) >= 0) continue;
      *label = objects[i].label;
      return x->name;
    }
  }
  return NULL;
}

/* ---- relocations ---- */

static uint32_t get32(const uint8_t *p) { return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }
static void put32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}
static bool put_relative32(uint8_t *p, int64_t v) {
  if (v < INT32_MIN || v > INT32_MAX) return false;
  put32(p, (uint32_t)(int32_t)v);
  return true;
}

/* `to`: offset of symbol + addend in the blob; `at`: of the place. */
static bool fix_x86(uint8_t *blob, uint32_t type, int64_t at, int64_t to) {
  switch (type) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32: return put_relative32(blob + at, to - at);
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      if (at < 2 || blob[at - 2] != 0x8b) return false;
      blob[at - 2] = 0x8d; /* the load of an address from a table becomes the address: mov to lea */
      return put_relative32(blob + at, to - at);
    case R_X86_64_PC64: {
      int64_t v = to - at;
      put32(blob + at, (uint32_t)v);
      put32(blob + at + 4, (uint32_t)((uint64_t)v >> 32));
      return true;
    }
    default: return false;
  }
}

/* Page-relative forms hold because blobs are loaded at page borders. */
static bool fix_aarch64(uint8_t *blob, uint32_t type, int64_t at, int64_t to) {
  uint8_t *p = blob + at;
  uint32_t word = get32(p);
  int64_t page = (to & ~INT64_C(4095)) - (at & ~INT64_C(4095)), low = to & 4095;
  int shift = 0;
  switch (type) {
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      put32(p, (word & 0xfc000000u) | ((uint32_t)((to - at) >> 2) & 0x03ffffffu));
      return to - at >= -(INT64_C(1) << 27) && to - at < INT64_C(1) << 27;
    case R_AARCH64_ADR_PREL_PG_HI21: {
      uint32_t v = (uint32_t)(page >> 12);
      put32(p, (word & 0x9f00001fu) | (v & 3) << 29 | (v >> 2 & 0x7ffffu) << 5);
      return true;
    }
    case R_AARCH64_PREL32: return put_relative32(p, to - at);
    case R_AARCH64_LDST128_ABS_LO12_NC: shift++; /* fall through */
    case R_AARCH64_LDST64_ABS_LO12_NC: shift++;  /* fall through */
    case R_AARCH64_LDST32_ABS_LO12_NC: shift++;  /* fall through */
    case R_AARCH64_LDST16_ABS_LO12_NC: shift++;  /* fall through */
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_ADD_ABS_LO12_NC:
      put32(p, (word & ~(0xfffu << 10)) | (uint32_t)(low >> shift) << 10);
      return true;
    default: return false;
  }
}

static bool fix(const object *o, const object_fixup *f, const sn_map *symbols, uint8_t *blob) {
  const object_symbol *x = &o->symbols[f->symbol];
  int64_t at = (int64_t)(o->sections[f->section].offset + f->offset), to;
  uint64_t defined;
  if (x->section >= 0) {
    if (!o->sections[x->section].placed) return false;
    to = (int64_t)(o->sections[x->section].offset + x->value);
  } else {
    if (!sn_map_get(symbols, x->name, strlen(x->name), &defined)) return false;
    to = (int64_t)defined - 1;
  }
  to += f->addend;
  return o->machine == EM_X86_64 ? fix_x86(blob, f->type, at, to) : o->machine == EM_AARCH64 ? fix_aarch64(blob, f->type, at, to) : false;
}

static sn_status fix_all(sn_arena *a, int n, const object *objects, const sn_map *symbols, uint8_t *blob, const char **error) {
  for (int i = 0; i < n; i++) {
    for (int f = 0; f < objects[i].n_fixups; f++) {
      const object_fixup *x = &objects[i].fixups[f];
      if (fix(&objects[i], x, symbols, blob)) continue;
      const char *name = objects[i].symbols[x->symbol].name;
      *error = sn_arena_printf(a, "%s: relocation of type %u against '%s' cannot be resolved inside the code", objects[i].label, x->type, name);
      return SN_ERR_INTERNAL;
    }
  }
  return SN_OK;
}

sn_status object_link(sn_arena *a, int n, object *objects, void **code, int64_t *bytes, const char **error) {
  sn_map *symbols = NULL;
  *code = NULL;
  *bytes = 0;
  uint64_t total = place(n, objects, true, 0);
  total = place(n, objects, false, (total + 63) / 64 * 64);
  uint8_t *blob = sn_alloc_aligned(4096, total ? total : 1);
  if (!blob) return SN_ERR_MEMORY;
  memset(blob, 0, total);
  for (int i = 0; i < n; i++) {
    for (int s = 0; s < objects[i].n_sections; s++) {
      const object_section *x = &objects[i].sections[s];
      if (x->placed) memcpy(blob + x->offset, x->data, x->bytes);
    }
  }
  sn_status s = index_symbols(n, objects, &symbols);
  if (s == SN_OK) s = fix_all(a, n, objects, symbols, blob, error);
  sn_map_destroy(symbols);
  if (s != SN_OK) {
    sn_free_aligned(blob);
    return s;
  }
  *code = blob;
  *bytes = (int64_t)total;
  return SN_OK;
}
