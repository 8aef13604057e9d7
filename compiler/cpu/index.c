/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Index expressions and addresses.
 *
 * An address is the linear form sum(coefficient * atom) of the index expressions and the buffer's strides, in which (f div c) * c + f mod c has become f again. Its
 * atoms are grouped by the scope in which their variables exist, so that each loop adds its own part only; what a lane adds is a constant (contiguous, strided or
 * uniform access) or the access is scattered. */
#include "emit.h"

#include <string.h>

/* ---- scopes ---- */

void scope_open(emit *e, LLVMValueRef leave) {
  if (e->depth + 1 >= EMIT_MAX_DEPTH) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "loops nest deeper than %d", EMIT_MAX_DEPTH);
    return;
  }
  e->scopes[e->depth].leave = leave;
  e->depth++;
  e->scopes[e->depth] = (scope){NULL, ++e->n_serials};
}

void scope_close(emit *e) {
  if (e->depth == 0) return;
  e->depth--;
  e->scopes[e->depth].leave = NULL;
}

/* ---- variables ---- */

static const index_var *var_of(const emit *e, const sn_ix *x) { return x->kind == SN_IX_DIM ? &e->dims[x->value] : &e->syms[x->value]; }

static bool var_known(const emit *e, const sn_ix *x) {
  int n = x->kind == SN_IX_DIM ? e->k->n_vars : e->k->n_syms;
  return x->value >= 0 && x->value < n && var_of(e, x)->bound;
}

bool index_varies(const emit *e, const sn_ix *x) {
  switch (x->kind) {
    case SN_IX_CONST: return false;
    case SN_IX_DIM:
    case SN_IX_SYM: return var_known(e, x) && var_of(e, x)->varies;
    case SN_IX_LOAD: return false;
    default: return index_varies(e, x->a) || (x->b && index_varies(e, x->b));
  }
}

int index_depth(const emit *e, const sn_ix *x) {
  switch (x->kind) {
    case SN_IX_CONST:
    case SN_IX_LOAD: return 0;
    case SN_IX_DIM:
    case SN_IX_SYM: return var_known(e, x) ? var_of(e, x)->depth : 0;
    default: {
      int a = index_depth(e, x->a), b = x->b ? index_depth(e, x->b) : 0;
      return a > b ? a : b;
    }
  }
}

/* ---- memo ---- */

static val recall(const emit *e, const sn_ix *x, int depth) {
  if (x->id >= e->n_memo) return NULL;
  const index_memo *m = &e->memo[x->id];
  return m->v && m->depth == depth && m->serial == e->scopes[depth].serial ? m->v : NULL;
}

static void remember(emit *e, const sn_ix *x, int depth, val v) {
  if (x->id >= e->n_memo) {
    uint32_t n = e->n_memo ? 2 * e->n_memo : 256;
    while (n <= x->id) n *= 2;
    index_memo *wider = SN_NEW_N(e->arena, index_memo, n);
    if (!wider) {
      emit_no_memory(e);
      return;
    }
    if (e->n_memo) memcpy(wider, e->memo, e->n_memo * sizeof *wider);
    e->memo = wider;
    e->n_memo = n;
  }
  e->memo[x->id] = (index_memo){v, depth, e->scopes[depth].serial};
}

/* Moves the builder to where scope `depth` was left; the caller goes back to `back` afterwards. */
static LLVMBasicBlockRef hoist(emit *e, int depth) {
  LLVMBasicBlockRef back = here(e);
  /* A scope without a construct (an unrolled body) runs straight on: the next construct inside it is the place. */
  while (depth < e->depth && !e->scopes[depth].leave) depth++;
  if (depth < e->depth) LLVMPositionBuilderBefore(e->b, e->scopes[depth].leave);
  return back;
}

static void unhoist(emit *e, LLVMBasicBlockRef back) { at_end(e, back); }

/* ---- expressions ---- */

static bool fits32(int64_t lo, int64_t hi) { return lo >= INT32_MIN && hi <= INT32_MAX; }

/* Width of the vector in which a varying expression is computed: 32 where no varying part of it can leave that range. */
static int vector_bits(const emit *e, const sn_ix *x) {
  if (!index_varies(e, x)) return 32;
  if (!fits32(x->lo, x->hi)) return 64;
  if (x->kind == SN_IX_SYM || x->kind == SN_IX_DIM) return 32;
  int a = vector_bits(e, x->a), b = x->b ? vector_bits(e, x->b) : 32;
  if (x->b && (!fits32(x->a->lo, x->a->hi) || !fits32(x->b->lo, x->b->hi))) return 64;
  return a > b ? a : b;
}

static val to_width(emit *e, val v, int bits) {
  LLVMTypeRef t = bits == 32 ? e->i32 : e->i64;
  int from = bits_of(v);
  if (from == bits) return v;
  return cast(e, from > bits ? LLVMTrunc : LLVMSExt, v, t);
}

