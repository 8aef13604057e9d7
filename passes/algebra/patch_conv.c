/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolutions whose windows tile the image without overlap (kernel = stride: the patch embedding of a vision transformer) are products over patches, and so are
 * both of their gradients. No layout question is left then, and the product kernel does the work.
 *
 *   forward          y[n,h,w,o]      = sum over i,j,c  x[n, h*P+i, w*Q+j, c] k[i,j,c,o]      window P, stride P
 *   input gradient   x[n,h*P+i,.., c] = sum over o      y[n,h,..,o] k'[P-1-i,.., o, c]         window P, base dilation P, padding P-1
 *   kernel gradient  k[b,i,..,o]     = sum over h,..,f  x[b, h*P+i, .., f] y[h,..,f,o]         window H, window dilation P
 *
 * Each spatial dimension of the first operand splits into (blocks, within), which is a reshape; then one of the two is contracted. */
#include "../passes_internal.h"

#include <string.h>

typedef enum form { NO_FORM, FORWARD, INPUT_GRADIENT, KERNEL_GRADIENT } form;

typedef struct patches {
  sn_instr *i;
  const sn_conv_dims *d;
  const sn_window *w;
} patches;

static bool plain_dim(const sn_window_dim *d) { return !d->reversal; }

static bool is_forward(const patches *p, int k) {
  const sn_window_dim *d = &p->w->dims[k];
  int64_t size = sn_operand_shape(p->i, 0)->dims[p->d->input_spatial[k]], out = p->i->shape->dims[p->d->output_spatial[k]];
  return plain_dim(d) && d->stride == d->size && !d->pad_low && !d->pad_high && d->lhs_dilate == 1 && (d->rhs_dilate == 1 || d->size == 1) && size == out * d->size;
}
static bool is_input_gradient(const patches *p, int k) {
  const sn_window_dim *d = &p->w->dims[k];
  int64_t size = sn_operand_shape(p->i, 0)->dims[p->d->input_spatial[k]], out = p->i->shape->dims[p->d->output_spatial[k]];
  return plain_dim(d) && d->stride == 1 && d->lhs_dilate == d->size && d->pad_low == d->size - 1 && d->pad_high == d->size - 1 &&
         (d->rhs_dilate == 1 || d->size == 1) && out == size * d->size;
}
static bool is_kernel_gradient(const patches *p, int k) {
  const sn_window_dim *d = &p->w->dims[k];
  int64_t size = sn_operand_shape(p->i, 0)->dims[p->d->input_spatial[k]], out = p->i->shape->dims[p->d->output_spatial[k]];
  return plain_dim(d) && d->stride == 1 && !d->pad_low && !d->pad_high && d->lhs_dilate == 1 && (d->rhs_dilate == out || d->size == 1) && size == out * d->size;
}

static form form_of(const patches *p) {
  bool forward = true, input = true, kernel = true, trivial = true;
  for (int k = 0; k < p->d->n_spatial; k++) {
    forward &= is_forward(p, k);
    input &= is_input_gradient(p, k);
    kernel &= is_kernel_gradient(p, k);
    trivial &= p->w->dims[k].size == 1;
  }
  if (forward) return FORWARD;
  return trivial ? NO_FORM : input ? INPUT_GRADIENT : kernel ? KERNEL_GRADIENT : NO_FORM;
}

/* One dimension of the product's result, by what it stands for. */
typedef enum role { BATCH, FEATURE, BLOCK, WITHIN } role;
typedef struct tag { role what; int spatial; } tag;

typedef struct product {
  sn_instr *x, *k;
  int n_contracted;
  int64_t lc[SN_MAX_RANK], rc[SN_MAX_RANK];
  int n_tags;
  tag tags[SN_MAX_RANK]; /* of the result's dimensions */
} product;

static void contract(product *q, int64_t l, int64_t r) {
  q->lc[q->n_contracted] = l;
  q->rc[q->n_contracted++] = r;
}

/* x with each spatial dimension split into blocks and places within; the given half is contracted with the kernel's spatial dimension. */
static void split_input(sn_builder *b, const patches *p, bool contract_blocks, product *q) {
  const sn_shape *s = sn_operand_shape(p->i, 0);
  int64_t dims[SN_MAX_RANK], of_spatial[SN_MAX_RANK], feature = 0;
  int n = 0;
  for (int d = 0; d < s->rank; d++) {
    int k = 0;
    while (k < p->d->n_spatial && p->d->input_spatial[k] != d) k++;
    if (k < p->d->n_spatial) {
      int64_t blocks = contract_blocks ? p->w->dims[k].size : p->i->shape->dims[p->d->output_spatial[k]];
      of_spatial[k] = n + !contract_blocks;
      q->tags[q->n_tags++] = (tag){contract_blocks ? WITHIN : BLOCK, k};
      dims[n++] = blocks;
      dims[n++] = s->dims[d] / blocks;
    } else {
      if (d == p->d->input_batch) q->tags[q->n_tags++] = (tag){BATCH, 0};
      else feature = n;
      dims[n++] = s->dims[d];
    }
  }
  for (int k = 0; k < p->d->n_spatial; k++) contract(q, of_spatial[k], p->d->kernel_spatial[k]);
  contract(q, feature, p->d->kernel_input_feature);
  q->tags[q->n_tags++] = (tag){FEATURE, 0};
  q->x = sn_build_reshape(b, sn_instr_operand(p->i, 0), n, dims);
  q->k = sn_instr_operand(p->i, 1);
}

