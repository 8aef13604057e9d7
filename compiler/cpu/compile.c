/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels to one blob: units (a few phases, or one micro-kernel) compile side by side, each in a module and a context of its own; then all are linked.
 * Phases that do the same, of whichever kernels, are compiled once. */
#include "emit.h"
#include "object.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <pthread.h>
#include <string.h>

/* What a module costs beside its functions is shared, and the units still spread over threads. In bytes of keys, which grow as phases do. */
enum { BYTES_PER_UNIT = 24000, DOOR_BYTES = 500, CONTRACT_BYTES = 40000, MAX_WORKERS = 64 };

typedef struct unit {
  int n;
  const int *parts;
  int64_t bytes;                 /* as long as it will take */
  bool is_contract, is_support;
  int asked_by;                  /* is_contract: the first kernel with such a step, whose texts show it */
  contract_key contract;
  const char *label;
  sn_arena *arena;               /* of the job's own: units run side by side */
  sn_status status;
  const char *error;
  uint64_t imports;              /* that it calls */
  char *llvm;                    /* LLVM's memory, until taken */
  LLVMMemoryBufferRef object, assembly;
} unit;

typedef struct compilation {
  sn_diag *d;
  sn_arena *arena;
  const sn_cpu_options *o;
  int n_kernels;
  const sn_kernel *const *kernels;
  int n_parts;
  int *first_part;               /* by kernel: those of its phases */
  phase_part *parts;
  int *compiled;                 /* parts that have code of their own */
  int n_units, cap_units;
  unit *units;
  int next;                      /* first unit of this round */
  LLVMTargetRef target;
  LLVMTargetMachineRef machines[MAX_WORKERS];
} compilation;

/* ---- LLVM's own state ---- */

static pthread_once_t llvm_once = PTHREAD_ONCE_INIT;

static void llvm_start(void) {
  /* Loops come with their addresses split by depth already; strength reduction only takes time (a fifth of code generation) and registers (it gives each row of a tile
   * its own). There is no other way to it than the command line. */
  static const char *const options[] = {"sinter", "-disable-lsr"};
  LLVMParseCommandLineOptions(2, options, "");
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

static const char *triple_of(const sn_target *t) { return t->triple ? t->triple : "x86_64-unknown-linux-gnu"; }

static sn_status find_target(sn_diag *d, const sn_target *t, LLVMTargetRef *out) {
  char *error = NULL;
  pthread_once(&llvm_once, llvm_start);
  if (!LLVMGetTargetFromTriple(triple_of(t), out, &error)) return SN_OK;
  sn_status s = sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "LLVM has no code generator for %s: %s", triple_of(t), error ? error : "");
  LLVMDisposeMessage(error);
  return s;
}

static LLVMTargetMachineRef make_machine(LLVMTargetRef target, const sn_target *t, int level) {
  static const LLVMCodeGenOptLevel levels[] = {LLVMCodeGenLevelNone, LLVMCodeGenLevelLess, LLVMCodeGenLevelDefault, LLVMCodeGenLevelAggressive};
  level = level < 0 ? 0 : level > 3 ? 3 : level;
  return LLVMCreateTargetMachine(target, triple_of(t), t->cpu ? t->cpu : "", t->features ? t->features : "", levels[level], LLVMRelocPIC, LLVMCodeModelSmall);
}

sn_status cpu_machine(sn_diag *d, const sn_target *t, int level, LLVMTargetMachineRef *out) {
  LLVMTargetRef target;
  SN_TRY(find_target(d, t, &target));
  *out = make_machine(target, t, level);
  return *out ? SN_OK : sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "LLVM has no machine for %s", t->name);
}

static LLVMTargetMachineRef machine_of(compilation *c, int worker) {
  if (!c->machines[worker]) c->machines[worker] = make_machine(c->target, c->o->target, c->o->opt_level);
  return c->machines[worker];
}

/* ---- one unit ---- */

static void unit_fail(unit *u, sn_status s, const char *what, const char *text) {
  if (u->status != SN_OK) return;
  u->status = s;
  u->error = sn_arena_printf(u->arena, "%s%s%s", what, text ? ": " : "", text ? text : "");
}

