/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolutions as implicit products, on the template of lower_product.c:
 *
 *   out[g, position, feature] = epilogue(sum over (window, input feature) of input[g, position, window, input feature] * kernel[g, window, input feature, feature])
 *
 * The input's side of the product is gathered while it is packed; no array of windows lies in memory. One template serves the forward pass, the gradient of the input (dilated
 * input) and of the kernel (batch and features exchanged), in every order of dimensions: which operand is lhs, in which order terms are summed and along what the packing
 * runs follows from where neighbours in memory lie. After Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014). */
#include "lower_convolution.h"

#include <string.h>

/* ---- indices ---- */

void convolution_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx) {
  const convolution *c = p->conv;
  const sn_ix *at[SN_MAX_RANK], *feature = c->side == 0 ? n : m;
  lower_delinearise(L, c->side == 0 ? m : n, c->n_positions, c->position_sizes, at);
  for (int k = 0; k < c->n_positions; k++) idx[c->positions[k]] = at[k];
  for (int k = 0; k < c->n_batch; k++) {
    if (c->batch[k] >= 0) idx[c->batch[k]] = b[k];
    else feature = sn_ix_add(L->k->ix, feature, sn_ix_mul(L->k->ix, b[k], lower_const(L, c->features)));
  }
  idx[c->feature] = feature;
}

void convolution_terms(lowering *L, const convolution *c, const sn_ix *k, const sn_ix **syms) {
  const sn_ix *at[SN_MAX_RANK];
  lower_delinearise(L, k, c->n_terms, c->term_sizes, at);
  for (int t = 0; t < c->n_terms; t++) syms[c->terms[t]] = at[t];
}

/* ---- how the input lies ---- */

/* What steps evenly through the input: dimension `dim` of the result, or symbol `sym` (-1: the other one). */
typedef struct axis { int dim, sym; int64_t size, step; bool beyond, dilated; } axis;

/* The window's dimension that the axis runs along; NULL: batch or features. */
static const sn_window_dim *window_of(const product *p, int dim, int sym) {
  const sn_conv_dims *d = sn_instr_conv(p->dot);
  for (int k = 0; k < d->n_spatial; k++) {
    if (d->output_spatial[k] == dim || k == sym) return &sn_instr_window(p->dot)->dims[k];
  }
  return NULL;
}

/* Elements in memory from the input's element at (0, …, 0) to the one where the axis stands at `by`; 0: not known. */
static int64_t step_of(lowering *L, const product *p, int dim, int sym, int64_t by) {
  const sn_access *a = lower_access(L, p->dot, &p->map, 0);
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK], *at[SN_MAX_RANK], *address[2];
  for (int one = 0; one < 2; one++) {
    for (int k = 0; k < p->map.n_dims; k++) idx[k] = lower_const(L, one && k == dim ? by : 0);
    for (int k = 0; k < p->map.n_syms; k++) syms[k] = lower_const(L, one && k == sym ? by : 0);
    if (!a || !lower_at(L, p->dot, &p->map, a, idx, syms, at) || !product_address(L, sn_instr_operand(p->dot, 0), at, &address[one])) return 0;
  }
  const sn_ix *step = sn_ix_sub(L->k->ix, address[1], address[0]);
  return step && step->kind == SN_IX_CONST ? step->value : 0;
}

static axis axis_of(lowering *L, const product *p, int dim, int sym, int64_t size) {
  const sn_window_dim *w = window_of(p, dim, sym);
  int64_t dilation = w ? w->lhs_dilate : 1;
  return (axis){dim, sym, size, step_of(L, p, dim, sym, dilation), w && (w->pad_low > 0 || w->pad_high > 0 || dilation > 1), dilation > 1};
}

/* Neighbours, as far as they go: the last `n` of the axes, `size` elements `step` apart (0: unevenly). */
typedef struct row { int n; int64_t size, step; } row;

/* An axis that may leave the image ends the row: what lies behind it is not its neighbour. */
static row row_of(const axis *axes, int n) {
  row r = {0, 1, 0};
  while (r.n < n) {
    const axis *a = &axes[n - r.n - 1];
    if (a->size > 1 && r.size > 1 && (a->step != r.step * r.size || a->dilated)) break;
    if (a->size > 1 && r.size == 1) r.step = a->dilated ? 0 : a->step;
    r.size *= a->size;
    r.n++;
    if (a->size > 1 && a->beyond) break;
  }
  return r;
}

/* In the order in which the input has them: the last ones nearest in memory. */
static void find_terms(lowering *L, const product *p, convolution *c, axis *axes) {
  for (int k = 0; k < p->map.n_syms; k++) {
    axis a = axis_of(L, p, -1, k, p->map.sym_sizes[k]);
    int at = c->n_terms++;
    for (; at > 0 && axes[at - 1].step < a.step; at--) axes[at] = axes[at - 1];
    axes[at] = a;
  }
  for (int k = 0; k < c->n_terms; k++) {
    c->terms[k] = axes[k].sym;
    c->term_sizes[k] = axes[k].size;
  }
}

static void find_positions(lowering *L, const product *p, convolution *c, axis *axes) {
  const sn_shape *s = p->dot->shape;
  for (int k = 0; k < s->rank; k++) {
    if (k == c->feature) continue;
    axes[c->n_positions] = axis_of(L, p, k, -1, s->dims[k]);
    c->positions[c->n_positions] = k;
    c->position_sizes[c->n_positions++] = s->dims[k];
  }
}

