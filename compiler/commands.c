/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* From the scheduled, buffer-assigned entry to the program's list of commands. */
#include "compile_internal.h"
#include "leaves.h"

#include <string.h>

static sn_command *add_command(compile *c, const sn_instr *i, sn_command_kind kind, uint32_t n_slices, sn_slice **slices) {
  if (c->n_commands == c->cap_commands) {
    uint32_t cap = c->cap_commands ? 2 * c->cap_commands : 128;
    sn_command *wider = SN_NEW_N(c->arena, sn_command, cap);
    if (!wider) return NULL;
    if (c->n_commands) memcpy(wider, c->commands, c->n_commands * sizeof *wider);
    c->commands = wider;
    c->cap_commands = cap;
  }
  sn_command *m = &c->commands[c->n_commands];
  memset(m, 0, sizeof *m);
  *slices = SN_NEW_N(c->arena, sn_slice, n_slices + 1);
  if (!*slices) return NULL;
  m->kind = kind;
  m->name = i->name;
  m->n_slices = n_slices;
  m->slices = *slices;
  c->n_commands++;
  return m;
}

static sn_status no_memory(compile *c) { return sn_out_of_memory(c->d, sizeof(sn_command)); }

static sn_status slice_of(compile *c, const sn_instr *i, int leaf, sn_slice *out) {
  const sn_plan_slice *s = c->plan.slices[i->id] ? &c->plan.slices[i->id][leaf] : NULL;
  static const sn_allocation_kind kinds[] = {[SN_PLACE_ARGUMENT] = SN_ALLOCATION_ARGUMENT,
                                             [SN_PLACE_RESULT] = SN_ALLOCATION_RESULT,
                                             [SN_PLACE_CONSTANT] = SN_ALLOCATION_CONSTANT,
                                             [SN_PLACE_ARENA] = SN_ALLOCATION_ARENA};
  if (!s || s->place == SN_PLACE_NONE) return sn_error(c->d, i->loc, SN_ERR_INTERNAL, "%s: the plan has no place for it", i->name);
  *out = (sn_slice){kinds[s->place], s->index, s->offset, s->bytes};
  return SN_OK;
}

/* ---- kernels ---- */

/* Workspaces of a command lie behind the plan's arena, one after the other. */
static void place_work(compile *c, const sn_kernel *k, int from, sn_slice *slices, uint32_t at) {
  int64_t base = (c->plan.arena_bytes + 63) / 64 * 64, offset = 0;
  for (int b = from; b < k->n_buffers && k->buffers[b].memory <= SN_KMEM_WORK; b++) {
    int64_t bytes = sn_kbuffer_bytes(&k->buffers[b]);
    slices[at++] = (sn_slice){SN_ALLOCATION_ARENA, 0, base + offset, bytes};
    offset += (bytes + 63) / 64 * 64;
  }
  if (offset > c->work_bytes) c->work_bytes = offset;
}

static uint32_t n_arguments(const sn_kernel *k) {
  uint32_t n = 0;
  for (int b = 0; b < k->n_buffers; b++) n += k->buffers[b].memory <= SN_KMEM_WORK;
  return n;
}

static sn_status kernel_command(compile *c, const sn_instr *i) {
  uint32_t number, at = 0;
  sn_slice *slices;
  SN_TRY(sn_compile_kernel(c, i, &number));
  const sn_kernel *k = c->kernels[number];
  if (k->n_phases == 0) return SN_OK; /* results without elements */
  sn_command *m = add_command(c, i, SN_COMMAND_KERNEL, n_arguments(k), &slices);
  if (!m) return no_memory(c);
  m->kernel = number;
  for (uint32_t o = 0; o < i->n_operands; o++) {
    if (sn_shape_is_array(sn_operand_shape(i, o))) SN_TRY(slice_of(c, sn_instr_operand(i, o), 0, &slices[at++]));
  }
  int64_t leaves = sn_shape_leaves(i->shape);
  for (int leaf = 0; leaf < leaves; leaf++) SN_TRY(slice_of(c, i, leaf, &slices[at++]));
  place_work(c, k, (int)at, slices, at);
  for (uint32_t s = 0; s < m->n_slices; s++) m->bytes += slices[s].bytes;
  return sn_compile_library(c, i, m);
}

static sn_status copy_command(compile *c, const sn_instr *i) {
  sn_slice *slices, to, from;
  SN_TRY(slice_of(c, i, 0, &to));
  SN_TRY(slice_of(c, sn_instr_operand(i, 0), 0, &from));
  if (to.kind == from.kind && to.index == from.index && to.offset == from.offset) return SN_OK;
  if (to.bytes == 0) return SN_OK;
  if (!add_command(c, i, SN_COMMAND_COPY, 2, &slices)) return no_memory(c);
  slices[0] = to;
  slices[1] = from;
  return SN_OK;
}

/* ---- control flow and calls ---- */

static sn_status computation_commands(compile *c, const sn_computation *k);

