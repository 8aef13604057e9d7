/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Gathers that need no table, and tables that need no product. */
#include "rules.h"

#define ANY SN_ANY

/* One number of a 1-D table for each index: no window dimensions, no batching. */
static bool picks_numbers(const sn_instr *i) {
  sn_ints sizes = sn_instr_ints(i, SN_ATTR_SLICE_SIZES);
  return sn_in(i, 0)->shape->rank == 1 && sizes.n == 1 && sizes.v[0] == 1 && sn_instr_ints(i, SN_ATTR_OFFSET_DIMS).n == 0 &&
         sn_instr_ints(i, SN_ATTR_OPERAND_BATCHING_DIMS).n == 0;
}
/* iota[k] is k, clamped into the table as every gather's index is. */
static sn_instr *gather_iota(sn_builder *b, sn_instr *i) {
  sn_instr *index = sn_in(i, 1);
  int64_t n = sn_in(i, 0)->shape->dims[0];
  if (!picks_numbers(i) || !sn_type_is_integer(i->shape->type) || sn_type_bits(i->shape->type) < 32 || n < 1 || n > INT32_MAX) return NULL;
  if (sn_type_bits(index->shape->type) < 32) return NULL; /* n - 1 might not exist there */
  index = sn_build_reshape(b, index, i->shape->rank, i->shape->dims);
  sn_instr *lo = sn_build_full(b, index ? index->shape : i->shape, 0), *hi = sn_build_full(b, index ? index->shape : i->shape, (double)(n - 1));
  return sn_build_convert(b, sn_build_clamp(b, lo, index, hi), i->shape->type);
}
static sn_instr *gather_splat(sn_builder *b, sn_instr *i) { return sn_build_broadcast_scalar(b, sn_in(sn_in(i, 0), 0), i->shape); }
static sn_instr *gather_of_splat(sn_builder *b, sn_instr *i) { return sn_is_splat(sn_in(i, 0)) ? gather_splat(b, i) : NULL; }

/* ---- one-hot products ---- */

/* convert(compare(broadcast(index), iota, EQ)) over [rows, classes]: the index, or NULL. */
static sn_instr *one_hot_index(const sn_instr *x, int64_t class_dim) {
  if (x->op != SN_OP_CONVERT || sn_in(x, 0)->op != SN_OP_COMPARE) return NULL;
  const sn_instr *c = sn_in(x, 0);
  if (sn_instr_int(c, SN_ATTR_DIRECTION) != SN_DIRECTION_EQ || !sn_type_is_integer(sn_in(c, 0)->shape->type)) return NULL;
  for (uint32_t k = 0; k < 2; k++) {
    const sn_instr *w = sn_in(c, k), *iota = sn_in(c, 1 - k);
    if (iota->op == SN_OP_BROADCAST && sn_in(iota, 0)->op == SN_OP_IOTA) {
      sn_ints d = sn_instr_ints(iota, SN_ATTR_DIMENSIONS);
      if (d.n != 1 || d.v[0] != class_dim) continue;
    } else if (iota->op != SN_OP_IOTA || sn_instr_int(iota, SN_ATTR_IOTA_DIMENSION) != class_dim) {
      continue;
    }
    sn_ints d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
    if (w->op == SN_OP_BROADCAST && d.n == 1 && d.v[0] == 1 - class_dim) return sn_in(w, 0);
  }
  return NULL;
}
/* dot(one_hot(index), table) = table[index], or 0 where the index is out of range. */
static sn_instr *one_hot_dot(sn_builder *b, sn_instr *i) {
  if (!sn_dot_is_canonical(i) || sn_instr_ints(i, SN_ATTR_LHS_BATCH_DIMS).n || i->shape->rank != 2 || i->shape->type != sn_in(i, 1)->shape->type) return NULL;
  sn_instr *table = sn_in(i, 1), *index;
  int64_t lc = sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS).v[0], rc = sn_instr_ints(i, SN_ATTR_RHS_CONTRACTING_DIMS).v[0];
  if (sn_in(i, 0)->shape->rank != 2 || rc != 0 || !(index = one_hot_index(sn_in(i, 0), lc))) return NULL;
  int64_t rows = index->shape->dims[0], classes = table->shape->dims[0], width = table->shape->dims[1];
  if (sn_type_bits(index->shape->type) < 32 || classes > INT32_MAX) return NULL;
  int64_t zero = 0, one = 1, sizes[2] = {1, width}, two_d[2] = {rows, 1};
  sn_attr attrs[] = {sn_attr_ints(SN_ATTR_OFFSET_DIMS, 1, &one),        sn_attr_ints(SN_ATTR_COLLAPSED_SLICE_DIMS, 1, &zero),
                     sn_attr_ints(SN_ATTR_START_INDEX_MAP, 1, &zero),   sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, 1),
                     sn_attr_ints(SN_ATTR_SLICE_SIZES, 2, sizes)};
  sn_instr *xs[2] = {table, sn_build_reshape(b, index, 2, two_d)};
  sn_instr *picked = sn_build(b, SN_OP_GATHER, NULL, 2, xs, 5, attrs, 0, NULL);
  sn_instr *below = sn_build_compare(b, SN_DIRECTION_LT, index, sn_build_full(b, index->shape, (double)classes));
  sn_instr *above = sn_build_compare(b, SN_DIRECTION_GE, index, sn_build_full(b, index->shape, 0));
  sn_instr *inside = sn_build_binary(b, SN_OP_AND, below, above);
  inside = sn_build_broadcast(b, inside, 2, i->shape->dims, 1, &zero);
  return sn_build_select(b, inside, picked, sn_build_full(b, i->shape, 0));
}

const sn_rule sn_rules_gather[] = {
    {SN_OP_GATHER, SN_OP_IOTA, ANY, SN_EXACT, gather_iota, "gather(iota, n) = clamp(n)"},
    {SN_OP_GATHER, SN_OP_BROADCAST, ANY, SN_EXACT, gather_of_splat, "gather(broadcast(c), n) = broadcast(c)"},
    {SN_OP_DOT, SN_OP_CONVERT, ANY, SN_FORMULA, one_hot_dot, "dot(one-hot(n), table) = gather(table, n)"},
    {0}};
