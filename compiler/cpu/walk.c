/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The walk over a program's commands as code of its own, for programs that run without the runtime. One function, straight through the commands:
 *
 *   int32_t walk(void *const *arguments, void *const *results, void *work)
 *     kernel        pointers of its slices, then each phase with all its items
 *     copy          memmove
 *     while, conditional: blocks, their ranges inside
 *
 * It is linked behind the kernels' code and in front of the constants, so that the whole is one blob without relocations. */
#include "emit.h"
#include "object.h"

#include <elf.h>
#include <llvm-c/Analysis.h>
#include <llvm-c/TargetMachine.h>
#include <string.h>

#define WALK_SYMBOL "sinter_walk"
#define CODE_SYMBOL "sinter_code"
#define CONSTANTS_SYMBOL "sinter_constants"

typedef struct walk {
  emit *e;
  const sn_cpu_walk *w;
  val code, constants, pointers, env;
  int64_t *constant_offsets;
} walk;

static val const64(const emit *e, int64_t v) { return LLVMConstInt(e->i64, (unsigned long long)v, 1); }
static val bytes_on(emit *e, val p, int64_t offset) {
  val at = const64(e, offset);
  return offset ? LLVMBuildGEP2(e->b, e->i8, p, &at, 1, "") : p;
}

static val element(emit *e, val table, int64_t index) {
  val at = const64(e, index);
  return LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, table, &at, 1, ""), "");
}

static val slice(walk *k, const sn_slice *s) {
  emit *e = k->e;
  switch (s->kind) {
    case SN_ALLOCATION_ARGUMENT: return bytes_on(e, element(e, LLVMGetParam(e->fn, 0), s->index), s->offset);
    case SN_ALLOCATION_RESULT: return bytes_on(e, element(e, LLVMGetParam(e->fn, 1), s->index), s->offset);
    case SN_ALLOCATION_CONSTANT: return bytes_on(e, k->constants, k->constant_offsets[s->index] + s->offset);
    default: return bytes_on(e, LLVMGetParam(e->fn, 2), s->offset);
  }
}

/* ---- commands ---- */

static void put(emit *e, val table, int64_t index, val v) {
  val at = const64(e, index);
  LLVMBuildStore(e->b, v, LLVMBuildGEP2(e->b, e->ptr, table, &at, 1, ""));
}

static void emit_kernel(walk *k, const sn_command *m) {
  emit *e = k->e;
  const sn_program_kernel *f = &k->w->kernels[m->kernel];
  LLVMTypeRef types[3] = {e->ptr, e->i64, e->i64}, type = LLVMFunctionType(e->none, types, 3, 0);
  for (uint32_t s = 0; s < m->n_slices; s++) put(e, k->pointers, s, slice(k, &m->slices[s]));
  for (int p = 0; p < f->n_phases; p++) {
    val args[3] = {k->env, const64(e, 0), const64(e, f->phases[p].n_items)};
    LLVMBuildCall2(e->b, type, bytes_on(e, k->code, f->phases[p].code_offset), args, 3, "");
  }
}

static void emit_range(walk *k, uint32_t first, uint32_t n);

static void emit_loop(walk *k, const sn_command *m) {
  emit *e = k->e;
  LLVMBasicBlockRef test = new_block(e, "while"), body = new_block(e, "body"), done = new_block(e, "done");
  jump(e, test);
  at_end(e, test);
  emit_range(k, m->ranges[0].first, m->ranges[0].n);
  val holds = LLVMBuildLoad2(e->b, e->i8, slice(k, &m->slices[0]), "");
  branch(e, icmp(e, LLVMIntNE, holds, LLVMConstInt(e->i8, 0, 0)), body, done);
  at_end(e, body);
  emit_range(k, m->ranges[1].first, m->ranges[1].n);
  jump(e, test);
  at_end(e, done);
}

