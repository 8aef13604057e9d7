/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* module := ["HloModule" name {"," attribute}] {debug table} {computation}; also a bare list of instructions. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

typedef sn_status (*header_fn)(sn_tx *p);

/* ---- header attributes ------------------------------------------------------------------------------------------------------- */

static sn_status header_scheduled(sn_tx *p) { return sn_tx_bool(p, &p->m->is_scheduled); }
static sn_status header_passthrough(sn_tx *p) { return sn_tx_bool(p, &p->m->alias_passthrough_params); }
static sn_status header_replicas(sn_tx *p) { return sn_tx_int_in(p, "a number of replicas", 1, INT32_MAX, &p->m->replica_count); }
static sn_status header_partitions(sn_tx *p) { return sn_tx_int_in(p, "a number of partitions", 1, INT32_MAX, &p->m->num_partitions); }
static sn_status header_aliases(sn_tx *p) { return sn_tx_aliases(p, true, &p->m->n_aliases, &p->m->aliases); }
static sn_status header_frontend(sn_tx *p) { return sn_tx_pairs(p, &p->m->n_frontend, &p->m->frontend); }

/* { (param, {index}), … } */
static sn_status header_donors(sn_tx *p) {
  uint32_t from = p->stack.n;
  SN_TRY(sn_tx_need(p, '{', "before buffer donors"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  do {
    sn_alias *a = SN_NEW(p->outer, sn_alias);
    if (a == NULL) return sn_tx_memory(p);
    SN_TRY(sn_tx_need(p, '(', "before a buffer donor"));
    SN_TRY(sn_tx_int_in(p, "a parameter number", 0, INT32_MAX, &a->operand));
    SN_TRY(sn_tx_need(p, ',', "after a parameter number"));
    SN_TRY(sn_tx_ints(p, '{', '}', &a->operand_index));
    SN_TRY(sn_tx_need(p, ')', "after a buffer donor"));
    SN_TRY(sn_tx_push(p, a));
  } while (sn_tx_accept(p, ','));
  uint32_t n = p->stack.n - from;
  sn_alias *v = SN_NEW_N(p->keep, sn_alias, n);
  if (v == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < n; i++) v[i] = *(const sn_alias *)p->stack.v[from + i];
  p->stack.n = from;
  p->m->n_donors = n;
  p->m->donors = v;
  return sn_tx_need(p, '}', "after buffer donors");
}

/* {(shape, …)->shape} */
static sn_status header_layout(sn_tx *p) {
  uint32_t from = p->stack.n;
  SN_TRY(sn_tx_need(p, '{', "before an entry layout"));
  SN_TRY(sn_tx_need(p, '(', "before the parameters of an entry layout"));
  if (!sn_tx_accept(p, ')')) {
    do {
      const sn_shape *s = NULL;
      SN_TRY(sn_tx_shape(p, &s));
      SN_TRY(sn_tx_push(p, (void *)(uintptr_t)s));
    } while (sn_tx_accept(p, ','));
    SN_TRY(sn_tx_need(p, ')', "after the parameters of an entry layout"));
  }
  if (!sn_tx_accept_text(p, "->")) return sn_tx_expected(p, "`->` and the shape of the result");
  SN_TRY(sn_tx_shape(p, &p->m->entry_result));
  uint32_t n = p->stack.n - from;
  const sn_shape **v = sn_arena_alloc(p->keep, n * sizeof *v);
  if (v == NULL) return sn_tx_memory(p);
  for (uint32_t i = 0; i < n; i++) v[i] = p->stack.v[from + i];
  p->stack.n = from;
  p->m->n_entry_params = n;
  p->m->entry_params = v;
  return sn_tx_need(p, '}', "after an entry layout");
}

/* true or {true,false} */
static sn_status header_bools(sn_tx *p, sn_ints *out) {
  size_t cap = 1, n = 0;
  bool list = sn_tx_accept(p, '{');
  for (const char *q = p->at; list && *q != '\0' && *q != '}'; q++) cap += *q == ',';
  int64_t *v = sn_arena_alloc(p->keep, cap * sizeof *v);
  if (v == NULL) return sn_tx_memory(p);
  if (!list || sn_tx_peek(p) != '}') {
    do {
      bool b = false;
      if (n == cap) break;
      SN_TRY(sn_tx_bool(p, &b));
      v[n++] = b;
    } while (list && sn_tx_accept(p, ','));
  }
  *out = (sn_ints){(int64_t)n, v};
  return list ? sn_tx_need(p, '}', "after a list of true and false") : SN_OK;
}
static sn_status header_to_parameters(sn_tx *p) { return header_bools(p, &p->m->spmd_to_parameters); }
static sn_status header_to_output(sn_tx *p) { return header_bools(p, &p->m->spmd_to_output); }

static sn_status header_extra(sn_tx *p, const char *key) {
  sn_span raw;
  SN_TRY(sn_tx_raw(p, &raw));
  size_t n = 0;
  while (p->m->extras != NULL && p->m->extras[n].key != NULL) n++;
  sn_pair *v = SN_NEW_N(p->keep, sn_pair, n + 2);
  const char *value = sn_arena_string_n(p->keep, raw.s, raw.n);
  if (v == NULL || value == NULL) return sn_tx_memory(p);
  if (n != 0) memcpy(v, p->m->extras, n * sizeof *v);
  v[n] = (sn_pair){key, value, true};
  p->m->extras = v;
  return SN_OK;
}
static sn_status header_origin(sn_tx *p) { return header_extra(p, "origin_recovery_table"); }

typedef struct header_row {
  const char *text;
  header_fn fn;
} header_row;
static const header_row header_rows[] = {
    {"is_scheduled", header_scheduled},
    {"input_output_alias", header_aliases},
    {"buffer_donor", header_donors},
    {"alias_passthrough_params", header_passthrough},
    {"entry_computation_layout", header_layout},
    {"allow_spmd_sharding_propagation_to_parameters", header_to_parameters},
    {"allow_spmd_sharding_propagation_to_output", header_to_output},
    {"replica_count", header_replicas},
    {"num_partitions", header_partitions},
    {"frontend_attributes", header_frontend},
    {"origin_recovery_table", header_origin},
};
#define N_HEADER_ROWS (sizeof header_rows / sizeof header_rows[0])

static sn_status header_unknown(sn_tx *p, const char *at, sn_span name) {
  const char *words[N_HEADER_ROWS];
  sn_span raw;
  for (size_t i = 0; i < N_HEADER_ROWS; i++) words[i] = header_rows[i].text;
  sn_status s = sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected an attribute of a module, found `%s`", sn_tx_cstring(p, name));
  sn_tx_hint_nearest(p, name, words, N_HEADER_ROWS);
  if (s == SN_ERR_MEMORY) return s;
  return sn_tx_raw(p, &raw); /* the others are looked at all the same */
}

static sn_status header_attribute(sn_tx *p, uint32_t *seen) {
  sn_tx_skip(p);
  const char *at = p->at;
  sn_span name;
  SN_TRY(sn_tx_ident(p, "an attribute of the module", &name));
  SN_TRY(sn_tx_need(p, '=', "after the name of an attribute"));
  for (size_t i = 0; i < N_HEADER_ROWS; i++) {
    if (!sn_tx_span_is(name, header_rows[i].text)) continue;
    if ((*seen >> i & 1) != 0) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected `%s` once, found it again", header_rows[i].text);
    *seen |= 1u << i;
    return header_rows[i].fn(p);
  }
  return header_unknown(p, at, name);
}

/* Behind `HloModule`. */
static sn_status module_header(sn_tx *p) {
  uint32_t seen = 0;
  sn_span name;
  SN_TRY(sn_tx_name_token(p, "the name of the module", &name));
  p->m->name = sn_arena_string_n(p->keep, name.s, name.n);
  if (p->m->name == NULL) return sn_tx_memory(p);
  while (sn_tx_accept(p, ',')) SN_TRY(header_attribute(p, &seen));
  return SN_OK;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------------- */

/* `name =` or ROOT: instructions without a computation around them. */
static bool module_at_instruction(sn_tx *p) {
  sn_tx_skip(p);
  const char *at = p->at;
  sn_span name;
  bool yes = sn_tx_accept_word(p, "ROOT");
  if (!yes) {
    if (*p->at == '%') p->at++;
    yes = sn_tx_try_ident(p, &name) && sn_tx_peek(p) == '=';
  }
  p->at = at;
  return yes;
}

static void module_skip_line(sn_tx *p) {
  const char *nl = strchr(p->at, '\n');
  p->at = nl != NULL ? nl : p->end;
}

static sn_status module_parts(sn_tx *p) {
  if (sn_tx_accept_word(p, "HloModule")) {
    sn_status s = module_header(p);
    if (s == SN_ERR_MEMORY) return s;
    if (s != SN_OK) module_skip_line(p);
  }
  sn_status s = sn_tx_debug_tables(p);
  if (s == SN_ERR_MEMORY || s == SN_ERR_CANCELLED) return s;
  sn_arena_reset(p->scratch);
  if (sn_tx_peek(p) == '\0' && p->n_faults == 0) return sn_tx_expected(p, "HloModule, a computation or an instruction");
  if (module_at_instruction(p)) return sn_tx_bare(p);
  while (sn_tx_peek(p) != '\0') SN_TRY(sn_tx_computation(p));
  return SN_OK;
}

/* The header's layouts are for the entry's own shapes. */
static sn_status module_check_entry(sn_tx *p) {
  const sn_module *m = p->m;
  const sn_computation *e = m->entry;
  sn_arena *a = p->scratch;
  if (m->entry_result == NULL) return SN_OK;
  if (m->n_entry_params != e->n_params) {
    return sn_tx_fail(p, p->text, SN_ERR_SHAPE, "expected %u parameters in entry_computation_layout, as %s has, found %" PRId64, e->n_params, e->name, m->n_entry_params);
  }
  for (uint32_t k = 0; k < e->n_params; k++) {
    if (sn_shape_equal(m->entry_params[k], e->params[k]->shape, 0)) continue;
    return sn_tx_fail(p, p->text, SN_ERR_SHAPE, "expected %s for parameter %u in entry_computation_layout, found %s", sn_shape_text(a, e->params[k]->shape), k,
                      sn_shape_text(a, m->entry_params[k]));
  }
  if (sn_shape_equal(m->entry_result, e->root->shape, 0)) return SN_OK;
  return sn_tx_fail(p, p->text, SN_ERR_SHAPE, "expected %s as the result in entry_computation_layout, found %s", sn_shape_text(a, e->root->shape),
                    sn_shape_text(a, m->entry_result));
}

static sn_status module_whole(sn_tx *p) {
  SN_TRY(module_parts(p));
  if (p->n_faults != 0) return p->status;
  if (p->m->last == NULL) return sn_tx_expected(p, "a computation");
  if (p->m->entry == NULL) sn_module_set_entry(p->m, p->c);
  if (p->m->name == NULL) p->m->name = sn_arena_printf(p->keep, "module_%s", p->m->entry->name); /* as XLA names it */
  if (p->m->name == NULL) return sn_tx_memory(p);
  return module_check_entry(p);
}

sn_status sn_hlo_parse(sn_diag *d, const char *file, const char *text, size_t n_bytes, sn_module **out) {
  sn_tx p;
  sn_module *m = NULL;
  *out = NULL;
  if (sn_module_create("module", &m) != SN_OK) return sn_out_of_memory(d, sizeof *m);
  const char *name = sn_arena_string(m->arena, file != NULL ? file : "<text>");
  if (name != NULL) sn_diag_set_source(d, name, text, n_bytes);
  sn_status s = sn_tx_begin(&p, d, name, text, n_bytes);
  p.m = m;
  m->name = NULL; /* until the header or the entry gives one */
  p.keep = m->arena;
  if (s == SN_OK) s = name != NULL ? module_whole(&p) : sn_tx_memory(&p);
  if (p.n_faults != 0) s = p.status;
  sn_tx_end(&p);
  if (s != SN_OK) {
    sn_module_destroy(m);
    return s;
  }
  *out = m;
  return SN_OK;
}

/* ---- small pieces -------------------------------------------------------------------------------------------------------------------- */

static sn_status piece_end(sn_tx *p, sn_status s) {
  if (s == SN_OK && sn_tx_peek(p) != '\0') s = sn_tx_expected(p, "the end of the text");
  return s;
}

static sn_status piece_begin(sn_tx *p, sn_diag *d, sn_arena *a, const char *text) {
  sn_diag_set_source(d, "<text>", text, strlen(text));
  sn_status s = sn_tx_begin(p, d, "<text>", text, strlen(text));
  p->keep = a != NULL ? a : p->scratch;
  return s;
}

static void piece_finish(sn_tx *p) {
  sn_diag_set_source(p->d, "<text>", NULL, 0); /* the text is the caller's again */
  sn_tx_end(p);
}

sn_status sn_hlo_parse_shape(sn_diag *d, sn_arena *a, const char *text, const sn_shape **out) {
  sn_tx p;
  *out = NULL;
  sn_status s = piece_begin(&p, d, a, text);
  if (s == SN_OK) s = sn_tx_shape(&p, out);
  s = piece_end(&p, s);
  if (s != SN_OK) *out = NULL;
  piece_finish(&p);
  return s;
}

sn_status sn_hlo_parse_sharding(sn_diag *d, sn_arena *a, const char *text, const sn_sharding **out) {
  sn_tx p;
  *out = NULL;
  sn_status s = piece_begin(&p, d, a, text);
  if (s == SN_OK) s = sn_tx_sharding(&p, out);
  s = piece_end(&p, s);
  if (s != SN_OK) *out = NULL;
  piece_finish(&p);
  return s;
}

sn_status sn_hlo_parse_literal(sn_diag *d, const char *text, sn_array **out) {
  sn_tx p;
  const sn_shape *shape = NULL;
  *out = NULL;
  sn_status s = piece_begin(&p, d, NULL, text);
  if (s == SN_OK) s = sn_tx_shape(&p, &shape);
  if (s == SN_OK) s = sn_tx_literal(&p, shape, out);
  if (s == SN_OK && *out == NULL) s = sn_tx_fail(&p, p.text, SN_ERR_UNSUPPORTED, "expected a value, found an elided one `{...}`");
  s = piece_end(&p, s);
  if (s != SN_OK) {
    sn_array_release(*out);
    *out = NULL;
  }
  piece_finish(&p);
  return s;
}
