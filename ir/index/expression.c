/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The context of expressions: making each once, substitution, evaluation. */
#include "index_internal.h"

#include <string.h>

sn_status sn_ix_context_create(sn_arena *a, sn_ix_context **out) {
  *out = NULL;
  sn_ix_context *x = SN_NEW(a, sn_ix_context);
  if (!x) return SN_ERR_MEMORY;
  x->arena = a;
  x->n_table = 64;
  x->table = SN_NEW_N(a, const sn_ix *, x->n_table);
  if (!x->table) return SN_ERR_MEMORY;
  *out = x;
  return SN_OK;
}

/* Ids, not addresses: the order of a table never decides anything, but equal runs should be equal.
 */
static uint64_t ix_hash(const sn_ix *e) {
  uint64_t h = sn_hash_mix((uint64_t)e->kind, (uint64_t)e->value);
  h = sn_hash_mix(h, e->a ? e->a->id + 1u : 0);
  h = sn_hash_mix(h, e->b ? e->b->id + 1u : 0);
  h = sn_hash_mix(h, (uint64_t)e->lo);
  h = sn_hash_mix(h, (uint64_t)e->hi);
  for (int k = 0; k < e->n_args; k++) h = sn_hash_mix(h, e->args[k]->id);
  return h;
}

static bool ix_same(const sn_ix *a, const sn_ix *b) {
  if (a->kind != b->kind || a->value != b->value || a->a != b->a || a->b != b->b ||
      a->n_args != b->n_args || a->lo != b->lo || a->hi != b->hi)
    return false;
  for (int k = 0; k < a->n_args; k++) {
    if (a->args[k] != b->args[k]) return false;
  }
  return true;
}

static bool ix_grow(sn_ix_context *x) {
  uint32_t n = 2 * x->n_table;
  const sn_ix **table = n > x->n_table ? SN_NEW_N(x->arena, const sn_ix *, n) : NULL;
  if (!table) return false;
  for (uint32_t k = 0; k < x->n_table; k++) {
    if (!x->table[k]) continue;
    uint32_t at = (uint32_t)ix_hash(x->table[k]) & (n - 1);
    while (table[at]) at = (at + 1) & (n - 1);
    table[at] = x->table[k];
  }
  x->table = table;
  x->n_table = n;
  return true;
}

const sn_ix *sn_ix_intern(sn_ix_context *x, const sn_ix *fields) {
  if (2 * x->n >= x->n_table && !ix_grow(x)) return NULL;
  uint32_t at = (uint32_t)ix_hash(fields) & (x->n_table - 1);
  for (; x->table[at]; at = (at + 1) & (x->n_table - 1)) {
    if (ix_same(x->table[at], fields)) return x->table[at];
  }
  sn_ix *e = sn_arena_copy(x->arena, fields, sizeof *fields);
  if (!e) return NULL;
  if (e->n_args &&
      !(e->args = sn_arena_copy(x->arena, fields->args, (size_t)e->n_args * sizeof *e->args)))
    return NULL;
  e->id = x->n++;
  x->table[at] = e;
  return e;
}

/* ---- leaves
 * ---------------------------------------------------------------------------------------------------------------
 */

const sn_ix *sn_ix_const(sn_ix_context *x, int64_t v) {
  sn_ix e = {.kind = SN_IX_CONST, .value = v, .lo = v, .hi = v};
  return sn_ix_intern(x, &e);
}

/* What runs over one element (or none) is 0. */
static const sn_ix *ix_variable(sn_ix_context *x, sn_ix_kind kind, int64_t k, int64_t size) {
  if (size <= 1) return sn_ix_const(x, 0);
  sn_ix e = {.kind = kind, .value = k, .lo = 0, .hi = size - 1};
  return sn_ix_intern(x, &e);
}

const sn_ix *sn_ix_dim(sn_ix_context *x, int64_t k, int64_t size) {
  return ix_variable(x, SN_IX_DIM, k, size);
}

const sn_ix *sn_ix_sym(sn_ix_context *x, int64_t k, int64_t size) {
  return ix_variable(x, SN_IX_SYM, k, size);
}

