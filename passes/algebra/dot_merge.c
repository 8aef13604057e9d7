/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Products that share an operand become one: x Wq, x Wk, x Wv = slices of x [Wq Wk Wv]. Each element still sums the same terms in the same order.
 *
 * It pays when reading the shared operand once instead of n times saves more bytes than joining the others costs, and while the single products are too small to
 * keep a machine busy. A product may depend on another one through its own operand; only products whose own operands stand in front of the first product
 * (or are cheap rearrangements of what does, which then move there) are merged, so no cycle can arise. */
#include "../passes_internal.h"

enum { MOST_FLOPS = 1 << 28, MOST_DOTS = 16, MOST_CHAIN = 4 };

typedef struct merge {
  sn_pass_ctx *pc;
  uint32_t *position; /* by id */
  uint32_t n_positions;
} merge;

static bool before(const merge *x, const sn_instr *a, const sn_instr *b) {
  return a->id < x->n_positions && b->id < x->n_positions && x->position[a->id] < x->position[b->id];
}

static bool rearranges(const sn_instr *i) { return i->op == SN_OP_RESHAPE || i->op == SN_OP_TRANSPOSE || i->op == SN_OP_CONVERT; }

/* Does i stand in front of `first`, or can it be moved there? */
static bool available(const merge *x, const sn_instr *i, const sn_instr *first) {
  for (int k = 0; k < MOST_CHAIN; k++) {
    if (before(x, i, first)) return true;
    if (!rearranges(i) || i->n_control) return false;
    i = sn_instr_operand(i, 0);
  }
  return false;
}

static void make_available(merge *x, sn_instr *i, sn_instr *first) {
  if (before(x, i, first)) return;
  make_available(x, sn_instr_operand(i, 0), first);
  sn_instr_move_before(i, first);
  if (i->id < x->n_positions) x->position[i->id] = x->position[first->id]; /* in front of all that follows; equal is not before, so nobody relies on it */
}

static bool same_dims_of(const sn_instr *a, const sn_instr *b) {
  static const sn_attr_id ids[] = {SN_ATTR_LHS_BATCH_DIMS, SN_ATTR_RHS_BATCH_DIMS, SN_ATTR_LHS_CONTRACTING_DIMS, SN_ATTR_RHS_CONTRACTING_DIMS, SN_ATTR_OPERAND_PRECISION, SN_ATTR_DOT_ALGORITHM};
  for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
    const sn_attr *x = sn_instr_attr(a, ids[k]), *y = sn_instr_attr(b, ids[k]);
    if (!x != !y || (x && !sn_attr_equal(x, y))) return false;
  }
  return a->shape->type == b->shape->type;
}

/* The dimension along which the other operand grows; -1: it has none (a vector). */
static int64_t free_dim(const sn_instr *dot, uint32_t side) {
  int64_t n_batch = sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS).n;
  int64_t c = sn_instr_ints(dot, side ? SN_ATTR_RHS_CONTRACTING_DIMS : SN_ATTR_LHS_CONTRACTING_DIMS).v[0];
  if (sn_operand_shape(dot, side)->rank != n_batch + 2) return -1;
  return c == n_batch ? n_batch + 1 : n_batch;
}

static bool candidate(const sn_instr *i, uint32_t shared) {
  if (i->op != SN_OP_DOT || i->n_control || i->sharding || !sn_shape_is_static(i->shape) || !sn_dot_is_canonical(i)) return false;
  if (free_dim(i, 1 - shared) < 0 || sn_instr_operand(i, 0) == sn_instr_operand(i, 1) || sn_instr_frontend(i, "sinter.remat")) return false;
  double flops = 2 * (double)sn_shape_elements(i->shape) * (double)sn_operand_shape(i, 0)->dims[sn_instr_ints(i, SN_ATTR_LHS_CONTRACTING_DIMS).v[0]];
  return flops <= MOST_FLOPS;
}

/* The products that use x on this side and can be one with the first of them. */
static int collect(const merge *x, const sn_instr *shared, uint32_t side, sn_instr *first, sn_instr **dots) {
  int n = 0;
  dots[n++] = first;
  SN_FOR_USES(u, shared) {
    sn_instr *i = u->user;
    if (i == first || u->index != side || n == MOST_DOTS || !candidate(i, side) || !same_dims_of(first, i)) continue;
    if (sn_operand_shape(i, 1 - side)->type != sn_operand_shape(first, 1 - side)->type) continue;
    if (before(x, first, i) && available(x, sn_instr_operand(i, 1 - side), first)) dots[n++] = i;
  }
  return n;
}

