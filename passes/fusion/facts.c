/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What fusion must know of each instruction, found in one walk in order. */
#include "fusion.h"

#include <string.h>

/* ---- classes ---- */

static const struct {
  sn_opcode op;
  fu_class cls;
} rows[] = {
    {SN_OP_BROADCAST, FU_FREE},     {SN_OP_RESHAPE, FU_FREE},     {SN_OP_IOTA, FU_FREE},          {SN_OP_TRANSPOSE, FU_MOVE},   {SN_OP_SLICE, FU_MOVE},
    {SN_OP_PAD, FU_MOVE},           {SN_OP_REVERSE, FU_MOVE},     {SN_OP_CONCATENATE, FU_MOVE},   {SN_OP_DYNAMIC_SLICE, FU_MOVE}, {SN_OP_GATHER, FU_MOVE},
    {SN_OP_DIVIDE, FU_COSTLY},      {SN_OP_REMAINDER, FU_COSTLY}, {SN_OP_SQRT, FU_COSTLY},        {SN_OP_RSQRT, FU_COSTLY},     {SN_OP_MAP, FU_COSTLY},
    {SN_OP_DOT, FU_HERO},           {SN_OP_CONVOLUTION, FU_HERO}, {SN_OP_REDUCE_WINDOW, FU_HERO}, {SN_OP_REDUCE, FU_HERO},      {SN_OP_STOCHASTIC_CONVERT, FU_ALONE},
};

enum { MEETING_USERS = 3, SPLIT_ELEMENTS = 32768, SPLIT_ROWS = 64, SPLIT_FEW = 64 };

static bool is_scalar_constant(const sn_instr *i) { return i->op == SN_OP_CONSTANT && sn_shape_is_array(i->shape) && sn_shape_elements(i->shape) == 1; }

/* Reduces a leading or a trailing run of dimensions? */
static void reduced_run(const sn_instr *i, bool *leading, bool *trailing) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int rank = sn_operand_shape(i, 0)->rank;
  uint64_t set = 0;
  for (int64_t k = 0; k < dims.n; k++) set |= UINT64_C(1) << dims.v[k];
  *leading = *trailing = dims.n > 0;
  for (int k = 0; k < rank; k++) {
    bool in = set >> k & 1;
    if (in != (k < dims.n)) *leading = false;
    if (in != (k >= rank - dims.n)) *trailing = false;
  }
}

/* As the kernels split them: results too few to keep every worker busy. */
static fu_class class_of_reduce(const sn_instr *i) {
  bool leading, trailing;
  if (!sn_shape_is_array(i->shape)) return FU_HERO;
  int64_t kept = sn_shape_elements(i->shape), total = sn_shape_elements(sn_operand_shape(i, 0));
  reduced_run(i, &leading, &trailing);
  if (kept == 0 || total == 0) return FU_HERO;
  int64_t each = total / kept;
  sn_opcode op;
  bool plain = i->n_operands == 2 && sn_computation_is_binary(i->called[0], &op);
  if (plain && kept <= SPLIT_FEW && each >= SPLIT_ELEMENTS) return FU_COLUMNS;
  if (plain && leading && !trailing && each >= SPLIT_ROWS && total >= SPLIT_ELEMENTS && kept >= 4) return FU_COLUMNS;
  return trailing ? FU_ROW : FU_HERO;
}

static bool has_tuple(const sn_instr *i) {
  if (!sn_shape_is_array(i->shape)) return true;
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!sn_shape_is_array(sn_operand_shape(i, k))) return true;
  }
  return false;
}

