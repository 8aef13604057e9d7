/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Matrix products of each pair of types that the template takes, on each level of instructions that this CPU has, against sums in f64.
 *
 * The bound: sums are kept in the type that is given below, and each of k additions rounds once, by at most half a step of a partial sum, which is no larger than S, the sum
 * of the terms' magnitudes; f32 operands multiplied as bf16 are each off by half a step of that. Then the result is rounded to its type. One to four threads give the same bits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/compiler.h"
#include "sinter/text.h"

typedef struct types { sn_type a, b, result; const char *algorithm; int sum_bits /* of the sums' mantissa */, operand_bits; } types;

static const types all_types[] = {
    {SN_TYPE_BF16, SN_TYPE_BF16, SN_TYPE_BF16, NULL, 23, 0},
    {SN_TYPE_BF16, SN_TYPE_BF16, SN_TYPE_F32, NULL, 23, 0},
    {SN_TYPE_F16, SN_TYPE_F16, SN_TYPE_F16, NULL, 23, 0},
    {SN_TYPE_F16, SN_TYPE_F16, SN_TYPE_F32, NULL, 23, 0},
    {SN_TYPE_BF16, SN_TYPE_F32, SN_TYPE_F32, NULL, 23, 0},
    {SN_TYPE_F32, SN_TYPE_F32, SN_TYPE_F32, NULL, 23, 0},
    {SN_TYPE_F32, SN_TYPE_F32, SN_TYPE_F32, "dot_bf16_bf16_f32", 23, 7},
    {SN_TYPE_F64, SN_TYPE_F64, SN_TYPE_F64, NULL, 52, 0},
};

/* Operands as they lie: [batch,] rows by terms and terms by columns, or transposed. */
typedef struct size { int64_t batch, m, n, k; bool turn_a, turn_b; } size;

static const size all_sizes[] = {
    {1, 37, 45, 51, false, false},  {1, 37, 45, 51, true, false},   {1, 37, 64, 51, false, true}, {1, 37, 45, 52, true, true},
    {1, 5, 33, 130, false, false},  {1, 100, 9, 31, false, true},   {1, 24, 32, 2048, false, false}, {1, 23, 40, 2049, true, false},
    {3, 20, 17, 47, false, false},  {3, 14, 32, 48, true, true},    {1, 150, 96, 700, false, true}, {1, 50, 130, 1500, true, false},
};

enum { MOST_THREADS = 4 };
static sn_pool *pools[MOST_THREADS + 1];
static int checks, failures;

static sn_module *build(const types *t, const size *s) {
  char text[1024], batch[24] = "", dims[96] = "", algorithm[64] = "";
  int b = s->batch > 1;
  if (b) {
    snprintf(batch, sizeof batch, "%lld,", (long long)s->batch);
    snprintf(dims, sizeof dims, "lhs_batch_dims={0}, rhs_batch_dims={0}, ");
  }
  if (t->algorithm) snprintf(algorithm, sizeof algorithm, ", algorithm=%s", t->algorithm);
  int n = snprintf(text, sizeof text,
                   "HloModule product\nENTRY main {\n  a = %s[%s%lld,%lld] parameter(0)\n  b = %s[%s%lld,%lld] parameter(1)\n"
                   "  ROOT c = %s[%s%lld,%lld] dot(a, b), %slhs_contracting_dims={%d}, rhs_contracting_dims={%d}%s\n}\n",
                   sn_type_text(t->a), batch, (long long)(s->turn_a ? s->k : s->m), (long long)(s->turn_a ? s->m : s->k), sn_type_text(t->b), batch,
                   (long long)(s->turn_b ? s->n : s->k), (long long)(s->turn_b ? s->k : s->n), sn_type_text(t->result), batch, (long long)s->m, (long long)s->n, dims,
                   b + (s->turn_a ? 0 : 1), b + (s->turn_b ? 1 : 0), algorithm);
  sn_module *m = NULL;
  return sn_hlo_parse(NULL, "product", text, (size_t)n, &m) == SN_OK ? m : NULL;
}

/* Numbers in [-1, 1], of which the type holds each; some small ones among them. */
static sn_array *operand(const sn_shape *s, uint32_t seed) {
  sn_array *a = NULL;
  if (sn_array_create(s, &a) != SN_OK) return NULL;
  char *p = sn_array_data(a);
  for (int64_t i = 0; i < sn_shape_elements(s); i++, p += sn_type_bytes(s->type)) {
    seed = seed * 1664525u + 1013904223u;
    double v = (double)(seed >> 8) / (double)(1 << 23) - 1;
    sn_store_f64(s->type, p, i % 17 == 3 ? v * 0x1p-9 : v);
  }
  return a;
}

static double element(const sn_array *a, int64_t i) {
  sn_type t = sn_array_shape(a)->type;
  return sn_load_f64(t, (const char *)sn_array_data(a) + (size_t)i * sn_type_bytes(t));
}

/* Half a step of the type at v. */
static double half_step(sn_type t, double v) { return ldexp(fabs(v), -1 - sn_types[t].mantissa_bits); }

