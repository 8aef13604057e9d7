/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The attention template: a fusion of kind `attention`, whose body the pass attention-fusion wrote. Forward:
 *
 *   s = q k^T      x = elementwise(s)      e = exp(x - rowmax(x))      o = elementwise(e) v      results: o, and values a row (log-sum-exp)
 *
 * backward, where exp's subtrahend is the saved log-sum-exp:
 *
 *   dp = do v^T    ds = elementwise(p, dp, sums a row)      dq = ds k      dk = ds^T q      dv = elementwise(p)^T do
 *
 * An item is a head of a batch, or some of its rows where that makes too few items; sums over rows are then added up in a phase of their own, in the order of rows. It packs the operands that all rows need, then walks blocks of rows whose
 * scores stay in cache:
 *
 *   k^T, v^T (backward)        ->  panels [keys][term][NR], transposed in registers from rows        v (forward), k (backward)  ->  rows
 *   block:      q, do  ->  rows    s = q k^T, dp = do v^T -> tiles [row][key]      row by row: e or p with its sums, then ds, in place
 *               o = e v, dq = ds k -> tile [row][column], stored through the epilogue      dv += p^T do, dk += ds^T q in their sums [key][column]
 *
 * The way to memory is idle most of the time: each row asks for that row of the operands of the thread's next item, and of the results of this one.
 *
 * Everything elementwise is whatever the body says (scale, mask, bias, conversions), lowered element by element with the products' results found in the tiles; operands are
 * read through whatever transposes and slices the body holds. After Dao et al., "FlashAttention" (2022), without its running maximum: a row of scores fits. */
#include "lower_attention.h"

#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

void attention_index(const attention *p, const sn_ix *row, const sn_ix *column, const sn_ix **idx) {
  if (p->n_batch) memcpy(idx, p->b, (size_t)p->n_batch * sizeof *idx);
  idx[p->n_batch] = row;
  if (column) idx[p->n_batch + 1] = column;
}

const sn_ix *attention_loop(lowering *L, const sn_ix *hi, sn_knode **node) { return lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), hi, 1, 0, NULL, NULL, node); }

const sn_ix *attention_lanes(lowering *L, const attention *p, const sn_ix *hi, sn_knode **node) {
  return lower_for(L, SN_KLOOP_VECTOR, (int)p->lanes, lower_const(L, 0), hi, 1, 0, NULL, NULL, node);
}

/* ---- who is who in the body ---- */

typedef struct roles {
  uint32_t first, n;
  uint8_t *marks; /* by id: what it depends on */
} roles;

enum { BEHIND_EXP = 1, BEHIND_FIRST = 2, BEHIND_SECOND = 4 /* product in front of the exponential */, BEHIND_SUM = 8 /* of what depends on the exponential */ };

static uint8_t *mark_of(const roles *r, const sn_instr *i) { return &r->marks[i->id - r->first]; }

static bool mark_body(lowering *L, roles *r, const sn_instr **first, const sn_instr **second, const sn_instr **exp) {
  uint32_t lo = UINT32_MAX, hi = 0;
  SN_FOR_INSTRS(i, L->body) {
    lo = i->id < lo ? i->id : lo;
    hi = i->id > hi ? i->id : hi;
  }
  r->first = lo;
  r->n = hi - lo + 1;
  r->marks = sn_arena_zero(L->arena, r->n, 1);
  if (!r->marks) {
    L->b.status = SN_ERR_MEMORY;
    return false;
  }
  *first = *second = *exp = NULL;
  SN_FOR_INSTRS(i, L->body) {
    uint8_t *m = mark_of(r, i);
    for (uint32_t k = 0; k < i->n_operands; k++) *m |= *mark_of(r, sn_instr_operand(i, k));
    if (i->op == SN_OP_EXPONENTIAL) {
      if (*exp) return false;
      *exp = i;
      *m |= BEHIND_EXP;
    }
    if (i->op == SN_OP_REDUCE && *m & BEHIND_EXP) *m |= BEHIND_SUM;
    if (i->op != SN_OP_DOT || *m & BEHIND_EXP) continue;
    if (*second) return false;
    *m |= *first ? BEHIND_SECOND : BEHIND_FIRST;
    if (!*first) *first = i;
    else *second = i;
  }
  return *exp && *first;
}

