/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The ops' own forms. Most are operands, words and `key = value` items separated by commas, then attributes, then types: one row each in the table.
 * The others have a function. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

/* What a list of types behind `:` (without `->`) says of the results. */
typedef enum results_rule { LAST, ALL, NONE } results_rule;

typedef struct form {
  const char *name;
  results_rule rule;
  const char *words; /* attributes named by position, separated by blanks */
  const char *keys;  /* written=attribute, separated by blanks; written=lhs|rhs: `[..] x [..]` */
  sn_status (*special)(sn_mx *p, sn_mx_op *o, const struct form *f);
} form;

/* ---- items ---- */

/* Finds `key=` in a row's keys; the attribute's name runs to the next blank. */
static bool key_attr(const char *keys, sn_mx_span key, sn_mx_span *out) {
  for (const char *c = keys; c != NULL && *c != '\0';) {
    const char *equal = strchr(c, '='), *end = strchr(c, ' ');
    if (end == NULL) end = c + strlen(c);
    if ((size_t)(equal - c) == key.n && strncmp(c, key.s, key.n) == 0) {
      *out = (sn_mx_span){equal + 1, (size_t)(end - equal - 1)};
      return true;
    }
    c = *end == ' ' ? end + 1 : end;
  }
  return false;
}

static sn_status unknown_key(sn_mx *p, const char *at, const sn_mx_op *o, const form *f, sn_mx_span key) {
  sn_status s = sn_mx_fail(p, at, SN_ERR_ATTRIBUTE, "%s has no `%.*s`", o->name, (int)key.n, key.s);
  if (f->keys != NULL && f->keys[0] != '\0') sn_hint(p->d, "written = attribute: %s", f->keys);
  return s;
}

/* `algorithm = <lhs_precision_type = tf32, …>` is a struct without its name. */
static sn_status value(sn_mx *p, const sn_mlir_attr **out) {
  if (sn_mx_peek(p) != '<') return sn_mx_attr(p, out);
  p->at++;
  sn_mx_attrs a = {0};
  sn_mlir_attr *s = sn_mlir_attr_new(p->m, SN_MA_STRUCT);
  if (s == NULL) return sn_mx_memory(p);
  do {
    sn_mx_span w;
    const sn_mlir_attr *v = NULL;
    SN_TRY(sn_mx_word(p, "a member's name", &w));
    SN_TRY(sn_mx_need(p, '=', "after a member's name"));
    SN_TRY(sn_mx_attr(p, &v));
    SN_TRY(sn_mx_attrs_add(p, &a, sn_mx_copy(p, w), v));
  } while (sn_mx_accept(p, ','));
  s->name = "stablehlo.dot_algorithm";
  s->members = a.v;
  s->n = a.n;
  *out = s;
  return sn_mx_need(p, '>', "after members");
}

static sn_status keyed(sn_mx *p, sn_mx_op *o, const form *f, sn_mx_span key, const char *at) {
  sn_mx_span name;
  const sn_mlir_attr *a = NULL;
  if (!key_attr(f->keys, key, &name)) return unknown_key(p, at, o, f, key);
  SN_TRY(sn_mx_need(p, '=', "after a key"));
  const char *bar = memchr(name.s, '|', name.n);
  SN_TRY(value(p, &a));
  if (bar == NULL) return sn_mx_attrs_add(p, &o->attrs, sn_mx_copy(p, name), a);
  sn_mx_span second = {bar + 1, name.n - (size_t)(bar - name.s) - 1};
  SN_TRY(sn_mx_attrs_add(p, &o->attrs, sn_mx_copy(p, (sn_mx_span){name.s, (size_t)(bar - name.s)}), a));
  if (!sn_mx_accept_word(p, "x")) return sn_mx_expected(p, "`x` between the dimensions of the two operands");
  SN_TRY(sn_mx_attr(p, &a));
  return sn_mx_attrs_add(p, &o->attrs, sn_mx_copy(p, second), a);
}

/* The k-th word of a list. */
static bool word_at(const char *words, int k, sn_mx_span *out) {
  const char *c = words;
  for (; c != NULL && *c != '\0'; k--) {
    const char *end = strchr(c, ' ');
    if (end == NULL) end = c + strlen(c);
    if (k == 0) {
      *out = (sn_mx_span){c, (size_t)(end - c)};
      return true;
    }
    c = *end == ' ' ? end + 1 : end;
  }
  return false;
}

static sn_status positional(sn_mx *p, sn_mx_op *o, const form *f, int *k) {
  sn_mx_span name;
  const sn_mlir_attr *a = NULL;
  if (!word_at(f->words, (*k)++, &name)) return sn_mx_expected(p, "an operand (%name), `{`, or `:` and types");
  SN_TRY(sn_mx_attr(p, &a));
  return sn_mx_attrs_add(p, &o->attrs, sn_mx_copy(p, name), a);
}

