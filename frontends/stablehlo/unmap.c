/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The walk from HLO to the tree: functions, regions, values and tuples. */
#include "unmap.h"

#include <inttypes.h>
#include <string.h>

#include "sinter/text.h"

sn_status sn_sw_fail(sn_sw *s, const sn_instr *i, const char *fmt, ...) {
  char text[256];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return sn_error(s->d, i->loc, SN_ERR_UNSUPPORTED, "%s: %s has no form in StableHLO", i->name, text);
}

sn_status sn_sw_memory(sn_sw *s) { return sn_out_of_memory(s->d, 0); }

/* ---- types ---- */

static const sn_mlir_type *tensor_type(sn_sw *s, const sn_shape *shape) {
  sn_mlir_type *t = SN_NEW(s->out->arena, sn_mlir_type);
  int64_t *dims = SN_NEW_N(s->out->arena, int64_t, shape->rank + 1), *bounds = NULL;
  if (t == NULL || dims == NULL) return NULL;
  if (!sn_shape_is_static(shape) && (bounds = SN_NEW_N(s->out->arena, int64_t, shape->rank + 1)) == NULL) return NULL;
  for (int k = 0; k < shape->rank; k++) {
    bool dynamic = bounds != NULL && shape->dynamic != NULL && shape->dynamic[k];
    dims[k] = dynamic ? SN_DIM_UNBOUNDED : shape->dims[k];
    if (bounds != NULL) bounds[k] = dynamic ? shape->dims[k] : SN_DIM_UNBOUNDED;
  }
  *t = (sn_mlir_type){.kind = SN_MT_TENSOR, .scalar = SN_TYPE_INVALID, .rank = shape->rank, .dims = dims, .bounds = bounds, .element = sn_mlir_type_scalar(s->out, shape->type)};
  return t->element != NULL ? t : NULL;
}

const sn_mlir_type *sn_sw_type(sn_sw *s, const sn_shape *shape) {
  if (shape->type == SN_TYPE_TOKEN) return sn_mlir_type_of(s->out, SN_MT_TOKEN);
  if (!sn_shape_is_tuple(shape)) return tensor_type(s, shape);
  sn_mlir_type *t = SN_NEW(s->out->arena, sn_mlir_type);
  const sn_mlir_type **v = SN_NEW_N(s->out->arena, const sn_mlir_type *, shape->n_elements + 1);
  if (t == NULL || v == NULL) return NULL;
  for (int k = 0; k < shape->n_elements; k++)
    if ((v[k] = sn_sw_type(s, shape->elements[k])) == NULL) return NULL;
  *t = (sn_mlir_type){.kind = SN_MT_TUPLE, .scalar = SN_TYPE_INVALID, .n_ins = (uint32_t)shape->n_elements, .ins = v};
  return t;
}

uint32_t sn_sw_count(const sn_shape *shape) { return sn_shape_is_tuple(shape) && shape->n_elements != 1 ? (uint32_t)shape->n_elements : 1; }

/* One an element of the tuple, or one. */
static const sn_mlir_type **types_of(sn_sw *s, const sn_shape *shape, bool elements) {
  uint32_t n = elements ? (uint32_t)shape->n_elements : 1;
  const sn_mlir_type **v = SN_NEW_N(s->out->arena, const sn_mlir_type *, n + 1);
  for (uint32_t k = 0; v != NULL && k < n; k++)
    if ((v[k] = sn_sw_type(s, elements ? shape->elements[k] : shape)) == NULL) return NULL;
  return v;
}

static const sn_mlir_type **result_types(sn_sw *s, const sn_shape *shape) { return types_of(s, shape, sn_shape_is_tuple(shape) && shape->n_elements != 1); }

/* ---- ops ---- */

