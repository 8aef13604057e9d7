/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What shape rules ask of operands and attributes, and the shapes they make. */
#include "infer.h"

#include <inttypes.h>
#include <string.h>

enum { TEXT_WHOLE = 12, TEXT_FIRST = 4 }; /* elements of a tuple that a message shows */

const char *sn_infer_text(const sn_infer *in, const sn_shape *s) {
  const char *t;
  if (!s) return "nothing";
  if (sn_shape_is_tuple(s) && s->n_elements > TEXT_WHOLE) {
    t = "(";
    for (int k = 0; t && k < TEXT_FIRST; k++)
      t = sn_arena_printf(in->arena, "%s%s, ", t, sn_infer_text(in, s->elements[k]));
    if (t) t = sn_arena_printf(in->arena, "%s… %d elements)", t, s->n_elements);
  } else {
    t = sn_shape_text(in->arena, s);
  }
  return t ? t : "?";
}

const char *sn_infer_ints_text(const sn_infer *in, sn_ints v) {
  sn_str s = {NULL, 0, 0, false};
  sn_str_char(&s, '{');
  for (int64_t i = 0; i < v.n; i++) {
    if (i) sn_str_char(&s, ',');
    sn_str_i64(&s, v.v[i]);
  }
  sn_str_char(&s, '}');
  const char *t = s.failed ? NULL : sn_arena_string_n(in->arena, s.data, s.n);
  sn_str_finish(&s);
  return t ? t : "{?}";
}

/* ---- attributes
 * ------------------------------------------------------------------------------------------------
 */

const sn_attr *sn_infer_attr(const sn_infer *in, sn_attr_id id) {
  for (uint32_t k = 0; k < in->n_attrs; k++) {
    if (in->attrs[k].id == id) return &in->attrs[k];
  }
  return NULL;
}

int64_t sn_infer_int(const sn_infer *in, sn_attr_id id) {
  const sn_attr *a = sn_infer_attr(in, id);
  if (a) return a->u.i;
  int64_t dflt = sn_attrs[id].dflt;
  return dflt == SN_REQUIRED || dflt == SN_OPTIONAL ? 0 : dflt;
}

sn_ints sn_infer_ints(const sn_infer *in, sn_attr_id id) {
  const sn_attr *a = sn_infer_attr(in, id);
  sn_ints none = {0, NULL};
  return a ? a->u.ints : none;
}

bool sn_infer_has(sn_ints dims, int64_t dim) {
  for (int64_t i = 0; i < dims.n; i++) {
    if (dims.v[i] == dim) return true;
  }
  return false;
}

/* ---- demands
 * -----------------------------------------------------------------------------------------------------
 */

static const char *infer_takes_text(unsigned takes) {
  static const struct {
    unsigned takes;
    const char *text;
  } rows[] = {
      {SN_TAKES_ANY, "an array"},
      {SN_TAKES_NUMBER, "an integer, float or complex array"},
      {SN_TAKES_ANY & ~SN_TAKES_COMPLEX, "a pred, integer or float array"},
      {SN_TAKES_FLOAT | SN_TAKES_COMPLEX, "a float or complex array"},
      {SN_TAKES_INT | SN_TAKES_FLOAT, "an integer or float array"},
      {SN_TAKES_SIGNED | SN_TAKES_FLOAT | SN_TAKES_COMPLEX,
       "a signed integer, float or complex array"},
      {SN_TAKES_PRED | SN_TAKES_INT, "a pred or integer array"},
      {SN_TAKES_FLOAT, "a float array"},
      {SN_TAKES_COMPLEX, "a complex array"},
      {SN_TAKES_INT, "an integer array"},
      {SN_TAKES_UNSIGNED, "an unsigned integer array"},
      {SN_TAKES_PRED, "a pred array"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (rows[i].takes == takes) return rows[i].text;
  }
  return "an array of another type";
}

static sn_status infer_hint_type(sn_diag *d, sn_status st, const sn_shape *found, unsigned takes) {
  if (sn_shape_is_tuple(found))
    sn_hint(d, "take an element of the tuple with get-tuple-element first");
  else if (sn_shape_is_array(found) && takes != SN_TAKES_PRED)
    sn_hint(d, "change the element type with convert first");
  else if (sn_shape_is_array(found))
    sn_hint(d, "make a pred with compare");
  return st;
}

sn_status sn_infer_want_array(sn_diag *d, const sn_infer *in, uint32_t k, unsigned takes) {
  const sn_shape *s = in->operands[k];
  if (sn_shape_is_array(s) && (takes >> sn_types[s->type].cls & 1)) return SN_OK;
  sn_status st = sn_infer_fail(d, in, SN_ERR_TYPE, "operand %" PRIu32 " must be %s, found %s", k,
                               infer_takes_text(takes), sn_infer_text(in, s));
  return infer_hint_type(d, st, s, takes);
}

sn_status sn_infer_want_rank(sn_diag *d, const sn_infer *in, uint32_t k, int rank) {
  if (in->operands[k]->rank == rank) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE, "operand %" PRIu32 " must have rank %d, found %s", k,
                       rank, sn_infer_text(in, in->operands[k]));
}