/* batch dimensions in front; lhs [batch, m, k] or [batch, k, m], rhs [batch, n, k] (scores) or [batch, k, n]. */
static bool plain_dot(const sn_instr *dot, int n_batch, int64_t lhs_contracted, int64_t rhs_contracted) {
  sn_ints lb = sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS), rb = sn_instr_ints(dot, SN_ATTR_RHS_BATCH_DIMS);
  sn_ints lc = sn_instr_ints(dot, SN_ATTR_LHS_CONTRACTING_DIMS), rc = sn_instr_ints(dot, SN_ATTR_RHS_CONTRACTING_DIMS);
  if (dot->shape->rank != n_batch + 2 || lb.n != n_batch || rb.n != n_batch || lc.n != 1 || rc.n != 1) return false;
  for (int k = 0; k < n_batch; k++) {
    if (lb.v[k] != k || rb.v[k] != k) return false;
  }
  return lc.v[0] == n_batch + lhs_contracted && rc.v[0] == n_batch + rhs_contracted;
}

static bool has_scores_shape(const attention *p, const sn_instr *i) { return sn_shape_equal(i->shape, p->scores->shape, SN_EQ_IGNORE_TYPE); }

static bool once(const sn_instr **slot, const sn_instr *i) {
  if (*slot) return false;
  *slot = i;
  return true;
}

/* A product behind the exponential: by what its left operand depends on and which side it sums over. */
static bool place_dot(attention *p, const roles *r, const sn_instr *dot) {
  const sn_instr *lhs = sn_instr_operand(dot, 0);
  if (!has_scores_shape(p, lhs) || *mark_of(r, sn_instr_operand(dot, 1)) & BEHIND_EXP) return false;
  bool behind_dp = p->dp && *mark_of(r, lhs) & (*mark_of(r, p->dp) & (BEHIND_FIRST | BEHIND_SECOND));
  if (plain_dot(dot, p->n_batch, 1, 0)) return once(behind_dp ? &p->dq : &p->out, dot);
  if (plain_dot(dot, p->n_batch, 0, 0)) return once(behind_dp ? &p->dk : &p->dv, dot);
  return false;
}

/* Sums along a row of what comes from its exponentials: taken while these are computed. */
static void find_sums(const lowering *L, attention *p, const roles *r) {
  sn_opcode op;
  SN_FOR_INSTRS(i, L->body) {
    if (i->op != SN_OP_REDUCE || i->n_operands != 2 || p->n_sums == ATTENTION_MAX_REDUCTIONS) continue;
    const sn_instr *of = sn_instr_operand(i, 0);
    bool ready = *mark_of(r, of) & BEHIND_EXP && !(*mark_of(r, of) & BEHIND_SUM);
    if (!ready || !has_scores_shape(p, of) || !attention_is_row_value(p, i->shape) || (i->shape->type != SN_TYPE_F32 && i->shape->type != SN_TYPE_F64)) continue;
    if (sn_computation_is_binary(i->called[0], &op) && op == SN_OP_ADD) p->sums[p->n_sums++] = i;
  }
}

static sn_type tile_type(const attention *p) { return p->scores->shape->type == SN_TYPE_F64 || p->exp->shape->type == SN_TYPE_F64 ? SN_TYPE_F64 : SN_TYPE_F32; }

static bool find_roles(lowering *L, attention *p) {
  roles r;
  const sn_instr *first, *second;
  memset(p, 0, sizeof *p);
  if (!mark_body(L, &r, &first, &second, &p->exp)) return false;
  uint8_t behind = *mark_of(&r, p->exp) & (BEHIND_FIRST | BEHIND_SECOND);
  if (behind == (BEHIND_FIRST | BEHIND_SECOND) || behind == 0) return false;
  p->scores = behind == BEHIND_FIRST ? first : second;
  p->dp = behind == BEHIND_FIRST ? second : first;
  p->n_batch = p->scores->shape->rank - 2;
  if (p->n_batch < 0 || !plain_dot(p->scores, p->n_batch, 1, 1) || !has_scores_shape(p, p->exp)) return false;
  if (p->dp && (!plain_dot(p->dp, p->n_batch, 1, 1) || !has_scores_shape(p, p->dp) || *mark_of(&r, p->dp) & behind)) return false;
  SN_FOR_INSTRS(i, L->body) {
    if (!sn_shape_is_array(i->shape) ? i != L->body->root : !sn_type_is_float(i->shape->type) && i->op == SN_OP_DOT) return false;
    if (i->op == SN_OP_DOT && i != p->scores && i != p->dp && !place_dot(p, &r, i)) return false;
  }
  if (p->dq && p->dk && sn_instr_operand(p->dq, 0) != sn_instr_operand(p->dk, 0)) return false;
  p->p_out = p->out ? sn_instr_operand(p->out, 0) : NULL;
  p->p_dv = p->dv ? sn_instr_operand(p->dv, 0) : NULL;
  p->type = tile_type(p);
  p->batch_dims = p->scores->shape->dims;
  p->batch = 1;
  for (int k = 0; k < p->n_batch; k++) p->batch *= p->batch_dims[k];
  p->n_q = p->batch_dims[p->n_batch];
  p->n_k = p->batch_dims[p->n_batch + 1];
  find_sums(L, p, &r);
  p->ds = p->dq || p->dk ? sn_instr_operand(p->dq ? p->dq : p->dk, 0) : NULL;
  return !p->out || !p->dp; /* one direction at a time */
}

