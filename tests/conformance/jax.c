/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Programs that JAX serialised over the years, run on their recorded inputs and judged as JAX's own tests judge them.
 *
 *   jax DIR LIST interpreter|op-by-op|fused
 *
 * DIR/jax_back_compat holds a folder a case: module.mlir and module.bc (both run), meta.json, inputs.npz, expected.npz. LIST names cases that are known to
 * fail: `jax/CASE: reason`; one that passes is an error. Exit 77: there is no such folder, or no LAPACKE. */
#include <cjson/cJSON.h>
#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "sinter/compiler.h"
#include "sinter/files.h"
#include "sinter/json.h"
#include "sinter/stablehlo.h"

typedef double complex number;

/* Matrices of an array: the last two dimensions; a vector is a row. */
typedef struct matrices {
  int64_t count, rows, cols;
  number *v;
} matrices;

typedef struct judged {
  const cJSON *check;
  sn_bundle *inputs, *expected; /* inputs NULL: the program makes its own */
  int n;
  matrices in[8], got[8], want[8];
  sn_type types[8];
  double rtol, atol, eps;
} judged;

static matrices load(const sn_array *a) {
  const sn_shape *s = sn_array_shape(a);
  matrices m = {1, s->rank >= 2 ? s->dims[s->rank - 2] : 1, s->rank >= 1 ? s->dims[s->rank - 1] : 1, NULL};
  for (int k = 0; k < s->rank - 2; k++) m.count *= s->dims[k];
  int64_t n = sn_shape_elements(s);
  m.v = sn_alloc_zero((size_t)n + 1, sizeof *m.v);
  for (int64_t k = 0; m.v != NULL && k < n; k++) {
    const char *at = (const char *)sn_array_data(a) + (size_t)k * sn_type_bytes(s->type);
    double parts[2] = {0, 0}; /* a complex number is its parts in order; not every compiler has CMPLX */
    if (sn_type_is_complex(s->type)) sn_load_c128(s->type, at, &parts[0], &parts[1]);
    else if (sn_type_is_float(s->type)) parts[0] = sn_load_f64(s->type, at);
    else parts[0] = (double)sn_load_i64(s->type, at);
    memcpy(&m.v[k], parts, sizeof parts);
  }
  return m;
}

static number at(const matrices *m, int64_t b, int64_t i, int64_t j) { return m->v[(b * m->rows + i) * m->cols + j]; }

static bool within(number got, number want, double rtol, double atol) {
  if (isnan(creal(want)) || isnan(creal(got))) return isnan(creal(want)) && isnan(creal(got));
  return got == want || cabs(got - want) <= atol + rtol * cabs(want);
}

static int64_t n_of(const matrices *m) { return m->count * m->rows * m->cols; }

/* ---- checks, by the name that meta.json gives them ---- */

/* JAX's own where none is stated. */
static double tolerance(const judged *j, sn_type t, double stated) {
  sn_type part = sn_type_is_complex(t) ? sn_type_real_part(t) : t;
  (void)j;
  if (stated >= 0) return stated;
  return part == SN_TYPE_F64 ? 1e-15 : sn_type_is_float(part) ? 1e-6 : 0;
}

static bool elementwise(const judged *j) {
  for (int k = 0; k < j->n; k++) {
    bool exact = !sn_type_is_float(j->types[k]) && !sn_type_is_complex(j->types[k]);
    double atol = exact ? 0 : tolerance(j, j->types[k], j->atol), rtol = exact ? 0 : j->rtol;
    if (n_of(&j->got[k]) != n_of(&j->want[k])) return false;
    for (int64_t i = 0; i < n_of(&j->got[k]); i++)
      if (!within(j->got[k].v[i], j->want[k].v[i], rtol, atol)) return false;
  }
  return true;
}

/* 0, 1, 2, … as n x n, the matrix of those tests that have no input. */
static number counting(int64_t n, int64_t i, int64_t k) { return (double)(i * n + k); }

