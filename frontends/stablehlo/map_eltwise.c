/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Constants, elementwise ops, conversions, quantisation. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

/* ---- constants ---- */

/* A splat is a scalar and a broadcast: the module stays small whatever the shape. */
sn_instr *sn_sm_literal(sn_sm *s, const sn_mlir_attr *a) {
  sn_instr *c = sn_build_constant(&s->b, a->dense);
  if (!a->splat || a->type->rank == 0) return c;
  return sn_build_broadcast(&s->b, c, a->type->rank, a->type->dims, 0, NULL);
}

sn_status sn_sm_constant(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_attr *a = sn_mlir_find(op, "value");
  (void)row;
  (void)in;
  if (a == NULL || a->kind != SN_MA_DENSE) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected dense<…> values");
  out[0] = sn_sm_literal(s, a);
  return sn_sm_built(s);
}

sn_status sn_sm_iota(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t d = 0;
  const sn_shape *shape = NULL;
  (void)row;
  (void)in;
  SN_TRY(sn_sm_int(s, op, "iota_dimension", &d));
  SN_TRY(sn_sm_shape(s, op, op->results[0].type, &shape));
  sn_attr a = sn_attr_int(SN_ATTR_IOTA_DIMENSION, d);
  out[0] = sn_build(&s->b, SN_OP_IOTA, shape, 0, NULL, 1, &a, 0, NULL);
  return sn_sm_built(s);
}

/* ---- one and two operands ---- */

static sn_status accuracy(sn_sm *s, const sn_mlir_op *op, sn_opcode to, uint32_t *n, sn_attr *a) {
  const sn_mlir_attr *r = sn_mlir_find(op, "result_accuracy");
  const sn_mlir_attr *mode = sn_mlir_member(r, "mode");
  *n = 0;
  if (mode == NULL || mode->s == NULL || strcmp(mode->s, "DEFAULT") == 0 || !sn_op_takes(to, SN_ATTR_RESULT_ACCURACY, NULL)) return SN_OK;
  if (strcmp(mode->s, "HIGHEST") == 0) {
    *a = sn_attr_string(SN_ATTR_RESULT_ACCURACY, "{mode=highest}");
    *n = 1;
    return SN_OK;
  }
  const sn_mlir_attr *atol = sn_mlir_member(r, "atol"), *rtol = sn_mlir_member(r, "rtol"), *ulps = sn_mlir_member(r, "ulps");
  const char *text = sn_arena_printf(s->scratch, "{tolerance={atol=%g,rtol=%g,ulps=%" PRId64 "}}", atol != NULL ? atol->f : 0, rtol != NULL ? rtol->f : 0, ulps != NULL ? ulps->i : 0);
  if (text == NULL) return sn_sm_memory(s);
  *a = sn_attr_string(SN_ATTR_RESULT_ACCURACY, text);
  *n = 1;
  return SN_OK;
}

sn_status sn_sm_unary(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a;
  uint32_t n = 0;
  SN_TRY(accuracy(s, op, row->op, &n, &a));
  out[0] = sn_build(&s->b, row->op, NULL, 1, in, n, &a, 0, NULL);
  return sn_sm_built(s);
}

/* Complex numbers are ordered by their real parts, then by their imaginary ones; HLO has no such maximum. */
static sn_instr *complex_extreme(sn_sm *s, int64_t direction, sn_instr **in) {
  sn_instr *re[2], *im[2];
  for (int k = 0; k < 2; k++) {
    re[k] = sn_build_unary(&s->b, SN_OP_REAL, in[k]);
    im[k] = sn_build_unary(&s->b, SN_OP_IMAG, in[k]);
  }
  sn_instr *same = sn_build_compare(&s->b, SN_DIRECTION_EQ, re[0], re[1]), *outer = sn_build_compare(&s->b, direction, re[0], re[1]);
  sn_instr *first = sn_build_select(&s->b, same, sn_build_compare(&s->b, direction, im[0], im[1]), outer);
  return sn_build_select(&s->b, first, in[0], in[1]);
}

