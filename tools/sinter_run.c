/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-run: runs a module on arguments from files, prints, writes or compares what comes out. */
#include <math.h>
#include <regex.h>
#include <string.h>

#include "arrays.h"
#include "engine.h"
#include "pass_options.h"
#include "run_program.h"
#include "sinter/stablehlo.h"
#include "sinter/text.h"
#include "source.h"

static const sn_option own[] = {
    {"output", 'o', SN_OPT_TEXT, "FILE", NULL, "write the results as out0, out1, … (.safetensors, .npz, .npy); without it they are printed", 0, 0},
    {"input", 0, SN_OPT_LIST, "FILE|LITERAL|random:SEED", NULL, "arguments: .safetensors or .npz with arg0, arg1, …; .npy; 'f32[2] {1, 2}'; random:SEED", 0, 0},
    {"entry", 0, SN_OPT_TEXT, "NAME", NULL, "run this computation instead of the entry", 0, 0},
    {"compare", 0, SN_OPT_TEXT, "interpreter|FILE", NULL, "compare the results with the interpreter's on the module as read, or with out0, out1, … of a file", 0, 0},
    {"rtol", 0, SN_OPT_NUMBER, "X", "0", "relative tolerance of --compare", 0, 0},
    {"atol", 0, SN_OPT_NUMBER, "X", "0", "absolute tolerance of --compare", 0, 0},
    {"tolerances", 0, SN_OPT_TEXT, "INDEX:NAME", NULL, "tolerances and shardings of program NAME in a golden index", 0, 0},
    {"repeat", 0, SN_OPT_INT, "N", "1", "run N times and print the best and the mean time", 1, 0},
    {"replicas", 0, SN_OPT_INT, "N", "0", "replicas to run; 0: as the module says", 0, 4096},
    {"partitions", 0, SN_OPT_INT, "N", "0", "partitions to run; 0: as the module, or the golden index, says", 0, 4096},
    {"trace", 0, SN_OPT_MAYBE, "REGEX", NULL, "print a summary of each instruction's result; only names that match", 0, 0},
    {"probe", 0, SN_OPT_FLAG, NULL, NULL, "show what the model's sn_probe calls look at, as sn_print does", 0, 0},
    {"stop-at-nan", 0, SN_OPT_FLAG, NULL, NULL, "stop at the first instruction that makes a NaN out of none", 0, 0},
    {"passes", 0, SN_OPT_TEXT, "A,B,…", NULL, "run these passes first", 0, 0},
    {"pipeline", 0, SN_OPT_CHOICE, "cpu|cuda|op-by-op", NULL, "run a pipeline first", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "treat what stands between `// -----` lines as modules of their own", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"Running", own}, {"Engine", sn_options_engine}, {"Passes", sn_options_passes}, {NULL, NULL}};
static const sn_tool tool = {"sinter-run", "runs a module and compares its results", "FILE", 1, 1, groups,
                             "FILE is a module, or a program of sinter-compile. One file may hold arguments and results: sinter-run F.hlo --input=F.safetensors --compare=F.safetensors. NaN equals NaN, +0 equals -0."};

typedef struct run {
  sn_diag *d;
  const sn_options *o;
  sn_source source;
  sn_module *original, *m; /* as read; behind the passes */
  sn_golden golden;
  sn_pass_setup passes;
  sn_pool *pool;
  const sn_engine *engine;
  sn_runnable program; /* of a compiling engine, or the file */
  regex_t trace;
  bool tracing;
  int n_processes;
  bool sharded;            /* each process gets its shard of the arguments */
  sn_array **args;         /* global, one a parameter */
  sn_array **shards;       /* process * n_params + parameter; retained */
} run;

/* ---- tracing ---- */

static void trace(void *ctx, const sn_eval_event *e) {
  run *r = ctx;
  if (regexec(&r->trace, e->instr->name, 0, NULL, 0) != 0) return;
  sn_str shape = {0};
  sn_shape_print(&shape, e->instr->shape, 0);
  fprintf(stderr, "[%d] %s = %s %s: min %.6g max %.6g mean %.6g", e->process, e->instr->name, shape.data ? shape.data : "", sn_opcode_text(e->instr->op), e->min, e->max,
          e->mean);
  if (e->n_nan) fprintf(stderr, " nan %lld", (long long)e->n_nan);
  if (e->n_inf) fprintf(stderr, " inf %lld", (long long)e->n_inf);
  fputc('\n', stderr);
  sn_str_finish(&shape);
}

