/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Names of values. A region sees the names around it, a function none: bindings are a stack, with a map from each name to its innermost one. */
#include <inttypes.h>
#include <string.h>

#include "text.h"

static sn_status grow(sn_mx *p) {
  if (p->n_bindings < p->cap_bindings) return SN_OK;
  uint32_t cap = p->cap_bindings ? p->cap_bindings * 2 : 64;
  sn_mx_binding *v = sn_realloc(p->bindings, cap * sizeof *v);
  if (v == NULL) return sn_mx_memory(p);
  p->bindings = v;
  p->cap_bindings = cap;
  return SN_OK;
}

sn_status sn_mx_bind(sn_mx *p, const char *at, sn_mx_span name, sn_mlir_value *first, uint32_t n) {
  SN_TRY(grow(p));
  uint64_t before = 0;
  sn_map_get(p->names, name.s, name.n, &before);
  if (before > p->floor) {
    sn_status s = sn_mx_fail(p, at, SN_ERR_NAME, "%%%.*s is defined twice", (int)name.n, name.s);
    sn_hint(p->d, "each name of a function stands for one value, also within its regions");
    return s;
  }
  const char *key = sn_mx_copy(p, name);
  if (key == NULL || sn_map_set(p->names, name.s, name.n, p->n_bindings + 1) != SN_OK) return sn_mx_memory(p);
  p->bindings[p->n_bindings++] = (sn_mx_binding){first, n, key, name.n, (uint32_t)before};
  for (uint32_t i = 0; i < n; i++) first[i].name = key;
  return SN_OK;
}

void sn_mx_unbind(sn_mx *p, uint32_t to) {
  while (p->n_bindings > to) {
    const sn_mx_binding *b = &p->bindings[--p->n_bindings];
    if (b->before == 0 || sn_map_set(p->names, b->key, b->key_n, b->before) != SN_OK) (void)sn_map_erase(p->names, b->key, b->key_n);
  }
}

sn_status sn_mx_value_name(sn_mx *p, sn_mx_span *out) {
  if (!sn_mx_accept(p, '%')) return sn_mx_expected(p, "a value (%name)");
  const char *begin = p->at;
  while (sn_mx_is_word(*p->at) || *p->at == '-') p->at++;
  if (p->at > begin && p->at[-1] == '-') p->at--; /* of `->` */
  if (p->at == begin) return sn_mx_expected(p, "a name behind `%`");
  *out = (sn_mx_span){begin, (size_t)(p->at - begin)};
  return SN_OK;
}

static sn_status unknown(sn_mx *p, const char *at, sn_mx_span name) {
  sn_status s = sn_mx_fail(p, at, SN_ERR_NAME, "%%%.*s is not defined here", (int)name.n, name.s);
  const char *names[64];
  size_t n = 0;
  for (uint32_t i = p->n_bindings; i > p->floor && n < 64; i--) names[n++] = p->bindings[i - 1].key;
  const char *word = sn_mx_copy(p, name), *near = word != NULL ? sn_nearest(word, names, n) : NULL;
  if (near != NULL) sn_hint(p->d, "did you mean %%%s?", near);
  else sn_hint(p->d, "a value must be defined above its use, in the same function");
  return s;
}

sn_status sn_mx_use(sn_mx *p, sn_mlir_value **out) {
  *out = NULL;
  sn_mx_skip(p);
  const char *at = p->at;
  sn_mx_span name;
  SN_TRY(sn_mx_value_name(p, &name));
  int64_t number = 0;
  if (*p->at == '#') {
    p->at++;
    SN_TRY(sn_mx_int(p, "a result's number behind `#`", &number));
  }
  uint64_t k = 0;
  if (!sn_map_get(p->names, name.s, name.n, &k) || k <= p->floor) return unknown(p, at, name);
  const sn_mx_binding *b = &p->bindings[k - 1];
  if (number < 0 || number >= b->n)
    return sn_mx_fail(p, at, SN_ERR_NAME, "%%%s has %" PRIu32 " value%s, found number %" PRId64, b->key, b->n, b->n == 1 ? "" : "s", number);
  *out = &b->first[number];
  return SN_OK;
}
