/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The CUDA row of the driver table: a program's state on the device, from its creation to its end. */
#include "cuda.h"

#include "sinter/device.h"

#include <stdlib.h>
#include <string.h>

static sn_status cuda_check(sn_diag *d) {
  cuda_api api;
  SN_TRY(sn_cuda_api_open(d, &api));
  sn_cuda_api_close(&api);
  return SN_OK;
}

static sn_status open_device(sn_diag *d, cuda_state *c) {
  cu_result r = c->api.device_get(&c->device, c->options.device);
  if (r == CU_OK) r = c->api.device_name(c->device_name, sizeof c->device_name, c->device);
  if (r == CU_OK) r = c->api.device_attribute(&c->major, CU_ATTRIBUTE_MAJOR, c->device);
  if (r == CU_OK) r = c->api.device_attribute(&c->minor, CU_ATTRIBUTE_MINOR, c->device);
  if (r == CU_OK) r = c->api.primary_retain(&c->context, c->device);
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, NULL, "opening the device");
}

/* The newest of the compiler's targets that the device runs. */
static sn_status cuda_target(sn_diag *d, int ordinal, char *to, size_t bytes) {
  cuda_api api;
  cu_device device;
  int major = 0, minor = 0;
  SN_TRY(sn_cuda_api_open(d, &api));
  cu_result r = api.device_get(&device, ordinal);
  if (r == CU_OK) r = api.device_attribute(&major, CU_ATTRIBUTE_MAJOR, device);
  if (r == CU_OK) r = api.device_attribute(&minor, CU_ATTRIBUTE_MINOR, device);
  sn_status s = r == CU_OK ? SN_OK : sn_cuda_error(d, &api, r, NULL, "asking the device what it is");
  if (s == SN_OK && major < 8) {
    s = sn_error(d, SN_NOWHERE, SN_ERR_UNAVAILABLE, "the device is sm_%d%d; sm_80 or later is needed", major, minor);
  } else if (s == SN_OK) {
    snprintf(to, bytes, "%s", major == 9 ? "sm_90a" : major == 8 && minor < 9 ? "sm_80" : "sm_89"); /* later ones compile sm_89's PTX */
  }
  sn_cuda_api_close(&api);
  return s;
}

static sn_status make(sn_diag *d, cuda_state *c) {
  cu_result r = c->api.stream_create(&c->stream, CU_STREAM_NON_BLOCKING);
  for (int i = 0; i < 2 && r == CU_OK; i++) r = c->api.event_create(&c->events[i], 0);
  if (r != CU_OK) return sn_cuda_error(d, &c->api, r, NULL, "making a stream");
  SN_TRY(sn_cuda_load_modules(d, c));
  SN_TRY(sn_cuda_open_library(d, c));
  return sn_cuda_make_memory(d, c);
}

/* The device's context is current while we work, and the caller's again afterwards. */
static sn_status enter(sn_diag *d, cuda_state *c) {
  cu_result r = c->api.context_push(c->context);
  return r == CU_OK ? SN_OK : sn_cuda_error(d, &c->api, r, NULL, "entering the device's context");
}

static void leave(cuda_state *c) {
  cu_context was;
  c->api.context_pop(&was);
}

static bool needs_host(const sn_program *p) {
  for (uint32_t i = 0; i < p->n_commands; i++) {
    sn_command_kind k = p->commands[i].kind;
    if (k != SN_COMMAND_KERNEL && k != SN_COMMAND_LIBRARY && k != SN_COMMAND_COPY && k != SN_COMMAND_FILL) return true;
  }
  return false;
}

static void release_device_objects(cuda_state *c) {
  const sn_program *p = c->program;
  if (c->graph) c->api.graph_exec_destroy(c->graph);
  if (c->memory) c->api.free(c->memory);
  if (c->staging) c->api.free_host(c->staging);
  for (uint32_t k = 0; c->kernels && k < p->n_kernels; k++) {
    if (c->kernels[k].module) c->api.module_unload(c->kernels[k].module);
  }
  for (int i = 0; i < 2; i++) {
    if (c->events[i]) c->api.event_destroy(c->events[i]);
  }
  if (c->stream) c->api.stream_destroy(c->stream);
}

/* Errors are of no interest here: after a lost device every call fails, and the context's release clears it away. */
static void cuda_destroy(void *state) {
  cuda_state *c = state;
  if (!c) return;
  if (c->context && c->api.context_push(c->context) == CU_OK) {
    release_device_objects(c);
    leave(c);
  }
  sn_cuda_close_library(c);
  if (c->context) c->api.primary_release(c->device);
  for (uint32_t k = 0; c->kernels && k < c->program->n_kernels; k++) sn_free(c->kernels[k].functions);
  sn_free(c->kernels);
  sn_free(c->bases);
  sn_free(c->buffers);
  sn_free(c->pointers);
  sn_free(c->staged);
  sn_cuda_api_close(&c->api);
  sn_free(c);
}

static sn_status cuda_create(sn_diag *d, const sn_program *p, const sn_context_options *o, void **out) {
  *out = NULL;
  cuda_state *c = sn_alloc_zero(1, sizeof *c);
  if (!c) return sn_out_of_memory(d, sizeof *c);
  c->program = p;
  c->options = *o;
  c->control = needs_host(p);
  int64_t waits = 0;
  sn_status s = sn_env_int(d, "SINTER_CUDA_SYNC", &waits);
  c->waits = o->on_command || waits;
  if (s == SN_OK) s = sn_cuda_api_open(d, &c->api);
  if (s != SN_OK) {
    sn_free(c);
    return s;
  }
  s = open_device(d, c);
  if (s == SN_OK) s = enter(d, c);
  if (s == SN_OK) {
    s = make(d, c);
    leave(c);
  }
  if (s != SN_OK) cuda_destroy(c);
  else *out = c;
  return s;
}

static sn_status cuda_run_entry(sn_diag *d, void *state, void *const *arguments, void *const *results) {
  cuda_state *c = state;
  SN_TRY(enter(d, c));
  sn_status s = sn_cuda_run(d, c, arguments, results);
  leave(c);
  return s;
}

static void cuda_cancel(void *state) { atomic_store(&((cuda_state *)state)->cancelled, true); }

const sn_driver sn_driver_cuda = {"cuda", "NVIDIA devices through libcuda.so.1", cuda_check, cuda_target, cuda_create, cuda_run_entry, cuda_cancel, cuda_destroy};
