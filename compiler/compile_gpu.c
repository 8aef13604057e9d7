/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The driver's road to a CUDA device: CUDA C for each distinct kernel, NVRTC in parallel, the program with PTX and cubin of each. */
#include "compile_internal.h"

#include "sinter/gpu.h"

#include <string.h>

/* ---- products in tf32: where an option says so, and where the program asks for `high` ---- */

static bool wants_tf32(const sn_instr *i, bool by_option) {
  if (i->op != SN_OP_DOT || i->shape->type != SN_TYPE_F32 || sn_instr_attr(i, SN_ATTR_DOT_ALGORITHM)) return false;
  if (sn_operand_shape(i, 0)->type != SN_TYPE_F32 || sn_operand_shape(i, 1)->type != SN_TYPE_F32) return false;
  sn_ints precision = sn_instr_ints(i, SN_ATTR_OPERAND_PRECISION);
  bool high = false, highest = false;
  for (int64_t k = 0; k < precision.n; k++) {
    high |= precision.v[k] == SN_PRECISION_HIGH;
    highest |= precision.v[k] == SN_PRECISION_HIGHEST;
  }
  return !highest && (high || by_option);
}

sn_status sn_compile_precision(compile *c) {
  bool by_option = c->o->precision && strcmp(c->o->precision, "tf32") == 0;
  SN_FOR_COMPUTATIONS(k, c->m) {
    SN_FOR_INSTRS(i, k) {
      if (!wants_tf32(i, by_option)) continue;
      sn_status s = sn_instr_set_attr(i, sn_attr_int(SN_ATTR_DOT_ALGORITHM, SN_DOT_ALGORITHM_TF32_TF32_F32));
      if (s != SN_OK) return sn_out_of_memory(c->d, sizeof(sn_attr));
    }
  }
  return SN_OK;
}

static sn_status emit_all(compile *c, sn_gpu_kernel ***out) {
  sn_gpu_kernel **all = SN_NEW_N(c->arena, sn_gpu_kernel *, c->n_kernels + 1);
  if (!all) return sn_out_of_memory(c->d, c->n_kernels * sizeof *all);
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    if (!(all[i] = SN_NEW(c->arena, sn_gpu_kernel))) return sn_out_of_memory(c->d, sizeof **all);
    SN_TRY(sn_gpu_emit(c->d, c->arena, c->kernels[i], &c->target, SN_GPU_AS_IS, all[i]));
  }
  *out = all;
  return SN_OK;
}

static int spilled(const sn_gpu_kernel *g) {
  int bytes = 0;
  for (int p = 0; p < g->n_phases; p++) bytes += g->phases[p].spill_bytes > 0 ? g->phases[p].spill_bytes : 0;
  return bytes;
}

/* Kernels whose registers did not suffice are compiled again by the next schedule; the better of both stays. */
static sn_status replace_spilling(compile *c, sn_nvrtc *nvrtc, const sn_cache *cache, sn_gpu_schedule schedule, sn_gpu_kernel **all) {
  sn_gpu_kernel **again = SN_NEW_N(c->arena, sn_gpu_kernel *, c->n_kernels + 1);
  uint32_t *at = SN_NEW_N(c->arena, uint32_t, c->n_kernels + 1), n = 0;
  if (!again || !at) return sn_out_of_memory(c->d, c->n_kernels * sizeof *again);
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    if (spilled(all[i]) == 0) continue;
    if (!(again[n] = SN_NEW(c->arena, sn_gpu_kernel))) return sn_out_of_memory(c->d, sizeof **again);
    SN_TRY(sn_gpu_emit(c->d, c->arena, c->kernels[i], &c->target, schedule, again[n]));
    at[n++] = i;
  }
  if (n) SN_TRY(sn_gpu_compile(c->d, c->arena, nvrtc, c->o->pool, cache, &c->target, (int)n, again));
  for (uint32_t i = 0; i < n; i++) {
    if (spilled(again[i]) < spilled(all[at[i]])) all[at[i]] = again[i];
  }
  return SN_OK;
}

static sn_status compile_all(compile *c, const sn_cache *cache, sn_gpu_kernel **all) {
  sn_nvrtc *nvrtc;
  if (c->n_kernels == 0) return SN_OK;
  SN_TRY(sn_nvrtc_open(c->d, &nvrtc));
  sn_status s = sn_gpu_compile(c->d, c->arena, nvrtc, c->o->pool, cache, &c->target, (int)c->n_kernels, all);
  for (int schedule = SN_GPU_AS_IS + 1; schedule < SN_GPU_SCHEDULES && s == SN_OK; schedule++) s = replace_spilling(c, nvrtc, cache, (sn_gpu_schedule)schedule, all);
  sn_nvrtc_close(nvrtc);
  return s;
}

/* A line a kernel, a line for all. */
static char *cache_report(const compile *c, const sn_cache *cache, sn_gpu_kernel *const *all) {
  sn_str s = {0};
  uint32_t n = 0;
  if (!cache) {
    sn_str_add(&s, "no cache: SINTER_CACHE_DIR is not set\n");
    return sn_compile_take_text(&s);
  }
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    const sn_gpu_kernel *g = all[i];
    n += g->found == SN_CACHE_HIT;
    sn_str_printf(&s, "%-40s %016llx%016llx  %s%s\n", c->kernels[i]->name, (unsigned long long)g->key.bits[0], (unsigned long long)g->key.bits[1], g->found == SN_CACHE_HIT ? "" : "compiled: ",
                  sn_cache_answers[g->found]);
  }
  sn_str_printf(&s, "%s: %u of %u kernels found for %s\n", sn_cache_dir(cache), n, c->n_kernels, c->target.name);
  return sn_compile_take_text(&s);
}

