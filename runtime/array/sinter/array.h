/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Element types, shapes with layouts, and host arrays.
 * Types and shapes are plain values whose fields anyone may read (every pass reads them in every line; an accessor for each would be noise);
 * nobody writes a shape's fields after it was made. Host arrays are reference-counted handles. */
#ifndef SINTER_ARRAY_H
#define SINTER_ARRAY_H

#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- element types ------------------------------------------------------------------------------------------- */

typedef enum sn_type_class { SN_CLASS_PRED, SN_CLASS_SIGNED, SN_CLASS_UNSIGNED, SN_CLASS_FLOAT, SN_CLASS_COMPLEX, SN_CLASS_OTHER } sn_type_class;

typedef enum sn_type {
#define SN_TYPE(id, text, bits, bytes, cls, e, m, st, npy) SN_TYPE_##id,
#include "sinter/types.def"
#undef SN_TYPE
  SN_TYPE_COUNT,
  SN_TYPE_INVALID = SN_TYPE_COUNT
} sn_type;

typedef struct sn_type_info {
  const char *text;
  uint8_t bits, bytes;
  sn_type_class cls;
  uint8_t exponent_bits, mantissa_bits;
  const char *safetensors, *npy;
} sn_type_info;

extern const sn_type_info sn_types[SN_TYPE_COUNT];

bool sn_type_from_text(const char *text, size_t n, sn_type *out);
static inline const char *sn_type_text(sn_type t) { return (unsigned)t < SN_TYPE_COUNT ? sn_types[t].text : "invalid"; }
static inline size_t sn_type_bytes(sn_type t) { return sn_types[t].bytes; }
static inline int sn_type_bits(sn_type t) { return sn_types[t].bits; }
static inline bool sn_type_is_float(sn_type t) { return sn_types[t].cls == SN_CLASS_FLOAT; }
static inline bool sn_type_is_complex(sn_type t) { return sn_types[t].cls == SN_CLASS_COMPLEX; }
static inline bool sn_type_is_signed(sn_type t) { return sn_types[t].cls == SN_CLASS_SIGNED; }
static inline bool sn_type_is_unsigned(sn_type t) { return sn_types[t].cls == SN_CLASS_UNSIGNED; }
static inline bool sn_type_is_integer(sn_type t) { return sn_type_is_signed(t) || sn_type_is_unsigned(t); }
static inline bool sn_type_is_array(sn_type t) { return (unsigned)t < SN_TYPE_COUNT && sn_types[t].cls != SN_CLASS_OTHER; }
sn_type sn_type_real_part(sn_type t); /* c64 -> f32, c128 -> f64, others themselves */
sn_type sn_type_complex_of(sn_type t); /* f32 -> c64, f64 -> c128, else INVALID */

/* Scalar conversions through the widest exact carrier. Floats round to nearest even; overflow gives the format's infinity, or where it has none
 * its NaN (…fn: NaN; fnuz: NaN; f4/f6 without NaN: the largest finite), as XLA's convert does. Stored little-endian at *p, sn_type_bytes(t) bytes;
 * sub-byte values in the low bits (signed ones sign-extended into the byte, so that s4 -1 is 0xff). */
double sn_load_f64(sn_type t, const void *p);           /* real types; exact for all but s64/u64 beyond 2^53 (rounds) */
void sn_store_f64(sn_type t, void *p, double v);        /* ints: truncation toward zero, saturating, NaN -> 0, as XLA's convert; pred: v != 0 */
int64_t sn_load_i64(sn_type t, const void *p);          /* integers, pred: exact (u64 wraps); floats: as store to s64 */
void sn_store_i64(sn_type t, void *p, int64_t v);       /* integers wrap modulo 2^bits; floats round */
void sn_load_c128(sn_type t, const void *p, double *re, double *im);
void sn_store_c128(sn_type t, void *p, double re, double im);
/* HLO `convert` of n contiguous elements; every pair of array types. src and dst must not overlap unless equal in width and identical. */
void sn_convert(sn_type to, void *dst, sn_type from, const void *src, int64_t n);

static inline float sn_bf16_to_f32(uint16_t b) {
  union { uint32_t u; float f; } x;
  x.u = (uint32_t)b << 16;
  return x.f;
}
uint16_t sn_f32_to_bf16(float f);
float sn_f16_to_f32(uint16_t h);
uint16_t sn_f32_to_f16(float f);

/* ---- shapes -------------------------------------------------------------------------------------------------- */

