/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The rules of a kernel, every fault listed: definitions before uses, scopes of variables and symbols, operand counts and types, ranks, yields, shapes of tiles.
 * Of ranges it says what is certain: an access that cannot lie inside its buffer. What may run over for some item is the evaluator's to find. */
#include "sinter/kernel.h"

#include <string.h>

enum { MAX_NESTING = 256 };

typedef struct verifier {
  sn_diag *d;
  const sn_kernel *k;
  bool *defined;        /* by value id: defined and in scope */
  bool *dims, *syms;    /* by number: in scope */
  int phase, depth;
  int64_t faults;
  sn_status status;
} verifier;

static void fault(verifier *v, const sn_knode *n, const char *fmt, ...) SN_PRINTF(3, 4);
static void fault(verifier *v, const sn_knode *n, const char *fmt, ...) {
  char text[400];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  const char *where = n && n->comment ? n->comment : "";
  sn_error(v->d, SN_NOWHERE, SN_ERR_VERIFY, "kernel %s, phase %d%s%s: %s", v->k->name, v->phase, where[0] ? ", " : "", where, text);
  v->faults++;
}

/* ---- index expressions ---- */

static void check_index(verifier *v, const sn_knode *n, const sn_ix *e) {
  if (!e) {
    fault(v, n, "an index expression is missing");
    return;
  }
  switch (e->kind) {
    case SN_IX_CONST: return;
    case SN_IX_DIM:
      if (e->value < 0 || e->value >= v->k->n_vars || !v->dims[e->value]) fault(v, n, "d%lld is used outside its loop", (long long)e->value);
      return;
    case SN_IX_SYM:
      if (e->value < 0 || e->value >= v->k->n_syms || !v->syms[e->value]) fault(v, n, "s%lld is used before it is bound", (long long)e->value);
      return;
    case SN_IX_LOAD: fault(v, n, "an index expression loads from memory; bind the element to a symbol"); return;
    default:
      check_index(v, n, e->a);
      check_index(v, n, e->b);
  }
}

static const sn_kbuffer *buffer_of(verifier *v, const sn_knode *n, int buffer) {
  if (buffer >= 0 && buffer < v->k->n_buffers) return &v->k->buffers[buffer];
  fault(v, n, "there is no buffer %%%d", buffer);
  return NULL;
}

static void check_guards(verifier *v, const sn_knode *n) {
  for (int i = 0; i < n->n_guards; i++) check_index(v, n, n->guards[i].e);
}

static void check_access(verifier *v, const sn_knode *n) {
  const sn_kbuffer *b = buffer_of(v, n, n->buffer);
  check_guards(v, n);
  if (!b) return;
  if (n->n_at != b->rank) {
    fault(v, n, "%%%d has %d dimensions, the access %d", n->buffer, b->rank, n->n_at);
    return;
  }
  for (int i = 0; i < n->n_at; i++) {
    check_index(v, n, n->at[i]);
    if (!n->at[i] || n->n_guards) continue;
    if (n->at[i]->lo >= b->dims[i] || n->at[i]->hi < 0)
      fault(v, n, "index %d of %%%d lies in [%lld, %lld], its dimension has %lld", i, n->buffer, (long long)n->at[i]->lo, (long long)n->at[i]->hi, (long long)b->dims[i]);
  }
  if (n->op == SN_K_LOAD && b->memory == SN_KMEM_OUT) return; /* written before, by the rules of its memory */
  if (n->op != SN_K_LOAD && b->memory == SN_KMEM_IN) fault(v, n, "%%%d is only read", n->buffer);
}

static void check_tile(verifier *v, const sn_knode *n, const sn_ktile *t) {
  const sn_kbuffer *b = buffer_of(v, n, t->buffer);
  for (int i = 0; b && i < b->rank; i++) check_index(v, n, t->at ? t->at[i] : NULL);
}

/* ---- values ---- */

static void define(verifier *v, const sn_knode *n, const sn_kvalue *x) {
  if (x->id >= v->k->n_values) fault(v, n, "v%u is beyond the kernel's %u values", x->id, v->k->n_values);
  else if (v->defined[x->id]) fault(v, n, "v%u is defined twice", x->id);
  else v->defined[x->id] = true;
}

static void drop(verifier *v, const sn_kvalue *x) {
  if (x->id < v->k->n_values) v->defined[x->id] = false;
}

