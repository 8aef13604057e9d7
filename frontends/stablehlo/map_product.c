/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Products and linear algebra: dot, dot_general, einsum, convolution, fft, cholesky, triangular_solve, batch norm, random numbers. */
#include <inttypes.h>
#include <string.h>

#include "map.h"

/* ---- precision ---- */

static const char *const precisions[] = {"DEFAULT", "HIGH", "HIGHEST", "PACKED_NIBBLE"};

static sn_status precision(sn_sm *s, const sn_mlir_op *op, sn_attr *a, uint32_t *n) {
  const sn_mlir_attr *p = sn_mlir_find(op, "precision_config");
  if (p == NULL || p->kind != SN_MA_ARRAY || p->n == 0) return SN_OK;
  if (p->n > 2) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected a precision for each of two operands, found %" PRId64, p->n);
  int64_t *v = SN_NEW_N(s->scratch, int64_t, p->n);
  bool any = false;
  if (v == NULL) return sn_sm_memory(s);
  for (int64_t i = 0; i < p->n; i++) {
    const char *word = p->items[i]->s != NULL ? p->items[i]->s : "";
    while (v[i] < 4 && strcmp(word, precisions[v[i]]) != 0) v[i]++;
    if (v[i] == 4) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected DEFAULT, HIGH or HIGHEST as precision, found `%s`", word);
    any |= v[i] != SN_PRECISION_DEFAULT;
  }
  if (any) a[(*n)++] = sn_attr_ints(SN_ATTR_OPERAND_PRECISION, p->n, v);
  return SN_OK;
}

/* ---- dot ---- */

static const sn_sm_algorithm algorithms[] = {
    {"f16", "f16", "f16", 1, false, SN_DOT_ALGORITHM_F16_F16_F16},       {"f16", "f16", "f32", 1, false, SN_DOT_ALGORITHM_F16_F16_F32},
    {"bf16", "bf16", "bf16", 1, false, SN_DOT_ALGORITHM_BF16_BF16_BF16}, {"bf16", "bf16", "f32", 1, false, SN_DOT_ALGORITHM_BF16_BF16_F32},
    {"bf16", "bf16", "f32", 3, false, SN_DOT_ALGORITHM_BF16_BF16_F32_X3}, {"bf16", "bf16", "f32", 6, false, SN_DOT_ALGORITHM_BF16_BF16_F32_X6},
    {"bf16", "bf16", "f32", 9, false, SN_DOT_ALGORITHM_BF16_BF16_F32_X9}, {"tf32", "tf32", "f32", 1, false, SN_DOT_ALGORITHM_TF32_TF32_F32},
    {"tf32", "tf32", "f32", 3, false, SN_DOT_ALGORITHM_TF32_TF32_F32_X3}, {"f32", "f32", "f32", 1, false, SN_DOT_ALGORITHM_F32_F32_F32},
    {"f64", "f64", "f64", 1, false, SN_DOT_ALGORITHM_F64_F64_F64},       {"f8", "f8", "f32", 1, false, SN_DOT_ALGORITHM_ANY_F8_ANY_F8_F32},
    {"f8", "f8", "f32", 1, true, SN_DOT_ALGORITHM_ANY_F8_ANY_F8_F32_FAST_ACCUM}};

const sn_sm_algorithm *sn_sm_algorithm_find(int64_t id) {
  for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++)
    if (algorithms[i].id == id) return &algorithms[i];
  return NULL;
}

static const char *algorithm_type(sn_sm *s, const sn_mlir_op *op, const char *name) {
  const sn_mlir_attr *a = sn_mlir_find(op, name);
  if (a == NULL || a->kind != SN_MA_TYPE) return "";
  const char *text = sn_mlir_type_text(s->scratch, a->type);
  return strncmp(text, "f8", 2) == 0 ? "f8" : text;
}

