/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* StableHLO text: any bytes give a module or a fault with its place; a module that can be written comes back from text and from bytecode. */
#include <string.h>

#include "fuzz.h"
#include "sinter/stablehlo.h"

enum { WRITTEN_BYTES = 1 << 20 }; /* of a few bytes of text */

static void back(sn_diag *d, const sn_module *m, bool bytecode) {
  sn_str to = {0};
  sn_module *again = NULL;
  sn_diag_clear(d);
  sn_status s = bytecode ? sn_stablehlo_write(d, m, NULL, &to) : sn_stablehlo_print(d, m, &to);
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  if (s == SN_OK && to.n < WRITTEN_BYTES) {
    s = sn_stablehlo_parse(d, "written", to.data, to.n, NULL, &again);
    FUZZ_CHECK(s == SN_OK || s == SN_ERR_OVERFLOW || s == SN_ERR_MEMORY, "what was written does not read: %s: %s\n%s", sn_status_text(s),
               sn_diag_stored(d) != 0 ? sn_diag_get(d, 0)->message : "", bytecode ? "(bytecode)" : to.data);
    sn_module_destroy(again);
  }
  sn_str_finish(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  sn_diag *d = NULL;
  sn_module *m = NULL;
  if (sn_stablehlo_is_bytecode(data, n_bytes) || sn_diag_create(&d) != SN_OK) return 0; /* bytecode has its own target */
  sn_status s = sn_stablehlo_parse(d, "fuzz.mlir", data, n_bytes, NULL, &m);
  FUZZ_CHECK((s == SN_OK) == (m != NULL), "status %s", sn_status_text(s));
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  if (s == SN_OK) FUZZ_CHECK(sn_module_verify(d, m, 0) == SN_OK, "a module that does not verify");
  if (s == SN_OK) back(d, m, false);
  if (s == SN_OK) back(d, m, true);
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return 0;
}
