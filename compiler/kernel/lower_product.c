/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The product template: out[b, m, n] = epilogue(sum over k of lhs[b, m, k] * rhs[b, k, n]).
 *
 *   phase 0 (when several row blocks share rhs):  panels of rhs:  work[panel][k][NR]            prologue of rhs evaluated here
 *   phase 1, item (b, row block, column block):
 *     for each block of KC terms:
 *       (rhs panels of this block into scratch, when there was no phase 0)
 *       rows of lhs into scratch [panel][k][MR], unless lhs can be read where it lies (its terms are neighbours in memory)
 *       for each panel of NR columns, for each panel of MR rows: contract MR x NR x KC in tile c
 *     after the last block, tile by tile while it is warm: epilogue, stores
 *
 * Panels are zero-padded, so every contraction is a full tile; only the epilogue knows where the matrix ends. Sums run over k in order, so the bits depend on the
 * shape alone. After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication" (2008). */
#include "lower_product.h"

#include <string.h>

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

/* ---- shape of the problem ---- */

static bool measure(lowering *L, const sn_instr *dot, product *p) {
  const sn_shape *lhs = sn_operand_shape(dot, 0), *s = dot->shape;
  memset(p, 0, sizeof *p);
  p->dot = dot;
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
static bool large_enough(const product *p) { return p->m >= 4 && p->n >= 8 && p->k >= 8 && p->m * p->n * p->k >= 32768; }

static bool taken_type(const product *p) {
  sn_type a = sn_operand_shape(p->dot, 0)->type, b = sn_operand_shape(p->dot, 1)->type;
  return a == p->type && b == p->type && (p->type == SN_TYPE_F32 || p->type == SN_TYPE_F64);
}

static void choose_micro_tile(const lowering *L, product *p, int64_t l1) {
  const sn_target *t = L->target;
  int registers = t && t->n_vector_registers ? t->n_vector_registers : 16;
  int64_t bytes = (int64_t)sn_type_bytes(p->type);
  p->nr = 2 * (int64_t)lower_lanes(L, p->type);
  p->mr = registers >= 32 ? 12 : t && t->fma ? 6 : 4;
  if (p->m <= 8 && p->mr > 8) p->mr = p->m <= 4 ? 4 : 8;
  /* A panel of rhs stays in L1 while the panels of lhs pass by. */
  p->kc = max64(64, min64(768, l1 * 6 / 10 / (p->nr * bytes)));
  p->k_blocks = ceil_div(p->k, p->kc);
  p->kc = ceil_div(ceil_div(p->k, p->k_blocks), 8) * 8;
  p->k_blocks = ceil_div(p->k, p->kc);
}

/* Blocks of equal size, whole tiles each. */
static void set_columns(product *p, int64_t most) {
  p->n_blocks = ceil_div(p->n, max64(most, p->nr));
  p->nc = ceil_div(ceil_div(p->n, p->n_blocks), p->nr) * p->nr;
  p->n_blocks = ceil_div(p->n, p->nc);
}

static void set_rows(product *p, int64_t most) {
  p->m_blocks = ceil_div(p->m, max64(most, p->mr));
  p->mc = ceil_div(ceil_div(p->m, p->m_blocks), p->mr) * p->mr;
  p->m_blocks = ceil_div(p->m, p->mc);
}

/* rhs is packed once and read by all: columns in as few blocks as the sums allow, since every block reads all of lhs again; rows so that the sums, or lhs's rows, leave
 * most of L2 alone, and so that there are enough items to share evenly. */
static void blocks_sharing_rhs(product *p, int64_t l2, int64_t cores) {
  int64_t bytes = (int64_t)sn_type_bytes(p->type);
  set_columns(p, 1024);
  int64_t most = p->k_blocks > 1 ? l2 * 35 / 100 / (p->nc * bytes) : l2 / 4 / (p->kc * bytes);
  int64_t items = max64(1, 8 * cores / (p->batch * p->n_blocks));
  set_rows(p, min64(most / p->mr * p->mr, ceil_div(ceil_div(p->m, p->mr), items) * p->mr));
  p->shared_rhs = p->batch == 1 || p->m_blocks > 1;
}

/* rhs is too large to be read again from far away by every block of rows: each item packs its own part of it, for as many rows as L2 takes. */
static void blocks_of_their_own(product *p, int64_t l2, int64_t cores) {
  int64_t bytes = (int64_t)sn_type_bytes(p->type), room = l2 * 7 / 10 / bytes;
  int64_t panels = 6;
  while (panels > 1 && ceil_div(p->n, panels * p->nr) * ceil_div(p->m, 384) < 4 * cores) panels--;
  set_columns(p, panels * p->nr);
  set_rows(p, (room - p->kc * p->nc) / (p->kc + p->nc) / p->mr * p->mr);
  p->shared_rhs = false;
}

static void choose_tile(const lowering *L, product *p) {
  const sn_target *t = L->target;
  int64_t l1 = t && t->l1_bytes ? t->l1_bytes : 32768, l2 = t && t->l2_bytes ? t->l2_bytes : 524288, l3 = t && t->l3_bytes ? t->l3_bytes : 8 << 20;
  int64_t cores = t && t->cores > 0 ? t->cores : 2;
  choose_micro_tile(L, p, l1);
  if (p->batch == 1 && p->k_blocks > 1 && p->k * p->n * (int64_t)sn_type_bytes(p->type) > l3 / 3) blocks_of_their_own(p, l2, cores);
  else blocks_sharing_rhs(p, l2, cores);
  p->n_panels = ceil_div(p->n, p->nr);
}

/* ---- indices ---- */

/* Result index of (b, m, n). */
void product_result_index(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix **idx) {
  if (p->n_batch) memcpy(idx, b, (size_t)p->n_batch * sizeof *idx);
  lower_delinearise(L, m, p->n_m, p->m_dims, idx + p->n_batch);
  lower_delinearise(L, n, p->n_n, p->n_dims, idx + p->n_batch + p->n_m);
}

bool product_operand_index(lowering *L, const product *p, uint32_t operand, const sn_ix *const *b, const sn_ix *m, const sn_ix *n, const sn_ix *k, const sn_ix **at) {
  const sn_ix *idx[SN_MAX_RANK], *syms[SN_MAX_RANK];
  const sn_access *a = lower_access(L, p->dot, &p->map, operand);
  product_result_index(L, p, b, m, n, idx);
  lower_delinearise(L, k, p->map.n_syms, p->map.sym_sizes, syms);
  return a && lower_at(L, p->dot, &p->map, a, idx, syms, at);
}

/* ---- reading lhs in place ---- */

/* Follows an element of `i` through ops that only rename elements, to a parameter. */
static bool trace_to_param(lowering *L, const sn_instr *i, const sn_ix **at, int *buffer) {
  int operand;
  for (int steps = 0; steps < 32; steps++) {
    if (lower_is_param(L, i, &operand)) {
      *buffer = L->operand_buffer[operand];
      return *buffer >= 0;
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

/* Is lhs a parameter whose address is base + m * s0 + k * s1, with s1 = 1? Variables of the test: any free DIM numbers. */
static bool find_direct_lhs(lowering *L, product *p) {
  sn_ix_context *x = L->k->ix;
  int free_var = 1000000;
  const sn_ix *b[SN_MAX_RANK], *at[SN_MAX_RANK], *zero = lower_const(L, 0);
  const sn_ix *m = sn_ix_dim(x, free_var, p->m), *k = sn_ix_dim(x, free_var + 1, p->k);
  const sn_ix *sums[4]; /* at (m, k), (0, 0), (1, 0), (0, 1) */
  for (int i = 0; i < p->n_batch; i++) b[i] = sn_ix_dim(x, free_var + 2 + i, p->batch_dims[i]);
  for (int t = 0; t < 4; t++) {
    const sn_ix *mt = t == 0 ? m : lower_const(L, t == 2), *kt = t == 0 ? k : lower_const(L, t == 3);
    if (!product_operand_index(L, p, 0, b, mt, zero, kt, at) || !trace_to_param(L, sn_instr_operand(p->dot, 0), at, &p->lhs_buffer)) return false;
    if (!(sums[t] = address(L, p->lhs_buffer, at))) return false;
  }
  for (int t = 0; t < 2; t++) {
    const sn_ix *step = sn_ix_sub(x, sums[2 + t], sums[1]);
    if (!step || step->kind != SN_IX_CONST) return false;
    p->lhs_stride[t] = step->value;
  }
  const sn_ix *linear = sn_ix_add(x, sums[1], sn_ix_add(x, sn_ix_mul(x, m, sn_ix_const(x, p->lhs_stride[0])), sn_ix_mul(x, k, sn_ix_const(x, p->lhs_stride[1]))));
  return linear == sums[0] && p->lhs_stride[1] == 1;
}

/* ---- buffers ---- */

static int add(lowering *L, sn_kmemory memory, sn_type t, int rank, const int64_t *dims, const char *name) {
  int b = sn_kernel_add_buffer(L->k, memory, t, rank, dims, NULL, name);
  if (b < 0 && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  return b;
}

static void add_buffers(lowering *L, product *p) {
  int64_t panel[3] = {p->shared_rhs ? p->n_panels * (p->batch > 1 ? p->batch : 1) : p->nc / p->nr, p->shared_rhs ? p->k : p->kc, p->nr};
  if (p->shared_rhs) p->rhs_work = add(L, SN_KMEM_WORK, p->type, 3, panel, "rhs");
  else p->rhs_scratch = add(L, SN_KMEM_SCRATCH, p->type, 3, panel, "rhs");
  int64_t rows[3] = {p->mc / p->mr, p->kc, p->mr};
  p->lhs_scratch = p->direct_lhs ? -1 : add(L, SN_KMEM_SCRATCH, p->type, 3, rows, "lhs");
  /* One block of terms: a single tile, used again and again. Several: the sums of the whole block of rows and columns, tile by tile. */
  int64_t tiles[4] = {p->k_blocks > 1 ? p->mc / p->mr : 1, p->k_blocks > 1 ? p->nc / p->nr : 1, p->mr, p->nr};
  p->acc = add(L, SN_KMEM_SCRATCH, p->type, 4, tiles, "sums");
}

/* ---- packing ---- */

/* One panel of rhs: to[panel][k][j] for k in [k0, k0 + n_k): zero where the matrix has ended. */
static void pack_rhs(lowering *L, const product *p, int to, const sn_ix *const *b, const sn_ix *panel, const sn_ix *first_column, const sn_ix *k0, const sn_ix *n_k) {
  sn_ix_context *x = L->k->ix;
  sn_knode *loop, *lane;
  const sn_ix *k = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), n_k, 1, 0, NULL, NULL, &loop);
  const sn_ix *j = k ? lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), lower_const(L, 0), lower_const(L, p->nr), 1, 0, NULL, NULL, &lane) : NULL;
  const sn_ix *at[SN_MAX_RANK], *column = j ? sn_ix_add(x, first_column, j) : NULL;
  int before = L->n_guards;
  if (!column) return;
  if (p->n % p->nr && column->hi >= p->n) L->guards[L->n_guards++] = (sn_ix_guard){column, 0, p->n - 1};
  if (product_operand_index(L, p, 1, b, lower_const(L, 0), column, sn_ix_add(x, k0, k), at)) {
    sn_kvalue *v = lower_value(L, sn_instr_operand(p->dot, 1), 0, at);
    if (v && L->n_guards > before) {
      sn_kvalue *xs[3] = {lower_guard_value(L, L->n_guards - before, &L->guards[before]), v, sn_kb_const_f64(&L->b, p->type, 0)};
      v = sn_kb_elt(&L->b, SN_OP_SELECT, p->type, 3, xs);
    }
    const sn_ix *where[3] = {panel, k, j};
    sn_kb_store(&L->b, to, where, 0, NULL, v);
  }
  L->n_guards = before;
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, loop);
}