sn_mlir_op *sn_sw_op(sn_sw *s, const char *name, uint32_t n_operands, sn_mlir_value *const *operands, uint32_t n_results, const sn_mlir_type *const *types, uint32_t n_regions) {
  sn_mlir_op *op = sn_mlir_op_new(s->out, s->to, name, n_results, types, n_regions);
  sn_mlir_named *room = SN_NEW_N(s->out->arena, sn_mlir_named, SN_SW_ATTRS);
  sn_mlir_value **v = SN_NEW_N(s->out->arena, sn_mlir_value *, n_operands + 1);
  if (op == NULL || room == NULL || v == NULL) return NULL;
  for (uint32_t k = 0; k < n_operands; k++) v[k] = operands[k];
  op->operands = v;
  op->n_operands = n_operands;
  op->attrs = room;
  return op;
}

void sn_sw_attr(sn_mlir_op *op, const char *name, const sn_mlir_attr *a) {
  sn_assert(op->n_attrs < SN_SW_ATTRS);
  ((sn_mlir_named *)(uintptr_t)op->attrs)[op->n_attrs++] = (sn_mlir_named){name, a};
}

/* ---- values ---- */

sn_mlir_value **sn_sw_elements(sn_sw *s, const sn_instr *i) {
  sn_sw_node *node = &s->nodes[i->id];
  int n = i->shape->n_elements;
  if (node->parts != NULL || node->whole == NULL) return node->parts;
  sn_mlir_value **v = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 1);
  for (int k = 0; v != NULL && k < n; k++) {
    const sn_mlir_type *t = sn_sw_type(s, i->shape->elements[k]);
    sn_mlir_op *op = t != NULL ? sn_sw_op(s, "stablehlo.get_tuple_element", 1, &node->whole, 1, &t, 0) : NULL;
    sn_mlir_attr *index = op != NULL ? sn_mlir_attr_int(s->out, k) : NULL;
    if (index == NULL) return NULL;
    index->type = sn_mlir_type_scalar(s->out, SN_TYPE_S32);
    sn_sw_attr(op, "index", index);
    v[k] = op->results;
  }
  return v; /* not kept: what a region makes is not seen outside */
}

sn_mlir_value *sn_sw_value(sn_sw *s, const sn_instr *i) {
  sn_sw_node *node = &s->nodes[i->id];
  if (node->whole != NULL) return node->whole;
  const sn_mlir_type *t = sn_sw_type(s, i->shape);
  sn_mlir_op *op = t != NULL && node->parts != NULL ? sn_sw_op(s, "stablehlo.tuple", (uint32_t)i->shape->n_elements, node->parts, 1, &t, 0) : NULL;
  if (op != NULL && node->block == s->to) node->whole = op->results;
  return op != NULL ? op->results : NULL;
}

sn_mlir_value **sn_sw_values(sn_sw *s, const sn_instr *i, uint32_t *n) {
  *n = sn_sw_count(i->shape);
  if (sn_shape_is_tuple(i->shape) && *n != 1) return sn_sw_elements(s, i);
  sn_mlir_value **v = SN_NEW_N(s->out->arena, sn_mlir_value *, 1);
  if (v != NULL && (v[0] = sn_sw_value(s, i)) == NULL) return NULL;
  return i->shape->type == SN_TYPE_TUPLE && *n == 0 ? SN_NEW_N(s->out->arena, sn_mlir_value *, 1) : v;
}

sn_status sn_sw_bind(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  sn_sw_node *node = &s->nodes[i->id];
  *node = (sn_sw_node){.whole = NULL};
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements == 1) {
    node->whole = op->results;
    return SN_OK;
  }
  node->parts = SN_NEW_N(s->out->arena, sn_mlir_value *, op->n_results + 1);
  if (node->parts == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < op->n_results; k++) node->parts[k] = &op->results[k];
  return SN_OK;
}

static const sn_mlir_attr *frontend_dict(sn_sw *s, const sn_instr *i) {
  sn_mlir_attr *a = sn_mlir_attr_new(s->out, SN_MA_DICT);
  sn_mlir_named *v = SN_NEW_N(s->out->arena, sn_mlir_named, i->n_frontend + 1);
  if (a == NULL || v == NULL) return NULL;
  for (uint16_t k = 0; k < i->n_frontend; k++) {
    if (strncmp(i->frontend[k].key, "composite.", 10) == 0) continue;
    const char *key = sn_arena_string(s->out->arena, i->frontend[k].key);
    const sn_mlir_attr *value = sn_mlir_attr_string(s->out, SN_MA_STRING, i->frontend[k].value, strlen(i->frontend[k].value));
    if (key == NULL || value == NULL) return NULL;
    v[a->n++] = (sn_mlir_named){key, value};
  }
  a->members = v;
  return a;
}

