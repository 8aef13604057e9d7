/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Regions: from the images that convolutions read and write through all that keeps their dimensions
 * apart. */
#include "layout.h"

#include <string.h>

static bool same_dims(const sn_shape *a, const sn_shape *b) {
  return sn_shape_is_array(a) && sn_shape_is_array(b) && a->rank == b->rank &&
         (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static bool is_plain(const sn_instr *i) {
  if (!sn_shape_is_array(i->shape) || i->shape->rank > LO_MAX_RANK ||
      !sn_shape_is_static(i->shape) || i->n_control || i->sharding)
    return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!sn_shape_is_array(sn_operand_shape(i, k)) || !sn_shape_is_static(sn_operand_shape(i, k)))
      return false;
  }
  return true;
}

static bool is_conv(const sn_instr *i) {
  const sn_conv_dims *d = i->op == SN_OP_CONVOLUTION ? sn_instr_conv(i) : NULL;
  return d && is_plain(i) && d->n_spatial > 0 && d->n_spatial + 2 == i->shape->rank &&
         sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT) == 1 && i->shape->rank < LO_MAX_RANK;
}

/* A gradient of a kernel: its window is the image, its result the kernel. */
static bool makes_kernel(const sn_instr *conv) {
  const sn_window *w = sn_instr_window(conv);
  const sn_conv_dims *d = sn_instr_conv(conv);
  int64_t window = 1, image = 1;
  for (int k = 0; w && k < w->rank; k++) {
    window *= w->dims[k].size;
    image *= conv->shape->dims[d->output_spatial[k]];
  }
  return window > image;
}

/* Which operands lie as the result does? False: the op cannot be done in another order. */
static bool moves(const sn_instr *i, uint32_t *n_like) {
  *n_like = i->n_operands;
  if (!is_plain(i)) return false;
  switch (i->op) {
    case SN_OP_BROADCAST:
    case SN_OP_IOTA:
      *n_like = 0;
      return true;
    case SN_OP_PAD:
    case SN_OP_REDUCE_WINDOW:
      *n_like = 1;
      return i->n_operands == 2;
    case SN_OP_SELECT_AND_SCATTER:
      *n_like = 2;
      return true;
    case SN_OP_REVERSE:
    case SN_OP_SLICE:
    case SN_OP_CONCATENATE:
    case SN_OP_TRANSPOSE:
      return true;
    case SN_OP_BITCAST_CONVERT:
      return same_dims(i->shape, sn_operand_shape(i, 0));
    default:
      break;
  }
  if (!sn_op_has(i->op, SN_T_ELTWISE) || i->n_called) return false;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!same_dims(i->shape, sn_operand_shape(i, k)) && !sn_shape_is_scalar(sn_operand_shape(i, k)))
      return false;
  }
  return true;
}

void sn_layout_dims(const lo_region *r, int order, const uint8_t *axis, int rank, int64_t *out) {
  for (int j = 0; j < rank; j++) {
    out[j] = j;
    for (int k = 0; order != LO_WRITTEN && k < rank; k++) {
      if (axis[k] == r->orders[order][j]) out[j] = k;
    }
  }
}

/* ---- growing ---- */

typedef struct grower {
  lo_state *s;
  lo_region *r;
  sn_list todo;
} grower;

static sn_status no_memory(const lo_state *s) {
  return sn_out_of_memory(s->pc->diag, sizeof(lo_region));
}

/* Each value once a region. */
static sn_status add_boundary(lo_state *s, lo_region *r, const sn_instr *x, const uint8_t *axis) {
  if (sn_shape_is_scalar(x->shape) || s->seen[x->id] == r) return SN_OK;
  s->seen[x->id] = r;
  lo_boundary *b = SN_NEW(s->pc->scratch, lo_boundary);
  if (!b) return no_memory(s);
  *b = (lo_boundary){x, axis, r->boundaries};
  r->boundaries = b;
  return SN_OK;
}