const sn_ix *sn_ix_load(sn_ix_context *x, int64_t operand, int n, const sn_ix *const *at) {
  for (int k = 0; k < n; k++) {
    if (!at[k]) return NULL;
  }
  sn_ix e = {.kind = SN_IX_LOAD,
             .value = operand,
             .n_args = n,
             .args = at,
             .lo = INT64_MIN,
             .hi = INT64_MAX};
  return sn_ix_intern(x, &e);
}

/* ---- substitution
 * -----------------------------------------------------------------------------------------------------------
 */

typedef struct substitution {
  sn_ix_context *x;
  int n_dims, n_syms;
  const sn_ix *const *dims, *const *syms;
} substitution;

static const sn_ix *substitute(const substitution *s, const sn_ix *e);

static const sn_ix *substitute_load(const substitution *s, const sn_ix *e) {
  const sn_ix *small[SN_MAX_RANK];
  if (e->n_args > SN_MAX_RANK) return NULL;
  for (int k = 0; k < e->n_args; k++) {
    if (!(small[k] = substitute(s, e->args[k]))) return NULL;
  }
  return sn_ix_load(s->x, e->value, e->n_args, small);
}

static const sn_ix *substitute_node(const substitution *s, const sn_ix *e) {
  switch (e->kind) {
    case SN_IX_CONST:
      return e;
    case SN_IX_DIM:
      return s->dims && e->value < s->n_dims ? s->dims[e->value] : e;
    case SN_IX_SYM:
      return s->syms && e->value < s->n_syms ? s->syms[e->value] : e;
    case SN_IX_ADD:
      return sn_ix_add(s->x, substitute(s, e->a), substitute(s, e->b));
    case SN_IX_MUL:
      return sn_ix_mul(s->x, substitute(s, e->a), substitute(s, e->b));
    case SN_IX_DIV:
      return sn_ix_div(s->x, substitute(s, e->a), e->b->value);
    case SN_IX_MOD:
      return sn_ix_mod(s->x, substitute(s, e->a), e->b->value);
    case SN_IX_MIN:
      return sn_ix_min(s->x, substitute(s, e->a), substitute(s, e->b));
    case SN_IX_MAX:
      return sn_ix_max(s->x, substitute(s, e->a), substitute(s, e->b));
    case SN_IX_LOAD:
      return substitute_load(s, e);
  }
  return NULL;
}

/* Shared parts once: an expression is a graph, and as a tree it may be exponentially larger. */
static const sn_ix *substitute(const substitution *s, const sn_ix *e) {
  sn_ix_context *x = s->x;
  if (x->mark[e->id] == x->present) return x->memo[e->id];
  const sn_ix *r = substitute_node(s, e);
  x->memo[e->id] = r;
  x->mark[e->id] = x->present;
  return r;
}

static bool substitute_room(sn_ix_context *x) {
  if (x->n > x->n_memo || x->present == UINT32_MAX) {
    uint32_t n = x->n < 64 ? 128 : 2 * x->n;
    x->memo = SN_NEW_N(x->arena, const sn_ix *, n);
    x->mark = SN_NEW_N(x->arena, uint32_t, n);
    x->n_memo = x->memo && x->mark ? n : 0;
    x->present = 0;
  }
  x->present++;
  return x->n_memo != 0;
}

const sn_ix *sn_ix_substitute(sn_ix_context *x, const sn_ix *e, int n_dims,
                              const sn_ix *const *dims, int n_syms, const sn_ix *const *syms) {
  if (!e || !substitute_room(x)) return NULL;
  substitution s = {x, n_dims, n_syms, dims, syms};
  return substitute(&s, e);
}

/* ---- reading
 * --------------------------------------------------------------------------------------------------------------------
 */

