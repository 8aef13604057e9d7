/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* computation := ["ENTRY"] name ["(" name ":" shape, … ")" "->" shape] "{" {instruction} "}" [", execution_thread=" string]
 * After a fault the next instruction is looked for, so that one run reports many; names whose definition failed are known as such, and what uses
 * them fails silently. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

/* The program shape of a header. */
typedef struct comp_signature {
  bool given;
  uint32_t n;
  const sn_shape **params; /* on p->outer */
  const sn_shape *result;
  const char *at;
} comp_signature;

/* ---- recovery ------------------------------------------------------------------------------------------------------------- */

/* Does a line that could be an instruction, a `}` or a computation begin here? */
static bool comp_line_starts(const char *at) {
  if (*at == '}' || *at == '\0') return true;
  if (strncmp(at, "ROOT ", 5) == 0) at += 5;
  if (strncmp(at, "ENTRY ", 6) == 0) return true;
  if (*at == '%') at++;
  if (!sn_tx_is(*at, SN_TX_IDENT_START)) return false;
  while (sn_tx_is(*at, SN_TX_IDENT)) at++;
  while (*at == ' ') at++;
  return *at == '=';
}

/* To the next line that looks like a start, behind `from`. */
static void comp_recover(sn_tx *p, const char *from) {
  const char *at = p->at, *line = at;
  while (line > from && (line[-1] == ' ' || line[-1] == '\t')) line--;
  bool on_fresh_line = line > from && line[-1] == '\n'; /* the fault was found only at the next line's first word */
  if (on_fresh_line && comp_line_starts(at)) return;
  while (*at != '\0') {
    const char *nl = strchr(at, '\n');
    at = nl != NULL ? nl + 1 : p->end;
    while (sn_tx_is(*at, SN_TX_SPACE)) at++;
    if (comp_line_starts(at)) break;
  }
  p->at = at;
}

static sn_status comp_too_many(sn_tx *p) {
  return p->n_faults < SN_TX_MAX_FAULTS ? SN_OK : SN_ERR_CANCELLED;
}

/* ---- instructions ------------------------------------------------------------------------------------------------------------- */

static sn_status comp_instr(sn_tx *p) {
  sn_instr *i = NULL;
  bool is_root = false;
  sn_span name;
  const char *from = p->at;
  sn_status s = sn_tx_instr(p, &name, &i, &is_root);
  if (s == SN_OK && is_root && p->c->root != NULL) {
    s = sn_tx_fail(p, from, SN_ERR_SYNTAX, "expected one ROOT in %s, found %s after %s", p->c->name, i->name, p->c->root->name);
    name.n = 0;
  }
  if (s == SN_OK) {
    if (is_root) sn_computation_set_root(p->c, i);
    return SN_OK;
  }
  if (s == SN_ERR_MEMORY) return s;
  if (name.n != 0) SN_TRY(sn_tx_define(p, p->scope, name, NULL));
  SN_TRY(comp_too_many(p));
  comp_recover(p, from);
  return SN_OK;
}

/* Up to `}`, or the end where there are no braces. */
static sn_status comp_instrs(sn_tx *p) {
  for (;;) {
    char c = sn_tx_peek(p);
    if (c == '}' && !p->bare) {
      p->at++;
      return SN_OK;
    }
    if (c == '\0' && p->bare) return SN_OK;
    if (c == '\0') return sn_tx_expected(p, "`}` after the instructions of a computation");
    if (strncmp(p->at, "ENTRY ", 6) == 0) return sn_tx_expected(p, "`}` before the next computation");
    SN_TRY(comp_instr(p));
    if (p->depth == 0) sn_arena_reset(p->scratch);
  }
}

