/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Data movement, products, reductions, windows, sorting. */
#include <math.h>

#include "cases.h"
#include "harness.h"

#define IN(name, expr)                         \
  FN(name) {                                   \
    UNUSED;                                    \
    sn_tensor x = in[0], y = in[1], z = in[2]; \
    (void)x, (void)y, (void)z;                 \
    out[0] = expr;                             \
  }
static const int32_t some_rows[4] = {2, 0, 2, 1};
static sn_tensor rows(sn_graph *g) { return sn_constant_data(g, SN_TYPE_S32, SN_DIMS(4), some_rows); }
static const int32_t wild_rows[4] = {2, -3, 7, 1}; /* gather clamps them, scatter drops them */
static sn_tensor wild(sn_graph *g) { return sn_constant_data(g, SN_TYPE_S32, SN_DIMS(4), wild_rows); }
static sn_tensor at(sn_graph *g, int64_t v) { return sn_scalar_i64(g, SN_TYPE_S32, v); }

IN(f_broadcast, sn_sin(sn_broadcast_in_dim(x, SN_DIMS(4, 2, 3), SN_DIMS(2, 0))))
IN(f_broadcast_to, sn_sin(sn_broadcast_to(x, SN_DIMS(2, 3, 4))))
IN(f_reshape, sn_sin(sn_reshape(x, SN_DIMS(2, -1))))
IN(f_transpose, sn_sin(sn_transpose(x, SN_DIMS(2, 0, 1))))
IN(f_reverse, sn_mul(sn_reverse(x, SN_DIMS(0, -1)), x))
FN(f_slice) {
  UNUSED;
  out[0] = sn_sin(sn_slice(in[0], (int64_t[]){1, 0}, (int64_t[]){5, 6}, (int64_t[]){2, 3}));
}
FN(f_pad) {
  UNUSED;
  out[0] = sn_sin(sn_pad(in[0], (int64_t[]){1, -1}, (int64_t[]){2, 1}, (int64_t[]){0, 2}, 0.5));
}
FN(f_pad_value) {
  UNUSED;
  int64_t p[6] = {1, 2, 1, -1, 0, 0};
  sn_attr a = sn_attr_ints(SN_ATTR_PADDING, 6, p);
  out[0] = sn_sin(sn_op(g, SN_OP_PAD, NULL, 2, in, 1, &a));
}
IN(f_concat, sn_sin(sn_concat(SN_TENSORS(x, y, x), 1)))
IN(f_stack, sn_sin(sn_stack(SN_TENSORS(x, y), -1)))
IN(f_index, sn_mul(sn_index(x, 0, 1), sn_slice_axis(x, 0, 0, 2)))
IN(f_dynamic_slice, sn_sin(sn_dynamic_slice_axis(x, 0, at(g, 4), 2))) /* clamped to 2 */
IN(f_dynamic_update, sn_sin(sn_dynamic_update_slice_axis(x, y, 1, at(g, 1))))
IN(f_tril, sn_mul(sn_tril(x, 0), sn_triu(x, -1)))
IN(f_take, sn_sin(sn_take(x, rows(g), 0)))
IN(f_take1, sn_sin(sn_take(x, wild(g), 1)))
FN(f_take_along) {
  UNUSED;
  sn_tensor i = sn_broadcast_to(sn_reshape(rows(g), SN_DIMS(4, 1)), SN_DIMS(4, 3));
  out[0] = sn_sin(sn_take_along(in[0], i, 0));
}
IN(f_scatter_add, sn_sin(sn_scatter_rows(x, rows(g), y, SN_OP_ADD)))
IN(f_scatter_add_wild, sn_sin(sn_scatter_rows(x, wild(g), y, SN_OP_ADD)))
IN(f_scatter_set, sn_sin(sn_scatter_rows(x, rows(g), y, SN_OP_PARAMETER)))
IN(f_scatter_set_wild, sn_sin(sn_scatter_rows(x, wild(g), y, SN_OP_PARAMETER)))
IN(f_scatter_max, sn_sin(sn_scatter_rows(x, rows(g), y, SN_OP_MAXIMUM)))
IN(f_scatter_mul, sn_sin(sn_scatter_rows(x, rows(g), y, SN_OP_MULTIPLY)))
FN(f_gather) { /* windows of 2 x 2 at three places */
  UNUSED;
  static const int32_t places[6] = {0, 0, 2, 1, 9, 9};
  sn_tensor i = sn_constant_data(g, SN_TYPE_S32, SN_DIMS(3, 2), places);
  sn_gather_dims d = {.n_offset = 2,
                      .offset_dims = (int64_t[]){0, 2},
                      .n_start_map = 2,
                      .start_index_map = (int64_t[]){0, 1},
                      .index_vector_dim = 1,
                      .slice_sizes = (int64_t[]){2, 2}};
  out[0] = sn_sin(sn_gather(in[0], i, &d));
}

