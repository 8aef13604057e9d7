/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Computations applied to elements (reducers, comparators, maps): those of elementwise ops on scalars become a list of
 * kernels that runs over up to SN_EV_LANES elements at a time; any other runs through frames, one element after the
 * other. */
#include "eval_internal.h"

enum { MAX_INLINE = 32, MAX_STEPS = 4096 }; /* calls inside calls, and what they may grow to; beyond: frames */

typedef struct step {
  sn_ev_kernel k;
  int in[3];
  int out;
} step;

/* A register holds a lane block of one scalar. Parameters point to the caller's memory. */
typedef struct reg {
  sn_type type;
  char *own;
  const void *at;
  bool fixed; /* a constant, filled in once */
} reg;

struct sn_ev_program {
  sn_ev_ctx *e;
  const sn_instr *i;
  const sn_computation *c;
  bool frames; /* run by frames */
  int n_params, n_outs, n_steps, n_regs, cap_steps, cap_regs;
  step *steps;
  reg *regs;
  int *outs;
  sn_type *out_types;
};

/* ---- compiling ---- */

static int add_reg(sn_ev_program *p, sn_type t, bool own) {
  if (p->n_regs == p->cap_regs) {
    int cap = p->cap_regs ? 2 * p->cap_regs : 16;
    reg *r = sn_realloc(p->regs, (size_t)cap * sizeof *r);
    if (!r) return -1;
    p->regs = r;
    p->cap_regs = cap;
  }
  reg *r = &p->regs[p->n_regs];
  memset(r, 0, sizeof *r);
  r->type = t;
  if (own) {
    r->own = sn_alloc(SN_EV_LANES * sn_type_bytes(t));
    if (!r->own) return -1;
    r->at = r->own;
  }
  return p->n_regs++;
}

static step *add_step(sn_ev_program *p) {
  if (p->n_steps == p->cap_steps) {
    int cap = p->cap_steps ? 2 * p->cap_steps : 16;
    step *s = sn_realloc(p->steps, (size_t)cap * sizeof *s);
    if (!s) return NULL;
    p->steps = s;
    p->cap_steps = cap;
  }
  step *s = &p->steps[p->n_steps++];
  memset(s, 0, sizeof *s);
  return s;
}

/* SN_ERR_UNSUPPORTED: not a lane program, run by frames (no message). */
static sn_status compile(sn_ev_program *p, const sn_computation *c, const int *params, int n_params, int depth,
                         sn_map *regs, int *outs, int *n_outs, int max_outs);

static int reg_of(sn_map *regs, const sn_instr *i) {
  uint64_t v;
  uint64_t key = (uint64_t)(uintptr_t)i;
  return sn_map_get(regs, &key, sizeof key, &v) ? (int)v : -1;
}
static sn_status set_reg(sn_map *regs, const sn_instr *i, int r) {
  uint64_t key = (uint64_t)(uintptr_t)i;
  return sn_map_set(regs, &key, sizeof key, (uint64_t)r);
}

static sn_status compile_constant(sn_ev_program *p, const sn_instr *i, sn_map *regs) {
  sn_array *a = sn_instr_literal(i);
  if (!a || i->shape->rank != 0) return SN_ERR_UNSUPPORTED;
  int r = add_reg(p, i->shape->type, true);
  if (r < 0) return SN_ERR_MEMORY;
  p->regs[r].fixed = true;
  sn_ev_fill(p->regs[r].own, sn_array_data(a), sn_type_bytes(i->shape->type), SN_EV_LANES);
  return set_reg(regs, i, r);
}

static sn_status compile_call(sn_ev_program *p, const sn_instr *i, int depth, sn_map *regs) {
  int args[MAX_INLINE], out[1], n_out = 0;
  if (depth >= MAX_INLINE || i->n_operands > MAX_INLINE || !sn_shape_is_scalar(i->shape)) return SN_ERR_UNSUPPORTED;
  for (uint32_t k = 0; k < i->n_operands; k++)
    if ((args[k] = reg_of(regs, sn_instr_operand(i, k))) < 0) return SN_ERR_UNSUPPORTED;
  sn_map *inner;
  SN_TRY(sn_map_create(&inner));
  sn_status s = compile(p, i->called[0], args, (int)i->n_operands, depth + 1, inner, out, &n_out, 1);
  sn_map_destroy(inner);
  if (s == SN_OK) s = set_reg(regs, i, out[0]);
  return s;
}

static bool moves_nothing(sn_opcode op) {
  return op == SN_OP_BROADCAST || op == SN_OP_RESHAPE || op == SN_OP_BITCAST || op == SN_OP_TRANSPOSE ||
         op == SN_OP_COPY;
}

