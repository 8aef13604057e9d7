/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shape inference, a row a case: the op, its operands, its attributes, and the shape it gives or
 * what the message says. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "sinter/ir.h"

/* ---- `f32[2,<=3,?]`, `(f32[], token[])` ---- */

static const sn_shape *read_shape(sn_arena *a, const char **p);

static const sn_shape *read_tuple(sn_arena *a, const char **p) {
  const sn_shape *e[16];
  int n = 0;
  while (**p != ')') {
    e[n++] = read_shape(a, p);
    while (**p == ',' || **p == ' ') ++*p;
  }
  ++*p;
  return sn_shape_tuple(a, n, e);
}

static const sn_shape *read_shape(sn_arena *a, const char **p) {
  while (**p == ' ') ++*p;
  if (**p == '(') {
    ++*p;
    return read_tuple(a, p);
  }
  size_t n = strcspn(*p, "[");
  sn_type t = SN_TYPE_INVALID;
  ck_assert_msg(sn_type_from_text(*p, n, &t), "%s", *p);
  *p += n + 1;
  int64_t dims[40];
  bool dynamic[40], any = false;
  int rank = 0;
  while (**p != ']') {
    dynamic[rank] = strncmp(*p, "<=", 2) == 0 || **p == '?';
    any = any || dynamic[rank];
    if (**p == '<') *p += 2;
    if (**p == '?')
      dims[rank] = SN_DIM_UNBOUNDED, ++*p;
    else
      dims[rank] = strtoll(*p, (char **)p, 10);
    rank++;
    if (**p == ',') ++*p;
  }
  ++*p;
  if (t == SN_TYPE_TOKEN) return sn_shape_token(a);
  return any ? sn_shape_dynamic(a, t, rank, dims, dynamic) : sn_shape_array(a, t, rank, dims);
}

/* ---- rows ---- */

#define I(id_, v) \
  { .id = SN_ATTR_##id_, .u.i = (v) }
#define L(id_, ...)                                             \
  {                                                             \
    .id = SN_ATTR_##id_, .u.ints = {                            \
      sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
      (const int64_t[]){__VA_ARGS__}                            \
    }                                                           \
  }
#define L0(id_)                                \
  {                                            \
    .id = SN_ATTR_##id_, .u.ints = { 0, NULL } \
  }
#define WINDOW(...)                                                         \
  {                                                                         \
    .id = SN_ATTR_WINDOW, .u.window = &(const sn_window) {                  \
      sizeof((const sn_window_dim[]){__VA_ARGS__}) / sizeof(sn_window_dim), \
          (const sn_window_dim[]) {                                         \
        __VA_ARGS__                                                         \
      }                                                                     \
    }                                                                       \
  }
#define GROUPS(n_, k, ...)                                                    \
  {                                                                           \
    .id = SN_ATTR_REPLICA_GROUPS, .u.groups = &(const sn_groups) {            \
      .form = SN_GROUPS_LIST, .n_groups = (n_), .groups = (const sn_ints[]) { \
        __VA_ARGS__                                                           \
      }                                                                       \
    }                                                                         \
  }
#define IDS(...)                                                                  \
  {                                                                               \
    sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (const int64_t[]) { \
      __VA_ARGS__                                                                 \
    }                                                                             \
  }

static const int64_t two_spatial_in[] = {1, 2}, two_spatial_kernel[] = {0, 1};
static const sn_conv_dims b01f_01io_b01f = {
    2, 0, 3, 2, 3, 0, 3, two_spatial_in, two_spatial_kernel, two_spatial_in, 4, 4, 4};
#define B01F \
  { .id = SN_ATTR_DIM_LABELS, .u.conv = &b01f_01io_b01f }

typedef struct infer_case {
  sn_opcode op;
  const char *operands, *given; /* given "": none */
  const char *gives;            /* the shape, or "! part of the message" */
  int n_attrs;
  sn_attr attrs[9];
} infer_case;

