/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels as text. Depends on nothing but the kernel: no addresses, no hash order. */
#include "sinter/kernel.h"

#include <math.h>
#include <string.h>

static const char *const memories[SN_KMEM_COUNT] = {"in", "out", "inout", "work", "register", "scratch"};

static void indent(sn_str *to, int depth) {
  for (int i = 0; i < depth; i++) sn_str_add(to, "  ");
}

static void print_buffer_type(sn_str *to, const sn_kbuffer *b) {
  sn_str_printf(to, "%s[", sn_type_text(b->type));
  for (int i = 0; i < b->rank; i++) sn_str_printf(to, i ? ",%lld" : "%lld", (long long)b->dims[i]);
  sn_str_char(to, ']');
  for (int i = 0; b->strides && i < b->rank; i++) sn_str_printf(to, i ? ",%lld" : " strides(%lld", (long long)b->strides[i]);
  if (b->strides && b->rank) sn_str_char(to, ')');
}

static void print_at(sn_str *to, int n, const sn_ix *const *at) {
  sn_str_char(to, '[');
  for (int i = 0; i < n; i++) {
    if (i) sn_str_add(to, ", ");
    sn_ix_print(to, at[i]);
  }
  sn_str_char(to, ']');
}

static void print_guards(sn_str *to, const sn_knode *n) {
  for (int g = 0; g < n->n_guards; g++) {
    sn_str_add(to, g ? ", " : " if (");
    sn_str_printf(to, "%lld <= ", (long long)n->guards[g].lo);
    sn_ix_print(to, n->guards[g].e);
    sn_str_printf(to, " <= %lld", (long long)n->guards[g].hi);
  }
  if (n->n_guards) sn_str_char(to, ')');
}

static void print_double(sn_str *to, uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  if (isnan(v)) sn_str_printf(to, "nan(0x%llx)", (unsigned long long)bits);
  else sn_str_printf(to, "%.17g", v);
}

static void print_const(sn_str *to, const sn_knode *n) {
  sn_type t = n->results[0].type;
  sn_str_add(to, "const ");
  if (sn_type_is_complex(t)) {
    sn_str_char(to, '(');
    print_double(to, n->bits[0]);
    sn_str_add(to, ", ");
    print_double(to, n->bits[1]);
    sn_str_char(to, ')');
  } else if (sn_type_is_float(t)) {
    print_double(to, n->bits[0]);
  } else {
    sn_str_i64(to, (int64_t)n->bits[0]);
  }
}

static void print_operands(sn_str *to, const sn_knode *n) {
  for (int i = 0; i < n->n_operands; i++) sn_str_printf(to, i ? ", v%u" : " v%u", n->operands[i]->id);
}

static void print_elt(sn_str *to, const sn_knode *n) {
  sn_str_add(to, sn_opcode_text(n->hlo));
  print_operands(to, n);
  if (n->hlo == SN_OP_COMPARE) {
    sn_str_printf(to, ", direction=%s", sn_enum_text(SN_DOMAIN_DIRECTION, n->direction));
    if (n->bits[0]) sn_str_add(to, ", type=TOTALORDER");
  }
  if (n->hlo == SN_OP_REDUCE_PRECISION) sn_str_printf(to, ", exponent_bits=%d, mantissa_bits=%d", (int)n->exponent_bits, (int)n->mantissa_bits);
}

static void print_tile(sn_str *to, const sn_kernel *k, const char *name, const sn_ktile *t) {
  sn_str_printf(to, "%s%%%d", name, t->buffer);
  print_at(to, k->buffers[t->buffer].rank, t->at);
  sn_str_printf(to, " by (%lld, %lld)", (long long)t->stride[0], (long long)t->stride[1]);
}

