/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Programs: made, read, written, shared. */
#include "program_internal.h"

#include <stdatomic.h>
#include <string.h>

static _Atomic int32_t *count_of(sn_program *p) { return (_Atomic int32_t *)&p->references; }

static void destroy(sn_program *p) {
  if (p->code) sn_code_free(p->code, p->code_bytes);
  if (p->image) sn_free_aligned(p->image);
  sn_file_map_close(&p->map);
  sn_arena_destroy(p->arena);
  sn_free(p);
}

sn_program *sn_program_retain(sn_program *p) {
  if (p) atomic_fetch_add_explicit(count_of(p), 1, memory_order_relaxed);
  return p;
}

void sn_program_release(sn_program *p) {
  if (p && atomic_fetch_sub_explicit(count_of(p), 1, memory_order_acq_rel) == 1) destroy(p);
}

/* Machine code is copied to pages of its own: the image stays readable data, and no page is writable and executable. */
static sn_status place_code(sn_diag *d, sn_program *p) {
  sn_image_header h;
  memcpy(&h, p->bytes, sizeof h);
  if (h.code_bytes == 0 || p->device) return SN_OK; /* a device's code is only data here */
  p->code = sn_code_alloc(h.code_bytes);
  if (!p->code) return sn_out_of_memory(d, h.code_bytes);
  memcpy(p->code, p->bytes + h.code_offset, h.code_bytes);
  return sn_code_seal(p->code, h.code_bytes);
}

static sn_status program_alloc(sn_diag *d, sn_program **out) {
  *out = NULL;
  sn_program *p = sn_alloc_zero(1, sizeof *p);
  if (!p || sn_arena_create(&p->arena) != SN_OK) {
    sn_free(p);
    return sn_out_of_memory(d, sizeof *p);
  }
  p->references = 1;
  *out = p;
  return SN_OK;
}

static sn_status open_image(sn_diag *d, const char *name, sn_program *p, bool to_run, sn_program **out) {
  sn_status s = sn_program_image_read(d, name, p);
  if (s == SN_OK && to_run) s = sn_program_check_isa(d, name, p);
  if (s == SN_OK) s = place_code(d, p);
  if (s != SN_OK) destroy(p);
  else *out = p;
  return s;
}

sn_status sn_program_build(sn_diag *d, const sn_program_spec *spec, sn_program **out) {
  *out = NULL;
  sn_program *p;
  uint8_t *image;
  size_t n;
  SN_TRY(sn_program_image_write(d, spec, &image, &n));
  sn_status s = program_alloc(d, &p);
  if (s != SN_OK) {
    sn_free_aligned(image);
    return s;
  }
  p->image = image;
  p->bytes = image;
  p->n_bytes = n;
  return open_image(d, spec->name, p, false, out); /* it may be for another processor */
}

sn_status sn_program_read(sn_diag *d, const char *path, sn_program **out) {
  *out = NULL;
  sn_program *p;
  SN_TRY(program_alloc(d, &p));
  sn_status s = sn_file_map_open(d, path, &p->map);
  if (s != SN_OK) {
    destroy(p);
    return s;
  }
  p->bytes = p->map.data;
  p->n_bytes = p->map.n_bytes;
  return open_image(d, path, p, true, out);
}

sn_status sn_program_read_memory(sn_diag *d, const char *name, const void *data, size_t n_bytes, sn_program **out) {
  *out = NULL;
  sn_program *p;
  SN_TRY(program_alloc(d, &p));
  p->image = sn_alloc_aligned(SN_PAGE, n_bytes + 1);
  if (!p->image) {
    destroy(p);
    return sn_out_of_memory(d, n_bytes);
  }
  if (n_bytes) memcpy(p->image, data, n_bytes);
  p->bytes = p->image;
  p->n_bytes = n_bytes;
  return open_image(d, name, p, true, out);
}

sn_status sn_program_write(sn_diag *d, const sn_program *p, const char *path) { return sn_file_write(d, path, p->bytes, p->n_bytes); }

bool sn_program_is(const void *data, size_t n_bytes) { return n_bytes >= 8 && memcmp(data, SN_IMAGE_MAGIC, 8) == 0; }

const void *sn_program_image(const sn_program *p, size_t *n_bytes) {
  *n_bytes = p->n_bytes;
  return p->bytes;
}

const char *sn_program_target(const sn_program *p) { return p->target; }

const void *sn_program_code(const sn_program *p, size_t *n_bytes) {
  *n_bytes = p->code ? p->code_bytes : 0;
  return p->code;
}

uint32_t sn_program_n_arguments(const sn_program *p) { return p->n_arguments; }
uint32_t sn_program_n_results(const sn_program *p) { return p->n_results; }
bool sn_program_result_is_tuple(const sn_program *p) { return p->result_is_tuple; }
const sn_program_leaf *sn_program_argument(const sn_program *p, uint32_t i) { return &p->arguments[i]; }
const sn_program_leaf *sn_program_result(const sn_program *p, uint32_t i) { return &p->results[i]; }
int64_t sn_program_arena_bytes(const sn_program *p) { return p->arena_bytes; }
uint32_t sn_program_n_commands(const sn_program *p) { return p->n_commands; }
uint32_t sn_program_n_kernels(const sn_program *p) { return p->n_kernels; }

bool sn_program_kernel_module(const sn_program *p, uint32_t kernel, sn_program_module *out) {
  sn_image_header h;
  memset(out, 0, sizeof *out);
  if (!p->device || kernel >= p->n_kernels) return false;
  const sn_program_kernel *k = &p->kernels[kernel];
  memcpy(&h, p->bytes, sizeof h);
  const uint8_t *code = p->bytes + h.code_offset;
  out->name = k->name;
  out->ptx = k->ptx_bytes ? (const char *)code + k->ptx_offset : NULL;
  out->cubin = code + k->cubin_offset;
  out->cubin_bytes = (size_t)k->cubin_bytes;
  return true;
}

const char *sn_program_device(const sn_program *p) { return p->device; }
const char *sn_program_name(const sn_program *p) { return p->name ? p->name : "program"; }