sn_status sn_sm_binary(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)op;
  if (sn_type_is_complex(in[0]->shape->type) && sn_type_is_complex(in[1]->shape->type) && (row->op == SN_OP_MAXIMUM || row->op == SN_OP_MINIMUM)) {
    out[0] = complex_extreme(s, row->op == SN_OP_MAXIMUM ? SN_DIRECTION_GT : SN_DIRECTION_LT, in);
    return sn_sm_built(s);
  }
  out[0] = sn_build(&s->b, row->op, NULL, 2, in, 0, NULL, 0, NULL);
  return sn_sm_built(s);
}

static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};
static const char *const compare_types[] = {"NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"};

sn_status sn_sm_compare(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t direction = 0, type = 0;
  sn_attr a[2];
  (void)row;
  SN_TRY(sn_sm_enum(s, op, "comparison_direction", directions, 6, -1, &direction));
  SN_TRY(sn_sm_enum(s, op, "compare_type", compare_types, 5, 0, &type));
  a[0] = sn_attr_int(SN_ATTR_DIRECTION, direction);
  a[1] = sn_attr_int(SN_ATTR_COMPARE_TYPE, type - 1);
  /* The type says something only of floats: total order. */
  out[0] = sn_build(&s->b, SN_OP_COMPARE, NULL, 2, in, type == 2 ? 2 : 1, a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_select(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)row;
  (void)op;
  if (sn_shape_is_scalar(in[0]->shape) && in[1]->shape->rank != 0) in[0] = sn_build_broadcast_scalar(&s->b, in[0], in[1]->shape);
  out[0] = sn_build_select(&s->b, in[0], in[1], in[2]);
  return sn_sm_built(s);
}

sn_status sn_sm_clamp(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)row;
  (void)op;
  for (int k = 0; k < 3; k += 2)
    if (sn_shape_is_scalar(in[k]->shape) && in[1]->shape->rank != 0) in[k] = sn_build_broadcast_scalar(&s->b, in[k], in[1]->shape);
  out[0] = sn_build_clamp(&s->b, in[0], in[1], in[2]);
  return sn_sm_built(s);
}

/* ---- conversions ---- */

sn_status sn_sm_convert(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_type t = sn_mlir_storage(op->results[0].type);
  (void)row;
  if (t == SN_TYPE_INVALID) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a tensor as result");
  sn_instr *x = sn_type_is_complex(in[0]->shape->type) && !sn_type_is_complex(t) ? sn_build_unary(&s->b, SN_OP_REAL, in[0]) : in[0];
  out[0] = sn_build_convert(&s->b, x, t);
  return sn_sm_built(s);
}

/* Between types of different widths the last dimension comes or goes. */
sn_status sn_sm_bitcast_convert(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_type to = sn_mlir_storage(op->results[0].type), from = in[0]->shape->type;
  (void)row;
  if (to == SN_TYPE_INVALID) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a tensor as result");
  if (to == from) {
    out[0] = in[0];
    return SN_OK;
  }
  if (sn_type_bits(from) < sn_type_bits(to) && (in[0]->shape->rank == 0 || in[0]->shape->dims[in[0]->shape->rank - 1] != sn_type_bits(to) / sn_type_bits(from)))
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a last dimension of %d to make %s of %s", sn_type_bits(to) / sn_type_bits(from), sn_type_text(to), sn_type_text(from));
  out[0] = sn_build_bitcast_convert(&s->b, in[0], to);
  return sn_sm_built(s);
}

sn_status sn_sm_reduce_precision(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t e = 0, m = 0;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "exponent_bits", &e));
  SN_TRY(sn_sm_int(s, op, "mantissa_bits", &m));
  sn_attr a[2] = {sn_attr_int(SN_ATTR_EXPONENT_BITS, e), sn_attr_int(SN_ATTR_MANTISSA_BITS, m)};
  out[0] = sn_build(&s->b, SN_OP_REDUCE_PRECISION, NULL, 1, in, 2, a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_pass(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)s;
  (void)row;
  (void)op;
  out[0] = in[0];
  return SN_OK;
}

/* ---- quantisation ---- */

