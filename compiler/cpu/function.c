/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One function a phase: void(env, begin, end), a loop over items that finds an item's grid position and runs the body. */
#include "emit.h"

#include <string.h>

void emit_begin(emit *e, LLVMContextRef cx, const char *module_name) {
  const sn_target *t = e->target;
  e->cx = cx;
  e->module = LLVMModuleCreateWithNameInContext(module_name, cx);
  e->b = LLVMCreateBuilderInContext(cx);
  e->i1 = LLVMInt1TypeInContext(cx);
  e->i8 = LLVMInt8TypeInContext(cx);
  e->i16 = LLVMInt16TypeInContext(cx);
  e->i32 = LLVMInt32TypeInContext(cx);
  e->i64 = LLVMInt64TypeInContext(cx);
  e->f16 = LLVMHalfTypeInContext(cx);
  e->f32 = LLVMFloatTypeInContext(cx);
  e->f64 = LLVMDoubleTypeInContext(cx);
  e->ptr = LLVMPointerTypeInContext(cx, 0);
  e->none = LLVMVoidTypeInContext(cx);
  e->fma = t->fma;
  e->avx512 = t->avx512;
  e->called = 0;
  e->lines = NULL;
  e->di = NULL;
  e->di_scope = NULL;
  e->f16c = t->features && (strstr(t->features, "+f16c") || strstr(t->features, "+fullfp16"));
}

void emit_end(emit *e) {
  if (e->di) LLVMDisposeDIBuilder(e->di);
  e->di = NULL;
  if (e->b) LLVMDisposeBuilder(e->b);
  if (e->module) LLVMDisposeModule(e->module);
  e->b = NULL;
  e->module = NULL;
}

static void text_attribute(emit *e, LLVMValueRef fn, const char *key, const char *value) {
  LLVMAttributeRef a = LLVMCreateStringAttribute(e->cx, key, (unsigned)strlen(key), value, (unsigned)strlen(value));
  LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, a);
}

void function_attributes(emit *e, LLVMValueRef fn) {
  static const char *const plain[] = {"nounwind", "nofree"};
  char width[16];
  for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
    unsigned kind = LLVMGetEnumAttributeKindForName(plain[i], strlen(plain[i]));
    LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(e->cx, kind, 0));
  }
  /* Full vectors, also where a processor's tuning would rather have half ones. */
  snprintf(width, sizeof width, "%d", 8 * e->target->vector_bytes);
  text_attribute(e, fn, "prefer-vector-width", width);
  text_attribute(e, fn, "min-legal-vector-width", width);
  text_attribute(e, fn, "no-builtins", "");
  LLVMSetVisibility(fn, LLVMHiddenVisibility);
}

void phase_symbol(int kernel, int phase, char *out, size_t bytes) { snprintf(out, bytes, "k%d_%d", kernel, phase); }

/* ---- buffers ---- */

static val env_field(emit *e, int field) {
  val at = LLVMConstInt(e->i64, (unsigned long long)field, 0);
  return LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, e->env, &at, 1, ""), "");
}

static bool is_argument(const sn_kbuffer *b) { return b->memory <= SN_KMEM_WORK; }

static LLVMTypeRef unit_of(emit *e, sn_type t) { return sn_type_is_complex(t) ? LLVMArrayType2(memory_type(e, t), 2) : memory_type(e, t); }

/* Which of the kernel's arguments a buffer is. */
static int argument_of(const sn_kernel *k, int buffer) {
  int n = 0;
  for (int i = 0; i < buffer; i++) n += is_argument(&k->buffers[i]);
  return n;
}

static void bind_buffers(emit *e, const sn_kphase_key *key) {
  val pointers = env_field(e, 0), scratch = env_field(e, 1);
  int64_t offset = 0;
  e->imports = env_field(e, 2);
  for (int i = 0; i < key->n_buffers; i++) {
    const sn_kbuffer *b = &e->k->buffers[key->buffers[i]];
    val *to = &e->buffers[key->buffers[i]];
    int64_t bytes = sn_kbuffer_bytes(b);
    if (is_argument(b)) {
      val at = LLVMConstInt(e->i64, (unsigned long long)argument_of(e->k, key->buffers[i]), 0);
      *to = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, pointers, &at, 1, ""), "");
    } else if (b->memory == SN_KMEM_SCRATCH) {
      val at = LLVMConstInt(e->i64, (unsigned long long)offset, 0);
      *to = LLVMBuildGEP2(e->b, e->i8, scratch, &at, 1, "");
      offset += (bytes + 63) / 64 * 64;
    } else {
      int64_t n = bytes / (int64_t)sn_type_bytes(b->type);
      *to = stack_slot(e, unit_of(e, b->type), n > 0 ? n : 1, 64);
    }
  }
}

