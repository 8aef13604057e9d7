/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The oracle of kernels: a slow walk over the tree, one lane at a time. Values are kept as their bytes in memory; elementwise ops are the interpreter's.
 * Every access is checked against its buffer, so a wrong kernel is a diagnostic here and not a crash. */
#include <math.h>
#include <string.h>

#include "sinter/eval.h"
#include "sinter/kernel.h"

typedef struct cell {
  _Alignas(16) uint8_t bytes[16];
} cell;

typedef struct machine {
  sn_diag *d;
  const sn_kernel *k;
  uint8_t **memory;   /* by buffer */
  int64_t *elements;  /* by buffer: how many it holds in memory */
  cell *values;       /* by value id */
  int64_t *vars, *syms;
  sn_status status;
} machine;

static sn_status fault(machine *m, const char *what) {
  if (m->status == SN_OK) m->status = sn_error(m->d, SN_NOWHERE, SN_ERR_VERIFY, "kernel %s: %s", m->k->name, what);
  return m->status;
}

static cell *value(machine *m, const sn_kvalue *v) { return &m->values[v->id]; }

static int64_t index_value(machine *m, const sn_ix *e) {
  switch (e->kind) {
    case SN_IX_CONST: return e->value;
    case SN_IX_DIM: return m->vars[e->value];
    case SN_IX_SYM: return m->syms[e->value];
    case SN_IX_ADD: return index_value(m, e->a) + index_value(m, e->b);
    case SN_IX_MUL: return index_value(m, e->a) * index_value(m, e->b);
    case SN_IX_DIV: {
      int64_t a = index_value(m, e->a), b = index_value(m, e->b), q = a / b;
      return q - (a % b != 0 && (a < 0) != (b < 0));
    }
    case SN_IX_MOD: {
      int64_t a = index_value(m, e->a), b = index_value(m, e->b), r = a % b;
      return r < 0 ? r + b : r;
    }
    case SN_IX_MIN:
    case SN_IX_MAX: {
      int64_t a = index_value(m, e->a), b = index_value(m, e->b);
      return (e->kind == SN_IX_MIN) == (a < b) ? a : b;
    }
    case SN_IX_LOAD: fault(m, "a loaded index that is not bound"); return 0;
  }
  return 0;
}

static bool guards_hold(machine *m, const sn_knode *n) {
  for (int g = 0; g < n->n_guards; g++) {
    int64_t v = index_value(m, n->guards[g].e);
    if (v < n->guards[g].lo || v > n->guards[g].hi) return false;
  }
  return true;
}

/* Element offset of an index; -1 with a fault where it lies outside. */
static int64_t offset_of(machine *m, int buffer, const sn_ix *const *at) {
  const sn_kbuffer *b = &m->k->buffers[buffer];
  int64_t sum = 0, row = 1;
  for (int i = b->rank - 1; i >= 0; i--) {
    int64_t v = index_value(m, at[i]);
    if (v < 0 || v >= b->dims[i]) {
      fault(m, "an index outside its buffer");
      return -1;
    }
    sum += v * (b->strides ? b->strides[i] : row);
    row *= b->dims[i];
  }
  return sum;
}

static uint8_t *element(machine *m, int buffer, int64_t offset) {
  if (offset < 0 || offset >= m->elements[buffer]) {
    fault(m, "an address outside its buffer");
    return NULL;
  }
  return m->memory[buffer] + (size_t)offset * sn_type_bytes(m->k->buffers[buffer].type);
}

/* ---- element ops ---- */

static void run_const(machine *m, const sn_knode *n) {
  sn_type t = n->results[0].type;
  cell *c = value(m, &n->results[0]);
  double re, im;
  memcpy(&re, &n->bits[0], sizeof re);
  memcpy(&im, &n->bits[1], sizeof im);
  if (sn_type_is_complex(t)) sn_store_c128(t, c, re, im);
  else if (sn_type_is_float(t)) sn_store_f64(t, c, re);
  else sn_store_i64(t, c, (int64_t)n->bits[0]);
}

