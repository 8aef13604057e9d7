/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Writes .safetensors. The header names the arrays in the bundle's order and is padded to 8 bytes; data lies by falling element
 * size (in the bundle's order within a size), so that every array is aligned for its type and readers can map it. */
#include "files_internal.h"

#include <inttypes.h>
#include <string.h>

/* One entry of the file: an array or a half of a complex one. */
typedef struct piece {
  const char *name;
  const char *ending; /* "", ".re", ".im" */
  sn_array *array;    /* owned */
  sn_type type;       /* of the piece: the real part's for halves */
  uint64_t offset, bytes;
} piece;

typedef struct writer {
  sn_diag *d;
  sn_loc at;
  const sn_bundle *bundle;
  piece *pieces;
  size_t n;
  sn_str header;
} writer;

/* ---- pieces ------------------------------------------------------------------------------------------------------ */

static void add_piece(writer *w, const char *name, const char *ending, sn_array *a) {
  const sn_shape *shape = sn_array_shape(a);
  sn_type type = sn_type_real_part(shape->type);
  uint64_t bytes = (uint64_t)sn_shape_elements(shape) * sn_type_bytes(type);
  w->pieces[w->n++] = (piece){name, ending, sn_array_retain(a), type, 0, bytes};
}

static sn_status make_pieces(writer *w) {
  size_t n = sn_bundle_count(w->bundle);
  w->pieces = sn_alloc_zero(n, 2 * sizeof *w->pieces);
  if (!w->pieces) return sn_out_of_memory(w->d, 2 * n * sizeof *w->pieces);
  for (size_t i = 0; i < n; i++) {
    const char *name = sn_bundle_name(w->bundle, i);
    sn_array *a;
    sn_status status = sn_files_static(sn_bundle_at(w->bundle, i), &a);
    if (status != SN_OK) return sn_out_of_memory(w->d, 0);
    bool split = sn_type_is_complex(sn_array_shape(a)->type);
    add_piece(w, name, split ? ".re" : "", a);
    if (split) add_piece(w, name, ".im", a);
    sn_array_release(a);
  }
  return SN_OK;
}

/* Names in the file are text, each there once, also after complex arrays were split. */
static sn_status check_name(writer *w, sn_map *names, const piece *p, sn_str *full) {
  size_t bad = 0;
  sn_str_clear(full);
  sn_str_add(full, p->name);
  sn_str_add(full, p->ending);
  if (full->failed) return sn_out_of_memory(w->d, 0);
  if (!sn_utf8_valid(full->data, full->n, &bad)) {
    return sn_error(w->d, w->at, SN_ERR_NAME, "an array's name is no UTF-8 at byte %zu of it", bad);
  }
  if (strcmp(full->data, "__metadata__") == 0 || sn_map_get_str(names, full->data)) {
    sn_status status = sn_error(w->d, w->at, SN_ERR_NAME, "two entries would be called '%s'", full->data);
    sn_hint(w->d, "complex arrays are stored as NAME.re and NAME.im; __metadata__ is taken");
    return status;
  }
  return sn_map_set_str(names, full->data, w) == SN_OK ? SN_OK : sn_out_of_memory(w->d, 0);
}

static sn_status check_names(writer *w) {
  sn_map *names;
  if (sn_map_create(&names) != SN_OK) return sn_out_of_memory(w->d, 0);
  sn_str full = {0};
  sn_status status = SN_OK;
  for (size_t i = 0; i < w->n && status == SN_OK; i++) status = check_name(w, names, &w->pieces[i], &full);
  sn_str_finish(&full);
  sn_map_destroy(names);
  return status;
}

static const size_t sizes[] = {8, 4, 2, 1};
enum { N_SIZES = sizeof sizes / sizeof sizes[0] };

static void place(writer *w) {
  uint64_t at = 0;
  for (int s = 0; s < N_SIZES; s++) {
    for (size_t i = 0; i < w->n; i++) {
      if (sn_type_bytes(w->pieces[i].type) != sizes[s]) continue;
      w->pieces[i].offset = at;
      at += w->pieces[i].bytes;
    }
  }
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

/* The inside of a JSON string. */
static void put_json_text(sn_str *s, const char *text) {
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') sn_str_char(s, '\\');
    if (c < 0x20) sn_str_printf(s, "\\u%04x", c);
    else sn_str_char(s, *text);
  }
}

static void put_pair(sn_str *s, bool *any, const char *key, const char *key_tail, const char *value) {
  sn_str_add(s, *any ? ",\"" : "\"__metadata__\":{\"");
  *any = true;
  put_json_text(s, key);
  put_json_text(s, key_tail);
  sn_str_add(s, "\":\"");
  put_json_text(s, value);
  sn_str_char(s, '"');
}

static sn_status put_metadata(writer *w) {
  sn_str *s = &w->header;
  bool any = false;
  for (size_t i = 0; i < sn_bundle_n_metadata(w->bundle); i++) {
    const char *key, *value;
    size_t bad = 0;
    sn_bundle_metadata_at(w->bundle, i, &key, &value);
    if (!sn_utf8_valid(key, strlen(key), &bad) || !sn_utf8_valid(value, strlen(value), &bad)) {
      return sn_error(w->d, w->at, SN_ERR_NAME, "metadata entry %zu is no UTF-8", i);
    }
    /* Types are known from the arrays; what an earlier file said of others must not stick to these. */
    if (strncmp(key, SN_FILES_TYPE_KEY, strlen(SN_FILES_TYPE_KEY)) != 0) put_pair(s, &any, key, "", value);
  }
  for (size_t i = 0; i < w->n; i++) {
    const piece *p = &w->pieces[i];
    if (sn_types[p->type].safetensors[0] == '\0') put_pair(s, &any, SN_FILES_TYPE_KEY, p->name, sn_type_text(p->type));
  }
  if (any) sn_str_char(s, '}');
  return SN_OK;
}

static void put_piece(sn_str *s, const piece *p) {
  const char *dtype = sn_types[p->type].safetensors;
  const sn_shape *shape = sn_array_shape(p->array);
  if (dtype[0] == '\0') dtype = sn_types[sn_files_stand_in(p->type)].safetensors;
  if (s->n > 8 + 1) sn_str_char(s, ','); /* not the first thing behind the length and '{' */
  sn_str_char(s, '"');
  put_json_text(s, p->name);
  sn_str_printf(s, "%s\":{\"dtype\":\"%s\",\"shape\":[", p->ending, dtype);
  for (int i = 0; i < shape->rank; i++) {
    if (i > 0) sn_str_char(s, ',');
    sn_str_i64(s, shape->dims[i]);
  }
  sn_str_printf(s, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", p->offset, p->offset + p->bytes);
}

static sn_status make_header(writer *w) {
  sn_str *s = &w->header;
  for (int i = 0; i < 8; i++) sn_str_char(s, '\0'); /* the length, filled in below */
  sn_str_char(s, '{');
  SN_TRY(put_metadata(w));
  for (size_t i = 0; i < w->n; i++) put_piece(s, &w->pieces[i]);
  sn_str_char(s, '}');
  while (!s->failed && s->n % 8 != 0) sn_str_char(s, ' ');
  if (s->failed) return sn_out_of_memory(w->d, s->n);
  for (int i = 0; i < 8; i++) s->data[i] = (char)((uint64_t)(s->n - 8) >> (8 * i) & 0xff);
  return SN_OK;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static bool put_bytes(FILE *to, const void *data, size_t n) { return n == 0 || fwrite(data, 1, n, to) == n; }

/* Every second number, through a buffer. */
static bool put_half(FILE *to, const piece *p) {
  uint8_t buffer[4096];
  size_t each = sn_type_bytes(p->type), left = (size_t)p->bytes / each;
  const uint8_t *from = (const uint8_t *)sn_array_data(p->array) + (strcmp(p->ending, ".im") == 0 ? each : 0);
  while (left > 0) {
    size_t n = left < sizeof buffer / each ? left : sizeof buffer / each;
    for (size_t i = 0; i < n; i++, from += 2 * each) memcpy(buffer + i * each, from, each);
    if (!put_bytes(to, buffer, n * each)) return false;
    left -= n;
  }
  return true;
}

static sn_status write_all(void *ctx, FILE *to) {
  const writer *w = ctx;
  if (!put_bytes(to, w->header.data, w->header.n)) return SN_ERR_IO;
  for (int s = 0; s < N_SIZES; s++) {
    for (size_t i = 0; i < w->n; i++) {
      const piece *p = &w->pieces[i];
      if (sn_type_bytes(p->type) != sizes[s]) continue;
      bool ok = p->ending[0] ? put_half(to, p) : put_bytes(to, sn_array_data(p->array), (size_t)p->bytes);
      if (!ok) return SN_ERR_IO;
    }
  }
  return SN_OK;
}

static sn_status prepare(writer *w) {
  SN_TRY(make_pieces(w));
  SN_TRY(check_names(w));
  place(w);
  return make_header(w);
}

sn_status sn_safetensors_write(sn_diag *d, const char *path, const sn_bundle *b) {
  writer w = {.d = d, .at = {path, 0, 0}, .bundle = b};
  sn_status status = prepare(&w);
  if (status == SN_OK) status = sn_file_write_with(d, path, write_all, &w);
  for (size_t i = 0; i < w.n; i++) sn_array_release(w.pieces[i].array);
  sn_free(w.pieces);
  sn_str_finish(&w.header);
  return status;
}