/* ---- items ---- */

/* Item number to grid position, row-major. */
static void bind_grid(emit *e, const sn_kphase *p, val item) {
  val rest = item;
  for (int d = p->n_grid - 1; d >= 0; d--) {
    val size = LLVMConstInt(e->i64, (unsigned long long)p->grid[d], 0), at = rest;
    if (d > 0 && p->grid[d] > 0) {
      at = p->grid[d] == 1 ? LLVMConstInt(e->i64, 0, 0) : bin(e, LLVMURem, rest, size);
      rest = p->grid[d] == 1 ? rest : bin(e, LLVMUDiv, rest, size);
    }
    e->dims[d] = (index_var){at, 0, false, e->depth, true};
  }
}

static void emit_items(emit *e, const sn_kphase *p) {
  val begin = LLVMGetParam(e->fn, 1), end = LLVMGetParam(e->fn, 2), one = LLVMConstInt(e->i64, 1, 0);
  LLVMBasicBlockRef before = here(e), body = new_block(e, "item"), done = new_block(e, "end");
  LLVMValueRef leave = branch(e, icmp(e, LLVMIntSLT, begin, end), body, done);
  scope_open(e, leave);
  at_end(e, body);
  val item = phi(e, e->i64);
  phi_add(item, begin, before);
  bind_grid(e, p, item);
  emit_region(e, p->body);
  val next = add(e, item, one);
  phi_add(item, next, here(e));
  branch(e, icmp(e, LLVMIntSLT, next, end), body, done);
  scope_close(e);
  at_end(e, done);
  LLVMBuildRetVoid(e->b);
}

static val phase_function(emit *e, const phase_part *p, LLVMTypeRef *type) {
  char name[64];
  LLVMTypeRef types[3] = {e->ptr, e->i64, e->i64};
  phase_symbol(p->kernel, p->phase, name, sizeof name);
  *type = LLVMFunctionType(e->none, types, 3, 0);
  val fn = LLVMGetNamedFunction(e->module, name);
  if (fn) return fn;
  fn = LLVMAddFunction(e->module, name, *type);
  function_attributes(e, fn);
  return fn;
}

static void open_function(emit *e, const phase_part *p) {
  LLVMTypeRef type;
  e->fn = phase_function(e, p, &type);
  e->env = LLVMGetParam(e->fn, 0);
  e->entry = new_block(e, "entry");
  e->dummy = NULL;
  at_end(e, e->entry);
  lines_function(e, p);
}

void emit_part(emit *e, const phase_part *p) {
  const sn_kernel *k = p->k;
  e->k = k;
  e->buffers = SN_NEW_N(e->arena, val, k->n_buffers + 1);
  e->values = SN_NEW_N(e->arena, elem, k->n_values + 1);
  e->dims = SN_NEW_N(e->arena, index_var, k->n_vars + 1);
  e->syms = SN_NEW_N(e->arena, index_var, k->n_syms + 1);
  e->memo = NULL;
  e->n_memo = 0;
  if (!e->buffers || !e->values || !e->dims || !e->syms) {
    emit_no_memory(e);
    return;
  }
  open_function(e, p);
  e->depth = 0;
  e->lanes = 1;
  e->mask = NULL;
  e->scopes[0] = (scope){NULL, ++e->n_serials};
  bind_buffers(e, &p->key);
  emit_items(e, &k->phases[p->phase]);
}

bool part_needs_door(const phase_part *p, const phase_part *to) {
  for (int i = 0; i < p->key.n_buffers; i++) {
    if (argument_of(p->k, p->key.buffers[i]) != argument_of(to->k, to->key.buffers[i]) && is_argument(&p->k->buffers[p->key.buffers[i]])) return true;
  }
  return false;
}

