/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Data movement is linear: forward mode moves the tangent in the same way, reverse mode moves the cotangent back. */
#include <string.h>

#include "diff_internal.h"

#define X sn_op0(i)
#define DIMS sn_instr_ints(i, SN_ATTR_DIMENSIONS)

/* Ops with one data operand in front: the same op on its tangent, the other operands as they are. */
static void same_op_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *operands[SN_MAX_RANK + 2], *t = sn_diff_tangent(d, i, 0);
  if (!t || i->n_operands > SN_MAX_RANK + 2) return;
  operands[0] = t;
  for (uint32_t k = 1; k < i->n_operands; k++) operands[k] = sn_instr_operand(i, k);
  const sn_shape *s = i->shape->type == t->shape->type
                          ? i->shape
                          : sn_shape_with_type(sn_builder_arena(d->b), i->shape, t->shape->type);
  *out = sn_build(d->b, i->op, s, i->n_operands, operands, i->n_attrs, i->attrs, i->n_called, i->called);
}

/* ---- broadcast, reshape, transpose, reverse ---- */

static void broadcast_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_ints at = DIMS;
  int64_t axes[SN_MAX_RANK], order[SN_MAX_RANK];
  int n = 0, left = 0;
  for (int k = 0; k < i->shape->rank; k++) {
    int operand = -1;
    for (int j = 0; j < at.n; j++)
      if (at.v[j] == k) operand = j;
    if (operand < 0)
      axes[n++] = k;
    else
      order[left++] = operand; /* what the sum leaves at place `left` is the operand's axis */
  }
  sn_instr *s = sn_d_sum(d, ct[0], n, axes);
  int64_t p[SN_MAX_RANK];
  for (int k = 0; k < left; k++) p[order[k]] = k;
  sn_diff_give(d, i, 0, s ? sn_build_transpose(d->b, s, p) : NULL);
}
const sn_diff_rule sn_diff_broadcast = {.name = "broadcast", .vjp = broadcast_vjp, .jvp = same_op_jvp};

static void reshape_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, sn_build_reshape(d->b, ct[0], X->shape->rank, X->shape->dims));
}
static void reshape_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t = sn_diff_tangent(d, i, 0);
  if (t) *out = sn_build_reshape(d->b, t, i->shape->rank, i->shape->dims);
}
const sn_diff_rule sn_diff_reshape = {.name = "reshape", .vjp = reshape_vjp, .jvp = reshape_jvp};

static void transpose_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  int64_t p[SN_MAX_RANK];
  for (int k = 0; k < i->shape->rank; k++) p[DIMS.v[k]] = k;
  sn_diff_give(d, i, 0, sn_build_transpose(d->b, ct[0], p));
}
const sn_diff_rule sn_diff_transpose = {.name = "transpose", .vjp = transpose_vjp, .jvp = same_op_jvp};

static void reverse_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, sn_build_reverse(d->b, ct[0], (int)DIMS.n, DIMS.v));
}
const sn_diff_rule sn_diff_reverse = {.name = "reverse", .vjp = reverse_vjp, .jvp = same_op_jvp};

/* Layouts aside a bitcast is a reshape with or without a transpose; the frontends make none. */
const sn_diff_rule sn_diff_bitcast = {.name = "bitcast"};

/* ---- slice, pad, concatenate ---- */

static void slice_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_ints s = sn_instr_ints(i, SN_ATTR_SLICE);
  int64_t low[SN_MAX_RANK], high[SN_MAX_RANK], interior[SN_MAX_RANK];
  for (int k = 0; k < i->shape->rank; k++) {
    int64_t start = s.v[3 * k], stride = s.v[3 * k + 2], n = i->shape->dims[k];
    low[k] = start;
    interior[k] = n ? stride - 1 : 0;
    high[k] = X->shape->dims[k] - start - (n ? (n - 1) * stride + 1 : 0);
  }
  sn_diff_give(d, i, 0, sn_build_pad(d->b, ct[0], sn_d_scalar(d, ct[0]->shape->type, 0), low, high, interior));
}
const sn_diff_rule sn_diff_slice = {.name = "slice", .vjp = slice_vjp, .jvp = same_op_jvp};

