/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What a reduction applies: one known op, accumulated wide and rounded once, or any computation, rounded wherever it
 * rounds. */
#include "eval_internal.h"

static bool known(sn_opcode op) {
  return op == SN_OP_ADD || op == SN_OP_MULTIPLY || op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM || op == SN_OP_AND ||
         op == SN_OP_OR || op == SN_OP_XOR;
}

/* Sums and products of floats are kept in f64 (complex: c128), the order of narrow floats in f32; everything else in
 * its own type. */
static sn_type accumulator(const sn_ev_ctx *e, sn_opcode op, sn_type t) {
  if (e->o->stepwise) return t;
  bool sums = op == SN_OP_ADD || op == SN_OP_MULTIPLY;
  if (sn_type_is_complex(t)) return SN_TYPE_C128;
  if (!sn_type_is_float(t) || t == SN_TYPE_F64) return t;
  return sums ? SN_TYPE_F64 : SN_TYPE_F32;
}

sn_status sn_ev_reducer_init(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int n, const sn_type *types,
                             sn_ev_reducer *r) {
  memset(r, 0, sizeof *r);
  r->n = n;
  r->types = sn_alloc_zero((size_t)n + 1, sizeof *r->types);
  r->params = sn_alloc_zero(3 * (size_t)n + 1, sizeof *r->params);
  r->outs = sn_alloc_zero(2 * (size_t)n + 1, sizeof *r->outs);
  if (!r->types || !r->params || !r->outs) {
    sn_ev_reducer_finish(r);
    return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory for the reducer");
  }
  memcpy(r->types, types, (size_t)n * sizeof *types);
  r->acc_lanes = r->outs + n;
  r->next_lanes = r->params + 2 * n;
  if (n == 1 && sn_computation_is_binary(c, &r->op) && known(r->op) && c->n_params == 2 &&
      c->params[0]->shape->type == types[0] && c->params[1]->shape->type == types[0]) {
    r->acc = accumulator(e, r->op, types[0]);
    sn_type in[2] = {r->acc, r->acc};
    r->binary = sn_ev_kernel_find(r->op, 2, in, r->acc, &r->kernel);
    if (r->binary) return SN_OK;
  }
  sn_status s = SN_OK;
  if (c->n_params != 2 * (uint32_t)n)
    s = sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s takes %u parameters, a reducer of %d values takes %d", c->name,
                    (unsigned)c->n_params, n, 2 * n);
  if (s == SN_OK) s = sn_ev_program_create(e, i, c, &r->program);
  if (s == SN_OK && sn_ev_program_outputs(r->program) != n)
    s = sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s gives %d results instead of %d", c->name,
                    sn_ev_program_outputs(r->program), n);
  for (int k = 0; k < n && s == SN_OK; k++)
    if (sn_ev_program_out_type(r->program, k) != types[k] || c->params[k]->shape->type != types[k] ||
        c->params[n + k]->shape->type != types[k])
      s = sn_ev_error(e, i, SN_ERR_TYPE, "computation %s works on other types than %s", c->name,
                      sn_type_text(types[k]));
  if (s != SN_OK) sn_ev_reducer_finish(r);
  return s;
}

void sn_ev_reducer_finish(sn_ev_reducer *r) {
  sn_ev_program_destroy(r->program);
  sn_free(r->types);
  sn_free(r->params);
  sn_free(r->outs);
  memset(r, 0, sizeof *r);
}

sn_status sn_ev_combine(sn_ev_reducer *r, int64_t n, void *const *acc, const void *const *x) {
  if (r->binary) {
    r->kernel.fn(&r->kernel, n, acc[0], (const void *const[]){acc[0], x[0]});
    return SN_OK;
  }
  for (int k = 0; k < r->n; k++) {
    r->params[k] = acc[k];
    r->params[r->n + k] = x[k];
    r->outs[k] = acc[k];
  }
  return sn_ev_program_run(r->program, n, r->params, r->outs);
}
