/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What debuggers and profilers want to know of linked objects: functions, lines, and the objects themselves with their places in the blob.
 * Line tables: DWARF version 4, section 6.2; ELF as in object.c. */
#include "object.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

typedef struct gathering {
  sn_arena *a;
  sn_cpu_debug *out;
  int cap_symbols, cap_lines;
  bool no_memory;
} gathering;

/* Room for one more of `each` bytes behind the n-th. */
static void *more(gathering *g, void *v, int n, int *cap, size_t each) {
  if (n < *cap) return v;
  int wider = *cap ? 2 * *cap : 256;
  void *to = sn_arena_zero(g->a, (size_t)wider, each);
  if (!to) {
    g->no_memory = true;
    return NULL;
  }
  if (n) memcpy(to, v, (size_t)n * each);
  *cap = wider;
  return to;
}

/* ---- functions ---- */

static void gather_symbols(gathering *g, const object *o) {
  for (int i = 0; i < o->n_symbols && !g->no_memory; i++) {
    const object_symbol *s = &o->symbols[i];
    if (!s->function || s->section < 0 || !o->sections[s->section].placed) continue;
    sn_cpu_symbol *v = more(g, g->out->symbols, g->out->n_symbols, &g->cap_symbols, sizeof *v);
    const char *name = sn_arena_string(g->a, s->name);
    if (!v || !name) {
      g->no_memory = true;
      return;
    }
    g->out->symbols = v;
    v[g->out->n_symbols++] = (sn_cpu_symbol){name, (int64_t)(o->sections[s->section].offset + s->value), (int64_t)s->bytes};
  }
}

/* ---- line tables ---- */

typedef struct cursor {
  const uint8_t *at, *end;
  bool bad; /* ran out */
} cursor;

static uint64_t fixed(cursor *c, int bytes) {
  uint64_t v = 0;
  if (c->end - c->at < bytes) {
    c->bad = true;
    c->at = c->end;
    return 0;
  }
  for (int i = 0; i < bytes; i++) v |= (uint64_t)c->at[i] << (8 * i);
  c->at += bytes;
  return v;
}

static uint64_t leb(cursor *c, bool is_signed) {
  uint64_t v = 0, byte;
  int shift = 0;
  do {
    byte = fixed(c, 1);
    if (shift < 64) v |= (byte & 0x7f) << shift;
    shift += 7;
  } while (byte & 0x80);
  if (is_signed && shift < 64 && (byte & 0x40)) v |= ~UINT64_C(0) << shift;
  return v;
}

typedef struct line_program {
  uint64_t step;   /* minimum_instruction_length */
  int64_t base;    /* line_base */
  uint64_t range, first_special;
  const uint8_t *lengths; /* of the standard opcodes, from 1 */
  uint64_t address, line;
} line_program;

static void add_row(gathering *g, const line_program *p, bool ends) {
  sn_cpu_line *v = more(g, g->out->lines, g->out->n_lines, &g->cap_lines, sizeof *v);
  if (!v) return;
  g->out->lines = v;
  v[g->out->n_lines++] = (sn_cpu_line){(int64_t)p->address, ends ? 0 : (uint32_t)p->line};
}

static void extended(gathering *g, cursor *c, line_program *p) {
  uint64_t bytes = leb(c, false);
  if (bytes > (uint64_t)(c->end - c->at)) c->bad = true;
  if (bytes == 0 || c->bad) return;
  cursor inner = {c->at, c->at + bytes, false};
  c->at += bytes;
  switch (fixed(&inner, 1)) {
    case 1: /* end_sequence */
      add_row(g, p, true);
      p->address = 0;
      p->line = 1;
      break;
    case 2: p->address = fixed(&inner, 8); break; /* set_address */
    default: break;
  }
}

static void standard(gathering *g, cursor *c, line_program *p, uint64_t opcode) {
  switch (opcode) {
    case 1: add_row(g, p, false); break;                                                    /* copy */
    case 2: p->address += p->step * leb(c, false); break;                                   /* advance_pc */
    case 3: p->line += leb(c, true); break;                                                 /* advance_line */
    case 8: p->address += p->step * ((255 - p->first_special) / p->range); break;           /* const_add_pc */
    case 9: p->address += fixed(c, 2); break;                                               /* fixed_advance_pc */
    default:
      for (int i = 0; i < p->lengths[opcode - 1]; i++) leb(c, false);
  }
}

