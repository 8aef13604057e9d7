/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reshapes, transposes and broadcasts. They move no numbers, so every rule is exact. Which way they move: chains collapse; a broadcast swallows reshapes and
 * transposes of its result; arithmetic on broadcasts is done before broadcasting. Moving reshapes and transposes through arithmetic is the business of
 * `reshape-mover`, not of these rules. */
#include "rules.h"

#include <string.h>

#define ANY SN_ANY

static bool same_dims(const sn_shape *a, const sn_shape *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

/* Groups of neighbouring dimensions with equal products on both sides of a reshape. first_a[k], first_b[k]: where group k begins. */
int sn_factor_reshape(const sn_shape *a, const sn_shape *b, int *first_a, int *first_b) {
  int k = 0, q = 0, n = 0;
  while (k < a->rank || q < b->rank) {
    first_a[n] = k;
    first_b[n++] = q;
    int64_t x = k < a->rank ? a->dims[k++] : 1, y = q < b->rank ? b->dims[q++] : 1;
    while (x != y) {
      if (x < y && k < a->rank) x *= a->dims[k++];
      else if (q < b->rank) y *= b->dims[q++];
      else return -1;
    }
  }
  first_a[n] = a->rank;
  first_b[n] = b->rank;
  return n;
}

static sn_instr *reshape_nothing(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_same_shape(i, sn_in(i, 0)) ? sn_in(i, 0) : NULL;
}
static sn_instr *reshape_reshape(sn_builder *b, sn_instr *i) { return sn_build_reshape(b, sn_in(sn_in(i, 0), 0), i->shape->rank, i->shape->dims); }

static sn_instr *reshape_scalar(sn_builder *b, sn_instr *i) { /* every splat is a broadcast of a scalar */
  return i->shape->rank && sn_shape_is_scalar(sn_in(i, 0)->shape) ? sn_build_broadcast_scalar(b, sn_in(i, 0), i->shape) : NULL;
}

static bool is_identity(sn_ints p) {
  for (int64_t k = 0; k < p.n; k++) {
    if (p.v[k] != k) return false;
  }
  return true;
}
static sn_instr *transpose_nothing(sn_builder *b, sn_instr *i) {
  (void)b;
  return is_identity(sn_instr_ints(i, SN_ATTR_DIMENSIONS)) ? sn_in(i, 0) : NULL;
}
static sn_instr *transpose_transpose(sn_builder *b, sn_instr *i) {
  sn_ints outer = sn_instr_ints(i, SN_ATTR_DIMENSIONS), inner = sn_instr_ints(sn_in(i, 0), SN_ATTR_DIMENSIONS);
  int64_t p[SN_MAX_RANK];
  for (int64_t k = 0; k < outer.n; k++) p[k] = inner.v[outer.v[k]];
  return sn_build_transpose(b, sn_in(sn_in(i, 0), 0), p);
}
/* A transpose that moves only dimensions of size 1 past the others keeps the order of elements. */
static sn_instr *transpose_is_reshape(sn_builder *b, sn_instr *i) {
  sn_ints p = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  const sn_shape *s = sn_in(i, 0)->shape;
  int64_t last = -1;
  if (is_identity(p)) return NULL;
  for (int64_t k = 0; k < p.n; k++) {
    if (s->dims[p.v[k]] == 1) continue;
    if (p.v[k] < last) return NULL;
    last = p.v[k];
  }
  return sn_build_reshape(b, sn_in(i, 0), i->shape->rank, i->shape->dims);
}

/* A reshape of a transpose that regroups only dimensions which the transpose moves together: regroup first, move the groups afterwards. Transposes thus sink
 * towards the products that swallow them. */
static sn_instr *reshape_transpose(sn_builder *b, sn_instr *i) {
  sn_instr *t = sn_in(i, 0), *x = sn_in(t, 0);
  sn_ints p = sn_instr_ints(t, SN_ATTR_DIMENSIONS);
  int ft[2 * SN_MAX_RANK + 2], fs[2 * SN_MAX_RANK + 2], n = 0;
  int64_t dims[SN_MAX_RANK], where[SN_MAX_RANK];
  if (sn_shape_elements(i->shape) == 0) return NULL;
  int groups = sn_factor_reshape(t->shape, i->shape, ft, fs);
  for (int g = 0; g < groups; g++) {
    for (int d = ft[g] + 1; d < ft[g + 1]; d++) {
      if (p.v[d] != p.v[d - 1] + 1) return NULL;
    }
  }
  if (groups < 0) return NULL;
  for (int d = 0; d <= x->shape->rank; d++) { /* groups in the order in which x has them; those of no dimension of x last */
    for (int g = 0; g < groups; g++) {
      bool here = d < x->shape->rank ? ft[g] < ft[g + 1] && p.v[ft[g]] == d : ft[g] == ft[g + 1];
      for (int q = fs[g]; here && q < fs[g + 1]; q++) {
        where[q] = n;
        dims[n++] = i->shape->dims[q];
      }
    }
  }
  return sn_build_transpose(b, sn_build_reshape(b, x, n, dims), where);
}

/* ---- broadcasts ---- */

static sn_instr *broadcast_nothing(sn_builder *b, sn_instr *i) {
  if (sn_same_shape(i, sn_in(i, 0)) && is_identity(sn_instr_ints(i, SN_ATTR_DIMENSIONS))) return sn_in(i, 0);
  /* only dimensions of size 1 are new, and the old ones keep their order: a reshape */
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  if (sn_shape_elements(i->shape) != sn_shape_elements(sn_in(i, 0)->shape) || d.n == 0) return NULL;
  for (int64_t k = 1; k < d.n; k++) {
    if (d.v[k] < d.v[k - 1]) return NULL;
  }
  return sn_build_reshape(b, sn_in(i, 0), i->shape->rank, i->shape->dims);
}
static sn_instr *broadcast_broadcast(sn_builder *b, sn_instr *i) {
  sn_instr *inner = sn_in(i, 0);
  sn_ints outer = sn_instr_ints(i, SN_ATTR_DIMENSIONS), d = sn_instr_ints(inner, SN_ATTR_DIMENSIONS);
  int64_t dims[SN_MAX_RANK];
  for (int64_t k = 0; k < d.n; k++) dims[k] = outer.v[d.v[k]];
  return sn_build_broadcast(b, sn_in(inner, 0), i->shape->rank, i->shape->dims, (int)d.n, dims);
}
static sn_instr *transpose_broadcast(sn_builder *b, sn_instr *i) {
  sn_instr *w = sn_in(i, 0);
  sn_ints p = sn_instr_ints(i, SN_ATTR_DIMENSIONS), d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  int64_t dims[SN_MAX_RANK];
  for (int64_t k = 0; k < d.n; k++) {
    for (int64_t q = 0; q < p.n; q++) {
      if (p.v[q] == d.v[k]) dims[k] = q;
    }
  }
  return sn_build_broadcast(b, sn_in(w, 0), i->shape->rank, i->shape->dims, (int)d.n, dims);
}
/* A reshape that only adds or drops dimensions of size 1 pairs the others one to one. *to: result dimension of each operand dimension, -1 for dropped. */
static bool only_unit_dims(const sn_shape *from, const sn_shape *s, int64_t *to) {
  int k = 0, q = 0;
  while (k < from->rank || q < s->rank) {
    if (k < from->rank && q < s->rank && from->dims[k] == s->dims[q]) to[k++] = q++;
    else if (k < from->rank && from->dims[k] == 1) to[k++] = -1;
    else if (q < s->rank && s->dims[q] == 1) q++;
    else return false;
  }
  return true;
}
static sn_instr *reshape_broadcast(sn_builder *b, sn_instr *i) {
  sn_instr *w = sn_in(i, 0), *x = sn_in(w, 0);
  if (sn_shape_is_scalar(x->shape)) return sn_build_broadcast_scalar(b, x, i->shape);
  sn_ints d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  int64_t to[SN_MAX_RANK], dims[SN_MAX_RANK];
  if (!only_unit_dims(w->shape, i->shape, to)) return NULL;
  for (int64_t k = 0; k < d.n; k++) {
    if (to[d.v[k]] < 0) return NULL;
    dims[k] = to[d.v[k]];
  }
  return sn_build_broadcast(b, x, i->shape->rank, i->shape->dims, (int)d.n, dims);
}
/* broadcast(reshape(x)) where the reshape only added dimensions of size 1, which the broadcast keeps at size 1 or names: it names x's own. */
static sn_instr *broadcast_reshape(sn_builder *b, sn_instr *i) {
  sn_instr *r = sn_in(i, 0), *x = sn_in(r, 0);
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int64_t to[SN_MAX_RANK], dims[SN_MAX_RANK];
  if (r->shape->rank <= x->shape->rank || !only_unit_dims(x->shape, r->shape, to)) return NULL;
  for (int k = 0; k < x->shape->rank; k++) {
    if (to[k] < 0) return NULL;
    dims[k] = d.v[to[k]];
  }
  return sn_build_broadcast(b, x, i->shape->rank, i->shape->dims, x->shape->rank, dims);
}
static sn_instr *reverse_nothing(sn_builder *b, sn_instr *i) {
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  (void)b;
  for (int64_t k = 0; k < d.n; k++) {
    if (i->shape->dims[d.v[k]] != 1) return NULL;
  }
  return sn_in(i, 0);
}
static sn_instr *reverse_reverse(sn_builder *b, sn_instr *i) {
  sn_ints x = sn_instr_ints(i, SN_ATTR_DIMENSIONS), y = sn_instr_ints(sn_in(i, 0), SN_ATTR_DIMENSIONS);
  int64_t dims[SN_MAX_RANK];
  int n = 0;
  for (int d = 0; d < i->shape->rank; d++) {
    if (sn_has_dim(x, d) != sn_has_dim(y, d)) dims[n++] = d;
  }
  return n ? sn_build_reverse(b, sn_in(sn_in(i, 0), 0), n, dims) : sn_in(sn_in(i, 0), 0);
}
static sn_instr *reverse_broadcast(sn_builder *b, sn_instr *i) {
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS), w = sn_instr_ints(sn_in(i, 0), SN_ATTR_DIMENSIONS);
  (void)b;
  for (int64_t k = 0; k < d.n; k++) {
    if (sn_has_dim(w, d.v[k])) return NULL;
  }
  return sn_in(i, 0);
}
static sn_instr *iota_of_one(sn_builder *b, sn_instr *i) {
  return i->shape->dims[sn_instr_int(i, SN_ATTR_IOTA_DIMENSION)] == 1 && i->shape->rank ? sn_build_full(b, i->shape, 0) : NULL;
}
/* A constant array whose elements are all the same is a scalar, stretched. */
static sn_instr *uniform_constant(sn_builder *b, sn_instr *i) {
  sn_array *l = sn_instr_literal(i);
  if (!l || !sn_shape_is_array(i->shape) || i->shape->rank == 0 || sn_shape_elements(i->shape) < 2) return NULL;
  size_t each = sn_type_bytes(i->shape->type), n = sn_array_bytes(l);
  const char *p = sn_array_data(l);
  if (memcmp(p, p + each, n - each) != 0) return NULL;
  sn_array *scalar;
  b->status = sn_array_create_from(sn_shape_scalar(sn_builder_arena(b), i->shape->type), p, &scalar);
  if (b->status != SN_OK) return NULL;
  sn_instr *c = sn_build_constant(b, scalar);
  sn_array_release(scalar);
  return sn_build_broadcast_scalar(b, c, i->shape);
}

