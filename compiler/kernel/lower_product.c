/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The product template: out[b, m, n] = epilogue(sum over k of lhs[b, m, k] * rhs[b, k, n]).
 *
 *   phase 0 (when several row blocks share rhs):  panels of rhs:  work[panel][k][NR]            prologue of rhs evaluated here
 *   phase 1, item (b, row block, column block):
 *     for each block of KC terms:
 *       rows of lhs into scratch, unless they can be read where they lie
 *       for each panel of NR columns:
 *         (the panel's terms of this block into scratch, when there was no phase 0)
 *         for each tile of MR rows: contract MR x NR x KC in tile c
 *     after the last block, tile by tile while it is warm: epilogue, stores
 *
 * Panels are zero-padded, so every contraction is a full tile; only the epilogue knows where the matrix ends. Operands that lie well enough, or are so small that packing
 * would cost more than it saves, are read in place, rhs with its last columns masked. Sums run over k in order, so the bits depend on the
 * shape alone. After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). Sizes: lower_product_tile.c; packing: lower_product_pack.c. */
#include "lower_convolution.h"
#include "sinter/cost.h"

#include <string.h>

/* ---- shape of the problem ---- */

static bool measure(lowering *L, const sn_instr *dot, product *p) {
  const sn_shape *lhs = sn_operand_shape(dot, 0), *s = dot->shape;
  memset(p, 0, sizeof *p);
  p->dot = dot;
  p->operand[1] = 1;
  if (!lower_index_map(L, dot, 0, &p->map)) return false;
  p->n_batch = (int)sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS).n;
  p->n_m = lhs->rank - p->n_batch - p->map.n_syms;
  p->n_n = s->rank - p->n_batch - p->n_m;
  p->batch_dims = s->dims;
  p->m_dims = s->dims + p->n_batch;
  p->n_dims = s->dims + p->n_batch + p->n_m;
  p->batch = p->m = p->n = p->k = 1;
  for (int i = 0; i < p->n_batch; i++) p->batch *= p->batch_dims[i];
  for (int i = 0; i < p->n_m; i++) p->m *= p->m_dims[i];
  for (int i = 0; i < p->n_n; i++) p->n *= p->n_dims[i];
  for (int i = 0; i < p->map.n_syms; i++) p->k *= p->map.sym_sizes[i];
  p->type = s->type;
  return true;
}

/* Worth packing? Small products run as plain loops. */
static bool large_enough(const product *p) { return p->m >= 4 && p->n >= 8 && p->k >= 8 && p->m * p->n * p->k >= 16384; }

static bool f32_holds(sn_type t) { return t == SN_TYPE_F32 || t == SN_TYPE_F16 || t == SN_TYPE_BF16; }

/* Sums of f64 in f64; all others in f32, rounded once at the end, of operands in f32, which holds them exactly; or in bf16 where the machine multiplies that. */
static bool choose_types(const lowering *L, product *p) {
  sn_type a = sn_operand_shape(p->dot, 0)->type, b = sn_operand_shape(p->dot, 1)->type;
  if (a == SN_TYPE_F64 && b == SN_TYPE_F64 && p->type == SN_TYPE_F64) return true;
  if (!f32_holds(a) || !f32_holds(b) || !f32_holds(p->type)) return false;
  p->type = SN_TYPE_F32;
  p->pairs = sn_dot_runs_in_bf16(L->target, p->dot) && sn_dot_bf16_products(p->dot) == 1;
  return true;
}

const sn_ix *product_steps(lowering *L, const product *p, const sn_ix *terms) {
  return p->pairs ? sn_ix_div(L->k->ix, sn_ix_add(L->k->ix, terms, lower_const(L, 1)), 2) : terms;
}

const sn_ix *product_term(lowering *L, const product *p, const sn_ix *k0, const sn_ix *step) {
  return sn_ix_add(L->k->ix, k0, p->pairs ? sn_ix_mul(L->k->ix, step, lower_const(L, 2)) : step);
}

/* ---- indices ---- */

const sn_instr *product_side(const product *p, uint32_t operand) { return sn_instr_operand(p->dot, p->operand[operand]); }

/* Result index of (b, m, n). */
void product_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx) {
  if (p->conv) {
    convolution_result_index(L, p, b, m, n, idx);
    return;
  }
  if (p->n_batch) memcpy(idx, b, (size_t)p->n_batch * sizeof *idx);
  lower_delinearise(L, m, p->n_m, p->m_dims, idx + p->n_batch);
  lower_delinearise(L, n, p->n_n, p->n_dims, idx + p->n_batch + p->n_m);
}

