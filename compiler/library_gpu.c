/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Products that cuBLASLt may run: a dot alone, of dense row-major operands, with nothing before it and nothing behind (a fused prologue or epilogue is worth more than its library). By
 * cost, or as the option `library` says; the command keeps the kernel that does the same, for machines without the library. */
#include "compile_internal.h"

#include "sinter/gpu_cost.h"
#include "sinter/library.h"

#include <string.h>

enum { WORKSPACE = 32 << 20 /* what NVIDIA's reference recommends for Hopper */ };

static bool is_plain(const sn_shape *s) {
  for (int k = 0; s->layout && k < s->rank; k++) {
    if (s->layout->minor_to_major[k] != s->rank - 1 - k) return false;
  }
  return sn_shape_is_static(s);
}

/* What x renames without moving anything. */
static const sn_instr *renamed(const sn_instr *x) {
  while ((x->op == SN_OP_BITCAST || x->op == SN_OP_RESHAPE) && is_plain(x->shape) && is_plain(sn_operand_shape(x, 0)) && x->shape->type == sn_operand_shape(x, 0)->type) x = sn_instr_operand(x, 0);
  return x;
}

/* The dot that the instruction is, of its two operands in their order; NULL: it is more than that. */
static const sn_instr *only_product(const sn_instr *i) {
  if (i->op == SN_OP_DOT) return i;
  if (i->op != SN_OP_FUSION || i->n_operands != 2 || i->n_called != 1) return NULL;
  const sn_instr *dot = renamed(i->called[0]->root);
  if (dot->op != SN_OP_DOT || !is_plain(i->shape)) return NULL;
  for (uint32_t k = 0; k < 2; k++) {
    if (renamed(sn_instr_operand(dot, k)) != i->called[0]->params[k]) return NULL;
  }
  return dot;
}

/* Are the dimensions `dims` first, first + 1, …? */
static bool in_a_row(sn_ints dims, int64_t first) {
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != first + k) return false;
  }
  return true;
}

/* A side as [batch, outer, k] or [batch, k, outer]. */
static bool measure_side(const sn_instr *dot, uint32_t side, int64_t *batch, int64_t *outer, int64_t *k, bool *along_k) {
  sn_ints contracted = sn_instr_ints(dot, side ? SN_ATTR_RHS_CONTRACTING_DIMS : SN_ATTR_LHS_CONTRACTING_DIMS), batches = sn_instr_ints(dot, side ? SN_ATTR_RHS_BATCH_DIMS : SN_ATTR_LHS_BATCH_DIMS);
  const sn_shape *s = sn_operand_shape(dot, side);
  if (!is_plain(s) || contracted.n == 0 || !in_a_row(batches, 0)) return false;
  *along_k = in_a_row(contracted, s->rank - contracted.n);
  if (!*along_k && !in_a_row(contracted, batches.n)) return false;
  *batch = *outer = *k = 1;
  for (int64_t d = 0; d < s->rank; d++) {
    bool of_k = d >= contracted.v[0] && d < contracted.v[0] + contracted.n;
    *(d < batches.n ? batch : of_k ? k : outer) *= s->dims[d];
  }
  return *batch > 0 && *outer > 0 && *k > 0 && *batch <= INT32_MAX && *outer <= INT32_MAX && *k <= INT32_MAX;
}

static bool measure(const sn_instr *dot, sn_library_product *q) {
  sn_type a = sn_operand_shape(dot, 0)->type, t = dot->shape->type;
  int64_t batch, k, algorithm = sn_instr_int(dot, SN_ATTR_DOT_ALGORITHM);
  memset(q, 0, sizeof *q);
  q->operand = a;
  q->result = t;
  q->tf32 = a == SN_TYPE_F32 && algorithm == SN_DOT_ALGORITHM_TF32_TF32_F32;
  q->workspace = WORKSPACE;
  bool f32 = a == SN_TYPE_F32 && (algorithm == SN_DOT_ALGORITHM_UNSET || algorithm == SN_DOT_ALGORITHM_F32_F32_F32 || q->tf32), half = a == SN_TYPE_F16 || a == SN_TYPE_BF16;
  if (a != sn_operand_shape(dot, 1)->type || (!f32 && !half) || (t != SN_TYPE_F32 && t != a) || !is_plain(dot->shape)) return false;
  return measure_side(dot, 0, &q->batch, &q->m, &q->k, &q->lhs_along_k) && measure_side(dot, 1, &batch, &q->n, &k, &q->rhs_along_k) && batch == q->batch && k == q->k;
}

static void remark(const compile *c, const sn_instr *i, sn_verdict v, sn_reason r, double own, double library) {
  sn_pass_ctx pc = {.remarks = c->o->passes.remarks, .pass = SN_PASS_COUNT};
  sn_number numbers[] = {{"own_us", own}, {"library_us", library}};
  sn_pass_remark(&pc, v, r, i, NULL, 2, numbers, "cuBLASLt");
}

sn_status sn_compile_library(compile *c, const sn_instr *i, sn_command *m) {
  const char *how = c->o->library ? c->o->library : "auto";
  const sn_instr *dot = c->target.kind == SN_TARGET_CUDA && strcmp(how, "none") != 0 ? only_product(i) : NULL;
  sn_library_product q;
  sn_gpu_product_schedule own;
  if (!dot || !measure(dot, &q)) return SN_OK;
  bool tensor = q.tf32 || q.operand != SN_TYPE_F32, forced = strcmp(how, "auto") != 0;
  sn_gpu_problem problem = {q.batch, q.m, q.n, q.k, tensor, false, 64 / (int64_t)sn_type_bytes(q.operand), (int)sn_type_bytes(q.operand)};
  sn_gpu_choose_product(&c->target, &problem, &own);
  double library = sn_gpu_library_us(&c->target, &problem);
  bool better = library < own.us;
  remark(c, i, better || forced ? SN_DONE : SN_REFUSED, forced ? SN_REASON_FORCED : better ? SN_REASON_LIBRARY : SN_REASON_TEMPLATE, own.us, library);
  if (!better && !forced) return SN_OK;
  sn_str text = {0};
  sn_library_product_print(&text, &q);
  m->config = text.data && !text.failed ? sn_arena_string(c->arena, text.data) : NULL;
  sn_str_finish(&text);
  if (!m->config) return sn_out_of_memory(c->d, 1);
  m->kind = SN_COMMAND_LIBRARY;
  m->target = sn_library_target(SN_LIBRARY_PRODUCT);
  return SN_OK;
}

int64_t sn_compile_library_workspace(const compile *c, uint32_t kernel) {
  for (uint32_t i = 0; i < c->n_commands; i++) {
    if (c->commands[i].kind == SN_COMMAND_LIBRARY && c->commands[i].kernel == kernel) return WORKSPACE;
  }
  return 0;
}
