/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The two sweeps. Reverse mode visits the instructions between the results and wrt once, last to first; a region
 * (checkpoint, custom derivative) is handled where its last instruction stands and then stepped over. */
#include <string.h>

#include "diff_internal.h"

void sn_diff_no_rule(sn_diff *d, const sn_instr *i, const char *mode) {
  if (!sn_diff_ok(d)) return;
  sn_graph_fail(d->g, i->loc, SN_ERR_UNSUPPORTED, "%s (%s) has no %s-mode derivative", sn_opcode_text(i->op), i->name,
                mode);
  sn_graph_hint(d->g, "wrap it in sn_custom_vjp, or keep derivatives from it with sn_stop_gradient");
}

static void cover(sn_diff *d, const sn_instr *i) {
  if (i->id < d->lo) d->lo = i->id;
  if (i->id >= d->hi) d->hi = i->id + 1;
}

/* The walk goes over what stands behind `after` (NULL: over everything). */
static bool begin(sn_diff *d, sn_graph *g, const sn_instr *after, int n, sn_instr *const *wrt) {
  memset(d, 0, sizeof *d);
  d->g = g;
  d->b = &g->b;
  d->after = after;
  d->lo = UINT32_MAX;
  for (int k = 0; k < n; k++) cover(d, wrt[k]);
  for (const sn_instr *i = after ? after->next : g->b.c->first; i; i = i->next) cover(d, i);
  if (d->lo > d->hi) d->lo = d->hi;
  d->slots = SN_NEW_N(g->arena, sn_diff_slot, d->hi - d->lo + 1);
  if (!d->slots) sn_graph_no_memory(g);
  return sn_diff_ok(d);
}

static void end(sn_diff *d) {
  sn_map_destroy(d->ends);
  d->ends = NULL;
}

/* Region lookup by the instruction at which a sweep meets it. Outer regions win: they come later in the list when they
 * end at the same place. */
static void index_regions(sn_diff *d, bool by_last) {
  sn_map_destroy(d->ends);
  d->ends = NULL;
  for (sn_region *r = d->g->regions; r; r = r->next) {
    if (r->comp != d->b->c || !r->last || (by_last && r->kind == SN_REGION_JVP) ||
        (!by_last && r->kind != SN_REGION_JVP))
      continue;
    if (!d->ends && sn_map_create(&d->ends) != SN_OK) {
      sn_graph_no_memory(d->g);
      return;
    }
    const sn_instr *at = by_last ? r->last : r->first;
    if (!sn_map_get_u64(d->ends, at->id) && sn_map_set_u64(d->ends, at->id, r) != SN_OK) sn_graph_no_memory(d->g);
  }
}

static sn_region *region_at(sn_diff *d, const sn_instr *i) { return d->ends ? sn_map_get_u64(d->ends, i->id) : NULL; }

static sn_tensor *tensors(sn_diff *d, int n, sn_instr *const *list) {
  sn_tensor *t = SN_NEW_N(d->g->arena, sn_tensor, n + 1);
  if (!t) sn_graph_no_memory(d->g);
  for (int k = 0; t && k < n; k++) t[k] = sn_graph_tensor(d->g, list ? list[k] : NULL);
  return t;
}

/* ---- forward ---- */

static void forward_instr(sn_diff *d, sn_instr *i) {
  const sn_diff_rule *rule = sn_diff_rules[i->op];
  sn_diff_activity_instr(d, i);
  if (!sn_diff_active(d, i)) return;
  int n = sn_diff_elements(i);
  sn_instr **out = SN_NEW_N(d->g->arena, sn_instr *, n);
  if (!out) {
    sn_graph_no_memory(d->g);
    return;
  }
  d->b->loc = i->loc;
  d->b->metadata = i->metadata;
  if (rule->factor)
    out[0] = sn_d_mul(d, sn_diff_tangent(d, i, 0), rule->factor(d, i));
  else if (rule->divisor)
    out[0] = sn_d_div(d, sn_diff_tangent(d, i, 0), rule->divisor(d, i));
  else if (rule->jvp)
    rule->jvp(d, i, out);
  else
    sn_diff_no_rule(d, i, "forward");
  for (int k = 0; k < n && sn_diff_ok(d); k++) sn_diff_put(d, i, k, out[k]);
}

