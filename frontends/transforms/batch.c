/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* vmap: the callback is built once on one example in a computation thrown away, whose instructions are then copied
 * batched. */
#include <string.h>

#include "batch_internal.h"

static const sn_batch_rule *const rules[SN_OP_COUNT] = {
#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) &sn_batch_##batch,
#include "sinter/ops.def"
#undef SN_OP
};

sn_lane sn_lane_make(sn_batch *x, int n) {
  sn_lane l = {SN_NEW_N(x->g->arena, sn_instr *, n + 1), SN_NEW_N(x->g->arena, bool, n + 1)};
  if (!l.v || !l.batched) {
    sn_graph_no_memory(x->g);
    l = (sn_lane){NULL, NULL};
  }
  return l;
}

const sn_shape *sn_batch_shape(sn_batch *x, const sn_shape *s) {
  int64_t dims[SN_MAX_RANK] = {x->size};
  if (s->rank + 1 > SN_MAX_RANK) {
    sn_graph_fail(x->g, x->b->loc, SN_ERR_UNSUPPORTED, "vmap: a tensor of rank %d has no room for one more axis",
                  s->rank);
    return NULL;
  }
  if (s->rank) memcpy(dims + 1, s->dims, (size_t)s->rank * sizeof *dims);
  const sn_shape *r = sn_shape_array(sn_builder_arena(x->b), s->type, s->rank + 1, dims);
  if (!r) sn_graph_no_memory(x->g);
  return r;
}

sn_instr *sn_lane_spread(sn_batch *x, const sn_lane *l, int k) {
  sn_instr *v = l->v[k];
  if (!v || l->batched[k]) return v;
  const sn_shape *s = sn_batch_shape(x, v->shape);
  if (!s) return NULL;
  if (!v->shape->rank) return sn_graph_fill(x->g, v, 1, s->dims);
  int64_t at[SN_MAX_RANK];
  for (int j = 0; j < v->shape->rank; j++) at[j] = j + 1;
  return sn_build_broadcast(x->b, v, s->rank, s->dims, v->shape->rank, at);
}

sn_instr *sn_batch_again(sn_batch *x, const sn_instr *i, const sn_shape *shape, uint32_t n, sn_instr *const *operands,
                         uint32_t n_changed, const sn_attr *changed) {
  sn_attr *attrs = SN_NEW_N(x->g->arena, sn_attr, i->n_attrs + n_changed + 1);
  if (!attrs) {
    sn_graph_no_memory(x->g);
    return NULL;
  }
  uint32_t count = 0;
  for (uint32_t k = 0; k < n_changed; k++) attrs[count++] = changed[k];
  for (uint32_t k = 0; k < i->n_attrs; k++) {
    bool replaced = false;
    for (uint32_t j = 0; j < n_changed; j++) replaced |= changed[j].id == i->attrs[k].id;
    if (!replaced) attrs[count++] = i->attrs[k];
  }
  return sn_build(x->b, i->op, shape, n, operands, count, attrs, i->n_called, i->called);
}

/* ---- copying a computation ---- */

typedef struct copier {
  sn_batch *x;
  const sn_computation *c;
  uint32_t lo, hi;
  sn_lane *lanes; /* by id - lo */
  sn_instr *
      *last_made; /* the instruction last in the list after the copy of each, by id - lo: where regions begin and end */
  const sn_lane *in;
} copier;

static bool takes_tuple(const sn_computation *c) { return c->n_params == 1 && sn_shape_is_tuple(c->params[0]->shape); }

/* The operand as one instruction: a tuple is put together from its elements. */
static sn_instr *whole(copier *p, const sn_instr *i, const sn_lane *l) {
  if (!sn_shape_is_tuple(i->shape)) return l->v[0];
  return sn_build_tuple(p->x->b, (uint32_t)i->shape->n_elements, l->v);
}

