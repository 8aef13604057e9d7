/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An attribute or type that stands alone, as bytecode writes those of dialects without an encoding. */
#include "text.h"

static sn_status whole(sn_mx *p, const sn_mlir_attr **out) {
  SN_TRY(sn_mx_attr(p, out));
  return sn_mx_peek(p) == '\0' ? SN_OK : sn_mx_expected(p, "the end of the attribute");
}

sn_status sn_mlir_read_attr_text(sn_mlir *m, const char *text, size_t n_bytes, int max_depth, const sn_mlir_attr **out) {
  *out = NULL;
  sn_mx p;
  sn_status s = sn_mx_begin(&p, NULL, NULL, text, n_bytes);
  sn_mlir *own = p.m;
  if (s == SN_OK) {
    p.m = m;
    p.depth = SN_MLIR_MAX_NEST - max_depth;
    s = whole(&p, out);
  }
  sn_mx_end(&p);
  sn_mlir_destroy(own);
  if (s != SN_OK) *out = NULL;
  return s;
}
