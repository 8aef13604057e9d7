/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Normalisation: what was chosen becomes the order of dimensions itself, so that every layout is a
 * default one again. Values of a region are computed anew with their dimensions permuted; whoever
 * reads one from outside reads a transpose of it, which later passes fold into what reads it. */
#include "layout.h"

#include <string.h>

typedef struct relayout {
  lo_state *s;
  sn_instr **made; /* by instruction id: the value in its new order */
  uint32_t n_ids;
} relayout;

/* dims[j]: the dimension that comes to stand at j. */
static void order_of(const relayout *w, const sn_instr *i, int64_t *dims) {
  const lo_value *v = lo_value_of(w->s, i);
  sn_layout_dims(v->region, v->region->chosen, v->axis, i->shape->rank, dims);
}

static bool is_identity(int rank, const int64_t *dims) {
  for (int k = 0; k < rank; k++) {
    if (dims[k] != k) return false;
  }
  return true;
}

static void invert(int rank, const int64_t *dims, int64_t *to) {
  for (int k = 0; k < rank; k++) to[dims[k]] = k;
}

/* x with its dimensions in the order `dims`. */
static sn_instr *ordered(relayout *w, sn_builder *b, sn_instr *x, const int64_t *dims) {
  int64_t own[LO_MAX_RANK];
  if (sn_shape_is_scalar(x->shape)) return x;
  if (w->made[x->id]) {
    order_of(w, x, own);
    if (memcmp(own, dims, (size_t)x->shape->rank * sizeof *own) == 0) return w->made[x->id];
  }
  return sn_build_transpose(b, x, dims);
}

/* An operand of a convolution in its own region's order. */
static sn_instr *operand_of_conv(relayout *w, sn_builder *b, sn_instr *x, int64_t *where) {
  int64_t dims[LO_MAX_RANK];
  if (lo_value_of(w->s, x)->region)
    order_of(w, x, dims);
  else
    for (int k = 0; k < x->shape->rank; k++) dims[k] = k;
  invert(x->shape->rank, dims, where);
  return ordered(w, b, x, dims);
}

static const sn_shape *reordered(const sn_builder *b, const sn_shape *s, const int64_t *order) {
  int64_t dims[LO_MAX_RANK];
  for (int k = 0; k < s->rank; k++) dims[k] = s->dims[order[k]];
  return sn_shape_array(sn_builder_arena(b), s->type, s->rank, dims);
}

/* The same op with `with` in place of the attribute of that name. */
static sn_instr *rebuild(sn_builder *b, const sn_instr *i, const int64_t *order,
                         sn_instr *const *xs, const sn_attr *with) {
  enum { MAX_ATTRS = 16 };
  sn_attr attrs[MAX_ATTRS];
  if (i->n_attrs > MAX_ATTRS) return NULL;
  for (uint16_t k = 0; k < i->n_attrs; k++)
    attrs[k] = with && i->attrs[k].id == with->id ? *with : i->attrs[k];
  const sn_shape *s = reordered(b, i->shape, order);
  if (!s) b->status = SN_ERR_MEMORY;
  return s ? sn_build(b, i->op, s, i->n_operands, xs, i->n_attrs, attrs, i->n_called, i->called)
           : NULL;
}

/* `each` numbers a dimension. */
static sn_attr reorder_ints(const sn_instr *i, sn_attr_id id, int each, const int64_t *order,
                            int64_t *v) {
  sn_ints from = sn_instr_ints(i, id);
  for (int k = 0; k < i->shape->rank; k++)
    memcpy(&v[each * k], &from.v[each * order[k]], (size_t)each * sizeof *v);
  return sn_attr_ints(id, from.n, v);
}

/* Dimensions that are named by number. */
static sn_attr rename_ints(const sn_instr *i, sn_attr_id id, const int64_t *where, int64_t *v) {
  sn_ints from = sn_instr_ints(i, id);
  for (int64_t k = 0; k < from.n; k++) v[k] = where[from.v[k]];
  return sn_attr_ints(id, from.n, v);
}

static sn_instr *window_again(sn_builder *b, const sn_instr *i, const int64_t *order,
                              sn_instr *const *xs) {
  const sn_window *w = sn_instr_window(i);
  sn_window_dim dims[LO_MAX_RANK];
  if (!w) return NULL;
  for (int k = 0; k < w->rank; k++) dims[k] = w->dims[order[k]];
  sn_window again = {w->rank, dims};
  sn_attr a = sn_attr_window(&again);
  return rebuild(b, i, order, xs, &a);
}

static sn_instr *conv_again(relayout *w, sn_builder *b, sn_instr *i, const int64_t *order) {
  int64_t in[LO_MAX_RANK], kernel[LO_MAX_RANK], out[LO_MAX_RANK], spatial[3][LO_MAX_RANK];
  sn_instr *xs[2] = {operand_of_conv(w, b, sn_instr_operand(i, 0), in),
                     operand_of_conv(w, b, sn_instr_operand(i, 1), kernel)};
  sn_conv_dims d = *sn_instr_conv(i);
  invert(i->shape->rank, order, out);
  for (int k = 0; k < d.n_spatial; k++) {
    spatial[0][k] = in[d.input_spatial[k]];
    spatial[1][k] = kernel[d.kernel_spatial[k]];
    spatial[2][k] = out[d.output_spatial[k]];
  }
  d.input_batch = in[d.input_batch];
  d.input_feature = in[d.input_feature];
  d.kernel_input_feature = kernel[d.kernel_input_feature];
  d.kernel_output_feature = kernel[d.kernel_output_feature];
  d.output_batch = out[d.output_batch];
  d.output_feature = out[d.output_feature];
  d.input_spatial = spatial[0];
  d.kernel_spatial = spatial[1];
  d.output_spatial = spatial[2];
  sn_attr labels = sn_attr_conv(&d);
  return rebuild(b, i, order, xs, &labels);
}

