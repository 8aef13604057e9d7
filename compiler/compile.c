/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver: passes on a copy, plan, kernels, code, program. */
#include "compile_internal.h"

#include <stdlib.h>
#include <string.h>

void sn_compile_options_init(sn_compile_options *o) {
  memset(o, 0, sizeof *o);
  o->struct_size = sizeof *o;
  o->engine = "fused";
  o->opt_level = 2;
  sn_pass_options_init(&o->passes);
}

/* ---- code ---- */

/* The emitter is a library of its own, so that nothing else links LLVM; it stays loaded as long as the process lives (LLVM does not unload). */
const char *sn_compile_emitter_file(void) {
  const char *chosen = sn_env("SINTER_LLVM");
  if (chosen) return strchr(chosen, '/') ? chosen : NULL;
#ifdef SN_BUILD_LLVM_LIBRARY
  if (sn_file_exists(SN_BUILD_LLVM_LIBRARY)) return SN_BUILD_LLVM_LIBRARY;
#endif
  return sn_file_exists(SN_INSTALLED_LLVM_LIBRARY) ? SN_INSTALLED_LLVM_LIBRARY : NULL;
}

sn_status sn_compile_emitter(sn_diag *d, const char *function, void **out) {
  const char *names[5];
  size_t n = 0;
  const char *chosen = sn_env("SINTER_LLVM");
  if (chosen) names[n++] = chosen;
#ifdef SN_BUILD_LLVM_LIBRARY
  names[n++] = SN_BUILD_LLVM_LIBRARY;
#endif
  names[n++] = SN_INSTALLED_LLVM_LIBRARY;
  names[n++] = "libsinter-llvm.so.0";
  names[n++] = "libsinter-llvm.so";
  sn_library *l;
  sn_status s = sn_library_open(d, names, n, &l);
  if (s != SN_OK) {
    sn_hint(d, "the compiler needs libsinter-llvm.so (a build with LLVM 17 or later); --engine=interpreter runs without it");
    return SN_ERR_UNAVAILABLE;
  }
  *out = sn_library_symbol(l, function);
  sn_library_keep(l);
  return *out ? SN_OK : sn_error(d, SN_NOWHERE, SN_ERR_VERSION, "libsinter-llvm.so has no %s: it is of another version", function);
}

bool sn_compiler_available(sn_diag *d) {
  void *at;
  return sn_compile_emitter(d, "sn_cpu_compile", &at) == SN_OK;
}

sn_status sn_compile_register(sn_diag *d, const sn_cpu_object *o, const void *code) {
  sn_cpu_register_fn make_known = NULL;
  void *at;
  SN_TRY(sn_compile_emitter(d, "sn_cpu_register", &at));
  memcpy(&make_known, &at, sizeof at);
  sn_status s = make_known(o, code);
  return s == SN_ERR_MEMORY ? sn_out_of_memory(d, o->bytes) : s;
}

sn_status sn_compile_code(compile *c, const sn_cpu_lines *lines, sn_cpu_code *out) {
  sn_cpu_compile_fn emit = NULL;
  void *at;
  memset(out, 0, sizeof *out);
  if (c->n_kernels == 0) return SN_OK;
  SN_TRY(sn_compile_emitter(c->d, "sn_cpu_compile", &at));
  memcpy(&emit, &at, sizeof at);
  sn_cpu_options o;
  memset(&o, 0, sizeof o);
  o.struct_size = sizeof o;
  o.target = &c->target;
  o.opt_level = c->o->opt_level;
  o.pool = c->o->pool;
  o.want_llvm = o.want_asm = c->o->keep_texts;
  o.lines = lines;
  return emit(c->d, c->arena, &o, (int)c->n_kernels, (const sn_kernel *const *)c->kernels, out);
}

/* ---- the program ---- */

static sn_status program_kernels(compile *c, const sn_cpu_code *code, sn_program_kernel **out) {
  sn_program_kernel *v = SN_NEW_N(c->arena, sn_program_kernel, c->n_kernels + 1);
  if (!v) return sn_out_of_memory(c->d, c->n_kernels * sizeof *v);
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    const sn_kernel *k = c->kernels[i];
    sn_program_phase *phases = SN_NEW_N(c->arena, sn_program_phase, k->n_phases + 1);
    if (!phases) return sn_out_of_memory(c->d, sizeof *phases);
    for (int f = 0; f < k->n_phases; f++) {
      phases[f].code_offset = code->kernels[i].phase_offsets[f];
      phases[f].n_items = 1;
      for (int g = 0; g < k->phases[f].n_grid; g++) phases[f].n_items *= k->phases[f].grid[g];
      phases[f].cost_ns = k->phases[f].cost;
    }
    v[i].name = k->name;
    v[i].n_phases = k->n_phases;
    v[i].phases = phases;
    v[i].scratch_bytes = sn_kernel_scratch_bytes(k);
    for (int b = 0; b < k->n_buffers; b++) v[i].n_buffers += k->buffers[b].memory <= SN_KMEM_WORK;
  }
  *out = v;
  return SN_OK;
}