/* The map of a transpose's operand from its result's, or the other way round. */
static const uint8_t *axes_through(lo_state *s, const sn_instr *t, const uint8_t *axis, bool up) {
  sn_ints p = sn_instr_ints(t, SN_ATTR_DIMENSIONS);
  uint8_t *to = SN_NEW_N(s->pc->scratch, uint8_t, LO_MAX_RANK);
  for (int64_t k = 0; to && k < p.n; k++) {
    if (up)
      to[p.v[k]] = axis[k];
    else
      to[k] = axis[p.v[k]];
  }
  return to;
}

static sn_status take(grower *g, sn_instr *x, const uint8_t *axis) {
  uint32_t n;
  lo_value *v = lo_value_of(g->s, x);
  if (!axis) return no_memory(g->s);
  if (v->region || sn_shape_is_scalar(x->shape)) return SN_OK;
  if (!moves(x, &n) && !is_conv(x)) return SN_OK;
  *v = (lo_value){g->r, axis, true};
  return x->op == SN_OP_BROADCAST || x->op == SN_OP_IOTA
             ? SN_OK
             : sn_list_push(&g->todo, x); /* what a broadcast is used for elsewhere is no tie */
}

static sn_status take_neighbours(grower *g, sn_instr *x) {
  const uint8_t *axis = lo_value_of(g->s, x)->axis;
  uint32_t n = 0;
  if (!is_conv(x)) (void)moves(x, &n);
  for (uint32_t k = 0; k < n; k++)
    SN_TRY(take(g, sn_instr_operand(x, k),
                x->op == SN_OP_TRANSPOSE ? axes_through(g->s, x, axis, true) : axis));
  SN_FOR_USES(u, x) {
    if (is_conv(u->user) || !moves(u->user, &n) || u->index >= n) continue;
    SN_TRY(take(g, u->user,
                u->user->op == SN_OP_TRANSPOSE ? axes_through(g->s, u->user, axis, false) : axis));
  }
  return SN_OK;
}

/* Where a convolution's operand or result keeps its two special dimensions. */
typedef struct roles {
  int64_t lead, channel;
  const int64_t *spatial;
  bool kernel;
} roles;

static roles roles_of(const sn_instr *conv, int which) {
  const sn_conv_dims *d = sn_instr_conv(conv);
  if (which == 1)
    return (roles){d->kernel_input_feature, d->kernel_output_feature, d->kernel_spatial, true};
  if (which == 2) return (roles){d->output_batch, d->output_feature, d->output_spatial, false};
  return (roles){d->input_batch, d->input_feature, d->input_spatial, false};
}

static lo_region *new_region(lo_state *s, const sn_instr *x, const roles *r, int n_spatial) {
  lo_region *g = SN_NEW(s->pc->scratch, lo_region);
  if (!g) return NULL;
  g->first = x;
  g->image = !r->kernel;
  g->rank = x->shape->rank;
  int last = 0, first = 0;
  if (!r->kernel) g->orders[LO_NHWC][last++] = (uint8_t)r->lead;
  g->orders[LO_NCHW][first++] = (uint8_t)(r->kernel ? r->channel : r->lead);
  g->orders[LO_NCHW][first++] = (uint8_t)(r->kernel ? r->lead : r->channel);
  for (int k = 0; k < n_spatial; k++)
    g->orders[LO_NHWC][last++] = g->orders[LO_NCHW][first++] = (uint8_t)r->spatial[k];
  if (r->kernel) g->orders[LO_NHWC][last++] = (uint8_t)r->lead;
  g->orders[LO_NHWC][last++] = (uint8_t)r->channel;
  for (int k = 0; k < g->rank; k++) g->orders[LO_WRITTEN][k] = (uint8_t)k;
  *s->last_region = g;
  s->last_region = &g->next;
  return g;
}

/* A region around x; alone: x by itself, computed in that order if it is a convolution, else
 * copied. */
