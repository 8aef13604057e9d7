/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Batching of elementwise ops, data movement, reductions, sorting, linear algebra. */
#include <math.h>
#include <string.h>

#include "batch_internal.h"

const sn_batch_rule sn_batch_none = {.name = "none"};
const sn_batch_rule sn_batch_leaf = {.name = "leaf"}; /* no operands: never batched */

#define DIMS sn_instr_ints(i, SN_ATTR_DIMENSIONS)
#define RANK(k) sn_operand_shape(i, k)->rank

static void done(sn_lane *out, sn_instr *v) {
  out->v[0] = v;
  out->batched[0] = true;
}

/* Lists of axes move by one; `first` (or -1) goes in front. */
static sn_attr shifted(sn_batch *x, const sn_instr *i, sn_attr_id id, int64_t first) {
  sn_ints old = sn_instr_ints(i, id);
  int64_t *v = SN_NEW_N(x->g->arena, int64_t, old.n + 2), n = 0;
  if (!v) {
    sn_graph_no_memory(x->g);
    return sn_attr_ints(id, 0, NULL);
  }
  if (first >= 0) v[n++] = first;
  for (int64_t k = 0; k < old.n; k++) v[n++] = old.v[k] + 1;
  return sn_attr_ints(id, n, v);
}

/* All operands spread. */
static sn_instr **spread_all(sn_batch *x, const sn_instr *i, const sn_lane *in) {
  sn_instr **v = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  if (!v) sn_graph_no_memory(x->g);
  for (uint32_t k = 0; v && k < i->n_operands; k++)
    if (!(v[k] = sn_lane_spread(x, &in[k], 0))) return NULL;
  return v;
}

/* One per element of a tuple result, all batched. */
static void elements(sn_batch *x, const sn_instr *i, sn_instr *made, sn_lane *out) {
  int n = sn_diff_elements(i);
  for (int k = 0; k < n; k++) {
    out->v[k] = made && sn_shape_is_tuple(made->shape) ? sn_build_get(x->b, made, k) : made;
    out->batched[k] = true;
  }
}

/* ---- elementwise ---- */

/* A scalar beside arrays (select's predicate, clamp's bounds) is taken as it is, or spread over everything when it
 * differs by example. */
static sn_instr *scalar_beside(sn_batch *x, const sn_lane *l, const sn_shape *to) {
  if (!l->batched[0]) return l->v[0];
  const sn_shape *s = sn_batch_shape(x, to);
  return s ? sn_build_broadcast(x->b, l->v[0], s->rank, s->dims, 1, (int64_t[]){0}) : NULL;
}

static void eltwise(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  if (i->op == SN_OP_OPT_BARRIER || sn_shape_is_tuple(i->shape)) { /* tuples through a barrier, element by element */
    int n = sn_diff_elements(i);
    sn_instr *t = sn_shape_is_tuple(i->shape) ? sn_build_tuple(x->b, (uint32_t)n, in[0].v) : in[0].v[0],
             *wall = t ? sn_build_unary(x->b, i->op, t) : NULL;
    for (int k = 0; k < n; k++) {
      out->v[k] = wall && sn_shape_is_tuple(i->shape) ? sn_build_get(x->b, wall, k) : wall;
      out->batched[k] = in[0].batched[k];
    }
    return;
  }
  sn_instr **v = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  if (!v) {
    sn_graph_no_memory(x->g);
    return;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) {
    bool beside = RANK(k) == 0 && i->shape->rank > 0;
    v[k] = beside ? scalar_beside(x, &in[k], i->shape) : sn_lane_spread(x, &in[k], 0);
    if (!v[k]) return;
  }
  const sn_shape *s = sn_batch_shape(x, i->shape);
  if (s) done(out, sn_batch_again(x, i, s, i->n_operands, v, 0, NULL));
}
const sn_batch_rule sn_batch_eltwise = {.name = "eltwise", .fn = eltwise};

