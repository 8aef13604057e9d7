/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The attention template: a fusion of kind `attention`, whose body the pass attention-fusion wrote. Forward:
 *
 *   s = q k^T      x = elementwise(s)      e = exp(x - rowmax(x))      o = elementwise(e) v      results: o, and values a row (log-sum-exp)
 *
 * backward, where exp's subtrahend is the saved log-sum-exp:
 *
 *   dp = do v^T    ds = elementwise(p, dp, sums a row)      dq = ds k      dk = ds^T q      dv = elementwise(p)^T do
 *
 * An item is a head of a batch (forward: some of its rows too), so nothing is summed across items. It packs the operands that all rows need, then walks blocks of rows whose
 * scores stay in cache:
 *
 *   k^T, v …  ->  panels [column panel][term][NR]
 *   block:      q, do rows -> [row][term]      s = q k^T, dp = do v^T -> tiles [row][key]      row by row: e or p, ds in place
 *               o = e v, dq = ds k -> tile [row][column], stored through the epilogue      dv += p^T do, dk += ds^T q in their sums [key][column]
 *
 * Everything elementwise is whatever the body says (scale, mask, bias, conversions), lowered element by element with the products' results found in the tiles; operands are
 * read through whatever transposes and slices the body holds. After Dao et al., "FlashAttention" (2022), without its running maximum: a row of scores fits. */
#include "lower_product.h"
#include "sinter/cost.h"

#include <string.h>

enum { MAX_PATH = 24, MAX_ROWS = 96, MAX_REDUCTIONS = 4 };

typedef struct attention {
  const sn_instr *scores, *dp, *exp;   /* dp: backward */
  const sn_instr *out, *dq, *dk, *dv;  /* products of what became of the scores; any may be absent */
  const sn_instr *p_out, *p_dv, *ds;   /* their operands with the scores' shape */
  int n_batch;
  const int64_t *batch_dims;
  int64_t batch, n_q, n_k;
  sn_type type;                        /* of tiles and sums */
  int64_t lanes, mr, nr, pitch;        /* pitch: of a row of scores */
  int64_t rows, n_blocks, n_chunks;    /* rows a block; blocks; runs of blocks that are items of their own */
  int s_tile, dp_tile, p_tile;         /* [row][key]; p_tile: where p_dv is not exp itself */
  int n_reductions;                    /* forward: values a row that the epilogue may want */
  const sn_instr *reductions[MAX_REDUCTIONS];
  int reduction_tiles[MAX_REDUCTIONS];
  const sn_ix *b[SN_MAX_RANK], *r0, *n_rows, *n_tiles; /* the open item and block */
} attention;

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- who is who in the body ---- */

typedef struct roles {
  uint32_t first, n;
  uint8_t *marks; /* by id: depends on the exponential (1), on the first (2) and second (4) product in front of it */
} roles;

enum { BEHIND_EXP = 1, BEHIND_FIRST = 2, BEHIND_SECOND = 4 };

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
  p->ds = p->dq || p->dk ? sn_instr_operand(p->dq ? p->dq : p->dk, 0) : NULL;
  return !p->out || !p->dp; /* one direction at a time */
}

/* ---- sizes ---- */

/* Of tiles not much smaller than the largest, the one that wastes the fewest rows. */
static int64_t best_rows(int64_t n, int64_t most) {
  int64_t best = most;
  for (int64_t mr = most - 1; mr >= most - most / 4 && mr > 2; mr--) {
    if (round_up(n, mr) < round_up(n, best)) best = mr;
  }
  return best;
}

static int64_t panel_columns(const attention *p, int64_t n) { return n <= p->lanes ? p->lanes : 2 * p->lanes; }

