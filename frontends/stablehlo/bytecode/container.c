/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The container: variable-length integers, sections, strings, dialects with their op names, the places of attributes, types and properties. */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

static const char *const section_names[SN_BC_SECTIONS] = {"String",        "Dialect",  "AttrType",        "AttrTypeOffset",  "IR",
                                                          "Resource",      "ResourceOffset", "DialectVersions", "Properties"};
enum { STRING, DIALECT, ATTR_TYPE, ATTR_TYPE_OFFSET, IR, RESOURCE, RESOURCE_OFFSET, DIALECT_VERSIONS, PROPERTIES };

/* ---- faults ---- */

sn_status sn_bc_fail(sn_bc *b, const sn_bc_cursor *c, sn_status s, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return sn_error(b->d, (sn_loc){b->file, 0, 0}, s, "byte %zu, section %s: %s", (size_t)(c->at - b->base), c->section, text);
}

sn_status sn_bc_memory(sn_bc *b) { return sn_out_of_memory(b->d, 0); }

/* ---- numbers ---- */

static sn_status cut_short(sn_bc *b, const sn_bc_cursor *c, const char *what) {
  return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %s, found the end of the section", what);
}

sn_status sn_bc_byte(sn_bc *b, sn_bc_cursor *c, const char *what, uint8_t *out) {
  if (c->at == c->end) return cut_short(b, c, what);
  *out = *c->at++;
  return SN_OK;
}

static uint64_t little_endian(const uint8_t *p, size_t n) {
  uint64_t v = 0;
  for (size_t i = 0; i < n; i++) v |= (uint64_t)p[i] << (8 * i);
  return v;
}

/* The zero bits at the bottom of the first byte count the bytes that follow it; a first byte of 0: eight, without bits of its own. */
sn_status sn_bc_uint(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t *out) {
  *out = 0;
  if (c->at == c->end) return cut_short(b, c, what);
  uint8_t first = *c->at;
  if (first & 1) {
    c->at++;
    *out = first >> 1;
    return SN_OK;
  }
  size_t more = 1;
  while (more < 8 && (first >> more & 1) == 0) more++;
  if (sn_bc_left(c) < more + 1) return cut_short(b, c, what);
  *out = first == 0 ? little_endian(c->at + 1, 8) : little_endian(c->at, more + 1) >> (more + 1);
  c->at += more + 1;
  return SN_OK;
}

sn_status sn_bc_int(sn_bc *b, sn_bc_cursor *c, const char *what, int64_t *out) {
  uint64_t v = 0;
  *out = 0;
  SN_TRY(sn_bc_uint(b, c, what, &v));
  *out = (int64_t)((v >> 1) ^ (0 - (v & 1)));
  return SN_OK;
}

sn_status sn_bc_count(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t *out) {
  SN_TRY(sn_bc_uint(b, c, what, out));
  if (*out <= sn_bc_left(c) && *out <= INT32_MAX) return SN_OK;
  return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %s of at most %zu, as many as bytes are left, found %" PRIu64, what, sn_bc_left(c), *out);
}

sn_status sn_bc_index(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t n, uint64_t *out) {
  SN_TRY(sn_bc_uint(b, c, what, out));
  if (*out < n) return SN_OK;
  return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %s below %" PRIu64 ", found %" PRIu64, what, n, *out);
}

sn_status sn_bc_bytes(sn_bc *b, sn_bc_cursor *c, const char *what, uint64_t n, const uint8_t **out) {
  *out = NULL;
  if (n > sn_bc_left(c)) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %" PRIu64 " bytes of %s, found %zu", n, what, sn_bc_left(c));
  *out = c->at;
  c->at += n;
  return SN_OK;
}

sn_status sn_bc_string_ref(sn_bc *b, sn_bc_cursor *c, const char *what, sn_bc_string *out) {
  uint64_t k = 0;
  SN_TRY(sn_bc_index(b, c, what, b->n_strings, &k));
  *out = b->strings[k];
  return SN_OK;
}

/* ---- sections ---- */

enum { PADDING = 0xcb };

