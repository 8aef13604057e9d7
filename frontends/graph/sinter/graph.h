/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The C builder people use: a graph makes one HLO module out of tensors and operations.
 *
 *   sn_graph *g;
 *   sn_graph_create("linear", &g);
 *   sn_tensor x = sn_parameter(g, SN_TYPE_F32, SN_DIMS(8, 3), "x"), w = sn_parameter(g, SN_TYPE_F32, SN_DIMS(3), "w");
 *   sn_output(g, sn_mean(sn_square(sn_matmul(x, w)), SN_ALL, false), "loss");
 *   sn_module *m;
 *   sn_status s = sn_graph_finish(g, diag, &m);
 *   sn_graph_destroy(g);
 *
 * Every operation is a macro that records the caller's file and line: they travel with the instruction (metadata, messages, profiles). The
 * function behind `sn_x` is `sn_x_at`, whose first argument is the location; use it to pass on a location of your own.
 *
 * Errors are sticky in the graph: the first misuse is reported once, at the caller's line, with the shapes; every later call gives an empty
 * tensor and reports nothing. Check sn_graph_status (or the status of sn_graph_finish) once. Out of memory is such an error too.
 *
 * Types are never promoted silently: binary operations want equal types and broadcast shapes as NumPy does. sn_cast converts; sn_scalar_like and the
 * `_c` forms take C numbers in the other operand's type.
 *
 * Lists of dimensions are a count and a pointer; SN_DIMS(2, 3) gives both. Axes may be negative: -1 is the last. A tensor belongs to its graph and
 * to the computation in which it was made; bodies of loops and branches may use tensors from around them (they are passed in for you). */
#ifndef SINTER_GRAPH_H
#define SINTER_GRAPH_H

#include "sinter/build.h"
#include "sinter/ir.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sn_graph sn_graph;

/* A value handle: copy it freely. Empty (instr NULL) after an error. */
typedef struct sn_tensor {
  sn_graph *graph;
  sn_instr *instr;
} sn_tensor;

/* A count and a list: sn_reshape(x, SN_DIMS(2, 3)). SN_NO_DIMS: none (a scalar's shape); SN_ALL: every axis, where axes are asked for. */
#define SN_DIMS(...) (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__}
#define SN_NO_DIMS 0, (const int64_t *)NULL
#define SN_ALL (-1), (const int64_t *)NULL
/* A count and a list of tensors: sn_concat(SN_TENSORS(a, b), 0). */
#define SN_TENSORS(...) (int)(sizeof((const sn_tensor[]){__VA_ARGS__}) / sizeof(sn_tensor)), (const sn_tensor[]){__VA_ARGS__}

/* A function on tensors: fills out[n_out]. What goes wrong inside sticks in the graph. */
typedef void (*sn_fn)(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out);

/* ---- the graph ------------------------------------------------------------------------------------------------ */

SN_NODISCARD sn_status sn_graph_create(const char *name, sn_graph **out);
void sn_graph_destroy(sn_graph *g);
sn_status sn_graph_status(const sn_graph *g); /* the first error, or SN_OK */
sn_module *sn_graph_module(const sn_graph *g); /* the module under construction; owned by the graph until it is finished */
/* The diagnostics gathered so far; owned by the graph. */
sn_diag *sn_graph_diag(sn_graph *g);
/* Reports a misuse found by a layer above (nn, models) as this graph's error; a second one is dropped. Returns the sticky status. */
sn_status sn_graph_fail(sn_graph *g, sn_loc at, sn_status status, const char *fmt, ...) SN_PRINTF(4, 5);
void sn_graph_hint(sn_graph *g, const char *fmt, ...) SN_PRINTF(2, 3); /* to the error just reported */
/* Ends the graph: outputs become the root tuple, instructions nobody needs go, the module is verified and handed to the caller. After this the
 * graph can only be destroyed. On error *out is NULL and everything found is on d (NULL: dropped). */
SN_NODISCARD sn_status sn_graph_finish(sn_graph *g, sn_diag *d, sn_module **out);

/* Parameter number 0, 1, … in order of the calls, of the entry computation. The name becomes the instruction's (characters HLO does not take become
 * `_`) and, unchanged, its metadata op_name. */
#define sn_parameter(...) sn_parameter_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_parameter_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, const char *name);
/* Element 0, 1, … of the result tuple, which is made even for one output. Returns its index, -1 after an error. name: for messages; may be NULL. */
#define sn_output(...) sn_output_at(SN_HERE, __VA_ARGS__)
int sn_output_at(sn_loc at, sn_graph *g, sn_tensor x, const char *name);
/* The same, and the output takes over the buffer of `parameter` (input_output_alias, may-alias). Shapes must be equal. */
#define sn_output_aliased(...) sn_output_aliased_at(SN_HERE, __VA_ARGS__)
int sn_output_aliased_at(sn_loc at, sn_graph *g, sn_tensor x, const char *name, sn_tensor parameter);
int sn_graph_n_parameters(const sn_graph *g);
int sn_graph_n_outputs(const sn_graph *g);
const char *sn_graph_parameter_name(const sn_graph *g, int number); /* as given */
const char *sn_graph_output_name(const sn_graph *g, int index);

