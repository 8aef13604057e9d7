/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The contraction step.
 *
 * f32 and f64: a function per shape of tile that keeps all of acc in vector registers:
 *
 *     for k:   b0, b1 = b[k, :]                one load a vector of columns
 *              for i < mr:  x = a[i, k] to all lanes;  acc[i][0] += x * b0;  acc[i][1] += x * b1      fused, in order of k
 *
 * unrolled over k. Rows beyond the run-time m are read as row m - 1 and not written back; columns beyond n are masked. Words of two terms of bf16 (AVX512_BF16): the same with
 * words in place of elements. Other types: plain loops in place. */
#include "emit.h"

#include <string.h>

enum { UNROLL_K = 4, MAX_TILE_VALUES = 128, MAX_VECTORS = 8 };

/* ---- keys ---- */

static bool is_const(const sn_ix *x, int64_t v) { return x->kind == SN_IX_CONST && x->value == v; }

static int vector_lanes(const sn_target *t, sn_type type) {
  int lanes = t->vector_bytes / (int)sn_type_bytes(type);
  return lanes < 2 ? 2 : lanes > EMIT_MAX_LANES ? EMIT_MAX_LANES : lanes;
}

static bool tile_fits(const sn_target *t, const contract_key *k) {
  int lanes = vector_lanes(t, k->type), vectors = (k->nr + lanes - 1) / lanes;
  return k->mr >= 1 && k->nr >= 1 && vectors <= MAX_VECTORS && k->mr * vectors <= MAX_TILE_VALUES;
}

/* Elements of a in what one step multiplies: two of bf16 where b holds words, else one. */
static int terms_of(const sn_kernel *k, const sn_kcontract *c) { return sn_kcontract_pairs(k, c) && k->buffers[c->a.buffer].type == SN_TYPE_BF16 ? 2 : 1; }

bool contract_key_of(const sn_target *t, const sn_kernel *k, const sn_kcontract *c, contract_key *out) {
  memset(out, 0, sizeof *out);
  out->type = k->buffers[c->acc.buffer].type;
  out->pairs = sn_kcontract_pairs(k, c);
  if (out->type != SN_TYPE_F32 && (out->type != SN_TYPE_F64 || !t->fma)) return false; /* f64 without the instruction: a call of the runtime's fma, which these functions cannot make */
  if (out->pairs && (!t->bf16_dot || c->a.stride[0] % terms_of(k, c))) return false;
  if (!out->pairs && (k->buffers[c->a.buffer].type != out->type || k->buffers[c->b.buffer].type != out->type)) return false;
  out->mr = c->mr;
  out->nr = c->nr;
  out->accumulate = c->accumulate;
  out->a_rows_adjacent = c->a.stride[0] == 1;
  out->a_term_stride = out->a_rows_adjacent ? c->a.stride[1] : 1;
  out->acc_stride = c->acc.stride[0];
  out->b_stride = c->b.stride[0];
  out->full_m = is_const(c->m, c->mr);
  out->full_n = is_const(c->n, c->nr);
  if (c->acc.stride[1] != 1 || c->b.stride[1] != 1) return false;
  return (out->a_rows_adjacent || c->a.stride[1] == 1) && tile_fits(t, out);
}

void contract_symbol(const contract_key *k, char *out, size_t bytes) {
  snprintf(out, bytes, "contract_%s%s_%dx%d_%s%s_%lld_%lld_%lld%s%s", k->pairs ? "bf16x2_" : "", sn_type_text(k->type), k->mr, k->nr, k->accumulate ? "add" : "set", k->a_rows_adjacent ? "_packed" : "_rows",
           (long long)k->a_term_stride, (long long)k->acc_stride, (long long)k->b_stride, k->full_m ? "" : "_m", k->full_n ? "" : "_n");
}

/* ---- the function ---- */

typedef struct tile {
  const contract_key *k;
  LLVMTypeRef t, vector;
  int lanes, vectors;              /* a row of acc: `vectors` of `lanes` */
  val acc, a, a_stride, b, m, n, terms;
  val slots[MAX_TILE_VALUES], bases[MAX_TILE_VALUES], strides[3]; /* see prepare_rows; rows adjacent: unused */
  val masks[MAX_TILE_VALUES];      /* of columns, by vector; NULL: all */
  val sums[MAX_TILE_VALUES];
} tile;

