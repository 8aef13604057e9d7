/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels from text: what kernel_print.c writes, read back to the same text. Recursive descent over the characters; the first fault is reported where it stands. */
#include "kernel_parse.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- nodes ---- */

typedef struct result { int id; sn_type type; } result;

static sn_knode *last_node(kernel_parser *p) { return p->b.region->last; }

static double real(kernel_parser *p) {
  char *end;
  kparse_skip_space(p);
  if (kparse_take(p, "nan(")) {
    uint64_t bits = strtoull(p->at, &end, 16);
    double v;
    memcpy(&v, &bits, sizeof v);
    p->at = end;
    kparse_want(p, ")");
    return v;
  }
  double v = strtod(p->at, &end);
  if (end == p->at) kparse_failed(p, "expected a number");
  p->at = end;
  return v;
}

static sn_kvalue *constant(kernel_parser *p, sn_type t) {
  if (sn_type_is_complex(t)) {
    kparse_want(p, "(");
    double re = real(p);
    kparse_want(p, ",");
    double im = real(p);
    kparse_want(p, ")");
    return sn_kb_const_c128(&p->b, t, re, im);
  }
  return sn_type_is_float(t) ? sn_kb_const_f64(&p->b, t, real(p)) : sn_kb_const_i64(&p->b, t, kparse_integer(p));
}

static int operands(kernel_parser *p, sn_kvalue **xs) {
  int n = 0;
  do {
    if (n == MAX_OPERANDS) kparse_failed(p, "more than %d operands", MAX_OPERANDS);
    if (p->status != SN_OK) return n;
    kparse_skip_space(p);
    if (p->at == p->end || *p->at != 'v') break;
    xs[n++] = kparse_value(p);
  } while (kparse_take(p, ","));
  return n;
}

static int keyed(kernel_parser *p, const char *key, sn_enum_domain domain) {
  int64_t v = 0;
  kparse_want(p, key);
  kparse_want(p, "=");
  if (domain == SN_DOMAIN_NONE) return (int)kparse_integer(p);
  const char *w = kparse_word(p);
  if (p->status == SN_OK && !sn_enum_from_text(domain, w, strlen(w), &v)) kparse_failed(p, "'%s' is no value of %s", w, key);
  return (int)v;
}

static sn_kvalue *elementwise(kernel_parser *p, sn_type t) {
  sn_kvalue *xs[MAX_OPERANDS];
  sn_opcode op = kparse_opcode(p);
  int n = operands(p, xs);
  if (p->status != SN_OK) return NULL;
  sn_kvalue *v = sn_kb_elt(&p->b, op, t, n, xs);
  if (!v) return NULL;
  if (op == SN_OP_COMPARE) {
    v->node->direction = keyed(p, "direction", SN_DOMAIN_DIRECTION);
    if (kparse_take(p, ",")) {
      kparse_want(p, "type");
      kparse_want(p, "=");
      kparse_want(p, "TOTALORDER");
      v->node->bits[0] = 1;
    }
  }
  if (op == SN_OP_REDUCE_PRECISION) {
    v->node->exponent_bits = keyed(p, "exponent_bits", SN_DOMAIN_NONE);
    kparse_want(p, ",");
    v->node->mantissa_bits = keyed(p, "mantissa_bits", SN_DOMAIN_NONE);
  }
  return v;
}

static sn_kvalue *load(kernel_parser *p) {
  const sn_ix *at[SN_MAX_RANK];
  sn_ix_guard g[MAX_OPERANDS];
  int buffer = kparse_buffer_number(p);
  if (p->status != SN_OK) return NULL;
  kparse_indices(p, p->k->buffers[buffer].rank, at);
  int n = kparse_guards(p, g);
  sn_kvalue *otherwise = kparse_take(p, "else") ? kparse_value(p) : NULL;
  return p->status == SN_OK ? sn_kb_load(&p->b, buffer, at, n, g, otherwise) : NULL;
}

static void store(kernel_parser *p, bool atomic) {
  const sn_ix *at[SN_MAX_RANK];
  sn_ix_guard g[MAX_OPERANDS];
  int buffer = kparse_buffer_number(p);
  if (p->status != SN_OK) return;
  kparse_indices(p, p->k->buffers[buffer].rank, at);
  sn_opcode op = atomic ? kparse_opcode(p) : SN_OP_ADD;
  kparse_want(p, "=");
  sn_kvalue *v = kparse_value(p);
  int n = kparse_guards(p, g);
  if (p->status != SN_OK) return;
  sn_kb_store(&p->b, buffer, at, n, g, v);
  if (!atomic || !last_node(p)) return;
  last_node(p)->op = SN_K_ATOMIC;
  last_node(p)->hlo = op;
}