static sn_status item(sn_mx *p, sn_mx_op *o, const form *f, int *k) {
  if (sn_mx_peek(p) == '%') {
    sn_mlir_value *v = NULL;
    SN_TRY(sn_mx_use(p, &v));
    return sn_mx_op_operand(p, o, v);
  }
  const char *at = p->at;
  sn_mx_span w;
  if (!sn_mx_is_letter(*at)) return positional(p, o, f, k);
  SN_TRY(sn_mx_word(p, "an item", &w));
  if (sn_mx_peek(p) == '=') return keyed(p, o, f, w, at);
  p->at = at;
  return positional(p, o, f, k);
}

static sn_status items(sn_mx *p, sn_mx_op *o, const form *f) {
  int k = 0;
  char c = sn_mx_peek(p);
  if (c == ':' || c == '{' || c == '}' || c == '\0') return SN_OK;
  if (sn_mx_at_word(p, "loc")) return SN_OK;
  if (c == '(') { /* optimization_barrier () */
    p->at++;
    return sn_mx_need(p, ')', "after no operands");
  }
  do {
    SN_TRY(item(p, o, f, &k));
  } while (sn_mx_accept(p, ','));
  return SN_OK;
}

/* ---- types ---- */

typedef struct type_list {
  const sn_mlir_type **v;
  uint32_t n;
} type_list;

static sn_status type_items(sn_mx *p, type_list *l) {
  sn_mx_args a = {0}; /* the same growth serves */
  do {
    const sn_mlir_type *t = NULL;
    SN_TRY(sn_mx_type(p, &t));
    SN_TRY(sn_mx_args_add(p, &a, (sn_mx_span){"", 0}, t));
  } while (sn_mx_accept(p, ','));
  *l = (type_list){a.types, a.n};
  return SN_OK;
}

/* `T, T -> U` or `T -> (U, V)` */
static sn_status behind_arrow(sn_mx *p, sn_mx_op *o) {
  type_list l = {0};
  bool parens = sn_mx_accept(p, '(');
  if (parens && sn_mx_accept(p, ')')) return sn_mx_set_results(p, o, 0, NULL);
  SN_TRY(type_items(p, &l));
  if (parens) SN_TRY(sn_mx_need(p, ')', "after the types of the results"));
  return sn_mx_set_results(p, o, l.n, l.v);
}

/* Types of the values given, where the form states them one by one. */
static sn_status check_operands(sn_mx *p, const char *at, const sn_mx_op *o, const type_list *l) {
  if (l->n != o->n_operands)
    return sn_mx_fail(p, at, SN_ERR_TYPE, "expected %" PRIu32 " type%s, one an operand, found %" PRIu32, o->n_operands, o->n_operands == 1 ? "" : "s", l->n);
  for (uint32_t i = 0; i < l->n; i++)
    if (!sn_mlir_type_equal(l->v[i], o->operands[i]->type))
      return sn_mx_fail(p, at, SN_ERR_TYPE, "expected %s for operand %" PRIu32 ", found %s", sn_mlir_type_text(p->m->arena, o->operands[i]->type), i,
                        sn_mlir_type_text(p->m->arena, l->v[i]));
  return SN_OK;
}

/* `constant dense<…> : T`: the type of the values is that of the result. */
static const sn_mlir_type *const *value_type(const sn_mx_op *o) {
  for (uint32_t i = 0; i < o->attrs.n; i++)
    if (o->attrs.v[i].attr->kind == SN_MA_DENSE && strcmp(o->attrs.v[i].name, "value") == 0) return (const sn_mlir_type *const *)&o->attrs.v[i].attr->type;
  return NULL;
}

static sn_status types(sn_mx *p, sn_mx_op *o, const form *f) {
  if (sn_mx_peek(p) != ':') {
    if (f->rule == LAST && value_type(o) != NULL) return sn_mx_set_results(p, o, 1, value_type(o));
    if (f->rule != LAST) return sn_mx_set_results(p, o, 0, NULL);
    return sn_mx_expected(p, "`:` and the types");
  }
  const char *colon = p->at++;
  if (sn_mx_peek(p) == '(') {
    p->at = colon;
    return sn_mx_signature(p, o);
  }
  const char *at = p->at;
  type_list l = {0};
  SN_TRY(type_items(p, &l));
  if (sn_mx_accept_text(p, "->")) {
    SN_TRY(check_operands(p, at, o, &l));
    return behind_arrow(p, o);
  }
  if (f->rule == LAST) return sn_mx_set_results(p, o, 1, &l.v[l.n - 1]);
  if (f->rule == NONE && l.n == 1 && o->n_operands != 1) { /* check.expect_eq %a, %b : T */
    return sn_mx_set_results(p, o, 0, NULL);
  }
  SN_TRY(check_operands(p, at, o, &l));
  return f->rule == ALL ? sn_mx_set_results(p, o, l.n, l.v) : sn_mx_set_results(p, o, 0, NULL);
}