/* ---- arithmetic on broadcasts ---- */

static sn_instr *rebuild(sn_builder *b, const sn_instr *i, sn_instr *const *xs, const sn_shape *like) {
  const sn_shape *s = sn_shape_with_type(sn_builder_arena(b), sn_shape_plain(sn_builder_arena(b), like), i->shape->type);
  return sn_build(b, i->op, s, i->n_operands, xs, i->n_attrs, i->attrs, 0, NULL);
}
/* f(broadcast(x), broadcast(y), …) with equal dimensions, or of scalars, is broadcast(f(x, y, …)). */
static sn_instr *eltwise_of_broadcasts(sn_builder *b, sn_instr *i) {
  if (i->n_operands == 0 || i->n_operands > 3 || i->shape->rank == 0 || i->op == SN_OP_SELECT || i->op == SN_OP_CLAMP) return NULL;
  const sn_instr *w = NULL; /* the broadcast that is no splat */
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_in(i, k);
    if (x->op != SN_OP_BROADCAST || !same_dims(x->shape, i->shape)) return NULL;
    if (sn_is_splat(x)) continue;
    if (w && (!same_dims(sn_in(w, 0)->shape, sn_in(x, 0)->shape) || !sn_attr_equal(sn_instr_attr(w, SN_ATTR_DIMENSIONS), sn_instr_attr(x, SN_ATTR_DIMENSIONS)))) return NULL;
    w = w ? w : x;
  }
  sn_instr *xs[3];
  if (!w) {
    for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = sn_in(sn_in(i, k), 0);
    return sn_build_broadcast_scalar(b, rebuild(b, i, xs, xs[0]->shape), i->shape);
  }
  const sn_shape *small = sn_in(w, 0)->shape;
  if (sn_shape_elements(small) >= sn_shape_elements(i->shape)) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *x = sn_in(sn_in(i, k), 0);
    xs[k] = sn_is_splat(sn_in(i, k)) ? sn_build_broadcast_scalar(b, x, small) : x;
  }
  sn_ints d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  return sn_build_broadcast(b, rebuild(b, i, xs, small), i->shape->rank, i->shape->dims, (int)d.n, d.v);
}