/* Ops that treat leading axes as a batch already, or take the new shape as it is. */
static void leading(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_instr **v = spread_all(x, i, in);
  if (v)
    elements(x, i,
             sn_batch_again(x, i, sn_shape_is_tuple(i->shape) ? NULL : sn_batch_shape(x, i->shape), i->n_operands, v, 0,
                            NULL),
             out);
}
const sn_batch_rule sn_batch_bitcast_convert = {.name = "bitcast_convert", .fn = leading};
const sn_batch_rule sn_batch_fft = {.name = "fft", .fn = leading};
const sn_batch_rule sn_batch_cholesky = {.name = "cholesky", .fn = leading};
const sn_batch_rule sn_batch_triangular_solve = {.name = "triangular_solve", .fn = leading};
const sn_batch_rule sn_batch_topk = {.name = "topk", .fn = leading};

static void map(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_instr **v = spread_all(x, i, in);
  sn_attr a = shifted(x, i, SN_ATTR_DIMENSIONS, 0);
  if (v) done(out, sn_batch_again(x, i, NULL, i->n_operands, v, 1, &a));
}
const sn_batch_rule sn_batch_map = {.name = "map", .fn = map};

/* ---- movement ---- */

static void broadcast(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_attr a = shifted(x, i, SN_ATTR_DIMENSIONS, 0);
  done(out, sn_batch_again(x, i, sn_batch_shape(x, i->shape), 1, in[0].v, 1, &a));
}
const sn_batch_rule sn_batch_broadcast = {.name = "broadcast", .fn = broadcast};

static void reshape(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  const sn_shape *s = sn_batch_shape(x, i->shape);
  if (s) done(out, sn_build_reshape(x->b, in[0].v[0], s->rank, s->dims));
}
const sn_batch_rule sn_batch_reshape = {.name = "reshape", .fn = reshape};

static void transpose(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_attr a = shifted(x, i, SN_ATTR_DIMENSIONS, 0);
  done(out, sn_batch_again(x, i, NULL, 1, in[0].v, 1, &a));
}
const sn_batch_rule sn_batch_transpose = {.name = "transpose", .fn = transpose};

static void reverse(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_attr a = shifted(x, i, SN_ATTR_DIMENSIONS, -1);
  done(out, sn_batch_again(x, i, NULL, 1, in[0].v, 1, &a));
}
const sn_batch_rule sn_batch_reverse = {.name = "reverse", .fn = reverse};

static sn_attr three_more(sn_batch *x, const sn_instr *i, sn_attr_id id, int64_t a, int64_t b, int64_t c) {
  sn_ints old = sn_instr_ints(i, id);
  int64_t *v = SN_NEW_N(x->g->arena, int64_t, old.n + 3);
  if (!v) {
    sn_graph_no_memory(x->g);
    return sn_attr_ints(id, 0, NULL);
  }
  v[0] = a, v[1] = b, v[2] = c;
  if (old.n > 0) memcpy(v + 3, old.v, (size_t)old.n * sizeof *v);
  return sn_attr_ints(id, old.n + 3, v);
}

static void slice(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_attr a = three_more(x, i, SN_ATTR_SLICE, 0, x->size, 1);
  done(out, sn_batch_again(x, i, NULL, 1, in[0].v, 1, &a));
}
const sn_batch_rule sn_batch_slice = {.name = "slice", .fn = slice};

