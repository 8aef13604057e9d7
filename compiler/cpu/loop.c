/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Loops, conditions, carried values.
 *
 * Loops are written rotated (test at the bottom, one test in front), so that no pass need do it. A vector loop whose trip count is no multiple of its lanes runs as full
 * vectors and one masked remainder; with AVX-512, where masks cost little, short loops and those of unknown length run under a mask all the way, which is half the code. */
#include "emit.h"

#include <string.h>

enum { MAX_CARRIES = 64, MAX_UNROLLED = 64, LONG_LOOP = 8 };

typedef struct carried {
  int n;
  elem v[MAX_CARRIES];
} carried;

static int parts_of(sn_type t) { return sn_type_is_complex(t) ? 2 : 1; }

static void set_params(emit *e, const sn_kregion *r, const carried *c) {
  for (int i = 0; i < c->n; i++) e->values[r->params[i].id] = c->v[i];
}

static void operands_of(emit *e, const sn_knode *n, carried *c) {
  c->n = n->n_results;
  if (c->n > MAX_CARRIES) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "a loop carries more than %d values", MAX_CARRIES);
    c->n = 0;
  }
  for (int i = 0; i < c->n; i++) c->v[i] = value_of(e, n->operands[i]);
}

static void set_results(emit *e, const sn_knode *n, const carried *c) {
  for (int i = 0; i < c->n; i++) e->values[n->results[i].id] = c->v[i];
}

/* Gives all carries `lanes` lanes. */
static void widen(emit *e, carried *c, int lanes) {
  for (int i = 0; i < c->n; i++) {
    for (int p = 0; p < 2; p++) {
      if (c->v[i].v[p]) c->v[i].v[p] = splat(e, c->v[i].v[p], lanes);
    }
  }
}

static void phis(emit *e, const sn_knode *n, int lanes, carried *c) {
  c->n = n->n_results > MAX_CARRIES ? 0 : n->n_results;
  for (int i = 0; i < c->n; i++) {
    c->v[i].v[0] = c->v[i].v[1] = NULL;
    for (int p = 0; p < parts_of(n->results[i].type); p++) c->v[i].v[p] = phi(e, wide(e, register_type(e, n->results[i].type), lanes));
  }
}

static void phis_add(emit *e, const carried *p, carried *in, LLVMBasicBlockRef from) {
  (void)e;
  for (int i = 0; i < p->n; i++) {
    for (int k = 0; k < 2; k++) {
      if (p->v[i].v[k]) phi_add(p->v[i].v[k], in->v[i].v[k], from);
    }
  }
}

static void blend(emit *e, val mask, carried *now, const carried *old) {
  if (!mask) return;
  for (int i = 0; i < now->n; i++) {
    for (int p = 0; p < 2; p++) {
      if (now->v[i].v[p]) now->v[i].v[p] = choose(e, mask, now->v[i].v[p], old->v[i].v[p]);
    }
  }
}

/* Carries inside an open vector loop are one a lane; outside they are scalars. */
static int carry_lanes(const emit *e) { return e->lanes; }

/* ---- sequential ---- */

/* Body for one value of the variable; c: the carries in, then out. */
static void emit_body(emit *e, const sn_knode *n, const index_var *v, carried *c) {
  e->dims[n->var] = *v;
  set_params(e, n->regions[0], c);
  emit_region(e, n->regions[0]);
  if (c->n) emit_yielded(e, n->regions[0], c->v);
}

