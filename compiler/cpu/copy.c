/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tile copies: loads and stores, since one core has nothing to overlap them with.
 *
 * A transposing one (to's second index and from's first run along neighbours) goes by squares of lanes x lanes: rows are loaded, exchanged in registers in log2(lanes) steps,
 * and stored as columns. Step d swaps, in each pair of rows (r, r + d), the lanes where bit d of row and lane differ; all steps together swap row and lane numbers.
 *
 * Rows that lie along neighbours on both sides go by vectors. The last one ends where the row does and covers part of the one before: masks would cost more. */
#include "emit.h"

enum { MAX_SQUARE = 16 };

typedef struct tile_copy {
  const sn_kcopy *c;
  LLVMTypeRef unit;
  val to, from;
  unsigned align;
} tile_copy;

static val scaled(emit *e, val i, int64_t step) { return mul(e, i, LLVMConstInt(e->i64, (unsigned long long)step, 1)); }

static val element_at(emit *e, const tile_copy *x, const sn_ktile *t, val origin, val i, val j) {
  val offset = add(e, scaled(e, i, t->stride[0]), scaled(e, j, t->stride[1]));
  return LLVMBuildGEP2(e->b, x->unit, origin, &offset, 1, "");
}

static void copy_elements(emit *e, const tile_copy *x, val from_i, val m, val n) {
  counted i = count_from(e, from_i, m), j = count_from(e, LLVMConstInt(e->i64, 0, 0), n);
  val v = LLVMBuildLoad2(e->b, x->unit, element_at(e, x, &x->c->from, x->from, i.i, j.i), "");
  LLVMSetAlignment(v, x->align);
  LLVMSetAlignment(LLVMBuildStore(e->b, v, element_at(e, x, &x->c->to, x->to, i.i, j.i)), x->align);
  count_end(e, &j, 1);
  count_end(e, &i, 1);
}

static void transpose(emit *e, int lanes, val *rows) {
  for (int d = 1; d < lanes; d *= 2) {
    int low[MAX_SQUARE], high[MAX_SQUARE];
    for (int l = 0; l < lanes; l++) {
      low[l] = l & d ? lanes + l - d : l;
      high[l] = l & d ? lanes + l : l + d;
    }
    for (int r = 0; r < lanes; r++) {
      if (r & d) continue;
      val a = rows[r], b = rows[r + d];
      rows[r] = shuffle(e, a, b, lanes, low);
      rows[r + d] = shuffle(e, a, b, lanes, high);
    }
  }
}

/* Elements [i, i + lanes) x [0, n), n a multiple of lanes. */
static void copy_squares(emit *e, const tile_copy *x, int lanes, val i, int64_t n) {
  LLVMTypeRef vector = LLVMVectorType(x->unit, (unsigned)lanes);
  counted j = count_from(e, LLVMConstInt(e->i64, 0, 0), LLVMConstInt(e->i64, (unsigned long long)n, 0));
  val rows[MAX_SQUARE];
  for (int r = 0; r < lanes; r++) {
    rows[r] = LLVMBuildLoad2(e->b, vector, element_at(e, x, &x->c->from, x->from, i, add(e, j.i, LLVMConstInt(e->i64, (unsigned long long)r, 0))), "");
    LLVMSetAlignment(rows[r], x->align);
  }
  transpose(e, lanes, rows);
  for (int r = 0; r < lanes; r++) {
    val to = element_at(e, x, &x->c->to, x->to, add(e, i, LLVMConstInt(e->i64, (unsigned long long)r, 0)), j.i);
    LLVMSetAlignment(LLVMBuildStore(e->b, rows[r], to), x->align);
  }
  count_end(e, &j, lanes);
}

/* Lanes of the squares; 0: it does not transpose, or its rows are no multiple of them. */
static int square_lanes(const emit *e, const sn_kcopy *c, sn_type t) {
  bool turns = c->to.stride[1] == 1 && c->from.stride[0] == 1 && c->from.stride[1] != 1;
  int lanes = e->target->vector_bytes / (int)sn_type_bytes(t);
  if (!turns || (t != SN_TYPE_F32 && t != SN_TYPE_F64) || lanes < 2 || lanes > MAX_SQUARE || c->n->kind != SN_IX_CONST || c->n->value % lanes) return 0;
  return lanes;
}

static val row_pointer(emit *e, LLVMTypeRef unit, val row, val j) { return LLVMBuildGEP2(e->b, unit, row, &j, 1, ""); }

