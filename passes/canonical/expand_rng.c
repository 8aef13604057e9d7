/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Random bits in plain integer arithmetic, bit for bit what the interpreter computes: Threefry-2x32 (20 rounds) and Philox-4x32 (10 rounds) of Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011, with XLA's layout of counters and words.
 *
 *   three-fry, up to 32 bits   counters run over the shape with one dimension halved; a counter's two words are neighbours along it
 *   three-fry, 64 bits         a counter an element
 *   philox                     a counter of 128 bits for four words (two of 64 bits), flat
 *
 * `rng` and the state of `rng-get-and-update-state` belong to a run. Where all of them stand in the entry, so that each runs once and its place in the sequence is known,
 * they become the numbers that a run with the options' seed draws. Where one stands in a loop or a branch all stay, in the order in which they stand: whoever runs them
 * keeps count. */
#include "passes_internal.h"

typedef struct words { /* u32 vectors */
  sn_instr *v[4];
} words;

typedef struct gen {
  sn_builder b;
  int64_t n; /* counters */
} gen;

/* ---- arithmetic over u32[n] and u64[n], or scalars ---- */

static sn_instr *op2(gen *g, sn_opcode op, sn_instr *x, sn_instr *y) { return sn_build_binary(&g->b, op, x, y); }
static sn_instr *stretch(gen *g, sn_instr *scalar) { return sn_build_broadcast(&g->b, scalar, 1, &g->n, 0, NULL); }
static sn_instr *same(gen *g, const sn_instr *like, uint64_t v) {
  if (!like) return NULL;
  sn_instr *c = sn_build_scalar_i64(&g->b, like->shape->type, (int64_t)v);
  return like->shape->rank ? sn_build_broadcast(&g->b, c, like->shape->rank, like->shape->dims, 0, NULL) : c;
}
static sn_instr *plus(gen *g, sn_instr *x, uint64_t v) { return op2(g, SN_OP_ADD, x, same(g, x, v)); }
static sn_instr *shift(gen *g, sn_opcode op, sn_instr *x, uint64_t by) { return op2(g, op, x, same(g, x, by)); }
static sn_instr *low(gen *g, sn_instr *x) { return sn_build_convert(&g->b, x, SN_TYPE_U32); }
static sn_instr *high(gen *g, sn_instr *x) { return low(g, shift(g, SN_OP_SHIFT_RIGHT_LOGICAL, x, 32)); }
static sn_instr *joined(gen *g, sn_instr *lo, sn_instr *hi) {
  return op2(g, SN_OP_OR, sn_build_convert(&g->b, lo, SN_TYPE_U64), shift(g, SN_OP_SHIFT_LEFT, sn_build_convert(&g->b, hi, SN_TYPE_U64), 32));
}
static sn_instr *rotate(gen *g, sn_instr *x, uint64_t by) {
  return op2(g, SN_OP_OR, shift(g, SN_OP_SHIFT_LEFT, x, by), shift(g, SN_OP_SHIFT_RIGHT_LOGICAL, x, 32 - by));
}
static sn_instr *state_word(gen *g, sn_instr *state, int64_t k) { return sn_build_reshape(&g->b, sn_build_slice_dim(&g->b, state, 0, k, k + 1), 0, NULL); }
static sn_instr *count(gen *g) { return sn_build_iota(&g->b, SN_TYPE_U64, 1, &g->n, 0); }

/* ---- the two functions ---- */

static words threefry(gen *g, sn_instr *key, sn_instr *counter) {
  static const uint64_t rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  sn_instr *ks[3] = {low(g, key), high(g, key), NULL};
  ks[2] = op2(g, SN_OP_XOR, op2(g, SN_OP_XOR, ks[0], ks[1]), same(g, ks[0], UINT64_C(0x1BD11BDA)));
  words x = {{op2(g, SN_OP_ADD, low(g, counter), stretch(g, ks[0])), op2(g, SN_OP_ADD, high(g, counter), stretch(g, ks[1]))}};
  for (uint32_t r = 0; r < 5; r++) {
    for (int q = 0; q < 4; q++) {
      x.v[0] = op2(g, SN_OP_ADD, x.v[0], x.v[1]);
      x.v[1] = op2(g, SN_OP_XOR, rotate(g, x.v[1], rotations[r % 2][q]), x.v[0]);
    }
    x.v[0] = op2(g, SN_OP_ADD, x.v[0], stretch(g, ks[(r + 1) % 3]));
    x.v[1] = op2(g, SN_OP_ADD, x.v[1], stretch(g, plus(g, ks[(r + 2) % 3], r + 1)));
  }
  return x;
}