/* Name scopes: what is made between push and pop has op_name "outer/inner/…" in its metadata. */
void sn_scope_push(sn_graph *g, const char *name);
void sn_scope_pop(sn_graph *g);
/* While a location is pinned, instructions and errors carry it and not the line of the code that makes them: layers pin their caller's. Nested pins
 * keep the outermost. */
void sn_graph_pin(sn_graph *g, sn_loc at);
void sn_graph_unpin(sn_graph *g);

static inline bool sn_tensor_ok(sn_tensor x) { return x.instr != NULL; }
/* The rest are defined for empty tensors too: an invalid type, rank 0, size 0. */
const sn_shape *sn_tensor_shape(sn_tensor x); /* NULL when empty */
sn_type sn_tensor_type(sn_tensor x);
int sn_tensor_rank(sn_tensor x);
int64_t sn_tensor_dim(sn_tensor x, int axis); /* axis may be negative; out of range: 0 */
const int64_t *sn_tensor_dims(sn_tensor x);
int64_t sn_tensor_elements(sn_tensor x);
const char *sn_tensor_text(sn_tensor x); /* "f32[2,3]", for messages; lives as long as the module */

/* ---- constants ---------------------------------------------------------------------------------------------------- */

/* Equal scalar constants and fills of one computation are made once. */
#define sn_scalar(...) sn_scalar_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_scalar_at(sn_loc at, sn_graph *g, sn_type t, double v);
#define sn_scalar_i64(...) sn_scalar_i64_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_scalar_i64_at(sn_loc at, sn_graph *g, sn_type t, int64_t v); /* exact for 64-bit integers */
#define sn_scalar_like(...) sn_scalar_like_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_scalar_like_at(sn_loc at, sn_tensor x, double v); /* rank 0, x's type */
#define sn_full(...) sn_full_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_full_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, double v);
#define sn_full_like(...) sn_full_like_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_full_like_at(sn_loc at, sn_tensor x, double v);
#define sn_zeros_like(x) sn_full_like_at(SN_HERE, x, 0.0)
#define sn_ones_like(x) sn_full_like_at(SN_HERE, x, 1.0)
/* By reference: the array is retained, not copied. */
#define sn_constant(...) sn_constant_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_constant_at(sn_loc at, sn_graph *g, sn_array *value);
/* By value: row-major elements of type t are copied. */
#define sn_constant_data(...) sn_constant_data_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_constant_data_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, const void *data);
#define sn_iota(...) sn_iota_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_iota_at(sn_loc at, sn_graph *g, sn_type t, int rank, const int64_t *dims, int axis);
/* 0, 1, …, n - 1 */
#define sn_arange(...) sn_arange_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_arange_at(sn_loc at, sn_graph *g, sn_type t, int64_t n);
#define sn_eye(...) sn_eye_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_eye_at(sn_loc at, sn_graph *g, sn_type t, int64_t n, int64_t m);

/* ---- any op ----------------------------------------------------------------------------------------------------------- */

/* Any HLO op on arrays, by its opcode and attributes; shape NULL: inferred. Result is one array (see sn_op_tuple). */
#define sn_op(...) sn_op_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_op_at(sn_loc at, sn_graph *g, sn_opcode op, const sn_shape *shape, int n, const sn_tensor *in, int n_attrs, const sn_attr *attrs);
/* The same with called computations, for ops with tuple results: out[n_out] are its elements. */
#define sn_op_tuple(...) sn_op_tuple_at(SN_HERE, __VA_ARGS__)
void sn_op_tuple_at(sn_loc at, sn_graph *g, sn_opcode op, const sn_shape *shape, int n, const sn_tensor *in, int n_attrs, const sn_attr *attrs, int n_called,
                    sn_computation *const *called, int n_out, sn_tensor *out);

/* ---- elementwise ---------------------------------------------------------------------------------------------------------- */

sn_tensor sn_unary_at(sn_loc at, sn_opcode op, sn_tensor x);
sn_tensor sn_binary_at(sn_loc at, sn_opcode op, sn_tensor x, sn_tensor y); /* broadcasts */
sn_tensor sn_binary_c_at(sn_loc at, sn_opcode op, sn_tensor x, double c);
sn_tensor sn_compare_at(sn_loc at, int64_t direction, sn_tensor x, sn_tensor y); /* broadcasts */

