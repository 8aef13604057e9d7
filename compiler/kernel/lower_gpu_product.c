/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The product template for CUDA targets.
 *
 *   item (batch, row block, column block, split of k), a block of 256 threads:
 *     sums (a tile of registers, spread over the threads) = 0
 *     for each 16 terms: tiles of lhs and rhs into shared memory (prologues evaluated, zero beyond the matrix); sums += lhs * rhs
 *     32 rows of sums at a time through shared memory: epilogue, stores along rows
 *   with several splits: the sums to a workspace; a second phase adds them in order and does the epilogue.
 *
 * A tile lies in shared memory as the operand lies in memory, so that both the copy's reads and its writes run along neighbours; rows are padded so that the columns that
 * the sums read fall into different banks. Tensor cores (tf32) where the program's algorithm asks: operands are then rounded to 10 bits of mantissa while they are packed. */
#include "lower_product.h"

#include <string.h>

enum { TERMS = 16, THREADS = LOWER_GPU_LANES, LARGE_TILE = 128, SMALL_TILE = 64, LEAST_SPLIT = 256, MOST_SPLITS = 16, STAGED_ROWS = 32 };

typedef struct gpu_product {
  const product *p;
  int64_t tile, m_blocks, n_blocks, n_splits, split; /* split: terms of one, a multiple of TERMS */
  bool tensor, along_k[2];
  sn_type type;                                      /* of tiles and sums */
  int tiles[2], sums, staged, work;
} gpu_product;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- decisions ---- */

/* Is the operand's last dimension, whose elements are neighbours in memory, a contracted one? */
static bool minor_is_contracted(const product *p, uint32_t operand) {
  sn_ints dims = sn_instr_ints(p->dot, operand ? SN_ATTR_RHS_CONTRACTING_DIMS : SN_ATTR_LHS_CONTRACTING_DIMS);
  const sn_shape *s = sn_operand_shape(p->dot, operand);
  int64_t minor = s->layout ? s->layout->minor_to_major[0] : s->rank - 1;
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] == minor) return true;
  }
  return false;
}

/* Large tiles read less; small ones fill the device. Splits of k fill it where there are few tiles and many terms. */
static void choose_tiles(const lowering *L, gpu_product *g) {
  const product *p = g->p;
  int64_t cores = L->target->cores > 0 ? L->target->cores : 100;
  bool large = p->batch * ceil_div(p->m, LARGE_TILE) * ceil_div(p->n, LARGE_TILE) >= cores;
  g->tile = large ? LARGE_TILE : SMALL_TILE;
  g->m_blocks = ceil_div(p->m, g->tile);
  g->n_blocks = ceil_div(p->n, g->tile);
  int64_t blocks = p->batch * g->m_blocks * g->n_blocks, splits = 2 * cores / blocks, most = p->k / LEAST_SPLIT;
  if (splits > most) splits = most;
  if (splits > MOST_SPLITS) splits = MOST_SPLITS;
  if (splits < 1) splits = 1;
  g->split = ceil_div(ceil_div(p->k, splits), TERMS) * TERMS;
  g->n_splits = ceil_div(p->k, g->split);
}