/* Rows m0 … of lhs: scratch[panel][k][i]. */
static void pack_lhs(lowering *L, const product *p, const sn_ix *const *b, const sn_ix *m0, const sn_ix *n_row_panels, const sn_ix *k0, const sn_ix *n_k) {
  sn_ix_context *x = L->k->ix;
  sn_knode *panels, *loop, *lane;
  const sn_ix *ip = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), n_row_panels, 1, 0, NULL, NULL, &panels);
  const sn_ix *k = ip ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), n_k, 1, 0, NULL, NULL, &loop) : NULL;
  const sn_ix *i = k ? lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), lower_const(L, 0), lower_const(L, p->mr), 1, 0, NULL, NULL, &lane) : NULL;
  const sn_ix *at[SN_MAX_RANK], *row = i ? sn_ix_add(x, m0, sn_ix_add(x, sn_ix_mul(x, ip, lower_const(L, p->mr)), i)) : NULL;
  int before = L->n_guards;
  if (!row) return;
  if (p->m % p->mr && row->hi >= p->m) L->guards[L->n_guards++] = (sn_ix_guard){row, 0, p->m - 1};
  if (product_operand_index(L, p, 0, b, row, lower_const(L, 0), sn_ix_add(x, k0, k), at)) {
    const sn_ix *where[3] = {ip, k, i};
    sn_kb_store(&L->b, p->lhs_scratch, where, 0, NULL, lower_value(L, sn_instr_operand(p->dot, 0), 0, at));
  }
  L->n_guards = before;
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, loop);
  lower_end(L, 0, NULL, panels);
}