/* ---- the item ---- */

/* -1: none. */
typedef struct buffers {
  int k_panels, v_panels; /* k^T; v^T (backward) */
  int q, d_out;           /* rows of the block */
  int v, k;               /* all rows (v: forward, k: backward) */
  int out, dk, dv;        /* sums; out: of the block's rows, o or dq */
} buffers;

static int add_parts(lowering *L, const attention *p, const sn_instr *dot, const char *name) {
  if (!dot || p->n_chunks == 1) return -1;
  int64_t dims[3] = {p->batch * p->n_chunks, p->n_k, attention_last_dim(dot)};
  int b = sn_kernel_add_buffer(L->k, SN_KMEM_WORK, p->type, 3, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static void add_buffers(lowering *L, attention *p, buffers *b) {
  const sn_instr *q = sn_instr_operand(p->scores, 0), *k = sn_instr_operand(p->scores, 1), *of_rows = p->out ? p->out : p->dq;
  int64_t keys = ceil_div(p->n_k, p->mr) * p->mr, stage = max64(attention_last_dim(k), p->dp ? attention_last_dim(sn_instr_operand(p->dp, 1)) : 0);
  *b = (buffers){-1, -1, -1, -1, -1, -1, -1, -1, -1};
  p->dk_parts = add_parts(L, p, p->dk, "parts of dk"); /* arguments stand before tiles */
  p->dv_parts = add_parts(L, p, p->dv, "parts of dv");
  p->s_tile = attention_add_tile(L, p->type, p->rows, p->pitch, "scores");
  p->dp_tile = p->dp ? attention_add_tile(L, p->type, p->rows, p->pitch, "dscores") : -1;
  p->p_tile = p->p_dv && p->p_dv != p->exp ? attention_add_tile(L, p->type, p->rows, p->pitch, "probabilities") : -1;
  for (int i = 0; i < p->n_reductions; i++) p->reduction_tiles[i] = attention_add_tile(L, p->type, 1, p->rows, p->reductions[i]->name);
  b->q = attention_add_rows(L, p, p->rows, attention_last_dim(q), "q");
  b->k_panels = attention_add_panels(L, p, k, "k^T");
  p->stage = attention_add_rows(L, p, L->b.status == SN_OK ? L->k->buffers[b->k_panels].dims[2] : 1, stage, "stage");
  if (p->out) b->v = attention_add_rows(L, p, p->n_k, attention_last_dim(p->out), "v");
  if (p->dp) b->v_panels = attention_add_panels(L, p, sn_instr_operand(p->dp, 1), "v^T");
  if (p->dp) b->d_out = attention_add_rows(L, p, p->rows, attention_last_dim(sn_instr_operand(p->dp, 0)), "do");
  if (p->dq) b->k = attention_add_rows(L, p, L->b.status == SN_OK ? L->k->buffers[b->k_panels].dims[0] * L->k->buffers[b->k_panels].dims[2] : 1, attention_last_dim(p->dq), "k");
  if (of_rows) b->out = attention_add_rows(L, p, p->rows, attention_last_dim(of_rows), "sums");
  if (p->dk) b->dk = attention_add_rows(L, p, keys, attention_last_dim(p->dk), "dk");
  if (p->dv) b->dv = attention_add_rows(L, p, keys, attention_last_dim(p->dv), "dv");
}

/* `rows` holds rows of `have`; the sums want those of `want`, which may be packed anew (another conversion of the same array, say). */
static void sums_over_rows(lowering *L, const attention *p, const sn_instr *dot, int to, int tile, int rows_of, const sn_instr *have) {
  const sn_instr *want = sn_instr_operand(dot, 1);
  if (want != have) attention_pack_rows(L, p, rows_of, want, p->r0, p->n_rows);
  attention_product_over_rows(L, p, dot, to, tile, rows_of);
}

static void one_block(lowering *L, attention *p, const buffers *b, const sn_ix *block) {
  sn_ix_context *x = L->k->ix;
  const sn_instr *q = sn_instr_operand(p->scores, 0), *d_out = p->dp ? sn_instr_operand(p->dp, 0) : NULL, *of_rows = p->out ? p->out : p->dq;
  p->block = block;
  p->r0 = sn_ix_mul(x, block, lower_const(L, p->rows));
  p->n_rows = sn_ix_min(x, lower_const(L, p->rows), sn_ix_sub(x, lower_const(L, p->n_q), p->r0));
  p->n_tiles = sn_ix_div(x, sn_ix_add(x, p->n_rows, lower_const(L, p->mr - 1)), p->mr);
  if (!p->n_tiles) return;
  attention_pack_rows(L, p, b->q, q, p->r0, p->n_rows);
  if (p->dp) attention_pack_rows(L, p, b->d_out, d_out, p->r0, p->n_rows);
  attention_product(L, p, p->scores, p->s_tile, b->q, b->k_panels);
  if (p->dp) attention_product(L, p, p->dp, p->dp_tile, b->d_out, b->v_panels);
  attention_rows(L, p);
  if (p->out) attention_product(L, p, p->out, b->out, p->s_tile, b->v);
  if (p->dq) attention_product(L, p, p->dq, b->out, p->dp_tile, b->k);
  if (of_rows) attention_epilogue(L, p, of_rows, b->out, p->r0, p->n_rows);
  if (p->dv) sums_over_rows(L, p, p->dv, b->dv, p->p_tile >= 0 ? p->p_tile : p->s_tile, b->d_out, d_out);
  if (p->dk) sums_over_rows(L, p, p->dk, b->dk, p->dp_tile, b->q, q);
}

/* Operands that all rows need. */
static void pack_operands(lowering *L, const attention *p, const buffers *b) {
  const sn_instr *k = sn_instr_operand(p->scores, 1);
  const sn_ix *zero = lower_const(L, 0), *n = lower_const(L, p->n_k);
  bool same = p->dq && sn_instr_operand(p->dq, 1) == k;
  if (p->dq) attention_pack_rows(L, p, b->k, sn_instr_operand(p->dq, 1), zero, n);
  attention_pack_panels(L, p, b->k_panels, k, same ? b->k : -1);
  if (p->out) attention_pack_rows(L, p, b->v, sn_instr_operand(p->out, 1), zero, n);
  if (p->dp) attention_pack_panels(L, p, b->v_panels, sn_instr_operand(p->dp, 1), -1);
}

/* Which of all batches the open item is. */
static const sn_ix *flat_batch(lowering *L, const attention *p) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *flat = lower_const(L, 0);
  for (int k = 0; k < p->n_batch; k++) flat = sn_ix_add(x, sn_ix_mul(x, flat, lower_const(L, p->batch_dims[k])), p->b[k]);
  return flat;
}

/* Items are claimed in order by threads that take about as long: this one's next lies so many further on. */
static void find_next(lowering *L, attention *p) {
  sn_ix_context *x = L->k->ix;
  int64_t cores = L->target && L->target->cores > 0 ? L->target->cores : 2;
  const sn_ix *flat = sn_ix_min(x, sn_ix_add(x, flat_batch(L, p), lower_const(L, cores)), lower_const(L, p->batch - 1));
  if (p->n_chunks == 1 && p->batch > cores) lower_delinearise(L, flat, p->n_batch, p->batch_dims, p->next);
}

static void item_phase(lowering *L, attention *p, const buffers *b) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 1], each = ceil_div(p->n_blocks, p->n_chunks);
  sn_knode *blocks;
  for (int k = 0; k < p->n_batch; k++) grid[k] = p->batch_dims[k];
  grid[p->n_batch] = ceil_div(p->n_blocks, each);
  sn_kphase *phase = lower_phase(L, p->n_batch + 1, grid);
  if (!phase) return;
  int n_dots = 1 + !!p->out + !!p->dp + !!p->dq + !!p->dk + !!p->dv;
  phase->cost = (int64_t)(2e-2 * n_dots * (double)min64(each * p->rows, p->n_q) * (double)p->n_k * (double)attention_last_dim(sn_instr_operand(p->scores, 0)));
  for (int k = 0; k < p->n_batch; k++) p->b[k] = lower_grid(L, k);
  find_next(L, p);
  pack_operands(L, p, b);
  if (p->dk && p->n_blocks > 1) attention_clear(L, p, b->dk);
  if (p->dv && p->n_blocks > 1) attention_clear(L, p, b->dv);
  const sn_ix *first = sn_ix_mul(x, lower_grid(L, p->n_batch), lower_const(L, each));
  const sn_ix *n = sn_ix_min(x, lower_const(L, each), sn_ix_sub(x, lower_const(L, p->n_blocks), first));
  const sn_ix *block = n ? attention_loop(L, n, &blocks) : NULL;
  if (!block) return;
  one_block(L, p, b, sn_ix_add(x, first, block));
  lower_end(L, 0, NULL, blocks);
  const sn_ix *part = sn_ix_add(x, sn_ix_mul(x, flat_batch(L, p), lower_const(L, p->n_chunks)), lower_grid(L, p->n_batch));
  if (p->dk_parts >= 0) attention_store_part(L, p, p->dk_parts, part, b->dk);
  else if (p->dk) attention_epilogue(L, p, p->dk, b->dk, NULL, lower_const(L, p->n_k));
  if (p->dv_parts >= 0) attention_store_part(L, p, p->dv_parts, part, b->dv);
  else if (p->dv) attention_epilogue(L, p, p->dv, b->dv, NULL, lower_const(L, p->n_k));
}