static sn_status choose_trace(run *r) {
  if (!sn_opt_given(r->o, "trace")) return SN_OK;
  const char *pattern = sn_opt_text(r->o, "trace");
  if (regcomp(&r->trace, pattern && *pattern ? pattern : ".", REG_EXTENDED | REG_NOSUB) != 0) {
    return sn_error(r->d, SN_NOWHERE, SN_ERR_USAGE, "--trace: '%s' is no regular expression", pattern);
  }
  r->tracing = true;
  return SN_OK;
}

/* ---- the module ---- */

static sn_status choose_entry(run *r) {
  const char *name = sn_opt_text(r->o, "entry");
  if (!name) return SN_OK;
  sn_computation *c = sn_module_find(r->original, name);
  if (!c) return sn_error(r->d, SN_NOWHERE, SN_ERR_NAME, "no computation is called '%s'", name);
  sn_module_set_entry(r->original, c);
  return SN_OK;
}

static sn_status apply_passes(run *r) {
  const char *passes = sn_opt_text(r->o, "passes"), *pipeline = sn_opt_text(r->o, "pipeline");
  sn_pass_report report;
  SN_TRY(sn_module_clone(r->original, &r->m));
  SN_TRY(sn_pass_setup_init(r->d, r->o, &r->passes));
  if (!passes && !pipeline) return SN_OK;
  if (passes) SN_TRY(sn_passes_run(r->d, r->m, passes, &r->passes.options, &report));
  if (pipeline) SN_TRY(sn_pipeline_run(r->d, r->m, pipeline, &r->passes.options, &report));
  SN_TRY(sn_module_verify(r->d, r->m, 0));
  return sn_pass_setup_report(r->d, r->o, &r->passes, &report);
}

/* ---- processes and shards ---- */

/* A module written for one device has the shards' shapes; one that is still to be partitioned has the global ones and runs as one process. */
static bool wants_shards(const run *r) {
  for (int k = 0; k < r->golden.n_args && (uint32_t)k < r->m->entry->n_params; k++) {
    if (!sn_shape_equal(r->m->entry->params[k]->shape, sn_array_shape(r->args[k]), SN_EQ_IGNORE_TYPE | SN_EQ_IGNORE_DYNAMIC)) return true;
  }
  return false;
}

static sn_status make_shards(run *r, int partitions) {
  uint32_t n = r->m->entry->n_params;
  r->shards = sn_alloc_zero((size_t)r->n_processes * n + 1, sizeof *r->shards);
  if (!r->shards) return sn_out_of_memory(r->d, sizeof *r->shards);
  for (int p = 0; p < r->n_processes; p++) {
    for (uint32_t k = 0; k < n; k++) {
      sn_array **to = &r->shards[(size_t)p * n + k];
      const sn_expectation *e = r->sharded && (int)k < r->golden.n_args ? &r->golden.args[k] : NULL;
      if (e && e->part_of) SN_TRY(sn_shard_take(r->d, r->args[k], e, p % partitions, to));
      else *to = sn_array_retain(r->args[k]);
    }
  }
  return SN_OK;
}

static void eval_options(const run *r, sn_eval_options *e) {
  sn_eval_options_init(e);
  e->pool = r->pool;
  e->stop_at_nan = sn_opt_flag(r->o, "stop-at-nan");
  e->probe = sn_opt_flag(r->o, "probe");
  e->seed = (uint64_t)sn_opt_int(r->o, "seed");
  e->customs = sn_stablehlo_customs();
  e->stepwise = sn_stablehlo_has_checks(r->original);
  if (r->tracing) {
    e->trace = trace;
    e->trace_ctx = (void *)(uintptr_t)r;
  }
}

/* ---- running ---- */

static sn_status call_interpreter(run *r, const sn_module *m, int replicas, int partitions, sn_array **results) {
  sn_eval_options e;
  eval_options(r, &e);
  e.replicas = replicas;
  e.partitions = partitions;
  return sn_eval_replicated(r->d, m, &e, (int)m->entry->n_params, r->shards, results);
}