/* One number, or one for each slice of the quantised axis, in the shape of `like`. */
static sn_instr *parameter_of(sn_sm *s, const sn_shape *like, const sn_mlir_quant *q, sn_type t, const double *f, const int64_t *z) {
  int64_t dims[1] = {q->n};
  sn_array *a = NULL;
  if (q->n_blocked != 0 || (q->axis >= 0 && (q->axis >= like->rank || (like->dims[q->axis] != q->n && q->n != 1)))) {
    if (s->b.status == SN_OK)
      s->b.status = sn_error(s->d, s->b.loc, SN_ERR_UNSUPPORTED, "quantisation along axis %d with %" PRId64 " scales does not fit %s", (int)q->axis, q->n, sn_shape_text(s->scratch, like));
    return NULL;
  }
  bool per_axis = q->axis >= 0 && q->n != 1;
  const sn_shape *shape = sn_shape_array(s->scratch, t, per_axis ? 1 : 0, dims);
  if (shape == NULL || sn_array_create(shape, &a) != SN_OK) {
    s->b.status = sn_sm_memory(s);
    return NULL;
  }
  for (int64_t k = 0; k < (per_axis ? q->n : 1); k++) {
    char *to = (char *)sn_array_data(a) + (size_t)k * sn_type_bytes(t);
    if (f != NULL) sn_store_f64(t, to, f[k]);
    else if (sn_type_is_float(t)) sn_store_f64(t, to, (double)z[k]);
    else sn_store_i64(t, to, z[k]);
  }
  sn_instr *c = sn_build_constant(&s->b, a);
  sn_array_release(a);
  int64_t axis = q->axis;
  return like->rank == 0 ? c : sn_build_broadcast(&s->b, c, like->rank, like->dims, per_axis ? 1 : 0, &axis);
}

/* (stored - zero point) * scale; the difference in 32 bits, where no storage type overflows. */
sn_instr *sn_sm_dequantize(sn_sm *s, sn_instr *x, const sn_mlir_quant *q) {
  sn_instr *wide = sn_build_convert(&s->b, x, sn_type_bits(q->storage) < 32 ? SN_TYPE_S32 : SN_TYPE_S64);
  if (wide == NULL) return NULL;
  sn_instr *centred = sn_build_binary(&s->b, SN_OP_SUBTRACT, wide, parameter_of(s, x->shape, q, wide->shape->type, NULL, q->zero_points));
  sn_instr *real = sn_build_convert(&s->b, centred, q->expressed);
  return sn_build_binary(&s->b, SN_OP_MULTIPLY, real, parameter_of(s, x->shape, q, q->expressed, q->scales, NULL));
}

/* round_nearest_even(clamp(x / scale + zero point)) */
sn_instr *sn_sm_quantize(sn_sm *s, sn_instr *x, const sn_mlir_quant *q) {
  if (x == NULL) return NULL;
  x = sn_build_convert(&s->b, x, q->expressed);
  if (x == NULL) return NULL;
  sn_instr *scaled = sn_build_binary(&s->b, SN_OP_DIVIDE, x, parameter_of(s, x->shape, q, q->expressed, q->scales, NULL));
  sn_instr *moved = sn_build_binary(&s->b, SN_OP_ADD, scaled, parameter_of(s, x->shape, q, q->expressed, NULL, q->zero_points));
  sn_instr *lo = sn_build_full_like(&s->b, x, (double)q->min), *hi = sn_build_full_like(&s->b, x, (double)q->max);
  sn_instr *clamped = sn_build_clamp(&s->b, lo, moved, hi);
  return sn_build_convert(&s->b, sn_build_unary(&s->b, SN_OP_ROUND_NEAREST_EVEN, clamped), q->storage);
}

static const sn_mlir_quant *quant_of(const sn_mlir_type *t) { return t->kind == SN_MT_TENSOR && t->element->kind == SN_MT_QUANT ? t->element->quant : NULL; }

/* From real numbers, or from one quantised type to another. */
sn_status sn_sm_uniform_quantize(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_quant *from = quant_of(op->operands[0]->type), *to = quant_of(op->results[0].type);
  (void)row;
  if (to == NULL) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a quantised result, found %s", sn_mlir_type_text(s->scratch, op->results[0].type));
  sn_instr *x = from != NULL ? sn_sm_dequantize(s, in[0], from) : in[0];
  out[0] = sn_sm_quantize(s, x, to);
  return sn_sm_built(s);
}

sn_status sn_sm_uniform_dequantize(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_quant *from = quant_of(op->operands[0]->type);
  (void)row;
  if (from == NULL) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a quantised operand, found %s", sn_mlir_type_text(s->scratch, op->operands[0]->type));
  out[0] = sn_sm_dequantize(s, in[0], from);
  return sn_sm_built(s);
}