static sn_status attrs(sn_mx *p, sn_mx_op *o) { return sn_mx_peek(p) == '{' ? sn_mx_dict(p, &o->attrs) : SN_OK; }

static sn_status plain(sn_mx *p, sn_mx_op *o, const form *f) {
  SN_TRY(attrs(p, o)); /* constant {…} dense<…> */
  SN_TRY(items(p, o, f));
  SN_TRY(attrs(p, o));
  return types(p, o, f);
}

/* ---- ops with a form of their own ---- */

static sn_status add_ints(sn_mx *p, sn_mx_op *o, const char *name, int64_t n, const int64_t *v) {
  sn_mlir_attr *a = sn_mlir_attr_new(p->m, SN_MA_INTS);
  if (a == NULL || (a->ints = sn_arena_copy(p->m->arena, v, (size_t)(n + 1) * sizeof *v)) == NULL) return sn_mx_memory(p);
  a->n = n;
  return sn_mx_attrs_add(p, &o->attrs, name, a);
}

static sn_status one_operand(sn_mx *p, sn_mx_op *o) {
  sn_mlir_value *v = NULL;
  SN_TRY(sn_mx_use(p, &v));
  return sn_mx_op_operand(p, o, v);
}

/* `slice %x [0:4, 1:8:2]` */
static sn_status slice(sn_mx *p, sn_mx_op *o, const form *f) {
  int64_t start[SN_MAX_RANK + 1] = {0}, limit[SN_MAX_RANK + 1] = {0}, stride[SN_MAX_RANK + 1] = {0};
  int n = 0;
  SN_TRY(one_operand(p, o));
  SN_TRY(sn_mx_need(p, '[', "before the ranges of a slice"));
  if (sn_mx_peek(p) != ']') {
    do {
      if (n == SN_MAX_RANK) return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d dimensions", SN_MAX_RANK);
      SN_TRY(sn_mx_int(p, "the start of a range", &start[n]));
      SN_TRY(sn_mx_need(p, ':', "in a range"));
      SN_TRY(sn_mx_int(p, "the limit of a range", &limit[n]));
      stride[n] = 1;
      if (sn_mx_accept(p, ':')) SN_TRY(sn_mx_int(p, "a stride", &stride[n]));
      n++;
    } while (sn_mx_accept(p, ','));
  }
  SN_TRY(sn_mx_need(p, ']', "after the ranges of a slice"));
  SN_TRY(add_ints(p, o, "start_indices", n, start));
  SN_TRY(add_ints(p, o, "limit_indices", n, limit));
  SN_TRY(add_ints(p, o, "strides", n, stride));
  SN_TRY(attrs(p, o));
  return types(p, o, f);
}

static sn_status get_tuple_element(sn_mx *p, sn_mx_op *o, const form *f) {
  int64_t index = 0;
  SN_TRY(one_operand(p, o));
  SN_TRY(sn_mx_need(p, '[', "before an element's number"));
  SN_TRY(sn_mx_int(p, "an element's number", &index));
  SN_TRY(sn_mx_need(p, ']', "after an element's number"));
  SN_TRY(sn_mx_add_int(p, o, "index", index));
  SN_TRY(attrs(p, o));
  return types(p, o, f);
}

/* `reduce_precision %x, format = e8m10 : T` */
static sn_status reduce_precision(sn_mx *p, sn_mx_op *o, const form *f) {
  int64_t exponent = 0, mantissa = 0;
  SN_TRY(one_operand(p, o));
  SN_TRY(sn_mx_need(p, ',', "after the operand"));
  if (!sn_mx_accept_word(p, "format")) return sn_mx_expected(p, "`format = e…m…`");
  SN_TRY(sn_mx_need(p, '=', "after format"));
  if (!sn_mx_accept(p, 'e') || !sn_mx_is_digit(*p->at)) return sn_mx_expected(p, "a format such as e8m10");
  SN_TRY(sn_mx_int(p, "exponent bits", &exponent));
  if (*p->at != 'm' || !sn_mx_is_digit(p->at[1])) return sn_mx_expected(p, "`m` and the mantissa bits");
  p->at++;
  SN_TRY(sn_mx_int(p, "mantissa bits", &mantissa));
  SN_TRY(sn_mx_add_int(p, o, "exponent_bits", exponent));
  SN_TRY(sn_mx_add_int(p, o, "mantissa_bits", mantissa));
  SN_TRY(attrs(p, o));
  return types(p, o, f);
}

