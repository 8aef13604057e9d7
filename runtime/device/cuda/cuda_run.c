/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One run. Commands go to one stream in order. The first run of a program in which the host decides nothing is recorded as a graph while it is made; later runs launch
 * that: the addresses never change. */
#include "cuda.h"

#include <string.h>

static uint32_t base_of(const sn_program *p, const sn_slice *s) {
  switch (s->kind) {
    case SN_ALLOCATION_ARENA: return 0;
    case SN_ALLOCATION_CONSTANT: return 1 + s->index;
    case SN_ALLOCATION_ARGUMENT: return 1 + p->n_constants + s->index;
    case SN_ALLOCATION_RESULT: return 1 + p->n_constants + p->n_arguments + s->index;
  }
  return 0;
}

static cu_address address(const cuda_state *c, const sn_slice *s) { return c->bases[base_of(c->program, s)] + (cu_address)s->offset; }

/* ---- commands ---- */

static sn_status run_kernel(sn_diag *d, cuda_state *c, const sn_command *m) {
  const sn_program_kernel *k = &c->program->kernels[m->kernel];
  for (uint32_t i = 0; i < m->n_slices; i++) {
    c->buffers[i] = address(c, &m->slices[i]);
    c->pointers[i] = &c->buffers[i];
  }
  if (m->kind == SN_COMMAND_LIBRARY && c->products && c->products[m - c->program->commands]) return sn_cuda_run_library(d, c, m, c->buffers);
  c->buffers[m->n_slices] = c->scratch;
  c->buffers[m->n_slices + 1] = c->tickets;
  for (int f = 0; f < k->n_phases; f++) {
    const sn_program_phase *p = &k->phases[f];
    if (p->n_items == 0) continue;
    int more = k->n_buffers;
    if (p->takes_scratch) c->pointers[more++] = &c->buffers[m->n_slices];
    if (p->n_tickets) c->pointers[more] = &c->buffers[m->n_slices + 1];
    cu_result r = c->api.launch(c->kernels[m->kernel].functions[f], (unsigned)p->blocks, 1, 1, p->threads, 1, 1, (unsigned)p->shared_bytes, c->stream, c->pointers, NULL);
    if (r != CU_OK) return sn_cuda_error(d, &c->api, r, m->name, "launching a kernel");
  }
  return SN_OK;
}

static sn_status run_copy(sn_diag *d, cuda_state *c, const sn_command *m) {
  if (m->slices[0].bytes == 0) return SN_OK;
  cu_result r = c->api.on_device(address(c, &m->slices[0]), address(c, &m->slices[1]), (size_t)m->slices[0].bytes, c->stream);
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, m->name, "copying");
}

static sn_status run_fill(sn_diag *d, cuda_state *c, const sn_command *m) {
  cu_address to = address(c, &m->slices[0]);
  size_t n = (size_t)m->slices[0].bytes / m->pattern_bytes;
  uint32_t low = (uint32_t)m->pattern, high = (uint32_t)(m->pattern >> 32);
  cu_result r;
  if (n == 0) return SN_OK;
  if (m->pattern_bytes == 1) r = c->api.fill8(to, (unsigned char)low, n, c->stream);
  else if (m->pattern_bytes == 2) r = c->api.fill16(to, (unsigned short)low, n, c->stream);
  else if (m->pattern_bytes == 4 || low == high) r = c->api.fill32(to, low, n * (m->pattern_bytes / 4), c->stream);
  else return sn_error(d, (sn_loc){m->name, 0, 0}, SN_ERR_UNSUPPORTED, "a fill of eight different bytes has no device code");
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, m->name, "filling");
}

/* ---- what the host must see ---- */

static sn_status read_back(sn_diag *d, cuda_state *c, const sn_command *m, void *to, size_t bytes) {
  cu_result r = c->api.to_host(to, address(c, &m->slices[0]), bytes, c->stream);
  if (r == CU_OK) r = c->api.stream_wait(c->stream);
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, m->name, "the kernels up to here failed");
}

static sn_status run_range(sn_diag *d, cuda_state *c, uint32_t first, uint32_t n);

