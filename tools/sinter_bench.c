/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* sinter-bench: engines side by side on one model in one run, and peers beside them. */
#include <string.h>

#include "bench.h"
#include "engine.h"
#include "pass_options.h"

static const sn_option own[] = {
    {"model", 'm', SN_OPT_TEXT, "NAME|FILE", NULL, "vit-b16, vit-tiny, convnet, bert, gpt, mlp, linear, linear-regression, matmul, scalar, or a module's file; `small`: all small ones; several with commas", 0, 0},
    {"batch", 'b', SN_OPT_INT, "N", "0", "samples a step (products a step of matmul); 0: the model's own", 0, 1e7},
    {"engine", 0, SN_OPT_CHOICES, "all|fused|op-by-op|interpreter", "all", "what runs it, comma separated", 0, 0},
    {"threads", 0, SN_OPT_INT, "N", "0", "threads to use; 0: SINTER_THREADS, else every CPU of this process", 0, 1024},
    {"target", 0, SN_OPT_TEXT, "NAME|FILE", "native", "what to compile for: native, x86-64-v2, x86-64-v3, x86-64-v4, or a machine's description", 0, 0},
    {"data", 'd', SN_OPT_CHOICE, "none|loader", "none", "loader: every step reads a batch from the loader, and its time counts", 0, 0},
    {"steps", 's', SN_OPT_INT, "N", "51", "steps to time", 1, 1e7},
    {"warmup", 0, SN_OPT_INT, "N", "-1", "first steps that do not count; -1: 10, or a third of the steps when they are 20 or fewer", -1, 1e7},
    {"check", 0, SN_OPT_FLAG, NULL, "on", "compare the first step with the interpreter's, unless that takes long; --check: even then", 0, 0},
    {"peers", 0, SN_OPT_MAYBE, "jax,torch,torch-compile", NULL, "also run peers where they are installed; default: jax,torch", 0, 0},
    {"peers-dir", 0, SN_OPT_TEXT, "DIR", NULL, "where their scripts lie; default: tests/bench/peers of the source tree", 0, 0},
    {"machine", 0, SN_OPT_FLAG, NULL, NULL, "measure this machine and write its description, for SINTER_MACHINE", 0, 0},
    {"output", 'o', SN_OPT_TEXT, "FILE", "-", "where --machine writes", 0, 0},
    {"split", 0, SN_OPT_FLAG, NULL, "on", "treat what stands between `// -----` lines of a FILE as modules of their own", 0, 0},
    {NULL, 0, SN_OPT_FLAG, NULL, NULL, NULL, 0, 0}};

static const sn_option_group groups[] = {{"What to measure", own}, {"Passes", sn_options_passes}, {NULL, NULL}};
static const sn_tool tool = {"sinter-bench", "measures engines side by side in one run", NULL, 0, 0, groups,
                             "Programs run with their memory bound once and their state updated in place. The share of peak is of the multiply-adds measured in the same run; GFLOP/s are\n"
                             "nominal: 2 M N K of the module's products and convolutions, whatever was recomputed.\n"
                             "Example: sinter-bench --model=vit-b16 --batch=4 --engine=fused,op-by-op --peers"};

typedef struct bench {
  sn_diag *d;
  const sn_options *o;
  sn_pass_setup passes;
  bench_options options;
  bench_machine machine;
} bench;

/* ---- one model ---------------------------------------------------------------------------------------------------------------------- */

static bool engine_wanted(const char *list, const char *name) {
  for (const char *w = list; *w;) {
    size_t n = strcspn(w, ",");
    if ((n == 3 && strncmp(w, "all", 3) == 0) || (strlen(name) == n && strncmp(w, name, n) == 0)) return true;
    w += n + (w[n] == ',');
  }
  return false;
}

/* A smaller module of the same kind to compare on, where the whole is too much for the interpreter. */
static sn_status open_check(bench *b, const bench_request *q, const bench_subject *s, bench_subject *smaller, const bench_subject **check) {
  static const char *const shrinkable[] = {"vit-b16", "matmul", "bert", "gpt"};
  bench_request r = *q;
  *check = s;
  r.batch = 1;
  for (size_t i = 0; i < sizeof shrinkable / sizeof *shrinkable; i++) {
    if (strcmp(q->model, shrinkable[i]) != 0 || s->batch == 1) continue;
    SN_TRY(bench_subject_open(b->d, &r, smaller));
    *check = smaller;
  }
  return SN_OK;
}

static sn_status run_engines(bench *b, const bench_subject *s, const bench_subject *check, bench_report *r) {
  static const char *const engines[] = {"fused", "op-by-op", "interpreter"};
  const char *list = sn_opt_text(b->o, "engine");
  for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
    if (!engine_wanted(list, engines[i])) continue;
    SN_TRY(bench_run(b->d, s, check, engines[i], &b->options, &r->results[r->n_results++]));
    bench_machine_measure_fma(b->options.pool, &b->machine);
  }
  if (strcmp(s->name, "scalar") != 0 || sn_pool_threads(b->options.pool) == 1 || !engine_wanted(list, "fused")) return SN_OK;
  /* What a call costs without a pool beside it. */
  bench_options alone = b->options;
  alone.pool = NULL;
  bench_result *last = &r->results[r->n_results++];
  SN_TRY(bench_run(b->d, s, check, "fused", &alone, last));
  snprintf(last->engine, sizeof last->engine, "fused, one thread");
  return SN_OK;
}

