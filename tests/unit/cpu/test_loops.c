/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loads, stores, loops, carried values: f32, on every target, with and without tails. */
#include "cpu_tests.h"

#include <math.h>
#include <string.h>

enum { MAX = 5000 };

typedef struct data { int64_t n; float x[MAX], y[MAX], z[MAX], want[MAX]; } data;
static data the;

static void fill(int64_t n) {
  the.n = n;
  for (int i = 0; i < MAX; i++) {
    the.x[i] = (float)((i * 37 % 101) - 50) / 8;
    the.y[i] = (float)((i * 53 % 97) - 48) / 16;
    the.z[i] = -77;
    the.want[i] = -77;
  }
}

static void check_exact(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < MAX; i++) ck_assert_msg(memcmp(&the.z[i], &the.want[i], 4) == 0, "%s, n = %lld: [%d] is %g, not %g", target, (long long)the.n, i, (double)the.z[i], (double)the.want[i]);
  for (int i = 0; i < MAX; i++) the.z[i] = -77;
}

static sn_kvalue *binary(built *t, sn_opcode op, sn_kvalue *a, sn_kvalue *b) {
  sn_kvalue *xs[2] = {a, b};
  return sn_kb_elt(&t->b, op, a->type, 2, xs);
}

static const int64_t sizes[] = {1, 3, 15, 16, 17, 64, 100, 1000, 4096};

/* z[i] = x[i] * y[i] + y[i], 16 lanes. */
START_TEST(elementwise) {
  built t;
  fill(sizes[_i]);
  int64_t n = the.n;
  built_begin(&t, "elementwise");
  int x = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, n), y = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, n), z = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, n);
  built_phase(&t, 0, NULL);
  const sn_ix *i;
  sn_kb_for(&t.b, SN_KLOOP_VECTOR, 16, built_const(&t, 0), built_const(&t, n), 1, 0, NULL, NULL, &i);
  sn_kvalue *b = sn_kb_load(&t.b, y, &i, 0, NULL, NULL);
  sn_kb_store(&t.b, z, &i, 0, NULL, binary(&t, SN_OP_ADD, binary(&t, SN_OP_MULTIPLY, sn_kb_load(&t.b, x, &i, 0, NULL, NULL), b), b));
  sn_kb_end(&t.b);
  for (int k = 0; k < n; k++) the.want[k] = the.x[k] * the.y[k] + the.y[k];
  void *args[3] = {the.x, the.y, the.z};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* A row of 7 columns each item: z[r, c] = x[c, r] (strided) + y[r] (the same for all lanes) + x[(r * 7 + c) div 2 …] (scattered). */
START_TEST(addresses) {
  built t;
  int64_t rows = sizes[_i] < 100 ? sizes[_i] : 100, cols = 7;
  fill(rows * cols);
  built_begin(&t, "addresses");
  int x = built_buffer2(&t, SN_KMEM_IN, SN_TYPE_F32, cols, rows), y = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, rows), z = built_buffer2(&t, SN_KMEM_OUT, SN_TYPE_F32, rows, cols);
  built_phase(&t, 1, &rows);
  sn_ix_context *ix = t.k->ix;
  const sn_ix *r = built_grid(&t, 0), *c;
  sn_kb_for(&t.b, SN_KLOOP_VECTOR, 4, built_const(&t, 0), built_const(&t, cols), 1, 0, NULL, NULL, &c);
  const sn_ix *transposed[2] = {c, r}, *here[2] = {r, c};
  const sn_ix *half = sn_ix_div(ix, sn_ix_add(ix, sn_ix_mul(ix, r, built_const(&t, cols)), c), 2);
  const sn_ix *scattered[2] = {sn_ix_div(ix, half, rows), sn_ix_mod(ix, half, rows)};
  const sn_ix *reversed[2] = {r, sn_ix_sub(ix, built_const(&t, cols - 1), c)};
  sn_kvalue *sum = binary(&t, SN_OP_ADD, sn_kb_load(&t.b, x, transposed, 0, NULL, NULL), sn_kb_load(&t.b, y, &r, 0, NULL, NULL));
  sum = binary(&t, SN_OP_ADD, sum, sn_kb_load(&t.b, x, scattered, 0, NULL, NULL));
  sn_kb_store(&t.b, z, reversed, 0, NULL, sum);
  (void)here;
  sn_kb_end(&t.b);
  for (int i = 0; i < rows; i++) {
    for (int j = 0; j < cols; j++) the.want[i * cols + cols - 1 - j] = the.x[j * rows + i] + the.y[i] + the.x[(i * cols + j) / 2];
  }
  void *args[3] = {the.x, the.y, the.z};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* z[i] = 2 <= i - 3 <= n - 9 ? x[i - 3] : 0.5, stored where i is not the last. */