IN(f_matmul, sn_matmul(x, y))
IN(f_einsum_bhqk, sn_einsum("bqhd,bkhd->bhqk", 2, in))
IN(f_einsum_swap, sn_einsum("abc,bda->dcb", 2, in))
IN(f_einsum_three, sn_einsum("ij,jk,kl->il", 3, in))
IN(f_einsum_diag, sn_einsum("ii->i", 1, in))
IN(f_einsum_sum, sn_einsum("ij,j", 2, in))
IN(f_outer, sn_einsum("i,j->ij", 2, in))
FN(f_attention) {
  UNUSED;
  sn_attention_options o = {.causal = true};
  out[0] = sn_attention(in[0], in[1], in[2], &o);
}
#define CONV(name, ...)                 \
  FN(name) {                            \
    UNUSED;                             \
    sn_conv_options o = {__VA_ARGS__};  \
    out[0] = sn_conv(in[0], in[1], &o); \
  }
#define L(...) \
  (const int64_t[]) { __VA_ARGS__ }
CONV(f_conv_patch, .stride = L(2, 2))
CONV(f_conv_same, .padding = SN_PAD_SAME, .stride = L(2, 1))
CONV(f_conv_all, .layout = SN_NCHW, .padding = SN_PAD_EXPLICIT, .low = L(1, 2), .high = L(2, 0), .stride = L(2, 1),
     .input_dilation = L(1, 2), .kernel_dilation = L(2, 1))
CONV(f_conv_groups, .groups = 2, .padding = SN_PAD_SAME)
CONV(f_conv_groups_nchw, .groups = 2, .layout = SN_NCHW, .stride = L(2))
FN(f_conv_batch_groups) {
  UNUSED;
  sn_window_dim w = {.size = 2, .stride = 1, .pad_low = 1, .lhs_dilate = 1, .rhs_dilate = 1, .reversal = true};
  sn_conv_dims d = {.n_spatial = 1,
                    .input_batch = 0,
                    .input_feature = 2,
                    .kernel_input_feature = 1,
                    .kernel_output_feature = 2,
                    .output_batch = 0,
                    .output_feature = 2,
                    .input_spatial = L(1),
                    .kernel_spatial = L(0),
                    .output_spatial = L(1),
                    .input_rank = 3,
                    .kernel_rank = 3,
                    .output_rank = 3};
  out[0] = sn_convolution(in[0], in[1], &(sn_window){1, &w}, &d, 1, 2);
}

