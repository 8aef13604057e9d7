/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "sinter/json.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

static sn_loc loc_of_offset(const sn_json *j, size_t at) {
  sn_loc loc = {j->path, 1, 1};
  for (size_t i = 0; i < at && i < j->n_bytes; i++) {
    bool newline = j->text[i] == '\n';
    loc.line += newline;
    loc.col = newline ? 1 : loc.col + 1;
  }
  return loc;
}

/* out->text is owned already. */
static sn_status parse_text(sn_diag *d, const char *path, sn_json *out) {
  sn_diag_set_source(d, path, out->text, out->n_bytes);
  const char *end = out->text;
  out->root = cJSON_ParseWithLengthOpts(out->text, out->n_bytes, &end, false);
  if (out->root && cJSON_IsObject(out->root)) return SN_OK;
  sn_status s = sn_error(d, loc_of_offset(out, out->root ? 0 : (size_t)(end - out->text)), SN_ERR_SYNTAX,
                         out->root ? "expected a JSON object" : "not valid JSON from here on");
  if (out->n_bytes == 0) sn_hint(d, "the file is empty");
  sn_json_finish(out);
  return s;
}

sn_status sn_json_read(sn_diag *d, const char *path, sn_json *out) {
  *out = (sn_json){.d = d, .path = path};
  SN_TRY(sn_file_read(d, path, &out->text, &out->n_bytes));
  return parse_text(d, path, out);
}

sn_status sn_json_parse(sn_diag *d, const char *path, const char *text, size_t n_bytes, sn_json *out) {
  *out = (sn_json){.d = d, .path = path, .text = sn_alloc(n_bytes + 1), .n_bytes = n_bytes};
  if (!out->text) return sn_out_of_memory(d, n_bytes + 1);
  memcpy(out->text, text, n_bytes);
  out->text[n_bytes] = 0;
  return parse_text(d, path, out);
}

void sn_json_finish(sn_json *j) {
  if (j->path) sn_diag_set_source(j->d, j->path, NULL, 0);
  cJSON_Delete(j->root);
  sn_free(j->text);
  *j = (sn_json){0};
}

sn_loc sn_json_loc(const sn_json *j, const char *key) {
  size_t n = strlen(key);
  for (const char *p = j->text; p && (p = strstr(p, key)); p++) {
    if (p > j->text && p[-1] == '"' && p[n] == '"') return loc_of_offset(j, (size_t)(p - 1 - j->text));
  }
  return (sn_loc){j->path, 0, 0};
}

static const cJSON *entry_of(const cJSON *object, const char *key) {
  const cJSON *e = cJSON_GetObjectItemCaseSensitive(object, key);
  return e && !cJSON_IsNull(e) ? e : NULL;
}

const cJSON *sn_json_entry(const sn_json *j, const char *key) { return entry_of(j->root, key); }

static sn_status wrong_type(const sn_json *j, const char *key, const char *expected) {
  return sn_error(j->d, sn_json_loc(j, key), SN_ERR_ATTRIBUTE, "`%s` must be %s", key, expected);
}

sn_status sn_json_int(const sn_json *j, const cJSON *object, const char *key, int64_t least, int64_t most, int64_t *out) {
  const cJSON *e = entry_of(object, key);
  if (!e) return SN_OK;
  double v = cJSON_IsNumber(e) ? e->valuedouble : NAN;
  if (!(v == floor(v)) || fabs(v) > 9e15) return wrong_type(j, key, "a whole number");
  if (v < (double)least || v > (double)most)
    return sn_error(j->d, sn_json_loc(j, key), SN_ERR_ATTRIBUTE, "`%s` is %lld; it must lie between %lld and %lld", key, (long long)v, (long long)least,
                    (long long)most);
  *out = (int64_t)v;
  return SN_OK;
}

sn_status sn_json_number(const sn_json *j, const cJSON *object, const char *key, double *out) {
  const cJSON *e = entry_of(object, key);
  if (!e) return SN_OK;
  if (!cJSON_IsNumber(e) || !isfinite(e->valuedouble)) return wrong_type(j, key, "a number");
  *out = e->valuedouble;
  return SN_OK;
}

sn_status sn_json_bool(const sn_json *j, const cJSON *object, const char *key, bool *out) {
  const cJSON *e = entry_of(object, key);
  if (!e) return SN_OK;
  if (!cJSON_IsBool(e)) return wrong_type(j, key, "true or false");
  *out = cJSON_IsTrue(e);
  return SN_OK;
}

sn_status sn_json_text(const sn_json *j, const cJSON *object, const char *key, const char **out) {
  const cJSON *e = entry_of(object, key);
  if (!e) return SN_OK;
  if (!cJSON_IsString(e)) return wrong_type(j, key, "a string");
  *out = e->valuestring;
  return SN_OK;
}