/* Appends to a list with room for two. */
static sn_status notes(sn_sw *s, const sn_instr *i, sn_mlir_named *to, uint32_t *n) {
  if (i->sharding != NULL) {
    sn_str text = {0};
    sn_hlo_print_sharding(&text, i->sharding);
    const sn_mlir_attr *a = text.failed ? NULL : sn_mlir_attr_string(s->out, SN_MA_STRING, text.data, text.n);
    sn_str_finish(&text);
    if (a == NULL) return sn_sw_memory(s);
    to[(*n)++] = (sn_mlir_named){"mhlo.sharding", a};
  }
  const sn_mlir_attr *dict = i->n_frontend != 0 ? frontend_dict(s, i) : NULL;
  if (i->n_frontend != 0 && dict == NULL) return sn_sw_memory(s);
  if (dict != NULL && dict->n != 0) to[(*n)++] = (sn_mlir_named){"mhlo.frontend_attributes", dict};
  return SN_OK;
}

sn_status sn_sw_notes(sn_sw *s, const sn_instr *i, sn_mlir_op *op) {
  sn_mlir_named v[2];
  uint32_t n = 0;
  SN_TRY(notes(s, i, v, &n));
  for (uint32_t k = 0; k < n; k++) sn_sw_attr(op, v[k].name, v[k].attr);
  return SN_OK;
}

sn_mlir_op *sn_sw_instr(sn_sw *s, const char *name, const sn_instr *i, uint32_t n_regions) {
  sn_mlir_value **in = SN_NEW_N(s->scratch, sn_mlir_value *, i->n_operands + 1);
  const sn_mlir_type **types = result_types(s, i->shape);
  if (in == NULL || types == NULL) return NULL;
  for (uint32_t k = 0; k < i->n_operands; k++)
    if ((in[k] = sn_sw_value(s, sn_instr_operand(i, k))) == NULL) return NULL;
  sn_mlir_op *op = sn_sw_op(s, name, i->n_operands, in, sn_sw_count(i->shape), types, n_regions);
  return op != NULL && sn_sw_bind(s, i, op) == SN_OK && sn_sw_notes(s, i, op) == SN_OK ? op : NULL;
}

/* ---- one instruction ---- */

static const sn_sm_row *row_of(sn_opcode op) {
  const sn_sm_row *rows = NULL;
  size_t n = sn_sm_rows(&rows);
  for (size_t k = 0; k < n; k++)
    if (rows[k].op == op && rows[k].write != NULL) return &rows[k];
  return NULL;
}

static sn_status one(sn_sw *s, const sn_instr *i) {
  if (i->n_control != 0) return sn_sw_fail(s, i, "a control edge");
  if (i->op == SN_OP_PARAMETER || i->op == SN_OP_SEND_DONE || i->op == SN_OP_RECV_DONE) return SN_OK; /* their starts bind these */
  const sn_sm_row *row = row_of(i->op);
  return row != NULL ? row->write(s, row, i) : sn_sw_mhlo(s, i);
}

static sn_status body(sn_sw *s, const sn_instr *at, const sn_computation *c) {
  if (s->depth >= SN_MLIR_MAX_NEST - 2) return sn_sw_fail(s, at, "a nest of more than %d computations", SN_MLIR_MAX_NEST - 2);
  s->depth++;
  SN_FOR_INSTRS(i, c) SN_TRY(one(s, i));
  s->depth--;
  return SN_OK;
}

static sn_status finish(sn_sw *s, const char *name, const sn_instr *root, bool loop) {
  uint32_t n = 0;
  sn_mlir_value **v;
  if (loop && sn_shape_is_tuple(root->shape)) {
    n = (uint32_t)root->shape->n_elements;
    v = sn_sw_elements(s, root);
  } else {
    v = sn_sw_values(s, root, &n);
  }
  return v != NULL && sn_sw_op(s, name, n, v, 0, NULL, 0) != NULL ? SN_OK : sn_sw_memory(s);
}

