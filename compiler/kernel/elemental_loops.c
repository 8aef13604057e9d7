/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One element of an instruction that needs loops: reductions, windows, products. The generic road: right everywhere; templates are faster where they apply. */
#include "elemental.h"

#include <math.h>
#include <string.h>

/* The type in which sums of t are kept: narrow floats in f32, rounded once at the end. */
static sn_type sum_type(sn_type t) { return sn_type_is_float(t) && sn_type_bits(t) < 32 ? SN_TYPE_F32 : t; }

/* Some 8-bit floats have no infinity for lanes to start from: their extremes are found in f32, which changes no bit. */
static sn_type reduce_type(sn_type t, sn_opcode op) {
  bool extreme = op == SN_OP_MAXIMUM || op == SN_OP_MINIMUM;
  if (op == SN_OP_ADD) return sum_type(t);
  return extreme && sn_type_is_float(t) && sn_type_bits(t) < 16 ? SN_TYPE_F32 : t;
}

static sn_kvalue *convert(lowering *L, sn_kvalue *v, sn_type t) {
  if (!v || v->type == t) return v;
  return sn_kb_elt(&L->b, SN_OP_CONVERT, t, 1, &v);
}

static bool associative(sn_opcode op) {
  switch (op) {
    case SN_OP_ADD:
    case SN_OP_MULTIPLY:
    case SN_OP_MAXIMUM:
    case SN_OP_MINIMUM:
    case SN_OP_AND:
    case SN_OP_OR:
    case SN_OP_XOR: return true;
    default: return false;
  }
}

/* Start value that changes nothing: 0, 1, the lowest, the highest, all ones. */
sn_kvalue *lower_identity(lowering *L, sn_opcode op, sn_type t) {
  bool is_float = sn_type_is_float(t), lowest = op == SN_OP_MAXIMUM;
  int bits = sn_type_bits(t);
  switch (op) {
    case SN_OP_MULTIPLY: return sn_kb_const_f64(&L->b, t, 1);
    case SN_OP_AND: return sn_kb_const_i64(&L->b, t, t == SN_TYPE_PRED ? 1 : -1);
    case SN_OP_MAXIMUM:
    case SN_OP_MINIMUM:
      if (is_float) return sn_kb_const_f64(&L->b, t, lowest ? (double)-INFINITY : (double)INFINITY);
      if (t == SN_TYPE_PRED) return sn_kb_const_i64(&L->b, t, !lowest);
      if (sn_type_is_signed(t)) return sn_kb_const_i64(&L->b, t, lowest ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits));
      return sn_kb_const_i64(&L->b, t, lowest ? 0 : (int64_t)(UINT64_MAX >> (64 - bits)));
    default: return sn_kb_const_f64(&L->b, t, 0);
  }
}

/* ---- nests of loops with carries ---- */

typedef struct nest {
  int n_loops, n_carries;
  sn_knode *loops[SN_MAX_RANK * 2];
  const sn_ix *vars[SN_MAX_RANK * 2];
  sn_kvalue **carries; /* inside the innermost loop */
} nest;

/* Opens one loop a size, outermost first; the last is a vector loop of `lanes` when that is > 1. Carries run through all of them. */
static bool nest_open(lowering *L, nest *n, sn_kloop kind, int n_loops, const int64_t *sizes, int lanes, int n_carries, sn_kvalue *const *inits, const sn_opcode *combine) {
  memset(n, 0, sizeof *n);
  n->n_loops = n_loops;
  n->n_carries = n_carries;
  n->carries = SN_NEW_N(L->arena, sn_kvalue *, n_carries + 1);
  if (!n->carries) {
    L->b.status = SN_ERR_MEMORY;
    return false;
  }
  for (int c = 0; c < n_carries; c++) n->carries[c] = inits[c];
  for (int k = 0; k < n_loops; k++) {
    bool vector = lanes > 1 && k == n_loops - 1;
    n->vars[k] = lower_for(L, vector ? SN_KLOOP_VECTOR : kind, vector ? lanes : 0, lower_const(L, 0), lower_const(L, sizes[k]), 1, n_carries, n->carries,
                           vector ? combine : NULL, &n->loops[k]);
    if (!n->vars[k]) return false;
    for (int c = 0; c < n_carries; c++) n->carries[c] = &n->loops[k]->regions[0]->params[c];
  }
  return true;
}

