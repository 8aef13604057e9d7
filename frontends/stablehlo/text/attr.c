/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes: numbers, strings, symbols, lists, dictionaries, array<…>, dense<…>, #stablehlo.name<…>, aliases, types. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

static sn_mlir_attr *attr_new(sn_mx *p, sn_mlir_attr_kind kind) { return sn_mlir_attr_new(p->m, kind); }

static sn_status done(sn_mx *p, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  return a != NULL ? SN_OK : sn_mx_memory(p);
}

/* ---- dictionaries ---- */

sn_status sn_mx_attrs_add(sn_mx *p, sn_mx_attrs *a, const char *name, const sn_mlir_attr *attr) {
  if (attr == NULL || name == NULL) return sn_mx_memory(p);
  if (a->n == a->cap) {
    uint32_t cap = a->cap ? a->cap * 2 : 4;
    sn_mlir_named *v = SN_NEW_N(p->m->arena, sn_mlir_named, cap);
    if (v == NULL) return sn_mx_memory(p);
    for (uint32_t i = 0; i < a->n; i++) v[i] = a->v[i];
    a->v = v;
    a->cap = cap;
  }
  a->v[a->n++] = (sn_mlir_named){name, attr};
  return SN_OK;
}

static sn_status dict_member(sn_mx *p, sn_mx_attrs *a) {
  const char *name = NULL;
  const sn_mlir_attr *value = NULL;
  if (sn_mx_peek(p) == '"') {
    SN_TRY(sn_mx_string(p, &name, NULL));
  } else {
    sn_mx_span w;
    SN_TRY(sn_mx_word(p, "an attribute's name", &w));
    if ((name = sn_mx_copy(p, w)) == NULL) return sn_mx_memory(p);
  }
  if (sn_mx_accept(p, '=')) SN_TRY(sn_mx_attr(p, &value));
  else value = attr_new(p, SN_MA_UNIT);
  return sn_mx_attrs_add(p, a, name, value);
}

sn_status sn_mx_dict(sn_mx *p, sn_mx_attrs *a) {
  SN_TRY(sn_mx_need(p, '{', "before attributes"));
  if (sn_mx_accept(p, '}')) return SN_OK;
  do {
    SN_TRY(dict_member(p, a));
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, '}', "after attributes");
}

static sn_status dict(sn_mx *p, const sn_mlir_attr **out) {
  sn_mx_attrs a = {0};
  sn_mlir_attr *d = attr_new(p, SN_MA_DICT);
  SN_TRY(sn_mx_dict(p, &a));
  if (d != NULL) {
    d->members = a.v;
    d->n = a.n;
  }
  return done(p, d, out);
}

/* ---- lists ---- */

static sn_status array(sn_mx *p, const sn_mlir_attr **out) {
  sn_mlir_attr *a = attr_new(p, SN_MA_ARRAY);
  sn_mx_attrs items = {0}; /* names unused: the same growth serves */
  if (a == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_need(p, '[', "before a list"));
  if (!sn_mx_accept(p, ']')) {
    do {
      const sn_mlir_attr *item = NULL;
      SN_TRY(sn_mx_attr(p, &item));
      SN_TRY(sn_mx_attrs_add(p, &items, "", item));
    } while (sn_mx_accept(p, ','));
    SN_TRY(sn_mx_need(p, ']', "after a list"));
  }
  const sn_mlir_attr **v = SN_NEW_N(p->m->arena, const sn_mlir_attr *, items.n + 1);
  if (v == NULL) return sn_mx_memory(p);
  for (uint32_t i = 0; i < items.n; i++) v[i] = items.v[i].attr;
  a->items = v;
  a->n = items.n;
  *out = a;
  return SN_OK;
}

typedef struct int_list {
  int64_t *v;
  int64_t n, cap;
} int_list;

static sn_status int_add(sn_mx *p, int_list *l, int64_t v) {
  if (l->n == l->cap) {
    int64_t cap = l->cap ? l->cap * 2 : 8, *to = SN_NEW_N(p->m->arena, int64_t, cap);
    if (to == NULL) return sn_mx_memory(p);
    if (l->n != 0) memcpy(to, l->v, (size_t)l->n * sizeof *to);
    l->v = to;
    l->cap = cap;
  }
  l->v[l->n++] = v;
  return SN_OK;
}