static val emit_var(emit *e, const sn_ix *x) {
  if (!var_known(e, x)) {
    emit_fail(e, SN_ERR_INTERNAL, "index variable %s%lld is used outside its loop", x->kind == SN_IX_DIM ? "d" : "s", (long long)x->value);
    return LLVMConstInt(e->i64, 0, 0);
  }
  const index_var *v = var_of(e, x);
  if (!v->varies) return v->base;
  int bits = vector_bits(e, x);
  if (lanes_of(v->base) > 1) return to_width(e, v->base, bits);
  LLVMTypeRef t = bits == 32 ? e->i32 : e->i64;
  return add(e, splat(e, to_width(e, v->base, bits), e->lanes), lane_numbers(e, t, e->lanes, v->lane_step));
}

static bool power_of_two(int64_t v, int *log2) {
  if (v <= 0 || (v & (v - 1))) return false;
  for (*log2 = 0; (INT64_C(1) << *log2) < v; ++*log2) {}
  return true;
}

static val emit_div(emit *e, val a, int64_t c, bool positive) {
  int log2;
  if (power_of_two(c, &log2)) return ashr(e, a, const_int(e, a, log2)); /* floors */
  val b = const_int(e, a, c);
  if (positive) return bin(e, LLVMUDiv, a, b);
  val q = bin(e, LLVMSDiv, a, b), r = sub(e, a, mul(e, q, b));
  val negative = icmp(e, LLVMIntSLT, r, const_int(e, a, 0));
  return sub(e, q, LLVMBuildZExt(e->b, negative, LLVMTypeOf(q), ""));
}

static val emit_mod(emit *e, val a, int64_t c, bool positive) {
  int log2;
  if (power_of_two(c, &log2)) return and_(e, a, const_int(e, a, c - 1));
  val b = const_int(e, a, c);
  if (positive) return bin(e, LLVMURem, a, b);
  val r = bin(e, LLVMSRem, a, b);
  return choose(e, icmp(e, LLVMIntSLT, r, const_int(e, a, 0)), add(e, r, b), r);
}

static val emit_node(emit *e, const sn_ix *x) {
  val a = emit_index(e, x->a), b = x->kind == SN_IX_DIV || x->kind == SN_IX_MOD ? NULL : emit_index(e, x->b);
  int bits = index_varies(e, x) ? vector_bits(e, x) : 64;
  a = to_width(e, a, bits);
  if (b) b = to_width(e, b, bits);
  bool positive = x->a->lo >= 0;
  switch (x->kind) {
    case SN_IX_ADD: return add(e, a, b);
    case SN_IX_MUL: return mul(e, a, b);
    case SN_IX_DIV: return emit_div(e, a, x->b->value, positive);
    case SN_IX_MOD: return emit_mod(e, a, x->b->value, positive);
    case SN_IX_MIN: return choose(e, icmp(e, LLVMIntSLT, a, b), a, b);
    default: return choose(e, icmp(e, LLVMIntSGT, a, b), a, b);
  }
}

static val emit_at_depth(emit *e, const sn_ix *x, int depth) {
  val v = recall(e, x, depth);
  if (v) return v;
  if (x->kind == SN_IX_LOAD) {
    emit_fail(e, SN_ERR_INTERNAL, "an index expression of a kernel loads from memory");
    return LLVMConstInt(e->i64, 0, 0);
  }
  if (x->kind != SN_IX_DIM && x->kind != SN_IX_SYM) {
    /* Children first, each where it belongs, so that they stand in front of this node. */
    emit_index(e, x->a);
    if (x->b) emit_index(e, x->b);
  }
  LLVMBasicBlockRef back = hoist(e, depth);
  int inner = e->depth;
  e->depth = depth; /* children were memoised: nothing hoists further from here */
  v = x->kind == SN_IX_DIM || x->kind == SN_IX_SYM ? emit_var(e, x) : emit_node(e, x);
  e->depth = inner;
  remember(e, x, depth, v);
  unhoist(e, back);
  return v;
}

val emit_index(emit *e, const sn_ix *x) {
  if (x->kind == SN_IX_CONST) return LLVMConstInt(e->i64, (unsigned long long)x->value, 1);
  if ((x->kind == SN_IX_DIM || x->kind == SN_IX_SYM) && var_known(e, x) && !var_of(e, x)->varies) return var_of(e, x)->base;
  return emit_at_depth(e, x, index_depth(e, x));
}

/* ---- guards ---- */

