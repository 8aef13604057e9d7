/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The engines that compile: op-by-op and fused, through one path. */
#include "arrays.h"
#include "engine.h"

#include <string.h>

#include "sinter/compiler.h"
#include "sinter/stablehlo.h"
#include "sinter/device.h"
#include "sinter/eval.h"
#include "sinter/text.h"

typedef struct interpreted { /* a command's module, parsed at its first run */
  const sn_command *command;
  sn_module *module;
  struct interpreted *next;
} interpreted;

typedef struct compiled {
  interpreted *interpreted;
  sn_pool *pool;
  sn_program *program;
  sn_context *context;
  uint64_t seed;
  sn_eval_draws draws; /* of the call under way */
  bool donate, stepwise, probe;
  bool tuple; /* the root is one */
  uint32_t n_results;
  sn_array **results;
  sn_array **args; /* borrowed here, so that donated ones are not unique and therefore copied */
} compiled;

void sn_engine_compiled_release(void *program) {
  compiled *p = program;
  if (!p) return;
  sn_context_destroy(p->context);
  for (interpreted *i = p->interpreted, *next; i; i = next) {
    next = i->next;
    sn_module_destroy(i->module);
    sn_free(i);
  }
  sn_program_release(p->program);
  sn_free(p->results);
  sn_free(p->args);
  sn_free(p);
}

/* ---- commands that have no code ---- */

static sn_status module_of(compiled *p, sn_diag *d, const sn_command *c, const sn_module **out) {
  *out = NULL;
  for (const interpreted *i = p->interpreted; i; i = i->next) {
    *out = i->module;
    if (i->command == c) return SN_OK;
  }
  if (!c->hlo) return sn_error(d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "%s: the program does not say what it is", c->name);
  interpreted *fresh = sn_alloc_zero(1, sizeof *fresh);
  if (!fresh) return sn_out_of_memory(d, sizeof *fresh);
  fresh->command = c;
  fresh->next = p->interpreted;
  p->interpreted = fresh;
  sn_status s = sn_hlo_parse(d, c->name, c->hlo, strlen(c->hlo), &fresh->module);
  *out = fresh->module;
  if (s != SN_OK) fresh->command = NULL;
  return s;
}

/* Elements between an array and the memory of a buffer, whose layout orders them. */
static void move_elements(const sn_shape *s, const sn_array *a, void *memory, bool to_memory) {
  int64_t strides[SN_MAX_RANK], index[SN_MAX_RANK] = {0};
  size_t each = sn_type_bytes(s->type);
  char *p = sn_array_data(a);
  sn_shape_physical_strides(s, strides);
  for (int64_t k = 0; k < sn_shape_elements(s); k++, p += each) {
    int64_t at = 0;
    for (int d = 0; d < s->rank; d++) at += index[d] * strides[d];
    char *q = (char *)memory + (size_t)at * each;
    memcpy(to_memory ? q : p, to_memory ? p : q, each);
    for (int d = s->rank - 1; d >= 0 && ++index[d] == s->dims[d]; d--) index[d] = 0;
  }
}

/* Leaves of the value, depth first, to the buffers behind the operands. */
static void store_leaves(const sn_command *c, const sn_array *v, uint32_t *at, void *const *buffers) {
  if (sn_array_shape(v)->type == SN_TYPE_TOKEN) return; /* has no memory */
  if (!sn_shape_is_tuple(sn_array_shape(v))) {
    if (*at < c->n_slices) move_elements(c->shapes[*at], v, buffers[*at], true);
    (*at)++;
    return;
  }
  for (int k = 0; k < sn_array_n_elements(v); k++) store_leaves(c, sn_array_element(v, k), at, buffers);
}

