/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives and batching over random shapes, axes and attributes: elementwise ops, movement, products, gathers, sorting, solvers, loops. */
#include <string.h>

#include "cases.h"
#include "random_case.h"

/* ---- elementwise ---- */

/* Where the function is smooth, and not so steep that differences fail. */
static const struct { sn_opcode op; double lo, hi; int skip; } unary[] = {
    {SN_OP_ABS, 0.1, 1, SKIP_SECOND},  {SN_OP_ACOS, -0.9, 0.9, 0}, {SN_OP_ACOSH, 1.2, 3, 0},     {SN_OP_ASIN, -0.9, 0.9, 0}, {SN_OP_ASINH, -2, 2, 0},
    {SN_OP_ATAN, -2, 2, 0},            {SN_OP_ATANH, -0.8, 0.8, 0}, {SN_OP_CBRT, 0.2, 2, 0},      {SN_OP_COSH, -2, 2, 0},     {SN_OP_COSINE, -3, 3, 0},
    {SN_OP_ERF, -2, 2, 0},             {SN_OP_EXPONENTIAL, -2, 2, 0}, {SN_OP_EXPONENTIAL_MINUS_ONE, -2, 2, 0}, {SN_OP_LOG, 0.2, 3, 0}, {SN_OP_LOG_PLUS_ONE, -0.7, 3, 0},
    {SN_OP_LOGISTIC, -3, 3, 0},        {SN_OP_NEGATE, -1, 1, 0},   {SN_OP_RSQRT, 0.3, 3, 0},     {SN_OP_SINE, -3, 3, 0},     {SN_OP_SINH, -2, 2, 0},
    {SN_OP_SQRT, 0.3, 3, 0},           {SN_OP_TAN, -1, 1, 0},      {SN_OP_TANH, -2, 2, 0},       {SN_OP_COPY, -1, 1, 0}};
enum { N_UNARY = (int)(sizeof unary / sizeof *unary) };

RANDOM(unary_fn) {
  CASE;
  out[0] = sn_unary_at(SN_HERE, r->op, in[0]);
}
static void make_unary(random_case *r) {
  int k = (int)draw_int(r, 0, N_UNARY - 1);
  r->op = unary[k].op;
  r->c.fn = unary_fn;
  r->c.n = 1;
  draw_dims(r, &r->c.in[0], 0, 4);
  r->c.in[0].lo = unary[k].lo;
  r->c.in[0].hi = unary[k].hi;
  r->c.skip = unary[k].skip;
}

static const struct { sn_opcode op; double lo[2], hi[2]; int skip; } binary[] = {
    {SN_OP_ADD, {-1, -1}, {1, 1}, 0},       {SN_OP_SUBTRACT, {-1, -1}, {1, 1}, 0},  {SN_OP_MULTIPLY, {-1, -1}, {1, 1}, 0},
    {SN_OP_DIVIDE, {-1, 0.5}, {1, 2}, 0},   {SN_OP_POWER, {0.6, -1}, {1.5, 1}, 0},    {SN_OP_ATAN2, {-1, 0.5}, {1, 1}, 0},
    {SN_OP_REMAINDER, {3.1, 1.1}, {3.2, 1.4}, 0}, {SN_OP_MAXIMUM, {-1, -1}, {1, 1}, SKIP_SECOND}, {SN_OP_MINIMUM, {-1, -1}, {1, 1}, SKIP_SECOND}};
enum { N_BINARY = (int)(sizeof binary / sizeof *binary) };

RANDOM(binary_fn) {
  CASE;
  out[0] = sn_binary_at(SN_HERE, r->op, in[r->flag], in[!r->flag]);
}
/* One operand may lack leading axes and stretch along others, as NumPy has it. */
static void make_binary(random_case *r) {
  int k = (int)draw_int(r, 0, N_BINARY - 1);
  in_spec *a = &r->c.in[0], *b = &r->c.in[1];
  r->op = binary[k].op;
  r->c.fn = binary_fn;
  r->c.n = 2;
  r->c.skip = binary[k].skip;
  r->flag = draw_int(r, 0, 1);
  draw_dims(r, a, 0, 4);
  int drop = (int)draw_int(r, 0, a->rank);
  b->rank = a->rank - drop;
  for (int d = 0; d < b->rank; d++) b->dims[d] = draw_int(r, 0, 2) ? a->dims[d + drop] : 1;
  for (int i = 0; i < 2; i++) {
    r->c.in[i].lo = binary[k].lo[r->flag ? !i : i];
    r->c.in[i].hi = binary[k].hi[r->flag ? !i : i];
  }
}

