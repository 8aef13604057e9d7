/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Words, numbers, names and index expressions of a kernel's text. */
#include "kernel_parse.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void kparse_failed(kernel_parser *p, const char *fmt, ...) {
  if (p->status != SN_OK) return;
  va_list ap;
  va_start(ap, fmt);
  sn_loc loc = {p->file, p->line, (uint32_t)(p->at - p->line_start) + 1};
  p->status = sn_verror(p->d, loc, SN_ERR_SYNTAX, fmt, ap);
  va_end(ap);
}

void kparse_no_memory(kernel_parser *p) {
  if (p->status == SN_OK) p->status = sn_out_of_memory(p->d, 0);
}

/* ---- characters and words ---- */

void kparse_skip_space(kernel_parser *p) {
  while (p->at < p->end && isspace((unsigned char)*p->at)) {
    if (*p->at == '\n') {
      p->line++;
      p->line_start = p->at + 1;
    }
    p->at++;
  }
}

bool kparse_peek(kernel_parser *p, const char *text) {
  size_t n = strlen(text);
  kparse_skip_space(p);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0) return false;
  bool word = isalnum((unsigned char)text[n - 1]);
  return !word || p->at + n == p->end || !(isalnum((unsigned char)p->at[n]) || p->at[n] == '-' || p->at[n] == '_');
}

bool kparse_take(kernel_parser *p, const char *text) {
  if (p->status != SN_OK || !kparse_peek(p, text)) return false;
  p->at += strlen(text);
  return true;
}

void kparse_want(kernel_parser *p, const char *text) {
  if (!kparse_take(p, text)) kparse_failed(p, "expected '%s'", text);
}

int64_t kparse_integer(kernel_parser *p) {
  char *end;
  kparse_skip_space(p);
  if (p->status != SN_OK || p->at == p->end || !(isdigit((unsigned char)*p->at) || *p->at == '-')) {
    kparse_failed(p, "expected an integer");
    return 0;
  }
  int64_t v = strtoll(p->at, &end, 10); /* the text ends with NUL */
  if (end == p->at) kparse_failed(p, "expected an integer");
  p->at = end;
  return v;
}

/* A word of letters, digits, '-', '_' and '.'; in the arena. */
const char *kparse_word(kernel_parser *p) {
  kparse_skip_space(p);
  const char *from = p->at;
  while (p->at < p->end && (isalnum((unsigned char)*p->at) || strchr("-_.", *p->at))) p->at++;
  if (p->at == from) kparse_failed(p, "expected a word");
  const char *w = sn_arena_string_n(p->a, from, (size_t)(p->at - from));
  if (!w) kparse_no_memory(p);
  return w ? w : "";
}

sn_type kparse_type_name(kernel_parser *p) {
  sn_type t = SN_TYPE_F32;
  const char *w = kparse_word(p);
  if (p->status == SN_OK && (!sn_type_from_text(w, strlen(w), &t) || !sn_type_is_array(t))) kparse_failed(p, "'%s' is no element type", w);
  return t;
}

sn_opcode kparse_opcode(kernel_parser *p) {
  const char *w = kparse_word(p);
  for (int o = 0; o < SN_OP_COUNT; o++) {
    if (strcmp(w, sn_opcode_text((sn_opcode)o)) == 0) return (sn_opcode)o;
  }
  kparse_failed(p, "'%s' is no op", w);
  return SN_OP_ADD;
}

/* A number behind a letter: v12, d3, s0, %4. */
int kparse_numbered(kernel_parser *p, char letter) {
  kparse_skip_space(p);
  if (p->at < p->end && *p->at == letter && p->at + 1 < p->end && isdigit((unsigned char)p->at[1])) {
    p->at++;
    int64_t n = kparse_integer(p);
    if (n < MAX_NUMBER) return (int)n;
  }
  kparse_failed(p, "expected '%c' and a number", letter);
  return 0;
}

/* ---- tables by number ---- */

void kparse_grow_tables(kernel_parser *p, int number) {
  if (number < p->n_table || p->status != SN_OK) return;
  int n = p->n_table ? p->n_table : 256;
  while (n <= number) n *= 2;
  sn_kvalue **values = SN_NEW_N(p->a, sn_kvalue *, n);
  const sn_ix **dims = SN_NEW_N(p->a, const sn_ix *, n), **syms = SN_NEW_N(p->a, const sn_ix *, n);
  if (!values || !dims || !syms) {
    kparse_no_memory(p);
    return;
  }
  if (p->n_table) {
    memcpy(values, p->values, (size_t)p->n_table * sizeof *values);
    memcpy(dims, p->vars[0], (size_t)p->n_table * sizeof *dims);
    memcpy(syms, p->vars[1], (size_t)p->n_table * sizeof *syms);
  }
  p->values = values;
  p->vars[0] = dims;
  p->vars[1] = syms;
  p->n_table = n;
}

