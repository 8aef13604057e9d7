/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#include "files_internal.h"

#include <string.h>

typedef struct bundle_entry {
  char *name;
  sn_array *array;
} bundle_entry;

typedef struct bundle_pair {
  char *key, *value;
} bundle_pair;

struct sn_bundle {
  bundle_entry *entries;
  bundle_pair *pairs;
  size_t n_entries, cap_entries, n_pairs, cap_pairs;
  sn_map *by_name, *by_key; /* to index */
};

sn_status sn_bundle_create(sn_bundle **out) {
  *out = NULL;
  sn_bundle *b = sn_alloc_zero(1, sizeof *b);
  if (!b) return SN_ERR_MEMORY;
  if (sn_map_create(&b->by_name) != SN_OK || sn_map_create(&b->by_key) != SN_OK) {
    sn_bundle_destroy(b);
    return SN_ERR_MEMORY;
  }
  *out = b;
  return SN_OK;
}

void sn_bundle_destroy(sn_bundle *b) {
  if (!b) return;
  for (size_t i = 0; i < b->n_entries; i++) {
    sn_free(b->entries[i].name);
    sn_array_release(b->entries[i].array);
  }
  for (size_t i = 0; i < b->n_pairs; i++) {
    sn_free(b->pairs[i].key);
    sn_free(b->pairs[i].value);
  }
  sn_free(b->entries);
  sn_free(b->pairs);
  sn_map_destroy(b->by_name);
  sn_map_destroy(b->by_key);
  sn_free(b);
}

static char *copy_text(const char *text) {
  size_t n = strlen(text) + 1;
  char *copy = sn_alloc(n);
  if (copy) memcpy(copy, text, n);
  return copy;
}

/* Room for one more item behind *items; false when memory lacks. */
static bool grow(void **items, size_t n, size_t *cap, size_t bytes_each) {
  if (n < *cap) return true;
  size_t wanted = *cap ? *cap * 2 : 16;
  if (wanted > SIZE_MAX / bytes_each) return false;
  void *grown = sn_realloc(*items, wanted * bytes_each);
  if (!grown) return false;
  *items = grown;
  *cap = wanted;
  return true;
}

static bool find(const sn_map *m, const char *key, size_t *index) {
  uint64_t value = 0;
  if (!sn_map_get(m, key, strlen(key), &value)) return false;
  *index = (size_t)value;
  return true;
}

sn_status sn_bundle_set(sn_bundle *b, const char *name, sn_array *a) {
  size_t i;
  if (!name || !a || !sn_shape_is_array(sn_array_shape(a))) return SN_ERR_USAGE;
  if (find(b->by_name, name, &i)) {
    sn_array *old = b->entries[i].array;
    b->entries[i].array = sn_array_retain(a);
    sn_array_release(old);
    return SN_OK;
  }
  void *entries = b->entries;
  bool grown = grow(&entries, b->n_entries, &b->cap_entries, sizeof *b->entries);
  b->entries = entries;
  char *copy = grown ? copy_text(name) : NULL;
  if (!copy) return SN_ERR_MEMORY;
  if (sn_map_set(b->by_name, name, strlen(name), b->n_entries) != SN_OK) {
    sn_free(copy);
    return SN_ERR_MEMORY;
  }
  b->entries[b->n_entries++] = (bundle_entry){copy, sn_array_retain(a)};
  return SN_OK;
}

sn_array *sn_bundle_get(const sn_bundle *b, const char *name) {
  size_t i;
  return find(b->by_name, name, &i) ? b->entries[i].array : NULL;
}

size_t sn_bundle_count(const sn_bundle *b) { return b->n_entries; }
const char *sn_bundle_name(const sn_bundle *b, size_t i) { return i < b->n_entries ? b->entries[i].name : NULL; }
sn_array *sn_bundle_at(const sn_bundle *b, size_t i) { return i < b->n_entries ? b->entries[i].array : NULL; }

static sn_status add_pair(sn_bundle *b, const char *key, char *value) {
  void *pairs = b->pairs;
  bool grown = grow(&pairs, b->n_pairs, &b->cap_pairs, sizeof *b->pairs);
  b->pairs = pairs;
  char *copy = grown ? copy_text(key) : NULL;
  if (!copy || sn_map_set(b->by_key, key, strlen(key), b->n_pairs) != SN_OK) {
    sn_free(copy);
    return SN_ERR_MEMORY;
  }
  b->pairs[b->n_pairs++] = (bundle_pair){copy, value};
  return SN_OK;
}

sn_status sn_bundle_set_metadata(sn_bundle *b, const char *key, const char *value) {
  size_t i;
  if (!key || !value) return SN_ERR_USAGE;
  char *copy = copy_text(value);
  if (!copy) return SN_ERR_MEMORY;
  if (find(b->by_key, key, &i)) {
    sn_free(b->pairs[i].value);
    b->pairs[i].value = copy;
    return SN_OK;
  }
  sn_status status = add_pair(b, key, copy);
  if (status != SN_OK) sn_free(copy);
  return status;
}

const char *sn_bundle_metadata(const sn_bundle *b, const char *key) {
  size_t i;
  return find(b->by_key, key, &i) ? b->pairs[i].value : NULL;
}

size_t sn_bundle_n_metadata(const sn_bundle *b) { return b->n_pairs; }

void sn_bundle_metadata_at(const sn_bundle *b, size_t i, const char **key, const char **value) {
  *key = b->pairs[i].key;
  *value = b->pairs[i].value;
}
