/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* JSON files with located errors: config.json, preprocessor_config.json. Parsing is cJSON's. */
#ifndef SINTER_JSON_H
#define SINTER_JSON_H

#include "sinter/base.h"

#ifdef __cplusplus
extern "C" {
#endif

struct cJSON;

typedef struct sn_json {
  sn_diag *d;
  const char *path; /* borrowed */
  char *text;
  size_t n_bytes;
  struct cJSON *root; /* an object */
} sn_json;

/* Reads a file that must hold one object. Syntax errors at file:line:col. `path` and d must outlive the result. */
SN_NODISCARD sn_status sn_json_read(sn_diag *d, const char *path, sn_json *out);
/* The same for a text in memory (copied), called `path` in messages. */
SN_NODISCARD sn_status sn_json_parse(sn_diag *d, const char *path, const char *text, size_t n_bytes, sn_json *out);
void sn_json_finish(sn_json *j);

/* Where the key first stands in the text; the file alone when it does not. */
sn_loc sn_json_loc(const sn_json *j, const char *key);
/* An entry of the root; NULL when absent or null. */
const struct cJSON *sn_json_entry(const sn_json *j, const char *key);

/* Absent or null keeps *out; another type or a number out of range is an error at the key. */
SN_NODISCARD sn_status sn_json_int(const sn_json *j, const struct cJSON *object, const char *key, int64_t least, int64_t most, int64_t *out);
SN_NODISCARD sn_status sn_json_number(const sn_json *j, const struct cJSON *object, const char *key, double *out);
SN_NODISCARD sn_status sn_json_bool(const sn_json *j, const struct cJSON *object, const char *key, bool *out);
/* *out borrowed from j. */
SN_NODISCARD sn_status sn_json_text(const sn_json *j, const struct cJSON *object, const char *key, const char **out);

#ifdef __cplusplus
}
#endif
#endif
