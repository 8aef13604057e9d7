/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The attention template for CUDA targets: what lower_attention.c does in a core's cache, in a multiprocessor's shared memory and registers. A block has 256 threads.
 *
 *   forward    item: a head of a batch, a run of blocks of 32 or 64 rows (queries)
 *     k, v of all keys -> shared memory, where they stay
 *     for each block of rows:
 *       q -> shared memory      sums (registers) = q k^T -> scores (shared memory)
 *       a warp a row: the maximum; e = exp(x - maximum) in place of the scores; its sum
 *       sums = e v -> shared memory, from where the epilogue stores along rows
 *   where k and v of all keys do not fit: v comes to lie where k was; else tiles of keys, twice: maxima first, then e, its sums and its product with v
 *
 *   backward   item: a head
 *     dk, dv (registers) = 0
 *     for each block of rows:
 *       q, do -> shared memory      scores = q k^T, dp = do v^T as above
 *       a warp a row: p = exp(x - log-sum-exp), the row's sum of p dp; ds and p, for the products
 *       dv += p^T do      dk += ds^T q      dq = ds k, stored
 *   where that does not fit, two phases: dq by blocks of rows, which walk tiles of keys (first for the sum of p dp, kept in a workspace); dk and dv by tiles of keys, which
 *   walk blocks of rows. Nothing is summed across items.
 *
 * Everything elementwise is what the fusion's body says, lowered with the products' results found in the tiles. How it is cut passes/cost/gpu_attention.c chooses. Rows and keys
 * beyond the last are zero in shared memory, so that they add nothing; their results are not stored. After Dao et al., "FlashAttention" (2022), without its running rescaling. */
#include "lower_attention.h"
#include "sinter/gpu_cost.h"

#include <stdarg.h>
#include <string.h>

enum { THREADS = LOWER_GPU_LANES, WARP = 32, MAX_REDUCTIONS = 4 };

typedef struct row_reduction {
  const sn_instr *instr;
  sn_opcode op;
  bool behind_exp;
  int tile;               /* [2][row]: tiles of keys in turn read one and write the other */
  int work;               /* [batch…][row], where a second phase wants it; -1 */
} row_reduction;

typedef struct gpu_attention {
  attention *r;
  sn_gpu_attention_schedule s;
  bool tensor;
  int64_t n_blocks;
  int q, d_out, k, v;     /* operands in shared memory; -1: none */
  int scores, dp;         /* [row][key] in shared memory */
  int score_sums, row_sums, dk_sums, dv_sums; /* in registers */
  int staged_rows, staged_dk, staged_dv;      /* sums on their way out */
  int n_reductions;
  row_reduction reductions[MAX_REDUCTIONS];
  const sn_ix *r0, *n_rows, *k0, *n_keys; /* the open item, block of rows and tile of keys */
} gpu_attention;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* ---- tiles ---- */

