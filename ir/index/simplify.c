/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Makers of compound expressions. Each gives its normal form at once, by these laws
 * (n > 0; a div n rounds down; a = n * (a div n) + a mod n):
 *
 *   sums      one constant, one coefficient an atom, atoms in the order of `before`
 *   rejoin    k*n * (a div n) + k * (a mod n)       = k * a
 *   div       (n*q + r) div n                       = q + r div n
 *             r div n                               = c where r's range lies in the c-th multiple of n
 *             (g*q + s) div n, g | n, 0 <= s < g    = q div (n/g)
 *             (a div m) div n                       = a div (m*n)
 *             (a mod m) div n, n | m                = (a div n) mod (m/n)
 *   mod       (n*q + r) mod n                       = r mod n
 *             a mod n                               = a - n*c where a's range lies in multiple c
 *             (g*q + s) mod n, g | n, 0 <= s < g    = g * (q mod (n/g)) + s
 *             (a mod m) mod n, n | m                = a mod n
 *   min, max  decided by ranges where they do not overlap; constants merge
 *
 * Linearising an index and taking it apart again (a reshape and its inverse) is undone by div, mod
 * and rejoin alone. */
#include "index_internal.h"

#include <string.h>

int64_t sn_ix_floor_div(int64_t a, int64_t b) {
  int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

int64_t sn_ix_floor_mod(int64_t a, int64_t b) {
  int64_t r = a % b;
  return r < 0 ? r + b : r;
}

static int64_t gcd(int64_t a, int64_t b) {
  while (b) {
    int64_t r = a % b;
    a = b;
    b = r;
  }
  return a < 0 ? -a : a;
}

/* ---- ranges
 * --------------------------------------------------------------------------------------------------------------------
 */

/* Ends of a range may be unknown on either side; arithmetic that overflows makes them so. */
static int64_t end_add(int64_t a, int64_t b, int64_t unknown) {
  int64_t r;
  if (a == unknown || b == unknown) return unknown;
  return sn_add_i64(a, b, &r) ? r : unknown;
}

static void range_scale(const sn_ix *e, int64_t k, int64_t *lo, int64_t *hi) {
  int64_t a, b;
  bool has_lo = e->lo != INT64_MIN && sn_mul_i64(e->lo, k, &a),
       has_hi = e->hi != INT64_MAX && sn_mul_i64(e->hi, k, &b);
  if (k >= 0) {
    *lo = has_lo ? a : INT64_MIN;
    *hi = has_hi ? b : INT64_MAX;
  } else {
    *lo = has_hi ? b : INT64_MIN;
    *hi = has_lo ? a : INT64_MAX;
  }
}

void sn_ix_sum_range(const sn_ix_sum *s, int64_t *lo, int64_t *hi) {
  *lo = *hi = s->c;
  for (int k = 0; k < s->n; k++) {
    int64_t l, h;
    range_scale(s->terms[k].atom, s->terms[k].k, &l, &h);
    *lo = end_add(*lo, l, INT64_MIN);
    *hi = end_add(*hi, h, INT64_MAX);
  }
}

/* ---- sums
 * -------------------------------------------------------------------------------------------------------------------------
 */

/* Variables by number, then what is made of them: an order that says nothing of when an expression
 * was made, so that text that is read back prints the same. */
static int compare(const sn_ix *a, const sn_ix *b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->value != b->value) return a->value < b->value ? -1 : 1;
  int order = a->a && b->a ? compare(a->a, b->a) : 0;
  if (order == 0 && a->b && b->b) order = compare(a->b, b->b);
  for (int k = 0; order == 0 && k < a->n_args && k < b->n_args; k++) order = compare(a->args[k], b->args[k]);
  if (order == 0 && a->hi != b->hi) order = a->hi < b->hi ? -1 : 1;
  return order ? order : a->id < b->id ? -1 : 1;
}

static bool before(const sn_ix *a, const sn_ix *b) { return compare(a, b) < 0; }

static void sum_add_atom(sn_ix_sum *to, const sn_ix *atom, int64_t k) {
  int at = 0;
  while (at < to->n && before(to->terms[at].atom, atom)) at++;
  if (at < to->n && to->terms[at].atom == atom) {
    if (!sn_add_i64(to->terms[at].k, k, &to->terms[at].k)) to->failed = true;
    if (to->terms[at].k == 0)
      memmove(&to->terms[at], &to->terms[at + 1], (size_t)(--to->n - at) * sizeof to->terms[0]);
    return;
  }
  if (k == 0) return;
  if (to->n == SN_IX_MAX_TERMS) {
    to->failed = true;
    return;
  }
  memmove(&to->terms[at + 1], &to->terms[at], (size_t)(to->n++ - at) * sizeof to->terms[0]);
  to->terms[at] = (sn_ix_term){atom, k};
}

