/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Collecting diagnostics. Printing them is diag_print.c. */
#include "diag_internal.h"

#include <string.h>

#define DIAG_DEFAULT_LIMIT 100u
#define DIAG_FIRST_ENTRIES 8u    /* made beforehand, so that the first "out of memory" has a place */
#define DIAG_NOTES_PER_FAULT 8u
#define DIAG_CONTEXT_MAX 4096u   /* lines of a literal may be megabytes; more than this is a window */

sn_status sn_diag_create(sn_diag **out) {
  *out = NULL;
  sn_diag *d = sn_alloc_zero(1, sizeof *d);
  if (d == NULL) return SN_ERR_MEMORY;
  d->limit = DIAG_DEFAULT_LIMIT;
  d->last_stored = true;
  d->entries = sn_alloc_zero(DIAG_FIRST_ENTRIES, sizeof *d->entries);
  d->cap = DIAG_FIRST_ENTRIES;
  if (d->entries == NULL || sn_arena_create(&d->strings) != SN_OK) {
    sn_diag_destroy(d);
    return SN_ERR_MEMORY;
  }
  *out = d;
  return SN_OK;
}

void sn_diag_destroy(sn_diag *d) {
  if (d == NULL) return;
  for (size_t i = 0; i < d->n_sources; i++) sn_free(d->sources[i].name);
  sn_free(d->sources);
  sn_arena_destroy(d->strings);
  sn_free(d->entries);
  sn_free(d);
}

static diag_source *diag_find_source(const sn_diag *d, const char *name) {
  for (size_t i = 0; i < d->n_sources; i++) {
    if (strcmp(d->sources[i].name, name) == 0) return &d->sources[i];
  }
  return NULL;
}

/* Without memory the later diagnostics lack their source line, nothing more. */
void sn_diag_set_source(sn_diag *d, const char *name, const char *text, size_t n_bytes) {
  if (d == NULL || name == NULL) return;
  diag_source *known = diag_find_source(d, name);
  if (known != NULL) {
    known->text = text;
    known->n_bytes = n_bytes;
    return;
  }
  diag_source *grown = sn_realloc(d->sources, (d->n_sources + 1) * sizeof *grown);
  if (grown == NULL) return;
  d->sources = grown;
  size_t length = strlen(name) + 1;
  char *copy = sn_alloc(length);
  if (copy == NULL) return;
  memcpy(copy, name, length);
  d->sources[d->n_sources++] = (diag_source){copy, text, n_bytes};
}

void sn_diag_set_limit(sn_diag *d, size_t n) {
  if (d != NULL) d->limit = n;
}

size_t sn_diag_count(const sn_diag *d, sn_severity at_least) {
  size_t n = 0;
  for (int s = (int)at_least; d != NULL && s <= (int)SN_ERROR; s++) n += d->counts[s];
  return n;
}

size_t sn_diag_stored(const sn_diag *d) {
  return d != NULL ? d->n : 0;
}

const sn_diagnostic *sn_diag_get(const sn_diag *d, size_t index) {
  return d != NULL && index < d->n ? &d->entries[index].shown : NULL;
}

void sn_diag_clear(sn_diag *d) {
  if (d == NULL) return;
  d->n = 0;
  memset(d->counts, 0, sizeof d->counts);
  memset(d->stored, 0, sizeof d->stored);
  d->last_stored = true;
  sn_arena_reset(d->strings);
}

/* A severity has a quota of its own, so that warnings never push out an error. A note belongs to the
 * diagnostic before it and is dropped with it. */
static bool diag_has_room(const sn_diag *d, sn_severity severity) {
  if (severity != SN_NOTE) return d->stored[severity] < d->limit;
  return d->last_stored && d->stored[SN_NOTE] / DIAG_NOTES_PER_FAULT < d->limit;
}

static bool diag_reserve(sn_diag *d) {
  if (d->n < d->cap) return true;
  diag_entry *grown = sn_realloc(d->entries, d->cap * 2 * sizeof *grown);
  if (grown == NULL) return false;
  d->entries = grown;
  d->cap *= 2;
  return true;
}

/* Messages are one line: what a foreign library said in several is joined. */
static char *diag_format(sn_diag *d, const char *fmt, va_list ap) {
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, again);
  va_end(again);
  char *text = n >= 0 ? sn_arena_alloc(d->strings, (size_t)n + 1) : NULL;
  if (text == NULL) return NULL;
  vsnprintf(text, (size_t)n + 1, fmt, ap);
  while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == '\r')) text[--n] = '\0';
  for (char *c = text; *c != '\0'; c++) {
    if (*c == '\n' || *c == '\r') *c = ' ';
  }
  return text;
}