bool product_operand_index(lowering *L, const product *p, uint32_t operand, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix *k, const sn_ix **at) {
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK];
  const sn_access *a = lower_access(L, p->dot, &p->map, p->operand[operand]);
  product_result_index(L, p, b, m, n, idx);
  if (p->conv) convolution_terms(L, p->conv, k, syms);
  else lower_delinearise(L, k, p->map.n_syms, p->map.sym_sizes, syms);
  return a && lower_at(L, p->dot, &p->map, a, idx, syms, at);
}

/* ---- buffers ---- */

static int add(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, memory, t, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static void add_buffers(lowering *L, product *p) {
  int64_t terms = p->shared_rhs ? p->k : p->kc, steps = p->pairs ? (terms + 1) / 2 : terms;
  int64_t panel[3] = {p->shared_rhs ? p->n_panels * p->batch : 1, steps, p->nr}, strip[3] = {1, p->kc, p->rhs_pitch};
  sn_type step = p->pairs ? SN_TYPE_U32 : p->type;
  if (p->shared_rhs) p->rhs_work = add(L, SN_KMEM_WORK, step, 3, panel, "rhs");
  else if (!p->rhs_in_place) p->rhs_scratch = add(L, SN_KMEM_SCRATCH, step, 3, p->rhs_pitch ? strip : panel, "rhs");
  int64_t columns[3] = {p->tiles, p->lhs_pitch, p->mr}, rows[3] = {p->tiles, p->mr, p->lhs_pitch}, lhs_strip[3] = {1, p->kc, p->lhs_pitch};
  const int64_t *lhs = p->lhs == PRODUCT_ROWS ? rows : p->lhs == PRODUCT_STRIP ? lhs_strip : columns;
  p->lhs_scratch = p->lhs == PRODUCT_IN_PLACE ? -1 : add(L, SN_KMEM_SCRATCH, p->lhs == PRODUCT_ROWS ? product_packed(p) : step, 3, lhs, "lhs");
  /* One block of terms: a single tile, used again and again. Several: the sums of the whole block of rows and columns, tile by tile. */
  int64_t sums[4] = {p->k_blocks > 1 ? p->panels : 1, p->k_blocks > 1 ? p->tiles : 1, p->mr, p->nr};
  p->acc = add(L, SN_KMEM_SCRATCH, p->type, 4, sums, "sums");
}

/* ---- the item ---- */

/* Panel jp from term k0 on: c->b, and c->n where the matrix ends inside. */
static bool rhs_tile(lowering *L, const product *p, const product_item *it, const sn_ix *jp, const sn_ix *k0, const sn_ix **at, sn_kcontract *c) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *zero = lower_const(L, 0), *panel = sn_ix_add(x, it->panel0, jp);
  int buffer;
  if (p->rhs_in_place) {
    const sn_ix *column = sn_ix_mul(x, panel, c->n);
    c->b = (sn_ktile){p->rhs_buffer, at, {p->rhs_term, 1}};
    if (p->n % p->nr) c->n = sn_ix_min(x, c->n, sn_ix_sub(x, lower_const(L, p->n), column));
    return product_operand_at(L, p, 1, it->b, column, k0, &buffer, at);
  }
  at[0] = p->shared_rhs && !p->rhs_pitch ? sn_ix_add(x, sn_ix_mul(x, it->flat_b, lower_const(L, p->n_panels)), panel) : zero;
  at[1] = p->shared_rhs ? product_steps(L, p, k0) : zero;
  at[2] = p->rhs_pitch ? sn_ix_mul(x, jp, lower_const(L, p->nr)) : zero;
  c->b = (sn_ktile){p->shared_rhs ? p->rhs_work : p->rhs_scratch, at, {p->rhs_pitch ? p->rhs_pitch : p->nr, 1}};
  return true;
}

static void contract_tile(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *jp, const sn_ix *k0, const sn_ix *n_k, bool first) {
  const sn_ix *zero = lower_const(L, 0), *b_at[SN_MAX_RANK], *a_at[SN_MAX_RANK];
  const sn_ix *acc_at[4] = {p->k_blocks > 1 ? jp : zero, p->k_blocks > 1 ? ip : zero, zero, zero};
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.acc = (sn_ktile){p->acc, acc_at, {p->nr, 1}};
  c.n = lower_const(L, p->nr);
  if (!rhs_tile(L, p, it, jp, k0, b_at, &c)) return;
  c.m = lower_const(L, p->mr);
  c.k = product_steps(L, p, n_k);
  c.mr = (int)p->mr;
  c.nr = (int)p->nr;
  c.accumulate = !first;
  c.algorithm = sn_instr_int(p->dot, SN_ATTR_DOT_ALGORITHM);
  if (!product_lhs_tile(L, p, it, ip, k0, a_at, &c.a)) return;
  sn_kb_contract(&L->b, &c);
}

