/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "trees.h"

#include <inttypes.h>
#include <string.h>

typedef struct trees {
  sn_arena *a;
  sn_str *to;
  const char *function, *op;
  uint32_t *ids; /* of a value of `want`: the id in `got`, + 1 */
} trees;

static bool differ(const trees *t, const char *what, const char *name) {
  sn_str_printf(t->to, "@%s, %s: %s %s", t->function, t->op, what, name);
  return false;
}

/* ---- attributes ---- */

static bool attrs_agree(trees *t, const sn_mlir_attr *w, const sn_mlir_attr *g);

static bool dense_agree(const sn_mlir_attr *w, const sn_mlir_attr *g) {
  if (!sn_mlir_type_equal(w->type, g->type)) return false;
  size_t each = sn_type_bytes(sn_array_shape(w->dense)->type);
  int64_t n = 1;
  for (int i = 0; i < w->type->rank; i++) n *= w->type->dims[i];
  if (w->splat && g->splat) n = 1;
  const char *a = sn_array_data(w->dense), *b = sn_array_data(g->dense);
  for (int64_t i = 0; i < n; i++)
    if (memcmp(a + (w->splat ? 0 : (size_t)i * each), b + (g->splat ? 0 : (size_t)i * each), each) != 0) return false;
  return true;
}

static bool members_agree(trees *t, const sn_mlir_attr *w, const sn_mlir_attr *g) {
  for (int64_t i = 0; i < w->n; i++) {
    const sn_mlir_attr *other = sn_mlir_member(g, w->members[i].name);
    if (other == NULL || !attrs_agree(t, w->members[i].attr, other)) return false;
  }
  return true;
}

static bool items_agree(trees *t, const sn_mlir_attr *w, const sn_mlir_attr *g) {
  if (w->n != g->n) return false;
  for (int64_t i = 0; i < w->n; i++)
    if (!attrs_agree(t, w->items[i], g->items[i])) return false;
  return true;
}

