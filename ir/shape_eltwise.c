/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape rules of elementwise ops, conversions and copies. HLO does not broadcast: operands have
 * equal dimensions. */
#include "infer.h"

#include <inttypes.h>

/* The dims of operands first…last as one; the most specific size of each dimension. */
static sn_status eltwise_dims(sn_diag *d, const sn_infer *in, uint32_t first, uint32_t last,
                              sn_dims *out) {
  sn_dims_of(in->operands[first], out);
  for (uint32_t k = first + 1; k <= last; k++) {
    const sn_shape *s = in->operands[k];
    bool same = s->rank == out->rank;
    for (int i = 0; same && i < s->rank; i++)
      same = sn_dims_merge(&out->size[i], &out->dynamic[i], s->dims[i], sn_dims_is_dynamic(s, i));
    if (same) continue;
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE, "operands must have equal dimensions, found %s and %s",
                      sn_infer_text(in, in->operands[first]), sn_infer_text(in, s));
    sn_hint(d, "HLO does not broadcast by itself: insert a broadcast with dimensions={…}");
    return st;
  }
  return SN_OK;
}

static sn_status eltwise_unary(sn_diag *d, const sn_infer *in, unsigned takes, sn_type result,
                               const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, takes));
  sn_dims dims;
  sn_dims_of(in->operands[0], &dims);
  return sn_infer_make(d, in, result == SN_TYPE_INVALID ? in->operands[0]->type : result, &dims,
                       out);
}

static sn_status eltwise_binary(sn_diag *d, const sn_infer *in, unsigned takes, sn_type result,
                                const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, takes));
  SN_TRY(sn_infer_want_array(d, in, 1, takes));
  SN_TRY(sn_infer_want_same_type(d, in, 0, 1));
  sn_dims dims;
  SN_TRY(eltwise_dims(d, in, 0, 1, &dims));
  return sn_infer_make(d, in, result == SN_TYPE_INVALID ? in->operands[0]->type : result, &dims,
                       out);
}

#define UNARY(name, takes)                                                               \
  sn_status sn_shape_rule_##name(sn_diag *d, const sn_infer *in, const sn_shape **out) { \
    return eltwise_unary(d, in, takes, SN_TYPE_INVALID, out);                            \
  }
#define BINARY(name, takes)                                                              \
  sn_status sn_shape_rule_##name(sn_diag *d, const sn_infer *in, const sn_shape **out) { \
    return eltwise_binary(d, in, takes, SN_TYPE_INVALID, out);                           \
  }

UNARY(real_unary, SN_TAKES_FLOAT)
UNARY(number_unary, SN_TAKES_NUMBER)
UNARY(int_unary, SN_TAKES_INT)
UNARY(bits_unary, SN_TAKES_PRED | SN_TAKES_INT)
BINARY(arith_binary, SN_TAKES_ANY)
BINARY(number_binary, SN_TAKES_NUMBER)
BINARY(ordered_binary, SN_TAKES_ANY & ~SN_TAKES_COMPLEX)
BINARY(int_binary, SN_TAKES_INT)
BINARY(bits_binary, SN_TAKES_PRED | SN_TAKES_INT)
BINARY(float_binary, SN_TAKES_FLOAT | SN_TAKES_COMPLEX)

sn_status sn_shape_rule_float_unary(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  /* The error function of a complex number has no definition in HLO. */
  unsigned takes = in->op == SN_OP_ERF ? SN_TAKES_FLOAT : SN_TAKES_FLOAT | SN_TAKES_COMPLEX;
  return eltwise_unary(d, in, takes, SN_TYPE_INVALID, out);
}

/* reduce-precision: the only op of this rule. */
sn_status sn_shape_rule_same(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  int64_t exponent = sn_infer_int(in, SN_ATTR_EXPONENT_BITS),
          mantissa = sn_infer_int(in, SN_ATTR_MANTISSA_BITS);
  if (exponent < 1)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "exponent_bits must be at least 1, found %" PRId64, exponent);
  if (mantissa < 0)
    return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                         "mantissa_bits must not be negative, found %" PRId64, mantissa);
  return eltwise_unary(d, in, SN_TAKES_FLOAT, SN_TYPE_INVALID, out);
}

sn_status sn_shape_rule_abs(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_SIGNED | SN_TAKES_FLOAT | SN_TAKES_COMPLEX));
  return eltwise_unary(d, in, SN_TAKES_ANY, sn_type_real_part(in->operands[0]->type), out);
}

