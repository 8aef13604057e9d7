/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* How the operands of a product lie in memory, and their way into panels. Loops run so that they read along neighbours. */
#include "lower_product.h"

#include <string.h>

/* ---- where operands lie ---- */

/* The operand of an elementwise op that gives most of what is read: as large as the result and no constant. */
static const sn_instr *main_operand(const sn_instr *i) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    const sn_instr *x = sn_instr_operand(i, k);
    bool spread = x->op == SN_OP_BROADCAST || x->op == SN_OP_CONSTANT || x->op == SN_OP_IOTA;
    if (!spread && sn_shape_equal(x->shape, i->shape, SN_EQ_IGNORE_TYPE)) return x;
  }
  return NULL;
}

bool product_trace(lowering *L, const sn_instr *i, bool through, const sn_ix **at, int *buffer) {
  int operand;
  for (int steps = 0; i && steps < 512; steps++) {
    if (lower_is_param(L, i, &operand)) {
      *buffer = L->operand_buffer[operand];
      return *buffer >= 0;
    }
    if (through && sn_op_has(i->op, SN_T_ELTWISE)) {
      i = main_operand(i);
      continue;
    }
    if (i->op != SN_OP_BITCAST && i->op != SN_OP_RESHAPE && i->op != SN_OP_TRANSPOSE && i->op != SN_OP_COPY) return false;
    if (i->op != SN_OP_COPY) {
      sn_index_map map;
      const sn_ix *to[SN_MAX_RANK];
      if (!lower_index_map(L, i, 0, &map)) return false;
      const sn_access *a = lower_access(L, i, &map, 0);
      if (!a || a->n_guards || !lower_at(L, i, &map, a, at, NULL, to)) return false;
      memcpy(at, to, (size_t)a->rank * sizeof *at);
    }
    i = sn_instr_operand(i, 0);
  }
  return false;
}

static const sn_ix *address(lowering *L, int buffer, const sn_ix *const *at) {
  const sn_kbuffer *b = &L->k->buffers[buffer];
  sn_ix_context *x = L->k->ix;
  const sn_ix *sum = sn_ix_const(x, 0);
  int64_t row = 1;
  for (int k = b->rank - 1; k >= 0; k--) {
    sum = sn_ix_add(x, sum, sn_ix_mul(x, at[k], sn_ix_const(x, b->strides ? b->strides[k] : row)));
    row *= b->dims[k];
  }
  return sum;
}

bool product_param(lowering *L, const sn_instr *i, const sn_ix **at, int *buffer) { return product_trace(L, i, false, at, buffer); }

bool product_address(lowering *L, const sn_instr *i, const sn_ix **at, const sn_ix **sum) {
  int buffer;
  *sum = product_trace(L, i, true, at, &buffer) ? address(L, buffer, at) : NULL;
  return *sum != NULL;
}

/* Where in a parameter (outer, k) of an operand lies, as far as one can tell: outer is m of lhs and n of rhs. */
bool product_operand_at(lowering *L, const product *p, uint32_t operand, const sn_ix *const *b, const sn_ix *outer, const sn_ix *k, int *buffer, const sn_ix **at) {
  const sn_ix *zero = lower_const(L, 0);
  return product_operand_index(L, p, operand, b, operand ? zero : outer, operand ? outer : zero, k, at) &&
         product_trace(L, product_side(p, operand), true, at, buffer);
}

/* Addresses of an operand's elements at (outer, k), (0, 0), (1, 0), (0, 1), where outer is m of lhs and n of rhs. Variables of the test: any free DIM numbers. */
static bool probe(lowering *L, const product *p, uint32_t operand, bool through, const sn_ix *outer, const sn_ix *k, int *buffer, const sn_ix **sums) {
  const sn_ix *b[SN_MAX_RANK], *at[SN_MAX_RANK], *zero = lower_const(L, 0);
  for (int i = 0; i < p->n_batch; i++) b[i] = sn_ix_dim(L->k->ix, 1000002 + i, p->batch_dims[i]);
  for (int t = 0; t < 4; t++) {
    const sn_ix *o = t == 0 ? outer : lower_const(L, t == 2), *kt = t == 0 ? k : lower_const(L, t == 3);
    if (!product_operand_index(L, p, operand, b, operand ? zero : o, operand ? o : zero, kt, at)) return false;
    if (!product_trace(L, product_side(p, operand), through, at, buffer)) return false;
    if (!(sums[t] = address(L, *buffer, at))) return false;
  }
  return true;
}

