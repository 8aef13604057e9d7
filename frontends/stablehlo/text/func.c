/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Functions, the module around them, aliases, and the door of the text reader. */
#include <string.h>

#include "text.h"

/* ---- func.func ---- */

typedef struct signature {
  sn_mx_args args;         /* names empty in a declaration */
  sn_mx_args results;
  sn_mx_attrs arg_attrs, res_attrs; /* a DICT each; names unused */
  bool named;
} signature;

static sn_status attached(sn_mx *p, sn_mx_attrs *to) {
  sn_mx_attrs a = {0};
  sn_mlir_attr *dict = sn_mlir_attr_new(p->m, SN_MA_DICT);
  if (sn_mx_peek(p) == '{') SN_TRY(sn_mx_dict(p, &a));
  SN_TRY(sn_mx_trailing_loc(p, NULL));
  if (dict != NULL) {
    dict->members = a.v;
    dict->n = a.n;
  }
  return sn_mx_attrs_add(p, to, "", dict);
}

static sn_status argument(sn_mx *p, signature *s) {
  sn_mx_span name = {"", 0};
  const sn_mlir_type *t = NULL;
  if (sn_mx_peek(p) == '%') {
    SN_TRY(sn_mx_value_name(p, &name));
    SN_TRY(sn_mx_need(p, ':', "between an argument and its type"));
    s->named = true;
  }
  SN_TRY(sn_mx_type(p, &t));
  SN_TRY(sn_mx_args_add(p, &s->args, name, t));
  return attached(p, &s->arg_attrs);
}

static sn_status result(sn_mx *p, signature *s) {
  const sn_mlir_type *t = NULL;
  SN_TRY(sn_mx_type(p, &t));
  SN_TRY(sn_mx_args_add(p, &s->results, (sn_mx_span){"", 0}, t));
  return attached(p, &s->res_attrs);
}

static sn_status results(sn_mx *p, signature *s) {
  if (!sn_mx_accept_text(p, "->")) return SN_OK;
  if (!sn_mx_accept(p, '(')) {
    const sn_mlir_type *t = NULL;
    SN_TRY(sn_mx_type(p, &t));
    return sn_mx_args_add(p, &s->results, (sn_mx_span){"", 0}, t);
  }
  if (sn_mx_accept(p, ')')) return SN_OK;
  do {
    SN_TRY(result(p, s));
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, ')', "after the results of a function");
}

static sn_status header(sn_mx *p, signature *s) {
  SN_TRY(sn_mx_need(p, '(', "before the arguments of a function"));
  if (!sn_mx_accept(p, ')')) {
    do {
      SN_TRY(argument(p, s));
    } while (sn_mx_accept(p, ','));
    SN_TRY(sn_mx_need(p, ')', "after the arguments of a function"));
  }
  return results(p, s);
}

static sn_status add_dicts(sn_mx *p, sn_mx_op *o, const char *name, const sn_mx_attrs *dicts) {
  bool any = false;
  for (uint32_t i = 0; i < dicts->n; i++) any |= dicts->v[i].attr->n != 0;
  if (!any) return SN_OK;
  sn_mlir_attr *a = sn_mlir_attr_new(p->m, SN_MA_ARRAY);
  const sn_mlir_attr **v = SN_NEW_N(p->m->arena, const sn_mlir_attr *, dicts->n);
  if (a == NULL || v == NULL) return sn_mx_memory(p);
  for (uint32_t i = 0; i < dicts->n; i++) v[i] = dicts->v[i].attr;
  a->items = v;
  a->n = dicts->n;
  return sn_mx_attrs_add(p, &o->attrs, name, a);
}

