/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "source.h"

#include <string.h>
#include <zlib.h>

#include "sinter/program.h"
#include "sinter/stablehlo.h"
#include "sinter/text.h"

/* ---- gzip ---- */

static bool is_gzip(const char *p, size_t n) { return n > 2 && (unsigned char)p[0] == 0x1f && (unsigned char)p[1] == 0x8b; }

static void *zlib_alloc(void *unused, uInt n, uInt each) {
  (void)unused;
  return sn_alloc_zero(n, each);
}
static void zlib_free(void *unused, void *p) {
  (void)unused;
  sn_free(p);
}

/* Inflates one member after the other until the input ends. */
static sn_status inflate_all(sn_diag *d, const char *name, z_stream *z, sn_str *to) {
  char block[1 << 16];
  int code = Z_OK;
  while (z->avail_in > 0 || code != Z_STREAM_END) {
    z->next_out = (Bytef *)block;
    z->avail_out = sizeof block;
    code = inflate(z, Z_NO_FLUSH);
    sn_str_add_n(to, block, sizeof block - z->avail_out);
    if (to->failed || code == Z_MEM_ERROR) return sn_out_of_memory(d, to->n);
    if (code == Z_STREAM_END) {
      if (z->avail_in == 0) return SN_OK;
      if (inflateReset(z) != Z_OK) return SN_ERR_CORRUPT;
    } else if (code != Z_OK) {
      return sn_error(d, (sn_loc){name, 0, 0}, SN_ERR_CORRUPT, "gzip data is %s", code == Z_BUF_ERROR ? "cut short" : "damaged");
    }
  }
  return SN_OK;
}

static sn_status gunzip(sn_diag *d, sn_source *s) {
  z_stream z;
  memset(&z, 0, sizeof z);
  z.zalloc = zlib_alloc;
  z.zfree = zlib_free;
  if (s->n_bytes > UINT32_MAX) return sn_error(d, (sn_loc){s->name, 0, 0}, SN_ERR_UNSUPPORTED, "more than 4 GiB of compressed text");
  z.next_in = (Bytef *)s->text;
  z.avail_in = (uInt)s->n_bytes;
  if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) return sn_out_of_memory(d, sizeof z);
  sn_str plain = {0};
  sn_status status = inflate_all(d, s->name, &z, &plain);
  inflateEnd(&z);
  if (status == SN_OK && !plain.data) sn_str_add(&plain, "");
  if (status == SN_OK && plain.failed) status = sn_out_of_memory(d, 1);
  if (status != SN_OK) {
    sn_str_finish(&plain);
    return status;
  }
  sn_free(s->text);
  s->text = plain.data;
  s->n_bytes = plain.n;
  return SN_OK;
}

/* ---- parts ---- */

sn_status sn_source_open(sn_diag *d, const char *path, bool split, sn_source *out) {
  memset(out, 0, sizeof *out);
  out->name = strcmp(path, "-") == 0 ? "<stdin>" : path;
  out->split = split;
  out->more = true;
  SN_TRY(sn_file_read(d, path, &out->text, &out->n_bytes));
  if (is_gzip(out->text, out->n_bytes)) SN_TRY(gunzip(d, out));
  if (sn_stablehlo_is_bytecode(out->text, out->n_bytes) || sn_program_is(out->text, out->n_bytes)) out->split = false; /* any bytes may occur in it */
  return SN_OK;
}

static const char separator[] = "// -----";

static bool is_separator(const char *line, size_t n) {
  while (n && (line[n - 1] == ' ' || line[n - 1] == '\r' || line[n - 1] == '-')) n--;
  return n == 2 && strncmp(line, separator, sizeof separator - 1) == 0;
}

