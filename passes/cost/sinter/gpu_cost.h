/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The model of products on CUDA targets: how many blocks a tile makes, how evenly they fill the multiprocessors, what that takes. */
#ifndef SINTER_GPU_COST_H
#define SINTER_GPU_COST_H

#include "sinter/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* batch products of m x k by k x n. */
typedef struct sn_gpu_problem {
  int64_t batch, m, n, k;
  bool tensor;           /* on tensor cores */
  bool wide;             /* f64 */
  int64_t terms;         /* k is cut at multiples of this */
  int operand_bytes;     /* of an element as it is multiplied: 2 on tensor cores at twice tf32's rate; 0: as wide as the sums */
} sn_gpu_problem;

/* A schedule and what it is taken to cost. */
typedef struct sn_gpu_product_schedule {
  int rows, columns;     /* a block's tile */
  int64_t split, n_splits; /* terms of one, how many */
  int resident;          /* blocks of a multiprocessor at once */
  int64_t blocks, waves; /* waves: most blocks of one multiprocessor */
  double fill;           /* useful share of waves x multiprocessors x tile */
  double maths_us, cache_us, memory_us, us;
} sn_gpu_product_schedule;

/* The cheapest of all tiles and splits; a function of problem and target alone. */
void sn_gpu_choose_product(const sn_target *t, const sn_gpu_problem *p, sn_gpu_product_schedule *out);
/* What one given tile and number of splits takes. false: no such tile for this problem. */
bool sn_gpu_cost_product(const sn_target *t, const sn_gpu_problem *p, int rows, int columns, int64_t n_splits, sn_gpu_product_schedule *out);

/* What cuBLASLt is taken to need for it, by the shares of gpu_rates.def. */
double sn_gpu_library_us(const sn_target *t, const sn_gpu_problem *p);

/* Attention of `batch` heads (of all samples): scores n_q x n_k, sums over d_qk features; d_v features of the values. f32, or narrower types in f32. */
typedef struct sn_gpu_attention_problem {
  int64_t batch, n_q, n_k, d_qk, d_v;
  bool tensor;           /* on tensor cores */
  bool backward;
} sn_gpu_attention_problem;

/* How a block of 256 threads goes about it: compiler/kernel/lower_gpu_attention.c draws the loops. */
typedef struct sn_gpu_attention_schedule {
  int64_t rows;          /* queries whose scores are on chip at once; 32 or 64 */
  int64_t keys, n_tiles; /* keys of a tile, a multiple of 32; how many tiles hold all keys */
  int64_t group;         /* blocks of rows that an item takes, one after the other */
  bool resident;         /* k and v of all keys stay in shared memory meanwhile */
  bool by_turns;         /* k and v of all keys, in one place: read again for each block of rows */
  bool two_phases;       /* backward: dq by blocks of rows, then dk and dv by tiles of keys */
  bool with_dq;          /* backward: dq beside dk and dv, in one item a head */
  int64_t shared;        /* bytes of tiles, about */
  double us;             /* taken to be needed, without the launch */
} sn_gpu_attention_schedule;

/* The fastest cut that fits; a function of problem and target alone. false: none does (heads too wide). */
bool sn_gpu_choose_attention(const sn_target *t, const sn_gpu_attention_problem *p, sn_gpu_attention_schedule *out);
/* Microseconds of the same as it was written: products and softmax as kernels of their own, through arrays of the scores' size. */
double sn_gpu_eager_attention_us(const sn_target *t, const sn_gpu_attention_problem *p);

/* Rates, a microsecond: operations of tensor cores on operands of 4 bytes (tf32) or 2 (share 0: gpu_rates.def's), bytes of L2. Share of them that products of a tile reach. */
double sn_gpu_tensor_rate(const sn_target *t, double share, int operand_bytes);
double sn_gpu_cache_rate(const sn_target *t);
double sn_gpu_block_rate(const sn_target *t); /* of L2, by a block that has the device to itself */
double sn_gpu_tile_share(bool tensor, int rows, int columns);

#ifdef __cplusplus
}
#endif
#endif