static sn_lane unbatched(copier *p, sn_instr *i, const sn_lane *in) {
  sn_batch *x = p->x;
  int n = sn_diff_elements(i);
  sn_lane out = sn_lane_make(x, n);
  sn_instr **operands = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1), *made = NULL;
  if (!operands || !out.v) {
    sn_graph_no_memory(x->g);
    return out;
  }
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (!(operands[k] = whole(p, sn_instr_operand(i, k), &in[k]))) return out;
  double v;
  if (i->op == SN_OP_CONSTANT && i->shape->rank == 0 && sn_type_bits(i->shape->type) <= 32 &&
      !sn_type_is_complex(i->shape->type) && sn_instr_constant_f64(i, &v)) {
    out.v[0] = sn_graph_scalar(x->g, i->shape->type, v);
    return out;
  }
  sn_status s = sn_instr_clone(i, x->b->c, operands, NULL, &made);
  if (s != SN_OK && x->b->status == SN_OK) x->b->status = s;
  for (int k = 0; k < n && made; k++) out.v[k] = sn_shape_is_tuple(i->shape) ? sn_build_get(x->b, made, k) : made;
  return out;
}

static bool any_batched(const sn_instr *i, const sn_lane *in) {
  for (uint32_t k = 0; k < i->n_operands; k++)
    for (int j = 0; j < sn_diff_elements(sn_instr_operand(i, k)); j++)
      if (in[k].batched[j]) return true;
  return false;
}

static sn_lane copy(copier *p, sn_instr *i) {
  sn_batch *x = p->x;
  if (i->op == SN_OP_PARAMETER)
    return takes_tuple(p->c) ? p->lanes[i->id - p->lo] : p->in[sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER)];
  sn_lane *in = SN_NEW_N(x->g->arena, sn_lane, i->n_operands + 1), out = {NULL, NULL};
  if (!in) {
    sn_graph_no_memory(x->g);
    return out;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) in[k] = p->lanes[sn_instr_operand(i, k)->id - p->lo];
  if (i->op == SN_OP_GET_TUPLE_ELEMENT) {
    int k = (int)sn_instr_int(i, SN_ATTR_INDEX);
    return (sn_lane){in[0].v + k, in[0].batched + k};
  }
  if (i->op == SN_OP_TUPLE) {
    out = sn_lane_make(x, (int)i->n_operands);
    for (uint32_t k = 0; k < i->n_operands && out.v; k++) out.v[k] = in[k].v[0], out.batched[k] = in[k].batched[0];
    return out;
  }
  x->b->loc = i->loc;
  x->b->metadata = i->metadata;
  if (!any_batched(i, in)) return unbatched(p, i, in);
  out = sn_lane_make(x, sn_diff_elements(i));
  if (!out.v) return out;
  if (!rules[i->op]->fn) {
    sn_graph_fail(x->g, i->loc, SN_ERR_UNSUPPORTED, "%s (%s) has no batching rule", sn_opcode_text(i->op), i->name);
    sn_graph_hint(x->g, "call it once an example (sn_scan), or outside of vmap");
    return out;
  }
  rules[i->op]->fn(x, i, in, &out);
  for (uint16_t k = 0; k < i->n_frontend && out.v[0] && sn_batch_ok(x); k++)
    if (!sn_shape_is_tuple(i->shape) &&
        sn_instr_set_frontend(out.v[0], i->frontend[k].key, i->frontend[k].value) != SN_OK)
      sn_graph_no_memory(x->g);
  return out;
}

/* ---- regions: a custom rule of the example is mapped over the examples ---- */

typedef struct mapped_rule {
  sn_region *r; /* of the computation on one example */
  bool *in_batched, *out_batched;
  int64_t size;
} mapped_rule;

