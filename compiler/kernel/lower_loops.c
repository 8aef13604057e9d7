/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The loop template: one nest over the elements of the results. Leading dimensions become the grid and plain loops, the last one a vector loop.
 *
 *   grid (d0, d1)  ->  for d2 …  ->  for d3 vector W: store
 *
 * A fusion that reduces rows has results per element and per row; what depends on the row alone is hoisted there by lower_value, so softmax and layer norm come out as
 * a few passes over a row in cache. */
#include "lower.h"
#include "sinter/plan.h"

#include <string.h>

/* An item should be worth this many elements, and there should be this many items. Whether they are few enough for one thread is seen when they run. */
enum { ITEM_ELEMENTS = 2048, MANY_ITEMS = 64 };

/* ---- one nest ---- */

typedef struct domain {
  int rank;
  int64_t dims[SN_MAX_RANK];
  bool vector;    /* the last dimension runs in lanes */
  bool flat;      /* one dimension standing for all of `shape`'s */
  const sn_shape *shape;
  int lanes;
} domain;

/* Grid dimensions: as few leading ones as give enough items or make items small enough. each: what an element of the result takes. */
static int grid_dims(const domain *m, int64_t each) {
  int64_t items = 1, total = each;
  int most = m->vector ? m->rank - 1 : m->rank;
  for (int k = 0; k < m->rank; k++) total *= m->dims[k];
  for (int k = 0; k < most; k++) {
    if (items >= MANY_ITEMS || total / items <= ITEM_ELEMENTS) return k;
    items *= m->dims[k];
  }
  return most;
}

/* idx of the shape from the nest's variables. A flat domain's elements are (0, …, 0, f) in buffers of shape [1, …, 1, total]. */
static void shape_index(lowering *L, const domain *m, const sn_ix *const *vars, const sn_ix **idx) {
  for (int k = 0; k < m->shape->rank; k++) idx[k] = !m->flat ? vars[k] : k == m->shape->rank - 1 ? vars[0] : lower_const(L, 0);
}

static void flatten_buffers(lowering *L, const domain *m) {
  int64_t dims[SN_MAX_RANK];
  for (int k = 0; k < m->shape->rank; k++) dims[k] = k == m->shape->rank - 1 ? m->dims[0] : 1;
  const int64_t *own = sn_arena_copy(L->arena, dims, (size_t)m->shape->rank * sizeof *dims);
  if (!own) L->b.status = SN_ERR_MEMORY;
  for (int b = 0; own && b < L->k->n_buffers; b++) {
    if (L->k->buffers[b].rank) L->k->buffers[b].dims = own;
  }
}

static void store_outputs(lowering *L, const sn_shape *shape, const sn_ix *const *idx, const bool *mine) {
  for (int k = 0; k < L->n_outputs; k++) {
    if (!mine[k] || !sn_shape_equal(lower_output_shape(L, k), shape, SN_EQ_IGNORE_TYPE)) continue;
    sn_kb_store(&L->b, L->output_buffer[k], idx, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], idx));
  }
}

/* Results whose shape is the first `n` dimensions of the domain: stored where those variables exist. */
static void store_prefix(lowering *L, const domain *m, int n, const sn_ix *const *vars, const bool *mine) {
  for (int k = 0; k < L->n_outputs; k++) {
    const sn_shape *s = lower_output_shape(L, k);
    if (!mine[k] || s->rank != n || n == m->rank || m->flat) continue;
    if (n && memcmp(s->dims, m->dims, (size_t)n * sizeof *s->dims) != 0) continue;
    sn_kb_store(&L->b, L->output_buffer[k], vars, 0, NULL, lower_value(L, L->outputs[k], L->output_index[k], vars));
  }
}