/* Made at the first call, so that repeats time the runs alone. */
static sn_status make_program(run *r) {
  sn_engine_setup setup = {.pool = r->pool, .stop_at_nan = sn_opt_flag(r->o, "stop-at-nan"), .seed = (uint64_t)sn_opt_int(r->o, "seed"), .probe = sn_opt_flag(r->o, "probe"), .stepwise = sn_stablehlo_has_checks(r->m)};
  sn_engine_setup_from_options(r->o, &setup);
  sn_pass_options passes = r->passes.options;
  bool asked = sn_opt_text(r->o, "passes") || sn_opt_text(r->o, "pipeline"); /* then they ran already, and were limited there */
  if (asked) passes.limit = passes.stop_after = NULL;
  setup.passes = &passes;
  if (r->n_processes != 1) return sn_error(r->d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "engine %s runs one process; --engine=interpreter runs several", r->engine->name);
  SN_TRY(sn_runnable_init(r->d, r->engine, &setup, r->m, &r->program));
  sn_pass_report none = {0};
  return asked ? SN_OK : sn_pass_setup_report(r->d, r->o, &r->passes, &none);
}

/* Nobody asked for an engine: what cannot be compiled, runs in several processes, or is to be watched instruction by instruction goes to the interpreter. */
static sn_status choose_engine(run *r) {
  bool free_choice = !sn_opt_given(r->o, "engine") && !sn_env("SINTER_ENGINE") && strcmp(sn_opt_text(r->o, "device"), "cpu") == 0;
  if (r->program.engine || strcmp(r->engine->name, "interpreter") == 0) return SN_OK;
  if (free_choice && (r->n_processes != 1 || r->tracing || sn_opt_flag(r->o, "stop-at-nan"))) {
    r->engine = sn_engine_find("interpreter");
    return SN_OK;
  }
  sn_status s = make_program(r);
  if (s != SN_ERR_UNSUPPORTED || !free_choice) return s;
  size_t last = sn_diag_stored(r->d);
  fprintf(stderr, "note: the interpreter runs the program: %s\n", last ? sn_diag_get(r->d, last - 1)->message : "it cannot be compiled yet");
  sn_diag_clear(r->d);
  r->engine = sn_engine_find("interpreter");
  return SN_OK;
}

static sn_status call_once(run *r, int replicas, int partitions, sn_array **results) {
  if (!r->program.engine && strcmp(r->engine->name, "interpreter") == 0) return call_interpreter(r, r->m, replicas, partitions, results);
  return sn_runnable_call(r->d, &r->program, (int)r->m->entry->n_params, r->shards, results);
}

static sn_status call_repeatedly(run *r, int replicas, int partitions, sn_array **results) {
  int64_t n = sn_opt_int(r->o, "repeat");
  double best = INFINITY, sum = 0;
  for (int64_t k = 0; k < n; k++) {
    for (int p = 0; p < r->n_processes; p++) {
      sn_array_release(results[p]);
      results[p] = NULL;
    }
    double start = sn_time();
    SN_TRY(call_once(r, replicas, partitions, results));
    double t = sn_time() - start;
    best = t < best ? t : best;
    sum += t;
  }
  if (n > 1) fprintf(stderr, "%lld runs: best %.6f s, mean %.6f s\n", (long long)n, best, sum / (double)n);
  return SN_OK;
}

/* ---- what came out ---- */

/* Results in global shape, one a leaf of the root; *n of them. */
static sn_status collect(const run *r, sn_array *const *results, sn_array ***out, int *n) {
  bool tuple = sn_shape_is_tuple(sn_array_shape(results[0]));
  *n = tuple ? sn_array_n_elements(results[0]) : 1;
  *out = sn_alloc_zero((size_t)*n + 1, sizeof **out);
  sn_array **parts = sn_alloc_zero((size_t)r->n_processes + 1, sizeof *parts);
  sn_status s = *out && parts ? SN_OK : sn_out_of_memory(r->d, sizeof **out);
  for (int k = 0; k < *n && s == SN_OK; k++) {
    for (int p = 0; p < r->n_processes; p++) parts[p] = tuple ? sn_array_element(results[p], k) : results[p];
    const sn_expectation *e = r->sharded && k < r->golden.n_outs ? &r->golden.outs[k] : NULL;
    if (e && e->part_of) s = sn_shards_join(r->d, r->n_processes, parts, e, &(*out)[k]);
    else (*out)[k] = sn_array_retain(parts[0]);
  }
  sn_free(parts);
  return s;
}

