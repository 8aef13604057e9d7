/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The check dialect and interpreter.run_parallel, for the interpreter's registry of custom calls.
 *
 * expect_eq: equal by value (-0 = +0; NaN equals nothing). expect_almost_eq: |got - want| <= tolerance in double, equal values pass, NaN matches NaN
 * alone, an infinity the same one. expect_close: distance in units in the last place between two bounds. Complex numbers: part by part. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/stablehlo.h"

/* ---- elements ---- */

typedef struct check {
  sn_diag *d;
  sn_loc loc;
  const char *target;
  double tolerance;
  uint64_t min_ulp, max_ulp;
  bool exact_integers;
} check;

static bool part_equal(const check *c, sn_type t, const char *a, const char *b) {
  (void)c;
  if (sn_type_is_float(t)) return sn_load_f64(t, a) == sn_load_f64(t, b);
  return sn_load_i64(t, a) == sn_load_i64(t, b);
}

static bool part_almost(const check *c, sn_type t, const char *a, const char *b) {
  if (c->exact_integers && !sn_type_is_float(t)) return sn_load_i64(t, a) == sn_load_i64(t, b);
  double x = sn_load_f64(t, a), y = sn_load_f64(t, b);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  return x == y || fabs(x - y) <= c->tolerance;
}

/* Floats of one sign are ordered as their bits are; across the signs the distances to zero add up. */
static uint64_t ulp_distance(sn_type t, const char *a, const char *b) {
  int bits = sn_type_bits(t);
  uint64_t x = 0, y = 0, top = (uint64_t)1 << (bits - 1);
  memcpy(&x, a, sn_type_bytes(t)); /* little-endian, as all of the house */
  memcpy(&y, b, sn_type_bytes(t));
  if (x == y) return 0;
  if (!sn_type_is_float(t)) {
    int64_t i = sn_load_i64(t, a), j = sn_load_i64(t, b);
    return i > j ? (uint64_t)i - (uint64_t)j : (uint64_t)j - (uint64_t)i;
  }
  double u = sn_load_f64(t, a), v = sn_load_f64(t, b);
  if (isnan(u) && isnan(v)) return 0;
  if (!isfinite(u) || !isfinite(v)) return UINT64_MAX;
  uint64_t mx = x & (top - 1), my = y & (top - 1);
  if ((x & top) != (y & top)) return mx + my;
  return mx > my ? mx - my : my - mx;
}

static bool part_close(const check *c, sn_type t, const char *a, const char *b) {
  uint64_t d = ulp_distance(t, a, b);
  return d <= c->max_ulp && d >= c->min_ulp;
}

/* The larger part of a complex number counts: each within the upper bound, one beyond the lower. */
static bool close_complex(const check *c, sn_type part, const char *a, const char *b) {
  uint64_t re = ulp_distance(part, a, b), im = ulp_distance(part, a + sn_type_bytes(part), b + sn_type_bytes(part)), d = re > im ? re : im;
  return d <= c->max_ulp && d >= c->min_ulp;
}

typedef bool (*compare_fn)(const check *c, sn_type t, const char *a, const char *b);

static bool element_ok(const check *c, compare_fn fn, sn_type t, const char *a, const char *b) {
  if (!sn_type_is_complex(t)) return fn(c, t, a, b);
  sn_type part = sn_type_real_part(t);
  if (fn == part_close) return close_complex(c, part, a, b);
  return fn(c, part, a, b) && fn(c, part, a + sn_type_bytes(part), b + sn_type_bytes(part));
}

static void value_text(sn_type t, const char *p, char *to, size_t cap) {
  if (sn_type_is_complex(t)) {
    double re = 0, im = 0;
    sn_load_c128(t, p, &re, &im);
    snprintf(to, cap, "(%.17g, %.17g)", re, im);
  } else if (sn_type_is_float(t)) {
    snprintf(to, cap, "%.*g", sn_type_bits(t) > 32 ? 17 : 9, sn_load_f64(t, p));
  } else {
    snprintf(to, cap, "%" PRId64, sn_load_i64(t, p));
  }
}

static sn_status report(const check *c, const sn_shape *shape, int64_t at, int64_t n_bad, const char *a, const char *b) {
  char got[64], want[64];
  sn_str index = {0};
  int64_t rest = at, step = sn_shape_elements(shape);
  for (int k = 0; k < shape->rank; k++) {
    step /= shape->dims[k];
    sn_str_printf(&index, "%s%" PRId64, k == 0 ? "" : ", ", rest / step);
    rest %= step;
  }
  value_text(shape->type, a, got, sizeof got);
  value_text(shape->type, b, want, sizeof want);
  sn_error(c->d, c->loc, SN_ERR_MISMATCH, "%s failed: element [%s] is %s, expected %s; %" PRId64 " of %" PRId64 " elements are wrong", c->target,
           index.data != NULL ? index.data : "", got, want, n_bad, sn_shape_elements(shape));
  sn_str_finish(&index);
  return SN_ERR_MISMATCH;
}

