/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Code and memory on the device. */
#include "cuda.h"

#include <string.h>

enum { ALIGN = 256, DEFAULT_SHARED = 48 << 10 };

/* ---- code ---- */

/* The cubin where the device takes it, else the PTX, which the driver compiles. */
static sn_status load_module(sn_diag *d, cuda_state *c, uint32_t number, cu_module *out) {
  const sn_program_kernel *k = &c->program->kernels[number];
  sn_program_module m;
  cu_result r = CU_INVALID_IMAGE;
  sn_program_kernel_module(c->program, number, &m);
  if (m.cubin_bytes) r = c->api.module_load(out, m.cubin);
  if (r == CU_OK || r == CU_OUT_OF_MEMORY) return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, k->name, "loading code");
  if (m.ptx) r = c->api.module_load(out, m.ptx);
  if (r == CU_OK) return SN_OK;
  sn_error(d, (sn_loc){k->name, 0, 0}, SN_ERR_VERSION, "code for %s does not run on this device (%s, sm_%d%d)", c->program->target ? c->program->target : "another target", c->device_name,
           c->major, c->minor);
  if (r == CU_UNSUPPORTED_PTX) sn_hint(d, "the driver is older than the compiler that made the code: compile with --target=sm_%d%d, or update the driver", c->major, c->minor);
  else sn_hint(d, "compile with --target=sm_%d%d%s", c->major, c->minor, c->major == 9 ? "a" : "");
  return SN_ERR_VERSION;
}

static sn_status find_functions(sn_diag *d, cuda_state *c, const sn_program_kernel *k, cuda_kernel *to) {
  to->functions = sn_alloc_zero((size_t)k->n_phases + 1, sizeof *to->functions);
  if (!to->functions) return sn_out_of_memory(d, (size_t)k->n_phases * sizeof *to->functions);
  for (int f = 0; f < k->n_phases; f++) {
    cu_result r = c->api.module_function(&to->functions[f], to->module, k->phases[f].entry);
    if (r != CU_OK) return sn_cuda_error(d, &c->api, r, k->name, "finding a kernel");
    if (k->phases[f].shared_bytes <= DEFAULT_SHARED - 8192) continue;
    r = c->api.function_set(to->functions[f], CU_FUNCTION_MAX_SHARED, (int)k->phases[f].shared_bytes);
    if (r != CU_OK) return sn_cuda_error(d, &c->api, r, k->name, "asking for shared memory");
  }
  return SN_OK;
}

sn_status sn_cuda_load_modules(sn_diag *d, cuda_state *c) {
  const sn_program *p = c->program;
  c->kernels = sn_alloc_zero(p->n_kernels + 1u, sizeof *c->kernels);
  if (!c->kernels) return sn_out_of_memory(d, p->n_kernels * sizeof *c->kernels);
  for (uint32_t k = 0; k < p->n_kernels; k++) {
    if (p->kernels[k].n_phases == 0) continue;
    SN_TRY(load_module(d, c, k, &c->kernels[k].module));
    SN_TRY(find_functions(d, c, &p->kernels[k], &c->kernels[k]));
  }
  return SN_OK;
}

/* ---- memory: one piece, laid out once ---- */

static size_t place(size_t *at, int64_t bytes) {
  size_t here = *at;
  *at = (here + (size_t)(bytes > 0 ? bytes : 0) + ALIGN - 1) / ALIGN * ALIGN;
  return here;
}

static int64_t most_tickets(const sn_program *p) {
  int64_t most = 0;
  for (uint32_t k = 0; k < p->n_kernels; k++) {
    for (int f = 0; f < p->kernels[k].n_phases; f++) most = p->kernels[k].phases[f].n_tickets > most ? p->kernels[k].phases[f].n_tickets : most;
  }
  return most;
}

/* Offsets first, as addresses from 0. */
static size_t lay_out(cuda_state *c) {
  const sn_program *p = c->program;
  cu_address *base = c->bases;
  size_t at = 0;
  *base++ = place(&at, p->arena_bytes);
  for (uint32_t i = 0; i < p->n_constants; i++) *base++ = place(&at, p->constant_bytes[i]);
  for (uint32_t i = 0; i < p->n_arguments; i++) *base++ = place(&at, sn_shape_bytes(p->arguments[i].shape));
  const cu_address *arguments = base - p->n_arguments;
  for (uint32_t i = 0; i < p->n_results; i++) {
    int64_t alias = p->results[i].alias_of;
    *base++ = alias >= 0 ? arguments[alias] : place(&at, sn_shape_bytes(p->results[i].shape));
  }
  c->scratch = place(&at, p->scratch_bytes);
  c->tickets = place(&at, c->n_tickets * (int64_t)sizeof(uint32_t));
  return at;
}

