/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The product template for CUDA targets.
 *
 *   item (batch, row block, column block, split of k), a block of 256 threads:
 *     sums (a tile of registers, spread over the threads) = 0
 *     ask for the first S - 1 tiles of 64 bytes of terms (16 of tf32, 32 of 16 bits), each a group
 *     for each such step s:
 *       wait until the group of tile s has come, and for each other: tile (s - 1) mod S is free
 *       ask for tile s + S - 1
 *       sums += lhs * rhs of tile s mod S
 *   What is asked for is copied asynchronously where the operand lies in a parameter as it is multiplied, on 4 bytes at least, in S = 2 ... 4 stages as shared memory allows; else it goes
 *   to registers, prologue evaluated, in flight while the sums are formed, and behind them to its tile. Where neither operand is copied, S is 2.
 *     sums through shared memory (where the tiles were): epilogue, stores along rows
 *   with several splits: the sums to a workspace; whichever block is the last of a tile's to be done adds them in order and does the epilogue.
 *
 * A tile lies in shared memory as the operand lies in memory, so that both the copy's reads and its writes run along neighbours, four elements at once where the shape allows;
 * rows are padded so that the columns that the sums read fall into different banks. Beyond the matrix its last rows are read again: their sums are stored nowhere. Only terms
 * beyond k must be zero. Tensor cores where the program's algorithm asks (tf32, bf16), and for operands of bf16 and f16 as they are and of narrower floats, whose values tf32 holds
 * exactly. */
#include "lower_product.h"
#include "sinter/gpu_cost.h"

#include <string.h>

enum { RESERVE = 1024, THREADS = LOWER_GPU_LANES, MOST_STAGES = 4, CHUNK_BYTES = 16, ROW_BYTES = 64 /* a tile's terms of a row */, TOGETHER = 4 /* sums that a thread finishes as neighbours */ };

