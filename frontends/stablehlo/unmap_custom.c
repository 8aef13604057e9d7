/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The way back of custom calls, and of what StableHLO carries as one. */
#include <string.h>

#include "unmap.h"

/* Orders of dimensions, one an array. */
static const sn_mlir_attr *layout_list(sn_sw *s, int64_t n, const sn_shape *const *shapes) {
  const sn_mlir_attr **v = SN_NEW_N(s->scratch, const sn_mlir_attr *, n + 1);
  for (int64_t k = 0; v != NULL && k < n; k++) {
    int64_t order[SN_MAX_RANK];
    for (int d = 0; d < shapes[k]->rank; d++) order[d] = shapes[k]->layout != NULL ? shapes[k]->layout->minor_to_major[d] : shapes[k]->rank - 1 - d;
    if ((v[k] = sn_sw_table(s, shapes[k]->rank, -1, order, SN_TYPE_S64, true)) == NULL) return NULL;
  }
  return v != NULL ? sn_sw_items(s, n, v) : NULL;
}

static sn_status layouts(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  bool tuple = sn_shape_is_tuple(i->shape) && i->shape->n_elements != 1;
  if (a == NULL) {
    sn_sw_attr(op, "operand_layouts", sn_sw_items(s, 0, NULL));
    sn_sw_attr(op, "result_layouts", sn_sw_items(s, 0, NULL));
    return SN_OK;
  }
  for (int64_t k = 0; k < a->u.shapes.n; k++)
    if (!sn_shape_is_array(a->u.shapes.v[k])) return sn_sw_fail(s, i, "a layout of a tuple");
  sn_sw_attr(op, "operand_layouts", layout_list(s, a->u.shapes.n, a->u.shapes.v));
  sn_sw_attr(op, "result_layouts", layout_list(s, tuple ? i->shape->n_elements : 1, tuple ? i->shape->elements : &i->shape));
  return SN_OK;
}

static sn_status call_aliases(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  int64_t n = a != NULL ? a->u.aliases.n : 0;
  const sn_mlir_attr **v = SN_NEW_N(s->scratch, const sn_mlir_attr *, n + 1);
  if (v == NULL) return sn_sw_memory(s);
  for (int64_t k = 0; k < n; k++) {
    const sn_alias *e = &a->u.aliases.v[k];
    sn_mlir_named m[] = {{"output_tuple_indices", sn_sw_ints(s, e->output_index.n, e->output_index.v)}, {"operand_index", sn_sw_number(s, e->operand)},
                         {"operand_tuple_indices", sn_sw_ints(s, e->operand_index.n, e->operand_index.v)}};
    if ((v[k] = sn_sw_members(s, "stablehlo.output_operand_alias", 3, m)) == NULL) return sn_sw_memory(s);
  }
  sn_sw_attr(op, "output_operand_aliases", sn_sw_items(s, n, v));
  return SN_OK;
}

static sn_status call_config(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_mlir_attr *a = NULL;
  const char *config = i->backend_config;
  if (config != NULL && !i->backend_config_quoted && config[0] == '{' && sn_mlir_read_attr_text(s->out, config, strlen(config), 32, &a) == SN_OK && a->kind == SN_MA_DICT) {
    bool typed = sn_instr_int(i, SN_ATTR_API_VERSION) == SN_API_VERSION_TYPED_FFI; /* others take strings alone */
    sn_sw_attr(op, typed ? "backend_config" : "mhlo.backend_config", a);
    if (!typed) sn_sw_attr(op, "backend_config", sn_sw_text(s, ""));
    return SN_OK;
  }
  sn_sw_attr(op, "backend_config", sn_sw_text(s, config));
  return SN_OK;
}

static sn_status call_functions(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  const sn_mlir_attr **v = SN_NEW_N(s->scratch, const sn_mlir_attr *, i->n_called + 1);
  if (v == NULL) return sn_sw_memory(s);
  for (uint16_t k = 0; k < i->n_called; k++) {
    const char *name = sn_sw_function(s, i->called[k]);
    if (name == NULL || (v[k] = sn_mlir_attr_string(s->out, SN_MA_SYMBOL, name, strlen(name))) == NULL) return sn_sw_memory(s);
  }
  sn_sw_attr(op, "called_computations", sn_sw_items(s, i->n_called, v));
  return SN_OK;
}

sn_status sn_sw_custom_call(sn_sw *s, const sn_sm_row *row, const sn_instr *i) {
  SN_SW_ONLY(SN_ATTR_CUSTOM_CALL_TARGET, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING, SN_ATTR_API_VERSION,
       SN_ATTR_CALLED_COMPUTATIONS);
  SN_SW_OP(row->name, 0);
  sn_sw_attr(op, "call_target_name", sn_sw_text(s, sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET)));
  sn_sw_attr(op, "has_side_effect", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT)));
  SN_TRY(call_config(s, i, op));
  sn_sw_attr(op, "api_version", sn_sw_number32(s, sn_instr_int(i, SN_ATTR_API_VERSION)));
  SN_TRY(call_functions(s, i, op));
  SN_TRY(layouts(s, i, op));
  return call_aliases(s, i, op);
}

/* `stablehlo.custom_call @mhlo.erf`: how programs carry what HLO has and StableHLO has not; the attributes are in a dictionary. */
sn_status sn_sw_mhlo(sn_sw *s, const sn_instr *i) {
  sn_mlir_named v[2];
  int64_t n = 0;
  if (!sn_sm_is_mhlo(i->op) || sn_instr_str(i, SN_ATTR_RESULT_ACCURACY) != NULL) return sn_sw_fail(s, i, "%s", sn_opcode_text(i->op));
  SN_SW_OP("stablehlo.custom_call", 0);
  if (i->op == SN_OP_TOPK) {
    v[n++] = (sn_mlir_named){"k", sn_sw_number(s, sn_instr_int(i, SN_ATTR_K))};
    v[n++] = (sn_mlir_named){"largest", sn_sw_truth(s, sn_instr_bool(i, SN_ATTR_LARGEST))};
  }
  const char *name = sn_arena_printf(s->out->arena, "mhlo.%s", sn_opcode_text(i->op));
  if (name == NULL) return sn_sw_memory(s);
  sn_sw_attr(op, "call_target_name", sn_sw_text(s, name));
  sn_sw_attr(op, "has_side_effect", sn_sw_truth(s, false));
  sn_sw_attr(op, "backend_config", sn_sw_text(s, ""));
  sn_sw_attr(op, "api_version", sn_sw_number32(s, 1));
  sn_sw_attr(op, "called_computations", sn_sw_items(s, 0, NULL));
  sn_sw_attr(op, "operand_layouts", sn_sw_items(s, 0, NULL));
  sn_sw_attr(op, "result_layouts", sn_sw_items(s, 0, NULL));
  sn_sw_attr(op, "output_operand_aliases", sn_sw_items(s, 0, NULL));
  sn_sw_attr(op, "mhlo.attributes", sn_sw_members(s, NULL, n, v));
  sn_sw_attr(op, "mhlo.version", sn_sw_number(s, 1));
  return SN_OK;
}
