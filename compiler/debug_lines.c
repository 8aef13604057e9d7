/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* For perf and gdb, in the folder that SINTER_JIT_DUMP names:
 *
 *   jit-PID.dump       functions, their code and lines, for `perf inject --jit` (jitdump, version 1: tools/perf/Documentation/jitdump-specification.txt of Linux)
 *   perf-PID.map       a line a function, which perf reads from /tmp
 *   MODULE.N/          optimized.hlo, the text that lines point to; unit.K.o, the objects with their line tables
 *
 * gdb learns of the objects by its JIT interface. The files grow with each compile of the process. */
#include "compile_internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- which line an instruction stands on ---- */

/* Keys are COMPUTATION NUL NAME. */
static sn_status add_line(sn_map *lines, const char *computation, size_t n, const char *name, size_t name_bytes, uint64_t line) {
  char key[512];
  if (n + 1 + name_bytes > sizeof key) return SN_OK;
  memcpy(key, computation, n);
  key[n] = '\0';
  memcpy(key + n + 1, name, name_bytes);
  return sn_map_set(lines, key, n + 1 + name_bytes, line);
}

static const char *skip_name(const char *p) { return p + strcspn(p, " ,()="); }

/* A line a header (`%name (…`, `ENTRY %name (…`) or an instruction (`  %name = …`, `  ROOT %name = …`), as the printer writes them. */
static sn_status index_lines(const char *text, sn_map *lines) {
  const char *computation = "";
  size_t n = 0;
  uint64_t number = 1;
  for (const char *p = text; p && *p; number++) {
    bool inside = *p == ' ';
    const char *at = p + strspn(p, " ");
    if (strncmp(at, "ROOT ", 5) == 0) at += 5;
    if (strncmp(at, "ENTRY ", 6) == 0) at += 6;
    if (*at == '%') at++;
    const char *end = skip_name(at);
    if (!inside && strncmp(end, " (", 2) == 0) {
      computation = at;
      n = (size_t)(end - at);
    } else if (inside && strncmp(end, " = ", 3) == 0) {
      SN_TRY(add_line(lines, computation, n, at, (size_t)(end - at), number));
    }
    p = strchr(p, '\n');
    if (p) p++;
  }
  return SN_OK;
}

typedef struct line_index {
  sn_map *lines;
  const sn_instr **instr; /* by kernel: the first that needed it */
} line_index;

static uint32_t line_in(const line_index *x, const sn_computation *c, const char *name) {
  char key[512];
  uint64_t line;
  size_t n = strlen(c->name), m = strlen(name);
  if (n + 1 + m > sizeof key) return 0;
  memcpy(key, c->name, n + 1);
  memcpy(key + n + 1, name, m);
  return sn_map_get(x->lines, key, n + 1 + m, &line) ? (uint32_t)line : 0;
}

/* In what the instruction calls: its body, and where several fusions became one the bodies of the parts. */
static uint32_t line_below(const line_index *x, const sn_instr *i, const char *name) {
  for (uint16_t k = 0; k < i->n_called; k++) {
    uint32_t line = line_in(x, i->called[k], name);
    if (line) return line;
  }
  for (uint16_t k = 0; k < i->n_called; k++) {
    SN_FOR_INSTRS(inner, i->called[k]) {
      uint32_t line = inner->op == SN_OP_FUSION ? line_below(x, inner, name) : 0;
      if (line) return line;
    }
  }
  return 0;
}

static uint32_t line_of(const void *ctx, int kernel, const char *name) {
  const line_index *x = ctx;
  const sn_instr *i = x->instr[kernel];
  if (!i) return 0;
  uint32_t line = name ? line_below(x, i, name) : 0;
  return line ? line : line_in(x, i->parent, i->name);
}