static sn_status algorithm(sn_sm *s, const sn_mlir_op *op, sn_attr *a, uint32_t *n) {
  const char *lhs = algorithm_type(s, op, "lhs_precision_type"), *rhs = algorithm_type(s, op, "rhs_precision_type"), *acc = algorithm_type(s, op, "accumulation_type");
  int64_t products = sn_sm_int_or(op, "num_primitive_operations", 1);
  bool fast = sn_sm_bool(op, "allow_imprecise_accumulation");
  if (lhs[0] == '\0') return SN_OK;
  for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
    const sn_sm_algorithm *r = &algorithms[i];
    if (strcmp(r->lhs, lhs) != 0 || strcmp(r->rhs, rhs) != 0 || strcmp(r->acc, acc) != 0 || r->products != products || r->fast != fast) continue;
    a[(*n)++] = sn_attr_int(SN_ATTR_DOT_ALGORITHM, r->id);
    return SN_OK;
  }
  return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "no algorithm multiplies %s by %s with %" PRId64 " products into %s", lhs, rhs, products, acc);
}

/* HLO infers the dimensions; the element type is the stated one. */
static sn_status dot(sn_sm *s, const sn_mlir_op *op, sn_instr **in, uint32_t n, sn_attr *a, sn_instr **out) {
  const sn_shape *operands[2] = {in[0]->shape, in[1]->shape}, *shape = NULL;
  sn_type t = sn_mlir_storage(op->results[0].type);
  sn_infer infer = {.op = SN_OP_DOT, .loc = op->loc, .n_operands = 2, .operands = operands, .n_attrs = n, .attrs = a, .arena = sn_sm_arena(s)};
  if (t == SN_TYPE_INVALID) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a tensor as result");
  SN_TRY(sn_infer_shape(s->d, &infer, &shape));
  shape = sn_shape_with_type(sn_sm_arena(s), shape, t);
  if (shape == NULL) return sn_sm_memory(s);
  *out = sn_build(&s->b, SN_OP_DOT, shape, 2, in, n, a, 0, NULL);
  return sn_sm_built(s);
}

static sn_status dims(sn_sm *s, const sn_mlir_op *op, const char *name, sn_attr_id id, sn_attr *a, uint32_t *n) {
  int64_t count = 0;
  const int64_t *v = NULL;
  SN_TRY(sn_sm_ints(s, op, name, false, &count, &v));
  a[(*n)++] = sn_attr_ints(id, count, v);
  return SN_OK;
}

sn_status sn_sm_dot_general(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[8];
  uint32_t n = 0;
  (void)row;
  SN_TRY(dims(s, op, "lhs_batching_dimensions", SN_ATTR_LHS_BATCH_DIMS, a, &n));
  SN_TRY(dims(s, op, "rhs_batching_dimensions", SN_ATTR_RHS_BATCH_DIMS, a, &n));
  SN_TRY(dims(s, op, "lhs_contracting_dimensions", SN_ATTR_LHS_CONTRACTING_DIMS, a, &n));
  SN_TRY(dims(s, op, "rhs_contracting_dimensions", SN_ATTR_RHS_CONTRACTING_DIMS, a, &n));
  SN_TRY(precision(s, op, a, &n));
  SN_TRY(algorithm(s, op, a, &n));
  return dot(s, op, in, n, a, &out[0]);
}

/* Vectors and matrices: the last dimension of the left with the first of the right. */
sn_status sn_sm_dot(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t l = in[0]->shape->rank - 1, r = 0;
  sn_attr a[4];
  uint32_t n = 0;
  (void)row;
  if (l < 0 || l > 1 || in[1]->shape->rank < 1 || in[1]->shape->rank > 2) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected vectors or matrices");
  a[n++] = sn_attr_ints(SN_ATTR_LHS_CONTRACTING_DIMS, 1, &l);
  a[n++] = sn_attr_ints(SN_ATTR_RHS_CONTRACTING_DIMS, 1, &r);
  SN_TRY(precision(s, op, a, &n));
  return dot(s, op, in, n, a, &out[0]);
}