/* ---- regions ---- */

typedef struct frame {
  sn_mlir_block *to;
} frame;

static sn_mlir_block *enter(sn_sw *s, sn_mlir_op *op, uint32_t k, uint32_t n, const sn_mlir_type *const *types, frame *f) {
  f->to = s->to;
  s->to = sn_mlir_block_new(s->out, &op->regions[k], n, types);
  return s->to;
}

sn_status sn_sw_region(sn_sw *s, const sn_instr *i, sn_mlir_op *op, uint32_t k, const sn_computation *c) {
  frame f;
  const sn_mlir_type **types = SN_NEW_N(s->out->arena, const sn_mlir_type *, c->n_params + 1);
  for (uint32_t p = 0; types != NULL && p < c->n_params; p++)
    if ((types[p] = sn_sw_type(s, c->params[p]->shape)) == NULL) return sn_sw_memory(s);
  if (types == NULL || enter(s, op, k, c->n_params, types, &f) == NULL) return sn_sw_memory(s);
  for (uint32_t p = 0; p < c->n_params; p++) s->nodes[c->params[p]->id] = (sn_sw_node){.whole = &s->to->args[p]};
  SN_TRY(body(s, i, c));
  SN_TRY(finish(s, "stablehlo.return", c->root, false));
  s->to = f.to;
  return SN_OK;
}

sn_status sn_sw_loop_region(sn_sw *s, const sn_instr *i, sn_mlir_op *op, uint32_t k, const sn_computation *c) {
  frame f;
  const sn_instr *p = c->params[0];
  bool tuple = sn_shape_is_tuple(p->shape);
  uint32_t n = tuple ? (uint32_t)p->shape->n_elements : 1;
  const sn_mlir_type **types = types_of(s, p->shape, tuple);
  if (types == NULL || enter(s, op, k, n, types, &f) == NULL) return sn_sw_memory(s);
  sn_mlir_value **args = SN_NEW_N(s->out->arena, sn_mlir_value *, n + 1);
  if (args == NULL) return sn_sw_memory(s);
  for (uint32_t a = 0; a < n; a++) args[a] = &s->to->args[a];
  s->nodes[p->id] = tuple ? (sn_sw_node){.parts = args} : (sn_sw_node){.whole = args[0]};
  SN_TRY(body(s, i, c));
  SN_TRY(finish(s, "stablehlo.return", c->root, true));
  s->to = f.to;
  return SN_OK;
}

sn_status sn_sw_branch_region(sn_sw *s, const sn_instr *i, sn_mlir_op *op, uint32_t k, const sn_computation *c, const sn_instr *passed) {
  frame f;
  if (enter(s, op, k, 0, NULL, &f) == NULL) return sn_sw_memory(s);
  s->nodes[c->params[0]->id] = s->nodes[passed->id];
  SN_TRY(body(s, i, c));
  SN_TRY(finish(s, "stablehlo.return", c->root, false));
  s->to = f.to;
  return SN_OK;
}

/* ---- functions ---- */

static bool name_taken(const sn_sw *s, const char *name) {
  if (strcmp(name, "main") == 0) return true;
  for (uint32_t k = 0; k < s->n_queue; k++)
    if (strcmp(s->names[s->queue[k]->id], name) == 0) return true;
  return false;
}

const char *sn_sw_function(sn_sw *s, const sn_computation *c) {
  if (s->names[c->id] != NULL) return s->names[c->id];
  if (s->n_queue == s->cap_queue) {
    uint32_t cap = s->cap_queue ? 2 * s->cap_queue : 16;
    const sn_computation **v = SN_NEW_N(s->scratch, const sn_computation *, cap);
    if (v == NULL) return NULL;
    for (uint32_t k = 0; k < s->n_queue; k++) v[k] = s->queue[k];
    s->queue = v;
    s->cap_queue = cap;
  }
  const char *name = sn_arena_string(s->out->arena, c->name);
  for (int k = 0; name != NULL && name_taken(s, name); k++) name = sn_arena_printf(s->out->arena, "%s_%d", c->name, k);
  s->names[c->id] = name;
  if (name != NULL) s->queue[s->n_queue++] = c;
  return name;
}

