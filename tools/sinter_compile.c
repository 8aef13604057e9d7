/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-compile: compiles a module ahead of time. */
#include <string.h>

#include "engine.h"
#include "pass_options.h"
#include "sinter/compiler.h"
#include "sinter/emit.h"
#include "sinter/target.h"
#include "source.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where it goes; a folder for cubin, one file a kernel", 0, 0},
    {"emit", 0, SN_OPT_CHOICE, "program|obj|so|kernels|llvm|asm|cuda|ptx|cubin|resources|model", "program", "what to write; obj, so: the program as an object or a shared library that libsinter-runtime runs, with a header beside it; model: a line a launch, with modelled times for the machine that --target describes", 0, 0},
    {"standalone", 0, SN_OPT_FLAG, NULL, NULL, "obj, so: code that needs no libsinter-runtime, for one thread", 0, 0},
    {"engine", 0, SN_OPT_CHOICE, "op-by-op|fused", "fused", "with one kernel an op, or fused", 0, 0},
    {"target", 0, SN_OPT_TEXT, "NAME", NULL, "native, x86-64-v3, sm_80, sm_89, sm_90a, … (default: native; sm_90a for cuda, ptx, cubin, resources and model), or a file that describes a machine, as passes/cost/machines has them", 0, 0},
    {"precision", 0, SN_OPT_CHOICE, "program|tf32", "program", "f32 products that ask for nothing: as they are, or on a GPU's tensor cores in tf32", 0, 0},
    {"library", 0, SN_OPT_CHOICE, "auto|none|cublaslt", "auto", "who multiplies on a GPU where nothing is fused with a product: cuBLASLt where it is taken to be faster, never, wherever it can", 0, 0},
    {"memory", 0, SN_OPT_FLAG, NULL, NULL, "print the plan to stderr: sizes, who owns the peak, what donation would save", 0, 0},
    {"threads", 0, SN_OPT_INT, "N", "0", "threads to compile on; 0: SINTER_THREADS, else every CPU of this process", 0, 1024},
    {"cache-why", 0, SN_OPT_FLAG, NULL, NULL, "say whether SINTER_CACHE_DIR had the code (for a GPU: of each kernel), and why not", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"What to write", own}, {"Passes", sn_options_passes}, {NULL, NULL}};
static const sn_tool tool = {"sinter-compile", "compiles a module ahead of time", "FILE", 1, 1, groups,
                             "Reports go to stderr; when --memory, --time-passes, --remarks or --why-not-fused is given without -o and --emit, nothing else is written.\n"
                             "SINTER_DUMP_TO=DIR keeps every stage of every compile, of any tool, below DIR."};

static bool is_one_of(const char *word, const char *const *words) {
  for (; *words; words++) {
    if (strcmp(word, *words) == 0) return true;
  }
  return false;
}

/* FOLDER/KERNEL.cubin; names of kernels are unique in a program but for those of other modules' making, which a number keeps apart. */
static sn_status write_cubins(sn_diag *d, const sn_program *p, const char *folder) {
  if (strcmp(folder, "-") == 0) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--emit=cubin needs -o FOLDER");
  SN_TRY(sn_dir_make(d, folder));
  for (uint32_t i = 0; i < sn_program_n_kernels(p); i++) {
    sn_program_module m;
    char path[4096];
    if (!sn_program_kernel_module(p, i, &m) || m.cubin_bytes == 0) continue;
    snprintf(path, sizeof path, "%s/%03u.%s.cubin", folder, i, m.name ? m.name : "kernel");
    SN_TRY(sn_file_write(d, path, m.cubin, m.cubin_bytes));
  }
  return SN_OK;
}

static sn_status write(sn_diag *d, const sn_options *o, const sn_program *p, const sn_compile_report *r) {
  const char *what = sn_opt_text(o, "emit"), *to = sn_opt_text(o, "output");
  if (strcmp(what, "cubin") == 0) return write_cubins(d, p, to);
  if (strcmp(what, "program") == 0) {
    if (strcmp(to, "-") == 0) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "a program needs a file: -o FILE.sntr");
    return sn_program_write(d, p, to);
  }
  bool object = strcmp(what, "obj") == 0;
  if (object || strcmp(what, "so") == 0) {
    if (strcmp(to, "-") == 0) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "%s needs a file: -o FILE.%s", object ? "an object" : "a shared library", object ? "o" : "so");
    sn_alone alone = {r->alone, r->alone_bytes, r->alone_entry, r->alone_work_bytes};
    return sn_artefact_write(d, p, r->alone ? &alone : NULL, object ? SN_ARTEFACT_OBJECT : SN_ARTEFACT_SHARED, to);
  }
  const char *text = sn_compile_report_text(r, what);
  if (!text) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "the target has no '%s'", what);
  return sn_file_write(d, to, text, strlen(text));
}

