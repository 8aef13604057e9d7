/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of tuples, calls and control flow. */
#include <stdio.h>
#include <string.h>

#include "unmap.h"

sn_status sn_sw_tuple(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  sn_mlir_value **v = SN_NEW_N(s->out->arena, sn_mlir_value *, i->n_operands + 1);
  (void)row;
  if (v == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < i->n_operands; k++)
    if ((v[k] = sn_sw_value(s, sn_instr_operand(i, k))) == NULL) return sn_sw_memory(s);
  s->nodes[i->id] = (sn_sw_node){.parts = v, .block = s->to};
  return SN_OK;
}

/* Of what is a list of values here, the value; a tuple that HLO writes out and takes apart stays one. */
sn_status sn_sw_get_tuple_element(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *x = sn_instr_operand(i, 0);
  int64_t k = sn_instr_int(i, SN_ATTR_INDEX);
  sn_sw_node *from = &s->nodes[x->id];
  if ((x->op == SN_OP_INFEED || x->op == SN_OP_RECV_DONE) && k == 0 && sn_sw_count(i->shape) != 1) return SN_OK; /* received() has bound it */
  if (from->parts != NULL && x->op != SN_OP_TUPLE) {
    s->nodes[i->id] = (sn_sw_node){.whole = from->parts[k]};
    return SN_OK;
  }
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "index", sn_sw_number32(s, k));
  return SN_OK;
}

/* A composite is its decomposition's call, marked. */
static sn_status composite(sn_sw *s, const sn_instr *i, const char *callee) {
  const char *name = sn_instr_frontend(i, "composite.name"), *attributes = sn_instr_frontend(i, "composite.attributes"), *version = sn_instr_frontend(i, "composite.version");
  const sn_mlir_attr *dict = NULL;
  long long v = 0;
  SN_SW_OP("stablehlo.composite", 0);
  if (attributes == NULL) attributes = "{}";
  if (sn_mlir_read_attr_text(s->out, attributes, strlen(attributes), 32, &dict) != SN_OK || dict->kind != SN_MA_DICT) return sn_sw_fail(s, i, "a composite with attributes %s", attributes);
  if (version != NULL) (void)sscanf(version, "%lld", &v);
  sn_sw_attr(op, "composite_attributes", dict);
  sn_sw_attr(op, "decomposition", sn_mlir_attr_string(s->out, SN_MA_SYMBOL, callee, strlen(callee)));
  sn_sw_attr(op, "name", sn_sw_text(s, name));
  sn_sw_attr(op, "version", sn_sw_number32(s, v));
  return SN_OK;
}

sn_status sn_sw_call(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const char *name = sn_sw_function(s, i->called[0]);
  if (name == NULL) return sn_sw_memory(s);
  if (sn_instr_bool(i, SN_ATTR_IS_COMPOSITE)) return composite(s, i, name);
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "callee", sn_mlir_attr_string(s->out, SN_MA_SYMBOL, name, strlen(name)));
  return SN_OK;
}

sn_status sn_sw_while(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *start = sn_instr_operand(i, 0);
  bool tuple = sn_shape_is_tuple(i->shape);
  uint32_t n = tuple ? (uint32_t)i->shape->n_elements : 1;
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  sn_mlir_value *only_one = tuple ? NULL : sn_sw_value(s, start), **in = tuple ? sn_sw_elements(s, start) : &only_one;
  if (types == NULL || in == NULL || (!tuple && only_one == NULL)) return sn_sw_memory(s);
  for (uint32_t k = 0; k < n; k++)
    if ((types[k] = sn_sw_type(s, tuple ? i->shape->elements[k] : i->shape)) == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_op(s, row->name, n, in, n, types, 2);
  sn_mlir_value **parts = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 1);
  if (op == NULL || parts == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < n; k++) parts[k] = &op->results[k];
  SN_TRY(sn_sw_notes(s, i, op));
  SN_TRY(sn_sw_loop_region(s, i, op, 0, i->called[0]));
  SN_TRY(sn_sw_loop_region(s, i, op, 1, i->called[1]));
  s->nodes[i->id] = tuple ? (sn_sw_node){.parts = parts} : (sn_sw_node){.whole = parts[0]};
  return SN_OK;
}

sn_status sn_sw_conditional(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  const sn_instr *which = sn_instr_operand(i, 0);
  sn_mlir_value *index = sn_sw_value(s, which);
  sn_instr bare = *i; /* its other operands are reached from inside of the regions */
  bare.n_operands = 1;
  (void)row;
  if (index == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_instr(s, which->shape->type == SN_TYPE_PRED ? "stablehlo.if" : "stablehlo.case", &bare, i->n_called);
  if (op == NULL) return sn_sw_memory(s);
  for (uint16_t k = 0; k < i->n_called; k++) SN_TRY(sn_sw_branch_region(s, i, op, k, i->called[k], sn_instr_operand(i, k + 1u)));
  return SN_OK;
}

sn_mlir_op *sn_sw_spread(sn_sw *s, const char *name, const sn_instr *i, const sn_instr *token, uint32_t n_results, const sn_mlir_type *const *types) {
  uint32_t n = 0;
  sn_mlir_value **v = sn_sw_values(s, sn_instr_operand(i, 0), &n), **in = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 2);
  if (v == NULL || in == NULL) return NULL;
  for (uint32_t k = 0; k < n; k++) in[k] = v[k];
  if (token != NULL && (in[n++] = sn_sw_value(s, token)) == NULL) return NULL;
  sn_mlir_op *op = sn_sw_op(s, name, n, in, n_results, types, 0);
  return op != NULL && sn_sw_notes(s, i, op) == SN_OK ? op : NULL;
}

sn_status sn_sw_optimization_barrier(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  uint32_t n = sn_sw_count(i->shape);
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  if (types == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < n; k++)
    if ((types[k] = sn_sw_type(s, sn_shape_is_tuple(i->shape) && i->shape->n_elements != 1 ? i->shape->elements[k] : i->shape)) == NULL) return sn_sw_memory(s);
  sn_mlir_op *op = sn_sw_spread(s, row->name, i, NULL, n, types);
  return op != NULL ? sn_sw_bind(s, i, op) : sn_sw_memory(s);
}

sn_status sn_sw_after_all(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_OP(i->n_operands == 0 ? "stablehlo.create_token" : row->name, 0);
  (void)op;
  return SN_OK;
}