static sn_status function_attrs(sn_sw *s, sn_mlir_op *f, const char *name, const sn_computation *c, const sn_mlir_type **ins) {
  sn_mlir_type *t = SN_NEW(s->out->arena, sn_mlir_type);
  const sn_mlir_type **outs = result_types(s, c->root->shape);
  if (t == NULL || outs == NULL) return sn_sw_memory(s);
  *t = (sn_mlir_type){.kind = SN_MT_FUNCTION, .scalar = SN_TYPE_INVALID, .n_ins = c->n_params, .ins = ins, .n_outs = sn_sw_count(c->root->shape), .outs = outs};
  bool entry = c == s->m->entry;
  sn_sw_attr(f, "sym_name", sn_mlir_attr_string(s->out, SN_MA_STRING, name, strlen(name)));
  sn_sw_attr(f, "function_type", sn_mlir_attr_type(s->out, t));
  sn_sw_attr(f, "sym_visibility", sn_mlir_attr_string(s->out, SN_MA_STRING, entry ? "public" : "private", entry ? 6 : 7));
  return SN_OK;
}

/* tf.aliasing_output, jax.buffer_donor, and the parameter's own notes. */
static sn_status argument_notes(sn_sw *s, const sn_instr *p, uint32_t k, sn_mlir_attr *to) {
  sn_mlir_named *v = SN_NEW_N(s->out->arena, sn_mlir_named, 4);
  uint32_t n = 0;
  if (v == NULL) return sn_sw_memory(s);
  SN_TRY(notes(s, p, v, &n));
  for (int64_t a = 0; a < s->m->n_aliases; a++) {
    const sn_alias *alias = &s->m->aliases[a];
    if (alias->operand != (int64_t)k) continue;
    if (alias->operand_index.n != 0 || alias->output_index.n > 1) return sn_sw_fail(s, p, "an alias of an element of a tuple");
    sn_mlir_attr *at = sn_mlir_attr_int(s->out, alias->output_index.n == 1 ? alias->output_index.v[0] : 0);
    if (at == NULL) return sn_sw_memory(s);
    at->type = sn_mlir_type_scalar(s->out, SN_TYPE_S32);
    v[n++] = (sn_mlir_named){"tf.aliasing_output", at};
    break;
  }
  for (int64_t a = 0; a < s->m->n_donors; a++) {
    if (s->m->donors[a].operand != (int64_t)k) continue;
    sn_mlir_attr *yes = sn_mlir_attr_new(s->out, SN_MA_BOOL);
    if (yes == NULL) return sn_sw_memory(s);
    yes->i = 1;
    v[n++] = (sn_mlir_named){"jax.buffer_donor", yes};
    break;
  }
  to->members = v;
  to->n = n;
  return SN_OK;
}

static sn_status arg_attrs(sn_sw *s, sn_mlir_op *f, const sn_computation *c) {
  sn_mlir_attr *list = sn_mlir_attr_new(s->out, SN_MA_ARRAY);
  const sn_mlir_attr **v = SN_NEW_N(s->out->arena, const sn_mlir_attr *, c->n_params + 1);
  bool any = false;
  if (list == NULL || v == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < c->n_params; k++) {
    sn_mlir_attr *one_arg = sn_mlir_attr_new(s->out, SN_MA_DICT);
    if (one_arg == NULL) return sn_sw_memory(s);
    SN_TRY(argument_notes(s, c->params[k], k, one_arg));
    any |= one_arg->n != 0;
    v[k] = one_arg;
  }
  list->items = v;
  list->n = c->n_params;
  if (any) sn_sw_attr(f, "arg_attrs", list);
  return SN_OK;
}