typedef struct gpu_product {
  const product *p;
  sn_gpu_product_schedule s;
  int64_t tile[2], m_blocks, n_blocks; /* tile: rows, columns */
  bool tensor, along_k[2];
  int64_t together[2];                 /* elements that a thread takes as neighbours, of lhs and rhs */
  int64_t terms, chunk;                /* of a tile; elements of 16 bytes */
  sn_type type, operand;               /* of sums, of tiles */
  bool copied[2];                      /* operands that go to shared memory as they are, asynchronously */
  int stages;                          /* tiles in a row: one is read, the others are filled */
  int64_t n_parts, part_rows;          /* the sums leave in so many parts of so many rows */
  int tiles[2], next[2], sums, staged, work;
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

static int64_t beyond(const gpu_product *g, int operand) { return operand ? g->p->n : g->p->m; }

/* Elements from one row of a tile to the next. */
static int64_t row_stride(const gpu_product *g, int operand) {
  if (g->along_k[operand]) return g->terms + (g->tensor ? g->chunk : 1);
  return g->tile[operand] + (g->tensor ? 8 : 0);
}

static int64_t tile_rows(const gpu_product *g, int operand) { return g->along_k[operand] ? g->tile[operand] : g->terms; }
static int64_t staged_columns(const gpu_product *g) { return g->tile[1] + (g->tensor ? 8 : 16); }

/* All of the sums at once where the tiles' place, or half of shared memory, holds them. */
static void choose_parts(const lowering *L, gpu_product *g) {
  int64_t each = (int64_t)sn_type_bytes(g->type), bytes = (int64_t)sn_type_bytes(g->operand), room = (L->target->l1_bytes ? L->target->l1_bytes : 48 << 10) / (g->s.rows * g->s.columns > 128 * 128 ? 1 : 2) - 2048, tiles = 0;
  for (int o = 0; o < 2; o++) tiles += g->stages * tile_rows(g, o) * row_stride(g, o) * bytes;
  if (tiles > room) room = tiles;
  for (g->n_parts = 1; g->n_parts < g->tile[0] / 32 && g->tile[0] / g->n_parts * staged_columns(g) * each > room; g->n_parts++) {
    while ((g->tile[0] / 32) % (g->n_parts + 1)) g->n_parts++;
  }
  g->part_rows = g->tile[0] / g->n_parts;
}

static bool is_multiple(const sn_ix *e, int64_t v) {
  if (e->kind == SN_IX_CONST) return e->value % v == 0;
  if (e->kind == SN_IX_ADD) return is_multiple(e->a, v) && is_multiple(e->b, v);
  return v == 1 || (e->kind == SN_IX_MUL && e->b->kind == SN_IX_CONST && e->b->value % v == 0);
}

/* Does the operand lie in a parameter as it is multiplied, groups of neighbours on as many bytes? */
static bool can_be_copied(lowering *L, const gpu_product *g, int o) {
  const product *p = g->p;
  const sn_ix *zero = lower_const(L, 0), *b[SN_MAX_RANK], *at[SN_MAX_RANK];
  int64_t v = g->together[o], step, term;
  int buffer;
  if (!g->tensor || v * (int64_t)sn_type_bytes(g->operand) < 4 || !product_find_operand(L, p, (uint32_t)o, &buffer, &step, &term)) return false;
  if (L->k->buffers[buffer].type != g->operand || (g->along_k[o] ? term : step) != 1 || (g->along_k[o] ? step : term) % v) return false;
  for (int i = -1; i < p->n_batch; i++) { /* where each matrix of the batch begins */
    const sn_ix *address;
    for (int k = 0; k < p->n_batch; k++) b[k] = k == i ? sn_ix_dim(L->k->ix, 1000002 + k, p->batch_dims[k]) : zero;
    if (!product_operand_index(L, p, (uint32_t)o, b, zero, zero, zero, at) || !product_address(L, product_side(p, (uint32_t)o), at, &address)) return false;
    if (!is_multiple(address, v)) return false;
  }
  return true;
}

/* As many as fit beside the blocks that a multiprocessor is taken to hold; three at least, if that costs no more than another block. */
static void choose_stages(const lowering *L, gpu_product *g) {
  int64_t bytes = 0, room = (L->target->l1_bytes ? L->target->l1_bytes : 48 << 10) - RESERVE;
  g->stages = 2;
  if (!g->copied[0] && !g->copied[1]) return;
  for (int o = 0; o < 2; o++) bytes += tile_rows(g, o) * row_stride(g, o) * (int64_t)sn_type_bytes(g->operand);
  for (int64_t blocks = g->s.resident; blocks > 0 && g->stages < 3; blocks--) {
    int64_t n = (room / blocks - RESERVE) / bytes;
    g->stages = n > MOST_STAGES ? MOST_STAGES : n < 2 ? 2 : (int)n;
  }
}

static void choose_tiles(lowering *L, gpu_product *g) {
  const product *p = g->p;
  sn_gpu_problem q = {p->batch, p->m, p->n, p->k, g->tensor, g->type == SN_TYPE_F64, g->terms, (int)sn_type_bytes(g->operand)};
  sn_gpu_choose_product(L->target, &q, &g->s);
  g->tile[0] = g->s.rows;
  g->tile[1] = g->s.columns;
  g->m_blocks = ceil_div(p->m, g->tile[0]);
  g->n_blocks = ceil_div(p->n, g->tile[1]);
  for (int o = 0; o < 2; o++) {
    int64_t minor = g->along_k[o] ? p->k : beyond(g, o);
    for (g->together[o] = g->chunk; minor % g->together[o];) g->together[o] /= 2;
  }
  for (int o = 0; o < 2; o++) g->copied[o] = can_be_copied(L, g, o);
  choose_stages(L, g);
  choose_parts(L, g);
}

static int add(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, memory, t, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

/* Turns in which the threads copy a tile; in the last one some may have nothing to do. */
static int64_t n_turns(const gpu_product *g, int operand) { return ceil_div(g->tile[operand] * g->terms, THREADS * g->together[operand]); }

static void add_buffers(lowering *L, gpu_product *g) {
  int64_t work[4] = {g->s.n_splits, g->p->batch, g->p->m, g->p->n};
  static const char *const names[] = {"lhs", "rhs"}, *const nexts[] = {"next_lhs", "next_rhs"};
  g->work = g->s.n_splits > 1 ? add(L, SN_KMEM_WORK, g->type, 4, work, "splits") : -1; /* arguments stand before tiles */
  for (int o = 0; o < 2; o++) {
    int64_t tile[3] = {g->stages, tile_rows(g, o), row_stride(g, o)}, next[2] = {THREADS, n_turns(g, o) * g->together[o]};
    g->tiles[o] = add(L, SN_KMEM_SCRATCH, g->operand, 3, tile, names[o]);
    g->next[o] = g->copied[o] ? -1 : add(L, SN_KMEM_REGISTER, g->operand, 2, next, nexts[o]);
  }
  int64_t staged[2] = {g->part_rows, staged_columns(g)}; /* padded: rows that a warp writes at once lie in different banks */
  g->staged = add(L, SN_KMEM_SCRATCH, g->type, 2, staged, "staged");
  g->sums = add(L, SN_KMEM_REGISTER, g->type, 2, g->tile, "sums");
}

/* ---- the tiles ---- */

static void guard_below(lowering *L, const sn_ix *e, int64_t end) {
  if (!e || e->hi < end) return;
  if (L->n_guards == LOWER_MAX_GUARDS) lower_fail(L, L->root, "too many conditions");
  else L->guards[L->n_guards++] = (sn_ix_guard){e, 0, end - 1};
}

static sn_kvalue *zero_beyond(lowering *L, sn_kvalue *v, const sn_ix *e, int64_t end) {
  sn_ix_guard below = {e, 0, end - 1};
  if (!v || e->hi < end) return v;
  sn_kvalue *xs[3] = {lower_guard_value(L, 1, &below), v, sn_kb_const_f64(&L->b, v->type, 0)};
  return sn_kb_elt(&L->b, SN_OP_SELECT, v->type, 3, xs);
}

/* A thread's element: which of the copy's groups of neighbours, which of the group; where in the tile, where in `next`. */
typedef struct place {
  const sn_ix *group, *major, *minor, *within, *slot[2];
  sn_knode *loops[3];
  int n_loops;
} place;

/* Row of the n-th 64 bytes that a turn copies. Eight threads write shared memory at once, two rows of 80 bytes: rows r and r + 4 lie in different banks, neighbours do not. */
static const sn_ix *row_of(lowering *L, const sn_ix *n) {
  sn_ix_context *x = L->k->ix;
  return sn_ix_add(x, sn_ix_mul(x, sn_ix_div(x, n, 8), lower_const(L, 8)), sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, n, 2), lower_const(L, 4)), sn_ix_mod(x, sn_ix_div(x, n, 2), 4)));
}

