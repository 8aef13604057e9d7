/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A called computation's instructions copied into the computation under construction. */
#include <string.h>

#include "diff_internal.h"

typedef struct inliner {
  sn_graph *g;
  const sn_computation *c;
  uint32_t lo, hi;
  sn_instr **to; /* by id - lo */
  int n_in;
  sn_instr *const *in;
  sn_instr *tuple; /* the inputs as one tuple, made when something wants the parameter whole */
} inliner;

static bool start(inliner *x, sn_graph *g, const sn_computation *c, int n, sn_instr *const *in) {
  *x = (inliner){.g = g, .c = c, .lo = UINT32_MAX, .n_in = n, .in = in};
  SN_FOR_INSTRS(i, c) {
    if (i->id < x->lo) x->lo = i->id;
    if (i->id >= x->hi) x->hi = i->id + 1;
  }
  if (x->lo > x->hi) x->lo = x->hi;
  x->to = SN_NEW_N(g->arena, sn_instr *, x->hi - x->lo + 1);
  if (!x->to) sn_graph_no_memory(g);
  return g->b.status == SN_OK;
}

static bool takes_tuple(const sn_computation *c) { return c->n_params == 1 && sn_shape_is_tuple(c->params[0]->shape); }

static sn_instr *lookup(inliner *x, const sn_instr *i) {
  sn_instr *to = x->to[i->id - x->lo];
  if (to || i->op != SN_OP_PARAMETER || !takes_tuple(x->c)) return to;
  if (!x->tuple) x->tuple = sn_build_tuple(&x->g->b, (uint32_t)x->n_in, x->in);
  return x->tuple;
}

/* Constants go through the frame's table, so that copies of a body do not multiply them. */
static sn_instr *constant(inliner *x, const sn_instr *i) {
  double v;
  if (i->op == SN_OP_CONSTANT && i->shape->rank == 0 && !sn_type_is_complex(i->shape->type) &&
      sn_type_bits(i->shape->type) <= 32 && sn_instr_constant_f64(i, &v))
    return sn_graph_scalar(x->g, i->shape->type, v);
  if (i->op != SN_OP_BROADCAST || sn_op0(i)->op != SN_OP_CONSTANT || sn_op0(i)->shape->rank) return NULL;
  return sn_graph_fill(x->g, lookup(x, sn_op0(i)), i->shape->rank, i->shape->dims);
}

static sn_instr *copy(inliner *x, sn_instr *i) {
  if (i->op == SN_OP_PARAMETER) return takes_tuple(x->c) ? NULL : x->in[sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER)];
  if (i->op == SN_OP_GET_TUPLE_ELEMENT && sn_op0(i)->op == SN_OP_PARAMETER && takes_tuple(x->c))
    return x->in[sn_instr_int(i, SN_ATTR_INDEX)];
  sn_instr *made = constant(x, i);
  if (made) return made;
  sn_instr **operands = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  if (!operands) {
    sn_graph_no_memory(x->g);
    return NULL;
  }
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (!(operands[k] = lookup(x, sn_instr_operand(i, k)))) return NULL;
  sn_status s = sn_instr_clone(i, x->g->b.c, operands, NULL, &made);
  if (s != SN_OK && x->g->b.status == SN_OK) x->g->b.status = s;
  return made;
}

static sn_instr **finish(inliner *x, int *n_roots) {
  sn_instr *root = x->c->root;
  int n = sn_diff_elements(root);
  sn_instr **roots = SN_NEW_N(x->g->arena, sn_instr *, n + 1);
  if (!roots) sn_graph_no_memory(x->g);
  for (int k = 0; roots && k < n && x->g->b.status == SN_OK; k++) {
    if (root->op == SN_OP_TUPLE)
      roots[k] = lookup(x, sn_instr_operand(root, (uint32_t)k));
    else if (sn_shape_is_tuple(root->shape))
      roots[k] = sn_build_get(&x->g->b, lookup(x, root), k);
    else
      roots[k] = lookup(x, root);
  }
  *n_roots = n;
  return x->g->b.status == SN_OK ? roots : NULL;
}

