/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolutions as implicit products, on the template of lower_product.c:
 *
 *   out[g, position, feature] = epilogue(sum over (window, input feature) of input[g, position, window, input feature] * kernel[g, window, input feature, feature])
 *
 * The input's side of the product is gathered while it is packed; no array of windows lies in memory. One template serves the forward pass, the gradient of the input (dilated
 * input) and of the kernel (batch and features exchanged), in every order of dimensions: which operand is lhs, in which order terms are summed and along what the packing
 * runs follows from where neighbours in memory lie. A dilated input is cut into as many parts as its dilation has remainders, each a convolution without dilation that
 * multiplies no zeros. After Chetlur et al., "cuDNN: Efficient Primitives for Deep Learning" (2014). */
#include "lower_convolution.h"
#include "sinter/cost.h"

#include <string.h>

/* ---- indices ---- */

const sn_ix *convolution_number(lowering *L, const stride_of *s, const sn_ix *i) {
  return sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, i, lower_const(L, s->step)), lower_const(L, s->first));
}

void convolution_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx) {
  const convolution *c = p->conv;
  const sn_ix *at[SN_MAX_RANK], *feature = c->side == 0 ? n : m;
  lower_delinearise(L, c->side == 0 ? m : n, c->n_positions, c->position_sizes, at);
  for (int k = 0; k < c->n_positions; k++) idx[c->positions[k]] = convolution_number(L, &c->dims[c->positions[k]], at[k]);
  for (int k = 0; k < c->n_batch; k++) {
    if (c->batch[k] >= 0) idx[c->batch[k]] = convolution_number(L, &c->dims[c->batch[k]], b[k]);
    else feature = sn_ix_add(L->k->ix, feature, sn_ix_mul(L->k->ix, b[k], lower_const(L, c->features)));
  }
  idx[c->feature] = feature;
}

void convolution_terms(lowering *L, const convolution *c, const sn_ix *k, const sn_ix **syms) {
  const sn_ix *at[SN_MAX_RANK];
  lower_delinearise(L, k, c->n_terms, c->term_sizes, at);
  for (int t = 0; t < c->n_terms; t++) syms[c->terms[t]] = convolution_number(L, &c->syms[c->terms[t]], at[t]);
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

/* Elements in memory from the input's element that is read first to the one where the axis stands one on; 0: not known. */
static int64_t step_of(lowering *L, const product *p, const convolution *c, int dim, int sym) {
  const sn_access *a = lower_access(L, p->dot, &p->map, 0);
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK], *at[SN_MAX_RANK], *address[2];
  for (int one = 0; one < 2; one++) {
    for (int k = 0; k < p->map.n_dims; k++) idx[k] = lower_const(L, c->dims[k].first + (one && k == dim ? c->dims[k].step : 0));
    for (int k = 0; k < p->map.n_syms; k++) syms[k] = lower_const(L, c->syms[k].first + (one && k == sym ? c->syms[k].step : 0));
    if (!a || !lower_at(L, p->dot, &p->map, a, idx, syms, at) || !product_address(L, sn_instr_operand(p->dot, 0), at, &address[one])) return 0;
  }
  const sn_ix *step = sn_ix_sub(L->k->ix, address[1], address[0]);
  return step && step->kind == SN_IX_CONST ? step->value : 0;
}

static axis axis_of(lowering *L, const product *p, const convolution *c, int dim, int sym) {
  const stride_of *s = dim >= 0 ? &c->dims[dim] : &c->syms[sym];
  const sn_window_dim *w = window_of(p, dim, sym);
  bool dilated = w && w->lhs_dilate > 1;
  return (axis){dim, sym, s->size, step_of(L, p, c, dim, sym), w && (w->pad_low > 0 || w->pad_high > 0 || dilated), dilated && s->step != w->lhs_dilate};
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
    axis a = axis_of(L, p, c, -1, k);
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
    axes[c->n_positions] = axis_of(L, p, c, k, -1);
    c->positions[c->n_positions] = k;
    c->position_sizes[c->n_positions++] = c->dims[k].size;
  }
}

/* ---- which way round ---- */

static sn_conv_row conv_row(row r) { return (sn_conv_row){r.size, r.step != 1}; }