/* ---- what the epilogue gives ---- */

bool product_renames(const sn_instr *i) { return i->op == SN_OP_RESHAPE || i->op == SN_OP_TRANSPOSE || i->op == SN_OP_BITCAST || i->op == SN_OP_COPY; }

/* One more than the steps from the dot to i through ops that keep or rename its elements; 0: it does not lead there. */
static uint32_t steps_to(const product *p, const sn_instr *i) { return i->id - p->first_id < p->n_ids ? p->steps[i->id - p->first_id] : 0; }

/* In one walk over the body, operands first: chains of hundreds of ops (erf) must not be searched path by path. */
static bool find_steps(lowering *L, product *p) {
  uint32_t lo = p->dot->id, hi = p->dot->id;
  for (const sn_instr *i = L->body ? L->body->first : NULL; i; i = i->next) {
    lo = i->id < lo ? i->id : lo;
    hi = i->id > hi ? i->id : hi;
  }
  p->first_id = lo;
  p->n_ids = hi - lo + 1;
  p->steps = SN_NEW_N(L->arena, uint32_t, p->n_ids);
  if (!p->steps) {
    L->b.status = SN_ERR_MEMORY;
    return false;
  }
  p->steps[p->dot->id - lo] = 1;
  for (const sn_instr *i = L->body ? L->body->first : NULL; i; i = i->next) {
    if (i == p->dot || (!product_renames(i) && !sn_op_has(i->op, SN_T_ELTWISE))) continue;
    uint32_t best = 0;
    for (uint32_t k = 0; k < i->n_operands; k++) {
      const sn_instr *x = sn_instr_operand(i, k);
      uint32_t n = product_renames(i) || x->shape->rank == i->shape->rank ? steps_to(p, x) : 0;
      if (n && (best == 0 || n < best)) best = n;
    }
    p->steps[i->id - lo] = best ? best + 1 : 0;
  }
  return true;
}

/* Where the element at[] of i's operand comes to lie in i, which keeps or renames its elements. */
bool product_forward_step(lowering *L, const sn_instr *i, const sn_ix **at) {
  const sn_ix *in[SN_MAX_RANK];
  if (sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_COPY) return true;
  const sn_shape *x = sn_operand_shape(i, 0);
  memcpy(in, at, (size_t)x->rank * sizeof *in);
  if (i->op == SN_OP_TRANSPOSE) {
    sn_ints perm = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
    for (int k = 0; k < i->shape->rank; k++) at[k] = in[perm.v[k]];
    return true;
  }
  if (i->op != SN_OP_RESHAPE && (i->op != SN_OP_BITCAST || !sn_layout_is_default(i->shape->layout) || !sn_layout_is_default(x->layout))) return false;
  const sn_ix *flat = lower_const(L, 0);
  for (int k = 0; k < x->rank; k++) flat = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, flat, lower_const(L, x->dims[k])), in[k]);
  lower_delinearise(L, flat, i->shape->rank, i->shape->dims, at);
  return true;
}

enum { LONGEST_PATH = 64 };

/* The shortest way from `to` down to the dot, which is left out: so many instructions; -1: too long. */
static int path_to(const product *p, const sn_instr *to, const sn_instr **path) {
  int n = 0;
  for (const sn_instr *i = to; i != p->dot;) {
    if (n == LONGEST_PATH) return -1;
    path[n++] = i;
    const sn_instr *next = NULL;
    for (uint32_t k = 0; k < i->n_operands; k++) {
      const sn_instr *x = sn_instr_operand(i, k);
      if (steps_to(p, x) && (!next || steps_to(p, x) < steps_to(p, next))) next = x;
    }
    if (!next) return -1;
    i = next;
  }
  return n;
}

/* Where element idx of the dot comes to lie in `to`, walking up from the root by the shortest way. */
bool product_forward_index(lowering *L, const product *p, const sn_instr *to, const sn_ix *const *idx, const sn_ix **out) {
  const sn_instr *path[LONGEST_PATH];
  int n = path_to(p, to, path);
  memcpy(out, idx, (size_t)p->dot->shape->rank * sizeof *out);
  while (n > 0) {
    if (!product_forward_step(L, path[--n], out)) return false;
  }
  return n == 0;
}

