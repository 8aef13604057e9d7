/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loads, stores and atomic updates.
 *
 * By what the address does from lane to lane: one scalar access for all lanes; a vector access (backwards: reversed); else gather and scatter, before which a test at run
 * time finds lanes that are neighbours after all: a dimension split in two (heads of a row, rows of a batch) rarely ends inside a vector. Conditions that differ from lane
 * to lane become masks; one that is the same for all lanes turns the access to a dummy slot on the stack, so that no branch is needed. */
#include "emit.h"

enum { DUMMY_BYTES = EMIT_MAX_LANES * 16 };

LLVMTypeRef memory_type(emit *e, sn_type t) {
  t = sn_type_real_part(t);
  if (t == SN_TYPE_F32) return e->f32;
  if (t == SN_TYPE_F64) return e->f64;
  switch (sn_type_bytes(t)) {
    case 1: return e->i8;
    case 2: return e->i16;
    case 4: return e->i32;
    default: return e->i64;
  }
}

LLVMTypeRef register_type(emit *e, sn_type t) {
  t = sn_type_real_part(t);
  if (t == SN_TYPE_PRED) return e->i1;
  if (t == SN_TYPE_F64) return e->f64;
  return sn_type_is_float(t) ? e->f32 : memory_type(e, t);
}

val from_memory(emit *e, sn_type t, val raw) {
  t = sn_type_real_part(t);
  if (t == SN_TYPE_PRED) return icmp(e, LLVMIntNE, raw, const_int(e, raw, 0));
  if (sn_type_is_float(t) && t != SN_TYPE_F32 && t != SN_TYPE_F64) return decode_narrow(e, t, raw);
  return raw;
}

val to_memory(emit *e, sn_type t, val v) {
  t = sn_type_real_part(t);
  if (t == SN_TYPE_PRED) return cast(e, LLVMZExt, v, e->i8);
  if (sn_type_is_float(t) && t != SN_TYPE_F32 && t != SN_TYPE_F64) return encode_narrow(e, t, v);
  return v;
}

/* A place of the stack that may be read and written for nothing. */
static val dummy_slot(emit *e) {
  if (!e->dummy) e->dummy = stack_slot(e, e->i8, DUMMY_BYTES, 64);
  return e->dummy;
}

static val or_dummy(emit *e, val condition, val pointer) { return condition ? choose(e, condition, pointer, dummy_slot(e)) : pointer; }

static unsigned part_align(sn_type t) { return (unsigned)sn_type_bytes(sn_type_real_part(t)); }

static val step_pointer(emit *e, LLVMTypeRef t, val pointer, int64_t by) {
  val offset = LLVMConstInt(e->i64, (unsigned long long)by, 1);
  return by ? LLVMBuildGEP2(e->b, t, pointer, &offset, 1, "") : pointer;
}

/* One pointer a lane. `unit`: type of an element in memory. */
static val lane_pointers(emit *e, const place *p, LLVMTypeRef unit) {
  if (p->scattered) return p->pointer;
  bool few = p->lane_step * e->lanes <= INT32_MAX && p->lane_step * e->lanes >= INT32_MIN;
  val steps = lane_numbers(e, few ? e->i32 : e->i64, e->lanes, p->lane_step);
  return LLVMBuildGEP2(e->b, unit, p->pointer, &steps, 1, "");
}

static val full_mask(emit *e, val mask) { return mask ? mask : splat(e, LLVMConstInt(e->i1, 1, 0), e->lanes); }

/* ---- one part of an element ---- */

static val load_scalar(emit *e, LLVMTypeRef t, val pointer, unsigned align) {
  val v = LLVMBuildLoad2(e->b, t, pointer, "");
  LLVMSetAlignment(v, align);
  return v;
}

