/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Expressions: each maker against plain arithmetic on all points, and the shapes into which they
 * simplify. */
#include "test_index.h"

#include <stdlib.h>
#include <string.h>

enum { SIZES_0 = 6, SIZES_1 = 4, SIZES_S = 5, POINTS = SIZES_0 * SIZES_1 * SIZES_S, POOL = 24 };

static void point(int p, int64_t *dims, int64_t *syms) {
  dims[0] = p / (SIZES_1 * SIZES_S);
  dims[1] = p / SIZES_S % SIZES_1;
  syms[0] = p % SIZES_S;
}

/* An expression and what it must be at each point, computed beside it. */
typedef struct entry {
  const sn_ix *e;
  int64_t v[POINTS];
} entry;

static int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static void check_entry(const entry *x, unsigned seed) {
  ck_assert_msg(x->e != NULL, "seed %u", seed);
  for (int p = 0; p < POINTS; p++) {
    int64_t dims[2], syms[1];
    point(p, dims, syms);
    int64_t got = sn_ix_eval(x->e, dims, syms);
    if (got == x->v[p] && got >= x->e->lo && got <= x->e->hi) continue;
    sn_str s = {NULL, 0, 0, false};
    sn_ix_print(&s, x->e);
    ck_abort_msg("seed %u: %s at (%d, %d, %d) is %d, not %d; range %lld to %lld", seed, s.data,
                 (int)dims[0], (int)dims[1], (int)syms[0], (int)got, (int)x->v[p],
                 (long long)x->e->lo, (long long)x->e->hi);
  }
}

static uint32_t next(uint32_t *r) {
  *r = *r * 1664525u + 1013904223u;
  return *r >> 8;
}

static void leaves(sn_ix_context *x, entry *pool) {
  pool[0].e = sn_ix_dim(x, 0, SIZES_0);
  pool[1].e = sn_ix_dim(x, 1, SIZES_1);
  pool[2].e = sn_ix_sym(x, 0, SIZES_S);
  for (int p = 0; p < POINTS; p++) {
    int64_t dims[2], syms[1];
    point(p, dims, syms);
    pool[0].v[p] = dims[0];
    pool[1].v[p] = dims[1];
    pool[2].v[p] = syms[0];
  }
}

static void grow(sn_ix_context *x, const entry *a, const entry *b, uint32_t what, int64_t c,
                 entry *to) {
  switch (what) {
    case 0:
      to->e = sn_ix_add(x, a->e, b->e);
      break;
    case 1:
      to->e = sn_ix_sub(x, a->e, b->e);
      break;
    case 2:
      to->e = sn_ix_mul(x, a->e, sn_ix_const(x, c));
      break;
    case 3:
      to->e = sn_ix_div(x, a->e, c);
      break;
    case 4:
      to->e = sn_ix_mod(x, a->e, c);
      break;
    case 5:
      to->e = sn_ix_min(x, a->e, b->e);
      break;
    case 6:
      to->e = sn_ix_max(x, a->e, b->e);
      break;
    case 7:
      to->e = sn_ix_add(x, a->e, sn_ix_const(x, -c));
      break;
    default:
      to->e = sn_ix_min(x, a->e, sn_ix_const(x, c));
      break;
  }
  for (int p = 0; p < POINTS; p++) {
    int64_t u = a->v[p], w = b->v[p];
    switch (what) {
      case 0:
        to->v[p] = u + w;
        break;
      case 1:
        to->v[p] = u - w;
        break;
      case 2:
        to->v[p] = u * c;
        break;
      case 3:
        to->v[p] = floor_div(u, c);
        break;
      case 4:
        to->v[p] = u - c * floor_div(u, c);
        break;
      case 5:
        to->v[p] = u < w ? u : w;
        break;
      case 6:
        to->v[p] = u > w ? u : w;
        break;
      case 7:
        to->v[p] = u - c;
        break;
      default:
        to->v[p] = u < c ? u : c;
        break;
    }
  }
}