static void emit_sequential(emit *e, const sn_knode *n) {
  carried init, c, out, end;
  val lo = emit_index(e, n->lo), hi = emit_index(e, n->hi), step = LLVMConstInt(e->i64, (unsigned long long)n->step, 1);
  operands_of(e, n, &init);
  widen(e, &init, carry_lanes(e));
  LLVMBasicBlockRef before = here(e), body = new_block(e, "loop"), done = new_block(e, "done");
  bool runs = n->lo->hi < n->hi->lo;
  LLVMValueRef leave = runs ? LLVMBuildBr(e->b, body) : branch(e, icmp(e, LLVMIntSLT, lo, hi), body, done);
  scope_open(e, leave);
  at_end(e, body);
  val i = phi(e, e->i64);
  phi_add(i, lo, before);
  phis(e, n, carry_lanes(e), &c);
  phis_add(e, &c, &init, before);
  out = c;
  index_var v = {i, 0, false, e->depth, true};
  emit_body(e, n, &v, &out);
  widen(e, &out, carry_lanes(e));
  val next = add(e, i, step);
  LLVMBasicBlockRef last = here(e);
  phi_add(i, next, last);
  phis_add(e, &c, &out, last);
  branch(e, icmp(e, LLVMIntSLT, next, hi), body, done);
  scope_close(e);
  e->dims[n->var].bound = false;
  at_end(e, done);
  phis(e, n, carry_lanes(e), &end);
  if (!runs) phis_add(e, &end, &init, before);
  phis_add(e, &end, &out, last);
  set_results(e, n, &end);
}

/* Bounds that differ from lane to lane: the loop runs while any lane does, the others are masked. */
static void emit_lane_bounds(emit *e, const sn_knode *n) {
  carried init, c, out, end;
  val outer = e->mask, lo = splat(e, emit_index(e, n->lo), e->lanes), hi = splat(e, emit_index(e, n->hi), e->lanes);
  lo = cast(e, LLVMSExt, lo, e->i64);
  hi = cast(e, LLVMSExt, hi, e->i64);
  operands_of(e, n, &init);
  widen(e, &init, e->lanes);
  LLVMBasicBlockRef before = here(e), head = new_block(e, "lanes"), body = new_block(e, "loop"), done = new_block(e, "done");
  jump(e, head);
  at_end(e, head);
  val i = phi(e, LLVMTypeOf(lo));
  phi_add(i, lo, before);
  phis(e, n, e->lanes, &c);
  phis_add(e, &c, &init, before);
  end = c;
  val active = and_masks(e, outer, icmp(e, LLVMIntSLT, i, hi));
  scope_open(e, branch(e, any_lane(e, active), body, done));
  at_end(e, body);
  e->mask = active;
  out = c;
  index_var v = {i, 0, true, e->depth, true};
  emit_body(e, n, &v, &out);
  widen(e, &out, e->lanes);
  blend(e, active, &out, &c);
  e->mask = outer;
  phi_add(i, add(e, i, const_int(e, i, n->step)), here(e));
  phis_add(e, &c, &out, here(e));
  jump(e, head);
  scope_close(e);
  e->dims[n->var].bound = false;
  at_end(e, done);
  set_results(e, n, &end);
}

static int64_t static_trips(const sn_knode *n) {
  if (n->lo->kind != SN_IX_CONST || n->hi->kind != SN_IX_CONST) return -1;
  return n->hi->value > n->lo->value ? (n->hi->value - n->lo->value + n->step - 1) / n->step : 0;
}

static void emit_unrolled(emit *e, const sn_knode *n, int64_t trips) {
  carried c;
  operands_of(e, n, &c);
  widen(e, &c, carry_lanes(e));
  for (int64_t t = 0; t < trips && e->status == SN_OK; t++) {
    /* A scope of its own without a construct: only the memo must not outlive the variable's value. */
    scope_open(e, NULL);
    index_var v = {LLVMConstInt(e->i64, (unsigned long long)(n->lo->value + t * n->step), 1), 0, false, e->depth, true};
    emit_body(e, n, &v, &c);
    scope_close(e);
  }
  e->dims[n->var].bound = false;
  widen(e, &c, carry_lanes(e));
  set_results(e, n, &c);
}

/* ---- vector ---- */

typedef struct vector_loop {
  const sn_knode *n;
  int width;
  val lo;                 /* i64 */
  int64_t max_trips;      /* INT64_MAX: unknown */
} vector_loop;