static void print_contract(sn_str *to, const sn_kernel *k, const sn_kcontract *c) {
  sn_str_printf(to, "contract %dx%d ", c->mr, c->nr);
  print_tile(to, k, "", &c->acc);
  print_tile(to, k, c->accumulate ? " += " : " = ", &c->a);
  print_tile(to, k, " * ", &c->b);
  sn_str_add(to, " m ");
  sn_ix_print(to, c->m);
  sn_str_add(to, " n ");
  sn_ix_print(to, c->n);
  sn_str_add(to, " k ");
  sn_ix_print(to, c->k);
  if (c->algorithm) sn_str_printf(to, " algorithm=%s", sn_enum_text(SN_DOMAIN_DOT_ALGORITHM, c->algorithm));
  if (c->exact) sn_str_add(to, " exact");
}

static void print_results(sn_str *to, const sn_knode *n) {
  for (int i = 0; i < n->n_results; i++) sn_str_printf(to, "%sv%u: %s", i ? ", " : "", n->results[i].id, sn_type_text(n->results[i].type));
  if (n->n_results) sn_str_add(to, " = ");
}

static void print_region(sn_str *to, const sn_kernel *k, const sn_kregion *r, int depth);

static void print_block(sn_str *to, const sn_kernel *k, const sn_kregion *r, int depth) {
  sn_str_add(to, " {\n");
  print_region(to, k, r, depth + 1);
  indent(to, depth);
  sn_str_char(to, '}');
}

static void print_for(sn_str *to, const sn_kernel *k, const sn_knode *n, int depth) {
  static const char *const loops[] = {"", " unroll", " vector", " threads", " warps"};
  sn_str_printf(to, "for d%d in ", n->var);
  sn_ix_print(to, n->lo);
  sn_str_add(to, " .. ");
  sn_ix_print(to, n->hi);
  if (n->step != 1) sn_str_printf(to, " step %lld", (long long)n->step);
  sn_str_add(to, loops[n->loop]);
  if (n->width) sn_str_printf(to, " %d", n->width);
  for (int i = 0; i < n->n_operands; i++) {
    sn_str_printf(to, "%sv%u: %s = v%u", i ? ", " : " carry(", n->regions[0]->params[i].id, sn_type_text(n->operands[i]->type), n->operands[i]->id);
    if (n->combine) sn_str_printf(to, " %s", sn_opcode_text(n->combine[i]));
  }
  if (n->n_operands) sn_str_char(to, ')');
  print_block(to, k, n->regions[0], depth);
}

static void print_while(sn_str *to, const sn_kernel *k, const sn_knode *n, int depth) {
  sn_str_add(to, "while carry(");
  for (int i = 0; i < n->n_operands; i++) {
    sn_str_printf(to, "%sv%u, v%u: %s = v%u", i ? "; " : "", n->regions[0]->params[i].id, n->regions[1]->params[i].id, sn_type_text(n->operands[i]->type), n->operands[i]->id);
  }
  sn_str_char(to, ')');
  print_block(to, k, n->regions[0], depth);
  sn_str_add(to, " do");
  print_block(to, k, n->regions[1], depth);
}

static void print_if(sn_str *to, const sn_kernel *k, const sn_knode *n, int depth) {
  sn_str_add(to, "when");
  print_guards(to, n);
  print_operands(to, n);
  print_block(to, k, n->regions[0], depth);
  if (!n->regions[1]->first) return;
  sn_str_add(to, " else");
  print_block(to, k, n->regions[1], depth);
}

static void print_copy(sn_str *to, const sn_kernel *k, const sn_knode *n) {
  const sn_kcopy *c = n->copy;
  sn_str_add(to, c->async ? "copy async " : "copy ");
  print_tile(to, k, "", &c->to);
  print_tile(to, k, " = ", &c->from);
  sn_str_add(to, " m ");
  sn_ix_print(to, c->m);
  sn_str_add(to, " n ");
  sn_ix_print(to, c->n);
  print_guards(to, n);
}