static sn_status make_index(compile *c, const char *text, line_index *x) {
  SN_TRY(sn_map_create(&x->lines));
  x->instr = SN_NEW_N(c->arena, const sn_instr *, c->n_kernels + 1);
  if (!x->instr) return SN_ERR_MEMORY;
  for (int s = 0; s < KERNEL_SLOTS; s++) {
    for (const distinct_kernel *k = c->slots[s]; k; k = k->next) {
      for (uint32_t n = 0; n < c->n_kernels; n++) {
        if (c->kernels[n] == k->kernel && !x->instr[n]) x->instr[n] = k->instr;
      }
    }
  }
  return index_lines(text, x->lines);
}

/* ---- code with lines ---- */

struct sn_compile_debug {
  char folder[4096];
  const char *dir;
  line_index index;
  sn_cpu_lines lines;
};

sn_status sn_compile_debug_begin(compile *c, sn_compile_debug **out) {
  const char *dir = sn_env("SINTER_JIT_DUMP");
  char path[4200];
  sn_str text = {0};
  *out = NULL;
  if (!dir || c->n_kernels == 0) return SN_OK;
  sn_compile_debug *g = SN_NEW(c->arena, sn_compile_debug);
  if (!g) return sn_out_of_memory(c->d, sizeof *g);
  g->dir = dir;
  SN_TRY(sn_compile_folder(c->d, dir, c->m->name, g->folder, sizeof g->folder));
  snprintf(path, sizeof path, "%s/optimized.hlo", g->folder);
  sn_hlo_print(&text, c->m, NULL);
  sn_status s = text.failed ? SN_ERR_MEMORY : sn_file_write(c->d, path, text.data, text.n);
  if (s == SN_OK) s = make_index(c, text.data, &g->index);
  sn_str_finish(&text);
  g->lines = (sn_cpu_lines){g->folder, "optimized.hlo", line_of, &g->index};
  *out = g;
  return s == SN_ERR_MEMORY ? sn_out_of_memory(c->d, text.n) : s;
}

const sn_cpu_lines *sn_compile_debug_lines(const sn_compile_debug *g) { return g ? &g->lines : NULL; }

void sn_compile_debug_end(sn_compile_debug *g) {
  if (g) sn_map_destroy(g->index.lines);
}

/* ---- jitdump ---- */

enum { JIT_CODE_LOAD = 0, JIT_CODE_DEBUG_INFO = 2, JIT_HEAD_BYTES = 40 };
#define JIT_MAGIC 0x4a695444u

static void put32(sn_str *s, uint32_t v) { sn_str_add_n(s, (const char *)&v, sizeof v); }
static void put64(sn_str *s, uint64_t v) { sn_str_add_n(s, (const char *)&v, sizeof v); }
static uint64_t now_ns(void) { return (uint64_t)(sn_time() * 1e9); } /* perf's `-k mono` */

static void put_head(sn_str *s) {
  enum { X86_64 = 62, AARCH64 = 183 };
#if defined(__aarch64__)
  uint32_t machine = AARCH64;
#else
  uint32_t machine = X86_64;
#endif
  put32(s, JIT_MAGIC);
  put32(s, 1);
  put32(s, JIT_HEAD_BYTES);
  put32(s, machine);
  put32(s, 0);
  put32(s, (uint32_t)sn_process_id());
  put64(s, now_ns());
  put64(s, 0);
}

static void put_prefix(sn_str *s, uint32_t id, size_t bytes) {
  put32(s, id);
  put32(s, (uint32_t)(bytes + 16));
  put64(s, now_ns());
}

/* Lines of [from, to): pairs of address and line, the file's name with each. */
static void put_lines(sn_str *s, const sn_compile_debug *g, const sn_cpu_debug *d, const uint8_t *code, int64_t from, int64_t to) {
  char file[4200];
  sn_str body = {0};
  uint64_t n = 0;
  snprintf(file, sizeof file, "%s/%s", g->folder, g->lines.file);
  for (int i = 0; i < d->n_lines; i++) {
    const sn_cpu_line *l = &d->lines[i];
    if (l->line == 0 || l->offset < from || l->offset >= to) continue;
    put64(&body, (uint64_t)(uintptr_t)(code + l->offset));
    put32(&body, l->line);
    put32(&body, 0);
    sn_str_add_n(&body, file, strlen(file) + 1);
    n++;
  }
  if (n && !body.failed) {
    put_prefix(s, JIT_CODE_DEBUG_INFO, body.n + 16);
    put64(s, (uint64_t)(uintptr_t)(code + from));
    put64(s, n);
    sn_str_add_n(s, body.data, body.n);
  }
  s->failed |= body.failed;
  sn_str_finish(&body);
}