static int add(lowering *L, sn_kmemory memory, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, memory, SN_TYPE_F32, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static int add_tile(lowering *L, sn_kmemory memory, int64_t rows, int64_t columns, const char *name) {
  int64_t dims[2] = {rows, columns};
  return add(L, memory, 2, dims, name);
}

static int64_t width(const sn_instr *i) { return round_up(attention_last_dim(i), 32); }

/* What is read along its rows, by 8 of them and 4 neighbours at once, has rows 4 banks apart (plain: 1); what is read across them 8. */
static int add_operand(lowering *L, const gpu_attention *g, int64_t rows, const sn_instr *i, bool across, const char *name) {
  return add_tile(L, SN_KMEM_SCRATCH, rows, width(i) + (g->tensor ? across ? 8 : 4 : across ? 0 : 1), name);
}

static int add_sums(lowering *L, int64_t rows, const sn_instr *i, const char *name) { return add_tile(L, SN_KMEM_REGISTER, rows, width(i), name); }
static int add_staged(lowering *L, int64_t rows, const sn_instr *i, const char *name) { return add_tile(L, SN_KMEM_SCRATCH, rows, width(i) + 8, name); }

static void add_reductions(lowering *L, gpu_attention *g) {
  for (int k = 0; k < g->n_reductions; k++) { /* arguments stand before tiles */
    row_reduction *d = &g->reductions[k];
    d->work = -1;
    if (g->s.two_phases && d->behind_exp) d->work = add(L, SN_KMEM_WORK, d->instr->shape->rank, d->instr->shape->dims, d->instr->name);
  }
  for (int k = 0; k < g->n_reductions; k++) g->reductions[k].tile = add_tile(L, SN_KMEM_SCRATCH, 2, g->s.rows, g->reductions[k].op == SN_OP_ADD ? "row_sum" : "row_max");
}

static void add_buffers(lowering *L, gpu_attention *g) {
  const attention *r = g->r;
  const sn_instr *q = sn_instr_operand(r->scores, 0), *k = sn_instr_operand(r->scores, 1), *of_rows = r->out ? r->out : r->dq;
  int64_t rows = g->s.rows, keys = g->s.keys, apart = g->tensor ? 4 : 1;
  add_reductions(L, g);
  g->k = add_operand(L, g, keys, k, false, "k_tile");
  g->v = r->dp ? g->s.by_turns ? g->k : add_operand(L, g, keys, sn_instr_operand(r->dp, 1), false, "v_tile")
         : r->out ? add_operand(L, g, keys, sn_instr_operand(r->out, 1), true, "v_tile") : -1;
  g->q = add_operand(L, g, rows, q, false, "q_tile");
  g->d_out = r->dp ? add_operand(L, g, rows, sn_instr_operand(r->dp, 0), false, "do_tile") : -1;
  g->scores = add_tile(L, SN_KMEM_SCRATCH, rows, keys + apart, "scores");
  g->dp = r->dp ? add_tile(L, SN_KMEM_SCRATCH, rows, keys + apart, "dscores") : -1;
  g->score_sums = add_tile(L, SN_KMEM_REGISTER, rows, keys, "score_sums");
  g->row_sums = of_rows ? add_sums(L, rows, of_rows, r->out ? "out_sums" : "dq_sums") : -1;
  g->staged_rows = of_rows ? add_staged(L, rows, of_rows, "staged") : -1;
  g->dk_sums = r->dk ? add_sums(L, keys, r->dk, "dk_sums") : -1;
  g->dv_sums = r->dv ? add_sums(L, keys, r->dv, "dv_sums") : -1;
  g->staged_dk = r->dk ? add_staged(L, keys, r->dk, "staged_dk") : -1;
  g->staged_dv = r->dv ? add_staged(L, keys, r->dv, "staged_dv") : -1;
}

/* ---- loops and indices ---- */

/* A line above a loop, for readers of the kernel. */
static const char *heading(lowering *L, const char *format, ...) SN_PRINTF(2, 3);
static const char *heading(lowering *L, const char *format, ...) {
  char text[160];
  va_list ap;
  va_start(ap, format);
  vsnprintf(text, sizeof text, format, ap);
  va_end(ap);
  return sn_arena_string(L->arena, text);
}

static const sn_ix *with_heading(lowering *L, sn_kloop loop, const sn_ix *hi, const char *what, sn_knode **node) {
  L->b.comment = what;
  const sn_ix *x = lower_for(L, loop, 0, lower_const(L, 0), hi, 1, 0, NULL, NULL, node);
  L->b.comment = NULL;
  return x;
}

static const sn_ix *loop_threads(lowering *L, const sn_ix *hi, const char *what, sn_knode **node) { return with_heading(L, SN_KLOOP_THREADS, hi, what, node); }
static const sn_ix *loop_blocks(lowering *L, const sn_ix *hi, const char *what, sn_knode **node) { return with_heading(L, SN_KLOOP_SEQ, hi, what, node); }

static void guard_below(lowering *L, const sn_ix *e, int64_t n) {
  if (e && e->hi >= n) L->guards[L->n_guards++] = (sn_ix_guard){e, 0, n - 1};
}

/* [first, first + most) as far as n goes. */
static const sn_ix *length(lowering *L, const sn_ix *first, int64_t most, int64_t n) {
  return sn_ix_min(L->k->ix, lower_const(L, most), sn_ix_sub(L->k->ix, lower_const(L, n), first));
}

/* A thread's share of a tile of rows x columns, `together` neighbours at a time: for threads, for turns, for neighbours. */
typedef struct places {
  int64_t together;
  const sn_ix *row, *column, *within; /* the group's, and which of its neighbours */
  sn_knode *loops[3];
} places;

/* Turns whose values are on their way at once: many where registers are free, before sums of keys have begun. */
static int at_once(const gpu_attention *g) { return g->r->dp && g->r0 ? 2 : 8; }

static int64_t neighbours(const sn_instr *i) { return attention_last_dim(i) % 4 ? 1 : 4; }

static bool open_places(lowering *L, int64_t rows, int64_t columns, int64_t together, int at_once, const char *what, places *p) {
  sn_ix_context *x = L->k->ix;
  p->together = together;
  int64_t groups = columns / p->together, turns = ceil_div(rows * groups, THREADS);
  const sn_ix *t = loop_threads(L, lower_const(L, THREADS), what, &p->loops[0]);
  const sn_ix *turn = t ? lower_for(L, SN_KLOOP_UNROLL, turns > at_once ? at_once : 0, lower_const(L, 0), lower_const(L, turns), 1, 0, NULL, NULL, &p->loops[1]) : NULL;
  p->within = turn ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, p->together), 1, 0, NULL, NULL, &p->loops[2]) : NULL;
  if (!p->within) return false;
  if (THREADS % groups == 0) { /* then a thread's column is the same in each turn */
    p->row = sn_ix_add(x, sn_ix_mul(x, turn, lower_const(L, THREADS / groups)), sn_ix_div(x, t, groups));
    p->column = sn_ix_mul(x, sn_ix_mod(x, t, groups), lower_const(L, p->together));
  } else {
    const sn_ix *group = sn_ix_add(x, sn_ix_mul(x, turn, lower_const(L, THREADS)), t);
    p->row = sn_ix_div(x, group, groups);
    p->column = sn_ix_mul(x, sn_ix_mod(x, group, groups), lower_const(L, p->together));
  }
  return p->column != NULL;
}

static void close_places(lowering *L, const places *p) {
  for (int k = 2; k >= 0; k--) lower_end(L, 0, NULL, p->loops[k]);
}

static sn_kvalue *zero_beyond(lowering *L, sn_kvalue *v, const sn_ix *e, int64_t n) {
  if (!v || !e || e->hi < n) return v;
  sn_kvalue *below = sn_kb_compare(&L->b, SN_DIRECTION_LT, sn_kb_index(&L->b, SN_TYPE_S32, e), sn_kb_const_i64(&L->b, SN_TYPE_S32, n), false);
  return lower_select(L, below, v, sn_kb_const_f64(&L->b, SN_TYPE_F32, 0));
}

static const sn_ix *clamped(lowering *L, const sn_ix *e, int64_t most) { return e && e->hi > most ? sn_ix_min(L->k->ix, e, lower_const(L, most)) : e; }