static sn_status no_room(sn_diag *d, cuda_state *c) {
  const sn_program *p = c->program;
  size_t free = 0, total = 0;
  int64_t arguments = 0, results = 0;
  for (uint32_t i = 0; i < p->n_arguments; i++) arguments += sn_shape_bytes(p->arguments[i].shape);
  for (uint32_t i = 0; i < p->n_results; i++) results += p->results[i].alias_of < 0 ? sn_shape_bytes(p->results[i].shape) : 0;
  if (c->api.memory_info(&free, &total) != CU_OK) free = total = 0;
  sn_error(d, (sn_loc){sn_program_name(p), 0, 0}, SN_ERR_MEMORY, "the device (%s) has %zu of %zu bytes free, the program needs %zu", c->device_name, free, total, c->memory_bytes);
  sn_hint(d, "arguments %lld, results %lld, temporaries %lld, scratch %lld bytes; sinter-compile --memory shows who needs them", (long long)arguments, (long long)results,
          (long long)p->arena_bytes, (long long)p->scratch_bytes);
  return SN_ERR_MEMORY;
}

/* Room on the host for the buffers of the largest command that only the host can run. */
static sn_status make_staging(sn_diag *d, cuda_state *c, size_t most_slices) {
  const sn_program *p = c->program;
  size_t most = 0;
  for (uint32_t i = 0; i < p->n_commands; i++) {
    size_t at = 0;
    if (!sn_cuda_is_foreign(&p->commands[i])) continue;
    for (uint32_t k = 0; k < p->commands[i].n_slices; k++) place(&at, p->commands[i].slices[k].bytes);
    most = at > most ? at : most;
  }
  if (most == 0) return SN_OK;
  void *at = NULL;
  c->staged = sn_alloc_zero(most_slices + 1, sizeof *c->staged);
  if (!c->staged) return sn_out_of_memory(d, most_slices * sizeof *c->staged);
  cu_result r = c->api.alloc_host(&at, most, 0);
  c->staging = at;
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, NULL, "allocating pinned memory");
}

sn_status sn_cuda_make_memory(sn_diag *d, cuda_state *c) {
  const sn_program *p = c->program;
  size_t n_bases = 1 + (size_t)p->n_constants + p->n_arguments + p->n_results, most = 0;
  for (uint32_t i = 0; i < p->n_commands; i++) most = p->commands[i].n_slices > most ? p->commands[i].n_slices : most;
  c->bases = sn_alloc_zero(n_bases, sizeof *c->bases);
  c->buffers = sn_alloc_zero(most + 3, sizeof *c->buffers);
  c->pointers = sn_alloc_zero(most + 3, sizeof *c->pointers);
  if (!c->bases || !c->buffers || !c->pointers) return sn_out_of_memory(d, n_bases * sizeof *c->bases);
  SN_TRY(make_staging(d, c, most));
  c->n_tickets = most_tickets(p);
  c->memory_bytes = lay_out(c);
  cu_result r = c->api.alloc(&c->memory, c->memory_bytes ? c->memory_bytes : ALIGN);
  if (r == CU_OUT_OF_MEMORY) return no_room(d, c);
  if (r != CU_OK) return sn_cuda_error(d, &c->api, r, NULL, "allocating device memory");
  for (size_t i = 0; i < n_bases; i++) c->bases[i] += c->memory;
  c->scratch += c->memory;
  c->tickets += c->memory;
  if (c->n_tickets) r = c->api.fill32(c->tickets, 0, (size_t)c->n_tickets, c->stream); /* every launch leaves them so */
  if (r != CU_OK) return sn_cuda_error(d, &c->api, r, NULL, "clearing device memory");
  for (uint32_t i = 0; i < p->n_constants; i++) {
    if (p->constant_bytes[i] == 0) continue;
    r = c->api.to_device(c->bases[1 + i], p->constants[i], (size_t)p->constant_bytes[i], c->stream);
    if (r != CU_OK) return sn_cuda_error(d, &c->api, r, NULL, "copying constants to the device");
  }
  r = c->api.stream_wait(c->stream);
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, NULL, "copying constants to the device");
}