RANDOM(select_fn) {
  CASE;
  sn_tensor p = sn_gt(in[0], sn_scalar_like(in[0], 0.1));
  out[0] = sn_clamp_c(-0.7, sn_select(p, sn_mul(in[0], in[1]), sn_sin(in[1])), 0.8);
}
static void make_select(random_case *r) {
  r->c.fn = select_fn;
  r->c.n = 2;
  r->c.skip = SKIP_SECOND;
  draw_dims(r, &r->c.in[0], 0, 4);
  r->c.in[1] = r->c.in[0];
}

RANDOM(complex_fn) {
  CASE;
  sn_tensor z = sn_complex(in[0], in[1]), y = sn_mul(sn_exp(z), sn_div(z, sn_complex(in[1], in[0])));
  out[0] = sn_mul_c(sn_sub(sn_real(y), sn_mul(sn_imag(y), sn_abs(z))), 0.1); /* flat enough for differences of the derivative */
}
static void make_complex(random_case *r) {
  r->c.fn = complex_fn;
  r->c.n = 2;
  draw_dims(r, &r->c.in[0], 0, 4);
  r->c.in[0].lo = 0.5;
  r->c.in[0].hi = 1;
  r->c.in[1] = r->c.in[0];
}

/* ---- movement ---- */

RANDOM(transpose_fn) {
  CASE;
  sn_tensor x = sn_transpose(in[0], r->n_batch, r->axes);
  out[0] = sn_sin(r->n_axes ? sn_reverse(x, r->n_axes, r->more) : x);
}
static void make_transpose(random_case *r) {
  in_spec *s = &r->c.in[0];
  r->c.fn = transpose_fn;
  r->c.n = 1;
  draw_dims(r, s, 0, 4);
  r->n_batch = s->rank;
  draw_permutation(r, s->rank, r->axes);
  r->n_axes = draw_subset(r, s->rank, 0, r->more);
}

RANDOM(slice_fn) {
  CASE;
  out[0] = sn_sin(sn_slice(in[0], r->low, r->high, r->step));
}
static void make_slice(random_case *r) {
  in_spec *s = &r->c.in[0];
  r->c.fn = slice_fn;
  r->c.n = 1;
  draw_dims(r, s, 1, 4);
  for (int k = 0; k < s->rank; k++) {
    r->low[k] = draw_int(r, 0, s->dims[k] - 1);
    r->high[k] = draw_int(r, r->low[k] + 1, s->dims[k]);
    r->step[k] = draw_int(r, 1, 3);
  }
}

/* Negative padding cuts; what is left may be little, not less than nothing. */
RANDOM(pad_fn) {
  CASE;
  sn_attr a = sn_attr_ints(SN_ATTR_PADDING, 3 * r->n_axes, r->axes);
  out[0] = sn_sin(sn_op(g, SN_OP_PAD, NULL, 2, in, 1, &a));
}
static void make_pad(random_case *r) {
  in_spec *s = &r->c.in[0];
  r->c.fn = pad_fn;
  r->c.n = 2; /* the padding's value is an operand */
  draw_dims(r, s, 0, 2);
  r->n_axes = s->rank;
  for (int k = 0; k < s->rank; k++) {
    r->axes[3 * k + 2] = draw_int(r, 0, 2);
    int64_t spread = (s->dims[k] - 1) * (r->axes[3 * k + 2] + 1) + 1;
    r->axes[3 * k] = draw_int(r, -1, 2);
    r->axes[3 * k + 1] = draw_int(r, spread + r->axes[3 * k] > 1 ? -1 : 0, 2);
  }
}

RANDOM(concat_fn) {
  CASE;
  sn_tensor parts[3] = {in[0], in[1], r->flag ? in[0] : in[1]};
  out[0] = sn_sin(sn_concat(3, parts, (int)r->axes[0]));
}
static void make_concat(random_case *r) {
  r->c.fn = concat_fn;
  r->c.n = 2;
  draw_dims(r, &r->c.in[0], 1, 4);
  r->c.in[1] = r->c.in[0];
  r->axes[0] = draw_int(r, 0, r->c.in[0].rank - 1);
  r->c.in[1].dims[r->axes[0]] = draw_int(r, 1, MOST_DIM);
  r->flag = draw_int(r, 0, 1);
}

