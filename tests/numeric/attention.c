/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attention and its derivative as our frontend writes them: recognised, behind the pipeline in the interpreter, and as machine code.
 *
 *   numeric-attention                  machine code for this CPU
 *   numeric-attention --device=cuda    on the device that SINTER_LIBCUDA's driver offers, twice; f32 products also in tf32
 *
 * Judged by the numeric contract, in two steps: the error against the same formula in f64, on the same arguments, is at most twice that of the program as it was written, plus
 * four units in the last place of the largest value, where the interpreter runs what the passes made of it; and of the machine code at most twice that of the interpreter's run,
 * plus four units. f64 itself has no wider reference: 64 units, as sums of some fifty terms in another order need. One to four threads give the same bits.
 * On a device the original is the same engine without the pass, whose products round alike; in tf32 a unit is tf32's, for the last rounding of a factor may fall on either side. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"
#include "device_find.h"
#include "sinter/compiler.h"
#include "sinter/cost.h"
#include "sinter/device.h"
#include "sinter/gpu.h"
#include "sinter/graph.h"
#include "sinter/transforms.h"

typedef enum mask_kind { NO_MASK, CAUSAL, KEYS, BIAS } mask_kind;
typedef struct attention_case { const char *name; int64_t batch, n_q, n_k, heads, kv_heads, dim; mask_kind mask; } attention_case;

static const attention_case cases[] = {
    {"heads", 2, 17, 17, 3, 3, 16, NO_MASK},
    {"one head", 1, 50, 50, 1, 1, 20, NO_MASK},
    {"causal", 2, 33, 33, 2, 2, 8, CAUSAL},
    {"last queries", 1, 9, 21, 2, 2, 12, CAUSAL},
    {"masked keys", 2, 13, 40, 2, 2, 24, KEYS},
    {"bias", 2, 25, 19, 2, 2, 33, BIAS},
    {"shared keys", 2, 12, 14, 4, 2, 8, CAUSAL},
    {"several blocks", 1, 197, 197, 2, 2, 64, NO_MASK},
    {"a key beyond the panels", 1, 33, 65, 2, 2, 40, KEYS},
    {"more items than threads", 3, 20, 35, 4, 4, 16, NO_MASK},
    {"one head of many rows", 1, 300, 130, 1, 1, 16, NO_MASK},
};
/* What blocks of 32 rows and tiles of keys of a multiprocessor end at, and beyond what one holds. */
static const attention_case device_cases[] = {
    {"five", 1, 5, 5, 2, 2, 16, NO_MASK},     {"a tile", 1, 64, 64, 1, 1, 32, NO_MASK},  {"two widths", 2, 16, 16, 2, 1, 80, KEYS}, {"vision", 1, 197, 197, 1, 1, 64, NO_MASK},
    {"tiles of keys", 1, 40, 300, 1, 1, 64, CAUSAL}, {"many rows", 1, 300, 33, 1, 1, 32, BIAS},
};
static const char *device_target; /* NULL: this machine's CPU */

static const sn_type types[] = {SN_TYPE_F32, SN_TYPE_F64, SN_TYPE_BF16, SN_TYPE_F16};

static int failures, checks;

static void fail(const attention_case *c, sn_type t, bool backward, const char *what) {
  printf("FAILED: %s, %s, %s: %s\n", c->name, sn_type_text(t), backward ? "backward" : "forward", what);
  failures++;
}

