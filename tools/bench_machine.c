/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the machine can do: multiply-adds, memory, the cost of a command. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_fma.h"
#include "sinter/graph.h"
#include "sinter/target.h"

/* ---- instruction sets ------------------------------------------------------------------------------------------------------------------ */

typedef struct level {
  const char *name;
  float (*fma)(int64_t n, double *flops);
  void (*scale)(float *to, const float *from, int64_t n);
} level;

static level find_level(void) {
#ifdef BENCH_X86
  if (__builtin_cpu_supports("avx512f")) return (level){"avx512", bench_fma_v4, bench_scale_v4};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return (level){"avx2+fma", bench_fma_v3, bench_scale_v3};
  return (level){"sse2", bench_fma_base, bench_scale_base};
#elif defined(__aarch64__)
  return (level){"neon", bench_fma_base, bench_scale_base};
#else
  return (level){"portable", bench_fma_base, bench_scale_base};
#endif
}

/* The model's name, and whether it has matrix tiles: what the kernel says of the first processor. */
static void read_cpuinfo(char *cpu, size_t n, bool *amx) {
  char *text = NULL, *at;
  size_t bytes;
  snprintf(cpu, n, "unknown");
  *amx = false;
  if (sn_file_read(NULL, "/proc/cpuinfo", &text, &bytes) != SN_OK) return;
  *amx = strstr(text, " amx_tile") != NULL;
  at = strstr(text, "model name");
  if (at && (at = strchr(at, ':')) != NULL) snprintf(cpu, n, "%.*s", (int)strcspn(at + 2, "\n"), at + 2);
  sn_free(text);
}

void bench_machine_describe(sn_pool *pool, bench_machine *m) {
  bool amx;
  memset(m, 0, sizeof *m);
  read_cpuinfo(m->cpu, sizeof m->cpu, &amx);
  snprintf(m->isa, sizeof m->isa, "%s%s", find_level().name, amx ? "+amx" : "");
  m->threads = sn_pool_threads(pool);
}

/* ---- multiply-adds ------------------------------------------------------------------------------------------------------------------------ */

/* Pieces are short and several, so that a thread that comes late takes fewer of them; rounds are short and many, so that one falls between what others do. */
enum { PIECES_A_THREAD = 4, FMA_ROUNDS = 60 };
static const double piece_s = 0.5e-3;

typedef struct fma_job {
  level l;
  int64_t n;
  double flops; /* a piece */
  float *sinks; /* one a piece */
} fma_job;

static void fma_piece(void *ctx, int64_t item, int worker) {
  fma_job *j = ctx;
  double flops;
  (void)worker;
  j->sinks[item] = j->l.fma(j->n, &flops);
}

/* How many rounds take a piece's time on one thread. */
static void calibrate(fma_job *j) {
  for (j->n = 1024; j->n < INT64_C(1) << 40; j->n *= 2) {
    double t = sn_time();
    j->sinks[0] = j->l.fma(j->n, &j->flops);
    if (sn_time() - t >= piece_s) return;
  }
}