/* The inner commands of a range; the command itself may move while they are added, so it is found by number. */
static sn_status range_commands(compile *c, const sn_computation *k, sn_command_range *range) {
  range->first = c->n_commands;
  SN_TRY(computation_commands(c, k));
  range->n = c->n_commands - range->first;
  return SN_OK;
}

static sn_status while_command(compile *c, const sn_instr *i) {
  uint32_t self = c->n_commands;
  sn_slice *slices;
  sn_command_range *ranges = SN_NEW_N(c->arena, sn_command_range, 2);
  if (!ranges || !add_command(c, i, SN_COMMAND_WHILE, 1, &slices)) return no_memory(c);
  SN_TRY(slice_of(c, i->called[0]->root, 0, &slices[0]));
  for (int k = 0; k < 2; k++) SN_TRY(range_commands(c, i->called[k], &ranges[k]));
  c->commands[self].n_ranges = 2;
  c->commands[self].ranges = ranges;
  return SN_OK;
}

static sn_status conditional_command(compile *c, const sn_instr *i) {
  uint32_t self = c->n_commands;
  sn_slice *slices;
  sn_command_range *ranges = SN_NEW_N(c->arena, sn_command_range, i->n_called);
  if (!ranges || !add_command(c, i, SN_COMMAND_CONDITIONAL, 1, &slices)) return no_memory(c);
  SN_TRY(slice_of(c, sn_instr_operand(i, 0), 0, &slices[0]));
  for (uint16_t k = 0; k < i->n_called; k++) SN_TRY(range_commands(c, i->called[k], &ranges[k]));
  c->commands[self].index_is_pred = sn_operand_shape(i, 0)->type == SN_TYPE_PRED;
  c->commands[self].n_ranges = i->n_called;
  c->commands[self].ranges = ranges;
  return SN_OK;
}

static sn_status call_command(compile *c, const sn_instr *i) { return computation_commands(c, i->called[0]); }

/* Tokens have no memory. */
static uint32_t array_leaves(const sn_shape *s) {
  uint32_t n = 0;
  for (int64_t k = 0; k < sn_shape_leaves(s); k++) n += sn_shape_leaf(s, k)->type != SN_TYPE_TOKEN;
  return n;
}

/* A command that the host runs: a custom call, or an instruction for its interpreter. */
static sn_status host_command(compile *c, const sn_instr *i, sn_command_kind kind) {
  uint32_t n = array_leaves(i->shape), at = 0;
  for (uint32_t k = 0; k < i->n_operands; k++) n += array_leaves(sn_operand_shape(i, k));
  sn_slice *slices;
  const sn_shape **shapes = SN_NEW_N(c->arena, const sn_shape *, n + 1);
  sn_command *m = shapes ? add_command(c, i, kind, n, &slices) : NULL;
  if (!m) return no_memory(c);
  if (kind == SN_COMMAND_CUSTOM_CALL) m->target = sn_instr_str(i, SN_ATTR_CUSTOM_CALL_TARGET);
  SN_TRY(sn_compile_as_text(c, i, &m->hlo));
  m->config = i->backend_config;
  m->shapes = shapes;
  for (uint32_t k = 0; k <= i->n_operands; k++) {
    const sn_instr *x = k < i->n_operands ? sn_instr_operand(i, k) : i;
    for (int64_t leaf = 0; leaf < sn_shape_leaves(x->shape); leaf++) {
      const sn_shape *s = sn_shape_leaf(x->shape, leaf);
      if (s->type == SN_TYPE_TOKEN) continue;
      if (!sn_shape_is_array(s)) return sn_error(c->d, i->loc, SN_ERR_UNSUPPORTED, "%s: a call with values that are no arrays cannot be compiled", i->name);
      shapes[at] = s;
      SN_TRY(slice_of(c, x, (int)leaf, &slices[at++]));
    }
  }
  return SN_OK;
}

static sn_status custom_command(compile *c, const sn_instr *i) { return host_command(c, i, SN_COMMAND_CUSTOM_CALL); }

static bool all_static(const sn_instr *i) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!sn_shape_is_static(sn_operand_shape(i, k))) return false;
  }
  return sn_shape_is_static(i->shape);
}

/* A kernel, or, where it has no lowering and the host can help, a command for its interpreter. */
static sn_status kernel_or_host_command(compile *c, const sn_instr *i) {
  if (!c->o->interpret || !all_static(i)) return kernel_command(c, i);
  sn_diag *d = c->d, *quiet = NULL;
  SN_TRY(sn_diag_create(&quiet));
  c->d = quiet;
  uint32_t number;
  sn_status s = sn_compile_kernel(c, i, &number);
  c->d = d;
  sn_diag_destroy(quiet);
  return s == SN_ERR_UNSUPPORTED ? host_command(c, i, SN_COMMAND_INTERPRET) : kernel_command(c, i); /* a second failure is reported */
}

static sn_status unsupported(compile *c, const sn_instr *i) {
  sn_error(c->d, i->loc, SN_ERR_UNSUPPORTED, "%s: %s cannot be compiled yet", i->name, sn_opcode_text(i->op));
  sn_hint(c->d, "run the module with --engine=interpreter");
  return SN_ERR_UNSUPPORTED;
}