#define SN_MAX_RANK 32 /* more is refused as unsupported, everywhere */
#define SN_DIM_UNBOUNDED INT64_MIN /* a dims[] entry of `?` */

typedef struct sn_tile {
  int n;
  const int64_t *dims; /* SN_TILE_COMBINE for `*` */
} sn_tile;
#define SN_TILE_COMBINE INT64_MIN

/* What a layout says beyond the order of dimensions; NULL in nearly all layouts. Kept for round trips; only element_bits and memory_space mean something here. */
typedef struct sn_layout_extra {
  int n_tiles;
  const sn_tile *tiles;         /* T(…) */
  int64_t tail_padding;         /* L(n), 0 or 1: none */
  sn_type index_type;           /* #(u32), SN_TYPE_INVALID: none */
  sn_type pointer_type;         /* *(u32) */
  int64_t element_bits;         /* E(n), 0: none */
  int64_t memory_space;         /* S(n), 0: default */
  int64_t dynamic_prefix;       /* M(n), 0: none */
  const char *dim_levels;       /* D(…) text between the parentheses, or NULL */
  const char *split_configs;    /* SC(…) text between the parentheses, or NULL */
  const struct sn_shape *physical; /* P(…), or NULL */
} sn_layout_extra;

typedef struct sn_layout {
  int rank;
  const int64_t *minor_to_major; /* a permutation of 0…rank-1 */
  const sn_layout_extra *extra;  /* or NULL */
} sn_layout;

/* An immutable value; its arrays live in the arena it was made in. */
typedef struct sn_shape {
  sn_type type;
  int rank;
  const int64_t *dims;          /* sizes; the bound where dynamic; SN_DIM_UNBOUNDED for `?` */
  const bool *dynamic;          /* NULL: every dimension static; else dynamic[i] marks `<=n` and `?` */
  const sn_layout *layout;      /* NULL: not given (means the default: descending, last dimension minor) */
  int n_elements;               /* tuples */
  const struct sn_shape *const *elements;
  bool buffer;                  /* b(shape) */
  bool flat;                    /* a tuple none of whose elements is a tuple; derived, and false says nothing: leaves are then counted one by one */
} sn_shape;

const sn_shape *sn_shape_array(sn_arena *a, sn_type t, int rank, const int64_t *dims); /* static, no layout; NULL: out of memory */
const sn_shape *sn_shape_scalar(sn_arena *a, sn_type t);
const sn_shape *sn_shape_tuple(sn_arena *a, int n, const sn_shape *const *elements);
const sn_shape *sn_shape_token(sn_arena *a);
const sn_shape *sn_shape_dynamic(sn_arena *a, sn_type t, int rank, const int64_t *dims, const bool *dynamic);
const sn_shape *sn_shape_with_layout(sn_arena *a, const sn_shape *s, const sn_layout *l); /* l NULL: drops it */
const sn_shape *sn_shape_with_type(sn_arena *a, const sn_shape *s, sn_type t);            /* keeps dims, dynamic, layout order */
const sn_shape *sn_shape_default_layout(sn_arena *a, const sn_shape *s); /* every array leaf gets the descending layout */
const sn_shape *sn_shape_clone(sn_arena *a, const sn_shape *s);          /* deep */
const sn_layout *sn_layout_make(sn_arena *a, int rank, const int64_t *minor_to_major); /* NULL order: descending */

