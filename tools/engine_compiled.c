/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The engines that compile: op-by-op and fused, through one path. */
#include "engine.h"

#include <string.h>

#include "sinter/compiler.h"
#include "sinter/device.h"

typedef struct compiled {
  sn_program *program;
  sn_context *context;
  bool donate;
  bool tuple; /* the root is one */
  uint32_t n_results;
  sn_array **results;
  sn_array **args; /* borrowed here, so that donated ones are not unique and therefore copied */
} compiled;

void sn_engine_compiled_release(void *program) {
  compiled *p = program;
  if (!p) return;
  sn_context_destroy(p->context);
  sn_program_release(p->program);
  sn_free(p->results);
  sn_free(p->args);
  sn_free(p);
}

/* *out: the target of the device at hand; untouched for the CPU. */
static sn_status device_target(sn_diag *d, const char *device, char *to, size_t bytes, const char **out) {
  if (!device || strcmp(device, "cpu") == 0) return SN_OK;
  SN_TRY(sn_driver_find(device)->target(d, 0, to, bytes));
  *out = to;
  return SN_OK;
}

static sn_status prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, const char *engine, void **out) {
  compiled *p = sn_alloc_zero(1, sizeof *p);
  *out = NULL;
  if (!p) return sn_out_of_memory(d, sizeof *p);
  char target[32];
  sn_compile_options o;
  sn_context_options c;
  sn_compile_options_init(&o);
  sn_context_options_init(&c);
  o.engine = engine;
  o.pool = setup->pool;
  o.target = setup->target;
  o.precision = setup->precision;
  c.pool = setup->pool;
  p->donate = setup->donate;
  p->tuple = sn_shape_is_tuple(m->entry->root->shape);
  sn_status s = setup->target ? SN_OK : device_target(d, setup->device, target, sizeof target, &o.target);
  if (s == SN_OK) s = sn_compile(d, m, &o, &p->program, NULL);
  if (s == SN_OK) s = sn_context_create(d, p->program, &c, &p->context);
  if (s == SN_OK) {
    p->n_results = sn_program_n_results(p->program);
    p->results = sn_alloc_zero(p->n_results + 1u, sizeof *p->results);
    p->args = sn_alloc_zero(sn_program_n_arguments(p->program) + 1u, sizeof *p->args);
    if (!p->results || !p->args) s = sn_out_of_memory(d, p->n_results * sizeof *p->results);
  }
  if (s != SN_OK) sn_engine_compiled_release(p);
  else *out = p;
  return s;
}

sn_status sn_engine_fused_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out) { return prepare(d, setup, m, "fused", out); }
sn_status sn_engine_op_by_op_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out) { return prepare(d, setup, m, "op-by-op", out); }

/* Leaves of tuple arguments, depth first, into p->args. */
static bool flatten(compiled *p, sn_array *a, uint32_t *n) {
  if (sn_array_shape(a)->type != SN_TYPE_TUPLE) {
    if (*n >= sn_program_n_arguments(p->program)) return false;
    p->args[(*n)++] = a;
    return true;
  }
  for (int k = 0; k < sn_array_n_elements(a); k++) {
    if (!flatten(p, sn_array_element(a, k), n)) return false;
  }
  return true;
}

sn_status sn_engine_compiled_call(sn_diag *d, void *program, int n, sn_array *const *args, sn_array **out) {
  compiled *p = program;
  uint32_t n_leaves = 0;
  *out = NULL;
  for (int k = 0; k < n; k++) {
    if (!flatten(p, args[k], &n_leaves)) break;
  }
  if (n_leaves != sn_program_n_arguments(p->program)) {
    return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "the program takes %u arrays, %u were given", sn_program_n_arguments(p->program), n_leaves);
  }
  for (uint32_t k = 0; !p->donate && k < n_leaves; k++) sn_array_retain(p->args[k]);
  sn_status s = sn_context_call(d, p->context, p->args, p->results);
  for (uint32_t k = 0; !p->donate && k < n_leaves; k++) sn_array_release(p->args[k]);
  if (s != SN_OK) return s;
  if (p->tuple) {
    s = sn_array_create_tuple((int)p->n_results, p->results, out);
    if (s != SN_OK) sn_out_of_memory(d, p->n_results * sizeof *out);
  } else if (p->n_results == 1) {
    *out = sn_array_retain(p->results[0]);
  }
  for (uint32_t k = 0; k < p->n_results; k++) sn_array_release(p->results[k]);
  return s;
}