static val at(emit *e, LLVMTypeRef t, val p, val offset) { return LLVMBuildGEP2(e->b, t, p, &offset, 1, ""); }
static val at_const(emit *e, LLVMTypeRef t, val p, int64_t offset) { return offset ? at(e, t, p, LLVMConstInt(e->i64, (unsigned long long)offset, 1)) : p; }

static val load_columns(emit *e, const tile *x, val p, int j) {
  unsigned align = (unsigned)sn_type_bytes(x->k->type);
  p = at_const(e, x->t, p, (int64_t)j * x->lanes);
  if (x->masks[j]) {
    LLVMTypeRef types[2] = {x->vector, e->ptr};
    val args[4] = {p, LLVMConstInt(e->i32, align, 0), x->masks[j], LLVMConstNull(x->vector)};
    return intrinsic(e, "llvm.masked.load", 4, args, 2, types);
  }
  val v = LLVMBuildLoad2(e->b, x->vector, p, "");
  LLVMSetAlignment(v, align);
  return v;
}

static void store_columns(emit *e, const tile *x, val v, val p, int j) {
  unsigned align = (unsigned)sn_type_bytes(x->k->type);
  p = at_const(e, x->t, p, (int64_t)j * x->lanes);
  if (x->masks[j]) {
    LLVMTypeRef types[2] = {x->vector, e->ptr};
    val args[4] = {v, p, LLVMConstInt(e->i32, align, 0), x->masks[j]};
    intrinsic(e, "llvm.masked.store", 4, args, 2, types);
    return;
  }
  LLVMSetAlignment(LLVMBuildStore(e->b, v, p), align);
}

/* Rows of a, at a run-time stride s: seven a base register, by what x86 can add to it: 0, s, 2 s, (3 s), 4 s, (5 s), 2 (3 s). Bases and the multiples in parentheses pass
 * through volatile slots, the bases in every iteration: if LLVM saw how the addresses hang together it would keep one register a row, and spill sums for them. Where rows
 * may lie beyond m (they are then read as row m - 1) there are as many pointers as rows, all in slots: a slower form, for the edge of a matrix. */
enum { ROWS_PER_BASE = 7 };

static val through(emit *e, val slot, LLVMTypeRef t) {
  val r = LLVMBuildLoad2(e->b, t, slot, "");
  LLVMSetVolatile(r, 1);
  return r;
}

static val opaque(emit *e, val v) {
  val slot = stack_slot(e, LLVMTypeOf(v), 1, 8);
  LLVMBuildStore(e->b, v, slot);
  return through(e, slot, LLVMTypeOf(v));
}

static val row_times(emit *e, const tile *x, int64_t n) { return mul(e, x->a_stride, LLVMConstInt(e->i64, (unsigned long long)n, 0)); }

static int row_slots(const tile *x) { return x->k->full_m ? (x->k->mr + ROWS_PER_BASE - 1) / ROWS_PER_BASE : x->k->mr; }

static void prepare_rows(emit *e, tile *x) {
  if (x->k->a_rows_adjacent) return;
  val last = x->k->full_m ? NULL : sub(e, x->m, LLVMConstInt(e->i64, 1, 0));
  for (int i = 0; i < row_slots(x); i++) {
    val row = LLVMConstInt(e->i64, (unsigned long long)(x->k->full_m ? i * ROWS_PER_BASE : i), 0);
    if (last && i > 0) row = choose(e, icmp(e, LLVMIntSLT, row, last), row, last);
    x->slots[i] = stack_slot(e, e->ptr, 1, 8);
    LLVMBuildStore(e->b, at(e, x->t, x->a, mul(e, row, x->a_stride)), x->slots[i]);
  }
  if (!x->k->full_m) return;
  for (int i = 0; i < 3; i++) x->strides[i] = opaque(e, row_times(e, x, 2 * i + 1));
}

/* At the start of an iteration, and at its end `terms` on. */
static void load_rows(emit *e, tile *x) {
  for (int i = 0; x->k->full_m && !x->k->a_rows_adjacent && i < row_slots(x); i++) x->bases[i] = through(e, x->slots[i], e->ptr);
}

