/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Single convolutions of the sizes of ResNet-50 and of MobileNet, beside the multiply-adds that the processor can do:
 *
 *   forward  y  = conv(x, w)             window k x k, padded by k / 2
 *   dx       dx = conv(dy, w)            dy dilated by the stride, w's features exchanged
 *   dw       dw = conv(x, dy)            batch and features exchanged, dy's image as the window
 *
 * each with channels last (NHWC, HWIO) and first (NCHW, OIHW), in that order of dimensions and in the one that layout assignment chooses, copies counted. A multiply-add of the padding, or of a zero between dilated elements, does not count.
 * Best of several rounds. usage: bench-convolutions [ROUNDS [CASE…]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "sinter/text.h"

typedef enum kind { FORWARD, DX, DW, N_KINDS } kind;
static const char *const kind_names[N_KINDS] = {"forward", "dx", "dw"};

typedef struct shape {
  const char *name;
  int64_t images, size, in, out, window, stride, groups; /* size: of the image, rows and columns */
} shape;
static const shape shapes[] = {
    {"3x3.64.56", 8, 56, 64, 64, 3, 1, 1},      {"3x3.256.14", 8, 14, 256, 256, 3, 1, 1}, {"3x3.512.7", 8, 7, 512, 512, 3, 1, 1},
    {"1x1.256-64.56", 8, 56, 256, 64, 1, 1, 1}, {"7x7s2.3-64.224", 8, 224, 3, 64, 7, 2, 1}, {"3x3s2.128.56", 8, 56, 128, 128, 3, 2, 1},
    {"1x1s2.256-512.56", 8, 56, 256, 512, 1, 2, 1}, {"depthwise.96.56", 8, 56, 96, 96, 3, 1, 96}, {"3x3.8-16.12", 4, 12, 8, 16, 3, 1, 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_CASES = N_SHAPES * N_KINDS * 2 };

typedef struct convolution {
  char name[64];
  const shape *s;
  kind k;
  bool channels_first;
  double flops;
} convolution;

static int64_t result_size(const shape *s) { return (s->size + 2 * (s->window / 2) - s->window) / s->stride + 1; }

/* Of grouped ones the forward alone; names end in the layout. */
static bool case_of(int number, convolution *c) {
  *c = (convolution){.s = &shapes[number / (2 * N_KINDS)], .k = (kind)(number / 2 % N_KINDS), .channels_first = number % 2 == 1};
  int64_t out = result_size(c->s);
  c->flops = 2.0 * (double)(c->s->images * out * out * c->s->out) * (double)(c->s->window * c->s->window * c->s->in / c->s->groups);
  snprintf(c->name, sizeof c->name, "%s.%s.%s", c->s->name, kind_names[c->k], c->channels_first ? "nchw" : "nhwc");
  return c->k == FORWARD || c->s->groups == 1;
}

/* ---- as HLO ---- */

/* An array of images, kernels or their gradients: its dimensions in the layout's order. */
static void dims_of(const convolution *c, bool kernel, int64_t outer, int64_t size, int64_t inner, int64_t *dims) {
  const int64_t last[2][4] = {{outer, size, size, inner}, {size, size, inner, outer}}, first[4] = {outer, inner, size, size};
  memcpy(dims, c->channels_first ? first : last[kernel], sizeof first);
}

static int write_dims(char *to, size_t bytes, const int64_t *d) { return snprintf(to, bytes, "f32[%lld,%lld,%lld,%lld]", (long long)d[0], (long long)d[1], (long long)d[2], (long long)d[3]); }

static sn_status build(sn_diag *d, const convolution *c, sn_module **out) {
  static const char *const labels[N_KINDS][2] = {{"b01f_01io->b01f", "bf01_oi01->bf01"}, {"b01f_01oi->b01f", "bf01_io01->bf01"}, {"f01b_i01o->01bf", "fb01_io01->fb01"}};
  const shape *s = c->s;
  int64_t small = result_size(s), pad = s->window / 2, dilated = (small - 1) * s->stride + 1, dims[4];
  char x[64], w[64], y[64], window[128], text[1024];
  dims_of(c, false, s->images, s->size, s->in, dims);
  write_dims(x, sizeof x, dims);
  dims_of(c, true, s->out, s->window, s->in / s->groups, dims);
  write_dims(w, sizeof w, dims);
  dims_of(c, false, s->images, small, s->out, dims);
  write_dims(y, sizeof y, dims);
  const char *const a[N_KINDS] = {x, y, x}, *const b[N_KINDS] = {w, w, y}, *const r[N_KINDS] = {y, x, w};
  long long k = (long long)s->window, low = (long long)pad, high = low, stride = (long long)s->stride;
  if (c->k == DX) {
    low = k - 1 - low;
    high = (long long)(s->size - dilated) + k - 1 - low;
    snprintf(window, sizeof window, "size=%lldx%lld pad=%lld_%lldx%lld_%lld lhs_dilate=%lldx%lld", k, k, low, high, low, high, stride, stride);
  } else if (c->k == DW) {
    high = k - 1 - (long long)(s->size - dilated) - low;
    snprintf(window, sizeof window, "size=%lldx%lld pad=%lld_%lldx%lld_%lld rhs_dilate=%lldx%lld", (long long)small, (long long)small, low, high, low, high, stride, stride);
  } else {
    snprintf(window, sizeof window, "size=%lldx%lld pad=%lld_%lldx%lld_%lld stride=%lldx%lld", k, k, low, high, low, high, stride, stride);
  }
  int n = snprintf(text, sizeof text,
                   "HloModule convolution\nENTRY main {\n  a = %s parameter(0)\n  b = %s parameter(1)\n"
                   "  ROOT c = %s convolution(a, b), window={%s}, dim_labels=%s, feature_group_count=%lld\n}\n",
                   a[c->k], b[c->k], r[c->k], window, labels[c->k][c->channels_first], (long long)s->groups);
  return sn_hlo_parse(d, c->name, text, (size_t)n, out);
}

/* ---- one convolution ---- */

static void fill(float *to, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    to[i] = (float)((double)(seed >> 8) / (double)(1 << 23) - 1);
  }
}

static sn_status time_runs(sn_diag *d, bench_bound *b, int rounds, double *best) {
  for (int r = 0; r < rounds; r++) {
    double t = sn_time();
    SN_TRY(sn_context_run(d, b->context, b->arguments, b->results));
    t = sn_time() - t;
    if (t < *best) *best = t;
  }
  return SN_OK;
}

static sn_status measure(sn_diag *d, const convolution *c, const char *layout, sn_pool *pool, int rounds, double *seconds) {
  sn_module *m = NULL;
  sn_program *program = NULL;
  sn_compile_options o;
  bench_bound b = {0};
  *seconds = INFINITY;
  sn_compile_options_init(&o);
  o.passes.layout = layout;
  sn_status s = build(d, c, &m);
  if (s == SN_OK) s = sn_compile(d, m, &o, &program, NULL);
  if (s == SN_OK) s = bench_bind(d, program, pool, &b);
  for (uint32_t i = 0; s == SN_OK && i < 2; i++) fill(b.arguments[i], sn_shape_elements(sn_program_argument(program, i)->shape), i + 1);
  if (s == SN_OK) s = time_runs(d, &b, rounds, seconds);
  if (program) bench_unbind(&b);
  sn_program_release(program);
  sn_module_destroy(m);
  return s;
}

static bool wanted(const convolution *c, int n, char **names) {
  for (int i = 0; i < n; i++) {
    if (strstr(c->name, names[i])) return true;
  }
  return n == 0;
}

static sn_status run(sn_diag *d, int rounds, int n_names, char **names) {
  sn_pool *pool;
  bench_machine machine;
  sn_status s = sn_pool_create(0, &pool);
  if (s != SN_OK) return s;
  bench_machine_describe(pool, &machine);
  bench_machine_measure_fma(pool, &machine);
  printf("%s, %d threads, %s: %.1f GFLOP/s of multiply-adds\n%-30s %10s %10s %8s %10s\n", machine.cpu, machine.threads, machine.isa, machine.fma_peak_gflops, "convolution", "us", "GFLOP/s",
         "of peak", "us, chosen");
  for (int i = 0; s == SN_OK && i < N_CASES; i++) {
    convolution c;
    double seconds, chosen;
    if (!case_of(i, &c) || !wanted(&c, n_names, names)) continue;
    s = measure(d, &c, c.channels_first ? "nchw" : "nhwc", pool, rounds, &seconds);
    if (s == SN_OK) s = measure(d, &c, "auto", pool, rounds, &chosen);
    if (s != SN_OK) break;
    double ours = c.flops / seconds * 1e-9;
    printf("%-30s %10.0f %10.1f %6.1f %% %10.0f\n", c.name, seconds * 1e6, ours, 100 * ours / machine.fma_peak_gflops, chosen * 1e6);
    fflush(stdout);
  }
  sn_pool_destroy(pool);
  return s;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  sn_diag *d;
  if (rounds < 1) {
    fprintf(stderr, "usage: bench-convolutions [ROUNDS [CASE…]]\n");
    return 2;
  }
  if (sn_diag_create(&d) != SN_OK) return 1;
  if (!sn_compiler_available(d)) {
    printf("not run: convolutions: %s\n", sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "no compiler");
    sn_diag_destroy(d);
    return 77;
  }
  sn_status s = run(d, rounds, argc > 2 ? argc - 2 : 0, argv + 2);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  sn_diag_destroy(d);
  return s == SN_OK ? 0 : 1;
}