static sn_status eltwise_part(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_FLOAT | SN_TAKES_COMPLEX));
  return eltwise_unary(d, in, SN_TAKES_ANY, sn_type_real_part(in->operands[0]->type), out);
}

sn_status sn_shape_rule_real(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return eltwise_part(d, in, out);
}

sn_status sn_shape_rule_imag(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return eltwise_part(d, in, out);
}

sn_status sn_shape_rule_is_finite(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return eltwise_unary(d, in, SN_TAKES_FLOAT, SN_TYPE_PRED, out);
}

sn_status sn_shape_rule_complex(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_FLOAT));
  sn_type t = sn_type_complex_of(in->operands[0]->type);
  if (t == SN_TYPE_INVALID) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_TYPE, "the parts must be f32 or f64, found %s",
                                 sn_infer_text(in, in->operands[0]));
    sn_hint(d, "there is c64 (two f32) and c128 (two f64)");
    return st;
  }
  return eltwise_binary(d, in, SN_TAKES_FLOAT, t, out);
}

static sn_status compare_check_type(sn_diag *d, const sn_infer *in) {
  static const unsigned takes[] = {
      [SN_COMPARE_TYPE_FLOAT] = SN_TAKES_FLOAT | SN_TAKES_COMPLEX,
      [SN_COMPARE_TYPE_TOTALORDER] = SN_TAKES_FLOAT,
      [SN_COMPARE_TYPE_SIGNED] = SN_TAKES_SIGNED,
      [SN_COMPARE_TYPE_UNSIGNED] = SN_TAKES_UNSIGNED | SN_TAKES_PRED,
  };
  const sn_attr *a = sn_infer_attr(in, SN_ATTR_COMPARE_TYPE);
  if (!a) return SN_OK;
  sn_type t = in->operands[0]->type;
  if (a->u.i >= 0 && a->u.i < 4 && (takes[a->u.i] >> sn_types[t].cls & 1)) return SN_OK;
  const char *text = sn_enum_text(SN_DOMAIN_COMPARE_TYPE, a->u.i);
  sn_status st = sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "type=%s does not compare %s",
                               text ? text : "?", sn_type_text(t));
  sn_hint(d, "leave type= out: it follows from the operands (only TOTALORDER says something more)");
  return st;
}

sn_status sn_shape_rule_compare(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  const sn_shape *s = NULL;
  SN_TRY(eltwise_binary(d, in, SN_TAKES_ANY, SN_TYPE_PRED, &s));
  SN_TRY(compare_check_type(d, in));
  int64_t direction = sn_infer_int(in, SN_ATTR_DIRECTION);
  if (sn_type_is_complex(in->operands[0]->type) && direction != SN_DIRECTION_EQ &&
      direction != SN_DIRECTION_NE) {
    return sn_infer_fail(d, in, SN_ERR_TYPE,
                         "complex numbers have no order: only direction=EQ and NE compare %s",
                         sn_infer_text(in, in->operands[0]));
  }
  *out = s;
  return SN_OK;
}

sn_status sn_shape_rule_select(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_PRED));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_array(d, in, 2, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_same_type(d, in, 1, 2));
  sn_dims dims;
  SN_TRY(eltwise_dims(d, in, 1, 2, &dims));
  if (in->operands[0]->rank && !sn_dims_compatible(in->operands[0], in->operands[1])) {
    sn_status st = sn_infer_fail(
        d, in, SN_ERR_SHAPE,
        "the predicate must be pred[] or have the dimensions of the values, found %s for %s",
        sn_infer_text(in, in->operands[0]), sn_infer_text(in, in->operands[1]));
    sn_hint(d, "broadcast the predicate");
    return st;
  }
  return sn_infer_make(d, in, in->operands[1]->type, &dims, out);
}

sn_status sn_shape_rule_clamp(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  for (uint32_t k = 0; k < 3; k++) {
    SN_TRY(sn_infer_want_array(d, in, k, SN_TAKES_ANY & ~SN_TAKES_COMPLEX));
    SN_TRY(sn_infer_want_same_type(d, in, 1, k));
    if (in->operands[k]->rank == 0 || sn_dims_compatible(in->operands[k], in->operands[1]))
      continue;
    return sn_infer_fail(d, in, SN_ERR_SHAPE,
                         "operands are least, value, most; a bound must be a scalar or have the "
                         "value's dimensions, found %s for %s",
                         sn_infer_text(in, in->operands[k]), sn_infer_text(in, in->operands[1]));
  }
  sn_dims dims;
  sn_dims_of(in->operands[1], &dims);
  return sn_infer_make(d, in, in->operands[1]->type, &dims, out);
}

