/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Values behind tuples, and which op may write over what it reads. */
#include "leaves.h"

#include "sinter/plan.h"

#include <string.h>

int sn_leaf_offset(const sn_shape *tuple, int64_t index) {
  int at = 0;
  if (tuple->flat) return (int)index;
  for (int64_t k = 0; k < index; k++) at += (int)sn_shape_leaves(tuple->elements[k]);
  return at;
}

int sn_leaf_at(const sn_shape *s, sn_ints index) {
  int at = 0;
  for (int64_t k = 0; k < index.n; k++) {
    at += sn_leaf_offset(s, index.v[k]);
    s = s->elements[index.v[k]];
  }
  return at;
}

bool sn_is_rename(const sn_instr *i) {
  switch (i->op) {
    case SN_OP_BITCAST:
    case SN_OP_OPT_BARRIER:
    case SN_OP_DOMAIN:
    case SN_OP_ADD_DEPENDENCY: return true;
    case SN_OP_RESHAPE: return sn_layout_is_default(i->shape->layout) && sn_layout_is_default(sn_operand_shape(i, 0)->layout);
    default: return false;
  }
}

sn_leaf_value sn_leaf_source(const sn_instr *i, int leaf) {
  for (;;) {
    switch (i->op) {
      case SN_OP_TUPLE: {
        uint32_t k = i->shape->flat ? (uint32_t)leaf : 0;
        if (i->shape->flat) leaf = 0;
        while (leaf >= sn_shape_leaves(sn_operand_shape(i, k))) leaf -= (int)sn_shape_leaves(sn_operand_shape(i, k++));
        i = sn_instr_operand(i, k);
        break;
      }
      case SN_OP_GET_TUPLE_ELEMENT:
        leaf += sn_leaf_offset(sn_operand_shape(i, 0), sn_instr_int(i, SN_ATTR_INDEX));
        i = sn_instr_operand(i, 0);
        break;
      default:
        if (!sn_is_rename(i)) return (sn_leaf_value){i, leaf};
        i = sn_instr_operand(i, 0);
    }
  }
}

/* ---- writing over what is read ---- */

static bool same_dims(const sn_shape *a, const sn_shape *b) {
  return a->rank == b->rank && (a->rank == 0 || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0);
}

static bool keeps_leading(const sn_instr *broadcast) {
  sn_ints dims = sn_instr_ints(broadcast, SN_ATTR_DIMENSIONS);
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] != k) return false;
  }
  return dims.n > 0;
}

/* Are rows of the body's other reductions these, and long enough that an item takes one whole? */
static bool owns_row(const sn_instr *reduce) {
  int64_t rows = sn_shape_elements(reduce->shape);
  if (rows == 0 || sn_operand_shape(reduce, 0)->rank == 0 || sn_shape_elements(sn_operand_shape(reduce, 0)) / rows < SN_SHORT_ROW) return false;
  SN_FOR_INSTRS(i, reduce->parent) {
    if (i->op == SN_OP_REDUCE && sn_shape_leaf(i->shape, 0)->rank != reduce->shape->rank) return false;
  }
  return true;
}

static bool reduces_trailing(const sn_instr *reduce) {
  sn_ints dims = sn_instr_ints(reduce, SN_ATTR_DIMENSIONS);
  int rank = sn_operand_shape(reduce, 0)->rank;
  for (int64_t k = 0; k < dims.n; k++) {
    if (dims.v[k] < rank - dims.n) return false;
  }
  return sn_shape_is_array(reduce->shape) && dims.n < rank;
}

/* May user read x, which depends on an element of `whole` or on its row, so that the user too depends on its own element or row alone? A row is finished by one item,
 * and what is reduced from it is computed before its elements are written. */
static bool stays_in_row(const sn_instr *user, uint32_t index, const sn_shape *x, const sn_shape *whole) {
  if (sn_op_has(user->op, SN_T_ELTWISE)) return same_dims(user->shape, x);
  if (user->op == SN_OP_REDUCE) return index == 0 && user->n_operands == 2 && same_dims(x, whole) && reduces_trailing(user) && owns_row(user);
  if (user->op == SN_OP_BROADCAST) return same_dims(user->shape, whole) && keeps_leading(user);
  return false;
}