/* Rows `first` … of operand i [batch, rows, columns] -> tile; zero beyond. What lies beyond is read from the last place that is none. */
static void fetch(lowering *L, const gpu_attention *g, int to, const sn_instr *i, const sn_ix *first) {
  sn_ix_context *x = L->k->ix;
  const int64_t *dims = i->shape->dims + g->r->n_batch;
  const sn_ix *idx[SN_MAX_RANK];
  places p;
  if (!open_places(L, L->k->buffers[to].dims[0], width(i), neighbours(i), at_once(g), heading(L, "%s -> %s: rounded for the products, zero beyond the last", i->name, L->k->buffers[to].name), &p)) return;
  const sn_ix *row = sn_ix_add(x, first, p.row), *column = p.column;
  attention_index(g->r, clamped(L, row, dims[0] - 1), sn_ix_add(x, clamped(L, column, dims[1] - p.together), p.within), idx);
  sn_kvalue *v = lower_convert(L, lower_value(L, i, 0, idx), SN_TYPE_F32);
  v = zero_beyond(L, zero_beyond(L, v, row, dims[0]), column, dims[1]);
  const sn_ix *at[2] = {p.row, sn_ix_add(x, column, p.within)};
  int before = L->n_guards;
  guard_below(L, p.row, L->k->buffers[to].dims[0]);
  sn_kb_store(&L->b, to, at, L->n_guards - before, &L->guards[before], v);
  L->n_guards = before;
  close_places(L, &p);
}

/* ---- products ---- */

/* A tile read as [i][k] (or [k][i] where `transposed`). */
static sn_ktile as_operand(const lowering *L, int buffer, const sn_ix *const *origin, bool transposed) {
  int64_t row = L->k->buffers[buffer].dims[1];
  return (sn_ktile){buffer, origin, {transposed ? 1 : row, transposed ? row : 1}};
}

/* sums += a b over k terms, from row `first` of both where they lie there; k 0: sums = 0. */
static void contract_from(lowering *L, const gpu_attention *g, int sums, int a, bool a_transposed, int b, bool b_transposed, const sn_ix *first, int64_t k) {
  const sn_ix *zero = lower_const(L, 0), *at[2] = {zero, zero}, *origin[2] = {first, zero};
  const int64_t *dims = L->k->buffers[sums].dims;
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.acc = (sn_ktile){sums, at, {dims[1], 1}};
  c.a = as_operand(L, a, origin, a_transposed);
  c.b = as_operand(L, b, origin, b_transposed);
  c.m = lower_const(L, dims[0]);
  c.n = lower_const(L, dims[1]);
  c.k = lower_const(L, k);
  c.mr = (int)dims[0];
  c.nr = (int)dims[1];
  c.accumulate = k != 0;
  c.exact = g->tensor; /* operands are rounded as they are stored, scores by as_factor */
  c.algorithm = g->tensor ? SN_DOT_ALGORITHM_TF32_TF32_F32 : SN_DOT_ALGORITHM_UNSET;
  sn_kb_contract(&L->b, &c);
}

static void contract(lowering *L, const gpu_attention *g, int sums, int a, bool a_transposed, int b, bool b_transposed, int64_t k) {
  contract_from(L, g, sums, a, a_transposed, b, b_transposed, lower_const(L, 0), k);
}

static void clear(lowering *L, const gpu_attention *g, int sums) { contract(L, g, sums, sums, false, sums, false, 0); }

/* Register e (of tensor cores 2 e + c) of thread t holds the sum of row *i and column *j: compiler/gpu/spread.c. */
static void sum_position(lowering *L, const gpu_attention *g, const int64_t *dims, const sn_ix *t, const sn_ix *e, const sn_ix *c, const sn_ix **i, const sn_ix **j) {
  sn_ix_context *x = L->k->ix;
  if (!g->tensor) {
    int64_t n = dims[1] / 16;
    *i = sn_ix_add(x, sn_ix_div(x, t, 16), sn_ix_mul(x, sn_ix_div(x, e, n), lower_const(L, 16)));
    *j = sn_ix_add(x, sn_ix_mod(x, t, 16), sn_ix_mul(x, sn_ix_mod(x, e, n), lower_const(L, 16)));
    return;
  }
  int64_t across = dims[1] / 32;
  const sn_ix *warp = sn_ix_div(x, t, 32), *lower = sn_ix_mod(x, e, 2), *piece = sn_ix_div(x, e, 2); /* 16 x 8 */
  *i = sn_ix_add(x, sn_ix_add(x, sn_ix_mul(x, sn_ix_div(x, warp, 4), lower_const(L, dims[0] / 2)), sn_ix_mul(x, sn_ix_div(x, piece, across), lower_const(L, 16))),
                 sn_ix_add(x, sn_ix_div(x, sn_ix_mod(x, t, 32), 4), sn_ix_mul(x, lower, lower_const(L, 8))));
  *j = sn_ix_add(x, sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, warp, 4), lower_const(L, dims[1] / 4)), sn_ix_mul(x, sn_ix_mod(x, piece, across), lower_const(L, 8))),
                 sn_ix_add(x, sn_ix_mul(x, sn_ix_mod(x, t, 4), lower_const(L, 2)), c));
}

/* Sums from the threads' registers to a tile in shared memory. */
static void give(lowering *L, const gpu_attention *g, int sums, int to) {
  sn_knode *threads, *slots, *pair;
  const int64_t *dims = L->k->buffers[sums].dims;
  int64_t together = g->tensor ? 2 : 1;
  const sn_ix *t = loop_threads(L, lower_const(L, THREADS), heading(L, "%s -> %s", L->k->buffers[sums].name, L->k->buffers[to].name), &threads), *at[2];
  const sn_ix *e = t ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, dims[0] * dims[1] / THREADS / together), 1, 0, NULL, NULL, &slots) : NULL;
  const sn_ix *c = e ? lower_for(L, SN_KLOOP_UNROLL, 0, lower_const(L, 0), lower_const(L, together), 1, 0, NULL, NULL, &pair) : NULL;
  if (!c) return;
  sum_position(L, g, dims, t, e, c, &at[0], &at[1]);
  sn_kb_store(&L->b, to, at, 0, NULL, sn_kb_load(&L->b, sums, at, 0, NULL, NULL));
  lower_end(L, 0, NULL, pair);
  lower_end(L, 0, NULL, slots);
  lower_end(L, 0, NULL, threads);
}

