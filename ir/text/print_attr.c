/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Values of attributes: one function for each kind of attrs.def. */
#include "text_internal.h"

#include <string.h>

typedef void (*print_fn)(sn_tx_printer *w, const sn_attr *a);

void sn_tx_print_index(sn_str *to, uint32_t i) {
  sn_str_add_n(to, "/*index=", 8);
  sn_str_u64(to, i);
  sn_str_add_n(to, "*/", 2);
}

void sn_tx_print_ints(sn_str *to, sn_ints v, const char *open, const char *separator, const char *close) {
  sn_str_add(to, open);
  for (int64_t i = 0; i < v.n; i++) {
    if (i != 0) sn_str_add(to, separator);
    sn_str_i64(to, v.v[i]);
  }
  sn_str_add(to, close);
}

void sn_tx_print_quoted(sn_str *to, const char *s) {
  sn_str_char(to, '"');
  sn_str_escaped(to, s, strlen(s), false);
  sn_str_char(to, '"');
}

static void print_bool(sn_tx_printer *w, const sn_attr *a) { sn_str_add(w->to, a->u.i != 0 ? "true" : "false"); }
static void print_int(sn_tx_printer *w, const sn_attr *a) { sn_str_i64(w->to, a->u.i); }
static void print_f64(sn_tx_printer *w, const sn_attr *a) { sn_tx_print_f64(w->to, a->u.f); }

static void print_word(sn_str *to, sn_attr_id id, int64_t v) {
  const char *text = sn_enum_text(sn_attrs[id].domain, v);
  sn_str_add(to, text != NULL ? text : "invalid");
}
static void print_enum(sn_tx_printer *w, const sn_attr *a) { print_word(w->to, a->id, a->u.i); }

static void print_enums(sn_tx_printer *w, const sn_attr *a) {
  sn_str_char(w->to, '{');
  for (int64_t i = 0; i < a->u.ints.n; i++) {
    if (i != 0) sn_str_char(w->to, ',');
    print_word(w->to, a->id, a->u.ints.v[i]);
  }
  sn_str_char(w->to, '}');
}

static void print_ints(sn_tx_printer *w, const sn_attr *a) { sn_tx_print_ints(w->to, a->u.ints, "{", ",", "}"); }

/* The strides are left out when all are 1. */
static void print_slices(sn_tx_printer *w, const sn_attr *a) {
  const int64_t *v = a->u.ints.v;
  bool strides = false;
  for (int64_t i = 0; i < a->u.ints.n; i += 3) strides |= v[i + 2] != 1;
  sn_str_char(w->to, '{');
  for (int64_t i = 0; i < a->u.ints.n; i += 3) {
    if (i != 0) sn_str_add_n(w->to, ", ", 2);
    sn_tx_print_ints(w->to, (sn_ints){strides ? 3 : 2, v + i}, "[", ":", "]");
  }
  sn_str_char(w->to, '}');
}

/* The interior is left out when it is 0 everywhere. */
static void print_padding(sn_tx_printer *w, const sn_attr *a) {
  const int64_t *v = a->u.ints.v;
  bool interior = false;
  for (int64_t i = 0; i < a->u.ints.n; i += 3) interior |= v[i + 2] != 0;
  for (int64_t i = 0; i < a->u.ints.n; i += 3) sn_tx_print_ints(w->to, (sn_ints){interior ? 3 : 2, v + i}, i != 0 ? "x" : "", "_", "");
}

static void print_pairs(sn_tx_printer *w, const sn_attr *a) {
  sn_str_char(w->to, '{');
  for (int64_t i = 0; i < a->u.ints.n; i += 2) sn_tx_print_ints(w->to, (sn_ints){2, a->u.ints.v + i}, i != 0 ? ",{" : "{", ",", "}");
  sn_str_char(w->to, '}');
}

static void print_lists(sn_str *to, int64_t n, const sn_ints *v) {
  sn_str_char(to, '{');
  for (int64_t i = 0; i < n; i++) sn_tx_print_ints(to, v[i], i != 0 ? ",{" : "{", ",", "}");
  sn_str_char(to, '}');
}
static void print_nested(sn_tx_printer *w, const sn_attr *a) { print_lists(w->to, a->u.nested.n, a->u.nested.v); }

