/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which properties a module has, found by looking: the runner asks at the start, and again behind a pass that promises one. */
#include "passes_internal.h"

static bool leaves_have_layout(const sn_shape *s) {
  if (sn_shape_is_tuple(s)) {
    for (int k = 0; k < s->n_elements; k++) {
      if (!leaves_have_layout(s->elements[k])) return false;
    }
    return true;
  }
  return !sn_shape_is_array(s) || s->rank == 0 || s->layout;
}

/* Batch dimensions lead on both sides, in order; at most one contracted and one free dimension follow. */
bool sn_dot_is_canonical(const sn_instr *dot) {
  sn_ints lb = sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS), rb = sn_instr_ints(dot, SN_ATTR_RHS_BATCH_DIMS);
  sn_ints lc = sn_instr_ints(dot, SN_ATTR_LHS_CONTRACTING_DIMS);
  for (int64_t k = 0; k < lb.n; k++) {
    if (lb.v[k] != k || rb.v[k] != k) return false;
  }
  return lc.n == 1 && sn_operand_shape(dot, 0)->rank <= lb.n + 2 && sn_operand_shape(dot, 1)->rank <= lb.n + 2;
}

static bool is_canonical(const sn_instr *i) {
  if (i->op == SN_OP_CALL || i->op == SN_OP_BITCAST) return false;
  return i->op != SN_OP_DOT || sn_dot_is_canonical(i);
}

/* What may stand outside a fusion in a fused computation: what no fusion can express, and what control edges keep in its place. */
static bool stands_alone(const sn_instr *i) {
  static const sn_opcode fused[] = {SN_OP_BROADCAST, SN_OP_RESHAPE, SN_OP_TRANSPOSE, SN_OP_SLICE, SN_OP_PAD, SN_OP_CONCATENATE, SN_OP_DOT, SN_OP_CONVOLUTION, SN_OP_IOTA};
  if (i->n_control || i->n_uses == 0 || i->n_operands > 3) return true;
  if (sn_op_has(i->op, SN_T_ELTWISE)) return false;
  for (size_t k = 0; k < sizeof fused / sizeof *fused; k++) {
    if (fused[k] == i->op) return false;
  }
  return true;
}

uint32_t sn_module_properties(const sn_module *m) {
  uint32_t set = SN_P_CANONICAL | SN_P_LAYOUT;
  bool slices = false, fused = true;
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      if ((set & SN_P_CANONICAL) && !is_canonical(i)) set &= ~(uint32_t)SN_P_CANONICAL;
      if ((set & SN_P_LAYOUT) && !leaves_have_layout(i->shape)) set &= ~(uint32_t)SN_P_LAYOUT;
      if (c == m->entry) {
        fused = fused && stands_alone(i);
        slices = slices || sn_instr_frontend(i, "sinter.slice");
      }
    }
  }
  if (fused) set |= SN_P_FUSED;
  if (m->is_scheduled) set |= SN_P_SCHEDULE;
  if (slices) set |= SN_P_BUFFERS;
  return set;
}