#define sn_abs(...) sn_unary_at(SN_HERE, SN_OP_ABS, __VA_ARGS__)
#define sn_acos(...) sn_unary_at(SN_HERE, SN_OP_ACOS, __VA_ARGS__)
#define sn_acosh(...) sn_unary_at(SN_HERE, SN_OP_ACOSH, __VA_ARGS__)
#define sn_asin(...) sn_unary_at(SN_HERE, SN_OP_ASIN, __VA_ARGS__)
#define sn_asinh(...) sn_unary_at(SN_HERE, SN_OP_ASINH, __VA_ARGS__)
#define sn_atan(...) sn_unary_at(SN_HERE, SN_OP_ATAN, __VA_ARGS__)
#define sn_atanh(...) sn_unary_at(SN_HERE, SN_OP_ATANH, __VA_ARGS__)
#define sn_cbrt(...) sn_unary_at(SN_HERE, SN_OP_CBRT, __VA_ARGS__)
#define sn_ceil(...) sn_unary_at(SN_HERE, SN_OP_CEIL, __VA_ARGS__)
#define sn_cosh(...) sn_unary_at(SN_HERE, SN_OP_COSH, __VA_ARGS__)
#define sn_cos(...) sn_unary_at(SN_HERE, SN_OP_COSINE, __VA_ARGS__)
#define sn_count_leading_zeros(...) sn_unary_at(SN_HERE, SN_OP_COUNT_LEADING_ZEROS, __VA_ARGS__)
#define sn_erf(...) sn_unary_at(SN_HERE, SN_OP_ERF, __VA_ARGS__)
#define sn_exp(...) sn_unary_at(SN_HERE, SN_OP_EXPONENTIAL, __VA_ARGS__)
#define sn_expm1(...) sn_unary_at(SN_HERE, SN_OP_EXPONENTIAL_MINUS_ONE, __VA_ARGS__)
#define sn_floor(...) sn_unary_at(SN_HERE, SN_OP_FLOOR, __VA_ARGS__)
#define sn_imag(...) sn_unary_at(SN_HERE, SN_OP_IMAG, __VA_ARGS__)
#define sn_is_finite(...) sn_unary_at(SN_HERE, SN_OP_IS_FINITE, __VA_ARGS__)
#define sn_log(...) sn_unary_at(SN_HERE, SN_OP_LOG, __VA_ARGS__)
#define sn_log1p(...) sn_unary_at(SN_HERE, SN_OP_LOG_PLUS_ONE, __VA_ARGS__)
#define sn_sigmoid(...) sn_unary_at(SN_HERE, SN_OP_LOGISTIC, __VA_ARGS__)
#define sn_neg(...) sn_unary_at(SN_HERE, SN_OP_NEGATE, __VA_ARGS__)
#define sn_not(...) sn_unary_at(SN_HERE, SN_OP_NOT, __VA_ARGS__)
#define sn_popcnt(...) sn_unary_at(SN_HERE, SN_OP_POPCNT, __VA_ARGS__)
#define sn_real(...) sn_unary_at(SN_HERE, SN_OP_REAL, __VA_ARGS__)
#define sn_round(...) sn_unary_at(SN_HERE, SN_OP_ROUND_NEAREST_AFZ, __VA_ARGS__)      /* ties away from zero */
#define sn_round_even(...) sn_unary_at(SN_HERE, SN_OP_ROUND_NEAREST_EVEN, __VA_ARGS__)
#define sn_rsqrt(...) sn_unary_at(SN_HERE, SN_OP_RSQRT, __VA_ARGS__)
#define sn_sign(...) sn_unary_at(SN_HERE, SN_OP_SIGN, __VA_ARGS__)
#define sn_sin(...) sn_unary_at(SN_HERE, SN_OP_SINE, __VA_ARGS__)
#define sn_sinh(...) sn_unary_at(SN_HERE, SN_OP_SINH, __VA_ARGS__)
#define sn_sqrt(...) sn_unary_at(SN_HERE, SN_OP_SQRT, __VA_ARGS__)
#define sn_tan(...) sn_unary_at(SN_HERE, SN_OP_TAN, __VA_ARGS__)
#define sn_tanh(...) sn_unary_at(SN_HERE, SN_OP_TANH, __VA_ARGS__)
#define sn_copy(...) sn_unary_at(SN_HERE, SN_OP_COPY, __VA_ARGS__)
#define sn_square(...) sn_square_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_square_at(sn_loc at, sn_tensor x);
#define sn_reciprocal(...) sn_reciprocal_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_reciprocal_at(sn_loc at, sn_tensor x);
#define sn_reduce_precision(...) sn_reduce_precision_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_reduce_precision_at(sn_loc at, sn_tensor x, int exponent_bits, int mantissa_bits);

#define sn_add(...) sn_binary_at(SN_HERE, SN_OP_ADD, __VA_ARGS__)
#define sn_sub(...) sn_binary_at(SN_HERE, SN_OP_SUBTRACT, __VA_ARGS__)
#define sn_mul(...) sn_binary_at(SN_HERE, SN_OP_MULTIPLY, __VA_ARGS__)
#define sn_div(...) sn_binary_at(SN_HERE, SN_OP_DIVIDE, __VA_ARGS__)
#define sn_rem(...) sn_binary_at(SN_HERE, SN_OP_REMAINDER, __VA_ARGS__)
#define sn_pow(...) sn_binary_at(SN_HERE, SN_OP_POWER, __VA_ARGS__)
#define sn_atan2(...) sn_binary_at(SN_HERE, SN_OP_ATAN2, __VA_ARGS__)
#define sn_maximum(...) sn_binary_at(SN_HERE, SN_OP_MAXIMUM, __VA_ARGS__)
#define sn_minimum(...) sn_binary_at(SN_HERE, SN_OP_MINIMUM, __VA_ARGS__)
#define sn_and(...) sn_binary_at(SN_HERE, SN_OP_AND, __VA_ARGS__)
#define sn_or(...) sn_binary_at(SN_HERE, SN_OP_OR, __VA_ARGS__)
#define sn_xor(...) sn_binary_at(SN_HERE, SN_OP_XOR, __VA_ARGS__)
#define sn_mulhi(...) sn_binary_at(SN_HERE, SN_OP_MULHI, __VA_ARGS__)
#define sn_shift_left(...) sn_binary_at(SN_HERE, SN_OP_SHIFT_LEFT, __VA_ARGS__)
#define sn_shift_right_arithmetic(...) sn_binary_at(SN_HERE, SN_OP_SHIFT_RIGHT_ARITHMETIC, __VA_ARGS__)
#define sn_shift_right_logical(...) sn_binary_at(SN_HERE, SN_OP_SHIFT_RIGHT_LOGICAL, __VA_ARGS__)
#define sn_complex(...) sn_binary_at(SN_HERE, SN_OP_COMPLEX, __VA_ARGS__)
#define sn_conj(...) sn_conj_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_conj_at(sn_loc at, sn_tensor x);

