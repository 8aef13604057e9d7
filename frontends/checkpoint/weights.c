/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include <cjson/cJSON.h>
#include <string.h>

#include "sinter/checkpoint.h"
#include "sinter/json.h"

static char *join(const char *dir, const char *name) {
  sn_str s = {0};
  sn_str_printf(&s, "%s/%s", dir, name);
  if (!s.failed) return s.data;
  sn_str_finish(&s);
  return NULL;
}

static sn_status add_all(sn_diag *d, const char *path, sn_bundle *to) {
  sn_bundle *part = NULL;
  SN_TRY(sn_files_read(d, path, &part));
  sn_status s = SN_OK;
  for (size_t i = 0; s == SN_OK && i < sn_bundle_count(part); i++) s = sn_bundle_set(to, sn_bundle_name(part, i), sn_bundle_at(part, i));
  sn_bundle_destroy(part);
  return s == SN_OK ? s : sn_error(d, (sn_loc){path, 0, 0}, s, "%s", sn_status_text(s));
}

/* Each part once, in order of appearance. A part must lie in the folder itself: the index is not trusted with paths. */
static sn_status read_parts(sn_diag *d, const char *dir, const sn_json *index, sn_bundle *to) {
  const cJSON *map = sn_json_entry(index, "weight_map");
  sn_map *seen = NULL;
  if (!map || !cJSON_IsObject(map)) return sn_error(d, sn_json_loc(index, "weight_map"), SN_ERR_CORRUPT, "`weight_map` must be an object");
  SN_TRY(sn_map_create(&seen));
  sn_status s = SN_OK;
  for (const cJSON *e = map->child; s == SN_OK && e; e = e->next) {
    const char *name = cJSON_IsString(e) ? e->valuestring : "";
    if (!*name || strchr(name, '/')) s = sn_error(d, sn_json_loc(index, e->string), SN_ERR_CORRUPT, "`%s`: not the name of a file in this folder", name);
    if (s != SN_OK || sn_map_get_str(seen, name)) continue;
    char *path = join(dir, name);
    s = path ? add_all(d, path, to) : sn_out_of_memory(d, strlen(name));
    if (s == SN_OK) s = sn_map_set_str(seen, name, seen);
    sn_free(path);
  }
  sn_map_destroy(seen);
  return s;
}

static sn_status read_index(sn_diag *d, const char *dir, const char *path, sn_bundle **out) {
  sn_json index;
  SN_TRY(sn_json_read(d, path, &index));
  sn_status s = sn_bundle_create(out);
  if (s == SN_OK) s = read_parts(d, dir, &index, *out);
  sn_json_finish(&index);
  if (s != SN_OK) {
    sn_bundle_destroy(*out);
    *out = NULL;
  }
  return s;
}

static bool is_folder(const char *path) {
  char *inside = join(path, ".");
  bool yes = inside && sn_file_exists(inside);
  sn_free(inside);
  return yes;
}

static sn_status read_folder(sn_diag *d, const char *dir, sn_bundle **out, char **file) {
  char *index = join(dir, "model.safetensors.index.json");
  *file = join(dir, "model.safetensors");
  sn_status s = SN_OK;
  if (!index || !*file) s = sn_out_of_memory(d, strlen(dir));
  else if (sn_file_exists(*file) || !sn_file_exists(index)) s = sn_files_read(d, *file, out);
  else s = read_index(d, dir, index, out);
  sn_free(index);
  return s;
}

sn_status sn_weights_read(sn_diag *d, const char *path, sn_bundle **out, char **file) {
  *out = NULL;
  *file = NULL;
  sn_status s;
  if (is_folder(path)) {
    s = read_folder(d, path, out, file);
  } else {
    sn_str copy = {0};
    sn_str_add(&copy, path);
    *file = copy.data;
    s = copy.failed ? sn_out_of_memory(d, strlen(path)) : sn_files_read(d, path, out);
  }
  if (s == SN_OK) return s;
  sn_free(*file);
  *file = NULL;
  return s;
}

sn_status sn_weights_write(sn_diag *d, const char *dir, const sn_bundle *weights) {
  sn_bundle *b = NULL;
  char *path = join(dir, "model.safetensors");
  sn_status s = path ? sn_bundle_create(&b) : SN_ERR_MEMORY;
  for (size_t i = 0; s == SN_OK && i < sn_bundle_count(weights); i++) s = sn_bundle_set(b, sn_bundle_name(weights, i), sn_bundle_at(weights, i));
  if (s == SN_OK) s = sn_bundle_set_metadata(b, "format", "pt"); /* transformers refuses a file without it */
  if (s != SN_OK) s = sn_out_of_memory(d, strlen(dir));
  if (s == SN_OK) s = sn_dir_make(d, dir);
  if (s == SN_OK) s = sn_files_write(d, path, b);
  sn_bundle_destroy(b);
  sn_free(path);
  return s;
}