static void judge(const char *name, const types *t, const size *s, sn_array *const *in, const sn_array *got) {
  for (int64_t i = 0; i < s->batch * s->m * s->n; i++) {
    int64_t b = i / (s->m * s->n), row = i / s->n % s->m, column = i % s->n;
    double sum = 0, magnitude = 0;
    for (int64_t k = 0; k < s->k; k++) {
      double x = element(in[0], b * s->m * s->k + (s->turn_a ? k * s->m + row : row * s->k + k));
      double y = element(in[1], b * s->n * s->k + (s->turn_b ? column * s->k + k : k * s->n + column));
      sum += x * y;
      magnitude += fabs(x * y);
    }
    double bound = (double)s->k * ldexp(magnitude, -1 - t->sum_bits);
    if (t->operand_bits) bound += 2 * ldexp(magnitude, -1 - t->operand_bits) * (1 + ldexp(1, -t->operand_bits));
    bound += half_step(t->result, fabs(sum) + bound);
    double v = element(got, i);
    if (fabs(v - sum) <= bound) continue;
    printf("FAILED: %s: [%lld,%lld,%lld] is %.9g, in f64 %.9g, off by %.3g where %.3g is allowed\n", name, (long long)b, (long long)row, (long long)column, v, sum, fabs(v - sum),
           bound);
    failures++;
    return;
  }
}

static sn_status call(sn_diag *d, sn_program *p, sn_pool *pool, sn_array *const *in, sn_array **out) {
  sn_context *c = NULL;
  sn_context_options o;
  sn_array *args[2] = {sn_array_retain(in[0]), sn_array_retain(in[1])};
  sn_context_options_init(&o);
  o.pool = pool;
  sn_status s = sn_context_create(d, p, &o, &c);
  if (s == SN_OK) s = sn_context_call(d, c, args, out);
  sn_context_destroy(c);
  sn_array_release(args[0]);
  sn_array_release(args[1]);
  return s;
}

static void check_program(sn_diag *d, const char *name, const types *t, const size *s, sn_program *p, sn_array *const *in) {
  sn_array *one = NULL;
  if (call(d, p, NULL, in, &one) != SN_OK) {
    printf("FAILED: %s: does not run\n", name);
    failures++;
    return;
  }
  judge(name, t, s, in, one);
  for (int n = 2; n <= MOST_THREADS; n++) {
    sn_array *more = NULL;
    if (call(d, p, pools[n], in, &more) != SN_OK || memcmp(sn_array_data(one), sn_array_data(more), sn_array_bytes(one)) != 0) {
      printf("FAILED: %s: other bits on %d threads\n", name, n);
      failures++;
    }
    sn_array_release(more);
  }
  sn_array_release(one);
  checks++;
}

static void check(const char *target, const types *t, const size *s) {
  char name[192];
  snprintf(name, sizeof name, "%s: %s x %s -> %s%s%s, %lld x %lld x %lld x %lld%s%s", target, sn_type_text(t->a), sn_type_text(t->b), sn_type_text(t->result), t->algorithm ? " " : "",
           t->algorithm ? t->algorithm : "", (long long)s->batch, (long long)s->m, (long long)s->n, (long long)s->k, s->turn_a ? ", lhs turned" : "", s->turn_b ? ", rhs turned" : "");
  sn_diag *d = NULL;
  sn_program *p = NULL;
  sn_compile_options o;
  sn_module *m = build(t, s);
  sn_array *in[2] = {m ? operand(m->entry->params[0]->shape, 1) : NULL, m ? operand(m->entry->params[1]->shape, 2) : NULL};
  sn_compile_options_init(&o);
  o.target = target;
  if (!m || !in[0] || !in[1] || sn_diag_create(&d) != SN_OK || sn_compile(d, m, &o, &p, NULL) != SN_OK) {
    printf("FAILED: %s: does not compile%s%s\n", name, d && sn_diag_stored(d) ? ": " : "", d && sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "");
    failures++;
  } else {
    check_program(d, name, t, s, p, in);
  }
  sn_program_release(p);
  sn_array_release(in[0]);
  sn_array_release(in[1]);
  sn_module_destroy(m);
  sn_diag_destroy(d);
}

static bool runs_here(const char *target) {
#if defined(__x86_64__)
  if (strcmp(target, "x86-64-v3") == 0) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  if (strcmp(target, "x86-64-v4") == 0) return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  if (strcmp(target, "znver4") == 0) return __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi2");
  return true;
#else
  return strcmp(target, "native") == 0;
#endif
}

int main(void) {
  static const char *const targets[] = {"native", "x86-64-v2", "x86-64-v3", "x86-64-v4", "znver4"};
  if (!sn_compiler_available(NULL)) {
    printf("not run: products: no compiler\n");
    return 77;
  }
  for (int n = 2; n <= MOST_THREADS; n++) {
    if (sn_pool_create(n, &pools[n]) != SN_OK) return 1;
  }
  for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) {
    if (!runs_here(targets[k])) {
      printf("not run: products for %s: this CPU lacks it\n", targets[k]);
      continue;
    }
    for (size_t t = 0; t < sizeof all_types / sizeof *all_types; t++) {
      for (size_t s = 0; s < sizeof all_sizes / sizeof *all_sizes; s++) check(targets[k], &all_types[t], &all_sizes[s]);
    }
  }
  for (int n = 2; n <= MOST_THREADS; n++) sn_pool_destroy(pools[n]);
  printf("%d products, %d failed\n", checks, failures);
  return failures != 0;
}