static sn_module *build(const attention_case *c, sn_type t, bool backward) {
  sn_graph *g;
  sn_module *m = NULL;
  if (sn_graph_create("attention", &g) != SN_OK) return NULL;
  sn_tensor in[3] = {sn_parameter(g, t, SN_DIMS(c->batch, c->n_q, c->heads, c->dim), "q"), sn_parameter(g, t, SN_DIMS(c->batch, c->n_k, c->kv_heads, c->dim), "k"),
                     sn_parameter(g, t, SN_DIMS(c->batch, c->n_k, c->kv_heads, c->dim), "v")};
  sn_tensor d_out = sn_parameter(g, t, SN_DIMS(c->batch, c->n_q, c->heads, c->dim), "d_out"), d_in[3];
  sn_attention_options o = {.causal = c->mask == CAUSAL};
  if (c->mask == KEYS) o.mask = sn_parameter(g, SN_TYPE_PRED, SN_DIMS(c->batch, 1, 1, c->n_k), "mask");
  if (c->mask == BIAS) o.bias = sn_parameter(g, t, SN_DIMS(c->heads, c->n_q, c->n_k), "bias");
  sn_tensor out = sn_attention(in[0], in[1], in[2], &o);
  sn_output(g, out, "out");
  if (backward) {
    sn_vjp(1, &out, &d_out, 3, in, d_in);
    for (int k = 0; k < 3; k++) sn_output(g, d_in[k], "d");
  }
  if (sn_graph_finish(g, NULL, &m) != SN_OK) m = NULL;
  sn_graph_destroy(g);
  return m;
}

/* The same values in f64. */
static sn_array **widened(const sn_module *wide, sn_array **args) {
  sn_array **out = oracle_args_plain(wide, 1);
  for (uint32_t k = 0; out && k < wide->entry->n_params; k++) {
    const sn_shape *from = sn_array_shape(args[k]), *to = sn_array_shape(out[k]);
    const char *p = sn_array_data(args[k]);
    char *q = sn_array_data(out[k]);
    for (int64_t i = 0; i < sn_shape_elements(to); i++) {
      if (to->type == SN_TYPE_PRED) q[i] = p[i];
      else sn_store_f64(to->type, q + (size_t)i * sn_type_bytes(to->type), sn_load_f64(from->type, p + (size_t)i * sn_type_bytes(from->type)));
    }
  }
  return out;
}

/* ---- judging ---- */

static double element(const sn_array *a, int64_t i) {
  sn_type t = sn_array_shape(a)->type;
  return sn_load_f64(t, (const char *)sn_array_data(a) + (size_t)i * sn_type_bytes(t));
}

static const sn_array *leaf(const sn_array *a, int k) { return sn_shape_is_tuple(sn_array_shape(a)) ? sn_array_element(a, k) : a; }

static double error_of(const sn_array *got, const sn_array *want, double *scale) {
  double worst = 0;
  *scale = 0;
  for (int64_t i = 0; i < sn_shape_elements(sn_array_shape(want)); i++) {
    double x = element(got, i), y = element(want, i), e = isnan(x) && isnan(y) ? 0 : fabs(x - y);
    if (!(e <= worst)) worst = isnan(e) ? INFINITY : e;
    if (fabs(y) > *scale) *scale = fabs(y);
  }
  return worst;
}

static void judge(const attention_case *c, sn_type t, bool backward, const char *how, int bits, const sn_array *got, const sn_array *written, const sn_array *exact) {
  for (int k = 0; k < (backward ? 4 : 1); k++) {
    double scale, original = error_of(leaf(written, k), leaf(exact, k), &scale), error = error_of(leaf(got, k), leaf(exact, k), &scale);
    double most = 2 * original + (t == SN_TYPE_F64 ? 64 : 4) * ldexp(scale, -bits);
    char text[160];
    checks++;
    if (getenv("SINTER_TEST_VERBOSE")) printf("%s, %s: %s, result %d: error %.3g, as written %.3g, a unit %.3g\n", c->name, sn_type_text(t), how, k, error, original, ldexp(scale, -bits));
    if (error <= most) continue;
    snprintf(text, sizeof text, "%s, result %d: error %.3g, allowed %.3g (as written %.3g)", how, k, error, most, original);
    fail(c, t, backward, text);
  }
}

/* ---- running ---- */

static sn_array *run(sn_diag *d, sn_program *p, sn_pool *pool, uint32_t n_args, sn_array **args) {
  sn_context *x = NULL;
  sn_context_options o;
  sn_array *results[4] = {NULL}, *out = NULL;
  sn_context_options_init(&o);
  o.pool = pool;
  for (uint32_t k = 0; k < n_args; k++) sn_array_retain(args[k]);
  sn_status s = sn_context_create(d, p, &o, &x);
  if (s == SN_OK) s = sn_context_call(d, x, args, results);
  for (int k = 0; s == SN_OK && pool && device_target && k < 4; k++) {
    sn_array_release(results[k]);
    results[k] = NULL;
  }
  if (s == SN_OK && pool && device_target) s = sn_context_call(d, x, args, results);
  if (s == SN_OK && sn_program_n_results(p) == 1) out = sn_array_retain(results[0]);
  else if (s == SN_OK && sn_array_create_tuple((int)sn_program_n_results(p), results, &out) != SN_OK) out = NULL;
  for (uint32_t k = 0; k < n_args; k++) sn_array_release(args[k]);
  for (int k = 0; k < 4; k++) sn_array_release(results[k]);
  sn_context_destroy(x);
  return out;
}