static void open_loops(lowering *L, const domain *m, int from, const sn_ix **vars, const bool *mine, int prefix) {
  sn_knode *node;
  if (from == prefix) store_prefix(L, m, from, vars, mine);
  if (from == m->rank) {
    const sn_ix *idx[SN_MAX_RANK];
    shape_index(L, m, vars, idx);
    store_outputs(L, m->shape, idx, mine);
    return;
  }
  bool vector = m->vector && from == m->rank - 1;
  vars[from] = lower_for(L, vector ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, vector ? m->lanes : 0, lower_const(L, 0), lower_const(L, m->dims[from]), 1, 0, NULL, NULL, &node);
  if (!vars[from]) return;
  open_loops(L, m, from + 1, vars, mine, prefix);
  lower_end(L, 0, NULL, node);
}

/* A flat domain is cut into chunks of equal size; the last one is short. */
static void open_flat(lowering *L, domain *m, const bool *mine) {
  int64_t total = m->dims[0], chunk = ITEM_ELEMENTS;
  if (total < 2 * chunk) chunk = total;
  int64_t grid = (total + chunk - 1) / chunk;
  sn_ix_context *x = L->k->ix;
  sn_knode *node;
  flatten_buffers(L, m);
  if (!lower_phase(L, 1, &grid)) return;
  const sn_ix *start = sn_ix_mul(x, lower_grid(L, 0), lower_const(L, chunk));
  const sn_ix *hi = lower_const(L, chunk);
  if (total % chunk) hi = sn_ix_min(x, hi, sn_ix_sub(x, lower_const(L, total), start));
  const sn_ix *j = lower_for(L, m->vector ? SN_KLOOP_VECTOR : SN_KLOOP_SEQ, m->vector ? m->lanes : 0, lower_const(L, 0), hi, 1, 0, NULL, NULL, &node);
  if (!j) return;
  const sn_ix *var = sn_ix_add(x, start, j), *idx[SN_MAX_RANK];
  shape_index(L, m, &var, idx);
  store_outputs(L, m->shape, idx, mine);
  lower_end(L, 0, NULL, node);
}

/* ---- CUDA: threads take neighbouring elements, whatever the dimensions ---- */

enum { ELEMENTS_A_THREAD = 4 };

static int64_t product_of(const int64_t *dims, int n) {
  int64_t all = 1;
  for (int k = 0; k < n; k++) all *= dims[k];
  return all;
}

/* A chunk of elements a block. */
static void gpu_elements(lowering *L, domain *m, const bool *mine) {
  sn_ix_context *x = L->k->ix;
  sn_knode *node;
  int64_t total = sn_shape_elements(m->shape);
  int lanes = lower_gpu_lanes(total);
  /* Small results are spread over more blocks, a thread an element. */
  int64_t chunk = total > 256 * 1024 ? (int64_t)lanes * ELEMENTS_A_THREAD : lanes, grid = (total + chunk - 1) / chunk;
  if (m->flat) flatten_buffers(L, m);
  if (!lower_phase(L, 1, &grid)) return;
  const sn_ix *start = sn_ix_mul(x, lower_grid(L, 0), lower_const(L, chunk)), *hi = lower_const(L, chunk);
  if (total % chunk) hi = sn_ix_min(x, hi, sn_ix_sub(x, lower_const(L, total), start));
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, lanes, lower_const(L, 0), hi, 1, 0, NULL, NULL, &node);
  if (!j) return;
  const sn_ix *flat = sn_ix_add(x, start, j), *idx[SN_MAX_RANK];
  if (m->flat) shape_index(L, m, &flat, idx);
  else lower_delinearise(L, flat, m->shape->rank, m->shape->dims, idx);
  store_outputs(L, m->shape, idx, mine);
  lower_end(L, 0, NULL, node);
}