/* (inputs…, results…, cotangents…) of one example -> cotangents of the inputs, zeros where the rule gave none. */
static void one_example_vjp(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n;
  sn_region *r = ((mapped_rule *)ctx)->r;
  ((sn_vjp_fn)r->fn)(r->ctx, g, r->n_in, in, r->n_out, in + r->n_in, in + r->n_in + r->n_out, out);
  for (int k = 0; k < n_out; k++)
    if (!out[k].instr && sn_graph_status(g) == SN_OK) out[k] = sn_full_like_at(g->b.loc, in[k], 0);
}

static void one_example_jvp(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out) {
  (void)n;
  sn_region *r = ((mapped_rule *)ctx)->r;
  ((sn_jvp_fn)r->fn)(r->ctx, g, r->n_in, in, in + r->n_in, r->n_out, in + 2 * r->n_in, out);
  for (int k = 0; k < n_out; k++)
    if (!out[k].instr && sn_graph_status(g) == SN_OK) out[k] = sn_full_like_at(g->b.loc, in[2 * r->n_in + k], 0);
}

static bool rule_room(sn_graph *g, int n, sn_tensor **t, int64_t **axes) {
  *t = SN_NEW_N(g->arena, sn_tensor, n + 1);
  *axes = SN_NEW_N(g->arena, int64_t, n + 1);
  if (!*t || !*axes) sn_graph_no_memory(g);
  return g->b.status == SN_OK;
}

static void mapped_vjp(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, int n_out, const sn_tensor *out,
                       const sn_tensor *ct, sn_tensor *in_ct) {
  mapped_rule *m = ctx;
  sn_tensor *t;
  int64_t *axes;
  if (!rule_room(g, n_in + 2 * n_out, &t, &axes)) return;
  for (int k = 0; k < n_in; k++) t[k] = in[k], axes[k] = m->in_batched[k] ? 0 : SN_UNBATCHED;
  for (int k = 0; k < n_out; k++) {
    t[n_in + k] = out[k], t[n_in + n_out + k] = ct[k];
    axes[n_in + k] = axes[n_in + n_out + k] = m->out_batched[k] ? 0 : SN_UNBATCHED;
  }
  sn_vmap_at(g->b.loc, g, one_example_vjp, m, n_in + 2 * n_out, t, axes, n_in, NULL, in_ct);
  for (int k = 0; k < n_in; k++) /* what all examples shared collects from all */
    if (!m->in_batched[k]) in_ct[k] = sn_sum_at(g->b.loc, in_ct[k], 1, (int64_t[]){0}, false);
}

static void mapped_jvp(void *ctx, sn_graph *g, int n_in, const sn_tensor *in, const sn_tensor *tangent, int n_out,
                       const sn_tensor *out, sn_tensor *res) {
  mapped_rule *m = ctx;
  sn_tensor *t;
  int64_t *axes;
  if (!rule_room(g, 2 * n_in + n_out, &t, &axes)) return;
  for (int k = 0; k < n_in; k++) {
    t[k] = in[k], t[n_in + k] = tangent[k];
    axes[k] = axes[n_in + k] = m->in_batched[k] ? 0 : SN_UNBATCHED;
  }
  for (int k = 0; k < n_out; k++) t[2 * n_in + k] = out[k], axes[2 * n_in + k] = m->out_batched[k] ? 0 : SN_UNBATCHED;
  sn_vmap_at(g->b.loc, g, one_example_jvp, m, 2 * n_in + n_out, t, axes, n_out, NULL, res);
  for (int k = 0; k < n_out; k++) /* a result that is the same for all has one tangent */
    if (!m->out_batched[k]) res[k] = sn_index_at(g->b.loc, res[k], 0, 0);
}