/* The part of a padded array that came from the operand: undo low and high, then step over the interior. */
static sn_instr *unpad(sn_diff *d, sn_instr *i, sn_instr *ct) {
  sn_ints p = sn_instr_ints(i, SN_ATTR_PADDING);
  int64_t low[SN_MAX_RANK], high[SN_MAX_RANK], start[SN_MAX_RANK] = {0}, stride[SN_MAX_RANK];
  bool strided = false, negative = false;
  for (int k = 0; k < i->shape->rank; k++) {
    low[k] = -p.v[3 * k];
    high[k] = -p.v[3 * k + 1];
    stride[k] = p.v[3 * k + 2] + 1;
    strided |= stride[k] != 1;
    negative |= low[k] || high[k];
  }
  if (negative) ct = sn_build_pad(d->b, ct, sn_d_scalar(d, ct->shape->type, 0), low, high, NULL);
  return strided && ct ? sn_build_slice(d->b, ct, start, ct->shape->dims, stride) : ct;
}
static void pad_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *inner = unpad(d, i, ct[0]);
  sn_diff_give(d, i, 0, inner);
  if (!sn_diff_wants(d, i, 1)) return;
  int64_t all[SN_MAX_RANK];
  for (int k = 0; k < i->shape->rank; k++) all[k] = k;
  sn_diff_give(d, i, 1, sn_d_sub(d, sn_d_sum(d, ct[0], i->shape->rank, all), sn_d_sum(d, inner, i->shape->rank, all)));
}
static void pad_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *t[2] = {sn_diff_tangent(d, i, 0), sn_diff_tangent(d, i, 1)};
  if (!t[0] && !t[1]) return;
  if (!t[0]) t[0] = sn_d_like(d, X, 0);
  if (!t[1]) t[1] = sn_d_like(d, sn_op1(i), 0);
  *out = sn_d_again(d, i, 2, t);
}
const sn_diff_rule sn_diff_pad = {.name = "pad", .vjp = pad_vjp, .jvp = pad_jvp};

static void concatenate_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  int64_t axis = DIMS.v[0], at = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    int64_t n = sn_operand_shape(i, k)->dims[axis];
    if (sn_diff_wants(d, i, k)) sn_diff_give(d, i, k, sn_build_slice_dim(d->b, ct[0], axis, at, at + n));
    at += n;
  }
}
static void concatenate_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr **t = SN_NEW_N(d->g->arena, sn_instr *, i->n_operands);
  if (!t) {
    sn_graph_no_memory(d->g);
    return;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) {
    t[k] = sn_diff_tangent(d, i, k);
    if (!t[k]) t[k] = sn_d_like(d, sn_instr_operand(i, k), 0);
  }
  *out = sn_build_concatenate(d->b, i->n_operands, t, DIMS.v[0]);
}
const sn_diff_rule sn_diff_concatenate = {.name = "concatenate", .vjp = concatenate_vjp, .jvp = concatenate_jvp};

/* ---- dynamic slices ---- */

static void starts_of(sn_instr *i, uint32_t from, sn_instr **out) {
  for (uint32_t k = from; k < i->n_operands; k++) out[k - from] = sn_instr_operand(i, k);
}

static void dynamic_slice_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *starts[SN_MAX_RANK];
  starts_of(i, 1, starts);
  sn_diff_give(d, i, 0, sn_build_dynamic_update_slice(d->b, sn_d_like(d, X, 0), ct[0], starts));
}
const sn_diff_rule sn_diff_dynamic_slice = {.name = "dynamic_slice", .vjp = dynamic_slice_vjp, .jvp = same_op_jvp};

static void dynamic_update_slice_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_instr *starts[SN_MAX_RANK], *u = sn_op1(i);
  starts_of(i, 2, starts);
  if (sn_diff_wants(d, i, 0))
    sn_diff_give(d, i, 0, sn_build_dynamic_update_slice(d->b, ct[0], sn_d_like(d, u, 0), starts));
  if (sn_diff_wants(d, i, 1)) sn_diff_give(d, i, 1, sn_build_dynamic_slice(d->b, ct[0], starts, u->shape->dims));
}
static void dynamic_update_slice_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_instr *starts[SN_MAX_RANK], *tx = sn_diff_tangent(d, i, 0), *tu = sn_diff_tangent(d, i, 1);
  if (!tx && !tu) return;
  starts_of(i, 2, starts);
  *out =
      sn_build_dynamic_update_slice(d->b, tx ? tx : sn_d_like(d, X, 0), tu ? tu : sn_d_like(d, sn_op1(i), 0), starts);
}
const sn_diff_rule sn_diff_dynamic_update_slice = {
    .name = "dynamic_update_slice", .vjp = dynamic_update_slice_vjp, .jvp = dynamic_update_slice_jvp};

