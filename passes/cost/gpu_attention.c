/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How attention is cut for a CUDA target: a function of problem and target alone.
 *
 * Of the cuts that fit shared memory and registers the one that is taken to be the fastest. Padding counts (tiles are of 32 rows and keys), how evenly items fill the
 * multiprocessors, what tensor cores must wait for shared memory (sn_gpu_tile_share), and what comes through L2 again and again. */
#include <string.h>

#include "sinter/cost.h"
#include "sinter/gpu_cost.h"

enum { PAD = 12, MOST_SUMS = 112 /* registers of a thread that sums may take for the whole item */, FEWER_SUMS = 96 /* where k and v are fetched meanwhile */, MOST_SCORES = 64, RESERVE = 1024 + 16 * 256, THREADS = 256 };

/* A block of rows waits for its queries and meets some ten times. */
static const double BLOCK_US = 1.0;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* Bytes of tiles of so many rows, as wide as a head. */
static int64_t tile(const sn_gpu_attention_problem *p, int64_t rows) { return 4 * rows * (round_up(max64(p->d_qk, p->d_v), 32) + PAD); }
static int64_t score_tile(int64_t rows, int64_t keys) { return 4 * rows * (keys + PAD); }

static int64_t shared_bytes(const sn_gpu_attention_problem *p, const sn_gpu_attention_schedule *s) {
  int64_t fixed = 2 * 4 * 4 * s->rows; /* a few values a row */
  if (p->backward) return fixed + tile(p, s->keys) * (s->by_turns ? 1 : 2) + (2 + s->with_dq) * tile(p, s->rows) + 2 * score_tile(s->rows, s->keys);
  /* One block of rows, all keys: v takes the place of k. */
  int64_t kv = s->by_turns ? tile(p, s->keys) : 2 * tile(p, s->keys);
  return fixed + kv + (s->by_turns ? 1 : 2) * tile(p, s->rows) + score_tile(s->rows, s->keys);
}

static int64_t sums(int64_t rows, int64_t columns) { return rows * columns / THREADS; }

static bool fits(const sn_target *t, const sn_gpu_attention_problem *p, const sn_gpu_attention_schedule *s) {
  int64_t d = round_up(max64(p->d_qk, p->d_v), 32);
  if (sums(s->rows, s->keys) > MOST_SCORES || sums(s->rows, d) > MOST_SCORES) return false;
  if (p->backward && sums(s->keys, round_up(p->d_qk, 32)) + sums(s->keys, round_up(p->d_v, 32)) > (s->by_turns ? FEWER_SUMS : MOST_SUMS)) return false;
  return s->shared <= (t->l1_bytes ? t->l1_bytes : 48 << 10) - RESERVE;
}

/* Microseconds of one product of a block on its multiprocessor. */
static double product_us(const sn_target *t, const sn_gpu_attention_problem *p, int64_t m, int64_t n, int64_t k) {
  double cores = t->cores > 0 ? t->cores : 100, rate = p->tensor && t->tensor_tflops > 0 ? sn_gpu_tensor_rate(t, 0, 4) : (t->fma_gflops > 0 ? t->fma_gflops : 10000) * 1e3;
  return 2.0 * (double)m * (double)n * (double)k * cores / (rate * sn_gpu_tile_share(p->tensor, (int)m, (int)n));
}

/* All products of a block of rows with a tile of keys, and elements that it reads through L2. */
static double block_us(const sn_target *t, const sn_gpu_attention_problem *p, const sn_gpu_attention_schedule *s, bool scores_again) {
  int64_t r = s->rows, c = s->keys, dq = round_up(p->d_qk, 32), dv = round_up(p->d_v, 32);
  double scores = product_us(t, p, r, c, round_up(p->d_qk, 8)), dp = p->backward ? product_us(t, p, r, c, round_up(p->d_v, 8)) : 0;
  double us = scores + dp + (scores_again ? scores + dp : 0);
  if (!p->backward) return us + product_us(t, p, r, dv, c);
  if (s->two_phases) us += scores + dp;
  return us + product_us(t, p, c, dv, r) + product_us(t, p, c, dq, r) + product_us(t, p, r, dq, c);
}

static void cost(const sn_target *t, const sn_gpu_attention_problem *p, sn_gpu_attention_schedule *s) {
  double cores = t->cores > 0 ? t->cores : 100;
  int64_t blocks = ceil_div(p->n_q, s->rows), items = p->batch * (p->backward ? 1 : ceil_div(blocks, s->group)), each = p->backward ? blocks * s->n_tiles : s->group * s->n_tiles;
  bool again = s->n_tiles > 1;
  double loads = s->resident ? (double)items : (double)p->batch * (double)blocks * (again ? 2 : 1);
  double bytes = 4 * (loads * (double)(s->keys * s->n_tiles) * (double)(p->d_qk + p->d_v) + (double)(p->batch * p->n_q) * (double)(p->d_qk + p->d_v) * (p->backward ? 2 : 1));
  double waves = (double)ceil_div(items, (int64_t)cores), maths = waves * (double)each * (block_us(t, p, s, again) + BLOCK_US);
  double cache = bytes / sn_gpu_cache_rate(t);
  s->us = maths > cache ? maths : cache;
}

