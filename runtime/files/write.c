/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "files_internal.h"

#include <string.h>

/* Copies the rows of the living part together. */
static void compact(sn_array *to, const sn_array *from) {
  const sn_shape *bound = sn_array_shape(from);
  const int64_t *sizes = sn_array_dynamic_sizes(from);
  int rank = bound->rank;
  int64_t strides[SN_MAX_RANK], index[SN_MAX_RANK] = {0};
  sn_shape_strides(bound, strides);
  size_t each = sn_type_bytes(bound->type), row = (size_t)sizes[rank - 1] * each;
  uint8_t *dst = sn_array_data(to);
  const uint8_t *src = sn_array_data(from);
  int64_t rows = row > 0 ? (int64_t)(sn_array_bytes(to) / row) : 0, offset = 0;
  for (int64_t r = 0; r < rows; r++) {
    memcpy(dst + (size_t)r * row, src + (size_t)offset * each, row);
    for (int i = rank - 2; i >= 0; i--) {
      offset += strides[i];
      if (++index[i] < sizes[i]) break;
      offset -= strides[i] * index[i];
      index[i] = 0;
    }
  }
}

sn_status sn_files_static(sn_array *a, sn_array **out) {
  *out = NULL;
  if (!sn_array_dynamic_sizes(a)) {
    *out = sn_array_retain(a);
    return SN_OK;
  }
  sn_shape shape = {.type = sn_array_shape(a)->type,
                    .rank = sn_array_shape(a)->rank,
                    .dims = sn_array_dynamic_sizes(a)};
  SN_TRY(sn_array_create(&shape, out));
  compact(*out, a);
  return SN_OK;
}

typedef struct file_format {
  const char *extension;
  sn_status (*write)(sn_diag *d, const char *path, const sn_bundle *b);
} file_format;

static const file_format formats[] = {
    {".safetensors", sn_safetensors_write},
    {".npz", sn_npz_write},
    {".npy", sn_npy_write},
};

sn_status sn_files_write(sn_diag *d, const char *path, const sn_bundle *b) {
  size_t n = strlen(path);
  for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
    size_t m = strlen(formats[i].extension);
    if (n > m && strcmp(path + n - m, formats[i].extension) == 0) return formats[i].write(d, path, b);
  }
  sn_status status = sn_error(d, (sn_loc){path, 0, 0}, SN_ERR_USAGE, "no format of arrays goes by this extension");
  sn_hint(d, "name the file .safetensors, .npz or .npy");
  return status;
}
