/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* One op: its results' names, then the generic form `"dialect.op"(%a) <{…}> ({…}) {…} : (T) -> T` or the op's own (forms.c). Regions and blocks. */
#include <inttypes.h>
#include <string.h>

#include "text.h"

/* ---- gathering ---- */

sn_status sn_mx_op_operand(sn_mx *p, sn_mx_op *o, sn_mlir_value *v) {
  if (o->n_operands == o->cap_operands) {
    uint32_t cap = o->cap_operands ? o->cap_operands * 2 : 4;
    sn_mlir_value **to = SN_NEW_N(p->m->arena, sn_mlir_value *, cap);
    if (to == NULL) return sn_mx_memory(p);
    for (uint32_t i = 0; i < o->n_operands; i++) to[i] = o->operands[i];
    o->operands = to;
    o->cap_operands = cap;
  }
  o->operands[o->n_operands++] = v;
  return SN_OK;
}

sn_status sn_mx_op_operands(sn_mx *p, sn_mx_op *o) {
  if (sn_mx_peek(p) != '%') return SN_OK;
  do {
    sn_mlir_value *v = NULL;
    SN_TRY(sn_mx_use(p, &v));
    SN_TRY(sn_mx_op_operand(p, o, v));
  } while (sn_mx_accept(p, ','));
  return SN_OK;
}

sn_status sn_mx_op_region(sn_mx *p, sn_mx_op *o, sn_mlir_region **out) {
  if (o->n_regions == o->cap_regions) {
    uint32_t cap = o->cap_regions ? o->cap_regions * 2 : 2;
    sn_mlir_region *to = SN_NEW_N(p->m->arena, sn_mlir_region, cap);
    if (to == NULL) return sn_mx_memory(p);
    for (uint32_t i = 0; i < o->n_regions; i++) to[i] = o->regions[i];
    o->regions = to;
    o->cap_regions = cap;
  }
  *out = &o->regions[o->n_regions++];
  return SN_OK;
}

sn_status sn_mx_add_int(sn_mx *p, sn_mx_op *o, const char *name, int64_t v) { return sn_mx_attrs_add(p, &o->attrs, name, sn_mlir_attr_int(p->m, v)); }

sn_status sn_mx_add_string(sn_mx *p, sn_mx_op *o, const char *name, sn_mlir_attr_kind kind, const char *s, size_t n) {
  return sn_mx_attrs_add(p, &o->attrs, name, sn_mlir_attr_string(p->m, kind, s, n));
}

sn_status sn_mx_set_results(sn_mx *p, sn_mx_op *o, uint32_t n, const sn_mlir_type *const *types) {
  if (o->n_names != 0 && o->n_wanted != n)
    return sn_error(p->d, o->loc, SN_ERR_NAME, "%s has %" PRIu32 " result%s, found names for %" PRIu32, o->name, n, n == 1 ? "" : "s", o->n_wanted);
  o->n_results = n;
  o->results = types;
  return SN_OK;
}

sn_status sn_mx_signature(sn_mx *p, sn_mx_op *o) {
  SN_TRY(sn_mx_need(p, ':', "before the types of operands and results"));
  sn_mx_skip(p);
  const char *at = p->at;
  const sn_mlir_type *f = NULL;
  SN_TRY(sn_mx_function_type(p, &f));
  if (f->n_ins != o->n_operands)
    return sn_mx_fail(p, at, SN_ERR_TYPE, "expected %" PRIu32 " operand type%s, found %" PRIu32, o->n_operands, o->n_operands == 1 ? "" : "s", f->n_ins);
  for (uint32_t i = 0; i < f->n_ins; i++) {
    if (sn_mlir_type_equal(f->ins[i], o->operands[i]->type)) continue;
    sn_status s = sn_mx_fail(p, at, SN_ERR_TYPE, "expected %s for operand %" PRIu32 " (%%%s), found %s", sn_mlir_type_text(p->m->arena, o->operands[i]->type), i,
                             o->operands[i]->name != NULL ? o->operands[i]->name : "?", sn_mlir_type_text(p->m->arena, f->ins[i]));
    sn_hint(p->d, "a value has one type: that of its definition");
    return s;
  }
  return sn_mx_set_results(p, o, f->n_outs, f->outs);
}

/* ---- making ---- */

