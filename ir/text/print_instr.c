/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* name = shape opcode(operands), attributes of the op, called computations, then what any instruction may carry: XLA's order. */
#include "text_internal.h"

#include <string.h>

#define PRINT_INDEX_EVERY 5u
#define PRINT_LARGE 10 /* elements of a constant that are printed without large_constants */

/* ---- notes ---------------------------------------------------------------------------------------------------------------- */

void sn_tx_print_pairs(sn_str *to, int64_t n, const sn_pair *v) {
  sn_str_char(to, '{');
  for (int64_t i = 0; i < n; i++) {
    if (i != 0) sn_str_char(to, ',');
    sn_str_add(to, v[i].key);
    sn_str_char(to, '=');
    if (v[i].raw) sn_str_add(to, v[i].value);
    else sn_tx_print_quoted(to, v[i].value);
  }
  sn_str_char(to, '}');
}

static void metadata_string(sn_str *to, const char **blank, const char *key, const char *value) {
  if (value == NULL) return;
  sn_str_add(to, *blank);
  sn_str_add(to, key);
  sn_tx_print_quoted(to, value);
  *blank = " ";
}

static void metadata_int(sn_str *to, const char **blank, const char *key, int32_t value) {
  if (value == 0) return;
  sn_str_add(to, *blank);
  sn_str_add(to, key);
  sn_str_i64(to, value);
  *blank = " ";
}

void sn_tx_print_metadata(sn_str *to, const sn_metadata *md) {
  const char *blank = "";
  sn_str_char(to, '{');
  metadata_string(to, &blank, "op_type=", md->op_type);
  metadata_string(to, &blank, "op_name=", md->op_name);
  metadata_string(to, &blank, "source_file=", md->source_file);
  metadata_int(to, &blank, "source_line=", md->source_line);
  metadata_int(to, &blank, "source_end_line=", md->source_end_line);
  metadata_int(to, &blank, "source_column=", md->source_column);
  metadata_int(to, &blank, "source_end_column=", md->source_end_column);
  metadata_int(to, &blank, "stack_frame_id=", md->stack_frame_id);
  if (md->profile_type.n != 0) {
    sn_str_add(to, blank);
    sn_tx_print_ints(to, md->profile_type, "profile_type={", ",", "}");
    blank = " ";
  }
  metadata_string(to, &blank, "deduplicated_name=", md->deduplicated_name);
  metadata_string(to, &blank, "scheduling_name=", md->scheduling_name);
  sn_str_char(to, '}');
}

static void print_name(sn_tx_printer *w, const char *name) {
  if (w->o.percent) sn_str_char(w->to, '%');
  sn_str_add(w->to, name);
}

static void print_extra(sn_tx_printer *w, const sn_instr *i, const char *key) {
  for (const sn_pair *e = i->extras; e != NULL && e->key != NULL; e++) {
    if (strcmp(e->key, key) != 0) continue;
    sn_str_add_n(w->to, ", ", 2);
    sn_str_add(w->to, e->key);
    sn_str_char(w->to, '=');
    sn_str_add(w->to, e->value);
  }
}

static void print_control(sn_tx_printer *w, const sn_instr *i) {
  sn_str_add(w->to, ", control-predecessors={");
  for (uint16_t k = 0; k < i->n_control; k++) {
    if (k != 0) sn_str_add_n(w->to, ", ", 2);
    print_name(w, i->control[k]->name);
  }
  sn_str_char(w->to, '}');
}

static void print_backend_config(sn_tx_printer *w, const sn_instr *i) {
  sn_str_add(w->to, ", backend_config=");
  if (i->backend_config_quoted) sn_tx_print_quoted(w->to, i->backend_config);
  else sn_str_add(w->to, i->backend_config);
}

static void print_notes(sn_tx_printer *w, const sn_instr *i) {
  if (i->sharding != NULL) {
    sn_str_add(w->to, ", sharding=");
    sn_tx_print_sharding(w->to, i->sharding, w->o.index_comments);
  }
  if (i->n_frontend != 0) {
    sn_str_add(w->to, ", frontend_attributes=");
    sn_tx_print_pairs(w->to, i->n_frontend, i->frontend);
  }
  if (i->n_control != 0) print_control(w, i);
  print_extra(w, i, "statistics");
  print_extra(w, i, "origin");
  if (w->o.metadata && i->metadata != NULL) {
    sn_str_add(w->to, ", metadata=");
    sn_tx_print_metadata(w->to, i->metadata);
  }
  if (w->o.backend_config && i->backend_config != NULL) print_backend_config(w, i);
}

