/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Counter-based random numbers. Three-fry 2x32, 20 rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3", SC11. */
#include <math.h>

#include "graph_internal.h"

static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
static const double parity = 0x1BD11BDA;

static sn_tensor rotate(sn_loc at, sn_tensor x, int by) {
  return sn_binary_at(at, SN_OP_OR, sn_binary_c_at(at, SN_OP_SHIFT_LEFT, x, by),
                      sn_binary_c_at(at, SN_OP_SHIFT_RIGHT_LOGICAL, x, 32 - by));
}

/* x[2] under the key k[2] (scalars): five groups of four rounds, a key injected after each. */
static void threefry(sn_loc at, const sn_tensor *k, sn_tensor *x) {
  sn_tensor ks[3] = {k[0], k[1], sn_binary_c_at(at, SN_OP_XOR, sn_binary_at(at, SN_OP_XOR, k[0], k[1]), parity)};
  x[0] = sn_binary_at(at, SN_OP_ADD, x[0], ks[0]);
  x[1] = sn_binary_at(at, SN_OP_ADD, x[1], ks[1]);
  for (int group = 0; group < 5; group++) {
    for (int r = 0; r < 4; r++) {
      x[0] = sn_binary_at(at, SN_OP_ADD, x[0], x[1]);
      x[1] = sn_binary_at(at, SN_OP_XOR, rotate(at, x[1], rotations[group % 2][r]), x[0]);
    }
    x[0] = sn_binary_at(at, SN_OP_ADD, x[0], ks[(group + 1) % 3]);
    sn_tensor inject = sn_binary_c_at(at, SN_OP_ADD, ks[(group + 2) % 3], group + 1);
    x[1] = sn_binary_at(at, SN_OP_ADD, x[1], inject);
  }
}

static bool open_key(sn_loc at, sn_tensor key, sn_tensor *k) {
  if (!key.instr) return false;
  if (sn_tensor_type(key) != SN_TYPE_U32 || sn_tensor_rank(key) != 1 || sn_tensor_dim(key, 0) != 2) {
    sn_graph_fail(key.graph, at, SN_ERR_TYPE, "a random key is u32[2], not %s", sn_tensor_text(key));
    sn_graph_hint(key.graph, "make keys with sn_key, sn_key_split or sn_key_fold_in");
    return false;
  }
  for (int i = 0; i < 2; i++) k[i] = sn_index_at(at, key, 0, i);
  return sn_graph_status(key.graph) == SN_OK;
}

sn_tensor sn_key_at(sn_loc at, sn_graph *g, uint64_t seed) {
  uint32_t words[2] = {(uint32_t)(seed >> 32), (uint32_t)seed};
  return sn_constant_data_at(at, g, SN_TYPE_U32, 1, (int64_t[]){2}, words);
}

/* The row-major position of each element as two words, in x[2]. */
static void counters(sn_loc at, sn_graph *g, int rank, const int64_t *dims, sn_tensor *x) {
  int64_t n = 1;
  for (int k = 0; k < rank; k++) n *= dims[k] > 0 ? dims[k] : 0;
  bool wide = n > ((int64_t)1 << 32);
  sn_tensor flat = sn_iota_at(at, g, wide ? SN_TYPE_U64 : SN_TYPE_U32, 1, &n, 0);
  sn_tensor i = sn_reshape_at(at, flat, rank, dims);
  x[1] = wide ? sn_cast_at(at, i, SN_TYPE_U32) : i;
  x[0] = wide ? sn_cast_at(at, sn_binary_c_at(at, SN_OP_SHIFT_RIGHT_LOGICAL, i, 32), SN_TYPE_U32)
              : sn_scalar_at(at, g, SN_TYPE_U32, 0);
}

static bool bits2(sn_loc at, sn_tensor key, int rank, const int64_t *dims, sn_tensor *x) {
  sn_tensor k[2];
  if (!open_key(at, key, k)) return false;
  counters(at, key.graph, rank, dims, x);
  threefry(at, k, x);
  return sn_graph_status(key.graph) == SN_OK;
}

void sn_key_split_at(sn_loc at, sn_tensor key, int n, sn_tensor *out) {
  sn_tensor x[2];
  int64_t count = n;
  for (int k = 0; k < n; k++) out[k] = sn_graph_empty(key.graph);
  if (n <= 0 || !bits2(at, key, 1, &count, x)) return;
  sn_tensor both = sn_stack_at(at, 2, x, 1);
  for (int k = 0; k < n; k++) out[k] = sn_index_at(at, both, 0, k);
}

