/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "sinter/array.h"

#include <string.h>

/* ---- making ---------------------------------------------------------------------------------------------------- */

static sn_shape *shape_new(sn_arena *a, sn_type t) {
  sn_shape *s = SN_NEW(a, sn_shape);
  if (s) s->type = t;
  return s;
}

const sn_shape *sn_shape_dynamic(sn_arena *a, sn_type t, int rank, const int64_t *dims, const bool *dynamic) {
  sn_assert(rank >= 0);
  sn_shape *s = shape_new(a, t);
  if (!s) return NULL;
  s->rank = rank;
  if (rank == 0) return s;
  s->dims = sn_arena_copy(a, dims, (size_t)rank * sizeof *dims);
  if (!s->dims) return NULL;
  bool any = false;
  for (int i = 0; i < rank; i++) any |= dims[i] == SN_DIM_UNBOUNDED || (dynamic && dynamic[i]);
  if (!any) return s; /* an all-false array means the same as none; equal shapes look equal */
  bool *marks = SN_NEW_N(a, bool, rank);
  if (!marks) return NULL;
  for (int i = 0; i < rank; i++) marks[i] = dims[i] == SN_DIM_UNBOUNDED || (dynamic && dynamic[i]);
  s->dynamic = marks;
  return s;
}

const sn_shape *sn_shape_array(sn_arena *a, sn_type t, int rank, const int64_t *dims) {
  return sn_shape_dynamic(a, t, rank, dims, NULL);
}

const sn_shape *sn_shape_scalar(sn_arena *a, sn_type t) { return shape_new(a, t); }

const sn_shape *sn_shape_token(sn_arena *a) { return shape_new(a, SN_TYPE_TOKEN); }

const sn_shape *sn_shape_tuple(sn_arena *a, int n, const sn_shape *const *elements) {
  sn_assert(n >= 0);
  sn_shape *s = shape_new(a, SN_TYPE_TUPLE);
  if (!s) return NULL;
  s->n_elements = n;
  if (n == 0) return s;
  s->flat = true;
  for (int k = 0; k < n; k++) s->flat = s->flat && !sn_shape_is_tuple(elements[k]);
  s->elements = sn_arena_copy(a, elements, (size_t)n * sizeof *elements);
  return s->elements ? s : NULL;
}

/* A shallow copy to be changed before anyone sees it. */
static sn_shape *shape_copy(sn_arena *a, const sn_shape *s) {
  return sn_arena_copy(a, s, sizeof *s);
}

const sn_shape *sn_shape_with_layout(sn_arena *a, const sn_shape *s, const sn_layout *l) {
  if (s->layout == l) return s;
  sn_shape *copy = shape_copy(a, s);
  if (copy) copy->layout = l;
  return copy;
}

/* The same tuple over fn of each element; NULL when memory lacks. */
typedef const sn_shape *(*shape_fn)(sn_arena *a, const sn_shape *s, sn_type t);

static const sn_shape *shape_map(sn_arena *a, const sn_shape *s, shape_fn fn, sn_type t) {
  sn_shape *copy = shape_copy(a, s);
  if (!copy || s->n_elements == 0) return copy;
  const sn_shape **elements = SN_NEW_N(a, const sn_shape *, s->n_elements);
  if (!elements) return NULL;
  for (int i = 0; i < s->n_elements; i++) {
    elements[i] = fn(a, s->elements[i], t);
    if (!elements[i]) return NULL;
  }
  copy->elements = elements;
  return copy;
}

const sn_shape *sn_shape_with_type(sn_arena *a, const sn_shape *s, sn_type t) {
  if (sn_shape_is_tuple(s)) return shape_map(a, s, sn_shape_with_type, t);
  if (!sn_shape_is_array(s)) return s;
  sn_shape *copy = shape_copy(a, s);
  if (!copy) return NULL;
  copy->type = t;
  if (s->layout && s->layout->extra) {
    /* Tiles and E(n) were chosen for the old type. */
    copy->layout = sn_layout_make(a, s->layout->rank, s->layout->minor_to_major);
    if (!copy->layout) return NULL;
  }
  return copy;
}

