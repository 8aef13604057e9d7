/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "oracle.h"

#include <math.h>
#include <string.h>

#include "sinter/text.h"

/* ---- arguments ---- */

static uint64_t mix(uint64_t *state) { /* splitmix64 (public domain, Vigna) */
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* Mostly numbers of size one; now and then the values that break rules. */
static double number(uint64_t *state, bool special) {
  static const double odd[] = {0.0, -0.0, 1.0, -1.0, INFINITY, -INFINITY, NAN, 1e-40, 3e38, 2.0};
  uint64_t u = mix(state);
  if (special && u % 16 == 0) return odd[(u >> 8) % (sizeof odd / sizeof *odd)];
  return (double)(u >> 11) / 4503599627370496.0 - 1;
}

static void fill(sn_array *a, uint64_t *state, bool special) {
  sn_type t = sn_array_shape(a)->type;
  int64_t n = sn_shape_elements(sn_array_shape(a));
  char *p = sn_array_data(a);
  for (int64_t i = 0; i < n; i++, p += sn_type_bytes(t)) {
    if (t == SN_TYPE_PRED) sn_store_i64(t, p, (int64_t)(mix(state) & 1));
    else if (sn_type_is_integer(t)) sn_store_i64(t, p, (int64_t)(mix(state) % 9) - (sn_type_is_signed(t) ? 3 : 0));
    else if (sn_type_is_complex(t)) sn_store_c128(t, p, number(state, special), number(state, special));
    else sn_store_f64(t, p, number(state, special));
  }
}

static sn_array *random_value(const sn_shape *s, uint64_t *state, bool special) {
  sn_array *a = NULL;
  if (!sn_shape_is_tuple(s)) {
    if (sn_array_create_zero(s, &a) == SN_OK && sn_shape_is_array(s)) fill(a, state, special);
    return a;
  }
  sn_array **v = sn_alloc_zero((size_t)s->n_elements + 1, sizeof *v);
  bool ok = v != NULL;
  for (int k = 0; k < s->n_elements && ok; k++) ok = (v[k] = random_value(s->elements[k], state, special)) != NULL;
  if (ok && sn_array_create_tuple(s->n_elements, v, &a) != SN_OK) a = NULL;
  for (int k = 0; v && k < s->n_elements; k++) sn_array_release(v[k]);
  sn_free(v);
  return a;
}

/* Special values go to exact comparisons alone: a regrouped sum of infinities is another story, told by the numeric contract's f64 rule. */
static sn_array **make_args(const sn_module *m, uint64_t seed, bool special) {
  sn_array **args = sn_alloc_zero(m->entry->n_params + 1u, sizeof *args);
  for (uint32_t k = 0; args && k < m->entry->n_params; k++) {
    uint64_t state = seed * 1000003 + k;
    if (!(args[k] = random_value(m->entry->params[k]->shape, &state, special))) {
      oracle_args_release(m, args);
      return NULL;
    }
  }
  return args;
}
sn_array **oracle_args(const sn_module *m, uint64_t seed) { return make_args(m, seed, true); }
sn_array **oracle_args_plain(const sn_module *m, uint64_t seed) { return make_args(m, seed, false); }
void oracle_args_release(const sn_module *m, sn_array **args) {
  for (uint32_t k = 0; args && k < m->entry->n_params; k++) sn_array_release(args[k]);
  sn_free(args);
}

/* ---- comparing ---- */

static bool both_nan(sn_type t, const char *p, const char *q) {
  if (sn_type_is_float(t)) return isnan(sn_load_f64(t, p)) && isnan(sn_load_f64(t, q));
  if (!sn_type_is_complex(t)) return false;
  size_t half = sn_type_bytes(t) / 2;
  sn_type r = sn_type_real_part(t);
  for (size_t k = 0; k < 2; k++) {
    if (memcmp(p + k * half, q + k * half, half) != 0 && !(isnan(sn_load_f64(r, p + k * half)) && isnan(sn_load_f64(r, q + k * half)))) return false;
  }
  return true;
}

static bool same_bits(const sn_array *x, const sn_array *y, char *what, size_t n_what) {
  const sn_shape *s = sn_array_shape(x);
  size_t each = sn_type_bytes(s->type);
  const char *p = sn_array_data(x), *q = sn_array_data(y);
  for (int64_t i = 0; i < sn_shape_elements(s); i++, p += each, q += each) {
    if (memcmp(p, q, each) == 0 || both_nan(s->type, p, q)) continue;
    double a = sn_type_is_complex(s->type) ? 0 : sn_load_f64(s->type, p), b = sn_type_is_complex(s->type) ? 0 : sn_load_f64(s->type, q);
    snprintf(what, n_what, "element %lld: was %.17g, is %.17g", (long long)i, b, a);
    return false;
  }
  return true;
}

static double scale_of(const sn_array *a) {
  const sn_shape *s = sn_array_shape(a);
  double most = 0;
  const char *p = sn_array_data(a);
  if (!sn_type_is_float(s->type)) return 0;
  for (int64_t i = 0; i < sn_shape_elements(s); i++) {
    double v = fabs(sn_load_f64(s->type, p + (size_t)i * sn_type_bytes(s->type)));
    if (isfinite(v) && v > most) most = v;
  }
  return most;
}

/* Only where the original is finite: a zero of the other sign, which `reassoc` may give, is an infinity of the other sign one division later. */
static bool close_enough(const oracle *o, const sn_array *x, const sn_array *y, char *what, size_t n_what) {
  const sn_shape *s = sn_array_shape(x);
  size_t each = sn_type_bytes(s->type);
  double unit = sn_type_bits(s->type) <= 16 ? 0.02 : o->tolerance, scale = scale_of(y);
  for (int64_t i = 0; i < sn_shape_elements(s); i++) {
    double got = sn_load_f64(s->type, (const char *)sn_array_data(x) + (size_t)i * each), want = sn_load_f64(s->type, (const char *)sn_array_data(y) + (size_t)i * each);
    if (!isfinite(want) || fabs(got - want) <= unit * scale) continue;
    snprintf(what, n_what, "element %lld: was %.9g, is %.9g", (long long)i, want, got);
    return false;
  }
  return true;
}

static bool same_value(const oracle *o, const sn_array *x, const sn_array *y, char *what, size_t n_what) {
  const sn_shape *s = sn_array_shape(x);
  if (!sn_shape_equal(s, sn_array_shape(y), 0)) {
    snprintf(what, n_what, "another shape");
    return false;
  }
  if (sn_shape_is_tuple(s)) {
    for (int k = 0; k < s->n_elements; k++) {
      if (!same_value(o, sn_array_element(x, k), sn_array_element(y, k), what, n_what)) return false;
    }
    return true;
  }
  if (!sn_shape_is_array(s)) return true;
  if (o->numeric == SN_EXACT || !(sn_type_is_float(s->type) || sn_type_is_complex(s->type))) return same_bits(x, y, what, n_what);
  return sn_type_is_complex(s->type) || close_enough(o, x, y, what, n_what);
}

/* ---- the check ---- */

typedef struct check {
  oracle *o;
  sn_array **args;
  sn_array *want;
} check;

static sn_status interpret(const sn_module *m, sn_array **args, sn_diag *d, sn_array **out) {
  sn_eval_options e;
  sn_eval_options_init(&e);
  e.replicas = e.partitions = 1;
  e.max_steps = 200000;
  e.max_bytes = INT64_C(1) << 28;
  *out = NULL;
  return sn_eval_replicated(d, m, &e, (int)m->entry->n_params, args, out);
}

static void blame(oracle *o, sn_pass_id p, int run, const sn_diag *d, const char *what) {
  if (o->run >= 0) return; /* the first one counts */
  o->pass = p;
  o->run = run;
  const sn_diagnostic *x = d && sn_diag_stored(d) ? sn_diag_get(d, 0) : NULL;
  snprintf(o->what, sizeof o->what, "%s%s%s", what, x ? ": " : "", x ? x->message : "");
}

static void after(void *ctx, sn_pass_id p, int run, const sn_module *m, bool changed) {
  check *c = ctx;
  if (!changed || c->o->run >= 0) return;
  sn_diag *d = NULL;
  sn_module *again = NULL;
  sn_array *got = NULL;
  sn_str text = {0};
  char what[256] = "";
  if (sn_diag_create(&d) != SN_OK) return;
  sn_hlo_print(&text, m, NULL);
  if (text.failed) goto done;
  if (sn_hlo_parse(d, "printed", text.data, text.n, &again) != SN_OK) blame(c->o, p, run, d, "its print does not parse");
  else if (sn_module_verify(d, again, 0) != SN_OK) blame(c->o, p, run, d, "its print is no valid module");
  else if (interpret(again, c->args, d, &got) != SN_OK) blame(c->o, p, run, d, "it does not run any more");
  else if (!same_value(c->o, got, c->want, what, sizeof what)) blame(c->o, p, run, NULL, what);
done:
  sn_array_release(got);
  sn_module_destroy(again);
  sn_str_finish(&text);
  sn_diag_destroy(d);
}

static bool run_pipeline(const sn_module *m, check *c) {
  sn_diag *d = NULL;
  sn_module *copy = NULL;
  sn_pass_options o;
  sn_pass_options_init(&o);
  static const char *const layouts[] = {"auto", "nhwc", "nchw"};
  o.numeric = c->o->numeric;
  o.layout = layouts[c->o->seed % 3];
  o.verify_each = true;
  o.after = after;
  o.after_ctx = c;
  bool ok = sn_diag_create(&d) == SN_OK && sn_module_clone(m, &copy) == SN_OK;
  if (ok && sn_pipeline_run(d, copy, c->o->pipeline, &o, NULL) != SN_OK) blame(c->o, SN_PASS_COUNT, 0, d, "the pipeline fails");
  if (ok && sn_diag_count(d, SN_WARNING) > 0) blame(c->o, SN_PASS_COUNT, 0, d, "the pipeline warns");
  sn_module_destroy(copy);
  sn_diag_destroy(d);
  return c->o->run < 0;
}

bool oracle_check(const sn_module *m, oracle *o, bool *skipped) {
  check c = {o, make_args(m, o->seed, o->numeric == SN_EXACT), NULL};
  o->run = -1;
  *skipped = false;
  double start = sn_time();
  if (!c.args || interpret(m, c.args, NULL, &c.want) != SN_OK || sn_time() - start > 0.5) *skipped = true;
  bool ok = *skipped || run_pipeline(m, &c);
  sn_array_release(c.want);
  oracle_args_release(m, c.args);
  return ok;
}
