/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The cursor. HLO's tokens depend on where they stand (`2x3`, `b01f_01io->b01f`, `0_1x1_1`, raw JSON), so there is no token stream: parsers take
 * what they want from the cursor. The text is NUL-terminated and holds no other NUL, so no test for the end is needed beside the character's own. */
#include "text_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#define LEX_SHOWN_BYTES 48

#define S SN_TX_SPACE
#define I (SN_TX_IDENT_START | SN_TX_IDENT)
#define N (SN_TX_IDENT | SN_TX_DIGIT)
#define C SN_TX_IDENT
const uint8_t sn_tx_class[256] = {
    ['\t'] = S, ['\n'] = S, ['\v'] = S, ['\f'] = S, ['\r'] = S, [' '] = S, ['-'] = C, ['.'] = C, ['_'] = I,
    ['0'] = N, ['1'] = N, ['2'] = N, ['3'] = N, ['4'] = N, ['5'] = N, ['6'] = N, ['7'] = N, ['8'] = N, ['9'] = N,
    ['A'] = I, ['B'] = I, ['C'] = I, ['D'] = I, ['E'] = I, ['F'] = I, ['G'] = I, ['H'] = I, ['I'] = I, ['J'] = I, ['K'] = I, ['L'] = I, ['M'] = I,
    ['N'] = I, ['O'] = I, ['P'] = I, ['Q'] = I, ['R'] = I, ['S'] = I, ['T'] = I, ['U'] = I, ['V'] = I, ['W'] = I, ['X'] = I, ['Y'] = I, ['Z'] = I,
    ['a'] = I, ['b'] = I, ['c'] = I, ['d'] = I, ['e'] = I, ['f'] = I, ['g'] = I, ['h'] = I, ['i'] = I, ['j'] = I, ['k'] = I, ['l'] = I, ['m'] = I,
    ['n'] = I, ['o'] = I, ['p'] = I, ['q'] = I, ['r'] = I, ['s'] = I, ['t'] = I, ['u'] = I, ['v'] = I, ['w'] = I, ['x'] = I, ['y'] = I, ['z'] = I,
};
#undef S
#undef I
#undef N
#undef C

/* ---- begin and end -------------------------------------------------------------------------------------------------- */

static const char *lex_hint_foreign(const char *text, size_t n) {
  if (n >= 2 && (unsigned char)text[0] == 0x1f && (unsigned char)text[1] == 0x8b) return "this is gzip data: unpack it first";
  if (n >= 4 && memcmp(text, "ML\xefR", 4) == 0) return "this is MLIR bytecode, not HLO text";
  return NULL;
}

/* The first byte that no HLO text holds, or NULL. */
static const char *lex_bad_byte(const char *text, size_t n, const char **what) {
  const char *nul = n != 0 ? memchr(text, '\0', n) : NULL;
  size_t bad = 0;
  *what = "invalid UTF-8";
  bool valid = sn_utf8_valid(text, nul != NULL ? (size_t)(nul - text) : n, &bad);
  if (!valid) return text + bad;
  *what = "a NUL byte";
  return nul;
}

/* A quick look for the usual case: nothing but ASCII without NUL. */
static bool lex_is_plain(const char *text, size_t n) {
  uint64_t high = 0x8080808080808080u, low = 0x0101010101010101u;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t w;
    memcpy(&w, text + i, 8);
    if (((w | (w - low)) & high) != 0) return false; /* a high bit, or a borrow out of a zero byte */
  }
  for (; i < n; i++) {
    if (text[i] == '\0' || (unsigned char)text[i] >= 0x80) return false;
  }
  return true;
}

static sn_status lex_check_bytes(sn_tx *p) {
  size_t n = (size_t)(p->end - p->text);
  if (lex_is_plain(p->text, n)) return SN_OK;
  const char *what = NULL, *bad = lex_bad_byte(p->text, n, &what);
  if (bad == NULL) return SN_OK;
  const char *hint = lex_hint_foreign(p->text, n);
  sn_status s = sn_tx_fail(p, bad, SN_ERR_SYNTAX, "expected HLO text in UTF-8, found %s (byte 0x%02x)", what, (unsigned)(unsigned char)*bad);
  sn_hint(p->d, "%s", hint != NULL ? hint : "HLO text escapes other bytes inside strings as \\ooo");
  return s;
}

