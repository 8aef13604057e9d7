/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the verifier's files share. Inside ir/ only. */
#ifndef SINTER_IR_VERIFY_H
#define SINTER_IR_VERIFY_H

#include "sinter/ir.h"

typedef enum sn_constraint {
#define SN_CONSTRAINT(id, number, meaning) SN_V_##id,
#include "sinter/verify.def"
#undef SN_CONSTRAINT
  SN_CONSTRAINT_COUNT
} sn_constraint;

typedef struct sn_constraint_info {
  const char *number, *meaning;
} sn_constraint_info;
extern const sn_constraint_info sn_constraints[SN_CONSTRAINT_COUNT];

enum { SN_VERIFY_TOLD = 1000 }; /* faults beyond are counted and numbered, without the details */

/* One run. Later stages skip what an earlier one found unfit to look at. */
typedef struct sn_verifier {
  sn_diag *d;
  const sn_module *m;
  int flags;
  sn_arena *arena;    /* of the run */
  sn_arena *rule;     /* reset after each instruction */
  sn_diag *rule_diag; /* messages of one shape rule, to be numbered */
  uint64_t n_faults;
  bool no_memory;                      /* a check could not be made */
  const sn_computation **computations; /* by id; NULL: not in the module's list */
  uint32_t *position; /* by instruction id: place in its computation from 1 on; 0: in no list */
  bool *form_ok;  /* by instruction id: operands, attributes and called computations may be read */
  bool *shape_ok; /* by instruction id: its shape may be read (checked once: a tuple's elements are
                     many and so are its users) */
  bool acyclic;   /* of calls */
} sn_verifier;

/* `message [V…]` at loc. */
void sn_verify_fault(sn_verifier *v, sn_loc loc, sn_constraint which, const char *fmt, ...)
    SN_PRINTF(4, 5);
void sn_verify_no_memory(sn_verifier *v);
static inline bool sn_verify_owns(const sn_verifier *v, const sn_computation *c) {
  return c && c->id < v->m->n_comp_ids && v->computations[c->id] == c;
}
/* The instruction is in a list of the module. */
static inline bool sn_verify_seen(const sn_verifier *v, const sn_instr *i) {
  return i->id < v->m->n_ids && v->position[i->id] != 0;
}

void sn_verify_lists(
    sn_verifier *v); /* computations, instructions, ids, names, parameters, roots */
void sn_verify_forms(sn_verifier *v); /* operands, order, uses, control, attributes, called */
void sn_verify_calls(sn_verifier *v); /* recursion, fusion and applied bodies, asynchronous pairs */
void sn_verify_shapes(sn_verifier *v); /* inference against what is stated */
void sn_verify_header(sn_verifier *v); /* entry layout, aliases, donors */
void sn_verify_layouts(sn_verifier *v);

/* The element of `s` at a tuple index, or NULL. */
const sn_shape *sn_verify_shape_at(const sn_shape *s, sn_ints index);

#endif
