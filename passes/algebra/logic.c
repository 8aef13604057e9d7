/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Predicates and bits: and, or, xor, not, compare, select, clamp. */
#include "rules.h"

#define ANY SN_ANY

/* Every bit of the constant set. */
static bool all_ones(const sn_instr *i) {
  int64_t v;
  sn_type t = i->shape->type;
  if (t == SN_TYPE_PRED) return sn_instr_is_all(i, 1.0);
  return sn_instr_constant_i64(i, &v) && (v == -1 || (sn_type_is_unsigned(t) && sn_type_bits(t) < 64 && v == (INT64_C(1) << sn_type_bits(t)) - 1));
}

static sn_instr *constant_right(sn_builder *b, sn_instr *i) {
  const sn_instr *x = sn_in(i, 0), *y = sn_in(i, 1);
  while (x->op == SN_OP_BROADCAST) x = sn_in(x, 0);
  while (y->op == SN_OP_BROADCAST) y = sn_in(y, 0);
  return x->op == SN_OP_CONSTANT && y->op != SN_OP_CONSTANT ? sn_build_binary(b, i->op, sn_in(i, 1), sn_in(i, 0)) : NULL;
}
static sn_instr *and_const(sn_builder *b, sn_instr *i) {
  (void)b;
  if (sn_in(i, 0) == sn_in(i, 1) || all_ones(sn_in(i, 1))) return sn_in(i, 0);
  return sn_instr_is_all(sn_in(i, 1), 0.0) ? sn_in(i, 1) : NULL;
}
static sn_instr *or_const(sn_builder *b, sn_instr *i) {
  (void)b;
  if (sn_in(i, 0) == sn_in(i, 1) || sn_instr_is_all(sn_in(i, 1), 0.0)) return sn_in(i, 0);
  return all_ones(sn_in(i, 1)) ? sn_in(i, 1) : NULL;
}
static sn_instr *xor_const(sn_builder *b, sn_instr *i) {
  if (sn_instr_is_all(sn_in(i, 1), 0.0)) return sn_in(i, 0);
  if (sn_in(i, 0) == sn_in(i, 1)) return sn_build_full(b, i->shape, 0);
  return all_ones(sn_in(i, 1)) ? sn_build_unary(b, SN_OP_NOT, sn_in(i, 0)) : NULL;
}
static sn_instr *shift_zero(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_instr_is_all(sn_in(i, 1), 0.0) ? sn_in(i, 0) : NULL;
}
static sn_instr *not_not(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_in(sn_in(i, 0), 0);
}

/* ---- comparisons ---- */

static sn_instr *compare_typed(sn_builder *b, int64_t direction, sn_instr *x, sn_instr *y, const sn_instr *like) {
  sn_instr *xs[2] = {x, y};
  sn_attr attrs[2] = {sn_attr_int(SN_ATTR_DIRECTION, direction)};
  uint32_t n = 1;
  const sn_attr *type = sn_instr_attr(like, SN_ATTR_COMPARE_TYPE);
  if (type) attrs[n++] = *type;
  return sn_build(b, SN_OP_COMPARE, NULL, 2, xs, n, attrs, 0, NULL);
}
static sn_instr *compare_constant_right(sn_builder *b, sn_instr *i) {
  static const int64_t swapped[] = {SN_DIRECTION_EQ, SN_DIRECTION_NE, SN_DIRECTION_LE, SN_DIRECTION_LT, SN_DIRECTION_GE, SN_DIRECTION_GT};
  const sn_instr *x = sn_in(i, 0), *y = sn_in(i, 1);
  while (x->op == SN_OP_BROADCAST) x = sn_in(x, 0);
  while (y->op == SN_OP_BROADCAST) y = sn_in(y, 0);
  if (x->op != SN_OP_CONSTANT || y->op == SN_OP_CONSTANT) return NULL;
  return compare_typed(b, swapped[sn_instr_int(i, SN_ATTR_DIRECTION)], sn_in(i, 1), sn_in(i, 0), i);
}
static sn_instr *compare_self(sn_builder *b, sn_instr *i) {
  int64_t d = sn_instr_int(i, SN_ATTR_DIRECTION);
  if (sn_in(i, 0) != sn_in(i, 1) || !sn_is_int(sn_in(i, 0))) return NULL; /* NaN != NaN */
  return sn_build_full(b, i->shape, d == SN_DIRECTION_EQ || d == SN_DIRECTION_GE || d == SN_DIRECTION_LE);
}
static sn_instr *compare_pred(sn_builder *b, sn_instr *i) {
  int64_t d = sn_instr_int(i, SN_ATTR_DIRECTION);
  if (sn_in(i, 0)->shape->type != SN_TYPE_PRED || (d != SN_DIRECTION_EQ && d != SN_DIRECTION_NE)) return NULL;
  bool with_one = sn_instr_is_all(sn_in(i, 1), 1.0), with_zero = sn_instr_is_all(sn_in(i, 1), 0.0);
  if (!with_one && !with_zero) return NULL;
  return with_one == (d == SN_DIRECTION_EQ) ? sn_in(i, 0) : sn_build_unary(b, SN_OP_NOT, sn_in(i, 0));
}
/* Unsigned numbers are never below 0. */
static sn_instr *compare_unsigned_zero(sn_builder *b, sn_instr *i) {
  int64_t d = sn_instr_int(i, SN_ATTR_DIRECTION);
  if (!sn_type_is_unsigned(sn_in(i, 0)->shape->type) || !sn_instr_is_all(sn_in(i, 1), 0.0)) return NULL;
  return d == SN_DIRECTION_LT || d == SN_DIRECTION_GE ? sn_build_full(b, i->shape, d == SN_DIRECTION_GE) : NULL;
}
static sn_instr *not_compare(sn_builder *b, sn_instr *i) {
  static const int64_t opposite[] = {SN_DIRECTION_NE, SN_DIRECTION_EQ, SN_DIRECTION_LT, SN_DIRECTION_LE, SN_DIRECTION_GT, SN_DIRECTION_GE};
  sn_instr *c = sn_in(i, 0);
  int64_t d = sn_instr_int(c, SN_ATTR_DIRECTION);
  bool ordered = sn_is_int(sn_in(c, 0)) || sn_instr_int(c, SN_ATTR_COMPARE_TYPE) == SN_COMPARE_TYPE_TOTALORDER;
  if (!sn_one_use(c) || (!ordered && d != SN_DIRECTION_EQ && d != SN_DIRECTION_NE)) return NULL;
  return compare_typed(b, opposite[d], sn_in(c, 0), sn_in(c, 1), c);
}

