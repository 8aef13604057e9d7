/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of elementwise and plain ops. */
#include <stdio.h>
#include <string.h>

#include "unmap.h"

sn_status sn_sw_plain(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_TRY(sn_sw_only(s, i, NULL, 0));
  SN_SW_OP(row->name, 0);
  (void)op;
  return SN_OK;
}

/* `{mode=highest}` or `{tolerance={atol=…,rtol=…,ulps=…}}` */
static sn_status accuracy(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const char *config = sn_instr_str(i, SN_ATTR_RESULT_ACCURACY);
  double atol = 0, rtol = 0;
  long long ulps = 0;
  if (config == NULL) return SN_OK;
  bool highest = strstr(config, "highest") != NULL;
  if (!highest && sscanf(config, "{tolerance={atol=%lf,rtol=%lf,ulps=%lld}}", &atol, &rtol, &ulps) != 3) return sn_sw_fail(s, i, "the result_accuracy %s", config);
  sn_mlir_named v[] = {{"atol", sn_sw_real(s, atol)}, {"rtol", sn_sw_real(s, rtol)}, {"ulps", sn_sw_number(s, ulps)}, {"mode", sn_sw_word(s, "stablehlo.result_accuracy_mode", highest ? "HIGHEST" : "TOLERANCE")}};
  sn_sw_attr(op, "result_accuracy", sn_sw_members(s, "stablehlo.result_accuracy", 4, v));
  return SN_OK;
}

sn_status sn_sw_unary(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_ONLY(SN_ATTR_RESULT_ACCURACY);
  SN_SW_OP(row->name, 0);
  return accuracy(s, i, op);
}

sn_status sn_sw_constant(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_array *v = sn_instr_literal(i);
  if (v == NULL) return sn_sw_fail(s, i, "an elided constant");
  if (!sn_shape_is_array(i->shape)) return sn_sw_fail(s, i, "a constant that is a tuple");
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "value", sn_mlir_attr_dense(s->out, op->results[0].type, sn_array_retain(v), false));
  return SN_OK;
}

sn_status sn_sw_iota(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "iota_dimension", sn_sw_number(s, sn_instr_int(i, SN_ATTR_IOTA_DIMENSION)));
  return SN_OK;
}

static const char *const directions[] = {"EQ", "NE", "GE", "GT", "LE", "LT"};

sn_status sn_sw_compare(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_attr *stated = sn_instr_attr(i, SN_ATTR_COMPARE_TYPE);
  sn_type t = sn_operand_shape(i, 0)->type;
  bool total = stated != NULL && stated->u.i == SN_COMPARE_TYPE_TOTALORDER;
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "comparison_direction", sn_sw_word(s, "stablehlo.comparison_direction", directions[sn_instr_int(i, SN_ATTR_DIRECTION)]));
  sn_sw_attr(op, "compare_type",
             sn_sw_word(s, "stablehlo.comparison_type",
                  total                                                    ? "TOTALORDER"
                  : sn_type_is_float(t) || sn_type_is_complex(t)           ? "FLOAT"
                  : t == SN_TYPE_PRED || sn_types[t].cls == SN_CLASS_UNSIGNED ? "UNSIGNED"
                                                                           : "SIGNED"));
  return SN_OK;
}

sn_status sn_sw_reduce_precision(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "exponent_bits", sn_sw_number32(s, sn_instr_int(i, SN_ATTR_EXPONENT_BITS)));
  sn_sw_attr(op, "mantissa_bits", sn_sw_number32(s, sn_instr_int(i, SN_ATTR_MANTISSA_BITS)));
  return SN_OK;
}
