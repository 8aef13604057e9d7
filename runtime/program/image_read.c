/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An image read back into tables. Nothing in it is believed: every count, offset and index is checked before it is used. */
#include "program_internal.h"

#include <string.h>

typedef struct reader {
  sn_diag *d;
  const char *name;
  sn_arena *a;
  const uint8_t *p, *end;
  sn_status status;
} reader;

static void corrupt(reader *r, const char *what) {
  if (r->status != SN_OK) return;
  sn_loc loc = {r->name, 0, 0};
  r->status = sn_error(r->d, loc, SN_ERR_CORRUPT, "%s", what);
  sn_hint(r->d, "the file is torn or was not written by this project; compile the program again");
}

static void *take(reader *r, uint64_t n, size_t each) {
  /* Every row takes at least one byte of the stream, so a count beyond what is left is a lie. */
  if (r->status != SN_OK) return NULL;
  if (n > (uint64_t)(r->end - r->p)) {
    corrupt(r, "a table is longer than the file");
    return NULL;
  }
  void *v = sn_arena_zero(r->a, (size_t)n + 1, each);
  if (!v) r->status = sn_out_of_memory(r->d, (size_t)n * each);
  return v;
}

static uint64_t get(reader *r, size_t n) {
  uint64_t v = 0;
  if (r->status == SN_OK && (size_t)(r->end - r->p) < n) corrupt(r, "the table of contents ends too early");
  if (r->status != SN_OK) return 0;
  memcpy(&v, r->p, n);
  r->p += n;
  return v;
}

static uint32_t get_u32(reader *r) { return (uint32_t)get(r, 4); }
static uint64_t get_u64(reader *r) { return get(r, 8); }

static int64_t get_size(reader *r) {
  uint64_t v = get_u64(r);
  if (v > (uint64_t)INT64_MAX / 4) corrupt(r, "a size is out of range");
  return (int64_t)v;
}

static const char *get_text(reader *r) {
  uint32_t n = get_u32(r);
  if (n == 0 || r->status != SN_OK) return NULL;
  if ((uint64_t)(r->end - r->p) < n - 1) {
    corrupt(r, "a name is longer than the file");
    return NULL;
  }
  const char *s = sn_arena_string_n(r->a, (const char *)r->p, n - 1);
  if (!s) r->status = sn_out_of_memory(r->d, n);
  r->p += n - 1;
  return s;
}

static const sn_shape *get_shape(reader *r) {
  int64_t dims[SN_MAX_RANK], order[SN_MAX_RANK];
  uint32_t type = get_u32(r), rank = get_u32(r), seen = 0;
  if (r->status == SN_OK && (rank > SN_MAX_RANK || type >= SN_TYPE_COUNT || !sn_type_is_array((sn_type)type))) corrupt(r, "a shape is malformed");
  for (uint32_t i = 0; r->status == SN_OK && i < rank; i++) dims[i] = get_size(r);
  bool ordered = get_u32(r) != 0;
  for (uint32_t i = 0; r->status == SN_OK && ordered && i < rank; i++) {
    order[i] = get_u32(r);
    if (order[i] >= rank || (seen & (1u << order[i]))) corrupt(r, "a layout is no permutation");
    else seen |= 1u << order[i];
  }
  if (r->status != SN_OK) return NULL;
  const sn_shape *s = sn_shape_array(r->a, (sn_type)type, (int)rank, dims);
  if (s && ordered) {
    const sn_layout *l = sn_layout_make(r->a, (int)rank, order);
    s = l ? sn_shape_with_layout(r->a, s, l) : NULL;
  }
  if (!s) r->status = sn_out_of_memory(r->d, sizeof *s);
  else if (sn_shape_check(NULL, SN_NOWHERE, s) != SN_OK) corrupt(r, "a shape is too large");
  return s;
}