static words philox(gen *g, sn_instr *key, sn_instr *lo, sn_instr *hi) {
  sn_instr *k0 = low(g, key), *k1 = high(g, key);
  words x = {{low(g, lo), high(g, lo), low(g, hi), high(g, hi)}};
  for (int r = 0; r < 10; r++) {
    sn_instr *a = sn_build_convert(&g->b, x.v[0], SN_TYPE_U64), *c = sn_build_convert(&g->b, x.v[2], SN_TYPE_U64);
    a = op2(g, SN_OP_MULTIPLY, a, same(g, a, UINT64_C(0xD2511F53)));
    c = op2(g, SN_OP_MULTIPLY, c, same(g, c, UINT64_C(0xCD9E8D57)));
    words y = {{op2(g, SN_OP_XOR, op2(g, SN_OP_XOR, high(g, c), x.v[1]), stretch(g, k0)), low(g, c),
                op2(g, SN_OP_XOR, op2(g, SN_OP_XOR, high(g, a), x.v[3]), stretch(g, k1)), low(g, a)}};
    x = y;
    k0 = plus(g, k0, UINT64_C(0x9E3779B9));
    k1 = plus(g, k1, UINT64_C(0xBB67AE85));
  }
  return x;
}

/* Carries of 128-bit additions: high + (low + n < n). */
static sn_instr *carried(gen *g, sn_instr *hi, sn_instr *sum, sn_instr *n) {
  return op2(g, SN_OP_ADD, hi, sn_build_convert(&g->b, sn_build_compare(&g->b, SN_DIRECTION_LT, sum, n), SN_TYPE_U64));
}

static words philox_blocks(gen *g, sn_instr *key, sn_instr *lo, sn_instr *hi) {
  sn_instr *j = count(g), *l = op2(g, SN_OP_ADD, stretch(g, lo), j);
  return philox(g, key, l, carried(g, stretch(g, hi), l, j));
}

/* ---- words to elements ---- */

static sn_type unsigned_type(int bits) { return bits == 8 ? SN_TYPE_U8 : bits == 16 ? SN_TYPE_U16 : bits == 32 ? SN_TYPE_U32 : SN_TYPE_U64; }

/* The lowest bits of each word, as type t. */
static sn_instr *as_type(gen *g, sn_instr *x, sn_type t) {
  if (sn_type_is_integer(t)) return sn_build_convert(&g->b, x, t);
  x = sn_build_convert(&g->b, x, unsigned_type(sn_type_bits(t)));
  return sn_build_bitcast_convert(&g->b, x, t);
}

/* n vectors of g->n elements, element by element in turn; the first elements of that, in the shape. */
static sn_instr *interleaved(gen *g, int n, sn_instr *const *v, const sn_shape *s) {
  int64_t column[2] = {g->n, 1}, total = g->n * n;
  sn_instr *columns[4];
  for (int k = 0; k < n; k++) columns[k] = sn_build_reshape(&g->b, v[k], 2, column);
  sn_instr *flat = sn_build_reshape(&g->b, sn_build_concatenate(&g->b, (uint32_t)n, columns, 1), 1, &total);
  return sn_build_reshape(&g->b, sn_build_slice_dim(&g->b, flat, 0, 0, sn_shape_elements(s)), s->rank, s->dims);
}

/* Which dimension is halved: the first even one, else the largest. */
static int split_dim(const sn_shape *s) {
  int best = -1;
  for (int d = 0; d < s->rank; d++) {
    if (s->dims[d] % 2 == 0) return d;
  }
  for (int d = 0; d < s->rank; d++) {
    if (best < 0 || s->dims[d] > s->dims[best]) best = d;
  }
  return best;
}

/* The two words of a counter stand side by side along dimension d, which is cut where its size is odd. */
static sn_instr *side_by_side(gen *g, const words *x, const sn_shape *s, int d) {
  int64_t parts[SN_MAX_RANK + 1], whole[SN_MAX_RANK];
  sn_instr *both[2];
  for (int k = 0, to = 0; k < s->rank; k++) {
    whole[k] = k == d ? (s->dims[k] + 1) / 2 * 2 : s->dims[k];
    parts[to++] = k == d ? whole[k] / 2 : whole[k];
    if (k == d) parts[to++] = 1;
  }
  for (int w = 0; w < 2; w++) both[w] = sn_build_reshape(&g->b, x->v[w], s->rank + 1, parts);
  sn_instr *r = sn_build_reshape(&g->b, sn_build_concatenate(&g->b, 2, both, d + 1), s->rank, whole);
  return whole[d] == s->dims[d] ? r : sn_build_slice_dim(&g->b, r, d, 0, s->dims[d]);
}