/* A row a block: its reductions in all lanes, then its elements. */
static void gpu_rows(lowering *L, const domain *m, const bool *mine, int prefix) {
  const sn_ix *idx[SN_MAX_RANK];
  sn_knode *node;
  int64_t row = product_of(m->shape->dims + prefix, m->shape->rank - prefix);
  if (!lower_phase(L, prefix, m->shape->dims)) return;
  for (int k = 0; k < prefix; k++) idx[k] = lower_grid(L, k);
  lower_gpu_keep_rows(L, m->shape, prefix, idx);
  store_prefix(L, m, prefix, idx, mine);
  if (prefix == m->shape->rank) {
    store_outputs(L, m->shape, idx, mine);
    return;
  }
  const sn_ix *j = lower_for(L, SN_KLOOP_VECTOR, lower_gpu_lanes(row / 2 + 1), lower_const(L, 0), lower_const(L, row), 1, 0, NULL, NULL, &node);
  if (!j) return;
  lower_delinearise(L, j, m->shape->rank - prefix, m->shape->dims + prefix, idx + prefix);
  store_outputs(L, m->shape, idx, mine);
  lower_end(L, 0, NULL, node);
}

static int64_t longest_row(const lowering *L);

static void open_domain(lowering *L, domain *m, const bool *mine, int prefix) {
  const sn_ix *vars[SN_MAX_RANK];
  if (lower_on_gpu(L) && m->shape->rank > 0) {
    lower_tile *tiles = L->tiles; /* rows are kept for a phase */
    if (prefix >= 0) gpu_rows(L, m, mine, prefix);
    else if (m->flat || !lower_gpu_transpose(L, m->shape, mine)) gpu_elements(L, m, mine);
    L->tiles = tiles;
    return;
  }
  if (m->flat) {
    open_flat(L, m, mine);
    return;
  }
  bool has_rows = prefix >= 0 && prefix < m->rank; /* then the domain's elements are what is reduced */
  int64_t each = has_rows ? 1 : longest_row(L);
  int g = grid_dims(m, each > 1 ? each : 1);
  if (prefix >= 0 && g > prefix) g = prefix; /* a row is one item's: its reductions are computed once */
  if (!lower_phase(L, g, m->dims)) return;
  for (int k = 0; k < g; k++) {
    vars[k] = lower_grid(L, k);
    if (k == prefix) store_prefix(L, m, k, vars, mine);
  }
  open_loops(L, m, g, vars, mine, prefix);
}

/* ---- what the fusion looks like ---- */

static bool moves_nothing(const sn_instr *i, const sn_shape *s) {
  if (i->op == SN_OP_PARAMETER || i->op == SN_OP_CONSTANT || i->op == SN_OP_TUPLE || i->op == SN_OP_GET_TUPLE_ELEMENT) return true;
  if (i->op == SN_OP_BROADCAST) return sn_operand_shape(i, 0)->rank == 0;
  if (i->op == SN_OP_COPY) return true;
  return sn_op_has(i->op, SN_T_ELTWISE) && (i->shape->rank == 0 || sn_shape_equal(i->shape, s, SN_EQ_IGNORE_TYPE));
}

/* Elementwise all over one shape in default layouts: dimensions do not matter, so they may be taken as one. */
static bool is_flat(const lowering *L, const sn_shape *s) {
  if (L->is_part) return false; /* buffers are shared with other parts, which see their dimensions */
  for (int k = 0; k < L->k->n_buffers; k++) {
    const sn_kbuffer *b = &L->k->buffers[k];
    if (b->strides || (b->rank && (b->rank != s->rank || memcmp(b->dims, s->dims, (size_t)s->rank * sizeof *s->dims) != 0))) return false;
  }
  if (!L->body) return moves_nothing(L->root, s);
  SN_FOR_INSTRS(i, L->body) {
    if (!moves_nothing(i, s)) return false;
  }
  return true;
}

static bool reduces_last(const sn_instr *i) {
  if (i->op != SN_OP_REDUCE) return false;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int last = sn_operand_shape(i, 0)->rank - 1;
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] == last) return true;
  }
  return false;
}

static const sn_shape *result_leaf(const sn_instr *i) { return sn_shape_is_tuple(i->shape) ? i->shape->elements[0] : i->shape; }