/* ---- gather and scatter ---- */

/* The scatter that puts each element of a gather's result back where it was read, adding. HLO clamps the start of a
 * slice that would reach over the edge, and scatter drops it: indices are clamped first. */
static sn_instr *clamped_indices(sn_diff *d, sn_instr *x, sn_instr *indices, sn_ints map, const int64_t *sizes,
                                 int64_t vector_dim) {
  const sn_shape *s = indices->shape;
  sn_arena *a = sn_builder_arena(d->b);
  int64_t n = map.n;
  int64_t *top = SN_NEW_N(d->g->arena, int64_t, n + 1);
  sn_array *bound = NULL;
  const sn_shape *bs = sn_shape_array(a, s->type, 1, &n);
  if (!top || !bs || sn_array_create_zero(bs, &bound) != SN_OK) {
    sn_graph_no_memory(d->g);
    return NULL;
  }
  for (int k = 0; k < n; k++) {
    top[k] = x->shape->dims[map.v[k]] - sizes[map.v[k]];
    sn_store_i64(s->type, (char *)sn_array_data(bound) + (size_t)k * sn_type_bytes(s->type), top[k]);
  }
  sn_instr *high = NULL;
  bool uniform = true;
  for (int k = 1; k < n; k++) uniform &= top[k] == top[0];
  if (uniform && n) {
    high = sn_graph_scalar_i64(d->g, s->type, top[0]);
  } else if (vector_dim < s->rank) {
    sn_instr *c = sn_build_constant(d->b, bound);
    high = c ? sn_build_broadcast(d->b, c, s->rank, s->dims, 1, &vector_dim) : NULL;
  }
  sn_array_release(bound);
  sn_instr *low = sn_graph_scalar_i64(d->g, s->type, 0);
  if (high && high->shape->rank) low = sn_graph_fill(d->g, low, s->rank, s->dims);
  return high ? sn_build_clamp(d->b, low, indices, high) : indices;
}

static sn_instr *scatter_of_gather(sn_diff *d, sn_instr *i, sn_instr *zero, sn_instr *ct) {
  sn_ints map = sn_instr_ints(i, SN_ATTR_START_INDEX_MAP), sizes = sn_instr_ints(i, SN_ATTR_SLICE_SIZES);
  int64_t vector_dim = sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM);
  sn_ints offset = sn_instr_ints(i, SN_ATTR_OFFSET_DIMS), collapsed = sn_instr_ints(i, SN_ATTR_COLLAPSED_SLICE_DIMS);
  sn_ints ob = sn_instr_ints(i, SN_ATTR_OPERAND_BATCHING_DIMS),
          sb = sn_instr_ints(i, SN_ATTR_START_INDICES_BATCHING_DIMS);
  sn_attr attrs[] = {
      sn_attr_ints(SN_ATTR_UPDATE_WINDOW_DIMS, offset.n, offset.v),
      sn_attr_ints(SN_ATTR_INSERTED_WINDOW_DIMS, collapsed.n, collapsed.v),
      sn_attr_ints(SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, map.n, map.v),
      sn_attr_ints(SN_ATTR_INPUT_BATCHING_DIMS, ob.n, ob.v),
      sn_attr_ints(SN_ATTR_SCATTER_INDICES_BATCHING_DIMS, sb.n, sb.v),
      sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, vector_dim),
      sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, sn_instr_int(i, SN_ATTR_INDICES_ARE_SORTED)),
  };
  sn_instr *operands[3] = {zero, clamped_indices(d, X, sn_op1(i), map, sizes.v, vector_dim), ct};
  sn_computation *add = sn_build_reducer(d->b, SN_OP_ADD, ct->shape->type);
  return operands[1] && add
             ? sn_build(d->b, SN_OP_SCATTER, NULL, 3, operands, sizeof attrs / sizeof *attrs, attrs, 1, &add)
             : NULL;
}

sn_instr *sn_d_gather_back(sn_diff *d, sn_instr *gather, sn_instr *ct) {
  return scatter_of_gather(d, gather, sn_d_like(d, sn_op0(gather), 0), ct);
}

