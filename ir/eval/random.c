/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* rng-bit-generator: Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds) of Salmon et al., "Parallel random numbers:
 * as easy as 1, 2, 3", SC 2011, with the counters laid out as XLA's xla/hlo/builder/lib/prng.cc and
 * rng_bit_generator_expander.cc do, bit by bit. `rng` has no defined bits in XLA: ours are Philox's, keyed by the run's
 * seed. */
#include <math.h>

#include "eval_internal.h"

static uint32_t rotate(uint32_t x, int by) { return x << by | x >> (32 - by); }

static void threefry(const uint32_t key[2], uint32_t x[2]) {
  static const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t ks[3] = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
  x[0] += ks[0];
  x[1] += ks[1];
  for (uint32_t r = 0; r < 5; r++) {
    for (int q = 0; q < 4; q++) {
      x[0] += x[1];
      x[1] = rotate(x[1], rotations[r % 2][q]) ^ x[0];
    }
    x[0] += ks[(r + 1) % 3];
    x[1] += ks[(r + 2) % 3] + r + 1;
  }
}

static void philox(uint64_t key, uint64_t low, uint64_t high, uint32_t out[4]) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32),
           x[4] = {(uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high, (uint32_t)(high >> 32)};
  for (int r = 0; r < 10; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
    uint32_t y[4] = {(uint32_t)(b >> 32) ^ x[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ k1, (uint32_t)a};
    memcpy(x, y, sizeof x);
  }
  memcpy(out, x, 4 * sizeof *out);
}

/* ---- rng-bit-generator ---- */

static void put_bits(sn_type t, char *data, int64_t k, uint64_t bits) {
  size_t bytes = sn_type_bytes(t);
  if (sn_type_is_integer(t) && sn_type_bits(t) < 8) {
    sn_store_i64(t, data + (size_t)k, (int64_t)bits);
    return;
  }
  memcpy(data + (size_t)k * bytes, &bits, bytes); /* little-endian: the low bytes */
}

/* Which dim is halved: the first even one, else the largest. */
static int split_dim(const sn_shape *s) {
  int best = -1;
  for (int d = 0; d < s->rank; d++)
    if (s->dims[d] % 2 == 0) return d;
  for (int d = 0; d < s->rank; d++)
    if (best < 0 || s->dims[d] > s->dims[best]) best = d;
  return best;
}

/* Up to 32 bits: counters run over the shape with one dim halved; the two words of a counter are neighbours along that
 * dim. */
static uint64_t threefry_words(const sn_shape *s, uint64_t key, uint64_t counter, char *data) {
  int split = split_dim(s);
  int64_t half[SN_MAX_RANK], strides[SN_MAX_RANK], index[SN_MAX_RANK] = {0}, n = 0;
  const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  sn_ev_strides(s->rank, s->dims, strides);
  for (int d = 0; d < s->rank; d++) half[d] = d == split ? (s->dims[d] + 1) / 2 : s->dims[d];
  if (s->rank && sn_ev_product(s->rank, half) == 0) return counter;
  do {
    uint64_t at = counter + (uint64_t)n++;
    uint32_t x[2] = {(uint32_t)at, (uint32_t)(at >> 32)};
    threefry(k, x);
    int64_t flat = sn_ev_dot_strides(s->rank, index, strides);
    if (split < 0) {
      put_bits(s->type, data, 0, x[0]);
      continue;
    }
    flat += index[split] * strides[split]; /* index 2 h, then 2 h + 1 */
    put_bits(s->type, data, flat, x[0]);
    if (2 * index[split] + 1 < s->dims[split]) put_bits(s->type, data, flat + strides[split], x[1]);
  } while (sn_ev_next(s->rank, half, index));
  return counter + (uint64_t)n;
}

static uint64_t threefry_pairs(const sn_shape *s, uint64_t key, uint64_t counter, char *data) {
  const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
  int64_t n = sn_shape_elements(s);
  for (int64_t j = 0; j < n; j++) {
    uint64_t at = counter + (uint64_t)j;
    uint32_t x[2] = {(uint32_t)at, (uint32_t)(at >> 32)};
    threefry(k, x);
    put_bits(s->type, data, j, x[0] | (uint64_t)x[1] << 32);
  }
  return counter + (uint64_t)n;
}

static void add_128(uint64_t *low, uint64_t *high, uint64_t n) {
  *low += n;
  *high += *low < n;
}

static void philox_fill(const sn_shape *s, uint64_t key, uint64_t *low, uint64_t *high, char *data) {
  int64_t n = sn_shape_elements(s), each = sn_type_bits(s->type) == 64 ? 2 : 4, blocks = (n + each - 1) / each;
  for (int64_t j = 0; j < blocks; j++) {
    uint64_t l = *low, h = *high;
    uint32_t x[4];
    add_128(&l, &h, (uint64_t)j);
    philox(key, l, h, x);
    for (int64_t q = 0; q < each && j * each + q < n; q++)
      put_bits(s->type, data, j * each + q, each == 2 ? x[2 * q] | (uint64_t)x[2 * q + 1] << 32 : x[q]);
  }
  add_128(low, high, (uint64_t)blocks);
}

sn_status sn_eval_rng_bit_generator(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const sn_shape *state = sn_array_shape(in[0]),
                 *s = sn_shape_is_tuple(i->shape) && i->shape->n_elements == 2 ? i->shape->elements[1] : NULL;
  sn_array *outs[2] = {NULL, NULL};
  int64_t algorithm = sn_instr_int(i, SN_ATTR_RNG_ALGORITHM), words = sn_shape_elements(state);
  bool three = algorithm == SN_RNG_ALGORITHM_THREE_FRY; /* the default is Philox, as on XLA for CPU */
  if (!s || (!sn_type_is_integer(s->type) && !sn_type_is_float(s->type)))
    return sn_ev_error(e, i, SN_ERR_TYPE, "gives (state, integers)");
  if (state->type != SN_TYPE_U64 || words < 2 || (three && words != 2))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "a state of u64[2] (Philox: or u64[3]) is needed");
  SN_TRY(sn_ev_writable(e, i, in[0], &outs[0]));
  sn_status status = sn_ev_new(e, i, s, &outs[1]);
  if (status != SN_OK) {
    sn_ev_release(e, outs[0]);
    return status;
  }
  uint64_t *v = sn_array_data(outs[0]);
  char *data = sn_array_data(outs[1]);
  if (three && sn_type_bits(s->type) == 64) {
    v[1] = threefry_pairs(s, v[0], v[1], data);
  } else if (three) {
    v[1] = threefry_words(s, v[0], v[1], data);
  } else if (words >= 3) {
    philox_fill(s, v[0], &v[1], &v[2], data);
  } else { /* two words: the key is the upper half of the counter as well, and only the lower half moves on */
    uint64_t high = v[0];
    philox_fill(s, v[0], &v[1], &high, data);
  }
  return sn_ev_new_tuple(e, i, 2, outs, out);
}