static void measure(const lowering *L, attention *p) {
  const sn_target *t = L->target;
  int registers = t && t->n_vector_registers ? t->n_vector_registers : 16;
  int64_t cores = t && t->cores > 0 ? t->cores : 2, l2 = t && t->l2_bytes ? t->l2_bytes : 524288;
  p->batch_dims = p->scores->shape->dims;
  p->batch = 1;
  for (int k = 0; k < p->n_batch; k++) p->batch *= p->batch_dims[k];
  p->n_q = p->scores->shape->dims[p->n_batch];
  p->n_k = p->scores->shape->dims[p->n_batch + 1];
  p->type = tile_type(p);
  p->lanes = lower_lanes(L, p->type);
  p->mr = best_rows(p->n_q, registers >= 32 ? 12 : t && t->fma ? 6 : 4);
  p->nr = panel_columns(p, p->n_k);
  p->pitch = round_up(max64(p->n_k, round_up(p->n_k, p->mr)), p->nr);
  int64_t most = l2 / 4 / (p->pitch * (int64_t)sn_type_bytes(p->type) * (p->dp ? 2 : 1));
  most = max64(p->mr, min64(most, MAX_ROWS) / p->mr * p->mr);
  p->n_blocks = ceil_div(p->n_q, most);
  p->rows = round_up(ceil_div(p->n_q, p->n_blocks), p->mr);
  p->n_blocks = ceil_div(p->n_q, p->rows);
  p->n_chunks = p->dk || p->dv ? 1 : min64(p->n_blocks, ceil_div(4 * cores, p->batch));
}

static int add(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, memory, t, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static int add_tile(lowering *L, sn_type t, int64_t rows, int64_t columns, const char *name) {
  int64_t dims[2] = {rows, columns};
  return add(L, SN_KMEM_SCRATCH, t, 2, dims, name);
}

/* ---- loops and indices ---- */

static const sn_ix *loop_seq(lowering *L, const sn_ix *hi, sn_knode **node) { return lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), hi, 1, 0, NULL, NULL, node); }

static const sn_ix *loop_lanes(lowering *L, const attention *p, int64_t hi, sn_knode **node) {
  return lower_for(L, SN_KLOOP_VECTOR, (int)p->lanes, lower_const(L, 0), lower_const(L, hi), 1, 0, NULL, NULL, node);
}

static void full_index(const attention *p, const sn_ix *row, const sn_ix *column, const sn_ix **idx) {
  if (p->n_batch) memcpy(idx, p->b, (size_t)p->n_batch * sizeof *idx);
  idx[p->n_batch] = row;
  if (column) idx[p->n_batch + 1] = column;
}

/* What was kept in `buffer` [row of the block][column]. */
static void keep(lowering *L, const attention *p, const sn_instr *i, int buffer) {
  const int dims[2] = {p->n_batch, p->n_batch + 1};
  const sn_ix *base[2] = {p->r0, NULL};
  lower_override(L, i, 0, buffer, 2, dims, base);
}

/* ---- packing ---- */

static sn_kvalue *padded_element(lowering *L, const attention *p, const sn_instr *i, const sn_ix *const *idx, int before) {
  sn_kvalue *v = lower_convert(L, lower_value(L, i, 0, idx), p->type);
  if (!v || L->n_guards == before) return v;
  return lower_select(L, lower_guard_value(L, L->n_guards - before, &L->guards[before]), v, sn_kb_const_f64(&L->b, p->type, 0));
}

static void guard_below(lowering *L, const sn_ix *e, int64_t n) {
  if (e->hi >= n) L->guards[L->n_guards++] = (sn_ix_guard){e, 0, n - 1};
}