/* Steps of (outer, k) near the origin; 0: not constant, or not known. */
static void find_steps(lowering *L, const product *p, uint32_t operand, int64_t *outer_step, int64_t *term_step) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *sums[4];
  int buffer;
  *outer_step = *term_step = 0;
  const sn_ix *outer = sn_ix_dim(x, 1000000, operand ? p->n : p->m), *k = sn_ix_dim(x, 1000001, p->k);
  if (!probe(L, p, operand, true, outer, k, &buffer, sums)) return;
  for (int t = 0; t < 2; t++) {
    const sn_ix *step = sn_ix_sub(x, sums[2 + t], sums[1]);
    if (step && step->kind == SN_IX_CONST) *(t ? term_step : outer_step) = step->value;
  }
}

/* Is the operand a parameter whose address is base + outer * step + k * term? Where it is not, the steps near its origin are known all the same, as far as there are any. */
bool product_find_operand(lowering *L, const product *p, uint32_t operand, int *buffer, int64_t *step, int64_t *term) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *sums[4], *outer = sn_ix_dim(x, 1000000, operand ? p->n : p->m), *k = sn_ix_dim(x, 1000001, p->k);
  find_steps(L, p, operand, step, term);
  if (!probe(L, p, operand, false, outer, k, buffer, sums)) return false;
  return sn_ix_add(x, sums[1], sn_ix_add(x, sn_ix_mul(x, outer, sn_ix_const(x, *step)), sn_ix_mul(x, k, sn_ix_const(x, *term)))) == sums[0];
}

/* ---- elements as they are multiplied ---- */

static void guard(lowering *L, const sn_ix *e, int64_t n) { L->guards[L->n_guards++] = (sn_ix_guard){e, 0, n - 1}; }

static sn_kvalue *as_type(lowering *L, sn_kvalue *v, sn_type t) { return v && v->type != t ? sn_kb_elt(&L->b, SN_OP_CONVERT, t, 1, &v) : v; }

/* Element (outer, k) of an operand; zero for the term that makes an odd number of them even. */
static sn_kvalue *packed_term(lowering *L, const product *p, uint32_t operand, const product_item *it, const sn_ix *outer, const sn_ix *k) {
  const sn_ix *at[SN_MAX_RANK], *zero = lower_const(L, 0);
  int before = L->n_guards;
  sn_kvalue *v = NULL;
  if (k->hi >= p->k) guard(L, k, p->k);
  if (product_operand_index(L, p, operand, it->b, operand ? zero : outer, operand ? outer : zero, k, at)) v = as_type(L, lower_value(L, product_side(p, operand), 0, at), product_packed(p));
  if (v && L->n_guards > before) v = lower_select(L, lower_guard_value(L, 1, &L->guards[before]), v, sn_kb_const_f64(&L->b, v->type, 0));
  L->n_guards = before;
  return v;
}

/* The term k, or a word of terms k and k + 1. */
static sn_kvalue *packed_step(lowering *L, const product *p, uint32_t operand, const product_item *it, const sn_ix *outer, const sn_ix *k) {
  sn_kvalue *half[2];
  if (!p->pairs) return packed_term(L, p, operand, it, outer, k);
  for (int i = 0; i < 2; i++) {
    sn_kvalue *v = packed_term(L, p, operand, it, outer, sn_ix_add(L->k->ix, k, lower_const(L, i)));
    half[i] = as_type(L, v ? sn_kb_elt(&L->b, SN_OP_BITCAST_CONVERT, SN_TYPE_U16, 1, &v) : NULL, SN_TYPE_U32);
  }
  sn_kvalue *up[2] = {half[1], sn_kb_const_i64(&L->b, SN_TYPE_U32, 16)}, *both[2] = {half[0], sn_kb_elt(&L->b, SN_OP_SHIFT_LEFT, SN_TYPE_U32, 2, up)};
  return sn_kb_elt(&L->b, SN_OP_OR, SN_TYPE_U32, 2, both);
}

/* ---- lhs ---- */

/* First row of tile ip. The last tile begins early enough to be full: it computes rows of its neighbour once more, which nobody looks at. */
const sn_ix *product_tile_row(lowering *L, const product *p, const product_item *it, const sn_ix *ip) {
  const sn_ix *row = sn_ix_mul(L->k->ix, sn_ix_add(L->k->ix, it->tile0, ip), lower_const(L, p->mr));
  return p->m > p->mr && p->m % p->mr ? sn_ix_min(L->k->ix, row, lower_const(L, p->m - p->mr)) : row;
}

