/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One element of an instruction as a kernel value: elementwise ops, constants, parameters and everything that only moves elements. */
#include "lower.h"
#include "elemental.h"

#include <string.h>

bool lower_is_param(const lowering *L, const sn_instr *i, int *operand) {
  if (L->body) {
    if (i->op != SN_OP_PARAMETER || i->parent != L->body) return false;
    *operand = (int)sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER);
    return true;
  }
  if (i == L->root) return false;
  for (uint32_t k = 0; k < L->root->n_operands; k++) {
    if (sn_instr_operand(L->root, k) != i) continue;
    *operand = (int)k;
    return true;
  }
  return false;
}

sn_kvalue *lower_unary(lowering *L, sn_opcode op, sn_type t, sn_kvalue *x) { return x ? sn_kb_elt(&L->b, op, t, 1, &x) : NULL; }

sn_kvalue *lower_convert(lowering *L, sn_kvalue *x, sn_type t) { return x && x->type == t ? x : lower_unary(L, SN_OP_CONVERT, t, x); }

sn_kvalue *lower_binary(lowering *L, sn_opcode op, sn_kvalue *x, sn_kvalue *y) {
  sn_kvalue *xs[2] = {x, y};
  return x && y ? sn_kb_elt(&L->b, op, x->type, 2, xs) : NULL;
}

sn_kvalue *lower_select(lowering *L, sn_kvalue *p, sn_kvalue *t, sn_kvalue *f) {
  sn_kvalue *xs[3] = {p, t, f};
  return p && t && f ? sn_kb_elt(&L->b, SN_OP_SELECT, t->type, 3, xs) : NULL;
}

/* What a load gives under a false guard; never used, but it must not trap or poison. */
static sn_kvalue *otherwise(lowering *L, sn_type t) { return L->n_guards ? sn_kb_const_f64(&L->b, t, 0) : NULL; }

static sn_kvalue *load_tile(lowering *L, const lower_tile *t, const sn_ix *const *idx) {
  const sn_ix *at[SN_MAX_RANK];
  for (int k = 0; k < t->n; k++) {
    at[k] = idx[t->dims[k]];
    if (t->base && t->base[k]) at[k] = sn_ix_sub(L->k->ix, at[k], t->base[k]);
  }
  sn_type type = L->k->buffers[t->buffer].type;
  return lower_convert(L, sn_kb_load(&L->b, t->buffer, at, L->n_guards, L->guards, otherwise(L, type)), sn_shape_leaf(t->instr->shape, t->output)->type);
}

static const lower_tile *find_tile(const lowering *L, const sn_instr *i, int output) {
  for (const lower_tile *t = L->tiles; t; t = t->next) {
    if (t->instr == i && t->output == output) return t;
  }
  return NULL;
}

static sn_kvalue *load_param(lowering *L, const sn_instr *i, int operand, const sn_ix *const *idx) {
  int buffer = operand < L->n_operands ? L->operand_buffer[operand] : -1;
  if (buffer < 0) {
    lower_fail(L, i, "an operand that is no array");
    return NULL;
  }
  return sn_kb_load(&L->b, buffer, idx, L->n_guards, L->guards, otherwise(L, i->shape->type));
}

/* ---- scalar computations ---- */

static sn_kvalue *find_arg(const lowering *L, const sn_instr *i) {
  if (i->op != SN_OP_PARAMETER) return NULL;
  for (const lower_arg *a = L->args; a; a = a->next) {
    if (a->c == i->parent) return a->values[sn_instr_int(i, SN_ATTR_PARAMETER_NUMBER)];
  }
  return NULL;
}

static sn_kvalue *apply_instr(lowering *L, const sn_instr *i, sn_kvalue **done, uint32_t first_id, uint32_t n_ids);

static sn_kvalue *apply_operand(lowering *L, const sn_instr *i, uint32_t k, sn_kvalue **done, uint32_t first_id, uint32_t n_ids) {
  return apply_instr(L, sn_instr_operand(i, k), done, first_id, n_ids);
}