static val lane_mask(emit *e, const vector_loop *v, val left) {
  if (v->max_trips > INT32_MAX) {
    val w = LLVMConstInt(e->i64, (unsigned long long)v->width, 0);
    left = choose(e, icmp(e, LLVMIntSLT, left, w), left, w);
  }
  val few = splat(e, LLVMBuildTrunc(e->b, left, e->i32, ""), v->width);
  return icmp(e, LLVMIntULT, lane_numbers(e, e->i32, v->width, 1), few);
}

static val first_value(emit *e, const vector_loop *v, val t) {
  val at = v->n->step == 1 ? t : mul(e, t, LLVMConstInt(e->i64, (unsigned long long)v->n->step, 1));
  return v->n->lo->kind == SN_IX_CONST && v->n->lo->value == 0 ? at : add(e, v->lo, at);
}

/* The body for iterations t … t + width - 1. */
static void vector_body(emit *e, const vector_loop *v, val t, val mask, carried *c) {
  carried old = *c;
  index_var var = {first_value(e, v, t), v->n->step, true, e->depth, true};
  e->mask = mask;
  emit_body(e, v->n, &var, c);
  widen(e, c, v->width);
  blend(e, mask, c, &old);
  e->mask = NULL;
}

/* for t = 0; t < end; t += width. `left_of`: trips in all, for the mask; NULL: all lanes run. runs: at least once. */
static void vector_run(emit *e, const vector_loop *v, val end, val left_of, bool runs, carried *c) {
  carried in = *c, at, out, after;
  val zero = LLVMConstInt(e->i64, 0, 0), w = LLVMConstInt(e->i64, (unsigned long long)v->width, 0);
  LLVMBasicBlockRef before = here(e), body = new_block(e, "vector"), done = new_block(e, "done");
  scope_open(e, runs ? LLVMBuildBr(e->b, body) : branch(e, icmp(e, LLVMIntSGT, end, zero), body, done));
  at_end(e, body);
  val t = phi(e, e->i64);
  phi_add(t, zero, before);
  phis(e, v->n, v->width, &at);
  phis_add(e, &at, &in, before);
  out = at;
  vector_body(e, v, t, left_of ? lane_mask(e, v, sub(e, left_of, t)) : NULL, &out);
  val next = add(e, t, w);
  LLVMBasicBlockRef last = here(e);
  phi_add(t, next, last);
  phis_add(e, &at, &out, last);
  branch(e, icmp(e, LLVMIntSLT, next, end), body, done);
  scope_close(e);
  at_end(e, done);
  phis(e, v->n, v->width, &after);
  if (!runs) phis_add(e, &after, &in, before);
  phis_add(e, &after, &out, last);
  *c = after;
}

/* The masked rest behind `full` trips, if any. */
static void vector_rest(emit *e, const vector_loop *v, val full, val trips, carried *c) {
  carried in = *c, out = *c, after;
  LLVMBasicBlockRef before = here(e), body = new_block(e, "rest"), done = new_block(e, "done");
  scope_open(e, branch(e, icmp(e, LLVMIntSLT, full, trips), body, done));
  at_end(e, body);
  vector_body(e, v, full, lane_mask(e, v, sub(e, trips, full)), &out);
  LLVMBasicBlockRef last = here(e);
  jump(e, done);
  scope_close(e);
  at_end(e, done);
  phis(e, v->n, v->width, &after);
  phis_add(e, &after, &in, before);
  phis_add(e, &after, &out, last);
  *c = after;
}

/* l with l + W/2, then W/4, …; then `init op tree`. */
static elem reduce_lanes(emit *e, sn_opcode op, sn_type t, elem v, int width, elem init) {
  int which[2][EMIT_MAX_LANES];
  for (int n = width; n > 1; n /= 2) {
    elem half[2] = {{{NULL, NULL}}, {{NULL, NULL}}};
    for (int i = 0; i < n / 2; i++) {
      which[0][i] = i;
      which[1][i] = i + n / 2;
    }
    for (int h = 0; h < 2; h++) {
      for (int p = 0; p < 2; p++) {
        if (!v.v[p]) continue;
        half[h].v[p] = n == 2 ? lane(e, v.v[p], h) : shuffle(e, v.v[p], NULL, n / 2, which[h]);
      }
    }
    v = emit_combine(e, op, t, half[0], half[1]);
  }
  return emit_combine(e, op, t, init, v);
}

