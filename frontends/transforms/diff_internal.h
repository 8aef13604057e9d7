/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Derivative rules and the sweeps that apply them.
 *
 * A sweep walks one computation's list of instructions: forwards with tangents, backwards with cotangents. Both are
 * kept per instruction id, one entry an element of the result (one for an array; for a tuple one an element). NULL is
 * zero. Rules build into the graph's current frame, so that constants are shared and values from outside are captured.
 */
#ifndef SINTER_DIFF_INTERNAL_H
#define SINTER_DIFF_INTERNAL_H

#include "../graph/graph_internal.h"
#include "sinter/transforms.h"

typedef struct sn_diff sn_diff;

typedef struct sn_diff_rule {
  const char *name;
  /* Adds what ct (one an element of i's result) means for the operands: sn_diff_give. */
  void (*vjp)(sn_diff *d, sn_instr *i, sn_instr *const *ct);
  /* Tangents of i's result from those of the operands (sn_diff_tangent); out starts as zeros. */
  void (*jvp)(sn_diff *d, sn_instr *i, sn_instr **out);
  /* For elementwise functions of one operand instead of the two above: dy/dx, or its reciprocal. */
  sn_instr *(*factor)(sn_diff *d, sn_instr *i);
  sn_instr *(*divisor)(sn_diff *d, sn_instr *i);
  /* Which elements of the result depend on active operands; NULL: every float element when any operand is active. */
  void (*active)(sn_diff *d, sn_instr *i, bool *out);
  bool is_zero; /* no derivative ever flows */
} sn_diff_rule;

#define SN_OP(id, text, lo, hi, shape, index, eval, diff, batch, attrs, traits) \
  extern const sn_diff_rule sn_diff_##diff;
#include "sinter/ops.def"
#undef SN_OP
extern const sn_diff_rule *const sn_diff_rules[SN_OP_COUNT];

typedef struct sn_diff_slot {
  bool active;
  bool *actives;   /* tuples: one an element */
  sn_instr *one;   /* tangent or cotangent */
  sn_instr **many; /* tuples */
} sn_diff_slot;

struct sn_diff {
  sn_graph *g;
  sn_builder *b;
  const sn_instr *after; /* the walk goes over what stands behind this one; NULL: everything */
  uint32_t lo, hi;       /* ids with a slot */
  sn_diff_slot *slots;
  sn_map *ends; /* id of a region's last (reverse) or first (forward) instruction -> region; NULL: no regions */
};

static inline bool sn_diff_ok(const sn_diff *d) { return d->b->status == SN_OK; }
static inline int sn_diff_elements(const sn_instr *i) { return sn_shape_is_tuple(i->shape) ? i->shape->n_elements : 1; }
static inline bool sn_diff_type(sn_type t) { return sn_type_is_float(t) || sn_type_is_complex(t); }
static inline sn_instr *sn_op0(const sn_instr *i) { return sn_instr_operand(i, 0); }
static inline sn_instr *sn_op1(const sn_instr *i) { return sn_instr_operand(i, 1); }

/* Slots. */
sn_diff_slot *sn_diff_slot_of(sn_diff *d, const sn_instr *i); /* NULL: none (never active) */
bool sn_diff_active(sn_diff *d, const sn_instr *i);           /* any element */
bool sn_diff_active_element(sn_diff *d, const sn_instr *i, int k);
void sn_diff_set_active(sn_diff *d, const sn_instr *i, int k); /* makes room for new ids too */
sn_instr *sn_diff_get(sn_diff *d, const sn_instr *i, int k);
void sn_diff_put(sn_diff *d, sn_instr *i, int k, sn_instr *v);
static inline bool sn_diff_wants(sn_diff *d, const sn_instr *i, uint32_t operand) {
  return sn_diff_active(d, sn_instr_operand(i, operand));
}
/* Adds a cotangent to an instruction (element k of a tuple); dropped when it is not active. */
void sn_diff_add_to(sn_diff *d, sn_instr *def, int k, sn_instr *ct);
static inline void sn_diff_give(sn_diff *d, sn_instr *i, uint32_t operand, sn_instr *ct) {
  sn_diff_add_to(d, sn_instr_operand(i, operand), 0, ct);
}
static inline sn_instr *sn_diff_tangent(sn_diff *d, sn_instr *i, uint32_t operand) {
  return sn_diff_get(d, sn_instr_operand(i, operand), 0);
}

/* Which elements of c's root are active when these elements of its inputs are (a tuple parameter: its elements; else
 * the parameters). */