/* With a C number as the right operand, in x's type. sn_rsub_c: c - x; sn_rdiv_c: c / x. */
#define sn_add_c(...) sn_binary_c_at(SN_HERE, SN_OP_ADD, __VA_ARGS__)
#define sn_sub_c(...) sn_binary_c_at(SN_HERE, SN_OP_SUBTRACT, __VA_ARGS__)
#define sn_mul_c(...) sn_binary_c_at(SN_HERE, SN_OP_MULTIPLY, __VA_ARGS__)
#define sn_div_c(...) sn_binary_c_at(SN_HERE, SN_OP_DIVIDE, __VA_ARGS__)
#define sn_pow_c(...) sn_binary_c_at(SN_HERE, SN_OP_POWER, __VA_ARGS__)
#define sn_maximum_c(...) sn_binary_c_at(SN_HERE, SN_OP_MAXIMUM, __VA_ARGS__)
#define sn_minimum_c(...) sn_binary_c_at(SN_HERE, SN_OP_MINIMUM, __VA_ARGS__)
#define sn_rsub_c(...) sn_rsub_c_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_rsub_c_at(sn_loc at, double c, sn_tensor x);
#define sn_rdiv_c(...) sn_rdiv_c_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_rdiv_c_at(sn_loc at, double c, sn_tensor x);

#define sn_eq(...) sn_compare_at(SN_HERE, SN_DIRECTION_EQ, __VA_ARGS__)
#define sn_ne(...) sn_compare_at(SN_HERE, SN_DIRECTION_NE, __VA_ARGS__)
#define sn_ge(...) sn_compare_at(SN_HERE, SN_DIRECTION_GE, __VA_ARGS__)
#define sn_gt(...) sn_compare_at(SN_HERE, SN_DIRECTION_GT, __VA_ARGS__)
#define sn_le(...) sn_compare_at(SN_HERE, SN_DIRECTION_LE, __VA_ARGS__)
#define sn_lt(...) sn_compare_at(SN_HERE, SN_DIRECTION_LT, __VA_ARGS__)
/* p ? t : f, elementwise; all three broadcast. */
#define sn_select(...) sn_select_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_select_at(sn_loc at, sn_tensor p, sn_tensor t, sn_tensor f);
#define sn_clamp(...) sn_clamp_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_clamp_at(sn_loc at, sn_tensor lo, sn_tensor x, sn_tensor hi); /* lo, hi: scalars or x's shape */
#define sn_clamp_c(...) sn_clamp_c_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_clamp_c_at(sn_loc at, double lo, sn_tensor x, double hi);
/* HLO's convert: the value in another type. */
#define sn_cast(...) sn_cast_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_cast_at(sn_loc at, sn_tensor x, sn_type t);
#define sn_bitcast_cast(...) sn_bitcast_cast_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_bitcast_cast_at(sn_loc at, sn_tensor x, sn_type t); /* HLO's bitcast-convert: the same bits */

/* ---- activations -------------------------------------------------------------------------------------------------------------- */

#define sn_relu(...) sn_relu_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_relu_at(sn_loc at, sn_tensor x); /* gradient 0 at 0 */
#define sn_gelu(...) sn_gelu_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_gelu_at(sn_loc at, sn_tensor x); /* exact: x (1 + erf(x / sqrt 2)) / 2 */
#define sn_gelu_tanh(...) sn_gelu_tanh_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_gelu_tanh_at(sn_loc at, sn_tensor x); /* the tanh approximation of Hendrycks and Gimpel */
#define sn_silu(...) sn_silu_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_silu_at(sn_loc at, sn_tensor x); /* x sigmoid(x), also swish */
#define sn_softplus(...) sn_softplus_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_softplus_at(sn_loc at, sn_tensor x); /* log(1 + exp x) without overflow */
#define sn_leaky_relu(...) sn_leaky_relu_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_leaky_relu_at(sn_loc at, sn_tensor x, double slope);
#define sn_elu(...) sn_elu_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_elu_at(sn_loc at, sn_tensor x, double alpha);
#define sn_erf_inv(...) sn_erf_inv_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_erf_inv_at(sn_loc at, sn_tensor x); /* f32 and f64; other floats through f32 (rational fits of Giles, 2012) */
#define sn_softmax(...) sn_softmax_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_softmax_at(sn_loc at, sn_tensor x, int axis);
#define sn_log_softmax(...) sn_log_softmax_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_log_softmax_at(sn_loc at, sn_tensor x, int axis);
#define sn_logsumexp(...) sn_logsumexp_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_logsumexp_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep);

/* ---- shape and data movement ------------------------------------------------------------------------------------------------------ */

