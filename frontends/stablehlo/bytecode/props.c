/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* An op's attributes: its properties by the table's row, then its dictionary, in StableHLO's terms. */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

typedef struct named_list {
  sn_mlir_named *v;
  uint32_t n;
} named_list;

/* ---- the words of a row ---- */

typedef struct word {
  const char *s;
  size_t n;
  bool optional, symbols;
} word;

/* Steps over the next word; false: none is left. */
static bool next_word(const char **at, word *w) {
  if (**at == '\0') return false;
  size_t n = strcspn(*at, " ");
  *w = (word){*at, n, (*at)[n - 1] == '?', (*at)[n - 1] == '@'};
  if (w->optional || w->symbols) w->n--;
  *at += n;
  if (**at == ' ') ++*at;
  return true;
}

static uint32_t count_words(const char *attrs) {
  uint32_t n = 0;
  word w;
  while (next_word(&attrs, &w)) n++;
  return n;
}

static bool are_symbols(const sn_bc_row *row, const char *name) {
  word w;
  for (const char *at = row->attrs; next_word(&at, &w);)
    if (w.symbols && strlen(name) == w.n && strncmp(w.s, name, w.n) == 0) return true;
  return false;
}

/* ---- StableHLO's terms ---- */

static sn_status symbol_of(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  if (a->kind != SN_MA_STRING) return SN_OK;
  sn_mlir_attr *s = sn_mlir_attr_new(b->m, SN_MA_SYMBOL);
  if (s == NULL) return sn_bc_memory(b);
  s->s = a->s;
  s->n = a->n;
  *out = s;
  return SN_OK;
}

/* Strings name functions: one, or a list of them. */
static sn_status symbols_of(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  if (a->kind != SN_MA_ARRAY) return symbol_of(b, a, out);
  sn_mlir_attr *list = sn_mlir_attr_new(b->m, SN_MA_ARRAY);
  const sn_mlir_attr **v = SN_NEW_N(b->m->arena, const sn_mlir_attr *, a->n + 1);
  if (list == NULL || v == NULL) return sn_bc_memory(b);
  for (int64_t i = 0; i < a->n; i++) SN_TRY(symbol_of(b, a->items[i], &v[i]));
  list->items = v;
  list->n = a->n;
  *out = list;
  return SN_OK;
}

static bool says_nothing(const sn_mlir_attr *list) {
  if (list->kind != SN_MA_ARRAY) return false;
  for (int64_t i = 0; i < list->n; i++)
    if (list->items[i]->kind != SN_MA_DICT || list->items[i]->n != 0) return false;
  return true;
}

/* Types "none", and what a function need not say: they are left out. */
static bool is_absent(const sn_bc_op_name *op, const char *name, const sn_mlir_attr *a) {
  if (a->kind == SN_MA_TYPE && a->type->kind == SN_MT_NONE) return true;
  if (strcmp(op->name, "func.func") != 0) return false;
  if (strcmp(name, "sym_visibility") == 0) return a->kind == SN_MA_STRING && a->n == 0;
  return (strcmp(name, "arg_attrs") == 0 || strcmp(name, "res_attrs") == 0) && says_nothing(a);
}

static sn_status add(sn_bc *b, const sn_bc_op_name *op, const char *name, const sn_mlir_attr *a, bool symbols, named_list *to) {
  if (is_absent(op, name, a)) return SN_OK;
  if (symbols) SN_TRY(symbols_of(b, a, &a));
  if (strncmp(op->name, "sdy.", 4) == 0) SN_TRY(sn_bc_sdy_bare(b, a, &a)); /* they are written without `#sdy.mesh<` */
  to->v[to->n++] = (sn_mlir_named){name, a};
  return SN_OK;
}

/* ---- properties ---- */

/* The arena holds each word of each row once a row: names are found by their place. */
static const char *attr_name(sn_bc *b, const word *w) { return sn_arena_string_n(b->m->arena, w->s, w->n); }

static sn_status by_row(sn_bc *b, sn_bc_cursor *c, const sn_bc_op_name *op, const sn_bc_row *row, named_list *to) {
  word w;
  for (const char *at = row->attrs; next_word(&at, &w);) {
    const sn_mlir_attr *a = NULL;
    SN_TRY(w.optional ? sn_bc_attr_optional(b, c, "a property", &a) : sn_bc_attr(b, c, "a property", &a));
    if (a == NULL) continue;
    const char *name = attr_name(b, &w);
    if (name == NULL) return sn_bc_memory(b);
    SN_TRY(add(b, op, name, a, w.symbols, to));
  }
  return SN_OK;
}

/* Does a row take all the bytes? Optional and required ones are an integer each. */
static bool row_fits(sn_bc *b, sn_bc_cursor c, const sn_bc_row *row) {
  uint64_t v = 0;
  sn_diag *d = b->d;
  uint32_t n = count_words(row->attrs);
  sn_status s = SN_OK;
  b->d = NULL; /* a trial */
  for (uint32_t i = 0; i < n && s == SN_OK; i++) s = sn_bc_uint(b, &c, "a property", &v);
  b->d = d;
  return s == SN_OK && c.at == c.end;
}

static sn_status properties(sn_bc *b, const sn_bc_cursor *from, const sn_bc_op_name *op, const sn_bc_props *props, named_list *to) {
  sn_bc_cursor c = {props->at, props->end, "Properties"};
  const sn_bc_row *row = op->row;
  if (row == NULL) {
    if (c.at == c.end) return SN_OK;
    return sn_bc_fail(b, from, SN_ERR_UNSUPPORTED, "the properties of %s are not known here", op->full);
  }
  while (row != NULL && !row_fits(b, c, row)) row = sn_bc_row_next(row);
  if (row != NULL) return by_row(b, &c, op, row, to);
  sn_bc_fail(b, &c, SN_ERR_SYNTAX, "expected the properties of %s, found %zu bytes that are something else", op->full, sn_bc_left(&c));
  sn_hint(b->d, "they are, by order: %s", op->row->attrs);
  return SN_ERR_SYNTAX;
}

sn_status sn_bc_op_attrs(sn_bc *b, const sn_bc_cursor *c, const sn_bc_op_name *name, const sn_bc_props *props, const sn_mlir_attr *dictionary, uint32_t *n,
                         const sn_mlir_named **out) {
  *n = 0;
  *out = NULL;
  if (dictionary != NULL && dictionary->kind != SN_MA_DICT) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a dictionary as an op's attributes, found another attribute");
  size_t room = (props != NULL && name->row != NULL ? count_words(name->row->attrs) : 0) + (dictionary != NULL ? (size_t)dictionary->n : 0);
  if (props == NULL && room == 0) return SN_OK;
  named_list list = {SN_NEW_N(b->m->arena, sn_mlir_named, room + 1), 0};
  if (list.v == NULL) return sn_bc_memory(b);
  if (props != NULL) SN_TRY(properties(b, c, name, props, &list));
  for (int64_t i = 0; dictionary != NULL && i < dictionary->n; i++) {
    const sn_mlir_named *m = &dictionary->members[i];
    SN_TRY(add(b, name, m->name, m->attr, name->row != NULL && are_symbols(name->row, m->name), &list));
  }
  *n = list.n;
  *out = list.v;
  return SN_OK;
}
