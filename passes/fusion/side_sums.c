/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Column sums that a pass over rows takes along: what layer norm's derivative gives to scale and offset is the sum over all rows of elements that the pass has at hand.
 *
 *   dx = f(dy, x)            a pass over rows                    dx, ds = one pass over rows, which adds up its elements' columns
 *   ds = sum(dy * g(x))      another one over dy and x     ->
 *
 * On CUDA targets (lower_gpu_sums.c); CPUs have what they read in cache and run such sums as parts of one command. A group takes a sum whose readers all stand behind it.
 * Groups are anchored at their last member, so a sum must stand in front of that: sums and what is computed for them alone move up first. */
#include "fusion.h"

#include <string.h>

enum { MOST_SUMS = 4, MOST_COLUMNS = 4096, LEAST_ROWS = 256, SEEN = 24, MOST_ABOVE = 6 };

static bool on_cuda(const fu_state *f) { return f->pc->target && f->pc->target->kind == SN_TARGET_CUDA; }

/* Sum of f32 over the first dimensions. */
static bool is_column_sum(const sn_instr *i) {
  sn_opcode op;
  if (i->op != SN_OP_REDUCE || i->n_operands != 2 || i->n_control || !sn_shape_is_array(i->shape) || i->shape->type != SN_TYPE_F32) return false;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return false;
  }
  int64_t kept = sn_shape_elements(i->shape), total = sn_shape_elements(sn_operand_shape(i, 0));
  if (kept < 32 || kept > MOST_COLUMNS || total / kept < LEAST_ROWS) return false;
  return sn_computation_is_binary(i->called[0], &op) && op == SN_OP_ADD;
}

/* ---- up ---- */

static sn_instr *latest_operand(const fu_state *f, const sn_instr *i) {
  sn_instr *latest = NULL;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    sn_instr *x = sn_instr_operand(i, k);
    if (!latest || f->position[x->id] > f->position[latest->id]) latest = x;
  }
  return latest;
}

/* Moves i, and what is elementwise and there for it alone, to right behind what it needs. */
static void hoist(const fu_state *f, uint32_t *position, sn_instr *i, int depth) {
  for (uint32_t k = 0; k < i->n_operands && depth < MOST_ABOVE; k++) {
    sn_instr *x = sn_instr_operand(i, k);
    if (x->n_operands && !x->n_control && sn_instr_n_users(x) == 1 && sn_op_has(x->op, SN_T_ELTWISE)) hoist(f, position, x, depth + 1);
  }
  sn_instr *latest = latest_operand(f, i);
  if (!latest || !latest->next || latest->next == i) return;
  sn_instr_move_before(i, latest->next);
  position[i->id] = position[latest->id]; /* behind it, in front of what stood behind it */
}

void sn_fusion_hoist_sums(fu_state *f) {
  uint32_t *position = (uint32_t *)f->position, n = 0;
  if (!on_cuda(f)) return;
  SN_FOR_INSTRS(i, f->c) position[i->id] = n++;
  SN_FOR_INSTRS_SAFE(i, f->c) {
    if (is_column_sum(i)) hoist(f, position, i, 0);
  }
}

/* ---- who takes it ---- */

/* The last dimensions of s that have so many elements; -1: none do. */
static int trailing_dims(const sn_shape *s, int64_t elements) {
  int64_t all = 1;
  for (int k = s->rank; k-- > 0;) {
    all *= s->dims[k];
    if (all == elements && k > 0) return s->rank - k;
    if (all > elements) return -1;
  }
  return -1;
}

static bool reads_all(const fu_group *g, const fu_fact *x) {
  for (int l = 0; l < x->n_leaves && x->n_leaves != FU_MANY_LEAVES; l++) {
    uint32_t k = 0;
    while (k < g->n_leaves && (g->leaves[k].at != x->leaves[l] || g->leaves[k].n == 0)) k++;
    if (k == g->n_leaves) return false;
  }
  return x->n_leaves > 0 && x->n_leaves != FU_MANY_LEAVES;
}

static bool may_take(const fu_state *f, const fu_group *g, const fu_fact *x, const fu_fact *of) {
  const sn_shape *s = f->facts[g->anchor].i->shape;
  if (g->hero != FU_NONE || g->columns || g->n == 0 || g->n_sums >= MOST_SUMS || g->n_results >= sn_heroes[SN_HERO_ROWS].results || g->n_inputs + 4 > FU_MOST_INPUTS) return false;
  if (!sn_shape_is_array(s) || g->elements != of->elements || trailing_dims(s, x->elements) < 0) return false;
  return !g->has_rows || g->row_length == x->elements;
}

fu_group *sn_fusion_host_of_sum(const fu_state *f, uint32_t at) {
  const fu_fact *x = &f->facts[at];
  if (!on_cuda(f) || !is_column_sum(x->i)) return NULL;
  const fu_fact *of = &f->facts[fu_position(f, sn_instr_operand(x->i, 0))];
  int seen = 0;
  for (fu_group *g = f->groups; g && seen < SEEN; g = g->next, seen++) {
    if (may_take(f, g, x, of) && reads_all(g, of) && sn_fusion_read_behind(f, g, at)) return g;
  }
  return NULL;
}
