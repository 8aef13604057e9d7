/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The names of the text: one open-addressing table whose keys point into the text, so that looking up an operand allocates nothing. */
#include "text_internal.h"

#include <string.h>

#define NAMES_FIRST 64u
#define NAMES_HINTED 4096u /* "did you mean" looks at no more names than this */

static uint64_t names_hash(uint32_t scope, sn_span name) { return sn_hash(name.s, name.n, scope); }

static uint32_t *names_cell(const sn_tx_names *t, uint64_t hash, uint32_t scope, sn_span name) {
  for (uint32_t at = (uint32_t)hash & t->mask;; at = (at + 1) & t->mask) {
    uint32_t cell = t->table[at];
    if (cell == 0) return &t->table[at];
    const sn_tx_name *e = &t->entries[cell - 1];
    if (e->hash == hash && e->scope == scope && e->n == name.n && memcmp(e->s, name.s, name.n) == 0) return &t->table[at];
  }
}

sn_tx_name *sn_tx_find(const sn_tx *p, uint32_t scope, sn_span name) {
  const sn_tx_names *t = &p->names;
  if (t->n == 0) return NULL;
  uint32_t cell = *names_cell(t, names_hash(scope, name), scope, name);
  return cell != 0 ? &t->entries[cell - 1] : NULL;
}

static sn_status names_grow(sn_tx_names *t) {
  uint32_t cap = t->cap != 0 ? t->cap * 2 : NAMES_FIRST;
  if (cap > UINT32_MAX / 4) return SN_ERR_OVERFLOW;
  sn_tx_name *entries = sn_realloc(t->entries, cap * sizeof *entries);
  if (entries == NULL) return SN_ERR_MEMORY;
  t->entries = entries;
  uint32_t *table = sn_alloc_zero((size_t)cap * 2, sizeof *table);
  if (table == NULL) return SN_ERR_MEMORY; /* cap stays: the next call tries again */
  sn_free(t->table);
  t->table = table;
  t->mask = cap * 2 - 1;
  t->cap = cap;
  for (uint32_t i = 0; i < t->n; i++) {
    uint32_t at = (uint32_t)entries[i].hash & t->mask;
    while (table[at] != 0) at = (at + 1) & t->mask;
    table[at] = i + 1;
  }
  return SN_OK;
}

sn_status sn_tx_define(sn_tx *p, uint32_t scope, sn_span name, void *value) {
  sn_tx_names *t = &p->names;
  if (t->n == t->cap && names_grow(t) != SN_OK) return sn_tx_memory(p);
  uint64_t hash = names_hash(scope, name);
  uint32_t *cell = names_cell(t, hash, scope, name);
  sn_assert(*cell == 0);
  t->entries[t->n++] = (sn_tx_name){name.s, (uint32_t)name.n, scope, hash, value};
  *cell = t->n;
  return SN_OK;
}

/* Is the name defined later on? Looks for `name =` or, for a computation, `name (` and `name {` at the start of a line. */
static const char *names_later(const sn_tx *p, uint32_t scope, sn_span name) {
  for (const char *at = p->at; (at = strchr(at, '\n')) != NULL;) {
    while (sn_tx_is(*at, SN_TX_SPACE)) at++;
    if (scope != 0 && *at == '}') return NULL;
    if (strncmp(at, "ROOT ", 5) == 0) at += 5;
    const char *begin = at;
    if (*at == '%') at++;
    if (strncmp(at, name.s, name.n) != 0 || sn_tx_is(at[name.n], SN_TX_IDENT)) continue;
    const char *behind = at + name.n + (at[name.n] == ' ');
    if (scope != 0 ? *behind == '=' : *behind == '(' || *behind == '{') return begin;
  }
  return NULL;
}

void sn_tx_hint_name(sn_tx *p, uint32_t scope, sn_span name) {
  if (p->n_faults > SN_TX_MAX_FAULTS / 8) return; /* both looks are linear in the text */
  const char *later = names_later(p, scope, name);
  if (later != NULL) {
    sn_hint(p->d, "it is defined in line %u; definitions come before uses", (unsigned)sn_tx_loc(p, later).line);
    return;
  }
  const char **words = sn_arena_alloc(p->scratch, NAMES_HINTED * sizeof *words);
  size_t n = 0;
  for (uint32_t i = p->names.n; words != NULL && i-- > 0 && n < NAMES_HINTED;) {
    const sn_tx_name *e = &p->names.entries[i];
    if (e->scope == scope) words[n++] = sn_tx_cstring(p, (sn_span){e->s, e->n});
  }
  if (n != 0) sn_tx_hint_nearest(p, name, words, n);
}

/* From the start, so that v + from is a pointer even where nothing was pushed. */
sn_status sn_tx_stack_init(sn_tx *p) {
  p->stack.v = sn_alloc(NAMES_FIRST * sizeof *p->stack.v);
  if (p->stack.v == NULL) return sn_tx_memory(p);
  p->stack.cap = NAMES_FIRST;
  return SN_OK;
}

sn_status sn_tx_push(sn_tx *p, void *v) {
  sn_tx_stack *s = &p->stack;
  if (s->n == s->cap) {
    uint32_t cap = s->cap * 2;
    void **grown = cap < UINT32_MAX / 4 ? sn_realloc(s->v, cap * sizeof *grown) : NULL;
    if (grown == NULL) return sn_tx_memory(p);
    s->v = grown;
    s->cap = cap;
  }
  s->v[s->n++] = v;
  return SN_OK;
}
