/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels from text: what kernel_print.c writes, read back to the same text. Recursive descent over the characters; the first fault is reported where it stands. */
#include "sinter/kernel.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 128, MAX_OPERANDS = 64, MAX_NUMBER = 1 << 20 };

typedef struct parser {
  sn_diag *d;
  sn_arena *a;
  const char *file;
  const char *at, *end, *line_start;
  uint32_t line;
  sn_kernel *k;
  sn_kbuilder b;
  sn_kvalue **values; /* by id */
  const sn_ix **vars[2]; /* DIM and SYM expressions by number, where bound */
  int n_table;        /* length of the three tables */
  int depth;
  sn_status status;
} parser;

static void failed(parser *p, const char *fmt, ...) SN_PRINTF(2, 3);
static void failed(parser *p, const char *fmt, ...) {
  if (p->status != SN_OK) return;
  va_list ap;
  va_start(ap, fmt);
  sn_loc loc = {p->file, p->line, (uint32_t)(p->at - p->line_start) + 1};
  p->status = sn_verror(p->d, loc, SN_ERR_SYNTAX, fmt, ap);
  va_end(ap);
}

static void no_memory(parser *p) {
  if (p->status == SN_OK) p->status = sn_out_of_memory(p->d, 0);
}

/* ---- characters and words ---- */

static void skip_space(parser *p) {
  while (p->at < p->end && isspace((unsigned char)*p->at)) {
    if (*p->at == '\n') {
      p->line++;
      p->line_start = p->at + 1;
    }
    p->at++;
  }
}

static bool peek(parser *p, const char *text) {
  size_t n = strlen(text);
  skip_space(p);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0) return false;
  bool word = isalnum((unsigned char)text[n - 1]);
  return !word || p->at + n == p->end || !(isalnum((unsigned char)p->at[n]) || p->at[n] == '-' || p->at[n] == '_');
}

static bool take(parser *p, const char *text) {
  if (p->status != SN_OK || !peek(p, text)) return false;
  p->at += strlen(text);
  return true;
}

static void want(parser *p, const char *text) {
  if (!take(p, text)) failed(p, "expected '%s'", text);
}

static int64_t integer(parser *p) {
  char *end;
  skip_space(p);
  if (p->status != SN_OK || p->at == p->end || !(isdigit((unsigned char)*p->at) || *p->at == '-')) {
    failed(p, "expected an integer");
    return 0;
  }
  int64_t v = strtoll(p->at, &end, 10); /* the text ends with NUL */
  if (end == p->at) failed(p, "expected an integer");
  p->at = end;
  return v;
}

/* A word of letters, digits, '-', '_' and '.'; in the arena. */
static const char *word(parser *p) {
  skip_space(p);
  const char *from = p->at;
  while (p->at < p->end && (isalnum((unsigned char)*p->at) || strchr("-_.", *p->at))) p->at++;
  if (p->at == from) failed(p, "expected a word");
  const char *w = sn_arena_string_n(p->a, from, (size_t)(p->at - from));
  if (!w) no_memory(p);
  return w ? w : "";
}

static sn_type type_name(parser *p) {
  sn_type t = SN_TYPE_F32;
  const char *w = word(p);
  if (p->status == SN_OK && (!sn_type_from_text(w, strlen(w), &t) || !sn_type_is_array(t))) failed(p, "'%s' is no element type", w);
  return t;
}

static sn_opcode opcode(parser *p) {
  const char *w = word(p);
  for (int o = 0; o < SN_OP_COUNT; o++) {
    if (strcmp(w, sn_opcode_text((sn_opcode)o)) == 0) return (sn_opcode)o;
  }
  failed(p, "'%s' is no op", w);
  return SN_OP_ADD;
}

/* A number behind a letter: v12, d3, s0, %4. */
static int numbered(parser *p, char letter) {
  skip_space(p);
  if (p->at < p->end && *p->at == letter && p->at + 1 < p->end && isdigit((unsigned char)p->at[1])) {
    p->at++;
    int64_t n = integer(p);
    if (n < MAX_NUMBER) return (int)n;
  }
  failed(p, "expected '%c' and a number", letter);
  return 0;
}

