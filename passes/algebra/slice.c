/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Slices, concatenations, pads, dynamic slices: what is cut away need not be made. All exact: elements move, numbers stay. */
#include "rules.h"

#include <string.h>

#define ANY SN_ANY

typedef struct box { int64_t start[SN_MAX_RANK], limit[SN_MAX_RANK], stride[SN_MAX_RANK]; } box;

static void box_of(const sn_instr *slice, box *out) {
  sn_ints v = sn_instr_ints(slice, SN_ATTR_SLICE);
  for (int d = 0; d < slice->shape->rank; d++) {
    out->start[d] = v.v[3 * d];
    out->limit[d] = v.v[3 * d + 1];
    out->stride[d] = v.v[3 * d + 2];
  }
}
static int64_t last_of(const sn_instr *slice, const box *x, int d) { return x->start[d] + (slice->shape->dims[d] - 1) * x->stride[d]; }
static bool empty(const sn_instr *i) { return sn_shape_elements(i->shape) == 0; } /* zero_size knows those */

static sn_instr *slice_nothing(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_same_shape(i, sn_in(i, 0)) ? sn_in(i, 0) : NULL; /* as many elements as there are: strides are 1 */
}
static sn_instr *slice_slice(sn_builder *b, sn_instr *i) {
  box outer, inner;
  box_of(i, &outer);
  box_of(sn_in(i, 0), &inner);
  if (empty(i)) return NULL;
  for (int d = 0; d < i->shape->rank; d++) {
    int64_t last = inner.start[d] + last_of(i, &outer, d) * inner.stride[d];
    outer.start[d] = inner.start[d] + outer.start[d] * inner.stride[d];
    outer.stride[d] *= inner.stride[d];
    outer.limit[d] = last + 1;
  }
  return sn_build_slice(b, sn_in(sn_in(i, 0), 0), outer.start, outer.limit, outer.stride);
}
/* The slice lies within one of the pieces. */
static sn_instr *slice_concatenate(sn_builder *b, sn_instr *i) {
  sn_instr *c = sn_in(i, 0);
  box x;
  box_of(i, &x);
  int64_t dim = sn_instr_ints(c, SN_ATTR_DIMENSIONS).v[0], at = 0;
  if (empty(i)) return NULL;
  for (uint32_t k = 0; k < c->n_operands; k++) {
    int64_t size = sn_in(c, k)->shape->dims[dim];
    if (x.start[dim] >= at && last_of(i, &x, (int)dim) < at + size) {
      int64_t last = last_of(i, &x, (int)dim);
      x.start[dim] -= at;
      x.limit[dim] = last - at + 1;
      return sn_build_slice(b, sn_in(c, k), x.start, x.limit, x.stride);
    }
    at += size;
  }
  return NULL;
}
static sn_instr *slice_broadcast(sn_builder *b, sn_instr *i) {
  sn_instr *w = sn_in(i, 0), *x = sn_in(w, 0);
  sn_ints d = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  box all, own;
  box_of(i, &all);
  for (int64_t k = 0; k < d.n; k++) {
    own.start[k] = all.start[d.v[k]];
    own.limit[k] = all.limit[d.v[k]];
    own.stride[k] = all.stride[d.v[k]];
  }
  if (d.n) x = sn_build_slice(b, x, own.start, own.limit, own.stride);
  return sn_build_broadcast(b, x, i->shape->rank, i->shape->dims, (int)d.n, d.v);
}
static sn_instr *slice_pad(sn_builder *b, sn_instr *i) {
  sn_instr *p = sn_in(i, 0), *x = sn_in(p, 0);
  sn_ints v = sn_instr_ints(p, SN_ATTR_PADDING);
  box s;
  box_of(i, &s);
  if (empty(i)) return NULL;
  bool inside = true, outside = false;
  for (int d = 0; d < i->shape->rank; d++) {
    int64_t low = v.v[3 * d], first = s.start[d] - low, last = last_of(i, &s, d) - low;
    if (v.v[3 * d + 2]) return NULL;
    inside &= first >= 0 && last < x->shape->dims[d];
    outside |= last < 0 || first >= x->shape->dims[d];
    s.start[d] = first;
    s.limit[d] = last + 1;
  }
  if (outside) return sn_build_broadcast_scalar(b, sn_in(p, 1), i->shape);
  return inside ? sn_build_slice(b, x, s.start, s.limit, s.stride) : NULL;
}
static sn_instr *slice_iota(sn_builder *b, sn_instr *i) {
  box s;
  box_of(i, &s);
  int64_t d = sn_instr_int(sn_in(i, 0), SN_ATTR_IOTA_DIMENSION);
  if (s.start[d] || (s.stride[d] != 1 && i->shape->dims[d] > 1)) return NULL;
  return sn_build_iota(b, i->shape->type, i->shape->rank, i->shape->dims, d);
}

