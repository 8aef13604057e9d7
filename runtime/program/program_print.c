/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program as text, for people: what it takes and gives, its kernels, its commands. */
#include "program_internal.h"

static const char *const kinds[] = {"argument", "result", "constant", "arena"};
static const char *const commands[SN_COMMAND_COUNT] = {"kernel", "copy", "fill", "while", "conditional", "library", "custom-call", "collective", "interpret"};

static void print_leaf(sn_str *to, const char *what, uint32_t i, const sn_program_leaf *l) {
  sn_str_printf(to, "  %s %u %s: ", what, i, l->name ? l->name : "");
  sn_shape_print(to, l->shape, SN_SHAPE_LAYOUT);
  if (l->donated_to >= 0) sn_str_printf(to, " donated to result %lld", (long long)l->donated_to);
  if (l->alias_of >= 0) sn_str_printf(to, " in argument %lld", (long long)l->alias_of);
  sn_str_char(to, '\n');
}

static void print_slices(sn_str *to, const sn_command *c) {
  for (uint32_t i = 0; i < c->n_slices; i++) {
    const sn_slice *s = &c->slices[i];
    sn_str_printf(to, "%s%s%s", i ? ", " : " (", kinds[s->kind], s->kind == SN_ALLOCATION_ARENA ? "" : "[");
    if (s->kind != SN_ALLOCATION_ARENA) sn_str_printf(to, "%u]", s->index);
    sn_str_printf(to, "+%lld:%lld", (long long)s->offset, (long long)s->bytes);
  }
  if (c->n_slices) sn_str_char(to, ')');
}

static void print_command(sn_str *to, const sn_program *p, uint32_t i) {
  const sn_command *c = &p->commands[i];
  sn_str_printf(to, "  %4u %s", i, commands[c->kind]);
  if (c->kind == SN_COMMAND_KERNEL || c->kind == SN_COMMAND_LIBRARY) sn_str_printf(to, " %s", p->kernels[c->kernel].name ? p->kernels[c->kernel].name : "");
  if (c->target) sn_str_printf(to, " %s", c->target);
  if (c->kind == SN_COMMAND_LIBRARY && c->config) sn_str_printf(to, " {%s}", c->config);
  print_slices(to, c);
  for (uint32_t k = 0; k < c->n_ranges; k++) sn_str_printf(to, " [%u,+%u)", c->ranges[k].first, c->ranges[k].n);
  if (c->name) sn_str_printf(to, "  # %s", c->name);
  if (c->flops) sn_str_printf(to, ", %lld flops", (long long)c->flops);
  if (c->bytes) sn_str_printf(to, ", %lld bytes", (long long)c->bytes);
  sn_str_char(to, '\n');
}

void sn_program_print(sn_str *to, const sn_program *p) {
  sn_str_printf(to, "program %s target %s abi %d\n", sn_program_name(p), p->target ? p->target : "any", SN_PROGRAM_ABI);
  if (p->device) sn_str_printf(to, "  device %s\n", p->device);
  sn_str_printf(to, "  arena %lld bytes, scratch %lld bytes a worker, code %llu bytes\n", (long long)p->arena_bytes, (long long)p->scratch_bytes,
                (unsigned long long)p->code_bytes);
  for (uint32_t i = 0; i < p->n_arguments; i++) print_leaf(to, "argument", i, &p->arguments[i]);
  for (uint32_t i = 0; i < p->n_results; i++) print_leaf(to, "result", i, &p->results[i]);
  for (uint32_t i = 0; i < p->n_constants; i++) sn_str_printf(to, "  constant %u: %lld bytes\n", i, (long long)p->constant_bytes[i]);
  for (uint32_t i = 0; i < p->n_kernels; i++) {
    const sn_program_kernel *k = &p->kernels[i];
    sn_str_printf(to, "  kernel %u %s: %d buffers, items", i, k->name ? k->name : "", k->n_buffers);
    for (int f = 0; f < k->n_phases; f++) {
      const sn_program_phase *x = &k->phases[f];
      sn_str_printf(to, " %lld", (long long)x->n_items);
      if (x->entry) sn_str_printf(to, " (%s: %lld blocks of %u, %lld bytes shared)", x->entry, (long long)x->blocks, x->threads, (long long)x->shared_bytes);
    }
    sn_str_char(to, '\n');
  }
  for (uint32_t i = 0; i < p->n_commands; i++) print_command(to, p, i);
}