static void gather_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_diff_give(d, i, 0, sn_d_gather_back(d, i, ct[0]));
}
const sn_diff_rule sn_diff_gather = {.name = "gather", .vjp = gather_vjp, .jvp = same_op_jvp};

/* Which elements of the updates a scatter took (those whose window fits) decides a mask; the gather below reads where
 * it wrote. */
static bool window_sizes(sn_instr *i, int64_t *sizes) {
  sn_ints window = sn_instr_ints(i, SN_ATTR_UPDATE_WINDOW_DIMS),
          inserted = sn_instr_ints(i, SN_ATTR_INSERTED_WINDOW_DIMS);
  sn_ints batch = sn_instr_ints(i, SN_ATTR_INPUT_BATCHING_DIMS);
  const sn_shape *u = sn_operand_shape(i, 2);
  int64_t w = 0;
  for (int k = 0; k < X->shape->rank; k++) {
    bool gone = false;
    for (int64_t j = 0; j < inserted.n; j++) gone |= inserted.v[j] == k;
    for (int64_t j = 0; j < batch.n; j++) gone |= batch.v[j] == k;
    sizes[k] = gone ? 1 : u->dims[window.v[w++]];
  }
  return w == window.n;
}

static sn_instr *gather_of_scatter(sn_diff *d, sn_instr *i, sn_instr *from) {
  int64_t sizes[SN_MAX_RANK];
  if (!window_sizes(i, sizes)) return NULL;
  sn_ints window = sn_instr_ints(i, SN_ATTR_UPDATE_WINDOW_DIMS),
          inserted = sn_instr_ints(i, SN_ATTR_INSERTED_WINDOW_DIMS);
  sn_ints map = sn_instr_ints(i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS);
  sn_ints ib = sn_instr_ints(i, SN_ATTR_INPUT_BATCHING_DIMS),
          sb = sn_instr_ints(i, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS);
  sn_attr attrs[] = {
      sn_attr_ints(SN_ATTR_OFFSET_DIMS, window.n, window.v),
      sn_attr_ints(SN_ATTR_COLLAPSED_SLICE_DIMS, inserted.n, inserted.v),
      sn_attr_ints(SN_ATTR_START_INDEX_MAP, map.n, map.v),
      sn_attr_ints(SN_ATTR_OPERAND_BATCHING_DIMS, ib.n, ib.v),
      sn_attr_ints(SN_ATTR_START_INDICES_BATCHING_DIMS, sb.n, sb.v),
      sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM)),
      sn_attr_ints(SN_ATTR_SLICE_SIZES, from->shape->rank, sizes),
      sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, sn_instr_int(i, SN_ATTR_INDICES_ARE_SORTED)),
  };
  sn_instr *operands[2] = {from, sn_op1(i)};
  return sn_build(d->b, SN_OP_GATHER, NULL, 2, operands, sizeof attrs / sizeof *attrs, attrs, 0, NULL);
}

/* pred in the updates' shape: this window lies inside. */
static sn_instr *window_fits(sn_diff *d, sn_instr *i) {
  int64_t sizes[SN_MAX_RANK];
  sn_instr *indices = sn_op1(i), *u = sn_instr_operand(i, 2);
  if (!window_sizes(i, sizes)) return NULL;
  int64_t vector_dim = sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM);
  sn_instr *inside = sn_d_cmp(
      d, SN_DIRECTION_EQ, indices,
      clamped_indices(d, X, indices, sn_instr_ints(i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS), sizes, vector_dim));
  if (inside && vector_dim < indices->shape->rank)
    inside = sn_build_reduce_op(d->b, SN_OP_AND, inside, sn_d_scalar(d, SN_TYPE_PRED, 1), 1, &vector_dim);
  sn_ints window = sn_instr_ints(i, SN_ATTR_UPDATE_WINDOW_DIMS);
  int64_t at[SN_MAX_RANK];
  int n = 0;
  for (int k = 0; k < u->shape->rank; k++) {
    bool is_window = false;
    for (int64_t j = 0; j < window.n; j++) is_window |= window.v[j] == k;
    if (!is_window) at[n++] = k;
  }
  return inside ? sn_build_broadcast(d->b, inside, u->shape->rank, u->shape->dims, n, at) : NULL;
}

