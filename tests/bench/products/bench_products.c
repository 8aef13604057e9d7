/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Matrix products of ViT-B/16's training step at batch 32, beside OpenBLAS and the multiply-adds that the processor can do, all in one run:
 *
 *   forward  y[m, n]  = x[m, k] w[k, n]
 *   dx       dx[m, k] = dy[m, n] w[k, n]^T
 *   dw       dw[k, n] = x[m, k]^T dy[m, n]
 *
 * Best of several rounds, in two halves with OpenBLAS between them: the machine may be busy with something else, and threads of a library that wait for its next call by
 * running would be, if both took turns. usage: bench-products [ROUNDS [CASE…]] */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "sinter/text.h"

/* cblas.h's, where it is installed: row-major, as it is, transposed. */
typedef void (*sgemm)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

typedef enum kind { FORWARD, DX, DW, N_KINDS } kind;
static const char *const kind_names[N_KINDS] = {"forward", "dx", "dw"};

typedef struct shape { int64_t m, k, n; } shape;
static const shape shapes[] = {{6304, 768, 768}, {6304, 768, 3072}, {6304, 3072, 768}, {6304, 768, 2304}, {1024, 1024, 1024}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* What is multiplied: c[m, n] = sum over k, either operand possibly lying transposed. */
typedef struct product {
  char name[64];
  shape s;
  bool transposed_a, transposed_b;
  double flops;
} product;

static product product_of(kind k, shape s) {
  product p = {.s = s, .flops = 2.0 * (double)s.m * (double)s.k * (double)s.n};
  snprintf(p.name, sizeof p.name, "%s.%lldx%lldx%lld", kind_names[k], (long long)s.m, (long long)s.k, (long long)s.n);
  if (k == DX) p.s = (shape){s.m, s.n, s.k};
  if (k == DW) p.s = (shape){s.k, s.m, s.n};
  p.transposed_b = k == DX;
  p.transposed_a = k == DW;
  return p;
}

static sn_status build(sn_diag *d, const product *p, sn_module **out) {
  char text[512];
  const int64_t a[2] = {p->transposed_a ? p->s.k : p->s.m, p->transposed_a ? p->s.m : p->s.k}, b[2] = {p->transposed_b ? p->s.n : p->s.k, p->transposed_b ? p->s.k : p->s.n};
  int n = snprintf(text, sizeof text,
                   "HloModule product\nENTRY main {\n  a = f32[%lld,%lld] parameter(0)\n  b = f32[%lld,%lld] parameter(1)\n"
                   "  ROOT c = f32[%lld,%lld] dot(a, b), lhs_contracting_dims={%d}, rhs_contracting_dims={%d}\n}\n",
                   (long long)a[0], (long long)a[1], (long long)b[0], (long long)b[1], (long long)p->s.m, (long long)p->s.n, p->transposed_a ? 0 : 1, p->transposed_b ? 1 : 0);
  return sn_hlo_parse(d, p->name, text, (size_t)n, out);
}

static void fill(float *to, int64_t n, uint32_t seed) {
  for (int64_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    to[i] = (float)((double)(seed >> 8) / (double)(1 << 23) - 1);
  }
}

/* ---- one product -------------------------------------------------------------------------------------------------------------------- */

typedef struct timing { double ours, blas, error; } timing; /* seconds; error: largest difference as a share of the largest element's bound, the square root of k */

static double largest_difference(const float *x, const float *y, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; i++) {
    double e = fabs((double)x[i] - (double)y[i]);
    if (!(e <= worst)) worst = e;
  }
  return worst;
}

static void call_blas(sgemm fn, const product *p, const bench_bound *b, float *to) {
  fn(ROW_MAJOR, p->transposed_a ? TRANSPOSED : AS_IT_IS, p->transposed_b ? TRANSPOSED : AS_IT_IS, (int)p->s.m, (int)p->s.n, (int)p->s.k, 1, b->arguments[0],
     (int)(p->transposed_a ? p->s.m : p->s.k), b->arguments[1], (int)(p->transposed_b ? p->s.k : p->s.n), 0, to, (int)p->s.n);
}

static sn_status time_ours(sn_diag *d, bench_bound *b, int rounds, double *best) {
  for (int r = 0; r < rounds; r++) {
    double t = sn_time();
    SN_TRY(sn_context_run(d, b->context, b->arguments, b->results));
    t = sn_time() - t;
    if (t < *best) *best = t;
  }
  return SN_OK;
}

static void time_blas(const product *p, const bench_bound *b, sgemm fn, float *to, int rounds, double *best) {
  for (int r = 0; r < rounds; r++) {
    double t = sn_time();
    call_blas(fn, p, b, to);
    t = sn_time() - t;
    if (t < *best) *best = t;
  }
}