static int add(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, memory, t, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

/* Elements from one row of a tile to the next. */
static int64_t row_stride(const gpu_product *g, int operand) {
  if (g->along_k[operand]) return TERMS + (g->tensor ? 4 : 1);
  return g->tile + (g->tensor ? 8 : 0);
}

static void add_buffers(lowering *L, gpu_product *g) {
  int64_t sums[2] = {g->tile, g->tile}, work[4] = {g->n_splits, g->p->batch, g->p->m, g->p->n};
  static const char *const names[] = {"lhs", "rhs"};
  g->work = g->n_splits > 1 ? add(L, SN_KMEM_WORK, g->type, 4, work, "splits") : -1; /* arguments stand before tiles */
  for (int o = 0; o < 2; o++) {
    int64_t dims[2] = {g->along_k[o] ? g->tile : TERMS, row_stride(g, o)};
    g->tiles[o] = add(L, SN_KMEM_SCRATCH, g->type, 2, dims, names[o]);
  }
  int64_t staged[2] = {STAGED_ROWS, g->tile + (g->tensor ? 8 : 16)}; /* padded: rows that a warp writes at once lie in different banks */
  g->staged = add(L, SN_KMEM_SCRATCH, g->type, 2, staged, "staged");
  g->sums = add(L, SN_KMEM_REGISTER, g->type, 2, sums, "sums");
}

/* ---- the tiles ---- */

static void guard_below(lowering *L, const sn_ix *e, int64_t end) {
  if (!e || e->hi < end) return;
  if (L->n_guards == LOWER_MAX_GUARDS) lower_fail(L, L->root, "too many conditions");
  else L->guards[L->n_guards++] = (sn_ix_guard){e, 0, end - 1};
}

static sn_kvalue *or_zero(lowering *L, sn_kvalue *v, int before) {
  if (!v || L->n_guards == before) return v;
  sn_kvalue *xs[3] = {lower_guard_value(L, L->n_guards - before, &L->guards[before]), v, sn_kb_const_f64(&L->b, v->type, 0)};
  return sn_kb_elt(&L->b, SN_OP_SELECT, v->type, 3, xs);
}

/* The element as the sums want it: in their type, for tensor cores rounded to tf32. */
static sn_kvalue *as_term(lowering *L, const gpu_product *g, sn_kvalue *v) {
  if (v && v->type != g->type) v = sn_kb_elt(&L->b, SN_OP_CONVERT, g->type, 1, &v);
  if (!v || !g->tensor) return v;
  v = sn_kb_elt(&L->b, SN_OP_REDUCE_PRECISION, g->type, 1, &v);
  if (v) {
    v->node->exponent_bits = 8;
    v->node->mantissa_bits = 10;
  }
  return v;
}

static void pack(lowering *L, const gpu_product *g, int operand, const sn_ix *const *b, const sn_ix *first, const sn_ix *k0) {
  sn_ix_context *x = L->k->ix;
  sn_knode *node;
  const sn_ix *e = lower_for(L, SN_KLOOP_VECTOR, THREADS, lower_const(L, 0), lower_const(L, g->tile * TERMS), 1, 0, NULL, NULL, &node);
  if (!e) return;
  int64_t minor = g->along_k[operand] ? TERMS : g->tile;
  const sn_ix *major_at = sn_ix_div(x, e, minor), *minor_at = sn_ix_mod(x, e, minor), *zero = lower_const(L, 0), *at[SN_MAX_RANK];
  const sn_ix *row = sn_ix_add(x, first, g->along_k[operand] ? major_at : minor_at), *k = sn_ix_add(x, k0, g->along_k[operand] ? minor_at : major_at);
  int before = L->n_guards;
  guard_below(L, row, operand ? g->p->n : g->p->m);
  guard_below(L, k, g->p->k);
  if (L->b.status == SN_OK && product_operand_index(L, g->p, (uint32_t)operand, b, operand ? zero : row, operand ? row : zero, k, at)) {
    const sn_ix *to[2] = {major_at, minor_at};
    sn_kvalue *v = or_zero(L, lower_value(L, sn_instr_operand(g->p->dot, (uint32_t)operand), 0, at), before);
    sn_kb_store(&L->b, g->tiles[operand], to, 0, NULL, as_term(L, g, v));
  }
  L->n_guards = before;
  lower_end(L, 0, NULL, node);
}

static void contract(lowering *L, const gpu_product *g, bool clear) {
  const sn_ix *zero[2] = {lower_const(L, 0), lower_const(L, 0)};
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.acc = (sn_ktile){g->sums, zero, {g->tile, 1}};
  c.a = (sn_ktile){g->tiles[0], zero, {g->along_k[0] ? row_stride(g, 0) : 1, g->along_k[0] ? 1 : row_stride(g, 0)}};
  c.b = (sn_ktile){g->tiles[1], zero, {g->along_k[1] ? 1 : row_stride(g, 1), g->along_k[1] ? row_stride(g, 1) : 1}};
  c.m = c.n = lower_const(L, g->tile);
  c.k = lower_const(L, clear ? 0 : TERMS);
  c.mr = c.nr = (int)g->tile;
  c.accumulate = !clear;
  c.algorithm = sn_instr_int(g->p->dot, SN_ATTR_DOT_ALGORITHM);
  sn_kb_contract(&L->b, &c);
}

/* ---- the sums ---- */

/* The sums leave the registers in parts of 32 rows, by way of shared memory: the epilogue then stands once a part and runs along rows. In a part, thread t holds in its
 * register e the sum of staged row *i and column *j; plain sums lie in steps of 16, those of tensor cores as mma.m16n8k8 lays them out, 2 x 4 warps. */
static void staged_position(lowering *L, const gpu_product *g, const sn_ix *t, const sn_ix *e, const sn_ix **i, const sn_ix **j) {
  sn_ix_context *x = L->k->ix;
  int64_t n = g->tile / 16;
  if (!g->tensor) {
    *i = sn_ix_add(x, sn_ix_div(x, t, 16), sn_ix_mul(x, sn_ix_div(x, e, n), lower_const(L, 16)));
    *j = sn_ix_add(x, sn_ix_mod(x, t, 16), sn_ix_mul(x, sn_ix_mod(x, e, n), lower_const(L, 16)));
    return;
  }
  const sn_ix *warp = sn_ix_div(x, t, 32), *c = sn_ix_mod(x, e, 4);
  const sn_ix *column = sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, warp, 4), lower_const(L, g->tile / 4)), sn_ix_mul(x, sn_ix_div(x, e, 4), lower_const(L, 8)));
  *i = sn_ix_add(x, sn_ix_mul(x, sn_ix_div(x, warp, 4), lower_const(L, 16)),
                 sn_ix_add(x, sn_ix_div(x, sn_ix_mod(x, t, 32), 4), sn_ix_mul(x, sn_ix_div(x, c, 2), lower_const(L, 8))));
  *j = sn_ix_add(x, column, sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, t, 4), lower_const(L, 2)), sn_ix_mod(x, c, 2)));
}