static sn_status padding(sn_bc *b, sn_bc_cursor *c) {
  uint64_t alignment = 0;
  SN_TRY(sn_bc_uint(b, c, "an alignment", &alignment));
  if (alignment == 0 || alignment > 1 << 20 || (alignment & (alignment - 1)) != 0)
    return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected an alignment that is a power of two up to 1 MiB, found %" PRIu64, alignment);
  while ((size_t)(c->at - b->base) % alignment != 0) {
    uint8_t v = 0;
    SN_TRY(sn_bc_byte(b, c, "padding", &v));
    if (v != PADDING) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected padding of 0x%02x, found 0x%02x", PADDING, v);
  }
  return SN_OK;
}

sn_status sn_bc_section(sn_bc *b, sn_bc_cursor *c, uint8_t *id, sn_bc_cursor *out) {
  uint64_t length = 0;
  const uint8_t *data = NULL;
  SN_TRY(sn_bc_byte(b, c, "a section", id));
  bool aligned = (*id & 0x80) != 0;
  *id &= 0x7f;
  if (*id >= SN_BC_SECTIONS) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a section numbered 0…%d, found %d", SN_BC_SECTIONS - 1, *id);
  SN_TRY(sn_bc_uint(b, c, "the length of a section", &length));
  if (aligned) SN_TRY(padding(b, c));
  SN_TRY(sn_bc_bytes(b, c, section_names[*id], length, &data));
  *out = (sn_bc_cursor){data, data + length, section_names[*id]};
  return SN_OK;
}

static sn_status sections(sn_bc *b, sn_bc_cursor *c) {
  static const uint8_t needed[] = {STRING, DIALECT, ATTR_TYPE, ATTR_TYPE_OFFSET, IR};
  while (c->at < c->end) {
    uint8_t id = 0;
    sn_bc_cursor data;
    SN_TRY(sn_bc_section(b, c, &id, &data));
    if (b->have[id]) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the section %s once, found it twice", section_names[id]);
    b->have[id] = true;
    b->sections[id] = data;
  }
  for (size_t i = 0; i < sizeof needed; i++)
    if (!b->have[needed[i]]) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a section %s, found none", section_names[needed[i]]);
  return SN_OK;
}

/* ---- strings ---- */

/* Sizes stand in reverse; the characters, in order, end the section. */
static sn_status string_section(sn_bc *b) {
  sn_bc_cursor *c = &b->sections[STRING];
  const uint8_t *chars = NULL;
  uint64_t n = 0, total = 0;
  SN_TRY(sn_bc_count(b, c, "a number of strings", &n));
  b->strings = SN_NEW_N(b->m->arena, sn_bc_string, n + 1);
  if (b->strings == NULL) return sn_bc_memory(b);
  for (uint64_t i = n; i-- > 0;) {
    uint64_t size = 0;
    SN_TRY(sn_bc_uint(b, c, "the size of a string", &size));
    if (size == 0 || size > sn_bc_left(c)) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string's size in 1…%zu, found %" PRIu64, sn_bc_left(c), size);
    b->strings[i].n = (size_t)size - 1;
    total += size; /* at most n times the section: no overflow */
  }
  if (total != sn_bc_left(c)) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %" PRIu64 " characters, found %zu", total, sn_bc_left(c));
  SN_TRY(sn_bc_bytes(b, c, "characters", total, &chars));
  char *copy = sn_arena_copy(b->m->arena, chars, (size_t)total);
  if (copy == NULL && total != 0) return sn_bc_memory(b);
  for (uint64_t i = 0; i < n; i++) {
    b->strings[i].s = copy;
    copy += b->strings[i].n + 1;
    if (copy[-1] != '\0') return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a NUL behind string %" PRIu64, i);
  }
  b->n_strings = n;
  return SN_OK;
}

/* ---- dialects and op names ---- */

static sn_bc_dialect dialect_kind(const char *name) {
  static const struct { const char *name; sn_bc_dialect kind; } known[] = {{"builtin", SN_BC_BUILTIN}, {"vhlo", SN_BC_VHLO}, {"sdy", SN_BC_SDY}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].kind;
  return SN_BC_OTHER;
}