static void prefetch(kernel_parser *p) {
  const sn_ix *at[SN_MAX_RANK];
  sn_kprefetch use = kparse_take(p, "write") ? SN_KPREFETCH_WRITE : kparse_take(p, "later") ? SN_KPREFETCH_LATER : SN_KPREFETCH_READ;
  int buffer = kparse_buffer_number(p);
  if (p->status != SN_OK) return;
  kparse_indices(p, p->k->buffers[buffer].rank, at);
  if (p->status == SN_OK) sn_kb_prefetch(&p->b, buffer, at, use);
}

static void bind(kernel_parser *p) {
  int number = kparse_numbered(p, 's');
  kparse_want(p, "=");
  sn_kvalue *v = kparse_value(p);
  kparse_want(p, "in");
  int64_t lo = kparse_integer(p);
  kparse_want(p, "..");
  int64_t hi = kparse_integer(p);
  kparse_grow_tables(p, number);
  if (p->status != SN_OK) return;
  p->k->n_syms = number;
  sn_kb_bind(&p->b, v, lo, hi);
  p->vars[1][number] = sn_ix_sym(p->k->ix, number, hi - lo + 1);
  if (!p->vars[1][number]) kparse_no_memory(p);
}

static const sn_ix *const *tile_at(kernel_parser *p, const sn_ix *const *at, int rank) {
  const sn_ix *const *own = sn_arena_copy(p->a, at, (size_t)(rank + 1) * sizeof *at);
  if (!own) kparse_no_memory(p);
  return own;
}

static sn_ktile tile(kernel_parser *p) {
  const sn_ix *at[SN_MAX_RANK + 1] = {NULL};
  sn_ktile t = {kparse_buffer_number(p), NULL, {0, 0}};
  if (p->status != SN_OK) return t;
  kparse_indices(p, p->k->buffers[t.buffer].rank, at);
  kparse_want(p, "by");
  kparse_want(p, "(");
  t.stride[0] = kparse_integer(p);
  kparse_want(p, ",");
  t.stride[1] = kparse_integer(p);
  kparse_want(p, ")");
  t.at = tile_at(p, at, p->k->buffers[t.buffer].rank);
  return t;
}

static const sn_ix *named_index(kernel_parser *p, const char *name) {
  kparse_want(p, name);
  return kparse_sum(p);
}

static void contract(kernel_parser *p) {
  sn_kcontract c;
  memset(&c, 0, sizeof c);
  c.mr = (int)kparse_integer(p);
  if (p->at < p->end && *p->at == 'x') p->at++; /* 14x32 is one word */
  else kparse_failed(p, "expected 'x'");
  c.nr = (int)kparse_integer(p);
  c.acc = tile(p);
  c.accumulate = kparse_take(p, "+=");
  if (!c.accumulate) kparse_want(p, "=");
  c.a = tile(p);
  kparse_want(p, "*");
  c.b = tile(p);
  c.m = named_index(p, "m");
  c.n = named_index(p, "n");
  c.k = named_index(p, "k");
  if (kparse_peek(p, "algorithm")) c.algorithm = keyed(p, "algorithm", SN_DOMAIN_DOT_ALGORITHM);
  c.exact = kparse_take(p, "exact");
  if (p->status == SN_OK) sn_kb_contract(&p->b, &c);
}

/* Nodes that the builder has no function for are made as empty yields and given their op. */
static sn_knode *plain_node(kernel_parser *p, sn_kop op) {
  sn_kb_yield(&p->b, 0, NULL);
  sn_knode *n = p->b.status == SN_OK ? last_node(p) : NULL;
  if (n) n->op = op;
  return n;
}

static void copy(kernel_parser *p) {
  sn_kcopy c;
  sn_ix_guard g[MAX_OPERANDS];
  memset(&c, 0, sizeof c);
  c.async = kparse_take(p, "async");
  c.to = tile(p);
  kparse_want(p, "=");
  c.from = tile(p);
  c.m = named_index(p, "m");
  c.n = named_index(p, "n");
  int n = kparse_guards(p, g);
  if (p->status == SN_OK) sn_kb_copy_guarded(&p->b, &c, n, g);
}

/* ---- nodes with regions ---- */

static void block(kernel_parser *p);

static void name_params(kernel_parser *p, sn_kregion *r, int n, const int *ids) {
  for (int i = 0; i < n; i++) kparse_name_value(p, &r->params[i], ids[i]);
}