/* `dot`, of an operand of rows and one of keys, to a tile of scores. */
static void scores(lowering *L, const gpu_attention *g, const sn_instr *dot, int rows, int keys, int to) {
  const int dims[2] = {g->r->n_batch, g->r->n_batch + 1};
  const sn_ix *base[2] = {g->r0, g->k0};
  clear(L, g, g->score_sums);
  L->b.comment = dot->name;
  contract(L, g, g->score_sums, rows, false, keys, true, round_up(attention_last_dim(sn_instr_operand(dot, 0)), 8));
  L->b.comment = NULL;
  give(L, g, g->score_sums, to);
  lower_override(L, dot, 0, to, 2, dims, base);
}

/* ---- a row of scores, by a warp ---- */

static int count_reductions(const gpu_attention *g, bool behind_exp) {
  int n = 0;
  for (int k = 0; k < g->n_reductions; k++) n += g->reductions[k].behind_exp == behind_exp;
  return n;
}

static const sn_ix *open_rows(lowering *L, const gpu_attention *g, sn_knode **node) {
  const char *what = g->r->dp ? "a warp a row: the probabilities again, from its log-sum-exp; the derivative of the scores"
                              : "a warp a row: softmax, in place of its scores; the sum of the row divides the result later";
  return with_heading(L, SN_KLOOP_WARPS, g->n_rows, what, node);
}

/* For a product: tensor cores take tf32, to which nobody else rounds what stands in a tile that is read otherwise too. */
static sn_kvalue *as_factor(lowering *L, const gpu_attention *g, const sn_instr *i, sn_kvalue *v) {
  v = lower_convert(L, v, SN_TYPE_F32);
  if (!v || !g->tensor || i->shape->type != SN_TYPE_F32) return v;
  sn_kvalue *y = sn_kb_elt(&L->b, SN_OP_REDUCE_PRECISION, SN_TYPE_F32, 1, &v);
  if (y) y->node->exponent_bits = 8, y->node->mantissa_bits = 10;
  return y;
}

static void store_score(lowering *L, int tile, const sn_ix *i, const sn_ix *j, sn_kvalue *v) {
  const sn_ix *at[2] = {i, j};
  sn_kb_store(&L->b, tile, at, 0, NULL, v);
}

static const sn_ix *open_keys(lowering *L, const gpu_attention *g, sn_kvalue *const *start, const sn_opcode *op, sn_knode **node) {
  return lower_for(L, SN_KLOOP_VECTOR, WARP, lower_const(L, 0), g->n_keys, 1, start ? 1 : 0, start, op, node);
}

static sn_kvalue *reduction_start(lowering *L, const row_reduction *d) { return lower_convert(L, lower_value(L, sn_instr_operand(d->instr, 1), 0, NULL), SN_TYPE_F32); }

/* From `start` over the tile's keys. kept: the exponential, stored on the way in place of the scores, as a factor of a product or as it is. */
static sn_kvalue *reduce_row(lowering *L, gpu_attention *g, const row_reduction *d, const sn_ix *i, const sn_ix *row, sn_kvalue *start, bool keep, bool factor) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *node;
  const sn_ix *j = open_keys(L, g, &start, &d->op, &node);
  if (!j) return NULL;
  attention_index(g->r, row, sn_ix_add(L->k->ix, g->k0, j), idx);
  sn_kvalue *xs[2] = {&node->regions[0]->params[0], lower_convert(L, lower_value(L, sn_instr_operand(d->instr, 0), 0, idx), SN_TYPE_F32)};
  if (keep) {
    sn_kvalue *e = lower_value(L, g->r->exp, 0, idx);
    store_score(L, g->scores, i, j, factor ? as_factor(L, g, g->r->exp, e) : lower_convert(L, e, SN_TYPE_F32));
  }
  sn_kvalue *next = sn_kb_elt(&L->b, d->op, SN_TYPE_F32, 2, xs);
  lower_end(L, 1, &next, node);
  return L->b.status == SN_OK ? sn_knode_result(node, 0) : NULL;
}

static void remember_row(lowering *L, const gpu_attention *g, const row_reduction *d, const sn_ix *row, sn_kvalue *v) {
  const sn_ix *idx[SN_MAX_RANK];
  attention_index(g->r, row, NULL, idx);
  if (v) lower_remember(L, d->instr, 0, idx, lower_convert(L, v, d->instr->shape->type));
}

static sn_kvalue *load_row(lowering *L, const row_reduction *d, const sn_ix *which, const sn_ix *i) {
  const sn_ix *at[2] = {which, i};
  return sn_kb_load(&L->b, d->tile, at, 0, NULL, NULL);
}

static void store_row(lowering *L, const row_reduction *d, const sn_ix *which, const sn_ix *i, sn_kvalue *v) {
  const sn_ix *at[2] = {which, i};
  sn_kb_store(&L->b, d->tile, at, 0, NULL, v);
}

/* Afterwards the exponential is found in place of the scores. */
static void exp_is_kept(lowering *L, gpu_attention *g) {
  const int dims[2] = {g->r->n_batch, g->r->n_batch + 1};
  const sn_ix *base[2] = {g->r0, g->k0};
  lower_override(L, g->r->exp, 0, g->scores, 2, dims, base);
}

/* Is the exponential itself what the forward product takes? Its sum then divides the result. */
static bool takes_exp(const attention *r) { return r->out && r->p_out == r->exp; }