bool product_lhs_tile(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *k0, const sn_ix **at, sn_ktile *out) {
  int buffer;
  if (p->lhs == PRODUCT_IN_PLACE) {
    *out = (sn_ktile){p->lhs_buffer, at, {p->lhs_row, p->lhs_term}};
    return product_operand_at(L, p, 0, it->b, product_tile_row(L, p, it, ip), k0, &buffer, at);
  }
  if (p->lhs == PRODUCT_STRIP) {
    at[0] = at[1] = lower_const(L, 0);
    at[2] = sn_ix_sub(L->k->ix, product_tile_row(L, p, it, ip), product_tile_row(L, p, it, at[0]));
    *out = (sn_ktile){p->lhs_scratch, at, {1, p->lhs_pitch}};
    return true;
  }
  at[0] = ip;
  at[1] = at[2] = lower_const(L, 0);
  *out = (sn_ktile){p->lhs_scratch, at, {p->lhs == PRODUCT_ROWS ? p->lhs_pitch : 1, p->lhs == PRODUCT_ROWS ? 1 : p->mr}};
  return true;
}

/* One element to lhs_scratch, of any value beyond the last row: nobody reads what comes of it. k: a term of a row, or a step of a column. */
static void store_lhs(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *i, const sn_ix *k, const sn_ix *k0) {
  const sn_ix *row = sn_ix_add(L->k->ix, product_tile_row(L, p, it, ip), i), *rows[3] = {ip, i, k}, *columns[3] = {ip, k, i};
  int before = L->n_guards;
  if (p->m < p->mr) guard(L, row, p->m);
  if (p->lhs == PRODUCT_ROWS) sn_kb_store(&L->b, p->lhs_scratch, rows, 0, NULL, packed_term(L, p, 0, it, row, sn_ix_add(L->k->ix, k0, k)));
  else sn_kb_store(&L->b, p->lhs_scratch, columns, 0, NULL, packed_step(L, p, 0, it, row, product_term(L, p, k0, k)));
  L->n_guards = before;
}

/* Rows of lhs as rows, [tile][i][k], where terms are neighbours in memory; else as columns, [tile][k][i], all tiles' at once. */
void product_pack_lhs(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  sn_knode *outer, *middle, *lane;
  const sn_ix *zero = lower_const(L, 0), *mr = lower_const(L, p->mr);
  bool rows = p->lhs == PRODUCT_ROWS;
  const sn_ix *steps = product_steps(L, p, n_k), *terms = p->pairs ? sn_ix_mul(L->k->ix, steps, lower_const(L, 2)) : n_k;
  const sn_ix *a = lower_for(L, SN_KLOOP_SEQ, 0, zero, rows ? it->n_tiles : steps, 1, 0, NULL, NULL, &outer);
  const sn_ix *b = a ? lower_for(L, SN_KLOOP_SEQ, 0, zero, rows ? mr : it->n_tiles, 1, 0, NULL, NULL, &middle) : NULL;
  if (b && !rows) product_prefetch_ahead(L, p, 0, it, product_tile_row(L, p, it, b), product_term(L, p, k0, a), p->mr);
  const sn_ix *c = b ? lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), zero, rows ? terms : mr, 1, 0, NULL, NULL, &lane) : NULL;
  if (!c) return;
  if (rows) store_lhs(L, p, it, a, b, c, k0);
  else store_lhs(L, p, it, b, c, a, k0);
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, middle);
  lower_end(L, 0, NULL, outer);
}

/* ---- rhs ---- */

/* to[slot][row][j] = rhs at (k, column), or a word of terms: zero where the matrix has ended. */
static void store_rhs(lowering *L, const product *p, int to, const product_item *it, const sn_ix *slot, const sn_ix *row, const sn_ix *j, const sn_ix *k, const sn_ix *column) {
  const sn_ix *where[3] = {slot, row, j};
  int before = L->n_guards;
  if (p->n % p->nr && column->hi >= p->n) guard(L, column, p->n);
  sn_kvalue *v = packed_step(L, p, 1, it, column, k);
  if (v && L->n_guards > before) v = lower_select(L, lower_guard_value(L, L->n_guards - before, &L->guards[before]), v, sn_kb_const_f64(&L->b, v->type, 0));
  sn_kb_store(&L->b, to, where, 0, NULL, v);
  L->n_guards = before;
}

/* to[slot][row …] = a panel's columns from k0 on, which lie as rows in rhs. */
static void copy_rhs(lowering *L, const product *p, int to, const product_item *it, const sn_ix *slot, const sn_ix *row, const sn_ix *k0, const sn_ix *n_k, const sn_ix *column) {
  const sn_ix *at[SN_MAX_RANK], *where[3] = {slot, row, lower_const(L, 0)};
  int buffer;
  if (!product_operand_at(L, p, 1, it->b, column, k0, &buffer, at)) return;
  sn_kcopy c = {{to, where, {p->nr, 1}}, {buffer, at, {1, p->rhs_column}}, n_k, lower_const(L, p->nr), false};
  sn_kb_copy(&L->b, &c);
}