sn_status sn_tx_begin(sn_tx *p, sn_diag *d, const char *file, const char *text, size_t n_bytes) {
  memset(p, 0, sizeof *p);
  p->d = d;
  p->file = file;
  p->loc_line = 1;
  if (n_bytes >= PTRDIFF_MAX) return sn_error(d, SN_NOWHERE, SN_ERR_OVERFLOW, "a text of %zu bytes is too long", n_bytes);
  p->text = sn_alloc(n_bytes + 1);
  if (p->text == NULL) return sn_out_of_memory(d, n_bytes + 1);
  if (n_bytes != 0) memcpy(p->text, text, n_bytes);
  p->text[n_bytes] = '\0';
  p->at = p->loc_at = p->loc_line_begin = p->text;
  p->end = p->text + n_bytes;
  if (sn_arena_create(&p->scratch) != SN_OK || sn_arena_create(&p->outer) != SN_OK) return sn_tx_memory(p);
  SN_TRY(sn_tx_stack_init(p));
  return lex_check_bytes(p);
}

void sn_tx_end(sn_tx *p) {
  sn_arena_destroy(p->scratch);
  sn_arena_destroy(p->outer);
  sn_free(p->names.entries);
  sn_free(p->names.table);
  sn_free(p->stack.v);
  sn_free(p->text);
}

/* ---- blanks, punctuation, words ------------------------------------------------------------------------------------------ */

void sn_tx_skip_slow(sn_tx *p) {
  const char *at = p->at;
  for (;;) {
    while (sn_tx_is(*at, SN_TX_SPACE)) at++;
    if (at[0] != '/') break;
    if (at[1] == '/') {
      const char *stop = memchr(at, '\n', (size_t)(p->end - at));
      at = stop != NULL ? stop : p->end;
    } else if (at[1] == '*') {
      const char *stop = strstr(at + 2, "*/");
      if (stop == NULL) break; /* stays in front of it: the fault names it */
      at = stop + 2;
    } else {
      break;
    }
  }
  p->at = at;
}

bool sn_tx_accept_text(sn_tx *p, const char *text) {
  sn_tx_skip(p);
  size_t n = strlen(text);
  if (strncmp(p->at, text, n) != 0) return false;
  p->at += n;
  return true;
}

bool sn_tx_accept_word(sn_tx *p, const char *word) {
  sn_tx_skip(p);
  size_t n = strlen(word);
  if (strncmp(p->at, word, n) != 0 || sn_tx_is(p->at[n], SN_TX_IDENT)) return false;
  p->at += n;
  return true;
}

bool sn_tx_try_ident(sn_tx *p, sn_span *out) {
  sn_tx_skip(p);
  const char *at = p->at;
  if (!sn_tx_is(*at, SN_TX_IDENT_START)) return false;
  while (sn_tx_is(*at, SN_TX_IDENT)) at++;
  /* `a->b`: the dash belongs to the arrow. */
  if (at[-1] == '-' && *at == '>') at--;
  *out = (sn_span){p->at, (size_t)(at - p->at)};
  p->at = at;
  return true;
}

sn_status sn_tx_ident(sn_tx *p, const char *what, sn_span *out) {
  return sn_tx_try_ident(p, out) ? SN_OK : sn_tx_expected(p, what);
}

sn_status sn_tx_name_token(sn_tx *p, const char *what, sn_span *out) {
  sn_tx_skip(p);
  const char *at = p->at;
  if (*at == '%') p->at++;
  if (!sn_tx_is(*p->at, SN_TX_IDENT_START)) {
    p->at = at;
    return sn_tx_expected(p, what);
  }
  (void)sn_tx_try_ident(p, out);
  return SN_OK;
}