/* A filling value that differs by example: pad a mask as well and choose. */
static void pad(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_attr a = three_more(x, i, SN_ATTR_PADDING, 0, 0, 0);
  sn_instr *data = sn_lane_spread(x, &in[0], 0);
  if (!data) return;
  if (!in[1].batched[0]) {
    sn_instr *v[2] = {data, in[1].v[0]};
    done(out, sn_batch_again(x, i, NULL, 2, v, 1, &a));
    return;
  }
  sn_instr *v[2] = {data, sn_graph_scalar(x->g, i->shape->type, 0)};
  sn_instr *mask[2] = {sn_graph_full(x->g, SN_TYPE_PRED, data->shape->rank, data->shape->dims, 1),
                       sn_graph_scalar(x->g, SN_TYPE_PRED, 0)};
  sn_instr *p = sn_batch_again(x, i, NULL, 2, v, 1, &a),
           *m = mask[0] ? sn_batch_again(x, i, NULL, 2, mask, 1, &a) : NULL;
  sn_instr *fill = p ? sn_build_broadcast(x->b, in[1].v[0], p->shape->rank, p->shape->dims, 1, (int64_t[]){0}) : NULL;
  if (m && fill) done(out, sn_build_select(x->b, m, p, fill));
}
const sn_batch_rule sn_batch_pad = {.name = "pad", .fn = pad};

static void concatenate(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_instr **v = spread_all(x, i, in);
  if (v) done(out, sn_build_concatenate(x->b, i->n_operands, v, DIMS.v[0] + 1));
}
const sn_batch_rule sn_batch_concatenate = {.name = "concatenate", .fn = concatenate};

/* ---- dynamic slices: gathers and scatters once the starts differ ---- */

static bool starts_batched(const sn_instr *i, const sn_lane *in, uint32_t from) {
  for (uint32_t k = from; k < i->n_operands; k++)
    if (in[k].batched[0]) return true;
  return false;
}

/* [size, rank]: a row of starts an example. */
static sn_instr *start_rows(sn_batch *x, const sn_instr *i, const sn_lane *in, uint32_t from) {
  sn_instr *cols[SN_MAX_RANK];
  uint32_t n = i->n_operands - from;
  for (uint32_t k = 0; k < n; k++) {
    sn_instr *v = sn_lane_spread(x, &in[from + k], 0);
    cols[k] = v ? sn_build_reshape(x->b, v, 2, (int64_t[]){x->size, 1}) : NULL;
    if (!cols[k]) return NULL;
  }
  return n == 1 ? cols[0] : sn_build_concatenate(x->b, n, cols, 1);
}

static void starts_with_zero(sn_batch *x, const sn_instr *i, const sn_lane *in, uint32_t from, sn_instr **starts) {
  sn_type t = from < i->n_operands ? sn_operand_shape(i, from)->type : SN_TYPE_S32;
  starts[0] = sn_graph_scalar(x->g, t, 0);
  for (uint32_t k = from; k < i->n_operands; k++) starts[k - from + 1] = in[k].v[0];
}

static void count_up(int64_t *v, int n, int64_t from) {
  for (int k = 0; k < n; k++) v[k] = from + k;
}

static void dynamic_slice(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  int64_t sizes[SN_MAX_RANK], axes[SN_MAX_RANK], own[SN_MAX_RANK];
  sn_instr *starts[SN_MAX_RANK + 1];
  int r = i->shape->rank;
  if (r + 1 > SN_MAX_RANK) return;
  bool data = in[0].batched[0];
  memcpy(sizes + 1, i->shape->dims, (size_t)r * sizeof *sizes);
  if (!starts_batched(i, in, 1)) {
    sizes[0] = x->size;
    starts_with_zero(x, i, in, 1, starts);
    done(out, sn_build_dynamic_slice(x->b, in[0].v[0], starts, sizes));
    return;
  }
  sizes[0] = 1;
  count_up(axes, r, 1);
  count_up(own, r, data);
  int64_t zero = 0;
  sn_gather_dims d = {.n_offset = r,
                      .offset_dims = axes,
                      .n_start_map = r,
                      .start_index_map = own,
                      .n_operand_batch = data,
                      .operand_batching_dims = &zero,
                      .n_indices_batch = data,
                      .start_indices_batching_dims = &zero,
                      .index_vector_dim = 1,
                      .slice_sizes = data ? sizes : sizes + 1};
  sn_instr *rows = start_rows(x, i, in, 1);
  if (rows) done(out, sn_gather_at(i->loc, sn_graph_tensor(x->g, in[0].v[0]), sn_graph_tensor(x->g, rows), &d).instr);
}
const sn_batch_rule sn_batch_dynamic_slice = {.name = "dynamic_slice", .fn = dynamic_slice};