static const infer_case cases[] = {
    /* elementwise */
    {SN_OP_ADD, "f32[2,3] f32[2,3]", "", "f32[2,3]", 0, {{0}}},
    {SN_OP_ADD, "f32[2,<=3] f32[2,3]", "", "f32[2,<=3]", 0, {{0}}},
    {SN_OP_ADD, "f32[2,?] f32[2,3]", "", "f32[2,3]", 0, {{0}}},
    {SN_OP_ADD, "f32[?] f32[<=4]", "", "f32[<=4]", 0, {{0}}},
    {SN_OP_ADD, "f32[<=5] f32[<=4]", "", "!equal dimensions", 0, {{0}}},
    {SN_OP_ADD, "f32[2,3] f32[3]", "", "!equal dimensions", 0, {{0}}},
    {SN_OP_ADD, "f32[2] f16[2]", "", "!one element type", 0, {{0}}},
    {SN_OP_ADD, "pred[2] pred[2]", "", "pred[2]", 0, {{0}}},
    {SN_OP_SUBTRACT, "pred[2] pred[2]", "", "!integer, float or complex", 0, {{0}}},
    {SN_OP_MAXIMUM, "c64[2] c64[2]", "", "!pred, integer or float", 0, {{0}}},
    {SN_OP_XOR, "f32[2] f32[2]", "", "!pred or integer", 0, {{0}}},
    {SN_OP_SHIFT_LEFT, "u8[2] u8[2]", "", "u8[2]", 0, {{0}}},
    {SN_OP_ADD, "f32[2]", "", "!2 operands", 0, {{0}}},
    {SN_OP_ADD, "(f32[2]) f32[2]", "", "!must be an array", 0, {{0}}},
    {SN_OP_ABS, "c64[2]", "", "f32[2]", 0, {{0}}},
    {SN_OP_ABS, "u8[2]", "", "!signed integer", 0, {{0}}},
    {SN_OP_SINE, "s32[2]", "", "!float or complex", 0, {{0}}},
    {SN_OP_ERF, "c64[2]", "", "!float array", 0, {{0}}},
    {SN_OP_FLOOR, "bf16[2]", "", "bf16[2]", 0, {{0}}},
    {SN_OP_IS_FINITE, "f64[4]", "", "pred[4]", 0, {{0}}},
    {SN_OP_REAL, "c128[4]", "", "f64[4]", 0, {{0}}},
    {SN_OP_IMAG, "f32[4]", "", "f32[4]", 0, {{0}}},
    {SN_OP_COMPLEX, "f64[4] f64[4]", "", "c128[4]", 0, {{0}}},
    {SN_OP_COMPLEX, "f16[4] f16[4]", "", "!f32 or f64", 0, {{0}}},
    {SN_OP_REDUCE_PRECISION,
     "f32[4]",
     "",
     "f32[4]",
     2,
     {I(EXPONENT_BITS, 5), I(MANTISSA_BITS, 10)}},
    {SN_OP_REDUCE_PRECISION,
     "f32[4]",
     "",
     "!at least 1",
     2,
     {I(EXPONENT_BITS, 0), I(MANTISSA_BITS, 10)}},
    {SN_OP_REDUCE_PRECISION,
     "f32[4]",
     "",
     "!needs the attribute exponent_bits",
     1,
     {I(MANTISSA_BITS, 10)}},
    {SN_OP_COMPARE, "f32[4] f32[4]", "", "pred[4]", 1, {I(DIRECTION, SN_DIRECTION_LT)}},
    {SN_OP_COMPARE, "c64[4] c64[4]", "", "!no order", 1, {I(DIRECTION, SN_DIRECTION_LT)}},
    {SN_OP_COMPARE,
     "s32[4] s32[4]",
     "",
     "!does not compare",
     2,
     {I(DIRECTION, SN_DIRECTION_LT), I(COMPARE_TYPE, SN_COMPARE_TYPE_TOTALORDER)}},
    {SN_OP_SELECT, "pred[] f32[2,3] f32[2,3]", "", "f32[2,3]", 0, {{0}}},
    {SN_OP_SELECT, "pred[2,3] f32[2,3] f32[2,3]", "", "f32[2,3]", 0, {{0}}},
    {SN_OP_SELECT, "pred[2] f32[2,3] f32[2,3]", "", "!predicate", 0, {{0}}},
    {SN_OP_CLAMP, "f32[] f32[7] f32[7]", "", "f32[7]", 0, {{0}}},
    {SN_OP_CLAMP, "f32[6] f32[7] f32[]", "", "!least, value, most", 0, {{0}}},
    /* conversions */
    {SN_OP_CONVERT, "f32[2]", "bf16[2]", "bf16[2]", 0, {{0}}},
    {SN_OP_CONVERT, "c64[2]", "f32[2]", "!real or imag", 0, {{0}}},
    {SN_OP_CONVERT, "f32[2]", "", "!must be stated", 0, {{0}}},
    {SN_OP_BITCAST_CONVERT, "f32[2]", "s32[2]", "s32[2]", 0, {{0}}},
    {SN_OP_BITCAST_CONVERT, "f32[2]", "u8[2,4]", "u8[2,4]", 0, {{0}}},
    {SN_OP_BITCAST_CONVERT, "u8[2,4]", "f32[2]", "f32[2]", 0, {{0}}},
    {SN_OP_BITCAST_CONVERT, "u8[2,3]", "f32[2]", "!must be 4", 0, {{0}}},
    {SN_OP_BITCAST, "f32[2,3]", "s16[12]", "s16[12]", 0, {{0}}},
    {SN_OP_BITCAST, "f32[2,3]", "f32[7]", "!number of bits", 0, {{0}}},
    {SN_OP_STOCHASTIC_CONVERT, "f32[2] u32[2]", "bf16[2]", "bf16[2]", 0, {{0}}},
    {SN_OP_COPY, "(f32[2], s32[])", "", "(f32[2], s32[])", 0, {{0}}},
    /* data movement */
    {SN_OP_BROADCAST, "f32[3]", "f32[2,3]", "f32[2,3]", 1, {L(DIMENSIONS, 1)}},
    {SN_OP_BROADCAST, "f32[]", "f32[2,3]", "f32[2,3]", 1, {L0(DIMENSIONS)}},
    {SN_OP_BROADCAST, "f32[1]", "f32[2,3]", "!must be equal", 1, {L(DIMENSIONS, 1)}},
    {SN_OP_BROADCAST, "f32[3]", "f32[2,3]", "!names dimension 2", 1, {L(DIMENSIONS, 2)}},
    {SN_OP_RESHAPE, "f32[2,3]", "f32[6]", "f32[6]", 0, {{0}}},
    {SN_OP_RESHAPE, "f32[2,3]", "f32[7]", "!number of elements", 0, {{0}}},
    {SN_OP_TRANSPOSE, "f32[2,<=3,4]", "", "f32[4,2,<=3]", 1, {L(DIMENSIONS, 2, 0, 1)}},
    {SN_OP_TRANSPOSE, "f32[2,3]", "", "!twice", 1, {L(DIMENSIONS, 1, 1)}},
    {SN_OP_REVERSE, "f32[2,3]", "", "f32[2,3]", 1, {L(DIMENSIONS, 1)}},
    {SN_OP_SLICE, "f32[12,7]", "", "f32[6,3]", 1, {L(SLICE, 0, 12, 2, 1, 7, 2)}},
    {SN_OP_SLICE, "f32[<=12]", "", "f32[1]", 1, {L(SLICE, 2, 3, 1)}},
    {SN_OP_SLICE, "f32[12]", "", "!does not lie", 1, {L(SLICE, 2, 13, 1)}},
    {SN_OP_DYNAMIC_SLICE,
     "f32[5,6] s32[] s32[]",
     "",
     "f32[2,6]",
     1,
     {L(DYNAMIC_SLICE_SIZES, 2, 6)}},
    {SN_OP_DYNAMIC_SLICE,
     "f32[5,6] s32[]",
     "",
     "!one start index",
     1,
     {L(DYNAMIC_SLICE_SIZES, 2, 6)}},
    {SN_OP_DYNAMIC_SLICE,
     "f32[5,6] s32[] s32[]",
     "",
     "!does not fit",
     1,
     {L(DYNAMIC_SLICE_SIZES, 6, 6)}},
    {SN_OP_DYNAMIC_UPDATE_SLICE, "f32[5,6] f32[1,6] s32[] s32[]", "", "f32[5,6]", 0, {{0}}},
    {SN_OP_DYNAMIC_UPDATE_SLICE, "f32[5,6] f32[1,7] s32[] s32[]", "", "!must fit", 0, {{0}}},
    {SN_OP_PAD, "f32[3,0] f32[]", "", "f32[8,1]", 1, {L(PADDING, 1, 2, 1, 0, 1, 3)}},
    {SN_OP_PAD, "f32[3] f32[]", "", "f32[1]", 1, {L(PADDING, -1, -1, 0)}},
    {SN_OP_PAD, "f32[3] f32[]", "", "!takes more", 1, {L(PADDING, -2, -2, 0)}},
    {SN_OP_PAD, "f32[3] f32[]", "", "!64 bits", 1, {L(PADDING, INT64_MAX, 1, 0)}},
    {SN_OP_CONCATENATE, "f32[2,3] f32[4,3] f32[0,3]", "", "f32[6,3]", 1, {L(DIMENSIONS, 0)}},
    {SN_OP_CONCATENATE, "f32[2,3] f32[4,4]", "", "!agree", 1, {L(DIMENSIONS, 0)}},
    {SN_OP_GET_DIMENSION_SIZE, "f32[2,<=3]", "", "s32[]", 1, {L(DIMENSIONS, 1)}},
    {SN_OP_SET_DIMENSION_SIZE, "f32[2,3] s32[]", "", "f32[2,<=3]", 1, {L(DIMENSIONS, 1)}},
    {SN_OP_SET_DIMENSION_SIZE, "f32[2,<=3] s32[]", "f32[2,3]", "f32[2,3]", 1, {L(DIMENSIONS, 1)}},
    {SN_OP_GATHER,
     "f32[10,4] s32[5,1]",
     "",
     "f32[5,4]",
     5,
     {L(OFFSET_DIMS, 1), L(COLLAPSED_SLICE_DIMS, 0), L(START_INDEX_MAP, 0), I(INDEX_VECTOR_DIM, 1),
      L(SLICE_SIZES, 1, 4)}},
    {SN_OP_GATHER,
     "f32[10,4] s32[5]",
     "",
     "f32[3,5]",
     5,
     {L(OFFSET_DIMS, 0), L(COLLAPSED_SLICE_DIMS, 0), L(START_INDEX_MAP, 0), I(INDEX_VECTOR_DIM, 1),
      L(SLICE_SIZES, 1, 3)}},
    {SN_OP_GATHER,
     "f32[3,10,4] s32[3,5,1]",
     "",
     "f32[3,5,4]",
     7,
     {L(OFFSET_DIMS, 2), L(COLLAPSED_SLICE_DIMS, 1), L(START_INDEX_MAP, 1),
      L(OPERAND_BATCHING_DIMS, 0), L(START_INDICES_BATCHING_DIMS, 0), I(INDEX_VECTOR_DIM, 2),
      L(SLICE_SIZES, 1, 1, 4)}},
    {SN_OP_GATHER,
     "f32[10,4] s32[5,1]",
     "",
     "!must be 1",
     5,
     {L(OFFSET_DIMS, 1), L(COLLAPSED_SLICE_DIMS, 0), L(START_INDEX_MAP, 0), I(INDEX_VECTOR_DIM, 1),
      L(SLICE_SIZES, 2, 4)}},
    {SN_OP_GATHER,
     "f32[10,4] s32[5,2]",
     "",
     "!each of the 2 elements",
     5,
     {L(OFFSET_DIMS, 1), L(COLLAPSED_SLICE_DIMS, 0), L(START_INDEX_MAP, 0), I(INDEX_VECTOR_DIM, 1),
      L(SLICE_SIZES, 1, 4)}},
    /* products */
    {SN_OP_DOT,
     "f32[2,3] f32[3,4]",
     "",
     "f32[2,4]",
     2,
     {L(LHS_CONTRACTING_DIMS, 1), L(RHS_CONTRACTING_DIMS, 0)}},
    {SN_OP_DOT,
     "bf16[8,2,3] bf16[3,8,4]",
     "f32[8,2,4]",
     "f32[8,2,4]",
     4,
     {L(LHS_BATCH_DIMS, 0), L(LHS_CONTRACTING_DIMS, 2), L(RHS_BATCH_DIMS, 1),
      L(RHS_CONTRACTING_DIMS, 0)}},
    {SN_OP_DOT,
     "s8[2,3] s8[3,4]",
     "s32[2,4]",
     "s32[2,4]",
     2,
     {L(LHS_CONTRACTING_DIMS, 1), L(RHS_CONTRACTING_DIMS, 0)}},
    {SN_OP_DOT,
     "f32[2,3] f32[3,4]",
     "c64[2,4]",
     "!accumulate",
     2,
     {L(LHS_CONTRACTING_DIMS, 1), L(RHS_CONTRACTING_DIMS, 0)}},
    {SN_OP_DOT,
     "f32[2,3] f32[4,4]",
     "",
     "!contracting dimensions must be equal",
     2,
     {L(LHS_CONTRACTING_DIMS, 1), L(RHS_CONTRACTING_DIMS, 0)}},
    {SN_OP_DOT, "f32[2] f32[2]", "", "f32[2,2]", 0, {{0}}},
    {SN_OP_RAGGED_DOT,
     "f32[11,5] f32[3,5,7] s32[3]",
     "",
     "f32[11,7]",
     4,
     {L(LHS_CONTRACTING_DIMS, 1), L(RHS_CONTRACTING_DIMS, 1), L(LHS_RAGGED_DIMS, 0),
      L(RHS_GROUP_DIMS, 0)}},
    {SN_OP_RAGGED_DOT,
     "f32[11,5] f32[5,7] s32[3]",
     "",
     "f32[3,11,7]",
     3,
     {L(LHS_CONTRACTING_DIMS, 1), L(RHS_CONTRACTING_DIMS, 0), L(LHS_RAGGED_DIMS, 1)}},
    {SN_OP_CONVOLUTION,
     "f32[8,28,28,3] f32[3,3,3,16]",
     "",
     "f32[8,14,28,16]",
     2,
     {WINDOW({3, 2, 1, 1, 1, 1, false}, {3, 1, 1, 1, 1, 1, false}), B01F}},
    {SN_OP_CONVOLUTION,
     "f32[8,28,28,4] f32[3,3,1,16]",
     "",
     "f32[8,53,24,16]",
     3,
     {WINDOW({3, 1, 0, 0, 2, 1, false}, {3, 1, 0, 0, 1, 2, true}), B01F,
      I(FEATURE_GROUP_COUNT, 4)}},
    {SN_OP_CONVOLUTION,
     "f32[8,5,5,4] f32[3,3,4,16]",
     "",
     "f32[2,3,3,16]",
     3,
     {WINDOW({3, 1, 0, 0, 1, 1, false}, {3, 1, 0, 0, 1, 1, false}), B01F, I(BATCH_GROUP_COUNT, 4)}},
    {SN_OP_CONVOLUTION,
     "f32[8,28,28,4] f32[3,3,2,16]",
     "",
     "!input features",
     2,
     {WINDOW({3, 1, 0, 0, 1, 1, false}, {3, 1, 0, 0, 1, 1, false}), B01F}},
    {SN_OP_CONVOLUTION,
     "f32[8,28,28,4] f32[3,3,4,16]",
     "",
     "!window size 2",
     2,
     {WINDOW({2, 1, 0, 0, 1, 1, false}, {3, 1, 0, 0, 1, 1, false}), B01F}},
    /* linear algebra and others without called computations */
    {SN_OP_TOPK, "f32[4,9]", "", "(f32[4,3], s32[4,3])", 2, {I(K, 3), I(LARGEST, 1)}},
    {SN_OP_TOPK, "f32[4,9]", "", "!k=10", 2, {I(K, 10), I(LARGEST, 1)}},
    {SN_OP_FFT, "f32[4,8]", "", "c64[4,5]", 2, {I(FFT_TYPE, SN_FFT_TYPE_RFFT), L(FFT_LENGTH, 8)}},
    {SN_OP_FFT, "c64[4,5]", "", "f32[4,8]", 2, {I(FFT_TYPE, SN_FFT_TYPE_IRFFT), L(FFT_LENGTH, 8)}},
    {SN_OP_FFT,
     "c64[4,5]",
     "",
     "c64[4,5]",
     2,
     {I(FFT_TYPE, SN_FFT_TYPE_IFFT), L(FFT_LENGTH, 4, 5)}},
    {SN_OP_FFT, "c64[4,5]", "", "!fft_length", 2, {I(FFT_TYPE, SN_FFT_TYPE_FFT), L(FFT_LENGTH, 6)}},
    {SN_OP_CHOLESKY, "f32[2,3,3]", "", "f32[2,3,3]", 0, {{0}}},
    {SN_OP_CHOLESKY, "f32[2,3]", "", "!must be equal", 0, {{0}}},
    {SN_OP_TRIANGULAR_SOLVE,
     "f32[3,3] f32[3,5]",
     "",
     "f32[3,5]",
     2,
     {I(LEFT_SIDE, 1), I(TRANSPOSE_A, SN_TRANSPOSE_NO_TRANSPOSE)}},
    {SN_OP_TRIANGULAR_SOLVE,
     "f32[3,3] f32[3,5]",
     "",
     "!does not fit",
     1,
     {I(TRANSPOSE_A, SN_TRANSPOSE_NO_TRANSPOSE)}},
    {SN_OP_BATCH_NORM_TRAINING,
     "f32[2,3] f32[3] f32[3]",
     "",
     "(f32[2,3], f32[3], f32[3])",
     2,
     {{.id = SN_ATTR_EPSILON, .u.f = 0.1}, I(FEATURE_INDEX, 1)}},
    {SN_OP_BATCH_NORM_GRAD,
     "f32[2,3] f32[3] f32[3] f32[3] f32[2,3]",
     "",
     "(f32[2,3], f32[3], f32[3])",
     2,
     {{.id = SN_ATTR_EPSILON, .u.f = 0.1}, I(FEATURE_INDEX, 1)}},
    {SN_OP_BATCH_NORM_INFERENCE,
     "f32[2,3] f32[3] f32[3] f32[3] f32[2]",
     "",
     "!operand 4",
     2,
     {{.id = SN_ATTR_EPSILON, .u.f = 0.1}, I(FEATURE_INDEX, 1)}},
    {SN_OP_RNG_BIT_GENERATOR,
     "u64[2]",
     "(u64[2], u32[5])",
     "(u64[2], u32[5])",
     1,
     {I(RNG_ALGORITHM, SN_RNG_ALGORITHM_THREE_FRY)}},
    {SN_OP_RNG_BIT_GENERATOR,
     "u64[3]",
     "(u64[3], u32[5])",
     "!the state must be u64[2]",
     1,
     {I(RNG_ALGORITHM, SN_RNG_ALGORITHM_THREE_FRY)}},
    {SN_OP_RNG, "f32[] f32[]", "f32[3]", "f32[3]", 1, {I(DISTRIBUTION, SN_DISTRIBUTION_NORMAL)}},
    {SN_OP_IOTA, "", "s32[3,4]", "s32[3,4]", 1, {I(IOTA_DIMENSION, 1)}},
    {SN_OP_IOTA, "", "s32[3,4]", "!dimension 2", 1, {I(IOTA_DIMENSION, 2)}},
    {SN_OP_PARTITION_ID, "", "", "u32[]", 0, {{0}}},
    /* tuples, tokens */
    {SN_OP_TUPLE, "f32[2] (s32[], pred[])", "", "(f32[2], (s32[], pred[]))", 0, {{0}}},
    {SN_OP_TUPLE, "", "", "()", 0, {{0}}},
    {SN_OP_GET_TUPLE_ELEMENT, "(f32[2], s32[])", "", "s32[]", 1, {I(INDEX, 1)}},
    {SN_OP_GET_TUPLE_ELEMENT, "(f32[2], s32[])", "", "!index=2", 1, {I(INDEX, 2)}},
    {SN_OP_AFTER_ALL, "token[] token[]", "", "token[]", 0, {{0}}},
    {SN_OP_AFTER_ALL, "f32[]", "", "!must be token", 0, {{0}}},
    {SN_OP_ADD_DEPENDENCY, "f32[2] token[]", "", "f32[2]", 0, {{0}}},
    {SN_OP_SEND, "f32[2] token[]", "", "(f32[2], u32[], token[])", 0, {{0}}},
    {SN_OP_RECV, "token[]", "(f32[2], u32[], token[])", "(f32[2], u32[], token[])", 0, {{0}}},
    {SN_OP_RECV_DONE, "(f32[2], u32[], token[])", "", "(f32[2], token[])", 0, {{0}}},
    {SN_OP_SEND_DONE, "(f32[2], u32[], token[])", "", "token[]", 0, {{0}}},
    {SN_OP_INFEED, "token[]", "(f32[2], token[])", "(f32[2], token[])", 0, {{0}}},
    {SN_OP_INFEED, "token[]", "f32[2]", "!(value, token[])", 0, {{0}}},
    {SN_OP_OUTFEED, "f32[2] token[]", "", "token[]", 0, {{0}}},
    {SN_OP_COPY_START, "f32[2]", "", "(f32[2], f32[2], u32[])", 0, {{0}}},
    {SN_OP_COPY_DONE, "(f32[2], f32[2], u32[])", "", "f32[2]", 0, {{0}}},
    /* collectives: 2 replicas x 3 partitions */
    {SN_OP_ALL_GATHER,
     "f32[2,3]",
     "",
     "f32[2,12]",
     4,
     {L(DIMENSIONS, 1), GROUPS(1, 4, IDS(0, 1, 2, 3)), I(CHANNEL_ID, 1),
      I(USE_GLOBAL_DEVICE_IDS, 1)}},
    {SN_OP_ALL_GATHER, "f32[2,3]", "", "f32[4,3]", 1, {L(DIMENSIONS, 0)}},
    {SN_OP_ALL_GATHER, "f32[2,3]", "", "f32[12,3]", 2, {L(DIMENSIONS, 0), I(CHANNEL_ID, 1)}},
    {SN_OP_ALL_GATHER, "f32[2,3] s8[4]", "", "(f32[4,3], s8[8])", 1, {L(DIMENSIONS, 0)}},
    {SN_OP_ALL_GATHER,
     "f32[2,3]",
     "",
     "!twice",
     2,
     {L(DIMENSIONS, 1), GROUPS(1, 4, IDS(0, 1, 2, 2))}},
    {SN_OP_ALL_GATHER,
     "f32[2,3]",
     "",
     "!equally large",
     2,
     {L(DIMENSIONS, 1), GROUPS(2, 4, IDS(0, 1, 2), IDS(3))}},
    {SN_OP_ALL_GATHER_START, "f32[2,3]", "", "(f32[2,3], f32[4,3])", 1, {L(DIMENSIONS, 0)}},
    {SN_OP_ALL_GATHER_DONE, "(f32[2,3], f32[4,3])", "", "f32[4,3]", 0, {{0}}},
    {SN_OP_ALL_TO_ALL, "f32[6,3]", "", "f32[6,3]", 2, {L(DIMENSIONS, 0), I(CHANNEL_ID, 1)}},
    {SN_OP_ALL_TO_ALL, "f32[5,3]", "", "!3 equal parts", 2, {L(DIMENSIONS, 0), I(CHANNEL_ID, 1)}},
    {SN_OP_ALL_TO_ALL, "f32[3] f32[3]", "", "(f32[3], f32[3])", 0, {{0}}},
    {SN_OP_ALL_TO_ALL, "f32[3] f32[3] f32[3]", "", "!each of the 2 devices", 0, {{0}}},
    {SN_OP_COLLECTIVE_BROADCAST, "f32[3]", "", "f32[3]", 0, {{0}}},
    {SN_OP_COLLECTIVE_PERMUTE, "f32[3]", "", "f32[3]", 1, {L(SOURCE_TARGET_PAIRS, 0, 1, 1, 0)}},
    {SN_OP_COLLECTIVE_PERMUTE,
     "f32[3]",
     "",
     "!(targets) names device 1 twice",
     1,
     {L(SOURCE_TARGET_PAIRS, 0, 1, 1, 1)}},
    {SN_OP_COLLECTIVE_PERMUTE_START,
     "f32[3]",
     "(f32[3], f32[3], u32[], u32[])",
     "(f32[3], f32[3], u32[], u32[])",
     1,
     {L(SOURCE_TARGET_PAIRS, 0, 1, 1, 0)}},
    {SN_OP_RAGGED_ALL_TO_ALL,
     "f32[6,2] f32[9,2] s32[2] s32[2] s32[2] s32[2]",
     "",
     "f32[9,2]",
     0,
     {{0}}},
    /* sizes */
    {SN_OP_PAD, "f32[4611686018427387904] f32[]", "", "!", 1, {L(PADDING, 0, 0, 0)}},
    {SN_OP_BROADCAST, "f32[]", "f32[4294967296,4294967296]", "!", 1, {L0(DIMENSIONS)}},
};