static sn_status compare(const check *c, compare_fn fn, const sn_array *got, const sn_array *want) {
  const sn_shape *s = sn_array_shape(got);
  if (!sn_shape_is_array(s) || !sn_shape_equal(s, sn_array_shape(want), 0))
    return sn_error(c->d, c->loc, SN_ERR_SHAPE, "%s compares arrays of one shape", c->target);
  const char *a = sn_array_data(got), *b = sn_array_data(want);
  size_t bytes = sn_type_bytes(s->type);
  int64_t first = -1, bad = 0;
  for (int64_t k = 0; k < sn_shape_elements(s); k++) {
    if (element_ok(c, fn, s->type, a + (size_t)k * bytes, b + (size_t)k * bytes)) continue;
    if (bad++ == 0) first = k;
  }
  return bad == 0 ? SN_OK : report(c, s, first, bad, a + (size_t)first * bytes, b + (size_t)first * bytes);
}

/* ---- the calls ---- */

/* `name=NUMBER` of the configuration; ops of the dialect begin with `op`. */
static double option(const char *config, const char *name, double dflt) {
  const char *at = config != NULL ? strstr(config, name) : NULL;
  return at != NULL && at[strlen(name)] == '=' ? strtod(at + strlen(name) + 1, NULL) : dflt;
}

/* As option, a count in 64 bits, of which -1 is the largest. */
static uint64_t count_option(const char *config, const char *name, uint64_t dflt) {
  const char *at = config != NULL ? strstr(config, name) : NULL;
  return at != NULL && at[strlen(name)] == '=' ? strtoull(at + strlen(name) + 1, NULL, 10) : dflt;
}

static sn_status expected(sn_diag *d, const sn_instr *i, const char *target, const sn_array *got, const sn_array *want) {
  const char *config = i->backend_config;
  bool op = config != NULL && strncmp(config, "op", 2) == 0, eq = strcmp(target, "check.eq") == 0;
  check c = {d, i->loc, target, option(config, "tolerance", op || eq ? 1e-4 : 1e-3), 0, 3, eq};
  c.max_ulp = count_option(config, "max_ulp_difference", op ? 1 : 3);
  c.min_ulp = count_option(config, "min_ulp_difference", 0);
  return compare(&c, strcmp(target, "check.expect_eq") == 0 ? part_equal : strcmp(target, "check.expect_close") == 0 ? part_close : part_almost, got, want);
}

/* The result is a truth value (check.eq) or nothing. */
static sn_status expect(void *ctx, sn_diag *d, const sn_instr *i, int n, sn_array *const *in, sn_array **out) {
  const char *target = sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET);
  (void)ctx;
  if (n != 2) return sn_error(d, i->loc, SN_ERR_SHAPE, "%s takes two operands, found %d", target, n);
  SN_TRY(expected(d, i, target, in[0], in[1]));
  if (sn_shape_is_tuple(i->shape) && i->shape->n_elements == 0) return sn_array_create_tuple(0, NULL, out);
  if (!sn_shape_is_array(i->shape) || i->shape->type != SN_TYPE_PRED) return sn_error(d, i->loc, SN_ERR_SHAPE, "%s gives a truth value or nothing", target);
  SN_TRY(sn_array_create(i->shape, out));
  memset(sn_array_data(*out), 1, sn_array_bytes(*out));
  return SN_OK;
}

/* ---- interpreter.run_parallel ---- */

typedef struct parallel {
  sn_diag *d;
  const sn_instr *i;
  int replicas, partitions, n_infeed, n_programs;
  int n_args; /* of each process */
} parallel;

/* Each process's program in the module m; equal ones are one, as the members of a collective meet in one instruction. */
static sn_status entries(const parallel *p, sn_module *m, sn_computation **to) {
  for (int k = 0; k < p->n_programs; k++) {
    for (int q = 0; q < k && to[k] == NULL; q++)
      if (sn_computation_equal(p->i->called[q], p->i->called[k], 0)) to[k] = to[q];
    if (to[k] == NULL) SN_TRY(sn_computation_clone(p->i->called[k], m, "main", &to[k]));
  }
  sn_module_set_entry(m, to[0]);
  return sn_module_sort(p->d, m);
}

