/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Computations under construction, and how their bodies reach the values around them: an outer value becomes one more
 * input of every frame between its own and the one that uses it; constants are made again inside instead. */
#include <string.h>

#include "graph_internal.h"

static void frame_free(sn_frame *f) {
  sn_map_destroy(f->inner);
  sn_map_destroy(f->constants);
  sn_free(f->captured);
  sn_free(f);
}

sn_frame *sn_frame_push(sn_graph *g, sn_frame_kind kind, const char *name) {
  sn_frame *f = sn_alloc_zero(1, sizeof *f);
  sn_status s = f ? sn_map_create(&f->inner) : SN_ERR_MEMORY;
  if (s == SN_OK) s = sn_map_create(&f->constants);
  if (s == SN_OK && kind == SN_FRAME_ENTRY) f->comp = g->module->entry;
  if (s == SN_OK && kind != SN_FRAME_ENTRY) {
    s = sn_computation_create(g->module, name, &f->comp);
    if (s == SN_OK) sn_computation_move_before(f->comp, g->frame->comp); /* callees first */
  }
  if (s != SN_OK) {
    if (f) frame_free(f);
    sn_graph_no_memory(g);
    return NULL;
  }
  f->kind = kind;
  f->outer = g->frame;
  g->depth += kind != SN_FRAME_ENTRY;
  g->frame = f;
  g->b.c = f->comp;
  return f;
}

void sn_frame_pop(sn_graph *g) {
  sn_frame *f = g->frame;
  g->frame = f->outer;
  g->depth -= f->kind != SN_FRAME_ENTRY;
  if (g->frame) g->b.c = g->frame->comp;
  frame_free(f);
}

static sn_instr *tuple_input(sn_graph *g, sn_frame *f, sn_builder *b, const sn_shape *s) {
  sn_arena *a = g->module->arena;
  const sn_shape **elements = (const sn_shape **)SN_NEW_N(g->arena, const sn_shape *, f->n_inputs + 1);
  if (!elements) {
    sn_graph_no_memory(g);
    return NULL;
  }
  for (int k = 0; k < f->n_inputs; k++) elements[k] = f->param->shape->elements[k];
  elements[f->n_inputs] = s;
  const sn_shape *tuple = sn_shape_tuple(a, f->n_inputs + 1, elements);
  if (!tuple) {
    sn_graph_no_memory(g);
    return NULL;
  }
  if (f->param)
    sn_instr_set_shape(f->param, tuple);
  else
    f->param = sn_build_parameter(b, 0, tuple, "arg");
  return sn_build_get(b, f->param, f->n_inputs);
}

static sn_instr *frame_input(sn_graph *g, sn_frame *f, const sn_shape *s) {
  sn_builder b = g->b;
  b.c = f->comp;
  b.status = SN_OK;
  sn_instr *i = f->kind == SN_FRAME_TUPLE ? tuple_input(g, f, &b, s) : sn_build_parameter(&b, f->n_inputs, s, NULL);
  if (g->b.status == SN_OK) g->b.status = b.status;
  if (i) f->n_inputs++;
  return i;
}

sn_instr *sn_frame_input(sn_graph *g, const sn_shape *s) { return frame_input(g, g->frame, s); }

/* A constant, an iota, or a broadcast of a scalar constant costs less to make again than to pass. */
static sn_instr *made_again(sn_graph *g, sn_frame *f, sn_instr *outer) {
  sn_instr *scalar = outer->op == SN_OP_BROADCAST ? sn_instr_operand(outer, 0) : outer;
  bool cheap = scalar->op == SN_OP_IOTA || (scalar->op == SN_OP_CONSTANT && scalar->shape->rank == 0);
  if (!cheap) return NULL;
  sn_instr *copy = NULL, *operand = NULL;
  if (scalar != outer && !(operand = sn_frame_capture(g, f, scalar))) return NULL;
  sn_status s = sn_instr_clone(outer, f->comp, operand ? &operand : NULL, NULL, &copy);
  if (s != SN_OK && g->b.status == SN_OK) g->b.status = s;
  return copy;
}

static bool note_capture(sn_graph *g, sn_frame *f, sn_instr *seen_outside) {
  if (f->n_captured == f->cap_captured) {
    int cap = f->cap_captured ? 2 * f->cap_captured : 8;
    sn_instr **p = sn_realloc(f->captured, (size_t)cap * sizeof *p);
    if (!p) {
      sn_graph_no_memory(g);
      return false;
    }
    f->captured = p;
    f->cap_captured = cap;
  }
  f->captured[f->n_captured++] = seen_outside;
  return true;
}