typedef struct infer_input {
  const sn_shape *operands[16], *given;
  uint32_t n;
} infer_input;

static infer_input read_input(sn_arena *a, const infer_case *c) {
  infer_input x = {.n = 0};
  for (const char *p = c->operands; *p;) {
    x.operands[x.n++] = read_shape(a, &p);
    while (*p == ' ') p++;
  }
  if (c->given[0]) {
    const char *p = c->given;
    x.given = read_shape(a, &p);
  }
  return x;
}

static sn_status infer_row(sn_diag *d, sn_arena *a, const infer_case *c, const infer_input *x,
                           const sn_shape **out) {
  sn_infer in = {.op = c->op,
                 .name = "x",
                 .n_operands = x->n,
                 .operands = x->operands,
                 .n_attrs = (uint32_t)c->n_attrs,
                 .attrs = c->attrs,
                 .given = x->given,
                 .arena = a,
                 .replica_count = 2,
                 .num_partitions = 3};
  return sn_infer_shape(d, &in, out);
}

START_TEST(test_rows) {
  const infer_case *c = &cases[_i];
  sn_arena *a;
  sn_diag *d;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  ck_assert_int_eq(sn_diag_create(&d), SN_OK);
  const sn_shape *s = NULL;
  infer_input x = read_input(a, c);
  sn_status st = infer_row(d, a, c, &x, &s);
  const char *message = sn_diag_stored(d) ? sn_diag_get(d, 0)->message : "";
  if (c->gives[0] == '!') {
    ck_assert_msg(st != SN_OK, "%s %s: gave %s", sn_opcode_text(c->op), c->operands,
                  st == SN_OK ? sn_shape_text(a, s) : "");
    ck_assert_ptr_null(s);
    const sn_diagnostic *dg = sn_diag_get(d, 0);
    ck_assert_msg(strstr(message, c->gives + 1) || (dg->hint && strstr(dg->hint, c->gives + 1)),
                  "%s: wanted `%s` in: %s", sn_opcode_text(c->op), c->gives + 1, message);
    ck_assert_int_eq(infer_row(NULL, a, c, &x, &s), st); /* without a sink: the same status */
  } else {
    ck_assert_msg(st == SN_OK, "%s %s: %s", sn_opcode_text(c->op), c->operands, message);
    const char *p = c->gives;
    const sn_shape *want = read_shape(a, &p);
    ck_assert_msg(sn_shape_equal(s, want, 0), "%s %s: gave %s, not %s", sn_opcode_text(c->op),
                  c->operands, sn_shape_text(a, s), c->gives);
  }
  sn_diag_destroy(d);
  sn_arena_destroy(a);
}
END_TEST