sn_status sn_infer_want_scalar(sn_diag *d, const sn_infer *in, uint32_t k, unsigned takes) {
  SN_TRY(sn_infer_want_array(d, in, k, takes));
  if (in->operands[k]->rank == 0) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE, "operand %" PRIu32 " must be a scalar, found %s", k,
                       sn_infer_text(in, in->operands[k]));
}

sn_status sn_infer_want_same_type(sn_diag *d, const sn_infer *in, uint32_t j, uint32_t k) {
  if (in->operands[j]->type == in->operands[k]->type) return SN_OK;
  sn_status st = sn_infer_fail(
      d, in, SN_ERR_TYPE,
      "operands %" PRIu32 " and %" PRIu32 " must have one element type, found %s and %s", j, k,
      sn_infer_text(in, in->operands[j]), sn_infer_text(in, in->operands[k]));
  sn_hint(d, "HLO never converts by itself: insert a convert to %s or to %s",
          sn_type_text(in->operands[j]->type), sn_type_text(in->operands[k]->type));
  return st;
}

sn_status sn_infer_want_given(sn_diag *d, const sn_infer *in) {
  if (!in->given) {
    sn_status st =
        sn_infer_fail(d, in, SN_ERR_SHAPE,
                      "the result shape must be stated: it does not follow from the operands");
    sn_hint(d, "write it in front of the opcode, or hand it to the builder");
    return st;
  }
  if (sn_shape_is_array(in->given)) return SN_OK;
  return sn_infer_fail(d, in, SN_ERR_SHAPE, "the result must be an array, found %s",
                       sn_infer_text(in, in->given));
}

sn_status sn_infer_want_dim(sn_diag *d, const sn_infer *in, const char *what, int64_t dim,
                            int64_t rank) {
  if (dim >= 0 && dim < rank) return SN_OK;
  sn_status st =
      sn_infer_fail(d, in, SN_ERR_ATTRIBUTE,
                    "%s names dimension %" PRId64 " of an array of rank %" PRId64, what, dim, rank);
  if (rank > 0) sn_hint(d, "dimensions are numbered 0 to %" PRId64, rank - 1);
  return st;
}

sn_status sn_infer_want_dims(sn_diag *d, const sn_infer *in, const char *what, sn_ints dims,
                             int64_t rank) {
  uint64_t seen = 0;
  for (int64_t i = 0; i < dims.n; i++) {
    SN_TRY(sn_infer_want_dim(d, in, what, dims.v[i], rank));
    if (dims.v[i] < 64 && (seen >> dims.v[i] & 1)) {
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "%s names dimension %" PRId64 " twice: %s",
                           what, dims.v[i], sn_infer_ints_text(in, dims));
    }
    seen |= dims.v[i] < 64 ? (uint64_t)1 << dims.v[i] : 0;
  }
  return SN_OK;
}

sn_status sn_infer_want_sorted(sn_diag *d, const sn_infer *in, const char *what, sn_ints dims) {
  for (int64_t i = 1; i < dims.n; i++) {
    if (dims.v[i - 1] >= dims.v[i])
      return sn_infer_fail(d, in, SN_ERR_ATTRIBUTE, "%s must rise, found %s", what,
                           sn_infer_ints_text(in, dims));
  }
  return SN_OK;
}

/* ---- dimensions
 * ----------------------------------------------------------------------------------------------------
 */

