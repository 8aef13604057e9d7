/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls between computations, what may stand in a called one, and asynchronous pairs. */
#include "verify.h"

enum { CALLS_UNSEEN, CALLS_OPEN, CALLS_DONE };

typedef struct calls_frame {
  const sn_computation *c;
  const sn_instr *at;
  uint16_t next;
} calls_frame;

static const sn_computation *calls_next(const sn_verifier *v, calls_frame *f) {
  for (; f->at; f->at = f->at->next, f->next = 0) {
    while (f->next < f->at->n_called) {
      const sn_computation *callee = f->at->called[f->next++];
      if (sn_verify_owns(v, callee)) return callee;
    }
  }
  return NULL;
}

static void calls_walk(sn_verifier *v, const sn_computation *from, uint8_t *state,
                       calls_frame *stack) {
  uint32_t depth = 0;
  stack[depth++] = (calls_frame){from, from->first, 0};
  state[from->id] = CALLS_OPEN;
  while (depth) {
    calls_frame *f = &stack[depth - 1];
    const sn_computation *callee = calls_next(v, f);
    if (!callee) {
      state[f->c->id] = CALLS_DONE;
      depth--;
    } else if (state[callee->id] == CALLS_OPEN) {
      v->acyclic = false;
      sn_verify_fault(v, f->at->loc, SN_V_RECURSION, "%%%s calls %%%s, which %s", f->at->name,
                      callee->name, callee == f->c ? "it stands in" : "calls it in turn");
      sn_hint(v->d, "HLO has no recursion: use while");
    } else if (state[callee->id] == CALLS_UNSEEN) {
      state[callee->id] = CALLS_OPEN;
      stack[depth++] = (calls_frame){callee, callee->first, 0};
    }
  }
}

static void calls_cycles(sn_verifier *v) {
  uint8_t *state = SN_NEW_N(v->arena, uint8_t, (size_t)v->m->n_comp_ids + 1);
  calls_frame *stack = SN_NEW_N(v->arena, calls_frame, (size_t)v->m->n_computations + 1);
  v->acyclic = true;
  if (!state || !stack) {
    sn_verify_no_memory(v);
    return;
  }
  SN_FOR_COMPUTATIONS(c, v->m) {
    if (state[c->id] == CALLS_UNSEEN) calls_walk(v, c, state, stack);
  }
}

static void calls_order(sn_verifier *v) {
  bool *before = SN_NEW_N(v->arena, bool, (size_t)v->m->n_comp_ids + 1);
  if (!before) {
    sn_verify_no_memory(v);
    return;
  }
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) {
      for (uint16_t k = 0; k < i->n_called; k++) {
        if (!sn_verify_owns(v, i->called[k])) continue;
        if (i->called[k] == v->m->entry)
          sn_verify_fault(v, i->loc, SN_V_ENTRY, "%%%s calls the entry %%%s", i->name,
                          v->m->entry->name);
        if (before[i->called[k]->id] || !v->acyclic) continue;
        sn_verify_fault(v, i->loc, SN_V_CALL_ORDER, "%%%s calls %%%s, which stands behind %%%s",
                        i->name, i->called[k]->name, c->name);
      }
    }
    before[c->id] = true;
  }
}

/* ---- bodies
 * ----------------------------------------------------------------------------------------------------------------------
 */

static bool body_forbids(const sn_instr *i, bool fusion) {
  int forbidden =
      SN_T_EFFECT | SN_T_COLLECTIVE | SN_T_TOKEN | (fusion ? SN_T_START | SN_T_DONE : 0);
  return (unsigned)i->op < SN_OP_COUNT && ((sn_ops[i->op].traits & (uint32_t)forbidden) ||
                                           sn_instr_bool(i, SN_ATTR_CUSTOM_CALL_HAS_SIDE_EFFECT));
}

static void body_check(sn_verifier *v, const sn_computation *c, const char *fusion,
                       const char *applied) {
  SN_FOR_INSTRS(i, c) {
    if (fusion && body_forbids(i, true)) {
      sn_verify_fault(v, i->loc, SN_V_FUSION_BODY, "%s %%%s cannot run inside the fusion %%%s",
                      sn_opcode_text(i->op), i->name, fusion);
    } else if (applied && body_forbids(i, false)) {
      sn_verify_fault(v, i->loc, SN_V_APPLIED_BODY,
                      "%s %%%s cannot run in %%%s, which %%%s applies element by element",
                      sn_opcode_text(i->op), i->name, c->name, applied);
    }
  }
}