static sn_status run_while(sn_diag *d, cuda_state *c, const sn_command *m) {
  for (;;) {
    uint8_t again = 0;
    SN_TRY(run_range(d, c, m->ranges[0].first, m->ranges[0].n));
    SN_TRY(read_back(d, c, m, &again, 1));
    if (!again) return SN_OK;
    SN_TRY(run_range(d, c, m->ranges[1].first, m->ranges[1].n));
  }
}

static sn_status run_conditional(sn_diag *d, cuda_state *c, const sn_command *m) {
  int32_t index = 0;
  uint8_t pred = 0;
  if (m->index_is_pred) {
    SN_TRY(read_back(d, c, m, &pred, 1));
    index = pred ? 0 : 1;
  } else {
    SN_TRY(read_back(d, c, m, &index, sizeof index));
  }
  if (index < 0 || index >= (int32_t)m->n_ranges) index = (int32_t)m->n_ranges - 1; /* HLO: the last branch */
  return run_range(d, c, m->ranges[index].first, m->ranges[index].n);
}

/* ---- what only the host can run ---- */

bool sn_cuda_is_foreign(const sn_command *m) { return m->kind == SN_COMMAND_CUSTOM_CALL || m->kind == SN_COMMAND_INTERPRET; }

static sn_status run_foreign(sn_diag *d, cuda_state *c, const sn_command *m) {
  sn_loc loc = {m->name, 0, 0};
  size_t at = 0;
  cu_result r = CU_OK;
  if (!c->options.custom_call) {
    if (m->kind == SN_COMMAND_INTERPRET) return sn_error(d, loc, SN_ERR_UNSUPPORTED, "the instruction has no code, and nothing here interprets it");
    return sn_error(d, loc, SN_ERR_UNSUPPORTED, "nothing here runs the call to %s", m->target ? m->target : "an unnamed target");
  }
  for (uint32_t k = 0; k < m->n_slices && r == CU_OK; k++) {
    size_t bytes = (size_t)m->slices[k].bytes;
    c->staged[k] = c->staging + at;
    at += (bytes + 255) / 256 * 256;
    if (bytes) r = c->api.to_host(c->staged[k], address(c, &m->slices[k]), bytes, c->stream);
  }
  if (r == CU_OK) r = c->api.stream_wait(c->stream);
  if (r != CU_OK) return sn_cuda_error(d, &c->api, r, m->name, "the kernels up to here failed");
  SN_TRY(c->options.custom_call(c->options.custom_call_ctx, d, m, c->staged));
  for (uint32_t k = 0; k < m->n_slices && r == CU_OK; k++) { /* operands too: which are results is the callee's to know */
    if (m->slices[k].bytes && m->slices[k].kind != SN_ALLOCATION_CONSTANT) r = c->api.to_device(address(c, &m->slices[k]), c->staged[k], (size_t)m->slices[k].bytes, c->stream);
  }
  if (r == CU_OK) r = c->api.stream_wait(c->stream); /* the next such command uses the same memory */
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, m->name, "copying what the host computed");
}

static sn_status run_command(sn_diag *d, cuda_state *c, const sn_command *m) {
  switch (m->kind) {
    case SN_COMMAND_LIBRARY:
    case SN_COMMAND_KERNEL: return run_kernel(d, c, m);
    case SN_COMMAND_COPY: return run_copy(d, c, m);
    case SN_COMMAND_FILL: return run_fill(d, c, m);
    case SN_COMMAND_WHILE: return run_while(d, c, m);
    case SN_COMMAND_CONDITIONAL: return run_conditional(d, c, m);
    case SN_COMMAND_CUSTOM_CALL:
    case SN_COMMAND_INTERPRET: return run_foreign(d, c, m);
    default: return sn_error(d, (sn_loc){m->name, 0, 0}, SN_ERR_UNSUPPORTED, "nothing here runs the call to %s on a CUDA device", m->target ? m->target : "an unnamed target");
  }
}

/* Each command waited for: faults are then its own, and so is its time. */
static sn_status run_and_wait(sn_diag *d, cuda_state *c, uint32_t i) {
  const sn_command *m = &c->program->commands[i];
  float milliseconds = 0;
  cu_result r = c->api.event_record(c->events[0], c->stream);
  SN_TRY(run_command(d, c, m));
  if (r == CU_OK) r = c->api.event_record(c->events[1], c->stream);
  if (r == CU_OK) r = c->api.stream_wait(c->stream);
  if (r != CU_OK) return sn_cuda_error(d, &c->api, r, m->name, "the kernel failed");
  if (c->options.on_command && c->api.event_elapsed(&milliseconds, c->events[0], c->events[1]) == CU_OK) {
    c->options.on_command(c->options.on_command_ctx, i, m, (double)milliseconds * 1e-3);
  }
  return SN_OK;
}