/* A result of a rule has no layout at any depth, whatever the operands have. */
START_TEST(test_no_layouts) {
  sn_arena *a;
  ck_assert_int_eq(sn_arena_create(&a), SN_OK);
  const int64_t dims[] = {2, 3}, order[] = {0, 1};
  const sn_shape *x = sn_shape_with_layout(a, sn_shape_array(a, SN_TYPE_F32, 2, dims),
                                           sn_layout_make(a, 2, order)),
                 *s = NULL;
  const sn_shape *operands[] = {x, x};
  sn_infer in = {.op = SN_OP_TUPLE, .n_operands = 2, .operands = operands, .arena = a};
  ck_assert_int_eq(sn_infer_shape(NULL, &in, &s), SN_OK);
  ck_assert_ptr_null(s->elements[1]->layout);
  in.op = SN_OP_ADD;
  ck_assert_int_eq(sn_infer_shape(NULL, &in, &s), SN_OK);
  ck_assert_ptr_null(s->layout);
  sn_arena_destroy(a);
}
END_TEST

/* Leaves `room` pieces of 16 bytes in the arena's block, after which every allocation fails. */
static void fill_arena(sn_arena *a, int64_t room) {
  static int64_t n_pieces; /* how many fit: the same for each fresh arena */
  sn_arena *probe;
  if (!n_pieces) {
    ck_assert_int_eq(sn_arena_create(&probe), SN_OK);
    ck_assert_ptr_nonnull(sn_arena_alloc(probe, 16));
    sn_alloc_fail_after(0);
    for (n_pieces = 1; sn_arena_alloc(probe, 16);) n_pieces++;
    sn_alloc_fail_after(-1);
    sn_arena_destroy(probe);
  }
  ck_assert_ptr_nonnull(sn_arena_alloc(a, 16));
  sn_alloc_fail_after(0);
  for (int64_t i = 1; i < n_pieces - room; i++) ck_assert_ptr_nonnull(sn_arena_alloc(a, 16));
}