/* `custom_call @target(%a, …) {…} : …`, `call @f(%x) : …` */
static sn_status callee(sn_mx *p, sn_mx_op *o, const form *f) {
  const char *target = NULL;
  SN_TRY(sn_mx_symbol(p, &target));
  SN_TRY(sn_mx_add_string(p, o, f->words, f->words[4] == 'e' ? SN_MA_SYMBOL : SN_MA_STRING, target, strlen(target)));
  SN_TRY(sn_mx_need(p, '(', "before the operands"));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(sn_mx_need(p, ')', "after the operands"));
  SN_TRY(attrs(p, o));
  return sn_mx_signature(p, o);
}

static sn_status regions(sn_mx *p, sn_mx_op *o) {
  if (!sn_mx_accept(p, '(')) return SN_OK;
  do {
    sn_mlir_region *r = NULL;
    SN_TRY(sn_mx_op_region(p, o, &r));
    SN_TRY(sn_mx_region(p, r, NULL));
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, ')', "after regions");
}

/* `composite "name" %a, %b [(regions)] {…} : …` */
static sn_status composite(sn_mx *p, sn_mx_op *o, const form *f) {
  const char *name = NULL;
  size_t n = 0;
  (void)f;
  SN_TRY(sn_mx_string(p, &name, &n));
  SN_TRY(sn_mx_add_string(p, o, "name", SN_MA_STRING, name, n));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(regions(p, o));
  SN_TRY(attrs(p, o));
  return sn_mx_signature(p, o);
}

/* ---- convolution ---- */

static sn_status window_list(sn_mx *p, sn_mx_op *o, const char *at, const char *name, const sn_mlir_attr *list) {
  int64_t v[2 * SN_MAX_RANK + 1];
  int64_t n = 0;
  if (list->kind != SN_MA_ARRAY) return sn_mx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a list for %s", name);
  for (int64_t i = 0; i < list->n; i++) {
    const sn_mlir_attr *e = list->items[i];
    bool pair = e->kind == SN_MA_ARRAY && e->n == 2;
    for (int64_t k = 0; k < (pair ? 2 : 1); k++) {
      const sn_mlir_attr *x = pair ? e->items[k] : e;
      if ((x->kind != SN_MA_INT && x->kind != SN_MA_BOOL) || n >= 2 * SN_MAX_RANK) return sn_mx_fail(p, at, SN_ERR_ATTRIBUTE, "expected integers for %s", name);
      v[n++] = x->i;
    }
  }
  v[n] = 0;
  return add_ints(p, o, name, n, v);
}

static sn_status conv_window(sn_mx *p, sn_mx_op *o) {
  static const char *const names[][2] = {{"stride", "window_strides"}, {"pad", "padding"}, {"lhs_dilate", "lhs_dilation"}, {"rhs_dilate", "rhs_dilation"}, {"reverse", "window_reversal"}};
  sn_mx_attrs a = {0};
  sn_mx_skip(p);
  const char *at = p->at;
  SN_TRY(sn_mx_dict(p, &a));
  for (uint32_t i = 0; i < a.n; i++) {
    size_t k = 0;
    while (k < 5 && strcmp(a.v[i].name, names[k][0]) != 0) k++;
    if (k == 5) {
      sn_status s = sn_mx_fail(p, at, SN_ERR_ATTRIBUTE, "a window has no `%s`", a.v[i].name);
      sn_hint(p->d, "a window has stride, pad, lhs_dilate, rhs_dilate, reverse");
      return s;
    }
    SN_TRY(window_list(p, o, at, names[k][1], a.v[i].attr));
  }
  return SN_OK;
}

static sn_status convolution(sn_mx *p, sn_mx_op *o, const form *f) {
  const sn_mlir_attr *labels = NULL;
  (void)f;
  SN_TRY(sn_mx_need(p, '(', "before the operands"));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(sn_mx_need(p, ')', "after the operands"));
  if (!sn_mx_accept_word(p, "dim_numbers")) return sn_mx_expected(p, "`dim_numbers = […]x[…]->[…]`");
  SN_TRY(sn_mx_need(p, '=', "after dim_numbers"));
  SN_TRY(sn_mx_conv_labels(p, &labels));
  SN_TRY(sn_mx_attrs_add(p, &o->attrs, "dimension_numbers", labels));
  if (sn_mx_accept(p, ',')) {
    if (!sn_mx_accept_word(p, "window")) return sn_mx_expected(p, "`window = {…}`");
    SN_TRY(sn_mx_need(p, '=', "after window"));
    SN_TRY(conv_window(p, o));
  }
  SN_TRY(attrs(p, o));
  return sn_mx_signature(p, o);
}

