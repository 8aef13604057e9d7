/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Whole programs through the engines that compile, beside the interpreter.
 *
 *   numeric-engines --table        every elementwise op, reduction and movement x every element type x shapes: odd sizes, none, scalars
 *   numeric-engines --convolutions every order of dimensions x windows x groups of convolutions
 *   numeric-engines --seeds=A:N    programs of the generator
 *   numeric-engines FILE…          modules, apart from each other by `// -----`
 *   numeric-engines --device=cuda … the same on the device that SINTER_LIBCUDA's driver offers; each program runs twice in one context (the second time as a graph)
 *
 * Each program runs fused and op by op; with one and with two threads to the same bits; and agrees with the interpreter:
 *   integers     by bits
 *   floats       by `units` of the type's last place of the largest value of the array. The interpreter computes f32 and narrower functions in f64, and sums in order;
 *                compiled code has functions of 2 units and sums in lanes. Programs of the generator pass through functions that amplify, files through solvers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines.h"
#include "oracle.h"
#include "device_find.h"
#include "sinter/compiler.h"
#include "sinter/device.h"
#include "sinter/gpu.h"
#include "sinter/text.h"

static const char *device_target; /* NULL: this machine's CPU */
enum { MOST_THREADS = 4 };
static sn_pool *wider[MOST_THREADS + 1]; /* of three and more threads */

static const char *const engine_names[] = {"fused", "op-by-op"};

static void explain(const char *name, const char *engine, const sn_diag *d, const char *what, tally *t) {
  const sn_diagnostic *x = sn_diag_stored(d) ? sn_diag_get(d, 0) : NULL;
  printf("FAILED: %s: %s: %s%s%s\n", name, engine, what, x ? ": " : "", x ? x->message : "");
  t->n_failed++;
}

/* ---- comparing ---- */

static double largest(const sn_array *a) {
  sn_type t = sn_array_shape(a)->type;
  const char *p = sn_array_data(a);
  double most = 0;
  if (!sn_type_is_float(t) && !sn_type_is_complex(t)) return 0;
  for (int64_t k = 0; k < sn_shape_elements(sn_array_shape(a)); k++, p += sn_type_bytes(t)) {
    double re, im = 0;
    if (sn_type_is_complex(t)) sn_load_c128(t, p, &re, &im);
    else re = sn_load_f64(t, p);
    re = fabs(re) + fabs(im);
    if (isfinite(re) && re > most) most = re;
  }
  return most;
}

/* The step of a float type beside 1. */
static double step(sn_type t) {
  return ldexp(1.0, -sn_types[t].mantissa_bits);
}

/* The coarsest step of the float types that values of the program pass through. */
static double coarsest(const sn_module *m) {
  double most = 0;
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      sn_type t = i->shape->type;
      if ((sn_type_is_float(t) || sn_type_is_complex(t)) && step(t) > most) most = step(t);
    }
  }
  return most;
}

/* `units` of the result's own steps, of types of 16 bits and fewer at most NARROW_UNITS; or PASSING_UNITS steps of a coarser type on the way. */
enum { NARROW_UNITS = 64, PASSING_UNITS = 16 };

static double allowed(sn_type t, double units, double passing) {
  double own = (sn_types[t].mantissa_bits <= 10 && units > NARROW_UNITS ? NARROW_UNITS : units) * step(t);
  return own > PASSING_UNITS * passing ? own : PASSING_UNITS * passing;
}

static bool agrees(const char *name, const char *engine, const sn_array *got, const sn_array *want, double units, double passing, tally *t) {
  sn_array_difference diff;
  const sn_shape *s = sn_array_shape(want);
  if (sn_shape_is_tuple(s)) {
    for (int k = 0; k < s->n_elements; k++) {
      if (!agrees(name, engine, sn_array_element(got, k), sn_array_element(want, k), units, passing, t)) return false;
    }
    return true;
  }
  bool real = sn_type_is_float(s->type) || sn_type_is_complex(s->type);
  const sn_type_info *i = &sn_types[s->type];
  double unit = real ? allowed(s->type, units, passing) : 0;
  double least = real ? 2 * ldexp(1.0, 2 - (1 << (i->exponent_bits - 1)) - i->mantissa_bits) : 0; /* two steps at the bottom of the type's range */
  if (sn_array_compare(got, want, 0, unit * largest(want) + least, &diff) == SN_OK && diff.n_bad == 0) return true;
  sn_str text = {0};
  sn_shape_print(&text, s, 0);
  printf("FAILED: %s: %s: %s: %lld elements differ, worst at %lld: got %.9g, interpreter %.9g\n", name, engine, text.data ? text.data : "", (long long)diff.n_bad,
         (long long)diff.worst, diff.got, diff.want);
  sn_str_finish(&text);
  t->n_failed++;
  return false;
}

