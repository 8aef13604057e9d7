/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A thin layer over LLVM's builder: operations on values that are scalars or vectors, widened as needed. */
#include "emit.h"

#include <string.h>

void emit_fail(emit *e, sn_status status, const char *fmt, ...) {
  if (e->status != SN_OK) return;
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  e->status = status;
  e->error = sn_arena_string(e->arena, text);
}

void emit_no_memory(emit *e) { emit_fail(e, SN_ERR_MEMORY, "out of memory"); }

/* ---- types ---- */

int lanes_of(val v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? (int)LLVMGetVectorSize(t) : 1;
}

LLVMTypeRef elem_of(val v) {
  LLVMTypeRef t = LLVMTypeOf(v);
  return LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
}

LLVMTypeRef wide(emit *e, LLVMTypeRef t, int lanes) {
  (void)e;
  return lanes == 1 ? t : LLVMVectorType(t, (unsigned)lanes);
}

LLVMTypeRef like(emit *e, LLVMTypeRef t, val v) { return wide(e, t, lanes_of(v)); }

int bits_of(val v) {
  LLVMTypeRef t = elem_of(v);
  switch (LLVMGetTypeKind(t)) {
    case LLVMIntegerTypeKind: return (int)LLVMGetIntTypeWidth(t);
    case LLVMHalfTypeKind: return 16;
    case LLVMFloatTypeKind: return 32;
    default: return 64;
  }
}

val splat(emit *e, val v, int lanes) {
  if (lanes == 1 || lanes_of(v) == lanes) return v;
  if (LLVMIsConstant(v)) {
    val all[EMIT_MAX_LANES];
    for (int i = 0; i < lanes; i++) all[i] = v;
    return LLVMConstVector(all, (unsigned)lanes);
  }
  LLVMTypeRef t = wide(e, LLVMTypeOf(v), lanes);
  val one = LLVMBuildInsertElement(e->b, LLVMGetPoison(t), v, LLVMConstInt(e->i32, 0, 0), "");
  return LLVMBuildShuffleVector(e->b, one, LLVMGetPoison(t), LLVMConstNull(wide(e, e->i32, lanes)), "");
}

void match(emit *e, val *a, val *b) {
  int n = lanes_of(*a), m = lanes_of(*b);
  if (n < m) *a = splat(e, *a, m);
  if (m < n) *b = splat(e, *b, n);
}

/* ---- constants ---- */

val const_int(emit *e, val as, int64_t v) { return splat(e, LLVMConstInt(elem_of(as), (unsigned long long)v, 1), lanes_of(as)); }

val const_float(emit *e, val as, double v) { return splat(e, LLVMConstReal(elem_of(as), v), lanes_of(as)); }

val const_bits(emit *e, val as, uint64_t bits) {
  LLVMTypeRef f = elem_of(as);
  val i = LLVMConstInt(bits_of(as) == 32 ? e->i32 : e->i64, bits, 0);
  return splat(e, LLVMConstBitCast(i, f), lanes_of(as));
}

val lane_numbers(emit *e, LLVMTypeRef t, int lanes, int64_t step) {
  val all[EMIT_MAX_LANES];
  for (int i = 0; i < lanes; i++) all[i] = LLVMConstInt(t, (unsigned long long)((int64_t)i * step), 1);
  (void)e;
  return lanes == 1 ? all[0] : LLVMConstVector(all, (unsigned)lanes);
}

/* ---- operations ---- */

val bin(emit *e, LLVMOpcode op, val a, val b) {
  match(e, &a, &b);
  return LLVMBuildBinOp(e->b, op, a, b, "");
}

val cast(emit *e, LLVMOpcode op, val a, LLVMTypeRef to) {
  LLVMTypeRef t = like(e, to, a);
  return LLVMTypeOf(a) == t ? a : LLVMBuildCast(e->b, op, a, t, "");
}

val icmp(emit *e, LLVMIntPredicate p, val a, val b) {
  match(e, &a, &b);
  return LLVMBuildICmp(e->b, p, a, b, "");
}

val fcmp(emit *e, LLVMRealPredicate p, val a, val b) {
  match(e, &a, &b);
  return LLVMBuildFCmp(e->b, p, a, b, "");
}

val choose(emit *e, val c, val t, val f) {
  match(e, &t, &f);
  int n = lanes_of(c), m = lanes_of(t);
  if (m < n) {
    t = splat(e, t, n);
    f = splat(e, f, n);
  }
  return LLVMBuildSelect(e->b, c, t, f, ""); /* a scalar condition may choose between vectors */
}

val intrinsic(emit *e, const char *name, int n, val *args, int n_types, LLVMTypeRef *types) {
  unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
  sn_assert(id != 0);
  val fn = LLVMGetIntrinsicDeclaration(e->module, id, types, (size_t)n_types);
  LLVMTypeRef t = LLVMIntrinsicGetType(e->cx, id, types, (size_t)n_types);
  return LLVMBuildCall2(e->b, t, fn, args, (unsigned)n, "");
}