/* ---- windows ----------------------------------------------------------------------------------------------------------------- */

enum { WINDOW_SIZE, WINDOW_STRIDE, WINDOW_PAD, WINDOW_LHS, WINDOW_RHS, WINDOW_REVERSAL, N_WINDOW_PARTS };

static bool window_says(const sn_window_dim *d, int part) {
  switch (part) {
    case WINDOW_STRIDE: return d->stride != 1;
    case WINDOW_PAD: return d->pad_low != 0 || d->pad_high != 0;
    case WINDOW_LHS: return d->lhs_dilate != 1;
    case WINDOW_RHS: return d->rhs_dilate != 1;
    case WINDOW_REVERSAL: return d->reversal;
    default: return true;
  }
}

static void window_value(sn_str *to, const sn_window_dim *d, int part) {
  if (part == WINDOW_PAD) {
    sn_str_i64(to, d->pad_low);
    sn_str_char(to, '_');
    sn_str_i64(to, d->pad_high);
    return;
  }
  const int64_t v[N_WINDOW_PARTS] = {d->size, d->stride, 0, d->lhs_dilate, d->rhs_dilate, d->reversal};
  sn_str_i64(to, v[part]);
}

/* A part is printed when one dimension has something else than its default. */
static void print_window(sn_tx_printer *w, const sn_attr *a) {
  static const char *const names[N_WINDOW_PARTS] = {"size=", " stride=", " pad=", " lhs_dilate=", " rhs_dilate=", " rhs_reversal="};
  const sn_window *win = a->u.window;
  sn_str_char(w->to, '{');
  for (int part = 0; part < N_WINDOW_PARTS; part++) {
    bool says = false;
    for (int i = 0; i < win->rank; i++) says |= window_says(&win->dims[i], part);
    if (!says) continue;
    sn_str_add(w->to, names[part]);
    for (int i = 0; i < win->rank; i++) {
      if (i != 0) sn_str_char(w->to, 'x');
      window_value(w->to, &win->dims[i], part);
    }
  }
  sn_str_char(w->to, '}');
}

static void print_labels(sn_str *to, int rank, int n_spatial, const int64_t *spatial, int64_t a, char a_letter, int64_t b, char b_letter) {
  char text[SN_MAX_RANK];
  rank = rank < SN_MAX_RANK ? rank : SN_MAX_RANK;
  memset(text, '?', sizeof text);
  if (a >= 0 && a < rank) text[a] = a_letter;
  if (b >= 0 && b < rank) text[b] = b_letter;
  for (int i = 0; i < n_spatial; i++) {
    if (spatial[i] >= 0 && spatial[i] < rank) text[spatial[i]] = (char)('0' + i);
  }
  sn_str_add_n(to, text, (size_t)rank);
}

static void print_conv_dims(sn_tx_printer *w, const sn_attr *a) {
  const sn_conv_dims *c = a->u.conv;
  print_labels(w->to, c->input_rank, c->n_spatial, c->input_spatial, c->input_batch, 'b', c->input_feature, 'f');
  sn_str_char(w->to, '_');
  print_labels(w->to, c->kernel_rank, c->n_spatial, c->kernel_spatial, c->kernel_input_feature, 'i', c->kernel_output_feature, 'o');
  sn_str_add_n(w->to, "->", 2);
  print_labels(w->to, c->output_rank, c->n_spatial, c->output_spatial, c->output_batch, 'b', c->output_feature, 'f');
}

/* ---- groups, aliases ------------------------------------------------------------------------------------------------------------ */

static void print_groups(sn_tx_printer *w, const sn_attr *a) {
  const sn_groups *g = a->u.groups;
  switch (g->form) {
    case SN_GROUPS_MESH: sn_str_add(w->to, g->mesh); break;
    case SN_GROUPS_IOTA:
      sn_tx_print_ints(w->to, g->iota_dims, "[", ",", "]<=");
      sn_tx_print_ints(w->to, g->reshape_dims, "[", ",", "]");
      if (g->transpose.n != 0) sn_tx_print_ints(w->to, g->transpose, "T(", ",", ")");
      break;
    case SN_GROUPS_LIST: print_lists(w->to, g->n_groups, g->groups); break;
  }
}