static bool pays(int n, sn_instr *const *dots, uint32_t side, sn_number *numbers) {
  double saved = (double)(n - 1) * (double)sn_shape_bytes(sn_operand_shape(dots[0], side)), joined = 0;
  for (int k = 0; k < n; k++) joined += 2 * (double)sn_shape_bytes(sn_operand_shape(dots[k], 1 - side));
  numbers[0] = (sn_number){"saved_bytes", saved};
  numbers[1] = (sn_number){"joined_bytes", joined};
  return saved > joined;
}

static sn_status merge_dots(merge *x, int n, sn_instr **dots, uint32_t side) {
  sn_instr *first = dots[0], *others[MOST_DOTS], *xs[2];
  int64_t dim = free_dim(first, 1 - side), n_batch = sn_instr_ints(first, SN_ATTR_LHS_BATCH_DIMS).n, total = 0, dims[SN_MAX_RANK];
  for (int k = 0; k < n; k++) {
    others[k] = sn_instr_operand(dots[k], 1 - side);
    make_available(x, others[k], first);
    total += others[k]->shape->dims[dim];
  }
  sn_builder b;
  sn_builder_init_at(&b, x->pc->diag, first);
  int rank = first->shape->rank, grown = side == 0 ? rank - 1 : (int)n_batch;
  for (int d = 0; d < rank; d++) dims[d] = d == grown ? total : first->shape->dims[d];
  xs[side] = sn_instr_operand(first, side);
  xs[1 - side] = sn_build_concatenate(&b, (uint32_t)n, others, dim);
  sn_instr *y = sn_build(&b, SN_OP_DOT, sn_shape_array(sn_builder_arena(&b), first->shape->type, rank, dims), 2, xs, first->n_attrs, first->attrs, 0, NULL);
  sn_instr *parts[MOST_DOTS];
  int64_t at = 0;
  for (int k = 0; k < n; k++) { /* all of them in front of the first product, while it still stands */
    int64_t width = others[k]->shape->dims[dim];
    parts[k] = sn_build_slice_dim(&b, y, grown, at, at + width);
    at += width;
  }
  SN_TRY(b.status);
  for (int k = 0; k < n; k++) {
    SN_TRY(sn_pass_replace(x->pc, dots[k], parts[k]));
    sn_instr_erase(dots[k]);
  }
  return SN_OK;
}

static sn_status try_merge(merge *x, sn_instr *first, uint32_t side) {
  sn_instr *dots[MOST_DOTS];
  sn_number numbers[2];
  if (!candidate(first, side)) return SN_OK;
  int n = collect(x, sn_instr_operand(first, side), side, first, dots);
  if (n < 2) return SN_OK;
  if (!pays(n, dots, side, numbers)) {
    sn_pass_remark(x->pc, SN_REFUSED, SN_REASON_COST, dots[1], first, 2, numbers, "joining the other operands costs more than it saves");
    return SN_OK;
  }
  if (!sn_pass_may(x->pc)) return SN_OK;
  for (int k = 1; k < n; k++) sn_pass_remark(x->pc, SN_DONE, SN_REASON_RULE, dots[k], first, 2, numbers, "products of a shared operand");
  return merge_dots(x, n, dots, side);
}

sn_status sn_pass_dot_merge(sn_pass_ctx *pc, sn_module *m) {
  sn_call_graph g;
  SN_TRY(sn_call_graph_build(pc->scratch, m, &g));
  merge x = {pc, SN_NEW_N(pc->scratch, uint32_t, m->n_ids + 1u), m->n_ids};
  if (!x.position) return sn_out_of_memory(pc->diag, m->n_ids * sizeof(uint32_t));
  SN_FOR_COMPUTATIONS(c, m) {
    if (g.in_fusion[c->id]) continue;
    uint32_t n = 1;
    SN_FOR_INSTRS(i, c) x.position[i->id] = n++;
    for (sn_instr *i = c->first, *next; i; i = next) {
      next = i->next;
      if (i->op != SN_OP_DOT) continue;
      for (uint32_t side = 0; side < 2 && sn_instr_is_linked(i); side++) {
        sn_instr *previous = i->prev;
        SN_TRY(try_merge(&x, i, side));
        if (!sn_instr_is_linked(i)) next = previous ? previous->next : c->first; /* others behind i may have gone as well */
      }
    }
  }
  return SN_OK;
}