/* A region of the body is one of its copy as well, unless the copy kept nothing of it. */
static void copy_regions(inliner *x) {
  for (sn_region *r = x->g->regions; r; r = r->next) {
    if (r->comp != x->c || !r->last) continue;
    sn_instr **in = SN_NEW_N(x->g->arena, sn_instr *, r->n_in + 1),
             **out = SN_NEW_N(x->g->arena, sn_instr *, r->n_out + 1);
    if (!in || !out) {
      sn_graph_no_memory(x->g);
      return;
    }
    for (int k = 0; k < r->n_in; k++) in[k] = lookup(x, r->in[k]);
    for (int k = 0; k < r->n_out; k++) out[k] = lookup(x, r->out[k]);
    sn_instr *first = NULL,
             *last = NULL; /* shared constants may stand elsewhere: the stretch is what stands in the copy's order */
    for (sn_instr *i = r->first; i; i = i->next) {
      sn_instr *to = x->to[i->id - x->lo];
      bool shared = to && (to->op == SN_OP_CONSTANT || (to->op == SN_OP_BROADCAST && sn_op0(to)->op == SN_OP_CONSTANT));
      if (to && !shared && to->parent == x->g->b.c) {
        if (!first) first = to;
        last = to;
      }
      if (i == r->last) break;
    }
    if (!first) continue;
    sn_region *c = sn_graph_region(x->g, r->kind, NULL, r->n_in, in, r->n_out, out);
    if (!c) return;
    c->first = first;
    c->last = last;
    c->fn = r->fn;
    c->ctx = r->ctx;
  }
}

sn_instr **sn_diff_inline(sn_graph *g, const sn_computation *c, int n, sn_instr *const *in, int *n_roots) {
  inliner x;
  *n_roots = 0;
  if (g->b.status != SN_OK || !start(&x, g, c, n, in)) return NULL;
  SN_FOR_INSTRS(i, c) {
    if (i == c->root && i->op == SN_OP_TUPLE) continue;
    x.to[i->id - x.lo] = copy(&x, i);
    if (g->b.status != SN_OK) return NULL;
  }
  copy_regions(&x);
  return finish(&x, n_roots);
}

/* ---- scalar computations over arrays ---- */

static sn_instr *spread(inliner *x, sn_instr *i, const sn_shape *like) {
  if (i->op == SN_OP_PARAMETER) return x->in[sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER)];
  sn_arena *a = x->g->module->arena;
  if (i->op == SN_OP_CONSTANT) {
    sn_instr *c = NULL;
    sn_status s = sn_instr_clone(i, x->g->b.c, NULL, NULL, &c);
    if (s != SN_OK && x->g->b.status == SN_OK) x->g->b.status = s;
    return c ? sn_graph_fill(x->g, c, like->rank, like->dims) : NULL;
  }
  sn_instr **operands = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  const sn_shape *s = sn_shape_array(a, i->shape->type, like->rank, like->dims);
  if (!operands || !s) {
    sn_graph_no_memory(x->g);
    return NULL;
  }
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (!(operands[k] = lookup(x, sn_instr_operand(i, k)))) return NULL;
  if (i->op == SN_OP_CALL && !sn_shape_is_tuple(i->shape)) {
    int n;
    sn_instr **r = sn_diff_inline_scalar(x->g, i->called[0], (int)i->n_operands, operands, &n);
    return r ? r[0] : NULL;
  }
  if (!sn_op_has(i->op, SN_T_ELTWISE)) {
    sn_graph_fail(x->g, i->loc, SN_ERR_UNSUPPORTED,
                  "%s inside a function on scalars cannot be differentiated or batched", sn_opcode_text(i->op));
    return NULL;
  }
  return sn_build(&x->g->b, i->op, s, i->n_operands, operands, i->n_attrs, i->attrs, i->n_called, i->called);
}

sn_instr **sn_diff_inline_scalar(sn_graph *g, const sn_computation *c, int n, sn_instr *const *in, int *n_roots) {
  inliner x;
  *n_roots = 0;
  if (g->b.status != SN_OK || !start(&x, g, c, n, in)) return NULL;
  SN_FOR_INSTRS(i, c) {
    if (i == c->root && i->op == SN_OP_TUPLE) continue;
    x.to[i->id - x.lo] = spread(&x, i, in[0]->shape);
    if (g->b.status != SN_OK) return NULL;
  }
  return finish(&x, n_roots);
}