static bool is_scalar_arithmetic(const sn_instr *i) {
  if (i->n_operands > 3 || !sn_shape_is_scalar(i->shape)) return false;
  if (i->op == SN_OP_BITCAST_CONVERT) return sn_type_bits(i->shape->type) == sn_type_bits(sn_operand_shape(i, 0)->type);
  return sn_op_has(i->op, SN_T_ELTWISE);
}

/* Computations of reducers are small and flat; their instructions are visited in order, so recursion is one step deep. */
static sn_kvalue *apply_instr(lowering *L, const sn_instr *i, sn_kvalue **done, uint32_t first_id, uint32_t n_ids) {
  sn_kvalue *v = find_arg(L, i);
  if (v) return v;
  if (i->id - first_id < n_ids && done[i->id - first_id]) return done[i->id - first_id];
  sn_kvalue *xs[3] = {NULL};
  if (i->op == SN_OP_CONSTANT) {
    v = lower_constant(L, i);
  } else if (is_scalar_arithmetic(i)) {
    for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = apply_operand(L, i, k, done, first_id, n_ids);
    v = lower_elementwise(L, i, xs);
  } else if ((i->op == SN_OP_BROADCAST || i->op == SN_OP_RESHAPE || i->op == SN_OP_BITCAST || i->op == SN_OP_COPY) && sn_shape_is_scalar(i->shape)) {
    v = apply_operand(L, i, 0, done, first_id, n_ids);
  } else {
    lower_fail(L, i, "inside a reducer or comparator");
    return NULL;
  }
  if (i->id - first_id < n_ids) done[i->id - first_id] = v;
  return v;
}

static void id_range(const sn_computation *c, uint32_t *first, uint32_t *n) {
  uint32_t lo = UINT32_MAX, hi = 0;
  SN_FOR_INSTRS(i, c) {
    if (i->id < lo) lo = i->id;
    if (i->id > hi) hi = i->id;
  }
  *first = lo;
  *n = lo <= hi ? hi - lo + 1 : 0;
  if (*n > 65536) *n = 0; /* ids scattered over the module: values are then not shared, which is only slower */
}