static sn_status comp_check_params(sn_tx *p, const comp_signature *g) {
  const sn_computation *c = p->c;
  for (uint32_t k = 0; k < c->n_params; k++) {
    if (c->params[k] == NULL) return sn_tx_fail(p, g->at, SN_ERR_NAME, "expected parameters 0…%u in %s, found no parameter(%u)", c->n_params - 1, c->name, k);
  }
  if (!g->given) return SN_OK;
  if (g->n != c->n_params) {
    return sn_tx_fail(p, g->at, SN_ERR_SHAPE, "expected %u parameters in %s, as its header says, found %u", g->n, c->name, c->n_params);
  }
  for (uint32_t k = 0; k < g->n; k++) {
    if (sn_shape_equal(g->params[k], c->params[k]->shape, 0)) continue;
    return sn_tx_fail(p, g->at, SN_ERR_SHAPE, "expected parameter %u of %s to be %s, as its header says, found %s", k, c->name,
                      sn_shape_text(p->outer, g->params[k]), sn_shape_text(p->outer, c->params[k]->shape));
  }
  if (sn_shape_equal(g->result, c->root->shape, 0)) return SN_OK;
  return sn_tx_fail(p, g->at, SN_ERR_SHAPE, "expected the result of %s to be %s, as its header says, found %s", c->name, sn_shape_text(p->outer, g->result),
                    sn_shape_text(p->outer, c->root->shape));
}

/* The instructions of p->c and what must hold of them together. */
static sn_status comp_body(sn_tx *p, const comp_signature *g) {
  uint32_t before = p->n_faults;
  SN_TRY(comp_instrs(p));
  if (p->n_faults != before) return SN_OK;
  if (p->c->first == NULL) return sn_tx_fail(p, g->at, SN_ERR_SYNTAX, "expected at least one instruction in %s, found none", p->c->name);
  if (p->c->root == NULL) sn_computation_set_root(p->c, p->c->last);
  return comp_check_params(p, g);
}

/* ---- headers -------------------------------------------------------------------------------------------------------------------- */

static sn_status comp_parameters(sn_tx *p, comp_signature *g) {
  uint32_t from = p->stack.n;
  sn_arena *keep = p->keep;
  p->keep = p->outer; /* only compared */
  sn_status s = SN_OK;
  if (!sn_tx_accept(p, ')')) {
    do {
      sn_span name;
      const sn_shape *shape = NULL;
      s = sn_tx_name_token(p, "the name of a parameter", &name);
      if (s == SN_OK) s = sn_tx_need(p, ':', "after the name of a parameter");
      if (s == SN_OK) s = sn_tx_shape(p, &shape);
      if (s == SN_OK) s = sn_tx_push(p, (void *)(uintptr_t)shape);
    } while (s == SN_OK && sn_tx_accept(p, ','));
    if (s == SN_OK && !sn_tx_accept(p, ')')) s = sn_tx_expected(p, "`,` or `)` after a parameter");
  }
  if (s == SN_OK && !sn_tx_accept_text(p, "->")) s = sn_tx_expected(p, "`->` and the shape of the result");
  if (s == SN_OK) s = sn_tx_shape(p, &g->result);
  p->keep = keep;
  SN_TRY(s);
  g->n = p->stack.n - from;
  g->params = sn_arena_copy(p->outer, p->stack.v + from, g->n * sizeof *g->params);
  p->stack.n = from;
  return g->params != NULL || g->n == 0 ? SN_OK : sn_tx_memory(p);
}

static sn_status comp_thread(sn_tx *p) {
  const char *at = p->at;
  if (!sn_tx_accept(p, ',')) return SN_OK;
  if (!sn_tx_accept_word(p, "execution_thread")) {
    p->at = at; /* belongs to who called */
    return SN_OK;
  }
  SN_TRY(sn_tx_need(p, '=', "after execution_thread"));
  const char *thread = NULL;
  SN_TRY(sn_tx_string(p, p->keep, &thread, NULL));
  p->c->execution_thread = strcmp(thread, "main") != 0 ? thread : NULL;
  return SN_OK;
}

static sn_status comp_open(sn_tx *p, comp_signature *g, bool *is_entry, sn_span *name) {
  *is_entry = sn_tx_accept_word(p, "ENTRY");
  sn_tx_skip(p);
  g->at = p->at;
  SN_TRY(sn_tx_name_token(p, "a computation", name));
  const sn_tx_name *known = sn_tx_find(p, 0, *name);
  if (known != NULL) {
    sn_status s = sn_tx_fail(p, g->at, SN_ERR_NAME, "expected a new name, found the computation `%s` again", sn_tx_cstring(p, *name));
    name->n = 0;
    return s;
  }
  if (*is_entry && p->m->entry != NULL) return sn_tx_fail(p, g->at, SN_ERR_SYNTAX, "expected one ENTRY, found another after %s", p->m->entry->name);
  g->given = sn_tx_accept(p, '(');
  if (g->given) SN_TRY(comp_parameters(p, g));
  return sn_tx_need(p, '{', "before the instructions of a computation");
}

