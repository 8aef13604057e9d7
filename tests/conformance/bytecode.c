/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Bytecode against text: the two readers of StableHLO must give one tree and one module.
 *
 *   bytecode GOLDEN-DIR CONFORMANCE-DIR [golden|vhlo|jax|export]
 *
 * golden: stablehlo/NAME.bc beside NAME.mlir. vhlo: artifacts of old versions beside their text, and one of a version to come, which must be refused. jax,
 * export: programs that JAX exported over the years. Exit 77: there is no such folder. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "sinter/files.h"
#include "sinter/stablehlo.h"
#include "sinter/text.h"
#include "trees.h"
#include "values.h"

typedef struct run {
  sn_diag *d;
  const char *dir;
  int n, failed, left; /* left: too large, or for several devices */
} run;

typedef struct input {
  char path[1024];
  char *data;
  size_t n;
} input;

static bool inflate_file(input *i, const char *path) {
  sn_str to = {0};
  char part[1 << 14];
  int n = 0;
  gzFile f = gzopen(path, "rb");
  if (f == NULL) return false;
  while ((n = gzread(f, part, sizeof part)) > 0) sn_str_add_n(&to, part, (size_t)n);
  gzclose(f);
  i->data = to.data;
  i->n = to.n;
  return n == 0 && !to.failed && to.data != NULL;
}

/* The file, or NAME.gz. */
static bool load(run *r, input *i) {
  char path[1032];
  snprintf(path, sizeof path, "%s.gz", i->path);
  if (!sn_file_exists(i->path) && sn_file_exists(path)) return inflate_file(i, path);
  return sn_file_read(r->d, i->path, &i->data, &i->n) == SN_OK;
}

static void report(run *r, const char *path, const char *what) {
  r->failed++;
  printf("FAILED %s%s%s\n", path, what[0] != '\0' ? ": " : "", what);
  sn_diag_print(r->d, stdout, false);
}

/* ---- what may differ ---- */

/* JAX writes chlo ops in text and composites, or what they expand to, in bytecode; functions of complex numbers are expanded too. Then only results can
 * agree. */
static bool has_chlo(const input *text) { return strstr(text->data, "chlo.") != NULL || strstr(text->data, "complex<") != NULL; }

/* Products and elements, once through every computation: what the interpreter would do, roughly. */
static double work_of(const sn_module *m) {
  double sum = 0;
  SN_FOR_COMPUTATIONS(c, m) SN_FOR_INSTRS(i, c) {
    double each = 1;
    if (!sn_shape_is_array(i->shape)) continue;
    if (i->op == SN_OP_DOT) {
      sn_ints k = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS);
      for (int64_t n = 0; n < k.n; n++) each *= (double)sn_operand_shape(i, 0)->dims[k.v[n]];
    } else if (i->op == SN_OP_CONVOLUTION) {
      each = (double)sn_shape_elements(sn_operand_shape(i, 1)) / (double)sn_operand_shape(i, 1)->dims[sn_instr_conv(i)->kernel_output_feature];
    }
    sum += each * (double)sn_shape_elements(i->shape);
  }
  return sum;
}

enum { MAX_WORK = 200 * 1000 * 1000 }; /* a second or two */

/* The expansion and the op are two formulas: 2e-5 of the value is what f32 special functions of JAX's expansions differ by. args NULL: made up. */
static bool results_agree(run *r, const sn_module *a, const sn_module *b, sn_array **args) {
  sn_array *x = NULL, *y = NULL;
  bool same = values_interpret(r->d, a, args, false, &x) == SN_OK && values_interpret(r->d, b, args, false, &y) == SN_OK && values_close(x, y, 2e-5, 2e-6);
  sn_array_release(x);
  sn_array_release(y);
  return same;
}

/* ---- one pair ---- */

static bool tree_pair(run *r, const input *bc, const input *text, sn_str *why) {
  sn_mlir *want = NULL, *got = NULL;
  sn_status st = sn_mlir_read_bytecode(r->d, bc->path, bc->data, bc->n, &got);
  if (st == SN_OK) st = sn_mlir_read_text(r->d, text->path, text->data, text->n, &want);
  bool same = st == SN_OK && (has_chlo(text) || trees_agree(want, got, why));
  sn_mlir_destroy(want);
  sn_mlir_destroy(got);
  return same;
}

