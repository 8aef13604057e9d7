/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Equality and hash by bits; comparison by tolerance. Of arrays with dynamic dimensions only the living elements count. */
#include "sinter/array.h"

#include <math.h>
#include <string.h>

/* Walks the runs of contiguous living elements: whole arrays in one run, dynamic ones row by row. */
typedef struct run_walk {
  const sn_shape *shape;
  const int64_t *sizes; /* NULL: static */
  int64_t strides[SN_MAX_RANK], index[SN_MAX_RANK];
  int64_t offset, n; /* the current run, in elements */
  bool started;
} run_walk;

static void run_walk_init(run_walk *w, const sn_array *a) {
  *w = (run_walk){.shape = sn_array_shape(a), .sizes = sn_array_dynamic_sizes(a)};
  sn_shape_strides(w->shape, w->strides);
}

static bool run_walk_first(run_walk *w) {
  w->started = true;
  w->offset = 0;
  w->n = w->sizes ? w->sizes[w->shape->rank - 1] : sn_shape_elements(w->shape);
  if (!w->sizes) return w->n > 0;
  for (int i = 0; i < w->shape->rank; i++) {
    if (w->sizes[i] == 0) return false;
  }
  return true;
}

static bool run_walk_next(run_walk *w) {
  if (!w->started) return run_walk_first(w);
  if (!w->sizes) return false;
  for (int i = w->shape->rank - 2; i >= 0; i--) {
    w->offset += w->strides[i];
    if (++w->index[i] < w->sizes[i]) return true;
    w->offset -= w->strides[i] * w->index[i];
    w->index[i] = 0;
  }
  return false;
}

static bool sizes_equal(const sn_array *a, const sn_array *b) {
  const int64_t *x = sn_array_dynamic_sizes(a), *y = sn_array_dynamic_sizes(b);
  if (!x || !y) return x == y;
  return memcmp(x, y, (size_t)sn_array_shape(a)->rank * sizeof *x) == 0;
}

bool sn_array_equal(const sn_array *a, const sn_array *b) {
  if (a == b) return true;
  if (!a || !b || !sn_shape_equal(sn_array_shape(a), sn_array_shape(b), 0) || !sizes_equal(a, b)) return false;
  for (int i = 0; i < sn_array_n_elements(a); i++) {
    if (!sn_array_equal(sn_array_element(a, i), sn_array_element(b, i))) return false;
  }
  const uint8_t *x = sn_array_data(a), *y = sn_array_data(b);
  if (!x) return true;
  size_t each = sn_type_bytes(sn_array_shape(a)->type);
  run_walk w;
  run_walk_init(&w, a);
  while (run_walk_next(&w)) {
    size_t at = (size_t)w.offset * each;
    if (memcmp(x + at, y + at, (size_t)w.n * each) != 0) return false;
  }
  return true;
}

uint64_t sn_array_hash(const sn_array *a, uint64_t seed) {
  const sn_shape *shape = sn_array_shape(a);
  uint64_t h = sn_shape_hash(shape, seed);
  for (int i = 0; i < sn_array_n_elements(a); i++) h = sn_array_hash(sn_array_element(a, i), h);
  const uint8_t *data = sn_array_data(a);
  if (!data) return h;
  const int64_t *sizes = sn_array_dynamic_sizes(a);
  if (sizes) h = sn_hash(sizes, (size_t)shape->rank * sizeof *sizes, h);
  size_t each = sn_type_bytes(shape->type);
  run_walk w;
  run_walk_init(&w, a);
  while (run_walk_next(&w)) h = sn_hash(data + (size_t)w.offset * each, (size_t)w.n * each, h);
  return h;
}

/* ---- tolerance ------------------------------------------------------------------------------------------------- */

typedef struct tolerance { double rtol, atol; } tolerance;

/* One real number's error and its part of what is allowed. */
typedef struct verdict { double error, ratio; } verdict;

static double ratio_of(double error, double allowed) {
  if (error == 0) return 0;
  return allowed > 0 ? error / allowed : INFINITY;
}

static verdict judge_float(double got, double want, tolerance t) {
  if (got == want || (isnan(got) && isnan(want))) return (verdict){0, 0};
  if (!isfinite(got) || !isfinite(want)) return (verdict){INFINITY, INFINITY};
  double error = fabs(got - want);
  return (verdict){error, ratio_of(error, t.atol + t.rtol * fabs(want))};
}