static bool same_bits(const sn_array *a, const sn_array *b, int n) {
  for (int k = 0; k < n; k++) {
    if (memcmp(sn_array_data(leaf(a, k)), sn_array_data(leaf(b, k)), sn_array_bytes(leaf(a, k))) != 0) return false;
  }
  return true;
}

static int count_fusions(const sn_module *m) {
  int n = 0;
  SN_FOR_INSTRS(i, m->entry) n += i->op == SN_OP_FUSION && sn_hero_of(i) == SN_HERO_ATTENTION;
  return n;
}

/* *out: what the interpreter makes of the module behind the pipeline; NULL where that fails. */
static void check_passes(sn_diag *d, const attention_case *c, sn_type t, bool backward, const sn_module *m, sn_array **args, const sn_array *written, const sn_array *exact, sn_array **out) {
  sn_pass_options o;
  sn_module *after = NULL;
  *out = NULL;
  sn_pass_options_init(&o);
  if (sn_module_clone(m, &after) != SN_OK || sn_pipeline_run(d, after, device_target ? "cuda" : "cpu", &o, NULL) != SN_OK) fail(c, t, backward, "the pipeline fails");
  else if (count_fusions(after) != (backward ? 2 : 1)) fail(c, t, backward, "it is not recognised");
  else if (sn_eval(d, after, NULL, (int)after->entry->n_params, args, out) != SN_OK) fail(c, t, backward, "the interpreter fails behind the pipeline");
  else judge(c, t, backward, "interpreter", sn_types[t].mantissa_bits, *out, written, exact);
  sn_module_destroy(after);
}

enum { MOST_THREADS = 4 };

/* pools[n]: of n threads; NULL for one. */
static void check_code(sn_diag *d, const attention_case *c, sn_type t, bool backward, const sn_module *m, sn_pool *const *pools, sn_array **args, const sn_array *after, const sn_array *exact) {
  sn_compile_options o;
  sn_program *p = NULL;
  uint32_t n = m->entry->n_params;
  sn_compile_options_init(&o);
  o.pool = pools[2];
  if (sn_compile(d, m, &o, &p, NULL) != SN_OK) {
    fail(c, t, backward, "does not compile");
    return;
  }
  sn_array *one = run(d, p, NULL, n, args);
  if (one) judge(c, t, backward, "code", sn_types[t].mantissa_bits, one, after, exact);
  for (int k = 2; k <= MOST_THREADS; k++) {
    sn_array *several = run(d, p, pools[k], n, args);
    if (!one || !several) fail(c, t, backward, "does not run");
    else if (!same_bits(one, several, backward ? 4 : 1)) fail(c, t, backward, "several threads give other bits than one");
    sn_array_release(several);
  }
  sn_array_release(one);
  sn_program_release(p);
}

/* NULL: it has failed. Device programs run twice, the second time as a graph. */
static sn_array *run_on_device(sn_diag *d, const attention_case *c, sn_type t, bool backward, const char *how, const char *precision, const sn_module *m, sn_pool *pool, sn_array **args) {
  sn_compile_options o;
  sn_program *p = NULL;
  sn_array *one = NULL, *two = NULL;
  sn_compile_options_init(&o);
  o.pool = pool;
  o.target = device_target;
  o.precision = precision;
  o.passes.attention = how;
  if (sn_compile(d, m, &o, &p, NULL) != SN_OK) fail(c, t, backward, "does not compile");
  else if (!(one = run(d, p, NULL, m->entry->n_params, args)) || !(two = run(d, p, pool, m->entry->n_params, args))) fail(c, t, backward, "does not run");
  else if (!same_bits(one, two, backward ? 4 : 1)) fail(c, t, backward, "a second run gives other bits");
  sn_array_release(two);
  sn_program_release(p);
  return one;
}