RANDOM(broadcast_fn) {
  CASE;
  sn_tensor x = sn_broadcast_in_dim(in[0], r->n_batch, r->more, r->n_axes, r->axes);
  out[0] = sn_sin(sn_reshape(x, SN_DIMS(-1)));
}
static void make_broadcast(random_case *r) {
  in_spec *s = &r->c.in[0];
  int64_t p[8];
  r->c.fn = broadcast_fn;
  r->c.n = 1;
  r->n_batch = (int)draw_int(r, 1, 4);
  draw_permutation(r, r->n_batch, p);
  for (int k = 0; k < r->n_batch; k++) r->more[k] = draw_int(r, 1, MOST_DIM);
  s->rank = r->n_axes = (int)draw_int(r, 0, r->n_batch);
  for (int k = 0; k < s->rank; k++) {
    r->axes[k] = p[k];
    s->dims[k] = r->more[p[k]];
  }
}

RANDOM(dynamic_fn) {
  CASE;
  sn_tensor at[4];
  for (int k = 0; k < r->n_axes; k++) at[k] = sn_scalar_i64(g, SN_TYPE_S32, r->low[k]); /* out of range: clamped */
  sn_tensor x = sn_dynamic_update_slice(in[0], in[1], at);
  out[0] = sn_add(sn_sin(sn_sum(x, SN_ALL, false)), sn_sin(sn_dynamic_slice(x, at, r->more)));
}
static void make_dynamic(random_case *r) {
  in_spec *s = &r->c.in[0], *u = &r->c.in[1];
  r->c.fn = dynamic_fn;
  r->c.n = 2;
  draw_dims(r, s, 1, 4);
  r->n_axes = u->rank = s->rank;
  for (int k = 0; k < s->rank; k++) {
    u->dims[k] = draw_int(r, 1, s->dims[k]);
    r->more[k] = draw_int(r, 1, s->dims[k]);
    r->low[k] = draw_int(r, -1, s->dims[k] + 1);
  }
}

RANDOM(take_fn) {
  CASE;
  sn_tensor i = sn_constant_data(g, SN_TYPE_S32, r->n_batch, r->more, r->indices);
  out[0] = sn_sin(sn_take(in[0], i, (int)r->axes[0]));
}
static void draw_indices(random_case *r, int64_t size, bool wild) {
  for (int k = 0; k < 16; k++) r->indices[k] = (int32_t)draw_int(r, wild ? -1 : 0, wild ? size : size - 1);
}
static void make_take(random_case *r) {
  r->c.fn = take_fn;
  r->c.n = 1;
  draw_dims(r, &r->c.in[0], 1, 3);
  r->axes[0] = draw_int(r, 0, r->c.in[0].rank - 1);
  r->n_batch = (int)draw_int(r, 0, 2);
  for (int k = 0; k < r->n_batch; k++) r->more[k] = draw_int(r, 1, MOST_DIM);
  draw_indices(r, r->c.in[0].dims[r->axes[0]], draw_int(r, 0, 1));
}

RANDOM(scatter_fn) {
  CASE;
  sn_tensor i = sn_constant_data(g, SN_TYPE_S32, 1, r->more, r->indices);
  out[0] = sn_sin(sn_scatter_rows(in[0], i, in[1], r->op));
}
static void make_scatter(random_case *r) {
  static const sn_opcode ops[] = {SN_OP_ADD, SN_OP_PARAMETER, SN_OP_MULTIPLY, SN_OP_MAXIMUM, SN_OP_MINIMUM};
  in_spec *x = &r->c.in[0], *u = &r->c.in[1];
  r->op = ops[draw_int(r, 0, 4)];
  r->c.fn = scatter_fn;
  r->c.n = 2;
  r->c.skip = r->op == SN_OP_MAXIMUM || r->op == SN_OP_MINIMUM ? SKIP_SECOND : 0;
  draw_dims(r, x, 1, 3);
  x->lo = 0.5;
  x->hi = 1.5;
  *u = *x;
  r->more[0] = u->dims[0] = draw_int(r, 1, MOST_DIM);
  draw_indices(r, x->dims[0], draw_int(r, 0, 1));
}

/* ---- products ---- */