/* Does something behind the region read a value inside it that is none of its results? */
static bool leaks(const sn_region *r) {
  sn_map *inside;
  bool found = false;
  if (sn_map_create(&inside) != SN_OK) return true;
  for (sn_instr *i = r->first;; i = i->next) {
    if (sn_map_set_u64(inside, i->id, i) != SN_OK) found = true;
    if (i == r->last) break;
  }
  for (sn_instr *i = r->first; !found; i = i->next) {
    bool is_result = false;
    for (int k = 0; k < r->n_out; k++) is_result |= r->out[k] == i;
    SN_FOR_USES(u, i) found |= !is_result && !sn_map_get_u64(inside, u->user->id);
    if (i == r->last) break;
  }
  sn_map_destroy(inside);
  return found;
}

/* A custom rule gives the tangents of the region's results; inner values that derivatives taken before read get theirs
 * by the ordinary rules. */
static sn_instr *forward_region(sn_diff *d, sn_region *r) {
  bool any = false;
  for (int k = 0; k < r->n_in; k++) any |= sn_diff_active(d, r->in[k]) && sn_diff_get(d, r->in[k], 0);
  sn_tensor *in = tensors(d, r->n_in, r->in), *tan = tensors(d, r->n_in, NULL), *out = tensors(d, r->n_out, r->out),
            *res = tensors(d, r->n_out, NULL);
  if (!sn_diff_ok(d) || !any) return r->last;
  bool inner = leaks(r);
  for (sn_instr *i = r->first; inner && sn_diff_ok(d); i = i->next) {
    if (!sn_diff_active(d, i)) forward_instr(d, i);
    if (i == r->last) break;
  }
  for (int k = 0; k < r->n_in; k++) {
    sn_instr *t = sn_diff_get(d, r->in[k], 0);
    tan[k] = sn_graph_tensor(d->g, t ? t : sn_d_zeros(d, r->in[k]->shape));
  }
  ((sn_jvp_fn)r->fn)(r->ctx, d->g, r->n_in, in, tan, r->n_out, out, res);
  for (int k = 0; k < r->n_out && sn_diff_ok(d); k++) {
    if (!res[k].instr || !sn_diff_type(r->out[k]->shape->type)) continue;
    sn_diff_set_active(d, r->out[k], 0);
    sn_diff_put(d, r->out[k], 0, sn_graph_use(d->g, r->out[k]->loc, res[k]));
  }
  return r->last;
}

void sn_sweep_forward(sn_graph *g, sn_instr *after, int n_outs, sn_instr *const *outs, int n, sn_instr *const *wrt,
                      sn_instr *const *tangents, sn_instr **out) {
  sn_diff d;
  sn_loc loc = g->b.loc;
  const sn_metadata *md = g->b.metadata;
  for (int k = 0; k < n_outs; k++) out[k] = NULL;
  if (!begin(&d, g, after, n, wrt)) return;
  for (int k = 0; k < n; k++) {
    if (!tangents[k] || !sn_diff_type(wrt[k]->shape->type)) continue;
    sn_diff_set_active(&d, wrt[k], 0);
    sn_diff_put(&d, wrt[k], 0, tangents[k]);
  }
  index_regions(&d, false);
  sn_instr *last = g->b.c->last, *first = after ? after->next : g->b.c->first;
  for (sn_instr *i = first; i && sn_diff_ok(&d); i = i->next) {
    sn_region *r = region_at(&d, i);
    if (r)
      i = forward_region(&d, r);
    else if (!sn_diff_active(&d, i))
      forward_instr(&d, i); /* a wrt keeps the tangent it was given */
    if (i == last) break;
  }
  for (int k = 0; k < n_outs && sn_diff_ok(&d); k++) out[k] = sn_diff_get(&d, outs[k], 0);
  end(&d);
  g->b.loc = loc;
  g->b.metadata = md;
}

/* ---- reverse ---- */

