/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Constant folding within a budget: an instruction over constants becomes a constant when that is cheap to compute and small to keep.
 *
 * The interpreter does the arithmetic, so a fold is exact by definition. Iotas and broadcasts are never folded: they are the small form of a big constant.
 * The budget is work, not seconds (element operations by a simple model): the same program folds the same way on every machine. Large constants
 * stay what the user wrote: a buffer. What the budget refuses is said in a remark. */
#include "passes_internal.h"
#include "sinter/eval.h"

enum {
  SMALL_BYTES = 64 << 10, /* a result may be this large, … */
  LARGE_BYTES = 8 << 20,  /* … or as large as its operands, up to this */
  WORK_ONE = 1 << 22,     /* element operations for one instruction */
  WORK_ALL = 1 << 24      /* and for one run of the pass */
};

static bool is_literal(const sn_instr *i) { return i->op == SN_OP_CONSTANT && sn_instr_literal(i) && sn_shape_is_static(i->shape); }

static bool foldable(const sn_instr *i) {
  if (!i->n_operands || !sn_op_has(i->op, SN_T_PURE) || i->n_control || !sn_shape_is_array(i->shape) || !sn_shape_is_static(i->shape)) return false;
  if (sn_op_has(i->op, (sn_trait)(SN_T_FREE | SN_T_CALLS | SN_T_EFFECT | SN_T_COLLECTIVE | SN_T_TOKEN | SN_T_DEVICE | SN_T_START | SN_T_DONE))) return false;
  if (i->op == SN_OP_BROADCAST || i->op == SN_OP_COPY || i->op == SN_OP_BITCAST || sn_instr_frontend(i, "sinter.remat")) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!is_literal(sn_instr_operand(i, k))) return false;
  }
  return true;
}

static double contracted(const sn_instr *dot) {
  double n = 1;
  sn_ints c = sn_instr_ints(dot, SN_ATTR_LHS_CONTRACTING_DIMS);
  for (int64_t k = 0; k < c.n; k++) n *= (double)sn_operand_shape(dot, 0)->dims[c.v[k]];
  return n;
}

/* Element operations, roughly: enough to tell a scalar from a training step. */
static double work_of(const sn_instr *i) {
  double result = (double)sn_shape_elements(i->shape), in = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) in += (double)sn_shape_elements(sn_operand_shape(i, k));
  switch (i->op) {
    case SN_OP_DOT: return result * contracted(i);
    case SN_OP_CONVOLUTION: return result * (double)sn_shape_elements(sn_operand_shape(i, 1));
    case SN_OP_REDUCE_WINDOW:
    case SN_OP_SELECT_AND_SCATTER: {
      double window = 1;
      const sn_window *w = sn_instr_window(i);
      for (int k = 0; w && k < w->rank; k++) window *= (double)w->dims[k].size;
      return 8 * (result + in) * window;
    }
    case SN_OP_SORT: return 64 * in;
    case SN_OP_FFT:
    case SN_OP_CHOLESKY:
    case SN_OP_TRIANGULAR_SOLVE: return in * in;
    default: return sn_op_has(i->op, SN_T_SPECIAL) ? 16 * (result + in) : result + in;
  }
}

static int64_t operand_bytes(const sn_instr *i) {
  int64_t n = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) n += sn_shape_bytes(sn_operand_shape(i, k));
  return n;
}

static bool affordable(sn_pass_ctx *pc, const sn_instr *i, double work, double spent) {
  int64_t bytes = sn_shape_bytes(i->shape);
  bool small = bytes <= SMALL_BYTES || (bytes <= LARGE_BYTES && bytes <= operand_bytes(i));
  if (small && work <= WORK_ONE && spent + work <= WORK_ALL) return true;
  sn_number numbers[] = {{"bytes", (double)bytes}, {"work", work}};
  sn_pass_remark(pc, SN_REFUSED, SN_REASON_BUDGET, i, NULL, 2, numbers, small ? "too much work at compile time" : "the constant would be large");
  return false;
}

static sn_status fold(sn_pass_ctx *pc, sn_instr *i) {
  sn_array *operands[64], *value = NULL;
  if (i->n_operands > 64) return SN_OK;
  for (uint32_t k = 0; k < i->n_operands; k++) operands[k] = sn_instr_literal(sn_instr_operand(i, k));
  sn_eval_options o;
  sn_eval_options_init(&o);
  o.stepwise = pc->options->stepwise;
  o.max_steps = 16 * (int64_t)WORK_ONE;
  sn_status s = sn_eval_instr(NULL, i, &o, operands, &value);
  if (s == SN_ERR_MEMORY) return sn_out_of_memory(pc->diag, (size_t)sn_shape_bytes(i->shape));
  if (s != SN_OK) return SN_OK; /* it fails, or not, when it is run */
  sn_builder b;
  sn_builder_init_at(&b, pc->diag, i);
  sn_instr *by = sn_build_constant(&b, value);
  sn_array_release(value);
  SN_TRY(b.status);
  sn_pass_remark(pc, SN_DONE, SN_REASON_CONSTANT, i, NULL, 0, NULL, NULL);
  SN_TRY(sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

sn_status sn_pass_fold(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  double spent = 0;
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id]) continue; /* a fusion is a decision */
    SN_FOR_INSTRS_SAFE(i, c) {
      if (!foldable(i)) continue;
      double work = work_of(i);
      if (!affordable(pc, i, work, spent)) continue;
      if (!sn_pass_may(pc)) return SN_OK;
      spent += work;
      SN_TRY(fold(pc, i));
    }
  }
  return SN_OK;
}