static void dynamic_update_slice(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  int r = i->shape->rank;
  sn_instr *data = sn_lane_spread(x, &in[0], 0), *update = data ? sn_lane_spread(x, &in[1], 0) : NULL,
           *starts[SN_MAX_RANK + 1];
  if (!update || r + 1 > SN_MAX_RANK) return;
  if (!starts_batched(i, in, 2)) {
    starts_with_zero(x, i, in, 2, starts);
    done(out, sn_build_dynamic_update_slice(x->b, data, update, starts));
    return;
  }
  sn_lane clamped[SN_MAX_RANK + 2]; /* a scatter drops what a dynamic update moves inside */
  sn_lane held = sn_lane_make(x, r);
  if (!held.v) return;
  for (int k = 0; k < r; k++) {
    sn_instr *s = in[k + 2].v[0];
    sn_instr *lo = sn_graph_scalar(x->g, s->shape->type, 0),
             *hi = sn_graph_scalar_i64(x->g, s->shape->type, i->shape->dims[k] - sn_operand_shape(i, 1)->dims[k]);
    held.v[k] = sn_build_clamp(x->b, lo, s, hi);
    held.batched[k] = in[k + 2].batched[0];
    clamped[k + 2] = (sn_lane){held.v + k, held.batched + k};
  }
  int64_t axes[SN_MAX_RANK], zero = 0;
  count_up(axes, r, 1);
  sn_scatter_dims d = {.n_window = r,
                       .update_window_dims = axes,
                       .n_scatter_map = r,
                       .scatter_dims_to_operand_dims = axes,
                       .n_input_batch = 1,
                       .input_batching_dims = &zero,
                       .n_indices_batch = 1,
                       .scatter_indices_batching_dims = &zero,
                       .index_vector_dim = 1};
  sn_instr *rows = sn_batch_ok(x) ? start_rows(x, i, clamped, 2) : NULL;
  if (rows)
    done(out, sn_scatter_at(i->loc, sn_graph_tensor(x->g, data), sn_graph_tensor(x->g, rows),
                            sn_graph_tensor(x->g, update), SN_OP_PARAMETER, &d)
                  .instr);
}
const sn_batch_rule sn_batch_dynamic_update_slice = {.name = "dynamic_update_slice", .fn = dynamic_update_slice};

/* ---- gather and scatter ---- */

static sn_attr sizes_with(sn_batch *x, const sn_instr *i, int64_t first) {
  sn_ints old = sn_instr_ints(i, SN_ATTR_SLICE_SIZES);
  int64_t *v = SN_NEW_N(x->g->arena, int64_t, old.n + 1);
  if (!v) {
    sn_graph_no_memory(x->g);
    return sn_attr_ints(SN_ATTR_SLICE_SIZES, 0, NULL);
  }
  v[0] = first;
  if (old.n > 0) memcpy(v + 1, old.v, (size_t)old.n * sizeof *v);
  return sn_attr_ints(SN_ATTR_SLICE_SIZES, old.n + 1, v);
}