static void reverse_instr(sn_diff *d, sn_instr *i) {
  sn_diff_slot *s = sn_diff_slot_of(d, i);
  if (!s || !s->active || i->n_operands == 0) return;
  sn_instr *const *ct = sn_shape_is_tuple(i->shape) ? s->many : s->one ? &s->one : NULL;
  if (!ct) return;
  bool any = false;
  for (uint32_t k = 0; k < i->n_operands && !any; k++) any = sn_diff_wants(d, i, k);
  if (!any) return;
  const sn_diff_rule *rule = sn_diff_rules[i->op];
  sn_instr *copy = *ct; /* slots may move while the rule makes new ones */
  if (!sn_shape_is_tuple(i->shape)) ct = &copy;
  d->b->loc = i->loc;
  d->b->metadata = i->metadata;
  if (rule->factor)
    sn_diff_give(d, i, 0, sn_d_mul(d, copy, rule->factor(d, i)));
  else if (rule->divisor)
    sn_diff_give(d, i, 0, sn_d_div(d, copy, rule->divisor(d, i)));
  else if (rule->vjp)
    rule->vjp(d, i, ct);
  else
    sn_diff_no_rule(d, i, "reverse");
}

static sn_instr *reverse_list(sn_diff *d, sn_instr *from, const sn_instr *before);

static void reverse_custom(sn_diff *d, sn_region *r) {
  bool any = false;
  for (int k = 0; k < r->n_out; k++) any |= sn_diff_get(d, r->out[k], 0) != NULL;
  sn_tensor *in = tensors(d, r->n_in, r->in), *out = tensors(d, r->n_out, r->out), *ct = tensors(d, r->n_out, NULL),
            *res = tensors(d, r->n_in, NULL);
  if (!sn_diff_ok(d) || !any) return;
  for (int k = 0; k < r->n_out; k++) {
    sn_instr *c = sn_diff_get(d, r->out[k], 0);
    ct[k] = sn_graph_tensor(d->g, c ? c : sn_d_zeros(d, r->out[k]->shape));
  }
  ((sn_vjp_fn)r->fn)(r->ctx, d->g, r->n_in, in, r->n_out, out, ct, res);
  for (int k = 0; k < r->n_in && sn_diff_ok(d); k++) {
    if (!res[k].instr) continue;
    sn_instr *c = sn_graph_use(d->g, r->last->loc, res[k]);
    if (c && !sn_shape_equal(c->shape, r->in[k]->shape, 0)) {
      sn_graph_fail(d->g, r->last->loc, SN_ERR_SHAPE, "custom_vjp: the cotangent of input %d is %s, the input %s", k,
                    sn_tensor_text(res[k]), sn_tensor_text(in[k]));
      return;
    }
    sn_diff_add_to(d, r->in[k], 0, c);
  }
}

/* ---- regions computed again ---- */

/* A value that costs nothing to have again: no barrier, no copy. */
static bool is_free(const sn_instr *i) {
  return i->op == SN_OP_IOTA || (i->op == SN_OP_CONSTANT && i->shape->rank == 0) ||
         (i->op == SN_OP_BROADCAST && sn_op0(i)->op == SN_OP_CONSTANT && sn_op0(i)->shape->rank == 0);
}

typedef struct remat {
  sn_diff *d;
  sn_region *r;
  sn_map *copy;     /* id of an original -> what stands for it */
  sn_instr **outer; /* values from outside the region, then cotangents of its results */
  int n_outer, n_ct, cap;
  sn_instr **ct_of; /* the originals whose cotangents came along */
} remat;

static void note(remat *m, sn_instr *i) {
  if (m->n_outer + m->n_ct == m->cap) {
    int cap = m->cap ? 2 * m->cap : 32;
    sn_instr **p = SN_NEW_N(m->d->g->arena, sn_instr *, cap);
    if (!p) {
      sn_graph_no_memory(m->d->g);
      return;
    }
    if (m->cap) memcpy(p, m->outer, (size_t)m->cap * sizeof *p);
    m->outer = p;
    m->cap = cap;
  }
  m->outer[m->n_outer++] = i;
}

/* Inputs of the region: operands made outside of it. */
static void find_outer(remat *m) {
  sn_map *inside;
  if (sn_map_create(&inside) != SN_OK) {
    sn_graph_no_memory(m->d->g);
    return;
  }
  for (sn_instr *i = m->r->first;; i = i->next) {
    for (uint32_t k = 0; k < i->n_operands && sn_diff_ok(m->d); k++) {
      sn_instr *o = sn_instr_operand(i, k);
      if (is_free(o) || sn_map_get_u64(inside, o->id)) continue;
      note(m, o);
      if (sn_map_set_u64(inside, o->id, o) != SN_OK) sn_graph_no_memory(m->d->g);
    }
    if (sn_map_set_u64(inside, i->id, i) != SN_OK) sn_graph_no_memory(m->d->g);
    if (i == m->r->last || !sn_diff_ok(m->d)) break;
  }
  sn_map_destroy(inside);
}