void sn_ix_sum_add(sn_ix_sum *to, const sn_ix *e, int64_t k) {
  for (; e->kind == SN_IX_ADD; e = e->a)
    sn_ix_sum_add(to, e->b, k); /* sums lean to the left: the right side is one term */
  int64_t product;
  if (e->kind == SN_IX_CONST) {
    if (!sn_mul_i64(e->value, k, &product) || !sn_add_i64(to->c, product, &to->c))
      to->failed = true;
  } else if (e->kind == SN_IX_MUL && e->b->kind == SN_IX_CONST) {
    if (!sn_mul_i64(e->b->value, k, &product))
      to->failed = true;
    else
      sum_add_atom(to, e->a, product);
  } else {
    sum_add_atom(to, e, k);
  }
}

static int sum_find(const sn_ix_sum *s, const sn_ix *atom) {
  for (int k = 0; k < s->n; k++) {
    if (s->terms[k].atom == atom) return k;
  }
  return -1;
}

/* Does `part` times k stand in s, coefficient for coefficient? The constant may differ: it is made
 * up for. */
static bool sum_holds(const sn_ix_sum *s, const sn_ix_sum *part, int64_t k) {
  for (int j = 0; j < part->n; j++) {
    int at = sum_find(s, part->terms[j].atom);
    int64_t want;
    if (at < 0 || !sn_mul_i64(part->terms[j].k, k, &want) || s->terms[at].k != want) return false;
  }
  return true;
}

/* Term `at` is k * (a mod n): with k*n * (a div n) beside it, both are k * a. */
static bool sum_rejoin(sn_ix_context *x, sn_ix_sum *s, int at) {
  const sn_ix *mod = s->terms[at].atom;
  int64_t k = s->terms[at].k, kn;
  const sn_ix *q = sn_ix_div(x, mod->a, mod->b->value);
  if (!q || q->kind == SN_IX_CONST || !sn_mul_i64(k, mod->b->value, &kn)) return false;
  sn_ix_sum part = {.n = 0};
  sn_ix_sum_add(&part, q, 1);
  if (part.failed || !sum_holds(s, &part, kn)) return false;
  sn_ix_sum_add(s, q, -kn);
  sn_ix_sum_add(s, mod, -k);
  sn_ix_sum_add(s, mod->a, k);
  return true;
}

static const sn_ix *sum_term(sn_ix_context *x, const sn_ix_term *t) {
  const sn_ix *c = t->k == 1 ? NULL : sn_ix_const(x, t->k);
  if (t->k == 1) return t->atom;
  if (!c) return NULL;
  sn_ix e = {.kind = SN_IX_MUL, .a = t->atom, .b = c};
  range_scale(t->atom, t->k, &e.lo, &e.hi);
  return sn_ix_intern(x, &e);
}

static const sn_ix *sum_append(sn_ix_context *x, const sn_ix *a, const sn_ix *b) {
  if (!a || !b) return a ? NULL : b;
  sn_ix e = {.kind = SN_IX_ADD,
             .a = a,
             .b = b,
             .lo = end_add(a->lo, b->lo, INT64_MIN),
             .hi = end_add(a->hi, b->hi, INT64_MAX)};
  return sn_ix_intern(x, &e);
}

const sn_ix *sn_ix_sum_make(sn_ix_context *x, sn_ix_sum *s) {
  for (int k = 0; k < s->n && !s->failed; k++) {
    if (s->terms[k].atom->kind == SN_IX_MOD && sum_rejoin(x, s, k))
      k = -1; /* fewer remainders than before: this ends */
  }
  if (s->failed) {
    x->overflow = true;
    return NULL;
  }
  const sn_ix *e = NULL;
  for (int k = 0; k < s->n; k++) {
    const sn_ix *t = sum_term(x, &s->terms[k]);
    e = t ? sum_append(x, e, t) : NULL;
    if (!e) return NULL;
  }
  if (s->c == 0 && e) return e;
  const sn_ix *c = sn_ix_const(x, s->c);
  return c && e ? sum_append(x, e, c) : c;
}

const sn_ix *sn_ix_add(sn_ix_context *x, const sn_ix *a, const sn_ix *b) {
  if (!a || !b) return NULL;
  sn_ix_sum s = {.n = 0};
  sn_ix_sum_add(&s, a, 1);
  sn_ix_sum_add(&s, b, 1);
  return sn_ix_sum_make(x, &s);
}

