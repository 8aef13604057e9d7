/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Reads .safetensors (https://github.com/huggingface/safetensors, "Format"):
 *
 *   u64 length of header | header: JSON | data
 *   {"__metadata__": {"k": "v"}, "NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, …}
 *
 * Offsets count from the data's first byte; the tensors cover the data without gap or overlap. */
#include "files_internal.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEADER 100000000u /* the reference implementation's limit */

typedef struct tensor {
  const char *name; /* in the JSON tree */
  sn_type type;
  int rank;
  int64_t dims[SN_MAX_RANK];
  uint64_t begin, end;
} tensor;

typedef struct reader {
  const sn_files_input *in;
  const uint8_t *data; /* behind the header */
  uint64_t data_bytes;
  sn_map *names; /* to tensor index; finds duplicates, and re/im pairs */
  tensor *tensors;
  size_t n;
  sn_bundle *out;
} reader;

static sn_status fault(const reader *r, const char *name, const char *what) {
  return sn_error(r->in->d, SN_FILES_AT(r->in), SN_ERR_CORRUPT, "tensor '%s': %s", name, what);
}

/* ---- header ------------------------------------------------------------------------------------------------------ */

/* A JSON text may hide a NUL in a name, behind which C would stop reading. */
static bool has_escaped_nul(const char *text, size_t n) {
  for (size_t i = 0; i + 1 < n; i++) {
    if (text[i] != '\\') continue;
    if (n - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0) return true;
    i++; /* the escaped character */
  }
  return false;
}

static sn_status check_header_text(const sn_files_input *in, const char *text, size_t n) {
  size_t bad = 0;
  if (text[0] != '{') {
    sn_status status = sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "neither .safetensors, .npz nor .npy");
    sn_hint(in->d, "a .safetensors file has '{' at byte 8");
    return status;
  }
  if (!sn_utf8_valid(text, n, &bad)) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "safetensors header is no UTF-8 at byte %zu", bad + 8);
  }
  if (memchr(text, 0, n) || has_escaped_nul(text, n)) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "safetensors header holds a NUL character");
  }
  return SN_OK;
}

static sn_status find_header(const sn_files_input *in, const char **text, size_t *n) {
  if (in->n_bytes < 10) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "%zu bytes are too few for any file of arrays", in->n_bytes);
  }
  uint64_t length = 0;
  for (int i = 7; i >= 0; i--) length = length << 8 | in->data[i];
  *text = (const char *)in->data + 8;
  if (length < 2 || length > MAX_HEADER || length > in->n_bytes - 8) {
    if (**text != '{') return check_header_text(in, *text, 1); /* not this format at all */
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT,
                    "safetensors header of %" PRIu64 " bytes in a file of %zu; the file is cut short or damaged", length,
                    in->n_bytes);
  }
  *n = (size_t)length;
  return check_header_text(in, *text, *n);
}

static sn_status parse_json(const sn_files_input *in, const char *text, size_t n, cJSON **out) {
  const char *end = NULL;
  *out = cJSON_ParseWithLengthOpts(text, n, &end, 0);
  if (!*out) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "safetensors header is no JSON at byte %td",
                    end ? end - text + 8 : 8);
  }
  while (end < text + n && (*end == ' ' || *end == '\n' || *end == '\t' || *end == '\r')) end++;
  if (end != text + n) {
    return sn_error(in->d, SN_FILES_AT(in), SN_ERR_CORRUPT, "safetensors header goes on behind its JSON, at byte %td",
                    end - text + 8);
  }
  return SN_OK;
}

/* ---- one tensor -------------------------------------------------------------------------------------------------- */

/* Names that writers use beyond the element table's column. */
static const struct { const char *name; sn_type type; } more_names[] = {
    {"F8_E8M0", SN_TYPE_F8E8M0FNU},
    {"F8_E4M3FNUZ", SN_TYPE_F8E4M3FNUZ},
    {"F8_E5M2FNUZ", SN_TYPE_F8E5M2FNUZ},
    {"C64", SN_TYPE_C64},
};

