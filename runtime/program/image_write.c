/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A program as one image. */
#include "program_internal.h"

#include <stddef.h>
#include <string.h>

static void put_u32(sn_str *s, uint32_t v) { sn_str_add_n(s, (const char *)&v, sizeof v); }
static void put_u64(sn_str *s, uint64_t v) { sn_str_add_n(s, (const char *)&v, sizeof v); }

static void put_text(sn_str *s, const char *t) {
  size_t n = t ? strlen(t) : 0;
  put_u32(s, t ? (uint32_t)n + 1 : 0); /* 0: absent */
  sn_str_add_n(s, t ? t : "", n);
}

static void put_shape(sn_str *s, const sn_shape *shape) {
  put_u32(s, (uint32_t)shape->type);
  put_u32(s, (uint32_t)shape->rank);
  for (int i = 0; i < shape->rank; i++) put_u64(s, (uint64_t)shape->dims[i]);
  bool order = shape->layout && !sn_layout_is_default(shape->layout);
  put_u32(s, order);
  for (int i = 0; order && i < shape->rank; i++) put_u32(s, (uint32_t)shape->layout->minor_to_major[i]);
}

static void put_leaf(sn_str *s, const sn_program_leaf *l) {
  put_text(s, l->name);
  put_shape(s, l->shape);
  put_u64(s, (uint64_t)l->donated_to);
  put_u64(s, (uint64_t)l->alias_of);
}

static void put_kernel(sn_str *s, const sn_program_kernel *k) {
  put_text(s, k->name);
  put_u32(s, (uint32_t)k->n_buffers);
  put_u64(s, (uint64_t)k->scratch_bytes);
  put_u64(s, (uint64_t)k->ptx_offset);
  put_u64(s, (uint64_t)k->ptx_bytes);
  put_u64(s, (uint64_t)k->cubin_offset);
  put_u64(s, (uint64_t)k->cubin_bytes);
  put_u32(s, (uint32_t)k->n_phases);
  for (int i = 0; i < k->n_phases; i++) {
    put_u64(s, (uint64_t)k->phases[i].code_offset);
    put_u64(s, (uint64_t)k->phases[i].n_items);
    put_u64(s, (uint64_t)k->phases[i].cost_ns);
    put_text(s, k->phases[i].entry);
    put_u32(s, k->phases[i].threads);
    put_u64(s, (uint64_t)k->phases[i].blocks);
    put_u64(s, (uint64_t)k->phases[i].shared_bytes);
    put_u32(s, k->phases[i].takes_scratch);
    put_u64(s, (uint64_t)k->phases[i].n_tickets);
  }
}

static void put_slice(sn_str *s, const sn_slice *x) {
  put_u32(s, (uint32_t)x->kind);
  put_u32(s, x->index);
  put_u64(s, (uint64_t)x->offset);
  put_u64(s, (uint64_t)x->bytes);
}

static void put_command(sn_str *s, const sn_command *c) {
  put_u32(s, (uint32_t)c->kind);
  put_text(s, c->name);
  put_u32(s, c->kernel);
  put_u32(s, c->n_slices);
  for (uint32_t i = 0; i < c->n_slices; i++) put_slice(s, &c->slices[i]);
  put_u64(s, c->pattern);
  put_u32(s, c->pattern_bytes);
  put_u32(s, c->index_is_pred);
  put_u32(s, c->n_ranges);
  for (uint32_t i = 0; i < c->n_ranges; i++) {
    put_u32(s, c->ranges[i].first);
    put_u32(s, c->ranges[i].n);
  }
  put_text(s, c->target);
  put_text(s, c->config);
  put_text(s, c->hlo);
  put_u32(s, c->shapes ? c->n_slices : 0);
  for (uint32_t i = 0; c->shapes && i < c->n_slices; i++) put_shape(s, c->shapes[i]);
  put_u64(s, (uint64_t)c->flops);
  put_u64(s, (uint64_t)c->bytes);
}

