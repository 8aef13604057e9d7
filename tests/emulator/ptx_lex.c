/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* PTX as words, numbers and signs. A word holds its dots ("ld.global.f32", "%tid.x"). */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ptx.h"

const emu_type_info emu_types[EMU_TYPE_COUNT] = {
#define EMU_TYPE(id, text, bytes) {text, bytes},
    EMU_TYPES(EMU_TYPE)
#undef EMU_TYPE
};

bool ptx_fail(ptx_reader *r, uint32_t line, const char *fmt, ...) {
  if (r->failed) return false;
  va_list ap;
  r->failed = true;
  int n = snprintf(r->error, r->error_bytes, "line %u: ", line);
  va_start(ap, fmt);
  if (n > 0 && (size_t)n < r->error_bytes) vsnprintf(r->error + n, r->error_bytes - (size_t)n, fmt, ap);
  va_end(ap);
  return false;
}

static bool in_word(const char *c) {
  if (isalnum((unsigned char)*c) || *c == '_' || *c == '$' || *c == '%' || *c == '.') return true;
  if (c[0] == ':' && c[1] == ':') return true; /* shared::cta */
  return c[0] == ':' && c[-1] == ':' && isalnum((unsigned char)c[1]);
}

static void skip_blanks(ptx_reader *r) {
  for (;;) {
    if (*r->at == '\n') r->line++;
    if (*r->at && isspace((unsigned char)*r->at)) {
      r->at++;
    } else if (r->at[0] == '/' && r->at[1] == '/') {
      while (*r->at && *r->at != '\n') r->at++;
    } else if (r->at[0] == '/' && r->at[1] == '*') {
      for (r->at += 2; *r->at && !(r->at[0] == '*' && r->at[1] == '/'); r->at++) r->line += *r->at == '\n';
      if (*r->at) r->at += 2;
    } else {
      return;
    }
  }
}

void ptx_next(ptx_reader *r) {
  skip_blanks(r);
  const char *from = r->at;
  r->word = from;
  if (!*from) {
    r->kind = PTX_END;
  } else if (isdigit((unsigned char)*from)) {
    r->kind = PTX_NUMBER;
    while (isalnum((unsigned char)*r->at) || *r->at == '.') r->at++;
  } else if (*from == '"') {
    r->kind = PTX_STRING;
    for (r->at++; *r->at && *r->at != '"' && *r->at != '\n'; r->at++) continue;
    if (*r->at == '"') r->at++;
  } else if (isalpha((unsigned char)*from) || *from == '_' || *from == '$' || *from == '%' || *from == '.') {
    r->kind = PTX_WORD;
    while (in_word(r->at)) r->at++;
  } else {
    r->kind = PTX_SIGN;
    r->at++;
  }
  r->length = (uint32_t)(r->at - from);
}

bool ptx_is(const ptx_reader *r, const char *text) { return r->kind != PTX_END && strlen(text) == r->length && memcmp(text, r->word, r->length) == 0; }

bool ptx_accept(ptx_reader *r, const char *text) {
  if (!ptx_is(r, text)) return false;
  ptx_next(r);
  return true;
}

bool ptx_expect(ptx_reader *r, const char *text) {
  if (ptx_accept(r, text)) return true;
  if (r->kind == PTX_END) return ptx_fail(r, r->line, "the text ends where '%s' is expected", text);
  return ptx_fail(r, r->line, "'%s' is expected, not '%.*s'", text, (int)(r->length < 40 ? r->length : 40), r->word);
}

const char *ptx_take_word(ptx_reader *r) {
  if (r->kind != PTX_WORD) {
    ptx_fail(r, r->line, "a name is expected, not '%.*s'", (int)(r->length < 40 ? r->length : 40), r->word);
    return NULL;
  }
  const char *copy = sn_arena_string_n(r->arena, r->word, r->length);
  if (!copy) ptx_fail(r, r->line, "out of memory");
  ptx_next(r);
  return copy;
}

bool ptx_number(const char *text, uint32_t n, char *kind, uint64_t *bits) {
  char copy[40], *end;
  if (n == 0 || n >= sizeof copy) return false;
  memcpy(copy, text, n);
  copy[n] = 0;
  if (n == 10 && copy[0] == '0' && (copy[1] == 'f' || copy[1] == 'F')) {
    *kind = 'f';
    *bits = strtoull(copy + 2, &end, 16);
    return *end == 0;
  }
  if (n == 18 && copy[0] == '0' && (copy[1] == 'd' || copy[1] == 'D')) {
    *kind = 'd';
    *bits = strtoull(copy + 2, &end, 16);
    return *end == 0;
  }
  if (memchr(copy, '.', n)) {
    double x = strtod(copy, &end);
    *kind = 'd';
    memcpy(bits, &x, 8);
    return *end == 0;
  }
  *kind = 'i';
  *bits = strtoull(copy, &end, 0);
  return *end == 0 || (*end == 'U' && end[1] == 0);
}

bool ptx_take_integer(ptx_reader *r, int64_t *out) {
  bool negative = ptx_accept(r, "-");
  char kind;
  uint64_t bits;
  if (r->kind != PTX_NUMBER || !ptx_number(r->word, r->length, &kind, &bits) || kind != 'i') {
    return ptx_fail(r, r->line, "a number is expected, not '%.*s'", (int)(r->length < 40 ? r->length : 40), r->word);
  }
  ptx_next(r);
  *out = negative ? (int64_t)(0 - bits) : (int64_t)bits;
  return true;
}

bool ptx_type(const char *text, emu_type *out) {
  for (int t = 0; t < EMU_TYPE_COUNT; t++) {
    if (strcmp(text, emu_types[t].text) != 0) continue;
    *out = (emu_type)t;
    return true;
  }
  return false;
}

void *ptx_grow(ptx_reader *r, void *items, uint32_t n, uint32_t *cap, size_t bytes_each) {
  if (n < *cap) return items;
  uint32_t more = *cap ? 2 * *cap : 32;
  void *bigger = sn_arena_zero(r->scratch, more, bytes_each);
  if (!bigger) {
    ptx_fail(r, r->line, "out of memory");
    return NULL;
  }
  if (n) memcpy(bigger, items, n * bytes_each);
  *cap = more;
  return bigger;
}