static void choose_way(const lowering *L, const product *p, convolution *c, const axis *axes, const axis *terms, int64_t n_positions, int64_t groups) {
  const sn_shape *s = p->dot->shape, *kernel = sn_operand_shape(p->dot, 1);
  int n_outer = 0, minor = s->rank - 1;
  int64_t images = 1;
  sn_conv_way way;
  while (n_outer < c->n_positions && c->positions[n_outer] < c->feature) images *= c->position_sizes[n_outer++];
  while (minor > 0 && s->dims[minor] == 1) minor--;
  row positions = row_of(axes, c->n_positions), inner = row_of(axes + n_outer, c->n_positions - n_outer), of_terms = row_of(terms, c->n_terms);
  sn_conv_work w = {groups, images, n_positions / images, p->k, c->features, lower_lanes(L, p->type), minor == c->feature, sn_instr_conv(p->dot)->kernel_output_feature == kernel->rank - 1,
                    conv_row(positions), conv_row(of_terms), conv_row(inner)};
  sn_conv_choose(&w, &way);
  row packed = way.along_terms ? of_terms : way.side == 0 ? positions : inner;
  c->side = way.side;
  c->along_terms = way.along_terms;
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

/* The product that computes c's part of the result: its dims and syms are set. False: there is no such element. */
static bool measure(lowering *L, product *p, convolution *c) {
  axis positions[SN_MAX_RANK], terms[SN_MAX_RANK];
  int64_t in = sn_instr_int(p->dot, SN_ATTR_FEATURE_GROUP_COUNT), groups = in > 1 ? in : sn_instr_int(p->dot, SN_ATTR_BATCH_GROUP_COUNT), n_positions = 1;
  c->feature = (int)sn_instr_conv(p->dot)->output_feature;
  c->features = p->dot->shape->dims[c->feature] / groups;
  if (groups > 1) {
    c->batch[c->n_batch] = -1;
    c->batch_sizes[c->n_batch++] = groups;
  }
  find_positions(L, p, c, positions);
  find_terms(L, p, c, terms);
  p->k = p->batch = 1;
  for (int k = 0; k < c->n_terms; k++) p->k *= c->term_sizes[k];
  for (int k = 0; k < c->n_positions; k++) n_positions *= c->position_sizes[k];
  if (n_positions == 0) return false;
  p->empty = p->k == 0;
  if (p->empty) p->k = 1;
  choose_way(L, p, c, positions, terms, n_positions, groups);
  if (c->side == 1) batch_positions(c);
  p->conv = c;
  p->operand[c->side] = 0;
  p->operand[1 - c->side] = 1;
  p->n_batch = c->n_batch;
  p->batch_dims = c->batch_sizes;
  for (int k = 0; k < c->n_batch; k++) {
    p->batch *= c->batch_sizes[k];
    if (c->batch[k] >= 0) n_positions /= c->batch_sizes[k];
  }
  p->m = c->side == 0 ? n_positions : c->features;
  p->n = c->side == 0 ? c->features : n_positions;
  return L->b.status == SN_OK;
}

/* ---- parts ---- */

static void every(stride_of *to, int n, const int64_t *sizes) {
  for (int k = 0; k < n; k++) to[k] = (stride_of){0, 1, sizes[k]};
}

/* Those of n numbers that leave `first` when divided by step. */
static stride_of those(int64_t n, int64_t step, int64_t first) { return (stride_of){first, step, n > first ? (n - first + step - 1) / step : 0}; }

/* Results p with p mod d = r meet elements of the input, and not the zeros between them, in window places w with (p + w - pad) mod d = 0. */
static void cut(const product *p, int64_t part, convolution *c) {
  const sn_conv_dims *d = sn_instr_conv(p->dot);
  for (int k = 0; k < d->n_spatial; k++) {
    const sn_window_dim *w = &sn_instr_window(p->dot)->dims[k];
    int64_t by = sn_conv_parts(w), r = part % by, place = (w->pad_low - r) % by;
    part /= by;
    if (by == 1) continue;
    c->dims[d->output_spatial[k]] = those(p->dot->shape->dims[d->output_spatial[k]], by, r);
    c->syms[k] = those(w->size, by, place < 0 ? place + by : place);
  }
}

static void one_part(lowering *L, const product *whole, int64_t part) {
  product p = *whole;
  convolution *c = SN_NEW(L->arena, convolution);
  if (!c) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  every(c->dims, p.map.n_dims, p.dot->shape->dims);
  every(c->syms, p.map.n_syms, p.map.sym_sizes);
  cut(&p, part, c);
  if (measure(L, &p, c)) product_emit(L, &p);
}

static void all_parts(lowering *L, const product *p, int64_t n) {
  enum { BUFFERS = 4 }; /* of a part, at most */
  int at = L->k->n_buffers, *part = SN_NEW_N(L->arena, int, at + n * BUFFERS);
  if (!part) L->b.status = SN_ERR_MEMORY;
  for (int b = 0; part && b < at; b++) part[b] = -1;
  for (int64_t k = 0; k < n && L->b.status == SN_OK; k++) {
    one_part(L, p, k);
    sn_assert(L->b.status != SN_OK || L->k->n_buffers - at <= BUFFERS);
    for (; L->b.status == SN_OK && at < L->k->n_buffers; at++) part[at] = (int)k;
  }
  if (L->b.status == SN_OK && n > 1 && !L->is_part) lower_order_buffers(L, (int)n, part); /* else that is for the whole to do */
}

bool lower_convolution(lowering *L, const sn_instr *conv) {
  double shares[2];
  product p;
  int64_t parts = 1;
  memset(&p, 0, sizeof p);
  p.dot = conv;
  p.type = conv->shape->type == SN_TYPE_F64 ? SN_TYPE_F64 : SN_TYPE_F32; /* of the sums: narrower ones are rounded once, at the end */
  if (lower_on_gpu(L) || !sn_conv_is_packed(L->target, conv, shares) || !lower_index_map(L, conv, 0, &p.map) || !product_applies(L, &p)) return false;
  for (int k = 0; k < sn_instr_window(conv)->rank; k++) parts *= sn_conv_parts(&sn_instr_window(conv)->dims[k]);
  all_parts(L, &p, parts);
  return true;
}