static sn_status bind_results(sn_mx *p, const sn_mx_op *o, sn_mlir_op *op) {
  uint32_t k = 0;
  for (uint32_t i = 0; i < o->n_names; i++) {
    SN_TRY(sn_mx_bind(p, o->at, o->result_names[i], &op->results[k], o->result_counts[i]));
    k += o->result_counts[i];
  }
  return SN_OK;
}

sn_status sn_mx_finish(sn_mx *p, sn_mx_op *o, sn_mlir_block *to, sn_mlir_op **out) {
  sn_mlir_op *op = sn_mlir_op_new(p->m, to, o->name, o->n_results, o->results, o->n_regions);
  if (op == NULL) return sn_mx_memory(p);
  op->loc = o->loc;
  op->operands = o->operands;
  op->n_operands = o->n_operands;
  op->attrs = o->attrs.v;
  op->n_attrs = o->attrs.n;
  for (uint32_t i = 0; i < o->n_regions; i++) {
    op->regions[i] = o->regions[i];
    op->regions[i].op = op;
    for (sn_mlir_block *b = op->regions[i].first; b != NULL; b = b->next) b->region = &op->regions[i];
  }
  *out = op;
  return bind_results(p, o, op);
}

/* ---- regions ---- */

sn_status sn_mx_args_add(sn_mx *p, sn_mx_args *a, sn_mx_span name, const sn_mlir_type *t) {
  if (a->n == a->cap) {
    uint32_t cap = a->cap ? a->cap * 2 : 4;
    sn_mx_span *names = SN_NEW_N(p->m->arena, sn_mx_span, cap);
    const sn_mlir_type **types = SN_NEW_N(p->m->arena, const sn_mlir_type *, cap);
    if (names == NULL || types == NULL) return sn_mx_memory(p);
    for (uint32_t i = 0; i < a->n; i++) {
      names[i] = a->names[i];
      types[i] = a->types[i];
    }
    a->names = names;
    a->types = types;
    a->cap = cap;
  }
  a->names[a->n] = name;
  a->types[a->n++] = t;
  return SN_OK;
}

/* `^bb0(%a: T loc(…), %b: T):` */
static sn_status label(sn_mx *p, sn_mx_args *a) {
  sn_mx_span name;
  p->at++;
  const char *begin = p->at;
  while (sn_mx_is_word(*p->at)) p->at++;
  if (p->at == begin) return sn_mx_expected(p, "a block's name behind `^`");
  if (sn_mx_accept(p, '(')) {
    if (!sn_mx_accept(p, ')')) {
      do {
        const sn_mlir_type *t = NULL;
        SN_TRY(sn_mx_value_name(p, &name));
        SN_TRY(sn_mx_need(p, ':', "between an argument and its type"));
        SN_TRY(sn_mx_type(p, &t));
        SN_TRY(sn_mx_trailing_loc(p, NULL));
        SN_TRY(sn_mx_args_add(p, a, name, t));
      } while (sn_mx_accept(p, ','));
      SN_TRY(sn_mx_need(p, ')', "after a block's arguments"));
    }
  }
  return sn_mx_need(p, ':', "after a block's name");
}

static sn_status block(sn_mx *p, sn_mlir_region *to, const char *at, const sn_mx_args *a) {
  sn_mlir_block *b = sn_mlir_block_new(p->m, to, a->n, a->types);
  if (b == NULL) return sn_mx_memory(p);
  for (uint32_t i = 0; i < a->n; i++) SN_TRY(sn_mx_bind(p, at, a->names[i], &b->args[i], 1));
  while (sn_mx_peek(p) != '}' && *p->at != '^') {
    if (*p->at == '\0') return sn_mx_expected(p, "`}` after a region");
    SN_TRY(sn_mx_one_op(p, b));
  }
  return SN_OK;
}

static sn_status blocks(sn_mx *p, sn_mlir_region *to, const sn_mx_args *entry) {
  SN_TRY(sn_mx_need(p, '{', "before a region"));
  sn_mx_args args = {0};
  const sn_mx_args *a = entry != NULL ? entry : &args;
  const char *at = p->at;
  if (entry == NULL && sn_mx_peek(p) == '}') { /* no block, or an empty one: the same here */
    p->at++;
    return SN_OK;
  }
  if (entry == NULL && *p->at == '^') SN_TRY(label(p, &args));
  SN_TRY(block(p, to, at, a));
  while (sn_mx_peek(p) == '^') {
    sn_mx_args more = {0};
    at = p->at;
    SN_TRY(label(p, &more));
    SN_TRY(block(p, to, at, &more));
  }
  return sn_mx_need(p, '}', "after a region");
}