sn_status sn_sm_ragged_dot(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a[8];
  uint32_t n = 0;
  (void)row;
  SN_TRY(dims(s, op, "lhs_batching_dimensions", SN_ATTR_LHS_BATCH_DIMS, a, &n));
  SN_TRY(dims(s, op, "rhs_batching_dimensions", SN_ATTR_RHS_BATCH_DIMS, a, &n));
  SN_TRY(dims(s, op, "lhs_contracting_dimensions", SN_ATTR_LHS_CONTRACTING_DIMS, a, &n));
  SN_TRY(dims(s, op, "rhs_contracting_dimensions", SN_ATTR_RHS_CONTRACTING_DIMS, a, &n));
  SN_TRY(dims(s, op, "lhs_ragged_dimensions", SN_ATTR_LHS_RAGGED_DIMS, a, &n));
  SN_TRY(dims(s, op, "rhs_group_dimensions", SN_ATTR_RHS_GROUP_DIMS, a, &n));
  SN_TRY(precision(s, op, a, &n));
  out[0] = sn_build(&s->b, SN_OP_RAGGED_DOT, NULL, 3, in, n, a, 0, NULL);
  return sn_sm_built(s);
}

/* ---- einsum: `ab,bc->ac`, every letter once an operand ---- */

typedef struct letters {
  const char *s;
  int n;
} letters;

static int letter_at(letters l, char c) {
  for (int i = 0; i < l.n; i++)
    if (l.s[i] == c) return i;
  return -1;
}

static sn_status einsum_parse(sn_sm *s, const sn_mlir_op *op, sn_instr **in, letters *l, letters *r, letters *to) {
  const char *c = sn_mlir_string(op, "einsum_config");
  const char *comma = c != NULL ? strchr(c, ',') : NULL, *arrow = c != NULL ? strstr(c, "->") : NULL;
  bool two = op->n_operands == 2;
  if (c == NULL || arrow == NULL || two != (comma != NULL && comma < arrow)) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected an einsum such as `ab,bc->ac`, found `%s`", c != NULL ? c : "");
  *l = (letters){c, (int)((two ? comma : arrow) - c)};
  *r = two ? (letters){comma + 1, (int)(arrow - comma - 1)} : (letters){"", 0};
  *to = (letters){arrow + 2, (int)strlen(arrow + 2)};
  const letters *all[3] = {l, r, to};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < all[k]->n; i++)
      if (letter_at((letters){all[k]->s, i}, all[k]->s[i]) >= 0 || all[k]->s[i] == '.') return sn_sm_fail(s, op, SN_ERR_UNSUPPORTED, "einsum `%s` repeats a letter within one operand", c);
  if (l->n != in[0]->shape->rank || (two && r->n != in[1]->shape->rank)) return sn_sm_fail(s, op, SN_ERR_SHAPE, "einsum `%s` does not fit the operands' ranks", c);
  return SN_OK;
}

/* Letters of one operand that neither the other nor the result has are summed first. */
static sn_instr *sum_lonely(sn_sm *s, sn_instr *x, letters l, letters other, letters to, char *kept, int *n_kept) {
  int64_t gone[SN_MAX_RANK];
  int n = 0;
  *n_kept = 0;
  for (int i = 0; i < l.n; i++) {
    if (letter_at(other, l.s[i]) < 0 && letter_at(to, l.s[i]) < 0) gone[n++] = i;
    else kept[(*n_kept)++] = l.s[i];
  }
  return n == 0 ? x : sn_build_reduce_sum(&s->b, x, n, gone);
}

/* Puts dimensions named `from` into the order of `to`. */
static sn_status reorder(sn_sm *s, const sn_mlir_op *op, sn_instr *x, letters from, letters to, sn_instr **out) {
  int64_t order[SN_MAX_RANK];
  if (from.n != to.n) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "the einsum's result has a letter that no operand has");
  for (int i = 0; i < to.n; i++)
    if ((order[i] = letter_at(from, to.s[i])) < 0) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "no operand of the einsum has `%c`", to.s[i]);
  *out = sn_build_transpose(&s->b, x, order);
  return sn_sm_built(s);
}

