/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Open addressing over an array of entries in order of insertion.
 *
 *   table    [ . 3 . 1 x 2 . . ]      slot + 1; 0 empty, MAP_GONE erased
 *   entries  [ 0: "a" ][ 1: "b" ][ 2: erased ]...
 */
#include "sinter/base.h"

#include <string.h>

#define MAP_FIRST_TABLE 16u
#define MAP_FIRST_ENTRIES 8u
#define MAP_GONE UINT32_MAX
#define MAP_MAX_SLOTS (UINT32_MAX - 1)

typedef struct map_entry {
  uint64_t hash;
  uint64_t value;
  union {
    uint64_t word; /* aligns keys that are read as numbers */
    char bytes[8]; /* keys up to 8 bytes, all numbers among them, need no allocation */
    char *far;
  } key;
  size_t key_bytes;
  bool alive;
} map_entry;

struct sn_map {
  map_entry *entries;
  size_t n_slots, cap_slots;
  size_t n_alive;
  uint32_t *table;
  size_t table_size; /* power of two, or 0 */
  size_t table_used; /* not empty: alive or gone */
};

static bool map_key_is_near(size_t key_bytes) {
  return key_bytes <= sizeof((map_entry *)NULL)->key.bytes;
}

static const void *map_key(const map_entry *e) {
  return map_key_is_near(e->key_bytes) ? e->key.bytes : e->key.far;
}

sn_status sn_map_create(sn_map **out) {
  *out = sn_alloc_zero(1, sizeof **out);
  return *out != NULL ? SN_OK : SN_ERR_MEMORY;
}

static void map_free_key(map_entry *e) {
  if (e->alive && !map_key_is_near(e->key_bytes)) sn_free(e->key.far);
}

void sn_map_clear(sn_map *m) {
  for (size_t i = 0; i < m->n_slots; i++) map_free_key(&m->entries[i]);
  m->n_slots = m->n_alive = m->table_used = 0;
  if (m->table != NULL) memset(m->table, 0, m->table_size * sizeof *m->table);
}

void sn_map_destroy(sn_map *m) {
  if (m == NULL) return;
  sn_map_clear(m);
  sn_free(m->entries);
  sn_free(m->table);
  sn_free(m);
}

static bool map_matches(const map_entry *e, uint64_t hash, const void *key, size_t key_bytes) {
  return e->hash == hash && e->key_bytes == key_bytes &&
         (key_bytes == 0 || memcmp(map_key(e), key, key_bytes) == 0);
}

/* The table cell of the key, or NULL. */
static uint32_t *map_find(const sn_map *m, uint64_t hash, const void *key, size_t key_bytes) {
  if (m->n_alive == 0) return NULL;
  size_t mask = m->table_size - 1;
  for (size_t at = (size_t)hash & mask;; at = (at + 1) & mask) {
    uint32_t cell = m->table[at];
    if (cell == 0) return NULL;
    if (cell != MAP_GONE && map_matches(&m->entries[cell - 1], hash, key, key_bytes)) {
      return &m->table[at];
    }
  }
}

static void map_place(uint32_t *table, size_t size, uint64_t hash, uint32_t cell) {
  size_t at = (size_t)hash & (size - 1);
  while (table[at] != 0) at = (at + 1) & (size - 1);
  table[at] = cell;
}

/* Keeps a quarter of the table empty; a table full of erased cells is rebuilt at the size it needs. */
static sn_status map_reserve_table(sn_map *m) {
  if (m->table_used + 1 <= m->table_size / 4 * 3) return SN_OK;
  size_t size = MAP_FIRST_TABLE;
  while (m->n_alive + 1 > size / 2) size *= 2;
  uint32_t *table = sn_alloc_zero(size, sizeof *table);
  if (table == NULL) return SN_ERR_MEMORY;
  for (size_t i = 0; i < m->n_slots; i++) {
    if (m->entries[i].alive) map_place(table, size, m->entries[i].hash, (uint32_t)i + 1);
  }
  sn_free(m->table);
  m->table = table;
  m->table_size = size;
  m->table_used = m->n_alive;
  return SN_OK;
}