/* Where chunks of rows were items of their own: their sums, added up a few keys an item. */
static void parts_phase(lowering *L, attention *p) {
  enum { KEYS = 32 };
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 1];
  for (int k = 0; k < p->n_batch; k++) grid[k] = p->batch_dims[k];
  grid[p->n_batch] = ceil_div(p->n_k, KEYS);
  if (!lower_phase(L, p->n_batch + 1, grid)) return;
  for (int k = 0; k < p->n_batch; k++) p->b[k] = lower_grid(L, k);
  const sn_ix *part = sn_ix_mul(x, flat_batch(L, p), lower_const(L, p->n_chunks)), *first = sn_ix_mul(x, lower_grid(L, p->n_batch), lower_const(L, KEYS));
  const sn_ix *n = sn_ix_min(x, lower_const(L, KEYS), sn_ix_sub(x, lower_const(L, p->n_k), first));
  if (p->dk) attention_add_parts(L, p, p->dk, p->dk_parts, part, first, n);
  if (p->dv) attention_add_parts(L, p, p->dv, p->dv_parts, part, first, n);
}

/* ---- does it apply? ---- */

static bool find_reductions(const lowering *L, attention *p) {
  SN_FOR_INSTRS(i, L->body) {
    if (i->op != SN_OP_REDUCE || p->dp) continue;
    if (!sn_shape_is_array(i->shape) || !attention_is_row_value(p, i->shape) || p->n_reductions == ATTENTION_MAX_REDUCTIONS) return false;
    p->reductions[p->n_reductions++] = i;
  }
  return true;
}

