/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Conditions, whiles, bound symbols and atomic updates, inside vector loops where lanes part ways. */
#include "cpu_tests.h"

#include <string.h>


enum { N = 37 };

static int32_t x[N], y[N], z[N], want[N];

static void check(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < N; i++) ck_assert_msg(z[i] == want[i], "%s: [%d] is %d, not %d", target, i, (int)z[i], (int)want[i]);
  memset(z, 0, sizeof z);
}

static sn_kvalue *binary(built *t, sn_opcode op, sn_kvalue *a, sn_kvalue *b) {
  sn_kvalue *xs[2] = {a, b};
  return sn_kb_elt(&t->b, op, a->type, 2, xs);
}

static void begin(built *t, const char *name, int lanes, int *bx, int *by, int *bz, const sn_ix **i) {
  built_begin(t, name);
  *bx = built_buffer(t, SN_KMEM_IN, SN_TYPE_S32, N);
  *by = built_buffer(t, SN_KMEM_IN, SN_TYPE_S32, N);
  *bz = built_buffer(t, SN_KMEM_INOUT, SN_TYPE_S32, N);
  built_phase(t, 0, NULL);
  sn_kb_for(&t->b, SN_KLOOP_VECTOR, lanes, built_const(t, 0), built_const(t, N), 1, 0, NULL, NULL, i);
  for (int k = 0; k < N; k++) {
    x[k] = k * 7 % 11 + 1;
    y[k] = k * 5 % N;
    z[k] = want[k] = 0;
  }
}

/* Greatest common divisor, lane by lane: z = gcd(x, 12) where x > 4, else y[y] (a bound symbol). */
START_TEST(lanes_part_ways) {
  built t;
  int bx, by, bz;
  const sn_ix *i;
  begin(&t, "gcd", 8, &bx, &by, &bz, &i);
  sn_type type = SN_TYPE_S32;
  sn_kvalue *v = sn_kb_load(&t.b, bx, &i, 0, NULL, NULL);
  sn_knode *f = sn_kb_if(&t.b, 0, NULL, sn_kb_compare(&t.b, SN_DIRECTION_GT, v, sn_kb_const_i64(&t.b, type, 4), false), 1, &type);
  sn_kvalue *inits[2] = {v, sn_kb_const_i64(&t.b, type, 12)};
  sn_knode *w = sn_kb_while(&t.b, 2, inits);
  sn_kvalue *go = sn_kb_compare(&t.b, SN_DIRECTION_NE, &w->regions[0]->params[1], sn_kb_const_i64(&t.b, type, 0), false);
  sn_kb_yield(&t.b, 1, &go);
  sn_kb_do(&t.b);
  sn_kvalue *next[2] = {&w->regions[1]->params[1], binary(&t, SN_OP_REMAINDER, &w->regions[1]->params[0], &w->regions[1]->params[1])};
  sn_kb_yield(&t.b, 2, next);
  sn_kb_end(&t.b);
  sn_kvalue *r = sn_knode_result(w, 0);
  sn_kb_yield(&t.b, 1, &r);
  sn_kb_else(&t.b);
  const sn_ix *s = sn_kb_bind(&t.b, sn_kb_load(&t.b, by, &i, 0, NULL, NULL), 3, N - 1);
  r = sn_kb_load(&t.b, by, &s, 0, NULL, NULL);
  sn_kb_yield(&t.b, 1, &r);
  sn_kb_end(&t.b);
  sn_kb_store(&t.b, bz, &i, 0, NULL, sn_knode_result(f, 0));
  sn_kb_end(&t.b);
  for (int k = 0; k < N; k++) {
    int a = x[k], b = 12;
    while (b) {
      int c = a % b;
      a = b;
      b = c;
    }
    want[k] = x[k] > 4 ? a : y[y[k] < 3 ? 3 : y[k]];
  }
  void *args[3] = {x, y, z};
  built_run(&t, args, check, NULL);
  built_end(&t);
}
END_TEST

/* Sums over a triangle: bounds of the inner loop differ from lane to lane. */
START_TEST(triangle) {
  built t;
  int bx, by, bz;
  const sn_ix *i, *k;
  begin(&t, "triangle", 16, &bx, &by, &bz, &i);
  sn_kvalue *zero = sn_kb_const_i64(&t.b, SN_TYPE_S32, 0);
  sn_knode *f = sn_kb_for(&t.b, SN_KLOOP_SEQ, 0, built_const(&t, 0), i, 1, 1, &zero, NULL, &k);
  sn_kvalue *next = binary(&t, SN_OP_ADD, &f->regions[0]->params[0], sn_kb_load(&t.b, bx, &k, 0, NULL, NULL));
  sn_kb_yield(&t.b, 1, &next);
  sn_kb_end(&t.b);
  sn_kb_store(&t.b, bz, &i, 0, NULL, sn_knode_result(f, 0));
  sn_kb_end(&t.b);
  for (int a = 0; a < N; a++) {
    for (int b = 0; b < a; b++) want[a] += x[b];
  }
  void *args[3] = {x, y, z};
  built_run(&t, args, check, NULL);
  built_end(&t);
}
END_TEST

/* z[x] += y, x repeating within a vector. */
START_TEST(atomic_sums) {
  built t;
  int bx, by, bz;
  const sn_ix *i;
  begin(&t, "atomic", 8, &bx, &by, &bz, &i);
  const sn_ix *s = sn_kb_bind(&t.b, sn_kb_load(&t.b, bx, &i, 0, NULL, NULL), 0, N - 1);
  sn_kb_store(&t.b, bz, &s, 0, NULL, sn_kb_load(&t.b, by, &i, 0, NULL, NULL));
  t.b.region->last->op = SN_K_ATOMIC;
  t.b.region->last->hlo = SN_OP_ADD;
  sn_kb_end(&t.b);
  for (int k = 0; k < N; k++) want[x[k]] += y[k];
  void *args[3] = {x, y, z};
  built_run(&t, args, check, NULL);
  built_end(&t);
}
END_TEST

TCase *case_control(void) {
  TCase *c = tcase_create("control");
  tcase_set_timeout(c, 100);
  tcase_add_test(c, lanes_part_ways);
  tcase_add_test(c, triangle);
  tcase_add_test(c, atomic_sums);
  return c;
}
