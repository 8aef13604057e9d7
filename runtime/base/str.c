/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "base_internal.h"

#include <inttypes.h>
#include <string.h>

#define STR_FIRST_BYTES 64u

void sn_str_finish(sn_str *s) {
  sn_free(s->data);
  *s = (sn_str){0};
}

void sn_str_clear(sn_str *s) {
  s->n = 0;
  s->failed = false;
  if (s->data != NULL) s->data[0] = '\0';
}

/* Makes room for n more bytes and the NUL. */
static bool str_reserve(sn_str *s, size_t n) {
  if (s->failed) return false;
  if (n < s->cap - s->n) return true; /* cap 0 and n 0: no room for the NUL yet */
  size_t want = s->cap != 0 ? s->cap : STR_FIRST_BYTES;
  if (n >= SIZE_MAX / 2 - s->n) {
    s->failed = true;
    return false;
  }
  while (want <= s->n + n) want *= 2;
  char *grown = sn_realloc(s->data, want);
  if (grown == NULL) {
    s->failed = true;
    return false;
  }
  s->data = grown;
  s->cap = want;
  return true;
}

void sn_str_add(sn_str *s, const char *text) {
  sn_str_add_n(s, text, strlen(text));
}

void sn_str_add_n(sn_str *s, const char *text, size_t n) {
  if (!str_reserve(s, n)) return;
  if (n != 0) memcpy(s->data + s->n, text, n);
  s->n += n;
  s->data[s->n] = '\0';
}

void sn_str_char(sn_str *s, char c) {
  if (!str_reserve(s, 1)) return;
  s->data[s->n++] = c;
  s->data[s->n] = '\0';
}

void sn_str_printf(sn_str *s, const char *fmt, ...) {
  if (!str_reserve(s, 0)) return;
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(s->data + s->n, s->cap - s->n, fmt, ap);
  va_end(ap);
  bool fits = n >= 0 && (size_t)n < s->cap - s->n;
  if (!fits) {
    s->data[s->n] = '\0';
    if (n < 0) s->failed = true;
    if (n < 0 || !str_reserve(s, (size_t)n)) return;
    va_start(ap, fmt);
    vsnprintf(s->data + s->n, s->cap - s->n, fmt, ap);
    va_end(ap);
  }
  s->n += (size_t)n;
}

void sn_str_u64(sn_str *s, uint64_t v) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (char)('0' + v % 10);
    v /= 10;
  } while (v != 0);
  sn_str_add_n(s, digits + at, sizeof digits - at);
}

void sn_str_i64(sn_str *s, int64_t v) {
  if (v < 0) sn_str_char(s, '-');
  sn_str_u64(s, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* The letter behind the backslash, or 0. */
static char str_short_escape(unsigned char c) {
  switch (c) {
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    case '"':
    case '\'':
    case '\\': return (char)c;
    default: return 0;
  }
}

/* As absl::CEscape (utf8_ok false) and absl::Utf8SafeCEscape (true) write: other bytes that are not
 * printable ASCII become three octal digits. */
void sn_str_escaped(sn_str *s, const char *text, size_t n, bool utf8_ok) {
  size_t plain = 0; /* bytes before i that go out as they are */
  for (size_t i = 0; i < n; i++) {
    unsigned char c = (unsigned char)text[i];
    char letter = str_short_escape(c);
    bool as_is = letter == 0 && c >= 0x20 && c != 0x7f && (c < 0x80 || utf8_ok);
    if (as_is) {
      plain++;
      continue;
    }
    if (plain != 0) sn_str_add_n(s, text + i - plain, plain);
    plain = 0;
    char out[4] = {'\\', letter};
    if (letter == 0) {
      out[1] = (char)('0' + (c >> 6));
      out[2] = (char)('0' + ((c >> 3) & 7));
      out[3] = (char)('0' + (c & 7));
    }
    sn_str_add_n(s, out, letter != 0 ? 2 : 4);
  }
  if (plain != 0) sn_str_add_n(s, text + n - plain, plain);
}

/* RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */
size_t sn_base_utf8_step(const char *text, size_t n, uint32_t *code_point) {
  static const uint32_t smallest[5] = {0, 0, 0x80, 0x800, 0x10000};
  if (n == 0) return 0;
  unsigned char lead = (unsigned char)text[0];
  size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (length == 0 || length > n) return 0;
  uint32_t code = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    unsigned char c = (unsigned char)text[i];
    if ((c & 0xc0) != 0x80) return 0;
    code = code << 6 | (c & 0x3fu);
  }
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return 0;
  *code_point = code;
  return length;
}

bool sn_utf8_valid(const char *text, size_t n, size_t *bad_at) {
  for (size_t i = 0; i < n;) {
    uint32_t code = 0;
    size_t step = sn_base_utf8_step(text + i, n - i, &code);
    if (step == 0) {
      if (bad_at != NULL) *bad_at = i;
      return false;
    }
    i += step;
  }
  return true;
}

/* Would a terminal act on it, or reorder text around it? */
static bool show_is_unsafe(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x200b && code <= 0x200f) ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x2069) || code == 0xfeff;
}

int sn_base_show_char(const char *text, size_t n, size_t *i, int column, char *shown) {
  const char *at = text + *i;
  if (*at == '\t') {
    int width = 8 - column % 8;
    memset(shown, ' ', (size_t)width);
    shown[width] = '\0';
    *i += 1;
    return width;
  }
  uint32_t code = 0;
  size_t step = sn_base_utf8_step(at, n - *i, &code);
  if (step == 0) {
    *i += 1;
    return snprintf(shown, SN_BASE_SHOWN_BYTES, "\\x%02x", (unsigned)(unsigned char)*at);
  }
  *i += step;
  if (show_is_unsafe(code)) {
    return snprintf(shown, SN_BASE_SHOWN_BYTES, code < 0x80 ? "\\x%02" PRIx32 : "\\u%04" PRIx32, code);
  }
  memcpy(shown, at, step);
  shown[step] = '\0';
  return 1;
}