/* One unit's table; c behind it. */
static bool read_table(gathering *g, cursor *c) {
  uint64_t bytes = fixed(c, 4);
  if (c->bad || bytes > (uint64_t)(c->end - c->at)) return false;
  cursor t = {c->at, c->at + bytes, false};
  c->at += bytes;
  if (fixed(&t, 2) != 4) return false;
  uint64_t head = fixed(&t, 4);
  if (t.bad || head > (uint64_t)(t.end - t.at)) return false;
  const uint8_t *start = t.at + head;
  line_program p = {.line = 1};
  p.step = fixed(&t, 1);
  fixed(&t, 2); /* operations an instruction; default_is_stmt */
  p.base = (int8_t)fixed(&t, 1);
  p.range = fixed(&t, 1);
  p.first_special = fixed(&t, 1);
  p.lengths = t.at;
  if (t.bad || p.range == 0 || p.first_special == 0 || (uint64_t)(t.end - t.at) < p.first_special) return false;
  t.at = start;
  while (t.at < t.end && !t.bad && !g->no_memory) {
    uint64_t opcode = fixed(&t, 1);
    if (opcode >= p.first_special) {
      p.address += p.step * ((opcode - p.first_special) / p.range);
      p.line += (uint64_t)(p.base + (int64_t)((opcode - p.first_special) % p.range));
      add_row(g, &p, false);
    } else if (opcode == 0) {
      extended(g, &t, &p);
    } else {
      standard(g, &t, &p, opcode);
    }
  }
  return !t.bad;
}

/* ---- the object's own tables ---- */

typedef struct image {
  uint8_t *data;
  Elf64_Ehdr *head;
  Elf64_Shdr *sections;
} image;

static const char *section_name(const image *m, int i) { return (const char *)m->data + m->sections[m->head->e_shstrndx].sh_offset + m->sections[i].sh_name; }

/* Addresses in the line table, in place: offsets in the blob. (The table is read here alone; a debugger relocates for itself.) */
static void relocate(const image *m, const object *o, int section, uint8_t *copy) {
  for (int i = 0; i < m->head->e_shnum; i++) {
    const Elf64_Shdr *s = &m->sections[i];
    if (s->sh_type != SHT_RELA || (int)s->sh_info != section) continue;
    for (uint64_t k = 0; k < s->sh_size / sizeof(Elf64_Rela); k++) {
      Elf64_Rela r;
      memcpy(&r, m->data + s->sh_offset + k * sizeof r, sizeof r);
      uint64_t type = ELF64_R_TYPE(r.r_info), symbol = ELF64_R_SYM(r.r_info);
      bool address = type == (o->machine == EM_AARCH64 ? R_AARCH64_ABS64 : R_X86_64_64);
      if (!address || symbol >= (uint64_t)o->n_symbols || o->symbols[symbol].section < 0 || r.r_offset + 8 > m->sections[section].sh_size) continue;
      uint64_t v = o->sections[o->symbols[symbol].section].offset + o->symbols[symbol].value + (uint64_t)r.r_addend;
      memcpy(copy + r.r_offset, &v, sizeof v);
    }
  }
}

static bool gather_lines(gathering *g, const image *m, const object *o) {
  for (int i = 0; i < m->head->e_shnum; i++) {
    if (strcmp(section_name(m, i), ".debug_line") != 0) continue;
    uint8_t *copy = sn_arena_copy(g->a, m->data + m->sections[i].sh_offset, m->sections[i].sh_size);
    if (!copy) {
      g->no_memory = true;
      return true;
    }
    relocate(m, o, i, copy);
    cursor c = {copy, copy + m->sections[i].sh_size, false};
    while (c.at < c.end) {
      if (!read_table(g, &c)) return false;
    }
  }
  return true;
}

