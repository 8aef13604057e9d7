/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The doors out: text and bytecode of an HLO module. */
#include <stdio.h>

#include "sinter/stablehlo.h"
#include "unmap.h"

enum { NEWEST = 20 }; /* 1.20 */

sn_status sn_stablehlo_print(sn_diag *d, const sn_module *m, sn_str *to) {
  sn_mlir *tree = NULL;
  SN_TRY(sn_sw_module(d, m, &tree));
  sn_mlir_print(to, tree);
  sn_mlir_destroy(tree);
  return to->failed ? sn_out_of_memory(d, to->n) : SN_OK;
}

static sn_status version_of(sn_diag *d, const char *text, int *out) {
  int major = 1, minor = NEWEST, patch = 0;
  char rest = '\0';
  if (text != NULL && sscanf(text, "%d.%d.%d%c", &major, &minor, &patch, &rest) != 3) return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "expected a version of StableHLO such as 1.16.2, found `%s`", text);
  if (major != 1 || minor < 0 || minor > NEWEST) {
    sn_error(d, SN_NOWHERE, SN_ERR_UNSUPPORTED, "StableHLO %s cannot be written", text);
    sn_hint(d, "versions 1.0.0 to 1.%d.0 can", (int)NEWEST);
    return SN_ERR_UNSUPPORTED;
  }
  *out = 1000 + minor;
  return SN_OK;
}

sn_status sn_stablehlo_write(sn_diag *d, const sn_module *m, const char *version, sn_str *to) {
  sn_mlir *tree = NULL;
  int v = 0;
  SN_TRY(version_of(d, version, &v));
  SN_TRY(sn_sw_module(d, m, &tree));
  sn_status s = sn_mlir_write_bytecode(d, tree, v, to);
  sn_mlir_destroy(tree);
  return s;
}