static void check_operands(verifier *v, const sn_knode *n) {
  for (int i = 0; i < n->n_operands; i++) {
    const sn_kvalue *x = n->operands[i];
    if (!x) fault(v, n, "operand %d is missing", i);
    else if (x->id >= v->k->n_values || !v->defined[x->id]) fault(v, n, "v%u is used where it is not defined", x->id);
  }
}

static bool wants(verifier *v, const sn_knode *n, int operands, int results, const char *what) {
  if (n->n_operands == operands && n->n_results == results) return true;
  fault(v, n, "%s takes %d operands and gives %d results; this one has %d and %d", what, operands, results, n->n_operands, n->n_results);
  return false;
}

static void same_type(verifier *v, const sn_knode *n, sn_type got, sn_type want, const char *what) {
  if (got != want) fault(v, n, "%s is %s, not %s", what, sn_type_text(got), sn_type_text(want));
}

static void check_elt(verifier *v, const sn_knode *n) {
  if ((unsigned)n->hlo >= SN_OP_COUNT || (!sn_op_has(n->hlo, SN_T_ELTWISE) && n->hlo != SN_OP_BITCAST_CONVERT && n->hlo != SN_OP_COPY && n->hlo != SN_OP_BITCAST)) {
    fault(v, n, "%s is no elementwise op", (unsigned)n->hlo < SN_OP_COUNT ? sn_opcode_text(n->hlo) : "?");
    return;
  }
  if (n->n_results != 1 || n->n_operands < 1 || n->n_operands > 3) {
    fault(v, n, "%s of %d operands and %d results", sn_opcode_text(n->hlo), n->n_operands, n->n_results);
    return;
  }
  sn_type to = n->results[0].type;
  if (n->hlo == SN_OP_COMPARE) same_type(v, n, to, SN_TYPE_PRED, "the result of compare");
  if (n->hlo == SN_OP_SELECT && n->n_operands == 3) {
    same_type(v, n, n->operands[0]->type, SN_TYPE_PRED, "what select chooses by");
    same_type(v, n, n->operands[1]->type, to, "operand 1 of select");
    same_type(v, n, n->operands[2]->type, to, "operand 2 of select");
  }
  if (n->n_operands == 2 && n->hlo != SN_OP_STOCHASTIC_CONVERT && n->operands[0] && n->operands[1])
    same_type(v, n, n->operands[1]->type, n->operands[0]->type, "operand 1");
}

/* ---- regions ---- */

static void check_region(verifier *v, const sn_kregion *r, const sn_knode *owner, int n_yields, const sn_kvalue *types, bool pred);

static void check_yield(verifier *v, const sn_kregion *r, const sn_knode *owner, int n_yields, const sn_kvalue *types, bool pred) {
  const sn_knode *y = r->last;
  if (!y || y->op != SN_K_YIELD) {
    if (n_yields) fault(v, owner, "a region ends without the yield of its %d values", n_yields);
    return;
  }
  if (y->n_operands != n_yields) {
    fault(v, owner, "a region yields %d values, %d are wanted", y->n_operands, n_yields);
    return;
  }
  for (int i = 0; i < n_yields; i++) {
    if (y->operands[i]) same_type(v, owner, y->operands[i]->type, pred ? SN_TYPE_PRED : types[i].type, "a yielded value");
  }
}

static void check_for(verifier *v, const sn_knode *n) {
  check_index(v, n, n->lo);
  check_index(v, n, n->hi);
  if (n->step < 1) fault(v, n, "a loop steps by %lld", (long long)n->step);
  if (n->loop == SN_KLOOP_VECTOR && (n->width < 1 || (n->width & (n->width - 1)))) fault(v, n, "a vector loop of %d lanes", n->width);
  if (n->loop == SN_KLOOP_VECTOR && n->n_results && !n->combine) fault(v, n, "a vector loop carries values and does not say how they combine");
  if (n->loop == SN_KLOOP_WARPS && n->n_results) fault(v, n, "a loop over warps carries values");
  if (n->n_regions != 1 || n->n_operands != n->n_results || n->regions[0]->n_params != n->n_results) {
    fault(v, n, "a loop's carried values do not match its region");
    return;
  }
  if (n->var < 0 || n->var >= v->k->n_vars) {
    fault(v, n, "d%d is beyond the kernel's variables", n->var);
    return;
  }
  if (v->dims[n->var]) fault(v, n, "d%d is open already", n->var);
  v->dims[n->var] = true;
  check_region(v, n->regions[0], n, n->n_results, n->results, false);
  v->dims[n->var] = false;
}