static void apply(machine *m, sn_opcode op, int n_in, const sn_type *in, sn_type out, int64_t a, int64_t b, cell *result, const cell *const *operands) {
  const void *xs[3] = {NULL, NULL, NULL};
  cell r;
  for (int i = 0; i < n_in && i < 3; i++) xs[i] = operands[i];
  if (n_in > 3 || !sn_eval_elements(op, n_in, in, out, a, b, 1, &r, xs)) fault(m, "an elementwise op that its types do not have");
  else *result = r;
}

static void run_elt(machine *m, const sn_knode *n) {
  sn_type in[3] = {SN_TYPE_INVALID, SN_TYPE_INVALID, SN_TYPE_INVALID};
  const cell *xs[3] = {NULL, NULL, NULL};
  int64_t a = 0, b = 0;
  for (int i = 0; i < n->n_operands && i < 3; i++) {
    in[i] = n->operands[i]->type;
    xs[i] = value(m, n->operands[i]);
  }
  if (n->hlo == SN_OP_COMPARE) {
    a = n->direction;
    b = (int64_t)n->bits[0];
  } else if (n->hlo == SN_OP_REDUCE_PRECISION) {
    a = n->exponent_bits;
    b = n->mantissa_bits;
  }
  apply(m, n->hlo, n->n_operands, in, n->results[0].type, a, b, value(m, &n->results[0]), xs);
}

static void run_fma(machine *m, const sn_knode *n) {
  sn_type t = n->results[0].type;
  const void *x = value(m, n->operands[0]), *y = value(m, n->operands[1]), *z = value(m, n->operands[2]);
  cell *c = value(m, &n->results[0]);
  if (t == SN_TYPE_F32) {
    float a, b, s;
    memcpy(&a, x, 4);
    memcpy(&b, y, 4);
    memcpy(&s, z, 4);
    s = fmaf(a, b, s);
    memcpy(c, &s, 4);
  } else if (t == SN_TYPE_F64) {
    double a, b, s;
    memcpy(&a, x, 8);
    memcpy(&b, y, 8);
    memcpy(&s, z, 8);
    s = fma(a, b, s);
    memcpy(c, &s, 8);
  } else {
    fault(m, "fma of a type other than f32 and f64");
  }
}

/* ---- memory ---- */

static void run_load(machine *m, const sn_knode *n) {
  if (!guards_hold(m, n)) {
    if (n->n_operands) *value(m, &n->results[0]) = *value(m, n->operands[0]);
    return;
  }
  const uint8_t *p = element(m, n->buffer, offset_of(m, n->buffer, n->at));
  if (p) memcpy(value(m, &n->results[0]), p, sn_type_bytes(n->results[0].type));
}

static void run_store(machine *m, const sn_knode *n) {
  if (!guards_hold(m, n)) return;
  sn_type t = m->k->buffers[n->buffer].type;
  uint8_t *p = element(m, n->buffer, offset_of(m, n->buffer, n->at));
  if (!p) return;
  if (n->op == SN_K_STORE) {
    memcpy(p, value(m, n->operands[0]), sn_type_bytes(t));
    return;
  }
  cell old;
  memcpy(&old, p, sn_type_bytes(t));
  const cell *xs[2] = {&old, value(m, n->operands[0])};
  sn_type in[2] = {t, t};
  apply(m, n->hlo, 2, in, t, 0, 0, &old, xs);
  memcpy(p, &old, sn_type_bytes(t));
}

static void run_bind(machine *m, const sn_knode *n) {
  int64_t v = sn_load_i64(n->operands[0]->type, value(m, n->operands[0]));
  /* The symbol counts from sym_lo. */
  if (n->operands[0]->type == SN_TYPE_U64 && v < 0) v = n->sym_hi;
  v = v < n->sym_lo ? n->sym_lo : v > n->sym_hi ? n->sym_hi : v;
  m->syms[n->var] = v - n->sym_lo;
}

/* ---- products and copies of tiles ---- */

static uint8_t *tile_element(machine *m, const sn_ktile *t, int64_t origin, int64_t i, int64_t j) { return element(m, t->buffer, origin + i * t->stride[0] + j * t->stride[1]); }

