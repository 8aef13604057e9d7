/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* scan: operands are inputs, then carries. Each step applies the computation to one slice of every input (without the
 * scanned dimension) and the carries; it gives one slice of every output, then the new carries. The result is the
 * stacked outputs, then the last carries. */
#include "eval_internal.h"

typedef struct scan_job {
  int n_in, n_carry, n_out;
  int64_t dim, steps;
  sn_array **args;    /* of the computation: slices, carries */
  sn_array **results; /* outputs, last carries */
} scan_job;

/* Between a whole array and its slice `at` of dimension `dim`. */
static void move_slice(sn_ev_ctx *e, const sn_array *whole, const sn_array *slice, int64_t dim, int64_t at, bool take) {
  const sn_shape *w = sn_array_shape(whole);
  int64_t strides[SN_MAX_RANK], dense[SN_MAX_RANK];
  sn_ev_copy c;
  c.bytes = sn_type_bytes(w->type);
  c.rank = w->rank;
  memcpy(c.dims, w->dims, (size_t)w->rank * sizeof c.dims[0]);
  c.dims[dim] = 1;
  sn_ev_strides(w->rank, w->dims, strides);
  sn_ev_strides(w->rank, c.dims, dense);
  char *there = (char *)sn_array_data(whole) + at * strides[dim] * (int64_t)c.bytes, *here = sn_array_data(slice);
  memcpy(c.src_stride, take ? strides : dense, sizeof strides);
  memcpy(c.dst_stride, take ? dense : strides, sizeof strides);
  c.src = take ? there : here;
  c.dst = take ? here : there;
  sn_ev_copy_run(e, &c);
}

static sn_status take_inputs(sn_ev_ctx *e, const sn_instr *i, scan_job *j, sn_array *const *in, int64_t at) {
  for (int k = 0; k < j->n_in; k++) {
    const sn_computation *c = i->called[0];
    SN_TRY(sn_ev_new(e, i, c->params[k]->shape, &j->args[k]));
    move_slice(e, in[k], j->args[k], j->dim, at, true);
  }
  return SN_OK;
}

static sn_status store_step(sn_ev_ctx *e, const sn_instr *i, scan_job *j, const sn_array *value, int64_t at) {
  bool tuple = sn_shape_is_tuple(sn_array_shape(value));
  int n = tuple ? sn_array_n_elements(value) : 1;
  if (n != j->n_out + j->n_carry)
    return sn_ev_error(e, i, SN_ERR_VERIFY, "computation %s gives %d values instead of %d", i->called[0]->name, n,
                       j->n_out + j->n_carry);
  for (int k = 0; k < n; k++) {
    sn_array *a = tuple ? sn_array_element(value, k) : (sn_array *)(uintptr_t)value;
    if (k < j->n_out) {
      move_slice(e, j->results[k], a, j->dim, at, false);
    } else {
      int arg = j->n_in + k - j->n_out;
      sn_ev_release(e, j->args[arg]);
      j->args[arg] = sn_array_retain(a);
    }
  }
  return SN_OK;
}

static sn_status run(sn_ev_ctx *e, const sn_instr *i, scan_job *j, sn_array *const *in) {
  bool reverse = sn_instr_bool(i, SN_ATTR_IS_REVERSE);
  bool tuple = sn_shape_is_tuple(i->shape);
  for (int k = 0; k < j->n_carry; k++) j->args[j->n_in + k] = sn_array_retain(in[j->n_in + k]);
  for (int k = 0; k < j->n_out; k++) SN_TRY(sn_ev_new(e, i, tuple ? i->shape->elements[k] : i->shape, &j->results[k]));
  for (int64_t step = 0; step < j->steps; step++) {
    int64_t at = reverse ? j->steps - 1 - step : step;
    sn_array *value = NULL;
    SN_TRY(take_inputs(e, i, j, in, at));
    SN_TRY(sn_ev_apply(e, i, i->called[0], j->n_in + j->n_carry, j->args, &value));
    sn_status s = store_step(e, i, j, value, at);
    sn_ev_release(e, value);
    SN_TRY(s);
    for (int k = 0; k < j->n_in; k++) {
      sn_ev_release(e, j->args[k]);
      j->args[k] = NULL;
    }
  }
  for (int k = 0; k < j->n_carry; k++) j->results[j->n_out + k] = sn_array_retain(j->args[j->n_in + k]);
  return SN_OK;
}

sn_status sn_eval_scan(sn_ev_ctx *e, const sn_instr *i, sn_array *const *in, sn_array **out) {
  scan_job j;
  void *memory;
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  int total = sn_shape_is_tuple(i->shape) ? i->shape->n_elements : 1;
  memset(&j, 0, sizeof j);
  j.n_carry = (int)sn_instr_int(i, SN_ATTR_NUM_CARRIES);
  j.n_in = (int)i->n_operands - j.n_carry;
  j.n_out = total - j.n_carry;
  if (j.n_in < 1 || j.n_carry < 0 || j.n_out < 0 || dims.n != 1 || i->called[0]->n_params != i->n_operands)
    return sn_ev_error(e, i, SN_ERR_VERIFY, "its operands, carries and computation do not fit");
  j.dim = dims.v[0];
  j.steps = sn_array_shape(in[0])->dims[j.dim];
  SN_TRY(sn_ev_scratch(e, i, (size_t)i->n_operands + (size_t)total, sizeof(sn_array *), &memory));
  j.args = memory;
  j.results = j.args + i->n_operands;
  sn_status s = run(e, i, &j, in);
  if (s == SN_OK && sn_shape_is_tuple(i->shape)) {
    s = sn_ev_new_tuple(e, i, total, j.results, out);
  } else if (s == SN_OK) {
    *out = j.results[0];
    j.results[0] = NULL;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) sn_ev_release(e, j.args[k]);
  for (int k = 0; k < total; k++) sn_ev_release(e, j.results[k]);
  sn_free(memory);
  return s;
}