START_TEST(test_random) {
  static const int64_t constants[] = {1, 2, 3, 4, 6, 8, 12, 5, 24, 30};
  unsigned seed = (unsigned)_i + 1;
  uint32_t r = seed * 7919u;
  sn_arena *a;
  sn_ix_context *x;
  entry *pool = calloc(POOL, sizeof *pool);
  ck_assert_ptr_nonnull(pool);
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_ix_context_create(a, &x), SN_OK);
  leaves(x, pool);
  for (int k = 3; k < POOL; k++) {
    const entry *p = &pool[next(&r) % (uint32_t)k], *q = &pool[next(&r) % (uint32_t)k];
    uint32_t what = next(&r) % 9;
    grow(x, p, q, what, constants[next(&r) % 10], &pool[k]);
    check_entry(&pool[k], seed);
    /* Made again it is the same pointer. */
    entry again;
    again = pool[k];
    ck_assert_ptr_eq(sn_ix_add(x, again.e, sn_ix_const(x, 0)), pool[k].e);
  }
  free(pool);
  sn_arena_destroy(a);
}
END_TEST

/* ---- what must come out
 * ------------------------------------------------------------------------------------------------------
 */

typedef struct maker {
  sn_ix_context *x;
  const sn_ix *d0, *d1, *s0; /* [0,6) [0,4) [0,5) */
} maker;

static const sn_ix *k(maker *m, int64_t v) {
  return sn_ix_const(m->x, v);
}
static const sn_ix *line(maker *m) {
  return sn_ix_add(m->x, sn_ix_mul(m->x, m->d0, k(m, 4)), m->d1);
} /* d0 * 4 + d1 */

static const sn_ix *split_high(maker *m) {
  return sn_ix_div(m->x, line(m), 4);
}
static const sn_ix *split_low(maker *m) {
  return sn_ix_mod(m->x, line(m), 4);
}
static const sn_ix *outer(maker *m) {
  return sn_ix_div(m->x, line(m), 12);
}
static const sn_ix *middle(maker *m) {
  return sn_ix_mod(m->x, sn_ix_div(m->x, line(m), 4), 3);
}
static const sn_ix *rejoin(maker *m) {
  const sn_ix *q = sn_ix_mul(m->x, sn_ix_div(m->x, m->d0, 3), k(m, 3));
  return sn_ix_add(m->x, q, sn_ix_mod(m->x, m->d0, 3));
}
static const sn_ix *rejoin_three(maker *m) { /* d0 as 3 digits */
  const sn_ix *q = sn_ix_mul(m->x, sn_ix_div(m->x, m->d0, 4), k(m, 4));
  const sn_ix *p = sn_ix_mul(m->x, sn_ix_mod(m->x, sn_ix_div(m->x, m->d0, 2), 2), k(m, 2));
  return sn_ix_add(m->x, sn_ix_add(m->x, sn_ix_mod(m->x, m->d0, 2), q), p);
}
static const sn_ix *nested_div(maker *m) {
  return sn_ix_div(m->x, sn_ix_div(m->x, m->d0, 2), 2);
}
static const sn_ix *nested_mod(maker *m) {
  return sn_ix_mod(m->x, sn_ix_mod(m->x, m->d0, 4), 2);
}
static const sn_ix *cancel(maker *m) {
  return sn_ix_sub(m->x, line(m), line(m));
}
static const sn_ix *order(maker *m) {
  return sn_ix_sub(m->x, sn_ix_add(m->x, m->s0, m->d0), k(m, 2));
}
static const sn_ix *clamp(maker *m) {
  return sn_ix_max(m->x, sn_ix_min(m->x, m->d0, k(m, 9)), k(m, 0));
}
static const sn_ix *clamp_load(maker *m) {
  return sn_ix_max(
      m->x, sn_ix_min(m->x, sn_ix_min(m->x, sn_ix_load(m->x, 1, 1, &m->d0), k(m, 9)), k(m, 7)),
      k(m, 0));
}
static const sn_ix *negative(maker *m) {
  return sn_ix_mod(m->x, sn_ix_sub(m->x, m->d0, k(m, 8)), 8);
}
static const sn_ix *product(maker *m) {
  return sn_ix_mul(m->x, m->d1, m->d0);
}

