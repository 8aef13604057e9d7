/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The nodes of a region, one after the other, as C statements. */
#include "emit.h"

#include <string.h>

const char *gpu_element(gpu_emit *e, int buffer, const char *offset) {
  const char *name = e->buffers[buffer].name;
  return strcmp(offset, "0") == 0 && e->k->buffers[buffer].rank == 0 ? gpu_text(e, "*%s", name) : gpu_text(e, "%s[%s]", name, offset);
}

static const char *trailing(gpu_emit *e, const sn_knode *n) { return n->comment ? gpu_text(e, "  // %s", n->comment) : ""; }

/* `const T v7 = expression;  // name` */
static void define(gpu_emit *e, const sn_knode *n, const char *expression) {
  const char *name = gpu_text(e, "v%u", n->results[0].id);
  e->names[n->results[0].id] = name;
  gpu_line(e, "const %s %s = %s;%s", gpu_value_type(n->results[0].type), name, expression, trailing(e, n));
}

static void emit_load(gpu_emit *e, const sn_knode *n) {
  sn_type t = n->results[0].type;
  const char *array = gpu_wide_array(e, n);
  if (array) {
    define(e, n, gpu_from_memory(e, t, gpu_text(e, "%s[d%d]", array, n->region->parent->var)));
    return;
  }
  bool spread = e->buffers[n->buffer].home == HOME_SPREAD;
  const char *slot = spread ? gpu_spread_slot(e, n) : gpu_offset(e, n->buffer, n->at), *guard = gpu_guards(e, n->n_guards, n->guards);
  if (!slot) {
    gpu_fail(e, SN_ERR_UNSUPPORTED, "sums spread over a block's registers are read by another thread than the one that holds them");
    return;
  }
  const char *x = gpu_from_memory(e, t, gpu_element(e, n->buffer, slot));
  if (guard) {
    const char *other = n->n_operands ? gpu_name(e, n->operands[0]) : gpu_constant(e, t, (const uint64_t[2]){0, 0});
    x = gpu_text(e, "%s ? %s%s%s : %s", guard, t == SN_TYPE_PRED ? "(" : "", x, t == SN_TYPE_PRED ? ")" : "", other);
  }
  define(e, n, x);
}

/* Stores of the whole block, or of a warp, are one thread's, but to arrays that every thread has. */
static const char *store_guard(gpu_emit *e, const sn_knode *n) {
  const char *guard = gpu_guards(e, n->n_guards, n->guards);
  if (e->lane || e->buffers[n->buffer].home == HOME_PRIVATE || e->buffers[n->buffer].home == HOME_THREAD) return guard;
  const char *first = e->warp ? "lane % 32 == 0" : "lane == 0";
  return guard ? gpu_text(e, "%s && %s", first, guard) : first;
}

static void emit_store(gpu_emit *e, const sn_knode *n) {
  const char *at = gpu_element(e, n->buffer, gpu_offset(e, n->buffer, n->at)), *guard = store_guard(e, n);
  const char *v = gpu_to_memory(e, e->k->buffers[n->buffer].type, gpu_name(e, n->operands[0]));
  if (e->buffers[n->buffer].operand) v = gpu_text(e, "sn_to_tf32(%s)", v);
  const char *array = gpu_wide_array(e, n);
  if (array) {
    gpu_line(e, "%s[d%d] = %s;%s", array, n->region->parent->var, v, trailing(e, n));
    return;
  }
  if (guard) gpu_line(e, "if (%s) %s = %s;%s", guard, at, v, trailing(e, n));
  else gpu_line(e, "%s = %s;%s", at, v, trailing(e, n));
}

/* ---- atomic updates: the instruction for 32-bit sums and the like, else a loop of compare and exchange ---- */

static const char *atomic_function(sn_opcode op, sn_type t) {
  if (t != SN_TYPE_S32 && t != SN_TYPE_U32) return NULL;
  switch (op) {
    case SN_OP_ADD: return "atomicAdd";
    case SN_OP_MAXIMUM: return "atomicMax";
    case SN_OP_MINIMUM: return "atomicMin";
    case SN_OP_AND: return "atomicAnd";
    case SN_OP_OR: return "atomicOr";
    case SN_OP_XOR: return "atomicXor";
    default: return NULL;
  }
}