/* Yields the next carries and closes; afterwards n->carries are the results. */
static void nest_close(lowering *L, nest *n, sn_kvalue **next) {
  for (int k = n->n_loops - 1; k >= 0 && L->b.status == SN_OK; k--) {
    lower_end(L, n->n_carries, next, n->loops[k]);
    for (int c = 0; c < n->n_carries; c++) next[c] = &n->loops[k]->results[c];
  }
  for (int c = 0; c < n->n_carries; c++) n->carries[c] = next[c];
}

/* ---- reduce ---- */

enum { LEAST_LANES = 4 };

/* Lanes for the innermost loop of a reduction over `size`; 1: no vector loop. */
static int reduce_lanes(const lowering *L, int64_t size, sn_type t, bool recognised) {
  int lanes = lower_lanes(L, t);
  if (lower_on_gpu(L)) lanes = lower_gpu_lanes(size / 2 + 1); /* no lane stays idle; 32 at least */
  else while (lanes > LEAST_LANES && lanes / 2 >= size) lanes /= 2; /* short rows: one vector, masked; what is reduced may be an exponential */
  if (!recognised || lower_in_vector(L) || size < (lower_on_gpu(L) ? lanes : LEAST_LANES) || sn_type_is_complex(t)) return 1;
  return lanes;
}

/* Symbols that stand for neighbouring dimensions, row-major, become one loop variable; the symbols are its digits. */
static int merged_symbols(const sn_instr *i, const sn_index_map *map, int64_t *sizes) {
  sn_ints dims = sn_instr_ints(i, SN_ATTR_DIMENSIONS);
  bool adjacent = dims.n == map->n_syms;
  for (int64_t k = 1; k < dims.n; k++) adjacent &= dims.v[k] == dims.v[k - 1] + 1;
  if (!adjacent || map->n_syms < 2) {
    for (int k = 0; k < map->n_syms; k++) sizes[k] = map->sym_sizes[k];
    return map->n_syms;
  }
  sizes[0] = 1;
  for (int k = 0; k < map->n_syms; k++) sizes[0] *= map->sym_sizes[k];
  return 1;
}

static sn_kvalue *emit_reduce_all(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx, uint32_t n) {
  sn_index_map map;
  sn_opcode op = SN_OP_ADD;
  sn_kvalue *xs[64], *results[64], *inits[64];
  const sn_ix *syms[SN_MAX_RANK];
  int64_t sizes[SN_MAX_RANK];
  if (!lower_index_map(L, i, output, &map)) return NULL;
  bool binary = n == 1 && sn_computation_is_binary(i->called[0], &op) && associative(op);
  sn_type t = sn_operand_shape(i, 0)->type, acc = binary ? reduce_type(t, op) : t;
  for (uint32_t k = 0; k < n; k++) inits[k] = lower_value(L, sn_instr_operand(i, n + k), 0, NULL);
  if (binary) inits[0] = convert(L, inits[0], acc);
  int n_loops = merged_symbols(i, &map, sizes);
  nest loops;
  int lanes = n_loops ? reduce_lanes(L, sizes[n_loops - 1], acc, binary) : 1;
  if (L->b.status != SN_OK || !nest_open(L, &loops, SN_KLOOP_SEQ, n_loops, sizes, lanes, (int)n, inits, &op)) return NULL;
  if (n_loops == map.n_syms) memcpy(syms, loops.vars, sizeof(*syms) * (size_t)n_loops);
  else lower_delinearise(L, loops.vars[0], map.n_syms, map.sym_sizes, syms);
  for (uint32_t k = 0; k < n; k++) {
    const sn_ix *at[SN_MAX_RANK];
    const sn_access *a = lower_access(L, i, &map, k);
    if (!a || !lower_at(L, i, &map, a, idx, syms, at)) return NULL;
    xs[n + k] = lower_value(L, sn_instr_operand(i, k), 0, at);
    xs[k] = loops.carries[k];
  }
  if (L->b.status != SN_OK) return NULL;
  if (binary) {
    xs[1] = convert(L, xs[1], acc);
    results[0] = sn_kb_elt(&L->b, op, acc, 2, xs);
  } else if (!lower_apply(L, i->called[0], xs, (int)n, results)) {
    return NULL;
  }
  nest_close(L, &loops, results);
  if (binary) loops.carries[0] = convert(L, loops.carries[0], t);
  for (uint32_t k = 0; k < n; k++) lower_remember(L, i, (int)k, idx, loops.carries[k]);
  return L->b.status == SN_OK ? loops.carries[output] : NULL;
}