/* Most diagnostics of a run name the same file: it is kept once. */
static const char *diag_keep_file(sn_diag *d, const char *file) {
  const char *last = d->n != 0 ? d->entries[d->n - 1].shown.loc.file : NULL;
  if (file == NULL || (last != NULL && strcmp(last, file) == 0)) return file != NULL ? last : NULL;
  return sn_arena_string(d->strings, file);
}

/* The line of loc in its source; false when the text has no such line. */
static bool diag_find_line(const diag_source *s, uint32_t line, const char **text, size_t *n) {
  if (s->text == NULL || line == 0) return false;
  const char *at = s->text, *end = s->text + s->n_bytes;
  for (uint32_t i = 1; i < line; i++) {
    at = memchr(at, '\n', (size_t)(end - at));
    if (at == NULL) return false;
    at++;
  }
  const char *stop = memchr(at, '\n', (size_t)(end - at));
  if (stop == NULL) stop = end;
  if (stop > at && stop[-1] == '\r') stop--;
  *text = at;
  *n = (size_t)(stop - at);
  return true;
}

static void diag_keep_context(sn_diag *d, diag_entry *e, sn_loc loc) {
  const diag_source *s = loc.file != NULL ? diag_find_source(d, loc.file) : NULL;
  const char *text;
  size_t n, from = 0;
  if (s == NULL || !diag_find_line(s, loc.line, &text, &n)) return;
  if (n > DIAG_CONTEXT_MAX) {
    size_t caret = loc.col != 0 ? loc.col - 1u : 0;
    if (caret > n) caret = n;
    if (caret > DIAG_CONTEXT_MAX / 2) from = caret - DIAG_CONTEXT_MAX / 2;
    while (from > 0 && ((unsigned char)text[from] & 0xc0) == 0x80) from--; /* not inside a character */
  }
  size_t kept = n - from < DIAG_CONTEXT_MAX ? n - from : DIAG_CONTEXT_MAX;
  e->shown.context = sn_arena_string_n(d->strings, text + from, kept);
  e->context_bytes = kept;
  e->context_from = from;
  e->context_more = from + kept < n;
}

static bool diag_store(sn_diag *d, sn_loc loc, sn_severity severity, sn_status status, const char *fmt,
                       va_list ap) {
  if (!diag_has_room(d, severity) || !diag_reserve(d)) return false;
  diag_entry e = {.shown = {.severity = severity, .status = status, .loc = loc}};
  e.shown.message = diag_format(d, fmt, ap);
  /* The one message that must get through when nothing can be allocated is a constant. */
  if (e.shown.message == NULL && status == SN_ERR_MEMORY) e.shown.message = sn_status_text(status);
  if (e.shown.message == NULL) return false;
  e.shown.loc.file = diag_keep_file(d, loc.file);
  diag_keep_context(d, &e, loc);
  d->entries[d->n++] = e;
  d->stored[severity]++;
  return true;
}

static void diag_report(sn_diag *d, sn_loc loc, sn_severity severity, sn_status status, const char *fmt,
                        va_list ap) {
  if (d == NULL) return;
  d->counts[severity]++;
  bool stored = diag_store(d, loc, severity, status, fmt, ap);
  d->hint_open = stored;
  if (severity != SN_NOTE) d->last_stored = stored;
}

sn_status sn_verror(sn_diag *d, sn_loc loc, sn_status status, const char *fmt, va_list ap) {
  sn_assert(status != SN_OK);
  diag_report(d, loc, SN_ERROR, status, fmt, ap);
  return status;
}

sn_status sn_error(sn_diag *d, sn_loc loc, sn_status status, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  sn_verror(d, loc, status, fmt, ap);
  va_end(ap);
  return status;
}

void sn_warn(sn_diag *d, sn_loc loc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  diag_report(d, loc, SN_WARNING, SN_OK, fmt, ap);
  va_end(ap);
}

void sn_note(sn_diag *d, sn_loc loc, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  diag_report(d, loc, SN_NOTE, SN_OK, fmt, ap);
  va_end(ap);
}

void sn_hint(sn_diag *d, const char *fmt, ...) {
  if (d == NULL || !d->hint_open) return;
  va_list ap;
  va_start(ap, fmt);
  const char *hint = diag_format(d, fmt, ap);
  va_end(ap);
  if (hint == NULL) return;
  sn_diagnostic *latest = &d->entries[d->n - 1].shown;
  if (latest->hint != NULL) hint = sn_arena_printf(d->strings, "%s; %s", latest->hint, hint);
  if (hint != NULL) latest->hint = hint;
}

sn_status sn_out_of_memory(sn_diag *d, size_t bytes) {
  return sn_error(d, SN_NOWHERE, SN_ERR_MEMORY, "out of memory: %zu bytes wanted", bytes);
}