enum { PRINT_ELEMENTS = 1000 };

static void print_results(int n, sn_array *const *v) {
  for (int k = 0; k < n; k++) {
    sn_str text = {0};
    const sn_shape *s = sn_array_shape(v[k]);
    sn_str_printf(&text, "out%d: ", k);
    sn_shape_print(&text, s, 0);
    sn_str_char(&text, ' ');
    if (sn_shape_is_array(s) && sn_shape_elements(s) > PRINT_ELEMENTS) sn_str_printf(&text, "{...} (more than %d elements: -o FILE writes them)", PRINT_ELEMENTS);
    else if (sn_shape_is_array(s)) sn_hlo_print_literal(&text, v[k]);
    if (!text.failed) puts(text.data);
    sn_str_finish(&text);
  }
}

static sn_status to_bundle(int n, sn_array *const *v, sn_bundle **out) {
  SN_TRY(sn_bundle_create(out));
  for (int k = 0; k < n; k++) {
    char name[32];
    snprintf(name, sizeof name, "out%d", k);
    if (sn_shape_is_array(sn_array_shape(v[k]))) SN_TRY(sn_bundle_set(*out, name, v[k]));
  }
  return SN_OK;
}

static sn_status compare_with_interpreter(run *r, int n, sn_array *const *got, int replicas, int partitions) {
  sn_array **results = sn_alloc_zero((size_t)r->n_processes + 1, sizeof *results), **want = NULL;
  sn_bundle *b = NULL;
  int n_want = 0;
  sn_status s = results ? call_interpreter(r, r->original, replicas, partitions, results) : sn_out_of_memory(r->d, sizeof *results);
  if (s == SN_OK) s = collect(r, results, &want, &n_want);
  if (s == SN_OK) s = to_bundle(n_want, want, &b);
  const sn_golden *g = sn_opt_given(r->o, "tolerances") ? &r->golden : NULL;
  if (s == SN_OK) s = sn_results_compare(r->d, n, got, b, g, sn_opt_number(r->o, "rtol"), sn_opt_number(r->o, "atol"));
  sn_bundle_destroy(b);
  sn_arrays_release((size_t)n_want, want);
  sn_arrays_release((size_t)r->n_processes, results);
  return s;
}

static sn_status deliver(run *r, int n, sn_array *const *got, int replicas, int partitions) {
  const char *file = sn_opt_text(r->o, "output"), *compare = sn_opt_text(r->o, "compare");
  sn_bundle *b = NULL;
  sn_status s = SN_OK;
  if (file) {
    s = to_bundle(n, got, &b);
    if (s == SN_OK) s = sn_files_write(r->d, file, b);
    sn_bundle_destroy(b);
  }
  if (s != SN_OK) return s;
  if (compare && strcmp(compare, "interpreter") == 0) return compare_with_interpreter(r, n, got, replicas, partitions);
  if (compare) {
    b = NULL;
    s = sn_files_read(r->d, compare, &b);
    const sn_golden *g = sn_opt_given(r->o, "tolerances") ? &r->golden : NULL;
    if (s == SN_OK) s = sn_results_compare(r->d, n, got, b, g, sn_opt_number(r->o, "rtol"), sn_opt_number(r->o, "atol"));
    sn_bundle_destroy(b);
  } else if (!file) {
    print_results(n, got);
  }
  return s;
}

/* What sinter-compile wrote. */
static sn_status open_program(run *r) {
  sn_program *p;
  sn_engine_setup setup = {.pool = r->pool, .seed = (uint64_t)sn_opt_int(r->o, "seed")};
  SN_TRY(sn_program_check_options(r->d, r->o));
  SN_TRY(sn_program_read_memory(r->d, r->source.name, r->source.text, r->source.n_bytes, &p));
  sn_status s = sn_program_signature(r->d, p, &r->original);
  if (s == SN_OK) s = sn_runnable_from_program(r->d, &setup, p, &r->program);
  sn_program_release(p);
  return s;
}