sn_status sn_compile_program(compile *c, const sn_program_kernel *kernels, const char *device, const char *const *isa, const void *code, int64_t code_bytes, sn_program **out) {
  sn_program_spec s;
  memset(&s, 0, sizeof s);
  sn_array **constants = SN_NEW_N(c->arena, sn_array *, c->plan.n_constants + 1);
  if (!constants) return sn_out_of_memory(c->d, sizeof *constants);
  for (uint32_t i = 0; i < c->plan.n_constants; i++) {
    if (!(constants[i] = sn_instr_literal(c->plan.constants[i]))) {
      return sn_error(c->d, c->plan.constants[i]->loc, SN_ERR_UNSUPPORTED, "%s: the constant's value is missing ({...})", c->plan.constants[i]->name);
    }
  }
  s.struct_size = sizeof s;
  s.name = c->m->name;
  s.target = c->target.name;
  s.device = device;
  s.isa = isa;
  s.n_arguments = c->n_arguments;
  s.n_results = c->n_results;
  s.n_constants = c->plan.n_constants;
  s.n_kernels = c->n_kernels;
  s.n_commands = c->n_commands;
  s.arguments = c->arguments;
  s.results = c->results;
  s.constants = constants;
  s.kernels = kernels;
  s.commands = c->commands;
  s.arena_bytes = (c->plan.arena_bytes + 63) / 64 * 64 + c->work_bytes;
  s.code = code;
  s.code_bytes = code_bytes;
  s.result_is_tuple = sn_shape_is_tuple(c->m->entry->root->shape);
  return sn_program_build(c->d, &s, out);
}

/* ---- texts ---- */

static void keep_texts(const compile *c, const sn_cpu_code *code, sn_compile_report *r) {
  sn_str llvm = {0}, assembly = {0};
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    if (code->kernels[i].llvm) sn_str_add(&llvm, code->kernels[i].llvm);
    if (code->kernels[i].assembly) sn_str_add(&assembly, code->kernels[i].assembly);
  }
  r->llvm = sn_compile_take_text(&llvm);
  r->assembly = sn_compile_take_text(&assembly);
}

/* ---- the driver ---- */

static sn_status run_passes(compile *c, sn_compile_report *r) {
  sn_pass_options o = c->o->passes;
  o.opt_level = c->o->opt_level;
  o.target = &c->target;
  o.pool = c->o->pool;
  o.tf32 = c->o->precision && strcmp(c->o->precision, "tf32") == 0;
  bool one_by_one = c->o->engine && strcmp(c->o->engine, "op-by-op") == 0;
  return sn_pipeline_run(c->d, c->m, one_by_one ? "op-by-op" : c->target.kind == SN_TARGET_CUDA ? "cuda" : "cpu", &o, &r->passes);
}

static sn_status compile_cpu(compile *c, sn_program **out, sn_compile_report *r) {
  sn_cpu_code code;
  sn_program_kernel *kernels = NULL;
  sn_compile_debug *debug = NULL;
  memset(&code, 0, sizeof code);
  sn_status s = sn_compile_debug_begin(c, &debug);
  if (s == SN_OK) s = sn_compile_cached_code(c, sn_compile_debug_lines(debug), &code, r);
  if (s == SN_OK) s = program_kernels(c, &code, &kernels);
  if (s == SN_OK) s = sn_compile_program(c, kernels, NULL, code.isa, code.code, code.bytes, out);
  if (s == SN_OK && c->o->standalone) s = sn_compile_standalone(c, &code, kernels, r);
  if (s == SN_OK) s = sn_compile_debug_write(c, debug, &code.debug, *out);
  sn_compile_debug_end(debug);
  if (s == SN_OK && c->o->keep_texts) keep_texts(c, &code, r);
  r->code_bytes = code.bytes;
  sn_free_aligned(code.code);
  return s;
}