static void consider(const sn_target *t, const sn_gpu_attention_problem *p, sn_gpu_attention_schedule s, sn_gpu_attention_schedule *best) {
  s.shared = shared_bytes(p, &s);
  if (!fits(t, p, &s)) return;
  cost(t, p, &s);
  if (best->rows == 0 || s.us < best->us) *best = s;
}

static void consider_forward(const sn_target *t, const sn_gpu_attention_problem *p, int64_t rows, sn_gpu_attention_schedule *best) {
  int64_t blocks = ceil_div(p->n_q, rows), all = round_up(p->n_k, 32);
  for (int64_t parts = 1; parts <= blocks; parts++) {
    int64_t group = ceil_div(blocks, parts);
    if (group > 1) consider(t, p, (sn_gpu_attention_schedule){.rows = rows, .keys = all, .n_tiles = 1, .group = group, .resident = true}, best);
  }
  consider(t, p, (sn_gpu_attention_schedule){.rows = rows, .keys = all, .n_tiles = 1, .group = 1, .by_turns = true}, best);
  for (int64_t n = 2; n <= all / 32; n++) {
    int64_t keys = round_up(ceil_div(p->n_k, n), 32);
    consider(t, p, (sn_gpu_attention_schedule){.rows = rows, .keys = keys, .n_tiles = ceil_div(p->n_k, keys), .group = 1}, best);
  }
}

static void consider_backward(const sn_target *t, const sn_gpu_attention_problem *p, int64_t rows, sn_gpu_attention_schedule *best) {
  int64_t blocks = ceil_div(p->n_q, rows), all = round_up(p->n_k, 32);
  consider(t, p, (sn_gpu_attention_schedule){.rows = rows, .keys = all, .n_tiles = 1, .group = blocks, .resident = true, .with_dq = true}, best);
  if (p->d_qk == p->d_v) consider(t, p, (sn_gpu_attention_schedule){.rows = rows, .keys = all, .n_tiles = 1, .group = blocks, .by_turns = true, .with_dq = true}, best);
  for (int64_t n = 1; n <= all / 32; n++) {
    int64_t keys = round_up(ceil_div(p->n_k, n), 32);
    consider(t, p, (sn_gpu_attention_schedule){.rows = rows, .keys = keys, .n_tiles = ceil_div(p->n_k, keys), .group = 1, .two_phases = true}, best);
  }
}

bool sn_gpu_choose_attention(const sn_target *t, const sn_gpu_attention_problem *p, sn_gpu_attention_schedule *out) {
  memset(out, 0, sizeof *out);
  for (int64_t rows = 32; rows <= 64; rows += 32) {
    if (p->backward) consider_backward(t, p, rows, out);
    else consider_forward(t, p, rows, out);
  }
  return out->rows > 0;
}

double sn_gpu_eager_attention_us(const sn_target *t, const sn_gpu_attention_problem *p) {
  /* Products with what they read and write; and arrays of the scores' size that softmax and its derivative read and write. */
  double passes = p->backward ? 3 : 2, launches = p->backward ? 5 : 3, rate = (t->memory_gbs > 0 ? t->memory_gbs : 1000) * 1e3 * sn_heroes[SN_HERO_ROWS].memory, us = 0;
  struct { int64_t m, n, k; int count; } products[] = {{p->n_q, p->n_k, p->d_qk, 1}, {p->n_q, p->d_v, p->n_k, 1}, {p->n_q, p->n_k, p->d_v, 1}, {p->n_q, p->d_qk, p->n_k, 1}, {p->n_k, p->d_qk, p->n_q, 2}};
  for (int k = p->backward ? 2 : 0; k < (p->backward ? 5 : 2); k++) {
    sn_gpu_problem q = {.batch = p->batch, .m = products[k].m, .n = products[k].n, .k = products[k].k, .tensor = p->tensor, .terms = 16};
    sn_gpu_product_schedule s;
    sn_gpu_choose_product(t, &q, &s);
    us += s.us * products[k].count;
  }
  return us + passes * 4 * (double)p->batch * (double)p->n_q * (double)p->n_k / rate + launches * (t->launch_us > 0 ? t->launch_us : 2.5);
}