static sn_status dialect_name(sn_bc *b, sn_bc_cursor *c, uint64_t k) {
  uint64_t v = 0;
  SN_TRY(sn_bc_uint(b, c, "a dialect's name", &v));
  bool has_version = b->version >= 1 && (v & 1) != 0;
  if (b->version >= 1) v >>= 1;
  if (v >= b->n_strings) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string below %" PRIu64 " as a dialect's name, found %" PRIu64, b->n_strings, v);
  b->dialects[k] = b->strings[v].s;
  b->dialect_kinds[k] = dialect_kind(b->strings[v].s);
  if (!has_version) return SN_OK;
  uint8_t id = 0;
  sn_bc_cursor unused; /* a version of the dialect's own: the encodings we read have not changed with it */
  SN_TRY(sn_bc_section(b, c, &id, &unused));
  return id == DIALECT_VERSIONS ? SN_OK : sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the section DialectVersions, found %s", section_names[id]);
}

static sn_status op_name(sn_bc *b, sn_bc_cursor *c, const char *dialect, sn_bc_op_name *op) {
  uint64_t v = 0;
  SN_TRY(sn_bc_uint(b, c, "an op's name", &v));
  if (b->version >= 5) {
    op->registered = (v & 1) != 0;
    v >>= 1;
  }
  if (v >= b->n_strings) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string below %" PRIu64 " as an op's name, found %" PRIu64, b->n_strings, v);
  op->full = sn_arena_printf(b->m->arena, "%s.%s", dialect, b->strings[v].s);
  if (op->full == NULL) return sn_bc_memory(b);
  return sn_bc_op_resolve(b, c, op);
}

static sn_status op_names(sn_bc *b, sn_bc_cursor *c) {
  uint64_t cap = 0, stated = 0;
  /* Before version 4 no total is given: as many as bytes are left. */
  if (b->version >= 4) SN_TRY(sn_bc_count(b, c, "a number of op names", &stated));
  cap = b->version >= 4 ? stated : sn_bc_left(c);
  b->op_names = SN_NEW_N(b->m->arena, sn_bc_op_name, cap + 1);
  if (b->op_names == NULL) return sn_bc_memory(b);
  while (c->at < c->end) {
    uint64_t dialect = 0, n = 0;
    SN_TRY(sn_bc_index(b, c, "a dialect", b->n_dialects, &dialect));
    SN_TRY(sn_bc_count(b, c, "a number of op names", &n));
    if (n > cap - b->n_op_names) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %" PRIu64 " op names in all, found more", cap);
    for (uint64_t i = 0; i < n; i++) SN_TRY(op_name(b, c, b->dialects[dialect], &b->op_names[b->n_op_names++]));
  }
  if (b->version >= 4 && b->n_op_names != stated) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected %" PRIu64 " op names, found %" PRIu64, stated, b->n_op_names);
  return SN_OK;
}

static sn_status dialect_section(sn_bc *b) {
  sn_bc_cursor *c = &b->sections[DIALECT];
  SN_TRY(sn_bc_count(b, c, "a number of dialects", &b->n_dialects));
  if (b->n_dialects > UINT16_MAX) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "more than %d dialects", UINT16_MAX);
  b->dialects = SN_NEW_N(b->m->arena, const char *, b->n_dialects + 1);
  b->dialect_kinds = SN_NEW_N(b->m->arena, sn_bc_dialect, b->n_dialects + 1);
  if (b->dialects == NULL || b->dialect_kinds == NULL) return sn_bc_memory(b);
  for (uint64_t k = 0; k < b->n_dialects; k++) SN_TRY(dialect_name(b, c, k));
  return op_names(b, c);
}

/* ---- places of attributes and types ---- */

