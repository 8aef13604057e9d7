/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cursor over the text. MLIR's tokens depend on where they stand (`2x?x3xf32`, `[b, 0]x[i, o]`), so parsers take what they want from the cursor.
 * The text is NUL-terminated and holds no other NUL: no test for the end is needed beside the character's own. */
#include <inttypes.h>
#include <string.h>

#include "text.h"

enum { SHOWN_BYTES = 40 };

static sn_status check_bytes(sn_mx *p, size_t n) {
  size_t bad = 0;
  const char *nul = n != 0 ? memchr(p->text, '\0', n) : NULL;
  if (!sn_utf8_valid(p->text, nul != NULL ? (size_t)(nul - p->text) : n, &bad)) nul = p->text + bad;
  if (nul == NULL) return SN_OK;
  sn_status s = sn_mx_fail(p, nul, SN_ERR_SYNTAX, "expected MLIR text in UTF-8, found byte 0x%02x", (unsigned)(unsigned char)*nul);
  sn_hint(p->d, "strings escape other bytes as \\HH, two hexadecimal digits");
  return s;
}

sn_status sn_mx_begin(sn_mx *p, sn_diag *d, const char *file, const char *text, size_t n_bytes) {
  memset(p, 0, sizeof *p);
  p->d = d;
  p->loc_line = 1;
  if (n_bytes >= PTRDIFF_MAX) return sn_error(d, SN_NOWHERE, SN_ERR_OVERFLOW, "a text of %zu bytes is too long", n_bytes);
  if (sn_mlir_create(&p->m) != SN_OK) return sn_mx_memory(p);
  p->file = sn_arena_string(p->m->arena, file != NULL ? file : "<text>");
  p->text = sn_alloc(n_bytes + 1);
  if (p->text == NULL || p->file == NULL || sn_arena_create(&p->scratch) != SN_OK) return sn_mx_memory(p);
  if (n_bytes != 0) memcpy(p->text, text, n_bytes);
  p->text[n_bytes] = '\0';
  p->at = p->loc_at = p->loc_line_begin = p->text;
  p->end = p->text + n_bytes;
  if (sn_map_create(&p->names) != SN_OK || sn_map_create(&p->attr_aliases) != SN_OK || sn_map_create(&p->type_aliases) != SN_OK ||
      sn_map_create(&p->loc_aliases) != SN_OK)
    return sn_mx_memory(p);
  sn_diag_set_source(d, p->file, text, n_bytes);
  return check_bytes(p, n_bytes);
}

void sn_mx_end(sn_mx *p) {
  sn_map_destroy(p->names);
  sn_map_destroy(p->attr_aliases);
  sn_map_destroy(p->type_aliases);
  sn_map_destroy(p->loc_aliases);
  sn_free(p->bindings);
  sn_free(p->fixups);
  sn_arena_destroy(p->scratch);
  sn_free(p->text);
}

/* ---- faults ---- */

/* Lines are counted from the last place asked for, as places mostly grow. */
sn_loc sn_mx_loc(sn_mx *p, const char *at) {
  if (at < p->loc_at) {
    p->loc_at = p->loc_line_begin = p->text;
    p->loc_line = 1;
  }
  for (const char *c = p->loc_at; c < at; c++)
    if (*c == '\n') {
      p->loc_line++;
      p->loc_line_begin = c + 1;
    }
  p->loc_at = at;
  return (sn_loc){p->file, p->loc_line, (uint32_t)(at - p->loc_line_begin) + 1};
}

sn_status sn_mx_fail(sn_mx *p, const char *at, sn_status s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  sn_verror(p->d, sn_mx_loc(p, at), s, fmt, ap);
  va_end(ap);
  return s;
}