START_TEST(guards) {
  built t;
  int64_t n = sizes[_i];
  fill(n);
  built_begin(&t, "guards");
  int x = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, n), z = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, n);
  built_phase(&t, 0, NULL);
  const sn_ix *i;
  sn_kb_for(&t.b, SN_KLOOP_VECTOR, 8, built_const(&t, 0), built_const(&t, n), 1, 0, NULL, NULL, &i);
  const sn_ix *shifted = sn_ix_sub(t.k->ix, i, built_const(&t, 3));
  sn_ix_guard in = {shifted, 2, n - 9}, last = {i, 0, n - 2};
  sn_kvalue *v = sn_kb_load(&t.b, x, &shifted, 1, &in, sn_kb_const_f64(&t.b, SN_TYPE_F32, 0.5));
  sn_kb_store(&t.b, z, &i, 1, &last, v);
  sn_kb_end(&t.b);
  for (int k = 0; k < n - 1; k++) the.want[k] = k - 3 >= 2 && k - 3 <= n - 9 ? the.x[k - 3] : 0.5f;
  void *args[2] = {the.x, the.z};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* The documented order: lane l sums x[t * W + l]; lanes by halves; then init + tree. */
static float tree_sum(const float *x, int64_t n, int w, float init) {
  float lanes[64] = {0};
  for (int64_t k = 0; k < n; k++) lanes[k % w] += x[k];
  for (int m = w / 2; m >= 1; m /= 2) {
    for (int l = 0; l < m; l++) lanes[l] += lanes[l + m];
  }
  return init + lanes[0];
}

static float max_of(const float *x, int64_t n, float init) {
  for (int64_t k = 0; k < n; k++) init = x[k] > init ? x[k] : init;
  return init;
}

