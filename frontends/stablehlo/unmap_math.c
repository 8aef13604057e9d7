/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of linear algebra, normalisation and random numbers. */
#include "unmap.h"

static const char *const fft_types[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};

sn_status sn_sw_fft(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "fft_type", sn_sw_word(s, "stablehlo.fft_type", fft_types[sn_instr_int(i, SN_ATTR_FFT_TYPE)]));
  sn_sw_attr(op, "fft_length", sn_sw_list(s, i, SN_ATTR_FFT_LENGTH));
  return SN_OK;
}

sn_status sn_sw_cholesky(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "lower", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_LOWER)));
  return SN_OK;
}

sn_status sn_sw_triangular_solve(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "left_side", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_LEFT_SIDE)));
  sn_sw_attr(op, "lower", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_LOWER)));
  sn_sw_attr(op, "unit_diagonal", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_UNIT_DIAGONAL)));
  sn_sw_attr(op, "transpose_a", sn_sw_word(s, "stablehlo.transpose", transposes[sn_instr_int(i, SN_ATTR_TRANSPOSE_A)]));
  return SN_OK;
}

sn_status sn_sw_batch_norm(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_attr *e = sn_instr_attr(i, SN_ATTR_EPSILON);
  SN_SW_OP(row->name, 0);
  sn_mlir_attr *epsilon = sn_sw_real(s, e != NULL ? e->u.f : 0);
  if (epsilon != NULL) epsilon->type = sn_mlir_type_scalar(s->out, SN_TYPE_F32);
  sn_sw_attr(op, "epsilon", epsilon);
  sn_sw_attr(op, "feature_index", sn_sw_number(s, sn_instr_int(i, SN_ATTR_FEATURE_INDEX)));
  return SN_OK;
}

/* The shape is an operand there. */
sn_status sn_sw_rng(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  int64_t n = i->shape->rank;
  const sn_mlir_type *type = sn_mlir_type_tensor(s->out, 1, &n, sn_mlir_type_scalar(s->out, SN_TYPE_S64)), *result = sn_sw_type(s, i->shape);
  sn_mlir_op *shape = type != NULL && result != NULL ? sn_sw_op(s, "stablehlo.constant", 0, NULL, 1, &type, 0) : NULL;
  if (shape == NULL) return sn_sw_memory(s);
  sn_sw_attr(shape, "value", sn_sw_table(s, n, -1, i->shape->dims, SN_TYPE_S64, false));
  sn_mlir_value *in[3] = {sn_sw_value(s, sn_instr_operand(i, 0)), sn_sw_value(s, sn_instr_operand(i, 1)), shape->results};
  sn_mlir_op *op = in[0] != NULL && in[1] != NULL ? sn_sw_op(s, row->name, 3, in, 1, &result, 0) : NULL;
  if (op == NULL) return sn_sw_memory(s);
  sn_sw_attr(op, "rng_distribution", sn_sw_word(s, "stablehlo.rng_distribution", sn_instr_int(i, SN_ATTR_DISTRIBUTION) == SN_DISTRIBUTION_NORMAL ? "NORMAL" : "UNIFORM"));
  SN_TRY(sn_sw_notes(s, i, op));
  return sn_sw_bind(s, i, op);
}

sn_status sn_sw_rng_bit_generator(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  static const char *const names[] = {"DEFAULT", "THREE_FRY", "PHILOX"};
  SN_SW_OP(row->name, 0);
  if (op->n_results != 2) return sn_sw_fail(s, i, "random bits without the new state");
  sn_sw_attr(op, "rng_algorithm", sn_sw_word(s, "stablehlo.rng_algorithm", names[sn_instr_int(i, SN_ATTR_RNG_ALGORITHM)]));
  return SN_OK;
}