const sn_ix *sn_ix_sub(sn_ix_context *x, const sn_ix *a, const sn_ix *b) {
  if (!a || !b) return NULL;
  sn_ix_sum s = {.n = 0};
  sn_ix_sum_add(&s, a, 1);
  sn_ix_sum_add(&s, b, -1);
  return sn_ix_sum_make(x, &s);
}

/* ---- products
 * ---------------------------------------------------------------------------------------------------------------------
 */

static void range_product(const sn_ix *a, const sn_ix *b, int64_t *lo, int64_t *hi) {
  int64_t p[4];
  *lo = INT64_MIN;
  *hi = INT64_MAX;
  if (!sn_ix_known(a->lo, a->hi) || !sn_ix_known(b->lo, b->hi)) return;
  if (!sn_mul_i64(a->lo, b->lo, &p[0]) || !sn_mul_i64(a->lo, b->hi, &p[1]) ||
      !sn_mul_i64(a->hi, b->lo, &p[2]) || !sn_mul_i64(a->hi, b->hi, &p[3]))
    return;
  *lo = *hi = p[0];
  for (int k = 1; k < 4; k++) {
    if (p[k] < *lo) *lo = p[k];
    if (p[k] > *hi) *hi = p[k];
  }
}

const sn_ix *sn_ix_mul(sn_ix_context *x, const sn_ix *a, const sn_ix *b) {
  if (!a || !b) return NULL;
  if (a->kind == SN_IX_CONST || b->kind == SN_IX_CONST) {
    sn_ix_sum s = {.n = 0};
    if (a->kind == SN_IX_CONST)
      sn_ix_sum_add(&s, b, a->value);
    else
      sn_ix_sum_add(&s, a, b->value);
    return sn_ix_sum_make(x, &s);
  }
  sn_ix e = {.kind = SN_IX_MUL, .a = before(b, a) ? b : a, .b = before(b, a) ? a : b};
  range_product(a, b, &e.lo, &e.hi);
  return sn_ix_intern(x, &e);
}

/* ---- quotients and remainders
 * -------------------------------------------------------------------------------------------------------
 */

/* s = n * q + r, by coefficients: those of r are smaller than n, so that a div n and a mod n end
 * with the same rest. */
static void sum_split(const sn_ix_sum *s, int64_t n, sn_ix_sum *q, sn_ix_sum *r) {
  q->n = r->n = 0;
  q->failed = r->failed = s->failed;
  q->c = sn_ix_floor_div(s->c, n);
  r->c = sn_ix_floor_mod(s->c, n);
  for (int k = 0; k < s->n; k++) {
    sn_ix_term t = s->terms[k];
    if (t.k / n) q->terms[q->n++] = (sn_ix_term){t.atom, t.k / n};
    if (t.k % n) r->terms[r->n++] = (sn_ix_term){t.atom, t.k % n};
  }
}

/* The largest proper divisor g of n such that s = g * q + r with r in [0, g) and q not constant; 0:
 * none. */
static int64_t sum_divisor(const sn_ix_sum *s, int64_t n, sn_ix_sum *q, sn_ix_sum *r) {
  int64_t best = 0;
  for (int k = 0; k < s->n; k++) {
    int64_t g = gcd(s->terms[k].k, n), lo, hi;
    if (g <= best || g == 1 || g == n) continue;
    sum_split(s, g, q, r);
    sn_ix_sum_range(r, &lo, &hi);
    if (lo >= 0 && hi < g) best = g;
  }
  if (best) sum_split(s, best, q, r);
  return best;
}

static const sn_ix *quotient_node(sn_ix_context *x, sn_ix_kind kind, const sn_ix *a, int64_t n) {
  const sn_ix *b = sn_ix_const(x, n);
  if (!a || !b) return NULL;
  sn_ix e = {.kind = kind, .a = a, .b = b, .lo = 0, .hi = n - 1};
  if (kind == SN_IX_DIV) {
    e.lo = a->lo == INT64_MIN ? a->lo : sn_ix_floor_div(a->lo, n);
    e.hi = a->hi == INT64_MAX ? a->hi : sn_ix_floor_div(a->hi, n);
  }
  return sn_ix_intern(x, &e);
}

/* Where one multiple of n holds the whole range, *c is its number. */
static bool range_in_multiple(int64_t lo, int64_t hi, int64_t n, int64_t *c) {
  if (!sn_ix_known(lo, hi)) return false;
  *c = sn_ix_floor_div(lo, n);
  return *c == sn_ix_floor_div(hi, n);
}

/* A quotient of an expression that no law of sums touches. */
static const sn_ix *div_atom(sn_ix_context *x, const sn_ix *a, int64_t n) {
  int64_t mn;
  if (a->kind == SN_IX_DIV && sn_mul_i64(a->b->value, n, &mn)) return sn_ix_div(x, a->a, mn);
  if (a->kind == SN_IX_MOD && a->b->value % n == 0)
    return sn_ix_mod(x, sn_ix_div(x, a->a, n), a->b->value / n);
  return quotient_node(x, SN_IX_DIV, a, n);
}