static void advance_rows(emit *e, tile *x, int terms) {
  for (int i = 0; x->k->full_m && !x->k->a_rows_adjacent && i < row_slots(x); i++) {
    LLVMSetVolatile(LLVMBuildStore(e->b, at_const(e, x->t, x->bases[i], terms), x->slots[i]), 1);
  }
}

/* Element of row i, term k + u. */
static val row_at(emit *e, const tile *x, int i, val k, int64_t u) {
  static const struct { int stride, times; } offsets[ROWS_PER_BASE] = {{0, 0}, {0, 1}, {0, 2}, {1, 1}, {0, 4}, {2, 1}, {1, 2}};
  if (!x->k->full_m) return at_const(e, x->t, at(e, x->t, through(e, x->slots[i], e->ptr), k), u);
  val p = x->bases[i / ROWS_PER_BASE];
  int j = i % ROWS_PER_BASE;
  if (j) p = at(e, x->t, p, mul(e, x->strides[offsets[j].stride], LLVMConstInt(e->i64, (unsigned long long)offsets[j].times, 0)));
  return at_const(e, x->t, p, u);
}

/* sum + s * columns, or for words of two terms the sum of both products. */
static val add_product(emit *e, const tile *x, val s, val columns, val sum) {
  if (!x->k->pairs) return emit_fma(e, x->k->type, s, columns, sum);
  LLVMTypeRef words = LLVMVectorType(LLVMBFloatTypeInContext(e->cx), (unsigned)(2 * x->lanes));
  val args[3] = {sum, LLVMBuildBitCast(e->b, s, words, ""), LLVMBuildBitCast(e->b, columns, words, "")};
  return intrinsic(e, "llvm.x86.avx512bf16.dpbf16ps.512", 3, args, 0, NULL);
}

/* One term: b row at `b`, a's elements by `a_at(i)`. */
static void one_term(emit *e, tile *x, val b, val a, val k_offset, int64_t k_const) {
  val columns[MAX_VECTORS];
  for (int j = 0; j < x->vectors; j++) columns[j] = load_columns(e, x, b, j);
  for (int i = 0; i < x->k->mr; i++) {
    val p = x->k->a_rows_adjacent ? at_const(e, x->t, a, k_const * x->k->a_term_stride + i) : row_at(e, x, i, k_offset, k_const);
    val s = LLVMBuildLoad2(e->b, x->t, p, "");
    LLVMSetAlignment(s, x->k->pairs ? 2 : (unsigned)sn_type_bytes(x->k->type));
    s = splat(e, s, x->lanes);
    for (int j = 0; j < x->vectors; j++) {
      val *sum = &x->sums[i * x->vectors + j];
      *sum = add_product(e, x, s, columns[j], *sum);
    }
  }
}

/* for k in [from, to) by `unroll` (to - from a multiple of it). */
static void term_loop(emit *e, tile *x, val from, val to, int unroll) {
  int n = x->k->mr * x->vectors;
  val phis[MAX_TILE_VALUES], step = LLVMConstInt(e->i64, (unsigned long long)unroll, 0);
  LLVMBasicBlockRef before = here(e), body = new_block(e, "terms"), done = new_block(e, "summed");
  branch(e, icmp(e, LLVMIntSLT, from, to), body, done);
  at_end(e, body);
  val k = phi(e, e->i64), start[MAX_TILE_VALUES];
  phi_add(k, from, before);
  for (int i = 0; i < n; i++) {
    start[i] = x->sums[i];
    phis[i] = phi(e, x->vector);
    phi_add(phis[i], start[i], before);
    x->sums[i] = phis[i];
  }
  val b = at(e, x->t, x->b, mul(e, k, LLVMConstInt(e->i64, (unsigned long long)x->k->b_stride, 1)));
  val a = x->k->a_rows_adjacent ? at(e, x->t, x->a, mul(e, k, LLVMConstInt(e->i64, (unsigned long long)x->k->a_term_stride, 1))) : NULL;
  load_rows(e, x);
  for (int u = 0; u < unroll; u++) one_term(e, x, at_const(e, x->t, b, u * x->k->b_stride), a, k, u);
  advance_rows(e, x, unroll);
  val next = add(e, k, step);
  LLVMBasicBlockRef last = here(e);
  phi_add(k, next, last);
  for (int i = 0; i < n; i++) phi_add(phis[i], x->sums[i], last);
  branch(e, icmp(e, LLVMIntSLT, next, to), body, done);
  at_end(e, done);
  for (int i = 0; i < n; i++) {
    val after = phi(e, x->vector);
    phi_add(after, start[i], before);
    phi_add(after, x->sums[i], last);
    x->sums[i] = after;
  }
}

