/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reductions. Adding floats in another order is `reassoc`; maxima, minima, logic and integers may be regrouped exactly. The oracle adds elements in row-major order
 * of the reduced dimensions, starting from the start value: a rule that keeps that order is exact. */
#include "rules.h"

#define ANY SN_ANY

/* One array, one start value, a plain binary reducer. */
static bool plain_reduce(const sn_instr *i, sn_opcode *op) { return i->n_operands == 2 && sn_computation_is_binary(i->called[0], op); }

static bool regroups_exactly(const sn_instr *i, sn_opcode op) {
  if (op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM || op == SN_OP_AND || op == SN_OP_OR || op == SN_OP_XOR) return true;
  return sn_is_int(i) && (op == SN_OP_ADD || op == SN_OP_MULTIPLY);
}
static bool idempotent(sn_opcode op) { return op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM || op == SN_OP_AND || op == SN_OP_OR; }

static sn_instr *reduce_again(sn_builder *b, const sn_instr *i, sn_instr *x, int n, const int64_t *dims) {
  sn_instr *xs[2] = {x, sn_in(i, 1)};
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, n, dims);
  return sn_build(b, SN_OP_REDUCE, NULL, 2, xs, 1, &a, 1, i->called);
}

/* Dimensions of size 1 are not reduced but dropped; when nothing else is left, one application of the reducer remains. */
static sn_instr *reduce_unit_dims(sn_builder *b, sn_instr *i) {
  sn_opcode op;
  sn_instr *x = sn_in(i, 0);
  sn_ints r = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t kept[SN_MAX_RANK], dims[SN_MAX_RANK], at[SN_MAX_RANK];
  int n_kept = 0, n = 0;
  if (!plain_reduce(i, &op)) return NULL;
  for (int d = 0; d < x->shape->rank; d++) {
    if (sn_has_dim(r, d) && x->shape->dims[d] == 1) continue;
    at[d] = n;
    dims[n++] = x->shape->dims[d];
  }
  if (n == x->shape->rank && r.n) return NULL;
  for (int64_t k = 0; k < r.n; k++) {
    if (x->shape->dims[r.v[k]] != 1) kept[n_kept++] = at[r.v[k]];
  }
  x = sn_build_reshape(b, x, n, dims);
  if (n_kept) return reduce_again(b, i, x, n_kept, kept);
  return sn_build_binary(b, op, sn_build_broadcast_scalar(b, sn_in(i, 1), i->shape), x);
}

/* A reshape below a reduction goes when each group of dimensions it regroups is reduced whole or not at all. */
static sn_instr *reduce_reshape(sn_builder *b, sn_instr *i) {
  sn_opcode op;
  sn_instr *r = sn_in(i, 0), *x = sn_in(r, 0);
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int fx[2 * SN_MAX_RANK + 2], fr[2 * SN_MAX_RANK + 2], n = 0;
  int64_t to[SN_MAX_RANK];
  if (!plain_reduce(i, &op) || sn_shape_elements(x->shape) == 0) return NULL;
  int groups = sn_factor_reshape(x->shape, r->shape, fx, fr);
  for (int g = 0; g < groups; g++) {
    int reduced = 0;
    for (int d = fr[g]; d < fr[g + 1]; d++) reduced += sn_has_dim(dims, d);
    if (reduced != 0 && reduced != fr[g + 1] - fr[g]) return NULL;
    for (int d = fx[g]; reduced && d < fx[g + 1]; d++) {
      if (x->shape->dims[d] != 1) to[n++] = d; /* `reduce_unit_dims` would put a reshape in front of it again */
    }
  }
  if (groups < 0 || n == 0) return NULL;
  return sn_build_reshape(b, reduce_again(b, i, x, n, to), i->shape->rank, i->shape->dims);
}

