/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reductions, windows, sort, map, top_k, scan. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

sn_status sn_sm_reduce(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *dims = NULL;
  sn_computation *body = NULL;
  (void)row;
  if (op->n_operands == 0 || op->n_operands % 2 != 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected as many start values as inputs, found %" PRIu32 " operands", op->n_operands);
  SN_TRY(sn_sm_ints(s, op, "dimensions", false, &n, &dims));
  SN_TRY(sn_sm_scalar_region(s, op, 0, "region", &body));
  SN_TRY(sn_sm_check_promotion(s, op, body, op->n_operands / 2, in));
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, n, dims);
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_REDUCE, NULL, op->n_operands, in, 1, &a, 1, &body), out);
}

/* ---- windows ---- */

/* A list of `n` integers, or n times the default. */
static sn_status list_or(sn_sm *s, const sn_mlir_op *op, const char *name, int64_t n, int64_t dflt, int64_t *out) {
  int64_t found = 0;
  const int64_t *v = NULL;
  SN_TRY(sn_sm_ints(s, op, name, false, &found, &v));
  if (sn_mlir_find(op, name) != NULL && found != n) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected %" PRId64 " integers for %s, found %" PRId64, n, name, found);
  for (int64_t i = 0; i < n; i++) out[i] = v != NULL ? v[i] : dflt;
  return SN_OK;
}

static sn_status window(sn_sm *s, const sn_mlir_op *op, int rank, sn_window_dim *w) {
  int64_t size[SN_MAX_RANK], stride[SN_MAX_RANK], base[SN_MAX_RANK], dilation[SN_MAX_RANK], padding[2 * SN_MAX_RANK];
  if (sn_mlir_find(op, "window_dimensions") == NULL && rank != 0) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected %d window_dimensions, found none", rank);
  SN_TRY(list_or(s, op, "window_dimensions", rank, 1, size));
  SN_TRY(list_or(s, op, "window_strides", rank, 1, stride));
  SN_TRY(list_or(s, op, "base_dilations", rank, 1, base));
  SN_TRY(list_or(s, op, "window_dilations", rank, 1, dilation));
  SN_TRY(list_or(s, op, "padding", 2 * rank, 0, padding));
  for (int i = 0; i < rank; i++) w[i] = (sn_window_dim){size[i], stride[i], padding[2 * i], padding[2 * i + 1], base[i], dilation[i], false};
  return SN_OK;
}

sn_status sn_sm_reduce_window(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_window_dim dims[SN_MAX_RANK];
  sn_computation *body = NULL;
  (void)row;
  if (op->n_operands == 0 || op->n_operands % 2 != 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected as many start values as inputs, found %" PRIu32 " operands", op->n_operands);
  SN_TRY(window(s, op, in[0]->shape->rank, dims));
  SN_TRY(sn_sm_scalar_region(s, op, 0, "region", &body));
  SN_TRY(sn_sm_check_promotion(s, op, body, op->n_operands / 2, in));
  sn_window w = {in[0]->shape->rank, dims};
  sn_attr a = sn_attr_window(&w);
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_REDUCE_WINDOW, NULL, op->n_operands, in, 1, &a, 1, &body), out);
}

sn_status sn_sm_select_and_scatter(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_window_dim dims[SN_MAX_RANK];
  sn_computation *called[2] = {NULL, NULL};
  (void)row;
  SN_TRY(window(s, op, in[0]->shape->rank, dims));
  SN_TRY(sn_sm_scalar_region(s, op, 0, "select", &called[0]));
  SN_TRY(sn_sm_scalar_region(s, op, 1, "scatter", &called[1]));
  SN_TRY(sn_sm_check_promotion(s, op, called[1], 1, in));
  sn_window w = {in[0]->shape->rank, dims};
  sn_attr a = sn_attr_window(&w);
  out[0] = sn_build(&s->b, SN_OP_SELECT_AND_SCATTER, NULL, 3, in, 1, &a, 2, called);
  return sn_sm_built(s);
}

/* ---- sort, map, top_k ---- */

sn_status sn_sm_sort(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t d = sn_sm_int_or(op, "dimension", -1);
  sn_computation *comparator = NULL;
  (void)row;
  if (op->n_operands == 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected at least one operand, found none");
  if (d < 0) d += in[0]->shape->rank;
  SN_TRY(sn_sm_scalar_region(s, op, 0, "comparator", &comparator));
  sn_attr a[2] = {sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &d), sn_attr_int(SN_ATTR_IS_STABLE, sn_sm_bool(op, "is_stable"))};
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_SORT, NULL, op->n_operands, in, 2, a, 1, &comparator), out);
}

sn_status sn_sm_map(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t n = 0;
  const int64_t *dims = NULL;
  sn_computation *body = NULL;
  (void)row;
  SN_TRY(sn_sm_ints(s, op, "dimensions", false, &n, &dims));
  SN_TRY(sn_sm_scalar_region(s, op, 0, "mapped", &body));
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, n, dims);
  out[0] = sn_build(&s->b, SN_OP_MAP, NULL, op->n_operands, in, 1, &a, 1, &body);
  return sn_sm_built(s);
}

sn_status sn_sm_top_k(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t k = 0;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "k", &k));
  sn_attr a[2] = {sn_attr_int(SN_ATTR_K, k), sn_attr_int(SN_ATTR_LARGEST, sn_mlir_find(op, "largest") == NULL || sn_sm_bool(op, "largest"))};
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_TOPK, NULL, 1, in, 2, a, 0, NULL), out);
}

/* ---- scan ---- */

/* chlo.scan: inputs and start values give outputs and last values; HLO's body has the same order. */
sn_status sn_sm_scan(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t d = 0;
  sn_computation *body = NULL;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "dimension", &d));
  int64_t inputs = sn_sm_int_or(op, "num_inputs", op->n_operands / 2);
  const sn_mlir_attr *carries = sn_mlir_find(op, "num_carries");
  if (carries != NULL && carries->kind == SN_MA_INT) inputs = (int64_t)op->n_operands - carries->i;
  if (inputs < 0 || inputs > op->n_operands) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected at most %" PRIu32 " inputs, found %" PRId64, op->n_operands, inputs);
  SN_TRY(sn_sm_scalar_region(s, op, 0, "scanned", &body));
  sn_attr a[4] = {sn_attr_ints(SN_ATTR_DIMENSIONS, 1, &d), sn_attr_int(SN_ATTR_NUM_CARRIES, (int64_t)op->n_operands - inputs), sn_attr_int(SN_ATTR_IS_REVERSE, sn_sm_bool(op, "is_reverse")),
                  sn_attr_int(SN_ATTR_IS_ASSOCIATIVE, sn_sm_bool(op, "is_associative") ? SN_TRISTATE_TRUE : SN_TRISTATE_FALSE)};
  uint32_t n_attrs = sn_mlir_find(op, "is_associative") != NULL ? 4 : 3;
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_SCAN, NULL, op->n_operands, in, n_attrs, a, 1, &body), out);
}