/* ---- choices ---- */

static sn_instr *select_known(sn_builder *b, sn_instr *i) {
  sn_instr *p = sn_in(i, 0);
  (void)b;
  if (sn_in(i, 1) == sn_in(i, 2)) return sn_in(i, 1);
  if (sn_instr_is_all(p, 1.0)) return sn_in(i, 1);
  return sn_instr_is_all(p, 0.0) ? sn_in(i, 2) : NULL;
}
static sn_instr *select_not(sn_builder *b, sn_instr *i) { return sn_build_select(b, sn_in(sn_in(i, 0), 0), sn_in(i, 2), sn_in(i, 1)); }
/* A scalar predicate stretched over the array: select takes the scalar itself. Only where all three are equal in shape do elementwise rules apply, so the
 * stretched form is the canonical one; a select between predicates is logic. */
static sn_instr *select_pred(sn_builder *b, sn_instr *i) {
  sn_instr *p = sn_in(i, 0), *t = sn_in(i, 1), *f = sn_in(i, 2);
  if (i->shape->type != SN_TYPE_PRED || !sn_shape_equal(p->shape, i->shape, 0)) return NULL;
  bool t1 = sn_instr_is_all(t, 1.0), t0 = sn_instr_is_all(t, 0.0), f1 = sn_instr_is_all(f, 1.0), f0 = sn_instr_is_all(f, 0.0);
  if (t1 && f0) return p;
  if (t0 && f1) return sn_build_unary(b, SN_OP_NOT, p);
  if (f0) return sn_build_binary(b, SN_OP_AND, p, t);
  return t1 ? sn_build_binary(b, SN_OP_OR, p, f) : NULL;
}
static sn_instr *select_nested(sn_builder *b, sn_instr *i) { /* select(p, select(p, a, b), c) = select(p, a, c) */
  sn_instr *p = sn_in(i, 0), *t = sn_in(i, 1), *f = sn_in(i, 2);
  if (t->op == SN_OP_SELECT && sn_in(t, 0) == p) return sn_build_select(b, p, sn_in(t, 1), f);
  return f->op == SN_OP_SELECT && sn_in(f, 0) == p ? sn_build_select(b, p, t, sn_in(f, 2)) : NULL;
}

const sn_rule sn_rules_logic[] = {
    {SN_OP_AND, ANY, ANY, SN_EXACT, constant_right, "c & x = x & c"},
    {SN_OP_OR, ANY, ANY, SN_EXACT, constant_right, "c | x = x | c"},
    {SN_OP_XOR, ANY, ANY, SN_EXACT, constant_right, "c ^ x = x ^ c"},
    {SN_OP_AND, ANY, ANY, SN_EXACT, and_const, "x & x = x, x & ~0 = x, x & 0 = 0"},
    {SN_OP_OR, ANY, ANY, SN_EXACT, or_const, "x | x = x, x | 0 = x, x | ~0 = ~0"},
    {SN_OP_XOR, ANY, ANY, SN_EXACT, xor_const, "x ^ 0 = x, x ^ x = 0, x ^ ~0 = ~x"},
    {SN_OP_SHIFT_LEFT, ANY, ANY, SN_EXACT, shift_zero, "x << 0 = x"},
    {SN_OP_SHIFT_RIGHT_LOGICAL, ANY, ANY, SN_EXACT, shift_zero, "x >> 0 = x"},
    {SN_OP_SHIFT_RIGHT_ARITHMETIC, ANY, ANY, SN_EXACT, shift_zero, "x >> 0 = x"},
    {SN_OP_NOT, SN_OP_NOT, ANY, SN_EXACT, not_not, "~~x = x"},
    {SN_OP_NOT, SN_OP_COMPARE, ANY, SN_EXACT, not_compare, "!(a < b) = a >= b where the order is total"},
    {SN_OP_COMPARE, ANY, ANY, SN_EXACT, compare_constant_right, "c < x = x > c"},
    {SN_OP_COMPARE, ANY, ANY, SN_EXACT, compare_self, "n == n = true"},
    {SN_OP_COMPARE, ANY, ANY, SN_EXACT, compare_pred, "p == true = p"},
    {SN_OP_COMPARE, ANY, ANY, SN_EXACT, compare_unsigned_zero, "u < 0 = false"},
    {SN_OP_SELECT, ANY, ANY, SN_EXACT, select_known, "select(true, a, b) = a, select(p, a, a) = a"},
    {SN_OP_SELECT, SN_OP_NOT, ANY, SN_EXACT, select_not, "select(!p, a, b) = select(p, b, a)"},
    {SN_OP_SELECT, ANY, ANY, SN_EXACT, select_pred, "select(p, q, false) = p & q"},
    {SN_OP_SELECT, ANY, ANY, SN_EXACT, select_nested, "select(p, select(p, a, b), c) = select(p, a, c)"},
    {0}};