static void column_masks(emit *e, tile *x) {
  for (int j = 0; j < x->vectors; j++) {
    int first = j * x->lanes;
    x->masks[j] = NULL;
    if (x->k->full_n && first + x->lanes <= x->k->nr) continue;
    val columns = add(e, lane_numbers(e, e->i32, x->lanes, 1), splat(e, LLVMConstInt(e->i32, (unsigned long long)first, 0), x->lanes));
    x->masks[j] = icmp(e, LLVMIntSLT, columns, splat(e, LLVMBuildTrunc(e->b, x->n, e->i32, ""), x->lanes));
  }
}

/* Row after row of acc: load or store, up to row m. */
static void acc_rows(emit *e, tile *x, bool store) {
  for (int i = 0; i < x->k->mr; i++) {
    val p = at_const(e, x->t, x->acc, i * x->k->acc_stride);
    LLVMBasicBlockRef from = here(e), row = NULL, next = NULL;
    if (!x->k->full_m && i > 0) {
      row = new_block(e, "row");
      next = new_block(e, "next");
      branch(e, icmp(e, LLVMIntSGT, x->m, LLVMConstInt(e->i64, (unsigned long long)i, 0)), row, next);
      at_end(e, row);
    }
    for (int j = 0; j < x->vectors; j++) {
      val *sum = &x->sums[i * x->vectors + j];
      if (store) store_columns(e, x, *sum, p, j);
      else *sum = load_columns(e, x, p, j);
    }
    if (!row) continue;
    jump(e, next);
    at_end(e, next);
    for (int j = 0; !store && j < x->vectors; j++) {
      val v = phi(e, x->vector);
      phi_add(v, x->sums[i * x->vectors + j], row);
      phi_add(v, LLVMConstNull(x->vector), from);
      x->sums[i * x->vectors + j] = v;
    }
  }
}

static void fill_tile(emit *e, tile *x) {
  LLVMBasicBlockRef runs = new_block(e, "tile"), empty = new_block(e, "empty");
  val nothing = or_(e, icmp(e, LLVMIntSLE, x->m, LLVMConstInt(e->i64, 0, 0)), icmp(e, LLVMIntSLE, x->n, LLVMConstInt(e->i64, 0, 0)));
  branch(e, nothing, empty, runs);
  at_end(e, empty);
  LLVMBuildRetVoid(e->b);
  at_end(e, runs);
  prepare_rows(e, x);
  column_masks(e, x);
  for (int i = 0; i < x->k->mr * x->vectors; i++) x->sums[i] = LLVMConstNull(x->vector);
  if (x->k->accumulate) acc_rows(e, x, false);
  val zero = LLVMConstInt(e->i64, 0, 0), whole = and_(e, x->terms, LLVMConstInt(e->i64, ~(unsigned long long)(UNROLL_K - 1), 0));
  term_loop(e, x, zero, whole, UNROLL_K);
  term_loop(e, x, whole, x->terms, 1);
  acc_rows(e, x, true);
  LLVMBuildRetVoid(e->b);
}

static LLVMTypeRef function_type(emit *e) {
  LLVMTypeRef types[] = {e->ptr, e->ptr, e->i64, e->ptr, e->i64, e->i64, e->i64}; /* acc, a, row stride of a, b, m, n, k */
  return LLVMFunctionType(e->none, types, 7, 0);
}