/* Marks what of the body depends on the parameter: elementwise, or through reductions of its own row. False: by other ways too. Ids of bodies lie close together. */
static bool mark_rows(const sn_computation *c, const sn_instr *param, uint8_t *seen, uint32_t base) {
  seen[param->id - base] = 1;
  SN_FOR_INSTRS(i, c) {
    if (!seen[i->id - base]) continue;
    SN_FOR_USES(u, i) {
      if (u->user->op == SN_OP_TUPLE && u->user == c->root) continue;
      if (!stays_in_row(u->user, u->index, i->shape, param->shape)) return false;
      seen[u->user->id - base] = 1;
    }
  }
  return true;
}

/* Does result leaf `leaf` depend on the parameter, and no result on more of it than its own element or row? */
static bool result_in_place(const sn_computation *c, const sn_instr *param, int leaf) {
  uint32_t lo = UINT32_MAX, hi = 0;
  SN_FOR_INSTRS(i, c) {
    lo = i->id < lo ? i->id : lo;
    hi = i->id > hi ? i->id : hi;
  }
  uint8_t *seen = sn_alloc_zero((size_t)(hi - lo) + 1, 1);
  if (!seen) return false; /* memory of its own: dearer, never wrong */
  const sn_instr *result = c->root->op == SN_OP_TUPLE ? sn_instr_operand(c->root, (uint32_t)leaf) : c->root;
  bool ok = mark_rows(c, param, seen, lo) && seen[result->id - lo];
  sn_free(seen);
  return ok;
}

/* The part of a fusion of fusions whose result leaf `leaf` is, and which of its results; NULL: it has no parts. */
static const sn_instr *part_of(const sn_instr *fusion, int leaf, int *own) {
  const sn_instr *x = fusion->called[0]->root;
  if (x->op == SN_OP_TUPLE) x = sn_instr_operand(x, (uint32_t)leaf);
  *own = x->op == SN_OP_GET_TUPLE_ELEMENT ? (int)sn_instr_int(x, SN_ATTR_INDEX) : 0;
  if (x->op == SN_OP_GET_TUPLE_ELEMENT) x = sn_instr_operand(x, 0);
  return x->op == SN_OP_FUSION ? x : NULL;
}

/* Parts run one after the other: the part writes over what no later one reads, and it itself at the same element only. */
static bool part_in_place(const sn_instr *i, uint32_t k, const sn_instr *part, int own) {
  const sn_instr *param = i->called[0]->params[k];
  bool reads = false;
  SN_FOR_USES(u, param) {
    if (u->user == part && !sn_in_place_ok(part, u->index, own)) return false;
    reads |= u->user == part;
    for (const sn_instr *x = part->next; x && u->user != part; x = x->next) {
      if (x == u->user) return false;
    }
  }
  return reads;
}

bool sn_in_place_ok(const sn_instr *i, uint32_t k, int leaf) {
  const sn_shape *x = sn_operand_shape(i, k), *r = sn_shape_leaf(i->shape, leaf);
  if (!sn_shape_is_array(x) || sn_type_bytes(x->type) != sn_type_bytes(r->type) || !sn_shape_equal(x, r, SN_EQ_LAYOUT | SN_EQ_IGNORE_TYPE)) return false;
  if (i->op == SN_OP_COPY || sn_op_has(i->op, SN_T_ELTWISE)) return true;
  if (i->op == SN_OP_DYNAMIC_UPDATE_SLICE) return k == 0; /* each element is the old one or the update's */
  if (i->op != SN_OP_FUSION) return false;
  int own;
  const sn_instr *part = part_of(i, leaf, &own);
  if (part) {
    for (uint32_t o = 0; o < i->n_operands; o++) {
      if (sn_instr_operand(i, o) == sn_instr_operand(i, k) && !part_in_place(i, o, part, own)) return false;
    }
    return true;
  }
  /* Results of other shapes come from other loops, which may read the operand after it was written. */
  for (int64_t l = 0; l < sn_shape_leaves(i->shape); l++) {
    if (!sn_shape_equal(sn_shape_leaf(i->shape, l), r, SN_EQ_IGNORE_TYPE)) return false;
  }
  for (uint32_t o = 0; o < i->n_operands; o++) {
    if (sn_instr_operand(i, o) == sn_instr_operand(i, k) && !result_in_place(i->called[0], i->called[0]->params[o], leaf)) return false;
  }
  return true;
}
