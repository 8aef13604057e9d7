/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs StableHLO's public test data through the reader, the mapping and an engine.
 *
 *   conformance DIR EXPECTED interpreter|op-by-op|fused|op-by-op-kernels|fused-kernels [SET[/PART-OF-NAME]]…
 *
 * DIR holds a folder a set. A case is a file; it may hold several programs, divided by lines `// -----`. EXPECTED lists cases that are known to fail, a
 * line each: `SET/FILE: reason`, or `kernels/SET/FILE: reason` for compiled engines whose kernels get the constants as arguments (the modes -kernels); a listed
 * case that passes is an error too. Prints the failures and a table; exit 77: there is no such folder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "mlir.h"
#include "sinter/build.h"
#include "sinter/compiler.h"
#include "sinter/stablehlo.h"
#include "values.h"

typedef struct expectation {
  char *name, *reason;
  bool seen;
} expectation;

typedef struct run {
  const char *dir;
  char *list_text;
  expectation *expected;
  size_t n_expected;
  const sn_engine *engine; /* NULL: the interpreter, as StableHLO's own one sums */
  bool lifted;             /* constants become arguments */
  sn_pool *pool;
  char **filters;
  int n_filters;
  bool verbose;
} run;

typedef struct tally { int passed, failed, expected, total; } tally;

/* ---- programs ---- */

/* `// // -----` as well: upstream cuts at the mark wherever it stands. */
static bool is_separator(const char *line) { return strncmp(strncmp(line, "// //", 5) == 0 ? line + 3 : line, "// -----", 8) == 0; }

/* The length of the program at `at`; *next: the one behind it, or NULL. */
static size_t part_length(const char *at, const char **next) {
  const char *line = at;
  *next = NULL;
  while (*line != '\0') {
    const char *end = strchr(line, '\n');
    if (is_separator(line)) {
      *next = end != NULL ? end + 1 : line + strlen(line);
      return (size_t)(line - at);
    }
    line = end != NULL ? end + 1 : line + strlen(line);
  }
  return (size_t)(line - at);
}

static bool blank(const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (strchr(" \n\r\t", p[i]) == NULL) return false;
  return true;
}

/* ---- running ---- */

/* Inputs and expected values of these programs are constants: a compiler computes most of them beforehand, with the interpreter. As arguments they reach
 * the kernels. */
static sn_status lift_constants(sn_diag *d, sn_module *m, sn_array ***args) {
  sn_pass_options o;
  sn_builder b;
  uint32_t n = m->entry->n_params, cap = n;
  sn_pass_options_init(&o);
  SN_TRY(values_make(m, args));
  SN_TRY(sn_passes_run(d, m, "inline", &o, NULL));
  SN_FOR_INSTRS(i, m->entry) cap++;
  sn_array **all = sn_realloc(*args, (cap + 1) * sizeof *all);
  if (all == NULL) return SN_ERR_MEMORY;
  *args = all;
  sn_builder_init(&b, d, m->entry);
  SN_FOR_INSTRS(i, m->entry) {
    if (i->op != SN_OP_CONSTANT || !sn_shape_is_array(i->shape)) continue;
    sn_instr *p = sn_build_parameter(&b, n, i->shape, NULL);
    SN_TRY(b.status);
    all[n++] = sn_array_retain((sn_array *)(uintptr_t)sn_instr_literal(i));
    sn_instr_move_before(p, i);
    sn_instr_replace_uses(i, p);
  }
  SN_TRY(sn_module_sort(d, m));
  return sn_module_verify(d, m, 0);
}

static sn_status call_engine(const run *r, sn_diag *d, const sn_module *m, sn_array **args, sn_array **out) {
  sn_engine_setup setup = {.pool = r->pool, .stepwise = !r->lifted};
  sn_runnable p = {NULL, NULL};
  *out = NULL;
  SN_TRY(sn_runnable_init(d, r->engine, &setup, m, &p));
  sn_status st = sn_runnable_call(d, &p, (int)m->entry->n_params, args, out);
  sn_runnable_finish(&p);
  return st;
}

/* Programs without checks: what an engine makes of them must be what the interpreter does, but for sums of f32 in another order. */
static sn_status agree(const run *r, sn_diag *d, const char *file, const sn_module *m, sn_array **args, const sn_array *got) {
  sn_array *want = NULL;
  sn_status st = values_interpret(d, m, args, false, &want);
  if (st == SN_OK && !values_close(want, got, 1e-5, 1e-6)) st = sn_error(d, (sn_loc){file, 0, 0}, SN_ERR_MISMATCH, "%s and the interpreter do not agree", r->engine->name);
  sn_array_release(want);
  return st;
}

static sn_status run_on_engine(const run *r, sn_diag *d, const char *file, sn_module *m, bool unchecked) {
  sn_array **args = NULL, *out = NULL;
  sn_status st = r->lifted ? lift_constants(d, m, &args) : values_make(m, &args);
  if (st == SN_OK) st = call_engine(r, d, m, args, &out);
  if (st == SN_OK && unchecked) st = agree(r, d, file, m, args, out);
  sn_array_release(out);
  values_release(m, args);
  return st;
}

