/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The contraction step: packed and direct rows, short tiles, accumulation, other types by plain loops. */
#include "cpu_tests.h"

#include <math.h>
#include <string.h>

enum { MR = 14, NR = 32, K = 37 };

static float a_packed[K * MR], a_rows[MR * K], b_panel[K * NR], acc[MR * NR], want[MR * NR];
static double da[K * MR], db[K * NR], dacc[MR * NR], dwant[MR * NR];

static void fill(void) {
  for (int k = 0; k < K; k++) {
    for (int i = 0; i < MR; i++) a_packed[k * MR + i] = a_rows[i * K + k] = (float)((k * 13 + i * 7) % 29 - 14) / 3;
    for (int j = 0; j < NR; j++) b_panel[k * NR + j] = (float)((k * 5 + j * 11) % 23 - 11) / 7;
  }
  for (int i = 0; i < MR * NR; i++) acc[i] = (float)i / 64;
  for (int i = 0; i < K * MR; i++) da[i] = (double)a_packed[i] * 1.1;
  for (int i = 0; i < K * NR; i++) db[i] = (double)b_panel[i] * 1.3;
  for (int i = 0; i < MR * NR; i++) dacc[i] = (double)acc[i];
}

static void expect(int m, int n, bool accumulate) {
  for (int i = 0; i < MR * NR; i++) want[i] = acc[i], dwant[i] = dacc[i];
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < n; j++) {
      float s = accumulate ? acc[i * NR + j] : 0;
      double d = accumulate ? dacc[i * NR + j] : 0;
      for (int k = 0; k < K; k++) {
        s = fmaf(a_packed[k * MR + i], b_panel[k * NR + j], s);
        d = fma(da[k * MR + i], db[k * NR + j], d);
      }
      want[i * NR + j] = s;
      dwant[i * NR + j] = d;
    }
  }
}

typedef struct shape { int m, n; bool accumulate, packed; } shape;
static const shape shapes[] = {{MR, NR, false, true}, {MR, NR, true, true}, {MR, NR, true, false}, {5, NR, true, false}, {1, NR, false, false}, {MR, 20, true, true}, {3, 17, false, true}};

static const sn_ix *through_grid(built *t, int64_t v) { /* a value that is not a constant to the emitter */
  return sn_ix_add(t->k->ix, built_grid(t, 0), built_const(t, v));
}

static void build(built *t, const shape *s, sn_type type) {
  int64_t one = 1, two = 2;
  built_begin(t, "contract");
  int ca = s->packed ? built_buffer2(t, SN_KMEM_IN, type, K, MR) : built_buffer2(t, SN_KMEM_IN, type, MR, K);
  int cb = built_buffer2(t, SN_KMEM_IN, type, K, NR), cc = built_buffer2(t, SN_KMEM_INOUT, type, MR, NR);
  (void)one;
  built_phase(t, 1, &two);
  /* Item 1 runs on nothing: m + item is cut to m by the guard below. */
  sn_ix_guard first = {built_grid(t, 0), 0, 0};
  sn_kb_if(&t->b, 1, &first, NULL, 0, NULL);
  const sn_ix *zero[2] = {built_const(t, 0), built_const(t, 0)};
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.acc = (sn_ktile){cc, zero, {NR, 1}};
  c.a = s->packed ? (sn_ktile){ca, zero, {1, MR}} : (sn_ktile){ca, zero, {K, 1}};
  c.b = (sn_ktile){cb, zero, {NR, 1}};
  c.m = s->m == MR ? built_const(t, MR) : through_grid(t, s->m);
  c.n = s->n == NR ? built_const(t, NR) : through_grid(t, s->n);
  c.k = through_grid(t, K);
  c.mr = MR;
  c.nr = NR;
  c.accumulate = s->accumulate;
  sn_kb_contract(&t->b, &c);
  sn_kb_else(&t->b);
  sn_kb_end(&t->b);
}

static void check_f32(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < MR * NR; i++) ck_assert_msg(acc[i] == want[i], "%s: [%d, %d] is %g, not %g", target, i / NR, i % NR, (double)acc[i], (double)want[i]);
  fill();
}

START_TEST(f32_tiles) {
  built t;
  const shape *s = &shapes[_i];
  fill();
  expect(s->m, s->n, s->accumulate);
  build(&t, s, SN_TYPE_F32);
  void *args[3] = {s->packed ? a_packed : a_rows, b_panel, acc};
  built_run(&t, args, check_f32, NULL);
  built_end(&t);
}
END_TEST

static void check_f64(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < MR * NR; i++) ck_assert_msg(dacc[i] == dwant[i], "%s: [%d, %d] is %g, not %g", target, i / NR, i % NR, dacc[i], dwant[i]);
  fill();
}

START_TEST(f64_tiles) {
  built t;
  const shape *s = &shapes[_i];
  if (!s->packed) return;
  fill();
  expect(s->m, s->n, s->accumulate);
  build(&t, s, SN_TYPE_F64);
  void *args[3] = {da, db, dacc};
  built_run(&t, args, check_f64, NULL);
  built_end(&t);
}
END_TEST