static sn_status ints_until(sn_mx *p, char close, const sn_mlir_attr **out) {
  int_list l = {0};
  sn_mlir_attr *a = attr_new(p, SN_MA_INTS);
  if (a == NULL) return sn_mx_memory(p);
  if (!sn_mx_accept(p, close)) {
    do {
      int64_t v = 0;
      if (sn_mx_accept_word(p, "true")) v = 1;
      else if (!sn_mx_accept_word(p, "false")) SN_TRY(sn_mx_int(p, "an integer", &v));
      SN_TRY(int_add(p, &l, v));
    } while (sn_mx_accept(p, ','));
    SN_TRY(sn_mx_need(p, close, "after a list of integers"));
  }
  a->ints = l.v;
  a->n = l.n;
  *out = a;
  return SN_OK;
}

sn_status sn_mx_int_list(sn_mx *p, const sn_mlir_attr **out) {
  SN_TRY(sn_mx_need(p, '[', "before a list of integers"));
  return ints_until(p, ']', out);
}

/* Behind `array`: <i64: 1, 2>; of floats: an ARRAY. */
static sn_status typed_array(sn_mx *p, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_mx_need(p, '<', "after array"));
  SN_TRY(sn_mx_type(p, &t));
  if (t->kind != SN_MT_SCALAR) return sn_mx_fail(p, p->at, SN_ERR_TYPE, "expected an integer or float type in array<…>, found %s", sn_mlir_type_text(p->m->arena, t));
  bool colon = sn_mx_accept(p, ':');
  if (!sn_type_is_float(t->scalar)) {
    if (!colon && sn_mx_peek(p) != '>') return sn_mx_expected(p, "`:` after the type of array<…>");
    return ints_until(p, '>', out);
  }
  sn_mlir_attr *a = attr_new(p, SN_MA_OPAQUE);
  sn_mx_span body;
  SN_TRY(sn_mx_balanced(p, &body));
  if (a != NULL) a->s = sn_mx_copy(p, body);
  return done(p, a, out);
}

/* ---- numbers ---- */

/* `: i32` behind a number. In `iota dim = 0 : tensor<4xi32>` the types of the op follow, which no number has. */
static sn_status typed(sn_mx *p, sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  if (sn_mx_peek(p) != ':' || p->at[1] == ':') return SN_OK;
  const char *colon = p->at++;
  char c = sn_mx_peek(p);
  if (c == '(' || c == '!' || sn_mx_at_word(p, "tensor") || sn_mx_at_word(p, "tuple") || sn_mx_at_word(p, "memref")) {
    p->at = colon;
    return SN_OK;
  }
  return sn_mx_type(p, &a->type);
}

static bool is_float_text(const char *c) {
  if (*c == '-') c++;
  if (c[0] == '0' && c[1] == 'x') return false;
  while (sn_mx_is_digit(*c)) c++;
  return *c == '.' || ((*c == 'e' || *c == 'E') && (sn_mx_is_digit(c[1]) || c[1] == '-' || c[1] == '+'));
}

static sn_status number(sn_mx *p, const sn_mlir_attr **out) {
  if (is_float_text(p->at)) {
    sn_mlir_attr *a = attr_new(p, SN_MA_FLOAT);
    char *end = NULL;
    if (a == NULL) return sn_mx_memory(p);
    a->f = strtod(p->at, &end);
    p->at = end;
    SN_TRY(typed(p, a, out));
    sn_type t = a->type != NULL && a->type->kind == SN_MT_SCALAR ? a->type->scalar : SN_TYPE_INVALID;
    uint8_t bytes[8];
    if (t == SN_TYPE_INVALID || !sn_type_is_float(t)) return SN_OK;
    sn_store_f64(t, bytes, a->f); /* as its type holds it */
    a->f = sn_load_f64(t, bytes);
    return SN_OK;
  }
  sn_mlir_attr *a = attr_new(p, SN_MA_INT);
  if (a == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_int(p, "a number", &a->i));
  SN_TRY(typed(p, a, out));
  sn_type t = a->type != NULL && a->type->kind == SN_MT_SCALAR ? a->type->scalar : SN_TYPE_INVALID;
  if (t == SN_TYPE_INVALID || !sn_type_is_float(t)) return SN_OK;
  /* Hexadecimal bits of a float. */
  uint8_t bytes[8];
  for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)((uint64_t)a->i >> (8 * i));
  a->kind = SN_MA_FLOAT;
  a->f = sn_load_f64(t, bytes);
  return SN_OK;
}

/* ---- dialect attributes ---- */

/* `[b, 0, f]`: positions of letters and of spatial dimensions. */
typedef struct labels {
  int64_t letter[2];
  int64_t spatial[SN_MAX_RANK];
  int n_spatial;
} labels;