/* Panels of operand i [batch, rows, columns]: to[panel][term][lane]; terms are its rows, or (`across`) its columns. Zero where the matrix has ended. */
static void pack_panels(lowering *L, const attention *p, int to, const sn_instr *i, bool across, int64_t nr) {
  const int64_t *dims = i->shape->dims + p->n_batch;
  int64_t terms = dims[across ? 1 : 0], columns = dims[across ? 0 : 1];
  sn_knode *panels, *loop, *lane;
  const sn_ix *panel = loop_seq(L, lower_const(L, L->k->buffers[to].dims[0]), &panels);
  const sn_ix *term = panel ? loop_seq(L, lower_const(L, terms), &loop) : NULL;
  const sn_ix *j = term ? loop_lanes(L, p, nr, &lane) : NULL;
  if (!j) return;
  const sn_ix *idx[SN_MAX_RANK], *where[3] = {panel, term, j};
  const sn_ix *column = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, panel, lower_const(L, nr)), j);
  int before = L->n_guards;
  if (!column) return;
  guard_below(L, column, columns);
  full_index(p, across ? column : term, across ? term : column, idx);
  sn_kb_store(&L->b, to, where, 0, NULL, padded_element(L, p, i, idx, before));
  L->n_guards = before;
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, loop);
  lower_end(L, 0, NULL, panels);
}

/* Rows of the block of operand i [batch, rows, columns]: to[row][column], whole tiles of them. */
static void pack_rows(lowering *L, const attention *p, int to, const sn_instr *i) {
  const int64_t *dims = i->shape->dims + p->n_batch;
  sn_knode *loop, *lane;
  const sn_ix *row = loop_seq(L, sn_ix_mul(L->k->ix, p->n_tiles, lower_const(L, p->mr)), &loop);
  const sn_ix *c = row ? loop_lanes(L, p, L->k->buffers[to].dims[1], &lane) : NULL;
  const sn_ix *idx[SN_MAX_RANK], *where[2] = {row, c};
  int before = L->n_guards;
  if (!c) return;
  full_index(p, sn_ix_add(L->k->ix, p->r0, row), c, idx);
  if (!idx[p->n_batch]) return;
  guard_below(L, idx[p->n_batch], dims[0]);
  guard_below(L, c, dims[1]);
  sn_kb_store(&L->b, to, where, 0, NULL, padded_element(L, p, i, idx, before));
  L->n_guards = before;
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, loop);
}

/* ---- products ---- */

/* to[row][column] = a[row][term] * panels, over the block's rows. */
static void product_of_rows(lowering *L, const attention *p, const sn_instr *dot, int to, int a, int panels) {
  sn_ix_context *x = L->k->ix;
  int64_t nr = L->k->buffers[panels].dims[2];
  sn_knode *columns, *rows;
  const sn_ix *jp = loop_seq(L, lower_const(L, L->k->buffers[panels].dims[0]), &columns);
  const sn_ix *ip = jp ? loop_seq(L, p->n_tiles, &rows) : NULL;
  if (!ip) return;
  const sn_ix *zero = lower_const(L, 0), *row = sn_ix_mul(x, ip, lower_const(L, p->mr));
  const sn_ix *to_at[2] = {row, sn_ix_mul(x, jp, lower_const(L, nr))}, *a_at[2] = {row, zero}, *b_at[3] = {jp, zero, zero};
  sn_kcontract c = {.acc = {to, to_at, {L->k->buffers[to].dims[1], 1}}, .a = {a, a_at, {L->k->buffers[a].dims[1], 1}}, .b = {panels, b_at, {nr, 1}},
                    .m = lower_const(L, p->mr), .n = lower_const(L, nr), .k = lower_const(L, L->k->buffers[panels].dims[1]), .mr = (int)p->mr, .nr = (int)nr,
                    .algorithm = sn_instr_int(dot, SN_ATTR_DOT_ALGORITHM)};
  sn_kb_contract(&L->b, &c);
  lower_end(L, 0, NULL, rows);
  lower_end(L, 0, NULL, columns);
}