/* ---- rng-bit-generator ---- */

typedef struct result { sn_instr *bits, *low, *high; } result; /* and the counter's next words; NULL: as before */

static result three_fry_result(gen *g, const sn_shape *s, sn_instr *key, sn_instr *counter) {
  result r = {NULL, NULL, NULL};
  bool wide = sn_type_bits(s->type) == 64;
  int d = split_dim(s);
  g->n = sn_shape_elements(s);
  if (!wide && d >= 0) g->n = g->n / s->dims[d] * ((s->dims[d] + 1) / 2);
  words x = threefry(g, key, op2(g, SN_OP_ADD, count(g), stretch(g, counter)));
  if (wide || d < 0) {
    sn_instr *v = wide ? joined(g, x.v[0], x.v[1]) : x.v[0];
    r.bits = sn_build_reshape(&g->b, as_type(g, v, s->type), s->rank, s->dims);
  } else {
    for (int w = 0; w < 2; w++) x.v[w] = as_type(g, x.v[w], s->type);
    r.bits = side_by_side(g, &x, s, d);
  }
  r.low = plus(g, counter, (uint64_t)g->n);
  return r;
}

/* A state of two words: the key is the upper half of the counter as well, and only the lower half moves on. */
static result philox_result(gen *g, const sn_shape *s, sn_instr *key, sn_instr *lo, sn_instr *hi) {
  result r;
  bool wide = sn_type_bits(s->type) == 64;
  int each = wide ? 2 : 4;
  g->n = (sn_shape_elements(s) + each - 1) / each;
  words x = philox_blocks(g, key, lo, hi ? hi : key);
  sn_instr *v[4];
  for (int k = 0; k < each; k++) v[k] = as_type(g, wide ? joined(g, x.v[2 * k], x.v[2 * k + 1]) : x.v[k], s->type);
  r.bits = interleaved(g, each, v, s);
  r.low = plus(g, lo, (uint64_t)g->n);
  r.high = hi ? carried(g, hi, r.low, same(g, lo, (uint64_t)g->n)) : NULL;
  return r;
}

/* The state with words 1 and 2 put in. */
static sn_instr *next_state(gen *g, sn_instr *state, const result *r) {
  static const int64_t one = 1;
  sn_instr *parts[4];
  int64_t words_in = state->shape->dims[0], done = r->high ? 3 : 2;
  uint32_t n = 0;
  parts[n++] = sn_build_slice_dim(&g->b, state, 0, 0, 1);
  parts[n++] = sn_build_reshape(&g->b, r->low, 1, &one);
  if (r->high) parts[n++] = sn_build_reshape(&g->b, r->high, 1, &one);
  if (done < words_in) parts[n++] = sn_build_slice_dim(&g->b, state, 0, done, words_in);
  return sn_build_concatenate(&g->b, n, parts, 0);
}

static bool bits_fit(const sn_instr *i) {
  const sn_shape *state = sn_operand_shape(i, 0);
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements != 2 || i->n_control || state->type != SN_TYPE_U64 || state->rank != 1) return false;
  const sn_shape *s = i->shape->elements[1];
  int64_t least = 2;
  if (sn_instr_int(i, SN_ATTR_RNG_ALGORITHM) == SN_RNG_ALGORITHM_THREE_FRY && state->dims[0] != 2) return false;
  if (state->dims[0] < least || !sn_shape_is_static(s) || s->rank == SN_MAX_RANK) return false;
  return sn_type_is_integer(s->type) || (sn_type_is_float(s->type) && sn_type_bits(s->type) >= 8);
}

