/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls with arrays: shapes are checked, layouts and alignment seen to, results made. */
#include "program_internal.h"

#include <string.h>

/* Row-major elements into the leaf's physical order, or back. */
static void reorder(const sn_shape *s, void *physical, void *row_major, bool to_physical) {
  int64_t strides[SN_MAX_RANK], at[SN_MAX_RANK] = {0};
  size_t each = sn_type_bytes(s->type);
  int64_t n = sn_shape_elements(s), offset = 0;
  sn_shape_physical_strides(s, strides);
  for (int64_t i = 0; i < n; i++) {
    uint8_t *p = (uint8_t *)physical + (size_t)offset * each, *r = (uint8_t *)row_major + (size_t)i * each;
    memcpy(to_physical ? p : r, to_physical ? r : p, each);
    for (int k = s->rank - 1; k >= 0; k--) {
      offset += strides[k];
      if (++at[k] < s->dims[k]) break;
      offset -= strides[k] * s->dims[k];
      at[k] = 0;
    }
  }
}

static bool ordered(const sn_shape *s) { return sn_layout_is_default(s->layout) || s->rank < 2; }

/* What a call holds while it runs. own[i]: an array made for argument i; released at the end. */
typedef struct call {
  sn_program *p;
  void **arguments, **results;
  sn_array **own, **made;
} call;

static void call_finish(call *c) {
  for (uint32_t i = 0; c->own && i < c->p->n_arguments; i++) sn_array_release(c->own[i]);
  for (uint32_t i = 0; c->made && i < c->p->n_results; i++) sn_array_release(c->made[i]);
  sn_free(c->arguments);
  sn_free(c->results);
  sn_free(c->own);
  sn_free(c->made);
}

static sn_status call_init(sn_diag *d, call *c, sn_program *p) {
  memset(c, 0, sizeof *c);
  c->p = p;
  c->arguments = sn_alloc_zero(p->n_arguments + 1u, sizeof *c->arguments);
  c->results = sn_alloc_zero(p->n_results + 1u, sizeof *c->results);
  c->own = sn_alloc_zero(p->n_arguments + 1u, sizeof *c->own);
  c->made = sn_alloc_zero(p->n_results + 1u, sizeof *c->made);
  return c->arguments && c->results && c->own && c->made ? SN_OK : sn_out_of_memory(d, p->n_arguments * sizeof *c->own);
}

static sn_status bind_argument(sn_diag *d, call *c, uint32_t i, sn_array *given) {
  const sn_program_leaf *l = &c->p->arguments[i];
  sn_loc loc = {sn_program_name(c->p), 0, 0};
  if (!given || !sn_shape_equal(sn_array_shape(given), l->shape, 0)) {
    sn_str want = {0}, got = {0};
    sn_shape_print(&want, l->shape, 0);
    if (given) sn_shape_print(&got, sn_array_shape(given), 0);
    sn_status s = sn_error(d, loc, SN_ERR_SHAPE, "argument %u (%s): expected %s, got %s", i, l->name ? l->name : "", want.data ? want.data : "?", got.data ? got.data : "nothing");
    sn_str_finish(&want);
    sn_str_finish(&got);
    return s;
  }
  /* Used in place when it is aligned, in order, and nobody's but ours to change where the program writes to it. */
  bool written = l->donated_to >= 0 && !sn_array_unique(given);
  if (ordered(l->shape) && (uintptr_t)sn_array_data(given) % 64 == 0 && !written) {
    c->arguments[i] = sn_array_data(given);
    if (l->donated_to >= 0) c->own[i] = sn_array_retain(given);
    return SN_OK;
  }
  if (sn_array_create(sn_array_shape(given), &c->own[i]) != SN_OK) return sn_out_of_memory(d, sn_array_bytes(given));
  if (ordered(l->shape)) memcpy(sn_array_data(c->own[i]), sn_array_data(given), sn_array_bytes(given));
  else reorder(l->shape, sn_array_data(c->own[i]), sn_array_data(given), true);
  c->arguments[i] = sn_array_data(c->own[i]);
  return SN_OK;
}

static sn_status bind_result(sn_diag *d, call *c, uint32_t i) {
  const sn_program_leaf *l = &c->p->results[i];
  if (l->alias_of >= 0) c->made[i] = sn_array_retain(c->own[l->alias_of]);
  else if (sn_array_create(l->shape, &c->made[i]) != SN_OK) return sn_out_of_memory(d, (size_t)sn_shape_bytes(l->shape));
  c->results[i] = sn_array_data(c->made[i]);
  return SN_OK;
}

static sn_status give_result(sn_diag *d, call *c, uint32_t i, sn_array **out) {
  const sn_program_leaf *l = &c->p->results[i];
  if (ordered(l->shape)) {
    *out = sn_array_retain(c->made[i]);
    return SN_OK;
  }
  if (sn_array_create(l->shape, out) != SN_OK) return sn_out_of_memory(d, (size_t)sn_shape_bytes(l->shape));
  reorder(l->shape, sn_array_data(c->made[i]), sn_array_data(*out), false);
  return SN_OK;
}

sn_status sn_context_call(sn_diag *d, sn_context *context, sn_array *const *arguments, sn_array **results) {
  call c;
  sn_program *p = sn_context_program(context);
  for (uint32_t i = 0; i < p->n_results; i++) results[i] = NULL;
  sn_status s = call_init(d, &c, p);
  for (uint32_t i = 0; s == SN_OK && i < p->n_arguments; i++) s = bind_argument(d, &c, i, arguments[i]);
  for (uint32_t i = 0; s == SN_OK && i < p->n_results; i++) s = bind_result(d, &c, i);
  if (s == SN_OK) s = sn_context_run(d, context, c.arguments, c.results);
  for (uint32_t i = 0; s == SN_OK && i < p->n_results; i++) s = give_result(d, &c, i, &results[i]);
  for (uint32_t i = 0; s != SN_OK && i < p->n_results; i++) {
    sn_array_release(results[i]);
    results[i] = NULL;
  }
  call_finish(&c);
  return s;
}
