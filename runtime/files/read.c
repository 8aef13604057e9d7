/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Which format a file has, and what the readers share. */
#include "files_internal.h"

#include <string.h>

void sn_files_owner_release(void *owner) {
  sn_files_owner *o = owner;
  if (!o || atomic_fetch_sub(&o->references, 1) != 1) return;
  sn_file_map_close(&o->map);
  sn_free(o);
}

/* ---- taking data ------------------------------------------------------------------------------------------------- */

/* Does every byte pattern of the type stand for itself? */
static bool any_byte_is_fine(sn_type t) { return t != SN_TYPE_PRED && sn_type_bits(t) == 8 * (int)sn_type_bytes(t); }

void sn_files_normalise(sn_type t, uint8_t *data, int64_t n) {
  if (any_byte_is_fine(t)) return;
  if (t == SN_TYPE_PRED || sn_type_is_integer(t)) {
    sn_convert(t, data, SN_TYPE_U8, data, n); /* pred: v != 0; integers: modulo their width */
    return;
  }
  uint8_t mask = (uint8_t)((1u << sn_type_bits(t)) - 1);
  for (int64_t i = 0; i < n; i++) data[i] &= mask;
}

static bool is_normal(sn_type t, const uint8_t *data, int64_t n) {
  if (any_byte_is_fine(t)) return true;
  for (int64_t i = 0; i < n; i++) {
    uint8_t v = data[i];
    sn_files_normalise(t, &v, 1);
    if (v != data[i]) return false;
  }
  return true;
}

sn_status sn_files_take(const sn_files_input *in, const sn_shape *shape, const uint8_t *data, sn_array **out) {
  size_t bytes = sn_type_bytes(shape->type), alignment = bytes < 8 ? bytes : 8;
  int64_t n = sn_shape_elements(shape);
  sn_status status;
  *out = NULL;
  if (n > 0 && in->owner && (uintptr_t)data % alignment == 0 && is_normal(shape->type, data, n)) {
    /* The map is read-only. Arrays that borrow are never "unique", so nobody writes through this pointer. */
    status = sn_array_create_borrowed(shape, (void *)(uintptr_t)data, sn_files_owner_release, in->owner, out);
    if (status == SN_OK) atomic_fetch_add(&in->owner->references, 1);
  } else {
    status = sn_array_create_from(shape, data, out);
    if (status == SN_OK) sn_files_normalise(shape->type, sn_array_data(*out), n);
  }
  if (status == SN_ERR_MEMORY) return sn_out_of_memory(in->d, (size_t)sn_shape_bytes(shape));
  return status;
}

static sn_status stream_memory_read(sn_files_stream *s, void *to, size_t n_bytes) {
  if (n_bytes > 0) memcpy(to, s->direct, n_bytes);
  s->direct += n_bytes;
  s->left -= n_bytes;
  return SN_OK;
}

void sn_files_stream_memory(sn_files_stream *s, const sn_files_input *in, const uint8_t *data, size_t n_bytes) {
  *s = (sn_files_stream){stream_memory_read, n_bytes, in, data};
}

sn_type sn_files_stand_in(sn_type t) {
  switch (sn_type_bytes(t)) {
    case 1: return SN_TYPE_U8;
    case 2: return SN_TYPE_U16;
    case 4: return SN_TYPE_U32;
    default: return SN_TYPE_U64;
  }
}

sn_status sn_files_true_type(const sn_files_input *in, const char *name, const char *text, sn_type stored,
                             sn_type *out) {
  bool known = sn_type_from_text(text, strlen(text), out);
  if (known && sn_type_is_array(*out) && !sn_type_is_complex(*out) && sn_files_stand_in(*out) == stored) return SN_OK;
  sn_type wanted = *out;
  *out = SN_TYPE_INVALID;
  if (!known || !sn_type_is_array(wanted)) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT,
                    "array '%s' claims to be of type '%s', which is no element type", name, text);
  }
  return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT,
                  "array '%s' claims to be of type %s but is stored as %s", name, text, sn_type_text(stored));
}

/* ---- formats ----------------------------------------------------------------------------------------------------- */

static sn_status read_npy(const sn_files_input *in, sn_bundle *b) {
  sn_files_stream s;
  sn_files_stream_memory(&s, in, in->data, in->n_bytes);
  sn_array *a = NULL;
  SN_TRY(sn_npy_read(&s, "arr_0", &a));
  sn_status status = sn_bundle_set(b, "arr_0", a);
  sn_array_release(a);
  return status;
}

static sn_status read_by_content(const sn_files_input *in, sn_bundle *b) {
  if (in->n_bytes == 0) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "the file is empty; expected .safetensors, .npz or .npy");
  }
  if (sn_npz_is(in->data, in->n_bytes)) return sn_npz_read(in, b);
  if (in->n_bytes >= 6 && memcmp(in->data, "\x93NUMPY", 6) == 0) return read_npy(in, b);
  return sn_safetensors_read(in, b);
}

static sn_status read_input(const sn_files_input *in, sn_bundle **out) {
  sn_bundle *b;
  sn_status status = sn_bundle_create(&b);
  if (status == SN_OK) {
    status = read_by_content(in, b);
  } else {
    sn_out_of_memory(in->d, 0);
  }
  if (status != SN_OK) {
    sn_bundle_destroy(b);
    return status;
  }
  *out = b;
  return SN_OK;
}

sn_status sn_files_read_memory(sn_diag *d, const char *name, const void *data, size_t n_bytes, sn_bundle **out) {
  *out = NULL;
  sn_files_input in = {d, name, data, n_bytes, NULL};
  return read_input(&in, out);
}

static sn_status read_stdin(sn_diag *d, sn_bundle **out) {
  char *data;
  size_t n_bytes;
  SN_TRY(sn_file_read(d, "-", &data, &n_bytes));
  sn_status status = sn_files_read_memory(d, "<stdin>", data, n_bytes, out);
  sn_free(data);
  return status;
}

sn_status sn_files_read(sn_diag *d, const char *path, sn_bundle **out) {
  *out = NULL;
  if (strcmp(path, "-") == 0) return read_stdin(d, out);
  sn_files_owner *owner = sn_alloc_zero(1, sizeof *owner);
  if (!owner) return sn_out_of_memory(d, sizeof *owner);
  atomic_init(&owner->references, 1);
  sn_status status = sn_file_map_open(d, path, &owner->map);
  if (status == SN_OK) {
    sn_files_input in = {d, path, owner->map.data, owner->map.n_bytes, owner};
    status = read_input(&in, out);
  }
  sn_files_owner_release(owner); /* the arrays hold it now */
  return status;
}
