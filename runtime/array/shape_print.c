/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shapes as XLA writes them: `f32[2,<=3,?]{2,1,0:T(8,128)S(1)}`, `(f32[], token[])`, `b(f32[2])`. */
#include "sinter/array.h"

static void print_tiles(sn_str *to, const sn_layout_extra *e) {
  if (e->n_tiles == 0) return;
  sn_str_char(to, 'T');
  for (int i = 0; i < e->n_tiles; i++) {
    sn_str_char(to, '(');
    for (int j = 0; j < e->tiles[i].n; j++) {
      if (j > 0) sn_str_char(to, ',');
      if (e->tiles[i].dims[j] == SN_TILE_COMBINE) sn_str_char(to, '*');
      else sn_str_i64(to, e->tiles[i].dims[j]);
    }
    sn_str_char(to, ')');
  }
}

static void print_number(sn_str *to, const char *name, int64_t value) {
  sn_str_add(to, name);
  sn_str_char(to, '(');
  sn_str_i64(to, value);
  sn_str_char(to, ')');
}

static void print_text(sn_str *to, const char *name, const char *value) {
  sn_str_add(to, name);
  sn_str_char(to, '(');
  sn_str_add(to, value);
  sn_str_char(to, ')');
}

/* In the order of XLA's printer. */
static void print_extra(sn_str *to, const sn_layout_extra *e) {
  if (e->dim_levels) print_text(to, "D", e->dim_levels);
  print_tiles(to, e);
  if (e->tail_padding > 1) print_number(to, "L", e->tail_padding);
  if (e->index_type != SN_TYPE_INVALID) print_text(to, "#", sn_type_text(e->index_type));
  if (e->pointer_type != SN_TYPE_INVALID) print_text(to, "*", sn_type_text(e->pointer_type));
  if (e->element_bits != 0) print_number(to, "E", e->element_bits);
  if (e->memory_space != 0) print_number(to, "S", e->memory_space);
  if (e->split_configs) print_text(to, "SC", e->split_configs);
  if (e->physical) {
    sn_str_add(to, "P(");
    sn_shape_print(to, e->physical, SN_SHAPE_LAYOUT);
    sn_str_char(to, ')');
  }
  if (e->dynamic_prefix > 0) print_number(to, "M", e->dynamic_prefix);
}

/* A scalar shows its layout only when that says something. */
static void print_layout(sn_str *to, const sn_layout *l) {
  sn_str extra = {0};
  if (l->extra) print_extra(&extra, l->extra);
  to->failed |= extra.failed;
  if (l->rank > 0 || extra.n > 0) {
    sn_str_char(to, '{');
    for (int i = 0; i < l->rank; i++) {
      if (i > 0) sn_str_char(to, ',');
      sn_str_i64(to, l->minor_to_major[i]);
    }
    if (extra.n > 0) {
      sn_str_char(to, ':');
      sn_str_add_n(to, extra.data, extra.n);
    }
    sn_str_char(to, '}');
  }
  sn_str_finish(&extra);
}

static void print_dims(sn_str *to, const sn_shape *s) {
  sn_str_char(to, '[');
  for (int i = 0; i < s->rank; i++) {
    if (i > 0) sn_str_char(to, ',');
    if (s->dims[i] == SN_DIM_UNBOUNDED) {
      sn_str_char(to, '?');
      continue;
    }
    if (s->dynamic && s->dynamic[i]) sn_str_add(to, "<=");
    sn_str_i64(to, s->dims[i]);
  }
  sn_str_char(to, ']');
}

static void print_tuple(sn_str *to, const sn_shape *s, int flags) {
  sn_str_char(to, '(');
  for (int i = 0; i < s->n_elements; i++) {
    if (i > 0) sn_str_add(to, ", ");
    if (flags & SN_SHAPE_INDEX_COMMENTS && i > 0 && i % 5 == 0) sn_str_printf(to, "/*index=%d*/", i);
    sn_shape_print(to, s->elements[i], flags);
  }
  sn_str_char(to, ')');
}

void sn_shape_print(sn_str *to, const sn_shape *s, int flags) {
  if (s->buffer) sn_str_add(to, "b(");
  if (sn_shape_is_tuple(s)) {
    print_tuple(to, s, flags);
  } else {
    sn_str_add(to, sn_type_text(s->type));
    print_dims(to, s);
    if (flags & SN_SHAPE_LAYOUT && s->layout && sn_shape_is_array(s)) print_layout(to, s->layout);
  }
  if (s->buffer) sn_str_char(to, ')');
}

const char *sn_shape_text(sn_arena *a, const sn_shape *s) {
  sn_str text = {0};
  sn_shape_print(&text, s, 0);
  const char *out = text.failed ? NULL : sn_arena_string_n(a, text.data, text.n);
  sn_str_finish(&text);
  return out ? out : "(shape: out of memory)"; /* for messages; a printf must not meet NULL */
}
