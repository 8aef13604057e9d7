/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes as values: copies, equality, hashes, defaults; all by kind, never by op. */
#include "ir_internal.h"

#include <string.h>

sn_attr sn_attr_string(sn_attr_id id, const char *s) {
  sn_attr a;
  a.id = id;
  a.u.str.s = s;
  a.u.str.n = strlen(s);
  return a;
}

sn_ints sn_ints_copy(sn_arena *a, sn_ints v, bool *ok) {
  sn_ints out = {v.n, NULL};
  if (v.n == 0) return out;
  out.v = sn_arena_copy(a, v.v, (size_t)v.n * sizeof(int64_t));
  if (!out.v) *ok = false;
  return out;
}

const sn_alias *sn_aliases_copy(sn_arena *a, int64_t n, const sn_alias *from, bool *ok) {
  if (n == 0) return NULL;
  sn_alias *to = SN_NEW_N(a, sn_alias, n);
  if (!to) {
    *ok = false;
    return NULL;
  }
  for (int64_t i = 0; i < n; i++) {
    to[i] = from[i];
    to[i].output_index = sn_ints_copy(a, from[i].output_index, ok);
    to[i].operand_index = sn_ints_copy(a, from[i].operand_index, ok);
  }
  return to;
}

static const sn_ints *nested_copy(sn_arena *a, int64_t n, const sn_ints *from, bool *ok) {
  if (n == 0) return NULL;
  sn_ints *to = SN_NEW_N(a, sn_ints, n);
  if (!to) {
    *ok = false;
    return NULL;
  }
  for (int64_t i = 0; i < n; i++) to[i] = sn_ints_copy(a, from[i], ok);
  return to;
}

static const sn_window *window_copy(sn_arena *a, const sn_window *w) {
  sn_window *to = sn_arena_copy(a, w, sizeof *w);
  if (!to) return NULL;
  to->dims = sn_arena_copy(a, w->dims, (size_t)w->rank * sizeof(sn_window_dim));
  return to->dims ? to : NULL;
}

static const sn_conv_dims *conv_copy(sn_arena *a, const sn_conv_dims *c) {
  sn_conv_dims *to = sn_arena_copy(a, c, sizeof *c);
  size_t bytes = (size_t)c->n_spatial * sizeof(int64_t);
  if (!to) return NULL;
  to->input_spatial = sn_arena_copy(a, c->input_spatial, bytes);
  to->kernel_spatial = sn_arena_copy(a, c->kernel_spatial, bytes);
  to->output_spatial = sn_arena_copy(a, c->output_spatial, bytes);
  return to->input_spatial && to->kernel_spatial && to->output_spatial ? to : NULL;
}

static const sn_groups *groups_copy(sn_arena *a, const sn_groups *g) {
  bool ok = true;
  sn_groups *to = sn_arena_copy(a, g, sizeof *g);
  if (!to) return NULL;
  to->groups = nested_copy(a, g->n_groups, g->groups, &ok);
  to->iota_dims = sn_ints_copy(a, g->iota_dims, &ok);
  to->reshape_dims = sn_ints_copy(a, g->reshape_dims, &ok);
  to->transpose = sn_ints_copy(a, g->transpose, &ok);
  to->mesh = sn_arena_string(a, g->mesh);
  return ok && (!g->mesh || to->mesh) ? to : NULL;
}

static bool shapes_copy(sn_arena *a, const sn_attr *from, sn_attr *to) {
  const sn_shape **v = SN_NEW_N(a, const sn_shape *, from->u.shapes.n + 1);
  if (!v) return false;
  for (int64_t i = 0; i < from->u.shapes.n; i++) {
    if (!(v[i] = sn_shape_clone(a, from->u.shapes.v[i]))) return false;
  }
  to->u.shapes.v = v;
  return true;
}

