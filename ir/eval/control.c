/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tuples and control flow. An evaluator that needs a computation leaves a request and is called again with the result
 * in its frame; frame->phase says where it stands. */
#include "eval_internal.h"

sn_status sn_ev_enter(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int n, sn_array *const *args) {
  if ((uint32_t)n != c->n_params)
    return sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s takes %u parameters, got %d", c->name,
                       (unsigned)c->n_params, n);
  if (!c->root) return sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s has no root", c->name);
  sn_array **own = sn_alloc_zero((size_t)n + 1, sizeof *own);
  if (!own) return sn_ev_error(e, i, SN_ERR_MEMORY, "no memory for %d arguments", n);
  for (int k = 0; k < n; k++) own[k] = sn_array_retain(args[k]);
  e->enter = c;
  e->enter_args = own;
  e->n_enter_args = n;
  return SN_OK;
}

/* Hands the operands on to the computation for good, so that it may reuse their memory. */
static sn_status enter_with_operands(sn_ev_ctx *e, const sn_instr *i, const sn_computation *c, int first, int n) {
  sn_ev_frame *f = e->top;
  SN_TRY(sn_ev_enter(e, i, c, n, f->in + first));
  if (e->o->stop_at_nan) return SN_OK; /* the watch looks at the operands afterwards */
  for (int k = first; k < first + n; k++) {
    sn_ev_release(e, f->in[k]);
    f->in[k] = NULL;
  }
  return SN_OK;
}

static sn_array *take_returned(sn_ev_ctx *e) {
  sn_array *a = e->top->returned;
  e->top->returned = NULL;
  return a;
}

/* The value of parameter K, taken from the frame's arguments. */
sn_status sn_eval_parameter(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  int64_t n = sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER);
  sn_ev_frame *f = e->top;
  (void)in;
  if (n < 0 || n >= f->n_args || !f->args[n])
    return sn_ev_error(e, i, SN_ERR_VERIFY, "there is no argument %lld, or it was taken by another parameter",
                       (long long)n);
  *out = f->args[n];
  f->args[n] = NULL;
  return SN_OK;
}

sn_status sn_eval_tuple(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_status s = sn_array_create_tuple((int)i->n_operands, in, out);
  return s == SN_OK ? s : sn_ev_error(e, i, s, "no memory for a tuple");
}

sn_status sn_eval_get_tuple_element(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  int64_t k = sn_instr_int(i, SN_ATTR_INDEX);
  if (k < 0 || k >= sn_array_n_elements(in[0]))
    return sn_ev_error(e, i, SN_ERR_ATTRIBUTE, "index %lld of a tuple of %d", (long long)k, sn_array_n_elements(in[0]));
  *out = sn_array_retain(sn_array_element(in[0], (int)k));
  return SN_OK;
}

sn_status sn_eval_call(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)in;
  if (e->top->phase++ == 0) return enter_with_operands(e, i, i->called[0], 0, (int)i->n_operands);
  *out = take_returned(e);
  return SN_OK;
}
sn_status sn_eval_fusion(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_eval_call(e, i, in, out);
}

static bool is_true(const sn_array *a) { return sn_load_i64(sn_array_shape(a)->type, sn_array_data(a)) != 0; }

/* Phase 0: start; odd: the condition came back; even: the body did. The frame's operand is the state of the loop. */
sn_status sn_eval_while(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  sn_ev_frame *f = e->top;
  (void)in;
  if (f->phase == 2) {
    f->in[0] = take_returned(e);
    f->phase = 0;
  }
  if (f->phase == 0) {
    f->phase = 1;
    return sn_ev_enter(e, i, i->called[0], 1, f->in);
  }
  sn_array *condition = take_returned(e);
  bool go_on = is_true(condition);
  sn_ev_release(e, condition);
  if (go_on) {
    f->phase = 2;
    SN_TRY(sn_ev_enter(e, i, i->called[1], 1, f->in));
    sn_ev_release(e, f->in[0]);
    f->in[0] = NULL;
    return SN_OK;
  }
  *out = sn_array_retain(f->in[0]);
  return SN_OK;
}