/* A transpose below a reduction moves to the smaller side. */
static sn_instr *below_transpose(sn_builder *b, sn_instr *i, bool in_order_only) {
  sn_opcode op;
  sn_instr *t = sn_in(i, 0), *x = sn_in(t, 0);
  sn_ints p = sn_instr_ints(t, SN_ATTR_DIMENSIONS), dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t to[SN_MAX_RANK], rank_of[SN_MAX_RANK], order[SN_MAX_RANK], last = -1;
  int n = 0, n_left = 0;
  bool in_order = true;
  if (!plain_reduce(i, &op) || dims.n == 0) return NULL;
  for (int64_t d = 0; d < p.n; d++) {
    if (!sn_has_dim(dims, d)) continue;
    in_order &= p.v[d] > last;
    last = p.v[d];
    to[n++] = p.v[d];
  }
  if (in_order_only && !in_order && !regroups_exactly(i, op)) return NULL;
  for (int d = 0, at = 0; d < x->shape->rank; d++) {
    bool gone = false;
    for (int k = 0; k < n; k++) gone |= to[k] == d;
    rank_of[d] = gone ? -1 : at++;
  }
  for (int64_t d = 0; d < p.n; d++) {
    if (!sn_has_dim(dims, d)) order[n_left++] = rank_of[p.v[d]];
  }
  for (int k = 1; k < n; k++) { /* ascending, as everybody writes them */
    for (int q = k; q > 0 && to[q] < to[q - 1]; q--) {
      int64_t swap = to[q];
      to[q] = to[q - 1];
      to[q - 1] = swap;
    }
  }
  return sn_build_transpose(b, reduce_again(b, i, x, n, to), order);
}
static sn_instr *reduce_transpose(sn_builder *b, sn_instr *i) { return below_transpose(b, i, true); }
static sn_instr *reduce_transpose_any(sn_builder *b, sn_instr *i) { return below_transpose(b, i, false); }

/* Reducing what was stretched: maxima of equal elements are the element, sums are multiples. */
static sn_instr *reduce_broadcast(sn_builder *b, sn_instr *i, bool sums) {
  sn_opcode op;
  sn_instr *w = sn_in(i, 0), *x = sn_in(w, 0);
  sn_ints r = sn_instr_ints(i, SN_ATTR_DIMENSIONS), d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  int64_t dims[SN_MAX_RANK], at[SN_MAX_RANK], own[SN_MAX_RANK], rest[SN_MAX_RANK];
  int n = 0, n_rest = 0;
  double times = 1;
  if (!plain_reduce(i, &op) || (sums ? op != SN_OP_ADD : !idempotent(op))) return NULL;
  for (int k = 0; k < w->shape->rank; k++) {
    if (sn_has_dim(r, k) && !sn_has_dim(d, k)) {
      times *= (double)w->shape->dims[k];
      continue;
    }
    at[k] = n;
    dims[n++] = w->shape->dims[k];
  }
  if (n == w->shape->rank || times < 1) return NULL;
  if (sums && (!(sn_instr_is_all(sn_in(i, 1), 0.0) || sn_instr_is_all(sn_in(i, 1), -0.0)) || times > 16777216 || sn_type_is_complex(i->shape->type))) return NULL;
  for (int64_t k = 0; k < d.n; k++) own[k] = at[d.v[k]];
  for (int64_t k = 0; k < r.n; k++) {
    if (sn_has_dim(d, r.v[k])) rest[n_rest++] = at[r.v[k]];
  }
  sn_instr *y = sn_build_broadcast(b, x, n, dims, (int)d.n, own);
  if (n_rest) y = reduce_again(b, i, y, n_rest, rest);
  else if (!sums) y = sn_build_binary(b, op, sn_build_broadcast_scalar(b, sn_in(i, 1), i->shape), y);
  return sums && y ? sn_build_binary(b, SN_OP_MULTIPLY, y, sn_build_full(b, i->shape, times)) : y;
}
static sn_instr *max_broadcast(sn_builder *b, sn_instr *i) { return reduce_broadcast(b, i, false); }
static sn_instr *sum_broadcast_exact(sn_builder *b, sn_instr *i) { return sn_type_is_integer(i->shape->type) && sn_type_bits(i->shape->type) >= 32 ? reduce_broadcast(b, i, true) : NULL; }
static sn_instr *sum_broadcast(sn_builder *b, sn_instr *i) {
  sn_type t = i->shape->type;
  return t == SN_TYPE_F32 || t == SN_TYPE_F64 ? reduce_broadcast(b, i, true) : NULL;
}