void contract_function(emit *e, const contract_key *key) {
  char name[160];
  tile x;
  memset(&x, 0, sizeof x);
  contract_symbol(key, name, sizeof name);
  e->fn = LLVMAddFunction(e->module, name, function_type(e));
  function_attributes(e, e->fn);
  /* The tile is scratch: neither operand lies in it. */
  unsigned noalias = LLVMGetEnumAttributeKindForName("noalias", 7);
  LLVMAddAttributeAtIndex(e->fn, 1, LLVMCreateEnumAttribute(e->cx, noalias, 0));
  e->entry = new_block(e, "entry");
  at_end(e, e->entry);
  x.k = key;
  x.t = memory_type(e, key->type);
  x.lanes = vector_lanes(e->target, key->type);
  x.vectors = (key->nr + x.lanes - 1) / x.lanes;
  x.vector = LLVMVectorType(x.t, (unsigned)x.lanes);
  x.acc = LLVMGetParam(e->fn, 0);
  x.a = LLVMGetParam(e->fn, 1);
  x.a_stride = LLVMGetParam(e->fn, 2);
  x.b = LLVMGetParam(e->fn, 3);
  x.m = LLVMGetParam(e->fn, 4);
  x.n = LLVMGetParam(e->fn, 5);
  x.terms = LLVMGetParam(e->fn, 6);
  fill_tile(e, &x);
}

/* ---- the call, and plain loops where there is no function ---- */

static LLVMTypeRef unit_of(emit *e, sn_type t) { return sn_type_is_complex(t) ? LLVMArrayType2(memory_type(e, t), 2) : memory_type(e, t); }

static elem load_elem(emit *e, sn_type t, val p) {
  elem r = {{NULL, NULL}};
  for (int i = 0; i < (sn_type_is_complex(t) ? 2 : 1); i++) {
    val v = LLVMBuildLoad2(e->b, memory_type(e, t), at_const(e, memory_type(e, t), p, i), "");
    LLVMSetAlignment(v, (unsigned)sn_type_bytes(sn_type_real_part(t)));
    r.v[i] = from_memory(e, t, v);
  }
  return r;
}

static void store_elem(emit *e, sn_type t, elem v, val p) {
  for (int i = 0; i < (sn_type_is_complex(t) ? 2 : 1); i++) {
    val s = LLVMBuildStore(e->b, to_memory(e, t, v.v[i]), at_const(e, memory_type(e, t), p, i));
    LLVMSetAlignment(s, (unsigned)sn_type_bytes(sn_type_real_part(t)));
  }
}

static val tile_element(emit *e, const sn_ktile *x, val origin, LLVMTypeRef unit, val i, val j) {
  val offset = add(e, mul(e, i, LLVMConstInt(e->i64, (unsigned long long)x->stride[0], 1)), mul(e, j, LLVMConstInt(e->i64, (unsigned long long)x->stride[1], 1)));
  return at(e, unit, origin, offset);
}

static elem multiply_add(emit *e, sn_type t, elem x, elem y, elem sum) {
  if (t == SN_TYPE_F32 || t == SN_TYPE_F64) {
    elem r = {{emit_fma(e, t, x.v[0], y.v[0], sum.v[0]), NULL}};
    return r;
  }
  return emit_combine(e, SN_OP_ADD, t, sum, emit_combine(e, SN_OP_MULTIPLY, t, x, y));
}

/* The two terms of step (i, j) of a tile, as f32. */
static void load_pair(emit *e, const sn_ktile *x, val origin, val i, val j, elem out[2]) {
  sn_type t = e->k->buffers[x->buffer].type;
  if (t == SN_TYPE_BF16) {
    val k = mul(e, j, LLVMConstInt(e->i64, 2, 0));
    out[0] = load_elem(e, t, tile_element(e, x, origin, unit_of(e, t), i, k));
    out[1] = load_elem(e, t, tile_element(e, x, origin, unit_of(e, t), i, add(e, k, LLVMConstInt(e->i64, 1, 0))));
    return;
  }
  val w = load_elem(e, t, tile_element(e, x, origin, unit_of(e, t), i, j)).v[0];
  out[0] = (elem){{LLVMBuildBitCast(e->b, shl(e, w, const_int(e, w, 16)), e->f32, ""), NULL}};
  out[1] = (elem){{LLVMBuildBitCast(e->b, and_(e, w, const_int(e, w, -65536)), e->f32, ""), NULL}};
}