static void run_passes(unit *u, emit *e, LLVMTargetMachineRef machine, int level) {
  /* Index math, widening and selects come out of the emitter in order but with repeats; loops are rotated already and nothing lives in memory. */
  const char *passes = u->is_contract || level == 0 ? "function(early-cse)" : "function(early-cse,instcombine<max-iterations=1;no-verify-fixpoint>,simplifycfg,early-cse)";
  LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
  LLVMErrorRef error = LLVMRunPasses(e->module, passes, machine, options);
  LLVMDisposePassBuilderOptions(options);
  if (!error) return;
  char *text = LLVMGetErrorMessage(error);
  unit_fail(u, SN_ERR_INTERNAL, "LLVM passes", text);
  LLVMDisposeErrorMessage(text);
}

static void verify(unit *u, emit *e) {
  char *text = NULL;
  if (LLVMVerifyModule(e->module, LLVMReturnStatusAction, &text)) {
    char *ir = LLVMPrintModuleToString(e->module);
    if (sn_log() == SN_LOG_DEBUG) fprintf(stderr, "%s\n", ir);
    unit_fail(u, SN_ERR_INTERNAL, "LLVM's verifier", text);
    LLVMDisposeMessage(ir);
  }
  LLVMDisposeMessage(text);
}

static void generate(unit *u, emit *e, LLVMTargetMachineRef machine, const sn_cpu_options *o) {
  char *text = NULL;
  if (o->want_llvm) u->llvm = LLVMPrintModuleToString(e->module);
  if (o->want_asm) {
    LLVMModuleRef copy = LLVMCloneModule(e->module); /* code generation changes the module */
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, copy, LLVMAssemblyFile, &text, &u->assembly)) {
      unit_fail(u, SN_ERR_INTERNAL, "LLVM code generation", text);
      LLVMDisposeMessage(text);
    }
    LLVMDisposeModule(copy);
  }
  if (u->status != SN_OK || !LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, LLVMObjectFile, &text, &u->object)) return;
  unit_fail(u, SN_ERR_INTERNAL, "LLVM code generation", text);
  LLVMDisposeMessage(text);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *ctx) {
  unit *u = ctx;
  if (LLVMGetDiagInfoSeverity(info) != LLVMDSError) return;
  char *text = LLVMGetDiagInfoDescription(info);
  unit_fail(u, SN_ERR_INTERNAL, "LLVM", text);
  LLVMDisposeMessage(text);
}

static void compile_unit(compilation *c, unit *u, LLVMTargetMachineRef machine) {
  emit *e = SN_NEW(u->arena, emit);
  if (!e || !machine) {
    unit_fail(u, e ? SN_ERR_UNAVAILABLE : SN_ERR_MEMORY, e ? "no machine for this target" : "out of memory", NULL);
    return;
  }
  LLVMContextRef cx = LLVMContextCreate();
  LLVMContextSetDiagnosticHandler(cx, on_diagnostic, u);
  LLVMContextSetDiscardValueNames(cx, !c->o->want_llvm);
  e->arena = u->arena;
  e->target = c->o->target;
  emit_begin(e, cx, u->label);
  LLVMSetTarget(e->module, triple_of(c->o->target));
  LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
  LLVMSetModuleDataLayout(e->module, layout);
  LLVMDisposeTargetData(layout);
  e->lines = c->o->lines;
  lines_begin(e);
  if (u->is_contract) contract_function(e, &u->contract);
  else if (u->is_support) emit_support(e);
  for (int i = 0; i < u->n && e->status == SN_OK; i++) {
    const phase_part *p = &c->parts[u->parts[i]];
    if (p->same == u->parts[i]) emit_part(e, p);
    else emit_door(e, p, &c->parts[p->same]);
    if (e->status != SN_OK) u->label = p->k->name;
  }
  u->imports = e->called;
  if (e->status != SN_OK) unit_fail(u, e->status, e->error ? e->error : "out of memory", NULL);
  if (u->status == SN_OK) lines_end(e);
  if (u->status == SN_OK) verify(u, e);
  if (u->status == SN_OK) run_passes(u, e, machine, c->o->opt_level);
  if (u->status == SN_OK) generate(u, e, machine, c->o);
  emit_end(e);
  LLVMContextDispose(cx);
}

static void run_unit(void *ctx, int64_t item, int worker) {
  compilation *c = ctx;
  unit *u = &c->units[c->next + item];
  u->status = sn_arena_create(&u->arena);
  if (u->status == SN_OK) compile_unit(c, u, machine_of(c, worker));
}

/* ---- which units ---- */