RANDOM(dot_fn) {
  CASE;
  sn_dot_dims d = {r->n_batch, r->n_contracting, r->axes, r->more, r->axes + r->n_batch, r->more + r->n_batch};
  out[0] = sn_dot(in[0], in[1], &d);
}
/* Batch, contracted and free axes of each operand lie anywhere. */
static void make_dot(random_case *r) {
  int64_t sizes[4], p[8];
  r->c.fn = dot_fn;
  r->c.n = 2;
  r->n_batch = (int)draw_int(r, 0, 2);
  r->n_contracting = (int)draw_int(r, 0, 2);
  int shared = r->n_batch + r->n_contracting;
  for (int k = 0; k < shared; k++) sizes[k] = draw_int(r, 1, MOST_DIM);
  for (int i = 0; i < 2; i++) {
    in_spec *s = &r->c.in[i];
    int64_t *axes = i ? r->more : r->axes;
    s->rank = shared + (int)draw_int(r, 0, shared < 3 ? 2 : 1);
    if (s->rank > MAX_TEST_RANK - 1) s->rank = shared; /* an axis is left for vmap */
    draw_permutation(r, s->rank, p);
    for (int k = 0; k < s->rank; k++) s->dims[p[k]] = k < shared ? sizes[k] : draw_int(r, 1, MOST_DIM);
    memcpy(axes, p, (size_t)shared * sizeof *axes);
  }
}

/* ---- sorting, solving, transforming ---- */

RANDOM(sort_fn) {
  CASE;
  sn_tensor x[2];
  if (r->flag) {
    sn_sort_by(2, in, (int)r->axes[0], r->other, x);
    out[0] = sn_mul(sn_sin(x[0]), sn_cumsum(x[1], (int)r->axes[0], false));
  } else {
    out[0] = sn_mul(sn_cumsum(sn_sort(in[0], (int)r->axes[0], r->other), (int)r->axes[0], false), in[1]);
  }
}
static void make_sort(random_case *r) {
  r->c.fn = sort_fn;
  r->c.n = 2;
  draw_dims(r, &r->c.in[0], 1, 3);
  r->c.in[1] = r->c.in[0];
  r->axes[0] = draw_int(r, 0, r->c.in[0].rank - 1);
  r->flag = draw_int(r, 0, 1);
  r->other = draw_int(r, 0, 1);
}

RANDOM(topk_fn) {
  CASE;
  sn_tensor v, i;
  sn_topk(in[0], r->axes[0], &v, &i);
  out[0] = sn_square(v);
}
static void make_topk(random_case *r) {
  r->c.fn = topk_fn;
  r->c.n = 1;
  draw_dims(r, &r->c.in[0], 1, 3);
  r->axes[0] = draw_int(r, 1, r->c.in[0].dims[r->c.in[0].rank - 1]);
}

static sn_tensor plus_eye(sn_tensor x, double v) {
  int64_t n = sn_tensor_dim(x, -1);
  return sn_add(x, sn_mul_c(sn_eye(x.graph, SN_TYPE_F64, n, n), v));
}
RANDOM(solve_fn) {
  CASE;
  sn_tensor a = plus_eye(in[0], 4);
  if (r->flag) out[0] = sn_cholesky(plus_eye(sn_matmul(in[0], sn_swap_axes(in[0], -1, -2)), 2));
  else out[0] = sn_triangular_solve(a, in[1], r->axes[0], r->axes[1], r->axes[2], r->axes[3]);
}
static void make_solve(random_case *r) {
  in_spec *a = &r->c.in[0], *b = &r->c.in[1];
  r->c.fn = solve_fn;
  r->flag = draw_int(r, 0, 2) == 0;
  r->c.n = r->flag ? 1 : 2;
  draw_dims(r, a, 2, 4);
  a->dims[a->rank - 1] = a->dims[a->rank - 2];
  for (int k = 0; k < 3; k++) r->axes[k] = draw_int(r, 0, 1);
  r->axes[3] = draw_int(r, SN_TRANSPOSE_NO_TRANSPOSE, SN_TRANSPOSE_ADJOINT);
  *b = *a;
  b->dims[b->rank - (r->axes[0] ? 1 : 2)] = draw_int(r, 1, MOST_DIM);
}