bool sn_attr_copy(sn_module *m, const sn_attr *from, sn_attr *to) {
  sn_arena *a = m->arena;
  bool ok = true;
  *to = *from;
  switch (sn_attrs[from->id].kind) {
    case SN_KIND_BOOL:
    case SN_KIND_INT:
    case SN_KIND_F64:
    case SN_KIND_ENUM:
    case SN_KIND_COMP:
    case SN_KIND_COMPS: return true;
    case SN_KIND_INTS:
    case SN_KIND_ENUMS:
    case SN_KIND_SLICES:
    case SN_KIND_PADDING:
    case SN_KIND_PAIRS: to->u.ints = sn_ints_copy(a, from->u.ints, &ok); return ok;
    case SN_KIND_NESTED_INTS: to->u.nested.v = nested_copy(a, from->u.nested.n, from->u.nested.v, &ok); return ok;
    case SN_KIND_WINDOW: return (to->u.window = window_copy(a, from->u.window)) != NULL;
    case SN_KIND_CONV_DIMS: return (to->u.conv = conv_copy(a, from->u.conv)) != NULL;
    case SN_KIND_GROUPS: return (to->u.groups = groups_copy(a, from->u.groups)) != NULL;
    case SN_KIND_ALIASES: to->u.aliases.v = sn_aliases_copy(a, from->u.aliases.n, from->u.aliases.v, &ok); return ok;
    case SN_KIND_STRING:
    case SN_KIND_RAW: return (to->u.str.s = sn_arena_string_n(a, from->u.str.s, from->u.str.n)) != NULL;
    case SN_KIND_SHAPE: return (to->u.shape = sn_shape_clone(a, from->u.shape)) != NULL;
    case SN_KIND_SHAPES: return shapes_copy(a, from, to);
    case SN_KIND_LITERAL: return !from->u.literal || sn_module_keep(m, from->u.literal) == SN_OK;
  }
  return false;
}

static bool all_zero(sn_ints v) {
  for (int64_t i = 0; i < v.n; i++) {
    if (v.v[i] != 0) return false;
  }
  return true;
}

bool sn_attr_is_default(const sn_attr *a) {
  const sn_attr_info *info = &sn_attrs[a->id];
  switch (info->kind) {
    case SN_KIND_BOOL:
    case SN_KIND_INT:
    case SN_KIND_ENUM: return info->dflt != SN_REQUIRED && info->dflt != SN_OPTIONAL && a->u.i == info->dflt;
    case SN_KIND_INTS: return info->dflt == 0 && a->u.ints.n == 0;
    case SN_KIND_ENUMS: return all_zero(a->u.ints);
    case SN_KIND_ALIASES: return a->u.aliases.n == 0;
    case SN_KIND_NESTED_INTS: return a->u.nested.n == 0;
    case SN_KIND_WINDOW: return !a->u.window || (a->u.window->rank == 0 && info->dflt == SN_OPTIONAL);
    default: return false;
  }
}

static bool ints_equal(sn_ints a, sn_ints b) { return a.n == b.n && (a.n == 0 || memcmp(a.v, b.v, (size_t)a.n * sizeof(int64_t)) == 0); }

static bool nested_equal(int64_t na, const sn_ints *a, int64_t nb, const sn_ints *b) {
  if (na != nb) return false;
  for (int64_t i = 0; i < na; i++) {
    if (!ints_equal(a[i], b[i])) return false;
  }
  return true;
}

static bool window_equal(const sn_window *a, const sn_window *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++) {
    const sn_window_dim *x = &a->dims[i], *y = &b->dims[i];
    if (x->size != y->size || x->stride != y->stride || x->pad_low != y->pad_low || x->pad_high != y->pad_high || x->lhs_dilate != y->lhs_dilate ||
        x->rhs_dilate != y->rhs_dilate || x->reversal != y->reversal) {
      return false;
    }
  }
  return true;
}

static bool conv_equal(const sn_conv_dims *a, const sn_conv_dims *b) {
  size_t bytes = (size_t)a->n_spatial * sizeof(int64_t);
  return a->n_spatial == b->n_spatial && a->input_batch == b->input_batch && a->input_feature == b->input_feature &&
         a->kernel_input_feature == b->kernel_input_feature && a->kernel_output_feature == b->kernel_output_feature &&
         a->output_batch == b->output_batch && a->output_feature == b->output_feature &&
         memcmp(a->input_spatial, b->input_spatial, bytes) == 0 && memcmp(a->kernel_spatial, b->kernel_spatial, bytes) == 0 &&
         memcmp(a->output_spatial, b->output_spatial, bytes) == 0;
}

static bool aliases_equal(const sn_attr *a, const sn_attr *b) {
  if (a->u.aliases.n != b->u.aliases.n) return false;
  for (int64_t i = 0; i < a->u.aliases.n; i++) {
    const sn_alias *x = &a->u.aliases.v[i], *y = &b->u.aliases.v[i];
    if (x->operand != y->operand || x->must != y->must || !ints_equal(x->output_index, y->output_index) ||
        !ints_equal(x->operand_index, y->operand_index)) {
      return false;
    }
  }
  return true;
}

static bool shapes_equal(const sn_attr *a, const sn_attr *b) {
  if (a->u.shapes.n != b->u.shapes.n) return false;
  for (int64_t i = 0; i < a->u.shapes.n; i++) {
    if (!sn_shape_equal(a->u.shapes.v[i], b->u.shapes.v[i], SN_EQ_LAYOUT)) return false;
  }
  return true;
}