/* |A v - v diag(w)|, Frobenius; left: of A^H, conj(w). */
static double residual(int64_t n, const matrices *v, const number *w, bool left, bool symmetric) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++) {
      number s = -at(v, 0, i, k) * (left ? conj(w[k]) : w[k]);
      for (int64_t p = 0; p < n; p++) {
        number a = left ? conj(counting(n, p, i)) : counting(n, i, p);
        s += (symmetric ? (a + counting(n, p, i)) / 2 : a) * at(v, 0, p, k);
      }
      sum += creal(s * conj(s));
    }
  return sqrt(sum);
}

static bool each_near_some(const matrices *a, const matrices *b, double rtol, double atol) {
  for (int64_t i = 0; i < n_of(a); i++) {
    bool found = false;
    for (int64_t k = 0; k < n_of(b) && !found; k++) found = within(a->v[i], b->v[k], rtol, atol);
    if (!found) return false;
  }
  return true;
}

static bool eig(const judged *j) {
  int64_t n = j->got[1].cols;
  double unit = 5 * j->eps;
  return residual(n, &j->got[2], j->got[0].v, false, false) / unit < 100 && residual(n, &j->got[1], j->got[0].v, true, false) / unit < 100 &&
         each_near_some(&j->got[0], &j->want[0], j->rtol, j->atol) && each_near_some(&j->want[0], &j->got[0], j->rtol, j->atol);
}

/* |I - v^H v|, or v v^H; the largest element's distance, or Frobenius. */
static double off_identity(const matrices *v, int64_t b, bool columns, bool largest) {
  int64_t n = columns ? v->cols : v->rows, inner = columns ? v->rows : v->cols;
  double sum = 0, most = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++) {
      number s = i == k ? -1 : 0;
      for (int64_t p = 0; p < inner; p++) s += columns ? conj(at(v, b, p, i)) * at(v, b, p, k) : at(v, b, i, p) * conj(at(v, b, k, p));
      sum += creal(s * conj(s));
      most = fmax(most, fabs(creal(s)));
    }
  return largest ? most : sqrt(sum);
}

static bool eigh(const judged *j) {
  int64_t n = j->got[0].cols;
  double norm = 0;
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++) norm += pow(creal(counting(n, i, k) + counting(n, k, i)) / 2, 2);
  for (int64_t k = 0; k < n_of(&j->got[1]); k++)
    if (!within(j->got[1].v[k], j->want[1].v[k], j->rtol, j->atol)) return false;
  return off_identity(&j->got[0], 0, true, false) <= j->rtol && residual(n, &j->got[0], j->got[1].v, false, true) <= j->rtol * sqrt(norm);
}

/* Rows of A, swapped by the pivots, are L U. */
static bool lu(const judged *j) {
  const matrices *m = &j->got[0];
  int64_t n = m->rows, *row = sn_alloc_zero((size_t)n, sizeof *row);
  bool ok = row != NULL;
  for (int64_t i = 0; ok && i < n; i++) row[i] = i;
  for (int64_t k = 0; ok && k < n_of(&j->got[1]); k++) {
    int64_t p = (int64_t)creal(j->got[1].v[k]), t = row[k];
    ok = p >= 0 && p < n;
    if (ok) row[k] = row[p], row[p] = t;
  }
  for (int64_t i = 0; ok && i < n; i++)
    for (int64_t k = 0; k < m->cols; k++) {
      number s = 0;
      for (int64_t p = 0; p <= i && p <= k; p++) s += (p == i ? 1 : at(m, 0, i, p)) * at(m, 0, p, k);
      ok = ok && within(s, counting(m->cols, row[i], k), j->rtol, j->atol);
    }
  sn_free(row);
  return ok;
}