static void get_leaves(reader *r, uint32_t *n, sn_program_leaf **out) {
  *n = get_u32(r);
  *out = take(r, *n, sizeof **out);
  for (uint32_t i = 0; r->status == SN_OK && i < *n; i++) {
    sn_program_leaf *l = &(*out)[i];
    l->name = get_text(r);
    l->shape = get_shape(r);
    l->donated_to = (int64_t)get_u64(r);
    l->alias_of = (int64_t)get_u64(r);
  }
}

/* A module lies inside the code section. */
static void get_module(reader *r, const sn_program *p, int64_t *offset, int64_t *bytes) {
  *offset = get_size(r);
  *bytes = get_size(r);
  if (r->status == SN_OK && ((uint64_t)*offset > p->code_bytes || (uint64_t)*bytes > p->code_bytes - (uint64_t)*offset)) corrupt(r, "a module lies outside the code");
}

static void get_phase(reader *r, const sn_program *p, sn_program_phase *f) {
  f->code_offset = get_size(r);
  f->n_items = get_size(r);
  f->cost_ns = get_size(r);
  f->entry = get_text(r);
  f->threads = get_u32(r);
  f->blocks = get_size(r);
  f->shared_bytes = get_size(r);
  f->takes_scratch = get_u32(r) != 0;
  f->n_tickets = get_size(r);
  if (r->status != SN_OK) return;
  if (!p->device) {
    if ((uint64_t)f->code_offset >= p->code_bytes) corrupt(r, "a kernel lies outside the code");
  } else if (!f->entry || f->threads < 1 || f->threads > 1024 || f->blocks < 1 || f->blocks > INT32_MAX || f->shared_bytes > 1 << 20 || f->n_tickets > INT32_MAX) {
    corrupt(r, "a launch is malformed");
  }
}

static void get_kernels(reader *r, sn_program *p, uint64_t code) {
  p->n_kernels = get_u32(r);
  p->kernels = take(r, p->n_kernels, sizeof *p->kernels);
  for (uint32_t i = 0; r->status == SN_OK && i < p->n_kernels; i++) {
    sn_program_kernel *k = &p->kernels[i];
    k->name = get_text(r);
    uint32_t n_buffers = get_u32(r);
    k->scratch_bytes = get_size(r);
    get_module(r, p, &k->ptx_offset, &k->ptx_bytes);
    get_module(r, p, &k->cubin_offset, &k->cubin_bytes);
    if (r->status == SN_OK && k->ptx_bytes && p->bytes[code + (uint64_t)(k->ptx_offset + k->ptx_bytes) - 1] != 0) corrupt(r, "a module's text has no end");
    uint32_t n_phases = get_u32(r);
    if (r->status == SN_OK && (n_buffers > 1u << 20 || n_phases > 1u << 20)) corrupt(r, "a kernel is malformed");
    k->n_buffers = (int)n_buffers;
    k->n_phases = (int)n_phases;
    sn_program_phase *v = take(r, n_phases, sizeof *v);
    for (uint32_t f = 0; r->status == SN_OK && f < n_phases; f++) get_phase(r, p, &v[f]);
    k->phases = v;
    if (k->scratch_bytes > p->scratch_bytes) p->scratch_bytes = k->scratch_bytes;
  }
}

/* How many bytes a slice's allocation has. */
static int64_t allocation_bytes(const sn_program *p, const sn_slice *s) {
  switch (s->kind) {
    case SN_ALLOCATION_ARGUMENT: return s->index < p->n_arguments ? sn_shape_bytes(p->arguments[s->index].shape) : -1;
    case SN_ALLOCATION_RESULT: return s->index < p->n_results ? sn_shape_bytes(p->results[s->index].shape) : -1;
    case SN_ALLOCATION_CONSTANT: return s->index < p->n_constants ? p->constant_bytes[s->index] : -1;
    case SN_ALLOCATION_ARENA: return p->arena_bytes;
  }
  return -1;
}

