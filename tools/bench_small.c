/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The small experiments as their peers write them: loss, gradients by differentiation, update; no metrics beside them. */
#include <string.h>

#include "bench.h"
#include "sinter/nn.h"
#include "sinter/transforms.h"

enum { MAX_FILLS = 24, MAX_WEIGHTS = 4 };

typedef struct builder {
  sn_graph *g;
  int n;
  bench_fill fills[MAX_FILLS];
} builder;

static sn_tensor parameter(builder *b, sn_type t, int rank, const int64_t *dims, const char *name, bench_fill fill) {
  sn_assert(b->n < MAX_FILLS);
  b->fills[b->n++] = fill;
  return sn_parameter(b->g, t, rank, dims, name);
}

/* square: a product with a 1024 x 1024 matrix of it keeps the size of what it multiplies (variance 1/1024). */
static const bench_fill zero = {BENCH_ZERO, 0}, unit = {BENCH_UNIFORM, 1}, small = {BENCH_UNIFORM, 0.05}, square = {BENCH_UNIFORM, 0.05413};

static sn_status finish(sn_diag *d, builder *b, sn_module **out, bench_fill **fills) {
  *out = NULL;
  *fills = sn_alloc_zero((size_t)b->n + 1, sizeof **fills);
  sn_status s = *fills ? sn_graph_finish(b->g, d, out) : sn_out_of_memory(d, sizeof **fills);
  if (s == SN_OK) memcpy(*fills, b->fills, (size_t)b->n * sizeof **fills);
  sn_graph_destroy(b->g);
  return s;
}

/* ---- updates ---------------------------------------------------------------------------------------------------------------------- */

typedef struct weights {
  int n;
  sn_tensor w[MAX_WEIGHTS], slots[MAX_WEIGHTS][2];
  const char *names[MAX_WEIGHTS];
  sn_tensor step;
} weights;

static void add_weight(builder *b, weights *w, const char *name, int rank, const int64_t *dims, bench_fill fill) {
  w->names[w->n] = name;
  w->w[w->n++] = parameter(b, SN_TYPE_F32, rank, dims, name, fill);
}

static void add_adam_state(builder *b, weights *w) {
  for (int i = 0; i < w->n; i++) {
    for (int k = 0; k < 2; k++) w->slots[i][k] = parameter(b, SN_TYPE_F32, sn_tensor_rank(w->w[i]), sn_tensor_dims(w->w[i]), k ? "v" : "m", zero);
  }
  w->step = parameter(b, SN_TYPE_S32, SN_NO_DIMS, "step", zero);
}

static void update(builder *b, weights *w, sn_optimizer_kind kind, sn_tensor loss) {
  sn_tensor grads[MAX_WEIGHTS], t = {0}, before[2];
  sn_optimizer o;
  sn_optimizer_init(&o, kind);
  o.rate = 1e-3;
  sn_grad(loss, w->n, w->w, grads);
  bool adam = kind == SN_ADAM;
  t = adam ? sn_cast(w->step, SN_TYPE_F32) : sn_scalar(b->g, SN_TYPE_F32, 0);
  sn_optimizer_scalars c = sn_optimizer_prepare(&o, t);
  for (int i = 0; i < w->n; i++) {
    memcpy(before, w->slots[i], sizeof before);
    sn_tensor now = sn_optimizer_update(&o, &c, w->w[i], grads[i], w->slots[i]);
    sn_output_aliased(b->g, now, w->names[i], w->w[i]);
    for (int k = 0; adam && k < 2; k++) sn_output_aliased(b->g, w->slots[i][k], k ? "v" : "m", before[k]);
  }
  if (adam) sn_output_aliased(b->g, sn_add(w->step, sn_scalar_like(w->step, 1)), "step", w->step);
  if (adam) sn_output(b->g, loss, "loss");
}

/* ---- the experiments ---------------------------------------------------------------------------------------------------------------- */