static sn_status interpret(sn_diag *d, const sn_module *m) {
  sn_array *out = NULL;
  sn_status st = values_interpret(d, m, NULL, true, &out);
  sn_array_release(out);
  return st;
}

static sn_status run_program(const run *r, sn_diag *d, const char *file, const char *text, size_t n, int64_t every_dimension) {
  sn_stablehlo_options o;
  sn_stablehlo_options_init(&o);
  o.every_dimension = every_dimension;
  sn_module *m = NULL;
  SN_TRY(sn_stablehlo_parse(d, file, text, n, &o, &m));
  sn_status st = r->engine != NULL ? run_on_engine(r, d, file, m, every_dimension != 0) : interpret(d, m);
  sn_module_destroy(m);
  return st;
}

/* ---- sets: does one program pass? ---- */

typedef sn_status (*judge)(const run *r, sn_diag *d, const char *file, const char *text, size_t n);

static sn_status judge_run(const run *r, sn_diag *d, const char *file, const char *text, size_t n) { return run_program(r, d, file, text, n, 0); }

/* Specialised to two sizes. */
static sn_status judge_dynamic(const run *r, sn_diag *d, const char *file, const char *text, size_t n) {
  SN_TRY(run_program(r, d, file, text, n, 3));
  return run_program(r, d, file, text, n, 5);
}

static bool has(const char *text, size_t n, const char *word) {
  size_t w = strlen(word);
  for (size_t i = 0; i + w <= n; i++)
    if (memcmp(text + i, word, w) == 0) return true;
  return false;
}

/* Each function as an entry of its own. */
static sn_status map_functions(sn_diag *d, const char *file, const char *text, size_t n, const sn_mlir *in) {
  sn_status st = SN_OK;
  for (const sn_mlir_op *op = in->top.first; op != NULL; op = op->next) {
    sn_module *m = NULL;
    sn_stablehlo_options o;
    sn_stablehlo_options_init(&o);
    o.every_dimension = 4;
    if (strcmp(op->name, "func.func") != 0 || op->regions[0].n_blocks == 0) continue;
    o.entry = sn_mlir_string(op, "sym_name");
    sn_status one = sn_stablehlo_parse(d, file, text, n, &o, &m);
    sn_module_destroy(m);
    if (one != SN_OK) st = one;
  }
  return st;
}

/* Programs with `expected-error` must be refused, by the reader or the mapping; the others must read. */
static sn_status judge_text(const run *r, sn_diag *d, const char *file, const char *text, size_t n) {
  sn_mlir *in = NULL;
  sn_status st = sn_mlir_read_text(d, file, text, n, &in);
  bool refuse = has(text, n, "expected-error");
  (void)r;
  if (st == SN_OK && refuse) st = map_functions(d, file, text, n, in);
  sn_mlir_destroy(in);
  if (refuse) {
    if (st != SN_OK) return SN_OK;
    return sn_error(d, (sn_loc){file, 0, 0}, SN_ERR_MISMATCH, "expected an error, found none");
  }
  return st;
}

typedef struct set { const char *name; judge fn; } set;
static const set sets[] = {{"static", judge_run}, {"quantized", judge_run}, {"interpret", judge_run}, {"math", judge_run}, {"dynamic", judge_dynamic}, {"text", judge_text}};

/* ---- cases ---- */

static expectation *find_expectation(run *r, const char *name) {
  for (size_t i = 0; i < r->n_expected; i++) {
    const char *listed = r->expected[i].name;
    if (r->lifted && strncmp(listed, "kernels/", 8) == 0) listed += 8;
    if (strcmp(listed, name) == 0) return &r->expected[i];
  }
  return NULL;
}

static int line_of(const char *text, const char *at) {
  int n = 1;
  for (const char *c = text; c < at; c++) n += *c == '\n';
  return n;
}

static sn_status run_parts(const run *r, const set *s, const char *path, sn_diag *d) {
  char *text = NULL;
  size_t n = 0;
  SN_TRY(sn_file_read(d, path, &text, &n));
  sn_status st = SN_OK;
  const char *next = text;
  while (next != NULL && st == SN_OK) {
    const char *at = next;
    size_t length = part_length(at, &next);
    if (blank(at, length)) continue;
    sn_diag_clear(d);
    st = s->fn(r, d, path, at, length);
    if (st != SN_OK) printf("(the program at line %d of %s)\n", line_of(text, at), path);
  }
  if (st != SN_OK) sn_diag_set_source(d, path, "", 0);
  sn_free(text);
  return st;
}

static void run_case(run *r, const set *s, const char *file, tally *t) {
  char name[1024], path[2048];
  sn_diag *d = NULL;
  snprintf(name, sizeof name, "%s/%s", s->name, file);
  snprintf(path, sizeof path, "%s/%s", r->dir, name);
  if (sn_diag_create(&d) != SN_OK) exit(1);
  sn_status st = run_parts(r, s, path, d);
  expectation *e = find_expectation(r, name);
  t->total++;
  if (e != NULL) e->seen = true;
  if (st == SN_OK && e == NULL) {
    t->passed++;
  } else if (st != SN_OK && e != NULL) {
    t->expected++;
  } else {
    t->failed++;
    printf("FAILED %s%s\n", name, st == SN_OK ? ": passes, but is listed as failing" : "");
    if (st != SN_OK) sn_diag_print(d, stdout, false);
  }
  sn_diag_destroy(d);
}

