/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Attributes of Shardy, by the codes of its bytecode.td, as the text MLIR prints between their brackets: they are carried, not understood, and the text
 * reader gives them so. The whole text of one (`#sdy.sharding<…>`) is made where a dictionary holds it (sn_bc_sdy_whole). */
#include <inttypes.h>
#include <string.h>

#include "bytecode.h"

typedef sn_status (*item_printer)(sn_bc *b, sn_bc_cursor *c, sn_str *to);

static sn_status printed(sn_bc *b, const char *kind, sn_str *text, sn_status s, const sn_mlir_attr **out) {
  sn_str_add(text, "");
  if (s == SN_OK && text->failed) s = sn_bc_memory(b);
  if (s == SN_OK) {
    sn_mlir_attr *a = sn_mlir_attr_string(b->m, SN_MA_OPAQUE, text->data, text->n);
    if (a != NULL) a->name = kind;
    else s = sn_bc_memory(b);
    *out = a;
    b->weight += (uint32_t)(text->n >> 4); /* text is copied by whatever holds it */
  }
  sn_str_finish(text);
  return s;
}

/* A reference to an attribute of that kind: its text. */
static sn_status part(sn_bc *b, sn_bc_cursor *c, const char *kind, sn_str *to) {
  const sn_mlir_attr *a = NULL;
  SN_TRY(sn_bc_attr(b, c, kind, &a));
  if (a->kind != SN_MA_OPAQUE || a->name == NULL || strcmp(a->name, kind) != 0) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected an attribute %s, found another one", kind);
  sn_str_add(to, a->s);
  return SN_OK;
}

static sn_status list(sn_bc *b, sn_bc_cursor *c, const char *what, item_printer print, sn_str *to, uint64_t *n) {
  SN_TRY(sn_bc_count(b, c, what, n));
  for (uint64_t i = 0; i < *n; i++) {
    if (i != 0) sn_str_add(to, ", ");
    SN_TRY(print(b, c, to));
  }
  return SN_OK;
}

/* MLIR escapes what is not printable, quotes and backslashes as \HH. */
static void quoted(sn_str *to, const char *s, size_t n) {
  sn_str_char(to, '"');
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)s[i];
    if (c == '\\') sn_str_add(to, "\\\\");
    else if (c < 0x20 || c > 0x7e || c == '"') sn_str_printf(to, "\\%02X", (unsigned)c);
    else sn_str_char(to, (char)c);
  }
  sn_str_char(to, '"');
}

static sn_status name(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  sn_bc_string s;
  SN_TRY(sn_bc_string_ref(b, c, "an axis's name", &s));
  quoted(to, s.s, s.n);
  return SN_OK;
}

static sn_status integer(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  int64_t v = 0;
  SN_TRY(sn_bc_int(b, c, "a number", &v));
  sn_str_i64(to, v);
  return SN_OK;
}

/* ---- meshes ---- */

static sn_status manual_axis(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  const sn_mlir_attr *a = NULL;
  SN_TRY(sn_bc_attr(b, c, "an axis's name", &a));
  if (a->kind != SN_MA_STRING) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a string as an axis's name, found another attribute");
  quoted(to, a->s, (size_t)a->n);
  return SN_OK;
}

static sn_status manual_axes(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  uint64_t n = 0;
  return list(b, c, "a number of axes", manual_axis, to, &n);
}

static sn_status mesh_axis(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  SN_TRY(name(b, c, to));
  sn_str_char(to, '=');
  return integer(b, c, to);
}

static sn_status mesh_axis_part(sn_bc *b, sn_bc_cursor *c, sn_str *to) { return part(b, c, "sdy.mesh_axis", to); }

static sn_status mesh(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  uint64_t n = 0;
  sn_str devices = {0};
  sn_str_char(to, '[');
  SN_TRY(list(b, c, "a number of axes", mesh_axis_part, to, &n));
  sn_str_char(to, ']');
  sn_status s = list(b, c, "a number of devices", integer, &devices, &n);
  if (s == SN_OK && n != 0) sn_str_printf(to, ", device_ids=[%s]", devices.data != NULL ? devices.data : "");
  if (devices.failed) to->failed = true;
  sn_str_finish(&devices);
  return s;
}

static sn_status sub_axis(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  sn_str_add(to, ":(");
  SN_TRY(integer(b, c, to));
  sn_str_char(to, ')');
  return integer(b, c, to);
}

static sn_status axis(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  const sn_mlir_attr *piece = NULL;
  SN_TRY(name(b, c, to));
  SN_TRY(sn_bc_attr_optional(b, c, "a piece of an axis", &piece));
  if (piece == NULL) return SN_OK;
  if (piece->kind != SN_MA_OPAQUE || piece->name == NULL || strcmp(piece->name, "sdy.sub_axis_info") != 0)
    return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected an attribute sdy.sub_axis_info, found another one");
  sn_str_add(to, piece->s);
  return SN_OK;
}