/* HLO: an index out of range takes the last branch. */
static void emit_branches(walk *k, const sn_command *m) {
  emit *e = k->e;
  val at = slice(k, &m->slices[0]);
  LLVMBasicBlockRef from = here(e), done = new_block(e, "joined"), last = NULL;
  val index = LLVMBuildLoad2(e->b, m->index_is_pred ? e->i8 : e->i32, at, "");
  if (m->index_is_pred) index = LLVMBuildZExt(e->b, icmp(e, LLVMIntEQ, index, LLVMConstInt(e->i8, 0, 0)), e->i32, "");
  LLVMBasicBlockRef *blocks = SN_NEW_N(e->arena, LLVMBasicBlockRef, m->n_ranges + 1);
  if (!blocks) {
    emit_no_memory(e);
    return;
  }
  for (uint32_t r = 0; r < m->n_ranges; r++) {
    last = blocks[r] = new_block(e, "branch");
    at_end(e, last);
    emit_range(k, m->ranges[r].first, m->ranges[r].n);
    jump(e, done);
  }
  at_end(e, from);
  LLVMValueRef choice = LLVMBuildSwitch(e->b, index, last, m->n_ranges);
  for (uint32_t r = 0; r + 1 < m->n_ranges; r++) LLVMAddCase(choice, LLVMConstInt(e->i32, r, 0), blocks[r]);
  at_end(e, done);
}

static void emit_command(walk *k, const sn_command *m) {
  emit *e = k->e;
  switch (m->kind) {
    case SN_COMMAND_KERNEL: emit_kernel(k, m); return;
    case SN_COMMAND_COPY: LLVMBuildMemMove(e->b, slice(k, &m->slices[0]), 1, slice(k, &m->slices[1]), 1, const64(e, m->slices[0].bytes)); return;
    case SN_COMMAND_WHILE: emit_loop(k, m); return;
    case SN_COMMAND_CONDITIONAL: emit_branches(k, m); return;
    default: emit_fail(e, SN_ERR_UNSUPPORTED, "%s needs a host that runs it: the program cannot stand alone", m->name ? m->name : "a command"); return;
  }
}

static void emit_range(walk *k, uint32_t first, uint32_t n) {
  for (uint32_t i = first; i < first + n && k->e->status == SN_OK;) {
    const sn_command *m = &k->w->commands[i];
    emit_command(k, m);
    i = m->n_ranges ? m->ranges[m->n_ranges - 1].first + m->ranges[m->n_ranges - 1].n : i + 1;
  }
}

/* ---- the function ---- */

static val hidden(emit *e, const char *name) {
  val g = LLVMAddGlobal(e->module, e->i8, name);
  LLVMSetVisibility(g, LLVMHiddenVisibility);
  return g;
}

static void emit_walk(walk *k) {
  emit *e = k->e;
  LLVMTypeRef types[3] = {e->ptr, e->ptr, e->ptr};
  uint32_t most = 1;
  for (uint32_t i = 0; i < k->w->n_commands; i++) most = k->w->commands[i].n_slices > most ? k->w->commands[i].n_slices : most;
  k->code = hidden(e, CODE_SYMBOL);
  k->constants = hidden(e, CONSTANTS_SYMBOL);
  e->fn = LLVMAddFunction(e->module, WALK_SYMBOL, LLVMFunctionType(e->i32, types, 3, 0));
  function_attributes(e, e->fn);
  e->entry = new_block(e, "entry");
  at_end(e, e->entry);
  k->pointers = stack_slot(e, e->ptr, most, 64);
  k->env = stack_slot(e, e->ptr, 3, 64);
  put(e, k->env, 0, k->pointers);
  put(e, k->env, 1, bytes_on(e, LLVMGetParam(e->fn, 2), k->w->scratch_offset));
  put(e, k->env, 2, LLVMConstNull(e->ptr)); /* imports: none is called */
  emit_range(k, 0, k->w->n_commands);
  LLVMBuildRet(e->b, LLVMConstInt(e->i32, 0, 0));
}

/* ---- one blob ---- */

static object code_object(const sn_cpu_walk *w, uint16_t machine, const uint8_t *constants, int64_t bytes, object_section *sections, object_symbol *symbols) {
  sections[0] = (object_section){w->code, (uint64_t)w->code_bytes, 4096, true, true, 0};
  sections[1] = (object_section){constants, (uint64_t)bytes, 64, false, true, 0};
  symbols[0] = (object_symbol){CODE_SYMBOL, 0, 0, 0, false, false};
  symbols[1] = (object_symbol){CONSTANTS_SYMBOL, 1, 0, 0, false, false};
  return (object){"program", machine, 2, 2, 0, sections, symbols, NULL};
}