static sn_status compile_kernel(sn_ev_program *p, const sn_instr *i, sn_map *regs) {
  bool lane = sn_op_has(i->op, SN_T_ELTWISE) || i->op == SN_OP_BITCAST_CONVERT;
  if (!lane || i->n_operands < 1 || i->n_operands > 3 || i->op == SN_OP_STOCHASTIC_CONVERT) return SN_ERR_UNSUPPORTED;
  sn_ev_kernel k;
  sn_ev_ctx quiet = *p->e; /* an op without kernel falls back to frames, which report it */
  quiet.d = NULL;
  if (sn_ev_kernel_of(&quiet, i, &k) != SN_OK) return SN_ERR_UNSUPPORTED;
  int r = add_reg(p, i->shape->type, true);
  step *s = r < 0 ? NULL : add_step(p);
  if (!s) return SN_ERR_MEMORY;
  s->k = k;
  s->out = r;
  for (uint32_t q = 0; q < i->n_operands; q++)
    if ((s->in[q] = reg_of(regs, sn_instr_operand(i, q))) < 0) return SN_ERR_UNSUPPORTED;
  return set_reg(regs, i, r);
}

static sn_status compile_instr(sn_ev_program *p, const sn_instr *i, const int *params, int n_params, int depth,
                               sn_map *regs) {
  if (!sn_shape_is_scalar(i->shape) || p->n_steps > MAX_STEPS || p->n_regs > 4 * MAX_STEPS) return SN_ERR_UNSUPPORTED;
  if (i->op == SN_OP_PARAMETER) {
    int64_t n = sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER);
    return n >= 0 && n < n_params ? set_reg(regs, i, params[n]) : SN_ERR_UNSUPPORTED;
  }
  if (i->op == SN_OP_CONSTANT) return compile_constant(p, i, regs);
  if (i->op == SN_OP_CALL || i->op == SN_OP_FUSION) return compile_call(p, i, depth, regs);
  if (moves_nothing(i->op) && sn_shape_is_scalar(sn_operand_shape(i, 0)) &&
      sn_operand_shape(i, 0)->type == i->shape->type) {
    int r = reg_of(regs, sn_instr_operand(i, 0));
    return r < 0 ? SN_ERR_UNSUPPORTED : set_reg(regs, i, r);
  }
  return compile_kernel(p, i, regs);
}

static sn_status compile(sn_ev_program *p, const sn_computation *c, const int *params, int n_params, int depth,
                         sn_map *regs, int *outs, int *n_outs, int max_outs) {
  bool tuple = c->root->op == SN_OP_TUPLE;
  SN_FOR_INSTRS(i, c) {
    if (tuple && i == c->root) continue;
    SN_TRY(compile_instr(p, i, params, n_params, depth, regs));
  }
  int n = tuple ? (int)c->root->n_operands : 1;
  if (n > max_outs) return SN_ERR_UNSUPPORTED;
  for (int k = 0; k < n; k++)
    if ((outs[k] = reg_of(regs, tuple ? sn_instr_operand(c->root, (uint32_t)k) : c->root)) < 0)
      return SN_ERR_UNSUPPORTED;
  *n_outs = n;
  return SN_OK;
}

static void drop_code(sn_ev_program *p) {
  for (int k = 0; k < p->n_regs; k++) sn_free(p->regs[k].own);
  sn_free(p->regs);
  sn_free(p->steps);
  p->regs = NULL;
  p->steps = NULL;
  p->n_regs = p->n_steps = p->cap_regs = p->cap_steps = 0;
}

/* A result that is a parameter gets a register of its own: results may be written to the memory of parameters. */
static sn_status own_output(sn_ev_program *p, int k) {
  int from = p->outs[k];
  if (p->regs[from].own) return SN_OK;
  sn_type t = p->regs[from].type;
  int r = add_reg(p, t, true);
  step *s = r < 0 ? NULL : add_step(p);
  if (!s) return SN_ERR_MEMORY;
  if (!sn_ev_kernel_find(SN_OP_COPY, 1, &t, t, &s->k)) return SN_ERR_UNSUPPORTED;
  s->in[0] = from;
  s->out = r;
  p->outs[k] = r;
  return SN_OK;
}

static sn_status compile_all(sn_ev_program *p) {
  sn_map *regs = NULL;
  void *params = NULL;
  sn_status s = sn_map_create(&regs);
  if (s == SN_OK) s = sn_ev_scratch(p->e, p->i, (size_t)p->n_params + 1, sizeof(int), &params);
  int *numbers = params;
  for (int k = 0; k < p->n_params && s == SN_OK; k++) {
    const sn_shape *shape = p->c->params[k] ? p->c->params[k]->shape : NULL;
    if (!sn_shape_is_scalar(shape))
      s = SN_ERR_UNSUPPORTED;
    else if ((numbers[k] = add_reg(p, shape->type, false)) < 0)
      s = SN_ERR_MEMORY;
  }
  int n_outs = 0;
  if (s == SN_OK) s = compile(p, p->c, numbers, p->n_params, 0, regs, p->outs, &n_outs, p->n_outs);
  for (int k = 0; k < n_outs && s == SN_OK; k++) s = own_output(p, k);
  sn_free(params);
  sn_map_destroy(regs);
  return s;
}

