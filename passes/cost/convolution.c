/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Convolutions: as packed products (compiler/kernel/lower_convolution.c) or in plain loops, and which way round. Cycles of a core that does one multiply-add of a vector a
 * cycle; measured on AVX-512. */
#include <string.h>

#include "sinter/cost.h"

/* ---- as products ---- */

static const double RUN = 12, VECTOR = 3, APART = 3; /* packing: a row of neighbours begins, a vector of them, one element alone */
static const double STORE_APART = 2;                 /* a result that lies alone */
static const double KERNEL = 0.2, KERNEL_APART = 1;  /* an element of the kernel, once */
static const double STEP = 1.07;                     /* a multiply-add of a vector, with what a tile's loads and its edge in memory take */
static const double BEGIN = 4000;                    /* phases, items */

static double packing(sn_conv_row r, int64_t lanes) {
  if (r.size < 1) return 0;
  double each = r.apart ? APART : VECTOR * (double)((r.size + lanes - 1) / lanes) / (double)r.size;
  return each + RUN / (double)r.size;
}

static double padded(int64_t n, int64_t to) { return (double)((n + to - 1) / to * to); }

void sn_conv_choose(const sn_conv_work *w, sn_conv_way *out) {
  double strip = packing(w->positions_row, w->lanes), rows = packing(w->terms_row, w->lanes), inner = packing(w->inner_row, w->lanes), positions = (double)(w->images * w->positions);
  double terms = (double)w->terms, lanes = (double)w->lanes, kernel = terms * (double)w->features, results = positions * (double)w->features;
  double left = positions * terms * (STEP * padded(w->features, w->lanes) / lanes + (strip < rows ? strip : rows)) + (w->features_last ? 0 : STORE_APART * results) +
                kernel * (w->kernel_features_last ? KERNEL : KERNEL_APART);
  double right = terms * (double)w->images * (STEP * padded(w->positions, w->lanes) / lanes * padded(w->features, 4)) + positions * terms * inner +
                 (w->features_last ? STORE_APART * results : 0) + kernel * (w->kernel_features_last ? KERNEL_APART : KERNEL);
  double cycles = (double)w->groups * (left <= right ? left : right) + BEGIN;
  out->side = left <= right ? 0 : 1;
  out->along_terms = out->side == 0 && rows < strip;
  out->share = (double)w->groups * results * terms / lanes / cycles;
}

/* ---- from the instruction ---- */

enum { MOST_PARTS = 4 };

int64_t sn_conv_parts(const sn_window_dim *w) { return w->stride == 1 && w->rhs_dilate == 1 && w->lhs_dilate <= MOST_PARTS ? w->lhs_dilate : 1; }

static int64_t parts_of(const sn_instr *i) {
  const sn_window *w = sn_instr_window(i);
  int64_t n = 1;
  for (int k = 0; w && k < w->rank; k++) n *= sn_conv_parts(&w->dims[k]);
  return n;
}

/* Of so many multiply-adds one meets an element of the input, the others zeros. */
static double dilation_of(const sn_instr *i) {
  const sn_window *w = sn_instr_window(i);
  double n = 1;
  for (int k = 0; w && k < w->rank; k++) n *= (double)w->dims[k].lhs_dilate;
  return n;
}

/* Neighbours along the dimension that lies closest in the input: a row of positions if they move along it, of terms if those do. */
static void find_rows(const sn_instr *i, int64_t minor, sn_conv_work *w) {
  const sn_conv_dims *d = sn_instr_conv(i);
  const sn_window *x = sn_instr_window(i);
  w->positions_row = w->inner_row = w->terms_row = (sn_conv_row){1, true};
  if (minor == d->input_batch) w->positions_row = (sn_conv_row){i->shape->dims[d->output_batch], false};
  if (minor == d->input_feature) w->terms_row = (sn_conv_row){sn_operand_shape(i, 1)->dims[d->kernel_input_feature], false};
  for (int k = 0; k < d->n_spatial; k++) {
    const sn_window_dim *s = &x->dims[k];
    int64_t result = i->shape->dims[d->output_spatial[k]], parts = sn_conv_parts(s);
    bool dilated = s->lhs_dilate > parts;
    if (minor == d->input_spatial[k]) {
      w->positions_row = (sn_conv_row){(result + parts - 1) / parts, s->stride != 1 || dilated};
      w->terms_row = (sn_conv_row){(s->size + parts - 1) / parts, s->rhs_dilate != 1 || dilated};
    } else if (k == d->n_spatial - 1 && minor == d->input_feature && s->rhs_dilate == 1 && !dilated) {
      w->terms_row.size *= (s->size + parts - 1) / parts; /* pixels of a row of the window follow one another */
    } else if (k == d->n_spatial - 1 && minor == d->input_batch && s->stride == 1 && !dilated) {
      w->positions_row.size *= (result + parts - 1) / parts;
    }
  }
  if (minor != d->input_batch) w->inner_row = w->positions_row;
}