/* ---- concatenate ---- */

static sn_instr *concatenate_one(sn_builder *b, sn_instr *i) {
  (void)b;
  return i->n_operands == 1 ? sn_in(i, 0) : NULL;
}
/* Pieces that are concatenations along the same dimension are spliced in. */
static sn_instr *concatenate_flat(sn_builder *b, sn_instr *i) {
  sn_ints d = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  sn_list xs = {0};
  bool nested = false;
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < i->n_operands && s == SN_OK; k++) {
    sn_instr *x = sn_in(i, k);
    bool splice = x->op == SN_OP_CONCATENATE && sn_instr_ints(x, SN_ATTR_DIMENSIONS).v[0] == d.v[0] && sn_one_use(x);
    nested |= splice;
    if (!splice) s = sn_list_push(&xs, x);
    for (uint32_t q = 0; splice && q < x->n_operands && s == SN_OK; q++) s = sn_list_push(&xs, sn_in(x, q));
  }
  sn_instr *made = NULL;
  if (s != SN_OK) b->status = s;
  else if (nested) made = sn_build_concatenate(b, (uint32_t)xs.n, xs.v, d.v[0]);
  sn_list_finish(&xs);
  return made;
}
/* Does slice y begin where slice x ends, along dim, and agree elsewhere? */
static bool continues(const sn_instr *x, const sn_instr *y, int64_t dim) {
  if (x->op != SN_OP_SLICE || y->op != SN_OP_SLICE || sn_in(x, 0) != sn_in(y, 0)) return false;
  box a, c;
  box_of(x, &a);
  box_of(y, &c);
  for (int d = 0; d < x->shape->rank; d++) {
    if (a.stride[d] != 1 || c.stride[d] != 1) return false;
    if (d == dim ? a.limit[d] != c.start[d] : (a.start[d] != c.start[d] || a.limit[d] != c.limit[d])) return false;
  }
  return true;
}
static sn_instr *join(sn_builder *b, sn_instr *x, sn_instr *y) {
  box a, c;
  box_of(x, &a);
  box_of(y, &c);
  return sn_build_slice(b, sn_in(x, 0), a.start, c.limit, NULL);
}
static sn_instr *concatenate_slices(sn_builder *b, sn_instr *i) {
  int64_t dim = sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0];
  bool any = false;
  for (uint32_t k = 1; k < i->n_operands && !any; k++) any = continues(sn_in(i, k - 1), sn_in(i, k), dim);
  if (!any) return NULL;
  sn_list xs = {0};
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < i->n_operands && s == SN_OK && b->status == SN_OK; k++) {
    sn_instr *x = sn_in(i, k);
    if (xs.n && continues(xs.v[xs.n - 1], x, dim)) xs.v[xs.n - 1] = join(b, xs.v[xs.n - 1], x);
    else s = sn_list_push(&xs, x);
  }
  if (s != SN_OK) b->status = s;
  sn_instr *made = b->status != SN_OK ? NULL : xs.n == 1 ? xs.v[0] : sn_build_concatenate(b, (uint32_t)xs.n, xs.v, dim);
  sn_list_finish(&xs);
  return made;
}
/* Splats of one scalar around one piece are padding. */
static sn_instr *concatenate_pad(sn_builder *b, sn_instr *i) {
  int64_t dim = sn_instr_ints(i, SN_ATTR_DIMENSIONS).v[0], low[SN_MAX_RANK] = {0}, high[SN_MAX_RANK] = {0};
  sn_instr *piece = NULL, *value = NULL;
  if (i->n_operands < 2) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *x = sn_in(i, k);
    bool splat = x->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_in(x, 0)->shape);
    if (!splat) {
      if (piece) return NULL;
      piece = x;
      continue;
    }
    sn_instr *v = sn_in(x, 0);
    if (value && v != value && !(v->op == SN_OP_CONSTANT && value->op == SN_OP_CONSTANT && sn_instr_literal(v) && sn_instr_literal(value) &&
                                 sn_array_equal(sn_instr_literal(v), sn_instr_literal(value)))) {
      return NULL;
    }
    value = v;
    (piece ? high : low)[dim] += x->shape->dims[dim];
  }
  if (!value) return NULL;
  return piece ? sn_build_pad(b, piece, value, low, high, NULL) : sn_build_broadcast_scalar(b, value, i->shape);
}

/* ---- pad ---- */