/* Factors of the products, in place. */
static void factors(lowering *L, const gpu_attention *g, const sn_ix *i, const sn_ix *row, const sn_instr *in_scores, const sn_instr *in_dp) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *node;
  sn_kvalue *p = NULL, *ds = NULL;
  const sn_ix *j = open_keys(L, g, NULL, NULL, &node);
  if (!j) return;
  attention_index(g->r, row, sn_ix_add(L->k->ix, g->k0, j), idx);
  if (in_dp) ds = as_factor(L, g, in_dp, lower_value(L, in_dp, 0, idx));
  if (in_scores) p = as_factor(L, g, in_scores, lower_value(L, in_scores, 0, idx));
  if (ds) store_score(L, g->dp, i, j, ds);
  if (p) store_score(L, g->scores, i, j, p);
  lower_end(L, 0, NULL, node);
}

/* All of a row at once: its reductions, then the factors. */
static void whole_rows(lowering *L, gpu_attention *g) {
  const attention *r = g->r;
  sn_knode *rows;
  const sn_ix *zero = lower_const(L, 0), *i = open_rows(L, g, &rows), *row = i ? sn_ix_add(L->k->ix, g->r0, i) : NULL;
  bool kept = false, factor = takes_exp(r) && count_reductions(g, true) == 1; /* nobody else reads it behind that sum */
  if (!row) return;
  for (int k = 0; k < g->n_reductions; k++) {
    const row_reduction *d = &g->reductions[k];
    sn_kvalue *v = reduce_row(L, g, d, i, row, reduction_start(L, d), d->behind_exp && !kept, factor);
    if (d->behind_exp && !kept) exp_is_kept(L, g);
    kept |= d->behind_exp;
    remember_row(L, g, d, row, v);
    if (!r->dp) store_row(L, d, zero, i, v);
  }
  if (!factor) factors(L, g, i, row, r->p_out ? r->p_out : r->p_dv, r->ds);
  lower_end(L, 0, NULL, rows);
}

/* ---- results ---- */

/* Rows `first` … of dot's sums, by way of shared memory; n_rows: how many there are in all. */
static void epilogue(lowering *L, const gpu_attention *g, const sn_instr *dot, int sums, int staged, const sn_ix *first, int64_t n_rows, const sn_ix *which) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *idx[SN_MAX_RANK];
  places p;
  give(L, g, sums, staged);
  if (!open_places(L, L->k->buffers[staged].dims[0], attention_last_dim(dot), neighbours(dot), 4, heading(L, "%s: what follows it, and to memory along its rows", dot->name), &p)) return;
  const sn_ix *row = sn_ix_add(x, first, p.row), *column = sn_ix_add(x, p.column, p.within), *at[2] = {p.row, column};
  int before = L->n_guards;
  guard_below(L, p.row, L->k->buffers[staged].dims[0]);
  guard_below(L, row, n_rows);
  attention_index(g->r, row, column, idx);
  at[0] = clamped(L, p.row, L->k->buffers[staged].dims[0] - 1);
  sn_kvalue *sum = sn_kb_load(&L->b, staged, at, 0, NULL, NULL);
  lower_remember(L, dot, 0, idx, lower_convert(L, sum, dot->shape->type));
  for (int k = 0; dot == g->r->out && k < g->n_reductions; k++) remember_row(L, g, &g->reductions[k], row, load_row(L, &g->reductions[k], which, at[0]));
  attention_store_results(L, g->r, dot, row, column);
  L->n_guards = before;
  close_places(L, &p);
}

/* Results that are a value a row, from the reductions. */
static void row_results(lowering *L, const gpu_attention *g, const sn_ix *which) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *node;
  bool any = false;
  for (int k = 0; k < L->n_outputs; k++) any |= attention_is_row_value(g->r, L->outputs[k]->shape);
  if (!any || g->r->dp) return;
  const sn_ix *i = loop_threads(L, g->n_rows, "a value a row, for the derivative", &node), *row = i ? sn_ix_add(L->k->ix, g->r0, i) : NULL;
  if (!row) return;
  attention_index(g->r, row, NULL, idx);
  for (int k = 0; k < g->n_reductions; k++) remember_row(L, g, &g->reductions[k], row, load_row(L, &g->reductions[k], which, i));
  for (int k = 0; k < L->n_outputs; k++) {
    if (attention_is_row_value(g->r, L->outputs[k]->shape)) sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
  lower_end(L, 0, NULL, node);
}

/* ---- tiles of keys ---- */

static void start_reductions(lowering *L, const gpu_attention *g, bool behind_exp) {
  sn_knode *node;
  const sn_ix *i = loop_threads(L, lower_const(L, g->s.rows), "reductions begin", &node);
  if (!i) return;
  for (int k = 0; k < g->n_reductions; k++) {
    if (g->reductions[k].behind_exp == behind_exp) store_row(L, &g->reductions[k], lower_const(L, 0), i, reduction_start(L, &g->reductions[k]));
  }
  lower_end(L, 0, NULL, node);
}

