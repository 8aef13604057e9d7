/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* MLIR bytecode: any bytes give a module or a fault with its byte and section. */
#include <string.h>

#include "fuzz.h"
#include "sinter/stablehlo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes) {
  static const char magic[] = "ML\xefR";
  sn_diag *d = NULL;
  sn_module *m = NULL;
  if (n_bytes < 4 || memcmp(data, magic, 4) != 0 || sn_diag_create(&d) != SN_OK) return 0; /* text has its own target */
  sn_status s = sn_stablehlo_parse(d, "fuzz.bc", data, n_bytes, NULL, &m);
  FUZZ_CHECK((s == SN_OK) == (m != NULL), "status %s", sn_status_text(s));
  FUZZ_CHECK(s == SN_OK || sn_diag_count(d, SN_ERROR) > 0, "%s without a message", sn_status_text(s));
  if (s == SN_OK) FUZZ_CHECK(sn_module_verify(d, m, 0) == SN_OK, "a module that does not verify");
  sn_module_destroy(m);
  sn_diag_destroy(d);
  return 0;
}
