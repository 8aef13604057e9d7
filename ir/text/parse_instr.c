/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* instruction := ["ROOT"] name "=" [shape] opcode "(" operands ")" {"," attribute "=" value}
 * operand     := [shape] name | [shape] opcode "(" operands ")"       the second is an instruction written in place, without attributes */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

/* An instruction between its name and its making. */
typedef struct instr_parse {
  sn_span name;          /* n 0: written in place, the module names it */
  const char *name_at;   /* for faults of the whole */
  const sn_shape *shape; /* NULL: to be inferred */
  const char *op_at;
  sn_opcode op;          /* for `slice-start`: async-start */
  sn_opcode row;         /* whose attributes stand here: slice */
  bool sugar;            /* `<op>-start`, -update or -done of an op that has no such opcode */
  uint32_t from, n;      /* operands on the stack */
} instr_parse;

static sn_status instr_rest(sn_tx *p, instr_parse *x, bool with_attributes, sn_instr **out);

/* ---- opcodes ------------------------------------------------------------------------------------------------------------ */

typedef struct async_suffix {
  const char *text;
  sn_opcode op;
} async_suffix;
static const async_suffix async_suffixes[] = {{"-start", SN_OP_ASYNC_START}, {"-update", SN_OP_ASYNC_UPDATE}, {"-done", SN_OP_ASYNC_DONE}};

/* `slice-start` -> slice, async-start */
static bool instr_async_base(sn_span s, sn_opcode *wrapped, sn_opcode *op) {
  for (size_t i = 0; i < sizeof async_suffixes / sizeof async_suffixes[0]; i++) {
    size_t n = strlen(async_suffixes[i].text);
    if (s.n <= n || memcmp(s.s + s.n - n, async_suffixes[i].text, n) != 0) continue;
    *op = async_suffixes[i].op;
    return sn_opcode_from_text(s.s, s.n - n, wrapped) && *wrapped != SN_OP_PARAMETER && *wrapped != SN_OP_CONSTANT;
  }
  return false;
}

static sn_status instr_opcode(sn_tx *p, instr_parse *x, sn_span s) {
  if (sn_opcode_from_text(s.s, s.n, &x->op)) {
    x->row = x->op;
    return SN_OK;
  }
  x->sugar = instr_async_base(s, &x->row, &x->op);
  if (x->sugar) return SN_OK;
  const char *words[SN_OP_COUNT];
  for (int i = 0; i < SN_OP_COUNT; i++) words[i] = sn_ops[i].text;
  sn_status st = sn_tx_fail(p, x->op_at, SN_ERR_NAME, "expected an opcode, found `%s`", sn_tx_cstring(p, s));
  sn_tx_hint_nearest(p, s, words, SN_OP_COUNT);
  return st;
}

/* ---- operands ------------------------------------------------------------------------------------------------------------ */

/* A bare list of instructions has no parameters of its own: an unknown operand that states its shape becomes one. */
static sn_status operand_parameter(sn_tx *p, const char *at, sn_span name, const sn_shape *shape, sn_instr **out) {
  sn_attr number = sn_attr_int(SN_ATTR_PARAMETER_NUMBER, p->c->n_params);
  sn_instr_spec spec = {.op = SN_OP_PARAMETER, .shape = shape, .n_attrs = 1, .attrs = &number, .loc = sn_tx_loc(p, at), .unchecked = true, .in_arena = true};
  spec.name = sn_arena_string_n(p->keep, name.s, name.n);
  if (spec.name == NULL || sn_instr_create(p->d, p->c, &spec, out) != SN_OK) return sn_tx_memory(p);
  return sn_tx_define(p, p->scope, name, *out);
}

static sn_status operand_unknown(sn_tx *p, const char *at, sn_span name) {
  sn_status s = sn_tx_fail(p, at, SN_ERR_NAME, "expected an instruction defined above, found `%s`", sn_tx_cstring(p, name));
  sn_tx_hint_name(p, p->scope, name);
  return s;
}

