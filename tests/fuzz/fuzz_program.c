/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Program images (.sntr): read, printed, given a context, never run. The checksum is put right first: it guards against accidents, and what stands
 * behind it must hold by itself. */
#include <string.h>

#include "fuzz.h"
#include "program_internal.h"

static void read_image(const uint8_t *data, size_t n_bytes) {
  sn_diag *d = NULL;
  sn_program *p = NULL;
  sn_context *c = NULL;
  if (sn_diag_create(&d) != SN_OK) return;
  sn_status s = sn_program_read_memory(d, "fuzz.sntr", data, n_bytes, &p);
  FUZZ_CHECK((s == SN_OK) == (p != NULL), "status %s", sn_status_text(s));
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  if (p) {
    sn_str text = {0};
    sn_program_print(&text, p);
    sn_str_finish(&text);
    if (sn_program_arena_bytes(p) < 1 << 20 && p->scratch_bytes < 1 << 20 && sn_context_create(d, p, NULL, &c) == SN_OK) sn_context_destroy(c);
  }
  sn_program_release(p);
  sn_diag_destroy(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  sn_image_header h;
  read_image(data, n_bytes);
  if (n_bytes < sizeof h) return 0;
  uint8_t *image = malloc(n_bytes);
  if (!image) return 0;
  memcpy(image, data, n_bytes);
  memcpy(&h, image, sizeof h);
  memcpy(h.magic, SN_IMAGE_MAGIC, sizeof h.magic);
  h.abi = SN_PROGRAM_ABI;
  h.header_bytes = sizeof h;
  h.file_bytes = n_bytes;
  memcpy(image, &h, sizeof h);
  h.checksum = sn_program_image_checksum(image, n_bytes);
  memcpy(image, &h, sizeof h);
  read_image(image, n_bytes);
  free(image);
  return 0;
}