static bool same_width(const sn_instr *dot, const sn_instr *other) {
  return attention_last_dim(sn_instr_operand(dot, 1)) == attention_last_dim(sn_instr_operand(other, 0));
}

/* Every result is stored by someone, and the sums over rows find rows of the width that their tiles have. */
static bool covers(const lowering *L, const attention *p) {
  for (int k = 0; k < L->n_outputs; k++) {
    bool row = !p->dp && attention_is_row_value(p, L->outputs[k]->shape);
    if (!row && !attention_gives(L, p->out, k) && !attention_gives(L, p->dq, k) && !attention_gives(L, p->dk, k) && !attention_gives(L, p->dv, k)) return false;
  }
  return (!p->dv || (p->dp && same_width(p->dv, p->dp))) && (!p->dk || (p->dp && same_width(p->dk, p->scores)));
}

bool lower_attention(lowering *L) {
  attention p;
  buffers b;
  if (!L->body || !find_roles(L, &p) || !find_reductions(L, &p) || !covers(L, &p)) return false;
  if (lower_on_gpu(L)) return lower_gpu_attention(L, &p);
  attention_measure(L, &p);
  add_buffers(L, &p, &b);
  if (L->b.status == SN_OK) item_phase(L, &p, &b);
  if (L->b.status == SN_OK && (p.dk_parts >= 0 || p.dv_parts >= 0)) parts_phase(L, &p);
  return true;
}
