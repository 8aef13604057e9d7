/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* .npy, versions 1.0 to 3.0 (numpy.lib.format): magic, header length, a Python dict as text, data.
 * Big-endian data is swapped and Fortran order transposed, so that arrays come out as all others do. */
#include "files_internal.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_HEADER = 1 << 20 };

/* ---- the dict ---------------------------------------------------------------------------------------------------- */

typedef struct npy_header {
  char descr[64];
  bool fortran;
  int rank;
  int64_t dims[SN_MAX_RANK];
  bool has_descr, has_fortran, has_shape;
} npy_header;

typedef struct npy_parser {
  const sn_files_input *in;
  const char *what, *p, *end;
  npy_header *h;
} npy_parser;

static sn_status header_fault(const npy_parser *q, const char *expected) {
  sn_status status = sn_error(q->in->d, SN_FILES_AT(q->in), SN_ERR_CORRUPT, "array '%s': .npy header: expected %s",
                              q->what, expected);
  sn_hint(q->in->d, "a header reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }");
  return status;
}

static void skip_space(npy_parser *q) {
  while (q->p < q->end && (*q->p == ' ' || *q->p == '\n' || *q->p == '\t' || *q->p == '\r')) q->p++;
}

static bool take_char(npy_parser *q, char c) {
  skip_space(q);
  if (q->p == q->end || *q->p != c) return false;
  q->p++;
  return true;
}

static bool take_word(npy_parser *q, const char *word) {
  size_t n = strlen(word);
  skip_space(q);
  if ((size_t)(q->end - q->p) < n || memcmp(q->p, word, n) != 0) return false;
  q->p += n;
  return true;
}

/* A quoted string without escapes. */
static bool take_string(npy_parser *q, char *to, size_t cap) {
  skip_space(q);
  if (q->p == q->end || (*q->p != '\'' && *q->p != '"')) return false;
  char quote = *q->p++;
  const char *start = q->p;
  while (q->p < q->end && *q->p != quote && *q->p != '\\') q->p++;
  size_t n = (size_t)(q->p - start);
  if (q->p == q->end || *q->p != quote || n >= cap) return false;
  memcpy(to, start, n);
  to[n] = '\0';
  q->p++;
  return true;
}

static bool take_size(npy_parser *q, int64_t *out) {
  skip_space(q);
  if (q->p == q->end || *q->p < '0' || *q->p > '9') return false;
  int64_t v = 0;
  for (; q->p < q->end && *q->p >= '0' && *q->p <= '9'; q->p++) {
    if (!sn_mul_i64(v, 10, &v) || !sn_add_i64(v, *q->p - '0', &v)) return false;
  }
  if (q->p < q->end && *q->p == 'L') q->p++; /* as Python 2 wrote long integers */
  *out = v;
  return true;
}

static sn_status parse_shape(npy_parser *q) {
  npy_header *h = q->h;
  if (!take_char(q, '(')) return header_fault(q, "'(' of the shape");
  while (!take_char(q, ')')) {
    if (h->rank == SN_MAX_RANK) {
      return sn_error(q->in->d, SN_FILES_AT(q->in), SN_ERR_UNSUPPORTED,
                      "array '%s' has more than %d dimensions", q->what, SN_MAX_RANK);
    }
    if (!take_size(q, &h->dims[h->rank++])) return header_fault(q, "a size in the shape");
    if (take_char(q, ',')) continue;
    if (!take_char(q, ')')) return header_fault(q, "',' or ')' in the shape");
    break;
  }
  return SN_OK;
}

static sn_status parse_descr(npy_parser *q) {
  skip_space(q);
  if (q->p < q->end && *q->p == '[') {
    return sn_error(q->in->d, SN_FILES_AT(q->in), SN_ERR_UNSUPPORTED,
                    "array '%s' has a structured type; only plain element types are read", q->what);
  }
  return take_string(q, q->h->descr, sizeof q->h->descr) ? SN_OK : header_fault(q, "a type string after 'descr'");
}