/* Rank of the rows that reductions inside give: the longest prefix of s's dimensions that some reduction of the last dimension has as its result. -1: none. */
int lower_row_rank(const lowering *L, const sn_shape *s) {
  int best = -1;
  if (!L->body) return reduces_last(L->root) ? s->rank : -1;
  SN_FOR_INSTRS(i, L->body) {
    if (!reduces_last(i)) continue;
    const sn_shape *r = result_leaf(i);
    if (r->rank <= s->rank && (r->rank == 0 || memcmp(r->dims, s->dims, (size_t)r->rank * sizeof *r->dims) == 0) && r->rank > best) best = r->rank;
  }
  return best;
}

/* Elements that one result of the longest reduction takes. */
static int64_t longest_row(const lowering *L) {
  int64_t most = 0;
  for (const sn_instr *i = L->body ? L->body->first : L->root; i; i = L->body ? i->next : NULL) {
    int64_t results = i->op == SN_OP_REDUCE ? sn_shape_elements(result_leaf(i)) : 0;
    int64_t n = results ? sn_shape_elements(sn_operand_shape(i, 0)) / results : 0;
    if (n > most) most = n;
  }
  return most;
}

static int lanes_for(const lowering *L, const sn_shape *s, int64_t last) {
  int lanes = lower_lanes(L, s->type);
  while (lanes > 2 && lanes / 2 >= last) lanes /= 2;
  return lanes;
}

static void domain_of(const lowering *L, const sn_shape *s, domain *m, int *prefix) {
  memset(m, 0, sizeof *m);
  m->shape = s;
  m->rank = s->rank;
  if (s->rank) memcpy(m->dims, s->dims, (size_t)s->rank * sizeof *s->dims);
  *prefix = lower_row_rank(L, s);
  if (lower_on_gpu(L) && *prefix >= 0 && longest_row(L) < SN_SHORT_ROW) *prefix = -1; /* a thread reduces it alone */
  m->flat = *prefix < 0 && s->rank > 0 && is_flat(L, s);
  if (m->flat) {
    m->rank = 1;
    m->dims[0] = sn_shape_elements(s);
  }
  m->vector = m->rank > 0 && *prefix < m->rank && m->dims[m->rank - 1] > 1 && !sn_type_is_complex(s->type);
  if (m->vector) m->lanes = lanes_for(L, s, m->dims[m->rank - 1]);
}

/* Is s covered by the domain of `main`: the same dims, or its row prefix? */
static bool covered(const sn_shape *s, const sn_shape *main, int prefix) {
  if (sn_shape_equal(s, main, SN_EQ_IGNORE_TYPE)) return true;
  return s->rank == prefix && (prefix == 0 || memcmp(s->dims, main->dims, (size_t)prefix * sizeof *s->dims) == 0);
}

/* The largest result that is not stored yet; -1: all are. */
static int next_main(const lowering *L, const bool *done) {
  int best = -1;
  for (int k = 0; k < L->n_outputs; k++) {
    if (done[k] || sn_shape_elements(lower_output_shape(L, k)) == 0) continue;
    if (best < 0 || sn_shape_elements(lower_output_shape(L, k)) > sn_shape_elements(lower_output_shape(L, best))) best = k;
  }
  return best;
}

void lower_loops(lowering *L) {
  bool *done = SN_NEW_N(L->arena, bool, L->n_outputs + 1), *mine = SN_NEW_N(L->arena, bool, L->n_outputs + 1);
  if (!done || !mine) {
    L->b.status = SN_ERR_MEMORY;
    return;
  }
  for (int main; L->b.status == SN_OK && (main = next_main(L, done)) >= 0;) {
    domain m;
    int prefix;
    domain_of(L, lower_output_shape(L, main), &m, &prefix);
    for (int k = 0; k < L->n_outputs; k++) {
      mine[k] = !done[k] && covered(lower_output_shape(L, k), m.shape, m.flat ? -1 : prefix);
      done[k] |= mine[k];
    }
    open_domain(L, &m, mine, prefix);
  }
}