#define sn_reshape(...) sn_reshape_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_reshape_at(sn_loc at, sn_tensor x, int rank, const int64_t *dims); /* one dim may be -1: what is left */
#define sn_transpose(...) sn_transpose_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_transpose_at(sn_loc at, sn_tensor x, int rank, const int64_t *permutation); /* result axis i is x's axis permutation[i] */
#define sn_swap_axes(...) sn_swap_axes_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_swap_axes_at(sn_loc at, sn_tensor x, int a, int b);
#define sn_move_axis(...) sn_move_axis_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_move_axis_at(sn_loc at, sn_tensor x, int from, int to);
#define sn_expand_dims(...) sn_expand_dims_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_expand_dims_at(sn_loc at, sn_tensor x, int axis);
#define sn_squeeze(...) sn_squeeze_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_squeeze_at(sn_loc at, sn_tensor x, int axis); /* of size 1 */
/* NumPy's broadcast_to: trailing dims align, ones stretch. */
#define sn_broadcast_to(...) sn_broadcast_to_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_broadcast_to_at(sn_loc at, sn_tensor x, int rank, const int64_t *dims);
/* HLO's broadcast: x's axis i becomes result axis axes[i]. */
#define sn_broadcast_in_dim(...) sn_broadcast_in_dim_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_broadcast_in_dim_at(sn_loc at, sn_tensor x, int rank, const int64_t *dims, int n_axes, const int64_t *axes);
#define sn_reverse(...) sn_reverse_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_reverse_at(sn_loc at, sn_tensor x, int n, const int64_t *axes);
/* start, limit, stride (NULL: ones) an axis. */
#define sn_slice(...) sn_slice_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_slice_at(sn_loc at, sn_tensor x, const int64_t *start, const int64_t *limit, const int64_t *stride);
/* [start, limit) of one axis; negative numbers count from the end, as in Python. */
#define sn_slice_axis(...) sn_slice_axis_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_slice_axis_at(sn_loc at, sn_tensor x, int axis, int64_t start, int64_t limit);
/* Element `index` of an axis, which goes away. */
#define sn_index(...) sn_index_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_index_at(sn_loc at, sn_tensor x, int axis, int64_t index);
/* starts: one scalar integer tensor an axis, all of one type; clamped so that the slice fits, as HLO does. */
#define sn_dynamic_slice(...) sn_dynamic_slice_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_dynamic_slice_at(sn_loc at, sn_tensor x, const sn_tensor *starts, const int64_t *sizes);
#define sn_dynamic_slice_axis(...) sn_dynamic_slice_axis_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_dynamic_slice_axis_at(sn_loc at, sn_tensor x, int axis, sn_tensor start, int64_t size);
#define sn_dynamic_update_slice(...) sn_dynamic_update_slice_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_dynamic_update_slice_at(sn_loc at, sn_tensor x, sn_tensor update, const sn_tensor *starts);
#define sn_dynamic_update_slice_axis(...) sn_dynamic_update_slice_axis_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_dynamic_update_slice_axis_at(sn_loc at, sn_tensor x, sn_tensor update, int axis, sn_tensor start);
/* low, high (may be negative), interior (NULL: zeros) an axis; filled with the C number `value`. */
#define sn_pad(...) sn_pad_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_pad_at(sn_loc at, sn_tensor x, const int64_t *low, const int64_t *high, const int64_t *interior, double value);
#define sn_concat(...) sn_concat_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_concat_at(sn_loc at, int n, const sn_tensor *xs, int axis);
#define sn_stack(...) sn_stack_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_stack_at(sn_loc at, int n, const sn_tensor *xs, int axis); /* a new axis */
/* n equal parts of an axis. */
#define sn_split(...) sn_split_at(SN_HERE, __VA_ARGS__)
void sn_split_at(sn_loc at, sn_tensor x, int axis, int n, sn_tensor *out);
/* NumPy's take: out[…, indices…, …] = x[…, indices, …] along axis. Indices out of range are clamped. */
#define sn_take(...) sn_take_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_take_at(sn_loc at, sn_tensor x, sn_tensor indices, int axis);
/* NumPy's take_along_axis: indices have x's rank; other axes equal. */
#define sn_take_along(...) sn_take_along_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_take_along_at(sn_loc at, sn_tensor x, sn_tensor indices, int axis);
/* 1 where the new last axis (size n) equals the index, else 0; type t. */
#define sn_one_hot(...) sn_one_hot_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_one_hot_at(sn_loc at, sn_tensor indices, int64_t n, sn_type t);
/* Lower (upper) triangle of the last two axes, k-th diagonal included; the rest 0. */
#define sn_tril(...) sn_tril_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_tril_at(sn_loc at, sn_tensor x, int64_t k);
#define sn_triu(...) sn_triu_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_triu_at(sn_loc at, sn_tensor x, int64_t k);