static void rhs_phase(lowering *L, const product *p) {
  int64_t grid[SN_MAX_RANK + 1];
  const sn_ix *b[SN_MAX_RANK];
  for (int i = 0; i < p->n_batch; i++) grid[i] = p->batch_dims[i];
  grid[p->n_batch] = p->n_panels;
  if (!lower_phase(L, p->n_batch + 1, grid)) return;
  const sn_ix *flat = lower_const(L, 0);
  for (int i = 0; i < p->n_batch; i++) {
    b[i] = lower_grid(L, i);
    flat = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, flat, lower_const(L, p->batch_dims[i])), b[i]);
  }
  const sn_ix *panel = lower_grid(L, p->n_batch);
  const sn_ix *slot = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, flat, lower_const(L, p->n_panels)), panel);
  pack_rhs(L, p, p->rhs_work, b, slot, sn_ix_mul(L->k->ix, panel, lower_const(L, p->nr)), lower_const(L, 0), lower_const(L, p->k));
}

/* ---- the item ---- */

typedef struct item {
  const sn_ix *b[SN_MAX_RANK], *flat_b; /* batch index */
  const sn_ix *m0, *n0;                 /* first row, first column */
  const sn_ix *n_row_panels, *n_col_panels;
} item;

/* First row of lhs that tile ip multiplies. Read in place, the last tile begins early enough to be full: it computes rows of its neighbour once more, which nobody looks at. */
static const sn_ix *tile_row(lowering *L, const product *p, const item *it, const sn_ix *ip) {
  const sn_ix *row = sn_ix_add(L->k->ix, it->m0, sn_ix_mul(L->k->ix, ip, lower_const(L, p->mr)));
  return p->direct_lhs && p->m % p->mr ? sn_ix_min(L->k->ix, row, lower_const(L, p->m - p->mr)) : row;
}