static sn_status compile_module(compile *c, sn_program **out, sn_compile_report *r) {
  bool keep = c->o->keep_texts;
  double t0 = sn_time();
  if (keep) sn_compile_keep_hlo(c, &r->hlo);
  SN_TRY(sn_target_find(c->d, c->arena, c->o->target ? c->o->target : "native", &c->target));
  SN_TRY(run_passes(c, r));
  if (c->target.kind == SN_TARGET_CUDA) SN_TRY(sn_compile_precision(c));
  if (keep) sn_compile_keep_hlo(c, &r->optimized);
  double t1 = sn_time();
  SN_TRY(sn_plan_make(c->d, c->arena, c->m, &c->plan));
  if (keep) sn_compile_keep_plan(c, r);
  SN_TRY(sn_compile_leaves(c));
  SN_TRY(sn_compile_commands(c));
  if (keep) sn_compile_keep_kernels(c, r);
  double t2 = sn_time();
  SN_TRY(c->target.kind == SN_TARGET_CUDA ? sn_compile_gpu(c, out, r) : compile_cpu(c, out, r));
  double t3 = sn_time();
  r->passes_s = t1 - t0;
  r->lower_s = t2 - t1;
  r->emit_s = t3 - t2;
  r->total_s = sn_time() - t0;
  r->n_distinct = c->n_kernels;
  r->n_commands = c->n_commands;
  for (uint32_t i = 0; i < c->n_commands; i++) r->n_kernels += c->commands[i].kind == SN_COMMAND_KERNEL || c->commands[i].kind == SN_COMMAND_LIBRARY;
  r->arena_bytes = c->plan.arena_bytes + c->work_bytes;
  if (keep) {
    sn_str text = {0};
    sn_program_print(&text, *out);
    r->program = sn_compile_take_text(&text);
  }
  return SN_OK;
}

/* Texts that the caller did not ask for; what the cache had is always said, code that was asked for given. */
static void drop_texts(sn_compile_report *r, bool keep_rest) {
  char *cache = r->cache;
  void *alone = r->alone;
  if (keep_rest) r->cache = r->alone = NULL;
  sn_compile_report_finish(r);
  if (!keep_rest) return;
  r->cache = cache;
  r->alone = alone;
}

static void tell(sn_diag *d, const sn_module *m, const sn_compile_report *r) {
  sn_note(d, SN_NOWHERE, "compiled %s in %.1f ms: passes %.1f, plan and kernels %.1f, code %.1f; %lld commands, %lld kernels of which %lld distinct, %lld bytes of code, %lld of temporaries", m->name,
          1e3 * r->total_s, 1e3 * r->passes_s, 1e3 * r->lower_s, 1e3 * r->emit_s, (long long)r->n_commands, (long long)r->n_kernels, (long long)r->n_distinct,
          (long long)r->code_bytes, (long long)r->arena_bytes);
}

sn_status sn_compile(sn_diag *d, const sn_module *m, const sn_compile_options *o, sn_program **out, sn_compile_report *report) {
  *out = NULL;
  sn_compile_options options;
  sn_compile_report own;
  compile c;
  memset(&c, 0, sizeof c);
  memset(&own, 0, sizeof own);
  if (o) options = *o;
  else sn_compile_options_init(&options);
  bool keep = report && options.keep_texts;
  const char *dump_to = options.dump_to ? options.dump_to : sn_env("SINTER_DUMP_TO");
  options.keep_texts = keep || dump_to;
  c.d = d;
  c.o = &options;
  sn_compile_report *r = report ? report : &own;
  if (report) memset(report, 0, sizeof *report);
  if (sn_arena_create(&c.arena) != SN_OK) return sn_out_of_memory(d, 1);
  sn_status s = sn_module_clone(m, &c.m);
  if (s == SN_ERR_MEMORY) sn_out_of_memory(d, 1);
  if (s == SN_OK) s = compile_module(&c, out, r);
  sn_status dumped = dump_to ? sn_compile_report_write(d, r, dump_to, m->name, NULL) : SN_OK;
  if (s == SN_OK && dumped != SN_OK) {
    sn_hint(d, "SINTER_DUMP_TO, or the option dump_to, names the folder");
    sn_program_release(*out);
    *out = NULL;
    s = dumped;
  }
  if (s == SN_OK && sn_log() == SN_LOG_DEBUG) tell(d, m, r);
  sn_module_destroy(c.m);
  sn_arena_destroy(c.arena);
  if (!keep) drop_texts(r, report && s == SN_OK);
  return s;
}