/* HLO's gather and scatter in full. Lists are counts and pointers, as in the attributes of the same names. */
typedef struct sn_gather_dims {
  int n_offset, n_collapsed, n_start_map, n_operand_batch, n_indices_batch;
  const int64_t *offset_dims, *collapsed_slice_dims, *start_index_map, *operand_batching_dims, *start_indices_batching_dims;
  int64_t index_vector_dim;
  const int64_t *slice_sizes; /* x's rank */
  bool indices_are_sorted;
} sn_gather_dims;
#define sn_gather(...) sn_gather_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_gather_at(sn_loc at, sn_tensor x, sn_tensor indices, const sn_gather_dims *dims);
typedef struct sn_scatter_dims {
  int n_window, n_inserted, n_scatter_map, n_input_batch, n_indices_batch;
  const int64_t *update_window_dims, *inserted_window_dims, *scatter_dims_to_operand_dims, *input_batching_dims, *scatter_indices_batching_dims;
  int64_t index_vector_dim;
  bool indices_are_sorted, unique_indices;
} sn_scatter_dims;
/* op: SN_OP_ADD, _MULTIPLY, _MINIMUM, _MAXIMUM, or SN_OP_PARAMETER: the update replaces the element. */
#define sn_scatter(...) sn_scatter_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_scatter_at(sn_loc at, sn_tensor x, sn_tensor indices, sn_tensor updates, sn_opcode op, const sn_scatter_dims *dims);
/* Rows of axis 0: x[indices[…]] (op)= updates[…, :]; updates' shape: indices' shape then x's without axis 0. */
#define sn_scatter_rows(...) sn_scatter_rows_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_scatter_rows_at(sn_loc at, sn_tensor x, sn_tensor indices, sn_tensor updates, sn_opcode op);

/* ---- products ------------------------------------------------------------------------------------------------------------------------ */

#define sn_dot(...) sn_dot_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_dot_at(sn_loc at, sn_tensor x, sn_tensor y, const sn_dot_dims *dims); /* HLO's dot; result: batch, x's free, y's free axes */
/* NumPy's matmul: vectors, matrices, and stacks of matrices whose leading axes broadcast. */
#define sn_matmul(...) sn_matmul_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_matmul_at(sn_loc at, sn_tensor x, sn_tensor y);
/* Letters an axis, "bqhd,bkhd->bhqk"; "…" is not taken; one or more operands, contracted from left to right; without "->" the NumPy rule. */
#define sn_einsum(...) sn_einsum_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_einsum_at(sn_loc at, const char *spec, int n, const sn_tensor *xs);

typedef enum sn_conv_layout {
  SN_NHWC, /* input N…C, kernel …IO, output N…C (any number of spatial axes) */
  SN_NCHW  /* input NC…, kernel OI…, output NC… */
} sn_conv_layout;
typedef enum sn_padding { SN_PAD_VALID, SN_PAD_SAME, SN_PAD_EXPLICIT } sn_padding;
typedef struct sn_conv_options { /* {0} is NHWC, VALID, stride 1; NULL lists are ones (zeros for low, high) */
  sn_conv_layout layout;
  sn_padding padding;
  const int64_t *stride, *low, *high, *input_dilation, *kernel_dilation; /* one a spatial axis; low, high: with SN_PAD_EXPLICIT */
  int64_t groups; /* feature groups; 0: 1 */
} sn_conv_options;
#define sn_conv(...) sn_conv_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_conv_at(sn_loc at, sn_tensor x, sn_tensor kernel, const sn_conv_options *o); /* o NULL: defaults */
/* HLO's convolution in full. */
#define sn_convolution(...) sn_convolution_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_convolution_at(sn_loc at, sn_tensor x, sn_tensor kernel, const sn_window *w, const sn_conv_dims *dims, int64_t feature_groups, int64_t batch_groups);

/* q, k, v: [batch, length, heads, head_dim] (k and v share lengths; heads of k, v divide those of q). scale 0: 1 / sqrt(head_dim). mask: pred,
 * broadcast to [batch, heads, q length, k length], true = attend; or empty ((sn_tensor){0}). Result: q's shape. */
typedef struct sn_attention_options {
  double scale;
  bool causal;
  sn_tensor mask, bias; /* bias: added to the scaled scores, broadcast like mask */
  sn_tensor dropout_key; /* with dropout > 0 */
  double dropout;
} sn_attention_options;
#define sn_attention(...) sn_attention_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_attention_at(sn_loc at, sn_tensor q, sn_tensor k, sn_tensor v, const sn_attention_options *o);

/* ---- reductions and windows ------------------------------------------------------------------------------------------------------------ */

