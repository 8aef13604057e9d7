/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What precision a product of f32 may run in by its `algorithm`, and whether that is worth it. */
#include "sinter/cost.h"

/* f32 operands as sums of terms of bf16: so many products of terms count (ir/eval/dot.c has them one by one). */
static const struct { int64_t algorithm; int products; } in_bf16[] = {
    {SN_DOT_ALGORITHM_BF16_BF16_BF16, 1},
    {SN_DOT_ALGORITHM_BF16_BF16_F32, 1},
    {SN_DOT_ALGORITHM_BF16_BF16_F32_X3, 3},
    {SN_DOT_ALGORITHM_BF16_BF16_F32_X6, 6},
    {SN_DOT_ALGORITHM_BF16_BF16_F32_X9, 9},
};

static bool narrow_operands(const sn_instr *dot, bool f32_too) {
  for (uint32_t k = 0; k < 2; k++) {
    sn_type t = sn_operand_shape(dot, k)->type;
    if (t != SN_TYPE_BF16 && !(f32_too && t == SN_TYPE_F32)) return false;
  }
  return true;
}

int sn_dot_bf16_products(const sn_instr *dot) {
  if (narrow_operands(dot, false)) return 1;
  if (!narrow_operands(dot, true)) return 0;
  for (size_t k = 0; k < sizeof in_bf16 / sizeof *in_bf16; k++) {
    if (in_bf16[k].algorithm == sn_instr_int(dot, SN_ATTR_DOT_ALGORITHM)) return in_bf16[k].products;
  }
  return 0;
}

double sn_dot_bf16_time(const sn_target *target, const sn_instr *dot) {
  enum { TERMS_A_LANE = 2 }; /* a lane multiplies two terms of bf16 where it would multiply one of f32 */
  int products = sn_dot_bf16_products(dot);
  if (products == 0 || !target || target->kind != SN_TARGET_CPU) return 0;
  return target->bf16_dot ? (double)products / TERMS_A_LANE : (double)products;
}

bool sn_dot_runs_in_bf16(const sn_target *target, const sn_instr *dot) {
  double time = sn_dot_bf16_time(target, dot);
  return time > 0 && time < 1;
}
