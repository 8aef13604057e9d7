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

static void emit_prefetch(emit *e, const sn_knode *n) {
  const sn_kbuffer *b = &e->k->buffers[n->buffer];
  LLVMTypeRef part = memory_type(e, b->type), unit = sn_type_is_complex(b->type) ? LLVMArrayType2(part, 2) : part;
  unsigned level = n->bits[0] == SN_KPREFETCH_LATER ? 2 : 3; /* LLVM's locality: 3 is L1, 2 is L2 */
  val args[4] = {emit_offset(e, unit, e->buffers[n->buffer], n->buffer, n->at), LLVMConstInt(e->i32, n->bits[0] == SN_KPREFETCH_WRITE, 0), LLVMConstInt(e->i32, level, 0),
                 LLVMConstInt(e->i32, 1, 0)};
  intrinsic(e, "llvm.prefetch", 4, args, 1, &e->ptr);
}

static void emit_node(emit *e, const sn_knode *n) {
  elem r = {{NULL, NULL}};
  lines_at(e, n->comment);
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