void sn_dims_push_static(sn_dims *to, int64_t size) {
  if (to->rank < SN_MAX_RANK) {
    to->size[to->rank] = size;
    to->dynamic[to->rank] = false;
  }
  to->rank++; /* beyond the limit: refused by sn_infer_make */
}

void sn_dims_push(sn_dims *to, const sn_shape *from, int64_t dim) {
  sn_dims_push_static(to, from->dims[dim]);
  if (to->rank <= SN_MAX_RANK) to->dynamic[to->rank - 1] = sn_dims_is_dynamic(from, dim);
}

void sn_dims_of(const sn_shape *s, sn_dims *out) {
  out->rank = 0;
  for (int k = 0; k < s->rank; k++) sn_dims_push(out, s, k);
}

bool sn_dims_merge(int64_t *size, bool *dynamic, int64_t other, bool other_dynamic) {
  if (*size == other) {
    *dynamic = *dynamic || other_dynamic;
    return true;
  }
  if (*size == SN_DIM_UNBOUNDED) {
    *size = other;
    *dynamic = other_dynamic;
    return true;
  }
  return other == SN_DIM_UNBOUNDED;
}

bool sn_dims_compatible(const sn_shape *a, const sn_shape *b) {
  if (a->rank != b->rank) return false;
  for (int k = 0; k < a->rank; k++) {
    if (a->dims[k] != b->dims[k] && a->dims[k] != SN_DIM_UNBOUNDED &&
        b->dims[k] != SN_DIM_UNBOUNDED)
      return false;
  }
  return true;
}

/* ---- making shapes
 * --------------------------------------------------------------------------------------------------
 */

static sn_status infer_made(sn_diag *d, const sn_shape *s, const sn_shape **out) {
  if (!s) return sn_out_of_memory(d, sizeof *s);
  *out = s;
  return SN_OK;
}

sn_status sn_infer_make(sn_diag *d, const sn_infer *in, sn_type t, const sn_dims *dims,
                        const sn_shape **out) {
  if (dims->rank > SN_MAX_RANK) {
    return sn_infer_fail(d, in, SN_ERR_UNSUPPORTED,
                         "the result would have rank %d, at most %d is supported", dims->rank,
                         SN_MAX_RANK);
  }
  bool any = false;
  for (int k = 0; k < dims->rank; k++) any = any || dims->dynamic[k];
  return infer_made(d,
                    any ? sn_shape_dynamic(in->arena, t, dims->rank, dims->size, dims->dynamic)
                        : sn_shape_array(in->arena, t, dims->rank, dims->size),
                    out);
}

sn_status sn_infer_make_tuple(sn_diag *d, const sn_infer *in, int64_t n,
                              const sn_shape *const *elements, const sn_shape **out) {
  return infer_made(d, sn_shape_tuple(in->arena, (int)n, elements), out);
}

sn_status sn_infer_one_or_tuple(sn_diag *d, const sn_infer *in, int64_t n,
                                const sn_shape *const *elements, const sn_shape **out) {
  if (n != 1) return sn_infer_make_tuple(d, in, n, elements, out);
  *out = elements[0];
  return SN_OK;
}

static bool infer_has_layout(const sn_shape *s) {
  if (s->layout) return true;
  for (int i = 0; i < s->n_elements; i++) {
    if (infer_has_layout(s->elements[i])) return true;
  }
  return false;
}

static const sn_shape *infer_strip(sn_arena *a, const sn_shape *s) {
  if (!sn_shape_is_tuple(s)) return s->layout ? sn_shape_with_layout(a, s, NULL) : s;
  const sn_shape **e = SN_NEW_N(a, const sn_shape *, s->n_elements);
  if (!e) return NULL;
  for (int i = 0; i < s->n_elements; i++) {
    e[i] = infer_strip(a, s->elements[i]);
    if (!e[i]) return NULL;
  }
  return sn_shape_tuple(a, s->n_elements, e);
}

sn_status sn_infer_strip(sn_diag *d, const sn_infer *in, const sn_shape *s, const sn_shape **out) {
  return infer_made(d, infer_has_layout(s) ? infer_strip(in->arena, s) : s, out);
}

bool sn_infer_same(const sn_shape *a, const sn_shape *b) {
  return sn_shape_equal(a, b, 0);
}