static bool module_pair(run *r, const input *bc, const input *text, sn_str *why) {
  sn_module *want = NULL, *got = NULL;
  sn_stablehlo_options o;
  sn_stablehlo_options_init(&o);
  o.every_dimension = 3;
  sn_status st = sn_stablehlo_parse(r->d, bc->path, bc->data, bc->n, &o, &got);
  if (st == SN_OK) st = sn_stablehlo_parse(r->d, text->path, text->data, text->n, &o, &want);
  bool same = st == SN_OK && (sn_module_equal(want, got, 0) || graphs_agree(want, got, why));
  if (st == SN_OK && !same && has_chlo(text) && work_of(want) > MAX_WORK) {
    /* A whole training step whose erf is written out on one side: the small models' steps say the rest. */
    same = want->entry->n_params == got->entry->n_params && sn_shape_equal(want->entry->root->shape, got->entry->root->shape, 0);
    r->left++;
  } else if (st == SN_OK && !same && has_chlo(text)) {
    same = results_agree(r, want, got, NULL);
  }
  sn_module_destroy(want);
  sn_module_destroy(got);
  return same;
}

/* text->path empty: none; the program must only be read. */
static void pair(run *r, input *bc, input *text, bool trees, bool modules) {
  sn_str why = {0};
  sn_str_add(&why, "");
  bool ok = load(r, bc) && (text->path[0] == '\0' || load(r, text));
  if (ok && text->path[0] == '\0') {
    sn_module *m = NULL;
    sn_stablehlo_options o;
    sn_stablehlo_options_init(&o);
    o.every_dimension = 3;
    ok = sn_stablehlo_parse(r->d, bc->path, bc->data, bc->n, &o, &m) == SN_OK;
    sn_module_destroy(m);
  } else if (ok) {
    ok = (!trees || tree_pair(r, bc, text, &why)) && (!modules || module_pair(r, bc, text, &why));
  }
  r->n++;
  if (!ok) report(r, bc->path, why.data);
  sn_diag_clear(r->d);
  sn_diag_set_source(r->d, text->path, "", 0);
  sn_free(bc->data);
  sn_free(text->data);
  sn_str_finish(&why);
}

/* ---- sets ---- */

static bool ends_with(const char *s, const char *end) {
  size_t n = strlen(s), m = strlen(end);
  return n >= m && strcmp(s + n - m, end) == 0;
}

typedef void (*visit)(run *r, const char *folder, const char *name);

static bool each(run *r, const char *folder, visit fn) {
  char path[1024];
  const char *const *names = NULL;
  size_t n = 0;
  sn_arena *a = NULL;
  snprintf(path, sizeof path, "%s/%s", r->dir, folder);
  if (!sn_file_exists(path)) return false;
  if (sn_arena_create(&a) != SN_OK || sn_dir_list(r->d, a, path, &names, &n) != SN_OK) exit(1);
  for (size_t i = 0; i < n; i++) fn(r, folder, names[i]);
  sn_arena_destroy(a);
  return true;
}

/* On the recorded arguments, or made up ones where none are. */
static bool same_results(run *r, const sn_module *a, const sn_module *b, const char *folder, const char *name) {
  char path[1024], arg[32];
  sn_bundle *io = NULL;
  sn_array **args = sn_alloc_zero(a->entry->n_params + 1u, sizeof *args);
  bool all = args != NULL && a->entry->n_params == b->entry->n_params;
  snprintf(path, sizeof path, "%s/%s/../io/%.*s.safetensors", r->dir, folder, (int)strlen(name) - 3, name);
  bool recorded = all && sn_file_exists(path) && sn_files_read(r->d, path, &io) == SN_OK;
  for (uint32_t k = 0; recorded && k < a->entry->n_params; k++) {
    snprintf(arg, sizeof arg, "arg%u", k);
    recorded = (args[k] = sn_bundle_get(io, arg)) != NULL && sn_shape_equal(sn_array_shape(args[k]), a->entry->params[k]->shape, 0);
  }
  bool same = all && results_agree(r, a, b, recorded ? args : NULL);
  sn_bundle_destroy(io);
  sn_free(args);
  return same;
}

/* NAME.mlir and hlo/NAME.before.hlo, which XLA made of it, give the same results; whole training steps are left to the golden runs of tests/numeric. */
static void as_hlo(run *r, const input *text, const char *folder, const char *name) {
  input hlo = {0};
  sn_module *want = NULL, *got = NULL;
  sn_stablehlo_options o;
  sn_stablehlo_options_init(&o);
  snprintf(hlo.path, sizeof hlo.path, "%s/%s/../hlo/%.*s.before.hlo", r->dir, folder, (int)strlen(name) - 3, name);
  char gz[1032];
  snprintf(gz, sizeof gz, "%s.gz", hlo.path);
  if (!sn_file_exists(hlo.path) && !sn_file_exists(gz)) return;
  input again = *text;
  again.data = NULL;
  sn_status s = load(r, &hlo) && load(r, &again) ? sn_hlo_parse(r->d, hlo.path, hlo.data, hlo.n, &want) : SN_ERR_IO;
  if (s == SN_OK) s = sn_stablehlo_parse(r->d, again.path, again.data, again.n, &o, &got);
  bool large = s == SN_OK && work_of(want) > MAX_WORK, processes = s == SN_OK && want->num_partitions * want->replica_count > 1;
  r->n++;
  if (large || processes) r->left++;
  else if (s != SN_OK || !same_results(r, want, got, folder, name)) report(r, hlo.path, "another result than the StableHLO program's");
  sn_diag_clear(r->d);
  sn_diag_set_source(r->d, again.path, "", 0);
  sn_diag_set_source(r->d, hlo.path, "", 0);
  sn_module_destroy(want);
  sn_module_destroy(got);
  sn_free(hlo.data);
  sn_free(again.data);
}