static void gather(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  bool data = in[0].batched[0], index = in[1].batched[0];
  sn_attr a[8];
  uint32_t n = 0;
  a[n++] = shifted(x, i, SN_ATTR_OFFSET_DIMS,
                   data && !index ? 0 : -1); /* indices alike: the examples are one more axis of the slices */
  if (data) {
    a[n++] = shifted(x, i, SN_ATTR_COLLAPSED_SLICE_DIMS, -1);
    a[n++] = shifted(x, i, SN_ATTR_START_INDEX_MAP, -1);
    a[n++] = shifted(x, i, SN_ATTR_OPERAND_BATCHING_DIMS, index ? 0 : -1);
    a[n++] = sizes_with(x, i, index ? 1 : x->size);
  }
  if (index) {
    a[n++] = shifted(x, i, SN_ATTR_START_INDICES_BATCHING_DIMS, data ? 0 : -1);
    a[n++] = sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM) + 1);
    a[n++] = sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, 0);
  }
  sn_instr *v[2] = {in[0].v[0], in[1].v[0]};
  done(out, sn_batch_again(x, i, NULL, 2, v, n, a));
}
const sn_batch_rule sn_batch_gather = {.name = "gather", .fn = gather};

static void scatter(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  uint32_t m = i->n_operands / 2; /* m arrays, indices, m updates */
  bool index = in[m].batched[0];
  sn_instr **v = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  if (!v) {
    sn_graph_no_memory(x->g);
    return;
  }
  for (uint32_t k = 0; k < i->n_operands; k++)
    if (!(v[k] = k == m ? in[k].v[0] : sn_lane_spread(x, &in[k], 0))) return;
  sn_attr a[8];
  uint32_t n = 0;
  a[n++] = shifted(x, i, SN_ATTR_UPDATE_WINDOW_DIMS, index ? -1 : 0);
  a[n++] = shifted(x, i, SN_ATTR_INSERTED_WINDOW_DIMS, -1);
  a[n++] = shifted(x, i, SN_ATTR_SCATTER_DIMS_TO_OPERAND_DIMS, -1);
  a[n++] = shifted(x, i, SN_ATTR_INPUT_BATCHING_DIMS, index ? 0 : -1);
  if (index) {
    a[n++] = shifted(x, i, SN_ATTR_SCATTER_INDICES_BATCHING_DIMS, 0);
    a[n++] = sn_attr_int(SN_ATTR_INDEX_VECTOR_DIM, sn_instr_int(i, SN_ATTR_INDEX_VECTOR_DIM) + 1);
    a[n++] = sn_attr_int(SN_ATTR_INDICES_ARE_SORTED, 0);
  }
  elements(x, i, sn_batch_again(x, i, NULL, i->n_operands, v, n, a), out);
}
const sn_batch_rule sn_batch_scatter = {.name = "scatter", .fn = scatter};

/* ---- reductions, windows, sorting ---- */

static bool neutral(sn_opcode op, double *v) {
  switch (op) {
    case SN_OP_ADD:
      *v = 0;
      return true;
    case SN_OP_MULTIPLY:
      *v = 1;
      return true;
    case SN_OP_MAXIMUM:
      *v = -INFINITY;
      return true;
    case SN_OP_MINIMUM:
      *v = INFINITY;
      return true;
    case SN_OP_OR:
      *v = 0;
      return true;
    case SN_OP_AND:
      *v = 1;
      return true;
    default:
      return false;
  }
}

/* Start values that differ by example are joined in afterwards; *op: how, SN_OP_COUNT: they are alike. false: cannot
 * be. */
static bool split_start(sn_batch *x, sn_instr *i, const sn_lane *in, sn_instr **v, sn_opcode *op) {
  uint32_t n = i->n_operands / 2;
  *op = SN_OP_COUNT;
  for (uint32_t k = 0; k < n; k++) {
    v[k] = sn_lane_spread(x, &in[k], 0);
    v[n + k] = in[n + k].v[0];
    if (!in[n + k].batched[0]) continue;
    double start;
    sn_opcode found;
    bool known = n == 1 && sn_computation_is_binary(i->called[0], &found) && neutral(found, &start) &&
                 (sn_diff_type(i->shape->type) || !isinf(start));
    if (!known) {
      sn_graph_fail(x->g, i->loc, SN_ERR_UNSUPPORTED, "%s (%s): vmap over its start value", sn_opcode_text(i->op),
                    i->name);
      return false;
    }
    v[n + k] = sn_graph_scalar(x->g, v[k]->shape->type, start);
    *op = found;
  }
  return sn_batch_ok(x);
}