/* Every allocation that inference makes may fail: a status, and nothing else. */
START_TEST(test_no_memory) {
  const infer_case *c = &cases[_i];
  sn_arena *operands, *a;
  ck_assert_int_eq(sn_arena_create(&operands), SN_OK);
  infer_input x = read_input(operands, c);
  const sn_shape *s = NULL;
  sn_status plain = infer_row(NULL, operands, c, &x, &s);
  for (int64_t room = 0; room < 40; room++) {
    ck_assert_int_eq(sn_arena_create(&a), SN_OK);
    fill_arena(a, room);
    sn_status st = infer_row(NULL, a, c, &x, &s);
    sn_alloc_fail_after(-1);
    ck_assert(st == plain || st == SN_ERR_MEMORY);
    ck_assert(st == SN_OK || s == NULL);
    sn_arena_destroy(a);
  }
  sn_arena_destroy(operands);
}
END_TEST

int main(void) {
  Suite *s = suite_create("infer");
  TCase *t = tcase_create("infer");
  int n = (int)(sizeof cases / sizeof cases[0]);
  tcase_add_loop_test(t, test_rows, 0, n);
  tcase_add_test(t, test_no_layouts);
  tcase_add_loop_test(t, test_no_memory, 0, n);
  suite_add_tcase(s, t);
  SRunner *r = srunner_create(s);
  srunner_run_all(r, CK_ENV);
  int failed = srunner_ntests_failed(r);
  srunner_free(r);
  return failed != 0;
}