static void measure(const sn_target *t, const sn_instr *i, const int64_t minor[3], sn_conv_work *w) {
  const sn_conv_dims *d = sn_instr_conv(i);
  const sn_shape *kernel = sn_operand_shape(i, 1);
  int64_t in = sn_instr_int(i, SN_ATTR_FEATURE_GROUP_COUNT), out = i->shape->dims[d->output_feature], lanes = (t && t->vector_bytes ? t->vector_bytes : 32) / (i->shape->type == SN_TYPE_F64 ? 8 : 4);
  memset(w, 0, sizeof *w);
  w->groups = in > 1 ? in : sn_instr_int(i, SN_ATTR_BATCH_GROUP_COUNT);
  w->lanes = lanes < 1 ? 1 : lanes;
  w->features = out / w->groups;
  w->images = i->shape->dims[d->output_batch];
  w->positions = sn_shape_elements(i->shape) / out / w->images;
  w->terms = sn_shape_elements(kernel) / kernel->dims[d->kernel_output_feature];
  w->features_last = minor[2] == d->output_feature;
  w->kernel_features_last = minor[1] == d->kernel_output_feature;
  find_rows(i, minor[0], w);
}

static bool f32_holds(const sn_shape *s) { return s->type == SN_TYPE_F32 || s->type == SN_TYPE_F16 || s->type == SN_TYPE_BF16; }

static bool taken(const sn_target *t, const sn_instr *i) {
  const sn_shape *a = sn_operand_shape(i, 0), *b = sn_operand_shape(i, 1);
  bool wide = a->type == SN_TYPE_F64 && b->type == SN_TYPE_F64 && i->shape->type == SN_TYPE_F64, types = wide || (f32_holds(a) && f32_holds(b) && f32_holds(i->shape));
  return types && !(t && t->kind == SN_TARGET_CUDA) && i->shape->rank + 1 < SN_MAX_RANK && sn_instr_conv(i) && sn_instr_window(i) && sn_shape_elements(i->shape) > 0 &&
         sn_shape_elements(sn_operand_shape(i, 1)) > 0 && sn_shape_elements(sn_operand_shape(i, 0)) > 0;
}

/* Share of the peak as packed products; 0: they do not take it. */
static double packed_share(const sn_target *t, const sn_instr *i, const int64_t minor[3]) {
  sn_conv_work w;
  sn_conv_way way;
  if (!taken(t, i)) return 0;
  measure(t, i, minor, &w);
  if (w.terms < 8 || w.images * w.positions < 4) return 0;
  int64_t parts = parts_of(i); /* alike but for an element */
  w.groups *= parts;
  w.positions = (w.positions + parts - 1) / parts;
  w.terms = (w.terms + parts - 1) / parts;
  sn_conv_choose(&w, &way);
  return way.share * (double)parts / dilation_of(i);
}

/* ---- in loops ---- */

/* What its lanes run along decides: output channels with a kernel that lies along them too, or pixels that lie in a row. Else each lane reads from a line of its own. */
static const double CHANNELS = 0.23, PIXELS = 0.16, PIXELS_FAR_KERNEL = 0.08, SCATTERED = 0.04, OF_KERNEL = 0.4;

static double lanes_filled(const sn_target *t, const sn_instr *i, int64_t n) {
  int64_t lanes = (t && t->vector_bytes ? t->vector_bytes : 32) / (int64_t)sn_type_bytes(i->shape->type);
  if (lanes < 1) lanes = 1;
  return n > 0 ? (double)n / (double)((n + lanes - 1) / lanes * lanes) : 1;
}

static double loops_share(const sn_target *t, const sn_instr *conv, const int64_t at[3]) {
  const sn_conv_dims *d = sn_instr_conv(conv);
  const sn_window *w = sn_instr_window(conv);
  double share = SCATTERED;
  int64_t window = 1, image = 1;
  bool grouped = sn_instr_int(conv, SN_ATTR_FEATURE_GROUP_COUNT) > 1; /* then each output channel reads channels of its own */
  if (at[2] == d->output_feature && at[1] == d->kernel_output_feature && (!grouped || at[0] == d->input_feature)) share = CHANNELS;
  if (at[2] == d->output_batch && at[0] == d->input_batch) share = PIXELS;
  for (int k = 0; w && k < w->rank && k < d->n_spatial; k++) {
    window *= w->dims[k].size;
    image *= conv->shape->dims[d->output_spatial[k]];
    if (at[2] != d->output_spatial[k] || at[0] != d->input_spatial[k] || w->dims[k].stride != 1 || w->dims[k].lhs_dilate != 1) continue;
    share = at[1] == d->kernel_output_feature || at[1] == d->kernel_input_feature ? PIXELS : PIXELS_FAR_KERNEL;
  }
  return share * lanes_filled(t, conv, conv->shape->dims[at[2]]) * (window > image ? OF_KERNEL : 1) / dilation_of(conv);
}

/* ---- both ---- */

static const int64_t *or_last(const sn_instr *conv, const int64_t minor[3], int64_t last[3]) {
  for (int k = 0; k < 3; k++) last[k] = (k < 2 ? sn_operand_shape(conv, (uint32_t)k) : conv->shape)->rank - 1;
  return minor ? minor : last;
}

double sn_cost_convolution_share(const sn_target *t, const sn_instr *conv, const int64_t minor[3]) {
  int64_t last[3];
  if (!sn_instr_conv(conv)) return sn_heroes[SN_HERO_CONVOLUTION].maths;
  const int64_t *at = or_last(conv, minor, last);
  double packed = packed_share(t, conv, at), loops = loops_share(t, conv, at);
  return packed > loops ? packed : loops;
}

bool sn_conv_is_packed(const sn_target *t, const sn_instr *conv, double shares[2]) {
  int64_t last[3];
  shares[0] = shares[1] = 0;
  if (!sn_instr_conv(conv)) return false;
  const int64_t *at = or_last(conv, NULL, last);
  shares[0] = packed_share(t, conv, at);
  shares[1] = loops_share(t, conv, at);
  return shares[0] > shares[1];
}