sn_status sn_sm_einsum(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  letters l, r, to;
  char lk[SN_MAX_RANK], rk[SN_MAX_RANK], have[2 * SN_MAX_RANK];
  int64_t lb[SN_MAX_RANK], rb[SN_MAX_RANK], lc[SN_MAX_RANK], rc[SN_MAX_RANK];
  int nl = 0, nr = 0, nb = 0, nc = 0, n = 0;
  (void)row;
  SN_TRY(einsum_parse(s, op, in, &l, &r, &to));
  sn_instr *x = sum_lonely(s, in[0], l, r, to, lk, &nl);
  if (op->n_operands == 1) return reorder(s, op, x, (letters){lk, nl}, to, &out[0]);
  sn_instr *y = sum_lonely(s, in[1], r, l, to, rk, &nr);
  for (int i = 0; i < nl; i++) {
    int other = letter_at((letters){rk, nr}, lk[i]);
    if (other < 0) continue;
    bool batch = letter_at(to, lk[i]) >= 0;
    (batch ? lb : lc)[batch ? nb : nc] = i;
    (batch ? rb : rc)[batch ? nb++ : nc++] = other;
    if (batch) have[n++] = lk[i];
  }
  for (int i = 0; i < nl; i++)
    if (letter_at((letters){rk, nr}, lk[i]) < 0) have[n++] = lk[i];
  for (int i = 0; i < nr; i++)
    if (letter_at((letters){lk, nl}, rk[i]) < 0) have[n++] = rk[i];
  sn_dot_dims d = {nb, nc, lb, rb, lc, rc};
  return reorder(s, op, sn_build_dot(&s->b, x, y, &d, sn_mlir_storage(op->results[0].type)), (letters){have, n}, to, &out[0]);
}

/* ---- convolution ---- */

static sn_status conv_list(sn_sm *s, const sn_mlir_op *op, const char *name, int n, int64_t dflt, int64_t *out) {
  int64_t found = 0;
  const int64_t *v = NULL;
  SN_TRY(sn_sm_ints(s, op, name, false, &found, &v));
  if (sn_mlir_find(op, name) != NULL && found != n) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected %d integers for %s, found %" PRId64, n, name, found);
  for (int i = 0; i < n; i++) out[i] = v != NULL ? v[i] : dflt;
  return SN_OK;
}

/* Padding is an attribute, or the third operand of dynamic_conv. */
static sn_status conv_padding(sn_sm *s, const sn_mlir_op *op, sn_instr **in, int n, int64_t *out) {
  int64_t found = 0;
  const int64_t *v = NULL;
  if (op->n_operands == 2) return conv_list(s, op, "padding", 2 * n, 0, out);
  SN_TRY(sn_sm_fold_ints(s, op, in[2], "padding", &found, &v));
  if (found != 2 * n) return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected padding for %d spatial dimensions, found %" PRId64 " numbers", n, found);
  memcpy(out, v, (size_t)found * sizeof *out);
  return SN_OK;
}

static sn_status conv_dims(sn_sm *s, const sn_mlir_op *op, sn_instr **in, sn_conv_dims *c) {
  int64_t n[3] = {0, 0, 0};
  memset(c, 0, sizeof *c);
  SN_TRY(sn_sm_int(s, op, "input_batch_dimension", &c->input_batch));
  SN_TRY(sn_sm_int(s, op, "input_feature_dimension", &c->input_feature));
  SN_TRY(sn_sm_int(s, op, "kernel_input_feature_dimension", &c->kernel_input_feature));
  SN_TRY(sn_sm_int(s, op, "kernel_output_feature_dimension", &c->kernel_output_feature));
  SN_TRY(sn_sm_int(s, op, "output_batch_dimension", &c->output_batch));
  SN_TRY(sn_sm_int(s, op, "output_feature_dimension", &c->output_feature));
  SN_TRY(sn_sm_ints(s, op, "input_spatial_dimensions", false, &n[0], &c->input_spatial));
  SN_TRY(sn_sm_ints(s, op, "kernel_spatial_dimensions", false, &n[1], &c->kernel_spatial));
  SN_TRY(sn_sm_ints(s, op, "output_spatial_dimensions", false, &n[2], &c->output_spatial));
  int rank = in[0]->shape->rank;
  if (n[0] != n[1] || n[1] != n[2] || n[0] + 2 != rank || in[1]->shape->rank != rank)
    return sn_sm_fail(s, op, SN_ERR_SHAPE, "expected %d spatial dimensions of input, kernel and result, found %" PRId64 ", %" PRId64 ", %" PRId64, rank - 2, n[0], n[1], n[2]);
  c->n_spatial = (int)n[0];
  c->input_rank = c->kernel_rank = c->output_rank = rank;
  return SN_OK;
}

