/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Host arrays: one block of memory each.
 *
 *   | sn_array | dims or element shapes | elements or dynamic sizes | dynamic marks | pad to 64 | data (owned arrays) |
 *
 * A tuple's shape points at its elements' shapes, which live as long as the tuple holds the elements. */
#include "sinter/array.h"

#include <stdatomic.h>
#include <string.h>

enum { DATA_ALIGNMENT = 64 };

struct sn_array {
  atomic_int_least64_t references;
  sn_shape shape;
  void *data; /* behind the header, or borrowed */
  size_t bytes;
  sn_array **elements;    /* tuples */
  int64_t *dynamic_sizes; /* NULL: static */
  bool borrowed;
  void (*release)(void *ctx); /* of borrowed data, or NULL */
  void *release_ctx;
};

static size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* Rank is at most SN_MAX_RANK and n_elements an int: header sizes do not overflow 64 bits; data was checked by sn_shape_check. */
static sn_array *array_block(size_t tail_bytes, size_t data_bytes) {
  size_t header = round_up(sizeof(sn_array) + tail_bytes, DATA_ALIGNMENT);
  if (data_bytes > SIZE_MAX - header) return NULL;
  sn_array *a = sn_alloc_aligned(DATA_ALIGNMENT, header + data_bytes);
  if (!a) return NULL;
  memset(a, 0, header);
  atomic_init(&a->references, 1);
  a->data = (uint8_t *)a + header;
  a->bytes = data_bytes;
  return a;
}

static sn_status check(const sn_shape *shape) {
  SN_TRY(sn_shape_check(NULL, SN_NOWHERE, shape));
  for (int i = 0; i < shape->rank; i++) {
    if (shape->dims[i] == SN_DIM_UNBOUNDED) return SN_ERR_SHAPE;
  }
  return SN_OK;
}

/* An array leaf (or token, opaque) whose data, unless borrowed, is behind the header. */
static sn_status leaf_new(const sn_shape *shape, bool borrowed, sn_array **out) {
  SN_TRY(check(shape));
  int64_t bytes = sn_shape_bytes(shape);
  size_t rank = (size_t)shape->rank;
  bool dynamic = !sn_shape_is_static(shape);
  size_t tail = rank * sizeof(int64_t) + (dynamic ? rank * (sizeof(int64_t) + sizeof(bool)) : 0);
  sn_array *a = array_block(tail, borrowed ? 0 : (size_t)bytes);
  if (!a) return SN_ERR_MEMORY;
  a->bytes = (size_t)bytes;
  a->shape = (sn_shape){.type = shape->type, .rank = shape->rank, .buffer = shape->buffer};
  int64_t *numbers = (int64_t *)(a + 1);
  if (rank > 0) {
    memcpy(numbers, shape->dims, rank * sizeof *numbers);
    a->shape.dims = numbers;
  }
  if (dynamic) {
    a->dynamic_sizes = numbers + rank;
    memcpy(a->dynamic_sizes, shape->dims, rank * sizeof *numbers);
    bool *marks = (bool *)(numbers + 2 * rank);
    memcpy(marks, shape->dynamic, rank * sizeof *marks);
    a->shape.dynamic = marks;
  }
  if (!sn_shape_is_array(&a->shape)) a->data = NULL;
  *out = a;
  return SN_OK;
}

/* A tuple of n elements yet to be filled in; release copes with one half full. */
static sn_status tuple_new(int n, sn_array **out) {
  if (n < 0) return SN_ERR_USAGE;
  sn_array *a = array_block((size_t)n * (sizeof(sn_array *) + sizeof(const sn_shape *)), 0);
  if (!a) return SN_ERR_MEMORY;
  a->data = NULL;
  a->elements = (sn_array **)(a + 1);
  a->shape.type = SN_TYPE_TUPLE;
  a->shape.n_elements = n;
  a->shape.elements = (const sn_shape *const *)(a->elements + n);
  *out = a;
  return SN_OK;
}