/* Nesting is bounded by the program's reader. */
static sn_status run_range(sn_diag *d, cuda_state *c, uint32_t first, uint32_t n) {
  const sn_program *p = c->program;
  for (uint32_t i = first; i < first + n;) {
    const sn_command *m = &p->commands[i];
    if (SN_UNLIKELY(atomic_load_explicit(&c->cancelled, memory_order_relaxed))) return sn_error(d, (sn_loc){m->name, 0, 0}, SN_ERR_CANCELLED, "the run was cancelled");
    SN_TRY(c->waits && !m->n_ranges ? run_and_wait(d, c, i) : run_command(d, c, m));
    i = m->n_ranges ? m->ranges[m->n_ranges - 1].first + m->ranges[m->n_ranges - 1].n : i + 1;
  }
  return SN_OK;
}

/* ---- the graph ---- */

/* Recording launches nothing. A driver that cannot record leaves c->graph NULL: then commands are launched one by one. */
static sn_status record(sn_diag *d, cuda_state *c) {
  cu_graph graph = NULL;
  if (c->api.capture_begin(c->stream, CU_CAPTURE_RELAXED) != CU_OK) return SN_OK;
  sn_status s = run_range(d, c, 0, c->program->n_commands);
  cu_result r = c->api.capture_end(c->stream, &graph);
  if (s == SN_OK && r == CU_OK) r = c->api.graph_instantiate(&c->graph, graph, 0);
  if (r != CU_OK) c->graph = NULL;
  if (graph) c->api.graph_destroy(graph);
  return s;
}

static sn_status run_commands(sn_diag *d, cuda_state *c) {
  bool whole = !c->control && !c->waits && c->program->n_commands > 0;
  if (whole && !c->graph) SN_TRY(record(d, c));
  if (!whole || !c->graph) return run_range(d, c, 0, c->program->n_commands);
  cu_result r = c->api.graph_launch(c->graph, c->stream);
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, NULL, "launching the step");
}

/* ---- arguments and results ---- */

static sn_status copy_in(sn_diag *d, cuda_state *c, void *const *arguments) {
  const sn_program *p = c->program;
  for (uint32_t i = 0; i < p->n_arguments; i++) {
    int64_t bytes = sn_shape_bytes(p->arguments[i].shape);
    cu_result r = bytes > 0 ? c->api.to_device(c->bases[1 + p->n_constants + i], arguments[i], (size_t)bytes, c->stream) : CU_OK;
    if (r != CU_OK) return sn_cuda_error(d, &c->api, r, p->arguments[i].name, "copying an argument to the device");
  }
  return SN_OK;
}

static sn_status copy_out(sn_diag *d, cuda_state *c, void *const *results) {
  const sn_program *p = c->program;
  cu_result r = CU_OK;
  for (uint32_t i = 0; i < p->n_results && r == CU_OK; i++) {
    int64_t bytes = sn_shape_bytes(p->results[i].shape);
    if (bytes > 0) r = c->api.to_host(results[i], c->bases[1 + p->n_constants + p->n_arguments + i], (size_t)bytes, c->stream);
  }
  if (r == CU_OK) r = c->api.stream_wait(c->stream);
  if (r == CU_OK) return SN_OK;
  sn_status s = sn_cuda_error(d, &c->api, r, sn_program_name(p), "the run failed");
  if (!c->waits) sn_hint(d, "with SINTER_CUDA_SYNC=1 each kernel is waited for, and the message names the instruction");
  return s;
}

sn_status sn_cuda_run(sn_diag *d, cuda_state *c, void *const *arguments, void *const *results) {
  sn_status s = copy_in(d, c, arguments);
  if (s == SN_OK) s = run_commands(d, c);
  if (s == SN_OK) s = copy_out(d, c, results);
  else c->api.stream_wait(c->stream); /* the caller's memory must not be read any more */
  atomic_store_explicit(&c->cancelled, false, memory_order_relaxed);
  return s;
}