sn_instr *sn_frame_capture(sn_graph *g, sn_frame *f, sn_instr *outer) {
  if (outer->parent == f->comp) return outer;
  sn_instr *inner = sn_map_get_u64(f->inner, outer->id);
  if (inner) return inner;
  inner = made_again(g, f, outer);
  if (g->b.status != SN_OK) return NULL;
  if (!inner) {
    if (f->kind == SN_FRAME_SCALAR) {
      sn_graph_fail(g, g->b.loc, SN_ERR_USAGE, "a function on scalars uses %s from outside",
                    sn_graph_shape_text(g, outer->shape));
      sn_graph_hint(g, "reducers, comparators and maps see their arguments and constants alone");
      return NULL;
    }
    sn_instr *outside = f->outer ? sn_frame_capture(g, f->outer, outer) : NULL;
    if (!outside || !note_capture(g, f, outside)) return NULL;
    inner = frame_input(g, f, outer->shape);
    if (!inner) return NULL;
  }
  if (sn_map_set_u64(f->inner, outer->id, inner) != SN_OK) sn_graph_no_memory(g);
  return inner;
}

sn_frame *sn_frame_run(sn_graph *g, sn_loc at, sn_frame_kind kind, const char *name, sn_fn fn, void *ctx, int n,
                       const sn_shape *const *like, int n_extra, sn_instr *const *extra, int n_out, sn_tensor *out) {
  sn_builder *b = sn_graph_open(g, at);
  sn_frame *f = b ? sn_frame_push(g, kind, name) : NULL;
  if (!f) return NULL;
  sn_tensor *in = SN_NEW_N(g->arena, sn_tensor, n + 1);
  if (!in) sn_graph_no_memory(g);
  for (int k = 0; k < n && g->b.status == SN_OK; k++) in[k] = sn_graph_tensor(g, sn_frame_input(g, like[k]));
  for (int k = 0; k < n_extra && g->b.status == SN_OK; k++) (void)sn_frame_capture(g, f, extra[k]);
  for (int k = 0; k < n_out; k++) out[k] = sn_graph_empty(g);
  if (g->b.status == SN_OK) fn(ctx, g, n, in, n_out, out);
  (void)sn_graph_open(g, at); /* what follows belongs to this line again */
  for (int k = 0; k < n_out && g->b.status == SN_OK; k++) {
    if (!out[k].instr) {
      sn_graph_fail(g, at, SN_ERR_USAGE, "the callback of %s left result %d of %d unset", name, k, n_out);
      break;
    }
    out[k].instr = sn_graph_use(g, at, out[k]);
  }
  if (g->b.status == SN_OK) return f;
  while (g->frame != f) sn_frame_pop(g);
  sn_frame_pop(g);
  return NULL;
}

sn_region *sn_graph_region(sn_graph *g, sn_region_kind kind, sn_instr *before, int n_in, sn_instr *const *in, int n_out,
                           sn_instr *const *out) {
  sn_region *r = SN_NEW(g->arena, sn_region);
  if (r) {
    r->in = sn_arena_copy(g->arena, in, (size_t)n_in * sizeof *in);
    r->out = sn_arena_copy(g->arena, out, (size_t)n_out * sizeof *out);
  }
  if (!r || (n_in && !r->in) || (n_out && !r->out)) {
    sn_graph_no_memory(g);
    return NULL;
  }
  r->kind = kind;
  r->comp = g->b.c;
  r->first = before ? before->next : g->b.c->first;
  r->last = g->b.c->last;
  r->n_in = n_in;
  r->n_out = n_out;
  if (kind == SN_REGION_REMAT) r->number = ++g->n_remat;
  r->next = g->regions;
  g->regions = r;
  return r;
}

void sn_graph_drop_regions(sn_graph *g, const sn_computation *c) {
  for (sn_region **at = &g->regions; *at;) {
    if ((*at)->comp == c)
      *at = (*at)->next;
    else
      at = &(*at)->next;
  }
}

void sn_graph_elements(sn_graph *g, sn_instr *i, int n, sn_tensor *out) {
  for (int k = 0; k < n; k++)
    out[k] = sn_graph_tensor(g, i && sn_shape_is_tuple(i->shape) ? sn_build_get(&g->b, i, k) : i);
}