static sn_status one_label_list(sn_mx *p, const char *letters, labels *l) {
  bool seen[SN_MAX_RANK] = {false};
  l->letter[0] = l->letter[1] = -1;
  l->n_spatial = 0;
  SN_TRY(sn_mx_need(p, '[', "before dimension labels"));
  for (int at = 0;; at++) {
    char c = sn_mx_peek(p);
    int64_t k = 0;
    const char *letter = c != '\0' ? strchr(letters, c) : NULL;
    if (at >= SN_MAX_RANK) return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d dimension labels", SN_MAX_RANK);
    if (letter != NULL) {
      if (l->letter[letter - letters] >= 0) return sn_mx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected the label `%c` once, found it twice", c);
      l->letter[letter - letters] = at;
      p->at++;
    } else if (c == '?') {
      p->at++;
    } else {
      char what[64];
      snprintf(what, sizeof what, "a dimension label: `%c`, `%c`, a number or `?`", letters[0], letters[1]);
      SN_TRY(sn_mx_int(p, what, &k));
      if (k < 0 || k >= SN_MAX_RANK || seen[k]) return sn_mx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected each spatial dimension once, found %" PRId64, k);
      seen[k] = true;
      l->spatial[k] = at;
      l->n_spatial++;
    }
    if (!sn_mx_accept(p, ',')) break;
  }
  for (int k = 0; k < l->n_spatial; k++)
    if (!seen[k]) return sn_mx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected the spatial dimensions 0…%d, found no %d", l->n_spatial - 1, k);
  for (int k = 0; k < 2; k++)
    if (l->letter[k] < 0) return sn_mx_fail(p, p->at, SN_ERR_ATTRIBUTE, "expected the label `%c`, found none", letters[k]);
  return sn_mx_need(p, ']', "after dimension labels");
}

static sn_status label_members(sn_mx *p, sn_mx_attrs *a, const labels *l, const char *first, const char *second, const char *spatial) {
  sn_mlir_attr *list = attr_new(p, SN_MA_INTS);
  if (list == NULL) return sn_mx_memory(p);
  list->n = l->n_spatial;
  list->ints = sn_arena_copy(p->m->arena, l->spatial, sizeof l->spatial);
  if (list->ints == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_attrs_add(p, a, first, sn_mlir_attr_int(p->m, l->letter[0])));
  SN_TRY(sn_mx_attrs_add(p, a, second, sn_mlir_attr_int(p->m, l->letter[1])));
  return sn_mx_attrs_add(p, a, spatial, list);
}

sn_status sn_mx_conv_labels(sn_mx *p, const sn_mlir_attr **out) {
  labels in, kernel, result;
  sn_mx_attrs a = {0};
  sn_mlir_attr *s = attr_new(p, SN_MA_STRUCT);
  SN_TRY(one_label_list(p, "bf", &in));
  if (!sn_mx_accept(p, 'x')) return sn_mx_expected(p, "`x` between the labels of input and kernel");
  SN_TRY(one_label_list(p, "io", &kernel));
  if (!sn_mx_accept_text(p, "->")) return sn_mx_expected(p, "`->` before the labels of the result");
  SN_TRY(one_label_list(p, "bf", &result));
  SN_TRY(label_members(p, &a, &in, "input_batch_dimension", "input_feature_dimension", "input_spatial_dimensions"));
  SN_TRY(label_members(p, &a, &kernel, "kernel_input_feature_dimension", "kernel_output_feature_dimension", "kernel_spatial_dimensions"));
  SN_TRY(label_members(p, &a, &result, "output_batch_dimension", "output_feature_dimension", "output_spatial_dimensions"));
  if (s != NULL) {
    s->name = "stablehlo.conv";
    s->members = a.v;
    s->n = a.n;
  }
  return done(p, s, out);
}

/* Members keep VHLO's names, which are those of flat attributes. */
static const char *member_name(const char *attr, const char *name) {
  if (strcmp(attr, "stablehlo.channel_handle") != 0) return name;
  if (strcmp(name, "handle") == 0) return "channel_id";
  return strcmp(name, "type") == 0 ? "channel_type" : name;
}

/* `key = value, …>` */
static sn_status members(sn_mx *p, const char *name, const sn_mlir_attr **out) {
  sn_mx_attrs a = {0}, renamed = {0};
  sn_mlir_attr *s = attr_new(p, SN_MA_STRUCT);
  if (s == NULL) return sn_mx_memory(p);
  if (sn_mx_peek(p) != '>') {
    do {
      if (sn_mx_peek(p) == '>') break; /* a trailing comma */
      SN_TRY(dict_member(p, &a));
    } while (sn_mx_accept(p, ','));
  }
  SN_TRY(sn_mx_need(p, '>', "after the members of an attribute"));
  for (uint32_t i = 0; i < a.n; i++) SN_TRY(sn_mx_attrs_add(p, &renamed, member_name(name, a.v[i].name), a.v[i].attr));
  s->name = name;
  s->members = renamed.v;
  s->n = renamed.n;
  *out = s;
  return SN_OK;
}