/* ---- which way round ---- */

/* Cycles of a core for an element that is packed in such rows: by vectors, or one by one. */
static double packing(row r, int64_t lanes) {
  const double ROW = 3, VECTOR = 2, APART = 1.5;
  double each = r.step == 1 ? VECTOR * (double)((r.size + lanes - 1) / lanes) / (double)r.size : APART;
  return each + ROW / (double)r.size;
}

static double padded(int64_t n, int64_t to) { return (double)((n + to - 1) / to * to); }

/* Positions to lhs or to rhs, and along what they are packed: cycles for packing, multiply-adds of vectors that edges fill in part, and results stored one by one. */
static void choose_side(const lowering *L, const product *p, convolution *c, const axis *axes, row terms, int64_t n_positions) {
  const double STORE_APART = 1.5;
  int64_t lanes = lower_lanes(L, p->type), outer = 1;
  int n_outer = 0;
  while (n_outer < c->n_positions && c->positions[n_outer] < c->feature) outer *= c->position_sizes[n_outer++];
  row positions = row_of(axes, c->n_positions), inner = row_of(axes + n_outer, c->n_positions - n_outer);
  double strip = packing(positions, lanes), rows = packing(terms, lanes), all = (double)n_positions * (double)p->k, results = (double)n_positions * (double)c->features;
  int minor = p->dot->shape->rank - 1;
  while (minor > 0 && p->dot->shape->dims[minor] == 1) minor--;
  double left = all * (strip < rows ? strip : rows) + all * padded(c->features, lanes) / (double)lanes + (minor == c->feature ? 0 : STORE_APART * results);
  double right = all * packing(inner, lanes) + (double)(p->k * outer) * padded(n_positions / outer, lanes) / (double)lanes * padded(c->features, 4) + (minor == c->feature ? STORE_APART * results : 0);
  c->side = left <= right ? 0 : 1;
  c->along_terms = c->side == 0 && rows < strip;
  row packed = c->along_terms ? terms : c->side == 0 ? positions : inner;
  c->run = packed.size;
  c->n_run = packed.n;
  c->copied = packed.step == 1;
}

/* Positions in front of the features in the result are the product's batch: columns then lie as they do in the result. */
static void batch_positions(convolution *c) {
  int n = 0;
  while (n < c->n_positions && c->positions[n] < c->feature) {
    c->batch[c->n_batch] = c->positions[n];
    c->batch_sizes[c->n_batch++] = c->position_sizes[n++];
  }
  c->n_positions -= n;
  memmove(c->positions, c->positions + n, (size_t)c->n_positions * sizeof *c->positions);
  memmove(c->position_sizes, c->position_sizes + n, (size_t)c->n_positions * sizeof *c->position_sizes);
}

/* ---- the problem ---- */

static void measure(lowering *L, product *p, convolution *c) {
  axis positions[SN_MAX_RANK], terms[SN_MAX_RANK];
  int64_t in = sn_instr_int(p->dot, SN_ATTR_FEATURE_GROUP_COUNT), groups = in > 1 ? in : sn_instr_int(p->dot, SN_ATTR_BATCH_GROUP_COUNT), n_positions;
  c->feature = (int)sn_instr_conv(p->dot)->output_feature;
  c->features = p->dot->shape->dims[c->feature] / groups;
  n_positions = sn_shape_elements(p->dot->shape) / p->dot->shape->dims[c->feature];
  if (groups > 1) {
    c->batch[c->n_batch] = -1;
    c->batch_sizes[c->n_batch++] = groups;
  }
  find_positions(L, p, c, positions);
  find_terms(L, p, c, terms);
  p->k = p->batch = 1;
  for (int k = 0; k < c->n_terms; k++) p->k *= c->term_sizes[k];
  choose_side(L, p, c, positions, row_of(terms, c->n_terms), n_positions);
  if (c->side == 1) batch_positions(c);
  p->conv = c;
  p->operand[1 - c->side] = 1;
  p->n_batch = c->n_batch;
  p->batch_dims = c->batch_sizes;
  for (int k = 0; k < c->n_batch; k++) {
    p->batch *= c->batch_sizes[k];
    if (c->batch[k] >= 0) n_positions /= c->batch_sizes[k];
  }
  p->m = c->side == 0 ? n_positions : c->features;
  p->n = c->side == 0 ? c->features : n_positions;
}

static bool taken_type(const sn_instr *conv) {
  sn_type t = conv->shape->type;
  return sn_operand_shape(conv, 0)->type == t && sn_operand_shape(conv, 1)->type == t && (t == SN_TYPE_F32 || t == SN_TYPE_F64);
}

bool lower_convolution(lowering *L, const sn_instr *conv) {
  product p;
  convolution *c = SN_NEW(L->arena, convolution);
  memset(&p, 0, sizeof p);
  p.dot = conv;
  p.type = conv->shape->type;
  if (!c) {
    L->b.status = SN_ERR_MEMORY;
    return false;
  }
  if (lower_on_gpu(L) || !taken_type(conv) || conv->shape->rank + 1 >= SN_MAX_RANK || sn_shape_elements(conv->shape) == 0 || !lower_index_map(L, conv, 0, &p.map)) return false;
  measure(L, &p, c);
  if (p.m < 4 || p.n < 4 || p.k < 8 || p.batch * p.m * p.n * p.k < 16384) return false;
  return product_lower(L, &p);
}