static const sn_shape *default_layout(sn_arena *a, const sn_shape *s, sn_type unused) {
  (void)unused;
  if (sn_shape_is_tuple(s)) return shape_map(a, s, default_layout, SN_TYPE_INVALID);
  if (!sn_shape_is_array(s)) return s;
  const sn_layout *l = sn_layout_make(a, s->rank, NULL);
  return l ? sn_shape_with_layout(a, s, l) : NULL;
}

const sn_shape *sn_shape_default_layout(sn_arena *a, const sn_shape *s) {
  return default_layout(a, s, SN_TYPE_INVALID);
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

bool sn_shape_is_static(const sn_shape *s) {
  for (int i = 0; i < s->n_elements; i++) {
    if (!sn_shape_is_static(s->elements[i])) return false;
  }
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] == SN_DIM_UNBOUNDED || (s->dynamic && s->dynamic[i])) return false;
  }
  return true;
}

int64_t sn_shape_elements(const sn_shape *s) {
  if (!sn_shape_is_array(s)) return 0;
  int64_t n = 1;
  for (int i = 0; i < s->rank; i++) {
    if (s->dims[i] <= 0) return 0; /* empty, or `?`: nothing can be laid out for it */
  }
  for (int i = 0; i < s->rank; i++) {
    if (!sn_mul_i64(n, s->dims[i], &n)) return INT64_MAX; /* never in a checked shape */
  }
  return n;
}

int64_t sn_shape_bytes(const sn_shape *s) {
  int64_t bytes = 0;
  if (sn_shape_is_array(s)) {
    return sn_mul_i64(sn_shape_elements(s), (int64_t)sn_type_bytes(s->type), &bytes) ? bytes : INT64_MAX;
  }
  for (int i = 0; i < s->n_elements; i++) {
    if (!sn_add_i64(bytes, sn_shape_bytes(s->elements[i]), &bytes)) return INT64_MAX;
  }
  return bytes;
}

static sn_status check_array(sn_diag *d, sn_loc loc, const sn_shape *s) {
  const char *type = sn_type_text(s->type);
  if (s->rank < 0 || s->rank > SN_MAX_RANK) {
    return sn_error(d, loc, SN_ERR_UNSUPPORTED, "%s array of rank %d; at most %d dimensions are supported", type,
                    s->rank, SN_MAX_RANK);
  }
  /* Zero dims are skipped: strides are products of the others and have to fit as well. */
  int64_t bytes = (int64_t)sn_type_bytes(s->type);
  bool fits = true;
  for (int i = 0; i < s->rank && fits; i++) {
    int64_t dim = s->dims[i];
    if (dim == SN_DIM_UNBOUNDED || dim == 0) continue;
    if (dim < 0) {
      return sn_error(d, loc, SN_ERR_SHAPE, "%s array whose dimension %d is %lld; sizes are not negative", type, i,
                      (long long)dim);
    }
    fits = sn_mul_i64(bytes, dim, &bytes);
  }
  if (fits) return SN_OK;
  sn_str text = {0};
  sn_shape_print(&text, s, 0);
  sn_status status = sn_error(d, loc, SN_ERR_OVERFLOW, "%s does not fit: its bytes overflow 64 bits",
                              text.failed ? type : text.data);
  sn_str_finish(&text);
  return status;
}

