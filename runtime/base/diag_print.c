/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Showing diagnostics. Nothing here allocates, so that "out of memory" can be printed, and no byte of
 * the user's text reaches the terminal as a command. */
#include "diag_internal.h"

#include <string.h>

#define PRINT_COLUMNS 100 /* a longer line is cut to this many columns around the caret */
#define PRINT_BEFORE 60   /* of which at most these stand before it */

typedef struct print_style {
  const char *bold, *note, *warning, *error, *caret, *hint, *off;
} print_style;

static const print_style print_plain = {"", "", "", "", "", "", ""};
static const print_style print_coloured = {"\033[1m",    "\033[1;36m", "\033[1;35m", "\033[1;31m",
                                           "\033[1;32m", "\033[1;34m", "\033[0m"};

static void print_safe(const char *text, FILE *to) {
  char shown[SN_BASE_SHOWN_BYTES];
  size_t n = strlen(text);
  for (size_t i = 0; i < n;) {
    sn_base_show_char(text, n, &i, 7, shown); /* column 7: a tab becomes one space */
    fputs(shown, to);
  }
}

static void print_heading(const sn_diagnostic *g, const print_style *style, FILE *to) {
  static const char *const names[] = {[SN_NOTE] = "note", [SN_WARNING] = "warning", [SN_ERROR] = "error"};
  const char *const colours[] = {[SN_NOTE] = style->note, [SN_WARNING] = style->warning, [SN_ERROR] = style->error};
  fputs(style->bold, to);
  if (g->loc.file != NULL) {
    print_safe(g->loc.file, to);
    if (g->loc.line != 0) fprintf(to, ":%lu", (unsigned long)g->loc.line);
    if (g->loc.line != 0 && g->loc.col != 0) fprintf(to, ":%lu", (unsigned long)g->loc.col);
    fputs(": ", to);
  }
  fprintf(to, "%s%s:%s%s ", colours[g->severity], names[g->severity], style->off, style->bold);
  print_safe(g->message, to);
  fprintf(to, "%s\n", style->off);
}

/* Columns of the whole text and the one that byte `caret` stands in (behind the end: one past the text). */
static int print_measure(const char *text, size_t n, size_t caret, int *caret_column) {
  char shown[SN_BASE_SHOWN_BYTES];
  int column = 0;
  *caret_column = -1;
  for (size_t i = 0; i < n;) {
    int start = column;
    column += sn_base_show_char(text, n, &i, column, shown);
    if (*caret_column < 0 && caret < i) *caret_column = start;
  }
  if (*caret_column < 0) *caret_column = column;
  return column;
}

/* Writes the characters that start in columns [from, to_column); returns the column of the first one. */
static int print_window(const char *text, size_t n, int from, int to_column, FILE *to) {
  char shown[SN_BASE_SHOWN_BYTES];
  int column = 0, first = -1;
  for (size_t i = 0; i < n;) {
    int start = column;
    column += sn_base_show_char(text, n, &i, column, shown);
    if (start < from) continue;
    if (start >= to_column) break;
    if (first < 0) first = start;
    fputs(shown, to);
  }
  return first < 0 ? column : first;
}

static void print_context(const diag_entry *e, const print_style *style, FILE *to) {
  const sn_diagnostic *g = &e->shown;
  size_t caret = g->loc.col != 0 ? g->loc.col - 1u : 0;
  caret = caret > e->context_from ? caret - e->context_from : 0;
  int caret_column;
  int columns = print_measure(g->context, e->context_bytes, caret, &caret_column);
  int from = 0, end = columns;
  if (columns > PRINT_COLUMNS) {
    from = caret_column > PRINT_BEFORE ? caret_column - PRINT_BEFORE : 0;
    if (from > columns - PRINT_COLUMNS) from = columns - PRINT_COLUMNS;
    end = from + PRINT_COLUMNS;
  }
  const char *before = from > 0 || e->context_from > 0 ? "..." : "";
  fputs(before, to);
  int first = print_window(g->context, e->context_bytes, from, end, to);
  fputs(end < columns || e->context_more ? "...\n" : "\n", to);
  if (g->loc.col == 0) return;
  int indent = caret_column - first + (int)strlen(before);
  fprintf(to, "%*s%s^%s\n", indent, "", style->caret, style->off);
}

static void print_entry(const diag_entry *e, const print_style *style, FILE *to) {
  print_heading(&e->shown, style, to);
  if (e->shown.context != NULL) print_context(e, style, to);
  if (e->shown.hint == NULL) return;
  fprintf(to, "%shint:%s ", style->hint, style->off);
  print_safe(e->shown.hint, to);
  fputc('\n', to);
}

/* The least severity that SINTER_LOG shows. */
static sn_severity print_least(void) {
  sn_log_level level = sn_log();
  return level == SN_LOG_ERROR ? SN_ERROR : level == SN_LOG_WARN ? SN_WARNING : SN_NOTE;
}

void sn_diag_print(const sn_diag *d, FILE *to, bool colour) {
  if (d == NULL) return;
  const print_style *style = colour ? &print_coloured : &print_plain;
  sn_severity least = print_least();
  size_t shown = 0;
  for (size_t i = 0; i < d->n; i++) {
    shown += d->entries[i].shown.severity >= least;
    if (d->entries[i].shown.severity >= least) print_entry(&d->entries[i], style, to);
  }
  size_t lost = sn_diag_count(d, least) - shown;
  if (lost != 0) fprintf(to, "%snote:%s %zu more not shown\n", style->note, style->off, lost);
}