enum { SN_EQ_LAYOUT = 1, SN_EQ_IGNORE_TYPE = 2, SN_EQ_IGNORE_DYNAMIC = 4, SN_EQ_MINOR_TO_MAJOR_ONLY = 8 };
/* Dims, type, dynamic marks and structure; layouts only with SN_EQ_LAYOUT (absent = default). */
bool sn_shape_equal(const sn_shape *a, const sn_shape *b, int flags);
bool sn_layout_is_default(const sn_layout *l); /* NULL is; so is descending without extra */
uint64_t sn_shape_hash(const sn_shape *s, uint64_t seed);
static inline bool sn_shape_is_array(const sn_shape *s) { return s && sn_type_is_array(s->type); }
static inline bool sn_shape_is_tuple(const sn_shape *s) { return s && s->type == SN_TYPE_TUPLE; }
static inline bool sn_shape_is_scalar(const sn_shape *s) { return sn_shape_is_array(s) && s->rank == 0; }
bool sn_shape_is_static(const sn_shape *s); /* no dynamic or unbounded dimension in any leaf */
/* Product of dims (bounds for dynamic ones); 1 for scalars, 0 for what is no array. Shapes are made with checked sizes (sn_shape_check), so it fits. */
int64_t sn_shape_elements(const sn_shape *s);
int64_t sn_shape_bytes(const sn_shape *s); /* elements x sn_type_bytes; tuples: the sum of the leaves */
/* Refuses rank > SN_MAX_RANK, negative dims, element or byte counts that overflow int64: a message naming the shape on d. */
sn_status sn_shape_check(sn_diag *d, sn_loc loc, const sn_shape *s);
/* Row-major strides in elements, strides[rank]. */
void sn_shape_strides(const sn_shape *s, int64_t *strides);
/* Strides by the shape's layout (minor-to-major), in elements: physical order. */
void sn_shape_physical_strides(const sn_shape *s, int64_t *strides);
/* `f32[2,3]{1,0}`; flags below. Tuples get index comments every 5 when asked. */
enum { SN_SHAPE_LAYOUT = 1, SN_SHAPE_INDEX_COMMENTS = 2 };
void sn_shape_print(sn_str *to, const sn_shape *s, int flags);
/* For messages: the text without layout in a small arena string. */
const char *sn_shape_text(sn_arena *a, const sn_shape *s);
/* Number of array/token leaves, and the leaf at a flat index (depth-first). */
int64_t sn_shape_leaves(const sn_shape *s);
const sn_shape *sn_shape_leaf(const sn_shape *s, int64_t index);

/* ---- host arrays --------------------------------------------------------------------------------------------- */

/* A value on the host: dense elements in row-major order (whatever the shape's layout says: layouts order device buffers, not values),
 * or a tuple of values. Shared by reference count (atomic); contents are written only by who made it, before sharing it. */
typedef struct sn_array sn_array;

/* The shape is cloned into the array (layout dropped). Data 64-byte aligned. `_create`: uninitialised; `_create_zero`: zeroed. */
SN_NODISCARD sn_status sn_array_create(const sn_shape *shape, sn_array **out);
SN_NODISCARD sn_status sn_array_create_zero(const sn_shape *shape, sn_array **out);
SN_NODISCARD sn_status sn_array_create_from(const sn_shape *shape, const void *data, sn_array **out); /* copies */
/* Borrows `data`; `release(ctx)` runs when the last reference goes (may be NULL). */
SN_NODISCARD sn_status sn_array_create_borrowed(const sn_shape *shape, void *data, void (*release)(void *ctx), void *ctx, sn_array **out);
SN_NODISCARD sn_status sn_array_create_tuple(int n, sn_array *const *elements, sn_array **out); /* retains each */
sn_array *sn_array_retain(sn_array *a); /* returns a */
void sn_array_release(sn_array *a);
bool sn_array_unique(const sn_array *a); /* exactly one reference and not borrowed: may be updated in place by its holder */

const sn_shape *sn_array_shape(const sn_array *a);
void *sn_array_data(const sn_array *a);  /* NULL for tuples and tokens */
size_t sn_array_bytes(const sn_array *a);
int sn_array_n_elements(const sn_array *a); /* tuple elements */
sn_array *sn_array_element(const sn_array *a, int i); /* borrowed */
/* Actual sizes of dynamic dimensions: NULL for static shapes; else rank entries, at most the bound. Data stays laid out for the bound. */
const int64_t *sn_array_dynamic_sizes(const sn_array *a);
void sn_array_set_dynamic_size(sn_array *a, int dim, int64_t size);
/* Bit equality of shape and contents (NaN payloads included). */
bool sn_array_equal(const sn_array *a, const sn_array *b);
uint64_t sn_array_hash(const sn_array *a, uint64_t seed);

/* The comparison of the tools: |got - want| <= atol + rtol * |want|; NaN equals NaN, +0 equals -0, infinities must match; integers with rtol = atol = 0 exact. */
typedef struct sn_array_difference {
  int64_t n_bad;        /* elements outside the tolerance */
  int64_t worst;        /* flat index of the worst element (-1: no elements) */
  double got, want;     /* its values (real part where complex differs there first, see imag) */
  double got_im, want_im;
  double error;         /* |got - want| there */
  double ratio;         /* error / (atol + rtol |want|); > 1 is bad */
} sn_array_difference;
/* Arrays of equal shape (else SN_ERR_SHAPE). Not for tuples. */
SN_NODISCARD sn_status sn_array_compare(const sn_array *got, const sn_array *want, double rtol, double atol, sn_array_difference *out);

#ifdef __cplusplus
}
#endif
#endif