/* One more tile of each row: reductions of one kind go on, all others are known. keep: the exponential becomes a factor on the way; else in_scores and in_dp do, if asked for. */
static void tile_rows(lowering *L, gpu_attention *g, const sn_ix *tile, bool go_on, bool behind_exp, bool keep, const sn_instr *in_scores, const sn_instr *in_dp) {
  sn_ix_context *x = L->k->ix;
  sn_knode *rows;
  const sn_ix *i = open_rows(L, g, &rows), *row = i ? sn_ix_add(x, g->r0, i) : NULL, *last = lower_const(L, g->s.n_tiles % 2);
  if (!row) return;
  for (int k = 0; k < g->n_reductions; k++) {
    const row_reduction *d = &g->reductions[k];
    if (go_on && d->behind_exp == behind_exp) {
      sn_kvalue *v = reduce_row(L, g, d, i, row, load_row(L, d, sn_ix_mod(x, tile, 2), i), keep, keep);
      store_row(L, d, sn_ix_mod(x, sn_ix_add(x, tile, lower_const(L, 1)), 2), i, v);
    } else if (!d->behind_exp || !go_on) {
      remember_row(L, g, d, row, load_row(L, d, last, i));
    }
  }
  if (in_scores || in_dp) factors(L, g, i, row, in_scores, in_dp);
  lower_end(L, 0, NULL, rows);
}

/* for each tile of keys; its first and how many. */
static const sn_ix *open_tiles(lowering *L, gpu_attention *g, sn_knode **node) {
  const sn_ix *tile = loop_blocks(L, lower_const(L, g->s.n_tiles), "tiles of keys", node);
  if (!tile) return NULL;
  g->k0 = sn_ix_mul(L->k->ix, tile, lower_const(L, g->s.keys));
  g->n_keys = length(L, g->k0, g->s.keys, g->r->n_k);
  return tile;
}

/* k, and where scores of the derivative are wanted v, and both tiles of scores. */
static void tile_scores(lowering *L, gpu_attention *g) {
  fetch(L, g, g->k, sn_instr_operand(g->r->scores, 1), g->k0);
  if (g->r->dp) fetch(L, g, g->v, sn_instr_operand(g->r->dp, 1), g->k0);
  scores(L, g, g->r->scores, g->q, g->k, g->scores);
  if (g->r->dp) scores(L, g, g->r->dp, g->d_out, g->v, g->dp);
}

/* A pass over the keys in which reductions of one kind go on, and nothing else is done. */
static void reduction_pass(lowering *L, gpu_attention *g, bool behind_exp) {
  const lower_tile *outside = L->tiles;
  sn_knode *node;
  if (!count_reductions(g, behind_exp)) return;
  start_reductions(L, g, behind_exp);
  const sn_ix *tile = open_tiles(L, g, &node);
  if (!tile) return;
  tile_scores(L, g);
  tile_rows(L, g, tile, true, behind_exp, false, NULL, NULL);
  lower_end(L, 0, NULL, node);
  L->tiles = (lower_tile *)outside;
}

/* The last pass: factors, and their product with k or v. */
static void product_pass(lowering *L, gpu_attention *g) {
  const attention *r = g->r;
  const lower_tile *outside = L->tiles;
  sn_knode *node;
  bool keep = takes_exp(r);
  if (keep) start_reductions(L, g, true);
  clear(L, g, g->row_sums);
  const sn_ix *tile = open_tiles(L, g, &node);
  if (!tile) return;
  tile_scores(L, g);
  if (r->out) fetch(L, g, g->v, sn_instr_operand(r->out, 1), g->k0);
  tile_rows(L, g, tile, keep, true, keep, keep ? NULL : r->p_out, r->dq ? r->ds : NULL);
  contract(L, g, g->row_sums, r->out ? g->scores : g->dp, false, r->out ? g->v : g->k, false, g->s.keys);
  lower_end(L, 0, NULL, node);
  L->tiles = (lower_tile *)outside;
}

/* ---- items ---- */

static const sn_instr *q_of(const gpu_attention *g) { return sn_instr_operand(g->r->scores, 0); }
static const sn_instr *k_of(const gpu_attention *g) { return sn_instr_operand(g->r->scores, 1); }
static const sn_instr *v_of(const gpu_attention *g) { return sn_instr_operand(g->r->dp ? g->r->dp : g->r->out, 1); }

static bool open_phase(lowering *L, gpu_attention *g, int64_t parts) {
  int64_t grid[SN_MAX_RANK + 1];
  int n = g->r->n_batch;
  for (int k = 0; k < n; k++) grid[k] = g->r->batch_dims[k];
  grid[n] = parts;
  if (!lower_phase(L, n + 1, grid)) return false;
  for (int k = 0; k < n; k++) g->r->b[k] = lower_grid(L, k);
  g->k0 = lower_const(L, 0);
  g->n_keys = lower_const(L, g->r->n_k);
  g->r0 = NULL;
  return true;
}

static bool open_block(lowering *L, gpu_attention *g, const sn_ix *block) {
  g->r0 = sn_ix_mul(L->k->ix, block, lower_const(L, g->s.rows));
  g->n_rows = length(L, g->r0, g->s.rows, g->r->n_q);
  if (!g->n_rows) return false;
  fetch(L, g, g->q, q_of(g), g->r0);
  if (g->r->dp) fetch(L, g, g->d_out, sn_instr_operand(g->r->dp, 0), g->r0);
  return true;
}

static int64_t key_terms(const gpu_attention *g) { return g->s.n_tiles > 1 ? g->s.keys : round_up(g->r->n_k, 8); }

static void forward_block(lowering *L, gpu_attention *g) {
  const attention *r = g->r;
  const lower_tile *outside = L->tiles;
  if (!g->s.resident) fetch(L, g, g->k, k_of(g), g->k0);
  scores(L, g, r->scores, g->q, g->k, g->scores);
  whole_rows(L, g);
  row_results(L, g, lower_const(L, 0));
  if (!g->s.resident) fetch(L, g, g->v, v_of(g), g->k0);
  clear(L, g, g->row_sums);
  contract(L, g, g->row_sums, g->scores, false, g->v, false, key_terms(g));
  epilogue(L, g, r->out, g->row_sums, g->staged_rows, g->r0, r->n_q, lower_const(L, 0));
  L->tiles = (lower_tile *)outside;
}