static sn_status check_layout(sn_diag *d, sn_loc loc, const sn_shape *s) {
  const sn_layout *l = s->layout;
  uint64_t seen = 0;
  if (l->rank != s->rank) {
    return sn_error(d, loc, SN_ERR_SHAPE, "layout of %d dimensions on an array of rank %d", l->rank, s->rank);
  }
  for (int i = 0; i < l->rank; i++) {
    int64_t dim = l->minor_to_major[i];
    if (dim < 0 || dim >= l->rank || seen >> dim & 1) {
      return sn_error(d, loc, SN_ERR_SHAPE,
                      "layout entry %lld is %s; minor-to-major is a permutation of 0 to %d", (long long)dim,
                      dim < 0 || dim >= l->rank ? "out of range" : "there twice", l->rank - 1);
    }
    seen |= (uint64_t)1 << dim;
  }
  return SN_OK;
}

sn_status sn_shape_check(sn_diag *d, sn_loc loc, const sn_shape *s) {
  if ((unsigned)s->type >= SN_TYPE_COUNT) {
    return sn_error(d, loc, SN_ERR_TYPE, "shape without a valid element type");
  }
  if (sn_shape_is_array(s)) {
    SN_TRY(check_array(d, loc, s));
    return s->layout ? check_layout(d, loc, s) : SN_OK;
  }
  int64_t bytes = 0;
  for (int i = 0; i < s->n_elements; i++) {
    SN_TRY(sn_shape_check(d, loc, s->elements[i]));
    if (!sn_add_i64(bytes, sn_shape_bytes(s->elements[i]), &bytes)) {
      return sn_error(d, loc, SN_ERR_OVERFLOW, "tuple of %d elements whose bytes overflow 64 bits", s->n_elements);
    }
  }
  return SN_OK;
}

/* A stride beyond an empty or unbounded dimension counts that dimension as one, so that strides stay meaningful and fit. */
static int64_t stride_step(int64_t dim) { return dim > 0 ? dim : 1; }

void sn_shape_strides(const sn_shape *s, int64_t *strides) {
  int64_t stride = 1;
  for (int i = s->rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= stride_step(s->dims[i]);
  }
}

void sn_shape_physical_strides(const sn_shape *s, int64_t *strides) {
  if (!s->layout) {
    sn_shape_strides(s, strides);
    return;
  }
  int64_t stride = 1;
  for (int i = 0; i < s->rank; i++) {
    int64_t dim = s->layout->minor_to_major[i];
    strides[dim] = stride;
    stride *= stride_step(s->dims[dim]);
  }
}

int64_t sn_shape_leaves(const sn_shape *s) {
  if (!sn_shape_is_tuple(s)) return 1;
  if (s->flat) return s->n_elements;
  int64_t n = 0;
  for (int i = 0; i < s->n_elements; i++) n += sn_shape_leaves(s->elements[i]);
  return n;
}

/* Counts *index down; the leaf at which it is zero. */
static const sn_shape *leaf_at(const sn_shape *s, int64_t *index) {
  if (!sn_shape_is_tuple(s)) return (*index)-- == 0 ? s : NULL;
  for (int i = 0; i < s->n_elements; i++) {
    const sn_shape *leaf = leaf_at(s->elements[i], index);
    if (leaf) return leaf;
  }
  return NULL;
}

