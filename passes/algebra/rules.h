/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Rewrite rules as data, and what drives them.
 *
 * The laws every rule keeps:
 *   1. the result has the type and the shape of what it replaces;
 *   2. its class is its promise: an `exact` rule gives the same bits for every input (NaN for NaN, -0 for -0, every rounding where it was),
 *      `reassoc` may regroup sums, `formula` may use another formula that is equal in exact arithmetic;
 *   3. it never grows the work: at run time, no more element operations, no more bytes;
 *   4. it is part of no cycle: each rule moves one way (constants to the right, transposes towards products, broadcasts towards users, …), so a fixed point is reached;
 *   5. it looks at its root and at operands a bounded number of steps away.
 * A rule that builds something returns it; one that finds nothing builds nothing. */
#ifndef SINTER_ALGEBRA_RULES_H
#define SINTER_ALGEBRA_RULES_H

#include "../passes_internal.h"

typedef sn_instr *(*sn_rule_fn)(sn_builder *b, sn_instr *i);

#define SN_ANY SN_OP_COUNT /* in a pattern: any op */
typedef struct sn_rule {
  sn_opcode root;
  sn_opcode a, b;       /* ops of operands 0 and 1; SN_ANY: not looked at */
  sn_numeric numeric;
  sn_rule_fn rewrite;   /* NULL: does not apply; an operand or another older instruction, or a new one */
  const char *law;      /* `x + -0 = x`; shown in remarks */
} sn_rule;

/* Tables end with rewrite NULL. */
extern const sn_rule sn_rules_arithmetic[], sn_rules_logic[], sn_rules_convert[], sn_rules_shape[], sn_rules_slice[], sn_rules_reduce[], sn_rules_dot[], sn_rules_gather[];

/* Applies every rule of exactly this class, from all tables, by a worklist until none applies. */
SN_NODISCARD sn_status sn_rules_run(sn_pass_ctx *pc, sn_module *m, sn_numeric numeric);

/* ---- what rules look at ---- */

static inline sn_instr *sn_in(const sn_instr *i, uint32_t k) { return sn_instr_operand(i, k); }
static inline bool sn_same_shape(const sn_instr *a, const sn_instr *b) { return sn_shape_equal(a->shape, b->shape, 0); }
static inline bool sn_one_use(const sn_instr *i) { return i->n_uses == 1 && !sn_instr_is_root(i); }
static inline bool sn_is_int(const sn_instr *i) { return sn_type_is_integer(i->shape->type) || i->shape->type == SN_TYPE_PRED; }
/* A broadcast of a scalar, or a scalar. */
static inline bool sn_is_splat(const sn_instr *i) {
  return sn_shape_is_scalar(i->shape) || (i->op == SN_OP_BROADCAST && sn_shape_is_scalar(sn_operand_shape(i, 0)));
}
/* The scalar behind it. */
static inline sn_instr *sn_splat_of(sn_instr *i) { return sn_shape_is_scalar(i->shape) ? i : sn_in(i, 0); }
static inline bool sn_has_dim(sn_ints v, int64_t d) {
  for (int64_t k = 0; k < v.n; k++) {
    if (v.v[k] == d) return true;
  }
  return false;
}
/* Groups of neighbouring dimensions with equal products on both sides of a reshape from a to b; first_a[g], first_b[g]: where group g begins (one entry more
 * behind the last; room for 2 * SN_MAX_RANK + 2). The number of groups; -1: none found. */
int sn_factor_reshape(const sn_shape *a, const sn_shape *b, int *first_a, int *first_b);

#endif