/* for each thread, turn, and neighbour if `each` */
static bool open_places(lowering *L, const gpu_product *g, int o, bool each, place *at) {
  sn_ix_context *x = L->k->ix;
  int64_t v = g->together[o], width = (g->along_k[o] ? g->terms : g->tile[o]) / v;
  const sn_ix *t = lower_for(L, SN_KLOOP_THREADS, 0, lower_const(L, 0), lower_const(L, THREADS), 1, 0, NULL, NULL, &at->loops[0]);
  const sn_ix *turn = t ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, n_turns(g, o)), 1, 0, NULL, NULL, &at->loops[1]) : NULL;
  const sn_ix *j = !turn ? NULL : each ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, v), 1, 0, NULL, NULL, &at->loops[2]) : lower_const(L, 0);
  at->n_loops = each ? 3 : 2;
  if (!j) return false;
  if (THREADS % width == 0) { /* then a thread's column is the same in each turn */
    const sn_ix *row = sn_ix_div(x, t, width);
    if (g->tensor && g->along_k[o] && v == g->chunk) row = row_of(L, row);
    at->major = sn_ix_add(x, sn_ix_mul(x, turn, lower_const(L, THREADS / width)), row);
    at->minor = sn_ix_mul(x, sn_ix_mod(x, t, width), lower_const(L, v));
  } else {
    const sn_ix *group = sn_ix_add(x, sn_ix_mul(x, turn, lower_const(L, THREADS)), t);
    at->major = sn_ix_div(x, group, width);
    at->minor = sn_ix_mul(x, sn_ix_mod(x, group, width), lower_const(L, v));
  }
  at->within = j;
  at->slot[0] = t;
  at->slot[1] = sn_ix_add(x, sn_ix_mul(x, turn, lower_const(L, v)), j);
  return at->minor != NULL;
}

static void close_places(lowering *L, const place *at) {
  for (int k = at->n_loops - 1; k >= 0; k--) lower_end(L, 0, NULL, at->loops[k]);
}

/* The last index at which a group of `v` may begin, again and again beyond the end. */
static const sn_ix *clamped(lowering *L, const sn_ix *e, int64_t end, int64_t v) { return e && e->hi > end - v ? sn_ix_min(L->k->ix, e, lower_const(L, end - v)) : e; }

