/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

double uniform(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(*seed >> 11) / 9007199254740992.0;
}

int64_t pick(uint64_t *seed, int64_t lo, int64_t hi) { return lo + (int64_t)(uniform(seed) * (double)(hi - lo + 1)); }

static bool seen[SN_OP_COUNT]; /* tests run in this process (main.c) */

bool op_was_seen(sn_opcode op) { return seen[op]; }

static void note_ops(const sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) SN_FOR_INSTRS(i, c) seen[i->op] = true;
}

int64_t count_of(const in_spec *s) {
  int64_t n = 1;
  for (int k = 0; k < s->rank; k++) n *= s->dims[k];
  return n;
}

static double *draw_from(int64_t n, double lo, double hi, uint64_t *seed) {
  double *v = malloc((size_t)(n ? n : 1) * sizeof *v);
  for (int64_t k = 0; k < n; k++) v[k] = lo + (hi - lo) * uniform(seed);
  return v;
}

double *draw(const in_spec *s, uint64_t *seed) {
  bool standard = s->lo == 0 && s->hi == 0;
  return draw_from(count_of(s), standard ? -1 : s->lo, standard ? 1 : s->hi, seed);
}

static void print_diag(sn_diag *d, const char *name) {
  if (!sn_diag_count(d, SN_ERROR)) return;
  fprintf(stderr, "%s:\n", name);
  sn_diag_print(d, stderr, false);
}

void run_f64(const sn_module *m, int n, double *const *args, int n_out, double **out) {
  sn_array *in[64], *result = NULL;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  for (int k = 0; k < n; k++)
    ck_assert_int_eq(sn_array_create_from(m->entry->params[k]->shape, args[k], &in[k]), SN_OK);
  sn_eval_options o;
  sn_eval_options_init(&o);
  sn_status s = sn_eval(d, m, &o, n, in, &result);
  print_diag(d, m->name);
  ck_assert_int_eq(s, SN_OK);
  for (int k = 0; k < n_out; k++) {
    const sn_array *e = sn_array_element(result, k);
    ck_assert_int_eq(sn_array_shape(e)->type, SN_TYPE_F64);
    out[k] = malloc(sn_array_bytes(e) + 1);
    memcpy(out[k], sn_array_data(e), sn_array_bytes(e));
  }
  for (int k = 0; k < n; k++) sn_array_release(in[k]);
  sn_array_release(result);
  sn_diag_destroy(d);
}

sn_module *finish(sn_graph *g, const char *name) {
  sn_module *m;
  sn_diag *d;
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  sn_status s = sn_graph_finish(g, d, &m);
  print_diag(d, name);
  ck_assert_msg(s == SN_OK, "%s: %s", name, sn_status_text(s));
  sn_diag_destroy(d);
  sn_graph_destroy(g);
  return m;
}

/* ---- gradients ---- */

static double dot(int64_t n, const double *x, const double *y) {
  double s = 0;
  for (int64_t k = 0; k < n; k++) s += x[k] * y[k];
  return s;
}

static sn_graph *inputs(const char *name, int n, const in_spec *s, sn_tensor *x) {
  sn_graph *g;
  ck_assert_int_eq(sn_graph_create(name, &g), SN_OK);
  for (int k = 0; k < n; k++) x[k] = sn_parameter(g, SN_TYPE_F64, s[k].rank, s[k].dims, NULL);
  return g;
}

/* y alone, at args + h * v. */
static double *value_at(const char *name, sn_fn fn, void *ctx, int n, const in_spec *s, double *const *args,
                        double *const *v, double h, int64_t *count) {
  sn_tensor x[MAX_IN + 1], y = {0};
  sn_graph *g = inputs(name, n, s, x);
  fn(ctx, g, n, x, 1, &y);
  *count = sn_tensor_elements(y);
  sn_output(g, y, "y");
  sn_module *m = finish(g, name);
  note_ops(m);
  double *moved[MAX_IN + 1] = {NULL}, *out;
  for (int k = 0; k < n; k++) {
    int64_t c = count_of(&s[k]);
    moved[k] = malloc((size_t)(c ? c : 1) * sizeof(double));
    for (int64_t j = 0; j < c; j++) moved[k][j] = args[k][j] + h * v[k][j];
  }
  run_f64(m, n, moved, 1, &out);
  for (int k = 0; k < n; k++) free(moved[k]);
  sn_module_destroy(m);
  return out;
}