/* The bytes of the next part and the lines in it, its separator included. */
static size_t part_length(const sn_source *s, uint32_t *n_lines, bool *ended_by_separator) {
  size_t at = s->at;
  *n_lines = 0;
  *ended_by_separator = false;
  while (at < s->n_bytes) {
    const char *line = s->text + at, *end = memchr(line, '\n', s->n_bytes - at);
    size_t n = end ? (size_t)(end - line) : s->n_bytes - at;
    ++*n_lines;
    if (s->split && is_separator(line, n)) {
      *ended_by_separator = true;
      return at - s->at;
    }
    at += n + (end != NULL);
  }
  return at - s->at;
}

static bool blank(const char *p, size_t n) {
  size_t k = 0;
  while (k < n && (p[k] == ' ' || p[k] == '\n' || p[k] == '\r' || p[k] == '\t')) k++;
  return k == n;
}

/* Steps over the next part; false: none is left. */
static bool take_part(sn_source *s, const char **text, size_t *n, uint32_t *line) {
  while (s->more) {
    uint32_t n_lines;
    bool separated;
    *n = part_length(s, &n_lines, &separated);
    *text = s->text + s->at;
    *line = s->line;
    bool first = s->at == 0;
    s->at += *n;
    if (separated) {
      const char *end = memchr(s->text + s->at, '\n', s->n_bytes - s->at);
      s->at = end ? (size_t)(end - s->text) + 1 : s->n_bytes;
    }
    s->line += n_lines;
    s->more = separated;
    if (!blank(*text, *n) || (first && !separated)) return true; /* an empty file is one bad module */
  }
  return false;
}

static sn_status parse(sn_diag *d, sn_source *s, const char *text, size_t n, uint32_t line, sn_module **out) {
  sn_free(s->part);
  s->part = sn_alloc(line + n + 1);
  if (!s->part) return sn_out_of_memory(d, line + n + 1);
  memset(s->part, '\n', line);
  memcpy(s->part + line, text, n);
  s->part[line + n] = '\0';
  if (sn_program_is(text, n)) {
    sn_error(d, (sn_loc){s->name, 0, 0}, SN_ERR_SYNTAX, "expected a module, found a compiled program");
    sn_hint(d, "sinter-run runs it");
    return SN_ERR_SYNTAX;
  }
  if (sn_stablehlo_is_bytecode(text, n) || sn_stablehlo_is_text(text, n)) return sn_stablehlo_parse(d, s->name, s->part, line + n, NULL, out);
  SN_TRY(sn_hlo_parse(d, s->name, s->part, line + n, out));
  return sn_module_verify(d, *out, 0);
}

bool sn_source_next(sn_diag *d, sn_source *s, sn_status *status, sn_module **out) {
  const char *text;
  size_t n;
  uint32_t line;
  *out = NULL;
  *status = SN_OK;
  if (!take_part(s, &text, &n, &line)) return false;
  *status = parse(d, s, text, n, line, out);
  sn_diag_set_source(d, s->name, s->text, s->n_bytes); /* lives longer than the part, and has the same lines */
  if (*status != SN_OK) {
    sn_module_destroy(*out);
    *out = NULL;
  }
  return true;
}

void sn_source_finish(sn_source *s) {
  sn_free(s->text);
  sn_free(s->part);
  memset(s, 0, sizeof *s);
}

sn_status sn_source_read_one(sn_diag *d, const char *path, bool split, sn_source *s, sn_module **out) {
  *out = NULL;
  SN_TRY(sn_source_open(d, path, split, s));
  return sn_source_only(d, s, out);
}

sn_status sn_source_only(sn_diag *d, sn_source *s, sn_module **out) {
  *out = NULL;
  sn_status status, second;
  sn_module *more = NULL;
  if (!sn_source_next(d, s, &status, out)) return sn_error(d, SN_NOWHERE, SN_ERR_SYNTAX, "%s holds no module", s->name);
  if (status != SN_OK || !s->more) return status;
  bool several = sn_source_next(d, s, &second, &more);
  sn_module_destroy(more);
  if (!several) return SN_OK;
  sn_module_destroy(*out);
  *out = NULL;
  return sn_error(d, SN_NOWHERE, SN_ERR_USAGE, "%s holds several modules; this tool takes one", s->name);
}