static const struct {
  const sn_ix *(*make)(maker *);
  const char *text;
} forms[] = {
    {split_high, "d0"},
    {split_low, "d1"},
    {outer, "d0 floordiv 3"},
    {middle, "d0 mod 3"},
    {rejoin, "d0"},
    {rejoin_three, "d0"},
    {nested_div, "d0 floordiv 4"},
    {nested_mod, "d0 mod 2"},
    {cancel, "0"},
    {order, "d0 + s0 - 2"},
    {clamp, "d0"},
    {clamp_load, "max(min(load1[d0], 7), 0)"},
    {negative, "d0"},
    {product, "d0 * d1"},
    {line, "d0 * 4 + d1"},
};

START_TEST(test_forms) {
  sn_arena *a;
  maker m;
  sn_str s = {NULL, 0, 0, false};
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_ix_context_create(a, &m.x), SN_OK);
  m.d0 = sn_ix_dim(m.x, 0, SIZES_0);
  m.d1 = sn_ix_dim(m.x, 1, SIZES_1);
  m.s0 = sn_ix_sym(m.x, 0, SIZES_S);
  const sn_ix *e = forms[_i].make(&m);
  ck_assert_ptr_nonnull(e);
  sn_ix_print(&s, e);
  ck_assert_str_eq(s.data, forms[_i].text);
  sn_str_finish(&s);
  sn_arena_destroy(a);
}
END_TEST

START_TEST(test_substitute) {
  sn_arena *a;
  sn_ix_context *x;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_ix_context_create(a, &x), SN_OK);
  const sn_ix *d0 = sn_ix_dim(x, 0, 6), *d1 = sn_ix_dim(x, 1, 4), *s0 = sn_ix_sym(x, 0, 5);
  const sn_ix *e = sn_ix_add(x, sn_ix_mul(x, d0, sn_ix_const(x, 5)), s0);
  const sn_ix *dims[] = {d1}, *syms[] = {sn_ix_const(x, 3)};
  ck_assert_ptr_eq(sn_ix_substitute(x, e, 1, dims, 1, syms),
                   sn_ix_add(x, sn_ix_mul(x, d1, sn_ix_const(x, 5)), sn_ix_const(x, 3)));
  ck_assert_ptr_eq(sn_ix_substitute(x, e, 0, NULL, 0, NULL), e);
  ck_assert_ptr_null(sn_ix_substitute(x, NULL, 0, NULL, 0, NULL));
  ck_assert_ptr_null(sn_ix_add(x, NULL, e));
  /* Doubling by hand 60 times: as a tree 2^60 nodes, as a graph 60. */
  const sn_ix *big = sn_ix_load(x, 0, 1, &d0);
  for (int k = 0; k < 60; k++) {
    const sn_ix *both[] = {big, big};
    big = sn_ix_load(x, 0, 2, both);
  }
  ck_assert_ptr_nonnull(sn_ix_substitute(x, big, 1, dims, 0, NULL));
  sn_arena_destroy(a);
}
END_TEST

/* A coefficient that does not fit gives NULL, not a wrong expression. */
START_TEST(test_overflow) {
  sn_arena *a;
  sn_ix_context *x;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_ix_context_create(a, &x), SN_OK);
  const sn_ix *d0 = sn_ix_dim(x, 0, 6), *big = sn_ix_mul(x, d0, sn_ix_const(x, INT64_MAX));
  ck_assert_ptr_nonnull(big);
  ck_assert_int_eq(big->hi, INT64_MAX); /* unknown */
  ck_assert_ptr_null(sn_ix_mul(x, big, sn_ix_const(x, 2)));
  ck_assert_ptr_null(sn_ix_add(x, sn_ix_const(x, INT64_MAX), sn_ix_const(x, 1)));
  sn_arena_destroy(a);
}
END_TEST

void add_expression_tests(TCase *t) {
  tcase_add_loop_test(t, test_random, 0, 2000);
  tcase_add_loop_test(t, test_forms, 0, (int)(sizeof forms / sizeof forms[0]));
  tcase_add_test(t, test_substitute);
  tcase_add_test(t, test_overflow);
}
