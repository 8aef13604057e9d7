/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What the runner, the pipelines and the passes share. */
#ifndef SINTER_PASSES_INTERNAL_H
#define SINTER_PASSES_INTERNAL_H

#include "sinter/build.h"
#include "sinter/passes.h"

/* ---- pipelines as data (pipelines.c) ---- */

typedef enum sn_step_kind { SN_STEP_STOP /* end of the list */, SN_STEP_PASS, SN_STEP_GROUP /* until SN_STEP_END, to a fixed point */, SN_STEP_END } sn_step_kind;
typedef struct sn_step {
  sn_step_kind kind;
  sn_pass_id pass;
  int min_level;     /* runs at -O this and above */
  const char *name;  /* GROUP */
  int bound;         /* GROUP: most rounds */
} sn_step;
const sn_step *sn_pipeline_find(const char *name); /* NULL: none of that name */
static inline bool sn_step_runs(const sn_step *s, int level) { return level >= s->min_level; }

/* The properties a module has, found by looking: linear. */
uint32_t sn_module_properties(const sn_module *m);

/* ---- small things many passes say ---- */

/* Effects by computation id: does anything in it, or in what it calls, touch the world? In the arena; NULL: out of memory. */
bool *sn_effects(sn_arena *a, const sn_module *m);
bool sn_instr_effect(const sn_instr *i, const bool *effects);
/* No uses, not the root, no effect, no parameter. */
bool sn_pass_droppable(const sn_instr *i, const bool *effects);
/* Erases i if it is droppable, and then whatever of its operands became so. n_dropped may be NULL. */
SN_NODISCARD sn_status sn_pass_drop(sn_pass_ctx *pc, sn_instr *i, const bool *effects, int64_t *n_dropped);
/* Is i still part of its computation? Erased instructions stay readable in the module's arena. */
static inline bool sn_instr_is_linked(const sn_instr *i) { return i->prev || i->parent->first == i; }

/* Every use of i becomes one of `by`, an instruction that was there before. Sets pc->changed; i stays for dce. */
SN_NODISCARD sn_status sn_pass_forward(sn_pass_ctx *pc, sn_instr *i, sn_instr *by);
/* The same for one that was made to stand for i: notes and layout move over. */
SN_NODISCARD sn_status sn_pass_replace(sn_pass_ctx *pc, sn_instr *i, sn_instr *by);

/* Copies c's instructions in front of `before` with args for its parameters. *out: what stands for c's root. */
SN_NODISCARD sn_status sn_inline_before(sn_pass_ctx *pc, sn_instr *before, const sn_computation *c, sn_instr *const *args, sn_instr **out);
/* Does the computation hold nothing but elementwise arithmetic, constants, iotas, broadcasts and parameters: cheap and safe to run for nothing? */
bool sn_computation_is_cheap(const sn_computation *c);
/* The constant scalar integer that i is (through broadcasts and converts of constants). */
bool sn_instr_constant_i64(const sn_instr *i, int64_t *out);
/* Is i a constant, or a broadcast of one, all of whose elements are exactly v (as stored in its type, -0 and 0 apart)? */
bool sn_instr_is_all(const sn_instr *i, double v);
/* The same shape without layout. */
const sn_shape *sn_shape_plain(sn_arena *a, const sn_shape *s);

/* Cuts elements out of the state of loop `w` that feed only themselves (while_elements.c). */
SN_NODISCARD sn_status sn_while_drop_dead_elements(sn_pass_ctx *pc, sn_instr *w, const sn_call_graph *g, const bool *effects, int64_t *n);
/* Is the loop in the form that loop passes work on: state a tuple that condition, body and outside take apart by get-tuple-element alone, the body's
 * root a tuple made for it, neither computation called by anybody else? */
bool sn_while_is_plain(const sn_instr *w, const sn_call_graph *g);
/* Keeps the elements of a plain loop's state for which keep[k]; the others must not be read any more. */
SN_NODISCARD sn_status sn_while_keep_elements(sn_pass_ctx *pc, sn_instr *w, const bool *keep);

bool sn_dot_is_canonical(const sn_instr *dot);

/* One byte for each instruction of a computation, by id. */
typedef struct sn_marks { uint32_t base; uint8_t *v; } sn_marks;
SN_NODISCARD sn_status sn_marks_init(sn_arena *a, const sn_computation *c, sn_marks *out);
static inline uint8_t *sn_mark(const sn_marks *m, const sn_instr *i) { return &m->v[i->id - m->base]; }

/* A growing list of instructions: worklists and stacks. Zero-initialise. */
typedef struct sn_list { sn_instr **v; size_t n, cap; } sn_list;
SN_NODISCARD sn_status sn_list_push(sn_list *l, sn_instr *i);
static inline sn_instr *sn_list_pop(sn_list *l) { return l->v[--l->n]; }
void sn_list_finish(sn_list *l);

#endif