/* NAME.bc, NAME.v1.13.7.bc: NAME.mlir; NAME.plugin.bc: NAME.plugin.mlir */
static void golden(run *r, const char *folder, const char *name) {
  input bc = {0}, text = {0};
  const char *version = strstr(name, ".v1.");
  if (!ends_with(name, ".bc")) return;
  size_t stem = version != NULL ? (size_t)(version - name) : strlen(name) - 3;
  snprintf(bc.path, sizeof bc.path, "%s/%s/%s", r->dir, folder, name);
  snprintf(text.path, sizeof text.path, "%s/%s/%.*s.mlir", r->dir, folder, (int)stem, name);
  pair(r, &bc, &text, false, true); /* serialising moves constants to the front and merges equal ones: another tree, the same module */
  if (version == NULL) as_hlo(r, &text, folder, name);
}

/* Names the op, its version and the producer. */
static void future(run *r, input *bc) {
  sn_mlir *m = NULL;
  r->n++;
  bool ok = load(r, bc) && sn_mlir_read_bytecode(r->d, bc->path, bc->data, bc->n, &m) == SN_ERR_UNSUPPORTED && sn_diag_stored(r->d) == 1;
  const char *message = ok ? sn_diag_get(r->d, 0)->message : "";
  if (strstr(message, "constant") == NULL || strstr(message, "99") == NULL || strstr(message, "StableHLO_v2.0.0") == NULL) report(r, bc->path, "not refused by name and version");
  sn_mlir_destroy(m);
  sn_free(bc->data);
  sn_diag_clear(r->d);
}

static void vhlo(run *r, const char *folder, const char *name) {
  input bc = {0}, text = {0};
  if (!ends_with(name, ".mlir.bc")) return;
  snprintf(bc.path, sizeof bc.path, "%s/%s/%s", r->dir, folder, name);
  snprintf(text.path, sizeof text.path, "%s/%s/%.*s", r->dir, folder, (int)strlen(name) - 3, name);
  if (strstr(name, "future") != NULL) future(r, &bc);
  else pair(r, &bc, &text, true, false);
}

static void module_folder(run *r, const char *folder, const char *name) {
  input bc = {0}, text = {0};
  snprintf(bc.path, sizeof bc.path, "%s/%s/%s/module.bc", r->dir, folder, name);
  snprintf(text.path, sizeof text.path, "%s/%s/%s/module.mlir", r->dir, folder, name);
  if (!sn_file_exists(text.path)) text.path[0] = '\0';
  pair(r, &bc, &text, true, true);
}

int main(int argc, char **argv) {
  static const struct { const char *name, *env, *folder; int dir; visit fn; } sets[] = {{"golden", "SINTER_GOLDEN_DIR", "stablehlo", 1, golden},
                                                                                      {"vhlo", "SINTER_CONFORMANCE_DIR", "vhlo", 2, vhlo},
                                                                                      {"jax", "SINTER_CONFORMANCE_DIR", "jax_back_compat", 2, module_folder},
                                                                                      {"export", "SINTER_CONFORMANCE_DIR", "jax_export", 2, module_folder}};
  run r = {0};
  bool any = false;
  if (argc < 3) {
    fprintf(stderr, "usage: bytecode GOLDEN-DIR CONFORMANCE-DIR [golden|vhlo|jax|export]\n");
    return 2;
  }
  if (sn_diag_create(&r.d) != SN_OK) return 1;
  for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++) {
    if (argc > 3 && strcmp(argv[3], sets[k].name) != 0) continue;
    r.dir = sn_env(sets[k].env) != NULL ? sn_env(sets[k].env) : argv[sets[k].dir];
    if (each(&r, sets[k].folder, sets[k].fn)) any = true;
    else printf("not run: bytecode: no folder %s/%s (%s)\n", r.dir, sets[k].folder, sets[k].env);
  }
  printf("%d programs, %d failed; results not compared: %d (training steps, or of several devices)\n", r.n, r.failed, r.left);
  sn_diag_destroy(r.d);
  return !any ? 77 : r.failed != 0 || r.n == 0;
}
