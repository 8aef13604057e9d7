/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Elementwise operations and NumPy's broadcasting. */
#include <string.h>

#include "graph_internal.h"

int sn_graph_axis(sn_graph *g, sn_loc at, const char *what, int64_t axis, int rank) {
  if (axis >= -rank && axis < rank) return (int)(axis < 0 ? axis + rank : axis);
  sn_graph_fail(g, at, SN_ERR_SHAPE, "%s: axis %lld of a tensor of rank %d", what, (long long)axis, rank);
  sn_graph_hint(g, "axes go from %d to %d", -rank, rank - 1);
  return -1;
}

int sn_graph_axes(sn_graph *g, sn_loc at, const char *what, int n, const int64_t *axes, int rank, int64_t *out) {
  bool has[SN_MAX_RANK] = {false};
  if (n < 0) memset(has, true, (size_t)rank);
  for (int k = 0; k < n; k++) {
    int a = sn_graph_axis(g, at, what, axes[k], rank);
    if (a < 0) return -1;
    if (has[a]) {
      sn_graph_fail(g, at, SN_ERR_SHAPE, "%s: axis %lld given twice", what, (long long)axes[k]);
      return -1;
    }
    has[a] = true;
  }
  int count = 0;
  for (int k = 0; k < rank; k++)
    if (has[k]) out[count++] = k;
  return count;
}

bool sn_graph_common(sn_graph *g, sn_loc at, const char *what, sn_instr *x, sn_instr *y, int *rank, int64_t *dims) {
  const sn_shape *a = x->shape, *b = y->shape;
  int r = a->rank > b->rank ? a->rank : b->rank;
  for (int k = 0; k < r; k++) {
    int i = k - (r - a->rank), j = k - (r - b->rank);
    int64_t p = i >= 0 ? a->dims[i] : 1, q = j >= 0 ? b->dims[j] : 1;
    if (p != q && p != 1 && q != 1) {
      sn_graph_fail(g, at, SN_ERR_SHAPE, "%s: shapes %s and %s do not broadcast: %lld against %lld at axis %d", what,
                    sn_graph_shape_text(g, a), sn_graph_shape_text(g, b), (long long)p, (long long)q, k - r);
      sn_graph_hint(g, "aligned from the right, sizes must be equal or 1");
      return false;
    }
    dims[k] = p == 1 ? q : p;
  }
  *rank = r;
  return true;
}

/* A reshape that only put ones in: what it reshaped serves a broadcast as well, and the reshape may go. */
static sn_instr *without_ones(sn_instr *i) {
  if (i->op != SN_OP_RESHAPE) return i;
  sn_instr *from = sn_instr_operand(i, 0);
  const sn_shape *a = i->shape, *b = from->shape;
  int j = 0;
  for (int k = 0; k < a->rank; k++) {
    if (j < b->rank && b->dims[j] == a->dims[k])
      j++;
    else if (a->dims[k] != 1)
      return i;
  }
  return j == b->rank ? from : i;
}

/* Axes of `i` that are not 1 keep their place among dims; fills at[] with the target axis of each axis of the squeezed
 * form. */
static sn_instr *squeeze_ones(sn_graph *g, sn_instr *i, int rank, const int64_t *dims, int *n_at, int64_t *at) {
  int64_t kept[SN_MAX_RANK] = {0};
  int n = 0;
  const sn_shape *s = i->shape;
  for (int k = 0; k < s->rank; k++) {
    int target = k + rank - s->rank;
    if (s->dims[k] == 1 && dims[target] != 1) continue;
    kept[n] = s->dims[k];
    at[n++] = target;
  }
  *n_at = n;
  if (n == s->rank) return i;
  sn_instr *from = without_ones(i);
  if (from != i && from->shape->rank == n) {
    bool same = true;
    for (int k = 0; k < n; k++) same &= from->shape->dims[k] == kept[k];
    if (same) return from;
  }
  return sn_build_reshape(&g->b, i, n, kept);
}

sn_instr *sn_graph_broadcast(sn_graph *g, sn_loc loc, sn_instr *i, int rank, const int64_t *dims) {
  const sn_shape *s = i->shape;
  bool equal = s->rank == rank, fits = s->rank <= rank;
  for (int k = 0; fits && k < s->rank; k++) {
    int64_t want = dims[k + rank - s->rank];
    equal &= s->dims[k] == want;
    fits &= s->dims[k] == want || s->dims[k] == 1;
  }
  if (equal) return i;
  if (!fits) {
    const sn_shape *to = sn_shape_array(g->arena, s->type, rank, dims);
    sn_graph_fail(g, loc, SN_ERR_SHAPE, "%s does not broadcast to %s", sn_graph_shape_text(g, s),
                  sn_graph_shape_text(g, to));
    sn_graph_hint(g, "aligned from the right, sizes must be equal or 1");
    return NULL;
  }
  int64_t at[SN_MAX_RANK];
  int n;
  sn_instr *core = squeeze_ones(g, i, rank, dims, &n, at);
  if (n == 0) return sn_graph_fill(g, core, rank, dims);
  return sn_build_broadcast(&g->b, core, rank, dims, n, at);
}

