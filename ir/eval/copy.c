/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Strided copies: what every op that only moves data comes down to. Dims that lie behind one another are merged;
 * transposes go in tiles. */
#include "eval_internal.h"

enum { TILE = 32, ITEM_BYTES = 1 << 17 };

void sn_ev_strides(int rank, const int64_t *dims, int64_t *strides) {
  int64_t at = 1;
  for (int d = rank - 1; d >= 0; d--) {
    strides[d] = at;
    at *= dims[d];
  }
}

void sn_ev_fill(void *dst, const void *element, size_t bytes, int64_t n) {
  char *to = dst;
  if (n <= 0) return;
  bool zero = true;
  for (size_t b = 0; b < bytes; b++) zero = zero && ((const char *)element)[b] == 0;
  if (zero || bytes == 1) {
    memset(to, *(const char *)element, (size_t)n * bytes);
    return;
  }
  memcpy(to, element, bytes);
  for (int64_t done = 1; done < n;) {
    int64_t m = done < n - done ? done : n - done;
    if ((size_t)m * bytes > 65536) m = 65536 / (int64_t)bytes;
    memcpy(to + (size_t)done * bytes, to, (size_t)m * bytes);
    done += m;
  }
}

void sn_ev_sizes(const sn_array *a, int64_t *sizes) {
  const sn_shape *s = sn_array_shape(a);
  const int64_t *dynamic = sn_array_dynamic_sizes(a);
  for (int d = 0; d < s->rank; d++) sizes[d] = dynamic ? dynamic[d] : s->dims[d];
}

/* ---- inner loops ---- */

typedef struct pair64 {
  uint64_t a, b;
} pair64;
#define LINE(name, T)                                                               \
  static void name(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) { \
    T *o = (T *)(void *)dst;                                                        \
    const T *v = (const T *)(const void *)src;                                      \
    if (ds == 1)                                                                    \
      for (int64_t j = 0; j < n; j++) o[j] = v[j * ss];                             \
    else                                                                            \
      for (int64_t j = 0; j < n; j++) o[j * ds] = v[j * ss];                        \
  }
LINE(line_1, uint8_t)
LINE(line_2, uint16_t)
LINE(line_4, uint32_t)
LINE(line_8, uint64_t)
LINE(line_16, pair64)

static void line(size_t bytes, char *dst, int64_t ds, const char *src, int64_t ss, int64_t n) {
  if (ds == 1 && ss == 1) {
    memcpy(dst, src, (size_t)n * bytes);
    return;
  }
  if (ds == 1 && ss == 0) {
    sn_ev_fill(dst, src, bytes, n);
    return;
  }
  switch (bytes) {
    case 1:
      line_1(dst, ds, src, ss, n);
      return;
    case 2:
      line_2(dst, ds, src, ss, n);
      return;
    case 4:
      line_4(dst, ds, src, ss, n);
      return;
    case 8:
      line_8(dst, ds, src, ss, n);
      return;
    default:
      line_16(dst, ds, src, ss, n);
      return;
  }
}

/* ---- order of dims ---- */

static void swap_dims(sn_ev_copy *c, int a, int b) {
  int64_t t[3] = {c->dims[a], c->dst_stride[a], c->src_stride[a]};
  c->dims[a] = c->dims[b];
  c->dst_stride[a] = c->dst_stride[b];
  c->src_stride[a] = c->src_stride[b];
  c->dims[b] = t[0];
  c->dst_stride[b] = t[1];
  c->src_stride[b] = t[2];
}

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Dims of one element go; then largest destination stride first; then neighbours that are one long dim are merged. */
static void normalise(sn_ev_copy *c) {
  int r = 0;
  for (int d = 0; d < c->rank; d++)
    if (c->dims[d] != 1) {
      if (r != d) swap_dims(c, r, d);
      r++;
    }
  c->rank = r;
  for (int a = 1; a < r; a++)
    for (int b = a; b > 0 && magnitude(c->dst_stride[b]) > magnitude(c->dst_stride[b - 1]); b--) swap_dims(c, b, b - 1);
  int w = 0;
  for (int d = 1; d < r; d++) {
    if (c->dst_stride[w] == c->dst_stride[d] * c->dims[d] && c->src_stride[w] == c->src_stride[d] * c->dims[d]) {
      c->dims[w] *= c->dims[d];
      c->dst_stride[w] = c->dst_stride[d];
      c->src_stride[w] = c->src_stride[d];
    } else {
      w++;
      if (w != d) swap_dims(c, w, d);
    }
  }
  c->rank = r ? w + 1 : 0;
}