static bool wanted(const run *r, const set *s, const char *file) {
  char name[1024];
  if (r->n_filters == 0) return true;
  snprintf(name, sizeof name, "%s/%s", s->name, file == NULL ? "" : file);
  for (int i = 0; i < r->n_filters; i++) {
    size_t n = strlen(s->name);
    if (file == NULL && strncmp(r->filters[i], s->name, n) == 0 && (r->filters[i][n] == '/' || r->filters[i][n] == '\0')) return true;
    if (file != NULL && strncmp(name, r->filters[i], strlen(r->filters[i])) == 0) return true;
  }
  return false;
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

static void run_folder(run *r, const set *s, const char *folder, tally *t) {
  char path[1024];
  const char *const *names = NULL;
  size_t n = 0;
  sn_arena *a = NULL;
  if (sn_arena_create(&a) != SN_OK) exit(1);
  snprintf(path, sizeof path, "%s/%s/%s", r->dir, s->name, folder);
  if (sn_dir_list(NULL, a, path, &names, &n) != SN_OK) n = 0;
  for (size_t i = 0; i < n; i++) {
    char file[512];
    snprintf(file, sizeof file, "%s%s", folder, names[i]);
    if (ends_with(file, ".mlir") && wanted(r, s, file)) run_case(r, s, file, t);
  }
  sn_arena_destroy(a);
}

/* ---- the list of known failures ---- */

static bool read_expected(run *r, const char *path) {
  size_t n = 0;
  if (sn_file_read(NULL, path, &r->list_text, &n) != SN_OK) return false;
  for (char *line = strtok(r->list_text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    char *colon = strstr(line, ": ");
    if (line[0] == '#' || colon == NULL) continue;
    *colon = '\0';
    expectation *v = sn_realloc(r->expected, (r->n_expected + 1) * sizeof *v);
    if (v == NULL) return false;
    r->expected = v;
    v[r->n_expected++] = (expectation){line, colon + 2, false};
  }
  return true;
}

typedef struct mode { const char *name, *engine; bool lifted; } mode;
static const mode *find_mode(const char *name) {
  static const mode modes[] = {{"interpreter", NULL, false}, {"op-by-op", "op-by-op", false}, {"fused", "fused", false}, {"op-by-op-kernels", "op-by-op", true}, {"fused-kernels", "fused", true}};
  for (size_t k = 0; k < sizeof modes / sizeof modes[0]; k++)
    if (strcmp(modes[k].name, name) == 0) return &modes[k];
  return NULL;
}

int main(int argc, char **argv) {
  run r = {0};
  tally all = {0, 0, 0, 0};
  const mode *how = argc < 4 ? NULL : find_mode(argv[3]);
  if (how == NULL) {
    fprintf(stderr, "usage: conformance DIR EXPECTED interpreter|op-by-op|fused|op-by-op-kernels|fused-kernels [SET[/NAME]]...\n");
    return 2;
  }
  r.dir = sn_env("SINTER_CONFORMANCE_DIR") != NULL ? sn_env("SINTER_CONFORMANCE_DIR") : argv[1];
  r.filters = argv + 4;
  r.n_filters = argc - 4;
  if (!sn_file_exists(r.dir)) {
    printf("not run: conformance: no folder %s (SINTER_CONFORMANCE_DIR)\n", r.dir);
    return 77;
  }
  r.engine = how->engine != NULL ? sn_engine_find(how->engine) : NULL;
  r.lifted = how->lifted;
  if (r.engine != NULL && !sn_compiler_available(NULL)) {
    printf("not run: conformance, %s: libsinter-llvm.so does not load (a build with LLVM has it)\n", how->name);
    return 77;
  }
  if (!read_expected(&r, argv[2])) return 2;
  if (sn_pool_create(0, &r.pool) != SN_OK) return 1;
  tally tallies[sizeof sets / sizeof sets[0]] = {{0, 0, 0, 0}};
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    if (!wanted(&r, &sets[k], NULL)) continue;
    run_folder(&r, &sets[k], "", &tallies[k]);
    if (strcmp(sets[k].name, "interpret") == 0) run_folder(&r, &sets[k], "chlo/", &tallies[k]);
  }
  printf("%-16s %7s %7s %14s %7s\n", how->name, "passed", "failed", "known failures", "total");
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    const tally *t = &tallies[k];
    printf("%-16s %7d %7d %14d %7d\n", sets[k].name, t->passed, t->failed, t->expected, t->total);
    all.failed += t->failed;
    all.total += t->total;
  }
  sn_pool_destroy(r.pool);
  sn_free(r.expected);
  sn_free(r.list_text);
  return all.failed != 0 || all.total == 0;
}