static sn_status axis_part(sn_bc *b, sn_bc_cursor *c, sn_str *to) { return part(b, c, "sdy.axis_ref", to); }

/* ---- shardings ---- */

/* `{"x", ?}p1` */
static sn_status dimension(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  uint64_t n = 0, priority = 0;
  uint8_t closed = 0;
  sn_str_char(to, '{');
  SN_TRY(list(b, c, "a number of axes", axis_part, to, &n));
  SN_TRY(sn_bc_byte(b, c, "whether a dimension is closed", &closed));
  if (closed == 0) sn_str_add(to, n != 0 ? ", ?" : "?");
  sn_str_char(to, '}');
  SN_TRY(sn_bc_uint(b, c, "a priority", &priority));
  if ((priority & 1) != 0) sn_str_printf(to, "p%" PRIu64, priority >> 1);
  return SN_OK;
}

static sn_status dimension_part(sn_bc *b, sn_bc_cursor *c, sn_str *to) { return part(b, c, "sdy.dimension_sharding", to); }

/* Letters, digits, _ $ . and no digit first: a symbol without quotes. */
static bool is_bare(const sn_mlir_attr *a) {
  for (int64_t i = 0; i < a->n; i++) {
    char c = a->s[i];
    bool first = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!first && (i == 0 || !((c >= '0' && c <= '9') || c == '$' || c == '.'))) return false;
  }
  return a->n != 0;
}

static sn_status mesh_or_symbol(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  const sn_mlir_attr *a = NULL;
  SN_TRY(sn_bc_attr(b, c, "a mesh", &a));
  if (a->kind == SN_MA_SYMBOL) {
    sn_str_char(to, '@');
    if (is_bare(a)) sn_str_add(to, a->s);
    else quoted(to, a->s, (size_t)a->n);
    return SN_OK;
  }
  if (a->kind != SN_MA_OPAQUE || a->name == NULL || strcmp(a->name, "sdy.mesh") != 0) return sn_bc_fail(b, c, SN_ERR_SYNTAX, "expected a mesh or its name, found another attribute");
  sn_str_printf(to, "mesh<%s>", a->s);
  return SN_OK;
}

/* `, replicated={"x"}`; nothing for none. */
static sn_status named_axes(sn_bc *b, sn_bc_cursor *c, const char *key, sn_str *to) {
  uint64_t n = 0;
  sn_str axes = {0};
  sn_status s = list(b, c, "a number of axes", axis_part, &axes, &n);
  if (s == SN_OK && n != 0) sn_str_printf(to, ", %s{%s}", key, axes.data != NULL ? axes.data : "");
  if (axes.failed) to->failed = true;
  sn_str_finish(&axes);
  return s;
}

enum { SUM, MAX, MIN };

/* Sums are not written; the operator stands behind the axes that it reduces. */
static sn_status unreduced(sn_bc *b, sn_bc_cursor *c, bool has_op, sn_str *to) {
  int64_t op = SUM;
  sn_bc_cursor axes = *c;
  uint64_t n = 0, unused = 0;
  SN_TRY(sn_bc_count(b, c, "a number of axes", &n));
  for (uint64_t i = 0; i < n; i++) SN_TRY(sn_bc_uint(b, c, "an axis", &unused));
  if (has_op) SN_TRY(sn_bc_int(b, c, "a reduction", &op));
  if (op < SUM || op > MIN) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected a reduction 0…%d, found %" PRId64, MIN, op);
  return named_axes(b, &axes, op == MAX ? "unreduced=max" : op == MIN ? "unreduced=min" : "unreduced=", to);
}

static sn_status sharding(sn_bc *b, sn_bc_cursor *c, int version, sn_str *to) {
  uint64_t n = 0;
  SN_TRY(mesh_or_symbol(b, c, to));
  sn_str_add(to, ", [");
  SN_TRY(list(b, c, "a number of dimensions", dimension_part, to, &n));
  sn_str_char(to, ']');
  SN_TRY(named_axes(b, c, "replicated=", to));
  return version > 1 ? unreduced(b, c, version > 2, to) : SN_OK;
}

static sn_status sharding_v1(sn_bc *b, sn_bc_cursor *c, sn_str *to) { return sharding(b, c, 1, to); }
static sn_status sharding_v2(sn_bc *b, sn_bc_cursor *c, sn_str *to) { return sharding(b, c, 2, to); }
static sn_status sharding_v3(sn_bc *b, sn_bc_cursor *c, sn_str *to) { return sharding(b, c, 3, to); }