/* Values of the infeed programs, in order. */
static sn_status infeed_values(const parallel *p, sn_array **to) {
  sn_eval_options o;
  sn_eval_options_init(&o);
  for (int k = 0; k < p->n_infeed; k++) SN_TRY(sn_eval_computation(p->d, p->i->called[p->n_programs + k], &o, 0, NULL, &to[k]));
  return SN_OK;
}

static int flat_count(const sn_array *a) { return sn_shape_is_tuple(sn_array_shape(a)) ? sn_array_n_elements(a) : 1; }

/* Results process by process. */
static sn_status flatten(const parallel *p, sn_array *const *results, sn_array **out) {
  int n = 0, k = 0;
  for (int q = 0; q < p->n_programs; q++) n += flat_count(results[q]);
  sn_array **v = sn_alloc_zero((size_t)n + 1, sizeof *v);
  if (v == NULL) return sn_out_of_memory(p->d, (size_t)n * sizeof *v);
  for (int q = 0; q < p->n_programs; q++) {
    bool tuple = sn_shape_is_tuple(sn_array_shape(results[q]));
    for (int e = 0; e < flat_count(results[q]); e++) v[k++] = tuple ? sn_array_element(results[q], e) : results[q];
  }
  sn_status st = SN_OK;
  if (!sn_shape_is_tuple(p->i->shape) && n == 1) *out = sn_array_retain(v[0]);
  else st = sn_array_create_tuple(n, v, out);
  sn_free(v);
  return st;
}

static void release_all(sn_array **v, int n) {
  for (int k = 0; v != NULL && k < n; k++) sn_array_release(v[k]);
  sn_free(v);
}

static sn_status run_module(const parallel *p, const sn_module *m, const sn_computation *const *programs, sn_array *const *in, sn_array **infeed, sn_array **results) {
  sn_eval_options o;
  sn_eval_options_init(&o);
  o.replicas = p->replicas;
  o.partitions = p->partitions;
  o.entries = programs;
  o.customs = sn_stablehlo_customs();
  o.infeed = infeed;
  o.n_infeed = p->n_infeed;
  return sn_eval_replicated(p->d, m, &o, p->n_args, in, results);
}

static sn_status run_in(const parallel *p, sn_module *m, sn_array *const *in, sn_array **out) {
  size_t n = (size_t)p->n_programs + 1;
  sn_array **results = sn_alloc_zero(n, sizeof *results), **infeed = sn_alloc_zero((size_t)p->n_infeed + 1, sizeof *infeed);
  sn_computation **programs = sn_alloc_zero(n, sizeof *programs);
  m->replica_count = p->replicas;
  m->num_partitions = p->partitions;
  sn_status st = results != NULL && infeed != NULL && programs != NULL ? entries(p, m, programs) : sn_out_of_memory(p->d, n * sizeof *results);
  if (st == SN_OK) st = infeed_values(p, infeed);
  if (st == SN_OK) st = run_module(p, m, (const sn_computation *const *)programs, in, infeed, results);
  if (st == SN_OK) st = flatten(p, results, out);
  release_all(results, p->n_programs);
  release_all(infeed, p->n_infeed);
  sn_free(programs);
  return st;
}

static sn_status run_parallel(void *ctx, sn_diag *d, const sn_instr *i, int n, sn_array *const *in, sn_array **out) {
  parallel p = {d, i, (int)option(i->backend_config, "replicas", 1), (int)option(i->backend_config, "partitions", 1), (int)option(i->backend_config, "infeed", 0), 0, 0};
  (void)ctx;
  p.n_programs = p.replicas * p.partitions;
  if (p.n_programs < 1 || i->n_called != p.n_programs + p.n_infeed || n % p.n_programs != 0) return sn_error(d, i->loc, SN_ERR_SHAPE, "run_parallel does not fit its programs and operands");
  p.n_args = n / p.n_programs;
  sn_module *m = NULL;
  if (sn_module_create("parallel", &m) != SN_OK) return sn_out_of_memory(d, 0);
  sn_status st = run_in(&p, m, in, out);
  sn_module_destroy(m);
  return st;
}

static const sn_eval_custom customs[] = {
    {"check.eq", expect, NULL},           {"check.expect_almost_eq", expect, NULL},          {"check.expect_close", expect, NULL},
    {"check.expect_eq", expect, NULL},    {"interpreter.run_parallel", run_parallel, NULL}, {NULL, NULL, NULL},
};

const sn_eval_custom *sn_stablehlo_customs(void) { return customs; }

bool sn_stablehlo_has_checks(const sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) SN_FOR_INSTRS(i, c) {
    const char *target = i->op == SN_OP_CUSTOM_CALL ? sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET) : NULL;
    if (target != NULL && strncmp(target, "check.", 6) == 0) return true;
  }
  return false;
}