/* ---- reduce ---- */

/* `(%x init: %v), (%y init: %w)`: operands are all inputs, then all start values. */
static sn_status reduce_pairs(sn_mx *p, sn_mx_op *o) {
  sn_mx_op starts = {0};
  do {
    sn_mlir_value *v = NULL;
    SN_TRY(sn_mx_need(p, '(', "before an operand and its start value"));
    SN_TRY(one_operand(p, o));
    if (!sn_mx_accept_word(p, "init")) return sn_mx_expected(p, "`init:`");
    SN_TRY(sn_mx_need(p, ':', "after init"));
    SN_TRY(sn_mx_use(p, &v));
    SN_TRY(sn_mx_op_operand(p, &starts, v));
    SN_TRY(sn_mx_need(p, ')', "after a start value"));
  } while (sn_mx_accept(p, ','));
  for (uint32_t i = 0; i < starts.n_operands; i++) SN_TRY(sn_mx_op_operand(p, o, starts.operands[i]));
  return SN_OK;
}

static sn_status reduce_dimensions(sn_mx *p, sn_mx_op *o) {
  const sn_mlir_attr *dims = NULL;
  if (!sn_mx_accept_word(p, "across") || !sn_mx_accept_word(p, "dimensions")) return sn_mx_expected(p, "`across dimensions = […]`");
  SN_TRY(sn_mx_need(p, '=', "after dimensions"));
  SN_TRY(sn_mx_int_list(p, &dims));
  SN_TRY(sn_mx_attrs_add(p, &o->attrs, "dimensions", dims));
  SN_TRY(attrs(p, o));
  return sn_mx_signature(p, o);
}

/* The body of `applies stablehlo.add`: op(a, b) over elements. */
static sn_status applied_body(sn_mx *p, sn_mx_op *o, const char *op_name, sn_loc loc) {
  if (o->n_operands != 2) return sn_error(p->d, loc, SN_ERR_SYNTAX, "expected one operand with `applies`, found %" PRIu32, o->n_operands / 2);
  sn_mlir_region *r = NULL;
  SN_TRY(sn_mx_op_region(p, o, &r));
  const sn_mlir_type *start = o->operands[1]->type;
  if (start->kind != SN_MT_TENSOR) return sn_error(p->d, loc, SN_ERR_TYPE, "expected a tensor as start value, found %s", sn_mlir_type_text(p->m->arena, start));
  const sn_mlir_type *t = sn_mlir_type_tensor(p->m, 0, NULL, start->element), *args[2] = {t, t};
  sn_mlir_block *b = t != NULL ? sn_mlir_block_new(p->m, r, 2, args) : NULL;
  sn_mlir_op *op = b != NULL ? sn_mlir_op_new(p->m, b, op_name, 1, &t, 0) : NULL;
  sn_mlir_op *back = op != NULL ? sn_mlir_op_new(p->m, b, "stablehlo.return", 0, NULL, 0) : NULL;
  sn_mlir_value **operands = SN_NEW_N(p->m->arena, sn_mlir_value *, 3);
  if (back == NULL || operands == NULL) return sn_mx_memory(p);
  operands[0] = &b->args[0];
  operands[1] = &b->args[1];
  operands[2] = &op->results[0];
  op->operands = operands;
  op->n_operands = 2;
  back->operands = operands + 2;
  back->n_operands = 1;
  op->loc = back->loc = loc;
  return SN_OK;
}

/* `reducer(%a: T, %b: T) (%c: U, %d: U) { … }`: the block's arguments are all first ones, then all second ones. */
static sn_status reducer(sn_mx *p, sn_mx_op *o) {
  sn_mx_args first = {0}, second = {0};
  sn_mlir_region *r = NULL;
  SN_TRY(sn_mx_trailing_loc(p, NULL));
  if (!sn_mx_accept_word(p, "reducer")) return sn_mx_expected(p, "`reducer(…)` and its body");
  while (sn_mx_accept(p, '(')) {
    for (int k = 0; k < 2; k++) {
      sn_mx_span name;
      const sn_mlir_type *t = NULL;
      if (k == 1) SN_TRY(sn_mx_need(p, ',', "between the arguments of a reducer"));
      SN_TRY(sn_mx_value_name(p, &name));
      SN_TRY(sn_mx_need(p, ':', "between an argument and its type"));
      SN_TRY(sn_mx_type(p, &t));
      SN_TRY(sn_mx_trailing_loc(p, NULL));
      SN_TRY(sn_mx_args_add(p, k == 0 ? &first : &second, name, t));
    }
    SN_TRY(sn_mx_need(p, ')', "after the arguments of a reducer"));
  }
  for (uint32_t i = 0; i < second.n; i++) SN_TRY(sn_mx_args_add(p, &first, second.names[i], second.types[i]));
  SN_TRY(sn_mx_op_region(p, o, &r));
  return sn_mx_region(p, r, &first);
}

