/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The sticky builder: its core, constants and reducers. */
#include "sinter/build.h"

#include "ir_internal.h"

#include <math.h>
#include <string.h>

void sn_builder_init(sn_builder *b, sn_diag *d, sn_computation *c) {
  memset(b, 0, sizeof *b);
  b->c = c;
  b->d = d;
}

void sn_builder_init_at(sn_builder *b, sn_diag *d, sn_instr *i) {
  sn_builder_init(b, d, i->parent);
  b->before = i;
  b->loc = i->loc;
  b->metadata = i->metadata;
}

static sn_instr *build(sn_builder *b, const sn_instr_spec *spec) {
  if (b->status != SN_OK) return NULL;
  sn_instr *i = NULL;
  b->status = sn_instr_create(b->d, b->c, spec, &i);
  if (b->status != SN_OK) return NULL;
  i->metadata = b->metadata;
  if (b->before) sn_instr_move_before(i, b->before);
  return i;
}

sn_instr *sn_build(sn_builder *b, sn_opcode op, const sn_shape *shape, uint32_t n_operands, sn_instr *const *operands, uint32_t n_attrs, const sn_attr *attrs,
                   uint32_t n_called, sn_computation *const *called) {
  for (uint32_t k = 0; k < n_operands; k++) {
    if (!operands[k]) {
      if (b->status == SN_OK) b->status = SN_ERR_INTERNAL;
      return NULL;
    }
  }
  sn_instr_spec spec = {0};
  spec.op = op;
  spec.shape = shape;
  spec.n_operands = n_operands;
  spec.operands = operands;
  spec.n_attrs = n_attrs;
  spec.attrs = attrs;
  spec.n_called = n_called;
  spec.called = called;
  spec.loc = b->loc;
  return build(b, &spec);
}

sn_instr *sn_build_parameter(sn_builder *b, int64_t number, const sn_shape *s, const char *name) {
  sn_attr a = sn_attr_int(SN_ATTR_PARAMETER_NUMBER, number);
  sn_instr_spec spec = {0};
  spec.op = SN_OP_PARAMETER;
  spec.name = name;
  spec.shape = s;
  spec.n_attrs = 1;
  spec.attrs = &a;
  spec.loc = b->loc;
  return build(b, &spec);
}

sn_instr *sn_build_constant(sn_builder *b, sn_array *literal) {
  sn_attr a = sn_attr_literal(literal);
  return sn_build(b, SN_OP_CONSTANT, sn_array_shape(literal), 0, NULL, 1, &a, 0, NULL);
}

/* A scalar constant whose bytes `store` writes. */
static sn_instr *scalar(sn_builder *b, sn_type t, double f, int64_t i, bool is_int) {
  if (b->status != SN_OK) return NULL;
  sn_shape s = {0};
  s.type = t;
  sn_array *l;
  b->status = sn_array_create_zero(&s, &l);
  if (b->status != SN_OK) return NULL;
  if (sn_type_is_complex(t)) sn_store_c128(t, sn_array_data(l), is_int ? (double)i : f, 0);
  else if (is_int) sn_store_i64(t, sn_array_data(l), i);
  else sn_store_f64(t, sn_array_data(l), f);
  sn_instr *c = sn_build_constant(b, l);
  sn_array_release(l);
  return c;
}

sn_instr *sn_build_scalar(sn_builder *b, sn_type t, double v) { return scalar(b, t, v, 0, false); }
sn_instr *sn_build_scalar_i64(sn_builder *b, sn_type t, int64_t v) { return scalar(b, t, 0, v, true); }

sn_instr *sn_build_full(sn_builder *b, const sn_shape *s, double v) { return sn_build_broadcast_scalar(b, sn_build_scalar(b, s->type, v), s); }

sn_instr *sn_build_full_like(sn_builder *b, const sn_instr *like, double v) {
  if (!like) return sn_build(b, SN_OP_NEGATE, NULL, 1, &(sn_instr *){NULL}, 0, NULL, 0, NULL);
  return sn_build_full(b, like->shape, v);
}

/* ---- reducers ---- */

static sn_computation *find_reducer(sn_module *m, sn_opcode op, sn_type t) {
  SN_FOR_COMPUTATIONS(c, m) {
    sn_opcode found;
    if (c != m->entry && sn_computation_is_binary(c, &found) && found == op && sn_shape_is_scalar(c->root->shape) && c->root->shape->type == t &&
        c->params[0]->shape->type == t && c->params[1]->shape->type == t) {
      return c;
    }
  }
  return NULL;
}

sn_computation *sn_build_reducer(sn_builder *b, sn_opcode op, sn_type t) {
  if (b->status != SN_OK) return NULL;
  sn_module *m = b->c->module;
  sn_computation *c = find_reducer(m, op, t);
  if (c) return c;
  const sn_shape *s = sn_shape_scalar(m->arena, t);
  char name[64];
  snprintf(name, sizeof name, "%s_%s", sn_opcode_text(op), sn_type_text(t));
  b->status = s ? sn_computation_create(m, name, &c) : SN_ERR_MEMORY;
  if (b->status != SN_OK) return NULL;
  sn_computation_move_before(c, m->first);
  sn_builder r;
  sn_builder_init(&r, b->d, c);
  r.loc = b->loc;
  sn_instr *x = sn_build_parameter(&r, 0, s, "x"), *y = sn_build_parameter(&r, 1, s, "y");
  sn_instr *root = sn_build_binary(&r, op, x, y);
  b->status = r.status;
  if (!root) return NULL;
  sn_computation_set_root(c, root);
  return c;
}

sn_instr *sn_build_reduce_op(sn_builder *b, sn_opcode op, sn_instr *x, sn_instr *init, int n, const int64_t *dims) {
  sn_instr *operands[2] = {x, init};
  if (!x || !init) return sn_build(b, SN_OP_REDUCE, NULL, 2, operands, 0, NULL, 0, NULL);
  sn_computation *r = sn_build_reducer(b, op, x->shape->type);
  sn_attr a = sn_attr_ints(SN_ATTR_DIMENSIONS, n, dims);
  return sn_build(b, SN_OP_REDUCE, NULL, 2, operands, 1, &a, r ? 1 : 0, &r);
}

sn_instr *sn_build_reduce_sum(sn_builder *b, sn_instr *x, int n, const int64_t *dims) {
  return sn_build_reduce_op(b, SN_OP_ADD, x, x ? sn_build_scalar(b, x->shape->type, 0) : NULL, n, dims);
}

static sn_instr *lowest(sn_builder *b, sn_type t) {
  if (sn_type_is_float(t)) return sn_build_scalar(b, t, (double)-INFINITY);
  if (sn_type_is_signed(t)) return sn_build_scalar_i64(b, t, (int64_t)(UINT64_C(1) << 63) >> (64 - sn_type_bits(t)));
  return sn_build_scalar_i64(b, t, 0);
}

sn_instr *sn_build_reduce_max(sn_builder *b, sn_instr *x, int n, const int64_t *dims) {
  return sn_build_reduce_op(b, SN_OP_MAXIMUM, x, x ? lowest(b, x->shape->type) : NULL, n, dims);
}