static bool ints_agree(trees *t, const sn_mlir_attr *w, const sn_mlir_attr *g, bool *are_ints) {
  int64_t n = 0, m = 0;
  const int64_t *a = NULL, *b = NULL;
  *are_ints = sn_mlir_ints(t->a, w, &n, &a) && sn_mlir_ints(t->a, g, &m, &b);
  return *are_ints && n == m && (n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

static bool is_text(const sn_mlir_attr *a) { return a->kind == SN_MA_STRING || a->kind == SN_MA_SYMBOL || a->kind == SN_MA_ENUM || a->kind == SN_MA_OPAQUE; }
static bool is_number(const sn_mlir_attr *a) { return a->kind == SN_MA_INT || a->kind == SN_MA_BOOL || a->kind == SN_MA_UNIT; }
static int64_t number(const sn_mlir_attr *a) { return a->kind == SN_MA_UNIT ? 1 : a->i; }

static bool attrs_agree(trees *t, const sn_mlir_attr *w, const sn_mlir_attr *g) {
  bool are_ints = false;
  if (w->kind == SN_MA_DENSE && g->kind == SN_MA_DENSE) return dense_agree(w, g);
  if (w->kind == SN_MA_ARRAY && g->kind == SN_MA_ARRAY && w->n == 0 && g->n == 0) return true;
  if (ints_agree(t, w, g, &are_ints)) return true;
  if (are_ints) return false;
  if (is_number(w) && is_number(g)) return number(w) == number(g);
  if (w->kind == SN_MA_OPAQUE && g->kind == SN_MA_OPAQUE && g->s != NULL && strstr(g->s, "<...>") != NULL) return true; /* that there is one is all we read */
  if (is_text(w) && is_text(g)) return w->n == g->n && memcmp(w->s, g->s, (size_t)w->n) == 0;
  if (w->kind == SN_MA_ENUM && strncmp(w->s, "API_VERSION", 11) == 0) return is_number(g); /* a word for a number */
  if (w->kind != g->kind) return false;
  switch (w->kind) {
    case SN_MA_FLOAT: return memcmp(&w->f, &g->f, sizeof w->f) == 0 || (float)w->f == (float)g->f; /* text rounds once more than bits */
    case SN_MA_TYPE: return sn_mlir_type_equal(w->type, g->type);
    case SN_MA_ARRAY: return items_agree(t, w, g);
    case SN_MA_DICT:
    case SN_MA_STRUCT: return members_agree(t, w, g);
    default: return false;
  }
}

/* Members of a STRUCT may stand flat in the other tree. */
static bool attr_agrees(trees *t, const char *name, const sn_mlir_attr *w, const sn_mlir_op *got) {
  const sn_mlir_attr *g = sn_mlir_find(got, name);
  if (g != NULL && (w->kind != SN_MA_STRUCT || g->kind == SN_MA_STRUCT)) return attrs_agree(t, w, g) ? true : differ(t, "another value of", name);
  if (w->kind == SN_MA_STRUCT) {
    for (int64_t i = 0; i < w->n; i++)
      if (!attr_agrees(t, w->members[i].name, w->members[i].attr, got)) return false;
    return true;
  }
  if (w->kind == SN_MA_TYPE && w->type->kind == SN_MT_NONE) return true;
  if (strcmp(name, "channel_type") == 0) return true; /* VHLO keeps it for send and recv only */
  return differ(t, "no attribute", name);
}

/* ---- ops ---- */

static bool region_agrees(trees *t, const sn_mlir_region *w, const sn_mlir_region *g);

static bool value_agrees(trees *t, const sn_mlir_value *w, const sn_mlir_value *g) {
  t->ids[w->id] = g->id + 1;
  return sn_mlir_type_equal(w->type, g->type) ? true : differ(t, "another type:", sn_mlir_type_text(t->a, g->type));
}

static bool debug_agrees(trees *t, const sn_mlir_debug *w, const sn_mlir_debug *g) {
  if (w == NULL || g == NULL) return true; /* one of the files has no locations */
  if ((w->name == NULL) != (g->name == NULL) || (w->name != NULL && strcmp(w->name, g->name) != 0)) return differ(t, "another name:", g->name != NULL ? g->name : "none");
  if ((w->file == NULL) != (g->file == NULL) || (w->file != NULL && strcmp(w->file, g->file) != 0)) return differ(t, "another file:", g->file != NULL ? g->file : "none");
  return w->line == g->line && w->col == g->col && w->end_line == g->end_line && w->end_col == g->end_col ? true : differ(t, "another place in", g->file);
}

static bool op_agrees(trees *t, const sn_mlir_op *w, const sn_mlir_op *g) {
  t->op = w->name;
  if (strcmp(w->name, g->name) != 0) return differ(t, "another op:", g->name);
  if (w->n_operands != g->n_operands || w->n_results != g->n_results || w->n_regions != g->n_regions) return differ(t, "another number of", "operands, results or regions");
  for (uint32_t i = 0; i < w->n_operands; i++)
    if (t->ids[w->operands[i]->id] != g->operands[i]->id + 1) return differ(t, "another operand", "");
  for (uint32_t i = 0; i < w->n_attrs; i++)
    if (!attr_agrees(t, w->attrs[i].name, w->attrs[i].attr, g)) return false;
  for (uint32_t i = 0; i < w->n_regions; i++)
    if (!region_agrees(t, &w->regions[i], &g->regions[i])) return false;
  t->op = w->name;
  for (uint32_t i = 0; i < w->n_results; i++)
    if (!value_agrees(t, &w->results[i], &g->results[i])) return false;
  return debug_agrees(t, w->debug, g->debug);
}

static bool ops_agree(trees *t, const sn_mlir_op *w, const sn_mlir_op *g) {
  for (; w != NULL && g != NULL; w = w->next, g = g->next) {
    if (w->block->region == NULL) t->function = sn_mlir_string(w, "sym_name") != NULL ? sn_mlir_string(w, "sym_name") : "";
    if (!op_agrees(t, w, g)) return false;
  }
  return w == g ? true : differ(t, "another number of", "ops");
}

static bool region_agrees(trees *t, const sn_mlir_region *w, const sn_mlir_region *g) {
  const sn_mlir_block *b = w->first, *c = g->first;
  for (; b != NULL && c != NULL; b = b->next, c = c->next) {
    if (b->n_args != c->n_args) return differ(t, "another number of", "arguments");
    for (uint32_t i = 0; i < b->n_args; i++)
      if (!value_agrees(t, &b->args[i], &c->args[i])) return false;
    if (!ops_agree(t, b->first, c->first)) return false;
  }
  /* In text, an empty block and none are the same. */
  return (b == NULL || b->first == NULL) && (c == NULL || c->first == NULL) ? true : differ(t, "another number of", "blocks");
}

bool trees_agree(const sn_mlir *want, const sn_mlir *got, sn_str *difference) {
  trees t = {.to = difference, .function = "", .op = "module"};
  if (sn_arena_create(&t.a) != SN_OK) return false;
  t.ids = SN_NEW_N(t.a, uint32_t, (size_t)want->n_values + 1);
  sn_mlir_op module = {.name = "module", .n_attrs = got->n_attrs, .attrs = got->attrs};
  bool same = t.ids != NULL;
  for (uint32_t i = 0; same && i < want->n_attrs; i++) same = attr_agrees(&t, want->attrs[i].name, want->attrs[i].attr, &module);
  if (same && want->name != NULL && (got->name == NULL || strcmp(want->name, got->name) != 0)) same = differ(&t, "another name", "");
  same = same && ops_agree(&t, want->top.first, got->top.first);
  sn_arena_destroy(t.a);
  return same;
}