/* n, axes as SN_DIMS(…) or SN_ALL; keep: reduced axes stay with size 1. */
#define sn_sum(...) sn_sum_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_sum_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep);
#define sn_mean(...) sn_mean_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_mean_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep);
#define sn_var(...) sn_var_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_var_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep); /* of the population (divides by the count) */
#define sn_max(...) sn_max_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_max_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep);
#define sn_min(...) sn_min_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_min_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep);
#define sn_prod(...) sn_prod_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_prod_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep);
#define sn_any(...) sn_any_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_any_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep); /* pred */
#define sn_all(...) sn_all_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_all_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep); /* pred */
#define sn_norm2(...) sn_norm2_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_norm2_at(sn_loc at, sn_tensor x, int n, const int64_t *axes, bool keep); /* sqrt of the sum of squares */
/* Position (s32) of the first largest or smallest element of an axis; NaN counts as the largest for argmax, the smallest for argmin. */
#define sn_argmax(...) sn_argmax_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_argmax_at(sn_loc at, sn_tensor x, int axis);
#define sn_argmin(...) sn_argmin_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_argmin_at(sn_loc at, sn_tensor x, int axis);
/* Any binary op with its start value. */
#define sn_reduce(...) sn_reduce_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_reduce_at(sn_loc at, sn_opcode op, sn_tensor x, double init, int n, const int64_t *axes, bool keep);
/* fn(acc_0…, x_0…) -> acc_0…, on scalars: HLO's variadic reduce. inits: scalars. */
#define sn_reduce_fn(...) sn_reduce_fn_at(SN_HERE, __VA_ARGS__)
void sn_reduce_fn_at(sn_loc at, sn_graph *g, sn_fn fn, void *ctx, int n, const sn_tensor *xs, const sn_tensor *inits, int n_axes, const int64_t *axes, sn_tensor *out);
/* Running sum (product, max, min) along an axis. */
#define sn_cumsum(...) sn_cumulative_at(SN_HERE, SN_OP_ADD, __VA_ARGS__)
#define sn_cumprod(...) sn_cumulative_at(SN_HERE, SN_OP_MULTIPLY, __VA_ARGS__)
#define sn_cummax(...) sn_cumulative_at(SN_HERE, SN_OP_MAXIMUM, __VA_ARGS__)
#define sn_cummin(...) sn_cumulative_at(SN_HERE, SN_OP_MINIMUM, __VA_ARGS__)
sn_tensor sn_cumulative_at(sn_loc at, sn_opcode op, sn_tensor x, int axis, bool reverse);
#define sn_reduce_window(...) sn_reduce_window_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_reduce_window_at(sn_loc at, sn_opcode op, sn_tensor x, double init, const sn_window *w); /* w: one entry an axis of x */
#define sn_select_and_scatter(...) sn_select_and_scatter_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_select_and_scatter_at(sn_loc at, int64_t select_direction, sn_opcode scatter_op, sn_tensor x, sn_tensor source, double init, const sn_window *w);
/* Spatial pooling; window and stride: one a spatial axis. avg: zeros of SAME padding are not counted when count_pad is false. */
typedef struct sn_pool_options {
  sn_conv_layout layout;
  sn_padding padding;
  const int64_t *window, *stride, *low, *high; /* stride NULL: the window */
  bool count_pad;
} sn_pool_options;
#define sn_max_pool(...) sn_max_pool_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_max_pool_at(sn_loc at, sn_tensor x, const sn_pool_options *o);
#define sn_avg_pool(...) sn_avg_pool_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_avg_pool_at(sn_loc at, sn_tensor x, const sn_pool_options *o);
/* (x - mean) * rsqrt(var + eps) over the last axis, times scale plus bias when they are not empty. Statistics in f32 for 16-bit floats. */
#define sn_layer_norm(...) sn_layer_norm_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_layer_norm_at(sn_loc at, sn_tensor x, sn_tensor scale, sn_tensor bias, double eps);

/* ---- sorting ------------------------------------------------------------------------------------------------------------------------------ */

#define sn_sort(...) sn_sort_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_sort_at(sn_loc at, sn_tensor x, int axis, bool descending); /* stable; NaN last (first when descending) */
/* Sorts xs[0] and carries the others along. out[n] */
#define sn_sort_by(...) sn_sort_by_at(SN_HERE, __VA_ARGS__)
void sn_sort_by_at(sn_loc at, int n, const sn_tensor *xs, int axis, bool descending, sn_tensor *out);
#define sn_argsort(...) sn_argsort_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_argsort_at(sn_loc at, sn_tensor x, int axis, bool descending); /* s32 */
/* k largest of the last axis and their positions (s32). */
#define sn_topk(...) sn_topk_at(SN_HERE, __VA_ARGS__)
void sn_topk_at(sn_loc at, sn_tensor x, int64_t k, sn_tensor *values, sn_tensor *indices);

/* ---- linear algebra, Fourier ------------------------------------------------------------------------------------------------------------------ */

#define sn_fft(...) sn_fft_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_fft_at(sn_loc at, sn_tensor x, int64_t kind /* SN_FFT_TYPE_… */, int n, const int64_t *lengths);
#define sn_cholesky(...) sn_cholesky_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_cholesky_at(sn_loc at, sn_tensor x); /* lower factor; the other triangle is zero */
/* Solves op(a) x = b (left) or x op(a) = b; transpose: SN_TRANSPOSE_… */
#define sn_triangular_solve(...) sn_triangular_solve_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_triangular_solve_at(sn_loc at, sn_tensor a, sn_tensor b, bool left, bool lower, bool unit_diagonal, int64_t transpose);

/* ---- control flow ------------------------------------------------------------------------------------------------------------------------------- */

/* Repeats body while cond holds. Both get the n carried tensors; cond gives one pred scalar, body n tensors of the same shapes. out[n]. */
#define sn_while(...) sn_while_at(SN_HERE, __VA_ARGS__)
void sn_while_at(sn_loc at, sn_graph *g, sn_fn cond, sn_fn body, void *ctx, int n, const sn_tensor *init, sn_tensor *out);
/* for i in [lo, hi): body(i, carried…) -> carried…; i is an s32 scalar, in[0]. Differentiable in both modes. */
#define sn_fori(...) sn_fori_at(SN_HERE, __VA_ARGS__)
void sn_fori_at(sn_loc at, sn_graph *g, int64_t lo, int64_t hi, sn_fn body, void *ctx, int n, const sn_tensor *init, sn_tensor *out);
/* for i in [0, length): body(carried…, xs[i]…) -> carried…, ys[i]…; xs are cut along axis 0, ys stacked along a new axis 0. reverse: from the
 * last to the first (ys[i] still belongs to xs[i]). carry_out[n_carry], ys_out[n_ys]. Differentiable in both modes. */