static sn_status operand_shape(sn_tx *p, const char *at, const sn_shape *stated, const sn_instr *def) {
  if (stated == NULL || sn_shape_equal(stated, def->shape, 0)) return SN_OK;
  return sn_tx_fail(p, at, SN_ERR_SHAPE, "expected the shape of %s, %s, found %s", def->name, sn_shape_text(p->scratch, def->shape),
                    sn_shape_text(p->scratch, stated));
}

static sn_status operand_nested(sn_tx *p, const char *at, sn_span op, const sn_shape *shape, sn_instr **out) {
  if (p->depth == SN_TX_MAX_NEST) return sn_tx_too_deep(p, at);
  p->depth++;
  instr_parse x = {.name_at = at, .op_at = at, .shape = shape};
  sn_status s = instr_opcode(p, &x, op);
  if (s == SN_OK) s = instr_rest(p, &x, false, out);
  p->depth--;
  return s;
}

static sn_status operand_one(sn_tx *p, sn_instr **out) {
  sn_tx_skip(p);
  const char *at = p->at;
  const sn_shape *shape = NULL;
  sn_span name;
  *out = NULL;
  if (*at != '%' && sn_tx_at_shape(p)) SN_TRY(sn_tx_shape(p, &shape));
  sn_tx_skip(p);
  const char *name_at = p->at;
  SN_TRY(sn_tx_name_token(p, "an operand or `)`", &name));
  if (*p->at == '(' && *name_at != '%') return operand_nested(p, name_at, name, shape, out);
  const sn_tx_name *e = sn_tx_find(p, p->scope, name);
  if (e == NULL) return p->bare && shape != NULL ? operand_parameter(p, name_at, name, shape, out) : operand_unknown(p, name_at, name);
  if (e->value == NULL) return SN_ERR_NAME; /* its fault was reported where it is defined */
  *out = e->value;
  return operand_shape(p, at, shape, *out);
}

static sn_status instr_arity(sn_tx *p, const instr_parse *x) {
  int lo = sn_ops[x->row].arity_min, hi = sn_ops[x->row].arity_max;
  if (x->sugar && x->op != SN_OP_ASYNC_START) lo = hi = 1;
  int64_t n = x->n;
  if (n >= lo && (hi == SN_VARIADIC || n <= hi)) return SN_OK;
  const char *least = hi == SN_VARIADIC ? "at least " : "", *text = sn_opcode_text(x->row);
  int want = n < lo || hi == SN_VARIADIC ? lo : hi;
  return sn_tx_fail(p, x->op_at, SN_ERR_SYNTAX, "expected %s%d operand%s of %s, found %" PRId64, least, want, want == 1 ? "" : "s", text, n);
}

static sn_status instr_operands(sn_tx *p, instr_parse *x) {
  x->from = p->stack.n;
  if (!sn_tx_accept(p, ')')) {
    do {
      sn_instr *def = NULL;
      SN_TRY(operand_one(p, &def));
      SN_TRY(sn_tx_push(p, def));
    } while (sn_tx_accept(p, ','));
    if (!sn_tx_accept(p, ')')) return sn_tx_expected(p, "`,` or `)` after an operand");
  }
  x->n = p->stack.n - x->from;
  return instr_arity(p, x);
}

/* parameter(3) */
static sn_status instr_number(sn_tx *p, instr_parse *x, sn_tx_attrs *a) {
  sn_tx_skip(p);
  const char *at = p->at;
  int64_t k = 0;
  x->from = p->stack.n;
  SN_TRY(sn_tx_int_in(p, "a parameter number", 0, INT32_MAX, &k));
  /* Every number skipped takes a line of its own somewhere, so the text bounds all of them together. */
  if (k > p->c->n_params) p->n_gaps += k - p->c->n_params;
  if (p->n_gaps > (int64_t)(p->end - p->text) / 16) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a parameter number that follows the others, found %" PRId64, k);
  if (k < p->c->n_params && p->c->params[k] != NULL) {
    return sn_tx_fail(p, at, SN_ERR_NAME, "expected each parameter once, found number %" PRId64 " again, taken by %s", k, p->c->params[k]->name);
  }
  a->v[a->n++] = sn_attr_int(SN_ATTR_PARAMETER_NUMBER, k);
  return sn_tx_need(p, ')', "after a parameter number");
}