/* ---- the program's tables ---- */

static sn_status kernel_row(compile *c, uint32_t number, const sn_gpu_kernel *g, sn_program_kernel *to) {
  const sn_kernel *k = c->kernels[number];
  sn_program_phase *phases = SN_NEW_N(c->arena, sn_program_phase, g->n_phases + 1);
  if (!phases) return sn_out_of_memory(c->d, sizeof *phases);
  for (int f = 0; f < g->n_phases; f++) {
    const sn_gpu_phase *from = &g->phases[f];
    phases[f].n_items = from->items;
    phases[f].entry = from->entry;
    phases[f].threads = (uint32_t)from->threads;
    phases[f].blocks = from->blocks;
    phases[f].shared_bytes = from->shared_bytes;
    phases[f].takes_scratch = from->scratch_bytes > 0;
    phases[f].n_tickets = from->n_tickets;
    if (from->scratch_bytes > to->scratch_bytes) to->scratch_bytes = from->scratch_bytes;
  }
  int64_t workspace = sn_compile_library_workspace(c, number);
  if (workspace > to->scratch_bytes) to->scratch_bytes = workspace;
  to->name = k->name;
  to->n_phases = g->n_phases;
  to->phases = phases;
  for (int b = 0; b < k->n_buffers; b++) to->n_buffers += k->buffers[b].memory <= SN_KMEM_WORK;
  return SN_OK;
}

/* Modules one after the other, cubins on 64 bytes. */
static int64_t place_modules(uint32_t n, sn_gpu_kernel *const *all, sn_program_kernel *rows) {
  int64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    rows[i].ptx_offset = at;
    rows[i].ptx_bytes = (int64_t)all[i]->ptx_bytes;
    at = (at + rows[i].ptx_bytes + 63) / 64 * 64;
    rows[i].cubin_offset = at;
    rows[i].cubin_bytes = (int64_t)all[i]->cubin_bytes;
    at = (at + rows[i].cubin_bytes + 63) / 64 * 64;
  }
  return at;
}

static sn_status make_program(compile *c, sn_gpu_kernel *const *all, sn_program **out, sn_compile_report *r) {
  sn_program_kernel *rows = SN_NEW_N(c->arena, sn_program_kernel, c->n_kernels + 1);
  if (!rows) return sn_out_of_memory(c->d, c->n_kernels * sizeof *rows);
  for (uint32_t i = 0; i < c->n_kernels; i++) SN_TRY(kernel_row(c, i, all[i], &rows[i]));
  int64_t bytes = place_modules(c->n_kernels, all, rows);
  uint8_t *code = sn_arena_zero(c->arena, (size_t)bytes + 1, 1);
  if (!code) return sn_out_of_memory(c->d, (size_t)bytes);
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    if (all[i]->ptx_bytes) memcpy(code + rows[i].ptx_offset, all[i]->ptx, all[i]->ptx_bytes);
    if (all[i]->cubin_bytes) memcpy(code + rows[i].cubin_offset, all[i]->cubin, all[i]->cubin_bytes);
  }
  r->code_bytes = bytes;
  return sn_compile_program(c, rows, "cuda", NULL, code, bytes, out);
}

/* ---- texts ---- */

static void print_resources(sn_str *to, const sn_gpu_kernel *g) {
  for (int f = 0; f < g->n_phases; f++) {
    const sn_gpu_phase *p = &g->phases[f];
    sn_str_printf(to, "%-40s %8lld x %4d threads  %3d registers  %d bytes spilled  %d bytes stack  %lld + %d bytes shared  %d resident", p->entry, (long long)p->blocks, p->threads,
                  p->registers, p->spill_bytes, p->local_bytes, (long long)p->shared_bytes, p->static_shared_bytes, p->resident);
    if (g->schedule) sn_str_printf(to, "  schedule %d", g->schedule);
    if (p->scratch_bytes) sn_str_printf(to, "  %lld bytes scratch", (long long)p->scratch_bytes);
    sn_str_char(to, '\n');
  }
}

static void keep_texts(const compile *c, sn_gpu_kernel *const *all, sn_compile_report *r) {
  sn_str cuda = {0}, ptx = {0}, resources = {0};
  for (uint32_t i = 0; i < c->n_kernels; i++) {
    sn_str_add(&cuda, all[i]->source);
    if (all[i]->ptx) sn_str_add(&ptx, all[i]->ptx);
    print_resources(&resources, all[i]);
  }
  r->cuda = sn_compile_take_text(&cuda);
  r->ptx = sn_compile_take_text(&ptx);
  r->resources = sn_compile_take_text(&resources);
}

sn_status sn_compile_gpu(compile *c, sn_program **out, sn_compile_report *r) {
  sn_gpu_kernel **all = NULL;
  sn_cache *cache = NULL;
  SN_TRY(emit_all(c, &all));
  SN_TRY(sn_cache_open(c->d, c->o->cache_dir, &cache));
  sn_status s = compile_all(c, cache, all);
  if (s == SN_OK) r->cache = cache_report(c, cache, all);
  sn_cache_close(cache);
  if (c->o->keep_texts) keep_texts(c, all, r); /* the CUDA C helps where it was refused */
  if (s == SN_OK && c->o->keep_texts) s = sn_compile_model_gpu(c, all, &r->model);
  SN_TRY(s);
  return make_program(c, all, out, r);
}