static unit *add_unit(compilation *c) {
  if (c->n_units == c->cap_units) {
    int cap = c->cap_units ? 2 * c->cap_units : 64;
    unit *wider = SN_NEW_N(c->arena, unit, cap);
    if (!wider) return NULL;
    if (c->n_units) memcpy(wider, c->units, (size_t)c->n_units * sizeof *wider);
    c->units = wider;
    c->cap_units = cap;
  }
  return &c->units[c->n_units++];
}

static sn_status add_contract(compilation *c, int kernel, const sn_kcontract *x) {
  contract_key key;
  char name[160];
  if (!contract_key_of(c->o->target, c->kernels[kernel], x, &key)) return SN_OK;
  contract_symbol(&key, name, sizeof name);
  for (int i = 0; i < c->n_units; i++) {
    if (c->units[i].is_contract && strcmp(c->units[i].label, name) == 0) return SN_OK;
  }
  unit *u = add_unit(c);
  if (!u) return SN_ERR_MEMORY;
  u->is_contract = true;
  u->asked_by = kernel;
  u->bytes = CONTRACT_BYTES;
  u->contract = key;
  u->label = sn_arena_string(c->arena, name);
  return u->label ? SN_OK : SN_ERR_MEMORY;
}

static sn_status scan_region(compilation *c, int kernel, const sn_kregion *r) {
  for (const sn_knode *n = r->first; n; n = n->next) {
    if (n->op == SN_K_CONTRACT) SN_TRY(add_contract(c, kernel, n->contract));
    for (int i = 0; i < n->n_regions; i++) SN_TRY(scan_region(c, kernel, n->regions[i]));
  }
  return SN_OK;
}

/* Numbers the phases of all kernels, each with the first that does the same. */
static sn_status find_parts(compilation *c, sn_map *known) {
  for (int k = 0; k < c->n_kernels; k++) {
    c->first_part[k] = c->n_parts;
    for (int f = 0; f < c->kernels[k]->n_phases; f++) {
      phase_part *p = &c->parts[c->n_parts];
      uint64_t same = (uint64_t)c->n_parts;
      *p = (phase_part){.k = c->kernels[k], .kernel = k, .phase = f};
      SN_TRY(sn_kphase_key_of(c->arena, p->k, f, &p->key));
      if (!sn_map_get(known, p->key.bytes, p->key.n_bytes, &same)) SN_TRY(sn_map_set(known, p->key.bytes, p->key.n_bytes, same));
      p->same = (int)same;
      c->n_parts++;
    }
  }
  return SN_OK;
}

static sn_status make_parts(compilation *c) {
  int n = 0;
  sn_map *known = NULL;
  for (int k = 0; k < c->n_kernels; k++) n += c->kernels[k]->n_phases;
  c->first_part = SN_NEW_N(c->arena, int, c->n_kernels + 1);
  c->parts = SN_NEW_N(c->arena, phase_part, n + 1);
  c->compiled = SN_NEW_N(c->arena, int, n + 1);
  if (!c->first_part || !c->parts || !c->compiled) return SN_ERR_MEMORY;
  SN_TRY(sn_map_create(&known));
  sn_status s = find_parts(c, known);
  sn_map_destroy(known);
  return s;
}

/* The part whose code part i runs. */
static int code_of(const compilation *c, int i) {
  const phase_part *to = &c->parts[c->parts[i].same];
  return part_needs_door(&c->parts[i], to) ? i : c->parts[i].same;
}

static int64_t part_bytes(const compilation *c, int i) { return c->parts[i].same == i ? (int64_t)c->parts[i].key.n_bytes : DOOR_BYTES; }

static sn_status add_parts(compilation *c, const int *parts, int n, int64_t bytes) {
  unit *u = add_unit(c);
  if (!u) return SN_ERR_MEMORY;
  u->parts = parts;
  u->n = n;
  u->bytes = bytes;
  u->label = c->parts[parts[0]].k->name;
  return SN_OK;
}

/* Those that take longest first: then all threads end at about the same time. */
static void sort_units(compilation *c) {
  for (int i = 1; i < c->n_units; i++) {
    unit u = c->units[i];
    int k = i;
    for (; k > 0 && c->units[k - 1].bytes < u.bytes; k--) c->units[k] = c->units[k - 1];
    c->units[k] = u;
  }
}