static fu_class class_of(const sn_instr *i) {
  if (is_scalar_constant(i)) return sn_instr_literal(i) ? FU_FREE : FU_ALONE;
  if (has_tuple(i) || i->n_control || (i->n_uses == 0 && !sn_instr_is_root(i))) return FU_ALONE;
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
    if (rows[k].op == i->op) return i->op == SN_OP_REDUCE ? class_of_reduce(i) : rows[k].cls;
  }
  if (i->op == SN_OP_BITCAST_CONVERT) return sn_type_bits(i->shape->type) == sn_type_bits(sn_operand_shape(i, 0)->type) ? FU_CHEAP : FU_ALONE;
  if (!sn_op_has(i->op, SN_T_ELTWISE) || i->n_operands > 3) return FU_ALONE;
  return sn_op_has(i->op, SN_T_TRANS) ? FU_COSTLY : FU_CHEAP;
}

static bool is_heavy(fu_class cls) { return cls == FU_ROW || cls == FU_COLUMNS || cls == FU_HERO; }

/* ---- products ---- */

bool sn_fusion_is_product(const sn_target *target, const sn_instr *dot) {
  double shares[2];
  if (dot->op == SN_OP_CONVOLUTION) return sn_conv_is_packed(target, dot, shares);
  if (dot->op != SN_OP_DOT) return false;
  const sn_shape *a = sn_operand_shape(dot, 0), *b = sn_operand_shape(dot, 1);
  sn_type t = dot->shape->type;
  if (a->type != t || b->type != t || (t != SN_TYPE_F32 && t != SN_TYPE_F64)) return false;
  sn_ints batch = sn_instr_ints(dot, SN_ATTR_LHS_BATCH_DIMS), contracted = sn_instr_ints(dot, SN_ATTR_LHS_CONTRACTING_DIMS);
  int64_t k = 1, n_batch = 1;
  for (int64_t d = 0; d < contracted.n; d++) k *= a->dims[contracted.v[d]];
  for (int64_t d = 0; d < batch.n; d++) n_batch *= a->dims[batch.v[d]];
  if (k == 0 || n_batch == 0) return false;
  int64_t m = sn_shape_elements(a) / k / n_batch, n = sn_shape_elements(b) / k / n_batch;
  return m >= 4 && n >= 8 && k >= 8 && m * n * k >= 16384;
}

bool sn_fusion_leading_dims(const sn_instr *broadcast) {
  sn_ints dims = sn_instr_ints(broadcast, SN_ATTR_DIMENSIONS);
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return false;
  }
  return true;
}

/* ---- heroes: what each element comes from ---- */

enum { MAX_HERO_STEPS = 28 };

static bool renames(const sn_instr *i) { return i->op == SN_OP_RESHAPE || i->op == SN_OP_TRANSPOSE; }

/* Reshapes keep elements in their order, transposes do not. */
static uint64_t order_through(const sn_instr *i, uint64_t order) {
  if (i->op != SN_OP_TRANSPOSE) return order;
  sn_ints perm = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  return sn_hash(perm.v, (size_t)perm.n * sizeof *perm.v, sn_shape_hash(sn_operand_shape(i, 0), order));
}

/* Of the heroes that operands come from the latest is taken, if nothing else that is read depends on it. */
static void find_hero(fu_state *f, uint32_t at) {
  fu_fact *x = &f->facts[at];
  x->hero = FU_NONE;
  if (x->cls == FU_HERO) {
    x->hero = at;
    x->solo = true;
    return;
  }
  bool eltwise = sn_op_has(x->i->op, SN_T_ELTWISE);
  if (x->cls == FU_ALONE || (!eltwise && !renames(x->i))) return;
  uint32_t latest = FU_NONE;
  for (uint32_t k = 0; k < x->i->n_operands; k++) {
    const fu_fact *o = fu_operand(f, x->i, k);
    if (o->hero == FU_NONE || o->elements != x->elements || o->hero_steps >= MAX_HERO_STEPS) continue;
    if (latest == FU_NONE || o->hero > latest) latest = o->hero;
  }
  if (latest == FU_NONE) return;
  x->solo = true;
  uint16_t steps = UINT16_MAX;
  for (uint32_t k = 0; k < x->i->n_operands; k++) {
    const fu_fact *o = fu_operand(f, x->i, k);
    if (o->hero != latest || o->elements != x->elements) {
      if (o->reach > latest) return; /* depends on the hero, or may: one may not be finished before the other */
      continue;
    }
    uint64_t order = order_through(x->i, o->order);
    if (steps != UINT16_MAX && order != x->order) return; /* two elements of the hero make one */
    x->order = order;
    if (o->hero_steps + 1 < steps) steps = (uint16_t)(o->hero_steps + 1);
    x->solo &= o->solo && !sn_instr_has_users(o->i, 2);
  }
  x->hero = latest;
  x->hero_steps = steps;
}