static sn_instr *pad_nothing(sn_builder *b, sn_instr *i) {
  sn_ints v = sn_instr_ints(i, SN_ATTR_PADDING);
  (void)b;
  for (int64_t k = 0; k < v.n; k++) {
    if (v.v[k] && !(k % 3 == 2 && sn_in(i, 0)->shape->dims[k / 3] == 1)) return NULL;
  }
  return sn_in(i, 0);
}
static bool same_value(const sn_instr *x, const sn_instr *y) {
  if (x == y) return true;
  return x->op == SN_OP_CONSTANT && y->op == SN_OP_CONSTANT && sn_instr_literal(x) && sn_instr_literal(y) && sn_array_equal(sn_instr_literal(x), sn_instr_literal(y));
}
static sn_instr *pad_pad(sn_builder *b, sn_instr *i) {
  sn_instr *p = sn_in(i, 0);
  sn_ints v = sn_instr_ints(i, SN_ATTR_PADDING), w = sn_instr_ints(p, SN_ATTR_PADDING);
  int64_t low[SN_MAX_RANK], high[SN_MAX_RANK];
  if (!same_value(sn_in(i, 1), sn_in(p, 1)) || !sn_one_use(p)) return NULL;
  for (int d = 0; d < i->shape->rank; d++) {
    for (int k = 0; k < 3; k++) {
      if (v.v[3 * d + k] < 0 || w.v[3 * d + k] < 0) return NULL;
    }
    if (v.v[3 * d + 2] || w.v[3 * d + 2]) return NULL;
    low[d] = v.v[3 * d] + w.v[3 * d];
    high[d] = v.v[3 * d + 1] + w.v[3 * d + 1];
  }
  return sn_build_pad(b, sn_in(p, 0), sn_in(i, 1), low, high, NULL);
}
static sn_instr *pad_negative(sn_builder *b, sn_instr *i) {
  sn_ints v = sn_instr_ints(i, SN_ATTR_PADDING);
  int64_t low[SN_MAX_RANK], high[SN_MAX_RANK], start[SN_MAX_RANK], limit[SN_MAX_RANK];
  sn_instr *x = sn_in(i, 0);
  bool negative = false, positive = false;
  for (int d = 0; d < i->shape->rank; d++) {
    int64_t l = v.v[3 * d], h = v.v[3 * d + 1];
    if (v.v[3 * d + 2]) return NULL;
    start[d] = l < 0 ? -l : 0;
    limit[d] = h < 0 ? x->shape->dims[d] + h : x->shape->dims[d];
    if (start[d] > limit[d] || start[d] > x->shape->dims[d]) return NULL;
    low[d] = l > 0 ? l : 0;
    high[d] = h > 0 ? h : 0;
    negative |= l < 0 || h < 0;
    positive |= l > 0 || h > 0;
  }
  if (!negative) return NULL;
  x = sn_build_slice(b, x, start, limit, NULL);
  return positive ? sn_build_pad(b, x, sn_in(i, 1), low, high, NULL) : x;
}
static sn_instr *pad_splat(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(i, 0);
  return sn_is_splat(x) && same_value(sn_in(x, 0), sn_in(i, 1)) ? sn_build_broadcast_scalar(b, sn_in(i, 1), i->shape) : NULL;
}

/* ---- dynamic slices ---- */

static bool constant_starts(const sn_instr *i, uint32_t first, const sn_shape *of, const int64_t *sizes, int64_t *start) {
  if (i->n_operands != first + (uint32_t)of->rank) return false; /* the old form with a vector of starts */
  for (int d = 0; d < of->rank; d++) {
    int64_t most = of->dims[d] - sizes[d];
    if (most == 0) {
      start[d] = 0; /* whatever the index: it is clamped */
      continue;
    }
    if (!sn_instr_constant_i64(sn_in(i, first + (uint32_t)d), &start[d])) return false;
    if (start[d] < 0 && sn_type_is_unsigned(sn_in(i, first + (uint32_t)d)->shape->type)) start[d] = INT64_MAX;
    start[d] = start[d] < 0 ? 0 : start[d] > most ? most : start[d];
  }
  return true;
}
static sn_instr *dynamic_slice_constant(sn_builder *b, sn_instr *i) {
  int64_t start[SN_MAX_RANK], limit[SN_MAX_RANK];
  const sn_shape *s = sn_in(i, 0)->shape;
  if (!constant_starts(i, 1, s, i->shape->dims, start)) return NULL;
  for (int d = 0; d < s->rank; d++) limit[d] = start[d] + i->shape->dims[d];
  return sn_same_shape(i, sn_in(i, 0)) ? sn_in(i, 0) : sn_build_slice(b, sn_in(i, 0), start, limit, NULL);
}
static sn_instr *dynamic_slice_splat(sn_builder *b, sn_instr *i) {
  return sn_is_splat(sn_in(i, 0)) && i->shape->rank ? sn_build_broadcast_scalar(b, sn_splat_of(sn_in(i, 0)), i->shape) : NULL;
}
static sn_instr *update_whole(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_same_shape(i, sn_in(i, 1)) ? sn_in(i, 1) : NULL;
}
static bool same_starts(const sn_instr *x, uint32_t first_x, const sn_instr *y, uint32_t first_y) {
  if (x->n_operands - first_x != y->n_operands - first_y) return false;
  for (uint32_t k = 0; k + first_x < x->n_operands; k++) {
    if (!same_value(sn_in(x, first_x + k), sn_in(y, first_y + k))) return false;
  }
  return true;
}
static sn_instr *slice_of_update(sn_builder *b, sn_instr *i) {
  sn_instr *u = sn_in(i, 0);
  (void)b;
  return sn_same_shape(i, sn_in(u, 1)) && same_starts(i, 1, u, 2) ? sn_in(u, 1) : NULL;
}
static sn_instr *update_of_update(sn_builder *b, sn_instr *i) {
  sn_instr *u = sn_in(i, 0), *xs[SN_MAX_RANK + 2];
  if (!sn_same_shape(sn_in(i, 1), sn_in(u, 1)) || !same_starts(i, 2, u, 2) || i->n_operands > SN_MAX_RANK + 2) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = k ? sn_in(i, k) : sn_in(u, 0);
  return sn_build(b, SN_OP_DYNAMIC_UPDATE_SLICE, NULL, i->n_operands, xs, 0, NULL, 0, NULL);
}
/* Writing back what was read there. */
static sn_instr *update_same(sn_builder *b, sn_instr *i) {
  sn_instr *s = sn_in(i, 1);
  (void)b;
  return sn_in(s, 0) == sn_in(i, 0) && same_starts(i, 2, s, 1) ? sn_in(i, 0) : NULL;
}