/* Both modes of fn at args along v, with cotangent w. mode_out: y, Jv, then J'w by input. */
static void check_modes(const char *name, sn_fn fn, void *ctx, int n, const in_spec *s, uint64_t *seed, int skip) {
  double *args[MAX_IN + 1] = {NULL}, *v[MAX_IN + 1] = {NULL};
  for (int k = 0; k < n; k++) args[k] = draw(&s[k], seed), v[k] = draw_from(count_of(&s[k]), -1, 1, seed);
  /* Central differences at h are off by h^2 f''' / 6 and by rounding / h: 1e-5 leaves about 1e-9 of each for values of
   * size 1. */
  const double h = 1e-5;
  int64_t ny;
  double *up = value_at(name, fn, ctx, n, s, args, v, h, &ny), *down = value_at(name, fn, ctx, n, s, args, v, -h, &ny);
  double *w = draw_from(ny, -1, 1, seed), scale = 1;

  sn_tensor x[MAX_IN + 1], t[MAX_IN + 1], y = {0}, jv = {0}, back[MAX_IN + 1];
  sn_graph *g = inputs(name, n, s, x);
  for (int k = 0; k < n; k++) t[k] = sn_parameter(g, SN_TYPE_F64, s[k].rank, s[k].dims, NULL);
  fn(ctx, g, n, x, 1, &y);
  sn_tensor ct = sn_parameter(g, SN_TYPE_F64, sn_tensor_rank(y), sn_tensor_dims(y), "ct");
  bool forward = !(skip & SKIP_FORWARD), reverse = !(skip & SKIP_REVERSE);
  if (forward) {
    sn_jvp(1, &y, n, x, t, &jv);
    sn_output(g, jv, "jv");
  }
  if (reverse) {
    sn_vjp(1, &y, &ct, n, x, back);
    for (int k = 0; k < n; k++) sn_output(g, back[k], "back");
  }
  sn_output(g, y, "y");
  int n_out = (int)forward + (reverse ? n : 0) + 1;
  sn_module *m = finish(g, name);
  double *all[2 * MAX_IN + 3] = {NULL}, *out[MAX_IN + 3] = {NULL};
  for (int k = 0; k < n; k++) all[k] = args[k], all[n + k] = v[k];
  all[2 * n] = w;
  run_f64(m, 2 * n + 1, all, n_out, out);
  double fd = 0, vback = 0;
  for (int64_t j = 0; j < ny; j++) {
    double diff = (up[j] - down[j]) / (2 * h);
    fd += diff * w[j];
    scale = fmax(scale, fabs(diff));
    if (forward)
      ck_assert_msg(fabs(diff - out[0][j]) <= 2e-6 * scale, "%s: element %lld: forward %.12g, differences %.12g", name,
                    (long long)j, out[0][j], diff);
  }
  if (reverse) {
    for (int k = 0; k < n; k++) vback += dot(count_of(&s[k]), v[k], out[forward + k]);
    double exact = forward ? dot(ny, out[0], w) : fd;
    /* the two modes differ by rounding of sums alone */
    double tol = forward ? 1e-9 : 2e-6;
    ck_assert_msg(fabs(vback - exact) <= tol * scale * (double)(ny + 1), "%s: <v, J'w> %.15g, <Jv, w> %.15g", name,
                  vback, exact);
  }
  for (int k = 0; k < n_out; k++) free(out[k]);
  for (int k = 0; k < n; k++) free(args[k]), free(v[k]);
  free(up), free(down), free(w);
  sn_module_destroy(m);
}

/* x -> sum over inputs of <gradient of sum(fn^2), fixed weights>: differentiating this differentiates the derivative.
 */
void gradient_of(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  const under_test *u = ctx;
  (void)n_out;
  sn_tensor y, grads[MAX_IN], total = {0};
  u->fn(u->ctx, g, n, in, 1, &y);
  sn_tensor loss = sn_mul_c(sn_sum(sn_square(y), SN_ALL, false), 0.5);
  sn_grad(loss, n, in, grads);
  for (int k = 0; k < n; k++) {
    sn_tensor part = sn_sum(sn_sin(grads[k]), SN_ALL, false);
    total = total.instr ? sn_add(total, part) : part;
  }
  out[0] = total;
}

/* SINTER_CASE=NAME runs one case of a table alone. */
bool case_wanted(const grad_case *c) {
  const char *only = getenv("SINTER_CASE");
  return !only || !strcmp(only, c->name);
}

void check_gradients_with(const grad_case *c, void *ctx, uint64_t seed) {
  check_modes(c->name, c->fn, ctx, c->n, c->in, &seed, c->skip);
  if (c->skip & (SKIP_SECOND | SKIP_REVERSE)) return;
  under_test u = {c->fn, ctx};
  check_modes(c->name, gradient_of, &u, c->n, c->in, &seed, c->skip);
}

void check_gradients(const grad_case *c) {
  if (!case_wanted(c)) return;
  uint64_t seed = 1;
  for (const char *p = c->name; *p; p++) seed = seed * 131 + (uint64_t)*p;
  check_gradients_with(c, NULL, seed);
}

void check_error(sn_graph *g, sn_status status, const char *text) {
  ck_assert_int_eq(sn_graph_status(g), status);
  const sn_diagnostic *e = sn_diag_get(sn_graph_diag(g), 0);
  ck_assert_ptr_nonnull(e);
  ck_assert_msg(strstr(e->message, text) != NULL, "message: %s", e->message);
  ck_assert_ptr_nonnull(e->loc.file);
}
