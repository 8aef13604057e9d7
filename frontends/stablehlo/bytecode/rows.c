/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The table of ops: by name; what an unknown one may be. */
#include <stdlib.h>
#include <string.h>

#include "bytecode.h"

static const sn_bc_row rows[] = {
#define SN_BC_ROW(name, to, since, attrs) {name, to, since, attrs},
#include "vhlo.def"
#undef SN_BC_ROW
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

static int by_name(const void *key, const void *row) { return strcmp(key, ((const sn_bc_row *)row)->name); }

const sn_bc_row *sn_bc_row_find(const char *full) {
  const sn_bc_row *row = bsearch(full, rows, N_ROWS, sizeof rows[0], by_name);
  while (row != NULL && row > rows && strcmp(row[-1].name, full) == 0) row--;
  return row;
}

const sn_bc_row *sn_bc_row_next(const sn_bc_row *row) {
  const sn_bc_row *next = row + 1;
  return next < rows + N_ROWS && strcmp(next->name, row->name) == 0 ? next : NULL;
}

/* `_v` and digits at the end: their place, or NULL. */
static const char *version_suffix(const char *name) {
  const char *end = name + strlen(name), *c = end;
  while (c > name && c[-1] >= '0' && c[-1] <= '9') c--;
  return c != end && c - name > 2 && c[-1] == 'v' && c[-2] == '_' ? c - 2 : NULL;
}

/* The newest version of an op that we know; 0: none. */
static int known_version(const char *name, size_t n) {
  int best = 0;
  for (size_t i = 0; i < N_ROWS; i++) {
    const char *suffix = version_suffix(rows[i].name);
    if (suffix == NULL || (size_t)(suffix - rows[i].name) != n || strncmp(rows[i].name, name, n) != 0) continue;
    int v = atoi(suffix + 2);
    if (v > best) best = v;
  }
  return best;
}

/* `stablehlo.add` of `vhlo.add_v1`? */
static bool is_for(const sn_bc_row *row, const char *name) {
  const char *suffix = version_suffix(row->name);
  if (row->to != NULL) return strcmp(row->to, name) == 0;
  return suffix != NULL && strncmp(name, "stablehlo.", 10) == 0 && strlen(name + 10) == (size_t)(suffix - row->name) - 5 && strncmp(name + 10, row->name + 5, strlen(name + 10)) == 0;
}

const sn_bc_row *sn_bc_row_for(const char *name, int version) {
  const sn_bc_row *best = NULL;
  if (strcmp(name, "func.return") == 0) name = "stablehlo.return";
  for (size_t i = 0; i < N_ROWS; i++)
    if (strncmp(rows[i].name, "vhlo.", 5) == 0 && is_for(&rows[i], name) && rows[i].since <= version && (best == NULL || rows[i].since > best->since)) best = &rows[i];
  return best;
}

static sn_status unknown_vhlo(sn_bc *b, const sn_bc_cursor *c, const char *full) {
  const char *suffix = version_suffix(full), *name = full + strlen("vhlo.");
  size_t n = suffix != NULL ? (size_t)(suffix - name) : strlen(name);
  int known = known_version(full, (size_t)(name - full) + n);
  if (known != 0 && suffix != NULL) {
    sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected %.*s of a version up to %d, found version %s, written by %s", (int)n, name, known, suffix + 2, b->producer);
  } else {
    sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "the op %s is not known in VHLO 0.9 to 1.20; the file was written by %s", full, b->producer);
  }
  sn_hint(b->d, "serialise the program for StableHLO 1.20.0 or older");
  return SN_ERR_UNSUPPORTED;
}

sn_status sn_bc_op_resolve(sn_bc *b, const sn_bc_cursor *c, sn_bc_op_name *op) {
  op->row = sn_bc_row_find(op->full);
  op->name = op->row != NULL ? op->row->to : op->full;
  if (op->name != NULL) return op->row == NULL && strncmp(op->full, "vhlo.", 5) == 0 ? unknown_vhlo(b, c, op->full) : SN_OK;
  const char *suffix = version_suffix(op->full), *name = op->full + strlen("vhlo.");
  op->name = sn_arena_printf(b->m->arena, "stablehlo.%.*s", (int)(suffix - name), name);
  return op->name != NULL ? SN_OK : sn_bc_memory(b);
}
