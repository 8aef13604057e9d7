/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* shape  := type "[" dims "]" [layout] | "(" shapes ")" | "b(" shape ")"
 * layout := "{" minor_to_major [":" sections] "}"    a `{` begins a layout only in front of a digit or a colon */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

static const char *const shape_types[] = {
#define SN_TYPE(id, text, bits, bytes, cls, e, m, st, npy) text,
#include "sinter/types.def"
#undef SN_TYPE
};

static sn_status shape_any(sn_tx *p, const sn_shape **out);

/* ---- layouts ---------------------------------------------------------------------------------------------------------- */

static sn_status layout_tile(sn_tx *p, sn_tile *out) {
  int64_t dims[SN_MAX_RANK];
  out->n = 0;
  do {
    if (out->n == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a tile has more than %d dimensions", SN_MAX_RANK);
    if (sn_tx_accept(p, '*')) {
      dims[out->n] = SN_TILE_COMBINE;
    } else {
      SN_TRY(sn_tx_int_in(p, "a size of a tile", 0, INT64_MAX, &dims[out->n]));
    }
    out->n++;
  } while (sn_tx_accept(p, ','));
  SN_TRY(sn_tx_need(p, ')', "after a tile"));
  out->dims = sn_arena_copy(p->keep, dims, (size_t)out->n * sizeof *dims);
  return out->dims != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status layout_tiles(sn_tx *p, sn_layout_extra *e) {
  sn_tile tiles[SN_MAX_RANK];
  e->n_tiles = 0;
  while (sn_tx_accept(p, '(')) {
    if (e->n_tiles == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a layout has more than %d tiles", SN_MAX_RANK);
    SN_TRY(layout_tile(p, &tiles[e->n_tiles++]));
  }
  if (e->n_tiles == 0) return sn_tx_expected(p, "`(` after `T`, as in T(8,128)");
  e->tiles = sn_arena_copy(p->keep, tiles, (size_t)e->n_tiles * sizeof *tiles);
  return e->tiles != NULL ? SN_OK : sn_tx_memory(p);
}

/* The text between parentheses, as it is. */
static sn_status layout_text(sn_tx *p, const char **out) {
  if (sn_tx_peek(p) != '(') return sn_tx_expected(p, "`(`");
  sn_span s;
  SN_TRY(sn_tx_raw(p, &s));
  *out = sn_arena_string_n(p->keep, s.s + 1, s.n - 2);
  return *out != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status layout_int(sn_tx *p, int64_t *out) {
  SN_TRY(sn_tx_need(p, '(', "in a layout"));
  SN_TRY(sn_tx_int(p, "an integer", out));
  return sn_tx_need(p, ')', "in a layout");
}

static sn_status layout_type(sn_tx *p, sn_type *out) {
  SN_TRY(sn_tx_need(p, '(', "in a layout"));
  const char *at = p->at;
  sn_span s;
  SN_TRY(sn_tx_ident(p, "an element type", &s));
  if (!sn_type_from_text(s.s, s.n, out)) return sn_tx_fail(p, at, SN_ERR_TYPE, "expected an element type, found `%s`", sn_tx_cstring(p, s));
  return sn_tx_need(p, ')', "in a layout");
}

static sn_status layout_physical(sn_tx *p, sn_layout_extra *e) {
  SN_TRY(sn_tx_need(p, '(', "after `P`"));
  if (p->depth == SN_TX_MAX_NEST) return sn_tx_too_deep(p, p->at);
  p->depth++;
  sn_status s = shape_any(p, &e->physical);
  p->depth--;
  SN_TRY(s);
  return sn_tx_need(p, ')', "after a physical shape");
}

static sn_status layout_section(sn_tx *p, sn_layout_extra *e) {
  if (sn_tx_accept(p, '#')) return layout_type(p, &e->index_type);
  if (sn_tx_accept(p, '*')) return layout_type(p, &e->pointer_type);
  if (sn_tx_accept_word(p, "D")) return layout_text(p, &e->dim_levels);
  if (sn_tx_accept_word(p, "T")) return layout_tiles(p, e);
  if (sn_tx_accept_word(p, "L")) return layout_int(p, &e->tail_padding);
  if (sn_tx_accept_word(p, "E")) return layout_int(p, &e->element_bits);
  if (sn_tx_accept_word(p, "SC")) return layout_text(p, &e->split_configs);
  if (sn_tx_accept_word(p, "S")) return layout_int(p, &e->memory_space);
  if (sn_tx_accept_word(p, "P")) return layout_physical(p, e);
  if (sn_tx_accept_word(p, "M")) return layout_int(p, &e->dynamic_prefix);
  return sn_tx_expected(p, "a section of a layout (D T L # * E S SC P M) or `}`");
}

static sn_status layout_extra(sn_tx *p, const sn_layout_extra **out) {
  sn_layout_extra e = {.index_type = SN_TYPE_INVALID, .pointer_type = SN_TYPE_INVALID};
  do {
    SN_TRY(layout_section(p, &e));
  } while (sn_tx_peek(p) != '}');
  *out = sn_arena_copy(p->keep, &e, sizeof e);
  return *out != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status layout_check(sn_tx *p, const char *at, int rank, int n, const int64_t *order) {
  uint64_t seen = 0;
  if (n != rank) return sn_tx_fail(p, at, SN_ERR_SHAPE, "expected a layout of %d dimensions, found %d", rank, n);
  for (int i = 0; i < n; i++) {
    if (order[i] < 0 || order[i] >= rank || (seen >> order[i] & 1) != 0) {
      return sn_tx_fail(p, at, SN_ERR_SHAPE, "expected a layout that lists each dimension 0…%d once, found %" PRId64, rank - 1, order[i]);
    }
    seen |= (uint64_t)1 << order[i];
  }
  return SN_OK;
}

/* Behind the `{`. */
static sn_status layout_body(sn_tx *p, int rank, const sn_layout **out) {
  struct { sn_layout l; int64_t order[SN_MAX_RANK]; } b = {.l = {.rank = 0}};
  const char *at = p->at;
  int n = 0;
  if (sn_tx_peek(p) != ':' && sn_tx_peek(p) != '}') {
    do {
      if (n == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a layout has more than %d dimensions", SN_MAX_RANK);
      SN_TRY(sn_tx_int(p, "a dimension of a layout", &b.order[n++]));
    } while (sn_tx_accept(p, ','));
  }
  SN_TRY(layout_check(p, at, rank, n, b.order));
  b.l.rank = rank;
  if (sn_tx_accept(p, ':')) SN_TRY(layout_extra(p, &b.l.extra));
  SN_TRY(sn_tx_need(p, '}', "after a layout"));
  size_t bytes = sizeof b.l + (size_t)n * sizeof b.order[0];
  char *kept = sn_arena_alloc(p->keep, bytes);
  if (kept == NULL) return sn_tx_memory(p);
  b.l.minor_to_major = (int64_t *)(void *)(kept + sizeof b.l);
  memcpy(kept, &b.l, sizeof b.l);
  memcpy(kept + sizeof b.l, b.order, (size_t)n * sizeof b.order[0]);
  *out = (const sn_layout *)(void *)kept;
  return SN_OK;
}

/* ---- arrays -------------------------------------------------------------------------------------------------------------- */

typedef struct shape_dims {
  int n;
  bool any_dynamic;
  int64_t dims[SN_MAX_RANK];
  bool dynamic[SN_MAX_RANK];
} shape_dims;

static sn_status shape_dim(sn_tx *p, shape_dims *d) {
  if (d->n == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a shape has more than %d dimensions", SN_MAX_RANK);
  bool dynamic = sn_tx_accept_text(p, "<=");
  if (sn_tx_accept(p, '?')) {
    dynamic = true;
    d->dims[d->n] = SN_DIM_UNBOUNDED;
  } else {
    SN_TRY(sn_tx_int_in(p, "the size of a dimension", 0, INT64_MAX, &d->dims[d->n]));
  }
  d->dynamic[d->n++] = dynamic;
  d->any_dynamic |= dynamic;
  return SN_OK;
}

static sn_status shape_keep(sn_tx *p, sn_type t, const shape_dims *d, const sn_layout *l, const sn_shape **out) {
  size_t dims_bytes = (size_t)d->n * sizeof d->dims[0];
  sn_shape *s = sn_arena_alloc(p->keep, sizeof *s + dims_bytes + (d->any_dynamic ? (size_t)d->n : 0));
  if (s == NULL) return sn_tx_memory(p);
  int64_t *dims = (int64_t *)(void *)(s + 1);
  bool *dynamic = d->any_dynamic ? (bool *)(dims + d->n) : NULL;
  memcpy(dims, d->dims, dims_bytes);
  if (dynamic != NULL) memcpy(dynamic, d->dynamic, (size_t)d->n);
  *s = (sn_shape){.type = t, .rank = d->n, .dims = dims, .dynamic = dynamic, .layout = l};
  *out = s;
  return SN_OK;
}

static sn_status shape_type(sn_tx *p, sn_type *out) {
  sn_tx_skip(p);
  const char *at = p->at;
  sn_span s;
  if (!sn_tx_try_ident(p, &s)) return sn_tx_expected(p, "a shape, as in f32[2,3]");
  if (sn_type_from_text(s.s, s.n, out) && *out != SN_TYPE_TUPLE) return SN_OK;
  sn_status st = sn_tx_fail(p, at, SN_ERR_TYPE, "expected an element type, found `%s`", sn_tx_cstring(p, s));
  sn_tx_hint_nearest(p, s, shape_types, SN_TYPE_TUPLE);
  return st;
}

static sn_status shape_array(sn_tx *p, const sn_shape **out) {
  shape_dims d = {.n = 0};
  sn_type t = SN_TYPE_INVALID;
  const sn_layout *l = NULL;
  SN_TRY(shape_type(p, &t));
  if (*p->at != '[') return sn_tx_expected(p, "`[` after an element type");
  const char *at = p->at++;
  if (!sn_tx_accept(p, ']')) {
    do {
      SN_TRY(shape_dim(p, &d));
    } while (sn_tx_accept(p, ','));
    if (!sn_tx_accept(p, ']')) return sn_tx_expected(p, "`,` or `]` after a dimension");
  }
  if (!sn_type_is_array(t) && d.n != 0) return sn_tx_fail(p, at, SN_ERR_SHAPE, "expected no dimensions on %s, found %d", sn_type_text(t), d.n);
  if (*p->at == '{') {
    const char *brace = p->at++;
    if (sn_tx_is(sn_tx_peek(p), SN_TX_DIGIT) || *p->at == ':') {
      SN_TRY(layout_body(p, d.n, &l));
    } else {
      p->at = brace;
    }
  }
  SN_TRY(shape_keep(p, t, &d, l, out));
  const char *end = p->at;
  p->at = at;
  sn_status s = sn_shape_check(p->d, sn_tx_loc(p, at), *out);
  p->at = end;
  if (s != SN_OK && p->n_faults++ == 0) p->status = s;
  return s;
}

/* ---- tuples ---------------------------------------------------------------------------------------------------------------- */

/* Behind the `(`. */
static sn_status shape_tuple(sn_tx *p, const sn_shape **out) {
  uint32_t from = p->stack.n;
  if (!sn_tx_accept(p, ')')) {
    do {
      const sn_shape *e = NULL;
      SN_TRY(shape_any(p, &e));
      SN_TRY(sn_tx_push(p, (void *)(uintptr_t)e));
    } while (sn_tx_accept(p, ','));
    if (!sn_tx_accept(p, ')')) return sn_tx_expected(p, "`,` or `)` after an element of a tuple shape");
  }
  uint32_t n = p->stack.n - from;
  const sn_shape **elements = sn_arena_alloc(p->keep, n * sizeof *elements);
  sn_shape *s = SN_NEW(p->keep, sn_shape);
  if (elements == NULL || s == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < n; i++) elements[i] = p->stack.v[from + i];
  p->stack.n = from;
  *s = (sn_shape){.type = SN_TYPE_TUPLE, .n_elements = (int)n, .elements = elements, .flat = n > 0};
  for (size_t k = 0; k < n; k++) s->flat = s->flat && !sn_shape_is_tuple(elements[k]);
  *out = s;
  return SN_OK;
}

static sn_status shape_buffer(sn_tx *p, const sn_shape **out) {
  const sn_shape *inner = NULL;
  SN_TRY(shape_any(p, &inner));
  SN_TRY(sn_tx_need(p, ')', "after a buffer's shape"));
  sn_shape *s = sn_arena_copy(p->keep, inner, sizeof *inner);
  if (s == NULL) return sn_tx_memory(p);
  s->buffer = true;
  *out = s;
  return SN_OK;
}

static sn_status shape_any(sn_tx *p, const sn_shape **out) {
  sn_tx_skip(p);
  bool buffer = p->at[0] == 'b' && p->at[1] == '(';
  if (!buffer && *p->at != '(') return shape_array(p, out);
  if (p->depth == SN_TX_MAX_NEST) return sn_tx_too_deep(p, p->at);
  p->at += buffer ? 2 : 1;
  p->depth++;
  sn_status s = buffer ? shape_buffer(p, out) : shape_tuple(p, out);
  p->depth--;
  return s;
}

bool sn_tx_at_shape(sn_tx *p) {
  char c = sn_tx_peek(p);
  if (c == '(') return true;
  if (!sn_tx_is(c, SN_TX_IDENT_START)) return false;
  if (p->at[0] == 'b' && p->at[1] == '(') return true;
  const char *at = p->at;
  while (sn_tx_is(*at, SN_TX_IDENT)) at++;
  return *at == '[';
}

sn_status sn_tx_shape(sn_tx *p, const sn_shape **out) {
  *out = NULL;
  return shape_any(p, out);
}