IN(f_sum, sn_sin(sn_sum(x, SN_DIMS(0), false)))
IN(f_sum_keep, sn_mul(sn_sum(x, SN_DIMS(-1), true), x))
IN(f_mean, sn_square(sn_mean(x, SN_ALL, false)))
IN(f_var, sn_var(x, SN_DIMS(1), false))
IN(f_max, sn_sin(sn_max(x, SN_DIMS(1), false)))
IN(f_min, sn_sin(sn_min(x, SN_ALL, false)))
IN(f_prod, sn_sin(sn_prod(x, SN_DIMS(0), false)))
IN(f_norm2, sn_norm2(x, SN_DIMS(1), false))
IN(f_softmax, sn_softmax(x, -1))
IN(f_softmax0, sn_softmax(x, 0))
IN(f_log_softmax, sn_log_softmax(x, -1))
IN(f_logsumexp, sn_logsumexp(x, SN_DIMS(1), false))
IN(f_layer_norm, sn_layer_norm(x, y, z, 1e-5))
FN(reducer) { /* (best value, its weight): a two-operand reducer */
  UNUSED;
  sn_tensor take = sn_gt(in[2], in[0]);
  out[0] = sn_select(take, in[2], in[0]);
  out[1] = sn_add(sn_mul_c(in[1], 0.5), in[3]);
}
FN(f_reduce_fn) {
  UNUSED;
  sn_tensor inits[2] = {sn_scalar(g, SN_TYPE_F64, -INFINITY), sn_scalar(g, SN_TYPE_F64, 0)}, r[2];
  sn_reduce_fn(g, reducer, NULL, 2, in, inits, SN_DIMS(1), r);
  out[0] = sn_mul(sn_sin(r[0]), r[1]);
}
IN(f_cumsum, sn_sin(sn_cumsum(x, 1, false)))
IN(f_cumsum_back, sn_sin(sn_cumsum(x, 0, true)))
IN(f_cumprod, sn_sin(sn_cumprod(x, 1, false)))
IN(f_cummax, sn_sin(sn_cummax(x, 1, false)))
IN(f_cumprod_long, sn_sin(sn_cumprod(x, 0, true)))
FN(f_max_pool) {
  UNUSED;
  sn_pool_options o = {.window = L(2, 2), .stride = L(2, 1), .padding = SN_PAD_SAME};
  out[0] = sn_sin(sn_max_pool(in[0], &o));
}
FN(f_avg_pool) {
  UNUSED;
  sn_pool_options o = {.window = L(2, 2), .stride = L(1, 2), .padding = SN_PAD_SAME};
  out[0] = sn_sin(sn_avg_pool(in[0], &o));
}
FN(f_window_dilated) {
  UNUSED;
  sn_window_dim w[2] = {{2, 2, 1, 1, 1, 2, false}, {2, 1, 0, 1, 2, 1, false}};
  out[0] = sn_sin(sn_reduce_window(SN_OP_ADD, in[0], 0, &(sn_window){2, w}));
}
FN(f_window_mul) {
  UNUSED;
  sn_window_dim w[2] = {{2, 1, 0, 0, 1, 1, false}, {2, 2, 1, 0, 1, 1, false}};
  out[0] = sn_sin(sn_reduce_window(SN_OP_MULTIPLY, in[0], 1, &(sn_window){2, w}));
}
FN(f_select_and_scatter) {
  UNUSED;
  sn_window_dim w[2] = {{2, 2, 0, 0, 1, 1, false}, {2, 2, 0, 0, 1, 1, false}};
  out[0] = sn_sin(sn_select_and_scatter(SN_DIRECTION_GE, SN_OP_ADD, in[0], in[1], 0, &(sn_window){2, w}));
}
IN(f_sort, sn_mul(sn_sort(x, 1, false), sn_iota(g, SN_TYPE_F64, SN_DIMS(3, 4), 1)))
FN(f_sort_by) {
  UNUSED;
  sn_tensor r[2];
  sn_sort_by(2, in, 0, true, r);
  out[0] = sn_sin(sn_mul(r[0], sn_cumsum(r[1], 0, false)));
}
FN(f_topk) {
  UNUSED;
  sn_tensor v, i;
  sn_topk(in[0], 2, &v, &i);
  out[0] = sn_mul(v, sn_square(v));
}
IN(f_one_hot, sn_mul(x, sn_one_hot(rows(g), 3, SN_TYPE_F64)))