/* Terms k0 … of the operand, from memory to registers. */
static void fetch(lowering *L, const gpu_product *g, int o, const sn_ix *const *b, const sn_ix *first, const sn_ix *k0) {
  sn_ix_context *x = L->k->ix;
  place at;
  if (!open_places(L, g, o, true, &at)) return;
  /* Groups of neighbours are moved as one, so that they stay neighbours. */
  int64_t v = g->together[o], end = g->along_k[o] ? g->p->k : beyond(g, o);
  const sn_ix *minor = sn_ix_add(x, g->along_k[o] ? k0 : first, at.minor), *major = sn_ix_add(x, g->along_k[o] ? first : k0, at.major);
  const sn_ix *term = g->along_k[o] ? minor : major, *zero = lower_const(L, 0), *in[SN_MAX_RANK];
  minor = sn_ix_add(x, clamped(L, minor, end, v), at.within);
  major = clamped(L, major, g->along_k[o] ? beyond(g, o) : g->p->k, 1);
  const sn_ix *row = g->along_k[o] ? major : minor, *k = g->along_k[o] ? minor : major;
  if (L->b.status == SN_OK && product_operand_index(L, g->p, (uint32_t)o, b, o ? zero : row, o ? row : zero, k, in)) {
    sn_kvalue *value = lower_value(L, product_side(g->p, (uint32_t)o), 0, in);
    if (g->p->k % g->terms) value = zero_beyond(L, value, term, g->p->k);
    if (value && value->type != g->operand) value = sn_kb_elt(&L->b, SN_OP_CONVERT, g->operand, 1, &value);
    sn_kb_store(&L->b, g->next[o], at.slot, 0, NULL, value);
  }
  close_places(L, &at);
}

/* Terms k0 … straight to the tile of a stage, if `wanted` lies below zero: else zeros, which nobody reads. */
static void copy(lowering *L, const gpu_product *g, int o, const sn_ix *const *b, const sn_ix *first, const sn_ix *k0, const sn_ix *stage, const sn_ix *wanted) {
  sn_ix_context *x = L->k->ix;
  place at;
  int buffer;
  if (!open_places(L, g, o, false, &at)) return;
  int64_t v = g->together[o];
  const sn_ix *minor = sn_ix_add(x, g->along_k[o] ? k0 : first, at.minor), *major = sn_ix_add(x, g->along_k[o] ? first : k0, at.major), *in[SN_MAX_RANK];
  const sn_ix *row = g->along_k[o] ? clamped(L, major, beyond(g, o), 1) : clamped(L, minor, beyond(g, o), v), *k = g->along_k[o] ? minor : major;
  const sn_ix *zero = lower_const(L, 0), *to[3] = {stage, at.major, at.minor};
  sn_ix_guard guards[2];
  if (L->b.status == SN_OK && product_operand_index(L, g->p, (uint32_t)o, b, o ? zero : row, o ? row : zero, k, in) && product_param(L, product_side(g->p, (uint32_t)o), in, &buffer)) {
    const sn_ix *rows = sn_ix_max(x, zero, sn_ix_min(x, lower_const(L, 1), sn_ix_sub(x, lower_const(L, tile_rows(g, o)), at.major)));
    sn_kcopy c = {{g->tiles[o], to, {0, 1}}, {buffer, in, {0, 1}}, rows, lower_const(L, v), true};
    int n = 0;
    if (wanted && wanted->hi >= 0) guards[n++] = (sn_ix_guard){wanted, wanted->lo, -1};
    if (g->p->k % g->terms) guards[n++] = (sn_ix_guard){k, 0, g->p->k - 1};
    sn_kb_copy_guarded(&L->b, &c, n, guards);
  }
  close_places(L, &at);
}

/* From registers to the tile. */
static void put(lowering *L, const gpu_product *g, int o, const sn_ix *stage) {
  place at;
  if (!open_places(L, g, o, true, &at)) return;
  const sn_ix *to[3] = {stage, at.major, sn_ix_add(L->k->ix, at.minor, at.within)};
  int before = L->n_guards;
  guard_below(L, at.major, tile_rows(g, o));
  sn_kb_store(&L->b, g->tiles[o], to, L->n_guards - before, &L->guards[before], sn_kb_load(&L->b, g->next[o], at.slot, 0, NULL, NULL));
  L->n_guards = before;
  close_places(L, &at);
}

static void contract(lowering *L, const gpu_product *g, bool clear, const sn_ix *stage) {
  const sn_ix *zero = lower_const(L, 0), *at[3] = {stage, zero, zero}, *origin[2] = {zero, zero};
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.acc = (sn_ktile){g->sums, origin, {g->tile[1], 1}};
  c.a = (sn_ktile){g->tiles[0], at, {g->along_k[0] ? row_stride(g, 0) : 1, g->along_k[0] ? 1 : row_stride(g, 0)}};
  c.b = (sn_ktile){g->tiles[1], at, {g->along_k[1] ? 1 : row_stride(g, 1), g->along_k[1] ? row_stride(g, 1) : 1}};
  c.m = lower_const(L, g->tile[0]);
  c.n = lower_const(L, g->tile[1]);
  c.k = lower_const(L, clear ? 0 : g->terms);
  c.mr = (int)g->tile[0];
  c.nr = (int)g->tile[1];
  c.accumulate = !clear;
  c.algorithm = sn_instr_int(g->p->dot, SN_ATTR_DOT_ALGORITHM);
  if (g->tensor) c.algorithm = g->operand == SN_TYPE_F32 ? SN_DOT_ALGORITHM_TF32_TF32_F32 : g->operand == SN_TYPE_BF16 ? SN_DOT_ALGORITHM_BF16_BF16_F32 : SN_DOT_ALGORITHM_F16_F16_F32;
  sn_kb_contract(&L->b, &c);
}

