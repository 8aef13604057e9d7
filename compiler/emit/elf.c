/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* ELF files of sections that need no relocation (System V ABI, chapters 4 and 5).
 *
 *   object:   header | sections | .symtab .strtab .shstrtab | section headers
 *   library:  header, program headers | .hash .dynsym .dynstr | read-only sections | pages of code | .dynamic | .shstrtab | section headers
 *
 * In a library offsets in the file are addresses: it is loaded as it lies. */
#include "sinter/emit.h"

#include <elf.h>
#include <string.h>

enum { PAGE = 4096, MOST_SECTIONS = 24 };

typedef struct writer {
  sn_str *to;
  const sn_elf_spec *s;
  Elf64_Shdr heads[MOST_SECTIONS];
  int n;
  sn_str names;          /* .shstrtab */
  int placed[MOST_SECTIONS]; /* number of the spec's sections */
} writer;

static void pad(sn_str *to, uint64_t align) {
  while (to->n % align && !to->failed) sn_str_char(to, '\0');
}

static uint32_t add_name(sn_str *names, const char *name) {
  uint32_t at = (uint32_t)names->n;
  sn_str_add_n(names, name, strlen(name) + 1);
  return at;
}

static Elf64_Shdr *add_section(writer *w, const char *name, uint32_t type, uint64_t flags, const void *data, uint64_t bytes, uint64_t align) {
  Elf64_Shdr *h = &w->heads[w->n++];
  pad(w->to, align);
  *h = (Elf64_Shdr){.sh_name = add_name(&w->names, name), .sh_type = type, .sh_flags = flags, .sh_offset = w->to->n, .sh_size = bytes, .sh_addralign = align};
  if (w->s->soname && (flags & SHF_ALLOC)) h->sh_addr = h->sh_offset;
  sn_str_add_n(w->to, data, bytes);
  return h;
}

static void add_contents(writer *w, bool code) {
  for (int i = 0; i < w->s->n_sections; i++) {
    const sn_elf_section *x = &w->s->sections[i];
    if (x->code != code) continue;
    w->placed[i] = w->n;
    add_section(w, x->name, SHT_PROGBITS, SHF_ALLOC | (code ? SHF_EXECINSTR : 0), x->data, x->bytes, x->align);
  }
}

/* The first symbol is none; names go to `strings`, whose first byte is 0. */
static void make_symbols(const writer *w, sn_str *symbols, sn_str *strings) {
  Elf64_Sym none = {0};
  sn_str_add_n(strings, "", 1);
  sn_str_add_n(symbols, (const char *)&none, sizeof none);
  for (int i = 0; i < w->s->n_symbols; i++) {
    const sn_elf_symbol *x = &w->s->symbols[i];
    int section = w->placed[x->section];
    Elf64_Sym y = {.st_name = add_name(strings, x->name), .st_info = ELF64_ST_INFO(STB_GLOBAL, x->function ? STT_FUNC : STT_OBJECT), .st_shndx = (uint16_t)section, .st_size = x->bytes};
    y.st_value = x->offset + (w->s->soname ? w->heads[section].sh_addr : 0);
    sn_str_add_n(symbols, (const char *)&y, sizeof y);
  }
}

static Elf64_Ehdr head_of(const writer *w) {
  Elf64_Ehdr h = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                  .e_type = w->s->soname ? ET_DYN : ET_REL,
                  .e_machine = w->s->aarch64 ? EM_AARCH64 : EM_X86_64,
                  .e_version = EV_CURRENT,
                  .e_ehsize = sizeof h,
                  .e_shentsize = sizeof(Elf64_Shdr)};
  return h;
}

/* Names and headers of sections; the header in front learns where they are. */
static void finish(writer *w, const Elf64_Ehdr *head) {
  Elf64_Ehdr h = *head;
  add_section(w, ".shstrtab", SHT_STRTAB, 0, NULL, 0, 1);
  Elf64_Shdr *names = &w->heads[w->n - 1];
  names->sh_size = w->names.n;
  sn_str_add_n(w->to, w->names.data, w->names.n);
  pad(w->to, 8);
  h.e_shoff = w->to->n;
  h.e_shnum = (uint16_t)w->n;
  h.e_shstrndx = (uint16_t)(w->n - 1);
  sn_str_add_n(w->to, (const char *)w->heads, (size_t)w->n * sizeof *w->heads);
  w->to->failed |= w->names.failed;
  if (!w->to->failed) memcpy(w->to->data, &h, sizeof h);
}

static void print_object(writer *w) {
  Elf64_Ehdr head = head_of(w);
  sn_str symbols = {0}, strings = {0};
  sn_str_add_n(w->to, (const char *)&head, sizeof head);
  add_contents(w, true);
  add_contents(w, false);
  add_section(w, ".note.GNU-stack", SHT_PROGBITS, 0, NULL, 0, 1); /* the stack need not be executable */
  make_symbols(w, &symbols, &strings);
  Elf64_Shdr *h = add_section(w, ".symtab", SHT_SYMTAB, 0, symbols.data, symbols.n, 8);
  h->sh_link = (uint32_t)w->n;
  h->sh_info = 1; /* the first global one */
  h->sh_entsize = sizeof(Elf64_Sym);
  add_section(w, ".strtab", SHT_STRTAB, 0, strings.data, strings.n, 1);
  w->to->failed |= symbols.failed || strings.failed;
  sn_str_finish(&symbols);
  sn_str_finish(&strings);
  finish(w, &head);
}