static uint8_t *gather_constants(sn_arena *a, const sn_cpu_walk *w, int64_t *offsets, int64_t *bytes) {
  *bytes = 0;
  for (uint32_t i = 0; i < w->n_constants; i++) {
    offsets[i] = *bytes;
    *bytes += (w->constant_bytes[i] + 63) / 64 * 64;
  }
  uint8_t *all = sn_arena_zero(a, (size_t)*bytes + 1, 1);
  for (uint32_t i = 0; all && i < w->n_constants; i++) {
    if (w->constant_bytes[i]) memcpy(all + offsets[i], w->constants[i], (size_t)w->constant_bytes[i]);
  }
  return all;
}

static sn_status link_walk(sn_diag *d, sn_arena *a, const sn_cpu_walk *w, LLVMMemoryBufferRef file, const uint8_t *constants, int64_t constant_bytes, sn_cpu_code *out, int64_t *entry) {
  object objects[2];
  object_section sections[2];
  object_symbol symbols[2];
  const char *error = NULL;
  if (!object_read(a, WALK_SYMBOL, LLVMGetBufferStart(file), LLVMGetBufferSize(file), &objects[1], &error)) return sn_error(d, SN_NOWHERE, SN_ERR_INTERNAL, "%s", error ? error : "out of memory");
  objects[0] = code_object(w, objects[1].machine, constants, constant_bytes, sections, symbols);
  sn_status s = object_link(a, 2, objects, &out->code, &out->bytes, &error);
  *entry = object_find(2, objects, WALK_SYMBOL);
  return error ? sn_error(d, SN_NOWHERE, s, "%s", error) : s;
}

static sn_status generate(sn_diag *d, emit *e, LLVMTargetMachineRef machine, LLVMMemoryBufferRef *out) {
  char *text = NULL;
  sn_status s = SN_OK;
  if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &text) || (LLVMDisposeMessage(text), text = NULL, LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, LLVMObjectFile, &text, out)))
    s = sn_error(d, SN_NOWHERE, SN_ERR_INTERNAL, "the walk over the commands: %s", text ? text : "LLVM failed");
  if (text) LLVMDisposeMessage(text);
  return s;
}

sn_status sn_cpu_walk_compile(sn_diag *d, sn_arena *a, const sn_target *t, const sn_cpu_walk *w, sn_cpu_code *out, int64_t *entry) {
  LLVMTargetMachineRef machine = NULL;
  LLVMMemoryBufferRef file = NULL;
  int64_t bytes;
  memset(out, 0, sizeof *out);
  emit *e = SN_NEW(a, emit);
  walk k = {.e = e, .w = w, .constant_offsets = SN_NEW_N(a, int64_t, w->n_constants + 1)};
  const uint8_t *constants = k.constant_offsets ? gather_constants(a, w, k.constant_offsets, &bytes) : NULL;
  if (!e || !constants) return sn_out_of_memory(d, sizeof *e);
  SN_TRY(cpu_machine(d, t, 2, &machine));
  LLVMContextRef cx = LLVMContextCreate();
  e->arena = a;
  e->target = t;
  emit_begin(e, cx, WALK_SYMBOL);
  LLVMSetTarget(e->module, t->triple);
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(e->module, layout);
  LLVMDisposeTargetData(layout);
  emit_support(e);
  emit_walk(&k);
  sn_status s = e->status == SN_OK ? generate(d, e, machine, &file) : sn_error(d, SN_NOWHERE, e->status, "%s", e->error ? e->error : "out of memory");
  if (s == SN_OK) s = link_walk(d, a, w, file, constants, bytes, out, entry);
  if (file) LLVMDisposeMemoryBuffer(file);
  emit_end(e);
  LLVMContextDispose(cx);
  LLVMDisposeTargetMachine(machine);
  return s;
}