/* to[key][column] += tile[row][key] * rows[row][column], over the block's rows. */
static void product_over_rows(lowering *L, const attention *p, const sn_instr *dot, int to, int tile, int rows_of, int64_t nr) {
  sn_ix_context *x = L->k->ix;
  int64_t pitch = L->k->buffers[to].dims[1];
  sn_knode *columns, *keys;
  const sn_ix *cp = loop_seq(L, lower_const(L, pitch / nr), &columns);
  const sn_ix *jp = cp ? loop_seq(L, lower_const(L, ceil_div(p->n_k, p->mr)), &keys) : NULL;
  if (!jp) return;
  const sn_ix *zero = lower_const(L, 0), *key = sn_ix_mul(x, jp, lower_const(L, p->mr)), *column = sn_ix_mul(x, cp, lower_const(L, nr));
  const sn_ix *to_at[2] = {key, column}, *a_at[2] = {zero, key}, *b_at[2] = {zero, column};
  sn_kcontract c = {.acc = {to, to_at, {pitch, 1}}, .a = {tile, a_at, {1, p->pitch}}, .b = {rows_of, b_at, {L->k->buffers[rows_of].dims[1], 1}},
                    .m = lower_const(L, p->mr), .n = lower_const(L, nr), .k = p->n_rows, .mr = (int)p->mr, .nr = (int)nr, .accumulate = true,
                    .algorithm = sn_instr_int(dot, SN_ATTR_DOT_ALGORITHM)};
  sn_kb_contract(&L->b, &c);
  lower_end(L, 0, NULL, keys);
  lower_end(L, 0, NULL, columns);
}

static void clear(lowering *L, const attention *p, int buffer) {
  sn_knode *rows, *lane;
  const int64_t *dims = L->k->buffers[buffer].dims;
  const sn_ix *row = loop_seq(L, lower_const(L, dims[0]), &rows), *c = row ? loop_lanes(L, p, dims[1], &lane) : NULL;
  if (!c) return;
  const sn_ix *at[2] = {row, c};
  sn_kb_store(&L->b, buffer, at, 0, NULL, sn_kb_const_f64(&L->b, p->type, 0));
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

/* ---- results ---- */

/* The ops from `dot` to `i` that keep or rename its elements, i first; -1: it does not lead there. */
static int find_path(const sn_instr *i, const sn_instr *dot, const sn_instr **path, int n) {
  if (i == dot) return n;
  if (n == MAX_PATH || (!sn_op_has(i->op, SN_T_ELTWISE) && !product_renames(i))) return -1;
  path[n] = i;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    int found = product_renames(i) || x->shape->rank == i->shape->rank ? find_path(x, dot, path, n + 1) : -1;
    if (found >= 0) return found;
  }
  return -1;
}

static bool is_result_of(const lowering *L, const sn_instr *dot, int output) {
  const sn_instr *path[MAX_PATH];
  return dot && find_path(L->outputs[output], dot, path, 0) >= 0;
}

/* Stores the results that come from element (row, column) of `dot`, which its tile holds. */
static void store_results(lowering *L, const attention *p, const sn_instr *dot, const sn_ix *row, const sn_ix *column) {
  const sn_instr *path[MAX_PATH];
  const sn_ix *idx[SN_MAX_RANK];
  full_index(p, row, column, idx);
  for (int k = 0; k < L->n_outputs; k++) {
    int n = find_path(L->outputs[k], dot, path, 0);
    if (n < 0) continue;
    const sn_ix *at[SN_MAX_RANK];
    memcpy(at, idx, (size_t)dot->shape->rank * sizeof *at);
    while (n > 0) {
      if (!product_forward_step(L, path[--n], at)) {
        lower_fail(L, path[n], "a result of attention that moves its elements so");
        return;
      }
    }
    sn_kb_store(&L->b, L->output_buffer[k], at, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], at));
  }
}

static void recall_row_values(lowering *L, const attention *p, const sn_ix *i, const sn_ix *row) {
  const sn_ix *idx[SN_MAX_RANK], *at[1] = {i};
  full_index(p, row, NULL, idx);
  for (int k = 0; k < p->n_reductions; k++) {
    lower_remember(L, p->reductions[k], 0, idx, lower_convert(L, sn_kb_load(&L->b, p->reduction_tiles[k], at, 0, NULL, NULL), p->reductions[k]->shape->type));
  }
}

