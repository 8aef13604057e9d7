/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Values of attributes: one function for each kind of attrs.def, all into p->keep. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

typedef sn_status (*attr_fn)(sn_tx *p, sn_attr *a);

/* ---- words and numbers --------------------------------------------------------------------------------------------------- */

static sn_status attr_bool(sn_tx *p, sn_attr *a) {
  bool b = false;
  SN_TRY(sn_tx_bool(p, &b));
  a->u.i = b;
  return SN_OK;
}

static sn_status attr_int(sn_tx *p, sn_attr *a) { return sn_tx_int(p, "an integer", &a->u.i); }

static sn_status attr_f64(sn_tx *p, sn_attr *a) { return sn_tx_float(p, "a number", &a->u.f); }

static sn_status attr_word(sn_tx *p, sn_attr_id id, int64_t *out) {
  const char *words[64];
  sn_enum_domain domain = sn_attrs[id].domain;
  int n = sn_enum_count(domain);
  sn_tx_skip(p);
  const char *at = p->at;
  sn_span s;
  if (sn_tx_try_ident(p, &s) && sn_enum_from_text(domain, s.s, s.n, out)) return SN_OK;
  sn_str list = {0};
  for (int i = 0; i < n && i < 64; i++) {
    words[i] = sn_enum_text(domain, i);
    if (i < 6) sn_str_printf(&list, "%s%s", i == 0 ? "" : ", ", words[i]);
  }
  if (n > 6) sn_str_add(&list, ", …");
  bool word = p->at > at;
  char what[160];
  snprintf(what, sizeof what, "a value of %s (%s)", sn_attrs[id].text, list.data != NULL ? list.data : "");
  sn_str_finish(&list);
  p->at = at;
  sn_status st = sn_tx_expected(p, what);
  if (word) sn_tx_hint_nearest(p, s, words, (size_t)(n < 64 ? n : 64));
  return st;
}

static sn_status attr_enum(sn_tx *p, sn_attr *a) { return attr_word(p, a->id, &a->u.i); }