static sn_status parse_fortran(npy_parser *q) {
  if (take_word(q, "True")) q->h->fortran = true;
  else if (!take_word(q, "False")) return header_fault(q, "True or False after 'fortran_order'");
  return SN_OK;
}

static sn_status parse_entry(npy_parser *q) {
  char key[32];
  npy_header *h = q->h;
  if (!take_string(q, key, sizeof key)) return header_fault(q, "a key");
  if (!take_char(q, ':')) return header_fault(q, "':' after a key");
  bool descr = strcmp(key, "descr") == 0, fortran = strcmp(key, "fortran_order") == 0;
  if (!descr && !fortran && strcmp(key, "shape") != 0) {
    return header_fault(q, "the keys 'descr', 'fortran_order' and 'shape' alone");
  }
  bool *has = descr ? &h->has_descr : fortran ? &h->has_fortran : &h->has_shape;
  if (*has) return header_fault(q, "each key once");
  *has = true;
  return descr ? parse_descr(q) : fortran ? parse_fortran(q) : parse_shape(q);
}

static sn_status parse_header(npy_parser *q) {
  if (!take_char(q, '{')) return header_fault(q, "'{'");
  while (!take_char(q, '}')) {
    SN_TRY(parse_entry(q));
    if (take_char(q, ',')) continue;
    if (!take_char(q, '}')) return header_fault(q, "',' or '}'");
    break;
  }
  skip_space(q);
  if (q->p != q->end) return header_fault(q, "nothing behind '}'");
  if (!q->h->has_descr || !q->h->has_fortran || !q->h->has_shape) {
    return header_fault(q, "'descr', 'fortran_order' and 'shape', all three");
  }
  return SN_OK;
}

/* ---- types ------------------------------------------------------------------------------------------------------- */

static sn_status refuse_descr(const npy_parser *q) {
  const char *descr = q->h->descr;
  sn_status status = sn_error(q->in->d, SN_FILES_AT(q->in), SN_ERR_UNSUPPORTED, "array '%s' has the type '%s'",
                              q->what, descr);
  if (strchr(descr, 'V')) {
    sn_hint(q->in->d, "raw bytes, as NumPy saves bfloat16 and float8: the type is lost; save as .safetensors");
  } else if (strchr(descr, 'O')) {
    sn_hint(q->in->d, "Python objects are never unpickled; save a plain array");
  } else {
    sn_hint(q->in->d, "booleans, integers, floats and complex numbers of standard width are read");
  }
  return status;
}

static sn_status find_type(const npy_parser *q, sn_type *out, bool *swap) {
  const char *descr = q->h->descr;
  *swap = descr[0] == '>';
  if (descr[0] != '\0' && strchr("<>=|", descr[0])) {
    for (int t = 0; t < SN_TYPE_COUNT; t++) {
      if (sn_types[t].npy[0] == '\0' || strcmp(sn_types[t].npy + 1, descr + 1) != 0) continue;
      *out = (sn_type)t;
      return SN_OK;
    }
  }
  return refuse_descr(q);
}

static void swap_bytes(uint8_t *data, size_t bytes, int64_t n) {
  for (int64_t i = 0; i < n; i++, data += bytes) {
    for (size_t j = 0; j < bytes / 2; j++) {
      uint8_t x = data[j];
      data[j] = data[bytes - 1 - j];
      data[bytes - 1 - j] = x;
    }
  }
}