val call1(emit *e, const char *name, val a) {
  LLVMTypeRef t = LLVMTypeOf(a);
  return intrinsic(e, name, 1, &a, 1, &t);
}

val call2(emit *e, const char *name, val a, val b) {
  match(e, &a, &b);
  LLVMTypeRef t = LLVMTypeOf(a);
  val args[2] = {a, b};
  return intrinsic(e, name, 2, args, 1, &t);
}

val fma_op(emit *e, val a, val b, val c) {
  if (!e->fma) return add_f(e, mul_f(e, a, b), c);
  match(e, &a, &b);
  match(e, &a, &c);
  match(e, &a, &b);
  LLVMTypeRef t = LLVMTypeOf(a);
  val args[3] = {a, b, c};
  return intrinsic(e, "llvm.fma", 3, args, 1, &t);
}

/* ---- lanes ---- */

val any_lane(emit *e, val mask) {
  int n = lanes_of(mask);
  if (n == 1) return mask;
  val bits = LLVMBuildBitCast(e->b, mask, LLVMIntTypeInContext(e->cx, (unsigned)n), "");
  return LLVMBuildICmp(e->b, LLVMIntNE, bits, LLVMConstNull(LLVMTypeOf(bits)), "");
}

val lane(emit *e, val v, int l) { return lanes_of(v) == 1 ? v : LLVMBuildExtractElement(e->b, v, LLVMConstInt(e->i32, (unsigned long long)l, 0), ""); }

val from_lanes(emit *e, int n, val *parts) {
  if (n == 1) return parts[0];
  val v = LLVMGetPoison(LLVMVectorType(LLVMTypeOf(parts[0]), (unsigned)n));
  for (int i = 0; i < n; i++) v = LLVMBuildInsertElement(e->b, v, parts[i], LLVMConstInt(e->i32, (unsigned long long)i, 0), "");
  return v;
}

val shuffle(emit *e, val a, val b, int n, const int *which) {
  val mask[2 * EMIT_MAX_LANES];
  for (int i = 0; i < n; i++) mask[i] = LLVMConstInt(e->i32, (unsigned long long)which[i], 0);
  if (!b) b = LLVMGetPoison(LLVMTypeOf(a));
  return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, (unsigned)n), "");
}

val reverse_lanes(emit *e, val v) {
  int which[EMIT_MAX_LANES], n = lanes_of(v);
  for (int i = 0; i < n; i++) which[i] = n - 1 - i;
  return n == 1 ? v : shuffle(e, v, NULL, n, which);
}

val and_masks(emit *e, val a, val b) { return !a ? b : !b ? a : and_(e, a, b); }

/* ---- blocks ---- */

LLVMBasicBlockRef new_block(emit *e, const char *name) { return LLVMAppendBasicBlockInContext(e->cx, e->fn, name); }
LLVMBasicBlockRef here(const emit *e) { return LLVMGetInsertBlock(e->b); }
void jump(emit *e, LLVMBasicBlockRef to) { LLVMBuildBr(e->b, to); }
LLVMValueRef branch(emit *e, val c, LLVMBasicBlockRef t, LLVMBasicBlockRef f) { return LLVMBuildCondBr(e->b, c, t, f); }
void at_end(emit *e, LLVMBasicBlockRef b) { LLVMPositionBuilderAtEnd(e->b, b); }
val phi(emit *e, LLVMTypeRef t) { return LLVMBuildPhi(e->b, t, ""); }
void phi_add(val p, val v, LLVMBasicBlockRef from) { LLVMAddIncoming(p, &v, &from, 1); }

val stack_slot(emit *e, LLVMTypeRef t, int64_t n, unsigned align) {
  LLVMBasicBlockRef back = here(e);
  LLVMValueRef first = LLVMGetFirstInstruction(e->entry);
  if (first) LLVMPositionBuilderBefore(e->b, first);
  else at_end(e, e->entry);
  val slot = LLVMBuildAlloca(e->b, LLVMArrayType2(t, (uint64_t)n), "");
  LLVMSetAlignment(slot, align);
  at_end(e, back);
  return slot;
}

counted count_from(emit *e, val from, val to) {
  counted c = {new_block(e, "count"), new_block(e, "counted"), NULL};
  LLVMBasicBlockRef before = here(e), body = new_block(e, "each");
  jump(e, c.head);
  at_end(e, c.head);
  c.i = phi(e, e->i64);
  phi_add(c.i, from, before);
  branch(e, icmp(e, LLVMIntSLT, c.i, to), body, c.done);
  at_end(e, body);
  return c;
}

void count_end(emit *e, const counted *c, int64_t step) {
  phi_add(c->i, add(e, c->i, LLVMConstInt(e->i64, (unsigned long long)step, 0)), here(e));
  jump(e, c->head);
  at_end(e, c->done);
}