void sn_diff_activity(sn_diff *d, const sn_computation *c, const bool *in, int n_in, bool *out);
void sn_diff_activity_instr(sn_diff *d, sn_instr *i);

/* Sweeps over the part of the current frame's computation behind `after` (NULL: all of it). outs and wrt are in the
 * computation; tuples have no place here. NULL cotangents are zeros; a NULL result is zero. */
void sn_sweep_reverse(sn_graph *g, sn_instr *after, int n_outs, sn_instr *const *outs, sn_instr *const *cts, int n,
                      sn_instr *const *wrt, sn_instr **out);
void sn_sweep_forward(sn_graph *g, sn_instr *after, int n_outs, sn_instr *const *outs, int n, sn_instr *const *wrt,
                      sn_instr *const *tangents, sn_instr **out);
void sn_diff_no_rule(sn_diff *d, const sn_instr *i, const char *mode);

/* Copies c's instructions into the current frame with its inputs replaced (a tuple parameter: its elements): roots[]
 * are the elements of its root, which are returned in the arena with their count. Regions of c go along. */
sn_instr **sn_diff_inline(sn_graph *g, const sn_computation *c, int n, sn_instr *const *in, int *n_roots);
/* Number of inputs of a called computation: elements of its one tuple parameter, or its parameters. */
int sn_comp_inputs(const sn_computation *c);
const sn_shape *sn_comp_input_shape(const sn_computation *c, int k);
int sn_comp_outputs(const sn_computation *c);
/* A scalar computation applied elementwise to arrays of one shape. */
sn_instr **sn_diff_inline_scalar(sn_graph *g, const sn_computation *c, int n, sn_instr *const *in, int *n_roots);

/* Ops differentiated through what they are made of: fn spells i out on its operands in[] as out[] (one an element
 * of the result), and that is swept. false: it failed. */
typedef bool (*sn_parts_fn)(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out);
void sn_parts_vjp(sn_diff *d, sn_instr *i, sn_instr *const *ct, sn_parts_fn fn);
void sn_parts_jvp(sn_diff *d, sn_instr *i, sn_instr **out, sn_parts_fn fn);

bool sn_parts_batch_norm_training(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out);
bool sn_parts_batch_norm_inference(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out);
bool sn_parts_scan(sn_diff *d, sn_instr *i, sn_instr **in, sn_instr **out);

/* The scatter-add of ct onto zeros that undoes a gather. */
sn_instr *sn_d_gather_back(sn_diff *d, sn_instr *gather, sn_instr *ct);

/* Arithmetic for rules; NULL operands are zeros, constants are folded where that is free. */
sn_instr *sn_d_add(sn_diff *d, sn_instr *x, sn_instr *y);
sn_instr *sn_d_mul(sn_diff *d, sn_instr *x, sn_instr *y);
sn_instr *sn_d_neg(sn_diff *d, sn_instr *x);
sn_instr *sn_d_sub(sn_diff *d, sn_instr *x, sn_instr *y);
sn_instr *sn_d_div(sn_diff *d, sn_instr *x, sn_instr *y);
sn_instr *sn_d_mul_c(sn_diff *d, sn_instr *x, double c);
sn_instr *sn_d_add_c(sn_diff *d, sn_instr *x, double c);
sn_instr *sn_d_rsub_c(sn_diff *d, double c, sn_instr *x);
sn_instr *sn_d_like(sn_diff *d, const sn_instr *x, double v); /* x's shape filled with v */
sn_instr *sn_d_zeros(sn_diff *d, const sn_shape *s);
sn_instr *sn_d_un(sn_diff *d, sn_opcode op, sn_instr *x);
sn_instr *sn_d_bin(sn_diff *d, sn_opcode op, sn_instr *x, sn_instr *y);
sn_instr *sn_d_cmp(sn_diff *d, int64_t direction, sn_instr *x, sn_instr *y);
sn_instr *sn_d_select(sn_diff *d, sn_instr *p, sn_instr *x, sn_instr *y); /* NULL x or y: zeros */
sn_instr *sn_d_convert(sn_diff *d, sn_instr *x, sn_type t); /* real part where t is real; else as convert */
sn_instr *sn_d_sum(sn_diff *d, sn_instr *x, int n, const int64_t *dims);
sn_instr *sn_d_scalar(sn_diff *d, sn_type t, double v);
sn_instr *sn_d_conj(sn_diff *d, sn_instr *x);
/* The op of i with its attributes and called computations on other operands. */
sn_instr *sn_d_again(sn_diff *d, const sn_instr *i, uint32_t n, sn_instr *const *operands);

#endif