bool lower_apply(lowering *L, const sn_computation *c, sn_kvalue *const *args, int n_results, sn_kvalue **results) {
  uint32_t first, n;
  id_range(c, &first, &n);
  sn_kvalue **done = SN_NEW_N(L->arena, sn_kvalue *, n + 1);
  lower_arg frame = {c, args, L->args};
  if (!done && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  if (L->b.status != SN_OK) return false;
  L->args = &frame;
  SN_FOR_INSTRS(i, c) {
    if (i->op != SN_OP_TUPLE && i->op != SN_OP_PARAMETER) apply_instr(L, i, done, first, n);
  }
  for (int r = 0; r < n_results; r++) {
    const sn_instr *root = c->root->op == SN_OP_TUPLE ? sn_instr_operand(c->root, (uint32_t)r) : c->root;
    results[r] = apply_instr(L, root, done, first, n);
  }
  L->args = frame.next;
  return L->b.status == SN_OK;
}

/* ---- constants and elementwise ---- */

sn_kvalue *lower_constant(lowering *L, const sn_instr *i) {
  sn_array *l = sn_instr_literal(i);
  if (!l || sn_shape_elements(i->shape) != 1) {
    lower_fail(L, i, "a constant of more than one element inside a kernel");
    return NULL;
  }
  double re, im;
  const void *p = sn_array_data(l);
  if (sn_type_is_complex(i->shape->type)) {
    sn_load_c128(i->shape->type, p, &re, &im);
    return sn_kb_const_c128(&L->b, i->shape->type, re, im);
  }
  if (sn_type_is_float(i->shape->type)) return sn_kb_const_f64(&L->b, i->shape->type, sn_load_f64(i->shape->type, p));
  return sn_kb_const_i64(&L->b, i->shape->type, sn_load_i64(i->shape->type, p));
}

static bool compares_total(const sn_instr *i) {
  const sn_attr *a = sn_instr_attr(i, SN_ATTR_COMPARE_TYPE);
  return a && a->u.i == SN_COMPARE_TYPE_TOTALORDER && sn_type_is_float(sn_operand_shape(i, 0)->type);
}

sn_kvalue *lower_elementwise(lowering *L, const sn_instr *i, sn_kvalue *const *xs) {
  for (uint32_t k = 0; k < i->n_operands; k++) {
    if (!xs[k]) return NULL;
  }
  if (i->op == SN_OP_COMPARE) return sn_kb_compare(&L->b, (int)sn_instr_int(i, SN_ATTR_DIRECTION), xs[0], xs[1], compares_total(i));
  sn_kvalue *v = sn_kb_elt(&L->b, i->op, i->shape->type, (int)i->n_operands, xs);
  if (v && i->op == SN_OP_REDUCE_PRECISION) {
    v->node->exponent_bits = (int32_t)sn_instr_int(i, SN_ATTR_EXPONENT_BITS);
    v->node->mantissa_bits = (int32_t)sn_instr_int(i, SN_ATTR_MANTISSA_BITS);
  }
  return v;
}

static sn_kvalue *emit_elementwise(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  (void)output;
  sn_kvalue *xs[3] = {NULL};
  if (i->n_operands > 3) {
    lower_fail(L, i, "too many operands");
    return NULL;
  }
  /* Scalar predicates and bounds stand beside arrays. */
  for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = lower_value(L, sn_instr_operand(i, k), 0, idx);
  return lower_elementwise(L, i, xs);
}

static sn_kvalue *emit_constant(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  (void)output;
  (void)idx;
  return lower_constant(L, i);
}

static sn_kvalue *emit_iota(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  (void)output;
  return sn_kb_index(&L->b, i->shape->type, idx[sn_instr_int(i, SN_ATTR_IOTA_DIMENSION)]);
}

static sn_kvalue *emit_same(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  return lower_value(L, sn_instr_operand(i, 0), output, idx);
}

static sn_kvalue *emit_get(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  (void)output;
  const sn_instr *x = sn_instr_operand(i, 0);
  int index = (int)sn_instr_int(i, SN_ATTR_INDEX);
  if (x->op == SN_OP_TUPLE) return lower_value(L, sn_instr_operand(x, (uint32_t)index), 0, idx);
  return lower_value(L, x, index, idx);
}

static sn_kvalue *emit_map(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  (void)output;
  sn_kvalue **xs = SN_NEW_N(L->arena, sn_kvalue *, i->n_operands);
  sn_kvalue *v = NULL;
  if (!xs) {
    L->b.status = SN_ERR_MEMORY;
    return NULL;
  }
  for (uint32_t k = 0; k < i->n_operands; k++) xs[k] = lower_value(L, sn_instr_operand(i, k), 0, idx);
  lower_apply(L, i->called[0], xs, 1, &v);
  return v;
}

/* ---- index maps ---- */

bool lower_index_map(lowering *L, const sn_instr *i, int output, sn_index_map *map) {
  if (L->b.status != SN_OK) return false;
  sn_status s = sn_index_map_of(L->k->ix, i, output, map);
  if (s != SN_OK) L->b.status = s;
  else if (map->opaque) lower_fail(L, i, "which elements it reads is not known");
  return L->b.status == SN_OK;
}

const sn_access *lower_access(lowering *L, const sn_instr *i, const sn_index_map *map, uint32_t operand) {
  for (int k = 0; k < map->n_accesses; k++) {
    if (map->accesses[k].operand == operand) return &map->accesses[k];
  }
  lower_fail(L, i, "an operand without an index rule");
  return NULL;
}

static const sn_ix *replace_loads(lowering *L, const sn_instr *i, const sn_ix *e);

static const sn_ix *load_index(lowering *L, const sn_instr *i, const sn_ix *load, int64_t lo, int64_t hi) {
  const sn_ix *at[SN_MAX_RANK];
  for (int k = 0; k < load->n_args; k++) at[k] = replace_loads(L, i, load->args[k]);
  sn_kvalue *v = lower_value(L, sn_instr_operand(i, (uint32_t)load->value), 0, at);
  return v ? lower_bind(L, v, lo, hi) : NULL;
}

/* min(max(load, lo), hi) in either order: the clamp that index rules put around every loaded index. */
static const sn_ix *clamped_load(const sn_ix *e, int64_t *lo, int64_t *hi) {
  *lo = 0;
  *hi = INT64_C(1) << 40;
  const sn_ix *x = e;
  for (int k = 0; k < 2 && x && (x->kind == SN_IX_MIN || x->kind == SN_IX_MAX); k++) {
    const sn_ix *c = x->a->kind == SN_IX_CONST ? x->a : x->b, *rest = c == x->a ? x->b : x->a;
    if (c->kind != SN_IX_CONST) return NULL;
    if (x->kind == SN_IX_MIN) *hi = c->value;
    else *lo = c->value;
    x = rest;
  }
  return x && x->kind == SN_IX_LOAD ? x : NULL;
}

static const sn_ix *replace_loads(lowering *L, const sn_instr *i, const sn_ix *e) {
  int64_t lo, hi;
  if (!e) return NULL;
  const sn_ix *load = clamped_load(e, &lo, &hi);
  if (load) return load_index(L, i, load, lo, hi);
  sn_ix_context *x = L->k->ix;
  switch (e->kind) {
    case SN_IX_ADD: return sn_ix_add(x, replace_loads(L, i, e->a), replace_loads(L, i, e->b));
    case SN_IX_MUL: return sn_ix_mul(x, replace_loads(L, i, e->a), replace_loads(L, i, e->b));
    case SN_IX_DIV: return sn_ix_div(x, replace_loads(L, i, e->a), e->b->value);
    case SN_IX_MOD: return sn_ix_mod(x, replace_loads(L, i, e->a), e->b->value);
    case SN_IX_MIN: return sn_ix_min(x, replace_loads(L, i, e->a), replace_loads(L, i, e->b));
    case SN_IX_MAX: return sn_ix_max(x, replace_loads(L, i, e->a), replace_loads(L, i, e->b));
    default: return e;
  }
}

bool lower_at(lowering *L, const sn_instr *i, const sn_index_map *map, const sn_access *a, const sn_ix *const *idx, const sn_ix *const *syms, const sn_ix **at) {
  for (int k = 0; k < a->rank; k++) {
    at[k] = replace_loads(L, i, sn_ix_substitute(L->k->ix, a->at[k], map->n_dims, idx, syms ? map->n_syms : 0, syms));
    if (!at[k] && L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
  }
  return L->b.status == SN_OK;
}

int lower_push_guards(lowering *L, const sn_instr *i, const sn_index_map *map, const sn_access *a, const sn_ix *const *idx, const sn_ix *const *syms) {
  int before = L->n_guards;
  for (int g = 0; g < a->n_guards; g++) {
    const sn_ix *e = replace_loads(L, i, sn_ix_substitute(L->k->ix, a->guards[g].e, map->n_dims, idx, syms ? map->n_syms : 0, syms));
    if (!e) {
      if (L->b.status == SN_OK) L->b.status = SN_ERR_MEMORY;
      return before;
    }
    if (e->lo >= a->guards[g].lo && e->hi <= a->guards[g].hi) continue; /* always true */
    if (L->n_guards == LOWER_MAX_GUARDS) {
      lower_fail(L, i, "too many conditions around a load");
      return before;
    }
    L->guards[L->n_guards++] = (sn_ix_guard){e, a->guards[g].lo, a->guards[g].hi};
  }
  return before;
}

sn_kvalue *lower_guard_value(lowering *L, int n, const sn_ix_guard *guards) {
  sn_kvalue *all = NULL;
  for (int g = 0; g < n; g++) {
    sn_kvalue *e = sn_kb_index(&L->b, SN_TYPE_S64, guards[g].e);
    sn_kvalue *above = sn_kb_compare(&L->b, SN_DIRECTION_GE, e, sn_kb_const_i64(&L->b, SN_TYPE_S64, guards[g].lo), false);
    sn_kvalue *below = sn_kb_compare(&L->b, SN_DIRECTION_LE, e, sn_kb_const_i64(&L->b, SN_TYPE_S64, guards[g].hi), false);
    sn_kvalue *pair[2] = {above, below};
    sn_kvalue *both = sn_kb_elt(&L->b, SN_OP_AND, SN_TYPE_PRED, 2, pair);
    sn_kvalue *with[2] = {all, both};
    all = all ? sn_kb_elt(&L->b, SN_OP_AND, SN_TYPE_PRED, 2, with) : both;
  }
  return all ? all : sn_kb_const_i64(&L->b, SN_TYPE_PRED, 1);
}

/* The operand's element at the access, under its guards; *inside gets the pred of the guards (NULL: always true). */
static sn_kvalue *guarded_operand(lowering *L, const sn_instr *i, const sn_index_map *map, const sn_access *a, const sn_ix *const *idx, sn_kvalue **inside) {
  const sn_ix *at[SN_MAX_RANK];
  int before = lower_push_guards(L, i, map, a, idx, NULL);
  *inside = L->n_guards > before ? lower_guard_value(L, L->n_guards - before, &L->guards[before]) : NULL;
  sn_kvalue *v = lower_at(L, i, map, a, idx, NULL, at) ? lower_value(L, sn_instr_operand(i, a->operand), 0, at) : NULL;
  L->n_guards = before;
  return v;
}

static sn_kvalue *select_value(lowering *L, sn_kvalue *p, sn_kvalue *t, sn_kvalue *f) {
  sn_kvalue *xs[3] = {p, t, f};
  if (!p) return t;
  return t && f ? sn_kb_elt(&L->b, SN_OP_SELECT, t->type, 3, xs) : NULL;
}

/* broadcast, reshape, transpose, reverse, slice, bitcast, dynamic-slice, gather: one operand, one element. */
static sn_kvalue *emit_moved(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  sn_index_map map;
  sn_kvalue *inside;
  if (!lower_index_map(L, i, output, &map)) return NULL;
  const sn_access *a = lower_access(L, i, &map, 0);
  return a ? guarded_operand(L, i, &map, a, idx, &inside) : NULL;
}

static sn_kvalue *emit_pad(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  sn_index_map map;
  sn_kvalue *inside;
  if (!lower_index_map(L, i, output, &map)) return NULL;
  const sn_access *a = lower_access(L, i, &map, 0);
  sn_kvalue *v = a ? guarded_operand(L, i, &map, a, idx, &inside) : NULL;
  if (!v || !inside) return v;
  return select_value(L, inside, v, lower_value(L, sn_instr_operand(i, 1), 0, NULL));
}

static sn_kvalue *emit_concatenate(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  sn_index_map map;
  sn_kvalue *v = NULL;
  if (!lower_index_map(L, i, output, &map)) return NULL;
  for (int k = map.n_accesses - 1; k >= 0; k--) {
    sn_kvalue *inside, *x = guarded_operand(L, i, &map, &map.accesses[k], idx, &inside);
    v = v && inside ? select_value(L, inside, x, v) : x;
    if (!v) return NULL;
  }
  return v;
}

/* Start of dimension k of a dynamic slice of `size` out of `full`, clamped. */
const sn_ix *lower_start(lowering *L, const sn_instr *start, int64_t full, int64_t size) {
  sn_kvalue *v = lower_value(L, start, 0, NULL);
  return v ? lower_bind(L, v, 0, full - size) : NULL;
}

static sn_kvalue *emit_update_slice(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  (void)output;
  const sn_instr *x = sn_instr_operand(i, 0), *u = sn_instr_operand(i, 1);
  const sn_ix *at[SN_MAX_RANK];
  int before = L->n_guards;
  for (int k = 0; k < i->shape->rank; k++) {
    const sn_ix *s = lower_start(L, sn_instr_operand(i, (uint32_t)k + 2), x->shape->dims[k], u->shape->dims[k]);
    at[k] = s ? sn_ix_sub(L->k->ix, idx[k], s) : NULL;
    if (!at[k]) return NULL;
    if (at[k]->lo >= 0 && at[k]->hi < u->shape->dims[k]) continue;
    if (L->n_guards == LOWER_MAX_GUARDS) {
      lower_fail(L, i, "too many conditions around a load");
      return NULL;
    }
    L->guards[L->n_guards++] = (sn_ix_guard){at[k], 0, u->shape->dims[k] - 1};
  }
  sn_kvalue *inside = L->n_guards > before ? lower_guard_value(L, L->n_guards - before, &L->guards[before]) : NULL;
  sn_kvalue *v = lower_value(L, u, 0, at);
  L->n_guards = before;
  return inside ? select_value(L, inside, v, lower_value(L, x, 0, idx)) : v;
}

/* ---- bitcast-convert between types of different width ---- */

static sn_type unsigned_of(int bits) { return bits == 8 ? SN_TYPE_U8 : bits == 16 ? SN_TYPE_U16 : bits == 32 ? SN_TYPE_U32 : bits == 64 ? SN_TYPE_U64 : SN_TYPE_INVALID; }

static sn_kvalue *elt1(lowering *L, sn_opcode op, sn_type t, sn_kvalue *x) {
  if (!x || x->type == t) return x;
  return sn_kb_elt(&L->b, op, t, 1, &x);
}

static sn_kvalue *elt2(lowering *L, sn_opcode op, sn_kvalue *x, sn_kvalue *y) {
  sn_kvalue *xs[2] = {x, y};
  return x && y ? sn_kb_elt(&L->b, op, x->type, 2, xs) : NULL;
}

/* A wide element is its parts, least significant first, along a last dimension of its own. */
static sn_kvalue *emit_bitcast_convert(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  const sn_instr *x = sn_instr_operand(i, 0);
  int from = sn_type_bits(x->shape->type), to = sn_type_bits(i->shape->type);
  sn_type part = unsigned_of(from < to ? from : to), whole = unsigned_of(from < to ? to : from);
  const sn_ix *at[SN_MAX_RANK];
  (void)output;
  if (part == SN_TYPE_INVALID || whole == SN_TYPE_INVALID || sn_type_is_complex(i->shape->type) || sn_type_is_complex(x->shape->type)) {
    lower_fail(L, i, "between these types");
    return NULL;
  }
  if (from > to) {
    const sn_ix *shift = sn_ix_mul(L->k->ix, idx[i->shape->rank - 1], lower_const(L, to));
    sn_kvalue *v = elt1(L, SN_OP_BITCAST_CONVERT, whole, lower_value(L, x, 0, idx));
    v = elt2(L, SN_OP_SHIFT_RIGHT_LOGICAL, v, sn_kb_index(&L->b, whole, shift));
    return elt1(L, SN_OP_BITCAST_CONVERT, i->shape->type, elt1(L, SN_OP_CONVERT, part, v));
  }
  sn_kvalue *sum = NULL;
  if (i->shape->rank) memcpy(at, idx, (size_t)i->shape->rank * sizeof *at);
  for (int k = 0; k < to / from; k++) {
    at[i->shape->rank] = lower_const(L, k);
    sn_kvalue *v = elt1(L, SN_OP_CONVERT, whole, elt1(L, SN_OP_BITCAST_CONVERT, part, lower_value(L, x, 0, at)));
    if (k) v = elt2(L, SN_OP_SHIFT_LEFT, v, sn_kb_const_i64(&L->b, whole, (int64_t)k * from));
    sum = sum ? elt2(L, SN_OP_OR, sum, v) : v;
    if (!sum) return NULL;
  }
  return elt1(L, SN_OP_BITCAST_CONVERT, i->shape->type, sum);
}

/* ---- dispatch ---- */

typedef sn_kvalue *(*emit_fn)(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx);

static const struct {
  sn_opcode op;
  emit_fn emit;
} emitters[] = {
    {SN_OP_CONSTANT, emit_constant},
    {SN_OP_IOTA, emit_iota},
    {SN_OP_BROADCAST, emit_moved},
    {SN_OP_RESHAPE, emit_moved},
    {SN_OP_BITCAST, emit_moved},
    {SN_OP_TRANSPOSE, emit_moved},
    {SN_OP_REVERSE, emit_moved},
    {SN_OP_SLICE, emit_moved},
    {SN_OP_DYNAMIC_SLICE, emit_moved},
    {SN_OP_GATHER, emit_moved},
    {SN_OP_PAD, emit_pad},
    {SN_OP_CONCATENATE, emit_concatenate},
    {SN_OP_DYNAMIC_UPDATE_SLICE, emit_update_slice},
    {SN_OP_COPY, emit_same},
    {SN_OP_OPT_BARRIER, emit_same},
    {SN_OP_DOMAIN, emit_same},
    {SN_OP_GET_TUPLE_ELEMENT, emit_get},
    {SN_OP_MAP, emit_map},
    {SN_OP_REDUCE, lower_emit_reduce},
    {SN_OP_REDUCE_WINDOW, lower_emit_reduce_window},
    {SN_OP_DOT, lower_emit_dot},
    {SN_OP_CONVOLUTION, lower_emit_convolution},
};

static emit_fn find_emitter(const sn_instr *i) {
  for (size_t k = 0; k < sizeof emitters / sizeof emitters[0]; k++) {
    if (emitters[k].op == i->op) return emitters[k].emit;
  }
  if (i->op == SN_OP_BITCAST_CONVERT) {
    return sn_type_bits(i->shape->type) == sn_type_bits(sn_operand_shape(i, 0)->type) ? emit_elementwise : emit_bitcast_convert;
  }
  return sn_op_has(i->op, SN_T_ELTWISE) ? emit_elementwise : NULL;
}

static sn_kvalue *emit(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  int operand;
  const lower_tile *t = find_tile(L, i, output);
  if (t) return load_tile(L, t, idx);
  if (lower_is_param(L, i, &operand)) return load_param(L, i, operand, idx);
  emit_fn fn = find_emitter(i);
  if (!fn) {
    lower_fail(L, i, "no element of it can be computed alone");
    return NULL;
  }
  return fn(L, i, output, idx);
}

sn_kvalue *lower_value(lowering *L, const sn_instr *i, int output, const sn_ix *const *idx) {
  if (L->b.status != SN_OK) return NULL;
  sn_kvalue *v = lower_recall(L, i, output, idx);
  if (v) return v;
  if (++L->recursion > LOWER_MAX_RECURSION) {
    L->recursion--;
    lower_fail(L, i, "the fusion is too deep");
    return NULL;
  }
  int rank = i->shape->type == SN_TYPE_TUPLE ? i->shape->elements[output]->rank : i->shape->rank;
  int depth = lower_guards_depth(L);
  for (int k = 0; k < rank; k++) {
    int d = lower_depth_of(L, idx[k]);
    if (d > depth) depth = d;
  }
  lower_mark mark;
  const char *comment = L->b.comment;
  L->b.comment = i->name;
  lower_hoist(L, depth, &mark);
  v = emit(L, i, output, idx);
  if (v) lower_remember(L, i, output, idx, v);
  lower_unhoist(L, &mark);
  L->b.comment = comment;
  L->recursion--;
  return L->b.status == SN_OK ? v : NULL;
}