typedef struct sn_scan_spec {
  int n_carry, n_xs, n_ys;
  const sn_tensor *init, *xs;
  int64_t length; /* may be 0 with xs: taken from them */
  bool reverse;
} sn_scan_spec;
#define sn_scan(...) sn_scan_at(SN_HERE, __VA_ARGS__)
void sn_scan_at(sn_loc at, sn_graph *g, const sn_scan_spec *spec, sn_fn body, void *ctx, sn_tensor *carry_out, sn_tensor *ys_out);
/* pred ? on_true(in…) : on_false(in…); both give n_out tensors of equal shapes. */
#define sn_cond(...) sn_cond_at(SN_HERE, __VA_ARGS__)
void sn_cond_at(sn_loc at, sn_tensor pred, sn_fn on_true, sn_fn on_false, void *ctx, int n, const sn_tensor *in, int n_out, sn_tensor *out);
/* branches[index](in…), the last one when index (s32 scalar) is out of range. ctxs: one a branch, or NULL. */
#define sn_switch(...) sn_switch_at(SN_HERE, __VA_ARGS__)
void sn_switch_at(sn_loc at, sn_tensor index, int n_branches, const sn_fn *branches, void *const *ctxs, int n, const sn_tensor *in, int n_out, sn_tensor *out);
/* fn as a computation of its own, called. */
#define sn_call(...) sn_call_at(SN_HERE, __VA_ARGS__)
void sn_call_at(sn_loc at, sn_graph *g, const char *name, sn_fn fn, void *ctx, int n, const sn_tensor *in, int n_out, sn_tensor *out);
/* Elementwise function on scalars, as HLO's map; operands of equal shapes. */
#define sn_map_fn(...) sn_map_fn_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_map_fn_at(sn_loc at, sn_fn fn, void *ctx, int n, const sn_tensor *xs);
/* Identity that no pass may look through or move across. out[n]. */
#define sn_barrier(...) sn_barrier_at(SN_HERE, __VA_ARGS__)
void sn_barrier_at(sn_loc at, sn_graph *g, int n, const sn_tensor *in, sn_tensor *out);
#define sn_custom_call(...) sn_custom_call_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_custom_call_at(sn_loc at, sn_graph *g, const char *target, sn_type t, int rank, const int64_t *dims, int n, const sn_tensor *in, bool has_effect);

/* ---- looking inside a running program ---------------------------------------------------------------------------------------------------------------- */

/* Shows the value on standard error when the program runs, on every engine, as `model.c:12: label: f32[2] {1, 2}` (of large arrays the range and the mean): a custom
 * call `sinter.print` with side effect; the label and source line stand in its metadata and backend_config. Returns x itself, so that it can stand in an expression. */
#define sn_print(...) sn_print_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_print_at(sn_loc at, sn_tensor x, const char *label);
/* The same for a program that is asked (sinter-run --probe, sn_eval_options.probe): custom call `sinter.probe`. */
#define sn_probe(...) sn_probe_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_probe_at(sn_loc at, sn_tensor x, const char *label);

/* ---- random numbers --------------------------------------------------------------------------------------------------------------------------------------- */

/* Counter-based: a key (u32[2]) gives the same numbers wherever it is used; split it for more. Three-fry 2x32 with 20 rounds (Salmon et al., SC11)
 * as straight-line HLO; bits and splits are those of jax.random with partitionable counters. */
#define sn_key(...) sn_key_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_key_at(sn_loc at, sn_graph *g, uint64_t seed);
#define sn_key_split(...) sn_key_split_at(SN_HERE, __VA_ARGS__)
void sn_key_split_at(sn_loc at, sn_tensor key, int n, sn_tensor *out);
/* A new key from a key and a number (a u32 or s32 scalar: a step, a layer). */
#define sn_key_fold_in(...) sn_key_fold_in_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_key_fold_in_at(sn_loc at, sn_tensor key, sn_tensor number);
#define sn_random_bits(...) sn_random_bits_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_random_bits_at(sn_loc at, sn_tensor key, int rank, const int64_t *dims); /* u32 */
/* [lo, hi) */
#define sn_uniform(...) sn_uniform_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_uniform_at(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims, double lo, double hi);
#define sn_normal(...) sn_normal_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_normal_at(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims);
/* Standard normal, conditioned on [lo, hi]. */
#define sn_truncated_normal(...) sn_truncated_normal_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_truncated_normal_at(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims, double lo, double hi);
#define sn_bernoulli(...) sn_bernoulli_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_bernoulli_at(sn_loc at, sn_tensor key, double p, int rank, const int64_t *dims); /* pred */
/* Zero with probability rate, else x / (1 - rate). rate 0 gives x itself. */
#define sn_dropout(...) sn_dropout_at(SN_HERE, __VA_ARGS__)
sn_tensor sn_dropout_at(sn_loc at, sn_tensor x, sn_tensor key, double rate);

#ifdef __cplusplus
}
#endif
#endif