static const char *peers_dir(const bench *b) {
  const char *given = sn_opt_text(b->o, "peers-dir");
  return given ? given : BENCH_PEERS_DIR;
}

static sn_status bench_model(bench *b, const char *model) {
  bench_request q = {model, sn_opt_int(b->o, "batch"), sn_opt_text(b->o, "layout"), sn_opt_flag(b->o, "split")};
  bench_subject s, smaller;
  const bench_subject *check = NULL;
  bench_report r;
  memset(&r, 0, sizeof r);
  memset(&smaller, 0, sizeof smaller);
  r.subject = &s;
  r.machine = &b->machine;
  r.precision = "f32";
  sn_status status = bench_subject_open(b->d, &q, &s);
  if (status == SN_OK && b->options.check) status = open_check(b, &q, &s, &smaller, &check);
  if (status == SN_OK) status = run_engines(b, &s, check, &r);
  const char *peers = sn_opt_text(b->o, "peers");
  if (status == SN_OK && peers) bench_peers_run(*peers ? peers : "jax,torch", peers_dir(b), &s, &b->options, r.peers, &r.n_peers);
  if (status == SN_OK && sn_opt_flag(b->o, "json")) bench_print_json(&r);
  else if (status == SN_OK) bench_print_table(&r, sn_wants_colour(stdout));
  bench_subject_close(&smaller);
  bench_subject_close(&s);
  return status;
}

/* ---- all of them --------------------------------------------------------------------------------------------------------------------- */

static sn_status bench_models(bench *b, const char *list) {
  char name[4096];
  if (strcmp(list, "small") == 0) list = "scalar,linear-regression,linear,mlp,matmul";
  if (sn_file_exists(list)) return bench_model(b, list); /* whose name may have commas */
  for (const char *w = list; *w;) {
    size_t n = strcspn(w, ",");
    snprintf(name, sizeof name, "%.*s", (int)n, w);
    if (n) SN_TRY(bench_model(b, name));
    w += n + (w[n] == ',');
    if (*w && !sn_opt_flag(b->o, "json")) putchar('\n');
    fflush(stdout);
  }
  return SN_OK;
}

static sn_status prepare(bench *b) {
  bench_options *to = &b->options;
  SN_TRY(sn_pass_setup_init(b->d, b->o, &b->passes));
  SN_TRY(sn_pool_from_options(b->d, b->o, &to->pool));
  to->steps = sn_opt_int(b->o, "steps");
  to->warmup = sn_opt_int(b->o, "warmup");
  to->loader = sn_opt_choice(b->o, "data") == 1;
  to->check = sn_opt_flag(b->o, "check");
  to->force_check = to->check && sn_opt_given(b->o, "check");
  sn_compile_options_init(&to->compile);
  to->compile.target = sn_opt_text(b->o, "target");
  to->compile.opt_level = (int)sn_opt_int(b->o, "opt-level");
  to->compile.passes = b->passes.options;
  to->compile.pool = to->pool;
  bench_machine_describe(to->pool, &b->machine);
  return SN_OK;
}

static sn_status run(bench *b) {
  SN_TRY(prepare(b));
  if (sn_opt_flag(b->o, "machine")) SN_TRY(bench_machine_write(b->d, b->options.pool, &b->machine, sn_opt_text(b->o, "output")));
  if (!sn_opt_given(b->o, "model")) return SN_OK;
  bench_machine_measure_fma(b->options.pool, &b->machine);
  return bench_models(b, sn_opt_text(b->o, "model"));
}

static int check_usage(const sn_options *o) {
  if (!sn_opt_given(o, "model") && !sn_opt_flag(o, "machine")) return sn_usage_error(&tool, "what to measure is missing: --model=NAME or --machine");
  if (sn_opt_int(o, "warmup") >= sn_opt_int(o, "steps")) return sn_usage_error(&tool, "--warmup=%lld leaves none of %lld steps", (long long)sn_opt_int(o, "warmup"), (long long)sn_opt_int(o, "steps"));
  return SN_EXIT_OK;
}

int main(int argc, char **argv) {
  sn_options *o = NULL;
  int code = sn_options_parse(&tool, argc, argv, &o);
  if (!o) return code;
  bench b;
  memset(&b, 0, sizeof b);
  b.o = o;
  code = check_usage(o);
  if (code == SN_EXIT_OK) {
    sn_status s = sn_diag_create(&b.d);
    if (s == SN_OK) s = run(&b);
    code = sn_tool_report(&tool, b.d, s);
    sn_pass_setup_finish(&b.passes);
    sn_pool_destroy(b.options.pool);
    sn_diag_destroy(b.d);
  }
  sn_options_destroy(o);
  return fflush(stdout) == 0 ? code : SN_EXIT_BAD;
}