static sn_status map_reserve_slot(sn_map *m) {
  if (m->n_slots < m->cap_slots) return SN_OK;
  if (m->n_slots >= MAP_MAX_SLOTS) return SN_ERR_OVERFLOW;
  size_t cap = m->cap_slots != 0 ? m->cap_slots * 2 : MAP_FIRST_ENTRIES;
  map_entry *entries = sn_realloc(m->entries, cap * sizeof *entries);
  if (entries == NULL) return SN_ERR_MEMORY;
  m->entries = entries;
  m->cap_slots = cap;
  return SN_OK;
}

static sn_status map_copy_key(map_entry *e, const void *key, size_t key_bytes) {
  e->key_bytes = key_bytes;
  e->key.word = 0;
  char *to = e->key.bytes;
  if (!map_key_is_near(key_bytes)) {
    to = sn_alloc(key_bytes);
    if (to == NULL) return SN_ERR_MEMORY;
    e->key.far = to;
  }
  if (key_bytes != 0) memcpy(to, key, key_bytes);
  return SN_OK;
}

/* Whatever can fail comes before the first change that shows. */
sn_status sn_map_set(sn_map *m, const void *key, size_t key_bytes, uint64_t value) {
  uint64_t hash = sn_hash(key, key_bytes, 0);
  uint32_t *cell = map_find(m, hash, key, key_bytes);
  if (cell != NULL) {
    m->entries[*cell - 1].value = value;
    return SN_OK;
  }
  map_entry e = {.hash = hash, .value = value, .alive = true};
  SN_TRY(map_reserve_slot(m));
  SN_TRY(map_reserve_table(m));
  SN_TRY(map_copy_key(&e, key, key_bytes));
  m->entries[m->n_slots++] = e;
  map_place(m->table, m->table_size, hash, (uint32_t)m->n_slots);
  m->table_used++;
  m->n_alive++;
  return SN_OK;
}

bool sn_map_get(const sn_map *m, const void *key, size_t key_bytes, uint64_t *value) {
  const uint32_t *cell = map_find(m, sn_hash(key, key_bytes, 0), key, key_bytes);
  if (cell == NULL) return false;
  if (value != NULL) *value = m->entries[*cell - 1].value;
  return true;
}

bool sn_map_erase(sn_map *m, const void *key, size_t key_bytes) {
  uint32_t *cell = map_find(m, sn_hash(key, key_bytes, 0), key, key_bytes);
  if (cell == NULL) return false;
  map_entry *e = &m->entries[*cell - 1];
  map_free_key(e);
  e->alive = false;
  *cell = MAP_GONE;
  m->n_alive--;
  return true;
}

sn_status sn_map_set_str(sn_map *m, const char *key, void *value) {
  return sn_map_set(m, key, strlen(key), (uint64_t)(uintptr_t)value);
}

static void *map_get_pointer(const sn_map *m, const void *key, size_t key_bytes) {
  uint64_t value = 0;
  return sn_map_get(m, key, key_bytes, &value) ? (void *)(uintptr_t)value : NULL;
}

void *sn_map_get_str(const sn_map *m, const char *key) {
  return map_get_pointer(m, key, strlen(key));
}

sn_status sn_map_set_u64(sn_map *m, uint64_t key, void *value) {
  return sn_map_set(m, &key, sizeof key, (uint64_t)(uintptr_t)value);
}

void *sn_map_get_u64(const sn_map *m, uint64_t key) {
  return map_get_pointer(m, &key, sizeof key);
}

size_t sn_map_count(const sn_map *m) {
  return m->n_alive;
}

size_t sn_map_slots(const sn_map *m) {
  return m->n_slots;
}

bool sn_map_at(const sn_map *m, size_t i, const void **key, size_t *key_bytes, uint64_t *value) {
  if (i >= m->n_slots || !m->entries[i].alive) return false;
  const map_entry *e = &m->entries[i];
  if (key != NULL) *key = map_key(e);
  if (key_bytes != NULL) *key_bytes = e->key_bytes;
  if (value != NULL) *value = e->value;
  return true;
}
