/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* .safetensors, .npz, .npy: any bytes give arrays that can be read to their end, or a message. */
#include <string.h>

#include "fuzz.h"
#include "sinter/files.h"

static void touch(const sn_array *a) {
  const sn_shape *s = sn_array_shape(a);
  size_t bytes = (size_t)sn_shape_elements(s) * sn_type_bytes(s->type);
  uint64_t h = sn_hash(sn_array_data(a), bytes, 0); /* every byte is read */
  (void)h;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  sn_diag *d = NULL;
  sn_bundle *b = NULL;
  if (sn_diag_create(&d) != SN_OK) return 0;
  sn_status s = sn_files_read_memory(d, "fuzz", data, n_bytes, &b);
  FUZZ_CHECK((s == SN_OK) == (b != NULL), "status %s", sn_status_text(s));
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  for (size_t k = 0; b && k < sn_bundle_count(b); k++) {
    FUZZ_CHECK(sn_bundle_name(b, k) != NULL, "an array without a name");
    touch(sn_bundle_at(b, k));
  }
  sn_bundle_destroy(b);
  sn_diag_destroy(d);
  return 0;
}