static sn_status sharding_part(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  sn_str_char(to, '<');
  SN_TRY(part(b, c, "sdy.sharding", to));
  sn_str_char(to, '>');
  return SN_OK;
}

static sn_status per_value(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  uint64_t n = 0;
  return list(b, c, "a number of shardings", sharding_part, to, &n);
}

/* Rules of propagation and parameters of collectives: only that they are there. */
static sn_status skipped(sn_bc *b, sn_bc_cursor *c, sn_str *to) {
  (void)b;
  c->at = c->end;
  sn_str_add(to, "...");
  return SN_OK;
}

/* ---- by code ---- */

typedef struct row {
  const char *kind, *open, *close; /* of the whole text */
  item_printer print;
} row;

static const row rows[] = {
    {"sdy.manual_axes", "#sdy<manual_axes{", "}>", manual_axes},
    {"sdy.mesh_axis", "#sdy.mesh_axis<", ">", mesh_axis},
    {"sdy.mesh", "#sdy.mesh<", ">", mesh},
    {"sdy.sub_axis_info", "#sdy.sub_axis_info<", ">", sub_axis},
    {"sdy.axis_ref", "#sdy.axis_ref<", ">", axis},
    {"sdy.dimension_sharding", "#sdy.dimension_sharding<", ">", dimension},
    {"sdy.sharding", "#sdy.sharding<", ">", sharding_v1},
    {"sdy.sharding_per_value", "#sdy.sharding_per_value<[", "]>", per_value},
    {"sdy.dim_mapping", "#sdy.dim_mapping<", ">", skipped},
    {"sdy.tensor_mapping", "#sdy.tensor_mapping<", ">", skipped},
    {"sdy.op_sharding_rule", "#sdy.op_sharding_rule<", ">", skipped},
    {"sdy.axis_ref_list", "#sdy.axis_ref_list<", ">", skipped},
    {"sdy.list_of_axis_ref_lists", "#sdy.list_of_axis_ref_lists<", ">", skipped},
    {"sdy.all_to_all_param", "#sdy.all_to_all_param<", ">", skipped},
    {"sdy.all_to_all_param_list", "#sdy.all_to_all_param_list<", ">", skipped},
    {"sdy.sharding", "#sdy.sharding<", ">", sharding_v2},
    {"sdy.sharding_per_value", "#sdy.sharding_per_value<[", "]>", per_value},
    {"sdy.sharding", "#sdy.sharding<", ">", sharding_v3},
};
enum { N_ROWS = sizeof rows / sizeof rows[0] };

sn_status sn_bc_sdy_attr(sn_bc *b, sn_bc_cursor *c, const sn_mlir_attr **out) {
  uint64_t code = 0;
  sn_str text = {0};
  SN_TRY(sn_bc_uint(b, c, "an attribute's code", &code));
  if (code >= N_ROWS) return sn_bc_fail(b, c, SN_ERR_UNSUPPORTED, "expected an attribute of sdy that is known here, found code %" PRIu64 ", written by %s", code, b->producer);
  return printed(b, rows[code].kind, &text, rows[code].print(b, c, &text), out);
}

sn_status sn_bc_sdy_whole(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  if (a->kind != SN_MA_OPAQUE || a->name == NULL || a->s == NULL || a->s[0] == '#') return SN_OK;
  for (size_t i = 0; i < N_ROWS; i++) {
    if (a->name != rows[i].kind && strcmp(a->name, rows[i].kind) != 0) continue;
    const char *text = sn_arena_printf(b->m->arena, "%s%s%s", rows[i].open, a->s, rows[i].close);
    sn_mlir_attr *whole = text != NULL ? sn_mlir_attr_string(b->m, SN_MA_OPAQUE, text, strlen(text)) : NULL;
    if (whole == NULL) return sn_bc_memory(b);
    whole->name = rows[i].kind;
    b->weight += (uint32_t)(whole->n >> 4);
    *out = whole;
    return SN_OK;
  }
  return SN_OK;
}

sn_status sn_bc_sdy_bare(sn_bc *b, const sn_mlir_attr *a, const sn_mlir_attr **out) {
  *out = a;
  if (a->kind != SN_MA_OPAQUE || a->s == NULL || a->s[0] != '#') return SN_OK;
  for (size_t i = 0; i < N_ROWS; i++) {
    size_t open = strlen(rows[i].open), close = strlen(rows[i].close), n = strlen(a->s);
    if (n < open + close || strncmp(a->s, rows[i].open, open) != 0 || strcmp(a->s + n - close, rows[i].close) != 0) continue;
    sn_mlir_attr *bare = sn_mlir_attr_string(b->m, SN_MA_OPAQUE, a->s + open, n - open - close);
    *out = bare;
    return bare != NULL ? SN_OK : sn_bc_memory(b);
  }
  return SN_OK;
}