static void copy_region(copier *p, sn_region *r) {
  sn_batch *x = p->x;
  sn_graph *g = x->g;
  mapped_rule *m = SN_NEW(g->arena, mapped_rule);
  sn_instr **in = SN_NEW_N(g->arena, sn_instr *, r->n_in + 1), **out = SN_NEW_N(g->arena, sn_instr *, r->n_out + 1);
  if (!m || !in || !out || !(m->in_batched = SN_NEW_N(g->arena, bool, r->n_in + 1)) ||
      !(m->out_batched = SN_NEW_N(g->arena, bool, r->n_out + 1))) {
    sn_graph_no_memory(g);
    return;
  }
  m->r = r;
  m->size = x->size;
  for (int k = 0; k < r->n_in; k++) {
    const sn_lane *l = &p->lanes[r->in[k]->id - p->lo];
    in[k] = l->v[0], m->in_batched[k] = l->batched[0];
  }
  for (int k = 0; k < r->n_out; k++) {
    const sn_lane *l = &p->lanes[r->out[k]->id - p->lo];
    out[k] = l->v[0], m->out_batched[k] = l->batched[0];
  }
  const sn_instr *before = r->first->prev ? p->last_made[r->first->prev->id - p->lo] : p->last_made[p->hi - p->lo];
  sn_instr *first = before ? before->next : x->b->c->first, *last = p->last_made[r->last->id - p->lo];
  if (!first || !last || last == before) return;
  sn_region *c = sn_graph_region(g, r->kind, NULL, r->n_in, in, r->n_out, out);
  if (!c) return;
  c->first = first;
  c->last = last;
  c->ctx = m;
  c->fn = r->kind == SN_REGION_VJP   ? (void (*)(void))mapped_vjp
          : r->kind == SN_REGION_JVP ? (void (*)(void))mapped_jvp
                                     : NULL;
}

sn_lane sn_batch_inline(sn_batch *x, const sn_computation *c, const sn_lane *in) {
  copier p = {.x = x, .c = c, .lo = UINT32_MAX, .in = in};
  const sn_lane failed = {NULL, NULL};
  SN_FOR_INSTRS(i, c) {
    if (i->id < p.lo) p.lo = i->id;
    if (i->id >= p.hi) p.hi = i->id + 1;
  }
  if (p.lo > p.hi) return failed;
  p.lanes = SN_NEW_N(x->g->arena, sn_lane, p.hi - p.lo);
  p.last_made = SN_NEW_N(x->g->arena, sn_instr *, p.hi - p.lo + 1);
  if (!p.lanes || !p.last_made) {
    sn_graph_no_memory(x->g);
    return failed;
  }
  p.last_made[p.hi - p.lo] = x->b->c->last;
  if (takes_tuple(c)) {
    int n = sn_comp_inputs(c);
    sn_lane *l = &p.lanes[c->params[0]->id - p.lo];
    *l = sn_lane_make(x, n);
    for (int k = 0; k < n && l->v; k++) l->v[k] = in[k].v[0], l->batched[k] = in[k].batched[0];
  }
  SN_FOR_INSTRS(i, c) {
    if (!sn_batch_ok(x)) return failed;
    p.lanes[i->id - p.lo] = copy(&p, i);
    p.last_made[i->id - p.lo] = x->b->c->last;
  }
  for (sn_region *r = x->g->regions, *next; r && sn_batch_ok(x); r = next) {
    next = r->next;
    if (r->comp == c && r->last) copy_region(&p, r);
  }
  return sn_batch_ok(x) ? p.lanes[c->root->id - p.lo] : failed;
}

/* ---- the public call ---- */

/* Examples along axis 0 from wherever they are. */
static sn_instr *to_front(sn_batch *x, sn_instr *v, int64_t axis) {
  int64_t p[SN_MAX_RANK];
  p[0] = axis;
  for (int k = 1, from = 0; k < v->shape->rank; k++, from++) {
    if (from == axis) from++;
    p[k] = from;
  }
  return sn_build_transpose(x->b, v, p);
}

