/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls into the runtime: through the table of imports.def that every kernel is handed, never by symbol. */
#include "emit.h"

enum { MAX_ARGS = 8 };

val call_import(emit *e, int import, LLVMTypeRef result, int n, val *args) {
  LLVMTypeRef types[MAX_ARGS];
  val one[MAX_ARGS], out[EMIT_MAX_LANES], index = LLVMConstInt(e->i64, (unsigned long long)import, 0);
  int lanes = 1;
  for (int i = 0; i < n; i++) {
    if (lanes_of(args[i]) > lanes) lanes = lanes_of(args[i]);
    types[i] = elem_of(args[i]);
  }
  LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, 0);
  val fn = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, e->imports, &index, 1, ""), "");
  for (int l = 0; l < lanes; l++) {
    for (int i = 0; i < n; i++) one[i] = lane(e, args[i], l);
    out[l] = LLVMBuildCall2(e->b, type, fn, one, (unsigned)n, "");
  }
  return from_lanes(e, lanes, out);
}