static bool divides(const sn_ix *x, int64_t w) {
  switch (x->kind) {
    case SN_IX_CONST: return x->value % w == 0;
    case SN_IX_ADD: return divides(x->a, w) && divides(x->b, w);
    case SN_IX_MUL: return divides(x->a, w) || divides(x->b, w);
    case SN_IX_MIN:
    case SN_IX_MAX: return divides(x->a, w) && divides(x->b, w);
    default: return false;
  }
}

/* Few trips: the body once, no loop. */
static void vector_once(emit *e, const vector_loop *v, int64_t trips, carried *c) {
  val zero = LLVMConstInt(e->i64, 0, 0), count = LLVMConstInt(e->i64, (unsigned long long)trips, 0);
  scope_open(e, NULL);
  vector_body(e, v, zero, trips < v->width ? lane_mask(e, v, count) : NULL, c);
  scope_close(e);
}

/* Rows shorter than a vector, as shorter vectors without a mask: ten lanes are eight and two. A masked store holds its whole line: the next row, which begins in it where rows
 * are updated in place, would wait until it has reached the cache (810 ns instead of 135 for 100 rows of ten on Zen 4). */
enum { MOST_PIECES = 2 };

static bool in_pieces(const vector_loop *v, int64_t trips) {
  int n = 0;
  for (int64_t t = trips; t; t &= t - 1) n++;
  return v->n->n_results == 0 && trips < v->width && trips % 2 == 0 && n <= MOST_PIECES;
}

static void vector_pieces(emit *e, const vector_loop *v, int64_t trips, carried *c) {
  int64_t from = 0;
  for (int w = v->width / 2; w > 1; w /= 2) {
    if (!(trips & w)) continue;
    vector_loop piece = *v;
    piece.width = e->lanes = w;
    scope_open(e, NULL);
    vector_body(e, &piece, LLVMConstInt(e->i64, (unsigned long long)from, 0), NULL, c);
    scope_close(e);
    from += w;
  }
}

static void vector_loops(emit *e, const vector_loop *v, val trips, carried *c) {
  const sn_knode *n = v->n;
  bool whole = n->step == 1 && divides(n->hi, v->width) && divides(n->lo, v->width), runs = n->lo->hi < n->hi->lo;
  int64_t known = static_trips(n);
  if (known >= 0) whole = known % v->width == 0;
  if (known > 0 && in_pieces(v, known)) {
    vector_pieces(e, v, known, c);
  } else if (known > 0 && known <= v->width) {
    vector_once(e, v, known, c);
  } else if (whole) {
    vector_run(e, v, trips, NULL, runs, c);
  } else if (e->avx512 && known < LONG_LOOP * v->width) {
    vector_run(e, v, trips, trips, runs, c);
  } else {
    val full = and_(e, trips, LLVMConstInt(e->i64, ~(unsigned long long)(v->width - 1), 0));
    if (known < 0 || known >= v->width) vector_run(e, v, full, NULL, known >= v->width, c);
    vector_rest(e, v, full, trips, c);
  }
}

static bool vector_valid(emit *e, const sn_knode *n) {
  if (n->width < 2 || n->width > EMIT_MAX_LANES || (n->width & (n->width - 1))) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "a vector loop of %d lanes: powers of two up to %d are", n->width, EMIT_MAX_LANES);
    return false;
  }
  if (n->n_results && !n->combine) {
    emit_fail(e, SN_ERR_INTERNAL, "a vector loop carries values without saying how they combine");
    return false;
  }
  return true;
}