static void emit_atomic(gpu_emit *e, const sn_knode *n) {
  sn_type t = e->k->buffers[n->buffer].type;
  const char *at = gpu_element(e, n->buffer, gpu_offset(e, n->buffer, n->at)), *guard = store_guard(e, n), *v = gpu_name(e, n->operands[0]);
  const char *fn = atomic_function(n->hlo, t);
  size_t bytes = sn_type_bytes(t);
  if (guard) gpu_line(e, "if (%s)", guard);
  if (fn) {
    gpu_line(e, "%s%s(&%s, %s);%s", guard ? "  " : "", fn, at, v, trailing(e, n));
    return;
  }
  if (sn_type_is_complex(t) || (bytes != 4 && bytes != 8)) {
    gpu_fail(e, SN_ERR_UNSUPPORTED, "an atomic update of %s has no CUDA code", sn_type_text(t));
    return;
  }
  const char *word = bytes == 4 ? "unsigned int" : "unsigned long long";
  const char *in = t == SN_TYPE_F32 ? "__uint_as_float(was)" : t == SN_TYPE_F64 ? "__longlong_as_double((long long)was)" : gpu_text(e, "(%s)was", gpu_value_type(t));
  const char *out = t == SN_TYPE_F32 ? "__float_as_uint(next)" : t == SN_TYPE_F64 ? "(unsigned long long)__double_as_longlong(next)" : gpu_text(e, "(%s)next", word);
  gpu_line(e, "for (%s was = *(volatile %s *)&%s, seen;; was = seen) {%s", word, word, at, trailing(e, n));
  gpu_line(e, "  const %s old = %s, next = %s;", gpu_value_type(t), in, gpu_binary(e, n->hlo, t, "old", v));
  gpu_line(e, "  if ((seen = atomicCAS((%s *)&%s, was, %s)) == was) break;", word, at, out);
  gpu_line(e, "}");
}

/* The symbol counts from sym_lo: its expression is `symbol + sym_lo`. */
static void emit_bind(gpu_emit *e, const sn_knode *n) {
  sn_type t = n->operands[0]->type;
  const char *v = gpu_name(e, n->operands[0]);
  bool wide = n->sym_hi - n->sym_lo > (INT64_C(1) << 30);
  e->sym64[n->var] = wide;
  const char *x = gpu_text(e, "(long long)%s", v);
  if (t == SN_TYPE_U64) x = gpu_text(e, "(long long)sn_min(%s, %lluULL)", v, (unsigned long long)n->sym_hi);
  else x = gpu_text(e, "sn_min(%s, %lldLL)", x, (long long)n->sym_hi);
  x = gpu_text(e, "sn_max(%s, %lldLL)", x, (long long)n->sym_lo);
  if (n->sym_lo) x = gpu_text(e, "%s - (%lldLL)", x, (long long)n->sym_lo);
  gpu_line(e, "const %s s%d = %s%s%s;", wide ? "long long" : "int", n->var, wide ? "" : "(int)(", x, wide ? "" : ")");
}

/* ---- branches and general loops ---- */

void gpu_assign_yields(gpu_emit *e, const sn_kregion *r, int n, const char *const *to) {
  const sn_knode *y = r->last;
  if (n == 0) return;
  if (!y || y->op != SN_K_YIELD || y->n_operands != n) {
    gpu_fail(e, SN_ERR_INTERNAL, "a region does not yield what its owner carries");
    return;
  }
  if (n == 1) {
    gpu_line(e, "%s = %s;", to[0], gpu_name(e, y->operands[0]));
    return;
  }
  /* All are read before any is written: a value may move from one place to another. */
  int first = e->n_temporaries;
  e->n_temporaries += n;
  for (int i = 0; i < n; i++) gpu_line(e, "const %s t%d = %s;", gpu_value_type(y->operands[i]->type), first + i, gpu_name(e, y->operands[i]));
  for (int i = 0; i < n; i++) gpu_line(e, "%s = t%d;", to[i], first + i);
}

static bool fits(gpu_emit *e, int n) {
  if (n <= 64) return true;
  gpu_fail(e, SN_ERR_UNSUPPORTED, "more than 64 values carried at once");
  return false;
}

static void branch_body(gpu_emit *e, const sn_knode *n, int which, const char *const *to) {
  e->depth++;
  gpu_region(e, n->regions[which]);
  gpu_assign_yields(e, n->regions[which], n->n_results, to);
  e->depth--;
}

/* What either branch touched counts as touched after both. */
static void emit_if(gpu_emit *e, const sn_knode *n) {
  const char *to[64], *guard = gpu_guards(e, n->n_guards, n->guards);
  if (!fits(e, n->n_results)) return;
  for (int i = 0; i < n->n_results; i++) {
    e->names[n->results[i].id] = to[i] = gpu_text(e, "v%u", n->results[i].id);
    gpu_line(e, "%s %s;", gpu_value_type(n->results[i].type), to[i]);
  }
  if (n->n_operands) guard = guard ? gpu_text(e, "%s && %s", guard, gpu_name(e, n->operands[0])) : gpu_name(e, n->operands[0]);
  gpu_line(e, "if (%s) {%s", guard ? guard : "true", trailing(e, n));
  int n_buffers = e->k->n_buffers;
  gpu_buffer *before = sn_arena_copy(e->arena, e->buffers, (size_t)n_buffers * sizeof *before);
  branch_body(e, n, 0, to);
  gpu_buffer *then = sn_arena_copy(e->arena, e->buffers, (size_t)n_buffers * sizeof *then);
  if (n_buffers && (!before || !then)) {
    gpu_fail(e, SN_ERR_MEMORY, NULL);
    return;
  }
  if (n->regions[1]->first) {
    for (int b = 0; b < n_buffers; b++) e->buffers[b] = before[b];
    gpu_line(e, "} else {");
    branch_body(e, n, 1, to);
    for (int b = 0; b < n_buffers; b++) before[b] = then[b];
  }
  for (int b = 0; b < n_buffers; b++) gpu_join(&e->buffers[b], &before[b]);
  gpu_line(e, "}");
}