static sn_status reduce(sn_mx *p, sn_mx_op *o, const form *f) {
  (void)f;
  SN_TRY(reduce_pairs(p, o));
  if (sn_mx_accept_word(p, "applies")) {
    sn_mx_span w;
    sn_mx_skip(p);
    sn_loc loc = sn_mx_loc(p, p->at);
    SN_TRY(sn_mx_word(p, "the op to apply", &w));
    const char *name = sn_mx_copy(p, w);
    if (name == NULL) return sn_mx_memory(p);
    SN_TRY(applied_body(p, o, name, loc));
    return reduce_dimensions(p, o);
  }
  SN_TRY(reduce_dimensions(p, o));
  return reducer(p, o);
}

/* ---- while ---- */

static sn_status while_args(sn_mx *p, sn_mx_op *o, sn_mx_args *args) {
  SN_TRY(sn_mx_need(p, '(', "before the values of a loop"));
  if (sn_mx_accept(p, ')')) return SN_OK;
  do {
    sn_mx_span name;
    SN_TRY(sn_mx_value_name(p, &name));
    SN_TRY(sn_mx_need(p, '=', "between an argument and its first value"));
    SN_TRY(one_operand(p, o));
    SN_TRY(sn_mx_args_add(p, args, name, o->operands[o->n_operands - 1]->type));
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, ')', "after the values of a loop");
}

static sn_status while_op(sn_mx *p, sn_mx_op *o, const form *f) {
  sn_mx_args args = {0};
  SN_TRY(while_args(p, o, &args));
  if (sn_mx_accept(p, ':') && o->n_operands != 0) {
    type_list l = {0};
    sn_mx_skip(p);
    const char *at = p->at;
    SN_TRY(type_items(p, &l));
    SN_TRY(check_operands(p, at, o, &l));
  }
  SN_TRY(sn_mx_set_results(p, o, args.n, args.types));
  SN_TRY(sn_mx_trailing_loc(p, NULL));
  if (sn_mx_accept_word(p, "attributes")) SN_TRY(sn_mx_dict(p, &o->attrs));
  const char *const words[2] = {"cond", "do"};
  for (int k = 0; k < 2; k++) {
    sn_mlir_region *r = NULL;
    if (!sn_mx_accept_word(p, words[k])) return sn_mx_expected(p, k == 0 ? "`cond {`" : "`do {`");
    SN_TRY(sn_mx_op_region(p, o, &r));
    SN_TRY(sn_mx_region(p, r, &args));
  }
  (void)f;
  return SN_OK;
}

/* ---- chlo ---- */

/* `top_k(%x, k = 5) : T -> (T, U)` */
static sn_status top_k(sn_mx *p, sn_mx_op *o, const form *f) {
  SN_TRY(sn_mx_need(p, '(', "before the operand"));
  int k = 0;
  do {
    SN_TRY(item(p, o, f, &k));
  } while (sn_mx_accept(p, ','));
  SN_TRY(sn_mx_need(p, ')', "after k"));
  SN_TRY(attrs(p, o));
  return types(p, o, f);
}

/* `scan(%xs) inits(%c) dimension=0 [attributes {…}] { … } : …` */
static sn_status scan(sn_mx *p, sn_mx_op *o, const form *f) {
  int64_t dimension = 0;
  sn_mlir_region *r = NULL;
  (void)f;
  SN_TRY(sn_mx_need(p, '(', "before the operands"));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(sn_mx_need(p, ')', "after the operands"));
  uint32_t inputs = o->n_operands;
  if (!sn_mx_accept_word(p, "inits")) return sn_mx_expected(p, "`inits(…)`");
  SN_TRY(sn_mx_need(p, '(', "after inits"));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(sn_mx_need(p, ')', "after the start values"));
  if (!sn_mx_accept_word(p, "dimension")) return sn_mx_expected(p, "`dimension = …`");
  SN_TRY(sn_mx_need(p, '=', "after dimension"));
  SN_TRY(sn_mx_int(p, "a dimension", &dimension));
  SN_TRY(sn_mx_add_int(p, o, "dimension", dimension));
  SN_TRY(sn_mx_add_int(p, o, "num_inputs", inputs));
  if (sn_mx_accept_word(p, "attributes")) SN_TRY(sn_mx_dict(p, &o->attrs));
  SN_TRY(sn_mx_op_region(p, o, &r));
  SN_TRY(sn_mx_region(p, r, NULL));
  return sn_mx_signature(p, o);
}