static sn_status time_product(sn_diag *d, const product *p, bench_bound *b, sgemm fn, float *to, int rounds, timing *out) {
  *out = (timing){INFINITY, INFINITY, 0};
  SN_TRY(time_ours(d, b, (rounds + 1) / 2, &out->ours));
  if (fn) time_blas(p, b, fn, to, rounds, &out->blas);
  SN_TRY(time_ours(d, b, rounds / 2 + 1, &out->ours)); /* the first one may still meet OpenBLAS's threads */
  if (fn) out->error = largest_difference(b->results[0], to, p->s.m * p->s.n) / sqrt((double)p->s.k);
  return SN_OK;
}

static sn_status measure(sn_diag *d, const product *p, sn_pool *pool, sgemm fn, int rounds, timing *out) {
  sn_module *m = NULL;
  sn_program *program = NULL;
  sn_compile_options o;
  bench_bound b = {0};
  int64_t bytes = p->s.m * p->s.n * (int64_t)sizeof(float);
  float *to = sn_pages_alloc((size_t)bytes);
  sn_compile_options_init(&o);
  sn_status s = to ? build(d, p, &m) : sn_out_of_memory(d, (size_t)bytes);
  if (s == SN_OK) s = sn_compile(d, m, &o, &program, NULL);
  if (s == SN_OK) s = bench_bind(d, program, pool, &b);
  for (uint32_t i = 0; s == SN_OK && i < 2; i++) fill(b.arguments[i], sn_shape_elements(sn_program_argument(program, i)->shape), i + 1);
  if (s == SN_OK) s = time_product(d, p, &b, fn, to, rounds, out);
  if (program) bench_unbind(&b);
  sn_program_release(program);
  sn_module_destroy(m);
  if (to) sn_pages_free(to, (size_t)bytes);
  return s;
}

/* ---- all of them -------------------------------------------------------------------------------------------------------------------- */

static bool wanted(const product *p, int n, char **names) {
  for (int i = 0; i < n; i++) {
    if (strstr(p->name, names[i])) return true;
  }
  return n == 0;
}

static sgemm find_blas(int threads, sn_library **library) {
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
  sgemm out = NULL;
  void (*set_threads)(int) = NULL;
  if (sn_library_open(NULL, names, sizeof names / sizeof *names, library) != SN_OK) return NULL;
  void *fn = sn_library_symbol(*library, "cblas_sgemm"), *set = sn_library_symbol(*library, "openblas_set_num_threads");
  memcpy(&out, &fn, sizeof out);
  memcpy(&set_threads, &set, sizeof set_threads);
  if (set_threads) set_threads(threads);
  return out;
}

static sn_status run(sn_diag *d, int rounds, int n_names, char **names) {
  sn_pool *pool;
  bench_machine machine;
  sn_status s = sn_pool_create(0, &pool);
  if (s != SN_OK) return s;
  sn_library *library = NULL;
  sgemm fn = find_blas(sn_pool_threads(pool), &library);
  bench_machine_describe(pool, &machine);
  if (!fn) printf("not run: OpenBLAS: no libopenblas.so with cblas_sgemm\n");
  bench_machine_measure_fma(pool, &machine);
  printf("%s, %d threads, %s: %.1f GFLOP/s of multiply-adds\n%-24s %10s %8s %10s %9s\n", machine.cpu, machine.threads, machine.isa, machine.fma_peak_gflops, "product", "GFLOP/s",
         "of peak", "OpenBLAS", "apart by");
  for (int i = 0; s == SN_OK && i < N_SHAPES * N_KINDS; i++) {
    product p = product_of((kind)(i % N_KINDS), shapes[i / N_KINDS]);
    timing t = {0};
    if (!wanted(&p, n_names, names)) continue;
    s = measure(d, &p, pool, fn, rounds, &t);
    if (s != SN_OK) break;
    double ours = p.flops / t.ours * 1e-9;
    printf("%-24s %10.1f %6.1f %% %10.1f %9.1e\n", p.name, ours, 100 * ours / machine.fma_peak_gflops, fn ? p.flops / t.blas * 1e-9 : 0, t.error);
    fflush(stdout);
    /* Both round each of k sums, which grow as their square root: differences are about 2^-24 sqrt(k / 2) of the last one; the largest of millions is six times that. */
    if (!(t.error < 8 * 0x1p-24 * sqrt((double)p.s.k))) s = sn_error(d, SN_NOWHERE, SN_ERR_INTERNAL, "%s: differs from OpenBLAS", p.name);
  }
  sn_library_close(library);
  sn_pool_destroy(pool);
  return s;
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 10;
  sn_diag *d;
  if (rounds < 1) {
    fprintf(stderr, "usage: bench-products [ROUNDS [CASE…]]\n");
    return 2;
  }
  if (sn_diag_create(&d) != SN_OK) return 1;
  if (!sn_compiler_available(d)) {
    printf("not run: products: %s\n", sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "no compiler");
    sn_diag_destroy(d);
    return 77;
  }
  sn_status s = run(d, rounds, argc > 2 ? argc - 2 : 0, argv + 2);
  if (s != SN_OK) sn_diag_print(d, stderr, false);
  sn_diag_destroy(d);
  return s == SN_OK ? 0 : 1;
}
