/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The door of the bytecode reader: refuses until the reader of VHLO stands behind it. */
#include "../mlir.h"

sn_status sn_mlir_read_bytecode(sn_diag *d, const char *file, const void *data, size_t n_bytes, sn_mlir **out) {
  (void)data;
  (void)n_bytes;
  *out = NULL;
  return sn_error(d, (sn_loc){file, 0, 0}, SN_ERR_UNSUPPORTED, "MLIR bytecode is not read here: give the program as text");
}