static void get_slices(reader *r, sn_command *c) {
  c->n_slices = get_u32(r);
  sn_slice *v = take(r, c->n_slices, sizeof *v);
  for (uint32_t i = 0; r->status == SN_OK && i < c->n_slices; i++) {
    v[i].kind = (sn_allocation_kind)get_u32(r);
    v[i].index = get_u32(r);
    v[i].offset = get_size(r);
    v[i].bytes = get_size(r);
  }
  c->slices = v;
}

static void get_command(reader *r, sn_command *c) {
  c->kind = (sn_command_kind)get_u32(r);
  c->name = get_text(r);
  c->kernel = get_u32(r);
  get_slices(r, c);
  c->pattern = get_u64(r);
  c->pattern_bytes = get_u32(r);
  c->index_is_pred = get_u32(r) != 0;
  c->n_ranges = get_u32(r);
  sn_command_range *ranges = take(r, c->n_ranges, sizeof *ranges);
  for (uint32_t i = 0; r->status == SN_OK && i < c->n_ranges; i++) {
    ranges[i].first = get_u32(r);
    ranges[i].n = get_u32(r);
  }
  c->ranges = ranges;
  c->target = get_text(r);
  c->config = get_text(r);
  c->hlo = get_text(r);
  uint32_t n_shapes = get_u32(r);
  if (r->status == SN_OK && n_shapes && n_shapes != c->n_slices) corrupt(r, "a command's shapes do not match its buffers");
  const sn_shape **shapes = n_shapes ? take(r, n_shapes, sizeof *shapes) : NULL;
  for (uint32_t i = 0; r->status == SN_OK && i < n_shapes; i++) shapes[i] = get_shape(r);
  c->shapes = shapes;
  c->flops = (int64_t)get_u64(r);
  c->bytes = (int64_t)get_u64(r);
}

static void get_constants(reader *r, sn_program *p, const sn_image_header *h) {
  p->n_constants = get_u32(r);
  p->constants = take(r, p->n_constants, sizeof *p->constants);
  p->constant_bytes = take(r, p->n_constants, sizeof *p->constant_bytes);
  for (uint32_t i = 0; r->status == SN_OK && i < p->n_constants; i++) {
    uint64_t at = get_u64(r), n = get_u64(r);
    if (r->status == SN_OK && (at > h->constants_bytes || n > h->constants_bytes - at || at % 64)) corrupt(r, "a constant lies outside its section");
    if (r->status != SN_OK) return;
    p->constants[i] = p->bytes + h->constants_offset + at;
    p->constant_bytes[i] = (int64_t)n;
  }
}

/* ---- what must hold between the tables ---- */

static uint32_t least_slices(const sn_program *p, const sn_command *c) {
  switch (c->kind) {
    case SN_COMMAND_LIBRARY:
    case SN_COMMAND_KERNEL: return (uint32_t)p->kernels[c->kernel].n_buffers;
    case SN_COMMAND_COPY: return 2;
    case SN_COMMAND_FILL:
    case SN_COMMAND_WHILE:
    case SN_COMMAND_CONDITIONAL: return 1;
    default: return 0;
  }
}

static void check_slices(reader *r, const sn_program *p, const sn_command *c) {
  for (uint32_t i = 0; i < c->n_slices; i++) {
    const sn_slice *s = &c->slices[i];
    int64_t all = allocation_bytes(p, s);
    if (all < 0 || s->offset > all || s->bytes > all - s->offset) corrupt(r, "a buffer lies outside its memory");
  }
}