/* The input is s t s^H. */
static bool schur(const judged *j) {
  const matrices *t = &j->got[0], *s = &j->got[1];
  for (int64_t i = 0; i < t->rows; i++)
    for (int64_t k = 0; k < t->rows; k++) {
      number x = 0;
      for (int64_t p = 0; p < t->rows; p++)
        for (int64_t q = 0; q < t->rows; q++) x += at(s, 0, i, p) * at(t, 0, p, q) * conj(at(s, 0, k, q));
      if (!within(x, at(&j->in[0], 0, i, k), j->rtol, j->atol)) return false;
    }
  return true;
}

static bool svd(const judged *j) {
  const matrices *a = &j->in[0], *u = &j->got[0], *s = &j->got[1], *v = &j->got[2];
  for (int64_t b = 0; b < a->count; b++) {
    double off = 0, norm = 0;
    for (int64_t i = 0; i < a->rows; i++)
      for (int64_t k = 0; k < a->cols; k++) {
        number x = at(a, b, i, k);
        norm += creal(x * conj(x));
        for (int64_t p = 0; p < s->cols; p++) x -= at(u, b, i, p) * s->v[b * s->cols + p] * at(v, b, p, k);
        off += creal(x * conj(x));
      }
    if (sqrt(off) / sqrt(norm) >= 160 * j->eps || off_identity(u, b, true, true) > 80 * j->eps || off_identity(v, b, false, true) > 80 * j->eps) return false;
  }
  return true;
}

static bool triangular_solve(const judged *j) {
  const matrices *a = &j->in[0], *b = &j->in[1], *x = &j->got[0];
  for (int64_t i = 0; i < b->rows; i++)
    for (int64_t k = 0; k < b->cols; k++) {
      number s = 0;
      for (int64_t p = 0; p <= i; p++) s += at(a, 0, i, p) * at(x, 0, p, k);
      if (!within(s, at(b, 0, i, k), j->rtol, j->atol)) return false;
    }
  return true;
}

static int by_value(const void *a, const void *b) {
  double x = creal(*(const number *)a), y = creal(*(const number *)b);
  return (x > y) - (x < y);
}

static bool top_k(const judged *j) {
  const matrices *values = &j->got[0], *places = &j->got[1];
  for (int64_t k = 0; k < n_of(values); k++) {
    int64_t p = (int64_t)creal(places->v[k]);
    if (p < 0 || p >= j->in[0].cols || values->v[k] != j->in[0].v[k / values->cols * j->in[0].cols + p]) return false;
  }
  qsort(values->v, (size_t)n_of(values), sizeof *values->v, by_value);
  qsort(j->want[0].v, (size_t)n_of(&j->want[0]), sizeof *values->v, by_value);
  return n_of(values) == n_of(&j->want[0]) && memcmp(values->v, j->want[0].v, (size_t)n_of(values) * sizeof *values->v) == 0;
}

static bool judge(const judged *j) {
  static const struct { const char *kind; bool (*fn)(const judged *j); } kinds[] = {{"elementwise", elementwise}, {"eig", eig}, {"eigh", eigh}, {"lu", lu}, {"schur", schur}, {"svd", svd},
                                                                                {"triangular_solve", triangular_solve}, {"top_k", top_k}};
  const char *kind = cJSON_GetStringValue(cJSON_GetObjectItem(j->check, "kind"));
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    if (kind != NULL && strcmp(kinds[k].kind, kind) == 0) return kinds[k].fn(j);
  return false;
}

/* ---- running a case ---- */

typedef struct run {
  const char *dir, *list;
  const sn_engine *engine;
  sn_pool *pool;
  sn_diag *d;
  int n, passed, known, failed;
} run;

static sn_array *numbered(const sn_bundle *b, const char *prefix, int k) {
  char name[32];
  snprintf(name, sizeof name, "%s_%d", prefix, k);
  return b != NULL ? sn_bundle_get(b, name) : NULL;
}