/* sum plus the products of step p. */
static elem add_step(emit *e, const sn_kcontract *c, const val *origin, val i, val j, val p, elem sum) {
  sn_type t = e->k->buffers[c->acc.buffer].type, ta = e->k->buffers[c->a.buffer].type, tb = e->k->buffers[c->b.buffer].type;
  if (sn_kcontract_pairs(e->k, c)) {
    elem x[2], y[2];
    load_pair(e, &c->a, origin[1], i, p, x);
    load_pair(e, &c->b, origin[2], p, j, y);
    return multiply_add(e, t, x[1], y[1], multiply_add(e, t, x[0], y[0], sum));
  }
  elem x = convert_elem(e, t, ta, load_elem(e, ta, tile_element(e, &c->a, origin[1], unit_of(e, ta), i, p)));
  elem y = convert_elem(e, t, tb, load_elem(e, tb, tile_element(e, &c->b, origin[2], unit_of(e, tb), p, j)));
  return multiply_add(e, t, x, y, sum);
}

static void plain_loops(emit *e, const sn_kcontract *c, const val *origin, val m, val n, val k) {
  sn_type t = e->k->buffers[c->acc.buffer].type;
  uint64_t nothing[2] = {0, 0};
  LLVMTypeRef part = register_type(e, t);
  val zero = LLVMConstInt(e->i64, 0, 0);
  counted i = count_from(e, zero, m), j = count_from(e, zero, n);
  val to = tile_element(e, &c->acc, origin[0], unit_of(e, t), i.i, j.i);
  elem start = c->accumulate ? load_elem(e, t, to) : emit_const(e, t, nothing);
  LLVMBasicBlockRef before = here(e);
  val index = LLVMConstInt(e->i64, 0, 0);
  LLVMBasicBlockRef head = new_block(e, "term"), body = new_block(e, "product"), done = new_block(e, "sum");
  jump(e, head);
  at_end(e, head);
  val p = phi(e, e->i64);
  phi_add(p, index, before);
  elem sum = {{phi(e, part), sn_type_is_complex(t) ? phi(e, part) : NULL}};
  for (int q = 0; q < 2; q++) {
    if (sum.v[q]) phi_add(sum.v[q], start.v[q], before);
  }
  branch(e, icmp(e, LLVMIntSLT, p, k), body, done);
  at_end(e, body);
  elem next = add_step(e, c, origin, i.i, j.i, p, sum);
  phi_add(p, add(e, p, LLVMConstInt(e->i64, 1, 0)), here(e));
  for (int q = 0; q < 2; q++) {
    if (sum.v[q]) phi_add(sum.v[q], next.v[q], here(e));
  }
  jump(e, head);
  at_end(e, done);
  store_elem(e, t, sum, to);
  count_end(e, &j, 1);
  count_end(e, &i, 1);
}

void emit_contract(emit *e, const sn_knode *node) {
  const sn_kcontract *c = node->contract;
  const sn_ktile *tiles[3] = {&c->acc, &c->a, &c->b};
  contract_key key;
  char name[160];
  val origin[3];
  if (e->lanes > 1) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "a contraction inside a vector loop");
    return;
  }
  for (int i = 0; i < 3; i++) origin[i] = emit_offset(e, unit_of(e, e->k->buffers[tiles[i]->buffer].type), e->buffers[tiles[i]->buffer], tiles[i]->buffer, tiles[i]->at);
  val m = emit_index(e, c->m), n = emit_index(e, c->n), k = emit_index(e, c->k);
  if (!contract_key_of(e->target, e->k, c, &key)) {
    plain_loops(e, c, origin, m, n, k);
    return;
  }
  contract_symbol(&key, name, sizeof name);
  LLVMTypeRef type = function_type(e);
  val fn = LLVMGetNamedFunction(e->module, name);
  if (!fn) {
    fn = LLVMAddFunction(e->module, name, type);
    LLVMSetVisibility(fn, LLVMHiddenVisibility);
  }
  val args[7] = {origin[0], origin[1], LLVMConstInt(e->i64, (unsigned long long)(c->a.stride[0] / terms_of(e->k, c)), 1), origin[2], m, n, k};
  LLVMBuildCall2(e->b, type, fn, args, 7, "");
}