static sn_status begin(lo_state *s, const lo_conv *c, int which, bool alone) {
  sn_instr *x = which == 2 ? c->i : sn_instr_operand(c->i, (uint32_t)which);
  uint32_t n;
  if (lo_value_of(s, x)->region || x->shape->rank > LO_MAX_RANK ||
      (!alone && !moves(x, &n) && !is_conv(x)))
    return SN_OK;
  roles r = roles_of(c->i, which);
  lo_region *g = new_region(s, x, &r, sn_instr_conv(c->i)->n_spatial);
  if (!g) return no_memory(s);
  if (alone) {
    *lo_value_of(s, x) = (lo_value){g, g->orders[LO_WRITTEN], is_conv(x)};
    g->image = false;
    return SN_OK;
  }
  grower w = {s, g, {0}};
  sn_status status = take(&w, x, g->orders[LO_WRITTEN]);
  while (status == SN_OK && w.todo.n) status = take_neighbours(&w, sn_list_pop(&w.todo));
  sn_list_finish(&w.todo);
  return status == SN_ERR_MEMORY ? no_memory(s) : status;
}

/* ---- boundaries ---- */

/* Does the reader take the value in any order? Convolutions name their dimensions; sums over some
 * dimensions do too, where the contract lets them run in another order. */
static bool reads_any_order(const lo_state *s, const sn_instr *user) {
  return is_conv(user) ||
         (user->op == SN_OP_REDUCE && s->pc->numeric >= SN_REASSOC && user->n_operands == 2);
}

static sn_status find_boundaries(lo_state *s, const sn_instr *i) {
  lo_value *v = lo_value_of(s, i);
  uint32_t n = 0;
  if (!v->region) return SN_OK;
  if (!v->moves) return add_boundary(s, v->region, i, v->axis);
  if (!is_conv(i)) (void)moves(i, &n);
  for (uint32_t k = 0; k < n; k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    const uint8_t *axis = i->op == SN_OP_TRANSPOSE ? axes_through(s, i, v->axis, true) : v->axis;
    if (!axis) return no_memory(s);
    if (lo_value_of(s, x)->region != v->region) SN_TRY(add_boundary(s, v->region, x, axis));
  }
  bool leaves = sn_instr_is_root(i);
  SN_FOR_USES(u, i)
  leaves |= lo_value_of(s, u->user)->region != v->region && !reads_any_order(s, u->user);
  return leaves ? add_boundary(s, v->region, i, v->axis) : SN_OK;
}

static sn_status touch(lo_state *s, lo_conv *c) {
  for (int k = 0; k < 3; k++) {
    lo_touch *t = SN_NEW(s->pc->scratch, lo_touch);
    c->values[k] = lo_value_of(s, k == 2 ? c->i : sn_instr_operand(c->i, (uint32_t)k));
    if (!t) return no_memory(s);
    if (!c->values[k]->region) continue;
    *t = (lo_touch){c, c->values[k]->region->convs};
    c->values[k]->region->convs = t;
  }
  return SN_OK;
}

sn_status sn_layout_find_regions(lo_state *s) {
  uint32_t n = 0;
  SN_FOR_INSTRS(i, s->c) n += is_conv(i);
  if (!n) return SN_OK;
  s->convs = SN_NEW_N(s->pc->scratch, lo_conv, n);
  if (!s->convs) return no_memory(s);
  SN_FOR_INSTRS(i, s->c) {
    sn_cost cost;
    if (!is_conv(i)) continue;
    sn_cost_of(s->pc->target, i, &cost);
    s->convs[s->n_convs++] = (lo_conv){i, {NULL, NULL, NULL}, cost.flops};
  }
  for (uint32_t k = 0; k < n;
       k++) { /* images first: the kernel of a gradient is an image, its result none */
    if (makes_kernel(s->convs[k].i)) continue;
    SN_TRY(begin(s, &s->convs[k], 2, false));
    SN_TRY(begin(s, &s->convs[k], 0, false));
  }
  for (uint32_t k = 0; k < n; k++) {
    for (int which = 0; which < 3; which++) SN_TRY(begin(s, &s->convs[k], which, true));
  }
  for (uint32_t k = 0; k < n; k++) SN_TRY(touch(s, &s->convs[k]));
  SN_FOR_INSTRS(i, s->c) SN_TRY(find_boundaries(s, i));
  return SN_OK;
}
