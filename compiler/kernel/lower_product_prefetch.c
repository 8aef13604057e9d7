/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Asking for memory while multiply-adds run: the micro-kernel leaves the way to memory idle, packing and epilogues would wait for it. */
#include "lower_product.h"

#include <string.h>

/* ---- what the epilogue of the tile reads and writes ---- */

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

/* Results this small, and what lies beside them, are in some cache already; asking for them takes as long as the rest of the epilogue. */
enum { NEAR_BYTES = 16 << 10 };

/* In front of `contract`: for each row of the tile, the lines that the epilogue will read and write, into L2. Its rows lie far apart in memory, so that nothing else fetches them;
 * L1 has no place for so many lines on their way beside those that the contraction needs. */
void product_prefetch_epilogue(lowering *L, const product *p, sn_knode *contract) {
  wanted_lines w;
  sn_knode *loop;
  if (p->m * p->n * (int64_t)sn_type_bytes(p->type) <= NEAR_BYTES) return;
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
      sn_kb_prefetch(&L->b, w.access[a]->buffer, at, SN_KPREFETCH_LATER);
    }
  }
  lower_end(L, 0, NULL, loop);
  L->b.before = NULL;
}

/* ---- operands that will be packed, or read in place, next ---- */

/* Items are claimed in order by threads that take about as long: this one's next lies so many further on. The last ones ask for what is not there, which costs nothing. */
static void next_item(lowering *L, const product *p, product_item *next) {
  sn_ix_context *x = L->k->ix;
  int64_t sizes[SN_MAX_RANK + 2], cores = L->target && L->target->cores > 0 ? L->target->cores : 2, n_items = 1;
  const sn_ix *grid[SN_MAX_RANK + 2], *flat = lower_const(L, 0);
  for (int i = 0; i < p->n_batch + 2; i++) {
    sizes[i] = i < p->n_batch ? p->batch_dims[i] : i == p->n_batch ? p->m_blocks : p->n_blocks;
    flat = sn_ix_add(x, sn_ix_mul(x, flat, lower_const(L, sizes[i])), lower_grid(L, i));
    n_items *= sizes[i];
  }
  flat = sn_ix_min(x, sn_ix_add(x, flat, lower_const(L, cores)), lower_const(L, n_items - 1));
  lower_delinearise(L, flat, p->n_batch + 2, sizes, grid);
  product_item_at(L, p, grid, next);
}

/* A part of an operand: from `first` (a row of lhs, a column of rhs) and term k0 on. */
typedef struct patch {
  uint32_t operand;
  const sn_ix *first, *k0;
  int64_t outer, terms;
  bool along_k; /* terms are neighbours in memory */
} patch;

static int64_t line_of(const product *p, uint32_t operand) { return 64 / (int64_t)sn_type_bytes(product_side(p, operand)->shape->type); }

static void ask_at(lowering *L, const product *p, const product_item *it, uint32_t operand, const sn_ix *outer, const sn_ix *k, sn_kprefetch use) {
  const sn_ix *at[SN_MAX_RANK];
  int buffer;
  if (product_operand_at(L, p, operand, it->b, outer, k, &buffer, at)) sn_kb_prefetch(&L->b, buffer, at, use);
}

static void ask(lowering *L, const product *p, const product_item *it, const patch *w) {
  sn_knode *loop;
  sn_ix_context *x = L->k->ix;
  const sn_ix *i = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, w->along_k ? w->outer : w->terms), 1, 0, NULL, NULL, &loop);
  for (int64_t j = 0; i && j < (w->along_k ? w->terms : w->outer); j += line_of(p, w->operand)) {
    const sn_ix *along = lower_const(L, j);
    ask_at(L, p, it, w->operand, sn_ix_add(x, w->first, w->along_k ? i : along), sn_ix_add(x, w->k0, w->along_k ? along : i), SN_KPREFETCH_LATER);
  }
  lower_end(L, 0, NULL, loop);
}

/* So many of n that `parts` parts make them all; whole lines where they lie along them. */
static int64_t part_of(const product *p, uint32_t operand, int64_t n, int64_t parts, bool along) {
  int64_t part = (n + parts - 1) / parts, line = line_of(p, operand);
  return along ? (part + line - 1) / line * line : part;
}

/* The tile's part of what follows: of lhs the block of terms after this one (behind the last: the first of the thread's next item), tile (ip, jp) asking for part jp of its tile ip;
 * of rhs, where items pack it themselves, part ip of the next panel. Operands that come from L2 or L3 need no asking: there it only takes time. */
void product_prefetch_operands(lowering *L, const product *p, const product_item *it, const sn_ix *ip, const sn_ix *jp, const sn_ix *k0, bool last, sn_knode *contract) {
  sn_ix_context *x = L->k->ix;
  product_item next = *it;
  if (L->b.status != SN_OK || !p->far) return;
  L->b.before = contract;
  if (last) next_item(L, p, &next);
  const sn_ix *from = last ? lower_const(L, 0) : sn_ix_add(x, k0, lower_const(L, p->kc)), *panel = sn_ix_add(x, sn_ix_add(x, it->panel0, jp), lower_const(L, 1));
  bool rows = p->lhs != PRODUCT_COLUMNS;
  int64_t terms = part_of(p, 0, p->kc, p->panels, rows), rhs_terms = part_of(p, 1, p->kc, p->tiles, p->rhs_along_k);
  patch lhs = {0, product_tile_row(L, p, &next, ip), sn_ix_add(x, from, sn_ix_mul(x, jp, lower_const(L, terms))), p->mr, terms, rows};
  patch rhs = {1, sn_ix_mul(x, panel, lower_const(L, p->nr)), sn_ix_add(x, k0, sn_ix_mul(x, ip, lower_const(L, rhs_terms))), p->nr, rhs_terms, p->rhs_along_k};
  ask(L, p, &next, &lhs);
  if (!p->shared_rhs) ask(L, p, it, &rhs);
  L->b.before = NULL;
}

/* The sums of the tile after this one. */
void product_prefetch_sums(lowering *L, const product *p, const sn_ix *ip, const sn_ix *jp, sn_knode *contract) {
  sn_knode *loop;
  sn_ix_context *x = L->k->ix;
  if (L->b.status != SN_OK) return;
  L->b.before = contract;
  const sn_ix *i = lower_for(L, SN_KLOOP_SEQ, 0, lower_const(L, 0), lower_const(L, p->mr), 1, 0, NULL, NULL, &loop);
  for (int64_t j = 0; i && j < p->nr; j += 64 / (int64_t)sn_type_bytes(p->type)) {
    const sn_ix *at[4] = {jp, sn_ix_add(x, ip, lower_const(L, 1)), i, lower_const(L, j)};
    sn_kb_prefetch(&L->b, p->acc, at, SN_KPREFETCH_READ);
  }
  lower_end(L, 0, NULL, loop);
  L->b.before = NULL;
}

/* While a row of `n` neighbours is packed, the row a few terms on: where rows are short and far apart nothing else fetches them in time. */
void product_prefetch_ahead(lowering *L, const product *p, uint32_t operand, const product_item *it, const sn_ix *outer, const sn_ix *k, int64_t n) {
  enum { TERMS_AHEAD = 8 };
  for (int64_t i = 0; p->far && i < n; i += line_of(p, operand)) {
    ask_at(L, p, it, operand, sn_ix_add(L->k->ix, outer, lower_const(L, i)), sn_ix_add(L->k->ix, k, lower_const(L, TERMS_AHEAD)), SN_KPREFETCH_READ);
  }
}