void emit_door(emit *e, const phase_part *p, const phase_part *to) {
  LLVMTypeRef type;
  open_function(e, p);
  val given = env_field(e, 0), fn = phase_function(e, to, &type), env = stack_slot(e, e->ptr, 3, 64), pointers = stack_slot(e, e->ptr, to->k->n_buffers, 64);
  val fields[3] = {pointers, env_field(e, 1), env_field(e, 2)};
  for (int i = 0; i < p->key.n_buffers; i++) {
    if (!is_argument(&p->k->buffers[p->key.buffers[i]])) continue;
    val from = LLVMConstInt(e->i64, (unsigned long long)argument_of(p->k, p->key.buffers[i]), 0), at = LLVMConstInt(e->i64, (unsigned long long)argument_of(to->k, to->key.buffers[i]), 0);
    val x = LLVMBuildLoad2(e->b, e->ptr, LLVMBuildGEP2(e->b, e->ptr, given, &from, 1, ""), "");
    LLVMBuildStore(e->b, x, LLVMBuildGEP2(e->b, e->ptr, pointers, &at, 1, ""));
  }
  for (int i = 0; i < 3; i++) {
    val at = LLVMConstInt(e->i64, (unsigned long long)i, 0);
    LLVMBuildStore(e->b, fields[i], LLVMBuildGEP2(e->b, e->ptr, env, &at, 1, ""));
  }
  val args[3] = {env, LLVMGetParam(e->fn, 1), LLVMGetParam(e->fn, 2)};
  LLVMBuildCall2(e->b, type, fn, args, 3, "");
  LLVMBuildRetVoid(e->b);
}

/* ---- support ---- */

/* for i in [0, n): to[i] = from ? from[i] : byte; backwards: from n - 1 down. */
static void byte_loop(emit *e, val to, val from, val byte, val n, bool backwards, LLVMBasicBlockRef done) {
  val one = LLVMConstInt(e->i64, 1, 0);
  LLVMBasicBlockRef before = here(e), body = new_block(e, "byte");
  branch(e, icmp(e, LLVMIntNE, n, LLVMConstInt(e->i64, 0, 0)), body, done);
  at_end(e, body);
  val left = phi(e, e->i64);
  phi_add(left, n, before);
  val next = sub(e, left, one), at = backwards ? next : sub(e, n, left);
  val v = from ? LLVMBuildLoad2(e->b, e->i8, LLVMBuildGEP2(e->b, e->i8, from, &at, 1, ""), "") : byte;
  LLVMBuildStore(e->b, v, LLVMBuildGEP2(e->b, e->i8, to, &at, 1, ""));
  phi_add(left, next, here(e));
  branch(e, icmp(e, LLVMIntNE, next, LLVMConstInt(e->i64, 0, 0)), body, done);
}

static void support_function(emit *e, const char *name, bool set) {
  LLVMTypeRef types[3] = {e->ptr, set ? e->i32 : e->ptr, e->i64};
  e->fn = LLVMAddFunction(e->module, name, LLVMFunctionType(e->ptr, types, 3, 0));
  function_attributes(e, e->fn);
  e->entry = new_block(e, "entry");
  at_end(e, e->entry);
  val to = LLVMGetParam(e->fn, 0), from = LLVMGetParam(e->fn, 1), n = LLVMGetParam(e->fn, 2);
  LLVMBasicBlockRef done = new_block(e, "done");
  if (set) {
    byte_loop(e, to, NULL, LLVMBuildTrunc(e->b, from, e->i8, ""), n, false, done);
  } else {
    LLVMBasicBlockRef up = new_block(e, "up"), down = new_block(e, "down");
    branch(e, icmp(e, LLVMIntULE, to, from), up, down);
    at_end(e, up);
    byte_loop(e, to, from, NULL, n, false, done);
    at_end(e, down);
    byte_loop(e, to, from, NULL, n, true, done);
  }
  at_end(e, done);
  LLVMBuildRet(e->b, to);
}

void emit_support(emit *e) {
  support_function(e, "memcpy", false);
  support_function(e, "memmove", false);
  support_function(e, "memset", true);
}