static sn_status instr_constant(sn_tx *p, instr_parse *x, sn_tx_attrs *a) {
  x->from = p->stack.n;
  if (x->shape == NULL) return sn_tx_fail(p, x->op_at, SN_ERR_SYNTAX, "expected a shape before constant, as in f32[2] constant({1, 2}), found none");
  a->v[a->n++] = sn_attr_literal(NULL);
  SN_TRY(sn_tx_literal(p, x->shape, &a->v[a->n - 1].u.literal));
  return sn_tx_need(p, ')', "after a literal");
}

/* ---- making ------------------------------------------------------------------------------------------------------------------ */

static sn_status instr_infer(sn_tx *p, instr_parse *x, const sn_tx_attrs *a) {
  const sn_shape **shapes = sn_arena_alloc(p->scratch, x->n * sizeof *shapes);
  if (shapes == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < x->n; i++) shapes[i] = ((const sn_instr *)p->stack.v[x->from + i])->shape;
  sn_infer in = {.op = x->op, .loc = sn_tx_loc(p, x->name_at), .name = sn_tx_cstring(p, x->name), .n_operands = x->n, .operands = shapes,
                 .n_attrs = a->n, .attrs = a->v, .n_called = a->n_called, .called = (sn_computation *const *)(p->stack.v + a->called_from),
                 .arena = p->keep, .replica_count = p->m->replica_count, .num_partitions = p->m->num_partitions};
  sn_status s = sn_infer_shape(p->d, &in, &x->shape);
  if (s != SN_OK && p->n_faults++ == 0) p->status = s;
  return s;
}

static sn_status instr_make(sn_tx *p, instr_parse *x, const sn_tx_attrs *a, sn_instr **out) {
  if (x->shape == NULL) SN_TRY(instr_infer(p, x, a));
  sn_instr_spec spec = {.op = x->op, .shape = x->shape, .n_operands = x->n, .operands = (sn_instr *const *)(p->stack.v + x->from),
                        .n_attrs = a->n, .attrs = a->v, .n_called = a->n_called, .called = (sn_computation *const *)(p->stack.v + a->called_from),
                        .metadata = a->notes.metadata, .loc = sn_tx_loc(p, x->name_at), .unchecked = true, .in_arena = true};
  if (x->name.n != 0) {
    spec.name = sn_arena_string_n(p->keep, x->name.s, x->name.n);
    if (spec.name == NULL) return sn_tx_memory(p);
  }
  if (x->n > INT32_MAX || a->n_called > UINT16_MAX) return sn_tx_fail(p, x->op_at, SN_ERR_UNSUPPORTED, "too many operands or called computations");
  sn_status s = sn_instr_create(p->d, p->c, &spec, out);
  if (s != SN_OK && p->n_faults++ == 0) p->status = s;
  return s;
}

static sn_status instr_take_notes(sn_tx *p, sn_instr *i, const sn_tx_notes *n) {
  i->sharding = n->sharding;
  i->n_frontend = (uint16_t)n->n_frontend;
  i->frontend = n->frontend;
  i->backend_config = n->backend_config;
  i->backend_config_quoted = n->backend_config_quoted;
  if (n->n_extras != 0) {
    sn_pair *extras = SN_NEW_N(p->keep, sn_pair, n->n_extras + 1);
    if (extras == NULL) return sn_tx_memory(p);
    memcpy(extras, n->extras, (size_t)n->n_extras * sizeof *extras);
    i->extras = extras;
  }
  for (uint32_t k = n->control_from; n->has_control && k < n->control_to; k++) {
    if (sn_instr_add_control(i, p->stack.v[k]) != SN_OK) return sn_tx_memory(p);
  }
  return SN_OK;
}

/* ---- async sugar ---------------------------------------------------------------------------------------------------------------- */