static bool type_from_name(const char *name, sn_type *out) {
  for (int t = 0; t < SN_TYPE_COUNT; t++) {
    if (sn_types[t].safetensors[0] == '\0' || strcmp(sn_types[t].safetensors, name) != 0) continue;
    *out = (sn_type)t;
    return true;
  }
  for (size_t i = 0; i < sizeof more_names / sizeof more_names[0]; i++) {
    if (strcmp(more_names[i].name, name) != 0) continue;
    *out = more_names[i].type;
    return true;
  }
  return false;
}

/* JSON numbers come as doubles; up to 2^53 they are exact, and no file is larger. */
static bool to_size(const cJSON *item, int64_t *out) {
  if (!cJSON_IsNumber(item)) return false;
  double v = item->valuedouble;
  if (!(v >= 0 && v <= 9007199254740992.0) || v != floor(v)) return false;
  *out = (int64_t)v;
  return true;
}

static sn_status parse_dtype(const reader *r, tensor *t, const cJSON *item) {
  if (!cJSON_IsString(item)) return fault(r, t->name, "dtype is no string");
  if (type_from_name(item->valuestring, &t->type)) return SN_OK;
  sn_status status = sn_error(r->in->d, SN_FILES_AT(r->in), SN_ERR_UNSUPPORTED, "tensor '%s': dtype '%s' is not read",
                              t->name, item->valuestring);
  if (item->valuestring[0] == 'F') sn_hint(r->in->d, "floats of less than a byte come packed there; convert to F8_E4M3");
  return status;
}

static sn_status parse_shape(const reader *r, tensor *t, const cJSON *item) {
  if (!cJSON_IsArray(item)) return fault(r, t->name, "shape is no list");
  for (const cJSON *dim = item->child; dim; dim = dim->next) {
    if (t->rank == SN_MAX_RANK) {
      return sn_error(r->in->d, SN_FILES_AT(r->in), SN_ERR_UNSUPPORTED, "tensor '%s' has more than %d dimensions",
                      t->name, SN_MAX_RANK);
    }
    if (!to_size(dim, &t->dims[t->rank++])) return fault(r, t->name, "a dimension is no size");
  }
  return SN_OK;
}

static sn_status parse_offsets(const reader *r, tensor *t, const cJSON *item) {
  int64_t begin = 0, end = 0;
  const cJSON *first = cJSON_IsArray(item) ? item->child : NULL, *second = first ? first->next : NULL;
  if (!second || second->next || !to_size(first, &begin) || !to_size(second, &end)) {
    return fault(r, t->name, "data_offsets are not two sizes");
  }
  t->begin = (uint64_t)begin;
  t->end = (uint64_t)end;
  if (begin > end || t->end > r->data_bytes) {
    return sn_error(r->in->d, SN_FILES_AT(r->in), SN_ERR_CORRUPT,
                    "tensor '%s': data_offsets [%" PRIu64 ", %" PRIu64 "] in data of %" PRIu64 " bytes", t->name,
                    t->begin, t->end, r->data_bytes);
  }
  return SN_OK;
}

static sn_shape tensor_shape(const tensor *t) { return (sn_shape){.type = t->type, .rank = t->rank, .dims = t->dims}; }

static sn_status check_size(const reader *r, const tensor *t) {
  sn_shape shape = tensor_shape(t);
  if (sn_shape_check(NULL, SN_NOWHERE, &shape) != SN_OK) return fault(r, t->name, "its size overflows");
  if ((uint64_t)sn_shape_bytes(&shape) == t->end - t->begin) return SN_OK;
  return sn_error(r->in->d, SN_FILES_AT(r->in), SN_ERR_CORRUPT,
                  "tensor '%s': its shape takes %" PRId64 " bytes, its data_offsets give %" PRIu64, t->name,
                  sn_shape_bytes(&shape), t->end - t->begin);
}

typedef sn_status (*field_fn)(const reader *r, tensor *t, const cJSON *item);
static const struct { const char *name; field_fn parse; } fields[] = {
    {"dtype", parse_dtype}, {"shape", parse_shape}, {"data_offsets", parse_offsets}};

