/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Sizes of the attention template's blocks, operands on their way into tiles, products of tiles.
 *
 * Products go by micro-tiles of mr rows and two vectors of columns; where at most one vector of columns is left, the last go by one. */
#include "lower_attention.h"

#include <string.h>

enum { MAX_ROWS = 96, ROWS_AHEAD = 8 };

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- sizes ---- */

/* Of tiles not much smaller than the largest, the one that wastes the fewest rows. */
static int64_t best_rows(int64_t n, int64_t most) {
  int64_t best = most;
  for (int64_t mr = most - 1; mr >= most - most / 4 && mr > 2; mr--) {
    if (round_up(n, mr) < round_up(n, best)) best = mr;
  }
  return best;
}

/* Whole vectors, an odd number of lines: rows then fall into different sets of the cache. */
static int64_t pitch_of(const attention *p, int64_t columns) {
  int64_t pitch = round_up(columns, p->lanes), line = 64 / (int64_t)sn_type_bytes(p->type);
  return pitch % (2 * line) ? pitch : pitch + line;
}

void attention_measure(const lowering *L, attention *p) {
  const sn_target *t = L->target;
  int registers = t && t->n_vector_registers ? t->n_vector_registers : 16;
  int64_t cores = t && t->cores > 0 ? t->cores : 2, l2 = t && t->l2_bytes ? t->l2_bytes : 524288;
  p->lanes = lower_lanes(L, p->type);
  p->mr = best_rows(p->n_q, registers >= 32 ? 12 : t && t->fma ? 6 : 4);
  p->pitch = pitch_of(p, max64(p->n_k, round_up(p->n_k, p->mr)));
  int64_t most = l2 / 3 / (p->pitch * (int64_t)sn_type_bytes(p->type) * (p->dp ? 2 : 1));
  most = max64(p->mr, min64(most, MAX_ROWS) / p->mr * p->mr);
  p->n_blocks = ceil_div(p->n_q, most);
  p->rows = round_up(ceil_div(p->n_q, p->n_blocks), p->mr);
  p->n_blocks = ceil_div(p->n_q, p->rows);
  /* Sums over rows that several items hold pass through memory: only where there are too few heads to go round. */
  p->n_chunks = p->dp && p->batch >= 2 * cores ? 1 : min64(p->n_blocks, ceil_div(4 * cores, p->batch));
  p->n_chunks = ceil_div(p->n_blocks, ceil_div(p->n_blocks, p->n_chunks));
}

static int64_t panel_columns(const attention *p, int64_t n) { return n <= p->lanes ? p->lanes : 2 * p->lanes; }

static int add(lowering *L, sn_type t, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, SN_KMEM_SCRATCH, t, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

int attention_add_tile(lowering *L, sn_type t, int64_t rows, int64_t columns, const char *name) {
  int64_t dims[2] = {rows, columns};
  return add(L, t, 2, dims, name);
}

int attention_add_rows(lowering *L, const attention *p, int64_t rows, int64_t columns, const char *name) { return attention_add_tile(L, p->type, rows, pitch_of(p, columns), name); }

int attention_add_panels(lowering *L, const attention *p, const sn_instr *i, const char *name) {
  int64_t n = i->shape->dims[p->n_batch], nr = panel_columns(p, n), dims[3] = {ceil_div(n, nr), round_up(attention_last_dim(i), p->lanes), nr};
  return add(L, p->type, 3, dims, name);
}

/* ---- packing ---- */

/* Rows lie far apart in memory, and each is short: nothing else fetches them in time. b: the batch. */
static void ask_for_row(lowering *L, const attention *p, const sn_instr *i, const sn_ix *const *b, const sn_ix *row, sn_kprefetch use) {
  enum { MOST_LINES = 8 };
  const sn_ix *idx[SN_MAX_RANK];
  int64_t line = 64 / (int64_t)sn_type_bytes(i->shape->type), columns = min64(attention_last_dim(i), MOST_LINES * line);
  int buffer;
  for (int64_t c = 0; c < columns; c += line) {
    if (p->n_batch) memcpy(idx, b, (size_t)p->n_batch * sizeof *idx);
    idx[p->n_batch] = row;
    idx[p->n_batch + 1] = lower_const(L, c);
    if (product_trace(L, i, true, idx, &buffer)) sn_kb_prefetch(&L->b, buffer, idx, use);
  }
}

void attention_ask_for_next(lowering *L, const attention *p, const sn_ix *row) {
  const sn_instr *dots[] = {p->scores, p->dp, p->out}; /* whose operands the item reads: its derivative's others are among them */
  for (int k = 0; k < 3; k++) {
    for (uint32_t o = dots[k] == p->out; dots[k] && p->next[0] && o < 2; o++) {
      const sn_instr *i = sn_instr_operand(dots[k], o);
      const sn_ix *last = lower_const(L, i->shape->dims[p->n_batch] - 1);
      ask_for_row(L, p, i, p->next, sn_ix_min(L->k->ix, row, last), SN_KPREFETCH_LATER);
    }
  }
}

void attention_pack_rows(lowering *L, const attention *p, int to, const sn_instr *i, const sn_ix *first, const sn_ix *n) {
  sn_knode *loop, *lane;
  const sn_ix *r = attention_loop(L, n, &loop), *row = r ? sn_ix_add(L->k->ix, first, r) : NULL;
  if (!row) return;
  ask_for_row(L, p, i, p->b, sn_ix_add(L->k->ix, row, lower_const(L, ROWS_AHEAD)), SN_KPREFETCH_READ);
  const sn_ix *c = attention_lanes(L, p, lower_const(L, attention_last_dim(i)), &lane), *idx[SN_MAX_RANK], *where[2] = {r, c};
  if (!c) return;
  attention_index(p, row, c, idx);
  sn_kb_store(&L->b, to, where, 0, NULL, lower_convert(L, lower_value(L, i, 0, idx), p->type));
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, loop);
}