#define S(...) \
  { (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, 0, 0 }
#define P(...) \
  { (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {__VA_ARGS__}, 0.5, 1.5 }
static const grad_case cases[] = {
    {"broadcast", f_broadcast, 1, {S(3, 4)}, 0},
    {"broadcast_to", f_broadcast_to, 1, {S(3, 1)}, 0},
    {"reshape", f_reshape, 1, {S(3, 4)}, 0},
    {"transpose", f_transpose, 1, {S(2, 3, 4)}, 0},
    {"reverse", f_reverse, 1, {S(2, 3, 4)}, 0},
    {"slice", f_slice, 1, {S(6, 7)}, 0},
    {"pad", f_pad, 1, {S(3, 4)}, 0},
    {"pad value", f_pad_value, 2, {S(3, 4), {0, {0}, 0, 0}}, 0},
    {"concat", f_concat, 2, {S(2, 3), S(2, 1)}, 0},
    {"stack", f_stack, 2, {S(2, 3), S(2, 3)}, 0},
    {"index", f_index, 1, {S(3, 4)}, 0},
    {"dynamic_slice", f_dynamic_slice, 1, {S(4, 3)}, 0},
    {"dynamic_update_slice", f_dynamic_update, 2, {S(3, 4), S(3, 2)}, 0},
    {"tril", f_tril, 1, {S(3, 4)}, 0},
    {"take", f_take, 1, {S(3, 4)}, 0},
    {"take axis 1", f_take1, 1, {S(3, 4)}, 0},
    {"take_along", f_take_along, 1, {S(4, 3)}, 0},
    {"gather", f_gather, 1, {S(4, 3)}, 0},
    {"scatter add", f_scatter_add, 2, {S(3, 2), S(4, 2)}, 0},
    {"scatter add, wild", f_scatter_add_wild, 2, {S(3, 2), S(4, 2)}, 0},
    {"scatter set", f_scatter_set, 2, {S(3, 2), S(4, 2)}, 0},
    {"scatter set, wild", f_scatter_set_wild, 2, {S(3, 2), S(4, 2)}, 0},
    {"scatter max", f_scatter_max, 2, {S(3, 2), S(4, 2)}, SKIP_SECOND},
    {"scatter mul", f_scatter_mul, 2, {P(3, 2), P(4, 2)}, 0},
    {"matmul", f_matmul, 2, {S(3, 4), S(4, 2)}, 0},
    {"matmul batch", f_matmul, 2, {S(2, 3, 4), S(2, 4, 2)}, 0},
    {"matmul stretch", f_matmul, 2, {S(2, 1, 3, 4), S(3, 4, 2)}, 0},
    {"matmul vector", f_matmul, 2, {S(4), S(2, 4, 3)}, 0},
    {"matvec", f_matmul, 2, {S(2, 3, 4), S(4)}, 0},
    {"einsum attention", f_einsum_bhqk, 2, {S(2, 3, 2, 4), S(2, 5, 2, 4)}, 0},
    {"einsum swapped", f_einsum_swap, 2, {S(2, 3, 4), S(3, 5, 2)}, 0},
    {"einsum three", f_einsum_three, 3, {S(2, 3), S(3, 4), S(4, 2)}, 0},
    {"einsum diagonal", f_einsum_diag, 1, {S(3, 3)}, 0},
    {"einsum sum", f_einsum_sum, 2, {S(2, 3), S(3)}, 0},
    {"outer", f_outer, 2, {S(3), S(4)}, 0},
    {"attention", f_attention, 3, {S(2, 3, 2, 4), S(2, 3, 1, 4), S(2, 3, 1, 4)}, SKIP_SECOND},
    {"conv patch", f_conv_patch, 2, {S(2, 4, 4, 3), S(2, 2, 3, 2)}, 0},
    {"conv same", f_conv_same, 2, {S(1, 5, 4, 2), S(3, 2, 2, 3)}, 0},
    {"conv everything", f_conv_all, 2, {S(2, 2, 5, 4), S(3, 2, 2, 3)}, 0},
    {"conv groups", f_conv_groups, 2, {S(1, 4, 3, 4), S(2, 3, 2, 6)}, 0},
    {"conv groups nchw", f_conv_groups_nchw, 2, {S(2, 4, 5), S(2, 2, 3)}, 0},
    {"conv batch groups", f_conv_batch_groups, 2, {S(4, 3, 2), S(2, 2, 4)}, 0},
    {"sum", f_sum, 1, {S(3, 4)}, 0},
    {"sum keep", f_sum_keep, 1, {S(3, 4)}, 0},
    {"mean", f_mean, 1, {S(3, 4)}, 0},
    {"var", f_var, 1, {S(3, 4)}, 0},
    {"max", f_max, 1, {S(3, 4)}, SKIP_SECOND},
    {"min", f_min, 1, {S(3, 4)}, SKIP_SECOND},
    {"prod", f_prod, 1, {S(3, 4)}, 0},
    {"norm2", f_norm2, 1, {S(3, 4)}, 0},
    {"softmax", f_softmax, 1, {S(3, 4)}, 0},
    {"softmax axis 0", f_softmax0, 1, {S(3, 4)}, 0},
    {"log_softmax", f_log_softmax, 1, {S(3, 4)}, 0},
    {"logsumexp", f_logsumexp, 1, {S(3, 4)}, 0},
    {"layer_norm", f_layer_norm, 3, {S(3, 4), S(4), S(4)}, 0},
    {"reduce_fn", f_reduce_fn, 2, {S(2, 3), S(2, 3)}, 0},
    {"cumsum", f_cumsum, 1, {S(3, 4)}, 0},
    {"cumsum reverse", f_cumsum_back, 1, {S(3, 4)}, 0},
    {"cumprod", f_cumprod, 1, {S(3, 4)}, 0},
    {"cummax", f_cummax, 1, {S(3, 4)}, SKIP_SECOND},
    {"cumprod long", f_cumprod_long, 1, {S(6, 2)}, 0},
    {"max_pool", f_max_pool, 1, {S(2, 4, 3, 2)}, SKIP_SECOND},
    {"avg_pool", f_avg_pool, 1, {S(2, 4, 3, 2)}, 0},
    {"window dilated", f_window_dilated, 1, {S(5, 4)}, 0},
    {"window product", f_window_mul, 1, {S(3, 4)}, 0},
    {"select_and_scatter", f_select_and_scatter, 2, {S(4, 4), S(2, 2)}, SKIP_SECOND},
    {"sort", f_sort, 1, {S(3, 4)}, 0},
    {"sort_by", f_sort_by, 2, {S(5), S(5)}, 0},
    {"topk", f_topk, 1, {S(3, 5)}, 0},
    {"one_hot", f_one_hot, 1, {S(4, 3)}, 0},
};

START_TEST(gradients) { check_gradients(&cases[_i]); }
END_TEST
START_TEST(batching) { check_batching(&cases[_i]); }
END_TEST

void add_structure(Suite *s) {
  TCase *t = tcase_create("structure");
  tcase_add_loop_test(t, gradients, 0, sizeof cases / sizeof *cases);
  tcase_add_loop_test(t, batching, 0, sizeof cases / sizeof *cases);
  suite_add_tcase(s, t);
}
