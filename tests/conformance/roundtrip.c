/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Every program goes out as StableHLO text and as portable bytecode and comes back as an equal module.
 *
 *   roundtrip GOLDEN-DIR CONFORMANCE-DIR LIST [SET[/PART-OF-NAME]]…
 *
 * Sets: static, quantized, interpret, math, dynamic (each `?` is 3), dynamic-trees (as they are), vhlo, jax (back-compat), stablehlo and hlo (golden files). LIST: programs that do not, a
 * line each: `SET/FILE: cause`; one that does is an error. Exit 77: there are no such folders. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "mlir.h"
#include "sinter/stablehlo.h"
#include "sinter/text.h"
#include "trees.h"

typedef struct run {
  sn_diag *d;
  const char *list;
  char **filters;
  int n_filters;
  bool trees;
  int n, passed, known, failed;
} run;

static char *load(const char *path, size_t *n) {
  sn_str to = {0};
  char part[1 << 14];
  int got = 0;
  gzFile f = gzopen(path, "rb");
  if (f == NULL) return NULL;
  while ((got = gzread(f, part, sizeof part)) > 0) sn_str_add_n(&to, part, (size_t)got);
  gzclose(f);
  *n = to.n;
  return to.failed ? NULL : to.data;
}

static sn_status parse(run *r, const char *file, const char *text, size_t n, const char *entry, sn_module **out) {
  sn_stablehlo_options o;
  sn_stablehlo_options_init(&o);
  o.every_dimension = 3;
  o.entry = entry;
  if (sn_stablehlo_is_bytecode(text, n) || sn_stablehlo_is_text(text, n)) return sn_stablehlo_parse(r->d, file, text, n, &o, out);
  return sn_hlo_parse(r->d, file, text, n, out);
}

/* What was read back; says where it differs. */
static sn_status equal(run *r, const char *form, const sn_module *want, const sn_str *text) {
  sn_module *got = NULL;
  sn_str why = {0};
  sn_str_add(&why, "");
  sn_status s = parse(r, form, text->data, text->n, NULL, &got);
  if (s == SN_OK && !sn_module_equal(want, got, 0) && !graphs_agree(want, got, &why)) s = sn_error(r->d, SN_NOWHERE, SN_ERR_MISMATCH, "%s: another module comes back: %s", form, why.data);
  sn_diag_set_source(r->d, form, "", 0);
  sn_module_destroy(got);
  sn_str_finish(&why);
  return s;
}

static sn_status module_back(run *r, sn_module *m) {
  sn_str as_text = {0}, as_bytecode = {0};
  sn_status s = sn_stablehlo_print(r->d, m, &as_text);
  if (s == SN_OK) s = equal(r, "text", m, &as_text);
  if (s == SN_OK) s = sn_stablehlo_write(r->d, m, NULL, &as_bytecode);
  if (s == SN_OK) s = equal(r, "bytecode", m, &as_bytecode);
  sn_str_finish(&as_text);
  sn_str_finish(&as_bytecode);
  return s;
}

/* Programs that are a collection: every function that has an HLO form is an entry in turn. */
static sn_status functions_back(run *r, const char *file, const char *text, size_t n) {
  sn_mlir *in = NULL;
  sn_status s = sn_stablehlo_is_bytecode(text, n) ? sn_mlir_read_bytecode(r->d, file, text, n, &in) : sn_mlir_read_text(r->d, file, text, n, &in);
  int n_functions = 0, n_hlo = 0;
  for (const sn_mlir_op *op = s == SN_OK ? in->top.first : NULL; op != NULL && s == SN_OK; op = op->next) {
    sn_module *m = NULL;
    if (strcmp(op->name, "func.func") != 0 || op->regions[0].n_blocks == 0) continue;
    n_functions++;
    if (parse(r, file, text, n, sn_mlir_string(op, "sym_name"), &m) == SN_OK) {
      n_hlo++;
      sn_diag_clear(r->d);
      s = module_back(r, m);
      if (s != SN_OK) sn_note(r->d, SN_NOWHERE, "@%s", sn_mlir_string(op, "sym_name"));
    }
    sn_module_destroy(m);
  }
  if (s == SN_OK && n_hlo < n_functions / 2) s = sn_error(r->d, SN_NOWHERE, SN_ERR_MISMATCH, "only %d of %d functions have an HLO form", n_hlo, n_functions);
  sn_mlir_destroy(in);
  return s;
}