/* To behind the `}` at the start of a line. */
static void comp_skip(sn_tx *p) {
  const char *at = strstr(p->at, "\n}");
  p->at = at != NULL ? at + 2 : p->end;
}

static sn_status comp_enter(sn_tx *p, sn_span name, const char *at) {
  const char *text = name.n != 0 ? sn_tx_cstring(p, name) : NULL;
  if (sn_computation_create(p->m, text, &p->c) != SN_OK) return sn_tx_memory(p);
  p->c->loc = sn_tx_loc(p, at);
  p->scope = ++p->n_scopes;
  return SN_OK;
}

sn_status sn_tx_computation(sn_tx *p) {
  comp_signature g = {.given = false};
  bool is_entry = false;
  sn_span name = {NULL, 0};
  sn_status s = comp_open(p, &g, &is_entry, &name);
  if (s == SN_OK) s = comp_enter(p, name, g.at);
  if (s == SN_OK && is_entry) sn_module_set_entry(p->m, p->c);
  bool opened = s == SN_OK;
  if (s == SN_OK) s = comp_body(p, &g);
  if (s == SN_OK) s = comp_thread(p);
  if (s == SN_ERR_MEMORY || s == SN_ERR_CANCELLED) return s;
  p->stack.n = 0;
  if (name.n != 0) SN_TRY(sn_tx_define(p, 0, name, opened && p->c->root != NULL ? p->c : NULL));
  if (!opened) comp_skip(p);
  sn_arena_reset(p->scratch);
  sn_arena_reset(p->outer);
  return comp_too_many(p);
}

/* Instructions without braces around them: the whole text is one computation. */
sn_status sn_tx_bare(sn_tx *p) {
  comp_signature g = {.at = p->at};
  p->bare = true;
  SN_TRY(comp_enter(p, (sn_span){"main", 4}, p->at));
  return comp_body(p, &g);
}

/* ---- references ----------------------------------------------------------------------------------------------------------------------- */

/* `{ instructions }` where a name is expected. It cannot see what is around it. */
static sn_status comp_inline(sn_tx *p, sn_computation **out) {
  if (p->depth == SN_TX_MAX_NEST) return sn_tx_too_deep(p, p->at);
  sn_computation *outer = p->c;
  uint32_t scope = p->scope, before = p->n_faults;
  bool bare = p->bare;
  comp_signature g = {.at = p->at++};
  p->depth++;
  p->bare = false;
  sn_status s = comp_enter(p, (sn_span){NULL, 0}, g.at);
  if (s == SN_OK) sn_computation_move_before(p->c, outer);
  if (s == SN_OK) s = comp_body(p, &g);
  if (s == SN_OK) s = comp_thread(p);
  *out = p->c;
  p->c = outer;
  p->scope = scope;
  p->bare = bare;
  p->depth--;
  SN_TRY(s);
  return p->n_faults == before ? SN_OK : SN_ERR_SYNTAX;
}

sn_status sn_tx_computation_ref(sn_tx *p, sn_computation **out) {
  *out = NULL;
  char c = sn_tx_peek(p);
  if (c == '{') return comp_inline(p, out);
  const char *at = p->at;
  sn_span name;
  SN_TRY(sn_tx_name_token(p, "a computation, by name or in braces", &name));
  const sn_tx_name *e = sn_tx_find(p, 0, name);
  if (e == NULL) {
    sn_status s = sn_tx_fail(p, at, SN_ERR_NAME, "expected a computation defined above, found `%s`", sn_tx_cstring(p, name));
    sn_tx_hint_name(p, 0, name);
    return s;
  }
  if (e->value == NULL) return SN_ERR_NAME;
  *out = e->value;
  return SN_OK;
}