static bool same_bits(const sn_array *a, const sn_array *b) {
  if (!sn_shape_is_tuple(sn_array_shape(a))) return memcmp(sn_array_data(a), sn_array_data(b), sn_array_bytes(a)) == 0;
  for (int k = 0; k < sn_array_n_elements(a); k++) {
    if (!same_bits(sn_array_element(a, k), sn_array_element(b, k))) return false;
  }
  return true;
}

/* ---- running ---- */

static sn_array *as_value(const sn_module *m, sn_program *p, sn_array **results) {
  sn_array *out = NULL;
  uint32_t n = sn_program_n_results(p);
  if (!sn_shape_is_tuple(m->entry->root->shape)) return sn_array_retain(results[0]);
  return sn_array_create_tuple((int)n, results, &out) == SN_OK ? out : NULL;
}

static sn_status run_program(sn_diag *d, const sn_module *m, sn_program *p, sn_pool *pool, sn_array **args, sn_array **out) {
  sn_context *c = NULL;
  sn_context_options o;
  uint32_t n = sn_program_n_results(p);
  sn_array **results = sn_alloc_zero(n + 1u, sizeof *results);
  *out = NULL;
  sn_context_options_init(&o);
  o.pool = pool;
  sn_status s = results ? sn_context_create(d, p, &o, &c) : SN_ERR_MEMORY;
  for (uint32_t k = 0; k < m->entry->n_params; k++) sn_array_retain(args[k]); /* not unique: donated ones are copied */
  if (s == SN_OK) s = sn_context_call(d, c, args, results);
  if (s == SN_OK && pool && device_target) {
    for (uint32_t k = 0; k < n; k++) sn_array_release(results[k]);
    s = sn_context_call(d, c, args, results);
  }
  for (uint32_t k = 0; k < m->entry->n_params; k++) sn_array_release(args[k]);
  if (s == SN_OK && !(*out = as_value(m, p, results))) s = SN_ERR_MEMORY;
  for (uint32_t k = 0; results && k < n; k++) sn_array_release(results[k]);
  sn_free(results);
  sn_context_destroy(c);
  return s;
}

/* On three and four threads the bits of `one`, too. */
static bool same_on_more_threads(sn_diag *d, const sn_module *m, sn_program *p, sn_array **args, const sn_array *one) {
  bool same = true;
  for (int n = 3; n <= MOST_THREADS && same && !device_target; n++) {
    sn_array *out = NULL;
    same = run_program(d, m, p, wider[n], args, &out) == SN_OK && same_bits(one, out);
    sn_array_release(out);
  }
  return same;
}

static bool compare_engine(const char *name, const char *engine, const sn_module *m, sn_pool *pool, sn_array **args, const sn_array *want, double units, tally *t) {
  sn_diag *d = NULL;
  sn_program *p = NULL;
  sn_array *one = NULL, *two = NULL;
  sn_compile_options o;
  bool ok = false;
  if (sn_diag_create(&d) != SN_OK) return false;
  sn_compile_options_init(&o);
  o.engine = engine;
  o.target = device_target;
  o.pool = pool;
  if (sn_compile(d, m, &o, &p, NULL) != SN_OK) explain(name, engine, d, "does not compile", t);
  else if (run_program(d, m, p, NULL, args, &one) != SN_OK || run_program(d, m, p, pool, args, &two) != SN_OK) explain(name, engine, d, "does not run", t);
  else if (!same_bits(one, two)) explain(name, engine, d, device_target ? "a second run gives other bits" : "two threads give other bits than one", t);
  else if (!same_on_more_threads(d, m, p, args, one)) explain(name, engine, d, "three or four threads give other bits than one", t);
  else ok = agrees(name, engine, one, want, units, coarsest(m), t);
  sn_array_release(one);
  sn_array_release(two);
  sn_program_release(p);
  sn_diag_destroy(d);
  return ok;
}

static bool flat_arguments(const sn_module *m) {
  for (uint32_t k = 0; k < m->entry->n_params; k++) {
    if (!sn_shape_is_array(m->entry->params[k]->shape)) return false;
  }
  const sn_shape *s = m->entry->root->shape;
  for (int k = 0; sn_shape_is_tuple(s) && k < s->n_elements; k++) {
    if (!sn_shape_is_array(s->elements[k])) return false;
  }
  return true;
}