/* ---- attributes, called computations ------------------------------------------------------------------------------------------ */

static void print_called_one(sn_tx_printer *w, const char *attribute, const sn_computation *c) {
  sn_str_add_n(w->to, ", ", 2);
  sn_str_add(w->to, attribute);
  sn_str_char(w->to, '=');
  print_name(w, c->name);
}

static void print_called_list(sn_tx_printer *w, const char *attribute, uint16_t n, sn_computation *const *v) {
  sn_str_add_n(w->to, ", ", 2);
  sn_str_add(w->to, attribute);
  sn_str_add_n(w->to, "={", 2);
  for (uint16_t k = 0; k < n; k++) {
    if (k != 0) sn_str_add_n(w->to, ", ", 2);
    print_name(w, v[k]->name);
  }
  sn_str_char(w->to, '}');
}

/* A conditional by a predicate names its two branches. */
static bool print_branches(sn_tx_printer *w, const sn_instr *i) {
  bool two = i->op == SN_OP_CONDITIONAL && i->n_called == 2 && i->n_operands != 0 && sn_operand_shape(i, 0)->type == SN_TYPE_PRED;
  if (!two) return false;
  print_called_one(w, "true_computation", i->called[0]);
  print_called_one(w, "false_computation", i->called[1]);
  return true;
}

static void print_called(sn_tx_printer *w, const sn_instr *i) {
  if (i->n_called == 0 || print_branches(w, i)) return;
  uint16_t k = 0;
  for (const uint16_t *row = sn_ops[i->op].attrs; *row != SN_ATTR_END && k < i->n_called; row++) {
    const sn_attr_info *info = &sn_attrs[*row & ~SN_ATTR_MUST];
    if (info->kind == SN_KIND_COMP) print_called_one(w, info->text, i->called[k++]);
    if (info->kind != SN_KIND_COMPS) continue;
    print_called_list(w, info->text, (uint16_t)(i->n_called - k), i->called + k);
    return;
  }
}

/* Products say which dimensions they contract even when there are none: the absent list is the empty one. */
static void print_dot_attributes(sn_tx_printer *w, const sn_instr *i) {
  uint16_t k = 0;
  for (const uint16_t *row = sn_ops[i->op].attrs; *row != SN_ATTR_END; row++) {
    sn_attr_id id = (sn_attr_id)(*row & ~SN_ATTR_MUST);
    sn_attr none = sn_attr_ints(id, 0, NULL);
    if (k < i->n_attrs && i->attrs[k].id == id) sn_tx_print_attr(w, &i->attrs[k++]);
    else if (id == SN_ATTR_LHS_CONTRACTING_DIMS || id == SN_ATTR_RHS_CONTRACTING_DIMS) sn_tx_print_attr(w, &none);
  }
}

static void print_own_attributes(sn_tx_printer *w, const sn_instr *i) {
  if (i->op == SN_OP_DOT || i->op == SN_OP_RAGGED_DOT || i->op == SN_OP_SCALED_DOT) {
    print_dot_attributes(w, i);
    return;
  }
  for (uint16_t k = 0; k < i->n_attrs; k++) {
    sn_attr_id id = i->attrs[k].id;
    if (id != SN_ATTR_PARAMETER_NUMBER && id != SN_ATTR_LITERAL) sn_tx_print_attr(w, &i->attrs[k]);
  }
}

/* ---- operands -------------------------------------------------------------------------------------------------------------------- */

static void print_constant(sn_tx_printer *w, const sn_instr *i) {
  const sn_array *a = sn_instr_literal(i);
  bool small = a != NULL && sn_shape_is_array(i->shape) && sn_shape_elements(i->shape) <= PRINT_LARGE;
  if (a == NULL || (!small && !w->o.large_constants)) sn_str_add(w->to, "{...}");
  else sn_tx_print_literal(w->to, a);
}

static void print_operands(sn_tx_printer *w, const sn_instr *i) {
  if (i->op == SN_OP_PARAMETER) {
    sn_str_i64(w->to, sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER));
    return;
  }
  if (i->op == SN_OP_CONSTANT) {
    print_constant(w, i);
    return;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (k != 0) sn_str_add_n(w->to, ", ", 2);
    if (w->o.index_comments && k != 0 && k % PRINT_INDEX_EVERY == 0) sn_tx_print_index(w->to, k);
    const sn_instr *def = i->operands[k].def;
    if (w->o.operand_shapes) {
      sn_tx_print_shape(w->to, def->shape, w->o.result_layout, w->o.default_layouts, w->o.index_comments);
      sn_str_char(w->to, ' ');
    }
    print_name(w, def->name);
  }
}