static uint64_t pad(uint64_t v) { return (v + SN_PAGE - 1) / SN_PAGE * SN_PAGE; }

static void put_meta(sn_str *m, const sn_program_spec *s) {
  uint32_t n_isa = 0;
  while (s->isa && s->isa[n_isa]) n_isa++;
  put_text(m, s->name);
  put_text(m, s->target);
  put_text(m, s->device);
  put_u32(m, n_isa);
  for (uint32_t i = 0; i < n_isa; i++) put_text(m, s->isa[i]);
  put_u64(m, (uint64_t)s->arena_bytes);
  put_u32(m, s->result_is_tuple);
  put_u32(m, s->n_arguments);
  for (uint32_t i = 0; i < s->n_arguments; i++) put_leaf(m, &s->arguments[i]);
  put_u32(m, s->n_results);
  for (uint32_t i = 0; i < s->n_results; i++) put_leaf(m, &s->results[i]);
  put_u32(m, s->n_kernels);
  for (uint32_t i = 0; i < s->n_kernels; i++) put_kernel(m, &s->kernels[i]);
  put_u32(m, s->n_commands);
  for (uint32_t i = 0; i < s->n_commands; i++) put_command(m, &s->commands[i]);
  uint64_t at = 0; /* constants: offset within their section and size */
  put_u32(m, s->n_constants);
  for (uint32_t i = 0; i < s->n_constants; i++) {
    put_u64(m, at);
    put_u64(m, sn_array_bytes(s->constants[i]));
    at = (at + sn_array_bytes(s->constants[i]) + 63) / 64 * 64;
  }
}

static uint64_t constants_bytes(const sn_program_spec *s) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < s->n_constants; i++) at = (at + sn_array_bytes(s->constants[i]) + 63) / 64 * 64;
  return at;
}

static void copy_constants(const sn_program_spec *s, uint8_t *to) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < s->n_constants; i++) {
    size_t n = sn_array_bytes(s->constants[i]);
    if (n) memcpy(to + at, sn_array_data(s->constants[i]), n);
    at = (at + n + 63) / 64 * 64;
  }
}

sn_status sn_program_image_write(sn_diag *d, const sn_program_spec *s, uint8_t **out, size_t *n_bytes) {
  *out = NULL;
  *n_bytes = 0;
  sn_str meta = {0};
  put_meta(&meta, s);
  if (meta.failed) {
    sn_str_finish(&meta);
    return sn_out_of_memory(d, meta.n);
  }
  sn_image_header h;
  memset(&h, 0, sizeof h);
  memcpy(h.magic, SN_IMAGE_MAGIC, sizeof h.magic);
  h.abi = SN_PROGRAM_ABI;
  h.header_bytes = sizeof h;
  h.meta_offset = sizeof h;
  h.meta_bytes = meta.n;
  h.code_offset = pad(h.meta_offset + h.meta_bytes);
  h.code_bytes = (uint64_t)s->code_bytes;
  h.constants_offset = pad(h.code_offset + h.code_bytes);
  h.constants_bytes = constants_bytes(s);
  h.file_bytes = h.constants_offset + h.constants_bytes;
  uint8_t *image = sn_alloc_aligned(SN_PAGE, h.file_bytes);
  if (!image) {
    sn_str_finish(&meta);
    return sn_out_of_memory(d, h.file_bytes);
  }
  memset(image, 0, h.file_bytes);
  memcpy(image + h.meta_offset, meta.data, meta.n);
  if (h.code_bytes) memcpy(image + h.code_offset, s->code, h.code_bytes);
  copy_constants(s, image + h.constants_offset);
  memcpy(image, &h, sizeof h);
  h.checksum = sn_program_image_checksum(image, h.file_bytes);
  memcpy(image, &h, sizeof h);
  sn_str_finish(&meta);
  *out = image;
  *n_bytes = h.file_bytes;
  return SN_OK;
}