/* ---- the sums ---- */

/* The sums leave the registers in parts, by way of shared memory: the epilogue then stands once a part and runs along rows. In a part, thread t holds in its
 * register e (of tensor cores: 2 e + c) the sum of staged row *i and column *j; plain sums lie in steps of 16, those of tensor cores as mma.m16n8k8 lays them out, 2 x 4 warps. */
static void staged_position(lowering *L, const gpu_product *g, const sn_ix *t, const sn_ix *e, const sn_ix *c, const sn_ix **i, const sn_ix **j) {
  sn_ix_context *x = L->k->ix;
  int64_t n = g->tile[1] / 16;
  if (!g->tensor) {
    *i = sn_ix_add(x, sn_ix_div(x, t, 16), sn_ix_mul(x, sn_ix_div(x, e, n), lower_const(L, 16)));
    *j = sn_ix_add(x, sn_ix_mod(x, t, 16), sn_ix_mul(x, sn_ix_mod(x, e, n), lower_const(L, 16)));
    return;
  }
  const sn_ix *warp = sn_ix_div(x, t, 32), *lower = sn_ix_mod(x, e, 2), *piece = sn_ix_div(x, e, 2); /* 16 x 8 */
  int64_t across = g->tile[1] / 32;
  *i = sn_ix_add(x, sn_ix_add(x, sn_ix_mul(x, sn_ix_div(x, warp, 4), lower_const(L, g->part_rows / 2)), sn_ix_mul(x, sn_ix_div(x, piece, across), lower_const(L, 16))),
                 sn_ix_add(x, sn_ix_div(x, sn_ix_mod(x, t, 32), 4), sn_ix_mul(x, lower, lower_const(L, 8))));
  *j = sn_ix_add(x, sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, warp, 4), lower_const(L, g->tile[1] / 4)), sn_ix_mul(x, sn_ix_mod(x, piece, across), lower_const(L, 8))),
                 sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, t, 4), lower_const(L, 2)), c));
}

/* Row of the tile that staged row i of a part is: of tensor cores, each half of the warps gives a piece of its own. */
static const sn_ix *tile_row(lowering *L, const gpu_product *g, const sn_ix *part, const sn_ix *i) {
  sn_ix_context *x = L->k->ix;
  int64_t half = g->part_rows / 2;
  if (g->n_parts == 1) return i;
  if (!g->tensor) return sn_ix_add(x, sn_ix_mul(x, part, lower_const(L, g->part_rows)), i);
  return sn_ix_add(x, sn_ix_mul(x, sn_ix_div(x, i, half), lower_const(L, g->tile[0] / 2)), sn_ix_add(x, sn_ix_mul(x, part, lower_const(L, half)), sn_ix_mod(x, i, half)));
}

static bool stage(lowering *L, const gpu_product *g, const sn_ix *part) {
  sn_knode *threads, *slots, *pair;
  int64_t together = g->tensor ? 2 : 1; /* columns that lie side by side */
  const sn_ix *t = lower_for(L, SN_KLOOP_THREADS, 0, lower_const(L, 0), lower_const(L, THREADS), 1, 0, NULL, NULL, &threads);
  const sn_ix *e = t ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, g->part_rows * g->tile[1] / THREADS / together), 1, 0, NULL, NULL, &slots) : NULL;
  const sn_ix *c = e ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, together), 1, 0, NULL, NULL, &pair) : NULL;
  const sn_ix *to[2], *from[2];
  if (!c) return false;
  staged_position(L, g, t, e, c, &to[0], &to[1]);
  from[0] = tile_row(L, g, part, to[0]);
  from[1] = to[1];
  sn_kb_store(&L->b, g->staged, to, 0, NULL, sn_kb_load(&L->b, g->sums, from, 0, NULL, NULL));
  lower_end(L, 0, NULL, pair);
  lower_end(L, 0, NULL, slots);
  lower_end(L, 0, NULL, threads);
  return L->b.status == SN_OK;
}