static void contract_tile(lowering *L, const product *p, const item *it, const sn_ix *ip, const sn_ix *jp, const sn_ix *k0, const sn_ix *n_k, bool first) {
  sn_ix_context *x = L->k->ix;
  const sn_ix *zero = lower_const(L, 0), *row = tile_row(L, p, it, ip);
  const sn_ix *acc_at[4] = {p->k_blocks > 1 ? ip : zero, p->k_blocks > 1 ? jp : zero, zero, zero};
  const sn_ix *panel = sn_ix_add(x, sn_ix_div(x, it->n0, p->nr), jp), *slot = jp, *b_at[3], *a_at[SN_MAX_RANK];
  if (p->shared_rhs) slot = sn_ix_add(x, sn_ix_mul(x, it->flat_b, lower_const(L, p->n_panels)), panel);
  b_at[0] = slot;
  b_at[1] = p->shared_rhs ? k0 : zero;
  b_at[2] = zero;
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.acc = (sn_ktile){p->acc, acc_at, {p->nr, 1}};
  c.b = (sn_ktile){p->shared_rhs ? p->rhs_work : p->rhs_scratch, b_at, {p->nr, 1}};
  c.m = lower_const(L, p->mr);
  c.n = lower_const(L, p->nr);
  c.k = n_k;
  c.mr = (int)p->mr;
  c.nr = (int)p->nr;
  c.accumulate = !first;
  c.algorithm = sn_instr_int(p->dot, SN_ATTR_DOT_ALGORITHM);
  if (p->direct_lhs) {
    int buffer;
    if (!product_operand_index(L, p, 0, it->b, row, zero, k0, a_at) || !trace_to_param(L, sn_instr_operand(p->dot, 0), a_at, &buffer)) return;
    c.a = (sn_ktile){p->lhs_buffer, a_at, {p->lhs_stride[0], p->lhs_stride[1]}};
  } else {
    a_at[0] = ip;
    a_at[1] = a_at[2] = zero;
    c.a = (sn_ktile){p->lhs_scratch, a_at, {1, p->mr}};
  }
  sn_kb_contract(&L->b, &c);
}

