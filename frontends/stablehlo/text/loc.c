/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* loc(…): names and places of the program that was exported, kept for metadata. Aliases may be defined below their use. */
#include <string.h>

#include "text.h"

static sn_status loc_any(sn_mx *p, sn_mlir_debug *to);

/* A name or place that is known already is kept: the outermost name and the innermost callee say most. */
static void take_over(sn_mlir_debug *to, const sn_mlir_debug *from) {
  if (to->name == NULL) to->name = from->name;
  if (to->file != NULL) return;
  to->file = from->file;
  to->line = from->line;
  to->col = from->col;
  to->end_line = from->end_line;
  to->end_col = from->end_col;
}

/* Behind `"file":`: line:col, and perhaps ` to [line]:col`. */
static sn_status place(sn_mx *p, const char *file, sn_mlir_debug *to) {
  int64_t v[4] = {0, 0, 0, 0};
  SN_TRY(sn_mx_int(p, "a line", &v[0]));
  if (sn_mx_accept(p, ':')) SN_TRY(sn_mx_int(p, "a column", &v[1]));
  v[2] = v[0];
  if (sn_mx_accept_word(p, "to")) {
    if (sn_mx_peek(p) != ':') SN_TRY(sn_mx_int(p, "a line", &v[2]));
    SN_TRY(sn_mx_need(p, ':', "before the last column"));
    SN_TRY(sn_mx_int(p, "a column", &v[3]));
  }
  sn_mlir_debug d = {NULL, file, (uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2], (uint32_t)v[3]};
  take_over(to, &d);
  return SN_OK;
}

static sn_status quoted(sn_mx *p, sn_mlir_debug *to) {
  const char *s = NULL;
  SN_TRY(sn_mx_string(p, &s, NULL));
  if (sn_mx_accept(p, ':')) return place(p, s, to);
  if (to->name == NULL) to->name = s;
  if (!sn_mx_accept(p, '(')) return SN_OK;
  SN_TRY(loc_any(p, to));
  return sn_mx_need(p, ')', "after a location");
}

static sn_status fused(sn_mx *p, sn_mlir_debug *to) {
  if (sn_mx_accept(p, '<')) {
    sn_mx_span metadata;
    SN_TRY(sn_mx_balanced(p, &metadata));
  }
  SN_TRY(sn_mx_need(p, '[', "before fused locations"));
  do {
    SN_TRY(loc_any(p, to));
  } while (sn_mx_accept(p, ','));
  return sn_mx_need(p, ']', "after fused locations");
}

static sn_status callsite(sn_mx *p, sn_mlir_debug *to) {
  SN_TRY(sn_mx_need(p, '(', "after callsite"));
  SN_TRY(loc_any(p, to));
  if (!sn_mx_accept_word(p, "at")) return sn_mx_expected(p, "`at` before the caller's location");
  SN_TRY(loc_any(p, to));
  return sn_mx_need(p, ')', "after a call site");
}

static sn_status alias_use(sn_mx *p, sn_mlir_debug *to) {
  p->at++;
  sn_mx_span w;
  SN_TRY(sn_mx_word(p, "a location's alias", &w));
  uint64_t v = 0;
  if (sn_map_get(p->loc_aliases, w.s, w.n, &v)) take_over(to, (const sn_mlir_debug *)(uintptr_t)v);
  return SN_OK; /* one that is defined further down and used within another: not worth a second pass */
}

static sn_status loc_body(sn_mx *p, sn_mlir_debug *to) {
  if (sn_mx_peek(p) == '"') return quoted(p, to);
  if (*p->at == '#') return alias_use(p, to);
  if (sn_mx_accept_word(p, "unknown")) return SN_OK;
  if (sn_mx_accept_word(p, "fused")) return fused(p, to);
  if (sn_mx_accept_word(p, "callsite")) return callsite(p, to);
  if (!sn_mx_accept_word(p, "loc")) return sn_mx_expected(p, "a location");
  SN_TRY(sn_mx_need(p, '(', "after loc"));
  SN_TRY(loc_any(p, to));
  return sn_mx_need(p, ')', "after a location");
}

static sn_status loc_any(sn_mx *p, sn_mlir_debug *to) {
  SN_TRY(sn_mx_enter(p));
  sn_status s = loc_body(p, to);
  sn_mx_leave(p);
  return s;
}

sn_status sn_mx_loc_alias(sn_mx *p, const char *name) {
  sn_mlir_debug *d = SN_NEW(p->m->arena, sn_mlir_debug);
  if (d == NULL) return sn_mx_memory(p);
  SN_TRY(loc_any(p, d));
  return sn_map_set_str(p->loc_aliases, name, d) == SN_OK ? SN_OK : sn_mx_memory(p);
}

static sn_status defer(sn_mx *p, sn_mlir_op *op, sn_mx_span w) {
  if (p->n_fixups == p->cap_fixups) {
    uint32_t cap = p->cap_fixups ? p->cap_fixups * 2 : 64;
    sn_mx_fixup *v = sn_realloc(p->fixups, cap * sizeof *v);
    if (v == NULL) return sn_mx_memory(p);
    p->fixups = v;
    p->cap_fixups = cap;
  }
  const char *alias = sn_mx_copy(p, w);
  if (alias == NULL) return sn_mx_memory(p);
  p->fixups[p->n_fixups++] = (sn_mx_fixup){op, alias};
  return SN_OK;
}

sn_status sn_mx_trailing_loc(sn_mx *p, sn_mlir_op *op) {
  if (!sn_mx_at_word(p, "loc")) return SN_OK;
  p->at += 3;
  SN_TRY(sn_mx_need(p, '(', "after loc"));
  if (op != NULL && sn_mx_peek(p) == '#') {
    p->at++;
    sn_mx_span w;
    SN_TRY(sn_mx_word(p, "a location's alias", &w));
    SN_TRY(defer(p, op, w));
    return sn_mx_need(p, ')', "after a location");
  }
  sn_mlir_debug *d = SN_NEW(p->m->arena, sn_mlir_debug);
  if (d == NULL) return sn_mx_memory(p);
  SN_TRY(loc_any(p, d));
  if (op != NULL && (d->name != NULL || d->file != NULL)) op->debug = d;
  return sn_mx_need(p, ')', "after a location");
}

sn_status sn_mx_resolve_locs(sn_mx *p) {
  for (uint32_t i = 0; i < p->n_fixups; i++) {
    const sn_mlir_debug *d = sn_map_get_str(p->loc_aliases, p->fixups[i].alias);
    if (d == NULL) return sn_error(p->d, p->fixups[i].op->loc, SN_ERR_NAME, "the location alias #%s is not defined", p->fixups[i].alias);
    if (d->name != NULL || d->file != NULL) p->fixups[i].op->debug = d;
  }
  return SN_OK;
}