static void tuple_put(sn_array *a, int i, sn_array *element) {
  const sn_shape **shapes = (const sn_shape **)(a->elements + a->shape.n_elements);
  a->elements[i] = element;
  shapes[i] = &element->shape;
  a->bytes += element->bytes;
}

static sn_status create_leaves(const sn_shape *shape, bool zero, sn_array **out) {
  *out = NULL;
  if (!sn_shape_is_tuple(shape)) {
    SN_TRY(leaf_new(shape, false, out));
    if (zero && (*out)->data) memset((*out)->data, 0, (*out)->bytes);
    return SN_OK;
  }
  sn_array *tuple;
  SN_TRY(tuple_new(shape->n_elements, &tuple));
  for (int i = 0; i < shape->n_elements; i++) {
    sn_array *element;
    sn_status status = create_leaves(shape->elements[i], zero, &element);
    if (status != SN_OK) {
      sn_array_release(tuple);
      return status;
    }
    tuple_put(tuple, i, element);
  }
  *out = tuple;
  return SN_OK;
}

sn_status sn_array_create(const sn_shape *shape, sn_array **out) { return create_leaves(shape, false, out); }

sn_status sn_array_create_zero(const sn_shape *shape, sn_array **out) { return create_leaves(shape, true, out); }

sn_status sn_array_create_from(const sn_shape *shape, const void *data, sn_array **out) {
  *out = NULL;
  if (!sn_shape_is_array(shape)) return SN_ERR_USAGE;
  SN_TRY(leaf_new(shape, false, out));
  if ((*out)->bytes > 0) memcpy((*out)->data, data, (*out)->bytes);
  return SN_OK;
}

sn_status sn_array_create_borrowed(const sn_shape *shape, void *data, void (*release)(void *ctx), void *ctx,
                                   sn_array **out) {
  *out = NULL;
  if (!sn_shape_is_array(shape)) return SN_ERR_USAGE;
  SN_TRY(leaf_new(shape, true, out));
  (*out)->borrowed = true;
  (*out)->data = data;
  (*out)->release = release;
  (*out)->release_ctx = ctx;
  return SN_OK;
}

sn_status sn_array_create_tuple(int n, sn_array *const *elements, sn_array **out) {
  *out = NULL;
  SN_TRY(tuple_new(n, out));
  for (int i = 0; i < n; i++) tuple_put(*out, i, sn_array_retain(elements[i]));
  return SN_OK;
}

sn_array *sn_array_retain(sn_array *a) {
  if (a) atomic_fetch_add_explicit(&a->references, 1, memory_order_relaxed);
  return a;
}

void sn_array_release(sn_array *a) {
  /* Release on the way down and acquire at zero: whoever frees sees all that the other holders did. */
  if (!a || atomic_fetch_sub_explicit(&a->references, 1, memory_order_release) != 1) return;
  atomic_thread_fence(memory_order_acquire);
  for (int i = 0; i < a->shape.n_elements; i++) sn_array_release(a->elements[i]);
  if (a->release) a->release(a->release_ctx);
  sn_free_aligned(a);
}

bool sn_array_unique(const sn_array *a) {
  return !a->borrowed && atomic_load_explicit(&a->references, memory_order_acquire) == 1;
}

const sn_shape *sn_array_shape(const sn_array *a) { return &a->shape; }
void *sn_array_data(const sn_array *a) { return a->data; }
size_t sn_array_bytes(const sn_array *a) { return a->bytes; }
int sn_array_n_elements(const sn_array *a) { return a->shape.n_elements; }

sn_array *sn_array_element(const sn_array *a, int i) {
  sn_assert(i >= 0 && i < a->shape.n_elements);
  return a->elements[i];
}

const int64_t *sn_array_dynamic_sizes(const sn_array *a) { return a->dynamic_sizes; }

void sn_array_set_dynamic_size(sn_array *a, int dim, int64_t size) {
  sn_assert(a->dynamic_sizes && dim >= 0 && dim < a->shape.rank && a->shape.dynamic[dim]);
  sn_assert(size >= 0 && size <= a->shape.dims[dim]);
  a->dynamic_sizes[dim] = size;
}