static int by_offset(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b; /* the first field of both */
  return (x > y) - (x < y);
}

static int symbols_by_offset(const void *a, const void *b) { return by_offset(&((const sn_cpu_symbol *)a)->offset, &((const sn_cpu_symbol *)b)->offset); }

/* A line of the next function begins where the one before ends: the end comes first. */
static int lines_by_offset(const void *a, const void *b) {
  const sn_cpu_line *x = a, *y = b;
  int order = by_offset(&x->offset, &y->offset);
  return order ? order : (x->line > 0) - (y->line > 0);
}

sn_status object_debug(sn_arena *a, int n, const object *objects, const sn_cpu_object *raw, sn_cpu_debug *out, const char **error) {
  gathering g = {.a = a, .out = out};
  memset(out, 0, sizeof *out);
  out->objects = SN_NEW_N(a, sn_cpu_object, n + 1);
  if (!out->objects) return SN_ERR_MEMORY;
  for (int i = 0; i < n; i++) {
    image m = {sn_arena_copy(a, raw[i].data, raw[i].bytes), NULL, NULL};
    if (!m.data) return SN_ERR_MEMORY;
    m.head = (Elf64_Ehdr *)(void *)m.data;
    m.sections = (Elf64_Shdr *)(void *)(m.data + m.head->e_shoff); /* object_read has looked at them */
    for (int s = 0; s < m.head->e_shnum; s++) {
      if (objects[i].sections[s].placed) m.sections[s].sh_addr = objects[i].sections[s].offset;
    }
    gather_symbols(&g, &objects[i]);
    if (!gather_lines(&g, &m, &objects[i])) {
      *error = sn_arena_printf(a, "%s: a line table that cannot be read", objects[i].label);
      return SN_ERR_INTERNAL;
    }
    if (g.no_memory) return SN_ERR_MEMORY;
    out->objects[out->n_objects++] = (sn_cpu_object){raw[i].label, m.data, raw[i].bytes};
  }
  if (out->n_symbols) qsort(out->symbols, (size_t)out->n_symbols, sizeof *out->symbols, symbols_by_offset);
  if (out->n_lines) qsort(out->lines, (size_t)out->n_lines, sizeof *out->lines, lines_by_offset);
  return SN_OK;
}

/* ---- GDB's JIT interface ("Debugging with GDB", JIT Compilation Interface) ---- */

typedef struct jit_code_entry {
  struct jit_code_entry *next_entry, *prev_entry;
  const char *symfile_addr;
  uint64_t symfile_size;
} jit_code_entry;

typedef struct jit_descriptor {
  uint32_t version, action_flag;
  jit_code_entry *relevant_entry, *first_entry;
} jit_descriptor;

/* The process has one list, which is LLVM's: GDB looks for both by these names. */
extern jit_descriptor __jit_debug_descriptor;
void __jit_debug_register_code(void);

sn_status sn_cpu_register(const sn_cpu_object *o, const void *code) {
  enum { REGISTER = 1 };
  jit_code_entry *e = sn_alloc_zero(1, sizeof *e);
  uint8_t *copy = sn_alloc(o->bytes);
  if (!e || !copy) {
    sn_free(e);
    sn_free(copy);
    return SN_ERR_MEMORY;
  }
  memcpy(copy, o->data, o->bytes);
  const Elf64_Ehdr *head = (const Elf64_Ehdr *)(const void *)copy;
  Elf64_Shdr *sections = (Elf64_Shdr *)(void *)(copy + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    if ((sections[i].sh_flags & SHF_ALLOC) && sections[i].sh_type == SHT_PROGBITS) sections[i].sh_addr += (uint64_t)(uintptr_t)code;
  }
  e->symfile_addr = (const char *)copy;
  e->symfile_size = o->bytes;
  e->next_entry = __jit_debug_descriptor.first_entry;
  if (e->next_entry) e->next_entry->prev_entry = e;
  __jit_debug_descriptor.first_entry = e;
  __jit_debug_descriptor.relevant_entry = e;
  __jit_debug_descriptor.action_flag = REGISTER;
  __jit_debug_register_code();
  return SN_OK;
}