/* Per row: sum and maximum at once, then x - max + sum over the row. */
START_TEST(reductions) {
  built t;
  int64_t rows = 3, n = sizes[_i] > 1600 ? 1600 : sizes[_i];
  fill(rows * n);
  built_begin(&t, "reductions");
  int x = built_buffer2(&t, SN_KMEM_IN, SN_TYPE_F32, rows, n), z = built_buffer2(&t, SN_KMEM_OUT, SN_TYPE_F32, rows, n);
  built_phase(&t, 1, &rows);
  const sn_ix *r = built_grid(&t, 0), *i, *j;
  sn_kvalue *inits[2] = {sn_kb_const_f64(&t.b, SN_TYPE_F32, 3), sn_kb_const_f64(&t.b, SN_TYPE_F32, -4)};
  sn_opcode ops[2] = {SN_OP_ADD, SN_OP_MAXIMUM};
  sn_knode *f = sn_kb_for(&t.b, SN_KLOOP_VECTOR, 16, built_const(&t, 0), built_const(&t, n), 1, 2, inits, ops, &i);
  const sn_ix *at[2] = {r, i};
  sn_kvalue *v = sn_kb_load(&t.b, x, at, 0, NULL, NULL);
  sn_kvalue *next[2] = {binary(&t, SN_OP_ADD, &f->regions[0]->params[0], v), binary(&t, SN_OP_MAXIMUM, &f->regions[0]->params[1], v)};
  sn_kb_yield(&t.b, 2, next);
  sn_kb_end(&t.b);
  sn_kb_for(&t.b, SN_KLOOP_VECTOR, 16, built_const(&t, 0), built_const(&t, n), 1, 0, NULL, NULL, &j);
  at[1] = j;
  v = binary(&t, SN_OP_SUBTRACT, sn_kb_load(&t.b, x, at, 0, NULL, NULL), sn_knode_result(f, 1));
  sn_kb_store(&t.b, z, at, 0, NULL, binary(&t, SN_OP_ADD, v, sn_knode_result(f, 0)));
  sn_kb_end(&t.b);
  for (int64_t k = 0; k < rows; k++) {
    float sum = tree_sum(the.x + k * n, n, 16, 3), max = max_of(the.x + k * n, n, -4);
    for (int64_t c = 0; c < n; c++) the.want[k * n + c] = the.x[k * n + c] - max + sum;
  }
  void *args[2] = {the.x, the.z};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* Two phases over a workspace, blocks of run-time length, sequential carries, flattened and split indices. */
START_TEST(blocks) {
  built t;
  int64_t n = sizes[_i], chunk = 48, chunks = (n + chunk - 1) / chunk;
  fill(n);
  built_begin(&t, "blocks");
  sn_ix_context *ix = t.k->ix;
  int x = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, n), z = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, 1), w = built_buffer(&t, SN_KMEM_WORK, SN_TYPE_F32, chunks);
  built_phase(&t, 1, &chunks);
  const sn_ix *c = built_grid(&t, 0), *i, *start = sn_ix_mul(ix, c, built_const(&t, chunk));
  const sn_ix *length = sn_ix_min(ix, built_const(&t, chunk), sn_ix_sub(ix, built_const(&t, n), start));
  sn_kvalue *zero = sn_kb_const_f64(&t.b, SN_TYPE_F32, 0);
  sn_opcode op = SN_OP_ADD;
  sn_knode *f = sn_kb_for(&t.b, SN_KLOOP_VECTOR, 16, built_const(&t, 0), length, 1, 1, &zero, &op, &i);
  const sn_ix *at = sn_ix_add(ix, start, i);
  sn_kvalue *next = binary(&t, SN_OP_ADD, &f->regions[0]->params[0], sn_kb_load(&t.b, x, &at, 0, NULL, NULL));
  sn_kb_yield(&t.b, 1, &next);
  sn_kb_end(&t.b);
  sn_kb_store(&t.b, w, &c, 0, NULL, sn_knode_result(f, 0));
  built_phase(&t, 0, NULL);
  zero = sn_kb_const_f64(&t.b, SN_TYPE_F32, 0);
  f = sn_kb_for(&t.b, SN_KLOOP_SEQ, 0, built_const(&t, 0), built_const(&t, chunks), 1, 1, &zero, NULL, &i);
  next = binary(&t, SN_OP_ADD, &f->regions[0]->params[0], sn_kb_load(&t.b, w, &i, 0, NULL, NULL));
  sn_kb_yield(&t.b, 1, &next);
  sn_kb_end(&t.b);
  at = built_const(&t, 0);
  sn_kb_store(&t.b, z, &at, 0, NULL, sn_knode_result(f, 0));
  float sum = 0, work[MAX];
  for (int64_t k = 0; k < chunks; k++) sum += tree_sum(the.x + k * chunk, n - k * chunk < chunk ? n - k * chunk : chunk, 16, 0);
  the.want[0] = sum;
  void *args[3] = {the.x, the.z, work};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* A sequential loop inside a vector loop: z[j] = sum over k of x[k] * y[k, j], in order. */
START_TEST(inner_loop) {
  built t;
  int64_t n = sizes[_i] < 200 ? sizes[_i] : 200, m = 20;
  fill(n);
  built_begin(&t, "inner");
  int x = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, m), y = built_buffer2(&t, SN_KMEM_IN, SN_TYPE_F32, m, n), z = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, n);
  built_phase(&t, 0, NULL);
  const sn_ix *j, *k;
  sn_kb_for(&t.b, SN_KLOOP_VECTOR, 8, built_const(&t, 0), built_const(&t, n), 1, 0, NULL, NULL, &j);
  sn_kvalue *zero = sn_kb_const_f64(&t.b, SN_TYPE_F32, 0);
  sn_knode *f = sn_kb_for(&t.b, SN_KLOOP_SEQ, 0, built_const(&t, 0), built_const(&t, m), 1, 1, &zero, NULL, &k);
  const sn_ix *at[2] = {k, j};
  sn_kvalue *next = sn_kb_fma(&t.b, sn_kb_load(&t.b, x, &k, 0, NULL, NULL), sn_kb_load(&t.b, y, at, 0, NULL, NULL), &f->regions[0]->params[0]);
  sn_kb_yield(&t.b, 1, &next);
  sn_kb_end(&t.b);
  sn_kb_store(&t.b, z, &j, 0, NULL, sn_knode_result(f, 0));
  sn_kb_end(&t.b);
  for (int64_t c = 0; c < n; c++) {
    float sum = 0;
    for (int64_t q = 0; q < m; q++) sum = fmaf(the.x[q], the.y[q * n + c], sum);
    the.want[c] = sum;
  }
  void *args[3] = {the.x, the.y, the.z};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* One phase: to[i] = from[i] + more[i]. */