static void put_code(sn_str *s, const char *name, const uint8_t *code, const sn_cpu_symbol *f, uint64_t index) {
  uint32_t pid = (uint32_t)sn_process_id();
  put_prefix(s, JIT_CODE_LOAD, 8 + 4 * 8 + strlen(name) + 1 + (size_t)f->bytes);
  put32(s, pid);
  put32(s, pid);
  put64(s, (uint64_t)(uintptr_t)(code + f->offset));
  put64(s, (uint64_t)(uintptr_t)(code + f->offset));
  put64(s, (uint64_t)f->bytes);
  put64(s, index);
  sn_str_add_n(s, name, strlen(name) + 1);
  sn_str_add_n(s, (const char *)code + f->offset, (size_t)f->bytes);
}

/* k3_1 is phase 1 of kernel 3; micro-kernels have names of their own. */
static void readable(const compile *c, const char *symbol, char *to, size_t bytes) {
  unsigned kernel, phase;
  char rest;
  if (sscanf(symbol, "k%u_%u%c", &kernel, &phase, &rest) == 2 && kernel < c->n_kernels) {
    snprintf(to, bytes, c->kernels[kernel]->n_phases > 1 ? "%s (phase %u)" : "%s", c->kernels[kernel]->name, phase);
  } else {
    snprintf(to, bytes, "%s", symbol);
  }
}

static sn_status write_dump(compile *c, const sn_compile_debug *g, const sn_cpu_debug *d, const uint8_t *code) {
  char dump[4200], map[4200], name[256];
  sn_str records = {0}, lines = {0};
  snprintf(dump, sizeof dump, "%s/jit-%lld.dump", g->dir, (long long)sn_process_id());
  snprintf(map, sizeof map, "%s/perf-%lld.map", g->dir, (long long)sn_process_id());
  bool first = !sn_file_exists(dump);
  if (first) put_head(&records);
  for (int i = 0; i < d->n_symbols; i++) {
    const sn_cpu_symbol *f = &d->symbols[i];
    readable(c, f->name, name, sizeof name);
    put_lines(&records, g, d, code, f->offset, f->offset + f->bytes);
    put_code(&records, name, code, f, (uint64_t)(uintptr_t)(code + f->offset)); /* addresses are unique as long as the code lives */
    sn_str_printf(&lines, "%llx %llx %s\n", (unsigned long long)(uintptr_t)(code + f->offset), (unsigned long long)f->bytes, name);
  }
  sn_status s = records.failed || lines.failed ? sn_out_of_memory(c->d, records.n) : sn_file_append(c->d, dump, records.data, records.n);
  if (s == SN_OK && lines.n) s = sn_file_append(c->d, map, lines.data, lines.n);
  if (s == SN_OK && first) s = sn_file_mark(c->d, dump);
  sn_str_finish(&records);
  sn_str_finish(&lines);
  return s;
}

static sn_status write_objects(compile *c, const sn_compile_debug *g, const sn_cpu_debug *d, const void *code) {
  char path[4200];
  for (int i = 0; i < d->n_objects; i++) {
    snprintf(path, sizeof path, "%s/unit.%d.o", g->folder, i);
    SN_TRY(sn_file_write(c->d, path, d->objects[i].data, d->objects[i].bytes));
    sn_status s = sn_compile_register(c->d, &d->objects[i], code);
    if (s != SN_OK) return s;
  }
  return SN_OK;
}

sn_status sn_compile_debug_write(compile *c, const sn_compile_debug *g, const sn_cpu_debug *d, const sn_program *p) {
  size_t bytes;
  const uint8_t *code = sn_program_code(p, &bytes);
  if (!g || !code) return SN_OK;
  SN_TRY(write_objects(c, g, d, code));
  return write_dump(c, g, d, code);
}
