/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What stands behind the operands of an instruction: the attributes of its op's row, and what any instruction may carry. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

/* ---- frontend_attributes, metadata --------------------------------------------------------------------------------------- */

static sn_status notes_pair(sn_tx *p, sn_pair *out) {
  sn_span key, raw;
  SN_TRY(sn_tx_ident(p, "the key of a frontend attribute", &key));
  SN_TRY(sn_tx_need(p, '=', "after the key of a frontend attribute"));
  out->key = sn_arena_string_n(p->keep, key.s, key.n);
  if (out->key == NULL) return sn_tx_memory(p);
  char c = sn_tx_peek(p);
  out->raw = c == '{';
  if (!out->raw) return sn_tx_string(p, p->keep, &out->value, NULL);
  SN_TRY(sn_tx_raw(p, &raw));
  out->value = sn_arena_string_n(p->keep, raw.s, raw.n);
  return out->value != NULL ? SN_OK : sn_tx_memory(p);
}

sn_status sn_tx_pairs(sn_tx *p, int64_t *n, const sn_pair **out) {
  sn_pair *v = NULL;
  size_t cap = 0, count = 0;
  *n = 0;
  *out = NULL;
  SN_TRY(sn_tx_need(p, '{', "before frontend attributes"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  do {
    if (count == cap) {
      cap = cap != 0 ? 4 * cap : 4;
      sn_pair *grown = SN_NEW_N(p->keep, sn_pair, cap);
      if (grown == NULL) return sn_tx_memory(p);
      if (count != 0) memcpy(grown, v, count * sizeof *v);
      v = grown;
    }
    SN_TRY(notes_pair(p, &v[count++]));
  } while (sn_tx_accept(p, ','));
  if (count > UINT16_MAX) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d frontend attributes", UINT16_MAX);
  *n = (int64_t)count;
  *out = v;
  return sn_tx_need(p, '}', "after frontend attributes");
}

typedef struct metadata_field {
  const char *text;
  size_t offset;
  bool is_int;
} metadata_field;
#define STR_FIELD(name) {#name, offsetof(sn_metadata, name), false}
#define INT_FIELD(name) {#name, offsetof(sn_metadata, name), true}
static const metadata_field metadata_fields[] = {
    STR_FIELD(op_name),     INT_FIELD(stack_frame_id), STR_FIELD(op_type),         STR_FIELD(source_file),       INT_FIELD(source_line),
    INT_FIELD(source_end_line), INT_FIELD(source_column),  INT_FIELD(source_end_column), STR_FIELD(deduplicated_name), STR_FIELD(scheduling_name),
};
#define N_METADATA_FIELDS (sizeof metadata_fields / sizeof metadata_fields[0])

static sn_status metadata_unknown(sn_tx *p, const char *at, sn_span key) {
  const char *words[N_METADATA_FIELDS + 1] = {"profile_type"};
  for (size_t i = 0; i < N_METADATA_FIELDS; i++) words[i + 1] = metadata_fields[i].text;
  sn_status s = sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a field of metadata, found `%s`", sn_tx_cstring(p, key));
  sn_tx_hint_nearest(p, key, words, N_METADATA_FIELDS + 1);
  return s;
}

static sn_status metadata_one(sn_tx *p, sn_metadata *md) {
  sn_tx_skip(p);
  const char *at = p->at;
  sn_span key;
  SN_TRY(sn_tx_ident(p, "a field of metadata", &key));
  SN_TRY(sn_tx_need(p, '=', "after a field of metadata"));
  for (size_t i = 0; i < N_METADATA_FIELDS; i++) {
    const metadata_field *f = &metadata_fields[i];
    if (!sn_tx_span_is(key, f->text)) continue;
    char *field = (char *)md + f->offset;
    if (!f->is_int) return sn_tx_string(p, p->keep, (const char **)(void *)field, NULL);
    int64_t v = 0;
    SN_TRY(sn_tx_int_in(p, f->text, INT32_MIN, INT32_MAX, &v));
    *(int32_t *)(void *)field = (int32_t)v;
    return SN_OK;
  }
  if (sn_tx_span_is(key, "profile_type")) return sn_tx_ints(p, '{', '}', &md->profile_type);
  return metadata_unknown(p, at, key);
}

sn_status sn_tx_metadata(sn_tx *p, const sn_metadata **out) {
  *out = NULL;
  SN_TRY(sn_tx_need(p, '{', "before metadata"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  sn_metadata *md = SN_NEW(p->keep, sn_metadata);
  if (md == NULL) return sn_tx_memory(p);
  do {
    SN_TRY(metadata_one(p, md));
    (void)sn_tx_accept(p, ',');
  } while (sn_tx_is(sn_tx_peek(p), SN_TX_IDENT_START));
  *out = md;
  return sn_tx_need(p, '}', "or another field of metadata");
}

/* ---- attributes of any instruction ------------------------------------------------------------------------------------------ */

typedef sn_status (*note_fn)(sn_tx *p, sn_tx_notes *n);

static sn_status note_sharding(sn_tx *p, sn_tx_notes *n) { return sn_tx_sharding(p, &n->sharding); }
static sn_status note_frontend(sn_tx *p, sn_tx_notes *n) { return sn_tx_pairs(p, &n->n_frontend, &n->frontend); }
static sn_status note_metadata(sn_tx *p, sn_tx_notes *n) { return sn_tx_metadata(p, &n->metadata); }

static sn_status note_backend_config(sn_tx *p, sn_tx_notes *n) {
  char c = sn_tx_peek(p);
  n->backend_config_quoted = c == '"' || c == '\'';
  if (n->backend_config_quoted) return sn_tx_string(p, p->keep, &n->backend_config, NULL);
  sn_span raw;
  SN_TRY(sn_tx_raw(p, &raw));
  n->backend_config = sn_arena_string_n(p->keep, raw.s, raw.n);
  return n->backend_config != NULL ? SN_OK : sn_tx_memory(p);
}

static sn_status note_control(sn_tx *p, sn_tx_notes *n) {
  n->has_control = true;
  n->control_from = n->control_to = p->stack.n;
  SN_TRY(sn_tx_need(p, '{', "before control predecessors"));
  if (sn_tx_accept(p, '}')) return SN_OK;
  do {
    sn_tx_skip(p);
    const char *at = p->at;
    sn_span name;
    SN_TRY(sn_tx_name_token(p, "the name of an instruction", &name));
    const sn_tx_name *e = sn_tx_find(p, p->scope, name);
    if (e == NULL) {
      sn_status s = sn_tx_fail(p, at, SN_ERR_NAME, "expected an instruction defined above as control predecessor, found `%s`", sn_tx_cstring(p, name));
      sn_tx_hint_name(p, p->scope, name);
      return s;
    }
    if (e->value == NULL) return SN_ERR_NAME;
    SN_TRY(sn_tx_push(p, e->value));
  } while (sn_tx_accept(p, ','));
  n->control_to = p->stack.n;
  return sn_tx_need(p, '}', "after control predecessors");
}

static sn_status notes_extra(sn_tx *p, sn_tx_notes *n, const char *key) {
  sn_span raw;
  SN_TRY(sn_tx_raw(p, &raw));
  const char *value = sn_arena_string_n(p->keep, raw.s, raw.n);
  if (value == NULL) return sn_tx_memory(p);
  n->extras[n->n_extras++] = (sn_pair){key, value, true};
  return SN_OK;
}
static sn_status note_replication(sn_tx *p, sn_tx_notes *n) { return notes_extra(p, n, "parameter_replication"); }
static sn_status note_statistics(sn_tx *p, sn_tx_notes *n) { return notes_extra(p, n, "statistics"); }
static sn_status note_origin(sn_tx *p, sn_tx_notes *n) { return notes_extra(p, n, "origin"); }

typedef struct note_row {
  const char *text;
  note_fn fn;
} note_row;
static const note_row note_rows[] = {
    {"metadata", note_metadata},       {"backend_config", note_backend_config}, {"sharding", note_sharding},
    {"frontend_attributes", note_frontend}, {"control-predecessors", note_control},  {"parameter_replication", note_replication},
    {"statistics", note_statistics},   {"origin", note_origin},
};
#define N_NOTE_ROWS ((int)(sizeof note_rows / sizeof note_rows[0]))

/* ---- attributes of the op's row ----------------------------------------------------------------------------------------------- */

/* Spellings beside the row's own: (op, text) -> the row's attribute; `slot` for one of several called computations. */
typedef struct spelling {
  sn_opcode op;
  const char *text;
  sn_attr_id id;
  int slot; /* -1: none */
} spelling;
static const spelling spellings[] = {
    {SN_OP_CONDITIONAL, "true_computation", SN_ATTR_BRANCH_COMPUTATIONS, 0},
    {SN_OP_CONDITIONAL, "false_computation", SN_ATTR_BRANCH_COMPUTATIONS, 1},
    {SN_OP_CUSTOM_CALL, "to_apply", SN_ATTR_CALLED_COMPUTATIONS, -1},
    {SN_OP_CUSTOM_CALL, "calls", SN_ATTR_CALLED_COMPUTATIONS, -1},
};
#define N_SPELLINGS (sizeof spellings / sizeof spellings[0])

static bool attrs_is_comp(sn_attr_id id) { return sn_attrs[id].kind == SN_KIND_COMP || sn_attrs[id].kind == SN_KIND_COMPS; }
static bool attrs_is_inside(sn_attr_id id) { return id == SN_ATTR_PARAMETER_NUMBER || id == SN_ATTR_LITERAL; }

/* Position of the attribute in the row of the op, -1: none. */
static int attrs_find(const uint16_t *row, sn_span name) {
  for (int i = 0; row[i] != SN_ATTR_END; i++) {
    if (sn_tx_span_is(name, sn_attrs[row[i] & ~SN_ATTR_MUST].text)) return i;
  }
  return -1;
}

static int attrs_position(const uint16_t *row, sn_attr_id id) {
  for (int i = 0; row[i] != SN_ATTR_END; i++) {
    if ((sn_attr_id)(row[i] & ~SN_ATTR_MUST) == id) return i;
  }
  return -1;
}

static sn_status attrs_unknown(sn_tx *p, const char *at, sn_opcode op, const uint16_t *row, sn_span name) {
  const char *words[64 + sizeof note_rows / sizeof note_rows[0]];
  size_t n = 0;
  for (int i = 0; row[i] != SN_ATTR_END && n < 64; i++) words[n++] = sn_attrs[row[i] & ~SN_ATTR_MUST].text;
  for (int i = 0; i < N_NOTE_ROWS; i++) words[n++] = note_rows[i].text;
  sn_status s = sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected an attribute of %s, found `%s`", sn_opcode_text(op), sn_tx_cstring(p, name));
  sn_tx_hint_nearest(p, name, words, n);
  return s;
}

/* Bits of `seen` above the row's: those of note_rows; then slots of called computations. */
enum { SEEN_SLOTS = 60 };

static sn_status attrs_once(sn_tx *p, const char *at, uint64_t *seen, int bit, sn_span name) {
  if ((*seen >> bit & 1) != 0) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected `%s` once, found it again", sn_tx_cstring(p, name));
  *seen |= (uint64_t)1 << bit;
  return SN_OK;
}

/* Called computations wait on p->outer's list in the order of the row: slot by slot. */
static sn_status attrs_called(sn_tx *p, sn_tx_attrs *a, sn_attr_id id, int slot) {
  uint32_t from = p->stack.n;
  sn_attr unused;
  SN_TRY(sn_tx_attr_value(p, id, &unused));
  uint32_t n = p->stack.n - from;
  if (slot >= 0) {
    a->called_slots[slot] = p->stack.v[from];
  } else {
    a->called_list = sn_arena_copy(p->scratch, p->stack.v + from, n * sizeof *p->stack.v);
    a->n_called_list = n;
    if (n != 0 && a->called_list == NULL) return sn_tx_memory(p);
  }
  p->stack.n = from;
  return SN_OK;
}

static int attrs_slot(const uint16_t *row, int position) {
  int slot = 0;
  for (int i = 0; i < position; i++) slot += sn_attrs[row[i] & ~SN_ATTR_MUST].kind == SN_KIND_COMP;
  return slot;
}

static sn_status attrs_of_row(sn_tx *p, sn_opcode op, sn_tx_attrs *a, const char *at, sn_span name, bool *known) {
  const uint16_t *row = sn_ops[op].attrs;
  int position = attrs_find(row, name), slot = -1;
  for (size_t i = 0; position < 0 && i < N_SPELLINGS; i++) {
    if (spellings[i].op != op || !sn_tx_span_is(name, spellings[i].text)) continue;
    position = attrs_position(row, spellings[i].id);
    slot = spellings[i].slot;
  }
  *known = position >= 0;
  if (!*known) return SN_OK;
  sn_attr_id id = (sn_attr_id)(row[position] & ~SN_ATTR_MUST);
  if (slot < 0 && sn_attrs[id].kind == SN_KIND_COMP) slot = attrs_slot(row, position);
  SN_TRY(attrs_once(p, at, &a->seen, slot >= 0 ? SEEN_SLOTS + slot : position, name));
  a->seen |= (uint64_t)1 << position;
  if (attrs_is_comp(id)) return attrs_called(p, a, id, slot);
  if (a->n == SN_TX_MAX_ATTRS) return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "more than %d attributes", (int)SN_TX_MAX_ATTRS);
  a->v[a->n].id = id;
  if (sn_attrs[id].kind == SN_KIND_LITERAL) a->v[a->n].u.literal = NULL;
  a->n++; /* before the value: a literal made halfway is released by the caller */
  return sn_tx_attr_value(p, id, &a->v[a->n - 1]);
}

static sn_status attrs_of_thread(sn_tx *p, sn_tx_attrs *a, const char *at, sn_span name) {
  if (a->thread != NULL) return sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected `%s` once, found it again", sn_tx_cstring(p, name));
  return sn_tx_string(p, p->keep, &a->thread, NULL);
}

static sn_status attrs_one(sn_tx *p, sn_opcode op, sn_tx_attrs *a) {
  sn_tx_skip(p);
  const char *at = p->at;
  sn_span name;
  bool known = false;
  SN_TRY(sn_tx_ident(p, "an attribute", &name));
  SN_TRY(sn_tx_need(p, '=', "after the name of an attribute"));
  for (int i = 0; i < N_NOTE_ROWS; i++) {
    if (!sn_tx_span_is(name, note_rows[i].text)) continue;
    SN_TRY(attrs_once(p, at, &a->seen_notes, i, name));
    return note_rows[i].fn(p, &a->notes);
  }
  if (a->async && sn_tx_span_is(name, sn_attrs[SN_ATTR_ASYNC_EXECUTION_THREAD].text)) return attrs_of_thread(p, a, at, name);
  SN_TRY(attrs_of_row(p, op, a, at, name, &known));
  return known ? SN_OK : attrs_unknown(p, at, op, sn_ops[op].attrs, name);
}

/* Puts the called computations into one list, on the stack. */
static sn_status attrs_gather_called(sn_tx *p, sn_tx_attrs *a) {
  a->called_from = p->stack.n;
  for (int i = 0; i < SN_TX_CALLED_SLOTS; i++) {
    if (a->called_slots[i] != NULL) SN_TRY(sn_tx_push(p, a->called_slots[i]));
  }
  for (uint32_t i = 0; i < a->n_called_list; i++) SN_TRY(sn_tx_push(p, a->called_list[i]));
  a->n_called = p->stack.n - a->called_from;
  return SN_OK;
}

static sn_status attrs_missing(sn_tx *p, sn_opcode op, const sn_tx_attrs *a, const char *op_at) {
  const uint16_t *row = sn_ops[op].attrs;
  bool slots = op == SN_OP_CONDITIONAL && (a->called_slots[0] != NULL) != (a->called_slots[1] != NULL);
  if (slots) {
    return sn_tx_fail(p, op_at, SN_ERR_ATTRIBUTE, "expected both true_computation= and false_computation= on conditional, found one");
  }
  for (int i = 0; row[i] != SN_ATTR_END; i++) {
    sn_attr_id id = (sn_attr_id)(row[i] & ~SN_ATTR_MUST);
    if ((row[i] & SN_ATTR_MUST) == 0 || attrs_is_inside(id) || (a->seen >> i & 1) != 0) continue;
    return sn_tx_fail(p, op_at, SN_ERR_ATTRIBUTE, "expected the attribute `%s` on %s, found none", sn_attrs[id].text, sn_opcode_text(op));
  }
  return SN_OK;
}

/* The main thread is the one without a name. */
static void attrs_drop_main_thread(sn_tx_attrs *a) {
  if (a->thread != NULL && strcmp(a->thread, "main") == 0) a->thread = NULL;
  for (uint32_t k = 0; k < a->n; k++) {
    if (a->v[k].id == SN_ATTR_ASYNC_EXECUTION_THREAD && strcmp(a->v[k].u.str.s, "main") == 0) a->v[k] = a->v[--a->n];
  }
}

sn_status sn_tx_attributes(sn_tx *p, sn_opcode op, sn_tx_attrs *a, bool any, const char *op_at) {
  while (any && sn_tx_accept(p, ',')) SN_TRY(attrs_one(p, op, a));
  SN_TRY(attrs_missing(p, op, a, op_at));
  attrs_drop_main_thread(a);
  return attrs_gather_called(p, a);
}