static sn_knode *for_loop(kernel_parser *p) {
  static const struct { const char *text; sn_kloop loop; } loops[] = {{"unroll", SN_KLOOP_UNROLL}, {"vector", SN_KLOOP_VECTOR}, {"threads", SN_KLOOP_THREADS}, {"warps", SN_KLOOP_WARPS}};
  sn_kvalue *inits[MAX_OPERANDS];
  sn_opcode combine[MAX_OPERANDS];
  int ids[MAX_OPERANDS], n = 0, var = kparse_numbered(p, 'd'), width = 0;
  bool combines = false;
  sn_kloop loop = SN_KLOOP_SEQ;
  kparse_want(p, "in");
  const sn_ix *lo = kparse_sum(p), *hi, *e;
  kparse_want(p, "..");
  hi = kparse_sum(p);
  int64_t step = kparse_take(p, "step") ? kparse_integer(p) : 1;
  for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
    if (kparse_take(p, loops[i].text)) loop = loops[i].loop;
  }
  kparse_skip_space(p);
  if (p->at < p->end && isdigit((unsigned char)*p->at)) width = (int)kparse_integer(p);
  if (kparse_take(p, "carry")) {
    kparse_want(p, "(");
    do {
      if (n == MAX_OPERANDS) kparse_failed(p, "more than %d carried values", MAX_OPERANDS);
      if (p->status != SN_OK) return NULL;
      ids[n] = kparse_numbered(p, 'v');
      kparse_want(p, ":");
      kparse_type_name(p);
      kparse_want(p, "=");
      inits[n] = kparse_value(p);
      kparse_skip_space(p);
      combine[n] = SN_OP_ADD;
      if (p->at < p->end && isalpha((unsigned char)*p->at)) {
        combine[n] = kparse_opcode(p);
        combines = true;
      }
      n++;
    } while (kparse_take(p, ","));
    kparse_want(p, ")");
  }
  kparse_grow_tables(p, var);
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

static sn_knode *when(kernel_parser *p, int n, const result *results) {
  sn_ix_guard g[MAX_OPERANDS];
  sn_type types[MAX_OPERANDS];
  int n_guards = kparse_guards(p, g);
  kparse_skip_space(p);
  sn_kvalue *pred = p->at < p->end && *p->at == 'v' ? kparse_value(p) : NULL;
  for (int i = 0; i < n; i++) types[i] = results[i].type;
  sn_knode *node = p->status == SN_OK ? sn_kb_if(&p->b, n_guards, g, pred, n, types) : NULL;
  if (!node) return NULL;
  block(p);
  if (p->status != SN_OK) return NULL;
  sn_kb_else(&p->b);
  if (kparse_take(p, "else")) block(p);
  if (p->status == SN_OK) sn_kb_end(&p->b);
  return node;
}

static sn_knode *while_loop(kernel_parser *p) {
  sn_kvalue *inits[MAX_OPERANDS];
  int ids[2][MAX_OPERANDS], n = 0;
  kparse_want(p, "carry");
  kparse_want(p, "(");
  while (p->status == SN_OK && !kparse_peek(p, ")")) {
    if (n) kparse_want(p, ";");
    if (n == MAX_OPERANDS) kparse_failed(p, "more than %d carried values", MAX_OPERANDS);
    if (p->status != SN_OK) return NULL;
    ids[0][n] = kparse_numbered(p, 'v');
    kparse_want(p, ",");
    ids[1][n] = kparse_numbered(p, 'v');
    kparse_want(p, ":");
    kparse_type_name(p);
    kparse_want(p, "=");
    inits[n++] = kparse_value(p);
  }
  kparse_want(p, ")");
  sn_knode *node = p->status == SN_OK ? sn_kb_while(&p->b, n, inits) : NULL;
  if (!node) return NULL;
  name_params(p, node->regions[0], n, ids[0]);
  block(p);
  kparse_want(p, "do");
  if (p->status != SN_OK) return NULL;
  sn_kb_do(&p->b);
  name_params(p, node->regions[1], n, ids[1]);
  block(p);
  if (p->status == SN_OK) sn_kb_end(&p->b);
  return node;
}

/* ---- statements ---- */

static int result_list(kernel_parser *p, result *out) {
  int n = 0;
  kparse_skip_space(p);
  if (p->at + 1 >= p->end || *p->at != 'v' || !isdigit((unsigned char)p->at[1])) return 0;
  do {
    if (n == MAX_OPERANDS) kparse_failed(p, "more than %d results", MAX_OPERANDS);
    if (p->status != SN_OK) return n;
    out[n].id = kparse_numbered(p, 'v');
    kparse_want(p, ":");
    out[n++].type = kparse_type_name(p);
  } while (kparse_take(p, ","));
  kparse_want(p, "=");
  return n;
}