/* The inner dim is written in one stretch but read with jumps, and another dim is read in one stretch: a transpose.
 * Returns that dim or -1. */
static int tile_dim(const sn_ev_copy *c) {
  int in = c->rank - 1;
  if (c->rank < 2 || magnitude(c->src_stride[in]) <= 1 || c->dims[in] < 4) return -1;
  for (int d = 0; d < in; d++)
    if (c->src_stride[d] == 1 && c->dims[d] >= 4) return d;
  return -1;
}

typedef struct work {
  sn_ev_copy c; /* the last one or two dims are the inner loop */
  int inner;
  int64_t first; /* dims[0] is split over items of this many */
} work;

static void copy_tile(const sn_ev_copy *c, char *dst, const char *src) {
  int a = c->rank - 2, b = c->rank - 1;
  int64_t da = c->dims[a], db = c->dims[b], bytes = (int64_t)c->bytes;
  for (int64_t i = 0; i < da; i += TILE)
    for (int64_t j = 0; j < db; j += TILE) {
      int64_t ni = da - i < TILE ? da - i : TILE, nj = db - j < TILE ? db - j : TILE;
      for (int64_t q = 0; q < ni; q++)
        line(c->bytes, dst + ((i + q) * c->dst_stride[a] + j * c->dst_stride[b]) * bytes, c->dst_stride[b],
             src + ((i + q) * c->src_stride[a] + j * c->src_stride[b]) * bytes, c->src_stride[b], nj);
    }
}

static void copy_part(const work *w, const sn_ev_copy *c) {
  int outer = c->rank - w->inner;
  int64_t index[SN_MAX_RANK] = {0}, bytes = (int64_t)c->bytes;
  for (;;) {
    char *dst = c->dst + sn_ev_dot_strides(outer, index, c->dst_stride) * bytes;
    const char *src = c->src + sn_ev_dot_strides(outer, index, c->src_stride) * bytes;
    if (w->inner == 2)
      copy_tile(c, dst, src);
    else
      line(c->bytes, dst, c->dst_stride[outer], src, c->src_stride[outer], c->dims[outer]);
    if (!sn_ev_next(outer, c->dims, index)) return;
  }
}

static void copy_range(void *ctx, int64_t begin, int64_t end) {
  const work *w = ctx;
  sn_ev_copy c = w->c;
  c.dims[0] = end - begin;
  c.dst += begin * c.dst_stride[0] * (int64_t)c.bytes;
  c.src += begin * c.src_stride[0] * (int64_t)c.bytes;
  copy_part(w, &c);
}

void sn_ev_copy_run(sn_ev_ctx *e, sn_ev_copy *c) {
  for (int d = 0; d < c->rank; d++)
    if (c->dims[d] == 0) return;
  normalise(c);
  if (c->rank == 0) {
    memcpy(c->dst, c->src, c->bytes);
    return;
  }
  work w;
  int t = tile_dim(c);
  w.inner = 1;
  if (t >= 0) { /* bring the dim to the place before the last */
    for (int d = t; d < c->rank - 2; d++) swap_dims(c, d, d + 1);
    w.inner = 2;
  }
  w.c = *c;
  int64_t bytes = sn_ev_product(c->rank, c->dims) * (int64_t)c->bytes, per_row = bytes / c->dims[0];
  int64_t chunk = per_row >= ITEM_BYTES ? 1 : ITEM_BYTES / per_row;
  sn_ev_parallel(e, c->dims[0], chunk, copy_range, &w);
}

/* Elements behind the actual size of a dynamic dimension must not count: they become the fill. */
sn_status sn_ev_masked(sn_ev_ctx *e, const sn_instr *i, sn_array *a, const void *fill, sn_array **out) {
  const sn_shape *s = sn_array_shape(a);
  sn_ev_copy c;
  *out = NULL;
  if (!sn_array_dynamic_sizes(a)) {
    *out = sn_array_retain(a);
    return SN_OK;
  }
  SN_TRY(sn_ev_new_dims(e, i, s->type, s->rank, s->dims, out));
  c.bytes = sn_type_bytes(s->type);
  c.rank = s->rank;
  sn_ev_fill(sn_array_data(*out), fill, c.bytes, sn_shape_elements(s));
  sn_ev_sizes(a, c.dims);
  sn_ev_strides(s->rank, s->dims, c.src_stride);
  sn_ev_strides(s->rank, s->dims, c.dst_stride);
  c.src = sn_array_data(a);
  c.dst = sn_array_data(*out);
  sn_ev_copy_run(e, &c);
  return SN_OK;
}
