/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Line tables: every instruction of the machine belongs to a line of the HLO text that was compiled. A function a phase, under the HLO name of its kernel.
 * DWARF 4, whose line tables hold the names of their files themselves (DWARF Debugging Information Format, version 4, section 6.2). */
#include "emit.h"

#include <string.h>

static void module_flag(emit *e, const char *key, unsigned value) {
  LLVMAddModuleFlag(e->module, LLVMModuleFlagBehaviorWarning, key, strlen(key), LLVMValueAsMetadata(LLVMConstInt(e->i32, value, 0)));
}

void lines_begin(emit *e) {
  static const char producer[] = "sinter";
  const sn_cpu_lines *l = e->lines;
  if (!l) return;
  module_flag(e, "Dwarf Version", 4);
  module_flag(e, "Debug Info Version", LLVMDebugMetadataVersion());
  e->di = LLVMCreateDIBuilder(e->module);
  e->di_file = LLVMDIBuilderCreateFile(e->di, l->file, strlen(l->file), l->folder, strlen(l->folder));
  /* No language of DWARF's is HLO; C is what every reader knows. */
  LLVMDIBuilderCreateCompileUnit(e->di, LLVMDWARFSourceLanguageC, e->di_file, producer, sizeof producer - 1, 1, "", 0, 0, "", 0, LLVMDWARFEmissionFull, 0, 0, 0, "", 0, "", 0);
  e->di_type = LLVMDIBuilderCreateSubroutineType(e->di, e->di_file, NULL, 0, LLVMDIFlagZero);
}

void lines_end(emit *e) {
  if (e->di) LLVMDIBuilderFinalize(e->di);
}

void lines_function(emit *e, const phase_part *p) {
  char name[256], symbol[64];
  if (!e->di) return;
  e->kernel = p->kernel;
  if (p->k->n_phases > 1) snprintf(name, sizeof name, "%s (phase %d)", p->k->name, p->phase);
  else snprintf(name, sizeof name, "%s", p->k->name);
  phase_symbol(p->kernel, p->phase, symbol, sizeof symbol);
  unsigned line = e->lines->line(e->lines->ctx, p->kernel, NULL);
  e->di_scope = LLVMDIBuilderCreateFunction(e->di, e->di_file, name, strlen(name), symbol, strlen(symbol), e->di_file, line, e->di_type, 0, 1, line, LLVMDIFlagZero, 1);
  LLVMSetSubprogram(e->fn, e->di_scope);
  lines_at(e, NULL);
}

void lines_at(emit *e, const char *name) {
  if (!e->di_scope) return;
  unsigned line = e->lines->line(e->lines->ctx, e->kernel, name);
  LLVMSetCurrentDebugLocation2(e->b, LLVMDIBuilderCreateDebugLocation(e->cx, line, 0, e->di_scope, NULL));
}