/* Of the module behind the pipeline, which the compiler keeps to itself. */
static sn_status print_memory(sn_diag *d, const sn_compile_options *c, const sn_module *m) {
  sn_arena *a;
  sn_target target;
  sn_module *copy = NULL;
  sn_pass_options o = c->passes;
  SN_TRY(sn_arena_create(&a));
  sn_status s = sn_target_find(d, a, c->target ? c->target : "native", &target);
  if (s == SN_OK) s = sn_module_clone(m, &copy);
  const char *pipeline = strcmp(c->engine, "op-by-op") == 0 ? c->engine : target.kind == SN_TARGET_CUDA ? "cuda" : "cpu";
  o.target = &target;
  o.remarks = NULL;
  if (s == SN_OK) s = sn_pipeline_run(d, copy, pipeline, &o, NULL);
  if (s == SN_OK) s = sn_print_memory(d, copy, pipeline, m, &o);
  sn_module_destroy(copy);
  sn_arena_destroy(a);
  return s;
}

/* What was asked about the compile itself. */
static bool wants_report(const sn_options *o) { return sn_opt_flag(o, "memory") || sn_opt_flag(o, "time-passes") || sn_opt_given(o, "remarks") || sn_opt_given(o, "why-not-fused"); }

static sn_status report(sn_diag *d, const sn_options *o, const sn_pass_setup *setup, const sn_compile_report *r) {
  SN_TRY(sn_pass_setup_report(d, o, setup, &r->passes));
  if (sn_opt_flag(o, "time-passes")) sn_compile_print_times(r, sn_opt_flag(o, "json"));
  return SN_OK;
}

static sn_status compile(sn_diag *d, const sn_options *o, const sn_pass_setup *setup, const sn_module *m, sn_pool *pool) {
  static const char *const without_texts[] = {"program", "obj", "so", "cubin", NULL};
  static const char *const cuda[] = {"cuda", "ptx", "cubin", "resources", "model", NULL};
  sn_compile_options c;
  sn_compile_report r;
  sn_program *p = NULL;
  sn_compile_options_init(&c);
  c.passes = setup->options;
  c.opt_level = setup->options.opt_level;
  c.pool = pool;
  c.engine = sn_opt_text(o, "engine");
  c.target = sn_opt_given(o, "target") ? sn_opt_text(o, "target") : is_one_of(sn_opt_text(o, "emit"), cuda) ? "sm_90a" : NULL;
  c.precision = sn_opt_text(o, "precision");
  c.library = sn_opt_text(o, "library");
  c.keep_texts = !is_one_of(sn_opt_text(o, "emit"), without_texts);
  c.standalone = sn_opt_flag(o, "standalone");
  bool object = strcmp(sn_opt_text(o, "emit"), "obj") == 0 || strcmp(sn_opt_text(o, "emit"), "so") == 0;
  if (c.standalone && !object) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "--standalone goes with --emit=obj or --emit=so");
  sn_status s = sn_compile(d, m, &c, &p, &r);
  if (s == SN_OK && sn_opt_flag(o, "cache-why")) fputs(r.cache ? r.cache : "no cache: there is no code\n", stderr);
  if (s == SN_OK) s = report(d, o, setup, &r);
  if (s == SN_OK && sn_opt_flag(o, "memory")) s = print_memory(d, &c, m);
  if (s == SN_OK && (!wants_report(o) || sn_opt_given(o, "output") || sn_opt_given(o, "emit"))) s = write(d, o, p, &r);
  sn_compile_report_finish(&r);
  sn_program_release(p);
  return s;
}

static sn_status run(sn_diag *d, const sn_options *o, sn_source *source, sn_pass_setup *setup, sn_pool **pool) {
  sn_module *m;
  SN_TRY(sn_pass_setup_init(d, o, setup));
  SN_TRY(sn_source_read_one(d, sn_opt_operand(o, 0), true, source, &m));
  sn_status s = sn_pool_from_options(d, o, pool);
  if (s == SN_OK) s = compile(d, o, setup, m, *pool);
  sn_module_destroy(m);
  return s;
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  sn_source source;
  sn_pass_setup setup;
  sn_pool *pool = NULL;
  sn_diag *d = NULL;
  memset(&source, 0, sizeof source);
  memset(&setup, 0, sizeof setup);
  sn_status s = sn_diag_create(&d);
  if (s == SN_OK) s = run(d, o, &source, &setup, &pool);
  code = sn_tool_report(&tool, d, s);
  sn_pool_destroy(pool);
  sn_pass_setup_finish(&setup);
  sn_diag_destroy(d);
  sn_source_finish(&source);
  sn_options_destroy(o);
  return code;
}