sn_status sn_ev_program_create(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, sn_ev_program **out) {
  *out = NULL;
  if (!c->root) return sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s has no root", c->name);
  sn_ev_program *p = sn_alloc_zero(1, sizeof *p);
  if (!p) return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory for the applied computation");
  const sn_shape *root = c->root->shape;
  p->e = e;
  p->i = i;
  p->c = c;
  p->n_params = (int)c->n_params;
  p->n_outs = sn_shape_is_tuple(root) ? root->n_elements : 1;
  p->outs = sn_alloc_zero((size_t)p->n_outs + 1, sizeof *p->outs);
  p->out_types = sn_alloc_zero((size_t)p->n_outs + 1, sizeof *p->out_types);
  sn_status s = p->outs && p->out_types ? SN_OK : SN_ERR_MEMORY;
  for (int k = 0; k < p->n_outs && s == SN_OK; k++) {
    const sn_shape *shape = sn_shape_is_tuple(root) ? root->elements[k] : root;
    if (!sn_shape_is_array(shape) || sn_shape_elements(shape) != 1)
      s = sn_ev_error(e, i, SN_ERR_SHAPE, "computation %s must give scalars", c->name);
    p->out_types[k] = shape->type;
  }
  if (s == SN_OK) s = compile_all(p);
  if (s == SN_ERR_UNSUPPORTED) {
    drop_code(p);
    p->frames = true;
    s = SN_OK;
  }
  if (s != SN_OK) {
    sn_ev_program_destroy(p);
    return s == SN_ERR_MEMORY ? sn_ev_error(e, i, s, "no memory for the applied computation") : s;
  }
  *out = p;
  return SN_OK;
}

void sn_ev_program_destroy(sn_ev_program *p) {
  if (!p) return;
  drop_code(p);
  sn_free(p->outs);
  sn_free(p->out_types);
  sn_free(p);
}

int sn_ev_program_outputs(const sn_ev_program *p) { return p->n_outs; }
sn_type sn_ev_program_out_type(const sn_ev_program *p, int k) { return p->out_types[k]; }

/* ---- running ---- */

static sn_status run_lane(sn_ev_program *p, int64_t lane, const void *const *params, void *const *outs) {
  void *memory;
  SN_TRY(sn_ev_scratch(p->e, p->i, (size_t)p->n_params + 1, sizeof(sn_array *), &memory));
  sn_array **args = memory, *value = NULL;
  sn_status s = SN_OK;
  for (int k = 0; k < p->n_params && s == SN_OK; k++) {
    const sn_shape *shape = p->c->params[k]->shape;
    if (!sn_shape_is_array(shape) || sn_shape_elements(shape) != 1)
      s = sn_ev_error(p->e, p->i, SN_ERR_SHAPE, "computation %s must take scalars", p->c->name);
    if (s == SN_OK) s = sn_ev_new(p->e, p->i, shape, &args[k]);
    if (s == SN_OK)
      memcpy(sn_array_data(args[k]), (const char *)params[k] + (size_t)lane * sn_type_bytes(shape->type),
             sn_type_bytes(shape->type));
  }
  if (s == SN_OK) s = sn_ev_apply(p->e, p->i, p->c, p->n_params, args, &value);
  for (int k = 0; k < p->n_outs && s == SN_OK; k++) {
    const sn_array *a = sn_shape_is_tuple(sn_array_shape(value)) ? sn_array_element(value, k) : value;
    size_t bytes = sn_type_bytes(p->out_types[k]);
    memcpy((char *)outs[k] + (size_t)lane * bytes, sn_array_data(a), bytes);
  }
  sn_ev_release(p->e, value);
  for (int k = 0; k < p->n_params; k++) sn_ev_release(p->e, args[k]);
  sn_free(memory);
  return s;
}

sn_status sn_ev_program_run(sn_ev_program *p, int64_t n, const void *const *params, void *const *outs) {
  sn_assert(n <= SN_EV_LANES);
  if (p->frames) {
    for (int64_t j = 0; j < n; j++) SN_TRY(run_lane(p, j, params, outs));
    return SN_OK;
  }
  for (int k = 0; k < p->n_params; k++) p->regs[k].at = params[k];
  for (int k = 0; k < p->n_steps; k++) {
    const step *s = &p->steps[k];
    const void *in[3] = {NULL, NULL, NULL};
    for (int q = 0; q < s->k.n_in; q++) in[q] = p->regs[s->in[q]].at;
    s->k.fn(&s->k, n, p->regs[s->out].own, in);
  }
  for (int k = 0; k < p->n_outs; k++) {
    const reg *r = &p->regs[p->outs[k]];
    memcpy(outs[k], r->own, (size_t)n * sn_type_bytes(r->type));
  }
  return SN_OK;
}