static int32_t ia[K * MR], ib[K * NR], iacc[MR * NR], iwant[MR * NR];

static void check_s32(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < MR * NR; i++) ck_assert_msg(iacc[i] == iwant[i], "%s: [%d, %d]", target, i / NR, i % NR);
  memset(iacc, 0, sizeof iacc);
}

START_TEST(s32_by_plain_loops) {
  built t;
  shape s = {5, 17, false, true};
  memset(iacc, 0, sizeof iacc);
  memset(iwant, 0, sizeof iwant);
  for (int i = 0; i < K * MR; i++) ia[i] = i * 7919 % 1000 - 500;
  for (int i = 0; i < K * NR; i++) ib[i] = i * 104729 % 1000 - 500;
  for (int i = 0; i < s.m; i++) {
    for (int j = 0; j < s.n; j++) {
      for (int k = 0; k < K; k++) iwant[i * NR + j] += ia[k * MR + i] * ib[k * NR + j];
    }
  }
  build(&t, &s, SN_TYPE_S32);
  void *args[3] = {ia, ib, iacc};
  built_run(&t, args, check_s32, NULL);
  built_end(&t);
}
END_TEST

/* Words of two terms: whole numbers, so that every order of adding them gives the same. */
enum { WORDS = 19 };
static uint32_t wa[WORDS * MR], wb[WORDS * NR];
static uint16_t ha[MR * 2 * WORDS];

static uint16_t bf16_of(int v) {
  uint16_t h;
  sn_store_f64(SN_TYPE_BF16, &h, v);
  return h;
}

static void fill_words(void) {
  for (int i = 0; i < MR * NR; i++) want[i] = acc[i] = (float)(i % 50);
  for (int k = 0; k < 2 * WORDS; k++) {
    for (int i = 0; i < MR; i++) {
      uint16_t h = ha[i * 2 * WORDS + k] = bf16_of((k * 13 + i * 7) % 29 - 14);
      wa[k / 2 * MR + i] = k % 2 ? wa[k / 2 * MR + i] | (uint32_t)h << 16 : h;
    }
    for (int j = 0; j < NR; j++) {
      uint16_t h = bf16_of((k * 5 + j * 11) % 23 - 11);
      wb[k / 2 * NR + j] = k % 2 ? wb[k / 2 * NR + j] | (uint32_t)h << 16 : h;
    }
    for (int i = 0; i < MR; i++) {
      for (int j = 0; j < NR; j++) want[i * NR + j] += (float)(((k * 13 + i * 7) % 29 - 14) * ((k * 5 + j * 11) % 23 - 11));
    }
  }
}

static void check_words(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < MR * NR; i++) ck_assert_msg(acc[i] == want[i], "%s: [%d, %d] is %g, not %g", target, i / NR, i % NR, (double)acc[i], (double)want[i]);
  fill_words();
}

START_TEST(bf16_words) {
  built t;
  bool rows = _i == 1;
  int64_t one = 1;
  fill_words();
  built_begin(&t, "contract");
  int ca = rows ? built_buffer2(&t, SN_KMEM_IN, SN_TYPE_BF16, MR, 2 * WORDS) : built_buffer2(&t, SN_KMEM_IN, SN_TYPE_U32, WORDS, MR);
  int cb = built_buffer2(&t, SN_KMEM_IN, SN_TYPE_U32, WORDS, NR), cc = built_buffer2(&t, SN_KMEM_INOUT, SN_TYPE_F32, MR, NR);
  built_phase(&t, 1, &one);
  const sn_ix *zero[2] = {built_const(&t, 0), built_const(&t, 0)};
  sn_kcontract c = {.acc = {cc, zero, {NR, 1}}, .a = {ca, zero, {rows ? 2 * WORDS : 1, rows ? 1 : MR}}, .b = {cb, zero, {NR, 1}}, .mr = MR, .nr = NR, .accumulate = true};
  c.m = built_const(&t, MR);
  c.n = built_const(&t, NR);
  c.k = built_const(&t, WORDS);
  sn_kb_contract(&t.b, &c);
  void *args[3] = {rows ? (void *)ha : wa, wb, acc};
  ck_assert_int_eq(sn_kernel_eval(NULL, t.k, args), SN_OK);
  check_words(NULL, "evaluator");
  built_run(&t, args, check_words, NULL);
  built_end(&t);
}
END_TEST

TCase *case_contract(void) {
  TCase *c = tcase_create("contract");
  int n = sizeof shapes / sizeof shapes[0];
  tcase_set_timeout(c, 100);
  tcase_add_loop_test(c, f32_tiles, 0, n);
  tcase_add_loop_test(c, f64_tiles, 0, n);
  tcase_add_test(c, s32_by_plain_loops);
  tcase_add_loop_test(c, bf16_words, 0, 2);
  return c;
}