static sn_status expand_bits(sn_pass_ctx *pc, sn_instr *i) {
  gen g = {.n = 0};
  const sn_shape *s = i->shape->elements[1];
  sn_instr *state = sn_instr_operand(i, 0), *parts[2] = {state, NULL};
  sn_builder_init_at(&g.b, pc->diag, i);
  if (sn_shape_elements(s) == 0) {
    parts[1] = sn_build_full(&g.b, s, 0);
  } else {
    sn_instr *key = state_word(&g, state, 0), *lo = state_word(&g, state, 1);
    bool three = sn_instr_int(i, SN_ATTR_RNG_ALGORITHM) == SN_RNG_ALGORITHM_THREE_FRY;
    result r = three ? three_fry_result(&g, s, key, lo) : philox_result(&g, s, key, lo, state->shape->dims[0] >= 3 ? state_word(&g, state, 2) : NULL);
    parts[0] = next_state(&g, state, &r);
    parts[1] = r.bits;
  }
  sn_instr *by = sn_build_tuple(&g.b, 2, parts);
  SN_TRY(g.b.status);
  SN_TRY(sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

/* ---- rng ---- */

typedef struct draws { uint64_t seed, counter, state[2]; } draws;

/* 53 bits in [0, 1) of the counter `after` further on, + `each` k for element k. */
static sn_instr *uniform(gen *g, const draws *w, uint64_t after, uint64_t each) {
  uint64_t at = w->counter + after;
  sn_instr *k = count(g), *zero = same(g, k, 0), *key = sn_build_scalar_i64(&g->b, SN_TYPE_U64, (int64_t)w->seed);
  words x = philox(g, key, plus(g, op2(g, SN_OP_MULTIPLY, k, same(g, k, each)), at), zero);
  sn_instr *hi = shift(g, SN_OP_SHIFT_LEFT, sn_build_convert(&g->b, x.v[0], SN_TYPE_U64), 21);
  sn_instr *bits = op2(g, SN_OP_XOR, hi, sn_build_convert(&g->b, shift(g, SN_OP_SHIFT_RIGHT_LOGICAL, x.v[1], 11), SN_TYPE_U64));
  sn_instr *u = sn_build_convert(&g->b, bits, SN_TYPE_F64);
  return op2(g, SN_OP_MULTIPLY, u, u ? sn_build_full_like(&g->b, u, 0x1p-53) : NULL);
}

/* a + b sqrt(-2 log(1 - u)) cos(2 pi v): Box and Muller. */
static sn_instr *normal(gen *g, const draws *w, sn_instr *a, sn_instr *b) {
  sn_instr *u = uniform(g, w, 0, 2), *v = uniform(g, w, 1, 2);
  if (!u || !v) return NULL;
  sn_instr *log = sn_build_unary(&g->b, SN_OP_LOG, op2(g, SN_OP_SUBTRACT, sn_build_full_like(&g->b, u, 1), u));
  sn_instr *r = sn_build_unary(&g->b, SN_OP_SQRT, op2(g, SN_OP_MULTIPLY, sn_build_full_like(&g->b, u, -2), log));
  sn_instr *c = sn_build_unary(&g->b, SN_OP_COSINE, op2(g, SN_OP_MULTIPLY, sn_build_full_like(&g->b, v, 6.283185307179586), v));
  return op2(g, SN_OP_ADD, a, op2(g, SN_OP_MULTIPLY, op2(g, SN_OP_MULTIPLY, b, r), c));
}

static sn_instr *rounded(gen *g, sn_instr *v, sn_instr *a, sn_instr *b, sn_type t, bool is_normal) {
  if (!v) return NULL;
  if (t == SN_TYPE_PRED) return sn_build_compare(&g->b, SN_DIRECTION_GE, v, sn_build_full_like(&g->b, v, 0.5));
  if (!sn_type_is_float(t)) return sn_build_convert(&g->b, sn_build_unary(&g->b, SN_OP_FLOOR, v), t);
  sn_instr *r = sn_build_convert(&g->b, v, t);
  if (is_normal) return r;
  /* Rounded up to the open end. */
  sn_instr *beyond = sn_build_compare(&g->b, SN_DIRECTION_GE, sn_build_convert(&g->b, r, SN_TYPE_F64), b), *real = sn_build_compare(&g->b, SN_DIRECTION_GT, b, a);
  return sn_build_select(&g->b, op2(g, SN_OP_AND, beyond, real), sn_build_convert(&g->b, a, t), r);
}

static bool is_draw(const sn_instr *i) { return i->op == SN_OP_RNG || i->op == SN_OP_RNG_GET_AND_UPDATE_STATE; }
static bool is_normal(const sn_instr *i) { return sn_instr_int(i, SN_ATTR_DISTRIBUTION) == SN_DISTRIBUTION_NORMAL; }

static bool draw_fits(const sn_instr *i) {
  sn_type t = i->shape->type;
  if (!sn_shape_is_array(i->shape) || !sn_shape_is_static(i->shape) || i->n_control) return false;
  if (i->op == SN_OP_RNG_GET_AND_UPDATE_STATE) return t == SN_TYPE_U64 && i->shape->rank == 1 && i->shape->dims[0] == 2;
  return !sn_type_is_complex(t) && (!is_normal(i) || sn_type_is_float(t)) && sn_shape_elements(i->shape) > 0;
}

static sn_status expand_rng(sn_pass_ctx *pc, sn_instr *i, draws *w) {
  gen g = {.n = sn_shape_elements(i->shape)};
  bool two = is_normal(i);
  sn_builder_init_at(&g.b, pc->diag, i);
  sn_instr *a = stretch(&g, sn_build_convert(&g.b, sn_instr_operand(i, 0), SN_TYPE_F64)), *b = stretch(&g, sn_build_convert(&g.b, sn_instr_operand(i, 1), SN_TYPE_F64));
  sn_instr *v = two ? normal(&g, w, a, b) : op2(&g, SN_OP_ADD, a, op2(&g, SN_OP_MULTIPLY, uniform(&g, w, 0, 1), op2(&g, SN_OP_SUBTRACT, b, a)));
  sn_instr *by = sn_build_reshape(&g.b, rounded(&g, v, a, b, i->shape->type, two), i->shape->rank, i->shape->dims);
  SN_TRY(g.b.status);
  w->counter += (uint64_t)g.n * (two ? 2 : 1);
  SN_TRY(sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

static sn_status expand_state(sn_pass_ctx *pc, sn_instr *i, draws *w) {
  static const int64_t one = 1;
  uint64_t delta = (uint64_t)sn_instr_int(i, SN_ATTR_DELTA);
  sn_builder b;
  sn_instr *parts[2];
  sn_builder_init_at(&b, pc->diag, i);
  for (int k = 0; k < 2; k++) parts[k] = sn_build_reshape(&b, sn_build_scalar_i64(&b, SN_TYPE_U64, (int64_t)w->state[k]), 1, &one);
  sn_instr *by = sn_build_concatenate(&b, 2, parts, 0);
  SN_TRY(b.status);
  w->state[0] += delta;
  w->state[1] += w->state[0] < delta;
  SN_TRY(sn_pass_replace(pc, i, by));
  sn_instr_erase(i);
  return SN_OK;
}

/* Does running the instruction draw? Called computations stand before their callers, so `draws_in` knows them. */
static bool runs_draw(const sn_instr *i, const bool *draws_in) {
  if (is_draw(i)) return true;
  for (uint16_t k = 0; k < i->n_called; k++) {
    if (draws_in[i->called[k]->id]) return true;
  }
  return false;
}

/* Control edges from each to the next. */
static sn_status keep_order(sn_pass_ctx *pc, sn_module *m, const bool *draws_in) {
  SN_FOR_COMPUTATIONS(c, m) {
    sn_instr *last = NULL;
    SN_FOR_INSTRS(i, c) {
      if (!runs_draw(i, draws_in)) continue;
      bool ordered = last == NULL;
      for (uint16_t k = 0; k < i->n_control && !ordered; k++) ordered = i->control[k] == last;
      if (!ordered) {
        if (sn_instr_add_control(i, last) != SN_OK) return sn_out_of_memory(pc->diag, sizeof last);
        pc->changed = true;
      }
      last = i;
    }
  }
  return SN_OK;
}

static sn_status expand_draws(sn_pass_ctx *pc, sn_module *m) {
  bool *draws_in = SN_NEW_N(pc->scratch, bool, m->n_comp_ids + 1), all = true, any = false;
  if (!draws_in) return sn_out_of_memory(pc->diag, m->n_comp_ids);
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS(i, c) {
      if (!runs_draw(i, draws_in)) continue;
      draws_in[c->id] = any = true;
      if (c != m->entry || !is_draw(i) || !draw_fits(i)) all = false;
    }
  }
  if (!any) return SN_OK;
  if (!all || !sn_pass_may(pc)) return keep_order(pc, m, draws_in);
  draws w = {.seed = pc->options->seed, .state = {pc->options->seed, 0}};
  SN_FOR_INSTRS_SAFE(i, m->entry) {
    if (is_draw(i)) SN_TRY(i->op == SN_OP_RNG ? expand_rng(pc, i, &w) : expand_state(pc, i, &w));
  }
  return SN_OK;
}

sn_status sn_pass_expand_rng(sn_pass_ctx *pc, sn_module *m) {
  SN_FOR_COMPUTATIONS(c, m) {
    SN_FOR_INSTRS_SAFE(i, c) {
      if (i->op == SN_OP_RNG_BIT_GENERATOR && bits_fit(i) && sn_pass_may(pc)) SN_TRY(expand_bits(pc, i));
    }
  }
  return expand_draws(pc, m);
}