/* What the body of `#stablehlo.name<…>` looks like: members, or a word of an enumeration. */
static bool body_is_word(sn_mx *p) {
  const char *c = p->at;
  while (*c == ' ' || *c == '\n') c++;
  if (!sn_mx_is_letter(*c)) return false;
  while (sn_mx_is_word(*c)) c++;
  while (*c == ' ' || *c == '\n') c++;
  return *c == '>';
}

static sn_status enumeration(sn_mx *p, const char *name, const sn_mlir_attr **out) {
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "a word", &w));
  sn_mlir_attr *a = sn_mlir_attr_string(p->m, SN_MA_ENUM, w.s, w.n);
  if (a != NULL) a->name = name;
  SN_TRY(sn_mx_need(p, '>', "after an enumerated word"));
  return done(p, a, out);
}

static bool known_dialect(sn_mx_span w) {
  return (w.n > 10 && strncmp(w.s, "stablehlo.", 10) == 0) || (w.n > 5 && strncmp(w.s, "chlo.", 5) == 0) || (w.n > 5 && strncmp(w.s, "mhlo.", 5) == 0);
}

static sn_status opaque(sn_mx *p, const char *begin, sn_mx_span name, const sn_mlir_attr **out) {
  sn_mx_span body;
  if (*p->at == '<') {
    p->at++;
    SN_TRY(sn_mx_balanced(p, &body));
  }
  sn_mlir_attr *a = sn_mlir_attr_string(p->m, SN_MA_OPAQUE, begin, (size_t)(p->at - begin));
  if (a != NULL) a->name = sn_mx_copy(p, name);
  return done(p, a, out);
}

static sn_status attr_alias(sn_mx *p, const char *at, sn_mx_span w, const sn_mlir_attr **out) {
  uint64_t v = 0;
  if (sn_map_get(p->attr_aliases, w.s, w.n, &v)) {
    *out = (const sn_mlir_attr *)(uintptr_t)v;
    return SN_OK;
  }
  sn_status s = sn_mx_fail(p, at, SN_ERR_NAME, "the attribute alias #%.*s is not defined", (int)w.n, w.s);
  sn_hint(p->d, "an alias is a line `#%.*s = ATTRIBUTE` above its use", (int)w.n, w.s);
  return s;
}

/* At `#`: an alias, `#dialect.name<…>`, `#dialect<name WORD>`. */
static sn_status dialect_attr(sn_mx *p, const sn_mlir_attr **out) {
  const char *begin = p->at++;
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "an attribute's name behind `#`", &w));
  if (*p->at != '<') return memchr(w.s, '.', w.n) == NULL ? attr_alias(p, begin, w, out) : opaque(p, begin, w, out);
  bool short_form = sn_mx_is(w, "stablehlo") || sn_mx_is(w, "chlo") || sn_mx_is(w, "mhlo");
  if (!short_form && !known_dialect(w)) return opaque(p, begin, w, out);
  p->at++;
  const char *name = sn_mx_copy(p, w);
  if (short_form) {
    sn_mx_span domain;
    SN_TRY(sn_mx_word(p, "the name of an enumeration", &domain));
    name = sn_arena_printf(p->m->arena, "stablehlo.%.*s", (int)domain.n, domain.s);
    if (name == NULL) return sn_mx_memory(p);
    if (sn_mx_peek(p) != '<') return enumeration(p, name, out);
    p->at++; /* #stablehlo<conv[…]> does not occur; #chlo<name<…>> closes twice */
    SN_TRY(members(p, name, out));
    return sn_mx_need(p, '>', "after an attribute");
  }
  if (name == NULL) return sn_mx_memory(p);
  if (strcmp(name, "stablehlo.conv") == 0) {
    if (sn_mx_accept_word(p, "raw")) return members(p, name, out);
    SN_TRY(sn_mx_conv_labels(p, out));
    return sn_mx_need(p, '>', "after dimension numbers");
  }
  if (strcmp(name, "stablehlo.bounds") == 0) {
    p->at--;
    return opaque(p, begin, w, out);
  }
  return body_is_word(p) ? enumeration(p, name, out) : members(p, name, out);
}