/* 64-bit integers do not fit a double, so their difference is taken before conversion. */
static verdict judge_integer(int64_t got, int64_t want, bool is_unsigned, tolerance t) {
  if (got == want) return (verdict){0, 0};
  bool less = is_unsigned ? (uint64_t)got < (uint64_t)want : got < want;
  uint64_t distance = less ? (uint64_t)want - (uint64_t)got : (uint64_t)got - (uint64_t)want;
  double magnitude = is_unsigned ? (double)(uint64_t)want : fabs((double)want);
  return (verdict){(double)distance, ratio_of((double)distance, t.atol + t.rtol * magnitude)};
}

enum { COMPARE_BLOCK = 256 };

typedef struct comparison {
  sn_type type;
  const uint8_t *got, *want;
  tolerance t;
  sn_array_difference *out;
} comparison;

static void note(const comparison *c, int64_t at, verdict v) {
  if (v.ratio > 1) c->out->n_bad++;
  if (c->out->worst >= 0 && !(v.ratio > c->out->ratio)) return;
  size_t each = sn_type_bytes(c->type);
  c->out->worst = at;
  c->out->error = v.error;
  c->out->ratio = v.ratio;
  sn_load_c128(c->type, c->got + (size_t)at * each, &c->out->got, &c->out->got_im);
  sn_load_c128(c->type, c->want + (size_t)at * each, &c->out->want, &c->out->want_im);
}

static void compare_integers(const comparison *c, int64_t from, int64_t n) {
  int64_t got[COMPARE_BLOCK], want[COMPARE_BLOCK];
  size_t at = (size_t)from * sn_type_bytes(c->type);
  sn_convert(SN_TYPE_S64, got, c->type, c->got + at, n);
  sn_convert(SN_TYPE_S64, want, c->type, c->want + at, n);
  bool is_unsigned = !sn_type_is_signed(c->type);
  for (int64_t i = 0; i < n; i++) note(c, from + i, judge_integer(got[i], want[i], is_unsigned, c->t));
}

/* Real and imaginary part are judged each by itself, as files that store them apart would. */
static void compare_floats(const comparison *c, int64_t from, int64_t n) {
  double got[2 * COMPARE_BLOCK], want[2 * COMPARE_BLOCK];
  size_t at = (size_t)from * sn_type_bytes(c->type);
  bool is_complex = sn_type_is_complex(c->type);
  sn_type wide = is_complex ? SN_TYPE_C128 : SN_TYPE_F64;
  sn_convert(wide, got, c->type, c->got + at, n);
  sn_convert(wide, want, c->type, c->want + at, n);
  for (int64_t i = 0; i < n; i++) {
    if (!is_complex) {
      note(c, from + i, judge_float(got[i], want[i], c->t));
      continue;
    }
    verdict re = judge_float(got[2 * i], want[2 * i], c->t);
    verdict im = judge_float(got[2 * i + 1], want[2 * i + 1], c->t);
    note(c, from + i, im.ratio > re.ratio ? im : re);
  }
}

static void compare_run(const comparison *c, int64_t from, int64_t n) {
  bool floating = sn_type_is_float(c->type) || sn_type_is_complex(c->type);
  for (int64_t i = 0; i < n; i += COMPARE_BLOCK) {
    int64_t m = n - i < COMPARE_BLOCK ? n - i : COMPARE_BLOCK;
    if (floating) compare_floats(c, from + i, m);
    else compare_integers(c, from + i, m);
  }
}

sn_status sn_array_compare(const sn_array *got, const sn_array *want, double rtol, double atol,
                           sn_array_difference *out) {
  *out = (sn_array_difference){.worst = -1};
  const sn_shape *shape = sn_array_shape(got);
  if (!sn_shape_equal(shape, sn_array_shape(want), 0) || !sizes_equal(got, want)) return SN_ERR_SHAPE;
  if (!sn_shape_is_array(shape)) return SN_ERR_USAGE;
  comparison c = {shape->type, sn_array_data(got), sn_array_data(want), {rtol, atol}, out};
  run_walk w;
  run_walk_init(&w, got);
  while (run_walk_next(&w)) compare_run(&c, w.offset, w.n);
  return SN_OK;
}
