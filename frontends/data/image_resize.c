/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Resizing in 8 bits with anti-aliasing: first rows, then columns, rounded to bytes between the two, weights in fixed point. Pillow works this way, and
 * checkpoints were trained on what Pillow makes. The filter is stretched by the reduction, so every input pixel counts. */
#include <math.h>
#include <string.h>

#include "data_internal.h"

enum { WEIGHT_BITS = 32 - 8 - 2 }; /* sums of products of a byte and a weight (which may overshoot to 1.x) stay in 32 bits */

typedef struct filter {
  double support;
  double (*weight)(double x);
} filter;

static double triangle(double x) {
  x = fabs(x);
  return x < 1 ? 1 - x : 0;
}

/* Keys' cubic convolution with a = -1/2. */
static double cubic(double x) {
  const double a = -0.5;
  x = fabs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static filter filter_of(sn_resample r) { return r == SN_RESAMPLE_BICUBIC ? (filter){2, cubic} : (filter){1, triangle}; }

/* For each output position: first input position, count, and `room` weights. */
typedef struct taps {
  int64_t room;
  int64_t *first, *count;
  int32_t *weights;
} taps;

static void taps_finish(taps *t) {
  sn_free(t->first);
  sn_free(t->count);
  sn_free(t->weights);
}

static void fill_tap(const filter *f, double scale, int64_t from, int64_t i, taps *t, double *w) {
  double stretch = scale > 1 ? scale : 1, centre = ((double)i + 0.5) * scale, support = f->support * stretch, sum = 0;
  int64_t lo = (int64_t)(centre - support + 0.5), hi = (int64_t)(centre + support + 0.5);
  if (lo < 0) lo = 0;
  if (hi > from) hi = from;
  for (int64_t k = lo; k < hi; k++) sum += w[k - lo] = f->weight(((double)k - centre + 0.5) / stretch);
  for (int64_t k = lo; k < hi; k++) {
    double v = sum != 0 ? w[k - lo] / sum * (1 << WEIGHT_BITS) : 0;
    t->weights[i * t->room + k - lo] = (int32_t)(v < 0 ? v - 0.5 : v + 0.5);
  }
  t->first[i] = lo;
  t->count[i] = hi - lo;
}

static bool make_taps(sn_resample r, int64_t from, int64_t to, taps *t) {
  filter f = filter_of(r);
  double scale = (double)from / (double)to;
  t->room = (int64_t)ceil(f.support * (scale > 1 ? scale : 1)) * 2 + 1;
  t->first = sn_alloc_zero((size_t)to, sizeof *t->first);
  t->count = sn_alloc_zero((size_t)to, sizeof *t->count);
  t->weights = sn_alloc_zero((size_t)(to * t->room), sizeof *t->weights);
  double *w = sn_alloc_zero((size_t)t->room, sizeof *w);
  bool ok = t->first && t->count && t->weights && w;
  for (int64_t i = 0; ok && i < to; i++) fill_tap(&f, scale, from, i, t, w);
  sn_free(w);
  return ok;
}

static uint8_t clip(int64_t sum) {
  int64_t v = sum >> WEIGHT_BITS;
  return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

/* One direction: `lines` lines of `to` outputs; elements of a line stand `step` apart, `inner` interleaved values move together. */
static void resample_lines(const taps *t, int64_t lines, int64_t line_from, int64_t line_to, int64_t to, int64_t inner, const uint8_t *in, uint8_t *out) {
  for (int64_t l = 0; l < lines; l++)
    for (int64_t i = 0; i < to; i++)
      for (int64_t c = 0; c < inner; c++) {
        const int32_t *w = t->weights + i * t->room;
        const uint8_t *p = in + l * line_from + t->first[i] * inner + c;
        int64_t sum = INT64_C(1) << (WEIGHT_BITS - 1);
        for (int64_t k = 0; k < t->count[i]; k++) sum += (int64_t)w[k] * p[k * inner];
        out[l * line_to + i * inner + c] = clip(sum);
      }
}

static sn_status resize_nearest(const sn_image *from, sn_image *out) {
  for (int64_t y = 0; y < out->height; y++) {
    int64_t v = (int64_t)(((double)y + 0.5) * (double)from->height / (double)out->height);
    for (int64_t x = 0; x < out->width; x++) {
      int64_t u = (int64_t)(((double)x + 0.5) * (double)from->width / (double)out->width);
      memcpy(out->data + (y * out->width + x) * out->channels, from->data + (v * from->width + u) * from->channels, (size_t)from->channels);
    }
  }
  return SN_OK;
}

static sn_status resize_filtered(const sn_image *from, sn_resample r, sn_image *out) {
  taps across = {0}, down = {0};
  int64_t c = from->channels, mid = out->width * c;
  uint8_t *rows = sn_alloc((size_t)(from->height * mid));
  bool ok = rows && make_taps(r, from->width, out->width, &across) && make_taps(r, from->height, out->height, &down);
  if (ok) {
    resample_lines(&across, from->height, from->width * c, mid, out->width, c, from->data, rows);
    resample_lines(&down, 1, 0, 0, out->height, mid, rows, out->data); /* a row is one element of `mid` values */
  }
  taps_finish(&across);
  taps_finish(&down);
  sn_free(rows);
  return ok ? SN_OK : SN_ERR_MEMORY;
}

sn_status sn_image_resize(const sn_image *from, int64_t height, int64_t width, sn_resample r, sn_image *out) {
  *out = (sn_image){height, width, from->channels, sn_alloc((size_t)(height * width * from->channels))};
  if (!out->data) return SN_ERR_MEMORY;
  sn_status s = r == SN_RESAMPLE_NEAREST ? resize_nearest(from, out) : resize_filtered(from, r, out);
  if (s != SN_OK) sn_image_finish(out);
  return s;
}