static sn_status plan_units(compilation *c) {
  bool texts = c->o->want_llvm || c->o->want_asm; /* a kernel's own: units hold one */
  int n = 0, first = 0;
  int64_t bytes = 0;
  SN_TRY(make_parts(c));
  for (int i = 0; i < c->n_parts; i++) {
    const phase_part *p = &c->parts[i];
    if (p->same == i) SN_TRY(scan_region(c, p->kernel, p->k->phases[p->phase].body));
    if (code_of(c, i) != i) continue;
    if (n > first && (texts ? p->kernel != c->parts[c->compiled[first]].kernel : bytes + part_bytes(c, i) > BYTES_PER_UNIT)) {
      SN_TRY(add_parts(c, &c->compiled[first], n - first, bytes));
      first = n;
      bytes = 0;
    }
    c->compiled[n++] = i;
    bytes += part_bytes(c, i);
  }
  if (n > first) SN_TRY(add_parts(c, &c->compiled[first], n - first, bytes));
  sort_units(c);
  return SN_OK;
}

/* ---- results ---- */

static sn_status unit_error(compilation *c, const unit *u) {
  if (u->status == SN_ERR_MEMORY) return sn_out_of_memory(c->d, 0);
  return sn_error(c->d, SN_NOWHERE, u->status, "kernel %s: %s", u->label, u->error ? u->error : "failed");
}

static sn_status run_units(compilation *c) {
  sn_pool_run(sn_pool_threads(c->o->pool) <= MAX_WORKERS ? c->o->pool : NULL, c->n_units - c->next, run_unit, c);
  for (int i = c->next; i < c->n_units; i++) {
    if (c->units[i].status != SN_OK) return unit_error(c, &c->units[i]);
  }
  c->next = c->n_units;
  return SN_OK;
}

static sn_status read_objects(compilation *c, object **out) {
  const char *error = NULL;
  *out = SN_NEW_N(c->arena, object, c->n_units + 1);
  if (!*out) return SN_ERR_MEMORY;
  for (int i = 0; i < c->n_units; i++) {
    LLVMMemoryBufferRef b = c->units[i].object;
    if (!object_read(c->arena, c->units[i].label, LLVMGetBufferStart(b), LLVMGetBufferSize(b), &(*out)[i], &error))
      return sn_error(c->d, SN_NOWHERE, SN_ERR_INTERNAL, "%s", error ? error : "out of memory");
  }
  return SN_OK;
}

/* LLVM may call the functions of emit_support unasked: then their code comes along. Any other symbol is a fault. */
static sn_status add_support(compilation *c, object **objects) {
  static const char *const known[] = {"memcpy", "memmove", "memset"};
  const char *label = "", *name = object_missing(c->n_units, *objects, &label);
  if (!name) return SN_OK;
  bool is_known = false;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) is_known |= strcmp(name, known[i]) == 0;
  if (is_known) {
    unit *u = add_unit(c);
    if (!u) return SN_ERR_MEMORY;
    u->is_support = true;
    u->label = "support";
    SN_TRY(run_units(c));
    SN_TRY(read_objects(c, objects));
    name = object_missing(c->n_units, *objects, &label);
  }
  return name ? sn_error(c->d, SN_NOWHERE, SN_ERR_INTERNAL, "kernel %s: its code calls '%s', which is not in imports.def", label, name) : SN_OK;
}

/* Behind what is there already. */
static bool add_text(sn_arena *a, const char **to, const char *text, size_t n) {
  if (!text) return true;
  *to = sn_arena_printf(a, "%s%.*s", *to ? *to : "", (int)n, text);
  return *to != NULL;
}

static bool take_texts(compilation *c, const unit *u, sn_cpu_kernel *to) {
  return add_text(c->arena, &to->llvm, u->llvm, u->llvm ? strlen(u->llvm) : 0) &&
         add_text(c->arena, &to->assembly, u->assembly ? LLVMGetBufferStart(u->assembly) : NULL, u->assembly ? LLVMGetBufferSize(u->assembly) : 0);
}

