/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Slots, activity, and the arithmetic of rules. */
#include <string.h>

#include "diff_internal.h"

const sn_diff_rule *const sn_diff_rules[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) &sn_diff_##diff,
#include "sinter/ops.def"
#undef SN_OP
};

/* ---- slots ---- */

sn_diff_slot *sn_diff_slot_of(sn_diff *d, const sn_instr *i) {
  return i->id >= d->lo && i->id < d->hi ? &d->slots[i->id - d->lo] : NULL;
}

static bool reserve(sn_diff *d, uint32_t id) {
  if (id < d->lo) return false;
  if (id < d->hi) return true;
  uint32_t n = d->hi - d->lo, more = id - d->lo + 1;
  if (more < 2 * n) more = 2 * n;
  sn_diff_slot *grown = SN_NEW_N(d->g->arena, sn_diff_slot, more);
  if (!grown) {
    sn_graph_no_memory(d->g);
    return false;
  }
  if (n) memcpy(grown, d->slots, n * sizeof *grown);
  d->slots = grown;
  d->hi = d->lo + more;
  return true;
}

bool sn_diff_active(sn_diff *d, const sn_instr *i) {
  const sn_diff_slot *s = sn_diff_slot_of(d, i);
  return s && s->active;
}

bool sn_diff_active_element(sn_diff *d, const sn_instr *i, int k) {
  const sn_diff_slot *s = sn_diff_slot_of(d, i);
  return s && s->active && (!s->actives || s->actives[k]);
}

void sn_diff_set_active(sn_diff *d, const sn_instr *i, int k) {
  if (!reserve(d, i->id)) return;
  sn_diff_slot *s = sn_diff_slot_of(d, i);
  if (sn_shape_is_tuple(i->shape) && !s->actives &&
      !(s->actives = SN_NEW_N(d->g->arena, bool, i->shape->n_elements + 1))) {
    sn_graph_no_memory(d->g);
    return;
  }
  s->active = true;
  if (s->actives) s->actives[k] = true;
}

sn_instr *sn_diff_get(sn_diff *d, const sn_instr *i, int k) {
  const sn_diff_slot *s = sn_diff_slot_of(d, i);
  if (!s) return NULL;
  if (!sn_shape_is_tuple(i->shape)) return s->one;
  return s->many ? s->many[k] : NULL;
}

void sn_diff_put(sn_diff *d, sn_instr *i, int k, sn_instr *v) {
  if (!reserve(d, i->id)) return;
  sn_diff_slot *s = sn_diff_slot_of(d, i);
  if (!sn_shape_is_tuple(i->shape)) {
    s->one = v;
    return;
  }
  if (!s->many && !(s->many = SN_NEW_N(d->g->arena, sn_instr *, i->shape->n_elements + 1))) {
    sn_graph_no_memory(d->g);
    return;
  }
  s->many[k] = v;
}

void sn_diff_add_to(sn_diff *d, sn_instr *def, int k, sn_instr *ct) {
  if (!ct || !sn_diff_active_element(d, def, k)) return;
  sn_diff_put(d, def, k, sn_d_add(d, sn_diff_get(d, def, k), ct));
}

/* ---- activity ---- */

static bool is_stop(const sn_instr *i) {
  return i->op == SN_OP_COPY && i->n_frontend && sn_instr_frontend(i, "sinter.stop_gradient");
}

void sn_diff_activity_instr(sn_diff *d, sn_instr *i) {
  const sn_diff_rule *rule = sn_diff_rules[i->op];
  if (rule->is_zero || is_stop(i)) return;
  bool any = false;
  for (uint32_t k = 0; k < i->n_operands && !any; k++) any = sn_diff_active(d, sn_instr_operand(i, k));
  if (!any) return;
  if (!sn_shape_is_tuple(i->shape)) {
    bool yes = true;
    if (rule->active) {
      yes = false;
      rule->active(d, i, &yes);
    }
    if (yes && sn_diff_type(i->shape->type)) sn_diff_set_active(d, i, 0);
    return;
  }
  bool *elements = SN_NEW_N(d->g->arena, bool, i->shape->n_elements + 1);
  if (!elements) {
    sn_graph_no_memory(d->g);
    return;
  }
  if (rule->active)
    rule->active(d, i, elements);
  else
    memset(elements, true, (size_t)i->shape->n_elements);
  for (int k = 0; k < i->shape->n_elements; k++)
    if (elements[k] && sn_diff_type(i->shape->elements[k]->type)) sn_diff_set_active(d, i, k);
}

static void id_range(const sn_computation *c, uint32_t *lo, uint32_t *hi) {
  *lo = UINT32_MAX;
  *hi = 0;
  SN_FOR_INSTRS(i, c) {
    if (i->id < *lo) *lo = i->id;
    if (i->id >= *hi) *hi = i->id + 1;
  }
  if (*lo > *hi) *lo = *hi;
}

void sn_diff_activity(sn_diff *d, const sn_computation *c, const bool *in, int n_in, bool *out) {
  sn_diff s = {.g = d->g, .b = d->b};
  id_range(c, &s.lo, &s.hi);
  s.slots = SN_NEW_N(d->g->arena, sn_diff_slot, s.hi - s.lo + 1);
  int n_out = sn_comp_outputs(c);
  memset(out, 0, (size_t)n_out);
  if (!s.slots) {
    sn_graph_no_memory(d->g);
    return;
  }
  for (int k = 0; k < n_in; k++) {
    if (!in[k]) continue;
    bool tuple = c->n_params == 1 && sn_shape_is_tuple(c->params[0]->shape);
    if (sn_diff_type(sn_comp_input_shape(c, k)->type))
      sn_diff_set_active(&s, tuple ? c->params[0] : c->params[k], tuple ? k : 0);
  }
  SN_FOR_INSTRS(i, c) sn_diff_activity_instr(&s, i);
  for (int k = 0; k < n_out; k++) out[k] = sn_diff_active_element(&s, c->root, k);
}