static const sn_ix *div_rest(sn_ix_context *x, sn_ix_sum *r, int64_t n) {
  int64_t lo, hi, c;
  sn_ix_sum q, s;
  sn_ix_sum_range(r, &lo, &hi);
  if (range_in_multiple(lo, hi, n, &c)) return sn_ix_const(x, c);
  int64_t g = sum_divisor(r, n, &q, &s);
  if (g) return sn_ix_div(x, sn_ix_sum_make(x, &q), n / g);
  const sn_ix *e = sn_ix_sum_make(x, r);
  return e ? div_atom(x, e, n) : NULL;
}

const sn_ix *sn_ix_div(sn_ix_context *x, const sn_ix *a, int64_t n) {
  if (!a || n < 1) return NULL;
  if (n == 1) return a;
  sn_ix_sum s = {.n = 0}, q, r;
  sn_ix_sum_add(&s, a, 1);
  sum_split(&s, n, &q, &r);
  if (q.n == 0 && q.c == 0) return div_rest(x, &r, n);
  return sn_ix_add(x, sn_ix_sum_make(x, &q), div_rest(x, &r, n));
}

static const sn_ix *mod_atom(sn_ix_context *x, const sn_ix *a, int64_t n) {
  if (a->kind == SN_IX_MOD && a->b->value % n == 0) return sn_ix_mod(x, a->a, n);
  return quotient_node(x, SN_IX_MOD, a, n);
}

const sn_ix *sn_ix_mod(sn_ix_context *x, const sn_ix *a, int64_t n) {
  if (!a || n < 1) return NULL;
  if (n == 1) return sn_ix_const(x, 0);
  sn_ix_sum s = {.n = 0}, q, r, rest;
  int64_t lo, hi, c;
  sn_ix_sum_add(&s, a, 1);
  sum_split(&s, n, &q, &r); /* multiples of n go */
  sn_ix_sum_range(&r, &lo, &hi);
  if (range_in_multiple(lo, hi, n, &c)) {
    if (!sn_mul_i64(c, -n, &c) || !sn_add_i64(r.c, c, &r.c)) r.failed = true;
    return sn_ix_sum_make(x, &r);
  }
  int64_t g = sum_divisor(&r, n, &q, &rest);
  if (g) {
    const sn_ix *high = sn_ix_mul(x, sn_ix_mod(x, sn_ix_sum_make(x, &q), n / g), sn_ix_const(x, g));
    return sn_ix_add(x, high, sn_ix_sum_make(x, &rest));
  }
  const sn_ix *e = sn_ix_sum_make(x, &r);
  return e ? mod_atom(x, e, n) : NULL;
}

/* ---- min, max
 * ------------------------------------------------------------------------------------------------------------------------
 */

static const sn_ix *extreme(sn_ix_context *x, sn_ix_kind kind, const sn_ix *a, const sn_ix *b) {
  bool min = kind == SN_IX_MIN;
  if (!a || !b) return NULL;
  if (a == b) return a;
  bool below = a->hi != INT64_MAX && b->lo != INT64_MIN && a->hi <= b->lo,
       above = b->hi != INT64_MAX && a->lo != INT64_MIN && b->hi <= a->lo;
  if (below || above) return below == min ? a : b;
  if (a->kind == SN_IX_CONST) { /* constants stand on the right */
    const sn_ix *t = a;
    a = b;
    b = t;
  }
  if (b->kind == SN_IX_CONST && a->kind == kind && a->b->kind == SN_IX_CONST) {
    return extreme(x, kind, a->a, (a->b->value < b->value) == min ? a->b : b);
  }
  bool swap = b->kind != SN_IX_CONST && before(b, a);
  sn_ix e = {.kind = kind, .a = swap ? b : a, .b = swap ? a : b};
  if (min) {
    e.lo = a->lo < b->lo ? a->lo : b->lo;
    e.hi = a->hi < b->hi ? a->hi : b->hi;
  } else {
    e.lo = a->lo > b->lo ? a->lo : b->lo;
    e.hi = a->hi > b->hi ? a->hi : b->hi;
  }
  return sn_ix_intern(x, &e);
}

const sn_ix *sn_ix_min(sn_ix_context *x, const sn_ix *a, const sn_ix *b) {
  return extreme(x, SN_IX_MIN, a, b);
}

const sn_ix *sn_ix_max(sn_ix_context *x, const sn_ix *a, const sn_ix *b) {
  return extreme(x, SN_IX_MAX, a, b);
}