sn_tensor sn_key_fold_in_at(sn_loc at, sn_tensor key, sn_tensor number) {
  sn_tensor k[2];
  if (!open_key(at, key, k) || !number.instr) return sn_graph_empty(key.graph);
  if (sn_tensor_rank(number) || !sn_type_is_integer(sn_tensor_type(number))) {
    sn_graph_fail(key.graph, at, SN_ERR_TYPE, "key_fold_in: the number is %s, not an integer scalar",
                  sn_tensor_text(number));
    return sn_graph_empty(key.graph);
  }
  sn_tensor x[2] = {sn_scalar_at(at, key.graph, SN_TYPE_U32, 0), sn_cast_at(at, number, SN_TYPE_U32)};
  threefry(at, k, x);
  return sn_stack_at(at, 2, x, 0);
}

sn_tensor sn_random_bits_at(sn_loc at, sn_tensor key, int rank, const int64_t *dims) {
  sn_tensor x[2];
  if (!bits2(at, key, rank, dims, x)) return sn_graph_empty(key.graph);
  return sn_binary_at(at, SN_OP_XOR, x[0], x[1]);
}

/* Multiples of 2^-m in [0, 1), m the mantissa bits of t: every one exact, none rounds up to 1. */
static sn_tensor unit(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims) {
  int m = sn_types[t].mantissa_bits;
  if (!sn_type_is_float(t)) {
    sn_graph_fail(key.graph, at, SN_ERR_TYPE, "random numbers of type %s", sn_type_text(t));
    return sn_graph_empty(key.graph);
  }
  sn_tensor bits, x[2];
  if (m <= 32) {
    bits = sn_binary_c_at(at, SN_OP_SHIFT_RIGHT_LOGICAL, sn_random_bits_at(at, key, rank, dims), 32 - m);
  } else {
    if (!bits2(at, key, rank, dims, x)) return sn_graph_empty(key.graph);
    sn_tensor high = sn_binary_c_at(at, SN_OP_SHIFT_LEFT, sn_cast_at(at, x[0], SN_TYPE_U64), 32);
    bits = sn_binary_c_at(at, SN_OP_SHIFT_RIGHT_LOGICAL,
                          sn_binary_at(at, SN_OP_OR, high, sn_cast_at(at, x[1], SN_TYPE_U64)), 64 - m);
  }
  return sn_binary_c_at(at, SN_OP_MULTIPLY, sn_cast_at(at, bits, t), ldexp(1.0, -m));
}

sn_tensor sn_uniform_at(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims, double lo, double hi) {
  sn_tensor u = unit(at, key, t, rank, dims);
  if (lo == 0 && hi == 1) return u;
  sn_tensor scaled = sn_binary_c_at(at, SN_OP_ADD, sn_binary_c_at(at, SN_OP_MULTIPLY, u, hi - lo), lo);
  return sn_binary_c_at(at, SN_OP_MAXIMUM, scaled, lo);
}

static sn_tensor from_uniform(sn_loc at, sn_tensor u) {
  return sn_binary_c_at(at, SN_OP_MULTIPLY, sn_erf_inv_at(at, u), 1.41421356237309504880);
}

sn_tensor sn_normal_at(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims) {
  sn_type wide = t == SN_TYPE_F64 ? t : SN_TYPE_F32; /* narrow types round a normal number in f32 */
  double lo = t == SN_TYPE_F64 ? nextafter(-1.0, 0.0) : (double)nextafterf(-1.0f, 0.0f);
  return sn_cast_at(at, from_uniform(at, sn_uniform_at(at, key, wide, rank, dims, lo, 1)), t);
}

sn_tensor sn_truncated_normal_at(sn_loc at, sn_tensor key, sn_type t, int rank, const int64_t *dims, double lo,
                                 double hi) {
  sn_type wide = t == SN_TYPE_F64 ? t : SN_TYPE_F32;
  double a = erf(lo / sqrt(2.0)), b = erf(hi / sqrt(2.0));
  sn_tensor x = from_uniform(at, sn_uniform_at(at, key, wide, rank, dims, a, b));
  return sn_cast_at(at, sn_clamp_c_at(at, lo, x, hi), t); /* rounding may step over an end */
}

sn_tensor sn_bernoulli_at(sn_loc at, sn_tensor key, double p, int rank, const int64_t *dims) {
  sn_tensor u = unit(at, key, SN_TYPE_F32, rank, dims);
  return sn_compare_at(at, SN_DIRECTION_LT, u, sn_scalar_like_at(at, u, p));
}

sn_tensor sn_dropout_at(sn_loc at, sn_tensor x, sn_tensor key, double rate) {
  if (!x.instr || rate == 0) return x;
  if (!(rate > 0 && rate < 1)) {
    sn_graph_fail(x.graph, at, SN_ERR_USAGE, "dropout: rate %g is not in [0, 1)", rate);
    return sn_graph_empty(x.graph);
  }
  sn_tensor keep = sn_bernoulli_at(at, key, 1 - rate, sn_tensor_rank(x), sn_tensor_dims(x));
  return sn_select_at(at, keep, sn_binary_c_at(at, SN_OP_MULTIPLY, x, 1 / (1 - rate)), sn_scalar_like_at(at, x, 0));
}
