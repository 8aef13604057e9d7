/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Memory, copies, streams, events, graphs. A stream's work is done at once, unless the stream is being captured. */
#include "driver.h"

#include <stdlib.h>

#define PUBLIC SN_API cu_result

/* ---- doing it ---- */

static cu_result fault(cu_result code, const char *text) {
  emu_the_driver.sticky = code;
  snprintf(emu_the_driver.fault, sizeof emu_the_driver.fault, "%s", text);
  fprintf(stderr, "emulator: %s\n", text);
  return CU_OK; /* it shows later */
}

static cu_result run_kernel(const emu_work *w) {
  const emu_settings *s = emu_settings_get();
  emu_fault f = {0, ""};
  emu_launch l = {w->function, {w->grid[0], w->grid[1], w->grid[2]}, {w->block[0], w->block[1], w->block[2]}, w->shared, w->params, s->threads, s->hang_instructions};
  uint64_t n = ++emu_the_driver.n_launches;
  if (emu_fault_is_due("kernel", n)) return fault(EMU_OUT_OF_RESOURCES - 1, "a fault was asked for (SINTER_EMU_FAULT=kernel)");
  if (emu_fault_is_due("lost", n)) return fault(EMU_DEVICE_LOST, "the device is lost (SINTER_EMU_FAULT=lost)");
  if (!emu_execute(&l, &w->function->counters, &f)) return fault(f.code, f.text);
  return CU_OK;
}

static uint8_t *place(uint64_t at, uint64_t bytes, bool host) { return host ? (uint8_t *)(uintptr_t)at : emu_memory_at(at, bytes); }

static cu_result run_copy(const emu_work *w) {
  uint8_t *to = place(w->to, w->n, w->to_host), *from = place(w->from, w->n, w->from_host), *shadow;
  if (w->n == 0) return CU_OK;
  if (!to || !from) return EMU_INVALID_VALUE;
  memmove(to, from, w->n);
  if (!w->to_host && (shadow = emu_memory_shadow(to))) {
    if (w->from_host) memset(shadow, 1, w->n);
    else memmove(shadow, emu_memory_shadow(from), w->n);
  }
  return CU_OK;
}

static cu_result run_fill(const emu_work *w) {
  uint64_t bytes = w->n * w->pattern_bytes;
  uint8_t *to = emu_memory_at(w->to, bytes);
  if (bytes == 0) return CU_OK;
  if (!to || w->to % w->pattern_bytes) return EMU_INVALID_VALUE;
  for (uint64_t k = 0; k < w->n; k++) memcpy(to + k * w->pattern_bytes, &w->pattern, w->pattern_bytes);
  if (emu_memory_shadow(to)) memset(emu_memory_shadow(to), 1, bytes);
  return CU_OK;
}

cu_result emu_run_work(const emu_work *w) {
  if (emu_the_driver.sticky) return emu_the_driver.sticky;
  if (w->kind == EMU_WORK_HOST) return w->host(w->params) ? CU_OK : fault(EMU_ILLEGAL_ADDRESS, "a library's call reaches outside allocations");
  return w->kind == EMU_WORK_KERNEL ? run_kernel(w) : w->kind == EMU_WORK_COPY ? run_copy(w) : run_fill(w);
}

void emu_work_finish(emu_work *w) { sn_free(w->params); }

bool emu_work_copy(emu_work *to, const emu_work *from) {
  *to = *from;
  if (!from->params) return true;
  size_t bytes = from->function ? from->function->param_bytes + 8u : from->param_bytes;
  to->params = sn_alloc(bytes);
  if (to->params) memcpy(to->params, from->params, bytes);
  return to->params != NULL;
}

cu_result emu_enqueue(cu_stream stream, const emu_work *w) {
  emu_graph *g = stream ? stream->capture : NULL;
  if (!g) return emu_run_work(w);
  if (w->kind == EMU_WORK_COPY && (w->to_host || w->from_host)) return EMU_CAPTURE_UNSUPPORTED; /* of pageable memory, as ours is */
  if (g->n == g->cap) {
    uint32_t cap = g->cap ? 2 * g->cap : 64;
    emu_work *more = sn_realloc(g->work, cap * sizeof *more);
    if (!more) return CU_OUT_OF_MEMORY;
    g->work = more;
    g->cap = cap;
  }
  if (!emu_work_copy(&g->work[g->n], w)) return CU_OUT_OF_MEMORY;
  g->n++;
  return CU_OK;
}

static cu_result enqueue(cu_stream stream, const emu_work *w) {
  emu_lock();
  cu_result r = emu_usable();
  if (r == CU_OK) r = emu_enqueue(stream, w);
  emu_unlock();
  return r;
}