void bench_machine_measure_fma(sn_pool *pool, bench_machine *m) {
  int64_t pieces = (int64_t)sn_pool_threads(pool) * PIECES_A_THREAD;
  fma_job j = {.l = find_level(), .sinks = sn_alloc_zero((size_t)pieces, sizeof(float))};
  if (!j.sinks) return;
  calibrate(&j);
  for (int r = 0; r < FMA_ROUNDS; r++) {
    double t = sn_time();
    sn_pool_run(pool, pieces, fma_piece, &j);
    double gflops = j.flops * (double)pieces / (sn_time() - t) * 1e-9;
    if (gflops > m->fma_peak_gflops) m->fma_peak_gflops = gflops;
  }
  sn_free(j.sinks);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------------------------- */

enum { MEMORY_FLOATS = 1 << 25, MEMORY_PIECE = 1 << 16, MEMORY_ROUNDS = 8 }; /* two buffers of 128 MiB */

typedef struct memory_job {
  level l;
  float *to, *from;
} memory_job;

static void memory_piece(void *ctx, int64_t item, int worker) {
  memory_job *j = ctx;
  (void)worker;
  j->l.scale(j->to + item * MEMORY_PIECE, j->from + item * MEMORY_PIECE, MEMORY_PIECE);
}

void bench_machine_measure_memory(sn_pool *pool, bench_machine *m) {
  size_t bytes = (size_t)MEMORY_FLOATS * sizeof(float);
  memory_job j = {find_level(), sn_pages_alloc(bytes), sn_pages_alloc(bytes)};
  if (j.to && j.from) {
    for (int64_t i = 0; i < MEMORY_FLOATS; i++) j.from[i] = 1; /* untouched pages are one page of zeros */
    for (int r = 0; r < MEMORY_ROUNDS; r++) {
      double t = sn_time();
      sn_pool_run(pool, MEMORY_FLOATS / MEMORY_PIECE, memory_piece, &j);
      double gbs = 2.0 * (double)bytes / (sn_time() - t) * 1e-9;
      if (gbs > m->memory_gbs) m->memory_gbs = gbs;
    }
  }
  sn_pages_free(j.to, bytes);
  sn_pages_free(j.from, bytes);
}

/* ---- a command ---------------------------------------------------------------------------------------------------------------------------------- */

/* n functions of one number, each of the one before: op by op, a command each. */
static sn_status chain_module(sn_diag *d, int n, sn_module **out) {
  sn_graph *g;
  SN_TRY(sn_graph_create("chain", &g));
  sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_NO_DIMS, "x");
  for (int i = 0; i < n; i++) x = i % 2 ? sn_neg(x) : sn_sqrt(sn_abs(x));
  sn_output(g, x, "y");
  sn_status s = sn_graph_finish(g, d, out);
  sn_graph_destroy(g);
  return s;
}

static sn_status run_bound(void *ctx, sn_diag *d) {
  bench_bound *b = ctx;
  return sn_context_run(d, b->context, b->arguments, b->results);
}

static sn_status time_chain(sn_diag *d, int n, double *seconds, uint32_t *commands) {
  sn_module *m = NULL;
  sn_program *p = NULL;
  sn_compile_options o;
  bench_bound b;
  bench_times t;
  memset(&b, 0, sizeof b);
  memset(&t, 0, sizeof t);
  sn_compile_options_init(&o);
  o.engine = "op-by-op";
  sn_status s = chain_module(d, n, &m);
  if (s == SN_OK) s = sn_compile(d, m, &o, &p, NULL);
  if (s == SN_OK) s = bench_bind(d, p, NULL, &b);
  if (s == SN_OK) s = bench_time(d, run_bound, &b, 51, 10, &t);
  if (s == SN_OK) *commands = sn_program_n_commands(p);
  *seconds = t.best;
  bench_unbind(&b);
  sn_program_release(p);
  sn_module_destroy(m);
  return s;
}

/* Microseconds one more command takes; 0 where this machine cannot compile. */
static double measure_launch(void) {
  double few = 0, many = 0;
  uint32_t n_few = 0, n_many = 0;
  if (time_chain(NULL, 2, &few, &n_few) != SN_OK || time_chain(NULL, 130, &many, &n_many) != SN_OK || n_many <= n_few) return 0;
  return (many - few) / (double)(n_many - n_few) * 1e6;
}

/* ---- the description ------------------------------------------------------------------------------------------------------------------------------ */

sn_status bench_machine_write(sn_diag *d, sn_pool *pool, bench_machine *m, const char *path) {
  sn_arena *a;
  sn_target t;
  sn_str text = {0};
  bench_machine_measure_fma(pool, m);
  bench_machine_measure_memory(pool, m);
  double launch = measure_launch();
  if (sn_arena_create(&a) != SN_OK) return sn_out_of_memory(d, 1);
  sn_status s = sn_target_find(d, a, "native", &t);
  if (s == SN_OK) {
    sn_str_printf(&text, "# %s, %d threads, %s: measured by sinter-bench --machine; use it with SINTER_MACHINE=FILE\n", m->cpu, m->threads, m->isa);
    sn_str_printf(&text, "cores = %d\nfma_gflops = %.1f\nmemory_gbs = %.1f\n", m->threads, m->fma_peak_gflops, m->memory_gbs);
    if (launch > 0) sn_str_printf(&text, "launch_us = %.3f\n", launch);
    sn_str_printf(&text, "l1_bytes = %lld\nl2_bytes = %lld\nl3_bytes = %lld\n", (long long)t.l1_bytes, (long long)t.l2_bytes, (long long)t.l3_bytes);
    s = text.failed ? sn_out_of_memory(d, text.n) : sn_file_write(d, path, text.data, text.n);
  }
  sn_str_finish(&text);
  sn_arena_destroy(a);
  return s;
}