static void double_it(built *t, int from, int more, int to) {
  const sn_ix *i;
  built_phase(t, 0, NULL);
  sn_kb_for(&t->b, SN_KLOOP_VECTOR, 16, built_const(t, 0), built_const(t, the.n), 1, 0, NULL, NULL, &i);
  sn_kvalue *a = sn_kb_load(&t->b, from, &i, 0, NULL, NULL), *b = sn_kb_load(&t->b, more, &i, 0, NULL, NULL);
  sn_kb_store(&t->b, to, &i, 0, NULL, binary(t, SN_OP_ADD, a, b));
  sn_kb_end(&t->b);
}

static bool same_phase(const built *t, int a, int b) {
  sn_kphase_key x, y;
  ck_assert_int_eq(sn_kphase_key_of(t->arena, t->k, a, &x), SN_OK);
  ck_assert_int_eq(sn_kphase_key_of(t->arena, t->k, b, &y), SN_OK);
  return x.n_bytes == y.n_bytes && memcmp(x.bytes, y.bytes, x.n_bytes) == 0;
}

/* Phases that do the same with other buffers share their code. */
START_TEST(equal_phases) {
  built t;
  fill(sizes[_i]);
  built_begin(&t, "equal_phases");
  int x = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, the.n), y = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, the.n), z = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, the.n);
  double_it(&t, x, x, y);
  double_it(&t, y, y, z);
  double_it(&t, z, x, z); /* not the same: two buffers are read */
  double_it(&t, x, z, z); /* nor this: the second of them is written */
  ck_assert(same_phase(&t, 0, 1));
  ck_assert(!same_phase(&t, 0, 2));
  ck_assert(!same_phase(&t, 2, 3));
  for (int k = 0; k < the.n; k++) the.want[k] = the.x[k] + (the.x[k] * 4 + the.x[k]);
  void *args[3] = {the.x, the.y, the.z};
  built_run(&t, args, check_exact, NULL);
  built_end(&t);
}
END_TEST

/* Costs grow with what loops do, whether the loop is within an item or the items are many; one that was given stays. */
START_TEST(costs) {
  built t;
  built_begin(&t, "costs");
  fill(4096);
  int x = built_buffer(&t, SN_KMEM_IN, SN_TYPE_F32, the.n), y = built_buffer(&t, SN_KMEM_OUT, SN_TYPE_F32, the.n);
  double_it(&t, x, x, y);
  the.n = 64;
  double_it(&t, x, x, y);
  double_it(&t, x, x, y);
  t.k->phases[2].cost = 5;
  sn_kernel_find_costs(t.k);
  int64_t large = t.k->phases[0].cost, little = t.k->phases[1].cost;
  ck_assert_int_ge(little, 1);
  ck_assert_int_ge(large, 32 * little); /* 64 times the trips, and a little around them */
  ck_assert_int_le(large, 4096);        /* no more than a nanosecond an element: lanes count */
  ck_assert_int_eq(t.k->phases[2].cost, 5);
  built_end(&t);
}
END_TEST

TCase *case_loops(void) {
  TCase *c = tcase_create("loops");
  int n = sizeof sizes / sizeof sizes[0];
  tcase_set_timeout(c, 100);
  tcase_add_loop_test(c, elementwise, 0, n);
  tcase_add_loop_test(c, addresses, 0, n);
  tcase_add_loop_test(c, guards, 0, n);
  tcase_add_loop_test(c, reductions, 0, n);
  tcase_add_loop_test(c, blocks, 0, n);
  tcase_add_loop_test(c, inner_loop, 0, n);
  tcase_add_loop_test(c, equal_phases, 0, n);
  tcase_add_test(c, costs);
  return c;
}