static val trip_count(emit *e, const sn_knode *n) {
  val lo = emit_index(e, n->lo), hi = emit_index(e, n->hi);
  val length = n->lo->kind == SN_IX_CONST && n->lo->value == 0 ? hi : sub(e, hi, lo);
  if (n->step == 1) return length;
  length = add(e, length, LLVMConstInt(e->i64, (unsigned long long)(n->step - 1), 1));
  return bin(e, LLVMSDiv, length, LLVMConstInt(e->i64, (unsigned long long)n->step, 1));
}

static void emit_vector(emit *e, const sn_knode *n) {
  vector_loop v = {n, n->width, NULL, INT64_MAX};
  carried init, c;
  if (!vector_valid(e, n)) return;
  if (n->hi->hi != INT64_MAX && n->lo->lo != INT64_MIN) v.max_trips = n->hi->hi - n->lo->lo;
  v.lo = emit_index(e, n->lo);
  val trips = trip_count(e, n);
  operands_of(e, n, &init);
  c.n = init.n;
  for (int i = 0; i < c.n; i++) c.v[i] = emit_identity(e, n->combine[i], n->results[i].type);
  widen(e, &c, n->width);
  e->lanes = n->width;
  vector_loops(e, &v, trips, &c);
  e->lanes = 1;
  e->mask = NULL;
  e->dims[n->var].bound = false;
  for (int i = 0; i < c.n && e->status == SN_OK; i++) c.v[i] = reduce_lanes(e, n->combine[i], n->results[i].type, c.v[i], n->width, init.v[i]);
  set_results(e, n, &c);
}

/* A vector loop inside another one: its lanes' partial values lie on the stack, one vector of the outer lanes each, and its lanes run one after the other. */
static val partial_at(emit *e, val slots, LLVMTypeRef t, val l) { return LLVMBuildGEP2(e->b, t, slots, &l, 1, ""); }

static void emit_inner_vector(emit *e, const sn_knode *n) {
  carried init, c, next;
  val slots[MAX_CARRIES][2];
  LLVMTypeRef types[MAX_CARRIES];
  if (!vector_valid(e, n)) return;
  if (index_varies(e, n->lo) || index_varies(e, n->hi)) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "a vector loop in another whose bounds differ from lane to lane");
    return;
  }
  operands_of(e, n, &init);
  for (int i = 0; i < init.n; i++) {
    types[i] = wide(e, register_type(e, n->results[i].type), e->lanes);
    elem identity = emit_identity(e, n->combine[i], n->results[i].type);
    for (int p = 0; p < parts_of(n->results[i].type); p++) {
      slots[i][p] = stack_slot(e, types[i], n->width, 64);
      for (int l = 0; l < n->width; l++) LLVMBuildStore(e->b, splat(e, identity.v[p], e->lanes), partial_at(e, slots[i][p], types[i], LLVMConstInt(e->i64, (unsigned long long)l, 0)));
    }
  }
  val lo = emit_index(e, n->lo), hi = emit_index(e, n->hi), zero = LLVMConstInt(e->i64, 0, 0);
  LLVMBasicBlockRef before = here(e), body = new_block(e, "inner"), done = new_block(e, "done");
  scope_open(e, branch(e, icmp(e, LLVMIntSLT, lo, hi), body, done));
  at_end(e, body);
  val i = phi(e, e->i64), l = phi(e, e->i64);
  phi_add(i, lo, before);
  phi_add(l, zero, before);
  c.n = init.n;
  for (int k = 0; k < c.n; k++) {
    c.v[k].v[0] = c.v[k].v[1] = NULL;
    for (int p = 0; p < parts_of(n->results[k].type); p++) c.v[k].v[p] = LLVMBuildLoad2(e->b, types[k], partial_at(e, slots[k][p], types[k], l), "");
  }
  next = c;
  index_var v = {i, 0, false, e->depth, true};
  emit_body(e, n, &v, &next);
  widen(e, &next, e->lanes);
  for (int k = 0; k < c.n; k++) {
    for (int p = 0; p < parts_of(n->results[k].type); p++) LLVMBuildStore(e->b, next.v[k].v[p], partial_at(e, slots[k][p], types[k], l));
  }
  val i_next = add(e, i, LLVMConstInt(e->i64, (unsigned long long)n->step, 1));
  val l_next = and_(e, add(e, l, LLVMConstInt(e->i64, 1, 0)), LLVMConstInt(e->i64, (unsigned long long)(n->width - 1), 0));
  phi_add(i, i_next, here(e));
  phi_add(l, l_next, here(e));
  branch(e, icmp(e, LLVMIntSLT, i_next, hi), body, done);
  scope_close(e);
  e->dims[n->var].bound = false;
  at_end(e, done);
  for (int k = 0; k < c.n && e->status == SN_OK; k++) {
    elem lanes[EMIT_MAX_LANES];
    for (int q = 0; q < n->width; q++) {
      lanes[q].v[0] = lanes[q].v[1] = NULL;
      for (int p = 0; p < parts_of(n->results[k].type); p++)
        lanes[q].v[p] = LLVMBuildLoad2(e->b, types[k], partial_at(e, slots[k][p], types[k], LLVMConstInt(e->i64, (unsigned long long)q, 0)), "");
    }
    for (int m = n->width / 2; m >= 1; m /= 2) {
      for (int q = 0; q < m; q++) lanes[q] = emit_combine(e, n->combine[k], n->results[k].type, lanes[q], lanes[q + m]);
    }
    c.v[k] = emit_combine(e, n->combine[k], n->results[k].type, init.v[k], lanes[0]);
  }
  widen(e, &c, e->lanes);
  set_results(e, n, &c);
}