static sn_status conv_window(sn_sm *s, const sn_mlir_op *op, sn_instr **in, const sn_conv_dims *c, sn_window_dim *w) {
  int64_t stride[SN_MAX_RANK], padding[2 * SN_MAX_RANK], base[SN_MAX_RANK], dilation[SN_MAX_RANK], reversal[SN_MAX_RANK];
  SN_TRY(conv_list(s, op, "window_strides", c->n_spatial, 1, stride));
  SN_TRY(conv_padding(s, op, in, c->n_spatial, padding));
  SN_TRY(conv_list(s, op, "lhs_dilation", c->n_spatial, 1, base));
  SN_TRY(conv_list(s, op, "rhs_dilation", c->n_spatial, 1, dilation));
  SN_TRY(conv_list(s, op, "window_reversal", c->n_spatial, 0, reversal));
  for (int i = 0; i < c->n_spatial; i++) {
    int64_t k = c->kernel_spatial[i];
    if (k < 0 || k >= in[1]->shape->rank) return sn_sm_fail(s, op, SN_ERR_SHAPE, "kernel dimension %" PRId64 " does not exist", k);
    w[i] = (sn_window_dim){in[1]->shape->dims[k], stride[i], padding[2 * i], padding[2 * i + 1], base[i], dilation[i], reversal[i] != 0};
  }
  return SN_OK;
}

sn_status sn_sm_convolution(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_conv_dims c;
  sn_window_dim w[SN_MAX_RANK];
  sn_attr a[8];
  uint32_t n = 0;
  (void)row;
  if (in[0]->shape->type != in[1]->shape->type)
    return sn_sm_fail(s, op, SN_ERR_TYPE, "expected operands of one element type, found %s and %s", sn_type_text(in[0]->shape->type), sn_type_text(in[1]->shape->type));
  SN_TRY(conv_dims(s, op, in, &c));
  SN_TRY(conv_window(s, op, in, &c, w));
  sn_window window = {c.n_spatial, w};
  a[n++] = sn_attr_window(&window);
  a[n++] = sn_attr_conv(&c);
  a[n++] = sn_attr_int(SN_ATTR_FEATURE_GROUP_COUNT, sn_sm_int_or(op, "feature_group_count", 1));
  a[n++] = sn_attr_int(SN_ATTR_BATCH_GROUP_COUNT, sn_sm_int_or(op, "batch_group_count", 1));
  SN_TRY(precision(s, op, a, &n));
  const sn_shape *operands[2] = {in[0]->shape, in[1]->shape}, *shape = NULL;
  sn_type t = sn_mlir_storage(op->results[0].type);
  sn_infer infer = {.op = SN_OP_CONVOLUTION, .loc = op->loc, .n_operands = 2, .operands = operands, .n_attrs = n, .attrs = a, .arena = sn_sm_arena(s)};
  if (t == SN_TYPE_INVALID) return sn_sm_fail(s, op, SN_ERR_TYPE, "expected a tensor as result");
  SN_TRY(sn_infer_shape(s->d, &infer, &shape));
  shape = sn_shape_with_type(sn_sm_arena(s), shape, t);
  if (shape == NULL) return sn_sm_memory(s);
  out[0] = sn_build(&s->b, SN_OP_CONVOLUTION, shape, 2, in, n, a, 0, NULL);
  return sn_sm_built(s);
}

/* ---- linear algebra ---- */

static const char *const fft_types[] = {"FFT", "IFFT", "RFFT", "IRFFT"};
static const char *const transposes[] = {"NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"};

