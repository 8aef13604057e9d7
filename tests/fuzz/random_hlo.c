/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Programs from a seed. A pool of values grows by rows of a table, each of which makes one from some that are there; the last ones become the result. */
#include <string.h>

#include "oracle.h"
#include "sinter/build.h"
#include "sinter/text.h"

enum { MOST_VALUES = 64, MOST_ELEMENTS = 4096 };

typedef struct gen {
  uint64_t state;
  sn_builder b;
  sn_instr *v[MOST_VALUES];
  int n;
  int n_params;
  int depth; /* of loops and branches */
} gen;

static uint64_t next(gen *g) {
  uint64_t z = (g->state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}
static int below(gen *g, int n) { return (int)(next(g) % (uint64_t)n); }
static bool coin(gen *g) { return next(g) & 1; }

static sn_instr *pick(gen *g) { return g->v[below(g, g->n)]; }
static sn_instr *pick_type(gen *g, bool (*fits)(sn_type)) {
  for (int k = 0; k < 16; k++) {
    sn_instr *x = pick(g);
    if (fits(x->shape->type)) return x;
  }
  return NULL;
}
static bool is_f32(sn_type t) { return t == SN_TYPE_F32; }
static bool is_float(sn_type t) { return sn_type_is_float(t); }
static bool is_number(sn_type t) { return sn_type_is_float(t) || sn_type_is_integer(t); }
static bool is_pred(sn_type t) { return t == SN_TYPE_PRED; }

static int64_t size(gen *g) {
  static const int64_t sizes[] = {1, 2, 3, 4, 4, 6, 8};
  return sizes[below(g, 7)];
}
static sn_type type(gen *g) {
  static const sn_type types[] = {SN_TYPE_F32, SN_TYPE_F32, SN_TYPE_F32, SN_TYPE_S32, SN_TYPE_BF16, SN_TYPE_PRED, SN_TYPE_U8, SN_TYPE_F64, SN_TYPE_F16, SN_TYPE_S8};
  return types[below(g, 10)];
}

/* ---- leaves ---- */

static sn_instr *parameter(gen *g, sn_type t, int rank, const int64_t *dims) {
  if (g->depth) return NULL; /* bodies take what they are given */
  return sn_build_parameter(&g->b, g->n_params++, sn_shape_array(sn_builder_arena(&g->b), t, rank, dims), NULL);
}
static sn_instr *splat(gen *g, const sn_shape *s) {
  static const double values[] = {0, -0.0, 1, -1, 2, 0.5, 3, 8};
  return sn_build_full(&g->b, s, sn_type_is_unsigned(s->type) ? (double)below(g, 3) : values[below(g, 8)]);
}
/* Another value of the same shape. */
static sn_instr *mate(gen *g, sn_instr *x) {
  for (int k = 0; k < 6; k++) {
    sn_instr *y = pick(g);
    if (sn_shape_equal(y->shape, x->shape, 0)) return y;
  }
  const sn_shape *s = x->shape;
  if (s->rank && coin(g)) { /* a broadcast of one dimension */
    int64_t d = below(g, s->rank);
    sn_instr *line = sn_build_slice_dim(&g->b, x, 0, 0, 1);
    int64_t n = s->dims[d];
    if (n == sn_shape_elements(line->shape)) return sn_build_broadcast(&g->b, sn_build_reshape(&g->b, line, 1, &n), s->rank, s->dims, 1, &d);
  }
  sn_instr *p = coin(g) ? parameter(g, s->type, s->rank, s->dims) : NULL;
  return p ? p : splat(g, s);
}

/* ---- rows ---- */

static sn_instr *g_parameter(gen *g) {
  int64_t dims[3];
  int rank = below(g, 4);
  for (int k = 0; k < rank; k++) dims[k] = size(g);
  return parameter(g, type(g), rank, dims);
}
static sn_instr *g_constant(gen *g) { return splat(g, pick(g)->shape); }
static sn_instr *g_iota(gen *g) {
  sn_instr *x = pick_type(g, is_number);
  return x && x->shape->rank ? sn_build_iota(&g->b, x->shape->type, x->shape->rank, x->shape->dims, below(g, x->shape->rank)) : NULL;
}
static sn_instr *g_unary(gen *g) {
  static const sn_opcode ops[] = {SN_OP_NEGATE, SN_OP_ABS, SN_OP_EXPONENTIAL, SN_OP_TANH, SN_OP_SQRT, SN_OP_RSQRT, SN_OP_LOGISTIC, SN_OP_FLOOR, SN_OP_SIGN, SN_OP_LOG, SN_OP_ERF};
  sn_instr *x = pick_type(g, is_float);
  return x ? sn_build_unary(&g->b, ops[below(g, 11)], x) : NULL;
}
static sn_instr *g_negate(gen *g) {
  sn_instr *x = pick(g);
  return x->shape->type == SN_TYPE_PRED ? sn_build_unary(&g->b, SN_OP_NOT, x) : sn_type_is_unsigned(x->shape->type) ? NULL : sn_build_unary(&g->b, SN_OP_NEGATE, x);
}
static sn_instr *g_binary(gen *g) {
  static const sn_opcode ops[] = {SN_OP_ADD, SN_OP_MULTIPLY, SN_OP_SUBTRACT, SN_OP_MAXIMUM, SN_OP_MINIMUM, SN_OP_DIVIDE, SN_OP_POWER};
  sn_instr *x = pick_type(g, is_number), *y = x ? mate(g, x) : NULL;
  if (!y) return NULL;
  int n = sn_type_is_float(x->shape->type) ? 7 : 5;
  return coin(g) ? sn_build_binary(&g->b, ops[below(g, n)], x, y) : sn_build_binary(&g->b, ops[below(g, n)], y, x);
}
static sn_instr *g_logic(gen *g) {
  static const sn_opcode ops[] = {SN_OP_AND, SN_OP_OR, SN_OP_XOR};
  sn_instr *x = pick_type(g, is_pred);
  return x ? sn_build_binary(&g->b, ops[below(g, 3)], x, mate(g, x)) : NULL;
}
static sn_instr *g_compare(gen *g) {
  sn_instr *x = pick(g);
  return sn_build_compare(&g->b, below(g, 6), x, mate(g, x));
}
static sn_instr *g_select(gen *g) {
  sn_instr *x = pick_type(g, is_number), *y = x ? mate(g, x) : NULL;
  return y ? sn_build_select(&g->b, sn_build_compare(&g->b, below(g, 6), x, y), x, mate(g, x)) : NULL;
}
static sn_instr *g_convert(gen *g) { return sn_build_convert(&g->b, pick(g), type(g)); }
static sn_instr *g_broadcast(gen *g) {
  sn_instr *x = pick(g);
  int64_t dims[4], map[3];
  int at = 0, extra = below(g, x->shape->rank + 1);
  if (x->shape->rank > 2) return NULL;
  for (int k = 0; k < x->shape->rank + 1; k++) {
    if (k == extra) dims[k] = size(g);
    else map[at] = k, dims[k] = x->shape->dims[at], at++;
  }
  return sn_build_broadcast(&g->b, x, x->shape->rank + 1, dims, x->shape->rank, map);
}
static sn_instr *g_reshape(gen *g) {
  sn_instr *x = pick(g);
  int64_t n = sn_shape_elements(x->shape), dims[3];
  int rank = 0;
  while (rank < 2 && n > 1) {
    int64_t d = 1 + below(g, (int)n);
    while (n % d) d--;
    dims[rank++] = d;
    n /= d;
  }
  dims[rank++] = n;
  return sn_build_reshape(&g->b, x, rank, dims);
}
static sn_instr *g_transpose(gen *g) {
  sn_instr *x = pick(g);
  int64_t p[4];
  int n = x->shape->rank;
  for (int k = 0; k < n; k++) p[k] = k;
  for (int k = n - 1; k > 0; k--) {
    int q = below(g, k + 1);
    int64_t t = p[k];
    p[k] = p[q];
    p[q] = t;
  }
  return n > 1 ? sn_build_transpose(&g->b, x, p) : NULL;
}
static sn_instr *g_slice(gen *g) {
  sn_instr *x = pick(g);
  int64_t lo[4], hi[4], stride[4];
  for (int k = 0; k < x->shape->rank; k++) {
    int64_t n = x->shape->dims[k];
    lo[k] = below(g, (int)n);
    hi[k] = lo[k] + 1 + below(g, (int)(n - lo[k]));
    stride[k] = 1 + below(g, 2);
  }
  return x->shape->rank ? sn_build_slice(&g->b, x, lo, hi, stride) : NULL;
}
static sn_instr *g_pad(gen *g) {
  sn_instr *x = pick(g);
  int64_t lo[4], hi[4], in[4];
  for (int k = 0; k < x->shape->rank; k++) {
    lo[k] = below(g, 4) - (x->shape->dims[k] > 2);
    hi[k] = below(g, 3) - (x->shape->dims[k] > 3);
    in[k] = below(g, 4) == 0;
  }
  sn_shape s = {0};
  s.type = x->shape->type;
  return x->shape->rank ? sn_build_pad(&g->b, x, splat(g, &s), lo, hi, in) : NULL;
}
static sn_instr *g_concatenate(gen *g) {
  sn_instr *x = pick(g), *xs[2] = {x, NULL};
  if (!x->shape->rank) return NULL;
  xs[1] = mate(g, x);
  return sn_build_concatenate(&g->b, 2, xs, below(g, x->shape->rank));
}
static sn_instr *g_reverse(gen *g) {
  sn_instr *x = pick(g);
  int64_t d = x->shape->rank ? below(g, x->shape->rank) : 0;
  return x->shape->rank ? sn_build_reverse(&g->b, x, 1, &d) : NULL;
}
static sn_instr *g_reduce(gen *g) {
  sn_instr *x = pick_type(g, is_number);
  int64_t dims[4];
  int n = 0;
  if (!x || !x->shape->rank) return NULL;
  for (int k = 0; k < x->shape->rank; k++) {
    if (coin(g)) dims[n++] = k;
  }
  return coin(g) ? sn_build_reduce_sum(&g->b, x, n, dims) : sn_build_reduce_max(&g->b, x, n, dims);
}
static sn_instr *g_dot(gen *g) {
  sn_instr *x = pick_type(g, is_f32);
  if (!x || !x->shape->rank || g->depth) return NULL;
  int64_t lc = below(g, x->shape->rank), batch = 0, dims[2] = {x->shape->dims[lc], size(g)}, rc = 0;
  if (x->shape->rank == 3 && lc != 0 && coin(g)) { /* batched */
    int64_t bdims[3] = {x->shape->dims[0], size(g), x->shape->dims[lc]}, brc = 2;
    sn_dot_dims d = {1, 1, &batch, &batch, &lc, &brc};
    return sn_build_dot(&g->b, x, parameter(g, SN_TYPE_F32, 3, bdims), &d, SN_TYPE_F32);
  }
  sn_dot_dims d = {0, 1, NULL, NULL, &lc, &rc};
  return sn_build_dot(&g->b, x, parameter(g, SN_TYPE_F32, 1 + below(g, 2), dims), &d, SN_TYPE_F32);
}
static sn_instr *g_self_dot(gen *g) {
  sn_instr *x = pick_type(g, is_f32);
  if (!x || x->shape->rank != 2) return NULL;
  int64_t c = below(g, 2);
  sn_dot_dims d = {0, 1, NULL, NULL, &c, &c};
  return sn_build_dot(&g->b, x, mate(g, x), &d, SN_TYPE_F32);
}
/* A convolution of images in either layout by a kernel in either, with what stands around one: an activation, a norm over channels, a pool. Values here have three
 * dimensions at most: pixels become one. */
static sn_instr *g_convolution(gen *g) {
  static const int64_t last[2] = {1, 2}, first[2] = {2, 3}, leading[2] = {0, 1};
  bool nhwc = coin(g), hwio = coin(g);
  int64_t n = 1 + below(g, 2), h = 3 + below(g, 4), w = 3 + below(g, 4), c = 1 + below(g, 4), o = 1 + below(g, 4), k = 1 + below(g, 3);
  const int64_t image[4] = {n, nhwc ? h : c, nhwc ? w : h, nhwc ? c : w}, kernel[4] = {hwio ? k : o, hwio ? k : c, hwio ? c : k, hwio ? o : k};
  sn_window_dim pixels[2] = {{k, 1 + below(g, 2), below(g, 2), below(g, 2), 1, 1, false}, {k, 1, below(g, 2), below(g, 2), 1, 1, false}};
  sn_window window = {2, pixels};
  sn_conv_dims dims = {2, 0, nhwc ? 3 : 1, hwio ? 2 : 1, hwio ? 3 : 0, 0, nhwc ? 3 : 1, nhwc ? last : first, hwio ? leading : first, nhwc ? last : first, 4, 4, 4};
  sn_instr *x = parameter(g, SN_TYPE_F32, 4, image), *f = x ? parameter(g, SN_TYPE_F32, 4, kernel) : NULL;
  sn_instr *y = f ? sn_build_convolution(&g->b, coin(g) ? sn_build_unary(&g->b, SN_OP_TANH, x) : x, f, &window, &dims, 1, 1) : NULL;
  int64_t channel = nhwc ? 3 : 1;
  if (!y) return NULL;
  if (coin(g)) y = sn_build_binary(&g->b, SN_OP_MAXIMUM, y, splat(g, y->shape));
  sn_instr *scale = y && coin(g) ? parameter(g, SN_TYPE_F32, 1, &o) : NULL;
  if (scale) y = sn_build_binary(&g->b, SN_OP_MULTIPLY, y, sn_build_broadcast(&g->b, scale, 4, y->shape->dims, 1, &channel));
  if (!y) return NULL;
  if (coin(g)) {
    const int64_t over[3] = {0, nhwc ? 1 : 2, nhwc ? 2 : 3};
    return sn_build_reduce_sum(&g->b, y, 3, over);
  }
  const int64_t flat[3] = {n, nhwc ? y->shape->dims[1] * y->shape->dims[2] : o, nhwc ? o : y->shape->dims[2] * y->shape->dims[3]};
  return sn_build_reshape(&g->b, y, 3, flat);
}
static sn_instr *g_dynamic_slice(gen *g) {
  sn_instr *x = pick(g), *starts[4];
  int64_t sizes[4];
  if (!x->shape->rank) return NULL;
  for (int k = 0; k < x->shape->rank; k++) {
    sizes[k] = 1 + below(g, (int)x->shape->dims[k]);
    starts[k] = coin(g) ? sn_build_scalar_i64(&g->b, SN_TYPE_S32, below(g, 6) - 1) : parameter(g, SN_TYPE_S32, 0, NULL);
    if (!starts[k]) starts[k] = sn_build_scalar_i64(&g->b, SN_TYPE_S32, 1);
  }
  sn_instr *s = sn_build_dynamic_slice(&g->b, x, starts, sizes);
  return coin(g) || !s ? s : sn_build_dynamic_update_slice(&g->b, x, coin(g) ? s : mate(g, s), starts);
}
static sn_instr *g_clamp(gen *g) {
  sn_instr *x = pick_type(g, is_number);
  return x ? sn_build_clamp(&g->b, splat(g, x->shape), x, mate(g, x)) : NULL;
}
static sn_instr *g_tuple(gen *g) {
  sn_instr *xs[3] = {pick(g), pick(g), pick(g)};
  return sn_build_get(&g->b, sn_build_tuple(&g->b, 3, xs), below(g, 3));
}
static sn_instr *g_again(gen *g) { /* an equal instruction */
  sn_instr *x = pick(g), *copy = NULL;
  if (x->op == SN_OP_PARAMETER || x->n_called || g->depth) return NULL;
  return sn_instr_clone(x, g->b.c, NULL, NULL, &copy) == SN_OK ? copy : NULL;
}

typedef sn_instr *(*row)(gen *g);
static sn_instr *g_call(gen *g);
static sn_instr *g_branch(gen *g);
static sn_instr *g_loop(gen *g);
static const row rows[] = {g_parameter, g_constant,  g_iota,   g_unary,       g_negate,  g_binary, g_binary,  g_binary,        g_logic, g_compare, g_select, g_convert,
                           g_broadcast, g_broadcast, g_reshape, g_reshape,     g_transpose, g_slice, g_pad,    g_concatenate,   g_reverse, g_reduce, g_dot,   g_dot, g_convolution,
                           g_self_dot,  g_dynamic_slice, g_clamp, g_tuple, g_again, g_call, g_branch, g_loop};

static void grow(gen *g, int n) {
  for (int tries = 0; n > 0 && tries < 200 && g->n < MOST_VALUES && g->b.status == SN_OK; tries++) {
    sn_instr *x = rows[below(g, (int)(sizeof rows / sizeof *rows))](g);
    if (!x || !sn_shape_is_array(x->shape) || sn_shape_elements(x->shape) > MOST_ELEMENTS || sn_shape_elements(x->shape) == 0 || x->shape->rank > 3) continue;
    g->v[g->n++] = x;
    n--;
  }
}

/* A computation with the given parameters; body() makes the root. */
static sn_computation *inner(gen *g, int n, const sn_shape *const *shapes, const char *name, sn_instr *(*body)(gen *in, const void *ctx), const void *ctx) {
  sn_computation *c = NULL;
  gen in;
  memset(&in, 0, sizeof in);
  if (sn_computation_create(g->b.c->module, name, &c) != SN_OK) return NULL;
  sn_computation_move_before(c, g->b.c);
  sn_builder_init(&in.b, g->b.d, c);
  in.state = next(g);
  in.depth = g->depth + 1;
  for (int k = 0; k < n; k++) in.v[in.n++] = sn_build_parameter(&in.b, k, shapes[k], NULL);
  sn_instr *root = body(&in, ctx);
  if (!root || in.b.status != SN_OK) return NULL;
  sn_computation_set_root(c, root);
  return c;
}

/* Some work on the parameters that ends in the shape asked for. */
static sn_instr *work_of_shape(gen *in, const void *ctx) {
  const sn_shape *want = ctx;
  grow(in, 1 + below(in, 4));
  for (int k = in->n; k-- > 0;) {
    if (sn_shape_equal(in->v[k]->shape, want, 0)) return in->v[k];
  }
  return splat(in, want);
}
static sn_instr *g_call(gen *g) {
  sn_instr *x = pick(g);
  if (g->depth > 1) return NULL;
  const sn_shape *s = x->shape;
  sn_computation *f = inner(g, 1, &s, "f", work_of_shape, s);
  return f ? sn_build_call(&g->b, f, 1, &x) : NULL;
}
static sn_instr *g_branch(gen *g) {
  sn_instr *x = pick(g);
  if (g->depth > 1) return NULL;
  const sn_shape *s = x->shape;
  sn_computation *bodies[2] = {inner(g, 1, &s, "yes", work_of_shape, s), inner(g, 1, &s, "no", work_of_shape, s)};
  sn_instr *p = coin(g) ? sn_build_scalar(&g->b, SN_TYPE_PRED, below(g, 2)) : parameter(g, SN_TYPE_PRED, 0, NULL);
  sn_instr *xs[3] = {p ? p : sn_build_scalar(&g->b, SN_TYPE_PRED, 1), x, x};
  return bodies[0] && bodies[1] ? sn_build(&g->b, SN_OP_CONDITIONAL, s, 3, xs, 0, NULL, 2, bodies) : NULL;
}

/* State: a counter, a value that changes, one that the body reads, perhaps changes, perhaps hands on. */
static sn_instr *loop_test(gen *in, const void *ctx) {
  sn_instr *i = sn_build_get(&in->b, in->v[0], 0);
  return sn_build_compare(&in->b, SN_DIRECTION_LT, i, sn_build_scalar_i64(&in->b, SN_TYPE_S32, *(const int *)ctx));
}
static sn_instr *loop_body(gen *in, const void *ctx) {
  (void)ctx;
  sn_instr *state = in->v[0], *i = sn_build_get(&in->b, state, 0), *x = sn_build_get(&in->b, state, 1), *y = sn_build_get(&in->b, state, 2);
  in->n = 0;
  in->v[in->n++] = x;
  in->v[in->n++] = y;
  grow(in, 1 + below(in, 4));
  sn_instr *next_x = NULL, *next_y = coin(in) ? y : NULL;
  for (int k = in->n; k-- > 0;) {
    if (!next_x && sn_shape_equal(in->v[k]->shape, x->shape, 0)) next_x = in->v[k];
    if (!next_y && sn_shape_equal(in->v[k]->shape, y->shape, 0)) next_y = in->v[k];
  }
  sn_instr *xs[3] = {sn_build_binary(&in->b, SN_OP_ADD, i, sn_build_scalar_i64(&in->b, SN_TYPE_S32, 1)), next_x, next_y};
  return sn_build_tuple(&in->b, 3, xs);
}
static sn_instr *g_loop(gen *g) {
  if (g->depth > 1) return NULL;
  sn_instr *xs[3] = {sn_build_scalar_i64(&g->b, SN_TYPE_S32, 0), pick(g), pick(g)};
  sn_instr *init = sn_build_tuple(&g->b, 3, xs);
  if (!init) return NULL;
  int trips = below(g, 4);
  sn_computation *parts[2] = {inner(g, 1, &init->shape, "test", loop_test, &trips), inner(g, 1, &init->shape, "body", loop_body, NULL)};
  if (!parts[0] || !parts[1]) return NULL;
  return sn_build_get(&g->b, sn_build(&g->b, SN_OP_WHILE, init->shape, 1, &init, 0, NULL, 2, parts), 1 + below(g, 2));
}

/* ---- the program ---- */

static sn_status generate(gen *g, sn_module *m, sn_diag *d, uint64_t seed) {
  sn_computation *entry;
  SN_TRY(sn_computation_create(m, "entry", &entry));
  sn_module_set_entry(m, entry);
  sn_builder_init(&g->b, d, entry);
  g->state = seed;
  for (int k = 0; k < 3; k++) {
    int64_t dims[3] = {size(g), size(g), size(g)};
    g->v[g->n++] = parameter(g, k == 2 ? type(g) : SN_TYPE_F32, 1 + below(g, 3), dims);
  }
  grow(g, 8 + below(g, 24));
  if (g->b.status != SN_OK) return g->b.status;
  sn_instr *xs[4];
  for (int k = 0; k < 4; k++) xs[k] = g->v[k < 2 ? g->n - 1 - k : below(g, g->n)];
  sn_instr *root = sn_build_tuple(&g->b, 4, xs);
  if (!root) return g->b.status;
  sn_computation_set_root(entry, root);
  SN_TRY(sn_passes_run(d, m, "dce", NULL, NULL)); /* half-made bodies of refused rows go */
  return sn_module_verify(d, m, 0);
}

sn_module *random_hlo(uint64_t seed) {
  sn_module *m = NULL;
  sn_diag *d = NULL;
  gen g;
  memset(&g, 0, sizeof g);
  if (sn_diag_create(&d) != SN_OK || sn_module_create("random", &m) != SN_OK || generate(&g, m, d, seed) != SN_OK) {
    if (d) sn_diag_print(d, stderr, false);
    sn_module_destroy(m);
    m = NULL;
  }
  sn_diag_destroy(d);
  return m;
}