static sn_instr *scatter_again(sn_diff *d, sn_instr *i, sn_instr *x, sn_instr *u, sn_computation *apply) {
  sn_instr *operands[3] = {x, sn_op1(i), u};
  return sn_build(d->b, SN_OP_SCATTER, NULL, 3, operands, i->n_attrs, i->attrs, 1, &apply);
}

/* What a scatter does with old and new: an opcode, SN_OP_PARAMETER for "the new one", SN_OP_COUNT for anything else. */
static sn_opcode scatter_kind(const sn_computation *c) {
  sn_opcode op;
  if (sn_computation_is_binary(c, &op)) return op;
  const sn_instr *r = c->root;
  return r->op == SN_OP_PARAMETER && c->n_params == 2 && r == c->params[1] ? SN_OP_PARAMETER : SN_OP_COUNT;
}

/* For a replacing scatter whose indices may repeat: the number of the update that won at each element, read back by
 * every update. */
static sn_instr *update_numbers(sn_diff *d, sn_instr *i) {
  sn_instr *u = sn_instr_operand(i, 2);
  int64_t n = sn_shape_elements(u->shape);
  sn_instr *count = sn_build_iota(d->b, SN_TYPE_S32, 1, &n, 0);
  return count ? sn_build_reshape(d->b, count, u->shape->rank, u->shape->dims) : NULL;
}

static sn_computation *take_second(sn_diff *d, sn_type t) {
  sn_graph *g = d->g;
  const sn_shape *s = sn_shape_scalar(g->module->arena, t);
  sn_frame *f = s ? sn_frame_push(g, SN_FRAME_SCALAR, "assign") : NULL;
  if (!f) return NULL;
  sn_computation *c = f->comp;
  (void)sn_frame_input(g, s);
  sn_instr *y = sn_frame_input(g, s);
  if (y) sn_computation_set_root(c, y);
  sn_frame_pop(g);
  return y ? c : NULL;
}

/* s32 winner of each element of the result, -1 where none. */
static sn_instr *winners(sn_diff *d, sn_instr *i, sn_instr *numbers) {
  sn_computation *assign = take_second(d, SN_TYPE_S32);
  sn_instr *none = sn_graph_full(d->g, SN_TYPE_S32, X->shape->rank, X->shape->dims, -1);
  return assign && none && numbers ? scatter_again(d, i, none, numbers, assign) : NULL;
}

static void scatter_assign_vjp(sn_diff *d, sn_instr *i, sn_instr *ct) {
  sn_instr *numbers = update_numbers(d, i), *won = winners(d, i, numbers);
  if (!won) return;
  if (sn_diff_wants(d, i, 0)) {
    sn_instr *untouched =
        sn_d_cmp(d, SN_DIRECTION_EQ, won, sn_graph_full(d->g, SN_TYPE_S32, X->shape->rank, X->shape->dims, -1));
    sn_diff_give(d, i, 0, sn_d_select(d, untouched, ct, NULL));
  }
  if (!sn_diff_wants(d, i, 2)) return;
  sn_instr *mine = sn_d_cmp(d, SN_DIRECTION_EQ, gather_of_scatter(d, i, won), numbers);
  sn_diff_give(d, i, 2,
               sn_d_select(d, sn_d_bin(d, SN_OP_AND, mine, window_fits(d, i)), gather_of_scatter(d, i, ct), NULL));
}

/* max, min: equal shares among the old value and the updates that equal the result. multiply: result over the factor
 * (no zeros). */
static void scatter_monoid_vjp(sn_diff *d, sn_instr *i, sn_instr *ct, sn_opcode op) {
  sn_instr *u = sn_instr_operand(i, 2), *fits = window_fits(d, i);
  if (op == SN_OP_MULTIPLY) {
    sn_instr *scaled = sn_d_mul(d, ct, i);
    if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, sn_d_div(d, scaled, X));
    if (sn_diff_wants(d, i, 2))
      sn_diff_give(d, i, 2, sn_d_select(d, fits, sn_d_div(d, gather_of_scatter(d, i, scaled), u), NULL));
    return;
  }
  sn_type t = i->shape->type;
  sn_instr *hit_x = sn_d_convert(d, sn_d_cmp(d, SN_DIRECTION_EQ, X, i), t);
  sn_instr *hit_u =
      sn_d_convert(d, sn_d_bin(d, SN_OP_AND, fits, sn_d_cmp(d, SN_DIRECTION_EQ, u, gather_of_scatter(d, i, i))), t);
  sn_computation *add = sn_build_reducer(d->b, SN_OP_ADD, t);
  sn_instr *share = add && hit_u ? sn_d_div(d, ct, scatter_again(d, i, hit_x, hit_u, add)) : NULL;
  if (!share) return;
  if (sn_diff_wants(d, i, 0)) sn_diff_give(d, i, 0, sn_d_mul(d, share, hit_x));
  if (sn_diff_wants(d, i, 2)) sn_diff_give(d, i, 2, sn_d_mul(d, gather_of_scatter(d, i, share), hit_u));
}