/* ---- faults ------------------------------------------------------------------------------------------------------------------- */

/* Counts lines from the last place asked for: faults and instructions come in order, so the whole text is counted about once. */
sn_loc sn_tx_loc(sn_tx *p, const char *at) {
  const char *from = p->loc_at;
  if (at < from) {
    while (from > at) {
      if (*--from == '\n') p->loc_line--;
    }
    while (from > p->text && from[-1] != '\n') from--;
    p->loc_line_begin = from;
  } else {
    for (const char *nl; (nl = memchr(from, '\n', (size_t)(at - from))) != NULL; from = nl + 1) {
      p->loc_line++;
      p->loc_line_begin = nl + 1;
    }
  }
  p->loc_at = at;
  return (sn_loc){p->file, p->loc_line, (uint32_t)(at - p->loc_line_begin) + 1};
}

static void lex_count_fault(sn_tx *p, sn_status status) {
  if (p->n_faults++ == 0) p->status = status;
}

sn_status sn_tx_memory(sn_tx *p) {
  lex_count_fault(p, SN_ERR_MEMORY);
  return sn_out_of_memory(p->d, 0);
}

sn_status sn_tx_fail(sn_tx *p, const char *at, sn_status status, const char *fmt, ...) {
  lex_count_fault(p, status);
  va_list ap;
  va_start(ap, fmt);
  sn_status s = sn_verror(p->d, sn_tx_loc(p, at), status, fmt, ap);
  va_end(ap);
  return s;
}

/* What stands at the cursor, for a message. */
static void lex_describe(const sn_tx *p, char *to, size_t cap) {
  const char *at = p->at;
  if (*at == '\0') {
    snprintf(to, cap, "the end of the text");
    return;
  }
  if (at[0] == '/' && at[1] == '*') {
    snprintf(to, cap, "a comment that never ends");
    return;
  }
  size_t n = 1;
  if (*at == '%' || sn_tx_is(*at, SN_TX_IDENT)) {
    while (n < LEX_SHOWN_BYTES && sn_tx_is(at[n], SN_TX_IDENT)) n++;
  } else {
    while (((unsigned char)at[n] & 0xc0) == 0x80) n++; /* the whole code point */
  }
  bool cut = n == LEX_SHOWN_BYTES && sn_tx_is(at[n], SN_TX_IDENT);
  snprintf(to, cap, "`%.*s%s`", (int)n, at, cut ? "…" : "");
}

sn_status sn_tx_expected(sn_tx *p, const char *what) {
  char found[LEX_SHOWN_BYTES + 32];
  sn_tx_skip(p);
  lex_describe(p, found, sizeof found);
  return sn_tx_fail(p, p->at, SN_ERR_SYNTAX, "expected %s, found %s", what, found);
}

sn_status sn_tx_too_deep(sn_tx *p, const char *at) {
  return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "expected nesting of at most %d levels, found a deeper one", (int)SN_TX_MAX_NEST);
}

sn_status sn_tx_need(sn_tx *p, char c, const char *where) {
  if (sn_tx_accept(p, c)) return SN_OK;
  char what[96];
  snprintf(what, sizeof what, "`%c` %s", c, where);
  return sn_tx_expected(p, what);
}

const char *sn_tx_cstring(sn_tx *p, sn_span s) {
  const char *c = sn_arena_string_n(p->scratch, s.s, s.n);
  return c != NULL ? c : "";
}

void sn_tx_hint_nearest(sn_tx *p, sn_span word, const char *const *words, size_t n) {
  const char *near = word.n <= 64 ? sn_nearest(sn_tx_cstring(p, word), words, n) : NULL;
  if (near != NULL) sn_hint(p->d, "did you mean `%s`?", near);
}

/* ---- numbers ------------------------------------------------------------------------------------------------------------------ */