static bool read_inputs(sn_loc at, sn_batch *x, int n, const sn_tensor *in, const int64_t *axes, sn_lane *lanes,
                        const sn_shape **like) {
  sn_graph *g = x->g;
  x->size = -1;
  for (int k = 0; k < n; k++) {
    sn_instr *v = sn_graph_use(g, at, in[k]);
    lanes[k] = sn_lane_make(x, 1);
    if (!v || !lanes[k].v) return false;
    lanes[k].v[0] = v;
    like[k] = v->shape;
    int64_t axis = axes ? axes[k] : 0;
    if (axis == SN_UNBATCHED) continue;
    int a = sn_graph_axis(g, at, "vmap", axis, v->shape->rank);
    if (a < 0) return false;
    int64_t size = v->shape->dims[a];
    if (x->size >= 0 && size != x->size) {
      sn_graph_fail(g, at, SN_ERR_SHAPE, "vmap: input %d (%s) has %lld examples along axis %d, others have %lld", k,
                    sn_tensor_text(in[k]), (long long)size, a, (long long)x->size);
      return false;
    }
    x->size = size;
    v = to_front(x, v, a);
    if (!v) return false;
    lanes[k].v[0] = v;
    lanes[k].batched[0] = true;
    like[k] = sn_shape_array(g->module->arena, v->shape->type, v->shape->rank - 1, v->shape->dims + 1);
    if (!like[k]) sn_graph_no_memory(g);
  }
  if (x->size < 0) sn_graph_fail(g, at, SN_ERR_USAGE, "vmap: no input has a batch axis");
  return g->b.status == SN_OK;
}

static void write_results(sn_loc at, sn_batch *x, int n_out, const sn_lane *root, const int64_t *out_axes,
                          sn_tensor *out) {
  for (int k = 0; k < n_out && sn_graph_open(x->g, at); k++) {
    out[k] = sn_graph_tensor(x->g, sn_lane_spread(x, root, k));
    if (out_axes && out_axes[k] && out[k].instr) out[k] = sn_move_axis_at(at, out[k], 0, (int)out_axes[k]);
  }
}

void sn_vmap_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *in, const int64_t *in_axes,
                int n_out, const int64_t *out_axes, sn_tensor *out) {
  in = sn_graph_list(g, n, in);
  for (int k = 0; k < n_out; k++) out[k] = sn_graph_empty(g);
  sn_batch x = {.g = g, .b = sn_graph_open(g, at)};
  if (!x.b) return;
  sn_lane *lanes = SN_NEW_N(g->arena, sn_lane, n + 1), *all = NULL;
  const sn_shape **like = (const sn_shape **)SN_NEW_N(g->arena, const sn_shape *, n + 1);
  sn_tensor *res = SN_NEW_N(g->arena, sn_tensor, n_out + 1);
  if (!lanes || !like || !res) sn_graph_no_memory(g);
  if (g->b.status != SN_OK || !read_inputs(at, &x, n, in, in_axes, lanes, like)) return;
  sn_frame *f = sn_frame_run(g, at, SN_FRAME_FLAT, "example", fn, ctx, n, like, 0, NULL, n_out, res);
  if (!f) return;
  sn_computation *c = f->comp;
  sn_instr **roots = SN_NEW_N(g->arena, sn_instr *, n_out + 1);
  all = SN_NEW_N(g->arena, sn_lane, f->n_inputs + 1);
  if (!roots || !all) sn_graph_no_memory(g);
  for (int k = 0; all && k < f->n_inputs; k++) {
    all[k] = k < n ? lanes[k] : sn_lane_make(&x, 1);
    if (k >= n && all[k].v) all[k].v[0] = f->captured[k - n];
  }
  for (int k = 0; roots && k < n_out; k++) roots[k] = res[k].instr;
  sn_instr *root = g->b.status == SN_OK ? sn_build_tuple(&g->b, (uint32_t)n_out, roots) : NULL;
  if (root) sn_computation_set_root(c, root);
  sn_frame_pop(g);
  if (!root || !sn_graph_open(g, at)) return;
  sn_lane r = sn_batch_inline(&x, c, all);
  sn_graph_drop_regions(g, c);
  if (r.v) write_results(at, &x, n_out, &r, out_axes, out);
  if (g->b.status == SN_OK) sn_computation_erase(c);
}