/* ---- what the epilogue gives ---- */

static bool renames(const sn_instr *i) { return i->op == SN_OP_RESHAPE || i->op == SN_OP_TRANSPOSE || i->op == SN_OP_BITCAST || i->op == SN_OP_COPY; }

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
    if (i == p->dot || (!renames(i) && !sn_op_has(i->op, SN_T_ELTWISE))) continue;
    uint32_t best = 0;
    for (uint32_t k = 0; k < i->n_operands; k++) {
      const sn_instr *x = sn_instr_operand(i, k);
      uint32_t n = renames(i) || x->shape->rank == i->shape->rank ? steps_to(p, x) : 0;
      if (n && (best == 0 || n < best)) best = n;
    }
    p->steps[i->id - lo] = best ? best + 1 : 0;
  }
  return true;
}

/* Where element idx of the dot comes to lie in `to`, walking up from the root by the shortest way. */
bool product_forward_index(lowering *L, const product *p, const sn_instr *to, const sn_ix *const *idx, const sn_ix **out) {
  enum { LONGEST = 64 };
  const sn_instr *path[LONGEST], *dot = p->dot;
  int n = 0;
  for (const sn_instr *i = to; i != dot;) {
    if (n == LONGEST) return false;
    path[n++] = i;
    const sn_instr *next = NULL;
    for (uint32_t k = 0; k < i->n_operands; k++) {
      const sn_instr *x = sn_instr_operand(i, k);
      if (steps_to(p, x) && (!next || steps_to(p, x) < steps_to(p, next))) next = x;
    }
    if (!next) return false;
    i = next;
  }
  memcpy(out, idx, (size_t)dot->shape->rank * sizeof *out);
  while (n > 0) {
    const sn_instr *i = path[--n];
    const sn_ix *in[SN_MAX_RANK];
    if (sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_COPY) continue;
    const sn_shape *x = sn_operand_shape(i, 0);
    memcpy(in, out, (size_t)x->rank * sizeof *in);
    if (i->op == SN_OP_TRANSPOSE) {
      sn_ints perm = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
      for (int k = 0; k < i->shape->rank; k++) out[k] = in[perm.v[k]];
    } else if (i->op == SN_OP_RESHAPE || (i->op == SN_OP_BITCAST && sn_layout_is_default(i->shape->layout) && sn_layout_is_default(x->layout))) {
      const sn_ix *flat = lower_const(L, 0);
      for (int k = 0; k < x->rank; k++) flat = sn_ix_add(L->k->ix, sn_ix_mul(L->k->ix, flat, lower_const(L, x->dims[k])), in[k]);
      lower_delinearise(L, flat, i->shape->rank, i->shape->dims, out);
    } else {
      return false;
    }
  }
  return true;
}

static void epilogue(lowering *L, const product *p, const item *it, const sn_ix *ip, const sn_ix *jp) {
  sn_ix_context *x = L->k->ix;
  sn_knode *rows, *lane;
  const sn_ix *row0 = sn_ix_add(x, it->m0, sn_ix_mul(x, ip, lower_const(L, p->mr))), *col0 = sn_ix_add(x, it->n0, sn_ix_mul(x, jp, lower_const(L, p->nr)));
  const sn_ix *hi_i = lower_const(L, p->mr), *hi_j = lower_const(L, p->nr);
  if (p->m % p->mr) hi_i = sn_ix_min(x, hi_i, sn_ix_sub(x, lower_const(L, p->m), row0));
  if (p->n % p->nr) hi_j = sn_ix_min(x, hi_j, sn_ix_sub(x, lower_const(L, p->n), col0));
  const sn_ix *i = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), hi_i, 1, 0, NULL, NULL, &rows);
  const sn_ix *j = i ? lower_for(L, SN_KLOOP_VECTOR, lower_lanes(L, p->type), lower_const(L, 0), hi_j, 1, 0, NULL, NULL, &lane) : NULL;
  if (!j) return;
  const sn_ix *idx[SN_MAX_RANK], *out[SN_MAX_RANK];
  const sn_ix *tile_i = sn_ix_add(x, i, sn_ix_sub(x, row0, tile_row(L, p, it, ip)));
  const sn_ix *tile[4] = {p->k_blocks > 1 ? ip : lower_const(L, 0), p->k_blocks > 1 ? jp : lower_const(L, 0), tile_i, j};
  product_result_index(L, p, it->b, sn_ix_add(x, row0, i), sn_ix_add(x, col0, j), idx);
  sn_kvalue *sum = sn_kb_load(&L->b, p->acc, tile, 0, NULL, NULL);
  lower_remember(L, p->dot, 0, idx, sum);
  for (int k = 0; k < L->n_outputs && sum; k++) {
    if (!product_forward_index(L, p, L->outputs[k], idx, out)) {
      lower_fail(L, L->outputs[k], "a result of the fusion whose elements are not those of its product");
      return;
    }
    sn_kb_store(&L->b, L->output_buffer[k], out, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], out));
  }
  lower_end(L, 0, NULL, lane);
  lower_end(L, 0, NULL, rows);
}

