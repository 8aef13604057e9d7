/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Cases of random shapes and attributes: each family of ops draws its own from a seed. */
#ifndef SINTER_TEST_TRANSFORMS_RANDOM_CASE_H
#define SINTER_TEST_TRANSFORMS_RANDOM_CASE_H

#include "harness.h"

enum { MOST_DIM = 4 };

typedef struct random_case {
  grad_case c;       /* fn gets the random_case as its ctx */
  char name[96];     /* family and seed: what a failure shows */
  uint64_t seed;
  sn_opcode op;
  int n_axes, n_batch, n_contracting;
  int64_t axes[8], more[8], low[8], high[8], step[8], spread[8]; /* as the family likes */
  int32_t indices[16];
  bool flag, other;
} random_case;

typedef struct random_family {
  const char *name;
  void (*make)(random_case *r); /* fills c.fn, c.n, c.in, c.skip and what fn needs */
} random_family;

int64_t draw_int(random_case *r, int64_t lo, int64_t hi);
void draw_dims(random_case *r, in_spec *s, int least_rank, int most_rank);
void draw_permutation(random_case *r, int n, int64_t *p);
/* A subset of [0, rank), sorted, at least `least` of them; returns how many. */
int draw_subset(random_case *r, int rank, int least, int64_t *out);

/* `n` seeds of each family as tests of one case. */
void run_family(const random_family *f, int seed);

#define RANDOM(name) static void name(void *ctx, sn_graph *g, int n, const sn_tensor *in, int n_out, sn_tensor *out)
#define CASE const random_case *r = ctx; (void)r, (void)g, (void)n, (void)in, (void)n_out

#endif
