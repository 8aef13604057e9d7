/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shared between the readers and writers of this room. */
#ifndef SINTER_FILES_INTERNAL_H
#define SINTER_FILES_INTERNAL_H

#include "sinter/files.h"

#include <stdatomic.h>

/* A mapped file, kept alive by the arrays that borrow from it. */
typedef struct sn_files_owner {
  atomic_int references;
  sn_file_map map;
} sn_files_owner;
void sn_files_owner_release(void *owner);

/* The bytes of a file (or of a member of one) and what is needed to speak of them. */
typedef struct sn_files_input {
  sn_diag *d;
  const char *name; /* for messages */
  const uint8_t *data;
  size_t n_bytes;
  sn_files_owner *owner; /* NULL: data does not outlive the call, so it is copied */
} sn_files_input;

#define SN_FILES_AT(in) ((sn_loc){(in)->name, 0, 0})

/* An array over `data` (sn_shape_bytes(shape) of it, within in->data): borrowed where owner and alignment allow, else copied.
 * Values that their type does not have (a bool of 2, an s4 above 7) are brought into range in a copy. */
sn_status sn_files_take(const sn_files_input *in, const sn_shape *shape, const uint8_t *data, sn_array **out);
/* Brings `n` values in place into the form of runtime/array: bool 0 or 1, sub-byte types extended. */
void sn_files_normalise(sn_type t, uint8_t *data, int64_t n);

/* Bytes in order, from memory or from an inflating member. `left` counts down to 0. */
typedef struct sn_files_stream sn_files_stream;
struct sn_files_stream {
  sn_status (*read)(sn_files_stream *s, void *to, size_t n_bytes); /* exactly n_bytes, at most s->left */
  uint64_t left;
  const sn_files_input *in;
  const uint8_t *direct; /* where the next byte lies, when it lies in in->data; else NULL */
};
void sn_files_stream_memory(sn_files_stream *s, const sn_files_input *in, const uint8_t *data, size_t n_bytes);

/* `what` names the array in messages. `stored` gets the array. */
sn_status sn_npy_read(sn_files_stream *s, const char *what, sn_array **out);
/* Header of version 1.0, padded to 64 bytes. `unnamed` tells that descr is a stand-in, for want of a name. */
sn_status sn_npy_header(const sn_array *a, sn_str *out, bool *unnamed);
sn_status sn_npy_write(sn_diag *d, const char *path, const sn_bundle *b);

bool sn_npz_is(const uint8_t *data, size_t n_bytes);
sn_status sn_npz_read(const sn_files_input *in, sn_bundle *out);
sn_status sn_npz_write(sn_diag *d, const char *path, const sn_bundle *b);

sn_status sn_safetensors_read(const sn_files_input *in, sn_bundle *out);
sn_status sn_safetensors_write(sn_diag *d, const char *path, const sn_bundle *b);

/* Metadata in order of insertion. */
size_t sn_bundle_n_metadata(const sn_bundle *b);
void sn_bundle_metadata_at(const sn_bundle *b, size_t i, const char **key, const char **value);

/* A static copy of what lives in `a`; the same array, retained, when it is static already. */
sn_status sn_files_static(sn_array *a, sn_array **out);
/* The type whose name stands for `t` in a file that has none for it: the unsigned integer as wide. */
sn_type sn_files_stand_in(sn_type t);
/* The type that metadata `sinter.type/…` names for an array stored as `stored`; refused when it does not fit. */
sn_status sn_files_true_type(const sn_files_input *in, const char *name, const char *text, sn_type stored, sn_type *out);
#define SN_FILES_TYPE_KEY "sinter.type/"

#endif