sn_status sn_tx_int(sn_tx *p, const char *what, int64_t *out) {
  sn_tx_skip(p);
  const char *begin = p->at, *at = begin;
  bool negative = *at == '-';
  if (negative) at++;
  if (!sn_tx_is(*at, SN_TX_DIGIT)) return sn_tx_expected(p, what);
  uint64_t v = 0, limit = (uint64_t)INT64_MAX + (negative ? 1 : 0);
  for (; sn_tx_is(*at, SN_TX_DIGIT); at++) {
    uint64_t digit = (uint64_t)(*at - '0');
    if (v > (limit - digit) / 10) return sn_tx_fail(p, begin, SN_ERR_OVERFLOW, "expected %s, found a number beyond 64 bits", what);
    v = v * 10 + digit;
  }
  *out = negative ? (int64_t)(0 - v) : (int64_t)v;
  p->at = at;
  return SN_OK;
}

sn_status sn_tx_int_in(sn_tx *p, const char *what, int64_t lo, int64_t hi, int64_t *out) {
  sn_tx_skip(p);
  const char *begin = p->at;
  SN_TRY(sn_tx_int(p, what, out));
  if (*out >= lo && *out <= hi) return SN_OK;
  return sn_tx_fail(p, begin, SN_ERR_OVERFLOW, "expected %s in %" PRId64 "…%" PRId64 ", found %" PRId64, what, lo, hi, *out);
}

sn_status sn_tx_bool(sn_tx *p, bool *out) {
  if (sn_tx_accept_word(p, "true") || sn_tx_accept_word(p, "1")) {
    *out = true;
    return SN_OK;
  }
  if (sn_tx_accept_word(p, "false") || sn_tx_accept_word(p, "0")) {
    *out = false;
    return SN_OK;
  }
  return sn_tx_expected(p, "`true` or `false`");
}

sn_status sn_tx_ints(sn_tx *p, char open, char close, sn_ints *out) {
  *out = (sn_ints){0, NULL};
  char where[] = "before a list of integers";
  SN_TRY(sn_tx_need(p, open, where));
  if (sn_tx_accept(p, close)) return SN_OK;
  /* As many as there are commas up to the close. */
  size_t cap = 1;
  for (const char *q = p->at; *q != '\0' && *q != close; q++) cap += *q == ',';
  int64_t *v = sn_arena_alloc(p->keep, cap * sizeof *v);
  if (v == NULL) return sn_tx_memory(p);
  size_t n = 0;
  do {
    if (n == cap) break; /* the close stood in a comment */
    SN_TRY(sn_tx_int(p, "an integer", &v[n++]));
  } while (sn_tx_accept(p, ','));
  if (!sn_tx_accept(p, close)) {
    char what[64];
    snprintf(what, sizeof what, "`,` or `%c` after an integer of a list", close);
    return sn_tx_expected(p, what);
  }
  *out = (sn_ints){(int64_t)n, v};
  return SN_OK;
}

sn_status sn_tx_ints_by_x(sn_tx *p, const char *what, int64_t *v, int max, int *n) {
  *n = 0;
  for (;;) {
    if (*n == max) return sn_tx_fail(p, p->at, SN_ERR_UNSUPPORTED, "%s has more than %d dimensions", what, max);
    SN_TRY(sn_tx_int(p, what, &v[*n]));
    ++*n;
    if (*p->at != 'x') return SN_OK;
    p->at++;
  }
}

/* ---- strings and raw values ------------------------------------------------------------------------------------------------------ */