static void print_node(sn_str *to, const sn_kernel *k, const sn_knode *n, int depth) {
  indent(to, depth);
  print_results(to, n);
  switch (n->op) {
    case SN_K_CONST: print_const(to, n); break;
    case SN_K_INDEX: sn_str_add(to, "index "); sn_ix_print(to, n->at[0]); break;
    case SN_K_ELT: print_elt(to, n); break;
    case SN_K_FMA: sn_str_add(to, "fma"); print_operands(to, n); break;
    case SN_K_LOAD:
      sn_str_printf(to, "load %%%d", n->buffer);
      print_at(to, n->n_at, n->at);
      print_guards(to, n);
      if (n->n_operands) sn_str_printf(to, " else v%u", n->operands[0]->id);
      break;
    case SN_K_STORE:
    case SN_K_ATOMIC:
      sn_str_printf(to, "%s %%%d", n->op == SN_K_STORE ? "store" : "atomic", n->buffer);
      print_at(to, n->n_at, n->at);
      sn_str_printf(to, " %s= v%u", n->op == SN_K_ATOMIC ? sn_opcode_text(n->hlo) : "", n->operands[0]->id);
      print_guards(to, n);
      break;
    case SN_K_BIND: sn_str_printf(to, "bind s%d = v%u in %lld .. %lld", n->var, n->operands[0]->id, (long long)n->sym_lo, (long long)n->sym_hi); break;
    case SN_K_FOR: print_for(to, k, n, depth); break;
    case SN_K_IF: print_if(to, k, n, depth); break;
    case SN_K_WHILE: print_while(to, k, n, depth); break;
    case SN_K_YIELD: sn_str_add(to, "yield"); print_operands(to, n); break;
    case SN_K_CONTRACT: print_contract(to, k, n->contract); break;
    case SN_K_BARRIER: sn_str_add(to, "barrier"); break;
    case SN_K_COPY: print_copy(to, k, n); break;
    case SN_K_PREFETCH:
      sn_str_printf(to, "prefetch %s%%%d", n->bits[0] == SN_KPREFETCH_WRITE ? "write " : n->bits[0] == SN_KPREFETCH_LATER ? "later " : "", n->buffer);
      print_at(to, n->n_at, n->at);
      break;
    case SN_K_COMMIT: sn_str_add(to, "commit"); break;
    case SN_K_WAIT: sn_str_printf(to, "wait %llu", (unsigned long long)n->bits[0]); break;
    case SN_K_COUNT: break;
  }
  if (n->comment && n->op != SN_K_YIELD && n->op != SN_K_CONST) sn_str_printf(to, "  // %s", n->comment);
  sn_str_char(to, '\n');
}

/* Nesting is bounded by who builds kernels (lowering: 64 loops; the parser has its own limit). */
static void print_region(sn_str *to, const sn_kernel *k, const sn_kregion *r, int depth) {
  for (const sn_knode *n = r->first; n; n = n->next) print_node(to, k, n, depth);
}

void sn_kernel_print(sn_str *to, const sn_kernel *k) {
  int first_local = 0;
  sn_str_printf(to, "kernel @%s(", k->name);
  for (; first_local < k->n_buffers && k->buffers[first_local].memory <= SN_KMEM_WORK; first_local++) {
    const sn_kbuffer *b = &k->buffers[first_local];
    sn_str_printf(to, "%s%%%d: ", first_local ? ", " : "", first_local);
    print_buffer_type(to, b);
    sn_str_printf(to, " %s", memories[b->memory]);
    if (b->name) sn_str_printf(to, " /*%s*/", b->name);
  }
  sn_str_add(to, ") {\n");
  for (int i = first_local; i < k->n_buffers; i++) {
    sn_str_printf(to, "  local %%%d: ", i);
    print_buffer_type(to, &k->buffers[i]);
    sn_str_printf(to, " %s\n", memories[k->buffers[i].memory]);
  }
  for (int p = 0; p < k->n_phases; p++) {
    sn_str_add(to, "  phase grid(");
    for (int g = 0; g < k->phases[p].n_grid; g++) sn_str_printf(to, "%sd%d < %lld", g ? ", " : "", g, (long long)k->phases[p].grid[g]);
    sn_str_char(to, ')');
    if (k->phases[p].finishes) sn_str_add(to, " finishes");
    if (k->phases[p].beside) sn_str_add(to, " beside");
    if (k->phases[p].cost) sn_str_printf(to, " cost %lld", (long long)k->phases[p].cost);
    print_block(to, k, k->phases[p].body, 1);
    sn_str_char(to, '\n');
  }
  sn_str_add(to, "}\n");
}