static void forward(lowering *L, gpu_attention *g) {
  sn_ix_context *x = L->k->ix;
  sn_knode *node;
  int64_t parts = ceil_div(g->n_blocks, g->s.group);
  if (!open_phase(L, g, parts)) return;
  const sn_ix *first = lower_grid(L, g->r->n_batch);
  if (g->s.n_tiles > 1) {
    if (!open_block(L, g, first)) return;
    reduction_pass(L, g, false);
    if (!takes_exp(g->r)) reduction_pass(L, g, true);
    product_pass(L, g);
    const sn_ix *last = lower_const(L, g->s.n_tiles % 2);
    row_results(L, g, last);
    epilogue(L, g, g->r->out, g->row_sums, g->staged_rows, g->r0, g->r->n_q, last);
    return;
  }
  if (g->s.group == 1) {
    if (open_block(L, g, first)) forward_block(L, g);
    return;
  }
  fetch(L, g, g->k, k_of(g), g->k0);
  fetch(L, g, g->v, v_of(g), g->k0);
  first = sn_ix_mul(x, first, lower_const(L, g->s.group));
  const sn_ix *block = loop_blocks(L, length(L, first, g->s.group, g->n_blocks), "blocks of rows", &node);
  if (!block || !open_block(L, g, sn_ix_add(x, first, block))) return;
  forward_block(L, g);
  lower_end(L, 0, NULL, node);
}

/* sums += scores^T rows, a few rows at a time: these sums fill a thread's registers, so that few are left for fragments of many terms. */
static void sum_over_rows(lowering *L, const gpu_attention *g, int sums, int scores, int rows) {
  enum { AT_ONCE = 16 };
  sn_knode *node;
  const sn_ix *step = loop_blocks(L, lower_const(L, g->s.rows / AT_ONCE), NULL, &node);
  if (!step) return;
  contract_from(L, g, sums, scores, true, rows, false, sn_ix_mul(L->k->ix, step, lower_const(L, AT_ONCE)), AT_ONCE);
  lower_end(L, 0, NULL, node);
}

/* dv += p^T do, dk += ds^T q */
static void sums_over_rows(lowering *L, const gpu_attention *g) {
  if (g->r->dv) sum_over_rows(L, g, g->dv_sums, g->scores, g->d_out);
  if (g->r->dk) sum_over_rows(L, g, g->dk_sums, g->dp, g->q);
}

/* The sums over rows want rows that the tiles may not hold: another conversion of the same array, say. */
static void other_rows(lowering *L, const gpu_attention *g) {
  const attention *r = g->r;
  if (r->dv && sn_instr_operand(r->dv, 1) != sn_instr_operand(r->dp, 0)) fetch(L, g, g->d_out, sn_instr_operand(r->dv, 1), g->r0);
  if (r->dk && sn_instr_operand(r->dk, 1) != q_of(g)) fetch(L, g, g->q, sn_instr_operand(r->dk, 1), g->r0);
}

/* What leaves a tile of keys behind all blocks of rows. */
static void key_results(lowering *L, const gpu_attention *g) {
  const attention *r = g->r;
  if (r->dk) epilogue(L, g, r->dk, g->dk_sums, g->staged_dk, g->k0, r->n_k, NULL);
  if (r->dv) epilogue(L, g, r->dv, g->dv_sums, g->staged_dv, g->k0, r->n_k, NULL);
}

static void clear_key_sums(lowering *L, const gpu_attention *g) {
  if (g->r->dk) clear(L, g, g->dk_sums);
  if (g->r->dv) clear(L, g, g->dv_sums);
}

/* All keys at once. */
static void backward_whole(lowering *L, gpu_attention *g) {
  const attention *r = g->r;
  const lower_tile *outside = L->tiles;
  sn_knode *node;
  if (!open_phase(L, g, 1)) return;
  if (g->s.resident) {
    fetch(L, g, g->k, k_of(g), g->k0);
    fetch(L, g, g->v, v_of(g), g->k0);
  }
  clear_key_sums(L, g);
  const sn_ix *block = loop_blocks(L, lower_const(L, g->n_blocks), "blocks of rows", &node);
  if (!block || !open_block(L, g, block)) return;
  if (!g->s.resident) fetch(L, g, g->k, k_of(g), g->k0);
  scores(L, g, r->scores, g->q, g->k, g->scores);
  if (!g->s.resident) fetch(L, g, g->v, v_of(g), g->k0);
  scores(L, g, r->dp, g->d_out, g->v, g->dp);
  whole_rows(L, g);
  other_rows(L, g);
  sums_over_rows(L, g);
  if (r->dq) {
    if (!g->s.resident || sn_instr_operand(r->dq, 1) != k_of(g)) fetch(L, g, g->k, sn_instr_operand(r->dq, 1), g->k0);
    clear(L, g, g->row_sums);
    contract(L, g, g->row_sums, g->dp, false, g->k, false, key_terms(g));
    epilogue(L, g, r->dq, g->row_sums, g->staged_rows, g->r0, r->n_q, NULL);
  }
  lower_end(L, 0, NULL, node);
  L->tiles = (lower_tile *)outside;
  key_results(L, g);
}

/* First phase: sums of rows, and dq. */
static void backward_rows(lowering *L, gpu_attention *g) {
  sn_knode *node;
  bool behind = count_reductions(g, true) > 0;
  if (!behind && !g->r->dq) return;
  if (!open_phase(L, g, g->n_blocks) || !open_block(L, g, lower_grid(L, g->r->n_batch))) return;
  reduction_pass(L, g, true);
  const sn_ix *i = behind ? loop_threads(L, g->n_rows, "sums of rows, for the second phase", &node) : NULL;
  for (int k = 0; i && k < g->n_reductions; k++) {
    const row_reduction *d = &g->reductions[k];
    const sn_ix *to[SN_MAX_RANK];
    attention_index(g->r, sn_ix_add(L->k->ix, g->r0, i), NULL, to);
    if (d->work >= 0) sn_kb_store(&L->b, d->work, to, 0, NULL, load_row(L, d, lower_const(L, g->s.n_tiles % 2), i));
  }
  if (i) lower_end(L, 0, NULL, node);
  if (!g->r->dq) return;
  product_pass(L, g);
  epilogue(L, g, g->r->dq, g->row_sums, g->staged_rows, g->r0, g->r->n_q, NULL);
}