static void check_command(reader *r, const sn_program *p, const sn_command *c) {
  if (c->kind >= SN_COMMAND_COUNT) corrupt(r, "an unknown command");
  else if ((c->kind == SN_COMMAND_KERNEL || c->kind == SN_COMMAND_LIBRARY) && c->kernel >= p->n_kernels) corrupt(r, "a command calls a kernel that is not there");
  else if (c->n_slices < least_slices(p, c)) corrupt(r, "a command has too few buffers");
  else if (c->kind == SN_COMMAND_WHILE && (c->n_ranges != 2 || c->slices[0].bytes < 1)) corrupt(r, "a loop is malformed");
  else if (c->kind == SN_COMMAND_CONDITIONAL && (c->n_ranges == 0 || c->slices[0].bytes < (c->index_is_pred ? 1 : 4))) corrupt(r, "a conditional is malformed");
  else if (c->kind == SN_COMMAND_COPY && c->slices[0].bytes != c->slices[1].bytes) corrupt(r, "a copy between buffers of different size");
  else if (c->kind == SN_COMMAND_FILL && c->pattern_bytes != 1 && c->pattern_bytes != 2 && c->pattern_bytes != 4 && c->pattern_bytes != 8) corrupt(r, "a fill is malformed");
  else if (c->n_ranges && c->kind != SN_COMMAND_WHILE && c->kind != SN_COMMAND_CONDITIONAL) corrupt(r, "a command with inner commands that may have none");
  else check_slices(r, p, c);
}

/* Inner ranges follow their command, one behind the other, inside the range around. An explicit stack of range ends. */
static void check_nesting(reader *r, const sn_program *p) {
  uint32_t ends[SN_MAX_NESTING];
  int depth = 0;
  ends[depth++] = p->n_commands;
  for (uint32_t i = 0; i < p->n_commands; i++) {
    while (depth > 1 && i >= ends[depth - 1]) depth--;
    const sn_command *c = &p->commands[i];
    uint64_t at = (uint64_t)i + 1;
    for (uint32_t k = 0; k < c->n_ranges; k++) {
      if (c->ranges[k].first != at) {
        corrupt(r, "inner commands are out of place");
        return;
      }
      at += c->ranges[k].n;
    }
    if (at > ends[depth - 1] || (c->n_ranges && depth == SN_MAX_NESTING)) {
      corrupt(r, "inner commands reach beyond those around, or nest too deeply");
      return;
    }
    /* The ranges of one command are walked as one: a nested command in the first must not reach into the second. */
    for (uint32_t k = c->n_ranges; k-- > 0;) {
      if (depth == SN_MAX_NESTING) {
        corrupt(r, "commands nest too deeply");
        return;
      }
      ends[depth++] = c->ranges[k].first + c->ranges[k].n;
    }
  }
}

static void check_aliases(reader *r, const sn_program *p) {
  for (uint32_t i = 0; i < p->n_results; i++) {
    int64_t a = p->results[i].alias_of;
    if (a == -1) continue;
    if (a < 0 || a >= p->n_arguments || p->arguments[a].donated_to != (int64_t)i || sn_shape_bytes(p->arguments[a].shape) != sn_shape_bytes(p->results[i].shape)) {
      corrupt(r, "a result shares an argument that it cannot share");
      return;
    }
  }
  for (uint32_t i = 0; i < p->n_arguments; i++) {
    int64_t x = p->arguments[i].donated_to;
    if (x != -1 && (x < 0 || x >= p->n_results || p->results[x].alias_of != (int64_t)i)) {
      corrupt(r, "a donated argument has no result");
      return;
    }
  }
}

/* ---- the header ---- */

static bool section_fits(const sn_image_header *h, uint64_t at, uint64_t n) { return at <= h->file_bytes && n <= h->file_bytes - at; }

uint64_t sn_program_image_checksum(const uint8_t *image, size_t n_bytes) {
  sn_image_header h;
  memcpy(&h, image, sizeof h);
  h.checksum = 0;
  return sn_hash(image + sizeof h, n_bytes - sizeof h, sn_hash(&h, sizeof h, 0));
}