/* What stands at the cursor, for a message: a word, a quoted string's beginning, or a character. */
static void describe(sn_mx *p, char *to, size_t cap) {
  sn_mx_skip(p);
  const char *c = p->at;
  size_t n = 0;
  if (*c == '\0') {
    snprintf(to, cap, "the end of the text");
    return;
  }
  if (sn_mx_is_word(*c) || *c == '%' || *c == '@' || *c == '#' || *c == '!' || *c == '^' || *c == '-') {
    n = 1;
    while (n < SHOWN_BYTES && sn_mx_is_word(c[n])) n++;
  } else if (*c == '"') {
    n = 1;
    while (n < SHOWN_BYTES && c[n] != '"' && c[n] != '\0' && c[n] != '\n') n++;
    if (c[n] == '"') n++;
  } else {
    n = 1;
    while ((c[n] & 0xc0) == 0x80) n++;
  }
  snprintf(to, cap, "`%.*s`", (int)n, c);
}

sn_status sn_mx_expected(sn_mx *p, const char *what) {
  char found[SHOWN_BYTES + 32];
  describe(p, found, sizeof found);
  return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected %s, found %s", what, found);
}

sn_status sn_mx_need(sn_mx *p, char c, const char *where) {
  if (sn_mx_accept(p, c)) return SN_OK;
  char what[96];
  snprintf(what, sizeof what, "`%c` %s", c, where);
  return sn_mx_expected(p, what);
}

sn_status sn_mx_memory(sn_mx *p) { return sn_out_of_memory(p->d, 0); }

sn_status sn_mx_enter(sn_mx *p) {
  if (p->depth < SN_MLIR_MAX_NEST) {
    p->depth++;
    return SN_OK;
  }
  return sn_mx_fail(p, p->at, SN_ERR_UNSUPPORTED, "more than %d levels of nesting", (int)SN_MLIR_MAX_NEST);
}

/* ---- tokens ---- */

void sn_mx_skip(sn_mx *p) {
  for (;;) {
    while (*p->at == ' ' || *p->at == '\n' || *p->at == '\t' || *p->at == '\r') p->at++;
    if (p->at[0] != '/' || p->at[1] != '/') return;
    while (*p->at != '\n' && *p->at != '\0') p->at++;
  }
}

char sn_mx_peek(sn_mx *p) {
  sn_mx_skip(p);
  return *p->at;
}

bool sn_mx_accept(sn_mx *p, char c) {
  if (sn_mx_peek(p) != c) return false;
  p->at++;
  return true;
}

bool sn_mx_accept_text(sn_mx *p, const char *text) {
  sn_mx_skip(p);
  size_t n = strlen(text);
  if (strncmp(p->at, text, n) != 0) return false;
  p->at += n;
  return true;
}

bool sn_mx_at_word(sn_mx *p, const char *word) {
  sn_mx_skip(p);
  size_t n = strlen(word);
  return strncmp(p->at, word, n) == 0 && !sn_mx_is_word(p->at[n]);
}

bool sn_mx_accept_word(sn_mx *p, const char *word) {
  if (!sn_mx_at_word(p, word)) return false;
  p->at += strlen(word);
  return true;
}

sn_status sn_mx_word(sn_mx *p, const char *what, sn_mx_span *out) {
  sn_mx_skip(p);
  const char *begin = p->at;
  if (!sn_mx_is_letter(*begin)) return sn_mx_expected(p, what);
  while (sn_mx_is_word(*p->at)) p->at++;
  *out = (sn_mx_span){begin, (size_t)(p->at - begin)};
  return SN_OK;
}

const char *sn_mx_copy(sn_mx *p, sn_mx_span s) { return sn_arena_string_n(p->m->arena, s.s, s.n); }

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One character of a string, escapes resolved; moves *at. False: no such escape. */
static bool string_char(const char **at, char *out) {
  const char *c = *at;
  if (*c != '\\') {
    *out = *c;
    *at = c + 1;
    return true;
  }
  if (c[1] == '\0') return false;
  const char *letters = "nt\\\"", *values = "\n\t\\\"", *letter = strchr(letters, c[1]);
  if (letter != NULL && *letter != '\0') {
    *out = values[letter - letters];
    *at = c + 2;
    return true;
  }
  if (hex_digit(c[1]) < 0 || hex_digit(c[2]) < 0) return false;
  *out = (char)(hex_digit(c[1]) * 16 + hex_digit(c[2]));
  *at = c + 3;
  return true;
}