static void emit_while(gpu_emit *e, const sn_knode *n) {
  const char *to[64];
  if (!fits(e, n->n_operands)) return;
  for (int i = 0; i < n->n_operands; i++) {
    to[i] = gpu_text(e, "v%u", n->regions[0]->params[i].id);
    e->names[n->regions[0]->params[i].id] = e->names[n->regions[1]->params[i].id] = e->names[n->results[i].id] = to[i];
    gpu_line(e, "%s %s = %s;", gpu_value_type(n->operands[i]->type), to[i], gpu_name(e, n->operands[i]));
  }
  gpu_buffer *before;
  bool barrier = gpu_enter_loop(e, n, &before);
  gpu_line(e, "for (;;) {%s", trailing(e, n));
  e->depth++;
  if (barrier) gpu_barrier(e);
  gpu_region(e, n->regions[0]);
  const sn_knode *y = n->regions[0]->last;
  if (y && y->op == SN_K_YIELD && y->n_operands == 1) gpu_line(e, "if (!%s) break;", gpu_name(e, y->operands[0]));
  else gpu_fail(e, SN_ERR_INTERNAL, "a while loop's condition yields no pred");
  gpu_region(e, n->regions[1]);
  gpu_assign_yields(e, n->regions[1], n->n_operands, to);
  e->depth--;
  gpu_line(e, "}");
  gpu_after_loop(e, n, before);
}

/* ---- dispatch ---- */

static void emit_index(gpu_emit *e, const sn_knode *n) {
  sn_type from = gpu_index_is64(e, n->at[0]) ? SN_TYPE_S64 : SN_TYPE_S32;
  const char *text = gpu_text(e, "(%s)", gpu_index(e, n->at[0]));
  define(e, n, gpu_convert(e, n->results[0].type, from, text));
}

static void emit_fma(gpu_emit *e, const sn_knode *n) {
  sn_type t = n->results[0].type;
  const char *fn = t == SN_TYPE_F64 ? "fma" : "fmaf";
  define(e, n, gpu_round(e, t, gpu_text(e, "%s(%s, %s, %s)", fn, gpu_name(e, n->operands[0]), gpu_name(e, n->operands[1]), gpu_name(e, n->operands[2]))));
}

static void emit_constant(gpu_emit *e, const sn_knode *n) { e->names[n->results[0].id] = gpu_constant(e, n->results[0].type, n->bits); }

static void emit_node(gpu_emit *e, const sn_knode *n) {
  gpu_before(e, n);
  switch (n->op) {
    case SN_K_CONST: emit_constant(e, n); break;
    case SN_K_INDEX: emit_index(e, n); break;
    case SN_K_ELT: define(e, n, gpu_elementwise(e, n)); break;
    case SN_K_FMA: emit_fma(e, n); break;
    case SN_K_LOAD: emit_load(e, n); break;
    case SN_K_STORE: emit_store(e, n); break;
    case SN_K_ATOMIC: emit_atomic(e, n); break;
    case SN_K_BIND: emit_bind(e, n); break;
    case SN_K_FOR: gpu_for(e, n); break;
    case SN_K_IF: emit_if(e, n); break;
    case SN_K_WHILE: emit_while(e, n); break;
    case SN_K_CONTRACT: gpu_contract(e, n); break;
    case SN_K_COPY: gpu_copy(e, n); break;
    case SN_K_BARRIER:
      if (!e->lane && !e->warp) gpu_barrier(e);
      break;
    case SN_K_COMMIT: gpu_line(e, "asm volatile(\"cp.async.commit_group;\" ::: \"memory\");"); break;
    case SN_K_WAIT:
      gpu_line(e, "asm volatile(\"cp.async.wait_group %llu;\" ::: \"memory\");", (unsigned long long)n->bits[0]);
      if (!e->lane) gpu_barrier(e);
      break;
    case SN_K_PREFETCH: /* warps in flight hide what a core has to ask for beforehand */
    case SN_K_YIELD: /* read by who owns the region */
    case SN_K_COUNT: break;
  }
}

void gpu_region(gpu_emit *e, const sn_kregion *r) {
  for (const sn_knode *n = r->first; n && e->status == SN_OK; n = n->next) emit_node(e, n);
}
