/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Control flow, tuples, tokens, device ids, transfers with the host. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

/* ---- tuples ---- */

sn_status sn_sm_tuple(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)row;
  out[0] = sn_build_tuple(&s->b, op->n_operands, in);
  return sn_sm_built(s);
}

sn_status sn_sm_get_tuple_element(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t k = 0;
  (void)row;
  SN_TRY(sn_sm_int(s, op, "index", &k));
  out[0] = sn_build_get(&s->b, in[0], k);
  return sn_sm_built(s);
}

static sn_instr *grouped(sn_sm *s, uint32_t n, sn_instr **v) { return n == 1 ? v[0] : sn_build_tuple(&s->b, n, v); }

sn_status sn_sm_optimization_barrier(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)row;
  if (op->n_operands == 0) return SN_OK;
  return sn_sm_unpack(s, op, sn_build_unary(&s->b, SN_OP_OPT_BARRIER, grouped(s, op->n_operands, in)), out);
}

/* ---- while ---- */

/* All values of the loop are one tuple; what the regions use from outside rides along. */
sn_status sn_sm_while(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  uint32_t n = op->n_operands, more = 0;
  sn_mlir_value **captured = NULL;
  sn_computation *called[2] = {NULL, NULL};
  (void)row;
  if (op->n_results != n) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %" PRIu32 " results, one a value of the loop, found %" PRIu32, n, op->n_results);
  SN_TRY(sn_sm_captured(s, op, &more, &captured));
  const sn_shape **shapes = SN_NEW_N(s->scratch, const sn_shape *, n + 1);
  sn_instr **all = SN_NEW_N(s->scratch, sn_instr *, n + more + 1);
  if (shapes == NULL || all == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < n + more; i++) all[i] = i < n ? in[i] : s->values[captured[i - n]->id];
  for (uint32_t i = 0; i < n; i++) shapes[i] = in[i]->shape;
  sn_sm_region_spec spec = {.region = &op->regions[0], .name = "condition", .n_args = n, .args = shapes, .packed = true, .n_captured = more, .captured = captured};
  SN_TRY(sn_sm_region(s, op, &spec, &called[0]));
  spec.region = &op->regions[1];
  spec.name = "body";
  spec.tuple = spec.pass_captured = true;
  SN_TRY(sn_sm_region(s, op, &spec, &called[1]));
  sn_instr *start = sn_build_tuple(&s->b, n + more, all);
  SN_TRY(sn_sm_built(s));
  sn_instr *loop = sn_build(&s->b, SN_OP_WHILE, NULL, 1, &start, 0, NULL, 2, called);
  for (uint32_t i = 0; i < n; i++) out[i] = sn_build_get(&s->b, loop, i);
  return sn_sm_built(s);
}

/* ---- if, case ---- */

/* Every branch takes one tuple of all that any of them uses from outside. */
sn_status sn_sm_conditional(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  uint32_t more = 0, n = op->n_regions;
  sn_mlir_value **captured = NULL;
  (void)row;
  if (n == 0) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected at least one branch, found none");
  SN_TRY(sn_sm_captured(s, op, &more, &captured));
  sn_computation **called = SN_NEW_N(s->scratch, sn_computation *, n);
  sn_instr **all = SN_NEW_N(s->scratch, sn_instr *, more + 1), **operands = SN_NEW_N(s->scratch, sn_instr *, n + 1);
  if (called == NULL || all == NULL || operands == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < more; i++) all[i] = s->values[captured[i]->id];
  for (uint32_t k = 0; k < n; k++) {
    sn_sm_region_spec spec = {.region = &op->regions[k], .name = "branch", .packed = true, .n_captured = more, .captured = captured, .tuple = op->n_results != 1};
    SN_TRY(sn_sm_region(s, op, &spec, &called[k]));
  }
  sn_instr *passed = sn_build_tuple(&s->b, more, all);
  operands[0] = in[0];
  for (uint32_t k = 0; k < n; k++) operands[k + 1] = passed;
  SN_TRY(sn_sm_built(s));
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_CONDITIONAL, NULL, n + 1, operands, 0, NULL, n, called), out);
}

/* ---- tokens, ids ---- */