static sn_status attr_enums(sn_tx *p, sn_attr *a) {
  int64_t v[SN_MAX_RANK];
  int64_t n = 0;
  SN_TRY(sn_tx_need(p, '{', "before a list of words"));
  if (sn_tx_peek(p) != '}') {
    do {
      if (n == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d words in %s", SN_MAX_RANK, sn_attrs[a->id].text);
      SN_TRY(attr_word(p, a->id, &v[n++]));
    } while (sn_tx_accept(p, ','));
  }
  a->u.ints = (sn_ints){n, sn_arena_copy(p->keep, v, (size_t)n * sizeof *v)};
  if (a->u.ints.v == NULL) return sn_tx_memory(p);
  return sn_tx_need(p, '}', "after a list of words");
}

/* ---- lists of integers ------------------------------------------------------------------------------------------------------- */

static sn_status attr_ints(sn_tx *p, sn_attr *a) { return sn_tx_ints(p, '{', '}', &a->u.ints); }

/* {[start:limit:stride], …}, the stride optional. */
static sn_status attr_slices(sn_tx *p, sn_attr *a) {
  int64_t v[3 * SN_MAX_RANK];
  int64_t n = 0;
  SN_TRY(sn_tx_need(p, '{', "before slices"));
  if (sn_tx_peek(p) != '}') {
    do {
      if (n == 3 * SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a slice has more than %d dimensions", SN_MAX_RANK);
      SN_TRY(sn_tx_need(p, '[', "before a slice, as in [0:4:2]"));
      SN_TRY(sn_tx_int(p, "the start of a slice", &v[n]));
      SN_TRY(sn_tx_need(p, ':', "behind the start of a slice"));
      SN_TRY(sn_tx_int(p, "the limit of a slice", &v[n + 1]));
      v[n + 2] = 1;
      if (sn_tx_accept(p, ':')) SN_TRY(sn_tx_int(p, "the stride of a slice", &v[n + 2]));
      SN_TRY(sn_tx_need(p, ']', "after a slice"));
      n += 3;
    } while (sn_tx_accept(p, ','));
  }
  a->u.ints = (sn_ints){n, sn_arena_copy(p->keep, v, (size_t)n * sizeof *v)};
  if (a->u.ints.v == NULL) return sn_tx_memory(p);
  return sn_tx_need(p, '}', "after slices");
}

/* low_high[_interior]x… */
static sn_status attr_padding(sn_tx *p, sn_attr *a) {
  int64_t v[3 * SN_MAX_RANK];
  int64_t n = 0;
  char c = sn_tx_peek(p);
  while (n != 0 || c == '-' || sn_tx_is(c, SN_TX_DIGIT)) { /* a scalar has none */
    if (n == 3 * SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "padding has more than %d dimensions", SN_MAX_RANK);
    SN_TRY(sn_tx_int(p, "low padding, as in 0_1x2_2_1", &v[n]));
    if (*p->at != '_') return sn_tx_expected(p, "`_` and high padding, as in 0_1x2_2_1");
    p->at++;
    SN_TRY(sn_tx_int(p, "high padding", &v[n + 1]));
    v[n + 2] = 0;
    if (*p->at == '_') {
      p->at++;
      SN_TRY(sn_tx_int(p, "interior padding", &v[n + 2]));
    }
    n += 3;
    if (*p->at != 'x') break;
    p->at++;
  }
  a->u.ints = (sn_ints){n, sn_arena_copy(p->keep, v, (size_t)n * sizeof *v)};
  return a->u.ints.v != NULL ? SN_OK : sn_tx_memory(p);
}

/* {{1,2},{3}} */
static sn_status attr_nested(sn_tx *p, sn_attr *a) {
  a->u.nested.n = 0;
  a->u.nested.v = NULL;
  SN_TRY(sn_tx_need(p, '{', "before lists of integers"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  size_t cap = 0, n = 0;
  for (const char *q = p->at; *q == '{' || *q == '}' || *q == ',' || *q == '-' || sn_tx_is(*q, SN_TX_DIGIT | SN_TX_SPACE); q++) cap += *q == '{';
  sn_ints *v = sn_arena_alloc(p->keep, (cap + 1) * sizeof *v);
  if (v == NULL) return sn_tx_memory(p);
  do {
    if (n > cap) break;
    SN_TRY(sn_tx_ints(p, '{', '}', &v[n++]));
  } while (sn_tx_accept(p, ','));
  a->u.nested.n = (int64_t)n;
  a->u.nested.v = v;
  return sn_tx_need(p, '}', "after lists of integers");
}

static sn_status attr_pairs(sn_tx *p, sn_attr *a) {
  const char *at = p->at;
  sn_attr lists = {.id = a->id};
  SN_TRY(attr_nested(p, &lists));
  int64_t n = lists.u.nested.n;
  int64_t *v = sn_arena_alloc(p->keep, (size_t)n * 2 * sizeof *v);
  if (v == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < n; i++) {
    sn_ints pair = lists.u.nested.v[i];
    if (pair.n != 2) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected pairs {source,target} in %s, found a list of %" PRId64, sn_attrs[a->id].text, pair.n);
    v[2 * i] = pair.v[0];
    v[2 * i + 1] = pair.v[1];
  }
  a->u.ints = (sn_ints){2 * n, v};
  return SN_OK;
}

/* ---- windows -------------------------------------------------------------------------------------------------------------------- */

typedef struct window_text {
  int n[6];
  int64_t size[SN_MAX_RANK], stride[SN_MAX_RANK], pad[2 * SN_MAX_RANK], lhs[SN_MAX_RANK], rhs[SN_MAX_RANK], reversal[SN_MAX_RANK];
} window_text;
enum { WINDOW_SIZE, WINDOW_STRIDE, WINDOW_PAD, WINDOW_LHS, WINDOW_RHS, WINDOW_REVERSAL, N_WINDOW_PARTS };
static const char *const window_parts[N_WINDOW_PARTS] = {"size", "stride", "pad", "lhs_dilate", "rhs_dilate", "rhs_reversal"};

/* low_highxlow_high… */
static sn_status window_pads(sn_tx *p, window_text *w) {
  int n = 0;
  for (;;) {
    if (n == SN_MAX_RANK) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a window has more than %d dimensions", SN_MAX_RANK);
    SN_TRY(sn_tx_int(p, "low padding, as in 1_1x0_2", &w->pad[2 * n]));
    if (*p->at != '_') return sn_tx_expected(p, "`_` and high padding, as in 1_1x0_2");
    p->at++;
    SN_TRY(sn_tx_int(p, "high padding", &w->pad[2 * n + 1]));
    n++;
    if (*p->at != 'x') break;
    p->at++;
  }
  w->n[WINDOW_PAD] = n;
  return SN_OK;
}

static sn_status window_part(sn_tx *p, window_text *w) {
  int64_t *const lists[N_WINDOW_PARTS] = {w->size, w->stride, NULL, w->lhs, w->rhs, w->reversal};
  const char *at = p->at;
  sn_span s;
  SN_TRY(sn_tx_ident(p, "size=, stride=, pad=, lhs_dilate=, rhs_dilate= or rhs_reversal=", &s));
  int k = 0;
  while (k < N_WINDOW_PARTS && !sn_tx_span_is(s, window_parts[k])) k++;
  if (k == N_WINDOW_PARTS) {
    sn_status st = sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a part of a window (size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal), found `%s`", sn_tx_cstring(p, s));
    sn_tx_hint_nearest(p, s, window_parts, N_WINDOW_PARTS);
    return st;
  }
  if (w->n[k] >= 0) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected %s= once in a window, found it again", window_parts[k]);
  SN_TRY(sn_tx_need(p, '=', "in a window"));
  if (k == WINDOW_PAD) return window_pads(p, w);
  return sn_tx_ints_by_x(p, "the dimensions of a window, as in 3x3", lists[k], SN_MAX_RANK, &w->n[k]);
}

static sn_status window_keep(sn_tx *p, const char *at, const window_text *w, const sn_window **out) {
  int rank = 0;
  for (int k = 0; k < N_WINDOW_PARTS; k++) rank = w->n[k] > rank ? w->n[k] : rank;
  for (int k = 0; k < N_WINDOW_PARTS; k++) {
    if (w->n[k] >= 0 && w->n[k] != rank) {
      return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected %d dimensions in each part of the window, found %d in %s", rank, w->n[k], window_parts[k]);
    }
  }
  sn_window_dim *dims = SN_NEW_N(p->keep, sn_window_dim, rank);
  sn_window *kept = SN_NEW(p->keep, sn_window);
  if (dims == NULL || kept == NULL) return sn_tx_memory(p);
  for (int i = 0; i < rank; i++) {
    dims[i] = (sn_window_dim){.size = w->n[WINDOW_SIZE] >= 0 ? w->size[i] : 1,
                              .stride = w->n[WINDOW_STRIDE] >= 0 ? w->stride[i] : 1,
                              .pad_low = w->n[WINDOW_PAD] >= 0 ? w->pad[2 * i] : 0,
                              .pad_high = w->n[WINDOW_PAD] >= 0 ? w->pad[2 * i + 1] : 0,
                              .lhs_dilate = w->n[WINDOW_LHS] >= 0 ? w->lhs[i] : 1,
                              .rhs_dilate = w->n[WINDOW_RHS] >= 0 ? w->rhs[i] : 1,
                              .reversal = w->n[WINDOW_REVERSAL] >= 0 && w->reversal[i] != 0};
  }
  *kept = (sn_window){rank, dims};
  *out = kept;
  return SN_OK;
}

sn_status sn_tx_window(sn_tx *p, const sn_window **out) {
  *out = NULL;
  sn_tx_skip(p);
  const char *at = p->at;
  window_text w;
  for (int k = 0; k < N_WINDOW_PARTS; k++) w.n[k] = -1;
  SN_TRY(sn_tx_need(p, '{', "before a window"));
  while (sn_tx_peek(p) != '}') SN_TRY(window_part(p, &w));
  p->at++;
  return window_keep(p, at, &w, out);
}

static sn_status attr_window(sn_tx *p, sn_attr *a) { return sn_tx_window(p, &a->u.window); }

/* ---- dim_labels ------------------------------------------------------------------------------------------------------------------ */

/* One side: where the two named dimensions and the spatial ones stand, -1 where they do not. */
typedef struct labels_side {
  int rank, n_spatial;
  int64_t named[2], spatial[10];
} labels_side;

static sn_status labels_read(sn_tx *p, const char *letters, labels_side *side) {
  const char *at = p->at;
  *side = (labels_side){.named = {-1, -1}};
  for (int i = 0; i < 10; i++) side->spatial[i] = -1;
  for (; *p->at == '?' || sn_tx_is(*p->at, SN_TX_DIGIT) || *p->at == letters[0] || *p->at == letters[1]; p->at++, side->rank++) {
    char c = *p->at;
    if (c == '?') continue;
    bool digit = sn_tx_is(c, SN_TX_DIGIT);
    int64_t *slot = digit ? &side->spatial[c - '0'] : &side->named[c == letters[1]];
    if (*slot >= 0) return sn_tx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected each label once, found `%c` again", c);
    *slot = side->rank;
    side->n_spatial += digit;
  }
  for (int i = 0; i < side->n_spatial; i++) {
    if (side->spatial[i] < 0) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected spatial labels 0…%d, found no %d", side->n_spatial - 1, i);
  }
  if (side->named[0] >= 0 && side->named[1] >= 0) return SN_OK;
  return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected the labels `%c` and `%c`, as in b01f_01io->b01f, found no `%c`", letters[0], letters[1],
                    side->named[0] < 0 ? letters[0] : letters[1]);
}

static sn_status labels_keep(sn_tx *p, const labels_side s[3], sn_attr *a) {
  int n = s[0].n_spatial;
  sn_conv_dims *c = SN_NEW(p->keep, sn_conv_dims);
  int64_t *spatial = sn_arena_alloc(p->keep, 3 * (size_t)n * sizeof *spatial);
  if (c == NULL || spatial == NULL) return sn_tx_memory(p);
  for (int k = 0; k < 3; k++) memcpy(spatial + k * n, s[k].spatial, (size_t)n * sizeof *spatial);
  *c = (sn_conv_dims){.n_spatial = n,
                      .input_batch = s[0].named[0], .input_feature = s[0].named[1],
                      .kernel_input_feature = s[1].named[0], .kernel_output_feature = s[1].named[1],
                      .output_batch = s[2].named[0], .output_feature = s[2].named[1],
                      .input_spatial = spatial, .kernel_spatial = spatial + n, .output_spatial = spatial + 2 * n,
                      .input_rank = s[0].rank, .kernel_rank = s[1].rank, .output_rank = s[2].rank};
  a->u.conv = c;
  return SN_OK;
}

static sn_status attr_conv_dims(sn_tx *p, sn_attr *a) {
  labels_side s[3];
  sn_tx_skip(p);
  const char *at = p->at;
  SN_TRY(labels_read(p, "bf", &s[0]));
  if (*p->at++ != '_') return p->at--, sn_tx_expected(p, "`_` and the kernel's labels, as in b01f_01io->b01f");
  SN_TRY(labels_read(p, "io", &s[1]));
  if (!sn_tx_accept_text(p, "->")) return sn_tx_expected(p, "`->` and the result's labels, as in b01f_01io->b01f");
  SN_TRY(labels_read(p, "bf", &s[2]));
  if (s[0].n_spatial != s[1].n_spatial || s[0].n_spatial != s[2].n_spatial) {
    return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected as many spatial labels in all three, found %d, %d and %d", s[0].n_spatial, s[1].n_spatial, s[2].n_spatial);
  }
  return labels_keep(p, s, a);
}

/* ---- groups, aliases ---------------------------------------------------------------------------------------------------------------- */

static sn_status attr_groups(sn_tx *p, sn_attr *a) {
  sn_groups *g = SN_NEW(p->keep, sn_groups);
  if (g == NULL) return sn_tx_memory(p);
  a->u.groups = g;
  return sn_tx_groups(p, g);
}

/* {out}: (operand, {in}[, may-alias]) */
static sn_status alias_one(sn_tx *p, bool io, sn_alias *a) {
  *a = (sn_alias){.operand = 0};
  SN_TRY(sn_tx_ints(p, '{', '}', &a->output_index));
  SN_TRY(sn_tx_need(p, ':', "after an output index"));
  SN_TRY(sn_tx_need(p, '(', "before an aliased operand"));
  SN_TRY(sn_tx_int_in(p, "an operand number", 0, INT32_MAX, &a->operand));
  SN_TRY(sn_tx_need(p, ',', "after an operand number"));
  SN_TRY(sn_tx_ints(p, '{', '}', &a->operand_index));
  if (io && sn_tx_accept(p, ',')) {
    a->must = sn_tx_accept_word(p, "must-alias");
    if (!a->must && !sn_tx_accept_word(p, "may-alias")) return sn_tx_expected(p, "may-alias or must-alias");
  }
  return sn_tx_need(p, ')', "after an aliased operand");
}

sn_status sn_tx_aliases(sn_tx *p, bool io, int64_t *n, const sn_alias **out) {
  uint32_t from = p->stack.n;
  *n = 0;
  *out = NULL;
  SN_TRY(sn_tx_need(p, '{', "before aliases"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  do {
    sn_alias *a = SN_NEW(p->outer, sn_alias);
    if (a == NULL) return sn_tx_memory(p);
    SN_TRY(alias_one(p, io, a));
    SN_TRY(sn_tx_push(p, a));
  } while (sn_tx_accept(p, ','));
  SN_TRY(sn_tx_need(p, '}', "after aliases"));
  uint32_t count = p->stack.n - from;
  sn_alias *v = SN_NEW_N(p->keep, sn_alias, count);
  if (v == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < count; i++) v[i] = *(const sn_alias *)p->stack.v[from + i];
  p->stack.n = from;
  *n = count;
  *out = v;
  return SN_OK;
}

static sn_status attr_aliases(sn_tx *p, sn_attr *a) { return sn_tx_aliases(p, false, &a->u.aliases.n, &a->u.aliases.v); }

/* ---- text, shapes, literals --------------------------------------------------------------------------------------------------------- */

static sn_status attr_string(sn_tx *p, sn_attr *a) { return sn_tx_string(p, p->keep, &a->u.str.s, &a->u.str.n); }

static sn_status attr_raw(sn_tx *p, sn_attr *a) {
  sn_span s;
  SN_TRY(sn_tx_raw(p, &s));
  a->u.str.n = s.n;
  a->u.str.s = sn_arena_string_n(p->keep, s.s, s.n);
  return a->u.str.s != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status attr_shape(sn_tx *p, sn_attr *a) { return sn_tx_shape(p, &a->u.shape); }

static sn_status attr_shapes(sn_tx *p, sn_attr *a) {
  uint32_t from = p->stack.n;
  SN_TRY(sn_tx_need(p, '{', "before shapes"));
  if (sn_tx_peek(p) != '}') {
    do {
      const sn_shape *s = NULL;
      SN_TRY(sn_tx_shape(p, &s));
      SN_TRY(sn_tx_push(p, (void *)(uintptr_t)s));
    } while (sn_tx_accept(p, ','));
  }
  uint32_t n = p->stack.n - from;
  const sn_shape **v = sn_arena_alloc(p->keep, n * sizeof *v);
  if (v == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < n; i++) v[i] = p->stack.v[from + i];
  p->stack.n = from;
  a->u.shapes.n = n;
  a->u.shapes.v = v;
  return sn_tx_need(p, '}', "after shapes");
}

/* shape literal. The caller owns the array. */
static sn_status attr_literal(sn_tx *p, sn_attr *a) {
  const sn_shape *s = NULL;
  a->u.literal = NULL;
  SN_TRY(sn_tx_shape(p, &s));
  return sn_tx_literal(p, s, &a->u.literal);
}

/* ---- called computations -------------------------------------------------------------------------------------------------------------- */

static sn_status attr_comp(sn_tx *p, sn_attr *a) {
  sn_computation *c = NULL;
  (void)a;
  SN_TRY(sn_tx_computation_ref(p, &c));
  return sn_tx_push(p, c);
}

/* {%a, %b} or a single one; `{` may also open a computation written in place, which begins with `name =` or ROOT. */
static sn_status attr_comps(sn_tx *p, sn_attr *a) {
  if (sn_tx_peek(p) != '{') return attr_comp(p, a);
  p->at++;
  if (sn_tx_accept(p, '}')) return SN_OK;
  do {
    SN_TRY(attr_comp(p, a));
  } while (sn_tx_accept(p, ','));
  return sn_tx_need(p, '}', "after called computations");
}

static const attr_fn attr_fns[] = {
    [SN_KIND_BOOL] = attr_bool,           [SN_KIND_INT] = attr_int,         [SN_KIND_F64] = attr_f64,
    [SN_KIND_ENUM] = attr_enum,           [SN_KIND_INTS] = attr_ints,       [SN_KIND_ENUMS] = attr_enums,
    [SN_KIND_SLICES] = attr_slices,       [SN_KIND_PADDING] = attr_padding, [SN_KIND_PAIRS] = attr_pairs,
    [SN_KIND_NESTED_INTS] = attr_nested,  [SN_KIND_WINDOW] = attr_window,   [SN_KIND_CONV_DIMS] = attr_conv_dims,
    [SN_KIND_GROUPS] = attr_groups,       [SN_KIND_ALIASES] = attr_aliases, [SN_KIND_STRING] = attr_string,
    [SN_KIND_RAW] = attr_raw,             [SN_KIND_SHAPE] = attr_shape,     [SN_KIND_SHAPES] = attr_shapes,
    [SN_KIND_LITERAL] = attr_literal,     [SN_KIND_COMP] = attr_comp,       [SN_KIND_COMPS] = attr_comps,
};

sn_status sn_tx_attr_value(sn_tx *p, sn_attr_id id, sn_attr *out) {
  out->id = id;
  return attr_fns[sn_attrs[id].kind](p, out);
}
