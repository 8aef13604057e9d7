/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivatives checked in f64 on the interpreter, batching checked against a loop. */
#ifndef SINTER_TEST_TRANSFORMS_HARNESS_H
#define SINTER_TEST_TRANSFORMS_HARNESS_H

#include <check.h>

#include "sinter/eval.h"
#include "sinter/transforms.h"

#define MAX_IN 6
#define MAX_TEST_RANK 5

typedef struct in_spec {
  int rank;
  int64_t dims[MAX_TEST_RANK];
  double lo, hi; /* values are drawn from here; both 0: [-1, 1] */
} in_spec;

typedef struct grad_case {
  const char *name;
  sn_fn fn; /* n f64 tensors -> one f64 tensor */
  int n;
  in_spec in[MAX_IN];
  int skip; /* SKIP_… */
} grad_case;

enum { SKIP_REVERSE = 1, SKIP_FORWARD = 2, SKIP_SECOND = 4, SKIP_BATCH = 8 };

/* Runs a module on f64 arguments; results are flat copies in `out` (caller frees each). */
void run_f64(const sn_module *m, int n, double *const *args, int n_out, double **out);
double *draw(const in_spec *s, uint64_t *seed);
int64_t count_of(const in_spec *s);

/* A whole number in [lo, hi]; a real one in [0, 1). */
int64_t pick(uint64_t *seed, int64_t lo, int64_t hi);
double uniform(uint64_t *seed);

/* Has a module of any case held the op? */
bool op_was_seen(sn_opcode op);

bool case_wanted(const grad_case *c);
/* Forward against central differences, <Jv, w> against <v, J'w>, and (unless skipped) the same for the gradient
 * function itself. */
void check_gradients(const grad_case *c);
void check_gradients_with(const grad_case *c, void *ctx, uint64_t seed);
/* vmap along axis 0 of any subset of the inputs against the function on each slice. */
void check_batching(const grad_case *c);
void check_batching_with(const grad_case *c, void *ctx, unsigned subset);
/* A function and its context; gradient_of(that) is a scalar made of its gradients, so that derivatives of derivatives
 * can be checked. */
typedef struct under_test {
  sn_fn fn;
  void *ctx;
} under_test;
void gradient_of(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out);
sn_module *finish(sn_graph *g, const char *name); /* must succeed; the graph goes */
/* The sticky error of a graph must be `status`, its message contain `text`, at this file's `line`. */
void check_error(sn_graph *g, sn_status status, const char *text);

#define FN(name) static void name(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out)
#define UNUSED (void)ctx, (void)g, (void)n, (void)in, (void)n_out

#endif