/* ---- conversions
 * ---------------------------------------------------------------------------------------------------
 */

sn_status sn_shape_rule_convert(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_given(d, in));
  if (sn_type_is_complex(in->operands[0]->type) && !sn_type_is_complex(in->given->type)) {
    sn_status st = sn_infer_fail(d, in, SN_ERR_TYPE, "a complex array does not convert to %s",
                                 sn_type_text(in->given->type));
    sn_hint(d, "take real or imag first");
    return st;
  }
  return eltwise_unary(d, in, SN_TAKES_ANY, in->given->type, out);
}

sn_status sn_shape_rule_stochastic_convert(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_FLOAT));
  SN_TRY(sn_infer_want_array(d, in, 1, SN_TAKES_UNSIGNED));
  SN_TRY(sn_infer_want_given(d, in));
  if (sn_type_bits(in->operands[0]->type) != sn_type_bits(in->operands[1]->type)) {
    return sn_infer_fail(d, in, SN_ERR_TYPE,
                         "the random bits must be as wide as the value, found %s for %s",
                         sn_infer_text(in, in->operands[1]), sn_infer_text(in, in->operands[0]));
  }
  sn_dims dims;
  SN_TRY(eltwise_dims(d, in, 0, 1, &dims));
  return sn_infer_make(d, in, in->given->type, &dims, out);
}

/* Wider to narrower: a new last dimension counts the pieces; narrower to wider: the last dimension,
 * of that size, goes. */
sn_status sn_shape_rule_bitcast_convert(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_given(d, in));
  const sn_shape *x = in->operands[0];
  int from = sn_type_bits(x->type), to = sn_type_bits(in->given->type);
  if (sn_type_is_complex(x->type) != sn_type_is_complex(in->given->type)) {
    return sn_infer_fail(d, in, SN_ERR_TYPE,
                         "bits of %s and %s do not convert: complex only to complex",
                         sn_infer_text(in, x), sn_type_text(in->given->type));
  }
  if (from > to ? from % to : to % from) {
    return sn_infer_fail(d, in, SN_ERR_TYPE, "%d bits of %s are no whole number of %d-bit %s", from,
                         sn_type_text(x->type), to, sn_type_text(in->given->type));
  }
  sn_dims dims;
  sn_dims_of(x, &dims);
  if (from > to) sn_dims_push_static(&dims, from / to);
  if (from < to && (x->rank == 0 || x->dims[x->rank - 1] != to / from)) {
    return sn_infer_fail(
        d, in, SN_ERR_SHAPE, "the last dimension must be %d, the %s in one %s; found %s", to / from,
        sn_type_text(x->type), sn_type_text(in->given->type), sn_infer_text(in, x));
  }
  if (from < to) dims.rank--;
  return sn_infer_make(d, in, in->given->type, &dims, out);
}

static int64_t bitcast_bits(const sn_shape *s) {
  int64_t bits;
  return sn_mul_i64(sn_shape_elements(s), sn_type_bits(s->type), &bits) ? bits : -1;
}

/* The stated shape, layout included: the same bytes read otherwise. */
sn_status sn_shape_rule_bitcast(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  SN_TRY(sn_infer_want_array(d, in, 0, SN_TAKES_ANY));
  SN_TRY(sn_infer_want_given(d, in));
  SN_TRY(sn_shape_check(d, in->loc, in->given));
  SN_TRY(sn_shape_check(d, in->loc, in->operands[0]));
  if (bitcast_bits(in->operands[0]) != bitcast_bits(in->given)) {
    return sn_infer_fail(d, in, SN_ERR_SHAPE, "must keep the number of bits, found %s from %s",
                         sn_infer_text(in, in->given), sn_infer_text(in, in->operands[0]));
  }
  *out = in->given;
  return SN_OK;
}

sn_status sn_shape_rule_same_any(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  return sn_infer_strip(d, in, in->operands[0], out);
}

/* add-dependency: a value, held back until a token is there. */
sn_status sn_shape_rule_first(sn_diag *d, const sn_infer *in, const sn_shape **out) {
  if (in->operands[1]->type != SN_TYPE_TOKEN) {
    return sn_infer_fail(d, in, SN_ERR_TYPE, "operand 1 must be token[], found %s",
                         sn_infer_text(in, in->operands[1]));
  }
  return sn_infer_strip(d, in, in->operands[0], out);
}