/* Programs with `?`, which have no HLO module before their shapes are known: the tree itself. */
static sn_status tree_back(run *r, const char *file, const char *text, size_t n) {
  sn_mlir *want = NULL, *got[2] = {NULL, NULL};
  sn_str forms[2] = {{0}, {0}}, why = {0};
  sn_str_add(&why, "");
  sn_status s = sn_mlir_read_text(r->d, file, text, n, &want);
  if (s == SN_OK) sn_mlir_print(&forms[0], want);
  if (s == SN_OK) s = sn_mlir_read_text(r->d, "text", forms[0].data, forms[0].n, &got[0]);
  if (s == SN_OK) s = sn_mlir_write_bytecode(r->d, want, 1020, &forms[1]);
  if (s == SN_OK) s = sn_mlir_read_bytecode(r->d, "bytecode", forms[1].data, forms[1].n, &got[1]);
  for (int k = 0; k < 2 && s == SN_OK; k++)
    if (!trees_agree(want, got[k], &why)) s = sn_error(r->d, SN_NOWHERE, SN_ERR_MISMATCH, "%s: another tree comes back: %s", k == 0 ? "text" : "bytecode", why.data);
  for (int k = 0; k < 2; k++) {
    sn_mlir_destroy(got[k]);
    sn_str_finish(&forms[k]);
  }
  sn_diag_set_source(r->d, "text", "", 0);
  sn_mlir_destroy(want);
  sn_str_finish(&why);
  return s;
}

static sn_status there_and_back(run *r, const char *file, const char *text, size_t n) {
  sn_module *m = NULL;
  if (r->trees) return tree_back(r, file, text, n);
  if (strstr(file, "legalize_to_vhlo") != NULL) return functions_back(r, file, text, n);
  sn_status s = parse(r, file, text, n, NULL, &m);
  if (s == SN_OK) s = module_back(r, m);
  sn_module_destroy(m);
  return s;
}

static bool is_separator(const char *line) { return strncmp(strncmp(line, "// //", 5) == 0 ? line + 3 : line, "// -----", 8) == 0; }

/* The end of the program at `at`. */
static const char *part_end(const char *at, const char **next) {
  *next = NULL;
  for (const char *line = at; *line != '\0';) {
    const char *end = strchr(line, '\n');
    if (is_separator(line)) {
      *next = end != NULL ? end + 1 : line + strlen(line);
      return line;
    }
    line = end != NULL ? end + 1 : line + strlen(line);
  }
  return at + strlen(at);
}

static bool blank(const char *p, const char *end) {
  for (; p < end; p++)
    if (strchr(" \n\r\t", *p) == NULL) return false;
  return true;
}

static sn_status parts(run *r, const char *path) {
  size_t n = 0;
  char *text = load(path, &n);
  sn_status s = text != NULL ? SN_OK : SN_ERR_IO;
  if (s == SN_OK && sn_stablehlo_is_bytecode(text, n)) {
    s = there_and_back(r, path, text, n);
  } else {
    for (const char *at = text, *next = NULL; s == SN_OK && at != NULL; at = next) {
      const char *end = part_end(at, &next);
      if (!blank(at, end)) s = there_and_back(r, path, at, (size_t)(end - at));
    }
  }
  sn_diag_set_source(r->d, path, "", 0);
  sn_free(text);
  return s;
}

static bool listed(const run *r, const char *name) {
  char key[520];
  snprintf(key, sizeof key, "\n%s: ", name);
  return strstr(r->list, key) != NULL;
}