static sn_status fill_kernels(compilation *c, const object *objects, sn_cpu_code *out) {
  char name[64];
  int64_t *offsets = SN_NEW_N(c->arena, int64_t, c->n_parts + 1);
  out->n_kernels = c->n_kernels;
  out->kernels = SN_NEW_N(c->arena, sn_cpu_kernel, c->n_kernels + 1);
  if (!out->kernels || !offsets) return SN_ERR_MEMORY;
  for (int i = 0; i < c->n_units; i++) {
    const unit *u = &c->units[i];
    for (int k = 0; k < u->n; k++) {
      const phase_part *p = &c->parts[u->parts[k]];
      phase_symbol(p->kernel, p->phase, name, sizeof name);
      offsets[u->parts[k]] = object_find(1, &objects[i], name);
    }
    if (u->n && !take_texts(c, u, &out->kernels[c->parts[u->parts[0]].kernel])) return SN_ERR_MEMORY;
  }
  for (int i = 0; i < c->n_parts; i++) offsets[i] = offsets[code_of(c, i)];
  for (int k = 0; k < c->n_kernels; k++) out->kernels[k].phase_offsets = offsets + c->first_part[k];
  for (int i = 0; i < c->n_units; i++) {
    const unit *u = &c->units[i];
    if (u->is_contract && !take_texts(c, u, &out->kernels[u->asked_by])) return SN_ERR_MEMORY;
  }
  return SN_OK;
}

/* "+avx2,+fma,-x" to {"avx2", "fma", NULL}. */
static sn_status fill_isa(compilation *c, sn_cpu_code *out) {
  const char *f = c->o->target->features ? c->o->target->features : "";
  int n = 1;
  for (const char *p = f; *p; p++) n += *p == ',';
  const char **isa = SN_NEW_N(c->arena, const char *, n + 1);
  if (!isa) return SN_ERR_MEMORY;
  n = 0;
  while (*f) {
    size_t length = strcspn(f, ",");
    if (*f == '+' && length > 1 && !(isa[n++] = sn_arena_string_n(c->arena, f + 1, length - 1))) return SN_ERR_MEMORY;
    f += length + (f[length] == ',');
  }
  out->isa = isa;
  return SN_OK;
}

static sn_status fill_debug(compilation *c, const object *objects, sn_cpu_code *out, const char **error) {
  sn_cpu_object *raw = SN_NEW_N(c->arena, sn_cpu_object, c->n_units + 1);
  if (!raw) return SN_ERR_MEMORY;
  for (int i = 0; i < c->n_units; i++) raw[i] = (sn_cpu_object){c->units[i].label, LLVMGetBufferStart(c->units[i].object), LLVMGetBufferSize(c->units[i].object)};
  return object_debug(c->arena, c->n_units, objects, raw, &out->debug, error);
}

static sn_status link_units(compilation *c, sn_cpu_code *out) {
  object *objects = NULL;
  const char *error = NULL;
  SN_TRY(read_objects(c, &objects));
  SN_TRY(add_support(c, &objects));
  sn_status s = object_link(c->arena, c->n_units, objects, &out->code, &out->bytes, &error);
  if (s == SN_OK) s = fill_kernels(c, objects, out);
  if (s == SN_OK) s = fill_isa(c, out);
  for (int i = 0; i < c->n_units; i++) out->imports |= c->units[i].imports;
  if (s == SN_OK && c->o->lines) s = fill_debug(c, objects, out, &error);
  if (s != SN_OK) {
    sn_free_aligned(out->code);
    out->code = NULL;
  }
  return error ? sn_error(c->d, SN_NOWHERE, s, "%s", error) : s;
}

static void release(compilation *c) {
  for (int i = 0; i < c->n_units; i++) {
    unit *u = &c->units[i];
    if (u->llvm) LLVMDisposeMessage(u->llvm);
    if (u->object) LLVMDisposeMemoryBuffer(u->object);
    if (u->assembly) LLVMDisposeMemoryBuffer(u->assembly);
    sn_arena_destroy(u->arena);
  }
  for (int i = 0; i < MAX_WORKERS; i++) {
    if (c->machines[i]) LLVMDisposeTargetMachine(c->machines[i]);
  }
}

sn_status sn_cpu_compile(sn_diag *d, sn_arena *a, const sn_cpu_options *o, int n, const sn_kernel *const *kernels, sn_cpu_code *out) {
  memset(out, 0, sizeof *out);
  if (!o || o->struct_size < sizeof *o || !o->target) return sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "sn_cpu_compile: options of another version");
  if (o->target->kind != SN_TARGET_CPU) return sn_error(d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "%s is no CPU", o->target->name);
  compilation *c = SN_NEW(a, compilation);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  *c = (compilation){.d = d, .arena = a, .o = o, .n_kernels = n, .kernels = kernels};
  sn_status s = find_target(d, o->target, &c->target);
  if (s == SN_OK) s = plan_units(c);
  if (s == SN_OK) s = run_units(c);
  if (s == SN_OK) s = link_units(c, out);
  release(c);
  if (s == SN_ERR_MEMORY) return sn_out_of_memory(d, 0);
  return s;
}