static val load_vector(emit *e, LLVMTypeRef t, val pointer, val mask, unsigned align) {
  LLVMTypeRef types[2] = {wide(e, t, e->lanes), e->ptr};
  if (!mask) return load_scalar(e, types[0], pointer, align);
  val args[4] = {pointer, LLVMConstInt(e->i32, align, 0), mask, LLVMConstNull(types[0])};
  return intrinsic(e, "llvm.masked.load", 4, args, 2, types);
}

static val gather(emit *e, LLVMTypeRef t, val pointers, val mask, unsigned align) {
  LLVMTypeRef types[2] = {wide(e, t, e->lanes), wide(e, e->ptr, e->lanes)};
  val args[4] = {pointers, LLVMConstInt(e->i32, align, 0), full_mask(e, mask), LLVMConstNull(types[0])};
  return intrinsic(e, "llvm.masked.gather", 4, args, 2, types);
}

static void store_scalar(emit *e, val v, val pointer, unsigned align) { LLVMSetAlignment(LLVMBuildStore(e->b, v, pointer), align); }

static void store_vector(emit *e, val v, val pointer, val mask, unsigned align) {
  LLVMTypeRef types[2] = {LLVMTypeOf(v), e->ptr};
  if (!mask) {
    store_scalar(e, v, pointer, align);
    return;
  }
  val args[4] = {v, pointer, LLVMConstInt(e->i32, align, 0), mask};
  intrinsic(e, "llvm.masked.store", 4, args, 2, types);
}

static void scatter(emit *e, val v, val pointers, val mask, unsigned align) {
  LLVMTypeRef types[2] = {LLVMTypeOf(v), LLVMTypeOf(pointers)};
  val args[4] = {v, pointers, LLVMConstInt(e->i32, align, 0), full_mask(e, mask)};
  intrinsic(e, "llvm.masked.scatter", 4, args, 2, types);
}

/* Do the lanes that matter touch neighbours, in order from lane 0's address on? */
static val neighbours(emit *e, LLVMTypeRef t, val pointers, val mask, val *first) {
  *first = lane(e, pointers, 0);
  val steps = lane_numbers(e, e->i32, e->lanes, 1), row = LLVMBuildGEP2(e->b, t, *first, &steps, 1, "");
  val apart = icmp(e, LLVMIntNE, pointers, row);
  return LLVMBuildNot(e->b, any_lane(e, and_masks(e, apart, mask)), "");
}

static val gather_or_load(emit *e, LLVMTypeRef t, val pointers, val mask, unsigned align) {
  LLVMBasicBlockRef row = new_block(e, "row"), apart = new_block(e, "apart"), done = new_block(e, "loaded");
  val first, near = neighbours(e, t, pointers, mask, &first);
  branch(e, near, row, apart);
  at_end(e, row);
  val a = load_vector(e, t, first, mask, align);
  row = here(e);
  jump(e, done);
  at_end(e, apart);
  val b = gather(e, t, pointers, mask, align);
  apart = here(e);
  jump(e, done);
  at_end(e, done);
  val v = phi(e, LLVMTypeOf(a));
  phi_add(v, a, row);
  phi_add(v, b, apart);
  return v;
}

static void scatter_or_store(emit *e, LLVMTypeRef t, val v, val pointers, val mask, unsigned align) {
  LLVMBasicBlockRef row = new_block(e, "row"), apart = new_block(e, "apart"), done = new_block(e, "stored");
  val first, near = neighbours(e, t, pointers, mask, &first);
  branch(e, near, row, apart);
  at_end(e, row);
  store_vector(e, v, first, mask, align);
  jump(e, done);
  at_end(e, apart);
  scatter(e, v, pointers, mask, align);
  jump(e, done);
  at_end(e, done);
}

/* ---- load ---- */

typedef struct access {
  sn_type type;
  int parts;           /* 2: complex */
  LLVMTypeRef part, unit;
  unsigned align;
  place at;
  val uniform;         /* condition for all lanes, or NULL */
  val mask;            /* lanes to touch, or NULL */
  bool vector;
} access;

