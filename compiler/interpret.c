/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What has no code becomes a command for a host that has an interpreter: the instruction as a module of its own, in HLO text, which takes a parameter an operand leaf. */
#include <string.h>

#include "compile_internal.h"
#include "sinter/build.h"
#include "sinter/text.h"

/* The value of an operand of shape s, put together from parameters. */
static sn_instr *operand_value(sn_builder *b, const sn_shape *s, int64_t *n_params) {
  if (s->type == SN_TYPE_TOKEN) return sn_build(b, SN_OP_AFTER_ALL, NULL, 0, NULL, 0, NULL, 0, NULL); /* the order of commands is the order of effects */
  if (!sn_shape_is_tuple(s)) return sn_build_parameter(b, (*n_params)++, sn_shape_with_layout(sn_builder_arena(b), s, NULL), NULL);
  sn_instr **parts = SN_NEW_N(sn_builder_arena(b), sn_instr *, s->n_elements + 1);
  if (!parts) {
    b->status = SN_ERR_MEMORY;
    return NULL;
  }
  for (int k = 0; k < s->n_elements; k++) parts[k] = operand_value(b, s->elements[k], n_params);
  return sn_build_tuple(b, (uint32_t)s->n_elements, parts);
}

static sn_status copy_instr(compile *c, const sn_instr *i, sn_module *m, sn_computation *entry) {
  sn_builder b;
  int64_t n_params = 0;
  sn_instr *copy, **operands = SN_NEW_N(c->arena, sn_instr *, i->n_operands + 1);
  if (!operands) return SN_ERR_MEMORY;
  sn_builder_init(&b, c->d, entry);
  for (uint32_t k = 0; k < i->n_operands; k++) operands[k] = operand_value(&b, sn_operand_shape(i, k), &n_params);
  SN_TRY(b.status);
  SN_TRY(sn_instr_clone(i, entry, operands, NULL, &copy));
  sn_instr_drop_control(copy);
  for (uint16_t k = 0; k < i->n_called; k++) {
    sn_computation *called;
    SN_TRY(sn_computation_clone(i->called[k], m, NULL, &called));
    sn_instr_set_called(copy, k, called);
  }
  /* Layouts order memory; values have none. What may be written in place is the plan's business. */
  sn_instr_drop_attr(copy, SN_ATTR_OPERAND_LAYOUT_CONSTRAINTS);
  sn_instr_drop_attr(copy, SN_ATTR_OUTPUT_TO_OPERAND_ALIASING);
  sn_computation_set_root(entry, copy);
  sn_computation_move_before(entry, NULL);
  return SN_OK;
}

sn_status sn_compile_as_text(compile *c, const sn_instr *i, const char **out) {
  sn_module *m = NULL;
  sn_computation *entry = NULL;
  sn_str text = {0};
  sn_print_options o;
  *out = NULL;
  sn_status s = sn_module_create("instruction", &m);
  if (s == SN_OK) s = sn_computation_create(m, "entry", &entry);
  if (s == SN_OK) sn_module_set_entry(m, entry);
  if (s == SN_OK) s = copy_instr(c, i, m, entry);
  if (s == SN_OK) {
    sn_print_options_init_short(&o);
    o.result_layout = false;
    o.backend_config = true;
    o.metadata = i->op == SN_OP_CUSTOM_CALL; /* sn_print says where it stands */
    sn_hlo_print(&text, m, &o);
    *out = text.failed ? NULL : sn_arena_string_n(c->arena, text.data, text.n);
    if (!*out) s = SN_ERR_MEMORY;
  }
  sn_str_finish(&text);
  sn_module_destroy(m);
  return s == SN_ERR_MEMORY ? sn_out_of_memory(c->d, 1) : s;
}