/* Row of the tile that staged row i of a part is. */
static const sn_ix *tile_row(lowering *L, const gpu_product *g, const sn_ix *part, const sn_ix *i) {
  sn_ix_context *x = L->k->ix;
  if (!g->tensor) return sn_ix_add(x, sn_ix_mul(x, part, lower_const(L, STAGED_ROWS)), i);
  return sn_ix_add(x, sn_ix_mul(x, sn_ix_div(x, i, 16), lower_const(L, g->tile / 2)), sn_ix_add(x, sn_ix_mul(x, part, lower_const(L, 16)), sn_ix_mod(x, i, 16)));
}

static bool stage(lowering *L, const gpu_product *g, const sn_ix *part) {
  sn_knode *threads, *slots;
  const sn_ix *t = lower_for(L, SN_KLOOP_THREADS, 0, lower_const(L, 0), lower_const(L, THREADS), 1, 0, NULL, NULL, &threads);
  const sn_ix *e = t ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, STAGED_ROWS * g->tile / THREADS), 1, 0, NULL, NULL, &slots) : NULL;
  const sn_ix *to[2], *from[2];
  if (!e) return false;
  staged_position(L, g, t, e, &to[0], &to[1]);
  from[0] = tile_row(L, g, part, to[0]);
  from[1] = to[1];
  sn_kb_store(&L->b, g->staged, to, 0, NULL, sn_kb_load(&L->b, g->sums, from, 0, NULL, NULL));
  lower_end(L, 0, NULL, slots);
  lower_end(L, 0, NULL, threads);
  return L->b.status == SN_OK;
}