sn_kvalue *lower_emit_reduce(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  uint32_t n = i->n_operands / 2;
  const struct lower_partial *p = lower_find_partial(L, i);
  if (p) return lower_emit_partials(L, p, idx);
  if (n > 32) {
    lower_fail(L, i, "more than 32 arrays reduced at once");
    return NULL;
  }
  return emit_reduce_all(L, i, output, idx, n);
}

/* ---- reduce-window ---- */

static sn_kvalue *select_in(lowering *L, sn_kvalue *inside, sn_kvalue *v, sn_kvalue *outside) {
  sn_kvalue *xs[3] = {inside, v, outside};
  return v && outside ? sn_kb_elt(&L->b, SN_OP_SELECT, v->type, 3, xs) : NULL;
}

sn_kvalue *lower_emit_reduce_window(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  uint32_t n = i->n_operands / 2;
  sn_index_map map;
  sn_kvalue *xs[64], *results[64], *inits[64];
  sn_opcode op;
  if (n > 32) {
    lower_fail(L, i, "more than 32 arrays reduced at once");
    return NULL;
  }
  if (!lower_index_map(L, i, output, &map)) return NULL;
  bool sum = n == 1 && sn_computation_is_binary(i->called[0], &op) && op == SN_OP_ADD;
  sn_type t = sn_operand_shape(i, 0)->type, acc = sum ? sum_type(t) : t;
  for (uint32_t k = 0; k < n; k++) inits[k] = lower_value(L, sn_instr_operand(i, n + k), 0, NULL);
  if (sum) inits[0] = convert(L, inits[0], acc);
  nest loops;
  sn_kvalue *within = NULL;
  if (L->b.status != SN_OK || !nest_open(L, &loops, SN_KLOOP_SEQ, map.n_syms, map.sym_sizes, 1, (int)n, inits, NULL)) return NULL;
  for (uint32_t k = 0; k < n; k++) {
    const sn_ix *at[SN_MAX_RANK];
    const sn_access *a = lower_access(L, i, &map, k);
    if (!a) return NULL;
    int before = lower_push_guards(L, i, &map, a, idx, loops.vars);
    sn_kvalue *inside = L->n_guards > before ? lower_guard_value(L, L->n_guards - before, &L->guards[before]) : NULL;
    sn_kvalue *v = lower_at(L, i, &map, a, idx, loops.vars, at) ? lower_value(L, sn_instr_operand(i, k), 0, at) : NULL;
    L->n_guards = before;
    if (sum) v = convert(L, v, acc);
    xs[n + k] = v;
    xs[k] = loops.carries[k];
    within = inside;
    if (!v) return NULL;
  }
  if (sum) results[0] = sn_kb_elt(&L->b, SN_OP_ADD, acc, 2, xs);
  else if (!lower_apply(L, i->called[0], xs, (int)n, results)) return NULL;
  /* What lies in the padding is left out: a start value that changes the result counts once. */
  for (uint32_t k = 0; within && k < n; k++) results[k] = select_in(L, within, results[k], loops.carries[k]);
  nest_close(L, &loops, results);
  if (sum) loops.carries[0] = convert(L, loops.carries[0], t);
  for (uint32_t k = 0; k < n; k++) lower_remember(L, i, (int)k, idx, loops.carries[k]);
  return L->b.status == SN_OK ? loops.carries[output] : NULL;
}