/* ---- asking for the epilogue's lines while the last contraction runs ---- */

typedef struct wanted_lines {
  const sn_knode *rows, *lane; /* the epilogue's loops */
  int n;
  const sn_knode *access[16];  /* loads and stores of argument buffers whose address moves with both */
} wanted_lines;

static bool mentions(const sn_ix *e, int var) {
  if (e->kind == SN_IX_DIM) return e->value == var;
  if (e->kind == SN_IX_CONST || e->kind == SN_IX_SYM || e->kind == SN_IX_LOAD) return false;
  return mentions(e->a, var) || (e->b && mentions(e->b, var));
}

static bool moves_with(const sn_knode *n, int var) {
  for (int i = 0; i < n->n_at; i++) {
    if (mentions(n->at[i], var)) return true;
  }
  return false;
}

/* The epilogue stands last in the region: a loop over rows around a vector loop. */
static void find_wanted(const lowering *L, wanted_lines *w) {
  memset(w, 0, sizeof *w);
  w->rows = L->b.region->last;
  if (!w->rows || w->rows->op != SN_K_FOR) return;
  for (const sn_knode *n = w->rows->regions[0]->first; n; n = n->next) {
    if (n->op == SN_K_FOR && n->loop == SN_KLOOP_VECTOR) w->lane = n;
  }
  for (const sn_knode *n = w->lane ? w->lane->regions[0]->first : NULL; n && w->n < 16; n = n->next) {
    bool access = (n->op == SN_K_LOAD || n->op == SN_K_STORE) && n->n_guards == 0 && L->k->buffers[n->buffer].memory <= SN_KMEM_INOUT;
    if (access && moves_with(n, w->rows->var) && moves_with(n, w->lane->var)) w->access[w->n++] = n;
  }
}

/* Every other variable of the expression stands for itself. */
static void keep_variables(const sn_ix *e, const sn_ix **dims) {
  if (e->kind == SN_IX_DIM && !dims[e->value]) dims[e->value] = e;
  if (e->kind == SN_IX_DIM || e->kind == SN_IX_CONST || e->kind == SN_IX_SYM || e->kind == SN_IX_LOAD) return;
  keep_variables(e->a, dims);
  if (e->b) keep_variables(e->b, dims);
}

/* at[] with other values for the two loop variables. */
static bool moved_at(lowering *L, const wanted_lines *w, const sn_knode *n, const sn_ix *row, const sn_ix *column, const sn_ix **at) {
  sn_ix_context *x = L->k->ix;
  const sn_ix **dims = SN_NEW_N(L->arena, const sn_ix *, L->k->n_vars + 1);
  if (!dims) return false;
  dims[w->rows->var] = row;
  dims[w->lane->var] = column;
  for (int i = 0; i < n->n_at; i++) {
    keep_variables(n->at[i], dims);
    at[i] = sn_ix_substitute(x, n->at[i], L->k->n_vars, dims, 0, NULL);
    if (!at[i]) return false;
  }
  return true;
}

/* In front of `contract`: for each row of the tile, the lines that the epilogue will read and write. Its rows lie far apart in memory, so that nothing else fetches them. */
static void prefetch_epilogue(lowering *L, const product *p, sn_knode *contract) {
  wanted_lines w;
  sn_knode *loop;
  find_wanted(L, &w);
  if (L->b.status != SN_OK || w.n == 0 || (L->target && L->target->kind != SN_TARGET_CPU)) return;
  L->b.before = contract;
  const sn_ix *i = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), w.rows->hi, 1, 0, NULL, NULL, &loop);
  int64_t line = 64 / (int64_t)sn_type_bytes(p->type);
  for (int a = 0; i && a < w.n; a++) {
    for (int64_t j = 0; j < p->nr; j += line) {
      const sn_ix *at[SN_MAX_RANK];
      if (!moved_at(L, &w, w.access[a], i, lower_const(L, j), at)) {
        L->b.status = SN_ERR_MEMORY;
        return;
      }
      sn_kb_prefetch(&L->b, w.access[a]->buffer, at, w.access[a]->op == SN_K_STORE);
    }
  }
  lower_end(L, 0, NULL, loop);
  L->b.before = NULL;
}

