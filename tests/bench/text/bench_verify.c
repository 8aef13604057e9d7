/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Verifying is linear: twice the instructions may take at most 2.3 times as long. Layers of a
 * residual network, as many as asked for, in one entry computation and as many functions beside it.
 * Best of several runs: the machine may be busy with something else. */
#include <stdio.h>

#include "sinter/text.h"

/* Up to 32,000 instructions: what fits no cache costs more each, by the memory. */
#define N_RUNS       7
#define FIRST_LAYERS 500
#define N_DOUBLINGS  3
#define RATIO_TARGET 2.3

static void write_network(sn_str *out, int layers) {
  sn_str_add(out, "HloModule network\n\n");
  for (int l = 0; l < layers; l++) {
    sn_str_printf(out,
                  "f%d {\n  a%d = f32[] parameter(0)\n  b%d = f32[] parameter(1)\n  ROOT s%d = "
                  "f32[] add(a%d, b%d)\n}\n\n",
                  l, l, l, l, l, l);
  }
  sn_str_add(out,
             "ENTRY main {\n  x0 = f32[8,16] parameter(0)\n  w = f32[16,16] parameter(1)\n  zero = "
             "f32[] constant(0)\n");
  for (int l = 0; l < layers; l++) {
    sn_str_printf(
        out, "  p%d = f32[8,16] dot(x%d, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n",
        l, l);
    sn_str_printf(out, "  r%d = f32[8] reduce(p%d, zero), dimensions={1}, to_apply=f%d\n", l, l, l);
    sn_str_printf(out,
                  "  c%d = f32[8,16] broadcast(r%d), dimensions={0}\n  t%d = f32[8,16] tanh(c%d)\n",
                  l, l, l, l);
    sn_str_printf(out, "  %sx%d = f32[8,16] add(x%d, t%d)\n", l == layers - 1 ? "ROOT " : "", l + 1,
                  l, l);
  }
  sn_str_add(out, "}\n");
}

/* Seconds of the best run; negative when the network does not pass. */
static double time_verify(int layers, uint32_t *n_instructions) {
  sn_str text = {0};
  sn_module *m = NULL;
  double best = -1;
  write_network(&text, layers);
  if (!text.failed && sn_hlo_parse(NULL, "network.hlo", text.data, text.n, &m) == SN_OK) {
    for (int i = 0; i < N_RUNS; i++) {
      double t0 = sn_time();
      if (sn_module_verify(NULL, m, 0) != SN_OK) {
        best = -1;
        break;
      }
      double t = sn_time() - t0;
      if (best < 0 || t < best) best = t;
    }
  }
  *n_instructions = (uint32_t)layers * 8u + 3u;
  sn_module_destroy(m);
  sn_str_finish(&text);
  return best;
}

int main(void) {
  double before = 0, worst = 0;
  for (int k = 0; k <= N_DOUBLINGS; k++) {
    uint32_t n;
    double t = time_verify(FIRST_LAYERS << k, &n);
    if (t < 0) {
      fprintf(stderr, "the network of %d layers does not verify\n", FIRST_LAYERS << k);
      return 1;
    }
    printf("%7u instructions: %8.3f ms, %5.1f ns each", n, t * 1e3, t * 1e9 / n);
    if (k > 0) printf(", %.2fx", t / before);
    printf("\n");
    if (k > 0 && t / before > worst) worst = t / before;
    before = t;
  }
  printf("worst doubling %.2fx (target %.1fx)\n", worst, RATIO_TARGET);
  return worst <= RATIO_TARGET ? 0 : 1;
}
