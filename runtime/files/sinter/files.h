/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Files of arrays: .npy, .npz, .safetensors. A library of its own (cJSON, zlib), not part of libsinter-runtime. */
#ifndef SINTER_FILES_H
#define SINTER_FILES_H

#include "sinter/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered set of named arrays. Names are copied; arrays retained. */
typedef struct sn_bundle sn_bundle;
SN_NODISCARD sn_status sn_bundle_create(sn_bundle **out);
void sn_bundle_destroy(sn_bundle *b);
SN_NODISCARD sn_status sn_bundle_set(sn_bundle *b, const char *name, sn_array *a); /* replaces an equal name */
sn_array *sn_bundle_get(const sn_bundle *b, const char *name); /* borrowed; NULL when absent */
size_t sn_bundle_count(const sn_bundle *b);
const char *sn_bundle_name(const sn_bundle *b, size_t i);
sn_array *sn_bundle_at(const sn_bundle *b, size_t i);
/* `__metadata__` of safetensors: string to string. */
SN_NODISCARD sn_status sn_bundle_set_metadata(sn_bundle *b, const char *key, const char *value);
const char *sn_bundle_metadata(const sn_bundle *b, const char *key);

/* Reads a file by its content (safetensors, zip of npy, npy; an npy gives one array named "arr_0"). Safetensors are memory-mapped: arrays borrow the map,
 * which lives as long as the last of them. Complex arrays are joined from NAME.re and NAME.im. Every header is distrusted: offsets, overlaps, sizes, dtypes.
 * Errors: SN_ERR_IO, SN_ERR_CORRUPT, SN_ERR_UNSUPPORTED, SN_ERR_MEMORY, with file and reason on d. */
SN_NODISCARD sn_status sn_files_read(sn_diag *d, const char *path, sn_bundle **out);
SN_NODISCARD sn_status sn_files_read_memory(sn_diag *d, const char *name, const void *data, size_t n_bytes, sn_bundle **out); /* copies */
/* Writes by the path's extension (.safetensors, .npz, .npy: exactly one array), atomically. Complex arrays are split in safetensors.
 * Element types that the format has no name for are stored as the unsigned integer of their byte width, with metadata `sinter.type/NAME` = HLO's name. */
SN_NODISCARD sn_status sn_files_write(sn_diag *d, const char *path, const sn_bundle *b);

#ifdef __cplusplus
}
#endif
#endif
