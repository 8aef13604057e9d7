/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tile and split of a product by wave quantisation. Blocks are dealt to multiprocessors evenly: the one with most of them decides, so a tile that fills the last wave badly
 * loses to a smaller one, or to sums cut along k. A tile's operands come through L2, the matrices through memory once. */
#include "sinter/gpu_cost.h"

#include <string.h>

#include "sinter/cost.h"

enum { LEAST_SPLIT = 256, MOST_SPLITS = 16 };

typedef struct gpu_tile {
  int rows, columns, resident;
  double tensor, fma;
} gpu_tile;

static const gpu_tile tiles[] = {
#define SN_GPU_TILE(rows, columns, resident, tensor, fma) {rows, columns, resident, tensor, fma},
#include "sinter/gpu_rates.def"
#undef SN_GPU_TILE
};

static const struct { double tensor, fma; } reads_of =
#define SN_GPU_READS(tensor, fma) {tensor, fma};
#include "sinter/gpu_rates.def"
#undef SN_GPU_READS

typedef struct gpu_rate {
  const char *target;
  double mma;
} gpu_rate;

static const gpu_rate rates[] = {
#define SN_GPU_RATE(target, mma) {target, mma},
#include "sinter/gpu_rates.def"
#undef SN_GPU_RATE
};

typedef struct gpu_library {
  const char *target;
  double share, read;
} gpu_library;

static const gpu_library libraries[] = {
#define SN_GPU_LIBRARY(target, share, read) {target, share, read},
#include "sinter/gpu_rates.def"
#undef SN_GPU_LIBRARY
};

/* A block begins with nothing in its tiles and ends by storing them; other blocks of the multiprocessor work meanwhile, if it holds any. */
static const double BLOCK_US = 1.0;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

static const gpu_rate *rate_of(const sn_target *t) {
  for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
    if (t->name && strcmp(t->name, rates[i].target) == 0) return &rates[i];
  }
  return &rates[0];
}

/* Data sheets: dense bf16 and f16 at twice tf32's rate on each of the targets. */
double sn_gpu_tensor_rate(const sn_target *t, double share, int operand_bytes) {
  return (t->tensor_tflops > 0 ? t->tensor_tflops : 100) * 1e6 * (share > 0 ? share : rate_of(t)->mma) * (operand_bytes == 2 ? 2 : 1);
}

double sn_gpu_cache_rate(const sn_target *t) { return (t->l2_gbs > 0 ? t->l2_gbs : 4000) * 1e3; }

/* A multiprocessor takes 64 bytes a cycle from L2; all of them together get about half of that each. */
double sn_gpu_block_rate(const sn_target *t) { return 2 * sn_gpu_cache_rate(t) / (t->cores > 0 ? t->cores : 100); }

/* Of a tile that is not in the list: by what must be read of shared memory. 2 x 4 warps multiply pieces of 16 x 8 by 8 x 8; 16 x 16 threads rows by columns. */
static double other_share(bool tensor, int rows, int columns) {
  double r = rows, c = columns, reads = tensor ? (r / 32 * 4 + c / 32 * 2) / (r / 32 * (c / 32)) : (r / 16 + c / 16) / (r / 16 * (c / 16));
  double share = (tensor ? reads_of.tensor : reads_of.fma) / reads, most = tensor ? 0.93 : 0.80;
  return share < most ? share : most;
}

double sn_gpu_tile_share(bool tensor, int rows, int columns) {
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    if (tiles[i].rows == rows && tiles[i].columns == columns) return tensor || tiles[i].fma == 0 ? tiles[i].tensor : tiles[i].fma;
  }
  return other_share(tensor, rows, columns);
}

static double peak(const sn_target *t, const sn_gpu_problem *p, double share) { /* operations a microsecond */
  double fma = (t->fma_gflops > 0 ? t->fma_gflops : 10000) * 1e3;
  if (p->tensor && t->tensor_tflops > 0) return sn_gpu_tensor_rate(t, share, p->operand_bytes);
  return p->wide ? fma / 2 : fma;
}