static sn_status read_header(reader *r, const sn_program *p, sn_image_header *h) {
  sn_loc loc = {r->name, 0, 0};
  if (p->n_bytes < sizeof *h || memcmp(p->bytes, SN_IMAGE_MAGIC, sizeof h->magic) != 0) {
    return sn_error(r->d, loc, SN_ERR_CORRUPT, "this is no compiled program");
  }
  memcpy(h, p->bytes, sizeof *h);
  if (h->abi != SN_PROGRAM_ABI) {
    sn_error(r->d, loc, SN_ERR_VERSION, "the program was made for ABI %u, this runtime has ABI %d", h->abi, SN_PROGRAM_ABI);
    sn_hint(r->d, "compile it again with this version");
    return SN_ERR_VERSION;
  }
  if (h->header_bytes != sizeof *h) return sn_error(r->d, loc, SN_ERR_CORRUPT, "its header has %u bytes, expected %zu", h->header_bytes, sizeof *h);
  if (h->file_bytes != p->n_bytes) {
    return sn_error(r->d, loc, SN_ERR_CORRUPT, "the file has %llu bytes, its header says %llu", (unsigned long long)p->n_bytes, (unsigned long long)h->file_bytes);
  }
  if (!section_fits(h, h->meta_offset, h->meta_bytes) || !section_fits(h, h->code_offset, h->code_bytes) || !section_fits(h, h->constants_offset, h->constants_bytes) ||
      h->meta_offset != sizeof *h || h->constants_offset % 64) {
    return sn_error(r->d, loc, SN_ERR_CORRUPT, "a section lies outside the file");
  }
  if (sn_program_image_checksum(p->bytes, p->n_bytes) != h->checksum) {
    return sn_error(r->d, loc, SN_ERR_CORRUPT, "the checksum does not match: the file is torn or was changed");
  }
  return SN_OK;
}

sn_status sn_program_check_isa(sn_diag *d, const char *name, const sn_program *p) {
  sn_loc loc = {name, 0, 0};
  for (uint32_t i = 0; i < p->n_isa; i++) {
    if (sn_isa_supported(p->isa[i])) continue;
    sn_error(d, loc, SN_ERR_VERSION, "the program was compiled for %s and needs %s, which this processor lacks", p->target ? p->target : "another target", p->isa[i]);
    sn_hint(d, "compile it with --target=x86-64-v2, or on this machine");
    return SN_ERR_VERSION;
  }
  return SN_OK;
}

sn_status sn_program_image_read(sn_diag *d, const char *name, sn_program *p) {
  reader r = {d, name, p->arena, NULL, NULL, SN_OK};
  sn_image_header h;
  SN_TRY(read_header(&r, p, &h));
  r.p = p->bytes + h.meta_offset;
  r.end = r.p + h.meta_bytes;
  p->code_bytes = h.code_bytes;
  p->name = get_text(&r);
  p->target = get_text(&r);
  p->device = get_text(&r);
  p->n_isa = get_u32(&r);
  p->isa = take(&r, p->n_isa, sizeof *p->isa);
  for (uint32_t i = 0; r.status == SN_OK && i < p->n_isa; i++) {
    if (!(p->isa[i] = get_text(&r))) corrupt(&r, "a feature without a name");
  }
  p->arena_bytes = get_size(&r);
  p->result_is_tuple = get_u32(&r) != 0;
  get_leaves(&r, &p->n_arguments, &p->arguments);
  get_leaves(&r, &p->n_results, &p->results);
  get_kernels(&r, p, h.code_offset);
  p->n_commands = get_u32(&r);
  p->commands = take(&r, p->n_commands, sizeof *p->commands);
  for (uint32_t i = 0; r.status == SN_OK && i < p->n_commands; i++) get_command(&r, &p->commands[i]);
  get_constants(&r, p, &h);
  for (uint32_t i = 0; r.status == SN_OK && i < p->n_commands; i++) check_command(&r, p, &p->commands[i]);
  if (r.status == SN_OK) check_nesting(&r, p);
  if (r.status == SN_OK) check_aliases(&r, p);
  SN_TRY(r.status);
  return r.status;
}