sn_status sn_sm_after_all(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)row;
  out[0] = sn_build(&s->b, SN_OP_AFTER_ALL, NULL, op->n_operands, in, 0, NULL, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_device_id(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  (void)in;
  (void)op;
  out[0] = sn_build(&s->b, row->op, NULL, 0, NULL, 0, NULL, 0, NULL);
  return sn_sm_built(s);
}

/* ---- transfers ---- */

static uint32_t channel(const sn_mlir_op *op, sn_attr *a) {
  int64_t id = sn_sm_int_or(op, "channel_id", 0);
  uint32_t n = 0;
  if (id != 0) a[n++] = sn_attr_int(SN_ATTR_CHANNEL_ID, id);
  a[n++] = sn_attr_int(SN_ATTR_IS_HOST_TRANSFER, sn_sm_bool(op, "is_host_transfer"));
  return n;
}

static sn_status pairs_note(sn_sm *s, const sn_mlir_op *op, sn_instr *i) {
  int64_t n = 0;
  const int64_t *v = NULL;
  SN_TRY(sn_sm_ints(s, op, "source_target_pairs", false, &n, &v));
  if (n < 2) return SN_OK;
  sn_str text = {0};
  for (int64_t k = 0; k + 1 < n; k += 2) sn_str_printf(&text, "%s{%" PRId64 ",%" PRId64 "}", k == 0 ? "{" : ",", v[k], v[k + 1]);
  sn_str_char(&text, '}');
  sn_status st = text.failed ? sn_sm_memory(s) : sn_instr_set_frontend(i, "_xla_send_recv_source_target_pairs", text.data);
  sn_str_finish(&text);
  return st;
}

sn_status sn_sm_send(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[2];
  uint32_t n = channel(op, a);
  (void)row;
  if (op->n_operands < 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a token, found no operand");
  sn_instr *v[2] = {grouped(s, op->n_operands - 1, in), in[op->n_operands - 1]};
  SN_TRY(sn_sm_built(s));
  sn_instr *start = sn_build(&s->b, SN_OP_SEND, NULL, 2, v, n, a, 0, NULL);
  SN_TRY(sn_sm_built(s));
  SN_TRY(pairs_note(s, op, start));
  out[0] = sn_build(&s->b, SN_OP_SEND_DONE, NULL, 1, &start, n, a, 0, NULL);
  return sn_sm_built(s);
}

/* The values in front of the token: one, or a tuple. */
static sn_status received(sn_sm *s, const sn_mlir_op *op, const sn_shape **out) {
  uint32_t n = op->n_results - 1;
  const sn_shape **v = SN_NEW_N(s->scratch, const sn_shape *, n + 1);
  if (v == NULL) return sn_sm_memory(s);
  for (uint32_t i = 0; i < n; i++) SN_TRY(sn_sm_shape(s, op, op->results[i].type, &v[i]));
  *out = n == 1 ? v[0] : sn_shape_tuple(sn_sm_arena(s), (int)n, v);
  return *out != NULL ? SN_OK : sn_sm_memory(s);
}

static sn_status spread_received(sn_sm *s, const sn_mlir_op *op, sn_instr *pair, sn_instr **out) {
  uint32_t n = op->n_results - 1;
  sn_instr *data = sn_build_get(&s->b, pair, 0);
  for (uint32_t i = 0; i < n; i++) out[i] = n == 1 ? data : sn_build_get(&s->b, data, i);
  out[n] = sn_build_get(&s->b, pair, 1);
  return sn_sm_built(s);
}

sn_status sn_sm_recv(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[2];
  uint32_t n = channel(op, a);
  const sn_shape *data = NULL;
  (void)row;
  if (op->n_results < 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a token as last result, found no result");
  SN_TRY(received(s, op, &data));
  const sn_shape *parts[3] = {data, sn_shape_scalar(sn_sm_arena(s), SN_TYPE_U32), sn_shape_token(sn_sm_arena(s))};
  const sn_shape *whole = parts[1] != NULL && parts[2] != NULL ? sn_shape_tuple(sn_sm_arena(s), 3, parts) : NULL;
  if (whole == NULL) return sn_sm_memory(s);
  sn_instr *start = sn_build(&s->b, SN_OP_RECV, whole, 1, in, n, a, 0, NULL);
  SN_TRY(sn_sm_built(s));
  SN_TRY(pairs_note(s, op, start));
  return spread_received(s, op, sn_build(&s->b, SN_OP_RECV_DONE, NULL, 1, &start, n, a, 0, NULL), out);
}

sn_status sn_sm_infeed(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_shape *data = NULL;
  const char *config = sn_mlir_string(op, "infeed_config");
  (void)row;
  if (op->n_results < 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a token as last result, found no result");
  SN_TRY(received(s, op, &data));
  const sn_shape *parts[2] = {data, sn_shape_token(sn_sm_arena(s))};
  const sn_shape *whole = parts[1] != NULL ? sn_shape_tuple(sn_sm_arena(s), 2, parts) : NULL;
  if (whole == NULL) return sn_sm_memory(s);
  bool has = config != NULL && config[0] != '\0';
  sn_attr a = sn_attr_string(SN_ATTR_INFEED_CONFIG, has ? config : "");
  return spread_received(s, op, sn_build(&s->b, SN_OP_INFEED, whole, 1, in, has ? 1 : 0, &a, 0, NULL), out);
}

sn_status sn_sm_outfeed(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const char *config = sn_mlir_string(op, "outfeed_config");
  sn_attr a[2];
  uint32_t n = 0;
  (void)row;
  if (op->n_operands < 1) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected a token, found no operand");
  sn_instr *v[2] = {grouped(s, op->n_operands - 1, in), in[op->n_operands - 1]};
  SN_TRY(sn_sm_built(s));
  a[n].id = SN_ATTR_OUTFEED_SHAPE;
  a[n++].u.shape = v[0]->shape;
  if (config != NULL && config[0] != '\0') a[n++] = sn_attr_string(SN_ATTR_OUTFEED_CONFIG, config);
  out[0] = sn_build(&s->b, SN_OP_OUTFEED, NULL, 2, v, n, a, 0, NULL);
  return sn_sm_built(s);
}