/* What has no kernel, custom calls included, carries its HLO. */
static sn_status interpret(void *ctx, sn_diag *d, const sn_command *c, void *const *buffers) {
  compiled *p = ctx;
  const sn_module *m;
  sn_array *out = NULL;
  sn_eval_options o;
  SN_TRY(module_of(p, d, c, &m));
  uint32_t n = m->entry->n_params;
  sn_array **args = n <= c->n_slices ? sn_alloc_zero(n + 1u, sizeof *args) : NULL;
  if (!args) return sn_out_of_memory(d, n * sizeof *args);
  sn_status s = SN_OK;
  for (uint32_t k = 0; k < n && s == SN_OK; k++) {
    s = sn_array_create(c->shapes[k], &args[k]);
    if (s == SN_OK) move_elements(c->shapes[k], args[k], buffers[k], false);
  }
  sn_eval_options_init(&o);
  o.pool = p->pool;
  o.seed = p->seed;
  o.draws = &p->draws;
  o.probe = p->probe;
  o.customs = sn_stablehlo_customs();
  o.stepwise = p->stepwise;
  if (s == SN_OK) s = sn_eval(d, m, &o, (int)n, args, &out);
  if (s == SN_OK) store_leaves(c, out, &n, buffers);
  sn_array_release(out);
  sn_arrays_release(m->entry->n_params, args);
  return s;
}

/* ---- preparing ---- */

/* *out: the target of the device at hand; untouched for the CPU. */
static sn_status device_target(sn_diag *d, const char *device, char *to, size_t bytes, const char **out) {
  if (!device || strcmp(device, "cpu") == 0) return SN_OK;
  SN_TRY(sn_driver_find(device)->target(d, 0, to, bytes));
  *out = to;
  return SN_OK;
}

/* Takes over the reference to `program`. */
static sn_status bind(sn_diag *d, const sn_engine_setup *setup, sn_program *program, void **out) {
  *out = NULL;
  compiled *p = sn_alloc_zero(1, sizeof *p);
  if (!p) {
    sn_program_release(program);
    return sn_out_of_memory(d, sizeof *p);
  }
  sn_context_options c;
  sn_context_options_init(&c);
  p->program = program;
  p->pool = c.pool = setup->pool;
  p->seed = setup->seed;
  p->stepwise = setup->stepwise;
  p->probe = setup->probe;
  p->donate = setup->donate;
  p->tuple = sn_program_result_is_tuple(program);
  p->n_results = sn_program_n_results(program);
  c.custom_call = interpret;
  c.custom_call_ctx = p;
  sn_status s = sn_context_create(d, program, &c, &p->context);
  if (s == SN_OK) {
    p->results = sn_alloc_zero(p->n_results + 1u, sizeof *p->results);
    p->args = sn_alloc_zero(sn_program_n_arguments(program) + 1u, sizeof *p->args);
    if (!p->results || !p->args) s = sn_out_of_memory(d, p->n_results * sizeof *p->results);
  }
  if (s != SN_OK) sn_engine_compiled_release(p);
  else *out = p;
  return s;
}

static sn_status prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, const char *engine, void **out) {
  char target[32];
  sn_compile_options o;
  sn_program *program;
  *out = NULL;
  sn_compile_options_init(&o);
  o.engine = engine;
  o.pool = setup->pool;
  o.interpret = true;
  if (setup->passes) {
    o.passes = *setup->passes;
    o.opt_level = setup->passes->opt_level;
  }
  o.passes.seed = setup->seed;
  o.passes.stepwise = setup->stepwise;
  o.target = setup->target;
  o.precision = setup->precision;
  o.library = setup->library;
  if (!setup->target) SN_TRY(device_target(d, setup->device, target, sizeof target, &o.target));
  SN_TRY(sn_compile(d, m, &o, &program, NULL));
  return bind(d, setup, program, out);
}

sn_status sn_engine_fused_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out) { return prepare(d, setup, m, "fused", out); }
sn_status sn_engine_op_by_op_prepare(sn_diag *d, const sn_engine_setup *setup, const sn_module *m, void **out) { return prepare(d, setup, m, "op-by-op", out); }

sn_status sn_runnable_from_program(sn_diag *d, const sn_engine_setup *setup, sn_program *p, sn_runnable *out) {
  *out = (sn_runnable){sn_engine_find("fused"), NULL};
  return bind(d, setup, sn_program_retain(p), &out->program);
}

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
  sn_eval_draws_init(&p->draws, p->seed);
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