SN_API cu_result sn_emu_enqueue(cu_stream stream, bool (*run)(const void *params), const void *params, size_t bytes) {
  emu_work w = {.kind = EMU_WORK_HOST, .host = run, .params = sn_alloc(bytes), .param_bytes = bytes};
  if (!w.params) return CU_OUT_OF_MEMORY;
  memcpy(w.params, params, bytes);
  cu_result r = enqueue(stream, &w);
  sn_free(w.params);
  return r;
}

SN_API uint8_t *sn_emu_memory(uint64_t at, uint64_t bytes, bool writes) {
  uint8_t *host = emu_memory_at(at, bytes), *shadow = host && writes ? emu_memory_shadow(host) : NULL;
  if (shadow) memset(shadow, 1, bytes);
  return host;
}

/* ---- memory ---- */

PUBLIC cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
  uint64_t f, t;
  emu_lock();
  emu_memory_info(&f, &t);
  emu_unlock();
  *free_bytes = (size_t)f;
  *total = (size_t)t;
  return emu_usable();
}

PUBLIC cuMemAlloc_v2(cu_address *out, size_t bytes) {
  *out = 0;
  emu_lock();
  cu_result r = emu_usable();
  if (r == CU_OK && bytes == 0) r = EMU_INVALID_VALUE;
  if (r == CU_OK && (emu_fault_is_due("alloc", ++emu_the_driver.n_allocs) || !(*out = emu_memory_alloc(bytes)))) r = CU_OUT_OF_MEMORY;
  emu_unlock();
  return r;
}

PUBLIC cuMemFree_v2(cu_address at) {
  emu_lock();
  cu_result r = emu_usable();
  if (at && !emu_memory_free(at) && r == CU_OK) r = EMU_INVALID_VALUE;
  emu_unlock();
  return r;
}

PUBLIC cuMemAllocAsync(cu_address *out, size_t bytes, cu_stream stream) { return (void)stream, cuMemAlloc_v2(out, bytes); }
PUBLIC cuMemFreeAsync(cu_address at, cu_stream stream) { return (void)stream, cuMemFree_v2(at); }

PUBLIC cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
  (void)flags;
  *out = bytes ? sn_alloc_aligned(4096, bytes) : NULL;
  return *out ? emu_usable() : CU_OUT_OF_MEMORY;
}

PUBLIC cuMemFreeHost(void *at) {
  sn_free_aligned(at);
  return emu_usable();
}

PUBLIC cuMemcpyHtoDAsync_v2(cu_address to, const void *from, size_t bytes, cu_stream stream) {
  return enqueue(stream, &(emu_work){.kind = EMU_WORK_COPY, .to = to, .from = (uint64_t)(uintptr_t)from, .n = bytes, .from_host = true});
}
PUBLIC cuMemcpyDtoHAsync_v2(void *to, cu_address from, size_t bytes, cu_stream stream) {
  return enqueue(stream, &(emu_work){.kind = EMU_WORK_COPY, .to = (uint64_t)(uintptr_t)to, .from = from, .n = bytes, .to_host = true});
}
PUBLIC cuMemcpyDtoDAsync_v2(cu_address to, cu_address from, size_t bytes, cu_stream stream) {
  return enqueue(stream, &(emu_work){.kind = EMU_WORK_COPY, .to = to, .from = from, .n = bytes});
}
PUBLIC cuMemcpyHtoD_v2(cu_address to, const void *from, size_t bytes) { return cuMemcpyHtoDAsync_v2(to, from, bytes, NULL); }
PUBLIC cuMemcpyDtoH_v2(void *to, cu_address from, size_t bytes) { return cuMemcpyDtoHAsync_v2(to, from, bytes, NULL); }
PUBLIC cuMemsetD8Async(cu_address to, unsigned char value, size_t n, cu_stream stream) {
  return enqueue(stream, &(emu_work){.kind = EMU_WORK_FILL, .to = to, .n = n, .pattern = value, .pattern_bytes = 1});
}
PUBLIC cuMemsetD16Async(cu_address to, unsigned short value, size_t n, cu_stream stream) {
  return enqueue(stream, &(emu_work){.kind = EMU_WORK_FILL, .to = to, .n = n, .pattern = value, .pattern_bytes = 2});
}
PUBLIC cuMemsetD32Async(cu_address to, unsigned value, size_t n, cu_stream stream) {
  return enqueue(stream, &(emu_work){.kind = EMU_WORK_FILL, .to = to, .n = n, .pattern = value, .pattern_bytes = 4});
}

/* ---- streams ---- */