/* `((operands), result, …) slice-start(…)`: the called computation holds the one op. */
static sn_status async_body(sn_tx *p, const instr_parse *x, const sn_tx_attrs *a, sn_computation *c) {
  uint32_t params = p->stack.n;
  for (uint32_t k = 0; k < x->n; k++) {
    sn_attr number = sn_attr_int(SN_ATTR_PARAMETER_NUMBER, k);
    sn_instr_spec spec = {.op = SN_OP_PARAMETER, .shape = ((const sn_instr *)p->stack.v[x->from + k])->shape, .n_attrs = 1, .attrs = &number,
                          .loc = sn_tx_loc(p, x->name_at), .unchecked = true, .in_arena = true};
    sn_instr *i = NULL;
    if (sn_instr_create(p->d, c, &spec, &i) != SN_OK) return sn_tx_memory(p);
    SN_TRY(sn_tx_push(p, i));
  }
  sn_instr_spec spec = {.op = x->row, .shape = x->shape->elements[1], .n_operands = x->n, .operands = (sn_instr *const *)(p->stack.v + params),
                        .n_attrs = a->n, .attrs = a->v, .n_called = a->n_called, .called = (sn_computation *const *)(p->stack.v + a->called_from),
                        .loc = sn_tx_loc(p, x->name_at), .unchecked = true, .in_arena = true};
  sn_instr *root = NULL;
  if (sn_instr_create(p->d, c, &spec, &root) != SN_OK) return sn_tx_memory(p);
  sn_computation_set_root(c, root);
  p->stack.n = params;
  return SN_OK;
}

static sn_status async_start(sn_tx *p, instr_parse *x, sn_tx_attrs *a, sn_instr **out) {
  if (x->shape == NULL || x->shape->n_elements < 2) {
    return sn_tx_fail(p, x->op_at, SN_ERR_SHAPE, "expected the shape ((operands), result) before %s-start", sn_opcode_text(x->row));
  }
  sn_computation *c = NULL;
  if (sn_computation_create(p->m, "async_computation", &c) != SN_OK) return sn_tx_memory(p);
  sn_computation_move_before(c, p->c);
  c->loc = sn_tx_loc(p, x->name_at);
  SN_TRY(async_body(p, x, a, c));
  a->called_from = p->stack.n;
  a->n_called = 1;
  SN_TRY(sn_tx_push(p, c));
  for (uint32_t i = 0; i < a->n; i++) {
    if (sn_attrs[a->v[i].id].kind == SN_KIND_LITERAL) sn_array_release(a->v[i].u.literal);
  }
  a->n = 0;
  if (a->thread != NULL) {
    a->v[a->n++] = sn_attr_string(SN_ATTR_ASYNC_EXECUTION_THREAD, a->thread);
    c->execution_thread = a->thread;
  }
  return instr_make(p, x, a, out);
}

/* Update and done belong to the start of the same op. */
static sn_status async_chain(sn_tx *p, const instr_parse *x) {
  const sn_instr *i = p->stack.v[x->from];
  while (i->op == SN_OP_ASYNC_UPDATE && i->n_operands != 0) i = sn_instr_operand(i, 0);
  bool right = i->op == SN_OP_ASYNC_START && i->n_called == 1 && i->called[0]->root != NULL && i->called[0]->root->op == x->row;
  if (right) return SN_OK;
  return sn_tx_fail(p, x->op_at, SN_ERR_NAME, "expected the operand to come from %s-start, found %s, which is %s", sn_opcode_text(x->row), i->name,
                    sn_opcode_text(i->op));
}

/* `type=FLOAT` between floats says nothing: XLA leaves it out, so that equal programs have equal text. */
static void instr_drop_compare_type(const sn_tx *p, const instr_parse *x, sn_tx_attrs *a) {
  const sn_shape *s = ((const sn_instr *)p->stack.v[x->from])->shape;
  if (!sn_shape_is_array(s)) return;
  bool is_float = sn_type_is_float(s->type) || sn_type_is_complex(s->type);
  int64_t own = is_float ? SN_COMPARE_TYPE_FLOAT : sn_type_is_signed(s->type) ? SN_COMPARE_TYPE_SIGNED : SN_COMPARE_TYPE_UNSIGNED;
  for (uint32_t k = 0; k < a->n; k++) {
    if (a->v[k].id == SN_ATTR_COMPARE_TYPE && a->v[k].u.i == own) a->v[k] = a->v[--a->n];
  }
}