static int lex_hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/* The byte of the escape behind a backslash at *at; moves *at behind it. False: no such escape. */
static bool lex_unescape(const char **at, char *out) {
  static const char letters[] = "abfnrtv", bytes[] = "\a\b\f\n\r\t\v";
  const char *c = *at;
  const char *letter = *c != '\0' ? strchr(letters, *c) : NULL;
  if (letter != NULL) {
    *out = bytes[letter - letters];
    *at = c + 1;
  } else if (*c >= '0' && *c <= '7') {
    int v = 0, n = 0;
    for (; n < 3 && c[n] >= '0' && c[n] <= '7'; n++) v = v * 8 + (c[n] - '0');
    *out = (char)v;
    *at = c + n;
    return v < 256;
  } else if ((*c == 'x' || *c == 'X') && lex_hex(c[1]) >= 0) {
    int v = lex_hex(c[1]), n = 2;
    if (lex_hex(c[2]) >= 0) v = v * 16 + lex_hex(c[n++]);
    *out = (char)v;
    *at = c + n;
  } else if (*c == '"' || *c == '\'' || *c == '\\' || *c == '?') {
    *out = *c;
    *at = c + 1;
  } else {
    return false;
  }
  return true;
}

/* The closing quote of the string that opens at `at`, or NULL; *escaped: it holds a backslash. */
static const char *lex_string_end(const char *at, bool *escaped) {
  char quote = *at++;
  *escaped = false;
  for (; *at != quote; at++) {
    if (*at == '\0' || *at == '\n') return NULL;
    if (*at != '\\') continue;
    *escaped = true;
    if (*++at == '\0') return NULL;
  }
  return at;
}

static sn_status lex_no_end(sn_tx *p, const char *begin) {
  sn_status s = sn_tx_fail(p, begin, SN_ERR_SYNTAX, "expected a closing quote on the same line, found none");
  sn_hint(p->d, "inside a string write \\\" for a quote and \\n for a line end");
  return s;
}

sn_status sn_tx_string(sn_tx *p, sn_arena *a, const char **out, size_t *n) {
  *out = NULL;
  sn_tx_skip(p);
  const char *begin = p->at;
  if (*begin != '"' && *begin != '\'') return sn_tx_expected(p, "a quoted string");
  bool escaped = false;
  const char *close = lex_string_end(begin, &escaped);
  if (close == NULL) return lex_no_end(p, begin);
  size_t bytes = (size_t)(close - begin) - 1;
  char *s = sn_arena_string_n(a, begin + 1, bytes);
  if (s == NULL) return sn_tx_memory(p);
  if (escaped) {
    bytes = 0;
    for (const char *at = begin + 1; at < close;) {
      char c = *at++;
      if (c == '\\' && !lex_unescape(&at, &c)) return sn_tx_fail(p, at - 1, SN_ERR_SYNTAX, "expected an escape of C (\\n \\t \\\" \\x41 \\101 …), found `\\%c`", *at);
      if (c == '\0') return sn_tx_fail(p, at, SN_ERR_UNSUPPORTED, "a NUL inside a string is not supported");
      s[bytes++] = c;
    }
    s[bytes] = '\0';
  }
  p->at = close + 1;
  *out = s;
  if (n != NULL) *n = bytes;
  return SN_OK;
}

static bool lex_opens(char c) { return c == '{' || c == '(' || c == '['; }
static bool lex_closes(char c) { return c == '}' || c == ')' || c == ']'; }

sn_status sn_tx_raw(sn_tx *p, sn_span *out) {
  sn_tx_skip(p);
  const char *begin = p->at, *at = begin;
  int64_t depth = 0;
  bool escaped = false;
  for (;; at++) {
    if (*at == '"') {
      const char *close = lex_string_end(at, &escaped);
      if (close == NULL) return lex_no_end(p, at);
      at = close;
    } else if (lex_opens(*at)) {
      depth++;
    } else if (lex_closes(*at)) {
      if (depth == 0) break;
      if (--depth == 0) {
        at++;
        break;
      }
    } else if (*at == '\0') {
      if (depth == 0) break;
      sn_status s = sn_tx_fail(p, begin, SN_ERR_SYNTAX, "expected the bracket that closes `%c`, found the end of the text", *begin);
      return s;
    } else if (depth == 0 && (*at == ',' || sn_tx_is(*at, SN_TX_SPACE))) {
      break;
    }
  }
  if (at == begin) return sn_tx_expected(p, "a value");
  *out = (sn_span){begin, (size_t)(at - begin)};
  p->at = at;
  return SN_OK;
}