void emit_for(emit *e, const sn_knode *n) {
  if (n->step <= 0 || n->var < 0 || n->var >= e->k->n_vars) {
    emit_fail(e, SN_ERR_INTERNAL, "a loop over d%d with step %lld", n->var, (long long)n->step);
    return;
  }
  int64_t trips = static_trips(n);
  if (n->loop == SN_KLOOP_VECTOR) {
    if (e->lanes > 1) emit_inner_vector(e, n);
    else emit_vector(e, n);
  } else if (index_varies(e, n->lo) || index_varies(e, n->hi)) {
    emit_lane_bounds(e, n);
  } else if (trips >= 0 && n->loop == SN_KLOOP_UNROLL && n->width == 0 && trips <= MAX_UNROLLED) {
    emit_unrolled(e, n, trips);
  } else {
    emit_sequential(e, n);
  }
}

/* ---- conditions ---- */

static void arm(emit *e, const sn_knode *n, int which, LLVMValueRef leave, LLVMBasicBlockRef block, carried *out) {
  scope_open(e, leave);
  at_end(e, block);
  emit_region(e, n->regions[which]);
  out->n = n->n_results;
  if (out->n) emit_yielded(e, n->regions[which], out->v);
  scope_close(e);
}

static void if_uniform(emit *e, const sn_knode *n, val condition) {
  carried yes, no, end;
  int lanes = carry_lanes(e);
  LLVMBasicBlockRef t = new_block(e, "then"), f = new_block(e, "else"), done = new_block(e, "endif"), t_end, f_end;
  LLVMValueRef leave = branch(e, condition, t, f);
  arm(e, n, 0, leave, t, &yes);
  widen(e, &yes, lanes);
  t_end = here(e);
  jump(e, done);
  arm(e, n, 1, leave, f, &no);
  widen(e, &no, lanes);
  f_end = here(e);
  jump(e, done);
  at_end(e, done);
  phis(e, n, lanes, &end);
  phis_add(e, &end, &yes, t_end);
  phis_add(e, &end, &no, f_end);
  set_results(e, n, &end);
}