static void one_k_block(lowering *L, const product *p, const item *it, const sn_ix *k0, const sn_ix *n_k, bool first, bool last) {
  sn_knode *cols, *rows;
  if (!p->shared_rhs) {
    const sn_ix *jp = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), it->n_col_panels, 1, 0, NULL, NULL, &cols);
    if (!jp) return;
    pack_rhs(L, p, p->rhs_scratch, it->b, jp, sn_ix_add(L->k->ix, it->n0, sn_ix_mul(L->k->ix, jp, lower_const(L, p->nr))), k0, n_k);
    lower_end(L, 0, NULL, cols);
  }
  if (!p->direct_lhs) pack_lhs(L, p, it->b, it->m0, it->n_row_panels, k0, n_k);
  const sn_ix *jp = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), it->n_col_panels, 1, 0, NULL, NULL, &cols);
  const sn_ix *ip = jp ? lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), it->n_row_panels, 1, 0, NULL, NULL, &rows) : NULL;
  if (!ip) return;
  contract_tile(L, p, it, ip, jp, k0, n_k, first);
  sn_knode *contract = L->b.region->last;
  if (last) epilogue(L, p, it, ip, jp);
  if (last) prefetch_epilogue(L, p, contract);
  lower_end(L, 0, NULL, rows);
  lower_end(L, 0, NULL, cols);
}

static void item_phase(lowering *L, const product *p) {
  sn_ix_context *x = L->k->ix;
  int64_t grid[SN_MAX_RANK + 2];
  item it;
  sn_knode *middle;
  for (int i = 0; i < p->n_batch; i++) grid[i] = p->batch_dims[i];
  grid[p->n_batch] = p->m_blocks;
  grid[p->n_batch + 1] = p->n_blocks;
  sn_kphase *phase = lower_phase(L, p->n_batch + 2, grid);
  if (!phase) return;
  phase->cost = (int64_t)(2e-2 * (double)min64(p->mc, p->m) * (double)min64(p->nc, p->n) * (double)p->k);
  it.flat_b = lower_const(L, 0);
  for (int i = 0; i < p->n_batch; i++) {
    it.b[i] = lower_grid(L, i);
    it.flat_b = sn_ix_add(x, sn_ix_mul(x, it.flat_b, lower_const(L, p->batch_dims[i])), it.b[i]);
  }
  it.m0 = sn_ix_mul(x, lower_grid(L, p->n_batch), lower_const(L, p->mc));
  it.n0 = sn_ix_mul(x, lower_grid(L, p->n_batch + 1), lower_const(L, p->nc));
  it.n_row_panels = sn_ix_min(x, lower_const(L, p->mc / p->mr), sn_ix_div(x, sn_ix_add(x, sn_ix_sub(x, lower_const(L, p->m), it.m0), lower_const(L, p->mr - 1)), p->mr));
  it.n_col_panels = sn_ix_min(x, lower_const(L, p->nc / p->nr), sn_ix_div(x, sn_ix_add(x, sn_ix_sub(x, lower_const(L, p->n), it.n0), lower_const(L, p->nr - 1)), p->nr));
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
  SN_FOR_INSTRS(i, L->body) n += i->op == SN_OP_DOT;
  return n;
}

bool lower_product(lowering *L, const sn_instr *dot) {
  product p;
  if (count_dots(L) != 1 || !measure(L, dot, &p) || !large_enough(&p) || (!taken_type(&p) && !lower_on_gpu(L)) || !find_steps(L, &p)) return false;
  for (int k = 0; k < L->n_outputs; k++) {
    if (!steps_to(&p, L->outputs[k])) return false;
  }
  if (lower_on_gpu(L)) return lower_gpu_product(L, &p);
  choose_tile(L, &p);
  p.direct_lhs = p.m >= p.mr && find_direct_lhs(L, &p);
  add_buffers(L, &p);
  if (p.shared_rhs) rhs_phase(L, &p);
  item_phase(L, &p);
  return true;
}