sn_tensor sn_unary_at(sn_loc at, sn_opcode op, sn_tensor x) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_build_unary(b, op, i) : NULL);
}

static bool same_type(sn_graph *g, sn_loc at, const char *what, sn_instr *x, sn_instr *y) {
  if (x->shape->type == y->shape->type) return true;
  sn_graph_fail(g, at, SN_ERR_TYPE, "%s: operands are %s and %s", what, sn_graph_shape_text(g, x->shape),
                sn_graph_shape_text(g, y->shape));
  sn_graph_hint(g, "types are not promoted: convert one with sn_cast");
  return false;
}

/* Both operands usable, of one type and one shape. */
static bool align(sn_loc at, const char *what, sn_tensor x, sn_tensor y, sn_instr **xi, sn_instr **yi) {
  sn_graph *g = x.graph ? x.graph : y.graph;
  if (!sn_graph_open(g, at)) return false;
  *xi = sn_graph_use(g, at, x);
  *yi = *xi ? sn_graph_use(g, at, y) : NULL;
  if (!*yi || !same_type(g, at, what, *xi, *yi)) return false;
  if (sn_shape_equal((*xi)->shape, (*yi)->shape, 0)) return true;
  int rank;
  int64_t dims[SN_MAX_RANK];
  if (!sn_graph_common(g, at, what, *xi, *yi, &rank, dims)) return false;
  *xi = sn_graph_broadcast(g, at, *xi, rank, dims);
  *yi = *xi ? sn_graph_broadcast(g, at, *yi, rank, dims) : NULL;
  return *yi != NULL;
}

sn_tensor sn_binary_at(sn_loc at, sn_opcode op, sn_tensor x, sn_tensor y) {
  sn_graph *g = x.graph ? x.graph : y.graph;
  sn_instr *xi, *yi;
  if (!align(at, sn_opcode_text(op), x, y, &xi, &yi)) return sn_graph_empty(g);
  return sn_graph_tensor(g, sn_build_binary(&g->b, op, xi, yi));
}

sn_tensor sn_binary_c_at(sn_loc at, sn_opcode op, sn_tensor x, double c) {
  return sn_binary_at(at, op, x, sn_scalar_like_at(at, x, c));
}

sn_tensor sn_rsub_c_at(sn_loc at, double c, sn_tensor x) {
  return sn_binary_at(at, SN_OP_SUBTRACT, sn_scalar_like_at(at, x, c), x);
}
sn_tensor sn_rdiv_c_at(sn_loc at, double c, sn_tensor x) {
  return sn_binary_at(at, SN_OP_DIVIDE, sn_scalar_like_at(at, x, c), x);
}
sn_tensor sn_square_at(sn_loc at, sn_tensor x) { return sn_binary_at(at, SN_OP_MULTIPLY, x, x); }
sn_tensor sn_reciprocal_at(sn_loc at, sn_tensor x) { return sn_rdiv_c_at(at, 1.0, x); }

sn_tensor sn_conj_at(sn_loc at, sn_tensor x) {
  if (!sn_type_is_complex(sn_tensor_type(x))) return x;
  sn_tensor im = sn_unary_at(at, SN_OP_NEGATE, sn_unary_at(at, SN_OP_IMAG, x));
  return sn_binary_at(at, SN_OP_COMPLEX, sn_unary_at(at, SN_OP_REAL, x), im);
}

sn_tensor sn_compare_at(sn_loc at, int64_t direction, sn_tensor x, sn_tensor y) {
  sn_graph *g = x.graph ? x.graph : y.graph;
  sn_instr *xi, *yi;
  if (!align(at, "compare", x, y, &xi, &yi)) return sn_graph_empty(g);
  return sn_graph_tensor(g, sn_build_compare(&g->b, direction, xi, yi));
}