static void check_if(verifier *v, const sn_knode *n) {
  check_guards(v, n);
  if (n->n_operands == 1) same_type(v, n, n->operands[0]->type, SN_TYPE_PRED, "a condition");
  else if (n->n_operands) fault(v, n, "a condition of %d operands", n->n_operands);
  for (int r = 0; r < n->n_regions; r++) check_region(v, n->regions[r], n, n->n_results, n->results, false);
}

static void check_while(verifier *v, const sn_knode *n) {
  if (n->n_regions != 2 || n->n_operands != n->n_results) {
    fault(v, n, "a while has two regions, and carries what it gives");
    return;
  }
  check_region(v, n->regions[0], n, 1, NULL, true);
  check_region(v, n->regions[1], n, n->n_results, n->results, false);
}

static void check_bind(verifier *v, const sn_knode *n) {
  if (!wants(v, n, 1, 0, "bind")) return;
  sn_type t = n->operands[0]->type;
  if (!sn_type_is_integer(t) && t != SN_TYPE_PRED) fault(v, n, "s%d is bound to a %s", n->var, sn_type_text(t));
  if (n->sym_lo > n->sym_hi) fault(v, n, "s%d is clamped to [%lld, %lld]", n->var, (long long)n->sym_lo, (long long)n->sym_hi);
  if (n->var < 0 || n->var >= v->k->n_syms) fault(v, n, "s%d is beyond the kernel's symbols", n->var);
  else v->syms[n->var] = true;
}

static bool tiles_exist(const verifier *v, const sn_kcontract *c) {
  const int tiles[3] = {c->acc.buffer, c->a.buffer, c->b.buffer};
  for (int i = 0; i < 3; i++) {
    if (tiles[i] < 0 || tiles[i] >= v->k->n_buffers) return false;
  }
  return true;
}

static void check_contract(verifier *v, const sn_knode *n) {
  const sn_kcontract *c = n->contract;
  if (!c) {
    fault(v, n, "a contraction without its tiles");
    return;
  }
  check_tile(v, n, &c->acc);
  check_tile(v, n, &c->a);
  check_tile(v, n, &c->b);
  check_index(v, n, c->m);
  check_index(v, n, c->n);
  check_index(v, n, c->k);
  if (c->mr < 1 || c->nr < 1) fault(v, n, "a tile of %d x %d", c->mr, c->nr);
  if (tiles_exist(v, c) && sn_kcontract_pairs(v->k, c)) {
    sn_type a = v->k->buffers[c->a.buffer].type;
    if (a != SN_TYPE_U32 && (a != SN_TYPE_BF16 || c->a.stride[1] != 1)) fault(v, n, "words of two terms times %s: it must hold words too, or be bf16 with terms side by side", sn_type_text(a));
  }
  if (c->m && c->m->lo > c->mr) fault(v, n, "at least %lld rows in a tile of %d", (long long)c->m->lo, c->mr);
  if (c->n && c->n->lo > c->nr) fault(v, n, "at least %lld columns in a tile of %d", (long long)c->n->lo, c->nr);
}