static sn_status read_module(run *r, const char *path, const judged *j, sn_module **out) {
  char *text = NULL;
  size_t n = 0;
  const sn_shape *shapes[8];
  sn_stablehlo_options o;
  sn_stablehlo_options_init(&o);
  for (; o.n_arg_shapes < 8 && numbered(j->inputs, "input", o.n_arg_shapes) != NULL; o.n_arg_shapes++) shapes[o.n_arg_shapes] = sn_array_shape(numbered(j->inputs, "input", o.n_arg_shapes));
  o.arg_shapes = shapes;
  SN_TRY(sn_file_read(r->d, path, &text, &n));
  sn_status s = sn_stablehlo_parse(r->d, path, text, n, &o, out);
  if (s != SN_OK) sn_diag_print(r->d, stdout, false);
  sn_diag_set_source(r->d, path, "", 0);
  sn_free(text);
  return s;
}

static sn_status call(run *r, const sn_module *m, const judged *j, sn_array **out) {
  sn_engine_setup setup = {.pool = r->pool};
  sn_runnable p = {NULL, NULL};
  sn_array *args[8];
  *out = NULL;
  for (uint32_t k = 0; k < m->entry->n_params; k++)
    if (k >= 8 || (args[k] = numbered(j->inputs, "input", (int)k)) == NULL) return sn_error(r->d, SN_NOWHERE, SN_ERR_USAGE, "no input for parameter %u", k);
  SN_TRY(sn_runnable_init(r->d, r->engine, &setup, m, &p));
  sn_status s = sn_runnable_call(r->d, &p, (int)m->entry->n_params, args, out);
  sn_runnable_finish(&p);
  return s;
}

static void load_all(judged *j, const sn_array *out) {
  bool tuple = sn_shape_is_tuple(sn_array_shape(out));
  j->n = tuple ? sn_array_n_elements(out) : 1;
  for (int k = 0; k < j->n; k++) {
    const sn_array *got = tuple ? sn_array_element(out, k) : out, *want = numbered(j->expected, "output", k);
    j->types[k] = sn_array_shape(got)->type;
    j->got[k] = load(got);
    j->want[k] = load(want != NULL ? want : got);
  }
  for (int k = 0; numbered(j->inputs, "input", k) != NULL; k++) j->in[k] = load(numbered(j->inputs, "input", k));
}

static void drop_all(judged *j) {
  for (int k = 0; k < 8; k++) {
    sn_free(j->got[k].v);
    sn_free(j->want[k].v);
    sn_free(j->in[k].v);
    j->got[k].v = j->want[k].v = j->in[k].v = NULL;
  }
}

static bool run_module(run *r, const char *path, judged *j) {
  sn_module *m = NULL;
  sn_array *out = NULL;
  bool ok = read_module(r, path, j, &m) == SN_OK && call(r, m, j, &out) == SN_OK;
  if (ok) {
    load_all(j, out);
    ok = judge(j);
    drop_all(j);
    if (!ok) printf("%s: another result than the recorded one\n", path);
  }
  sn_array_release(out);
  sn_module_destroy(m);
  return ok;
}

static double number_or(const cJSON *check, const char *name, double otherwise) {
  const cJSON *v = cJSON_GetObjectItem(check, name);
  return cJSON_IsNumber(v) ? v->valuedouble : otherwise;
}

