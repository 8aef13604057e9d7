/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "random_case.h"

#include <string.h>

int64_t draw_int(random_case *r, int64_t lo, int64_t hi) { return pick(&r->seed, lo, hi); }

void draw_dims(random_case *r, in_spec *s, int least_rank, int most_rank) {
  s->rank = (int)draw_int(r, least_rank, most_rank);
  for (int k = 0; k < s->rank; k++) s->dims[k] = draw_int(r, 1, MOST_DIM);
}

void draw_permutation(random_case *r, int n, int64_t *p) {
  for (int k = 0; k < n; k++) {
    int64_t at = draw_int(r, 0, k);
    p[k] = p[at];
    p[at] = k;
  }
}

int draw_subset(random_case *r, int rank, int least, int64_t *out) {
  for (;;) {
    int n = 0;
    for (int k = 0; k < rank; k++)
      if (draw_int(r, 0, 1)) out[n++] = k;
    if (n >= least) return n;
  }
}

void run_family(const random_family *f, int seed) {
  random_case r = {.seed = (uint64_t)seed * 7919 + 1};
  for (const char *p = f->name; *p; p++) r.seed = r.seed * 131 + (uint64_t)*p;
  snprintf(r.name, sizeof r.name, "%s, seed %d", f->name, seed);
  f->make(&r);
  r.c.name = r.name;
  check_gradients_with(&r.c, &r, r.seed);
  check_batching_with(&r.c, &r, (unsigned)draw_int(&r, 1, (1 << r.c.n) - 1));
}