static const char *string_end(const char *at) {
  for (at++; *at != '"'; at++) {
    if (*at == '\0' || *at == '\n') return NULL;
    if (*at == '\\' && *++at == '\0') return NULL;
  }
  return at;
}

sn_status sn_mx_string(sn_mx *p, const char **out, size_t *n) {
  *out = NULL;
  if (sn_mx_peek(p) != '"') return sn_mx_expected(p, "a quoted string");
  const char *close = string_end(p->at);
  if (close == NULL) return sn_mx_fail(p, p->at, SN_ERR_SYNTAX, "expected a closing quote on the same line, found none");
  const char *at = p->at + 1;
  char *s = sn_arena_alloc(p->m->arena, (size_t)(close - at) + 1);
  size_t bytes = 0;
  if (s == NULL) return sn_mx_memory(p);
  while (at < close) {
    if (!string_char(&at, &s[bytes])) {
      sn_status st = sn_mx_fail(p, at, SN_ERR_SYNTAX, "expected an escape of MLIR, found `\\%c`", at[1]);
      sn_hint(p->d, "\\\" \\\\ \\n \\t, or two hexadecimal digits: \\0A");
      return st;
    }
    bytes++;
  }
  s[bytes] = '\0';
  p->at = close + 1;
  *out = s;
  if (n != NULL) *n = bytes;
  return SN_OK;
}

sn_status sn_mx_int(sn_mx *p, const char *what, int64_t *out) {
  sn_mx_skip(p);
  const char *begin = p->at, *c = begin;
  bool negative = *c == '-';
  if (negative) c++;
  if (!sn_mx_is_digit(*c)) return sn_mx_expected(p, what);
  bool hex = c[0] == '0' && c[1] == 'x';
  uint64_t v = 0;
  for (c += hex ? 2 : 0; hex ? hex_digit(*c) >= 0 : sn_mx_is_digit(*c); c++) {
    uint64_t digit = (uint64_t)hex_digit(*c), base = hex ? 16 : 10;
    if (v > (UINT64_MAX - digit) / base) return sn_mx_fail(p, begin, SN_ERR_OVERFLOW, "expected an integer of 64 bits, found a longer one");
    v = v * base + digit;
  }
  p->at = c;
  *out = (int64_t)(negative ? 0 - v : v);
  return SN_OK;
}

static sn_status one_symbol(sn_mx *p, const char **out) {
  SN_TRY(sn_mx_need(p, '@', "before a symbol's name"));
  if (*p->at == '"') return sn_mx_string(p, out, NULL);
  const char *begin = p->at;
  while (sn_mx_is_word(*p->at) || *p->at == '-') p->at++;
  if (p->at == begin) return sn_mx_expected(p, "a symbol's name behind `@`");
  *out = sn_mx_copy(p, (sn_mx_span){begin, (size_t)(p->at - begin)});
  return *out != NULL ? SN_OK : sn_mx_memory(p);
}

sn_status sn_mx_symbol(sn_mx *p, const char **out) {
  SN_TRY(one_symbol(p, out));
  while (p->at[0] == ':' && p->at[1] == ':' && p->at[2] == '@') {
    p->at += 2;
    SN_TRY(one_symbol(p, out));
  }
  return SN_OK;
}

/* The brackets open are kept on a stack of bits' worth: only their number per kind matters for the text between. `->` is no bracket. */
sn_status sn_mx_balanced(sn_mx *p, sn_mx_span *out) {
  const char *begin = p->at;
  int64_t depth = 1;
  for (const char *c = begin; *c != '\0'; c++) {
    if (*c == '"') {
      const char *close = string_end(c);
      if (close == NULL) break;
      c = close;
    } else if (*c == '-' && c[1] == '>') {
      c++;
    } else if (strchr("<([{", *c) != NULL) {
      depth++;
    } else if (strchr(">)]}", *c) != NULL && --depth == 0) {
      *out = (sn_mx_span){begin, (size_t)(c - begin)};
      p->at = c + 1;
      return SN_OK;
    }
  }
  return sn_mx_fail(p, begin, SN_ERR_SYNTAX, "expected the bracket that closes this one, found the end of the text");
}
