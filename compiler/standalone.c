/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program as code that needs no runtime: the kernels, the walk over the commands, the constants, in one blob. */
#include "compile_internal.h"

#include <string.h>

/* The first import in use; NULL: none is. */
static const char *import_of(uint64_t used) {
  static const char *const names[] = {
#define SN_IMPORT(id, name, meaning) #name,
#include "sinter/imports.def"
#undef SN_IMPORT
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (used >> i & 1) return names[i];
  }
  return NULL;
}

static sn_status find_constants(compile *c, sn_cpu_walk *w) {
  const void **data = SN_NEW_N(c->arena, const void *, w->n_constants + 1);
  int64_t *bytes = SN_NEW_N(c->arena, int64_t, w->n_constants + 1);
  if (!data || !bytes) return sn_out_of_memory(c->d, w->n_constants * sizeof *data);
  for (uint32_t i = 0; i < w->n_constants; i++) {
    const sn_array *x = sn_instr_literal(c->plan.constants[i]); /* there: the program was built from it */
    data[i] = sn_array_data(x);
    bytes[i] = (int64_t)sn_array_bytes(x);
  }
  w->constants = data;
  w->constant_bytes = bytes;
  return SN_OK;
}

sn_status sn_compile_standalone(compile *c, const sn_cpu_code *code, const sn_program_kernel *kernels, sn_compile_report *r) {
  sn_cpu_walk_compile_fn compile_walk = NULL;
  sn_cpu_code out;
  int64_t scratch = 0, arena = (c->plan.arena_bytes + 63) / 64 * 64 + (c->work_bytes + 63) / 64 * 64;
  void *at;
  const char *import = import_of(code->imports);
  if (import) {
    sn_error(c->d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "%s: its code calls '%s' of the runtime, so it cannot stand alone", c->m->name, import);
    sn_hint(c->d, "without --standalone the artefact is linked with libsinter-runtime");
    return SN_ERR_UNSUPPORTED;
  }
  for (uint32_t i = 0; i < c->n_kernels; i++) scratch = kernels[i].scratch_bytes > scratch ? kernels[i].scratch_bytes : scratch;
  sn_cpu_walk w = {.n_commands = c->n_commands,
                   .n_constants = c->plan.n_constants,
                   .commands = c->commands,
                   .kernels = kernels,
                   .code = code->code,
                   .code_bytes = code->bytes,
                   .scratch_offset = arena};
  SN_TRY(find_constants(c, &w));
  SN_TRY(sn_compile_emitter(c->d, "sn_cpu_walk_compile", &at));
  memcpy(&compile_walk, &at, sizeof at);
  SN_TRY(compile_walk(c->d, c->arena, &c->target, &w, &out, &r->alone_entry));
  r->alone = out.code;
  r->alone_bytes = out.bytes;
  r->alone_work_bytes = arena + (scratch + 63) / 64 * 64;
  return SN_OK;
}
