/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* custom-call: the caller's table first, then the targets that JAX and XLA put into CPU programs. Anything else is
 * refused by name. */
#include "linalg.h"

/* ---- markers of the partitioner: identities on values ---- */

static sn_status identity(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  if (!sn_shape_is_tuple(i->shape) && i->n_operands >= 1) {
    if (!sn_shape_equal(sn_array_shape(in[0]), i->shape, SN_EQ_IGNORE_DYNAMIC))
      return sn_ev_error(e, i, SN_ERR_UNSUPPORTED,
                         "changes the shape between whole and parts: run the partitioned module");
    *out = sn_array_retain(in[0]);
    return SN_OK;
  }
  if (i->n_operands == 1) {
    *out = sn_array_retain(in[0]);
    return SN_OK;
  }
  sn_status s = sn_array_create_tuple((int)i->n_operands, in, out);
  return s == SN_OK ? s : sn_ev_error(e, i, s, "no memory for a tuple");
}

/* The called comparator's direction says which end; without one, the largest. */
static sn_status top_k(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  bool largest = true;
  if (i->n_called > 0) SN_FOR_INSTRS(q, i->called[0])
  if (q->op == SN_OP_COMPARE)
    largest =
        sn_instr_int(q, SN_ATTR_DIRECTION) == SN_DIRECTION_GT || sn_instr_int(q, SN_ATTR_DIRECTION) == SN_DIRECTION_GE;
  if (!sn_shape_is_tuple(i->shape) || i->shape->n_elements < 1 || i->n_operands < 1 || i->shape->elements[0]->rank < 1)
    return sn_ev_error(e, i, SN_ERR_SHAPE, "gives values and positions");
  const sn_shape *s = i->shape->elements[0];
  return sn_ev_topk(e, i, in[0], s->dims[s->rank - 1], largest, out);
}

/* ---- the table ---- */

typedef struct target_row {
  const char *name;
  int operands; /* at least */
  sn_status (*fn)(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out);
} target_row;
static const target_row targets[] = {
    {"Sharding", 1, identity},
    {"SPMDFullToShardShape", 1, identity},
    {"SPMDShardToFullShape", 1, identity},
    {"xla.sdy.FuncResultSharding", 1, identity},
    {"xla.sdy.GlobalToLocalShape", 0, identity},
    {"xla.sdy.LocalToGlobalShape", 0, identity},
    {"xla.sdy.PropagationBarrier", 1, identity},
    {"MoveToDevice", 1, identity},
    {"MoveToHost", 1, identity},
    {"annotate_device_placement", 1, identity},
    {"TopK", 1, top_k},
    {"sinter.print", 1, sn_ev_look},
    {"sinter.probe", 1, sn_ev_look},
};

static sn_status call_user(sn_ev_ctx *e, const sn_instr *i, const sn_eval_custom *c, sn_array *const *in,
                           sn_array **out) {
  SN_TRY(c->fn(c->ctx, e->d, i, (int)i->n_operands, in, out));
  if (!*out || !sn_shape_equal(sn_array_shape(*out), i->shape, 0))
    return sn_ev_error(e, i, SN_ERR_SHAPE, "the implementation of \"%s\" gave another shape than the instruction's",
                       c->target);
  sn_ev_adopt(e, *out);
  return SN_OK;
}

sn_status sn_eval_custom_call(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  const char *name = sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET);
  if (!name) name = "";
  for (const sn_eval_custom *c = e->o->customs; c && c->target; c++)
    if (strcmp(c->target, name) == 0) return call_user(e, i, c, in, out);
  for (size_t r = 0; r < sizeof targets / sizeof targets[0]; r++)
    if (strcmp(targets[r].name, name) == 0) {
      if ((int)i->n_operands < targets[r].operands)
        return sn_ev_error(e, i, SN_ERR_VERIFY, "\"%s\" takes %d operands", name, targets[r].operands);
      return targets[r].fn(e, i, in, out);
    }
  if (sn_ev_is_lapack(name)) return sn_ev_lapack(e, i, name, in, out);
  const char *names[sizeof targets / sizeof targets[0]];
  for (size_t r = 0; r < sizeof targets / sizeof targets[0]; r++) names[r] = targets[r].name;
  const char *near = sn_nearest(name, names, sizeof names / sizeof names[0]);
  (void)sn_ev_error(e, i, SN_ERR_UNSUPPORTED, "no implementation of the custom call \"%s\"", name);
  if (near)
    sn_hint(e->d, "did you mean \"%s\"? Others can be given in sn_eval_options.customs", near);
  else
    sn_hint(e->d, "implementations can be given in sn_eval_options.customs");
  return SN_ERR_UNSUPPORTED;
}