/* The value takes the id it has in the text. */
void kparse_name_value(kernel_parser *p, sn_kvalue *v, int id) {
  kparse_grow_tables(p, id);
  if (p->status != SN_OK || !v) return;
  v->id = (uint32_t)id;
  p->values[id] = v;
  if ((uint32_t)id >= p->k->n_values) p->k->n_values = (uint32_t)id + 1;
}

sn_kvalue *kparse_value(kernel_parser *p) {
  int id = kparse_numbered(p, 'v');
  if (p->status == SN_OK && (id >= p->n_table || !p->values[id])) kparse_failed(p, "v%d is not defined", id);
  return p->status == SN_OK ? p->values[id] : NULL;
}

/* ---- index expressions ---- */

static const sn_ix *variable(kernel_parser *p, int table, char letter) {
  int n = kparse_numbered(p, letter);
  if (p->status == SN_OK && (n >= p->n_table || !p->vars[table][n])) kparse_failed(p, "%c%d is not open here", letter, n);
  return p->status == SN_OK ? p->vars[table][n] : NULL;
}

static const sn_ix *factor(kernel_parser *p) {
  sn_ix_context *x = p->k->ix;
  const sn_ix *e;
  if (++p->depth > MAX_NESTING) kparse_failed(p, "expressions nest too deeply");
  if (p->status != SN_OK) {
    e = NULL;
  } else if (kparse_take(p, "(")) {
    e = kparse_sum(p);
    kparse_want(p, ")");
  } else if (kparse_peek(p, "min(") || kparse_peek(p, "max(")) {
    bool least = kparse_take(p, "min(");
    if (!least) kparse_want(p, "max(");
    const sn_ix *a = kparse_sum(p);
    kparse_want(p, ",");
    const sn_ix *b = kparse_sum(p);
    kparse_want(p, ")");
    e = least ? sn_ix_min(x, a, b) : sn_ix_max(x, a, b);
  } else if (p->at < p->end && *p->at == 'd') {
    e = variable(p, 0, 'd');
  } else if (p->at < p->end && *p->at == 's') {
    e = variable(p, 1, 's');
  } else {
    e = sn_ix_const(x, kparse_integer(p));
  }
  p->depth--;
  return e;
}

static const sn_ix *product(kernel_parser *p) {
  const sn_ix *e = factor(p);
  while (p->status == SN_OK) {
    if (kparse_take(p, "*")) {
      e = sn_ix_mul(p->k->ix, e, factor(p));
    } else if (kparse_peek(p, "floordiv") || kparse_peek(p, "mod")) {
      bool div = kparse_take(p, "floordiv");
      if (!div) kparse_want(p, "mod");
      int64_t c = kparse_integer(p);
      if (c <= 0) kparse_failed(p, "a divisor is positive");
      if (p->status == SN_OK) e = div ? sn_ix_div(p->k->ix, e, c) : sn_ix_mod(p->k->ix, e, c);
    } else {
      break;
    }
  }
  return e;
}

const sn_ix *kparse_sum(kernel_parser *p) {
  const sn_ix *e = product(p);
  while (p->status == SN_OK) {
    if (kparse_take(p, "+")) e = sn_ix_add(p->k->ix, e, product(p));
    else if (kparse_peek(p, "-")) e = kparse_take(p, "-") ? sn_ix_sub(p->k->ix, e, product(p)) : e;
    else break;
  }
  if (!e && p->status == SN_OK) kparse_no_memory(p);
  return e;
}

void kparse_indices(kernel_parser *p, int want_n, const sn_ix **at) {
  int n = 0;
  kparse_want(p, "[");
  while (p->status == SN_OK && !kparse_peek(p, "]")) {
    if (n) kparse_want(p, ",");
    const sn_ix *e = kparse_sum(p);
    if (n == SN_MAX_RANK) kparse_failed(p, "more than %d dimensions", SN_MAX_RANK);
    else at[n++] = e;
  }
  kparse_want(p, "]");
  if (p->status == SN_OK && n != want_n) kparse_failed(p, "the buffer has %d dimensions, not %d", want_n, n);
}

int kparse_buffer_number(kernel_parser *p) {
  int n = kparse_numbered(p, '%');
  if (p->status == SN_OK && n >= p->k->n_buffers) kparse_failed(p, "there is no buffer %%%d", n);
  return p->status == SN_OK ? n : 0;
}

/* ` if (lo <= e <= hi, …)`; false where there is none. */
int kparse_guards(kernel_parser *p, sn_ix_guard *out) {
  int n = 0;
  if (!kparse_take(p, "if")) return 0;
  kparse_want(p, "(");
  do {
    if (n == MAX_OPERANDS) kparse_failed(p, "more than %d conditions", MAX_OPERANDS);
    if (p->status != SN_OK) return 0;
    out[n].lo = kparse_integer(p);
    kparse_want(p, "<=");
    out[n].e = kparse_sum(p);
    kparse_want(p, "<=");
    out[n].hi = kparse_integer(p);
    n++;
  } while (kparse_take(p, ","));
  kparse_want(p, ")");
  return p->status == SN_OK ? n : 0;
}