/* Numbers that a run draws one after the other: the host keeps count. */
static sn_status draw_command(compile *c, const sn_instr *i) {
  return c->o->interpret && all_static(i) ? host_command(c, i, SN_COMMAND_INTERPRET) : unsupported(c, i);
}

/* ---- dispatch ---- */

static sn_status nothing(compile *c, const sn_instr *i) {
  (void)c;
  (void)i;
  return SN_OK;
}

static const struct {
  sn_opcode op;
  sn_status (*emit)(compile *c, const sn_instr *i);
} rows[] = {
    {SN_OP_PARAMETER, nothing},
    {SN_OP_CONSTANT, nothing},
    {SN_OP_TUPLE, nothing},
    {SN_OP_GET_TUPLE_ELEMENT, nothing},
    {SN_OP_AFTER_ALL, nothing},
    {SN_OP_WHILE, while_command},
    {SN_OP_CONDITIONAL, conditional_command},
    {SN_OP_CALL, call_command},
    {SN_OP_CUSTOM_CALL, custom_command},
    {SN_OP_RNG, draw_command},
    {SN_OP_RNG_GET_AND_UPDATE_STATE, draw_command},
};

static bool same_layout(const sn_instr *i) { return sn_shape_equal(i->shape, sn_operand_shape(i, 0), SN_EQ_LAYOUT | SN_EQ_MINOR_TO_MAJOR_ONLY); }

static sn_status instr_commands(compile *c, const sn_instr *i) {
  for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
    if (rows[k].op == i->op) return rows[k].emit(c, i);
  }
  if (sn_is_rename(i)) return SN_OK;
  if (i->op == SN_OP_COPY && same_layout(i)) return copy_command(c, i);
  if (sn_op_has(i->op, (sn_trait)(SN_T_COLLECTIVE | SN_T_EFFECT | SN_T_START | SN_T_DONE | SN_T_TOKEN))) return unsupported(c, i);
  return kernel_or_host_command(c, i);
}

/* Computations nest as the module's calls do; the program's reader bounds the depth. */
static sn_status computation_commands(compile *c, const sn_computation *k) {
  SN_FOR_INSTRS(i, k) SN_TRY(instr_commands(c, i));
  return SN_OK;
}

sn_status sn_compile_commands(compile *c) { return computation_commands(c, c->m->entry); }

/* ---- arguments and results ---- */

static int64_t leaf_of(const sn_shape *s, sn_ints index) {
  int64_t leaf = 0;
  for (int64_t k = 0; k < index.n; k++) {
    for (int64_t e = 0; e < index.v[k]; e++) leaf += sn_shape_leaves(s->elements[e]);
    s = s->elements[index.v[k]];
  }
  return leaf;
}

static const sn_shape *with_layout(compile *c, const sn_shape *leaf) { return leaf->layout ? leaf : sn_shape_default_layout(c->arena, leaf); }

static sn_status add_leaves(compile *c, const char *prefix, const sn_shape *s, sn_program_leaf *to, uint32_t *n) {
  for (int64_t k = 0; k < sn_shape_leaves(s); k++) {
    const sn_shape *leaf = sn_shape_leaf(s, k);
    if (!sn_shape_is_array(leaf)) return sn_error(c->d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "tokens among a program's arguments or results cannot be compiled yet");
    to[*n] = (sn_program_leaf){sn_arena_printf(c->arena, "%s%u", prefix, *n), with_layout(c, leaf), -1, -1};
    if (!to[*n].name || !to[*n].shape) return no_memory(c);
    (*n)++;
  }
  return SN_OK;
}

sn_status sn_compile_leaves(compile *c) {
  const sn_computation *e = c->m->entry;
  int64_t total = 0;
  for (uint32_t k = 0; k < e->n_params; k++) total += sn_shape_leaves(e->params[k]->shape);
  int64_t n_results = sn_shape_leaves(e->root->shape);
  int64_t *first = SN_NEW_N(c->arena, int64_t, e->n_params + 1);
  c->arguments = SN_NEW_N(c->arena, sn_program_leaf, total + 1);
  c->results = SN_NEW_N(c->arena, sn_program_leaf, n_results + 1);
  if (!first || !c->arguments || !c->results) return no_memory(c);
  for (uint32_t k = 0; k < e->n_params; k++) {
    first[k] = c->n_arguments;
    SN_TRY(add_leaves(c, "arg", e->params[k]->shape, c->arguments, &c->n_arguments));
  }
  SN_TRY(add_leaves(c, "out", e->root->shape, c->results, &c->n_results));
  for (int64_t k = 0; k < c->m->n_aliases; k++) {
    const sn_alias *a = &c->m->aliases[k];
    int64_t out = leaf_of(e->root->shape, a->output_index), in = first[a->operand] + leaf_of(e->params[a->operand]->shape, a->operand_index);
    c->arguments[in].donated_to = out;
    c->results[out].alias_of = in;
  }
  return SN_OK;
}