RANDOM(fft_fn) {
  CASE;
  bool real = r->axes[7] == SN_FFT_TYPE_RFFT;
  sn_tensor x = real ? in[0] : sn_complex(in[0], in[1]), y = sn_fft(x, r->axes[7], r->n_axes, r->more);
  out[0] = r->axes[7] == SN_FFT_TYPE_IRFFT ? y : sn_add(sn_sin(sn_real(y)), sn_imag(y));
}
static void make_fft(random_case *r) {
  static const int64_t kinds[] = {SN_FFT_TYPE_FFT, SN_FFT_TYPE_IFFT, SN_FFT_TYPE_RFFT, SN_FFT_TYPE_IRFFT};
  in_spec *s = &r->c.in[0];
  r->c.fn = fft_fn;
  r->axes[7] = kinds[draw_int(r, 0, 3)];
  r->c.n = r->axes[7] == SN_FFT_TYPE_RFFT ? 1 : 2;
  draw_dims(r, s, 1, 3);
  r->n_axes = (int)draw_int(r, 1, s->rank);
  for (int k = 0; k < r->n_axes; k++) r->more[k] = s->dims[s->rank - r->n_axes + k] = draw_int(r, 1, 5);
  if (r->axes[7] == SN_FFT_TYPE_IRFFT) s->dims[s->rank - 1] = r->more[r->n_axes - 1] / 2 + 1;
  r->c.in[1] = *s;
}

/* ---- loops and branches ---- */

RANDOM(step_fn) { /* (carry, x) -> (carry, y), with a value from outside */
  CASE;
  sn_tensor h = sn_tanh(sn_add(sn_mul(in[0], in[1]), *(const sn_tensor *)ctx));
  out[0] = h;
  out[1] = sn_mul(h, in[1]);
}
RANDOM(scan_fn) {
  CASE;
  sn_tensor carry, ys, outside = in[2];
  sn_scan_spec s = {.n_carry = 1, .n_xs = 1, .n_ys = 1, .init = &in[0], .xs = &in[1], .reverse = r->flag};
  sn_scan(g, &s, step_fn, &outside, &carry, &ys);
  out[0] = sn_add(sn_sum(ys, SN_DIMS(0), false), carry);
}
static void make_scan(random_case *r) {
  in_spec *h = &r->c.in[0], *x = &r->c.in[1];
  r->c.fn = scan_fn;
  r->c.n = 3;
  draw_dims(r, h, 0, 2);
  x->rank = h->rank + 1;
  x->dims[0] = draw_int(r, 1, 4);
  memcpy(x->dims + 1, h->dims, (size_t)h->rank * sizeof *h->dims);
  r->c.in[2] = *h;
  r->flag = draw_int(r, 0, 1);
}

RANDOM(round_fn) {
  CASE;
  out[0] = sn_sin(sn_mul(in[1], sn_add_c(sn_mul_c(sn_cast(in[0], SN_TYPE_F64), 0.2), 0.5)));
}
RANDOM(other_fn) {
  CASE;
  out[0] = sn_exp(sn_neg(sn_square(in[0])));
}
RANDOM(loop_fn) {
  CASE;
  sn_fori(g, r->axes[0], r->axes[1], round_fn, NULL, 1, in, out);
}
RANDOM(branch_fn) {
  CASE;
  sn_cond(sn_gt(sn_sum(in[0], SN_ALL, false), sn_scalar(g, SN_TYPE_F64, 0)), other_fn, loop_fn, ctx, 1, in, 1, out);
}
static void make_branch(random_case *r) {
  r->c.fn = branch_fn;
  r->c.n = 1;
  draw_dims(r, &r->c.in[0], 0, 3);
  r->axes[0] = draw_int(r, -1, 2);
  r->axes[1] = r->axes[0] + draw_int(r, 0, 4);
}

static const random_family families[] = {
    {"unary", make_unary},     {"binary", make_binary},       {"select", make_select}, {"complex", make_complex}, {"transpose", make_transpose}, {"slice", make_slice},
    {"pad", make_pad},         {"concat", make_concat},       {"broadcast", make_broadcast}, {"dynamic", make_dynamic}, {"take", make_take},     {"scatter", make_scatter},
    {"dot", make_dot},         {"sort", make_sort},           {"topk", make_topk},     {"solve", make_solve},     {"fft", make_fft},             {"scan", make_scan},
    {"branch", make_branch},
};
enum { N_FAMILIES = (int)(sizeof families / sizeof *families), SEEDS = 100 };

START_TEST(random_shapes) {
  for (int s = 0; s < SEEDS; s++) run_family(&families[_i], s);
}
END_TEST

void add_random(Suite *s) {
  TCase *t = tcase_create("random shapes");
  tcase_add_loop_test(t, random_shapes, 0, N_FAMILIES);
  suite_add_tcase(s, t);
  add_random_windows(s);
}