int sn_comp_inputs(const sn_computation *c) {
  return c->n_params == 1 && sn_shape_is_tuple(c->params[0]->shape) ? c->params[0]->shape->n_elements
                                                                    : (int)c->n_params;
}

const sn_shape *sn_comp_input_shape(const sn_computation *c, int k) {
  return c->n_params == 1 && sn_shape_is_tuple(c->params[0]->shape) ? c->params[0]->shape->elements[k]
                                                                    : c->params[k]->shape;
}

int sn_comp_outputs(const sn_computation *c) { return sn_diff_elements(c->root); }

/* ---- arithmetic ---- */

static bool is_constant(const sn_instr *x, double v) {
  double have;
  return (x->op == SN_OP_CONSTANT || x->op == SN_OP_BROADCAST) && sn_instr_constant_f64(x, &have) && have == v;
}

sn_instr *sn_d_scalar(sn_diff *d, sn_type t, double v) { return sn_graph_scalar(d->g, t, v); }
sn_instr *sn_d_like(sn_diff *d, const sn_instr *x, double v) {
  return sn_graph_full(d->g, x->shape->type, x->shape->rank, x->shape->dims, v);
}
sn_instr *sn_d_zeros(sn_diff *d, const sn_shape *s) { return sn_graph_full(d->g, s->type, s->rank, s->dims, 0); }
sn_instr *sn_d_un(sn_diff *d, sn_opcode op, sn_instr *x) { return x ? sn_build_unary(d->b, op, x) : NULL; }
sn_instr *sn_d_bin(sn_diff *d, sn_opcode op, sn_instr *x, sn_instr *y) { return sn_build_binary(d->b, op, x, y); }
sn_instr *sn_d_cmp(sn_diff *d, int64_t direction, sn_instr *x, sn_instr *y) {
  return sn_build_compare(d->b, direction, x, y);
}

sn_instr *sn_d_add(sn_diff *d, sn_instr *x, sn_instr *y) {
  if (!x || !y) return x ? x : y;
  return sn_build_binary(d->b, SN_OP_ADD, x, y);
}

sn_instr *sn_d_neg(sn_diff *d, sn_instr *x) { return sn_d_un(d, SN_OP_NEGATE, x); }

sn_instr *sn_d_sub(sn_diff *d, sn_instr *x, sn_instr *y) {
  if (!y) return x;
  return x ? sn_build_binary(d->b, SN_OP_SUBTRACT, x, y) : sn_d_neg(d, y);
}

sn_instr *sn_d_mul(sn_diff *d, sn_instr *x, sn_instr *y) {
  if (!x || !y) return NULL;
  if (is_constant(x, 1)) return y;
  if (is_constant(y, 1)) return x;
  return sn_build_binary(d->b, SN_OP_MULTIPLY, x, y);
}

sn_instr *sn_d_div(sn_diff *d, sn_instr *x, sn_instr *y) {
  return x ? sn_build_binary(d->b, SN_OP_DIVIDE, x, y) : NULL;
}
sn_instr *sn_d_mul_c(sn_diff *d, sn_instr *x, double c) { return x ? sn_d_mul(d, x, sn_d_like(d, x, c)) : NULL; }
sn_instr *sn_d_add_c(sn_diff *d, sn_instr *x, double c) {
  return sn_build_binary(d->b, SN_OP_ADD, x, sn_d_like(d, x, c));
}
sn_instr *sn_d_rsub_c(sn_diff *d, double c, sn_instr *x) {
  return sn_build_binary(d->b, SN_OP_SUBTRACT, sn_d_like(d, x, c), x);
}

sn_instr *sn_d_select(sn_diff *d, sn_instr *p, sn_instr *x, sn_instr *y) {
  if (!x && !y) return NULL;
  if (!x) x = sn_d_like(d, y, 0);
  if (!y) y = sn_d_like(d, x, 0);
  return sn_build_select(d->b, p, x, y);
}

sn_instr *sn_d_convert(sn_diff *d, sn_instr *x, sn_type t) {
  if (!x || x->shape->type == t) return x;
  if (sn_type_is_complex(x->shape->type) && !sn_type_is_complex(t)) x = sn_build_unary(d->b, SN_OP_REAL, x);
  return sn_build_convert(d->b, x, t);
}

sn_instr *sn_d_sum(sn_diff *d, sn_instr *x, int n, const int64_t *dims) {
  if (!x || !n) return x;
  return sn_build_reduce_op(d->b, SN_OP_ADD, x, sn_d_scalar(d, x->shape->type, 0), n, dims);
}

sn_instr *sn_d_conj(sn_diff *d, sn_instr *x) {
  if (!x || !sn_type_is_complex(x->shape->type)) return x;
  return sn_build_complex(d->b, sn_build_unary(d->b, SN_OP_REAL, x), sn_d_neg(d, sn_build_unary(d->b, SN_OP_IMAG, x)));
}

sn_instr *sn_d_again(sn_diff *d, const sn_instr *i, uint32_t n, sn_instr *const *operands) {
  bool given = strcmp(sn_ops[i->op].shape_rule, "given") == 0;
  return sn_build(d->b, i->op, given ? i->shape : NULL, n, operands, i->n_attrs, i->attrs, i->n_called, i->called);
}
