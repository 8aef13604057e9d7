/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One node of a kernel after the other. */
#include "emit.h"

elem value_of(emit *e, const sn_kvalue *v) {
  elem x = e->values[v->id];
  if (x.v[0]) return x;
  emit_fail(e, SN_ERR_INTERNAL, "v%u is used before it is defined", v->id);
  x.v[0] = x.v[1] = LLVMGetPoison(register_type(e, v->type));
  return x;
}

static elem emit_index_value(emit *e, const sn_knode *n) {
  val i = emit_index(e, n->at[0]);
  elem v = {{i, NULL}};
  return convert_elem(e, n->results[0].type, bits_of(i) == 32 ? SN_TYPE_S32 : SN_TYPE_S64, v);
}

/* The symbol counts from sym_lo: its expression is `symbol + sym_lo`. */
static void emit_bind(emit *e, const sn_knode *n) {
  sn_type t = n->operands[0]->type;
  val v = value_of(e, n->operands[0]).v[0];
  bool is_signed = sn_type_is_signed(t);
  if (bits_of(v) < 64) v = cast(e, is_signed ? LLVMSExt : LLVMZExt, v, e->i64);
  val lo = const_int(e, v, n->sym_lo), hi = const_int(e, v, n->sym_hi);
  if (t == SN_TYPE_U64) v = choose(e, icmp(e, LLVMIntUGT, v, hi), hi, v);
  else v = choose(e, icmp(e, LLVMIntSGT, v, hi), hi, v);
  v = choose(e, icmp(e, LLVMIntSLT, v, lo), lo, v);
  if (n->sym_lo) v = sub(e, v, lo);
  if (n->var < 0 || n->var >= e->k->n_syms) {
    emit_fail(e, SN_ERR_INTERNAL, "s%d is beyond the kernel's symbols", n->var);
    return;
  }
  e->syms[n->var] = (index_var){v, 0, lanes_of(v) > 1, e->depth, true};
}

static elem emit_fma_node(emit *e, const sn_knode *n) {
  elem a = value_of(e, n->operands[0]), b = value_of(e, n->operands[1]), c = value_of(e, n->operands[2]);
  elem r = {{emit_fma(e, n->results[0].type, a.v[0], b.v[0], c.v[0]), NULL}};
  return r;
}

/* Tile copies are loads and stores here: one core has nothing to overlap them with. */
static void emit_copy(emit *e, const sn_knode *n) {
  const sn_kcopy *c = n->copy;
  const sn_kbuffer *to = &e->k->buffers[c->to.buffer];
  LLVMTypeRef part = memory_type(e, to->type), unit = sn_type_is_complex(to->type) ? LLVMArrayType2(part, 2) : part;
  val dst = emit_offset(e, unit, e->buffers[c->to.buffer], c->to.buffer, c->to.at);
  val src = emit_offset(e, unit, e->buffers[c->from.buffer], c->from.buffer, c->from.at);
  val size[2] = {emit_index(e, c->m), emit_index(e, c->n)}, i[2];
  LLVMBasicBlockRef head[2], body[2], end[2], from[2];
  for (int d = 0; d < 2; d++) {
    head[d] = new_block(e, "copy");
    body[d] = new_block(e, "row");
    end[d] = new_block(e, "copied");
    from[d] = here(e);
    jump(e, head[d]);
    at_end(e, head[d]);
    i[d] = phi(e, e->i64);
    phi_add(i[d], LLVMConstInt(e->i64, 0, 0), from[d]);
    branch(e, icmp(e, LLVMIntSLT, i[d], size[d]), body[d], end[d]);
    at_end(e, body[d]);
  }
  val at[2] = {LLVMConstInt(e->i64, 0, 0), LLVMConstInt(e->i64, 0, 0)};
  for (int d = 0; d < 2; d++) {
    at[0] = add(e, at[0], mul(e, i[d], LLVMConstInt(e->i64, (unsigned long long)c->to.stride[d], 1)));
    at[1] = add(e, at[1], mul(e, i[d], LLVMConstInt(e->i64, (unsigned long long)c->from.stride[d], 1)));
  }
  val v = LLVMBuildLoad2(e->b, unit, LLVMBuildGEP2(e->b, unit, src, &at[1], 1, ""), "");
  val s = LLVMBuildStore(e->b, v, LLVMBuildGEP2(e->b, unit, dst, &at[0], 1, ""));
  unsigned align = (unsigned)sn_type_bytes(sn_type_real_part(to->type));
  LLVMSetAlignment(v, align);
  LLVMSetAlignment(s, align);
  for (int d = 1; d >= 0; d--) {
    phi_add(i[d], add(e, i[d], LLVMConstInt(e->i64, 1, 0)), here(e));
    jump(e, head[d]);
    at_end(e, end[d]);
  }
}

static void emit_prefetch(emit *e, const sn_knode *n) {
  const sn_kbuffer *b = &e->k->buffers[n->buffer];
  LLVMTypeRef part = memory_type(e, b->type), unit = sn_type_is_complex(b->type) ? LLVMArrayType2(part, 2) : part;
  val args[4] = {emit_offset(e, unit, e->buffers[n->buffer], n->buffer, n->at), LLVMConstInt(e->i32, n->bits[0], 0), LLVMConstInt(e->i32, 3, 0), LLVMConstInt(e->i32, 1, 0)};
  intrinsic(e, "llvm.prefetch", 4, args, 1, &e->ptr);
}

static void emit_node(emit *e, const sn_knode *n) {
  elem r = {{NULL, NULL}};
  switch (n->op) {
    case SN_K_CONST: r = emit_const(e, n->results[0].type, n->bits); break;
    case SN_K_INDEX: r = emit_index_value(e, n); break;
    case SN_K_ELT: r = emit_elementwise(e, n); break;
    case SN_K_FMA: r = emit_fma_node(e, n); break;
    case SN_K_LOAD: r = emit_load(e, n); break;
    case SN_K_STORE: emit_store(e, n); return;
    case SN_K_ATOMIC: emit_atomic(e, n); return;
    case SN_K_BIND: emit_bind(e, n); return;
    case SN_K_FOR: emit_for(e, n); return;
    case SN_K_IF: emit_if(e, n); return;
    case SN_K_WHILE: emit_while(e, n); return;
    case SN_K_CONTRACT: emit_contract(e, n); return;
    case SN_K_COPY: emit_copy(e, n); return;
    case SN_K_PREFETCH: emit_prefetch(e, n); return;
    default: return; /* yields are read by who owns the region; one thread runs an item, so barriers and waits are nothing */
  }
  if (n->n_results == 1) e->values[n->results[0].id] = r;
}

void emit_region(emit *e, const sn_kregion *r) {
  for (const sn_knode *n = r->first; n && e->status == SN_OK; n = n->next) emit_node(e, n);
}

void emit_yielded(emit *e, const sn_kregion *r, elem *out) {
  const sn_knode *y = r->last;
  if (!y || y->op != SN_K_YIELD) return;
  for (int i = 0; i < y->n_operands; i++) out[i] = value_of(e, y->operands[i]);
}