static sn_instr *again(relayout *w, sn_builder *b, sn_instr *i, const int64_t *order) {
  int64_t v[3 * LO_MAX_RANK], where[LO_MAX_RANK];
  enum { MAX_OPERANDS = 64 };
  sn_instr *xs[MAX_OPERANDS];
  sn_attr a;
  if (i->op == SN_OP_CONVOLUTION) return conv_again(w, b, i, order);
  if (i->n_operands > MAX_OPERANDS) return NULL;
  invert(i->shape->rank, order, where);
  if (i->op == SN_OP_TRANSPOSE) {
    sn_ints p = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
    for (int k = 0; k < i->shape->rank; k++) v[k] = p.v[order[k]];
    return ordered(w, b, sn_instr_operand(i, 0), v);
  }
  bool leaf = i->op == SN_OP_BROADCAST;
  for (uint32_t k = 0; k < i->n_operands; k++)
    xs[k] = leaf ? sn_instr_operand(i, k) : ordered(w, b, sn_instr_operand(i, k), order);
  switch (i->op) {
    case SN_OP_PAD:
      a = reorder_ints(i, SN_ATTR_PADDING, 3, order, v);
      break;
    case SN_OP_SLICE:
      a = reorder_ints(i, SN_ATTR_SLICE, 3, order, v);
      break;
    case SN_OP_BROADCAST:
    case SN_OP_REVERSE:
    case SN_OP_CONCATENATE:
      a = rename_ints(i, SN_ATTR_DIMENSIONS, where, v);
      break;
    case SN_OP_IOTA:
      a = sn_attr_int(SN_ATTR_IOTA_DIMENSION, where[sn_instr_int(i, SN_ATTR_IOTA_DIMENSION)]);
      break;
    case SN_OP_REDUCE_WINDOW:
    case SN_OP_SELECT_AND_SCATTER:
      return window_again(b, i, order, xs);
    default:
      return rebuild(b, i, order, xs, NULL);
  }
  return rebuild(b, i, order, xs, &a);
}

/* Does anything about it change? A convolution may also read operands in a new order. */
static bool affected(const relayout *w, const sn_instr *i) {
  const lo_value *v = lo_value_of(w->s, i);
  if (i->id >= w->n_ids || !v->region || !v->moves) return false;
  bool is = v->region->chosen != LO_WRITTEN;
  for (uint32_t k = 0; k < 2 && i->op == SN_OP_CONVOLUTION; k++) {
    const lo_value *o = lo_value_of(w->s, sn_instr_operand(i, k));
    is |= o->region && o->region->chosen != LO_WRITTEN;
  }
  return is;
}

static sn_status make(relayout *w, sn_instr *i) {
  int64_t order[LO_MAX_RANK];
  sn_builder b;
  sn_builder_init_at(&b, w->s->pc->diag, i);
  order_of(w, i, order);
  sn_instr *by = again(w, &b, i, order);
  if (b.status != SN_OK)
    return b.status == SN_ERR_MEMORY ? sn_out_of_memory(w->s->pc->diag, sizeof *by) : b.status;
  if (!by) return SN_OK; /* it stays as it was: readers see a transpose of it */
  w->made[i->id] = by;
  return by->op == i->op && i->op != SN_OP_TRANSPOSE ? sn_instr_copy_notes(by, i) : SN_OK;
}

/* Readers outside get the value in the order in which it was written. */
static sn_status hand_out(relayout *w, sn_instr *i) {
  int64_t order[LO_MAX_RANK], back[LO_MAX_RANK];
  sn_builder b;
  sn_builder_init_at(&b, w->s->pc->diag, i);
  order_of(w, i, order);
  invert(i->shape->rank, order, back);
  sn_instr *as_written = is_identity(i->shape->rank, order)
                             ? w->made[i->id]
                             : sn_build_transpose(&b, w->made[i->id], back);
  if (!as_written)
    return b.status == SN_ERR_MEMORY ? sn_out_of_memory(w->s->pc->diag, sizeof *b.c) : b.status;
  return sn_pass_forward(w->s->pc, i, as_written);
}

sn_status sn_layout_relayout(lo_state *s) {
  relayout w = {s, NULL, s->c->module->n_ids};
  w.made = SN_NEW_N(s->pc->scratch, sn_instr *, w.n_ids + 1);
  if (!w.made) return sn_out_of_memory(s->pc->diag, w.n_ids * sizeof *w.made);
  for (sn_instr *i = s->c->first, *next; i; i = next) {
    next = i->next;
    if (affected(&w, i)) SN_TRY(make(&w, i));
  }
  for (sn_instr *i = s->c->first, *next; i; i = next) {
    next = i->next;
    if (i->id < w.n_ids && w.made[i->id]) SN_TRY(hand_out(&w, i));
  }
  for (sn_instr *i = s->c->last, *before; i; i = before) {
    before = i->prev;
    if (i->id < w.n_ids && w.made[i->id]) sn_instr_erase(i);
  }
  return SN_OK;
}