static void check_node(verifier *v, const sn_knode *n) {
  check_operands(v, n);
  switch (n->op) {
    case SN_K_CONST: wants(v, n, 0, 1, "const"); break;
    case SN_K_INDEX:
      if (n->n_at == 1) check_index(v, n, n->at[0]);
      else fault(v, n, "index of %d expressions", n->n_at);
      break;
    case SN_K_ELT: check_elt(v, n); break;
    case SN_K_FMA: wants(v, n, 3, 1, "fma"); break;
    case SN_K_LOAD:
      check_access(v, n);
      if (n->n_operands == 1 && n->operands[0]) same_type(v, n, n->operands[0]->type, n->results[0].type, "the value of a load that is not made");
      break;
    case SN_K_STORE:
    case SN_K_ATOMIC:
      check_access(v, n);
      if (wants(v, n, 1, 0, "store") && n->operands[0] && n->buffer >= 0 && n->buffer < v->k->n_buffers)
        same_type(v, n, n->operands[0]->type, v->k->buffers[n->buffer].type, "the stored value");
      break;
    case SN_K_PREFETCH:
      for (int i = 0; i < n->n_at; i++) check_index(v, n, n->at[i]);
      break;
    case SN_K_BIND: check_bind(v, n); break;
    case SN_K_FOR: check_for(v, n); break;
    case SN_K_IF: check_if(v, n); break;
    case SN_K_WHILE: check_while(v, n); break;
    case SN_K_CONTRACT: check_contract(v, n); break;
    case SN_K_COPY:
      check_guards(v, n);
      check_tile(v, n, &n->copy->to);
      check_tile(v, n, &n->copy->from);
      break;
    case SN_K_YIELD:
      if (n->next) fault(v, n, "nodes behind a yield");
      break;
    default: break;
  }
  for (int i = 0; i < n->n_results; i++) define(v, n, &n->results[i]);
}

static void check_region(verifier *v, const sn_kregion *r, const sn_knode *owner, int n_yields, const sn_kvalue *types, bool pred) {
  if (++v->depth > MAX_NESTING) {
    fault(v, owner, "regions nest deeper than %d", MAX_NESTING);
    v->depth--;
    return;
  }
  for (int i = 0; i < r->n_params; i++) define(v, owner, &r->params[i]);
  for (const sn_knode *n = r->first; n; n = n->next) check_node(v, n);
  check_yield(v, r, owner, n_yields, types, pred);
  /* What was defined inside is not seen outside. */
  for (int i = 0; i < r->n_params; i++) drop(v, &r->params[i]);
  for (const sn_knode *n = r->first; n; n = n->next) {
    for (int i = 0; i < n->n_results; i++) drop(v, &n->results[i]);
    if (n->op == SN_K_BIND && n->var >= 0 && n->var < v->k->n_syms) v->syms[n->var] = false;
  }
  v->depth--;
}

static void check_buffers(verifier *v) {
  for (int i = 0; i < v->k->n_buffers; i++) {
    const sn_kbuffer *b = &v->k->buffers[i];
    if (!sn_type_is_array(b->type)) fault(v, NULL, "%%%d has no element type", i);
    for (int d = 0; d < b->rank; d++) {
      if (b->dims[d] < 0) fault(v, NULL, "%%%d has %lld elements in dimension %d", i, (long long)b->dims[d], d);
    }
  }
}

static void check_finishes(verifier *v) {
  const sn_kphase *p = &v->k->phases[v->phase], *former = p - 1;
  if (p->beside && (v->phase == 0 || p->finishes)) fault(v, NULL, "there is no phase that it could stand beside");
  if (!p->finishes) return;
  bool ok = v->phase > 0 && p->n_grid < former->n_grid && (p->n_grid == 0 || memcmp(p->grid, former->grid, (size_t)p->n_grid * sizeof *p->grid) == 0);
  if (!ok) fault(v, NULL, "it finishes the former phase, whose grid does not begin with its own");
}

sn_status sn_kernel_verify(sn_diag *d, const sn_kernel *k) {
  verifier v = {.d = d, .k = k};
  v.defined = sn_alloc_zero((size_t)k->n_values + 1, sizeof *v.defined);
  v.dims = sn_alloc_zero((size_t)k->n_vars + 1, sizeof *v.dims);
  v.syms = sn_alloc_zero((size_t)k->n_syms + 1, sizeof *v.syms);
  if (v.defined && v.dims && v.syms) {
    check_buffers(&v);
    for (v.phase = 0; v.phase < k->n_phases; v.phase++) {
      const sn_kphase *p = &k->phases[v.phase];
      for (int g = 0; g < p->n_grid && g < k->n_vars; g++) v.dims[g] = true;
      check_finishes(&v);
      check_region(&v, p->body, NULL, 0, NULL, false);
      memset(v.dims, 0, (size_t)k->n_vars * sizeof *v.dims);
    }
  } else {
    v.status = sn_out_of_memory(d, k->n_values);
  }
  sn_free(v.defined);
  sn_free(v.dims);
  sn_free(v.syms);
  if (v.status != SN_OK) return v.status;
  return v.faults ? SN_ERR_VERIFY : SN_OK;
}