bool engines_check(const char *name, const sn_module *m, sn_pool *pool, uint64_t seed, bool special, double units, tally *t) {
  sn_eval_options e;
  sn_array *want = NULL, **args = special ? oracle_args(m, seed) : oracle_args_plain(m, seed);
  sn_diag *d = NULL;
  sn_eval_options_init(&e);
  e.max_steps = 200000;
  bool ok = true;
  if (!args || sn_diag_create(&d) != SN_OK) return false;
  if (!flat_arguments(m) || sn_eval(d, m, &e, (int)m->entry->n_params, args, &want) != SN_OK) {
    t->n_skipped++;
  } else {
    for (size_t k = 0; k < 2 && ok; k++) ok = compare_engine(name, engine_names[k], m, pool, args, want, units, t);
    t->n_run++;
  }
  sn_array_release(want);
  sn_diag_destroy(d);
  oracle_args_release(m, args);
  return ok;
}

/* ---- what to run ---- */

/* Random programs chain a dozen functions, some of which amplify what came before. */
enum { FILE_UNITS = 64, SEED_UNITS = 4096 };

static void check_seeds(const char *range, sn_pool *pool, tally *t) {
  char *end;
  uint64_t first = strtoull(range, &end, 10), n = *end == ':' ? strtoull(end + 1, NULL, 10) : 1;
  for (uint64_t seed = first; seed < first + n; seed++) {
    char name[64];
    snprintf(name, sizeof name, "--seeds=%llu:1", (unsigned long long)seed);
    sn_module *m = random_hlo(seed);
    if (m) engines_check(name, m, pool, seed, false, SEED_UNITS, t);
    sn_module_destroy(m);
  }
}

static void check_text(const char *path, int number, const char *text, size_t n, sn_pool *pool, tally *t) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  char name[512];
  if (sn_diag_create(&d) != SN_OK) return;
  if (sn_hlo_parse(d, path, text, n, &m) != SN_OK || sn_module_verify(d, m, 0) != SN_OK) {
    explain(path, "reader", d, "is no valid module", t);
  } else {
    int skipped = t->n_skipped;
    snprintf(name, sizeof name, "%s#%d %s", path, number, m->name);
    engines_check(name, m, pool, 1, false, FILE_UNITS, t);
    if (t->n_skipped > skipped) explain(name, "interpreter", d, "does not run", t);
  }
  sn_module_destroy(m);
  sn_diag_destroy(d);
}

static void check_file(const char *path, sn_pool *pool, tally *t) {
  char *text = NULL;
  size_t n;
  int number = 0;
  if (sn_file_read(NULL, path, &text, &n) != SN_OK) {
    printf("FAILED: %s cannot be read\n", path);
    t->n_failed++;
    return;
  }
  for (char *at = text; at && *at;) {
    char *mark = strstr(at, "\n// -----\n"), *end = mark ? mark + 1 : text + n;
    check_text(path, ++number, at, (size_t)(end - at), pool, t);
    at = mark ? mark + 10 : NULL;
  }
  sn_free(text);
}

int main(int argc, char **argv) {
  tally t = {0, 0, 0};
  sn_pool *pool = NULL;
  bool on_device = argc > 1 && strncmp(argv[1], "--device=", 9) == 0;
  if (on_device && !device_find("numeric-engines", argv[1] + 9, &device_target)) return 77;
  if (!on_device && !sn_compiler_available(NULL)) {
    printf("not run: numeric-engines: libsinter-llvm.so is not there\n");
    return 77;
  }
  if (sn_pool_create(2, &pool) != SN_OK) return 1;
  for (int n = 3; n <= MOST_THREADS; n++) {
    if (sn_pool_create(n, &wider[n]) != SN_OK) return 1;
  }
  for (int k = on_device ? 2 : 1; k < argc; k++) {
    if (strncmp(argv[k], "--seeds=", 8) == 0) check_seeds(argv[k] + 8, pool, &t);
    else if (strncmp(argv[k], "--table", 7) == 0) engines_table(argv[k][7] == '=' ? argv[k] + 8 : NULL, pool, &t);
    else if (strncmp(argv[k], "--convolutions", 14) == 0) engines_convolutions(argv[k][14] == '=' ? argv[k] + 15 : NULL, pool, &t);
    else check_file(argv[k], pool, &t);
  }
  for (int n = 3; n <= MOST_THREADS; n++) sn_pool_destroy(wider[n]);
  sn_pool_destroy(pool);
  printf("%d programs, %d skipped, %d failed\n", t.n_run, t.n_skipped, t.n_failed);
  return t.n_failed || !t.n_run ? 1 : 0;
}