/* The dot's element at idx is `sum`: results of the fusion from it, under the open guards. */
static void store_results(lowering *L, const gpu_product *g, const sn_ix *const *idx, sn_kvalue *sum) {
  const sn_ix *out[SN_MAX_RANK];
  if (sum && sum->type != g->p->dot->shape->type) sum = sn_kb_elt(&L->b, SN_OP_CONVERT, g->p->dot->shape->type, 1, &sum);
  if (!sum) return;
  L->pinned = g->p->dot; /* results that have other dimensions do not find back to idx as it is written */
  L->pinned_value = sum;
  for (int k = 0; k < L->n_outputs && L->b.status == SN_OK; k++) {
    if (!product_forward_index(L, g->p, L->outputs[k], idx, out)) {
      lower_fail(L, L->outputs[k], "a result of the fusion whose elements are not those of its product");
      break;
    }
    sn_kb_store(&L->b, L->output_buffer[k], out, L->n_guards, L->guards, lower_value(L, L->outputs[k], L->output_index[k], out));
  }
  L->pinned = NULL;
}

static void give_sums(lowering *L, const gpu_product *g, const sn_ix *const *b, const sn_ix *flat_b, const sn_ix *split, const sn_ix *m0, const sn_ix *n0) {
  sn_ix_context *x = L->k->ix;
  sn_knode *parts, *node;
  const sn_ix *part = lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, g->n_parts), 1, 0, NULL, NULL, &parts);
  if (!part || !stage(L, g, part)) return;
  const sn_ix *e = lower_for(L, SN_KLOOP_VECTOR, THREADS, lower_const(L, 0), lower_const(L, g->part_rows * g->tile[1]), 1, 0, NULL, NULL, &node);
  const sn_ix *at[2], *idx[SN_MAX_RANK];
  if (!e) return;
  at[0] = sn_ix_div(x, e, g->tile[1]);
  at[1] = sn_ix_mod(x, e, g->tile[1]);
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

/* Steps of the split that begins at `start`; the last one may be short. */
static const sn_ix *n_steps(lowering *L, const gpu_product *g, const sn_ix *start) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *all = lower_const(L, g->s.split / g->terms);
  if (g->s.n_splits * g->s.split < g->p->k + g->terms) return all;
  return sn_ix_min(x, all, sn_ix_div(x, sn_ix_add(x, sn_ix_sub(x, lower_const(L, g->p->k), start), lower_const(L, g->terms - 1)), g->terms));
}

typedef struct walk {
  const gpu_product *g;
  const sn_ix *const *b, *origins[2], *start, *steps;
} walk;

static bool is_async(const gpu_product *g) { return g->copied[0] || g->copied[1]; }

/* The terms of step s: their copies begin, or they go to registers. Behind the last step nothing is copied, but registers take its terms once more, for nobody. */
static void ask(lowering *L, const walk *w, const sn_ix *s) {
  sn_ix_context *x = L->k->ix;
  const gpu_product *g = w->g;
  const sn_ix *terms = lower_const(L, g->terms), *last = sn_ix_sub(x, w->steps, lower_const(L, 1));
  for (int o = 0; o < 2; o++) {
    if (g->copied[o]) copy(L, g, o, w->b, w->origins[o], sn_ix_add(x, w->start, sn_ix_mul(x, s, terms)), sn_ix_mod(x, s, g->stages), sn_ix_sub(x, s, w->steps));
    else fetch(L, g, o, w->b, w->origins[o], sn_ix_add(x, w->start, sn_ix_mul(x, sn_ix_min(x, s, last), terms)));
  }
  if (is_async(g)) sn_kb_commit(&L->b);
}

/* What went to registers lies in the tile of its stage. */
static void arrive(lowering *L, const walk *w, const sn_ix *s) {
  for (int o = 0; o < 2; o++) {
    if (!w->g->copied[o]) put(L, w->g, o, sn_ix_mod(L->k->ix, s, w->g->stages));
  }
}