static bool literal_equal(const sn_array *a, const sn_array *b) { return a == b || (a && b && sn_array_equal(a, b)); }

bool sn_attr_equal(const sn_attr *a, const sn_attr *b) {
  if (a->id != b->id) return false;
  switch (sn_attrs[a->id].kind) {
    case SN_KIND_BOOL:
    case SN_KIND_INT:
    case SN_KIND_ENUM: return a->u.i == b->u.i;
    case SN_KIND_F64: return memcmp(&a->u.f, &b->u.f, sizeof a->u.f) == 0;
    case SN_KIND_INTS:
    case SN_KIND_ENUMS:
    case SN_KIND_SLICES:
    case SN_KIND_PADDING:
    case SN_KIND_PAIRS: return ints_equal(a->u.ints, b->u.ints);
    case SN_KIND_NESTED_INTS: return nested_equal(a->u.nested.n, a->u.nested.v, b->u.nested.n, b->u.nested.v);
    case SN_KIND_WINDOW: return window_equal(a->u.window, b->u.window);
    case SN_KIND_CONV_DIMS: return conv_equal(a->u.conv, b->u.conv);
    case SN_KIND_GROUPS: return nested_equal(a->u.groups->n_groups, a->u.groups->groups, b->u.groups->n_groups, b->u.groups->groups);
    case SN_KIND_ALIASES: return aliases_equal(a, b);
    case SN_KIND_STRING:
    case SN_KIND_RAW: return a->u.str.n == b->u.str.n && memcmp(a->u.str.s, b->u.str.s, a->u.str.n) == 0;
    case SN_KIND_SHAPE: return sn_shape_equal(a->u.shape, b->u.shape, SN_EQ_LAYOUT);
    case SN_KIND_SHAPES: return shapes_equal(a, b);
    case SN_KIND_LITERAL: return literal_equal(a->u.literal, b->u.literal);
    case SN_KIND_COMP:
    case SN_KIND_COMPS: return true;
  }
  return false;
}

static uint64_t ints_hash(sn_ints v, uint64_t h) {
  h = sn_hash_mix(h, (uint64_t)v.n);
  for (int64_t i = 0; i < v.n; i++) h = sn_hash_mix(h, (uint64_t)v.v[i]);
  return h;
}

uint64_t sn_attr_hash(const sn_attr *a, uint64_t seed) {
  uint64_t h = sn_hash_mix(seed, (uint64_t)a->id);
  switch (sn_attrs[a->id].kind) {
    case SN_KIND_BOOL:
    case SN_KIND_INT:
    case SN_KIND_ENUM: return sn_hash_mix(h, (uint64_t)a->u.i);
    case SN_KIND_F64: return sn_hash(&a->u.f, sizeof a->u.f, h);
    case SN_KIND_INTS:
    case SN_KIND_ENUMS:
    case SN_KIND_SLICES:
    case SN_KIND_PADDING:
    case SN_KIND_PAIRS: return ints_hash(a->u.ints, h);
    case SN_KIND_NESTED_INTS:
      for (int64_t i = 0; i < a->u.nested.n; i++) h = ints_hash(a->u.nested.v[i], h);
      return h;
    case SN_KIND_WINDOW:
      for (int i = 0; i < a->u.window->rank; i++) {
        const sn_window_dim *w = &a->u.window->dims[i];
        h = sn_hash_mix(sn_hash_mix(sn_hash_mix(h, (uint64_t)w->size), (uint64_t)w->stride), (uint64_t)w->pad_low);
      }
      return h;
    case SN_KIND_CONV_DIMS: return sn_hash_mix(sn_hash_mix(h, (uint64_t)a->u.conv->input_batch), (uint64_t)a->u.conv->input_feature);
    case SN_KIND_GROUPS:
      for (int64_t i = 0; i < a->u.groups->n_groups; i++) h = ints_hash(a->u.groups->groups[i], h);
      return h;
    case SN_KIND_ALIASES: return sn_hash_mix(h, (uint64_t)a->u.aliases.n);
    case SN_KIND_STRING:
    case SN_KIND_RAW: return sn_hash(a->u.str.s, a->u.str.n, h);
    case SN_KIND_SHAPE: return sn_shape_hash(a->u.shape, h);
    case SN_KIND_SHAPES: return sn_hash_mix(h, (uint64_t)a->u.shapes.n);
    case SN_KIND_LITERAL: return a->u.literal ? sn_array_hash(a->u.literal, h) : h;
    case SN_KIND_COMP:
    case SN_KIND_COMPS: return h;
  }
  return h;
}
