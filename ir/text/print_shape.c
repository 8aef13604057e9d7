/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Shapes as XLA prints them: `f32[2,<=3]{1,0:T(8,128)}`, tuples with a comment in front of every fifth element. */
#include "text_internal.h"

#include <string.h>

static void print_dims(sn_str *to, const sn_shape *s) {
  sn_str_char(to, '[');
  for (int i = 0; i < s->rank; i++) {
    if (i != 0) sn_str_char(to, ',');
    if (s->dims[i] == SN_DIM_UNBOUNDED) {
      sn_str_char(to, '?');
      continue;
    }
    if (s->dynamic != NULL && s->dynamic[i]) sn_str_add_n(to, "<=", 2);
    sn_str_i64(to, s->dims[i]);
  }
  sn_str_char(to, ']');
}

static void print_tile(sn_str *to, const sn_tile *t) {
  sn_str_char(to, '(');
  for (int i = 0; i < t->n; i++) {
    if (i != 0) sn_str_char(to, ',');
    if (t->dims[i] == SN_TILE_COMBINE) sn_str_char(to, '*');
    else sn_str_i64(to, t->dims[i]);
  }
  sn_str_char(to, ')');
}

static void print_section(sn_str *to, const char *letter, int64_t v) {
  sn_str_add(to, letter);
  sn_str_char(to, '(');
  sn_str_i64(to, v);
  sn_str_char(to, ')');
}

static void print_text_section(sn_str *to, const char *letter, const char *text) {
  sn_str_add(to, letter);
  sn_str_char(to, '(');
  sn_str_add(to, text);
  sn_str_char(to, ')');
}

/* Recursion: a physical shape within a layout nests as deep as the parser allows. */
static void print_extra(sn_str *to, const sn_layout_extra *e) {
  sn_str_char(to, ':');
  if (e->dim_levels != NULL) print_text_section(to, "D", e->dim_levels);
  if (e->n_tiles != 0) sn_str_char(to, 'T');
  for (int i = 0; i < e->n_tiles; i++) print_tile(to, &e->tiles[i]);
  if (e->tail_padding > 1) print_section(to, "L", e->tail_padding);
  if (e->index_type != SN_TYPE_INVALID) print_text_section(to, "#", sn_type_text(e->index_type));
  if (e->pointer_type != SN_TYPE_INVALID) print_text_section(to, "*", sn_type_text(e->pointer_type));
  if (e->element_bits != 0) print_section(to, "E", e->element_bits);
  if (e->memory_space != 0) print_section(to, "S", e->memory_space);
  if (e->split_configs != NULL) print_text_section(to, "SC", e->split_configs);
  if (e->physical != NULL) {
    sn_str_add(to, "P(");
    sn_tx_print_shape(to, e->physical, true, false, false);
    sn_str_char(to, ')');
  }
  if (e->dynamic_prefix != 0) print_section(to, "M", e->dynamic_prefix);
}

static bool extra_says_something(const sn_layout_extra *e) {
  return e->dim_levels != NULL || e->n_tiles != 0 || e->tail_padding > 1 || e->index_type != SN_TYPE_INVALID || e->pointer_type != SN_TYPE_INVALID ||
         e->element_bits != 0 || e->memory_space != 0 || e->split_configs != NULL || e->physical != NULL || e->dynamic_prefix != 0;
}

static void print_layout(sn_str *to, const sn_shape *s, bool default_layouts) {
  const sn_layout *l = s->layout;
  const sn_layout_extra *e = l != NULL && l->extra != NULL && extra_says_something(l->extra) ? l->extra : NULL;
  if ((s->rank == 0 && e == NULL) || (l == NULL && !default_layouts)) return;
  sn_str_char(to, '{');
  for (int i = 0; i < s->rank; i++) {
    if (i != 0) sn_str_char(to, ',');
    sn_str_i64(to, l != NULL ? l->minor_to_major[i] : s->rank - 1 - i);
  }
  if (e != NULL) print_extra(to, e);
  sn_str_char(to, '}');
}

void sn_tx_print_shape(sn_str *to, const sn_shape *s, bool layout, bool default_layouts, bool comments) {
  if (s->buffer) sn_str_add_n(to, "b(", 2);
  if (s->type == SN_TYPE_TUPLE) {
    sn_str_char(to, '(');
    for (int i = 0; i < s->n_elements; i++) {
      if (i != 0) sn_str_add_n(to, ", ", 2);
      if (comments && i != 0 && i % 5 == 0) sn_tx_print_index(to, (uint32_t)i);
      sn_tx_print_shape(to, s->elements[i], layout, default_layouts, comments);
    }
    sn_str_char(to, ')');
  } else {
    sn_str_add(to, sn_type_text(s->type));
    print_dims(to, s);
    if (layout && sn_type_is_array(s->type)) print_layout(to, s, default_layouts);
  }
  if (s->buffer) sn_str_char(to, ')');
}