/* ---- tables by number ---- */

static void grow_tables(parser *p, int number) {
  if (number < p->n_table || p->status != SN_OK) return;
  int n = p->n_table ? p->n_table : 256;
  while (n <= number) n *= 2;
  sn_kvalue **values = SN_NEW_N(p->a, sn_kvalue *, n);
  const sn_ix **dims = SN_NEW_N(p->a, const sn_ix *, n), **syms = SN_NEW_N(p->a, const sn_ix *, n);
  if (!values || !dims || !syms) {
    no_memory(p);
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
static void name_value(parser *p, sn_kvalue *v, int id) {
  grow_tables(p, id);
  if (p->status != SN_OK || !v) return;
  v->id = (uint32_t)id;
  p->values[id] = v;
  if ((uint32_t)id >= p->k->n_values) p->k->n_values = (uint32_t)id + 1;
}

static sn_kvalue *value(parser *p) {
  int id = numbered(p, 'v');
  if (p->status == SN_OK && (id >= p->n_table || !p->values[id])) failed(p, "v%d is not defined", id);
  return p->status == SN_OK ? p->values[id] : NULL;
}

/* ---- index expressions ---- */

static const sn_ix *sum(parser *p);

static const sn_ix *variable(parser *p, int table, char letter) {
  int n = numbered(p, letter);
  if (p->status == SN_OK && (n >= p->n_table || !p->vars[table][n])) failed(p, "%c%d is not open here", letter, n);
  return p->status == SN_OK ? p->vars[table][n] : NULL;
}

static const sn_ix *factor(parser *p) {
  sn_ix_context *x = p->k->ix;
  const sn_ix *e;
  if (++p->depth > MAX_NESTING) failed(p, "expressions nest too deeply");
  if (p->status != SN_OK) {
    e = NULL;
  } else if (take(p, "(")) {
    e = sum(p);
    want(p, ")");
  } else if (peek(p, "min(") || peek(p, "max(")) {
    bool least = take(p, "min(");
    if (!least) want(p, "max(");
    const sn_ix *a = sum(p);
    want(p, ",");
    const sn_ix *b = sum(p);
    want(p, ")");
    e = least ? sn_ix_min(x, a, b) : sn_ix_max(x, a, b);
  } else if (p->at < p->end && *p->at == 'd') {
    e = variable(p, 0, 'd');
  } else if (p->at < p->end && *p->at == 's') {
    e = variable(p, 1, 's');
  } else {
    e = sn_ix_const(x, integer(p));
  }
  p->depth--;
  return e;
}

static const sn_ix *product(parser *p) {
  const sn_ix *e = factor(p);
  while (p->status == SN_OK) {
    if (take(p, "*")) {
      e = sn_ix_mul(p->k->ix, e, factor(p));
    } else if (peek(p, "floordiv") || peek(p, "mod")) {
      bool div = take(p, "floordiv");
      if (!div) want(p, "mod");
      int64_t c = integer(p);
      if (c <= 0) failed(p, "a divisor is positive");
      if (p->status == SN_OK) e = div ? sn_ix_div(p->k->ix, e, c) : sn_ix_mod(p->k->ix, e, c);
    } else {
      break;
    }
  }
  return e;
}

static const sn_ix *sum(parser *p) {
  const sn_ix *e = product(p);
  while (p->status == SN_OK) {
    if (take(p, "+")) e = sn_ix_add(p->k->ix, e, product(p));
    else if (peek(p, "-")) e = take(p, "-") ? sn_ix_sub(p->k->ix, e, product(p)) : e;
    else break;
  }
  if (!e && p->status == SN_OK) no_memory(p);
  return e;
}

static void indices(parser *p, int want_n, const sn_ix **at) {
  int n = 0;
  want(p, "[");
  while (p->status == SN_OK && !peek(p, "]")) {
    if (n) want(p, ",");
    const sn_ix *e = sum(p);
    if (n == SN_MAX_RANK) failed(p, "more than %d dimensions", SN_MAX_RANK);
    else at[n++] = e;
  }
  want(p, "]");
  if (p->status == SN_OK && n != want_n) failed(p, "the buffer has %d dimensions, not %d", want_n, n);
}

static int buffer_number(parser *p) {
  int n = numbered(p, '%');
  if (p->status == SN_OK && n >= p->k->n_buffers) failed(p, "there is no buffer %%%d", n);
  return p->status == SN_OK ? n : 0;
}

/* ` if (lo <= e <= hi, …)`; false where there is none. */
static int guards(parser *p, sn_ix_guard *out) {
  int n = 0;
  if (!take(p, "if")) return 0;
  want(p, "(");
  do {
    if (n == MAX_OPERANDS) failed(p, "more than %d conditions", MAX_OPERANDS);
    if (p->status != SN_OK) return 0;
    out[n].lo = integer(p);
    want(p, "<=");
    out[n].e = sum(p);
    want(p, "<=");
    out[n].hi = integer(p);
    n++;
  } while (take(p, ","));
  want(p, ")");
  return p->status == SN_OK ? n : 0;
}

/* ---- nodes ---- */

typedef struct result { int id; sn_type type; } result;

static sn_knode *last_node(parser *p) { return p->b.region->last; }

static double real(parser *p) {
  char *end;
  skip_space(p);
  if (take(p, "nan(")) {
    uint64_t bits = strtoull(p->at, &end, 16);
    double v;
    memcpy(&v, &bits, sizeof v);
    p->at = end;
    want(p, ")");
    return v;
  }
  double v = strtod(p->at, &end);
  if (end == p->at) failed(p, "expected a number");
  p->at = end;
  return v;
}

static sn_kvalue *constant(parser *p, sn_type t) {
  if (sn_type_is_complex(t)) {
    want(p, "(");
    double re = real(p);
    want(p, ",");
    double im = real(p);
    want(p, ")");
    return sn_kb_const_c128(&p->b, t, re, im);
  }
  return sn_type_is_float(t) ? sn_kb_const_f64(&p->b, t, real(p)) : sn_kb_const_i64(&p->b, t, integer(p));
}

static int operands(parser *p, sn_kvalue **xs) {
  int n = 0;
  do {
    if (n == MAX_OPERANDS) failed(p, "more than %d operands", MAX_OPERANDS);
    if (p->status != SN_OK) return n;
    skip_space(p);
    if (p->at == p->end || *p->at != 'v') break;
    xs[n++] = value(p);
  } while (take(p, ","));
  return n;
}

static int keyed(parser *p, const char *key, sn_enum_domain domain) {
  int64_t v = 0;
  want(p, key);
  want(p, "=");
  if (domain == SN_DOMAIN_NONE) return (int)integer(p);
  const char *w = word(p);
  if (p->status == SN_OK && !sn_enum_from_text(domain, w, strlen(w), &v)) failed(p, "'%s' is no value of %s", w, key);
  return (int)v;
}

static sn_kvalue *elementwise(parser *p, sn_type t) {
  sn_kvalue *xs[MAX_OPERANDS];
  sn_opcode op = opcode(p);
  int n = operands(p, xs);
  if (p->status != SN_OK) return NULL;
  sn_kvalue *v = sn_kb_elt(&p->b, op, t, n, xs);
  if (!v) return NULL;
  if (op == SN_OP_COMPARE) {
    v->node->direction = keyed(p, "direction", SN_DOMAIN_DIRECTION);
    if (take(p, ",")) {
      want(p, "type");
      want(p, "=");
      want(p, "TOTALORDER");
      v->node->bits[0] = 1;
    }
  }
  if (op == SN_OP_REDUCE_PRECISION) {
    v->node->exponent_bits = keyed(p, "exponent_bits", SN_DOMAIN_NONE);
    want(p, ",");
    v->node->mantissa_bits = keyed(p, "mantissa_bits", SN_DOMAIN_NONE);
  }
  return v;
}

static sn_kvalue *load(parser *p) {
  const sn_ix *at[SN_MAX_RANK];
  sn_ix_guard g[MAX_OPERANDS];
  int buffer = buffer_number(p);
  if (p->status != SN_OK) return NULL;
  indices(p, p->k->buffers[buffer].rank, at);
  int n = guards(p, g);
  sn_kvalue *otherwise = take(p, "else") ? value(p) : NULL;
  return p->status == SN_OK ? sn_kb_load(&p->b, buffer, at, n, g, otherwise) : NULL;
}

static void store(parser *p, bool atomic) {
  const sn_ix *at[SN_MAX_RANK];
  sn_ix_guard g[MAX_OPERANDS];
  int buffer = buffer_number(p);
  if (p->status != SN_OK) return;
  indices(p, p->k->buffers[buffer].rank, at);
  sn_opcode op = atomic ? opcode(p) : SN_OP_ADD;
  want(p, "=");
  sn_kvalue *v = value(p);
  int n = guards(p, g);
  if (p->status != SN_OK) return;
  sn_kb_store(&p->b, buffer, at, n, g, v);
  if (!atomic || !last_node(p)) return;
  last_node(p)->op = SN_K_ATOMIC;
  last_node(p)->hlo = op;
}

static void prefetch(parser *p) {
  const sn_ix *at[SN_MAX_RANK];
  sn_kprefetch use = take(p, "write") ? SN_KPREFETCH_WRITE : take(p, "later") ? SN_KPREFETCH_LATER : SN_KPREFETCH_READ;
  int buffer = buffer_number(p);
  if (p->status != SN_OK) return;
  indices(p, p->k->buffers[buffer].rank, at);
  if (p->status == SN_OK) sn_kb_prefetch(&p->b, buffer, at, use);
}

static void bind(parser *p) {
  int number = numbered(p, 's');
  want(p, "=");
  sn_kvalue *v = value(p);
  want(p, "in");
  int64_t lo = integer(p);
  want(p, "..");
  int64_t hi = integer(p);
  grow_tables(p, number);
  if (p->status != SN_OK) return;
  p->k->n_syms = number;
  sn_kb_bind(&p->b, v, lo, hi);
  p->vars[1][number] = sn_ix_sym(p->k->ix, number, hi - lo + 1);
  if (!p->vars[1][number]) no_memory(p);
}

static const sn_ix *const *tile_at(parser *p, const sn_ix *const *at, int rank) {
  const sn_ix *const *own = sn_arena_copy(p->a, at, (size_t)(rank + 1) * sizeof *at);
  if (!own) no_memory(p);
  return own;
}

static sn_ktile tile(parser *p) {
  const sn_ix *at[SN_MAX_RANK + 1] = {NULL};
  sn_ktile t = {buffer_number(p), NULL, {0, 0}};
  if (p->status != SN_OK) return t;
  indices(p, p->k->buffers[t.buffer].rank, at);
  want(p, "by");
  want(p, "(");
  t.stride[0] = integer(p);
  want(p, ",");
  t.stride[1] = integer(p);
  want(p, ")");
  t.at = tile_at(p, at, p->k->buffers[t.buffer].rank);
  return t;
}

static const sn_ix *named_index(parser *p, const char *name) {
  want(p, name);
  return sum(p);
}

static void contract(parser *p) {
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.mr = (int)integer(p);
  if (p->at < p->end && *p->at == 'x') p->at++; /* 14x32 is one word */
  else failed(p, "expected 'x'");
  c.nr = (int)integer(p);
  c.acc = tile(p);
  c.accumulate = take(p, "+=");
  if (!c.accumulate) want(p, "=");
  c.a = tile(p);
  want(p, "*");
  c.b = tile(p);
  c.m = named_index(p, "m");
  c.n = named_index(p, "n");
  c.k = named_index(p, "k");
  if (peek(p, "algorithm")) c.algorithm = keyed(p, "algorithm", SN_DOMAIN_DOT_ALGORITHM);
  c.exact = take(p, "exact");
  if (p->status == SN_OK) sn_kb_contract(&p->b, &c);
}

/* Nodes that the builder has no function for are made as empty yields and given their op. */
static sn_knode *plain_node(parser *p, sn_kop op) {
  sn_kb_yield(&p->b, 0, NULL);
  sn_knode *n = p->b.status == SN_OK ? last_node(p) : NULL;
  if (n) n->op = op;
  return n;
}

static void copy(parser *p) {
  sn_kcopy c;
  sn_ix_guard g[MAX_OPERANDS];
  memset(&c, 0, sizeof c);
  c.async = take(p, "async");
  c.to = tile(p);
  want(p, "=");
  c.from = tile(p);
  c.m = named_index(p, "m");
  c.n = named_index(p, "n");
  int n = guards(p, g);
  if (p->status == SN_OK) sn_kb_copy_guarded(&p->b, &c, n, g);
}

/* ---- nodes with regions ---- */

static void block(parser *p);

static void name_params(parser *p, sn_kregion *r, int n, const int *ids) {
  for (int i = 0; i < n; i++) name_value(p, &r->params[i], ids[i]);
}

static sn_knode *for_loop(parser *p) {
  static const struct { const char *text; sn_kloop loop; } loops[] = {{"unroll", SN_KLOOP_UNROLL}, {"vector", SN_KLOOP_VECTOR}, {"threads", SN_KLOOP_THREADS}, {"warps", SN_KLOOP_WARPS}};
  sn_kvalue *inits[MAX_OPERANDS];
  sn_opcode combine[MAX_OPERANDS];
  int ids[MAX_OPERANDS], n = 0, var = numbered(p, 'd'), width = 0;
  bool combines = false;
  sn_kloop loop = SN_KLOOP_SEQ;
  want(p, "in");
  const sn_ix *lo = sum(p), *hi, *e;
  want(p, "..");
  hi = sum(p);
  int64_t step = take(p, "step") ? integer(p) : 1;
  for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
    if (take(p, loops[i].text)) loop = loops[i].loop;
  }
  skip_space(p);
  if (p->at < p->end && isdigit((unsigned char)*p->at)) width = (int)integer(p);
  if (take(p, "carry")) {
    want(p, "(");
    do {
      if (n == MAX_OPERANDS) failed(p, "more than %d carried values", MAX_OPERANDS);
      if (p->status != SN_OK) return NULL;
      ids[n] = numbered(p, 'v');
      want(p, ":");
      type_name(p);
      want(p, "=");
      inits[n] = value(p);
      skip_space(p);
      combine[n] = SN_OP_ADD;
      if (p->at < p->end && isalpha((unsigned char)*p->at)) {
        combine[n] = opcode(p);
        combines = true;
      }
      n++;
    } while (take(p, ","));
    want(p, ")");
  }
  grow_tables(p, var);
  if (p->status != SN_OK) return NULL;
  p->k->n_vars = var; /* the builder numbers on from here */
  sn_knode *node = sn_kb_for(&p->b, loop, width, lo, hi, step, n, inits, combines ? combine : NULL, &e);
  if (!node) return NULL;
  p->vars[0][var] = e;
  name_params(p, node->regions[0], n, ids);
  block(p);
  p->vars[0][var] = NULL;
  if (p->status == SN_OK) sn_kb_end(&p->b);
  return node;
}

static sn_knode *when(parser *p, int n, const result *results) {
  sn_ix_guard g[MAX_OPERANDS];
  sn_type types[MAX_OPERANDS];
  int n_guards = guards(p, g);
  skip_space(p);
  sn_kvalue *pred = p->at < p->end && *p->at == 'v' ? value(p) : NULL;
  for (int i = 0; i < n; i++) types[i] = results[i].type;
  sn_knode *node = p->status == SN_OK ? sn_kb_if(&p->b, n_guards, g, pred, n, types) : NULL;
  if (!node) return NULL;
  block(p);
  if (p->status != SN_OK) return NULL;
  sn_kb_else(&p->b);
  if (take(p, "else")) block(p);
  if (p->status == SN_OK) sn_kb_end(&p->b);
  return node;
}

static sn_knode *while_loop(parser *p) {
  sn_kvalue *inits[MAX_OPERANDS];
  int ids[2][MAX_OPERANDS], n = 0;
  want(p, "carry");
  want(p, "(");
  while (p->status == SN_OK && !peek(p, ")")) {
    if (n) want(p, ";");
    if (n == MAX_OPERANDS) failed(p, "more than %d carried values", MAX_OPERANDS);
    if (p->status != SN_OK) return NULL;
    ids[0][n] = numbered(p, 'v');
    want(p, ",");
    ids[1][n] = numbered(p, 'v');
    want(p, ":");
    type_name(p);
    want(p, "=");
    inits[n++] = value(p);
  }
  want(p, ")");
  sn_knode *node = p->status == SN_OK ? sn_kb_while(&p->b, n, inits) : NULL;
  if (!node) return NULL;
  name_params(p, node->regions[0], n, ids[0]);
  block(p);
  want(p, "do");
  if (p->status != SN_OK) return NULL;
  sn_kb_do(&p->b);
  name_params(p, node->regions[1], n, ids[1]);
  block(p);
  if (p->status == SN_OK) sn_kb_end(&p->b);
  return node;
}

/* ---- statements ---- */

static int result_list(parser *p, result *out) {
  int n = 0;
  skip_space(p);
  if (p->at + 1 >= p->end || *p->at != 'v' || !isdigit((unsigned char)p->at[1])) return 0;
  do {
    if (n == MAX_OPERANDS) failed(p, "more than %d results", MAX_OPERANDS);
    if (p->status != SN_OK) return n;
    out[n].id = numbered(p, 'v');
    want(p, ":");
    out[n++].type = type_name(p);
  } while (take(p, ","));
  want(p, "=");
  return n;
}

static void effect(parser *p) {
  sn_kvalue *xs[MAX_OPERANDS];
  if (take(p, "store")) {
    store(p, false);
  } else if (take(p, "atomic")) {
    store(p, true);
  } else if (take(p, "prefetch")) {
    prefetch(p);
  } else if (take(p, "bind")) {
    bind(p);
  } else if (take(p, "yield")) {
    int n = operands(p, xs);
    if (p->status == SN_OK) sn_kb_yield(&p->b, n, xs);
  } else if (take(p, "contract")) {
    contract(p);
  } else if (take(p, "barrier")) {
    plain_node(p, SN_K_BARRIER);
  } else if (take(p, "copy")) {
    copy(p);
  } else if (take(p, "commit")) {
    sn_kb_commit(&p->b);
  } else if (take(p, "wait")) {
    int64_t groups = integer(p);
    if (groups < 0 || groups > 1000) failed(p, "wait leaves 0 … 1000 groups open, not %lld", (long long)groups);
    sn_kb_wait(&p->b, (int)groups);
  } else {
    failed(p, "expected a node: a load, a store, a loop, an op, …");
  }
}

static sn_knode *producer(parser *p, sn_type t) {
  sn_kvalue *v, *xs[MAX_OPERANDS];
  if (take(p, "const")) {
    v = constant(p, t);
  } else if (take(p, "index")) {
    const sn_ix *e = sum(p);
    v = p->status == SN_OK ? sn_kb_index(&p->b, t, e) : NULL;
  } else if (take(p, "load")) {
    v = load(p);
  } else if (take(p, "fma")) {
    int n = operands(p, xs);
    if (n != 3) failed(p, "fma takes three operands");
    v = p->status == SN_OK ? sn_kb_fma(&p->b, xs[0], xs[1], xs[2]) : NULL;
  } else {
    v = elementwise(p, t);
  }
  return v ? v->node : NULL;
}

/* `  // text` to the end of the line. */
static const char *comment(parser *p) {
  const char *at = p->at;
  while (at < p->end && (*at == ' ' || *at == '\t')) at++;
  if (at + 1 >= p->end || at[0] != '/' || at[1] != '/') return NULL;
  at += 2;
  while (at < p->end && *at == ' ') at++;
  const char *from = at;
  while (at < p->end && *at != '\n') at++;
  p->at = at;
  return sn_arena_string_n(p->a, from, (size_t)(at - from));
}

static void statement(parser *p) {
  result results[MAX_OPERANDS];
  int n = result_list(p, results);
  sn_knode *node = NULL;
  if (p->status != SN_OK) return;
  sn_kregion *region = p->b.region;
  if (take(p, "for")) node = for_loop(p);
  else if (take(p, "when")) node = when(p, n, results);
  else if (take(p, "while")) node = while_loop(p);
  else if (n == 0) effect(p);
  else node = producer(p, results[0].type);
  if (p->b.status != SN_OK && p->status == SN_OK) p->status = p->b.status == SN_ERR_MEMORY ? sn_out_of_memory(p->d, 0) : sn_error(p->d, (sn_loc){p->file, p->line, 1}, p->b.status, "the node cannot be built");
  if (p->status != SN_OK) return;
  if (n && (!node || node->n_results != n)) failed(p, "%d results are named, the node gives %d", n, node ? node->n_results : 0);
  for (int i = 0; p->status == SN_OK && i < n; i++) {
    if (node->results[i].type != results[i].type) failed(p, "v%d is %s, not %s", results[i].id, sn_type_text(node->results[i].type), sn_type_text(results[i].type));
    name_value(p, &node->results[i], results[i].id);
  }
  const char *text = comment(p);
  if (text && region->last) region->last->comment = text;
}

static void block(parser *p) {
  if (++p->depth > MAX_NESTING) failed(p, "blocks nest deeper than %d", MAX_NESTING);
  want(p, "{");
  while (p->status == SN_OK && !peek(p, "}")) statement(p);
  want(p, "}");
  p->depth--;
}

/* ---- head ---- */

static void buffer(parser *p, bool local) {
  static const char *const memories[SN_KMEM_COUNT] = {"in", "out", "inout", "work", "register", "scratch"};
  int64_t dims[SN_MAX_RANK], strides[SN_MAX_RANK];
  int rank = 0, n_strides = 0, memory = -1, number = numbered(p, '%');
  const char *name = NULL;
  want(p, ":");
  sn_type t = type_name(p);
  want(p, "[");
  while (p->status == SN_OK && !peek(p, "]")) {
    if (rank) want(p, ",");
    if (rank == SN_MAX_RANK) failed(p, "more than %d dimensions", SN_MAX_RANK);
    else dims[rank++] = integer(p);
    if (p->status == SN_OK && dims[rank - 1] < 0) failed(p, "a dimension is negative");
  }
  want(p, "]");
  if (take(p, "strides")) {
    want(p, "(");
    while (p->status == SN_OK && n_strides < rank) {
      if (n_strides) want(p, ",");
      strides[n_strides++] = integer(p);
    }
    want(p, ")");
  }
  for (int m = 0; m < SN_KMEM_COUNT; m++) {
    if (memory < 0 && take(p, memories[m])) memory = m;
  }
  if (memory < 0) failed(p, "expected in, out, inout, work, register or scratch");
  else if (local && memory < SN_KMEM_WORK) failed(p, "an argument among the locals");
  if (take(p, "/*")) {
    const char *from = p->at;
    while (p->at + 1 < p->end && !(p->at[0] == '*' && p->at[1] == '/')) p->at++;
    name = sn_arena_string_n(p->a, from, (size_t)(p->at - from));
    want(p, "*/");
  }
  if (p->status == SN_OK && number != p->k->n_buffers) failed(p, "buffers are numbered in order: %%%d comes next", p->k->n_buffers);
  if (p->status == SN_OK && sn_kernel_add_buffer(p->k, (sn_kmemory)memory, t, rank, dims, n_strides ? strides : NULL, name) < 0) no_memory(p);
}

static void phase(parser *p) {
  int64_t grid[SN_MAX_RANK + 2];
  int n = 0;
  want(p, "grid");
  want(p, "(");
  while (p->status == SN_OK && !peek(p, ")")) {
    if (n) want(p, ",");
    int d = numbered(p, 'd');
    if (d != n || n == SN_MAX_RANK + 2) failed(p, "grid variables are numbered in order");
    want(p, "<");
    if (p->status == SN_OK) grid[n++] = integer(p);
  }
  want(p, ")");
  bool finishes = take(p, "finishes"), beside = !finishes && take(p, "beside");
  int64_t cost = take(p, "cost") ? integer(p) : 0;
  if (p->status != SN_OK) return;
  sn_kphase *f = sn_kernel_add_phase(p->k, n, grid);
  if (!f) {
    no_memory(p);
    return;
  }
  f->cost = cost;
  f->finishes = finishes;
  f->beside = beside;
  grow_tables(p, n);
  if (p->status != SN_OK) return;
  memset(p->vars[0], 0, (size_t)p->n_table * sizeof *p->vars[0]);
  for (int i = 0; i < n; i++) p->vars[0][i] = sn_ix_dim(p->k->ix, i, grid[i]);
  p->b.region = f->body;
  p->b.before = NULL;
  block(p);
}

/* Numbers of variables and symbols in use: the builder's counters were moved about while parsing. */
static void count_numbers(sn_kernel *k, const sn_kregion *r) {
  for (const sn_knode *n = r->first; n; n = n->next) {
    if (n->op == SN_K_FOR && n->var >= k->n_vars) k->n_vars = n->var + 1;
    if (n->op == SN_K_BIND && n->var >= k->n_syms) k->n_syms = n->var + 1;
    for (int i = 0; i < n->n_regions; i++) count_numbers(k, n->regions[i]);
  }
}

static void kernel(parser *p) {
  want(p, "kernel");
  want(p, "@");
  p->status = p->status == SN_OK ? sn_kernel_create(p->a, word(p), &p->k) : p->status;
  if (p->status != SN_OK) return;
  p->b.k = p->k;
  grow_tables(p, 0);
  want(p, "(");
  while (p->status == SN_OK && !peek(p, ")")) {
    if (p->k->n_buffers) want(p, ",");
    buffer(p, false);
  }
  want(p, ")");
  want(p, "{");
  while (p->status == SN_OK && !peek(p, "}")) {
    if (take(p, "local")) buffer(p, true);
    else if (take(p, "phase")) phase(p);
    else failed(p, "expected 'local', 'phase' or '}'");
  }
  want(p, "}");
  skip_space(p);
  if (p->status == SN_OK && p->at < p->end) failed(p, "text behind the kernel");
}

sn_status sn_kernel_parse(sn_diag *d, sn_arena *a, const char *file, const char *text, size_t n_bytes, sn_kernel **out) {
  *out = NULL;
  const char *own = sn_arena_string_n(a, text, n_bytes); /* ends with NUL, which strtoll and strtod need */
  parser *p = SN_NEW(a, parser);
  if (!own || !p) return sn_out_of_memory(d, n_bytes);
  *p = (parser){.d = d, .a = a, .file = file, .at = own, .end = own + strlen(own), .line_start = own, .line = 1};
  kernel(p);
  if (p->status != SN_OK) return p->status;
  p->k->n_vars = p->k->n_syms = 0;
  for (int f = 0; f < p->k->n_phases; f++) {
    if (p->k->phases[f].n_grid > p->k->n_vars) p->k->n_vars = p->k->phases[f].n_grid;
    count_numbers(p->k, p->k->phases[f].body);
  }
  *out = p->k;
  return SN_OK;
}
