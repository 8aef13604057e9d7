/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Calls into the runtime: through the table of imports.def that every kernel is handed, never by symbol. */
#include "emit.h"

enum { MAX_ARGS = 8 };

static val at(emit *e, LLVMTypeRef t, val p, val index) { return LLVMBuildGEP2(e->b, t, p, &index, 1, ""); }

/* One call a lane, in a loop over arrays on the stack. */
static val call_lanes(emit *e, LLVMTypeRef type, val fn, LLVMTypeRef result, int n, val *args, int lanes) {
  val slots[MAX_ARGS], one[MAX_ARGS], out = stack_slot(e, result, lanes, 64), zero = LLVMConstInt(e->i64, 0, 0);
  for (int i = 0; i < n; i++) {
    slots[i] = stack_slot(e, elem_of(args[i]), lanes, 64);
    LLVMSetAlignment(LLVMBuildStore(e->b, splat(e, args[i], lanes), slots[i]), 8);
  }
  LLVMBasicBlockRef before = here(e), body = new_block(e, "call"), done = new_block(e, "called");
  jump(e, body);
  at_end(e, body);
  val l = phi(e, e->i64);
  phi_add(l, zero, before);
  for (int i = 0; i < n; i++) one[i] = LLVMBuildLoad2(e->b, elem_of(args[i]), at(e, elem_of(args[i]), slots[i], l), "");
  LLVMBuildStore(e->b, LLVMBuildCall2(e->b, type, fn, one, (unsigned)n, ""), at(e, result, out, l));
  val next = add(e, l, LLVMConstInt(e->i64, 1, 0));
  phi_add(l, next, here(e));
  branch(e, icmp(e, LLVMIntULT, next, LLVMConstInt(e->i64, (unsigned long long)lanes, 0)), body, done);
  at_end(e, done);
  val r = LLVMBuildLoad2(e->b, wide(e, result, lanes), out, "");
  LLVMSetAlignment(r, 8);
  return r;
}

val call_import(emit *e, int import, LLVMTypeRef result, int n, val *args) {
  LLVMTypeRef types[MAX_ARGS];
  int lanes = 1;
  for (int i = 0; i < n; i++) {
    if (lanes_of(args[i]) > lanes) lanes = lanes_of(args[i]);
    types[i] = elem_of(args[i]);
  }
  LLVMTypeRef type = LLVMFunctionType(result, types, (unsigned)n, 0);
  e->called |= UINT64_C(1) << import;
  val fn = LLVMBuildLoad2(e->b, e->ptr, at(e, e->ptr, e->imports, LLVMConstInt(e->i64, (unsigned long long)import, 0)), "");
  if (lanes == 1) return LLVMBuildCall2(e->b, type, fn, args, (unsigned)n, "");
  return call_lanes(e, type, fn, result, n, args, lanes);
}