/* The sum is the dot's element that `to` reads at `at`, however its index comes to be written on the way back. */
static void remember_from(lowering *L, const product *p, const sn_instr *to, const sn_ix *const *at, sn_kvalue *sum) {
  const sn_instr *path[LONGEST_PATH];
  const sn_ix *back[SN_MAX_RANK], *next[SN_MAX_RANK];
  int n = path_to(p, to, path);
  memcpy(back, at, (size_t)to->shape->rank * sizeof *back);
  for (int k = 0; k < n; k++) {
    sn_index_map map;
    if (!product_renames(path[k]) || path[k]->op == SN_OP_COPY) continue;
    if (!lower_index_map(L, path[k], 0, &map)) return;
    const sn_access *a = lower_access(L, path[k], &map, 0);
    if (!a || !lower_at(L, path[k], &map, a, back, NULL, next)) return;
    memcpy(back, next, (size_t)a->rank * sizeof *back);
  }
  lower_remember(L, p->dot, 0, back, sum);
}

static void epilogue(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *jp) {
  sn_ix_context *x = L->k->ix;
  sn_knode *rows, *lane;
  const sn_ix *row0 = sn_ix_mul(x, sn_ix_add(x, it->tile0, ip), lower_const(L, p->mr)), *col0 = sn_ix_mul(x, sn_ix_add(x, it->panel0, jp), lower_const(L, p->nr));
  const sn_ix *hi_i = lower_const(L, p->mr), *hi_j = lower_const(L, p->nr);
  if (p->m % p->mr) hi_i = sn_ix_min(x, hi_i, sn_ix_sub(x, lower_const(L, p->m), row0));
  if (p->n % p->nr) hi_j = sn_ix_min(x, hi_j, sn_ix_sub(x, lower_const(L, p->n), col0));
  const sn_ix *i = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), hi_i, 1, 0, NULL, NULL, &rows);
  const sn_ix *j = i ? lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), lower_const(L, 0), hi_j, 1, 0, NULL, NULL, &lane) : NULL;
  if (!j) return;
  const sn_ix *idx[SN_MAX_RANK], *out[SN_MAX_RANK];
  const sn_ix *tile_i = sn_ix_add(x, i, sn_ix_sub(x, row0, product_tile_row(L, p, it, ip)));
  const sn_ix *tile[4] = {p->k_blocks > 1 ? jp : lower_const(L, 0), p->k_blocks > 1 ? ip : lower_const(L, 0), tile_i, j};
  product_result_index(L, p, it->b, sn_ix_add(x, row0, i), sn_ix_add(x, col0, j), idx);
  sn_kvalue *sum = p->empty ? sn_kb_const_f64(&L->b, p->type, 0) : sn_kb_load(&L->b, p->acc, tile, 0, NULL, NULL);
  if (sum && p->type != p->dot->shape->type) sum = sn_kb_elt(&L->b, SN_OP_CONVERT, p->dot->shape->type, 1, &sum);
  lower_remember(L, p->dot, 0, idx, sum);
  for (int k = 0; k < L->n_outputs && sum; k++) {
    if (!product_forward_index(L, p, L->outputs[k], idx, out)) {
      lower_fail(L, L->outputs[k], "a result of the fusion whose elements are not those of its product");
      return;
    }
    remember_from(L, p, L->outputs[k], out, sum);
    sn_kb_store(&L->b, L->output_buffer[k], out, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], out));
  }
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

static void one_tile(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *jp, const sn_ix *k0, const sn_ix *n_k, bool first, bool last) {
  contract_tile(L, p, it, ip, jp, k0, n_k, first);
  sn_knode *contract = L->b.region->last;
  product_prefetch_operands(L, p, it, ip, jp, k0, last, contract);
  if (!first) product_prefetch_sums(L, p, ip, jp, contract);
  if (last) epilogue(L, p, it, ip, jp);
  if (last) product_prefetch_epilogue(L, p, contract);
}

