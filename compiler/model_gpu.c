/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The modelled step as a table: a row a launch of each kernel, with its resources from the cubin; see gpu/model.c. */
#include "compile_internal.h"

#include "sinter/gpu.h"

#include <stdlib.h>
#include <string.h>

/* Shares of the tensor cores' peak at which the sum stands beside the table: 0 is gpu_rates.def's. */
static const double shares[] = {0, 0.65, 0.75};

enum { N_SHARES = sizeof shares / sizeof shares[0] };

typedef struct row {
  const sn_gpu_phase *phase;
  sn_gpu_work work;
  int64_t times;
  double us[N_SHARES];
  const char *bound;
} row;

static int longest_first(const void *a, const void *b) {
  const row *x = a, *y = b;
  double p = x->us[0] * (double)x->times, q = y->us[0] * (double)y->times;
  return p > q ? -1 : p < q ? 1 : strcmp(x->phase->entry, y->phase->entry);
}

static int64_t times_run(const compile *c, uint32_t kernel) {
  int64_t n = 0;
  for (uint32_t i = 0; i < c->n_commands; i++) n += (c->commands[i].kind == SN_COMMAND_KERNEL || c->commands[i].kind == SN_COMMAND_LIBRARY) && c->commands[i].kernel == kernel;
  return n;
}

static sn_status fill(compile *c, sn_gpu_kernel *const *all, row *rows, int n) {
  int at = 0;
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    for (int f = 0; f < all[i]->n_phases; f++, at++) {
      row *r = &rows[at];
      if (sn_gpu_phase_work(c->arena, &c->target, c->kernels[i], &all[i]->phases[f], &r->work) != SN_OK) return sn_out_of_memory(c->d, sizeof *r);
      r->phase = &all[i]->phases[f];
      r->times = times_run(c, i);
      for (int s = N_SHARES - 1; s >= 0; s--) r->us[s] = sn_gpu_phase_us(&c->target, &r->work, r->phase, shares[s], &r->bound);
    }
  }
  qsort(rows, (size_t)n, sizeof *rows, longest_first);
  return SN_OK;
}

static void print_row(sn_str *to, const compile *c, const row *r) {
  const sn_gpu_phase *p = r->phase;
  char tile[24] = "";
  if (r->work.products > 0) snprintf(tile, sizeof tile, "%dx%d%s", r->work.rows, r->work.columns, !r->work.tensor ? "" : r->work.operand_bytes == 2 ? " half" : " tf32");
  int cores = c->target.cores > 0 ? c->target.cores : 100;
  sn_str_printf(to, "%-28.28s %5lld %9.2f %9.1f %9.1f  %-13s %8lld %5.2f %4d %5d %7lld %3d %9.1f %9.1f  %s\n", p->entry, (long long)r->times, (r->work.products + r->work.ops) * 1e-9,
                r->work.bytes * 1e-6, r->work.moved * 1e-6, tile, (long long)r->work.items, (double)r->work.items / cores, p->registers, p->spill_bytes,
                (long long)(p->shared_bytes + (p->static_shared_bytes > 0 ? p->static_shared_bytes : 0)), p->resident, r->us[0], r->us[0] * (double)r->times, r->bound);
}

sn_status sn_compile_model_gpu(compile *c, sn_gpu_kernel *const *all, char **out) {
  int n = 0;
  for (uint32_t i = 0; i < c->n_kernels; i++) n += all[i]->n_phases;
  row *rows = SN_NEW_N(c->arena, row, n + 1);
  if (!rows) return sn_out_of_memory(c->d, (size_t)n * sizeof *rows);
  SN_TRY(fill(c, all, rows, n));
  sn_str s = {0};
  double products = 0, bytes = 0, sums[N_SHARES] = {0};
  int64_t launches = 0;
  sn_str_printf(&s, "modelled, not measured: %s, %d multiprocessors, %.1f TFLOP/s tf32, %.1f TFLOP/s f32, %.0f GB/s\n", c->target.name, c->target.cores, c->target.tensor_tflops,
                c->target.fma_gflops * 1e-3, c->target.memory_gbs);
  sn_str_printf(&s, "%-28s %5s %9s %9s %9s  %-13s %8s %5s %4s %5s %7s %3s %9s %9s  %s\n", "launch", "times", "GFLOP", "MB", "L2 MB", "tile", "blocks", "waves", "regs", "spill", "shared", "res", "us",
                "us in all", "bound by");
  for (int i = 0; i < n; i++) {
    const row *r = &rows[i];
    print_row(&s, c, r);
    launches += r->times;
    products += (double)r->times * r->work.products;
    bytes += (double)r->times * r->work.bytes;
    for (int k = 0; k < N_SHARES; k++) sums[k] += (double)r->times * r->us[k];
  }
  sn_str_printf(&s, "%lld launches, %.3f TFLOP of products, %.2f GB: %.2f ms; with mma.sync at 65 %% of the tensor cores' peak %.2f ms, at 75 %% %.2f ms\n", (long long)launches, products * 1e-12,
                bytes * 1e-9, sums[0] * 1e-3, sums[1] * 1e-3, sums[2] * 1e-3);
  *out = sn_compile_take_text(&s);
  return SN_OK;
}