/* ---- products ---- */

/* acc + x * y: one rounding for floats. */
static sn_kvalue *multiply_add(lowering *L, sn_kvalue *x, sn_kvalue *y, sn_kvalue *acc) {
  sn_kvalue *xs[3] = {x, y, acc};
  if (!x || !y || !acc) return NULL;
  if (acc->type == SN_TYPE_F32 || acc->type == SN_TYPE_F64) return sn_kb_fma(&L->b, x, y, acc);
  sn_kvalue *sum[2] = {acc, sn_kb_elt(&L->b, SN_OP_MULTIPLY, acc->type, 2, xs)};
  return sn_kb_elt(&L->b, SN_OP_ADD, acc->type, 2, sum);
}

static sn_type product_type(const sn_instr *i) {
  sn_type t = sum_type(i->shape->type), x = sn_operand_shape(i, 0)->type;
  /* Integer products of narrow operands are summed in the result's type; float ones at least in the operands'. */
  if (sn_type_is_float(t) && sn_type_is_float(x) && sn_type_bits(x) > sn_type_bits(t)) return x;
  return t;
}

/* A window of one input feature (each channel by itself): its places are known, so that what they have in common is computed once. */
static bool few_terms(const sn_instr *i, const sn_index_map *map) {
  enum { FEW = 32 };
  int64_t n = 1;
  for (int k = 0; k < map->n_syms; k++) n *= map->sym_sizes[k];
  return i->op == SN_OP_CONVOLUTION && n <= FEW;
}

static sn_kvalue *emit_product(lowering *L, const sn_instr *i, const sn_index_map *map, const sn_ix *const *idx) {
  sn_type t = product_type(i);
  sn_kvalue *init = sn_kb_const_f64(&L->b, t, 0), *xs[2], *next;
  nest loops;
  if (L->b.status != SN_OK || !nest_open(L, &loops, few_terms(i, map) ? SN_KLOOP_UNROLL : SN_KLOOP_SEQ, map->n_syms, map->sym_sizes, 1, 1, &init, NULL)) return NULL;
  sn_kvalue *inside = NULL;
  for (uint32_t k = 0; k < 2; k++) {
    const sn_ix *at[SN_MAX_RANK];
    const sn_access *a = lower_access(L, i, map, k);
    if (!a) return NULL;
    int before = lower_push_guards(L, i, map, a, idx, loops.vars);
    if (L->n_guards > before) inside = lower_guard_value(L, L->n_guards - before, &L->guards[before]);
    sn_kvalue *v = lower_at(L, i, map, a, idx, loops.vars, at) ? lower_value(L, sn_instr_operand(i, k), 0, at) : NULL;
    L->n_guards = before;
    xs[k] = convert(L, v, t);
    if (!xs[k]) return NULL;
  }
  next = multiply_add(L, xs[0], xs[1], loops.carries[0]);
  if (inside) next = select_in(L, inside, next, loops.carries[0]);
  nest_close(L, &loops, &next);
  return convert(L, loops.carries[0], i->shape->type);
}

sn_kvalue *lower_emit_dot(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  sn_index_map map;
  return lower_index_map(L, i, output, &map) ? emit_product(L, i, &map, idx) : NULL;
}

sn_kvalue *lower_emit_convolution(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) { return lower_emit_dot(L, i, output, idx); }