static sn_status function(sn_sw *s, const sn_computation *c, const char *name) {
  s->to = &s->out->top;
  sn_mlir_op *f = sn_sw_op(s, "func.func", 0, NULL, 0, NULL, 1);
  const sn_mlir_type **ins = SN_NEW_N(s->out->arena, const sn_mlir_type *, c->n_params + 1);
  frame outer;
  if (f == NULL || ins == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < c->n_params; k++)
    if ((ins[k] = sn_sw_type(s, c->params[k]->shape)) == NULL) return sn_sw_memory(s);
  SN_TRY(function_attrs(s, f, name, c, ins));
  if (c == s->m->entry) SN_TRY(arg_attrs(s, f, c));
  if (enter(s, f, 0, c->n_params, ins, &outer) == NULL) return sn_sw_memory(s);
  for (uint32_t k = 0; k < c->n_params; k++) s->nodes[c->params[k]->id] = (sn_sw_node){.whole = &s->to->args[k]};
  SN_TRY(body(s, c->root, c));
  return finish(s, "func.return", c->root, false);
}

/* ---- the module ---- */

static sn_status module_attrs(sn_sw *s) {
  sn_mlir_named *v = SN_NEW_N(s->out->arena, sn_mlir_named, 4);
  const int64_t numbers[2] = {s->m->num_partitions, s->m->replica_count};
  static const char *const names[2] = {"mhlo.num_partitions", "mhlo.num_replicas"};
  if (v == NULL || (s->out->name = sn_arena_string(s->out->arena, s->m->name)) == NULL) return sn_sw_memory(s);
  for (int k = 0; k < 2; k++) {
    sn_mlir_attr *a = sn_mlir_attr_int(s->out, numbers[k] > 0 ? numbers[k] : 1);
    if (a == NULL) return sn_sw_memory(s);
    a->type = sn_mlir_type_scalar(s->out, SN_TYPE_S32);
    v[s->out->n_attrs++] = (sn_mlir_named){names[k], a};
  }
  if (s->m->n_frontend != 0) {
    sn_instr whole = {.frontend = s->m->frontend, .n_frontend = (uint16_t)s->m->n_frontend};
    const sn_mlir_attr *dict = frontend_dict(s, &whole);
    if (dict == NULL) return sn_sw_memory(s);
    v[s->out->n_attrs++] = (sn_mlir_named){"mhlo.frontend_attributes", dict};
  }
  s->out->attrs = v;
  return SN_OK;
}

/* An attribute that could not be made leaves a NULL. */
static bool complete(const sn_mlir_block *b) {
  for (const sn_mlir_op *op = b->first; op != NULL; op = op->next) {
    for (uint32_t k = 0; k < op->n_attrs; k++)
      if (op->attrs[k].attr == NULL) return false;
    for (uint32_t r = 0; r < op->n_regions; r++)
      for (const sn_mlir_block *inner = op->regions[r].first; inner != NULL; inner = inner->next)
        if (!complete(inner)) return false;
  }
  return true;
}

static sn_status write_all(sn_sw *s) {
  if (sn_mlir_create(&s->out) != SN_OK || sn_arena_create(&s->scratch) != SN_OK) return sn_sw_memory(s);
  s->nodes = sn_alloc_zero(s->m->n_ids + 1u, sizeof *s->nodes);
  s->names = sn_alloc_zero(s->m->n_comp_ids + 1u, sizeof *s->names);
  if (s->nodes == NULL || s->names == NULL) return sn_sw_memory(s);
  SN_TRY(module_attrs(s));
  SN_TRY(function(s, s->m->entry, "main"));
  for (uint32_t k = 0; k < s->n_queue; k++) SN_TRY(function(s, s->queue[k], s->names[s->queue[k]->id]));
  return complete(&s->out->top) ? SN_OK : sn_sw_memory(s);
}

sn_status sn_sw_module(sn_diag *d, const sn_module *m, sn_mlir **out) {
  sn_sw s = {.d = d, .m = m};
  *out = NULL;
  if (m->entry == NULL) return sn_error(d, SN_NOWHERE, SN_ERR_VERIFY, "module %s has no entry computation", m->name);
  sn_status st = write_all(&s);
  sn_arena_destroy(s.scratch);
  sn_free(s.nodes);
  sn_free((void *)s.names);
  if (st == SN_OK) *out = s.out;
  else sn_mlir_destroy(s.out);
  return st;
}
