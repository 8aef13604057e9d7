/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The door of the bytecode reader. */
#include <string.h>

#include "bytecode.h"

static sn_status read(sn_bc *b) {
  const char *file = b->file != NULL ? b->file : "<bytecode>";
  SN_TRY(sn_mlir_create(&b->m));
  b->file = sn_arena_string(b->m->arena, file);
  if (b->file == NULL) return sn_bc_memory(b);
  SN_TRY(sn_bc_container(b));
  return sn_bc_ir(b);
}

sn_status sn_mlir_read_bytecode(sn_diag *d, const char *file, const void *data, size_t n_bytes, sn_mlir **out) {
  sn_bc b;
  memset(&b, 0, sizeof b);
  *out = NULL;
  b.d = d;
  b.file = file;
  b.base = data != NULL ? data : (const uint8_t *)"";
  b.n_bytes = n_bytes;
  sn_status s = read(&b);
  sn_free(b.values);
  if (s == SN_OK) *out = b.m;
  else sn_mlir_destroy(b.m);
  return s;
}