static void product_phase(lowering *L, const gpu_product *g) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 3];
  const sn_ix *b[SN_MAX_RANK], *flat_b = lower_const(L, 0);
  sn_knode *node;
  int n_batch = g->p->n_batch;
  for (int i = 0; i < n_batch; i++) grid[i] = g->p->batch_dims[i];
  grid[n_batch] = g->m_blocks;
  grid[n_batch + 1] = g->n_blocks;
  grid[n_batch + 2] = g->s.n_splits;
  if (!lower_phase(L, n_batch + 3, grid)) return;
  for (int i = 0; i < n_batch; i++) {
    b[i] = lower_grid(L, i);
    flat_b = sn_ix_add(x, sn_ix_mul(x, flat_b, lower_const(L, g->p->batch_dims[i])), b[i]);
  }
  const sn_ix *m0 = sn_ix_mul(x, lower_grid(L, n_batch), lower_const(L, g->tile[0])), *n0 = sn_ix_mul(x, lower_grid(L, n_batch + 1), lower_const(L, g->tile[1]));
  const sn_ix *split = lower_grid(L, n_batch + 2), *start = sn_ix_mul(x, split, lower_const(L, g->s.split)), *steps = n_steps(L, g, start), *zero = lower_const(L, 0);
  walk w = {g, b, {m0, n0}, start, steps};
  contract(L, g, true, zero);
  for (int s = 0; s < g->stages - 1; s++) {
    ask(L, &w, lower_const(L, s));
    arrive(L, &w, lower_const(L, s));
  }
  const sn_ix *s = lower_for(L, SN_KLOOP_SEQ, 0, zero, steps, 1, 0, NULL, NULL, &node);
  if (!s) return;
  const sn_ix *ahead = sn_ix_add(x, s, lower_const(L, g->stages - 1));
  if (is_async(g)) sn_kb_wait(&L->b, g->stages - 2);
  ask(L, &w, ahead);
  contract(L, g, false, sn_ix_mod(x, s, g->stages));
  arrive(L, &w, ahead);
  lower_end(L, 0, NULL, node);
  if (is_async(g)) sn_kb_wait(&L->b, 0);
  give_sums(L, g, b, flat_b, split, m0, n0);
}

/* The sum of all splits of one element, in their order. */
static sn_kvalue *sum_of_splits(lowering *L, const gpu_product *g, const sn_ix *flat_b, const sn_ix *row, const sn_ix *column) {
  const sn_ix *from[4] = {lower_const(L, 0), flat_b, row, column};
  sn_kvalue *xs[2] = {sn_kb_load(&L->b, g->work, from, 0, NULL, NULL), NULL};
  for (int64_t s = 1; s < g->s.n_splits; s++) {
    from[0] = lower_const(L, s);
    xs[1] = sn_kb_load(&L->b, g->work, from, 0, NULL, NULL);
    xs[0] = sn_kb_elt(&L->b, SN_OP_ADD, g->type, 2, xs);
  }
  return xs[0];
}

/* Do all results have the product's own dimensions? Then neighbours stay neighbours. */
static bool keeps_places(const lowering *L, const product *p) {
  for (int k = 0; k < L->n_outputs; k++) {
    if (!sn_shape_equal(lower_output_shape(L, k), p->dot->shape, SN_EQ_IGNORE_TYPE)) return false;
  }
  return true;
}

/* An element of the tile, at row, column. Groups of v neighbours are moved as one; beyond the matrix the last ones are taken again. */
typedef struct tile_walk {
  const sn_ix *row, *column, *inner_row, *inner_column;
  sn_knode *loops[3];
  int n_loops;
} tile_walk;

/* for each thread, turn, neighbour; single ones in one loop. */
static bool open_tile(lowering *L, const gpu_product *g, int64_t v, tile_walk *w) {
  sn_ix_context *x = L->k->ix;
  int64_t across = g->tile[1] / v, groups = g->tile[0] * across;
  const sn_ix *m0 = sn_ix_mul(x, lower_grid(L, g->p->n_batch), lower_const(L, g->tile[0])), *n0 = sn_ix_mul(x, lower_grid(L, g->p->n_batch + 1), lower_const(L, g->tile[1]));
  const sn_ix *group, *j = lower_const(L, 0);
  w->n_loops = v == 1 ? 1 : 3;
  if (v == 1) {
    group = lower_for(L, SN_KLOOP_VECTOR, THREADS, j, lower_const(L, groups), 1, 0, NULL, NULL, &w->loops[0]);
  } else {
    const sn_ix *t = lower_for(L, SN_KLOOP_THREADS, 0, j, lower_const(L, THREADS), 1, 0, NULL, NULL, &w->loops[0]);
    const sn_ix *turn = t ? lower_for(L, SN_KLOOP_SEQ, 0, j, lower_const(L, groups / THREADS), 1, 0, NULL, NULL, &w->loops[1]) : NULL;
    group = sn_ix_add(x, sn_ix_mul(x, turn, lower_const(L, THREADS)), t);
    j = turn ? lower_for(L, SN_KLOOP_UNROLL, 0, j, lower_const(L, v), 1, 0, NULL, NULL, &w->loops[2]) : NULL;
  }
  if (!group || !j) return false;
  w->row = sn_ix_add(x, m0, sn_ix_div(x, group, across));
  w->column = sn_ix_add(x, n0, sn_ix_mul(x, sn_ix_mod(x, group, across), lower_const(L, v)));
  w->inner_row = clamped(L, w->row, g->p->m, 1);
  w->inner_column = sn_ix_add(x, clamped(L, w->column, g->p->n, v), j);
  return true;
}