static val emit_guard(emit *e, const sn_ix_guard *g) {
  if (g->e->lo >= g->lo && g->e->hi <= g->hi) return NULL;
  val v = emit_index(e, g->e);
  if (lanes_of(v) > 1 && bits_of(v) == 32 && !(fits32(g->lo, g->hi) && fits32(g->e->lo - g->lo, g->e->hi - g->lo))) v = to_width(e, v, 64);
  /* lo <= e <= hi as one unsigned comparison. */
  if (g->lo) v = sub(e, v, const_int(e, v, g->lo));
  if (g->hi < g->lo) return LLVMConstInt(e->i1, 0, 0);
  return icmp(e, LLVMIntULE, v, const_int(e, v, g->hi - g->lo));
}

val emit_guards(emit *e, int n, const sn_ix_guard *guards) {
  val uniform = NULL, varying = NULL;
  for (int i = 0; i < n; i++) {
    val g = emit_guard(e, &guards[i]);
    if (!g) continue;
    if (lanes_of(g) > 1) varying = and_masks(e, varying, g);
    else uniform = and_masks(e, uniform, g);
  }
  return uniform && varying ? and_(e, splat(e, uniform, lanes_of(varying)), varying) : uniform ? uniform : varying;
}

/* ---- linear forms ---- */

enum { MAX_TERMS = 128, MAX_EXPANDED = MAX_TERMS - SN_MAX_RANK };

typedef struct linear {
  int n;
  const sn_ix *atom[MAX_TERMS];
  int64_t coef[MAX_TERMS];
  int64_t constant;
} linear;

static void linear_atom(linear *f, const sn_ix *x, int64_t coef) {
  if (coef == 0) return;
  for (int i = 0; i < f->n; i++) {
    if (f->atom[i] != x) continue;
    f->coef[i] += coef;
    if (f->coef[i] == 0) {
      f->n--;
      memmove(&f->atom[i], &f->atom[i + 1], (size_t)(f->n - i) * sizeof f->atom[0]);
      memmove(&f->coef[i], &f->coef[i + 1], (size_t)(f->n - i) * sizeof f->coef[0]);
    }
    return;
  }
  if (f->n == MAX_TERMS) return; /* cannot be: one atom a dimension always fits */
  f->atom[f->n] = x;
  f->coef[f->n++] = coef;
}

static void linear_add(linear *f, const sn_ix *x, int64_t coef) {
  if (coef == 0) return;
  if (x->kind == SN_IX_CONST) {
    f->constant += coef * x->value;
  } else if (x->kind == SN_IX_ADD && f->n < MAX_EXPANDED) {
    linear_add(f, x->a, coef);
    linear_add(f, x->b, coef);
  } else if (x->kind == SN_IX_MUL && x->b->kind == SN_IX_CONST) {
    linear_add(f, x->a, coef * x->b->value);
  } else if (x->kind == SN_IX_MUL && x->a->kind == SN_IX_CONST) {
    linear_add(f, x->b, coef * x->a->value);
  } else {
    linear_atom(f, x, coef);
  }
}

static void linear_drop(linear *f, int i) {
  f->n--;
  memmove(&f->atom[i], &f->atom[i + 1], (size_t)(f->n - i) * sizeof f->atom[0]);
  memmove(&f->coef[i], &f->coef[i + 1], (size_t)(f->n - i) * sizeof f->coef[0]);
}

/* One pair k c (f div c) + k (f mod c) becomes k f; false: there is none. */
static bool fold_pair(linear *f) {
  for (int i = 0; i < f->n; i++) {
    if (f->atom[i]->kind != SN_IX_MOD) continue;
    const sn_ix *m = f->atom[i];
    for (int j = 0; j < f->n; j++) {
      const sn_ix *d = f->atom[j];
      if (d->kind != SN_IX_DIV || d->a != m->a || d->b->value != m->b->value || f->coef[j] != f->coef[i] * m->b->value) continue;
      int64_t coef = f->coef[i];
      linear_drop(f, i > j ? i : j);
      linear_drop(f, i > j ? j : i);
      linear_add(f, m->a, coef);
      return true;
    }
  }
  return false;
}

static void address_form(const emit *e, int buffer, const sn_ix *const *at, linear *f) {
  const sn_kbuffer *b = &e->k->buffers[buffer];
  int64_t row = 1;
  f->n = 0;
  f->constant = 0;
  for (int k = b->rank - 1; k >= 0; k--) {
    linear_add(f, at[k], b->strides ? b->strides[k] : row);
    row *= b->dims[k];
  }
  for (int turns = 0; turns < 64 && fold_pair(f); turns++) {}
}

/* A variable of the vector loop that steps evenly: what a term of it adds from lane to lane. */
static bool even_step(const emit *e, const sn_ix *x, int64_t coef, int64_t *step) {
  if (x->kind != SN_IX_DIM || !var_known(e, x)) return false;
  const index_var *v = var_of(e, x);
  if (!v->varies || lanes_of(v->base) > 1) return false;
  *step = coef * v->lane_step;
  return true;
}