void attention_pack_panels(lowering *L, const attention *p, int to, const sn_instr *i, int rows) {
  sn_ix_context *x = L->k->ix;
  const int64_t *dims = L->k->buffers[to].dims;
  int from = rows >= 0 ? rows : p->stage;
  sn_knode *loop;
  const sn_ix *panel = attention_loop(L, lower_const(L, dims[0]), &loop), *zero = lower_const(L, 0), *nr = lower_const(L, dims[2]);
  if (!panel) return;
  const sn_ix *first = sn_ix_mul(x, panel, nr);
  if (rows < 0) attention_pack_rows(L, p, from, i, first, sn_ix_min(x, nr, sn_ix_sub(x, lower_const(L, i->shape->dims[p->n_batch]), first)));
  const sn_ix *to_at[3] = {panel, zero, zero}, *from_at[2] = {rows >= 0 ? first : zero, zero};
  sn_kcopy c = {{to, to_at, {dims[2], 1}}, {from, from_at, {1, L->k->buffers[from].dims[1]}}, lower_const(L, dims[1]), nr, false};
  sn_kb_copy(&L->b, &c);
  lower_end(L, 0, NULL, loop);
}

void attention_clear(lowering *L, const attention *p, int tile) {
  sn_knode *rows, *lane;
  const int64_t *dims = L->k->buffers[tile].dims;
  const sn_ix *row = attention_loop(L, lower_const(L, dims[0]), &rows), *c = row ? attention_lanes(L, p, lower_const(L, dims[1]), &lane) : NULL;
  if (!c) return;
  const sn_ix *at[2] = {row, c};
  sn_kb_store(&L->b, tile, at, 0, NULL, sn_kb_const_f64(&L->b, p->type, 0));
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

/* ---- products ---- */

typedef struct tiles {
  const sn_instr *dot;
  int to, a, b;
  const sn_ix *n, *k;          /* micro-tiles of rows; terms */
  bool over_rows, accumulate;  /* a is read by columns; sums are added to */
} tiles;

/* Micro-tiles of `nr` columns: panels first … first + n - 1 of `of` columns each. */
static void some_columns(lowering *L, const attention *p, const tiles *t, int64_t first, int64_t n, int64_t of, int64_t nr) {
  sn_ix_context *x = L->k->ix;
  const sn_kbuffer *bs = L->k->buffers;
  int64_t to_pitch = bs[t->to].dims[1], a_pitch = bs[t->a].dims[1];
  bool panels = bs[t->b].rank == 3;
  sn_knode *columns, *rows;
  if (n == 0) return;
  const sn_ix *j = attention_loop(L, lower_const(L, n), &columns), *i = j ? attention_loop(L, t->n, &rows) : NULL;
  if (!i) return;
  const sn_ix *zero = lower_const(L, 0), *row = sn_ix_mul(x, i, lower_const(L, p->mr)), *panel = sn_ix_add(x, j, lower_const(L, first));
  const sn_ix *column = sn_ix_mul(x, panel, lower_const(L, of)), *to_at[2] = {row, column};
  const sn_ix *a_at[2] = {t->over_rows ? zero : row, t->over_rows ? row : zero}, *b_at[3] = {panels ? panel : zero, panels ? zero : column, zero};
  sn_kcontract c = {.acc = {t->to, to_at, {to_pitch, 1}}, .a = {t->a, a_at, {t->over_rows ? 1 : a_pitch, t->over_rows ? a_pitch : 1}},
                    .b = {t->b, b_at, {panels ? of : bs[t->b].dims[1], 1}}, .m = lower_const(L, p->mr), .n = lower_const(L, nr), .k = t->k, .mr = (int)p->mr, .nr = (int)nr,
                    .accumulate = t->accumulate, .algorithm = sn_instr_int(t->dot, SN_ATTR_DOT_ALGORITHM)};
  sn_kb_contract(&L->b, &c);
  lower_end(L, 0, NULL, rows);
  lower_end(L, 0, NULL, columns);
}

static void all_columns(lowering *L, const attention *p, const tiles *t) {
  int64_t n = attention_last_dim(t->dot), nr = panel_columns(p, n), n_panels = ceil_div(n, nr);
  bool narrow = nr > p->lanes && n % nr && n % nr <= p->lanes;
  some_columns(L, p, t, 0, n_panels - narrow, nr, nr);
  some_columns(L, p, t, n_panels - narrow, narrow, nr, p->lanes);
}

void attention_product(lowering *L, const attention *p, const sn_instr *dot, int to, int a, int b) {
  int64_t k = attention_last_dim(dot == p->scores || dot == p->dp ? sn_instr_operand(dot, 0) : p->scores);
  tiles t = {.dot = dot, .to = to, .a = a, .b = b, .n = p->n_tiles, .k = lower_const(L, k)};
  all_columns(L, p, &t);
}

void attention_product_over_rows(lowering *L, const attention *p, const sn_instr *dot, int to, int tile, int rows) {
  tiles t = {.dot = dot, .to = to, .a = tile, .b = rows, .n = lower_const(L, ceil_div(p->n_k, p->mr)), .k = p->n_rows, .over_rows = true, .accumulate = p->n_blocks > 1};
  all_columns(L, p, &t);
}