static sn_status parse_tensor(const reader *r, tensor *t, const cJSON *object) {
  enum { N_FIELDS = sizeof fields / sizeof fields[0] };
  bool seen[N_FIELDS] = {false};
  if (!cJSON_IsObject(object)) return fault(r, t->name, "is no object");
  for (const cJSON *item = object->child; item; item = item->next) {
    for (size_t i = 0; i < N_FIELDS; i++) {
      if (strcmp(item->string, fields[i].name) != 0) continue;
      if (seen[i]) return fault(r, t->name, "says something twice");
      seen[i] = true;
      SN_TRY(fields[i].parse(r, t, item));
    }
  }
  if (!seen[0] || !seen[1] || !seen[2]) return fault(r, t->name, "lacks dtype, shape or data_offsets");
  return check_size(r, t);
}

static sn_status parse_metadata(const reader *r, const cJSON *object) {
  if (!cJSON_IsObject(object)) return fault(r, "__metadata__", "is no object");
  for (const cJSON *item = object->child; item; item = item->next) {
    if (!cJSON_IsString(item)) return fault(r, "__metadata__", "holds something that is no string");
    if (sn_bundle_metadata(r->out, item->string)) return fault(r, "__metadata__", "has a key twice");
    if (sn_bundle_set_metadata(r->out, item->string, item->valuestring) != SN_OK) return sn_out_of_memory(r->in->d, 0);
  }
  return SN_OK;
}

static sn_status parse_tensors(reader *r, const cJSON *root) {
  size_t n = 0;
  bool metadata = false;
  for (const cJSON *item = root->child; item; item = item->next) n++;
  r->tensors = sn_alloc_zero(n, sizeof *r->tensors);
  if (!r->tensors) return sn_out_of_memory(r->in->d, n * sizeof *r->tensors);
  for (const cJSON *item = root->child; item; item = item->next) {
    if (strcmp(item->string, "__metadata__") == 0) {
      if (metadata) return fault(r, item->string, "is there twice");
      metadata = true;
      SN_TRY(parse_metadata(r, item));
      continue;
    }
    tensor *t = &r->tensors[r->n];
    t->name = item->string;
    if (sn_map_get_str(r->names, t->name)) return fault(r, t->name, "is there twice");
    SN_TRY(parse_tensor(r, t, item));
    if (sn_map_set_str(r->names, t->name, t) != SN_OK) return sn_out_of_memory(r->in->d, 0);
    r->n++;
  }
  return SN_OK;
}

/* ---- all of them ------------------------------------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b) {
  const tensor *x = *(const tensor *const *)a, *y = *(const tensor *const *)b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

static sn_status check_covered(const reader *r, const tensor **sorted) {
  uint64_t at = 0;
  for (size_t i = 0; i < r->n; i++) sorted[i] = &r->tensors[i];
  qsort(sorted, r->n, sizeof *sorted, by_begin);
  for (size_t i = 0; i < r->n; i++) {
    if (sorted[i]->begin < at) return fault(r, sorted[i]->name, "its data overlaps another's");
    if (sorted[i]->begin > at) return fault(r, sorted[i]->name, "there is a gap before its data");
    at = sorted[i]->end;
  }
  if (at == r->data_bytes) return SN_OK;
  return sn_error(r->in->d, SN_FILES_AT(r->in), SN_ERR_CORRUPT,
                  "%" PRIu64 " bytes of data, of which tensors take %" PRIu64, r->data_bytes, at);
}

static sn_status check_cover(const reader *r) {
  const tensor **sorted = sn_alloc_zero(r->n, sizeof *sorted);
  if (!sorted) return sn_out_of_memory(r->in->d, r->n * sizeof *sorted);
  sn_status status = check_covered(r, sorted);
  sn_free(sorted);
  return status;
}

/* "NAME.re" with ending ".re": "NAME" + `other` in `to`. */
static bool replace_ending(sn_str *to, const char *name, const char *ending, const char *other) {
  size_t n = strlen(name), m = strlen(ending);
  sn_str_clear(to);
  if (n <= m || strcmp(name + n - m, ending) != 0) return false;
  sn_str_add_n(to, name, n - m);
  sn_str_add(to, other);
  return !to->failed;
}

static bool same_dims(const tensor *a, const tensor *b) {
  return a->type == b->type && a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) == 0;
}