/* A reduction of a reduction by the same function is one over both sets of dimensions. */
static sn_instr *merge_reduces(sn_builder *b, sn_instr *i) {
  sn_opcode op, inner_op;
  sn_instr *inner = sn_in(i, 0), *x = sn_in(inner, 0);
  if (!plain_reduce(i, &op) || !plain_reduce(inner, &inner_op) || op != inner_op || !sn_one_use(inner)) return NULL;
  sn_instr *start = sn_in(inner, 1);
  bool neutral = idempotent(op) ? start == sn_in(i, 1) : op == SN_OP_ADD ? sn_instr_is_all(start, 0.0) : op == SN_OP_MULTIPLY && sn_instr_is_all(start, 1.0);
  if (!neutral) return NULL;
  sn_ints outer = sn_instr_ints(i, SN_ATTR_DIMENSIONS), first = sn_instr_ints(inner, SN_ATTR_DIMENSIONS);
  int64_t dims[SN_MAX_RANK];
  int n = 0;
  for (int d = 0, at = 0; d < x->shape->rank; d++) {
    bool gone = sn_has_dim(first, d);
    if (gone || sn_has_dim(outer, at)) dims[n++] = d;
    at += !gone;
  }
  return reduce_again(b, i, x, n, dims);
}
static sn_instr *merge_reduces_exact(sn_builder *b, sn_instr *i) {
  sn_opcode op;
  return plain_reduce(i, &op) && regroups_exactly(i, op) ? merge_reduces(b, i) : NULL;
}

/* Windows of one element that visit each once: one application of the reducer. */
static sn_instr *window_of_one(sn_builder *b, sn_instr *i) {
  sn_opcode op;
  const sn_window *w = sn_instr_window(i);
  if (!w || i->n_operands != 2 || !sn_computation_is_binary(i->called[0], &op)) return NULL;
  for (int k = 0; k < w->rank; k++) {
    const sn_window_dim *d = &w->dims[k];
    if (d->size != 1 || d->stride != 1 || d->pad_low || d->pad_high || d->lhs_dilate != 1) return NULL;
  }
  return sn_build_binary(b, op, sn_build_broadcast_scalar(b, sn_in(i, 1), i->shape), sn_in(i, 0));
}
/* Nothing to order. */
static sn_instr *sort_one(sn_builder *b, sn_instr *i) {
  (void)b;
  return i->n_operands == 1 && sn_shape_is_array(i->shape) && i->shape->dims[sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0]] <= 1 ? sn_in(i, 0) : NULL;
}

const sn_rule sn_rules_reduce[] = {
    {SN_OP_REDUCE, ANY, ANY, SN_EXACT, reduce_unit_dims, "reduce over dimensions of size 1 = reshape"},
    {SN_OP_REDUCE, SN_OP_RESHAPE, ANY, SN_EXACT, reduce_reshape, "reduce(reshape(x)) = reshape(reduce(x))"},
    {SN_OP_REDUCE, SN_OP_TRANSPOSE, ANY, SN_EXACT, reduce_transpose, "reduce(transpose(x)) = transpose(reduce(x))"},
    {SN_OP_REDUCE, SN_OP_BROADCAST, ANY, SN_EXACT, max_broadcast, "max over broadcast(x) = x"},
    {SN_OP_REDUCE, SN_OP_BROADCAST, ANY, SN_EXACT, sum_broadcast_exact, "sum over broadcast(n) = n * count"},
    {SN_OP_REDUCE, SN_OP_REDUCE, ANY, SN_EXACT, merge_reduces_exact, "max(max(x)) = max(x)"},
    {SN_OP_REDUCE, SN_OP_TRANSPOSE, ANY, SN_REASSOC, reduce_transpose_any, "sum(transpose(x)) = transpose(sum(x))"},
    {SN_OP_REDUCE, SN_OP_BROADCAST, ANY, SN_REASSOC, sum_broadcast, "sum over broadcast(x) = x * count"},
    {SN_OP_REDUCE, SN_OP_REDUCE, ANY, SN_REASSOC, merge_reduces, "sum(sum(x)) = sum(x)"},
    {SN_OP_REDUCE_WINDOW, ANY, ANY, SN_EXACT, window_of_one, "reduce-window of one element"},
    {SN_OP_SORT, ANY, ANY, SN_EXACT, sort_one, "sort of one element"},
    {0}};