/* Callers first: names of a fusion and of an applying instruction above each computation, handed
 * down. */
static void body_spread(sn_verifier *v) {
  const char **fusion = SN_NEW_N(v->arena, const char *, (size_t)v->m->n_comp_ids + 1);
  const char **applied = SN_NEW_N(v->arena, const char *, (size_t)v->m->n_comp_ids + 1);
  if (!fusion || !applied) {
    sn_verify_no_memory(v);
    return;
  }
  for (const sn_computation *c = v->m->last; c; c = c->prev) {
    if (fusion[c->id] || applied[c->id]) body_check(v, c, fusion[c->id], applied[c->id]);
    SN_FOR_INSTRS(i, c) {
      if ((unsigned)i->op >= SN_OP_COUNT) continue;
      for (uint16_t k = 0; k < i->n_called; k++) {
        if (!sn_verify_owns(v, i->called[k])) continue;
        uint32_t id = i->called[k]->id;
        bool applies = !sn_op_has(i->op, SN_T_CALLS) && i->op != SN_OP_CUSTOM_CALL;
        if (!fusion[id]) fusion[id] = i->op == SN_OP_FUSION ? i->name : fusion[c->id];
        if (!applied[id]) applied[id] = applies ? i->name : applied[c->id];
      }
    }
  }
}

/* ---- asynchronous pairs
 * ------------------------------------------------------------------------------------------------------------
 */

/* send and recv are not here: pipelines pass their contexts through loops. */
static const struct {
  sn_opcode done, start;
} async_pairs[] = {
    {SN_OP_ALL_GATHER_DONE, SN_OP_ALL_GATHER_START},
    {SN_OP_ALL_REDUCE_DONE, SN_OP_ALL_REDUCE_START},
    {SN_OP_COLLECTIVE_PERMUTE_DONE, SN_OP_COLLECTIVE_PERMUTE_START},
    {SN_OP_COPY_DONE, SN_OP_COPY_START},
    {SN_OP_ASYNC_DONE, SN_OP_ASYNC_START},
    {SN_OP_ASYNC_DONE, SN_OP_ASYNC_UPDATE},
    {SN_OP_ASYNC_UPDATE, SN_OP_ASYNC_START},
    {SN_OP_ASYNC_UPDATE, SN_OP_ASYNC_UPDATE},
};
enum { N_ASYNC_PAIRS = sizeof async_pairs / sizeof async_pairs[0] };

static bool async_fits(sn_opcode done, sn_opcode start) {
  for (int k = 0; k < N_ASYNC_PAIRS; k++) {
    if (async_pairs[k].done == done && async_pairs[k].start == start) return true;
  }
  return false;
}

static void async_check(sn_verifier *v, const sn_instr *i) {
  bool starts = false, ends = false;
  for (int k = 0; k < N_ASYNC_PAIRS; k++) {
    starts = starts || async_pairs[k].start == i->op;
    ends = ends || async_pairs[k].done == i->op;
  }
  if (ends && !async_fits(i->op, sn_instr_operand(i, 0)->op)) {
    sn_verify_fault(v, i->loc, SN_V_ASYNC_PAIR,
                    "%s %%%s must take the start it ends, found %s %%%s", sn_opcode_text(i->op),
                    i->name, sn_opcode_text(sn_instr_operand(i, 0)->op),
                    sn_instr_operand(i, 0)->name);
  }
  if (!starts) return;
  const sn_instr *user = i->n_uses == 1 && i->first_use ? i->first_use->user : NULL;
  if (user && async_fits(user->op, i->op)) return;
  sn_verify_fault(v, i->loc, SN_V_ASYNC_PAIR,
                  "%s %%%s must have one user, the instruction that ends it", sn_opcode_text(i->op),
                  i->name);
}

void sn_verify_calls(sn_verifier *v) {
  calls_cycles(v);
  calls_order(v);
  body_spread(v);
  SN_FOR_COMPUTATIONS(c, v->m) {
    SN_FOR_INSTRS(i, c) {
      if (v->form_ok[i->id]) async_check(v, i);
    }
  }
}