/* ---- async sugar -------------------------------------------------------------------------------------------------------------------- */

/* Only an op whose three suffixed texts are no opcodes themselves, and which takes the parameters in their order. */
static bool sugar_fits(const sn_computation *c) {
  static const char *const suffixes[] = {"-start", "-update", "-done"};
  const sn_instr *r = c->root;
  if (r == NULL || r->op == SN_OP_PARAMETER || r->op == SN_OP_CONSTANT || c->n_instrs != c->n_params + 1 || r->n_operands != c->n_params) return false;
  for (uint32_t k = 0; k < c->n_params; k++) {
    if (r->operands[k].def != c->params[k]) return false;
  }
  for (int k = 0; k < 3; k++) {
    char text[64];
    sn_opcode other;
    int n = snprintf(text, sizeof text, "%s%s", sn_opcode_text(r->op), suffixes[k]);
    if (sn_opcode_from_text(text, (size_t)n, &other)) return false;
  }
  /* What the one op carries beside its attributes would be lost. */
  return r->sharding == NULL && r->n_frontend == 0 && r->backend_config == NULL && r->extras == NULL && r->n_control == 0;
}

const sn_instr *sn_tx_sugar(const sn_instr *i) {
  while ((i->op == SN_OP_ASYNC_UPDATE || i->op == SN_OP_ASYNC_DONE) && i->n_operands != 0) i = sn_instr_operand(i, 0);
  if (i->op != SN_OP_ASYNC_START || i->n_called != 1 || !sugar_fits(i->called[0])) return NULL;
  /* The form states `((operands), result, …)` and rebuilds the computation from it. */
  const sn_shape *s = i->shape;
  if (s->n_elements < 2 || i->n_operands != i->called[0]->n_params) return NULL;
  return sn_shape_equal(s->elements[1], i->called[0]->root->shape, 0) ? i->called[0]->root : NULL;
}

static bool is_async(sn_opcode op) { return op == SN_OP_ASYNC_START || op == SN_OP_ASYNC_UPDATE || op == SN_OP_ASYNC_DONE; }

/* ---- the whole ------------------------------------------------------------------------------------------------------------------------ */

static void print_opcode(sn_tx_printer *w, const sn_instr *i, const sn_instr *wrapped) {
  if (wrapped == NULL) {
    sn_str_add(w->to, sn_opcode_text(i->op));
    return;
  }
  sn_str_add(w->to, sn_opcode_text(wrapped->op));
  sn_str_add(w->to, i->op == SN_OP_ASYNC_START ? "-start" : i->op == SN_OP_ASYNC_UPDATE ? "-update" : "-done");
}

static void print_attributes(sn_tx_printer *w, const sn_instr *i, const sn_instr *wrapped) {
  print_own_attributes(w, i);
  if (wrapped == NULL) {
    print_called(w, i);
  } else if (i->op == SN_OP_ASYNC_START) {
    print_own_attributes(w, wrapped);
    print_called(w, wrapped);
  }
}

void sn_tx_print_instr(sn_tx_printer *w, const sn_instr *i) {
  const sn_instr *wrapped = is_async(i->op) && w->o.async_sugar ? sn_tx_sugar(i) : NULL;
  if (i->parent->root == i) sn_str_add_n(w->to, "ROOT ", 5);
  print_name(w, i->name);
  sn_str_add_n(w->to, " = ", 3);
  sn_tx_print_shape(w->to, i->shape, w->o.result_layout, w->o.default_layouts, w->o.index_comments);
  sn_str_char(w->to, ' ');
  print_opcode(w, i, wrapped);
  sn_str_char(w->to, '(');
  print_operands(w, i);
  sn_str_char(w->to, ')');
  print_attributes(w, i, wrapped);
  print_extra(w, i, "parameter_replication");
  print_notes(w, i);
}

void sn_hlo_print_instr(sn_str *to, const sn_instr *i, const sn_print_options *o) {
  sn_tx_printer w = {.to = to};
  sn_print_options_init(&w.o);
  if (o != NULL) memcpy(&w.o, o, o->struct_size < sizeof w.o ? o->struct_size : sizeof w.o);
  sn_tx_print_instr(&w, i);
}
