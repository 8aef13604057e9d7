/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Conversions. A conversion may go only when nothing was rounded on the way: every value of the narrow type exists in the wide one. */
#include "rules.h"

#define ANY SN_ANY

/* Does every value of `from`, NaN and infinities included, exist in `to`? */
static bool holds(sn_type to, sn_type from) {
  const sn_type_info *f = &sn_types[from], *t = &sn_types[to];
  if (to == from) return true;
  if (from == SN_TYPE_PRED) return t->cls != SN_CLASS_OTHER;
  bool from_int = sn_type_is_integer(from), to_int = sn_type_is_integer(to);
  if (from_int && to_int) {
    if (f->cls == t->cls) return t->bits >= f->bits;
    return f->cls == SN_CLASS_UNSIGNED && t->bits > f->bits;
  }
  if (from_int && sn_type_is_float(to)) return (to == SN_TYPE_F32 || to == SN_TYPE_F64) && f->bits <= t->mantissa_bits;
  bool wide = to == SN_TYPE_F32 || to == SN_TYPE_F64;
  return sn_type_is_float(from) && wide && t->bits > f->bits;
}

static sn_instr *same_type(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_same_shape(i, sn_in(i, 0)) ? sn_in(i, 0) : NULL;
}
/* convert(convert(x)): the one in the middle goes when it holds all of x. */
static sn_instr *convert_convert(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(sn_in(i, 0), 0);
  if (!holds(sn_in(i, 0)->shape->type, x->shape->type) || sn_type_is_complex(i->shape->type)) return NULL;
  return sn_build_convert(b, x, i->shape->type);
}
/* A conversion of what was stretched converts before it stretches: less to do. */
static sn_instr *convert_broadcast(sn_builder *b, sn_instr *i) {
  sn_instr *w = sn_in(i, 0), *x = sn_in(w, 0);
  sn_ints dims = sn_instr_ints(w, SN_ATTR_DIMENSIONS);
  if (sn_shape_elements(x->shape) > sn_shape_elements(w->shape)) return NULL;
  return sn_build_broadcast(b, sn_build_convert(b, x, i->shape->type), w->shape->rank, w->shape->dims, (int)dims.n, dims.v);
}
static sn_instr *convert_iota(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(i, 0);
  int64_t d = sn_instr_int(x, SN_ATTR_IOTA_DIMENSION), n = x->shape->dims[d];
  sn_type t = i->shape->type; /* both must count that far exactly */
  if (!sn_type_is_integer(x->shape->type) || !(t == SN_TYPE_F32 || t == SN_TYPE_F64 || sn_type_is_integer(t))) return NULL;
  int bits = sn_type_is_integer(t) ? sn_type_bits(t) - 1 : sn_types[t].mantissa_bits, from = sn_type_bits(x->shape->type) - 1;
  if (from < 62 && n > INT64_C(1) << from) return NULL;
  return bits >= 62 || n <= INT64_C(1) << bits ? sn_build_iota(b, t, x->shape->rank, x->shape->dims, d) : NULL;
}
static sn_instr *bitcast_same(sn_builder *b, sn_instr *i) {
  (void)b;
  return sn_same_shape(i, sn_in(i, 0)) ? sn_in(i, 0) : NULL;
}
static sn_instr *bitcast_bitcast(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(sn_in(i, 0), 0);
  (void)b;
  if (sn_type_is_complex(x->shape->type) || x->shape->type == SN_TYPE_PRED) return NULL;
  return sn_same_shape(i, x) ? x : NULL;
}
/* A rounding to a format as wide as the value's own. */
static sn_instr *reduce_precision_nothing(sn_builder *b, sn_instr *i) {
  const sn_type_info *t = &sn_types[i->shape->type];
  (void)b;
  return sn_instr_int(i, SN_ATTR_EXPONENT_BITS) >= t->exponent_bits && sn_instr_int(i, SN_ATTR_MANTISSA_BITS) >= t->mantissa_bits ? sn_in(i, 0) : NULL;
}
/* A comparison of widened numbers compares the narrow ones. */
static sn_instr *compare_converts(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(sn_in(i, 0), 0), *y = sn_in(sn_in(i, 1), 0);
  if (x->shape->type != y->shape->type || !sn_type_is_integer(x->shape->type) || !sn_type_is_integer(sn_in(i, 0)->shape->type)) return NULL;
  if (!holds(sn_in(i, 0)->shape->type, x->shape->type)) return NULL;
  return sn_build_compare(b, sn_instr_int(i, SN_ATTR_DIRECTION), x, y);
}
static sn_instr *is_finite_of_int(sn_builder *b, sn_instr *i) {
  sn_instr *x = sn_in(sn_in(i, 0), 0);
  return (sn_is_int(x)) && holds(sn_in(i, 0)->shape->type, x->shape->type) ? sn_build_full(b, i->shape, 1) : NULL;
}

const sn_rule sn_rules_convert[] = {
    {SN_OP_CONVERT, ANY, ANY, SN_EXACT, same_type, "convert to its own type"},
    {SN_OP_CONVERT, SN_OP_CONVERT, ANY, SN_EXACT, convert_convert, "convert(convert(x)) = convert(x) when the middle holds x"},
    {SN_OP_CONVERT, SN_OP_BROADCAST, ANY, SN_EXACT, convert_broadcast, "convert(broadcast(x)) = broadcast(convert(x))"},
    {SN_OP_CONVERT, SN_OP_IOTA, ANY, SN_EXACT, convert_iota, "convert(iota) = iota"},
    {SN_OP_BITCAST_CONVERT, ANY, ANY, SN_EXACT, bitcast_same, "bitcast-convert to its own type"},
    {SN_OP_BITCAST_CONVERT, SN_OP_BITCAST_CONVERT, ANY, SN_EXACT, bitcast_bitcast, "bitcast-convert there and back"},
    {SN_OP_REDUCE_PRECISION, ANY, ANY, SN_EXACT, reduce_precision_nothing, "reduce-precision to its own format"},
    {SN_OP_COMPARE, SN_OP_CONVERT, SN_OP_CONVERT, SN_EXACT, compare_converts, "compare(convert(m), convert(n)) = compare(m, n)"},
    {SN_OP_IS_FINITE, SN_OP_CONVERT, ANY, SN_EXACT, is_finite_of_int, "is-finite(convert(n)) = true"},
    {0}};