static bool simple_scatter(sn_diff *d, sn_instr *i, const char *mode, sn_opcode *op) {
  *op = i->n_operands == 3 && !sn_shape_is_tuple(i->shape) ? scatter_kind(i->called[0]) : SN_OP_COUNT;
  bool known = *op == SN_OP_ADD || *op == SN_OP_PARAMETER || *op == SN_OP_MULTIPLY || *op == SN_OP_MAXIMUM ||
               *op == SN_OP_MINIMUM;
  if (!known) sn_diff_no_rule(d, i, mode);
  return known;
}

static void scatter_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct) {
  sn_opcode op;
  if (!simple_scatter(d, i, "reverse", &op)) return;
  if (op == SN_OP_PARAMETER)
    scatter_assign_vjp(d, i, ct[0]);
  else if (op != SN_OP_ADD)
    scatter_monoid_vjp(d, i, ct[0], op);
  if (op != SN_OP_ADD) return;
  sn_diff_give(d, i, 0, ct[0]);
  if (sn_diff_wants(d, i, 2))
    sn_diff_give(d, i, 2, sn_d_select(d, window_fits(d, i), gather_of_scatter(d, i, ct[0]), NULL));
}

static void scatter_jvp(sn_diff *d, sn_instr *i, sn_instr **out) {
  sn_opcode op;
  if (!simple_scatter(d, i, "forward", &op)) return;
  sn_instr *u = sn_instr_operand(i, 2), *tx = sn_diff_tangent(d, i, 0), *tu = sn_diff_tangent(d, i, 2);
  if (!tx && !tu) return;
  if (!tx) tx = sn_d_like(d, X, 0);
  if (!tu) tu = sn_d_like(d, u, 0);
  sn_type t = i->shape->type;
  sn_computation *add = sn_build_reducer(d->b, SN_OP_ADD, t);
  if (!add) return;
  if (op == SN_OP_ADD) {
    *out = scatter_again(d, i, tx, tu, add);
  } else if (op == SN_OP_PARAMETER) { /* the update that won carries its tangent */
    sn_instr *numbers = update_numbers(d, i), *won = winners(d, i, numbers);
    if (!won) return;
    sn_instr *untouched =
        sn_d_cmp(d, SN_DIRECTION_EQ, won, sn_graph_full(d->g, SN_TYPE_S32, X->shape->rank, X->shape->dims, -1));
    sn_instr *mine = sn_d_cmp(d, SN_DIRECTION_EQ, gather_of_scatter(d, i, won), numbers);
    *out = scatter_again(d, i, sn_d_select(d, untouched, tx, NULL), sn_d_select(d, mine, tu, NULL), add);
  } else if (op == SN_OP_MULTIPLY) {
    *out = sn_d_mul(d, i, scatter_again(d, i, sn_d_div(d, tx, X), sn_d_div(d, tu, u), add));
  } else {
    sn_instr *hit_x = sn_d_convert(d, sn_d_cmp(d, SN_DIRECTION_EQ, X, i), t);
    sn_instr *hit_u = sn_d_convert(d, sn_d_cmp(d, SN_DIRECTION_EQ, u, gather_of_scatter(d, i, i)), t);
    if (!hit_u) return;
    sn_instr *sum = scatter_again(d, i, sn_d_mul(d, tx, hit_x), sn_d_mul(d, tu, hit_u), add);
    *out = sn_d_div(d, sum, scatter_again(d, i, hit_x, hit_u, add));
  }
}
const sn_diff_rule sn_diff_scatter = {.name = "scatter", .vjp = scatter_vjp, .jvp = scatter_jvp};