static void one_k_block(lowering *L, const product *p, const product_item *it, const sn_ix *k0, const sn_ix *n_k, bool first, bool last) {
  sn_knode *cols, *rows;
  bool lhs = p->conv && p->conv->side == 0, rhs = p->conv && p->conv->side == 1; /* packed window by window */
  if (!p->empty && (lhs || rhs)) convolution_pack(L, p, it, k0, n_k);
  if (p->lhs != PRODUCT_IN_PLACE && !lhs) product_pack_lhs(L, p, it, k0, n_k);
  const sn_ix *jp = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), it->n_panels, 1, 0, NULL, NULL, &cols);
  if (jp && !p->shared_rhs && !p->rhs_in_place && !rhs) product_pack_panel(L, p, it, jp, k0, n_k);
  const sn_ix *ip = jp ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), it->n_tiles, 1, 0, NULL, NULL, &rows) : NULL;
  if (!ip) return;
  if (p->empty) epilogue(L, p, it, ip, jp);
  else one_tile(L, p, it, ip, jp, k0, n_k, first, last);
  lower_end(L, 0, NULL, rows);
  lower_end(L, 0, NULL, cols);
}

/* Part d of `all` cut into n parts of all / n or one more, the larger ones first. */
static void cut(lowering *L, int64_t all, int64_t n, const sn_ix *d, const sn_ix **start, const sn_ix **count) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *more = lower_const(L, all % n);
  *start = sn_ix_add(x, sn_ix_mul(x, d, lower_const(L, all / n)), sn_ix_min(x, d, more));
  *count = sn_ix_add(x, lower_const(L, all / n), sn_ix_min(x, lower_const(L, 1), sn_ix_max(x, lower_const(L, 0), sn_ix_sub(x, more, d))));
}

/* Grid: batch, blocks of rows, blocks of columns. */
void product_item_at(lowering *L, const product *p, const sn_ix *const *grid, product_item *it) {
  int n = p->n_batch;
  product_batch(L, p, it);
  for (int i = 0; grid && i < n; i++) it->b[i] = grid[i];
  cut(L, p->n_tiles, p->m_blocks, grid ? grid[n] : lower_grid(L, n), &it->tile0, &it->n_tiles);
  cut(L, p->n_panels, p->n_blocks, grid ? grid[n + 1] : lower_grid(L, n + 1), &it->panel0, &it->n_panels);
}

static void item_phase(lowering *L, const product *p) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 2];
  product_item it;
  sn_knode *middle;
  for (int i = 0; i < p->n_batch; i++) grid[i] = p->batch_dims[i];
  grid[p->n_batch] = p->m_blocks;
  grid[p->n_batch + 1] = p->n_blocks;
  sn_kphase *phase = lower_phase(L, p->n_batch + 2, grid);
  if (!phase) return;
  phase->cost = (int64_t)((p->pairs ? 1e-2 : 2e-2) * (double)(p->tiles * p->mr) * (double)(p->panels * p->nr) * (double)p->k);
  product_item_at(L, p, NULL, &it);
  const sn_ix *kc = lower_const(L, p->kc);
  if (p->k_blocks == 1) {
    one_k_block(L, p, &it, lower_const(L, 0), lower_const(L, p->k), true, true);
    return;
  }
  one_k_block(L, p, &it, lower_const(L, 0), kc, true, false);
  if (p->k_blocks > 2) {
    const sn_ix *kb = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 1), lower_const(L, p->k_blocks - 1), 1, 0, NULL, NULL, &middle);
    if (!kb) return;
    one_k_block(L, p, &it, sn_ix_mul(x, kb, kc), kc, false, false);
    lower_end(L, 0, NULL, middle);
  }
  int64_t last = (p->k_blocks - 1) * p->kc;
  one_k_block(L, p, &it, lower_const(L, last), lower_const(L, p->k - last), false, true);
}

/* ---- does it apply? ---- */

static int count_dots(const lowering *L) {
  int n = 0;
  if (!L->body) return 1;
  SN_FOR_INSTRS(i, L->body) n += i->op == SN_OP_DOT || i->op == SN_OP_CONVOLUTION;
  return n;
}

bool product_applies(lowering *L, product *p) {
  if (count_dots(L) != 1 || !find_steps(L, p)) return false;
  for (int k = 0; k < L->n_outputs; k++) {
    if (!steps_to(p, L->outputs[k])) return false;
  }
  return true;
}

void product_emit(lowering *L, product *p) {
  product_choose_tile(L, p);
  add_buffers(L, p);
  if (p->shared_rhs && !p->empty) product_rhs_phase(L, p);
  item_phase(L, p);
}

bool lower_product(lowering *L, const sn_instr *dot) {
  product p;
  if (!measure(L, dot, &p) || !large_enough(&p) || !product_applies(L, &p)) return false;
  if (lower_on_gpu(L)) return lower_gpu_product(L, &p);
  if (!choose_types(L, &p)) return false;
  product_emit(L, &p);
  return true;
}