static void check_device(sn_diag *d, const attention_case *c, sn_type t, bool backward, const char *precision, const sn_module *m, sn_pool *pool, sn_array **args, const sn_array *exact) {
  sn_array *fused = run_on_device(d, c, t, backward, "fused", precision, m, pool, args), *eager = run_on_device(d, c, t, backward, "eager", precision, m, pool, args);
  if (fused && eager) judge(c, t, backward, precision, strcmp(precision, "tf32") == 0 ? 10 : sn_types[t].mantissa_bits, fused, eager, exact);
  sn_array_release(fused);
  sn_array_release(eager);
}

static void check(const attention_case *c, sn_type t, bool backward, sn_pool *const *pools) {
  sn_module *m = build(c, t, backward), *wide = build(c, SN_TYPE_F64, backward);
  sn_array **args = m ? oracle_args_plain(m, 7) : NULL, **wide_args = args && wide ? widened(wide, args) : NULL, *written = NULL, *exact = NULL, *after = NULL;
  sn_diag *d = NULL;
  if (!wide_args || sn_diag_create(&d) != SN_OK) {
    fail(c, t, backward, "cannot be built");
  } else if (sn_eval(d, m, NULL, (int)m->entry->n_params, args, &written) != SN_OK || sn_eval(d, wide, NULL, (int)wide->entry->n_params, wide_args, &exact) != SN_OK) {
    fail(c, t, backward, "the interpreter fails");
  } else {
    check_passes(d, c, t, backward, m, args, written, exact, &after);
    if (after && device_target) check_device(d, c, t, backward, "program", m, pools[2], args, exact);
    if (after && device_target && t == SN_TYPE_F32) check_device(d, c, t, backward, "tf32", m, pools[2], args, exact);
    if (after && !device_target) check_code(d, c, t, backward, m, pools, args, after, exact);
  }
  if (d && sn_diag_stored(d)) sn_diag_print(d, stdout, false);
  sn_array_release(written);
  sn_array_release(exact);
  sn_array_release(after);
  if (args) oracle_args_release(m, args);
  if (wide_args) oracle_args_release(wide, wide_args);
  sn_module_destroy(m);
  sn_module_destroy(wide);
  sn_diag_destroy(d);
}

static void check_all(const attention_case *list, size_t n, sn_pool *const *pools, const char *only) {
  for (size_t k = 0; k < n; k++) {
    if (only && strcmp(only, list[k].name) != 0) continue;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
      if (device_target && types[t] == SN_TYPE_F64) continue; /* stays as it was written there: tests/text/passes/attention-fusion */
      bool narrow = types[t] != SN_TYPE_F32;
      if (device_target && narrow && list[k].mask == NO_MASK) continue; /* minutes in the emulator: once whole and once by tiles of keys will do */
      if (!device_target || !narrow) check(&list[k], types[t], false, pools);
      check(&list[k], types[t], true, pools);
    }
  }
}

int main(int argc, char **argv) {
  sn_pool *pools[MOST_THREADS + 1] = {NULL};
  const char *only = argc > 2 ? argv[2] : NULL;
  bool on_device = argc > 1 && strncmp(argv[1], "--device=", 9) == 0;
  if (on_device && !device_find("numeric-attention", argv[1] + 9, &device_target)) return 77;
  if (!on_device && !sn_compiler_available(NULL)) {
    printf("not run: numeric-attention: libsinter-llvm.so is not there\n");
    return 77;
  }
  for (int k = 2; k <= MOST_THREADS; k++) {
    if (sn_pool_create(k, &pools[k]) != SN_OK) return 1;
  }
  if (on_device) check_all(device_cases, sizeof device_cases / sizeof *device_cases, pools, only);
  else check_all(cases, sizeof cases / sizeof *cases, pools, only);
  for (int k = 2; k <= MOST_THREADS; k++) sn_pool_destroy(pools[k]);
  printf("%d results judged, %d failures\n", checks, failures);
  return failures != 0 || checks == 0;
}