#define ON_BROADCAST(op) {SN_OP_##op, SN_OP_BROADCAST, ANY, SN_EXACT, eltwise_of_broadcasts, "f(broadcast(x), …) = broadcast(f(x, …))"}

const sn_rule sn_rules_shape[] = {
    {SN_OP_RESHAPE, ANY, ANY, SN_EXACT, reshape_nothing, "reshape to its own shape"},
    {SN_OP_RESHAPE, SN_OP_RESHAPE, ANY, SN_EXACT, reshape_reshape, "reshape(reshape(x)) = reshape(x)"},
    {SN_OP_RESHAPE, SN_OP_BROADCAST, ANY, SN_EXACT, reshape_broadcast, "reshape(broadcast(x)) = broadcast(x)"},
    {SN_OP_RESHAPE, ANY, ANY, SN_EXACT, reshape_scalar, "reshape(scalar) = broadcast(scalar)"},
    {SN_OP_RESHAPE, SN_OP_TRANSPOSE, ANY, SN_EXACT, reshape_transpose, "reshape(transpose(x)) = transpose(reshape(x)) by groups"},
    {SN_OP_TRANSPOSE, ANY, ANY, SN_EXACT, transpose_nothing, "transpose by the identity"},
    {SN_OP_TRANSPOSE, SN_OP_TRANSPOSE, ANY, SN_EXACT, transpose_transpose, "transpose(transpose(x)) = transpose(x)"},
    {SN_OP_TRANSPOSE, SN_OP_BROADCAST, ANY, SN_EXACT, transpose_broadcast, "transpose(broadcast(x)) = broadcast(x)"},
    {SN_OP_TRANSPOSE, ANY, ANY, SN_EXACT, transpose_is_reshape, "transpose of dimensions of size 1 = reshape"},
    {SN_OP_BROADCAST, ANY, ANY, SN_EXACT, broadcast_nothing, "broadcast of nothing new = reshape"},
    {SN_OP_BROADCAST, SN_OP_BROADCAST, ANY, SN_EXACT, broadcast_broadcast, "broadcast(broadcast(x)) = broadcast(x)"},
    {SN_OP_BROADCAST, SN_OP_RESHAPE, ANY, SN_EXACT, broadcast_reshape, "broadcast(reshape(x)) = broadcast(x)"},
    {SN_OP_REVERSE, ANY, ANY, SN_EXACT, reverse_nothing, "reverse of dimensions of size 1"},
    {SN_OP_REVERSE, SN_OP_REVERSE, ANY, SN_EXACT, reverse_reverse, "reverse(reverse(x)) = x"},
    {SN_OP_REVERSE, SN_OP_BROADCAST, ANY, SN_EXACT, reverse_broadcast, "reverse(broadcast(x)) = broadcast(x)"},
    {SN_OP_IOTA, ANY, ANY, SN_EXACT, iota_of_one, "iota of one element = 0"},
    {SN_OP_CONSTANT, ANY, ANY, SN_EXACT, uniform_constant, "constant of equal elements = broadcast(scalar)"},
    ON_BROADCAST(ABS), ON_BROADCAST(NEGATE), ON_BROADCAST(NOT), ON_BROADCAST(EXPONENTIAL), ON_BROADCAST(LOG), ON_BROADCAST(SQRT), ON_BROADCAST(RSQRT),
    ON_BROADCAST(TANH), ON_BROADCAST(SIGN), ON_BROADCAST(FLOOR), ON_BROADCAST(CEIL), ON_BROADCAST(ADD), ON_BROADCAST(SUBTRACT), ON_BROADCAST(MULTIPLY),
    ON_BROADCAST(DIVIDE), ON_BROADCAST(POWER), ON_BROADCAST(MAXIMUM), ON_BROADCAST(MINIMUM), ON_BROADCAST(AND), ON_BROADCAST(OR), ON_BROADCAST(XOR),
    ON_BROADCAST(COMPARE), ON_BROADCAST(COMPLEX), ON_BROADCAST(REMAINDER), ON_BROADCAST(REAL), ON_BROADCAST(IMAG), ON_BROADCAST(LOGISTIC), ON_BROADCAST(ERF),
    ON_BROADCAST(EXPONENTIAL_MINUS_ONE), ON_BROADCAST(LOG_PLUS_ONE), ON_BROADCAST(SHIFT_LEFT), ON_BROADCAST(SHIFT_RIGHT_LOGICAL),
    ON_BROADCAST(SHIFT_RIGHT_ARITHMETIC), ON_BROADCAST(IS_FINITE), ON_BROADCAST(SINE), ON_BROADCAST(COSINE),
    {0}};