static void join_start(sn_batch *x, const sn_lane *start, sn_opcode op, sn_lane *out) {
  sn_instr *r = out->v[0];
  if (op == SN_OP_COUNT || !r) return;
  out->v[0] = sn_build_binary(x->b, op, r,
                              sn_build_broadcast(x->b, start->v[0], r->shape->rank, r->shape->dims, 1, (int64_t[]){0}));
}

static void reduce(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_instr **v = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  sn_opcode op;
  if (!v) sn_graph_no_memory(x->g);
  if (!v || !split_start(x, i, in, v, &op)) return;
  sn_attr a = shifted(x, i, SN_ATTR_DIMENSIONS, -1);
  elements(x, i, sn_batch_again(x, i, NULL, i->n_operands, v, 1, &a), out);
  join_start(x, &in[i->n_operands / 2], op, out);
}
const sn_batch_rule sn_batch_reduce = {.name = "reduce", .fn = reduce};

static bool wider_window(const sn_instr *i, sn_window_dim *dims, sn_window *w) {
  const sn_window *old = sn_instr_window(i);
  if (old->rank + 1 > SN_MAX_RANK) return false;
  dims[0] = (sn_window_dim){.size = 1, .stride = 1, .lhs_dilate = 1, .rhs_dilate = 1};
  memcpy(dims + 1, old->dims, (size_t)old->rank * sizeof *dims);
  *w = (sn_window){old->rank + 1, dims};
  return true;
}

static void reduce_window(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_instr **v = SN_NEW_N(x->g->arena, sn_instr *, i->n_operands + 1);
  sn_opcode op;
  sn_window_dim dims[SN_MAX_RANK];
  sn_window w;
  if (!v) sn_graph_no_memory(x->g);
  if (!v || !wider_window(i, dims, &w) || !split_start(x, i, in, v, &op)) return;
  sn_attr a = sn_attr_window(&w);
  elements(x, i, sn_batch_again(x, i, NULL, i->n_operands, v, 1, &a), out);
  join_start(x, &in[i->n_operands / 2], op, out);
}
const sn_batch_rule sn_batch_reduce_window = {.name = "reduce_window", .fn = reduce_window};

static void select_and_scatter(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_window_dim dims[SN_MAX_RANK];
  sn_window w;
  if (!wider_window(i, dims, &w)) return;
  sn_instr *v[3] = {sn_lane_spread(x, &in[0], 0), sn_lane_spread(x, &in[1], 0), in[2].v[0]};
  if (in[2].batched[0]) { /* joined in afterwards, as the scatter's sum starts from it */
    v[2] = sn_graph_scalar(x->g, i->shape->type, 0);
  }
  sn_attr a = sn_attr_window(&w);
  sn_instr *r = v[0] && v[1] ? sn_batch_again(x, i, NULL, 3, v, 1, &a) : NULL;
  if (r && in[2].batched[0])
    r = sn_build_binary(x->b, SN_OP_ADD, r,
                        sn_build_broadcast(x->b, in[2].v[0], r->shape->rank, r->shape->dims, 1, (int64_t[]){0}));
  done(out, r);
}
const sn_batch_rule sn_batch_select_and_scatter = {.name = "select_and_scatter", .fn = select_and_scatter};

static void sort(sn_batch *x, sn_instr *i, const sn_lane *in, sn_lane *out) {
  sn_instr **v = spread_all(x, i, in);
  sn_attr a = shifted(x, i, SN_ATTR_DIMENSIONS, -1);
  if (v) elements(x, i, sn_batch_again(x, i, NULL, i->n_operands, v, 1, &a), out);
}
const sn_batch_rule sn_batch_sort = {.name = "sort", .fn = sort};