static sn_status add_type(sn_mx *p, sn_mx_op *o, const signature *s) {
  sn_mlir_type *t = SN_NEW(p->m->arena, sn_mlir_type);
  if (t == NULL) return sn_mx_memory(p);
  t->kind = SN_MT_FUNCTION;
  t->scalar = SN_TYPE_INVALID;
  t->n_ins = s->args.n;
  t->ins = s->args.types;
  t->n_outs = s->results.n;
  t->outs = s->results.types;
  return sn_mx_attrs_add(p, &o->attrs, "function_type", sn_mlir_attr_type(p->m, t));
}

static sn_status body(sn_mx *p, sn_mx_op *o, const signature *s) {
  sn_mlir_region *r = NULL;
  SN_TRY(sn_mx_op_region(p, o, &r));
  if (sn_mx_peek(p) != '{') return SN_OK; /* a declaration */
  if (!s->named && s->args.n != 0) return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected names for the arguments of a function with a body, found none");
  uint32_t floor = p->floor;
  p->floor = p->n_bindings;
  sn_status st = sn_mx_region(p, r, &s->args);
  p->floor = floor;
  return st;
}

sn_status sn_mx_func(sn_mx *p, sn_mx_op *o) {
  static const char *const visibilities[] = {"public", "private", "nested"};
  const char *visibility = NULL, *name = NULL;
  for (int i = 0; i < 3 && visibility == NULL; i++)
    if (sn_mx_accept_word(p, visibilities[i])) visibility = visibilities[i];
  SN_TRY(sn_mx_symbol(p, &name));
  SN_TRY(sn_mx_add_string(p, o, "sym_name", SN_MA_STRING, name, strlen(name)));
  if (visibility != NULL) SN_TRY(sn_mx_add_string(p, o, "sym_visibility", SN_MA_STRING, visibility, strlen(visibility)));
  signature s = {0};
  SN_TRY(header(p, &s));
  SN_TRY(add_type(p, o, &s));
  SN_TRY(add_dicts(p, o, "arg_attrs", &s.arg_attrs));
  SN_TRY(add_dicts(p, o, "res_attrs", &s.res_attrs));
  if (sn_mx_accept_word(p, "attributes")) SN_TRY(sn_mx_dict(p, &o->attrs));
  SN_TRY(body(p, o, &s));
  return sn_mx_set_results(p, o, 0, NULL);
}

/* ---- aliases, the module ---- */

/* `#name = attribute`, `!name = type` */
static sn_status alias(sn_mx *p) {
  char kind = *p->at++;
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "an alias's name", &w));
  SN_TRY(sn_mx_need(p, '=', "after an alias's name"));
  const char *name = sn_mx_copy(p, w);
  if (name == NULL) return sn_mx_memory(p);
  if (kind == '!') {
    const sn_mlir_type *t = NULL;
    SN_TRY(sn_mx_type(p, &t));
    return sn_map_set(p->type_aliases, w.s, w.n, (uint64_t)(uintptr_t)t) == SN_OK ? SN_OK : sn_mx_memory(p);
  }
  if (sn_mx_at_word(p, "loc")) return sn_mx_loc_alias(p, name);
  const sn_mlir_attr *a = NULL;
  SN_TRY(sn_mx_attr(p, &a));
  return sn_map_set(p->attr_aliases, w.s, w.n, (uint64_t)(uintptr_t)a) == SN_OK ? SN_OK : sn_mx_memory(p);
}

static sn_status module_attrs(sn_mx *p, sn_mx_attrs *a) {
  p->m->attrs = a->v;
  p->m->n_attrs = a->n;
  for (uint32_t i = 0; i < a->n; i++)
    if (strcmp(a->v[i].name, "sym_name") == 0 && a->v[i].attr->s != NULL) p->m->name = a->v[i].attr->s;
  return SN_OK;
}

static sn_status module_ops(sn_mx *p) {
  SN_TRY(sn_mx_need(p, '{', "before the body of the module"));
  while (!sn_mx_accept(p, '}')) {
    if (*p->at == '\0') return sn_mx_expected(p, "`}` after the body of the module");
    if (sn_mx_at_word(p, "module") || sn_mx_at_word(p, "builtin.module")) {
      sn_status s = sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "a module within a module is not supported");
      sn_hint(p->d, "put each into a file of its own, or divide them by lines `// -----`");
      return s;
    }
    SN_TRY(sn_mx_one_op(p, &p->m->top));
  }
  return sn_mx_trailing_loc(p, NULL);
}