const sn_shape *sn_shape_leaf(const sn_shape *s, int64_t index) {
  if (s->flat) return index >= 0 && index < s->n_elements ? s->elements[index] : NULL;
  return index < 0 ? NULL : leaf_at(s, &index);
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

static bool layout_extra_equal(const sn_layout_extra *a, const sn_layout_extra *b);

static bool text_equal(const char *a, const char *b) {
  if (!a || !b) return a == b;
  return strcmp(a, b) == 0;
}

static bool tiles_equal(const sn_layout_extra *a, const sn_layout_extra *b) {
  if (a->n_tiles != b->n_tiles) return false;
  for (int i = 0; i < a->n_tiles; i++) {
    if (a->tiles[i].n != b->tiles[i].n) return false;
    for (int j = 0; j < a->tiles[i].n; j++) {
      if (a->tiles[i].dims[j] != b->tiles[i].dims[j]) return false;
    }
  }
  return true;
}

static bool layout_extra_equal(const sn_layout_extra *a, const sn_layout_extra *b) {
  if (!tiles_equal(a, b)) return false;
  int64_t pad_a = a->tail_padding > 1 ? a->tail_padding : 1, pad_b = b->tail_padding > 1 ? b->tail_padding : 1;
  if (pad_a != pad_b || a->index_type != b->index_type || a->pointer_type != b->pointer_type) return false;
  if (a->element_bits != b->element_bits || a->memory_space != b->memory_space) return false;
  if (a->dynamic_prefix != b->dynamic_prefix) return false;
  if (!text_equal(a->dim_levels, b->dim_levels) || !text_equal(a->split_configs, b->split_configs)) return false;
  if (!a->physical || !b->physical) return a->physical == b->physical;
  return sn_shape_equal(a->physical, b->physical, SN_EQ_LAYOUT);
}

/* What an absent `extra` means. */
static const sn_layout_extra no_extra = {.index_type = SN_TYPE_INVALID, .pointer_type = SN_TYPE_INVALID};

static const sn_layout_extra *extra_of(const sn_layout *l) { return l && l->extra ? l->extra : &no_extra; }

static int64_t order_at(const sn_layout *l, int rank, int i) { return l ? l->minor_to_major[i] : rank - 1 - i; }

static bool layout_equal(const sn_shape *a, const sn_shape *b, int flags) {
  for (int i = 0; i < a->rank; i++) {
    if (order_at(a->layout, a->rank, i) != order_at(b->layout, b->rank, i)) return false;
  }
  return flags & SN_EQ_MINOR_TO_MAJOR_ONLY || layout_extra_equal(extra_of(a->layout), extra_of(b->layout));
}

static bool array_shape_equal(const sn_shape *a, const sn_shape *b, int flags) {
  if (!(flags & SN_EQ_IGNORE_TYPE) && a->type != b->type) return false;
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    if (a->dims[i] != b->dims[i]) return false;
    bool dynamic_a = a->dynamic && a->dynamic[i], dynamic_b = b->dynamic && b->dynamic[i];
    if (!(flags & SN_EQ_IGNORE_DYNAMIC) && dynamic_a != dynamic_b) return false;
  }
  return !(flags & SN_EQ_LAYOUT) || layout_equal(a, b, flags);
}

bool sn_shape_equal(const sn_shape *a, const sn_shape *b, int flags) {
  if (a == b) return true;
  if (!a || !b || a->buffer != b->buffer) return false;
  if (sn_shape_is_array(a) && sn_shape_is_array(b)) return array_shape_equal(a, b, flags);
  if (a->type != b->type || a->n_elements != b->n_elements) return false;
  for (int i = 0; i < a->n_elements; i++) {
    if (!sn_shape_equal(a->elements[i], b->elements[i], flags)) return false;
  }
  return true;
}

bool sn_layout_is_default(const sn_layout *l) {
  if (!l) return true;
  for (int i = 0; i < l->rank; i++) {
    if (l->minor_to_major[i] != l->rank - 1 - i) return false;
  }
  return layout_extra_equal(extra_of(l), &no_extra);
}

/* Layouts are left out, so that shapes equal without SN_EQ_LAYOUT hash alike. */
uint64_t sn_shape_hash(const sn_shape *s, uint64_t seed) {
  uint64_t h = sn_hash_mix(seed, (uint64_t)s->type << 1 | (s->buffer ? 1 : 0));
  h = sn_hash_mix(h, (uint64_t)s->rank);
  for (int i = 0; i < s->rank; i++) {
    h = sn_hash_mix(h, (uint64_t)s->dims[i]);
    if (s->dynamic && s->dynamic[i]) h = sn_hash_mix(h, (uint64_t)i);
  }
  h = sn_hash_mix(h, (uint64_t)s->n_elements);
  for (int i = 0; i < s->n_elements; i++) h = sn_shape_hash(s->elements[i], h);
  return h;
}