sn_status sn_mx_region(sn_mx *p, sn_mlir_region *to, const sn_mx_args *entry) {
  uint32_t mark = p->n_bindings;
  SN_TRY(sn_mx_enter(p));
  sn_status s = blocks(p, to, entry);
  sn_mx_leave(p);
  sn_mx_unbind(p, mark);
  return s;
}

/* ---- the generic form ---- */

static sn_status generic_regions(sn_mx *p, sn_mx_op *o) {
  if (sn_mx_peek(p) != '(') return SN_OK;
  p->at++;
  uint32_t floor = p->floor;
  if (strcmp(o->name, "func.func") == 0) p->floor = p->n_bindings;
  do {
    /* The region's place may move while the list grows; its blocks are tied to it at the end. */
    sn_mlir_region *r = NULL;
    SN_TRY(sn_mx_op_region(p, o, &r));
    SN_TRY(sn_mx_region(p, r, NULL));
  } while (sn_mx_accept(p, ','));
  p->floor = floor;
  return sn_mx_need(p, ')', "after regions");
}

static sn_status generic(sn_mx *p, sn_mx_op *o) {
  const char *name = NULL;
  SN_TRY(sn_mx_string(p, &name, NULL));
  o->name = name;
  SN_TRY(sn_mx_need(p, '(', "before an op's operands"));
  SN_TRY(sn_mx_op_operands(p, o));
  SN_TRY(sn_mx_need(p, ')', "after an op's operands"));
  if (sn_mx_peek(p) == '[') return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "%s has successors: branches between blocks are not supported", name);
  if (sn_mx_accept_text(p, "<{")) {
    p->at--;
    SN_TRY(sn_mx_dict(p, &o->attrs));
    SN_TRY(sn_mx_need(p, '>', "after properties"));
  }
  SN_TRY(generic_regions(p, o));
  if (sn_mx_peek(p) == '{') SN_TRY(sn_mx_dict(p, &o->attrs));
  return sn_mx_signature(p, o);
}

/* ---- an op ---- */

static sn_status result_names(sn_mx *p, sn_mx_op *o) {
  do {
    int64_t n = 1;
    if (o->n_names == sizeof o->result_names / sizeof o->result_names[0])
      return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %" PRIu32 " names on the left of `=`: write %%name:COUNT", o->n_names);
    SN_TRY(sn_mx_value_name(p, &o->result_names[o->n_names]));
    if (sn_mx_accept(p, ':')) SN_TRY(sn_mx_int(p, "the number of results", &n));
    if (n < 1 || n > 1 << 20) return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected a number of results in 1…%d, found %" PRId64, 1 << 20, n);
    o->result_counts[o->n_names++] = (uint32_t)n;
    o->n_wanted += (uint32_t)n;
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, '=', "between results and op");
}

static sn_status pretty_name(sn_mx *p, sn_mx_op *o) {
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "an op", &w));
  if (memchr(w.s, '.', w.n) != NULL) o->name = sn_mx_copy(p, w);
  else o->name = sn_arena_printf(p->m->arena, "func.%.*s", (int)w.n, w.s);
  return o->name != NULL ? SN_OK : sn_mx_memory(p);
}

sn_status sn_mx_one_op(sn_mx *p, sn_mlir_block *to) {
  sn_mx_op *o = SN_NEW(p->m->arena, sn_mx_op); /* large: not on the stack of nested regions */
  sn_mlir_op *op = NULL;
  if (o == NULL) return sn_mx_memory(p);
  sn_mx_skip(p);
  o->at = p->at;
  if (*p->at == '%') SN_TRY(result_names(p, o));
  sn_mx_skip(p);
  o->loc = sn_mx_loc(p, p->at);
  if (*p->at == '"') {
    SN_TRY(generic(p, o));
  } else {
    SN_TRY(pretty_name(p, o));
    SN_TRY(sn_mx_pretty(p, o));
  }
  SN_TRY(sn_mx_finish(p, o, to, &op));
  return sn_mx_trailing_loc(p, op);
}