sn_status sn_sm_fft(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t type = 0, n = 0;
  const int64_t *length = NULL;
  (void)row;
  SN_TRY(sn_sm_enum(s, op, "fft_type", fft_types, 4, -1, &type));
  SN_TRY(sn_sm_ints(s, op, "fft_length", true, &n, &length));
  sn_attr a[2] = {sn_attr_int(SN_ATTR_FFT_TYPE, type), sn_attr_ints(SN_ATTR_FFT_LENGTH, n, length)};
  out[0] = sn_build(&s->b, SN_OP_FFT, NULL, 1, in, 2, a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_cholesky(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  sn_attr a = sn_attr_int(SN_ATTR_LOWER, sn_sm_bool(op, "lower"));
  (void)row;
  out[0] = sn_build(&s->b, SN_OP_CHOLESKY, NULL, 1, in, 1, &a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_triangular_solve(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t transpose = 0;
  (void)row;
  SN_TRY(sn_sm_enum(s, op, "transpose_a", transposes, 3, -1, &transpose));
  sn_attr a[4] = {sn_attr_int(SN_ATTR_LEFT_SIDE, sn_sm_bool(op, "left_side")), sn_attr_int(SN_ATTR_LOWER, sn_sm_bool(op, "lower")),
                  sn_attr_int(SN_ATTR_UNIT_DIAGONAL, sn_sm_bool(op, "unit_diagonal")), sn_attr_int(SN_ATTR_TRANSPOSE_A, transpose)};
  out[0] = sn_build(&s->b, SN_OP_TRIANGULAR_SOLVE, NULL, 2, in, 4, a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_batch_norm(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  const sn_mlir_attr *epsilon = sn_mlir_find(op, "epsilon");
  int64_t feature = 0;
  if (epsilon == NULL || epsilon->kind != SN_MA_FLOAT) return sn_sm_fail(s, op, SN_ERR_ATTRIBUTE, "expected a float for epsilon");
  SN_TRY(sn_sm_int(s, op, "feature_index", &feature));
  sn_attr a[2] = {sn_attr_f64(SN_ATTR_EPSILON, epsilon->f), sn_attr_int(SN_ATTR_FEATURE_INDEX, feature)};
  return sn_sm_unpack(s, op, sn_build(&s->b, row->op, NULL, op->n_operands, in, 2, a, 0, NULL), out);
}

/* ---- random numbers ---- */

static const char *const distributions[] = {"UNIFORM", "NORMAL"};
static const char *const rng_algorithms[] = {"DEFAULT", "THREE_FRY", "PHILOX"};

sn_status sn_sm_rng(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t distribution = 0, n = 0;
  const int64_t *sizes = NULL;
  const sn_shape *shape = NULL;
  (void)row;
  SN_TRY(sn_sm_enum(s, op, "rng_distribution", distributions, 2, -1, &distribution));
  if (sn_sm_is_static(op->results[0].type)) {
    SN_TRY(sn_sm_shape(s, op, op->results[0].type, &shape));
  } else {
    SN_TRY(sn_sm_fold_ints(s, op, in[2], "a shape", &n, &sizes));
    SN_TRY(sn_sm_shape_of_dims(s, op, in[0]->shape->type, n, sizes, &shape));
  }
  sn_attr a = sn_attr_int(SN_ATTR_DISTRIBUTION, distribution);
  out[0] = sn_build(&s->b, SN_OP_RNG, shape, 2, in, 1, &a, 0, NULL);
  return sn_sm_built(s);
}

sn_status sn_sm_rng_bit_generator(sn_sm *s, const sn_sm_row *row, const sn_mlir_op *op, sn_instr **in, sn_instr **out) {
  int64_t algo = 0;
  const sn_shape *v[2] = {NULL, NULL};
  (void)row;
  SN_TRY(sn_sm_enum(s, op, "rng_algorithm", rng_algorithms, 3, -1, &algo));
  for (int k = 0; k < 2; k++) SN_TRY(sn_sm_shape(s, op, op->results[k].type, &v[k]));
  const sn_shape *shape = sn_shape_tuple(sn_sm_arena(s), 2, v);
  if (shape == NULL) return sn_sm_memory(s);
  sn_attr a = sn_attr_int(SN_ATTR_RNG_ALGORITHM, algo);
  return sn_sm_unpack(s, op, sn_build(&s->b, SN_OP_RNG_BIT_GENERATOR, shape, 1, in, 1, &a, 0, NULL), out);
}