static void whole_input(sn_builder *b, const patches *p, product *q) {
  const sn_shape *kernel = sn_operand_shape(p->i, 1);
  int64_t reversed[SN_MAX_RANK];
  int n = 0;
  q->x = sn_instr_operand(p->i, 0);
  for (int d = 0; d < q->x->shape->rank; d++) {
    if (d == p->d->input_feature) continue;
    int k = 0;
    while (k < p->d->n_spatial && p->d->input_spatial[k] != d) k++;
    q->tags[q->n_tags++] = k < p->d->n_spatial ? (tag){BLOCK, k} : (tag){BATCH, 0};
  }
  for (int d = 0; d < kernel->rank; d++) {
    if (d == p->d->kernel_input_feature) continue;
    int k = 0;
    while (k < p->d->n_spatial && p->d->kernel_spatial[k] != d) k++;
    q->tags[q->n_tags++] = k < p->d->n_spatial ? (tag){WITHIN, k} : (tag){FEATURE, 0};
    if (k < p->d->n_spatial && kernel->dims[d] > 1) reversed[n++] = d;
  }
  contract(q, p->d->input_feature, p->d->kernel_input_feature);
  q->k = n ? sn_build_reverse(b, sn_instr_operand(p->i, 1), n, reversed) : sn_instr_operand(p->i, 1);
}

static int find_tag(const product *q, role what, int spatial) {
  for (int k = 0; k < q->n_tags; k++) {
    if (q->tags[k].what == what && (what == BATCH || what == FEATURE || q->tags[k].spatial == spatial)) return k;
  }
  return -1;
}

/* The product's dimensions in the order of the convolution's result, a block beside its places within. */
static sn_instr *arrange(sn_builder *b, const patches *p, const product *q, sn_instr *y) {
  int64_t order[SN_MAX_RANK];
  int n = 0;
  for (int d = 0; d < p->i->shape->rank; d++) {
    int k = 0;
    while (k < p->d->n_spatial && p->d->output_spatial[k] != d) k++;
    if (d == p->d->output_batch) {
      order[n++] = find_tag(q, BATCH, 0);
    } else if (d == p->d->output_feature) {
      order[n++] = find_tag(q, FEATURE, 0);
    } else {
      int block = find_tag(q, BLOCK, k), within = find_tag(q, WITHIN, k);
      if (block >= 0) order[n++] = block;
      if (within >= 0) order[n++] = within;
    }
  }
  return y ? sn_build_reshape(b, sn_build_transpose(b, y, order), p->i->shape->rank, p->i->shape->dims) : NULL;
}

static sn_instr *as_product(sn_builder *b, const patches *p, form f) {
  product q;
  memset(&q, 0, sizeof q);
  if (f == INPUT_GRADIENT) whole_input(b, p, &q);
  else split_input(b, p, f == KERNEL_GRADIENT, &q);
  sn_dot_dims dims = {0, q.n_contracted, NULL, NULL, q.lc, q.rc};
  sn_instr *y = sn_build_dot(b, q.x, q.k, &dims, p->i->shape->type);
  const sn_attr *precision = sn_instr_attr(p->i, SN_ATTR_OPERAND_PRECISION);
  if (y && precision) b->status = sn_instr_set_attr(y, *precision);
  return arrange(b, p, &q, y);
}

sn_status sn_pass_patch_conv(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op != SN_OP_CONVOLUTION || i->n_control || !sn_instr_window(i) || !sn_shape_is_static(i->shape)) continue;
      if (sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT) != 1 || sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT) != 1) continue;
      patches p = {i, sn_instr_conv(i), sn_instr_window(i)};
      if (sn_shape_elements(sn_operand_shape(i, 0)) == 0 || sn_shape_elements(sn_operand_shape(i, 1)) == 0 || i->shape->rank + p.d->n_spatial > SN_MAX_RANK) continue;
      form f = form_of(&p);
      if (f == NO_FORM || !sn_pass_may(pc)) continue;
      sn_builder b;
      sn_builder_init_at(&b, pc->diag, i);
      sn_instr *by = as_product(&b, &p, f);
      SN_TRY(b.status);
      sn_pass_remark(pc, SN_DONE, SN_REASON_RULE, i, NULL, 0, NULL,
                     f == FORWARD ? "windows do not overlap: a product over patches" : f == INPUT_GRADIENT ? "input gradient of patches" : "kernel gradient of patches");
      SN_TRY(sn_pass_replace(pc, i, by));
      sn_instr_erase(i);
    }
  }
  return SN_OK;
}