/* library NULL: our template. */
static void cost(const sn_target *t, const sn_gpu_problem *p, const gpu_tile *tile, int64_t n_splits, const gpu_library *library, sn_gpu_product_schedule *s) {
  int64_t cores = t->cores > 0 ? t->cores : 100;
  double each = p->wide ? 8 : 4, operand = p->operand_bytes ? p->operand_bytes : each, share = p->tensor ? tile->tensor : tile->fma, rate = t->memory_gbs > 0 ? t->memory_gbs * 1e3 : 1e6;
  memset(s, 0, sizeof *s);
  s->rows = tile->rows;
  s->columns = tile->columns;
  s->resident = tile->resident;
  s->split = ceil_div(ceil_div(p->k, n_splits), p->terms) * p->terms;
  s->n_splits = ceil_div(p->k, s->split);
  s->blocks = p->batch * ceil_div(p->m, tile->rows) * ceil_div(p->n, tile->columns) * s->n_splits;
  s->waves = ceil_div(s->blocks, cores);
  double useful = (double)p->batch * (double)p->m * (double)p->n, area = (double)tile->rows * (double)tile->columns, result = useful * each;
  s->fill = useful * (double)s->n_splits / ((double)(s->waves * cores) * area);
  s->maths_us = (double)s->waves * 2 * area * (double)s->split / (peak(t, p, library ? library->share : 0) * share / (double)cores) + BLOCK_US * (double)ceil_div(s->waves, tile->resident);
  s->cache_us = (double)s->blocks * (double)s->split * (tile->rows + tile->columns) * operand / sn_gpu_cache_rate(t) * (library ? library->read : 1);
  s->memory_us = ((double)p->batch * (double)p->k * (double)(p->m + p->n) * operand + result) / (rate * sn_heroes[SN_HERO_PRODUCT].memory);
  double longest = s->maths_us > s->cache_us ? s->maths_us : s->cache_us;
  s->us = longest > s->memory_us ? longest : s->memory_us;
  /* The splits' sums are written; the last block of a tile reads them again, mostly from L2, and nobody else has work then. */
  double sums = (double)s->n_splits * result, tiles_each = (double)ceil_div(s->blocks / s->n_splits, cores);
  if (s->n_splits > 1) s->us += sums / sn_gpu_cache_rate(t) + tiles_each * (double)s->n_splits * area * each / sn_gpu_block_rate(t);
}

static int64_t most_splits(const sn_gpu_problem *p) {
  int64_t most = p->k / LEAST_SPLIT;
  return most < 1 ? 1 : most > MOST_SPLITS ? MOST_SPLITS : most;
}

static bool applies(const sn_gpu_problem *p, const gpu_tile *tile) {
  /* f64 sums take two registers each. */
  return p->tensor || (tile->fma > 0 && (!p->wide || tile->rows * tile->columns <= 64 * 64));
}

static void choose(const sn_target *t, const sn_gpu_problem *p, const gpu_library *library, sn_gpu_product_schedule *out) {
  sn_gpu_product_schedule one;
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    if (!applies(p, &tiles[i])) continue;
    for (int64_t n = 1; n <= most_splits(p); n++) {
      cost(t, p, &tiles[i], n, library, &one);
      if (out->rows == 0 || one.us < out->us) *out = one;
    }
  }
}

void sn_gpu_choose_product(const sn_target *t, const sn_gpu_problem *p, sn_gpu_product_schedule *out) { choose(t, p, NULL, out); }

bool sn_gpu_cost_product(const sn_target *t, const sn_gpu_problem *p, int rows, int columns, int64_t n_splits, sn_gpu_product_schedule *out) {
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) {
    if (tiles[i].rows != rows || tiles[i].columns != columns || !applies(p, &tiles[i])) continue;
    cost(t, p, &tiles[i], n_splits, NULL, out);
    return true;
  }
  return false;
}

double sn_gpu_library_us(const sn_target *t, const sn_gpu_problem *p) {
  sn_gpu_product_schedule s;
  const gpu_library *l = &libraries[0];
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    if (t->name && strcmp(t->name, libraries[i].target) == 0) l = &libraries[i];
  }
  choose(t, p, l, &s);
  return s.us;
}