/* ---- words ---- */

/* `affine_map<…>`, `strided<…>`, `loc(…)`, `unit`: carried, not understood. */
static sn_status bare(sn_mx *p, const sn_mlir_attr **out) {
  const char *begin = p->at;
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "an attribute", &w));
  if (sn_mx_is(w, "unit")) return done(p, attr_new(p, SN_MA_UNIT), out);
  sn_mx_span body;
  if (sn_mx_is(w, "dense_resource") || sn_mx_is(w, "sparse")) {
    sn_status s = sn_mx_fail(p, begin, SN_ERR_UNSUPPORTED, "`%.*s` values are not supported", (int)w.n, w.s);
    sn_hint(p->d, "write them as dense<…>, or as dense<\"0x…\"> with the bytes in hexadecimal");
    return s;
  }
  if (*p->at == '<' || *p->at == '(' || *p->at == '[') {
    p->at++;
    SN_TRY(sn_mx_balanced(p, &body));
    return done(p, sn_mlir_attr_string(p->m, SN_MA_OPAQUE, begin, (size_t)(p->at - begin)), out);
  }
  return done(p, sn_mlir_attr_string(p->m, SN_MA_ENUM, w.s, w.n), out);
}

static sn_status boolean(sn_mx *p, bool v, const sn_mlir_attr **out) {
  sn_mlir_attr *a = attr_new(p, SN_MA_BOOL);
  if (a != NULL) a->i = v;
  return done(p, a, out);
}

static sn_status string(sn_mx *p, const sn_mlir_attr **out) {
  sn_mlir_attr *a = attr_new(p, SN_MA_STRING);
  size_t n = 0;
  if (a == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_string(p, &a->s, &n));
  a->n = (int64_t)n;
  return typed(p, a, out);
}

static sn_status symbol(sn_mx *p, const sn_mlir_attr **out) {
  sn_mlir_attr *a = attr_new(p, SN_MA_SYMBOL);
  if (a == NULL) return sn_mx_memory(p);
  SN_TRY(sn_mx_symbol(p, &a->s));
  a->n = (int64_t)strlen(a->s);
  *out = a;
  return SN_OK;
}

static sn_status type_attr(sn_mx *p, const sn_mlir_attr **out) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_mx_type(p, &t));
  return done(p, sn_mlir_attr_type(p->m, t), out);
}

/* `(1)2`: a piece of a mesh axis, of size 2 behind pieces of size 1. */
static bool at_sub_axis(const sn_mx *p) { return p->at[0] == '(' && sn_mx_is_digit(p->at[1]); }

static sn_status sub_axis(sn_mx *p, const sn_mlir_attr **out) {
  int64_t v[2] = {0, 0};
  sn_mlir_attr *a = attr_new(p, SN_MA_INTS);
  p->at++;
  SN_TRY(sn_mx_int(p, "a size", &v[0]));
  SN_TRY(sn_mx_need(p, ')', "after the size in front of a piece of an axis"));
  SN_TRY(sn_mx_int(p, "a size", &v[1]));
  if (a == NULL || (a->ints = sn_arena_copy(p->m->arena, v, sizeof v)) == NULL) return sn_mx_memory(p);
  a->n = 2;
  *out = a;
  return SN_OK;
}

static sn_status any(sn_mx *p, const sn_mlir_attr **out) {
  switch (sn_mx_peek(p)) {
    case '(':
      if (at_sub_axis(p)) return sub_axis(p, out);
      break;
    case '"': return string(p, out);
    case '@': return symbol(p, out);
    case '[': return array(p, out);
    case '{': return dict(p, out);
    case '#': return dialect_attr(p, out);
    case '?': p->at++; return done(p, sn_mlir_attr_int(p->m, SN_DIM_UNBOUNDED), out);
    default: break;
  }
  if (*p->at == '-' || sn_mx_is_digit(*p->at)) return number(p, out);
  if (sn_mx_accept_word(p, "true")) return boolean(p, true, out);
  if (sn_mx_accept_word(p, "false")) return boolean(p, false, out);
  if (sn_mx_accept_word(p, "dense")) return sn_mx_dense(p, out);
  if (sn_mx_accept_word(p, "array")) return typed_array(p, out);
  return sn_mx_at_type(p) ? type_attr(p, out) : bare(p, out);
}

sn_status sn_mx_attr(sn_mx *p, const sn_mlir_attr **out) {
  *out = NULL;
  SN_TRY(sn_mx_enter(p));
  sn_status s = any(p, out);
  sn_mx_leave(p);
  return s;
}