void sn_tx_print_aliases(sn_str *to, int64_t n, const sn_alias *v, bool io) {
  sn_str_add(to, io ? "{ " : "{");
  for (int64_t i = 0; i < n; i++) {
    if (i != 0) sn_str_add(to, ", ");
    sn_tx_print_ints(to, v[i].output_index, "{", ",", "}: (");
    sn_str_i64(to, v[i].operand);
    sn_tx_print_ints(to, v[i].operand_index, ", {", ",", "}");
    if (io) sn_str_add(to, v[i].must ? ", must-alias" : ", may-alias");
    sn_str_char(to, ')');
  }
  sn_str_add(to, io ? " }" : "}");
}
static void print_aliases(sn_tx_printer *w, const sn_attr *a) { sn_tx_print_aliases(w->to, a->u.aliases.n, a->u.aliases.v, false); }

/* ---- text, shapes, literals ------------------------------------------------------------------------------------------------------- */

static void print_string(sn_tx_printer *w, const sn_attr *a) {
  sn_str_char(w->to, '"');
  sn_str_escaped(w->to, a->u.str.s, a->u.str.n, false);
  sn_str_char(w->to, '"');
}
static void print_raw(sn_tx_printer *w, const sn_attr *a) { sn_str_add_n(w->to, a->u.str.s, a->u.str.n); }

static void print_shape(sn_tx_printer *w, const sn_attr *a) { sn_tx_print_shape(w->to, a->u.shape, true, w->o.default_layouts, false); }

static void print_shapes(sn_tx_printer *w, const sn_attr *a) {
  sn_str_char(w->to, '{');
  for (int64_t i = 0; i < a->u.shapes.n; i++) {
    if (i != 0) sn_str_add_n(w->to, ", ", 2);
    sn_tx_print_shape(w->to, a->u.shapes.v[i], true, w->o.default_layouts, false);
  }
  sn_str_char(w->to, '}');
}

static void print_literal(sn_tx_printer *w, const sn_attr *a) {
  if (a->u.literal == NULL) {
    sn_str_add(w->to, "{...}");
    return;
  }
  /* Always with its layout: behind a bare shape XLA takes the literal's brace for one. */
  sn_tx_print_shape(w->to, sn_array_shape(a->u.literal), true, true, false);
  sn_str_char(w->to, ' ');
  sn_tx_print_literal(w->to, a->u.literal);
}

static const print_fn print_fns[] = {
    [SN_KIND_BOOL] = print_bool,          [SN_KIND_INT] = print_int,           [SN_KIND_F64] = print_f64,        [SN_KIND_ENUM] = print_enum,
    [SN_KIND_INTS] = print_ints,          [SN_KIND_ENUMS] = print_enums,       [SN_KIND_SLICES] = print_slices,  [SN_KIND_PADDING] = print_padding,
    [SN_KIND_PAIRS] = print_pairs,        [SN_KIND_NESTED_INTS] = print_nested, [SN_KIND_WINDOW] = print_window, [SN_KIND_CONV_DIMS] = print_conv_dims,
    [SN_KIND_GROUPS] = print_groups,      [SN_KIND_ALIASES] = print_aliases,   [SN_KIND_STRING] = print_string,  [SN_KIND_RAW] = print_raw,
    [SN_KIND_SHAPE] = print_shape,        [SN_KIND_SHAPES] = print_shapes,     [SN_KIND_LITERAL] = print_literal,
};

void sn_tx_print_attr(sn_tx_printer *w, const sn_attr *a) {
  sn_str_add_n(w->to, ", ", 2);
  sn_str_add(w->to, sn_attrs[a->id].text);
  sn_str_char(w->to, '=');
  print_fns[sn_attrs[a->id].kind](w, a);
}
