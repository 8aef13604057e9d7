/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Runs StableHLO's public test data through the reader, the mapping and the interpreter.
 *
 *   conformance DIR EXPECTED [SET[/PART-OF-NAME]]…
 *
 * DIR holds a folder a set. A case is a file; it may hold several programs, divided by lines `// -----`. EXPECTED lists cases that are known to fail, a
 * line each: `SET/FILE: reason`; a listed case that passes is an error too. Prints the failures and a table; exit 77: there is no such folder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mlir.h"
#include "sinter/stablehlo.h"

typedef struct expectation {
  char *name, *reason;
  bool seen;
} expectation;

typedef struct run {
  const char *dir;
  char *list_text;
  expectation *expected;
  size_t n_expected;
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

/* Arguments of a program that states none: small numbers that differ from element to element. */
static sn_status make_args(const sn_module *m, sn_array **args) {
  for (uint32_t k = 0; k < m->entry->n_params; k++) {
    const sn_shape *s = m->entry->params[k]->shape;
    if (!sn_shape_is_array(s)) return SN_ERR_UNSUPPORTED;
    SN_TRY(sn_array_create_zero(s, &args[k]));
    char *data = sn_array_data(args[k]);
    for (int64_t i = 0; i < sn_shape_elements(s); i++) {
      void *to = data + (size_t)i * sn_type_bytes(s->type);
      if (sn_type_is_complex(s->type)) sn_store_c128(s->type, to, (double)(i % 7) + 1, 0.5);
      else if (sn_type_is_float(s->type)) sn_store_f64(s->type, to, (double)(i % 7) * 0.25 + 0.5);
      else sn_store_i64(s->type, to, i % 3);
    }
  }
  return SN_OK;
}

static sn_status evaluate(sn_diag *d, const sn_module *m) {
  uint32_t n = m->entry->n_params;
  sn_array **args = sn_alloc_zero((size_t)n + 1, sizeof *args), *out = NULL;
  if (args == NULL) return SN_ERR_MEMORY;
  sn_eval_options o;
  sn_eval_options_init(&o);
  o.customs = sn_stablehlo_customs();
  o.replicas = o.partitions = 1;
  o.stepwise = true; /* as the values were recorded */
  sn_status st = make_args(m, args);
  if (st == SN_OK) st = sn_eval(d, m, &o, (int)n, args, &out);
  sn_array_release(out);
  for (uint32_t k = 0; k < n; k++) sn_array_release(args[k]);
  sn_free(args);
  return st;
}

static sn_status run_program(sn_diag *d, const char *file, const char *text, size_t n, int64_t every_dimension) {
  sn_stablehlo_options o;
  sn_stablehlo_options_init(&o);
  o.every_dimension = every_dimension;
  sn_module *m = NULL;
  SN_TRY(sn_stablehlo_parse(d, file, text, n, &o, &m));
  sn_status st = evaluate(d, m);
  sn_module_destroy(m);
  return st;
}

/* ---- sets: does one program pass? ---- */

typedef sn_status (*judge)(sn_diag *d, const char *file, const char *text, size_t n);

static sn_status judge_run(sn_diag *d, const char *file, const char *text, size_t n) { return run_program(d, file, text, n, 0); }

/* Specialised to two sizes. */
static sn_status judge_dynamic(sn_diag *d, const char *file, const char *text, size_t n) {
  SN_TRY(run_program(d, file, text, n, 3));
  return run_program(d, file, text, n, 5);
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
static sn_status judge_text(sn_diag *d, const char *file, const char *text, size_t n) {
  sn_mlir *in = NULL;
  sn_status st = sn_mlir_read_text(d, file, text, n, &in);
  bool refuse = has(text, n, "expected-error");
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
  for (size_t i = 0; i < r->n_expected; i++)
    if (strcmp(r->expected[i].name, name) == 0) return &r->expected[i];
  return NULL;
}

static int line_of(const char *text, const char *at) {
  int n = 1;
  for (const char *c = text; c < at; c++) n += *c == '\n';
  return n;
}

static sn_status run_parts(const set *s, const char *path, sn_diag *d) {
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
    st = s->fn(d, path, at, length);
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
  sn_status st = run_parts(s, path, d);
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

int main(int argc, char **argv) {
  run r = {0};
  tally all = {0, 0, 0, 0};
  if (argc < 3) {
    fprintf(stderr, "usage: conformance DIR EXPECTED [SET[/NAME]]...\n");
    return 2;
  }
  r.dir = sn_env("SINTER_CONFORMANCE_DIR") != NULL ? sn_env("SINTER_CONFORMANCE_DIR") : argv[1];
  r.filters = argv + 3;
  r.n_filters = argc - 3;
  if (!sn_file_exists(r.dir)) {
    printf("not run: conformance: no folder %s (SINTER_CONFORMANCE_DIR)\n", r.dir);
    return 77;
  }
  if (!read_expected(&r, argv[2])) return 2;
  tally tallies[sizeof sets / sizeof sets[0]] = {{0, 0, 0, 0}};
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    if (!wanted(&r, &sets[k], NULL)) continue;
    run_folder(&r, &sets[k], "", &tallies[k]);
    if (strcmp(sets[k].name, "interpret") == 0) run_folder(&r, &sets[k], "chlo/", &tallies[k]);
  }
  printf("%-12s %7s %7s %14s %7s\n", "set", "passed", "failed", "known failures", "total");
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    const tally *t = &tallies[k];
    printf("%-12s %7d %7d %14d %7d\n", sets[k].name, t->passed, t->failed, t->expected, t->total);
    all.failed += t->failed;
    all.total += t->total;
  }
  sn_free(r.expected);
  sn_free(r.list_text);
  return all.failed != 0 || all.total == 0;
}