static void behind_barrier(remat *m) {
  sn_diff *d = m->d;
  int n = m->n_outer;
  m->ct_of = SN_NEW_N(d->g->arena, sn_instr *, m->r->n_out + 1);
  if (!m->ct_of) sn_graph_no_memory(d->g);
  int n_ct = 0;
  for (int k = 0; k < m->r->n_out && sn_diff_ok(d); k++) {
    sn_instr *ct = sn_diff_get(d, m->r->out[k], 0);
    bool twice = false;
    for (int j = 0; j < n_ct; j++) twice |= m->ct_of[j] == m->r->out[k];
    if (!ct || twice) continue;
    m->ct_of[n_ct++] = m->r->out[k];
    note(m, ct);
  }
  if (!sn_diff_ok(d) || !m->n_outer) return;
  sn_instr *t = sn_build_tuple(d->b, (uint32_t)m->n_outer, m->outer),
           *wall = t ? sn_build_unary(d->b, SN_OP_OPT_BARRIER, t) : NULL;
  for (int k = 0; k < m->n_outer && wall; k++) {
    sn_instr *e = sn_build_get(d->b, wall, k);
    if (!e) return;
    if (k < n) {
      if (sn_map_set_u64(m->copy, m->outer[k]->id, e) != SN_OK) sn_graph_no_memory(d->g);
      if (sn_diff_active(d, m->outer[k])) sn_diff_set_active(d, e, 0);
    } else {
      sn_diff_put(d, m->ct_of[k - n], 0, e);
    }
  }
  m->n_outer = n;
  m->n_ct = n_ct;
}

static sn_instr *copy_instr(remat *m, sn_instr *i, const char *number) {
  sn_diff *d = m->d;
  sn_instr **operands = SN_NEW_N(d->g->arena, sn_instr *, i->n_operands + 1), *c = NULL;
  if (!operands) {
    sn_graph_no_memory(d->g);
    return NULL;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *o = sn_instr_operand(i, k), *to = sn_map_get_u64(m->copy, o->id);
    operands[k] = to ? to : o;
  }
  sn_status s = sn_instr_clone(i, d->b->c, operands, NULL, &c);
  if (s == SN_OK) s = sn_instr_set_frontend(c, "sinter.remat", number);
  if (s == SN_OK) s = sn_map_set_u64(m->copy, i->id, c);
  if (s != SN_OK) {
    if (d->b->status == SN_OK) d->b->status = s;
    return NULL;
  }
  for (int k = 0; k < sn_diff_elements(i); k++) {
    if (sn_diff_active_element(d, i, k)) sn_diff_set_active(d, c, k);
    sn_instr *ct = sn_diff_get(d, i, k);
    if (ct) sn_diff_put(d, c, k, ct);
  }
  return c;
}

/* Custom rules inside the region hold for its copy too. */
static void copy_inner_regions(remat *m) {
  sn_graph *g = m->d->g;
  for (sn_region *r = g->regions, *next; r; r = next) {
    next = r->next;
    if (r == m->r || r->comp != m->d->b->c || r->kind == SN_REGION_REMAT || !r->last) continue;
    sn_instr *first = sn_map_get_u64(m->copy, r->first->id), *last = sn_map_get_u64(m->copy, r->last->id);
    if (!first || !last) continue;
    sn_instr **in = SN_NEW_N(g->arena, sn_instr *, r->n_in + 1), **out = SN_NEW_N(g->arena, sn_instr *, r->n_out + 1);
    if (!in || !out) {
      sn_graph_no_memory(g);
      return;
    }
    for (int k = 0; k < r->n_in; k++)
      in[k] = sn_map_get_u64(m->copy, r->in[k]->id) ? sn_map_get_u64(m->copy, r->in[k]->id) : r->in[k];
    for (int k = 0; k < r->n_out; k++)
      out[k] = sn_map_get_u64(m->copy, r->out[k]->id) ? sn_map_get_u64(m->copy, r->out[k]->id) : r->out[k];
    sn_region *c = sn_graph_region(g, r->kind, NULL, r->n_in, in, r->n_out, out);
    if (!c) return;
    c->first = first;
    c->last = last;
    c->fn = r->fn;
    c->ctx = r->ctx;
  }
}