/* One bucket: a library of ours has a handful of symbols. */
static void make_hash(const writer *w, sn_str *hash) {
  uint32_t n = (uint32_t)w->s->n_symbols + 1, words[3] = {1, n, n > 1 ? 1 : 0};
  sn_str_add_n(hash, (const char *)words, sizeof words);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t next = i > 0 && i + 1 < n ? i + 1 : 0;
    sn_str_add_n(hash, (const char *)&next, sizeof next);
  }
}

enum { N_LOADS = 5 }; /* tables and constants; code; .dynamic; PT_DYNAMIC; PT_GNU_STACK */

static void set_loads(writer *w, uint64_t code, uint64_t dynamic, const Elf64_Shdr *table) {
  uint64_t end = table->sh_offset + table->sh_size;
  Elf64_Phdr p[N_LOADS] = {{.p_type = PT_LOAD, .p_flags = PF_R, .p_offset = 0, .p_filesz = code, .p_align = PAGE},
                           {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = code, .p_filesz = dynamic - code, .p_align = PAGE},
                           {.p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = dynamic, .p_filesz = end - dynamic, .p_align = PAGE},
                           {.p_type = PT_DYNAMIC, .p_flags = PF_R | PF_W, .p_offset = dynamic, .p_filesz = end - dynamic, .p_align = 8},
                           {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16}};
  for (int i = 0; i < N_LOADS; i++) {
    p[i].p_vaddr = p[i].p_paddr = p[i].p_offset;
    p[i].p_memsz = p[i].p_filesz;
  }
  if (!w->to->failed) memcpy(w->to->data + sizeof(Elf64_Ehdr), p, sizeof p);
}

static void print_library(writer *w) {
  Elf64_Ehdr head = head_of(w);
  Elf64_Phdr room[N_LOADS] = {{0}};
  sn_str symbols = {0}, strings = {0}, hash = {0}, sizes = {0};
  head.e_phoff = sizeof head;
  head.e_phentsize = sizeof *room;
  head.e_phnum = N_LOADS;
  sn_str_add_n(w->to, (const char *)&head, sizeof head);
  sn_str_add_n(w->to, (const char *)room, sizeof room);
  make_hash(w, &hash);
  make_symbols(w, &symbols, &sizes); /* as long as they will be; values come when sections have places */
  uint32_t soname = (uint32_t)sizes.n;
  add_name(&sizes, w->s->soname);
  int at_hash = w->n, at_symbols = w->n + 1, at_strings = w->n + 2;
  add_section(w, ".hash", SHT_HASH, SHF_ALLOC, hash.data, hash.n, 8);
  add_section(w, ".dynsym", SHT_DYNSYM, SHF_ALLOC, symbols.data, symbols.n, 8);
  add_section(w, ".dynstr", SHT_STRTAB, SHF_ALLOC, sizes.data, sizes.n, 1);
  w->heads[at_hash].sh_link = (uint32_t)at_symbols;
  w->heads[at_hash].sh_entsize = 4;
  w->heads[at_symbols].sh_link = (uint32_t)at_strings;
  w->heads[at_symbols].sh_info = 1;
  w->heads[at_symbols].sh_entsize = sizeof(Elf64_Sym);
  add_contents(w, false);
  pad(w->to, PAGE);
  uint64_t code = w->to->n;
  add_contents(w, true);
  pad(w->to, PAGE);
  sn_str_clear(&symbols);
  make_symbols(w, &symbols, &strings);
  if (!w->to->failed && !symbols.failed) memcpy(w->to->data + w->heads[at_symbols].sh_offset, symbols.data, symbols.n);
  Elf64_Dyn table[] = {{DT_SONAME, {soname}},
                       {DT_HASH, {w->heads[at_hash].sh_addr}},
                       {DT_SYMTAB, {w->heads[at_symbols].sh_addr}},
                       {DT_STRTAB, {w->heads[at_strings].sh_addr}},
                       {DT_STRSZ, {w->heads[at_strings].sh_size}},
                       {DT_SYMENT, {sizeof(Elf64_Sym)}},
                       {DT_NULL, {0}}};
  Elf64_Shdr *h = add_section(w, ".dynamic", SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, table, sizeof table, 8);
  h->sh_link = (uint32_t)at_strings;
  h->sh_entsize = sizeof *table;
  set_loads(w, code, h->sh_offset, h);
  w->to->failed |= symbols.failed || strings.failed || hash.failed || sizes.failed;
  sn_str_finish(&symbols);
  sn_str_finish(&strings);
  sn_str_finish(&hash);
  sn_str_finish(&sizes);
  finish(w, &head);
}

void sn_elf_print(sn_str *to, const sn_elf_spec *s) {
  writer w = {.to = to, .s = s, .n = 1};
  sn_assert(s->n_sections + 10 < MOST_SECTIONS && to->n == 0);
  sn_str_add_n(&w.names, "", 1);
  if (s->soname) print_library(&w);
  else print_object(&w);
  sn_str_finish(&w.names);
}