static sn_status module_pretty(sn_mx *p) {
  sn_mx_attrs a = {0};
  if (sn_mx_peek(p) == '@') SN_TRY(sn_mx_symbol(p, &p->m->name));
  if (sn_mx_accept_word(p, "attributes")) SN_TRY(sn_mx_dict(p, &a));
  SN_TRY(module_attrs(p, &a));
  return module_ops(p);
}

/* `"builtin.module"() <{…}> ({ … }) {…} : () -> ()` */
static sn_status module_generic(sn_mx *p) {
  sn_mx_attrs a = {0};
  sn_mx_op unused = {0};
  SN_TRY(sn_mx_need(p, '(', "after \"builtin.module\""));
  SN_TRY(sn_mx_need(p, ')', "after \"builtin.module\"("));
  if (sn_mx_accept_text(p, "<{")) {
    p->at--;
    SN_TRY(sn_mx_dict(p, &a));
    SN_TRY(sn_mx_need(p, '>', "after properties"));
  }
  SN_TRY(sn_mx_need(p, '(', "before the module's region"));
  if (sn_mx_peek(p) == '{' && p->at[1] == '^') return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected a module without a block's name");
  SN_TRY(module_ops(p));
  SN_TRY(sn_mx_need(p, ')', "after the module's region"));
  if (sn_mx_peek(p) == '{') SN_TRY(sn_mx_dict(p, &a));
  SN_TRY(sn_mx_signature(p, &unused));
  SN_TRY(module_attrs(p, &a));
  return sn_mx_trailing_loc(p, NULL);
}

static sn_status resources(sn_mx *p) {
  const char *end = strstr(p->at, "#-}");
  if (end == NULL) return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected `#-}` after `{-#`, found the end of the text");
  p->at = end + 3;
  return SN_OK;
}

static sn_status second_module(sn_mx *p, const char *at) {
  sn_status s = sn_mx_fail(p, at, SN_ERR_UNSUPPORTED, "expected one module in a text, found a second one");
  sn_hint(p->d, "divide them by lines `// -----`");
  return s;
}

/* Ops may stand without a module around them. */
static sn_status top(sn_mx *p) {
  bool module = false;
  while (sn_mx_peek(p) != '\0') {
    const char *at = p->at;
    if (*at == '#' || *at == '!') {
      SN_TRY(alias(p));
    } else if (strncmp(at, "{-#", 3) == 0) {
      SN_TRY(resources(p));
    } else if (sn_mx_accept_word(p, "module") || sn_mx_accept_word(p, "builtin.module")) {
      if (module || p->m->top.first != NULL) return second_module(p, at);
      module = true;
      SN_TRY(module_pretty(p));
    } else if (sn_mx_accept_text(p, "\"builtin.module\"")) {
      if (module || p->m->top.first != NULL) return second_module(p, at);
      module = true;
      SN_TRY(module_generic(p));
    } else if (module) {
      return sn_mx_expected(p, "the end of the text after the module");
    } else {
      SN_TRY(sn_mx_one_op(p, &p->m->top));
    }
  }
  return sn_mx_resolve_locs(p);
}

sn_status sn_mlir_read_text(sn_diag *d, const char *file, const char *text, size_t n_bytes, sn_mlir **out) {
  *out = NULL;
  sn_mx p;
  sn_status s = sn_mx_begin(&p, d, file, text, n_bytes);
  if (s == SN_OK) s = top(&p);
  sn_mx_end(&p);
  if (s == SN_OK) *out = p.m;
  else sn_mlir_destroy(p.m);
  return s;
}