static void effect(kernel_parser *p) {
  sn_kvalue *xs[MAX_OPERANDS];
  if (kparse_take(p, "store")) {
    store(p, false);
  } else if (kparse_take(p, "atomic")) {
    store(p, true);
  } else if (kparse_take(p, "prefetch")) {
    prefetch(p);
  } else if (kparse_take(p, "bind")) {
    bind(p);
  } else if (kparse_take(p, "yield")) {
    int n = operands(p, xs);
    if (p->status == SN_OK) sn_kb_yield(&p->b, n, xs);
  } else if (kparse_take(p, "contract")) {
    contract(p);
  } else if (kparse_take(p, "barrier")) {
    plain_node(p, SN_K_BARRIER);
  } else if (kparse_take(p, "copy")) {
    copy(p);
  } else if (kparse_take(p, "commit")) {
    sn_kb_commit(&p->b);
  } else if (kparse_take(p, "wait")) {
    int64_t groups = kparse_integer(p);
    if (groups < 0 || groups > 1000) kparse_failed(p, "wait leaves 0 … 1000 groups open, not %lld", (long long)groups);
    sn_kb_wait(&p->b, (int)groups);
  } else {
    kparse_failed(p, "expected a node: a load, a store, a loop, an op, …");
  }
}

static sn_knode *producer(kernel_parser *p, sn_type t) {
  sn_kvalue *v, *xs[MAX_OPERANDS];
  if (kparse_take(p, "const")) {
    v = constant(p, t);
  } else if (kparse_take(p, "index")) {
    const sn_ix *e = kparse_sum(p);
    v = p->status == SN_OK ? sn_kb_index(&p->b, t, e) : NULL;
  } else if (kparse_take(p, "load")) {
    v = load(p);
  } else if (kparse_take(p, "fma")) {
    int n = operands(p, xs);
    if (n != 3) kparse_failed(p, "fma takes three operands");
    v = p->status == SN_OK ? sn_kb_fma(&p->b, xs[0], xs[1], xs[2]) : NULL;
  } else {
    v = elementwise(p, t);
  }
  return v ? v->node : NULL;
}

