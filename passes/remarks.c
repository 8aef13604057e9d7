/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Remarks: the log, and its two printed forms. */
#include "passes_internal.h"

#include <math.h>
#include <string.h>

static const struct { const char *text, *meaning; } reasons[SN_REASON_COUNT] = {
#define SN_REASON(id, text, meaning) {text, meaning},
#include "sinter/reasons.def"
#undef SN_REASON
};

const char *sn_reason_text(sn_reason r) { return (unsigned)r < SN_REASON_COUNT ? reasons[r].text : "invalid"; }
const char *sn_reason_meaning(sn_reason r) { return (unsigned)r < SN_REASON_COUNT ? reasons[r].meaning : "invalid"; }

struct sn_remarks {
  sn_arena *arena; /* strings and numbers: names outlive the instructions they name */
  sn_remark *list;
  size_t n, cap;
};

sn_status sn_remarks_create(sn_remarks **out) {
  *out = NULL;
  sn_remarks *r = sn_alloc_zero(1, sizeof *r);
  if (!r) return SN_ERR_MEMORY;
  if (sn_arena_create(&r->arena) != SN_OK) {
    sn_free(r);
    return SN_ERR_MEMORY;
  }
  *out = r;
  return SN_OK;
}

void sn_remarks_destroy(sn_remarks *r) {
  if (!r) return;
  sn_arena_destroy(r->arena);
  sn_free(r->list);
  sn_free(r);
}

void sn_remarks_clear(sn_remarks *r) {
  if (!r) return;
  sn_arena_reset(r->arena);
  r->n = 0;
}

size_t sn_remarks_count(const sn_remarks *r) { return r ? r->n : 0; }
const sn_remark *sn_remarks_get(const sn_remarks *r, size_t i) { return r && i < r->n ? &r->list[i] : NULL; }

static sn_remark *append(sn_remarks *r) {
  if (r->n == r->cap) {
    size_t cap = r->cap ? 2 * r->cap : 64;
    sn_remark *list = sn_realloc(r->list, cap * sizeof *list);
    if (!list) return NULL;
    r->list = list;
    r->cap = cap;
  }
  sn_remark *x = &r->list[r->n];
  memset(x, 0, sizeof *x);
  return x;
}

static const char *source_of(sn_arena *a, const sn_instr *i) {
  const sn_metadata *md = i ? i->metadata : NULL;
  if (!md || !md->source_file) return NULL;
  return md->source_line > 0 ? sn_arena_printf(a, "%s:%d", md->source_file, (int)md->source_line) : sn_arena_string(a, md->source_file);
}

static const sn_number *copy_numbers(sn_arena *a, int n, const sn_number *from) {
  sn_number *to = n > 0 ? sn_arena_copy(a, from, (size_t)n * sizeof *from) : NULL;
  for (int k = 0; to && k < n; k++) {
    if (!(to[k].name = sn_arena_string(a, from[k].name))) return NULL;
  }
  return to;
}

/* A remark that memory has no room for is lost: losing words must not fail a compile. */
void sn_pass_remark(sn_pass_ctx *pc, sn_verdict v, sn_reason reason, const sn_instr *subject, const sn_instr *object, int n, const sn_number *numbers,
                    const char *text) {
  sn_remarks *r = pc->remarks;
  sn_remark *x = r ? append(r) : NULL;
  if (!x) return;
  x->pass = pc->pass;
  x->verdict = v;
  x->reason = reason;
  x->subject = subject ? sn_arena_string(r->arena, subject->name) : NULL;
  x->object = object ? sn_arena_string(r->arena, object->name) : NULL;
  x->loc = subject ? subject->loc : SN_NOWHERE;
  x->loc.file = sn_arena_string(r->arena, x->loc.file);
  x->source = source_of(r->arena, subject);
  x->numbers = copy_numbers(r->arena, n, numbers);
  x->n_numbers = x->numbers ? n : 0;
  x->text = sn_arena_string(r->arena, text);
  r->n++;
}

/* ---- printing ---- */

/* What comes behind the passes makes remarks as "code". */
static const char *maker(const sn_remark *r) { return r->pass < SN_PASS_COUNT ? sn_passes[r->pass].text : "code"; }

static const char *verdict_text(sn_verdict v) { return v == SN_DONE ? "done" : v == SN_REFUSED ? "refused" : "info"; }

static void print_number(sn_str *to, double v) {
  if (v == floor(v) && fabs(v) < 1e15) sn_str_i64(to, (int64_t)v);
  else sn_str_printf(to, "%.4g", v);
}

void sn_remark_print(sn_str *to, const sn_remark *r) {
  sn_str_printf(to, "%s: %s:", maker(r), verdict_text(r->verdict));
  if (r->subject) sn_str_printf(to, " %s", r->subject);
  if (r->object) sn_str_printf(to, " into %s", r->object);
  sn_str_printf(to, "%s %s", r->subject ? ":" : "", sn_reason_text(r->reason));
  if (r->text) sn_str_printf(to, " (%s)", r->text);
  for (int k = 0; k < r->n_numbers; k++) {
    sn_str_printf(to, " %s=", r->numbers[k].name);
    print_number(to, r->numbers[k].value);
  }
  if (r->source) sn_str_printf(to, " at %s", r->source);
}

static void json_string(sn_str *to, const char *s) {
  sn_str_char(to, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') sn_str_printf(to, "\\%c", c);
    else if (c < 0x20) sn_str_printf(to, "\\u%04x", c);
    else sn_str_char(to, *s);
  }
  sn_str_char(to, '"');
}

static void json_field(sn_str *to, const char *name, const char *value) {
  if (!value) return;
  sn_str_printf(to, ", \"%s\": ", name);
  json_string(to, value);
}

void sn_remark_print_json(sn_str *to, const sn_remark *r) {
  sn_str_printf(to, "{\"pass\": \"%s\", \"verdict\": \"%s\", \"reason\": \"%s\"", maker(r), verdict_text(r->verdict), sn_reason_text(r->reason));
  json_field(to, "subject", r->subject);
  json_field(to, "object", r->object);
  json_field(to, "file", r->loc.file);
  if (r->loc.file) sn_str_printf(to, ", \"line\": %u", (unsigned)r->loc.line);
  json_field(to, "source", r->source);
  json_field(to, "text", r->text);
  if (r->n_numbers) {
    sn_str_add(to, ", \"numbers\": {");
    for (int k = 0; k < r->n_numbers; k++) {
      sn_str_printf(to, "%s\"%s\": ", k ? ", " : "", r->numbers[k].name);
      if (isfinite(r->numbers[k].value)) sn_str_printf(to, "%.17g", r->numbers[k].value);
      else sn_str_add(to, "null");
    }
    sn_str_char(to, '}');
  }
  sn_str_char(to, '}');
}