/* A tile, when the blocks of all its splits are done. */
static void finish_phase(lowering *L, const gpu_product *g) {
  const product *p = g->p;
  const sn_ix *b[SN_MAX_RANK], *idx[SN_MAX_RANK], *out[SN_MAX_RANK], *flat_b = lower_const(L, 0);
  int64_t grid[SN_MAX_RANK + 2];
  tile_walk w;
  for (int i = 0; i < p->n_batch; i++) grid[i] = p->batch_dims[i];
  grid[p->n_batch] = g->m_blocks;
  grid[p->n_batch + 1] = g->n_blocks;
  sn_kphase *phase = lower_phase(L, p->n_batch + 2, grid);
  if (!phase) return;
  phase->finishes = true;
  for (int i = 0; i < p->n_batch; i++) {
    b[i] = lower_grid(L, i);
    flat_b = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, flat_b, lower_const(L, p->batch_dims[i])), b[i]);
  }
  if (!open_tile(L, g, keeps_places(L, p) && p->n % TOGETHER == 0 ? TOGETHER : 1, &w)) return;
  sn_kvalue *sum = sum_of_splits(L, g, flat_b, w.inner_row, w.inner_column);
  if (sum && sum->type != p->dot->shape->type) sum = sn_kb_elt(&L->b, SN_OP_CONVERT, p->dot->shape->type, 1, &sum);
  product_result_index(L, p, b, w.inner_row, w.inner_column, idx);
  L->pinned = sum ? p->dot : NULL;
  L->pinned_value = sum;
  int before = L->n_guards;
  for (int k = 0; k < L->n_outputs && L->b.status == SN_OK; k++) {
    if (!product_forward_index(L, p, L->outputs[k], idx, out)) lower_fail(L, L->outputs[k], "a result of the fusion whose elements are not those of its product");
    sn_kvalue *value = lower_value(L, L->outputs[k], L->output_index[k], out);
    guard_below(L, w.row, p->m);
    guard_below(L, w.column, p->n);
    sn_kb_store(&L->b, L->output_buffer[k], out, L->n_guards, L->guards, value);
    L->n_guards = before;
  }
  L->pinned = NULL;
  for (int k = w.n_loops - 1; k >= 0; k--) lower_end(L, 0, NULL, w.loops[k]);
}

/* At most 10 bits of mantissa and 8 of exponent. */
static bool exact_in_tf32(sn_type t) { return sn_type_is_float(t) && t != SN_TYPE_F32 && t != SN_TYPE_F64; }

static bool takes(sn_type t) { return sn_type_is_float(t); }

/* What tensor cores would multiply; SN_TYPE_INVALID: the product is not for them. */
static sn_type tensor_type(sn_type a, sn_type b, int64_t algorithm) {
  if (a == b && (a == SN_TYPE_BF16 || a == SN_TYPE_F16)) return a;
  if (algorithm == SN_DOT_ALGORITHM_BF16_BF16_F32 && a == SN_TYPE_F32 && b == SN_TYPE_F32) return SN_TYPE_BF16;
  return algorithm == SN_DOT_ALGORITHM_TF32_TF32_F32 || (exact_in_tf32(a) && exact_in_tf32(b)) ? SN_TYPE_F32 : SN_TYPE_INVALID;
}

bool lower_gpu_product(lowering *L, const product *p) {
  gpu_product g;
  sn_type a = sn_operand_shape(p->dot, 0)->type, b = sn_operand_shape(p->dot, 1)->type, t = p->dot->shape->type;
  if (!takes(a) || !takes(b) || !takes(t)) return false;
  memset(&g, 0, sizeof g);
  g.p = p;
  g.type = a == SN_TYPE_F64 || b == SN_TYPE_F64 || t == SN_TYPE_F64 ? SN_TYPE_F64 : SN_TYPE_F32;
  g.operand = g.type == SN_TYPE_F32 ? tensor_type(a, b, sn_instr_int(p->dot, SN_ATTR_DOT_ALGORITHM)) : SN_TYPE_INVALID;
  g.tensor = g.operand != SN_TYPE_INVALID;
  if (!g.tensor) g.operand = g.type;
  g.chunk = CHUNK_BYTES / (int64_t)sn_type_bytes(g.operand);
  g.terms = g.type == SN_TYPE_F64 ? 16 : ROW_BYTES / (int64_t)sn_type_bytes(g.operand);
  for (uint32_t o = 0; o < 2; o++) g.along_k[o] = minor_is_contracted(p, o);
  choose_tiles(L, &g);
  add_buffers(L, &g);
  if (L->b.status == SN_OK) product_phase(L, &g);
  if (L->b.status == SN_OK && g.s.n_splits > 1) finish_phase(L, &g);
  return true;
}
