/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <math.h>
#include <stdlib.h>

#include "harness.h"

#define BATCH 3

static void check_batch_subset(const grad_case *c, unsigned subset, sn_fn fn, void *ctx) {
  uint64_t seed = 77;
  sn_graph *g;
  sn_tensor x[MAX_IN], mapped, rows[BATCH];
  int64_t axes[MAX_IN];
  double *args[MAX_IN] = {NULL}, *out[2];
  ck_assert_int_eq(sn_graph_create(c->name, &g), SN_OK);
  for (int k = 0; k < c->n; k++) {
    in_spec s = c->in[k];
    bool batched = (subset >> k) & 1;
    axes[k] = batched ? s.rank ? 1 : 0 : SN_UNBATCHED;
    if (batched) { /* along axis 1 where there is one */
      for (int j = s.rank; j > axes[k]; j--) s.dims[j] = s.dims[j - 1];
      s.dims[axes[k]] = BATCH;
      s.rank++;
    }
    x[k] = sn_parameter(g, SN_TYPE_F64, s.rank, s.dims, NULL);
    args[k] = draw(&s, &seed);
  }
  sn_vmap(g, fn, ctx, c->n, x, axes, 1, NULL, &mapped);
  for (int r = 0; r < BATCH; r++) {
    sn_tensor one[MAX_IN];
    for (int k = 0; k < c->n; k++) one[k] = axes[k] == SN_UNBATCHED ? x[k] : sn_index(x[k], (int)axes[k], r);
    fn(ctx, g, c->n, one, 1, &rows[r]);
  }
  sn_output(g, mapped, "mapped");
  sn_output(g, sn_stack(BATCH, rows, 0), "loop");
  int64_t n = sn_tensor_elements(mapped);
  sn_module *m = finish(g, c->name);
  run_f64(m, c->n, args, 2, out);
  for (int64_t j = 0; j < n; j++) {
    double tol = 1e-10 * fmax(1, fabs(out[1][j])); /* sums may be taken in another order */
    ck_assert_msg(fabs(out[0][j] - out[1][j]) <= tol, "%s (subset %u): element %lld: vmap %.15g, loop %.15g", c->name,
                  subset, (long long)j, out[0][j], out[1][j]);
  }
  for (int k = 0; k < c->n; k++) free(args[k]);
  free(out[0]), free(out[1]);
  sn_module_destroy(m);
}

void check_batching_with(const grad_case *c, void *ctx, unsigned subset) {
  if (!(c->skip & SKIP_BATCH)) check_batch_subset(c, subset, c->fn, ctx);
}

void check_batching(const grad_case *c) {
  if ((c->skip & SKIP_BATCH) || !case_wanted(c)) return;
  for (unsigned subset = 1; subset < 1u << c->n; subset++) check_batch_subset(c, subset, c->fn, NULL);
  if (c->skip & (SKIP_SECOND | SKIP_REVERSE)) return;
  under_test u = {c->fn, NULL};
  check_batch_subset(c, (1u << c->n) - 1, gradient_of, &u);
}