/* Term k of row or column i of a tile whose terms are its dimension `along`; words: two terms an element of u32. */
static bool tile_term(machine *m, const sn_ktile *t, int64_t origin, int along, int64_t i, int64_t k, bool words, double *out) {
  sn_type type = m->k->buffers[t->buffer].type;
  int64_t at = words ? k / 2 : k;
  const uint8_t *p = tile_element(m, t, origin, along ? i : at, along ? at : i);
  if (!p) return false;
  if (words) {
    uint32_t word, bits;
    float v;
    memcpy(&word, p, sizeof word);
    bits = k % 2 ? word & 0xffff0000u : word << 16;
    memcpy(&v, &bits, sizeof v);
    *out = (double)v;
  } else {
    *out = sn_load_f64(type, p);
  }
  return true;
}

static void run_contract(machine *m, const sn_kcontract *c) {
  bool pairs = sn_kcontract_pairs(m->k, c), a_words = pairs && m->k->buffers[c->a.buffer].type == SN_TYPE_U32;
  int64_t rows = index_value(m, c->m), cols = index_value(m, c->n), terms = index_value(m, c->k) * (pairs ? 2 : 1);
  int64_t acc = offset_of(m, c->acc.buffer, c->acc.at), a = offset_of(m, c->a.buffer, c->a.at), b = offset_of(m, c->b.buffer, c->b.at);
  sn_type t = m->k->buffers[c->acc.buffer].type;
  for (int64_t i = 0; i < rows && m->status == SN_OK; i++) {
    for (int64_t j = 0; j < cols && m->status == SN_OK; j++) {
      uint8_t *to = tile_element(m, &c->acc, acc, i, j);
      if (!to) return;
      double sum = c->accumulate ? sn_load_f64(t, to) : 0;
      for (int64_t k = 0; k < terms; k++) {
        double u, v;
        if (!tile_term(m, &c->a, a, 1, i, k, a_words, &u) || !tile_term(m, &c->b, b, 0, j, k, pairs, &v)) return;
        sum = t == SN_TYPE_F32 ? (double)fmaf((float)u, (float)v, (float)sum) : fma(u, v, sum);
      }
      sn_store_f64(t, to, sum);
    }
  }
}

static void run_copy(machine *m, const sn_knode *n) {
  const sn_kcopy *c = n->copy;
  bool copies = guards_hold(m, n);
  int64_t rows = index_value(m, c->m), cols = index_value(m, c->n);
  if (rows < 1 || cols < 1) return; /* of nothing: its origin may lie anywhere */
  int64_t to = offset_of(m, c->to.buffer, c->to.at), from = copies ? offset_of(m, c->from.buffer, c->from.at) : 0;
  size_t bytes = sn_type_bytes(m->k->buffers[c->to.buffer].type);
  for (int64_t i = 0; i < rows && m->status == SN_OK; i++) {
    for (int64_t j = 0; j < cols && m->status == SN_OK; j++) {
      uint8_t *p = tile_element(m, &c->to, to, i, j);
      const uint8_t *q = copies ? tile_element(m, &c->from, from, i, j) : NULL;
      if (p && q) memcpy(p, q, bytes);
      else if (p && !copies) memset(p, 0, bytes);
    }
  }
}

/* ---- regions ---- */

/* Runs a region to its end; *yield gets its yield (NULL: none). Nesting is the kernel's, which lowering bounds and the parser limits. */
static void run_region(machine *m, const sn_kregion *r, const sn_knode **yield);

static void take(machine *m, const sn_kvalue *to, int n, sn_kvalue *const *from) {
  cell now[64];
  for (int i = 0; i < n; i++) now[i] = *value(m, from[i]);
  for (int i = 0; i < n; i++) *value(m, &to[i]) = now[i];
}

static void run_plain_for(machine *m, const sn_knode *n, int64_t lo, int64_t hi) {
  const sn_kregion *body = n->regions[0];
  const sn_knode *yield = NULL;
  take(m, body->params, n->n_operands, n->operands);
  for (int64_t v = lo; v < hi && m->status == SN_OK; v += n->step) {
    m->vars[n->var] = v;
    run_region(m, body, &yield);
    if (yield) take(m, body->params, n->n_operands, yield->operands);
  }
  for (int i = 0; i < n->n_operands; i++) *value(m, &n->results[i]) = *value(m, &body->params[i]);
}