/* ---- addresses ---- */

static val term_base(emit *e, const sn_ix *x) { return x->kind == SN_IX_DIM ? var_of(e, x)->base : NULL; }

static val advance(emit *e, LLVMTypeRef t, val pointer, val offset) { return LLVMBuildGEP2(e->b, t, pointer, &offset, 1, ""); }

/* Adds the terms of the form to the pointer, those of outer scopes first, each in its scope; of evenly stepping ones the value in lane 0, of scattered ones nothing. */
static val add_terms(emit *e, LLVMTypeRef t, val pointer, const linear *f) {
  for (int depth = 0; depth <= e->depth; depth++) {
    val sum = NULL;
    LLVMBasicBlockRef back = NULL;
    for (int i = 0; i < f->n; i++) {
      int64_t step;
      bool varies = index_varies(e, f->atom[i]);
      if (index_depth(e, f->atom[i]) != depth || (varies && !even_step(e, f->atom[i], 1, &step))) continue;
      val v = varies ? term_base(e, f->atom[i]) : emit_index(e, f->atom[i]);
      back = hoist(e, depth);
      val term = f->coef[i] == 1 ? v : mul(e, v, const_int(e, v, f->coef[i]));
      sum = sum ? add(e, sum, term) : term;
      unhoist(e, back);
    }
    if (!sum) continue;
    back = hoist(e, depth);
    pointer = advance(e, t, pointer, sum);
    unhoist(e, back);
  }
  return f->constant ? advance(e, t, pointer, LLVMConstInt(e->i64, (unsigned long long)f->constant, 1)) : pointer;
}

/* 32 bits hold every scattered term and their sum: the form that gathers are fastest with. */
static int scattered_bits(const emit *e, const linear *f) {
  double lo = 0, hi = 0; /* no overflow to think of */
  for (int i = 0; i < f->n; i++) {
    int64_t step;
    const sn_ix *x = f->atom[i];
    if (!index_varies(e, x)) continue;
    if (even_step(e, x, f->coef[i], &step)) {
      double last = (double)step * e->lanes;
      lo += last < 0 ? last : 0;
      hi += last > 0 ? last : 0;
      continue;
    }
    if (vector_bits(e, x) == 64) return 64;
    double a = (double)x->lo * (double)f->coef[i], b = (double)x->hi * (double)f->coef[i];
    lo += a < b ? a : b;
    hi += a < b ? b : a;
    if (a < INT32_MIN || a > INT32_MAX || b < INT32_MIN || b > INT32_MAX) return 64;
  }
  return lo >= INT32_MIN && hi <= INT32_MAX ? 32 : 64;
}

/* The terms that differ unevenly from lane to lane, summed. */
static val scattered_terms(emit *e, const linear *f, int lanes) {
  int bits = scattered_bits(e, f);
  val sum = NULL;
  for (int i = 0; i < f->n; i++) {
    int64_t step;
    if (!index_varies(e, f->atom[i])) continue;
    val v;
    if (even_step(e, f->atom[i], f->coef[i], &step)) {
      v = lane_numbers(e, bits == 32 ? e->i32 : e->i64, lanes, step);
    } else {
      v = to_width(e, emit_index(e, f->atom[i]), bits);
      if (f->coef[i] != 1) v = mul(e, v, const_int(e, v, f->coef[i]));
    }
    sum = sum ? add(e, sum, v) : v;
  }
  return sum;
}

place emit_place(emit *e, int buffer, const sn_ix *const *at) {
  linear f;
  place p = {NULL, 0, false};
  const sn_kbuffer *b = &e->k->buffers[buffer];
  LLVMTypeRef part = memory_type(e, b->type);
  LLVMTypeRef t = sn_type_is_complex(b->type) ? LLVMArrayType2(part, 2) : part;
  address_form(e, buffer, at, &f);
  for (int i = 0; i < f.n; i++) {
    int64_t step;
    if (!index_varies(e, f.atom[i])) continue;
    if (even_step(e, f.atom[i], f.coef[i], &step)) p.lane_step += step;
    else p.scattered = true;
  }
  p.pointer = add_terms(e, t, e->buffers[buffer], &f);
  if (p.scattered) p.pointer = advance(e, t, p.pointer, scattered_terms(e, &f, e->lanes));
  return p;
}

val emit_offset(emit *e, LLVMTypeRef t, val pointer, int buffer, const sn_ix *const *at) {
  linear f;
  address_form(e, buffer, at, &f);
  for (int i = 0; i < f.n; i++) {
    if (index_varies(e, f.atom[i])) emit_fail(e, SN_ERR_UNSUPPORTED, "a tile whose origin differs from lane to lane");
  }
  return add_terms(e, t, pointer, &f);
}