static void copy_vector(emit *e, const tile_copy *x, LLVMTypeRef vector, val to, val from, val j) {
  val v = LLVMBuildLoad2(e->b, vector, row_pointer(e, x->unit, from, j), "");
  LLVMSetAlignment(v, x->align);
  LLVMSetAlignment(LLVMBuildStore(e->b, v, row_pointer(e, x->unit, to, j)), x->align);
}

/* The first n elements, fewer than lanes. */
static void copy_few(emit *e, const tile_copy *x, LLVMTypeRef vector, int lanes, val to, val from, val n) {
  LLVMTypeRef types[2] = {vector, e->ptr};
  val align = LLVMConstInt(e->i32, x->align, 0), mask = icmp(e, LLVMIntULT, lane_numbers(e, e->i64, lanes, 1), splat(e, n, lanes));
  val load[4] = {from, align, mask, LLVMConstNull(vector)};
  val store[4] = {intrinsic(e, "llvm.masked.load", 4, load, 2, types), to, align, mask};
  intrinsic(e, "llvm.masked.store", 4, store, 2, types);
}

static void copy_row(emit *e, const tile_copy *x, int lanes, val to, val from, val n) {
  LLVMTypeRef vector = LLVMVectorType(x->unit, (unsigned)lanes);
  val zero = LLVMConstInt(e->i64, 0, 0), width = LLVMConstInt(e->i64, (unsigned long long)lanes, 0), whole = and_(e, n, LLVMConstInt(e->i64, ~(unsigned long long)(lanes - 1), 1));
  counted j = count_from(e, zero, whole);
  copy_vector(e, x, vector, to, from, j.i);
  count_end(e, &j, lanes);
  LLVMBasicBlockRef rest = new_block(e, "rest"), last = new_block(e, "last"), few = new_block(e, "few"), done = new_block(e, "copied");
  branch(e, icmp(e, LLVMIntEQ, n, whole), done, rest);
  at_end(e, rest);
  branch(e, icmp(e, LLVMIntSGE, n, width), last, few);
  at_end(e, last);
  copy_vector(e, x, vector, to, from, sub(e, n, width));
  jump(e, done);
  at_end(e, few);
  copy_few(e, x, vector, lanes, to, from, n);
  jump(e, done);
  at_end(e, done);
}

static void copy_rows(emit *e, const tile_copy *x, int lanes, val m, val n) {
  val zero = LLVMConstInt(e->i64, 0, 0);
  counted i = count_from(e, zero, m);
  copy_row(e, x, lanes, element_at(e, x, &x->c->to, x->to, i.i, zero), element_at(e, x, &x->c->from, x->from, i.i, zero), n);
  count_end(e, &i, 1);
}

/* Lanes of vectors along rows; 0: elements are no neighbours. */
static int row_lanes(const emit *e, const sn_kcopy *c, sn_type t) {
  int lanes = e->target->vector_bytes / (int)sn_type_bytes(t);
  bool rows = c->to.stride[1] == 1 && c->from.stride[1] == 1 && (t == SN_TYPE_F32 || t == SN_TYPE_F64) && (lanes & (lanes - 1)) == 0;
  return rows && lanes > 1 ? lanes : 0;
}

void emit_copy(emit *e, const sn_knode *node) {
  const sn_kcopy *c = node->copy;
  sn_type t = e->k->buffers[c->to.buffer].type;
  if (node->n_guards) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "a tile copy under a condition has no code for CPUs");
    return;
  }
  LLVMTypeRef part = memory_type(e, t);
  tile_copy x = {.c = c, .unit = sn_type_is_complex(t) ? LLVMArrayType2(part, 2) : part, .align = (unsigned)sn_type_bytes(sn_type_real_part(t))};
  x.to = emit_offset(e, x.unit, e->buffers[c->to.buffer], c->to.buffer, c->to.at);
  x.from = emit_offset(e, x.unit, e->buffers[c->from.buffer], c->from.buffer, c->from.at);
  val m = emit_index(e, c->m), n = emit_index(e, c->n), done = LLVMConstInt(e->i64, 0, 0);
  int lanes = row_lanes(e, c, t);
  if (lanes) {
    copy_rows(e, &x, lanes, m, n);
    return;
  }
  lanes = square_lanes(e, c, t);
  if (lanes) {
    val whole = and_(e, m, LLVMConstInt(e->i64, ~(unsigned long long)(lanes - 1), 1));
    counted i = count_from(e, done, whole);
    copy_squares(e, &x, lanes, i.i, c->n->value);
    count_end(e, &i, lanes);
    done = whole;
  }
  copy_elements(e, &x, done, m, n);
}