int64_t sn_ix_eval(const sn_ix *e, const int64_t *dims, const int64_t *syms) {
  switch (e->kind) {
    case SN_IX_CONST:
      return e->value;
    case SN_IX_DIM:
      return dims[e->value];
    case SN_IX_SYM:
      return syms[e->value];
    case SN_IX_ADD:
      return sn_ix_eval(e->a, dims, syms) + sn_ix_eval(e->b, dims, syms);
    case SN_IX_MUL:
      return sn_ix_eval(e->a, dims, syms) * sn_ix_eval(e->b, dims, syms);
    case SN_IX_DIV:
      return sn_ix_floor_div(sn_ix_eval(e->a, dims, syms), e->b->value);
    case SN_IX_MOD:
      return sn_ix_floor_mod(sn_ix_eval(e->a, dims, syms), e->b->value);
    case SN_IX_MIN:
    case SN_IX_MAX: {
      int64_t a = sn_ix_eval(e->a, dims, syms), b = sn_ix_eval(e->b, dims, syms);
      return (a < b) == (e->kind == SN_IX_MIN) ? a : b;
    }
    case SN_IX_LOAD:
      break;
  }
  sn_assert(!"an expression with loads has no value by itself");
  return 0;
}

static void print_args(sn_str *to, const sn_ix *e) {
  for (int k = 0; k < e->n_args; k++) {
    if (k) sn_str_add(to, ", ");
    sn_ix_print(to, e->args[k]);
  }
}

/* Products, quotients and remainders bind tighter than sums; among themselves from left to right.
 */
static void print_operand(sn_str *to, const sn_ix *e, bool left) {
  bool plain = e->kind != SN_IX_ADD &&
               (left || (e->kind != SN_IX_MUL && e->kind != SN_IX_DIV && e->kind != SN_IX_MOD));
  if (!plain) sn_str_char(to, '(');
  sn_ix_print(to, e);
  if (!plain) sn_str_char(to, ')');
}

static void print_infix(sn_str *to, const sn_ix *e, const char *word) {
  print_operand(to, e->a, true);
  sn_str_add(to, word);
  print_operand(to, e->b, false);
}

static bool print_is_negative(const sn_ix *e) {
  return e->kind == SN_IX_MUL && e->b->kind == SN_IX_CONST && e->b->value < 0 &&
         e->b->value != INT64_MIN;
}

static void print_minus(sn_str *to, const sn_ix *e) {
  sn_str_add(to, " - ");
  print_operand(to, e->a, true);
  if (e->b->value == -1) return;
  sn_str_add(to, " * ");
  sn_str_i64(to, -e->b->value);
}

/* `a + -3`, `a + b * -2` and `a * -1 + 3` read as differences. */
static void print_sum(sn_str *to, const sn_ix *e) {
  const sn_ix *b = e->b;
  if (b->kind == SN_IX_CONST && print_is_negative(e->a)) {
    sn_str_i64(to, b->value);
    print_minus(to, e->a);
    return;
  }
  sn_ix_print(to, e->a);
  if (b->kind == SN_IX_CONST && b->value < 0 && b->value != INT64_MIN) {
    sn_str_add(to, " - ");
    sn_str_i64(to, -b->value);
  } else if (print_is_negative(b)) {
    print_minus(to, b);
  } else {
    sn_str_add(to, " + ");
    sn_ix_print(to, b);
  }
}

void sn_ix_print(sn_str *to, const sn_ix *e) {
  switch (e->kind) {
    case SN_IX_CONST:
      sn_str_i64(to, e->value);
      return;
    case SN_IX_DIM:
      sn_str_char(to, 'd');
      sn_str_i64(to, e->value);
      return;
    case SN_IX_SYM:
      sn_str_char(to, 's');
      sn_str_i64(to, e->value);
      return;
    case SN_IX_ADD:
      print_sum(to, e);
      return;
    case SN_IX_MUL:
      print_infix(to, e, " * ");
      return;
    case SN_IX_DIV:
      print_infix(to, e, " floordiv ");
      return;
    case SN_IX_MOD:
      print_infix(to, e, " mod ");
      return;
    case SN_IX_MIN:
    case SN_IX_MAX:
      sn_str_add(to, e->kind == SN_IX_MIN ? "min(" : "max(");
      sn_ix_print(to, e->a);
      sn_str_add(to, ", ");
      sn_ix_print(to, e->b);
      sn_str_char(to, ')');
      return;
    case SN_IX_LOAD:
      sn_str_add(to, "load");
      sn_str_i64(to, e->value);
      sn_str_char(to, '[');
      print_args(to, e);
      sn_str_char(to, ']');
      return;
  }
}