/* ---- sdy ---- */

static sn_status angles(sn_mx *p, sn_mx_op *o, const char *name) {
  sn_mx_span body;
  SN_TRY(sn_mx_need(p, '<', "before a mesh or sharding"));
  SN_TRY(sn_mx_balanced(p, &body));
  return sn_mx_add_string(p, o, name, SN_MA_OPAQUE, body.s, body.n);
}

/* `sdy.mesh @mesh = <["x"=2]>` */
static sn_status mesh(sn_mx *p, sn_mx_op *o, const form *f) {
  const char *name = NULL;
  (void)f;
  SN_TRY(sn_mx_symbol(p, &name));
  SN_TRY(sn_mx_need(p, '=', "after the mesh's name"));
  SN_TRY(sn_mx_add_string(p, o, "sym_name", SN_MA_STRING, name, strlen(name)));
  SN_TRY(angles(p, o, "mesh"));
  return attrs(p, o);
}

/* `sdy.sharding_constraint %0 <@mesh, [{"x"}]> : T` */
static sn_status sharding_constraint(sn_mx *p, sn_mx_op *o, const form *f) {
  SN_TRY(one_operand(p, o));
  SN_TRY(angles(p, o, "sharding"));
  SN_TRY(attrs(p, o));
  return types(p, o, f);
}

static sn_status raw_list(sn_mx *p, sn_mx_op *o, const char *word, char open) {
  sn_mx_span body;
  char where[64];
  snprintf(where, sizeof where, "after %s=", word);
  if (!sn_mx_accept_word(p, word)) return sn_mx_expected(p, word);
  SN_TRY(sn_mx_need(p, '=', word));
  SN_TRY(sn_mx_need(p, open, where));
  SN_TRY(sn_mx_balanced(p, &body));
  return sn_mx_add_string(p, o, word, SN_MA_OPAQUE, body.s, body.n);
}

/* `sdy.manual_computation(%0) in_shardings=[…] out_shardings=[…] manual_axes={…} (%arg1: T) { … } : (T) -> T` */
static sn_status manual_computation(sn_mx *p, sn_mx_op *o, const form *f) {
  sn_mx_args args = {0};
  sn_mlir_region *r = NULL;
  (void)f;
  SN_TRY(sn_mx_need(p, '(', "before the operands"));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(sn_mx_need(p, ')', "after the operands"));
  SN_TRY(raw_list(p, o, "in_shardings", '['));
  SN_TRY(raw_list(p, o, "out_shardings", '['));
  SN_TRY(raw_list(p, o, "manual_axes", '{'));
  SN_TRY(sn_mx_need(p, '(', "before the arguments of the region"));
  if (!sn_mx_accept(p, ')')) {
    do {
      sn_mx_span name;
      const sn_mlir_type *t = NULL;
      SN_TRY(sn_mx_value_name(p, &name));
      SN_TRY(sn_mx_need(p, ':', "between an argument and its type"));
      SN_TRY(sn_mx_type(p, &t));
      SN_TRY(sn_mx_trailing_loc(p, NULL));
      SN_TRY(sn_mx_args_add(p, &args, name, t));
    } while (sn_mx_accept(p, ','));
    SN_TRY(sn_mx_need(p, ')', "after the arguments of the region"));
  }
  SN_TRY(sn_mx_op_region(p, o, &r));
  SN_TRY(sn_mx_region(p, r, &args));
  return sn_mx_signature(p, o);
}

static sn_status func(sn_mx *p, sn_mx_op *o, const form *f) {
  (void)f;
  return sn_mx_func(p, o);
}

/* ---- the table: ops that are neither `op operands : types` nor generic ---- */

