/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Tile copies: loads and stores, since one core has nothing to overlap them with.
 *
 * A transposing one (to's second index and from's first run along neighbours) goes by squares of lanes x lanes: rows are loaded, exchanged in registers in log2(lanes) steps,
 * and stored as columns. Step d swaps, in each pair of rows (r, r + d), the lanes where bit d of row and lane differ; all steps together swap row and lane numbers. */
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

void emit_copy(emit *e, const sn_knode *node) {
  const sn_kcopy *c = node->copy;
  sn_type t = e->k->buffers[c->to.buffer].type;
  LLVMTypeRef part = memory_type(e, t);
  tile_copy x = {.c = c, .unit = sn_type_is_complex(t) ? LLVMArrayType2(part, 2) : part, .align = (unsigned)sn_type_bytes(sn_type_real_part(t))};
  x.to = emit_offset(e, x.unit, e->buffers[c->to.buffer], c->to.buffer, c->to.at);
  x.from = emit_offset(e, x.unit, e->buffers[c->from.buffer], c->from.buffer, c->from.at);
  val m = emit_index(e, c->m), n = emit_index(e, c->n), done = LLVMConstInt(e->i64, 0, 0);
  int lanes = square_lanes(e, c, t);
  if (lanes) {
    val whole = and_(e, m, LLVMConstInt(e->i64, ~(unsigned long long)(lanes - 1), 1));
    counted i = count_from(e, done, whole);
    copy_squares(e, &x, lanes, i.i, c->n->value);
    count_end(e, &i, lanes);
    done = whole;
  }
  copy_elements(e, &x, done, m, n);
}