const sn_rule sn_rules_slice[] = {
    {SN_OP_SLICE, ANY, ANY, SN_EXACT, slice_nothing, "slice of everything"},
    {SN_OP_SLICE, SN_OP_SLICE, ANY, SN_EXACT, slice_slice, "slice(slice(x)) = slice(x)"},
    {SN_OP_SLICE, SN_OP_CONCATENATE, ANY, SN_EXACT, slice_concatenate, "slice(concatenate(…, x, …)) = slice(x)"},
    {SN_OP_SLICE, SN_OP_BROADCAST, ANY, SN_EXACT, slice_broadcast, "slice(broadcast(x)) = broadcast(slice(x))"},
    {SN_OP_SLICE, SN_OP_PAD, ANY, SN_EXACT, slice_pad, "slice(pad(x)) = slice(x) or the padding"},
    {SN_OP_SLICE, SN_OP_IOTA, ANY, SN_EXACT, slice_iota, "slice(iota) = iota"},
    {SN_OP_CONCATENATE, ANY, ANY, SN_EXACT, concatenate_one, "concatenate(x) = x"},
    {SN_OP_CONCATENATE, ANY, ANY, SN_EXACT, concatenate_flat, "concatenate(concatenate(a, b), c) = concatenate(a, b, c)"},
    {SN_OP_CONCATENATE, ANY, ANY, SN_EXACT, concatenate_slices, "concatenate of neighbouring slices = slice"},
    {SN_OP_CONCATENATE, ANY, ANY, SN_EXACT, concatenate_pad, "concatenate(x, broadcast(c)) = pad(x, c)"},
    {SN_OP_PAD, ANY, ANY, SN_EXACT, pad_nothing, "pad by nothing"},
    {SN_OP_PAD, SN_OP_PAD, ANY, SN_EXACT, pad_pad, "pad(pad(x, c), c) = pad(x, c)"},
    {SN_OP_PAD, ANY, ANY, SN_EXACT, pad_negative, "pad by negative amounts = slice"},
    {SN_OP_PAD, SN_OP_BROADCAST, ANY, SN_EXACT, pad_splat, "pad(broadcast(c), c) = broadcast(c)"},
    {SN_OP_DYNAMIC_SLICE, ANY, ANY, SN_EXACT, dynamic_slice_constant, "dynamic-slice at a constant = slice"},
    {SN_OP_DYNAMIC_SLICE, ANY, ANY, SN_EXACT, dynamic_slice_splat, "dynamic-slice(broadcast(c)) = broadcast(c)"},
    {SN_OP_DYNAMIC_SLICE, SN_OP_DYNAMIC_UPDATE_SLICE, ANY, SN_EXACT, slice_of_update, "reading what was just written"},
    {SN_OP_DYNAMIC_UPDATE_SLICE, ANY, ANY, SN_EXACT, update_whole, "updating everything"},
    {SN_OP_DYNAMIC_UPDATE_SLICE, SN_OP_DYNAMIC_UPDATE_SLICE, ANY, SN_EXACT, update_of_update, "overwriting an update"},
    {SN_OP_DYNAMIC_UPDATE_SLICE, ANY, SN_OP_DYNAMIC_SLICE, SN_EXACT, update_same, "writing back what was read"},
    {0}};