static const form forms[] = {
    {"arith.constant", LAST, "value", NULL, NULL},
    {"check.expect_almost_eq", NONE, NULL, "tolerance=tolerance", NULL},
    {"check.expect_almost_eq_const", NONE, "value", "tolerance=tolerance", NULL},
    {"check.expect_close", NONE, NULL, "max_ulp_difference=max_ulp_difference min_ulp_difference=min_ulp_difference", NULL},
    {"check.expect_eq", NONE, NULL, NULL, NULL},
    {"check.expect_eq_const", NONE, "value", NULL, NULL},
    {"check.expect_serialized_eq", NONE, NULL, "probe_id=probe_id iteration=iteration", NULL},
    {"chlo.constant", LAST, "value", NULL, NULL},
    {"chlo.scan", LAST, NULL, NULL, scan},
    {"chlo.top_k", LAST, NULL, "k=k is_stable=is_stable largest=largest", top_k},
    {"func.call", LAST, "callee", NULL, callee},
    {"func.func", NONE, NULL, NULL, func},
    {"func.return", NONE, NULL, NULL, NULL},
    {"interpreter.print", NONE, NULL, NULL, NULL},
    {"interpreter.probe", LAST, NULL, "probe_id=probe_id", NULL},
    {"sdy.manual_computation", LAST, NULL, NULL, manual_computation},
    {"sdy.mesh", NONE, NULL, NULL, mesh},
    {"sdy.return", NONE, NULL, NULL, NULL},
    {"sdy.sharding_constraint", LAST, NULL, NULL, sharding_constraint},
    {"stablehlo.broadcast", LAST, NULL, "sizes=broadcast_sizes", NULL},
    {"stablehlo.broadcast_in_dim", LAST, NULL, "dims=broadcast_dimensions", NULL},
    {"stablehlo.cholesky", LAST, NULL, "lower=lower", NULL},
    {"stablehlo.compare", LAST, "comparison_direction compare_type", NULL, NULL},
    {"stablehlo.composite", LAST, NULL, NULL, composite},
    {"stablehlo.concatenate", LAST, NULL, "dim=dimension", NULL},
    {"stablehlo.constant", LAST, "value", NULL, NULL},
    {"stablehlo.convolution", LAST, NULL, NULL, convolution},
    {"stablehlo.custom_call", LAST, "call_target_name", NULL, callee},
    {"stablehlo.dot", LAST, NULL, "precision=precision_config", NULL},
    {"stablehlo.dot_general", LAST, NULL,
     "batching_dims=lhs_batching_dimensions|rhs_batching_dimensions contracting_dims=lhs_contracting_dimensions|rhs_contracting_dimensions precision=precision_config algorithm=algorithm", NULL},
    {"stablehlo.dynamic_broadcast_in_dim", LAST, NULL, "dims=broadcast_dimensions", NULL},
    {"stablehlo.dynamic_iota", LAST, NULL, "dim=iota_dimension", NULL},
    {"stablehlo.dynamic_slice", LAST, NULL, "sizes=slice_sizes", NULL},
    {"stablehlo.einsum", LAST, NULL, "config=einsum_config", NULL},
    {"stablehlo.fft", LAST, NULL, "type=fft_type length=fft_length", NULL},
    {"stablehlo.get_dimension_size", LAST, NULL, "dim=dimension", NULL},
    {"stablehlo.get_tuple_element", LAST, NULL, NULL, get_tuple_element},
    {"stablehlo.iota", LAST, NULL, "dim=iota_dimension", NULL},
    {"stablehlo.optimization_barrier", ALL, NULL, NULL, NULL},
    {"stablehlo.pad", LAST, NULL, "low=edge_padding_low high=edge_padding_high interior=interior_padding", NULL},
    {"stablehlo.reduce", LAST, NULL, NULL, reduce},
    {"stablehlo.reduce_precision", LAST, NULL, NULL, reduce_precision},
    {"stablehlo.return", NONE, NULL, NULL, NULL},
    {"stablehlo.reverse", LAST, NULL, "dims=dimensions", NULL},
    {"stablehlo.rng", LAST, NULL, "distribution=rng_distribution", NULL},
    {"stablehlo.rng_bit_generator", LAST, NULL, "algorithm=rng_algorithm", NULL},
    {"stablehlo.set_dimension_size", LAST, NULL, "dim=dimension", NULL},
    {"stablehlo.slice", LAST, NULL, NULL, slice},
    {"stablehlo.transpose", LAST, NULL, "dims=permutation", NULL},
    {"stablehlo.unary_einsum", LAST, NULL, "config=einsum_config", NULL},
    {"stablehlo.while", ALL, NULL, NULL, while_op},
};

static int by_name(const void *key, const void *row) { return strcmp(key, ((const form *)row)->name); }

sn_status sn_mx_pretty(sn_mx *p, sn_mx_op *o) {
  static const form fallback = {"", LAST, NULL, NULL, NULL};
  const form *f = bsearch(o->name, forms, sizeof forms / sizeof forms[0], sizeof forms[0], by_name);
  if (f == NULL) f = &fallback;
  return f->special != NULL ? f->special(p, o, f) : plain(p, o, f);
}