/* Second phase: dk and dv of a tile of keys. */
static void backward_keys(lowering *L, gpu_attention *g) {
  sn_ix_context *x = L->k->ix;
  const attention *r = g->r;
  const lower_tile *outside = L->tiles;
  sn_knode *node, *rows;
  if ((!r->dk && !r->dv) || !open_phase(L, g, g->s.n_tiles)) return;
  g->k0 = sn_ix_mul(x, lower_grid(L, r->n_batch), lower_const(L, g->s.keys));
  g->n_keys = length(L, g->k0, g->s.keys, r->n_k);
  fetch(L, g, g->k, k_of(g), g->k0);
  fetch(L, g, g->v, v_of(g), g->k0);
  clear_key_sums(L, g);
  const sn_ix *block = loop_blocks(L, lower_const(L, g->n_blocks), "blocks of rows", &node);
  if (!block || !open_block(L, g, block)) return;
  scores(L, g, r->scores, g->q, g->k, g->scores);
  scores(L, g, r->dp, g->d_out, g->v, g->dp);
  const sn_ix *i = open_rows(L, g, &rows), *row = i ? sn_ix_add(x, g->r0, i) : NULL, *at[SN_MAX_RANK];
  if (!row) return;
  attention_index(g->r, row, NULL, at);
  for (int k = 0; k < g->n_reductions; k++) remember_row(L, g, &g->reductions[k], row, sn_kb_load(&L->b, g->reductions[k].work, at, 0, NULL, NULL));
  factors(L, g, i, row, r->p_dv, r->dk ? r->ds : NULL);
  lower_end(L, 0, NULL, rows);
  other_rows(L, g);
  sums_over_rows(L, g);
  lower_end(L, 0, NULL, node);
  L->tiles = (lower_tile *)outside;
  key_results(L, g);
}

/* ---- does it apply? ---- */

static bool find_reductions(lowering *L, gpu_attention *g) {
  uint32_t first;
  bool *behind = lower_marks(L, &first);
  if (!behind) {
    L->b.status = SN_ERR_MEMORY;
    return false;
  }
  SN_FOR_INSTRS(i, L->body) {
    bool *mine = &behind[i->id - first];
    *mine = i == g->r->exp;
    for (uint32_t k = 0; k < i->n_operands; k++) *mine |= behind[sn_instr_operand(i, k)->id - first];
    if (i->op != SN_OP_REDUCE) continue;
    row_reduction *d = &g->reductions[g->n_reductions];
    const sn_shape *s = i->n_operands == 2 ? sn_operand_shape(i, 0) : NULL;
    if (g->n_reductions == MAX_REDUCTIONS || !s || !sn_computation_is_binary(i->called[0], &d->op) || (d->op != SN_OP_ADD && d->op != SN_OP_MAXIMUM)) return false;
    if (i->shape->type != SN_TYPE_F32 || !attention_is_row_value(g->r, i->shape) || !sn_shape_equal(s, g->r->scores->shape, SN_EQ_IGNORE_TYPE)) return false;
    d->instr = i;
    d->behind_exp = *mine;
    g->n_reductions++;
  }
  return true;
}

/* Values that tf32 holds exactly, or products that ask for it. */
static bool on_tensor_cores(const sn_instr *dot) {
  sn_type a = sn_operand_shape(dot, 0)->type, b = sn_operand_shape(dot, 1)->type;
  bool exact = a != SN_TYPE_F32 && b != SN_TYPE_F32;
  return exact || sn_instr_int(dot, SN_ATTR_DOT_ALGORITHM) == SN_DOT_ALGORITHM_TF32_TF32_F32;
}

/* Reductions in front of the exponential would need passes of their own in the backward direction: there the log-sum-exp is given. */
static bool applies(const gpu_attention *g) {
  const attention *r = g->r;
  return r->type == SN_TYPE_F32 && (r->dp ? !count_reductions(g, false) : r->out && count_reductions(g, true) == 1);
}

bool lower_gpu_attention(lowering *L, attention *r) {
  gpu_attention g;
  memset(&g, 0, sizeof g);
  g.r = r;
  if (!find_reductions(L, &g) || !applies(&g)) return false;
  const sn_instr *dots[] = {r->scores, r->dp, r->out, r->dq, r->dk, r->dv};
  g.tensor = true;
  for (size_t k = 0; k < sizeof dots / sizeof *dots; k++) g.tensor &= !dots[k] || on_tensor_cores(dots[k]);
  sn_gpu_attention_problem p = {r->batch, r->n_q, r->n_k, attention_last_dim(q_of(&g)), attention_last_dim(v_of(&g)), g.tensor, r->dp != NULL};
  if (!sn_gpu_choose_attention(L->target, &p, &g.s)) return false;
  g.n_blocks = ceil_div(r->n_q, g.s.rows);
  add_buffers(L, &g);
  if (L->b.status != SN_OK) return true;
  if (!r->dp) {
    forward(L, &g);
  } else if (!g.s.two_phases) {
    backward_whole(L, &g);
  } else {
    backward_rows(L, &g);
    if (L->b.status == SN_OK) backward_keys(L, &g);
  }
  return true;
}