/* The dot's element at idx is `sum`: results of the fusion from it, under the open guards. */
static void store_results(lowering *L, const gpu_product *g, const sn_ix *const *idx, sn_kvalue *sum) {
  const sn_ix *out[SN_MAX_RANK];
  if (sum && sum->type != g->p->dot->shape->type) sum = sn_kb_elt(&L->b, SN_OP_CONVERT, g->p->dot->shape->type, 1, &sum);
  if (!sum) return;
  lower_remember(L, g->p->dot, 0, idx, sum);
  for (int k = 0; k < L->n_outputs && L->b.status == SN_OK; k++) {
    if (!product_forward_index(L, g->p, L->outputs[k], idx, out)) {
      lower_fail(L, L->outputs[k], "a result of the fusion whose elements are not those of its product");
      return;
    }
    sn_kb_store(&L->b, L->output_buffer[k], out, L->n_guards, L->guards, lower_value(L, L->outputs[k], L->output_index[k], out));
  }
}

static void give_sums(lowering *L, const gpu_product *g, const sn_ix *const *b, const sn_ix *flat_b, const sn_ix *split, const sn_ix *m0, const sn_ix *n0) {
  sn_ix_context *x = L->k->ix;
  sn_knode *parts, *node;
  const sn_ix *part = lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, g->tile / STAGED_ROWS), 1, 0, NULL, NULL, &parts);
  if (!part || !stage(L, g, part)) return;
  const sn_ix *e = lower_for(L, SN_KLOOP_VECTOR, THREADS, lower_const(L, 0), lower_const(L, STAGED_ROWS * g->tile), 1, 0, NULL, NULL, &node);
  const sn_ix *at[2], *idx[SN_MAX_RANK];
  if (!e) return;
  at[0] = sn_ix_div(x, e, g->tile);
  at[1] = sn_ix_mod(x, e, g->tile);
  const sn_ix *row = sn_ix_add(x, m0, tile_row(L, g, part, at[0])), *column = sn_ix_add(x, n0, at[1]);
  sn_kvalue *sum = sn_kb_load(&L->b, g->staged, at, 0, NULL, NULL);
  int before = L->n_guards;
  guard_below(L, row, g->p->m);
  guard_below(L, column, g->p->n);
  if (g->work >= 0) {
    const sn_ix *to[4] = {split, flat_b, row, column};
    sn_kb_store(&L->b, g->work, to, L->n_guards, L->guards, sum);
  } else {
    product_result_index(L, g->p, b, row, column, idx);
    store_results(L, g, idx, sum);
  }
  L->n_guards = before;
  lower_end(L, 0, NULL, node);
  lower_end(L, 0, NULL, parts);
}

/* ---- phases ---- */

static void product_phase(lowering *L, const gpu_product *g) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 3];
  const sn_ix *b[SN_MAX_RANK], *flat_b = lower_const(L, 0);
  sn_knode *node;
  int n_batch = g->p->n_batch;
  for (int i = 0; i < n_batch; i++) grid[i] = g->p->batch_dims[i];
  grid[n_batch] = g->m_blocks;
  grid[n_batch + 1] = g->n_blocks;
  grid[n_batch + 2] = g->n_splits;
  if (!lower_phase(L, n_batch + 3, grid)) return;
  for (int i = 0; i < n_batch; i++) {
    b[i] = lower_grid(L, i);
    flat_b = sn_ix_add(x, sn_ix_mul(x, flat_b, lower_const(L, g->p->batch_dims[i])), b[i]);
  }
  const sn_ix *m0 = sn_ix_mul(x, lower_grid(L, n_batch), lower_const(L, g->tile)), *n0 = sn_ix_mul(x, lower_grid(L, n_batch + 1), lower_const(L, g->tile));
  const sn_ix *split = lower_grid(L, n_batch + 2), *start = sn_ix_mul(x, split, lower_const(L, g->split));
  /* The last split may be short. */
  const sn_ix *left = sn_ix_div(x, sn_ix_add(x, sn_ix_sub(x, lower_const(L, g->p->k), start), lower_const(L, TERMS - 1)), TERMS);
  const sn_ix *steps = sn_ix_min(x, lower_const(L, g->split / TERMS), left);
  contract(L, g, true);
  const sn_ix *s = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), steps, 1, 0, NULL, NULL, &node);
  if (!s) return;
  const sn_ix *k0 = sn_ix_add(x, start, sn_ix_mul(x, s, lower_const(L, TERMS)));
  pack(L, g, 0, b, m0, k0);
  pack(L, g, 1, b, n0, k0);
  contract(L, g, false);
  lower_end(L, 0, NULL, node);
  give_sums(L, g, b, flat_b, split, m0, n0);
}