/* `  // text` to the end of the line. */
static const char *comment(kernel_parser *p) {
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

static void statement(kernel_parser *p) {
  result results[MAX_OPERANDS];
  int n = result_list(p, results);
  sn_knode *node = NULL;
  if (p->status != SN_OK) return;
  sn_kregion *region = p->b.region;
  if (kparse_take(p, "for")) node = for_loop(p);
  else if (kparse_take(p, "when")) node = when(p, n, results);
  else if (kparse_take(p, "while")) node = while_loop(p);
  else if (n == 0) effect(p);
  else node = producer(p, results[0].type);
  if (p->b.status != SN_OK && p->status == SN_OK) p->status = p->b.status == SN_ERR_MEMORY ? sn_out_of_memory(p->d, 0) : sn_error(p->d, (sn_loc){p->file, p->line, 1}, p->b.status, "the node cannot be built");
  if (p->status != SN_OK) return;
  if (n && (!node || node->n_results != n)) kparse_failed(p, "%d results are named, the node gives %d", n, node ? node->n_results : 0);
  for (int i = 0; p->status == SN_OK && i < n; i++) {
    if (node->results[i].type != results[i].type) kparse_failed(p, "v%d is %s, not %s", results[i].id, sn_type_text(node->results[i].type), sn_type_text(results[i].type));
    kparse_name_value(p, &node->results[i], results[i].id);
  }
  const char *text = comment(p);
  if (text && region->last) region->last->comment = text;
}

static void block(kernel_parser *p) {
  if (++p->depth > MAX_NESTING) kparse_failed(p, "blocks nest deeper than %d", MAX_NESTING);
  kparse_want(p, "{");
  while (p->status == SN_OK && !kparse_peek(p, "}")) statement(p);
  kparse_want(p, "}");
  p->depth--;
}

/* ---- head ---- */

static void buffer(kernel_parser *p, bool local) {
  static const char *const memories[SN_KMEM_COUNT] = {"in", "out", "inout", "work", "register", "scratch"};
  int64_t dims[SN_MAX_RANK], strides[SN_MAX_RANK];
  int rank = 0, n_strides = 0, memory = -1, number = kparse_numbered(p, '%');
  const char *name = NULL;
  kparse_want(p, ":");
  sn_type t = kparse_type_name(p);
  kparse_want(p, "[");
  while (p->status == SN_OK && !kparse_peek(p, "]")) {
    if (rank) kparse_want(p, ",");
    if (rank == SN_MAX_RANK) kparse_failed(p, "more than %d dimensions", SN_MAX_RANK);
    else dims[rank++] = kparse_integer(p);
    if (p->status == SN_OK && dims[rank - 1] < 0) kparse_failed(p, "a dimension is negative");
  }
  kparse_want(p, "]");
  if (kparse_take(p, "strides")) {
    kparse_want(p, "(");
    while (p->status == SN_OK && n_strides < rank) {
      if (n_strides) kparse_want(p, ",");
      strides[n_strides++] = kparse_integer(p);
    }
    kparse_want(p, ")");
  }
  for (int m = 0; m < SN_KMEM_COUNT; m++) {
    if (memory < 0 && kparse_take(p, memories[m])) memory = m;
  }
  if (memory < 0) kparse_failed(p, "expected in, out, inout, work, register or scratch");
  else if (local && memory < SN_KMEM_WORK) kparse_failed(p, "an argument among the locals");
  if (kparse_take(p, "/*")) {
    const char *from = p->at;
    while (p->at + 1 < p->end && !(p->at[0] == '*' && p->at[1] == '/')) p->at++;
    name = sn_arena_string_n(p->a, from, (size_t)(p->at - from));
    kparse_want(p, "*/");
  }
  if (p->status == SN_OK && number != p->k->n_buffers) kparse_failed(p, "buffers are numbered in order: %%%d comes next", p->k->n_buffers);
  if (p->status == SN_OK && sn_kernel_add_buffer(p->k, (sn_kmemory)memory, t, rank, dims, n_strides ? strides : NULL, name) < 0) kparse_no_memory(p);
}

static void phase(kernel_parser *p) {
  int64_t grid[SN_MAX_RANK + 2];
  int n = 0;
  kparse_want(p, "grid");
  kparse_want(p, "(");
  while (p->status == SN_OK && !kparse_peek(p, ")")) {
    if (n) kparse_want(p, ",");
    int d = kparse_numbered(p, 'd');
    if (d != n || n == SN_MAX_RANK + 2) kparse_failed(p, "grid variables are numbered in order");
    kparse_want(p, "<");
    if (p->status == SN_OK) grid[n++] = kparse_integer(p);
  }
  kparse_want(p, ")");
  bool finishes = kparse_take(p, "finishes"), beside = !finishes && kparse_take(p, "beside");
  int64_t cost = kparse_take(p, "cost") ? kparse_integer(p) : 0;
  if (p->status != SN_OK) return;
  sn_kphase *f = sn_kernel_add_phase(p->k, n, grid);
  if (!f) {
    kparse_no_memory(p);
    return;
  }
  f->cost = cost;
  f->finishes = finishes;
  f->beside = beside;
  kparse_grow_tables(p, n);
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

static void kernel(kernel_parser *p) {
  kparse_want(p, "kernel");
  kparse_want(p, "@");
  p->status = p->status == SN_OK ? sn_kernel_create(p->a, kparse_word(p), &p->k) : p->status;
  if (p->status != SN_OK) return;
  p->b.k = p->k;
  kparse_grow_tables(p, 0);
  kparse_want(p, "(");
  while (p->status == SN_OK && !kparse_peek(p, ")")) {
    if (p->k->n_buffers) kparse_want(p, ",");
    buffer(p, false);
  }
  kparse_want(p, ")");
  kparse_want(p, "{");
  while (p->status == SN_OK && !kparse_peek(p, "}")) {
    if (kparse_take(p, "local")) buffer(p, true);
    else if (kparse_take(p, "phase")) phase(p);
    else kparse_failed(p, "expected 'local', 'phase' or '}'");
  }
  kparse_want(p, "}");
  kparse_skip_space(p);
  if (p->status == SN_OK && p->at < p->end) kparse_failed(p, "text behind the kernel");
}

sn_status sn_kernel_parse(sn_diag *d, sn_arena *a, const char *file, const char *text, size_t n_bytes, sn_kernel **out) {
  *out = NULL;
  const char *own = sn_arena_string_n(a, text, n_bytes); /* ends with NUL, which strtoll and strtod need */
  kernel_parser *p = SN_NEW(a, kernel_parser);
  if (!own || !p) return sn_out_of_memory(d, n_bytes);
  *p = (kernel_parser){.d = d, .a = a, .file = file, .at = own, .end = own + strlen(own), .line_start = own, .line = 1};
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