/* The other half of a complex array, when `t` is the half with `ending` and the whole's name is free. */
static const tensor *find_half(const reader *r, const tensor *t, const char *ending, const char *other, sn_str *name) {
  if (sn_type_complex_of(t->type) == SN_TYPE_INVALID) return NULL;
  if (!replace_ending(name, t->name, ending, other)) return NULL;
  const tensor *half = sn_map_get_str(r->names, name->data);
  if (!half || !same_dims(t, half) || !replace_ending(name, t->name, ending, "")) return NULL;
  return sn_map_get_str(r->names, name->data) ? NULL : half;
}

static sn_status join(const reader *r, const tensor *re, const tensor *im, sn_array **out) {
  sn_shape shape = tensor_shape(re);
  size_t each = sn_type_bytes(shape.type);
  shape.type = sn_type_complex_of(shape.type);
  if (sn_shape_check(NULL, SN_NOWHERE, &shape) != SN_OK) return fault(r, re->name, "its size overflows");
  if (sn_array_create(&shape, out) != SN_OK) return sn_out_of_memory(r->in->d, (size_t)sn_shape_bytes(&shape));
  uint8_t *to = sn_array_data(*out);
  const uint8_t *from_re = r->data + re->begin, *from_im = r->data + im->begin;
  for (int64_t i = 0, n = sn_shape_elements(&shape); i < n; i++, to += 2 * each) {
    memcpy(to, from_re + (size_t)i * each, each);
    memcpy(to + each, from_im + (size_t)i * each, each);
  }
  return SN_OK;
}

static sn_status true_type(const reader *r, const tensor *t, sn_type *out) {
  sn_str key = {0};
  sn_str_add(&key, SN_FILES_TYPE_KEY);
  sn_str_add(&key, t->name);
  const char *text = key.failed ? NULL : sn_bundle_metadata(r->out, key.data);
  sn_status status = key.failed ? sn_out_of_memory(r->in->d, key.n) : SN_OK;
  *out = t->type;
  if (text) status = sn_files_true_type(r->in, t->name, text, t->type, out);
  sn_str_finish(&key);
  return status;
}

static sn_status take_tensor(const reader *r, const tensor *t, sn_str *name, sn_array **out) {
  if (find_half(r, t, ".im", ".re", name)) return SN_OK; /* comes with the other half */
  const tensor *im = find_half(r, t, ".re", ".im", name);
  if (name->failed) return sn_out_of_memory(r->in->d, 0);
  if (im) return join(r, t, im, out);
  sn_str_clear(name);
  sn_str_add(name, t->name);
  if (name->failed) return sn_out_of_memory(r->in->d, 0);
  sn_shape shape = tensor_shape(t);
  SN_TRY(true_type(r, t, &shape.type));
  return sn_files_take(r->in, &shape, r->data + t->begin, out);
}

static sn_status take_tensors(const reader *r) {
  sn_str name = {0};
  sn_status status = SN_OK;
  for (size_t i = 0; i < r->n && status == SN_OK; i++) {
    sn_array *a = NULL;
    status = take_tensor(r, &r->tensors[i], &name, &a);
    if (status == SN_OK && a && sn_bundle_set(r->out, name.data, a) != SN_OK) status = sn_out_of_memory(r->in->d, 0);
    sn_array_release(a);
  }
  sn_str_finish(&name);
  return status;
}

static sn_status read_tree(reader *r, const cJSON *root) {
  SN_TRY(parse_tensors(r, root));
  SN_TRY(check_cover(r));
  return take_tensors(r);
}

sn_status sn_safetensors_read(const sn_files_input *in, sn_bundle *out) {
  const char *text = NULL;
  size_t n = 0;
  SN_TRY(find_header(in, &text, &n));
  reader r = {.in = in, .data = (const uint8_t *)text + n, .data_bytes = in->n_bytes - 8 - n, .out = out};
  if (sn_map_create(&r.names) != SN_OK) return sn_out_of_memory(in->d, 0);
  cJSON *root = NULL;
  sn_status status = parse_json(in, text, n, &root);
  if (status == SN_OK) status = read_tree(&r, root);
  cJSON_Delete(root);
  sn_map_destroy(r.names);
  sn_free(r.tensors);
  return status;
}