static sn_status build_scalar(sn_diag *d, int64_t batch, sn_module **out, bench_fill **fills) {
  builder b = {0};
  (void)batch;
  SN_TRY(sn_graph_create("scalar", &b.g));
  sn_tensor x = parameter(&b, SN_TYPE_F32, SN_NO_DIMS, "x", unit);
  sn_output(b.g, sn_add(x, sn_scalar_like(x, 1)), "y");
  return finish(d, &b, out, fills);
}

/* So many products in a row, each of the result before it. */
static sn_status build_matmul(sn_diag *d, int64_t n, sn_module **out, bench_fill **fills) {
  builder b = {0};
  SN_TRY(sn_graph_create("matmul", &b.g));
  sn_tensor x = parameter(&b, SN_TYPE_F32, SN_DIMS(1024, 1024), "x", unit);
  sn_tensor y = parameter(&b, SN_TYPE_F32, SN_DIMS(1024, 1024), "y", square);
  for (int64_t i = 0; i < n; i++) x = sn_matmul(x, y);
  sn_output(b.g, x, "z");
  return finish(d, &b, out, fills);
}

static sn_tensor affine(sn_tensor x, sn_tensor w, sn_tensor bias) { return sn_add(sn_matmul(x, w), bias); }

static sn_status build_regression(sn_diag *d, int64_t batch, sn_module **out, bench_fill **fills) {
  builder b = {0};
  weights w = {0};
  SN_TRY(sn_graph_create("linear_regression", &b.g));
  add_weight(&b, &w, "w", SN_DIMS(100, 10), small);
  add_weight(&b, &w, "b", SN_DIMS(10), zero);
  sn_tensor x = parameter(&b, SN_TYPE_F32, SN_DIMS(batch, 100), "x", unit), y = parameter(&b, SN_TYPE_F32, SN_DIMS(batch, 10), "y", unit);
  update(&b, &w, SN_SGD, sn_mse(affine(x, w.w[0], w.w[1]), y));
  return finish(d, &b, out, fills);
}

static sn_status build_linear(sn_diag *d, int64_t batch, sn_module **out, bench_fill **fills) {
  builder b = {0};
  weights w = {0};
  SN_TRY(sn_graph_create("linear", &b.g));
  add_weight(&b, &w, "w", SN_DIMS(100, 10), small);
  add_weight(&b, &w, "b", SN_DIMS(10), zero);
  add_adam_state(&b, &w);
  sn_tensor x = parameter(&b, SN_TYPE_F32, SN_DIMS(batch, 100), "x", unit), y = parameter(&b, SN_TYPE_S32, SN_DIMS(batch), "y", (bench_fill){BENCH_BELOW, 10});
  update(&b, &w, SN_ADAM, sn_cross_entropy(affine(x, w.w[0], w.w[1]), y, 0));
  return finish(d, &b, out, fills);
}

static sn_status build_mlp(sn_diag *d, int64_t batch, sn_module **out, bench_fill **fills) {
  builder b = {0};
  weights w = {0};
  SN_TRY(sn_graph_create("mlp", &b.g));
  add_weight(&b, &w, "w1", SN_DIMS(784, 256), small);
  add_weight(&b, &w, "b1", SN_DIMS(256), zero);
  add_weight(&b, &w, "w2", SN_DIMS(256, 10), small);
  add_weight(&b, &w, "b2", SN_DIMS(10), zero);
  add_adam_state(&b, &w);
  sn_tensor x = parameter(&b, SN_TYPE_F32, SN_DIMS(batch, 784), "x", unit), y = parameter(&b, SN_TYPE_F32, SN_DIMS(batch, 10), "y", unit);
  sn_tensor hidden = sn_relu(affine(x, w.w[0], w.w[1]));
  update(&b, &w, SN_ADAM, sn_mse(affine(hidden, w.w[2], w.w[3]), y));
  return finish(d, &b, out, fills);
}

static const bench_small rows[] = {
    {"scalar", 1, build_scalar}, {"linear-regression", 32, build_regression}, {"linear", 32, build_linear}, {"mlp", 64, build_mlp}, {"matmul", 100, build_matmul},
};

const bench_small *bench_small_find(const char *name) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  return NULL;
}