/* One arm under a mask, passed over when no lane wants it; lanes outside get poison, which the final choice drops. */
static void masked_arm(emit *e, const sn_knode *n, int which, val mask, carried *end) {
  carried out, none;
  val outer = e->mask;
  LLVMBasicBlockRef before, body = new_block(e, "arm"), done = new_block(e, "join");
  mask = and_masks(e, outer, mask);
  val any = any_lane(e, mask);
  before = here(e);
  LLVMValueRef leave = branch(e, any, body, done);
  e->mask = mask;
  arm(e, n, which, leave, body, &out);
  widen(e, &out, e->lanes);
  e->mask = outer;
  LLVMBasicBlockRef last = here(e);
  jump(e, done);
  at_end(e, done);
  none.n = n->n_results;
  for (int i = 0; i < none.n; i++) {
    for (int p = 0; p < 2; p++) none.v[i].v[p] = p < parts_of(n->results[i].type) ? LLVMConstNull(wide(e, register_type(e, n->results[i].type), e->lanes)) : NULL;
  }
  phis(e, n, e->lanes, end);
  phis_add(e, end, &none, before);
  phis_add(e, end, &out, last);
}

void emit_if(emit *e, const sn_knode *n) {
  carried yes, no;
  if (n->n_results > MAX_CARRIES) {
    emit_fail(e, SN_ERR_UNSUPPORTED, "a condition gives more than %d values", MAX_CARRIES);
    return;
  }
  val condition = emit_guards(e, n->n_guards, n->guards);
  if (n->n_operands) {
    val p = value_of(e, n->operands[0]).v[0];
    condition = condition ? and_(e, condition, p) : p;
  }
  if (!condition) condition = LLVMConstInt(e->i1, 1, 0);
  if (lanes_of(condition) == 1) {
    if_uniform(e, n, condition);
    return;
  }
  masked_arm(e, n, 0, condition, &yes);
  masked_arm(e, n, 1, xor_(e, condition, const_int(e, condition, 1)), &no);
  if (yes.n) blend(e, condition, &yes, &no);
  set_results(e, n, &yes);
}

/* ---- while ---- */

void emit_while(emit *e, const sn_knode *n) {
  carried init, c, out;
  elem cond[1] = {{{NULL, NULL}}};
  val outer = e->mask, active = NULL;
  operands_of(e, n, &init);
  widen(e, &init, e->lanes);
  LLVMBasicBlockRef before = here(e), head = new_block(e, "while"), body = new_block(e, "do"), done = new_block(e, "done");
  scope_open(e, LLVMBuildBr(e->b, head));
  at_end(e, head);
  phis(e, n, e->lanes, &c);
  phis_add(e, &c, &init, before);
  /* Inside a vector loop lanes leave one by one: a lane that has left stays masked. */
  if (e->lanes > 1) {
    active = phi(e, wide(e, e->i1, e->lanes));
    phi_add(active, outer ? outer : splat(e, LLVMConstInt(e->i1, 1, 0), e->lanes), before);
    e->mask = active;
  }
  set_params(e, n->regions[0], &c);
  emit_region(e, n->regions[0]);
  emit_yielded(e, n->regions[0], cond);
  if (!cond[0].v[0]) {
    emit_fail(e, SN_ERR_INTERNAL, "the condition of a while yields nothing");
    cond[0].v[0] = LLVMConstInt(e->i1, 0, 0);
  }
  val run = active ? and_(e, active, splat(e, cond[0].v[0], e->lanes)) : cond[0].v[0];
  scope_open(e, branch(e, any_lane(e, run), body, done));
  at_end(e, body);
  if (active) e->mask = run;
  set_params(e, n->regions[1], &c);
  out = c;
  emit_region(e, n->regions[1]);
  if (out.n) emit_yielded(e, n->regions[1], out.v);
  widen(e, &out, e->lanes);
  if (active) {
    blend(e, run, &out, &c);
    phi_add(active, run, here(e));
  }
  phis_add(e, &c, &out, here(e));
  jump(e, head);
  scope_close(e);
  scope_close(e);
  e->mask = outer;
  at_end(e, done);
  set_results(e, n, &c);
}