static void access_of(emit *e, const sn_knode *n, val guard, access *a) {
  a->type = e->k->buffers[n->buffer].type;
  a->parts = sn_type_is_complex(a->type) ? 2 : 1;
  a->part = memory_type(e, a->type);
  a->unit = a->parts == 2 ? LLVMArrayType2(a->part, 2) : a->part;
  a->align = part_align(a->type);
  a->at = emit_place(e, n->buffer, n->at);
  a->vector = a->at.scattered || a->at.lane_step != 0;
  a->uniform = NULL;
  a->mask = NULL;
  bool varying = guard && lanes_of(guard) > 1;
  if (!a->vector) {
    a->uniform = varying ? any_lane(e, and_masks(e, e->mask, guard)) : guard;
    return;
  }
  bool contiguous = !a->at.scattered && (a->at.lane_step == 1 || a->at.lane_step == -1) && a->parts == 1;
  if (guard && !varying && contiguous && !e->mask) a->uniform = guard;
  else a->mask = and_masks(e, e->mask, guard ? splat(e, guard, e->lanes) : NULL);
}

static val load_part(emit *e, const access *a, int part) {
  if (!a->vector) return load_scalar(e, a->part, step_pointer(e, a->part, or_dummy(e, a->uniform, a->at.pointer), part), a->align);
  if (!a->at.scattered && a->parts == 1 && a->at.lane_step == 1) return load_vector(e, a->part, or_dummy(e, a->uniform, a->at.pointer), a->mask, a->align);
  if (!a->at.scattered && a->parts == 1 && a->at.lane_step == -1) {
    val last = step_pointer(e, a->part, a->at.pointer, 1 - e->lanes);
    val mask = a->mask ? reverse_lanes(e, a->mask) : NULL;
    return reverse_lanes(e, load_vector(e, a->part, or_dummy(e, a->uniform, last), mask, a->align));
  }
  val pointers = lane_pointers(e, &a->at, a->unit);
  if (a->at.scattered && a->parts == 1) return gather_or_load(e, a->part, pointers, a->mask, a->align);
  if (part) pointers = step_pointer(e, a->part, pointers, part);
  return gather(e, a->part, pointers, a->mask, a->align);
}

elem emit_load(emit *e, const sn_knode *n) {
  elem r = {{NULL, NULL}};
  access a;
  val guard = emit_guards(e, n->n_guards, n->guards);
  access_of(e, n, guard, &a);
  for (int p = 0; p < a.parts; p++) {
    r.v[p] = from_memory(e, a.type, load_part(e, &a, p));
    if (guard && n->n_operands) r.v[p] = choose(e, guard, r.v[p], value_of(e, n->operands[0]).v[p]);
  }
  return r;
}

/* ---- store ---- */

/* Of the lanes that store to one address the last active one wins. */
static val last_lane(emit *e, val v, val mask) {
  if (lanes_of(v) == 1) return v;
  if (!mask) return lane(e, v, lanes_of(v) - 1);
  LLVMTypeRef t = LLVMIntTypeInContext(e->cx, (unsigned)lanes_of(mask));
  val bits = LLVMBuildZExt(e->b, LLVMBuildBitCast(e->b, mask, t, ""), e->i64, "");
  LLVMTypeRef i64 = e->i64;
  val args[2] = {bits, LLVMConstInt(e->i1, 0, 0)};
  val zeros = intrinsic(e, "llvm.ctlz", 2, args, 1, &i64);
  val index = and_(e, LLVMBuildSub(e->b, LLVMConstInt(e->i64, 63, 0), zeros, ""), LLVMConstInt(e->i64, 63, 0));
  return LLVMBuildExtractElement(e->b, v, index, "");
}