static sn_status prepare(run *r) {
  SN_TRY(choose_trace(r));
  SN_TRY(sn_engine_from_options(r->d, r->o, "fused", &r->engine, &r->pool));
  SN_TRY(sn_source_open(r->d, sn_opt_operand(r->o, 0), sn_opt_flag(r->o, "split"), &r->source));
  if (sn_program_is(r->source.text, r->source.n_bytes)) SN_TRY(open_program(r));
  else SN_TRY(sn_source_only(r->d, &r->source, &r->original));
  SN_TRY(choose_entry(r));
  if (sn_opt_given(r->o, "tolerances")) SN_TRY(sn_golden_read(r->d, sn_opt_text(r->o, "tolerances"), &r->golden));
  size_t n = sn_opt_count(r->o, "input");
  const char **inputs = sn_alloc_zero(n + 1, sizeof *inputs);
  if (!inputs) return sn_out_of_memory(r->d, sizeof *inputs);
  for (size_t i = 0; i < n; i++) inputs[i] = sn_opt_at(r->o, "input", i);
  sn_status s = sn_inputs_read(r->d, r->original, n, inputs, r->golden.arena ? &r->golden : NULL, &r->args);
  sn_free(inputs);
  return s == SN_OK ? apply_passes(r) : s;
}

/* Without SINTER_DEVICES there are as many as the run asks for. */
static sn_status check_devices(const run *r) {
  int64_t there = r->n_processes;
  SN_TRY(sn_env_int(r->d, "SINTER_DEVICES", &there));
  if (r->n_processes <= there) return SN_OK;
  sn_error(r->d, (sn_loc){"SINTER_DEVICES", 0, 0}, SN_ERR_USAGE, "%s runs on %d devices, there are %lld", r->m->name, r->n_processes, (long long)there);
  sn_hint(r->d, "--replicas and --partitions say on how many it runs");
  return SN_ERR_USAGE;
}

static sn_status go(run *r) {
  SN_TRY(prepare(r));
  int replicas = (int)sn_opt_int(r->o, "replicas"), partitions = (int)sn_opt_int(r->o, "partitions");
  r->sharded = r->golden.n_devices > 1 && wants_shards(r);
  if (!replicas) replicas = r->m->replica_count > 1 && !r->golden.n_devices ? (int)r->m->replica_count : 1;
  if (!partitions) partitions = r->golden.n_devices ? (r->sharded ? r->golden.n_devices : 1) : r->m->num_partitions > 1 ? (int)r->m->num_partitions : 1;
  r->n_processes = replicas * partitions;
  SN_TRY(check_devices(r));
  SN_TRY(make_shards(r, partitions));
  SN_TRY(choose_engine(r));
  sn_array **results = sn_alloc_zero((size_t)r->n_processes + 1, sizeof *results), **got = NULL;
  int n = 0;
  sn_status s = results ? call_repeatedly(r, replicas, partitions, results) : sn_out_of_memory(r->d, sizeof *results);
  if (s == SN_OK) s = collect(r, results, &got, &n);
  if (s == SN_OK) s = deliver(r, n, got, replicas, partitions);
  sn_arrays_release((size_t)n, got);
  sn_arrays_release((size_t)r->n_processes, results);
  return s;
}

static void finish(run *r) {
  if (r->shards) sn_arrays_release((size_t)r->n_processes * r->m->entry->n_params, r->shards);
  if (r->args) sn_arrays_release(r->original->entry->n_params, r->args);
  if (r->program.engine) sn_runnable_finish(&r->program);
  if (r->tracing) regfree(&r->trace);
  sn_golden_finish(&r->golden);
  sn_pass_setup_finish(&r->passes);
  sn_module_destroy(r->m);
  sn_module_destroy(r->original);
  sn_pool_destroy(r->pool);
  sn_diag_destroy(r->d);
  sn_source_finish(&r->source);
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  run r;
  memset(&r, 0, sizeof r);
  r.o = o;
  sn_status s = sn_diag_create(&r.d);
  if (s == SN_OK) s = go(&r);
  code = sn_tool_report(&tool, r.d, s);
  finish(&r);
  sn_options_destroy(o);
  return code;
}
