/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Debug tables: a heading alone on its line, then numbered lines; ids count from 1 without gaps. */
#include "text_internal.h"

#include <inttypes.h>
#include <string.h>

/* Lines ahead that begin with a digit. */
static int64_t tables_count(const char *at) {
  int64_t n = 0;
  for (;; n++) {
    while (sn_tx_is(*at, SN_TX_SPACE)) at++;
    if (!sn_tx_is(*at, SN_TX_DIGIT)) return n;
    at += strcspn(at, "\n");
  }
}

static sn_status tables_id(sn_tx *p, int64_t want) {
  sn_tx_skip(p);
  const char *at = p->at;
  int64_t id = 0;
  SN_TRY(sn_tx_int(p, "an id", &id));
  if (id == want) return SN_OK;
  return sn_tx_fail(p, at, SN_ERR_SYNTAX, "expected id %" PRId64 " (ids count from 1 without gaps), found %" PRId64, want, id);
}

static sn_status tables_strings(sn_tx *p, int64_t *n, const char ***out) {
  int64_t count = tables_count(p->at);
  const char **v = SN_NEW_N(p->keep, const char *, count);
  if (v == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < count; i++) {
    SN_TRY(tables_id(p, i + 1));
    SN_TRY(sn_tx_string(p, p->keep, &v[i], NULL));
  }
  *n = count;
  *out = v;
  return SN_OK;
}

/* {key=int key=int …} into the int32 fields of a struct, in the order of `keys`. */
static sn_status tables_record(sn_tx *p, const char *const *keys, int n_keys, int32_t *fields) {
  SN_TRY(sn_tx_need(p, '{', "before a record"));
  while (!sn_tx_accept(p, '}')) {
    sn_tx_skip(p);
    const char *at = p->at;
    sn_span key;
    int64_t v = 0;
    int k = 0;
    SN_TRY(sn_tx_ident(p, "a key or `}`", &key));
    while (k < n_keys && !sn_tx_span_is(key, keys[k])) k++;
    if (k == n_keys) {
      sn_status s = sn_tx_fail(p, at, SN_ERR_ATTRIBUTE, "expected a key of this table, found `%s`", sn_tx_cstring(p, key));
      sn_tx_hint_nearest(p, key, keys, (size_t)n_keys);
      return s;
    }
    SN_TRY(sn_tx_need(p, '=', "after a key"));
    SN_TRY(sn_tx_int_in(p, keys[k], INT32_MIN, INT32_MAX, &v));
    fields[k] = (int32_t)v;
  }
  return SN_OK;
}

static sn_status tables_locations(sn_tx *p, sn_debug_tables *t) {
  static const char *const keys[] = {"file_name_id", "function_name_id", "line", "end_line", "column", "end_column"};
  int64_t n = tables_count(p->at);
  t->locations = SN_NEW_N(p->keep, sn_file_location, n);
  if (t->locations == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < n; i++) {
    int32_t f[6] = {0};
    SN_TRY(tables_id(p, i + 1));
    SN_TRY(tables_record(p, keys, 6, f));
    t->locations[i] = (sn_file_location){f[0], f[1], f[2], f[3], f[4], f[5]};
  }
  t->n_locations = n;
  return SN_OK;
}

static sn_status tables_frames(sn_tx *p, sn_debug_tables *t) {
  static const char *const keys[] = {"file_location_id", "parent_frame_id"};
  int64_t n = tables_count(p->at);
  t->frames = SN_NEW_N(p->keep, sn_stack_frame, n);
  if (t->frames == NULL) return sn_tx_memory(p);
  for (int64_t i = 0; i < n; i++) {
    int32_t f[2] = {0};
    SN_TRY(tables_id(p, i + 1));
    SN_TRY(tables_record(p, keys, 2, f));
    t->frames[i] = (sn_stack_frame){f[0], f[1]};
  }
  t->n_frames = n;
  return SN_OK;
}

static sn_status tables_one(sn_tx *p, bool *found) {
  sn_debug_tables *t = &p->m->debug;
  *found = true;
  if (sn_tx_accept_word(p, "FileNames")) return tables_strings(p, &t->n_files, &t->files);
  if (sn_tx_accept_word(p, "FunctionNames")) return tables_strings(p, &t->n_functions, &t->functions);
  if (sn_tx_accept_word(p, "FileLocations")) return tables_locations(p, t);
  if (sn_tx_accept_word(p, "StackFrames")) return tables_frames(p, t);
  *found = false;
  return SN_OK;
}

/* After a fault: the next line that is neither numbered nor blank. */
static void tables_skip(sn_tx *p) {
  do {
    p->at += strcspn(p->at, "\n");
    while (sn_tx_is(*p->at, SN_TX_SPACE)) p->at++;
  } while (sn_tx_is(*p->at, SN_TX_DIGIT));
}

sn_status sn_tx_debug_tables(sn_tx *p) {
  for (bool found = true; found;) {
    sn_status s = tables_one(p, &found);
    if (s == SN_ERR_MEMORY) return s;
    if (s != SN_OK) tables_skip(p);
  }
  return SN_OK;
}