/* Rows first_row … of dot, kept in `tile`. */
static void epilogue(lowering *L, const attention *p, const sn_instr *dot, int tile, const sn_ix *first_row, const sn_ix *n_rows) {
  sn_knode *rows, *lane;
  const sn_ix *i = loop_seq(L, n_rows, &rows), *row = i && first_row ? sn_ix_add(L->k->ix, first_row, i) : i;
  if (!row) return;
  if (dot == p->out) recall_row_values(L, p, i, row);
  const sn_ix *c = loop_lanes(L, p, dot->shape->dims[p->n_batch + 1], &lane), *at[2] = {i, c}, *idx[SN_MAX_RANK];
  if (!c) return;
  full_index(p, row, c, idx);
  lower_remember(L, dot, 0, idx, lower_convert(L, sn_kb_load(&L->b, tile, at, 0, NULL, NULL), dot->shape->type));
  store_results(L, p, dot, row, c);
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

/* ---- a row of scores ---- */

static void row_in_place(lowering *L, const attention *p, const sn_instr *value, int tile, const sn_ix *i, const sn_ix *row) {
  sn_knode *lane;
  const sn_ix *j = loop_lanes(L, p, p->n_k, &lane), *idx[SN_MAX_RANK], *at[2] = {i, j};
  if (!j) return;
  full_index(p, row, j, idx);
  sn_kb_store(&L->b, tile, at, 0, NULL, lower_convert(L, lower_value(L, value, 0, idx), p->type));
  lower_end(L, 0, NULL, lane);
  keep(L, p, value, tile);
}

static bool is_row_value(const attention *p, const sn_shape *s) {
  return s->rank == p->n_batch + 1 && memcmp(s->dims, p->scores->shape->dims, (size_t)s->rank * sizeof *s->dims) == 0;
}

/* Maxima and sums of the row, for the epilogue, and results that are a value a row. */
static void keep_row_values(lowering *L, const attention *p, const sn_ix *i, const sn_ix *row) {
  const sn_ix *idx[SN_MAX_RANK], *at[1] = {i};
  full_index(p, row, NULL, idx);
  for (int k = 0; k < p->n_reductions; k++) {
    sn_kb_store(&L->b, p->reduction_tiles[k], at, 0, NULL, lower_convert(L, lower_value(L, p->reductions[k], 0, idx), p->type));
  }
  for (int k = 0; k < L->n_outputs; k++) {
    if (is_row_value(p, L->outputs[k]->shape)) sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
}

static void rows_of_scores(lowering *L, const attention *p) {
  sn_knode *rows;
  const sn_ix *i = loop_seq(L, p->n_rows, &rows), *row = i ? sn_ix_add(L->k->ix, p->r0, i) : NULL;
  const lower_tile *outside = L->tiles;
  if (!row) return;
  row_in_place(L, p, p->exp, p->s_tile, i, row);
  if (p->n_reductions || !p->dp) keep_row_values(L, p, i, row);
  if (p->p_out && p->p_out != p->exp) row_in_place(L, p, p->p_out, p->s_tile, i, row);
  if (p->p_tile >= 0) row_in_place(L, p, p->p_dv, p->p_tile, i, row);
  if (p->ds) row_in_place(L, p, p->ds, p->dp_tile, i, row);
  lower_end(L, 0, NULL, rows);
  L->tiles = (lower_tile *)outside;
}

/* ---- the item ---- */

/* An operand of products: its panels, or its rows of the block; -1: none. */
typedef struct buffers {
  int k_across, v_across, v, k; /* panels: k^T, v^T (backward) or v (forward), k */
  int q, d_out;                 /* rows */
  int out, dk, dv;              /* sums; out: of the block's rows, o or dq */
} buffers;

static int add_panels(lowering *L, const attention *p, const sn_instr *i, bool across, const char *name) {
  const int64_t *at = i->shape->dims + p->n_batch;
  int64_t terms = at[across ? 1 : 0], columns = at[across ? 0 : 1], nr = across ? p->nr : panel_columns(p, columns);
  int64_t dims[3] = {across ? p->pitch / nr : ceil_div(columns, nr), terms, nr};
  return add(L, SN_KMEM_SCRATCH, p->type, 3, dims, name);
}

static int add_rows(lowering *L, const attention *p, int64_t rows, int64_t columns, const char *name) {
  return add_tile(L, p->type, rows, round_up(columns, panel_columns(p, columns)), name);
}

static int64_t last_dim(const sn_instr *i) { return i->shape->dims[i->shape->rank - 1]; }

static void add_buffers(lowering *L, attention *p, buffers *b) {
  const sn_instr *q = sn_instr_operand(p->scores, 0), *of_rows = p->out ? p->out : p->dq;
  *b = (buffers){-1, -1, -1, -1, -1, -1, -1, -1, -1};
  p->s_tile = add_tile(L, p->type, p->rows, p->pitch, "scores");
  p->dp_tile = p->dp ? add_tile(L, p->type, p->rows, p->pitch, "dscores") : -1;
  p->p_tile = p->p_dv && p->p_dv != p->exp ? add_tile(L, p->type, p->rows, p->pitch, "probabilities") : -1;
  for (int k = 0; k < p->n_reductions; k++) p->reduction_tiles[k] = add(L, SN_KMEM_SCRATCH, p->type, 1, &p->rows, p->reductions[k]->name);
  b->q = add_rows(L, p, p->rows, last_dim(q), "q");
  b->k_across = add_panels(L, p, sn_instr_operand(p->scores, 1), true, "k^T");
  if (p->out) b->v = add_panels(L, p, sn_instr_operand(p->out, 1), false, "v");
  if (p->dp) b->v_across = add_panels(L, p, sn_instr_operand(p->dp, 1), true, "v^T");
  if (p->dp) b->d_out = add_rows(L, p, p->rows, last_dim(sn_instr_operand(p->dp, 0)), "do");
  if (p->dq) b->k = add_panels(L, p, sn_instr_operand(p->dq, 1), false, "k");
  if (of_rows) b->out = add_rows(L, p, p->rows, last_dim(of_rows), "sums");
  if (p->dk) b->dk = add_rows(L, p, round_up(p->n_k, p->mr), last_dim(p->dk), "dk");
  if (p->dv) b->dv = add_rows(L, p, round_up(p->n_k, p->mr), last_dim(p->dv), "dv");
}

/* `rows` holds rows of `have`; the sums want those of `want`, which may be packed anew (another conversion of the same array, say). */
static void sums_over_rows(lowering *L, const attention *p, const sn_instr *dot, int to, int tile, int rows_of, const sn_instr *have) {
  const sn_instr *want = sn_instr_operand(dot, 1);
  if (want != have) pack_rows(L, p, rows_of, want);
  product_over_rows(L, p, dot, to, tile, rows_of, panel_columns(p, last_dim(want)));
}

static void one_block(lowering *L, attention *p, const buffers *b, const sn_ix *block) {
  sn_ix_context *x = L->k->ix;
  const lower_tile *outside = L->tiles;
  p->r0 = sn_ix_mul(x, block, lower_const(L, p->rows));
  p->n_rows = sn_ix_min(x, lower_const(L, p->rows), sn_ix_sub(x, lower_const(L, p->n_q), p->r0));
  p->n_tiles = sn_ix_div(x, sn_ix_add(x, p->n_rows, lower_const(L, p->mr - 1)), p->mr);
  if (!p->n_tiles) return;
  pack_rows(L, p, b->q, sn_instr_operand(p->scores, 0));
  product_of_rows(L, p, p->scores, p->s_tile, b->q, b->k_across);
  keep(L, p, p->scores, p->s_tile);
  if (p->dp) {
    pack_rows(L, p, b->d_out, sn_instr_operand(p->dp, 0));
    product_of_rows(L, p, p->dp, p->dp_tile, b->d_out, b->v_across);
    keep(L, p, p->dp, p->dp_tile);
  }
  rows_of_scores(L, p);
  if (p->out) product_of_rows(L, p, p->out, b->out, p->s_tile, b->v);
  if (p->dq) product_of_rows(L, p, p->dq, b->out, p->dp_tile, b->k);
  if (p->out || p->dq) epilogue(L, p, p->out ? p->out : p->dq, b->out, p->r0, p->n_rows);
  if (p->dv) sums_over_rows(L, p, p->dv, b->dv, p->p_tile >= 0 ? p->p_tile : p->s_tile, b->d_out, sn_instr_operand(p->dp, 0));
  if (p->dk) sums_over_rows(L, p, p->dk, b->dk, p->dp_tile, b->q, sn_instr_operand(p->scores, 0));
  L->tiles = (lower_tile *)outside;
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
  phase->cost = (int64_t)(2e-2 * n_dots * (double)min64(each * p->rows, p->n_q) * (double)p->n_k * (double)last_dim(sn_instr_operand(p->scores, 0)));
  for (int k = 0; k < p->n_batch; k++) p->b[k] = lower_grid(L, k);
  pack_panels(L, p, b->k_across, sn_instr_operand(p->scores, 1), true, p->nr);
  if (p->out) pack_panels(L, p, b->v, sn_instr_operand(p->out, 1), false, L->k->buffers[b->v].dims[2]);
  if (p->dp) pack_panels(L, p, b->v_across, sn_instr_operand(p->dp, 1), true, p->nr);
  if (p->dq) pack_panels(L, p, b->k, sn_instr_operand(p->dq, 1), false, L->k->buffers[b->k].dims[2]);
  if (p->dk) clear(L, p, b->dk);
  if (p->dv) clear(L, p, b->dv);
  const sn_ix *first = sn_ix_mul(x, lower_grid(L, p->n_batch), lower_const(L, each));
  const sn_ix *n = sn_ix_min(x, lower_const(L, each), sn_ix_sub(x, lower_const(L, p->n_blocks), first));
  const sn_ix *block = n ? loop_seq(L, n, &blocks) : NULL;
  if (!block) return;
  one_block(L, p, b, sn_ix_add(x, first, block));
  lower_end(L, 0, NULL, blocks);
  if (p->dk) epilogue(L, p, p->dk, b->dk, NULL, lower_const(L, p->n_k));
  if (p->dv) epilogue(L, p, p->dv, b->dv, NULL, lower_const(L, p->n_k));
}

/* ---- does it apply? ---- */

static bool find_reductions(const lowering *L, attention *p) {
  SN_FOR_INSTRS(i, L->body) {
    if (i->op != SN_OP_REDUCE || p->dp) continue;
    if (!sn_shape_is_array(i->shape) || !is_row_value(p, i->shape) || p->n_reductions == MAX_REDUCTIONS) return false;
    p->reductions[p->n_reductions++] = i;
  }
  return true;
}

static bool same_width(const sn_instr *dot, const sn_instr *other) { return last_dim(sn_instr_operand(dot, 1)) == last_dim(sn_instr_operand(other, 0)); }

/* Every result is stored by someone, and the sums over rows find rows of the width that their tiles have. */
static bool covers(const lowering *L, const attention *p) {
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_instr *o = L->outputs[k];
    bool row = !p->dp && is_row_value(p, o->shape);
    if (!row && !is_result_of(L, p->out, k) && !is_result_of(L, p->dq, k) && !is_result_of(L, p->dk, k) && !is_result_of(L, p->dv, k)) return false;
  }
  return (!p->dv || (p->dp && same_width(p->dv, p->dp))) && (!p->dk || (p->dp && same_width(p->dk, p->scores)));
}

bool lower_attention(lowering *L) {
  attention p;
  buffers b;
  if (lower_on_gpu(L) || !L->body || !find_roles(L, &p) || !find_reductions(L, &p) || !covers(L, &p)) return false;
  measure(L, &p);
  add_buffers(L, &p, &b);
  if (L->b.status == SN_OK) item_phase(L, &p, &b);
  return true;
}