/* ---- the whole ------------------------------------------------------------------------------------------------------------------ */

static sn_status instr_parts(sn_tx *p, instr_parse *x, sn_tx_attrs *a, bool with_attributes, sn_instr **out) {
  SN_TRY(sn_tx_need(p, '(', "after an opcode"));
  if (x->op == SN_OP_PARAMETER) {
    SN_TRY(instr_number(p, x, a));
  } else if (x->op == SN_OP_CONSTANT) {
    SN_TRY(instr_constant(p, x, a));
  } else {
    SN_TRY(instr_operands(p, x));
  }
  a->called_from = p->stack.n;
  a->async = x->sugar && x->op == SN_OP_ASYNC_START;
  SN_TRY(sn_tx_attributes(p, x->sugar && !a->async ? x->op : x->row, a, with_attributes, x->op_at));
  if (x->op == SN_OP_COMPARE) instr_drop_compare_type(p, x, a);
  if (x->sugar && !a->async) SN_TRY(async_chain(p, x));
  SN_TRY(a->async ? async_start(p, x, a, out) : instr_make(p, x, a, out));
  return instr_take_notes(p, *out, &a->notes);
}

/* Behind the opcode. */
static sn_status instr_rest(sn_tx *p, instr_parse *x, bool with_attributes, sn_instr **out) {
  uint32_t top = p->stack.n;
  sn_tx_attrs a;
  memset(&a, 0, offsetof(sn_tx_attrs, v));
  sn_status s = instr_parts(p, x, &a, with_attributes, out);
  for (uint32_t i = 0; i < a.n; i++) {
    if (sn_attrs[a.v[i].id].kind == SN_KIND_LITERAL) sn_array_release(a.v[i].u.literal);
  }
  p->stack.n = top;
  return s;
}

static sn_status instr_redefined(sn_tx *p, const instr_parse *x, const sn_tx_name *e) {
  sn_status s = sn_tx_fail(p, x->name_at, SN_ERR_NAME, "expected a new name, found `%s` again", sn_tx_cstring(p, x->name));
  const sn_instr *first = e->value;
  if (first != NULL) sn_hint(p->d, "it is defined in line %u", (unsigned)first->loc.line);
  return s;
}

sn_status sn_tx_instr(sn_tx *p, sn_span *name, sn_instr **out, bool *is_root) {
  instr_parse x = {.name = {NULL, 0}};
  sn_span op;
  *out = NULL;
  *name = x.name;
  sn_tx_skip(p);
  *is_root = p->at[0] == 'R' && sn_tx_accept_word(p, "ROOT");
  sn_tx_skip(p);
  x.name_at = p->at;
  SN_TRY(sn_tx_name_token(p, "an instruction or `}`", &x.name));
  SN_TRY(sn_tx_need(p, '=', "after the name of an instruction"));
  const sn_tx_name *e = sn_tx_find(p, p->scope, x.name);
  if (e == NULL) *name = x.name; /* what a recovery marks as faulty */
  if (e != NULL && e->value == NULL) *name = (sn_span){NULL, 0};
  if (e != NULL) return instr_redefined(p, &x, e);
  if (sn_tx_at_shape(p)) SN_TRY(sn_tx_shape(p, &x.shape));
  sn_tx_skip(p);
  x.op_at = p->at;
  SN_TRY(sn_tx_ident(p, x.shape != NULL ? "an opcode" : "a shape or an opcode", &op));
  SN_TRY(instr_opcode(p, &x, op));
  SN_TRY(instr_rest(p, &x, true, out));
  return sn_tx_define(p, p->scope, x.name, *out);
}