/* ---- leaves ---- */

static void add_leaf(fu_fact *x, uint32_t leaf) {
  for (int k = 0; k < x->n_leaves; k++) {
    if (x->leaves[k] == leaf) return;
  }
  if (x->n_leaves == FU_MAX_LEAVES) x->n_leaves = FU_MANY_LEAVES;
  else x->leaves[x->n_leaves++] = leaf;
}

/* Several heavy results meet here and several read the sum (the residual stream): it will be stored, whatever else is. */
static bool is_meeting(const fu_state *f, const fu_fact *x) {
  int large = 0;
  if (x->cls == FU_FREE || !sn_instr_has_users(x->i, MEETING_USERS)) return false;
  for (int l = 0; l < x->n_leaves && x->n_leaves != FU_MANY_LEAVES; l++) large += 2 * f->facts[x->leaves[l]].bytes >= x->bytes;
  return large >= 2 || x->n_leaves == FU_MANY_LEAVES;
}

static void find_leaves(fu_state *f, uint32_t at) {
  fu_fact *x = &f->facts[at];
  if (x->elements <= 1) return;
  if (x->cls == FU_ALONE || is_heavy(x->cls)) {
    add_leaf(x, at);
    return;
  }
  for (uint32_t k = 0; k < x->i->n_operands && x->n_leaves != FU_MANY_LEAVES; k++) {
    const fu_fact *o = fu_operand(f, x->i, k);
    if (o->n_leaves == FU_MANY_LEAVES) x->n_leaves = FU_MANY_LEAVES;
    for (int l = 0; l < o->n_leaves && x->n_leaves != FU_MANY_LEAVES; l++) add_leaf(x, o->leaves[l]);
  }
  x->meeting = is_meeting(f, x);
  if (!x->meeting) return;
  x->n_leaves = 0;
  add_leaf(x, at);
}

/* ---- the walk ---- */

static void find_fact(fu_state *f, uint32_t at, sn_instr *i) {
  fu_fact *x = &f->facts[at];
  x->i = i;
  x->cls = class_of(i);
  x->ops = (float)sn_cost_element(i);
  if (sn_shape_is_array(i->shape)) {
    x->elements = sn_shape_elements(i->shape);
    x->bytes = sn_shape_bytes(i->shape);
  }
  for (uint32_t k = 0; k < i->n_operands; k++) {
    uint32_t reach = fu_operand(f, i, k)->reach;
    if (reach > x->reach) x->reach = reach;
  }
  if (is_heavy(x->cls) || (x->cls == FU_ALONE && i->op != SN_OP_PARAMETER && i->op != SN_OP_CONSTANT)) x->reach = at + 1;
  find_hero(f, at);
  find_leaves(f, at);
}

sn_status sn_fusion_facts(fu_state *f) {
  f->facts = SN_NEW_N(f->pc->scratch, fu_fact, f->n + 1);
  if (!f->facts) return sn_out_of_memory(f->pc->diag, f->n * sizeof *f->facts);
  uint32_t at = 0;
  SN_FOR_INSTRS(i, f->c) find_fact(f, at++, i);
  /* What others wait for by control edges keeps its place too. */
  for (uint32_t k = 0; k < f->n; k++) {
    const sn_instr *i = f->facts[k].i;
    for (uint16_t e = 0; e < i->n_control; e++) f->facts[fu_position(f, i->control[e])].cls = FU_ALONE;
  }
  return SN_OK;
}