static bool wanted(const run *r, const char *name) {
  for (int k = 0; k < r->n_filters; k++)
    if (strncmp(name, r->filters[k], strlen(r->filters[k])) == 0) return true;
  return r->n_filters == 0;
}

static void one(run *r, const char *set, const char *file, const char *path) {
  char name[512];
  snprintf(name, sizeof name, "%s/%s", set, file);
  if (!wanted(r, name)) return;
  bool known = listed(r, name), ok = parts(r, path) == SN_OK;
  r->n++;
  r->passed += ok && !known;
  r->known += !ok && known;
  if (ok == known) {
    r->failed++;
    printf("FAILED %s%s\n", name, ok ? ": comes back equal, but is listed" : "");
    if (!ok) sn_diag_print(r->d, stdout, false);
  }
  sn_diag_clear(r->d);
}

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

static bool folder(run *r, const char *set, const char *path) {
  const char *const *names = NULL;
  size_t n = 0;
  sn_arena *a = NULL;
  if (!sn_file_exists(path)) return false;
  if (sn_arena_create(&a) != SN_OK || sn_dir_list(r->d, a, path, &names, &n) != SN_OK) exit(1);
  run before = *r;
  for (size_t k = 0; k < n; k++) {
    char file[1200];
    snprintf(file, sizeof file, "%s/%s", path, names[k]);
    if (strcmp(set, "jax") == 0) snprintf(file, sizeof file, "%s/%s/module.mlir", path, names[k]);
    else if (!ends_with(names[k], ".mlir") && !ends_with(names[k], ".mlir.gz") && !ends_with(names[k], ".bc") && !ends_with(names[k], ".before.hlo") && !ends_with(names[k], ".before.hlo.gz")) continue;
    one(r, set, names[k], file);
  }
  if (r->n != before.n) printf("%-12s %7d %7d %14d %7d\n", set, r->passed - before.passed, r->failed - before.failed, r->known - before.known, r->n - before.n);
  sn_arena_destroy(a);
  return true;
}

int main(int argc, char **argv) {
  static const struct { const char *set, *folder; bool golden; } sets[] = {{"static", "static", false}, {"quantized", "quantized", false}, {"interpret", "interpret", false}, {"interpret/chlo", "interpret/chlo", false},
                                                                         {"math", "math", false}, {"dynamic", "dynamic", false}, {"dynamic-trees", "dynamic", false}, {"vhlo", "vhlo", false}, {"jax", "jax_back_compat", false},
                                                                         {"stablehlo", "stablehlo", true}, {"hlo", "hlo", true}};
  run r = {0};
  size_t n = 0;
  bool any = false;
  if (argc < 4) {
    fprintf(stderr, "usage: roundtrip GOLDEN-DIR CONFORMANCE-DIR LIST [SET[/NAME]]...\n");
    return 2;
  }
  const char *golden = sn_env("SINTER_GOLDEN_DIR") != NULL ? sn_env("SINTER_GOLDEN_DIR") : argv[1], *conformance = sn_env("SINTER_CONFORMANCE_DIR") != NULL ? sn_env("SINTER_CONFORMANCE_DIR") : argv[2];
  char *list = load(argv[3], &n);
  if (list == NULL || sn_diag_create(&r.d) != SN_OK) return 1;
  r.list = list;
  r.filters = argv + 4;
  r.n_filters = argc - 4;
  printf("%-12s %7s %7s %14s %7s\n", "there, back", "equal", "failed", "known to differ", "total");
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", sets[k].golden ? golden : conformance, sets[k].folder);
    r.trees = strcmp(sets[k].set, "dynamic-trees") == 0;
    any |= folder(&r, sets[k].set, path);
  }
  if (!any) printf("not run: roundtrip: no folder %s (SINTER_CONFORMANCE_DIR)\n", conformance);
  sn_free(list);
  sn_diag_destroy(r.d);
  return !any ? 77 : r.failed != 0 || r.n == 0;
}