/* A pred picks branch 0 for true; an s32 out of range picks the last branch. */
sn_status sn_eval_conditional(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  if (e->top->phase++ > 0) {
    *out = take_returned(e);
    return SN_OK;
  }
  const sn_shape *s = sn_array_shape(in[0]);
  int64_t v = sn_load_i64(s->type, sn_array_data(in[0])), n = i->n_called;
  int64_t branch = s->type == SN_TYPE_PRED ? (v ? 0 : 1) : v < 0 || v >= n ? n - 1 : v;
  if (branch + 1 >= (int64_t)i->n_operands)
    return sn_ev_error(e, i, SN_ERR_VERIFY, "branch %lld has no operand", (long long)branch);
  return enter_with_operands(e, i, i->called[branch], (int)branch + 1, 1);
}

/* ---- tokens and asynchronous forms: what starts is done at once ---- */

sn_status sn_eval_after_all(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  (void)in;
  return sn_ev_new_token(e, i, out);
}

/* A value for a leaf that carries nothing (contexts of asynchronous pairs). */
static sn_status blank(sn_ev_ctx *e, const sn_instr *i, const sn_shape *s, sn_array **out) {
  *out = NULL;
  if (!sn_shape_is_tuple(s)) return sn_ev_new_zero(e, i, s, out);
  void *memory;
  SN_TRY(sn_ev_scratch(e, i, (size_t)s->n_elements, sizeof(sn_array *), &memory));
  sn_array **elements = memory;
  sn_status status = SN_OK;
  int n = 0;
  for (; n < s->n_elements && status == SN_OK; n++) status = blank(e, i, s->elements[n], &elements[n]);
  if (status == SN_OK)
    status = sn_ev_new_tuple(e, i, n, elements, out);
  else
    for (int k = 0; k < n; k++) sn_ev_release(e, elements[k]);
  sn_free(memory);
  return status;
}

/* (operands, result, context…): takes over `result`; `operands` is retained. */
sn_status sn_ev_start_tuple(sn_ev_ctx *e, const sn_instr *i, sn_array *operands, sn_array *result, sn_array **out) {
  int n = i->shape->n_elements;
  void *memory;
  sn_status s = sn_ev_scratch(e, i, (size_t)n + 2, sizeof(sn_array *), &memory);
  if (s != SN_OK) {
    sn_ev_release(e, result);
    return s;
  }
  sn_array **elements = memory;
  elements[0] = sn_array_retain(operands);
  elements[1] = result;
  for (int k = 2; k < n && s == SN_OK; k++) s = blank(e, i, i->shape->elements[k], &elements[k]);
  if (s == SN_OK && n < 2) s = sn_ev_error(e, i, SN_ERR_SHAPE, "a start gives at least (operand, result)");
  if (s == SN_OK)
    s = sn_ev_new_tuple(e, i, n, elements, out);
  else
    for (int k = 0; k < n + 2; k++) sn_ev_release(e, elements[k]);
  sn_free(memory);
  return s;
}

sn_status sn_eval_async_start(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  if (e->top->phase++ == 0) return sn_ev_enter(e, i, i->called[0], (int)i->n_operands, in);
  sn_array *operands = NULL, *result = take_returned(e);
  sn_status s = sn_array_create_tuple((int)i->n_operands, in, &operands);
  if (s != SN_OK) {
    sn_ev_release(e, result);
    return sn_ev_error(e, i, s, "no memory for a tuple");
  }
  s = sn_ev_start_tuple(e, i, operands, result, out);
  sn_ev_release(e, operands);
  return s;
}

static sn_status second(sn_ev_ctx *e, const sn_instr *i, const sn_array *start, int index, sn_array **out) {
  if (sn_array_n_elements(start) <= index) return sn_ev_error(e, i, SN_ERR_SHAPE, "its operand is no start's result");
  *out = sn_array_retain(sn_array_element(start, index));
  return SN_OK;
}
sn_status sn_eval_done(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return second(e, i, in[0], 1, out);
}

/* copy-start gives (destination, source, context). */
sn_status sn_eval_copy_start(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return sn_ev_start_tuple(e, i, in[0], sn_array_retain(in[0]), out);
}
sn_status sn_eval_copy_done(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  return second(e, i, in[0], 0, out);
}