static bool run_case(run *r, const char *name) {
  char path[1024];
  char *text = NULL;
  size_t n = 0;
  judged j = {0};
  snprintf(path, sizeof path, "%s/%s/meta.json", r->dir, name);
  if (sn_file_read(r->d, path, &text, &n) != SN_OK) return false;
  cJSON *meta = cJSON_ParseWithLength(text, n);
  j.check = cJSON_GetObjectItem(meta, "check");
  j.rtol = number_or(j.check, "rtol", 0);
  j.atol = number_or(j.check, "atol", -1);
  snprintf(path, sizeof path, "%s/%s/inputs.npz", r->dir, name);
  bool ok = !sn_file_exists(path) || sn_files_read(r->d, path, &j.inputs) == SN_OK;
  snprintf(path, sizeof path, "%s/%s/expected.npz", r->dir, name);
  ok = ok && sn_files_read(r->d, path, &j.expected) == SN_OK;
  sn_type t = ok && numbered(j.expected, "output", 0) != NULL ? sn_array_shape(numbered(j.expected, "output", 0))->type : SN_TYPE_F64;
  j.eps = t == SN_TYPE_F32 || t == SN_TYPE_C64 ? 0x1p-23 : 0x1p-52;
  static const char *const forms[] = {"module.mlir", "module.bc"};
  for (int k = 0; ok && k < 2; k++) {
    snprintf(path, sizeof path, "%s/%s/%s", r->dir, name, forms[k]);
    ok = run_module(r, path, &j);
  }
  sn_bundle_destroy(j.inputs);
  sn_bundle_destroy(j.expected);
  cJSON_Delete(meta);
  sn_free(text);
  return ok;
}

static bool listed(const run *r, const char *name) {
  char key[256];
  snprintf(key, sizeof key, "jax/%s: ", name);
  return strstr(r->list, key) != NULL;
}

static void one(run *r, const char *name) {
  bool ok = run_case(r, name), known = listed(r, name);
  r->n++;
  r->passed += ok && !known;
  r->known += !ok && known;
  if (ok == known) {
    r->failed++;
    printf("FAILED %s%s\n", name, ok ? ": passes, but is listed as failing" : "");
    if (!ok) sn_diag_print(r->d, stdout, false);
  }
  sn_diag_clear(r->d);
}

static bool have_lapacke(void) {
  static const char *const names[] = {"liblapacke.so.3", "liblapacke.so"};
  sn_library *l = NULL;
  bool have = sn_library_open(NULL, names, 2, &l) == SN_OK;
  sn_library_close(l);
  return have;
}

static int not_run(const char *why) {
  printf("not run: jax back-compat: %s\n", why);
  return 77;
}

int main(int argc, char **argv) {
  run r = {0};
  char dir[1024], *list = NULL;
  const char *const *names = NULL;
  size_t n = 0;
  sn_arena *a = NULL;
  if (argc != 4 || (r.engine = sn_engine_find(argv[3])) == NULL) {
    fprintf(stderr, "usage: jax DIR LIST interpreter|op-by-op|fused\n");
    return 2;
  }
  snprintf(dir, sizeof dir, "%s/jax_back_compat", sn_env("SINTER_CONFORMANCE_DIR") != NULL ? sn_env("SINTER_CONFORMANCE_DIR") : argv[1]);
  if (!sn_file_exists(dir)) return not_run("no folder of that name (SINTER_CONFORMANCE_DIR)");
  if (strcmp(argv[3], "interpreter") != 0 && !sn_compiler_available(NULL)) return not_run("libsinter-llvm.so does not load (a build with LLVM has it)");
  if (!have_lapacke()) return not_run("LAPACKE is not here (package liblapacke)");
  r.dir = dir;
  if (sn_diag_create(&r.d) != SN_OK || sn_pool_create(0, &r.pool) != SN_OK || sn_arena_create(&a) != SN_OK || sn_file_read(r.d, argv[2], &list, &n) != SN_OK ||
      sn_dir_list(r.d, a, dir, &names, &n) != SN_OK)
    return 1;
  r.list = list;
  for (size_t k = 0; k < n; k++) one(&r, names[k]);
  printf("%-16s %7s %7s %14s %7s\njax_back_compat  %7d %7d %14d %7d\n", argv[3], "passed", "failed", "known failures", "total", r.passed, r.failed, r.known, r.n);
  sn_free(list);
  sn_arena_destroy(a);
  sn_pool_destroy(r.pool);
  sn_diag_destroy(r.d);
  return r.failed != 0 || r.n == 0;
}
