/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The stages of a compile as text: their names, where the report keeps them, and how they become files. */
#include "compile_internal.h"

#include <stddef.h>
#include <string.h>

typedef struct stage {
  const char *name, *ending;
  size_t at; /* in the report */
} stage;

#define STAGE(name, ending, field) {name, ending, offsetof(sn_compile_report, field)}
static const stage stages[] = {
    STAGE("hlo", "hlo", hlo),       STAGE("optimized", "hlo", optimized), STAGE("schedule", "txt", schedule), STAGE("buffers", "txt", buffers),     STAGE("kernels", "txt", kernels),
    STAGE("llvm", "ll", llvm),      STAGE("asm", "s", assembly),          STAGE("cuda", "cu", cuda),          STAGE("ptx", "ptx", ptx),             STAGE("resources", "txt", resources),
    STAGE("model", "txt", model),   STAGE("program", "txt", program)};
enum { N_STAGES = sizeof stages / sizeof *stages };

static char **text_at(const sn_compile_report *r, const stage *s) { return (char **)((char *)(uintptr_t)r + s->at); }

void sn_compile_report_finish(sn_compile_report *r) {
  for (int i = 0; r && i < N_STAGES; i++) {
    sn_free(*text_at(r, &stages[i]));
    *text_at(r, &stages[i]) = NULL;
  }
  if (!r) return;
  sn_free(r->cache);
  r->cache = NULL;
  sn_free_aligned(r->alone);
  r->alone = NULL;
}

const char *sn_compile_stage(int i) { return i >= 0 && i < N_STAGES ? stages[i].name : NULL; }

const char *sn_compile_report_text(const sn_compile_report *r, const char *name) {
  for (int i = 0; i < N_STAGES; i++) {
    if (strcmp(stages[i].name, name) == 0) return *text_at(r, &stages[i]);
  }
  return NULL;
}

char *sn_compile_take_text(sn_str *s) {
  sn_str_add(s, ""); /* a stage without a line is there all the same */
  if (s->failed) sn_str_finish(s);
  return s->data;
}

/* ---- what is known before there is code ---- */

/* Instructions in the order they run, those of loops and branches further in. */
static void print_order(sn_str *to, const sn_computation *c, int depth) {
  static const sn_opcode inner[] = {SN_OP_WHILE, SN_OP_CONDITIONAL, SN_OP_CALL};
  enum { DEEPEST = 64 }; /* of commands */
  for (const sn_instr *i = c->first; i; i = i->next) {
    sn_str_printf(to, "%*s%s = ", 2 * depth, "", i->name);
    sn_shape_print(to, i->shape, 0);
    sn_str_printf(to, " %s\n", sn_opcode_text(i->op));
    bool nests = false;
    for (size_t k = 0; k < sizeof inner / sizeof *inner; k++) nests |= i->op == inner[k];
    for (uint32_t k = 0; nests && depth < DEEPEST && k < i->n_called; k++) {
      sn_str_printf(to, "%*s%s:\n", 2 * depth + 2, "", i->called[k]->name);
      print_order(to, i->called[k], depth + 2);
    }
  }
}

void sn_compile_keep_hlo(const compile *c, char **to) {
  sn_str text = {0};
  sn_hlo_print(&text, c->m, NULL);
  *to = sn_compile_take_text(&text);
}

void sn_compile_keep_plan(const compile *c, sn_compile_report *r) {
  sn_str order = {0}, plan = {0};
  print_order(&order, c->m->entry, 0);
  sn_plan_print(&plan, &c->plan);
  r->schedule = sn_compile_take_text(&order);
  r->buffers = sn_compile_take_text(&plan);
}

void sn_compile_keep_kernels(const compile *c, sn_compile_report *r) {
  sn_str text = {0};
  for (uint32_t i = 0; i < c->n_kernels; i++) sn_kernel_print(&text, c->kernels[i]);
  r->kernels = sn_compile_take_text(&text);
}

/* ---- files ---- */

/* Names of modules are anybody's: what a file's name may not hold becomes `_`. */
static void file_name(const char *module, char *to, size_t n_bytes) {
  size_t n = 0;
  for (const char *p = module ? module : ""; *p && n + 1 < n_bytes; p++) {
    bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') || *p == '-' || (*p == '.' && n > 0);
    to[n++] = plain ? *p : '_';
  }
  to[n] = '\0';
}

sn_status sn_compile_folder(sn_diag *d, const char *folder, const char *module, char *to, size_t bytes) {
  char name[128];
  file_name(module, name, sizeof name);
  return sn_dir_make_next(d, folder, name[0] ? name : "module", to, bytes);
}

sn_status sn_compile_report_write(sn_diag *d, const sn_compile_report *r, const char *folder, const char *module, const char *only) {
  char base[4096], path[4200];
  SN_TRY(sn_compile_folder(d, folder, module, base, sizeof base));
  for (int i = 0; i < N_STAGES; i++) {
    const char *text = *text_at(r, &stages[i]);
    if (!text || (only && strcmp(only, stages[i].name) != 0)) continue;
    snprintf(path, sizeof path, "%s/%s.%s", base, stages[i].name, stages[i].ending);
    SN_TRY(sn_file_write(d, path, text, strlen(text)));
  }
  return SN_OK;
}