/* Panels it->panel0 … for terms [k0, k0 + n_k): row by row of rhs where columns are neighbours, else panel by panel. */
void product_pack_rhs(lowering *L, const product *p, int to, const product_item *it, const sn_ix *k0, const sn_ix *n_k) {
  sn_ix_context *x = L->k->ix;
  sn_knode *outer, *middle, *lane;
  const sn_ix *zero = lower_const(L, 0), *nr = lower_const(L, p->nr), *slots = zero, *rows = zero, *steps = product_steps(L, p, n_k);
  const sn_ix *a = lower_for(L, SN_KLOOP_SEQ, 0, zero, p->rhs_along_k ? it->n_panels : steps, 1, 0, NULL, NULL, &outer);
  if (p->shared_rhs) {
    slots = sn_ix_add(x, sn_ix_mul(x, it->flat_b, lower_const(L, p->n_panels)), it->panel0);
    rows = product_steps(L, p, k0);
  }
  if (a && p->rhs_plain) {
    copy_rhs(L, p, to, it, sn_ix_add(x, slots, a), rows, k0, n_k, sn_ix_mul(x, sn_ix_add(x, it->panel0, a), nr));
    lower_end(L, 0, NULL, outer);
    return;
  }
  const sn_ix *b = a ? lower_for(L, SN_KLOOP_SEQ, 0, zero, p->rhs_along_k ? steps : it->n_panels, 1, 0, NULL, NULL, &middle) : NULL;
  if (!b) return;
  const sn_ix *panel = p->rhs_along_k ? a : b, *step = p->rhs_along_k ? b : a, *column = sn_ix_mul(x, sn_ix_add(x, it->panel0, panel), nr), *at_k = product_term(L, p, k0, step);
  if (!p->rhs_along_k) product_prefetch_ahead(L, p, 1, it, column, at_k, p->nr);
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), zero, nr, 1, 0, NULL, NULL, &lane);
  if (!j) return;
  store_rhs(L, p, to, it, sn_ix_add(x, slots, panel), sn_ix_add(x, rows, step), j, at_k, sn_ix_add(x, column, j));
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, middle);
  lower_end(L, 0, NULL, outer);
}

/* Panel jp of the item alone, in front of the tiles that read it: so it comes from L2 and goes to memory that stays there. */
void product_pack_panel(lowering *L, const product *p, const product_item *it, const sn_ix *jp, const sn_ix *k0, const sn_ix *n_k) {
  product_item one = *it;
  one.panel0 = sn_ix_add(L->k->ix, it->panel0, jp);
  one.n_panels = lower_const(L, 1);
  product_pack_rhs(L, p, p->rhs_scratch, &one, k0, n_k);
}

void product_batch(lowering *L, const product *p, product_item *it) {
  it->flat_b = lower_const(L, 0);
  for (int i = 0; i < p->n_batch; i++) {
    it->b[i] = lower_grid(L, i);
    it->flat_b = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, it->flat_b, lower_const(L, p->batch_dims[i])), it->b[i]);
  }
}

/* An item packs a panel, or rows of all panels: whichever lies together in memory. */
void product_rhs_phase(lowering *L, const product *p) {
  enum { ROWS = 32 };
  int64_t grid[SN_MAX_RANK + 1];
  product_item it;
  sn_ix_context *x = L->k->ix;
  for (int i = 0; i < p->n_batch; i++) grid[i] = p->batch_dims[i];
  grid[p->n_batch] = p->rhs_along_k ? p->n_panels : (p->k + ROWS - 1) / ROWS;
  if (!lower_phase(L, p->n_batch + 1, grid)) return;
  product_batch(L, p, &it);
  const sn_ix *d = lower_grid(L, p->n_batch), *k0 = sn_ix_mul(x, d, lower_const(L, ROWS)), *rest = sn_ix_sub(x, lower_const(L, p->k), k0);
  it.panel0 = p->rhs_along_k ? d : lower_const(L, 0);
  it.n_panels = lower_const(L, p->rhs_along_k ? 1 : p->n_panels);
  if (p->rhs_along_k) product_pack_rhs(L, p, p->rhs_work, &it, lower_const(L, 0), lower_const(L, p->k));
  else product_pack_rhs(L, p, p->rhs_work, &it, k0, p->k % ROWS ? sn_ix_min(x, lower_const(L, ROWS), rest) : lower_const(L, ROWS));
}