static void reverse_copy(remat *m) {
  sn_diff *d = m->d;
  char number[16];
  snprintf(number, sizeof number, "%u", m->r->number);
  sn_instr *first = NULL, *last = NULL;
  for (sn_instr *i = m->r->first; sn_diff_ok(d); i = i->next) {
    if (!is_free(i)) {
      last = copy_instr(m, i, number);
      if (!first) first = last;
    }
    if (i == m->r->last) break;
  }
  if (!sn_diff_ok(d) || !first) return;
  copy_inner_regions(m);
  index_regions(d, true);
  reverse_list(d, last, first->prev);
  for (int k = 0; k < m->n_outer && sn_diff_ok(d); k++) {
    sn_instr *e = sn_map_get_u64(m->copy, m->outer[k]->id);
    for (int j = 0; e && j < sn_diff_elements(e); j++) sn_diff_add_to(d, m->outer[k], j, sn_diff_get(d, e, j));
  }
}

/* Has any value of the region a cotangent? Tangents taken before read inner values too. */
static bool has_cotangent(sn_diff *d, const sn_region *r) {
  for (sn_instr *i = r->first;; i = i->next) {
    for (int k = 0; k < sn_diff_elements(i); k++)
      if (sn_diff_get(d, i, k)) return true;
    if (i == r->last) return false;
  }
}

static void reverse_remat(sn_diff *d, sn_region *r) {
  if (!has_cotangent(d, r)) return;
  remat m = {.d = d, .r = r};
  if (sn_map_create(&m.copy) != SN_OK) {
    sn_graph_no_memory(d->g);
    return;
  }
  find_outer(&m);
  if (sn_diff_ok(d)) behind_barrier(&m);
  if (sn_diff_ok(d)) reverse_copy(&m);
  sn_map_destroy(m.copy);
}

static sn_instr *reverse_list(sn_diff *d, sn_instr *from, const sn_instr *before) {
  for (sn_instr *i = from; i && i != before && sn_diff_ok(d); i = i->prev) {
    sn_region *r = region_at(d, i);
    if (!r) {
      reverse_instr(d, i);
      continue;
    }
    sn_instr *first = r->first; /* wherever rules put new instructions */
    if (r->kind == SN_REGION_VJP)
      reverse_custom(d, r);
    else
      reverse_remat(d, r);
    i = first;
  }
  return from;
}

/* What depends on wrt, in list order. A custom region's results depend on its inputs alone. */
static void mark(sn_diff *d, int n, sn_instr *const *wrt) {
  for (int k = 0; k < n; k++)
    if (sn_diff_type(wrt[k]->shape->type)) sn_diff_set_active(d, wrt[k], 0);
  for (sn_instr *i = d->after ? d->after->next : d->b->c->first; i; i = i->next) {
    if (!sn_diff_ok(d)) return;
    sn_diff_activity_instr(d, i);
    sn_region *r = region_at(d, i);
    if (!r || r->kind != SN_REGION_VJP) continue;
    bool any = false;
    for (int k = 0; k < r->n_in; k++) any |= sn_diff_active(d, r->in[k]);
    for (int k = 0; any && k < r->n_out; k++)
      if (sn_diff_type(r->out[k]->shape->type)) sn_diff_set_active(d, r->out[k], 0);
  }
}

void sn_sweep_reverse(sn_graph *g, sn_instr *after, int n_outs, sn_instr *const *outs, sn_instr *const *cts, int n,
                      sn_instr *const *wrt, sn_instr **out) {
  sn_diff d;
  sn_loc loc = g->b.loc;
  const sn_metadata *md = g->b.metadata;
  for (int k = 0; k < n; k++) out[k] = NULL;
  if (!begin(&d, g, after, n, wrt)) return;
  index_regions(&d, true);
  mark(&d, n, wrt);
  for (int k = 0; k < n_outs && sn_diff_ok(&d); k++) sn_diff_add_to(&d, outs[k], 0, cts[k]);
  if (sn_diff_ok(&d)) reverse_list(&d, g->b.c->last, after);
  for (int k = 0; k < n && sn_diff_ok(&d); k++) out[k] = sn_diff_get(&d, wrt[k], 0);
  end(&d);
  g->b.loc = loc;
  g->b.metadata = md;
}