/* Sums of the splits in order, a thread an element. */
static void finish_phase(lowering *L, const gpu_product *g) {
  sn_ix_context *x = L->k->ix;
  const product *p = g->p;
  int64_t total = p->batch * p->m * p->n, grid = ceil_div(total, THREADS), rows[3] = {p->batch, p->m, p->n};
  const sn_ix *at[3], *b[SN_MAX_RANK], *idx[SN_MAX_RANK];
  sn_knode *node, *inner;
  if (!lower_phase(L, 1, &grid)) return;
  const sn_ix *start = sn_ix_mul(x, lower_grid(L, 0), lower_const(L, THREADS)), *hi = lower_const(L, THREADS);
  if (total % THREADS) hi = sn_ix_min(x, hi, sn_ix_sub(x, lower_const(L, total), start));
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, THREADS, lower_const(L, 0), hi, 1, 0, NULL, NULL, &node);
  if (!j) return;
  lower_delinearise(L, sn_ix_add(x, start, j), 3, rows, at);
  lower_delinearise(L, at[0], p->n_batch, p->batch_dims, b);
  const sn_ix *from[4] = {lower_const(L, 0), at[0], at[1], at[2]};
  sn_kvalue *sum = sn_kb_load(&L->b, g->work, from, 0, NULL, NULL);
  from[0] = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 1), lower_const(L, g->n_splits), 1, 1, &sum, NULL, &inner);
  if (!from[0]) return;
  sn_kvalue *xs[2] = {&inner->regions[0]->params[0], sn_kb_load(&L->b, g->work, from, 0, NULL, NULL)};
  sn_kvalue *next = sn_kb_elt(&L->b, SN_OP_ADD, g->type, 2, xs);
  lower_end(L, 1, &next, inner);
  product_result_index(L, p, b, at[1], at[2], idx);
  store_results(L, g, idx, sn_knode_result(inner, 0));
  lower_end(L, 0, NULL, node);
}

static bool takes(sn_type t) { return sn_type_is_float(t); }

bool lower_gpu_product(lowering *L, const product *p) {
  gpu_product g;
  sn_type a = sn_operand_shape(p->dot, 0)->type, b = sn_operand_shape(p->dot, 1)->type, t = p->dot->shape->type;
  if (!takes(a) || !takes(b) || !takes(t)) return false;
  memset(&g, 0, sizeof g);
  g.p = p;
  g.type = a == SN_TYPE_F64 || b == SN_TYPE_F64 || t == SN_TYPE_F64 ? SN_TYPE_F64 : SN_TYPE_F32;
  g.tensor = g.type == SN_TYPE_F32 && sn_instr_int(p->dot, SN_ATTR_DOT_ALGORITHM) == SN_DOT_ALGORITHM_TF32_TF32_F32;
  for (uint32_t o = 0; o < 2; o++) g.along_k[o] = minor_is_contracted(p, o);
  choose_tiles(L, &g);
  add_buffers(L, &g);
  if (L->b.status == SN_OK) product_phase(L, &g);
  if (L->b.status == SN_OK && g.n_splits > 1) finish_phase(L, &g);
  return true;
}