/* From first dimension fastest to last dimension fastest. */
static void transpose(const sn_shape *shape, uint8_t *dst, const uint8_t *src) {
  int64_t strides[SN_MAX_RANK], index[SN_MAX_RANK] = {0}, offset = 0, n = sn_shape_elements(shape);
  size_t each = sn_type_bytes(shape->type);
  sn_shape_strides(shape, strides);
  for (int64_t i = 0; i < n; i++) {
    memcpy(dst + (size_t)offset * each, src + (size_t)i * each, each);
    for (int k = 0; k < shape->rank; k++) {
      offset += strides[k];
      if (++index[k] < shape->dims[k]) break;
      offset -= strides[k] * index[k];
      index[k] = 0;
    }
  }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static sn_status truncated(const sn_files_stream *s, const char *what, uint64_t wanted) {
  return sn_error(s->in->d, SN_FILES_AT(s->in), SN_ERR_CORRUPT,
                  "array '%s' is cut short: %" PRIu64 " bytes wanted, %" PRIu64 " left", what, wanted, s->left);
}

static sn_status read_exactly(sn_files_stream *s, const char *what, void *to, size_t n_bytes) {
  if (s->left < n_bytes) return truncated(s, what, n_bytes);
  return s->read(s, to, n_bytes);
}

/* *n_bytes gets the length of the dict. */
static sn_status read_preamble(sn_files_stream *s, const char *what, uint32_t *n_bytes) {
  uint8_t b[12];
  SN_TRY(read_exactly(s, what, b, 10));
  if (memcmp(b, "\x93NUMPY", 6) != 0) {
    return sn_error(s->in->d, SN_FILES_AT(s->in), SN_ERR_CORRUPT, "array '%s' does not begin as an .npy file does", what);
  }
  if (b[6] < 1 || b[6] > 3 || b[7] != 0) {
    return sn_error(s->in->d, SN_FILES_AT(s->in), SN_ERR_UNSUPPORTED,
                    "array '%s' has .npy version %d.%d; 1.0, 2.0 and 3.0 are read", what, b[6], b[7]);
  }
  *n_bytes = (uint32_t)b[8] | (uint32_t)b[9] << 8;
  if (b[6] > 1) {
    SN_TRY(read_exactly(s, what, b + 10, 2));
    *n_bytes |= (uint32_t)b[10] << 16 | (uint32_t)b[11] << 24;
  }
  if (*n_bytes > s->left) return truncated(s, what, *n_bytes);
  if (*n_bytes > MAX_HEADER) {
    return sn_error(s->in->d, SN_FILES_AT(s->in), SN_ERR_CORRUPT, "array '%s': .npy header of %" PRIu32 " bytes", what,
                    *n_bytes);
  }
  return SN_OK;
}

static sn_status read_header(sn_files_stream *s, const char *what, npy_header *h, sn_type *type, bool *swap) {
  uint32_t n_bytes = 0;
  SN_TRY(read_preamble(s, what, &n_bytes));
  char *text = sn_alloc(n_bytes);
  if (!text) return sn_out_of_memory(s->in->d, n_bytes);
  sn_status status = s->read(s, text, n_bytes);
  npy_parser q = {s->in, what, text, text + n_bytes, h};
  if (status == SN_OK) status = parse_header(&q);
  if (status == SN_OK) status = find_type(&q, type, swap);
  sn_free(text);
  return status;
}

/* Data that has to be read, swapped or transposed on its way. */
static sn_status read_copy(sn_files_stream *s, const sn_shape *shape, const npy_header *h, bool swap, sn_array *a) {
  size_t bytes = sn_array_bytes(a);
  uint8_t *data = sn_array_data(a), *staged = data;
  if (h->fortran && shape->rank > 1) {
    staged = sn_alloc(bytes);
    if (!staged) return sn_out_of_memory(s->in->d, bytes);
  }
  sn_status status = s->read(s, staged, bytes);
  if (status == SN_OK) {
    size_t parts = sn_type_is_complex(shape->type) ? 2 : 1;
    size_t each = sn_type_bytes(shape->type) / parts;
    if (swap) swap_bytes(staged, each, (int64_t)(bytes / each));
    if (staged != data) transpose(shape, data, staged);
    sn_files_normalise(shape->type, data, sn_shape_elements(shape));
  }
  if (staged != data) sn_free(staged);
  return status;
}

sn_status sn_npy_read(sn_files_stream *s, const char *what, sn_array **out) {
  npy_header h = {0};
  sn_type type = SN_TYPE_INVALID;
  bool swap = false;
  *out = NULL;
  SN_TRY(read_header(s, what, &h, &type, &swap));
  sn_shape shape = {.type = type, .rank = h.rank, .dims = h.dims};
  if (sn_shape_check(s->in->d, SN_FILES_AT(s->in), &shape) != SN_OK) return SN_ERR_CORRUPT;
  uint64_t bytes = (uint64_t)sn_shape_bytes(&shape);
  /* Checked before anything is allocated: a header may claim what it likes. */
  if (s->left < bytes) return truncated(s, what, bytes);
  if (s->left > bytes) {
    return sn_error(s->in->d, SN_FILES_AT(s->in), SN_ERR_CORRUPT, "array '%s' has %" PRIu64 " bytes too many", what,
                    s->left - bytes);
  }
  if (s->direct && !swap && !(h.fortran && h.rank > 1)) return sn_files_take(s->in, &shape, s->direct, out);
  sn_array *a;
  sn_status status = sn_array_create(&shape, &a);
  if (status != SN_OK) return status == SN_ERR_MEMORY ? sn_out_of_memory(s->in->d, (size_t)bytes) : status;
  status = read_copy(s, &shape, &h, swap, a);
  if (status != SN_OK) sn_array_release(a);
  else *out = a;
  return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

sn_status sn_npy_header(const sn_array *a, sn_str *out, bool *unnamed) {
  const sn_shape *shape = sn_array_shape(a);
  const char *descr = sn_types[shape->type].npy;
  *unnamed = descr[0] == '\0';
  if (*unnamed) descr = sn_types[sn_files_stand_in(shape->type)].npy;
  sn_str dict = {0};
  sn_str_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
  for (int i = 0; i < shape->rank; i++) {
    sn_str_i64(&dict, shape->dims[i]);
    sn_str_add(&dict, i + 1 < shape->rank ? ", " : shape->rank == 1 ? "," : "");
  }
  sn_str_add(&dict, "), }");
  while (!dict.failed && (10 + dict.n + 1) % 64 != 0) sn_str_char(&dict, ' ');
  sn_str_char(&dict, '\n');
  sn_str_add_n(out, "\x93NUMPY\x01", 7);
  sn_str_char(out, '\0');
  sn_str_char(out, (char)(dict.n & 0xff));
  sn_str_char(out, (char)(dict.n >> 8)); /* 32 dimensions of 19 digits stay far below 65536 */
  if (!dict.failed) sn_str_add_n(out, dict.data, dict.n);
  out->failed |= dict.failed;
  sn_str_finish(&dict);
  return out->failed ? SN_ERR_MEMORY : SN_OK;
}

typedef struct npy_pieces {
  const sn_str *header;
  const sn_array *array;
} npy_pieces;

static sn_status write_pieces(void *ctx, FILE *to) {
  const npy_pieces *p = ctx;
  size_t n = sn_array_bytes(p->array);
  if (fwrite(p->header->data, 1, p->header->n, to) != p->header->n) return SN_ERR_IO;
  return n == 0 || fwrite(sn_array_data(p->array), 1, n, to) == n ? SN_OK : SN_ERR_IO;
}

sn_status sn_npy_write(sn_diag *d, const char *path, const sn_bundle *b) {
  sn_loc at = {path, 0, 0};
  if (sn_bundle_count(b) != 1) {
    sn_status status = sn_error(d, at, SN_ERR_USAGE, ".npy holds exactly one array; %zu were given", sn_bundle_count(b));
    sn_hint(d, "write .npz or .safetensors");
    return status;
  }
  sn_array *a;
  bool unnamed = false;
  sn_str header = {0};
  sn_status status = sn_files_static(sn_bundle_at(b, 0), &a);
  if (status == SN_OK) status = sn_npy_header(a, &header, &unnamed);
  if (status == SN_ERR_MEMORY) sn_out_of_memory(d, 0);
  if (status == SN_OK && unnamed) {
    sn_type type = sn_array_shape(a)->type;
    sn_warn(d, at, ".npy has no name for %s: stored as %s", sn_type_text(type), sn_type_text(sn_files_stand_in(type)));
    sn_hint(d, ".npz and .safetensors keep the type");
  }
  npy_pieces pieces = {&header, a};
  if (status == SN_OK) status = sn_file_write_with(d, path, write_pieces, &pieces);
  sn_str_finish(&header);
  sn_array_release(a);
  return status;
}