static void store_part(emit *e, const access *a, int part, val v, val varying) {
  if (!a->vector) {
    v = last_lane(e, v, varying);
    store_scalar(e, v, step_pointer(e, a->part, or_dummy(e, a->uniform, a->at.pointer), part), a->align);
    return;
  }
  v = splat(e, v, e->lanes);
  if (!a->at.scattered && a->parts == 1 && a->at.lane_step == 1) {
    store_vector(e, v, or_dummy(e, a->uniform, a->at.pointer), a->mask, a->align);
    return;
  }
  if (!a->at.scattered && a->parts == 1 && a->at.lane_step == -1) {
    val last = step_pointer(e, a->part, a->at.pointer, 1 - e->lanes);
    store_vector(e, reverse_lanes(e, v), or_dummy(e, a->uniform, last), a->mask ? reverse_lanes(e, a->mask) : NULL, a->align);
    return;
  }
  val pointers = lane_pointers(e, &a->at, a->unit);
  if (a->at.scattered && a->parts == 1) {
    scatter_or_store(e, a->part, v, pointers, a->mask, a->align);
    return;
  }
  if (part) pointers = step_pointer(e, a->part, pointers, part);
  scatter(e, v, pointers, a->mask, a->align);
}

void emit_store(emit *e, const sn_knode *n) {
  access a;
  elem v = value_of(e, n->operands[0]);
  val guard = emit_guards(e, n->n_guards, n->guards);
  access_of(e, n, guard, &a);
  val varying = and_masks(e, e->mask, guard && lanes_of(guard) > 1 ? guard : NULL);
  for (int p = 0; p < a.parts; p++) store_part(e, &a, p, to_memory(e, a.type, v.v[p]), varying);
}

/* ---- atomic update: one lane after the other, each a loop of compare and exchange ---- */

static void atomic_lane(emit *e, const sn_knode *n, sn_type t, val pointer, elem v) {
  LLVMTypeRef bits = LLVMIntTypeInContext(e->cx, (unsigned)(8 * sn_type_bytes(t)));
  LLVMTypeRef memory = memory_type(e, t);
  LLVMBasicBlockRef loop = new_block(e, "atomic"), done = new_block(e, "updated");
  val first = load_scalar(e, bits, pointer, part_align(t));
  LLVMSetOrdering(first, LLVMAtomicOrderingMonotonic);
  LLVMBasicBlockRef from = here(e);
  jump(e, loop);
  at_end(e, loop);
  val old = phi(e, bits);
  phi_add(old, first, from);
  elem x = {{from_memory(e, t, LLVMBuildBitCast(e->b, old, memory, "")), NULL}};
  elem y = emit_combine(e, n->hlo, t, x, v);
  val next = LLVMBuildBitCast(e->b, to_memory(e, t, y.v[0]), bits, "");
  val pair = LLVMBuildAtomicCmpXchg(e->b, pointer, old, next, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic, 0);
  phi_add(old, LLVMBuildExtractValue(e->b, pair, 0, ""), here(e));
  branch(e, LLVMBuildExtractValue(e->b, pair, 1, ""), done, loop);
  at_end(e, done);
}

void emit_atomic(emit *e, const sn_knode *n) {
  access a;
  elem v = value_of(e, n->operands[0]);
  val guard = emit_guards(e, n->n_guards, n->guards);
  if (sn_type_is_complex(e->k->buffers[n->buffer].type)) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "an atomic update of complex numbers");
    return;
  }
  access_of(e, n, guard, &a);
  val active = and_masks(e, e->mask, guard);
  val pointers = a.vector ? lane_pointers(e, &a.at, a.unit) : a.at.pointer;
  for (int l = 0; l < e->lanes; l++) {
    LLVMBasicBlockRef skip = NULL;
    if (active) {
      LLVMBasicBlockRef go = new_block(e, "lane");
      skip = new_block(e, "next");
      branch(e, lane(e, active, l), go, skip);
      at_end(e, go);
    }
    elem one = {{lane(e, v.v[0], l), NULL}};
    atomic_lane(e, n, a.type, lane(e, pointers, l), one);
    if (!active) continue;
    jump(e, skip);
    at_end(e, skip);
  }
}