sn_tensor sn_select_at(sn_loc at, sn_tensor p, sn_tensor t, sn_tensor f) {
  sn_graph *g = p.graph ? p.graph : t.graph;
  sn_instr *ti, *fi;
  if (!align(at, "select", t, f, &ti, &fi)) return sn_graph_empty(g);
  sn_instr *pi = sn_graph_use(g, at, p);
  if (!pi) return sn_graph_empty(g);
  if (pi->shape->type != SN_TYPE_PRED) {
    sn_graph_fail(g, at, SN_ERR_TYPE, "select: the predicate is %s, not pred", sn_graph_shape_text(g, pi->shape));
    return sn_graph_empty(g);
  }
  int rank;
  int64_t dims[SN_MAX_RANK];
  if (!sn_graph_common(g, at, "select", pi, ti, &rank, dims)) return sn_graph_empty(g);
  ti = sn_graph_broadcast(g, at, ti, rank, dims);
  fi = ti ? sn_graph_broadcast(g, at, fi, rank, dims) : NULL;
  if (fi && pi->shape->rank) pi = sn_graph_broadcast(g, at, pi, rank, dims); /* a scalar predicate serves as it is */
  return sn_graph_tensor(g, fi && pi ? sn_build_select(&g->b, pi, ti, fi) : NULL);
}

sn_tensor sn_clamp_at(sn_loc at, sn_tensor lo, sn_tensor x, sn_tensor hi) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b), *l = i ? sn_graph_use(x.graph, at, lo) : NULL,
           *h = l ? sn_graph_use(x.graph, at, hi) : NULL;
  if (!h || !same_type(x.graph, at, "clamp", i, l) || !same_type(x.graph, at, "clamp", i, h))
    return sn_graph_empty(x.graph);
  return sn_graph_tensor(x.graph, sn_build_clamp(b, l, i, h));
}

sn_tensor sn_clamp_c_at(sn_loc at, double lo, sn_tensor x, double hi) {
  return sn_clamp_at(at, sn_scalar_like_at(at, x, lo), x, sn_scalar_like_at(at, x, hi));
}

sn_tensor sn_cast_at(sn_loc at, sn_tensor x, sn_type t) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_build_convert(b, i, t) : NULL);
}

sn_tensor sn_bitcast_cast_at(sn_loc at, sn_tensor x, sn_type t) {
  sn_builder *b;
  sn_instr *i = sn_graph_enter(at, x, &b);
  return sn_graph_tensor(x.graph, i ? sn_build_bitcast_convert(b, i, t) : NULL);
}

sn_tensor sn_reduce_precision_at(sn_loc at, sn_tensor x, int exponent_bits, int mantissa_bits) {
  sn_attr attrs[2] = {sn_attr_int(SN_ATTR_EXPONENT_BITS, exponent_bits),
                      sn_attr_int(SN_ATTR_MANTISSA_BITS, mantissa_bits)};
  return sn_op_at(at, x.graph, SN_OP_REDUCE_PRECISION, NULL, 1, &x, 2, attrs);
}

/* ---- any op ---- */

static sn_instr *any_op(sn_loc at, sn_graph *g, sn_opcode op, const sn_shape *shape, int n, const sn_tensor *in,
                        int n_attrs, const sn_attr *attrs, int n_called, sn_computation *const *called) {
  sn_builder *b = sn_graph_open(g, at);
  sn_instr **operands = b ? SN_NEW_N(g->arena, sn_instr *, n + 1) : NULL;
  if (!operands) {
    if (b) sn_graph_no_memory(g);
    return NULL;
  }
  for (int k = 0; k < n; k++)
    if (!(operands[k] = sn_graph_use(g, at, in[k]))) return NULL;
  return sn_build(b, op, shape, (uint32_t)n, operands, (uint32_t)n_attrs, attrs, (uint32_t)n_called, called);
}

sn_tensor sn_op_at(sn_loc at, sn_graph *g, sn_opcode op, const sn_shape *shape, int n, const sn_tensor *in, int n_attrs,
                   const sn_attr *attrs) {
  return sn_graph_tensor(g, any_op(at, g, op, shape, n, in, n_attrs, attrs, 0, NULL));
}

void sn_op_tuple_at(sn_loc at, sn_graph *g, sn_opcode op, const sn_shape *shape, int n, const sn_tensor *in,
                    int n_attrs, const sn_attr *attrs, int n_called, sn_computation *const *called, int n_out,
                    sn_tensor *out) {
  sn_instr *i = any_op(at, g, op, shape, n, in, n_attrs, attrs, n_called, called);
  if (i && n_out > (sn_shape_is_tuple(i->shape) ? i->shape->n_elements : 1)) {
    sn_graph_fail(g, at, SN_ERR_USAGE, "%s gives %s, %d results asked for", sn_opcode_text(op),
                  sn_graph_shape_text(g, i->shape), n_out);
    i = NULL;
  }
  sn_graph_elements(g, i, n_out, out);
}
