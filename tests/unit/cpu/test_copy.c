/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tile copies: as they lie, transposed by squares with a remainder, transposed one by one; asking for memory changes nothing. */
#include "cpu_tests.h"

#include <string.h>

enum { ROWS = 45, COLUMNS = 32, MOST = 64 };

static float from[MOST * MOST], to[MOST * MOST], want[MOST * MOST];

typedef struct row { int m, n; bool turned; } row;
static const row rows[] = {{ROWS, COLUMNS, true}, {16, COLUMNS, true}, {ROWS, 7, true}, {3, COLUMNS, true}, {ROWS, COLUMNS, false}, {0, COLUMNS, true}};

static void check(void *ctx, const char *target) {
  (void)ctx;
  for (int i = 0; i < MOST * MOST; i++) ck_assert_msg(to[i] == want[i], "%s: element %d is %g, not %g", target, i, (double)to[i], (double)want[i]);
  memset(to, 0, sizeof to);
}

START_TEST(tiles) {
  built t;
  const row *r = &rows[_i];
  int64_t one = 1;
  memset(to, 0, sizeof to);
  memset(want, 0, sizeof want);
  for (int i = 0; i < MOST * MOST; i++) from[i] = (float)(i + 1);
  for (int i = 0; i < r->m; i++) {
    for (int j = 0; j < r->n; j++) want[i * MOST + j] = r->turned ? from[j * MOST + i] : from[i * MOST + j];
  }
  built_begin(&t, "copy");
  int a = built_buffer2(&t, SN_KMEM_IN, SN_TYPE_F32, MOST, MOST), b = built_buffer2(&t, SN_KMEM_OUT, SN_TYPE_F32, MOST, MOST);
  built_phase(&t, 1, &one);
  const sn_ix *zero[2] = {built_const(&t, 0), built_const(&t, 0)};
  for (int use = SN_KPREFETCH_READ; use <= SN_KPREFETCH_LATER; use++) sn_kb_prefetch(&t.b, a, zero, (sn_kprefetch)use);
  /* The number of rows is no constant to the emitter. */
  sn_kcopy c = {{b, zero, {MOST, 1}}, {a, zero, {r->turned ? 1 : MOST, r->turned ? MOST : 1}}, sn_ix_add(t.k->ix, built_grid(&t, 0), built_const(&t, r->m)), built_const(&t, r->n), false};
  sn_kb_copy(&t.b, &c);
  void *args[2] = {from, to};
  built_run(&t, args, check, NULL);
  built_end(&t);
}
END_TEST

TCase *case_copy(void) {
  TCase *c = tcase_create("copy");
  tcase_set_timeout(c, 100);
  tcase_add_loop_test(c, tiles, 0, sizeof rows / sizeof rows[0]);
  return c;
}