static sn_status entry_group(sn_bc *b, sn_bc_cursor *c, sn_bc_cursor *data, sn_bc_entry *to, uint64_t room, uint64_t *n) {
  uint64_t dialect = 0;
  SN_TRY(sn_bc_index(b, c, "a dialect", b->n_dialects, &dialect));
  SN_TRY(sn_bc_count(b, c, "a number of entries", n));
  if (*n == 0 || *n > room) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected 1…%" PRIu64 " entries of a dialect, found %" PRIu64, room, *n);
  for (uint64_t i = 0; i < *n; i++) {
    uint64_t v = 0;
    const uint8_t *at = NULL;
    SN_TRY(sn_bc_uint(b, c, "the size of an entry", &v));
    SN_TRY(sn_bc_bytes(b, data, "an attribute or type", v >> 1, &at));
    to[i] = (sn_bc_entry){.at = at, .end = at + (v >> 1), .dialect = (uint16_t)dialect, .custom = (v & 1) != 0};
  }
  return SN_OK;
}

static sn_status entries(sn_bc *b, sn_bc_cursor *c, sn_bc_cursor *data, sn_bc_entry *to, uint64_t wanted) {
  for (uint64_t done = 0, n = 0; done < wanted; done += n) SN_TRY(entry_group(b, c, data, to + done, wanted - done, &n));
  return SN_OK;
}

static sn_status offset_section(sn_bc *b) {
  sn_bc_cursor *c = &b->sections[ATTR_TYPE_OFFSET], data = b->sections[ATTR_TYPE];
  SN_TRY(sn_bc_count(b, c, "a number of attributes", &b->n_attrs));
  SN_TRY(sn_bc_count(b, c, "a number of types", &b->n_types));
  b->attrs = SN_NEW_N(b->m->arena, sn_bc_entry, b->n_attrs + 1);
  b->types = SN_NEW_N(b->m->arena, sn_bc_entry, b->n_types + 1);
  if (b->attrs == NULL || b->types == NULL) return sn_bc_memory(b);
  SN_TRY(entries(b, c, &data, b->attrs, b->n_attrs));
  return entries(b, c, &data, b->types, b->n_types);
}

static sn_status property_section(sn_bc *b) {
  if (!b->have[PROPERTIES]) return SN_OK;
  sn_bc_cursor *c = &b->sections[PROPERTIES];
  uint64_t n = 0;
  SN_TRY(sn_bc_count(b, c, "a number of properties", &n));
  b->props = SN_NEW_N(b->m->arena, sn_bc_props, n + 1);
  if (b->props == NULL) return sn_bc_memory(b);
  for (uint64_t i = 0; i < n; i++) {
    uint64_t size = 0;
    SN_TRY(sn_bc_uint(b, c, "the size of properties", &size));
    SN_TRY(sn_bc_bytes(b, c, "properties", size, &b->props[i].at));
    b->props[i].end = b->props[i].at + size;
  }
  b->n_props = n;
  return SN_OK;
}

/* ---- the whole ---- */

static sn_status header(sn_bc *b, sn_bc_cursor *c) {
  if (sn_bc_left(c) < 4 || memcmp(c->at, "ML\xefR", 4) != 0) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the magic ML\\xefR of MLIR bytecode, found other bytes");
  c->at += 4;
  SN_TRY(sn_bc_uint(b, c, "the version of the bytecode", &b->version));
  const uint8_t *nul = sn_bc_left(c) != 0 ? memchr(c->at, '\0', sn_bc_left(c)) : NULL;
  if (nul == NULL) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected the producer's name and a NUL, found the end of the file");
  b->producer = sn_arena_string_n(b->m->arena, (const char *)c->at, (size_t)(nul - c->at));
  if (b->producer == NULL) return sn_bc_memory(b);
  c->at = nul + 1;
  if (b->version <= SN_BC_MAX_VERSION) return SN_OK;
  sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected MLIR bytecode of a version up to %d, found version %" PRIu64 ", written by %s", SN_BC_MAX_VERSION, b->version, b->producer);
  sn_hint(b->d, "serialise the program for StableHLO 1.20.0 or older");
  return SN_ERR_UNSUPPORTED;
}

sn_status sn_bc_container(sn_bc *b) {
  sn_bc_cursor c = {b->base, b->base + b->n_bytes, "Header"};
  SN_TRY(header(b, &c));
  SN_TRY(sections(b, &c));
  SN_TRY(string_section(b));
  SN_TRY(dialect_section(b));
  SN_TRY(offset_section(b));
  return property_section(b);
}