PUBLIC cuStreamCreate(cu_stream *out, unsigned flags) {
  (void)flags;
  *out = NULL;
  cu_result r = emu_usable();
  if (r != CU_OK) return r;
  *out = sn_alloc_zero(1, sizeof **out);
  return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

static void graph_finish(emu_graph *g) {
  if (!g) return;
  for (uint32_t k = 0; k < g->n; k++) emu_work_finish(&g->work[k]);
  sn_free(g->work);
  sn_free(g);
}

PUBLIC cuStreamDestroy_v2(cu_stream stream) {
  if (!stream) return EMU_INVALID_HANDLE;
  graph_finish(stream->capture);
  sn_free(stream);
  return emu_usable();
}

PUBLIC cuStreamSynchronize(cu_stream stream) { return stream && stream->capture ? EMU_CAPTURE_UNSUPPORTED : emu_usable(); }
PUBLIC cuStreamQuery(cu_stream stream) { return cuStreamSynchronize(stream); }
PUBLIC cuStreamWaitEvent(cu_stream stream, cu_event event, unsigned flags) { return (void)stream, (void)flags, event ? emu_usable() : EMU_INVALID_HANDLE; }

PUBLIC cuStreamBeginCapture_v2(cu_stream stream, int mode) {
  cu_result r = emu_usable();
  if (r != CU_OK) return r;
  if (emu_fault_is_due("capture", 1)) return EMU_NOT_SUPPORTED;
  if (!stream || stream->capture || mode < 0 || mode > 2) return EMU_INVALID_VALUE;
  stream->capture = sn_alloc_zero(1, sizeof *stream->capture);
  return stream->capture ? CU_OK : CU_OUT_OF_MEMORY;
}

PUBLIC cuStreamEndCapture(cu_stream stream, cu_graph *out) {
  *out = NULL;
  if (!stream || !stream->capture) return EMU_INVALID_VALUE;
  *out = stream->capture;
  stream->capture = NULL;
  return emu_usable();
}

/* ---- graphs ---- */

PUBLIC cuGraphExecDestroy(cu_graph_exec graph) {
  if (!graph) return EMU_INVALID_HANDLE;
  for (uint32_t k = 0; k < graph->n; k++) emu_work_finish(&graph->work[k]);
  sn_free(graph->work);
  sn_free(graph);
  return emu_usable();
}

PUBLIC cuGraphInstantiateWithFlags(cu_graph_exec *out, cu_graph graph, unsigned long long flags) {
  (void)flags;
  *out = NULL;
  if (!graph) return EMU_INVALID_HANDLE;
  emu_graph_exec *e = sn_alloc_zero(1, sizeof *e);
  if (!e || !(e->work = sn_alloc_zero(graph->n + 1u, sizeof *e->work))) {
    sn_free(e);
    return CU_OUT_OF_MEMORY;
  }
  for (; e->n < graph->n; e->n++) {
    if (emu_work_copy(&e->work[e->n], &graph->work[e->n])) continue;
    cuGraphExecDestroy(e);
    return CU_OUT_OF_MEMORY;
  }
  *out = e;
  return emu_usable();
}

PUBLIC cuGraphLaunch(cu_graph_exec graph, cu_stream stream) {
  (void)stream;
  if (!graph) return EMU_INVALID_HANDLE;
  emu_lock();
  cu_result r = emu_usable();
  for (uint32_t k = 0; r == CU_OK && k < graph->n && !emu_the_driver.sticky; k++) r = emu_run_work(&graph->work[k]);
  emu_unlock();
  return r;
}

PUBLIC cuGraphDestroy(cu_graph graph) {
  if (!graph) return EMU_INVALID_HANDLE;
  graph_finish(graph);
  return emu_usable();
}

/* ---- events ---- */

PUBLIC cuEventCreate(cu_event *out, unsigned flags) {
  (void)flags;
  *out = NULL;
  cu_result r = emu_usable();
  if (r != CU_OK) return r;
  *out = sn_alloc_zero(1, sizeof **out);
  return *out ? CU_OK : CU_OUT_OF_MEMORY;
}

PUBLIC cuEventRecord(cu_event event, cu_stream stream) {
  (void)stream;
  if (!event) return EMU_INVALID_HANDLE;
  event->at = sn_time();
  event->recorded = true;
  return emu_usable();
}

PUBLIC cuEventSynchronize(cu_event event) { return event ? emu_usable() : EMU_INVALID_HANDLE; }
PUBLIC cuEventQuery(cu_event event) { return event ? emu_usable() : EMU_INVALID_HANDLE; }

PUBLIC cuEventElapsedTime(float *milliseconds, cu_event from, cu_event to) {
  if (!from || !to || !from->recorded || !to->recorded) return EMU_INVALID_HANDLE;
  *milliseconds = (float)((to->at - from->at) * 1e3);
  return emu_usable();
}

PUBLIC cuEventDestroy_v2(cu_event event) {
  if (!event) return EMU_INVALID_HANDLE;
  sn_free(event);
  return emu_usable();
}