/* ---- rng and its state ---- */

/* 53 bits in [0, 1). */
static double uniform(sn_ev_ctx *e) {
  uint32_t x[4];
  philox(e->o->seed, e->draws.counter++, (uint64_t)e->process, x);
  return (double)((uint64_t)x[0] << 21 ^ x[1] >> 11) * 0x1p-53;
}

sn_status sn_eval_rng(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_type t = i->shape->type;
  bool normal = sn_instr_int(i, SN_ATTR_DISTRIBUTION) == SN_DISTRIBUTION_NORMAL;
  double a = sn_load_f64(sn_array_shape(in[0])->type, sn_array_data(in[0])),
         b = sn_load_f64(sn_array_shape(in[1])->type, sn_array_data(in[1]));
  SN_TRY(sn_ev_new(e, i, i->shape, out));
  if (sn_type_is_complex(t) || (normal && !sn_type_is_float(t)))
    return sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "no such numbers of %s", sn_type_text(t));
  for (int64_t k = 0; k < sn_shape_elements(i->shape); k++) {
    char *at = (char *)sn_array_data(*out) + (size_t)k * sn_type_bytes(t);
    double u = uniform(e);
    if (normal)
      u = a + b * sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * uniform(e)); /* Box and Muller */
    else
      u = a + u * (b - a);
    sn_store_f64(t, at, sn_type_is_float(t) || t == SN_TYPE_PRED ? u : floor(u));
    if (t == SN_TYPE_PRED) *(uint8_t *)at = u >= 0.5;
    if (!normal && sn_type_is_float(t) && b > a && sn_load_f64(t, at) >= b)
      sn_store_f64(t, at, a); /* rounded up to the open end */
  }
  return SN_OK;
}

/* The state before this call; delta is added to its 128 bits afterwards. */
sn_status sn_eval_rng_state(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)in;
  SN_TRY(sn_ev_new_zero(e, i, i->shape, out));
  if (i->shape->type != SN_TYPE_U64 || sn_array_bytes(*out) < sizeof e->draws.state)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives u64[2]");
  memcpy(sn_array_data(*out), e->draws.state, sizeof e->draws.state);
  add_128(&e->draws.state[0], &e->draws.state[1], (uint64_t)sn_instr_int(i, SN_ATTR_DELTA));
  return SN_OK;
}