/* What changes nothing under the op. */
static void identity(sn_opcode op, sn_type t, cell *out) {
  int bits = sn_type_bits(t);
  bool low = op == SN_OP_MAXIMUM;
  memset(out, 0, sizeof *out);
  if (op == SN_OP_MULTIPLY && sn_type_is_complex(t)) sn_store_c128(t, out, 1, 0);
  else if (op == SN_OP_MULTIPLY) sn_store_f64(t, out, 1);
  else if (op == SN_OP_AND) sn_store_i64(t, out, -1);
  else if (op != SN_OP_MAXIMUM && op != SN_OP_MINIMUM) return;
  else if (sn_type_is_float(t)) sn_store_f64(t, out, low ? -(double)INFINITY : (double)INFINITY);
  else if (t == SN_TYPE_PRED) sn_store_i64(t, out, !low);
  else if (sn_type_is_signed(t)) sn_store_i64(t, out, low ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
  else sn_store_i64(t, out, low ? 0 : (int64_t)(UINT64_MAX >> (64 - bits)));
}

static void combine_lanes(machine *m, const sn_knode *n, int c, cell *lanes) {
  sn_type t = n->operands[c]->type, in[2] = {t, t};
  for (int half = n->width / 2; half >= 1; half /= 2) {
    for (int l = 0; l < half; l++) {
      const cell *xs[2] = {&lanes[l], &lanes[l + half]};
      apply(m, n->combine[c], 2, in, t, 0, 0, &lanes[l], xs);
    }
  }
  const cell *xs[2] = {value(m, n->operands[c]), &lanes[0]};
  apply(m, n->combine[c], 2, in, t, 0, 0, value(m, &n->results[c]), xs);
}

enum { MAX_LANES = 1024, MAX_VECTOR_CARRIES = 8 };

static void run_vector_for(machine *m, const sn_knode *n, int64_t lo, int64_t hi) {
  const sn_kregion *body = n->regions[0];
  const sn_knode *yield = NULL;
  cell lanes[MAX_VECTOR_CARRIES][MAX_LANES];
  if (n->width < 1 || n->width > MAX_LANES || n->n_operands > MAX_VECTOR_CARRIES) {
    fault(m, "a vector loop that is too wide");
    return;
  }
  for (int c = 0; c < n->n_operands; c++) {
    for (int l = 0; l < n->width; l++) identity(n->combine[c], n->operands[c]->type, &lanes[c][l]);
  }
  for (int64_t t = 0; lo + t * n->step < hi && m->status == SN_OK; t++) {
    int l = (int)(t % n->width);
    m->vars[n->var] = lo + t * n->step;
    for (int c = 0; c < n->n_operands; c++) *value(m, &body->params[c]) = lanes[c][l];
    run_region(m, body, &yield);
    for (int c = 0; yield && c < n->n_operands; c++) lanes[c][l] = *value(m, yield->operands[c]);
  }
  for (int c = 0; c < n->n_operands && m->status == SN_OK; c++) combine_lanes(m, n, c, lanes[c]);
}

static void run_for(machine *m, const sn_knode *n) {
  int64_t lo = index_value(m, n->lo), hi = index_value(m, n->hi);
  if (n->step < 1) fault(m, "a loop that does not advance");
  else if (n->loop == SN_KLOOP_VECTOR) run_vector_for(m, n, lo, hi);
  else run_plain_for(m, n, lo, hi);
}

static void run_if(machine *m, const sn_knode *n) {
  const sn_knode *yield = NULL;
  bool yes = guards_hold(m, n) && (n->n_operands == 0 || value(m, n->operands[0])->bytes[0] != 0);
  run_region(m, n->regions[yes ? 0 : 1], &yield);
  if (yield) take(m, n->results, n->n_results, yield->operands);
}

static void run_while(machine *m, const sn_knode *n) {
  const sn_knode *yield = NULL;
  take(m, n->regions[0]->params, n->n_operands, n->operands);
  while (m->status == SN_OK) {
    run_region(m, n->regions[0], &yield);
    for (int i = 0; i < n->n_operands; i++) *value(m, &n->regions[1]->params[i]) = *value(m, &n->regions[0]->params[i]);
    if (!yield || value(m, yield->operands[0])->bytes[0] == 0) break;
    run_region(m, n->regions[1], &yield);
    if (yield) take(m, n->regions[0]->params, n->n_operands, yield->operands);
  }
  for (int i = 0; i < n->n_operands; i++) *value(m, &n->results[i]) = *value(m, &n->regions[1]->params[i]);
}

static void run_node(machine *m, const sn_knode *n) {
  switch (n->op) {
    case SN_K_CONST: run_const(m, n); break;
    case SN_K_INDEX: {
      sn_type t = n->results[0].type;
      int64_t v = index_value(m, n->at[0]);
      if (sn_type_is_complex(t)) sn_store_c128(t, value(m, &n->results[0]), (double)v, 0);
      else sn_store_i64(t, value(m, &n->results[0]), v);
      break;
    }
    case SN_K_ELT: run_elt(m, n); break;
    case SN_K_FMA: run_fma(m, n); break;
    case SN_K_LOAD: run_load(m, n); break;
    case SN_K_STORE:
    case SN_K_ATOMIC: run_store(m, n); break;
    case SN_K_BIND: run_bind(m, n); break;
    case SN_K_FOR: run_for(m, n); break;
    case SN_K_IF: run_if(m, n); break;
    case SN_K_WHILE: run_while(m, n); break;
    case SN_K_CONTRACT: run_contract(m, n->contract); break;
    case SN_K_COPY: run_copy(m, n); break;
    default: break; /* barriers and the closing of copies order what already runs in order here */
  }
}

static void run_region(machine *m, const sn_kregion *r, const sn_knode **yield) {
  *yield = NULL;
  for (const sn_knode *n = r->first; n && m->status == SN_OK; n = n->next) {
    if (n->op == SN_K_YIELD) *yield = n;
    else run_node(m, n);
  }
}

static void run_phase(machine *m, const sn_kphase *p) {
  int64_t items = 1;
  for (int g = 0; g < p->n_grid; g++) items *= p->grid[g];
  for (int64_t i = 0; i < items && m->status == SN_OK; i++) {
    const sn_knode *yield;
    int64_t rest = i;
    for (int g = p->n_grid - 1; g >= 0; g--) {
      m->vars[g] = rest % p->grid[g];
      rest /= p->grid[g];
    }
    run_region(m, p->body, &yield);
  }
}

static sn_status bind_memory(machine *m, void *const *args) {
  int next = 0;
  for (int b = 0; b < m->k->n_buffers; b++) {
    const sn_kbuffer *k = &m->k->buffers[b];
    int64_t bytes = sn_kbuffer_bytes(k);
    m->elements[b] = bytes / (int64_t)sn_type_bytes(k->type);
    if (k->memory <= SN_KMEM_WORK) m->memory[b] = args[next++];
    else if (!(m->memory[b] = sn_alloc_zero((size_t)bytes + 1, 1))) return sn_out_of_memory(m->d, (size_t)bytes);
  }
  return SN_OK;
}

sn_status sn_kernel_eval(sn_diag *d, const sn_kernel *k, void *const *args) {
  machine m;
  memset(&m, 0, sizeof m);
  m.d = d;
  m.k = k;
  m.memory = sn_alloc_zero((size_t)k->n_buffers + 1, sizeof *m.memory);
  m.elements = sn_alloc_zero((size_t)k->n_buffers + 1, sizeof *m.elements);
  m.values = sn_alloc_zero((size_t)k->n_values + 1, sizeof *m.values);
  m.vars = sn_alloc_zero((size_t)k->n_vars + 1, sizeof *m.vars);
  m.syms = sn_alloc_zero((size_t)k->n_syms + 1, sizeof *m.syms);
  sn_status s = m.memory && m.elements && m.values && m.vars && m.syms ? bind_memory(&m, args) : sn_out_of_memory(d, k->n_values * sizeof *m.values);
  for (int p = 0; s == SN_OK && p < k->n_phases; p++) {
    run_phase(&m, &k->phases[p]);
    s = m.status;
  }
  for (int b = 0; m.memory && b < k->n_buffers; b++) {
    if (k->buffers[b].memory > SN_KMEM_WORK) sn_free(m.memory[b]);
  }
  sn_free(m.memory);
  sn_free(m.elements);
  sn_free(m.values);
  sn_free(m.vars);
  sn_free(m.syms);
  return s;
}
