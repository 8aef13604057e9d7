/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batch normalisation in plain arithmetic (Ioffe and Szegedy 2015), sums in f32 at least:
 *
 *   training   mean = sum(x) / n, var = sum((x - mean)^2) / n, y = (x - mean) * rsqrt(var + eps) * scale + offset
 *   inference  the same y from a given mean and variance
 *   gradient   d_offset = sum(dy), d_scale = sum(dy * (x - mean)) * r,
 *              dx = scale * r * (dy - d_offset / n - (x - mean) * r * d_scale / n)      with r = rsqrt(var + eps) */
#include "passes_internal.h"

typedef struct norm {
  sn_builder b;
  const sn_shape *shape;
  sn_type type;      /* of the arithmetic */
  int64_t feature;
  int n_reduced;
  int64_t reduced[SN_MAX_RANK];
  double count, epsilon;
} norm;

static void norm_init(norm *n, sn_pass_ctx *pc, sn_instr *i) {
  sn_builder_init_at(&n->b, pc->diag, i);
  n->shape = sn_operand_shape(i, 0);
  n->type = sn_type_bits(n->shape->type) < 32 ? SN_TYPE_F32 : n->shape->type;
  n->feature = sn_instr_int(i, SN_ATTR_FEATURE_INDEX);
  n->epsilon = sn_instr_f64(i, SN_ATTR_EPSILON);
  n->n_reduced = 0;
  n->count = 1;
  for (int d = 0; d < n->shape->rank; d++) {
    if (d == n->feature) continue;
    n->reduced[n->n_reduced++] = d;
    n->count *= (double)n->shape->dims[d];
  }
}

static sn_instr *wide(norm *n, sn_instr *i, uint32_t k) { return sn_build_convert(&n->b, sn_instr_operand(i, k), n->type); }
/* One number a feature over the whole array. */
static sn_instr *stretch(norm *n, sn_instr *v) { return sn_build_broadcast(&n->b, v, n->shape->rank, n->shape->dims, 1, &n->feature); }
static sn_instr *op2(norm *n, sn_opcode op, sn_instr *x, sn_instr *y) { return sn_build_binary(&n->b, op, x, y); }
static sn_instr *sum(norm *n, sn_instr *x) { return sn_build_reduce_sum(&n->b, x, n->n_reduced, n->reduced); }
static sn_instr *mean(norm *n, sn_instr *x) {
  sn_instr *s = sum(n, x);
  return op2(n, SN_OP_DIVIDE, s, s ? sn_build_full_like(&n->b, s, n->count) : NULL);
}
static sn_instr *inverse(norm *n, sn_instr *var) {
  return sn_build_unary(&n->b, SN_OP_RSQRT, op2(n, SN_OP_ADD, var, var ? sn_build_full_like(&n->b, var, n->epsilon) : NULL));
}
static sn_instr *narrow(norm *n, sn_instr *x, sn_type t) { return sn_build_convert(&n->b, x, t); }

static sn_instr *scaled(norm *n, sn_instr *centred, sn_instr *var, sn_instr *scale, sn_instr *offset) {
  sn_instr *y = op2(n, SN_OP_MULTIPLY, centred, stretch(n, inverse(n, var)));
  y = op2(n, SN_OP_MULTIPLY, y, stretch(n, scale));
  return op2(n, SN_OP_ADD, y, stretch(n, offset));
}

static sn_instr *training(norm *n, sn_instr *i) {
  sn_instr *x = wide(n, i, 0), *m = mean(n, x), *centred = op2(n, SN_OP_SUBTRACT, x, stretch(n, m)), *var = mean(n, op2(n, SN_OP_MULTIPLY, centred, centred));
  sn_instr *y = scaled(n, centred, var, wide(n, i, 1), wide(n, i, 2));
  sn_instr *parts[3] = {narrow(n, y, n->shape->type), narrow(n, m, i->shape->elements[1]->type), narrow(n, var, i->shape->elements[2]->type)};
  return sn_build_tuple(&n->b, 3, parts);
}
static sn_instr *inference(norm *n, sn_instr *i) {
  sn_instr *centred = op2(n, SN_OP_SUBTRACT, wide(n, i, 0), stretch(n, wide(n, i, 3)));
  return narrow(n, scaled(n, centred, wide(n, i, 4), wide(n, i, 1), wide(n, i, 2)), n->shape->type);
}
static sn_instr *gradient(norm *n, sn_instr *i) {
  sn_instr *scale = wide(n, i, 1), *dy = wide(n, i, 4), *centred = op2(n, SN_OP_SUBTRACT, wide(n, i, 0), stretch(n, wide(n, i, 2))), *r = inverse(n, wide(n, i, 3));
  sn_instr *d_offset = sum(n, dy), *d_scale = op2(n, SN_OP_MULTIPLY, sum(n, op2(n, SN_OP_MULTIPLY, dy, centred)), r);
  sn_instr *count = d_offset ? sn_build_full_like(&n->b, d_offset, n->count) : NULL;
  sn_instr *along = stretch(n, op2(n, SN_OP_MULTIPLY, r, op2(n, SN_OP_DIVIDE, d_scale, count)));
  sn_instr *dx = op2(n, SN_OP_SUBTRACT, dy, stretch(n, op2(n, SN_OP_DIVIDE, d_offset, count)));
  dx = op2(n, SN_OP_SUBTRACT, dx, op2(n, SN_OP_MULTIPLY, centred, along));
  dx = op2(n, SN_OP_MULTIPLY, dx, stretch(n, op2(n, SN_OP_MULTIPLY, scale, r)));
  sn_instr *parts[3] = {narrow(n, dx, n->shape->type), narrow(n, d_scale, i->shape->elements[1]->type), narrow(n, d_offset, i->shape->elements[2]->type)};
  return sn_build_tuple(&n->b, 3, parts);
}

sn_status sn_pass_expand_batch_norm(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      bool train = i->op == SN_OP_BATCH_NORM_TRAINING, infer = i->op == SN_OP_BATCH_NORM_INFERENCE, grad = i->op == SN_OP_BATCH_NORM_GRAD;
      if ((!train && !infer && !grad) || i->n_control || !sn_shape_is_static(sn_operand_shape(i, 0)) || !sn_pass_may(pc)) continue;
      norm n;
      norm_init(&n, pc, i);
      sn_instr *by = train ? training(&n, i) : infer ? inference(&n, i) : gradient(&n, i);
      SN_TRY(n.b.status);
      SN_TRY(sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
